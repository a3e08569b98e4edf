"""Of which values a norm takes its statistics, and which statistic it divides by, where a row's deviation
or root mean square do not explain what it gave."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Optional, Tuple

import torch
from torch import Tensor

from .numbers import Numbers, wide

# By the dimensions of [sequences, tokens, features] that share a mean and a variance.
AXES: List[Tuple[str, Tuple[int, ...]]] = [
    ("features", (2,)), ("tokens", (1,)), ("tokens and features", (1, 2)),
    ("sequences and tokens", (0, 1)), ("everything", (0, 1, 2))]

# What the powers of a statistic are called.
POWERS = {0.5: "the root of {}", 1.0: "{}", 2.0: "the square of {}", 4.0: "the fourth power of {}"}


def explain_statistics(s: Tensor, y: Tensor, gamma: Optional[Tensor], beta: Optional[Tensor],
                       fit: Numbers, is_whole: bool) -> Dict[str, Any]:
    """What stands in a profile in place of `fit`, of explain_norm, if that is none of a row's deviation or
    RMS: "statistics_over" (tokens, …) or "divides_by" (a statistic). {}: it is, or nothing is better.

    is_whole: s has every token of its sequences.
    """
    if fit["unexplained"] < 1e-2 and fit.get("divisor_noise", 1.0) < 2e-3:
        return {}
    z = wide(y) - (0 if beta is None else wide(beta))
    if gamma is not None:
        offset = fit.get("gamma_offset", 0)
        z = z / (offset + wide(gamma)).masked_fill(offset + wide(gamma) == 0, 1)
    axis = _axis(wide(s), z) if is_whole else "features"
    if axis != "features":
        return {"unexplained": fit["unexplained"], "statistics_over": axis}
    if fit["unexplained"] > 1e-2:
        return {}
    found = _statistic(wide(s).flatten(0, -2), z.flatten(0, -2), fit.get("centred", 1.0) > 0.5)
    return {"unexplained": fit["unexplained"], "centred": fit.get("centred"), "divides_by": found} \
        if found else {}


def _axis(s: Tensor, z: Tensor) -> str:
    """Of what z is the normalized s, centred or not, up to one factor."""
    left: Dict[str, float] = {}
    for name, dims in AXES:
        mean = s.mean(dims, keepdim=True)
        for centre in (mean, torch.zeros_like(mean)):
            u = (s - centre) / (s - centre).square().mean(dims, keepdim=True).sqrt().clamp(min=1e-300)
            factor = (z * u).sum() / u.square().sum()
            if name == "features" or factor > 0.5:  # else ε makes all rows one size, over any axis
                left[name] = min(left.get(name, math.inf), ((z - factor * u).norm() / z.norm()).item())
    best = min(left, key=lambda name: left[name])
    return best if left[best] < 0.02 and left[best] < 0.2 * left["features"] else "features"


def _statistic(s: Tensor, z: Tensor, is_centred: bool) -> Optional[str]:
    """The statistic of a row, and its power, to which the divisors are proportional."""
    mean = s.mean(-1, keepdim=True)
    a, b = (t - t.mean(-1, keepdim=True) for t in (s, z))
    divisor = (a * a).sum(-1) / (a * b).sum(-1)
    statistics = {"the deviation": a.square().mean(-1).sqrt(),
                  "the root mean square": s.square().mean(-1).sqrt(),
                  "the mean absolute deviation": (s - mean).abs().mean(-1),
                  "the mean absolute value": s.abs().mean(-1)}
    if not (divisor > 0).all():
        return None
    sound = "the deviation" if is_centred else "the root mean square"
    left = {}
    for name, statistic in statistics.items():
        x = statistic.clamp(min=1e-300).log()
        x, target = x - x.mean(), divisor.log() - divisor.log().mean()
        power = min(POWERS, key=lambda p: (target - p * x).norm().item())
        left[name, power] = ((target - power * x).norm() / target.norm()).item()
    best = min(left, key=lambda key: left[key])
    if best == (sound, 1.0) or left[best] > 0.05 or not left[best] < 0.2 * left.get((sound, 1.0), 1.0):
        return None
    return POWERS[best[1]].format(best[0])


def shares_statistics(read: Tensor, gave: Tensor, heads: int) -> bool:
    """Whether the heads of a token share a norm's mean and divisor, or each head of a row has its own: of
    queries and keys both are sound. Of norms without γ, or with one of 1."""
    def is_one_scale(s: Tensor, y: Tensor) -> bool:
        s, y = wide(s).flatten(0, -2), wide(y).flatten(0, -2)
        a, b = (t - t.mean(-1, keepdim=True) for t in (s, y))
        slope = (a * b).sum(-1, keepdim=True) / a.square().sum(-1, keepdim=True).clamp(min=1e-300)
        if (b - slope * a).norm() > 1e-4 * b.norm():
            return False
        size = slope * s.var(-1, unbiased=False, keepdim=True).sqrt()
        of_squares = slope * s.square().mean(-1, keepdim=True).sqrt()
        return any(bool(((t - 1).abs() < 0.02).all()) for t in (size, of_squares))

    if read.shape != gave.shape or heads < 2:
        return False
    if read.dim() == 4 and heads in read.shape[1:3]:
        axis = 1 if read.shape[1] == heads else 2
        groups = [t.movedim(axis, -2).flatten(-2) for t in (read, gave)]
    elif read.dim() == 3 and read.shape[-1] % heads == 0:
        groups = [t.unflatten(-1, (heads, -1)) for t in (read, gave)]
    else:
        return False
    return is_one_scale(*groups) and not is_one_scale(read, gave)
