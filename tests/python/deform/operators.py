"""All operators of the catalog, by their codes in its order, and how one is applied to a model."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from . import operators_attention, operators_cache, operators_layers  # noqa: F401  (importing adds their operators)
from .catalog import OPERATORS, PLACES, NotApplicable, Operator, Scope
from .models import Batch, Family
from .parts import Target, parts_of

__all__ = ["OPERATORS", "PLACES", "NotApplicable", "Operator", "Scope", "apply", "severity_of", "values_of"]

SEVERITIES = "low", "medium", "high"


def severity_of(operator: Operator, value: Any) -> str:
    """The catalog's three severities are the first three values; a fourth choice is as high as the third."""
    return "only" if operator.values == (None,) else SEVERITIES[min(2, operator.values.index(value))]


def values_of(operator: Operator, is_sample: bool = False) -> tuple[Any, ...]:
    """All values, or, for a sample, the last one."""
    return operator.values[-1:] if is_sample else operator.values


def apply(operator: Operator, model: nn.Module, family: Family, value: Any, layer: int | None,
          optimizer: torch.optim.Optimizer, batch: Batch) -> None:
    """Damages the model or its optimizer in place, in one layer (from 0) or, with None, in all.

    NotApplicable if there is nothing that the operator could change.
    """
    parts = parts_of(model, family)
    layers = parts.layers if layer is None else [parts.layers[layer]]
    with torch.no_grad():
        operator.action(Target(parts, layers, layer is None, optimizer, batch), value)
