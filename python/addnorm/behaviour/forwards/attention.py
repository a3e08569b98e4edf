"""Checks of the operands of attention, as PyTorch's functions get them: softmax-axis, attention-constant,
heads-alike and head-silent."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ..._structure import HEADS, entry
from ..run.functions import PRODUCTS, SOFTMAX, FunctionCheck, argument, linear_input
from ..run.starts import CONSTANT, MOST_VALUES, Starts
from ..run.subject import Subject
from ..run.tensors import rms
from ..run.weights import follows_range, has_initial_weights, has_trained_gains, has_zeros

AXES = {1: "heads", 2: "queries"}  # axes of weights [sequences, heads, queries, keys]
MOST_HEADS, MOST_TOKENS = 128, 64  # largest numbers of heads and tokens that are compared


class AttentionChecks(FunctionCheck):
    """Inspects the operands of attention in each module."""

    checks = "softmax-axis, attention-constant, heads-alike, head-silent"

    def __init__(self, subject: Subject, starts: Starts) -> None:
        super().__init__(subject)
        self._starts = starts
        self._weights: list[tuple[Tensor, int]] = []  # the last results of softmax, each with its axis
        self._product: tuple[Tensor, Tensor, Tensor] | None = None  # the last q, k and q·k
        self._has_heads = False  # whether q and k also have the second axis of the last product
        self._mixed: tuple[int, int] | None = None  # numbers of heads and entries of the last product with values
        self._found: dict[tuple[str, str], str] = {}  # (check, place) → detail
        # Zero operands by place, in order, and nonzero operands by the place that all layers share. In some untrained
        # models, operands are 0 in all layers.
        self._zero: dict[tuple[str, str], None] = {}
        self._live: set[tuple[str, str]] = set()

    def __call__(self, name: str, args: Any, kwargs: Any, result: Any) -> None:
        if name in SOFTMAX:
            self._see_softmax(args, kwargs, result)
        elif name in PRODUCTS:
            operands = [a for a in args if isinstance(a, Tensor) and a.is_floating_point() and a.dim() > 2]
            if len(operands) == 2:
                self._has_heads = name != "einsum" or isinstance(args[0], str) and _has_heads(args[0])
                self._see_product(*operands, result)
        elif (x := linear_input(name, args, kwargs)) is not None:
            self._see_projected(x)
        elif name == "scaled_dot_product_attention":
            q, k, v = (argument(args, kwargs, i, key) for i, key in enumerate(("query", "key", "value")))
            for what, tensor in ("queries", q), ("keys", k), ("values", v):
                self._see_operand(what, tensor)
            if q.dim() == 4 and q.shape[:2] == k.shape[:2] and self._may_compare(q.shape[1]):
                parts = [t.detach()[:, :, :MOST_TOKENS] for t in (q, k)]
                sizes = [rms(t) for t in parts]
                if min(sizes) > 0:
                    self._add_heads(torch.cat([t.flatten(2) / size for t, size in zip(parts, sizes)], -1))
            self._mixed = (result.shape[1], result.numel()) if result.dim() == 4 else None

    def _see_softmax(self, args: Any, kwargs: Any, result: Tensor) -> None:
        dim = argument(args, kwargs, 1, "dim")
        self._weights = [*self._weights[-1:], (result.detach(), (-1 if dim is None else dim) % result.dim())]
        if self._product is not None and self._product[2].shape == result.shape:
            q, k, _ = self._product
            self._see_operand("queries", q)
            self._see_operand("keys", k.transpose(-1, -2) if k.shape[-2] == q.shape[-1] else k)
            if self._has_heads:
                self._see_heads(result.detach())

    def _see_product(self, left: Tensor, right: Tensor, result: Tensor) -> None:
        self._product = left.detach(), right.detach(), result.detach()
        for weights, axis in self._weights:
            if weights.numel() == left.numel() and weights.shape[-1] == left.shape[-1] and \
                    left.shape[-1] == right.shape[-2] and torch.equal(weights.flatten(), left.detach().flatten()):
                self._see_axis(weights, axis)
                self._see_operand("values", right)
                self._mixed = (result.shape[1], result.numel()) if result.dim() == 4 else None

    def _see_axis(self, weights: Tensor, axis: int) -> None:
        """Records softmax-axis if a query's weights do not add up to 1 over the axis that the product with values
        sums."""
        if axis != weights.dim() - 1 and bool((weights.double().sum(-1) - 1).abs().max() > 0.05):
            self._found["softmax-axis", self._subject.where()] = AXES.get(axis + 4 - weights.dim(), f"axis {axis}")

    def _see_operand(self, what: str, tensor: Tensor) -> None:
        """Records an operand [..., tokens, features] whose tokens are all alike."""
        t = tensor.detach()
        if t.dim() < 3 or t.shape[-2] < 3 or t.numel() > MOST_VALUES:
            return
        place, size = self._subject.where(), rms(t)
        if size == 0:
            self._zero[place, what] = None
            return
        self._live.add((self._subject.of_all_layers(place), what))
        if rms(t.double() - t.double().mean(-2, keepdim=True)) < CONSTANT * size:
            self._found["attention-constant", place] = what
        silent = [i for i, head in enumerate(t.unbind(1)) if rms(head) == 0] if t.dim() == 4 else []
        if silent and what == "values":
            self._found["head-silent", place] = f"{len(silent)} of {t.shape[1]} heads"

    def _see_projected(self, x: Tensor) -> None:
        """Records heads of which the output projection reads only exact zeros."""
        if self._mixed is None or x.numel() != self._mixed[1] or x.shape[-1] % self._mixed[0]:
            return
        count, self._mixed = self._mixed[0], None
        silent = count - int((x.detach().reshape(-1, count, x.shape[-1] // count) != 0).any(-1).any(0).sum())
        if 0 < silent < count:
            self._found["head-silent", self._subject.where()] = f"{silent} of {count} heads"

    def _see_heads(self, weights: Tensor) -> None:
        """Records heads with equal weights, unless the weights are equal for all keys."""
        if weights.dim() != 4 or weights.shape[-1] < 3 or weights.numel() > MOST_VALUES \
                or not self._may_compare(weights.shape[1]):
            return
        w = weights.double()
        is_uniform = bool((w.amax(-1) - w.amin(-1)).max() < 1e-3) or _is_uniform_where_visible(w)
        if not is_uniform:
            self._add_heads(w.flatten(2))

    def _add_heads(self, heads: Tensor) -> None:
        """Records heads whose values [sequences, heads, values] equal those of another head."""
        values = heads[:max(1, MOST_VALUES // heads[0].numel())].transpose(0, 1).flatten(1).float()
        distances = torch.cdist(values, values, p=math.inf).fill_diagonal_(math.inf)
        alike = int((distances.amin(1) < 1e-6).sum())
        if alike:
            self._found["heads-alike", self._subject.where()] = f"{alike} of {len(values)} heads"

    def _may_compare(self, count: int) -> bool:
        """Returns whether an axis with `count` entries may be the heads. Rows of images can be an axis, too."""
        inside = self._subject.runs[-1].inside
        known = {n for owner in (self._subject.config, *inside[-1:]) for n in [entry(owner, *HEADS)] if type(n) is int}
        return 1 < count <= MOST_HEADS and (not known or count in known)

    def add_lines(self) -> None:
        self._weights.clear()
        self._product = None
        is_drawn = bool(self._zero) and has_initial_weights(self._subject) and follows_range(self._subject)
        for place, what in self._zero:
            is_alone = (self._subject.of_all_layers(place), what) in self._live
            if is_alone or has_trained_gains(self._subject) or is_drawn and has_zeros(self._subject, place):
                self._found["attention-constant", place] = what
        for (check, place), what in self._found.items():
            if check != "attention-constant" or not self._starts.is_equal(place):
                self._subject.add_line(check, 1, where=place, detail=what)


def _has_heads(equation: str) -> bool:
    """Returns whether both operands of einsum have the first two axes of the product, as in "bhid,bhjd->bhij"."""
    operands, _, product = equation.replace(" ", "").partition("->")
    return all(axis in operand for axis in product[:2] for operand in operands.split(","))


def _is_uniform_where_visible(weights: Tensor) -> bool:
    """Returns whether all keys that a query sees have the same weight, as with small initial weights."""
    visible = weights > 1e-9
    mean = 1 / visible.sum(-1, keepdim=True).clamp(min=1)
    return bool(((weights - mean) * visible).abs().max() < 1e-3)
