"""Fits sums of several lanes: the carry and the write that explain the lanes after a sublayer by those before it."""

from __future__ import annotations

import math
from typing import List, NamedTuple, Optional

import torch
from torch import Tensor

from .batch import Numbers
from .values import wide

SAMPLE = 256  # the number of tokens that a fit uses if it need not use all
IDLE = 1e-6  # a branch smaller than this share of the state does not determine its factor
EXPLAINED = 0.02  # the largest relative residual of numbers that are the same for all tokens


class LaneRows(NamedTuple):
    """The measured rows of a sum, and their precision."""
    before: Tensor  # [rows, lanes, features]
    branch: Tensor  # [rows, features]
    after: Tensor
    precision: float


class Solution(NamedTuple):
    """The solution of target ≈ of · sources in each row."""
    of: Tensor  # [rows, lanes, sources]
    residual: Tensor  # target − of · sources
    is_determined: Tensor  # for each row, whether its sources differ enough to determine `of`


def solve(target: Tensor, sources: Tensor, precision: float) -> Solution:
    """Solves by least squares. Equal sources get equal shares. precision: the relative rounding of the numbers."""
    lengths = sources.norm(dim=-1).clamp(min=1e-300)
    unit = sources / lengths[..., None]
    values, vectors = torch.linalg.eigh(unit @ unit.transpose(1, 2))
    kept = values > (4 * precision) ** 2
    inverse = vectors * (kept / values.clamp(min=1e-300))[:, None] @ vectors.transpose(1, 2)
    of = (target @ unit.transpose(1, 2) @ inverse / lengths[:, None]).masked_fill((lengths == 1e-300)[:, None], 0)
    return Solution(of, target - of @ sources, values[:, 0] > (50 * precision) ** 2)


def share(part: Tensor, whole: Tensor) -> float:
    """Returns ‖part‖/‖whole‖. If the whole is 0, returns 1 for a part other than 0, else 0."""
    size, all_of_it = part.norm().item(), whole.norm().item()
    return size / all_of_it if all_of_it else float(size > 0)


def spread(lanes: Tensor) -> float:
    """Returns the distance of lanes [rows, lanes, width] from their mean, as a share of their norm."""
    return share(lanes - lanes.mean(1, keepdim=True), lanes)


def sampled(count: int) -> Tensor:
    """Returns the numbers of some evenly spaced rows out of `count`."""
    return torch.arange(0, count, max(1, math.ceil(count / SAMPLE)))


def together(lanes: List[Tensor]) -> Tensor:
    """Stacks lanes [sequences, tokens, features] as [rows, lanes, features], in float64."""
    return torch.stack([wide(lane).flatten(0, 1) for lane in lanes], 1)


def sampled_together(lanes: List[Tensor]) -> Tensor:
    """Stacks some rows of lanes, like together()."""
    rows = [lane.flatten(0, 1) for lane in lanes]
    some = sampled(len(rows[0])).to(rows[0].device)
    return torch.stack([wide(lane[some]) for lane in rows], 1)


def explain_by_row(values: LaneRows) -> Solution:
    """Fits each lane after the site as a sum of the lanes before it and of the branch, if that is large enough."""
    is_written = values.branch.norm() > IDLE * values.before.norm()
    sources = torch.cat([values.before, values.branch[:, None]], 1) if is_written else values.before
    return solve(values.after, sources, values.precision)


def explain_by_constants(target: Tensor, sources: Tensor, precision: float) -> Solution:
    """Solves target ≈ of · sources, [rows, lanes, features], with numbers that are the same in all rows. Where these do
    not explain it, solves it in each row, if a row has more features than unknown numbers."""
    def in_one_row(lanes: Tensor) -> Tensor:
        return lanes.transpose(0, 1).flatten(1)[None]

    joint = solve(in_one_row(target), in_one_row(sources), precision)
    residual = joint.residual.reshape(target.shape[1], len(target), -1).transpose(0, 1)
    if share(residual, target) < EXPLAINED or sources.shape[1] >= sources.shape[2]:
        return Solution(joint.of, residual, joint.is_determined)
    return solve(target, sources, precision)


def carry_numbers(lane: Tensor, mean: Tensor, residual: Tensor, carry: Tensor) -> Numbers:
    """Returns the residual of a lane [rows, features], the sum and size of its row of the carry [rows, lanes], and its
    distance from the mean lane."""
    return {"unexplained": share(residual, lane), "carry_in": carry.sum(-1).mean().item(),
            "carry_size": carry.norm(dim=-1).mean().item(), "lane_spread": share(lane - mean, lane)}


def lane_numbers(found: Solution, recorded: Optional[Tensor], values: LaneRows) -> List[Numbers]:
    """Returns the row and column sums of the carry, the write, the distance from the mean lane and the residual of each
    lane. recorded: the carry [rows, lanes, lanes] that the model computed, if it was found."""
    n, is_determined = values.before.shape[1], found.is_determined
    if recorded is not None:
        is_determined = torch.ones_like(is_determined)
    carry = found.of[..., :n] if recorded is None else recorded
    mean = values.after.mean(1)
    lanes: List[Numbers] = []
    for i in range(n):
        numbers = carry_numbers(values.after[:, i], mean, found.residual[:, i], carry[:, i])
        if found.of.shape[-1] > n:
            numbers["write"] = found.of[:, i, n].mean().item()
        if 2 * is_determined.sum() > len(is_determined):
            numbers["carry_out"] = carry[is_determined][..., i].sum(-1).mean().item()
        lanes.append(numbers)
    return lanes
