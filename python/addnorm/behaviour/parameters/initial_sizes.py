"""Sizes of initial weights, and means of biases of norms: initial-size, bias-off-zero."""

from __future__ import annotations

import copy
from collections import defaultdict
from typing import Callable, Iterator

import torch
from torch import Tensor, nn

from ..._structure import entry, is_within, parent_of
from ..run.structure import is_linear_map
from ..run.subject import Subject
from ..run.text import some
from ..run.weights import has_initial_weights, matrices_of, norm_vectors, size_of, token_table

_WIDTHS = "hidden_size", "n_embd", "d_model", "dim"


def measure_initial_sizes(subject: Subject) -> set[str]:
    """Adds initial-size for weights before training. Gains and biases of norms are faulty if they begin at another
    number than their counterparts. Matrices are faulty if their size is not the configuration's initializer_range,
    while most matrices have that size. A model's own _init_weights() takes precedence. Maps into the residual stream
    may be smaller. Returns the parameters that the lines name."""
    named: set[str] = set()
    if not has_initial_weights(subject):
        return named
    norms = dict(norm_vectors(subject))
    off = {name for name, p in norms.items() if _is_off(_mean(p), float(not name.endswith("bias")))}
    usual = entry(subject.config, "initializer_range")
    matrices = dict(matrices_of(subject)) if isinstance(usual, float) and usual > 0 else {}
    odd = [name for name, p in matrices.items() if not _is_of_size(subject, name, p, usual)]
    if not off and not odd:
        return named
    drawn = _drawn_again(subject)
    zeros = [n for n in matrices if n in drawn and not bool(drawn[n].any())]
    if 2 * sum(bool(matrices[n].any()) for n in zeros) > len(zeros):  # matrices that begin at 0 have been trained
        return named
    for kind in True, False:  # biases, then gains
        names = [name for name in norms if name.endswith("bias") == kind]
        wrong = {n for n in off if n in names and (n not in drawn or _is_off(_mean(norms[n]), _mean(drawn[n])))}
        for places in _unlike_others(subject, names, wrong, is_judged=all(n in drawn for n in names)):
            subject.add_line("initial-size", _mean(norms[places[0]]), limit=float(not kind), where=some(places),
                             detail="in the mean")
            named.update(places)
    sizes = {n: size_of(drawn[n]) if n in drawn else usual for n in matrices if n in drawn or not drawn}
    odd = [n for n in sizes if not _is_of_size(subject, n, matrices[n], sizes[n])]
    forms: dict[str, list[str]] = defaultdict(list)
    for name in odd if 2 * len(odd) < len(sizes) else ():
        if matrices[name].requires_grad and not (
                _has_own_size(subject, name, bool(drawn)) or _begins_at_0(subject, name)):
            forms[subject.of_all_layers(name)].append(name)
    for places in forms.values():
        subject.add_line("initial-size", size_of(matrices[places[0]]), limit=sizes[places[0]], where=some(places),
                         detail="in the root mean square")
        named.update(places)
    return named


def _mean(parameter: Tensor) -> float:
    return float(parameter.detach().float().mean())


def _is_off(mean: float, expected: float) -> bool:
    return abs(mean - expected) > 0.2 and abs(mean) > 1e-3


def _is_of_size(subject: Subject, name: str, weight: Tensor, usual: float) -> bool:
    """Returns whether a matrix has about the usual size. Zero matrices, and smaller maps into the stream, count as
    usual."""
    share, chance = size_of(weight) / max(usual, 1e-30), 5 / (2 * weight.numel())**0.5
    least = 0.0 if _writes_stream(subject, name) else 1 - max(0.25, chance)
    return share == 0 or least < share < 1 + max(0.5, chance)


