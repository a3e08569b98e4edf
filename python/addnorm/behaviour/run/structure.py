"""The structure of a model: its linear maps and the places of its parameters."""

from __future__ import annotations

from typing import Iterator

from torch import nn

from ..._structure import parent_of


def is_linear_map(module: nn.Module) -> bool:
    """Returns whether a module is a linear map, such as nn.Linear or GPT-2's Conv1D."""
    return isinstance(module, nn.Linear) or type(module).__name__ == "Conv1D"


def places_of(name: str) -> Iterator[str]:
    """Yields the parameter itself and every module that it is in: "a.b.c", "a.b", "a"."""
    while name:
        yield name
        name = parent_of(name)
