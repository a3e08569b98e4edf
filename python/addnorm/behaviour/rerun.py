"""Runs the model again with a change that must not affect the output: eval-noise, padding-leak, batch-leak,
cache-mismatch."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from .._structure import entry, tensors_in
from .._undo import Undo
from .operators import Functions, LiveDropout, NoisySums
from .structure import is_16_bit, leading, main_output, relative_difference, some, with_tensors
from .subject import Subject, Unmeasured

# The smallest limits of differences. Another order of summation, as in kernels for single tokens, stays below them.
LIMIT, LIMIT_16_BIT = 1e-4, 0.03
SAME_SHAPES = 0.2  # share of these limits for batches of one shape, which use the same kernels
ROUNDINGS = 3  # the allowed multiple of the effect of rounding the embeddings once; a cache has 0.4 to 0.7
MOST_ROUNDING = 0.1  # a larger change cannot be judged
SHARED = "a sequence alone has another output even without padding, as with experts of a limited capacity"
_KEPT = ("attention_mask",)  # masks that are 1 at tokens
_HIDDEN = ("src_key_padding_mask", "key_padding_mask", "padding_mask")  # masks that are True at padding
_CACHES = ("past_key_values", "past_key_value", "past_kv", "layer_past", "past", "kv_cache", "cache")


def _limit(output: Tensor) -> float:
    return LIMIT_16_BIT if is_16_bit(output) else LIMIT


def _limit_of(s: Subject, difference: float, output: Tensor, share: float = 1) -> float:
    """Returns the limit of a difference. For a large difference, it includes the effect of rounding on this model."""
    limit = share * _limit(output)
    if difference <= limit:
        return limit
    if s.rounding is None:
        s.rounding = _measure_rounding(s)
    return max(limit, ROUNDINGS * min(MOST_ROUNDING, s.rounding))


def _add(s: Subject, check: str, difference: float, output: Tensor, share: float = 1, **more: Any) -> None:
    s.add(check, difference, limit=_limit_of(s, difference, output, share), **more)


def _measure_rounding(s: Subject) -> float:
    """Returns the change of the output if the embeddings change in their last bit. Deep models amplify it."""
    def change(tensor: Tensor) -> Tensor:
        if not tensor.is_floating_point():
            return tensor
        noise = 2 * torch.rand(tensor.shape, generator=torch.Generator().manual_seed(6)).to(tensor.device) - 1
        return tensor * (1 + torch.finfo(tensor.dtype).eps * noise).to(tensor.dtype)

    output = _output(s, gradients=True)  # without, PyTorch's encoder sets outputs at padding to 0
    embeddings = [m for m in s.names if isinstance(m, nn.Embedding)]
    inputs, named = (s.inputs, s.named) if embeddings else with_tensors((s.inputs, s.named), change)
    with Undo() as hooks:
        for module in embeddings:
            hooks.hook(module, "forward", lambda module, inputs, embedded: change(embedded))
        return relative_difference(_output(s, gradients=True, inputs=inputs, named=named), output)


def _output(s: Subject, gradients: bool = False, **options: Any) -> Tensor:
    with torch.set_grad_enabled(gradients):
        output = main_output(s.run(**options))
    if output is None:
        raise Unmeasured("there is no output of two dimensions or more")
    return output.detach()


def measure_noise(s: Subject, output: Tensor) -> None:
    """Adds eval-noise: the difference between two evaluations of one batch with different random numbers."""
    dropout, sums = LiveDropout(s), NoisySums(s)
    with Functions(s, dropout, sums):
        again = _output(s, seed=20)
    if again.shape != output.shape:
        raise Unmeasured("two evaluations have outputs of different shapes")
    s.add("eval-noise", relative_difference(again, output), limit=_limit(output),
          where=dropout.text() or some(sums.places) or "output",
          detail="dropout is at work" if dropout.places else "random numbers are added" if sums.places else "",
          declared="eval() turns dropout off" if dropout.places else
          "layers add the same in each evaluation" if sums.places else "")


def measure_alone(s: Subject, output: Tensor) -> None:
    """Adds "alone", which the rule batch-leak judges: the difference between the output of the longest sequence in a
    padded batch and its output alone. It shows a mask that is applied to other sequences."""
    found = padding_mask(s)
    if found is None or bool(found[1].all()) or len(found[1]) < 2 or len(output) != len(found[1]) or _is_noisy(s):
        return
    difference = _difference_alone(s, s.named, output, found[1])
    if difference > _limit_of(s, difference, output) and _shares_batch(s):
        s.leave("batch-leak", SHARED)
        return
    _add(s, "alone", difference, output, where=found[0])


def _difference_alone(s: Subject, named: dict[str, Any], output: Tensor, kept: Tensor, copies: int = 1) -> float:
    """Returns the difference between the longest sequence in its batch, or in a batch of its copies, and alone."""
    count, first = len(kept), int(kept.sum(1).argmax())
    if count == kept.shape[1]:
        raise Unmeasured("there are as many sequences as tokens")

    def cut(tensor: Tensor, times: int = 1) -> Tensor:
        is_batch = tensor.dim() and len(tensor) == count
        return torch.cat([tensor[first:first + 1]] * times) if is_batch else tensor

    def of(times: int) -> Tensor:
        inputs, cut_named = with_tensors((s.inputs, named), lambda tensor: cut(tensor, times))
        return _output(s, inputs=inputs, named=cut_named)

    alone = of(1)
    if alone.shape != output[:1].shape:
        raise Unmeasured("a sequence alone has an output of another shape")
    seen = kept[first] if output.dim() == 3 and tuple(kept.shape) == leading(output) else slice(None)
    others = [output[first]] if copies == 1 else list(of(copies))
    return max(relative_difference(alone[0][seen], other[seen]) for other in others)


def _shares_batch(s: Subject) -> bool:
    """Returns whether sequences of a batch affect each other without a mask. A sequence alone then differs from the
    same one in a batch where the mask hides nothing, or from a batch of its copies. Experts with a limited capacity are
    an example. Then the mask is not the cause of a difference."""
    if s.shares_batch is None:
        try:
            s.shares_batch = _measure_sharing(s)
        except Exception:  # an inverted mask hides all tokens here, which some kernels refuse
            s.shares_batch = False
    return s.shares_batch


def _measure_sharing(s: Subject) -> bool:
    found = padding_mask(s)
    if found is None or len(found[1]) < 2 or _is_noisy(s):
        return False
    name, kept = found
    mask = torch.ones_like(kept) if name in _KEPT else torch.zeros_like(kept)
    named = {**s.named, name: mask.to(s.named[name].dtype)}
    whole = _output(s, named=named)
    limit = _limit_of(s, math.inf, whole)
    return len(whole) == len(kept) and (
        _difference_alone(s, named, whole, torch.ones_like(kept)) > limit
        or _difference_alone(s, s.named, whole, kept, len(kept)) > limit)


def _is_noisy(s: Subject) -> bool:
    return any(line["check"] == "eval-noise" and line["value"] > line["limit"] for line in s.lines)


# -- Padding --


def padding_mask(s: Subject) -> tuple[str, Tensor] | None:
    """Returns the name of the padding mask, and a mask that is true at tokens; None if there is none."""
    for name in (*_KEPT, *_HIDDEN):
        mask = s.named.get(name)
        if isinstance(mask, Tensor) and mask.dim() == 2 and not mask.is_floating_point():
            return name, mask.bool() if name in _KEPT else ~mask.bool()
    return None


def measure_padding(s: Subject, output: Tensor) -> None:
    """Adds padding-leak: the change of the output at tokens when the tokens that a mask hides are replaced."""
    found = padding_mask(s)
    if found is None:
        _measure_padding_of_embeddings(s, output)
        return
    name, counts = found
    counts = counts.clone()
    named = dict(s.named)
    if bool(counts.all()):  # nothing is hidden: hide the end of the first sequence
        counts[0, counts.shape[1] - counts.shape[1] // 4:] = False
        mask = counts if name in _KEPT else ~counts
        named[name] = mask.to(s.named[name].dtype)
        output = _output(s, named=named)
    if bool(counts.all()) or not bool(counts.any()):
        raise Unmeasured("sequences too short to be padded")
    seen = _of_tokens(counts, output, s)
    inputs, named = _with_other_padding(s, named, counts)
    other = _output(s, inputs=inputs, named=named)
    difference = relative_difference(other[seen], output[seen])
    if difference > _limit_of(s, difference, output, SAME_SHAPES) and _shares_batch(s):
        s.leave("padding-leak", SHARED)
        return
    _add(s, "padding-leak", difference, output, SAME_SHAPES, where=name)


def _measure_padding_of_embeddings(s: Subject, output: Tensor) -> None:
    """Adds padding-leak for models that derive a mask from padding_idx, or should. Other embeddings at padding must not
    change the rest of the output. If the embedding of padding is 0, which may hide it, the change by more padding is
    measured, too, and the smaller change counts."""
    padding = _EmbeddedPadding(s)
    embeddings = [m for m in s.names if isinstance(m, nn.Embedding) and m.padding_idx is not None]
    if not embeddings:
        return
    with Undo() as hooks:
        for embedding in embeddings:
            hooks.hook(embedding, "forward", padding)
        # Without gradients PyTorch's encoder sets outputs at padding to 0, but not in training.
        other = _output(s, gradients=True)
    if not padding.hidden:
        return
    seen = padding.rest_of(output)
    difference = relative_difference(other[seen], output[seen])
    if difference > _limit(output) and padding.is_zero:
        inputs, named = with_tensors((s.inputs, s.named), padding.extend)
        longer = _output(s, gradients=True, inputs=inputs, named=named)[tuple(map(slice, output.shape))]
        difference = min(difference, relative_difference(longer[seen], output[seen]))
    _add(s, "padding-leak", difference, output, where=padding.where,
         detail=f"its padding_idx, {padding.index}, ends some sequences")


class _EmbeddedPadding:
    """A hook that changes the embeddings of padding: two or more tokens with padding_idx at the end of a sequence. A
    single such token may be a coincidence."""

    def __init__(self, s: Subject) -> None:
        self._s = s
        self._given = [t for t in tensors_in((s.inputs, s.named)) if not t.is_floating_point() and t.dim() == 2]
        self.hidden: list[tuple[Tensor, Tensor]] = []  # (index, whether it is padding) of each embedded index
        self.where, self.index, self.is_zero = "", 0, False

    def __call__(self, module: nn.Embedding, inputs: Any, embedded: Tensor) -> Tensor | None:
        index = next(tensors_in(inputs), None)
        if index is None or not any(_is_same(index, given) for given in self._given):
            return None
        is_padding = (index == module.padding_idx).flip(1).cumprod(1).flip(1).bool()
        is_padding &= (is_padding.sum(1, keepdim=True) > 1) & ~is_padding.all(1, keepdim=True)
        if not bool(is_padding.any()):
            return None
        self.hidden.append((index, is_padding))
        self.where, self.index = self._s.names[module], int(module.padding_idx or 0)
        self.is_zero = not bool(module.weight[self.index].any())
        noise = torch.randn(embedded.shape, generator=torch.Generator().manual_seed(5)).to(embedded)
        return embedded + is_padding[..., None] * noise * embedded.square().mean().sqrt()

    def rest_of(self, output: Tensor) -> Any:
        """Returns a selection of the outputs that are not at padding. It selects all if there is one per sequence."""
        if output.dim() == 2:
            return slice(None)
        found = [given for given in self._given if leading(output) in (tuple(given.shape), tuple(given.T.shape))]
        if not found:
            raise Unmeasured("which tokens of the output are padding is not clear")
        rest = torch.ones(found[-1].shape, dtype=torch.bool, device=output.device)
        for index, is_padding in self.hidden:
            if _is_same(index, found[-1]):
                rest &= ~is_padding.to(output.device)
        return rest if leading(output) == tuple(rest.shape) else rest.T

    def extend(self, tensor: Tensor) -> Tensor:
        if not any(_is_same(tensor, index) for index, _ in self.hidden):
            return tensor
        return torch.cat([tensor, torch.full_like(tensor[:, :2], self.index)], 1)


def _is_same(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and a.device == b.device and torch.equal(a, b)


def _of_tokens(counts: Tensor, output: Tensor, s: Subject) -> Any:
    """Returns a selection of the outputs to compare. It selects all outputs of a decoder, and all if there is one per
    sequence."""
    if output.dim() < 3 or any("decoder" in name for name in s.named):
        return slice(None)
    if leading(output) == tuple(counts.shape):
        return counts.to(output.device)
    if leading(output) == tuple(counts.T.shape):
        return counts.T.to(output.device)
    return slice(None)


def _with_other_padding(s: Subject, named: dict[str, Any],
                        counts: Tensor) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns the batch with other values at the hidden tokens of the input that the mask belongs to."""
    changed = False

    def change(x: Any) -> Any:
        nonlocal changed
        if changed or not isinstance(x, Tensor) or x.dtype == torch.bool or x.dim() < 2:
            return x
        where = next((c for c in (counts, counts.T) if leading(x) == tuple(c.shape)), None)
        if where is None:
            return x
        changed = True
        other = x.flip(0).roll(1, 1)
        if x.is_floating_point():
            other = other + 1
        elif bool((other == x)[~where].all()):  # all tokens of the batch are equal
            other = torch.where(x > 0, x - 1, x + 1).clamp(max=max(1, int(x.max())))
        hidden = ~where.to(x.device)
        return torch.where(hidden[(...,) + (None,) * (x.dim() - 2)], other, x)

    inputs = tuple(change(x) for x in s.inputs)
    masks = set(_KEPT + _HIDDEN) | {"labels"}
    named = {key: x if key in masks else change(x) for key, x in named.items()}
    if not changed:
        raise Unmeasured("the mask has the shape of no input")
    return inputs, named


