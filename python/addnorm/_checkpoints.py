"""Reentrant checkpoints, whose forward has no graph in which gradients could be measured."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator

from torch import Tensor
from torch.utils import checkpoint


@contextlib.contextmanager
def checkpoints_with_graph() -> Iterator[list[Callable[..., Any]]]:
    """Runs reentrant checkpoints of PyTorch as non-reentrant ones, which compute the same numbers with a graph and need
    as little memory. A checkpoint stays as it is if none of its inputs needs a gradient. Yields a list of the functions
    that were run in this way.
    """
    original, functions = checkpoint.CheckpointFunction, list[Callable[..., Any]]()

    class Checkpoint:
        @staticmethod
        def apply(function: Callable[..., Any], preserves_random_state: bool, *inputs: Any) -> Any:
            if not any(isinstance(x, Tensor) and x.requires_grad for x in inputs):
                return original.apply(function, preserves_random_state, *inputs)
            functions.append(function)
            return checkpoint.checkpoint(function, *inputs, use_reentrant=False,
                                         preserve_rng_state=preserves_random_state)

    checkpoint.CheckpointFunction = Checkpoint
    try:
        yield functions
    finally:
        checkpoint.CheckpointFunction = original
