"""Looks inside a PyTorch Transformer while it trains, and writes what it saw as an addnorm profile.

    from addnorm_probe import probe

    p = probe(model, every=100)             # finds layers, norms, attention, feed-forward
    for batch in batches:
        with p:                             # measures the first forward and backward of each 100th
            loss = model(batch).loss
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    p.write("profile.jsonl")                # then: addnorm doctor profile.jsonl

or, for one batch of a model that is only read, with or without a loss:

    probe(model).run(tokens, loss=lambda output: output.logits.square().mean()).write("profile.jsonl")

The model stays as it is: its outputs and gradients keep their bits, and outside `with` no hook is left
and no time lost. It may be of any make; what counts is that its layers stand in one ModuleList or
Sequential, and that norms and linear layers are modules of their own. A complete example:

    import torch
    from addnorm_probe import probe

    layer = torch.nn.TransformerEncoderLayer(64, 4, 256, batch_first=True, norm_first=True)
    model = torch.nn.TransformerEncoder(layer, 6, torch.nn.LayerNorm(64))
    with probe(model) as p:
        model(torch.randn(8, 32, 64)).square().mean().backward()
    p.write("profile.jsonl")
    print(p)

A line of the profile is one point of one layer: the stream `x` that a sublayer reads, the norm
`before` it, its `branch`, the norm `inside` the residual, the `sum`, the norm `after` it. Of each there
are size, spread, gradient, likeness of tokens. A `sum` also says what it is made of
(from_x·x + from_before·h + from_branch·f), and a norm's output what kind of norm made it: whether it
centres, what it divides by, where ε stands, whether γ means γ or 1 + γ. None of it is taken from the
code's word; what the code declares goes to the first line, for comparison. README.md lists the keys.

Needs PyTorch 1.13 or newer and nothing else. A model under torch.compile has no calls to see: give
the module that was compiled.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["Probe", "ProbeError", "probe"]

Numbers = Dict[str, Any]
Names = Union[str, Sequence[str]]


class ProbeError(RuntimeError):
    """Says what was not found, what there is instead, and which argument of probe() names it."""


def probe(model: nn.Module, *, layers: Union[str, Sequence[nn.Module], None] = None,
          attention: Names = (), feed_forward: Names = (), every: int = 1,
          recipe: Optional[Dict[str, Any]] = None, batch_first: Optional[bool] = None,
          tokens: int = 4096) -> Probe:
    """A Probe of `model`, to be used with `with`, or by its method run().

    layers        where the layers stand, e.g. "transformer.h", or the layers themselves
    attention     what makes up the attention in a layer, e.g. "attn" or ["q", "k", "v", "proj"]
    feed_forward  the same; needed only where names and the order of calls do not tell
    every         measure one `with` of so many
    recipe        what is known of the model, for the profile's first line: it goes before what the
                  probe finds, e.g. {"placement": "depth-scaled", "initialization": "gpt2"}
    batch_first   whether activations are [batch, length, d_model]; otherwise [length, batch, d_model]
    tokens        measure values of at most so many tokens, evenly chosen; gradients of all
    """
    return Probe(model, layers, attention, feed_forward, every, recipe or {}, batch_first, tokens)


# ---- Numbers ---------------------------------------------------------------------------------


def wide(tensor: Tensor) -> Tensor:
    """In float64, on a device that has it."""
    tensor = tensor.detach()
    return (tensor.cpu() if tensor.device.type == "mps" else tensor).double()


def moments(tensor: Tensor) -> Numbers:
    """Of all values, without a copy in float64."""
    tensor = tensor.detach()
    if tensor.device.type == "mps":
        tensor = tensor.cpu()
    n = tensor.numel()
    mean, square, low, high = torch.stack([
        tensor.sum(dtype=torch.float64) / n,
        torch.linalg.vector_norm(tensor, dtype=torch.float64) ** 2 / n,
        tensor.min().double(), tensor.max().double()]).tolist()
    return {"rms": math.sqrt(square), "mean": mean, "std": math.sqrt(max(0, square - mean**2)),
            "abs_max": max(abs(low), abs(high)), "min": low, "finite": math.isfinite(square)}


def value_numbers(rows: Tensor, stride: int) -> Numbers:
    """Of activations [sequences, tokens, features], tokens being `stride` apart."""
    v = wide(rows)
    size, (sequences, n, features) = v.abs(), v.shape
    top = int(size.argmax())
    numbers = {"rms": v.square().mean().sqrt(), "mean": v.mean(), "std": v.std(unbiased=False),
               "abs_max": size.max(), "abs_median": size.median()}
    if features > 1 and n > 1:
        unit = v / v.norm(dim=-1, keepdim=True)
        numbers["token_cosine"] = ((unit.sum(1).square().sum(-1) - n) / (n * (n - 1))).mean()
    numbers = dict(zip(numbers, torch.stack(list(numbers.values())).tolist()))
    return {**numbers, "peak_feature": top % features, "peak_token": top // features % n * stride,
            "finite": math.isfinite(numbers["rms"])}


def mean_cosine(a: Tensor, b: Tensor) -> float:
    return F.cosine_similarity(wide(a), wide(b), dim=-1, eps=0).mean().item()


def explain_sum(total: Tensor, parts: Dict[str, Tensor]) -> Numbers:
    """total ≈ Σ from_k · part_k by least squares over all values, and how much of it is left.

    A coefficient that the data do not tell (parts that are multiples of each other) is left out.
    """
    s = wide(total).flatten()
    matrix = torch.stack([wide(part).flatten() for part in parts.values()], 1)
    lengths = matrix.norm(dim=0)
    if not (torch.isfinite(matrix).all() and torch.isfinite(s).all()) or s.norm() == 0:
        return {}
    unit = matrix / lengths.clamp(min=1e-300)
    eigenvalues, vectors = torch.linalg.eigh(unit.T @ unit)
    told = eigenvalues > 1e-10
    inverse = vectors[:, told] / eigenvalues[told] @ vectors[:, told].T
    solution = inverse @ (unit.T @ s)
    left = (s - unit @ solution).norm()
    error = left / math.sqrt(s.numel()) * inverse.diagonal().sqrt() / lengths
    vague = (vectors[:, ~told].abs() > 1e-3).any(1) | ~(error < 0.02)
    numbers: Numbers = {"unexplained": (left / s.norm()).item()}
    for i, name in enumerate(parts):
        if not vague[i]:
            numbers[f"from_{name}"] = (solution[i] / lengths[i]).item()
    return numbers


def explain_norm(s: Tensor, y: Tensor, gamma: Optional[Tensor], beta: Optional[Tensor],
                 is_rms: bool, has_unit_offset: bool) -> Numbers:
    """What kind of norm made y of s: each row of y − β is Γ ⊙ (s − centre) / divisor.

    The last two arguments settle what the values cannot tell: for rows of mean 0 whether they were
    centred, for a γ that is one number whether it means γ or 1 + γ.
    """
    z = wide(y).flatten(0, -2) - (0 if beta is None else wide(beta))
    s = wide(s).flatten(0, -2)
    if not (torch.isfinite(z).all() and torch.isfinite(s).all()) or z.norm() == 0:
        return {}
    one = torch.ones_like(s[0])
    forms = [one] if gamma is None else [wide(gamma), 1 + wide(gamma)]
    fits = []
    for form in forms:  # least squares by row, with s measured from where it is orthogonal to Γ
        square = form.square()
        middle = (s * square).sum(1, keepdim=True) / square.sum().clamp(min=1e-300)
        a = form * (s - middle)
        slope = (z * a).sum(1, keepdim=True) / a.square().sum(1, keepdim=True).clamp(min=1e-300)
        level = (z * form).sum(1, keepdim=True) / square.sum().clamp(min=1e-300)
        left = (z - slope * a - level * form).norm() / z.norm()
        fits.append((left.item(), slope, middle - level / slope))
    lefts = [fit[0] for fit in fits]
    both = len(fits) == 2 and max(lefts) < 1.5 * min(lefts) + 1e-6
    best = int(has_unit_offset) if both else lefts.index(min(lefts))
    left, slope, centre = fits[best]
    numbers: Numbers = {"unexplained": left}
    if len(fits) == 2 and not both:
        numbers["gamma_offset"] = best
    if not (slope > 0).all():
        return numbers
    mean, divisor = s.mean(1, keepdim=True), 1 / slope
    variance = (s - mean).square().mean(1, keepdim=True)
    centres = not is_rms
    if mean.square().mean() > 1e-6 * variance.mean():
        numbers["centred"] = ((centre * mean).sum() / mean.square().sum()).item()
        centres = numbers["centred"] > 0.5
    u = variance if centres else s.square().mean(1, keepdim=True)
    rows = {"divisor": divisor, "deviation": u.sqrt(), "eps_in_variance": divisor**2 - u,
            "eps_in_deviation": divisor - u.sqrt(), "scale": u.sqrt() / divisor}
    for name, values in rows.items():
        numbers[name] = values.mean().item()
        if name not in ("divisor", "deviation"):
            numbers[f"{name}_spread"] = values.std(unbiased=False).item()
    square, apart = divisor**2, u - u.mean()
    slope = (square * apart).sum() / apart.square().sum().clamp(min=1e-300)
    left = square - square.mean() - slope * apart
    if apart.norm() * slope > 100 * left.norm() / len(u) ** 0.5:  # told to one part in a hundred
        numbers["divisor_slope"] = slope.item()
    numbers["divisor_noise"] = (left.square().mean().sqrt() / square.mean()).item()
    return numbers


def score_numbers(scores: Tensor) -> Numbers:
    """Of attention logits [..., queries, keys]; what a mask hides does not count."""
    limit = 2**22 // max(1, scores[..., :1, :].numel())
    s = wide(scores[..., ::max(1, math.ceil(scores.shape[-2] / max(1, limit))), :])
    top = s.amax(-1, keepdim=True)
    visible = (s > top - 8e3) & (s > -8e3)
    s, visible = s.flatten(0, -2), visible.flatten(0, -2)
    keys = visible.sum(-1)
    numbers = {key: v for key, v in moments(s[visible]).items() if key != "min"} \
        if visible.any() else {"finite": False}
    s, visible, keys = (t[keys > 1] for t in (s, visible, keys))
    if numbers["finite"] and len(s):
        log_p = torch.log_softmax(s.masked_fill(~visible, -math.inf), -1)
        terms = torch.where(visible, log_p.exp() * log_p, torch.zeros_like(s))
        numbers["entropy"] = (-terms.sum(-1) / keys.double().log()).mean().item()
    return numbers


# ---- What is called in a layer ---------------------------------------------------------------


def first_tensor(values: Any) -> Optional[Tensor]:
    """The first floating tensor of two dimensions or more in arguments or a result."""
    if isinstance(values, Tensor):
        return values if values.is_floating_point() and values.dim() > 1 else None
    if isinstance(values, dict):
        values = list(values.values())
    if isinstance(values, (list, tuple)):
        return next((t for t in map(first_tensor, values) if t is not None), None)
    return None


class Seen:
    """A tensor, and its values at the time: a later += may change them."""

    def __init__(self, tensor: Tensor, take: Callable[[Tensor], Tuple[Tensor, int]]):
        self.tensor, self.version = tensor, self.version_of(tensor)
        self.rows, self.stride = take(tensor)

    @staticmethod
    def version_of(tensor: Tensor) -> int:
        return 0 if tensor.is_inference() else tensor._version

    def is_same(self, other: Optional[Seen]) -> bool:
        return (other is not None and self.tensor is other.tensor and
                self.version == other.version)


@dataclass
class Call:
    name: str  # within the layer
    module: Optional[nn.Module] = None
    read: Optional[Seen] = None  # the input and the output, where they have the stream's shape
    gave: Optional[Seen] = None
    scores: Numbers = field(default_factory=dict)  # of a softmax


@dataclass
class Trace:
    layer: int
    x: Optional[Seen] = None
    calls: List[Call] = field(default_factory=list)


@dataclass
class Sublayer:
    kind: str
    x: Seen
    before: Optional[Call]
    reads: Optional[Seen]  # what its first projection reads
    branch: Seen
    dropped: Seen  # the branch, or its dropout
    inside: Optional[Call] = None
    after: Optional[Call] = None
    scores: Numbers = field(default_factory=dict)


ATTENTION = re.compile(r"attn|attention|mha", re.I)
CROSS_ATTENTION = re.compile(r"cross|enc_?dec|encoder_attn|multihead_attn", re.I)
NORM_CLASS, NORM_NAME = re.compile(r"norm", re.I), re.compile(r"norm|^ln|_ln$", re.I)

# Whole names of projections, for what is known by name. The first group is the attention's.
WEIGHT_NAMES = {
    "query": r"q|wq|q_proj|query|query_proj|to_q|q_lin",
    "key": r"k|wk|k_proj|key|key_proj|to_k|k_lin",
    "value": r"v|wv|v_proj|value|value_proj|to_v|v_lin",
    "query+key+value": r"qkv|wqkv|c_attn|qkv_proj|in_proj|to_qkv",
    "output": r"o|wo|o_proj|out_proj|c_proj|output|out|out_lin|proj|to_out",
}
FEED_FORWARD_NAMES = {
    "gate": r"gate|gate_proj|wi_0|w1",
    "up": r"up|up_proj|wi|wi_1|w3|c_fc|fc1|fc_in|lin1|linear1|dense_h_to_4h",
    "gate+up": r"gate_up_proj|gate_up",
    "down": r"down|down_proj|wo|w2|c_proj|fc2|fc_out|lin2|linear2|dense_4h_to_h",
}


def is_norm(name: str, module: nn.Module) -> bool:
    """Whether it normalizes rows, by its class's name or its own."""
    if isinstance(module, (nn.modules.batchnorm._NormBase, nn.GroupNorm, nn.Identity)):
        return False
    parameters = list(module.parameters())
    return (not any(True for _ in module.children()) and all(p.dim() == 1 for p in parameters) and
            bool(NORM_CLASS.search(type(module).__name__) or
                 parameters and NORM_NAME.search(name.rpartition(".")[2])))


