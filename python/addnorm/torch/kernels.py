"""Chooses the kernels for a tensor's device."""

from __future__ import annotations

from torch import Tensor

from . import cpu_kernels, cuda_kernels
from .struct_kernels import StructKernels


def kernels_of(tensor: Tensor) -> StructKernels:
    """Returns the kernels that compute this tensor, of which tensors.obstacle() says nothing."""
    return cuda_kernels.kernels if tensor.is_cuda else cpu_kernels.kernels
