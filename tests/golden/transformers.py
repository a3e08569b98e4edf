"""Published Transformers as small PyTorch modules, from their papers and published descriptions.

Modules are named as in checkpoints on the Hugging Face hub, so state_dict() gives a checkpoint's tensors. config.json,
here a dictionary, defines everything else. `build(config)` makes the model, which maps tokens [batch, length] to logits
(a T5 encoder to its last hidden state). There is no dropout, no cache and no padding.

Each residual add is the method `residual(x, h, f)`: x is the stream, h the sublayer's input (x itself without a norm
before it), f its output. planted.py breaks models there.
"""

import math
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import nn

ACTIVATIONS = {
    "relu": F.relu,
    "silu": F.silu,
    "gelu": F.gelu,  # with erf
    "gelu_new": lambda x: F.gelu(x, approximate="tanh"),
    "gelu_pytorch_tanh": lambda x: F.gelu(x, approximate="tanh"),
}


class RMSNorm(nn.Module):
    """Statistics are at least float32. The factor is γ, or 1 + γ with unit_offset (Gemma)."""

    def __init__(self, width, eps, unit_offset=False):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width) if unit_offset else torch.ones(width))
        self.eps = eps
        self.unit_offset = unit_offset

    def forward(self, x):
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        normalized = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        if self.unit_offset:  # Gemma multiplies before rounding, Llama after
            return (normalized * (1 + self.weight.to(wide.dtype))).to(x.dtype)
        return self.weight * normalized.to(x.dtype)


class Conv1D(nn.Module):
    """GPT-2's linear layer; its weight is [in, out]."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x):
        return x @ self.weight + self.bias


class Residual:
    def residual(self, x, h, f):
        return x + f


def split_heads(x, heads):
    """[batch, length, heads · width] → [batch, heads, length, width]"""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def soft_cap(x, cap):
    return x if cap is None else cap * torch.tanh(x / cap)


def attend(q, k, v, *, scale=1.0, bias=None, cap=None, visible=None):
    """Query head h attends to key head h // (query heads / key heads). The cap precedes the mask."""
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    scores = scale * q @ k.transpose(-2, -1)
    scores = soft_cap(scores if bias is None else scores + bias, cap)
    if visible is not None:
        scores = scores.masked_fill(~visible, -torch.inf)
    return (torch.softmax(scores, -1) @ v).transpose(1, 2).flatten(2)


def causal(length, window=None):
    """The visible keys of a query: itself and those before it, at most `window` tokens in all."""
    distance = torch.arange(length)[:, None] - torch.arange(length)
    return (distance >= 0) & (distance < (window or length))


# ---- GPT-2 -----------------------------------------------------------------------------------


class GPT2Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads = c.n_head
        self.c_attn = Conv1D(c.n_embd, 3 * c.n_embd)
        self.c_proj = Conv1D(c.n_embd, c.n_embd)

    def forward(self, x):
        q, k, v = (split_heads(t, self.heads) for t in self.c_attn(x).chunk(3, -1))
        return self.c_proj(attend(q, k, v, scale=q.shape[-1] ** -0.5, visible=causal(x.shape[1])))


class GPT2MLP(nn.Module):
    def __init__(self, c):
        super().__init__()
        inner = c.n_inner or 4 * c.n_embd
        self.c_fc = Conv1D(c.n_embd, inner)
        self.c_proj = Conv1D(inner, c.n_embd)
        self.act = ACTIVATIONS[c.activation_function]

    def forward(self, x):
        return self.c_proj(self.act(self.c_fc(x)))


class GPT2Block(Residual, nn.Module):
    def __init__(self, c):
        super().__init__()
        self.ln_1 = nn.LayerNorm(c.n_embd, eps=c.layer_norm_epsilon)
        self.attn = GPT2Attention(c)
        self.ln_2 = nn.LayerNorm(c.n_embd, eps=c.layer_norm_epsilon)
        self.mlp = GPT2MLP(c)

    def forward(self, x):
        h = self.ln_1(x)
        x = self.residual(x, h, self.attn(h))
        h = self.ln_2(x)
        return self.residual(x, h, self.mlp(h))


