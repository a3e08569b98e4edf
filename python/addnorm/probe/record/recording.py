"""Records a forward pass of a model: its operators, and the calls of modules around them."""

from __future__ import annotations

from typing import Any, Callable, List

import torch
from torch import nn

from ..._modes import leave_mode
from ..._structure import tensors_in
from .graph import Enter, Graph, Leave, Value
from .recorder import Recorder


class Recording:
    """Records the first forward pass that calls its hooks enter() and leave(), and then calls on_end(graph).

    Later passes are not recorded, because checkpoints run parts of the forward again during backward.
    """

    def __init__(self, model: nn.Module, on_end: Callable[[Graph], bool]) -> None:
        """on_end: returns True if no further pass is needed; otherwise the next pass is recorded too."""
        self._on_end = on_end
        self._recorder = Recorder(model)
        self._running: List[str] = []  # names of modules, the innermost last
        self._is_active = self._is_done = False

    def close(self) -> None:
        self._stop()
        self._recorder.clear()

    def _stop(self) -> None:
        self._is_active = False
        leave_mode(self._recorder)

    def enter(self, name: str, module: nn.Module, inputs: Any, named: Any) -> None:
        if not self._running:
            self._begin()
        self._running.append(name)
        if self._is_active:
            with self._recorder.paused():
                self._recorder.add_weights(name, module)
                self._recorder.module = name
                self._recorder.add(Enter(name, self._values((inputs, named))))

    def leave(self, name: str, module: nn.Module, inputs: Any, named: Any, output: Any) -> None:
        while self._running and self._running.pop() != name:
            pass  # a module that raised an exception did not call leave()
        if self._is_active:
            with self._recorder.paused():
                self._recorder.add_call(module, (inputs, named), output)
                self._recorder.add(Leave(name, module, self._values((inputs, named)), self._values(output)))
                self._recorder.module = self._running[-1] if self._running else ""
        if not self._running and self._is_active:
            self._end(output)

    def _values(self, things: Any) -> List[Value]:
        return [self._recorder.value(t) for t in tensors_in(things) if t.is_floating_point() and t.dim() > 1]

    def _begin(self) -> None:
        if self._is_done:
            return
        self._recorder.clear()
        self._recorder.graph.keeps_graph = torch.is_grad_enabled()
        self._recorder.__enter__()
        self._is_active = True

    def _end(self, output: Any) -> None:
        self._stop()
        self._recorder.graph.output = output
        self._recorder.graph.outputs = [self._recorder.value(t) for t in tensors_in(output)]
        self._is_done = self._on_end(self._recorder.graph)
        self._recorder.clear()
