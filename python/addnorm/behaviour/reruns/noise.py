"""Runs the model again with other random numbers: eval-noise."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ..run.differences import least_limit, output_of
from ..run.functions import SUMS, FunctionCheck, Functions, dropout_rate
from ..run.subject import Subject, Unmeasured
from ..run.tensors import relative_difference
from ..run.text import some

_RANDOM = {"randn", "randn_like", "rand", "rand_like", "normal", "normal_", "uniform_"}
_MULTIPLES = {"mul", "mul_", "__mul__", "__rmul__", "div", "__truediv__", "to"}


class LiveDropout(FunctionCheck):
    """Records the modules in which dropout is active."""

    checks = "eval-noise"

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        self.places: list[str] = []

    def __call__(self, name: str, args: Any, kwargs: Any, result: Any) -> None:
        if dropout_rate(name, args, kwargs) > 0 and self._subject.where() not in self.places:
            self.places.append(self._subject.where())

    def text(self) -> str:
        return some(place or "the model's forward" for place in self.places)


class NoisySums(FunctionCheck):
    """Records places in layers where random numbers, or a multiple of them, are added to rows of tokens."""

    checks = "eval-noise"

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        self._noise: list[Tensor] = []  # the last random tensors
        self.places: list[str] = []

    def __call__(self, name: str, args: Any, kwargs: Any, result: Any) -> None:
        is_noise = [any(a is noise for noise in self._noise) for a in args[:2]]
        if name in _RANDOM or name in _MULTIPLES and any(is_noise):
            self._noise = [*self._noise[-3:], result]
        elif name in SUMS and sum(is_noise) == 1 and result.dim() > 2 \
                and all(isinstance(a, Tensor) and a.shape == result.shape for a in args[:2]):
            place = self._subject.where()
            if self._subject.layer_of(place) and place not in self.places:
                self.places.append(place)


def measure_noise(subject: Subject, output: Tensor) -> None:
    """Adds eval-noise: the difference between two evaluations of one batch with different random numbers."""
    dropout, sums = LiveDropout(subject), NoisySums(subject)
    with Functions(subject, dropout, sums):
        again = output_of(subject, seed=20)
    if again.shape != output.shape:
        raise Unmeasured("two evaluations have outputs of different shapes")
    detail, declared = ("dropout is at work", "eval() turns dropout off") if dropout.places else \
        ("random numbers are added", "layers add the same in each evaluation") if sums.places else ("", "")
    subject.add_line("eval-noise", relative_difference(again, output), limit=least_limit(output),
                     where=dropout.text() or some(sums.places) or "output", detail=detail, declared=declared)