class GPT2(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.config = c
        self.wte = nn.Embedding(c.vocab_size, c.n_embd)
        self.wpe = nn.Embedding(c.n_positions, c.n_embd)
        self.h = nn.ModuleList([GPT2Block(c) for _ in range(c.n_layer)])
        self.ln_f = nn.LayerNorm(c.n_embd, eps=c.layer_norm_epsilon)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.h:
            x = block(x)
        return F.linear(self.ln_f(x), self.wte.weight)


# ---- BERT ------------------------------------------------------------------------------------


def bert_norm(c):
    return nn.LayerNorm(c.hidden_size, eps=c.layer_norm_eps)


class BertEmbeddings(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.word_embeddings = nn.Embedding(c.vocab_size, c.hidden_size)
        self.position_embeddings = nn.Embedding(c.max_position_embeddings, c.hidden_size)
        self.token_type_embeddings = nn.Embedding(c.type_vocab_size, c.hidden_size)
        self.LayerNorm = bert_norm(c)

    def forward(self, tokens):
        positions = self.position_embeddings(torch.arange(tokens.shape[1]))
        types = self.token_type_embeddings(torch.zeros_like(tokens))
        return self.LayerNorm(self.word_embeddings(tokens) + types + positions)


class BertSelfAttention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads = c.num_attention_heads
        self.query, self.key, self.value = (nn.Linear(c.hidden_size, c.hidden_size)
                                            for _ in range(3))

    def forward(self, x):
        q, k, v = (split_heads(m(x), self.heads) for m in (self.query, self.key, self.value))
        return attend(q, k, v, scale=q.shape[-1] ** -0.5)


class BertOutput(Residual, nn.Module):
    """The end of a sublayer: its last projection, the residual add, and the norm after it."""

    def __init__(self, c, inputs):
        super().__init__()
        self.dense = nn.Linear(inputs, c.hidden_size)
        self.LayerNorm = bert_norm(c)

    def forward(self, inner, x):
        return self.LayerNorm(self.residual(x, x, self.dense(inner)))


class BertAttention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.self = BertSelfAttention(c)
        self.output = BertOutput(c, c.hidden_size)

    def forward(self, x):
        return self.output(self.self(x), x)


class BertIntermediate(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.dense = nn.Linear(c.hidden_size, c.intermediate_size)
        self.act = ACTIVATIONS[c.hidden_act]

    def forward(self, x):
        return self.act(self.dense(x))


class BertLayer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.attention = BertAttention(c)
        self.intermediate = BertIntermediate(c)
        self.output = BertOutput(c, c.intermediate_size)

    def forward(self, x):
        x = self.attention(x)
        return self.output(self.intermediate(x), x)


class BertTransform(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.dense = nn.Linear(c.hidden_size, c.hidden_size)
        self.act = ACTIVATIONS[c.hidden_act]
        self.LayerNorm = bert_norm(c)

    def forward(self, x):
        return self.LayerNorm(self.act(self.dense(x)))


class BertPredictions(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(c.vocab_size))
        self.transform = BertTransform(c)

    def forward(self, x, word_embeddings):
        return F.linear(self.transform(x), word_embeddings, self.bias)


class Bert(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.config = c
        self.bert = nn.Module()
        self.bert.embeddings = BertEmbeddings(c)
        self.bert.encoder = nn.Module()
        self.bert.encoder.layer = nn.ModuleList([BertLayer(c) for _ in range(c.num_hidden_layers)])
        self.cls = nn.Module()
        self.cls.predictions = BertPredictions(c)

    def forward(self, tokens):
        x = self.bert.embeddings(tokens)
        for layer in self.bert.encoder.layer:
            x = layer(x)
        return self.cls.predictions(x, self.bert.embeddings.word_embeddings.weight)


# ---- Llama and its kin: Qwen, Gemma, OLMo ----------------------------------------------------


def inverse_frequencies(width, theta, scaling=None):
    """The radians per token by which rotary embeddings turn each pair of features."""
    frequency = theta ** -(torch.arange(0, width, 2, dtype=torch.float64) / width)
    kind = (scaling or {}).get("rope_type", (scaling or {}).get("type", "default"))
    if kind == "linear":
        return frequency / scaling["factor"]
    if kind == "llama3":  # long waves are stretched, short ones kept, with a ramp between them
        turns = scaling["original_max_position_embeddings"] * frequency / (2 * math.pi)
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        kept = ((turns - low) / (high - low)).clamp(0, 1)
        return frequency * (kept + (1 - kept) / scaling["factor"])
    if kind != "default":
        raise ValueError(f"rope_scaling's type is {kind}, must be default, linear or llama3")
    return frequency


def rotate(x, frequency):
    """Turns the pairs (i, i + width/2) of [batch, heads, length, width] by position × frequency."""
    angle = torch.arange(x.shape[2], dtype=frequency.dtype)[:, None] * frequency
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    first, second = x.chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


class LlamaAttention(nn.Module):
    def __init__(self, c, layer):
        super().__init__()
        self.heads, self.key_heads = c.num_attention_heads, c.num_key_value_heads
        width = getattr(c, "head_dim", None) or c.hidden_size // self.heads
        bias = c.model_type == "qwen2" or getattr(c, "attention_bias", False)
        self.q_proj = nn.Linear(c.hidden_size, self.heads * width, bias=bias)
        self.k_proj = nn.Linear(c.hidden_size, self.key_heads * width, bias=bias)
        self.v_proj = nn.Linear(c.hidden_size, self.key_heads * width, bias=bias)
        self.o_proj = nn.Linear(self.heads * width, c.hidden_size,
                                bias=getattr(c, "attention_bias", False))
        self.norms_all_heads = c.model_type == "olmo2"
        if c.model_type in ("qwen3", "gemma3_text", "olmo2"):
            heads = (self.heads, self.key_heads) if self.norms_all_heads else (1, 1)
            self.q_norm, self.k_norm = (RMSNorm(n * width, c.rms_norm_eps, is_gemma(c))
                                        for n in heads)
        self.scale = getattr(c, "query_pre_attn_scalar", width) ** -0.5
        self.cap = getattr(c, "attn_logit_softcapping", None)
        self.window, theta = None, getattr(c, "rope_theta", 10000.0)
        scaling = getattr(c, "rope_scaling", None)
        if (c.model_type == "gemma2" and layer % 2 == 0 or
                c.model_type == "gemma3_text" and (layer + 1) % c.sliding_window_pattern):
            self.window = c.sliding_window
            if c.model_type == "gemma3_text":
                theta, scaling = c.rope_local_base_freq, None
        self.frequency = inverse_frequencies(width, theta, scaling)

    def forward(self, x):
        q, k, v = self.q_proj(x), self.k_proj(x), split_heads(self.v_proj(x), self.key_heads)
        if self.norms_all_heads:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k = split_heads(q, self.heads), split_heads(k, self.key_heads)
        if hasattr(self, "q_norm") and not self.norms_all_heads:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k = rotate(q, self.frequency), rotate(k, self.frequency)
        return self.o_proj(attend(q, k, v, scale=self.scale, cap=self.cap,
                                  visible=causal(x.shape[1], self.window)))


class LlamaMLP(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate_proj = nn.Linear(c.hidden_size, c.intermediate_size, bias=False)
        self.up_proj = nn.Linear(c.hidden_size, c.intermediate_size, bias=False)
        self.down_proj = nn.Linear(c.intermediate_size, c.hidden_size, bias=False)
        # Gemma 1's files say "gelu" in hidden_act but mean its approximation.
        self.act = ACTIVATIONS["gelu_pytorch_tanh" if is_gemma(c) else c.hidden_act]

    def forward(self, x):
        return self.down_proj(self.act(self.gate_proj(x)) * self.up_proj(x))


def is_gemma(c):
    return c.model_type.startswith("gemma")


def llama_norm(c):
    return RMSNorm(c.hidden_size, c.rms_norm_eps, is_gemma(c))


class LlamaDecoderLayer(Residual, nn.Module):
    """Norms before the sublayers: Llama, Qwen, Gemma 1."""

    def __init__(self, c, layer):
        super().__init__()
        self.self_attn = LlamaAttention(c, layer)
        self.mlp = LlamaMLP(c)
        self.input_layernorm = llama_norm(c)
        self.post_attention_layernorm = llama_norm(c)

    def forward(self, x):
        h = self.input_layernorm(x)
        x = self.residual(x, h, self.self_attn(h))
        h = self.post_attention_layernorm(x)
        return self.residual(x, h, self.mlp(h))


class Gemma2DecoderLayer(Residual, nn.Module):
    """Norms before the sublayers and on their outputs: Gemma 2 and 3."""

    def __init__(self, c, layer):
        super().__init__()
        self.self_attn = LlamaAttention(c, layer)
        self.mlp = LlamaMLP(c)
        self.input_layernorm = llama_norm(c)
        self.post_attention_layernorm = llama_norm(c)
        self.pre_feedforward_layernorm = llama_norm(c)
        self.post_feedforward_layernorm = llama_norm(c)

    def forward(self, x):
        h = self.input_layernorm(x)
        x = self.residual(x, h, self.post_attention_layernorm(self.self_attn(h)))
        h = self.pre_feedforward_layernorm(x)
        return self.residual(x, h, self.post_feedforward_layernorm(self.mlp(h)))


class Olmo2DecoderLayer(Residual, nn.Module):
    """Norms on the sublayers' outputs alone: OLMo 2."""

    def __init__(self, c, layer):
        super().__init__()
        self.self_attn = LlamaAttention(c, layer)
        self.mlp = LlamaMLP(c)
        self.post_attention_layernorm = llama_norm(c)
        self.post_feedforward_layernorm = llama_norm(c)

    def forward(self, x):
        x = self.residual(x, x, self.post_attention_layernorm(self.self_attn(x)))
        return self.residual(x, x, self.post_feedforward_layernorm(self.mlp(x)))


LLAMA_LAYERS = {"gemma2": Gemma2DecoderLayer, "gemma3_text": Gemma2DecoderLayer,
                "olmo2": Olmo2DecoderLayer}


class Llama(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.config = c
        layer = LLAMA_LAYERS.get(c.model_type, LlamaDecoderLayer)
        self.model = nn.Module()
        self.model.embed_tokens = nn.Embedding(c.vocab_size, c.hidden_size)
        self.model.layers = nn.ModuleList([layer(c, i) for i in range(c.num_hidden_layers)])
        self.model.norm = llama_norm(c)
        if not getattr(c, "tie_word_embeddings", is_gemma(c)):
            self.lm_head = nn.Linear(c.hidden_size, c.vocab_size, bias=False)

    def forward(self, tokens):
        x = self.model.embed_tokens(tokens)
        if is_gemma(self.config):
            x = x * self.config.hidden_size**0.5
        for layer in self.model.layers:
            x = layer(x)
        head = self.lm_head if hasattr(self, "lm_head") else self.model.embed_tokens
        logits = F.linear(self.model.norm(x), head.weight)
        return soft_cap(logits, getattr(self.config, "final_logit_softcapping", None))


# ---- T5's encoder ----------------------------------------------------------------------------


def relative_buckets(length, buckets, max_distance):
    """Returns [query, key]: the bucket of key − query. Half of the buckets are for later keys."""
    distance = torch.arange(length) - torch.arange(length)[:, None]
    half, exact = buckets // 2, buckets // 4
    ratio = (distance.abs().float() / exact).clamp(min=1).log() / math.log(max_distance / exact)
    spread = (exact + (ratio * (half - exact)).long()).clamp(max=half - 1)
    return torch.where(distance.abs() < exact, distance.abs(), spread) + half * (distance > 0)


class T5Attention(nn.Module):
    def __init__(self, c, has_bias):
        super().__init__()
        self.heads = c.num_heads
        self.q, self.k, self.v = (nn.Linear(c.d_model, c.num_heads * c.d_kv, bias=False)
                                  for _ in range(3))
        self.o = nn.Linear(c.num_heads * c.d_kv, c.d_model, bias=False)
        if has_bias:
            self.relative_attention_bias = nn.Embedding(c.relative_attention_num_buckets,
                                                        c.num_heads)
            self.max_distance = getattr(c, "relative_attention_max_distance", 128)

    def position_bias(self, length):
        """[heads, query, key]"""
        table = self.relative_attention_bias
        return table(relative_buckets(length, table.num_embeddings,
                                      self.max_distance)).permute(2, 0, 1)

    def forward(self, x, bias):
        q, k, v = (split_heads(m(x), self.heads) for m in (self.q, self.k, self.v))
        return self.o(attend(q, k, v, bias=bias))  # no 1/√d: T5's initialization includes it


class T5LayerSelfAttention(Residual, nn.Module):
    def __init__(self, c, has_bias):
        super().__init__()
        self.SelfAttention = T5Attention(c, has_bias)
        self.layer_norm = RMSNorm(c.d_model, c.layer_norm_epsilon)

    def forward(self, x, bias):
        h = self.layer_norm(x)
        return self.residual(x, h, self.SelfAttention(h, bias))


class T5DenseActDense(nn.Module):
    def __init__(self, c):
        super().__init__()
        kind = getattr(c, "feed_forward_proj", "relu")
        names = ("wi_0", "wi_1") if kind.startswith("gated-") else ("wi",)
        for name in names:
            self.add_module(name, nn.Linear(c.d_model, c.d_ff, bias=False))
        self.wo = nn.Linear(c.d_ff, c.d_model, bias=False)
        # The name "gated-gelu" is misleading: it means gelu_new.
        self.act = ACTIVATIONS["gelu_new" if kind == "gated-gelu" else kind.split("-")[-1]]

    def forward(self, x):
        if hasattr(self, "wi"):
            return self.wo(self.act(self.wi(x)))
        return self.wo(self.act(self.wi_0(x)) * self.wi_1(x))


class T5LayerFF(Residual, nn.Module):
    def __init__(self, c):
        super().__init__()
        self.DenseReluDense = T5DenseActDense(c)
        self.layer_norm = RMSNorm(c.d_model, c.layer_norm_epsilon)

    def forward(self, x):
        h = self.layer_norm(x)
        return self.residual(x, h, self.DenseReluDense(h))


class T5Block(nn.Module):
    def __init__(self, c, has_bias):
        super().__init__()
        self.layer = nn.ModuleList([T5LayerSelfAttention(c, has_bias), T5LayerFF(c)])

    def forward(self, x, bias):
        return self.layer[1](self.layer[0](x, bias))


class T5Encoder(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.config = c
        self.shared = nn.Embedding(c.vocab_size, c.d_model)
        self.encoder = nn.Module()
        self.encoder.block = nn.ModuleList([T5Block(c, i == 0) for i in range(c.num_layers)])
        self.encoder.final_layer_norm = RMSNorm(c.d_model, c.layer_norm_epsilon)

    def forward(self, tokens):
        x = self.shared(tokens)
        bias = self.encoder.block[0].layer[0].SelfAttention.position_bias(tokens.shape[1])
        for block in self.encoder.block:
            x = block(x, bias)
        return self.encoder.final_layer_norm(x)


def build(config):
    """Returns the model that a config.json describes, with uninitialized weights."""
    kinds = {"gpt2": GPT2, "bert": Bert, "t5": T5Encoder}
    return kinds.get(config["model_type"], Llama)(SimpleNamespace(**config))
