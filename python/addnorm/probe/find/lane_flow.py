"""Follows a stream of several lanes. Its sums are states of n rows for each token, and a sublayer reads one row. Small
linear maps of the stream compute coefficients and do not begin branches."""

from __future__ import annotations

from typing import List, Optional, Tuple

from ..record.graph import Op, Value
from .flow import Flow
from .lanes import MOST, Fit, count_lanes, fit_sum, has_axis_beside, lanes_of
from .operators import SUMS
from .parts import FittedLanes, Linear, Sum
from .paths import as_row, bottlenecks
from .values import STREAM, BranchIds

EXPLAINED = 0.03  # the largest relative residual of a sum; 16 bits leave some percent if lanes are nearly equal
CARRIED = 0.02  # the least share of the largest lane that counts as a carry


def is_small(linear: Linear) -> bool:
    """Whether a linear map has few outputs, like a map to coefficients."""
    return 2 * linear.output.tensor.numel() < linear.input.tensor.numel()


def mixes_lanes(linear: Linear, most: int = MOST) -> bool:
    """Whether a linear map mixes lanes, because its weight is too small to mix features."""
    weight = next(v for v in linear.op.inputs if v.parameter == linear.weight)
    return max(weight.shape[-2:]) <= most + 1


def is_branch(linear: Linear) -> bool:
    return not is_small(linear) and not mixes_lanes(linear)


def reads_in_turn(linear: Linear, flow: Flow) -> bool:
    """Whether a linear map reads a layer's input part by part, like a recurrent network, which reads it token by token.
    One token's part may be missing, because nothing is read before the first token."""
    parts = [other.input.tensor.numel() for other in flow.linears if other.weight == linear.weight]
    return len(parts) > 1 and sum(parts) + parts[0] >= flow.x.tensor.numel()


def find_lanes(flow: Flow, has_sums: bool) -> Optional[Tuple[Value, Value]]:
    """Returns the state of several lanes and its row that the first sublayer reads, or None if it reads the stream.

    has_sums: the flow has found sums of one stream. Then the stream is no state if a branch reads all of it.
    """
    branches = [linear for linear in flow.linears if is_branch(linear) and not reads_in_turn(linear, flow)]
    if has_sums and any(_reads_all(linear, branches[0], flow) for linear in branches):
        return None
    for linear in branches[:1] if has_sums else branches:
        found = _read_lanes(linear, flow)
        is_first = linear is branches[0]  # later branches may read the output of another one: heads, experts
        if found is not None and (is_first or found[0].tensor.numel() == flow.x.tensor.numel()):
            return found
    return None


def _read_lanes(linear: Linear, flow: Flow) -> Optional[Tuple[Value, Value]]:
    read, state = linear.input, None
    if read.tensor.dim() < 2:
        return None
    for value in bottlenecks(linear.input, flow.values):
        lanes, row = lanes_of(value, linear.input), as_row(value, linear.input)
        if lanes is not None:
            state = lanes
        elif state is None and row is not None:
            read = row
    if state is None:
        return None
    for row in (v for v in read.views() if v.shape[-1] == read.shape[-1]):
        seen = lanes_of(state, row)
        if seen is not None and has_axis_beside(seen.shape, row.shape):
            return seen, row
    return state, read


def reads_otherwise(flow: Flow) -> bool:
    """Whether the first branch reads only a part of the layer's input, or mixed parts, as in Frac-connections."""
    first = next(filter(is_branch, flow.linears), None)
    if first is None or reads_in_turn(first, flow):
        return False
    x = flow.x.tensor
    return first.input.tensor.numel() < x.numel() or any(
        linear.op.order < first.op.order and linear.input.tensor.numel() == x.numel()
        and (mixes_lanes(linear) or linear.input.shape[-1] < x.shape[-1])
        for linear in flow.linears if not is_branch(linear))


def _reads_all(linear: Linear, first: Linear, flow: Flow) -> bool:
    """Whether a branch's linear map reads all rows of the layer's input, so that they are rows of one stream."""
    x = flow.x.tensor
    if not is_branch(linear) or x.numel() == first.input.tensor.numel() or \
            linear.input.tensor.numel() != x.numel() or linear.input.shape[-1] != first.input.shape[-1]:
        return False
    made_by = {other.output.root for other in flow.linears}
    return not any(value.root in made_by or as_row(value, first.input) is not None
                   for value in bottlenecks(linear.input, flow.values))


