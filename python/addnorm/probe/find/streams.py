"""Finds the streams of a forward pass, one for each stack of layers, with the sublayers and the norms on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Set

import torch

from ..record.graph import Enter, Event, Graph, Leave, Value
from .flow import Flow
from .lane_flow import LaneFlow, find_lanes, reads_otherwise
from .layers import Element, LayerRun, RunFinder
from .parts import Norm, Sum
from .paths import is_made_of, is_sum_with
from .site_flow import SiteFlow, find_site
from .sublayers import Arranger, Sublayer
from .values import features_last


@dataclass
class Stream:
    """A residual stream, and the sublayers and norms of its stack."""
    flow: Flow
    begin: int  # the index of its first event
    others: List[Value]  # the other arguments of the first layer
    embedding: Optional[Value]  # the model's embedding, if this is its first stream
    is_last: bool = False  # whether it ends with the model's output
    layers: List[List[Sublayer]] = field(default_factory=list)
    final_norm: Optional[Norm] = None
    reads_stream: bool = False  # whether a head reads the stream without a norm

    @property
    def last(self) -> Optional[Sublayer]:
        return next((subs[-1] for subs in reversed(self.layers) if subs), None)


@dataclass
class Found:
    """The findings in one forward pass."""
    streams: List[Stream] = field(default_factory=list)
    input_shape: Optional[torch.Size] = None  # the shape of the first layer's input stream
    missed: Dict[str, str] = field(default_factory=dict)  # parts that were not recognized: {path: reason}
    others: Dict[str, torch.Size] = field(default_factory=dict)  # streams of other shapes, by their layer


def find_streams(graph: Graph, elements: List[Element], named: Dict[str, Sequence[str]]) -> Found:
    """Finds the streams of a forward pass. named: names of weights given by the user, by the kind of sublayer."""
    return StreamFinder(graph, elements, named).find()


class StreamFinder:
    """Finds the streams in the events of one pass."""

    def __init__(self, graph: Graph, elements: List[Element], named: Dict[str, Sequence[str]]) -> None:
        self._graph, self._modules, self._named = graph, [element.module for element in elements], named
        self._layers = RunFinder(elements).find(graph.events)
        self._found = Found()
        self._stream: Optional[Stream] = None
        self._has_chosen_flow = False
        self._last_outputs: List[Value] = []  # the outputs of the last layer
        self._last_class: Optional[type] = None  # the class of that layer
        self._stream_classes: Set[type] = set()  # classes of layers that return the stream
        self._number = 0  # the number of the next layer in the profile

    def find(self) -> Found:
        begins = {run.begin for run in self._layers.runs}
        takes = {run.inputs_at: run for run in self._layers.runs if run.inputs}
        for index, event in enumerate(self._graph.events):
            if index in begins:
                self._try(self._choose_flow, index)
            if index in takes:
                self._try(self._take_inputs, takes[index], index)
            self._try(self._take, event, index)
        self._try(self._end_stream, len(self._graph.events), self._graph.outputs, True)
        return self._found

    def _try(self, step: Callable, *arguments: Any) -> None:
        """Runs a step of the search. An error ends the stream, but not the model's forward pass."""
        try:
            step(*arguments)
        except Exception as error:
            self._miss(f"{type(error).__name__}: {error}")

    def _miss(self, why: str) -> None:
        """Leaves out the rest of the stack. why: the reason."""
        place = self._stream.flow.values.place if self._stream is not None else None
        self._found.missed.setdefault(place.module if place is not None else "", why)
        self._stream = None

    # -- Events --

    def _take(self, event: Event, index: int) -> None:
        if self._stream is None or isinstance(event, Enter):
            return
        self._listen(self._stream.flow, index, index + 1)
        place = self._layers.places[index]
        if isinstance(event, Leave) and place.layer is not None and event.name == place.module:
            self._leave_layer(event)

    def _listen(self, flow: Flow, begin: int, end: int) -> None:
        for event, place in zip(self._graph.events[begin:end], self._layers.places[begin:end]):
            if not isinstance(event, Enter):
                flow.take(event, place)

    def _leave_layer(self, event: Leave) -> None:
        flow, taken = self._stream.flow, {value.root for value in event.inputs}
        for value in event.outputs:
            if not flow.values.has_stream_shape(value) and is_sum_with(value, taken):
                self._found.others.setdefault(event.name, value.shape)
        self._last_outputs, self._last_class = event.outputs, type(event.module)
        if any(map(flow.values.has_stream, event.outputs)):
            self._stream_classes.add(type(event.module))

    # -- Streams --

    def _take_inputs(self, run: LayerRun, index: int) -> None:
        """Continues the stream of the previous layer, or begins a new one with a layer's inputs."""
        flow = None if self._stream is None else self._stream.flow
        is_next = run.is_next or index > run.begin
        if flow is not None:
            flow.enter_layer(run.inputs if is_next else run.inputs[:1])
        known = [v for v in run.inputs if flow.carries_stream(v)] if flow is not None and is_next else []
        x = known[0] if known else run.inputs[0]
        if flow is None or not flow.carries_stream(x) or flow.values.is_projected(x):
            self._end_stream(index, [], False)
            self._begin_stream(x, [value for value in run.inputs if value is not x], index)

    def _begin_stream(self, x: Value, others: List[Value], index: int) -> None:
        self._found.input_shape = self._found.input_shape or x.shape
        flow = Flow(features_last(x, self._modules))
        flow.values.place = self._layers.places[index]
        self._stream = Stream(flow, index, others, None if self._found.streams else flow.x)
        self._has_chosen_flow = False
        self._last_outputs, self._stream_classes = [], set()

    def _choose_flow(self, index: int) -> None:
        """Chooses the flow of a stream after the first layer of its stack. If that layer has no sums, or if its
        sublayers read rows of several lanes, this tries a flow of lanes and a flow for each other argument."""
        if self._stream is None or self._has_chosen_flow:
            return
        self._has_chosen_flow = True
        stream = self._stream
        site = find_site(self._graph.events, stream.begin, index)
        if site is not None:
            stream.flow = SiteFlow(self._graph.events, site)
            self._listen(stream.flow, stream.begin, index)
            return
        has_sums = has_stream_sums(stream.flow.sums.found)
        found = find_lanes(stream.flow, has_sums)
        flows: List[Flow] = [] if found is None else [LaneFlow(*found)]
        for flow in (*flows, *(Flow(other) for other in (() if has_sums else stream.others))):
            self._listen(flow, stream.begin, index)
            if has_stream_sums(flow.sums.found):
                stream.flow = flow
                if stream.embedding is not None and not flow.lanes:
                    stream.embedding = flow.x
                return
        if not has_sums and (found is not None or reads_otherwise(stream.flow)):
            self._miss("its sublayers read parts of what the layer takes, or mixes of several streams, "
                       "and no sum of these was understood")

    def _end_stream(self, index: int, outputs: List[Value], is_last: bool) -> None:
        self._choose_flow(index)
        stream = self._stream
        if stream is None:
            return
        stream.is_last = is_last
        if self._last_class in self._stream_classes and not stream.flow.lanes:
            stream.flow.end_layer(self._last_outputs)
        for output in outputs:
            stream.flow.end_output(output)
        self._found.streams.append(stream)
        self._arrange(stream)
        self._find_end(stream)
        self._stream = None

    # -- Sublayers --

    def _arrange(self, stream: Stream) -> None:
        by_layer: Dict[int, List[Sum]] = {}
        for s in stream.flow.sums.found:
            if s.layer is not None:
                by_layer.setdefault(s.layer, []).append(s)
        arranger = Arranger(stream.flow, self._named)
        for layer in sorted(by_layer):
            try:
                stream.layers.append(self._numbered(arranger.arrange(by_layer[layer])))
            except Exception as error:
                where = next((branch.place.module for s in by_layer[layer] for branch in s.branches), "")
                self._found.missed.setdefault(where, f"{type(error).__name__}: {error}")

    def _numbered(self, subs: List[Sublayer]) -> List[Sublayer]:
        """Sets the layer numbers of sublayers. A module may hold the sublayers of several layers."""
        taken: Set[str] = set()
        for index, sub in enumerate(subs):
            if sub.kind in taken or "feed_forward" in taken and len(subs) > 2:
                self._number, taken = self._number + 1, set()
            taken.add(sub.kind)
            sub.layer, sub.index = self._number, index
        self._number += bool(subs)
        return subs

    def _find_end(self, stream: Stream) -> None:
        """Finds the norm after the last layer, or a head that reads the stream without a norm."""
        last, flow = stream.last, stream.flow
        if last is None:
            return
        stream.final_norm = next((n for n in flow.norms.found if n.layer is None and (
            flow.is_end(n.input, last.next_x) or is_made_of(n.input, last.next_x, flow.values))), None)
        # A small map may compute a halting probability. A mean over layers or tokens may be one of norm outputs.
        stream.reads_stream = stream.final_norm is None and any(
            linear.op.order > last.total.order and linear.output.shape[-1] > linear.input.shape[-1] // 2
            and is_made_of(linear.input, last.next_x, flow.values) for linear in flow.linears)


def has_stream_sums(sums: Iterable[Sum]) -> bool:
    return any(s.stream is not None for s in sums)
