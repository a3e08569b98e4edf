"""Norms and Add & Norm on arrays. The package's docstring defines the arrays."""

from __future__ import annotations

import numbers
from typing import Any, Literal, NamedTuple, Protocol, Union, overload

import numpy as np

from . import _kernels
from ._library import Error
from ._results import dense, mark_written, new, new_like, new_statistics, per_feature, values_type
from .bfloat16 import BFloat16 as BFloat16
from .norm_options import Norm, NormFields


class SupportsDLPack(Protocol):
    def __dlpack__(self) -> Any: ...
    def __dlpack_device__(self) -> Any: ...


NumPyArray = np.ndarray[Any, Any]
Array = Union[NumPyArray, SupportsDLPack]
Factor = Union[float, Array, None]
# A tensor or BFloat16 if the corresponding argument is one, a NumPy array otherwise, or the given output.
Result = Any
Dropout = tuple[float, int, int]


LaneNorm = Union[Norm, Literal["layer", "rms"], None]


class AddNorm(NamedTuple):
    """The result of add_norm. The statistics are for add_norm_backward."""

    y: Result
    sum: Result
    statistics: Result


def _fields(norm: Norm) -> NormFields:
    if not isinstance(norm, Norm):
        raise TypeError(f"norm is {norm!r}, must be an addnorm.Norm")
    return norm.fields


def _dropout(probability: float, seed: int, offset: int) -> Dropout:
    if not isinstance(probability, numbers.Real):
        raise TypeError(f"dropout is {probability!r}, must be a number")
    for name, value in (("seed", seed), ("offset", offset)):
        if not isinstance(value, (int, np.integer)) or not 0 <= value < 2**64:
            raise Error(f"{name} is {value!r}, must be an integer from 0 to 2**64 - 1")
    return float(probability), int(seed), int(offset)


def add_norm(x: Array, branch: Array | None, gamma: Array | None = None, beta: Array | None = None,
             norm: Norm = Norm(), *, skip: Factor = None, gain: Factor = None,
             dropout: float = 0.0, seed: int = 0, offset: int = 0, sum: Array | None = None,
             out: Array | None = None) -> AddNorm:
    """Computes s = skip ⊙ x + gain ⊙ dropout(branch) and y = norm(s), in one pass over memory.

    x            (…, features), the residual stream
    branch       the same shape; None: s = skip ⊙ x. Of x's type, or bfloat16 or float16 if x is float32
    gamma, beta  (features,), with any stride; None: 1 and 0
    skip, gain   a number, (1,) or (features,); None: 1
    dropout      the probability that a value of the branch becomes 0; the others are divided by 1 − dropout.
                 The mask is a function of (seed, offset + row·features + column)
    sum          output for s, of x's shape and type; may be x or branch; None: a new array
    out          output for y, of x's shape and branch's type; may be x or branch, but not sum

    Returns y, s and the statistics, (…, 6) in float32 or float64, for add_norm_backward. Raises Error for invalid
    shapes, gaps, and read-only or overlapping memory; TypeError for invalid types and devices.
    """
    statistics, given = new_statistics(x), (sum, out)
    if sum is None:
        sum = new_like("x", x)
    if out is None:
        out = new_like("branch", x if branch is None else branch)
    _kernels.add_norm(_fields(norm), x, branch, dense(skip), dense(gain), _dropout(dropout, seed, offset),
                      dense(gamma), dense(beta), sum, out, statistics, 0)
    mark_written(*given)
    return AddNorm(out, sum, statistics)


def add_norm_backward(dy: Array, s: Array, statistics: Array, gamma: Array | None = None,
                      norm: Norm = Norm(), *, d_residual: Array | None = None, skip: Factor = None,
                      dx: Array | None = None) -> tuple[Result, Result, Result]:
    """Computes dx = skip ⊙ d_residual + dnorm(dy), and the gradients of γ and β.

     dnorm = (g − mean(g) − x̂·mean(g·x̂))/deviation with g = γ·dy (Xu et al. 2019, eq. 3–5)

    dy           (…, features), the gradient of y, of y's type
    s            the normalized sum; statistics, gamma, norm: as in add_norm
    d_residual   the gradient that reaches s past the norm, of s's shape and type; None: none
    skip         the factor of s on that path: a number, (1,) or (features,); None: 1
    dx           output, of s's shape and type; may be s, dy or d_residual; None: a new array

    Returns dx, which is the gradient of s, and the gradients of γ, Σ dy·x̂, and β, Σ dy, over rows: (features,) in
    float32 or float64. The gradient of the branch equals dx without gain and dropout; otherwise use
    residual_add_backward. Errors as in add_norm.
    """
    d_gamma, d_beta, given = per_feature("s", s), per_feature("s", s), dx
    if dx is None:
        dx = new_like("s", s)
    _kernels.add_norm_backward(_fields(norm), dy, s, statistics, dense(gamma), d_residual, dense(skip), dx,
                               d_gamma, d_beta, 0)
    mark_written(given)
    return dx, d_gamma, d_beta


