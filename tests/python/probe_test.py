#!/usr/bin/env python3
"""Probes models, and computes their numbers a second time without the probe.

 PYTHONPATH=build/release/python /usr/bin/python3 -m unittest tests/python/probe_test.py
"""

import functools
import gc
import json
import math
import pathlib
import sys
import unittest
import warnings
import weakref

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

sys.path.append(str(pathlib.Path(__file__).parents[1] / "golden"))
import generate_models  # noqa: E402
import transformers  # noqa: E402
from addnorm.probe import ProbeError, probe  # noqa: E402
from addnorm.probe.fit import attention, norms  # noqa: E402
from addnorm.probe.fit.batch import Fits, fit_now  # noqa: E402
from addnorm.probe.fit.sums import InnerProducts, inner_products  # noqa: E402
from generate import Derf, DocumentBlock, DyT  # noqa: E402

torch.set_num_threads(1)
KINDS = ("attention", "feed_forward")


# The fits; their numbers are read immediately.

def explain_sum(total, parts):
    numbers = fit_now(inner_products, [total, *parts.values()])
    return InnerProducts(numbers, parts, total.dtype, total.numel()).fit()


def explain_norm(s, y, gamma, beta, is_rms, has_unit_offset):
    numbers = fit_now(norms.norm_numbers, [s, y, gamma, beta])
    return norms.read_norm(numbers, s[..., 0].numel(), norms.KnownNorm(is_rms, has_unit_offset))


def score_numbers(scores):
    return attention.read_scores(fit_now(attention.score_numbers, [attention.some_queries(scores)]))


def reference(name, seed=0):
    torch.manual_seed(seed)
    config = generate_models.CONFIGS[name]
    model = transformers.build(config)
    generate_models.draw_weights(model, generate_models.EMBEDDING.get(name, 0.7))
    return model, torch.randint(config["vocab_size"], (2, 12))


def square(output):
    return output.square().mean()


def lines(p):
    return [json.loads(line) for line in p.text(17).splitlines()[1:]]


def find(found, **place):
    """Returns the only line at a place. Keys that are not given must be absent: a value's line has no "norm"."""
    keys = {"layer", "sublayer", "point", "norm", "weight", "step"} - {"step"} - set(place)
    matches = [line for line in found if all(line.get(k) == v for k, v in place.items())
               and not any(k in line for k in keys)]
    assert len(matches) == 1, (place, len(matches))
    return matches[0]


def run(model, *inputs, **options):
    p = probe(model, **options).run(*inputs, loss=square)
    return p, lines(p)


def rms(tensor):
    return tensor.double().square().mean().sqrt().item()


def cosine_of_tokens(x):
    total, count = 0.0, 0
    for sequence in x.double():
        for i in range(len(sequence)):
            for j in range(len(sequence)):
                if i != j:
                    total += F.cosine_similarity(sequence[i], sequence[j], 0).item()
                    count += 1
    return total / count


