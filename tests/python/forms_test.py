"""addnorm.check on forms of code that it once misread: streams that are not plain sums, two stacks in one model, tokens
in another order. None has findings; parts that cannot be measured are reported; and bugs in them are named."""

import math
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

sys.path.append(str(Path(__file__).parent))
import torch.nn.functional as F  # noqa: E402
import zoo_models as zoo  # noqa: E402
from torch import nn  # noqa: E402
from zoo_models import LENGTH, VOCABULARY, WIDTH, Attention, MLP, Model, PreNorm, stack  # noqa: E402

import addnorm  # noqa: E402

torch.set_num_threads(1)


class RMSNorm(nn.Module):
    """RMSNorm as separate operators, as in most models."""

    def __init__(self, width=WIDTH):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), 1e-6

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps))


class LayerNorm(nn.LayerNorm):
    """LayerNorm as separate operators."""

    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        return self.weight * centred / torch.sqrt(centred.square().mean(-1, keepdim=True) + self.eps) + self.bias


class RMSBlock(PreNorm):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = RMSNorm(), RMSNorm()


# ---- Forms -----------------------------------------------------------------------------------


class Convolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.wide = nn.LayerNorm(WIDTH), nn.Conv1d(WIDTH, 2 * WIDTH, 1)
        self.deep, self.narrow = nn.Conv1d(WIDTH, WIDTH, 3, padding=1, groups=WIDTH), nn.Conv1d(WIDTH, WIDTH, 1)

    def forward(self, x):
        h = self.norm(x).transpose(1, 2)
        return self.narrow(F.silu(self.deep(F.glu(self.wide(h), 1)))).transpose(1, 2)


class Conformer(nn.Module):
    """Two half feed-forwards around attention and a convolution, which is not halved."""

    def __init__(self, last_half=0.5):
        super().__init__()
        self.halves = nn.ModuleList(nn.Sequential(nn.LayerNorm(WIDTH), *MLP()) for _ in range(2))
        self.attention = nn.Sequential(nn.LayerNorm(WIDTH), Attention(False))
        self.convolution, self.norm, self.last_half = Convolution(), nn.LayerNorm(WIDTH), last_half

    def forward(self, x):
        x = x + 0.5 * self.halves[0](x)
        x = x + self.attention(x)
        x = x + self.convolution(x)
        return self.norm(x + self.last_half * self.halves[1](x))


class SkipBlock(PreNorm):
    """The form of U-ViT: a linear map of the stream and an earlier stream begins the block."""

    def __init__(self):
        super().__init__(False)
        self.join = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x, skip):
        return super().forward(self.join(torch.cat([x, skip], -1)))


class UNet(Model):
    def __init__(self):
        super().__init__(PreNorm(False) for _ in range(2))
        self.up = nn.ModuleList(SkipBlock() for _ in range(2))

    def run(self, x):
        skips = []
        for layer in self.layers:
            x = layer(x)
            skips.append(x)
        for layer in self.up:
            x = layer(x, skips.pop())
        return x


class TokensFirst(Model):
    """The text tower of CLIP: [tokens, sequences, features] only within its layers."""

    class Block(PreNorm):
        def __init__(self):
            super().__init__()
            self.attn = nn.MultiheadAttention(WIDTH, 4)

        def forward(self, x):
            h = self.ln_1(x)
            mask = torch.full((len(x), len(x)), -math.inf).triu(1)
            x = x + self.attn(h, h, h, attn_mask=mask, need_weights=False)[0]
            return x + self.mlp(self.ln_2(x))

    def __init__(self):
        super().__init__((self.Block() for _ in range(3)), LayerNorm(WIDTH))

    def run(self, x):
        return super().run(x.permute(1, 0, 2)).permute(1, 0, 2)


class OneBlock(nn.Module):
    """The form of ALBERT: one block, called repeatedly, after embeddings of fewer features."""

    def __init__(self):
        super().__init__()
        self.embedding, self.norm = nn.Embedding(VOCABULARY, 8), nn.LayerNorm(8)
        self.widen, self.block = nn.Linear(8, WIDTH), PreNorm()
        self.final, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        x = self.widen(self.norm(self.embedding(tokens)))
        for _ in range(3):
            x = self.block(x)
        return self.head(self.final(x))


