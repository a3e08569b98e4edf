"""addnorm.watch: the doctor during a training loop."""

from __future__ import annotations

import collections
import dataclasses
import inspect
import json
import os
import sys
import threading
import traceback
import types
import warnings
from typing import IO, TYPE_CHECKING, Any, Callable, Iterable

from . import _core
from ._undo import Exit, Undo, end_contexts, run_undone
from .report import Finding, Path, Report, names_of

if TYPE_CHECKING:
    from torch import nn

Log = Callable[[dict[str, float], int], object]

_KEPT_STEPS = 4  # the last ones; the first is kept as well, because rules compare with it
_MANY_FORWARDS = 1000  # more than a step has with gradient accumulation


class watch:
    """Watches a PyTorch model while it trains: measures at regular steps, and warns of faults. Masks, padding and
    caches, which addnorm.check tests by changing something, are not tested. Faults of the training itself are detected:
    steps that change no parameter, gradients that are not cleared, processes whose parameters differ.

        with addnorm.watch(model, every=100, path="profile.jsonl") as watched:
            for batch in batches:
                …                    # the loop as it is
        print(watched.report)

    every     measures the first of every `every` training steps, and of several micro-batches in it the
              first: its forward with gradients, and the backward through its output
    log       called after each measured step as log({"addnorm/layer 3/attention/sum_rms": 1.7, …}, step).
              addnorm.integrations.loggers has such functions for Weights & Biases and TensorBoard
    path      a file that is overwritten, and grows with each measured step; `addnorm doctor FILE` reads it
    step      a function that returns the number of the current training step, such as
              `lambda: engine.global_steps`. By default steps are counted from 0: a step ends when a PyTorch
              optimizer of the model has stepped, or before PyTorch 2.0 when the parameters have changed
    ignore    findings to leave out: "rule", or "rule@layer 2"
    tokens, options
              as in addnorm.check; fewer tokens cost less

    A rule with findings warns once, and names all places. Watching never stops the training: an internal error becomes
    a warning, after which nothing more is measured. Memory is bounded: `report` covers the first and the last few
    measured steps. No hook remains after the `with`, and a forward that is not measured has none. If steps are counted,
    such a forward costs a look at the parameters' versions.
    """

    def __init__(self, model: nn.Module, every: int = 100, log: Log | None = None, path: Path | None = None,
                 *, step: Callable[[], int] | None = None, tokens: int = 1024, ignore: Iterable[str] = (),
                 **options: Any) -> None:
        from . import _model
        from ._options import check_options
        from ._training import Training
        check_options("watch", {"tokens": tokens, **options})
        if every < 1:
            raise _core.Error(f"every is {every}, must be at least 1")
        self.report: Report | None = None
        self._model, self._every, self._log, self._path = model, every, _as_log(log), path
        self._options = {"tokens": tokens, **options}
        self._ignore = names_of(ignore)
        self._network = _model.network(model)
        self._training = Training(model, self._network, self._add)
        self._step, self._forwards = 0, 0
        self._number_of_step = step
        self._after_forward: Callable[[], None] = lambda: None
        self._active = True
        self._probe: Any = None  # set while it measures
        self._measured_step, self._thread, self._is_over = -1, 0, False
        self._header: dict[str, Any] | None = None
        self._first: tuple[int, list[str]] = 0, []
        self._kept: collections.deque[tuple[int, list[str]]] = collections.deque(maxlen=_KEPT_STEPS)
        self._warned: set[str] = set()  # names of rules
        self._file: IO[str] | None = None
        self._generators: list[Any] | None = None  # the model's own random generators
        self._undo = Undo()

    def __enter__(self) -> watch:
        try:
            self._guarded(self._attach)
            return self
        except BaseException:
            self._undo.close()
            raise

    def _leave(self, kind: Any = None, error: Any = None, traceback: Any = None) -> None:
        def end() -> None:
            end_contexts(traceback)
            if kind is None or self._is_over:
                self.end()
            if kind is None and self._active:
                self._guarded(self._training.close)

        run_undone(end, self._close)

    __exit__ = Exit(_leave)

    def _close(self) -> None:
        self._training.abandon()
        self._abandon()
        self._undo.close()
        self._close_file()

    def _close_file(self) -> None:
        """Closes the profile. If that fails, as on a full disk, the first failure has been or becomes a warning."""
        file, self._file = self._file, None
        try:
            if file is not None:
                file.close()  # writes what an earlier failed write has left in the buffer
        except OSError as error:
            if self._active:
                self._stop(error)

    # -- Steps; other training loops call these two instead of using `with` --

    def begin(self, step: int) -> None:
        """Begins the training step with this number, which lasts until end(). Its first
        batch is measured if it is due."""
        self.end()
        if self._active and self._is_next(step):
            self._guarded(lambda: self._begin(step))

    def _is_next(self, step: int) -> bool:
        """Whether none of the `every` steps around this one has been measured yet."""
        return step // self._every != self._measured_step // self._every

    def end(self) -> None:
        """Ends the step, after its backward."""
        if self._probe is not None:
            self._guarded(self._end)
            self._guarded(self._training.backward_done)

    def _begin(self, step: int) -> None:
        from .probe import probe as begin
        self._training.attach(self._undo, self._guarded)
        self._training.begin(step)
        self._probe, self._is_over = begin(self._network, **self._options), False
        self._measured_step, self._thread = step, threading.get_ident()
        self._probe(step).__enter__()

    def _end(self) -> None:
        from . import _model
        probe = self._probe
        probe.__exit__(None, None, None)
        self._probe = None
        header, lines = _model.profile_of(probe)
        self._keep(header, lines)
        report = self._judge(self._measured_step)
        if self._log is not None:
            self._log(report.numbers(), self._measured_step)

    def _judge(self, step: int) -> Report:
        """Returns the report on all kept steps. Warns once for each new rule, at all places where it applies now."""
        self.report = Report(self._text(), type(self._network).__name__, self._ignore)
        new: dict[str, Finding] = {}
        for finding in self.report.grouped():
            if finding.severity != "note" and finding.rule not in self._warned:
                first = new.setdefault(finding.rule, finding)
                if first is not finding:  # a finding with another fix
                    new[finding.rule] = dataclasses.replace(first, where=f"{first.where}; {finding.where}")
        self._warned.update(new)
        for finding in new.values():
            _warn(f"addnorm, step {step}: {finding}")
        return self.report

    def _keep(self, header: dict[str, Any], lines: list[str]) -> None:
        from . import _model
        if self._header is None:
            self._header, self._first = header, (self._measured_step, lines)
            if self._path is not None:
                self._file = open(self._path, "w", encoding="utf-8")
                self._file.write(_model.text_of(header, []))
        else:
            self._kept.append((self._measured_step, lines))
        self._write(lines)

    def _add(self, step: int, checks: list[dict[str, Any]]) -> None:
        """Adds facts of a measured step that became known later."""
        if self._header is None:
            return
        lines = [json.dumps(check, separators=(",", ":"), allow_nan=False) for check in checks]
        steps = [self._first, *self._kept]
        next((kept for number, kept in steps if number == step), steps[-1][1]).extend(lines)
        self._write(lines)
        self._judge(step)

    def _write(self, lines: list[str]) -> None:
        if self._file is not None:
            self._file.write("".join(f"{line}\n" for line in lines))
            self._file.flush()

    def _text(self) -> str:
        from . import _model
        assert self._header is not None
        return _model.text_of(self._header, [line for _, lines in [self._first, *self._kept] for line in lines])

    # -- The model's forward, as the loop calls it --

    def _attach(self) -> None:
        """Wraps the model's forward. A measured step does not enter torch.compile's forward."""
        from . import _model
        from ._steps import TrainingSteps
        if self._number_of_step is None:
            steps = TrainingSteps(self._model)
            steps.attach(self._undo)
            self._number_of_step, self._after_forward = steps.before_forward, steps.after_forward
        self._training.attach(self._undo, self._guarded)
        module, eager = self._model, _model.called(self._model)
        own = module.__dict__.get("forward")
        original = module.forward
        compiled = eager is not module and "_orig_mod" in module._modules

        def forward(called: nn.Module, *arguments: Any, **named: Any) -> Any:
            if called is not module:  # a copy that was made during the watch
                return type(called).forward(called, *arguments, **named)
            if self._is_over:
                self.end()
            try:
                if self._is_due():
                    return self._measured(eager if compiled else original, arguments, named)
                return original(*arguments, **named)
            finally:
                self._after_forward()

        self._undo.callback(_set_forward, module, own)
        self._undo.callback(self._abandon)
        _describe_as(forward, original)
        module.forward = types.MethodType(forward, module)  # a bound method is copied with the module

    def _is_due(self) -> bool:
        import torch
        if not (self._active and torch.is_grad_enabled() and self._network.training):
            return False
        self._guarded(self._count)
        return self._active and self._is_next(self._step)

    def _count(self) -> None:
        assert self._number_of_step is not None
        self._step = self._number_of_step()
        self._forwards += 1
        self._training.forward_begins()
        if self._forwards == _MANY_FORWARDS and self._step == self._measured_step and not self._training.is_lost():
            _warn(f"addnorm.watch: {_MANY_FORWARDS} forwards, and still step {self._step}, which alone is "
                  "measured. Give the number of the step: addnorm.watch(model, step=lambda: …)")

    def _measured(self, forward: Callable[..., Any], arguments: tuple[Any, ...],
                  named: dict[str, Any]) -> Any:
        """Runs a measured forward. If the probe fails in it, runs the forward again without the probe,
        from the same random state."""
        from . import _model
        from ._modes import Surroundings
        from ._snapshot import RandomState, find_generators
        if self._generators is None:
            self._generators = find_generators(self._network)
        random_state, surroundings, measured = RandomState(self._generators), Surroundings(), self._measured_step
        try:
            with _model.eager():
                output = self._probed(forward, arguments, named)
        except BaseException as error:
            end_contexts(error.__traceback__)
            surroundings.restore()
            self._abandon()
            self._measured_step = measured  # another forward of this step may be measured
            if not isinstance(error, Exception) or not _is_of_probe(error):
                raise
            random_state.restore()
            output = forward(*arguments, **named)  # raises the error if it is the model's own
            self._stop(error)
            return output
        self._guarded(lambda: self._end_after_backward(output))
        return output

    def _probed(self, forward: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Runs the forward under the probe. The module's call has already begun and ignores new hooks, so
        the probe's are called here."""
        kinds = "_forward_pre_hooks", "_forward_hooks"
        old = [set(getattr(self._model, kind)) for kind in kinds]
        self.begin(self._step)
        ahead, behind = (_new_hooks(self._model, *pair) for pair in zip(kinds, old))
        for hook, takes_named in ahead:
            hook(self._model, arguments, *([named] if takes_named else []))
        output = forward(*arguments, **named)
        for hook, takes_named in behind:
            hook(self._model, arguments, *([named] if takes_named else []), output)
        return output

    def _end_after_backward(self, output: Any) -> None:
        import torch
        from ._structure import tensors_in
        engine = torch.autograd.Variable._execution_engine
        probe = self._probe

        def end() -> None:
            self._is_over = self._probe is probe
            # Callbacks queued later run first, such as fully_shard's callback that sets gradients.
            self._guarded(lambda: engine.queue_callback(lambda: self._guarded(self._training.backward_done)))
            if self._is_over and threading.get_ident() == self._thread:
                self._guarded(self._end)  # else at the next forward, because the probe has changed thread-local state

        def arrived(gradient: Any) -> None:
            self._guarded(lambda: engine.queue_callback(end))

        for tensor in tensors_in(output) if probe is not None else ():
            if tensor.requires_grad and not tensor.is_leaf:
                probe.hook_gradient(tensor, arrived)

    # -- Errors --

    def _guarded(self, function: Callable[[], object]) -> None:
        try:
            function()
        except Exception as error:
            self._abandon()
            self._stop(error)
        except BaseException:
            self._abandon()
            raise

    def _abandon(self) -> None:
        if self._probe is not None:
            try:
                self._probe.__exit__(RuntimeError, None, None)  # ignores its result
            except Exception:
                pass
            self._probe = None

    def _stop(self, error: Exception) -> None:
        self._active = False
        self._training.abandon()
        text = " ".join(f"{type(error).__name__}: {error}".split())
        _warn(f"addnorm.watch has stopped, training goes on: {text}")


def _warn(text: str) -> None:
    """Warns without raising, because where warnings are errors this would end the training."""
    try:
        warnings.warn(text, stacklevel=2)
    except Warning:
        print(text, file=sys.stderr)


def _describe_as(forward: Any, original: Callable[..., Any]) -> None:
    """Gives a wrapper, whose first argument is the module, the name, text and signature of the bound method that it
    wraps. Hugging Face's Trainer looks there for the columns that a model reads."""
    forward.__name__, forward.__doc__ = getattr(original, "__name__", "forward"), original.__doc__
    try:
        signature = inspect.signature(original)
    except (TypeError, ValueError):  # a callable without one
        return
    module = inspect.Parameter("called", inspect.Parameter.POSITIONAL_ONLY)
    if all(parameter.name != module.name for parameter in signature.parameters.values()):
        forward.__signature__ = signature.replace(parameters=[module, *signature.parameters.values()])


def _set_forward(module: nn.Module, own: Any) -> None:
    """Restores the forward of a module: its own, or that of its class if own is None."""
    if own is None:
        vars(module).pop("forward", None)
    else:
        vars(module)["forward"] = own


def _new_hooks(module: nn.Module, kind: str, old: set[int]) -> list[tuple[Callable[..., object], bool]]:
    """Removes the hooks that are not in `old` from the module. Returns them, each with
    whether it takes named arguments."""
    hooks = getattr(module, kind)
    takes_named = getattr(module, f"{kind}_with_kwargs", {})
    return [(hooks.pop(key), takes_named.pop(key, False)) for key in list(hooks) if key not in old]


def _is_of_probe(error: Exception) -> bool:
    """Whether the probe was running, so that the error may be the probe's own."""
    from . import probe
    home = os.path.join(os.path.dirname(str(probe.__file__)), "")
    return isinstance(error, probe.ProbeError) or any(
        frame.f_code.co_filename.startswith(home)
        for frame, _ in traceback.walk_tb(error.__traceback__))


def _as_log(log: Any) -> Log | None:
    """Returns the log function for a SummaryWriter or a run of Weights & Biases, if `log` is a method of one. Used
    directly as log functions, these methods fail or lose numbers."""
    from .integrations import loggers
    name, owner = getattr(log, "__name__", ""), getattr(log, "__self__", None)
    if name in ("add_scalar", "add_scalars"):
        return loggers.tensorboard(owner)
    if name == "log" and type(owner).__module__.split(".")[0] == "wandb":
        return loggers.wandb(owner)
    result: Log | None = log
    return result
