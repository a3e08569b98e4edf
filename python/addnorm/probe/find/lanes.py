"""Lanes: a stream that holds n rows for each token. A sublayer reads a combination of them, z = a·X, and leaves
X′ = A·X + b ⊗ f: each lane takes A of the lanes (the carry) and b of the branch (the write).

A and b are solved for in each token, from the state before a site, the branch and the state behind it: d equations for
n + 1 unknowns. So it does not matter how a model's operators are written, or which axis counts lanes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from ..fit.values import wide
from ..record.graph import Value

MOST = 16  # lanes
SAMPLE = 256  # tokens that tell whether a value is a sum of lanes


class Layout(NamedTuple):
    """How a tensor holds lanes: as [outer, lanes, inner, width]."""
    lanes: int
    inner: int
    width: int

    def rows(self, tensor: Tensor) -> Tensor:
        """[rows, lanes, width], the rows in the order in which a tensor without lanes has them."""
        t = tensor.reshape(-1, self.lanes, self.inner, self.width)
        return t.transpose(1, 2).reshape(-1, self.lanes, self.width)

    def sample(self, tensor: Tensor) -> Tensor:
        """Some of these rows."""
        t = tensor.reshape(-1, self.lanes, self.inner, self.width)
        at = sampled(t.shape[0] * self.inner).to(t.device)
        return wide(t[torch.div(at, self.inner, rounding_mode="floor"), :, at % self.inner])


def sampled(count: int) -> Tensor:
    return torch.arange(0, count, max(1, math.ceil(count / SAMPLE)))


def layouts(shape: torch.Size, lanes: int, row: torch.Size) -> List[Layout]:
    """All that its shape permits: an axis of lanes, or lanes within one of sequences, tokens or features."""
    if shape[-1] == lanes * row[-1]:
        return [Layout(lanes, 1, row[-1])]
    found: Dict[int, Layout] = {}
    inner = 1
    for size in reversed(shape[:-1]):
        if size % lanes == 0:
            for at in (inner, inner * (size // lanes)):
                found[at] = Layout(lanes, at, row[-1])
        inner *= size
    return list(found.values())


def uprights(value: Value) -> Iterator[Value]:
    """The value as it is, and as what it is a view of."""
    found: Optional[Value] = value
    while found is not None:
        yield found
        found = found.alias_of


def lanes_of(value: Value, row: Value) -> Optional[Value]:
    """The value, seen so that it holds lanes of rows such as this one; None where it holds none."""
    lanes, left = divmod(value.tensor.numel(), max(1, row.tensor.numel()))
    if left or not 2 <= lanes <= MOST or not value.tensor.is_floating_point():
        return None
    widths = row.shape[-1], lanes * row.shape[-1]
    seen = [v for v in uprights(value) if v.tensor.dim() > 1 and v.shape[-1] in widths]
    return next((v for v in seen if has_axis_beside(v.shape, row.shape)), seen[-1] if seen else None)


def has_axis_beside(shape: torch.Size, row: torch.Size) -> bool:
    return any(shape[:i] + shape[i + 1:] == row for i in range(len(shape) - 1))


def count_lanes(state: Value, row: Value) -> int:
    return state.tensor.numel() // row.tensor.numel()


@dataclass
class LaneSite:
    """Where a sublayer's branch is written into the lanes."""
    before: Value  # the state
    layout: Layout  # of it
    behind: Layout  # of the state behind
    is_folded: bool  # the lanes before it are copies of one row, and the site before had left n


class Solution(NamedTuple):
    """target ≈ of · sources, in each row."""
    of: Tensor  # [rows, lanes, sources]
    left: Tensor  # what the sources do not explain
    is_told: Tensor  # whether a row's sources differ enough to tell them apart


def solve(target: Tensor, sources: Tensor, precision: float) -> Solution:
    """By least squares; sources that are alike share evenly. precision: to which the numbers were rounded."""
    lengths = sources.norm(dim=-1).clamp(min=1e-300)
    unit = sources / lengths[..., None]
    values, vectors = torch.linalg.eigh(unit @ unit.transpose(1, 2))
    kept = values > (4 * precision) ** 2
    inverse = vectors * (kept / values.clamp(min=1e-300))[:, None] @ vectors.transpose(1, 2)
    of = target @ unit.transpose(1, 2) @ inverse / lengths[:, None]
    return Solution(of, target - of @ sources, values[:, 0] > (50 * precision) ** 2)


def precision_of(*values: Value) -> float:
    """That of the coarsest of their types; products of rows are known to no more than float32 has."""
    return max(torch.finfo(dtype).eps for dtype in (torch.float32, *(v.tensor.dtype for v in values)))


def share(part: Tensor, whole: Tensor) -> float:
    """How large a part is of a whole; of one that is 0 all."""
    size, all_of_it = part.norm().item(), whole.norm().item()
    return size / all_of_it if all_of_it else float(size > 0)


def spread(lanes: Tensor) -> float:
    """How much lanes [rows, lanes, width] differ, as a share of them."""
    return share(lanes - lanes.mean(1, keepdim=True), lanes)


class Fit(NamedTuple):
    """How a value is made of the lanes of a state and a branch."""
    before: Layout
    behind: Layout
    unexplained: float
    carried: float  # the part of it that is the lanes', of the largest lane


def fit_sum(total: Value, before: Value, branch: Value, row: torch.Size) -> Optional[Fit]:
    """In the layouts that explain it best; of several, those whose lanes are most alike: others mix tokens.
    None where it is not finite."""
    lanes = total.tensor.numel() // row.numel()
    f = branch.numbers.reshape(-1, 1, row[-1])
    f = wide(f[sampled(len(f)).to(f.device)])
    precision = precision_of(total, before, branch)
    fits = []
    for layout in layouts(before.shape, lanes, row):
        state = layout.sample(before.numbers)
        for behind in layouts(total.shape, lanes, row):
            target = behind.sample(total.numbers)
            if not all(torch.isfinite(t).all() for t in (state, f, target)):
                return None
            fit = Fit(layout, behind, *_explain(target, state, f, precision))
            fits.append((fit, spread(state) + spread(target)))
    least = min((fit.unexplained for fit, _ in fits), default=0)
    return min(((fit, apart) for fit, apart in fits if fit.unexplained <= least + 10 * precision),
               key=lambda found: found[1], default=(None, 0))[0]


def _explain(target: Tensor, lanes: Tensor, branch: Tensor, precision: float) -> Tuple[float, float]:
    found = solve(target, torch.cat([lanes, branch], 1), precision)
    carried = found.of[..., :-1] @ lanes
    largest = carried.norm(dim=(0, 2)).max() / lanes.norm(dim=(0, 2)).max().clamp(min=1e-300)
    return share(found.left, target), largest.item()
