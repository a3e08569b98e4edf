"""Records the operators of a forward pass in a graph.

The recorder is a dispatch mode below autograd. At this level, all layers consist of the same few operators. Recording
does not change the bits of their results.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from ..._sharded import is_sharded, local_part
from ..._structure import tensors_in
from .graph import ALIASES, Event, Graph, Op, Value

WEIGHTS = ("weight", "bias", "in_proj_weight", "in_proj_bias")


@functools.lru_cache(maxsize=None)
def operator_name(function: Any) -> str:
    """Returns an operator's name: "add" for aten::add.Tensor and aten::add_.Tensor. The operators of this package keep
    their namespace, because "addnorm::norm" is not torch.norm."""
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
    """Returns the address of a tensor's storage, or 0 if it has none."""
    try:
        get = getattr(tensor, "untyped_storage", None) or tensor.storage
        return int(get().data_ptr())
    except (RuntimeError, NotImplementedError):
        return 0


class Recorder(TorchDispatchMode):
    """Appends each operator that runs while the mode is active to `graph`."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self._parameters = dict(model.named_parameters())
        self.module = ""  # the path of the innermost module that runs
        self._is_paused = False
        self.clear()

    def clear(self) -> None:
        self.graph = Graph(dict(self._parameters))
        self._names = {id(p): name for name, p in self._parameters.items()}
        self._count = 0
        self._values: Dict[int, Value] = {}  # by the id of their tensor; a value keeps its tensor alive
        self._storages: Dict[int, List[Value]] = {}

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Records nothing within the context: its operators are not part of the model."""
        before, self._is_paused = self._is_paused, True
        try:
            yield
        finally:
            self._is_paused = before

    def add(self, event: Event) -> None:
        self.graph.events.append(event)

    def _new_op(self, name: str, function: Optional[Callable], arguments: Any, named: Any) -> Op:
        self._count += 1
        op = Op(name, function, arguments, named, self.module, self._count)
        self.add(op)
        return op

    def value(self, tensor: Tensor) -> Value:
        """Returns the current value of a tensor."""
        value = self._values.get(id(tensor))
        if value is None:
            part = self._values.get(id(local_part(tensor)))  # the local tensor of a DTensor
            value = self._add(Value(tensor, alias_of=part, parameter=self._names.get(id(tensor))))
        return value

    def add_weights(self, name: str, module: nn.Module) -> None:
        """Adds the weights of a module that are not parameters of the model: FSDP's views into a flat parameter, and
        the gathered weights of fully_shard, which exist until the module ends."""
        plain = [(key, vars(module).get(key)) for key in WEIGHTS]
        for key, tensor in (*plain, *module._parameters.items()):
            if not isinstance(tensor, Tensor) or id(tensor) in self._names:
                continue
            whole = f"{name}.{key}" if name else key
            self._names[id(tensor)] = whole
            self.graph.leaves[whole] = tensor
            if not is_sharded(self.graph.parameters.get(whole, tensor)):
                self.graph.parameters[whole] = tensor
            elif tensor.dim() < 2:
                self.graph.parameters[whole] = tensor.detach().clone()

    def knows(self, tensor: Tensor) -> bool:
        return id(tensor) in self._values

    def add_call(self, module: nn.Module, arguments: Any, outputs: Any) -> None:
        """Adds an Op for the new tensors of a module whose operators could not be observed."""
        new = [t for t in tensors_in(outputs) if not self.knows(t) and id(t) not in self._names]
        if not new:
            return
        op = self._new_op("module", None, [], {})
        op.inputs = [self.value(t) for t in (*tensors_in(arguments), *module.parameters())]
        op.outputs = [self._add(Value(t, op)) for t in new]

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
            value.keep()

    def _replace(self, written: Value, op: Op) -> None:
        """Makes new values for a tensor that `op` overwrote, and for all its views."""
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
