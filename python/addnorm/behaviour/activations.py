"""The activation between two linear maps, beside the one that the configuration names."""

from __future__ import annotations

from typing import Any, Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from .._structure import entry
from .structure import of_all_layers, relative_difference
from .subject import Subject

EXACT = 1e-6  # the difference of an activation that is this one; the two forms of GELU differ by 5e-6 or more
MOST_VALUES = 2**16  # of one activation that is compared
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


class Activations:
    """Looks at what stands between two linear maps of a layer: an activation of the first one's output."""

    def __init__(self, s: Subject) -> None:
        self._s = s
        named = entry(s.config, *_NAMES)
        self._declared = ALIASES.get(named, named) if isinstance(named, str) else ""
        self._made: Tensor | None = None  # the output of the last linear map
        self._found: dict[str, list[str]] = {}  # places, by activation

    def __call__(self, name: str, args: Any, kwargs: Any, result: Any) -> None:
        if name not in ("linear", "addmm") or self._declared not in KNOWN:
            return
        made, read = self._made, args[name == "addmm"]
        self._made = result.detach()
        place = self._s.where()
        if made is None or read.numel() != made.numel() or read.shape[-1] != made.shape[-1] or \
                read.dtype != torch.float32 or of_all_layers(place) == place:
            return
        made, read = (t.detach().flatten()[:MOST_VALUES].double() for t in (made, read))
        found = _activation_of(made, read)
        if found and relative_difference(KNOWN[self._declared](made), read) > 2 * EXACT:
            self._found.setdefault(found, []).append(place)

    def add(self) -> None:
        self._made = None
        for activation, places in self._found.items():
            for place in dict.fromkeys(places):
                self._s.add("activation-changed", 1, where=place,
                            detail=f"{activation}, and the configuration says {self._declared}")


def _activation_of(made: Tensor, read: Tensor) -> str:
    """The name of the activation that makes one tensor of the other; "" for none that is known."""
    if not bool(read.any()):
        return ""
    found = {name: relative_difference(activation(made), read) for name, activation in KNOWN.items()}
    best = min(found, key=lambda name: found[name])
    return best if found[best] < EXACT else ""
