"""The structure of a model: its linear maps, the places of its parameters, and the entries of its configuration."""

from __future__ import annotations

from typing import Any, Iterator

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


def entries(config: Any, depth: int = 3) -> Iterator[tuple[str, Any]]:
    """Yields the entries of a configuration, those of configurations in it, and each item of a list."""
    for name, value in (config if isinstance(config, dict) else getattr(config, "__dict__", {})).items():
        for item in value if isinstance(value, (list, tuple)) else (value,):
            key = str(name)
            yield key, item
            if depth > 0 and key.endswith("config"):
                yield from entries(item, depth - 1)
