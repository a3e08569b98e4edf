"""The limits of the behaviour checks: sizes and gradients. Cases are below and above each (HACKING.md)."""

import math

import pytest

torch = pytest.importorskip("torch")
from addnorm.behaviour.parameters import initial_sizes, missing, optimizers, weights, zero_gradients  # noqa: E402
from addnorm.behaviour.run import gradients  # noqa: E402
from addnorm.behaviour.run.subject import Subject  # noqa: E402
from addnorm.behaviour.run.weights import follows_range  # noqa: E402
from behaviour_subjects import Layers, checks, subject  # noqa: E402
from torch import nn  # noqa: E402

torch.set_num_threads(1)


@pytest.mark.parametrize("count, factors, is_odd", [
    (5, {2: 1.61}, True), (5, {2: 1.59}, False), (5, {2: 1 / 1.61}, True), (5, {2: 1 / 1.59}, False),
    (5, {2: 2, 1: 1.24}, True), (5, {2: 2, 1: 1.26}, False), (5, {2: 2, 1: 1 / 1.24}, True),
    (5, {2: 2, 1: 1 / 1.26}, False), (4, {2: 2}, False), (5, {0: 2}, False), (5, {4: 2}, False), (5, {2: 0}, False)])
def test_a_matrix_of_another_size_than_its_counterparts(count, factors, is_odd):
    model = Layers(count)
    for layer, factor in factors.items():
        model.layers[layer]["map"].weight.data *= factor
    s = subject(model)
    weights.measure_odd_sizes(s, set())
    assert checks(s) == ["size-odd"] * is_odd
    s = subject(model)
    model.layers[2]["map"].weight.data[0, 0] = 0  # pruned
    weights.measure_odd_sizes(s, set())
    assert checks(s) == []


@pytest.mark.parametrize("mean, deviation, is_off", [
    (0.21, 0.01, True), (0.19, 0.01, False), (0.51, 0.1, True), (0.49, 0.1, False), (-0.21, 0.01, True), (1, 0, False)])
def test_a_bias_that_lies_around_another_number_than_its_counterparts(mean, deviation, is_off):
    model = Layers()
    spread = torch.tensor([-1.0, 1.0] * 16) / math.sqrt(32 / 31)  # a standard deviation of 1
    model.layers[2]["norm"].bias.data = mean + deviation * spread
    s = subject(model)
    initial_sizes.measure_bias_offsets(s)
    assert checks(s) == ["bias-off-zero"] * is_off


@pytest.mark.parametrize("others, is_off", [(0.29, True), (0.31, False)])  # a third of 0.9
def test_counterparts_of_a_bias_around_another_number_are_near_zero(others, is_off):
    model = Layers()
    for layer in model.layers:
        layer["norm"].bias.data = others + torch.tensor([-0.1, 0.1] * 16)
    model.layers[2]["norm"].bias.data = 0.9 + torch.tensor([-0.01, 0.01] * 16)
    s = subject(model)
    initial_sizes.measure_bias_offsets(s)
    assert checks(s) == ["bias-off-zero"] * is_off


@pytest.mark.parametrize("width, is_off", [(16, True), (15, False)])
def test_a_short_bias_may_lie_around_any_number_by_chance(width, is_off):
    model = Layers(width=width)
    model.layers[2]["norm"].bias.data += 1
    s = subject(model)
    initial_sizes.measure_bias_offsets(s)
    assert checks(s) == ["bias-off-zero"] * is_off


@pytest.mark.parametrize("one, is_common", [(1.19, True), (1.22, False)])
def test_biases_that_all_lie_around_one_number(one, is_common):
    model = Layers()
    for layer in model.layers:
        layer["second"] = nn.LayerNorm(32)
        for norm in layer["norm"], layer["second"]:
            norm.bias.data = 1 + 0.01 * torch.tensor([-1.0, 1.0] * 16)
    model.layers[2]["norm"].bias.data += one - 1
    s = subject(model)
    initial_sizes.measure_bias_offsets(s)
    assert checks(s) == ["bias-off-zero"] * is_common  # the largest may differ by a fifth of the mean, 1.02


