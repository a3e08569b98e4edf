"""addnorm.check on forms of code in published libraries, and on bugs planted in them: timm, torchvision,
x-transformers, vit-pytorch, diffusers."""

import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

sys.path.append(str(Path(__file__).parent))
import torch.nn.functional as F  # noqa: E402
import zoo_models as zoo  # noqa: E402
from torch import nn  # noqa: E402
from zoo_models import LENGTH, WIDTH, Model, PreNorm  # noqa: E402

import addnorm  # noqa: E402

torch.set_num_threads(1)


class LayerScale(PreNorm):
    """Gains of 1e-6, the initial values of DeiT III and ConvNeXt: float32 rounds most of a branch away."""

    def __init__(self):
        super().__init__()
        self.gamma_1, self.gamma_2 = (nn.Parameter(torch.full((WIDTH,), 1e-6)) for _ in range(2))

    def forward(self, x):
        x = x + self.gamma_1 * self.attn(self.ln_1(x))
        return x + self.gamma_2 * self.mlp(self.ln_2(x))


class YoungNorms(PreNorm):
    """The form of Swin V2: a norm of each branch, with an initial γ of 0."""

    def __init__(self):
        super().__init__()
        for norm in self.ln_1, self.ln_2:
            nn.init.zeros_(norm.weight)

    def forward(self, x):
        x = x + self.ln_1(self.attn(x))
        return x + self.ln_2(self.mlp(x))


class EndOfStage(YoungNorms):
    """Additionally a norm of the stream in one layer of a stage."""

    def __init__(self, ends):
        super().__init__()
        self.norm3 = nn.LayerNorm(WIDTH) if ends else nn.Identity()

    def forward(self, x):
        return self.norm3(super().forward(x))


class YoungBatchNorms(PreNorm):
    """The form of LeViT: batch norms on the branches."""

    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.BatchNorm1d(WIDTH), nn.BatchNorm1d(WIDTH)
        for norm in self.ln_1, self.ln_2:
            nn.init.zeros_(norm.weight)

    def forward(self, x):
        x = x + self.ln_1(self.attn(x).transpose(1, 2)).transpose(1, 2)
        return x + self.ln_2(self.mlp(x).transpose(1, 2)).transpose(1, 2)


class OffsetNorm(nn.Module):
    """The form of x-transformers: x/‖x‖ · √d · (g + 1)."""

    def __init__(self):
        super().__init__()
        self.g = nn.Parameter(torch.zeros(WIDTH))

    def forward(self, x):
        return F.normalize(x, dim=-1) * WIDTH**0.5 * (self.g + 1)


class OffsetNorms(PreNorm):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = OffsetNorm(), OffsetNorm()


class Convolved(PreNorm):
    """The form of TinyViT: a convolution of the stream between the two sums."""

    def __init__(self):
        super().__init__(causal=False)
        self.local = nn.Conv1d(WIDTH, WIDTH, 3, padding=1, groups=WIDTH)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        x = self.local(x.transpose(1, 2)).transpose(1, 2)
        return x + self.mlp(self.ln_2(x))


class NormedTwice(PreNorm):
    """The form of ViTamin: the feed-forward has its own norm after the block's."""

    def __init__(self):
        super().__init__()
        self.own = nn.LayerNorm(WIDTH)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.own(self.ln_2(x)))


class Stochastic(PreNorm):
    """One random number per sequence keeps or drops a branch."""

    def forward(self, x):
        x = x + self.drop(self.attn(self.ln_1(x)))
        return x + self.drop(self.mlp(self.ln_2(x)))

    def drop(self, f):
        if not self.training:
            return f
        return f * (f.new_empty(len(f), 1, 1).bernoulli_(0.6) / 0.6)


class Shifted(PreNorm):
    """The form of Swin: attention reads rolled tokens."""

    def forward(self, x):
        return self.feed_forward(x + self.shifted(x))

    def shifted(self, x):
        return self.attn(self.ln_1(x).roll(2, 1)).roll(-2, 1)

    def feed_forward(self, x):
        return x + self.mlp(self.ln_2(x))


class KeelLayer(PreNorm):
    """Norms of norms, except around the first sum; a factor of 6 (Keel, 2026)."""

    def __init__(self, is_first):
        super().__init__()
        self.out_1, self.out_2 = nn.Identity() if is_first else nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.factor = 1 if is_first else 6

    def forward(self, x):
        x = self.out_1(self.factor * x + self.attn(self.ln_1(x)))
        return self.out_2(6 * x + self.mlp(self.ln_2(x)))


