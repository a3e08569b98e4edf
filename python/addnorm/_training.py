"""Detects faults of the training loop around a model, for addnorm.watch: steps that change nothing, gradients that are
not cleared, and processes whose parameters differ.

A Record belongs to a measured step. It begins before the step's first forward. After the first backward it samples the
parameters. The optimizer's next step uses that gradient, and the record is judged before the step after that. All its
numbers are then read with one transfer. In other steps the hooks find no record and return.
"""

from __future__ import annotations

import functools
import weakref
from statistics import median
from typing import Any, Callable, Iterable, Iterator

import torch
from torch import nn
from torch.optim import optimizer as optimizers

from ._numbers import Numbers
from ._ranks import Ranks
from ._records import Line, Record, Unheld
from ._samples import RESOLUTION, Compared, Sample, compared
from ._sharded import gathers_parameters
from ._undo import Undo

_PATIENT_STEPS = 20  # more steps than other optimizers of a model wait between two of their own
_PATIENT_FORWARDS = 20  # likewise for forwards, if gradients are cleared or other optimizers step in between
_PATIENT_END = 2  # likewise at the end of training
_MOST_LINES = 256

# Optimizers whose step is about the size of the learning rate, independent of the gradient's size.
_NORMALIZED = "Adam", "AdamW", "NAdam", "RAdam", "Adamax", "RMSprop", "Adagrad"


class Training:
    """Watches the optimizers' steps and the gradients of one model."""

    def __init__(self, model: nn.Module, network: nn.Module, emit: Callable[[int, list[Line]], None]) -> None:
        """`emit` must be a method. It gets the lines of a profile for a measured step as soon as they are known."""
        # The owner holds this object. Without a reference back, both are freed at once.
        self._network, self._emit = network, weakref.WeakMethod(emit)
        self._ranks = Ranks(model, network)
        # When a forward begins, fully_shard has replaced the optimizer's parameters by whole ones.
        self._sharded = dict(network.named_parameters()) if any(map(gathers_parameters, network.modules())) else None
        self._records: list[Record] = []
        self._unheld: Unheld | None = None
        self._sees_optimizers = hasattr(optimizers, "register_optimizer_step_post_hook")
        self._hooks: list[Undo] = []  # the hooks of the records
        self._undo: Undo | None = None

    def attach(self, undo: Undo, guarded: Callable[[Callable[[], object]], None]) -> None:
        """Observes all optimizers until undo is closed or this object is freed. `guarded` must be a method; it calls a
        function and stores its errors."""
        if self._undo is undo and not undo.is_empty():
            return
        self._undo = undo
        weakref.finalize(self, undo.close).atexit = False
        undo.callback(_close, self._hooks)
        if self._sees_optimizers:
            before, after = _listeners(weakref.ref(self), weakref.WeakMethod(guarded))
            undo.hook_optimizers("pre", before)
            undo.hook_optimizers("post", after)

    @property
    def is_active(self) -> bool:
        """Whether a record is open."""
        return bool(self._records)

    def begin(self, step: int) -> None:
        """Begins a measured step, before its forward."""
        for record in list(self._records):
            if record.samples and not record.is_stepped and step - record.step >= _PATIENT_STEPS:
                self._judge_lost(record)
        for record in [r for r in self._records if not r.samples]:
            self._remove(record)
        if all(r.is_stepped for r in self._records):
            with torch.no_grad():
                parameters = self._sharded or dict(self._network.named_parameters())
                record = Record(step, parameters, self._ranks.hashes())
            self._hooks.append(record.undo)
            self._records.append(record)

    def forward_begins(self) -> None:
        """Counts a forward of the training, in every step."""
        for record in list(self._records):
            record.forward_begins()
            if record.lost_forwards >= _PATIENT_FORWARDS and not record.is_stepped:
                self._judge_lost(record)

    def backward_done(self) -> None:
        """Samples the parameters after the first backward of a measured step."""
        for record in self._records:
            record.sample()

    def is_lost(self) -> bool:
        """Judges a measured step after very many forwards. Returns whether no step has changed a parameter."""
        return any([self._judge_lost(record) for record in list(self._records)
                    if record.samples and not record.is_stepped])

    def close(self) -> None:
        """Judges the open records at the end of the training."""
        for record in list(self._records):
            if record.is_stepped:
                record.sentinels.clear()  # no further step has used their gradients
                self._judge(record)
            elif record.lost_forwards >= _PATIENT_END:
                self._judge_lost(record)
        self._compare_ranks()
        if self._unheld is not None and self._unheld.strangers:
            unheld, self._unheld = self._unheld, None
            self._give(unheld.step, unheld.lines(_compare(unheld.samples)))

    def abandon(self) -> None:
        """Drops all open records."""
        for record in list(self._records):
            self._remove(record)
        self._unheld = None
        self._ranks.close()

    def _remove(self, record: Record) -> None:
        self._records.remove(record)
        record.undo.close()
        self._hooks.remove(record.undo)

    # -- Steps of optimizers --

    def before_step(self, optimizer: torch.optim.Optimizer, *call: Any) -> None:
        """Judges the records for which an optimizer steps for the second time. Other records note the step."""
        for record in list(self._records):
            record.sample()
            if record.samples and record.has_stepped(optimizer):
                self._judge(record)
            elif record.samples:
                record.before_step(optimizer, _has_closure(*call))

    def after_step(self) -> None:
        """Starts tracking gradients."""
        for record in self._records:
            record.follow_gradients()

    # -- Judgement --

    def _judge(self, record: Record) -> None:
        """Judges a record whose optimizer is about to step for the second time."""
        self._remove(record)
        unheld = self._unheld if self._unheld and record.step - self._unheld.step >= _PATIENT_STEPS else None
        numbers = Numbers()
        with torch.no_grad():
            samples = [(s, s.compare(numbers), record.rates[id(s.parameter)].read_later(numbers))
                       for s in record.samples or () if id(s.parameter) in record.rates and s.dtype in RESOLUTION]
            kept = [(s.name, numbers.add(s.is_kept)) for s in record.sentinels if s.was_kept()]
            hashes = [numbers.add(h) for h in record.hashes]
            of_unheld = [s.compare(numbers) for s in unheld.samples] if unheld else []
        read = numbers.read()
        self._give(record.step, [
            *_rounded_away([(s, compared(read, places), rate(read)) for s, places, rate in samples]),
            *_not_cleared([(name, bool(read[i])) for name, i in kept], sum(s.arrivals > 0 for s in record.sentinels))])
        if unheld:
            self._give(unheld.step, unheld.lines([compared(read, places) for places in of_unheld]))
        if unheld or self._unheld is None:
            self._unheld = Unheld.of(record)
        if hashes:
            self._compare_ranks()
            self._exchange(lambda: self._ranks.publish(record.step, [read[i] for i in hashes]))

    def _judge_lost(self, record: Record) -> bool:
        """Judges a record during which no optimizer of the model has stepped."""
        self._remove(record)
        is_rounded = record.foreign or not self._sees_optimizers  # float32 copies may be trained instead
        samples = [s for s in record.samples or () if not (is_rounded and s.dtype in RESOLUTION)]
        values = _compare(samples)
        counted = sum(v.with_gradient > 0 for v in values)
        if counted == 0 or not all(v.is_unchanged or v.with_gradient == 0 for v in values):
            return False
        self._give(record.step, [{"check": "update-missing", "value": 1.0, "where": "model",
                                  "detail": f"{counted} parameters, and {record.words(self._sees_optimizers)}"}])
        return True

    def _exchange(self, function: Callable[[], Any]) -> Any:
        """Returns function(), or () if the processes' store cannot be reached. It is not tried again in that case."""
        try:
            return function()
        except Exception:
            self._ranks.turn_off()
            return ()

    def _compare_ranks(self) -> None:
        for step, name, count, ranks in self._exchange(lambda: list(self._ranks.compare())):
            self._give(step, [{"check": "ranks-differ", "value": float(count), "limit": 0, "where": name,
                               "detail": ranks}])

    def _give(self, step: int, lines: Iterable[Line]) -> None:
        found = [{"step": step, **line} for line in lines]
        emit = self._emit()
        if found and emit is not None:
            emit(step, found[:_MOST_LINES])


