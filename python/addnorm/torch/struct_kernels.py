"""Norms, sums and lanes on contiguous tensors through the structs of addnorm.h, which the CPU's library and
addnorm-cuda share. Each passes the addresses of its tensors, without another check of shapes."""

from __future__ import annotations

import math
from typing import Any, Callable, Optional, Tuple

import torch
from torch import Tensor

from .._structs import (
    ADD_NORM_BACKWARD,
    ADD_NORM_FORWARD,
    LANES_BACKWARD,
    LANES_FORWARD,
    MIXED_DTYPES,
    OVERWRITE,
    norm_address,
)
from .._structs import DTYPES as NUMBERS
from ..norm_options import NormFields
from .outputs import Gradients, Mixed, new_gradients, new_like, new_statistics

_DTYPES = {getattr(torch, name): number for name, number in NUMBERS.items()}
_MIXED = {tuple(getattr(torch, name) for name in names): number for names, number in MIXED_DTYPES.items()}
_NO_RESIDUAL_OPTIONS = 0, 0, 0, 0, 0.0, 0, 0  # no skip, no gain, no dropout


def _address(tensor: Tensor | None) -> int:
    """The tensor must be contiguous, and kept by the caller."""
    return 0 if tensor is None else tensor.data_ptr()


def _contiguous(*tensors: Tensor | None) -> Tuple[Optional[Tensor], ...]:
    return tuple(None if t is None else t.contiguous() for t in tensors)


def are_mixed(x: Tensor, branch: Tensor) -> bool:
    """Whether the structs have a type for this stream and this branch, which has 16 bits."""
    return (x.dtype, branch.dtype) in _MIXED


def _types(x: Tensor, branch: Tensor | None) -> int:
    return _DTYPES[x.dtype] if branch is None else _MIXED.get((x.dtype, branch.dtype), _DTYPES[x.dtype])