class Stages(Model):
    """A linear map of the same width between two stages."""

    def __init__(self, layers, norm=None):
        super().__init__(layers, norm)
        self.between = nn.Linear(WIDTH, WIDTH)

    def run(self, x):
        for i, layer in enumerate(self.layers):
            x = layer(self.between(x) if i == 2 else x)
        return x


class TinyToken(Model):
    """A class token that is initially about 1e-6, where ε hides its norm's statistics."""

    def __init__(self, layers, norm=None):
        super().__init__(layers, norm)
        self.token = nn.Parameter(1e-6 * torch.randn(1, 1, WIDTH))

    def run(self, x):
        return super().run(torch.cat([self.token.expand(len(x), 1, WIDTH), x], 1))[:, 1:]


class ClassAttention(PreNorm):
    """The form of the last layers of CaiT and VOLO: only the first token continues."""

    def forward(self, x):
        first = x[:, :1] + self.attn(self.ln_1(x))[:, :1]
        first = first + self.mlp(self.ln_2(first))
        return torch.cat([first, x[:, 1:]], 1)


class Recurrent(PreNorm):
    """The form of x-transformers: the gates are PyTorch's GRU cells."""

    def __init__(self):
        super().__init__()
        self.gates = nn.ModuleList(nn.GRUCell(WIDTH, WIDTH) for _ in range(2))

    def forward(self, x):
        for gate, norm, f in zip(self.gates, (self.ln_1, self.ln_2), (self.attn, self.mlp)):
            x = gate(f(norm(x)).flatten(0, 1), x.flatten(0, 1)).reshape(x.shape)
        return x


def layers(*kinds):
    return [kind() for kind in kinds]


SOUND = {
    "LayerScale": lambda: Model(layers(*3 * [LayerScale])),
    "gains of 0": lambda: Model(layers(*3 * [YoungNorms])),
    "norm that ends a stage": lambda: Model(EndOfStage(i == 1) for i in range(4)),
    "batch norms with gains of 0": lambda: Model(layers(*3 * [YoungBatchNorms])),
    "g + 1": lambda: Model(layers(*3 * [OffsetNorms]), OffsetNorm()),
    "g + 1, then LayerNorm": lambda: Model(layers(*3 * [OffsetNorms])),
    "convolution between sums": lambda: Model(layers(*3 * [Convolved])),
    "normed twice": lambda: Model(layers(*3 * [NormedTwice])),
    "stochastic depth": lambda: Model(layers(*3 * [Stochastic])),
    "shifted": lambda: Model(layers(*3 * [Shifted])),
    "Keel": lambda: Model([KeelLayer(i == 0) for i in range(3)], nn.Identity()),
    "stages": lambda: Stages(layers(*4 * [PreNorm])),
    "tiny class token": lambda: TinyToken(PreNorm(causal=False) for _ in range(3)),
    "first layer without a norm": lambda: without_norm(0),
    "last layer without a norm": lambda: without_norm(3),
    "two towers": lambda: TwoTowers(),
}
# Sums for which no single number describes the stream's part.
UNMEASURED = {
    "class attention": lambda: Model(layers(PreNorm, PreNorm, ClassAttention)),
    "GRU": lambda: Model(layers(*3 * [Recurrent])),
}


def without_norm(at):
    model = Model(layers(*4 * [PreNorm]))
    model.layers[at].ln_1 = nn.Identity()
    return model


class TwoTowers(nn.Module):
    """The second tower reads values that are already normalized."""

    def __init__(self):
        super().__init__()
        self.first, self.second = (Model(layers(*4 * [PreNorm])) for _ in range(2))
        self.second.layers[0].ln_1 = nn.Identity()

    def forward(self, tokens):
        return self.second.head(self.second.norm(self.second.run(self.first.norm(self.first.run(
            self.first.embedding(tokens))))))


def found(make, training=False, batch=None, seed=1):
    torch.manual_seed(0)
    model = make().train(training)
    torch.manual_seed(seed)
    report = addnorm.check(model, zoo.batch() if batch is None else batch)
    return report, sorted(f"{f.rule}: {f.where}" for f in report.findings if f.severity != "note")


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", SOUND)
def test_accuses_no_form_and_sees_all_its_sums(name, training):
    report, findings = found(SOUND[name], training)
    assert findings == []
    measured, seen = report.coverage.counts["sums"]
    assert measured == seen > 5, report.coverage


