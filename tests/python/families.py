#!/usr/bin/env python3
"""Runs addnorm.check on every text family of `transformers`, made small and with random weights; and on bugs planted in
ten of them. Needs PyTorch 2.6 or newer, transformers from PyPI, and addnorm for this Python.

    python3 tests/python/families.py sound results.jsonl [--seeds 5] [--only gpt2,llama]
    python3 tests/python/families.py bugs results.jsonl
    python3 tests/python/families.py page results.jsonl > docs/doctor-zoo.md

Exits with 1 if a sound model has findings without a reason in DEFENDED, or if fewer than 98 % of the bugs are named by
their rule at their place. Results are added line by line; those already in the file are not run again.
"""

import argparse
import inspect
import json
import os
import re
import signal
import sys
import warnings
from collections import Counter
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
warnings.simplefilter("ignore")

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
import transformers  # noqa: E402
from transformers.models.auto import modeling_auto as auto  # noqa: E402

sys.path.append(str(Path(__file__).parent))
from planting import NORMS, SUMS, Confusion, Verdict, everywhere, follow, norms_of, replace_norm  # noqa: E402

import addnorm  # noqa: E402

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()
MAPPINGS = {"causal": auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, "masked": auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
            "seq2seq": auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES}
MOST_PARAMETERS, MOST_SECONDS = 30e6, 120

# Sizes, by their names in configurations. A family for which they are invalid keeps some of its own.
SIZES = dict(
    vocab_size=96, hidden_size=64, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
    intermediate_size=128, head_dim=16, n_embd=64, n_layer=3, n_layers=3, n_head=4, n_heads=4, n_inner=128,
    d_model=64, d_ff=128, d_kv=16, num_layers=3, num_decoder_layers=3, num_heads=4, encoder_layers=3,
    decoder_layers=3, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=128,
    decoder_ffn_dim=128, ffn_dim=128, word_embed_proj_dim=64, dim=64, hidden_dim=128, embedding_size=64,
    max_position_embeddings=64, n_positions=64, n_ctx=64, num_experts=4, num_local_experts=4,
    num_experts_per_tok=2, n_routed_experts=4, moe_intermediate_size=32, shared_expert_intermediate_size=32,
    kv_lora_rank=16, q_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=16,
    first_k_dense_replace=1, n_group=1, topk_group=1, state_size=8, expand=2, time_step_rank=4,
    num_hidden_groups=1, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    attention_window=8, block_size=8, dropout=0.0, ffn_hidden_size=128, kv_channels=16,
    multi_query_group_num=2, rotary_dim=8, embed_dim=64, hidden_size_per_layer_input=0,
    vocab_size_per_layer_input=96, num_global_layers=1, rotary_emb_base=1e4, n_shared_experts=1,
    moe_num_experts=4, moe_k=2, num_attention_groups=2, inner_dim=128, d_embed=64, d_inner=128, d_head=16,
    cutoffs=[], num_conv_layers=1, swa_num_attention_heads=4, mamba_d_state=8, mamba_n_heads=8,
    mamba_d_head=16, mamba_n_groups=1, linear_num_key_heads=2, linear_num_value_heads=4,
    linear_key_head_dim=16, linear_value_head_dim=16, mlp_dim=128, ffn_embed_dim=128, emb_dim=64,
    num_global_tokens=4, dim_model_base=64, is_decoder=False)
# With queries and keys of width 16, its 4 lanes of 64 features would look like 16 heads.
SIZES_OF = {"deepseek_v4": dict(q_lora_rank=32, head_dim=32)}
LEFT_OUT = [(), ("head_dim",), ("head_dim", "num_key_value_heads"), ("num_key_value_heads",),
            ("head_dim", "intermediate_size", "expand", "mamba_d_head", "mamba_n_heads"),
            set(SIZES) - {"vocab_size", "num_hidden_layers", "n_layer", "hidden_size", "d_model",
                          "pad_token_id", "bos_token_id", "eos_token_id"}]

