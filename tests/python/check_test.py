"""addnorm.check: its findings, the state that it restores, and its messages about invalid input."""

import collections
import gc
import json
import types
import weakref

import addnorm
import pytest

torch = pytest.importorskip("torch")
import addnorm.behaviour  # noqa: E402
import small_models  # noqa: E402
from torch import nn  # noqa: E402

MISSING = {2: "residual-missing"}


def lines(report):
    return [json.loads(line) for line in report.profile.splitlines()[1:]]


def state(model):
    """Everything that must not change, as bits."""
    return {"state": {k: v.clone() for k, v in model.state_dict().items()},
            "grad": [(p.grad, None if p.grad is None else p.grad.clone()) for p in model.parameters()],
            "modes": [m.training for m in model.modules()],
            "rng": torch.get_rng_state(),
            "hooks": [len(m._forward_hooks) + len(m._forward_pre_hooks) + len(m._backward_hooks)
                      for m in model.modules()],
            "own": [sorted(vars(m)) for m in model.modules()]}


def assert_same(before, after):
    assert all(torch.equal(v, after["state"][k]) for k, v in before["state"].items())
    for (one, values), (other, _) in zip(before["grad"], after["grad"]):
        assert one is other and (one is None or torch.equal(one, values))
    assert torch.equal(before["rng"], after["rng"])
    assert all(before[key] == after[key] for key in ("modes", "hooks", "own"))


def test_a_bug_is_named_with_its_place_and_a_sound_model_is_sound():
    x = small_models.tokens()
    report = addnorm.check(small_models.decoder(), x)
    assert report.sound and report.name == "Decoder"
    report.assert_sound()
    assert report.coverage.counts == {"sums": (8, 8), "norms": (9, 9), "attentions": (4, 4), "gradients": (8, 8)}
    assert str(report.coverage) == "8 of 8 sums, 9 of 9 norms, 4 of 4 attentions, 8 of 8 gradients measured"
    report = addnorm.check(small_models.decoder(bugs=MISSING), x)
    assert [(f.rule, f.severity, f.where) for f in report.findings if f.severity != "note"] == [
        ("residual-missing", "broken", "layer 2, feed-forward")]
    assert report.findings[0].layer == 2 and report.findings[0].sublayer == "feed_forward"
    assert addnorm.check(small_models.decoder(bugs=MISSING), x, ignore="residual-missing@layer 2").sound
    with pytest.raises(AssertionError, match="residual-missing"):
        report.assert_sound()


@pytest.mark.parametrize("loss", [None, lambda output: output["loss"]])
def test_nothing_keeps_the_model_alive(loss):
    model, x = small_models.decoder(), small_models.tokens()
    addnorm.check(model, (x, x), loss=loss)
    alive = weakref.ref(model)
    del model
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("training", [True, False])
def test_the_model_and_the_generators_are_left_as_they_were(training):
    model = small_models.decoder()
    x, y = small_models.tokens(), small_models.tokens(seed=2)
    model(x, y)["loss"].backward()
    model.train(training)
    model.layers[1].eval()
    next(model.parameters()).grad = None
    torch.manual_seed(7)
    before = state(model)
    with torch.no_grad():
        report = addnorm.check(model, (x, y))
        assert not torch.is_grad_enabled()
    assert_same(before, state(model))
    assert any("grad_rms" in line for line in lines(report))
    values = torch.randn(2, 5, small_models.WIDTH, requires_grad=True)
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(small_models.WIDTH, 3, 48, batch_first=True,
                                                               norm_first=True), 2)
    addnorm.check(encoder, values)
    assert values.grad is None


def test_every_layer_gets_a_gradient_even_where_the_mean_square_is_constant():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(small_models.WIDTH, 3, 48, batch_first=True)  # the layer ends with a norm
    model = nn.TransformerEncoder(layer, 3)
    x = torch.randn(2, 9, small_models.WIDTH)
    gradients = [line["grad_rms"] for line in lines(addnorm.check(model, x)) if line.get("point") == "sum"]
    squares = addnorm.check(model, x, loss=lambda y: y.square().mean())
    lost = [line["grad_rms"] for line in lines(squares) if line.get("point") == "sum"]
    assert len(gradients) == len(lost) == 6
    assert min(gradients) > 1e-4 and max(lost) < 1e-5