@pytest.mark.parametrize("of_usual, follows", [(1.09, True), (1.11, False), (0.91, True), (0.89, False)])
def test_initial_weights_follow_the_configuration_if_most_have_its_size(of_usual, follows):
    model = Layers(3)
    for layer in model.layers[:2]:
        layer["map"].weight.data *= 0.02 * of_usual
    assert follows_range(subject(model, initializer_range=0.02)) == follows
    model.layers[1]["map"].weight.data *= 3  # one of three is not most of them
    assert not follows_range(subject(model, initializer_range=0.02))


@pytest.mark.parametrize("shape, share, is_usual", [
    ((64, 32), 0.76, True), ((64, 32), 0.74, False), ((64, 32), 1.49, True), ((64, 32), 1.51, False),
    ((64, 32), 0, True), ((64, 64), 0.01, True), ((64, 64), 1.51, False),  # a map into the stream may be smaller
    # The size of 32 drawn values has a standard error of 1 / √64; five of them are allowed.
    ((8, 4), 1.62, True), ((8, 4), 1.63, False), ((8, 4), 0.38, True), ((8, 4), 0.37, False)])
def test_initial_weights_have_the_usual_size_within_chance(shape, share, is_usual):
    model = nn.Linear(*shape[::-1])
    s = subject(model, hidden_size=64 if shape == (64, 64) else 16)
    weight = torch.full(shape, 0.02 * share, dtype=torch.float64)
    assert initial_sizes._is_of_size(s, "weight", weight, 0.02) == is_usual


@pytest.mark.parametrize("mean, expected, is_off", [
    (0.79, 1, True), (0.81, 1, False), (1.21, 1, True), (0.21, 0, True), (0.19, 0, False),
    (0.9e-3, 1, False), (1.1e-3, 1, True)])  # a norm that begins at 0 on purpose
def test_gains_begin_at_1_or_at_0(mean, expected, is_off):
    assert initial_sizes._is_off(mean, expected) == is_off


@pytest.mark.parametrize("size, is_measured", [(0.9e-6, False), (1.1e-6, True)])
def test_matrices_that_start_at_0_have_no_update_ratio(size, is_measured):
    model = nn.Linear(4, 4, bias=False)
    nn.init.constant_(model.weight, size)
    s = subject(model)
    optimizers.measure_optimizer(s, [torch.optim.SGD(model.parameters(), lr=1.0)], {"weight": 1.0})
    assert ("update-ratio" in checks(s)) == is_measured


@pytest.mark.parametrize("share, is_lost", [(0.9, True), (1.1, False)])
def test_a_gradient_is_lost_below_four_roundings_of_the_others(share, is_lost):
    eps = torch.finfo(torch.float32).eps
    sizes = {"a": 2.0, "b": 2.0, "c": share * 4 * eps * 2.0, "zero": 0.0, "d": 2.0}
    assert [name for name, _ in zero_gradients._lost(list(sizes), sizes)] == ["c"] * is_lost


class Cut(nn.Module):
    """The loss depends on a parameter by this share of its value, and gives it no gradient."""

    def __init__(self, share):
        super().__init__()
        self.live, self.cut, self.share = nn.Linear(4, 4), nn.Linear(4, 4), share

    def forward(self, x):
        y = self.live(x).square().mean()
        with torch.no_grad():
            other = self.cut(x).square().mean()
        return y + self.share * other


@pytest.mark.parametrize("share, check", [(0.0, "parameter-unused"), (1e-9, "parameter-unused"),
                                          (1e-3, "gradient-missing")])
def test_a_parameter_without_a_gradient_matters_if_the_loss_changes_with_it(share, check):
    torch.manual_seed(0)
    s = Subject(Cut(share).double(), (torch.randn(3, 4, dtype=torch.float64),), {}, lambda loss: loss)
    g = gradients.Gradients(s)
    assert g.missing == {"cut.weight", "cut.bias"}
    missing._try_values(s, g, sorted(g.missing))
    assert checks(s) == [check]


@pytest.mark.parametrize("change, is_used", [(0.9e-6, False), (1.1e-6, True)])
def test_a_loss_changes_by_more_than_a_millionth(change, is_used, monkeypatch):
    s = Subject(Cut(0), (torch.randn(3, 4),), {}, lambda loss: loss)
    g = gradients.Gradients(s)
    monkeypatch.setattr(missing, "_loss_with_others", lambda s, g, names: g.loss * (1 + change * bool(names)))
    missing._try_values(s, g, sorted(g.missing))
    assert checks(s) == ["gradient-missing" if is_used else "parameter-unused"]
