"""The scalar that is differentiated when a model is measured."""

from __future__ import annotations

import math
from typing import Any, Callable

import torch
from torch import Tensor

from . import _core
from ._structure import own_loss, tensors_in


class Loss:
    """Reduces a model's output to one number.

    loss        a function of the output; "own": the loss in the output; None: the output's own loss if it has one, else
                the output in random directions
    is_of_all   whether the random directions cover all outputs. Otherwise they cover the first one, because the others
                may be hidden states and attentions, which have no gradient of their own in training
    """

    def __init__(self, loss: Callable[[Any], Tensor] | str | None, is_of_all: bool = False) -> None:
        if not (loss is None or loss == "own" or callable(loss)):
            raise _core.Error(f'loss: is {loss!r}, must be a function of the output, "own" or None')
        self._loss, self._is_of_all = loss, is_of_all

    def __call__(self, output: Any) -> Tensor:
        """Returns the number. Raises Error if there is none. Without trained outputs and a loss, returns 0."""
        if callable(self._loss):
            return _scalar("loss(output)", self._loss(output))
        own = own_loss(output)
        if own is not None:
            return _scalar("the output's loss", own)
        if self._loss == "own":
            raise _core.Error(f"loss: the output, a {type(output).__name__}, has no loss of its own")
        trained = [y for y in tensors_in(output) if y.requires_grad and y.is_floating_point()]
        directed = [_in_random_directions(y) for y in (trained if self._is_of_all else trained[:1])]
        return torch.stack(directed).sum() if directed else torch.zeros(())


def _scalar(name: str, value: Any) -> Tensor:
    if not isinstance(value, Tensor):
        raise _core.Error(f"loss: {name} is a {type(value).__name__}, must be a tensor with one number")
    if value.numel() != 1:
        raise _core.Error(f"loss: {name} has the shape {tuple(value.shape)}, must be one number")
    if not value.requires_grad:
        raise _core.Error(f"loss: {name} does not depend on a parameter that needs a gradient")
    return value.reshape(())


def _in_random_directions(y: Tensor) -> Tensor:
    """Returns Σ y ⊙ r/√n with fixed random directions r. The mean square of y would be a constant after a norm."""
    rows = y.reshape(-1, y.shape[-1]) if y.dim() else y.reshape(1, 1)
    n, features = rows.shape
    values = torch.randn(n + features, generator=torch.Generator().manual_seed(0)).to(rows.device)
    directions = values.as_strided((n, features), (1, 1))  # each row begins one value after the one before
    return (rows.float() * directions).sum() / math.sqrt(max(1, rows.numel()))
