"""Follows values back through the operators that made them, to the stream, a branch, a norm or a factor."""

from __future__ import annotations

from typing import Dict, Iterator, List, Optional, Set, Tuple

from ..record.graph import Op, Value
from .norms import NormFinder
from .operators import FACTORS, KEEPS_STREAM, LEADS_TO_SUM, MODULATING, RANDOM, REORDERING, SCALING
from .values import StreamValues

# ---- Factors of the stream and of its branches --------------------------------------------------


def without_factor(value: Value) -> Value:
    """Returns x if the value is a multiple of x by a number, else the value."""
    op = value.root.op
    if op is None or op.name not in FACTORS or any(v.tensor.numel() > 1 for v in op.inputs[1:]):
        return value
    return op.inputs[0]


def peel(value: Value, values: StreamValues, norms: NormFinder) -> List[Tuple[Value, str]]:
    """Returns the steps from a term of a sum back to the branch's output, as (value, the kind of the step after it).
    The kinds are "", "norm", "dropout", "mask" (of 0 and 1), "gains" (learned), "scale" and "projection"."""
    steps = [(value, "")]
    while True:
        value = steps[-1][0]
        norm = norms.at(value)
        if norm is not None:
            steps.append((norm.input, "norm"))
            continue
        if value.root in values.projected:
            steps.append((values.projected[value.root], "projection"))
            continue
        op = value.root.op
        if op is None:
            return steps
        inside = [v for v in op.inputs if values.ids_of(v)]
        others = [v for v in op.inputs if not values.ids_of(v)]
        if op.name == "native_dropout":
            steps.append((inside[0], "dropout"))
        elif op.name in FACTORS and len(inside) == 1 and values.has_stream_shape(inside[0]) \
                and not any(values.is_stream(v) for v in others):
            steps.append((inside[0], kind_of_factor(others)))
        else:
            return steps


def kind_of_factor(factors: List[Value]) -> str:
    if any(is_random(v) for v in factors if v.tensor.numel() == 1):
        return "dropout"
    masks = [v for v in factors if not v.parameter and v.tensor.numel() not in (1, v.tensor.shape[-1])]
    if masks:
        return "mask" if all(v.recorded.max() == 1 for v in masks) else "dropout"
    return "gains" if any(v.parameter for v in factors) else "scale"


def is_random(value: Value, depth: int = 4) -> bool:
    """Whether a value is drawn at random, such as the factor of stochastic depth."""
    op = value.root.op
    return op is not None and depth > 0 and (op.name in RANDOM or any(is_random(v, depth - 1) for v in op.inputs))


def factors_between(value: Value, source: Value, values: StreamValues, depth: int = 8) -> List[Value]:
    """Returns the computed factors for each feature, such as gates and modulations, that multiply `source` between it
    and `value`. Learned vectors do not count. Returns [] if an operator outside of MODULATING lies between."""
    found: List[Value] = []
    while value.root is not source.root:
        op = value.root.op
        mine = [] if op is None else list(filter(values.depends_on_stream, op.inputs))
        if op is None or depth == 0 or len(mine) != 1 or op.name not in MODULATING:
            return []
        if op.name in ("mul", "addcmul"):
            width = values.x.shape[-1]
            found += [v for v in op.inputs if v is not mine[0] and not v.parameter and v.shape[-1:] == (width,)
                      and (op.name == "mul" or v is not op.inputs[0])]
        value, depth = mine[0], depth - 1
    return found


# ---- Whether a value leads to another -----------------------------------------------------------


def is_made_of(value: Value, source: Value, values: StreamValues, depth: int = 8) -> bool:
    """Whether a value is `source`, or is `source` after factors, masks, clamps and numbers of other networks."""
    if value.root is source.root:
        return True
    op = value.root.op
    if op is None or depth == 0 or op.name not in KEEPS_STREAM:
        return False
    mine = list(filter(values.depends_on_stream, op.inputs))
    return bool(mine) and all(is_made_of(v, source, values, depth - 1) for v in mine)


def is_dropped(value: Value, source: Value) -> bool:
    """Whether a value is `source`, a dropout of it or a multiple of it."""
    op = value.root.op
    return value.root is source.root or op is not None and op.name in ("native_dropout", "mul") and any(
        v.root is source.root for v in op.inputs)