class Block(nn.Module):
    """A custom block: projections in the block itself, its own norm class, an in-place add."""

    class Norm(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.gamma = nn.Parameter(torch.rand(d) + 0.5)

        def forward(self, x):
            return self.gamma * x / (x.square().mean(-1, keepdim=True).sqrt() + 0.01)

    def __init__(self, d):
        super().__init__()
        self.norm_a, self.norm_f = self.Norm(d), self.Norm(d)
        self.q, self.k, self.v, self.proj, self.fc1 = (nn.Linear(d, d) for _ in range(5))
        self.fc2 = nn.Linear(d, d)

    def forward(self, x):
        h = self.norm_a(x)
        p = F.softmax(self.q(h) @ self.k(h).transpose(1, 2), dim=-1)
        x = x.clone()
        x += self.proj(p @ self.v(h))
        return x + 2 * self.fc2(F.gelu(self.fc1(self.norm_f(x))))


class PreNorm(nn.Module):
    def __init__(self, d, f):
        super().__init__()
        self.norm, self.f = nn.LayerNorm(d), f

    def forward(self, x):
        return x + self.f(self.norm(x))


class Attention(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        return self.proj((q @ k.transpose(1, 2)).softmax(-1) @ v)


class Experts(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.gate = nn.Linear(d, 3)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(),
                                                   nn.Linear(2 * d, d)) for _ in range(3))

    def forward(self, x):
        rows = x.flatten(0, 1)
        p = F.softmax(self.gate(rows), -1)
        y = torch.zeros_like(rows)
        for i, expert in enumerate(self.experts):
            mine = p.argmax(-1) == i
            y[mine] = expert(rows[mine]) * p[mine, i:i + 1]
        return y.view_as(x)


class CutBlock(nn.Module):
    """Pre-norm, with an unusual way to add attention to the stream."""

    def __init__(self, d, add):
        super().__init__()
        self.add = add
        self.norm_a, self.norm_f = nn.LayerNorm(d), nn.LayerNorm(d)
        self.attention, self.mlp = Attention(d), nn.Sequential(nn.Linear(d, d), nn.Tanh(),
                                                               nn.Linear(d, d))

    def forward(self, x):
        x = self.add(x, lambda: self.attention(self.norm_a(x)))
        return x + F.dropout(self.mlp(self.norm_f(x)), 0.2)


class WrappedBlock(nn.Module):
    """Residual and norm in wrappers, experts; called with a named argument, returns a tuple."""

    def __init__(self, d):
        super().__init__()
        self.mix, self.moe = PreNorm(d, Attention(d)), PreNorm(d, Experts(d))

    def forward(self, hidden_states):
        return self.moe(self.mix(hidden_states)), None


class ReferenceModels(unittest.TestCase):
    def test_slots_follow_from_the_order_of_calls(self):
        pre, post = ("before", "before"), ("after", "after")
        for name, placement, norm, form in [
                ("gpt2", "pre", "layer", "plain"), ("bert", "post", "layer", "plain"),
                ("llama", "pre", "rms", "plain"), ("llama3", "pre", "rms", "plain"),
                ("qwen2", "pre", "rms", "plain"), ("qwen3", "pre", "rms", "plain"),
                ("gemma", "pre", "rms", "one_plus"), ("gemma2", "sandwich", "rms", "one_plus"),
                ("gemma3", "sandwich", "rms", "one_plus"), ("olmo2", "reordered", "rms", "plain"),
                ("t5", "pre", "rms", "plain"), ("t5_v1_1", "pre", "rms", "plain")]:
            with self.subTest(name):
                model, tokens = reference(name)
                p, found = run(model, tokens)
                header = p.header()
                self.assertEqual(header["placement"], placement)
                self.assertEqual(header["norm"], norm)
                self.assertEqual(header["gamma_form"], form)
                config = generate_models.CONFIGS[name]
                for key, names in {"n_heads": ("num_attention_heads", "n_head", "num_heads"),
                                   "eps": ("rms_norm_eps", "layer_norm_eps",
                                           "layer_norm_epsilon"),
                                   "d_model": ("hidden_size", "n_embd", "d_model"),
                                   "n_layers": ("num_hidden_layers", "n_layer", "num_layers"),
                                   "d_ff": ("intermediate_size", "d_ff")}.items():
                    declared = [config[n] for n in names if n in config]
                    self.assertEqual([header[key]], declared or [4 * config["n_embd"]])
                self.assertEqual(header["parameters"],
                                 sum(p.numel() for p in model.parameters()))
                has = {line["sublayer"] for line in found}
                self.assertEqual("final_norm" in has, placement != "post")
                self.assertEqual("head" in has, not name.startswith("t5"))
                for layer in range(header["n_layers"]):
                    for kind in KINDS:
                        points = {line["point"] for line in found
                                  if line["sublayer"] == kind and line["layer"] == layer}
                        expected = {"x", "branch", "sum", "gamma", "weight"}
                        expected |= {"beta"} if norm == "layer" else set()
                        expected |= {"scores"} if kind == "attention" else set()
                        has_qk_norm = kind == "attention" and name in ("qwen3", "gemma3", "olmo2")
                        expected |= {"output"} if has_qk_norm else set()
                        expected |= {"pre": {"before"}, "post": {"after"}, "reordered": {"inside"},
                                     "sandwich": {"before", "inside"}}[placement]
                        self.assertEqual(points, expected)

    def test_every_sum_is_x_plus_branch_and_every_norm_what_the_config_says(self):
        for name, config in generate_models.CONFIGS.items():
            model, tokens = reference(name)
            model.double()
            _, found = run(model, tokens)
            is_layer_norm = config["model_type"] in ("gpt2", "bert")
            eps = [config[key] for key in ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon")
                   if key in config][0]
            norms = 0
            for line in found:
                with self.subTest(name, **{k: line[k] for k in ("layer", "sublayer", "point")
                                           if k in line}):
                    if line["point"] == "sum":
                        self.assertLess(line["unexplained"], 1e-12)
                        self.assertAlmostEqual(line["from_x"], 1)
                        self.assertAlmostEqual(line["from_branch"], 1)
                        self.assertAlmostEqual(line.get("from_before", 0), 0)
                        self.assertAlmostEqual(line["grad_to_branch"], 1)
                        self.assertAlmostEqual(line["grad_to_x"], 1)
                    elif "divisor" in line:
                        norms += 1
                        self.assertLess(line["unexplained"], 1e-12)
                        self.assertEqual(line["gamma_offset"],
                                         config["model_type"].startswith("gemma"))
                        self.assertAlmostEqual(line["centred"], is_layer_norm)
                        self.assertAlmostEqual(line["eps_in_variance"] / eps, 1, 2)
                        self.assertLess(line["eps_in_variance_spread"], 1e-3 * eps + 1e-14)
                        self.assertEqual(line["dtype"], "float64")
            self.assertGreaterEqual(norms, 4)

    def test_norms_that_squash_are_named_and_not_fitted(self):
        for kind, norm in ("dyt", DyT), ("derf", Derf):
            torch.manual_seed(0)
            layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0, batch_first=True,
                                               norm_first=True)
            model = nn.TransformerEncoder(layer, 3, norm(16))
            for one in model.layers:
                one.norm1, one.norm2 = norm(16), norm(16)
            p, found = run(model, torch.randn(2, 12, 16))
            self.assertEqual(p.header()["norm"], kind)
            self.assertEqual(p.header()["placement"], "pre")
            befores = [line for line in found if line["point"] == "before"]
            self.assertEqual(len(befores), 6)
            for line in befores:
                self.assertGreater(line["rms"], 0)
                self.assertNotIn("divisor", line)
                self.assertNotIn("unexplained", line)

    def test_numbers_are_those_of_a_forward_by_hand(self):
        model, tokens = reference("gpt2")
        block, points = model.h[1], {}

        def keep(name, tensor):
            tensor.retain_grad()
            points[name] = tensor
            return tensor

        x = keep("attention x", model.h[0](model.wte(tokens) + model.wpe(torch.arange(12))))
        h = keep("attention before", block.ln_1(x))
        f = keep("attention branch", block.attn(h))
        s = keep("attention sum", x + f)
        h = keep("feed_forward before", block.ln_2(s))
        f = keep("feed_forward branch", block.mlp(h))
        y = keep("feed_forward sum", s + f)
        y = keep("final_norm output", model.ln_f(y))
        logits = keep("head output", F.linear(y, model.wte.weight))
        square(logits).backward()
        _, found = run(model, tokens)
        for name, value in points.items():
            sublayer, point = name.split()
            layer = {"layer": 1} if sublayer in KINDS else {}
            line = find(found, sublayer=sublayer, point=point, **layer)
            v = value.detach().double()
            expected = {
                "rms": rms(v), "mean": v.mean().item(), "std": v.std(unbiased=False).item(),
                "abs_max": v.abs().max().item(), "abs_median": v.abs().median().item(),
                "grad_rms": rms(value.grad), "token_cosine": cosine_of_tokens(v)}
            for key, number in expected.items():
                self.assertAlmostEqual(line[key], number, 6, (name, key))
            self.assertEqual(v[:, line["peak_token"], line["peak_feature"]].abs().max(),
                             v.abs().max())
        line = find(found, layer=1, sublayer="feed_forward", point="sum")
        self.assertAlmostEqual(line["layer_cosine"], F.cosine_similarity(
            points["attention x"], points["feed_forward sum"], -1).mean().item(), 6)
        for weight, part in zip(("query", "key", "value"), range(3)):
            line = find(found, layer=1, sublayer="attention", point="weight", weight=weight)
            columns = slice(20 * part, 20 * part + 20)
            self.assertAlmostEqual(line["rms"], rms(block.attn.c_attn.weight[:, columns]), 6)
            self.assertAlmostEqual(line["grad_rms"],
                                   rms(block.attn.c_attn.weight.grad[:, columns]), 6)
        line = find(found, layer=1, sublayer="feed_forward", point="gamma", norm="before")
        self.assertAlmostEqual(line["min"], block.ln_2.weight.min().item(), 6)
        self.assertAlmostEqual(line["grad_rms"], rms(block.ln_2.weight.grad), 6)

    def test_outputs_and_gradients_keep_their_bits_and_no_hook_is_left(self):
        softmaxes = torch.softmax, F.softmax, torch.Tensor.softmax
        for name in generate_models.CONFIGS:
            model, tokens = reference(name)
            plain = model(tokens)
            square(plain).backward()
            gradients = [p.grad for p in model.parameters()]
            model.zero_grad(set_to_none=True)
            with probe(model) as p:
                probed = model(tokens)
                square(probed).backward()
            self.assertTrue(torch.equal(plain, probed), name)
            for parameter, gradient in zip(model.parameters(), gradients):
                self.assertTrue(torch.equal(parameter.grad, gradient), name)
                self.assertFalse(parameter._backward_hooks)
            for module in model.modules():
                self.assertFalse(module._forward_hooks or module._forward_pre_hooks)
            self.assertEqual((torch.softmax, F.softmax, torch.Tensor.softmax), softmaxes)
            self.assertNotIn("softmax", vars(torch.Tensor))
            self.assertGreater(len(lines(p)), 20)

    def test_run_leaves_gradients_as_they_were(self):
        model, tokens = reference("llama")
        run(model, tokens)
        self.assertTrue(all(p.grad is None for p in model.parameters()))

    def test_scores_are_those_that_the_mask_leaves(self):
        model, tokens = reference("gpt2")
        _, found = run(model, tokens)
        block = model.h[0]
        h = block.ln_1(model.wte(tokens) + model.wpe(torch.arange(12)))
        q, k, _ = (t.unflatten(-1, (4, 5)).transpose(1, 2).double()
                   for t in block.attn.c_attn(h).chunk(3, -1))
        scores = q @ k.mT / math.sqrt(5)
        seen = [scores[..., i, :i + 1] for i in range(12)]
        values = torch.cat([s.flatten() for s in seen])
        entropy = torch.stack([torch.distributions.Categorical(logits=s).entropy() / math.log(i + 1)
                               for i, s in enumerate(seen) if i > 0]).mean()
        line = find(found, layer=0, sublayer="attention", point="scores")
        for key, number in {"rms": rms(values), "mean": values.mean(), "entropy": entropy,
                            "std": values.std(unbiased=False),
                            "abs_max": values.abs().max()}.items():
            self.assertAlmostEqual(line[key], float(number), 5, key)


