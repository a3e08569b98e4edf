"""The probe: listens while a model runs, and keeps what was measured."""

from __future__ import annotations

import contextlib
import functools
import json
import math
from collections import Counter
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor, nn

from .flow import Flow, Norm, Sum
from .measure import Measurement
from .names import first_tensor, is_norm
from .numbers import Numbers
from .recipe import Declared
from .recorder import Op, Recorder, Value, tensors_in
from .stacks import ProbeError, element_of, find_layers
from .sublayers import Arranger, Sublayer

Names = Union[str, Sequence[str]]


class Site(NamedTuple):
    """Where a line of the profile belongs."""
    step: int
    layer: Optional[int]
    sublayer: str
    point: str
    norm: Optional[str] = None
    weight: Optional[str] = None


class SeenSublayer(NamedTuple):
    kind: str
    layer: int
    layer_module: str
    norms: List[Tuple[str, str]]  # (slot, name in the layer)
    has_own_slots: bool


class Probe:
    """What probe() gives. `with p:` measures; `with p(step):` also says which step it is."""

    def __init__(self, model: nn.Module, layers: Union[str, Sequence[nn.Module], None],
                 attention: Names, feed_forward: Names, every: int, recipe: Dict[str, Any],
                 batch_first: Optional[bool], tokens: int):
        self.model, self.every, self.recipe, self.tokens = model, every, recipe, tokens
        self.step, self._entered = 0, 0
        self._named = {kind: [names] if isinstance(names, str) else list(names) for kind, names in
                       (("attention", attention), ("feed_forward", feed_forward))}
        self.layers_name, self.elements = find_layers(model, layers)
        self._element = {element.path: i for i, element in enumerate(self.elements)}
        self._names = {id(m): name for name, m in model.named_modules()}
        self.batch_first = batch_first if batch_first is not None else all(
            m.batch_first for element in self.elements for m in element.module.modules()
            if isinstance(m, nn.MultiheadAttention))
        self.slots: Counter = Counter()  # (name in the layer, sublayer, slot)
        self.sublayers: List[SeenSublayer] = []
        self.entries: Dict[Site, Numbers] = {}
        self.graded: set = set()
        self._undo = contextlib.ExitStack()
        self._pass: Optional[Pass] = None
        self.width: Optional[int] = None
        self.layer_names: Dict[int, str] = {}
        self.seen: Dict[str, List[int]] = {"sums": [0, 0], "norms": [0, 0], "attentions": [0, 0]}
        self.left_out: List[Dict[str, str]] = []

    # -- Use --

    def __call__(self, step: int) -> Probe:
        self.step = step
        return self

    def __enter__(self) -> Probe:
        self._measures = self._entered % self.every == 0
        self._entered += 1
        self._entries_before = len(self.entries)
        if self._measures:
            self._attach()
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        self._undo.close()
        self._pass = None
        self.step += 1
        if self._measures and kind is None and len(self.entries) == self._entries_before:
            raise ProbeError(f"no layer of {self.layers_name or 'the model'} was called; name the "
                             "ones that are, e.g. layers='model.layers'")

    def run(self, *inputs: Any, loss: Optional[Callable[[Any], Tensor]] = None,
            **named_inputs: Any) -> Probe:
        """Measures model(*inputs), and with a loss of its output the gradients; keeps .grad."""
        gradients = [(p, p.grad) for p in self.model.parameters()]
        self.model.zero_grad(set_to_none=True)
        try:
            with self:
                output = self.model(*inputs, **named_inputs)
                if loss is not None:
                    loss(output).backward()
        finally:
            for parameter, gradient in gradients:
                parameter.grad = gradient
        return self

    def write(self, path: Any, digits: int = 9) -> None:
        """Writes all that was measured so far."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.text(digits))

    def text(self, digits: int = 9) -> str:
        lines: List[Any] = [{"addnorm_profile": 1, "model": self.header()}]
        for site, numbers in self.entries.items():
            line = {key: v for key, v in site._asdict().items() if v is not None}
            for key, value in numbers.items():
                if not isinstance(value, float):
                    line[key] = value
                elif math.isfinite(value):
                    line[key] = float(f"{value:.{digits}g}")
                else:
                    line["finite"] = False
            lines.append(line)
        return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)

    def header(self) -> Dict[str, Any]:
        """The profile's first line: what names and configuration declare, and the recipe."""
        return Declared(self).facts()

    def norm_slots(self) -> Dict[str, Any]:
        """(sublayer, slot) of each norm in a layer, by its name there, as most layers have it."""
        return Declared(self).norm_slots()

    def coverage(self) -> Dict[str, Any]:
        """How many sums, norms and attentions were measured of those that were seen, and what was not."""
        return {**self.seen, "left_out": self.left_out}

    def __str__(self) -> str:
        facts = [f"{key} {value}" for key, value in self.header().items()]
        norms = [f"{name}: {slot} {kind}" for name, (kind, slot) in self.norm_slots().items()]
        return (f"{len(self.elements)} layers in {self.layers_name or 'the model itself'}; "
                f"{', '.join(facts)}; {', '.join(norms) or 'no norms seen yet'}")

    # -- Hooks --

    def _attach(self) -> None:
        self._pass = Pass(self)
        for name, module in self.model.named_modules():
            self._hook(module, functools.partial(self._pass.enter, name), ahead=True)
            self._hook(module, functools.partial(self._pass.leave, name))
        self._undo.callback(self._pass.close)
        self._leave_fast_path()

    def _hook(self, module: nn.Module, function: Callable, ahead: bool = False) -> None:
        """Has function(module, inputs, named inputs, output) called, or without output ahead."""
        register = module.register_forward_pre_hook if ahead else module.register_forward_hook
        try:
            handle = register(function, with_kwargs=True)
        except TypeError:  # before PyTorch 2.0, where hooks do not see named arguments
            handle = register(lambda m, x, *y: function(m, x, {}, *y))
        self._undo.callback(handle.remove)

    def _leave_fast_path(self) -> None:
        """PyTorch's own encoder layer in evaluation is one fused call, in which nothing is seen."""
        switch = getattr(torch.backends, "mha", None)
        if hasattr(switch, "set_fastpath_enabled"):
            self._undo.callback(switch.set_fastpath_enabled, switch.get_fastpath_enabled())
            switch.set_fastpath_enabled(False)
        for layer in self.model.modules():
            if isinstance(layer, nn.TransformerEncoderLayer):
                key = "activation_relu_or_gelu"
                self._undo.callback(setattr, layer, key, getattr(layer, key))
                setattr(layer, key, 0)

    def on_exit(self, function: Callable[[], Any]) -> None:
        self._undo.callback(function)

    def element(self, name: str) -> Optional[int]:
        return element_of(name, self._element)

    def named(self) -> Dict[str, List[str]]:
        return self._named


