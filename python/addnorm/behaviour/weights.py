"""Sizes of weights: rows and columns of zeros, initial weights beside the configuration, layers beside each other."""

from __future__ import annotations

from collections import defaultdict
from statistics import median
from typing import Any, Iterator

import torch
from torch import Tensor, nn

from .._sharded import is_sharded
from .._structure import entry, is_within, parent_of
from .structure import is_norm, is_projection, plural, rms
from .subject import Subject

MOST_VALUES = 2**20  # of one weight whose size is measured
_WIDTHS = "hidden_size", "n_embd", "d_model", "dim"


def measure_zero_rows(s: Subject) -> None:
    """Adds weight-zeros for matrices of which some rows or columns are exactly 0. The row of a padding_idx and what
    stands behind it, and matrices of zeros alone, are no fault."""
    table = getattr(s.model, "get_input_embeddings", lambda: None)()
    for name, parameter in _matrices(s):
        # Other tables may begin with zeros, and keep them in the rows of tokens that they have not met.
        is_other_table = table is not None and isinstance(s.model.get_submodule(parent_of(name)), nn.Embedding) and \
            parameter is not getattr(table, "weight", None)
        if is_other_table or is_sharded(parameter) or min(parameter.shape) < 2:
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


# -- Before training --


def is_trained(s: Subject) -> bool:
    """Whether the gains of a norm differ, which begin with one value."""
    return any(bool((p != p.flatten()[0]).any()) for p in _gains(s).values())


def is_untrained(s: Subject) -> bool:
    """Whether all biases of linear maps are 0, and all gains of a norm the same."""
    biases = [m.bias for m in s.names if isinstance(getattr(m, "bias", None), nn.Parameter) and not is_norm(m)]
    return len(biases) + len(_gains(s)) > 1 and not any(bool(b.any()) for b in biases) and not is_trained(s)


def _gains(s: Subject) -> dict[str, Tensor]:
    """The parameters of norms that are no biases."""
    return {name: p.detach() for name, p in s.parameters.items() if p.dim() == 1 and p.numel() > 1
            and not is_sharded(p) and not name.endswith("bias") and is_norm(s.model.get_submodule(parent_of(name)))}


def follows_range(s: Subject) -> bool:
    """Whether most matrices are as large as the configuration's initializer_range."""
    usual, sizes = entry(s.config, "initializer_range"), [_size(parameter) for _, parameter in _matrices(s)]
    return isinstance(usual, float) and usual > 0 and \
        2 * sum(abs(size / usual - 1) < 0.1 for size in sizes) > len(sizes)


def has_zeros(s: Subject, place: str) -> bool:
    """Whether a matrix of a module is 0."""
    return any(is_within(name, place) and not bool(parameter.any()) for name, parameter in _matrices(s))


def _size(weight: Tensor) -> float:
    """The root mean square of a weight's values but zeros; of large weights by a part of them."""
    values = weight.detach().flatten()[::1 + weight.numel() // MOST_VALUES]
    return rms(values[values != 0])


def measure_initial_sizes(s: Subject) -> None:
    """Adds initial-size for weights before training that are larger than the configuration's initializer_range, and for
    gains and biases of norms that begin at another number than 1 and 0. Where most matrices have the size that the
    configuration says, smaller ones are added too, but for maps into the stream."""
    if not is_untrained(s):
        return
    for name, parameter in s.parameters.items():
        if is_norm(s.model.get_submodule(parent_of(name))) and parameter.dim() == 1:
            expected = float(not name.endswith("bias"))
            mean = float(parameter.detach().float().mean())
            if abs(mean - expected) > 0.2 and abs(mean) > 1e-3:
                s.add("initial-size", mean, limit=expected, where=name, detail="in the mean")
    usual = entry(s.config, "initializer_range")
    follows = follows_range(s)
    for name, parameter in _matrices(s) if isinstance(usual, float) and usual > 0 else ():
        share, chance = _size(parameter) / usual, 5 / (2 * parameter.numel())**0.5
        least = 1 - max(0.25, chance) if follows and not _writes_stream(s, name) else 0.0
        most = 1 + max(0.5, chance) if follows else 2.0
        if parameter.requires_grad and share > 0 and not least < share < most and not _has_own_size(s, name):
            s.add("initial-size", share * usual, limit=usual, where=name, detail="in the root mean square")


def _has_own_size(s: Subject, name: str) -> bool:
    """Whether it is a table of a configuration with a number for tables, or one that a projection follows."""
    others = "initializer_std", "init_std", "embedding_initializer_range"
    is_table = isinstance(s.model.get_submodule(parent_of(name)), nn.Embedding)
    return is_table and (any(hasattr(s.config, key) for key in others)
                         or entry(s.config, *_WIDTHS) not in (None, s.parameters[name].shape[1]))


def _writes_stream(s: Subject, name: str) -> bool:
    """Whether a map has as many outputs as the stream has features: such are often drawn smaller in deep models."""
    module = s.model.get_submodule(parent_of(name))
    outputs = s.parameters[name].shape[0 if isinstance(module, nn.Linear) else 1]
    return not isinstance(module, nn.Embedding) and outputs == entry(s.config, *_WIDTHS)


def measure_bias_offsets(s: Subject) -> None:
    """Adds bias-off-zero for the biases of trained norms whose mean is large beside their deviation."""
    for name, parameter in s.parameters.items():
        if not name.endswith("bias") or parameter.dim() != 1 or is_sharded(parameter) or parameter.numel() < 16 \
                or not is_norm(s.model.get_submodule(parent_of(name))):
            continue
        values = parameter.detach().double()
        mean, deviation = float(values.mean()), float(values.std())
        if abs(mean) > max(0.2, 3 * deviation) and deviation > 0:
            s.add("bias-off-zero", mean, limit=deviation, where=name)


# -- Beside the other layers --


def measure_odd_sizes(s: Subject) -> None:
    """Adds size-odd for a matrix or a gain of one layer whose size differs from that of its counterparts in all other
    layers, which are of about one size. The first and the last layer of a trained network may differ."""
    groups: dict[Any, dict[str, float]] = defaultdict(dict)
    for name, parameter in (*_matrices(s), *_gains(s).items()):
        if s.layer_of(name) and not is_sharded(parameter):
            groups[s.of_all_layers(name), tuple(parameter.shape)][name] = _size(parameter)
    known = {line["where"] for line in s.lines if line["check"] == "initial-size"}
    for sizes in groups.values():
        names, usual = list(sizes), median(sizes.values())
        odd = [name for name in names if not usual / 1.25 < sizes[name] < usual * 1.25]
        if len(names) < 5 or len(odd) != 1 or odd[0] not in names[1:-1] or odd[0] in known:
            continue
        if sizes[odd[0]] > 0 and not usual / 1.6 < sizes[odd[0]] < usual * 1.6:
            s.add("size-odd", sizes[odd[0]], limit=usual, where=odd[0], detail=f"{len(names) - 1} other layers")
