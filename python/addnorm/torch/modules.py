"""Modules in place of PyTorch's own."""

from __future__ import annotations

from typing import Any, Literal, Optional, Sequence, Tuple

import torch
from torch import Tensor, nn

from .. import _core
from ..norm import NormFields
from .functions import apply, common_type, squash

Arguments = Tuple[Optional[Tensor], Optional[Tensor], NormFields, Sequence[int]]


class _Converted(nn.Module):
    """What the modules have in common."""

    def __prepare_scriptable__(self) -> nn.Module:
        raise _core.Error(f"torch.jit.script cannot compile addnorm.torch.{type(self).__name__}: "
                          "trace the model, or script it before it is converted")


class LayerNorm(_Converted, nn.LayerNorm):
    """torch.nn.LayerNorm, with its arguments, parameters and state."""

    def forward(self, x: Tensor) -> Tensor:
        return apply(x, None, *self.arguments(x.dtype))

    def arguments(self, dtype: torch.dtype) -> Arguments:
        """γ, β, the norm and the shape, for a stream of this type."""
        fields = "layer", self.eps, "variance", "population", "plain", 1.0
        return self.weight, self.bias, fields, self.normalized_shape


class RMSNorm(_Converted):
    """y = weight ⊙ x/√(mean(x²) + eps) over the last axis; with gamma_form "one_plus", 1 + weight.

    weight has `features` values: 1 at first, or 0 for "one_plus". eps None: the machine epsilon of x's
    type, as in torch.nn.RMSNorm.
    """

    normalized_shape: Sequence[int]
    weight: Optional[Tensor]

    def __init__(self, features: int, eps: float | None = 1e-5,
                 gamma_form: Literal["plain", "one_plus"] = "plain") -> None:
        super().__init__()
        self.normalized_shape = (features,)
        self.eps = eps
        self.gamma_form = gamma_form
        first = torch.zeros if gamma_form == "one_plus" else torch.ones
        self.weight = nn.Parameter(first(features))

    def forward(self, x: Tensor) -> Tensor:
        return apply(x, None, *self.arguments(x.dtype))

    def arguments(self, dtype: torch.dtype) -> Arguments:
        """γ, β, the norm and the shape, for a stream of this type."""
        eps = torch.finfo(dtype).eps if self.eps is None else self.eps
        fields = "rms", eps, "variance", "population", self.gamma_form, 1.0
        return self.weight, None, fields, self.normalized_shape

    def extra_repr(self) -> str:
        shape = ", ".join(map(str, self.normalized_shape))
        return f"{shape}, eps={self.eps}, gamma_form={self.gamma_form!r}"


class DyT(_Converted):
    """y = weight ⊙ tanh(alpha·x) + bias, in place of a norm (arXiv 2503.10622); all of them learned.

    weight and bias have `features` values, 1 and 0 at first, and alpha has one.
    """

    def __init__(self, features: int, alpha: float = 0.5) -> None:
        super().__init__()
        self.features = features
        self.alpha = nn.Parameter(torch.full((1,), alpha))
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x: Tensor) -> Tensor:
        return squash(x, self.alpha, None, self.weight, self.bias, "dyt")

    def extra_repr(self) -> str:
        return str(self.features)


class Derf(DyT):
    """y = weight ⊙ erf(alpha·x + shift) + bias (arXiv 2512.10938); as DyT, and shift has one value, 0."""

    def __init__(self, features: int, alpha: float = 0.5) -> None:
        super().__init__(features, alpha)
        self.shift = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        return squash(x, self.alpha, self.shift, self.weight, self.bias, "derf")


class AddNorm(_Converted):
    """The residual sum and the norm after it: AddNorm(norm)(x, branch) is (norm(s), s), s = x + branch.

    norm: a LayerNorm or RMSNorm of this module. A post-norm layer goes on with the first of the two, a
    pre-norm one hands the first to its next sublayer and s to the sum after it.
    """

    def __init__(self, norm: LayerNorm | RMSNorm) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x: Tensor, branch: Tensor) -> tuple[Tensor, Tensor]:
        return _sum_and_norm(x, branch, self.norm)


class TransformerEncoderLayer(_Converted, nn.TransformerEncoderLayer):
    """torch.nn.TransformerEncoderLayer, with its arguments, parameters and state; in training its sums
    and norms are one. In evaluation it is PyTorch's layer. Hooks of norms that are so fused do not run.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.norm1.__class__ = self.norm2.__class__ = LayerNorm

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


def _sum_and_norm(x: Tensor, branch: Tensor, norm: LayerNorm | RMSNorm) -> tuple[Tensor, Tensor]:
    return apply(x, branch, *norm.arguments(common_type(x, branch)))
