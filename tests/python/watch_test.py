"""addnorm.watch: its measurements and their steps. Training is the same as without it."""

import copy
import gc
import inspect
import json
import pickle
import re
import warnings
import weakref

import addnorm
import pytest

torch = pytest.importorskip("torch")
import small_models  # noqa: E402
import addnorm.probe  # noqa: E402

X, Y = small_models.tokens(), small_models.tokens(seed=2)
MISSING = {2: "residual-missing"}


def train(model, steps, calls=None, batches=1, optimizers=None, skipped=()):
    """Returns the losses of `steps` steps with `batches` micro-batches; `calls` is the model as the loop calls it. In a
    skipped step the optimizers do not step, as under a GradScaler that has found an infinity."""
    torch.manual_seed(3)
    optimizers = optimizers or [torch.optim.AdamW(model.parameters(), 1e-3)]
    losses = []
    for step in range(steps):
        for _ in range(batches):
            loss = (model if calls is None else calls)(X, Y)["loss"]
            loss.backward()
            losses.append(loss.item())
        for optimizer in optimizers:
            if step not in skipped:
                optimizer.step()
            optimizer.zero_grad()
    return losses


def steps_of(report):
    return sorted({json.loads(line)["step"] for line in report.profile.splitlines()[1:]})


def test_the_first_of_every_so_many_steps_is_measured_with_its_gradients(tmp_path):
    model, logged, file = small_models.decoder(), [], tmp_path / "profile.jsonl"
    with addnorm.watch(model, every=3, log=lambda numbers, step: logged.append((step, numbers)),
                       path=file) as watched:
        train(model, 4)
        assert steps_of(addnorm.Report.read(file)) == [0, 3]  # during the watch
        train(model, 3)
    assert [step for step, _ in logged] == [0, 3, 6]
    assert steps_of(watched.report) == steps_of(addnorm.Report.read(file)) == [0, 3, 6]
    for layer in range(4):
        assert logged[1][1][f"addnorm/layer {layer}/attention/sum_grad_rms"] > 0
    assert logged[1][1]["addnorm/head/output_rms"] > 0
    assert logged[0][1] != logged[1][1]
    assert addnorm.Report.read(file).profile == watched.report.profile
    # The numbers of step 0 equal those of a check on the same batch.
    checked = addnorm.check(small_models.decoder().eval(), {"tokens": X, "targets": Y})
    key = "addnorm/layer 0/attention/x_rms"
    assert checked.numbers()[key] == pytest.approx(logged[0][1][key], rel=1e-6)


def test_training_is_the_same_to_the_bit_and_nothing_is_left():
    plain, model = small_models.decoder(), small_models.decoder()
    expected = train(plain, 5)
    own = sorted(vars(model))
    with addnorm.watch(model, every=2) as watched:
        assert train(model, 5) == expected
    assert steps_of(watched.report) == [0, 2, 4]
    assert sorted(vars(model)) == own
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), model.parameters()))


def test_no_hook_is_there_in_steps_between():
    model, seen = small_models.decoder(), []
    with addnorm.watch(model, every=3):
        for _ in range(4):
            loss = model(X, Y)["loss"]
            loss.backward()
            seen.append(sum(len(m._forward_hooks) for m in model.modules()))
    assert seen == [0, 0, 0, 0]


def test_a_finding_is_a_warning_once():
    model = small_models.decoder(bugs=MISSING)
    with pytest.warns(UserWarning) as caught:
        with addnorm.watch(model, every=1):
            train(model, 3)
    assert len(caught) == 1
    assert "step 0: residual-missing at layer 2, feed-forward" in str(caught[0].message)
    for ignore in "residual-missing", ["residual-missing@layer 2"]:
        with warnings.catch_warnings(record=True) as caught:  # where warnings are errors, watch prints them
            warnings.simplefilter("always")
            with addnorm.watch(model, every=1, ignore=ignore) as watched:
                train(model, 2)
        assert caught == [] and watched.report.sound


