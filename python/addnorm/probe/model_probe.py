"""The probe: observes a model while it runs, and keeps the measurements."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Sequence, Set, Tuple, Union

import torch
from torch import Tensor, nn

from .._undo import Exit, Undo, end_contexts, run_undone
from .find.layers import ProbeError, find_layers, words_of_hidden
from .find.streams import Stream, find_streams
from .fit.batch import Numbers
from .measure.declared import Declared
from .measure.measured import Measured
from .measure.profile import Site, profile_text
from .measure.rows import Rows
from .measure.stream import StreamMeasurement
from .record.graph import Graph
from .record.recording import Recording

Names = Union[str, Sequence[str]]

_OPAQUE = "it takes no hooks, as no module of torch.jit.script does"


class Probe:
    """Measures a model. `with p:` measures one step; `with p(step):` also sets the step's number."""

    def __init__(self, model: nn.Module, layers: Union[str, Sequence[nn.Module], None],
                 attention: Names, feed_forward: Names, every: int, recipe: Dict[str, Any],
                 batch_first: Optional[bool], tokens: int):
        self.model, self._every, self._tokens = model, every, tokens
        self._entered = 0  # the number of uses of `with`
        self._measures = False  # whether the current use is measured
        self._measured_before = 0  # the number of sublayers that were measured before it
        self._named = {kind: [names] if isinstance(names, str) else list(names) for kind, names in
                       (("attention", attention), ("feed_forward", feed_forward))}
        if isinstance(model, torch.jit.ScriptModule):
            raise ProbeError(f"the model is a {type(model).__name__} of torch.jit, whose modules call no hooks; "
                             "expected the nn.Module that it was made from")
        self._layers_name, self._elements = find_layers(model, layers)
        self._batch_first = batch_first if batch_first is not None else all(
            m.batch_first for element in self._elements for m in element.module.modules()
            if isinstance(m, nn.MultiheadAttention))
        self._undo = Undo()
        self._opaque: Set[str] = set()  # names of modules that take no hooks
        self._measured = Measured(self._undo)
        self._declared = Declared(model, self._elements, recipe, self._measured)

    @property
    def entries(self) -> Dict[Site, Numbers]:
        """The numbers that were measured so far, by site."""
        return self._measured.entries

    # -- Use --

    def __call__(self, step: int) -> Probe:
        self._measured.step = step
        return self

    def __enter__(self) -> Probe:
        self._measures = self._entered % self._every == 0
        self._entered += 1
        self._measured_before = self._measured.n_measured
        if self._measures:
            try:
                self._attach()
                return self
            except BaseException:
                self._undo.close()
                raise
        return self

    def _leave(self, kind: Any, error: Any, traceback: Any) -> None:
        run_undone(lambda: end_contexts(traceback), self._undo.close)
        self._measured.step += 1
        if kind is None:
            self._measured.read()
        self._measured.forget_fits()  # after an error, some fits have not been read
        if self._measures and kind is None and self._measured.n_measured == self._measured_before:
            self._complain()

    __exit__ = Exit(_leave)

    def _complain(self) -> None:
        """Raises the error for a pass in which nothing was measured."""
        name = self._layers_name or "the model"
        left_out = self._measured.coverage.left_out
        if left_out:
            raise ProbeError(f"no layer could be measured; {left_out[-1].where}: {left_out[-1].why}")
        if self._measured.input_shape is None:
            raise ProbeError(f"no layer of {name} was called; name the ones that are, e.g. "
                             "layers='model.layers', and call layer(x), not layer.forward(x), past all hooks")
        raise ProbeError(f"the layers of {name} were called, but no sublayer was recognized: the first one "
                         f"reads [{', '.join(map(str, self._measured.input_shape))}]; expected [batch, length, "
                         "d_model], linear maps of d_model, and a sum with what they read"
                         f"{words_of_hidden(self.model)}"
                         f"{f'; {min(self._opaque)}: {_OPAQUE}' if self._opaque else ''}")

    def run(self, *inputs: Any, loss: Optional[Callable[[Any], Tensor]] = None, **named_inputs: Any) -> Probe:
        """Measures model(*inputs), and if `loss` is given, the gradients of loss(output). Restores every .grad."""
        gradients = [(p, p.grad) for p in self.model.parameters()]

        def measure() -> None:
            self.model.zero_grad(set_to_none=True)
            with self:
                output = self.model(*inputs, **named_inputs)
                if loss is not None:
                    loss(output).backward()

        def restore() -> None:
            for parameter, gradient in gradients:
                parameter.grad = gradient

        run_undone(measure, restore)
        return self

    def write(self, path: Any, digits: int = 9) -> None:
        """Writes the profile of everything that was measured so far."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.text(digits))

    def text(self, digits: int = 9) -> str:
        return profile_text(self.header(), self.entries, digits)

    def header(self) -> Dict[str, Any]:
        """Returns the profile's first line: the declarations of names and configuration, and the recipe."""
        return self._declared.facts()

    def norm_slots(self) -> Dict[str, Any]:
        """Returns {name of a norm in its layer: (sublayer, slot)}, as in most layers."""
        return self._declared.norm_slots()

    def coverage(self) -> Dict[str, Any]:
        """Returns [measured, seen] of sums, norms, attentions and gradients, and the parts that were left out."""
        return self._measured.coverage.as_dict(self._measured.lanes > 0)

    def __str__(self) -> str:
        facts = [f"{key} {value}" for key, value in self.header().items()]
        norms = [f"{name}: {slot} {kind}" for name, (kind, slot) in self.norm_slots().items()]
        return (f"{len(self._elements)} layers in {self._layers_name or 'the model itself'}; "
                f"{', '.join(facts)}; {', '.join(norms) or 'no norms seen yet'}")

    # -- Hooks --

    def _attach(self) -> None:
        recording = Recording(self.model, self._measure)
        self._undo.callback(recording.close)
        for name, module in self.model.named_modules():
            enter, leave = _hooks(recording.enter, name), _hooks(recording.leave, name)
            if not self._undo.hook_calls(module, enter, leave):
                self._opaque.add(name)
        for element in self._elements:
            if element.path in self._opaque:
                self._measured.coverage.miss(element.path, _OPAQUE)
        self._leave_fast_path()

    def _leave_fast_path(self) -> None:
        """Turns off the fast path of nn.TransformerEncoderLayer: one fused call that hides all operators."""
        _FAST_PATH.turn_off(self._undo)
        for layer in self.model.modules():
            if isinstance(layer, nn.TransformerEncoderLayer):
                key = "activation_relu_or_gelu"
                self._undo.callback(setattr, layer, key, getattr(layer, key))
                setattr(layer, key, 0)

    # -- One forward pass --

    def _measure(self, graph: Graph) -> bool:
        """Measures a forward pass. Returns whether it has a stream."""
        found = find_streams(graph, self._elements, self._named)
        self._measured.begin(found, graph.keeps_graph)
        for stream in found.streams:
            self._measured.guarded(self._measure_stream, stream, graph)
        return bool(found.streams)

    def _measure_stream(self, stream: Stream, graph: Graph) -> None:
        StreamMeasurement(self._measured, self._declared, stream, graph, self._rows).measure(graph.output)

    def _rows(self, shape: torch.Size) -> Rows:
        return Rows(shape, self._batch_first, self._tokens)

    def hook_gradient(self, tensor: Tensor, function: Callable[[Tensor], Any]) -> None:
        self._undo.hook_gradient(tensor, function)


