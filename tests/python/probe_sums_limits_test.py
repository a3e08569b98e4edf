"""The limits of the probe: sums. Cases are below and above each (HACKING.md)."""

import math
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
from addnorm.probe.fit.batch import fit_now  # noqa: E402
from addnorm.probe.fit.sums import InnerProducts, inner_products  # noqa: E402
from addnorm.probe.measure.sums import SumForm, choose_fit  # noqa: E402
from directions import directions  # noqa: E402

torch.set_num_threads(1)


def explain(total, parts, dtype=torch.float64):
    numbers = fit_now(inner_products, [total, *parts.values()])
    return InnerProducts(numbers, parts, dtype, total.numel()).fit()


@pytest.mark.parametrize("error, is_told", [(0.019, True), (0.021, False)])
def test_a_coefficient_is_told_if_its_standard_error_is_small(error, is_told):
    x, noise = directions(2)
    # The standard error of a coefficient is the residual's root mean square over the part's length.
    found = explain(x + error * math.sqrt(x.numel()) * noise, {"x": x})
    assert ("from_x" in found) == is_told


@pytest.mark.parametrize("apart, is_told", [(1.36e-5, False), (1.46e-5, True)])  # 1 − cosine: 0.92e-10, 1.07e-10
def test_nearly_equal_parts_are_told_apart_down_to_rounding(apart, is_told):
    x, other = directions(2)
    found = explain(5 * x + 3 * apart * other, {"x": x, "y": math.cos(apart) * x + math.sin(apart) * other})
    assert ("from_x" in found, "from_y" in found) == (is_told, is_told)
    if is_told:
        assert (found["from_x"], found["from_y"]) == pytest.approx((2, 3), abs=1e-3)


@pytest.mark.parametrize("sine, is_told", [(1.2e-3, True), (1.6e-3, False)])  # over √2: 0.85e-3 and 1.13e-3
def test_a_part_is_told_unless_it_belongs_to_the_parts_that_are_not(sine, is_told):
    x, other = directions(2)
    parts = {"x": x, "y": math.sqrt(1 - sine**2) * x + sine * other, "other": other}
    found = explain(x + other, parts)
    assert "from_x" not in found and "from_y" not in found
    assert ("from_other" in found) == is_told


@pytest.mark.parametrize("share, is_told", [(0.99e-3, True), (1.01e-3, False)])
def test_a_vague_part_is_told_if_it_is_next_to_nothing(share, is_told):
    x, small, noise = directions(3)
    total = x + 0.9 * noise  # the standard error of a part of length 1 is 0.9 / √1000, above the limit of 0.02
    length = math.hypot(1, 0.9)
    assert ("from_small" in explain(total + share * length * small, {"x": x, "small": small})) == is_told


@pytest.mark.parametrize("size, is_told", [(1.9, False), (2.1, True)])
def test_a_part_below_the_rounding_of_the_total_is_not_told(size, is_told):
    x, small = directions(2)
    eps = torch.finfo(torch.float32).eps
    assert ("from_small" in explain(x + size * eps * small, {"x": x, "small": size * eps * small},
                                    torch.float32)) == is_told


@pytest.mark.parametrize("coefficient, is_told", [(0.9e-3, True), (1.1e-3, False)])
def test_a_part_below_the_rounding_is_told_if_it_is_not_added(coefficient, is_told):
    x, small = directions(2)
    small = small * torch.finfo(torch.float32).eps
    assert ("from_small" in explain(x + coefficient * small, {"x": x, "small": small}, torch.float32)) == is_told


@pytest.mark.parametrize("left, from_x, from_earlier, left_with, is_taken", [
    (0.021, 0.049, 0.051, 0.019, True), (0.019, 0, 1, 0, False), (0.021, 0.051, 1, 0, False),
    (0.021, -0.051, 1, 0, False), (0.021, 0, 0.049, 0, False), (0.021, 0, 1, 0.021, False)])
def test_an_earlier_stream_replaces_x_if_it_explains_the_sum_alone(left, from_x, from_earlier, left_with, is_taken):
    def fit(names, hidden):
        has_earlier = "earlier" in set(names)
        return {"unexplained": left_with, "from_x": from_x, "from_earlier": from_earlier} if has_earlier else \
            {"unexplained": left, "from_x": 1}

    def choose(has_earlier):
        return choose_fit(SimpleNamespace(fit=fit), SumForm(["x", "branch"], frozenset(), has_earlier))

    assert ("from_earlier" in choose(True)) == is_taken
    assert "from_earlier" not in choose(False)


def test_the_graph_tells_a_stale_stream_and_a_stream_that_is_a_norms_output():
    asked = []

    def fit(names, hidden):
        names = list(names)
        asked.append(names)
        told = [name for name in names if name != "x" or len(asked) > 1]  # the first fit does not determine x
        return {**{f"from_{name}": 0.5 for name in told}, "unexplained": 0.1}

    fits, parts = SimpleNamespace(fit=fit), ["x", "before", "branch"]
    is_stale = SumForm(parts, frozenset(), True, is_stale=True)
    is_of_x = SumForm(parts, frozenset(), False, is_of_x=True)
    stale = choose_fit(fits, is_stale)
    assert (asked, stale["from_x"], stale["from_earlier"]) == ([["earlier", "branch"]], 0, 0.5)
    asked.clear()
    made_of = choose_fit(fits, is_of_x)
    assert asked == [parts, ["x", "branch"]]
    assert (made_of["from_before"], made_of["from_x"], made_of["from_branch"]) == (0, 0.5, 0.5)
    assert choose_fit(SimpleNamespace(fit=lambda names, hidden: {}), is_stale) == {}