def test_a_rule_is_one_warning_with_all_its_layers():
    model = small_models.decoder(bugs=dict.fromkeys(range(4), "residual-twice"))
    with pytest.warns(UserWarning) as caught:
        with addnorm.watch(model, every=1) as watched:
            train(model, 3)
    rules = {f.rule for f in watched.report.findings if f.severity != "note"}
    assert "residual-twice" in rules and len(watched.report.findings) > len(rules)
    texts = [str(warning.message) for warning in caught]
    for rule in rules:
        assert sum(f": {rule} at " in text for text in texts) == 1, texts
    assert len(texts) == len(rules)
    assert any("residual-twice at layers 0 to 3, feed-forward" in text for text in texts)


def halves(model):
    """Returns two optimizers, each for half of the parameters."""
    parameters = list(model.parameters())
    middle = len(parameters) // 2
    return [torch.optim.SGD(parameters[:middle], 1e-3), torch.optim.AdamW(parameters[middle:], 1e-3)]


@pytest.mark.parametrize("how, expected", [
    ({"batches": 4}, [0, 2, 4]),
    ({"batches": 3, "skipped": [0, 3]}, [0, 2]),
    ({"skipped": [1]}, [0, 2]),
    ({"optimizers": halves}, [0, 2, 4]),
    ({"optimizers": halves, "batches": 2}, [0, 2, 4])], ids=str)
def test_steps_are_those_of_the_optimizer(how, expected):
    model, logged = small_models.decoder(), []
    if "optimizers" in how:
        how = {**how, "optimizers": how["optimizers"](model)}
    with addnorm.watch(model, every=2, log=lambda _, step: logged.append(step)):
        train(model, 5, **how)
    assert logged == expected


def test_a_step_of_a_grad_scaler_that_met_an_infinity_is_none():
    if not hasattr(torch, "amp") or not hasattr(torch.amp, "GradScaler"):
        pytest.skip("PyTorch before 2.3 has no GradScaler on the CPU")
    model, logged = small_models.decoder(), []
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=1000)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    with addnorm.watch(model, every=1, log=lambda _, step: logged.append(step)):
        for batch in range(4):
            scaler.scale(model(X, Y)["loss"] * (float("inf") if batch == 1 else 1)).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    assert logged == [0, 1, 2]


def test_forwards_within_a_step_are_of_that_step():
    if not hasattr(torch.optim.Optimizer, "register_step_post_hook"):
        pytest.skip("PyTorch before 2.0 does not say when an optimizer steps")
    model, logged = small_models.decoder(), []
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)

    def closure():
        optimizer.zero_grad()
        loss = model(X, Y)["loss"]
        loss.backward()
        return loss

    with addnorm.watch(model, every=1, log=lambda _, step: logged.append(step)):
        for _ in range(3):
            optimizer.step(closure)
    assert logged == [0, 1, 2]


def test_a_loop_without_an_optimizer_has_steps():
    model, logged = small_models.decoder(), []
    with addnorm.watch(model, every=2, log=lambda _, step: logged.append(step)):
        for _ in range(4):
            for _ in range(2):
                model(X, Y)["loss"].backward()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter -= 1e-3 * parameter.grad
                    parameter.grad = None
    assert logged == [0, 2]


def test_what_changes_in_a_forward_or_another_model_is_no_step():
    model, other, logged = small_models.decoder(), small_models.decoder(seed=1), []
    model.embedding.max_norm = 0.5  # the forward applies it to the weight
    with addnorm.watch(model, every=1, log=lambda _, step: logged.append(step)):
        for _ in range(3):
            model(X, Y)["loss"].backward()
            train(other, 1)
    assert logged == [0]


