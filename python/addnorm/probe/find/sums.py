"""Finds sums of the residual stream and its branches among the operators of a forward pass."""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple

from ..fit.lanes import share
from ..fit.values import wide
from ..record.graph import Op, Value
from .norms import NormFinder
from .operators import BIASED, DROPOUT, FACTORS, MIXING, SUMS
from .parts import Linear, Sum
from .paths import is_older, without_factor
from .values import STREAM, BranchIds, StreamValues

MOST_MIXED = 12  # the most operators between the stream and a sum with gates
MOST_UNLIKE = 0.05  # the largest relative distance from a projection onto the stream; 16 bits leave 1 %


class SumFinder:
    """Finds the sums of one stream, operator by operator. These forms are recognized, in the order of take(); x is the
    stream, h its norm, f a branch:

        x + f, f read before the sum     _complete()
        x + (x + f)                      _add_again()
        x + (h + f)                      _add_beside_norm()
        x + (f + a(f)), an adapter a     _add_adapted()
        x + f                            _add_plain()
        c + f(c), a convolution c of x   _add_to_convolved()
        f − ⟨f, x⟩/⟨x, x⟩·x              _add_projection(): no sum, the result is still the branch
        g ⊙ x + f, a computed gate g     _add_gated()
        f alone                          end_without_stream(), which Flow calls when a linear map reads f
    """

    def __init__(self, values: StreamValues, norms: NormFinder, linears: List[Linear]):
        """linears: the list of linear maps, which grows during the search."""
        self._values, self._norms, self._linears = values, norms, linears
        self.found: List[Sum] = []
        self.last: Optional[Sum] = None
        self._without_stream: Dict[Value, Sum] = {}  # sums without a stream, by their totals
        self._over_norms: Dict[Value, Sum] = {}  # sums whose stream is a norm's output, by their totals
        self._sum_of: Dict[Value, Sum] = {}  # all sums, by their totals

    def take(self, op: Op, inputs: List[Value], total: Value) -> bool:
        """Finds the sum of an operator. Returns whether it adds branches to the stream."""
        if op.name not in SUMS or len(inputs) != 2 or not all(map(self._values.has_stream_shape, [*inputs, total])):
            return False
        if self._complete(inputs, total):
            return True
        are_streams = [self._values.is_stream(v) for v in inputs]
        if all(are_streams):
            if any(add(inputs, total) for add in (self._add_again, self._add_beside_norm, self._add_adapted)):
                return True
            self._excuse_inner(inputs)
            return False
        if any(are_streams):
            return self._add_plain(op, inputs, total)
        have_same_branches = self._values.ids_of(inputs[0]) == self._values.ids_of(inputs[1])
        return have_same_branches and self._add_to_convolved(inputs, total) or self._add_gated(inputs, total)

    def _complete(self, inputs: List[Value], total: Value) -> bool:
        """Completes the sum of end_without_stream(): the stream is added to a branch that was read before."""
        for value, other in (inputs, inputs[::-1]):
            ended = self._without_stream.pop(value.root, None)
            if ended is not None and self._values.is_stream(other):
                ended.total, ended.stream = total, other
                self._values.mark(total, STREAM)
                self._sum_of[total.root] = ended
                return True
        return False

    def _add_plain(self, op: Op, inputs: List[Value], total: Value) -> bool:
        stream, branch = inputs if self._values.is_stream(inputs[0]) else inputs[::-1]
        last = branch.root.op
        if last is not None and last.name == "mul" and any(v.root is stream.root for v in last.inputs):
            return False  # x + x·g(x) = x·(1 + g) is no sum
        if op.name == "sub" and stream is inputs[1]:
            return False  # f − x is an intermediate of x + r·(f − x)
        for read in [b.linears[0].input for b in self._values.branches_of(branch)]:
            if read.root in self._sum_of and self._reopen(read, stream):
                self._values.unite(self._values.ids_of(branch) | self._values.ids_of(read))
        self.keep(Sum(total, stream, branch, self._values.branches_of(branch)))
        return True

    def _add_again(self, inputs: List[Value], total: Value) -> bool:
        """Recognizes x + (x + f): the stream is added again to a sum that no other operator has read."""
        last = self.last
        if last is None or last.stream is None or len(self._values.readers.get(last.total.root, [])) > 1:
            return False
        if {v.root for v in inputs} != {last.total.root, without_factor(last.stream).root}:
            return False
        self._extend(last, total)
        return True

    def _extend(self, ended: Sum, total: Value) -> None:
        """Sets a later total for a sum."""
        before = self._over_norms.get(ended.total.root)
        if before is not None:
            self._over_norms[total.root] = before
        ended.total = total
        self._values.mark(total, STREAM)
        self._sum_of[total.root] = ended

    def _add_beside_norm(self, inputs: List[Value], total: Value) -> bool:
        """Recognizes x + (h + f), where h is the norm of x and h + f an inner residual, as one sum of x, h and f."""
        for value, other in (inputs, inputs[::-1]):
            inner = self._over_norms.get(value.root)
            norm = None if inner is None or inner.stream is None else self._norms.at(without_factor(inner.stream))
            if norm is not None and inner is self.last and norm.input.root is other.root:
                inner.stream = other
                self._extend(inner, total)
                return True
        return False

    def _add_adapted(self, inputs: List[Value], total: Value) -> bool:
        """Recognizes x + (f + a(f)): the branch f has an inner residual, as with serial adapters."""
        for branch, stream in (inputs, inputs[::-1]):
            if self._reopen(branch, stream):
                self.keep(Sum(total, stream, branch, self._values.branches_of(branch)))
                return True
        return False

    def _reopen(self, value: Value, stream: Value) -> bool:
        """If a module reads a branch before its sum, the search ends the branch too early. Undoes this where an older
        stream is added only now: that branch and the later ones become one. Returns whether there is such a branch."""
        sums, values = self._way_back(value)
        branches = [branch for s in sums for branch in s.branches]
        begin = min((linear.op.order for branch in branches for linear in branch.linears), default=0)
        if not is_older(stream, begin) or any(branch.place.layer != self._values.place.layer for branch in branches):
            return False
        id = self._values.unite(self._values.ids_of_branches(branches))
        self._values.reopen(id)
        for other in values:
            self._values.mark(other, frozenset([id]))
        for s in sums:
            s.branches = []
            self._without_stream.pop(s.total.root, None)
        return True

    def _way_back(self, value: Value) -> Tuple[List[Sum], List[Value]]:
        """Goes back from a value over sums, factors and norms to a branch that ended without a stream. Returns the sums
        and all values on this path. Both are empty if there is no such branch."""
        sums: List[Sum] = []
        values: List[Value] = []
        at: Optional[Value] = value
        while at is not None:
            values.append(at)
            found = self._sum_of.get(at.root)
            if found is not None:
                sums.append(found)
                if found.stream is None:
                    read = found.branches[0].linears[0].input
                    before, others = self._way_back(read) if read.root in self._sum_of else ([], [])
                    return sums + before, values + others
            at = self._before_factor(at) if found is None else found.stream
        return [], []

    def _before_factor(self, value: Value) -> Optional[Value]:
        norm = self._norms.at(value)
        if norm is not None:
            return norm.input
        op = value.root.op
        if op is None or op.name not in FACTORS | DROPOUT:
            return None
        return next((v for v in op.inputs if self._values.is_stream(v) and self._values.has_stream_shape(v)), None)

    def _add_to_convolved(self, inputs: List[Value], total: Value) -> bool:
        """Recognizes c + f(c), where c is a convolution of the stream, as in TinyViT. Then c is the stream."""
        branches = self._values.branches_of(inputs[0])
        first, *rest = branches[0].linears if len(branches) == 1 else [None]
        if not rest or "convolution" not in first.op.name or not self._values.is_stream(first.input):
            return False
        stream, branch = sorted(inputs, key=lambda v: v.root.order)
        if not first.op.order <= stream.root.order < rest[0].op.order or self._norms.at(first.input):
            return False
        branches[0].linears = rest
        self._values.mark_as_stream(stream)
        self.keep(Sum(total, stream, branch, branches))
        return True

    def _add_gated(self, inputs: List[Value], total: Value) -> bool:
        """Recognizes g ⊙ x + h: a computed gate scales the stream, as in highway networks."""
        for kept in inputs:
            op = kept.root.op
            if op is None or op.name != "mul" or len(op.inputs) != 2:
                continue
            stream = next((v for v in op.inputs if self._values.has_stream(v) and self._norms.at(v) is None), None)
            if stream is not None and self._add_projection(inputs, kept, stream, total):
                return True
            if stream is not None:
                self._values.mark(total, frozenset([self._join_gated(self._values.ids_of_any(inputs))]))
                self.keep(Sum(total, stream, total, self._values.branches_of(total), is_mixed=True))
                return True
        return False

    def _add_projection(self, inputs: List[Value], kept: Value, stream: Value, total: Value) -> bool:
        """Recognizes f − ⟨f, x⟩/⟨x, x⟩·x, the part of f that is orthogonal to the stream: still a branch.
        kept: the multiple of x."""
        branch = next(v for v in inputs if v is not kept)
        factor = next((v for v in kept.root.op.inputs if v is not stream), stream)
        is_row_wise = factor.tensor.numel() * stream.shape[-1] == stream.tensor.numel()
        if not is_row_wise or total.op.name == "lerp" or total.op.name == "sub" and branch is not inputs[0]:
            return False
        f, x, found = (wide(v.recorded).reshape(-1, stream.shape[-1]) for v in (branch, stream, kept))
        along = (f * x).sum(-1, keepdim=True) / x.square().sum(-1, keepdim=True).clamp(min=1e-300) * x
        if not share(found - (along if total.op.name == "sub" else -along), along) < MOST_UNLIKE:
            return False
        self._values.mark(total, frozenset([self._values.join(self._values.ids_of_any(inputs))]))
        self._values.projected[total.root] = branch
        return True

    def _join_gated(self, ids: BranchIds) -> int:
        """Joins a gate's branch with the branches that the gate read before they were added."""
        read = {linear.input.root for branch in self._values.branches_with(ids) for linear in branch.linears}
        for root in read & self._without_stream.keys():
            gated = self._without_stream.pop(root)
            ids |= self._values.ids_of_branches(gated.branches)
            gated.branches = []
        return self._values.unite(ids)

    def keep(self, ended: Sum) -> None:
        """Keeps a sum and closes its branches."""
        self._values.close(self._values.ids_of(ended.branch))
        self._values.mark(ended.total, STREAM)
        self._sum_of[ended.total.root] = ended
        self.last = ended
        if ended.stream is not None and self._norms.at(without_factor(ended.stream)) is not None:
            self._over_norms[ended.total.root] = ended
        self.found.append(ended)

    def end_without_stream(self, read: Value, ids: BranchIds) -> None:
        norm = self._norms.at(read)
        total = self._values.in_stream_shape(read if norm is None else norm.input)
        stream = self._stream_within(total)
        ended = Sum(total, stream, total, self._values.branches_with(ids), is_mixed=stream is not None)
        if stream is None:
            self._without_stream[total.root] = ended
        else:
            self._excuse_gated(ended)
        self._values.close(ids)
        self._values.mark_as_stream(total)
        if norm is not None:
            self._values.mark_as_stream(norm.output)
        self.keep(ended)

    def _excuse_inner(self, inputs: List[Value]) -> None:
        """Marks a sum h + f, with a norm's output h, as mixed if it is added to the stream itself, as in LAuReL."""
        for value, other in (inputs, inputs[::-1]):
            inner = self._over_norms.get(value.root)
            if inner is not None and inner.stream is not None and other.root is not inner.stream.root:
                inner.is_mixed = True

    def excuse_difference(self, op: Op, inputs: List[Value]) -> None:
        """Marks x − f as mixed if a gate multiplies it next, as in the GRU's f + z ⊙ (x − f)."""
        last = self.last
        if op.name != "mul" or last is None or last.total.op is None or last.total.op.name != "sub":
            return
        if any(v.root is last.total.root for v in inputs) and any(map(self._values.ids_of, inputs)):
            last.is_mixed = True

    def _excuse_gated(self, mixed: Sum) -> None:
        """Marks the sums without a stream that the gate of the sum `mixed` read as mixed, too."""
        read = {linear.input.root for branch in mixed.branches for linear in branch.linears}
        for root in read & self._without_stream.keys():
            gated = self._without_stream.pop(root)
            gated.stream, gated.is_mixed = mixed.stream, True

    def _stream_within(self, value: Value, depth: int = MOST_MIXED) -> Optional[Value]:
        """Returns the stream x in a sum in which it has no single factor, or None.

        There are three cases: gates mix it, z ⊙ x + (1 − z) ⊙ f; branches are added to only some tokens; or a linear
        map projects it, W·x + f.
        """
        if self._values.has_stream(value):
            return value
        if value.root in self._values.projected:
            return None
        op = value.root.op
        linear = next((n for n in self._linears if n.op is op), None)
        if linear is not None and depth < MOST_MIXED and self._values.is_stream(linear.input):
            return linear.input if self._values.has_stream_shape(linear.input) else None
        if op is None or depth == 0 or op.name not in MIXING:
            return None
        summed = op.inputs[:1] if op.name in (*BIASED, "sub") else op.inputs  # f − x has no residual
        found = (self._stream_within(v, depth - 1) for v in summed if self._values.depends_on_stream(v))
        return next((v for v in found if v is not None), None)
