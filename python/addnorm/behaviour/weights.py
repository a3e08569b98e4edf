"""Sizes of weights: rows and columns of zeros, and initial weights beside the configuration."""

from __future__ import annotations

from typing import Iterator

import torch
from torch import Tensor, nn

from .._sharded import is_sharded
from .._structure import entry, parent_of
from .structure import is_norm, plural, rms
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
    module = s.model.get_submodule(parent_of(name))
    if isinstance(module, nn.Embedding) and module.padding_idx is not None:
        rows[module.padding_idx] = False
    for what, zeros in ("row", rows), ("column", ~is_live.any(0)):
        count = int(zeros.sum())
        if count and not torch.equal(zeros, zeros.sort().values):  # zeros at the end fill a table up to a round size
            yield what, count


def measure_initial_sizes(s: Subject) -> None:
    """Adds initial-size for weights before training that are larger than the configuration's initializer_range, and for
    gains and biases of norms that begin at another number than 1 and 0. A model is taken for untrained if the biases of
    all its linear maps are 0."""
    biases = [m.bias for m in s.names if hasattr(m, "bias") and isinstance(m.bias, Tensor) and not is_norm(m)]
    if len(biases) < 2 or any(bool(bias.any()) for bias in biases):
        return
    usual = entry(getattr(s.model, "config", None), "initializer_range")
    for name, parameter in s.parameters.items():
        module = s.model.get_submodule(parent_of(name))
        if is_norm(module) and parameter.dim() == 1:
            expected = float(not name.endswith("bias"))
            mean = float(parameter.detach().float().mean())
            if abs(mean - expected) > 0.2 and abs(mean) > 1e-3:
                s.add("initial-size", mean, limit=expected, where=name, detail="in the mean")
        elif parameter.dim() == 2 and isinstance(usual, float) and rms(parameter) > 2 * usual > 0:
            s.add("initial-size", rms(parameter), limit=usual, where=name, detail="in the root mean square")
