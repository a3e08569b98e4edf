"""The functions of python/norms.cc, on arrays, numbers and None. array_functions.py documents them."""

from __future__ import annotations

import ctypes
import functools
import struct
from typing import Any, List, Optional, Tuple

from ._arrays import NONE, as_bfloat16, describe, given
from ._library import call, check_status, library
from ._structs import NORM, norm_address
from .norm_options import NormFields

__all__ = ["add_norm", "add_norm_backward", "as_bfloat16", "describe", "lanes", "lanes_backward", "residual_add",
           "residual_add_backward", "squash", "squash_backward"]

Dropout = Tuple[float, int, int]  # probability, seed, offset
NO_DROPOUT = 0.0, 0, 0

# The structs of python/norms.cc, in the notation of Python's struct module, whose native mode aligns as C does.
_RESIDUAL, _LANES = "qP" * 4 + "dQQ", "qP" * 5 + "dQQN"
_RESIDUAL_ADD = struct.Struct(_RESIDUAL + "qP")
_RESIDUAL_ADD_BACKWARD = struct.Struct(_RESIDUAL + "qP" * 4)
_ADD_NORM = struct.Struct("PN" + _RESIDUAL + "qP" * 7)
_ADD_NORM_BACKWARD = struct.Struct("PN" + "qP" * 13)
_LANES_FORWARD = struct.Struct("P" + _LANES + "qP" * 5)
_LANES_BACKWARD = struct.Struct("P" + _LANES + "qP" * 11)

for _name in ("residual_add", "residual_add_backward", "add_norm", "add_norm_backward", "lanes", "lanes_backward"):
    getattr(library, f"addnorm_python_{_name}").argtypes = (ctypes.c_char_p,)


@functools.lru_cache(maxsize=None)
def _squashing(kind: str) -> Any:
    number = int(call("squashing_kind", kind))
    return ctypes.create_string_buffer(NORM.pack(NORM.size, number, 0, 0, 0, 1e-5, 0.0, 0, 0.0), NORM.size)


def residual_add(x: Any, branch: Any, skip: Any, gain: Any, dropout: Dropout, out: Any) -> None:
    kept: List[Any] = []
    check_status(library.addnorm_python_residual_add(_RESIDUAL_ADD.pack(
        *given(kept, "x", x), *given(kept, "branch", branch), *given(kept, "skip", skip), *given(kept, "gain", gain),
        *dropout, *given(kept, "out", out))))


def residual_add_backward(d_sum: Any, x: Any, branch: Any, skip: Any, gain: Any, dropout: Dropout, d_branch: Any,
                          d_skip: Any, d_gain: Any) -> None:
    kept: List[Any] = []
    check_status(library.addnorm_python_residual_add_backward(_RESIDUAL_ADD_BACKWARD.pack(
        *given(kept, "x", x), *given(kept, "branch", branch), *given(kept, "skip", skip), *given(kept, "gain", gain),
        *dropout, *given(kept, "d_sum", d_sum), *given(kept, "d_branch", d_branch), *given(kept, "d_skip", d_skip),
        *given(kept, "d_gain", d_gain))))


def add_norm(norm: NormFields, x: Any, branch: Any, skip: Any, gain: Any, dropout: Dropout, gamma: Any, beta: Any,
             sum: Any, out: Any, statistics: Any, threads: int) -> None:
    kept: List[Any] = []
    check_status(library.addnorm_python_add_norm(_ADD_NORM.pack(
        norm_address(norm), threads, *given(kept, "x", x), *given(kept, "branch", branch), *given(kept, "skip", skip),
        *given(kept, "gain", gain), *dropout, *given(kept, "gamma", gamma), *given(kept, "beta", beta), *NONE, *NONE,
        *given(kept, "sum", sum), *given(kept, "out", out), *given(kept, "statistics", statistics))))


