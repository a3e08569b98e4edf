"""addnorm.check on Transformers of many architectures. Sound ones have no findings, and a bug planted in one place is
named there by its rule.

A sample runs with the other tests: each bug in one model. ADDNORM_LONG_TESTS=1, which `make test-all` sets, runs five
seeds, and every bug in every model. `python3 zoo_test.py` prints the confusion matrix.
"""

import os
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

sys.path.append(str(Path(__file__).parent))
import zoo_models as models  # noqa: E402
from planting import NORMS, SUMS, follow, judge, one_of_each_bug, replace_norm  # noqa: E402

import addnorm  # noqa: E402

torch.set_num_threads(1)
IS_WHOLE = bool(os.environ.get("ADDNORM_LONG_TESTS"))
SEEDS = range(5 if IS_WHOLE else 1)
KINDS = "attention", "feed-forward"
RECIPES = {"DeepNorm": {"placement": "deepnorm"}}  # its factor cannot be inferred otherwise

# ---- Places ----------------------------------------------------------------------------------

# The first layers of stacks, if these are not layers[0].
ENTRIES = {
    "lists": ("layers.0.0",), "inner norms": ("layers.0.0",), "attributes": ("block0",),
    "stages": ("stages.0.0", "stages.1.0"),
    "torch encoder, pre-norm": ("encoder.layers.0",), "torch encoder, post-norm": ("encoder.layers.0",),
    "torch transformer": ("transformer.encoder.layers.0", "transformer.decoder.layers.0"),
}

# The sublayers of a model's sums, as findings name them, if these are not alternating attention and feed-forward.
SUBLAYERS = {
    "macaron": [place for i in range(0, 2 * models.LAYERS, 2) for place in (
        f"layer {i}, feed-forward", f"layer {i + 1}, attention", f"layer {i + 1}, feed-forward")],
    "fused parallel": [f"layer {i}, attention" for i in range(2 * models.LAYERS)],
    "experts": [place for i in range(0, 2 * models.LAYERS, 2) for place in (
        f"layer {i}, attention", f"layer {i}, feed-forward", f"layer {i + 1}, feed-forward")],
    "torch transformer": [f"layer {i}, {kind}" for i in range(3) for kind in KINDS] + [
        place for i in range(3, 9, 2) for place in (
            f"layer {i}, attention", f"layer {i + 1}, attention", f"layer {i + 1}, feed-forward")],
}

# The names of a model's layers in findings about its behaviour.
PATHS = {"attributes": "block{}", "torch encoder, pre-norm": "encoder.layers.{}",
         "torch encoder, post-norm": "encoder.layers.{}", "torch transformer": "transformer",
         "stages": "stages", "shared layer": "layers.0", "macaron": "layers", "experts": "layers",
         "fused parallel": "layers",
         "pairs": "layers", "fused pairs": "layers", "lists": "model", "inner norms": "model"}

# A layer's norms, and the sublayer that each belongs to.
USUAL_NORMS = {"layers.1.ln_1": "layer 1, attention", "layers.2.ln_2": "layer 2, feed-forward"}
ENCODER_NORMS = {"encoder.layers.1.norm1": "layer 1, attention",
                 "encoder.layers.2.norm2": "layer 2, feed-forward"}
LAYERS_NORMS = {
    **{name: USUAL_NORMS for name in (
        "pre-norm", "post-norm", "DeepNorm", "branch norm", "in place", "LayerScale", "stochastic depth",
        "recurrent", "experts", "pairs", "conditioned")},
    "experts": {"layers.1.ln_1": "layer 2, attention", "layers.2.ln_2": "layer 4, feed-forward"},
    "norms in attention": {"layers.1.attn.q_norm": "layer 1, attention, norm of queries",
                           "layers.2.attn.k_norm": "layer 2, attention, norm of keys"},
    "sandwich": {"layers.1.ln_1": "layer 1, attention", "layers.2.post_2": "layer 2, feed-forward"},
    "parallel": {"layers.1.ln_1": "layer 1, "},
    "fused parallel": {"layers.1.norm": "layer 2, "},
    "macaron": {"layers.2.norms.1": "layer 5, attention",
                "layers.1.norms.3": "layer 3, feed-forward"},  # the first sublayer reads a normalized stream
    "lists": {"layers.1.0.0": "layer 1, attention", "layers.2.1.0": "layer 2, feed-forward"},
    "inner norms": {"layers.1.0.norm": "layer 1, attention", "layers.2.1.net.0": "layer 2, feed-forward"},
    "attributes": {"block1.ln_1": "layer 1, attention", "block2.ln_2": "layer 2, feed-forward"},
    "stages": {"stages.0.1.ln_1": "layer 1, attention", "stages.1.0.ln_2": "layer 2, feed-forward"},
    "torch encoder, pre-norm": ENCODER_NORMS, "torch encoder, post-norm": ENCODER_NORMS,
    "torch transformer": {"transformer.decoder.layers.1.norm2": "layer 6, attention"},
}

