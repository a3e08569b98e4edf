"""What is measured of tensors: their size, what a sum is made of, what kind of norm made an output."""

from __future__ import annotations

import math
from typing import Any, Dict, Optional

import torch
from torch import Tensor

Numbers = Dict[str, Any]


def wide(tensor: Tensor) -> Tensor:
    """In float64, on a device that has it."""
    tensor = tensor.detach()
    return (tensor.cpu() if tensor.device.type == "mps" else tensor).double()


def rms(tensor: Tensor) -> float:
    """Summed in float64, without a copy in it where the device can."""
    t = wide(tensor) if tensor.device.type == "mps" else tensor.detach()
    return torch.linalg.vector_norm(t, dtype=torch.float64).item() / math.sqrt(max(1, t.numel()))


def moments(tensor: Tensor) -> Numbers:
    t = wide(tensor) if tensor.device.type == "mps" else tensor.detach()
    size, mean = rms(t), t.mean(dtype=torch.float64).item()
    low, high = t.min().item(), t.max().item()
    return {"rms": size, "mean": mean, "std": math.sqrt(max(0, size**2 - mean**2)),
            "abs_max": max(abs(low), abs(high)), "min": low}


def without_min(numbers: Numbers) -> Numbers:
    return {key: value for key, value in numbers.items() if key != "min"}


