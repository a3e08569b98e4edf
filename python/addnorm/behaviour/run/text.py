"""Words for lines of a profile."""

from __future__ import annotations

from typing import Iterable


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def some(names: Iterable[str], most: int = 3) -> str:
    """Returns a text such as "a, b, c and 4 more"."""
    names = list(names)
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest
