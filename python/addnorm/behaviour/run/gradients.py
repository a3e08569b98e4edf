"""The gradients of the loss by parameters and by logits."""

from __future__ import annotations

import functools
from collections import defaultdict
from typing import Callable, Sequence

from torch import Tensor

from ..._sharded import local_part
from ..._undo import Undo
from .subject import Subject, Unmeasured
from .tensors import main_output, rms


class Gradients:
    """The gradients of the loss, in the mode that the caller has set, or in evaluation."""

    def __init__(self, subject: Subject, watch: Sequence[Callable[..., None]] = (), evaluate: bool = False) -> None:
        self._subject = subject
        self.trained = {n: p for n, p in subject.parameters.items() if p.requires_grad}
        output = subject.run(evaluate=evaluate, watch=watch)
        self.calls = subject.runs[-1]
        loss = subject.loss(output)
        self.loss = float(loss.detach())
        logits = main_output(output)
        has_logits = logits is not None and logits.requires_grad
        if not loss.requires_grad or not (self.trained or has_logits):
            raise Unmeasured("the loss has no gradient")
        self.logits = logits
        self.by_logits: Tensor | None = None
        self.sizes: dict[str, float | None] = dict.fromkeys(self.trained)
        try:
            with Undo() as hooks:
                for name, parameter in self.trained.items():
                    hooks.hook_gradient(parameter, functools.partial(self._keep_size, name))
                if has_logits:
                    hooks.hook_gradient(logits, self._keep_logits)
                loss.backward()  # reentrant checkpoints refuse torch.autograd.grad
            for name, parameter in self.trained.items():
                if self.sizes[name] is None and parameter.grad is not None:  # fully_shard sets it itself
                    self.sizes[name] = rms(local_part(parameter.grad))
        finally:
            for parameter in self.trained.values():
                parameter.grad = None
        self.missing = {name for name, size in self.sizes.items() if size is None}
        self._by_name: dict[str, list[str]] = defaultdict(list)
        for name in self.trained:
            self._by_name[subject.of_all_layers(name)].append(name)

    def _keep_size(self, name: str, gradient: Tensor) -> None:
        self.sizes[name] = rms(gradient)

    def _keep_logits(self, gradient: Tensor) -> None:
        self.by_logits = gradient

    def counterparts(self, name: str) -> list[str]:
        """Returns the parameters of the same name in other layers that have a gradient."""
        return [n for n in self._by_name[self._subject.of_all_layers(name)] if n not in self.missing]
