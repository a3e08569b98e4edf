"""Checks of the PyTorch functions that a forward calls: attention-scale, attention-scale-odd, dropout-on-stream, and
dropout that is active in evaluation."""

from __future__ import annotations

import math
import statistics
import weakref
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from .._structure import entry
from .structure import rms, some
from .subject import Subject

_SCALES = ("attention_multiplier", "query_pre_attn_scalar", "attn_scale", "softmax_scale")
DROPOUTS = {"dropout", "dropout_", "feature_dropout", "alpha_dropout", "dropout1d", "dropout2d"}
PRODUCTS = {"matmul", "bmm", "baddbmm", "einsum", "__matmul__", "__rmatmul__"}
SOFTMAX = {"softmax", "_softmax"}
MOST_VALUES = 2**18  # number of scores that are compared
_MAPS = {"linear", "addmm", "conv1d", *PRODUCTS}
_RANDOM = {"randn", "randn_like", "rand", "rand_like", "normal", "normal_", "uniform_"}
_MULTIPLES = {"mul", "mul_", "__mul__", "__rmul__", "div", "__truediv__", "to"}
_SUMS = {"add", "add_", "__add__", "__radd__", "__iadd__"}


class Functions(TorchFunctionMode):
    """Passes every call of a PyTorch function, with its result, to all watchers.

    Exceptions of watchers do not stop the model. The first one of each is listed as left out, for its `checks`.
    """

    def __init__(self, s: Subject, *watchers: Any) -> None:
        super().__init__()
        self._s, self._watchers = s, watchers
        self._errors: dict[Any, Exception] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        for watch in self._watchers:
            try:
                watch(name, args, kwargs or {}, result)
            except Exception as error:
                self._errors.setdefault(watch, error)
        return result

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        for watch, reason in self._errors.items():
            self._s.leave(watch.checks, reason)


def argument(args: tuple[Any, ...], kwargs: dict[str, Any], index: int, name: str) -> Any:
    """Returns an argument of a function, by its position or its name, or None."""
    return args[index] if len(args) > index else kwargs.get(name)