# Correct findings in sound models, by family and rule, with what the model does there.
DEFENDED: dict[tuple[str, str], str] = {
    ("bigbird_pegasus", "tying-broken"): "its configuration ties head and embedding, and the model has two "
                                         "parameters with other values",
    ("cpmant", "gradient-explodes"): "its weights are drawn from N(0, 1)",
    ("cpmant", "initial-loss"): "its weights are drawn from N(0, 1)",
    ("mt5", "initial-loss"): "its head is tied to embeddings of N(0, 1), and nothing scales down what it reads",
    ("fsmt", "future-leak"): "with a cache, which is the default, its decoder masks nothing",
    ("mamba", "cache-mismatch"): "behind a cache it can read one token at a time, and no more",
    ("falcon_mamba", "cache-mismatch"): "behind a cache it can read one token at a time, and no more",
    ("nemotron", "gamma-form"): "its norms multiply with 1 + γ, and its γ begin at 1: gains of 2",
    ("deepseek_v4", "gradient-zero"): "its table of experts by token is 0 until weights are loaded: it chooses the "
                                      "first expert twice, with weights of 1/2",
    ("xlstm", "idle-sublayer"): "its feed-forward gives 0, and no gradient reaches its weights",
    ("mra", "gradient-zero"): "its attention needs a CUDA kernel; without one it gives zeros",
    ("mra", "norm-over-stream"): "its attention needs a CUDA kernel; without one it gives zeros",
}

class TooSlow(Exception):
    pass


def too_slow(*_):
    raise TooSlow(f"took more than {MOST_SECONDS} s")


def build(kind, name, seed, **sizes):
    """Returns a model that runs, and its batch; `sizes` override SIZES."""
    class_ = getattr(transformers, name)
    of_configuration = class_.config_class
    known = set(inspect.signature(of_configuration.__init__).parameters) | set(vars(of_configuration()))
    known |= set(getattr(of_configuration, "__dataclass_fields__", ()))
    for left_out in LEFT_OUT:
        try:
            config = of_configuration(**{k: v for k, v in {**SIZES, **sizes}.items()
                                         if k in known - set(left_out)})
            for key in {"is_decoder", "causal"} & known if kind == "causal" else ():
                setattr(config, key, True)
            with torch.device("meta"):
                size = sum(p.numel() for p in class_._from_config(config).parameters())
            if size > MOST_PARAMETERS:
                raise ValueError(f"has {size / 1e6:.0f} million parameters at the smallest size tried")
            torch.manual_seed(seed)
            model = class_(config)
            batch = batch_of(kind, seed)
            try:
                with torch.no_grad():
                    model(**batch)
            except TypeError:
                batch.pop("use_cache", None)
                model(**batch)
            return model, batch
        except TooSlow:
            raise
        except Exception as error:
            if left_out is LEFT_OUT[-1] or "million parameters" in str(error):
                raise


def batch_of(kind, seed):
    generator = torch.Generator().manual_seed(seed)
    batch = {"input_ids": torch.randint(3, 90, (2, 32), generator=generator)}
    if kind == "causal":
        batch["use_cache"] = False
    if kind == "seq2seq":
        batch["decoder_input_ids"] = torch.randint(3, 90, (2, 24), generator=generator)
    return batch


def loss_of(kind, batch):
    """The loss of the next token or, if tokens attend in both directions, of the same token."""
    labels = batch.get("decoder_input_ids", batch["input_ids"])

    def loss(output):
        logits = output.logits.float()
        if kind == "masked":
            return F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())

    return loss


def train(model, kind, steps=20):
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    for step in range(steps):
        batch = {**batch_of(kind, 100 + step)}
        if "use_cache" not in inspect.signature(model.forward).parameters:
            batch.pop("use_cache", None)
        optimizer.zero_grad()
        loss_of(kind, batch)(model(**batch)).backward()
        optimizer.step()