def test_a_loss_is_the_own_one_or_a_function_of_the_output():
    model = small_models.decoder().eval()
    x, y = small_models.tokens(), small_models.tokens(seed=2)

    def cross_entropy(logits):
        return nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten())

    def gradients(model, inputs, **options):
        return [line["grad_rms"] for line in lines(addnorm.check(model, inputs, **options))
                if line.get("point") == "sum"]

    class Giving(nn.Module):
        def __init__(self, make):
            super().__init__()
            self.inner, self.make = model, make

        def forward(self, tokens, targets):
            return self.make(**self.inner(tokens, targets))

    expected = gradients(model, x, loss=cross_entropy)
    Output = collections.namedtuple("Output", "logits loss")
    assert gradients(model, {"tokens": x, "targets": y}) == expected
    assert gradients(model, (x, y), loss="own") == expected
    assert gradients(model, (x, y), loss=lambda output: output["loss"]) == expected
    for make in types.SimpleNamespace, Output, lambda logits, loss: (logits, loss):
        assert gradients(Giving(make), (x, y)) == expected
    assert gradients(model, x) != expected


def failing(*_):
    raise RuntimeError("a hook of\nsomebody else")


def with_hook(model):
    model.layers[1].register_forward_hook(failing)
    return model


TOKENS = small_models.tokens()


@pytest.mark.parametrize("model, inputs, options, sentence", [
    (lambda: nn.Linear(4, 4), torch.ones(2, 4), {}, "no ModuleList or Sequential|layer"),
    (small_models.decoder, torch.ones(2, 3, 4, 5), {}, "the model failed on these inputs: "),
    (small_models.decoder, (TOKENS, TOKENS, TOKENS), {}, "the model failed on these inputs: TypeError"),
    (small_models.decoder, {"words": TOKENS}, {}, "the model failed .* 'words'"),
    (small_models.decoder, TOKENS, {"loss": lambda y: y}, r"loss\(output\) has the shape \(2, 12, 40\)"),
    (small_models.decoder, TOKENS, {"loss": lambda y: 3.0}, r"loss\(output\) is a float, must be a tensor"),
    (small_models.decoder, TOKENS, {"loss": lambda y: y.detach().sum()}, "does not depend on a parameter"),
    (small_models.decoder, TOKENS, {"loss": "own"}, "the output, a Tensor, has no loss of its own"),
    (small_models.decoder, TOKENS, {"loss": 3}, "loss: is 3, must be a function"),
    (lambda: with_hook(small_models.decoder()), TOKENS, {}, "RuntimeError: a hook of somebody else"),
    (small_models.decoder, TOKENS.to("meta"), {}, "inputs: a tensor is on meta, the model on cpu"),
    (small_models.decoder, TOKENS, {"layers": "blocks"}, "'blocks'"),
])
def test_what_cannot_be_is_one_line_and_leaves_the_model_as_it_was(model, inputs, options, sentence):
    model = model()
    before = state(model)
    with pytest.raises(addnorm.Error, match=sentence) as error:
        addnorm.check(model, inputs, **options)
    assert "\n" not in str(error.value)
    assert_same(before, state(model))


@pytest.mark.parametrize("options, error, text", [
    ({"layers": 5}, addnorm.Error, "layers is 5, must be a module's name, or a list of modules"),
    ({"layers": [1]}, addnorm.Error, "layers is [1], must be"),
    ({"attention": 5}, addnorm.Error, "attention is 5, must be a name or a list of names"),
    ({"feed_forward": [1]}, addnorm.Error, "feed_forward is [1], must be a name or a list of names"),
    ({"recipe": 5}, addnorm.Error, "recipe is 5, must be a dict of facts"),
    ({"batch_first": 1}, addnorm.Error, "batch_first is 1, must be True, False or None"),
    ({"tokens": "a"}, addnorm.Error, "tokens is 'a', must be a whole number, at least 1"),
    ({"tokens": -1}, addnorm.Error, "tokens is -1, must be"),
    ({"every": 2}, TypeError, "check() has no option 'every'; expected one of layers, attention, feed_forward")])
