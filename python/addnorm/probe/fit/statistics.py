"""Finds the axes of a norm's statistics, and the statistic that it divides by. The probe uses this if a row's standard
deviation or root mean square does not explain the norm's output."""

from __future__ import annotations

import itertools
import math
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
from torch import Tensor

from .batch import Numbers
from .values import wide

# Sets of axes of [sites, sequences, tokens, features] that may share a mean and a variance.
AXES: Dict[str, Tuple[int, ...]] = {"features": (3,), "tokens": (2,), "tokens,features": (2, 3),
                                    "sequences,tokens": (1, 2), "sequences,tokens,features": (1, 2, 3)}
# The statistics of a row that a norm may divide by, by their names in a profile (NormFit::statistic), as functions of
# the row and of the centred row; and their powers.
STATISTICS: Dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "deviation": lambda s, centred: centred.square().mean(-1).sqrt(),
    "rms": lambda s, centred: s.square().mean(-1).sqrt(),
    "absolute_deviation": lambda s, centred: centred.abs().mean(-1),
    "absolute_value": lambda s, centred: s.abs().mean(-1)}
POWERS = -2.0, -1.0, -0.5, 0.5, 1.0, 2.0, 4.0


def is_explained(fit: Numbers) -> bool:
    """Whether a norm divided by each row's deviation or root mean square. fit: the result of read_norm()."""
    return fit["unexplained"] < 1e-2 and fit.get("divisor_noise", 1.0) < 2e-3


def statistics_numbers(s: Tensor, y: Tensor, gamma: Optional[Tensor], beta: Optional[Tensor],
                       gamma_offset: int) -> Dict[str, Tensor]:
    """Fits y − β = γ ⊙ (s − centre)/statistic for each set of axes and each statistic, and returns the residuals. The
    tensors are [sites, sequences, tokens, features]."""
    def along_features(vector: Tensor) -> Tensor:
        return wide(vector)[:, None, None]

    z = wide(y) - (0 if beta is None else along_features(beta))
    if gamma is not None:
        form = gamma_offset + along_features(gamma)
        z = z / form.masked_fill(form == 0, 1)
    return {**_axis_numbers(wide(s), z), **_power_numbers(wide(s).flatten(1, -2), z.flatten(1, -2))}


def read_statistics(numbers: Numbers, fit: Numbers, is_whole: bool) -> Numbers:
    """Returns the numbers that replace `fit` in a profile: "statistics_over" (axes), or "statistic" and its "power".
    Returns {} if no other statistic explains more than a row's deviation or root mean square.

    is_whole: s contains every token of its sequences.
    """
    axis = _read_axis(numbers) if is_whole else "features"
    if axis != "features":
        return {"unexplained": fit["unexplained"], "statistics_over": axis}
    if fit["unexplained"] > 1e-2:
        return {}
    found = _read_statistic(numbers, fit.get("centred", 1.0) > 0.5)
    return {"unexplained": fit["unexplained"], "centred": fit.get("centred"), **found} if found else {}


def _axis_numbers(s: Tensor, z: Tensor) -> Dict[str, Tensor]:
    """Normalizes s over each set of axes, with and without centring. Returns factors to z and relative residuals."""
    every = (1, 2, 3)
    factors, lefts = [], []
    for axes in AXES.values():
        mean = s.mean(axes, keepdim=True)
        for centre in (mean, torch.zeros_like(mean)):
            u = (s - centre) / (s - centre).square().mean(axes, keepdim=True).sqrt().clamp(min=1e-300)
            factor = (z * u).sum(every, keepdim=True) / u.square().sum(every, keepdim=True)
            factors.append(factor.flatten())
            lefts.append((z - factor * u).flatten(1).norm(dim=1) / z.flatten(1).norm(dim=1))
    return {"axis_factor": torch.stack(factors, 1), "axis_left": torch.stack(lefts, 1)}