def _drawn_again(subject: Subject) -> dict[str, Tensor]:
    """Returns the parameters that the model's own _init_weights() sets, from a copy; none without such a method."""
    if not callable(getattr(subject.model, "_init_weights", None)):
        return {}
    model, mark = copy.deepcopy(subject.model), 7.0

    def initialize(module: nn.Module, own: Callable[[nn.Module], object]) -> None:
        own = getattr(module, "_init_weights", own)
        for child in module.children():
            initialize(child, own)
        own(module)

    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(mark)
        initialize(model, model._init_weights)
    return {name: p for name, p in model.named_parameters() if not bool((p == mark).all())}


def _unlike_others(subject: Subject, names: list[str], off: set[str], is_judged: bool) -> Iterator[list[str]]:
    """Yields groups of names in `off` of which most counterparts in other layers are not in `off`. A name without a
    counterpart is yielded if it is the only one in `off`. If is_judged, yields all of `off` if it has all names in
    layers, because no design changes all norms."""
    forms: dict[str, list[str]] = defaultdict(list)
    for name in names:
        forms[subject.of_all_layers(name)].append(name)
    inner = [name for name in names if subject.layer_of(name)]
    if is_judged and len(forms) > 1 and len(inner) > 1 and off.issuperset(inner):
        yield [name for name in names if name in off]
        return
    for members in forms.values():
        odd = [name for name in members if name in off]
        if odd and (2 * len(odd) < len(members) or len(members) == len(off) == 1):
            yield odd


def _has_own_size(subject: Subject, name: str, is_judged: bool) -> bool:
    """Returns whether an embedding may have another size than other matrices. It may if the model has no initialization
    of its own, or if it is a table of tokens, which may be pretrained, and not also the head. It also may if the
    configuration has a size for embeddings, or if its width is not that of the model."""
    others = "initializer_std", "init_std", "embedding_initializer_range"
    module, weight = subject.model.get_submodule(parent_of(name)), subject.parameters[name]
    if not isinstance(module, nn.Embedding):
        return False
    is_head = any(is_linear_map(m) and m.weight is weight for m in subject.names)
    is_tokens = module is token_table(subject)
    return not is_judged or is_tokens and not is_head or any(hasattr(subject.config, key) for key in others) \
        or entry(subject.config, *_WIDTHS) not in (None, weight.shape[1])


def _begins_at_0(subject: Subject, name: str) -> bool:
    """Returns whether a matrix of zeros follows, as in LoRA. Then only the product of both has a size."""
    outputs, layer = subject.parameters[name].shape[0], subject.layer_of(name)
    around = parent_of(parent_of(parent_of(name)))
    place = around if is_within(around, layer) else layer
    return any(is_within(other, place) and p.shape[1] == outputs and not bool(p.any())
               for other, p in matrices_of(subject))


def _writes_stream(subject: Subject, name: str) -> bool:
    """Returns whether a map has as many outputs as the stream has features. Deep models often draw them smaller."""
    module = subject.model.get_submodule(parent_of(name))
    outputs = subject.parameters[name].shape[0 if isinstance(module, nn.Linear) else 1]
    return not isinstance(module, nn.Embedding) and outputs == entry(subject.config, *_WIDTHS)


def measure_bias_offsets(subject: Subject) -> None:
    """Adds bias-off-zero for biases of trained norms that lie around a number far from 0. Their counterparts in other
    layers do not, or all biases lie around the same number. One kind of norm may begin there in all layers."""
    means: dict[str, float] = {}
    deviations: dict[str, float] = {}
    for name, parameter in norm_vectors(subject):
        if name.endswith("bias") and parameter.numel() >= 16:
            means[name], deviations[name] = _mean(parameter), float(parameter.detach().float().std())
    off = {n for n, mean in means.items() if abs(mean) > max(0.2, 5 * deviations[n]) and deviations[n] > 0}
    inner = [means[n] for n in means if subject.layer_of(n)]
    is_common = bool(inner) and max(inner) - min(inner) < 0.2 * abs(sum(inner)) / len(inner)
    for places in _unlike_others(subject, list(means), off, is_common):
        if all(abs(mean) < abs(means[places[0]]) / 3 for n, mean in means.items() if n not in off):
            subject.add_line("bias-off-zero", means[places[0]], limit=deviations[places[0]], where=some(places))