def add_norm_backward(norm: NormFields, dy: Any, s: Any, statistics: Any, gamma: Any, d_residual: Any, skip: Any,
                      dx: Any, d_gamma: Any, d_beta: Any, threads: int) -> None:
    kept: List[Any] = []
    check_status(library.addnorm_python_add_norm_backward(_ADD_NORM_BACKWARD.pack(
        norm_address(norm), threads, *given(kept, "dy", dy), *given(kept, "s", s), *given(kept, "statistics", statistics),
        *given(kept, "gamma", gamma), *NONE, *NONE, *given(kept, "d_residual", d_residual),
        *given(kept, "skip", skip), *given(kept, "dx", dx), *given(kept, "d_gamma", d_gamma),
        *given(kept, "d_beta", d_beta), *NONE, *NONE)))


def squash(kind: str, x: Any, alpha: Any, shift: Any, gamma: Any, beta: Any, out: Any, threads: int) -> None:
    kept: List[Any] = []
    check_status(library.addnorm_python_add_norm(_ADD_NORM.pack(
        ctypes.addressof(_squashing(kind)), threads, *given(kept, "x", x), *NONE, *NONE, *NONE, *NO_DROPOUT,
        *given(kept, "gamma", gamma), *given(kept, "beta", beta), *given(kept, "alpha", alpha),
        *given(kept, "shift", shift), *NONE, *given(kept, "out", out), *NONE)))


def squash_backward(kind: str, dy: Any, x: Any, alpha: Any, shift: Any, gamma: Any, dx: Any, d_gamma: Any,
                    d_beta: Any, d_alpha: Any, d_shift: Any, threads: int) -> None:
    kept: List[Any] = []
    check_status(library.addnorm_python_add_norm_backward(_ADD_NORM_BACKWARD.pack(
        ctypes.addressof(_squashing(kind)), threads, *given(kept, "dy", dy), *given(kept, "x", x), *NONE,
        *given(kept, "gamma", gamma), *given(kept, "alpha", alpha), *given(kept, "shift", shift), *NONE, *NONE,
        *given(kept, "dx", dx), *given(kept, "d_gamma", d_gamma), *given(kept, "d_beta", d_beta),
        *given(kept, "d_alpha", d_alpha), *given(kept, "d_shift", d_shift))))


def lanes(norm: Optional[NormFields], x: Any, branch: Any, carry: Any, write: Any, read: Any, dropout: Dropout,
          gamma: Any, beta: Any, made: int, sum: Any, out: Any, statistics: Any) -> None:
    kept: List[Any] = []
    check_status(library.addnorm_python_lanes(_LANES_FORWARD.pack(
        norm_address(norm), *given(kept, "x", x), *given(kept, "branch", branch), *given(kept, "carry", carry),
        *given(kept, "write", write), *given(kept, "read", read), *dropout, made, *given(kept, "gamma", gamma),
        *given(kept, "beta", beta), *given(kept, "sum", sum), *given(kept, "out", out),
        *given(kept, "statistics", statistics))))


def lanes_backward(norm: Optional[NormFields], d_sum: Any, dy: Any, x: Any, branch: Any, carry: Any, write: Any,
                   read: Any, statistics: Any, dropout: Dropout, gamma: Any, made: int, dx: Any, d_branch: Any,
                   d_carry: Any, d_write: Any, d_read: Any, d_gamma: Any, d_beta: Any) -> None:
    kept: List[Any] = []
    check_status(library.addnorm_python_lanes_backward(_LANES_BACKWARD.pack(
        norm_address(norm), *given(kept, "x", x), *given(kept, "branch", branch), *given(kept, "carry", carry),
        *given(kept, "write", write), *given(kept, "read", read), *dropout, made, *given(kept, "d_sum", d_sum),
        *given(kept, "dy", dy), *given(kept, "statistics", statistics), *given(kept, "gamma", gamma),
        *given(kept, "dx", dx), *given(kept, "d_branch", d_branch), *given(kept, "d_carry", d_carry),
        *given(kept, "d_write", d_write), *given(kept, "d_read", d_read), *given(kept, "d_gamma", d_gamma),
        *given(kept, "d_beta", d_beta))))