def _read_axis(numbers: Numbers) -> str:
    left: Dict[str, float] = {}
    for i, name in enumerate(AXES):
        for at in (2 * i, 2 * i + 1):
            # A large ε makes the divisor constant, and then every set of axes fits.
            if name == "features" or numbers["axis_factor"][at] > 0.5:
                left[name] = min(left.get(name, math.inf), numbers["axis_left"][at])
    best = min(left, key=lambda name: left[name])
    return best if left[best] < 0.02 and left[best] < 0.2 * left["features"] else "features"


def _power_numbers(s: Tensor, z: Tensor) -> Dict[str, Tensor]:
    """Returns the relative distance of the rows' divisors from a multiple of each power of each statistic. The tensors
    are [sites, rows, features]."""
    a, b = (t - t.mean(-1, keepdim=True) for t in (s, z))
    divisor = (a * a).sum(-1) / (a * b).sum(-1)
    statistics = torch.stack([statistic(s, a) for statistic in STATISTICS.values()], 1)
    x = statistics.clamp(min=1e-300).log()
    powers = torch.tensor(list(POWERS), dtype=x.dtype).to(x.device, non_blocking=True)
    x = (x - x.mean(-1, keepdim=True))[:, :, None] * powers[:, None]  # [sites, statistics, powers, rows]
    target = divisor.clamp(min=1e-300).log()
    target = (target - target.mean(-1, keepdim=True))[:, None, None]
    return {"divisor_left": (target - x).norm(dim=-1) / target.norm(dim=-1),
            "divisor_is_positive": (divisor > 0).all(-1).double()}


def _read_statistic(numbers: Numbers, is_centred: bool) -> Dict[str, Any]:
    """Returns the statistic, with its power, to which the divisors are proportional, or {}."""
    if not numbers["divisor_is_positive"]:
        return {}
    every = dict(zip(itertools.product(STATISTICS, POWERS), numbers["divisor_left"]))
    left: Dict[Any, float] = {}
    for name in STATISTICS:
        power = min(POWERS, key=lambda p: every[name, p])
        left[name, power] = every[name, power]
    sound = ("deviation" if is_centred else "rms", 1.0)
    best = min(left, key=lambda key: left[key])
    if best == sound or left[best] > 0.05 or not left[best] < 0.2 * left.get(sound, 1.0):
        return {}
    return {"statistic": best[0], "power": best[1]}


# ---- Norms of queries and keys ---------------------------------------------------------------


def by_head(input: Tensor, output: Tensor, heads: int) -> Optional[List[Tensor]]:
    """Returns a norm's input and output with all heads of a token in one row, or None if heads have no axis."""
    if input.shape != output.shape or heads < 2:
        return None
    if input.dim() == 4 and heads in input.shape[1:3]:
        axis = 1 if input.shape[1] == heads else 2
        return [t.movedim(axis, -2).flatten(-2) for t in (input, output)]
    if input.dim() == 3 and input.shape[-1] % heads == 0:
        return [t.unflatten(-1, (heads, -1)) for t in (input, output)]
    return None


def scale_numbers(s: Tensor, y: Tensor) -> Dict[str, Tensor]:
    """Fits each centred row of y as a multiple of the centred row of s. Returns the relative residual, and the largest
    distance of the rows' normalized sizes from 1, for deviation and for root mean square."""
    s, y = wide(s).flatten(1, -2), wide(y).flatten(1, -2)
    a, b = (t - t.mean(-1, keepdim=True) for t in (s, y))
    slope = (a * b).sum(-1, keepdim=True) / a.square().sum(-1, keepdim=True).clamp(min=1e-300)
    sizes = torch.cat([slope * s.var(-1, unbiased=False, keepdim=True).sqrt(),
                       slope * s.square().mean(-1, keepdim=True).sqrt()], -1)
    return {"left": (b - slope * a).flatten(1).norm(dim=1) / b.flatten(1).norm(dim=1),
            "from_one": (sizes - 1).abs().amax(1)}


def is_one_scale(numbers: Numbers) -> bool:
    return not numbers["left"] > 1e-4 and min(numbers["from_one"]) < 0.02
