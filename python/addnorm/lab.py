"""The lab as plain data: measurements that test the claims about residual connections and norms.

Each function returns the JSON document of the program's command of the same name: dicts, lists, strings and numbers.
None stands for a value that is absent, infinite or NaN.
"""

from __future__ import annotations

import json
import math
import operator
from typing import Any, Callable, Iterable, Literal, Sequence

from . import _core
from .norm_options import Norm


def _read(document: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(document)
    return data


def _json(options: dict[str, Any]) -> str:
    """Converts options to JSON. NumPy's numbers and iterables become numbers and lists; None values are left out."""
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
    """Returns a count of at least 1, or 0 if none was given."""
    count = 0 if value is None else _count(name, value)
    if count == 0 and value is not None:
        raise _core.Error(f"{name} is 0, must be at least 1")
    return count


def _numbers(values: float | Iterable[float]) -> list[float]:
    row: Any = values
    return [float(value) for value in (row if _is_row(row) else [row])]


def _lanes(x: Iterable[Any]) -> list[list[float]]:
    """Returns the rows of x if it has several lanes, else x as the only row."""
    rows = list(x)
    if rows and all(_is_row(row) for row in rows):
        return [_numbers(row) for row in rows]
    return [_numbers(rows)]


def _is_row(values: Any) -> bool:
    """Whether values is a row. Elements of a tensor are tensors without dimensions that claim to be iterable."""
    return isinstance(values, Iterable) and getattr(values, "ndim", 1) > 0


def trace(x: Sequence[float] | Sequence[Sequence[float]], branch: Sequence[float] = (),
          gamma: float | Sequence[float] = (), beta: float | Sequence[float] = (), norm: Norm = Norm(), *,
          placement: str = "post", layers: int = 12, layer: int | None = None,
          sublayer: Literal["attention", "feed_forward"] | None = None,
          lanes: int | None = None) -> dict[str, Any]:
    """Computes Add & Norm of one token, step by step, in float64.

    x is the token's features and branch the output of the sublayer, with the same length; an empty branch gives the
    norm of x alone. gamma and beta are one number or one per feature. placement is "post" for norm(x + F(x)), "pre" for
    x + F(norm(x)) or "none" for x + F(x).

    Returns {"x", "branch", "sum", "mean", "variance", "deviation", "normalized", "output"}. Raises Error if
    the numbers of features differ.

    placement may also be any other that `addnorm placements` lists, or a combination such as "post:3+pre". x is then
    the embedding, from which a stream of several lanes starts, or the lanes themselves, one row each. The parameters
    have their initial values. These may depend on the position of the sublayer: layer, from 1, of layers; the default
    is the first of one. lanes is the number of lanes, if the placement leaves it free.

    If the placement at that position is post, pre or none, the result is as above. For other placements with one lane,
    the result also has "placement", "layer", "layers", "sublayer", "skip", "gain", "norms", "h", the input of F, "f"
    and "u". "norms" has the norms "before", "inside" and "after". In the first sublayer of a stream that begins with a
    norm it also has "entry", whose output is "x". With several lanes, the result has "lanes" X, "read" a, "carry" A,
    "write" b, "read_from", the lanes that a reads, "z" = a·X, "norms", "h", "branch", "f", "u", "carried" A·X,
    "written" b ⊗ u, "sum" and "output" X′.
    """
    return _read(_core.trace(norm.fields, _lanes(x), _numbers(branch), _numbers(gamma), _numbers(beta),
                             placement, _count("layers", layers), _asked("layer", layer), sublayer or "",
                             _asked("lanes", lanes)))


def reproduce(seed: int = 0) -> dict[str, Any]:
    """Computes PyTorch's numbers for a seed without PyTorch: {"seed", "layer_norm", "block"}."""
    return _read(_core.reproduce(_count("seed", seed)))


def figures() -> dict[str, Any]:
    """Returns the figures and bugs that figure() accepts: {"figures": […], "bugs": […]}. Each has its name and its
    question or meaning; a figure also has its options with their defaults."""
    return _read(_core.figures())


def figure(name: str, *, text: str = "", **options: Any) -> dict[str, Any]:
    """Measures one figure of figures() and compares it with the theoretical prediction.

    options are those that figures() lists for the figure: layers (a number or several), width, seeds, seed, placements;
    and bug, which changes the measured network but not the prediction. Omitted options have the figure's defaults. text
    is the training text of a figure that trains, at least 4096 bytes.

    Returns {"figure", "title", "question", "source", "options", "setting", "panels", "checks", "verdict"}.
    "setting" describes the options in words. A panel has a "caption" and "measured" and "predicted" curves, or
    "maps": heat maps with "name" and "rows". A verdict is "inside", "outside" or "not applicable". Raises Error for
    unknown names and for options that the figure does not have. Ctrl+C takes effect only at the end, which is a
    minute for models that are trained.
    """
    if "layers" in options and not isinstance(options["layers"], Iterable):
        options["layers"] = [options["layers"]]
    return _read(_core.figure(name, _json(options), text))


def study(text: str, *, placements: Iterable[str] = ("plain", "none", "post", "pre"), seeds: int = 3,
          progress: Callable[[int, int], object] | None = None, **settings: Any) -> dict[str, Any]:
    """Trains small decoders over the bytes of `text`, which differ only in their residual connections and norms, with
    and without warm-up. Measures signal and gradient by layer.

    settings are the flags of `addnorm study`, with _ for -: norm, eps, layers, width, heads, ff, activation, head,
    init, context, dropout, batch, accumulate, steps, lr, warm_up, decay, last_lr, weight_decay, beta1, beta2, clip,
    seed. Their defaults are the program's. progress(done, all) is called after every step. The training threads call
    it, one at a time. An exception in it or Ctrl+C ends the study.

    Returns {"options", "text_bytes", "unigram_loss", "placements", "claims", "runs"}. Raises Error for settings that
    are unknown or give no valid model, for unknown placements and for a text that is too short.
    """
    named = {name.replace("_", "-"): value for name, value in settings.items()}
    return _read(_core.study(text, list(placements), _count("seeds", seeds),
                             _json(named), progress))
