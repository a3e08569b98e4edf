"""Operators on the cache of keys and values; for decoders, with a DynamicCache of transformers."""

from __future__ import annotations

import copy
import inspect
from typing import Any, Callable

import torch
from torch import Tensor

from .catalog import operator
from .parts import Target, wrap

SIGHT = "the second half of the tokens behind a cache of the first against the whole"
States = Callable[[Tensor], Tensor]


def _damage_cache(target: Target, change: Callable[[Any], None]) -> None:
    """Has each call of the model change a cache that it is given, unless the cache is empty."""
    signature = inspect.signature(target.parts.model.forward)

    def forward(plain: Any, *args: Any, **named: Any) -> Any:
        arguments = signature.bind_partial(*args, **named).arguments
        cache = arguments.get("cache") or named.get("past_key_values")
        if cache is not None and cache.get_seq_length():
            change(cache)
        return plain(*args, **named)

    wrap(target.parts.model, forward)


def _change_states(cache: Any, change: States, layers: Any = None) -> None:
    """Changes keys and values, [batch, heads, tokens, width], of some layers or all."""
    for layer in cache.layers if layers is None else [cache.layers[i] for i in layers]:
        layer.keys, layer.values = change(layer.keys), change(layer.values)


@operator("CST", "kv_cache", "cache_invalidation", values=("first", "middle", "last", "all"), kind="decoder",
          rules="cache-mismatch", in_layers=False, sight=SIGHT)
def serve_stale_states(target: Target, value: str) -> None:
    """In some layers the newest cached keys and values are those of the token before."""
    n = len(target.parts.layers)
    layers = {"first": [0], "middle": [n // 2], "last": [n - 1], "all": list(range(n))}[value]
    _damage_cache(target, lambda cache: _change_states(
        cache, lambda states: torch.cat([states[:, :, :-1], states[:, :, -2:-1]], 2), layers))


@operator("CDU", "kv_cache", "update_synchronization", kind="decoder", rules="cache-mismatch", in_layers=False,
          sight=SIGHT)
def withhold_update(target: Target, value: Any) -> None:
    """The keys and values of the present tokens do not reach the cache: it repeats the last cached ones."""
    def change(cache: Any) -> None:
        plain = type(cache).update

        def update(keys: Tensor, values: Tensor, index: int, *args: Any, **named: Any) -> Any:
            layer = cache.layers[index]
            old = [states[:, :, -1:].expand_as(new) for states, new in (
                (layer.keys, keys), (layer.values, values))]
            return plain(cache, *old, index, *args, **named)

        cache.update = update

    _damage_cache(target, change)


@operator("COB", "kv_cache", "cache_position", values=(-1, 1), kind="decoder", rules="cache-mismatch",
          in_layers=False, sight=SIGHT)
def shift_cache(target: Target, value: int) -> None:
    """All cached keys and values stand one place too far back or forth; zeros fill the place that is left."""
    def shifted(states: Tensor) -> Tensor:
        moved = states.roll(value, 2)
        moved[:, :, 0 if value > 0 else -1] = 0
        return moved

    _damage_cache(target, lambda cache: _change_states(cache, shifted))


@operator("CTR", "kv_cache", "memory_layout", values=(8, 16, 32), kind="decoder", rules="cache-mismatch",
          in_layers=False, sight=SIGHT)
def truncate_cache(target: Target, value: int) -> None:
    """Only the newest cached keys and values are kept."""
    _damage_cache(target, lambda cache: _change_states(cache, lambda states: states[:, :, -value:]))


@operator("CLK", "kv_cache", "distributed_synchronization", kind="decoder", in_layers=False,
          rules="cache-mismatch batch-leak eval-noise", sight="two calls with the same input that differ")
def leak_cache(target: Target, value: Any) -> None:
    """A call without a cache goes on from the cached states of the call before it."""
    kept: list[Any] = []

    def forward(plain: Any, input_ids: Tensor, *args: Any, **named: Any) -> Any:
        ids, mask = input_ids, named.get("attention_mask")
        old = kept.pop() if kept else None
        if named.get("cache") is None and old is not None and old.layers[0].keys.shape[0] == len(ids):
            named["cache"] = old
            if mask is not None:
                seen = torch.ones(len(ids), old.get_seq_length(), dtype=mask.dtype, device=mask.device)
                named["attention_mask"] = torch.cat([seen, mask], 1)
        output = plain(ids, *args, **named)
        if output.cache is not None:
            states = copy.copy(output.cache)
            states.layers = [copy.copy(layer) for layer in output.cache.layers]
            _change_states(states, lambda t: t[:, :, -ids.shape[1]:].detach())
            kept.append(states)
        return output

    wrap(target.parts.model, forward)
