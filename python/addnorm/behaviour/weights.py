"""Sizes of weights: rows and columns of zeros, and initial weights beside the configuration."""

from __future__ import annotations

from typing import Iterator

import torch
from torch import Tensor, nn

from .._sharded import is_sharded
from .._structure import entry, parent_of
from .structure import is_norm, is_projection, plural, rms
from .subject import Subject


def measure_zero_rows(s: Subject) -> None:
    """Adds weight-zeros for matrices of which some rows or columns are exactly 0. The row of a padding_idx and what
    stands behind it, and matrices of zeros alone, are no fault."""
    table = getattr(s.model, "get_input_embeddings", lambda: None)()
    for name, parameter in _matrices(s):
        # Other tables may begin with zeros, and keep them in the rows of tokens that they have not met.
        is_other_table = table is not None and isinstance(s.model.get_submodule(parent_of(name)), nn.Embedding) and \
            parameter is not getattr(table, "weight", None)
        if is_other_table or is_sharded(parameter) or min(parameter.shape) < 4:
            continue
        for what, count in _zeros(s, parameter):
            size = parameter.shape[0 if what == "row" else 1]
            s.add("weight-zeros", count, where=name, detail=f"{plural(count, what)} of {size}")


def _matrices(s: Subject) -> Iterator[tuple[str, Tensor]]:
    """The weights of linear maps and embeddings."""
    for name, parameter in s.parameters.items():
        module = s.model.get_submodule(parent_of(name))
        is_weight = isinstance(module, nn.Embedding) or is_projection(module)
        if is_weight and name.endswith("weight") and parameter.dim() == 2 and parameter.is_floating_point():
            yield name, parameter


def _zeros(s: Subject, weight: Tensor) -> Iterator[tuple[str, int]]:
    is_live = weight.detach() != 0
    if not is_live.any():
        return
    rows = ~is_live.any(1)
    for module in s.names:  # a head may be tied to an embedding with padding
        is_padded = isinstance(module, nn.Embedding) and module.padding_idx is not None
        if is_padded and module.weight.shape == weight.shape:
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
    usual = entry(s.config, "initializer_range")
    has_others = any(hasattr(s.config, key) for key in ("initializer_std", "init_std", "embedding_initializer_range"))
    for name, parameter in s.parameters.items():
        if is_norm(s.model.get_submodule(parent_of(name))) and parameter.dim() == 1:
            expected = float(not name.endswith("bias"))
            mean = float(parameter.detach().float().mean())
            if abs(mean - expected) > 0.2 and abs(mean) > 1e-3:
                s.add("initial-size", mean, limit=expected, where=name, detail="in the mean")
    for name, parameter in _matrices(s) if isinstance(usual, float) else ():
        is_table, size = isinstance(s.model.get_submodule(parent_of(name)), nn.Embedding), rms(parameter)
        if parameter.requires_grad and not (is_table and has_others) and size > 2 * usual > 0:
            s.add("initial-size", size, limit=usual, where=name, detail="in the root mean square")