class Resampler(nn.Module):
    """The form of Flamingo: learned latents attend to the first argument."""

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.norm_latents = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.q, self.kv, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(WIDTH, WIDTH)

        def forward(self, media, latents):
            latents = self.norm_latents(latents)
            k, v = self.kv(torch.cat([self.norm(media), latents], 1)).chunk(2, -1)
            scores = self.q(latents) @ k.transpose(-1, -2) / math.sqrt(WIDTH)
            return self.out(scores.softmax(-1) @ v)

    def __init__(self):
        super().__init__()
        self.embedding, self.latents = nn.Embedding(VOCABULARY, WIDTH), nn.Parameter(torch.randn(6, WIDTH))
        self.layers = nn.ModuleList(nn.ModuleList([self.Attention(), nn.Sequential(nn.LayerNorm(WIDTH), *MLP())])
                                    for _ in range(3))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, tokens):
        media, x = self.embedding(tokens), self.latents.expand(len(tokens), -1, -1)
        for attention, feed_forward in self.layers:
            x = attention(media, x) + x
            x = feed_forward(x) + x
        return self.norm(x)


class Reader(RMSBlock):
    """A decoder's layer, which also attends to an encoder's output."""

    def __init__(self):
        super().__init__()
        self.ln_cross, self.cross_attn = RMSNorm(), nn.MultiheadAttention(WIDTH, 4, batch_first=True)

    def forward(self, x, memory):
        x = x + self.attn(self.ln_1(x))
        x = x + self.cross_attn(self.ln_cross(x), memory, memory, need_weights=False)[0]
        return x + self.mlp(self.ln_2(x))


class TwoStacks(Model):
    """An encoder with LayerNorm and a decoder with RMSNorm, each with its own ε and a final norm."""

    def __init__(self):
        super().__init__((PreNorm(False) for _ in range(3)), nn.LayerNorm(WIDTH))
        self.decoder, self.last_norm = nn.ModuleList(Reader() for _ in range(2)), RMSNorm()

    def forward(self, tokens):
        x = self.embedding(tokens)
        memory = self.norm(self.run(x + self.positions(torch.arange(LENGTH))))
        for layer in self.decoder:
            x = layer(x, memory)
        return self.head(self.last_norm(x))


class Gate(nn.Module):
    """The form of GTrXL: a GRU in place of the sum."""

    def __init__(self):
        super().__init__()
        self.of_f, self.of_x = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, 2 * WIDTH)
        self.of_reset = nn.Linear(WIDTH, WIDTH)

    def forward(self, x, f):
        (r, z, h), (rx, zx) = self.of_f(f).chunk(3, -1), self.of_x(x).chunk(2, -1)
        z = torch.sigmoid(z + zx - 2)
        return (1 - z) * x + z * torch.tanh(h + self.of_reset(torch.sigmoid(r + rx) * x))


class GatedSums(PreNorm):
    def __init__(self):
        super().__init__()
        self.gates = nn.ModuleList(Gate() for _ in range(2))

    def forward(self, x):
        x = self.gates[0](x, self.attn(self.ln_1(x)))
        return self.gates[1](x, self.mlp(self.ln_2(x)))


