"""norm and add_norm: they check tensors and choose who computes."""

from __future__ import annotations

from typing import Any, Sequence

import torch
from torch import Tensor

from .. import _core
from ..norm import Norm, NormFields
from . import operators
from .autograd import DifferentiableAddNorm, DifferentiableSquash
from .formula import norm_in_pytorch, squash_in_pytorch, value_type


def norm(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None,
         options: Norm = Norm(), shape: Sequence[int] | None = None) -> Tensor:
    """y = options' norm of x with γ = weight and β = bias, or 1 and 0.

    x: (…, *shape); shape: the last axes, which are normalized together, None: the last one;
    weight, bias: shape. addnorm.Error if they do not go together or a tensor is not on the CPU,
    TypeError for other types.
    """
    return apply(x, None, weight, bias, options.fields, shape)


def add_norm(x: Tensor, branch: Tensor, weight: Tensor | None = None, bias: Tensor | None = None,
             options: Norm = Norm(), shape: Sequence[int] | None = None) -> tuple[Tensor, Tensor]:
    """s = x + branch and y = norm(s), in one pass over memory forward and one back; returns (y, s).

    x and branch have one shape; where their types differ both get the wider one, as in x + branch.
    Everything else as in norm().
    """
    return apply(x, branch, weight, bias, options.fields, shape)


def common_type(x: Tensor, branch: Tensor) -> torch.dtype:
    """That of x + branch. PyTorch is asked only where they differ: an exported graph would ask too."""
    return x.dtype if x.dtype == branch.dtype else torch.promote_types(x.dtype, branch.dtype)


def apply(x: Tensor, branch: Tensor | None, weight: Tensor | None, bias: Tensor | None,
          fields: NormFields, shape: Sequence[int] | None) -> Any:
    """y, and s if there is a branch. Conversions stand before what computes, so that gradients find
    their way back by autograd."""
    shape = tuple(x.shape[-1:] if shape is None else shape)
    if torch.jit.is_tracing() or torch.onnx.is_in_onnx_export():
        s = x if branch is None else x + branch
        y = norm_in_pytorch(s, weight, bias, fields, shape)
        return y if branch is None else (y, s)
    if tuple(x.shape[-len(shape):]) != shape or 0 in shape or not shape:
        raise _core.Error(f"x has the shape {tuple(x.shape)}, must end with {shape} and no 0")
    if branch is not None:
        if branch.shape != x.shape:
            raise _core.Error(f"branch has the shape {tuple(branch.shape)}, must have {tuple(x.shape)}")
        wide = common_type(x, branch)
        x, branch = x.to(wide), branch.to(wide)
    if len(shape) > 1:  # the kernels know one axis of features
        flat = (None if t is None else t.flatten(-len(shape)) for t in (x, branch, weight, bias))
        result = apply(*flat, fields, None)
        return result.view(x.shape) if branch is None else tuple(t.view(x.shape) for t in result)
    gamma, beta = (None if p is None else p.to(value_type(x)) for p in (weight, bias))
    x = x.contiguous()
    branch = None if branch is None else branch.contiguous()
    if operators.are_wanted():
        return operators.apply(x, branch, gamma, beta, fields)
    return DifferentiableAddNorm.apply(x, branch, gamma, beta, fields)


def squash(x: Tensor, alpha: Tensor, shift: Tensor | None, weight: Tensor | None, bias: Tensor | None,
           kind: str) -> Tensor:
    """y = weight ⊙ tanh(α·x) + bias for "dyt", and weight ⊙ erf(α·x + shift) + bias for "derf". A
    compiler or an exporter sees PyTorch's own functions."""
    factors = [None if p is None else p.to(value_type(x)) for p in (alpha, shift, weight, bias)]
    if torch.jit.is_tracing() or torch.onnx.is_in_onnx_export() or operators.are_wanted():
        return squash_in_pytorch(x, *factors, kind)
    return DifferentiableSquash.apply(x.contiguous(), *factors, kind)
