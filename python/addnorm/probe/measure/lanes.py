"""Measures a sum of several lanes: each lane, its parts, and the observed coefficients."""

from __future__ import annotations

from typing import Callable, List, Optional, Tuple

import torch
from torch import Tensor

from ..find.lanes import Layout, Solution, precision_of, share, solve
from ..find.parts import Sum
from ..fit.batch import Numbers, fit_now
from ..fit.values import activation_numbers, read_activation, wide
from .lane_coefficients import LaneRows, SeenCarry, find_carry, find_gate

IDLE = 1e-6  # a branch smaller than this share of the state does not determine its factor


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
        lanes = self._lanes(site.behind, self._sum.total.numbers)
        values = LaneRows(
            together(self._lanes(site.layout, site.before.numbers)), self._tokens(self._sum.branch.numbers),
            together(lanes), precision_of(self._sum.total, site.before, self._sum.branch))
        numbers = [read_activation(fit_now(activation_numbers, [rows], True), rows.shape, stride)
                   for rows, stride in lanes]
        if not all(torch.isfinite(t).all() for t in values[:3]):
            return numbers
        found, seen = explain(values), find_carry(self._sum, values, self._tokens)
        numbers = [{**lane, **made_of} for lane, made_of in zip(numbers, lane_numbers(found, seen, values))]
        numbers[0].update(self._coefficients(found, seen, values))
        return numbers

    def _coefficients(self, found: Solution, seen: Optional[SeenCarry], values: LaneRows) -> Numbers:
        numbers: Numbers = {}
        if seen is not None:
            numbers["coefficients"] = seen.dtype
            numbers["dtype"] = str(self._sum.total.tensor.dtype).replace("torch.", "")
            if seen.is_transpose is not None:
                numbers["carry_transposed"] = int(seen.is_transpose)
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


def together(lanes: List[Tuple[Tensor, int]]) -> Tensor:
    """Stacks lanes as [rows, lanes, features]."""
    return torch.stack([wide(lane).flatten(0, 1) for lane, _ in lanes], 1)


def explain(values: LaneRows) -> Solution:
    """Fits each lane after the site as a sum of the lanes before it and of the branch, if the branch is large
    enough."""
    is_written = values.branch.norm() > IDLE * values.before.norm()
    sources = torch.cat([values.before, values.branch[:, None]], 1) if is_written else values.before
    return solve(values.after, sources, values.precision)


def lane_numbers(found: Solution, seen: Optional[SeenCarry], values: LaneRows) -> List[Numbers]:
    """Returns the row and column sums of the carry, the write, the distance from the mean lane and the residual of each
    lane."""
    n, told = values.before.shape[1], found.is_told
    carry = found.of[..., :n] if seen is None else seen.of
    is_told = seen is not None or bool(2 * told.sum() > len(told))
    apart = values.after - values.after.mean(1, keepdim=True)
    lanes: List[Numbers] = []
    for i in range(n):
        numbers: Numbers = {"unexplained": share(found.left[:, i], values.after[:, i]),
                            "carry_in": carry[:, i].sum(-1).mean().item(),
                            "carry_size": carry[:, i].norm(dim=-1).mean().item(),
                            "lane_spread": share(apart[:, i], values.after[:, i])}
        if found.of.shape[-1] > n:
            numbers["write"] = found.of[:, i, n].mean().item()
        if is_told:
            kept = carry if seen is not None else carry[told]
            numbers["carry_out"] = kept[..., i].sum(-1).mean().item()
        lanes.append(numbers)
    return lanes
