"""The fits of fit/, with their numbers read at once."""

from __future__ import annotations

from typing import Dict, Optional

from torch import Tensor

from .fit import attention, norms, sums, values
from .fit.batch import Numbers, fit_now
from .fit.values import wide

__all__ = ["Numbers", "explain_norm", "explain_sum", "score_numbers", "value_numbers", "wide"]


def value_numbers(rows: Tensor, stride: Optional[int]) -> Numbers:
    """Measures activations [sequences, tokens, features], tokens being `stride` apart (None: rows are no tokens)."""
    numbers = fit_now(lambda tensors: values.activation_numbers(tensors, stride is not None), rows)
    return values.read_activation(numbers, rows.shape, stride)


def explain_sum(total: Tensor, parts: Dict[str, Tensor]) -> Numbers:
    """The coefficients of total ≈ Σ from_k · part_k, and how much of the total is left."""
    numbers = fit_now(sums.inner_products, total, *parts.values())
    return sums.InnerProducts(numbers, parts, total.dtype, total.numel()).fit()


def explain_norm(s: Tensor, y: Tensor, gamma: Optional[Tensor], beta: Optional[Tensor],
                 is_rms: bool, has_unit_offset: Optional[bool]) -> Numbers:
    """Fits the kind of norm that made y of s. The last two arguments are those of Declared."""
    return norms.read_norm(fit_now(norms.norm_numbers, s, y, gamma, beta), s[..., 0].numel(),
                           norms.Declared(is_rms, has_unit_offset))


def score_numbers(scores: Tensor) -> Numbers:
    """Measures attention logits [..., queries, keys]."""
    return attention.read_scores(fit_now(attention.score_numbers, attention.some_queries(scores)))
