"""What check and watch share: a model as it is called, its state, and the probe in it."""

from __future__ import annotations

import contextlib
import json
import sys
from typing import Any

import torch
from torch import nn

_REPLICAS = "DataParallel", "DistributedDataParallel"
_SHARDS = ("FullyShardedDataParallel",)  # its inner modules cannot be called without it


def called(model: nn.Module) -> nn.Module:
    """What can be run here and now: without torch.compile and without wrappers that only copy."""
    while True:
        inner = _inner(model, _REPLICAS)
        if inner is None:
            return model
        model = inner


def network(model: nn.Module) -> nn.Module:
    """The model that somebody wrote."""
    while True:
        inner = _inner(model, _REPLICAS + _SHARDS)
        if inner is None:
            return model
        model = inner


def _inner(model: nn.Module, wrappers: tuple[str, ...]) -> nn.Module | None:
    if "_orig_mod" in model._modules:  # of torch.compile
        return model._modules["_orig_mod"]
    if type(model).__name__ not in wrappers:
        return None
    inner: nn.Module = model.module
    return inner


def eager() -> contextlib.AbstractContextManager[Any]:
    """Within, modules that were compiled run as they were written (PyTorch 2.6 and later)."""
    compiler = getattr(torch, "compiler", None)
    if not hasattr(compiler, "set_stance") or "torch._dynamo" not in sys.modules:
        return contextlib.nullcontext()  # or nothing was compiled
    stance: contextlib.AbstractContextManager[Any] = torch.compiler.set_stance("force_eager")
    return stance


def profile_of(probe: Any) -> tuple[dict[str, Any], list[str]]:
    """The first line, with the coverage, and the others."""
    first, *lines = probe.text().splitlines()
    header: dict[str, Any] = json.loads(first)
    header["coverage"] = probe.coverage()
    return header, lines


def text_of(header: dict[str, Any], lines: list[str]) -> str:
    """The profile."""
    return "".join(f"{line}\n" for line in [json.dumps(header, separators=(",", ":")), *lines])
