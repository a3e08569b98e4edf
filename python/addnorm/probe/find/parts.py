"""The parts of a network: linear maps, norms, branches, lanes and sums."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import List, NamedTuple, Optional, Union

import torch
from torch import Tensor

from ..._structure import is_within, parent_of
from ..fit.lanes import sampled
from ..fit.values import wide
from ..record.graph import Op, Value


class Place(NamedTuple):
    """The place of an operator: the number of the layer in the forward pass, and the path of the layer's module."""
    layer: Optional[int] = None
    module: str = ""


@dataclass
class Linear:
    """A linear map: a product with a weight."""
    op: Op
    weight: str  # the parameter's name
    is_flipped: bool  # whether the weight is [inputs, outputs]
    input: Value
    output: Value

    def is_biased_by(self, op: Optional[Op]) -> bool:
        """Whether an operator adds a bias to the product."""
        return op is not None and op.name == "add" and any(
            v.root is self.output.root for v in op.inputs) and any(v.parameter for v in op.inputs)


@dataclass
class Norm:
    """A norm: a division of each row by its size."""
    input: Value
    output: Value
    order: int
    module: str  # the path of the module that runs it
    layer: Optional[int]
    gamma: Optional[str] = None  # the name of the parameter γ
    beta: Optional[str] = None
    is_unit: bool = False  # whether y = x/‖x‖, computed with torch.linalg.vector_norm


@dataclass
class Branch:
    """The linear maps that compute one output from the stream."""
    place: Place
    linears: List[Linear] = field(default_factory=list)
    norms: List[Norm] = field(default_factory=list)  # norms of values inside the branch, such as queries
    scores: List[Op] = field(default_factory=list)  # calls of softmax or of fused attention
    mixed_at: int = 0  # the order of the last operator that mixed tokens

    @property
    def is_attention(self) -> bool:
        return self.mixed_at > 0

    @property
    def module(self) -> str:
        """The innermost module that holds all its weights."""
        return common_module([parent_of(linear.weight) for linear in self.linears])

    def absorb(self, other: Branch) -> None:
        """Adds the parts of another branch."""
        self.linears = sorted(self.linears + other.linears, key=lambda linear: linear.op.order)
        self.norms += other.norms
        self.scores += other.scores
        self.mixed_at = max(self.mixed_at, other.mixed_at)

    def has_ended_before(self, module: str, last: Optional[Op]) -> bool:
        """Whether another module of the layer, which reads the output of the operator `last`, begins a new branch. A
        module that reads attention before its output projection is part of this branch."""
        if len(self.linears) < 2 or self.linears[-1].op.order < self.mixed_at or \
                not any(linear.op is last or linear.is_biased_by(last) for linear in self.linears):
            return False
        mine = self.module
        if mine != self.place.module and is_within(mine, self.place.module):
            return not is_within(module, mine)
        return self.is_attention


class Layout(NamedTuple):
    """The layout of lanes in a tensor: [outer, lanes, inner, width]."""
    lanes: int
    inner: int
    width: int

    def rows(self, tensor: Tensor) -> Tensor:
        """Returns [rows, lanes, width], with the rows in the order of a tensor without lanes."""
        t = tensor.reshape(-1, self.lanes, self.inner, self.width)
        return t.transpose(1, 2).reshape(-1, self.lanes, self.width)

    def sample(self, tensor: Tensor) -> Tensor:
        """Returns some of the rows() in float64."""
        t = tensor.reshape(-1, self.lanes, self.inner, self.width)
        at = sampled(t.shape[0] * self.inner).to(t.device)
        return wide(t[torch.div(at, self.inner, rounding_mode="floor"), :, at % self.inner])


@dataclass
class FittedLanes:
    """The states of lanes before and after a sublayer, which a fit recognized."""
    before: Value  # the state before
    layout: Layout  # of `before`
    layout_after: Layout
    is_folded: bool  # whether the lanes before are copies of one row, although the previous site left n


@dataclass
class DeclaredLanes:
    """The lanes before and after one call of a site of addnorm.torch.Stack."""
    before: List[Value]  # a value for each lane, or one for all
    after: List[Value]
    parts: int  # the number of parts of the features that a branch is written in
    grows: bool  # whether sublayers only append lanes and add to the last one
    detached: int = 0  # the number of lanes before that are carried on without a gradient

    @property
    def changed(self) -> List[Value]:
        """The lanes after the site that are none of the lanes before it."""
        known = {value.root for value in self.before}
        return [value for value in self.after if value.root not in known]


@dataclass
class Sum:
    """A sum of the stream and branches. If there is no stream, `total` is the value that the next sublayer reads
    instead of a sum. SumFinder may extend a sum, reopen it or mark it as mixed until the stream ends."""
    total: Value
    stream: Optional[Value]
    branch: Value
    branches: List[Branch]
    lanes: Union[FittedLanes, DeclaredLanes, None] = None  # set if the stream has several lanes
    is_mixed: bool = False  # whether gates or a projection mix the parts, so that neither has one factor

    @property
    def layer(self) -> Optional[int]:
        """The number of the last layer with a branch in the sum."""
        return max((b.place.layer for b in self.branches if b.place.layer is not None), default=None)


def common_module(names: List[str]) -> str:
    """Returns the path of the innermost module that contains all named modules."""
    parts = [name.split(".") for name in names]
    shared = []
    for level in zip(*parts):
        if len(set(level)) > 1:
            break
        shared.append(level[0])
    return ".".join(shared)
