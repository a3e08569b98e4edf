"""Compares the computation of a model with its configuration, its weights and its optimizer."""

import types

import pytest

torch = pytest.importorskip("torch")
import addnorm  # noqa: E402
import kinds_models as models  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from addnorm.behaviour.forwards import configuration  # noqa: E402
from behaviour_subjects import Layers, checks, subject  # noqa: E402
from kinds_models import LENGTH, causal, replace  # noqa: E402
from torch import nn  # noqa: E402

torch.set_num_threads(1)  # more threads only slow down such small models
RATE = 0.1


def model(make="modules"):
    """A decoder with dropout on its branches, and a configuration."""
    found = models.decoder(make)
    found.config = types.SimpleNamespace(num_attention_heads=4, hidden_dropout=RATE, initializer_range=0.2)
    for parameter in found.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.2)
    for layer in found.layers:
        replace(layer, join=lambda s, known, x, f: known(x, F.dropout(f, RATE, s.training)))
    return found


def decay(found, odd):
    """Returns an optimizer whose weight decay differs for the matrices with `odd` in their name."""
    groups = [[p for n, p in found.named_parameters() if (odd in n) == is_odd] for is_odd in (False, True)]
    return torch.optim.AdamW([{"params": groups[0], "weight_decay": 0.1}, {"params": groups[1], "weight_decay": 0}])


def step(name, change):
    """Returns a function that replaces a step of the third layer."""
    return lambda m: replace(m.layers[2], **{name: change})


def of_weight(find, change):
    def plant(m):
        with torch.no_grad():
            change(find(m))
    return plant


def positions(make_ids):
    def plant(m):
        known = m.positions.forward
        m.positions.forward = lambda ids: known(make_ids(ids))
    return plant


def without_biases(m):
    """Sets the biases of linear maps to 0, as in an untrained model."""
    for module in m.modules():
        if isinstance(module, nn.Linear):
            module.bias = nn.Parameter(torch.zeros(module.out_features))
    return m


def scale_logits(m):
    replace(m, forward=lambda s, known, t: 3 * known(t))


def published(m):
    """Makes the model's class look like one of transformers."""
    m.__class__ = type("Decoder", (type(m),), {"__module__": "transformers.models.own"})
    return m


def mask_words(m):
    replace(m, forward=lambda s, known, t: known(t).masked_fill(torch.arange(models.VOCABULARY) > 36, -3e38))


def cap_logits(cap):
    return lambda m: replace(m, forward=lambda s, known, t: cap * torch.tanh(known(t) / cap))


class Adapted(nn.Module):
    """A linear map beside an adapter with its own dropout and activation."""

    def __init__(self, base):
        super().__init__()
        self.base, self.drop = base, nn.Dropout(0.4)
        self.A, self.B = nn.Linear(base.in_features, 4), nn.Linear(4, base.out_features)

    def forward(self, x):
        return self.base(x) + self.B(F.relu(self.A(self.drop(x))))


def add_adapters(m):
    m.config.hidden_act = "silu"
    for layer in m.layers:
        layer.mlp.up = Adapted(layer.mlp.up)


def add_head(m):
    """Adds a head that the configuration does not describe."""
    m.config.hidden_act = "silu"
    width = models.WIDTH
    m.head = nn.Sequential(nn.Dropout(0.4), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 3))


