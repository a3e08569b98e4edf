"""Faults of heads, sums, weights and optimizers, and differences from the configuration. Each fault is tested in two
implementations, together with the most similar sound model."""

import types

import pytest

torch = pytest.importorskip("torch")
import addnorm  # noqa: E402
import kinds_models as models  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from kinds_models import LAYERS, WIDTH, causal, replace  # noqa: E402
from torch import nn  # noqa: E402

torch.set_num_threads(1)  # threads only wait for each other on models as small as these
ACTIVATIONS = {"modules": "silu", "functions": "gelu"}


def model(make, **config):
    found = models.decoder(make)
    found.config = types.SimpleNamespace(num_attention_heads=4, hidden_act=ACTIVATIONS[make], **config)
    return found


def step(**changed):
    """Replaces steps of all layers."""
    return lambda m: [replace(layer, **changed) for layer in m.layers]


def keep(features):
    return (torch.arange(WIDTH) < features).float()


def noise(always):
    return step(join=lambda s, known, x, f: known(x, f) + 0.1 * torch.randn_like(x) * (always or s.training))


def freeze(*words):
    def plant(m):
        for name, parameter in m.layers.named_parameters():
            if any(word in name for word in words):
                parameter.requires_grad_(False)
    return plant


def tell(**entries):
    """Changes the configuration."""
    return lambda m: vars(m.config).update(entries)


def positions(used):
    def plant(m):
        known = m.positions.forward
        m.positions.forward = lambda ids: used * known(ids) if used else torch.zeros_like(known(ids))
    return plant


def of_final_norm(change):
    def plant(m):
        with torch.no_grad():
            m.norm.weight.add_(0.1 * torch.randn(WIDTH))
            change(m.norm)
    return plant


def scale_odd_layer(factor):
    """Scales a linear map of the middle layer; the rule needs maps that are modules, so each layer gets one."""
    def plant(m):
        for i, layer in enumerate(m.layers):
            layer.extra = nn.Linear(WIDTH, WIDTH)
            replace(layer, feed=lambda s, known, h: known(h) + s.extra(h))
            with torch.no_grad():
                layer.extra.weight.mul_(factor if i == LAYERS // 2 else 1)
    return plant


CASES = {  # the rule, the fault, and the sound twin
    "heads whose output is 0": ("head-silent", step(combine=lambda s, known, v: known(v * keep(12))),
                                step(combine=lambda s, known, v: known(v * (1 + keep(12))))),
    "noise in sums": ("eval-noise", noise(True), noise(False)),
    "frozen queries": ("parameter-frozen", freeze("q_proj", "k_proj", "w_qkv"), freeze("mlp", "w_up", "w_down")),
    "positions that are looked up in vain": ("parameter-unused", positions(0), positions(0.5)),
    "another activation": ("activation-changed", tell(hidden_act="relu"), tell(hidden_act="an unknown one")),
    "β around 1": ("bias-off-zero", of_final_norm(lambda n: n.bias.add_(0.1 * torch.randn(WIDTH) + 1)),
                   of_final_norm(lambda n: n.bias.add_(torch.randn(WIDTH)))),
    "weights of one layer": ("size-odd", scale_odd_layer(3), scale_odd_layer(1.2)),
}


def rules(found, *inputs, **options):
    return {f.rule for f in addnorm.check(found, *inputs, **options).findings if f.severity != "note"}


@pytest.mark.parametrize("make", models.MAKES)
@pytest.mark.parametrize("name", CASES)
def test_a_fault_is_named_and_its_twin_is_not(name, make):
    rule, *plants = CASES[name]
    faulty, sound = model(make), model(make)
    plants[0](faulty)
    assert rules(faulty, models.tokens()) == {rule}
    plants[1](sound)
    assert rules(sound, models.tokens()) == set()


@pytest.mark.parametrize("kind", [nn.LayerNorm, models.RMSNorm])
@pytest.mark.parametrize("declared, is_wrong", [(1e-6, True), (1e-3, False)])
def test_an_epsilon_that_the_configuration_does_not_have_is_named(declared, is_wrong, kind):
    found = model("modules", norm_eps=declared)
    for norm in found.modules():
        if type(norm) is kind:
            norm.eps = 1e-3
    assert ("unlike-config" in rules(found, models.tokens())) == is_wrong


@pytest.mark.parametrize("layer", [0, 2])
def test_an_epsilon_of_one_norm_is_one_finding(layer):
    found = model("modules", norm_eps=1e-6)
    norms = [norm for norm in found.modules() if type(norm) in (nn.LayerNorm, models.RMSNorm)]
    for norm in norms:
        norm.eps = 1e-6
    norms[2 * layer].eps = 1e-2
    assert [f.rule for f in addnorm.check(found, models.tokens()).findings if f.severity != "note"] == ["epsilon-size"]


def test_a_configuration_may_say_that_dropout_is_used():
    found = model("modules", use_dropout=True, dropout=0.1)
    found.train()
    assert rules(found, models.tokens()) == set()


class GPT2Like(nn.Module):
    """A GELU in its tanh form, which differs from the exact one by 1e-5."""

    def forward(self, x):
        return 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x**3)))


