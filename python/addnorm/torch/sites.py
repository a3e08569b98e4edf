"""Add & Norm around one sublayer: read, run, carry, write."""

from __future__ import annotations

import functools
import inspect
import json
from typing import Any, Callable, Dict, FrozenSet, Iterable, List, NamedTuple, Optional, Union

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .. import _core
from .formula import value_type
from .functions import checked_count
from .mixes import (
    EPSILON,
    SOURCES,
    Form,
    Lanes,
    Mix,
    Number,
    Numbers,
    listed,
    mixed,
    normalized,
    product,
    rows,
    weighted_sum,
)
from .modules import LayerNorm, RMSNorm, UnitNorm

NormMaker = Union[str, Callable[[int], nn.Module]]
CLOSED_GATE = -1.0  # initial bias of a highway's gate (Srivastava et al. 2015)


class Stream(NamedTuple):
    """The residual stream: its lanes, and the lanes before the last sublayer. Lanes whose number is constant are one
    tensor, (…, lanes, features). A stream of one lane, or one that grows, is a tuple with a tensor for each lane."""

    lanes: Lanes
    previous: Lanes = ()


@functools.lru_cache(maxsize=64)
def arrangement(placement: str, layers: int, lanes: int, d_model: int) -> Form:
    """Returns an evaluated arrangement of the library's table (src/io/arrangement.h). 0 lanes: the usual number."""
    return dict(json.loads(_core.arrangement(placement, layers, lanes, d_model)))


def make_slot(slot: str, norm: NormMaker, width: int, factory: Dict[str, Any]) -> Optional[nn.Module]:
    """Returns the module of a slot: a norm of `width` features, or None for an empty slot."""
    kinds: Dict[Any, Any] = {"layer": LayerNorm, "rms": RMSNorm}
    if not callable(norm) and norm not in kinds:
        raise _core.Error(f"norm is {norm!r}, must be 'layer', 'rms' or a function of the width that returns a module")
    if slot == "norm":
        return norm(width) if callable(norm) else kinds[norm](width, **factory)
    return UnitNorm() if slot == "unit" else None


def reset(*modules: Optional[nn.Module]) -> None:
    for module in modules:
        getattr(module, "reset_parameters", lambda: None)()


class Read(nn.Module):
    """Computes z = a·R(X), where R normalizes the last lane, or nothing. The exit of a stream is a read alone."""

    hidden: Optional[nn.Parameter]
    last_lane: Optional[nn.Module]

    def __init__(self, form: Form, norm: NormMaker, **factory: Any) -> None:
        super().__init__()
        self.form = form
        self.read = Mix(form["read"], **factory)
        self.last_lane = make_slot(form["last_lane"], norm, form["features"], factory)
        hidden = form["hidden"]
        self.register_parameter("hidden", None if hidden is None else nn.Parameter(torch.empty(*hidden, **factory)))
        Read.reset_parameters(self)

    def reset_parameters(self) -> None:
        """Sets the initial values of the arrangement. Sublayers keep theirs."""
        reset(self.read, self.last_lane)
        if self.hidden is not None:
            nn.init.normal_(self.hidden, 0.0, self.hidden.shape[1]**-0.5)

    def forward(self, stream: Stream) -> Tensor:
        a, = self.numbers(stream, self.read)
        return self.zs(a, self.with_norm(stream.lanes))[0]

    def numbers(self, stream: Stream, *mixes: Mix) -> List[Numbers]:
        """Returns the numbers of each mix. Mixes with the same source share its norm and hidden layer."""
        sources: Dict[str, Optional[Tensor]] = {"none": None}
        for source in [mix.source for mix in mixes]:
            if source not in sources:
                x = normalized(SOURCES[source](*stream))
                sources[source] = x if self.hidden is None else F.gelu(product(x, self.hidden.t()))
        return [mix(sources[mix.source], listed(stream.lanes)[0]) for mix in mixes]

    def with_norm(self, lanes: Lanes) -> Lanes:
        """Returns R(X)."""
        return lanes if self.last_lane is None else (*listed(lanes)[:-1], self.last_lane(listed(lanes)[-1]))

    def zs(self, a: Numbers, lanes: Lanes) -> List[Tensor]:
        """Returns each z that is read. If lanes are parts of the features, one z consists of as many rows."""
        read, parts = mixed(a, lanes), self.form["parts"]
        return read if parts == 1 else [torch.cat(read[i:i + parts], -1) for i in range(0, len(read), parts)]


