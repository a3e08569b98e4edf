"""The loss before training, beside ln V of V logits: initial-loss."""

from __future__ import annotations

import torch
from torch import nn

from ..run.gradients import Gradients
from ..run.subject import Subject
from ..run.targets import predicted_tokens


def measure_initial_loss(subject: Subject, gradients: Gradients) -> None:
    """Adds initial-loss: the loss and ln V, if the loss is the mean cross-entropy of V logits."""
    found = predicted_tokens(gradients)
    if found is None or gradients.logits is None:
        return
    targets, has_target = found
    logits = gradients.logits.detach()[has_target].float()
    entropy = nn.functional.cross_entropy(logits, targets[has_target])
    if abs(float(entropy) - gradients.loss) < 0.01 * abs(gradients.loss):
        subject.add_line("initial-loss", gradients.loss, limit=float(torch.tensor(logits.shape[-1]).log()),
                         where="loss", detail=f"{logits.shape[-1]} classes")
