"""addnorm.behaviour: bugs planted in models of various architectures are named by their rule, sound models have no
findings, and no model is changed.

The program is the doctor that judges: ADDNORM_PROGRAM is its path.
"""

import copy
import json
import math
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

sys.path.append(str(pathlib.Path(__file__).parent))
import behaviour_models as models  # noqa: E402
from addnorm.behaviour import measure  # noqa: E402
from addnorm.behaviour.run.subject import Subject  # noqa: E402

torch.set_num_threads(1)
PROGRAM = os.environ["ADDNORM_PROGRAM"]
GAMMA = {"step": 0, "layer": 0, "sublayer": "attention", "norm": "before", "point": "gamma",
         "mean": 1.0, "std": 0.0}  # tells the doctor that the network is untrained


def adamw(model, **options):
    return torch.optim.AdamW([p for p in model.parameters() if p.requires_grad],
                             **{"lr": 1e-3, **options})


def findings(lines):
    """Returns the doctor's findings for the lines."""
    header = {"addnorm_profile": 1, "model": {"n_layers": 1}}
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.writelines(json.dumps(line) + "\n" for line in (header, GAMMA, *lines))
        file.flush()
        run = subprocess.run([PROGRAM, "doctor", file.name, "--json"], capture_output=True, text=True)
    assert run.returncode in (0, 1), run.stderr
    return json.loads(run.stdout)["findings"]


def defects(lines):
    return [f for f in findings(lines) if f["severity"] != "note"]


def check(model, inputs, named, loss, optimizer=None):
    return measure(model, inputs, named, loss=loss, optimizer=optimizer)


# -- Sound models --


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", models.SOUND)
def test_accuses_no_sound_model(name, training, seed):
    torch.manual_seed(seed)
    model, *batch = models.SOUND[name]()
    lines, _ = check(model.train(training), *batch, adamw(model))
    assert lines
    assert defects(lines) == []


@pytest.mark.parametrize("name", models.SOUND)
def test_accuses_no_model_that_was_trained(name):
    torch.manual_seed(4)
    model, inputs, named, loss = models.SOUND[name]()
    optimizer = adamw(model, lr=3e-3)
    for _ in range(20):
        optimizer.zero_grad()
        Subject(model, inputs, named, loss).loss(model(*inputs, **named)).backward()
        optimizer.step()
    assert defects(check(model, inputs, named, loss, optimizer)[0]) == []


def state_of(model):
    """Everything that a measurement might change."""
    return {
        "parameters": {name: (p.clone(), p._version) for name, p in model.named_parameters()},
        "buffers": {name: value.clone() for name, value in model.named_buffers()},
        "gradients": {name: p.grad if p.grad is None else p.grad.clone()
                      for name, p in model.named_parameters()},
        "modes": [module.training for module in model.modules()],
        "hooks": [(len(m._forward_hooks), len(m._forward_pre_hooks), len(m._backward_hooks))
                  for m in model.modules()],
        "attributes": [sorted(vars(module)) for module in model.modules()],
        "random": (torch.get_rng_state().tolist(), random.getstate()),
    }


def same(a, b):
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


@pytest.mark.parametrize("name", models.SOUND)
def test_leaves_a_model_as_it_was(name):
    torch.manual_seed(3)
    model, inputs, named, loss = models.SOUND[name]()
    next(model.parameters()).grad = torch.ones_like(next(model.parameters()))
    next(model.children()).eval()
    model.register_buffer("seen", torch.zeros(()))
    model.register_forward_pre_hook(lambda module, _: module.seen.add_(1).mul_(math.pi))
    model.register_forward_pre_hook(lambda module, _: setattr(module, "last", object()))
    before, batch = state_of(model), copy.deepcopy((inputs, named))
    check(model, inputs, named, loss, adamw(model))
    assert same(state_of(model), before)
    assert same((inputs, named), batch)


def test_a_backward_that_is_still_to_come_does_not_notice():
    torch.manual_seed(0)
    model, inputs, named, loss = models.gpt()
    value = loss(model(*inputs))
    lines, _ = check(model, inputs, named, loss)
    value.backward()
    assert lines and all(p.grad is not None for p in model.parameters())