# Bugs that cannot be detected in a model, with the reason.
NO_STREAM_TO_ADD = "the sublayer reads the stream, or a condition's function of its norm"
ONE_ROW_OF_GAIN = "the norm has no γ"
OWN = "norms in attention may be of their own kind"
WRITTEN_OUT = "its factor is part of a dropout that is written out"
NO_LAYER = "the sum is in no layer"
NOT_THE_INPUT = "what is added is no layer's input, but made of it"
NOT_THERE = {
    "branch twice": {"stochastic depth": WRITTEN_OUT},
    "dropout on stream": {"lists": NO_LAYER, "inner norms": NO_LAYER, "attributes": NO_LAYER,
                          **dict.fromkeys(("DeepNorm", "learned residual"), NOT_THE_INPUT)},
    "residual detached": {"fused pairs": "what reads the stream takes two values, and is not asked for its "
                                         "gradient"},
    "norm over stream": {"learned residual": NOT_THE_INPUT, **dict.fromkeys(
        ("post-norm", "DeepNorm", "branch norm", "ReZero", "conditioned", "parallel", "torch encoder, post-norm"),
        NO_STREAM_TO_ADD)},
    "γ read as 1 + γ": {"conditioned": ONE_ROW_OF_GAIN, "norms in attention": OWN},
    **dict.fromkeys(("other kind of norm", "ε outside the root", "ε of another size"), {"norms in attention": OWN}),
    "γ ignored": {"conditioned": ONE_ROW_OF_GAIN},
}


NOT_THERE_AT = {("torch encoder, post-norm", "residual detached", 2): "attention reads the stream itself"}
SITES = {"macaron": (4, 8)}  # elsewhere a layer's input is normalized, so that x and its norm are equal


def sublayers(name):
    usual = [f"layer {i}, {kind}" for i in range(models.LAYERS) for kind in KINDS]
    return SUBLAYERS.get(name, usual)


def make(name, seed=0, training=True):
    torch.manual_seed(seed)
    return models.SOUND[name]().train(training)


def check(name, model, seed=0):
    tokens = models.batch(seed)
    return addnorm.check(model, tokens, loss=models.loss_of(name, tokens), recipe=RECIPES.get(name))


def train(name, model, steps=20):
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    for step in range(steps):
        tokens = models.batch(100 + step)
        optimizer.zero_grad()
        models.loss_of(name, tokens)(model(tokens)).backward()
        optimizer.step()


# ---- Sound models ----------------------------------------------------------------------------


def assert_sound(report):
    assert [f"{f.name}: {f.seen}" for f in report.findings if f.severity != "note"] == []
    counts = report.coverage.counts
    assert counts["sums"][1] > 0
    assert all(measured == seen for measured, seen in counts.values()), report.coverage


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("training", [False, True] if IS_WHOLE else [False])  # a sample with training is below
@pytest.mark.parametrize("name", models.SOUND)
def test_accuses_no_sound_model(name, training, seed):
    assert_sound(check(name, make(name, seed, training), seed))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", list(models.SOUND)[::1 if IS_WHOLE else 4])
def test_accuses_no_model_that_was_trained(name, seed):
    model = make(name, seed)
    train(name, model)
    assert_sound(check(name, model, seed))


# ---- Bugs ------------------------------------------------------------------------------------


def to_break(name):
    """Returns a model whose branches are not initially 0, because zeros would hide faults in them."""
    model = make(name)
    if name in ("ReZero", "speedrun"):
        for parameter in model.parameters():
            if not parameter.any():
                torch.nn.init.normal_(parameter, 0, 0.1)
    return model


def entries(name, model):
    return [model.get_submodule(path) for path in ENTRIES.get(name, ("layers.0",))]


def with_sum(name, bug, sites):
    model = to_break(name)
    follow(model, entries(name, model), SUMS[bug][1], sites)
    return check(name, model)


def with_norm(name, bug, path):
    model = to_break(name)
    replace_norm(model, path, NORMS[bug][1])
    return check(name, model)


def without_final_norm(name):
    model = to_break(name)
    model.norm = torch.nn.Identity()
    return check(name, model)


def planted():
    """Yields (name, bug, rule, where, a function that makes the report) for all bugs."""
    for name in models.SOUND:
        places = sublayers(name)
        for bug, (rule, _) in SUMS.items():
            if name in NOT_THERE.get(bug, ()):
                continue
            for site in SITES.get(name, (len(places) // 4, len(places) * 3 // 4 - 1)):
                if (name, bug, site) in NOT_THERE_AT:
                    continue
                where = [places[site], PATHS.get(name, "layers.{}").format(site // 2)]
                yield name, bug, rule, where, lambda name=name, bug=bug, site=site: with_sum(
                    name, bug, range(site, site + 1))
            if bug == "residual missing":
                yield (name, "every residual missing", rule, places,
                       lambda name=name, n=len(places): with_sum(name, "residual missing", range(n)))
        for path, where in LAYERS_NORMS.get(name, {}).items():
            for bug, (rule, _) in NORMS.items():
                if name not in NOT_THERE.get(bug, ()):
                    yield name, bug, rule, [where, path], lambda name=name, bug=bug, path=path: with_norm(
                        name, bug, path)
        if name in USUAL_FINAL_NORM:
            yield name, "final norm missing", "final-norm", ["final norm"], \
                lambda name=name: without_final_norm(name)


USUAL_FINAL_NORM = [name for name in LAYERS_NORMS if name not in (
    "post-norm", "DeepNorm", "macaron", "stages", "torch transformer") and not name.startswith("torch")]


LEAST = 0.98 if IS_WHOLE else 1  # the sample has one case of each bug


def test_names_planted_bugs():
    confusion = judge(planted() if IS_WHOLE else one_of_each_bug(planted()))
    print(confusion)
    assert confusion.share >= LEAST, str(confusion)


if __name__ == "__main__":
    only = sys.argv[1:]
    print(judge(case for case in planted() if not only or case[0] in only or case[1] in only))
