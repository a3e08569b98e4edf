"""The kernels of addnorm for NVIDIA GPUs, as one shared library with the C interface of addnorm_cuda.h.

    library = ctypes.CDLL(str(addnorm_cuda.library()))
    library.addnorm_cuda_last_error.restype = ctypes.c_char_p
    if library.addnorm_cuda_supports(0, ctypes.c_size_t(4096), ctypes.c_size_t(0)):
        print(library.addnorm_cuda_last_error().decode())
"""

import pathlib

__all__ = ["library"]


def library() -> pathlib.Path:
    """Returns the path of the shared library. It needs no other library of CUDA than the driver's."""
    return pathlib.Path(__file__).with_name("libaddnorm_cuda.so")
