"""The kernels of the CPU library on PyTorch's tensors."""

from __future__ import annotations

import ctypes
from typing import Any, Optional, Sequence

import torch
from torch import Tensor
from torch.utils.dlpack import to_dlpack

from .. import _kernels
from .._library import Error, library
from .outputs import new_like
from .struct_kernels import StructKernels

for _name in "add_norm_forward", "add_norm_backward", "lanes_forward", "lanes_backward":
    getattr(library, f"addnorm_{_name}").argtypes = (ctypes.c_char_p,)
library.addnorm_add_norm_workspace.argtypes = (ctypes.c_size_t,) * 2
library.addnorm_lanes_workspace.argtypes = (ctypes.c_size_t,) * 3
library.addnorm_add_norm_workspace.restype = library.addnorm_lanes_workspace.restype = ctypes.c_size_t
library.addnorm_last_error.restype = ctypes.c_char_p


def _launch(name: str, packed: bytes, device: torch.device) -> None:
    if getattr(library, f"addnorm_{name}")(packed):
        message: str = library.addnorm_last_error().decode()
        raise Error(message.partition(": ")[2] or message)


def _workspace(name: str, like: Tensor, *sizes: int) -> Tensor:
    """Returns memory for a backward, of the type of values."""
    dtype = torch.float64 if like.dtype == torch.float64 else torch.float32
    return like.new_empty(getattr(library, f"addnorm_{name}")(*sizes), dtype=dtype)


kernels = StructKernels(_launch, _workspace, torch.get_num_threads)


def _memory(tensor: Tensor | None) -> Any:
    return None if tensor is None else to_dlpack(tensor.contiguous())


def squash(x: Tensor, alpha: Tensor, shift: Tensor | None, gamma: Tensor | None, beta: Tensor | None,
           kind: str) -> Tensor:
    """Returns y."""
    y = new_like(x)
    _kernels.squash(kind, _memory(x), _memory(alpha), _memory(shift), _memory(gamma), _memory(beta),
                    _memory(y), torch.get_num_threads())
    return y


def squash_backward(kind: str, tensors: Sequence[Optional[Tensor]], gradients: Sequence[Optional[Tensor]]) -> None:
    """tensors: dy, x, alpha, shift, gamma; gradients: the outputs dx, d_gamma, d_beta, d_alpha, d_shift."""
    _kernels.squash_backward(kind, *map(_memory, tensors), *map(_memory, gradients), torch.get_num_threads())
