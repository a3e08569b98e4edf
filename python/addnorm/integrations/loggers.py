"""Log functions for addnorm.watch. They take the result of Report.numbers() and a step.

    addnorm.watch(model, log=loggers.wandb(run))
    addnorm.watch(model, log=loggers.tensorboard(writer))
"""

from __future__ import annotations

from typing import Any, Callable

Log = Callable[[dict[str, float], int], None]


def tensorboard(writer: Any) -> Log:
    """Returns a function that logs to a SummaryWriter, each number under its own tag."""
    def log(numbers: dict[str, float], step: int) -> None:
        for tag, value in numbers.items():
            writer.add_scalar(tag, value, step)
    return log


def wandb(run: Any) -> Log:
    """Returns a function that logs to a run of Weights & Biases, over the training step "addnorm/step".

    wandb counts the rows of a run itself and drops values logged for an earlier row. The numbers therefore go into the
    current row, which stays open for the training loop's own values. If that row already has numbers of an earlier
    step, they go into the next one. If a loop passes `step=` to wandb, this count must not be slower than the measured
    steps, as a count of epochs is: its rows would be in the past.
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