def _orthogonal(f: Tensor, z: Tensor, gate: Optional[nn.Module]) -> Tensor:
    f, z = f.to(value_type(f)), z.to(value_type(z))
    return f - (f * z).sum(-1, keepdim=True) / (z.square().sum(-1, keepdim=True) + EPSILON) * z


UPDATES: Dict[str, Callable[[Tensor, Tensor, Any], Tensor]] = {
    "branch": lambda f, z, gate: f,
    "difference": lambda f, z, gate: f - z,
    "gated": lambda f, z, gate: torch.sigmoid(gate(z)) * (f - z),
    "orthogonal": _orthogonal,
}


def arguments_of(sublayer: nn.Module) -> FrozenSet[str]:
    """Returns the names of the arguments that a sublayer's forward takes. "**" stands for any other names."""
    try:
        parameters = inspect.signature(sublayer.forward).parameters.values()
    except (TypeError, ValueError):  # a compiled forward without a signature
        return frozenset(["**"])
    return frozenset("**" if p.kind == p.VAR_KEYWORD else p.name for p in parameters)


class Site(Read):
    """Add & Norm around one sublayer F, or around two that run in parallel. Stack has the formula.

    sublayers: F, or the two of a placement whose sublayers run in parallel. placement, d_model, norm, lanes, dropout:
    as in Stack. layer, layers: the place in a stack, from 1. feed_forward: whether F is the second of its layer.
    The stream is a Stream. If it has one lane it may be a tensor; the result is one, too.
    """

    def __init__(self, sublayers: Union[nn.Module, Iterable[nn.Module]], placement: str = "pre", *, d_model: int,
                 norm: NormMaker = "layer", lanes: Optional[int] = None, dropout: float = 0.0, layer: int = 1,
                 layers: int = 1, feed_forward: bool = False, device: Any = None,
                 dtype: Optional[torch.dtype] = None) -> None:
        width, kind = checked_count("d_model", d_model), "feed_forward" if feed_forward else "attention"
        asked = 0 if lanes is None else checked_count("lanes", lanes)
        whole = arrangement(placement, checked_count("layers", layers), asked, width)
        found = [site for site in whole["sites"] if (site["layer"], site["sublayer"]) == (layer, kind)]
        if not found:
            raise _core.Error(f"layer {layer} of {layers} has no {kind} of its own in the placement {placement!r}")
        form, factory = found[0], {"device": device, "dtype": dtype}
        super().__init__(form, norm, **factory)
        self.sublayers = nn.ModuleList([sublayers] if isinstance(sublayers, nn.Module) else sublayers)
        self.arguments = [arguments_of(sublayer) for sublayer in self.sublayers]
        self.initial_gain: float = form["initial_gain"]
        self.is_stacked = len(whole["enter"]) > 1
        self.dropout = dropout
        if not 0 <= dropout < 1:
            raise _core.Error(f"dropout is {dropout!r}, must be at least 0 and below 1")
        given, (name, placement) = len(self.sublayers), (self.form["name"], self.form["placement"])
        if given != self.form["sublayers"]:
            raise _core.Error(f"{name} has {given} sublayers, must have {self.form['sublayers']} in {placement!r}")
        if self.form["reads"] > 1 and not all({"key", "value"} <= names for names in self.arguments):
            raise _core.Error(f"forward of {type(self.sublayers[0]).__name__} in {name} must take key and value: "
                              f"the placement {placement!r} reads a sum of lanes for each")
        befores = [make_slot(form["before"], norm, width, factory) for _ in range(form["reads"])]
        self.before = nn.ModuleList(befores) if len(befores) > 1 else befores[0]  # type: ignore[arg-type]
        self.inside = make_slot(form["inside"], norm, width, factory)
        self.after = make_slot(form["after"], norm, form["features"], factory)
        self.gate = nn.Linear(width, width, **factory) if form["update"] == "gated" else None
        self.carry, self.write = (Mix(form[name], **factory) if name in form else None for name in ("carry", "write"))
        for name in ("skip", "gain"):
            kind = form.get(name, {"form": "constant"})["form"]
            shape = None if kind == "constant" else 1 if kind == "learned-scalar" else width
            self.register_parameter(name, None if shape is None else nn.Parameter(torch.empty(shape, **factory)))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        reset(*(self.before if isinstance(self.before, nn.ModuleList) else [self.before]), self.inside, self.after,
              self.gate, self.carry, self.write)
        with torch.no_grad():
            gamma = getattr(self.inside, "weight", None)
            if gamma is not None:
                gamma.fill_(self.form["inside_gamma"] - (getattr(self.inside, "gamma_form", "plain") == "one_plus"))
            if self.gate is not None:
                self.gate.bias.fill_(CLOSED_GATE)
            for name in ("skip", "gain"):
                if getattr(self, name) is not None:
                    getattr(self, name).fill_(self.form[name]["initial"])

    def forward(self, stream: Union[Tensor, Stream], **kwargs: Any) -> Any:
        """Returns the stream after the sublayer. Each sublayer gets those of kwargs that its forward takes."""
        if isinstance(stream, Tensor):
            return self.forward(Stream((stream,)), **kwargs).lanes[0]
        lanes, given, needed = stream.lanes, len(listed(stream.lanes)), self.form["lanes"]
        if given != needed:
            raise _core.Error(f"the stream has {given} lanes, must have {needed} before {self.form['name']}")
        a, A, b = self.all_numbers(stream)
        carried = self.carried(A, lanes) if self.form["reads_carried"] else None
        u = self.run(self.zs(a, self.with_norm(lanes) if carried is None else tuple(carried)), kwargs)
        X = self.written(carried or self.carried(A, lanes), b, u)
        return Stream(torch.stack(X, -2) if self.is_stacked else tuple(X), lanes)

    def all_numbers(self, stream: Stream) -> List[Numbers]:
        """Returns a, A and b. With one lane, A is skip and b is gain."""
        if self.carry is None or self.write is None:
            return [*self.numbers(stream, self.read), [[self._factor("skip")]], [[self._factor("gain")]]]
        return self.numbers(stream, self.read, self.carry, self.write)

    def _factor(self, name: str) -> Number:
        learned: Optional[Tensor] = getattr(self, name)
        if learned is None:
            return float(self.form[name]["initial"])
        return learned.abs() if self.form[name]["form"] == "learned-magnitudes" else learned

    def run(self, zs: List[Tensor], kwargs: Dict[str, Any]) -> Tensor:
        """Returns u, after dropout and stochastic depth."""
        norms = self.before if isinstance(self.before, nn.ModuleList) else [self.before]
        hs = [z if norm is None else norm(z) for norm, z in zip(norms, zs)]
        if self.form["before_scale"] != 1:
            hs = [self.form["before_scale"] * h for h in hs]
        f = functools.reduce(torch.add, [self._call(i, hs, kwargs) for i in range(len(self.sublayers))])
        f = f if self.inside is None else self.inside(f)
        u = UPDATES[self.form["update"]](f, zs[0], self.gate)
        survival = self.form["survival"]
        if self.training and survival < 1:  # one draw for each sequence, which is the last two axes
            shape = (*u.shape[:-2], *[1] * min(2, u.dim()))
            u = u * ((torch.rand(shape, device=u.device) < survival) / survival).to(u.dtype)
        return F.dropout(u, self.dropout, self.training) if self.dropout > 0 else u

    def _call(self, index: int, hs: List[Tensor], kwargs: Dict[str, Any]) -> Tensor:
        """Calls a sublayer. hs are its values, keys and queries if it reads three sums, else one input for all."""
        sublayer, names = self.sublayers[index], self.arguments[index]
        taken = {name: value for name, value in kwargs.items() if name in names or "**" in names}
        if "key" in names and "value" in names:
            taken.update(key=hs[len(hs) // 2], value=hs[0])
        f = sublayer(hs[-1], **taken)
        f = f[0] if isinstance(f, (tuple, list)) else f
        if f.shape != hs[-1].shape:
            raise _core.Error(f"{type(sublayer).__name__} in {self.form['name']} returned the shape {tuple(f.shape)}, "
                              f"must return its input's, {tuple(hs[-1].shape)}")
        return f

    def carried(self, A: Numbers, lanes: Lanes) -> List[Tensor]:
        """Returns the lanes that stay unchanged, then A·X."""
        return [*listed(lanes)[:self.form["keeps"]], *mixed(A, lanes)]

    def written(self, carried: List[Tensor], b: Numbers, u: Tensor) -> List[Tensor]:
        """Returns X' = after(carried + b ⊗ u), where `after` is of the first lane."""
        keeps, parts = self.form["keeps"], [u] if self.form["parts"] == 1 else u.chunk(self.form["parts"], -1)
        X = carried[:keeps] + [weighted_sum([1.0, *row], [x, *parts]) for x, row in zip(carried[keeps:], rows(b))]
        return X if self.after is None else [self.after(X[0]), *X[1:]]

    def extra_repr(self) -> str:
        return f"{self.form['placement']}, {self.form['name']}"
