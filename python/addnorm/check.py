"""addnorm.check: a few forwards and backwards of a PyTorch model, and the doctor's report."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Callable, Iterable, Mapping

from . import _core
from .report import Report, names_of

if TYPE_CHECKING:
    from torch import Tensor, nn

    from ._loss import Loss


def check(model: nn.Module, inputs: Any, *, loss: Callable[[Any], Tensor] | str | None = None,
          optimizer: Any = None, tokens: int = 4096, behaviour: bool = True, ignore: Iterable[str] = (),
          **options: Any) -> Report:
    """Checks a PyTorch model. Runs it forward and backward, and compares its residual sums, norms and attentions with
    what they should compute. Then runs it a few more times with changes, to find tokens that attend to the future,
    another sequence or padding, and faults of caches and of dropout in evaluation.

        report = addnorm.check(model, batch)
        print(report)

    inputs     the model's arguments: a tensor, a tuple, or a dict of named arguments
    loss       a function from the model's output to a scalar, or "own": the loss in that output. By
               default the output's own loss if it has one, else the output's product with fixed random
               directions, which gives every part of the output a gradient
    optimizer  of the training; its groups of parameters are checked too, without a step
    tokens     the maximum number of tokens compared value by value; gradients are of all tokens
    behaviour  False: the model runs forward and backward once, without changes
    ignore     findings to leave out: "rule", or "rule@layer 2"
    options    of probe(): layers, attention, feed_forward, recipe, batch_first

    The model with all state of its modules, the inputs and the random generators are restored afterwards, even if the
    model raises or is interrupted. This takes memory for a second copy of the parameters. torch.compile and wrappers
    for several devices are unwrapped. Raises Error, with a message of one line, for a model without layers or a model
    that fails on these inputs, and for a bad value of an option; TypeError for an unknown option. On a terminal, a
    line shows the progress after 5 seconds.
    """
    from torch import nn

    from . import _model
    from ._loss import Loss
    from ._options import check_options
    from ._progress import Progress
    from ._snapshot import unchanged
    if not isinstance(model, nn.Module):
        raise TypeError(f"model: is {type(model).__name__}, must be a torch.nn.Module")
    ignore = names_of(ignore)
    check_options("check", {"tokens": tokens, **options})
    network = _model.network(model)
    arguments, named = _call(inputs)
    _check_devices(network, (arguments, named))
    with Progress("addnorm.check") as progress:
        progress.doing = "measures a forward and a backward"
        header, lines = unchanged(
            lambda: _model.profile_of(_measure(network, _model.called(model), arguments, named, Loss(loss),
                                               tokens=tokens, **options)), model, arguments, named, loss)
        if behaviour:
            progress.doing = "runs the model with something changed"
            _add_behaviour(header, lines, _model.called(model), arguments, named, loss, optimizer)
    return Report(_model.text_of(header, lines), type(network).__name__, ignore)


def _call(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns the positional and the named arguments."""
    if isinstance(inputs, Mapping):
        return (), {str(name): value for name, value in inputs.items()}
    return (inputs if isinstance(inputs, tuple) else (inputs,)), {}


def _check_devices(network: nn.Module, inputs: Any) -> None:
    from ._structure import tensors_in
    homes = {str(p.device) for p in network.parameters()}
    if "meta" in homes:
        raise _core.Error("model: has parameters on the device meta, where there are no values")
    for tensor in tensors_in(inputs):
        if homes and str(tensor.device) not in homes:
            raise _core.Error(f"inputs: a tensor is on {tensor.device}, the model on "
                              f"{', '.join(sorted(homes))}; move one of them")


def _measure(network: nn.Module, called: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any],
             loss: Loss, **options: Any) -> Any:
    """Returns a probe that has recorded one forward and backward."""
    from ._checkpoints import checkpoints_with_graph
    from .probe import ProbeError, probe as begin

    def measure() -> Any:
        probe = begin(network, **options)
        with probe:
            value = loss(called(*arguments, **named))
            if value.requires_grad:  # else only the forward is judged
                value.backward()
        return probe

    try:
        with checkpoints_with_graph() as checkpoints:
            try:
                return measure()
            except Exception:
                if not checkpoints:
                    raise
        return measure()  # non-reentrant checkpoints refuse functions that compute otherwise the second time
    except (_core.Error, ProbeError) as error:
        raise _core.Error(_one_line(str(error))) from error
    except Exception as error:  # an error of the model's own code, or of a hook in it
        raise _core.Error(f"the model failed on these inputs: {_one_line(_told(error))}") from error


def _told(error: Exception) -> str:
    """Returns the error's class and message."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _add_behaviour(header: dict[str, Any], lines: list[str], model: nn.Module, arguments: tuple[Any, ...],
                   named: dict[str, Any], loss: Any, optimizer: Any) -> None:
    """Adds the results of runs with changes. A failure here must not prevent the rest of the report."""
    from . import behaviour
    left_out: list[dict[str, str]] = header["coverage"].setdefault("left_out", [])
    try:
        seen, unseen = behaviour.measure(model, arguments, named, loss=loss, optimizer=optimizer)
        lines += [json.dumps(line, separators=(",", ":"), allow_nan=False) for line in seen]
        left_out += unseen
    except Exception as error:
        left_out.append({"where": "behaviour", "why": _one_line(_told(error))})
