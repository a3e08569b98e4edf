"""Faults of the training loop that addnorm.watch finds, and sound loops in which it finds none."""

import gc
import warnings

import addnorm
import pytest

torch = pytest.importorskip("torch")
import small_models  # noqa: E402

needs_hooks = pytest.mark.skipif(not hasattr(torch.optim.Optimizer, "register_step_post_hook"),
                                 reason="PyTorch before 2.0 does not say when an optimizer steps")
X, Y = small_models.tokens(), small_models.tokens(seed=2)
torch.set_num_threads(1)  # the models are small
RULES = "update-missing", "gradient-not-cleared", "ranks-differ"
ADAM = torch.optim.AdamW


def backward(model, scale=1.0):
    (model(X, Y)["loss"] * scale).backward()


def run(model, loop, every=1, **options):
    """Runs loop(), which trains the model. Returns the findings about the training."""
    own = hooks(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with addnorm.watch(model, every=every, **options) as watched:
            loop()
    assert not watched._training._records and hooks(model) == own
    assert watched._active and watched.report is not None
    return [f for f in watched.report.findings if f.rule in RULES]


def hooks(model):
    return sum(len(p._backward_hooks or ()) for p in model.parameters())


def names(findings):
    return sorted({f.name for f in findings})


def steps(model, optimizer, count=4, between=lambda: None):
    def loop():
        for _ in range(count):
            backward(model)
            between()
            optimizer.step()
            optimizer.zero_grad()
    return loop


# -- Sound loops --


def accumulates(model, optimizer):
    for _ in range(4):
        for _ in range(3):
            backward(model)
        optimizer.step()
        optimizer.zero_grad()


def clears_before_backward(model, optimizer):
    for _ in range(4):
        loss = model(X, Y)["loss"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def clears_with_zeros(model, optimizer):
    for _ in range(4):
        backward(model)
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)


def clears_before_forward(model, optimizer):
    for _ in range(4):
        model.zero_grad()
        backward(model)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()


def warms_up(model, optimizer):
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: step / 10)
    for _ in range(4):
        backward(model)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()


def has_another_loss_between(model, optimizer):
    """A discriminator gets gradients from the generator's loss, which are cleared before its own step."""
    for _ in range(4):
        optimizer.zero_grad()
        backward(model)
        optimizer.step()
        backward(model)  # Accumulates into gradients that the step has already used.


def uses_closures(model, optimizer):
    def closure():
        optimizer.zero_grad()
        loss = model(X, Y)["loss"]
        loss.backward()
        return loss
    for _ in range(4):
        optimizer.step(closure)


def trains_another_model_too(model, optimizer):
    other = small_models.decoder(2, seed=5)
    others = torch.optim.SGD(other.parameters(), 0.1)
    for _ in range(4):
        for _ in range(3):
            model(X, Y)
            backward(other)
            others.step()
            others.zero_grad()
        backward(model)
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("loop", [accumulates, clears_before_backward, clears_with_zeros, clears_before_forward,
                                  warms_up, has_another_loss_between, uses_closures, trains_another_model_too])
@pytest.mark.parametrize("every", [1, 3])
def test_a_sound_loop_has_no_finding(loop, every):
    model = small_models.decoder(2)
    optimizer = ADAM(model.parameters(), 1e-3)
    assert run(model, lambda: loop(model, optimizer), every) == []


@pytest.mark.parametrize("make", [
    lambda p: torch.optim.SGD(p, 1e-2), lambda p: torch.optim.SGD(p, 1e-2, momentum=0.9),
    lambda p: torch.optim.SGD(p, 1e-12), lambda p: ADAM(p, 1e-3, foreach=True), lambda p: torch.optim.Adagrad(p, 1e-2),
    lambda p: torch.optim.LBFGS(p, max_iter=2)])
def test_optimizers_of_a_sound_loop(make):
    model = small_models.decoder(2)
    optimizer = make(list(model.parameters()))
    loop = uses_closures if isinstance(optimizer, torch.optim.LBFGS) else clears_before_forward
    assert run(model, lambda: loop(model, optimizer)) == []


def test_frozen_and_unused_parameters_are_no_finding():
    model = small_models.decoder(2)
    model.layers[0].requires_grad_(False)
    model.unused = torch.nn.Linear(3, 3)
    model.layers[1].feed_forward[3].weight.register_hook(torch.zeros_like)  # a gradient of exactly 0
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    assert run(model, steps(model, optimizer)) == []


