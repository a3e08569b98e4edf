"""Finds lists of layers that start from equal tokens, as the queries of DETR's decoder are."""

from __future__ import annotations

from typing import Any

from torch import nn

from ..._structure import parent_of, tensors_in
from .subject import Subject
from .tensors import rms

CONSTANT = 1e-5  # spread over tokens, relative to their size, below which tokens are equal; collapse leaves 1e-4
MOST_VALUES = 2**18  # largest number of values of a tensor that is inspected


class Starts:
    """Records, in one forward, the lists of layers whose first layer reads equal tokens. Until another input
    distinguishes the tokens, their values are equal whatever queries and keys are."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._is_equal: dict[str, bool] = {}  # list → whether its first layer reads equal tokens
        self._first: dict[str, str] = {}  # layer → its first sublayer with a matrix

    def enter(self, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        name = self._subject.names[module]
        layer = self._subject.layer_of(name)
        if not layer:
            return
        x = next((t for t in tensors_in(inputs) if t.is_floating_point() and t.dim() > 2), None)
        if name == layer and x is not None and parent_of(layer) not in self._is_equal:
            x = x.detach().double()
            x = x[..., :max(3, MOST_VALUES // max(1, x[..., :1, :].numel())), :]
            spread = rms(x - x.mean(-2, keepdim=True))
            self._is_equal[parent_of(layer)] = x.shape[-2] > 1 and spread <= CONSTANT * rms(x)
        if any(p.dim() > 1 for p in module.parameters(recurse=False)):
            self._first.setdefault(layer, ".".join(name.split(".")[:layer.count(".") + 2]))

    def is_equal(self, place: str) -> bool:
        """Returns whether a place is in a list of layers that starts from equal tokens."""
        layer = self._subject.layer_of(place)
        return bool(layer) and self._is_equal.get(parent_of(layer), False)

    def idle(self) -> set[str]:
        """Returns the first sublayers of the layers in such lists."""
        return {place for layer, place in self._first.items() if self._is_equal.get(parent_of(layer))}
