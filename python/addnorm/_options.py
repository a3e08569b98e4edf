"""The options that addnorm.check and addnorm.watch pass on to the probe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Callable

from ._library import Error


def _is_names(value: Any) -> bool:
    return isinstance(value, str) or isinstance(value, Iterable) and all(isinstance(name, str) for name in value)


def _is_layers(value: Any) -> bool:
    from torch import nn
    if value is None or isinstance(value, str):
        return True
    return isinstance(value, Iterable) and all(isinstance(layer, nn.Module) for layer in value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


_EXPECTED: dict[str, tuple[Callable[[Any], bool], str]] = {
    "layers": (_is_layers, "a module's name, or a list of modules"),
    "attention": (_is_names, "a name or a list of names"),
    "feed_forward": (_is_names, "a name or a list of names"),
    "recipe": (lambda value: value is None or isinstance(value, Mapping), "a dict of facts"),
    "batch_first": (lambda value: value is None or isinstance(value, bool), "True, False or None"),
    "tokens": (_is_count, "a whole number, at least 1"),
}


def check_options(function: str, options: Mapping[str, Any]) -> None:
    """Raises TypeError for an unknown option, as Python does for an unknown argument, and Error for a bad value."""
    for name, value in options.items():
        if name not in _EXPECTED:
            raise TypeError(f"{function}() has no option {name!r}; expected one of {', '.join(_EXPECTED)}")
        is_valid, expected = _EXPECTED[name]
        if not is_valid(value):
            raise Error(f"{name} is {repr(value)[:100]}, must be {expected}")
