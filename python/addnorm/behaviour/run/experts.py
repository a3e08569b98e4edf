"""Recognizes experts, of which a router calls some for each token, and routers."""

from __future__ import annotations

import re

from torch import nn

from ..._core import family_facts
from ..._structure import entry, parent_of
from .structure import places_of
from .subject import Subject


def names_expert(name: str) -> bool:
    return "expert" in name.lower()


def names_router(name: str) -> bool:
    return "rout" in name.lower()


def is_expert(subject: Subject, name: str) -> bool:
    """Returns whether a parameter belongs to one of several modules of one class in a list within its layer."""
    for place in places_of(name[len(subject.layer_of(name)) + 1:]):
        module = subject.model.get_submodule(f"{subject.layer_of(name)}.{parent_of(place)}".rstrip("."))
        kinds = [type(child) for child in module.children()]
        if isinstance(module, nn.ModuleList) and parent_of(place) and len(kinds) > len(set(kinds)):
            return True
    return names_expert(name)


def is_router(subject: Subject, name: str) -> bool:
    """Returns whether a map has experts as siblings, or the name of a router."""
    around = subject.model.get_submodule(parent_of(parent_of(name)))
    return names_router(name) or any(names_expert(child) for child, _ in around.named_children())


def is_router_of_one(subject: Subject, name: str) -> bool:
    """Returns whether a router gets no gradient by design: its configuration says that one expert is chosen, whose
    weight may be divided by itself. Some families do this for experts with a much larger logit than the others."""
    experts = entry(subject.config, "num_experts", "num_local_experts", "n_routed_experts")
    if not re.search("rout|gate", name) or subject.parameters[name].shape[0] != experts:
        return False
    chosen = entry(subject.config, "num_experts_per_tok", "moe_topk")
    is_one = set(chosen if isinstance(chosen, list) else [chosen]) == {1} and \
        entry(subject.config, "norm_topk_prob") is not False
    return is_one or not family_facts(str(entry(subject.config, "model_type")))["has_router_gradient"]
