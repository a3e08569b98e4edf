"""Loads the shared library and calls its functions of text. `_kernels` calls the kernels, which are those of
addnorm.h."""

from __future__ import annotations

import ctypes
import json
import pathlib
from typing import Any, Callable, List, Optional

FILE = pathlib.Path(__file__).with_name("libaddnorm_python.so")


class Error(ValueError):
    """An invalid value. The message names the argument, its value and what is expected."""


Error.__module__ = "addnorm"

try:
    library = ctypes.CDLL(str(FILE))
except OSError as error:
    from ._unloadable import explain
    raise ImportError(explain(FILE, error)) from error

_Progress = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_size_t, ctypes.c_size_t)
library.addnorm_python_call.argtypes = (ctypes.c_char_p, ctypes.c_char_p, _Progress, ctypes.POINTER(ctypes.c_void_p))
library.addnorm_python_free.argtypes = (ctypes.c_void_p,)
library.addnorm_python_last_message.restype = ctypes.c_char_p
library.addnorm_version.restype = ctypes.c_char_p

_OK, _ERROR, _TYPE_ERROR, _OUT_OF_MEMORY, _OTHER = range(5)  # Status in python/call.h
_EXCEPTIONS = {_ERROR: Error, _TYPE_ERROR: TypeError, _OTHER: RuntimeError}


def check_status(status: int) -> None:
    """Raises the error of this thread's last call of a kernel."""
    if status == _OUT_OF_MEMORY:
        raise MemoryError
    if status != _OK:
        raise _EXCEPTIONS[status](library.addnorm_python_last_message().decode())


def call(name: str, *arguments: Any, progress: Optional[Callable[[int, int], object]] = None) -> str:
    """Calls a function of python/*.cc with these arguments, and returns its text. An exception in `progress` stops the
    function, and is raised here.

    Raises Error for an invalid argument, and RuntimeError for a bug in the library.
    """
    raised: List[BaseException] = []

    def on_progress(done: int, all: int) -> int:
        try:
            if not raised and progress is not None:
                progress(done, all)
        except BaseException as error:  # KeyboardInterrupt too
            raised.append(error)
        return len(raised)

    result = ctypes.c_void_p()
    status = library.addnorm_python_call(name.encode(), json.dumps({"arguments": arguments}, ensure_ascii=False).encode(), _Progress(on_progress),
                                         ctypes.byref(result))
    try:
        if raised:
            raise raised[0]
        if status == _OUT_OF_MEMORY:
            raise MemoryError
        text = ctypes.string_at(result.value or 0).decode(errors="surrogateescape")
    finally:
        library.addnorm_python_free(result)
    if status != _OK:
        raise _EXCEPTIONS[status](text)
    return text
