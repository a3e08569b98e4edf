"""The graph of one forward pass: values, the operators that made them, and the modules that ran."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

import torch
from torch import Tensor, nn

# Operators that leave every number where it is, or only round it.
ALIASES = frozenset(
    "view _unsafe_view reshape _reshape_alias transpose t permute unsqueeze squeeze expand clone "
    "contiguous _to_copy to detach alias lift_fresh flatten unflatten slice select movedim".split())

FLATTENING = frozenset("view _unsafe_view reshape _reshape_alias unsqueeze squeeze flatten unflatten alias".split())

# The node of PyTorch's graph that made a tensor, and which of the node's outputs it is.
GraphEdge = Tuple[Any, int]


class Value:
    """A tensor as one operator gave it. An operator that writes in place makes a new value."""

    __slots__ = ("tensor", "op", "alias_of", "parameter", "is_flipped", "kept", "is_current", "_edge")

    def __init__(self, tensor: Tensor, op: Optional[Op] = None, alias_of: Optional[Value] = None,
                 parameter: Optional[str] = None):
        self.tensor, self.op, self.alias_of = tensor, op, alias_of
        self.parameter = parameter  # the name of the parameter that it is, or is computed of alone
        self.is_flipped = False  # whether it is a weight [inputs, outputs]
        self.kept: Optional[Tensor] = None  # its numbers, if the tensor has others by now
        self.is_current = True
        self._edge: Optional[GraphEdge] = None

    @property
    def root(self) -> Value:
        """The first value with these numbers, of which this one is a view or a cast."""
        value = self
        while value.alias_of is not None:
            value = value.alias_of
        return value

    @property
    def order(self) -> int:
        return 0 if self.op is None else self.op.order

    @property
    def is_within_function(self) -> bool:
        """Whether it was computed without a graph, so that no gradient arrives at it: within an autograd.Function such
        as a reentrant checkpoint, which runs it again in backward, or under torch.no_grad."""
        op = self.root.op
        return op is not None and not op.has_graph and not self.tensor.requires_grad

    @property
    def numbers(self) -> Tensor:
        return self.tensor.detach() if self.kept is None else self.kept

    @property
    def shape(self) -> torch.Size:
        return self.tensor.shape

    @property
    def edge(self) -> Optional[GraphEdge]:
        """The place in PyTorch's graph at which its gradient arrives; None for a leaf, and without a graph."""
        if not self.is_current:
            return self._written._edge
        node = self.tensor.grad_fn
        return None if node is None else (node, self.tensor.output_nr)

    @property
    def has_lost_edge(self) -> bool:
        """Whether its gradient arrives nowhere in this order, because something was written over a view."""
        return not self.is_current and self._written.alias_of is not None

    @property
    def _written(self) -> Value:
        """The value whose node is still in the graph after something was written over a view of it. PyTorch takes the
        nodes of such views out of the graph."""
        value = self
        while value.alias_of is not None and value.op is not None and value.op.name in FLATTENING:
            value = value.alias_of
        return value

    def keep(self) -> None:
        """Keeps its numbers and its place in the graph, because something is written over its tensor next."""
        self._edge = self.edge
        if self.tensor.is_floating_point() and self.tensor.dim() > 1:
            self.kept = self.tensor.detach().clone()


class Op:
    """A call of an operator, or of a module in which no operator was seen."""

    __slots__ = ("name", "function", "arguments", "named", "inputs", "outputs", "module", "order", "has_graph")

    def __init__(self, name: str, function: Optional[Callable], arguments: Any, named: Any,
                 module: str, order: int):
        self.name, self.function, self.arguments, self.named = name, function, arguments, named
        self.inputs: List[Value] = []
        self.outputs: List[Value] = []
        self.module = module  # the innermost module that was running
        self.order = order
        self.has_graph = torch.is_grad_enabled()  # False in an autograd.Function and under torch.no_grad

    def argument(self, name: str, default: Any = None) -> Any:
        """An argument by its name in the operator's schema; a tensor as its Value."""
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
    """A module begins. inputs: its floating-point arguments of two dimensions or more."""
    name: str
    inputs: List[Value]


@dataclass
class Leave:
    """A module ends. inputs: its arguments as they are now; outputs: what it returned."""
    name: str
    module: nn.Module
    inputs: List[Value]
    outputs: List[Value]


Event = Union[Op, Enter, Leave]


@dataclass
class Graph:
    """All that one forward pass did, in order."""
    parameters: Dict[str, Tensor]  # by name; gathered ones if the model is sharded
    leaves: Dict[str, Tensor] = field(default_factory=dict)  # tensors at which the gradients of parameters arrive
    events: List[Event] = field(default_factory=list)
    output: Any = None  # what the model returned
    outputs: List[Value] = field(default_factory=list)  # the tensors in it
    keeps_graph: bool = True  # whether the model was called with gradients
