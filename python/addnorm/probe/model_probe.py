"""The probe: listens while a model runs, and keeps what was measured."""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple, Union

import torch
from torch import Tensor, nn

from .._structure import parent_of
from .._undo import Exit, Undo, end_contexts, run_undone
from .find.layers import ProbeError, find_layers, words_of_hidden
from .find.streams import Stream, find_streams
from .find.sublayers import Sublayer, name_in_layer
from .fit.batch import Compute, Fits, Numbers
from .measure.declared import Declared
from .measure.profile import SeenSublayer, Site, profile_text
from .measure.sublayers import Measurement
from .record.graph import Graph, GraphEdge
from .record.recording import Recording

Names = Union[str, Sequence[str]]

_OPAQUE = "it takes no hooks, as no module of torch.jit.script does"


class Probe:
    """What probe() gives. `with p:` measures; `with p(step):` also says which step it is."""

    def __init__(self, model: nn.Module, layers: Union[str, Sequence[nn.Module], None],
                 attention: Names, feed_forward: Names, every: int, recipe: Dict[str, Any],
                 batch_first: Optional[bool], tokens: int):
        self.model, self.every, self.recipe, self.tokens = model, every, recipe, tokens
        self.step, self._entered = 0, 0
        self.keeps_graph = True  # whether the model is called with gradients
        self.named = {kind: [names] if isinstance(names, str) else list(names) for kind, names in
                       (("attention", attention), ("feed_forward", feed_forward))}
        if isinstance(model, torch.jit.ScriptModule):
            raise ProbeError(f"the model is a {type(model).__name__} of torch.jit, whose modules call no hooks; expected "
                             "the nn.Module that it was made from")
        self.layers_name, self.elements = find_layers(model, layers)
        self.batch_first = batch_first if batch_first is not None else all(
            m.batch_first for element in self.elements for m in element.module.modules()
            if isinstance(m, nn.MultiheadAttention))
        self.slots: Counter = Counter()  # (name in the layer, sublayer, slot)
        self.sublayers: List[SeenSublayer] = []
        self.entries: Dict[Site, Numbers] = {}
        self.graded: set = set()
        self.owners: Dict[Any, Optional[int]] = {}  # the layer of each parameter, by step
        self.declared = Declared(self)
        self._fits = Fits(self._miss_fit)
        self._undo = Undo()
        self._opaque: Set[str] = set()  # names of modules that take no hooks
        self.width: Optional[int] = None
        self.lanes = 0  # of the stream, where it has several
        self.input_shape: Optional[torch.Size] = None  # of what the first layer reads
        self.layer_names: Dict[int, str] = {}
        self.seen: Dict[str, List[int]] = {"sums": [0, 0], "norms": [0, 0], "attentions": [0, 0]}
        self.left_out: List[Dict[str, str]] = []
        self._without_graph: Dict[str, None] = {}  # layers whose gradients cannot be judged, in their order
        self.others: Dict[str, torch.Size] = {}  # streams of other shapes, by where the layers stand

    # -- Use --

    def __call__(self, step: int) -> Probe:
        self.step = step
        return self

    def __enter__(self) -> Probe:
        self._measures = self._entered % self.every == 0
        self._entered += 1
        self._sublayers_before = len(self.sublayers)
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
        self.step += 1
        if kind is None:
            self._try(self._fits.read)
        self._fits.clear()  # also what an error has left
        if self._measures and kind is None and len(self.sublayers) == self._sublayers_before:
            self._complain()

    __exit__ = Exit(_leave)

    def _complain(self) -> None:
        """Of a pass in which nothing was measured."""
        name = self.layers_name or "the model"
        if self.left_out:
            raise ProbeError("no layer could be measured; {where}: {why}".format(**self.left_out[-1]))
        if self.input_shape is None:
            raise ProbeError(f"no layer of {name} was called; name the ones that are, e.g. "
                             "layers='model.layers', and call layer(x), not layer.forward(x), past all hooks")
        raise ProbeError(f"the layers of {name} were called, but no sublayer was recognized: the first one "
                         f"reads [{', '.join(map(str, self.input_shape))}]; expected [batch, length, "
                         "d_model], linear maps of d_model, and a sum with what they read"
                         f"{words_of_hidden(self.model)}"
                         f"{f'; {min(self._opaque)}: {_OPAQUE}' if self._opaque else ''}")

    def run(self, *inputs: Any, loss: Optional[Callable[[Any], Tensor]] = None,
            **named_inputs: Any) -> Probe:
        """Measures model(*inputs), and with a loss of its output the gradients; keeps .grad."""
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
        """Writes all that was measured so far."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.text(digits))

    def text(self, digits: int = 9) -> str:
        return profile_text(self.header(), self.entries, digits)

    def header(self) -> Dict[str, Any]:
        """The profile's first line: what names and configuration declare, and the recipe."""
        return self.declared.facts()

    def norm_slots(self) -> Dict[str, Any]:
        """(sublayer, slot) of each norm in a layer, by its name there, as most layers have it."""
        return self.declared.norm_slots()

    def coverage(self) -> Dict[str, Any]:
        """How many sums, norms and attentions were measured of those that were seen, and what was not."""
        others = [{"where": where, "why": "the layers also take and return a stream of ["
                   f"{', '.join(map(str, shape))}], whose sums and norms were not measured"}
                  for where, shape in self.others.items() if not self.lanes]
        return {**self.seen, "left_out": self.left_out + others + self._words_of_graph()}

    def _words_of_graph(self) -> List[Dict[str, str]]:
        if not self._without_graph:
            return []
        first, *others = self._without_graph
        where = f"{first} and {len(others)} more" if others else first or "the model"
        return [{"where": where, "why": "the forward ran without a graph, as in a reentrant checkpoint or under "
                 "torch.no_grad, so the gradients in it were not judged"}]

    def __str__(self) -> str:
        facts = [f"{key} {value}" for key, value in self.header().items()]
        norms = [f"{name}: {slot} {kind}" for name, (kind, slot) in self.norm_slots().items()]
        return (f"{len(self.elements)} layers in {self.layers_name or 'the model itself'}; "
                f"{', '.join(facts)}; {', '.join(norms) or 'no norms seen yet'}")

    # -- Hooks --

    def _attach(self) -> None:
        recording = Recording(self.model, self._measure)
        self._undo.callback(recording.close)
        for name, module in self.model.named_modules():
            enter, leave = _hooks(recording.enter, name), _hooks(recording.leave, name)
            if not self._undo.hook_calls(module, enter, leave):
                self._opaque.add(name)
        missed = [{"where": name, "why": _OPAQUE} for name in (element.path for element in self.elements)
                  if name in self._opaque]
        self.left_out += [layer for layer in missed if layer not in self.left_out]
        self._leave_fast_path()

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

    # -- One forward pass --

    def _measure(self, graph: Graph) -> bool:
        """Measures a forward pass. Returns whether there was a stream in it."""
        self.keeps_graph = graph.keeps_graph
        found = find_streams(graph, self.elements, self.named)
        self.input_shape = self.input_shape or found.input_shape
        self.left_out += [{"where": where or "the model", "why": why} for where, why in found.missed.items()]
        for layer, shape in found.others.items():
            self.others.setdefault(parent_of(layer) or layer, shape)
        measurement = None
        for stream in found.streams:
            measurement = Measurement(self, stream, graph)
            self._try(self._measure_stream, measurement, stream)
        if measurement is not None:
            self._try(measurement.head, graph.output, found.streams[-1].reads_stream)
        return measurement is not None

    def _measure_stream(self, measurement: Measurement, stream: Stream) -> None:
        for subs in stream.layers:
            self.measures(subs[0].module if subs else "")
            for sub in subs:
                self.sublayers.append(self._seen(sub))
                self._try(measurement.sublayer, sub, sub is subs[-1], subs[0])
            self.run_fits()
        for where in stream.flow.lost:
            self.miss_sum(where, "the lanes behind a sublayer were not understood")
        if stream.final_norm is not None:
            measurement.final_norm(stream.final_norm, None if stream.is_last else stream.last.layer)

    def _seen(self, sub: Sublayer) -> SeenSublayer:
        norms = [(slot, name_in_layer(norm, sub.module)) for slot, norm in sub.norms()]
        self.slots.update((name, sub.kind, slot) for slot, name in norms)
        return SeenSublayer(sub.kind, sub.layer, sub.module, sub.place, norms, sub.has_own_slots)

    def miss_sum(self, where: str, why: str) -> None:
        self.seen["sums"][1] += 1
        self.left_out.append({"where": where, "why": why})

    def fit(self, compute: Compute, tensors: Sequence[Optional[Tensor]], then: Callable[[Numbers], None],
            *options: Any) -> None:
        """Has `then` called with what compute(*tensors, *options) gives, when the numbers of the step are read."""
        self._fits.add(compute, tensors, functools.partial(self._try, then), *options)

    def finally_do(self, function: Callable[[], None]) -> None:
        """Has a function called when the numbers that were asked for so far are read."""
        self._fits.finally_do(functools.partial(self._try, function))

    def _try(self, function: Callable[..., None], *arguments: Any) -> None:
        try:
            function(*arguments)
        except Exception as error:  # what is watched must not fail by it
            self._miss_fit(self._fits.where, error)

    def measures(self, where: str) -> None:
        """Says to which layer the fits belong that are asked for next."""
        self._fits.where = where

    def _miss_fit(self, where: str, error: Exception) -> None:
        why = f"{type(error).__name__}: {error}"
        if not any(missed["why"] == why for missed in self.left_out):
            self.left_out.append({"where": where or "the model", "why": why})

    def run_fits(self, least: int = 0) -> None:
        """Runs the fits that were asked for, if their tensors have `least` values together. This must happen before
        something else is written over them."""
        self._try(functools.partial(self._fits.run, least))

    def count(self, what: str, is_measured: bool) -> None:
        self.seen[what][0] += is_measured
        self.seen[what][1] += 1

    def note_without_graph(self, layer: str) -> None:
        if self.keeps_graph:
            self._without_graph[layer] = None

    def hook_gradient(self, tensor: Tensor, function: Callable[[Tensor], Any]) -> None:
        self._undo.hook_gradient(tensor, function)

    def hook_edge(self, edge: GraphEdge, function: Callable[[Optional[Tensor]], Any]) -> None:
        self._undo.hook_edge(edge, function)


def _hooks(function: Callable, name: str) -> Tuple[Callable, Callable]:
    """The hook that calls function(name, module, inputs, named inputs[, output]), for PyTorch before 2.0, where no hook
    sees named arguments, and the same since then. They are functions, which a copy of the module shares."""
    return (lambda module, inputs, *output: function(name, module, inputs, {}, *output),
            lambda module, inputs, named, *output: function(name, module, inputs, named, *output))
