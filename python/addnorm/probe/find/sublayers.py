"""Finds the parts of each sublayer: its input, its norms, its branch and its sum."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Dict, List, Optional, Sequence, Tuple

from ..._structure import parent_of
from ..record.graph import Value
from .flow import Flow
from .operators import USES
from .parts import Branch, Norm, Sum
from .paths import is_dropped, is_made_of, peel

MIXER = re.compile(r"attn|attention|mha|mixer|mamba|ssm|conv|recurrent|rwkv|time_mix|delta", re.I)
KINDS = ("attention", "feed_forward")


@dataclass
class Sublayer:
    kind: str
    branch: Branch
    sum: Sum
    total: Value
    output: Value  # f, the branch's output
    joined: Value  # the term of the sum without its factor: f after dropout and the inside norm
    beside: List[Value]  # the other branches of the same sum
    x: Optional[Value] = None
    before: Optional[Norm] = None
    inside: Optional[Norm] = None
    after: Optional[Norm] = None
    outer: Optional[Norm] = None  # a norm of its sum outside of its layer
    has_own_slots: bool = False  # whether its norms may differ from those of other layers
    layer: int = 0  # the number of its layer in the profile
    index: int = 0  # its index among the sublayers in one call of the layer's module

    @property
    def module(self) -> str:
        """The path of its layer's module."""
        return self.branch.place.module

    @property
    def reads(self) -> Value:
        return self.branch.linears[0].input

    @property
    def next_x(self) -> Value:
        """The stream after the sublayer."""
        norm = self.after or self.outer
        return self.total if norm is None else norm.output

    def set_norm_of_sum(self, norm: Norm, is_in_layer: bool) -> None:
        if is_in_layer:
            self.after = norm
        else:
            self.outer = norm

    def norms(self) -> List[Tuple[str, Norm]]:
        slots = ("before", self.before), ("inside", self.inside), ("after", self.after)
        return [(slot, norm) for slot, norm in slots if norm is not None]


def name_in_layer(norm: Norm, layer: str) -> str:
    """Returns the name within a layer of the module with a norm's γ, or of the norm's module if it has no γ."""
    name = parent_of(norm.gamma) if norm.gamma else norm.module
    prefix = layer + "." if layer else ""
    return name[len(prefix):] if name.startswith(prefix) else name


