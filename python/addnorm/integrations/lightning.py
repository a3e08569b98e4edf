"""The doctor as a callback of Lightning.

    from addnorm.integrations.lightning import AddnormCallback
    trainer = Trainer(callbacks=[AddnormCallback(every=100, path="profile.jsonl")])
"""

from __future__ import annotations

from typing import Any

try:
    import lightning.pytorch as pl
except ImportError:
    import pytorch_lightning as pl

from ..report import Report
from ..watch import watch


class AddnormCallback(pl.Callback):
    """Measures the first batch of every `every`-th step of the optimizer. Sends the numbers to the trainer's
    loggers, and warns of the doctor's findings. The options are those of addnorm.watch; `model` is the network,
    by default the LightningModule.
    """

    def __init__(self, every: int = 100, model: Any = None, **options: Any) -> None:
        self._every, self._network, self._options = every, model, options
        self._watch: watch | None = None

    @property
    def report(self) -> Report | None:
        """The report of all measurements so far; None before the first."""
        return self._watch.report if self._watch else None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        def log(numbers: dict[str, float], step: int) -> None:
            for logger in trainer.loggers:
                logger.log_metrics(numbers, step)

        self._watch = watch(self._network or pl_module, self._every, **{"log": log, **self._options})

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        assert self._watch is not None
        self._watch.begin(trainer.global_step)

    def on_after_backward(self, trainer: Any, pl_module: Any) -> None:
        assert self._watch is not None
        self._watch.end()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self._close()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._close()

    def _close(self) -> None:
        if self._watch is not None:
            self._watch.__exit__()
