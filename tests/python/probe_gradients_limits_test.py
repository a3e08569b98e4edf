"""The limits of the probe: gradients and norms. Cases are below and above each (HACKING.md)."""

import math

import pytest

torch = pytest.importorskip("torch")
from addnorm.probe.fit.batch import fit_now  # noqa: E402
from addnorm.probe.fit.sums import inner_products  # noqa: E402
from addnorm.probe.measure.norms import without_epsilon  # noqa: E402
from addnorm.probe.measure.sum_gradients import InnerNorm, ShareFit  # noqa: E402
from addnorm.probe.record.graph import Value  # noqa: E402
from directions import directions  # noqa: E402

torch.set_num_threads(1)


@pytest.mark.parametrize("noise, is_told", [(0.0199, True), (0.0201, False)])
def test_a_gradient_is_a_multiple_of_the_sums_within_a_fiftieth(noise, is_told):
    of_sum, other = directions(2)
    total = 0.5 * (of_sum + noise / math.sqrt(1 - noise**2) * other)
    entry = {"grad_to_branch": 0.0}
    ShareFit._read(entry, "branch", ["sum"], torch.float64, 1000, fit_now(inner_products, [total, of_sum]))
    assert entry == ({"grad_to_branch": pytest.approx(0.5)} if is_told else {})


@pytest.mark.parametrize("mean, centres", [(0.9e-3, True), (1.1e-3, False)])
def test_a_fused_norm_centres_its_rows_if_their_means_are_0(mean, centres):
    rows = torch.randn(1, 5, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rows = rows - rows.mean(-1, keepdim=True)
    rows[0, 3] += mean
    gamma = torch.linspace(0.5, 2, 16, dtype=torch.float64)
    for gain, gave in (None, rows), (gamma, rows * gamma):
        assert InnerNorm(Value(gave), rows, gain)._centres == centres


@pytest.mark.parametrize("eps, is_length", [(0.9e-6, True), (-0.9e-6, True), (1.1e-6, False)])
def test_a_norm_by_a_length_without_epsilon_has_no_divisor(eps, is_length):
    fit = without_epsilon({"unexplained": 0.0, "scale": 3.0, "eps_in_deviation": 4 * eps, "divisor": 4.0}, True)
    assert fit.keys() == {"unexplained", "scale", *(() if is_length else ("eps_in_deviation", "divisor"))}
