"""Finds the coefficients of a sum of lanes among the values that it was computed from: the carry, whether it was
transposed, its type, and the factor between a sigmoid and the write."""

from __future__ import annotations

from typing import Callable, Dict, Iterator, NamedTuple, Optional

from torch import Tensor

from ..._structure import dtype_name
from ..fit.lanes import LaneRows, share
from ..fit.values import wide
from ..record.graph import Value
from .operators import DIVIDES, PARTS
from .parts import Sum

SelectRows = Callable[[Tensor], Tensor]  # returns the measured rows of [tokens, k]


class RecordedCarry(NamedTuple):
    of: Tensor  # [rows, lanes, lanes], transposed if the sum uses the transpose
    is_transpose: Optional[bool]  # whether the sum uses the tensor's transpose; None if both give the same result
    dtype: str  # the type in which it was computed


def made_of(lane_sum: Sum) -> Iterator[Value]:
    """Yields the values that a sum was computed from, without the state before and the branch, the latest first."""
    ends = {lane_sum.lanes.before.root, lane_sum.branch.root}
    found: Dict[Value, None] = {}
    opened = [lane_sum.total.root]
    while opened:
        value = opened.pop()
        if value in found or value in ends:
            continue
        found[value] = None
        is_made_here = value.op is not None and value.order > lane_sum.lanes.before.root.order
        opened += [v.root for v in value.op.inputs] if is_made_here else []
    return iter(sorted(found, key=lambda value: -value.order))


# ---- The carry -------------------------------------------------------------------------------


def find_carry(lane_sum: Sum, values: LaneRows, rows: SelectRows) -> Optional[RecordedCarry]:
    """Finds the last tensor that explains the sum as the carry, or whose transpose does. Returns None if none does."""
    n = values.before.shape[1]
    for value in made_of(lane_sum):
        if value.shape[-1:] in ((n,), (n * n,)) and value.tensor.is_floating_point():
            recorded = rows_of(value, n * n, len(values.before), rows)
            found = None if recorded is None else _as_carry(recorded.unflatten(-1, (n, n)), values)
            if found is not None:
                return found._replace(dtype=computed_in(value))
    return None


def computed_in(value: Value) -> str:
    """Returns the type of the last normalization (an operator of DIVIDES) before a value, or the value's own type."""
    opened, last = [value], value
    for _ in range(32):
        if not opened:
            break
        op = opened.pop(0).root.op
        if op is not None and op.name in DIVIDES:
            last = op.outputs[0]
            break
        opened += [] if op is None else [v for v in op.inputs if v.tensor.is_floating_point()]
    return dtype_name(last.tensor)


def _as_carry(recorded: Tensor, values: LaneRows) -> Optional[RecordedCarry]:
    turned = recorded.transpose(1, 2)
    left = _left(values, recorded), _left(values, turned)
    most = min(0.02, 30 * values.precision)
    if min(left) > most:
        return None
    is_distinct = max(left) > 10 * most
    is_transpose = left[1] < left[0]
    if not is_distinct:
        return RecordedCarry(recorded, None, "")
    return RecordedCarry(turned if is_transpose else recorded, is_transpose, "")


def _left(values: LaneRows, carry: Tensor) -> float:
    """Returns the relative residual of the sum with a carry, after a fit to the branch."""
    rest, f = values.after - carry @ values.before, values.branch[:, None]
    rest = rest - (rest * f).sum(-1, keepdim=True) / f.square().sum(-1, keepdim=True).clamp(min=1e-300) * f
    return share(rest, values.after)


# ---- The write -------------------------------------------------------------------------------


def find_gate(lane_sum: Sum, write: Tensor, rows: SelectRows) -> Optional[float]:
    """Returns the factor between a sigmoid's output and the write [rows, lanes], or None."""
    for value in filter(is_sigmoid, made_of(lane_sum)):
        recorded = rows_of(value, write.shape[1], len(write), rows)
        if recorded is not None:
            factor = ((recorded * write).sum() / recorded.square().sum()).item()
            if share(factor * recorded - write, write) < 0.02:
                return factor
    return None


def is_sigmoid(value: Value) -> bool:
    """Whether a value is the output of a sigmoid, or a part of it."""
    op = value.op
    while op is not None and op.name in PARTS:
        op = op.inputs[0].root.op
    return op is not None and op.name == "sigmoid"


def rows_of(value: Value, size: int, count: int, rows: SelectRows) -> Optional[Tensor]:
    """Returns coefficients as [rows, size], or None if there is neither one set for all tokens nor one for each."""
    numbers = value.recorded
    if numbers.numel() % size:
        return None
    if numbers.numel() == size:
        return wide(numbers).reshape(1, size).expand(count, size)
    try:
        found = rows(numbers.reshape(-1, size))
    except RuntimeError:
        return None
    return wide(found) if len(found) == count else None
