"""Tensors that are spread over several processes: PyTorch's DTensor, as of fully_shard and tensor parallelism."""

from __future__ import annotations

from torch import Tensor


def is_sharded(tensor: Tensor) -> bool:
    """Whether a tensor is a DTensor, by what it has: importing the class takes a second."""
    return hasattr(tensor, "_local_tensor") and hasattr(tensor, "placements")


def local_part(tensor: Tensor) -> Tensor:
    """Returns the part of a tensor that this process has."""
    return tensor._local_tensor if is_sharded(tensor) else tensor
