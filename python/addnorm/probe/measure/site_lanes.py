"""Measures a sum of lanes at a site that declares them: X′ = A·X + B·u for the lanes that it changes. X may have
another number of lanes than X′, and lanes may be parts of the features."""

from __future__ import annotations

from typing import Callable, List, NamedTuple, Tuple

import torch
from torch import Tensor

from ..find.lane_flow import CARRIED
from ..find.lanes import precision_of, sampled
from ..find.site_flow import SiteLanes
from ..fit.batch import Numbers, fit_now
from ..fit.lanes import IDLE, Solution, numbers_of_lane, share, solve
from ..fit.values import activation_numbers, read_activation, wide
from ..record.graph import Value

EXPLAINED = 0.02  # the largest relative residual of numbers that are the same for all tokens


class Lane(NamedTuple):
    numbers: Tensor  # [sequences, tokens, features]
    stride: int
    value: Value


class SiteMeasurement:
    """Measures one site.

    lanes: its lanes. branch: u, or the term of the sum without its factor. rows: returns the measured rows of a tensor
    with the stream's number of tokens, and their stride.
    """

    def __init__(self, lanes: SiteLanes, branch: Value, tokens: torch.Size,
                 rows: Callable[[Tensor, torch.Size], Tuple[Tensor, int]]) -> None:
        self._site, self._branch, self._tokens, self._rows = lanes, branch, tokens, rows

    def numbers(self) -> List[Numbers]:
        """Returns the numbers of each lane that the site changed. The first one's include those of all lanes."""
        before, after = self._lanes(self._site.before), self._lanes(self._site.after)
        changed = [lane for lane in after if lane.value in self._site.changed]
        numbers = [read_activation(fit_now(activation_numbers, [lane.numbers], True), lane.numbers.shape, lane.stride)
                   for lane in changed]
        X, made, all_lanes = together(before), together(changed), together(after)
        u = together(self._split(self._branch))
        if not all(torch.isfinite(t).all() for t in (X, u, made)):
            return numbers
        u = u if u.norm() > IDLE * X.norm() else u[:, :0]
        found = explain(made, torch.cat([X, u], 1), precision_of(*self._site.before, *self._site.after, self._branch))
        carry, write = found.of[..., :X.shape[1]], found.of[..., X.shape[1]:]
        mean = all_lanes.mean(1)
        for i, lane in enumerate(numbers):
            lane.update(numbers_of_lane(made[:, i], mean, found.left[:, i], carry[:, i]))
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

    def _lanes(self, values: List[Value]) -> List[Lane]:
        return [lane for value in values for lane in self._split(value)]

    def _split(self, value: Value) -> List[Lane]:
        """Returns the lanes in a value. They are one after the other, on an axis or in the last one."""
        features = self._branch.tensor.numel() // self._tokens.numel() // self._site.parts
        width = value.tensor.numel() // self._tokens.numel()
        rows, stride = self._rows(value.numbers.reshape(*self._tokens, width), torch.Size((*self._tokens, width)))
        return [Lane(lane, stride, value) for lane in rows.split(features, -1)]


def together(lanes: List[Lane]) -> Tensor:
    """Stacks some rows of lanes as [rows, lanes, features], in float64."""
    rows = [lane.numbers.flatten(0, 1) for lane in lanes]
    some = sampled(len(rows[0])).to(rows[0].device)
    return torch.stack([wide(lane[some]) for lane in rows], 1)


def explain(target: Tensor, sources: Tensor, precision: float) -> Solution:
    """Solves target ≈ of · sources, [rows, lanes, features], with numbers that are the same in all rows. Where these do
    not explain it, solves it in each row, if a row has more features than unknown numbers."""
    def in_one_row(lanes: Tensor) -> Tensor:
        return lanes.transpose(0, 1).flatten(1)[None]

    joint = solve(in_one_row(target), in_one_row(sources), precision)
    left = joint.left.reshape(target.shape[1], len(target), -1).transpose(0, 1)
    if share(left, target) < EXPLAINED or sources.shape[1] >= sources.shape[2]:
        return Solution(joint.of, left, joint.is_determined)
    return solve(target, sources, precision)