def test_leaves_out_what_it_cannot_run():
    def broken(*_):
        raise ValueError("no such input")

    model = models.GPT()
    model.forward = broken
    lines, left_out = check(model, (models.tokens(),), {}, None)
    assert {line["check"] for line in lines} <= {"parameter-frozen", "tying-broken"}
    assert any("no such input" in entry["why"] for entry in left_out)
    lines, left_out = check(models.GPT(), (models.tokens(),), {}, lambda y: y)
    assert any("must be one number" in entry["why"] for entry in left_out)
    assert all(set(entry) == {"where", "why"} for entry in left_out)


@pytest.mark.parametrize("kind", [list, tuple])
def test_several_optimizers_share_the_parameters(kind):
    model, inputs, named, loss = models.gpt()
    parameters = list(model.parameters())
    halves = [torch.optim.SGD(parameters[:9], lr=0.1), torch.optim.SGD(parameters[9:], lr=0.1)]

    def share_outside(optimizers):
        lines, left_out = check(model, inputs, named, loss, optimizers)
        assert "optimizer" not in {part["where"] for part in left_out}
        return next(line["value"] for line in lines if line["check"] == "not-in-optimizer")

    assert share_outside(kind(halves)) == 0
    assert share_outside(kind(halves[:1])) == share_outside(halves[0]) == 1 - 9 / len(parameters)


def test_runs_a_model_a_few_times():
    model, inputs, named, loss = models.bert()
    calls = []
    model.register_forward_pre_hook(lambda *_: calls.append(1))
    check(model, inputs, named, loss, adamw(model))
    assert len(calls) <= 6


# -- Planted bugs: each returns (model, inputs, named, loss[, optimizer]) --

BUGS = []


def bug(rule, where=""):
    def add(plant):
        BUGS.append((rule, where, plant))
        return plant
    return add


def replaced(batch, change):
    change(batch[0])
    return batch


def without_loss(batch):
    return (*batch[:3], None)


def everywhere(queries, keys=None):
    return torch.ones(queries, keys or queries, dtype=torch.bool)


@bug("future-leak", "h.1.attn")
def no_mask_in_one_layer_of_gpt():
    return without_loss(replaced(models.gpt(), lambda m: setattr(m.h[1].attn, "mask", everywhere)))


@bug("future-leak", "layers")
def no_mask_in_llama_that_is_trained_on_the_next_token():
    def change(model):
        for layer in model.layers:
            layer.self_attn.mask = lambda length: torch.zeros(length, length)
    return replaced(models.llama(), change)


@bug("future-leak", "attn")
def mask_off_by_one_in_gpt():
    def change(model):
        for block in model.h:
            block.attn.mask = lambda queries, keys: everywhere(queries, keys).tril(1 + keys - queries)
    return without_loss(replaced(models.gpt(), change))


@bug("future-leak", "decoder")
def no_mask_in_the_decoder_of_t5():
    def change(model):
        for layer in model.decoder:
            layer.self_attn.mask = everywhere
    return replaced(models.translator(), change)


@bug("future-leak", "decoder.2")
def no_mask_in_one_layer_of_a_decoder():
    batch = models.translator(7)
    batch[0].decoder[2].self_attn.mask = everywhere
    return without_loss(batch)


class OverTokens(nn.LayerNorm):
    def forward(self, x):
        return super().forward((x - x.mean(1, keepdim=True)) / (1e-3 + x.std(1, keepdim=True)))


@bug("future-leak", "h.2")
def statistics_over_tokens():
    return replaced(models.gpt(), lambda m: setattr(m.h[2], "ln_2", OverTokens(models.WIDTH)))


@bug("batch-leak", "h.1.attn")
def a_view_for_a_transpose():
    class Attention(models.Attention):
        def forward(self, x, cache=None):
            out, cache = super().forward(x, cache)
            return out.transpose(0, 1).reshape(x.shape), cache
    return without_loss(replaced(models.gpt(), lambda m: setattr(m.h[1], "attn", Attention())))


@bug("batch-leak", "layers")
def statistics_of_the_batch_in_evaluation():
    model = models.Conformer()
    for layer in model.layers:
        layer.batch_norm = nn.BatchNorm1d(models.WIDTH, track_running_stats=False)
    return model, models.vectors(), {}, None


@bug("batch-leak", "self_attn")
def attention_over_the_batch():
    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = (nn.Embedding(n, models.WIDTH) for n in (models.VOCABULARY, 64))
            self.encoder = models.encoder(norm_first=True)  # expects tokens first

        def forward(self, x):
            return self.encoder(self.words(x) + self.places(torch.arange(x.shape[1])))
    return Encoder(), (models.tokens(),), {}, None