def linear_input(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Returns the input of a linear map, or None for other functions."""
    if name == "addmm":
        return argument(args, kwargs, 1, "mat1")
    return argument(args, kwargs, 0, "input") if name == "linear" else None


# -- Dropout --


def dropout_rate(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> float:
    if name in DROPOUTS:
        rate = kwargs.get("p", args[1] if len(args) > 1 else 0.5)
        training = kwargs.get("training", args[2] if len(args) > 2 else True)
        return float(rate) if training else 0.0
    if name == "scaled_dot_product_attention":
        return float(kwargs.get("dropout_p", args[4] if len(args) > 4 else 0.0))
    if name == "multi_head_attention_forward":
        return float(argument(args, kwargs, 10, "dropout_p") or 0.0) if kwargs.get("training", True) else 0.0
    return 0.0


class LiveDropout:
    """Records the modules in which dropout is active."""

    checks = "eval-noise"

    def __init__(self, s: Subject) -> None:
        self._s = s
        self.places: list[str] = []

    def __call__(self, name: str, args: Any, kwargs: Any, result: Any) -> None:
        if dropout_rate(name, args, kwargs) > 0 and self._s.where() not in self.places:
            self.places.append(self._s.where())

    def text(self) -> str:
        return some(place or "the model's forward" for place in self.places)


class NoisySums:
    """Records places in layers where random numbers, or a multiple of them, are added to rows of tokens."""

    checks = "eval-noise"

    def __init__(self, s: Subject) -> None:
        self._s = s
        self._noise: list[Tensor] = []  # the last random tensors
        self.places: list[str] = []

    def __call__(self, name: str, args: Any, kwargs: Any, result: Any) -> None:
        is_noise = [any(a is noise for noise in self._noise) for a in args[:2]]
        if name in _RANDOM or name in _MULTIPLES and any(is_noise):
            self._noise = [*self._noise[-3:], result]
        elif name in _SUMS and sum(is_noise) == 1 and result.dim() > 2 \
                and all(isinstance(a, Tensor) and a.shape == result.shape for a in args[:2]):
            place = self._s.where()
            if self._s.layer_of(place) and place not in self.places:
                self.places.append(place)


class StreamDropout:
    """Finds dropout of a sum x + f, instead of f, in a layer. It drops parts of what earlier layers have added.

    The residual stream is the input of a layer and each sum with it. It also includes the input of a module within a
    layer, unless a linear map has just computed that input. Such an input is a branch, to which an adapter may add. A
    batch of one sequence is skipped, because its stream cannot be distinguished from positions. """

    checks = "dropout-on-stream"

    def __init__(self, s: Subject) -> None:
        self._s = s
        self._stream: dict[int, Tensor] = {}  # kept, so that no other tensor gets the same id
        self._sums: dict[int, Tensor] = {}
        self._mapped: dict[int, weakref.ref[Tensor]] = {}  # outputs of linear maps
        self.found: dict[str, float] = {}
        forms = {m: s.of_all_layers(name) for m, name in s.names.items()}
        often = Counter(forms.values())
        self._in_layers = {m for m, form in forms.items() if "*" in form and often[form] > 1}

    def enter(self, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        x = inputs[0] if inputs else None
        is_within = any(m in self._in_layers for m in self._s.runs[-1].inside[:-1])
        if isinstance(x, Tensor) and x.is_floating_point() and x.dim() > 2 and x.shape[0] > 1 \
                and module in self._in_layers and list(module.children()) \
                and not (is_within and self._is_mapped(x)):
            self._stream[id(x)] = x

    def _is_mapped(self, x: Any) -> bool:
        known = self._mapped.get(id(x))
        return known is not None and known() is x

    def __call__(self, name: str, args: Any, kwargs: Any, result: Any) -> None:
        if name in _MAPS or name in DROPOUTS and args and self._is_mapped(args[0]):
            self._mapped[id(result)] = weakref.ref(result)
        if name in _SUMS and len(args) > 1:
            x, f = args[0], args[1]
            is_sum = isinstance(x, Tensor) and isinstance(f, Tensor) and x.shape == f.shape
            if is_sum and (id(x) in self._stream or id(f) in self._stream):
                self._stream[id(result)] = self._sums[id(result)] = result
            return
        rate = dropout_rate(name, args, kwargs) if name in DROPOUTS else 0.0
        x = args[0] if args else kwargs.get("input")
        if rate > 0 and id(x) in self._sums and self._s.runs[-1].inside:
            layer = next((m for m in reversed(self._s.runs[-1].inside) if m in self._in_layers), None)
            if layer is not None:
                self.found.setdefault(self._s.names[layer], rate)
                self._stream[id(result)] = self._sums[id(result)] = result

    def add(self) -> None:
        self._stream.clear()
        self._sums.clear()
        for place, rate in self.found.items():
            self._s.add("dropout-on-stream", rate, where=place)


# -- The scale of attention --


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


class AttentionScale:
    """Measures the factor between q·k and the logits of the softmax. It includes factors of the product, and factors of
    q and k after their projections. It is measured only where it is unambiguous: all logits are one multiple of the
    product, and the rows of q and k are not normalized."""

    checks = "attention-scale"

    def __init__(self, s: Subject) -> None:
        self._s = s
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
            self._add(q, k, kwargs.get("scale") or q.shape[-1]**-0.5)
        elif name in SOFTMAX:
            logits = argument(args, kwargs, 0, "input").detach()
            for product in reversed(self._products):
                if product.result.shape == logits.shape:
                    factor = multiple(logits, product.values())
                    if factor is not None:
                        self._add(product.q.detach(), product.k.detach(), factor)
                    break

    def _add(self, q: Tensor, k: Tensor, factor: float) -> None:
        width, place = q.shape[-1], self._s.where()
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

    def add(self) -> None:
        """Adds attention-scale for factors near 1/√d or near 1. Others may be a choice: 1/d, or a learned one."""
        self._products.clear()
        self._projections.clear()
        self._add_odd_factors()
        config = self._s.config
        if entry(config, *_SCALES) is not None or getattr(config, "scale_attn_weights", None) is False:
            self._s.leave("attention-scale", "the configuration says which scale attention has")
            return
        for place, (factor, width) in self.found.items():
            if any(abs(math.log(factor / usual)) < 0.1 for usual in (1.0, width**-0.5) if factor > 0):
                self._s.add("attention-scale", factor, limit=width**-0.5, where=place,
                            detail=f"heads of width {width}")

    def _add_odd_factors(self) -> None:
        """Adds attention-scale-odd for a factor of q·k that differs from its counterparts in all other layers."""
        groups: dict[str, list[str]] = defaultdict(list)
        for place in self._factors:
            groups[self._s.of_all_layers(place)].append(place)
        for places in groups.values():
            usual = statistics.median(self._factors[place] for place in places)
            odd = [p for p in places if usual <= 0 or abs(self._factors[p] / usual - 1) > 0.05]
            if len(places) > 4 and len(odd) == 1 and usual > 0:
                self._s.add("attention-scale-odd", self._factors[odd[0]], limit=usual, where=odd[0],
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


def multiple(scores: Tensor, product: Tensor) -> float | None:
    """Returns c if scores = c·product in all entries of some rows that no mask hides, else None."""
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


def _has_equal_rows(t: Tensor) -> bool:
    """Returns whether all rows have one length, per head or over all heads of a token, as after a norm of queries or
    keys."""
    squares = t.double().square().sum(-1)
    lengths = [squares, squares.sum(1)] if t.dim() == 4 else [squares]
    return any(bool(n.sqrt().std() < 0.02 * n.sqrt().mean()) for n in lengths)
