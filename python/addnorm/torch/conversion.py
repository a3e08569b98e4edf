"""convert: the norms of a model, from now on by this library."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from ..norm import Norm, NormFields
from .functions import norm
from .modules import AddNorm, LayerNorm, RMSNorm, TransformerEncoderLayer

_OURS = AddNorm, LayerNorm, RMSNorm, TransformerEncoderLayer
_PYTORCHS_RMS_NORM = getattr(nn, "RMSNorm", None)  # since PyTorch 2.4


@dataclass
class Conversion:
    """What convert did, by names of modules.

    model       the model itself
    converted   what runs on this library now, and as which class
    left        what looks like a norm or an encoder layer and stays PyTorch's, and why
    """

    model: nn.Module
    converted: dict[str, str] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"{len(self.converted)} modules converted, {len(self.left)} left"]
        lines += [f"  {name or '(the model)'}: {why}" for name, why in self.left.items()]
        return "\n".join(lines)


def convert(model: nn.Module, fuse: bool = True) -> Conversion:
    """Lets every norm in the model run on this library; in place, with the same parameters, state, hooks
    and training mode. Returns what became of each.

    Converted are nn.LayerNorm, nn.RMSNorm, modules that give what an RMSNorm of their `weight` and `eps`
    (or `variance_epsilon`) gives, which is tried and not taken from their names, and, if fuse,
    nn.TransformerEncoderLayer. Subclasses of PyTorch's classes stay as they are.
    """
    result = Conversion(model)
    for name, module in model.named_modules():
        found = _convert(module, fuse)
        if type(found) is type:
            result.converted[name] = found.__name__
        elif found is not None:
            result.left[name] = found
    return result


def _convert(module: nn.Module, fuse: bool) -> type | str | None:
    """The class that the module has become, why it stays as it is, or None if it is nothing of ours."""
    kind = type(module)
    if kind in _OURS:
        return None
    if kind is nn.LayerNorm:
        module.__class__ = LayerNorm
    elif kind is _PYTORCHS_RMS_NORM:
        module.__class__, module.gamma_form = RMSNorm, "plain"
    elif kind is nn.TransformerEncoderLayer:
        if not fuse:
            return "fuse is False"
        if any(type(n) not in (nn.LayerNorm, LayerNorm) for n in (module.norm1, module.norm2)):
            return "its norms are not torch.nn.LayerNorm"
        module.__class__ = TransformerEncoderLayer
    elif isinstance(module, (nn.LayerNorm, nn.TransformerEncoderLayer)):
        return f"{kind.__name__} is a subclass, which may compute something else"
    elif kind.__name__.endswith("Norm"):
        rms = _rms_norm(module)
        if isinstance(rms, str):
            return f"{kind.__name__} {rms}"
        module.__class__ = RMSNorm
        _, module.eps, _, _, module.gamma_form, _ = rms
        module.normalized_shape = tuple(module.weight.shape)
    else:
        return None
    return type(module)


def _rms_norm(module: nn.Module) -> NormFields | str:
    """The RMSNorm that the module is, by what it gives for rows of three sizes; or why it is none."""
    eps = getattr(module, "eps", getattr(module, "variance_epsilon", None))
    weight = getattr(module, "weight", None)
    if not (isinstance(weight, Tensor) and weight.dim() == 1):
        return "has no vector `weight`"
    if getattr(module, "bias", None) is not None:
        return "has a bias, so it is no RMSNorm"
    if not (isinstance(eps, float) and eps > 0):
        return "has no positive `eps` or `variance_epsilon`"
    if weight.device.type != "cpu":
        return f"is on {weight.device}, not on the CPU"
    sizes = torch.tensor([[1.0], [math.sqrt(eps)], [100.0]])
    x = sizes * torch.randn(3, len(weight), generator=torch.Generator().manual_seed(0))
    x = x.to(weight.dtype)
    try:
        with torch.no_grad():
            theirs = type(module).forward(module, x)
            if not theirs.any():
                return "gives 0, which hides what norm it is"
            for form in "plain", "one_plus":
                options = Norm("rms", eps, gamma_form=form)
                if _are_close(norm(x, weight, None, options), theirs):
                    return options.fields
    except Exception as error:  # somebody else's forward, which wants something else than one tensor
        return f"cannot be tried: {type(error).__name__}: {error}"
    return "gives something else than an RMSNorm of its weight and ε"


def _are_close(ours: Tensor, theirs: Any) -> bool:
    return torch.allclose(theirs, ours, rtol=16 * torch.finfo(ours.dtype).eps,
                          atol=1e-5 * theirs.abs().max().item())
