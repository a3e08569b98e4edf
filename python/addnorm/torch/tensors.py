"""Decides which tensors the kernels can read. PyTorch's own functions compute all others."""

from __future__ import annotations

import functools
import re

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from . import cuda_kernels
from .formula import DTYPES

HAS_CUSTOM_OPERATORS = hasattr(torch.library, "custom_op")  # from PyTorch 2.4 on
_PLAIN_KEYS = {"CPU", "CUDA", "ADInplaceOrView", "AutogradCPU", "AutogradCUDA", "AutocastCPU", "AutocastCUDA"}
_are_transforms_active = getattr(torch._C, "_are_functorch_transforms_active", lambda: False)


def obstacle(tensor: Tensor) -> str | None:
    """Returns why the kernels cannot read a tensor, as the end of a sentence about it; None if they can."""
    why = obstacle_of_device(tensor.device, tensor.dtype)
    if why is not None:
        return f"is on {tensor.device}, {why}"
    if type(tensor) not in (Tensor, nn.Parameter):
        return f"is a {type(tensor).__name__}, no plain tensor"
    if tensor.dtype not in DTYPES:
        return f"has the type {str(tensor.dtype).replace('torch.', '')}"
    other_keys = _other_keys(repr(torch._C._dispatch_keys(tensor)))
    return f"is no plain tensor but has {other_keys}" if other_keys else None


def obstacle_of_device(device: torch.device, dtype: torch.dtype) -> str | None:
    """Returns why there are no kernels for a type on a device, as the end of a sentence about the device; or None."""
    if device.type == "cuda":
        return cuda_kernels.obstacle(device) or ("whose kernels lack float64" if dtype == torch.float64 else None)
    return None if device.type == "cpu" else "for which addnorm has no kernels"


def fits(x: Tensor, features: int) -> bool:
    """Whether the kernels can compute rows of this length."""
    return not x.is_cuda or cuda_kernels.obstacle(x.device, features) is None


@functools.lru_cache(maxsize=None)
def _other_keys(keys: str) -> str:
    """Returns PyTorch's dispatch keys of sparse, nested, batched, negated and other tensors, whose memory does not
    simply contain their values."""
    return ", ".join(key for key in re.findall(r"\w+", keys)[1:] if key not in _PLAIN_KEYS)


def are_readable(*tensors: Tensor | None) -> bool:
    """Whether the kernels can compute these tensors in the current context: outside of vmap, jvp and other transforms,
    which need PyTorch's own operators."""
    return not _are_transforms_active() and forward_ad._current_level < 0 and \
        all(tensor is None or obstacle(tensor) is None for tensor in tensors)


def is_compiled() -> bool:
    """Whether the model is being compiled or exported."""
    return HAS_CUSTOM_OPERATORS and torch.compiler.is_compiling()


def is_recorded() -> bool:
    """Whether a mode records operators, like the doctor's probe, FlopCounterMode and make_fx."""
    return not is_compiled() and torch._C._len_torch_dispatch_stack() > 0