class Arranger:
    """Arranges the sublayers of one stream, layer by layer."""

    def __init__(self, flow: Flow, named: Dict[str, Sequence[str]]):
        """named: names of weights given by the user, by the kind of sublayer."""
        self._values, self._norms, self._named = flow.values, flow.norms, named
        self._slots: Counter = Counter()  # counts of (name in the layer, kind, slot) of the norms so far
        self._previous: Optional[Sublayer] = None

    def arrange(self, sums: List[Sum]) -> List[Sublayer]:
        """Returns the sublayers of one layer, in the order of their sums."""
        subs = [sub for s in sums for sub in self._split(s)]
        self._correct_kinds(subs)
        assign = self._assign_post_norms if self._is_post_norm(subs) else self._assign_norms
        for i, sub in enumerate(subs):
            assign(sub, subs, i)
        if subs:
            last = subs[-1]
            if last.after is None:
                last.after = self._norm_within(last)
            self._move_norms_inside(subs)
            self._previous = last
        for sub in subs:
            for slot, norm in sub.norms():
                self._slots[name_in_layer(norm, sub.module), sub.kind, slot] += 1
        return subs

    # -- The sublayers of a sum --

    def _split(self, s: Sum) -> List[Sublayer]:
        """Splits a sum into sublayers. Branches of one kind in one sum are one sublayer: experts, heads."""
        groups: Dict[str, List[Branch]] = {}
        for branch in s.branches:
            if branch.place.layer is not None:
                groups.setdefault(self._kind(branch), []).append(branch)
        subs = []
        for kind, branches in groups.items():
            whole = branches[0]
            for other in branches[1:]:
                whole.absorb(other)
            subs.append(self._sublayer(kind, whole, s, len(groups) > 1))
        for sub in subs:
            sub.beside = [other.joined for other in subs if other is not sub]
        return sorted(subs, key=lambda sub: sub.branch.linears[0].op.order)

    def _kind(self, branch: Branch) -> str:
        weights = [linear.weight[len(branch.place.module):].lstrip(".") for linear in branch.linears]
        for kind in KINDS:
            if any(w == n or w.startswith(n + ".") for w in weights for n in self._named[kind]):
                return kind
        if branch.is_attention or any(MIXER.search(w) for w in weights):
            return "attention"
        return "feed_forward"

    def _correct_kinds(self, subs: List[Sublayer]) -> None:
        """Labels the first of two sublayers without attention as attention: it mixes tokens, if either does."""
        kinds = [sub.kind for sub in subs]
        if kinds == ["feed_forward", "feed_forward"] and not self._named["feed_forward"]:
            subs[0].kind = "attention"

    def _sublayer(self, kind: str, branch: Branch, s: Sum, is_parallel: bool) -> Sublayer:
        start = self._own_part(s.branch, branch) if is_parallel else s.branch
        chain = peel(start, self._values, self._norms)
        steps = [step for _, step in chain[1:]]
        first = next((i for i, step in enumerate(steps) if step != "scale"), len(steps))
        is_mask = first < len(steps) and steps[first] == "mask"  # a dropout with elementary operators: mask·f/(1 − p)
        joined = start if is_mask else chain[first][0]
        inside = None
        for outer, _ in chain:
            inside = inside or self._norms.at(outer)
        last = chain[-1][0].root.op
        if inside is None and last is not None and last.name == "sub":  # u = f − x, as in nGPT
            inside = self._norms.at(last.inputs[0])
        return Sublayer(kind, branch, s, s.total, chain[-1][0], joined, [], inside=inside)

    def _own_part(self, value: Value, branch: Branch) -> Value:
        """Returns the term of `branch` in a sum of several branches."""
        op = value.root.op
        while op is not None and op.name == "add":
            mine = [v for v in op.inputs if branch in self._values.branches_of(v)]
            if len(mine) != 1 or len(self._values.branches_of(value)) == 1:
                break
            value = mine[0]
            op = value.root.op
        return value

    # -- The slots of norms --

    def _is_post_norm(self, subs: List[Sublayer]) -> bool:
        """Whether a module with many sublayers adds each branch to the output of the preceding norm, as in XLM."""
        norms = [self._norm_read(sub) for sub in subs]
        return len(subs) > 2 and all(
            norm is not None and sub.sum.stream is not None and is_made_of(sub.sum.stream, norm.output, self._values)
            for sub, norm in zip(subs, norms))

    def _assign_post_norms(self, sub: Sublayer, subs: List[Sublayer], i: int) -> None:
        """Assigns the norm that a sublayer reads to the sum of the previous sublayer."""
        norm, previous = self._norm_read(sub), subs[i - 1] if i else self._previous
        if previous is not None and is_dropped(norm.input, previous.total):
            previous.set_norm_of_sum(norm, i > 0)
        sub.x = norm.output

    def _assign_norms(self, sub: Sublayer, subs: List[Sublayer], i: int) -> None:
        previous = subs[i - 1] if i else self._previous
        if previous is not None and previous.sum is sub.sum:  # side by side
            sub.x, sub.before = previous.x, self._norm_read(sub)
            return
        norm = self._norm_read(sub)
        if previous is not None and norm is previous.inside:
            norm = None
        if norm is not None and previous is not None and norm is not sub.inside:
            ahead = self._norms.at(norm.input)
            if ahead is not None and is_dropped(ahead.input, previous.total) and \
                    (sub.sum.stream is None or is_made_of(sub.sum.stream, ahead.output, self._values)):
                previous.set_norm_of_sum(ahead, i > 0)  # a norm of a norm, as in KEEL
            if self._belongs_to_previous_sum(norm, sub, previous, subs, i):
                previous.set_norm_of_sum(norm, i > 0)
                norm = None
        sub.before = norm
        sub.x = self._input_of(sub, previous)
        if norm is not None and sub.sum.stream is not None and not self._is_of_stream(norm, previous) \
                and is_made_of(sub.sum.stream, norm.output, self._values):
            sub.before, sub.x = None, norm.output  # the norm's input was not recognized, as FNet's sums
            sub.has_own_slots = True

    def _is_of_stream(self, norm: Norm, previous: Optional[Sublayer]) -> bool:
        return is_made_of(norm.input, self._values.x if previous is None else previous.next_x, self._values)

    def _norm_read(self, sub: Sublayer) -> Optional[Norm]:
        """Returns the norm whose output the sublayer's first linear maps read, or None."""
        return self._norm_behind(sub.reads, 6)

    def _norm_behind(self, value: Value, depth: int) -> Optional[Norm]:
        norm = self._norms.at(value)
        if norm is not None or depth == 0 or value.root.op is None:
            return norm
        if any(map(self._values.ids_of, value.root.op.inputs)):
            return None  # a sum
        mine = [v for v in value.root.op.inputs if self._values.is_stream(v)]
        found = [self._norm_behind(v, depth - 1) for v in mine]
        return found[0] if found and all(n is found[0] for n in found) else None

    def _belongs_to_previous_sum(self, norm: Norm, sub: Sublayer, previous: Sublayer, subs: List[Sublayer],
                                 i: int) -> bool:
        """Whether a norm between two sublayers belongs to the sum of the first one."""
        stream = sub.sum.stream
        if not is_dropped(norm.input, previous.total):
            return norm is previous.after or norm is previous.outer
        if stream is not None and not is_made_of(stream, norm.output, self._values):
            return False
        if i == 0:
            return norm.layer in (previous.branch.place.layer, None)  # None: the norm is in a list beside the layers
        is_bare = subs[0].before is None and not subs[0].has_own_slots
        return is_bare and (stream is not None or self._norm_within(subs[-1]) is not None)

    def _norm_within(self, sub: Sublayer) -> Optional[Norm]:
        """Returns the norm of a sublayer's sum in the same layer, or None."""
        return next((norm for norm in self._norms.found if is_dropped(norm.input, sub.total)
                     and norm.layer == sub.branch.place.layer), None)

    def _input_of(self, sub: Sublayer, previous: Optional[Sublayer]) -> Value:
        stream = sub.sum.stream
        if previous is not None and stream is not None and self._adds_to_older_stream(stream, previous, sub):
            return stream
        known = [self._values.x] if previous is None else [previous.next_x]
        if sub.before is not None:
            if stream is not None and stream.root is sub.before.input.root:
                return self._as_in_sum(sub.before.input, sub)  # any operators may be between, as a U-net's skips
            known.append(sub.before.input)
        for value in known:
            if stream is not None and is_made_of(stream, value, self._values):
                return stream if stream.root is value.root and stream.shape != value.shape else value
        if sub.before is not None:
            return self._as_in_sum(sub.before.input, sub)
        if previous is not None and stream is not None and previous.x is not None and \
                stream.root is previous.x.root and sub.reads.root is previous.next_x.root:
            return previous.next_x  # it reads this stream, but adds to the one that the previous sublayer read
        is_normed = stream is not None and self._norms.at(stream) is not None
        return known[0] if stream is None or is_normed else stream

    def _adds_to_older_stream(self, stream: Value, previous: Sublayer, sub: Sublayer) -> bool:
        """Whether a sublayer adds to an older stream, and an operator uses the newer, as in reversible networks."""
        left = previous.next_x
        return stream.root.order < previous.total.order and not is_made_of(stream, left, self._values) and any(
            op.order > sub.total.order and op.name in USES
            for op in self._values.readers.get(left.root, ()))

    def _as_in_sum(self, value: Value, sub: Sublayer) -> Value:
        """Returns the view of a value that has the sum's shape, and so the sum's order of tokens."""
        views = (v for v in value.views() if v.shape == sub.total.shape)
        return next(views, None) or self._values.in_stream_shape(value)

    def _move_norms_inside(self, subs: List[Sublayer]) -> None:
        """Moves a norm after a branch without a sum to the slot "inside", if other layers have a norm there."""
        for sub in subs:
            norm = sub.after or next((n for n in self._norms.found if n.input.root is sub.total.root), None)
            if sub.sum.stream is not None or sub.inside is not None or norm is None:
                continue
            name = name_in_layer(norm, sub.module)
            is_elsewhere = self._slots[name, sub.kind, "inside"] > 0
            if is_elsewhere or any(other.inside for other in subs):
                sub.inside, sub.after, sub.total, sub.joined = norm, None, norm.output, norm.output
                following = next((s for s in subs if s.before is norm), None)
                if following is not None:
                    following.before, following.x = None, norm.output
