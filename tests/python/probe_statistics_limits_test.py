"""The limits of the probe: the statistics of norms. Cases are below and above each (HACKING.md)."""

import math

import pytest

torch = pytest.importorskip("torch")
from addnorm.probe.fit import statistics  # noqa: E402
from addnorm.probe.fit.batch import fit_now  # noqa: E402

torch.set_num_threads(1)


@pytest.mark.parametrize("fit, is_explained", [
    ({"unexplained": 0.9e-2, "divisor_noise": 1.9e-3}, True), ({"unexplained": 1.1e-2, "divisor_noise": 0}, False),
    ({"unexplained": 0, "divisor_noise": 2.1e-3}, False), ({"unexplained": 0}, False)])
def test_a_norm_is_explained_by_a_small_residual_and_little_noise(fit, is_explained):
    assert statistics.is_explained(fit) == is_explained


def other_statistic(axis_left=None, divisor_left=None, factor=1.0, is_positive=True, unexplained=0.1, centred=1.0,
                    is_whole=True):
    """Returns what read_statistics() reads if these sets of axes and these (statistic, power) leave these residuals,
    and all others leave 1."""
    lefts = [1.0] * 2 * len(statistics.AXES)
    for axes, left in (axis_left or {}).items():
        lefts[2 * list(statistics.AXES).index(axes)] = left
    names = [(name, power) for name in statistics.STATISTICS for power in statistics.POWERS]
    numbers = {"axis_left": lefts, "axis_factor": [factor] * len(lefts), "divisor_is_positive": float(is_positive),
               "divisor_left": [(divisor_left or {}).get(key, 1.0) for key in names]}
    return statistics.read_statistics(numbers, {"unexplained": unexplained, "centred": centred}, is_whole)


@pytest.mark.parametrize("left, options, axes", [
    ({"tokens": 0.019}, {}, "tokens"), ({"tokens": 0.021}, {}, None),
    ({"tokens": 0.01, "features": 0.051}, {}, "tokens"),
    ({"tokens": 0.01, "features": 0.049}, {}, None),  # a fifth of the rows' own
    ({"tokens": 0.01}, {"factor": 0.51}, "tokens"), ({"tokens": 0.01}, {"factor": 0.49}, None),
    ({"sequences,tokens,features": 0.01, "tokens,features": 0.001}, {}, "tokens,features"),
    ({"tokens": 0.01}, {"is_whole": False}, None)])
def test_the_axes_of_statistics_are_those_that_explain_the_output(left, options, axes):
    assert other_statistic(left, **options).get("statistics_over") == axes


@pytest.mark.parametrize("left, options, statistic", [
    ({("rms", 2.0): 0.049}, {}, ("rms", 2.0)), ({("rms", 2.0): 0.051}, {}, None),
    ({("rms", 2.0): 0.01, ("deviation", 1.0): 0.051}, {}, ("rms", 2.0)),
    ({("rms", 2.0): 0.01, ("deviation", 1.0): 0.049}, {}, None),
    ({("rms", 1.0): 0.01}, {"centred": 0.51}, ("rms", 1.0)), ({("rms", 1.0): 0.01}, {"centred": 0.49}, None),
    ({("deviation", 1.0): 0.01}, {}, None), ({("deviation", 1.0): 0.01}, {"centred": 0.49}, ("deviation", 1.0)),
    ({("rms", 2.0): 0.01}, {"unexplained": 0.9e-2}, ("rms", 2.0)),
    ({("rms", 2.0): 0.01}, {"unexplained": 1.1e-2}, None),
    ({("rms", 2.0): 0.01}, {"is_positive": False, "unexplained": 0}, None)])
def test_another_statistic_must_explain_the_divisors_better_than_the_sound_one(left, options, statistic):
    found = other_statistic(divisor_left=left, **{"unexplained": 0.0, **options})
    assert (found.get("statistic"), found.get("power")) == (statistic or (None, None))


@pytest.mark.parametrize("left, from_one, is_one", [
    (0.9e-4, [0.019, 9], True), (1.1e-4, [0, 0], False), (0, [9, 0.021], False), (math.nan, [9, 0.019], True)])
def test_heads_share_a_scale_within_rounding(left, from_one, is_one):
    assert statistics.is_one_scale({"left": left, "from_one": from_one}) == is_one


@pytest.mark.parametrize("shape, heads, rows", [
    ((2, 4, 6, 8), 4, (2, 6, 32)), ((2, 6, 4, 8), 4, (2, 6, 32)), ((2, 6, 5, 8), 4, None),
    ((2, 6, 32), 4, (2, 6, 4, 8)), ((2, 6, 33), 4, None), ((2, 6, 8), 1, None)])
def test_heads_of_a_token_come_into_one_row(shape, heads, rows):
    x = torch.arange(math.prod(shape)).reshape(shape)
    found = statistics.by_head(x, x + 1, heads)
    assert (found and found[0].shape) == rows
    assert statistics.by_head(x, x[:1], heads) is None
    if rows is not None and len(shape) == 4:
        of_head = x[1, :, 3] if shape[1] == 4 else x[1, 3]  # [heads, features] of one token
        assert torch.equal(found[0][1, 3], of_head.flatten())


@pytest.mark.parametrize("centres", [True, False])
def test_the_scale_of_heads_is_that_of_each_row(centres):
    rows = torch.randn(7, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 1
    sizes = 1 + torch.arange(7, dtype=torch.float64)
    rows *= sizes[:, None]
    size = rows.std(-1, unbiased=False) if centres else rows.square().mean(-1).sqrt()
    numbers = fit_now(statistics.scale_numbers, [rows, rows / size[:, None]])
    assert numbers["left"] < 1e-12
    assert numbers["from_one"][0 if centres else 1] < 1e-12 and numbers["from_one"][1 if centres else 0] > 0.05
    apart = fit_now(statistics.scale_numbers, [rows, rows / size.mean()])
    assert apart["left"] < 1e-12 and min(apart["from_one"]) > 0.5
