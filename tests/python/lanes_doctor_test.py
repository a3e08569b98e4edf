"""addnorm.check on models whose stream has several lanes. The probe's measurements of carry and write equal the model's
coefficients, sound models have no findings, and a bug planted in one sublayer is named there by its rule.

ADDNORM_LONG_TESTS=1, which `make test-all` sets, runs three seeds and plants every bug in every model. `python3
lanes_doctor_test.py` prints the confusion matrix.
"""

import os
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

sys.path.append(str(Path(__file__).parent))
import lane_models as models  # noqa: E402
from planting import judge, one_of_each_bug  # noqa: E402

import addnorm  # noqa: E402
from addnorm.probe import probe  # noqa: E402

torch.set_num_threads(1)
IS_WHOLE = bool(os.environ.get("ADDNORM_LONG_TESTS"))
SEEDS = range(3 if IS_WHOLE else 1)
KINDS = "attention", "feed_forward"
SITES = 1, 4  # the sublayers with planted bugs
MHC = [name for name in models.SOUND if name.startswith("mHC")]


def make(name, seed=0, training=True):
    torch.manual_seed(seed)
    return models.SOUND[name]().train(training)


def check(model, seed=0):
    tokens = models.batch(seed)
    return addnorm.check(model, tokens, loss=models.loss_of(tokens))


def train(model, steps=20):
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    for step in range(steps):
        tokens = models.batch(100 + step)
        optimizer.zero_grad()
        models.loss_of(tokens)(model(tokens)).backward()
        optimizer.step()


