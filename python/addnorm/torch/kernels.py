"""Chooses the kernels for a tensor's device."""

from __future__ import annotations

from types import ModuleType

from torch import Tensor

from . import cpu_kernels, cuda_kernels


def kernels_of(tensor: Tensor) -> ModuleType:
    """Returns the module whose functions compute this tensor, of which tensors.obstacle() says nothing."""
    return cuda_kernels if tensor.is_cuda else cpu_kernels
