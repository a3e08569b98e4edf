"""convert: replaces the norms of a model by those of this library."""

from __future__ import annotations

import copy
import math
import sys
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from ..norm_options import Norm, NormFields
from .functions import norm
from .modules import AddNorm, LayerNorm, RMSNorm, TransformerEncoderLayer, adopt, replacement
from .tensors import obstacle

_OURS = AddNorm, LayerNorm, RMSNorm, TransformerEncoderLayer


@dataclass
class Conversion:
    """The result of convert, by names of modules.

    model       the model itself
    converted   the modules that now run on this library, and their classes
    left        the unchanged modules that look like a norm or an encoder layer, and the reasons
    """

    model: nn.Module
    converted: dict[str, str] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"{len(self.converted)} modules converted, {len(self.left)} left"]
        lines += [f"  {name or '(the model)'}: {why}" for name, why in self.left.items()]
        return "\n".join(lines)


def is_converted(module: nn.Module) -> bool:
    """Whether a module is a norm that the kernels may compute."""
    return isinstance(module, (LayerNorm, RMSNorm))


def convert(model: nn.Module, fuse: bool = True) -> Conversion:
    """Makes every norm in the model run on this library. Works in place and keeps parameters, state, hooks and training
    mode. Returns the result for each module.

    Converts nn.LayerNorm, nn.RMSNorm and, if fuse, nn.TransformerEncoderLayer. Also converts modules that compute an
    RMSNorm of their `weight` and `eps` (or `variance_epsilon`); this is tested by running them, not by their names.
    Subclasses of PyTorch's classes stay unchanged. A converted model runs wherever the model ran: PyTorch's functions
    compute tensors for which there are no kernels. explain() says which will run.

    Raises TypeError if model is not a torch.nn.Module.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model is of type {type(model).__name__}, must be a torch.nn.Module")
    result = Conversion(model)
    for name, module in model.named_modules():
        found = _convert(module, fuse)
        if type(found) is type:
            result.converted[name] = found.__name__
        elif found is not None:
            result.left[name] = found
    return result


def _convert(module: nn.Module, fuse: bool) -> type | str | None:
    """Returns the module's new class, the reason why it is unchanged, or None if it is not a candidate."""
    kind = type(module)
    if kind in _OURS:
        return None
    if replacement(module) is not None:
        adopt(module)
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
    """Returns the RMSNorm that the module computes, from its results for rows of three sizes; or the reason why not."""
    eps = getattr(module, "eps", getattr(module, "variance_epsilon", None))
    weight = getattr(module, "weight", None)
    if not (isinstance(weight, Tensor) and weight.dim() == 1):
        return "has no vector `weight`"
    if getattr(module, "bias", None) is not None:
        return "has a bias, so it is no RMSNorm"
    if not (isinstance(eps, float) and eps > 0):
        return "has no positive `eps` or `variance_epsilon`"
    if weight.device.type == "meta" or isinstance(weight, _fake_tensors()):
        return "cannot be tried: its weight has no values yet"
    if weight.device.type != "cpu":
        module = copy.deepcopy(module).to("cpu")
        weight = module.weight
    why = obstacle(weight)
    if why is not None:
        return f"cannot be tried: its weight {why}"
    sizes = torch.tensor([[1.0], [math.sqrt(eps)], [100.0]], device="cpu")
    x = sizes * torch.randn(3, len(weight), generator=torch.Generator().manual_seed(0), device="cpu")
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
    except Exception as error:  # a custom forward that needs other arguments than one tensor
        return f"cannot be tried: {type(error).__name__}: {error}"
    return "gives something else than an RMSNorm of its weight and ε"


def _fake_tensors() -> tuple[type, ...]:
    module = sys.modules.get("torch._subclasses.fake_tensor")
    return (module.FakeTensor,) if module is not None else ()


def _are_close(ours: Tensor, theirs: Any) -> bool:
    return torch.allclose(theirs, ours, rtol=16 * torch.finfo(ours.dtype).eps,
                          atol=1e-5 * theirs.abs().max().item())
