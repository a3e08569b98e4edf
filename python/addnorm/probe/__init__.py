"""Observes a Transformer while it runs."""

from __future__ import annotations

from typing import Any, Dict, Optional, Sequence, Union

from torch import nn

from .model_probe import Probe
from .stacks import ProbeError

__all__ = ["Probe", "ProbeError", "probe"]


def probe(model: nn.Module, *, layers: Union[str, Sequence[nn.Module], None] = None,
          attention: Union[str, Sequence[str]] = (), feed_forward: Union[str, Sequence[str]] = (),
          every: int = 1, recipe: Optional[Dict[str, Any]] = None,
          batch_first: Optional[bool] = None, tokens: int = 4096) -> Probe:
    return Probe(model, layers, attention, feed_forward, every, recipe or {}, batch_first, tokens)
