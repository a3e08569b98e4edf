"""Measures a sum of several lanes: each lane, its parts, and the observed coefficients."""

from __future__ import annotations

from typing import Callable, List, Optional, Tuple

import torch
from torch import Tensor

from ..._structure import dtype_name
from ..find.lane_coefficients import RecordedCarry, find_carry, find_gate
from ..find.lanes import Layout, precision_of
from ..find.parts import Sum
from ..fit.batch import Numbers, fit_now
from ..fit.lanes import LaneRows, Solution, explain, lane_numbers, together
from ..fit.values import activation_numbers, read_activation, wide


class LaneMeasurement:
    """Measures one sum of lanes.

    shape: the stream's shape, with one row for each token. rows: returns the measured rows and their stride.
    """

    def __init__(self, total: Sum, shape: torch.Size,
                 rows: Callable[[Tensor, torch.Size], Tuple[Tensor, int]]):
        self._sum, self._shape, self._rows = total, shape, rows

    def numbers(self) -> List[Numbers]:
        """Returns the numbers of each lane. The first lane's numbers include those of all lanes together."""
        site = self._sum.lanes
        lanes = self._lanes(site.layout_after, self._sum.total.numbers)
        values = LaneRows(
            together(self._lanes(site.layout, site.before.numbers)), self._tokens(self._sum.branch.numbers),
            together(lanes), precision_of(self._sum.total, site.before, self._sum.branch))
        numbers = [read_activation(fit_now(activation_numbers, [rows], True), rows.shape, stride)
                   for rows, stride in lanes]
        if not all(torch.isfinite(t).all() for t in values[:3]):
            return numbers
        found, carry = explain(values), find_carry(self._sum, values, self._tokens)
        of_lanes = lane_numbers(found, None if carry is None else carry.of, values)
        numbers = [{**lane, **more} for lane, more in zip(numbers, of_lanes)]
        numbers[0].update(self._coefficients(found, carry, values))
        return numbers

    def _coefficients(self, found: Solution, carry: Optional[RecordedCarry], values: LaneRows) -> Numbers:
        numbers: Numbers = {}
        if carry is not None:
            numbers["coefficients"] = carry.dtype
            numbers["dtype"] = dtype_name(self._sum.total.tensor)
            if carry.is_transpose is not None:
                numbers["carry_transposed"] = int(carry.is_transpose)
        n = values.before.shape[1]
        if found.of.shape[-1] > n:
            gate = find_gate(self._sum, found.of[..., n], self._tokens)
            numbers.update({} if gate is None else {"write_gate": gate})
        return numbers

    def _tokens(self, values: Tensor) -> Tensor:
        """Returns [rows, k] for the measured tokens."""
        shape = torch.Size((*self._shape[:-1], values.shape[-1]))
        return wide(self._rows(values.reshape(shape), shape)[0]).flatten(0, 1)

    def _lanes(self, layout: Layout, numbers: Tensor) -> List[Tuple[Tensor, int]]:
        return [self._rows(lane.reshape(self._shape), self._shape) for lane in layout.rows(numbers).unbind(1)]