def residual_add(x: Array, branch: Array | None, *, skip: Factor = None, gain: Factor = None,
                 dropout: float = 0.0, seed: int = 0, offset: int = 0,
                 out: Array | None = None) -> Result:
    """Computes s = skip ⊙ x + gain ⊙ dropout(branch): add_norm without a norm. Arguments and errors are the same.

    out: output for s, of x's shape and type; may be x or branch; None: a new array.
    """
    given = out
    if out is None:
        out = new_like("x", x)
    _kernels.residual_add(x, branch, dense(skip), dense(gain), _dropout(dropout, seed, offset), out)
    mark_written(given)
    return out


def residual_add_backward(d_sum: Array, x: Array, branch: Array, *, skip: Factor = None,
                          gain: Factor = None, dropout: float = 0.0, seed: int = 0, offset: int = 0,
                          d_branch: Array | None = None) -> tuple[Result, Result, Result]:
    """Computes the gradients of the branch and of the factors of residual_add and add_norm.

     d_branch = gain ⊙ mask ⊙ d_sum, d_skip = Σ x ⊙ d_sum, d_gain = Σ dropout(branch) ⊙ d_sum

    d_sum is the gradient of s, of x's shape and type. d_branch is the output for the branch's gradient, of the branch's
    shape and type; None: a new array. The other arguments and the errors are those of add_norm.

    Returns d_branch, d_skip and d_gain; the last two are (features,) in float32 or float64. The gradient of a single
    factor is their sum. The gradient of x is skip ⊙ d_sum: residual_add(d_sum, None, skip=skip).
    """
    d_skip, d_gain = per_feature("x", x), per_feature("x", x)
    d_skip[...] = d_gain[...] = 0
    given = d_branch
    if d_branch is None:
        d_branch = new_like("branch", branch)
    _kernels.residual_add_backward(d_sum, x, branch, dense(skip), dense(gain), _dropout(dropout, seed, offset),
                                   d_branch, d_skip, d_gain)
    mark_written(given)
    return d_branch, d_skip, d_gain


class Lanes(NamedTuple):
    """The result of lanes. The statistics are for lanes_backward. Parts that were not requested are None."""

    sum: Result
    y: Result
    statistics: Result | None


class LanesGradients(NamedTuple):
    """The result of lanes_backward. The gradients of absent arguments are None."""

    dx: Result
    d_branch: Result
    d_carry: Result | None
    d_write: Result | None
    d_read: Result | None
    d_gamma: Result | None
    d_beta: Result | None


def _lane_norm(norm: LaneNorm, eps: float) -> NormFields | None:
    if norm is None:
        return None
    return _fields(Norm(norm, eps) if isinstance(norm, str) else norm)


def _made_lanes(x: Array, carry: Array | None) -> int:
    """Returns the number of lanes of X′."""
    name, array = ("x", x) if carry is None else ("carry", carry)
    shape, _ = _kernels.describe(name, array)
    if len(shape) < 2:
        raise Error(f"{name} has the shape {shape}, must have two axes or more")
    return shape[-2]


def lanes(x: Array, branch: Array | None, carry: Array | None, write: Array | None,
          read: Array | None = None, *, norm: LaneNorm = None, gamma: Array | None = None,
          beta: Array | None = None, eps: float = 1e-5, dropout: float = 0.0, seed: int = 0,
          offset: int = 0, sum: Array | None = None, out: Array | None = None) -> Lanes:
    """Computes X′ = A·X + b ⊗ dropout(f) and y = norm(a·X′), in one pass over memory. This leads from one sublayer's
    output to the next one's input in a residual stream of n lanes (Zhu et al. 2024, eq. 1–4; Xie et al. 2025).

    x            (…, n, features), the residual stream
    branch       (…, features), f; None, with write None: nothing is written. Of x's type, or bfloat16 or
                 float16 if x is float32
    carry        (n′, n), A, or one for each row, (…, n′, n); None: X′ = X + b ⊗ f
    write        (n′,), b, or (…, n′)
    read         (n′,), a, or (…, n′); None: no y
    norm         of a·X′: a Norm, or "layer" or "rms" with this eps; None: y = a·X′
    gamma, beta  of the norm, (features,); None: 1 and 0
    dropout      as in add_norm, where a row is a row of branch
    sum          output for X′, (…, n′, features) of x's type; may be x; None: a new array, or x itself
                 without carry and branch
    out          output for y, (…, features) of branch's type; may be branch; None: a new array

    carry, write, read, gamma and beta are float64 if x is, else float32. At most 16 lanes can be mixed. Without carry
    and branch, x is only read and may have any number of lanes.

    Returns X′, y and the statistics of the norm, (…, 6) in float32 or float64, for
    lanes_backward. Errors as in add_norm.
    """
    made, given = _made_lanes(x, carry), (sum, out)
    shape, dtype = _kernels.describe("x", x)
    rows, features = shape[:-2], shape[-1:]
    if read is not None and out is None:
        out_dtype = dtype if branch is None else _kernels.describe("branch", branch)[1]
        out = new(rows + features, out_dtype, x)
    statistics = None if norm is None else new(rows + (6,), values_type(dtype), x)
    mixes = carry is not None or branch is not None or sum is not None
    if mixes and sum is None:
        sum = new(rows + (made,) + features, dtype, x)
    _kernels.lanes(_lane_norm(norm, eps), x, branch, carry, write, read, _dropout(dropout, seed, offset),
                   dense(gamma), dense(beta), made, sum, out, statistics)
    mark_written(*given)
    return Lanes(sum if mixes else x, out, statistics)


