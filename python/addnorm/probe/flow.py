"""Follows the residual stream through the operators of a forward pass: which linear maps belong together,
where norms stand, and what is added to the stream.

A value is of the stream alone (x, its norms, sums), or made by one or more branches, or comes from
elsewhere (weights, masks, another network's output). Linear maps begin branches, attention and products
join them, and a sum with the stream ends them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Callable, Dict, FrozenSet, Iterable, List, Optional, Sequence, Set, Tuple

import torch
from torch import nn

from .._structure import is_within, parent_of
from .lanes import LaneSite
from .norm_finder import NORMS, SCALING, Norm, NormFinder
from .recorder import Op, Value

LINEAR = frozenset("mm addmm bmm baddbmm matmul linear convolution mkldnn_convolution _grouped_mm "
                   "_convolution mv addmv module _scaled_mm mkldnn_linear grouped_mm grouped_mm_fallback".split())
BIASED = frozenset("addmm baddbmm addmv".split())  # whose first argument is added to the product of the others
PRODUCT = frozenset("bmm baddbmm matmul mm".split())
FUSED_ATTENTION = "_scaled_dot_product"
SHAPED_LIKE = frozenset("empty_like zeros_like ones_like full_like rand_like randn_like new_zeros "
                        "new_empty new_ones new_full bernoulli".split())
RANDOM = frozenset("bernoulli rand rand_like uniform".split())
REORDERING = frozenset("roll flip constant_pad_nd".split())  # of tokens
SOFTMAX = frozenset(["_softmax", "_safe_softmax"])
MIXING = SCALING | NORMS | frozenset(
    "addcmul lerp where scatter scatter_add index_add index_copy index_put masked_fill masked_scatter native_dropout "
    "cat stack slice sum split split_with_sizes addmm baddbmm".split())
MOST_MIXED = 12  # operators between the stream and such a sum

Branches = FrozenSet[int]
STREAM: Branches = frozenset()


@dataclass
class Linear:
    """A product with a weight."""
    op: Op
    weight: str  # the parameter's name
    is_flipped: bool  # whether the weight is [inputs, outputs]
    read: Value
    gave: Value

    def is_biased_by(self, op: Optional[Op]) -> bool:
        """Whether an operator adds a bias to what it gave."""
        return op is not None and op.name == "add" and any(
            v.root is self.gave.root for v in op.inputs) and any(v.parameter for v in op.inputs)


@dataclass
class Branch:
    """Linear maps that make one output of the stream."""
    layer: Optional[int]
    layer_module: str
    linears: List[Linear] = field(default_factory=list)
    norms: List[Norm] = field(default_factory=list)  # of what they make, such as queries
    scores: List[Op] = field(default_factory=list)  # softmax, or a fused attention
    met: int = 0  # the last operator in which tokens met

    @property
    def is_attention(self) -> bool:
        return self.met > 0

    @property
    def module(self) -> str:
        """The innermost one that holds all its weights."""
        return common_module([parent_of(linear.weight) for linear in self.linears])

    def absorb(self, other: Branch) -> None:
        """The other is a part of it."""
        self.linears = sorted(self.linears + other.linears, key=lambda linear: linear.op.order)
        self.norms += other.norms
        self.scores += other.scores
        self.met = max(self.met, other.met)

    def has_ended_before(self, module: str, last: Optional[Op]) -> bool:
        """Whether another module of its layer, which reads what its operator `last` gave, is no part
        of it: one that reads attention before its output projection is."""
        if len(self.linears) < 2 or self.linears[-1].op.order < self.met or \
                not any(linear.op is last or linear.is_biased_by(last) for linear in self.linears):
            return False
        mine = self.module
        if mine != self.layer_module and is_within(mine, self.layer_module):
            return not is_within(module, mine)
        return self.is_attention


@dataclass
class Sum:
    """Where branches join the stream, or, without one, what is read in place of a sum."""
    total: Value
    stream: Optional[Value]
    branch: Value
    branches: List[Branch]
    lanes: Optional[LaneSite] = None  # where the stream has several
    is_mixed: bool = False  # by gates or a projection: neither part has one factor


def is_number(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def is_channels_first(tensor: torch.Tensor, shape: torch.Size) -> bool:
    """Whether it is [batch, features, tokens], as convolutions have it, of [batch, tokens, features]; of an image
    with rows and columns of tokens."""
    return len(shape) > 2 and tensor.shape == (shape[0], shape[-1], *shape[1:-1]) and tensor.shape != shape


def features_last(x: Value, layers: Iterable[nn.Module]) -> Value:
    """[batch, rows, columns, features] of an image, where layers have convolutions of it."""
    if x.tensor.dim() != 4 or x.shape[-1] == x.shape[1]:
        return x
    channels = {m.in_channels for layer in layers for m in layer.modules() if isinstance(m, nn.Conv2d)}
    if x.shape[1] not in channels:
        return x
    return Value(x.tensor.movedim(1, -1), alias_of=x)


def common_module(names: List[str]) -> str:
    """The innermost module that holds them all."""
    parts = [name.split(".") for name in names]
    shared = []
    for level in zip(*parts):
        if len(set(level)) > 1:
            break
        shared.append(level[0])
    return ".".join(shared)


class Flow:
    """What operators do with a stream that begins with start()."""

    lanes = 0  # of the stream, where it has several
    lost: Sequence[str] = ()  # layers with a sum of lanes that was not understood

    def __init__(self, on_sum: Callable[[Sum], None]):
        self.on_sum = on_sum
        self.layer: Optional[int] = None  # the one that runs
        self.layer_module = ""
        self.x: Optional[Value] = None

    def start(self, x: Value) -> None:
        self.x = x
        self._norms = NormFinder(self)
        self.linears: List[Linear] = []
        self._of: Dict[Value, Branches] = {x.root: STREAM}
        self._branches: Dict[int, Branch] = {}
        self._joined: Dict[int, int] = {}
        self._ended: Set[int] = set()  # branches that have joined the stream
        self.readers: Dict[Value, List[Op]] = {}
        self._without_stream: Dict[Value, Sum] = {}  # what was read in place of a sum
        self._over_norms: Dict[Value, Sum] = {}  # sums of a norm's output, by their totals
        self._sum_of: Dict[Value, Sum] = {}  # all sums, by their totals
        self._last: Optional[Sum] = None

    def forget(self, order: int) -> None:
        """What operators before this one made."""
        for values in (self._of, self.readers, self._without_stream, self._over_norms, self._sum_of):
            for value in [v for v in values if v.order < order and v is not self.x.root]:
                del values[value]
        self._norms.forget(order)
        self.linears = [linear for linear in self.linears if linear.op.order >= order]

    @property
    def norms(self) -> List[Norm]:
        return self._norms.found

    def add_norm(self, read: Value, gave: Value, module: str, gamma: Optional[str], beta: Optional[str]) -> None:
        """What a module did that is called a norm."""
        self._norms.add_call(read, gave, module, gamma, beta)

    # -- What values are --

    def branches_of(self, value: Value) -> Optional[Branches]:
        """None: it does not depend on the stream."""
        found = self._of.get(value.root)
        return None if found is None else frozenset(map(self._find, found))

    def is_stream(self, value: Value) -> bool:
        return self.branches_of(value) == STREAM

    def has_stream_shape(self, value: Value) -> bool:
        x, t = self.x.tensor, value.tensor
        return t.is_floating_point() and t.dim() > 1 and t.numel() == x.numel() and \
            (t.shape[-1] == x.shape[-1] or is_channels_first(t, x.shape))

    def has_stream(self, value: Value) -> bool:
        return self.is_stream(value) and self.has_stream_shape(value)

    def carries_stream(self, value: Value) -> bool:
        """Whether a layer that takes it goes on with the stream."""
        return self.branches_of(value) is not None and self.has_stream_shape(value)

    def is_projected(self, value: Value) -> bool:
        """Whether linear maps between two stages have made it of the stream."""
        branches = self.list_branches(value)
        return bool(branches) and all(branch.layer is None for branch in branches)

    def is_end(self, value: Value, leaves: Value) -> bool:
        """Whether it is the stream that the last sublayer leaves."""
        return value.root is leaves.root

    def upright(self, value: Value) -> Value:
        """With its tokens in the stream's order, where a view of it has them so."""
        found = value
        while value is not None:
            if value.tensor.shape == self.x.tensor.shape:
                found = value
            value = value.alias_of
        return found

    def list_branches(self, value: Value) -> List[Branch]:
        return self._list(self.branches_of(value) or STREAM)

    def norm_at(self, value: Value) -> Optional[Norm]:
        """The norm whose output it is."""
        return self._norms.at(value)

    def _find(self, number: int) -> int:
        while number in self._joined:
            number = self._joined[number]
        return number

    def _list(self, state: Branches) -> List[Branch]:
        return [self._branches[self._find(number)] for number in sorted(state)]

    def _join(self, numbers: Branches) -> int:
        """Those of the last layer that have not ended, in its first one."""
        found = set(map(self._find, numbers))
        live = sorted(found - self._ended or found)
        layers = [-1 if self._branches[n].layer is None else self._branches[n].layer for n in live]
        return self._unite(n for n, layer in zip(live, layers) if layer == max(layers))

    def _unite(self, numbers: Iterable[int]) -> int:
        """In the first one."""
        first, *others = sorted(numbers)
        for other in others:
            self._branches[first].absorb(self._branches.pop(other))
            self._joined[other] = first
        return first

    # -- One operator --

    def take(self, op: Op) -> None:
        if self.x is None or not op.outputs or op.name in SHAPED_LIKE:
            return
        inputs = [v for v in op.inputs if self.branches_of(v) is not None]
        outputs = [v for v in op.outputs if v.alias_of is None and is_number(v.tensor)]
        if not inputs or not outputs:
            return
        for value in inputs:
            self.readers.setdefault(value.root, []).append(op)
        linear = self._linear(op, inputs)
        if linear is not None:
            state = self._run_linear(linear)
        elif self._add(op, inputs, outputs[0]):
            return
        else:
            state = frozenset().union(*(self.branches_of(v) or STREAM for v in inputs))
            self._meet(op, inputs, state)
            self._excuse_difference(op, inputs)
            is_sum = op.name == "add" and all(map(self.has_stream_shape, inputs))
            if len(state) > 1 and not is_sum:
                state = frozenset([self._join(state)])
        for value in outputs:
            self._of[value] = state
        if linear is None:
            self._norms.take(op, inputs, outputs)

    def _linear(self, op: Op, inputs: List[Value]) -> Optional[Linear]:
        if op.name not in LINEAR:
            return None
        weights = [v for v in op.inputs if v.parameter and v.tensor.dim() > 1
                   and self.branches_of(v) is None]
        if not weights:
            return None
        weight = weights[-1]
        read = next((v for v in inputs if v is not op.inputs[0]), inputs[0]) if op.name in BIASED else inputs[0]
        return Linear(op, str(weight.parameter), not weight.is_flipped, read, op.outputs[0])

    def _run_linear(self, linear: Linear) -> Branches:
        state = self.branches_of(linear.read) or STREAM
        if not state and self._rejoins(linear):
            return STREAM
        self.linears.append(linear)
        if state and self._has_ended(state, linear):
            self._end_without_stream(linear.read, state)
            state = STREAM
        elif all(branch.layer != self.layer for branch in self._list(state)):
            state = STREAM  # what a layer hands to the next beside the stream, as routers do
        if not state:
            number = linear.op.order
            self._branches[number] = Branch(self.layer, self.layer_module)
            state = frozenset([number])
        number = self._join(state)
        self._branches[number].linears.append(linear)
        return frozenset([number])

    def _rejoins(self, linear: Linear) -> bool:
        """Whether a layer begins with it, as those of a U-net do that read skips: it makes a stream of what
        was concatenated to it."""
        stands_in_layer = parent_of(parent_of(linear.weight)) == self.layer_module
        return stands_in_layer and linear.read.tensor.numel() > self.x.tensor.numel() and \
            linear.read.shape[:-1] == linear.gave.shape[:-1] and self.has_stream_shape(linear.gave)

    def _meet(self, op: Op, inputs: List[Value], state: Branches) -> None:
        """Tokens meet in products of values and in attention."""
        is_fused = op.name.startswith(FUSED_ATTENTION)
        made = [v for v in op.inputs if not v.parameter or self.branches_of(v) is not None]  # learned latents too
        is_product = op.name in PRODUCT and len(made) > 1
        if not state or not (is_fused or is_product or op.name in SOFTMAX):
            return
        if not is_fused and not is_product:
            branch = self._list(state)[0]
            dim = op.argument("dim")
            if branch.is_attention and dim in (-1, inputs[0].tensor.dim() - 1):
                branch.scores.append(op)
            return
        branch = self._branches[self._join(state)]
        branch.met = op.order
        if is_fused:
            branch.scores.append(op)

    # -- Sums --

    def _add(self, op: Op, inputs: List[Value], total: Value) -> bool:
        """Whether it adds branches to the stream."""
        if op.name not in ("add", "sub", "lerp") or len(inputs) != 2 or \
                not all(map(self.has_stream_shape, [*inputs, total])):
            return False
        for value, other in (inputs, inputs[::-1]):
            ended = self._without_stream.pop(value.root, None)
            if ended is not None and self.is_stream(other):  # it was read before it was added
                ended.total, ended.stream = total, other
                self._of[total.root] = STREAM
                self._sum_of[total.root] = ended
                return True
        states = [self.branches_of(v) for v in inputs]
        if states == [STREAM, STREAM]:
            self._excuse_inner(inputs)
            return self._add_again(inputs, total) or self._add_adapted(inputs, total)
        if states[0] == states[1] and self._add_to_convolved(inputs, total):
            return True
        if (states[0] == STREAM) == (states[1] == STREAM):
            return False
        stream, branch = inputs if states[0] == STREAM else inputs[::-1]
        if op.name == "sub" and stream is inputs[1]:  # f − x, on the way to x + r·(f − x)
            return False
        if self._is_gated_stream(branch, stream):
            return False
        for read in [b.linears[0].read for b in self.list_branches(branch)]:
            if read.root in self._sum_of and self._reopen(read, stream):
                self._unite(self.branches_of(branch) | self.branches_of(read))
        self._end(Sum(total, stream, branch, self.list_branches(branch)))
        return True

    def _add_again(self, inputs: List[Value], total: Value) -> bool:
        """x + (x + f): the stream of a sum that nobody has read, once more."""
        last = self._last
        if last is None or last.stream is None or len(self.readers.get(last.total.root, [])) > 1:
            return False
        if {v.root for v in inputs} != {last.total.root, last.stream.root}:
            return False
        last.total = total
        self._of[total.root] = STREAM
        self._sum_of[total.root] = last
        return True

    def _add_adapted(self, inputs: List[Value], total: Value) -> bool:
        """x + (f + a(f)): the branch f has a residual of its own, as behind serial adapters."""
        for branch, stream in (inputs, inputs[::-1]):
            if self._reopen(branch, stream):
                self._end(Sum(total, stream, branch, self.list_branches(branch)))
                return True
        return False

    def _reopen(self, value: Value, stream: Value) -> bool:
        """Whether `value` was made of a branch that was taken for ended, because a module read it before it was
        added. As an older stream is added only now, that branch and what was added to it are one branch."""
        sums, values = self._way_back(value)
        branches = [branch for s in sums for branch in s.branches]
        begin = min((linear.op.order for branch in branches for linear in branch.linears), default=0)
        if not is_older(stream, begin) or any(branch.layer != self.layer for branch in branches):
            return False
        number = self._unite(n for n, branch in self._branches.items() if any(branch is b for b in branches))
        self._ended.discard(number)
        for other in values:
            self._of[other.root] = frozenset([number])
        for s in sums:
            s.branches = []
            self._without_stream.pop(s.total.root, None)
        return True

    def _way_back(self, value: Value) -> Tuple[List[Sum], List[Value]]:
        """The sums, factors and norms that have made a value of a branch that ended without a stream: the sums, and
        all values on the way. Both are empty if there is no such branch."""
        sums: List[Sum] = []
        values: List[Value] = []
        at: Optional[Value] = value
        while at is not None:
            values.append(at)
            found = self._sum_of.get(at.root)
            if found is not None:
                sums.append(found)
                if found.stream is None:
                    read = found.branches[0].linears[0].read
                    before, others = self._way_back(read) if read.root in self._sum_of else ([], [])
                    return sums + before, values + others
            at = self._before_factor(at) if found is None else found.stream
        return [], []

    def _before_factor(self, value: Value) -> Optional[Value]:
        norm = self.norm_at(value)
        if norm is not None:
            return norm.read
        op = value.root.op
        if op is None or op.name not in ("mul", "div", "native_dropout"):
            return None
        return next((v for v in op.inputs if self.is_stream(v) and self.has_stream_shape(v)), None)

    def _add_to_convolved(self, inputs: List[Value], total: Value) -> bool:
        """c + f(c), where c is a convolution of the stream, as between the sublayers of TinyViT: c is the stream."""
        branches = self._list(self.branches_of(inputs[0]) or STREAM)
        first, *rest = branches[0].linears if len(branches) == 1 else [None]
        if not rest or "convolution" not in first.op.name or not self.is_stream(first.read):
            return False
        stream, branch = sorted(inputs, key=lambda v: v.root.order)
        if not first.op.order <= stream.root.order < rest[0].op.order or self.norm_at(first.read):
            return False
        branches[0].linears = rest
        self._settle(stream)
        self._end(Sum(total, stream, branch, branches))
        return True

    def _is_gated_stream(self, branch: Value, stream: Value) -> bool:
        """x + x·g(x): a product with the stream is the stream's own, as in x·(1 + g)."""
        op = branch.root.op
        return op is not None and op.name == "mul" and any(
            v.root is stream.root for v in op.inputs)

    def _end(self, ended: Sum) -> None:
        self._ended |= self.branches_of(ended.branch) or STREAM
        self._of[ended.total.root] = STREAM
        self._sum_of[ended.total.root] = ended
        self._last = ended
        if ended.stream is not None and self.norm_at(ended.stream) is not None:
            self._over_norms[ended.total.root] = ended
        self.on_sum(ended)

    def _has_ended(self, state: Branches, linear: Linear) -> bool:
        """Whether a linear map reads what branches have finished: then no sum stands between."""
        if not self.has_stream_shape(linear.read):
            return False
        module = parent_of(linear.weight)
        last = peel(in_order(peel(linear.read, self)[-1][0]), self)[-1][0].root.op
        return all(branch.layer != self.layer or branch.has_ended_before(module, last)
                   for branch in self._list(state))

    def _end_without_stream(self, read: Value, state: Branches) -> None:
        norm = self.norm_at(read)
        total = self.upright(read if norm is None else norm.read)
        stream = self._stream_within(total)
        ended = Sum(total, stream, total, self._list(state), is_mixed=stream is not None)
        if stream is None:
            self._without_stream[total.root] = ended
        else:
            self._excuse_gated(ended)
        self._ended |= state
        self._settle(total)
        if norm is not None:
            self._settle(norm.gave)
        self._end(ended)

    def _excuse_inner(self, inputs: List[Value]) -> None:
        """A sum h + f of a norm's output h that is added to the stream in its turn, as LAuReL's, is a branch."""
        for value, other in (inputs, inputs[::-1]):
            inner = self._over_norms.get(value.root)
            if inner is not None and inner.stream is not None and other.root is not inner.stream.root:
                inner.is_mixed = True

    def _excuse_difference(self, op: Op, inputs: List[Value]) -> None:
        """x − f that a gate multiplies next, as in the GRU's f + z ⊙ (x − f), is no sum of the stream."""
        last = self._last
        if op.name != "mul" or last is None or last.total.op is None or last.total.op.name != "sub":
            return
        if any(v.root is last.total.root for v in inputs) and any(self.branches_of(v) for v in inputs):
            last.is_mixed = True

    def _excuse_gated(self, mixed: Sum) -> None:
        """A branch that was read in place of a sum was read by the gate of this one."""
        read = {linear.read.root for branch in mixed.branches for linear in branch.linears}
        for root in read & self._without_stream.keys():
            gated = self._without_stream.pop(root)
            gated.stream, gated.is_mixed = mixed.stream, True

    def _stream_within(self, value: Value, depth: int = MOST_MIXED) -> Optional[Value]:
        """The stream that gates have mixed with branches, as z ⊙ x + (1 − z) ⊙ f, to which some tokens' branches
        are added, or that a linear map has projected before the sum, W·x + f."""
        if self.has_stream(value):
            return value
        op = value.root.op
        linear = next((n for n in self.linears if n.op is op), None)
        if linear is not None and depth < MOST_MIXED and self.is_stream(linear.read):
            return linear.read if self.has_stream_shape(linear.read) else None
        if op is None or depth == 0 or op.name not in MIXING:
            return None
        summed = op.inputs[:1] if op.name in BIASED else op.inputs
        found = (self._stream_within(v, depth - 1) for v in summed if self.branches_of(v) is not None)
        return next((v for v in found if v is not None), None)

    def _settle(self, value: Value) -> None:
        """It is the stream, and so is what was already scaled of it."""
        self._of[value.root] = STREAM
        for op in self.readers.get(value.root, []):
            if op.name in ("mul", "div") and all(not self.branches_of(v) for v in op.inputs):
                self._settle(op.outputs[0])

    def end(self, output: Value) -> None:
        """With the last layer's output: what comes there without a sum ends there."""
        state = self.branches_of(output)
        open_ones = (state or STREAM) - set(map(self._find, self._ended))
        if open_ones and self.has_stream_shape(output):
            self._end_without_stream(output, open_ones)

    def end_layer(self, outputs: List[Value]) -> None:
        """With what the last layer returns: a branch of a norm, without the stream and added by nobody, ends there."""
        for output in outputs if not any(map(self.has_stream, outputs)) else ():
            reads = [branch.linears[0].read for branch in self.list_branches(output)]
            if all(self.norm_at(in_order(read)) for read in reads):
                self.end(output)


