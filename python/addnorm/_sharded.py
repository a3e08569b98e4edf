"""Models and tensors that fully_shard or tensor parallelism has distributed over several processes."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn


def is_sharded(tensor: Tensor) -> bool:
    """Whether a tensor is a DTensor. Checks its attributes, because importing the class takes a second."""
    return hasattr(tensor, "_local_tensor") and hasattr(tensor, "placements")


def local_part(tensor: Any) -> Any:
    """Returns this process's part of a tensor."""
    return tensor._local_tensor if is_sharded(tensor) else tensor


def gathers_parameters(thing: Any) -> bool:
    """Whether an object is a module that fully_shard has changed, so that it has its whole parameters while it runs.
    Checks the class only, because any attribute of a proxy may raise."""
    kind = type(thing)
    return issubclass(kind, nn.Module) and hasattr(kind, "unshard") and hasattr(kind, "reshard")