class SomeTokens(PreNorm):
    """Mixture of depths: a router chooses the tokens that go through the block."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, 1)

    def forward(self, x):
        weights, chosen = self.router(x).squeeze(-1).topk(LENGTH // 2, 1)
        index = chosen.sort(1).values[..., None].expand(-1, -1, WIDTH)
        some = x.gather(1, index)
        return x.scatter_add(1, index, (super().forward(some) - some) * weights.sigmoid()[..., None])


class Behind(RMSBlock):
    """An operation on the stream after a layer."""

    def __init__(self, change):
        super().__init__()
        is_used = change is not CHANGES["a constant"]
        self.change, self.vector = change, nn.Parameter(torch.linspace(-1, 1, WIDTH), requires_grad=is_used)

    def forward(self, x):
        return self.change(super().forward(x), self.vector)


SOME_TOKENS = (torch.arange(LENGTH) < LENGTH - 2)[:, None]
CHANGES = {"a mask": lambda x, v: x * SOME_TOKENS, "a filled mask": lambda x, v: x.masked_fill(~SOME_TOKENS, 0),
           "a bound": lambda x, v: x.clamp(-50, 50), "a factor": lambda x, v: x / 2**0.5,
           "a vector": lambda x, v: x + v, "a constant": lambda x, v: x + torch.linspace(-1, 1, WIDTH) + 0 * v,
           "gains": lambda x, v: x * (1 + v / 4)}


class FeaturesFirst(PreNorm):
    """The sums are [sequences, features, tokens]."""

    def forward(self, x):
        x = x.transpose(1, 2)
        x = x + self.attn(self.ln_1(x.transpose(1, 2))).transpose(1, 2)
        return (x + self.mlp(self.ln_2(x.transpose(1, 2))).transpose(1, 2)).transpose(1, 2)


class Lerp(PreNorm):
    def forward(self, x):
        x = torch.lerp(x, self.attn(self.ln_1(x)), 0.5)
        return torch.lerp(x, self.mlp(self.ln_2(x)), 0.5)


class Stacked(PreNorm):
    """Each sum is the sum over a stack of all three."""

    def forward(self, x):
        return torch.stack([x, self.attn(self.ln_1(x)), self.mlp(self.ln_2(x))]).sum(0)


class CalledByParts(Model):
    """The form of ESM: the loop calls the parts of a layer, not the layer."""

    def run(self, x):
        for layer in self.layers:
            x = x + layer.attn(layer.ln_1(x))
            x = x + layer.mlp(layer.ln_2(x))
        return x


class Keel(PreNorm):
    """A norm of the output of the norm after a sum."""

    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2, self.outer_1, self.outer_2 = (RMSNorm() for _ in range(4))

    def forward(self, x):
        x = self.outer_1(8 * x + self.attn(self.ln_1(x)))
        return self.outer_2(8 * x + self.mlp(self.ln_2(x)))


class Averaged(Model):
    """The final norm reads a mean of the layers' outputs, as in DenseFormer and with halting."""

    def run(self, x):
        kept = []
        for layer in self.layers:
            x = layer(x)
            kept.append(x)
        return sum(kept) / len(kept)


class Image(nn.Module):
    """The block of ConvNeXt: [images, features, rows, columns]."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.deep, self.norm = nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.LayerNorm(8)
            self.up, self.down = nn.Linear(8, 32), nn.Linear(32, 8)

        def forward(self, x):
            f = self.deep(x).permute(0, 2, 3, 1)
            return x + self.down(F.gelu(self.up(self.norm(f)))).permute(0, 3, 1, 2)

    def __init__(self):
        super().__init__()
        self.embedding, self.stem = nn.Embedding(VOCABULARY, 16), nn.Conv2d(1, 8, 1)
        self.layers, self.head = nn.ModuleList(self.Block() for _ in range(3)), nn.Linear(8, 10)

    def forward(self, tokens):
        x = self.stem(self.embedding(tokens)[:, None, :12])
        for layer in self.layers:
            x = layer(x)
        return self.head(x.mean((2, 3)))


class Separable(nn.Module):
    """A block of convolutions over a stream of [sequences, features, tokens], as in SqueezeBERT."""

    def __init__(self, is_post_norm):
        super().__init__()
        self.is_post_norm, self.norm_1, self.norm_2 = is_post_norm, nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.deep = nn.Conv1d(WIDTH, WIDTH, 3, padding=1, groups=WIDTH)
        self.up, self.down = nn.Conv1d(WIDTH, 2 * WIDTH, 1), nn.Conv1d(2 * WIDTH, WIDTH, 1)

    def forward(self, x):
        for norm, branch in (self.norm_1, self.deep), (self.norm_2, lambda h: self.down(F.gelu(self.up(h)))):
            if self.is_post_norm:
                x = self.normalized(norm, x + branch(x))
            else:
                x = x + branch(self.normalized(norm, x))
        return x

    def normalized(self, norm, x):
        return norm(x.transpose(1, 2)).transpose(1, 2)


class Separables(nn.Module):
    def __init__(self, is_post_norm):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Separable(is_post_norm) for _ in range(3))
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, tokens):
        x = self.embedding(tokens).transpose(1, 2)
        for layer in self.layers:
            x = layer(x)
        return self.head(x.mean(2))


class Mixed(PreNorm):
    """Different norms before attention and before the feed-forward."""

    def __init__(self):
        super().__init__()
        self.ln_2 = RMSNorm()


class Laurel(PreNorm):
    """The form of Gemma 3n: a sum in parallel to attention, of the norm's output."""

    def __init__(self):
        super().__init__()
        self.low, self.high, self.ln_low = nn.Linear(WIDTH, 4), nn.Linear(4, WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x):
        h = self.ln_1(x)
        beside = h + self.ln_low(self.high(self.low(h)))
        x = (x + self.attn(h) + beside) / 2**0.5
        return x + self.mlp(self.ln_2(x))