def lanes_backward(d_sum: Array | None, dy: Array | None, x: Array, branch: Array | None,
                   carry: Array | None, write: Array | None, read: Array | None = None,
                   statistics: Array | None = None, *, norm: LaneNorm = None,
                   gamma: Array | None = None, eps: float = 1e-5, dropout: float = 0.0,
                   seed: int = 0, offset: int = 0, dx: Array | None = None,
                   d_branch: Array | None = None) -> LanesGradients:
    """Computes the gradients of lanes. With dz the gradient of a·X′, from dy through the norm, and G = d_sum + a ⊗ dz:

     dX = Aᵀ·G, df = mask ⊙ (b·G), dA = G·Xᵀ, db = G·dropout(f), da = X′·dz

    d_sum        (…, n′, features), the gradient of X′, of x's type; None: 0
    dy           (…, features), the gradient of y, of its type; None without a read
    statistics   as returned by lanes; the other arguments are those of lanes
    dx           output for the gradient of x, of its shape and type; may be d_sum; None: a new array
    d_branch     likewise for branch; may be dy

    x must have its values from before lanes, because X′ is computed again. The gradients of carry, write and read have
    the shapes of these, summed over the rows that share them. The gradients of γ and β are (features,), in float32 or
    float64. Errors as in add_norm.
    """
    made, given = _made_lanes(x, carry), (dx, d_branch)
    if dx is None:
        dx = new_like("x", x)
    if branch is not None and d_branch is None:
        d_branch = new_like("branch", branch)

    _, dtype = _kernels.describe("x", x)

    def like(name: str, mix: Array | None) -> Result:
        return None if mix is None else new(_kernels.describe(name, mix)[0], values_type(dtype), x)

    d_carry, d_write, d_read = like("carry", carry), like("write", write), like("read", read)
    d_gamma = None if norm is None else per_feature("x", x)
    d_beta = None if norm is None else per_feature("x", x)
    _kernels.lanes_backward(_lane_norm(norm, eps), d_sum, dy, x, branch, carry, write, read, statistics,
                            _dropout(dropout, seed, offset), dense(gamma), made, dx, d_branch, d_carry, d_write,
                            d_read, d_gamma, d_beta)
    mark_written(*given)
    return LanesGradients(dx, d_branch, d_carry, d_write, d_read, d_gamma, d_beta)


def _norm(x: Array, gamma: Array | None, beta: Array | None, norm: Norm, out: Array | None,
          return_statistics: bool) -> Any:
    y = new_like("x", x) if out is None else out
    statistics = new_statistics(x) if return_statistics else None
    _kernels.add_norm(_fields(norm), x, None, None, None, (0.0, 0, 0), dense(gamma), dense(beta), None, y,
                      statistics, 0)
    mark_written(out)
    return (y, statistics) if return_statistics else y


@overload
def layer_norm(x: Array, gamma: Array | None = None, beta: Array | None = None, *,
               eps: float = ..., out: Array | None = None) -> Result: ...
@overload
def layer_norm(x: Array, gamma: Array | None = None, beta: Array | None = None, *,
               eps: float = ..., out: Array | None = None,
               return_statistics: Literal[True]) -> tuple[Result, NumPyArray]: ...
def layer_norm(x: Array, gamma: Array | None = None, beta: Array | None = None, *,
               eps: float = 1e-5, out: Array | None = None, return_statistics: bool = False) -> Any:
    """Computes y = γ ⊙ (x − mean)/√(variance + ε) + β over the last axis (Ba et al. 2016).

    x            (…, features)
    gamma, beta  (features,); None: 1 and 0
    out          output for y, of x's shape; may be x; None: a new array

    Returns y, or (y, statistics) for layer_norm_backward if return_statistics is set. add_norm has other norms and a
    sum before the norm. Errors as in add_norm.
    """
    return _norm(x, gamma, beta, Norm("layer", eps), out, return_statistics)


