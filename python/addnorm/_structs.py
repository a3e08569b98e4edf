"""The structs of addnorm.h, in the notation of Python's struct module, whose native mode aligns as C does.

A library reads them from the bytes that `pack` returns. `struct_kernels.py` of addnorm.torch packs the addresses of
tensors.
"""

from __future__ import annotations

import ctypes
import functools
import json
import struct
from typing import Any, Optional

from ._library import call
from .norm_options import NormFields

DTYPES = {"float32": 0, "float64": 1, "bfloat16": 2, "float16": 3}  # addnorm_dtype
MIXED_DTYPES = {("float32", "bfloat16"): 4, ("float32", "float16"): 5}  # of the stream and the branch
OVERWRITE = 1  # ADDNORM_GRADIENT_OVERWRITE

NORM = struct.Struct("NiiiiddNd")
_RESIDUAL, _LANES = "PNPNPNPNdQQ", "NNNNPNPNPNPNPNdQQ"
ADD_NORM_FORWARD = struct.Struct(f"NiNNP{_RESIDUAL}PNPPPNPNNPNiPP")
ADD_NORM_BACKWARD = struct.Struct("NiiNNPPNPPPNPNPNPNPPPNNNiPPPP")
LANES_FORWARD = struct.Struct(f"NiNN{_LANES}PNPPPPNPN")
LANES_BACKWARD = struct.Struct(f"NiiNN{_LANES}PPPPNPNPNPNPPPPPPNN")


@functools.lru_cache(maxsize=1)
def _numbers() -> Any:
    """Returns the numbers of the names in a norm's fields."""
    names = json.loads(call("norm_names"))
    return {field: {name: number for number, name in enumerate(of_field)} for field, of_field in names.items()}


@functools.lru_cache(maxsize=None)
def _packed_norm(fields: NormFields) -> Any:
    kind, eps, eps_at, variance, gamma_form, scale = fields
    call("check_norm", (kind, 0.0, eps_at, variance, gamma_form, 1.0))
    of = _numbers()
    return ctypes.create_string_buffer(
        NORM.pack(NORM.size, of["kind"][kind], of["eps_at"][eps_at], of["variance"][variance],
                  of["gamma_form"][gamma_form], eps, scale, 0, 0.0), NORM.size)


def norm_address(fields: Optional[NormFields]) -> int:
    """Returns the address of addnorm_norm_options, which stays valid, or 0."""
    return 0 if fields is None else ctypes.addressof(_packed_norm(fields))
