"""What a model is made of: its names, its norms, the tensors in what it takes and gives."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Callable, Iterable

import torch
from torch import Tensor, nn

from .._structure import NORM_CLASS, entry, has_running_statistics, parent_of, tensors_in

_NOT_OF_ROWS = (nn.modules.batchnorm._NormBase, nn.GroupNorm, nn.LocalResponseNorm, nn.Identity)


def is_norm(module: nn.Module) -> bool:
    """Whether a module normalizes rows, by the names of its classes and its parameters."""
    if isinstance(module, _NOT_OF_ROWS) or has_running_statistics(module) or list(module.children()):
        return False
    named = any(NORM_CLASS.search(kind.__name__) for kind in type(module).__mro__)
    return named and all(p.dim() < 2 for p in module.parameters())


def is_projection(module: nn.Module) -> bool:
    """Whether a module is a linear map, also as GPT-2's Conv1D."""
    return isinstance(module, nn.Linear) or type(module).__name__ == "Conv1D"


def places_of(name: str) -> Iterator[str]:
    """The parameter itself and every module that it is in: "a.b.c", "a.b", "a"."""
    while name:
        yield name
        name = parent_of(name)


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def some(names: Iterable[str], most: int = 3) -> str:
    """"a, b, c and 4 more"."""
    names = list(names)
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest


def with_tensors(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The same nest of tuples, lists and dictionaries with other tensors; the rest as it is."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(with_tensors(item, change) for item in value))
    if type(value) in (list, tuple):
        return type(value)(with_tensors(item, change) for item in value)
    if type(value) is dict:
        return {key: with_tensors(item, change) for key, item in value.items()}
    return value


def main_output(output: Any) -> Tensor | None:
    """Logits or hidden states: of several outputs the one that a model is asked for."""
    named = entry(output, "logits", "last_hidden_state")
    found = named if isinstance(named, Tensor) else None
    candidates = tensors_in(output) if found is None else iter([found])
    return next((t for t in candidates if t.is_floating_point() and t.dim() > 1), None)


def leading(tensor: Tensor) -> tuple[int, ...]:
    """The first two dimensions: sequences and tokens, or the other way round."""
    return tuple(tensor.shape[:2])


def rms(tensor: Tensor) -> float:
    """The root of the mean square, summed in float64."""
    values = tensor.detach().flatten()
    return float(torch.linalg.vector_norm(values, dtype=torch.float64)) / math.sqrt(max(1, values.numel()))


def relative_difference(a: Tensor, b: Tensor) -> float:
    """RMS of a − b over that of b."""
    wide = torch.float32 if is_16_bit(a) else a.dtype
    return rms(a.to(wide) - b.to(wide)) / max(rms(b), 1e-300)


def is_16_bit(tensor: Tensor | None) -> bool:
    return tensor is not None and tensor.dtype in (torch.float16, torch.bfloat16)