def _listeners(training: weakref.ref[Training], guarded: weakref.WeakMethod[Any]) -> tuple[Any, Any]:
    """Returns functions to call before and after the step of an optimizer. They hold no reference."""
    def call(name: str, *arguments: Any) -> None:
        known, guard = training(), guarded()
        if known is not None and guard is not None:
            guard(functools.partial(getattr(known, name), *arguments))

    # A compiled step breaks its graph here if there is a record, and nowhere else.
    untraced = getattr(torch, "_disable_dynamo", lambda function: function)(call)

    def before(*arguments: Any) -> None:
        known = training()
        if known is not None and known.is_active:
            untraced("before_step", *arguments)

    def after(*_: Any) -> None:
        known = training()
        if known is not None and known.is_active:
            untraced("after_step")

    return before, after


def _close(hooks: list[Undo]) -> None:
    for undo in hooks:
        undo.close()


def _compare(samples: list[Sample]) -> list[Compared]:
    """Reads the numbers of samples with one transfer."""
    numbers = Numbers()
    with torch.no_grad():
        places = [s.compare(numbers) for s in samples]
    read = numbers.read()
    return [compared(read, p) for p in places]


def _rounded_away(values: list[tuple[Sample, Compared, tuple[Any, float]]]) -> Iterator[Line]:
    """Yields a line if parameters have steps that are too small for their number format. Optimizers of other
    libraries may round stochastically, or keep the part that is rounded away. A gradient far below the
    others may be rounding noise."""
    typical = median([v.gradient for _, v, _ in values] or [0.0])
    for sample, value, (optimizer, rate) in values:
        limit, kind = RESOLUTION[sample.dtype], type(optimizer)
        if not value.is_unchanged or value.gradient < 1e-2 * typical or not value.size or rate <= 0 or \
                not kind.__module__.startswith("torch.optim"):
            continue
        if kind.__name__ in _NORMALIZED:
            moved = rate
        elif kind.__name__ == "SGD":
            moved = rate * value.gradient
        else:
            continue
        if moved / value.size < limit:
            yield {"check": "update-missing", "value": moved / value.size, "limit": limit, "where": sample.name,
                   "detail": f"{kind.__name__} moves values of about {value.size:.2g} by about {moved:.2g}, which is "
                             f"rounded away in {str(sample.dtype).replace('torch.', '')}"}


def _not_cleared(kept: list[tuple[str, bool]], followed: int) -> Iterator[Line]:
    names = [name for name, is_kept in kept if is_kept]
    if names:
        yield {"check": "gradient-not-cleared", "value": len(names) / followed, "limit": 0,
               "where": "model" if len(names) == followed else names[0],
               "detail": f"{len(names)} of {followed} sampled parameters kept it"}


def _has_closure(*call: Any) -> bool:
    """Whether step(closure) was called, judged by the arguments that a hook gets after the optimizer."""
    arguments, named = (*call, (), {})[:2] if call else ((), {})
    return any(callable(a) for a in arguments if not isinstance(a, torch.optim.Optimizer)) or \
        named.get("closure") is not None
