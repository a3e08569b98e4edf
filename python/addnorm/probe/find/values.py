"""Classifies the values of a forward pass by their branches.

A value is part of the stream (x, its norms, its sums), was computed by one or more branches, or does not depend on the
stream (weights, masks, another network's output).
"""

from __future__ import annotations

from typing import Dict, FrozenSet, Iterable, List, Set

import torch
from torch import Tensor, nn

from ..record.graph import Op, Value
from .operators import FACTORS
from .parts import Branch, Place

BranchIds = FrozenSet[int]  # ids of branches; empty for the stream, and for a value that does not depend on it
STREAM: BranchIds = frozenset()


def is_number(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def is_channels_first(tensor: Tensor, shape: torch.Size) -> bool:
    """Whether a tensor is [batch, features, tokens], the layout of convolutions, for a stream of the shape
    [batch, tokens, features]. Images have two axes of tokens."""
    return len(shape) > 2 and tensor.shape == (shape[0], shape[-1], *shape[1:-1]) and tensor.shape != shape


def features_last(x: Value, layers: Iterable[nn.Module]) -> Value:
    """Returns an image as [batch, rows, columns, features], and a sequence as [batch, tokens, features], if the second
    axis counts input channels of convolutions. In a sequence the last axis may count them as well: then it has the
    features, as in layers that transpose before their convolution."""
    kind = {3: nn.Conv1d, 4: nn.Conv2d}.get(x.tensor.dim())
    if kind is None or x.shape[-1] == x.shape[1]:
        return x
    channels = {m.in_channels for layer in layers for m in layer.modules() if isinstance(m, kind)}
    if x.shape[1] not in channels or kind is nn.Conv1d and x.shape[-1] in channels:
        return x
    return Value(x.tensor.movedim(1, -1), alias_of=x)


class StreamValues:
    """The values of the stream that begins with x."""

    def __init__(self, x: Value) -> None:
        self.x = x
        self.place = Place()  # the place of the current operator
        self.readers: Dict[Value, List[Op]] = {}
        self.projected: Dict[Value, Value] = {}  # branches made orthogonal to the stream: {the result: the branch}
        self._of: Dict[Value, BranchIds] = {x.root: STREAM}
        self._branches: Dict[int, Branch] = {}
        self._joined: Dict[int, int] = {}  # for each absorbed branch, the branch that absorbed it
        self._closed: Set[int] = set()  # branches that have joined the stream

    # -- Shapes --

    def has_stream_shape(self, value: Value) -> bool:
        x, t = self.x.tensor, value.tensor
        return t.is_floating_point() and t.dim() > 1 and t.numel() == x.numel() and \
            (t.shape[-1] == x.shape[-1] or is_channels_first(t, x.shape))

    def in_stream_shape(self, value: Value) -> Value:
        """Returns the earliest value with the stream's shape that this one is a view of, or the value itself."""
        return [value, *(v for v in value.views() if v.shape == self.x.shape)][-1]

    # -- Branches of values --

    def depends_on_stream(self, value: Value) -> bool:
        return value.root in self._of

    def ids_of(self, value: Value) -> BranchIds:
        """Returns the ids of the branches that computed a value."""
        return frozenset(map(self._find, self._of.get(value.root, STREAM)))

    def is_stream(self, value: Value) -> bool:
        return self.depends_on_stream(value) and not self.ids_of(value)

    def has_stream(self, value: Value) -> bool:
        return self.is_stream(value) and self.has_stream_shape(value)

    def is_projected(self, value: Value) -> bool:
        """Whether linear maps between two stages computed it from the stream."""
        branches = self.branches_of(value)
        return bool(branches) and all(branch.place.layer is None for branch in branches)

    def ids_of_any(self, values: Iterable[Value]) -> BranchIds:
        return STREAM.union(*map(self.ids_of, values))

    def branches_of(self, value: Value) -> List[Branch]:
        return self.branches_with(self.ids_of(value))

    def branches_with(self, ids: BranchIds) -> List[Branch]:
        return [self._branches[self._find(id)] for id in sorted(ids)]

    def mark(self, value: Value, ids: BranchIds) -> None:
        self._of[value.root] = ids

    def mark_as_stream(self, value: Value) -> None:
        """Marks a value, and its multiples that were already computed, as the stream."""
        self._of[value.root] = STREAM
        for op in self.readers.get(value.root, []):
            if op.name in FACTORS and not any(map(self.ids_of, op.inputs)):
                self.mark_as_stream(op.outputs[0])

    def mark_made_of(self, ended: BranchIds, order: int) -> None:
        """Marks the values that were computed only from the branches `ended`, since `order`, as the stream."""
        for root, ids in self._of.items():
            if root.order >= order and frozenset(map(self._find, ids)) <= ended:
                self._of[root] = STREAM

    # -- Branches --

    def begin_branch(self, id: int) -> BranchIds:
        self._branches[id] = Branch(self.place)
        return frozenset([id])

    def branch_with(self, id: int) -> Branch:
        return self._branches[id]

    def ids_of_branches(self, branches: List[Branch]) -> BranchIds:
        return frozenset(id for id, branch in self._branches.items() if any(branch is b for b in branches))

    def join(self, ids: BranchIds) -> int:
        """Unites the open branches of the last layer. Returns the id of the first one."""
        found = set(map(self._find, ids))
        live = sorted(found - self._closed or found)
        layers = [-1 if self._branches[id].place.layer is None else self._branches[id].place.layer for id in live]
        return self.unite(id for id, layer in zip(live, layers) if layer == max(layers))

    def unite(self, ids: Iterable[int]) -> int:
        first, *others = sorted(ids)
        for other in others:
            self._branches[first].absorb(self._branches.pop(other))
            self._joined[other] = first
        return first

    def close(self, ids: BranchIds) -> None:
        self._closed |= ids

    def reopen(self, id: int) -> None:
        self._closed.discard(id)

    def open_ones(self, ids: BranchIds) -> BranchIds:
        return frozenset(ids - set(map(self._find, self._closed)))

    def _find(self, id: int) -> int:
        while id in self._joined:
            id = self._joined[id]
        return id
