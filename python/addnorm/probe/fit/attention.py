"""Measures the logits of attention: their size, and the entropy of their softmax."""

from __future__ import annotations

import math
from typing import Dict, Optional

import torch
from torch import Tensor

from .batch import Numbers
from .values import read_without_min, wide

MOST_SCORES = 2**19  # the most logits that are measured; more cost more time than the rest of a measured step


def some_queries(scores: Tensor) -> Tensor:
    """Returns the logits [..., queries, keys] of evenly spaced queries, at most about MOST_SCORES numbers."""
    stride = math.ceil(scores.numel() / MOST_SCORES)
    return scores[..., ::max(1, stride), :]


def score_numbers(scores: Tensor) -> Dict[str, Tensor]:
    """Measures attention logits [sites, ..., queries, keys]. Masked logits do not count."""
    s = wide(scores).flatten(1, -2)
    visible = (s > s.amax(-1, keepdim=True) - 8e3) & (s > -8e3)
    keys = visible.sum(-1)
    count, seen = keys.sum(-1), s.masked_fill(~visible, 0)
    log_p = torch.log_softmax(s.masked_fill(~visible, -math.inf), -1).masked_fill(~visible, 0)
    entropy = -(log_p.exp() * visible * log_p).sum(-1) / keys.clamp(min=2).double().log()
    has_choice = keys > 1
    return {"count": count.double(), "rms": seen.flatten(1).norm(dim=1) / count.sqrt(),
            "mean": seen.sum((1, 2)) / count, "min": s.masked_fill(~visible, math.inf).amin((1, 2)),
            "max": s.masked_fill(~visible, -math.inf).amax((1, 2)),
            "is_finite": torch.isfinite(seen).all(2).all(1).double(), "queries": has_choice.sum(1).double(),
            "entropy": entropy.masked_fill(~has_choice, 0).sum(1)}


def read_scores(numbers: Numbers) -> Numbers:
    if not numbers["count"]:
        return {}
    found = read_without_min(numbers)
    if numbers["queries"] and numbers["is_finite"]:
        found["entropy"] = numbers["entropy"] / numbers["queries"]
    return found


def fused_scores(query: Tensor, key: Tensor, mask: Optional[Tensor], is_causal: bool, scale: Optional[float]) -> Tensor:
    """Returns the logits of F.scaled_dot_product_attention for evenly spaced queries, as some_queries() does."""
    with torch.no_grad():
        if key.dim() > 3 and key.shape[-3] != query.shape[-3]:
            key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
        n, keys = query.shape[-2], key.shape[-2]
        stride = max(1, math.ceil(query[..., 0].numel() * keys / MOST_SCORES))
        scores = query[..., ::stride, :] @ key.transpose(-2, -1)
        scores = scores * (query.shape[-1] ** -0.5 if scale is None else scale)
        if is_causal:
            rows = torch.arange(0, n, stride, device=query.device)
            mask = torch.arange(keys, device=query.device) <= rows[:, None]
        elif mask is not None and mask.shape[-2] == n:
            mask = mask[..., ::stride, :]
        if mask is None:
            return scores
        return scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
