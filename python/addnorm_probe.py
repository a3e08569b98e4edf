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

or, for a single batch without training, with or without a loss:

    p = probe(model).run(tokens, loss=lambda output: output.logits.square().mean())

The model stays as it is: its outputs and gradients keep their bits, and outside `with` no hook is
left and no time lost. Any Transformer works if its layers are in one ModuleList or Sequential, and
its norms and linear layers are modules of their own. A complete example:

    import torch
    from addnorm_probe import probe

    layer = torch.nn.TransformerEncoderLayer(64, 4, 256, batch_first=True, norm_first=True)
    model = torch.nn.TransformerEncoder(layer, 6, torch.nn.LayerNorm(64))
    with probe(model) as p:
        model(torch.randn(8, 32, 64)).square().mean().backward()
    p.write("profile.jsonl")
    print(p)

A line of the profile is one point of one layer: the stream `x` that a sublayer reads, the norm
`before` it, its `branch`, the norm `inside` the residual, the `sum`, the norm `after` it. Of each
it has size, spread, gradient and similarity of tokens. A `sum` also says what it is made of
(from_x·x + from_before·h + from_branch·f) and how much of its gradient arrives at its parts
(grad_to_x, grad_to_branch), and a norm's output what kind of norm made it: whether it centres, what
it divides by, where ε stands, whether γ means γ or 1 + γ. All of this is measured;
what the code declares goes into the first line, for comparison. README.md lists the keys.

