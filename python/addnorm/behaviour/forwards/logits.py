"""logits-changed: logits that are not the output of the head."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from ..run.functions import FunctionCheck
from ..run.structure import entries
from ..run.subject import Subject
from ..run.tensors import multiple, relative_difference, rms
from ..run.tracer import Tracer

# Configuration entries that scale or bound the logits.
OF_LOGITS = {
    "logit_scale", "logits_scale", "logit_scaling", "logits_scaling", "logits_scaling_factor", "width_mult",
    "logit_scale_init_value", "max_logit_scale", "logit_multiplier", "logits_mup_width_multiplier", "mup_width_scale",
    "output_multiplier", "output_multiplier_scale", "output_scale", "lm_head_multiplier", "lm_head_scale",
    "final_logit_softcapping", "final_logit_softcap", "final_logits_softcapping", "logit_softcapping", "logit_softcap",
    "logits_softcap", "logits_soft_cap", "output_logit_soft_cap", "logit_cap", "logits_cap", "softcap", "soft_cap",
    "temperature", "logit_temperature", "logits_temperature", "contrastive_logits_temperature"}


class HeadOutput(FunctionCheck):
    """Compares the logits of a traced forward with the output of its last linear map, the head."""

    checks = "logits-changed"

    def __init__(self, subject: Subject, tracer: Tracer) -> None:
        super().__init__(subject)
        self._tracer = tracer
        self._head: tuple[nn.Module, Tensor] | None = None  # the last linear map
        self._sizes = {m.num_embeddings for m in subject.names if isinstance(m, nn.Embedding) and m.num_embeddings > 8}

    def __call__(self, name: str, args: Any, kwargs: Any, result: Any) -> None:
        running = self._subject.runs[-1].inside
        if name == "linear" and running and type(running[-1]) is nn.Linear:
            self._head = running[-1], result.detach()

    def add_lines(self) -> None:
        """Adds logits that are not what the head returned, unless the configuration scales or bounds them.

        A bias may be added, entries may be masked, and a function that keeps the order may bound them. In models
        outside of transformers, only zeros and reordered logits are faults. In classes of transformers, a factor
        without a configuration entry is a fault, and so is a function that changes the order. Logits of a head that is
        not over a vocabulary may go through any function.
        """
        logits = self._tracer.output
        if self._head is None or logits is None or self._subject.config is None or any(
                key in OF_LOGITS and value is not None for key, value in entries(self._subject.config)):
            return
        head, made = self._head
        if logits.shape != made.shape or logits.shape[-1] < 2:
            return
        logits, made = logits.flatten(0, -2), made.flatten(0, -2)
        seen = torch.isfinite(logits) & (logits > -1e4)
        logits, made = logits.masked_fill(~seen, -math.inf), made.masked_fill(~seen, -math.inf)
        if not bool(seen.any()) or (difference := relative_difference(logits[seen], made[seen])) < 1e-3:
            return
        added = (logits - made).masked_fill(~seen, 0)
        if len(added) > 1 and rms(added - added.mean(0)) < 1e-5 * rms(added):  # an added bias
            return
        is_moved = bool((logits.sort(-1).values - made.sort(-1).values).nan_to_num().abs().max()
                        < 1e-6 * made[seen].abs().max())
        is_vocabulary = head.out_features in self._sizes
        is_fault = is_moved or is_vocabulary and not bool(logits[seen].any()) or self._subject.is_of_transformers and (
            multiple(logits, made) is not None or is_vocabulary and not _keeps_order(made, logits))
        if is_fault and (is_vocabulary or self._tracer.has_logits):
            self._subject.add_line("logits-changed", difference, where=self._subject.names[head])


def _keeps_order(before: Tensor, after: Tensor) -> bool:
    """Returns whether a function keeps the order of the values of each row. It may saturate for some values."""
    steps = after.gather(-1, before.argsort(-1)).diff(dim=-1)  # infinite where a mask begins
    steps = steps[torch.isfinite(steps).any(-1)].nan_to_num(0, 0, 0)
    least = -1e-6 * after[torch.isfinite(after)].abs().max()
    return bool((steps >= least).all()) and bool((steps > 0).any(-1).all())
