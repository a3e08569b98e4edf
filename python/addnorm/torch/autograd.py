"""The kernels as a differentiable function. The kernels compute the first derivative, the formula the second."""

from __future__ import annotations

from typing import Any, Callable, Sequence

import torch
from torch import Tensor
from torch.autograd import Function
from torch.utils.dlpack import to_dlpack

from .. import _kernels
from ..norm_options import NormFields
from .formula import norm_in_pytorch, squash_in_pytorch, value_type
from .tensors import are_readable, is_recorded

Gradients = tuple[Tensor, "Tensor | None", "Tensor | None"]


def _memory(tensor: Tensor | None, axes: int = 1) -> Any:
    """Returns a tensor for the kernels, which have one axis of features: the last `axes` are flattened."""
    return None if tensor is None else to_dlpack(tensor.contiguous().flatten(-axes))


def new_like(x: Tensor) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def new_statistics(x: Tensor, axes: int) -> Tensor:
    return x.new_empty((*x.shape[:-axes], 6), dtype=value_type(x))


def forward(x: Tensor, branch: Tensor | None, gamma: Tensor | None, beta: Tensor | None,
            fields: NormFields, axes: int) -> tuple[Tensor, Tensor | None, Tensor]:
    """Returns y, s and the statistics. The last `axes` of x are normalized together."""
    y = new_like(x)
    s = None if branch is None else new_like(x)
    statistics = new_statistics(x, axes)
    of_x, of_branch, *of_factors, of_s, of_y = (_memory(t, axes) for t in (x, branch, gamma, beta, s, y))
    _kernels.add_norm(fields, of_x, of_branch, None, None, (0.0, 0, 0), *of_factors, of_s, of_y,
                   _memory(statistics), torch.get_num_threads())
    return y, s, statistics


def backward(dy: Tensor, ds: Tensor | None, s: Tensor, statistics: Tensor, gamma: Tensor | None,
             wants_gamma: bool, wants_beta: bool, fields: NormFields, axes: int) -> Gradients:
    """Returns dx, d_gamma and d_beta. dx is also the gradient of the branch."""
    dx = new_like(s)
    d_gamma, d_beta = (statistics.new_empty(s.shape[-axes:]) if wanted else None
                       for wanted in (wants_gamma, wants_beta))
    _kernels.add_norm_backward(fields, _memory(dy, axes), _memory(s, axes), _memory(statistics), _memory(gamma, axes),
                            _memory(ds, axes), None, _memory(dx, axes), _memory(d_gamma, axes),
                            _memory(d_beta, axes), torch.get_num_threads())
    return dx, d_gamma, d_beta


def squash(x: Tensor, alpha: Tensor, shift: Tensor | None, gamma: Tensor | None, beta: Tensor | None,
           kind: str) -> Tensor:
    """Returns y."""
    y = new_like(x)
    _kernels.squash(kind, _memory(x), _memory(alpha), _memory(shift), _memory(gamma), _memory(beta),
                 _memory(y), torch.get_num_threads())
    return y


def _differentiable_backward(dy: Tensor, ds: Tensor | None, s: Tensor, gamma: Tensor | None,
                             beta: Tensor | None, fields: NormFields, axes: int) -> Gradients:
    """Returns the same gradients, as functions that can be differentiated again."""
    dx, d_gamma, d_beta = _gradients_of(lambda *of: norm_in_pytorch(*of, fields, s.shape[-axes:]),
                                        (s, gamma, beta), dy)
    return dx if ds is None else dx + ds, d_gamma, d_beta


def _gradients_of(formula: Callable[..., Tensor], tensors: Sequence[Tensor | None],
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
            y, s, statistics = forward(x, branch, gamma, beta, fields, axes)
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
            dx, d_gamma, d_beta = _differentiable_backward(dy, ds, s, gamma, beta, *ctx.norm)
        elif dy is not None:
            dx, d_gamma, d_beta = backward(dy, ds, s, statistics, gamma, wants_gamma, wants_beta, *ctx.norm)
        return dx, dx if wants_branch else None, d_gamma, d_beta, None, None


class DifferentiableSquash(Function):
    """Computes y = γ ⊙ tanh(α·x) + β, or γ ⊙ erf(α·x + shift) + β."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, alpha: Tensor, shift: Tensor | None, gamma: Tensor | None,
                beta: Tensor | None, kind: str) -> Tensor:
        compute = torch.ops.addnorm.squash if is_recorded() else squash
        y: Tensor = compute(x, alpha, shift, gamma, beta, kind)
        ctx.save_for_backward(x, alpha, shift, gamma, beta)
        ctx.kind = kind
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Any:
        x, alpha, shift, gamma, beta = tensors = ctx.saved_tensors
        if _needs_formula(dy):
            return *_gradients_of(lambda *of: squash_in_pytorch(*of, ctx.kind), tensors, dy), None
        gradients = [new_like(t) if wanted else None for t, wanted in zip(tensors, ctx.needs_input_grad)]
        dx, d_alpha, d_shift, d_gamma, d_beta = gradients
        if dx is None:
            dx = new_like(x)
        _kernels.squash_backward(ctx.kind, _memory(dy), _memory(x), _memory(alpha),
                              _memory(shift), _memory(gamma), _memory(dx), _memory(d_gamma),
                              _memory(d_beta), _memory(d_alpha), _memory(d_shift),
                              torch.get_num_threads())
        return *gradients, None
