"""The options of a norm. They are separate from array_functions.py, which needs NumPy."""

from __future__ import annotations

import functools
import math
import numbers
from dataclasses import dataclass
from typing import Literal

from ._library import Error, call

NormFields = tuple[str, float, str, str, str, float]


@functools.lru_cache(maxsize=64)
def _check_names(kind: str, eps_at: str, variance: str, gamma_form: str) -> None:
    call("check_norm", (kind, 0.0, eps_at, variance, gamma_form, 1.0))


@dataclass(frozen=True)
class Norm:
    """The options of a norm over rows: y = output_scale·(γ ⊙ (x − mean)/deviation + β), where "rms" has mean 0.

    eps          0 to 1e30; eps_at "variance": deviation = √(variance + ε), "deviation": √variance + ε
    variance     divided by n ("population") or by n − 1 ("unbiased")
    gamma_form   "plain", or "one_plus": the factor is 1 + γ, as Gemma stores it

    Raises Error for an invalid value, and TypeError for a value that is not a string or number.
    """

    kind: Literal["layer", "rms"] = "layer"
    eps: float = 1e-5
    eps_at: Literal["variance", "deviation"] = "variance"
    variance: Literal["population", "unbiased"] = "population"
    gamma_form: Literal["plain", "one_plus"] = "plain"
    output_scale: float = 1.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
            expects_number = name in ("eps", "output_scale")
            if not (is_number if expects_number else isinstance(value, str)):
                raise TypeError(f"{name} is {value!r}, must be a {'number' if expects_number else 'string'}")
        _check_names(self.kind, self.eps_at, self.variance, self.gamma_form)
        if not 0 <= self.eps <= 1e30:
            raise Error(f"eps is {self.eps!r}, must be from 0 to 1e30")
        if not math.isfinite(self.output_scale) or self.output_scale == 0:
            raise Error(f"output_scale is {self.output_scale!r}, must be finite and not 0")

    @property
    def fields(self) -> NormFields:
        """Returns the fields in the library's order."""
        return (self.kind, float(self.eps), self.eps_at, self.variance, self.gamma_form,
                float(self.output_scale))
