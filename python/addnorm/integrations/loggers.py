"""Log functions of addnorm.watch. They take what Report.numbers() gives, and a step.

    addnorm.watch(model, log=loggers.wandb(run))
    addnorm.watch(model, log=loggers.tensorboard(writer))
"""

from __future__ import annotations

from typing import Any, Callable

Log = Callable[[dict[str, float], int], None]


def tensorboard(writer: Any) -> Log:
    """Into a SummaryWriter, each number under its own tag."""
    def log(numbers: dict[str, float], step: int) -> None:
        for tag, value in numbers.items():
            writer.add_scalar(tag, value, step)
    return log


def wandb(run: Any) -> Log:
    """Into a run of Weights & Biases, drawn over the training step, "addnorm/step".

    wandb counts the rows of a run by itself, and drops what is logged for a row before the present one. So
    the numbers join the present row, which stays open for what the training loop logs, or the next one where
    that row has numbers of a step before. A loop that passes `step=` to wandb must not count more slowly than
    steps are measured, as by epochs: its rows would be in the past.
    """
    run.define_metric("addnorm/step")
    run.define_metric("addnorm/*", step_metric="addnorm/step")
    row = -1

    def log(numbers: dict[str, float], step: int) -> None:
        nonlocal row
        row = max(run.step, row + 1)
        first: dict[str, float] = {"addnorm/step": step}
        run.log(first | numbers, step=row)
    return log
