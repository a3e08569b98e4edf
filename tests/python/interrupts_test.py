"""The doctor leaves no hook, mode or attribute: after an error, after an interrupt at any line, and if a
module does not allow hooks."""

import contextlib
import sys

import addnorm
import pytest

torch = pytest.importorskip("torch")
import addnorm._steps  # noqa: E402
import small_models  # noqa: E402
import torch.overrides  # noqa: E402
import torch.utils._python_dispatch  # noqa: E402
from addnorm._snapshot import unchanged  # noqa: E402
from addnorm._undo import Undo, run_undone  # noqa: E402
from addnorm.probe import probe  # noqa: E402
from torch import nn  # noqa: E402
from torch.optim import optimizer  # noqa: E402

X = small_models.tokens(1, 3)
torch.set_num_threads(1)  # more threads only slow down such small models


def small(**options):
    return small_models.decoder(1, **options)


def traces(model):
    """Everything that a context may leave in a model or in PyTorch."""
    found = []
    for name, module in model.named_modules():
        for registry, hooks in vars(module).items():
            if "_hooks" in registry and isinstance(hooks, dict) and hooks:
                found.append((name, registry, len(hooks)))
    for place in torch.nn.modules.module, optimizer:
        found += [(name, len(hooks)) for name, hooks in vars(place).items()
                  if name.startswith("_global") and isinstance(hooks, dict) and hooks]
    found += [(name, "tensor") for name, p in model.named_parameters() if p._backward_hooks]
    found += [(name, "forward") for name, module in model.named_modules()
              if "forward" in vars(module) and not isinstance(module, torch.jit.ScriptModule)]
    found += torch.utils._python_dispatch._get_current_dispatch_mode_stack()
    found += torch.overrides._get_current_function_mode_stack()
    found += ["no gradients"] if not torch.is_grad_enabled() else []
    return found


def bits(model):
    """Returns the bits of an output in evaluation."""
    training = [(module, module.training) for module in model.modules()]
    model.eval()
    with torch.no_grad():
        output = model(X)
    for module, mode in training:
        module.training = mode
    model.calls -= 1
    return output


def use_check(model):
    addnorm.check(model, X)


def use_check_without_behaviour(model):
    addnorm.check(model, X, behaviour=False)


def use_probe(model):
    with probe(model):
        model(X).sum().backward()


def use_probe_run(model):
    probe(model).run(X, loss=lambda y: y.sum())


def use_watch(model):
    with addnorm.watch(model, every=1):
        model(X).sum().backward()


def use_watch_by_steps(model):
    watched = addnorm.watch(model, every=1)
    try:
        watched.begin(0)
        model(X).sum().backward()
        watched.end()
    finally:
        watched.__exit__(*sys.exc_info())


def use_unchanged(model):
    unchanged(lambda: model(X).sum().backward(), model)


USES = [use_check, use_check_without_behaviour, use_probe, use_probe_run, use_watch, use_watch_by_steps, use_unchanged]


# -- Interrupts --


class Interrupt:
    """Records the lines that run in some modules of the package, and raises
    KeyboardInterrupt before the n-th of them."""

    def __init__(self, modules, n=None):
        self._files = {sys.modules[f"addnorm.{name}"].__file__ for name in modules}
        self._n, self.lines = n, []

    def __enter__(self):
        sys.settrace(self._call)
        return self

    def __exit__(self, *error):
        sys.settrace(None)

    def _call(self, frame, event, argument):
        return self._line if frame.f_code.co_filename in self._files else None

    def _line(self, frame, event, argument):
        if event == "line":
            self.lines.append((frame.f_code.co_filename, frame.f_lineno))
            if len(self.lines) - 1 == self._n:
                raise KeyboardInterrupt  # also ends the tracing
        return self._line


ENTERING = "_undo", "_modes", "_model", "_steps", "check", "watch", "probe.model_probe", \
    "probe.record.recording"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("use, modules", [
    (use_probe, ENTERING), (use_probe_run, ENTERING), (use_watch, ENTERING), (use_watch_by_steps, ENTERING),
    (use_check, ENTERING), (use_unchanged, ("_undo", "_modes", "_snapshot"))])
def test_an_interrupt_at_any_line_leaves_nothing(use, modules):
    """Interrupts each line at its first run, and lines that undo changes also at their last run."""
    model = small()
    expected = bits(model)
    use(model)
    assert not traces(model) and torch.equal(bits(model), expected)
    with Interrupt(modules) as whole:
        use(model)
    first = {line: n for n, line in reversed(list(enumerate(whole.lines)))}
    last = {line: n for n, line in enumerate(whole.lines) if "_undo" in line[0]}
    raised = 0
    for n in sorted({*first.values(), *last.values()}):
        with Interrupt(modules, n) as interrupt:
            try:
                use(model)
            except KeyboardInterrupt:
                raised += 1
        assert not traces(model), interrupt.lines[-1]
        assert torch.equal(bits(model), expected), interrupt.lines[-1]
    assert raised > 0.9 * len(first)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("use", USES)
