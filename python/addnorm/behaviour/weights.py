"""Rows and columns of zeros in weights."""

from __future__ import annotations

from typing import Iterator

import torch
from torch import Tensor, nn

from .._sharded import is_sharded
from .structure import plural
from .subject import Subject


def measure_zero_rows(s: Subject) -> None:
    """Adds weight-zeros for matrices of which some rows or columns are exactly 0. The row of a padding_idx and what
    stands behind it, and matrices of zeros alone, are no fault."""
    for name, parameter in s.parameters.items():
        if parameter.dim() != 2 or not parameter.is_floating_point() or is_sharded(parameter) or min(parameter.shape) < 4:
            continue
        for what, count in _zeros(s, name, parameter.detach()):
            s.add("weight-zeros", count, where=name, detail=f"{plural(count, what)} of {parameter.shape[what != 'row']}")


def _zeros(s: Subject, name: str, weight: Tensor) -> Iterator[tuple[str, int]]:
    is_live = weight != 0
    if not is_live.any():
        return
    rows = ~is_live.any(1)
    module = s.model.get_submodule(name.rpartition(".")[0])
    if isinstance(module, nn.Embedding) and module.padding_idx is not None:
        rows[module.padding_idx] = False
    for what, zeros in ("row", rows), ("column", ~is_live.any(0)):
        count = int(zeros.sum())
        if count and not torch.equal(zeros, zeros.sort().values):  # zeros at the end fill a table up to a round size
            yield what, count
