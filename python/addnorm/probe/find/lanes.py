"""Lanes: a stream that holds n rows for each token. A sublayer reads a combination of them, z = a·X, and writes
X′ = A·X + b ⊗ f. A is the carry, and b is the write.

Lanes are recognized by a fit: A and b are solved for in each token, from the state before a site, the branch and the
state after it: d equations for n + 1 unknowns. So neither the operators nor the axis of the lanes matter.
"""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from ..fit.lanes import sampled, share, solve, spread
from ..fit.values import wide
from ..record.graph import Value
from .parts import Layout

MOST = 16  # the largest number of lanes


def layouts(shape: torch.Size, lanes: int, row: torch.Size) -> List[Layout]:
    """Returns all layouts that a shape permits: an axis of lanes, or lanes within sequences, tokens or features."""
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


def lanes_of(value: Value, row: Value) -> Optional[Value]:
    """Returns a view of the value that consists of lanes of rows like `row`, or None."""
    lanes, left = divmod(value.tensor.numel(), max(1, row.tensor.numel()))
    if left or not 2 <= lanes <= MOST or not value.tensor.is_floating_point():
        return None
    widths = row.shape[-1], lanes * row.shape[-1]
    seen = [v for v in value.views() if v.tensor.dim() > 1 and v.shape[-1] in widths]
    return next((v for v in seen if has_axis_beside(v.shape, row.shape)), seen[-1] if seen else None)


def has_axis_beside(shape: torch.Size, row: torch.Size) -> bool:
    return any(shape[:i] + shape[i + 1:] == row for i in range(len(shape) - 1))


def count_lanes(state: Value, row: Value) -> int:
    return state.tensor.numel() // row.tensor.numel()


def precision_of(*values: Value) -> float:
    """Returns the epsilon of the coarsest type of the values, at least that of float32."""
    return max(torch.finfo(dtype).eps for dtype in (torch.float32, *(v.tensor.dtype for v in values)))


class Fit(NamedTuple):
    """The fit of a value as a sum of a state's lanes and a branch."""
    layout: Layout
    layout_after: Layout
    unexplained: float
    carried: float  # the largest lane's carried part, as a share of the largest lane before


def fit_sum(total: Value, before: Value, branch: Value, row: torch.Size) -> Optional[Fit]:
    """Fits a sum of lanes in the layouts that explain it best. Of several such layouts it takes those with the least
    differences between lanes, because wrong layouts mix tokens. Returns None if a number is not finite."""
    lanes = total.tensor.numel() // row.numel()
    f = branch.recorded.reshape(-1, 1, row[-1])
    f = wide(f[sampled(len(f)).to(f.device)])
    precision = precision_of(total, before, branch)
    fits = []
    for layout in layouts(before.shape, lanes, row):
        state = layout.sample(before.recorded)
        for after in layouts(total.shape, lanes, row):
            target = after.sample(total.recorded)
            if not all(torch.isfinite(t).all() for t in (state, f, target)):
                return None
            fit = Fit(layout, after, *_explain(target, state, f, precision))
            fits.append((fit, spread(state) + spread(target)))
    least = min((fit.unexplained for fit, _ in fits), default=0)
    return min(((fit, apart) for fit, apart in fits if fit.unexplained <= least + 10 * precision),
               key=lambda found: found[1], default=(None, 0))[0]


def _explain(target: Tensor, lanes: Tensor, branch: Tensor, precision: float) -> Tuple[float, float]:
    found = solve(target, torch.cat([lanes, branch], 1), precision)
    carried = found.of[..., :-1] @ lanes
    largest = carried.norm(dim=(0, 2)).max() / lanes.norm(dim=(0, 2)).max().clamp(min=1e-300)
    return share(found.residual, target), largest.item()
