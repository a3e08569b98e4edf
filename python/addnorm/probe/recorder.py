"""Records which operators a forward pass calls, and on which tensors.

It stands below autograd and above the device: layers of any make come down to the same few operators,
and what they compute keeps its bits.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from .._structure import tensors_in
from .._sharded import is_sharded, local_part

# What leaves every number where it is, or only rounds it.
ALIASES = frozenset(
    "view _unsafe_view reshape _reshape_alias transpose t permute unsqueeze squeeze expand clone "
    "contiguous _to_copy to detach alias lift_fresh flatten unflatten slice select movedim".split())


WEIGHTS = ("weight", "bias", "in_proj_weight", "in_proj_bias")


class Value:
    """A tensor as one operator gave it. An operator that writes in place makes a new one."""

    __slots__ = ("tensor", "op", "alias_of", "parameter", "is_flipped", "kept", "is_current")

    def __init__(self, tensor: Tensor, op: Optional[Op] = None, alias_of: Optional[Value] = None,
                 parameter: Optional[str] = None):
        self.tensor, self.op, self.alias_of = tensor, op, alias_of
        self.parameter = parameter  # the name of the one that it is, or is made of alone
        self.is_flipped = False  # a weight [inputs, outputs]
        self.kept: Optional[Tensor] = None  # its numbers, where the tensor has others by now
        self.is_current = True

    @property
    def root(self) -> Value:
        """The first value with these numbers: views and casts are what they are of."""
        value = self
        while value.alias_of is not None:
            value = value.alias_of
        return value

    @property
    def order(self) -> int:
        return 0 if self.op is None else self.op.order

    @property
    def is_within_function(self) -> bool:
        """Whether it was computed without a graph, and no gradient arrives at it: within an autograd.Function,
        such as a reentrant checkpoint, which runs it again in backward, or under torch.no_grad."""
        op = self.root.op
        return op is not None and not op.has_graph and not self.tensor.requires_grad

    @property
    def numbers(self) -> Tensor:
        return self.tensor.detach() if self.kept is None else self.kept

    @property
    def shape(self) -> torch.Size:
        return self.tensor.shape


class Op:
    """A call of an operator, or of a module in which no operator was seen."""

    __slots__ = ("name", "function", "arguments", "named", "inputs", "outputs", "module", "order", "has_graph")

    def __init__(self, name: str, function: Optional[Callable], arguments: Any, named: Any,
                 module: str, order: int):
        self.name, self.function, self.arguments, self.named = name, function, arguments, named
        self.inputs: List[Value] = []
        self.outputs: List[Value] = []
        self.module = module  # the innermost one that was running
        self.order = order
        self.has_graph = torch.is_grad_enabled()  # False in an autograd.Function and under torch.no_grad

    def argument(self, name: str, default: Any = None) -> Any:
        """By its name in the operator's schema; a tensor as its Value."""
        if name in self.named:
            return self.named[name]
        names = argument_names(self.function) if self.function is not None else ()
        at = names.index(name) if name in names else len(self.arguments)
        return self.arguments[at] if at < len(self.arguments) else default


@functools.lru_cache(maxsize=None)
def argument_names(function: Any) -> Tuple[str, ...]:
    return tuple(a.name for a in function._schema.arguments)


@functools.lru_cache(maxsize=None)
def operator_name(function: Any) -> str:
    """"add" of aten::add.Tensor and aten::add_.Tensor; "addnorm::norm" of this package's own, which is not
    torch.norm."""
    namespace, _, name = str(function._schema.name).rpartition("::")
    if namespace == "addnorm":
        return f"{namespace}::{name}"
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


@functools.lru_cache(maxsize=None)
def written_arguments(function: Any) -> Tuple[Tuple[int, str], ...]:
    return tuple((i, a.name) for i, a in enumerate(function._schema.arguments)
                 if a.alias_info is not None and a.alias_info.is_write)


def map_tensors(function: Callable[[Any], Any], things: Any, kind: type = Tensor) -> Any:
    if isinstance(things, kind):
        return function(things)
    if isinstance(things, (list, tuple)):
        return [map_tensors(function, thing, kind) for thing in things]
    if isinstance(things, dict):
        return {key: map_tensors(function, thing, kind) for key, thing in things.items()}
    return things


def storage_of(tensor: Tensor) -> int:
    """Where its numbers are; 0 if that cannot be said."""
    try:
        get = getattr(tensor, "untyped_storage", None) or tensor.storage
        return int(get().data_ptr())
    except (RuntimeError, NotImplementedError):
        return 0


