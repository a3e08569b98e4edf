"""Runs the model again with other padding, and sequences without the rest of the batch: padding-leak, batch-leak."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from ..._structure import tensors_in
from ..._undo import Undo
from ..run.differences import SAME_SHAPES, add_difference, least_limit, limit_of, output_of
from ..run.masks import HIDDEN, KEPT, padding_mask
from ..run.subject import Subject, Unmeasured
from ..run.tensors import leading, relative_difference, with_tensors

SHARED = "a sequence alone has another output even without padding, as with experts of a limited capacity"


def measure_padding(subject: Subject, output: Tensor) -> None:
    """Adds padding-leak: the change of the output at tokens when the tokens that a mask hides are replaced."""
    found = padding_mask(subject)
    if found is None:
        _measure_padding_of_embeddings(subject, output)
        return
    name, counts = found
    counts = counts.clone()
    named = dict(subject.named)
    if bool(counts.all()):  # nothing is hidden: hide the end of the first sequence
        counts[0, counts.shape[1] - counts.shape[1] // 4:] = False
        mask = counts if name in KEPT else ~counts
        named[name] = mask.to(subject.named[name].dtype)
        output = output_of(subject, named=named)
    if bool(counts.all()) or not bool(counts.any()):
        raise Unmeasured("sequences too short to be padded")
    seen = _of_tokens(counts, output, subject)
    inputs, named = _with_other_padding(subject, named, counts)
    other = output_of(subject, inputs=inputs, named=named)
    difference = relative_difference(other[seen], output[seen])
    if difference > limit_of(subject, difference, output, SAME_SHAPES) and _shares_batch(subject):
        subject.leave_out("padding-leak", SHARED)
        return
    add_difference(subject, "padding-leak", difference, output, SAME_SHAPES, where=name)


def _measure_padding_of_embeddings(subject: Subject, output: Tensor) -> None:
    """Adds padding-leak for models that derive a mask from padding_idx, or should. Other embeddings at padding must not
    change the rest of the output. If the embedding of padding is 0, which may hide it, the change by more padding is
    measured, too, and the smaller change counts."""
    padding = _EmbeddedPadding(subject)
    embeddings = [m for m in subject.names if isinstance(m, nn.Embedding) and m.padding_idx is not None]
    if not embeddings:
        return
    with Undo() as hooks:
        for embedding in embeddings:
            hooks.hook(embedding, "forward", padding)
        # Without gradients PyTorch's encoder sets outputs at padding to 0, but not in training.
        other = output_of(subject, gradients=True)
    if not padding.hidden:
        return
    seen = padding.rest_of(output)
    difference = relative_difference(other[seen], output[seen])
    if difference > least_limit(output) and padding.is_zero:
        inputs, named = with_tensors((subject.inputs, subject.named), padding.extend)
        longer = output_of(subject, gradients=True, inputs=inputs, named=named)[tuple(map(slice, output.shape))]
        difference = min(difference, relative_difference(longer[seen], output[seen]))
    add_difference(subject, "padding-leak", difference, output, where=padding.where,
                   detail=f"its padding_idx, {padding.index}, ends some sequences")


class _EmbeddedPadding:
    """A hook that changes the embeddings of padding: two or more tokens with padding_idx at the end of a sequence. A
    single such token may be a coincidence."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        given = tensors_in((subject.inputs, subject.named))
        self._given = [t for t in given if not t.is_floating_point() and t.dim() == 2]
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
        self.where, self.index = self._subject.names[module], int(module.padding_idx or 0)
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


def _of_tokens(counts: Tensor, output: Tensor, subject: Subject) -> Any:
    """Returns a selection of the outputs to compare. It selects all outputs of a decoder, and all if there is one per
    sequence."""
    if output.dim() < 3 or any("decoder" in name for name in subject.named):
        return slice(None)
    if leading(output) == tuple(counts.shape):
        return counts.to(output.device)
    if leading(output) == tuple(counts.T.shape):
        return counts.T.to(output.device)
    return slice(None)


def _with_other_padding(subject: Subject, named: dict[str, Any],
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

    inputs = tuple(change(x) for x in subject.inputs)
    masks = set(KEPT + HIDDEN) | {"labels"}
    named = {key: x if key in masks else change(x) for key, x in named.items()}
    if not changed:
        raise Unmeasured("the mask has the shape of no input")
    return inputs, named


# -- Sequences alone --


def measure_alone(subject: Subject, output: Tensor) -> None:
    """Adds "alone", which the rule batch-leak judges: the difference between the output of the longest sequence in a
    padded batch and its output alone. It shows a mask that is applied to other sequences."""
    found = padding_mask(subject)
    if found is None or bool(found[1].all()) or len(found[1]) < 2 or len(output) != len(found[1]) or _is_noisy(subject):
        return
    difference = _difference_alone(subject, subject.named, output, found[1])
    if difference > limit_of(subject, difference, output) and _shares_batch(subject):
        subject.leave_out("batch-leak", SHARED)
        return
    add_difference(subject, "alone", difference, output, where=found[0])


def _difference_alone(subject: Subject, named: dict[str, Any], output: Tensor, kept: Tensor, copies: int = 1) -> float:
    """Returns the difference between the longest sequence in its batch, or in a batch of its copies, and alone."""
    count, first = len(kept), int(kept.sum(1).argmax())
    if count == kept.shape[1]:
        raise Unmeasured("there are as many sequences as tokens")

    def cut(tensor: Tensor, times: int = 1) -> Tensor:
        is_batch = tensor.dim() and len(tensor) == count
        return torch.cat([tensor[first:first + 1]] * times) if is_batch else tensor

    def of(times: int) -> Tensor:
        inputs, cut_named = with_tensors((subject.inputs, named), lambda tensor: cut(tensor, times))
        return output_of(subject, inputs=inputs, named=cut_named)

    alone = of(1)
    if alone.shape != output[:1].shape:
        raise Unmeasured("a sequence alone has an output of another shape")
    seen = kept[first] if output.dim() == 3 and tuple(kept.shape) == leading(output) else slice(None)
    others = [output[first]] if copies == 1 else list(of(copies))
    return max(relative_difference(alone[0][seen], other[seen]) for other in others)


def _shares_batch(subject: Subject) -> bool:
    """Returns whether sequences of a batch affect each other without a mask. A sequence alone then differs from the
    same one in a batch where the mask hides nothing, or from a batch of its copies. Experts with a limited capacity are
    an example. Then the mask is not the cause of a difference."""
    if subject.shares_batch is None:
        try:
            subject.shares_batch = _measure_sharing(subject)
        except Exception:  # an inverted mask hides all tokens here, which some kernels refuse
            subject.shares_batch = False
    return subject.shares_batch


def _measure_sharing(subject: Subject) -> bool:
    found = padding_mask(subject)
    if found is None or len(found[1]) < 2 or _is_noisy(subject):
        return False
    name, kept = found
    mask = torch.ones_like(kept) if name in KEPT else torch.zeros_like(kept)
    named = {**subject.named, name: mask.to(subject.named[name].dtype)}
    whole = output_of(subject, named=named)
    limit = limit_of(subject, math.inf, whole)
    return len(whole) == len(kept) and (
        _difference_alone(subject, named, whole, torch.ones_like(kept)) > limit
        or _difference_alone(subject, subject.named, whole, kept, len(kept)) > limit)


def _is_noisy(subject: Subject) -> bool:
    return any(line["check"] == "eval-noise" and line["value"] > line["limit"] for line in subject.lines)
