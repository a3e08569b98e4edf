"""The records of measured steps that addnorm.watch has not judged yet."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator

import torch
from torch import Tensor

from ._numbers import Numbers
from ._samples import RESOLUTION, Compared, Sample, flat
from ._undo import Undo

Line = Dict[str, Any]

_SENTINELS = 4  # parameters per optimizer whose gradients are tracked to its next step



class Rate:
    """The learning rate of a step, and whether its GradScaler found an infinity."""

    def __init__(self, optimizer: torch.optim.Optimizer, group: dict[str, Any]) -> None:
        found = getattr(optimizer, "found_inf", None)  # a fused optimizer skips its step itself
        rate = group.get("lr")
        self.optimizer, self._rate = optimizer, rate.detach().clone() if isinstance(rate, Tensor) else rate
        self._found_inf = found.detach().clone() if isinstance(found, Tensor) else None

    def read_later(self, numbers: Numbers) -> Callable[[list[float]], tuple[Any, float]]:
        """Adds the numbers to be read. The returned function gives the optimizer and its rate, 0 for a skipped step."""
        rate = numbers.add(self._rate) if isinstance(self._rate, Tensor) else None
        found = None if self._found_inf is None else numbers.add(self._found_inf)

        def read(values: list[float]) -> tuple[Any, float]:
            if self._rate is None or found is not None and values[found] != 0:
                return self.optimizer, 0.0
            return self.optimizer, values[rate] if rate is not None else float(self._rate)
        return read


class Sentinel:
    """A parameter whose gradient is tracked from one step of its optimizer to the next."""

    def __init__(self, sample: Sample) -> None:
        self.name, self.parameter, self._places = sample.name, sample.parameter, sample.places
        self._used = flat(sample.parameter.grad)[self._places]
        self.is_kept = (self._used != 0).any()
        self.arrivals, self.is_cleared = 0, False

    def was_kept(self) -> bool:
        """Whether gradients arrived and `.grad` was never None before. The tensor is_kept then
        says whether it was never 0."""
        return self.arrivals > 0 and not self.is_cleared

    def arrives(self, _: Tensor) -> None:
        """Checks `.grad` before the arriving gradient is added to it."""
        old = self.parameter.grad
        self.arrivals += 1
        if self.is_cleared or old is None:
            self.is_cleared = True
            return
        with torch.no_grad():
            values = flat(old)[self._places]
            kept = (values == self._used).all() if self.arrivals == 1 else (values != 0).any()
            self.is_kept = self.is_kept & kept


class Record:
    """The known facts of a measured step."""

    def __init__(self, step: int, parameters: dict[str, Tensor], hashes: list[Tensor]) -> None:
        self.step, self.hashes = step, hashes
        self.samples: list[Sample] | None = None
        self.optimizers: dict[int, tuple[Any, bool]] = {}  # those that stepped; True: holds a parameter of the model
        self.rates: dict[int, Rate] = {}  # keys are ids of parameters
        self.sentinels: list[Sentinel] = []
        self.foreign = 0  # steps of optimizers that hold no parameter of the model
        self.forwards = self.lost_forwards = 0
        self.undo = Undo()
        self.parameters = parameters
        self._ids = set(map(id, parameters.values()))
        self._foreign_before = self._followed = 0

    @property
    def is_stepped(self) -> bool:
        """Whether an optimizer of the model has stepped."""
        return any(is_own for _, is_own in self.optimizers.values())

    def sample(self) -> None:
        """Samples the parameters that have a gradient, at the first call at which there are any."""
        if self.samples is None:
            with torch.no_grad():
                self.samples = [*_samples(self.parameters)] or None

    def forward_begins(self) -> None:
        """Counts a forward, and whether the gradient before it was lost."""
        if not self.samples:
            return
        self.forwards += 1
        self.lost_forwards += self.samples[0].parameter.grad is None or self.foreign > self._foreign_before
        self._foreign_before = self.foreign

    def has_stepped(self, optimizer: Any) -> bool:
        """Whether an optimizer of the model has stepped before."""
        return self.optimizers.get(id(optimizer), (None, False))[1]

    def before_step(self, optimizer: Any, has_closure: bool) -> None:
        """Records an optimizer that is about to step."""
        if id(optimizer) not in self.optimizers:
            own: list[int] = []
            for group in optimizer.param_groups:
                rate, ids = Rate(optimizer, group), [id(p) for p in group["params"] if id(p) in self._ids]
                self.rates.update(dict.fromkeys(ids, rate))
                own += ids
            self.optimizers[id(optimizer)] = optimizer, bool(own)
            if not has_closure:  # a closure computes the gradients within the step
                samples = {id(s.parameter): s for s in self.samples or ()} if own else {}
                with torch.no_grad():
                    self.sentinels += _sentinels([samples[key] for key in own if key in samples])
        self.foreign += not self.has_stepped(optimizer)

    def follow_gradients(self) -> None:
        """Starts tracking the gradients of the sentinels after the first step."""
        for sentinel in self.sentinels[self._followed:]:
            self.undo.hook_gradient(sentinel.parameter, sentinel.arrives)
        self._followed = len(self.sentinels)

    def words(self, sees_optimizers: bool) -> str:
        """Returns the reason why no parameter can have changed."""
        if self.foreign:
            others = [o for o, _ in self.optimizers.values()]
            held = sum(len(group["params"]) for o in others for group in o.param_groups)
            return (f"{' and '.join(sorted({type(o).__name__ for o in others}))} stepped {self.foreign} times with "
                    f"{held} tensors, none of which is a parameter of this model")
        forwards = f"in {self.forwards + 1} forwards and backwards"
        return f"no optimizer has stepped {forwards}" if sees_optimizers else f"no step has changed one {forwards}"


class Unheld:
    """The sampled parameters that no optimizer of the record holds."""

    def __init__(self, record: Record) -> None:
        own = [optimizer for optimizer, is_own in record.optimizers.values() if is_own]
        held = {id(p) for optimizer in own for group in optimizer.param_groups for p in group["params"]}
        self.step, self._count = record.step, len(record.samples or ())
        self.strangers = len(held - {id(p) for p in record.parameters.values()})
        # Other tensors of an optimizer may be float32 copies of 16-bit parameters.
        self.samples = [s for s in record.samples or () if id(s.parameter) not in held
                        and not (self.strangers and s.dtype in RESOLUTION)]
        self._name = " and ".join(sorted({type(optimizer).__name__ for optimizer in own}))

    @classmethod
    def of(cls, record: Record) -> Unheld | None:
        """Returns the unheld parameters of a record, or None if there are none."""
        unheld = cls(record)
        return unheld if unheld.samples else None

    def lines(self, values: list[Compared]) -> Iterator[Line]:
        """Yields a line for each unchanged parameter. If an optimizer holds a small part of the model and nothing else,
        only that part is trained, as when fine-tuning a head."""
        lost = [s.name for s, v in zip(self.samples, values) if v.is_unchanged]
        if self.strangers or 2 * len(lost) <= self._count:
            others = f"{self.strangers} tensors that are no parameters of this model" if self.strangers \
                else "other parameters of this model"
            for name in lost:
                yield {"check": "update-missing", "value": 1.0, "where": name,
                       "detail": f"{self._name} does not hold it, but {others}"}


def _samples(parameters: dict[str, Tensor]) -> Iterator[Sample]:
    for name, parameter in parameters.items():
        if parameter.requires_grad and parameter.grad is not None:
            try:
                yield Sample(name, parameter, parameter.grad)
            except (RuntimeError, ValueError, NotImplementedError, TypeError):  # a layout without such values
                continue


def _sentinels(samples: list[Sample]) -> Iterator[Sentinel]:
    """Yields sentinels for evenly spaced samples."""
    for i in sorted({i * len(samples) // _SENTINELS for i in range(_SENTINELS)} if samples else ()):
        if samples[i].parameter.grad is not None:
            yield Sentinel(samples[i])
