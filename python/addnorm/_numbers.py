"""Numbers on devices, transferred to the host together."""

from __future__ import annotations

import struct

import torch
from torch import Tensor

from .probe.fit.batch import to_host


class Numbers:
    """Numbers that are read with one transfer from each device."""

    def __init__(self) -> None:
        self._tensors: list[Tensor] = []
        self._is_float: list[bool] = []

    def add(self, number: Tensor) -> int:
        """Adds a tensor with one number, and returns its index in read(). Floats are rounded to float32."""
        flat = number.detach().reshape(1)
        self._is_float.append(flat.is_floating_point())
        self._tensors.append(flat.float().view(torch.int32).long() if flat.is_floating_point() else flat.long())
        return len(self._tensors) - 1

    def read(self) -> list[float]:
        """Returns the numbers in the order of add()."""
        return [struct.unpack("f", struct.pack("i", v))[0] if is_float else v
                for (v,), is_float in zip(to_host(self._tensors), self._is_float)]