class StructKernels:
    """The kernels of one library."""

    def __init__(self, launch: Callable[[str, bytes, torch.device], None],
                 workspace: Callable[..., Tensor], threads: Callable[[], int]) -> None:
        """launch(name, struct, device) calls a function; workspace(name, like, *sizes) returns its memory."""
        self._launch, self._workspace, self._threads = launch, workspace, threads

    def forward(self, x: Tensor, branch: Tensor | None, gamma: Tensor | None, beta: Tensor | None,
                fields: NormFields, axes: int) -> tuple[Tensor, Tensor | None, Tensor]:
        """Returns y, s and the statistics. The last `axes` of x are normalized together."""
        y, s = new_like(x), None if branch is None else new_like(x)
        statistics = new_statistics(x, axes)
        features = math.prod(x.shape[-axes:])
        kept = _contiguous(x, branch, gamma, beta)
        of_x, of_branch, of_gamma, of_beta = map(_address, kept)
        self._launch("add_norm_forward", ADD_NORM_FORWARD.pack(
            ADD_NORM_FORWARD.size, _DTYPES[x.dtype], x.numel() // features, features, norm_address(fields), of_x, 0,
            of_branch, 0, *_NO_RESIDUAL_OPTIONS, _address(s), 0, of_gamma, of_beta, _address(y), 0,
            _address(statistics), self._threads(), 0, 0, 0, 0, 0, 0), x.device)
        return y, s, statistics

    def backward(self, dy: Tensor, ds: Tensor | None, s: Tensor, statistics: Tensor, gamma: Tensor | None,
                 wants_gamma: bool, wants_beta: bool, fields: NormFields, axes: int) -> Gradients:
        """Returns dx, d_gamma and d_beta. dx is also the gradient of the branch."""
        dx, d_gamma, d_beta = new_gradients(s, statistics, wants_gamma, wants_beta, axes)
        features = math.prod(s.shape[-axes:])
        rows = s.numel() // features
        has_parameters = wants_gamma or wants_beta  # only their gradients need a workspace
        workspace = self._workspace("add_norm_workspace", statistics, rows, features) if has_parameters else None
        kept = _contiguous(s, statistics, gamma, dy, ds)
        of_s, of_statistics, of_gamma, of_dy, of_ds = map(_address, kept)
        self._launch("add_norm_backward", ADD_NORM_BACKWARD.pack(
            ADD_NORM_BACKWARD.size, _DTYPES[s.dtype], OVERWRITE, rows, features, norm_address(fields), of_s, 0,
            of_statistics, of_gamma, of_dy, 0, of_ds, 0, 0, 0, _address(dx), 0, _address(d_gamma), _address(d_beta),
            _address(workspace), 0 if workspace is None else workspace.numel(), self._threads(), 0, 0, 0, 0, 0, 0),
            s.device)
        return dx, d_gamma, d_beta

    def lanes_forward(self, x: Tensor, branch: Tensor | None, carry: Tensor | None, write: Tensor | None,
                      read: Tensor | None, gamma: Tensor | None, beta: Tensor | None,
                      fields: NormFields | None) -> Mixed:
        """Returns X′, y and the statistics, or None for each that was not requested."""
        made = x.shape[-2] if carry is None else carry.shape[-2]
        features, rows = x.shape[-1], math.prod(x.shape[:-2])
        sum = x.new_empty((*x.shape[:-2], made, features)) if carry is not None or branch is not None else None
        y = None if read is None else x.new_empty((*x.shape[:-2], features))
        statistics = None if fields is None else new_statistics(x, 2)
        kept = _contiguous(x, branch, carry, write, read, gamma, beta)
        self._launch("lanes_forward", LANES_FORWARD.pack(
            LANES_FORWARD.size, _types(x, branch), rows, features, *_mix(made, rows, *kept[:5]), _address(sum), 0,
            norm_address(fields), _address(kept[5]), _address(kept[6]), _address(y), 0, _address(statistics),
            self._threads()), x.device)
        return sum, y, statistics

    def lanes_backward(self, d_sum: Tensor | None, dy: Tensor | None, x: Tensor, branch: Tensor | None,
                       carry: Tensor | None, write: Tensor | None, read: Tensor | None, statistics: Tensor | None,
                       gamma: Tensor | None, fields: NormFields | None) -> list[Tensor | None]:
        """Returns the gradients of x, branch, carry, write, read, γ and β; None for absent ones."""
        made = x.shape[-2] if carry is None else carry.shape[-2]
        features, rows = x.shape[-1], math.prod(x.shape[:-2])
        gradients = [None if t is None else new_like(t) for t in (x, branch, carry, write, read)]
        gradients += [None if statistics is None else statistics.new_empty(features) for _ in range(2)]
        workspace = self._workspace("lanes_workspace", x, rows, max(x.shape[-2], made), features)
        kept = _contiguous(x, branch, carry, write, read, gamma, statistics, d_sum, dy)
        of_x, of_branch, *of_others = [_address(t) for t in gradients]
        self._launch("lanes_backward", LANES_BACKWARD.pack(
            LANES_BACKWARD.size, _types(x, branch), OVERWRITE, rows, features, *_mix(made, rows, *kept[:5]),
            norm_address(fields), *map(_address, kept[5:7]), _address(kept[7]), 0, _address(kept[8]), 0, of_x, 0,
            of_branch, 0, *of_others, _address(workspace), workspace.numel(), self._threads()), x.device)
        return gradients


def _mix(made: int, rows: int, x: Any, branch: Tensor | None, carry: Tensor | None, write: Tensor | None,
         read: Tensor | None) -> Tuple[Any, ...]:
    """Returns the fields of addnorm_lanes. A mix has one row for all, or one for each."""
    def of(mix: Tensor | None, axes: int) -> Tuple[int, int]:
        return _address(mix), 0 if mix is None else 1 if mix.dim() == axes else rows

    return (x.shape[-2], made, 0, 0, _address(x), 0, _address(branch), 0, *of(carry, 2), *of(write, 1), *of(read, 1),
            0.0, 0, 0)
