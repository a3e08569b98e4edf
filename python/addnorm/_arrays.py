"""Passes arrays to the library without copies: NumPy's arrays, PyTorch's tensors, and objects with `__dlpack__`.
python/array.cc reads them."""

from __future__ import annotations

import ctypes
import functools
import sys
from typing import Any, List, Optional, Tuple

from ._library import Error

Given = Tuple[int, Optional[int]]  # Given in python/array.h: a kind, and an address

_NONE, _NUMPY, _DLPACK, _NUMBER = range(4)
NONE: Given = _NONE, 0
_TYPES = "must be float32, float64, float16 or bfloat16"
_OF_NUMPY = {"f": "float32", "d": "float64", "e": "float16"}
_OF_TORCH = "torch.float32", "torch.float64", "torch.float16", "torch.bfloat16"


@functools.lru_cache(maxsize=1)
def _capsule_functions() -> Tuple[Any, Any]:
    """Returns PyCapsule_IsValid and PyCapsule_GetPointer of Python's C interface."""
    arguments = ctypes.py_object, ctypes.c_char_p
    return (ctypes.PYFUNCTYPE(ctypes.c_int, *arguments)(("PyCapsule_IsValid", ctypes.pythonapi)),
            ctypes.PYFUNCTYPE(ctypes.c_void_p, *arguments)(("PyCapsule_GetPointer", ctypes.pythonapi)))


def _of_dlpack(name: str, capsule: Any) -> Any:
    """Returns the address in a capsule. It is not consumed, so its own destructor releases the memory. Its name says
    the layout: DLPack 1.0 has another struct under another name."""
    is_valid, get_pointer = _capsule_functions()
    if type(capsule).__name__ != "PyCapsule" or not is_valid(capsule, b"dltensor"):
        raise TypeError(f"{name} has no DLPack tensor")
    return get_pointer(capsule, b"dltensor")


def _of_numpy(name: str, array: Any) -> Any:
    dtype = array.dtype
    if dtype.char not in _OF_NUMPY or not dtype.isnative:
        raise TypeError(f"{name} has the type {dtype}, {_TYPES}")
    return array.__array_struct__


def given(kept: List[Any], name: str, array: Any) -> Given:
    """Describes an array, a number or None for the library. `kept` keeps the memory.

    Raises TypeError for other objects, and for an array of NumPy of an unsupported type.
    """
    if array is None:
        return NONE
    numpy = sys.modules.get("numpy")  # imported lazily: it is optional
    if numpy is not None and isinstance(array, numpy.ndarray):
        interface = _of_numpy(name, array)
        kept.append(interface)
        return _NUMPY, _capsule_functions()[1](interface, None)
    if isinstance(array, (float, int)):
        number = ctypes.c_double(array)
        kept.append(number)
        return _NUMBER, ctypes.addressof(number)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor) and array.is_neg():
        raise Error(f"{name} is a view that negates its memory; pass {name}.resolve_neg()")
    capsule = array
    if type(array).__name__ != "PyCapsule":
        if not hasattr(array, "__dlpack__"):
            raise TypeError(f"{name} is a {type(array).__name__}, must be a NumPy array or have __dlpack__")
        capsule = array.__dlpack__()
    kept.append(capsule)
    return _DLPACK, _of_dlpack(name, capsule)


# ---- Shapes and types ------------------------------------------------------------------------


class _DlTensor(ctypes.Structure):
    """DLPack's tensor in the memory layout of its version 0, the result of `__dlpack__`."""

    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device", ctypes.c_int32),
                ("axes", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


_CPU, _FLOAT, _BFLOAT = 1, 2, 4
_OF_DLPACK = {(_FLOAT, 64): "float64", (_FLOAT, 32): "float32", (_FLOAT, 16): "float16", (_BFLOAT, 16): "bfloat16"}


def describe(name: str, array: Any) -> Tuple[Tuple[int, ...], str]:
    """Returns the shape and the type of an array. Raises TypeError for an unsupported type, and Error for memory that
    is not the CPU's."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and isinstance(array, numpy.ndarray):
        _of_numpy(name, array)
        return array.shape, _OF_NUMPY[array.dtype.char]
    if torch is not None and type(array) is torch.Tensor and array.device.type == "cpu":
        of_torch = str(array.dtype)
        if of_torch in _OF_TORCH:
            return tuple(array.shape), of_torch[len("torch."):]
    kept: List[Any] = []
    kind, address = given(kept, name, array)
    if kind != _DLPACK or address is None:
        kind_of = "None" if array is None else "a number"
        raise TypeError(f"{name} is {kind_of}, must be a NumPy array or have __dlpack__")
    tensor = _DlTensor.from_address(address)
    if tensor.device_type != _CPU:
        raise Error(f"{name} is on DLPack's device {tensor.device_type}, must be on the CPU")
    dtype = _OF_DLPACK.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if dtype is None:
        raise TypeError(f"{name} has DLPack's type ({tensor.code}, {tensor.bits} bits, {tensor.lanes} lanes), {_TYPES}")
    return tuple(tensor.shape[:tensor.axes]), dtype


def as_bfloat16(capsule: Any) -> Any:
    """Changes the type in a DLPack capsule from uint16 to bfloat16."""
    _DlTensor.from_address(_of_dlpack("bits", capsule)).code = _BFLOAT
    return capsule
