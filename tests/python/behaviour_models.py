"""Sound models of many architectures, each with a batch. behaviour_test.py measures and breaks them.

No model has a planted bug, so every finding is wrong.
"""

import math
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY, WIDTH, HEADS, LAYERS, BATCH, LENGTH = 23, 32, 4, 3, 3, 12


def tokens(batch=BATCH, length=LENGTH):
    return torch.randint(1, VOCABULARY, (batch, length))


def causal(length):
    return torch.ones(length, length, dtype=torch.bool).tril()


def next_token_loss(x):
    return lambda logits: F.cross_entropy(logits[:, :-1].flatten(0, 1), x[:, 1:].flatten())


def draw(model):
    """Draws weights so large that attention is not uniform."""
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, 0, 0.2)
    return model


# -- GPT: learned positions, a fused projection, tied weights, dropout on branches, a cache --------


class Attention(nn.Module):
    def __init__(self, dropout=0.1):
        super().__init__()
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.dropout = nn.Dropout(dropout)

    def scaled(self, scores, width):
        return scores / math.sqrt(width)

    def mask(self, queries, keys):
        return causal(keys)[keys - queries:]

    def heads(self, x):
        return (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))

    def forward(self, x, cache=None):
        q, k, v = self.heads(x)
        if cache is not None:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        scores = self.scaled(q @ k.transpose(-2, -1), q.shape[-1])
        scores = scores.masked_fill(~self.mask(q.shape[2], k.shape[2]), -math.inf)
        out = self.dropout(scores.softmax(-1)) @ v
        return self.proj(out.transpose(1, 2).flatten(2)), (k, v)


class MLP(nn.Sequential):
    def __init__(self, width=WIDTH):
        super().__init__(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(WIDTH), Attention()
        self.ln_2, self.mlp = nn.LayerNorm(WIDTH), MLP()
        self.dropout = nn.Dropout(0.1)

    def add(self, x, f):
        return x + self.dropout(f)

    def forward(self, x, cache=None):
        f, cache = self.attn(self.ln_1(x), cache)
        x = self.add(x, f)
        return self.add(x, self.mlp(self.ln_2(x))), cache


class GPT(nn.Module):
    def __init__(self, block=Block):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(64, WIDTH)
        self.h = nn.ModuleList([block() for _ in range(LAYERS)])
        self.ln_f, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.wte.weight
        draw(self)

    def positions(self, past, length):
        return torch.arange(past, past + length)

    def forward(self, x, past=None, use_cache=False):
        start = 0 if past is None else past[0][0].shape[2]
        x = self.wte(x) + self.wpe(self.positions(start, x.shape[1]))
        caches = []
        for i, block in enumerate(self.h):
            x, cache = block(x, None if past is None else past[i])
            caches.append(cache)
        logits = self.head(self.ln_f(x))
        return (logits, tuple(caches)) if use_cache else logits


# -- Llama: RMSNorm, rotary positions, shared heads of keys, scaled_dot_product_attention or its like


class RMSNorm(nn.Module):
    def __init__(self, width=WIDTH):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


def rotate(x):
    half = x.shape[-1] // 2
    angle = torch.arange(x.shape[-2])[:, None] * 10.0 ** -torch.arange(half)
    a, b = x.chunk(2, -1)
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)


class LlamaAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj, self.o_proj = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2))
        self.k_proj, self.v_proj = (nn.Linear(WIDTH, WIDTH // 2, bias=False) for _ in range(2))

    def scaled(self, q):
        return q * q.shape[-1] ** -0.5

    def mask(self, length):
        return torch.full((length, length), -torch.inf).triu(1)

    def forward(self, hidden_states):
        q, k, v = (m(hidden_states).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2)
                   for m in (self.q_proj, self.k_proj, self.v_proj))
        q, k = self.scaled(rotate(q)), rotate(k)
        k, v = (t.repeat_interleave(2, 1) for t in (k, v))
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) + self.mask(q.shape[2])
        return self.o_proj((F.softmax(scores, -1) @ v).transpose(1, 2).flatten(2))


class LlamaLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.input_norm, self.self_attn = RMSNorm(), LlamaAttention()
        self.post_norm, self.mlp = RMSNorm(), MLP()

    def forward(self, hidden_states):
        x = hidden_states + self.self_attn(hidden_states=self.input_norm(hidden_states))
        return (x + self.mlp(self.post_norm(x)),)


class Llama(nn.Module):
    """Returns a dictionary; with labels it includes the loss."""

    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList([LlamaLayer() for _ in range(LAYERS)])
        self.norm, self.lm_head = RMSNorm(), nn.Linear(WIDTH, VOCABULARY, bias=False)
        draw(self)

    def forward(self, input_ids, labels=None):
        x = self.embed_tokens(input_ids)
        for layer in self.layers:
            x = layer(x)[0]
        logits = self.lm_head(self.norm(x))
        loss = None if labels is None else next_token_loss(labels)(logits)
        return {"loss": loss, "logits": logits}


# -- BERT: post-norm, a padding mask, a pooler and a head that a loss may ignore -------------------


class BertLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.output = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.norm_1, self.norm_2, self.mlp = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), MLP()
        self.dropout = nn.Dropout(0.1)

    def forward(self, x, hidden):
        q, k, v = (m(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
                   for m in (self.query, self.key, self.value))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]) + hidden
        out = (self.dropout(scores.softmax(-1)) @ v).transpose(1, 2).flatten(2)
        x = self.norm_1(x + self.dropout(self.output(out)))
        return self.norm_2(x + self.dropout(self.mlp(x)))


class Bert(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(64, WIDTH)
        self.norm, self.dropout = nn.LayerNorm(WIDTH), nn.Dropout(0.1)
        self.layer = nn.ModuleList([BertLayer() for _ in range(LAYERS)])
        self.pooler = nn.Linear(WIDTH, WIDTH)
        draw(self)

    def hidden(self, mask):
        return (1.0 - mask[:, None, None].float()) * -1e9

    def forward(self, input_ids, attention_mask=None):
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        x = self.words(input_ids) + self.places(torch.arange(input_ids.shape[1]))
        x = self.dropout(self.norm(x))
        for layer in self.layer:
            x = layer(x, self.hidden(mask))
        return {"last_hidden_state": x, "pooler_output": self.pooler(x[:, 0]).tanh()}


# -- Others ----------------------------------------------------------------------------------------


class Translator(nn.Module):
    """T5's architecture: without relative positions, without scale, with one embedding for both sides."""

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False)
                                              for _ in range(4))

        def forward(self, x, memory=None, is_causal=False):
            memory = x if memory is None else memory
            q, k, v = (m(t).unflatten(-1, (HEADS, -1)).transpose(1, 2)
                       for m, t in ((self.q, x), (self.k, memory), (self.v, memory)))
            scores = q @ k.transpose(-2, -1) * 0.3
            if is_causal:
                scores = scores.masked_fill(~self.mask(x.shape[1]), -1e9)
            return self.o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))

        def mask(self, length):
            return causal(length)

    class Layer(nn.Module):
        def __init__(self, is_decoder):
            super().__init__()
            self.is_decoder = is_decoder
            self.norms = nn.ModuleList([RMSNorm() for _ in range(2 + is_decoder)])
            self.self_attn, self.mlp = Translator.Attention(), MLP()
            if is_decoder:
                self.cross_attn = Translator.Attention()

        def forward(self, x, memory=None):
            x = x + self.self_attn(self.norms[0](x), is_causal=self.is_decoder)
            if self.is_decoder:
                x = x + self.cross_attn(self.norms[2](x), memory)
            return x + self.mlp(self.norms[1](x))

    def __init__(self):
        super().__init__()
        self.shared = nn.Embedding(VOCABULARY, WIDTH)
        self.encoder, self.decoder = (nn.ModuleList([self.Layer(d) for _ in range(LAYERS)])
                                      for d in (False, True))
        self.norm_e, self.norm_d = RMSNorm(), RMSNorm()
        self.lm_head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        draw(self)

    def forward(self, input_ids, decoder_input_ids):
        memory, x = self.shared(input_ids), self.shared(decoder_input_ids)
        for layer in self.encoder:
            memory = layer(memory)
        memory = self.norm_e(memory)
        for layer in self.decoder:
            x = layer(x, memory)
        return self.lm_head(self.norm_d(x))


