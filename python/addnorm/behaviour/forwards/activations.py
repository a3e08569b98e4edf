"""Compares the activation between two linear maps with the one that the configuration names."""

from __future__ import annotations

from collections import Counter
from typing import Any, Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from ..._structure import entry
from ..run.experts import names_router
from ..run.functions import FunctionCheck, linear_input
from ..run.subject import Subject
from ..run.tensors import relative_difference

EXACT = 1e-6  # largest difference of equal activations; the two forms of GELU differ by 5e-6 or more
MOST_VALUES = 2**16  # values of one activation that are compared
_NAMES = "hidden_act", "hidden_activation", "activation_function", "activation"


def _gelu_by_tanh(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.tanh((2 / torch.pi)**0.5 * (x + 0.044715 * x**3)))


KNOWN: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu, "gelu_new": _gelu_by_tanh, "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x), "silu": F.silu,
    "relu": F.relu, "relu2": lambda x: F.relu(x).square(), "relu6": F.relu6, "tanh": torch.tanh,
    "sigmoid": torch.sigmoid, "mish": F.mish, "leaky_relu": F.leaky_relu, "elu": F.elu, "selu": F.selu,
}
ALIASES = {"gelu_python": "gelu", "gelu_fast": "gelu_new", "gelu_pytorch_tanh": "gelu_new", "gelu_accurate": "gelu_new",
           "gelu_python_tanh": "gelu_new", "swish": "silu"}


class Activations(FunctionCheck):
    """Identifies the activation between linear maps of a layer. It is applied to the output of the last map, and may be
    multiplied with the output of another map. The configuration names the activation before the layer's widest map.
    Other maps, as in adapters, may have activations of their own if they have them in most layers."""

    checks = "activation-changed"

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        named = entry(subject.config, *_NAMES)
        self._declared = ALIASES.get(named, named) if isinstance(named, str) else ""
        self._made: list[Tensor] = []  # outputs of the last two linear maps, [rows, features]
        self._found: dict[str, tuple[str, int]] = {}  # place → (activation, number of features)
        self._as_declared: set[str] = set()
        self._widest: dict[str, int] = {}  # layer → number of input features of its widest map

    def __call__(self, name: str, args: Any, kwargs: Any, result: Any) -> None:
        place, made, x = self._subject.where(), self._made, linear_input(name, args, kwargs)
        if not isinstance(x, Tensor) or self._declared not in KNOWN or names_router(place):  # routers have their own
            return
        self._made = [*made[-1:], _rows(result)]
        read, layer = _rows(x), self._subject.layer_of(place)
        if read.dtype != torch.float32 or not layer or not bool(read.any()):
            return
        self._widest[layer] = max(self._widest.get(layer, 0), read.shape[-1])
        pairs = list(_pairs(made, read))
        if any(_difference(self._declared, *pair, read) < 2 * EXACT for pair in pairs):
            self._as_declared.add(place)
            return
        for found in (known for known in KNOWN for pair in pairs if _difference(known, *pair, read) < EXACT):
            self._found.setdefault(place, (found, read.shape[-1]))

    def add_lines(self) -> None:
        self._made.clear()
        usual, odd = (Counter(map(self._subject.of_all_layers, places)) for places in (self._as_declared, self._found))
        for place, (activation, width) in self._found.items():
            form, is_main = self._subject.of_all_layers(place), width == self._widest[self._subject.layer_of(place)]
            if is_main or usual[form] > odd[form]:
                self._subject.add_line("activation-changed", 1, where=place,
                                       detail=f"{activation}, and the configuration says {self._declared}")


def _rows(x: Tensor) -> Tensor:
    x = x.detach().reshape(-1, x.shape[-1])
    return x[:max(1, MOST_VALUES // x.shape[-1])]


def _pairs(made: list[Tensor], read: Tensor) -> Iterator[tuple[Tensor, Tensor | None]]:
    """Yields pairs of the tensor that the activation may have read, and its possible factor or None."""
    same = [m for m in made if m.shape == read.shape]
    halves = made[-1].chunk(2, -1) if made and made[-1].shape[-1] == 2 * read.shape[-1] else ()
    if same and same[-1] is made[-1]:
        yield same[-1], None
    for both in same, halves:
        if len(both) == 2 and both[0].shape == read.shape:
            yield both[0], both[1]
            yield both[1], both[0]


def _difference(name: str, x: Tensor, gate: Tensor | None, read: Tensor) -> float:
    activated = KNOWN[name](x.double())
    return relative_difference(activated if gate is None else activated * gate.double(), read)