def line_of(report):
    return {"findings": [[f.severity, f.rule, f.where, f.seen[:160]] for f in report.findings],
            "coverage": report.coverage.counts, "left_out": report.coverage.left_out}


# ---- Sound models ----------------------------------------------------------------------------


def families():
    """Yields (kind, model_type, class), each class once."""
    seen = set()
    for kind, mapping in MAPPINGS.items():
        for family, names in mapping.items():
            name = names[0] if isinstance(names, tuple) else names
            if name not in seen:
                seen.add(name)
                yield kind, _own_family(name) or family, name


def _own_family(name):
    """Returns the family that a class is defined in, if several share it."""
    return getattr(getattr(getattr(transformers, name, None), "config_class", None), "model_type", None)


def run_sound(kind, family, name, state, seed):
    line = {"what": "sound", "kind": kind, "family": family, "class": name, "state": state, "seed": seed}
    signal.alarm(MOST_SECONDS)
    try:
        try:
            model, batch = build(kind, name, seed, **SIZES_OF.get(family, {}))
            model.train(state != "eval")
            if state == "trained":
                train(model, kind)
        except Exception as error:
            return {**line, "unbuilt": f"{type(error).__name__}: {error}"[:200]}
        return {**line, **line_of(addnorm.check(model, batch, loss=loss_of(kind, batch)))}
    except Exception as error:
        what = "unbuilt" if "TooSlow" in f"{type(error).__name__}: {error}" else "error"
        return {**line, what: f"{type(error).__name__}: {error}"[:300]}
    finally:
        signal.alarm(0)


# ---- Bugs ------------------------------------------------------------------------------------

# Ten architectures: family, kind, class, the first layer, the path of the layers, and the owners of each layer's norms,
# in the order of the norms.
BOTH = "attention", "feed-forward"
ARCHITECTURES = [
    ("gpt2", "causal", "GPT2LMHeadModel", "transformer.h", BOTH),
    ("llama", "causal", "LlamaForCausalLM", "model.layers", BOTH),
    ("mistral", "causal", "MistralForCausalLM", "model.layers", BOTH),
    ("qwen3", "causal", "Qwen3ForCausalLM", "model.layers", BOTH),
    ("gemma2", "causal", "Gemma2ForCausalLM", "model.layers",
     ("attention", "attention", "feed-forward", "feed-forward")),
    ("olmo2", "causal", "Olmo2ForCausalLM", "model.layers", BOTH),
    ("opt", "causal", "OPTForCausalLM", "model.decoder.layers", BOTH),
    ("bert", "masked", "BertForMaskedLM", "bert.encoder.layer", BOTH),
    ("t5", "seq2seq", "T5ForConditionalGeneration", "encoder.block", BOTH),
    ("gpt_neox", "causal", "GPTNeoXForCausalLM", "gpt_neox.layers", BOTH),
]

# The deviation of weights, about 1/√width. With smaller rows, ε would hide what a norm does; larger rows would hide ε.
SPREAD = 0.1
SPREAD_FOR = {"ε outside the root": 0.02}

# Bugs that cannot be detected there, with the reason.
TINY = "ε is too small beside the rows to be seen in float32"
POST_NORM = "the sublayer reads the stream itself"
NOT_THERE = {
    ("bert", "norm over stream"): POST_NORM, ("olmo2", "norm over stream"): POST_NORM,
    ("gpt_neox", "norm over stream"): "two norms read the stream, and the sums are one",
    ("bert", "ε outside the root"): TINY, ("t5", "ε outside the root"): TINY,
}