class OtherModels(unittest.TestCase):
    def test_torchs_encoder(self):
        for norm_first in False, True:
            for batch_first in False, True:
                torch.manual_seed(0)
                layer = nn.TransformerEncoderLayer(24, 3, 40, batch_first=batch_first,
                                                   norm_first=norm_first)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model = nn.TransformerEncoder(layer, 3, nn.LayerNorm(24))
                x = torch.randn(2, 7, 24)
                p, found = run(model, x)  # with dropout
                self.assertEqual(p.header()["placement"], "pre" if norm_first else "post")
                self.assertEqual([p.header()[key] for key in ("n_heads", "d_ff", "d_model")],
                                 [3, 40, 24])
                for line in found:
                    if line["point"] == "sum":
                        self.assertLess(line["unexplained"], 1e-6)
                        self.assertAlmostEqual(line["from_branch"], 1, 5)
                weights = [line for line in found if line["point"] == "weight"]
                self.assertEqual({line["weight"] for line in weights},
                                 {"query", "key", "value", "output", "up", "down"})
                self.assertEqual(sum(line["point"] == "scores" for line in found), 3)
                self.assertEqual(sum(line["sublayer"] == "final_norm" for line in found), 3)
                x_line = find(found, layer=0, sublayer="attention", point="x")
                self.assertAlmostEqual(x_line["token_cosine"], cosine_of_tokens(
                    x if batch_first else x.transpose(0, 1)), 6)

    def test_torchs_fast_path_is_left(self):
        layer = nn.TransformerEncoderLayer(24, 4, 40, batch_first=True).eval()
        x = torch.randn(2, 7, 24)
        with torch.no_grad():
            fast = layer(x)
            with probe(layer) as p:
                slow = layer(x)
        torch.testing.assert_close(fast, slow)
        self.assertEqual(layer.activation_relu_or_gelu, 1)
        self.assertEqual(p.header()["placement"], "post")

    def test_a_home_made_block(self):
        torch.manual_seed(0)
        model = nn.Sequential(*(Block(16) for _ in range(3)))
        p, found = run(model, torch.randn(2, 7, 16))
        self.assertEqual(p.header()["placement"], "pre")
        self.assertEqual(p.norm_slots(), {"norm_a": ("attention", "before"),
                                          "norm_f": ("feed_forward", "before")})
        for layer in range(3):
            for kind, gain in zip(KINDS, (1, 2)):
                line = find(found, layer=layer, sublayer=kind, point="sum")
                self.assertLess(line["unexplained"], 1e-6)
                self.assertAlmostEqual(line["from_x"], 1, 5)
                self.assertAlmostEqual(line["from_branch"], gain, 4)
                line = find(found, layer=layer, sublayer=kind, point="before")
                self.assertAlmostEqual(line["eps_in_deviation"], 0.01, 5)
                self.assertLess(line["eps_in_deviation_spread"], 1e-5)
                self.assertGreater(line["eps_in_variance_spread"], 1e-4)
            self.assertIn("entropy", find(found, layer=layer, sublayer="attention",
                                          point="scores"))
            self.assertEqual(sum(line["point"] == "weight" and line["layer"] == layer
                                 for line in found if "layer" in line), 6)

    def test_wrappers_experts_and_named_arguments(self):
        class Model(nn.ModuleList):
            def forward(self, x):
                for block in self:
                    x, _ = block(hidden_states=x)
                return x

        torch.manual_seed(0)
        model = nn.Sequential(Model(WrappedBlock(16) for _ in range(3)))
        p, found = run(model, torch.randn(2, 7, 16))
        self.assertEqual(p.norm_slots(), {"mix.norm": ("attention", "before"),
                                          "moe.norm": ("feed_forward", "before")})
        for layer in range(3):
            for kind in KINDS:
                line = find(found, layer=layer, sublayer=kind, point="sum")
                self.assertLess(line["unexplained"], 1e-6)
                self.assertAlmostEqual(line["from_branch"], 1, 5)
            weights = {line["weight"] for line in found if line.get("layer") == layer
                       and line["point"] == "weight"}
            self.assertEqual(weights, {"query", "key", "value", "output", "up", "down"})

    def test_adds_in_place(self):
        class InPlace(nn.Module):
            def __init__(self, d):
                super().__init__()
                self.attention, self.up, self.down = Attention(d), nn.Linear(d, d), nn.Linear(d, d)
                self.norm_a, self.norm_f = nn.LayerNorm(d), nn.LayerNorm(d)

            def forward(self, x):
                y = self.attention(x)
                y += x
                x = self.norm_a(y)
                y = self.down(self.up(x))
                y += x
                return self.norm_f(y)

        torch.manual_seed(0)
        p, found = run(nn.Sequential(InPlace(16), InPlace(16)), torch.randn(2, 7, 16))
        self.assertEqual(p.header()["placement"], "post")
        for kind in KINDS:
            line = find(found, layer=1, sublayer=kind, point="sum")
            self.assertAlmostEqual(line["from_x"], 1, 5)
            self.assertAlmostEqual(line["from_branch"], 1, 5)
            self.assertLess(line["unexplained"], 1e-6)
            branch = find(found, layer=1, sublayer=kind, point="branch")  # the sum is written over it
            self.assertAlmostEqual(branch["grad_rms"] / line["grad_rms"], 1, 5)
            self.assertAlmostEqual(line["grad_to_branch"], 1, 5)

    def test_document_000s_block(self):
        model = nn.ModuleList([DocumentBlock(16, 2, 32)])
        model.forward = lambda x: model[0](x)
        p, found = run(model, torch.randn(2, 7, 16))
        self.assertEqual(p.header()["placement"], "pre")
        line = find(found, layer=0, sublayer="attention", point="before")
        self.assertAlmostEqual(line["scale"], math.sqrt(15 / 16), 5)  # the unbiased variance

    def test_names_help_where_order_does_not(self):
        class Odd(nn.Module):
            def __init__(self):
                super().__init__()
                self.mix, self.one, self.two = (nn.Linear(8, 8) for _ in range(3))
                self.norm = nn.LayerNorm(8)

            def forward(self, x):
                x = x + self.mix(x)
                return x + self.two(self.one(self.norm(x)))

        model = nn.Sequential(Odd(), Odd())
        for names in {}, {"attention": "mix"}:
            p, found = run(model, torch.randn(2, 5, 8), **names)
            self.assertEqual(p.header()["placement"], "none/pre")
            self.assertAlmostEqual(find(found, layer=1, sublayer="attention",
                                        point="sum")["from_x"], 1, 5)
        p, found = run(model, torch.randn(2, 5, 8), attention=["one", "two"])
        self.assertEqual({line["sublayer"] for line in found if line["point"] == "before"},
                         {"attention"})

    def test_errors_say_what_there_is(self):
        with self.assertRaisesRegex(ProbeError, r"layers='…'.*0 \(Linear\)"):
            probe(nn.Sequential(nn.Linear(3, 3), nn.ReLU()))
        with self.assertRaisesRegex(ProbeError, "no module 'layers'; it has .*h.0.ln_1"):
            probe(reference("gpt2")[0], layers="layers")
        two = nn.ModuleDict({"a": nn.ModuleList([Block(8)]), "b": nn.ModuleList([Block(8)])})
        with self.assertRaisesRegex(ProbeError, "no layer of a was called"):
            with probe(two, layers="a"):
                pass
        block = Block(8)
        with self.assertRaisesRegex(ProbeError, "the same module twice"):
            probe(two, layers=[block, block])

        class Mixed(Block):
            def forward(self, x):
                return x.flip(1)

        with self.assertRaisesRegex(ProbeError, r"layers of the model .*recognized: .*\[2, 5, 16\]"):
            run(Mixed(16), torch.randn(2, 5, 16, requires_grad=True))

    def test_weights_may_be_views_of_one_parameter(self):
        """FSDP leaves views: no module has its own parameters."""
        torch.manual_seed(0)
        plain, x = nn.Sequential(*(Block(16) for _ in range(2))), torch.randn(2, 7, 16)
        flat = nn.Parameter(torch.cat([p.detach().flatten() for p in plain.parameters()]))
        expected = [line for line in run(plain, x)[1] if line["point"] == "sum"]
        start = 0
        for module in list(plain.modules()):
            for key, p in list(module._parameters.items()):
                del module._parameters[key]
                vars(module)[key] = flat[start:start + p.numel()].view_as(p)
                start += p.numel()
        _, found = run(plain, x)
        sums = [line for line in found if line["point"] == "sum"]
        self.assertEqual([line["from_branch"] for line in sums], [line["from_branch"] for line in expected])
        self.assertEqual(sum(line["point"] == "weight" for line in found), 12)

    def test_channels_may_come_first(self):
        class ChannelsFirst(Block):
            def forward(self, x):
                x = x.transpose(1, 2)
                return (x + F.conv1d(x, self.fc1.weight[:, :, None])).transpose(1, 2)

        _, found = run(nn.Sequential(ChannelsFirst(16), ChannelsFirst(16)), torch.randn(2, 5, 16))
        sums = [line for line in found if line["point"] == "sum"]
        self.assertEqual(len(sums), 2)
        for line in sums:
            self.assertLess(line["unexplained"], 1e-6)
            self.assertAlmostEqual(line["from_x"], 1, 5)
            self.assertAlmostEqual(line["from_branch"], 1, 5)

    def test_a_lost_residual_moves_no_slot(self):
        for name in "bert", "gpt2", "gemma2", "olmo2", "t5":
            for kind in KINDS:
                model, tokens = reference(name)
                placement = run(model, tokens)[0].header()["placement"]
                layer = (model.h if name == "gpt2" else model.bert.encoder.layer if name == "bert"
                         else model.encoder.block if name == "t5" else model.model.layers)[1]
                calls = []

                def lossy(x, h, f):
                    calls.append(0)
                    is_it = len(calls) % 2 == (kind == "attention")
                    return f if is_it else x + f

                for module in layer.modules():
                    if hasattr(module, "residual"):
                        module.residual = lossy
                p, found = run(model, tokens)
                self.assertEqual(p.header()["placement"], placement)
                places = [{(line["sublayer"], line["point"]) for line in found
                           if line.get("layer") == i} for i in range(2)]
                self.assertEqual(*places)
                for other in KINDS:
                    line = find(found, layer=1, sublayer=other, point="sum")
                    self.assertAlmostEqual(line["from_x"], other != kind, 4, (name, kind, other))

    def test_gradients_that_a_sum_does_not_pass_on(self):
        def without_grad(x, f):
            with torch.no_grad():
                y = f()
            return x + y

        gain = torch.linspace(-1, 1, 16)
        cases = [  # the sum, and the shares of its gradient that arrive at x and at the branch
            (lambda x, f: x + f(), 1, 1),
            (lambda x, f: x.detach() + f(), 0, 1),
            (lambda x, f: x + f().detach(), 1, 0),
            (without_grad, 1, 0),
            (lambda x, f: f().add_(x), 1, 1),  # the sum overwrites the branch
            (lambda x, f: 0.25 * x + 0.75 * x.detach() + 3 * f(), 0.25, 3),
            (lambda x, f: torch.cat([x[..., :8].detach(), x[..., 8:]], -1) + gain * f(), None, None),
        ]
        for i, (add, to_x, to_branch) in enumerate(cases):
            torch.manual_seed(i)
            model = nn.Sequential(*(CutBlock(16, add) for _ in range(3)))
            _, found = run(model, torch.randn(2, 9, 16, requires_grad=True))
            for layer in range(3):
                line = find(found, layer=layer, sublayer="attention", point="sum")
                for key, expected in ("grad_to_x", to_x), ("grad_to_branch", to_branch):
                    with self.subTest(key, case=i, layer=layer):
                        self.assertEqual(key in line, expected is not None)
                        self.assertAlmostEqual(line.get(key, 0), expected or 0, 5)
                line = find(found, layer=layer, sublayer="feed_forward", point="sum")
                self.assertAlmostEqual(line["grad_to_x"], 1, 5)

    def test_a_backward_does_not_fail_by_being_watched(self):
        class Conditioned(nn.LayerNorm):
            def forward(self, x, condition):
                return super().forward(x) * condition

        class Layer(CutBlock):
            def forward(self, x):
                x = x + self.attention(self.norm_a(x, 2))
                return x + self.mlp(self.norm_f(x))

        torch.manual_seed(0)
        layer = Layer(16, None)
        layer.norm_a = Conditioned(16)
        _, found = run(nn.Sequential(layer), torch.randn(2, 9, 16, requires_grad=True))
        line = find(found, layer=0, sublayer="attention", point="sum")
        self.assertNotIn("grad_to_x", line)
        self.assertAlmostEqual(line["grad_to_branch"], 1, 5)

    def test_what_reads_the_stream_beside_a_norm_is_not_called_twice(self):
        class Layer(CutBlock):
            def __init__(self, d):
                super().__init__(d, None)
                self.batch, self.drop = nn.BatchNorm1d(d), nn.Dropout(0.5)

            def forward(self, x):
                x = x + self.attention(self.norm_a(x)) + self.drop(x)
                return x + self.mlp(self.norm_f(x)) + self.batch(x.transpose(1, 2)).transpose(1, 2)

        states = []
        for watched in False, True:
            torch.manual_seed(0)
            layer, x = Layer(16), torch.randn(2, 9, 16, requires_grad=True)
            model = nn.Sequential(layer)
            if watched:
                _, found = run(model, x)
                self.assertNotIn("grad_to_x", find(found, layer=0, sublayer="attention",
                                                   point="sum"))
            else:
                square(model(x)).backward()
            states.append((layer.batch.running_mean, layer.batch.running_var, torch.rand(3)))
        for plain, seen in zip(*states):
            self.assertTrue(torch.equal(plain, seen))

    def test_bfloat16(self):
        model, tokens = reference("llama")
        _, found = run(model.bfloat16(), tokens)
        line = find(found, layer=0, sublayer="attention", point="before")
        self.assertEqual((line["dtype"], line["gamma_offset"]), ("bfloat16", 0))
        self.assertAlmostEqual(line["scale"], 1, 1)
        line = find(found, layer=0, sublayer="attention", point="sum")
        self.assertAlmostEqual(line["from_branch"], 1, 2)
        self.assertGreater(line["unexplained"], 1e-4)

    def test_what_is_not_finite_says_so(self):
        model, tokens = reference("gpt2")
        model.h[1].mlp.c_fc.bias.data[3] = math.inf
        p, found = run(model, tokens)
        for line in found:
            bad = line.get("layer") == 1 and line["sublayer"] == "feed_forward" and \
                line["point"] in ("branch", "sum") or line["sublayer"] in ("final_norm", "head")
            if bad and line["point"] in ("branch", "sum", "output"):
                self.assertIs(line["finite"], False)
        self.assertNotRegex(p.text(), "NaN|Infinity")
        self.assertNotIn("finite", find(found, layer=1, sublayer="attention", point="branch")
                         .keys() - {"finite"})


