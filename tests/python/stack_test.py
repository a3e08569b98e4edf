"""addnorm.torch.Stack computes what the library computes, for every arrangement."""

import json
import pathlib

import pytest

torch = pytest.importorskip("torch")
from addnorm import torch as at  # noqa: E402
from stack_cases import EPSILON, library_names, randomize, run_in_library, turned_stack  # noqa: E402

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
    # The gradients of a doubly stochastic A are the rounding errors of 0 in the first sublayer, where all lanes are equal.
    least = 1e-4 * max(abs(g) for gradient in [[0], *expected["gradients"].values()] for g in gradient)
    for name, parameter in stack.named_parameters():
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        errors[name] = relative_error(gradient, expected["gradients"][names[name]], least)
    assert max(errors.values()) < TOLERANCE, max(errors.items(), key=lambda item: item[1])
    print(f"worst {max(errors.values()):.1e}")


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
