"""addnorm.torch.Stack computes what the library computes, for every arrangement."""

import copy
import json
import pathlib
import pickle
import subprocess
import sys
import types
import unittest.mock

import addnorm
import pytest

torch = pytest.importorskip("torch")
from addnorm import torch as at  # noqa: E402
from addnorm.torch import Stack  # noqa: E402
from stack_cases import (DISTRIBUTED, EPSILON, Decoder, Turned, gradients, library_names, randomize,  # noqa: E402
                         replicate_in_process, run_in_library, small_stack, turned_stack)

NAMES = at.Stack.placements()
MIXED = ["post/pre", "post:1+pre", "sandwich/reordered", "hyper/mhc", "altup:1+wide", "dense-former:1+mudd",
         "none/rezero", "x0:2+backout", "pre:1+dense-former", "post:1+attention-residuals"]
TOLERANCE = 1e-11  # in float64, relative to the largest value


def relative_error(actual, expected, least=0.0):
    """Returns the largest difference, relative to the largest expected value, or to `least` if that is larger."""
    expected = torch.tensor(expected, dtype=torch.float64)
    assert actual.numel() == expected.numel()
    largest = max(float(expected.abs().max()), least)
    return float((actual.detach().flatten() - expected).abs().max()) / (largest if largest > 0 else 1)


def case_of(stack, placement, layers, d_model, norm, rows):
    """Returns a case of stack_values.cc with the stack's parameters, and its x and dy."""
    x, dy = (torch.randn(rows, d_model, dtype=torch.float64) for _ in range(2))
    names = library_names(stack)
    values = {names[name]: p.flatten().tolist() for name, p in stack.named_parameters() if name in names}
    return {"placement": placement, "layers": layers, "lanes": 0, "d_model": d_model, "norm": norm, "epsilon": EPSILON,
            "rows": rows, "x": x.flatten().tolist(), "dy": dy.flatten().tolist(), "values": values}, x, dy


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("placement", NAMES + MIXED)
def test_values_and_gradients_are_the_librarys(placement, seed):
    torch.manual_seed(seed)
    layers, d_model, norm = 3 + seed, 12, ("rms", "layer")[seed % 2]
    stack = turned_stack(placement, layers, d_model, norm, dtype=torch.float64).double().eval()
    initial = {name: p.detach().clone() for name, p in stack.named_parameters()}
    randomize(stack)
    case, x, dy = case_of(stack, placement, layers, d_model, norm, 5)
    expected, = run_in_library([case])

    names = library_names(stack)
    assert set(names.values()) == set(expected["gradients"]) and len(names) == len(list(stack.parameters()))
    for name, value in initial.items():  # the hidden layer's weights are random
        if name.endswith("hidden") or "gate.weight" in name:
            continue
        assert relative_error(value, expected["initial"][names[name]]) < 1e-15, name

    x.requires_grad_()
    y = stack(x)
    y.backward(dy)
    errors = {"y": relative_error(y, expected["y"]), "dx": relative_error(x.grad, expected["dx"])}
    # In the first sublayer all lanes are equal, so the gradients of a doubly stochastic A are rounding errors of 0.
    least = 1e-4 * max(abs(g) for gradient in [[0], *expected["gradients"].values()] for g in gradient)
    for name, parameter in stack.named_parameters():
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        errors[name] = relative_error(gradient, expected["gradients"][names[name]], least)
    assert max(errors.values()) < TOLERANCE, max(errors.items(), key=lambda item: item[1])


GOLDEN = sorted((pathlib.Path(__file__).parents[1] / "golden" / "lanes").glob("*.json"))


