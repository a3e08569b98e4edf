"""One forward pass of a model: which layers run, and what they do with the stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Set, Tuple

import torch
from torch import nn

from .._structure import parent_of, tensors_in
from .flow import Flow, Norm, Sum, features_last
from .lane_flow import LaneFlow, find_lanes, reads_otherwise
from .measure import Measurement
from .names import first_tensor, is_norm
from .profile import SeenSublayer
from .recorder import Recorder, Value
from .sublayers import Arranger, Sublayer, is_made_of

if TYPE_CHECKING:
    from .model_probe import Probe


def is_sum_with(value: Value, others: Set[Value], depth: int = 12) -> bool:
    """Whether one of these was added on the way to it, by sums and norms that keep its shape: it is a stream of
    its own."""
    op = value.root.op
    if op is None or depth == 0:
        return False
    same = [v for v in op.inputs if v.shape == value.root.shape]
    return op.name == "add" and any(v.root in others for v in same) or \
        any(is_sum_with(v, others, depth - 1) for v in same)


Told = Tuple[Optional[int], str, Callable[[Flow], None]]  # layer, its module, and what a flow hears


class ForwardPass:
    """One forward pass through the model."""

    def __init__(self, probe: Probe):
        self.probe = probe
        self._flow = Flow(self._on_sum)
        self._recorder = Recorder(probe.model, lambda op: self._tell(lambda flow: flow.take(op)))
        self._running: List[Tuple[str, Optional[int], str]] = []  # modules, and the layer around each
        self._is_active = self._is_done = self._reads_stream = False
        self._reset()

    def _reset(self) -> None:
        self._flow.x = None
        self._others: List[Value] = []  # what the first layer takes beside what is held for its stream
        # What the flow heard of the first layer, with layer and module: another one may hear it too.
        self._told: Optional[List[Told]] = None
        self._left: List[Value] = []  # what the last layer returned
        self._left_by: Optional[type] = None
        self._leave_stream: Set[type] = set()  # classes of layers that return the stream
        self._layers = 0  # that have begun
        self._has_input = True  # the layer that runs: its input was seen
        self._base = 0  # the profile's number of the next layer
        self._current: Optional[int] = None  # the element that ran last
        self._called: Set[int] = set()  # elements that were called themselves, and not module by module
        self._number_of: Dict[int, int] = {}  # the layer as which each element ran last
        self._sums: Dict[int, List[Sum]] = {}
        self._begun: Dict[int, int] = {}  # the operators before each layer
        self._arranger: Optional[Arranger] = None
        self._last: Optional[Sublayer] = None
        self._measurement: Optional[Measurement] = None

    def close(self) -> None:
        if self._is_active:
            self._recorder.__exit__(None, None, None)
            self._is_active = False
        self._recorder.clear()

    # -- Modules --

    def enter(self, name: str, module: nn.Module, inputs: Any, named: Any) -> None:
        if not self._running:
            self._begin()
        self._running.append((name, self._flow.layer, self._flow.layer_module))
        if not self._is_active:
            return
        with self._recorder.paused():
            self._recorder.add_weights(name, module)
            self._enter(name, (inputs, named))

    def _enter(self, name: str, inputs: Any) -> None:
        self._recorder.module = name
        if self._flow.layer is not None and not self._has_input:
            self._take_input(inputs, True)  # of a layer with named arguments, which were not seen
        element = self.probe.element(name) if self._flow.layer is None else None
        if element is None:
            return
        here = self.probe.elements[element]
        is_whole = name == here.path
        if not is_whole and element in self._called:
            return  # it is shared with another layer
        if is_whole:
            self._called.add(element)
        if is_whole or element != self._current:
            self._begin_layer(element, inputs)
        self._set_layer(self._number_of.get(element), here.path)

    def leave(self, name: str, module: nn.Module, inputs: Any, named: Any, output: Any) -> None:
        layer: Optional[int] = None
        path = ""
        while self._running:  # the rest are of modules that raised
            left, layer, path = self._running.pop()
            if left == name:
                break
        if self._is_active:
            with self._recorder.paused():
                self._leave(name, module, (inputs, named), output)
                self._recorder.module = self._running[-1][0] if self._running else ""
                self._set_layer(layer, path)
        if not self._running and self._is_active:
            self._finish(output)

    def _leave(self, name: str, module: nn.Module, inputs: Any, output: Any) -> None:
        self._recorder.add_call(module, inputs, output)
        self._recorder.flush()
        if is_norm(name, module):
            self._add_norm(name, module, inputs, output)
        if self._flow.x is not None and self._flow.layer is not None and name == self._flow.layer_module:
            self._try(lambda: self._leave_layer(module, inputs, output))

    def _leave_layer(self, module: nn.Module, inputs: Any, output: Any) -> None:
        values = [self._recorder.value(t) for t in tensors_in(output) if t.is_floating_point() and t.dim() > 1]
        taken = {self._recorder.value(t).root for t in tensors_in(inputs) if t.is_floating_point() and t.dim() > 1}
        for value in values:
            if not self._flow.has_stream_shape(value) and is_sum_with(value, taken):
                self.probe.note_other(self._flow.layer_module, value.shape)
        self._left, self._left_by = values, type(module)
        if any(map(self._flow.has_stream, values)):
            self._leave_stream.add(type(module))

    def _set_layer(self, layer: Optional[int], path: str) -> None:
        self._flow.layer, self._flow.layer_module = layer, path

    def _begin(self) -> None:
        """Once: what runs in backward, as checkpoints do, is no forward."""
        if self._is_done:
            return
        self.probe.keeps_graph = torch.is_grad_enabled()
        self._set_layer(None, "")
        self._reset()
        self._recorder.clear()
        self._recorder.__enter__()
        self._is_active = True

    def _finish(self, output: Any) -> None:
        self._is_active = False
        self._recorder.__exit__(None, None, None)
        self._end_stack(output, True)
        if self._measurement is not None:
            self._measurement.head(output, self._reads_stream)
            self._is_done = True
        self._recorder.clear()
        self._reset()

    def _add_norm(self, name: str, module: nn.Module, inputs: Any, output: Any) -> None:
        read, gave = first_tensor(inputs), first_tensor(output)
        if self._flow.x is None or read is None or gave is None:
            return
        parameters = {p: f"{name}.{p}" if name else p for p, _ in module.named_parameters(recurse=False)}
        gamma = next((parameters[p] for p in ("weight", "gamma", "scale", "g") if p in parameters), None)
        beta = next((parameters[p] for p in ("bias", "beta", "b") if p in parameters), None)
        values = self._recorder.value(read), self._recorder.value(gave)
        self._tell(lambda flow: flow.add_norm(*values, name, gamma, beta))

    def _try(self, what: Callable[[], None]) -> None:
        try:
            what()
        except Exception as error:  # what is watched must not fail by it
            self._leave_out(f"{type(error).__name__}: {error}")

    def _tell(self, what: Callable[[Flow], None]) -> None:
        self._try(lambda: what(self._flow))
        if self._told is not None:
            self._told.append((self._flow.layer, self._flow.layer_module, what))

    # -- Layers --

    def _begin_layer(self, element: int, inputs: Any) -> None:
        self._recorder.flush()
        self._settle_stream()
        self._take_input(inputs, self._is_next(element))
        self._current = element
        self._number_of[element] = self._layers
        self._begun[self._layers] = self._recorder.count + 1
        self._layers += 1

    def _take_input(self, inputs: Any, is_next: bool) -> None:
        values = [self._recorder.value(t) for t in tensors_in(inputs) if t.is_floating_point() and t.dim() > 1]
        x = self._stream(values, is_next)
        self._has_input = x is not None
        if x is None:
            return
        if self._flow.x is None or not self._flow.carries_stream(x) or self._flow.is_projected(x):
            self._end_stack(None, False)
            self._start(x)
            self._others = [value for value in values if value is not x]

    def _is_next(self, element: int) -> bool:
        """Whether it stands in the same list as the layer before."""
        if self._current is None:
            return False
        here, before = (self.probe.elements[i].path for i in (element, self._current))
        return parent_of(here) == parent_of(before)

    def _stream(self, values: List[Value], is_next: bool) -> Optional[Value]:
        """Of a layer's arguments: what is known of the stream, or else the first of rows."""
        if self._flow.x is not None and is_next:
            for value in values:
                if self._flow.carries_stream(value):
                    return value
        return values[0] if values else None

    def _start(self, x: Value) -> None:
        flow = Flow(self._on_sum)
        flow.start(features_last(x, (element.module for element in self.probe.elements)))
        self._is_first = self._measurement is None
        self._listen_with(flow, self._is_first)
        self.probe.input_shape = self.probe.input_shape or x.shape
        self._told = []
        self._last = None
        self._left, self._leave_stream = [], set()

    def _listen_with(self, flow: Flow, is_first: bool) -> None:
        flow.layer, flow.layer_module = self._flow.layer, self._flow.layer_module
        self._flow = flow
        self._arranger = Arranger(flow, self.probe.named, self.probe.slots, self.norm_name)
        self._measurement = Measurement(self.probe, flow, self._recorder.parameters, is_first)

    def _settle_stream(self) -> None:
        """Behind the first layer of a stack: where no sums were found, or its sublayers read rows of several
        lanes, other flows hear of it again: with lanes, or with another stream among what the layer takes."""
        told, self._told = self._told, None
        if not told or self._flow.x is None:
            return
        has_sums = any(s.stream is not None for known in self._sums.values() for s in known)
        found = find_lanes(self._flow, has_sums)
        if found is not None:
            flow = LaneFlow(self._on_sum)
            flow.begin(*found)
            if self._hears_sums(flow, told):
                return
        for other in () if has_sums else self._others:
            stream = Flow(self._on_sum)
            stream.start(other)
            if self._hears_sums(stream, told):
                return
        if not has_sums and (found is not None or reads_otherwise(self._flow)):
            self._leave_out("its sublayers read parts of what the layer takes, or mixes of several streams, "
                            "and no sum of these was understood")

    def _hears_sums(self, flow: Flow, told: List[Told]) -> bool:
        """Whether it finds sums in what was told: then it is the one."""
        sums: List[Sum] = []
        flow.on_sum = sums.append
        for flow.layer, flow.layer_module, what in told:
            what(flow)
        if not any(s.stream is not None for s in sums):
            return False
        flow.on_sum = self._on_sum
        self._sums.clear()
        self._listen_with(flow, self._is_first and not flow.lanes)
        for s in sums:
            self._on_sum(s)
        return True

    def _leave_out(self, why: str) -> None:
        """The rest of the stack."""
        self.probe.left_out.append({"where": self._flow.layer_module or "the model", "why": why})
        self._sums.clear()
        self._flow.x = self._told = None

    def _on_sum(self, s: Sum) -> None:
        layers = [branch.layer for branch in s.branches if branch.layer is not None]
        if not layers or self._measurement is None:
            return
        self._measurement.watch(s.total)
        self._measurement.watch(s.branch)
        layer = max(layers)
        self._sums.setdefault(layer, []).append(s)
        earlier = sorted(number for number in self._sums if number < layer)
        for number in earlier:
            self._measure(number)
        if earlier and self._begun.get(layer - 1):
            self._flow.forget(self._begun[layer - 1])
            self._recorder.forget(self._begun[layer - 1])

    def _end_stack(self, output: Any, is_last: bool) -> None:
        """The layers that have not been measured, and what comes behind them."""
        if self._flow.x is None or self._measurement is None:
            return
        self._settle_stream()
        if self._flow.x is None:
            return
        self._try(lambda: self._end_flow(output))
        if self._flow.x is None:
            return
        for layer in sorted(self._sums):
            self._measure(layer)
        for where in self._flow.lost:
            self.probe.miss_sum(where, "the lanes behind a sublayer were not understood")
        if self._last is not None:
            norm = self._final_norm(self._last)
            self._reads_stream = norm is None and self._is_read_bare(self._last)
            if norm is not None:
                self._measurement.final_norm(norm, None if is_last else self._base - 1)

    def _end_flow(self, output: Any) -> None:
        if self._left_by in self._leave_stream and not self._flow.lanes:
            self._flow.end_layer(self._left)
        for tensor in tensors_in(output):
            if self._recorder.knows(tensor):
                self._flow.end(self._recorder.value(tensor))

    def _final_norm(self, last: Sublayer) -> Optional[Norm]:
        """Of what the last layer leaves."""
        flow = self._flow
        return next((n for n in flow.norms if n.layer is None and (
            flow.is_end(n.read, last.leaves) or is_made_of(n.read, last.leaves, flow))), None)

    def _is_read_bare(self, last: Sublayer) -> bool:
        """Whether a head behind the layers, which is no small map as that of a halting probability, reads what the
        last one leaves, and not a mean over layers or tokens, of which a norm may come that nobody sees here."""
        return any(linear.op.order > last.total.order and linear.gave.shape[-1] > linear.read.shape[-1] // 2
                   and is_made_of(linear.read, last.leaves, self._flow) for linear in self._flow.linears)

    def _measure(self, layer: int) -> None:
        sums = self._sums.pop(layer)
        try:
            self._measure_layer(layer, self._arranger.arrange(sums))
        except Exception as error:  # what is watched must not fail by it
            where = next((branch.layer_module for s in sums for branch in s.branches), "") or "the model"
            self.probe.left_out.append({"where": where, "why": f"{type(error).__name__}: {error}"})

    def _measure_layer(self, layer: int, subs: List[Sublayer]) -> None:
        taken: set = set()
        for place, sub in enumerate(subs):
            if sub.kind in taken or "feed_forward" in taken and len(subs) > 2:
                self._base, taken = self._base + 1, set()
            taken.add(sub.kind)
            self.probe.sublayers.append(SeenSublayer(
                sub.kind, self._base, sub.branch.layer_module, place,
                [(slot, self.norm_name(norm, sub.branch.layer_module)) for slot, norm in sub.norms()],
                sub.has_own_slots))
            self._measurement.sublayer(sub, self._base, sub is subs[-1], subs[0])
            self._last = sub
        self.probe.run_fits()
        if subs:
            self._base += 1

    def norm_name(self, norm: Norm, layer: str) -> str:
        """Within its layer: its module, or that of its γ."""
        name = parent_of(norm.gamma) if norm.gamma else norm.module
        prefix = layer + "." if layer else ""
        return name[len(prefix):] if name.startswith(prefix) else name