def test_the_number_of_the_step_can_be_given():
    model, logged, numbers = small_models.decoder(), [], iter([4999, 5000, 5001, 5003, 5009, 5010])
    with addnorm.watch(model, every=5, step=lambda: next(numbers),
                       log=lambda _, step: logged.append(step)):
        train(model, 6)
    assert logged == [4999, 5000, 5009, 5010]  # the first of each five


def test_a_step_that_stays_is_named(monkeypatch):
    monkeypatch.setitem(addnorm.watch.__init__.__globals__, "_MANY_FORWARDS", 5)
    model = small_models.decoder()
    with pytest.warns(UserWarning, match=r"5 forwards, and still step 0.*step=lambda") as caught:
        with addnorm.watch(model, every=1):
            for _ in range(7):
                model(X, Y)["loss"].backward()
                for parameter in model.parameters():
                    parameter.data.sub_(1e-3)  # PyTorch does not count this as a change
    assert len(caught) == 1
    with pytest.warns(UserWarning, match="update-missing.*in 5 forwards and backwards") as caught:
        with addnorm.watch(model, every=1):
            for _ in range(7):
                model(X, Y)["loss"].backward()
    assert len(caught) == 1


def test_warnings_as_errors_do_not_stop_training(capsys):
    model = small_models.decoder(bugs=MISSING)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with addnorm.watch(model, every=1) as watched:
            assert len(train(model, 3)) == 3
    assert steps_of(watched.report) == [0, 1, 2]
    assert "residual-missing" in capsys.readouterr().err


def fails(*_, **__):
    raise RuntimeError("it is broken")


def probe_that_fails(probing):
    """Makes the probe fail in a hook of the third layer."""
    original = probing.probe

    def probe(model, **options):
        p = original(model, **options)
        enter = p.__enter__

        def fails_later(*_):
            raise probing.ProbeError("it is broken")

        def enter_and_fail():
            enter()
            p._undo.callback(model.layers[2].register_forward_hook(fails_later).remove)

        p.__enter__ = enter_and_fail
        return p

    return probe


@pytest.mark.parametrize("where", ["log", "path", "options", "probe in forward", "recorder in forward",
                                   "probe at the end"])
def test_an_error_within_ends_the_watching_and_not_the_training(where, monkeypatch, tmp_path):
    options = {"log": {"log": fails}, "path": {"path": tmp_path / "none" / "file"},
               "options": {"layers": "nothing"}}.get(where, {})
    if where == "probe in forward":
        monkeypatch.setattr(addnorm.probe, "probe", probe_that_fails(addnorm.probe))
    if where == "recorder in forward":
        monkeypatch.setattr("addnorm.probe.record.recorder.Recorder._result", fails)
    if where == "probe at the end":
        monkeypatch.setattr(addnorm.probe.Probe, "text", fails)
    model, expected = small_models.decoder(), train(small_models.decoder(), 4)
    if where.endswith("in forward"):
        model.calls -= 1  # its forward ran a second time
    with pytest.warns(UserWarning) as caught:
        with addnorm.watch(model, every=1, **options):
            assert train(model, 4) == expected
    assert len(caught) == 1 and "addnorm.watch has stopped, training goes on" in str(caught[0].message)
    assert "forward" not in vars(model)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


@pytest.mark.parametrize("raises", [False, True])
def test_a_full_disk_ends_the_watching_and_not_the_training(raises):
    class Stopped(Exception):
        pass

    model = small_models.decoder()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with addnorm.watch(model, every=2, path="/dev/full"):
                losses = train(model, 3)
                if raises:
                    raise Stopped
        except Stopped:
            assert raises
    stopped = [str(w.message) for w in caught if "addnorm.watch has stopped, training goes on" in str(w.message)]
    assert len(stopped) == 1 and "No space left on device" in stopped[0]
    assert losses == train(small_models.decoder(), 3)


def test_an_error_of_the_model_is_the_models():
    model = small_models.decoder()
    with addnorm.watch(model, every=1) as watched:
        with pytest.raises((RuntimeError, IndexError)):
            model(X + 1000)
        assert len(train(model, 2)) == 2
    assert steps_of(watched.report) == [0, 1]  # watching continues after the failed step
    assert not any(m._forward_hooks for m in model.modules())


