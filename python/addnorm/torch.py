"""Norms and Add & Norm for PyTorch on the CPU, as functions with gradients and as modules.

    from addnorm.torch import convert
    convert(model)          # every LayerNorm, RMSNorm and TransformerEncoderLayer in it, in place

A tensor may have any shape and float32, float64, float16 or bfloat16; one that is not contiguous is
copied, as PyTorch's own norms do. γ and β may have any of these types too. First derivatives only.
Threads are those of torch.set_num_threads where PyTorch and this library share libgomp, as in Debian.
"""

from __future__ import annotations

import math
from typing import Any, Literal, Sequence

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.utils.dlpack import to_dlpack

from . import _core
from .norms import Norm, NormFields

__all__ = ["AddNorm", "LayerNorm", "RMSNorm", "TransformerEncoderLayer", "add_norm", "convert",
           "norm"]

Arguments = tuple[Tensor | None, Tensor | None, Norm, Sequence[int]]


def _memory(tensor: Tensor | None) -> Any:
    return None if tensor is None else to_dlpack(tensor)


class _AddNorm(Function):
    """s = x + branch and y = norm(s), of contiguous tensors; without a branch y = norm(x) alone."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, branch: Tensor | None, gamma: Tensor | None,
                beta: Tensor | None, norm: NormFields) -> Any:
        y = torch.empty_like(x)
        s = None if branch is None else torch.empty_like(x)
        statistics = x.new_empty((*x.shape[:-1], 6), dtype=_value_type(x))
        _core.add_norm(norm, _memory(x), _memory(branch), None, None, (0.0, 0, 0), _memory(gamma),
                       _memory(beta), _memory(s), _memory(y), _memory(statistics))
        ctx.save_for_backward(x if s is None else s, statistics, gamma)
        ctx.set_materialize_grads(False)
        ctx.norm = norm
        return y if s is None else (y, s)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor | None, ds: Tensor | None = None) -> Any:
        s, statistics, gamma = ctx.saved_tensors
        _, wants_branch, wants_gamma, wants_beta, _ = ctx.needs_input_grad
        dx, d_gamma, d_beta = ds, None, None
        if dy is not None:
            dx = torch.empty_like(s)
            d_gamma = torch.empty_like(gamma) if wants_gamma else None
            d_beta = statistics.new_empty(s.shape[-1]) if wants_beta else None
            dy, ds = (None if d is None else d.contiguous() for d in (dy, ds))
            _core.add_norm_backward(ctx.norm, _memory(dy), _memory(s), _memory(statistics),
                                    _memory(gamma), _memory(ds), None, _memory(dx),
                                    _memory(d_gamma), _memory(d_beta))
        return dx, dx if wants_branch else None, d_gamma, d_beta, None


def _value_type(x: Tensor) -> torch.dtype:
    """Of γ, β and statistics beside a stream of this type."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _apply(x: Tensor, branch: Tensor | None, weight: Tensor | None, bias: Tensor | None,
           options: Norm, shape: Sequence[int] | None) -> Any:
    """Conversions stand before the Function, so that gradients find their way back by autograd."""
    shape = tuple(x.shape[-1:] if shape is None else shape)
    if tuple(x.shape[-len(shape):]) != shape or 0 in shape or not shape:
        raise _core.Error(f"x has the shape {tuple(x.shape)}, must end with {shape} and no 0")
    if branch is not None and branch.shape != x.shape:
        raise _core.Error(f"branch has the shape {tuple(branch.shape)}, must have {tuple(x.shape)}")
    if len(shape) > 1:  # the kernels know one axis of features
        flat = (None if t is None else t.flatten(-len(shape)) for t in (x, branch, weight, bias))
        result = _apply(*flat, options, None)
        return result.view(x.shape) if branch is None else tuple(t.view(x.shape) for t in result)
    gamma, beta = (None if p is None else p.to(_value_type(x)) for p in (weight, bias))
    return _AddNorm.apply(x.contiguous(), None if branch is None else branch.contiguous(), gamma,
                          beta, options.fields)


def norm(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None,
         options: Norm = Norm(), shape: Sequence[int] | None = None) -> Tensor:
    """y = options' norm of x with γ = weight and β = bias, or 1 and 0.

    x: (…, *shape); shape: the last axes, which are normalized together, None: the last one;
    weight, bias: shape. addnorm.Error if they do not go together or a tensor is not on the CPU,
    TypeError for other types.
    """
    return _apply(x, None, weight, bias, options, shape)


def add_norm(x: Tensor, branch: Tensor, weight: Tensor | None = None, bias: Tensor | None = None,
             options: Norm = Norm(), shape: Sequence[int] | None = None) -> tuple[Tensor, Tensor]:
    """s = x + branch and y = norm(s), in one pass over memory forward and one back; returns (y, s).

    x and branch have one shape; where their types differ both get the wider one, as in x + branch.
    Everything else as in norm().
    """
    wide = torch.promote_types(x.dtype, branch.dtype)
    return _apply(x.to(wide), branch.to(wide), weight, bias, options, shape)


