"""addnorm.check, addnorm.watch and addnorm.probe on models that run on this library's kernels: converted, partly
converted, or written with them. The findings are the same as with PyTorch's own modules, and the numbers nearly so."""

import copy
import json
import math

import addnorm
import pytest
import small_models

torch = pytest.importorskip("torch")
import zoo_models  # noqa: E402
from addnorm import torch as at  # noqa: E402
from addnorm.probe import probe  # noqa: E402
from planting import NORMS, replace_norm  # noqa: E402
from torch import nn  # noqa: E402

WIDTH = small_models.WIDTH
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def lines(report):
    """The lines of the report's profile, by their place."""
    found = {}
    for line in map(json.loads, report.profile.splitlines()[1:]):
        place = tuple((key, line.get(key)) for key in (
            "step", "layer", "sublayer", "point", "norm", "weight", "check", "where"))
        found[place] = line
    return found


def assert_same(ours, theirs):
    """Compares findings, coverage and numbers. The tolerance of 2 % and 1e-4 covers the
    noise of fits of float32 values."""
    assert [f.name for f in ours.findings] == [f.name for f in theirs.findings]
    assert ours.coverage.counts == theirs.coverage.counts
    a, b = lines(ours), lines(theirs)
    assert a.keys() == b.keys()
    for place, line in a.items():
        assert line.keys() == b[place].keys(), place
        for key, value in line.items():
            if isinstance(value, float):
                assert math.isclose(value, b[place][key], rel_tol=0.02, abs_tol=1e-4), (place, key)
            else:
                assert value == b[place][key], (place, key)


def converted(model):
    result = at.convert(copy.deepcopy(model))
    assert result.converted
    return result.model


def encoder(norm_first, training):
    layer = nn.TransformerEncoderLayer(WIDTH, 3, 2 * WIDTH, 0.1, batch_first=True, norm_first=norm_first)
    stack = nn.TransformerEncoder(layer, 3, nn.LayerNorm(WIDTH) if norm_first else None)
    for parameter in stack.parameters():  # the layers start as copies of one
        if parameter.dim() > 1:
            nn.init.xavier_uniform_(parameter)
    return stack.train(training)


@pytest.mark.parametrize("name", zoo_models.SOUND)
def test_a_converted_model_is_measured_as_its_original_is(name):
    model, tokens = zoo_models.SOUND[name](), zoo_models.batch(0)
    ours = copy.deepcopy(model)
    at.convert(ours)
    loss = zoo_models.loss_of(name, tokens)
    assert_same(*(addnorm.check(m, tokens, loss=loss) for m in (ours, model)))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("norm_first", [True, False])
def test_a_converted_encoder_is_measured_as_its_original_is(norm_first, training):
    model, x = encoder(norm_first, training), torch.randn(2, 9, WIDTH)
    assert_same(addnorm.check(converted(model), x), addnorm.check(model, x))


@pytest.mark.parametrize("parts", [["layers.1"], ["layers.0.attention_norm", "final_norm"]], ids=str)
def test_a_model_that_is_converted_in_part_is_measured_as_its_original_is(parts):
    model = small_models.decoder(bugs={2: "residual-twice"})
    ours = copy.deepcopy(model)
    for part in parts:
        assert at.convert(ours.get_submodule(part)).converted
    assert_same(*(addnorm.check(m, small_models.tokens()) for m in (ours, model)))


@pytest.mark.parametrize("bug", ["residual-missing", "residual-twice"])
def test_a_bug_in_a_converted_model_is_named(bug):
    model = small_models.decoder(bugs={1: bug})
    ours, theirs = (addnorm.check(m, small_models.tokens()) for m in (converted(model), model))
    assert [f.name for f in ours.findings] == [f"{bug}@layer 1, feed-forward"]
    assert_same(ours, theirs)


@pytest.mark.parametrize("bug", NORMS)
def test_a_wrong_norm_in_a_converted_model_is_named(bug):
    rule, what = NORMS[bug]
    model = small_models.decoder()
    for norm in model.modules():
        if isinstance(norm, nn.LayerNorm):
            nn.init.normal_(norm.weight, 1, 0.2)
    replace_norm(model, "layers.1.feed_forward_norm", what)
    ours = converted(model)
    assert type(ours.layers[1].feed_forward_norm) is type(model.layers[1].feed_forward_norm)
    reports = [addnorm.check(m, small_models.tokens()) for m in (ours, model)]
    assert rule in [f.rule for f in reports[0].findings]
    assert_same(*reports)


def test_a_wrong_epsilon_of_a_converted_norm_is_named():
    """All norms are this library's, and one of them has a different ε."""
    model = small_models.decoder()
    model.layers[1].feed_forward_norm.eps = 0.1
    reports = [addnorm.check(m, small_models.tokens()) for m in (converted(model), model)]
    assert "epsilon-size" in [f.rule for f in reports[0].findings]
    assert_same(*reports)


# ---- Written with this package -----------------------------------------------------------------------


