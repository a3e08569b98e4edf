"""The targets of a loss that is a cross-entropy of the logits."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..._structure import tensors_in
from .gradients import Gradients
from .subject import Subject


class Targets(NamedTuple):
    """The targets of a loss that is the cross-entropy of the next token."""

    time: int  # the dimension along which the next token follows
    tokens: Tensor  # input tokens, each before its target
    where: Tensor  # by sequence and token: whether there is a target


def predicted_tokens(gradients: Gradients) -> tuple[Tensor, Tensor] | None:
    """Returns (targets, where there is one) if the loss is a cross-entropy of the logits, else None. The gradient of a
    cross-entropy is softmax − onehot, which is negative only at the target."""
    if gradients.by_logits is None or gradients.logits is None or gradients.by_logits.dim() != 3:
        return None
    # One sequence at a time: logits are large.
    negative = torch.stack([(rows < 0).sum(-1) for rows in gradients.by_logits])
    has_target = torch.stack([(rows != 0).any(-1) for rows in gradients.by_logits])
    if not has_target.any() or not (negative[has_target] == 1).all() or gradients.by_logits.shape[-1] < 3:
        return None
    return gradients.by_logits.argmin(-1), has_target


def next_token_targets(subject: Subject, gradients: Gradients) -> Targets | None:
    """Returns the targets of the loss if they are the next tokens of an input, else None."""
    found = predicted_tokens(gradients)
    if found is None:
        return None
    targets, has_target = found
    for tokens in tensors_in((subject.inputs, subject.named)):
        if tokens.is_floating_point() or tokens.shape != targets.shape or not has_target.any():
            continue
        for time in (1, 0):
            n = tokens.shape[time] - 1
            if n < 3:
                continue
            known = has_target.narrow(time, 0, n)
            follows = (tokens.narrow(time, 1, n) == targets.narrow(time, 0, n))[known]
            repeats = (tokens.narrow(time, 0, n) == targets.narrow(time, 0, n))[known]
            if known.any() and follows.float().mean() > 0.95 and repeats.float().mean() < 0.5:
                return Targets(time, tokens, has_target)
    return None