# -- Cache --


def measure_cache(s: Subject, output: Tensor) -> None:
    """Adds cache-mismatch: the difference of the last tokens between a run with a cache and one run of all tokens."""
    argument = s.accepts(*_CACHES) or (_CACHES[0] if s.accepts_others() else None)
    if argument is None or output.dim() != 3:
        return
    tokens = next(iter(s.inputs), s.named.get("input_ids"))
    if not isinstance(tokens, Tensor) or leading(tokens) != leading(output) or len(s.inputs) > 1 or \
            not all(_can_be_cut(name, value, tokens) for name, value in s.named.items()):
        raise Unmeasured("an argument other than the tokens cannot be split in two")
    n = tokens.shape[1] // 2
    if n < 1:
        raise Unmeasured("a single token")
    mask = s.named.get("attention_mask")
    whole = {k: torch.ones_like(x) if k == "attention_mask" else x for k, x in s.named.items() if k != "labels"}
    if mask is not None and not bool(mask.all()):  # a cache may treat padding as tokens
        output = _output(s, named=whole)
    first = _part(s, whole, slice(0, n), None)
    cache = _cache_of(first, argument)
    if cache is None:
        if s.accepts(argument) is None:
            return  # the signature names no cache
        raise Unmeasured("the model gives no cache")
    start = main_output(first)
    difference = math.inf if start is None or start.shape[1] != n else relative_difference(start, output[:, :n])
    if difference > _limit_of(s, difference, output):
        raise Unmeasured("its outputs change with the sequence length even without a cache")
    rest = main_output(_part(s, whole, slice(n, None), {argument: cache}))
    if rest is None or rest.shape != output[:, n:].shape:
        raise Unmeasured("with a cache the output has another shape")
    _add(s, "cache-mismatch", relative_difference(rest, output[:, n:]), output, where=argument)


