"""Weights that are 0, and sizes that differ between layers: weight-zeros, size-odd."""

from __future__ import annotations

from collections import defaultdict
from statistics import median
from typing import Any, Iterator

import torch
from torch import Tensor, nn

from ..._sharded import is_sharded
from ..._structure import parent_of
from ..run.subject import Subject
from ..run.text import plural
from ..run.weights import gains_of, matrices_of, size_of, token_table


def measure_zero_rows(subject: Subject) -> None:
    """Adds weight-zeros for matrices in which some rows or columns are exactly 0. The row of a padding_idx, rows or
    columns at the end, and matrices of zeros alone are no fault."""
    table = token_table(subject)
    for name, parameter in matrices_of(subject):
        # Other tables may begin with zeros, and keep them in rows that were not used in training.
        is_table = isinstance(subject.model.get_submodule(parent_of(name)), nn.Embedding)
        is_other_table = table is not None and is_table and parameter is not getattr(table, "weight", None)
        if is_other_table or is_sharded(parameter) or min(parameter.shape) < 2:
            continue
        for what, count in _zeros(subject, parameter):
            size = parameter.shape[0 if what == "row" else 1]
            subject.add_line("weight-zeros", count, where=name, detail=f"{plural(count, what)} of {size}")


def _zeros(subject: Subject, weight: Tensor) -> Iterator[tuple[str, int]]:
    is_live = weight.detach() != 0
    if not is_live.any():
        return
    rows = ~is_live.any(1)
    for module in subject.names:  # a head may be tied to an embedding with padding
        is_padded = isinstance(module, nn.Embedding) and module.padding_idx is not None
        if is_padded and module.weight.shape == weight.shape:
            rows[module.padding_idx] = False
    for what, zeros in ("row", rows), ("column", ~is_live.any(0)):
        count = int(zeros.sum())
        if count and not torch.equal(zeros, zeros.sort().values):  # zeros at the end pad a table to a round size
            yield what, count


def measure_odd_sizes(subject: Subject, named: set[str]) -> None:
    """Adds size-odd for a matrix or a gain of one layer whose size differs from that of its counterparts in all other
    layers, while these have about the same size. The first and the last layer of a trained network may differ, and so
    may a layer of another class and a matrix of which some values are pruned. It omits the parameters in `named`."""
    groups: dict[Any, dict[str, float]] = defaultdict(dict)
    for name, parameter in (*matrices_of(subject), *gains_of(subject).items()):
        layer = subject.layer_of(name)
        if layer and not is_sharded(parameter):
            key = subject.of_all_layers(name), tuple(parameter.shape), type(subject.model.get_submodule(layer))
            groups[key][name] = size_of(parameter)
    for sizes in groups.values():
        names, usual = list(sizes), median(sizes.values())
        odd = [name for name in names if not usual / 1.25 < sizes[name] < usual * 1.25]
        if len(names) < 5 or len(odd) != 1 or odd[0] not in names[1:-1] or odd[0] in named:
            continue
        is_pruned = bool((subject.parameters[odd[0]] == 0).any())
        if sizes[odd[0]] > 0 and not is_pruned and not usual / 1.6 < sizes[odd[0]] < usual * 1.6:
            subject.add_line("size-odd", sizes[odd[0]], limit=usual, where=odd[0],
                             detail=f"{len(names) - 1} other layers")
