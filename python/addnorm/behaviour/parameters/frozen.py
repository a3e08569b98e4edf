"""Parameters that are not trained, beside counterparts that are."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

from torch import nn

from ..._structure import parent_of
from ...probe.find.names import ATTENTION, stem_of, weight_named
from ..run.experts import is_expert
from ..run.structure import places_of
from ..run.subject import Subject, cover
from ..run.text import some


def measure_frozen(subject: Subject) -> None:
    """Adds parameter-frozen. Freezing is usually a choice. It is suspect if one layer alone is frozen between trained
    ones, or if the same matrices of a sublayer are frozen in all layers and its other matrices are trained."""
    frozen = [n for n, p in subject.parameters.items() if not p.requires_grad]
    if not frozen:
        return
    odd, parts = _oddly_frozen(subject, set(frozen))
    for names, others in (odd, "its counterparts in all other layers"), (parts, "the other matrices of its sublayer"):
        if names:
            subject.add_line("parameter-frozen", 1, where=some(cover(subject, names, frozen)),
                             declared=f"{others} are trained")
    values = sum(p.numel() for p in subject.parameters.values())
    share = sum(subject.parameters[n].numel() for n in frozen) / max(1, values)
    if not odd and not parts:
        subject.add_line("parameter-frozen", share, where="model", detail=some(cover(subject, frozen, frozen)))


def _oddly_frozen(subject: Subject, frozen: set[str]) -> tuple[list[str], list[str]]:
    """Returns the parameters that are frozen in one inner layer alone, and those that are frozen beside trained ones of
    their sublayer. Both lists are empty if a matrix is frozen in several layers and trained in others, which is a
    choice. Several layers that are frozen as a whole, as in LISA, are also a choice."""
    layers: dict[str, list[str]] = defaultdict(list)
    for name in subject.parameters:
        if subject.layer_of(name):
            layers[subject.layer_of(name)].append(name)
    whole = [layer for layer, names in layers.items() if frozen.issuperset(names)]
    forms: dict[str, list[str]] = defaultdict(list)
    for layer, names in layers.items():
        for name in names:
            if (layer not in whole or len(whole) == 1) and not is_expert(subject, name):
                forms[subject.of_all_layers(name)].append(name)
    odd = [n for names in forms.values() for n in names[1:-1] if frozen.intersection(names) == {n}]
    if any(1 < len(frozen.intersection(names)) < len(names) for names in forms.values()):
        return [], []
    return odd, [n for layer, names in layers.items() if layer not in whole
                 for n in _frozen_parts(subject, layer, names, frozen) if n not in odd]


def _frozen_parts(subject: Subject, layer: str, names: list[str], frozen: set[str]) -> list[str]:
    """Returns the frozen matrices of sublayers that also have trained ones. Only layers whose values are mostly trained
    count, which excludes the base of an adapter. A router beside its experts is excluded, too."""
    matrices = [n for n in names if subject.parameters[n].dim() > 1]
    if 2 * sum(subject.parameters[n].numel() for n in matrices if n in frozen) > \
            sum(subject.parameters[n].numel() for n in matrices):
        return []
    sublayers: dict[Any, list[str]] = defaultdict(list)
    for name in matrices:
        sublayers[_sublayer_of(subject, layer, name)].append(name)
    return [n for key, group in sublayers.items() if key and not any(is_expert(subject, n) for n in group)
            and any(n not in frozen for n in group) for n in group if n in frozen]


def _sublayer_of(subject: Subject, layer: str, name: str) -> tuple[str, bool] | None:
    """Returns a key that the matrices of one sublayer share: the outermost module within the layer, and whether they
    belong to attention. In a flat layer, the names of the matrices decide; None if they are ambiguous."""
    inner = name[len(layer) + 1:]
    places = [f"{layer}.{place}" for place in places_of(parent_of(inner))][::-1]
    modules = [(place, subject.model.get_submodule(place)) for place in places]
    is_attention = any(ATTENTION.search(text) for place, module in modules
                       for text in (place[len(layer):], type(module).__name__))
    for place, module in modules:
        is_list = isinstance(module, (nn.ModuleList, nn.ModuleDict))
        if not is_list and (list(module.children()) or isinstance(module, nn.MultiheadAttention)):
            return place, is_attention
    stem = re.sub("^w_", "", stem_of(inner))
    kinds = [weight_named(stem, kind) is not None for kind in (False, True)]
    return ("", kinds[1]) if kinds[0] != kinds[1] else None
