"""The lab: what is claimed of residual connections and norms, measured, as plain data.

What a function returns is the JSON document that the program's command of its name writes: dicts, lists,
strings, numbers; None is what is absent, infinite or NaN.
"""

from __future__ import annotations

import json
import math
import operator
from typing import Any, Callable, Iterable, Literal, Sequence

from . import _core
from .norm import Norm


def _read(document: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(document)
    return data


def _json(options: dict[str, Any]) -> str:
    """With NumPy's numbers and any iterable as a list, without what is None."""
    def plain(value: Any) -> Any:
        if isinstance(value, Iterable):
            return list(value)
        if hasattr(value, "item"):
            return value.item()
        raise TypeError(f"{value!r} is no number, name or list of these")
    for name, value in options.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise _core.Error(f"{name} is {value}, must be finite")
    return json.dumps({name: value for name, value in options.items() if value is not None},
                      default=plain)


def _count(name: str, value: int) -> int:
    count = operator.index(value)
    if not 0 <= count < 2**64:
        raise _core.Error(f"{name} is {count}, must be from 0 to 2**64 - 1")
    return count


def _asked(name: str, value: int | None) -> int:
    """A count from 1, or 0 where nobody asked."""
    count = 0 if value is None else _count(name, value)
    if count == 0 and value is not None:
        raise _core.Error(f"{name} is 0, must be at least 1")
    return count


def _numbers(values: float | Iterable[float]) -> list[float]:
    row: Any = values
    return [float(value) for value in (row if _is_row(row) else [row])]


def _lanes(x: Iterable[Any]) -> list[list[float]]:
    """The rows of several lanes, or those of one."""
    rows = list(x)
    if rows and all(_is_row(row) for row in rows):
        return [_numbers(row) for row in rows]
    return [_numbers(rows)]


def _is_row(values: Any) -> bool:
    """A tensor's numbers are tensors without dimensions, which say that they can be iterated over."""
    return isinstance(values, Iterable) and getattr(values, "ndim", 1) > 0


def trace(x: Sequence[float] | Sequence[Sequence[float]], branch: Sequence[float] = (),
          gamma: float | Sequence[float] = (), beta: float | Sequence[float] = (), norm: Norm = Norm(), *,
          placement: str = "post", layers: int = 12, layer: int | None = None,
          sublayer: Literal["attention", "feed_forward"] | None = None,
          lanes: int | None = None) -> dict[str, Any]:
    """Add & Norm of one token, step by step, in float64.

    x is the token's features, branch what the sublayer gives back, as many; empty: the norm of x alone.
    gamma and beta are one number, or one for each feature. placement: "post", norm(x + F(x)); "pre",
    x + F(norm(x)); "none", x + F(x).

    Returns {"x", "branch", "sum", "mean", "variance", "deviation", "normalized", "output"}. Error for
    numbers of features that differ.

    placement may also be any other that `addnorm placements` lists, or parts of them such as "post:3+pre".
    Then x is the embedding, with which a stream of several lanes begins, or these lanes, a row each, and the
    parameters are those that training starts with. Their numbers may depend on where the sublayer stands:
    in which layer, from 1, of how many layers; None: the first. lanes is the number of lanes, where the
    placement lets one choose.

    Where the placement there is post, pre or none, the result is the one above. For any other of one lane,
    these keys stand beside it: "placement", "layer", "layers", "sublayer", "skip", "gain", "norms" (of
    "before", "inside" and "after", and of "entry" in the first sublayer of a stream that begins with a norm:
    "x" is then its output), "h", what F sees, "f" and "u". Of several:
    "lanes" X, "read" a, "carry" A, "write" b, "read_from", what a reads, "z" = a·X, "norms", "h", "branch",
    "f", "u", "carried" A·X, "written" b ⊗ u, "sum" and "output" X′.
    """
    return _read(_core.trace(norm.fields, _lanes(x), _numbers(branch), _numbers(gamma), _numbers(beta),
                             placement, _count("layers", layers), _asked("layer", layer), sublayer or "",
                             _asked("lanes", lanes)))


def reproduce(seed: int = 0) -> dict[str, Any]:
    """PyTorch's numbers for a seed, without PyTorch: {"seed", "layer_norm", "block"}."""
    return _read(_core.reproduce(_count("seed", seed)))


def figures() -> dict[str, Any]:
    """What figure() can run: {"figures": […], "bugs": […]}, each with its name, what it asks or means,
    and a figure's options with their defaults."""
    return _read(_core.figures())


def figure(name: str, *, text: str = "", **options: Any) -> dict[str, Any]:
    """Measures one figure of figures() and compares it with the prediction of theory.

    options are some of those that figures() lists for the figure: layers (a number or several), width,
    seeds, seed, placements; and bug, which is put into the measured network, not into the prediction. What
    is left out is the figure's own. text is what a figure that trains is trained on, at least 4096 bytes.

    Returns {"figure", "title", "question", "source", "options", "setting", "panels", "checks", "verdict"}: the
    "setting" is the options in words; a panel has a "caption", "measured" and "predicted" curves, or "maps", heat maps with "name" and "rows"; a verdict is
    "inside", "outside" or "not applicable". Error for names that are unknown and options that the figure
    does not take. Ctrl+C waits for its end, which takes a minute where models are trained.
    """
    if "layers" in options and not isinstance(options["layers"], Iterable):
        options["layers"] = [options["layers"]]
    return _read(_core.figure(name, _json(options), text))


def study(text: str, *, placements: Iterable[str] = ("plain", "none", "post", "pre"), seeds: int = 3,
          progress: Callable[[int, int], object] | None = None, **settings: Any) -> dict[str, Any]:
    """Trains small decoders over the bytes of `text` that differ only in their residual connections and
    norms, with and without warm-up, and measures signal and gradient by layer.

    settings are the flags of `addnorm study`, with _ for -: norm, eps, layers, width, heads, ff,
    activation, head, init, context, dropout, batch, accumulate, steps, lr, warm_up, decay, last_lr,
    weight_decay, beta1, beta2, clip, seed. Their defaults are the program's. progress(done, all) is called
    after every step, from any of the threads that train, one at a time; an exception in it ends the study,
    and so does Ctrl-C.

    Returns {"options", "text_bytes", "unigram_loss", "placements", "claims", "runs"}. Error for settings
    that are unknown or make no model, placements that are unknown and a text that is too short.
    """
    named = {name.replace("_", "-"): value for name, value in settings.items()}
    return _read(_core.study(text, list(placements), _count("seeds", seeds),
                             _json(named), progress))