def planted():
    """Yields (family, bug, rule, where, a function that makes the model)."""
    for family, kind, name, path, belong in ARCHITECTURES:
        for bug, (rule, make) in SUMS.items():
            if (family, bug) in NOT_THERE:
                continue
            for site in (1, 2):  # layer 0's feed-forward, and layer 1's attention
                where = [f"layer {site // 2}, {BOTH[site % 2]}", f"{path}.{site // 2}"]
                if family == "gpt_neox":  # its layers have one sum each
                    where = [f"layer {site}, ", f"{path}.{site}"]
                yield family, kind, name, bug, rule, where, lambda model, make=make, site=site, path=path: follow(
                    model, [model.get_submodule(f"{path}.0")], make, range(site, site + 1))
        every = [f"layer {i}, {sublayer}" for i in range(3) for sublayer in BOTH]
        if kind == "seq2seq":  # its places are named by modules
            every = [f"{path}.{i}." for i in range(3)]
        yield family, kind, name, "every residual missing", "residual-missing", every, \
            lambda model, path=path: follow(model, [model.get_submodule(f"{path}.0")],
                                            SUMS["residual missing"][1], range(6))
        for bug, (rule, what) in NORMS.items():
            if (family, bug) in NOT_THERE:
                continue
            for i in (0, len(belong) - 1):
                def plant(model, what=what, i=i, path=path):
                    layer = model.get_submodule(f"{path}.1")
                    found = norms_of(layer, 64)
                    replace_norm(model, f"{path}.1.{found[i]}", what)
                yield family, kind, name, bug, rule, [f"layer 1, {belong[i]}", f"{path}.1."], plant


def run_bug(family, kind, name, bug, rule, where, plant):
    line = {"what": "bug", "family": family, "bug": bug, "rule": rule, "where": where}
    signal.alarm(MOST_SECONDS)
    try:
        model, batch = build(kind, name, 0, initializer_range=SPREAD_FOR.get(bug, SPREAD))
        plant(model.train())
        return {**line, **line_of(addnorm.check(model, batch, loss=loss_of(kind, batch)))}
    except Exception as error:
        return {**line, "error": f"{type(error).__name__}: {error}"[:300], "findings": []}
    finally:
        signal.alarm(0)


STATES = {"train": "in training", "eval": "in evaluation", "trained": "after 20 steps of training"}


# ---- The page --------------------------------------------------------------------------------


def undefended(line):
    return [f for f in line.get("findings", ()) if f[0] != "note" and (line["family"], f[1]) not in DEFENDED]


class Said:
    """A finding of a line, with the attributes that Verdict reads."""

    def __init__(self, severity, rule, where, seen):
        self.severity, self.rule, self.where, self.seen, self.name = severity, rule, where, seen, f"{rule}@{where}"


class SaidAll:
    def __init__(self, line):
        self.findings = [Said(*f) for f in line["findings"]]


def confusion_of(lines):
    confusion = Confusion()
    for n in lines:
        if n["what"] == "bug":
            confusion.add(n["bug"], Verdict(f"{n['bug']} in {n['family']}", n["rule"], n["where"],
                                            everywhere(n["bug"]), SaidAll(n)))
    return confusion


