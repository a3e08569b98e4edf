"""What the doctor's parts share: names of modules, and tensors in what models take and give."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor


def parent_of(name: str) -> str:
    return name.rpartition(".")[0]


def is_within(name: str, outer: str) -> bool:
    return not outer or name == outer or name.startswith(outer + ".")


def tensors_in(value: Any) -> Iterator[Tensor]:
    """All tensors in nested tuples, lists, dictionaries and dataclasses, in their order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from tensors_in(vars(value))


def entry(value: Any, *names: str) -> Any:
    """The first of these keys or attributes that is there and not None."""
    for name in names:
        found = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
        if found is not None:
            return found
    return None
