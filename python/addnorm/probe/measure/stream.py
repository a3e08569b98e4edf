"""Measures the values of a stream and of its sublayers, in the order of the forward pass."""

from __future__ import annotations

import functools
from typing import Any, Callable, Optional

import torch
from torch import nn

from ..._structure import dtype_name, tensors_in
from ..find.norm_names import is_norm
from ..find.parts import Norm
from ..find.paths import factors_between, norm_as_read
from ..find.streams import Stream
from ..find.sublayers import Sublayer
from ..fit.batch import Numbers
from ..fit.values import activation_numbers, cosine_numbers, moment_numbers, read_activation, read_moments
from ..record.graph import Graph, Value
from .declared import Declared
from .gradients import Gradients
from .lanes import lanes_measurement
from .measured import Measured
from .norms import NormMeasurement
from .profile import Site
from .rows import Rows, RowsOf
from .scores import norms_of_heads, record_scores
from .sum_gradients import SumGradients
from .sums import SumMeasurement
from .weights import WeightMeasurement


class StreamMeasurement:
    """The measurement of one stream."""

    def __init__(self, measured: Measured, declared: Declared, stream: Stream, graph: Graph,
                 rows_of: Callable[[torch.Size], Rows]) -> None:
        """rows_of: returns the measured tokens for the shape of a stream."""
        flow = stream.flow
        self._measured, self._declared, self._stream = measured, declared, stream
        self._flow, self._values = flow, flow.values
        self._modules, self._parameters = declared.modules, graph.parameters
        self._rows_of, self._rows = rows_of, rows_of(flow.x.shape)
        self._gradients = Gradients(measured, self._parameters)
        self._sum_gradients = SumGradients(measured, flow, self._rows, self._modules, self._parameters, self._gradients)
        self._sums = SumMeasurement(measured, flow, self._rows)
        self._weights = WeightMeasurement(measured, self._gradients, graph)
        self._previous: Optional[Sublayer] = None

    def measure(self, output: Any) -> None:
        """Measures the stream from its embedding to the logits. output: the model's output."""
        embedding = self._stream.embedding
        if embedding is not None:
            self._record(self._site(None, "embedding", "output"), embedding, rows_of=self._rows_of(embedding.shape).of)
        if embedding is not None or self._flow.lanes:
            self._measured.width, self._measured.lanes = self._flow.x.shape[-1], self._flow.lanes
        self._measured.run_fits()
        for subs in self._stream.layers:
            for sub in subs:
                self._measured.begin_layer(sub.module)
                self._measured.add_sublayer(sub)
                self._measured.guarded(self._measure_sublayer, sub, sub is subs[-1], subs[0])
            self._measured.run_fits()
        self._measure_end(output)

    def _site(self, layer: Optional[int], sublayer: str, point: str, **more: Any) -> Site:
        return Site(self._measured.step, layer, sublayer, point, **more)

    def _record(self, site: Site, value: Value, more: Optional[Numbers] = None,
                rows_of: Optional[RowsOf] = None, then: Callable[[Numbers], None] = lambda entry: None) -> None:
        if site not in self._measured.entries:
            entry = self._measured.entries[site] = dict(more or {})
            sampled = (rows_of or self._rows.of)(value.recorded)
            shape, stride = sampled.rows.shape, sampled.stride

            def read(numbers: Numbers) -> None:
                entry.update(read_activation(numbers, shape, stride))
                then(entry)

            self._measured.fit(activation_numbers, [sampled.rows], read, sampled.are_tokens)
        self._gradients.grade(site, value)

    def _measure_sublayer(self, sub: Sublayer, is_last: bool, first: Sublayer) -> None:
        """Measures one sublayer. first: the first one of its layer's module. is_last: whether it is the last one."""
        def at(point: str) -> Site:
            return self._site(sub.layer, sub.kind, point)

        previous, self._previous = self._previous, sub
        consumed = None if sub.before is None else norm_as_read(sub.before.output, sub.reads, self._values)
        self._record(at("x"), sub.x)
        self._sums.fit_passage(self._measured.entries[at("x")], sub, previous)
        if consumed is not None:
            self._record_norm(at("before"), "before", sub.before, consumed, self._past_norm(sub))
            self._fit_modulation(self._measured.entries[at("before")], sub)
        self._record(at("branch"), sub.output, then=functools.partial(self._note_gain_at_zero, layer_module=sub.module))
        if sub.inside is not None:
            self._record_norm(at("inside"), "inside", sub.inside, sub.inside.output)
        if sub.sum.lanes is not None:
            self._record_lanes(at("sum"), sub)
        else:
            self._record_sum(at("sum"), sub, consumed, None if previous is None else previous.x)
        if sub.after is not None:
            self._record_norm(at("after"), "after", sub.after, sub.after.output)
        if is_last and sub.sum.lanes is None:
            entry = self._measured.entries[at("sum" if sub.after is None else "after")]
            ends = [self._rows.values(first.x), self._rows.values(sub.next_x)]
            self._measured.fit(cosine_numbers, ends, entry.update)
        if sub.kind == "attention":
            record_scores(self._measured, at("scores"), sub)
            for which, norm, heads in norms_of_heads(sub):
                self._record_norm(at("output")._replace(weight=which), None, norm, norm.output,
                                  rows_of=self._rows.of_heads, heads=heads)
        self._weights.record_weights(at("weight"), sub)

    def _note_gain_at_zero(self, entry: Numbers, layer_module: str) -> None:
        """Notes for a branch of 0 whether a norm of its layer has a γ of 0, a usual start of BatchNorm."""
        layer = self._modules.get(layer_module)
        if entry["rms"] != 0 or layer is None:
            return
        norms = [m for name, m in layer.named_modules()
                 if is_norm(name, m) or isinstance(m, nn.modules.batchnorm._NormBase)]
        gains = [p for norm in norms for name, p in norm.named_parameters(recurse=False) if name != "bias"]
        if any(gain.requires_grad and not gain.any() for gain in gains):
            entry["gain_at_zero"] = 1

    def _fit_modulation(self, entry: Numbers, sub: Sublayer) -> None:
        """Measures computed factors between a norm's output and the sublayer's input, such as those of adaLN."""
        factors = factors_between(sub.reads, sub.before.output, self._values)
        if factors:
            self._measured.fit(moment_numbers, [factors[0].recorded.flatten()], lambda numbers: entry.update(
                (f"modulation_{key}", value) for key, value in read_moments(numbers).items() if key in ("mean", "std")))

    def _record_lanes(self, site: Site, sub: Sublayer) -> None:
        """Measures the sum of each lane, and the gradients of the lanes."""
        measurement = lanes_measurement(sub, self._rows)
        if site not in self._measured.entries:
            self._measured.coverage.count("sums", True)
            self._measured.entries[site._replace(point="x")].update(measurement.of_input())
            for i, numbers in enumerate(measurement.of_lanes()):
                self._measured.entries[site._replace(lane=i or None)] = numbers
        measurement.grade(self._gradients, site, sub)

    def _record_sum(self, site: Site, sub: Sublayer, consumed: Optional[Value], earlier: Optional[Value]) -> None:
        self._record(site, sub.total)
        if sub.sum.is_mixed:
            self._measured.coverage.miss_sum(
                sub.module, "the stream goes through a gate or a projection, or only a part of it is summed: its part "
                "in the sum is not one number")
        else:
            self._sums.fit_sum(self._measured.entries[site], sub, consumed, earlier)
        self._sum_gradients.grade_sum(site, sub)

    def _past_norm(self, sub: Sublayer) -> Numbers:
        """Counts the linear maps of queries, keys and values that read the norm's input instead of its output."""
        if sub.kind != "attention" or sub.before is None:
            return {}
        past = [linear for linear in sub.branch.linears if linear.input.root is sub.before.input.root
                and linear.op.order < sub.branch.mixed_at and "gate" not in linear.weight]
        return {"past_norm": len(past)} if past else {}

    def _record_norm(self, site: Site, slot: Optional[str], norm: Norm, output: Value, more: Optional[Numbers] = None,
                     rows_of: Optional[RowsOf] = None, heads: int = 1) -> None:
        """Measures a norm's output, kind and parameters. heads: the number of heads, for a norm of queries or keys."""
        gamma, beta = (self._parameters.get(name or "") for name in (norm.gamma, norm.beta))
        is_new = site not in self._measured.entries
        own = self._declared.own_norm(self._modules.get(norm.module))
        own["dtype"] = dtype_name(output.tensor)
        self._record(site, output, {**own, **(more or {})}, rows_of)
        if is_new:
            NormMeasurement(self._measured, self._declared, site, self._modules.get(norm.module), norm.is_unit).request(
                norm, output, (gamma, beta), rows_of or self._rows.of, heads)
        for point, name in ("gamma", norm.gamma), ("beta", norm.beta):
            if name in self._parameters and self._weights.is_first(self._parameters[name], site):
                self._weights.record_parameter(site._replace(point=point, norm=slot), name)

    def _measure_end(self, output: Any) -> None:
        """Measures the final norm and the logits."""
        stream = self._stream
        for where in self._flow.lost:
            self._measured.coverage.miss_sum(where, "the lanes behind a sublayer were not understood")
        norm = stream.final_norm
        if norm is not None:
            layer = None if stream.is_last else stream.last.layer
            self._record_norm(self._site(layer, "final_norm", "output"), "final", norm, norm.output)
            self._measured.run_fits()
        if stream.is_last:
            self._record_head(output, stream.reads_stream)

    def _record_head(self, output: Any, reads_stream: bool) -> None:
        """Measures the logits among a model's outputs. reads_stream: whether a head reads the stream without a norm."""
        vocabulary = self._declared.config("vocab_size")
        sizes = {vocabulary} if vocabulary else {
            m.num_embeddings for m in self._modules.values() if isinstance(m, nn.Embedding)}
        values = list(output.values()) if isinstance(output, dict) else \
            output if isinstance(output, (list, tuple)) else [output]
        site = self._site(None, "head", "output")
        for value in values:
            tensor = next((t for t in tensors_in(value) if t.is_floating_point() and t.dim() > 1), None)
            if tensor is None or tensor.shape[-1] not in sizes - {self._measured.width}:
                continue
            self._record(site, Value(tensor), {"reads_stream": float(reads_stream)},
                         lambda numbers: self._rows.of(numbers, tensor.shape))
            self._measured.run_fits()
            return