class Use(unittest.TestCase):
    def test_steps(self):
        model, tokens = reference("gpt2")
        p = probe(model, every=3, recipe={"initialization": "gpt2", "placement": "depth-scaled"})
        for _ in range(7):
            with p:
                square(model(tokens)).backward()
                square(model(tokens.flip(0))).backward()  # a second backward does not count
        self.assertEqual(sorted({line["step"] for line in lines(p)}), [0, 3, 6])
        first, later = ([{k: v for k, v in line.items() if k != "step"} for line in lines(p)
                         if line["step"] == step] for step in (0, 6))
        self.assertEqual(first, later)
        self.assertEqual(p.header()["initialization"], "gpt2")
        self.assertEqual(p.header()["placement"], "depth-scaled")
        p = probe(model)
        with p(40):
            model(tokens)
        self.assertEqual({line["step"] for line in lines(p)}, {40})
        self.assertNotIn("grad_rms", p.text().replace("\n", " ")[:0])
        self.assertFalse(any("grad_rms" in line for line in lines(p)))

    def test_more_steps_add_no_parts(self):
        """The facts about a model are the same after any number of steps, and so is the time to read them."""
        class Gated(CutBlock):
            """The stream has another factor in each feature, so the sum is left out."""

            def __init__(self, d):
                super().__init__(d, lambda x, f: x * self.gate(x).sigmoid() + f())
                self.gate = nn.Linear(d, d)

        torch.manual_seed(0)
        model = nn.Sequential(Gated(8), Gated(8))
        p, kept = probe(model), []
        for _ in range(3):
            with p:
                square(model(torch.randn(2, 5, 8))).backward()
            kept.append((p.header(), p.norm_slots(), p.coverage()["left_out"], len(p._measured.sublayers)))
        self.assertEqual(len(kept[0][2]), 2)
        self.assertEqual(kept[0], kept[1])
        self.assertEqual(kept[0], kept[2])

    def test_checkpointing(self):
        class Model(nn.Module):
            def __init__(self, reentrant):
                super().__init__()
                self.layers = nn.ModuleList(Block(8) for _ in range(3))
                self.reentrant = reentrant

            def forward(self, x):
                for layer in self.layers:
                    x = layer(x) if self.reentrant is None else \
                        checkpoint(layer, x, use_reentrant=self.reentrant)
                return x

        torch.manual_seed(0)
        plain, x = Model(None), torch.randn(2, 5, 8, requires_grad=True)
        expected = lines(probe(plain).run(x, loss=square))
        for reentrant in False, True:
            model = Model(reentrant)
            model.load_state_dict(plain.state_dict())
            p = probe(model).run(x, loss=square)
            for a, b in zip(lines(p), expected):
                self.assertEqual({k: v for k, v in a.items() if not k.startswith("grad_")},
                                 {k: v for k, v in b.items() if not k.startswith("grad_")})
                for key in b.keys() if not reentrant else a.keys() & b.keys():
                    if key.startswith("grad_"):
                        self.assertAlmostEqual(a[key], b[key], 9)
            sums = [line for line in lines(p) if line["point"] == "sum"]
            self.assertEqual([reentrant] * 6, [line.keys().isdisjoint(("grad_to_x", "grad_to_branch")) for line in sums])
            self.assertEqual(["layers.0 and 2 more"] * reentrant, [part["where"] for part in p.coverage()["left_out"]])

    def test_many_tokens_are_sampled(self):
        torch.manual_seed(0)
        model, x = nn.Sequential(Block(16)), torch.randn(3, 50, 16)
        _, all_of_them = run(model, x)
        _, some = run(model, x, tokens=10)
        b = find(some, layer=0, sublayer="attention", point="x")
        self.assertAlmostEqual(b["rms"], rms(x[:1, ::5]), places=12)
        a, b = (find(f, layer=0, sublayer="attention", point="sum") for f in (all_of_them, some))
        self.assertEqual(a["grad_rms"], b["grad_rms"])

    @unittest.skipUnless(hasattr(F, "scaled_dot_product_attention"), "as PyTorch 2 has it")
    def test_fused_attention(self):
        class Fused(Block):
            def forward(self, x):
                h = self.norm_a(x)
                q, k, v = (f(h)[:, None] for f in (self.q, self.k, self.v))
                x = x + self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=True)[:, 0])
                return x + self.fc2(self.fc1(self.norm_f(x)))

        torch.manual_seed(0)
        block = Fused(16)
        x = torch.randn(2, 7, 16)
        _, found = run(nn.Sequential(block), x)
        h = block.norm_a(x)
        scores = (block.q(h) @ block.k(h).mT / 4).masked_fill(torch.ones(7, 7).triu(1).bool(),
                                                              -math.inf)
        expected = score_numbers(scores)
        line = find(found, layer=0, sublayer="attention", point="scores")
        for key in "rms", "mean", "entropy":
            self.assertAlmostEqual(line[key], expected[key], 6)


