"""The kernels as a differentiable function. The kernels compute the first derivative, the formula the second."""

from __future__ import annotations

from typing import Any, Callable, Sequence

import torch
from torch import Tensor
from torch.autograd import Function

from ..norm_options import NormFields
from . import cpu_kernels
from .formula import add_norm_backward_in_pytorch, squash_in_pytorch
from .kernels import kernels_of
from .outputs import new_like
from .tensors import are_readable, is_recorded


def gradients_of(formula: Callable[..., Tensor], tensors: Sequence[Tensor | None],
                 dy: Tensor) -> Sequence[Any]:
    """Returns the gradients of the tensors that are not None, with a graph."""
    with torch.enable_grad():
        inputs = [t if t.requires_grad else t.detach().requires_grad_()
                  for t in tensors if t is not None]
        given = iter(inputs)
        y = formula(*[None if t is None else next(given) for t in tensors])
        made = iter(torch.autograd.grad(y, inputs, dy, create_graph=True))
        return [None if t is None else next(made) for t in tensors]


def _needs_formula(*gradients: Tensor | None) -> bool:
    """Whether PyTorch's own functions compute the backward: for create_graph=True, for batched gradients, and for a
    mode that records operators."""
    return torch.is_grad_enabled() or is_recorded() or not are_readable(*gradients)


class DifferentiableAddNorm(Function):
    """Computes s = x + branch and y = norm(s) over the last `axes`; without a branch, y = norm(x) alone."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, branch: Tensor | None, gamma: Tensor | None,
                beta: Tensor | None, fields: NormFields, axes: int) -> Any:
        s = None
        if branch is None and is_recorded():
            y, statistics = torch.ops.addnorm.norm(x, gamma, beta, *fields, axes)
        else:
            y, s, statistics = kernels_of(x).forward(x, branch, gamma, beta, fields, axes)
        ctx.save_for_backward(x if s is None else s, statistics, gamma, beta)
        ctx.set_materialize_grads(False)
        ctx.norm = fields, axes
        return y if s is None else (y, s)

    @staticmethod
    def backward(ctx: Any, dy: Tensor | None, ds: Tensor | None = None) -> Any:
        s, statistics, gamma, beta = ctx.saved_tensors
        _, wants_branch, wants_gamma, wants_beta, *_ = ctx.needs_input_grad
        dx, d_gamma, d_beta = ds, None, None
        if dy is not None and _needs_formula(dy, ds):
            dx, d_gamma, d_beta = add_norm_backward_in_pytorch(dy, ds, s, gamma, *ctx.norm)
        elif dy is not None:
            dx, d_gamma, d_beta = kernels_of(s).backward(dy, ds, s, statistics, gamma, wants_gamma, wants_beta,
                                                         *ctx.norm)
        return (dx, dx if wants_branch else None, d_gamma if wants_gamma else None, d_beta if wants_beta else None,
                None, None)


class DifferentiableSquash(Function):
    """Computes y = γ ⊙ tanh(α·x) + β, or γ ⊙ erf(α·x + shift) + β."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, alpha: Tensor, shift: Tensor | None, gamma: Tensor | None,
                beta: Tensor | None, kind: str) -> Tensor:
        compute = torch.ops.addnorm.squash if is_recorded() else cpu_kernels.squash
        y: Tensor = compute(x, alpha, shift, gamma, beta, kind)
        ctx.save_for_backward(x, alpha, shift, gamma, beta)
        ctx.kind = kind
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Any:
        x, alpha, shift, gamma, beta = tensors = ctx.saved_tensors
        if _needs_formula(dy):
            return *gradients_of(lambda *of: squash_in_pytorch(*of, ctx.kind), tensors, dy), None
        gradients = [new_like(t) if wanted else None for t, wanted in zip(tensors, ctx.needs_input_grad)]
        dx, d_alpha, d_shift, d_gamma, d_beta = gradients
        if dx is None:
            dx = new_like(x)
        cpu_kernels.squash_backward(ctx.kind, (dy, x, alpha, shift, gamma), (dx, d_gamma, d_beta, d_alpha, d_shift))
        return *gradients, None
