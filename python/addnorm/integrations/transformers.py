"""The doctor as a callback of the Trainer of Hugging Face.

    from addnorm.integrations.transformers import AddnormCallback
    trainer = Trainer(model, args, callbacks=[AddnormCallback(every=100)])
"""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from ..report import Report
from ..watch import watch


class AddnormCallback(TrainerCallback):
    """Measures the first batch of every `every`-th step of the Trainer. Adds the numbers to its log history, and warns
    of the doctor's findings. The options are those of addnorm.watch.
    """

    def __init__(self, every: int = 100, **options: Any) -> None:
        self._every, self._options = every, options
        self._watch: watch | None = None

    @property
    def report(self) -> Report | None:
        """The report of all measurements so far; None before the first."""
        return self._watch.report if self._watch else None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        def log(numbers: dict[str, float], step: int) -> None:
            state.log_history.append({**numbers, "step": step})

        self._watch = watch(kwargs["model"], self._every, **{"log": log, **self._options})

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        assert self._watch is not None
        self._watch.begin(state.global_step)

    def on_substep_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._end()  # after the first of several batches in a step

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._end()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._watch is not None:
            self._watch.__exit__()

    def _end(self) -> None:
        assert self._watch is not None
        self._watch.end()