@pytest.mark.parametrize("file", GOLDEN, ids=lambda file: file.stem)
def test_values_and_gradients_are_those_of_published_code(file):
    """The files are from public implementations: tests/golden/generate_lanes.py. They have 13 digits."""
    golden = json.loads(file.read_text())
    lanes, rows, d_model = (golden[name] for name in ("lanes", "rows", "d_model"))
    stack = turned_stack(golden["placement"], golden["layers"], d_model, golden["norm"], epsilon=1e-6,
                         dtype=torch.float64, lanes=lanes if lanes > 1 else None)
    names = library_names(stack)
    parameters = {names[name]: parameter for name, parameter in stack.named_parameters()}
    for name, values in golden["initial"].items():
        assert relative_error(parameters[name], values) < 1e-7, name  # some implementations store them in float32
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(torch.tensor(golden["values"][name], dtype=torch.float64).view_as(parameter))
    assert len(parameters) == len(golden["values"])

    xs = [torch.tensor(lane, dtype=torch.float64).view(rows, d_model).requires_grad_() for lane in golden["x"]]
    stream = stack.enter(xs[0]) if len(xs) == 1 else at.Stream(torch.stack(xs, -2))
    for site in stack.sites:
        stream = site(stream)
    y = stack.exit(stream)
    y = y if stack.final_norm is None else stack.final_norm(y)
    y.backward(torch.tensor(golden["dy"], dtype=torch.float64).view_as(y))
    assert relative_error(y, golden["y"]) < 1e-10
    for x, expected in zip(xs, golden["dx"]):
        for row, of_row in zip(x.grad, torch.tensor(expected, dtype=torch.float64).view(rows, -1).tolist()):
            assert relative_error(row, of_row) < 1e-10
    for name, parameter in parameters.items():
        assert relative_error(parameter.grad, golden["gradients"][name]) < 1e-10, name


# ---- Use in PyTorch --------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def assert_alike(actual, expected, **tolerance):
    assert actual.keys() == expected.keys()
    for name, value in actual.items():
        torch.testing.assert_close(value, expected[name], **tolerance)


