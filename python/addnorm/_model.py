"""Shared by check and watch: unwraps a model, and writes its profile."""

from __future__ import annotations

import contextlib
import json
import sys
from typing import Any

import torch
from torch import nn

_REPLICAS = "DataParallel", "DistributedDataParallel"
_SHARDS = ("FullyShardedDataParallel",)  # their inner modules cannot be called alone


def called(model: nn.Module) -> nn.Module:
    """Returns the module that can be called here: without torch.compile and without wrappers that only replicate."""
    while True:
        inner = _inner(model, _REPLICAS)
        if inner is None:
            return model
        model = inner


def network(model: nn.Module) -> nn.Module:
    """Returns the user's model without any wrapper."""
    while True:
        inner = _inner(model, _REPLICAS + _SHARDS)
        if inner is None:
            return model
        model = inner


def _inner(model: nn.Module, wrappers: tuple[str, ...]) -> nn.Module | None:
    if "_orig_mod" in model._modules:  # torch.compile's wrapper
        return model._modules["_orig_mod"]
    if type(model).__name__ not in wrappers:
        return None
    inner: nn.Module = model.module
    return inner


def eager() -> contextlib.AbstractContextManager[Any]:
    """A context in which compiled modules run uncompiled (PyTorch 2.6 and later)."""
    compiler = getattr(torch, "compiler", None)
    if not hasattr(compiler, "set_stance") or "torch._dynamo" not in sys.modules:
        return contextlib.nullcontext()  # or nothing was compiled
    stance: contextlib.AbstractContextManager[Any] = torch.compiler.set_stance("force_eager")
    return stance


def profile_of(probe: Any) -> tuple[dict[str, Any], list[str]]:
    """Returns the first line of the profile, which has the coverage, and the other lines."""
    first, *lines = probe.text().splitlines()
    header: dict[str, Any] = json.loads(first)
    header["coverage"] = probe.coverage()
    return header, lines


def text_of(header: dict[str, Any], lines: list[str]) -> str:
    """Returns the profile as text."""
    return "".join(f"{line}\n" for line in [json.dumps(header, separators=(",", ":")), *lines])
