"""Checks of attention by its operands, as they show in PyTorch's functions: softmax-axis, attention-constant,
heads-alike, and attention-scale-odd for a layer with another factor than its counterparts."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from typing import Any

import torch
from torch import Tensor

from .structure import of_all_layers, rms
from .subject import Subject

PRODUCTS = {"matmul", "bmm", "baddbmm", "einsum", "__matmul__", "__rmatmul__"}
SOFTMAX = {"softmax", "_softmax"}
AXES = {1: "heads", 2: "queries"}  # of weights [sequences, heads, queries, keys]
CONSTANT = 1e-5  # the spread of queries, keys or values over tokens, as a share of their size; collapse leaves 1e-4
MOST_VALUES = 2**18  # of one tensor that is looked at


class AttentionChecks:
    """Looks at the operands of attention in each module."""

    def __init__(self, s: Subject) -> None:
        self._s = s
        self._weights: list[tuple[Tensor, int]] = []  # the last results of a softmax, and its axis
        self._product: tuple[Tensor, Tensor, Tensor] | None = None  # q, k and q·k, the last ones
        self._found: dict[tuple[str, str], str] = {}  # check and place
        self._factors: dict[str, float] = {}
        # Places with operands of 0, which begin so in some models, and the layers where they are not 0.
        self._zero: dict[tuple[str, str], int] = {}
        self._live: dict[tuple[str, str], set[str]] = {}

    def __call__(self, name: str, args: Any, kwargs: Any, result: Any) -> None:
        if name in SOFTMAX:
            self._see_softmax(args, kwargs, result)
        elif name in PRODUCTS:
            operands = [a for a in args if isinstance(a, Tensor) and a.is_floating_point() and a.dim() > 2]
            if len(operands) == 2:
                self._see_product(*operands, result)
        elif name == "scaled_dot_product_attention":
            q, k, v = args[:3]
            self._factors.setdefault(self._s.where(), kwargs.get("scale") or q.shape[-1]**-0.5)
            for what, tensor in ("queries", q), ("keys", k), ("values", v):
                self._see_operand(what, tensor)
            if q.dim() == 4 and q.shape[:2] == k.shape[:2] and rms(q) > 0 and rms(k) > 0:
                self._add_heads(torch.cat([q.detach().flatten(2) / rms(q), k.detach().flatten(2) / rms(k)], -1))

    def _see_softmax(self, args: Any, kwargs: Any, result: Tensor) -> None:
        dim = kwargs.get("dim", args[1] if len(args) > 1 else -1)
        scores = (args[0] if args else kwargs["input"]).detach()
        self._weights = [*self._weights[-1:], (result.detach(), dim % result.dim())]
        if self._product is not None and self._product[2].shape == scores.shape:
            q, k, product = self._product
            self._see_operand("queries", q)
            self._see_operand("keys", k.transpose(-1, -2) if k.shape[-2] == q.shape[-1] else k)
            factor = multiple(scores, product)
            if factor is not None:
                self._factors.setdefault(self._s.where(), factor)
        self._see_heads(result.detach())

    def _see_product(self, left: Tensor, right: Tensor, result: Tensor) -> None:
        self._product = left.detach(), right.detach(), result.detach()
        for weights, axis in self._weights:
            if weights.numel() == left.numel() and weights.shape[-1] == left.shape[-1] and \
                    left.shape[-1] == right.shape[-2] and torch.equal(weights.flatten(), left.detach().flatten()):
                self._see_axis(weights, axis)
                self._see_operand("values", right)

    def _see_axis(self, weights: Tensor, axis: int) -> None:
        """The weights of one query must add up to 1 over the axis that the product with the values sums."""
        sums = weights.double().sum(-1)
        if axis != weights.dim() - 1 and bool((sums - 1).abs().max() > 0.05):
            self._found["softmax-axis", self._s.where()] = AXES.get(axis + 4 - weights.dim(), f"axis {axis}")

    def _see_operand(self, what: str, tensor: Tensor) -> None:
        """Notes an operand [..., tokens, features] whose tokens are all alike."""
        t = tensor.detach()
        if t.dim() < 3 or t.shape[-2] < 3 or t.numel() > MOST_VALUES:
            return
        apart = t.double() - t.double().mean(-2, keepdim=True)
        self._live.setdefault((of_all_layers(self._s.where()), what), set())
        if rms(t) == 0:
            self._zero[self._s.where(), what] = 1
            return
        self._live[of_all_layers(self._s.where()), what].add(self._s.where())
        if rms(apart) < CONSTANT * rms(t):
            self._found["attention-constant", self._s.where()] = what
        silent = [i for i, head in enumerate(t.unbind(1)) if rms(head) == 0] if t.dim() == 4 else []
        if silent and what == "values":
            self._found["head-silent", self._s.where()] = f"{len(silent)} of {t.shape[1]} heads"

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
        for place, what in self._zero:
            if self._live[of_all_layers(place), what]:
                self._found["attention-constant", place] = what
        for (check, place), what in self._found.items():
            self._s.add(check, 1, where=place, detail=what)
        self._add_odd_factors()

    def _add_odd_factors(self) -> None:
        """Adds the one factor of q·k that is unlike those of its counterparts in all other layers."""
        groups: dict[str, list[str]] = defaultdict(list)
        for place in self._factors:
            groups[of_all_layers(place)].append(place)
        for places in groups.values():
            usual = statistics.median(self._factors[place] for place in places)
            odd = [p for p in places if usual <= 0 or abs(self._factors[p] / usual - 1) > 0.05]
            if len(places) > 4 and len(odd) == 1 and usual > 0:
                self._s.add("attention-scale-odd", self._factors[odd[0]], limit=usual, where=odd[0],
                            detail=f"{len(places) - 1} other layers")


def _is_uniform_where_visible(weights: Tensor) -> bool:
    """Whether all keys that a query sees have the same weight, as before training with small weights."""
    visible = weights > 1e-9
    mean = 1 / visible.sum(-1, keepdim=True).clamp(min=1)
    return bool(((weights - mean) * visible).abs().max() < 1e-3)


def multiple(scores: Tensor, product: Tensor) -> float | None:
    """Returns c if scores = c·product in all entries that no mask hides, of some rows."""
    scores, product = (t.detach().reshape(-1, t.shape[-1]) for t in (scores, product))
    stride = 1 + scores.numel() // MOST_VALUES
    scores, product = scores[::stride], product[::stride]
    visible = torch.isfinite(scores) & (scores > -1e4)
    y, x = scores[visible].double(), product[visible].double()
    if not len(y) or not x.square().sum() > 0:
        return None
    factor = float((x * y).sum() / x.square().sum())
    is_multiple = math.isfinite(factor) and bool((y - factor * x).norm() < 0.01 * y.norm())
    return factor if is_multiple else None
