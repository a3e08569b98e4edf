"""Measures the values, sums, norms, attentions and weights of a stream's sublayers."""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, List, Optional

import torch
from torch import Tensor, nn

from ..._sharded import is_sharded, local_part
from ..._structure import dtype_name
from ..find.attention import fused_options, scores_of
from ..find.names import first_tensor, is_norm, norm_of_attention, stem_of, weight_named
from ..find.parts import Linear, Norm
from ..find.paths import factors_between, is_made_of, learned_stream, norm_as_read
from ..find.streams import Stream
from ..find.sublayers import Sublayer
from ..fit.attention import fused_scores, read_scores, score_numbers, some_queries
from ..fit.batch import Numbers
from ..fit.sums import InnerProducts, inner_products
from ..fit.values import (
    activation_numbers,
    cosine_numbers,
    moment_numbers,
    read_activation,
    read_moments,
    read_without_min,
)
from ..record.graph import Graph, Value
from .declared import Declared
from .gradients import Gradients
from .lanes import lanes_measurement
from .measured import Measured
from .norms import NormMeasurement
from .profile import Site
from .rows import Rows, RowsOf

MOST_UNEXPLAINED = 0.02  # the largest relative residual in the fit of a sublayer's input


class Measurement:
    """The measurement of one stream."""

    def __init__(self, measured: Measured, declared: Declared, stream: Stream, graph: Graph,
                 rows_of: Callable[[torch.Size], Rows]) -> None:
        """rows_of: returns the measured tokens for the shape of a stream."""
        flow = stream.flow
        self._measured, self._declared, self._flow, self._values = measured, declared, flow, flow.values
        self._parameters, self._leaves = graph.parameters, graph.leaves
        self._modules = declared.modules
        self._fit = measured.fit
        shape = flow.x.tensor.shape
        self._rows = rows_of(shape)
        self._gradients = Gradients(measured, flow, self._rows, self._modules, self._parameters)
        self._previous: Optional[Sublayer] = None
        if stream.embedding is not None:
            self._record(self._site(None, "embedding", "output"), stream.embedding,
                         rows_of=rows_of(stream.embedding.shape).of)
        if stream.embedding is not None or flow.lanes:
            self._measured.width, self._measured.lanes = shape[-1], flow.lanes
        self._measured.run_fits()

    def _site(self, layer: Optional[int], sublayer: str, point: str, **more: Any) -> Site:
        return Site(self._measured.step, layer, sublayer, point, **more)

    def _record(self, site: Site, value: Value, more: Optional[Numbers] = None,
                rows_of: Optional[RowsOf] = None, then: Callable[[Numbers], None] = lambda entry: None) -> None:
        if site not in self._measured.entries:
            entry = self._measured.entries[site] = dict(more or {})
            sampled = (rows_of or self._rows.of)(value.numbers)
            shape, stride = sampled.rows.shape, sampled.stride

            def read(numbers: Numbers) -> None:
                entry.update(read_activation(numbers, shape, stride))
                then(entry)

            self._fit(activation_numbers, [sampled.rows], read, sampled.are_tokens)
        self._gradients.grade(site, value)

    def sublayer(self, sub: Sublayer, is_last: bool, first: Sublayer) -> None:
        """Measures one sublayer.

        is_last: whether it is the last one of its layer's module. first: the first one of that module.
        """
        def at(point: str) -> Site:
            return self._site(sub.layer, sub.kind, point)

        previous, self._previous = self._previous, sub
        consumed = None if sub.before is None else norm_as_read(sub.before.output, sub.reads, self._values)
        self._record(at("x"), sub.x)
        self._fit_passage(self._measured.entries[at("x")], sub, previous)
        if consumed is not None:
            self._record_norm(at("before"), "before", sub.before, consumed, self._past_norm(sub))
            self._fit_modulation(self._measured.entries[at("before")], sub)
        self._record(at("branch"), sub.output, then=functools.partial(
            self._note_gain_at_zero, layer_module=sub.module))
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
            self._fit(cosine_numbers, [self._rows.values(first.x), self._rows.values(sub.next_x)], entry.update)
        if sub.kind == "attention":
            self._record_scores(at("scores"), sub)
            self._record_norms_of_heads(at("output"), sub)
        is_bottleneck = sub.kind == "feed_forward" and self._is_named(sub.branch.linears[-1], "up")
        for i, linear in enumerate(sub.branch.linears):
            by_order = {len(sub.branch.linears) - 1: "output"} if sub.kind == "attention" else \
                dict(zip(range(len(sub.branch.linears))[-2:], ("up", "down")))
            self._record_weight(at("weight"), linear, by_order.get(i), is_bottleneck)

    def _note_gain_at_zero(self, entry: Numbers, layer_module: str) -> None:
        """Notes for a branch of 0 whether a norm of its layer has a γ of 0. The last BatchNorm of a branch is often
        initialized like this."""
        layer = self._modules.get(layer_module)
        if entry["rms"] != 0 or layer is None:
            return
        norms = [m for name, m in layer.named_modules()
                 if is_norm(name, m) or isinstance(m, nn.modules.batchnorm._NormBase)]
        gains = [p for norm in norms for name, p in norm.named_parameters(recurse=False) if name != "bias"]
        if any(gain.requires_grad and not gain.any() for gain in gains):
            entry["gain_at_zero"] = 1

    def _fit_passage(self, entry: Numbers, sub: Sublayer, previous: Optional[Sublayer]) -> None:
        """Fits the input of a sublayer, or of its norm, as a sum of the previous sublayer's output stream, norm output
        and input stream. There is no fit if the input is that output stream itself."""
        x = sub.x if sub.before is None else sub.before.input
        parts = {"left": self._flow.x if previous is None else previous.next_x}
        if previous is not None and previous.before is not None:
            parts["left_norm"] = previous.before.output
        if previous is not None and previous.sum is not sub.sum and previous.x.root is x.root:
            parts["earlier"] = previous.x
        left = list(parts.values())
        is_other = self._flow.lanes or sub.has_own_slots  # its input was not recognized
        if x.root is left[0].root or is_other or any(v.tensor.numel() != x.tensor.numel() for v in left):
            return
        names = list(parts)
        gates = factors_between(x, left[0], self._values)
        if gates:
            self._fit(moment_numbers, [gates[0].numbers.flatten()], lambda numbers: entry.update(
                stream_gain=read_moments(numbers)["rms"]))
        rows = self._rows.values(x)
        dtype, count = rows.dtype, rows.numel()

        def read(numbers: Numbers) -> None:
            fit = InnerProducts(numbers, names, dtype, count).fit()
            if fit.get("unexplained", 1) < MOST_UNEXPLAINED:
                entry.update({name: value for name, value in fit.items() if name != "unexplained"})

        self._fit(inner_products, [rows, *map(self._rows.values, left)], read)

    def _fit_modulation(self, entry: Numbers, sub: Sublayer) -> None:
        """Measures computed factors between a norm's output and the sublayer's input, such as those of adaLN."""
        factors = factors_between(sub.reads, sub.before.output, self._values)
        if factors:
            self._fit(moment_numbers, [factors[0].numbers.flatten()], lambda numbers: entry.update(
                (f"modulation_{key}", value) for key, value in read_moments(numbers).items() if key in ("mean", "std")))

    def _record_lanes(self, site: Site, sub: Sublayer) -> None:
        """Measures the sum of each lane, and the gradients of the lanes."""
        measurement = lanes_measurement(sub, self._rows)
        if site not in self._measured.entries:
            self._measured.count("sums", True)
            self._measured.entries[site._replace(point="x")].update(measurement.of_input())
            for i, numbers in enumerate(measurement.numbers()):
                self._measured.entries[site._replace(lane=i or None)] = numbers
        measurement.grade(self._gradients, site, sub)

    def _record_sum(self, site: Site, sub: Sublayer, consumed: Optional[Value], earlier: Optional[Value]) -> None:
        self._record(site, sub.total)
        if sub.sum.is_mixed:
            self._measured.miss_sum(sub.module,
                                 "the stream goes through a gate or a projection, or only a part of it is summed: its "
                                 "part in the sum is not one number")
        else:
            self._fit_sum(self._measured.entries[site], sub, consumed, earlier)
        self._gradients.grade_sum(site, sub)

    def _fit_sum(self, entry: Numbers, sub: Sublayer, consumed: Optional[Value], earlier: Optional[Value]) -> None:
        """Fits the factors of a sum's parts. `earlier` is the stream that the previous sublayer read; it is a part only
        if it replaces x."""
        others = self._others(sub)
        parts = {"x": self._rows.values(learned_stream(sub.sum.stream, sub.x, self._values)),
                 **({} if consumed is None else {"before": self._rows.values(consumed)}),
                 "branch": self._rows.values(sub.joined), **others}
        total, stream = self._rows.values(sub.total), sub.sum.stream
        if earlier is not None and earlier.tensor.numel() != sub.total.tensor.numel():
            earlier = None  # the stream changed its shape between them
        is_stale = earlier is not None and stream is not None and stream.root is earlier.root is not sub.x.root
        is_of_x = sub.before is not None and stream is not None and \
            is_made_of(stream, sub.x, self._values) and not is_made_of(stream, sub.before.output, self._values)
        all_parts = parts if earlier is None else {**parts, "earlier": self._rows.values(earlier)}

        # read() is stored until the end of the step, so it must not reference tensors.
        names, all_names, beside, has_earlier = list(parts), list(all_parts), set(others), earlier is not None
        dtype, count = total.dtype, total.numel()
        numbers: Numbers = {}

        def read() -> None:
            fits = InnerProducts(numbers, all_names, dtype, count) if numbers else None
            made_of = {} if fits is None else choose_fit(fits, names, has_earlier, is_stale, is_of_x)
            made_of = {k: v for k, v in made_of.items() if k[5:] not in beside}
            entry.update(made_of)
            self._measured.count("sums", "unexplained" in made_of)

        self._fit(inner_products, [total, *all_parts.values()], numbers.update)
        self._measured.finally_do(read)

    def _past_norm(self, sub: Sublayer) -> Numbers:
        """Counts the linear maps of queries, keys and values that read the norm's input instead of its output."""
        if sub.kind != "attention" or sub.before is None:
            return {}
        past = [linear for linear in sub.branch.linears if linear.input.root is sub.before.input.root
                and linear.op.order < sub.branch.mixed_at and "gate" not in linear.weight]
        return {"past_norm": len(past)} if past else {}

    def _others(self, sub: Sublayer) -> Dict[str, Tensor]:
        """Returns the other parts of a sum: parallel branches."""
        return {f"other {i}": self._rows.values(value) for i, value in enumerate(sub.beside)}

    def _record_scores(self, site: Site, sub: Sublayer) -> None:
        is_known = site in self._measured.entries
        if sub.branch.scores and not is_known:
            op = sub.branch.scores[0]
            found = scores_of(op)
            scores = found[0] if len(found) == 1 else fused_scores(*found, *fused_options(op))
            entry: Numbers = {}
            self._measured.entries[site] = entry
            self._fit(score_numbers, [some_queries(scores)], lambda numbers: entry.update(read_scores(numbers)))
        if sub.branch.is_attention and not is_known:
            self._measured.count("attentions", bool(sub.branch.scores))

    def _record_norms_of_heads(self, site: Site, sub: Sublayer) -> None:
        for norm in sub.branch.norms:
            which = norm_of_attention(norm.module)
            if which is not None and norm.order < sub.branch.mixed_at:
                self._record_norm(site._replace(weight=which), None, norm, norm.output,
                                  rows_of=self._rows.of_heads, heads=self._heads(sub))

    def _heads(self, sub: Sublayer) -> int:
        scores = scores_of(sub.branch.scores[0])[0] if sub.branch.scores else None
        return scores.shape[-3] if scores is not None and scores.dim() > 3 else 1

    def _record_norm(self, site: Site, slot: Optional[str], norm: Norm, output: Value, more: Optional[Numbers] = None,
                     rows_of: Optional[RowsOf] = None, heads: int = 1) -> None:
        """Measures a norm's output, kind and parameters. heads: the number of heads, for a norm of queries or keys."""
        gamma, beta = (self._parameters.get(name or "") for name in (norm.gamma, norm.beta))
        is_new = site not in self._measured.entries
        own = self._declared.own_norm(self._modules.get(norm.module))
        own["dtype"] = dtype_name(output.tensor)
        self._record(site, output, {**own, **(more or {})}, rows_of)
        if is_new:
            NormMeasurement(self._measured, self._declared, site, self._modules.get(norm.module)).measure(
                norm, output, (gamma, beta), rows_of or self._rows.of, heads)
        for point, name in ("gamma", norm.gamma), ("beta", norm.beta):
            if name in self._parameters and self._is_first(self._parameters[name], site):
                self._record_parameter(site._replace(point=point, norm=slot), name)

    def _record_parameter(self, site: Site, name: str, read: Callable[[Numbers], Numbers] = read_moments,
                          part: Optional[Callable[[Tensor], Tensor]] = None) -> None:
        """Measures a parameter and its gradient.

        part: returns the part to measure; None measures the whole parameter. The whole of a sharded parameter is
        measured by its local shard, and a part of it is not measured.
        """
        parameter = self._parameters[name]
        if site not in self._measured.entries:
            entry: Numbers = {}
            self._measured.entries[site] = entry
            values = local_part(parameter) if part is None else None if is_sharded(parameter) else part(parameter)
            if values is not None and values.numel() > 0:
                self._fit(moment_numbers, [values.flatten()], lambda numbers: entry.update(read(numbers)))
        self._gradients.grade_parameter(site, self._leaves.get(name, parameter), part or (lambda gradient: gradient))

    def _is_first(self, parameter: Tensor, site: Site) -> bool:
        """Whether no other layer used the parameter earlier in this step."""
        return self._measured.owners.setdefault((site.step, id(parameter)), site.layer) == site.layer

    @staticmethod
    def _is_named(linear: Linear, name: str) -> bool:
        return weight_named(stem_of(linear.weight), False) == name

    def _record_weight(self, site: Site, linear: Linear, by_order: Optional[str], is_bottleneck: bool) -> None:
        """is_bottleneck: whether the map belongs to an adapter, which has its down projection before its up
        projection."""
        weight = self._parameters.get(linear.weight)
        if weight is None or not weight.is_floating_point() or weight.dim() != 2 or \
                not self._is_first(weight, site):
            return
        named = None if is_bottleneck else weight_named(stem_of(linear.weight), site.sublayer == "attention")
        which = named or by_order
        if which is None:
            return
        names, dim = which.split("+"), int(linear.is_flipped)
        outputs, inputs = weight.shape[dim], weight.shape[1 - dim]
        if outputs % len(names) or len(names) == 3 and outputs != 3 * inputs or \
                which == "gate" and outputs < inputs:
            return  # grouped keys and values have an unknown layout, and a small gate is a router of experts
        size = outputs // len(names)
        for i, name in enumerate(names):
            def part(tensor: Tensor, i: int = i) -> Tensor:
                return tensor.narrow(dim, i * size, size)

            self._record_parameter(site._replace(weight=name), linear.weight, read_without_min,
                                   part if len(names) > 1 else None)

    def end(self, stream: Stream, output: Any) -> None:
        """Measures the final norm and the logits. output: the model's output."""
        for where in self._flow.lost:
            self._measured.miss_sum(where, "the lanes behind a sublayer were not understood")
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
        for tensor in map(first_tensor, values):
            if tensor is None or tensor.shape[-1] not in sizes - {self._measured.width}:
                continue
            self._record(site, Value(tensor), {"reads_stream": float(reads_stream)},
                         lambda numbers: self._rows.of(numbers, tensor.shape))
            self._measured.run_fits()
            return


def choose_fit(fits: InnerProducts, parts: List[str], has_earlier: bool, is_stale: bool, is_of_x: bool) -> Numbers:
    """Returns the factors of a sum's parts.

    is_stale: whether the added stream is the one that the previous sublayer read. is_of_x: whether the added stream is
    x, not the norm's output.
    """
    if is_stale:  # decided by the graph, because the two streams may be nearly equal
        made_of = fits.fit(["earlier", *(name for name in parts if name not in ("x", "before"))])
        return {**made_of, "from_x": 0.0} if made_of else {}
    made_of = fits.fit(parts)
    if is_of_x and "from_x" not in made_of and "unexplained" in made_of:  # x is itself a norm's output
        made_of = {"from_before": 0.0, **fits.fit(name for name in parts if name != "before")}
    if not has_earlier or not made_of.get("unexplained", 0) > 0.02:
        return made_of
    found = fits.fit([*parts, "earlier"])
    takes_it = abs(found.get("from_x", 1)) < 0.05 < found.get("from_earlier", 0)
    return found if takes_it and found["unexplained"] < 0.02 else made_of