class LayerNorm(nn.LayerNorm):
    """torch.nn.LayerNorm, with its arguments, parameters and state."""

    def forward(self, x: Tensor) -> Tensor:
        return norm(x, *self.arguments())

    def arguments(self) -> Arguments:
        """Of norm() and add_norm(), after what they normalize."""
        return self.weight, self.bias, Norm("layer", self.eps), self.normalized_shape


class RMSNorm(nn.Module):
    """y = weight ⊙ x/√(mean(x²) + eps) over the last axis; with gamma_form "one_plus", 1 + weight.

    weight has `features` values: 1 at first, or 0 for "one_plus".
    """

    def __init__(self, features: int, eps: float = 1e-5,
                 gamma_form: Literal["plain", "one_plus"] = "plain") -> None:
        super().__init__()
        self.eps = eps
        self.gamma_form = gamma_form
        first = torch.zeros if gamma_form == "one_plus" else torch.ones
        self.weight = nn.Parameter(first(features))

    def forward(self, x: Tensor) -> Tensor:
        return norm(x, *self.arguments())

    def arguments(self) -> Arguments:
        """Of norm() and add_norm(), after what they normalize."""
        options = Norm("rms", self.eps, gamma_form=self.gamma_form)
        return self.weight, None, options, self.weight.shape

    def extra_repr(self) -> str:
        return f"{len(self.weight)}, eps={self.eps}, gamma_form={self.gamma_form!r}"


class AddNorm(nn.Module):
    """The residual sum and the norm after it: AddNorm(norm)(x, branch) is (norm(s), s), s = x + branch.

    norm: a LayerNorm or RMSNorm of this module. A post-norm layer goes on with the first of the two, a
    pre-norm one hands the first to its next sublayer and s to the sum after it.
    """

    def __init__(self, norm: LayerNorm | RMSNorm) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x: Tensor, branch: Tensor) -> tuple[Tensor, Tensor]:
        return add_norm(x, branch, *self.norm.arguments())


class TransformerEncoderLayer(nn.TransformerEncoderLayer):
    """torch.nn.TransformerEncoderLayer, with its arguments, parameters and state; in training its sums
    and norms are one. In evaluation it is PyTorch's layer. Hooks of norms that are so fused do not run.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        convert(self)

    def forward(self, src: Tensor, src_mask: Tensor | None = None,
                src_key_padding_mask: Tensor | None = None, **kwargs: Any) -> Tensor:
        if not self.training:
            return super().forward(src, src_mask, src_key_padding_mask, **kwargs)
        masks = src_mask, src_key_padding_mask
        if self.norm_first:
            attention = self._sa_block(self.norm1(src), *masks, **kwargs)
            h, s = add_norm(src, attention, *self.norm2.arguments())
            return s + self._ff_block(h)
        x, _ = add_norm(src, self._sa_block(src, *masks, **kwargs), *self.norm1.arguments())
        return add_norm(x, self._ff_block(x), *self.norm2.arguments())[0]


def convert(model: nn.Module, fuse: bool = True) -> nn.Module:
    """Lets every norm in the model run on this library; in place, with the same parameters, state, hooks
    and training mode. Returns the model.

    Converted are nn.LayerNorm, modules that give what an RMSNorm of their `weight` and `eps` (or
    `variance_epsilon`) gives, which is tried and not taken from their names, and, if fuse,
    nn.TransformerEncoderLayer. Subclasses of PyTorch's classes stay as they are.
    """
    for module in model.modules():
        rms = _rms_norm(module)
        if type(module) is nn.LayerNorm:
            module.__class__ = LayerNorm
        elif rms is not None:
            module.__class__, module.eps, module.gamma_form = RMSNorm, rms.eps, rms.gamma_form
    for module in model.modules():
        if fuse and type(module) is nn.TransformerEncoderLayer:
            module.__class__ = TransformerEncoderLayer
    return model


def _rms_norm(module: nn.Module) -> Norm | None:
    """The RMSNorm that the module is, by what it gives for rows of three sizes; or None."""
    eps = getattr(module, "eps", getattr(module, "variance_epsilon", None))
    weight = getattr(module, "weight", None)
    has_no_bias = getattr(module, "bias", None) is None
    if not (isinstance(eps, float) and eps > 0 and has_no_bias and isinstance(weight, Tensor)
            and weight.dim() == 1 and type(module).__name__.endswith("Norm")):
        return None
    sizes = torch.tensor([[1.0], [math.sqrt(eps)], [100.0]])
    x = sizes * torch.randn(3, len(weight), generator=torch.Generator().manual_seed(0))
    x = x.to(weight.dtype)
    try:
        with torch.no_grad():
            y = type(module).forward(module, x)
            if not y.any():  # a weight of 0 hides which norm it is
                return None
            for form in "plain", "one_plus":
                options = Norm("rms", eps, gamma_form=form)
                ours = norm(x, weight, None, options)
                if torch.allclose(y, ours, rtol=16 * torch.finfo(x.dtype).eps,
                                  atol=1e-5 * y.abs().max().item()):
                    return options
    except Exception:  # somebody else's forward, which wants something else than one tensor
        pass
    return None