def is_older(value: Value, begin: int, depth: int = 4) -> bool:
    """Whether it was there before the operator `begin`, or is a sum or a multiple of what was."""
    op = value.root.op
    if value.root.order < begin or op is None or depth == 0:
        return value.root.order < begin
    return op.name in SCALING and all(is_older(v, begin, depth - 1) for v in op.inputs)


def in_order(value: Value) -> Value:
    """Before its tokens were moved, as those of shifted windows are."""
    while value.root.op is not None and value.root.op.name in REORDERING:
        value = value.root.op.inputs[0]
    return value


def peel(value: Value, flow: Flow) -> List[Tuple[Value, str]]:
    """From what is added to the stream back to the branch's output: (value, what the step before it
    did: "", "norm", "dropout", "mask" (of 0 and 1), "gains" (learned), "scale")."""
    steps = [(value, "")]
    while True:
        value = steps[-1][0]
        norm = flow.norm_at(value)
        if norm is not None:
            steps.append((norm.read, "norm"))
            continue
        op = value.root.op
        if op is None:
            return steps
        inside = [v for v in op.inputs if flow.branches_of(v)]
        others = [v for v in op.inputs if not flow.branches_of(v)]
        if op.name == "native_dropout":
            steps.append((inside[0], "dropout"))
        elif op.name in ("mul", "div") and len(inside) == 1 and flow.has_stream_shape(inside[0]) \
                and not any(flow.is_stream(v) for v in others):
            steps.append((inside[0], kind_of_factor(others)))
        else:
            return steps