class Fused(nn.Module):
    """Pre-norm layers that pass on the normalized and the summed stream. `kind` is the form of the sums, `bug` the bug
    in the feed-forward of layer 1."""

    def __init__(self, kind, bug=None):
        super().__init__()
        self.kind, self.bug = kind, bug
        self.embedding, self.head = nn.Embedding(40, WIDTH), nn.Linear(WIDTH, 40)
        self.layers = nn.ModuleList(FusedLayer(kind, bug if i == 1 else None) for i in range(4))
        self.norm = nn.LayerNorm(WIDTH) if kind == "PyTorch" else at.LayerNorm(WIDTH)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class FusedLayer(nn.Module):
    def __init__(self, kind, bug):
        super().__init__()
        self.kind, self.bug = kind, bug
        module = nn.LayerNorm if kind == "PyTorch" else at.LayerNorm
        self.norm_1, self.norm_2 = module(WIDTH), module(WIDTH)
        if kind == "modules":
            self.norm_2 = at.AddNorm(self.norm_2)
        self.attention = nn.MultiheadAttention(WIDTH, 3, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def sum_and_norm(self, x, f):
        if self.kind == "modules":
            return self.norm_2(x, f)
        if self.kind == "functions":
            return at.add_norm(x, f, self.norm_2.weight, self.norm_2.bias)
        s = x + f
        return self.norm_2(s), s

    def forward(self, x):
        h = self.norm_1(x)
        h, x = self.sum_and_norm(x, self.attention(h, h, h, need_weights=False)[0])
        f = self.mlp(h)
        return {None: lambda: x + f, "residual-missing": lambda: f, "branch-factor": lambda: x + 2 * f,
                "residual-detached": lambda: x.detach() + f}[self.bug]()


@pytest.mark.parametrize("kind", ["modules", "functions"])
@pytest.mark.parametrize("bug", [None, "residual-missing", "branch-factor", "residual-detached"])
def test_a_model_of_this_packages_sums_is_judged_as_one_of_pytorchs(kind, bug):
    report = addnorm.check(Fused(kind, bug), small_models.tokens())
    assert [f.name for f in report.findings] == ([] if bug is None else [f"{bug}@layer 1, feed-forward"])
    assert report.coverage.counts == {"sums": (8, 8), "norms": (9, 9), "attentions": (4, 4), "gradients": (8, 8)}
    torch.manual_seed(0)
    theirs = Fused("PyTorch", bug)
    ours = Fused(kind, bug)
    ours.load_state_dict({name.replace("norm_2", "norm_2.norm") if kind == "modules" else name: value
                          for name, value in theirs.state_dict().items()})
    found, expected = (addnorm.check(m, small_models.tokens()).numbers() for m in (ours, theirs))
    assert found == pytest.approx(expected, rel=1e-3, abs=1e-6)


@pytest.mark.parametrize("kind", [at.DyT, at.Derf])
def test_a_model_of_squashing_functions_is_measured(kind):
    model = small_models.decoder()
    for layer in model.layers:
        layer.attention_norm, layer.feed_forward_norm = kind(WIDTH), kind(WIDTH)
    model.final_norm = kind(WIDTH)
    report = addnorm.check(model, small_models.tokens())
    assert [f.name for f in report.findings if f.severity != "note"] == []
    assert report.coverage.counts == {"sums": (8, 8), "norms": (9, 9), "attentions": (4, 4), "gradients": (8, 8)}


# ---- Training continues as without a watch ------------------------------------------------------------


@pytest.mark.parametrize("make", [
    lambda: converted(small_models.decoder()), lambda: Fused("modules"), lambda: Fused("functions"),
    lambda: nn.Sequential(nn.Embedding(40, WIDTH), converted(encoder(False, True)))],
    ids=["converted", "modules", "functions", "encoder"])
def test_a_watched_model_keeps_its_bits(make):
    """A measured step also runs on the kernels."""
    models = [make() for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    bits = []
    for model, is_watched in zip(models, (True, False)):
        torch.manual_seed(1)
        watched = addnorm.watch(model, every=1)
        if is_watched:
            watched.__enter__()
        y = model(small_models.tokens())
        y.sin().sum().backward()
        if is_watched:
            watched.__exit__()
            assert watched.report.coverage.counts["sums"][0] > 0
        bits.append([y, *(p.grad for p in model.parameters())])
    assert all(torch.equal(a, b) for a, b in zip(*bits))


def test_a_hook_of_a_norm_runs_where_its_sum_is_fused_otherwise():
    layer, seen = at.AddNorm(at.LayerNorm(WIDTH)), []
    x, f = torch.randn(2, 5, WIDTH)[:, None]
    plain = layer(x, f)
    layer.norm.register_forward_hook(lambda *_: seen.append(1))
    for a, b in zip(layer(x, f), plain):
        assert torch.equal(a, b)
    assert seen == [1]


def test_a_profile_of_a_converted_model_has_its_norms():
    model = converted(small_models.decoder())
    p = probe(model).run(small_models.tokens(), loss=lambda y: y.square().mean())
    assert p.header()["norm"] == "layer" and p.header()["placement"] == "pre"
    assert p.coverage()["norms"] == [9, 9]