class ViT(nn.Module):
    """The architecture of vit-pytorch: layers are lists of two modules; one row of logits for each image."""

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.to_qkv = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH, bias=False)
            self.to_out = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Dropout(0.1))

        def forward(self, x):
            q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2)
                       for t in self.to_qkv(self.norm(x)).chunk(3, -1))
            scores = torch.matmul(q, k.transpose(-1, -2)) * q.shape[-1] ** -0.5
            return self.to_out(torch.matmul(scores.softmax(-1), v).transpose(1, 2).flatten(2))

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 4, 4)
        self.cls = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.places = nn.Parameter(torch.randn(1, 17, WIDTH))
        self.layers = nn.ModuleList([nn.ModuleList([self.Attention(), nn.Sequential(
            nn.LayerNorm(WIDTH), *MLP())]) for _ in range(LAYERS)])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 10)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.places
        for attention, feed_forward in self.layers:
            x = attention(x) + x
            x = feed_forward(x) + x
        return self.head(self.norm(x)[:, 0])


class Experts(nn.Module):
    """Each token goes to one expert with limited capacity."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, 8)
        self.experts = nn.ModuleList([MLP() for _ in range(8)])

    def forward(self, x):
        rows = x.reshape(-1, WIDTH)
        weight, chosen = self.router(rows).softmax(-1).max(-1)
        out = torch.zeros_like(rows)
        for i, expert in enumerate(self.experts):
            mine = (chosen == i).nonzero()[:8, 0]
            if len(mine):
                out[mine] = weight[mine, None] * expert(rows[mine])
        return out.view_as(x)


class ExpertBlock(Block):
    def __init__(self):
        super().__init__()
        self.mlp = Experts()


class LoRA(nn.Module):
    def __init__(self, linear):
        super().__init__()
        self.base = linear
        self.a, self.b = nn.Linear(WIDTH, 2, bias=False), nn.Linear(2, linear.out_features, bias=False)
        nn.init.zeros_(self.b.weight)

    def forward(self, x):
        return self.base(x) + self.b(self.a(x))


def with_lora():
    model = GPT()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    for block in model.h:
        block.attn.qkv = LoRA(block.attn.qkv)
    return model


class Conformer(nn.Module):
    """Convolutions over tokens and batch norms in addition to attention, for vectors, in both directions."""

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.attn = nn.LayerNorm(WIDTH), nn.MultiheadAttention(
                WIDTH, HEADS, batch_first=True)
            self.conv = nn.Conv1d(WIDTH, WIDTH, 5, padding=2, groups=WIDTH)
            self.batch_norm = nn.BatchNorm1d(WIDTH)

        def forward(self, x):
            h = self.norm(x)
            x = x + self.attn(h, h, h, need_weights=False)[0]
            return x + F.silu(self.batch_norm(self.conv(x.transpose(1, 2)))).transpose(1, 2)

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*[self.Layer() for _ in range(LAYERS)])

    def forward(self, x):
        return self.layers(x)


class Recurrent(nn.Module):
    """A GRU as a language model, tokens first."""

    def __init__(self):
        super().__init__()
        self.embedding, self.norm = nn.Embedding(VOCABULARY, WIDTH), nn.LayerNorm(WIDTH)
        self.gru, self.head = nn.GRU(WIDTH, WIDTH, 2, dropout=0.1), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, x):
        return self.head(self.norm(self.gru(self.embedding(x))[0]))


class StateSpace(nn.Module):
    """A causal convolution by Fourier transforms, which leaves rounding errors everywhere."""

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.mix = RMSNorm(), nn.Linear(WIDTH, WIDTH)
            self.log_decay = nn.Parameter(torch.randn(WIDTH))

        def forward(self, x):
            n = x.shape[1]
            kernel = torch.exp(-torch.arange(n)[:, None] * self.log_decay.exp())
            h = self.norm(x)
            y = torch.fft.irfft(torch.fft.rfft(h, 2 * n, 1) * torch.fft.rfft(kernel, 2 * n, 0),
                                2 * n, 1)[:, :n]
            return x + self.mix(F.silu(y))

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList([self.Layer() for _ in range(LAYERS)])
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, x):
        x = self.embedding(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


class TwoTowers(nn.Module):
    """The architecture of CLIP: each image is compared with each text of the batch."""

    def __init__(self):
        super().__init__()
        self.text, self.image = Bert(), ViT()
        self.image.head = nn.Linear(WIDTH, WIDTH)
        self.scale = nn.Parameter(torch.tensor(1.0))

    def forward(self, input_ids, images):
        a = F.normalize(self.text(input_ids)["pooler_output"], dim=-1)
        b = F.normalize(self.image(images), dim=-1)
        return {"logits": self.scale.exp() * a @ b.T}


class TakesTurns(nn.Module):
    """Alternating layers that read forwards and backwards, as in Vision-LSTM."""

    class Layer(nn.Module):
        def __init__(self, backwards):
            super().__init__()
            self.backwards, self.gru = backwards, nn.GRU(WIDTH, WIDTH, batch_first=True)
            self.norm = nn.LayerNorm(WIDTH)

        def forward(self, x):
            h = self.norm(x)
            h = h.flip(1) if self.backwards else h
            y = self.gru(h)[0]
            return x + (y.flip(1) if self.backwards else y)

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*[self.Layer(i % 2 == 1) for i in range(4)])

    def forward(self, x):
        return self.layers(x)


class Albert(nn.Module):
    """One layer for all, and layers that are dropped at random in training."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, WIDTH)
        self.layer = BertLayer()
        self.more = nn.ModuleList([BertLayer() for _ in range(6)])
        draw(self)

    def forward(self, x):
        x = self.words(x)
        for _ in range(3):
            x = self.layer(x, 0)
        for layer in self.more:
            if not self.training or torch.rand(()) > 0.4:
                x = layer(x, 0)
        return x