SOUND = {
    "logits that are scaled by a model's own code": scale_logits,
    "logits that are bounded": cap_logits(0.5),
    "logits that are bounded by published code": lambda m: cap_logits(0.5)(published(m)),
    "words that are masked": lambda m: mask_words(published(m)),
    "casts in all layers": lambda m: [
        replace(layer, feed=lambda s, known, h: known(h).bfloat16().float()) for layer in m.layers],
    "another number of heads in another entry": lambda m: vars(m.config).update(
        num_attention_heads=8, decoder_attention_heads=4),
    "numbers of heads in another configuration": lambda m: vars(m.config).update(
        num_attention_heads=8, text_config={"heads": [2, 4]}),
    "adapters": add_adapters,
    "a head of one's own": add_head,
    "packed sequences": positions(lambda ids: ids % (LENGTH // 2)),
}


BUGS = {
    "another number of heads": ("unlike-config", lambda m: setattr(m.config, "num_attention_heads", 8)),
    "another rate of dropout": (
        "unlike-config", step("join", lambda s, known, x, f: x + F.dropout(f, 0.4, s.training))),
    "dropout of the scores": (
        "dropout-before-softmax", step("softmax", lambda s, known, z: F.dropout(causal(z), RATE, s.training).softmax(-1))),
    "dropout of the scores, and a mask": (
        "dropout-before-softmax", step("softmax", lambda s, known, z: causal(F.dropout(z, RATE, s.training)).softmax(-1))),
    "a cast within a model of float32": (
        "cast-to-half", step("feed", lambda s, known, h: known(h).bfloat16().float())),
    "positions that are repeated": ("positions-wrong", positions(lambda ids: ids // 2)),
    "positions that begin behind the first": ("positions-wrong", positions(lambda ids: (ids + 1).clamp(max=LENGTH))),
    "logits that are scaled": ("logits-changed", lambda m: scale_logits(published(m))),
    "logits of shifted words": (
        "logits-changed", lambda m: replace(m, forward=lambda s, known, t: known(t).roll(1, -1))),
    "rows of zeros": ("weight-zeros", of_weight(lambda m: m.layers[2].mlp.up.weight, lambda w: w[3:6].zero_())),
    "columns of zeros": ("weight-zeros", of_weight(lambda m: m.layers[2].o_proj.weight, lambda w: w[:, 3:6].zero_())),
    "tokens of zeros": ("weight-zeros", of_weight(lambda m: m.embedding.weight, lambda w: w[5:9].zero_())),
}
INITIAL = {
    "weights that are too large": of_weight(lambda m: m.layers[2].mlp.up.weight, lambda w: w.mul_(5)),
    "γ of 2": of_weight(lambda m: m.layers[2].norm_1.weight, lambda w: w.fill_(2)),
    "β of 1": of_weight(lambda m: m.norm.bias, lambda w: w.fill_(1)),
}


def longer(found):
    """Enlarges the table of positions, so that positions may begin at 1."""
    found.positions = nn.Embedding(LENGTH + 1, models.WIDTH)
    nn.init.normal_(found.positions.weight, std=0.2)
    found.config.max_position_embeddings = LENGTH + 1
    return found


def rules(found, **options):
    return {f.rule for f in addnorm.check(found, models.tokens(), **options).findings if f.severity != "note"}


@pytest.mark.parametrize("make", models.MAKES)
def test_a_model_that_does_as_it_says_is_not_accused(make):
    found = longer(model(make))
    assert rules(found, optimizer=decay(found, "norm")) == set()
    assert rules(without_biases(model(make))) == set()


@pytest.mark.parametrize("name", BUGS)
def test_a_difference_is_named(name):
    rule, plant = BUGS[name]
    found = longer(model())
    plant(found)
    assert rules(found) == {rule}


def cast_in_all_layers(m):
    for layer in m.layers:
        replace(layer, feed=lambda s, known, h: known(h).bfloat16().float())
    return published(m)


def test_casts_in_all_layers_are_named_if_the_configuration_says_float32():
    assert rules(cast_in_all_layers(longer(model()))) == {"cast-to-half"}


@pytest.mark.parametrize("entries", [
    {"dtype": torch.bfloat16}, {"torch_dtype": "float16"}, {"_attn_implementation": "flash_attention_2"}])
def test_casts_that_a_configuration_asks_for_are_not_named(entries):
    found = cast_in_all_layers(longer(model()))
    vars(found.config).update(entries)
    assert not rules(found)


@pytest.mark.parametrize("name", SOUND)
def test_what_a_configuration_does_not_speak_of_is_not_judged(name):
    found = longer(model())
    SOUND[name](found)
    judged = {"logits-changed", "cast-to-half", "unlike-config", "activation-changed", "positions-wrong"}
    assert not rules(found) & judged


class Padded(nn.Module):
    """A model whose positions count tokens as in OPT, so that padding shares one, or come from the batch."""

    def __init__(self, used=lambda positions: positions):
        super().__init__()
        self.body, self.used = longer(model()), used
        self.config = self.body.config
        self.embed_positions = nn.Embedding(2 * LENGTH, models.WIDTH)
        self.body.positions = nn.Identity()
        self.body.positions.forward = lambda ids: self.embed_positions(self.used(self.found))

    def forward(self, tokens, where=None, attention_mask=None):
        self.found = (attention_mask.cumsum(1) - 1) * attention_mask if where is None else where
        return self.body(tokens)


@pytest.mark.parametrize("used, is_wrong", [(lambda p: p, False), (lambda p: p // 2, True)])
def test_positions_of_padding_may_repeat(used, is_wrong):
    mask = (torch.arange(LENGTH) < torch.tensor([[LENGTH], [LENGTH - 4]])).long()
    found = addnorm.check(Padded(used), {"tokens": models.tokens(), "attention_mask": mask}).findings
    assert ("positions-wrong" in {f.rule for f in found}) == is_wrong


@pytest.mark.parametrize("used, is_wrong", [(lambda p: p + 2, False), (lambda p: p // 2, True)])
def test_positions_of_the_batch_may_repeat(used, is_wrong):
    given = (torch.arange(LENGTH) // 3).expand(2, LENGTH)
    found = addnorm.check(Padded(used), (models.tokens(), given)).findings
    assert ("positions-wrong" in {f.rule for f in found}) == is_wrong


def test_the_error_of_a_watcher_is_left_out():
    from addnorm.behaviour.run.functions import Functions

    class Watcher:
        checks = "activation-changed"

        def __call__(self, name, args, kwargs, result):
            raise RuntimeError(f"no {name}")

    left_out = []
    with Functions(types.SimpleNamespace(leave_out=lambda *line: left_out.append(line)), Watcher()):
        torch.ones(2).exp().log()
    assert [check for check, _ in left_out] == ["activation-changed"]


@pytest.mark.parametrize("name", INITIAL)
def test_initial_weights_of_another_size_are_named(name):
    found = without_biases(model())
    INITIAL[name](found)
    assert "initial-size" in rules(found)


def test_weight_decay_of_some_matrices_alone_is_named():
    found = model()
    assert rules(found, optimizer=decay(found, "mlp.up")) == {"decay-uneven"}


def test_logits_of_zeros_are_named():
    found = longer(model())
    replace(found, forward=lambda s, known, t: 0 * known(t))
    assert "logits-changed" in rules(found)


def test_a_head_without_values_is_named():
    found = model()

    def project(s, known, h):
        q, k, v = known(h)
        return q, k, torch.cat([torch.zeros_like(v[..., :12]), v[..., 12:]], -1)

    replace(found.layers[2], project=project)
    assert "head-silent" in rules(found)


def test_a_configuration_that_scales_logits_is_believed():
    found = published(model())
    found.config.logit_scale = 3.0
    scale_logits(found)
    assert rules(found) == set()


# -- Limits --


@pytest.mark.parametrize("rate, is_named", [(0.1, False), (0.1 + 0.9e-6, False), (0.1 + 1.1e-6, True), (0.2, True)])
def test_dropout_in_layers_has_a_rate_of_the_configuration(rate, is_named):
    s = subject(Layers(), hidden_dropout=0.1)
    found = configuration.Computed(s)
    found._rates[rate] = ["layers.1.map"]
    found.add_lines()
    assert checks(s) == ["unlike-config"] * is_named


@pytest.mark.parametrize("eps, is_named", [
    (1e-5, False), (1e-6, False), (1e-8, False), (1e-12, False), (3e-4, False), (1e-7, True), (1e-4, True),
    (1.01e-5, True)])
def test_a_norm_has_an_epsilon_of_the_configuration_or_a_usual_one(eps, is_named):
    model = Layers()
    norms_of_model = [module for module in model.modules() if isinstance(module, nn.LayerNorm)]
    for norm in norms_of_model:
        norm.eps = eps
    s = subject(model, layer_norm_eps=3e-4)
    configuration.Computed(s).add_lines()
    assert checks(s) == ["unlike-config"] * is_named
    norms_of_model[0].eps = 1e-2  # one of several is the probe's
    s = subject(model, layer_norm_eps=3e-4)
    configuration.Computed(s).add_lines()
    assert checks(s) == ["unlike-config"] * is_named