def test_an_interrupt_in_the_model_leaves_nothing(use):
    model = small()
    expected = bits(model)
    calls = len([m for m in model.modules()])
    for n in range(0, calls, 3):
        module = list(model.modules())[n]
        handle = module.register_forward_hook(interrupt_forward)
        try:
            use(model)
        except KeyboardInterrupt:
            pass
        handle.remove()
        assert not traces(model) and torch.equal(bits(model), expected)


def interrupt_forward(*_):
    raise KeyboardInterrupt


def test_a_context_that_an_interrupt_has_caught_ends_before_the_undoing():
    """contextlib was interrupted before it could resume the generator, which changes state when it is freed."""
    changed = []

    @contextlib.contextmanager
    def changing():
        try:
            yield
        finally:
            changed.append("late")

    def run():
        with changing():
            sys.settrace(at_exit_of_contextlib)

    def at_exit_of_contextlib(frame, event, argument):
        if frame.f_code is contextlib._GeneratorContextManager.__exit__.__code__:
            raise KeyboardInterrupt

    try:
        with pytest.raises(KeyboardInterrupt):
            run_undone(run, changed.clear)
    finally:
        sys.settrace(None)
    assert changed == []


# -- Modules that do not allow hooks --


class Refusing(nn.Linear):
    """A linear map that allows some kinds of hooks, or none."""

    refuses = ()

    def register_forward_hook(self, *arguments, **named):
        if "forward" in self.refuses:
            raise RuntimeError("no hooks here")
        return super().register_forward_hook(*arguments, **named)

    def register_forward_pre_hook(self, *arguments, **named):
        if "forward_pre" in self.refuses:
            raise RuntimeError("no hooks here")
        return super().register_forward_pre_hook(*arguments, **named)


def with_refusing_parts(model, refuses):
    for layer in model.layers:
        old = layer.feed_forward[3]
        part = layer.feed_forward[3] = Refusing(old.in_features, old.out_features)
        part.load_state_dict(old.state_dict())
        part.refuses = refuses
    return model


def with_scripted_parts(model, name):
    for layer in model.layers:
        setattr(layer, name, torch.jit.script(getattr(layer, name)))
    return model


PARTS = {
    "no hook behind": lambda m: with_refusing_parts(m, ("forward",)),
    "no hook ahead": lambda m: with_refusing_parts(m, ("forward_pre",)),
    "no hook": lambda m: with_refusing_parts(m, ("forward", "forward_pre")),
    "scripted feed-forward": lambda m: with_scripted_parts(m, "feed_forward"),
    "scripted norm": lambda m: with_scripted_parts(m, "feed_forward_norm"),
}


@pytest.mark.parametrize("part", PARTS)
def test_a_part_without_hooks_is_measured_with_the_layer_around_it(part):
    """The findings and numbers equal those of the same model with a plain part."""
    bugs = {2: "residual-missing"}
    x = small_models.tokens()
    plain = addnorm.check(small_models.decoder(bugs=bugs).eval(), x)
    model = PARTS[part](small_models.decoder(bugs=bugs)).eval()
    expected = bits(model)
    report = addnorm.check(model, x)
    assert [finding.name for finding in report.findings] == [finding.name for finding in plain.findings]
    assert report.coverage.counts == plain.coverage.counts == {
        "sums": (8, 8), "norms": (9, 9), "attentions": (4, 4), "gradients": (8, 8)}
    numbers = plain.numbers()
    assert {key: value for key, value in report.numbers().items() if key in numbers} == pytest.approx(numbers, rel=1e-5)
    assert not traces(model) and torch.equal(bits(model), expected)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("use", USES)
def test_a_part_without_hooks_leaves_nothing(use, part):
    model = PARTS[part](small())
    expected = bits(model)
    use(model)
    assert not traces(model) and torch.equal(bits(model), expected)


def test_a_scripted_layer_is_named_as_not_measured():
    model = small_models.decoder(3)
    model.layers[1] = torch.jit.script(nn.TransformerEncoderLayer(small_models.WIDTH, 3, 48, batch_first=True))
    expected = bits(model)
    report = addnorm.check(model, small_models.tokens())
    assert report.coverage.counts["sums"] == (4, 4)
    assert ("layers.1", "it takes no hooks, as no module of torch.jit.script does") in report.coverage.left_out
    assert not traces(model) and torch.equal(bits(model), expected)


def test_a_scripted_model_is_one_line():
    model = torch.jit.script(nn.TransformerEncoderLayer(small_models.WIDTH, 3, 48))
    with pytest.raises(addnorm.Error, match="the model is a RecursiveScriptModule of torch.jit, .* expected the nn.Module"):
        addnorm.check(model, torch.randn(2, 5, small_models.WIDTH))


def test_a_step_that_fails_does_not_keep_the_others_from_being_taken_back():
    taken, undo = [], Undo()
    undo.callback(taken.append, 1)
    undo.callback(lambda: 1 / 0)
    undo.callback(taken.append, 2)
    with pytest.raises(ZeroDivisionError):
        undo.close()
    undo.close()
    assert taken == [2, 1]
