#!/usr/bin/env python3
"""Compares transformers.py with PyTorch's own modules, algebra, and formulas written out value by value.

 /usr/bin/python3 tests/golden/transformers_test.py
"""

import math
import unittest
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import nn

import generate_models
import transformers
from generate_models import BERT, CONFIGS, GPT2, LLAMA, T5


def config(base, **changes):
    return SimpleNamespace(**{**base, **changes})


def drawn(module):
    generate_models.draw_weights(module, 0.7)
    return module.double()


def model_and_tokens(name, **changes):
    """Loads a golden model's weights and tokens into a model with a changed config."""
    torch.manual_seed(0)
    model = transformers.build(CONFIGS[name])
    generate_models.draw_weights(model, generate_models.EMBEDDING.get(name, 0.7))
    changed = transformers.build({**CONFIGS[name], **changes})
    changed.load_state_dict(model.state_dict())
    return changed.double(), torch.randint(CONFIGS[name]["vocab_size"], (2, 12))


class Blocks(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)

    def assert_close(self, a, b):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)

    def test_bert_layer_is_torchs_encoder_layer(self):
        layer = drawn(transformers.BertLayer(config(BERT)))
        torchs = nn.TransformerEncoderLayer(18, 3, 30, 0, "gelu", 1e-12, batch_first=True).double()
        attention, inner = layer.attention, layer.attention.self
        torchs.load_state_dict({
            **{f"self_attn.in_proj_{key}": torch.cat([getattr(m, key) for m in
                                                      (inner.query, inner.key, inner.value)])
               for key in ("weight", "bias")},
            **{f"{ours}.{key}": getattr(m, key) for key in ("weight", "bias") for ours, m in {
                "self_attn.out_proj": attention.output.dense, "norm1": attention.output.LayerNorm,
                "linear1": layer.intermediate.dense, "linear2": layer.output.dense,
                "norm2": layer.output.LayerNorm}.items()}})
        x = torch.randn(2, 7, 18).double()
        self.assert_close(layer(x), torchs(x))

    def test_gpt2_block_is_torchs_pre_norm_layer_with_a_causal_mask(self):
        block = drawn(transformers.GPT2Block(config(GPT2)))
        torchs = nn.TransformerEncoderLayer(
            20, 4, 80, 0, lambda x: 0.5 * x * (1 + torch.tanh(
                math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
            norm_first=True, batch_first=True).double()
        torchs.load_state_dict({
            "self_attn.in_proj_weight": block.attn.c_attn.weight.T,
            "self_attn.in_proj_bias": block.attn.c_attn.bias,
            **{f"{ours}.{key}": getattr(m, key).t() for key in ("weight", "bias") for ours, m in {
                "self_attn.out_proj": block.attn.c_proj, "norm1": block.ln_1, "norm2": block.ln_2,
                "linear1": block.mlp.c_fc, "linear2": block.mlp.c_proj}.items()}})
        x = torch.randn(2, 7, 20).double()
        self.assert_close(block(x), torchs(x, torch.ones(7, 7).triu(1).bool()))

    def test_grouped_heads_are_repeated_heads(self):
        grouped = drawn(transformers.LlamaAttention(config(LLAMA), 0))
        full = transformers.LlamaAttention(config(LLAMA, num_key_value_heads=4), 0).double()
        state = grouped.state_dict()
        for key in "k_proj.weight", "v_proj.weight":  # heads 0, 0, 1, 1
            heads = state[key].unflatten(0, (2, 6))
            state[key] = torch.stack([heads[i // 2] for i in range(4)]).flatten(0, 1)
        full.load_state_dict(state)
        x = torch.randn(2, 7, 24).double()
        self.assert_close(grouped(x), full(x))

    def test_t5_without_bias_is_plain_attention_of_larger_queries(self):
        attention = drawn(transformers.T5Attention(config(T5, d_model=18), True))
        torchs = nn.MultiheadAttention(18, 3, bias=False, batch_first=True).double()
        torchs.load_state_dict({
            "in_proj_weight": torch.cat([attention.q.weight * math.sqrt(6), attention.k.weight,
                                         attention.v.weight]),
            "out_proj.weight": attention.o.weight})
        x = torch.randn(2, 7, 18).double()
        self.assert_close(attention(x, torch.zeros(3, 7, 7)), torchs(x, x, x)[0])

    def test_rms_norm_is_its_formula(self):
        for offset in False, True:
            norm = drawn(transformers.RMSNorm(5, 0.1, offset))
            x = torch.randn(3, 5).double()
            gamma = norm.weight + offset
            rows = [[g * v / math.sqrt(sum(u * u for u in row) / 5 + 0.1)
                     for g, v in zip(gamma.tolist(), row)] for row in x.tolist()]
            self.assert_close(norm(x), torch.tensor(rows, dtype=x.dtype))


class Positions(unittest.TestCase):
    def test_rotation_turns_complex_pairs_half_a_head_apart(self):
        frequency = transformers.inverse_frequencies(6, 100.0)
        self.assertEqual([round(f, 12) for f in frequency.tolist()],
                         [round(100 ** (-2 * i / 6), 12) for i in range(3)])
        x = torch.randn(1, 1, 5, 6).double()
        y = transformers.rotate(x, frequency)
        for t in range(5):
            for i in range(3):
                z = complex(x[0, 0, t, i], x[0, 0, t, i + 3])
                z *= complex(math.cos(t * frequency[i]), math.sin(t * frequency[i]))
                self.assertAlmostEqual(z.real, y[0, 0, t, i].item())
                self.assertAlmostEqual(z.imag, y[0, 0, t, i + 3].item())

    def test_rotated_scores_depend_on_distance_alone(self):
        frequency = transformers.inverse_frequencies(8, 50.0)
        q, k = (torch.randn(8).double().expand(1, 1, 9, 8) for _ in range(2))
        scores = transformers.rotate(q, frequency) @ transformers.rotate(k, frequency).mT
        for offset in range(-8, 9):
            diagonal = scores[0, 0].diagonal(offset)
            torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal))

    def test_llama3_stretches_long_waves(self):
        """Checks the published rule for Llama 3.1's numbers, by wavelength."""
        scaling = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                   "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
        seen = set()
        for plain, scaled in zip(transformers.inverse_frequencies(128, 5e5).tolist(),
                                 transformers.inverse_frequencies(128, 5e5, scaling).tolist()):
            wave = 2 * math.pi / plain
            if wave < 8192 / 4:
                expected, case = plain, "kept"
            elif wave > 8192 / 1:
                expected, case = plain / 8, "stretched"
            else:
                smooth = (8192 / wave - 1) / (4 - 1)
                expected, case = (1 - smooth) * plain / 8 + smooth * plain, "between"
            self.assertAlmostEqual(scaled / expected, 1)
            seen.add(case)
        self.assertEqual(len(seen), 3)

    def test_buckets_are_exact_then_logarithmic_and_later_keys_have_their_own(self):
        buckets = transformers.relative_buckets(300, 32, 128)
        for distance in range(-299, 300):
            n = abs(distance)
            expected = n if n < 8 else min(
                15, 8 + int(math.log(n / 8) / math.log(128 / 8) * 8 + 1e-9))
            expected += 16 if distance > 0 else 0
            query = max(0, -distance)
            self.assertEqual(buckets[query, query + distance], expected, distance)

    def test_a_window_counts_the_query_itself(self):
        visible = transformers.causal(6, 3)
        self.assertEqual([[k for k in range(6) if visible[q, k]] for q in range(6)],
                         [[0], [0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5]])


class Models(unittest.TestCase):
    def test_what_a_config_says_shows_in_the_golden_output(self):
        """A reader that ignores one of these settings must fail."""
        linear = {"factor": 4.0, "rope_type": "linear"}
        for name, changes in [
                ("gpt2", {"activation_function": "gelu"}), ("gpt2", {"layer_norm_epsilon": 1e-3}),
                ("gpt2", {"n_head": 2}), ("bert", {"hidden_act": "gelu_new"}),
                ("bert", {"num_attention_heads": 2}),
                ("llama", {"rms_norm_eps": 1e-6}), ("llama", {"rope_theta": 5000.0}),
                ("llama", {"rope_scaling": linear}), ("llama", {"hidden_act": "gelu"}),
                ("llama3", {"rope_scaling": None}), ("llama3", {"rms_norm_eps": 1e-6}),
                ("llama3", {"rope_scaling": {**CONFIGS["llama3"]["rope_scaling"],
                                             "low_freq_factor": 2.0}}),
                ("llama3", {"rope_scaling": {**CONFIGS["llama3"]["rope_scaling"],
                                             "high_freq_factor": 3.0}}),
                ("qwen2", {"rope_theta": 1e5}), ("qwen2", {"rms_norm_eps": 1e-5}),
                ("qwen3", {"rope_theta": 1e5}), ("qwen3", {"rms_norm_eps": 1e-5}),
                ("gemma", {"rms_norm_eps": 1e-3}), ("gemma", {"rope_theta": 5000.0}),
                ("gemma2", {"attn_logit_softcapping": None}), ("gemma2", {"sliding_window": 4}),
                ("gemma2", {"final_logit_softcapping": None}), ("gemma2", {"sliding_window": 6}),
                ("gemma2", {"query_pre_attn_scalar": 6}),
                ("gemma3", {"sliding_window": 3}), ("gemma3", {"sliding_window": 5}),
                ("gemma3", {"sliding_window_pattern": 3}), ("gemma3", {"rope_scaling": None}),
                ("gemma3", {"rope_local_base_freq": 1000.0}), ("gemma3", {"rope_theta": 100.0}),
                ("gemma3", {"query_pre_attn_scalar": 8}),
                ("olmo2", {"rope_theta": 50000}), ("olmo2", {"rms_norm_eps": 1e-3}),
                ("t5", {"feed_forward_proj": "gelu"}),
                ("t5", {"relative_attention_max_distance": 32}),
                ("t5_v1_1", {"feed_forward_proj": "gated-relu"}),
                ("t5_v1_1", {"relative_attention_max_distance": 128})]:
            with self.subTest(name, **changes):
                model, tokens = model_and_tokens(name)
                changed, _ = model_and_tokens(name, **changes)
                output = model(tokens)
                difference = (changed(tokens) - output).abs().max() / output.abs().max()
                self.assertGreater(difference, 1e-4)

    def test_attention_is_not_uniform(self):
        for name in CONFIGS:
            model, tokens = model_and_tokens(name)
            with self.subTest(name), torch.no_grad():
                seen = []
                softmax = torch.softmax
                torch.softmax = lambda x, dim: seen.append(softmax(x, dim)) or seen[-1]
                try:
                    model(tokens)
                finally:
                    torch.softmax = softmax
                for p in seen:  # the largest of the last query's 12 weights (fewer for Gemma 2 and 3)
                    self.assertTrue(2 / 12 < p[..., -1, :].amax(-1).mean() < 0.9)

    def test_causal_models_look_back_only(self):
        for name, values in CONFIGS.items():
            model, tokens = model_and_tokens(name)
            x = model(tokens)
            changed = tokens.clone()
            changed[:, 7] = (changed[:, 7] + 1) % values["vocab_size"]
            same = (model(changed) - x).abs().amax((0, 2)) < 1e-9
            self.assertTrue(x.isfinite().all(), name)
            looks_ahead = values["model_type"] in ("bert", "t5")
            self.assertEqual(same[:7].all().item(), not looks_ahead, name)
            self.assertFalse(same[7].item(), name)

    def test_a_tied_head_is_the_embedding(self):
        model, tokens = model_and_tokens("llama3")
        hidden = []
        model.model.norm.register_forward_hook(lambda m, x, y: hidden.append(y))
        logits = model(tokens)
        torch.testing.assert_close(logits, F.linear(hidden[0], model.model.embed_tokens.weight))


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
