"""Log functions of addnorm.watch. They take what Report.numbers() gives, and a step."""

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
    """Into a run of Weights & Biases, drawn over the step that was measured: the run's own counter may be
    ahead of it, where wandb would drop the numbers."""
    run.define_metric("addnorm/step")
    run.define_metric("addnorm/*", step_metric="addnorm/step")

    def log(numbers: dict[str, float], step: int) -> None:
        row: dict[str, float] = {"addnorm/step": step}
        run.log(row | numbers)
    return log
