"""A part of a model that was not measured."""

from __future__ import annotations

from typing import NamedTuple


class LeftOut(NamedTuple):
    """A part that was not measured, and the reason."""
    where: str
    why: str
