"""Reads the arguments of softmax and of fused attention."""

from __future__ import annotations

import math
from typing import Optional, Tuple

from torch import Tensor

from ..record.graph import Op, Value
from .operators import FUSED_ATTENTION


def scores_of(op: Op) -> Tuple[Tensor, ...]:
    """Returns the input of a softmax, or (query, key) of a fused attention."""
    if op.name.startswith(FUSED_ATTENTION):
        return op.inputs[0].numbers, op.inputs[1].numbers
    return (op.inputs[0].numbers,)


def fused_options(op: Op) -> Tuple[Optional[Tensor], bool, Optional[float]]:
    """Returns (mask, is_causal, scale) of any fused attention."""
    mask = op.argument("attn_mask", op.argument("attn_bias"))
    scale = op.argument("scale")
    return (mask.numbers if isinstance(mask, Value) else None, bool(op.argument("is_causal", False)),
            scale if isinstance(scale, float) and math.isfinite(scale) else None)