Needs PyTorch 1.13 or newer and nothing else. A model under torch.compile has no calls to see: give
the module that was compiled.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

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
    batch_first   whether activations are [batch, length, d_model], not [length, batch, d_model]
    tokens        measure values of at most so many tokens, evenly chosen; gradients of all
    """
    return Probe(model, layers, attention, feed_forward, every, recipe or {}, batch_first, tokens)


# ---- Numbers ---------------------------------------------------------------------------------


def wide(tensor: Tensor) -> Tensor:
    """In float64, on a device that has it."""
    tensor = tensor.detach()
    return (tensor.cpu() if tensor.device.type == "mps" else tensor).double()


def rms(tensor: Tensor) -> float:
    """Summed in float64, without a copy in it where the device can."""
    t = wide(tensor) if tensor.device.type == "mps" else tensor.detach()
    return torch.linalg.vector_norm(t, dtype=torch.float64).item() / math.sqrt(max(1, t.numel()))


def moments(tensor: Tensor) -> Numbers:
    t = wide(tensor) if tensor.device.type == "mps" else tensor.detach()
    size, mean = rms(t), t.mean(dtype=torch.float64).item()
    low, high = t.min().item(), t.max().item()
    return {"rms": size, "mean": mean, "std": math.sqrt(max(0, size**2 - mean**2)),
            "abs_max": max(abs(low), abs(high)), "min": low}


def without_min(numbers: Numbers) -> Numbers:
    return {key: value for key, value in numbers.items() if key != "min"}


def value_numbers(rows: Tensor, stride: int) -> Numbers:
    """Of activations [sequences, tokens, features], tokens being `stride` apart."""
    v = wide(rows)
    size, (_, n, features) = v.abs(), v.shape
    top = int(size.argmax())
    numbers = {"rms": v.square().mean().sqrt(), "mean": v.mean(), "std": v.std(unbiased=False),
               "abs_max": size.max(), "abs_median": size.median()}
    if features > 1 and n > 1:
        unit = v / v.norm(dim=-1, keepdim=True)
        numbers["token_cosine"] = ((unit.sum(1).square().sum(-1) - n) / (n * (n - 1))).mean()
    numbers = dict(zip(numbers, torch.stack(list(numbers.values())).tolist()))
    if math.isnan(numbers.get("token_cosine", 0)) and math.isfinite(numbers["rms"]):
        del numbers["token_cosine"]  # a token is 0 and points nowhere
    return {**numbers, "peak_feature": top % features, "peak_token": top // features % n * stride}


def explain_sum(total: Tensor, parts: Dict[str, Tensor]) -> Numbers:
    """total ≈ Σ from_k · part_k by least squares over all values, and how much of it is left.

    A coefficient that the data do not tell (parts that are multiples of each other) is left out.
    """
    s = wide(total).flatten()
    matrix = torch.stack([wide(part).flatten() for part in parts.values()], 1)
    if not (torch.isfinite(matrix).all() and torch.isfinite(s).all()) or s.norm() == 0:
        return {}
    lengths = matrix.norm(dim=0)
    unit = matrix / lengths.clamp(min=1e-300)
    eigenvalues, vectors = torch.linalg.eigh(unit.T @ unit)
    told = eigenvalues > 1e-10
    inverse = vectors[:, told] / eigenvalues[told] @ vectors[:, told].T
    solution = inverse @ (unit.T @ s)
    left = (s - unit @ solution).norm()
    error = left / math.sqrt(s.numel()) * inverse.diagonal().sqrt() / lengths
    vague = (vectors[:, ~told].abs() > 1e-3).any(1) | ~(error < 0.02)
    return {"unexplained": (left / s.norm()).item(),
            **{f"from_{name}": (solution[i] / lengths[i]).item()
               for i, name in enumerate(parts) if not vague[i]}}


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

    def total(rows: Tensor) -> Tensor:
        return rows.sum(-1, keepdim=True)

    fits = []
    for form in [torch.ones_like(s[0])] if gamma is None else [wide(gamma), 1 + wide(gamma)]:
        # Least squares by row, with s measured from where it is orthogonal to Γ.
        weight = total(form.square()).clamp(min=1e-300)
        middle = total(s * form.square()) / weight
        a = form * (s - middle)
        slope = total(z * a) / total(a.square()).clamp(min=1e-300)
        level = total(z * form) / weight
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
    mean, divisor, centres = s.mean(1, keepdim=True), 1 / slope, not is_rms
    variance = (s - mean).square().mean(1, keepdim=True)
    if mean.square().mean() > 1e-6 * variance.mean():
        numbers["centred"] = (total(centre.T * mean.T) / total(mean.T.square())).item()
        centres = numbers["centred"] > 0.5
    u = variance if centres else s.square().mean(1, keepdim=True)
    for name, values in {"divisor": divisor, "deviation": u.sqrt(),
                         "eps_in_variance": divisor**2 - u, "eps_in_deviation": divisor - u.sqrt(),
                         "scale": u.sqrt() / divisor}.items():
        numbers[name] = values.mean().item()
        if name not in ("divisor", "deviation"):
            numbers[f"{name}_spread"] = values.std(unbiased=False).item()
    square, apart = divisor**2, u - u.mean()
    steepness = (square * apart).sum() / apart.square().sum().clamp(min=1e-300)
    noise = square - square.mean() - steepness * apart
    if apart.norm() * steepness > 100 * noise.norm() / len(u)**0.5:  # told to one part in a hundred
        numbers["divisor_slope"] = steepness.item()
    numbers["divisor_noise"] = (noise.square().mean().sqrt() / square.mean()).item()
    return numbers


def score_numbers(scores: Tensor) -> Numbers:
    """Of attention logits [..., queries, keys]; what a mask hides does not count."""
    stride = math.ceil(scores.numel() / 2**22)
    s = wide(scores[..., ::max(1, stride), :]).flatten(0, -2)
    visible = (s > s.amax(-1, keepdim=True) - 8e3) & (s > -8e3)
    if not visible.any():
        return {}
    numbers, keys = without_min(moments(s[visible])), visible.sum(-1)
    s, visible, keys = (t[keys > 1] for t in (s, visible, keys))
    if len(s) and torch.isfinite(s[visible]).all():
        log_p = torch.log_softmax(s.masked_fill(~visible, -math.inf), -1)
        bits = -(log_p.exp() * log_p.masked_fill(~visible, 0)).sum(-1)
        numbers["entropy"] = (bits / keys.double().log()).mean().item()
    return numbers


def fused_scores(query: Tensor, key: Tensor, mask: Optional[Tensor], is_causal: bool,
                 scale: Optional[float]) -> Tensor:
    """The logits of F.scaled_dot_product_attention, of some queries where there are many."""
    with torch.no_grad():
        if key.dim() > 3 and key.shape[-3] != query.shape[-3]:
            key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
        n, keys = query.shape[-2], key.shape[-2]
        stride = max(1, math.ceil(query[..., 0].numel() * keys / 2**22))
        scores = query[..., ::stride, :] @ key.transpose(-2, -1)
        scores = scores * (query.shape[-1] ** -0.5 if scale is None else scale)
        if is_causal:
            rows = torch.arange(0, n, stride, device=query.device)
            mask = torch.arange(keys, device=query.device) <= rows[:, None]
        elif mask is not None and mask.shape[-2] == n:
            mask = mask[..., ::stride, :]
        if mask is None:
            return scores
        return scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask


# ---- What modules are, by their names --------------------------------------------------------

ATTENTION = re.compile(r"attn|attention|mha", re.I)
CROSS_ATTENTION = re.compile(r"cross|enc_?dec|encoder_attn|multihead_attn", re.I)
NORM_NAME = re.compile(r"norm|^ln|_ln$", re.I)
ATTENTION_WEIGHTS = {
    "query": r"q|wq|q_proj|query|query_proj|to_q|q_lin",
    "key": r"k|wk|k_proj|key|key_proj|to_k|k_lin",
    "value": r"v|wv|v_proj|value|value_proj|to_v|v_lin",
    "query+key+value": r"qkv|wqkv|c_attn|qkv_proj|in_proj|to_qkv",
    "output": r"o|wo|o_proj|out_proj|c_proj|output|out|out_lin|proj|to_out",
}
FEED_FORWARD_WEIGHTS = {
    "gate": r"gate|gate_proj|wi_0|w1",
    "up": r"up|up_proj|wi|wi_1|w3|c_fc|fc1|fc_in|lin1|linear1|dense_h_to_4h",
    "gate+up": r"gate_up_proj|gate_up",
    "down": r"down|down_proj|wo|w2|c_proj|fc2|fc_out|lin2|linear2|dense_4h_to_h",
}


# Classes that squash each value where others normalize rows, by the doctor's name for them.
SQUASHING = {"dyt": r"dyt|dynamic_?tanh", "derf": r"derf|dynamic_?erf"}


def weight_named(name: str, is_attention: bool) -> Optional[str]:
    """Which weight a projection holds, by the last part of its name."""
    last = name.rpartition(".")[2].lower()
    if last == "dense":  # BERT's
        last = "up" if "intermediate" in name else "out_proj" if is_attention else "down"
    table = ATTENTION_WEIGHTS if is_attention else FEED_FORWARD_WEIGHTS
    return next((w for w, names in table.items() if re.fullmatch(names, last)), None)


def squashing(module: nn.Module) -> Optional[str]:
    """Which of them it is; nothing where it is none."""
    name = type(module).__name__
    return next((k for k, names in SQUASHING.items() if re.fullmatch(names, name, re.I)), None)


def is_norm(name: str, module: nn.Module) -> bool:
    """Whether it normalizes rows, or stands for what does, by its class's name or its own."""
    if isinstance(module, (nn.modules.batchnorm._NormBase, nn.GroupNorm, nn.Identity)):
        return False
    parameters = list(module.parameters())
    is_simple = not list(module.children()) and all(p.dim() < 2 for p in parameters)
    return is_simple and bool("norm" in type(module).__name__.lower() or squashing(module) or
                              parameters and NORM_NAME.search(name.rpartition(".")[2]))


