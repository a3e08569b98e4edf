"""Replacements for PyTorch's own modules."""

from __future__ import annotations

import numbers
from typing import Any, Literal, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor, nn

from .. import _core
from ..norm_options import Norm
from .functions import OpenFields, Shape, add, apply, checked_shape, squash
from .tensors import is_recorded

Arguments = Tuple[Optional[Tensor], Optional[Tensor], OpenFields, Shape]


class _Converted(nn.Module):
    """The base class of these modules."""

    def __prepare_scriptable__(self) -> nn.Module:
        raise _core.Error(f"torch.jit.script cannot compile addnorm.torch.{type(self).__name__}: "
                          "trace the model, or script it before it is converted")


class LayerNorm(_Converted, nn.LayerNorm):
    """torch.nn.LayerNorm, with its arguments, parameters and state."""

    def __init__(self, normalized_shape: int | Sequence[int], eps: float = 1e-5, *args: Any, **kwargs: Any) -> None:
        super().__init__(checked_shape("normalized_shape", normalized_shape), Norm(eps=eps).eps, *args, **kwargs)

    def forward(self, x: Tensor) -> Tensor:
        return apply(x, None, *self.arguments())

    def arguments(self) -> Arguments:
        """Returns γ, β, the norm and the shape."""
        fields = "layer", self.eps, "variance", "population", "plain", 1.0
        return self.weight, self.bias, fields, self.normalized_shape


