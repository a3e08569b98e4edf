"""Runs the model again with a cache: cache-mismatch."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ..._structure import entry, tensors_in
from ..run.differences import add_difference, limit_of, output_of
from ..run.subject import Subject, Unmeasured
from ..run.tensors import leading, main_output, relative_difference

_CACHES = ("past_key_values", "past_key_value", "past_kv", "layer_past", "past", "kv_cache", "cache")


def measure_cache(subject: Subject, output: Tensor) -> None:
    """Adds cache-mismatch: the difference of the last tokens between a run with a cache and one run of all tokens."""
    argument = subject.accepts(*_CACHES) or (_CACHES[0] if subject.accepts_others() else None)
    if argument is None or output.dim() != 3:
        return
    tokens = next(iter(subject.inputs), subject.named.get("input_ids"))
    if not isinstance(tokens, Tensor) or leading(tokens) != leading(output) or len(subject.inputs) > 1 or \
            not all(_can_be_cut(name, value, tokens) for name, value in subject.named.items()):
        raise Unmeasured("an argument other than the tokens cannot be split in two")
    n = tokens.shape[1] // 2
    if n < 1:
        raise Unmeasured("a single token")
    mask = subject.named.get("attention_mask")
    whole = {k: torch.ones_like(x) if k == "attention_mask" else x for k, x in subject.named.items() if k != "labels"}
    if mask is not None and not bool(mask.all()):  # a cache may treat padding as tokens
        output = output_of(subject, named=whole)
    first = _part(subject, whole, slice(0, n), None)
    cache = _cache_of(first, argument)
    if cache is None:
        if subject.accepts(argument) is None:
            return  # the signature names no cache
        raise Unmeasured("the model gives no cache")
    start = main_output(first)
    difference = math.inf if start is None or start.shape[1] != n else relative_difference(start, output[:, :n])
    if difference > limit_of(subject, difference, output):
        raise Unmeasured("its outputs change with the sequence length even without a cache")
    rest = main_output(_part(subject, whole, slice(n, None), {argument: cache}))
    if rest is None or rest.shape != output[:, n:].shape:
        raise Unmeasured("with a cache the output has another shape")
    add_difference(subject, "cache-mismatch", relative_difference(rest, output[:, n:]), output, where=argument)


def _can_be_cut(name: str, value: Any, tokens: Tensor) -> bool:
    """Returns whether an argument has an entry for each token, or does not depend on the tokens."""
    if isinstance(value, Tensor):
        return name == "labels" or value.dim() > 1 and leading(value) == leading(tokens)
    return value is None or isinstance(value, (bool, int, float, str))


def _part(subject: Subject, whole: dict[str, Any], part: slice, cache: dict[str, Any] | None) -> Any:
    """Returns the output for some tokens. The mask covers all tokens up to the last of them."""
    named = {name: value if not isinstance(value, Tensor) else
             value[:, slice(0, part.stop) if name == "attention_mask" else part]
             for name, value in whole.items() if name not in _CACHES}
    if subject.accepts("use_cache") or subject.accepts_others():
        named["use_cache"] = True
    inputs = tuple(x[:, part] for x in subject.inputs)
    with torch.no_grad():
        return subject.run(inputs=inputs, named={**named, **(cache or {})})


def _cache_of(output: Any, argument: str) -> Any:
    named = None if isinstance(output, (Tensor, tuple, list)) else entry(output, argument, *_CACHES)
    if named is not None:
        return named
    if isinstance(output, (tuple, list)):
        rest = [part for part in output[1:] if not isinstance(part, Tensor) or part.dim() > 2]
        return next((part for part in rest if any(True for _ in tensors_in(part))), None)
    return None