def is_projection(module: Optional[nn.Module]) -> bool:
    weight = getattr(module, "weight", None)
    return isinstance(module, nn.MultiheadAttention) or (
        isinstance(weight, Tensor) and weight.dim() == 2 and not isinstance(module, nn.Embedding))


def output_dim(module: nn.Module) -> int:
    """Which dimension of its weight counts outputs: GPT-2's Conv1D has it the other way round."""
    return 1 if type(module).__name__ == "Conv1D" else 0


def attribute(thing: Any, *names: str) -> Any:
    """The first of these attributes (or keys) that is there and not None."""
    get = thing.get if isinstance(thing, dict) else lambda name: getattr(thing, name, None)
    return next((v for v in map(get, names) if v is not None), None)


def path_of(name: str) -> List[str]:
    """"a.b.c" → "a", "a.b", "a.b.c"."""
    return [name[:end.start()] for end in re.finditer(r"\.|$", name)]


def is_within(name: str, outer: str) -> bool:
    return name == outer or name.startswith(outer + ".")


def kinds_within(module: nn.Module) -> str:
    names = [f"{n} ({type(m).__name__})" for n, m in module.named_modules() if n]
    return ", ".join(names[:40]) + (", …" if len(names) > 40 else "")


def first_tensor(values: Any) -> Optional[Tensor]:
    """The first floating tensor of two dimensions or more in arguments or a result."""
    if isinstance(values, Tensor):
        return values if values.is_floating_point() and values.dim() > 1 else None
    if isinstance(values, dict):
        values = list(values.values())
    if isinstance(values, (list, tuple)):
        return next((t for t in map(first_tensor, values) if t is not None), None)
    return None


# ---- What passes through a layer -------------------------------------------------------------


class Site(NamedTuple):
    """Where a line of the profile belongs."""
    step: int
    layer: Optional[int]
    sublayer: str
    point: str
    norm: Optional[str] = None
    weight: Optional[str] = None


class Seen:
    """A tensor, and its values at the time: a later += may change them."""

    def __init__(self, tensor: Tensor, rows: Tensor, stride: int):
        self.tensor, self.version = tensor, self.version_of(tensor)
        self.rows, self.stride = rows, stride  # of a sample, [sequences, tokens, features]

    @staticmethod
    def version_of(tensor: Tensor) -> int:
        return 0 if tensor.is_inference() else tensor._version

    def is_unchanged(self) -> bool:
        return self.version == self.version_of(self.tensor)

    def is_same(self, *others: Optional[Seen]) -> bool:
        return any(o is not None and self.tensor is o.tensor and self.version == o.version
                   for o in others)


@dataclass
class Call:
    order: int
    name: str  # within the layer
    module: Optional[nn.Module] = None
    read: Optional[Seen] = None  # the input and the output, where they have the stream's shape
    gave: Optional[Seen] = None
    output: Optional[Tensor] = None  # of any shape
    scores: Numbers = field(default_factory=dict)  # of a softmax


@dataclass
class Trace:
    layer: int
    x: Optional[Seen] = None
    calls: List[Call] = field(default_factory=list)

    def add(self, name: str, *arguments: Any, **named: Any) -> None:
        self.calls.append(Call(len(self.calls), name, *arguments, **named))

    def readers_of(self, seen: Seen) -> List[Call]:
        """The norms and projections of it: what may be asked twice, and changes nothing by that."""
        return [call for call in self.calls
                if seen.is_same(call.read) and call.output is not None
                and call.output.shape[:-1].numel() == seen.tensor.shape[:-1].numel()
                and not list(call.module.children())
                and (is_norm(call.name, call.module) or is_projection(call.module))]

    def after_dropout(self, seen: Seen) -> Seen:
        for call in self.calls:
            if "Drop" in type(call.module).__name__ and call.gave and seen.is_same(call.read):
                seen = call.gave
        return seen


@dataclass
class Sublayer:
    kind: str
    projections: List[Call]
    x: Seen
    branch: Seen
    before: Optional[Call] = None
    inside: Optional[Call] = None
    after: Optional[Call] = None

    @property
    def reads(self) -> Optional[Seen]:
        return self.projections[0].read

    @property
    def end(self) -> int:
        return self.projections[-1].order