@pytest.mark.parametrize("name", UNMEASURED)
def test_leaves_sums_without_one_number(name):
    report, findings = found(UNMEASURED[name])
    assert findings == []
    measured, seen = report.coverage.counts["sums"]
    assert measured < seen and report.coverage.left_out


def test_one_sequence_whose_branch_is_dropped_is_no_factor():
    for seed in range(4):
        assert found(SOUND["stochastic depth"], True, zoo.batch()[:1], seed)[1] == []


class Lossy(PreNorm):
    """One layer lacks its second residual."""

    def __init__(self, loses=False):
        super().__init__()
        self.loses = loses

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return self.mlp(self.ln_2(x)) if self.loses else x + self.mlp(self.ln_2(x))


class LossyShifted(Shifted):
    def forward(self, x):
        return self.feed_forward(self.shifted(x))


class Pooled(Model):
    """After the layers, there is no axis of tokens."""

    def forward(self, tokens):
        x = self.embedding(tokens) + self.positions(torch.arange(LENGTH))
        return self.head(self.norm(self.run(x)).mean(1))


class Stale(PreNorm):
    """Adds the input of attention. Its branches are so small that this nearly equals attention's output."""

    def __init__(self):
        super().__init__()
        with torch.no_grad():
            for p in (*self.attn.parameters(), *self.mlp.parameters()):
                p.mul_(0.1)

    def forward(self, x):
        h = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(h))


BUGS = {
    "last residual before pooling": (lambda: Pooled(Lossy(i == 2) for i in range(3)),
                                     "residual-missing: layer 2, feed-forward"),
    "residual of shifted attention": (lambda: Model(layers(Shifted, LossyShifted, Shifted)),
                                      "residual-missing: layer 1, attention"),
    "one norm of four": (lambda: without_norm(2), "norm-misplaced: layer 2, attention"),
    "stale residual of a small branch": (lambda: Model(layers(PreNorm, Stale, PreNorm)),
                                         "sublayer-input: layer 1, feed-forward"),
}


@pytest.mark.parametrize("name", BUGS)
def test_names_a_bug_in_them(name):
    make, expected = BUGS[name]
    assert found(make)[1] == [expected]


def test_a_missing_residual_of_a_small_stream_is_seen_in_bfloat16():
    def make():
        model = Model([Lossy(), Lossy(), Lossy()]).bfloat16()
        with torch.no_grad():
            model.embedding.weight *= 1e-3
            model.positions.weight *= 1e-3
        model.layers[0].forward = lambda x, b=model.layers[0]: (h := b.attn(b.ln_1(x))) + b.mlp(b.ln_2(h))
        return model
    assert "residual-missing: layer 0, attention" in found(make)[1]


def test_a_layer_that_reads_one_number_for_each_row_harms_nobody():
    class Row(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.linear = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)

        def forward(self, x):
            return x + self.linear(self.norm(x))

    with pytest.raises(addnorm.Error, match="layer"):
        addnorm.check(nn.Sequential(Row(), Row(), Row()), torch.randn(WIDTH))


def test_a_norm_whose_gain_is_0_behind_training_is_dead():
    """The norm's output is 0, and its γ is not an initial value."""
    def make():
        model = Model(layers(*3 * [PreNorm]))
        with torch.no_grad():
            for norm in model.modules():
                if isinstance(norm, nn.LayerNorm):
                    norm.weight.uniform_(0.9, 1.1)
            model.layers[1].ln_2.weight.zero_()
        return model
    assert "dead-norm: layer 1, feed-forward, norm before it" in found(make)[1]


class Counting(Model):
    """Has a state that nothing restores, like the k-means of a router, and a parameter without a gradient."""

    calls = 0

    def __init__(self, layers, norm=None):
        super().__init__(layers, norm)
        self.centre = nn.Parameter(torch.ones(WIDTH))

    def forward(self, tokens):
        self.calls += 1
        return super().forward(tokens) * self.calls

    def run(self, x):
        return super().run(x) * self.centre.detach()


def test_a_loss_that_changes_by_itself_tells_nothing_of_parameters():
    torch.manual_seed(0)
    model, tokens = Counting(layers(PreNorm, PreNorm)), zoo.batch()
    report = addnorm.check(model, tokens, loss=lambda logits: logits.square().mean())
    assert not any(f.rule == "gradient-missing" for f in report.findings)
    assert ("gradient-missing", "centre: the loss of the same batch differs from run to run") in report.coverage.left_out
