"""bfloat16 numbers beside NumPy's types."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _kernels


class BFloat16:
    """bfloat16 numbers in the memory of NumPy, which lacks this type.

    bits is a uint16 array of the upper halves of float32 numbers. It is not copied.
    `torch.from_dlpack` converts a BFloat16 to a tensor, and every function here accepts it as an
    array. Raises TypeError if bits is not a uint16 array.
    """

    def __init__(self, bits: np.ndarray[Any, Any]) -> None:
        if not isinstance(bits, np.ndarray) or bits.dtype != np.uint16:
            raise TypeError("bits must be a NumPy array of uint16")
        self.bits = bits

    def __dlpack__(self, stream: None = None) -> Any:
        return _kernels.as_bfloat16(self.bits.__dlpack__())

    def __dlpack_device__(self) -> Any:
        return self.bits.__dlpack_device__()