def page(lines):
    sound = [n for n in lines if n["what"] == "sound"]
    run = [n for n in sound if "findings" in n]
    unbuilt = sorted({(n["family"], n["unbuilt"]) for n in sound if "unbuilt" in n})
    refused = sorted({(n["family"], n["error"]) for n in sound if "error" in n})
    accused = [n for n in run if undefended(n)]
    counts = {what: [sum(n["coverage"].get(what, (0, 0))[i] for n in run) for i in (0, 1)]
              for what in ("sums", "norms", "attentions")}
    confusion = confusion_of(lines)
    families_run = sorted({n["family"] for n in run})
    states = ", ".join(f"{count} {STATES[state]}" for state, count in Counter(n["state"] for n in run).items())
    too_large = sorted(family for family, why in unbuilt if "million parameters" in why)
    others = [(family, why) for family, why in [*refused, *unbuilt] if family not in too_large]
    text = [
        "# Families of transformers", "",
        "<!-- Made by tests/python/families.py page; do not edit. -->", "",
        f"`addnorm.check` on the text families of `transformers` {transformers.__version__} (PyTorch "
        f"{torch.__version__.split('+')[0]}), each of a small configuration with random weights.", "",
        "| | |", "|---|---|",
        f"| classes of models | {len({n['class'] for n in run})}, of {len(families_run)} families |",
        f"| runs | {len(run)}: {states} |",
        f"| runs with a finding that is no note and has no reason below | {len(accused)} |",
        *[f"| {what} measured | {m:,} of {n:,} |" for what, (m, n) in counts.items()], "",
        "## Findings in sound models that are right", "",
        *([f"- {family}, {rule}: {why}" for (family, rule), why in DEFENDED.items()] or ["None."]), "",
        "## Findings that are not", "",
        *([f"- {family}: {rule} ({count})" for (family, rule), count in sorted(Counter(
            (n["family"], f[1]) for n in accused for f in {g[1]: g for g in undefended(n)}.values()).items())]
          or ["None."]), "",
        "## Planted bugs", "",
        f"{100 * confusion.share:.1f} % of {len(confusion.all)} bugs in {len(ARCHITECTURES)} architectures ("
        f"{', '.join(a[0] for a in ARCHITECTURES)}) are named by their rule in their layer and sublayer. "
        "The last column is what was said instead.", "",
        confusion.table(), "",
        "## What was not run", "",
        *([f"- more than {MOST_PARAMETERS / 1e6:.0f} million parameters at the smallest size that was tried: "
           f"{', '.join(too_large)}"] if too_large else []),
        *[f"- {family}: {_plain(why)}" for family, why in others], "",
        "## Families", "", ", ".join(families_run), ""]
    return "\n".join(text)


def _plain(error):
    return re.sub(r"\s+", " ", error).replace("<", "&lt;")[:140]


# ---- Running ---------------------------------------------------------------------------------


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["sound", "bugs", "page"])
    parser.add_argument("file")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--states", default="train,eval,trained")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    signal.signal(signal.SIGALRM, too_slow)
    file = Path(options.file)
    lines = [json.loads(text) for text in file.read_text().splitlines()] if file.exists() else []
    only = set(filter(None, options.only.split(",")))
    if options.what == "page":
        print(page(lines), end="")
        return 0
    done = {key(line) for line in lines}
    jobs = sound_jobs(options, only) if options.what == "sound" else bug_jobs(only)
    with file.open("a") as out:
        for job in jobs:
            if job[0] in done:
                continue
            lines.append(job[1]())
            out.write(json.dumps(lines[-1]) + "\n")
            out.flush()
    if options.what == "bugs":
        confusion = confusion_of(lines)
        print(confusion)
        return int(confusion.share < 0.98)
    accused = [line for line in lines if line["what"] == "sound" and (
        undefended(line) or "error" in line)]
    for line in accused:
        print(line["family"], line["class"], line["state"], line["seed"], undefended(line), line.get("error", ""))
    return int(bool(accused))


def key(line):
    names = ("class", "state", "seed") if line["what"] == "sound" else ("family", "bug", "where")
    return (line["what"], *(str(line[name]) for name in names))


def sound_jobs(options, only):
    for seed in range(options.seeds):
        for state in options.states.split(","):
            for kind, family, name in families():
                if not only or family in only:
                    yield ("sound", name, state, str(seed)), \
                        lambda kind=kind, family=family, name=name, state=state, seed=seed: run_sound(
                            kind, family, name, state, seed)


def bug_jobs(only):
    for family, kind, name, bug, rule, where, plant in planted():
        if not only or family in only:
            yield ("bug", family, bug, str(where)), \
                lambda a=(family, kind, name, bug, rule, where, plant): run_bug(*a)


if __name__ == "__main__":
    sys.exit(main())