@pytest.mark.parametrize("declared", ["gelu", "gelu_new"])
def test_two_forms_of_gelu_are_told_apart(declared):
    found = model("functions")
    step(feed=lambda s, known, h: F.linear(GPT2Like()(F.linear(h, s.w_up)), s.w_down))(found)
    tell(hidden_act=declared)(found)
    assert rules(found, models.tokens()) == ({"activation-changed"} if declared == "gelu" else set())


@pytest.mark.parametrize("make", models.MAKES)
@pytest.mark.parametrize("others, gains, is_wrong", [
    (0, 0, False), (0.1, 0.1, False), (0, 0.1, True), (0.1, 1.0, True)])
def test_weight_decay_that_misses_the_norms_is_named(make, others, gains, is_wrong):
    """`others` is the decay of biases, and `gains` is that of norms. Matrices have 0.1."""
    found = model(make)
    for layer in found.layers:
        layer.bias = nn.Parameter(torch.zeros(WIDTH))
        replace(layer, combine=lambda s, known, v: known(v) + s.bias)
    groups = {}
    for name, parameter in found.named_parameters():
        is_gain = "norm" in name and parameter.dim() == 1
        decay = gains if is_gain else 0.1 if parameter.dim() > 1 else others
        groups.setdefault(decay, []).append(parameter)
    optimizer = torch.optim.AdamW([{"params": p, "weight_decay": decay} for decay, p in groups.items()])
    assert ("decay-on-gain" in rules(found, models.tokens(), optimizer=optimizer)) == is_wrong


class Classifier(nn.Module):
    def __init__(self, make, change):
        super().__init__()
        self.body, self.change, self.config = models.decoder(make), change, types.SimpleNamespace()
        self.body.head = nn.Identity()
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, tokens):
        return {"logits": self.change(self.head(self.body(tokens)[:, -1]))}


class Published(Classifier):
    """A classifier whose class seems to come from transformers."""

    __module__ = "transformers.models.own"


@pytest.mark.parametrize("make", models.MAKES)
@pytest.mark.parametrize("kind, change, is_wrong", [
    (Published, lambda z: z, False), (Published, torch.sigmoid, False), (Published, lambda z: 2 * z, True),
    (Classifier, lambda z: 2 * z, False), (Classifier, lambda z: z.roll(1, -1), True)])
def test_logits_of_a_classifier_are_those_of_its_head(kind, change, is_wrong, make):
    assert rules(kind(make, change), models.tokens()) == ({"logits-changed"} if is_wrong else set())


class Masked(nn.Module):
    """A model that turns a mask of padding into one for heads by the function `of_heads`."""

    def __init__(self, make, of_heads):
        super().__init__()
        self.body, self.of_heads = models.decoder(make), of_heads
        for layer in self.body.layers:
            replace(layer, softmax=lambda s, known, z: causal(z).masked_fill(~self.seen, -1e9).softmax(-1))

    def forward(self, tokens, attention_mask):
        count, n = attention_mask.shape
        self.seen = self.of_heads(attention_mask.bool()[:, None, None].expand(count, 1, n, n))
        return self.body(tokens)


@pytest.mark.parametrize("make", models.MAKES)
@pytest.mark.parametrize("of_heads, is_wrong", [(lambda m: m, False), (lambda m: m.transpose(0, 1), True)])
def test_a_mask_of_other_sequences_is_named(make, of_heads, is_wrong):
    tokens = torch.randint(models.VOCABULARY, (models.HEADS, models.LENGTH), generator=torch.Generator().manual_seed(1))
    lengths = torch.tensor([12, 10, 7, 5])
    batch = {"tokens": tokens, "attention_mask": (torch.arange(models.LENGTH) < lengths[:, None]).long()}
    assert ("batch-leak" in rules(Masked(make, of_heads), batch)) == is_wrong


class Experts(nn.Module):
    """A feed-forward of each token's best expert, which takes a limited number of tokens of the batch."""

    def __init__(self, capacity):
        super().__init__()
        self.gate, self.capacity = nn.Linear(WIDTH, 4, bias=False), capacity
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, h):
        rows = h.flatten(0, -2)
        weights, chosen = self.gate(rows).softmax(-1).max(-1)
        result = torch.zeros_like(rows)
        for i, expert in enumerate(self.experts):
            taken = (chosen == i).nonzero().flatten()[:max(1, int(self.capacity * len(rows) / 4))]
            result = result.index_add(0, taken, expert(rows[taken]) * weights[taken, None])
        return result.view_as(h)


