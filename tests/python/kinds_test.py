"""Kinds of bugs, each in two implementations, with the most similar sound model."""

import math

import pytest

torch = pytest.importorskip("torch")
import addnorm  # noqa: E402
import kinds_models as models  # noqa: E402
from kinds_models import LAYERS, WIDTH, causal, replace  # noqa: E402
from torch import nn  # noqa: E402

torch.set_num_threads(1)  # more threads only slow down such small models
PLACES = [0, LAYERS // 2, LAYERS - 1]
ALL = range(LAYERS)


def mean_square(x):
    return x.square().mean(-1, keepdim=True)


def normalized(layer, x):
    """Returns the centred rows and deviations of the layer's norm: RMSNorm for modules, LayerNorm for functions."""
    centres = not isinstance(layer, models.Modules)
    x = x - x.mean(-1, keepdim=True) if centres else x
    return x, (mean_square(x) + (1e-5 if centres else 1e-6)).sqrt()


def with_gains(layer, number, x):
    """γ ⊙ x + β with the parameters of one of the layer's norms."""
    if isinstance(layer, models.Modules):
        norms = {**layer._modules, **{name[:-7]: m for name, m in layer._modules.items() if name.endswith("_module")}}
        return norms[f"norm_{number}"].weight * x
    return getattr(layer, f"gamma_{number}") * x + getattr(layer, f"beta_{number}")


def norm_by(divided):
    """Returns a norm before attention that computes `divided(rows, deviation)` from centred rows."""
    return {"norm_1": lambda s, known, x: with_gains(s, 1, divided(*normalized(s, x)))}


def steps(**changed):
    return lambda layer, index: replace(layer, **changed)


# -- Added parts --


def lora(scale):
    """Adds a pair of matrices in parallel to the output projection."""
    def plant(layer, index):
        layer.lora_a = nn.Parameter(scale * torch.randn(4, WIDTH))
        layer.lora_b = nn.Parameter(torch.zeros(WIDTH, 4))
        replace(layer, combine=lambda s, known, v: known(v) + v @ s.lora_a.T @ s.lora_b.T)
    return plant


def router(weigh):
    def plant(layer, index):
        layer.router = nn.Linear(WIDTH, 3)
        replace(layer, feed=lambda s, known, h: known(h) * weigh(s.router(h).softmax(-1).amax(-1, keepdim=True)))
    return plant


def gate(bias):
    def plant(layer, index):
        layer.gate_bias = nn.Parameter(torch.full((WIDTH,), bias))
        replace(layer, feed=lambda s, known, h: known(h) * torch.sigmoid(s.gate_bias))
    return plant


def adapter(layer, index):
    """Adds an adapter with its own residual connection after the feed-forward."""
    layer.down, layer.up = nn.Linear(WIDTH, 6), nn.Linear(6, WIDTH)

    def feed(s, known, h):
        f = known(h)
        return f + s.up(torch.relu(s.down(f)))
    replace(layer, feed=feed)


class FusedAddNorm(torch.autograd.Function):
    """Computes s = x + f and y = (s − centre)/size. It has one of several backwards."""

    @staticmethod
    def forward(ctx, x, f, layer, way):
        s = x + f
        centred, size = normalized(layer, s)
        ctx.save_for_backward(centred / size, size)
        ctx.centres, ctx.way = not isinstance(layer, models.Modules), way
        return centred / size, s

    @staticmethod
    def backward(ctx, of_y, of_s):
        y, size = ctx.saved_tensors
        of_y = of_y + of_s if ctx.way == "through the norm" else of_y
        mean = of_y.mean(-1, keepdim=True) if ctx.centres else 0
        back = (of_y - mean - y * (of_y * y).mean(-1, keepdim=True)) / size
        gradient = back + {"sound": 1, "half": 0.5}.get(ctx.way, 0) * of_s
        return gradient, gradient, None, None


def fused(way):
    def forward(s, known, x):
        y, x = FusedAddNorm.apply(x, s.attend(s.norm_1(x)), s, way)
        return s.join(x, s.feed(with_gains(s, 2, y)))
    return steps(forward=forward)


class NormAndSize(torch.autograd.Function):
    """Returns the normalized rows and their sizes. Nothing reads the sizes, so their gradient is None."""

    @staticmethod
    def forward(ctx, x, layer):
        centred, size = normalized(layer, x)
        ctx.save_for_backward(centred / size, size)
        ctx.centres = not isinstance(layer, models.Modules)
        ctx.set_materialize_grads(False)
        return centred / size, size

    @staticmethod
    def backward(ctx, of_y, of_size):
        y, size = ctx.saved_tensors
        return (of_y - (of_y.mean(-1, keepdim=True) if ctx.centres else 0)
                - y * (of_y * y).mean(-1, keepdim=True)) / size, None


def modulated(join, one):
    """adaLN: shift, scale and gate are functions of a condition."""
    def plant(layer, index):
        layer.condition = nn.Linear(8, 3 * WIDTH)
        given = torch.randn(2, 1, 8, generator=torch.Generator().manual_seed(3))

        def forward(s, known, x):
            shift, scale, g = s.condition(given).chunk(3, -1)
            x = join(x, s.attend(s.norm_1(x) * (one + scale) + shift), g)
            return s.join(x, s.feed(s.norm_2(x)))
        replace(layer, forward=forward)
    return plant


def scaled_by_depth(layer, index):
    replace(layer, norm_1=lambda s, known, x: known(x) / math.sqrt(index + 1),
            norm_2=lambda s, known, x: known(x) / math.sqrt(index + 1))


def added_norm(s, known, x):
    h = s.norm_1(x)
    x = x + s.attend(h) + h
    return s.join(x, s.feed(s.norm_2(x)))


def stale(s, known, x):
    """A layer whose feed-forward reads the norm of the layer's input."""
    return x + s.attend(s.norm_1(x)) + s.feed(s.norm_2(x))


def gains_around_zero(layer, index):
    for name, parameter in layer.named_parameters():
        if "norm_" in name or "gamma_" in name:
            nn.init.normal_(parameter, std=0.02)


BUGS = {  # the rule, the layers with the bug, and the function that plants it
    "LoRA of zeros, in one layer": ("gradient-zero", [2], lora(0)),
    "LoRA of zeros": ("gradient-zero", ALL, lora(0)),
    "a router whose weight is always 1": ("gradient-zero", ALL, router(lambda top: top / top)),
    "a router whose weight is 1 in one layer": ("gradient-zero", [3], router(lambda top: top / top)),
    "a gate that is saturated": ("gradient-zero", [2], gate(60.)),
    "x·σ": ("norm-power", [2], steps(**norm_by(lambda x, size: x * size))),
    "x·σ everywhere": ("norm-power", ALL, steps(**norm_by(lambda x, size: x * size))),
    "x/σ²": ("norm-power", [2], steps(**norm_by(lambda x, size: x / size**2))),
    "x/√σ": ("norm-power", ALL, steps(**norm_by(lambda x, size: x / size.sqrt()))),
    "x·√σ": ("norm-power", [4], steps(**norm_by(lambda x, size: x * size.sqrt()))),
    "gains around 0": ("gain-around-zero", ALL, gains_around_zero),
    "a fused sum that drops the skip's gradient": ("residual-detached", [2], fused("dropped")),
    "fused sums that drop the skip's gradient": ("residual-detached", ALL, fused("dropped")),
    "a fused sum that sends it through the norm": ("residual-detached", [3], fused("through the norm")),
    "fused sums that send it through the norm": ("residual-detached", ALL, fused("through the norm")),
    "a fused sum that halves it": ("gradient-factor", [2], fused("half")),
    "softmax over queries, in one layer": (
        "softmax-axis", [2], steps(softmax=lambda s, known, z: causal(z).softmax(-2))),
    "softmax over queries": ("softmax-axis", ALL, steps(softmax=lambda s, known, z: causal(z).softmax(-2))),
    "softmax over heads": ("softmax-axis", ALL, steps(softmax=lambda s, known, z: causal(z).softmax(1))),
    "queries of the first token": (
        "attention-constant", [2], steps(norm_queries=lambda s, known, q: known(q)[:, :, :1].expand_as(q))),
    "keys of the first token": (
        "attention-constant", [2], steps(norm_keys=lambda s, known, k: known(k)[:, :, :1].expand_as(k))),
    "one head for all": ("heads-alike", [2], steps(
        norm_queries=lambda s, known, q: known(q)[:, :1].expand_as(q),
        norm_keys=lambda s, known, k: known(k)[:, :1].expand_as(k))),
    "a residual inside a feed-forward": ("residual-twice", [2], steps(feed=lambda s, known, h: known(h) + h)),
    "residuals inside feed-forwards": ("residual-twice", ALL, steps(feed=lambda s, known, h: h + known(h))),
    "a residual inside attention": ("residual-twice", [3], steps(attend=lambda s, known, h: known(h) + h)),
    "residuals inside attention": ("residual-twice", ALL, steps(attend=lambda s, known, h: known(h) + h)),
    "half a residual inside": ("residual-twice", ALL, steps(feed=lambda s, known, h: known(h) + h / 2)),
    "two residuals inside": ("residual-twice", [2], steps(feed=lambda s, known, h: h + known(h) + h)),
    "gates of whole sums": ("stream-gated", ALL, modulated(lambda x, f, g: g * (x + f), 1)),
    "a scale without its 1": ("modulation-around-zero", ALL, modulated(lambda x, f, g: x + g * f, 0)),
}
ODD = {  # bugs of one layer, tested in each layer
    "(x + f)/2": ("stream-changed", steps(join_attention=lambda s, known, x, f: (x + f) / 2)),
    "x + f/2": ("branch-factor", steps(join=lambda s, known, x, f: x + f / 2)),
    "x + x": ("stream-changed", steps(join_attention=lambda s, known, x, f: x + x)),
    "x + f + h": ("stream-changed", steps(forward=added_norm)),
    "another norm's input": ("stream-changed", steps(forward=stale)),
    "norm times 2": ("norm-scale-odd", steps(norm_1=lambda s, known, x: 0.6 * known(x))),
    "another factor of q·k": ("attention-scale-odd", steps(scores=lambda s, known, q, k: 0.5 * known(q, k))),
    "softmax over queries": ("softmax-axis", steps(softmax=lambda s, known, z: causal(z).softmax(-2))),
}
SOUND = {
    "plain": lambda layer, index: None,
    "LoRA": lora(0.1),
    "router": router(lambda top: top),
    "a gate": gate(2.),
    "serial adapters": adapter,
    "a norm written out": steps(**norm_by(lambda x, size: x / size)),
    "fused sums": fused("sound"),
    "a function with an unused output": steps(
        norm_1=lambda s, known, x: with_gains(s, 1, NormAndSize.apply(x, s)[0])),
    "LayerNorm Scaling": scaled_by_depth,
    "rows that are rescaled first": steps(norm_1=lambda s, known, x: known(x / x.abs().amax(-1, keepdim=True))),
    "slot attention": steps(softmax=lambda s, known, z: (lambda w: w / w.sum(-1, keepdim=True))(
        causal(z).softmax(1).tril() + 1e-8 * torch.ones_like(z).tril())),
    "adaLN": modulated(lambda x, f, g: x + g * f, 1),
    "sums that all halve": steps(join=lambda s, known, x, f: (x + f) / 2),
    "parallel sublayers": steps(forward=stale),
}


def planted(make, plant, layers):
    model = models.decoder(make)
    for i in layers:
        plant(model.layers[i], i)
    return model


def found(model):
    """Returns (rule, place) of all findings except notes."""
    report = addnorm.check(model, models.tokens())
    return report, [(f.rule, f.where) for f in report.findings if f.severity != "note"]


def names_layer(where, layers):
    return any(f"layer {i}," in where or f"layers.{i}" in where for i in layers) or where in ("all norms", "layers")


@pytest.mark.parametrize("make", models.MAKES)
@pytest.mark.parametrize("name", BUGS)
def test_a_bug_is_named_where_it_is(name, make):
    rule, layers, plant = BUGS[name]
    _, findings = found(planted(make, plant, layers))
    assert any(seen == rule and names_layer(where, layers) for seen, where in findings), findings


@pytest.mark.parametrize("make", models.MAKES)
@pytest.mark.parametrize("layer", PLACES)
@pytest.mark.parametrize("name", ODD)
def test_the_odd_one_out_is_named_at_every_place(name, layer, make):
    rule, plant = ODD[name]
    _, findings = found(planted(make, plant, [layer]))
    near = [layer, layer + 1]  # the next layer reads what this one changed
    assert any(seen == rule and (names_layer(where, near)) for seen, where in findings), findings


@pytest.mark.parametrize("make", models.MAKES)
@pytest.mark.parametrize("name", SOUND)
def test_the_sound_twin_is_not_accused(name, make):
    report, findings = found(planted(make, SOUND[name], ALL))
    assert findings == []
    report.assert_sound(min_coverage=0 if name == "slot attention" else 1)


@pytest.mark.parametrize("make", models.MAKES)
def test_a_model_that_no_gradient_reaches_is_broken_and_not_sound(make):
    model = models.decoder(make)
    replace(model, forward=lambda s, known, tokens: 0 * known(tokens))
    report, findings = found(model)
    assert ("gradient-zero", "model") in findings
    with pytest.raises(AssertionError):
        report.assert_sound()
    replace(model, forward=lambda s, known, tokens: models.Decoder.forward(s, tokens).detach())
    with pytest.raises(AssertionError, match="gradient"):
        found(model)[0].assert_sound()


@pytest.mark.parametrize("make", models.MAKES)
def test_statistics_that_overflow_are_named(make):
    def half(s, known, x):
        x, size = normalized(s, 400 * x)
        return x * torch.rsqrt(x.half().square().float().mean(-1, keepdim=True) + 1e-6)

    _, findings = found(planted(make, steps(norm_1=half), [2]))
    assert any(rule == "norm-overflow" and names_layer(where, [2]) for rule, where in findings), findings


@pytest.mark.parametrize("make", models.MAKES)
@pytest.mark.parametrize("size", [
    lambda x: x.abs().amax(-1, keepdim=True), lambda x: x.abs().median(-1, keepdim=True).values,
    lambda x: x.amax(-1, keepdim=True) - x.amin(-1, keepdim=True)], ids=["largest", "median", "range"])
def test_a_norm_by_another_statistic_is_one_of_another_kind(make, size):
    """Its divisors are no rounded deviations, although rows of the same deviation have different ones."""
    _, findings = found(planted(make, steps(norm_1=lambda s, known, x: x / size(x)), ALL))
    rules = {rule for rule, _ in findings}
    assert "norm-kind" in rules and not rules & {"rounded-statistics", "epsilon-size", "epsilon-place"}, findings