class _FastPath:
    """PyTorch's switch of the fast path. It is off while at least one probe measures: two models in one loop have two
    probes, and so have two threads. Then the switch returns to its value before the first probe. There is no lock,
    because an interrupt could leave it locked."""

    def __init__(self) -> None:
        self._users: Dict[object, bool] = {}  # the value before the first probe, by probe

    def turn_off(self, undo: Undo) -> None:
        switch = getattr(torch.backends, "mha", None)
        if not hasattr(switch, "set_fastpath_enabled"):
            return
        others = next(iter(self._users.values()), None)
        before, user = switch.get_fastpath_enabled() if others is None else others, object()
        undo.callback(self._restore, switch, user, before)
        self._users[user] = before
        switch.set_fastpath_enabled(False)

    def _restore(self, switch: Any, user: object, before: bool) -> None:
        if set(self._users) <= {user}:
            switch.set_fastpath_enabled(before)  # while `user` is listed, so that no new probe reads "off" as the value
        self._users.pop(user, None)


_FAST_PATH = _FastPath()


def _hooks(function: Callable, name: str) -> Tuple[Callable, Callable]:
    """Returns two hooks that call function(name, module, inputs, named inputs[, output]).

    The first is for PyTorch before 2.0, whose hooks get no named arguments. Both are plain functions, so a deep copy of
    the module shares them.
    """
    return (lambda module, inputs, *output: function(name, module, inputs, {}, *output),
            lambda module, inputs, named, *output: function(name, module, inputs, named, *output))
