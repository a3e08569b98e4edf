"""Fits the kind of a norm: each row of y − β is Γ ⊙ (s − centre)/divisor, where Γ is γ, 1 + γ or 1.

The device fits the centre and the divisor of each row for each possible Γ. It compares the centre with the row's mean,
and the divisor with the row's standard deviation and root mean square. The host chooses between the results.
"""

from __future__ import annotations

import math
from typing import Dict, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from .batch import Numbers
from .values import wide

DEVIATION, ROOT_MEAN_SQUARE = range(2)  # the sizes of a row
COMPARED = "eps_in_variance", "eps_in_deviation", "scale"  # the differences between a divisor and such a size


class KnownNorm(NamedTuple):
    """Facts declared by the code, for cases that the values do not determine."""
    is_rms: bool  # whether rows are not centred; not measurable if rows have a mean of 0
    has_unit_offset: Optional[bool]  # whether γ means 1 + γ; not measurable if γ is constant; None: unknown


def norm_numbers(s: Tensor, y: Tensor, gamma: Optional[Tensor], beta: Optional[Tensor]) -> Dict[str, Tensor]:
    """Returns numbers for each form of Γ (γ, 1 + γ) and each size (deviation, root mean square)."""
    z = wide(y).flatten(1, -2) - (0 if beta is None else wide(beta)[:, None])
    s = wide(s).flatten(1, -2)  # [sites, rows, features]
    mean = s.mean(-1)
    a = s - mean[..., None]
    forms = torch.ones_like(s[:, :1]) if gamma is None else torch.stack([wide(gamma), 1 + wide(gamma)], 1)

    # Least squares for each row, with an origin of s that makes it orthogonal to Γ: [sites, rows, forms].
    columns = forms.transpose(1, 2)
    squares = columns.square()
    weight = squares.sum(1, keepdim=True).clamp(min=1e-300)
    middle = a @ squares / weight
    square = (a.square() @ squares - middle.square() * weight).clamp(min=1e-300)
    level = z @ columns / weight
    slope = ((z * a) @ columns - level * weight * middle) / square
    start = level - slope * middle
    left = torch.stack([torch.addcmul(z, torch.addcmul(start[..., i:i + 1], slope[..., i:i + 1], a),
                                      forms[:, i:i + 1], value=-1).flatten(1).norm(dim=1)
                        for i in range(forms.shape[1])], 1)
    centre = mean[..., None] + middle - level / slope

    variance = a.square().mean(-1)
    sizes = torch.stack([variance, variance + mean.square()], 1)  # squared sizes, [sites, sizes, rows]
    numbers = {"gain": forms[:, 0].abs().amax(1), "length": z.flatten(1).norm(dim=1),
               "source": s.flatten(1).norm(dim=1), "left": left, "is_positive": (slope > 0).all(1).double(),
               "row_size": (slope * variance.sqrt()[..., None]).mean(1), "mean_square": mean.square().mean(1),
               "variance": variance.mean(1),
               "centred": (centre * mean[..., None]).sum(1) / mean.square().sum(1, keepdim=True)}
    return {**numbers, **_divisor_numbers(1 / slope.transpose(1, 2).unsqueeze(2), sizes.unsqueeze(1))}


def _divisor_numbers(divisor: Tensor, sizes: Tensor) -> Dict[str, Tensor]:
    """Compares divisors [sites, forms, 1, rows] with squared sizes [sites, 1, sizes, rows]."""
    square, root = divisor.square(), sizes.sqrt()
    apart = sizes - sizes.mean(-1, keepdim=True)
    steepness = (square * apart).sum(-1) / apart.square().sum(-1).clamp(min=1e-300)
    noise = square - square.mean(-1, keepdim=True) - steepness[..., None] * apart
    compared = torch.stack([square - sizes, divisor - root, root / divisor])
    return {"size": sizes.mean(-1), "size_norm": sizes.norm(dim=-1), "apart": apart.norm(dim=-1),
            "square": square.mean(-1), "square_norm": square.norm(dim=-1), "steepness": steepness,
            "noise": noise.norm(dim=-1), "divisor": divisor.mean(-1), "deviation": root.mean(-1),
            **dict(zip(COMPARED, compared.mean(-1))),
            **dict(zip((f"{name}_spread" for name in COMPARED), compared.std(-1, unbiased=False)))}


