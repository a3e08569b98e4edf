"""Models and tensors that are spread over several processes, by fully_shard or tensor parallelism."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn


def is_sharded(tensor: Tensor) -> bool:
    """Whether a tensor is a DTensor. Its attributes tell, because importing the class takes a second."""
    return hasattr(tensor, "_local_tensor") and hasattr(tensor, "placements")


def local_part(tensor: Any) -> Any:
    """Returns the part of a tensor that this process has."""
    return tensor._local_tensor if is_sharded(tensor) else tensor


def gathers_parameters(thing: Any) -> bool:
    """Whether a thing is a module that fully_shard has changed: it has its whole parameters while it runs. The class
    alone is asked, because any attribute of a proxy may raise."""
    kind = type(thing)
    return issubclass(kind, nn.Module) and hasattr(kind, "unshard") and hasattr(kind, "reshard")