class Windows(PreNorm):
    """The form of MaxViT: a convolution of the image, then attention within windows of tokens."""

    def __init__(self):
        super().__init__(False)
        self.deep = nn.Conv2d(WIDTH, WIDTH, 3, padding=1, groups=WIDTH)

    def forward(self, x):
        x = x + self.deep(x)
        n, c, h, w = x.shape
        y = x.permute(0, 2, 3, 1).reshape(n, h // 2, 2, w // 2, 2, c).transpose(2, 3).reshape(-1, 4, c)
        y = super().forward(y)
        return y.reshape(n, h // 2, w // 2, 2, 2, c).transpose(2, 3).reshape(n, h, w, c).permute(0, 3, 1, 2)


class OfWindows(Model):
    def __init__(self):
        super().__init__(Windows() for _ in range(3))

    def forward(self, tokens):
        x = self.embedding(tokens[:, :16]).transpose(1, 2).unflatten(2, (4, 4))
        return self.head(self.norm(self.run(x).mean((2, 3))))


class Young(Model):
    """nanochat before its first step: branches and head are initially 0."""

    def __init__(self):
        super().__init__(PreNorm() for _ in range(3))
        for weights in [self.head.weight, *(w for layer in self.layers for part in (layer.attn.proj, layer.mlp[-1])
                                            for w in part.parameters())]:
            nn.init.zeros_(weights)


def of(layer, norm=None):
    return lambda: Model((layer() for _ in range(3)), norm() if norm else None)


SOUND = {
    "conformer": of(Conformer, nn.Identity), "U-net": UNet, "tokens first": TokensFirst, "one block": OneBlock,
    "resampler": Resampler, "norms of norms": of(Keel, nn.Identity), "two stacks": TwoStacks, "two kinds": of(Mixed),
    "features first": of(FeaturesFirst), "image": Image, "windows": OfWindows,
    "separable, pre": lambda: Separables(False), "separable, post": lambda: Separables(True),
    "lerp": of(Lerp), "young": Young,
    "called by parts": lambda: CalledByParts(PreNorm() for _ in range(3)),
    "averaged": lambda: Averaged(PreNorm() for _ in range(3)),
    **{f"{name} behind layers": of(lambda change=change: Behind(change), RMSNorm) for name, change in CHANGES.items()},
}
UNMEASURED = {
    "LAuReL": of(Laurel), "gated sums": of(GatedSums), "stacked": of(Stacked),
    "some tokens": lambda: Model([PreNorm(), SomeTokens(), PreNorm()]),
}


def check(model, training=False):
    torch.manual_seed(1)
    return addnorm.check(model.train(training), zoo.batch())


def made(form, *arguments):
    torch.manual_seed(0)
    return form(*arguments)


def found(report):
    return sorted({f"{f.rule}: {f.where}" for f in report.findings if f.severity != "note"})


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", SOUND)
def test_measures_all_of_a_sound_model_and_accuses_nothing(name, training):
    report = check(made(SOUND[name]), training)
    assert found(report) == []
    assert report.coverage.counts["sums"][1] > 0
    assert all(measured == seen for measured, seen in report.coverage.counts.values()), report.coverage


@pytest.mark.parametrize("name", UNMEASURED)
def test_says_which_sums_it_cannot_measure(name):
    report = check(made(UNMEASURED[name]))
    assert found(report) == []
    measured, seen = report.coverage.counts["sums"]
    assert measured < seen
    assert any("gate or a projection" in why for _, why in report.coverage.left_out)


class WithPairs(PreNorm):
    """An additional stream of pairs of tokens, as in Evoformer."""

    def __init__(self):
        super().__init__()
        self.pair_norm, self.pair_mlp, self.outer = nn.LayerNorm(8), nn.Linear(8, 8), nn.Linear(WIDTH, 8)

    def forward(self, x, pairs):
        x = super().forward(x)
        outer = self.outer(x)
        pairs = pairs + outer[:, :, None] * outer[:, None]
        return x, pairs + self.pair_mlp(self.pair_norm(pairs))


class OfPairs(Model):
    def run(self, x):
        pairs = x.new_zeros(*x.shape[:2], x.shape[1], 8)
        for layer in self.layers:
            x, pairs = layer(x, pairs)
        return x


@pytest.mark.parametrize("is_post_norm", [False, True])
def test_names_a_norm_over_tokens_in_a_stream_of_features_first(is_post_norm):
    model = made(Separables, is_post_norm)
    model.layers[1].normalized = lambda norm, x: (x - x.mean(2, keepdim=True)) / x.std(2, keepdim=True)
    assert any("layer 1" in line for line in found(check(model)))


def test_says_that_a_second_stream_was_not_measured():
    report = check(made(lambda: OfPairs(WithPairs() for _ in range(2))))
    assert found(report) == []
    assert report.coverage.counts["sums"] == (4, 4)
    where, why = report.coverage.left_out[0]
    assert where == "layers" and f"a stream of [2, {LENGTH}, {LENGTH}, 8]" in why


# ---- Bugs in them ----------------------------------------------------------------------------


def test_a_half_that_is_forgotten_is_named_where_it_is():
    model = made(lambda: Model([Conformer(), Conformer(1.0), Conformer()], nn.Identity()))
    assert found(check(model)) == ["branch-factor: layer 5, feed-forward"]


def test_a_report_does_not_hide_what_is_broken_among_notes():
    report = check(made(lambda: Model([Conformer(), Conformer(1.0), Conformer()], nn.Identity())))
    assert {f.severity for f in report.findings} == {"broken", "note"}
    assert "✗ branch-factor" in str(report)
    assert "✗ branch-factor" in report.html()
    with pytest.raises(AssertionError, match="✗ branch-factor"):
        report.assert_sound()


def test_a_norm_of_the_other_stacks_kind_is_named():
    model = made(TwoStacks)
    model.layers[1].ln_2 = RMSNorm()
    assert "norm-kind: layers.1.mlp, norm before it" in found(check(model))
    model = made(TwoStacks)
    model.decoder[1].ln_1.eps = 1e-2
    assert found(check(model)) == ["epsilon-size: decoder.1.attn, norm before it"]


def test_the_epsilon_of_one_of_two_layers_is_named():
    model = made(lambda: Model(PreNorm() for _ in range(2)))
    model.layers[1].ln_2.eps = 1e-2
    assert found(check(model)) == ["epsilon-size: layer 1, feed-forward, norm before it"]


class Misnamed(nn.LayerNorm):
    """Has the name LayerNorm, but is not one."""

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) + self.bias


def test_a_final_norm_of_its_own_kind_is_noted():
    model = made(TwoStacks)
    model.norm = RMSNorm()
    report = check(model)
    assert found(report) == []
    assert {(f.rule, f.where) for f in report.findings} >= {("epsilon-size", "final norm behind layer 2"),
                                                             ("norm-kind", "final norm behind layer 2")}
    model.norm = Misnamed(WIDTH)
    assert found(check(model)) == ["epsilon-size: final norm behind layer 2", "norm-kind: final norm behind layer 2"]


def test_a_class_that_is_called_rms_and_centres_is_named():
    class Centring(RMSNorm):
        def forward(self, x):
            return super().forward(x - x.mean(-1, keepdim=True))

    class CentringRMSNorm(Centring):
        pass

    class Block(PreNorm):
        def __init__(self):
            super().__init__()
            self.ln_1, self.ln_2 = CentringRMSNorm(), CentringRMSNorm()

    assert {f.partition(":")[0] for f in found(check(made(of(Block, CentringRMSNorm))))} == {"norm-kind"}


def test_a_residual_of_the_stream_before_is_named_without_a_norm_ahead():
    class Stale(zoo.BranchNorm):
        def forward(self, x):
            h = x + self.ln_1(self.attn(x))
            return x + self.ln_2(self.mlp(h))

    report = check(made(stack(Stale)))
    assert found(report) == [f"sublayer-input: layer {i}, feed-forward" for i in range(4)]


def test_a_factor_that_one_residual_lacks_is_named_there():
    class Weighted(PreNorm):
        def __init__(self, alpha=1.7):
            super().__init__()
            self.alpha = alpha

        def forward(self, x):
            x = self.ln_1(1.7 * x + self.attn(x))
            return self.ln_2(self.alpha * x + self.mlp(x))

    layers = [Weighted(), Weighted(1.0), Weighted(), Weighted()]
    assert found(check(made(lambda: Model(layers, nn.Identity())))) == ["residual-factor: layer 1, feed-forward"]


def test_a_missing_residual_is_no_gate_where_the_activation_is_written_out():
    class WrittenOut(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x):
            x = self.up(x)
            return self.down(0.5 * x * (1 + torch.tanh(0.8 * (x + 0.045 * x**3))))

    class Missing(PreNorm):
        def __init__(self):
            super().__init__()
            self.mlp = WrittenOut()

        def forward(self, x):
            return self.mlp(self.ln_2(x + self.attn(self.ln_1(x))))

    assert found(check(made(of(Missing)))) == [f"residual-missing: layer {i}, feed-forward" for i in range(3)]


class PlainList(Model):
    """The layers are in a plain list and are not submodules."""

    def __init__(self, is_used=True):
        super().__init__([PreNorm()])
        self.more, self.is_used = [PreNorm(), PreNorm()], is_used

    def run(self, x):
        x = super().run(x)
        for layer in self.more if self.is_used else ():
            x = layer(x)
        return x


def test_layers_in_a_plain_list_are_named():
    report = check(made(PlainList))
    assert "parameter-unregistered: more" in found(report)
    values = sum(p.numel() for layer in made(PlainList).more for p in layer.parameters())
    assert f"{values} values" in next(f.seen for f in report.findings if f.rule == "parameter-unregistered")
    assert found(check(made(PlainList, False))) == []


def test_a_teacher_in_a_plain_list_is_none_of_the_model():
    class Taught(Model):
        def __init__(self):
            super().__init__(PreNorm() for _ in range(2))
            self.teacher = (PreNorm(),)

        def run(self, x):
            with torch.no_grad():
                self.teacher[0](x)
            return super().run(x)

    assert found(check(made(Taught))) == []


def test_where_all_layers_are_in_a_plain_list_the_error_says_so():
    class Bare(Model):
        def __init__(self):
            super().__init__([])
            self.blocks = [PreNorm(), PreNorm()]

        def run(self, x):
            for layer in self.blocks:
                x = layer(x)
            return x

    with pytest.raises(addnorm.Error, match="blocks.*nn.ModuleList"):
        check(made(Bare))


def test_one_layer_in_several_places_of_a_list_is_noted():
    report = check(made(lambda: Model([PreNorm()] * 3)))
    assert [(f.rule, f.severity, f.where) for f in report.findings if f.rule == "layer-shared"] == \
        [("layer-shared", "note", "layers")]


# ---- The model's own loss --------------------------------------------------------------------


class WithLoss(Model):
    """The form of nanoGPT: returns (logits, loss), or the loss alone."""

    def __init__(self, causal, is_tuple=True):
        super().__init__(PreNorm(causal) for _ in range(3))
        self.is_tuple = is_tuple

    def forward(self, tokens, targets):
        logits = super().forward(tokens)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        return (logits, loss) if self.is_tuple else loss


def test_a_missing_mask_is_seen_with_a_loss_in_a_tuple():
    tokens = zoo.batch()
    batch = tokens[:, :-1], tokens[:, 1:]
    report = addnorm.check(made(WithLoss, False).eval(), batch)
    leaks = [f for f in report.findings if f.rule == "future-leak"]
    assert leaks
    assert {f.severity for f in leaks} == {"broken"}
    assert found(addnorm.check(made(WithLoss, True).eval(), batch)) == []


def test_a_loss_alone_is_taken_as_it_is():
    tokens = zoo.batch()
    report = addnorm.check(made(WithLoss, True, False).eval(), (tokens[:, :-1], tokens[:, 1:]))
    assert found(report) == []


def test_without_a_loss_it_says_what_is_not_known_of_the_mask():
    report = check(made(lambda: Model(PreNorm(False) for _ in range(3))))
    assert any(where == "future-leak" and "loss=" in why for where, why in report.coverage.left_out)


# ---- The scale of attention ------------------------------------------------------------------


def test_the_scale_of_attention_is_that_of_queries_and_keys():
    """Linear maps before queries and keys do not change the scale."""
    class Adapted(PreNorm):
        def __init__(self):
            super().__init__()
            self.adapter = nn.Linear(WIDTH, WIDTH)

        def forward(self, x):
            x = x + self.attn(self.ln_1(self.adapter(x)))
            return x + self.mlp(self.ln_2(x))

    for seed in range(5):
        torch.manual_seed(seed)
        assert found(check(of(Adapted)())) == []


@pytest.mark.parametrize("length", [16, 8])  # a head has 8 features
def test_attention_without_a_scale_is_named(length):
    class Unscaled(Attention):
        def forward(self, x):
            q, k, v = (t.unflatten(-1, (4, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
            return self.proj((zoo.masked(q @ k.transpose(-1, -2)).softmax(-1) @ v).transpose(1, 2).flatten(2))

    model = made(of(PreNorm))
    model.layers[1].attn = Unscaled()
    report = addnorm.check(model.eval(), zoo.batch()[:, :length])
    assert found(report) == ["attention-scale: layers.1.attn"]


class Pooled(nn.Module):
    """A classifier with PyTorch's encoder."""

    def __init__(self, batch_first):
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, 0.0, batch_first=batch_first)
        self.embedding, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(64, WIDTH)
        self.encoder, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(WIDTH, 5)

    def forward(self, tokens):
        x = self.embedding(tokens) + self.positions(torch.arange(tokens.shape[1]))
        return self.head(self.run(x))

    def run(self, x):
        return self.encoder(x).mean(1)


class TurnedTwice(Pooled):
    def run(self, x):
        return self.encoder(x.transpose(0, 1)).mean(0)


class Scores(Pooled):
    """The scores of a contrastive loss: each sequence against all others, and against some more."""

    def __init__(self, wider):
        super().__init__(True)
        self.others = nn.Parameter(torch.randn(wider, WIDTH))

    def forward(self, tokens, candidates):
        x = self.run(self.embedding(tokens) + self.positions(torch.arange(tokens.shape[1])))
        y = self.run(self.embedding(candidates))
        return x @ torch.cat([y, self.others]).T


def test_a_head_that_compares_sequences_is_not_accused():
    tokens = zoo.batch()
    model = made(Scores, 3)
    assert not any("batch-leak" in line for line in found(addnorm.check(model, (tokens, torch.cat([tokens, tokens])))))


@pytest.mark.parametrize("form, sound, where", [(Pooled, True, "encoder.layers.0.self_attn"),
                                                (TurnedTwice, False, "output")])
def test_a_classifier_whose_encoder_takes_sequences_for_tokens_is_named(form, sound, where):
    """The most common bug with PyTorch's own layers: batch_first is missing, or is combined with a transposition."""
    assert not any("batch-leak" in line for line in found(check(made(form, sound))))
    assert f"batch-leak: {where}" in found(check(made(form, not sound)))


class Padded(Pooled):
    """Computes its mask from the tokens."""

    def __init__(self, hides=True, pools_all=False):
        super().__init__(True)
        self.embedding = nn.Embedding(VOCABULARY, WIDTH, padding_idx=0)
        self.hides, self.pools_all = hides, pools_all

    def forward(self, tokens):
        padding = tokens == 0
        x = self.embedding(tokens) + self.positions(torch.arange(tokens.shape[1]))
        x = self.encoder(x, src_key_padding_mask=padding if self.hides else None)
        if self.pools_all:
            return self.head(x.mean(1))
        return self.head((x * ~padding[..., None]).sum(1) / (~padding).sum(1, keepdim=True))


class PaddedTokens(Padded):
    def forward(self, tokens):
        x = self.embedding(tokens) + self.positions(torch.arange(tokens.shape[1]))
        return self.head(self.encoder(x, src_key_padding_mask=tokens == 0 if self.hides else None))


class Translator(nn.Module):
    def __init__(self, hides=True):
        super().__init__()
        self.embedding, self.hides = nn.Embedding(VOCABULARY, WIDTH, padding_idx=0), hides
        self.transformer = nn.Transformer(WIDTH, 4, 2, 2, 2 * WIDTH, 0.0, batch_first=True)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, source, target):
        causal = self.transformer.generate_square_subsequent_mask(target.shape[1]).bool()
        padding = source == 0
        return self.head(self.transformer(
            self.embedding(source), self.embedding(target), tgt_mask=causal, src_key_padding_mask=padding,
            memory_key_padding_mask=padding if self.hides else None, tgt_key_padding_mask=target == 0))


def padded(seed=1):
    tokens = torch.randint(1, VOCABULARY, (3, LENGTH), generator=torch.Generator().manual_seed(seed))
    tokens[1, -3:] = tokens[2, -1:] = 0
    return tokens


PADDED = {"pooled": (Padded, padded()), "tokens": (PaddedTokens, padded()),
          "translator": (Translator, (padded(), padded(2)))}


def padding_leaks(model, batch):
    return [line for line in found(addnorm.check(model, batch)) if "padding" in line]


@pytest.mark.parametrize("name", PADDED)
def test_padding_that_nobody_hides_is_named(name):
    form, batch = PADDED[name]
    assert padding_leaks(made(form), batch) == []
    assert padding_leaks(made(form, False), batch) == ["padding-leak: embedding"]


def test_padding_that_is_pooled_is_named():
    assert found(addnorm.check(made(Padded, True, True), padded())) == ["padding-leak: embedding"]


class Mean(Pooled):
    """A mean over embeddings; those of padding are 0."""

    def __init__(self):
        super().__init__(True)
        self.embedding = nn.Embedding(VOCABULARY, WIDTH, padding_idx=0)

    def forward(self, tokens):
        x = self.embedding(tokens).sum(1) / (tokens != 0).sum(1, keepdim=True)
        return self.head(self.encoder(x[:, None])[:, 0])


class WithToken(Padded):
    """A class token precedes the others, and the output has a row for every token."""

    def forward(self, tokens):
        hidden = F.pad(tokens == 0, (1, 0), value=False)
        x = F.pad(self.embedding(tokens) + self.positions(torch.arange(tokens.shape[1])), (0, 0, 1, 0))
        return self.head(self.encoder(x, src_key_padding_mask=hidden))


class TokensOut(PaddedTokens):
    def forward(self, tokens):
        return super().forward(tokens).transpose(0, 1)


@pytest.mark.parametrize("form", [Mean, WithToken, TokensOut])
def test_padding_that_is_hidden_some_other_way_is_not_accused(form):
    assert padding_leaks(made(form), padded()) == []


def test_padding_behind_causal_tokens_is_not_accused():
    model = made(lambda: Model(PreNorm() for _ in range(2)))
    model.embedding.padding_idx = 0
    assert found(addnorm.check(model.train(False), padded())) == []
