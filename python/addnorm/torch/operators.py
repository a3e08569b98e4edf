"""The functions as operators: for torch.compile and torch.export, which get their shapes from PyTorch 2.4 on, and for
modes that record operators."""

from typing import Any, Optional

import torch
from torch import Tensor

from ..norm_options import NormFields
from . import autograd
from .formula import norm_in_pytorch
from .tensors import DTYPES, HAS_CUSTOM_OPERATORS

def take(*tensors: Optional[Tensor]) -> bool:
    """Whether the operators have kernels for these tensors. A compiler traces this function, so it
    reads only devices and types."""
    return all(t is None or t.device.type == "cpu" and t.dtype in DTYPES for t in tensors)


def apply(x: Tensor, branch: Optional[Tensor], gamma: Optional[Tensor], beta: Optional[Tensor],
          fields: NormFields, axes: int) -> Any:
    """Has the arguments and results of DifferentiableAddNorm.apply."""
    if branch is None:
        return torch.ops.addnorm.norm(x, gamma, beta, *fields, axes)[0]
    return torch.ops.addnorm.add_norm(x, branch, gamma, beta, *fields, axes)[:2]


# PyTorch derives an operator's schema from these types, which must not be strings.
def _norm(x: Tensor, gamma: Optional[Tensor], beta: Optional[Tensor], kind: str, eps: float, eps_at: str,
          variance: str, gamma_form: str, output_scale: float, axes: int = 1) -> tuple[Tensor, Tensor]:
    """Returns y and the statistics."""
    fields = kind, eps, eps_at, variance, gamma_form, output_scale
    y, _, statistics = autograd.forward(x, None, gamma, beta, fields, axes)
    return y, statistics


