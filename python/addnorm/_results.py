"""New arrays for results, of the kind of the arguments; and what the caller's own arrays need."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from . import _kernels
from .bfloat16 import BFloat16


def new(shape: tuple[int, ...], dtype: str, beside: Any) -> Any:
    """Returns a new tensor if `beside` is one, else a new NumPy array."""
    torch = sys.modules.get("torch")  # imported lazily: PyTorch is optional
    if torch is not None and isinstance(beside, torch.Tensor):
        return torch.empty(shape, dtype=getattr(torch, dtype))
    if dtype == "bfloat16":
        return BFloat16(np.empty(shape, np.uint16))
    return np.empty(shape, dtype)


def new_statistics(x: Any) -> Any:
    shape, dtype = _kernels.describe("x", x)
    return new(shape[:-1] + (6,), values_type(dtype), x)


def new_like(name: str, array: Any) -> Any:
    return new(*_kernels.describe(name, array), array)


def dense(vector: Any) -> Any:
    """Returns a vector without gaps: itself, or a copy. Other objects are returned as they are."""
    if isinstance(vector, np.ndarray):
        return np.ascontiguousarray(vector) if vector.ndim == 1 else vector
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(vector, torch.Tensor) and vector.ndim == 1:
        return vector.contiguous()
    return vector


def mark_written(*outputs: Any) -> None:
    """Tells autograd that the caller's tensors have new values. A backward that needs the old ones then raises."""
    torch = sys.modules.get("torch")
    for output in outputs if torch is not None else ():
        if isinstance(output, torch.Tensor) and not output.is_inference():
            output.detach()[..., :0].zero_()  # changes no value


def values_type(dtype: str) -> str:
    """Returns the type of γ, factors and statistics for a stream of this type."""
    return "float64" if dtype == "float64" else "float32"


def per_feature(name: str, array: Any) -> Any:
    shape, dtype = _kernels.describe(name, array)
    return new(shape[-1:], values_type(dtype), array)
