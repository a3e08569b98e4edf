"""Follows the residual stream through the operators of a forward pass, and finds its branches, norms and sums.

A linear map begins a branch, attention and products join branches, and a sum with the stream ends them.
"""

from __future__ import annotations

from typing import List, Optional, Sequence, Union

from ..._structure import parent_of
from ..record.graph import Leave, Op, Value
from .norm_names import is_norm
from .norms import NormFinder
from .operators import BIASED, FUSED_ATTENTION, LINEAR, PRODUCT, SHAPED_LIKE, SOFTMAX
from .parts import Linear, Place
from .paths import in_order, peel
from .sums import SumFinder
from .values import STREAM, BranchIds, StreamValues, is_number


class Flow:
    """The stream that begins with x, and the parts found so far.

    Overridden by flows of lanes:

        lanes             the number of lanes; 0 for a stream of one row for each token
        lost              the modules of layers with a sum of lanes that could not be fitted
        ends_without_sum  False, because the sums of lanes have been ended by then
        take              SiteFlow: ends the sum of a site when its call ends
        enter_layer       LaneFlow: ends branches that were written into lanes one by one
        carries_stream    accepts the lanes as a layer's input, too
        end_output        LaneFlow: ends a pending branch that the output holds; SiteFlow: ends none
        _take_op          LaneFlow: ends branches that were written into lanes one by one
        _linear           skips linear maps that compute coefficients of lanes
        _note_mixing      LaneFlow: skips products that write to the lanes
        _add              LaneFlow: ends a sum of lanes; SiteFlow: ends none, because a sum ends with its site
    """

    lanes = 0
    has_last_lanes = False  # whether several values, the last lanes, are the stream after the last sublayer
    ends_without_sum = True  # whether a linear map that reads complete branches ends them

    def __init__(self, x: Union[Value, StreamValues], norms: Optional[NormFinder] = None) -> None:
        """norms: finds the norms; None: a NormFinder."""
        self.values = x if isinstance(x, StreamValues) else StreamValues(x)
        self.norms = NormFinder(self.values) if norms is None else norms
        self.linears: List[Linear] = []
        self.sums = SumFinder(self.values, self.norms, self.linears)
        self.lost: List[str] = []

    @property
    def x(self) -> Value:
        return self.values.x

    def take(self, event: Union[Op, Leave], place: Place) -> None:
        """Processes the next operator, or the end of a module whose name says that it is a norm."""
        if isinstance(event, Leave) and not is_norm(event.name, event.module):
            return
        self.values.place = place
        if isinstance(event, Op):
            self._take_op(event)
        elif event.inputs and event.outputs:
            self.norms.add_call(event)

    def enter_layer(self, inputs: List[Value]) -> None:
        """Processes the inputs of the next layer."""

    def carries_stream(self, value: Value) -> bool:
        """Whether a layer with this value as input continues this stream."""
        return self.values.depends_on_stream(value) and self.values.has_stream_shape(value)

    def is_end(self, value: Value, next_x: Value) -> bool:
        """Whether a value is the stream after the last sublayer. next_x: that stream, or with lanes, the last sum."""
        if self.has_last_lanes:
            return self.values.is_stream(value) and value.root.order > next_x.root.order
        return value.root is next_x.root

    # -- Operators --

    def _take_op(self, op: Op) -> None:
        if not op.outputs or op.name in SHAPED_LIKE:
            return
        inputs = [v for v in op.inputs if self.values.depends_on_stream(v)]
        outputs = [v for v in op.outputs if v.alias_of is None and is_number(v.tensor)]
        if not inputs or not outputs:
            return
        for value in inputs:
            self.values.readers.setdefault(value.root, []).append(op)
        linear = self._linear(op, inputs)
        if linear is not None:
            ids = self._run_linear(linear)
        elif self._add(op, inputs, outputs[0]):
            return
        else:
            ids = self._join(op, inputs)
        for value in outputs:
            self.values.mark(value, ids)
        if linear is None:
            self.norms.take(op, inputs, outputs)

    def _join(self, op: Op, inputs: List[Value]) -> BranchIds:
        """Joins the branches that an operator reads. Returns their ids. The operator is no linear map and no sum."""
        ids = self.values.ids_of_any(inputs)
        self._note_mixing(op, inputs, ids)
        self.sums.excuse_difference(op, inputs)
        is_sum = op.name == "add" and all(map(self.values.has_stream_shape, inputs))
        return frozenset([self.values.join(ids)]) if len(ids) > 1 and not is_sum else ids

    def _linear(self, op: Op, inputs: List[Value]) -> Optional[Linear]:
        if op.name not in LINEAR:
            return None
        weights = [v for v in op.inputs if v.parameter and v.tensor.dim() > 1 and not self.values.depends_on_stream(v)]
        if not weights:
            return None
        weight = weights[-1]
        read = next((v for v in inputs if v is not op.inputs[0]), inputs[0]) if op.name in BIASED else inputs[0]
        return Linear(op, str(weight.parameter), not weight.is_flipped, read, op.outputs[0])

    def _run_linear(self, linear: Linear) -> BranchIds:
        ids = self.values.ids_of(linear.input)
        if not ids and self._rejoins(linear):
            return STREAM
        self.linears.append(linear)
        if ids and self.ends_without_sum and self._has_ended(ids, linear):
            self.sums.end_without_stream(linear.input, ids)
            ids = STREAM
        elif all(branch.place.layer != self.values.place.layer for branch in self.values.branches_with(ids)):
            ids = STREAM  # values that layers pass on beside the stream, for example router logits
        if not ids:
            ids = self.values.begin_branch(linear.op.order)
        id = self.values.join(ids)
        self.values.branch_with(id).linears.append(linear)
        return frozenset([id])

    def _rejoins(self, linear: Linear) -> bool:
        """Whether a layer begins with a linear map of the concatenated stream and skip, as in a U-net."""
        stands_in_layer = parent_of(parent_of(linear.weight)) == self.values.place.module
        return stands_in_layer and linear.input.tensor.numel() > self.x.tensor.numel() and \
            linear.input.shape[:-1] == linear.output.shape[:-1] and self.values.has_stream_shape(linear.output)

    def _note_mixing(self, op: Op, inputs: List[Value], ids: BranchIds) -> None:
        """Marks the branches in which an operator mixes tokens: products of activations, and attention."""
        is_fused = op.name.startswith(FUSED_ATTENTION)
        # Learned latents are parameters that count as part of the stream.
        made = [v for v in op.inputs if not v.parameter or self.values.depends_on_stream(v)]
        is_product = op.name in PRODUCT and len(made) > 1
        if not ids or not (is_fused or is_product or op.name in SOFTMAX):
            return
        if not is_fused and not is_product:
            branch = self.values.branches_with(ids)[0]
            dim = op.argument("dim")
            if branch.is_attention and dim in (-1, inputs[0].tensor.dim() - 1):
                branch.scores.append(op)
            return
        branch = self.values.branch_with(self.values.join(ids))
        branch.mixed_at = op.order
        if is_fused:
            branch.scores.append(op)

    # -- Ends of branches --

    def _add(self, op: Op, inputs: List[Value], total: Value) -> bool:
        """Returns whether an operator adds branches to the stream."""
        return self.sums.take(op, inputs, total)

    def _has_ended(self, ids: BranchIds, linear: Linear) -> bool:
        """Whether a linear map reads the output of complete branches directly, without a sum between them."""
        if not self.values.has_stream_shape(linear.input):
            return False
        module = parent_of(linear.weight)
        last = self._peeled(in_order(self._peeled(linear.input))).root.op
        return all(branch.place.layer != self.values.place.layer or branch.has_ended_before(module, last)
                   for branch in self.values.branches_with(ids))

    def _peeled(self, value: Value) -> Value:
        return peel(value, self.values, self.norms)[-1][0]

    def end_output(self, output: Value) -> None:
        """Ends the branches of a model output that were not added to the stream."""
        open_ones = self.values.open_ones(self.values.ids_of(output))
        if open_ones and self.values.has_stream_shape(output):
            self.sums.end_without_stream(output, open_ones)

    def end_layer(self, outputs: Sequence[Value]) -> None:
        """Ends a branch that the last layer returns instead of a sum, if the branch reads a norm's output."""
        for output in outputs if not any(map(self.values.has_stream, outputs)) else ():
            reads = [branch.linears[0].input for branch in self.values.branches_of(output)]
            if all(self.norms.at(in_order(read)) for read in reads):
                self.end_output(output)
