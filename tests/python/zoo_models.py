"""Sound language models in the usual forms of Transformer code. zoo_test.py checks and breaks them.

They differ in the path of the stream, the positions of the norms, and the division into modules. behaviour_models.py
has models that differ in their purpose. All take tokens and return logits, for each token or for the sequence.
"""

import math
from typing import Callable, Iterable, Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDTH, HEADS, LAYERS, VOCABULARY, BATCH, LENGTH = 32, 4, 4, 40, 2, 16
EPSILON = 1e-5


def masked(scores: Tensor) -> Tensor:
    later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return scores.masked_fill(later, -math.inf)


class Attention(nn.Module):
    def __init__(self, causal: bool = True):
        super().__init__()
        self.qkv, self.proj, self.causal = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH), causal

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        scores = q @ k.transpose(-1, -2) / math.sqrt(WIDTH // HEADS)
        scores = masked(scores) if self.causal else scores
        return self.proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class NormedAttention(Attention):
    """Attention with norms of queries and keys, as in ViT-22B."""

    def __init__(self) -> None:
        super().__init__()
        self.q_norm, self.k_norm = nn.LayerNorm(WIDTH // HEADS), nn.LayerNorm(WIDTH // HEADS)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        scores = self.q_norm(q) @ self.k_norm(k).transpose(-1, -2) / math.sqrt(WIDTH // HEADS)
        return self.proj((masked(scores).softmax(-1) @ v).transpose(1, 2).flatten(2))


class JointlyNormedAttention(NormedAttention):
    """One mean and deviation for all heads of a token, without γ."""

    def __init__(self) -> None:
        super().__init__()
        self.q_norm, self.k_norm = (nn.LayerNorm((HEADS, WIDTH // HEADS), elementwise_affine=False) for _ in "qk")

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (HEADS, -1)) for t in self.qkv(x).chunk(3, -1))
        q, k, v = (t.transpose(1, 2) for t in (self.q_norm(q), self.k_norm(k), v))
        scores = q @ k.transpose(-1, -2) / math.sqrt(WIDTH // HEADS)
        return self.proj((masked(scores).softmax(-1) @ v).transpose(1, 2).flatten(2))


class MLP(nn.Sequential):
    def __init__(self, dropout: float = 0.0):
        super().__init__(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Dropout(dropout),
                         nn.Linear(4 * WIDTH, WIDTH))


class Model(nn.Module):
    """Embeddings, layers in sequence, a final norm, a head."""

    def __init__(self, layers: Iterable[nn.Module], final_norm: Optional[nn.Module] = None):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(64, WIDTH)
        self.layers = nn.ModuleList(layers)
        self.norm = final_norm or nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens) + self.positions(torch.arange(tokens.shape[1]))
        return self.head(self.norm(self.run(x)))

    def run(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class PreNorm(nn.Module):
    """The block of GPT-2, and the base of the blocks below."""

    def __init__(self, causal: bool = True):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(WIDTH), Attention(causal)
        self.ln_2, self.mlp = nn.LayerNorm(WIDTH), MLP()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class QueryNorm(PreNorm):
    def __init__(self) -> None:
        super().__init__()
        self.attn = NormedAttention()


class JointNorm(PreNorm):
    def __init__(self) -> None:
        super().__init__()
        self.attn = JointlyNormedAttention()


class Gated(PreNorm):
    """The stream itself, without the norm, gates attention's output."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x)) * self.gate(x).sigmoid()
        return x + self.mlp(self.ln_2(x))


class NamedOtherwise(PreNorm):
    """Norms of groups of features. Their class name says so."""

    def __init__(self) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = GroupRMSNorm(), GroupRMSNorm()


class GroupRMSNorm(nn.Module):
    def __init__(self, groups: int = 4) -> None:
        super().__init__()
        self.weight, self.groups = nn.Parameter(torch.ones(WIDTH)), groups

    def forward(self, x: Tensor) -> Tensor:
        parts = x.unflatten(-1, (self.groups, -1))
        return self.weight * (parts * (parts.square().mean(-1, keepdim=True) + EPSILON).rsqrt()).flatten(-2)


class PostNorm(PreNorm):
    """The block of the original Transformer."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.ln_1(x + self.attn(x))
        return self.ln_2(x + self.mlp(x))


class DeepNorm(PreNorm):
    """Wang et al. 2022: a post-norm of α·x + f."""

    def forward(self, x: Tensor) -> Tensor:
        alpha = (2 * LAYERS) ** 0.25
        x = self.ln_1(alpha * x + self.attn(x))
        return self.ln_2(alpha * x + self.mlp(x))


class Sandwich(PreNorm):
    """The block of Gemma 2: norms before and after each sublayer."""

    def __init__(self) -> None:
        super().__init__()
        self.post_1, self.post_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.post_1(self.attn(self.ln_1(x)))
        return x + self.post_2(self.mlp(self.ln_2(x)))


class BranchNorm(PreNorm):
    """The block of OLMo 2: a norm of the branch only."""

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.ln_1(self.attn(x))
        return x + self.ln_2(self.mlp(x))


class AddsInPlace(PreNorm):
    """Sums by +=, into values that autograd does not need."""

    def forward(self, x: Tensor) -> Tensor:
        f = self.attn(self.ln_1(x))
        f += x
        g = self.mlp(self.ln_2(f))
        g += f
        return g


class ReZero(PreNorm):
    """Bachlechner et al. 2020: no norms; branches times a learned number that is initially 0."""

    def __init__(self) -> None:
        nn.Module.__init__(self)
        self.attn, self.mlp, self.gain = Attention(), MLP(), nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.gain * self.attn(x)
        return x + self.gain * self.mlp(x)


class LayerScale(PreNorm):
    """The block of CaiT: a learned gain for each feature of a branch."""

    def __init__(self) -> None:
        super().__init__()
        self.gain_1, self.gain_2 = (nn.Parameter(0.1 * torch.rand(WIDTH)) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.gain_1 * self.attn(self.ln_1(x))
        return x + self.gain_2 * self.mlp(self.ln_2(x))


class LearnedResidual(PreNorm):
    """The block of Zaya: gains and biases also of the residual connection; branches are initially small."""

    def __init__(self) -> None:
        super().__init__()
        self.gains, self.biases = nn.Parameter(torch.ones(4, WIDTH)), nn.Parameter(torch.zeros(4, WIDTH))
        for linear in (self.attn.proj, self.mlp[-1]):
            nn.init.normal_(linear.weight, std=1e-3)
            nn.init.zeros_(linear.bias)

    def add(self, i: int, x: Tensor, f: Tensor) -> Tensor:
        (g, h), (a, b) = self.gains[i:i + 2], self.biases[i:i + 2]
        return (f + b) * h + (x + a) * g

    def forward(self, x: Tensor) -> Tensor:
        x = self.add(0, x, self.attn(self.ln_1(x)))
        return self.add(2, x, self.mlp(self.ln_2(x)))


class DropPath(PreNorm):
    """Stochastic depth as in timm: whole branches are dropped, one sequence at a time."""

    def drop(self, f: Tensor) -> Tensor:
        kept = torch.rand(len(f), 1, 1) > 0.1
        return f * kept / 0.9 if self.training else f

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.drop(self.attn(self.ln_1(x)))
        return x + self.drop(self.mlp(self.ln_2(x)))


class Recurrent(PreNorm):
    """A GRU in place of attention."""

    def __init__(self) -> None:
        super().__init__()
        self.attn = nn.GRU(WIDTH, WIDTH, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))[0]
        return x + self.mlp(self.ln_2(x))


class Functional(nn.Module):
    """The early form of modded nanoGPT: norms are functions, γ is a parameter of the block."""

    def __init__(self) -> None:
        super().__init__()
        self.gain_1, self.gain_2 = (nn.Parameter(torch.ones(WIDTH)) for _ in range(2))
        self.attn = Attention()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(F.layer_norm(x, (WIDTH,), self.gain_1))
        return x + self.down(F.gelu(self.up(F.layer_norm(x, (WIDTH,), self.gain_2))))


class Parallel(nn.Module):
    """The block of GPT-J: one norm, and both sublayers in parallel."""

    def __init__(self) -> None:
        super().__init__()
        self.ln_1, self.attn, self.mlp = nn.LayerNorm(WIDTH), Attention(), MLP()

    def forward(self, x: Tensor) -> Tensor:
        h = self.ln_1(x)
        return x + self.attn(h) + self.mlp(h)


class FusedParallel(nn.Module):
    """The block of PaLM: one projection for the inputs of attention and feed-forward."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.fused = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 11 * WIDTH, bias=False)
        self.attn_out, self.ff_out = nn.Linear(WIDTH, WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v, gate, up = self.fused(self.norm(x)).split([WIDTH] * 3 + [4 * WIDTH] * 2, -1)
        scores = masked(q @ k.transpose(-1, -2) / math.sqrt(WIDTH))
        return x + self.attn_out(scores.softmax(-1) @ v) + self.ff_out(F.silu(gate) * up)


class Macaron(nn.Module):
    """The block of Conformer without its convolution: half a feed-forward before and after attention."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH) for _ in range(4)])
        self.ff_1, self.attn, self.ff_2 = MLP(), Attention(causal=False), MLP()

    def forward(self, x: Tensor) -> Tensor:
        x = x + 0.5 * self.ff_1(self.norms[0](x))
        x = x + self.attn(self.norms[1](x))
        return self.norms[3](x + 0.5 * self.ff_2(self.norms[2](x)))


class Experts(nn.Module):
    """The block of Mixtral with DeepSeek's shared expert, which is added separately."""

    def __init__(self) -> None:
        super().__init__()
        self.ln_1, self.attn, self.ln_2 = nn.LayerNorm(WIDTH), Attention(), nn.LayerNorm(WIDTH)
        self.gate, self.shared = nn.Linear(WIDTH, 3), MLP()
        self.experts = nn.ModuleList([MLP() for _ in range(3)])

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        h = self.ln_2(x)
        rows = h.flatten(0, 1)
        weights, chosen = self.gate(rows).softmax(-1).max(-1)
        out = torch.zeros_like(rows)
        for i, expert in enumerate(self.experts):
            mine = chosen == i
            out[mine] = expert(rows[mine]) * weights[mine, None]
        return x + out.view_as(x) + self.shared(h)


class Lists(Model):
    """The newer form of vit-pytorch: a layer is a list of two modules, each with its norm in front."""

    def __init__(self) -> None:
        super().__init__(nn.ModuleList([nn.Sequential(nn.LayerNorm(WIDTH), Attention(causal=False)),
                                        nn.Sequential(nn.LayerNorm(WIDTH), MLP())])
                         for _ in range(LAYERS))

    def run(self, x: Tensor) -> Tensor:
        for attention, feed_forward in self.layers:
            x = attention(x) + x
            x = feed_forward(x) + x
        return x


class InnerNorms(Lists):
    """The older form of vit-pytorch: norms are inside attention and feed-forward."""

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.attention = nn.LayerNorm(WIDTH), Attention(causal=False)

        def forward(self, x: Tensor) -> Tensor:
            return self.attention(self.norm(x))

    class FeedForward(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.LayerNorm(WIDTH), *MLP(0.1), nn.Dropout(0.1))

        def forward(self, x: Tensor) -> Tensor:
            return self.net(x)

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.ModuleList([self.Attention(), self.FeedForward()])
                                     for _ in range(LAYERS)])


def rms(x: Tensor) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPSILON)


class Speedrun(Model):
    """modded-nanogpt: norms without γ, the embedding mixed in again, skips as in U-Net, squared ReLU."""

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attn, self.mix = Attention(), nn.Parameter(torch.tensor([1.0, 0.0]))
            self.up = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
            self.down = nn.Linear(4 * WIDTH, WIDTH, bias=False)
            for parameter in (*self.attn.proj.parameters(), self.down.weight):
                nn.init.zeros_(parameter)

        def forward(self, x: Tensor, x0: Tensor) -> Tensor:
            x = self.mix[0] * x + self.mix[1] * x0
            x = x + self.attn(rms(x))
            return x + self.down(F.relu(self.up(rms(x))).square())

    def __init__(self) -> None:
        super().__init__((self.Layer() for _ in range(LAYERS)), nn.Identity())
        self.skips = nn.Parameter(torch.ones(LAYERS // 2))

    def run(self, x: Tensor) -> Tensor:
        x = x0 = rms(x)
        kept = []
        for layer in self.layers[:LAYERS // 2]:
            x = layer(x, x0)
            kept.append(x)
        for i, layer in enumerate(self.layers[LAYERS // 2:]):
            x = layer(x + self.skips[i] * kept.pop(), x0)
        return rms(x)


class Pairs(Model):
    """The form of flash-attention and Mamba: layers pass on (hidden, residual), and add late."""

    class Layer(PreNorm):
        def forward(self, hidden, residual=None):
            residual = hidden if residual is None else hidden + residual
            hidden = self.attn(self.ln_1(residual))
            residual = hidden + residual
            return self.mlp(self.ln_2(residual)), residual

    def __init__(self) -> None:
        super().__init__(self.Layer() for _ in range(LAYERS))

    def run(self, x: Tensor) -> Tensor:
        residual = None
        for layer in self.layers:
            x, residual = layer(x, residual)
        return x + residual


class FusedRMSNorm(nn.Module):
    """Adds, then normalizes, and returns both."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x, residual=None):
        residual = x if residual is None else x + residual
        return rms(residual) * self.weight, residual


class FusedPairs(Model):
    """The form of vLLM: the sums are fused into the norms."""

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.input_layernorm, self.self_attn = FusedRMSNorm(), Attention()
            self.post_attention_layernorm, self.mlp = FusedRMSNorm(), MLP()

        def forward(self, hidden, residual):
            hidden, residual = self.input_layernorm(hidden, residual)
            hidden, residual = self.post_attention_layernorm(self.self_attn(hidden), residual)
            return self.mlp(hidden), residual

    def __init__(self) -> None:
        super().__init__((self.Layer() for _ in range(LAYERS)), FusedRMSNorm())

    def forward(self, tokens: Tensor) -> Tensor:
        x, residual = self.embedding(tokens), None
        for layer in self.layers:
            x, residual = layer(x, residual)
        return self.head(self.norm(x, residual)[0])


class Shared(Model):
    """The form of ALBERT: one layer, called repeatedly."""

    def __init__(self) -> None:
        super().__init__([PreNorm()])

    def run(self, x: Tensor) -> Tensor:
        for _ in range(LAYERS):
            x = self.layers[0](x)
        return x


class Attributes(Model):
    """Layers as attributes instead of a list."""

    def __init__(self) -> None:
        super().__init__([])
        self.block0, self.block1, self.block2, self.block3 = (PreNorm() for _ in range(LAYERS))

    def run(self, x: Tensor) -> Tensor:
        return self.block3(self.block2(self.block1(self.block0(x))))


class Conditioned(Model):
    """The form of DiT: norms without parameters, whose shift and scale come from a condition, and gated branches."""

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ln_1, self.ln_2 = (nn.LayerNorm(WIDTH, elementwise_affine=False) for _ in range(2))
            self.attn, self.mlp = Attention(causal=False), MLP()
            self.modulation = nn.Linear(WIDTH, 6 * WIDTH)

        def forward(self, x: Tensor, condition: Tensor) -> Tensor:
            shift_1, scale_1, gate_1, shift_2, scale_2, gate_2 = \
                self.modulation(F.silu(condition))[:, None].chunk(6, -1)
            x = x + gate_1 * self.attn(self.ln_1(x) * (1 + scale_1) + shift_1)
            return x + gate_2 * self.mlp(self.ln_2(x) * (1 + scale_2) + shift_2)

    def __init__(self) -> None:
        super().__init__(self.Layer() for _ in range(LAYERS))
        self.condition = nn.Linear(4, WIDTH)

    def run(self, x: Tensor) -> Tensor:
        condition = self.condition(torch.ones(len(x), 4))
        for layer in self.layers:
            x = layer(x, condition)
        return x


class Stages(nn.Module):
    """The form of Swin: stages of layers, with pairs of tokens merged between them."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(64, WIDTH)
        self.stages = nn.ModuleList([nn.Sequential(PreNorm(False), PreNorm(False)) for _ in range(2)])
        self.merge, self.norm = nn.Linear(2 * WIDTH, WIDTH), nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens) + self.positions(torch.arange(tokens.shape[1]))
        x = self.stages[0](x)
        x = self.merge(x.unflatten(1, (-1, 2)).flatten(2))
        return self.head(self.norm(self.stages[1](x)).mean(1))


class TorchEncoder(nn.Module):
    """PyTorch's own encoder."""

    def __init__(self, norm_first: bool):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(64, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, norm_first=norm_first, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, LAYERS, nn.LayerNorm(WIDTH) if norm_first else None,
                                             enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens) + self.positions(torch.arange(tokens.shape[1]))
        return self.head(self.encoder(x))


class TorchTranslator(nn.Module):
    """PyTorch's own encoder and decoder, with cross-attention."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(64, WIDTH)
        self.transformer = nn.Transformer(WIDTH, HEADS, 3, 3, 4 * WIDTH, norm_first=True, batch_first=True)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens) + self.positions(torch.arange(tokens.shape[1]))
        return self.head(self.transformer(x, x[:, :10]))


def stack(layer: Callable[[], nn.Module]) -> Callable[[], Model]:
    return lambda: Model(layer() for _ in range(LAYERS))


def normed_stack(layer: Callable[[], nn.Module]) -> Callable[[], Model]:
    """Returns a model of layers that end with a norm."""
    return lambda: Model((layer() for _ in range(LAYERS)), nn.Identity())


SOUND: dict[str, Callable[[], nn.Module]] = {
    "pre-norm": stack(PreNorm),
    "norms in attention": stack(QueryNorm),
    "joint norms in attention": stack(JointNorm),
    "gated attention": stack(Gated),
    "norms of groups": stack(NamedOtherwise),
    "post-norm": normed_stack(PostNorm),
    "DeepNorm": normed_stack(DeepNorm),
    "sandwich": stack(Sandwich),
    "branch norm": stack(BranchNorm),
    "in place": stack(AddsInPlace),
    "ReZero": stack(ReZero),
    "LayerScale": stack(LayerScale),
    "learned residual": stack(LearnedResidual),
    "stochastic depth": stack(DropPath),
    "recurrent": stack(Recurrent),
    "functional norms": stack(Functional),
    "parallel": stack(Parallel),
    "fused parallel": stack(FusedParallel),
    "macaron": normed_stack(Macaron),
    "experts": stack(Experts),
    "lists": Lists,
    "inner norms": InnerNorms,
    "speedrun": Speedrun,
    "pairs": Pairs,
    "fused pairs": FusedPairs,
    "shared layer": Shared,
    "attributes": Attributes,
    "conditioned": Conditioned,
    "stages": Stages,
    "torch encoder, pre-norm": lambda: TorchEncoder(True),
    "torch encoder, post-norm": lambda: TorchEncoder(False),
    "torch transformer": TorchTranslator,
}


# Models whose tokens attend in both directions. Their loss is that of the same token.
BIDIRECTIONAL = ("macaron", "lists", "inner norms", "conditioned", "torch encoder, pre-norm",
                 "torch encoder, post-norm", "torch transformer")


def batch(seed: int = 0) -> Tensor:
    return torch.randint(VOCABULARY, (BATCH, LENGTH), generator=torch.Generator().manual_seed(seed))


def loss_of(name: str, tokens: Tensor) -> Callable[[Tensor], Tensor]:
    """The loss of the next token, of the same token in bidirectional models, or of the first
    token for a sequence's logits."""
    def loss(logits: Tensor) -> Tensor:
        if logits.dim() == 2:
            return F.cross_entropy(logits, tokens[:, 0])
        n = logits.shape[1]
        if name in BIDIRECTIONAL:
            return F.cross_entropy(logits.flatten(0, 1), tokens[:, :n].flatten())
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:n].flatten())
    return loss