class Detector(nn.Module):
    """The architecture of DETR: one norm for the output of every layer; two heads, of which a loss uses one."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.TransformerEncoderLayer(
            WIDTH, HEADS, 64, batch_first=True, norm_first=True) for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(WIDTH)
        self.classes, self.boxes = nn.Linear(WIDTH, 5), nn.Linear(WIDTH, 4)

    def forward(self, x):
        states = []
        for layer in self.layers:
            x = layer(x)
            states.append(self.norm(x))
        return SimpleNamespace(logits=self.classes(states[-1]), boxes=self.boxes(states[-1]),
                               states=states)


class Parallel(nn.Module):
    """The architecture of PaLM: attention and feed-forward in parallel; queries and keys are normalized."""

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.q_norm, self.k_norm = (nn.LayerNorm(n) for n in (WIDTH, 8, 8))
            self.qkv, self.out, self.mlp = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH), MLP()
            self.dropout = nn.Dropout(0.1)

        def forward(self, x):
            h = self.norm(x)
            q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2)
                       for t in self.qkv(h).chunk(3, -1))
            scores = self.q_norm(q) @ self.k_norm(k).transpose(-1, -2)
            scores = scores.masked_fill(~causal(x.shape[1]), -math.inf)
            a = self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
            return x + self.dropout(a + self.mlp(h))

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList([self.Layer() for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(WIDTH)
        draw(self)

    def forward(self, x):
        x = self.embedding(x)
        for layer in self.layers:
            x = layer(x)
        return F.linear(self.norm(x), self.embedding.weight) / WIDTH**0.5


class Tasks(nn.Module):
    """A head for each task, of which a batch uses one; and a summary with a norm, only for long sequences."""

    class Summary(nn.Module):
        def __init__(self):
            super().__init__()
            self.score, self.norm = nn.Linear(WIDTH, 1), nn.LayerNorm(WIDTH)

        def forward(self, x):
            weights = self.score(x).softmax(1)
            return self.norm((weights * x).sum(1, keepdim=True)) if x.shape[1] > 100 else 0

    def __init__(self):
        super().__init__()
        self.encoder, self.summary = encoder(batch_first=True), self.Summary()
        self.heads = nn.ModuleList([MLP() for _ in range(4)])

    def forward(self, x, task=1):
        x = self.encoder(x)
        return self.heads[task](x + self.summary(x))


class PrefixLM(GPT):
    """The first half is read in both directions, and the loss ignores it."""

    class Attention(Attention):
        def mask(self, queries, keys):
            return causal(keys) | (torch.arange(keys) <= keys // 2)

    def __init__(self):
        super().__init__()
        for block in self.h:
            attention = self.Attention()
            attention.load_state_dict(block.attn.state_dict())
            block.attn = attention


def encoder(**options):
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 64, **options)
    return nn.TransformerEncoder(layer, LAYERS, nn.LayerNorm(WIDTH))


def prefix_loss(x):
    half = LENGTH // 2 + 1
    return lambda y: F.cross_entropy(y[:, half:-1].flatten(0, 1), x[:, half + 1:].flatten())


def gpt():
    x = tokens()
    return GPT(), (x,), {}, next_token_loss(x)


def llama():
    x = tokens()
    return Llama(), (), {"input_ids": x, "labels": x}, None


def bert():
    mask = torch.ones(BATCH, LENGTH, dtype=torch.long)
    mask[1, 7:] = 0
    return Bert(), (tokens(),), {"attention_mask": mask}, None


def translator(length=LENGTH):
    x = tokens()
    return Translator(), (tokens(length=length), x), {}, next_token_loss(x)


def transformer():
    """nn.Transformer on vectors, tokens first."""
    model = nn.Transformer(WIDTH, HEADS, 2, 2, 64)
    mask = model.generate_square_subsequent_mask(9)
    return model, (torch.randn(7, BATCH, WIDTH), torch.randn(9, BATCH, WIDTH)), {"tgt_mask": mask}, None


def recurrent():
    x = tokens().T.contiguous()
    return Recurrent(), (x,), {}, lambda y: F.cross_entropy(y[:-1].flatten(0, 1), x[1:].flatten())


def prefix():
    x = tokens()
    return PrefixLM(), (x,), {}, prefix_loss(x)


def vectors(batch=BATCH, length=LENGTH):
    return (torch.randn(batch, length, WIDTH),)


def images():
    return (torch.randn(BATCH, 3, 16, 16),)


SOUND = {
    "gpt": gpt,
    "gpt without a loss": lambda: (GPT(), (tokens(),), {}, None),
    "llama": llama,
    "bert": bert,
    "bert, one output used": lambda: (*bert()[:3], lambda y: y["last_hidden_state"].square().mean()),
    "t5": translator,
    "t5, other length": lambda: translator(7),
    "nn.TransformerEncoder, post-norm": lambda: (encoder(batch_first=True), vectors(), {}, None),
    "nn.TransformerEncoder, tokens first": lambda: (encoder(norm_first=True), vectors(), {}, None),
    "nn.Transformer": transformer,
    "vit": lambda: (ViT(), images(), {}, None),
    "experts": lambda: (GPT(ExpertBlock), (tokens(),), {}, None),
    "lora": lambda: (with_lora(), (tokens(),), {}, None),
    "conformer": lambda: (Conformer(), vectors(), {}, None),
    "gru": recurrent,
    "state space": lambda: (StateSpace(), (tokens(),), {}, None),
    "two towers": lambda: (TwoTowers(), (tokens(), *images()), {}, None),
    "takes turns": lambda: (TakesTurns(), vectors(), {}, None),
    "albert": lambda: (Albert(), (tokens(),), {}, None),
    "detector": lambda: (Detector(), vectors(), {}, lambda y: y.logits.square().mean()),
    "parallel": lambda: (Parallel(), (tokens(),), {}, None),
    "prefix": prefix,
    "tasks": lambda: (Tasks(), vectors(), {}, None),
    "mlp": lambda: (MLP(), vectors(), {}, None),
}
