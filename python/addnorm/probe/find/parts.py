"""The parts of a network that are found: linear maps, norms, branches and sums."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import List, NamedTuple, Optional

from ..._structure import is_within, parent_of
from ..record.graph import Op, Value
from .lanes import LaneSite


class Place(NamedTuple):
    """The place of an operator: the number of the layer in the forward pass, and the path of the layer's module."""
    layer: Optional[int] = None
    module: str = ""


@dataclass
class Linear:
    """A product with a weight."""
    op: Op
    weight: str  # the parameter's name
    is_flipped: bool  # whether the weight is [inputs, outputs]
    read: Value
    gave: Value

    def is_biased_by(self, op: Optional[Op]) -> bool:
        """Whether an operator adds a bias to the product."""
        return op is not None and op.name == "add" and any(
            v.root is self.gave.root for v in op.inputs) and any(v.parameter for v in op.inputs)


@dataclass
class Norm:
    """A division of each row by its size."""
    read: Value
    gave: Value
    order: int
    module: str  # in which it runs
    layer: Optional[int]
    gamma: Optional[str] = None  # the name of the parameter
    beta: Optional[str] = None
    is_unit: bool = False  # y = x/‖x‖, as torch.linalg.vector_norm gives it


@dataclass
class Branch:
    """The linear maps that make one output of the stream."""
    place: Place
    linears: List[Linear] = field(default_factory=list)
    norms: List[Norm] = field(default_factory=list)  # of values inside the branch, such as queries
    scores: List[Op] = field(default_factory=list)  # softmax, or a fused attention
    met: int = 0  # the last operator in which tokens met

    @property
    def is_attention(self) -> bool:
        return self.met > 0

    @property
    def module(self) -> str:
        """The innermost module that holds all its weights."""
        return common_module([parent_of(linear.weight) for linear in self.linears])

    def absorb(self, other: Branch) -> None:
        """Adds the parts of another branch."""
        self.linears = sorted(self.linears + other.linears, key=lambda linear: linear.op.order)
        self.norms += other.norms
        self.scores += other.scores
        self.met = max(self.met, other.met)

    def has_ended_before(self, module: str, last: Optional[Op]) -> bool:
        """Whether another module of its layer, which reads the output of the operator `last`, is no part of the branch.
        A module that reads attention before its output projection is a part."""
        if len(self.linears) < 2 or self.linears[-1].op.order < self.met or \
                not any(linear.op is last or linear.is_biased_by(last) for linear in self.linears):
            return False
        mine = self.module
        if mine != self.place.module and is_within(mine, self.place.module):
            return not is_within(module, mine)
        return self.is_attention


@dataclass
class Sum:
    """A sum of the stream and branches, or, without a stream, the value that is read in place of a sum."""
    total: Value
    stream: Optional[Value]
    branch: Value
    branches: List[Branch]
    lanes: Optional[LaneSite] = None  # if the stream has several
    is_mixed: bool = False  # by gates or a projection: neither part has one factor

    @property
    def layer(self) -> Optional[int]:
        """The last layer that has made a branch of it."""
        return max((b.place.layer for b in self.branches if b.place.layer is not None), default=None)


def common_module(names: List[str]) -> str:
    """The innermost module that holds all of these."""
    parts = [name.split(".") for name in names]
    shared = []
    for level in zip(*parts):
        if len(set(level)) > 1:
            break
        shared.append(level[0])
    return ".".join(shared)
