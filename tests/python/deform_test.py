"""The operators of DEForm on transformers' models: each changes what it says, and the doctor accuses no sound model.

ADDNORM_LONG_TESTS=1 runs every case of the benchmark, which takes an hour; else one case of each operator runs.
"""

import copy
import functools
import os
import pathlib
import re

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers", minversion="5.0")
from deform import benchmark, page, scores  # noqa: E402
from deform.models import FAMILIES, optimizer_of  # noqa: E402
from deform.operators import OPERATORS, NotApplicable, apply  # noqa: E402
from deform.parts import parts_of  # noqa: E402

torch.set_num_threads(1)
IS_LONG = "ADDNORM_LONG_TESTS" in os.environ
# These change how numbers are computed, or what stands outside the model, but no number of it.
UNSEEN = {"KSB", "KFT", "KMC", "RGC"}
IN_TRAINING = {"SPD", "KMD", "RDR", "CLK"}
CACHED = {code for code, operator in OPERATORS.items() if operator.category == "kv_cache"}
each = pytest.mark.parametrize("code", OPERATORS)


@functools.lru_cache(maxsize=None)
def _sound(name):
    return FAMILIES[name].fresh()


def sound(family):
    """A fresh model; a copy of one that was built before."""
    return copy.deepcopy(_sound(family.name))


def family_for(code):
    return FAMILIES["GPT-2" if OPERATORS[code].fits("decoder") and code != "ESS" else "BERT"]


def damaged(code, family, value, layer=None):
    """A damaged model with its optimizer and batch."""
    model, batch = sound(family), family.batch()
    optimizer = optimizer_of(model)
    apply(OPERATORS[code], model, family, value, layer, optimizer, batch)
    return model, optimizer, batch


def output_of(model, batch, training, parts=1):
    """Logits after seeds of its own; with two parts, of the second half behind a cache of the first."""
    torch.manual_seed(2)
    model.train(training)
    with torch.no_grad():
        if parts == 1:
            return model(**batch).logits
        ids, cache = batch["input_ids"], None
        for half in ids[:, :ids.shape[1] // 2], ids[:, ids.shape[1] // 2:]:
            output = model(half, cache=cache, use_cache=True)
            cache = output.cache
        return output.logits


def numbers_of(model, optimizer, batch, code):
    """All that an operator may change: outputs, parameters, what is trained, and the optimizer's groups."""
    found = [output_of(model, batch, False)] + [output_of(model, batch, True) for _ in IN_TRAINING & {code}]
    if code in CACHED:
        found += [output_of(model, batch, False, parts=2)]
    found += [p.detach() for p in model.parameters()] + [torch.tensor([p.requires_grad for p in model.parameters()])]
    decays = {id(p): group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}
    return found + [torch.tensor([decays[id(p)] for p in model.parameters()])]


@each
def test_it_changes_a_number_or_is_known_not_to(code):
    family = family_for(code)
    twin = sound(family)
    expected = numbers_of(twin, optimizer_of(twin), family.batch(), code)
    changed = 0
    for value in OPERATORS[code].values if IS_LONG else OPERATORS[code].values[-1:]:
        try:
            seen = numbers_of(*damaged(code, family, value), code)
        except NotApplicable:
            continue
        changed += any(not torch.allclose(a, b, rtol=1e-5, atol=1e-6) for a, b in zip(seen, expected))
    assert bool(changed) == (code not in UNSEEN)


@pytest.mark.parametrize("code", [code for code, operator in OPERATORS.items() if operator.in_layers])
def test_in_one_layer_it_leaves_the_other_layers_weights(code):
    operator, family = OPERATORS[code], family_for(code)
    model, _, _ = damaged(code, family, operator.values[-1], layer=1)
    layers = zip(parts_of(model, family).layers, parts_of(sound(family), family).layers)
    for i, (layer, twin) in enumerate(layers):
        pairs = [(a, b) for one, other in ((layer.up, twin.up), (layer.query, twin.query))
                 for a, b in zip(one.tensors, other.tensors)]
        pairs += [(a.weight, b.weight) for a, b in zip(layer.norms, twin.norms)]
        assert i == 1 or all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("name", FAMILIES)
def test_plain_attention_computes_what_transformers_computes(name):
    family = FAMILIES[name]
    model, _, batch = damaged("KSB", family, None)
    for padded in (True, False):
        batch = family.batch(padded)
        torch.testing.assert_close(output_of(model, batch, False), output_of(sound(family), batch, False),
                                   rtol=1e-4, atol=1e-5)
    if family.kind == "decoder":
        torch.testing.assert_close(output_of(model, batch, False, parts=2),
                                   output_of(sound(family), batch, False, parts=2), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_damaged_sum_without_damage_is_the_models_own(name):
    family = FAMILIES[name]
    model = sound(family)
    for layer in parts_of(model, family).layers:
        layer.damage_sums(lambda x: x)
    torch.testing.assert_close(output_of(model, family.batch(), True), output_of(sound(family), family.batch(), True))


def test_the_catalog_is_the_papers():
    assert len(OPERATORS) == 52
    assert len({(o.category, o.cause) for o in OPERATORS.values()}) == 45
    assert {o.category for o in OPERATORS.values()} == set(scores.PAPER_COUNTS["decoder"])
    for operator in OPERATORS.values():
        assert operator.sentence.endswith(".")
        always = all(operator.scope_of(v).value == "yes" for v in operator.values)
        assert always or operator.why
        never = all(operator.scope_of(v).value == "no" for v in operator.values)
        assert never or operator.sight


def test_the_benchmark_accuses_no_sound_model(tmp_path):
    models = set() if IS_LONG else {"BERT", "GPT-2"}
    lines = benchmark.run_all(tmp_path / "results.jsonl", tmp_path / "weights", models, is_sample=not IS_LONG)
    judged = scores.Judged(lines)
    assert judged.failed == [] and judged.accused == []
    assert {line["operator"] for line in lines if line["what"] == "damaged"} == set(OPERATORS)
    assert judged.score_of(in_scope=True).recall > LEAST_RECALL
    assert re.search(r"^\| OOD \|", page.text(judged, len(lines)), re.M)


LEAST_RECALL = 0.2
PAGE = pathlib.Path(__file__).parents[2] / "docs" / "doctor-bench.md"


def test_the_page_has_every_operator():
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"| {code} |" in text and operator.sentence in text for code, operator in OPERATORS.items())
