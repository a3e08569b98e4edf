"""Measures the sizes of activations, gradients and parameters."""

from __future__ import annotations

import math
from typing import Dict, Optional

import torch
from torch import Tensor

from .batch import Numbers


def wide(tensor: Tensor) -> Tensor:
    """Returns the tensor in float64, on a device that supports it."""
    return on_float64_device(tensor).double()


def on_float64_device(tensor: Tensor) -> Tensor:
    """Returns the tensor without a gradient, on a device that can sum it in float64."""
    tensor = tensor.detach() if tensor.requires_grad else tensor
    return tensor.cpu() if tensor.device.type == "mps" else tensor


def size_numbers(tensors: Tensor) -> Dict[str, Tensor]:
    """Returns the norm of each tensor [sites, …], summed in float64."""
    t = on_float64_device(tensors).flatten(1)
    return {"length": torch.linalg.vector_norm(t, dim=1, dtype=torch.float64)}


def moment_numbers(tensors: Tensor) -> Dict[str, Tensor]:
    t = on_float64_device(tensors)  # [sites, values]
    root = torch.linalg.vector_norm(t, dim=1, dtype=torch.float64) / math.sqrt(max(1, t.shape[1]))
    return {"rms": root, "mean": t.mean(1, dtype=torch.float64), "min": t.amin(1).double(), "max": t.amax(1).double()}


def read_moments(numbers: Numbers) -> Numbers:
    """Returns the numbers for a line of the profile."""
    size, mean, low = numbers["rms"], numbers["mean"], numbers["min"]
    return {"rms": size, "mean": mean, "std": math.sqrt(max(0, size**2 - mean**2)) if math.isfinite(size) else size,
            "abs_max": max(abs(low), abs(numbers["max"])), "min": low}


def read_without_min(numbers: Numbers) -> Numbers:
    """The same without the minimum, which no rule judges for scores and matrices."""
    return {key: value for key, value in read_moments(numbers).items() if key != "min"}


def activation_numbers(rows: Tensor, are_tokens: bool) -> Dict[str, Tensor]:
    """Measures activations [sites, sequences, tokens, features]. are_tokens: whether to compute token similarity."""
    v = wide(rows)
    n, features = v.shape[-2:]
    flat = v.flatten(1)
    size = flat.abs()
    root, mean = flat.norm(dim=1) / math.sqrt(flat.shape[1]), flat.mean(1)
    most, top = size.max(1)
    numbers = {"rms": root, "mean": mean, "std": (root.square() - mean.square()).clamp(min=0).sqrt(),
               "abs_max": most, "top": top,
               "abs_median": torch.stack([row.median() for row in size[:, ::1 + size.shape[1] // 2**17]])}
    if features > 1 and n > 1 and are_tokens:
        units = (1 / v.norm(dim=-1)).unsqueeze(-2) @ v  # the sum of unit vectors over the tokens
        numbers["token_cosine"] = ((units.square().sum((-2, -1)) - n) / (n * (n - 1))).mean(1)
    return numbers


def read_activation(numbers: Numbers, rows: torch.Size, stride: Optional[int]) -> Numbers:
    """Returns the numbers for a line of the profile. rows: the shape of the activations."""
    _, n, features = rows
    top = int(numbers.pop("top"))
    if math.isnan(numbers.get("token_cosine", 0)) and math.isfinite(numbers["rms"]):
        del numbers["token_cosine"]  # a token is 0 and has no direction
    token = {} if stride is None else {"peak_token": top // features % n * stride}
    return {**numbers, "peak_feature": top % features, **token}


def cosine_numbers(rows: Tensor, others: Tensor) -> Dict[str, Tensor]:
    """Returns the mean cosine between the rows of two tensors. The cosine of a row of zeros is 0."""
    a, b = wide(rows).flatten(1, -2), wide(others).flatten(1, -2)
    lengths = (a.norm(dim=-1) * b.norm(dim=-1)).clamp(min=1e-300)
    return {"layer_cosine": ((a * b).sum(-1) / lengths).mean(1)}
