"""Measures what was found, and listens to its gradients."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

import torch
from torch import Tensor, nn

from .._structure import tensors_in
from .flow import Flow, Linear, Norm, fused_options, is_channels_first, scores_of
from .lanes import Layout, spread
from .lane_measurement import LaneMeasurement
from .names import (first_tensor, is_norm, is_of_other_axes, is_projection, norm_of_attention, squashing, stem_of,
                    weight_named)
from .norm_finder import NORMS
from .numbers import (Numbers, explain_norm, explain_sum, fused_scores, mean_cosine, moments, rms, score_numbers,
                      value_numbers, wide, without_min)
from .profile import Site
from .statistics import explain_statistics, shares_statistics
from .recorder import Op, Value
from .sublayers import Sublayer, is_made_of

if TYPE_CHECKING:
    from .model_probe import Probe


RowsOf = Callable[[Tensor], Tuple[Tensor, Optional[int]]]


class Gradient:
    """Of a value: its size, and the part that is compared with others."""

    def __init__(self) -> None:
        self.rows: Optional[Tensor] = None
        self.listeners: List[Callable[[Tensor], None]] = []


def keeper(entry: Numbers, part: Callable[[Tensor], Tensor] = lambda g: g) -> Callable[[Tensor], None]:
    """Takes the first gradient that comes."""
    def keep(gradient: Tensor) -> None:
        if "grad_rms" not in entry:
            entry["grad_rms"] = rms(part(gradient))
    return keep


class Measurement:
    """Of one stream. The first of a model begins with its embedding."""

    def __init__(self, probe: Probe, flow: Flow, parameters: Dict[str, Tensor], is_first: bool):
        self._probe, self._flow, self._parameters = probe, flow, parameters
        self._modules = dict(probe.model.named_modules())
        self._gradients: Dict[Value, Gradient] = {}
        self._shape = flow.x.tensor.shape
        self._earlier: Optional[Value] = None  # the stream that the sublayer before read
        if is_first:
            site = self._site(None, "embedding", "output")
            self._probe.entries.pop(site, None)  # of what was held for the stream
            self._probe.graded.discard(site)
            self._record(site, flow.x)
        if is_first or flow.lanes:
            self._probe.width, self._probe.lanes = self._shape[-1], flow.lanes
        self.watch(flow.x)

    def _site(self, layer: Optional[int], sublayer: str, point: str, **more: Any) -> Site:
        return Site(self._probe.step, layer, sublayer, point, **more)

    # -- Values --

    def rows(self, numbers: Tensor, shape: Optional[torch.Size] = None) -> Tuple[Tensor, int]:
        """Some tokens' values, [sequences, tokens, features], and how far apart they stand."""
        shape = self._shape if shape is None else shape
        t = (numbers.movedim(1, -1) if is_channels_first(numbers, shape) else numbers).reshape(shape)
        t = t.flatten(1, -2) if t.dim() > 2 else t[None]
        t = t if self._probe.batch_first else t.transpose(0, 1)
        limit = max(2, min(self._probe.tokens, 2**24 // t.shape[-1]))
        stride = math.ceil(t.shape[1] / limit)
        return t[:max(1, limit // t.shape[1]), ::stride], stride

    def _values(self, value: Value) -> Tensor:
        return self.rows(value.numbers)[0]

    def _rows_of_heads(self, numbers: Tensor) -> Tuple[Tensor, Optional[int]]:
        """Of queries or keys, whose axes come in many orders but for the last: rows that are no tokens."""
        rows = numbers.flatten(0, -2)
        return rows[None, ::math.ceil(len(rows) / max(2, self._probe.tokens))], None

    # -- Gradients --

    def watch(self, value: Value) -> Optional[Gradient]:
        """From the time that it is called: autograd knows a tensor before something writes on it."""
        known = self._gradients.get(value)
        if known is not None or not value.is_current or not value.tensor.requires_grad:
            return known
        gradient = self._gradients[value] = Gradient()

        def arrived(values: Tensor) -> None:
            for listener in gradient.listeners:
                listener(values)

        self._hook(value.tensor, arrived)
        return gradient

    def _hook(self, tensor: Tensor, function: Callable[[Tensor], None]) -> None:
        def guarded(values: Tensor) -> None:
            try:
                function(values)
            except Exception as error:  # a backward must not fail by being watched
                self._probe.left_out.append({"where": "gradients", "why": f"{type(error).__name__}: {error}"})

        # The graph keeps the hook, and the hook the graph: Python's collector does not see that.
        self._probe.on_exit(tensor.register_hook(guarded).remove)

    def _grade(self, site: Site, value: Value) -> None:
        gradient = self.watch(value)
        if gradient is None or site in self._probe.graded:
            return
        self._probe.graded.add(site)
        gradient.listeners.append(keeper(self._probe.entries[site]))

    def _grade_parameter(self, site: Site, parameter: Tensor,
                         part: Callable[[Tensor], Tensor] = lambda gradient: gradient) -> None:
        if site in self._probe.graded or not parameter.requires_grad:
            return
        self._probe.graded.add(site)
        self._hook(parameter, keeper(self._probe.entries[site], part))

    def _grade_sum(self, site: Site, sub: Sublayer) -> None:
        """How much of a sum's gradient arrives at its branch, and at the stream, where the rest is what
        comes back through the modules that read it. Of a sum without a graph nothing can be said."""
        if not sub.total.root.op.has_graph:
            self._probe.note_without_graph(sub.branch.layer_module)
            return
        is_branch_within = sub.joined.is_within_function and sub.sum.branch.tensor.requires_grad
        if is_branch_within:
            self._probe.note_without_graph(sub.branch.layer_module)
        entry = self._probe.entries[site]
        total, x = self.watch(sub.total), self.watch(self._whole(sub.x))
        joined = self.watch(sub.joined)
        is_told = sub.joined.is_current and not is_branch_within
        came: Dict[Any, Tensor] = {}
        readers = self._readers(sub)

        def arrived(key: Any, values: Tensor) -> None:
            if key != "sum" and "sum" not in came:
                return  # it comes from elsewhere
            shape = self._shape if values.numel() == self._shape.numel() else \
                (*self._shape[:-1], values.shape[-1])
            came[key] = wide(self.rows(values.detach(), torch.Size(shape))[0])
            if key == "sum" and is_told:
                entry["grad_to_branch"] = 0.0  # unless something arrives there
            elif key == "branch":
                pass_on("branch", {})
            elif key == "x" and readers is not None:
                back = [through(came[i]) for i, (_, through) in enumerate(readers) if i in came]
                if all(b is not None for b in back):
                    pass_on("x", {"readers": torch.stack(back).sum(0)} if back else {})
            if "x" in came and ("branch" in came or joined is None):
                came.clear()

        def pass_on(name: str, others: Dict[str, Tensor]) -> None:
            entry.pop(f"grad_to_{name}", None)
            made_of = explain_sum(came[name], {"sum": came["sum"], **others})
            if made_of.get("unexplained", 1) < 0.02 and "from_sum" in made_of:
                entry[f"grad_to_{name}"] = made_of["from_sum"]

        def listen(key: Any, gradient: Optional[Gradient]) -> None:
            if gradient is not None:
                gradient.listeners.append(functools.partial(arrived, key))

        listen("sum", total)
        listen("branch", joined)
        for i, (output, _) in enumerate(readers or []):
            listen(i, self.watch(output))
        listen("x", x)

    def _whole(self, value: Value) -> Value:
        """That of which it may be a view among others, of features ahead of tokens."""
        root = value.root
        return root if is_channels_first(root.tensor, self._shape) else value

    def _readers(self, sub: Sublayer) -> Optional[List[Tuple[Value, Callable[[Tensor], Optional[Tensor]]]]]:
        """What reads the stream beside its sum: outputs, and how their gradients come back from there.
        None if somebody reads it whom nobody can ask."""
        found: Dict[str, Tuple[Value, Callable]] = {}
        for op in self._flow.readers.get(sub.x.root, []):
            output = op.outputs[0]
            if op is sub.sum.total.root.op or self._leads_to_sum(op, sub):
                continue
            if output.is_within_function and sub.sum.branch.tensor.requires_grad:
                self._probe.note_without_graph(sub.branch.layer_module)
                return None
            norm = next((n for n in self._flow.norms if n.read.root is sub.x.root
                         and n.order >= op.order and n.module == op.module), None)
            module = self._modules.get(op.module)
            if norm is not None and module is not None and is_norm(op.module, module):
                found[f"norm {norm.order}"] = norm.gave, functools.partial(self._through, module, sub.x)
            elif norm is not None and op.name in NORMS:
                found[f"norm {norm.order}"] = norm.gave, functools.partial(self._through_op, op, sub.x)
            elif module is not None and is_projection(module) and not list(module.children()):
                gave = next((n.gave for n in self._flow.linears if n.op is op), output)
                found[f"{op.module} {op.order}"] = gave, functools.partial(self._through, module, sub.x)
            else:
                return None
        return list(found.values())

    def _leads_to_sum(self, op: Op, sub: Sublayer, depth: int = 8) -> bool:
        """Whether all that reads its output is the residual."""
        if op is sub.sum.total.root.op:
            return True
        if depth == 0 or op.name not in ("mul", "div", "add", "sub", "native_dropout"):
            return False
        readers = [r for v in op.outputs for r in self._flow.readers.get(v.root, [])]
        return bool(readers) and all(self._leads_to_sum(r, sub, depth - 1) for r in readers)

    def _through(self, module: nn.Module, x: Value, gradient: Tensor) -> Optional[Tensor]:
        """What a module gives back for the gradient of its output; None if it cannot be asked."""
        return vector_jacobian(module.forward, self._values(x), gradient)

    def _through_op(self, op: Op, x: Value, gradient: Tensor) -> Optional[Tensor]:
        others = [a.numbers if isinstance(a, Value) else a for a in op.arguments[1:]]
        return vector_jacobian(lambda rows: next(tensors_in(op.function(rows, *others))), self._values(x), gradient)

    # -- Entries --

    def _record(self, site: Site, value: Value, more: Optional[Numbers] = None,
                rows_of: Optional[RowsOf] = None) -> None:
        if site not in self._probe.entries:
            rows, stride = (rows_of or self.rows)(value.numbers)
            self._probe.entries[site] = {**value_numbers(rows, stride), **(more or {})}
        self._grade(site, value)

    def sublayer(self, sub: Sublayer, layer: int, is_last: bool, first: Sublayer) -> None:
        def at(point: str) -> Site:
            return self._site(layer, sub.kind, point)

        self._probe.layer_names.setdefault(layer, sub.branch.layer_module)
        parts = {"x": self._values(self._learned_stream(sub))}
        if sub.before is not None:
            consumed = self._consumed(sub)
            parts["before"] = self._values(consumed)
        others = self._others(sub)
        parts["branch"] = self._values(sub.joined)
        made_of: Numbers = {}
        if sub.sum.is_mixed:
            self._probe.miss_sum(sub.branch.layer_module,
                                 "the stream goes through a gate or a projection, or only a part of it is summed: its "
                                 "part in the sum is not one number")
        elif sub.sum.lanes is None:
            made_of = self._explain_sum(sub, {**parts, **others})
            made_of = {k: v for k, v in made_of.items() if k[5:] not in others}
            self._count("sums", "unexplained" in made_of)
        kept = {} if not is_last or sub.sum.lanes is not None else {
            "layer_cosine": mean_cosine(self._values(first.x), self._values(sub.leaves))}

        self._record(at("x"), sub.x)
        if sub.before is not None:
            self._record_norm(at("before"), "before", sub.before, consumed, self._past_norm(sub))
        self._record(at("branch"), sub.output)
        if self._probe.entries[at("branch")]["rms"] == 0 and self._has_gain_at_zero(sub):
            self._probe.entries[at("branch")]["gain_at_zero"] = 1
        if sub.inside is not None:
            self._record_norm(at("inside"), "inside", sub.inside, sub.inside.gave)
        if sub.sum.lanes is not None:
            self._record_lanes(at("sum"), sub)
        else:
            self._record(at("sum"), sub.total, {**made_of, **({} if sub.after else kept)})
            self._grade_sum(at("sum"), sub)
        if sub.after is not None:
            self._record_norm(at("after"), "after", sub.after, sub.after.gave, kept)
        if sub.kind == "attention":
            self._record_scores(at("scores"), sub)
            self._record_norms_of_heads(at("output"), sub)
        is_bottleneck = sub.kind == "feed_forward" and self._is_named(sub.branch.linears[-1], "up")
        for i, linear in enumerate(sub.branch.linears):
            by_order = {len(sub.branch.linears) - 1: "output"} if sub.kind == "attention" else \
                dict(zip(range(len(sub.branch.linears))[-2:], ("up", "down")))
            self._record_weight(at("weight"), linear, by_order.get(i), is_bottleneck)

    def _has_gain_at_zero(self, sub: Sublayer) -> bool:
        """Whether a norm of its layer has a γ of 0, as the last BatchNorm of a branch often does at first."""
        layer = self._modules.get(sub.branch.layer_module)
        norms = [m for name, m in (layer.named_modules() if layer is not None else ())
                 if is_norm(name, m) or isinstance(m, nn.modules.batchnorm._NormBase)]
        gains = [p for norm in norms for name, p in norm.named_parameters(recurse=False) if name != "bias"]
        return any(gain.requires_grad and not gain.any() for gain in gains)

    def _record_lanes(self, site: Site, sub: Sublayer) -> None:
        """A sum for each lane, and the lanes' gradient."""
        if site not in self._probe.entries:
            lanes = LaneMeasurement(sub.sum, self._shape, self.rows)
            self._count("sums", True)
            if sub.sum.lanes.is_folded:
                self._probe.entries[site._replace(point="x")]["lanes_folded"] = 1
            for i, numbers in enumerate(lanes.numbers()):
                self._probe.entries[site._replace(lane=i or None)] = numbers
        gradient = self.watch(sub.total)
        if gradient is not None and site not in self._probe.graded:
            self._probe.graded.add(site)
            gradient.listeners.append(functools.partial(self._keep_gradient, site, sub.sum.lanes.behind))

    def _keep_gradient(self, site: Site, layout: Layout, gradient: Tensor) -> None:
        entry = self._probe.entries[site]
        if "grad_spread" not in entry:
            rows = wide(layout.rows(gradient.detach()))
            entry["grad_spread"] = spread(rows)
            for i in range(layout.lanes):
                self._probe.entries[site._replace(lane=i or None)]["grad_rms"] = rms(rows[:, i])

    def _explain_sum(self, sub: Sublayer, parts: Dict[str, Tensor]) -> Numbers:
        """What its sum is made of; of an earlier stream only where that stands in the place of x."""
        total, earlier = self._values(sub.total), self._earlier
        self._earlier = sub.x
        made_of = explain_sum(total, parts)
        stream = sub.sum.stream
        is_stale = earlier is not None and stream is not None and stream.root is earlier.root is not sub.x.root
        if is_stale:  # however much alike the two may be
            others = {name: rows for name, rows in parts.items() if name not in ("x", "before")}
            made_of = explain_sum(total, {"earlier": self._values(earlier), **others})
            return {**made_of, "from_x": 0.0} if made_of else {}
        if "before" in parts and "from_x" not in made_of and "unexplained" in made_of and stream is not None and \
                is_made_of(stream, sub.x, self._flow) and not is_made_of(stream, sub.before.gave, self._flow):
            alone = {name: rows for name, rows in parts.items() if name != "before"}  # which is x, of a norm's norm
            made_of = {"from_before": 0.0, **explain_sum(total, alone)}
        if earlier is None or not made_of.get("unexplained", 0) > 0.02:
            return made_of
        found = explain_sum(total, {**parts, "earlier": self._values(earlier)})
        takes_it = abs(found.get("from_x", 1)) < 0.05 < found.get("from_earlier", 0)
        return found if takes_it and found["unexplained"] < 0.02 else made_of

    def _past_norm(self, sub: Sublayer) -> Numbers:
        """How many of attention's queries, keys and values read the stream past the norm that others read."""
        if sub.kind != "attention" or sub.before is None:
            return {}
        past = [linear for linear in sub.branch.linears if linear.read.root is sub.before.read.root
                and linear.op.order < sub.branch.met and "gate" not in linear.weight]
        return {"past_norm": len(past)} if past else {}

    def _count(self, what: str, is_measured: bool) -> None:
        self._probe.seen[what][0] += is_measured
        self._probe.seen[what][1] += 1

    def _learned_stream(self, sub: Sublayer) -> Value:
        """x, or g ⊙ (x + b), where the model learns gains and biases of its residual connection."""
        value, found = sub.sum.stream, sub.x
        while value is not None and value.root is not sub.x.root:
            op = value.root.op
            learned = [] if op is None else [v for v in op.inputs if v.parameter]
            if not learned or op.name not in ("mul", "add"):
                return sub.x  # something else becomes of it
            if found is sub.x and learned[0].tensor.numel() > 1:
                found = value
            value = next((v for v in op.inputs if self._flow.is_stream(v)), None)
        return found

    def _others(self, sub: Sublayer) -> Dict[str, Tensor]:
        """What else goes into its sum: another branch, side by side with this one."""
        return {f"other {i}": self._values(value) for i, value in enumerate(sub.beside)}

    def _consumed(self, sub: Sublayer) -> Value:
        """The norm's output as the sublayer reads it: a block may scale it on the way."""
        gave, read = sub.before.gave, sub.reads
        value: Optional[Value] = read
        while value is not None and value.root is not gave.root:
            op = value.root.op
            others = [] if op is None else [v for v in op.inputs if not self._flow.is_stream(v)]
            if op is None or op.name not in ("mul", "div") or any(v.tensor.numel() > 1 for v in others):
                return gave
            value = next((v for v in op.inputs if self._flow.is_stream(v)), None)
        return gave if value is None or read.root is gave.root else self._flow.upright(read)

    def _record_scores(self, site: Site, sub: Sublayer) -> None:
        is_known = site in self._probe.entries
        if sub.branch.scores and not is_known:
            op = sub.branch.scores[0]
            found = scores_of(op)
            scores = found[0] if len(found) == 1 else fused_scores(*found, *fused_options(op))
            self._probe.entries[site] = score_numbers(scores)
        if sub.branch.is_attention and not is_known:
            self._count("attentions", bool(sub.branch.scores))

    def _record_norms_of_heads(self, site: Site, sub: Sublayer) -> None:
        for norm in sub.branch.norms:
            which = norm_of_attention(norm.module)
            is_ahead = which is not None and norm.order < sub.branch.met
            if is_ahead and not shares_statistics(norm.read.numbers[:1], norm.gave.numbers[:1],
                                                   self._heads(sub)):
                self._record_norm(site._replace(weight=which), None, norm, norm.gave, rows_of=self._rows_of_heads)

    def _heads(self, sub: Sublayer) -> int:
        scores = scores_of(sub.branch.scores[0])[0] if sub.branch.scores else None
        return scores.shape[-3] if scores is not None and scores.dim() > 3 else 1

    def _record_norm(self, site: Site, slot: Optional[str], norm: Norm, gave: Value,
                     more: Optional[Numbers] = None, rows_of: Optional[RowsOf] = None) -> None:
        gamma, beta = (self._parameters.get(name or "") for name in (norm.gamma, norm.beta))
        if site not in self._probe.entries:
            fit = self._explain_norm(norm, gave, gamma, beta, rows_of or self.rows)
            own = self._probe.declared.own_norm(self._modules.get(norm.module))
            more = {**fit, **own, "dtype": str(gave.tensor.dtype).replace("torch.", ""), **(more or {})}
        self._record(site, gave, more, rows_of)
        for name, parameter in ("gamma", gamma), ("beta", beta):
            if parameter is not None and self._is_first(parameter, site):
                place = site._replace(point=name, norm=slot)
                self._probe.entries.setdefault(place, moments(parameter))
                self._grade_parameter(place, parameter)

    def _explain_norm(self, norm: Norm, gave: Value, gamma: Optional[Tensor], beta: Optional[Tensor],
                      rows_of: RowsOf) -> Numbers:
        (read, stride), (given, _) = rows_of(norm.read.numbers), rows_of(gave.numbers)
        declared, module = self._probe.declared, self._modules.get(norm.module)
        is_unit = (norm.is_unit or gamma is None and beta is None) and is_of_length_one(given, gamma, beta)
        form = declared.gamma_form()
        is_other = is_of_other_axes(module) or module is not None and squashing(module) is not None
        fit = {} if is_unit or is_other else explain_norm(
            read, given, gamma, beta, declared.norm_kind(module) == "rms",
            None if form is None else form == "one_plus")
        if fit:
            fit = explain_statistics(read, given, gamma, beta, fit, stride == 1) or fit
        if norm.is_unit and abs(fit.get("eps_in_deviation", 1)) < 1e-6 * fit.get("divisor", 0):
            kept = {"unexplained", "scale", "gamma_offset"}  # of x/‖x‖, where ε is a least length
            fit = {key: value for key, value in fit.items() if key in kept}
        self._count("norms", bool(fit) or is_unit or is_other)
        return fit

    def _is_first(self, parameter: Tensor, site: Site) -> bool:
        """Whether no earlier layer has it: a layer that runs again is not one that was read twice."""
        return self._probe.owners.setdefault((site.step, id(parameter)), site.layer) == site.layer

    @staticmethod
    def _is_named(linear: Linear, name: str) -> bool:
        return weight_named(stem_of(linear.weight), False) == name

    def _record_weight(self, site: Site, linear: Linear, by_order: Optional[str], is_bottleneck: bool) -> None:
        """is_bottleneck: an adapter, which goes down before it goes up: order tells what the weights are for."""
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
            return  # fewer keys than queries, whose place is not known; a router of experts
        size = outputs // len(names)
        for i, name in enumerate(names):
            def part(tensor: Tensor, i: int = i, size: int = size) -> Tensor:
                return tensor.narrow(dim, i * size, size)

            place = site._replace(weight=name)
            if place not in self._probe.entries:
                self._probe.entries[place] = without_min(moments(part(weight)))
            self._grade_parameter(place, weight, part)

    def final_norm(self, norm: Norm, layer: Optional[int]) -> None:
        """The model's, or that behind a layer which another stack follows."""
        self._record_norm(self._site(layer, "final_norm", "output"), "final", norm, norm.gave)

    def head(self, output: Any, reads_stream: bool) -> None:
        """Logits among a model's outputs; whether a linear map reads the stream itself on the way."""
        vocabulary = self._probe.declared.config("vocab_size")
        sizes = {vocabulary} if vocabulary else {
            m.num_embeddings for m in self._probe.model.modules() if isinstance(m, nn.Embedding)}
        values = list(output.values()) if isinstance(output, dict) else \
            output if isinstance(output, (list, tuple)) else [output]
        site = self._site(None, "head", "output")
        for tensor in map(first_tensor, values):
            if tensor is None or tensor.shape[-1] not in sizes - {self._probe.width}:
                continue
            value = Value(tensor)
            rows, stride = self.rows(tensor.detach(), tensor.shape)
            self._probe.entries[site] = {**value_numbers(rows, stride), "reads_stream": float(reads_stream)}
            self._grade(site, value)
            return


def is_of_length_one(rows: Tensor, gamma: Optional[Tensor], beta: Optional[Tensor]) -> bool:
    """As nGPT's norms leave them: x/‖x‖."""
    rows = wide(rows) - (0 if beta is None else wide(beta))
    if gamma is not None:
        rows = rows / wide(gamma).masked_fill(gamma == 0, 1)
    lengths = rows.norm(dim=-1)
    return bool(((lengths - 1).abs() < 1e-2).all())


def vector_jacobian(function: Callable[[Tensor], Tensor], rows: Tensor,
                    gradient: Tensor) -> Optional[Tensor]:
    try:
        with torch.enable_grad():
            x = rows.clone().requires_grad_()
            y = function(x)
            return wide(torch.autograd.grad(y, x, gradient.to(y.device, y.dtype))[0])
    except Exception:  # of one that needs more than x; a backward must not fail by being watched
        return None