class Recorder(TorchDispatchMode):
    """Calls listener(op) for each operator that ran while it is active, once autograd knows its outputs:
    as soon as the next one begins, or flush() is called."""

    def __init__(self, model: nn.Module, listener: Callable[[Op], None]):
        super().__init__()
        self.parameters: Dict[str, Tensor] = dict(model.named_parameters())
        self.leaves: Dict[str, Tensor] = {}  # the tensors at which gradients arrive, where these are others
        self._names = {id(p): name for name, p in self.parameters.items()}
        self._listener = listener
        self.module = ""  # the innermost one that runs
        self._is_paused = False
        self.clear()

    def clear(self) -> None:
        self.count = 0
        self._last: Optional[Op] = None
        self._values: Dict[int, Value] = {}  # by id: they hold their tensors, so ids stay theirs
        self._storages: Dict[int, List[Value]] = {}

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """What runs here is no part of the model."""
        before, self._is_paused = self._is_paused, True
        try:
            yield
        finally:
            self._is_paused = before

    def flush(self) -> None:
        op, self._last = self._last, None
        if op is not None:
            self._listener(op)

    def forget(self, order: int) -> None:
        """What operators before this one made: their tensors need not be kept for it any longer."""
        kept = [v for v in self._values.values() if v.op is None and v.parameter or v.order >= order]
        self._values, self._storages = {}, {}
        for value in kept:
            self._add(value)

    def _new_op(self, name: str, function: Optional[Callable], arguments: Any, named: Any) -> Op:
        self.flush()
        self.count += 1
        return Op(name, function, arguments, named, self.module, self.count)

    def value(self, tensor: Tensor) -> Value:
        """The tensor as it is now."""
        value = self._values.get(id(tensor))
        if value is None:
            part = self._values.get(id(local_part(tensor)))  # of which a DTensor was made
            value = self._add(Value(tensor, alias_of=part, parameter=self._names.get(id(tensor))))
        return value

    def add_weights(self, name: str, module: nn.Module) -> None:
        """Adds the weights with which a module runs, where these are no parameters of the model: the views of FSDP into
        a larger parameter, and what fully_shard has gathered, which is there until its module ends."""
        plain = [(key, vars(module).get(key)) for key in WEIGHTS]
        for key, tensor in (*plain, *module._parameters.items()):
            if not isinstance(tensor, Tensor) or id(tensor) in self._names:
                continue
            whole = f"{name}.{key}" if name else key
            self._names[id(tensor)] = whole
            self.leaves[whole] = tensor
            if not is_sharded(self.parameters.get(whole, tensor)):
                self.parameters[whole] = tensor
            elif tensor.dim() < 2:
                self.parameters[whole] = tensor.detach().clone()

    def knows(self, tensor: Tensor) -> bool:
        return id(tensor) in self._values

    def add_call(self, module: nn.Module, arguments: Any, outputs: Any) -> None:
        """What a module made of its arguments, where no operator was seen to do it."""
        new = [t for t in tensors_in(outputs) if not self.knows(t) and id(t) not in self._names]
        if not new:
            return
        op = self._new_op("module", None, [], {})
        op.inputs = [self.value(t) for t in (*tensors_in(arguments), *module.parameters())]
        op.outputs = [self._add(Value(t, op)) for t in new]
        self._last = op

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self._is_paused:
            return function(*args, **kwargs)
        op = self._new_op(operator_name(function), function, map_tensors(self.value, args),
                          map_tensors(self.value, kwargs))
        map_tensors(op.inputs.append, (op.arguments, op.named), Value)
        written = [op.arguments[i] if i < len(op.arguments) else op.named.get(name)
                   for i, name in written_arguments(function)]
        written = [value for value in written if isinstance(value, Value)]
        for value in written:
            self._keep_numbers(value)
        result = function(*args, **kwargs)
        for value in written:
            self._replace(value, op)
        for tensor in tensors_in(result):
            if not any(tensor is value.tensor for value in written):
                self._add(self._result(tensor, op))
        self._last = op
        return result

    def _result(self, tensor: Tensor, op: Op) -> Value:
        value = Value(tensor, op)
        source = op.inputs[0] if op.inputs else None
        if source is not None and op.name in ALIASES and source.tensor.numel() == tensor.numel():
            value.alias_of = source
            value.parameter = source.parameter
            value.is_flipped = source.is_flipped ^ (op.name in ("t", "transpose", "permute"))
        elif op.inputs and any(v.parameter for v in op.inputs):
            if all(v.parameter or v.tensor.numel() == 1 for v in op.inputs):
                value.parameter = next(v.parameter for v in op.inputs if v.parameter)
                value.is_flipped = next(v.is_flipped for v in op.inputs if v.parameter)
        op.outputs.append(value)
        return value

    def _add(self, value: Value) -> Value:
        self._values[id(value.tensor)] = value
        self._storages.setdefault(storage_of(value.tensor), []).append(value)
        if is_sharded(value.tensor) and id(local_part(value.tensor)) not in self._values:
            self._add(Value(local_part(value.tensor), alias_of=value))
        return value

    def _sharing(self, value: Value) -> List[Value]:
        storage = storage_of(value.tensor)
        return [v for v in self._storages.get(storage, []) if v.is_current] if storage else [value]

    def _keep_numbers(self, written: Value) -> None:
        for value in self._sharing(written):
            if value.tensor.is_floating_point() and value.tensor.dim() > 1:
                value.kept = value.tensor.detach().clone()

    def _replace(self, written: Value, op: Op) -> None:
        """All views of what was written have new numbers."""
        sharing = self._sharing(written)
        for value in sharing:
            value.is_current = False
        new = Value(written.tensor, op)
        op.outputs.append(new)
        self._add(new)
        for value in sharing:
            if value.tensor is not written.tensor:
                view = Op("view", None, [new, value], {}, op.module, op.order)
                is_whole = value.tensor.numel() == written.tensor.numel()
                view.inputs = [new] if is_whole else [new, value]
                view.outputs = [Value(value.tensor, view, alias_of=new if is_whole else None)]
                self._add(view.outputs[0])