def connection(model, site):
    return getattr(model.layers[site // 2], KINDS[site % 2])


def place(site):
    return f"layer {site // 2}, {KINDS[site % 2].replace('_', '-')}"


def mixed(name):
    """Returns a model whose lanes differ from each other, as after long training."""
    model = make(name)
    for parameter in (p for n, p in model.named_parameters() if ".coefficients." in n and ".norm." not in n):
        parameter.data += 0.2 * torch.randn_like(parameter)
    return model


# ---- Measurements ----------------------------------------------------------------------------


def run_with_coefficients(model, tokens):
    """Returns the probe after a run, and the (a, A, b) of each sublayer."""
    used = {}
    for site in range(2 * models.LAYERS):
        def keep(module, inputs, gave, site=site):
            used[site] = [t.detach().double() for t in gave]

        connection(model, site).coefficients.register_forward_hook(keep)
    p = probe(model).run(tokens, loss=models.loss_of(tokens))
    return p, used


@pytest.mark.parametrize("name", models.SOUND)
def test_measures_the_coefficients_that_a_model_uses(name):
    n, tokens = models.N, models.batch()
    p, used = run_with_coefficients(mixed(name), tokens)
    assert p.coverage()["sums"] == [2 * models.LAYERS, 2 * models.LAYERS]
    assert p.header()["n_lanes"] == n and p.header()["d_model"] == models.WIDTH
    for site, (_, carry, write) in used.items():
        lines = [numbers for at, numbers in p.entries.items() if at.point == "sum"
                 and (at.layer, at.sublayer) == (site // 2, KINDS[site % 2])]
        assert len(lines) == n
        carry, write = carry.reshape(-1, n, n).mean(0), write.reshape(-1, n).mean(0)
        for i, line in enumerate(lines):
            assert line["carry_in"] == pytest.approx(carry[i].sum().item(), abs=1e-3)
            assert line["write"] == pytest.approx(write[i].item(), abs=1e-3)
            assert line["carry_out"] == pytest.approx(carry[:, i].sum().item(), abs=1e-3)
            assert line["unexplained"] < 1e-5
            assert line["grad_rms"] > 0


def test_carries_are_seen_before_lanes_differ():
    p, _ = run_with_coefficients(make("mHC"), models.batch())
    first = next(numbers for at, numbers in p.entries.items() if at.point == "sum")
    assert first["coefficients"] == "float32" and first["write_gate"] == pytest.approx(2, abs=1e-4)
    assert p.header()["lane_form"] == "mhc"


class SinkhornRouter(torch.nn.Linear):
    pass


def test_takes_no_router_and_no_attention_for_mhc():
    model = make("hyper-connections, dynamic")
    model.layers[0].mhca, model.layers[0].router = torch.nn.Linear(2, 2), SinkhornRouter(2, 2)
    p, _ = run_with_coefficients(model, models.batch())
    assert p.header()["n_lanes"] == models.N and "lane_form" not in p.header()


# ---- Sound models ----------------------------------------------------------------------------


def assert_sound(report):
    assert [f"{f.name}: {f.seen}" for f in report.findings if f.severity != "note"] == []
    counts = report.coverage.counts
    assert counts["sums"] == (2 * models.LAYERS, 2 * models.LAYERS)
    assert all(measured == seen for measured, seen in counts.values()), report.coverage


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("training", [False, True] if IS_WHOLE else [False])  # a sample with training is below
@pytest.mark.parametrize("name", models.SOUND)
def test_accuses_no_sound_model(name, training, seed):
    assert_sound(check(make(name, seed, training), seed))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", list(models.SOUND)[::1 if IS_WHOLE else 4])
def test_accuses_no_model_that_was_trained(name, seed):
    model = make(name, seed)
    train(model)
    assert_sound(check(model, seed))


@pytest.mark.parametrize("name", MHC)
def test_accuses_no_model_whose_lanes_differ(name):
    assert_sound(check(mixed(name)))


@pytest.mark.parametrize("dtype", [torch.bfloat16] + IS_WHOLE * [torch.float64])
@pytest.mark.parametrize("name", list(models.SOUND)[::1 if IS_WHOLE else 3])
def test_accuses_no_model_of_another_type(name, dtype):
    assert_sound(check(make(name).to(dtype)))


@pytest.mark.parametrize("name", list(models.UNUSUAL)[::1 if IS_WHOLE else 4])
def test_accuses_no_unusual_model(name):
    torch.manual_seed(0)
    model = models.UNUSUAL[name]()
    for _ in range(2):
        report = check(model)
        assert [f"{f.name}: {f.seen}" for f in report.findings if f.severity != "note"] == []
        counts = report.coverage.counts
        assert counts["sums"][0] == counts["sums"][1] >= models.LAYERS
        assert '"n_lanes":4' in report.profile
        train(model, 10)


def test_refuses_parts_of_features():
    torch.manual_seed(0)
    with pytest.raises(addnorm.Error, match="parts of what the layer takes"):
        check(models.parts_of_features())


# ---- Bugs ------------------------------------------------------------------------------------


def with_coefficients(change):
    def plant(model, site):
        coefficients = connection(model, site).coefficients
        plain = coefficients.forward
        coefficients.forward = lambda lanes: change(*plain(lanes))
    return plant


def without_lanes(model, site):
    here = connection(model, site)
    plain = here.write
    here.write = lambda x, carry, b, f: plain(torch.zeros_like(x), carry, b, f)


def folded(model, site):
    layer = model.layers[site // 2]
    plain = layer.forward
    layer.forward = lambda x: model.begin(model.end(plain(x)))


def with_carry(carry):
    def plant(model, site):
        coefficients = connection(model, site).coefficients
        coefficients.carry = lambda res: carry(coefficients, res)
    return plant


def in_16_bits(coefficients, res):
    m = res.bfloat16().unflatten(-1, (models.N, models.N)).softmax(-1)
    for _ in range(20):
        m = m / m.sum(-2, keepdim=True)
        m = m / m.sum(-1, keepdim=True)
    return m.float()


def plain_sigmoid(model, site):
    connection(model, site).coefficients.write = torch.sigmoid


SINKHORN = [name for name in MHC if name != "mHC-lite"]
DIAGONAL = "wide residual"
PACKED = "packed"  # it reads and carries in one product
BUGS = {  # name: (rule, models, the function that plants the bug)
    "carry transposed": ("carry-transposed", [n for n in models.SOUND if n != DIAGONAL],
                         with_coefficients(lambda a, carry, b: (a, carry.transpose(-1, -2), b))),
    "residual missing": ("residual-missing", [n for n in models.SOUND if n != PACKED], without_lanes),
    "carry of zeros": ("residual-missing", list(models.SOUND),
                       with_coefficients(lambda a, carry, b: (a, 0 * carry, b))),
    "branch missing": ("branch-missing", list(models.SOUND),
                       with_coefficients(lambda a, carry, b: (a, carry, 0 * b))),
    "rows alone": ("carry-not-stochastic", SINKHORN,
                   with_carry(lambda c, res: res.unflatten(-1, (models.N, models.N)).softmax(-1))),
    "2σ lost": ("write-scale", MHC, plain_sigmoid),
    "16 bits": ("coefficients-rounded", SINKHORN, with_carry(in_16_bits)),
    "lanes folded": ("lanes-not-kept", list(models.SOUND), folded),
}


def planted():
    """Yields (name, bug, rule, where, a function that makes the report) for all bugs."""
    everything = range(2 * models.LAYERS)
    for bug, (rule, names, plant) in BUGS.items():
        for name in names:
            for site in SITES[:1] if bug == "lanes folded" else SITES:
                where = place(2 * (site // 2 + 1)) if bug == "lanes folded" else place(site)
                yield name, bug, rule, [where], lambda name=name, plant=plant, site=site: with_bug(
                    name, plant, [site])
            if bug in ("rows alone", "2σ lost", "16 bits", "lanes folded"):
                sites = everything[1::2] if bug == "lanes folded" else everything
                yield name, f"{bug} everywhere", rule, ["residual stream"], \
                    lambda name=name, plant=plant, sites=sites: with_bug(name, plant, sites)
    for name in models.SOUND:
        yield name, "lanes alike", "lanes-alike", ["residual stream"], lambda name=name: alike(name)


def with_bug(name, plant, sites):
    model = mixed(name)
    for site in sites:
        plant(model, site)
    return check(model)


def alike(name):
    """Returns the report on lanes that all sublayers read and write with equal weights."""
    model = make(name)
    n = models.N
    for site in range(2 * models.LAYERS):
        connection(model, site).coefficients = Alike(n)
    train(model, 5)
    return check(model)


class Alike(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.read = torch.nn.Parameter(torch.full((n,), 1 / n))
        self.carry, self.write = torch.nn.Parameter(torch.eye(n)), torch.nn.Parameter(torch.ones(n))

    def forward(self, lanes):
        return self.read, self.carry, self.write


LEAST = 0.95


def test_names_planted_bugs():
    confusion = judge(planted() if IS_WHOLE else one_of_each_bug(planted()))
    print(confusion)
    assert confusion.share >= LEAST, str(confusion)


if __name__ == "__main__":
    only = sys.argv[1:]
    print(judge(case for case in planted() if not only or case[0] in only or case[1] in only))
