"""Outputs of further runs, and the limits of their differences."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..._undo import Undo
from .subject import Subject, Unmeasured
from .tensors import is_16_bit, main_output, relative_difference, with_tensors

# The smallest limits of differences. Another order of summation, as in kernels for single tokens, stays below them.
LIMIT, LIMIT_16_BIT = 1e-4, 0.03
SAME_SHAPES = 0.2  # share of these limits for batches of one shape, which use the same kernels
ROUNDINGS = 3  # the allowed multiple of the effect of rounding the embeddings once; a cache has 0.4 to 0.7
MOST_ROUNDING = 0.1  # a larger change cannot be judged


def least_limit(output: Tensor) -> float:
    return LIMIT_16_BIT if is_16_bit(output) else LIMIT


def limit_of(subject: Subject, difference: float, output: Tensor, share: float = 1) -> float:
    """Returns the limit of a difference. For a large difference, it includes the effect of rounding on this model."""
    limit = share * least_limit(output)
    if difference <= limit:
        return limit
    if subject.rounding is None:
        subject.rounding = _measure_rounding(subject)
    return max(limit, ROUNDINGS * min(MOST_ROUNDING, subject.rounding))


def add_difference(subject: Subject, check: str, difference: float, output: Tensor, share: float = 1, *, where: str,
                   detail: str = "") -> None:
    subject.add_line(check, difference, limit=limit_of(subject, difference, output, share), where=where, detail=detail)


def _measure_rounding(subject: Subject) -> float:
    """Returns the change of the output if the embeddings change in their last bit. Deep models amplify it."""
    def change(tensor: Tensor) -> Tensor:
        if not tensor.is_floating_point():
            return tensor
        noise = 2 * torch.rand(tensor.shape, generator=torch.Generator().manual_seed(6)).to(tensor.device) - 1
        return tensor * (1 + torch.finfo(tensor.dtype).eps * noise).to(tensor.dtype)

    output = output_of(subject, gradients=True)  # without, PyTorch's encoder sets outputs at padding to 0
    embeddings = [m for m in subject.names if isinstance(m, nn.Embedding)]
    inputs, named = subject.inputs, subject.named
    if not embeddings:
        inputs, named = with_tensors((inputs, named), change)
    with Undo() as hooks:
        for module in embeddings:
            hooks.hook(module, "forward", lambda module, inputs, embedded: change(embedded))
        return relative_difference(output_of(subject, gradients=True, inputs=inputs, named=named), output)


def output_of(subject: Subject, gradients: bool = False, **options: Any) -> Tensor:
    with torch.set_grad_enabled(gradients):
        output = main_output(subject.run(**options))
    if output is None:
        raise Unmeasured("there is no output of two dimensions or more")
    return output.detach()
