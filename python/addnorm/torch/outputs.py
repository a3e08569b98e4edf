"""New tensors for the results of kernels."""

from __future__ import annotations

from typing import Optional, Tuple

import torch
from torch import Tensor

from .formula import value_type

Gradients = Tuple[Tensor, Optional[Tensor], Optional[Tensor]]  # of x, γ and β
Mixed = Tuple[Optional[Tensor], Optional[Tensor], Optional[Tensor]]  # X′, y and the statistics


def new_like(x: Tensor) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def new_statistics(x: Tensor, axes: int) -> Tensor:
    return x.new_empty((*x.shape[:-axes], 6), dtype=value_type(x))


def new_gradients(s: Tensor, statistics: Tensor, wants_gamma: bool, wants_beta: bool, axes: int) -> Gradients:
    d_gamma, d_beta = (statistics.new_empty(s.shape[-axes:]) if wanted else None
                       for wanted in (wants_gamma, wants_beta))
    return new_like(s), d_gamma, d_beta
