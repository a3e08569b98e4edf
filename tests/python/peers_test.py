"""One layer that differs from all others is named, in three architectures and at every place."""

import pytest

torch = pytest.importorskip("torch")
import addnorm  # noqa: E402
from torch import nn  # noqa: E402

WIDTH, HEADS, LAYERS, VOCABULARY = 48, 4, 6, 40


class RMSNorm(nn.Module):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps)


class Attention(nn.Module):
    def __init__(self, norm, odd_eps):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.q_norm = norm(WIDTH // HEADS, eps=0.1) if odd_eps else norm(WIDTH // HEADS)
        self.k_norm = norm(WIDTH // HEADS)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        scores = self.q_norm(q) @ self.k_norm(k).transpose(-1, -2) / (WIDTH // HEADS) ** 0.5
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        weights = scores.masked_fill(hidden, -float("inf")).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, norm, change=None):
        super().__init__()
        self.change = change
        self.norm_1, self.attention = norm(WIDTH), Attention(norm, change == "epsilon")
        self.norm_2 = norm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        h = self.norm_1(x)
        a = self.attention(h)
        x = {None: lambda: x + a, "epsilon": lambda: x + a, "half": lambda: (x + a) / 2, "itself": lambda: x + x,
             "norm's output": lambda: x + a + h}[self.change]()
        return x + self.mlp(self.norm_2(x))


class InPlace(Layer):
    """The same, with operators that change the stream in place."""

    def forward(self, x):
        h = self.norm_1(x)
        a = self.attention(h)
        x = x.clone()
        x += x.clone() if self.change == "itself" else a
        if self.change == "half":
            x *= 0.5
        if self.change == "norm's output":
            x += h
        return x + self.mlp(self.norm_2(x))


class Model(nn.Module):
    def __init__(self, make, change=None, at=0):
        super().__init__()
        layer, norm = make
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(layer(norm, change if i == at else None) for i in range(LAYERS))
        self.norm, self.head = norm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


MAKES = {"LayerNorm": (Layer, nn.LayerNorm), "RMSNorm": (Layer, RMSNorm), "in place": (InPlace, nn.LayerNorm)}


def rules(model):
    report = addnorm.check(model, torch.randint(VOCABULARY, (2, 12)), behaviour=False)
    return [(f.rule, f.layer) for f in report.findings if f.severity != "note"]


@pytest.mark.parametrize("make", MAKES)
def test_no_layer_of_a_sound_model_is_odd(make):
    for seed in range(3):
        torch.manual_seed(seed)
        assert rules(Model(MAKES[make])) == []


@pytest.mark.parametrize("at", [0, 3, LAYERS - 1])
@pytest.mark.parametrize("change", ["half", "itself", "norm's output", "epsilon"])
@pytest.mark.parametrize("make", MAKES)
def test_the_odd_layer_is_named(make, change, at):
    torch.manual_seed(at)
    expected = "epsilon-odd" if change == "epsilon" else "stream-changed"
    assert (expected, at) in rules(Model(MAKES[make], change, at))
