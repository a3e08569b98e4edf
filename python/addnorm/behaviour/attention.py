"""Checks of attention by its operands, as they show in PyTorch's functions: softmax-axis, attention-constant,
heads-alike and head-silent."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .operators import PRODUCTS, SOFTMAX
from .structure import rms
from .subject import Subject
from .weights import follows_range, has_zeros, is_trained, is_untrained

AXES = {1: "heads", 2: "queries"}  # of weights [sequences, heads, queries, keys]
CONSTANT = 1e-5  # the spread of queries, keys or values over tokens, as a share of their size; collapse leaves 1e-4
MOST_VALUES = 2**18  # of one tensor that is looked at


class AttentionChecks:
    """Looks at the operands of attention in each module."""

    def __init__(self, s: Subject) -> None:
        self._s = s
        self._weights: list[tuple[Tensor, int]] = []  # the last results of a softmax, and its axis
        self._product: tuple[Tensor, Tensor, Tensor] | None = None  # q, k and q·k, the last ones
        self._mixed: tuple[int, int] | None = None  # heads and values of the last product with values
        self._found: dict[tuple[str, str], str] = {}  # check and place
        # Operands of 0, by place, in their order; and operands that are not, by the place that layers share. Some
        # models begin with operands of 0 in all layers.
        self._zero: dict[tuple[str, str], None] = {}
        self._live: set[tuple[str, str]] = set()

    def __call__(self, name: str, args: Any, kwargs: Any, result: Any) -> None:
        if name in SOFTMAX:
            self._see_softmax(args, kwargs, result)
        elif name in PRODUCTS:
            operands = [a for a in args if isinstance(a, Tensor) and a.is_floating_point() and a.dim() > 2]
            if len(operands) == 2:
                self._see_product(*operands, result)
        elif name in ("linear", "addmm"):
            self._see_projected(args[name == "addmm"])
        elif name == "scaled_dot_product_attention":
            q, k, v = args[:3]
            for what, tensor in ("queries", q), ("keys", k), ("values", v):
                self._see_operand(what, tensor)
            sizes = rms(q), rms(k)
            if q.dim() == 4 and q.shape[:2] == k.shape[:2] and min(sizes) > 0:
                self._add_heads(torch.cat([t.detach().flatten(2) / size for t, size in zip((q, k), sizes)], -1))
            self._mixed = (result.shape[1], result.numel()) if result.dim() == 4 else None

    def _see_softmax(self, args: Any, kwargs: Any, result: Tensor) -> None:
        dim = kwargs.get("dim", args[1] if len(args) > 1 else -1)
        scores = (args[0] if args else kwargs["input"]).detach()
        self._weights = [*self._weights[-1:], (result.detach(), dim % result.dim())]
        if self._product is not None and self._product[2].shape == scores.shape:
            q, k, _ = self._product
            self._see_operand("queries", q)
            self._see_operand("keys", k.transpose(-1, -2) if k.shape[-2] == q.shape[-1] else k)
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
        """The weights of one query must add up to 1 over the axis that the product with the values sums."""
        if axis != weights.dim() - 1 and bool((weights.double().sum(-1) - 1).abs().max() > 0.05):
            self._found["softmax-axis", self._s.where()] = AXES.get(axis + 4 - weights.dim(), f"axis {axis}")

    def _see_operand(self, what: str, tensor: Tensor) -> None:
        """Notes an operand [..., tokens, features] whose tokens are all alike."""
        t = tensor.detach()
        if t.dim() < 3 or t.shape[-2] < 3 or t.numel() > MOST_VALUES:
            return
        place, size = self._s.where(), rms(t)
        if size == 0:
            self._zero[place, what] = None
            return
        self._live.add((self._s.of_all_layers(place), what))
        if rms(t.double() - t.double().mean(-2, keepdim=True)) < CONSTANT * size:
            self._found["attention-constant", place] = what
        silent = [i for i, head in enumerate(t.unbind(1)) if rms(head) == 0] if t.dim() == 4 else []
        if silent and what == "values":
            self._found["head-silent", place] = f"{len(silent)} of {t.shape[1]} heads"

    def _see_projected(self, x: Tensor) -> None:
        """Notes heads of which the output projection reads exact zeros alone."""
        if self._mixed is None or x.numel() != self._mixed[1] or x.shape[-1] % self._mixed[0]:
            return
        count, self._mixed = self._mixed[0], None
        silent = count - int((x.detach().reshape(-1, count, x.shape[-1] // count) != 0).any(-1).any(0).sum())
        if 0 < silent < count:
            self._found["head-silent", self._s.where()] = f"{silent} of {count} heads"

    def _see_heads(self, weights: Tensor) -> None:
        """Notes heads with the same weights, unless the weights are the same for all keys."""
        if weights.dim() != 4 or weights.shape[1] < 2 or weights.shape[-1] < 3 or weights.numel() > MOST_VALUES:
            return
        w = weights.double()
        is_uniform = bool((w.amax(-1) - w.amin(-1)).max() < 1e-3) or _is_uniform_where_visible(w)
        if not is_uniform:
            self._add_heads(w.flatten(2))

    def _add_heads(self, heads: Tensor) -> None:
        """Notes heads whose values [sequences, heads, values] are those of another one."""
        count = heads.shape[1]
        alike = {i for i in range(count) for j in range(count)
                 if i != j and bool((heads[:, i] - heads[:, j]).abs().max() < 1e-6)}
        if alike:
            self._found["heads-alike", self._s.where()] = f"{len(alike)} of {count} heads"

    def add(self) -> None:
        self._weights.clear()
        self._product = None
        is_drawn = bool(self._zero) and is_untrained(self._s) and follows_range(self._s)
        for place, what in self._zero:
            is_alone = (self._s.of_all_layers(place), what) in self._live
            if is_alone or is_trained(self._s) or is_drawn and has_zeros(self._s, place):
                self._found["attention-constant", place] = what
        for (check, place), what in self._found.items():
            self._s.add(check, 1, where=place, detail=what)


def _is_uniform_where_visible(weights: Tensor) -> bool:
    """Whether all keys that a query sees have the same weight, as before training with small weights."""
    visible = weights > 1e-9
    mean = 1 / visible.sum(-1, keepdim=True).clamp(min=1)
    return bool(((weights - mean) * visible).abs().max() < 1e-3)
