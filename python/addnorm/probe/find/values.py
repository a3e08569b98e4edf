"""Classifies the values of a forward pass by their branches.

A value is part of the stream (x, its norms, its sums), was computed by one or more branches, or does not depend on the
stream (weights, masks, another network's output).
"""

from __future__ import annotations

from typing import Dict, FrozenSet, Iterable, List, Optional, Set

import torch
from torch import Tensor, nn

from ..record.graph import Op, Value
from .operators import FACTORS
from .parts import Branch, Place

Branches = FrozenSet[int]  # numbers of branches; empty for the stream
STREAM: Branches = frozenset()


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
        self._of: Dict[Value, Branches] = {x.root: STREAM}
        self._branches: Dict[int, Branch] = {}
        self._joined: Dict[int, int] = {}  # for each absorbed branch, the branch that absorbed it
        self._ended: Set[int] = set()  # branches that have joined the stream

    # -- Shapes --

    def has_stream_shape(self, value: Value) -> bool:
        x, t = self.x.tensor, value.tensor
        return t.is_floating_point() and t.dim() > 1 and t.numel() == x.numel() and \
            (t.shape[-1] == x.shape[-1] or is_channels_first(t, x.shape))

    def in_stream_shape(self, value: Value) -> Value:
        """Returns the earliest value with the stream's shape that this one is a view of, or the value itself."""
        return [value, *(v for v in value.views() if v.shape == self.x.shape)][-1]

    # -- Branches of values --

    def branches_of(self, value: Value) -> Optional[Branches]:
        """Returns the branches of a value, or None if it does not depend on the stream."""
        found = self._of.get(value.root)
        return None if found is None else frozenset(map(self._find, found))

    def is_stream(self, value: Value) -> bool:
        return self.branches_of(value) == STREAM

    def has_stream(self, value: Value) -> bool:
        return self.is_stream(value) and self.has_stream_shape(value)

    def carries_stream(self, value: Value) -> bool:
        """Whether a layer with this value as input continues the stream."""
        return self.branches_of(value) is not None and self.has_stream_shape(value)

    def is_projected(self, value: Value) -> bool:
        """Whether linear maps between two stages computed it from the stream."""
        branches = self.list_branches(value)
        return bool(branches) and all(branch.place.layer is None for branch in branches)

    def union_of(self, values: Iterable[Value]) -> Branches:
        return STREAM.union(*(self.branches_of(v) or STREAM for v in values))

    def list_branches(self, value: Value) -> List[Branch]:
        return self.branches_numbered(self.branches_of(value) or STREAM)

    def branches_numbered(self, branches: Branches) -> List[Branch]:
        return [self._branches[self._find(number)] for number in sorted(branches)]

    def mark(self, value: Value, branches: Branches) -> None:
        self._of[value.root] = branches

    def mark_as_stream(self, value: Value) -> None:
        """Marks a value, and its multiples that were already computed, as the stream."""
        self._of[value.root] = STREAM
        for op in self.readers.get(value.root, []):
            if op.name in FACTORS and all(not self.branches_of(v) for v in op.inputs):
                self.mark_as_stream(op.outputs[0])

    def mark_made_of(self, ended: Branches, order: int) -> None:
        """Marks the values that were computed only from the branches `ended`, since `order`, as the stream."""
        for root, branches in self._of.items():
            if root.order >= order and frozenset(map(self._find, branches)) <= ended:
                self._of[root] = STREAM

    # -- Branches --

    def begin_branch(self, number: int) -> Branches:
        self._branches[number] = Branch(self.place)
        return frozenset([number])

    def branch(self, number: int) -> Branch:
        return self._branches[number]

    def numbers_of(self, branches: List[Branch]) -> Branches:
        return frozenset(n for n, branch in self._branches.items() if any(branch is b for b in branches))

    def join(self, numbers: Branches) -> int:
        """Unites the branches of the last layer that have not ended. Returns the number of the first one."""
        found = set(map(self._find, numbers))
        live = sorted(found - self._ended or found)
        layers = [-1 if self._branches[n].place.layer is None else self._branches[n].place.layer for n in live]
        return self.unite(n for n, layer in zip(live, layers) if layer == max(layers))

    def unite(self, numbers: Iterable[int]) -> int:
        first, *others = sorted(numbers)
        for other in others:
            self._branches[first].absorb(self._branches.pop(other))
            self._joined[other] = first
        return first

    def end(self, branches: Branches) -> None:
        self._ended |= branches

    def reopen(self, number: int) -> None:
        self._ended.discard(number)

    def open_ones(self, branches: Branches) -> Branches:
        return frozenset(branches - set(map(self._find, self._ended)))

    def _find(self, number: int) -> int:
        while number in self._joined:
            number = self._joined[number]
        return number