def value_numbers(rows: Tensor, stride: Optional[int]) -> Numbers:
    """Of activations [sequences, tokens, features], tokens being `stride` apart (None: rows are no tokens)."""
    v = wide(rows)
    size, (_, n, features) = v.abs(), v.shape
    flat, root, mean = size.flatten(), v.norm() / math.sqrt(v.numel()), v.mean()
    top = int(flat.argmax())
    numbers = {"rms": root, "mean": mean, "std": (root.square() - mean.square()).clamp(min=0).sqrt(),
               "abs_max": flat[top], "abs_median": flat[::1 + len(flat) // 2**17].median()}
    if features > 1 and n > 1 and stride is not None:
        units = (1 / v.norm(dim=-1)).unsqueeze(1) @ v  # summed over the tokens
        numbers["token_cosine"] = ((units.square().sum((1, 2)) - n) / (n * (n - 1))).mean()
    numbers = dict(zip(numbers, torch.stack(list(numbers.values())).tolist()))
    if math.isnan(numbers.get("token_cosine", 0)) and math.isfinite(numbers["rms"]):
        del numbers["token_cosine"]  # a token is 0 and points nowhere
    token = {} if stride is None else {"peak_token": top // features % n * stride}
    return {**numbers, "peak_feature": top % features, **token}


def mean_cosine(rows: Tensor, others: Tensor) -> float:
    """Of the angle by which a layer turns a row; 0 for rows of zeros."""
    a, b = wide(rows), wide(others)
    lengths = (a.norm(dim=-1) * b.norm(dim=-1)).clamp(min=1e-300)
    return ((a * b).sum(-1) / lengths).mean().item()


def explain_sum(total: Tensor, parts: Dict[str, Tensor]) -> Numbers:
    """total ≈ Σ from_k · part_k by least squares over all values, and how much of it is left.

    A coefficient that the data do not tell is left out: of parts that are multiples of each other, or so small
    that the total's own rounding hides them.
    """
    s = wide(total).flatten()
    matrix = torch.stack([wide(part).flatten() for part in parts.values()])
    lengths, length = matrix.norm(dim=1), s.norm()  # not finite where a value is not
    if not (torch.isfinite(lengths).all() and torch.isfinite(length)) or length == 0:
        return {}
    unit = lengths.clamp(min=1e-300)
    eigenvalues, vectors = torch.linalg.eigh(matrix @ matrix.T / unit / unit[:, None])
    told = eigenvalues > 1e-10
    inverse = vectors[:, told] / eigenvalues[told] @ vectors[:, told].T
    solution = inverse @ (matrix @ s / unit)
    left = (s - solution / unit @ matrix).norm()
    error = left / math.sqrt(s.numel()) * inverse.diagonal().sqrt() / lengths
    vague = (vectors[:, ~told].abs() > 1e-3).any(1) | ~(error < 0.02)
    vague &= (solution.abs() > 1e-3 * length) | (lengths == 0)  # of what has no part in it, that is told
    is_small = lengths < 2 * torch.finfo(total.dtype).eps * length
    vague |= is_small & (solution.abs() > 1e-3 * lengths)  # a coefficient of 0 is told
    return {"unexplained": (left / length).item(),
            **{f"from_{name}": (solution[i] / lengths[i]).item()
               for i, name in enumerate(parts) if not vague[i]}}


def explain_norm(s: Tensor, y: Tensor, gamma: Optional[Tensor], beta: Optional[Tensor],
                 is_rms: bool, has_unit_offset: Optional[bool]) -> Numbers:
    """What kind of norm made y of s: each row of y − β is Γ ⊙ (s − centre) / divisor.

    The last two arguments settle what the values cannot tell: for rows of mean 0 whether they were
    centred, for a γ that is one number whether it means γ or 1 + γ (None: what makes rows of size 1).
    """
    z = wide(y).flatten(0, -2) - (0 if beta is None else wide(beta))
    s = wide(s).flatten(0, -2)
    if not (torch.isfinite(z.norm()) and torch.isfinite(s.norm())) or z.norm() == 0:
        return {}

    def total(rows: Tensor) -> Tensor:
        return rows.sum(-1, keepdim=True)

    fits = []
    for form in [torch.ones_like(s[0])] if gamma is None else [wide(gamma), 1 + wide(gamma)]:
        # Least squares by row, with s measured from where it is orthogonal to Γ.
        weight = total(form.square()).clamp(min=1e-300)
        middle = total(s * form.square()) / weight
        a = form * (s - middle)
        slope = total(z * a) / total(a.square()).clamp(min=1e-300)
        level = total(z * form) / weight
        left = (z - slope * a - level * form).norm() / z.norm()
        fits.append((left.item(), slope, middle - level / slope))
    lefts = [fit[0] for fit in fits]
    both = len(fits) == 2 and max(lefts) < 1.5 * min(lefts) + 1e-6
    best = int(has_unit_offset or 0) if both else lefts.index(min(lefts))
    is_told = len(fits) == 2 and not both
    if both and has_unit_offset is None:
        spread = (s - s.mean(1, keepdim=True)).square().mean(1, keepdim=True).sqrt()
        sizes = [abs(math.log(max(1e-300, (fit[1] * spread).mean().item()))) for fit in fits]
        best = sizes.index(min(sizes))
        is_told = min(sizes) < 0.05 < 0.3 < max(sizes)
    left, slope, centre = fits[best]
    numbers: Numbers = {"unexplained": left}
    if is_told:
        numbers["gamma_offset"] = best
    if not (slope > 0).all():
        return numbers
    mean, divisor, centres = s.mean(1, keepdim=True), 1 / slope, not is_rms
    variance = (s - mean).square().mean(1, keepdim=True)
    if mean.square().mean() > 1e-6 * variance.mean():
        numbers["centred"] = (total(centre.T * mean.T) / total(mean.T.square())).item()
        centres = numbers["centred"] > 0.5
    u = variance if centres else s.square().mean(1, keepdim=True)
    square, apart = divisor**2, u - u.mean()
    steepness = (square * apart).sum() / apart.square().sum().clamp(min=1e-300)
    is_constant = apart.norm() > 0.01 * u.norm() and (steepness * apart).norm() < 1e-3 * square.norm()
    if is_constant and not 3 * u.mean() < square.mean() < 0.1:
        return numbers  # it divides all rows by one number, which is no ε that hides them: it is no norm
    for name, values in {"divisor": divisor, "deviation": u.sqrt(),
                         "eps_in_variance": divisor**2 - u, "eps_in_deviation": divisor - u.sqrt(),
                         "scale": u.sqrt() / divisor}.items():
        numbers[name] = values.mean().item()
        if name not in ("divisor", "deviation"):
            numbers[f"{name}_spread"] = values.std(unbiased=False).item()
    noise = square - square.mean() - steepness * apart
    if apart.norm() * steepness > 4000 * noise.norm() / len(u)**0.5:  # told to less than the doctor's 2e-3
        numbers["divisor_slope"] = steepness.item()
    numbers["divisor_noise"] = (noise.square().mean().sqrt() / square.mean()).item()
    return numbers


MOST_SCORES = 2**19  # of which queries are taken: more cost more than the rest of a measured step


def score_numbers(scores: Tensor) -> Numbers:
    """Of attention logits [..., queries, keys]; what a mask hides does not count."""
    stride = math.ceil(scores.numel() / MOST_SCORES)
    s = wide(scores[..., ::max(1, stride), :]).flatten(0, -2)
    visible = (s > s.amax(-1, keepdim=True) - 8e3) & (s > -8e3)
    if not visible.any():
        return {}
    numbers, keys = without_min(moments(s[visible])), visible.sum(-1)
    s, visible, keys = (t[keys > 1] for t in (s, visible, keys))
    if len(s) and torch.isfinite(s[visible]).all():
        log_p = torch.log_softmax(s.masked_fill(~visible, -math.inf), -1)
        bits = -(log_p.exp() * log_p.masked_fill(~visible, 0)).sum(-1)
        numbers["entropy"] = (bits / keys.double().log()).mean().item()
    return numbers


def fused_scores(query: Tensor, key: Tensor, mask: Optional[Tensor], is_causal: bool,
                 scale: Optional[float]) -> Tensor:
    """The logits of F.scaled_dot_product_attention, of some queries where there are many."""
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