class LaneFlow(Flow):
    """The flow of a stream of several lanes. Its x is the first row that a sublayer reads."""

    has_last_lanes = True
    ends_without_sum = False  # _end_unended() ends them

    def __init__(self, state: Value, read: Value) -> None:
        super().__init__(read)
        self.lanes = count_lanes(state, read)
        self.values.mark(state, STREAM)
        self.state = state  # the lanes after the last site
        self._read = read
        self._is_folded = False
        self._seen = [state]  # candidates for the carried state: the state, or a function of it, such as a norm
        self._is_open = False  # whether a sublayer has read a row and not yet written to the lanes
        self._pending: List[Tuple[Value, Value, Fit]] = []  # states that hold only a branch: (total, branch, fit)

    def as_state(self, value: Value) -> Optional[Value]:
        found = lanes_of(value, self.x)
        return found if found is not None and count_lanes(found, self.x) == self.lanes else None

    def is_state(self, value: Value) -> bool:
        return self.as_state(value) is not None

    def enter_layer(self, inputs: List[Value]) -> None:
        for value in inputs:
            self._end_written_lanes(value)

    def carries_stream(self, value: Value) -> bool:
        return super().carries_stream(value) or self.values.depends_on_stream(value) and self.is_state(value)

    # -- One operator --

    def _take_op(self, op: Op) -> None:
        for value in op.inputs:
            self._end_written_lanes(value)
        super()._take_op(op)

    def _end_written_lanes(self, value: Value) -> None:
        """Ends a site whose branch was written into the lanes one by one."""
        root = value.root
        if root.op is None or root.op.name != "view" or self.values.depends_on_stream(root):
            return
        if any(map(self.values.depends_on_stream, root.op.inputs)):
            self.values.mark(root, self.values.ids_of_any(root.op.inputs))
            self._end_in_lanes(value)

    def _linear(self, op: Op, inputs: List[Value]) -> Optional[Linear]:
        linear = super()._linear(op, inputs)
        if linear is None or mixes_lanes(linear, self.lanes):
            return None
        if self.values.ids_of(linear.input):
            self._end_unended(linear)
        if self.values.ids_of(linear.input):
            return linear
        if is_small(linear) or self._reads_lanes(linear.input):
            return None
        if not self._is_open:
            self._begin_site(linear.input)
        return linear

    def _reads_lanes(self, read: Value) -> bool:
        """Whether a linear map reads all lanes, to compute coefficients, and not one row for several experts."""
        if not self.is_state(read):
            return False
        for value in bottlenecks(read, self.values):
            if value.root is self.state.root or as_row(value, self.x) is not None:
                return value.root is self.state.root
        return True

    def _note_mixing(self, op: Op, inputs: List[Value], ids: BranchIds) -> None:
        if not self.is_state(op.outputs[0]):  # a product with a state as output writes to the lanes
            super()._note_mixing(op, inputs, ids)

    def _begin_site(self, read: Value) -> None:
        self._read, self._is_open, self._is_folded, self._pending = read, True, False, []
        self._seen = [self.state]
        made: List[Value] = []
        has_row = False
        for value in bottlenecks(read, self.values):
            if value.root is self.state.root:
                break
            state, row = self.as_state(value), as_row(value, self.x)
            if state is not None and has_row:  # without a row yet, it is one row that goes to several experts
                made.append(state)
            elif row is not None and made:  # one row between two states
                self.state, self._is_folded, self._seen = made[-1], self.sums.last is not None, []
                break
            elif row is not None:
                self._read, has_row = row, True
        self._seen += reversed(made)

    # -- Sums --

    def _add(self, op: Op, inputs: List[Value], total: Value) -> bool:
        if not any(map(self.values.ids_of, inputs)) or not self.is_state(total):
            return False
        self.values.mark(total, self.values.ids_of_any(inputs))
        return self._end_in_lanes(total)

    def _end_in_lanes(self, value: Value) -> bool:
        """Ends a site if the value is the sum of its lanes and its branch. Returns whether it is."""
        total = self.as_state(value)
        branch = None if total is None else self._branch_in(total)
        if branch is None:
            return False
        last = self.sums.last
        is_again = not self._is_open and last is not None and \
            self.values.ids_of(last.branch) == self.values.ids_of(branch)
        before, fit = self._fit(total, [last.lanes.before] if is_again else self._seen, branch)
        if fit is None or fit.unexplained > EXPLAINED:
            return False
        if fit.carried < CARRIED:
            self._pending.append((total, branch, fit))
            return False
        if is_again:
            self._write_again(last, total, branch, fit)
        else:
            self.state = before
            self._end_site(total, branch, fit)
        return True

    def _fit(self, total: Value, states: List[Value], branch: Value) -> Tuple[Value, Optional[Fit]]:
        """Fits a sum of lanes with the first state that explains it. Returns that state and the fit."""
        found: Tuple[Value, Optional[Fit]] = states[0], None
        for state in states:
            fit = fit_sum(total, state, branch, self.x.shape)
            if fit is not None and (found[1] is None or fit.unexplained <= EXPLAINED):
                found = state, fit
            if fit is not None and fit.unexplained <= EXPLAINED and fit.carried >= CARRIED:
                break
        return found

    def _write_again(self, last: Sum, total: Value, branch: Value, fit: Fit) -> None:
        """Extends the last sum: its branch is written lane by lane, with another factor for each lane."""
        rows = [{v.root: row for v in bottlenecks(value, self.values, from_branches=True)
                 for row in [as_row(v, self.x)] if row is not None} for value in (last.branch, branch)]
        last.branch = next(row for root, row in rows[0].items() if root in rows[1])
        last.total = self.state = total
        self._seen = [total]
        last.lanes.layout, last.lanes.layout_after = fit.layout, fit.layout_after
        self.values.mark(total, STREAM)

    def _branch_in(self, total: Value) -> Optional[Value]:
        """Returns the last row that is on every path from the branches to the total, or None."""
        made_by = {linear.output.root for linear in self.linears}
        for value in bottlenecks(total, self.values, from_branches=True):
            row = as_row(value, self.x)
            if row is not None and not self._is_sum_of_rows(row):
                return row
            if value.root in made_by:
                return None
        return None

    def _is_sum_of_rows(self, value: Value) -> bool:
        """Whether it is a sum with a row of the stream, and so a lane, not the branch."""
        op = value.root.op
        return op is not None and op.name in SUMS | {"addcmul"} and any(
            self.values.is_stream(v) and as_row(v, self.x) is not None for v in op.inputs)

    def _end_site(self, total: Value, branch: Value, fit: Fit) -> None:
        site = FittedLanes(self.state, fit.layout, fit.layout_after, self._is_folded)
        ended = Sum(total, self._read, branch, self.values.branches_of(branch), site)
        self.state, self._seen, self._is_open, self._pending = total, [total], False, []
        self.sums.keep(ended)

    def _end_unended(self, linear: Linear) -> None:
        """Ends the branches that a linear map reads, if they ended in lanes that hold only a branch, or in a sum that
        could not be fitted."""
        values = list(bottlenecks(linear.input, self.values, from_branches=True))
        if self._end_pending(values) is not None:
            return
        ended = self.values.ids_of(linear.input)
        if self._has_ended(ended, linear):
            state = next(filter(None, map(self.as_state, values)), None)
            self.lost.append(self.values.place.module)
            self._is_open = False
            if state is not None:
                self.state = state
            self.values.mark_made_of(ended, linear.input.order if state is None else state.root.order)

    def end_output(self, output: Value) -> None:
        if self._pending and self.values.ids_of(output):
            self._end_pending(list(bottlenecks(output, self.values, from_branches=True)))

    def _end_pending(self, values: List[Value]) -> Optional[Value]:
        """Ends the site of the first pending state among `values`, unless other rows join the last one. Returns it."""
        roots = {value.root for value in values}
        passed = [pending for pending in self._pending if pending[0].root in roots]
        if not passed or self._is_joined(values[0], passed[-1][0]):
            return None
        total, branch, fit = passed[0]
        ended = self.values.ids_of(branch)
        self._end_site(total, branch, fit)
        self.values.mark_made_of(ended, total.root.order)
        return total

    def _is_joined(self, value: Value, total: Value) -> bool:
        """Whether other rows are added between the total and the value, so that the total is no state."""
        opened, seen = [value.root], {total.root}
        while opened:
            root = opened.pop()
            if root in seen or root.op is None:
                continue
            seen.add(root)
            for v in root.op.inputs:
                if self.values.ids_of(v):
                    opened.append(v.root)
                elif not v.parameter and (self.is_state(v) or as_row(v, self.x) is not None):
                    return True
        return False