@pytest.mark.parametrize("make", models.MAKES)
@pytest.mark.parametrize("of_heads, capacity, is_wrong", [
    (lambda m: m, 1, False), (lambda m: m, 4, False), (lambda m: m.transpose(0, 1), 4, True)])
def test_experts_of_a_limited_capacity_are_no_leak(make, of_heads, capacity, is_wrong):
    found = Masked(make, of_heads)
    for layer in found.body.layers:
        layer.experts = Experts(capacity)
        replace(layer, feed=lambda s, known, h: s.experts(h))
    tokens = torch.randint(models.VOCABULARY, (models.HEADS, models.LENGTH), generator=torch.Generator().manual_seed(1))
    lengths = torch.tensor([12, 10, 7, 5])
    batch = {"tokens": tokens, "attention_mask": (torch.arange(models.LENGTH) < lengths[:, None]).long()}
    assert bool(rules(found, batch) & {"batch-leak", "padding-leak"}) == is_wrong


class Queries(nn.Module):
    """Layers that begin with zeros and add an embedding to queries and keys, as DETR's decoder does."""

    def __init__(self, make, begin):
        super().__init__()
        self.body, self.begin = models.decoder(make), begin
        self.places = nn.Parameter(torch.randn(models.LENGTH, WIDTH))

        def project(s, known, h):
            q, k, _ = known(h + self.places)
            return q, k, known(h)[2]

        for layer in self.body.layers:
            replace(layer, project=project)

    def forward(self, x):
        y = x * self.begin
        for layer in self.body.layers:
            y = layer(y)
        return y


@pytest.mark.parametrize("make", models.MAKES)
def test_a_decoder_may_begin_with_zeros(make):
    x = torch.randn(2, models.LENGTH, WIDTH)
    assert "attention-constant" not in rules(Queries(make, 0), x)
    faulty = Queries(make, 1)
    replace(faulty.body.layers[2], project=lambda s, known, h: [*known(h)[:2], known(h)[2] * 0 + 1])
    assert "attention-constant" in rules(faulty, x)


class Deformable(nn.Module):
    """Attention to some points of each head, of [sequences, queries, heads, points], without a product q·k."""

    def __init__(self, points=4):
        super().__init__()
        self.weigh, self.value, self.points = nn.Linear(WIDTH, 4 * points), nn.Linear(WIDTH, WIDTH), points

    def forward(self, h):
        weights = self.weigh(h).view(*h.shape[:2], 4, self.points).softmax(-1)
        near = torch.stack([self.value(h).roll(i, 1) for i in range(self.points)], -1).unflatten(2, (4, -1))
        return (near * weights[..., None, :]).sum(-1).flatten(2)


def test_points_of_deformable_attention_are_no_heads():
    found = models.decoder("modules")
    for layer in found.layers:
        layer.attn = Deformable()
        replace(layer, attend=lambda s, known, h: s.attn(h))
    assert "heads-alike" not in rules(found, torch.zeros(2, models.LENGTH, dtype=torch.long))


@pytest.mark.parametrize("make", models.MAKES)
@pytest.mark.parametrize("is_fused", [False, True])
@pytest.mark.parametrize("is_wrong", [False, True])
def test_heads_that_are_alike_are_named(make, is_fused, is_wrong):
    def project(s, known, h):
        return [torch.cat([t[..., :24]] * 2, -1) if is_wrong else t for t in known(h)]

    def attend(s, known, h):
        q, k, v = (models.heads(t) for t in s.project(h))
        return s.combine(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))

    if is_fused and not hasattr(F, "scaled_dot_product_attention"):
        pytest.skip("this PyTorch has no fused attention")
    found = models.decoder(make)
    replace(found.layers[2], project=project, **({"attend": attend} if is_fused else {}))
    assert ("heads-alike" in rules(found, models.tokens())) == is_wrong


def test_the_comparison_of_many_heads_is_short():
    from addnorm.behaviour.forwards.attention import AttentionChecks

    run = types.SimpleNamespace(inside=[])
    looking = AttentionChecks(types.SimpleNamespace(config=None, where=lambda: "", runs=[run]), starts=None)
    assert looking._may_compare(64) and not looking._may_compare(900)
    heads = torch.randn(4, 128, 2**14)
    heads[:, 3] = heads[:, 5]
    looking._add_heads(heads)
    assert looking._found == {("heads-alike", ""): "2 of 128 heads"}
