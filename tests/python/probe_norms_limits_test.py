"""The limits of the probe: norms. Cases are below and above each (HACKING.md)."""

import math

import pytest

torch = pytest.importorskip("torch")
from addnorm.probe.fit import norms  # noqa: E402
from addnorm.probe.fit.batch import fit_now  # noqa: E402
from directions import directions  # noqa: E402

torch.set_num_threads(1)


def norm(forms=1, is_rms=False, has_unit_offset=None, rows=100, **changes):
    """Returns what read_norm() reads of a norm with these numbers. All rows have the size 1 and the divisor 1 unless
    `changes` has other numbers."""
    each, pairs = [1.0] * forms, [1.0] * (2 * forms)
    numbers = dict(length=10.0, source=10.0, gain=1.0, left=[0.0] * forms, is_positive=each, row_size=each,
                   mean_square=0.0, variance=1.0, centred=each, size=[1.0, 1.0], size_norm=[10.0, 10.0],
                   apart=[1.0, 1.0], square=each, square_norm=[10.0] * forms, steepness=pairs, noise=[1e-9] * 2 * forms,
                   divisor=each, deviation=[3.0, 4.0])
    for name in norms.COMPARED:
        numbers[name], numbers[f"{name}_spread"] = [0.0] * 2 * forms, [0.0] * 2 * forms
    return norms.read_norm({**numbers, **changes}, rows, norms.KnownNorm(is_rms, has_unit_offset))


@pytest.mark.parametrize("mean_square, is_told", [(0.9e-6, False), (1.1e-6, True)])
def test_centring_is_measured_where_rows_have_a_mean(mean_square, is_told):
    assert ("centred" in norm(mean_square=mean_square)) == is_told


@pytest.mark.parametrize("is_rms", [False, True])
@pytest.mark.parametrize("centred, size", [(0.49, 4), (0.51, 3)])  # 3: the deviation, 4: the root mean square
def test_a_norm_centres_if_it_removes_more_than_half_of_the_mean(centred, size, is_rms):
    assert norm(mean_square=1.0, centred=[centred], is_rms=is_rms)["deviation"] == size
    assert norm(centred=[centred], is_rms=is_rms)["deviation"] == (4 if is_rms else 3)  # declared, without a mean


@pytest.mark.parametrize("left, form", [
    ([0.1, 0.149], None), ([0.1, 0.151], 0), ([0.151, 0.1], 1), ([0, 0.9e-6], None), ([1.1e-6, 0], 1)])
def test_the_form_of_gamma_is_told_by_a_residual_that_is_half_again_as_large(left, form):
    found = norm(2, length=1.0, left=left)
    assert found.get("gamma_offset") == form
    assert norm(2, length=1.0, left=left, has_unit_offset=True).get("gamma_offset") == form


@pytest.mark.parametrize("sizes, form", [
    ([1.049, 1.36], 0), ([1.052, 1.36], None), ([1.049, 1.34], None), ([0.74, 1.0], 1), ([1.0, 0.75], None)])
def test_the_form_of_a_constant_gamma_is_told_by_the_size_of_rows(sizes, form):
    assert norm(2, row_size=sizes).get("gamma_offset") == form
    # The logarithms of the sizes decide, and the limits are 0.05 and 0.3.
    assert (form is not None) == (min(abs(math.log(x)) for x in sizes) < 0.05
                                  and max(abs(math.log(x)) for x in sizes) > 0.3)


@pytest.mark.parametrize("changes, is_norm", [
    ({}, False),
    ({"apart": [0.09, 0.09]}, True),  # 10 · 0.01: the rows' sizes are equal, so a constant divisor means nothing
    ({"apart": [0.11, 0.11]}, False),
    ({"steepness": [0.011, 0.011]}, True),  # 10 · 1e-3 / 1
    ({"steepness": [0.009, 0.009]}, False),
    ({"square": [0.09], "size": [0.029, 0.029]}, True),  # ε dominates small rows: 3 · 0.029 < 0.09 < 0.1
    ({"square": [0.09], "size": [0.031, 0.031]}, False),
    ({"square": [0.11], "size": [0.029, 0.029]}, False)])
def test_one_divisor_for_rows_of_many_sizes_is_no_norm(changes, is_norm):
    assert ("divisor" in norm(**{"steepness": [0.0, 0.0], **changes})) == is_norm


@pytest.mark.parametrize("noise, is_told", [(0.0024, True), (0.0026, False)])
def test_the_slope_of_the_divisor_is_told_if_its_error_is_small(noise, is_told):
    assert ("divisor_slope" in norm(noise=[noise, noise])) == is_told  # 1 · 1 > 4000 · noise / √100


@pytest.mark.parametrize("length, is_unit", [(1.009, True), (1.011, False), (0.991, True), (0.989, False)])
def test_rows_of_length_1_may_differ_by_a_hundredth(length, is_unit):
    rows = torch.stack(directions(4, 16)).float()
    rows[2] *= length
    gamma = torch.tensor([2.0, 0.5] * 8)
    for gain, values in (None, rows), (gamma, rows * gamma):
        numbers = fit_now(norms.unit_length_numbers, [values, gain, None])
        assert norms.is_unit_length(numbers) == is_unit