@bug("padding-leak", "attention_mask")
def a_mask_that_one_layer_does_not_get():
    batch = models.bert()
    layer = batch[0].layer[1]
    forward = layer.forward
    layer.forward = lambda x, hidden: forward(x, 0 * hidden)
    return batch


@bug("padding-leak", "src_key_padding_mask")
def a_mask_the_wrong_way_round():
    class Encoder(nn.TransformerEncoder):
        def forward(self, src, src_key_padding_mask=None):
            return super().forward(src, src_key_padding_mask=~src_key_padding_mask)
    layer = nn.TransformerEncoderLayer(models.WIDTH, 4, 64, batch_first=True)
    hidden = torch.zeros(models.BATCH, models.LENGTH, dtype=torch.bool)
    hidden[1, 8:] = True
    hidden[0, 10:] = hidden[2, 10:] = True
    return Encoder(layer, 2), models.vectors(), {"src_key_padding_mask": hidden}, None


@bug("cache-mismatch", "past")
def positions_that_begin_again():
    return replaced(models.gpt(), lambda m: setattr(
        m, "positions", lambda past, length: torch.arange(length)))


@bug("cache-mismatch", "past")
def a_mask_of_the_first_rows():
    def change(model):
        for block in model.h:
            block.attn.mask = lambda queries, keys: models.causal(keys)[:queries]
    return replaced(models.gpt(), change)


@bug("eval-noise", "h.0")
def a_function_that_drops_always():
    return replaced(models.gpt(), lambda m: setattr(
        m.h[0], "add", lambda x, f: x + F.dropout(f, 0.1)))


@bug("eval-noise", "layer.2")
def dropout_in_a_plain_list():
    batch = models.bert()
    layer = batch[0].layer[2]
    hidden = [nn.Dropout(0.1)]
    del layer.dropout
    object.__setattr__(layer, "dropout", lambda x: hidden[0](x))
    return batch


@bug("gradient-missing", "h.1.attn")
def a_branch_that_is_detached():
    batch = models.gpt()
    block = batch[0].h[1]
    proj = block.attn.proj
    block.attn.proj = nn.Sequential(proj)
    block.attn.proj.forward = lambda x: proj(x).detach()
    return batch


@bug("gradient-missing", "mlp")
def no_gradient_in_all_feed_forwards():
    class NoGradient(models.MLP):
        @torch.no_grad()
        def forward(self, x):
            return super().forward(x)

    def change(model):
        for layer in model.layers:
            layer.mlp = NoGradient()
    return replaced(models.llama(), change)


@bug("parameter-frozen", "h.1")
def one_layer_of_gpt_is_frozen():
    return replaced(models.gpt(), lambda m: m.h[1].requires_grad_(False))


@bug("parameter-frozen", "layer.1.query")
def one_projection_of_bert_is_frozen():
    return replaced(models.bert(), lambda m: m.layer[1].query.requires_grad_(False))


@bug("parameter-unused", "h.2")
def a_loop_that_ends_too_early():
    class Short(models.GPT):
        def forward(self, x):
            x = self.wte(x) + self.wpe(torch.arange(x.shape[1]))
            for block in self.h[:-1]:
                x, _ = block(x)
            return self.head(self.ln_f(x))
    return (Short(), *models.gpt()[1:3], None)


@bug("parameter-unused", "layer.0")
def a_loop_that_begins_too_late():
    class Short(models.Bert):
        def forward(self, x):
            y = self.norm(self.words(x) + self.places(torch.arange(x.shape[1])))
            for i in range(1, len(self.layer)):
                y = self.layer[i](y, 0)
            return y, self.pooler(y[:, 0])
    return Short(), (models.tokens(),), {}, None


@bug("norm-unused", "ln_f")
def a_final_norm_that_is_forgotten():
    class Bare(models.GPT):
        def forward(self, x):
            x = self.wte(x) + self.wpe(torch.arange(x.shape[1]))
            for block in self.h:
                x, _ = block(x)
            return self.head(x)
    return (Bare(), *models.gpt()[1:3], None)


@bug("norm-unused", "post_norm")
def a_norm_of_llama_that_is_forgotten():
    class Layer(models.LlamaLayer):
        def forward(self, x):
            x = x + self.self_attn(self.input_norm(x))
            return (x + self.mlp(x),)

    def change(model):
        model.layers[1] = Layer()
    return replaced(models.llama(), change)