def _add_norm(x: Tensor, branch: Tensor, gamma: Optional[Tensor], beta: Optional[Tensor], kind: str,
              eps: float, eps_at: str, variance: str, gamma_form: str,
              output_scale: float, axes: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    """Returns y, s and the statistics."""
    fields = kind, eps, eps_at, variance, gamma_form, output_scale
    y, s, statistics = autograd.forward(x, branch, gamma, beta, fields, axes)
    assert s is not None
    return y, s, statistics


def _squash(x: Tensor, alpha: Tensor, shift: Optional[Tensor], gamma: Optional[Tensor],
            beta: Optional[Tensor], kind: str) -> Tensor:
    """Returns y."""
    return autograd.squash(x, alpha, shift, gamma, beta, kind)


def _backward(dy: Tensor, ds: Optional[Tensor], s: Tensor, statistics: Tensor, gamma: Optional[Tensor],
              kind: str, eps: float, eps_at: str, variance: str, gamma_form: str,
              output_scale: float, axes: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    """Returns dx, d_gamma and d_beta."""
    fields = kind, eps, eps_at, variance, gamma_form, output_scale
    dx, d_gamma, d_beta = autograd.backward(dy, ds, s, statistics, gamma, True, True, fields, axes)
    assert d_gamma is not None and d_beta is not None
    return dx, d_gamma, d_beta


def _axes(norm: tuple[Any, ...]) -> int:
    """Returns the last argument of the operators, which PyTorch omits if it is the default."""
    return int(norm[6]) if len(norm) > 6 else 1


def _shapes_of_norm(x: Tensor, gamma: Any, beta: Any, *norm: Any) -> tuple[Tensor, Tensor]:
    return autograd.new_like(x), autograd.new_statistics(x, _axes(norm))


def _shapes_of_add_norm(x: Tensor, branch: Any, gamma: Any, beta: Any, *norm: Any) -> tuple[Tensor, Tensor, Tensor]:
    return autograd.new_like(x), autograd.new_like(x), autograd.new_statistics(x, _axes(norm))


def _shapes_of_backward(dy: Tensor, ds: Optional[Tensor], s: Tensor, statistics: Tensor, gamma: Any,
                        *norm: Any) -> tuple[Tensor, Tensor, Tensor]:
    features = s.shape[-_axes(norm):]
    return autograd.new_like(s), statistics.new_empty(features), statistics.new_empty(features)


def _remember_norm(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    x, gamma, beta, *fields = inputs
    _remember(ctx, x, output[1], gamma, beta, fields)


def _remember_add_norm(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    _, _, gamma, beta, *fields = inputs
    _remember(ctx, output[1], output[2], gamma, beta, fields)


def _remember(ctx: Any, s: Tensor, statistics: Tensor, gamma: Optional[Tensor], beta: Optional[Tensor],
              fields: list[Any]) -> None:
    ctx.save_for_backward(s, statistics, gamma)
    ctx.set_materialize_grads(False)
    ctx.has_beta = beta is not None
    ctx.fields = fields


def _gradients(ctx: Any, dy: Optional[Tensor], ds: Optional[Tensor]) -> tuple[Any, Any, Any]:
    """Returns the gradients of x, γ and β."""
    if dy is None:
        return ds, None, None
    s, statistics, gamma = ctx.saved_tensors
    dx, d_gamma, d_beta = torch.ops.addnorm.backward(dy, ds, s, statistics, gamma, *ctx.fields)
    return dx, None if gamma is None else d_gamma, d_beta if ctx.has_beta else None


def _differentiate_norm(ctx: Any, dy: Optional[Tensor], _: Any) -> tuple[Any, ...]:
    return *_gradients(ctx, dy, None), *[None] * len(ctx.fields)


def _differentiate_add_norm(ctx: Any, dy: Optional[Tensor], ds: Optional[Tensor],
                            _: Any) -> tuple[Any, ...]:
    dx, d_gamma, d_beta = _gradients(ctx, dy, ds)
    return dx, dx, d_gamma, d_beta, *[None] * len(ctx.fields)


def _register() -> None:
    norm, add_norm, backward, squash = (
        torch.library.custom_op(f"addnorm::{name}", function, mutates_args=(), device_types="cpu")
        for name, function in (("norm", _norm), ("add_norm", _add_norm), ("backward", _backward),
                               ("squash", _squash)))
    norm.register_fake(_shapes_of_norm)
    add_norm.register_fake(_shapes_of_add_norm)
    backward.register_fake(_shapes_of_backward)
    squash.register_fake(lambda x, *_: autograd.new_like(x))
    norm.register_autograd(_differentiate_norm, setup_context=_remember_norm)
    add_norm.register_autograd(_differentiate_add_norm, setup_context=_remember_add_norm)


def _register_for_modes() -> torch.library.Library:
    """Registers the operators for PyTorch before 2.4, where only modes see them. They live as
    long as the returned library."""
    library = torch.library.Library("addnorm", "DEF")
    library.define("norm(Tensor x, Tensor? gamma, Tensor? beta, str kind, float eps, str eps_at, str variance, "
                   "str gamma_form, float output_scale, int axes=1) -> (Tensor, Tensor)")
    library.define("squash(Tensor x, Tensor alpha, Tensor? shift, Tensor? gamma, Tensor? beta, str kind) -> Tensor")
    library.impl("norm", _norm, "CPU")
    library.impl("norm", _norm_with_gradients, "AutogradCPU")
    library.impl("squash", _squash, "CPU")
    return library


def _norm_with_gradients(x: Tensor, gamma: Optional[Tensor], beta: Optional[Tensor],
                         *norm: Any) -> tuple[Tensor, Tensor]:
    axes = _axes(norm)
    if torch.is_grad_enabled():
        return norm_in_pytorch(x, gamma, beta, norm[:6], x.shape[-axes:]), autograd.new_statistics(x, axes)
    below = torch._C._AutoDispatchBelowAutograd()  # active until it is deleted
    try:
        found: tuple[Tensor, Tensor] = torch.ops.addnorm.norm(x, gamma, beta, *norm)
        return found
    finally:
        del below


if HAS_CUSTOM_OPERATORS:
    _register()
else:
    _library = _register_for_modes()