def is_projection(module: nn.Module) -> bool:
    weight = getattr(module, "weight", None)
    return isinstance(module, nn.MultiheadAttention) or (
        isinstance(weight, Tensor) and weight.dim() == 2 and not isinstance(module, nn.Embedding))


def output_dim(module: nn.Module) -> int:
    """Which dimension of its weight counts outputs: GPT-2's Conv1D has it the other way round."""
    return 1 if type(module).__name__ == "Conv1D" else 0


def attribute(module: Any, *names: str) -> Any:
    """The first of these attributes that is there and not None."""
    return next((v for v in (getattr(module, n, None) for n in names) if v is not None), None)


def gamma_and_beta(norm: nn.Module) -> Tuple[Optional[Tensor], Optional[Tensor]]:
    return attribute(norm, "weight", "gamma", "scale", "g"), attribute(norm, "bias", "beta", "b")


def kinds_within(module: nn.Module) -> List[str]:
    return [f"{n} ({type(m).__name__})" for n, m in module.named_modules() if n]


# ---- The probe -------------------------------------------------------------------------------


class Probe:
    """What probe() gives. `with p:` measures; `with p(step):` also says which step it is."""

    def __init__(self, model: nn.Module, layers: Union[str, Sequence[nn.Module], None],
                 attention: Names, feed_forward: Names, every: int, recipe: Dict[str, Any],
                 batch_first: Optional[bool], tokens: int):
        self.model, self.every, self.recipe, self.tokens = model, every, recipe, tokens
        self.step, self._entered = 0, 0
        self._attention = [attention] if isinstance(attention, str) else list(attention)
        self._feed_forward = ([feed_forward] if isinstance(feed_forward, str)
                              else list(feed_forward))
        self.layers_name, self.layers = self._find_layers(layers)
        if batch_first is None:
            batch_first = not any(isinstance(m, nn.MultiheadAttention) and not m.batch_first
                                  for layer in self.layers for m in layer.modules())
        self.batch_first = batch_first
        self._slots: Counter = Counter()  # (name in the layer, sublayer, slot)
        self._width: Counter = Counter()
        self._entries: Dict[Tuple, Numbers] = {}
        self._graded: set = set()
        self._trace: Optional[Trace] = None
        self._undo = contextlib.ExitStack()

    # -- Use --

    def __call__(self, step: int) -> Probe:
        self.step = step
        return self

    def __enter__(self) -> Probe:
        self._measures = self._entered % self.every == 0
        self._entered += 1
        if self._measures:
            self._calls_before = len(self._entries)
            self._attach()
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if self._measures:
            self._undo.close()
            self._trace = None
            if kind is None and len(self._entries) == self._calls_before:
                raise ProbeError(f"no layer of {self.layers_name or 'the model'} was called; name "
                                 "the ones that are, e.g. layers='model.layers'")
        self.step += 1

    def run(self, *inputs: Any, loss: Optional[Callable[[Any], Tensor]] = None,
            **named_inputs: Any) -> Probe:
        """Measures model(*inputs); with a loss of its output, gradients too. .grad stays as it was."""
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

    def write(self, path: str, digits: int = 9) -> None:
        """Writes all that was measured so far."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.text(digits))

    def text(self, digits: int = 9) -> str:
        lines: List[Any] = [{"addnorm_profile": 1, "model": self.header()}]
        for (step, sublayer, layer, norm, point, weight), numbers in self._entries.items():
            place = {"step": step, "layer": layer, "sublayer": sublayer, "norm": norm,
                     "point": point, "weight": weight}
            line = {key: v for key, v in place.items() if v is not None}
            for key, value in numbers.items():
                if isinstance(value, float):
                    if not math.isfinite(value):
                        continue
                    value = float(f"{value:.{digits}g}")
                if key != "finite" or not value:
                    line[key] = value
            lines.append(line)
        return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)

    def __str__(self) -> str:
        norms = ", ".join(f"{name}: {slot} {sublayer}"
                          for name, (sublayer, slot) in self.norm_slots().items())
        facts = ", ".join(f"{key} {value}" for key, value in self.header().items())
        return (f"{len(self.layers)} layers in {self.layers_name or 'the model itself'}; {facts}; "
                f"{'norms ' + norms if norms else 'no norms seen yet'}")

    # -- Finding the layers --

    def _find_layers(self, layers: Any) -> Tuple[str, List[nn.Module]]:
        if layers is not None and not isinstance(layers, str):
            return "the given layers", list(layers)
        modules = dict(self.model.named_modules())
        if layers is not None:
            if layers not in modules:
                raise ProbeError(f"the model has no module {layers!r}; it has "
                                 f"{', '.join(list(modules)[1:30])}, …")
            found = modules[layers]
            return layers, list(found) if isinstance(
                found, (nn.ModuleList, nn.Sequential)) else [found]

        def is_layer(module: nn.Module) -> bool:
            return any(is_norm(n, m) or ATTENTION.search(n) or
                       ATTENTION.search(type(m).__name__) for n, m in module.named_modules() if n)

        stacks = {name: list(m) for name, m in modules.items()
                  if isinstance(m, (nn.ModuleList, nn.Sequential)) and len(m)
                  and len(set(map(type, m))) == 1 and is_layer(m[0])}
        longest = max(map(len, stacks.values()), default=0)
        chosen = [name for name, stack in stacks.items() if len(stack) == longest]
        if len(chosen) > 1:
            raise ProbeError(f"there are {len(chosen)} stacks of {longest} layers: "
                             f"{', '.join(chosen)}; choose with layers={chosen[0]!r}")
        if chosen:
            return chosen[0], stacks[chosen[0]]
        if is_layer(self.model) and any(map(is_projection, self.model.modules())):
            return "", [self.model]
        raise ProbeError("no ModuleList or Sequential holds modules of one class with attention or "
                         "norms in them; name it with layers='…'. The model has "
                         f"{', '.join(kinds_within(self.model)[:40])}")

    # -- Hooks --

    def _attach(self) -> None:
        hook = self._undo.callback

        def after(module: nn.Module, function: Callable) -> None:
            try:
                handle = module.register_forward_hook(function, with_kwargs=True)
            except TypeError:  # before PyTorch 2.0, where hooks do not see named arguments
                handle = module.register_forward_hook(lambda m, a, y: function(m, a, {}, y))
            hook(handle.remove)

        def ahead(module: nn.Module, function: Callable) -> None:
            try:
                handle = module.register_forward_pre_hook(function, with_kwargs=True)
            except TypeError:
                handle = module.register_forward_pre_hook(lambda m, a: function(m, a, {}))
            hook(handle.remove)

        inner = {id(m) for layer in self.layers for m in layer.modules()}
        for i, layer in enumerate(self.layers):
            ahead(layer, lambda m, a, k, i=i: self._begin(i, a, k))
            for name, module in layer.named_modules():
                if name:
                    after(module, lambda m, a, k, y, name=name: self._called(name, m, a, k, y))
            after(layer, lambda m, a, k, y: self._end(y))
        for name, module in self.model.named_modules():
            if id(module) not in inner and is_norm(name, module):
                after(module, lambda m, a, k, y: self._final_norm(m, first_tensor((a, k)), y))
        if self.model not in self.layers:
            after(self.model, lambda m, a, k, y: self._head(y))
        self._last: Optional[Seen] = None
        self._catch_softmax()
        self._leave_fast_path()

    def _catch_softmax(self) -> None:
        """Attention logits pass through a softmax on their way, or into a fused attention."""
        def seen(scores: Tensor) -> None:
            if self._trace is not None and scores.dim() > 1:
                self._trace.calls.append(Call("softmax", scores=score_numbers(scores)))

        def softmax(original: Callable) -> Callable:
            def wrapped(input: Tensor, *arguments: Any, **named: Any) -> Tensor:
                dim = named.get("dim", arguments[0] if arguments else -1)
                if dim in (-1, input.dim() - 1) and not depth:
                    seen(input)
                depth.append(0)  # F.softmax calls Tensor.softmax
                try:
                    return original(input, *arguments, **named)
                finally:
                    depth.pop()
            return wrapped

        def fused(original: Callable) -> Callable:
            def wrapped(query: Tensor, key: Tensor, value: Tensor, attn_mask: Any = None,
                        dropout_p: float = 0.0, is_causal: bool = False, **named: Any) -> Tensor:
                if self._trace is not None:
                    seen(fused_scores(query, key, attn_mask, is_causal, named.get("scale")))
                return original(query, key, value, attn_mask, dropout_p, is_causal, **named)
            return wrapped

        depth: List[int] = []
        places = [(torch, "softmax", softmax), (F, "softmax", softmax),
                  (Tensor, "softmax", softmax), (F, "scaled_dot_product_attention", fused)]
        for owner, name, wrapper in places:
            original = getattr(owner, name, None)
            if original is None:
                continue
            if name in vars(owner):
                self._undo.callback(setattr, owner, name, original)
            else:
                self._undo.callback(delattr, owner, name)
            setattr(owner, name, wrapper(original))

    def _leave_fast_path(self) -> None:
        """PyTorch's own encoder layer in evaluation is one fused call, in which nothing is seen."""
        switch = getattr(torch.backends, "mha", None)
        if switch is not None and hasattr(switch, "set_fastpath_enabled"):
            self._undo.callback(switch.set_fastpath_enabled, switch.get_fastpath_enabled())
            switch.set_fastpath_enabled(False)
        for layer in self.model.modules():
            if isinstance(layer, nn.TransformerEncoderLayer):
                self._undo.callback(setattr, layer, "activation_relu_or_gelu",
                                    layer.activation_relu_or_gelu)
                layer.activation_relu_or_gelu = 0

    # -- Activations, as they pass --

    def _take(self, tensor: Tensor, shape: Optional[torch.Size] = None) -> Tuple[Tensor, int]:
        """[sequences, tokens, features], a copy, and how far apart its tokens were."""
        t = tensor.detach()
        if shape is not None:
            t = t.reshape(shape)
        t = t.flatten(1, -2) if t.dim() > 2 else t[None]
        if not self.batch_first:
            t = t.transpose(0, 1)
        limit = max(2, min(self.tokens, 2**24 // t.shape[-1]))
        stride = math.ceil(t.shape[1] / limit)
        return t[:max(1, limit // t.shape[1]), ::stride].clone(), stride

    def _see(self, tensor: Optional[Tensor]) -> Optional[Seen]:
        """What has as many values as the stream, row by row."""
        x = self._trace.x if self._trace else None
        if tensor is None or x is None or tensor.shape[-1] != x.tensor.shape[-1] or \
                tensor.numel() != x.tensor.numel():
            return None
        return Seen(tensor, lambda t: self._take(t, x.tensor.shape))

    def _begin(self, layer: int, inputs: Tuple, named: Dict[str, Any]) -> None:
        self._trace = Trace(layer)
        x = first_tensor((inputs, named))
        if x is not None:
            self._trace.x = Seen(x, self._take)

    def _called(self, name: str, module: nn.Module, inputs: Tuple, named: Dict[str, Any],
                output: Any) -> None:
        if self._trace is None:
            return
        x = first_tensor((inputs, named))
        if self._trace.x is None and x is not None:  # a layer that is called by named arguments
            self._trace.x = Seen(x, self._take)
        self._trace.calls.append(
            Call(name, module, self._see(x), self._see(first_tensor(output))))

    def _end(self, output: Any) -> None:
        trace, done = self._trace, self._see(first_tensor(output))
        self._trace = None
        site = (self.step, "attention", trace.layer, None, "branch", None)
        if site in self._entries and (site in self._graded or not torch.is_grad_enabled()):
            return  # a further forward in the same `with`; checkpoints have gradients in theirs
        if trace.x is None or done is None:
            raise ProbeError(f"layer {trace.layer} ({type(self.layers[trace.layer]).__name__}) does "
                             "not take and give activations of one shape; name the layers that do "
                             "with layers='…'")
        if trace.layer == 0:
            self._record(("embedding", None, None, "output"), trace.x)
        self._width[trace.x.tensor.shape[-1]] += 1
        self._last = done
        self._measure(trace, done)

    def _final_norm(self, norm: nn.Module, x: Optional[Tensor], y: Any) -> None:
        last, y = self._last, first_tensor(y)
        if last is None or x is None or y is None or x.shape != last.tensor.shape:
            return
        read = Seen(x, self._take)
        if torch.equal(read.rows, last.rows):  # not the norm of some head
            self._last = None
            self._record_norm(("final_norm", None), "final", "output", norm, read,
                              Seen(y, self._take))

    def _head(self, output: Any) -> None:
        sizes = {self._config("vocab_size")} if self._config("vocab_size") else \
            {m.num_embeddings for m in self.model.modules() if isinstance(m, nn.Embedding)}
        values = output if isinstance(output, (list, tuple)) else \
            list(output.values()) if isinstance(output, dict) else [output]
        for value in values:
            if isinstance(value, Tensor) and value.is_floating_point() and value.dim() > 1 and \
                    value.shape[-1] in sizes - set(self._width):
                self._record(("head", None, None, "output"), Seen(value, self._take))
                return

    # -- One layer --

    def _measure(self, trace: Trace, done: Seen) -> None:
        groups = self._groups(trace)
        sublayers = self._sublayers(trace, done, groups)
        for i, sublayer in enumerate(sublayers):
            is_last = i + 1 == len(sublayers)
            place = (sublayer.kind, trace.layer)
            total = self._sum_of(sublayers, i, done)
            self._record((*place, None, "x"), sublayer.x)
            parts = {"x": sublayer.x.rows}
            if sublayer.before is not None:
                h = self._consumed(sublayer)
                self._record_norm(place, "before", "before", sublayer.before.module,
                                  sublayer.before.read, h)
                parts["before"] = h.rows
            self._record((*place, None, "branch"), sublayer.branch)
            parts["branch"] = sublayer.dropped.rows
            if sublayer.inside is not None:
                parts["branch"] = sublayer.inside.gave.rows
                self._record_norm(place, "inside", "inside", sublayer.inside.module,
                                  sublayer.inside.read, sublayer.inside.gave)
            cosine = {"layer_cosine": mean_cosine(trace.x.rows, done.rows)} if is_last else {}
            made_of = explain_sum(total.rows, parts)
            self._record((*place, None, "sum"), total,
                         {**made_of, **(cosine if sublayer.after is None else {})})
            if sublayer.after is not None:
                self._record_norm(place, "after", "after", sublayer.after.module,
                                  sublayer.after.read, sublayer.after.gave, cosine)
            if sublayer.scores:
                self._enter((*place, None, "scores"), sublayer.scores)
            for slot in "before", "inside", "after":
                norm = getattr(sublayer, slot)
                if norm is not None:
                    self._slots[norm.name, sublayer.kind, slot] += 1
        for kind, group in zip(("attention", "feed_forward"), groups):
            self._record_weights(kind, trace, group)

    @staticmethod
    def _consumed(sublayer: Sublayer) -> Seen:
        """The norm's output as the sublayer reads it: a block may scale it on the way."""
        y, h = sublayer.before.gave, sublayer.reads
        if h is not None and not h.is_same(y) and h.rows.shape == y.rows.shape:
            if F.cosine_similarity(wide(h.rows).flatten(), wide(y.rows).flatten(), 0) > 1 - 1e-4:
                return h
        return y

    @staticmethod
    def _sum_of(sublayers: List[Sublayer], i: int, done: Seen) -> Seen:
        """A sum is no module's output, but somebody's input: the next norm's, or the next layer's."""
        if sublayers[i].after is not None:
            return sublayers[i].after.read
        if i + 1 == len(sublayers):
            return done
        following = sublayers[i + 1]
        return following.before.read if following.before is not None else following.reads

    def _groups(self, trace: Trace) -> Tuple[List[int], List[int]]:
        """Where in the calls the attention's and the feed-forward's projections stand."""
        layer = self.layers[trace.layer]
        modules = dict(layer.named_modules())
        mine = [i for i, c in enumerate(trace.calls) if c.module is not None
                and is_projection(c.module)]
        within = [c.name for c in trace.calls if isinstance(c.module, nn.MultiheadAttention)]
        mine = [i for i in mine if not any(trace.calls[i].name.startswith(n + ".") for n in within)]

        def matches(name: str, pattern: Any) -> bool:
            path = [name[:end.start()] for end in re.finditer(r"\.|$", name)]
            return any(pattern.search(p.rpartition(".")[2]) or
                       pattern.search(type(modules[p]).__name__) for p in path)

        def named(prefixes: List[str]) -> List[int]:
            return [i for i in mine for p in prefixes
                    if trace.calls[i].name == p or trace.calls[i].name.startswith(p + ".")]

        attentive = [trace.calls[i].name for i in mine if matches(trace.calls[i].name, ATTENTION)]
        crossing = [name for name in attentive if matches(name, CROSS_ATTENTION)]
        if 0 < len(crossing) < len(attentive) and not self._attention:
            raise ProbeError(f"layer {trace.layer} has a cross-attention ({crossing[0]}); a profile "
                             "has a place for attention and feed-forward only: choose an encoder "
                             "with layers='…'")
        attention = named(self._attention) if self._attention else \
            [i for i in mine if matches(trace.calls[i].name, ATTENTION)]
        if not attention and not self._attention:  # projections that stand in the layer itself
            keys = [i for i in mine if self._weight_of(trace.calls[i].name, True) not in
                    (None, "output")]
            attention = [i for i in mine if keys and keys[0] <= i <= keys[-1]] + \
                [i for i in mine if keys and i > keys[-1]][:1]
        if not attention:
            raise ProbeError(
                f"layer {trace.layer} ({type(layer).__name__}): which is the attention? Say "
                f"attention='…' with one or more of {', '.join(kinds_within(layer))}")
        rest = [i for i in mine if i not in attention]
        if self._feed_forward:
            rest = [i for i in named(self._feed_forward) if i not in attention]
        if rest and rest[0] < attention[-1]:
            raise ProbeError(
                f"layer {trace.layer} calls {trace.calls[rest[0]].name} before its attention "
                f"({trace.calls[attention[-1]].name}) has ended; say which is which with "
                "attention='…' and feed_forward='…'")
        return attention, rest

    def _sublayers(self, trace: Trace, done: Seen, projections: Tuple[List[int], List[int]]
                   ) -> List[Sublayer]:
        """Finds each norm's slot from the order of calls and from who reads whose output."""
        calls, attention = trace.calls, projections[0]
        groups = [g for g in zip(("attention", "feed_forward"), projections) if g[1]]
        norms = [i for i, c in enumerate(calls) if c.module is not None and c.read is not None
                 and c.gave is not None and is_norm(c.name, c.module)
                 and not any(g[0] < i < g[-1] for _, g in groups)]  # a norm of queries or keys
        found = []
        for k, (kind, group) in enumerate(groups):
            others = [i for _, g in groups if g is not group for i in g]
            branch = self._branch(calls, group[-1], norms, others)
            if branch is None:
                raise ProbeError(f"layer {trace.layer}: {calls[group[-1]].name} does not end the "
                                 f"{kind}; say which module does with {kind}='…'")
            dropped = branch
            for call in calls[group[-1]:]:
                if call.module is not None and "Drop" in type(call.module).__name__ and \
                        call.gave is not None and dropped.is_same(call.read):
                    dropped = call.gave
            found.append(Sublayer(kind, trace.x, None, calls[group[0]].read, branch, dropped))
        ahead = [i for i in norms if i < attention[0]]
        if ahead:
            found[0].before = calls[ahead[-1]]
        doubtful = []
        for k, sublayer in enumerate(found):
            start, is_last = groups[k][1][-1], k + 1 == len(found)
            stop = len(calls) if is_last else groups[k + 1][1][0]
            own = [calls[i] for i in norms if start < i < stop]
            last = own[-1] if own else None
            for call, following in zip(own, own[1:] + [None]):
                reads_branch = sublayer.branch.is_same(call.read) or \
                    sublayer.dropped.is_same(call.read)
                is_stream = call.gave.is_same(
                    following.read if following else done if is_last else found[k + 1].reads)
                if not is_last and call is last and (len(own) > 1 or found[0].before):
                    found[k + 1].before = call
                elif reads_branch and not is_stream:
                    sublayer.inside = call
                elif reads_branch:  # inside, or after a sum that lost its x
                    doubtful.append((sublayer, call))
                elif not is_last and call is last and \
                        not any(i > groups[k + 1][1][-1] for i in norms):
                    found[k + 1].before = call
                else:
                    sublayer.after = call
        for sublayer, call in doubtful:
            slot = "inside" if any(s.inside for s in found) else "after"
            setattr(sublayer, slot, call)
        if len(found) == 2:
            self._join(trace, found)
        scores = [c.scores for c in calls[:attention[-1]] if c.scores]
        found[0].scores = scores[0] if scores else {}
        return found

    def _join(self, trace: Trace, found: List[Sublayer]) -> None:
        """The second sublayer reads what the first leaves."""
        first, second = found
        if second.before is None and second.reads is not None and second.reads.is_same(first.reads):
            raise ProbeError(f"layer {trace.layer} ({type(self.layers[trace.layer]).__name__}) "
                             "computes attention and feed-forward side by side; a profile has them "
                             "one after the other")
        second.x = first.after.gave if first.after else self._sum_of(found, 0, first.x)
        if second.x is None:
            raise ProbeError(f"layer {trace.layer}: what {second.kind} reads does not have the "
                             "stream's shape; name its parts with feed_forward='…'")

    @staticmethod
    def _branch(calls: List[Call], end: int, norms: List[int], others: List[int]
                ) -> Optional[Seen]:
        """The output of the largest module that ends here and holds no norm of the stream."""
        foreign = [calls[i].name for i in norms + others]
        path = [calls[end].name[:e.start()] for e in re.finditer(r"\.|$", calls[end].name)]
        for name in path:
            if any(f == name or f.startswith(name + ".") for f in foreign):
                continue
            for call in calls[end:]:
                if call.name == name and call.gave is not None:
                    return call.gave
        return None

    # -- Entries --

    def _enter(self, place: Tuple, numbers: Numbers, weight: Optional[str] = None) -> Tuple:
        sublayer, layer, norm, point = place
        site = (self.step, sublayer, layer, norm, point, weight)
        self._entries.setdefault(site, dict(numbers))
        return site

    def _record(self, place: Tuple, seen: Seen, more: Optional[Numbers] = None) -> None:
        site = (self.step, place[0], place[1], place[2], place[3], None)
        if site not in self._entries:
            numbers = {**value_numbers(seen.rows, seen.stride), **(more or {})}
            self._entries[site] = numbers
        tensor = seen.tensor
        if tensor.requires_grad and seen.version == Seen.version_of(tensor):
            self._grade(site, tensor)

    def _grade(self, site: Tuple, tensor: Tensor, part: Callable[[Tensor], Tensor] = lambda g: g
               ) -> None:
        """Takes the first gradient that comes."""
        if site in self._graded:
            return
        self._graded.add(site)

        def arrived(gradient: Tensor) -> None:
            g = part(gradient.detach())
            g = g.cpu() if g.device.type == "mps" else g
            rms = torch.linalg.vector_norm(g, dtype=torch.float64).item() / math.sqrt(g.numel())
            numbers = self._entries[site]
            if "grad_rms" not in numbers:
                numbers["grad_rms"] = rms
                numbers["finite"] = numbers.get("finite", True) and math.isfinite(rms)

        handle = tensor.register_hook(arrived)
        if tensor.is_leaf:
            self._undo.callback(handle.remove)

    def _record_norm(self, place: Tuple, slot: str, point: str, norm: nn.Module, read: Seen,
                     gave: Seen, more: Optional[Numbers] = None) -> None:
        gamma, beta = gamma_and_beta(norm)
        width = gave.rows.shape[-1]
        gamma = gamma if gamma is not None and gamma.numel() == width else None
        beta = beta if beta is not None and beta.numel() == width else None
        kind = explain_norm(read.rows, gave.rows, gamma, beta, self._norm_declared(norm) == "rms",
                            self._gamma_form() == "one_plus")
        dtype = {"dtype": str(gave.tensor.dtype).replace("torch.", "")}
        self._record((*place, None, point), gave, {**kind, **dtype, **(more or {})})
        for name, parameter in ("gamma", gamma), ("beta", beta):
            if parameter is not None:
                site = self._enter((*place, slot, name), moments(parameter))
                if parameter.requires_grad:
                    self._grade(site, parameter)

    @staticmethod
    def _weight_of(name: str, is_attention: bool) -> Optional[str]:
        """Which weight this is, by the last part of its name, or the last two."""
        last = name.rpartition(".")[2].lower()
        if last == "dense":  # BERT's
            last = "up" if "intermediate" in name else "out_proj" if is_attention else "down"
        table = WEIGHT_NAMES if is_attention else FEED_FORWARD_NAMES
        return next((w for w, names in table.items() if re.fullmatch(names, last)), None)

    def _record_weights(self, kind: str, trace: Trace, group: List[int]) -> None:
        is_attention, place = kind == "attention", (kind, trace.layer, None, "weight")
        for i in group:
            module = trace.calls[i].module
            if isinstance(module, nn.MultiheadAttention):
                if module.in_proj_weight is not None:
                    self._record_weight(place, "query+key+value", module.in_proj_weight, 0)
                self._record_weight(place, "output", module.out_proj.weight, 0)
            elif module.weight.is_floating_point():
                which = self._weight_of(trace.calls[i].name, is_attention)
                if which is None and i == group[-1]:
                    which = "output" if is_attention else "down"
                if which is not None:
                    self._record_weight(place, which, module.weight, output_dim(module))

    def _record_weight(self, place: Tuple, which: str, weight: Tensor, dim: int) -> None:
        names = which.split("+")
        outputs, inputs = weight.shape[dim], weight.shape[1 - dim]
        if outputs % len(names) or which == "query+key+value" and outputs != 3 * inputs:
            return  # fewer keys than queries: where one ends is not known
        size = outputs // len(names)
        for i, name in enumerate(names):
            part = lambda t, i=i: t.narrow(dim, i * size, size)  # noqa: E731
            numbers = {key: v for key, v in moments(part(weight)).items() if key != "min"}
            site = self._enter(place, numbers, name)
            if weight.requires_grad:
                self._grade(site, weight, part)

    # -- What the model declares --

    def _config(self, *names: str) -> Any:
        config = getattr(self.model, "config", None)
        if isinstance(config, dict):
            return next((config[n] for n in names if config.get(n) is not None), None)
        return attribute(config, *names)

    def _norm_declared(self, norm: nn.Module) -> Optional[str]:
        name = type(norm).__name__
        if re.search(r"rms|T5.*Norm", name, re.I):  # T5's has LayerNorm in its name
            return "rms"
        return "layer" if "layernorm" in name.lower() else None

    def _gamma_form(self) -> Optional[str]:
        form, kind = self.recipe.get("gamma_form"), str(self._config("model_type"))
        if form is None and kind.startswith("gemma"):
            return "one_plus"
        known = r"gpt2|bert|roberta|llama|mistral|qwen[23]|olmo2|t5|phi3?|gpt_neox|opt"
        return form or ("plain" if re.fullmatch(known, kind) else None)

    def header(self) -> Dict[str, Any]:
        """The profile's first line: what names and configuration declare, and the recipe."""
        layer = self.layers[0]
        modules = dict(layer.named_modules())
        norms = [modules[name] for name in self.norm_slots() if name in modules]
        declared = Counter(filter(None, map(self._norm_declared, norms)))
        sizes = ("eps", "variance_epsilon", "layer_norm_epsilon", "epsilon")
        facts = {
            "d_model": self._width.most_common(1)[0][0] if self._width else None,
            "n_layers": len(self.layers),
            "n_heads": self._config("num_attention_heads", "n_head", "num_heads", "n_heads") or next(
                (n for n in (attribute(m, "num_heads", "n_heads", "n_head", "num_attention_heads",
                                       "heads") for m in modules.values())
                 if isinstance(n, int)), None),
            "d_ff": next((m.weight.shape[output_dim(m)] for name, m in modules.items()
                          if is_projection(m) and not ATTENTION.search(name) and
                          self._weight_of(name, False) in ("up", "gate")), None),
            "placement": self._placement(),
            "norm": declared.most_common(1)[0][0] if declared else None,
            "eps": self._config("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_eps")
            or next((e for e in (attribute(n, *sizes) for n in norms) if e is not None), None),
            "gamma_form": self._gamma_form() or (
                "plain" if norms and all(type(n) is nn.LayerNorm for n in norms) else None),
            "parameters": sum(p.numel() for p in self.model.parameters()),
            "architecture": type(self.model).__name__,
            "model_type": self._config("model_type"),
            **self.recipe,
        }
        return {key: value for key, value in facts.items() if value is not None}

    def norm_slots(self) -> Dict[str, Tuple[str, str]]:
        """(sublayer, slot) of each norm in a layer, by its name there, as most layers have it."""
        slots: Dict[str, Tuple[str, str]] = {}
        for (name, kind, slot), _ in self._slots.most_common():
            slots.setdefault(name, (kind, slot))
        return slots

    def _placement(self) -> Optional[str]:
        if not self._width:
            return None
        table = {"before": "pre", "after": "post", "before inside": "sandwich",
                 "inside": "reordered", "": "none"}
        slots = self.norm_slots().values()
        rows = [table.get(" ".join(sorted(slot for k, slot in slots if k == kind)))
                for kind in ("attention", "feed_forward")]
        return None if None in rows else rows[0] if rows[0] == rows[1] else "/".join(rows)


def fused_scores(query: Tensor, key: Tensor, mask: Optional[Tensor], is_causal: bool,
                 scale: Optional[float]) -> Tensor:
    """The logits of F.scaled_dot_product_attention, of some queries where there are many."""
    with torch.no_grad():
        if key.dim() > 3 and key.shape[-3] != query.shape[-3]:
            key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
        n, keys = query.shape[-2], key.shape[-2]
        stride = max(1, math.ceil(query[..., 0].numel() * keys / 2**22))
        rows = torch.arange(0, n, stride, device=query.device)
        scores = query[..., ::stride, :] @ key.transpose(-2, -1)
        scores = scores * (query.shape[-1] ** -0.5 if scale is None else scale)
        if is_causal:
            hidden = torch.arange(keys, device=query.device) > rows[:, None]
            scores = scores.masked_fill(hidden, -math.inf)
        if mask is not None:
            mask = mask[..., ::stride, :] if mask.shape[-2] == n else mask
            scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool \
                else scores + mask
        return scores
