"""The kernels of the package addnorm-cuda, on tensors of NVIDIA GPUs. They run on PyTorch's current stream, and neither
allocate, copy nor synchronize, so CUDA graphs can capture them."""

from __future__ import annotations

import ctypes
import functools
import math
from typing import Any, Optional, Tuple

import torch
from torch import Tensor

from .._library import Error
from .._structs import (ADD_NORM_BACKWARD, ADD_NORM_FORWARD, DTYPES, LANES_BACKWARD, LANES_FORWARD, OVERWRITE,
                        norm_address)
from ..norm_options import NormFields
from .outputs import Gradients, Mixed, new_gradients, new_like, new_statistics

_NO_RESIDUAL_OPTIONS = 0, 0, 0, 0, 0.0, 0, 0  # no skip, no gain, no dropout


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


def _dtype(tensor: Tensor) -> int:
    return DTYPES[str(tensor.dtype).replace("torch.", "")]


def _address(tensor: Tensor | None) -> int:
    """The tensor must be contiguous, and kept by the caller."""
    return 0 if tensor is None else tensor.data_ptr()


def _contiguous(*tensors: Tensor | None) -> Tuple[Optional[Tensor], ...]:
    return tuple(None if t is None else t.contiguous() for t in tensors)


def forward(x: Tensor, branch: Tensor | None, gamma: Tensor | None, beta: Tensor | None,
            fields: NormFields, axes: int) -> tuple[Tensor, Tensor | None, Tensor]:
    """Returns y, s and the statistics. The last `axes` of x are normalized together."""
    y, s = new_like(x), None if branch is None else new_like(x)
    statistics = new_statistics(x, axes)
    features = math.prod(x.shape[-axes:])
    kept = _contiguous(x, branch, gamma, beta)
    of_x, of_branch, of_gamma, of_beta = map(_address, kept)
    _launch("add_norm_forward", ADD_NORM_FORWARD.pack(
        ADD_NORM_FORWARD.size, _dtype(x), x.numel() // features, features, norm_address(fields), of_x, 0, of_branch, 0,
        *_NO_RESIDUAL_OPTIONS, _address(s), 0, of_gamma, of_beta, _address(y), 0, _address(statistics), 0, 0, 0, 0, 0,
        0, 0), x.device)
    return y, s, statistics


def backward(dy: Tensor, ds: Tensor | None, s: Tensor, statistics: Tensor, gamma: Tensor | None,
             wants_gamma: bool, wants_beta: bool, fields: NormFields, axes: int) -> Gradients:
    """Returns dx, d_gamma and d_beta. dx is also the gradient of the branch."""
    dx, d_gamma, d_beta = new_gradients(s, statistics, wants_gamma, wants_beta, axes)
    features = math.prod(s.shape[-axes:])
    rows = s.numel() // features
    workspace = _workspace("add_norm_workspace", s, rows, features)
    kept = _contiguous(s, statistics, gamma, dy, ds)
    of_s, of_statistics, of_gamma, of_dy, of_ds = map(_address, kept)
    _launch("add_norm_backward", ADD_NORM_BACKWARD.pack(
        ADD_NORM_BACKWARD.size, _dtype(s), OVERWRITE, rows, features, norm_address(fields), of_s, 0, of_statistics,
        of_gamma, of_dy, 0, of_ds, 0, 0, 0, _address(dx), 0, _address(d_gamma), _address(d_beta), _address(workspace),
        workspace.numel(), 0, 0, 0, 0, 0, 0, 0), s.device)
    return dx, d_gamma, d_beta


def _mix(x: Tensor, made: int, rows: int, branch: Tensor | None, carry: Tensor | None, write: Tensor | None,
         read: Tensor | None) -> Tuple[Any, ...]:
    """Returns the fields of addnorm_lanes. A mix has one row for all, or one for each."""
    def of(mix: Tensor | None, axes: int) -> Tuple[int, int]:
        return _address(mix), 0 if mix is None else 1 if mix.dim() == axes else rows

    return (x.shape[-2], made, 0, 0, _address(x), 0, _address(branch), 0, *of(carry, 2), *of(write, 1), *of(read, 1),
            0.0, 0, 0)


def lanes_forward(x: Tensor, branch: Tensor | None, carry: Tensor | None, write: Tensor | None, read: Tensor | None,
                  gamma: Tensor | None, beta: Tensor | None, fields: NormFields | None) -> Mixed:
    """Returns X′, y and the statistics, or None for each that was not requested."""
    made = x.shape[-2] if carry is None else carry.shape[-2]
    features, rows = x.shape[-1], math.prod(x.shape[:-2])
    sum = x.new_empty((*x.shape[:-2], made, features)) if carry is not None or branch is not None else None
    y = None if read is None else x.new_empty((*x.shape[:-2], features))
    statistics = None if fields is None else new_statistics(x, 2)
    kept = _contiguous(x, branch, carry, write, read, gamma, beta)
    _launch("lanes_forward", LANES_FORWARD.pack(
        LANES_FORWARD.size, _dtype(x), rows, features, *_mix(kept[0], made, rows, *kept[1:5]), _address(sum), 0,
        norm_address(fields), _address(kept[5]), _address(kept[6]), _address(y), 0, _address(statistics), 0), x.device)
    return sum, y, statistics


def lanes_backward(d_sum: Tensor | None, dy: Tensor | None, x: Tensor, branch: Tensor | None, carry: Tensor | None,
                   write: Tensor | None, read: Tensor | None, statistics: Tensor | None, gamma: Tensor | None,
                   fields: NormFields | None) -> list[Tensor | None]:
    """Returns the gradients of x, branch, carry, write, read, γ and β; None for absent ones."""
    made = x.shape[-2] if carry is None else carry.shape[-2]
    features, rows = x.shape[-1], math.prod(x.shape[:-2])
    gradients = [None if t is None else new_like(t) for t in (x, branch, carry, write, read)]
    gradients += [None if statistics is None else statistics.new_empty(features) for _ in range(2)]
    workspace = _workspace("lanes_workspace", x, rows, max(x.shape[-2], made), features)
    kept = _contiguous(x, branch, carry, write, read, gamma, statistics, d_sum, dy)
    of_gradients = [_address(t) for t in gradients]
    _launch("lanes_backward", LANES_BACKWARD.pack(
        LANES_BACKWARD.size, _dtype(x), OVERWRITE, rows, features, *_mix(kept[0], made, rows, *kept[1:5]),
        norm_address(fields), *map(_address, kept[5:7]), _address(kept[7]), 0, _address(kept[8]), 0, of_gradients[0], 0,
        of_gradients[1], 0, *of_gradients[2:], _address(workspace),
        workspace.numel(), 0), x.device)
    return gradients