@needs_hooks
@pytest.mark.parametrize("make", [lambda p: ADAM(p, 1e-3), lambda p: ADAM(p, 1e-3, fused=True)])
def test_steps_that_a_grad_scaler_skips_are_no_finding(make):
    if not hasattr(torch, "amp") or not hasattr(torch.amp, "GradScaler"):
        pytest.skip("PyTorch before 2.3 has no GradScaler on the CPU")
    model = small_models.decoder(2)
    optimizer = make(model.parameters())
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=1000)

    def loop(infinite):
        for step in range(4):
            scaler.scale(model(X, Y)["loss"] * (float("inf") if step in infinite else 1)).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    assert run(model, lambda: loop({0, 2})) == []
    assert run(model, lambda: loop(range(4))) == []


@needs_hooks
def test_copies_in_float32_are_trained_in_the_place_of_the_parameters():
    model = small_models.decoder(2).bfloat16()
    parameters = list(model.parameters())
    masters = [p.detach().float().clone() for p in parameters]
    optimizer = ADAM(masters, 1e-9)  # the 16-bit parameters do not change in these steps

    def loop():
        for _ in range(30):
            backward(model)
            for master, p in zip(masters, parameters):
                master.grad, p.grad = p.grad.float(), None
            optimizer.step()
            with torch.no_grad():
                for master, p in zip(masters, parameters):
                    p.data.copy_(master)
    assert run(model, loop) == []


# -- Lost steps --


@pytest.mark.parametrize("every", [1, 100])
def test_a_step_that_is_never_called_is_named(every):
    model = small_models.decoder(2)

    def loop():
        for _ in range(4):
            backward(model)
            model.zero_grad(set_to_none=True)
    finding, = run(model, loop, every)
    assert finding.name == "update-missing@model" and finding.severity == "broken"
    assert "in 4 forwards and backwards" in finding.seen


def test_a_step_that_is_never_called_is_named_while_the_training_goes_on():
    model = small_models.decoder(1)
    with pytest.warns(UserWarning, match="update-missing at model"):
        with addnorm.watch(model):
            with pytest.warns(UserWarning, match="update-missing at model.*in 21 forwards"):
                for _ in range(25):
                    backward(model)
                    model.zero_grad(set_to_none=True)
            warnings.warn("update-missing at model")  # for the outer expectation


@needs_hooks
def test_a_step_of_another_model_is_named():
    model, other = small_models.decoder(2), small_models.decoder(2)
    finding, = run(model, steps(model, torch.optim.SGD(other.parameters(), 0.1)))
    assert finding.name == "update-missing@model"
    count = len(list(other.parameters()))
    assert f"SGD stepped 4 times with {count} tensors, none of which is a parameter of this model" in finding.seen


@needs_hooks
def test_a_parameter_that_was_replaced_after_the_optimizer_was_made_is_named():
    model = small_models.decoder(2)
    optimizer = ADAM(model.parameters(), 1e-3)
    model.head = torch.nn.Linear(small_models.WIDTH, small_models.VOCABULARY)
    findings = run(model, steps(model, optimizer))
    assert names(findings) == ["update-missing@head.bias", "update-missing@head.weight"]
    assert "2 tensors that are no parameters of this model" in findings[0].seen
    assert {f.severity for f in findings} == {"suspicious"}


@needs_hooks
@pytest.mark.parametrize("every", [1, 10])
def test_a_parameter_that_no_optimizer_holds_is_named_after_some_steps(every):
    model = small_models.decoder(1)
    optimizer = ADAM([p for n, p in model.named_parameters() if "head" not in n], 1e-3)
    assert run(model, steps(model, optimizer, 5), every) == []
    assert names(run(model, steps(model, optimizer, 35), every)) == [
        "update-missing@head.bias", "update-missing@head.weight"]


@needs_hooks
def test_a_head_that_is_trained_alone_or_another_optimizer_that_steps_rarely_is_no_finding():
    model = small_models.decoder(1)
    assert run(model, steps(model, ADAM(model.head.parameters(), 1e-3), 35)) == []
    often = ADAM([p for n, p in model.named_parameters() if "head" not in n], 1e-3)
    rarely = ADAM(model.head.parameters(), 1e-3)

    def loop():
        for step in range(35):
            backward(model)
            often.step()
            if step % 5 == 4:
                rarely.step()
            model.zero_grad()
    assert run(model, loop) == []