def layer_norm_backward(dy: Array, x: Array, statistics: Array, gamma: Array | None = None, *,
                        dx: Array | None = None) -> tuple[Result, Result, Result]:
    """Computes the gradients of layer_norm with respect to x, γ and β: add_norm_backward with s = x."""
    return add_norm_backward(dy, x, statistics, gamma, dx=dx)


@overload
def rms_norm(x: Array, gamma: Array | None = None, *, eps: float = ...,
             out: Array | None = None) -> Result: ...
@overload
def rms_norm(x: Array, gamma: Array | None = None, *, eps: float = ..., out: Array | None = None,
             return_statistics: Literal[True]) -> tuple[Result, NumPyArray]: ...
def rms_norm(x: Array, gamma: Array | None = None, *, eps: float = 1e-5, out: Array | None = None,
             return_statistics: bool = False) -> Any:
    """Computes y = γ ⊙ x/√(mean(x²) + ε) over the last axis (Zhang and Sennrich 2019). Otherwise as layer_norm."""
    return _norm(x, gamma, None, Norm("rms", eps), out, return_statistics)


def rms_norm_backward(dy: Array, x: Array, statistics: Array, gamma: Array | None = None, *,
                      dx: Array | None = None) -> tuple[Result, NumPyArray]:
    """Computes the gradients of rms_norm with respect to x and γ: add_norm_backward with s = x."""
    dx, d_gamma, _ = add_norm_backward(dy, x, statistics, gamma, Norm("rms"), dx=dx)
    return dx, d_gamma


def dyt(x: Array, gamma: Array | None = None, beta: Array | None = None, *, alpha: Factor = 0.5,
        out: Array | None = None) -> Result:
    """Computes y = γ ⊙ tanh(α·x) + β, a replacement for a norm (Zhu et al. 2025, arXiv 2503.10622).

    x            (…, features)
    gamma, beta  (features,); None: 1 and 0
    alpha        a number, or an array of one
    out          output for y, of x's shape; may be x; None: a new array

    Errors as in add_norm.
    """
    return _squash("dyt", x, gamma, beta, alpha, None, out)


def dyt_backward(dy: Array, x: Array, gamma: Array | None = None, *, alpha: Factor = 0.5,
                 dx: Array | None = None) -> tuple[Result, Result, Result, Result]:
    """Computes the gradients of dyt: of x in its shape, of γ and β, (features,), and of α, (1,)."""
    return _squash_backward("dyt", dy, x, gamma, alpha, None, dx)[:4]


def derf(x: Array, gamma: Array | None = None, beta: Array | None = None, *, alpha: Factor = 0.5,
         shift: Factor = 0.0, out: Array | None = None) -> Result:
    """Computes y = γ ⊙ erf(α·x + shift) + β (Chen et al. 2025, arXiv 2512.10938). Otherwise as dyt."""
    return _squash("derf", x, gamma, beta, alpha, shift, out)


def derf_backward(dy: Array, x: Array, gamma: Array | None = None, *, alpha: Factor = 0.5,
                  shift: Factor = 0.0,
                  dx: Array | None = None) -> tuple[Result, Result, Result, Result, Result]:
    """Computes the gradients of derf with respect to x, γ, β, α and shift, with the shapes of dyt_backward."""
    return _squash_backward("derf", dy, x, gamma, alpha, shift, dx)


def _squash(kind: str, x: Array, gamma: Array | None, beta: Array | None, alpha: Factor, shift: Factor,
            out: Array | None) -> Result:
    y = new_like("x", x) if out is None else out
    _kernels.squash(kind, x, alpha, shift, dense(gamma), dense(beta), y, 0)
    mark_written(out)
    return y


def _squash_backward(kind: str, dy: Array, x: Array, gamma: Array | None, alpha: Factor, shift: Factor,
                     dx: Array | None) -> tuple[Result, Result, Result, Result, Result]:
    given = dx
    if dx is None:
        dx = new_like("x", x)
    values = values_type(_kernels.describe("x", x)[1])
    d_gamma, d_beta = per_feature("x", x), per_feature("x", x)
    d_alpha, d_shift = new((1,), values, x), new((1,), values, x)
    _kernels.squash_backward(kind, dy, x, alpha, shift, dense(gamma), dx, d_gamma, d_beta, d_alpha, d_shift, 0)
    mark_written(given)
    return dx, d_gamma, d_beta, d_alpha, d_shift
