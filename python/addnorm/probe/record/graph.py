"""The graph of one forward pass: values, the operators that made them, and the modules that ran."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, Union

import torch
from torch import Tensor, nn

# Operators that only change a tensor's view, layout or type.
ALIASES = frozenset(
    "view _unsafe_view reshape _reshape_alias transpose t permute unsqueeze squeeze expand clone "
    "contiguous _to_copy to detach alias lift_fresh flatten unflatten slice select movedim".split())

FLATTENING = frozenset("view _unsafe_view reshape _reshape_alias unsqueeze squeeze flatten unflatten alias".split())

# (node of PyTorch's graph, index of the node's output): the origin of a tensor.
GraphEdge = Tuple[Any, int]


class Value:
    """A tensor as one operator returned it. An operator that writes in place makes a new value."""

    __slots__ = ("tensor", "op", "alias_of", "parameter", "is_flipped", "kept", "is_current", "_edge")

    def __init__(self, tensor: Tensor, op: Optional[Op] = None, alias_of: Optional[Value] = None,
                 parameter: Optional[str] = None):
        self.tensor, self.op, self.alias_of = tensor, op, alias_of
        self.parameter = parameter  # the name of the parameter that it is, or that it is computed from
        self.is_flipped = False  # True for a weight [inputs, outputs]
        self.kept: Optional[Tensor] = None  # a copy of its numbers, if the tensor was overwritten
        self.is_current = True
        self._edge: Optional[GraphEdge] = None

    def views(self) -> Iterator[Value]:
        """Yields the value itself, and then the values that it is a view or cast of."""
        value: Optional[Value] = self
        while value is not None:
            yield value
            value = value.alias_of

    @property
    def root(self) -> Value:
        """The first value with these numbers; this value is that one, or a view or cast of it."""
        *_, first = self.views()
        return first

    @property
    def order(self) -> int:
        return 0 if self.op is None else self.op.order

    @property
    def is_within_function(self) -> bool:
        """Whether it was computed without a graph, so that it gets no gradient: within an autograd.Function, such as a
        reentrant checkpoint, or under torch.no_grad."""
        op = self.root.op
        return op is not None and not op.has_graph and not self.tensor.requires_grad

    @property
    def recorded(self) -> Tensor:
        """The numbers that the operator returned."""
        return self.tensor.detach() if self.kept is None else self.kept

    @property
    def shape(self) -> torch.Size:
        return self.tensor.shape

    @property
    def edge(self) -> Optional[GraphEdge]:
        """The edge of PyTorch's graph that carries its gradient. None for a leaf, and without a graph."""
        if not self.is_current:
            return self._written._edge
        node = self.tensor.grad_fn
        return None if node is None else (node, self.tensor.output_nr)

    @property
    def has_lost_edge(self) -> bool:
        """Whether no edge of the graph carries its gradient in its own layout: a view of it was overwritten."""
        return not self.is_current and self._written.alias_of is not None

    @property
    def _written(self) -> Value:
        """The value whose node remains in the graph after PyTorch removed the node of an overwritten view."""
        return next(v for v in self.views() if v.alias_of is None or v.op is None or v.op.name not in FLATTENING)

    def keep(self) -> None:
        """Copies its numbers and its edge, because its tensor is about to be overwritten."""
        self._edge = self.edge
        if self.tensor.is_floating_point() and self.tensor.dim() > 1:
            self.kept = self.tensor.detach().clone()


class Op:
    """A call of an operator, or of a module whose operators could not be observed."""

    __slots__ = ("name", "function", "arguments", "named", "inputs", "outputs", "module", "order", "has_graph")

    def __init__(self, name: str, function: Optional[Callable], arguments: Any, named: Any, module: str, order: int):
        self.name, self.function, self.arguments, self.named = name, function, arguments, named
        self.inputs: List[Value] = []
        self.outputs: List[Value] = []
        self.module = module  # the innermost module that was running
        self.order = order
        self.has_graph = torch.is_grad_enabled()  # False within an autograd.Function and under torch.no_grad

    def argument(self, name: str, default: Any = None) -> Any:
        """Returns an argument by its name in the operator's schema. A tensor is returned as its Value."""
        if name in self.named:
            return self.named[name]
        names = argument_names(self.function) if self.function is not None else ()
        at = names.index(name) if name in names else len(self.arguments)
        return self.arguments[at] if at < len(self.arguments) else default


@functools.lru_cache(maxsize=None)
def argument_names(function: Any) -> Tuple[str, ...]:
    return tuple(a.name for a in function._schema.arguments)


@dataclass
class Enter:
    """The begin of a module's call. inputs: its floating-point arguments of two dimensions or more."""
    name: str
    inputs: List[Value]


@dataclass
class Leave:
    """The end of a module's call. inputs: its arguments, with their current numbers; outputs: its results."""
    name: str
    module: nn.Module
    inputs: List[Value]
    outputs: List[Value]


Event = Union[Op, Enter, Leave]


@dataclass
class Graph:
    """The events of one forward pass, in order."""
    parameters: Dict[str, Tensor]  # by name; gathered if the model is sharded
    leaves: Dict[str, Tensor] = field(default_factory=dict)  # tensors that get the gradients of parameters
    events: List[Event] = field(default_factory=list)
    output: Any = None  # the model's return value
    outputs: List[Value] = field(default_factory=list)  # the tensors in `output`
    keeps_graph: bool = True  # whether gradients were enabled when the model was called