@bug("norm-shared", "ln_1")
def the_first_norm_twice():
    class Twice(models.Block):
        def forward(self, x, cache=None):
            f, cache = self.attn(self.ln_1(x), cache)
            x = self.add(x, f)
            return self.add(x, self.mlp(self.ln_1(x))), cache
    return (models.GPT(Twice), *models.gpt()[1:])


@bug("norm-shared", "norm")
def one_norm_for_all_layers():
    def change(model):
        norm = models.RMSNorm()
        for layer in model.layers:
            layer.input_norm = norm
    return replaced(models.llama(), change)


@bug("gamma-ignored", "input_norm.weight")
def a_norm_without_its_gamma():
    class NoGamma(models.RMSNorm):
        def forward(self, x):
            return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
    return replaced(models.llama(), lambda m: setattr(m.layers[1], "input_norm", NoGamma()))


@bug("gamma-ignored", "ln_f")
def a_function_without_weights():
    class Plain(nn.LayerNorm):
        def forward(self, x):
            return F.layer_norm(x, x.shape[-1:])
    return replaced(models.gpt(), lambda m: setattr(m, "ln_f", Plain(models.WIDTH)))


@bug("tying-broken", "head")
def a_head_that_is_a_copy():
    return replaced(models.gpt(), lambda m: setattr(
        m.head, "weight", nn.Parameter(m.wte.weight.detach().clone())))


@bug("tying-broken", "lm_head")
def a_head_that_only_the_config_ties():
    class Config:
        tie_word_embeddings = True

    def change(model):
        model.config = Config()
        model.get_input_embeddings = lambda: model.embed_tokens
        model.get_output_embeddings = lambda: model.lm_head
    return replaced(models.llama(), change)


@bug("initial-loss", "loss")
def a_tied_embedding_of_unit_variance():
    return replaced(models.gpt(), lambda m: nn.init.normal_(m.wte.weight))


@bug("initial-loss", "loss")
def a_head_of_large_weights():
    return replaced(models.llama(), lambda m: m.lm_head.weight.data.mul_(20))


@bug("update-ratio", "weights")
def a_learning_rate_of_1():
    batch = models.gpt()
    return (*batch, adamw(batch[0], lr=1.0))


@bug("update-ratio", "weights")
def small_steps_in_bfloat16():
    model = models.MLP().bfloat16()
    return model, (torch.randn(3, 5, models.WIDTH).bfloat16(),), {}, None, adamw(model, lr=1e-5)


@bug("not-in-optimizer", "h.2")
def a_layer_that_the_optimizer_does_not_know():
    batch = models.gpt()
    some = [p for n, p in batch[0].named_parameters() if not n.startswith("h.2")]
    return (*batch, torch.optim.AdamW(some, 1e-3))


@bug("not-in-optimizer", "lm_head")
def a_head_that_came_after_the_optimizer():
    batch = models.llama()
    optimizer = adamw(batch[0])
    batch[0].lm_head = nn.Linear(models.WIDTH, models.VOCABULARY, bias=False)
    return (*batch, optimizer)


@bug("attention-scale", "attn")
def no_scale_in_gpt():
    def change(model):
        for block in model.h:
            block.attn.scaled = lambda scores, width: scores
    return without_loss(replaced(models.gpt(), change))


@bug("attention-scale", "layers.1.self_attn")
def no_scale_in_one_layer_of_llama():
    return replaced(models.llama(), lambda m: setattr(
        m.layers[1].self_attn, "scaled", lambda q: q))


@bug("dropout-on-stream", "h.1")
def dropout_of_the_sum_in_gpt():
    def change(model):
        block = model.h[1]
        block.add = lambda x, f: block.dropout(x + f)
    return replaced(models.gpt(), change)


@bug("dropout-on-stream", "layer")
def dropout_of_the_sum_before_a_norm():
    class Layer(models.BertLayer):
        def forward(self, x, hidden):
            f = self.output(self.value(x) + self.query(x) + self.key(x))
            x = self.norm_1(self.dropout(x + f))
            return self.norm_2(x + self.dropout(self.mlp(x)))

    def change(model):
        model.layer = nn.ModuleList([Layer() for _ in range(2)])
    return replaced(models.bert(), change)