def _can_be_cut(name: str, value: Any, tokens: Tensor) -> bool:
    """Returns whether an argument has an entry for each token, or does not depend on the tokens."""
    if isinstance(value, Tensor):
        return name == "labels" or value.dim() > 1 and leading(value) == leading(tokens)
    return value is None or isinstance(value, (bool, int, float, str))


def _part(s: Subject, whole: dict[str, Any], part: slice, cache: dict[str, Any] | None) -> Any:
    """Returns the output for some tokens. The mask covers all tokens up to the last of them."""
    named = {name: value if not isinstance(value, Tensor) else
             value[:, slice(0, part.stop) if name == "attention_mask" else part]
             for name, value in whole.items() if name not in _CACHES}
    if s.accepts("use_cache") or s.accepts_others():
        named["use_cache"] = True
    inputs = tuple(x[:, part] for x in s.inputs)
    with torch.no_grad():
        return s.run(inputs=inputs, named={**named, **(cache or {})})


def _cache_of(output: Any, argument: str) -> Any:
    named = None if isinstance(output, (Tensor, tuple, list)) else entry(output, argument, *_CACHES)
    if named is not None:
        return named
    if isinstance(output, (tuple, list)):
        rest = [part for part in output[1:] if not isinstance(part, Tensor) or part.dim() > 2]
        return next((part for part in rest if any(True for _ in tensors_in(part))), None)
    return None
