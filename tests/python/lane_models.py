"""Sound language models whose residual stream has several lanes: X′ = A·X + b ⊗ f after each sublayer, which reads a·X.
lanes_doctor_test.py checks and breaks them.

A model combines a representation of the lanes (a Connection, each with different operators) and a way to compute the
coefficients a, A and b.
"""

import itertools
import math
from typing import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from zoo_models import LENGTH, MLP, VOCABULARY, WIDTH, Attention, batch

__all__ = ["SOUND", "UNUSUAL", "batch", "parts_of_features"]

N, LAYERS = 4, 3

# ---- Coefficients ----------------------------------------------------------------------------
# For lanes [B, T, N, WIDTH]: a [..., N], A [..., N, N], of which row i makes lane i, and b [..., N].


class Static(nn.Module):
    """Hyper-connections (Zhu et al. 2024): each sublayer initially reads a different lane."""

    def __init__(self, site: int):
        super().__init__()
        self.read = nn.Parameter(torch.eye(N)[site % N])
        self.carry, self.write = nn.Parameter(torch.eye(N)), nn.Parameter(torch.ones(N))

    def forward(self, lanes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.read, self.carry, self.write


class Dynamic(Static):
    """The same, with a part that is computed from each lane's row."""

    def __init__(self, site: int):
        super().__init__(site)
        self.norm = nn.LayerNorm(WIDTH)
        self.mix, self.gate = nn.Linear(WIDTH, N + 1, bias=False), nn.Linear(WIDTH, 1, bias=False)
        nn.init.zeros_(self.mix.weight)
        nn.init.zeros_(self.gate.weight)
        self.scales = nn.Parameter(torch.full((3,), 0.01))

    def forward(self, lanes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        h = self.norm(lanes)
        mix, gate = self.mix(h).tanh(), self.gate(h).tanh().squeeze(-1)
        return (self.read + self.scales[0] * mix[..., 0],
                self.carry + self.scales[1] * mix[..., 1:].transpose(-1, -2),
                self.write + self.scales[2] * gate)


def sinkhorn(logits: Tensor, steps: int = 20) -> Tensor:
    """Returns a matrix whose rows and columns sum to 1."""
    m = logits.float().softmax(-1) + 1e-6
    m = m / (m.sum(-2, keepdim=True) + 1e-6)
    for _ in range(steps - 1):
        m = m / (m.sum(-1, keepdim=True) + 1e-6)
        m = m / (m.sum(-2, keepdim=True) + 1e-6)
    return m


class MHC(nn.Module):
    """Xie et al. 2025: coefficients are computed from all lanes together; A is doubly stochastic, b = 2σ."""

    def __init__(self, site: int):
        super().__init__()
        self.phi = nn.Linear(N * WIDTH, self.size(), bias=False)
        self.scales = nn.Parameter(torch.full((3,), 0.1))
        self.pre = nn.Parameter(torch.where(torch.arange(N) == site % N, 1.0, -1.0))
        self.post = nn.Parameter(torch.randn(N) / 2)
        self.res = nn.Parameter(torch.randn(self.size() - 2 * N))

    @staticmethod
    def size() -> int:
        return N * N + 2 * N

    def project(self, lanes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        v = lanes.flatten(-2)
        v = v * torch.rsqrt(v.square().mean(-1, keepdim=True) + 1e-6)
        pre, post, res = self.phi(v).split([N, N, self.size() - 2 * N], -1)
        return (self.pre + self.scales[0] * pre, self.post + self.scales[1] * post,
                self.res + self.scales[2] * res)

    def forward(self, lanes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        pre, post, res = self.project(lanes)
        return pre.sigmoid(), self.carry(res), self.write(post)

    def carry(self, res: Tensor) -> Tensor:
        return sinkhorn(res.unflatten(-1, (N, N))).to(res.dtype)

    def write(self, post: Tensor) -> Tensor:
        return 2 * post.sigmoid()


class MHCLite(MHC):
    """A mixture of all permutations, whose rows and columns sum to 1 exactly."""

    def __init__(self, site: int):
        super().__init__(site)
        eye = torch.eye(N)
        self.register_buffer("permutations", torch.stack(
            [eye[list(p)] for p in itertools.permutations(range(N))]))

    @staticmethod
    def size() -> int:
        return math.factorial(N) + 2 * N

    def carry(self, res: Tensor) -> Tensor:
        return torch.einsum("...p,pij->...ij", res.softmax(-1), self.permutations)


class Wide(nn.Module):
    """NVIDIA's wide residual: lanes are not mixed, and differ in what is written to them."""

    def __init__(self, site: int):
        super().__init__()
        self.read = nn.Parameter(torch.full((N,), 1 / N))
        self.retention = nn.Parameter(torch.full((N,), 0.999))
        self.beta = nn.Parameter(torch.linspace(-1, 1, N))

    def forward(self, lanes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.read, torch.diag_embed(self.retention), 2 * self.beta.sigmoid()


class TwoOfFour(Static):
    """The form of modded-nanogpt: attention reads one lane, the feed-forward another, both write to all."""

    def __init__(self, site: int):
        super().__init__(site % 2)
        self.write = nn.Parameter(torch.tensor([1.0, 0.5, 0.2, 0.0]).roll(site % 2))


# ---- Lanes -----------------------------------------------------------------------------------


class Connection(nn.Module):
    """A sublayer with its norm, on lanes [B, T, N, WIDTH], with einsum."""

    def __init__(self, coefficients: Callable[[int], nn.Module], site: int):
        super().__init__()
        self.coefficients, self.norm = coefficients(site), nn.LayerNorm(WIDTH)
        self.branch = MLP(dropout=0.1) if site % 2 else Attention()

    def forward(self, x: Tensor) -> Tensor:
        a, carry, b = self.coefficients(self.usual(x))
        return self.write(x, carry, b, self.branch(self.norm(self.read(x, a))))

    @staticmethod
    def usual(x: Tensor) -> Tensor:
        """Returns the lanes as [B, T, N, WIDTH]."""
        return x

    def read(self, x: Tensor, a: Tensor) -> Tensor:
        return torch.einsum("n,btnd->btd" if a.dim() == 1 else "btn,btnd->btd", a, x)

    def write(self, x: Tensor, carry: Tensor, b: Tensor, f: Tensor) -> Tensor:
        mix = "ij,btjd->btid" if carry.dim() == 2 else "btij,btjd->btid"
        put = "n,btd->btnd" if b.dim() == 1 else "btn,btd->btnd"
        return torch.einsum(mix, carry, x) + torch.einsum(put, b, f)

    @staticmethod
    def begin(x: Tensor) -> Tensor:
        return x.unsqueeze(2).expand(-1, -1, N, -1)

    @staticmethod
    def end(x: Tensor) -> Tensor:
        return x.sum(2)


class Packed(Connection):
    """Read and carry in one product, as in the paper."""

    def forward(self, x: Tensor) -> Tensor:
        a, carry, b = self.coefficients(x)
        mixed = torch.cat([a[..., None, :], carry], -2) @ x
        f = self.branch(self.norm(mixed[..., 0, :]))
        return mixed[..., 1:, :] + b.unsqueeze(-1) * f.unsqueeze(-2)


class Batched(Connection):
    """Lanes are part of the batch, [B·N, T, WIDTH], as in lucidrains' code."""

    @staticmethod
    def usual(x: Tensor) -> Tensor:
        return x.unflatten(0, (-1, N)).permute(0, 2, 1, 3)

    def read(self, x: Tensor, a: Tensor) -> Tensor:
        return (a[..., None, :] @ self.usual(x)).squeeze(-2)

    def write(self, x: Tensor, carry: Tensor, b: Tensor, f: Tensor) -> Tensor:
        lanes = carry @ self.usual(x) + b.unsqueeze(-1) * f.unsqueeze(-2)
        return lanes.permute(0, 2, 1, 3).flatten(0, 1)

    @staticmethod
    def begin(x: Tensor) -> Tensor:
        return x.repeat_interleave(N, 0)

    @staticmethod
    def end(x: Tensor) -> Tensor:
        return x.unflatten(0, (-1, N)).mean(1)


class First(Connection):
    """[N, B, T, WIDTH], lane by lane, with stacked sums."""

    @staticmethod
    def usual(x: Tensor) -> Tensor:
        return x.permute(1, 2, 0, 3)

    def read(self, x: Tensor, a: Tensor) -> Tensor:
        return sum(a[..., i, None] * lane for i, lane in enumerate(x))

    def write(self, x: Tensor, carry: Tensor, b: Tensor, f: Tensor) -> Tensor:
        lanes = x.unbind(0)
        return torch.stack([sum(carry[..., i, j, None] * lane for j, lane in enumerate(lanes))
                            + b[..., i, None] * f for i in range(N)])

    @staticmethod
    def begin(x: Tensor) -> Tensor:
        return torch.stack([x] * N)

    @staticmethod
    def end(x: Tensor) -> Tensor:
        return sum(x.unbind(0)) / N


class Second(Connection):
    """[B, N, T, WIDTH], with products of matrices, or of numbers if these are static."""

    @staticmethod
    def usual(x: Tensor) -> Tensor:
        return x.transpose(1, 2)

    def read(self, x: Tensor, a: Tensor) -> Tensor:
        weights = a[:, None, None] if a.dim() == 1 else a.transpose(1, 2)[..., None]
        return (weights * x).sum(1)

    def write(self, x: Tensor, carry: Tensor, b: Tensor, f: Tensor) -> Tensor:
        if b.dim() == 1:
            return (carry[..., None, None] * x[:, None]).sum(2) + b[:, None, None] * f[:, None]
        return torch.matmul(carry, self.usual(x)).transpose(1, 2) + b.transpose(1, 2)[..., None] * f[:, None]

    @staticmethod
    def begin(x: Tensor) -> Tensor:
        return x[:, None].repeat(1, N, 1, 1)

    @staticmethod
    def end(x: Tensor) -> Tensor:
        return x.mean(1)


class Flat(Connection):
    """[B, T, N·WIDTH], with batched products over all tokens."""

    @staticmethod
    def usual(x: Tensor) -> Tensor:
        return x.unflatten(-1, (N, WIDTH))

    def read(self, x: Tensor, a: Tensor) -> Tensor:
        lanes = self.usual(x).flatten(0, 1)
        return torch.bmm(a.expand(*x.shape[:2], N).flatten(0, 1)[:, None], lanes).view(*x.shape[:2], WIDTH)

    def write(self, x: Tensor, carry: Tensor, b: Tensor, f: Tensor) -> Tensor:
        tokens = x.shape[:2]
        lanes, f = self.usual(x).flatten(0, 1), f.reshape(-1, 1, WIDTH)
        carry = carry.expand(*tokens, N, N).flatten(0, 1)
        written = torch.baddbmm(torch.bmm(carry, lanes), b.expand(*tokens, N).reshape(-1, N, 1), f)
        return written.view(*tokens, N * WIDTH)

    @staticmethod
    def begin(x: Tensor) -> Tensor:
        return x.repeat(1, 1, N)

    @staticmethod
    def end(x: Tensor) -> Tensor:
        return x.unflatten(-1, (N, WIDTH)).mean(2)


class InPlace(Connection):
    """[B, T, N, WIDTH], with lanes written one after another. For diagonal carries only."""

    def read(self, x: Tensor, a: Tensor) -> Tensor:
        return (a[..., None] * x).mean(2) * N

    def write(self, x: Tensor, carry: Tensor, b: Tensor, f: Tensor) -> Tensor:
        lanes = carry.diagonal()[:, None] * x
        for i in range(N):
            lanes[:, :, i] += b[i] * f
        return lanes


# ---- Models ----------------------------------------------------------------------------------


class Layer(nn.Module):
    def __init__(self, connection: Callable[[int], nn.Module], place: int):
        super().__init__()
        self.attention, self.feed_forward = connection(2 * place), connection(2 * place + 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.feed_forward(self.attention(x))


class Model(nn.Module):
    def __init__(self, lanes: type, coefficients: Callable[[int], nn.Module]):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.layers = nn.ModuleList(
            Layer(lambda site: lanes(coefficients, site), place) for place in range(LAYERS))
        self.begin, self.end = lanes.begin, lanes.end
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.begin(self.embedding(tokens) + self.positions(torch.arange(tokens.shape[1])))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(self.end(x)))


def loss_of(tokens: Tensor) -> Callable[[Tensor], Tensor]:
    """The cross-entropy of the next token."""
    return lambda logits: F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


SOUND: dict[str, Callable[[], nn.Module]] = {
    "hyper-connections, static": lambda: Model(Connection, Static),
    "hyper-connections, dynamic": lambda: Model(Connection, Dynamic),
    "packed": lambda: Model(Packed, Dynamic),
    "lanes in the batch": lambda: Model(Batched, Dynamic),
    "lanes first": lambda: Model(First, Static),
    "lanes first, dynamic": lambda: Model(First, Dynamic),
    "lanes second": lambda: Model(Second, Static),
    "mHC": lambda: Model(Connection, MHC),
    "mHC, lanes in the batch": lambda: Model(Batched, MHC),
    "mHC, lanes in the features": lambda: Model(Flat, MHC),
    "mHC-lite": lambda: Model(Second, MHCLite),
    "wide residual": lambda: Model(InPlace, Wide),
    "two lanes": lambda: Model(First, TwoOfFour),
}


# ---- Unusual models --------------------------------------------------------------------------


class NormBehind(Connection):
    """Post-norm: each lane is normalized after the sublayer."""

    def forward(self, x: Tensor) -> Tensor:
        a, carry, b = self.coefficients(x)
        return self.norm(self.write(x, carry, b, self.branch(self.read(x, a))))


class NormOfLanes(Connection):
    """Each lane is normalized before it is read."""

    def forward(self, x: Tensor) -> Tensor:
        a, carry, b = self.coefficients(x)
        return self.write(x, carry, b, self.branch(self.read(self.norm(x), a)))


class NormInside(Connection):
    """The branch is normalized before it is written."""

    def forward(self, x: Tensor) -> Tensor:
        a, carry, b = self.coefficients(x)
        return self.write(x, carry, b, self.norm(self.branch(self.read(x, a))))


class Experts(nn.Module):
    """One expert per lane. All read the same rows."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = (nn.Parameter(torch.randn(N, WIDTH, WIDTH) / WIDTH**0.5) for _ in range(2))
        self.router = nn.Linear(WIDTH, N)

    def forward(self, z: Tensor) -> Tensor:
        rows = z.reshape(1, -1, WIDTH).expand(N, -1, -1)
        gates = self.router(z).softmax(-1).reshape(-1, N).t()[..., None]
        return (gates * torch.bmm(torch.bmm(rows, self.up).relu(), self.down)).sum(0).view(z.shape)


class WithExperts(Connection):
    def __init__(self, coefficients: Callable[[int], nn.Module], site: int):
        super().__init__(coefficients, site)
        self.branch = Experts() if site % 2 else self.branch


class Block(nn.Module):
    """A whole pre-norm layer as the branch."""

    def __init__(self, place: int):
        super().__init__()
        self.coefficients = Dynamic(place)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.attention, self.feed_forward = Attention(), MLP()

    def forward(self, x: Tensor) -> Tensor:
        a, carry, b = self.coefficients(x)
        z = (a[..., None] * x).sum(2)
        z = z + self.attention(self.norms[0](z))
        z = z + self.feed_forward(self.norms[1](z))
        return carry @ x + b[..., None] * z[:, :, None]


class Predicted(Block):
    """AltUp of Gemma 3n: one lane goes through the layer, the others follow it."""

    def forward(self, x: Tensor) -> Tensor:
        _, carry, b = self.coefficients(x)
        x = carry @ x
        z = x[:, :, 0]
        f = z + self.attention(self.norms[0](z))
        f = f + self.feed_forward(self.norms[1](f))
        return x + b[..., None] * (f - z)[:, :, None]


class AtOnce(Block):
    """Attention and feed-forward read different lanes before either writes."""

    def forward(self, x: Tensor) -> Tensor:
        _, carry, b = self.coefficients(x)
        f, g = self.attention(self.norms[0](x[:, :, 0])), self.feed_forward(self.norms[1](x[:, :, 1]))
        return carry @ x + b[..., None] * f[:, :, None] + 0.5 * b[..., None] * g[:, :, None]


class PartsOfFeatures(nn.Module):
    """Frac-connections: lanes are parts of the features."""

    def __init__(self, place: int):
        super().__init__()
        self.norm, self.branch = nn.LayerNorm(WIDTH), MLP() if place % 2 else Attention()
        self.mix, self.carry = nn.Parameter(torch.eye(N)), nn.Parameter(torch.eye(N))
        self.write = nn.Parameter(torch.ones(N))

    def forward(self, x: Tensor) -> Tensor:
        parts = x.unflatten(-1, (N, -1))
        f = self.branch(self.norm((self.mix @ parts).flatten(-2))).unflatten(-1, (N, -1))
        return (self.carry @ parts + self.write[:, None] * f).flatten(-2)


class LanesNormedAtTheEnd(Model):
    """Reads its own lanes at the start, and normalizes each at the end."""

    def __init__(self) -> None:
        super().__init__(Connection, MHC)
        self.lanes = nn.Parameter(0.02 * torch.randn(N, WIDTH))
        self.begin = lambda x: Connection.begin(x) + self.lanes
        self.end = lambda x: self.norm(x).sum(2)


def of_layers(layer: Callable[[int], nn.Module]) -> nn.Module:
    model = Model(Connection, Static)
    model.layers = nn.ModuleList(layer(place) for place in range(LAYERS))
    return model


def parts_of_features() -> nn.Module:
    model = of_layers(PartsOfFeatures)
    model.begin = model.end = lambda x: x
    return model


UNUSUAL: dict[str, Callable[[], nn.Module]] = {
    "norm behind": lambda: Model(NormBehind, Dynamic),
    "norm of lanes": lambda: Model(NormOfLanes, MHC),
    "norm inside": lambda: Model(NormInside, Dynamic),
    "experts": lambda: Model(WithExperts, MHC),
    "blocks": lambda: of_layers(Block),
    "predicted": lambda: of_layers(Predicted),
    "at once": lambda: of_layers(AtOnce),
    "lanes normed at the end": LanesNormedAtTheEnd,
}
