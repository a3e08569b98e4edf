"""The norm in PyTorch's own functions, which can be traced, exported and differentiated again."""

from __future__ import annotations

import math
from typing import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from ..norm_options import Norm, NormFields


def value_type(x: Tensor) -> torch.dtype:
    """Returns the type of γ, β and statistics for a stream of this type."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def norm_in_pytorch(x: Tensor, gamma: Tensor | None, beta: Tensor | None, fields: NormFields,
                    shape: Sequence[int]) -> Tensor:
    """Computes y = scale·(γ ⊙ (x − mean)/deviation + β) over the last axes of this shape, as in Norm."""
    kind, eps, eps_at, variance, gamma_form, scale = fields
    one_type = all(p is None or p.dtype == x.dtype for p in (gamma, beta))
    if (one_type or is_autocast(x)) and tuple(fields) == Norm("layer", eps).fields:
        return F.layer_norm(x, shape, gamma, beta, eps)
    axes = tuple(range(-len(shape), 0))
    wide = x.to(value_type(x))
    if kind == "layer":
        wide = wide - wide.mean(axes, keepdim=True)
    square = wide.square().mean(axes, keepdim=True)
    if variance == "unbiased":
        square = square * (math.prod(shape) / (math.prod(shape) - 1))
    y = wide / ((square + eps).sqrt() if eps_at == "variance" else square.sqrt() + eps)
    if gamma is not None:
        y = y * (gamma + 1 if gamma_form == "one_plus" else gamma)
    if beta is not None:
        y = y + beta
    return (y * scale).to(x.dtype)


def is_autocast(x: Tensor) -> bool:
    """Whether autocast chooses the type in which norms are computed on x's device."""
    try:
        return torch.is_autocast_enabled(x.device.type)
    except RuntimeError:  # a device without autocast, such as meta
        return False
    except TypeError:  # before PyTorch 2.4 there is no device argument, and the function is about CUDA
        return torch.is_autocast_enabled()


def lanes_in_pytorch(x: Tensor, branch: Tensor | None, carry: Tensor | None, write: Tensor | None, read: Tensor | None,
                     gamma: Tensor | None, beta: Tensor | None,
                     fields: NormFields | None) -> tuple[Tensor, Tensor | None]:
    """Computes X′ = A·X + b ⊗ f and y = norm(a·X′); without a read, y is None."""
    sum = x.to(value_type(x))
    if carry is not None:
        sum = carry @ sum
    if branch is not None and write is not None:
        sum = sum + write.unsqueeze(-1) * branch.to(sum.dtype).unsqueeze(-2)
    sum = sum.to(x.dtype)
    if read is None:
        return sum, None
    z = (read.unsqueeze(-2) @ sum.to(read.dtype)).squeeze(-2)
    y = z if fields is None else norm_in_pytorch(z, gamma, beta, fields, z.shape[-1:])
    return sum, y.to(x.dtype)


def squash_in_pytorch(x: Tensor, alpha: Tensor, shift: Tensor | None, gamma: Tensor | None,
                      beta: Tensor | None, kind: str) -> Tensor:
    """Computes y = γ ⊙ tanh(α·x) + β for "dyt", and γ ⊙ erf(α·x + shift) + β for "derf"."""
    u = alpha * x.to(value_type(x))
    if shift is not None:
        u = u + shift
    y = torch.tanh(u) if kind == "dyt" else torch.erf(u)
    if gamma is not None:
        y = y * gamma
    if beta is not None:
        y = y + beta
    return y.to(x.dtype)
