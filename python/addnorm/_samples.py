"""Samples of a parameter's values, taken before an optimizer's step and compared after it."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ._numbers import Numbers
from ._sharded import local_part
from ._snapshot import has_memory

_WIDTH = 256

# Half the distance between neighbouring numbers, relative to the value. A smaller change is rounded away.
RESOLUTION = {torch.bfloat16: 2.0**-9, torch.float16: 2.0**-12}


class Compared(NamedTuple):
    """A sample, compared with the values after the step."""
    with_gradient: int  # the number of sampled values with a nonzero gradient
    changed: int  # the number of those that changed
    gradient: float  # the largest absolute value in the whole gradient
    size: float  # the mean absolute value of the sample

    @property
    def is_unchanged(self) -> bool:
        """Whether there is a finite gradient, and no value that has one changed."""
        return self.with_gradient > 0 and self.changed == 0 and 0 < self.gradient < float("inf")


class Sample:
    """Up to 512 values of a parameter: 256 consecutive ones that include the largest gradient, and 256 evenly spaced
    ones. Does not wait for the device until the numbers are read."""

    def __init__(self, name: str, parameter: Tensor, gradient: Tensor) -> None:
        values, gradients = flat(parameter), flat(gradient)
        if values.numel() != gradients.numel() or values.numel() == 0 or values.device != gradients.device:
            raise ValueError("the gradient has other values than the parameter")
        self.name, self.parameter = name, parameter
        width = min(values.numel(), _WIDTH)
        rows = values.numel() // width
        largest = torch.linalg.vector_norm(gradients[:rows * width].view(rows, width), float("inf"), dim=1)
        row, spread = _places(width, values.numel() // width, str(values.device))
        self.places = torch.cat([largest.argmax() * width + row, spread])
        self._count, self._values = values.numel(), values[self.places]
        self._has_gradient = gradients[self.places] != 0
        self._gradient = largest.max()

    @property
    def dtype(self) -> torch.dtype:
        return self.parameter.dtype

    def compare(self, numbers: Numbers) -> list[int]:
        """Adds the numbers of compared() for the current values of the parameter."""
        present = self._present()
        changed = self._has_gradient if present is None else (present != self._values) & self._has_gradient
        return [numbers.add(number) for number in (self._has_gradient.sum(), changed.sum(), self._gradient,
                                                   self._values.float().abs().mean())]

    def _present(self) -> Tensor | None:
        """Returns the current values, or None if the parameter now has other memory."""
        try:
            values = flat(self.parameter)
        except ValueError:
            return None
        is_same = values.numel() == self._count and values.dtype == self._values.dtype and \
            values.device == self._values.device
        return values[self.places] if is_same else None


def compared(read: list[float], places: list[int]) -> Compared:
    """Interprets the numbers that Sample.compare() has added."""
    counted, changed, gradient, size = (read[place] for place in places)
    return Compared(int(counted), int(changed), gradient, size)


def flat(tensor: Any) -> Tensor:
    """Returns the values of a dense tensor, or of this process's part of it, as one axis."""
    own: Tensor = local_part(tensor).detach()
    if own.layout != torch.strided or own.numel() > 0 and not has_memory(own):
        raise ValueError("the tensor has no dense values here")
    return own.reshape(-1)


@functools.lru_cache(maxsize=256)
def _places(width: int, stride: int, device: str) -> tuple[Tensor, Tensor]:
    places = torch.arange(width, device=device)
    return places, places * stride