def read_norm(numbers: Numbers, rows: int, declared: KnownNorm) -> Numbers:
    """Returns the numbers for a line of the profile. Returns {"vanished": 1} if y is 0 although s and γ are not, and {}
    for other values that are 0 or not finite."""
    if not (math.isfinite(numbers["length"]) and math.isfinite(numbers["source"])) or numbers["length"] == 0:
        has_vanished = numbers["length"] == 0 < numbers["source"] < math.inf and numbers["gain"] > 0
        return {"vanished": 1} if has_vanished else {}
    lefts = [left / numbers["length"] for left in numbers["left"]]
    form, is_told = _choose_form(numbers, lefts, declared.has_unit_offset)
    found: Numbers = {"unexplained": lefts[form]}
    if is_told:
        found["gamma_offset"] = form
    if not numbers["is_positive"][form]:
        return found
    is_centred = not declared.is_rms
    if numbers["mean_square"] > 1e-6 * numbers["variance"]:
        found["centred"] = numbers["centred"][form]
        is_centred = found["centred"] > 0.5
    return {**found, **_read_divisor(numbers, rows, form, DEVIATION if is_centred else ROOT_MEAN_SQUARE)}


def _choose_form(numbers: Numbers, lefts: List[float], has_unit_offset: Optional[bool]) -> Tuple[int, bool]:
    """Returns the index of Γ's form, and whether the values determine it."""
    if len(lefts) == 1:
        return 0, False
    if not max(lefts) < 1.5 * min(lefts) + 1e-6:
        return lefts.index(min(lefts)), True
    if has_unit_offset is not None:
        return int(has_unit_offset), False
    sizes = [abs(math.log(max(1e-300, size))) for size in numbers["row_size"]]
    return sizes.index(min(sizes)), min(sizes) < 0.05 < 0.3 < max(sizes)


def _read_divisor(numbers: Numbers, rows: int, form: int, size: int) -> Numbers:
    pair = 2 * form + size
    mean, square = numbers["size"][size], numbers["square"][form]
    apart, steepness, noise = numbers["apart"][size], numbers["steepness"][pair], numbers["noise"][pair]
    is_constant = apart > 0.01 * numbers["size_norm"][size] and \
        abs(steepness) * apart < 1e-3 * numbers["square_norm"][form]
    if is_constant and not 3 * mean < square < 0.1:
        return {}  # not a norm: all rows are divided by one number, although ε is small
    found: Numbers = {"divisor": numbers["divisor"][form], "deviation": numbers["deviation"][size]}
    for name in COMPARED:
        found[name], found[f"{name}_spread"] = numbers[name][pair], numbers[f"{name}_spread"][pair]
    if apart * steepness > 4000 * noise / rows**0.5:  # its error is below the doctor's limit of 2e-3
        found["divisor_slope"] = steepness
    found["divisor_noise"] = noise / math.sqrt(rows) / square
    return found


def unit_length_numbers(rows: Tensor, gamma: Optional[Tensor], beta: Optional[Tensor]) -> Dict[str, Tensor]:
    """Returns the largest difference of rows' lengths from 1. The rows of nGPT's norms have length 1."""
    rows = wide(rows).flatten(1, -2) - (0 if beta is None else wide(beta)[:, None])
    if gamma is not None:
        form = wide(gamma)[:, None]
        rows = rows / form.masked_fill(form == 0, 1)
    return {"from_one": (rows.norm(dim=-1) - 1).abs().amax(1)}


def is_unit_length(numbers: Numbers) -> bool:
    return bool(numbers["from_one"] < 1e-2)
