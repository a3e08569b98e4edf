"""The kernels of the package addnorm-cuda, on tensors of NVIDIA GPUs. They run on PyTorch's current stream, and neither
allocate, copy nor synchronize, so CUDA graphs can capture them."""

from __future__ import annotations

import ctypes
import functools
from typing import Any, Optional

import torch
from torch import Tensor

from .._library import Error
from .struct_kernels import StructKernels


@functools.lru_cache(maxsize=1)
def library() -> Any:
    """Returns the library of addnorm-cuda, or None if it is not installed or cannot be loaded."""
    try:
        import addnorm_cuda
        loaded = ctypes.CDLL(str(addnorm_cuda.library()))
    except (ImportError, OSError):
        return None
    for name in "add_norm_forward", "add_norm_backward", "lanes_forward", "lanes_backward":
        getattr(loaded, f"addnorm_cuda_{name}").argtypes = (ctypes.c_char_p, ctypes.c_void_p)
    size, size_out = ctypes.c_size_t, ctypes.POINTER(ctypes.c_size_t)
    loaded.addnorm_cuda_add_norm_workspace.argtypes = size, size, size_out
    loaded.addnorm_cuda_lanes_workspace.argtypes = size, size, size, size_out
    loaded.addnorm_cuda_supports.argtypes = ctypes.c_int32, size, size
    loaded.addnorm_cuda_last_error.restype = ctypes.c_char_p
    return loaded


def _last_error() -> str:
    """Returns the library's message without the name of its function."""
    message: str = library().addnorm_cuda_last_error().decode()
    return message.partition(": ")[2] or message


@functools.lru_cache(maxsize=None)
def obstacle(device: torch.device, features: int = 1, lanes: int = 0) -> Optional[str]:
    """Returns why the kernels cannot compute rows of this length, of 2 or 4 lanes or (0) without lanes, on a device, as
    the end of a sentence about a tensor there; None if they can."""
    if library() is None:
        return "and the package addnorm-cuda is not installed"
    with torch.cuda.device(device):
        index = torch.cuda.current_device()
        return f"where {_last_error()}" if library().addnorm_cuda_supports(index, features, lanes) else None


def _launch(name: str, packed: bytes, device: torch.device) -> None:
    with torch.cuda.device(device):
        stream = torch.cuda.current_stream(device).cuda_stream
        if getattr(library(), f"addnorm_cuda_{name}")(packed, stream):
            raise Error(_last_error())


def _workspace(name: str, like: Tensor, *sizes: int) -> Tensor:
    """Returns memory for a backward. PyTorch's allocator keeps it for the next call."""
    values = ctypes.c_size_t()
    if getattr(library(), f"addnorm_cuda_{name}")(*sizes, ctypes.byref(values)):
        raise Error(_last_error())
    return like.new_empty(values.value, dtype=torch.float32)


kernels = StructKernels(_launch, _workspace, lambda: 0)
