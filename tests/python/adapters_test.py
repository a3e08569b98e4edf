"""addnorm.check on layers with adapters: a bottleneck after a branch, beside it or after the sum, with or without its
own residual. Sound ones have no findings, and faults of the residual around them are named."""

import addnorm
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

WIDTH = 32
torch.set_num_threads(1)


class Adapter(nn.Module):
    """Houlsby et al. 2019: u + up(act(down(u))); without `skip`, only the bottleneck."""

    def __init__(self, skip=True, norm=False, std=0.05, scale=1.0):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH) if norm else nn.Identity()
        self.down, self.up = nn.Linear(WIDTH, 8), nn.Linear(8, WIDTH)
        self.skip, self.scale = skip, scale
        nn.init.normal_(self.up.weight, std=std), nn.init.normal_(self.up.bias, std=std)

    def forward(self, u):
        f = self.up(torch.relu(self.down(self.norm(u)))) * self.scale
        return u + f if self.skip else f


class LoRA(nn.Module):
    """Hu et al. 2021: W·x + B·A·x."""

    def __init__(self, linear, std=0.05):
        super().__init__()
        self.linear, self.a, self.b = linear, nn.Linear(linear.in_features, 4), nn.Linear(4, linear.out_features)
        nn.init.normal_(self.b.weight, std=std), nn.init.normal_(self.b.bias, std=std)

    def forward(self, x):
        return self.linear(x) + self.b(self.a(x))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.proj = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (4, 8)).transpose(1, 2) for f in (self.q, self.k, self.v))
        return self.proj((torch.softmax(q @ k.transpose(-1, -2) / 8**0.5, -1) @ v).transpose(1, 2).flatten(2))


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(x)))


class Layer(nn.Module):
    """Pre-norm. `add(x, f, h)` is the sum after the feed-forward, of the stream, the branch and its norm."""

    def __init__(self, add=lambda x, f, h: x + f, **options):
        super().__init__()
        self.ln_1, self.ln_2, self.attn, self.mlp = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), Attention(), MLP()
        self.first, self.second, self.drop = Adapter(**options), Adapter(**options), nn.Dropout(0.1)
        self.add = add

    def forward(self, x):
        x = x + self.drop(self.first(self.attn(self.ln_1(x))))
        h = self.ln_2(x)
        return self.add(x, self.second(self.mlp(h)), h)


class PostNorm(Layer):
    def forward(self, x):
        x = self.ln_1(x + self.drop(self.first(self.attn(x))))
        return self.ln_2(x + self.second(self.mlp(x)))


class Parallel(Layer):
    def forward(self, x):
        x = x + self.attn(self.ln_1(x)) + self.first(x)
        return x + self.mlp(self.ln_2(x)) + self.second(x)


class BehindTheSum(Layer):
    def forward(self, x):
        x = self.first(x + self.attn(self.ln_1(x)))
        return self.second(x + self.mlp(self.ln_2(x)))


class BehindTheNorm(Layer):
    def forward(self, x):
        x = self.ln_1(x + self.attn(x))
        return self.second(self.ln_2(x + self.mlp(x)))


class Two(Layer):
    """Two adapters in sequence."""

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.second(self.first(self.mlp(self.ln_2(x))))


class WithLoRA(Layer):
    def __init__(self, std=0.05):
        super().__init__()
        self.attn.q, self.attn.proj = LoRA(self.attn.q, std), LoRA(self.attn.proj, std)
        self.mlp.fc2 = LoRA(self.mlp.fc2, std)
        del self.first, self.second

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Model(nn.Module):
    def __init__(self, layers, norm):
        super().__init__()
        self.embedding, self.head = nn.Embedding(40, WIDTH), nn.Linear(WIDTH, 40)
        self.layers, self.norm = nn.ModuleList(layers), norm

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def model(make, count=4, frozen=False):
    torch.manual_seed(0)
    layers = [make(i) for i in range(count)]
    is_post = isinstance(layers[0], (PostNorm, BehindTheNorm))
    found = Model(layers, nn.Identity() if is_post else nn.LayerNorm(WIDTH))
    if frozen:
        for name, parameter in found.named_parameters():
            parameter.requires_grad_("first" in name or "second" in name)
    return found


def findings(network):
    report = addnorm.check(network, torch.randint(40, (2, 12), generator=torch.Generator().manual_seed(1)))
    measured, seen = report.coverage.counts["sums"]
    assert measured == seen > 0, report.coverage
    return [finding.name for finding in report.findings if finding.severity != "note"]


OPTIONS = [{}, {"std": 1e-3}, {"std": 0}, {"norm": True}, {"scale": 0.5}, {"skip": False}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("kind", [Layer, PostNorm, Two])
def test_a_serial_adapter_is_a_part_of_its_branch(kind, options):
    network = model(lambda _: kind(**options))
    assert findings(network) == []
    assert findings(network.eval()) == []


@pytest.mark.parametrize("std", [0.05, 1e-3, 0])
@pytest.mark.parametrize("kind, options", [
    (Parallel, {"skip": False}), (BehindTheSum, {}), (BehindTheSum, {"norm": True}), (BehindTheNorm, {}),
    (WithLoRA, {})])
def test_adapters_beside_a_branch_and_behind_a_sum_are_sound(kind, options, std):
    if kind is BehindTheNorm:
        assert [name for name in findings(model(lambda _: kind(std=std, **options))) if "unused" not in name] == []
    else:
        assert findings(model(lambda _: kind(std=std, **options))) == []


def test_adapters_of_a_frozen_model_are_sound():
    assert findings(model(lambda _: Layer(), frozen=True)) == []


BUGS = {
    "residual-missing": lambda x, f, h: f,
    "residual-twice": lambda x, f, h: x + x + f,
    "residual-twice, in the branch": lambda x, f, h: x + (x + f),
    "branch-factor": lambda x, f, h: x + 2 * f,
    "norm-over-stream": lambda x, f, h: h + f,
    "residual-detached": lambda x, f, h: x.detach() + f,
    "branch-detached": lambda x, f, h: x + f.detach(),
}


@pytest.mark.parametrize("options", [{}, {"std": 1e-3}, {"norm": True}], ids=str)
@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_around_an_adapter_is_named_in_its_layer(bug, options):
    network = model(lambda i: Layer(BUGS[bug] if i == 1 else Layer().add, **options))
    assert findings(network) == [f"{bug.partition(',')[0]}@layer 1, feed-forward"]


def test_attention_without_its_residual_is_no_adapter():
    """Two sublayers with their own norms, the first without a residual."""
    class Broken(Layer):
        def forward(self, x):
            x = self.attn(self.ln_1(x))
            return x + self.mlp(self.ln_2(x))

    network = model(lambda i: Broken() if i == 1 else Layer())
    assert "residual-missing@layer 1, attention" in findings(network)
