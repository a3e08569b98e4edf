"""Measures the logits of attention, and finds the norms of queries and keys."""

from __future__ import annotations

import math
from typing import Iterator, Optional, Tuple

from torch import Tensor

from ..find.norm_names import norm_of_attention
from ..find.operators import FUSED_ATTENTION
from ..find.parts import Norm
from ..find.sublayers import Sublayer
from ..fit.attention import fused_scores, read_scores, score_numbers, some_queries
from ..fit.batch import Numbers
from ..record.graph import Op, Value
from .measured import Measured
from .profile import Site


def fused_options(op: Op) -> Tuple[Optional[Tensor], bool, Optional[float]]:
    """Returns (mask, is_causal, scale) of any fused attention."""
    mask = op.argument("attn_mask", op.argument("attn_bias"))
    scale = op.argument("scale")
    return (mask.recorded if isinstance(mask, Value) else None, bool(op.argument("is_causal", False)),
            scale if isinstance(scale, float) and math.isfinite(scale) else None)


def logits_of(op: Op) -> Tensor:
    """Returns the input of a softmax, or the logits of a fused attention for evenly spaced queries."""
    if op.name.startswith(FUSED_ATTENTION):
        return fused_scores(op.inputs[0].recorded, op.inputs[1].recorded, *fused_options(op))
    return op.inputs[0].recorded


def heads_of(op: Op) -> int:
    """Returns the number of heads of a softmax or a fused attention."""
    numbers = op.inputs[0].recorded  # the logits, or the queries
    return numbers.shape[-3] if numbers.dim() > 3 else 1


def record_scores(measured: Measured, site: Site, sub: Sublayer) -> None:
    """Measures the logits of a sublayer's attention."""
    if site in measured.entries:
        return
    if sub.branch.scores:
        logits = logits_of(sub.branch.scores[0])
        entry: Numbers = {}
        measured.entries[site] = entry
        measured.fit(score_numbers, [some_queries(logits)], lambda numbers: entry.update(read_scores(numbers)))
    if sub.branch.is_attention:
        measured.coverage.count("attentions", bool(sub.branch.scores))


def norms_of_heads(sub: Sublayer) -> Iterator[Tuple[str, Norm, int]]:
    """Yields the norms of queries and keys: their weight, the norm and the number of heads."""
    for norm in sub.branch.norms:
        which = norm_of_attention(norm.module)
        if which is not None and norm.order < sub.branch.mixed_at:
            yield which, norm, heads_of(sub.branch.scores[0]) if sub.branch.scores else 1
