"""The tensors in the inputs and outputs of a model, and their sizes."""

from __future__ import annotations

import math
from typing import Any, Callable

import torch
from torch import Tensor

from ..._structure import entry, tensors_in

MOST_VALUES = 2**18  # number of values that multiple() compares


def with_tensors(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Returns the nest of tuples, lists and dictionaries with changed tensors and all other values unchanged."""
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
    """Returns the logits or hidden states, else the first floating-point tensor of at least two dimensions, or None."""
    named = entry(output, "logits", "last_hidden_state")
    found = named if isinstance(named, Tensor) else None
    candidates = tensors_in(output) if found is None else iter([found])
    return next((t for t in candidates if t.is_floating_point() and t.dim() > 1), None)


def leading(tensor: Tensor) -> tuple[int, ...]:
    """Returns the first two dimensions: (sequences, tokens) or (tokens, sequences)."""
    return tuple(tensor.shape[:2])


def rms(tensor: Tensor) -> float:
    """Returns the root mean square, summed in float64."""
    values = tensor.detach().flatten()
    return float(torch.linalg.vector_norm(values, dtype=torch.float64)) / math.sqrt(max(1, values.numel()))


def relative_difference(a: Tensor, b: Tensor) -> float:
    """Returns the RMS of a − b divided by the RMS of b."""
    wide = torch.float32 if is_16_bit(a) else a.dtype
    return rms(a.to(wide) - b.to(wide)) / max(rms(b), 1e-300)


def is_16_bit(tensor: Tensor | None) -> bool:
    return tensor is not None and tensor.dtype in (torch.float16, torch.bfloat16)


def multiple(scores: Tensor, product: Tensor) -> float | None:
    """Returns c if scores = c·product in all entries of some rows that no mask hides, else None."""
    scores, product = (t.detach().reshape(-1, t.shape[-1]) for t in (scores, product))
    stride = 1 + scores.numel() // MOST_VALUES
    scores, product = scores[::stride], product[::stride]
    visible = torch.isfinite(scores) & (scores > -1e4)
    y, x = scores[visible].double(), product[visible].double()
    if not len(y) or not x.square().sum() > 0:
        return None
    factor = float((x * y).sum() / x.square().sum())
    is_multiple = math.isfinite(factor) and bool((y - factor * x).norm() < 0.01 * y.norm())
    return factor if is_multiple else None