def is_random(value: Value, depth: int = 4) -> bool:
    """Whether it is drawn, as the one number is by which stochastic depth keeps a branch or not."""
    op = value.root.op
    return op is not None and depth > 0 and (op.name in RANDOM or any(is_random(v, depth - 1) for v in op.inputs))


def kind_of_factor(factors: List[Value]) -> str:
    if any(is_random(v) for v in factors if v.tensor.numel() == 1):
        return "dropout"
    masks = [v for v in factors if not v.parameter and v.tensor.numel() not in (1, v.tensor.shape[-1])]
    if masks:
        return "mask" if all(v.numbers.max() == 1 for v in masks) else "dropout"
    return "gains" if any(v.parameter for v in factors) else "scale"


def scores_of(op: Op) -> Tuple[torch.Tensor, ...]:
    """Of a softmax its input; of a fused attention (query, key)."""
    if op.name.startswith(FUSED_ATTENTION):
        return op.inputs[0].numbers, op.inputs[1].numbers
    return (op.inputs[0].numbers,)


def fused_options(op: Op) -> Tuple[Optional[torch.Tensor], bool, Optional[float]]:
    """(mask, is_causal, scale) of a fused attention, whichever it is."""
    mask = op.argument("attn_mask", op.argument("attn_bias"))
    scale = op.argument("scale")
    return (mask.numbers if isinstance(mask, Value) else None, bool(op.argument("is_causal", False)),
            scale if isinstance(scale, float) and math.isfinite(scale) else None)
