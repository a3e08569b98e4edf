"""A model with its batch, the calls of its modules, and the measured lines."""

from __future__ import annotations

import contextlib
import inspect
import math
from collections import Counter
from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence, TypedDict

import torch
from torch import Tensor, nn

from ..._loss import Loss
from ..._sharded import local_part
from ..._snapshot import RandomState, find_generators
from ..._structure import parent_of, tensors_in
from ..._undo import Undo
from ...probe.find.layers import ProbeError, find_layers
from .structure import places_of
from .tensors import with_tensors


class Line(TypedDict, total=False):
    """A line of a profile. A key without a value is left out."""

    step: int
    check: str
    value: float
    limit: float  # the reference for the value
    where: str  # a module, a parameter or "output"
    detail: str
    declared: str  # the reason to expect another value


class Unmeasured(Exception):
    """Names the reason why something cannot be measured on this model."""


class Calls:
    """The modules that a forward called, in order, with the number of calls and the shapes of inputs."""

    def __init__(self) -> None:
        self.count: Counter[nn.Module] = Counter()
        self.shapes: dict[nn.Module, list[tuple[int, ...]]] = {}
        self.inside: list[nn.Module] = []  # modules whose forward is running, the innermost last

    def enter(self, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        self.inside.append(module)
        self.count[module] += 1
        first = next(tensors_in(inputs), None)
        if first is not None:
            self.shapes.setdefault(module, []).append(tuple(first.shape))

    def leave(self, module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if self.inside and self.inside[-1] is module:
            self.inside.pop()


class Subject:
    """The model, one batch, and the measured lines."""

    def __init__(self, model: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any],
                 loss: Callable[[Any], Tensor] | str | None) -> None:
        self.model, self.inputs, self.named = model, tuple(inputs), dict(named)
        self.loss = Loss(loss, is_of_all=True)
        self.names = {module: name for name, module in model.named_modules()}
        self.parameters = dict(model.named_parameters())
        self.config = getattr(model, "config", None)
        self.sizes = Counter(place for name in self.parameters for place in places_of(name))
        self.runs: list[Calls] = []
        self.rounding: float | None = None  # change of the output by one rounding, if it was measured
        self.shares_batch: bool | None = None  # whether sequences affect each other without a mask, if measured
        self._opaque: set[nn.Module] = set()
        self.lines: list[Line] = []
        self.left_out: list[dict[str, str]] = []
        self._layers = _layer_paths(model)
        self._modes = [(module, module.training) for module in model.modules()]
        self._random = RandomState(find_generators(model))

    # -- Results --

    def add_line(self, check: str, value: float, *, limit: float | None = None, where: str = "", detail: str = "",
                 declared: str = "") -> None:
        """Adds a line to the profile. A value that is not finite cannot be judged, and is left out."""
        if not math.isfinite(value):
            self.leave_out(check, "the model's values are not finite")
            return
        line: Line = {"step": 0, "check": check, "value": float(value)}
        if limit is not None:
            line["limit"] = limit
        if where:
            line["where"] = where
        if detail:
            line["detail"] = detail
        if declared:
            line["declared"] = declared
        self.lines.append(line)

    def leave_out(self, where: str, why: Any) -> None:
        text = str(why).strip().split("\n")[0] or type(why).__name__
        self.left_out.append({"where": where, "why": text})

    @contextlib.contextmanager
    def part(self, where: str) -> Iterator[None]:
        """Records any exception as the reason why something was not measured, because a model's code may raise any
        exception."""
        try:
            yield
        except Exception as error:
            self.leave_out(where, error)

    # -- Layers --

    def layer_of(self, name: str) -> str:
        """Returns the path of the layer that a module or parameter is in, or an empty text."""
        return next((place for place in places_of(name) if place in self._layers), "")

    def of_all_layers(self, name: str) -> str:
        """Returns the name that counterparts in the layers of one list share: "h.3.attn.weight" gives
        "h.*.attn.weight". A name outside of all layers stays as it is."""
        layer = self.layer_of(name)
        return f"{parent_of(layer)}.*{name[len(layer):]}".lstrip(".") if layer else name

    @property
    def is_of_transformers(self) -> bool:
        """Whether the model is a class of transformers, whose configuration describes it."""
        return type(self.model).__module__.startswith("transformers.")

    # -- Running --

    def is_called(self, module: nn.Module) -> bool:
        """Returns whether a forward called the module. A module that takes no hooks counts as called."""
        return module in self._opaque or any(run.count[module] for run in self.runs)

    def run(self, *, evaluate: bool = True, seed: int | None = None,
            inputs: tuple[Any, ...] | None = None, named: dict[str, Any] | None = None,
            watch: Sequence[Callable[[nn.Module, tuple[Any, ...]], None]] = ()) -> Any:
        """Returns the output for the batch or another one. The model runs in evaluation, or in the mode that the caller
        has set. It starts from the caller's random state, or from a seed. Each function of `watch` is called before
        every forward of a module."""
        self._random.restore() if seed is None else torch.manual_seed(seed)
        for module, training in self._modes:
            module.training = training
        if evaluate:
            self.model.eval()
        calls = Calls()
        with Undo() as hooks:
            for module in self.names:
                if not hooks.hook_calls(module, (calls.enter,), (calls.leave,)):
                    self._opaque.add(module)
                for enter in watch:
                    hooks.hook(module, "forward_pre", enter)
            self.runs.append(calls)
            return self.model(*with_tensors(self.inputs if inputs is None else inputs, _copy),
                              **with_tensors(self.named if named is None else named, _copy))

    def where(self) -> str:
        """Returns the name of the innermost module whose forward is running."""
        return self.names[self.runs[-1].inside[-1]] if self.runs[-1].inside else ""

    def given(self) -> dict[str, Any]:
        """Returns the arguments of the batch by their names in the model's forward, others by their positions."""
        names = [p.name for p in self._arguments().values() if p.kind is p.POSITIONAL_OR_KEYWORD]
        names += map(str, range(len(names), len(self.inputs)))
        return {**dict(zip(names, self.inputs)), **self.named}

    def accepts(self, *names: str) -> str | None:
        """Returns the first of these arguments that the model's forward has."""
        known = self._arguments()
        return next((name for name in names if name in known), None)

    def accepts_others(self) -> bool:
        """Returns whether the model's forward takes named arguments that its signature does not list."""
        return any(p.kind is p.VAR_KEYWORD for p in self._arguments().values())

    def _arguments(self) -> Mapping[str, inspect.Parameter]:
        return inspect.signature(self.model.forward).parameters


def cover(subject: Subject, names: Iterable[str], among: Iterable[str]) -> list[str]:
    """Returns the fewest modules and parameters that cover the names. A module replaces its parameters if all of them
    are in `among`."""
    count = Counter(place for name in among for place in places_of(name))
    return list(dict.fromkeys(
        [place for place in places_of(name) if count[place] == subject.sizes[place]][-1] for name in names))


def owner_of(subject: Subject, name: str) -> nn.Module:
    """Returns the module whose forward uses a parameter. nn.MultiheadAttention uses its projection's."""
    place = parent_of(name)
    around = subject.model.get_submodule(parent_of(place))
    return around if isinstance(around, nn.MultiheadAttention) else subject.model.get_submodule(place)


@contextlib.contextmanager
def changed_parameters() -> Iterator[Callable[[Tensor], Any]]:
    """Yields save(parameter), which the caller calls before it changes a parameter in place. It returns this process's
    part of the values. All saved parameters are restored when the `with` statement ends."""
    saved: list[tuple[Tensor, Tensor]] = []

    def save(parameter: Tensor) -> Any:
        values = local_part(parameter.data)
        saved.append((parameter, values.clone()))
        return values

    try:
        yield save
    finally:
        for parameter, values in saved:
            local_part(parameter.data).copy_(values)


def _layer_paths(model: nn.Module) -> set[str]:
    """Returns the paths of the layers that the probe finds. If it finds none by their modules, as for layers that call
    functions of their parameters, these are the elements of all outermost lists of several modules."""
    try:
        found = {element.path for element in find_layers(model, None)[1]} - {""}
    except ProbeError:
        found = set()
    if found:
        return found
    numbered = {name for name, _ in model.named_modules() if name.rpartition(".")[2].isdigit()}
    outermost = {name for name in numbered if not any(place in numbered for place in list(places_of(name))[1:])}
    count = Counter(map(parent_of, outermost))
    return {name for name in outermost if count[parent_of(name)] > 1}


def _copy(tensor: Tensor) -> Tensor:
    return tensor.detach().clone()