class Pass:
    """One forward pass through the model, or, where layers run again in backward, through one of these."""

    def __init__(self, probe: Probe):
        self.probe = probe
        self._recorder = Recorder(probe.model, self._take)
        self._flow = Flow(self._on_sum)
        self._running: List[Tuple[str, Optional[int], str]] = []  # modules, and the layer around each
        self._is_active = self._is_done = False
        self._base_of: Dict[int, int] = {}  # the profile's number of each element's layer
        self._reset()

    def _reset(self) -> None:
        self._flow.x = None
        self._layers = 0  # that have begun
        self._has_input = True  # the layer that runs: its input was seen
        self._base = 0  # the profile's number of the next layer
        self._current: Optional[int] = None  # the element that ran last
        self._number_of: Dict[int, int] = {}  # the layer as which each element ran last
        self._element_of: Dict[int, int] = {}
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
            self._begin(name)
        self._running.append((name, self._flow.layer, self._flow.layer_module))
        if not self._is_active:
            return
        with self._recorder.paused():
            self._enter(name, (inputs, named))

    def _enter(self, name: str, inputs: Any) -> None:
        self._recorder.module = name
        if self._flow.layer is not None and not self._has_input:
            self._take_input(inputs, True)  # of a layer with named arguments, which were not seen
        element = self.probe.element(name) if self._flow.layer is None else None
        if element is None:
            return
        here = self.probe.elements[element]
        if here.is_called and name != here.path:
            return  # it is shared with another layer
        if here.is_called or element != self._current:
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

    def _set_layer(self, layer: Optional[int], path: str) -> None:
        self._flow.layer, self._flow.layer_module = layer, path

    def _begin(self, name: str) -> None:
        """Once, and in a layer that runs again in backward, as checkpoints do, for its gradients."""
        base = self._base_of.get(self.probe.element(name))
        is_again = base is not None and torch.is_grad_enabled() and \
            not any(site[:2] == (self.probe.step, base) and site.point == "branch"
                    for site in self.probe.graded)
        if self._is_done and not is_again:
            return
        self._set_layer(None, "")
        self._reset()
        self._base = base if self._is_done else 0
        self._recorder.clear()
        self._recorder.__enter__()
        self._is_active = True

    def _finish(self, output: Any) -> None:
        self._is_active = False
        self._recorder.__exit__(None, None, None)
        self._end_stack(output)
        if self._measurement is not None:
            if not self._is_done:
                self._measurement.head(output)
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
        self._flow.add_norm(self._recorder.value(read), self._recorder.value(gave), name, gamma, beta)

    # -- Layers --

    def _begin_layer(self, element: int, inputs: Any) -> None:
        self._recorder.flush()
        self._take_input(inputs, self._is_next(element))
        self._current = element
        self._number_of[element] = self._layers
        self._element_of[self._layers] = element
        self._begun[self._layers] = self._recorder.count + 1
        self._layers += 1

    def _take_input(self, inputs: Any, is_next: bool) -> None:
        x = self._stream(inputs, is_next)
        self._has_input = x is not None
        if x is None:
            return
        state = None if self._flow.x is None else self._flow.branches_of(x)
        if state is None or not self._flow.has_stream_shape(x):
            self._end_stack(None)
            self._start(x)

    def _is_next(self, element: int) -> bool:
        """Whether it stands in the same list as the layer before."""
        if self._current is None:
            return False
        paths = (self.probe.elements[i].path.rpartition(".")[0] for i in (element, self._current))
        return len(set(paths)) == 1

    def _stream(self, inputs: Any, is_next: bool) -> Optional[Value]:
        """Of a layer's arguments: what is known of the stream, or else the first of rows."""
        tensors = [t for t in tensors_in(inputs) if t.is_floating_point() and t.dim() > 1]
        values = [self._recorder.value(t) for t in tensors]
        if self._flow.x is not None and is_next:
            for value in values:
                if self._flow.branches_of(value) is not None and self._flow.has_stream_shape(value):
                    return value
        return values[0] if values else None

    def _start(self, x: Value) -> None:
        self._flow.start(x)
        self._arranger = Arranger(self._flow, self.probe.named(), self.probe.slots, self.norm_name)
        self._measurement = Measurement(self.probe, self._flow, self._measurement)
        self._last = None

    def _take(self, op: Op) -> None:
        self._flow.take(op)

    def _on_sum(self, s: Sum) -> None:
        layers = [branch.layer for branch in s.branches if branch.layer is not None]
        if not layers or self._measurement is None:
            return
        self._measurement.watch(s.total)
        self._measurement.watch(s.branch)
        layer = max(layers)
        self._sums.setdefault(layer, []).append(s)
        for earlier in sorted(number for number in self._sums if number < layer):
            self._measure(earlier)
        if self._begun.get(layer - 1):
            self._flow.forget(self._begun[layer - 1])
            self._recorder.forget(self._begun[layer - 1])

    def _end_stack(self, output: Any) -> None:
        """The layers that have not been measured, and what comes behind them."""
        if self._flow.x is None or self._measurement is None:
            return
        for tensor in tensors_in(output):
            if self._recorder.knows(tensor):
                self._flow.end(self._recorder.value(tensor))
        for layer in sorted(self._sums):
            self._measure(layer)
        if self._last is not None:
            norm = next((n for n in self._flow.norms if n.layer is None
                         and n.read.root is self._last.leaves.root), None)
            if norm is not None:
                self._measurement.final_norm(norm)

    def _measure(self, layer: int) -> None:
        subs = self._arranger.arrange(self._sums.pop(layer))
        taken: set = set()
        if subs and not self._is_done:
            self._base_of.setdefault(self._element_of[layer], self._base)
        for sub in subs:
            if sub.kind in taken or "feed_forward" in taken and len(subs) > 2:
                self._base, taken = self._base + 1, set()
            taken.add(sub.kind)
            self.probe.sublayers.append(SeenSublayer(
                sub.kind, self._base, sub.branch.layer_module,
                [(slot, self.norm_name(norm, sub.branch.layer_module)) for slot, norm in sub.norms()],
                sub.has_own_slots))
            self._measurement.sublayer(sub, self._base, sub is subs[-1], subs[0])
            self._last = sub
        if subs:
            self._base += 1

    def norm_name(self, norm: Norm, layer: str) -> str:
        """Within its layer: its module, or that of its γ."""
        name = norm.gamma.rpartition(".")[0] if norm.gamma else norm.module
        prefix = layer + "." if layer else ""
        return name[len(prefix):] if name.startswith(prefix) else name
