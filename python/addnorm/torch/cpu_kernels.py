"""The kernels of the CPU library on PyTorch's tensors."""

from __future__ import annotations

from typing import Any, Optional, Sequence

import torch
from torch import Tensor
from torch.utils.dlpack import to_dlpack

from .. import _kernels
from ..norm_options import NormFields
from .outputs import Gradients, Mixed, new_gradients, new_like, new_statistics


def _memory(tensor: Tensor | None, axes: int = 1) -> Any:
    """Returns a tensor for the kernels, which have one axis of features: the last `axes` are flattened."""
    return None if tensor is None else to_dlpack(tensor.contiguous().flatten(-axes))


def forward(x: Tensor, branch: Tensor | None, gamma: Tensor | None, beta: Tensor | None,
            fields: NormFields, axes: int) -> tuple[Tensor, Tensor | None, Tensor]:
    """Returns y, s and the statistics. The last `axes` of x are normalized together."""
    y = new_like(x)
    s = None if branch is None else new_like(x)
    statistics = new_statistics(x, axes)
    of_x, of_branch, *of_factors, of_s, of_y = (_memory(t, axes) for t in (x, branch, gamma, beta, s, y))
    _kernels.add_norm(fields, of_x, of_branch, None, None, _kernels.NO_DROPOUT, *of_factors, of_s, of_y,
                      _memory(statistics), torch.get_num_threads())
    return y, s, statistics


def backward(dy: Tensor, ds: Tensor | None, s: Tensor, statistics: Tensor, gamma: Tensor | None,
             wants_gamma: bool, wants_beta: bool, fields: NormFields, axes: int) -> Gradients:
    """Returns dx, d_gamma and d_beta. dx is also the gradient of the branch."""
    dx, d_gamma, d_beta = new_gradients(s, statistics, wants_gamma, wants_beta, axes)
    _kernels.add_norm_backward(fields, _memory(dy, axes), _memory(s, axes), _memory(statistics), _memory(gamma, axes),
                               _memory(ds, axes), None, _memory(dx, axes), _memory(d_gamma, axes),
                               _memory(d_beta, axes), torch.get_num_threads())
    return dx, d_gamma, d_beta


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


def lanes_forward(x: Tensor, branch: Tensor | None, carry: Tensor | None, write: Tensor | None, read: Tensor | None,
                  gamma: Tensor | None, beta: Tensor | None, fields: NormFields | None) -> Mixed:
    """Returns X′, y and the statistics, or None for each that was not requested."""
    made = x.shape[-2] if carry is None else carry.shape[-2]
    mixes = carry is not None or branch is not None
    sum = x.new_empty((*x.shape[:-2], made, x.shape[-1])) if mixes else None
    y = None if read is None else x.new_empty((*x.shape[:-2], x.shape[-1]))
    statistics = None if fields is None else new_statistics(x, 2)
    _kernels.lanes(fields, *map(_memory, (x, branch, carry, write, read)), _kernels.NO_DROPOUT,
                   *map(_memory, (gamma, beta)), made, *map(_memory, (sum, y, statistics)))
    return sum, y, statistics


def lanes_backward(d_sum: Tensor | None, dy: Tensor | None, x: Tensor, branch: Tensor | None, carry: Tensor | None,
                   write: Tensor | None, read: Tensor | None, statistics: Tensor | None, gamma: Tensor | None,
                   fields: NormFields | None) -> list[Tensor | None]:
    """Returns the gradients of x, branch, carry, write, read, γ and β; None for absent ones."""
    made = x.shape[-2] if carry is None else carry.shape[-2]
    inputs = x, branch, carry, write, read
    gradients = [None if t is None else new_like(t) for t in inputs]
    gradients += [None if fields is None or statistics is None else statistics.new_empty(x.shape[-1:])] * 2
    if gradients[-1] is not None:
        gradients[-1] = torch.empty_like(gradients[-1])
    _kernels.lanes_backward(fields, _memory(d_sum), _memory(dy), *map(_memory, inputs), _memory(statistics),
                            _kernels.NO_DROPOUT, _memory(gamma), made, *map(_memory, gradients))
    return gradients