class CountsWaits(TorchDispatchMode):
    """Counts how often the host waits for a device: when a tensor is converted to a number or copied to the host."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = str(function)
        self.count += "_local_scalar_dense" in name or "nonzero" in name or "eigh" in name
        return function(*args, **(kwargs or {}))

    def __enter__(self):
        self._methods = {name: getattr(torch.Tensor, name) for name in ("tolist", "cpu", "numpy")}
        for name, method in self._methods.items():
            setattr(torch.Tensor, name, self._counted(method))
        return super().__enter__()

    def __exit__(self, *error):
        for name, method in self._methods.items():
            setattr(torch.Tensor, name, method)
        return super().__exit__(*error)

    def _counted(self, method):
        def call(*args, **named):
            self.count += 1
            return method(*args, **named)
        return call


class Cost(unittest.TestCase):
    def waits(self, name, n_layers, dtype):
        config = dict(generate_models.CONFIGS[name])
        config[next(key for key in ("n_layer", "num_hidden_layers") if key in config)] = n_layers
        model = transformers.build(config).to(dtype)
        tokens = torch.randint(config["vocab_size"], (2, 12))
        with CountsWaits() as plain:
            square(model(tokens)).backward()
        with CountsWaits() as measured, probe(model):
            square(model(tokens)).backward()
        return measured.count - plain.count

    def test_a_step_is_read_in_a_few_transfers_whatever_the_number_of_layers(self):
        for name in "gpt2", "bert", "llama", "gemma2":
            for dtype in torch.float32, torch.bfloat16:
                with self.subTest(name, dtype=dtype):
                    counts = [self.waits(name, n_layers, dtype) for n_layers in (2, 5)]
                    self.assertLessEqual(max(counts), 3)


class WhatIsKept(unittest.TestCase):
    def test_numbers_that_wait_to_be_read_keep_no_tensors(self):
        fits, seen = Fits(self.fail), {}
        for i in range(3):
            tensors = [torch.randn(50, 8) for _ in range(3)]
            fits.add(inner_products, tensors, seen.update)
        fits.run()
        held = [weakref.ref(t) for t in tensors]
        del tensors
        gc.collect()
        self.assertEqual([ref() for ref in held], [None] * 3)

    def test_a_step_keeps_no_sum_and_no_gradient(self):
        model, tokens = reference("gpt2")
        p = probe(model)
        with p:
            square(model(tokens)).backward()
            functions = [c.then for c in p._measured._fits._computed] + [p._measured._fits._finish]
            tensors, opened = [], list(functions)
            known = set()
            while opened:
                thing = opened.pop()
                if id(thing) in known:
                    continue
                known.add(id(thing))
                if isinstance(thing, torch.Tensor):
                    tensors.append(thing)
                elif isinstance(thing, (list, tuple)):
                    opened += thing
                elif isinstance(thing, functools.partial):
                    opened += [thing.func, thing.args]
                elif callable(thing) and getattr(thing, "__closure__", None):
                    opened += [cell.cell_contents for cell in thing.__closure__ if cell.cell_contents is not None]
        self.assertEqual(tensors, [])

    def test_a_computation_that_fails_costs_no_other_its_numbers(self):
        def fails(tensor):
            raise RuntimeError("no such type")

        errors, found = [], {}
        fits = Fits(lambda where, error: errors.append((where, str(error))))
        fits.where = "layers.3"
        fits.add(fails, [torch.ones(2)], found.update)
        fits.add(lambda t: {"sum": t.sum(1)}, [torch.ones(2)], found.update)
        fits.finally_do(lambda: found.update(finished=True))
        fits.read()
        self.assertEqual(errors, [("layers.3", "no such type")])
        self.assertEqual(found, {"sum": 2, "finished": True})


class Kinds(unittest.TestCase):
    """Tests explain_norm and related functions on known cases."""

    def test_a_mask_of_large_numbers_hides_as_one_of_infinity(self):
        scores, hidden = 3 * torch.randn(2, 3, 7, 7), torch.ones(7, 7).triu(1).bool()
        hidden[0] = True  # a query without visible keys
        expected = score_numbers(scores.masked_fill(hidden, -math.inf))
        for number in -1e4, -1e9, torch.finfo(torch.float32).min:
            found = score_numbers(scores.masked_fill(hidden, number))
            self.assertEqual(found, expected)
        self.assertLess(expected["abs_max"], 20)
        self.assertEqual(score_numbers(scores.masked_fill(hidden, -math.inf)[:, :, :1]), {})
        self.assertAlmostEqual(score_numbers(0 * scores)["entropy"], 1)

    def setUp(self):
        torch.manual_seed(0)
        self.gamma = 1 + 0.3 * torch.randn(33).double()
        self.beta = torch.randn(33).double()

    def explain(self, normalize, s=None, dtype=torch.float64, gamma=None):
        s = (torch.randn(50, 33).double() * torch.rand(50, 1).double() + 0.3 if s is None else s)
        s, gamma = s.to(dtype), self.gamma.to(dtype) if gamma is None else gamma
        return explain_norm(s[None], normalize(s, gamma)[None], gamma, self.beta, False, False)

    def test_where_epsilon_stands(self):
        for eps in 1e-3, 1e-5, 1e-8:
            inside = self.explain(lambda s, g: F.layer_norm(s, (33,), g, self.beta, eps))
            self.assertAlmostEqual(inside["eps_in_variance"] / eps, 1, 4)
            self.assertLess(inside["eps_in_variance_spread"], 1e-3 * eps)
            self.assertGreater(inside["eps_in_deviation_spread"], 0.1 * inside["eps_in_deviation"])
            outside = self.explain(lambda s, g: g * (s - s.mean(1, keepdim=True)) / (
                s.std(1, unbiased=False, keepdim=True) + eps) + self.beta)
            self.assertAlmostEqual(outside["eps_in_deviation"] / eps, 1, 4)
            self.assertLess(outside["eps_in_deviation_spread"], 1e-3 * eps)
            self.assertGreater(outside["eps_in_variance_spread"], 0.1 * outside["eps_in_variance"])

    def test_what_gamma_means_and_whether_rows_are_centred(self):
        def norm(s, gamma, centred):
            s = s - s.mean(1, keepdim=True) * centred
            return gamma * s / s.square().mean(1, keepdim=True).sqrt() + self.beta

        for offset in 0, 1:
            for centred in 0, 1:
                found = self.explain(lambda s, g: norm(s, g + offset, centred))
                self.assertEqual(found["gamma_offset"], offset)
                self.assertAlmostEqual(found["centred"], centred)
                self.assertAlmostEqual(found["scale"], 1)
        found = self.explain(lambda s, g: norm(s, g, 1) - 2,
                             gamma=torch.ones(33).double())  # β is a single number too
        self.assertNotIn("gamma_offset", found)
        s = torch.randn(50, 33).double()
        s -= s.mean(1, keepdim=True)
        self.assertNotIn("centred", self.explain(lambda s, g: norm(s, g, 1), s))

    def test_a_large_mean(self):
        s = torch.randn(50, 33).double() + 1e4
        found = self.explain(lambda s, g: F.layer_norm(s, (33,), g, self.beta, 1e-5), s)
        self.assertAlmostEqual(found["centred"], 1)
        self.assertAlmostEqual(found["scale"], 1, 4)

    def test_a_scale(self):
        found = self.explain(lambda s, g: F.layer_norm(s, (33,), g / 3, self.beta, 0.01))
        self.assertAlmostEqual(found["divisor_slope"], 9, 5)
        self.assertLess(found["divisor_noise"], 1e-6)
        found = self.explain(lambda s, g: F.layer_norm(s, (33,), g / 3, self.beta, 1e-9))
        self.assertAlmostEqual(found["scale"], 1 / 3, 5)
        s = F.layer_norm(torch.randn(50, 33), (33,), eps=0)
        found = self.explain(lambda s, g: F.layer_norm(s, (33,), g, self.beta.float(), 0), s,
                             torch.float32)
        self.assertNotIn("divisor_slope", found)

    def test_statistics_in_half_precision(self):
        def norm(s, gamma, dtype):
            deviation = s.to(dtype).square().float().mean(1, keepdim=True).to(dtype).float().sqrt()
            return gamma * s / deviation + self.beta.float()

        single, half = (self.explain(lambda s, g: norm(s, g, dtype), dtype=torch.float32)
                        for dtype in (torch.float32, torch.float16))
        for key in "scale_spread", "divisor_noise":
            self.assertLess(single[key], 1e-6)
            self.assertGreater(half[key], 1e-4)

    def test_sums(self):
        x, h, f = torch.randn(3, 40).double()
        found = explain_sum(2 * x - h / 2 + f, {"x": x, "before": h, "branch": f})
        self.assertLess(found["unexplained"], 1e-12)
        for key, value in {"from_x": 2, "from_before": -0.5, "from_branch": 1}.items():
            self.assertAlmostEqual(found[key], value)
        found = explain_sum(x + f, {"x": x, "before": 3 * x, "branch": f})
        self.assertEqual(found.keys(), {"unexplained", "from_branch"})
        self.assertAlmostEqual(explain_sum(x + f, {"x": x})["unexplained"] ** 2,
                               1 - ((x + f) @ x).item() ** 2 / (x @ x).item()
                               / ((x + f) @ (x + f)).item())

    def test_a_fit_to_some_parts_is_the_least_squares_of_these(self):
        for seed in range(20):
            torch.manual_seed(seed)
            parts = torch.randn(4, 400).double() + 3 * torch.randn(400).double() * (seed % 2)
            total = torch.randn(4).double() @ parts + 10.0 ** -(seed // 2) * torch.randn(400).double()
            names = "abcd"
            products = InnerProducts(fit_now(inner_products, [total, *parts]), names, total.dtype, 400)
            for chosen in "abcd", "abd", "bc", "d":
                rows = parts[[names.index(name) for name in chosen]]
                expected = torch.linalg.lstsq(rows.T, total[:, None]).solution[:, 0]
                left = (total - expected @ rows).norm() / total.norm()
                found = products.fit(chosen)
                self.assertAlmostEqual(found["unexplained"] / left.item(), 1, 5)
                for name, value in zip(chosen, expected):
                    if f"from_{name}" in found:
                        self.assertAlmostEqual(found[f"from_{name}"], value.item(), 7)


if __name__ == "__main__":
    unittest.main()
