"""Follows a stream through the sites of addnorm.torch.Stack, which declare its lanes: streams whose sublayers append
lanes, and lanes that are parts of the features. Their sums cannot be told from other operators by shapes alone."""

from __future__ import annotations

from typing import Iterable, List, Optional, Set, Union

from ..._structure import is_within, parent_of
from ...torch.sites import Read, Site
from ..record.graph import Event, Leave, Op, Value
from .flow import Flow
from .norms import NormFinder
from .parts import DeclaredLanes, Linear, Place, Sum
from .paths import as_row, bottlenecks
from .values import STREAM, StreamValues


def site_of(event: Event) -> Optional[Site]:
    """Returns the site whose call an event ends, or None."""
    module = event.module if isinstance(event, Leave) else None
    return module if isinstance(module, Site) else None


def lanes_of_call(call: Leave, site: Site) -> DeclaredLanes:
    """The arguments of a site are its lanes and those before the previous site; its results are alike."""
    form = site.form
    count = 1 if site.is_stacked else form["lanes"]
    return DeclaredLanes(call.inputs[:count], call.outputs[:len(call.outputs) - count or None], form["parts"],
                         form["changes"] != "all")


def find_site(events: List[Event], begin: int, end: int) -> Optional[Leave]:
    """Returns the first site that ended between two events, if shapes do not show the lanes of its stack."""
    first = next((event for event in events[begin:end] if isinstance(event, Leave) and site_of(event)), None)
    if first is None:
        return None
    stack = parent_of(parent_of(first.name))
    calls = [event for event in events if isinstance(event, Leave) and is_within(event.name, stack)]
    forms = [site.form for site in map(site_of, calls) if site is not None]
    is_other = any(form["changes"] != "all" or form["parts"] > 1 or form["lanes"] > 1 and form["after"] != "nothing"
                   for form in forms)
    return first if is_other else None


def has_gradient(value: Value) -> bool:
    return value.edge is not None or value.is_current and value.tensor.requires_grad


class SiteNorms(NormFinder):
    """Finds the norms of a declared stream. They are modules; a site normalizes lanes itself to compute numbers."""

    def __init__(self, values: StreamValues, sites: Set[str]) -> None:
        super().__init__(values)
        self._sites = sites

    def take(self, op: Op, inputs: List[Value], outputs: List[Value]) -> None:
        if op.module not in self._sites:
            super().take(op, inputs, outputs)


class SiteFlow(Flow):
    """The flow of a stream between declared sites. Its x is the first row that a sublayer reads."""

    has_last_lanes = True
    ends_without_sum = False

    def __init__(self, events: Iterable[Event], first: Leave) -> None:
        """events: those of the pass. first: the first site of the stream."""
        ended = [event for event in events if isinstance(event, Leave)]
        self._sublayers = [f"{event.name}.sublayers" for event in ended if site_of(event)]
        values = StreamValues(next(event.inputs[0] for event in ended if event.name == f"{first.name}.sublayers.0"))
        super().__init__(values, SiteNorms(values, {e.name for e in ended if isinstance(e.module, Read)}))
        for value in first.inputs:
            self.values.mark(value, STREAM)

    def take(self, event: Union[Op, Leave], place: Place) -> None:
        site = site_of(event)
        if isinstance(event, Leave) and site is not None:
            self._end_site(event, lanes_of_call(event, site))
        else:
            super().take(event, place)

    def carries_stream(self, value: Value) -> bool:
        return self.values.depends_on_stream(value)

    def _linear(self, op: Op, inputs: List[Value]) -> Optional[Linear]:
        is_sublayers = any(is_within(op.module, path) for path in self._sublayers)
        return super()._linear(op, inputs) if is_sublayers else None  # others compute numbers of lanes

    def _add(self, op: Op, inputs: List[Value], total: Value) -> bool:
        return False  # a sum ends with its site

    def end_output(self, output: Value) -> None:
        pass

    def _end_site(self, call: Leave, lanes: DeclaredLanes) -> None:
        lanes.after = [self._before_norm(lane) for value in lanes.after for lane in self._unstacked(value, lanes)]
        self.lanes = max(self.lanes, len(lanes.after), lanes.parts)
        changed = [value for value in lanes.after if self.values.ids_of(value)]
        branch = self._written(changed[0]) if changed else None
        if branch is None:
            return
        ended = self.values.ids_of_any(changed)
        branches = self.values.branches_with(ended)
        read = min((linear for b in branches for linear in b.linears), key=lambda linear: linear.op.order).input
        norm = self.norms.at(read)
        row = norm.input if norm is not None and is_within(norm.module, f"{call.name}.before") else read
        lanes.detached = self._count_detached(lanes, branch)
        self.sums.keep(Sum(changed[0], row, branch, branches, lanes))
        self.values.mark_made_of(ended, branch.order)
        for value in (*lanes.after, *call.outputs):
            self.values.mark(value, STREAM)

    @staticmethod
    def _unstacked(value: Value, lanes: DeclaredLanes) -> List[Value]:
        op = value.root.op
        return op.inputs if op is not None and op.name == "stack" and lanes.parts == 1 else [value]

    def _before_norm(self, lane: Value) -> Value:
        """Returns the sum that a lane is the norm of, or the lane."""
        norm = self.norms.at(lane) if self.values.ids_of(lane) else None
        return lane if norm is None else norm.input

    def _count_detached(self, lanes: DeclaredLanes, branch: Value) -> int:
        within = self._carried(lanes, branch, False) - self._carried(lanes, branch, True)
        return sum(has_gradient(value) and value.root in within for value in lanes.before)

    def _carried(self, lanes: DeclaredLanes, branch: Value, by_gradient: bool) -> Set[Value]:
        """Returns the roots of the lanes before a site that lead to the lanes after it, not by way of the branch.
        by_gradient: only by values with a gradient."""
        ends, found = {value.root for value in lanes.before}, set()
        opened, seen = list(lanes.after), set()
        while opened:
            value = opened.pop()
            is_branch = value.order <= branch.root.order and self.values.ids_of(value)
            if value in seen or is_branch or value.parameter or by_gradient and not has_gradient(value):
                continue
            seen.add(value)
            if value.root in ends:
                found.add(value.root)
            elif value.op is not None:
                opened += value.op.inputs
        return found

    def _written(self, total: Value) -> Optional[Value]:
        """Returns the row that is written into lanes: the last one on all paths from the branches that is no sum."""
        for value in bottlenecks(total, self.values, from_branches=True):
            row, op = as_row(value, self.x), value.root.op
            is_sum = op is not None and op.name == "add" and any(
                not self.values.ids_of(v) and not v.parameter and as_row(v, self.x) is not None
                for v in op.inputs)
            if row is not None and not is_sum:
                return row
        return None
