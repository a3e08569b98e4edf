"""The norm in PyTorch's own functions, which can be traced, exported and differentiated again."""

from __future__ import annotations

import math
from typing import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from ..norm_options import Norm, NormFields

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)  # of streams


def value_type(x: Tensor) -> torch.dtype:
    """Returns the type of γ, β and statistics for a stream of this type."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _default_epsilon(dtype: torch.dtype) -> float:
    """Returns the ε of torch.nn.RMSNorm if none is given. For 16-bit types it is their machine epsilon in PyTorch 2.6,
    and that of float32 in 2.15, so the result of a row of one number is examined."""
    of_float32 = torch.finfo(torch.float32).eps
    if dtype in (torch.float32, torch.float64) or not hasattr(F, "rms_norm"):
        return torch.finfo(dtype).eps
    x = torch.full((1,), of_float32**0.5, dtype=dtype, device="cpu")  # y = x/√(x² + ε)
    is_wide = bool(F.rms_norm(x, (1,)) > 0.5)
    return of_float32 if is_wide else torch.finfo(dtype).eps


# Computed on import, because torch.compile would trace a call.
DEFAULT_EPSILONS = {dtype: _default_epsilon(dtype) for dtype in DTYPES}


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


def add_norm_backward_in_pytorch(dy: Tensor, ds: Tensor | None, s: Tensor, gamma: Tensor | None, fields: NormFields,
                                 axes: int) -> tuple[Tensor, Tensor, Tensor]:
    """Computes the gradients of s, γ and β for those of y = norm(s) and of s itself."""
    dx, d_gamma, d_beta = norm_backward_in_pytorch(dy, s, gamma, fields, axes)
    return dx if ds is None else dx + ds, d_gamma, d_beta


def norm_backward_in_pytorch(dy: Tensor, s: Tensor, gamma: Tensor | None, fields: NormFields,
                             axes: int) -> tuple[Tensor, Tensor, Tensor]:
    """Computes the gradients of s, γ and β without autograd, as inside an operator:

        ds = g/deviation − c·Σ(g·c)·deviation′(v)·2k/(n·deviation²), minus its mean if the norm subtracts the mean

    with c the centred values, v = k·mean(c²) their variance and g = γ ⊙ dy.
    """
    kind, eps, eps_at, variance, gamma_form, scale = fields
    over = tuple(range(-axes, 0))
    n = math.prod(s.shape[-axes:])
    k = n / (n - 1) if variance == "unbiased" else 1.0
    c, dy = s.to(value_type(s)), dy.to(value_type(s)) * scale
    if kind == "layer":
        c = c - c.mean(over, keepdim=True)
    v = k * c.square().mean(over, keepdim=True)
    deviation, slope = ((v + eps).sqrt(), 0.5 / (v + eps).sqrt()) if eps_at == "variance" else \
        (v.sqrt() + eps, 0.5 / v.sqrt())
    factor = None if gamma is None else gamma + 1 if gamma_form == "one_plus" else gamma
    g = dy if factor is None else dy * factor
    ds = g / deviation - c * ((g * c).sum(over, keepdim=True) * slope * (2 * k / n) / deviation.square())
    if kind == "layer":
        ds = ds - ds.mean(over, keepdim=True)
    rows = tuple(range(s.dim() - axes))
    d_gamma, d_beta = dy * c / deviation, dy
    return ds.to(s.dtype), d_gamma.sum(rows) if rows else d_gamma, d_beta.sum(rows) if rows else d_beta


def lanes_backward_in_pytorch(d_sum: Tensor | None, dy: Tensor | None, x: Tensor, branch: Tensor | None,
                              carry: Tensor | None, write: Tensor | None, read: Tensor | None, gamma: Tensor | None,
                              fields: NormFields | None) -> list[Tensor | None]:
    """Computes the gradients of x, branch, carry, write, read, γ and β without autograd, with G = d_sum + a ⊗ dz:

        dX = Aᵀ·G,   df = b·G,   dA = G·Xᵀ,   db = G·f,   da = X′·dz
    """
    sum, _ = lanes_in_pytorch(x, branch, carry, write, None, None, None, None)
    wide, dtype = sum.to(value_type(x)), value_type(x)
    G = torch.zeros_like(wide) if d_sum is None else d_sum.to(dtype)
    d_read = d_gamma = d_beta = None
    if read is not None and dy is not None:
        dz = dy.to(dtype)
        if fields is not None:
            z = (read.unsqueeze(-2) @ wide).squeeze(-2)
            dz, d_gamma, d_beta = norm_backward_in_pytorch(dz, z, gamma, fields, 1)
        G = G + read.unsqueeze(-1) * dz.unsqueeze(-2)
        d_read = _like(read, (wide @ dz.unsqueeze(-1)).squeeze(-1))
    dx = G if carry is None else carry.transpose(-1, -2) @ G
    d_carry = None if carry is None else _like(carry, G @ x.to(dtype).transpose(-1, -2))
    df = d_write = None
    if branch is not None and write is not None:
        df = (write.unsqueeze(-2) @ G).squeeze(-2).to(branch.dtype)
        d_write = _like(write, (G @ branch.to(dtype).unsqueeze(-1)).squeeze(-1))
    return [dx.to(x.dtype), df, d_carry, d_write, d_read, d_gamma, d_beta]


def _like(mix: Tensor, gradient: Tensor) -> Tensor:
    """Sums a gradient over the rows that share a mix."""
    extra = tuple(range(gradient.dim() - mix.dim()))
    return gradient.sum(extra) if extra else gradient


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