class RMSNorm(_Converted):
    """Computes y = weight ⊙ x/√(mean(x²) + eps) over the last axis; with gamma_form
    "one_plus", the factor is 1 + weight.

    features is the width, or the lengths of several axes, as in torch.nn.RMSNorm. weight has this shape, and is
    initially 1, or 0 for "one_plus". If eps is None, it is that of torch.nn.RMSNorm: the machine epsilon of x's type,
    or of float32 for 16-bit types, depending on PyTorch's version.
    """

    normalized_shape: Shape
    weight: Optional[Tensor]
    gamma_form = "plain"

    def __init__(self, features: int | Sequence[int], eps: float | None = 1e-5,
                 gamma_form: Literal["plain", "one_plus"] = "plain", *, device: Any = None,
                 dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.normalized_shape = checked_shape("features", features)
        norm = Norm("rms", 0.0 if eps is None else eps, gamma_form=gamma_form)
        self.eps = None if eps is None else norm.eps
        self.gamma_form = gamma_form
        self.weight = nn.Parameter(torch.empty(self.normalized_shape, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets the initial weights, for which γ has no effect."""
        if self.weight is not None:
            nn.init.constant_(self.weight, float(self.gamma_form == "plain"))

    def forward(self, x: Tensor) -> Tensor:
        return apply(x, None, *self.arguments())

    def arguments(self) -> Arguments:
        """Returns γ, β, the norm and the shape."""
        fields = "rms", self.eps, "variance", "population", self.gamma_form, 1.0
        return self.weight, None, fields, self.normalized_shape

    def extra_repr(self) -> str:
        shape = ", ".join(map(str, self.normalized_shape))
        return f"{shape}, eps={self.eps}, gamma_form={self.gamma_form!r}"


class UnitNorm(nn.Module):
    """Computes x/‖x‖ over the last axis, without parameters."""

    def forward(self, x: Tensor) -> Tensor:
        fields: OpenFields = "rms", 1e-12, "variance", "population", "plain", x.shape[-1]**-0.5
        unit: Tensor = apply(x, None, None, None, fields, None)
        return unit


class DyT(_Converted):
    """Computes y = weight ⊙ tanh(alpha·x) + bias, a replacement for a norm (arXiv 2503.10622). All three are learned.

    weight and bias have `features` values, initially 1 and 0; alpha has one value.
    """

    initial_alpha: float
    alpha: nn.Parameter
    weight: nn.Parameter
    bias: nn.Parameter

    def __init__(self, features: int, alpha: float = 0.5, *, device: Any = None,
                 dtype: torch.dtype | None = None) -> None:
        super().__init__()
        shape = checked_shape("features", features)
        if len(shape) != 1:
            raise _core.Error(f"features is {features!r}, must be one positive integer")
        self.features = shape[0]
        if not isinstance(alpha, numbers.Real) or isinstance(alpha, bool):
            raise TypeError(f"alpha is {alpha!r}, must be a number")
        self.initial_alpha = float(alpha)
        self.alpha, self.weight, self.bias = (
            nn.Parameter(torch.empty(n, device=device, dtype=dtype)) for n in (1, self.features, self.features))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets the initial values of all parameters."""
        values = {"alpha": self.initial_alpha, "weight": 1.0, "bias": 0.0, "shift": 0.0}
        for name, parameter in self.named_parameters(recurse=False):
            nn.init.constant_(parameter, values[name])

    def forward(self, x: Tensor) -> Tensor:
        return squash(x, self.alpha, None, self.weight, self.bias, "dyt")

    def extra_repr(self) -> str:
        return str(self.features)


class Derf(DyT):
    """Computes y = weight ⊙ erf(alpha·x + shift) + bias (arXiv 2512.10938). As DyT; shift
    has one value, initially 0."""

    def __init__(self, features: int, alpha: float = 0.5, *, device: Any = None,
                 dtype: torch.dtype | None = None) -> None:
        super().__init__(features, alpha, device=device, dtype=dtype)
        self.shift = nn.Parameter(torch.zeros_like(self.alpha))

    def forward(self, x: Tensor) -> Tensor:
        return squash(x, self.alpha, self.shift, self.weight, self.bias, "derf")


def replacement(norm: nn.Module) -> type | None:
    """Returns the class of this package that replaces a norm of torch.nn; None for other modules."""
    kinds = {nn.LayerNorm: LayerNorm, getattr(nn, "RMSNorm", None): RMSNorm}  # torch.nn.RMSNorm: since PyTorch 2.4
    return kinds.get(type(norm))


def adopt(norm: nn.Module) -> None:
    """Converts a norm of torch.nn to one of this package, in place. Other modules stay unchanged."""
    kind = replacement(norm)
    if kind is not None:
        norm.__class__ = kind


class AddNorm(_Converted):
    """The residual sum and the norm after it: AddNorm(norm)(x, branch) is (norm(s), s) with s = x + branch.

    norm: a LayerNorm or RMSNorm of this package or of torch.nn, which is then converted; or a width, for
    LayerNorm(width). Any other module runs after the sum, in a separate pass.

    A post-norm layer continues with the first result. A pre-norm layer passes the first result to its next sublayer,
    and s to the sum after it.
    """

    def __init__(self, norm: Union[nn.Module, int, Sequence[int]]) -> None:
        super().__init__()
        if isinstance(norm, (numbers.Integral, tuple, list)):
            norm = LayerNorm(checked_shape("norm", norm))
        if not isinstance(norm, nn.Module):
            raise TypeError(f"norm is {norm!r}, must be a module that normalizes, such as LayerNorm(768), or a width")
        adopt(norm)
        self.norm = norm

    def forward(self, x: Tensor, branch: Tensor) -> tuple[Tensor, Tensor]:
        return _sum_and_norm(x, branch, self.norm)


class TransformerEncoderLayer(_Converted, nn.TransformerEncoderLayer):
    """torch.nn.TransformerEncoderLayer, with its arguments, parameters and state. In training, each sum and the norm
    after it are one pass. In evaluation it is PyTorch's layer.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        adopt(self.norm1)
        adopt(self.norm2)

    def forward(self, src: Tensor, src_mask: Tensor | None = None,
                src_key_padding_mask: Tensor | None = None, **kwargs: Any) -> Tensor:
        if not self.training:
            return super().forward(src, src_mask, src_key_padding_mask, **kwargs)
        masks = src_mask, src_key_padding_mask
        if self.norm_first:
            attention = self._sa_block(self.norm1(src), *masks, **kwargs)
            h, s = _sum_and_norm(src, attention, self.norm2)
            return s + self._ff_block(h)
        x, _ = _sum_and_norm(src, self._sa_block(src, *masks, **kwargs), self.norm1)
        return _sum_and_norm(x, self._ff_block(x), self.norm2)[0]


def _sum_and_norm(x: Tensor, branch: Tensor, norm: nn.Module) -> tuple[Tensor, Tensor]:
    """Returns (norm(s), s) with s = x + branch. One pass computes both, unless the norm has its own forward or hooks,
    or a dispatch mode records the operators."""
    is_ours = type(norm).forward in (LayerNorm.forward, RMSNorm.forward)
    if is_ours and not _has_hooks(norm) and not is_recorded():
        return apply(x, branch, *norm.arguments())
    s = add(x, branch)
    return norm(s), s


def _has_hooks(module: nn.Module) -> bool:
    kinds = "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"
    return any(getattr(module, kind, None) for kind in kinds)
