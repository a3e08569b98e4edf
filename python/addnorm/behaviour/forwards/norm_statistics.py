"""statistics-detached: norms whose gradient treats their statistics as constants.

The output of a norm does not depend on the length of a row: f(2x) = f(x). So, by Euler, its gradient has no part along
x: ⟨∂x, x⟩ = 0. Both equations are tested on the norm alone, on rows that it read in the forward.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..._sharded import is_sharded
from ..._structure import is_norm_class, tensors_in
from ..run.subject import Subject

ROWS = 64
LIMIT = 0.1  # relative to a gradient of random direction


class NormInputs:
    """Stores some rows of the input of each norm."""

    def __init__(self) -> None:
        self.rows: dict[nn.Module, Tensor] = {}

    def enter(self, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        x = inputs[0] if len(inputs) == 1 else None
        if isinstance(x, Tensor) and x.is_floating_point() and x.dim() > 1 and is_norm_class(module) \
                and module not in self.rows:
            rows = x.detach().reshape(-1, x.shape[-1])[:ROWS].clone()
            self.rows[module] = rows[None] if x.dim() > 2 else rows


def measure_statistics(subject: Subject, found: NormInputs) -> None:
    if any(is_sharded(p) for module in found.rows for p in module.parameters()):
        subject.leave_out("norms", "statistics-detached: their parameters are spread over several processes")
        return
    for module, x in found.rows.items():
        if any(p.numel() not in (1, x.shape[-1]) for p in module.parameters()):
            subject.leave_out(subject.names[module],
                              "statistics-detached: its features are not the last axis of what it reads")
            continue
        try:
            share = _share_along_input(module, x)
        except Exception as error:  # for example, the norm needs further inputs
            subject.leave_out(subject.names[module], error)
            continue
        if share is not None:
            subject.add_line("statistics-detached", share, limit=LIMIT, where=subject.names[module])


def _share_along_input(module: nn.Module, x: Tensor) -> float | None:
    """Returns the RMS over rows of the cosine between ∂x and x, times √d. Independent directions have 1. Returns None
    if the output does not depend on the direction of x alone, as with a large ε."""
    def run(values: Tensor) -> Tensor:
        return next(tensors_in(module.forward(values)))

    with torch.no_grad():
        y = run(x).double()
        is_told = torch.ones_like(y[..., 0], dtype=torch.bool)  # false for rows that are small beside ε
        for first in 1, 2:
            lengths = (torch.arange(x.shape[-2], device=x.device) + first) % 2 + 1  # alternating from row to row
            is_told &= (run(x * lengths.unsqueeze(-1)).double() - y).norm(dim=-1) < 5e-3 * y.norm(dim=-1)
        if not is_told.sum() > 0.5 * (y.norm(dim=-1) > 0).sum():
            return None
    with torch.enable_grad():
        x = x.clone().requires_grad_()
        y = run(x)
        direction = torch.randn(y.shape, generator=torch.Generator().manual_seed(3))
        found = torch.autograd.grad((y * direction.to(y.device, y.dtype)).sum(), x)[0].double()
    wide = x.detach().double()
    lengths = (found.norm(dim=-1) * wide.norm(dim=-1)).clamp(min=1e-300)
    cosine = (found * wide).sum(-1) / lengths
    return float(cosine[is_told].square().mean().sqrt()) * x.shape[-1]**0.5
