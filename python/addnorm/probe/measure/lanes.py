"""Measures sums of several lanes: each lane, its parts, and the coefficients."""

from __future__ import annotations

from typing import List, NamedTuple, Optional

import torch
from torch import Tensor

from ..._structure import dtype_name
from ..find.lane_coefficients import RecordedCarry, find_carry, find_gate
from ..find.lane_flow import CARRIED
from ..find.lanes import precision_of
from ..find.parts import DeclaredLanes, FittedLanes, Layout, Sum
from ..find.sublayers import Sublayer
from ..fit.batch import Numbers, fit_now
from ..fit.lanes import (
    IDLE,
    LaneRows,
    Solution,
    carry_numbers,
    explain_by_constants,
    explain_by_row,
    lane_numbers,
    sampled_together,
    together,
)
from ..fit.values import activation_numbers, read_activation, wide
from ..record.graph import Value
from .gradients import Gradients
from .profile import Site
from .rows import Rows


class Lane(NamedTuple):
    """The measured rows of a lane, like Sampled, and the value that holds it."""
    rows: Tensor
    stride: int
    value: Value


class LanesMeasurement:
    """Measures one sum of lanes."""

    def __init__(self, lane_sum: Sum, rows: Rows) -> None:
        self._sum, self._rows = lane_sum, rows

    def of_input(self) -> Numbers:
        """Returns what the profile's entry of the sublayer's input says about the lanes."""
        return {}

    def of_lanes(self) -> List[Numbers]:
        """Returns the numbers of each lane. The first lane's numbers include those of all lanes."""
        raise NotImplementedError

    def grade(self, gradients: Gradients, site: Site, sub: Sublayer) -> None:
        """Measures the gradients of the lanes after the sum."""
        raise NotImplementedError


def lanes_measurement(sub: Sublayer, rows: Rows) -> LanesMeasurement:
    """Returns the measurement of a sublayer's sum of lanes."""
    if isinstance(sub.sum.lanes, DeclaredLanes):
        return DeclaredLanesMeasurement(sub.sum, sub.sum.lanes, sub.joined, rows)
    return FittedLanesMeasurement(sub.sum, sub.sum.lanes, rows)


def _sizes(lanes: List[Lane]) -> List[Numbers]:
    return [read_activation(fit_now(activation_numbers, [lane.rows], True), lane.rows.shape, lane.stride)
            for lane in lanes]


# ---- Lanes that a fit recognized ------------------------------------------------------------------


class FittedLanesMeasurement(LanesMeasurement):
    """Measures a sum of lanes that a fit recognized."""

    def __init__(self, lane_sum: Sum, lanes: FittedLanes, rows: Rows) -> None:
        super().__init__(lane_sum, rows)
        self._states = lanes

    def of_input(self) -> Numbers:
        return {"lanes_folded": 1} if self._states.is_folded else {}

    def of_lanes(self) -> List[Numbers]:
        states = self._states
        lanes = self._lanes(states.layout_after, self._sum.total)
        values = LaneRows(
            together([lane.rows for lane in self._lanes(states.layout, states.before)]),
            self._tokens(self._sum.branch.recorded), together([lane.rows for lane in lanes]),
            precision_of(self._sum.total, states.before, self._sum.branch))
        numbers = _sizes(lanes)
        if not all(torch.isfinite(t).all() for t in values[:3]):
            return numbers
        found, carry = explain_by_row(values), find_carry(self._sum, values, self._tokens)
        of_lanes = lane_numbers(found, None if carry is None else carry.of, values)
        numbers = [{**lane, **more} for lane, more in zip(numbers, of_lanes)]
        numbers[0].update(self._coefficients(found, carry, values))
        return numbers

    def grade(self, gradients: Gradients, site: Site, sub: Sublayer) -> None:
        gradients.grade_lanes(site, sub.total, self._states.layout_after)

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
        shape = torch.Size((*self._rows.shape[:-1], values.shape[-1]))
        return wide(self._rows.of(values.reshape(shape), shape).rows).flatten(0, 1)

    def _lanes(self, layout: Layout, value: Value) -> List[Lane]:
        shape = self._rows.shape
        return [Lane(*self._rows.of(lane.reshape(shape), shape), value)
                for lane in layout.rows(value.recorded).unbind(1)]


# ---- Lanes that a stack declares ------------------------------------------------------------------


class DeclaredLanesMeasurement(LanesMeasurement):
    """Measures a sum of lanes at a site that declares them: X′ = A·X + B·u for the lanes that it changes. X may have
    another number of lanes than X′, and lanes may be parts of the features."""

    def __init__(self, lane_sum: Sum, lanes: DeclaredLanes, branch: Value, rows: Rows) -> None:
        """branch: u, or the term of the sum without its factor."""
        super().__init__(lane_sum, rows)
        self._site, self._branch, self._tokens = lanes, branch, rows.shape[:-1]

    def of_lanes(self) -> List[Numbers]:
        before, after = self._lanes(self._site.before), self._lanes(self._site.after)
        changed = [lane for lane in after if lane.value in self._site.changed]
        numbers = _sizes(changed)
        X, made, all_lanes, u = (sampled_together([lane.rows for lane in lanes])
                                 for lanes in (before, changed, after, self._split(self._branch)))
        if not all(torch.isfinite(t).all() for t in (X, u, made)):
            return numbers
        u = u if u.norm() > IDLE * X.norm() else u[:, :0]
        found = explain_by_constants(
            made, torch.cat([X, u], 1), precision_of(*self._site.before, *self._site.after, self._branch))
        carry, write = found.of[..., :X.shape[1]], found.of[..., X.shape[1]:]
        mean = all_lanes.mean(1)
        for i, lane in enumerate(numbers):
            lane.update(carry_numbers(made[:, i], mean, found.residual[:, i], carry[:, i]))
            if write.shape[-1]:
                factors = write[:, i].mean(0)
                lane["write"] = factors[factors.abs().argmax()].item()
        if self._site.detached:
            numbers[0]["lanes_detached"] = self._site.detached
        if self._site.grows:
            kept = {value.root for value in self._site.after}
            numbers[0]["lanes_lost"] = sum(
                lane.value.root not in kept and bool(carry[..., j].abs().mean(0).max() < CARRIED)
                for j, lane in enumerate(before))
        return numbers

    def grade(self, gradients: Gradients, site: Site, sub: Sublayer) -> None:
        gradients.grade(site, sub.total)
        gradients.grade_branch(site, sub)

    def _lanes(self, values: List[Value]) -> List[Lane]:
        return [lane for value in values for lane in self._split(value)]

    def _split(self, value: Value) -> List[Lane]:
        """Returns the lanes in a value. They are one after the other, on an axis or in the last one."""
        features = self._branch.tensor.numel() // self._tokens.numel() // self._site.parts
        shape = torch.Size((*self._tokens, value.tensor.numel() // self._tokens.numel()))
        rows, stride = self._rows.of(value.recorded.reshape(shape), shape)
        return [Lane(lane, stride, value) for lane in rows.split(features, -1)]
