"""Shared by the doctor's parts: names of modules, and tensors in the inputs and outputs of models."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

HEADS = "num_attention_heads", "n_head", "num_heads", "n_heads", "heads"  # names of the number of heads
NORM_CLASS = re.compile(r"norm|^rms", re.I)  # names of classes that normalize
_NOT_OF_ROWS = nn.modules.batchnorm._NormBase, nn.GroupNorm, nn.LocalResponseNorm, nn.Identity
# Names of a norm's ε in configurations and modules.
EPSILONS = ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_eps", "variance_epsilon",
            "eps", "epsilon")


def parent_of(name: str) -> str:
    return name.rpartition(".")[0]


def is_within(name: str, outer: str) -> bool:
    return not outer or name == outer or name.startswith(outer + ".")


def has_running_statistics(module: nn.Module) -> bool:
    """Whether a norm divides by statistics that it keeps, as BatchNorm and its frozen forms in DETR do."""
    return "running_mean" in module._buffers


def may_normalize_rows(module: nn.Module) -> bool:
    """Whether a module may be a norm over features: it has no child modules and no matrices, and it is not one of
    PyTorch's norms over other axes."""
    is_other = isinstance(module, _NOT_OF_ROWS) or has_running_statistics(module)
    return not is_other and not any(True for _ in module.children()) and all(p.dim() < 2 for p in module.parameters())


def is_norm_class(module: nn.Module) -> bool:
    """Whether a module normalizes rows, by the names of its classes."""
    return may_normalize_rows(module) and any(NORM_CLASS.search(kind.__name__) for kind in type(module).__mro__)


def dtype_name(value: Tensor | torch.dtype) -> str:
    """Returns the name of a type without its module, for example "bfloat16"."""
    return str(value.dtype if isinstance(value, Tensor) else value).replace("torch.", "")


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Yields all tensors in nested tuples, lists, dictionaries and dataclasses, in order. If the value itself is
    another object, yields those in its attributes. Inside of a value, such an object may be a cache and is skipped."""
    known = (Tensor, Mapping, list, tuple, type, nn.Module)
    is_plain = hasattr(value, "__dict__") and not isinstance(value, known)
    yield from _nested_tensors(vars(value) if is_plain else value)


def _nested_tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _nested_tensors(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _nested_tensors(item)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from _nested_tensors(vars(value))


def hidden_modules(model: nn.Module) -> dict[str, list[nn.Module]]:
    """Returns the modules in plain lists, tuples and dictionaries, which nn.Module does not register, by attribute."""
    known, torchs_own = set(model.modules()), vars(nn.Module())
    found = {}
    for name, module in model.named_modules():
        for key, value in vars(module).items():
            hidden = [] if key in torchs_own else [m for m in _modules_in(value) if m not in known]
            if hidden:
                found[f"{name}.{key}" if name else key] = hidden
    return found


def _modules_in(value: Any, depth: int = 2) -> Iterator[nn.Module]:
    if not isinstance(value, (list, tuple, dict)) or depth == 0:
        return
    for item in value.values() if isinstance(value, dict) else value:
        if isinstance(item, nn.Module):
            yield item
        else:
            yield from _modules_in(item, depth - 1)


def entry(value: Any, *names: str) -> Any:
    """Returns the first of these keys or attributes that exists and is not None."""
    for name in names:
        found = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
        if found is not None:
            return found
    return None


def own_loss(output: Any) -> Any:
    """Returns a model's own loss: its only output, the output named "loss", or the single number in a tuple."""
    if isinstance(output, Tensor):
        return output if output.numel() == 1 else None
    if isinstance(output, Mapping):
        return output.get("loss")
    if isinstance(output, (tuple, list)):
        return next((t for t in output if isinstance(t, Tensor) and t.numel() == 1 and t.requires_grad), None)
    return getattr(output, "loss", None)