def test_a_bad_option_is_not_blamed_on_the_model(options, error, text):
    with pytest.raises(error) as raised:
        addnorm.check(small_models.decoder(), TOKENS, **options)
    assert str(raised.value).startswith(text)


def test_behaviour_adds_lines_or_says_why_not(monkeypatch):
    calls = []

    def measure(model, inputs, named, *, loss, optimizer):
        calls.append((inputs, named, loss, optimizer))
        return [], [{"where": "cache", "why": "the model has none"}]

    monkeypatch.setattr(addnorm.behaviour, "measure", measure)
    report = addnorm.check(small_models.decoder(), (TOKENS,), optimizer="an optimizer")
    assert report.coverage.left_out == [("cache", "the model has none")]
    assert calls == [((TOKENS,), {}, None, "an optimizer")]
    monkeypatch.setattr(addnorm.behaviour, "measure", failing)
    report = addnorm.check(small_models.decoder(), TOKENS)
    assert report.coverage.left_out[-1] == ("behaviour", "TypeError: failing() got an unexpected keyword "
                                            "argument 'loss'")
    assert report.sound and report.coverage.counts["sums"] == (8, 8)


def test_a_model_without_values():
    with pytest.raises(addnorm.Error, match="device meta"):
        addnorm.check(small_models.decoder().to("meta"), TOKENS)


def test_a_frozen_model_is_judged_by_its_forward():
    model = small_models.decoder(bugs=MISSING).requires_grad_(False)
    report = addnorm.check(model, TOKENS)
    assert [f.rule for f in report.findings if f.severity != "note"] == ["residual-missing"]
    assert not any("grad_rms" in line for line in lines(report))


def test_wrappers_are_looked_through():
    model = small_models.decoder(bugs=MISSING)
    expected = addnorm.check(model, TOKENS)
    assert addnorm.check(nn.DataParallel(model), TOKENS).profile == expected.profile
    if hasattr(torch, "compile"):
        compiled = torch.compile(model)
        assert addnorm.check(compiled, TOKENS).profile == expected.profile
        for i, layer in enumerate(model.layers):
            model.layers[i].feed_forward = torch.compile(layer.feed_forward)
        if hasattr(getattr(torch, "compiler", None), "set_stance"):
            assert [f.name for f in addnorm.check(model, TOKENS).findings] == [
                f.name for f in expected.findings]


def test_wrappers_for_several_processes_are_looked_through(tmp_path):
    distributed = torch.distributed
    if not distributed.is_available() or not distributed.is_gloo_available():
        pytest.skip("this PyTorch has no gloo")
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    try:
        model = small_models.decoder(bugs=MISSING)
        expected = addnorm.check(model, TOKENS)
        wrapped = nn.parallel.DistributedDataParallel(model)
        assert addnorm.check(wrapped, TOKENS).profile == expected.profile
        if int(torch.__version__.split(".")[0]) > 1:  # earlier versions of FSDP need a GPU
            from torch.distributed.fsdp import FullyShardedDataParallel
            wrapped = FullyShardedDataParallel(model, device_id=torch.device("cpu"))
            report = addnorm.check(wrapped, TOKENS)
            assert [f.name for f in report.findings] == [f.name for f in expected.findings]
    finally:
        distributed.destroy_process_group()


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_other_types(dtype):
    for bugs, rules in (None, []), (MISSING, ["residual-missing"]):
        report = addnorm.check(small_models.decoder(bugs=bugs).to(getattr(torch, dtype)), TOKENS)
        assert [f.rule for f in report.findings if f.severity != "note"] == rules


def test_autocast():
    for bugs, rules in (None, []), ({2: "residual-twice"}, ["residual-twice"]):
        with torch.autocast("cpu", torch.bfloat16):
            report = addnorm.check(small_models.decoder(bugs=bugs), TOKENS)
        assert [f.rule for f in report.findings if f.severity != "note"] == rules
