"""addnorm.watch: the doctor beside a training loop."""

from __future__ import annotations

import collections
import os
import sys
import threading
import traceback
import types
import warnings
from typing import IO, TYPE_CHECKING, Any, Callable, Iterable

from . import _core
from .report import Path, Report

if TYPE_CHECKING:
    from torch import nn

Log = Callable[[dict[str, float], int], object]

_KEPT_STEPS = 4  # the last ones; the first is kept as well, with which rules compare


class watch:
    """Watches a PyTorch model while it trains: measures every so many steps, warns of what is wrong. What
    addnorm.check finds by changing something (masks, padding, caches) is not looked for.

        with addnorm.watch(model, every=100, log=wandb.log, path="profile.jsonl") as watched:
            for batch in batches:
                …                    # the loop as it is
        print(watched.report)

    every     measures the first of every so many steps; a step is a forward with gradients, and the backward
              through its output
    log       called after each measured step as log({"addnorm/layer 3/attention/sum_rms": 1.7, …}, step); or
              a method of TensorBoard's SummaryWriter
    path      a file that is written anew, and grows with each measured step: `addnorm doctor FILE` reads it
    ignore    findings to leave out: "rule", or "rule@layer 2"
    tokens, options
              as of addnorm.check; fewer tokens cost less

    A finding is a warning, once. Training never stops by being watched: an error in here is a warning, after
    which nothing more is measured. Memory is bounded: `report` is of the first and the last few measured
    steps. Outside the `with` no hook is left, and between measured steps a forward costs one comparison.
    """

    def __init__(self, model: nn.Module, every: int = 100, log: Log | None = None, path: Path | None = None,
                 *, tokens: int = 1024, ignore: Iterable[str] = (), **options: Any) -> None:
        from . import _model
        if every < 1:
            raise _core.Error(f"every is {every}, must be at least 1")
        self.report: Report | None = None
        self._model, self._every, self._log, self._path = model, every, _as_log(log), path
        self._options = {"tokens": tokens, **options}
        self._ignore = tuple(ignore)
        self._network = _model.network(model)
        self._forwards = 0
        self._active = True
        self._probe: Any = None  # while it measures
        self._measured_step, self._thread, self._is_over = -1, 0, False
        self._header: dict[str, Any] | None = None
        self._first: list[str] = []
        self._kept: collections.deque[list[str]] = collections.deque(maxlen=_KEPT_STEPS)
        self._warned: set[str] = set()
        self._file: IO[str] | None = None
        self._restore: list[Callable[[], object]] = []

    def __enter__(self) -> watch:
        self._guarded(self._attach)
        return self

    def __exit__(self, *_: object) -> None:
        for restore in self._restore:
            restore()
        self._restore.clear()
        self.end()
        if self._file is not None:
            self._file.close()
            self._file = None

    # -- Steps; a loop of somebody else's calls these two, and does without `with` --

    def begin(self, step: int) -> None:
        """From here to end() is the training step of this number; its first batch is measured if it is due."""
        self.end()
        if self._active and step % self._every == 0 and step != self._measured_step:
            self._guarded(lambda: self._begin(step))

    def end(self) -> None:
        """The backward is done."""
        if self._probe is not None:
            self._guarded(self._end)

    def _begin(self, step: int) -> None:
        from .probe import probe as begin
        probe = begin(self._network, **self._options)
        probe(step).__enter__()
        self._probe, self._is_over = probe, False
        self._measured_step, self._thread = step, threading.get_ident()

    def _end(self) -> None:
        from . import _model
        probe, self._probe = self._probe, None
        probe.__exit__(None, None, None)
        header, lines = _model.profile_of(probe)
        self._keep(header, lines)
        self.report = Report(self._text(), type(self._network).__name__, self._ignore)
        for finding in self.report.findings:
            if finding.severity != "note" and finding.name not in self._warned:
                self._warned.add(finding.name)
                _warn(f"addnorm, step {self._measured_step}: {finding}")
        if self._log is not None:
            self._log(self.report.numbers(), self._measured_step)

    def _keep(self, header: dict[str, Any], lines: list[str]) -> None:
        from . import _model
        if self._header is None:
            self._header, self._first = header, lines
            if self._path is not None:
                self._file = open(self._path, "w", encoding="utf-8")
                self._file.write(_model.text_of(header, []))
        else:
            self._kept.append(lines)
        if self._file is not None:
            self._file.write("".join(f"{line}\n" for line in lines))
            self._file.flush()

    def _text(self) -> str:
        from . import _model
        assert self._header is not None
        return _model.text_of(self._header, [*self._first, *(line for lines in self._kept for line in lines)])

    # -- The forward of the model, as the loop calls it --

    def _attach(self) -> None:
        """Stands before forward, where torch.compile's is not entered in a measured step."""
        from . import _model
        module, eager = self._model, _model.called(self._model)
        own = module.__dict__.get("forward")
        original = module.forward
        compiled = eager is not module and "_orig_mod" in module._modules

        def forward(called: nn.Module, *arguments: Any, **named: Any) -> Any:
            if called is not module:  # a copy that was made while it is watched
                return type(called).forward(called, *arguments, **named)
            if self._is_over:
                self.end()
            if self._is_due():
                return self._measured(eager if compiled else original, arguments, named)
            return original(*arguments, **named)

        module.forward = types.MethodType(forward, module)  # which goes with a copy
        self._restore.append(lambda: module.__dict__.pop("forward") if own is None
                             else setattr(module, "forward", own))

    def _is_due(self) -> bool:
        import torch
        if not (self._active and torch.is_grad_enabled() and self._network.training):
            return False
        self._forwards += 1
        return (self._forwards - 1) % self._every == 0

    def _measured(self, forward: Callable[..., Any], arguments: tuple[Any, ...],
                  named: dict[str, Any]) -> Any:
        """If the probe fails in it, the forward is computed again without, from the same random state."""
        from . import _model
        random_state = _model.RandomState()
        try:
            with _model.eager():
                output = self._probed(forward, arguments, named)
        except Exception as error:
            self._abandon()
            if not _is_of_probe(error):
                raise
            random_state.restore()
            output = forward(*arguments, **named)  # which raises what is the model's own
            self._stop(error)
            return output
        self._guarded(lambda: self._end_after_backward(output))
        return output

    def _probed(self, forward: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """The call of this module has begun, and takes no more hooks: the probe's are called here."""
        kinds = "_forward_pre_hooks", "_forward_hooks"
        old = [set(getattr(self._model, kind)) for kind in kinds]
        self.begin(self._forwards - 1)
        ahead, behind = (_new_hooks(self._model, *pair) for pair in zip(kinds, old))
        for hook, takes_named in ahead:
            hook(self._model, arguments, *([named] if takes_named else []))
        output = forward(*arguments, **named)
        for hook, takes_named in behind:
            hook(self._model, arguments, *([named] if takes_named else []), output)
        return output

    def _end_after_backward(self, output: Any) -> None:
        import torch
        from . import _model
        engine = torch.autograd.Variable._execution_engine
        probe = self._probe

        def end() -> None:
            self._is_over = self._probe is probe
            if self._is_over and threading.get_ident() == self._thread:
                self.end()  # else at the next forward: what the probe has changed may be its thread's

        def arrived(gradient: Any) -> None:
            self._guarded(lambda: engine.queue_callback(end))

        for tensor in _model.tensors(output):
            if tensor.requires_grad and not tensor.is_leaf:
                tensor.register_hook(arrived)

    # -- Errors --

    def _guarded(self, function: Callable[[], object]) -> None:
        try:
            function()
        except Exception as error:
            self._abandon()
            self._stop(error)

    def _abandon(self) -> None:
        probe, self._probe = self._probe, None
        if probe is not None:
            try:
                probe.__exit__(RuntimeError, None, None)  # whatever it says
            except Exception:
                pass

    def _stop(self, error: Exception) -> None:
        self._active = False
        text = " ".join(f"{type(error).__name__}: {error}".split())
        _warn(f"addnorm.watch has stopped, training goes on: {text}")


def _warn(text: str) -> None:
    """Also where warnings are errors: those would end the training."""
    try:
        warnings.warn(text, stacklevel=2)
    except Warning:
        print(text, file=sys.stderr)


def _new_hooks(module: nn.Module, kind: str, old: set[int]) -> list[tuple[Callable[..., object], bool]]:
    """Takes those that were not there before from the module; and whether each wants named arguments."""
    hooks = getattr(module, kind)
    takes_named = getattr(module, f"{kind}_with_kwargs", {})
    return [(hooks.pop(key), key in takes_named) for key in list(hooks) if key not in old]


def _is_of_probe(error: Exception) -> bool:
    """Whether the probe was at work: then the error may be its own."""
    from . import probe
    home = os.path.dirname(str(probe.__file__))
    return isinstance(error, probe.ProbeError) or any(
        os.path.dirname(frame.f_code.co_filename) == home
        for frame, _ in traceback.walk_tb(error.__traceback__))


def _as_log(log: Any) -> Log | None:
    """SummaryWriter's methods want one call for each number."""
    writer = getattr(log, "__self__", None)
    if getattr(log, "__name__", "") in ("add_scalar", "add_scalars") and writer is not None:
        from .integrations.loggers import tensorboard
        return tensorboard(writer)
    result: Log | None = log
    return result