def is_older(value: Value, begin: int, depth: int = 4) -> bool:
    """Whether a value was computed before the operator `begin`, or is a sum or a multiple of such values."""
    op = value.root.op
    if value.root.order < begin or op is None or depth == 0:
        return value.root.order < begin
    return op.name in SCALING and all(is_older(v, begin, depth - 1) for v in op.inputs)


def in_order(value: Value) -> Value:
    """Returns the value before operators that move tokens, such as the roll of shifted windows."""
    while value.root.op is not None and value.root.op.name in REORDERING:
        value = value.root.op.inputs[0]
    return value


def is_sum_with(value: Value, others: Set[Value], depth: int = 12) -> bool:
    """Whether sums and norms of its shape lead to a value, and one of them adds a value of `others`."""
    op = value.root.op
    if op is None or depth == 0:
        return False
    same = [v for v in op.inputs if v.shape == value.root.shape]
    return op.name == "add" and any(v.root in others for v in same) or \
        any(is_sum_with(v, others, depth - 1) for v in same)


def leads_to_sum(op: Op, total: Value, values: StreamValues, depth: int = 8) -> bool:
    """Whether an operator's output is used only in the residual sum `total`."""
    if op is total.root.op:
        return True
    if depth == 0 or op.name not in LEADS_TO_SUM:
        return False
    readers = [reader for v in op.outputs for reader in values.readers.get(v.root, [])]
    return bool(readers) and all(leads_to_sum(reader, total, values, depth - 1) for reader in readers)


def makes_branch(op: Op, x: Value, values: StreamValues) -> bool:
    """Whether an operator makes a part of the branch from the branch f and the stream x: f − x or c(f)·x, not x + f."""
    is_added = op.name == "add" or op.name == "sub" and op.inputs[0].root is x.root
    return not is_added and any(map(values.ids_of, op.inputs))


# ---- Rows and lanes -----------------------------------------------------------------------------


def as_row(value: Value, row: Value) -> Optional[Value]:
    """Returns a view of the value with one row like `row` for each token, or None."""
    if value.tensor.numel() != row.tensor.numel() or not value.tensor.is_floating_point():
        return None
    seen = [v for v in value.views() if v.tensor.dim() > 1 and v.shape[-1] == row.shape[-1]]
    return next((v for v in seen if v.shape == row.shape), seen[0] if seen else None)


def bottlenecks(value: Value, values: StreamValues, from_branches: bool = False) -> Iterator[Value]:
    """Yields the bottlenecks of a value, the latest first: each is on every path from the stream to the value. With
    `from_branches`, paths from the stream's branches count too."""
    opened: Dict[Value, Value] = {value.root: value}
    while opened:
        latest = max(opened, key=lambda root: root.order)
        if len(opened) == 1:
            yield opened[latest]
        del opened[latest]
        for v in [] if latest.op is None else latest.op.inputs:
            if values.ids_of(v) or values.depends_on_stream(v) and not from_branches:
                opened.setdefault(v.root, v)


# ---- What a sublayer adds to and reads ----------------------------------------------------------


def learned_stream(stream: Optional[Value], x: Value, values: StreamValues) -> Value:
    """Returns x, or g ⊙ (x + b) if the residual connection has learned g and b. stream: the term of the sum."""
    value, found = stream, x
    while value is not None and value.root is not x.root:
        op = value.root.op
        learned = [] if op is None else [v for v in op.inputs if v.parameter]
        if not learned or op.name not in ("mul", "add"):
            return x  # another operator changes x
        if found is x and learned[0].tensor.numel() > 1:
            found = value
        value = next((v for v in op.inputs if values.is_stream(v)), None)
    return found


def norm_as_read(output: Value, read: Value, values: StreamValues) -> Value:
    """Returns a norm's output as the sublayer reads it, after any scaling by one number."""
    value: Optional[Value] = read
    while value is not None and value.root is not output.root:
        op = value.root.op
        others = [] if op is None else [v for v in op.inputs if not values.is_stream(v)]
        if op is None or op.name not in FACTORS or any(v.tensor.numel() > 1 for v in others):
            return output
        value = next((v for v in op.inputs if values.is_stream(v)), None)
    return output if value is None or read.root is output.root else values.in_stream_shape(read)
