"""Dropout of the residual stream: dropout-on-stream."""

from __future__ import annotations

import weakref
from collections import Counter
from typing import Any

from torch import Tensor, nn

from ..run.functions import DROPOUTS, PRODUCTS, SUMS, FunctionCheck, dropout_rate
from ..run.subject import Subject

_MAPS = {"linear", "addmm", "conv1d", *PRODUCTS}


class StreamDropout(FunctionCheck):
    """Finds dropout of a sum x + f, instead of f, in a layer. It drops parts of what earlier layers have added.

    The residual stream is the input of a layer and each sum with it. It also includes the input of a module within a
    layer, unless a linear map has just computed that input. Such an input is a branch, to which an adapter may add. A
    batch of one sequence is skipped, because its stream cannot be distinguished from positions."""

    checks = "dropout-on-stream"

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        self._stream: dict[int, Tensor] = {}  # kept, so that no other tensor gets the same id
        self._sums: dict[int, Tensor] = {}
        self._mapped: dict[int, weakref.ref[Tensor]] = {}  # outputs of linear maps
        self.found: dict[str, float] = {}
        forms = {m: subject.of_all_layers(name) for m, name in subject.names.items()}
        often = Counter(forms.values())
        self._in_layers = {m for m, form in forms.items() if "*" in form and often[form] > 1}

    def enter(self, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        x = inputs[0] if inputs else None
        is_within = any(m in self._in_layers for m in self._subject.runs[-1].inside[:-1])
        if isinstance(x, Tensor) and x.is_floating_point() and x.dim() > 2 and x.shape[0] > 1 \
                and module in self._in_layers and list(module.children()) \
                and not (is_within and self._is_mapped(x)):
            self._stream[id(x)] = x

    def _is_mapped(self, x: Any) -> bool:
        known = self._mapped.get(id(x))
        return known is not None and known() is x

    def __call__(self, name: str, args: Any, kwargs: Any, result: Any) -> None:
        if name in _MAPS or name in DROPOUTS and args and self._is_mapped(args[0]):
            self._mapped[id(result)] = weakref.ref(result)
        if name in SUMS and len(args) > 1:
            x, f = args[0], args[1]
            is_sum = isinstance(x, Tensor) and isinstance(f, Tensor) and x.shape == f.shape
            if is_sum and (id(x) in self._stream or id(f) in self._stream):
                self._stream[id(result)] = self._sums[id(result)] = result
            return
        rate = dropout_rate(name, args, kwargs) if name in DROPOUTS else 0.0
        x = args[0] if args else kwargs.get("input")
        if rate > 0 and id(x) in self._sums and self._subject.runs[-1].inside:
            layer = next((m for m in reversed(self._subject.runs[-1].inside) if m in self._in_layers), None)
            if layer is not None:
                self.found.setdefault(self._subject.names[layer], rate)
                self._stream[id(result)] = self._sums[id(result)] = result

    def add_lines(self) -> None:
        self._stream.clear()
        self._sums.clear()
        for place, rate in self.found.items():
            self._subject.add_line("dropout-on-stream", rate, where=place)