def test_evaluation_is_no_step():
    model = small_models.decoder()
    with addnorm.watch(model, every=2) as watched:
        for _ in range(3):
            train(model, 1)
            with torch.no_grad():
                model(X)
            model.eval()
            model(X)
            model.train()
    assert steps_of(watched.report) == [0, 2]


def test_two_forwards_before_a_backward():
    model = small_models.decoder()
    with addnorm.watch(model, every=4) as watched:
        (model(X, Y)["loss"] + model(Y, X)["loss"]).backward()
    line = json.loads(watched.report.profile.splitlines()[-2])
    assert steps_of(watched.report) == [0] and "grad_rms" in line


def test_no_step_keeps_its_activations():
    model, outputs = small_models.decoder(), []

    def calls(*inputs):
        output = model(*inputs)
        outputs.append(weakref.ref(output["loss"]))
        return output
    with addnorm.watch(model, every=2):
        train(model, 6, calls)
        gc.collect()
        assert [output() is None for output in outputs] == [True] * 6


def test_memory_is_bounded():
    model = small_models.decoder(2)
    with addnorm.watch(model, every=1) as watched:
        train(model, 12)
    assert steps_of(watched.report) == [0, 8, 9, 10, 11]


def test_a_compiled_model_is_measured_as_it_was_written():
    if not hasattr(torch, "compile"):
        pytest.skip("PyTorch before 2.0 has no torch.compile")
    model = small_models.decoder(bugs=MISSING)
    compiled = torch.compile(model, backend="eager")
    with pytest.warns(UserWarning, match="residual-missing at layer 2"):
        with addnorm.watch(compiled, every=2) as watched:
            assert len(train(model, 4, calls=compiled)) == 4
    assert steps_of(watched.report) == [0, 2]
    assert compiled(X, Y)["loss"].requires_grad


def test_a_copy_that_is_made_within_is_a_model_of_its_own():
    model = small_models.decoder().eval()
    expected = model(X)
    with addnorm.watch(model, every=1):
        copies = copy.deepcopy(model), pickle.loads(pickle.dumps(model))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.zero_()
        for made in copies:
            assert torch.equal(made(X), expected)
        assert not torch.equal(model(X), expected)
    assert all(torch.equal(made(X), expected) for made in copies)


def test_the_watched_forward_has_the_models_signature():
    model = small_models.decoder()
    signature, text = inspect.signature(model.forward), model.forward.__doc__
    with addnorm.watch(model, every=1):
        assert inspect.signature(model.forward) == signature
        assert model.forward.__doc__ == text and model.forward.__name__ == "forward"
        train(model, 1)
    assert inspect.signature(model.forward) == signature and "forward" not in vars(model)


@pytest.mark.parametrize("options, error, text", [
    ({"layers": 5}, addnorm.Error, "layers is 5, must be a module's name, or a list of modules"),
    ({"tokens": 0}, addnorm.Error, "tokens is 0, must be a whole number, at least 1"),
    ({"layer": "h"}, TypeError, "watch() has no option 'layer'; expected one of layers, attention")])
def test_bad_options_are_errors_before_the_training(options, error, text):
    with pytest.raises(error, match=re.escape(text)):
        addnorm.watch(small_models.decoder(), **options)


def test_a_name_to_ignore_that_is_no_rule_is_an_error_before_the_training():
    with pytest.raises(addnorm.Error, match='"residual-mising" is no rule.*; the nearest is residual-missing'):
        addnorm.watch(small_models.decoder(), ignore="residual-mising@layer 2")


def test_every_is_at_least_one():
    with pytest.raises(addnorm.Error, match="every is 0, must be at least 1"):
        addnorm.watch(small_models.decoder(), every=0)
