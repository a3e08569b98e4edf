"""The number of the training step, for addnorm.watch."""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch import nn


class TrainingSteps:
    """Counts the training steps of a model at its forwards. A forward begins a new step where an optimizer of
    its parameters has stepped since the forward before. So the forwards of gradient accumulation, those within
    a step(closure), and those after a step that a GradScaler skipped belong to one step, and so do several
    optimizers that step between two forwards. Where no optimizer of PyTorch is seen, as before PyTorch 2.0, a
    change of a parameter in place stands for its step.
    """

    def __init__(self, model: nn.Module) -> None:
        self._parameters = [p for p in model.parameters() if not p.is_inference()]
        self._ids = {id(p) for p in self._parameters}
        self._step = 0
        self._has_optimizer = False
        self._has_stepped = False
        self._is_forward = False
        self._version = self._sum_of_versions()

    def attach(self) -> Callable[[], None]:
        """Listens to all optimizers; the function that is returned ends it."""
        from torch.optim import optimizer
        if not hasattr(optimizer, "register_optimizer_step_post_hook"):
            return lambda: None
        handles = [optimizer.register_optimizer_step_pre_hook(self._before_step),
                   optimizer.register_optimizer_step_post_hook(self._after_step)]

        def detach() -> None:
            for handle in handles:
                handle.remove()

        return detach

    def before_forward(self) -> int:
        """The step of the forward that begins, from 0."""
        changed = self._sum_of_versions() != self._version
        if self._has_stepped or (changed and not self._has_optimizer):
            self._step += 1
        self._has_stepped, self._is_forward = False, True
        return self._step

    def after_forward(self) -> None:
        """Ends the forward, if one has begun. What it changes itself, as an embedding with max_norm does, is no
        step."""
        if self._is_forward:
            self._version = self._sum_of_versions()
        self._is_forward = False

    def _sum_of_versions(self) -> int:
        return sum(p._version for p in self._parameters)

    def _before_step(self, optimizer: Any, *_: Any) -> None:
        self._has_optimizer = self._has_optimizer or self._is_ours(optimizer)

    def _after_step(self, optimizer: Any, *_: Any) -> None:
        self._has_stepped = self._has_stepped or self._is_ours(optimizer)

    def _is_ours(self, optimizer: torch.optim.Optimizer) -> bool:
        return any(id(p) in self._ids for group in optimizer.param_groups for p in group["params"])