@pytest.mark.parametrize("placement", NAMES)
def test_generates_with_a_cache_what_it_computes_at_once(placement):
    stack = small_stack(placement, dtype=torch.float64).double().eval()
    randomize(stack)
    x, cache = torch.randn(2, 5, 16, dtype=torch.float64), {}
    steps = [stack(x[:, :3], cache=cache), *(stack(x[:, t:t + 1], cache=cache) for t in (3, 4))]
    torch.testing.assert_close(torch.cat(steps, 1), stack(x), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("placement", NAMES)
def test_bfloat16_and_autocast_stay_near_float32(placement):
    stack, x = small_stack(placement).eval(), torch.randn(2, 5, 16)
    expected = stack(x)
    with torch.autocast("cpu", torch.bfloat16):
        under_autocast = stack(x)
    of_bfloat16 = copy.deepcopy(stack).bfloat16()(x.bfloat16())
    assert of_bfloat16.dtype == torch.bfloat16
    for y in under_autocast, of_bfloat16:
        assert float((y.float() - expected).norm() / expected.norm()) < 0.05


def test_the_stream_keeps_its_type_under_autocast():
    for placement in "plain", "pre", "mhc", "attention-residuals":
        seen = []
        stack = small_stack(placement)
        for site in stack.sites:
            site.register_forward_hook(lambda site, inputs, output: seen.extend(output.lanes))
        with torch.autocast("cpu", torch.bfloat16):
            stack(torch.randn(2, 5, 16))
        assert {lane.dtype for lane in seen} == {torch.float32}


@pytest.mark.parametrize("placement", NAMES)
def test_checkpointing_gives_the_same_gradients(placement):
    from torch.utils.checkpoint import checkpoint
    stack, x = small_stack(placement), torch.randn(2, 5, 16)
    torch.manual_seed(1)
    expected = gradients(stack, x)
    torch.manual_seed(1)
    assert_alike(gradients(stack, x, lambda x: checkpoint(stack, x, use_reentrant=False)), expected)


@pytest.mark.parametrize("placement", NAMES)
def test_copies_and_states_compute_the_same(placement):
    stack, x = small_stack(placement), torch.randn(2, 5, 16)
    randomize(stack)
    stack.eval()
    other = small_stack(placement).eval()
    other.load_state_dict(stack.state_dict())
    assert not list(stack.buffers())
    for twin in copy.deepcopy(stack), other, pickle.loads(pickle.dumps(stack)):
        assert torch.equal(twin(x), stack(x))


@pytest.mark.parametrize("placement", NAMES)
def test_a_stack_on_the_meta_device_gets_its_initial_values(placement):
    stack = Stack([Turned(site) for site in range(6)], placement, d_model=16, norm="rms", device="meta")
    assert stack(torch.empty(2, 5, 16, device="meta")).shape == (2, 5, 16)
    stack = stack.to_empty(device="cpu")
    stack.reset_parameters()
    expected = small_stack(placement)
    for name, parameter in stack.named_parameters():
        if "sublayers" not in name and "hidden" not in name and "gate.weight" not in name:
            assert torch.equal(parameter, expected.get_parameter(name)), name


def test_stochastic_depth_drops_whole_sequences_in_training():
    stack = turned_stack("stochastic-depth", 1, 8)
    site, x = stack.sites[1], torch.randn(4000, 3, 8)
    u = site(x) - x
    is_dropped = (u == 0).flatten(1).all(1)
    assert 0.07 < is_dropped.float().mean() < 0.13 and not (u[~is_dropped] == 0).any()
    kept = site.eval()(x) - x
    torch.testing.assert_close(u[~is_dropped], kept[~is_dropped] / 0.9)


def test_dropout_is_of_the_branch_in_training():
    stack, x = turned_stack("none", 1, 8, dropout=0.5), torch.randn(500, 8)
    u = stack.sites[0](x) - x
    assert 0.4 < (u == 0).float().mean() < 0.6
    assert torch.equal(stack.eval()(x), turned_stack("none", 1, 8).eval()(x))


def test_distributed_data_parallel_gives_the_gradients_of_the_whole_batch(tmp_path):
    torch.multiprocessing.start_processes(replicate_in_process, (str(tmp_path),), nprocs=2, start_method="spawn")
    assert json.loads((tmp_path / "same").read_text()) == {placement: True for placement in DISTRIBUTED}


def test_the_example_trains_a_placement_beside_pre_norm():
    example = pathlib.Path(__file__).parents[2] / "examples" / "pytorch" / "train_placement.py"
    done = subprocess.run([sys.executable, example, "--placement", "dynamic-hyper", "--steps", "10", "--layers", "1"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["steps", "pre", "dynamic-hyper"] and len(lines) == 11
    assert all(2 < float(loss) < 7 for line in lines[1:] for loss in line.split()[1:])


def test_the_notebook_runs(monkeypatch, capsys):
    """Runs its cells with few steps and layers, without outputs in the file. Its plot needs no matplotlib here."""
    folder = pathlib.Path(__file__).parents[2] / "examples" / "pytorch"
    notebook = json.loads((folder / "train_placement.ipynb").read_text())
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert notebook["nbformat"] == 4 and not any(cell["outputs"] or cell["execution_count"] for cell in cells)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setitem(sys.modules, "matplotlib", types.ModuleType("matplotlib"))
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", unittest.mock.MagicMock())
    import train_placement
    monkeypatch.setattr(train_placement.train, "__kwdefaults__", {**train_placement.train.__kwdefaults__, "layers": 1})
    names = {}
    for cell in cells:
        exec("".join(cell["source"]).replace("steps = 300", "steps = 10"), names)
    assert {name: len(losses) for name, losses in names["losses"].items()} == {"pre": 10, "post": 10, "mhc": 10}
    printed = capsys.readouterr().out
    assert printed.split()[:4] == ["steps", "pre", "post", "mhc"] and "no finding" in printed


# ---- Arguments -------------------------------------------------------------------------------


def test_each_sublayer_gets_the_arguments_that_it_takes():
    class Scaled(torch.nn.Module):
        def forward(self, x, *, factor=1.0):
            return factor * x

    stack = Stack([Scaled(), torch.nn.Identity()], "plain", d_model=4)
    x = torch.randn(3, 4)
    assert torch.equal(stack(x, factor=2.0), 2 * x)
    with pytest.raises(TypeError, match="the argument 'scale' is taken by no sublayer's forward"):
        stack(x, scale=2.0)


def test_multihead_attention_of_pytorch_is_a_sublayer():
    modules = [torch.nn.MultiheadAttention(16, 2, batch_first=True), torch.nn.Linear(16, 16)] * 2
    x = torch.randn(2, 5, 16)
    for placement in "pre", "mudd":
        assert Stack(modules, placement, d_model=16)(x, need_weights=False).shape == x.shape


def test_a_site_alone_is_one_sublayer_of_a_stack():
    stack, x = turned_stack("deepnorm", 3, 8), torch.randn(2, 8)
    site = at.Site(stack.sites[3].sublayers[0], "deepnorm", d_model=8, layer=2, layers=3, feed_forward=True, norm="rms")
    site.load_state_dict(stack.sites[3].state_dict())
    site.after.eps = stack.sites[3].after.eps
    assert torch.equal(site(x), stack.sites[3](x))
    assert "deepnorm, layers.1.feed_forward_add_norm" in str(stack)


def test_norms_are_those_that_are_given():
    stack = small_stack("peri", norm=lambda width: at.RMSNorm(width, gamma_form="one_plus"))
    assert torch.equal(stack.entry_norm.weight, torch.zeros(16)) and stack.sites[0].inside.gamma_form == "one_plus"
    assert float(small_stack("depth-scaled-sandwich").sites[0].inside.weight[0]) == pytest.approx(6**-0.5)
    assert small_stack("pre", final_norm=False).final_norm is None
    assert small_stack("none", final_norm=True).final_norm is not None


def build(placement="pre", count=4, d_model=16, **options):
    return Stack([torch.nn.Linear(16, 16) for _ in range(count)], placement, d_model=d_model, **options)


@pytest.mark.parametrize("make, words", [
    (lambda: build("prenorm"), r'placement "prenorm" is unknown, must be one of none, plain, post, pre, .*mudd'),
    (lambda: build("pre/"), "a name is missing"),
    (lambda: build("pre:3+post"), 'placement "pre:3.post" is for more layers than there are: 2'),
    (lambda: build(lanes=4), 'placement "pre" takes 1 lane, not 4'),
    (lambda: build("mhc", lanes=17), 'placement "mhc" takes from 2 to 16 lanes, not 17'),
    (lambda: build("mudd", lanes=2), 'placement "mudd" starts with 1 lane and appends others, not with 2'),
    (lambda: build("pre:1+mhc"), 'placement "mhc" takes from 2 to 16 lanes, not 1'),
    (lambda: build("pre:1+parallel/pre"), "both sublayers stand side by side, or none"),
    (lambda: build("frac:1+hyper"), 'placement "hyper" has lanes of 16 features, cannot be mixed with lanes of 4'),
    (lambda: build("frac", lanes=3), 'd_model is 16, must be divisible by 3: the lanes of placement "frac" are parts'),
    (lambda: build("mudd"), "forward of Linear in layers.1.attention_add_norm must take key and value"),
    (lambda: build(lanes=0), "lanes is 0, must be from 1"),
    (lambda: build(d_model=-1), "d_model is -1, must be from 1"),
    (lambda: build(count=3), "sublayers has 3 modules, must have an even number: two for each layer"),
    (lambda: build(count=0), "sublayers has 0 modules"),
    (lambda: build(norm="batch"), "norm is 'batch', must be 'layer', 'rms' or a function"),
    (lambda: build(dropout=1), "dropout is 1, must be at least 0 and below 1"),
    (lambda: build()(torch.randn(2, 8)), r"x has the shape \(2, 8\), must end with d_model, 16"),
    (lambda: Stack([torch.nn.Linear(16, 8)] * 2, d_model=16)(torch.randn(2, 16)),
     r"Linear in layers.0.attention_add_norm returned the shape \(2, 8\), must return its input's, \(2, 16\)"),
    (lambda: build("mhc").sites[1](at.Stream((torch.randn(2, 16),) * 3)), "the stream has 3 lanes, must have 4"),
    (lambda: at.Site(torch.nn.Linear(16, 16), "parallel", d_model=16), "has 1 sublayers, must have 2"),
    (lambda: at.Site(torch.nn.Linear(16, 16), d_model=16, layer=2), "layer 2 of 1 has no attention of its own"),
])
def test_wrong_arguments_are_errors_of_one_line(make, words):
    with pytest.raises(addnorm.Error, match=words) as raised:
        make()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("make, words", [
    (lambda: build(d_model="16"), "d_model is '16', must be an integer"),
    (lambda: build(placement=3), "placement is 3, must be a string"),
    (lambda: Stack([torch.nn.Identity(), torch.relu], d_model=4), r"sublayers\[1\] is of type .*, must be a torch.nn"),
])
def test_wrong_types_are_type_errors(make, words):
    with pytest.raises(TypeError, match=words):
        make()


# ---- The doctor ------------------------------------------------------------------------------

def check(model):
    return addnorm.check(model, torch.randint(0, 50, (2, 16)))


def trained(model):
    """Moves the arrangement's parameters away from their initial values, for which many coefficients are 0 or equal."""
    with torch.no_grad():
        for name, parameter in model.stack.named_parameters():
            if ".sublayers." not in name:
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model


# Without a residual, "plain" loses its gradients, and each two sublayers are one branch.
@pytest.mark.parametrize("change", [lambda model: model, trained, lambda model: model.bfloat16()],
                         ids=["initial", "trained", "bfloat16"])
@pytest.mark.parametrize("placement", [name for name in NAMES if name != "plain"])
def test_the_doctor_measures_all_sums_and_finds_nothing(placement, change):
    model = change(Decoder(placement))
    report = check(model)
    sums = 3 if placement == "parallel" else 6
    assert f"{sums} of {sums} sums" in str(report)
    assert [f for f in report.findings if f.severity != "note"] == []
    if len(model.stack.sites[-1].form["read"]["base"]) == 1:
        assert report.sound


def without_skip(site):
    site.form = {**site.form, "skip": {"form": "constant", "initial": 0.0}}


def with_gain(site):
    site.form = {**site.form, "gain": {"form": "constant", "initial": 3.0}}


def with_write(site):
    site.write.constants = [3.0 * b for b in site.write.constants]


def without_before(site):
    site.before = None


def without_inside(site):
    site.inside = None


def with_epsilon(site):
    site.after.eps = 0.1


def detached(site):
    carried = site.carried
    site.carried = lambda A, lanes: [x.detach() for x in carried(A, lanes)]


def without_carry(site):
    site.carried = lambda A, lanes, carried=site.carried: [0 * x for x in carried(A, lanes)]


def without_gradient(site):
    site.run = lambda zs, kwargs, run=site.run: run(zs, kwargs).detach()


PLACES = [f"layer {layer}, {kind}" for layer in range(3) for kind in ("attention", "feed-forward")]


@pytest.mark.parametrize("placement, plant, rule", [
    ("pre", without_skip, "residual-missing"), ("deepnorm", without_skip, "residual-missing"),
    ("completep", with_gain, "branch-factor"), ("sandwich", without_inside, "norm-misplaced"),
    ("post", with_epsilon, "epsilon-size"), ("layerscale", detached, "residual-detached"),
    ("mhc", without_carry, "residual-missing"), ("hyper", without_carry, "residual-missing")])
def test_the_doctor_names_a_planted_bug(placement, plant, rule):
    model = Decoder(placement)
    plant(model.stack.sites[3])
    found = [f for f in check(model).findings if f.rule == rule]
    assert found and PLACES[3] in found[0].where


def planted():
    one_lane = {without_skip: "residual-missing", with_gain: "branch-factor", detached: "residual-detached",
                without_gradient: "branch-detached"}
    several = {without_carry: "residual-missing", without_before: "norm-misplaced", detached: "residual-detached"}
    growing = {**several, with_write: "branch-factor"}
    for placement, bugs in (("highway", one_lane), ("orthogonal", {**one_lane, without_before: "norm-misplaced"}),
                            ("frac", {**several, without_gradient: "branch-detached"}), ("mudd", growing),
                            ("dense-former", growing), ("attention-residuals", growing),
                            ("block-attention-residuals", growing)):
        yield from ((placement, plant, rule, at) for plant, rule in bugs.items() for at in (0, 3, 5))


@pytest.mark.parametrize("placement, plant, rule, at", list(planted()))
def test_the_doctor_names_a_bug_in_every_layer(placement, plant, rule, at):
    model = Decoder(placement)
    plant(model.stack.sites[at])
    first, *_ = [f for f in check(model).findings if f.severity == "broken"]
    assert (first.rule, first.where) == (rule, PLACES[at])
