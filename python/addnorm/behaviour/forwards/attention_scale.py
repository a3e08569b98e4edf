"""attention-scale and attention-scale-odd: the factor between q·k and the logits of the softmax."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from typing import Any, Iterator, NamedTuple

from torch import Tensor, nn

from ..._structure import entry
from ..run.functions import PRODUCTS, SOFTMAX, FunctionCheck, argument
from ..run.subject import Subject
from ..run.tensors import multiple, rms

_SCALES = ("attention_multiplier", "query_pre_attn_scalar", "attn_scale", "softmax_scale")


class _Product(NamedTuple):
    """q·k of shapes [..., tokens, width] and [..., width, tokens], or of operands of einsum."""

    q: Tensor
    k: Tensor
    result: Tensor
    version: int

    def values(self) -> Tensor:
        """Returns the product. It is computed again if the result was changed in place, as by scores /= sqrt(d)."""
        if self.result._version == self.version:
            return self.result.detach()
        k = self.k if self.k.shape[-2] == self.q.shape[-1] else self.k.transpose(-1, -2)
        return (self.q.detach() @ k.detach()).view_as(self.result)


class AttentionScale(FunctionCheck):
    """Measures the factor between q·k and the logits of the softmax. It includes factors of the product, and factors of
    q and k after their projections. It is measured only where it is unambiguous: all logits are one multiple of the
    product, and the rows of q and k are not normalized."""

    checks = "attention-scale"

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        self._projections: list[Tensor] = []
        self._products: list[_Product] = []
        self.found: dict[str, tuple[float, int]] = {}
        self._factors: dict[str, float] = {}  # factors of the product alone

    def __call__(self, name: str, args: Any, kwargs: Any, result: Any) -> None:
        if name in ("linear", "addmm") or name in PRODUCTS and _has_parameter(args):
            self._projections = [*self._projections[-2:], result.detach()]
        elif name in PRODUCTS and len(operands := _operands(args)) == 2:
            q, k = operands
            if q.dim() > 2:
                self._products = [*self._products[-1:], _Product(q, k, result, result._version)]
        elif name == "scaled_dot_product_attention":
            q, k = argument(args, kwargs, 0, "query").detach(), argument(args, kwargs, 1, "key").detach()
            self._note_factor(q, k, kwargs.get("scale") or q.shape[-1]**-0.5)
        elif name in SOFTMAX:
            logits = argument(args, kwargs, 0, "input").detach()
            for product in reversed(self._products):
                if product.result.shape == logits.shape:
                    factor = multiple(logits, product.values())
                    if factor is not None:
                        self._note_factor(product.q.detach(), product.k.detach(), factor)
                    break

    def _note_factor(self, q: Tensor, k: Tensor, factor: float) -> None:
        width, place = q.shape[-1], self._subject.where()
        self._factors.setdefault(place, factor)
        if width < 8:  # 1 and 1/√d are too close
            return
        if k.shape[-1] != width and k.dim() > 1 and k.shape[-2] == width:
            k = k.transpose(-1, -2)
        if k.shape[-1] != width or _has_equal_rows(q) or _has_equal_rows(k):
            return
        projected = self._projected(q, k)
        if projected is None and k.dim() > 1 and k.shape[-2] == width:  # as many tokens as features
            projected = self._projected(q, k.transpose(-1, -2))
        if projected is None or min(map(rms, projected)) == 0:
            return
        of_q, of_k = map(rms, projected)
        if abs(math.log(of_q / of_k * width**0.5)) < 0.3:
            return  # as in T5, whose weights include the factor
        self.found.setdefault(place, (factor * rms(q) / of_q * rms(k) / of_k, width))

    def _projected(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor] | None:
        """Returns q and k as their projections returned them, or None. Their tokens have the lengths of q's and k's up
        to one factor, because rotations and shared keys do not change lengths."""
        for of_q, of_k in self._pairs(q):
            if of_q.numel() == q.numel() and k.numel() % of_k.numel() == 0 \
                    and _is_turned(q, of_q) and _is_turned(k, of_k):
                return of_q, of_k
        return None

    def _pairs(self, q: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Yields candidates for (q, k) among the last projections. Possible orders: q, k and v one after the other; v
        later; k and v by one map; or all by one map, either concatenated or head by head."""
        recent = self._projections
        yield from zip(recent[:-1], recent[1:])
        if len(recent) > 1:
            yield recent[-2], recent[-1].chunk(2, -1)[0]
        if not recent:
            return
        last, heads = recent[-1], q.shape[-3] if q.dim() > 3 else 1
        rows = last.numel() // last.shape[-1]
        width = q.numel() // rows
        rest = last.shape[-1] - width
        if rest > 0 and rest % 2 == 0:
            yield last[..., :width], last[..., width:width + rest // 2]
        if last.shape[-1] == 3 * width and width % heads == 0:
            each = last.unflatten(-1, (heads, 3, -1))
            yield each[..., 0, :].flatten(-2), each[..., 1, :].flatten(-2)

    def add_lines(self) -> None:
        """Adds attention-scale for factors near 1/√d or near 1. Others may be a choice: 1/d, or a learned one."""
        self._products.clear()
        self._projections.clear()
        self._add_odd_factors()
        config = self._subject.config
        if entry(config, *_SCALES) is not None or getattr(config, "scale_attn_weights", None) is False:
            self._subject.leave_out("attention-scale", "the configuration says which scale attention has")
            return
        for place, (factor, width) in self.found.items():
            if any(abs(math.log(factor / usual)) < 0.1 for usual in (1.0, width**-0.5) if factor > 0):
                self._subject.add_line("attention-scale", factor, limit=width**-0.5, where=place,
                                       detail=f"heads of width {width}")

    def _add_odd_factors(self) -> None:
        """Adds attention-scale-odd for a factor of q·k that differs from its counterparts in all other layers."""
        groups: dict[str, list[str]] = defaultdict(list)
        for place in self._factors:
            groups[self._subject.of_all_layers(place)].append(place)
        for places in groups.values():
            usual = statistics.median(self._factors[place] for place in places)
            odd = [p for p in places if usual <= 0 or abs(self._factors[p] / usual - 1) > 0.05]
            if len(places) > 4 and len(odd) == 1 and usual > 0:
                self._subject.add_line("attention-scale-odd", self._factors[odd[0]], limit=usual, where=odd[0],
                                       detail=f"{len(places) - 1} other layers")


def _is_turned(t: Tensor, projected: Tensor) -> bool:
    """Returns whether the tokens of t have the lengths of projected tokens up to one factor. The axis of heads may come
    before or after the axis of tokens."""
    lengths = projected.double().square().sum(-1).flatten().sort().values
    squares = t.double().square().sum(-1)
    found = [squares.sum(axis).flatten() for axis in (1, 2)] if t.dim() == 4 else [squares.flatten()]
    found = [n.sort().values for n in found if n.numel() == lengths.numel()]
    if not found:
        return t.dim() != 4  # heads and sequences are one axis
    return any(bool((n / n.mean() - lengths / lengths.mean()).abs().max() < 0.02) for n in found)


def _has_parameter(args: Any) -> bool:
    return any(isinstance(a, nn.Parameter) or isinstance(a, Tensor) and a._base is not None
               and isinstance(a._base, nn.Parameter) for a in args)


def _operands(args: Any) -> list[Tensor]:
    return [a for a in args if isinstance(a, Tensor) and a.is_floating_point()]


def _has_equal_rows(t: Tensor) -> bool:
    """Returns whether all rows have one length, per head or over all heads of a token, as after a norm of queries or
    keys."""
    squares = t.double().square().sum(-1)
    lengths = [squares, squares.sum(1)] if t.dim() == 4 else [squares]
    return any(bool(n.sqrt().std() < 0.02 * n.sqrt().mean()) for n in lengths)