# ---- The probe -------------------------------------------------------------------------------


class Probe:
    """What probe() gives. `with p:` measures; `with p(step):` also says which step it is."""

    def __init__(self, model: nn.Module, layers: Union[str, Sequence[nn.Module], None],
                 attention: Names, feed_forward: Names, every: int, recipe: Dict[str, Any],
                 batch_first: Optional[bool], tokens: int):
        self.model, self.every, self.recipe, self.tokens = model, every, recipe, tokens
        self.step, self._entered = 0, 0
        self._named = {kind: [names] if isinstance(names, str) else list(names) for kind, names in
                       (("attention", attention), ("feed_forward", feed_forward))}
        self.layers_name, self.layers = self._find_layers(layers)
        if len({id(layer) for layer in self.layers}) < len(self.layers):
            raise ProbeError(f"{self.layers_name or 'layers'} holds the same module twice; layers "
                             "that share their weights cannot be told apart")
        self.batch_first = batch_first if batch_first is not None else all(
            m.batch_first for layer in self.layers for m in layer.modules()
            if isinstance(m, nn.MultiheadAttention))
        self._slots: Counter = Counter()  # (name in the layer, sublayer, slot)
        self._width: Optional[int] = None
        self._entries: Dict[Site, Numbers] = {}
        self._graded: set = set()
        self._trace: Optional[Trace] = None
        self._last: Optional[Seen] = None
        self._undo = contextlib.ExitStack()

    # -- Use --

    def __call__(self, step: int) -> Probe:
        self.step = step
        return self

    def __enter__(self) -> Probe:
        self._measures = self._entered % self.every == 0
        self._entered += 1
        self._entries_before = len(self._entries)
        if self._measures:
            self._attach()
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        self._undo.close()
        self._trace = self._last = None
        self.step += 1
        if self._measures and kind is None and len(self._entries) == self._entries_before:
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
        for site, numbers in self._entries.items():
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

    def __str__(self) -> str:
        facts = [f"{key} {value}" for key, value in self.header().items()]
        norms = [f"{name}: {slot} {kind}" for name, (kind, slot) in self.norm_slots().items()]
        return (f"{len(self.layers)} layers in {self.layers_name or 'the model itself'}; "
                f"{', '.join(facts)}; {', '.join(norms) or 'no norms seen yet'}")

    # -- Finding the layers --

    def _find_layers(self, layers: Any) -> Tuple[str, List[nn.Module]]:
        if layers is not None and not isinstance(layers, str):
            return "the given layers", list(layers)
        modules = dict(self.model.named_modules())
        lists = (nn.ModuleList, nn.Sequential)
        if layers is not None:
            if layers not in modules:
                raise ProbeError(f"the model has no module {layers!r}; it has "
                                 f"{kinds_within(self.model)}")
            found = modules[layers]
            return layers, list(found) if isinstance(found, lists) else [found]

        def is_layer(module: nn.Module) -> bool:
            return any(is_norm(n, m) or ATTENTION.search(n) or ATTENTION.search(type(m).__name__)
                       for n, m in module.named_modules() if n)

        stacks = {name: list(m) for name, m in modules.items() if isinstance(m, lists) and len(m)
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
                         f"{kinds_within(self.model)}")

    # -- Hooks --

    def _hook(self, module: nn.Module, function: Callable, ahead: bool = False) -> None:
        """Has function(module, inputs, named inputs, output) called, or without output ahead."""
        register = module.register_forward_pre_hook if ahead else module.register_forward_hook
        try:
            handle = register(function, with_kwargs=True)
        except TypeError:  # before PyTorch 2.0, where hooks do not see named arguments
            handle = register(lambda m, x, *y: function(m, x, {}, *y))
        self._undo.callback(handle.remove)

    def _attach(self) -> None:
        inner = set()
        for i, layer in enumerate(self.layers):
            self._hook(layer, lambda m, x, k, i=i: self._begin(i, (x, k)), ahead=True)
            for name, module in layer.named_modules():
                inner.add(module)
                if name:
                    self._hook(module, lambda m, x, k, y, n=name: self._called(n, m, (x, k), y))
            self._hook(layer, lambda m, x, k, y: self._end(y))
        for name, module in self.model.named_modules():
            if module not in inner and is_norm(name, module):
                self._hook(module, lambda m, x, k, y: self._final_norm(m, (x, k), y))
        if self.model not in inner:
            self._hook(self.model, lambda m, x, k, y: self._head(y))
        self._catch_softmax()
        self._leave_fast_path()

    def _catch_softmax(self) -> None:
        """Attention logits pass through a softmax on their way, or into a fused attention."""
        depth: List[None] = []  # F.softmax calls Tensor.softmax

        def softmax(original: Callable) -> Callable:
            def wrapped(input: Tensor, *arguments: Any, **named: Any) -> Tensor:
                dim = named.get("dim", arguments[0] if arguments else None)
                if self._trace and not depth and input.dim() > 1 and dim in (-1, input.dim() - 1):
                    self._trace.add("softmax", scores=score_numbers(input))
                depth.append(None)
                try:
                    return original(input, *arguments, **named)
                finally:
                    depth.pop()
            return wrapped

        def fused(original: Callable) -> Callable:
            def wrapped(query: Tensor, key: Tensor, value: Tensor, attn_mask: Any = None,
                        dropout_p: float = 0.0, is_causal: bool = False, **named: Any) -> Tensor:
                if self._trace:
                    scores = fused_scores(query, key, attn_mask, is_causal, named.get("scale"))
                    self._trace.add("softmax", scores=score_numbers(scores))
                return original(query, key, value, attn_mask, dropout_p, is_causal, **named)
            return wrapped

        for owner, name, wrapper in [
                (torch, "softmax", softmax), (F, "softmax", softmax), (Tensor, "softmax", softmax),
                (F, "scaled_dot_product_attention", fused)]:
            original = getattr(owner, name, None)
            if original is not None:
                restore = (setattr, owner, name, original) if name in vars(owner) else \
                    (delattr, owner, name)
                self._undo.callback(*restore)
                setattr(owner, name, wrapper(original))

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

    # -- Activations, as they pass --

    def _take(self, tensor: Tensor, shape: Optional[torch.Size] = None) -> Seen:
        """A copy of some tokens' values, [sequences, tokens, features]."""
        t = tensor.detach().reshape(shape or tensor.shape)
        t = t.flatten(1, -2) if t.dim() > 2 else t[None]
        t = t if self.batch_first else t.transpose(0, 1)
        limit = max(2, min(self.tokens, 2**24 // t.shape[-1]))
        stride = math.ceil(t.shape[1] / limit)
        return Seen(tensor, t[:max(1, limit // t.shape[1]), ::stride].clone(), stride)

    def _see(self, values: Any) -> Optional[Seen]:
        """What has as many values as the stream, row by row."""
        tensor, x = first_tensor(values), self._trace.x.tensor if self._trace.x else None
        if tensor is None or x is None or tensor.shape[-1] != x.shape[-1] or \
                tensor.numel() != x.numel():
            return None
        return self._take(tensor, x.shape)

    def _begin(self, layer: int, inputs: Any) -> None:
        x = first_tensor(inputs)
        self._trace = Trace(layer, None if x is None else self._take(x))

    def _called(self, name: str, module: nn.Module, inputs: Any, output: Any) -> None:
        if self._trace is None:
            return
        if self._trace.x is None and first_tensor(inputs) is not None:
            self._trace.x = self._take(first_tensor(inputs))  # of a layer with named arguments
        self._trace.add(name, module, self._see(inputs), self._see(output), first_tensor(output))

    def _end(self, output: Any) -> None:
        trace, done = self._trace, self._see(output)
        self._trace, self._last = None, done
        site = Site(self.step, trace.layer, "attention", "branch")
        if site in self._entries and (site in self._graded or not torch.is_grad_enabled()):
            return  # a further forward in the same `with`; checkpoints have gradients in theirs
        if trace.x is None or done is None:
            raise ProbeError(f"{self._where(trace)} does not take and give activations of one "
                             "shape; name the layers that do with layers='…'")
        self._width = trace.x.tensor.shape[-1]
        if trace.layer == 0:
            self._record(Site(self.step, None, "embedding", "output"), trace.x)
        self._measure(trace, done)

    def _final_norm(self, norm: nn.Module, inputs: Any, output: Any) -> None:
        x, y, last = first_tensor(inputs), first_tensor(output), self._last
        if last is None or x is None or y is None or x.shape != last.tensor.shape:
            return
        read = self._take(x)
        if torch.equal(read.rows, last.rows):  # not the norm of some head
            self._last = None
            self._record_norm(Site(self.step, None, "final_norm", "output"), "final", norm, read,
                              self._take(y))

    def _head(self, output: Any) -> None:
        vocabulary = self._config("vocab_size")
        sizes = {vocabulary} if vocabulary else {
            m.num_embeddings for m in self.model.modules() if isinstance(m, nn.Embedding)}
        values = list(output.values()) if isinstance(output, dict) else \
            output if isinstance(output, (list, tuple)) else [output]
        for value in map(first_tensor, values):
            if value is not None and value.shape[-1] in sizes - {self._width}:
                self._record(Site(self.step, None, "head", "output"), self._take(value))
                return

    # -- One layer --

    def _where(self, trace: Trace) -> str:
        return f"layer {trace.layer} ({type(self.layers[trace.layer]).__name__})"

    def _measure(self, trace: Trace, done: Seen) -> None:
        sublayers = self._sublayers(trace, done)
        for i, sub in enumerate(sublayers):
            def at(point: str) -> Site:
                return Site(self.step, trace.layer, sub.kind, point)

            total = self._sum_of(sublayers, i, done)
            parts = {"x": sub.x}
            if sub.before:
                parts["before"] = self._consumed(sub)
            parts["branch"] = trace.after_dropout(sub.inside.gave if sub.inside else sub.branch)
            made_of = explain_sum(total.rows, {name: seen.rows for name, seen in parts.items()})
            kept = {} if i + 1 < len(sublayers) else {"layer_cosine": F.cosine_similarity(
                wide(trace.x.rows), wide(done.rows), dim=-1, eps=1e-300).mean().item()}

            self._record(at("x"), sub.x)
            if sub.before:
                self._record_norm(at("before"), "before", sub.before.module, sub.before.read,
                                  parts["before"])
            self._record(at("branch"), sub.branch)
            if sub.inside:
                self._record_norm(at("inside"), "inside", sub.inside.module, sub.inside.read,
                                  sub.inside.gave)
            self._record(at("sum"), total, {**made_of, **({} if sub.after else kept)})
            self._grade_sum(at("sum"), total, sub.x, parts["branch"], trace.readers_of(sub.x))
            if sub.after:
                self._record_norm(at("after"), "after", sub.after.module, sub.after.read,
                                  sub.after.gave, kept)
            scores = [c.scores for c in trace.calls[:sub.end] if c.scores]
            if scores and sub.kind == "attention":
                self._entries.setdefault(at("scores"), scores[0])
            for slot in "before", "inside", "after":
                if getattr(sub, slot):
                    self._slots[getattr(sub, slot).name, sub.kind, slot] += 1
            for i, call in enumerate(sub.projections):
                by_order = {len(sub.projections) - 1: "output"} if sub.kind == "attention" else \
                    dict(zip(range(len(sub.projections))[-2:], ("up", "down")))
                self._record_weights(at("weight"), call, by_order.get(i))

    @staticmethod
    def _consumed(sub: Sublayer) -> Seen:
        """The norm's output as the sublayer reads it: a block may scale it on the way."""
        y, h = sub.before.gave, sub.reads
        if h is None or h.is_same(y):
            return y
        alike = F.cosine_similarity(wide(h.rows).flatten(), wide(y.rows).flatten(), 0)
        return h if alike > 1 - 1e-4 else y

    @staticmethod
    def _sum_of(sublayers: List[Sublayer], i: int, done: Seen) -> Optional[Seen]:
        """A sum is no module's output, but the input of the next norm or the next layer."""
        if sublayers[i].after:
            return sublayers[i].after.read
        if i + 1 == len(sublayers):
            return done
        following = sublayers[i + 1]
        return following.before.read if following.before else following.reads

    def _projections(self, trace: Trace) -> Tuple[List[Call], List[Call]]:
        """The calls that make up the attention, and those of the feed-forward."""
        modules = dict(self.layers[trace.layer].named_modules())
        whole = [c.name for c in trace.calls if isinstance(c.module, nn.MultiheadAttention)]
        mine = [c for c in trace.calls if is_projection(c.module)
                and not any(is_within(c.name, n + ".out_proj") for n in whole)]

        def matching(calls: List[Call], pattern: Any) -> List[Call]:
            return [c for c in calls if any(
                pattern.search(p.rpartition(".")[2]) or pattern.search(type(modules[p]).__name__)
                for p in path_of(c.name))]

        def named(kind: str) -> List[Call]:
            return [c for c in mine if any(is_within(c.name, n) for n in self._named[kind])]

        attention = named("attention") or matching(mine, ATTENTION)
        crossing = matching(attention, CROSS_ATTENTION)
        if 0 < len(crossing) < len(attention) and not self._named["attention"]:
            raise ProbeError(f"{self._where(trace)} has a cross-attention ({crossing[0].name}); a "
                             "profile has a place for attention and feed-forward only: choose an "
                             "encoder with layers='…'")
        if not attention:  # projections in the layer itself: up to the last value, and one more
            keys = [c for c in mine if weight_named(c.name, True) not in (None, "output")]
            attention = [c for c in mine if keys and keys[0].order <= c.order <= keys[-1].order]
            attention += [c for c in mine if keys and c.order > keys[-1].order][:1]
        if not attention:
            raise ProbeError(f"{self._where(trace)}: which is the attention? Say attention='…' "
                             f"with one or more of {kinds_within(self.layers[trace.layer])}")
        rest = [c for c in named("feed_forward") or mine if c not in attention]
        if rest and rest[0].order < attention[-1].order:
            raise ProbeError(
                f"{self._where(trace)} calls {rest[0].name} before its attention "
                f"({attention[-1].name}) has ended; say which is which with attention='…' and "
                "feed_forward='…'")
        return attention, rest

    def _sublayers(self, trace: Trace, done: Seen) -> List[Sublayer]:
        """Finds each norm's slot from the order of calls and from who reads whose output."""
        groups = [group for group in self._projections(trace) if group]
        norms = [c for c in trace.calls if c.read and c.gave and is_norm(c.name, c.module)
                 and not any(g[0].order < c.order < g[-1].order for g in groups)]  # of q or k
        found = []
        for kind, group in zip(("attention", "feed_forward"), groups):
            foreign = norms + [c for g in groups if g is not group for c in g]
            branch = self._branch(trace, group[-1], foreign)
            if branch is None:
                raise ProbeError(f"{self._where(trace)}: {group[-1].name} does not end the {kind}; "
                                 f"say which module does with {kind}='…'")
            found.append(Sublayer(kind, group, trace.x, branch))
        for norm in norms:
            if norm.order < found[0].end:
                found[0].before = norm
        doubtful = []
        for sub, following in zip(found, found[1:] + [None]):
            stop = following.projections[0].order if following else len(trace.calls)
            own = [c for c in norms if sub.end < c.order < stop]
            if following and own and (len(own) > 1 or found[0].before or
                                      not any(c.order > stop for c in norms)):
                following.before = own[-1]
            for norm, reader in zip(own, own[1:] + [None]):
                is_stream = norm.gave.is_same(
                    reader.read if reader else following.reads if following else done)
                if following and norm is following.before:
                    continue
                if not sub.branch.is_same(norm.read) and \
                        not trace.after_dropout(sub.branch).is_same(norm.read):
                    sub.after = norm
                elif not is_stream:
                    sub.inside = norm
                else:  # inside, or after a sum that lost its x
                    doubtful.append((sub, norm))
        for sub, norm in doubtful:
            setattr(sub, "inside" if any(s.inside for s in found) else "after", norm)
        if len(found) == 2:
            self._join(trace, *found)
        return found

    def _join(self, trace: Trace, first: Sublayer, second: Sublayer) -> None:
        """The second sublayer reads what the first leaves."""
        read = second.before.read if second.before else second.reads
        if read and read.is_same(trace.x if second.before else first.reads):
            raise ProbeError(f"{self._where(trace)} computes attention and feed-forward side by "
                             "side; a profile has them one after the other")
        second.x = first.after.gave if first.after else self._sum_of([first, second], 0, trace.x)
        if second.x is None:
            raise ProbeError(f"{self._where(trace)}: what {second.kind} reads does not have the "
                             "stream's shape; name its parts with feed_forward='…'")

    @staticmethod
    def _branch(trace: Trace, end: Call, foreign: List[Call]) -> Optional[Seen]:
        """The output of the largest module that ends here and holds nothing foreign."""
        for name in path_of(end.name):
            if not any(is_within(c.name, name) for c in foreign):
                for call in trace.calls[end.order:]:
                    if call.name == name and call.gave:
                        return call.gave
        return None

    # -- Entries --

    def _record(self, site: Site, seen: Seen, more: Optional[Numbers] = None) -> None:
        if site not in self._entries:
            self._entries[site] = {**value_numbers(seen.rows, seen.stride), **(more or {})}
        if seen.is_unchanged():
            self._grade(site, seen.tensor)

    def _grade(self, site: Site, tensor: Tensor,
               part: Callable[[Tensor], Tensor] = lambda gradient: gradient) -> None:
        """Takes the first gradient that comes."""
        if site in self._graded or not tensor.requires_grad:
            return
        self._graded.add(site)

        def arrived(gradient: Tensor) -> None:
            self._entries[site].setdefault("grad_rms", rms(part(gradient)))

        self._hook_gradient(tensor, arrived)

    def _grade_sum(self, site: Site, total: Seen, x: Seen, branch: Seen, readers: List[Call]) -> None:
        """How much of a sum's gradient arrives at its branch, and at the stream, where the rest is
        what comes back through the modules that read it."""
        numbers = self._entries[site]
        came: Dict[Any, Tensor] = {}
        is_kept = branch.is_unchanged()  # else a gradient may come and not be seen
        tokens = x.tensor.shape[:-1]

        def arrived(key: Any, gradient: Tensor) -> None:
            if key != "sum" and "sum" not in came:
                return  # it comes from elsewhere
            came[key] = wide(self._take(gradient, (*tokens, gradient.shape[-1])).rows)
            if key == "sum" and is_kept:
                numbers["grad_to_branch"] = 0.0  # unless something arrives there
            elif key == "branch":
                pass_on("branch", {})
            elif key == "x":
                back = [self._through(call, came[i]) for i, call in enumerate(readers) if i in came]
                if all(b is not None for b in back):
                    pass_on("x", {"readers": torch.stack(back).sum(0)} if back else {})
                came.clear()

        def pass_on(name: str, others: Dict[str, Tensor]) -> None:
            numbers.pop(f"grad_to_{name}", None)
            made_of = explain_sum(came[name], {"sum": came["sum"], **others})
            if made_of.get("unexplained", 1) < 0.02 and "from_sum" in made_of:
                numbers[f"grad_to_{name}"] = made_of["from_sum"]

        def hook(key: Any, tensor: Tensor) -> None:  # or not: of what needs no gradient none arrives
            if tensor.requires_grad:
                self._hook_gradient(tensor, functools.partial(arrived, key))

        if total.is_unchanged():
            hook("sum", total.tensor)
            if is_kept:
                hook("branch", branch.tensor)
            if x.is_unchanged() and readers:
                hook("x", x.tensor)
                for i, call in enumerate(readers):
                    hook(i, call.output)

    @staticmethod
    def _through(reader: Call, gradient: Tensor) -> Optional[Tensor]:
        """What a module gives back for the gradient of its output; None if it cannot be asked."""
        try:
            with torch.enable_grad():
                x = reader.read.rows.clone().requires_grad_()
                y = reader.module.forward(x)
                return wide(torch.autograd.grad(y, x, gradient.to(y.device, y.dtype))[0])
        except Exception:  # of one that needs more than x; a backward must not fail by being watched
            return None

    def _hook_gradient(self, tensor: Tensor, function: Callable[[Tensor], None]) -> None:
        handle = tensor.register_hook(function)
        if tensor.is_leaf:
            self._undo.callback(handle.remove)

    def _record_norm(self, site: Site, slot: str, norm: nn.Module, read: Seen, gave: Seen,
                     more: Optional[Numbers] = None) -> None:
        width = gave.rows.shape[-1]
        gamma, beta = (p if isinstance(p, Tensor) and p.numel() == width else None for p in (
            attribute(norm, "weight", "gamma", "scale", "g"), attribute(norm, "bias", "beta", "b")))
        if site not in self._entries and not squashing(norm):
            more = {**explain_norm(read.rows, gave.rows, gamma, beta,
                                   self._norm_declared(norm) == "rms",
                                   self._gamma_form() == "one_plus"),
                    "dtype": str(gave.tensor.dtype).replace("torch.", ""), **(more or {})}
        self._record(site, gave, more)
        for name, parameter in ("gamma", gamma), ("beta", beta):
            if parameter is not None:
                place = site._replace(point=name, norm=slot)
                self._entries.setdefault(place, moments(parameter))
                self._grade(place, parameter)

    def _record_weights(self, site: Site, call: Call, by_order: Optional[str]) -> None:
        module = call.module
        which = weight_named(call.name, site.sublayer == "attention") or by_order
        for which, weight in [("query+key+value", module.in_proj_weight),
                              ("output", module.out_proj.weight)] if isinstance(
                                  module, nn.MultiheadAttention) else [(which, module.weight)]:
            if which is None or weight is None or not weight.is_floating_point():
                continue
            names, dim = which.split("+"), output_dim(module)
            outputs, inputs = weight.shape[dim], weight.shape[1 - dim]
            if outputs % len(names) or len(names) == 3 and outputs != 3 * inputs or \
                    which == "gate" and outputs < inputs:
                continue  # fewer keys than queries, whose place is not known; a router of experts
            size = outputs // len(names)
            for i, name in enumerate(names):
                def part(tensor: Tensor, i: int = i, size: int = size) -> Tensor:
                    return tensor.narrow(dim, i * size, size)

                place = site._replace(weight=name)
                if place not in self._entries:
                    self._entries[place] = without_min(moments(part(weight)))
                self._grade(place, weight, part)

    # -- What the model declares --

    def _config(self, *names: str) -> Any:
        return attribute(getattr(self.model, "config", None), *names)

    def _norm_declared(self, norm: nn.Module) -> Optional[str]:
        name = type(norm).__name__
        if squashing(norm):
            return squashing(norm)
        if re.search(r"rms|T5.*Norm", name, re.I):  # T5's has LayerNorm in its name
            return "rms"
        return "layer" if "layernorm" in name.lower() else None

    def _gamma_form(self) -> Optional[str]:
        kind = str(self._config("model_type"))
        known = r"gpt2|bert|roberta|llama|mistral|qwen[23]|olmo2|t5|phi3?|gpt_neox|opt"
        return self.recipe.get("gamma_form") or ("one_plus" if kind.startswith("gemma") else
                                                 "plain" if re.fullmatch(known, kind) else None)

    def norm_slots(self) -> Dict[str, Tuple[str, str]]:
        """(sublayer, slot) of each norm in a layer, by its name there, as most layers have it."""
        slots: Dict[str, Tuple[str, str]] = {}
        for (name, kind, slot), _ in self._slots.most_common():
            slots.setdefault(name, (kind, slot))
        return slots

    def _placement(self) -> Optional[str]:
        table = {"before": "pre", "after": "post", "before inside": "sandwich",
                 "inside": "reordered", "": "none"}
        slots = self.norm_slots().values()
        rows = [table.get(" ".join(sorted(slot for k, slot in slots if k == kind)))
                for kind in ("attention", "feed_forward")]
        if self._width is None or None in rows:
            return None
        return rows[0] if rows[0] == rows[1] else "/".join(rows)

    def header(self) -> Dict[str, Any]:
        """The profile's first line: what names and configuration declare, and the recipe."""
        modules = dict(self.layers[0].named_modules())
        norms = [modules[name] for name in self.norm_slots() if name in modules]
        declared = Counter(filter(None, map(self._norm_declared, norms)))
        heads = ("num_attention_heads", "n_head", "num_heads", "n_heads", "heads")
        eps = ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_eps",
               "variance_epsilon", "eps", "epsilon")
        facts = {
            "d_model": self._width,
            "n_layers": len(self.layers),
            "n_heads": next((n for n in (self._config(*heads), *(
                attribute(m, *heads) for m in modules.values())) if isinstance(n, int)), None),
            "d_ff": next((m.weight.shape[output_dim(m)] for name, m in modules.items()
                          if is_projection(m) and not ATTENTION.search(name) and
                          weight_named(name, False) in ("up", "gate")
                          and max(m.weight.shape) == m.weight.shape[output_dim(m)]), None),
            "placement": self._placement(),
            "norm": declared.most_common(1)[0][0] if declared else None,
            "eps": next((e for e in (self._config(*eps), *(attribute(n, *eps) for n in norms))
                         if e is not None), None),
            "gamma_form": self._gamma_form() or (
                "plain" if norms and all(type(n) is nn.LayerNorm for n in norms) else None),
            "parameters": sum(p.numel() for p in self.model.parameters()),
            "architecture": type(self.model).__name__,
            "model_type": self._config("model_type"),
            **self.recipe,
        }
        return {key: value for key, value in facts.items() if value is not None}
