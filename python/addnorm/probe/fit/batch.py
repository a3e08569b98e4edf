"""Runs the fits of a step: in one batch for tensors of one shape, and with one transfer to the host."""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

MOST_VALUES = 2**24  # the most values in one batch; a fit needs memory for several copies in float64

Numbers = Dict[str, Any]
Then = Callable[[Numbers], None]
Compute = Callable[..., Dict[str, Tensor]]  # the first axis of arguments and results counts sites


class _Call(NamedTuple):
    """A computation with the tensors of one site."""
    compute: Compute
    tensors: Tuple[Optional[Tensor], ...]
    options: Tuple[Any, ...]
    then: Then
    where: str

    @property
    def kind(self) -> Any:
        """The key of a batch: calls with the same kind are run together."""
        return self.compute, self.options, tuple(
            None if t is None else (t.shape, t.dtype, t.device) for t in self.tensors)

    @property
    def size(self) -> int:
        return sum(t.numel() for t in self.tensors if t is not None)


class _Computed(NamedTuple):
    """The numbers of a batch, on a device."""
    values: Tensor  # [sites, numbers]
    sizes: Dict[str, int]  # the count of numbers for each name; 0 for one number without an axis
    then: List[Then]


class Fits:
    """The computations of a step, and their numbers until these are read."""

    def __init__(self, on_error: Callable[[str, Exception], None]) -> None:
        """on_error: is called with the place and the error of a computation that fails; its numbers are not read."""
        self.where = ""  # the place of the computations that are added next
        self._on_error = on_error
        self._calls: List[_Call] = []
        self._computed: List[_Computed] = []
        self._finish: List[Callable[[], None]] = []

    def add(self, compute: Compute, tensors: Sequence[Optional[Tensor]], then: Then, *options: Any) -> None:
        """Adds a computation for one site. The next run() calls compute(*tensors, *options) with the tensors of several
        sites, stacked along the first axis. read() calls `then` with this site's numbers: a float for a result without
        further axes, otherwise a flat list of floats."""
        self._calls.append(_Call(compute, tuple(tensors), options, then, self.where))

    def finally_do(self, function: Callable[[], None]) -> None:
        """Makes read() call a function after the `then` of all computations added so far."""
        self._finish.append(function)

    def run(self, least: int = 0) -> None:
        """Runs the computations added since the last run, if their tensors have at least `least` values in total. The
        tensors must not have changed since they were added."""
        if least and sum(call.size for call in self._calls) < least:
            return
        calls, self._calls = self._calls, []
        kinds: Dict[Any, List[_Call]] = {}
        for call in calls:
            kinds.setdefault(call.kind, []).append(call)
        for same in kinds.values():
            count = max(1, MOST_VALUES // max(1, same[0].size))
            for begin in range(0, len(same), count):
                calls = same[begin:begin + count]
                try:
                    self._run_together(calls)
                except Exception as error:  # other batches do not depend on these numbers
                    self._on_error(calls[0].where, error)

    def _run_together(self, calls: List[_Call]) -> None:
        first = calls[0]
        stacked = [None if t is None else t[None] if len(calls) == 1 else
                   torch.stack([call.tensors[i] for call in calls]) for i, t in enumerate(first.tensors)]
        numbers = first.compute(*stacked, *first.options)
        self._computed.append(_Computed(
            torch.cat([t.reshape(len(calls), -1) for t in numbers.values()], 1),
            {name: math.prod(t.shape[1:]) if t.dim() > 1 else 0 for name, t in numbers.items()},
            [call.then for call in calls]))

    def read(self) -> None:
        """Reads all numbers, and repeats this for the computations that the called functions add."""
        self.run()
        while self._computed or self._finish:
            computed, self._computed = self._computed, []
            finish, self._finish = self._finish, []
            for found, values in zip(computed, to_host([c.values for c in computed])):
                count = len(values) // len(found.then)
                for i, then in enumerate(found.then):
                    then(named_values(values[i * count:(i + 1) * count], found.sizes))
            for function in finish:
                function()
            self.run()

    def clear(self) -> None:
        self._calls.clear()
        self._computed.clear()
        self._finish.clear()


def fit_now(compute: Compute, tensors: Sequence[Optional[Tensor]], *options: Any) -> Numbers:
    """Returns the numbers of one site. The host waits for them here."""
    def fail(where: str, error: Exception) -> None:
        raise error

    found: Numbers = {}
    fits = Fits(fail)
    fits.add(compute, tensors, found.update, *options)
    fits.read()
    return found


def to_host(tensors: List[Tensor]) -> List[List[float]]:
    """Returns each tensor as a flat list, with one transfer from each device."""
    found: List[List[float]] = [[] for _ in tensors]
    for device in dict.fromkeys(t.device for t in tensors):
        here = [i for i, t in enumerate(tensors) if t.device == device]
        values = torch.cat([tensors[i].reshape(-1) for i in here]).tolist()
        begin = 0
        for i in here:
            found[i] = values[begin:begin + tensors[i].numel()]
            begin += tensors[i].numel()
    return found


def named_values(values: List[float], sizes: Dict[str, int]) -> Numbers:
    found: Numbers = {}
    begin = 0
    for name, size in sizes.items():
        found[name] = values[begin:begin + size] if size else values[begin]
        begin += max(1, size)
    return found