@needs_hooks
@pytest.mark.parametrize("make, rate", [(ADAM, 1e-4), (torch.optim.SGD, 1e-6)])
def test_an_update_below_the_resolution_of_bfloat16_is_named(make, rate):
    model = small_models.decoder(2).bfloat16()
    findings = run(model, steps(model, make(model.parameters(), rate)))
    found = {f.where for f in findings}
    assert {"layers.0.attention_norm.weight", "final_norm.weight"} <= found and {f.rule for f in findings} == {
        "update-missing"}
    if make is ADAM:
        assert found == {n for n, p in model.named_parameters() if "norm.weight" in n}
    seen = next(f.seen for f in findings if f.where == "final_norm.weight")
    assert f"{make.__name__} moves values of about 1 by about" in seen and "rounded away in bfloat16" in seen
    model = small_models.decoder(2)  # in float32
    assert run(model, steps(model, make(model.parameters(), rate))) == []


@needs_hooks
def test_an_update_that_another_library_may_round_stochastically_is_no_finding():
    class Rounding(ADAM):
        pass
    model = small_models.decoder(2).bfloat16()
    assert run(model, steps(model, Rounding(model.parameters(), 1e-4))) == []
    assert run(model, steps(model, ADAM(model.parameters(), 0.0))) == []
    assert run(model, steps(model, ADAM(model.parameters(), 1e-2))) == []


# -- Gradients that are not cleared --


@needs_hooks
@pytest.mark.parametrize("batches", [1, 3])
@pytest.mark.parametrize("every", [1, 2])
def test_gradients_that_are_not_cleared_are_named(batches, every):
    model = small_models.decoder(2)
    optimizer = ADAM(model.parameters(), 1e-3)

    def loop():
        for _ in range(4):
            for _ in range(batches):
                backward(model)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
    finding, = {f.name: f for f in run(model, loop, every)}.values()
    assert finding.name == "gradient-not-cleared@model" and "4 of 4 sampled parameters" in finding.seen


@needs_hooks
def test_of_two_optimizers_the_one_that_is_not_cleared_is_named():
    model = small_models.decoder(2)
    head = torch.optim.SGD(model.head.parameters(), 1e-3)
    others = ADAM([p for n, p in model.named_parameters() if "head" not in n], 1e-3)

    def loop():
        for _ in range(3):
            backward(model)
            others.step()
            head.step()
            others.zero_grad()
    assert names(run(model, loop)) == ["gradient-not-cleared@head.weight"]


# -- Cost and cleanup --


@needs_hooks
def test_hooks_between_measured_steps_do_nothing():
    model = small_models.decoder(1)
    optimizer, seen = ADAM(model.parameters(), 1e-3), []
    with addnorm.watch(model, every=4) as watched:
        for _ in range(8):
            seen.append((len(watched._training._records), hooks(model)))
            steps(model, optimizer, 1)()
    assert seen == [(0, 0), (1, 4), (0, 0), (0, 0), (0, 0), (1, 4), (0, 0), (0, 0)]


@needs_hooks
def test_a_measured_step_is_judged_with_one_transfer(monkeypatch):
    from addnorm import _numbers
    model, read = small_models.decoder(1).bfloat16(), []
    original = _numbers.Numbers.read
    monkeypatch.setattr(_numbers.Numbers, "read", lambda self: read.append(0) or original(self))
    run(model, steps(model, ADAM(model.parameters(), 1e-4), 6), every=2)
    assert len(read) == 3


def test_an_error_that_ends_the_training_is_not_judged():
    model = small_models.decoder(1)
    with pytest.raises(KeyError), warnings.catch_warnings():
        warnings.simplefilter("error")
        with addnorm.watch(model) as watched:
            for _ in range(5):
                backward(model)
                model.zero_grad(set_to_none=True)
            raise KeyError
    gc.collect()
    assert watched.report.findings == [] and not watched._training._records


def test_findings_are_in_the_file_and_can_be_ignored(tmp_path):
    model = small_models.decoder(1)

    def loop():
        for _ in range(4):
            backward(model)
            model.zero_grad(set_to_none=True)
    finding, = run(model, loop, path=tmp_path / "profile.jsonl")
    assert finding in addnorm.Report.read(tmp_path / "profile.jsonl").findings
    assert run(model, loop, ignore=["update-missing"]) == []
