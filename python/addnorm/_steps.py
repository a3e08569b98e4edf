"""Counts training steps for addnorm.watch."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.optim import optimizer

from ._undo import Undo


class TrainingSteps:
    """Counts the training steps of a model at its forwards. A forward begins a new step if an optimizer of its
    parameters has stepped since the previous forward. Forwards of gradient accumulation, forwards within step(closure),
    and forwards after a step that a GradScaler skipped therefore belong to one step. Several optimizers that step
    between two forwards also count as one step. If no optimizer of PyTorch is observable, as before PyTorch 2.0, an
    in-place change of a parameter counts as a step.
    """

    def __init__(self, model: nn.Module) -> None:
        self._parameters = [p for p in model.parameters() if not p.is_inference()]
        self._ids = {id(p) for p in self._parameters}
        self._step = 0
        self._has_optimizer = False
        self._has_stepped = False
        self._is_forward = False
        self._version = self._sum_of_versions()

    def attach(self, undo: Undo) -> None:
        """Observes all optimizers until undo is closed."""
        if hasattr(optimizer, "register_optimizer_step_post_hook"):
            undo.hook_optimizers("pre", self._before_step)
            undo.hook_optimizers("post", self._after_step)

    def before_forward(self) -> int:
        """Returns the step of the forward that begins, from 0."""
        changed = self._sum_of_versions() != self._version
        if self._has_stepped or (changed and not self._has_optimizer):
            self._step += 1
        self._has_stepped, self._is_forward = False, True
        return self._step

    def after_forward(self) -> None:
        """Ends the forward, if one has begun. Its own changes, such as those of an embedding
        with max_norm, are not a step."""
        if self._is_forward:
            self._version = self._sum_of_versions()
        self._is_forward = False

    def _sum_of_versions(self) -> int:
        return sum(p._version for p in self._parameters)

    def _before_step(self, stepped: Any, *_: Any) -> None:
        self._has_optimizer = self._has_optimizer or self._is_ours(stepped)

    def _after_step(self, stepped: Any, *_: Any) -> None:
        self._has_stepped = self._has_stepped or self._is_ours(stepped)

    def _is_ours(self, stepped: torch.optim.Optimizer) -> bool:
        return any(id(p) in self._ids for group in stepped.param_groups for p in group["params"])