@bug("statistics-detached", "layers.0.post_norm")
def a_mean_square_without_a_gradient():
    class Detached(models.RMSNorm):
        def forward(self, x):
            return self.weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6).detach()
    return replaced(models.llama(), lambda m: setattr(m.layers[0], "post_norm", Detached()))


@bug("statistics-detached", "h.1.ln_1")
def a_deviation_without_a_gradient():
    class DetachedNorm(nn.LayerNorm):
        def forward(self, x):
            with torch.no_grad():
                mean, deviation = x.mean(-1, keepdim=True), x.std(-1, keepdim=True)
            return self.weight * (x - mean) / deviation + self.bias
    return replaced(models.gpt(), lambda m: setattr(m.h[1], "ln_1", DetachedNorm(models.WIDTH)))


@pytest.mark.parametrize("rule, where, plant", BUGS, ids=lambda x: getattr(x, "__name__", x))
def test_names_a_planted_bug(rule, where, plant):
    torch.manual_seed(1)
    model, inputs, named, loss, *optimizer = plant()
    found = defects(check(model, inputs, named, loss, *optimizer)[0])
    assert {f["rule"] for f in found} == {rule}
    assert all(where in f["where"] for f in found), found


def test_every_rule_has_two_planted_bugs():
    counts = {rule: sum(r == rule for r, *_ in BUGS) for rule, *_ in BUGS}
    assert len(counts) == 18 and min(counts.values()) >= 2, counts


def test_notes_weight_decay_on_gains_and_nothing_without_it():
    model, *batch = models.gpt()
    notes = findings(check(model, *batch, adamw(model, weight_decay=0.1))[0])
    assert [f["rule"] for f in notes] == ["decay-on-gain"] and notes[0]["severity"] == "note"
    assert findings(check(model, *batch, adamw(model, weight_decay=0.0))[0]) == []


class DeepInBfloat16(models.GPT):
    """A deep bfloat16 model whose logits are float32."""

    def __init__(self, n_layers=24):
        super().__init__()
        self.h = nn.ModuleList(models.Block() for _ in range(n_layers))
        models.draw(self).to(torch.bfloat16)

    def forward(self, x, past=None, use_cache=False):
        found = super().forward(x, past, use_cache)
        return (found[0].float(), found[1]) if use_cache else found.float()


@pytest.mark.parametrize("seed", range(3))
def test_what_rounding_does_to_a_deep_model_is_no_cache_mismatch(seed):
    torch.manual_seed(seed)
    model, x = DeepInBfloat16(), torch.randint(models.VOCABULARY, (2, 24))
    for begins_again in False, True:
        if begins_again:
            model.positions = lambda past, length: torch.arange(length)
        lines, _ = measure(model, (x,), {})
        line = next(line for line in lines if line["check"] == "cache-mismatch")
        if line["value"] == 0:
            pytest.skip("this PyTorch gives the same bits with a cache and without")
        assert line["value"] > 1e-3  # more than rounding in float32
        assert (line["value"] > line["limit"]) == begins_again


def with_open_signature(model):
    """Wraps forward so that its arguments are not in the signature, as decorators do."""
    forward = model.forward
    model.forward = lambda *inputs, **named: forward(*inputs, **named)
    return model


@pytest.mark.parametrize("begins_again", [False, True])
@pytest.mark.parametrize("form", ["open signature", "padding", "positions", "padding and positions"])
def test_a_cache_is_compared_whatever_else_the_batch_has(form, begins_again):
    class Masked(models.GPT):
        def forward(self, x, past=None, use_cache=False, attention_mask=None, position_ids=None):
            return super().forward(x, past, use_cache)

    torch.manual_seed(0)
    model, x = Masked(), torch.randint(models.VOCABULARY, (2, 12))
    if begins_again:
        model.positions = lambda past, length: torch.arange(length)
    named = {}
    if "padding" in form:
        named["attention_mask"] = (torch.arange(12) < torch.tensor([[12], [9]])).long()
    if "positions" in form:
        named["position_ids"] = torch.arange(12).expand(2, 12)
    if form == "open signature":
        forward = model.forward
        model.forward = lambda x, past_key_values=None, use_cache=False: forward(x, past_key_values, use_cache)
        with_open_signature(model)
    lines, left_out = measure(model, (x,), named)
    found = [line["value"] > line["limit"] for line in lines if line["check"] == "cache-mismatch"]
    assert found == [begins_again], left_out
