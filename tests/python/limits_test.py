"""The limits of the probe and of addnorm.behaviour: each decision has a case just below its limit and one just above.

The tensors of a case are made from the number that the limit is about, so the expected decision follows from
arithmetic, not from the code. Where a decision reads a dictionary of numbers, the dictionary is written by hand.
"""

import inspect
import math
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
from addnorm.behaviour.forwards import (  # noqa: E402
    activations, attention_scale, configuration, locality, logits, norm_statistics, positions)
from addnorm.behaviour.forwards import attention as behaviour_attention  # noqa: E402
from addnorm.behaviour.parameters import gradients, missing, optimizers, weights, zero_gradients  # noqa: E402
from addnorm.behaviour.parameters import targets as targets_module  # noqa: E402
from addnorm.behaviour.reruns import noise  # noqa: E402
from addnorm.behaviour.run import functions, starts  # noqa: E402
from addnorm.behaviour.run.subject import Calls, Subject  # noqa: E402
from addnorm.probe.find import lane_coefficients  # noqa: E402
from addnorm.probe.find import lanes as find_lanes  # noqa: E402
from addnorm.probe.fit import attention, norms, statistics  # noqa: E402
from addnorm.probe.fit import lanes as fit_lanes  # noqa: E402
from addnorm.probe.fit.batch import fit_now  # noqa: E402
from addnorm.probe.fit.lanes import LaneRows  # noqa: E402
from addnorm.probe.fit.sums import InnerProducts, inner_products  # noqa: E402
from addnorm.probe.measure import sublayers  # noqa: E402
from addnorm.probe.measure.gradients import InnerNorm, SumGradient  # noqa: E402
from addnorm.probe.measure.norms import NormMeasurement  # noqa: E402
from addnorm.probe.measure.rows import Rows  # noqa: E402
from addnorm.probe.record.graph import Op, Value  # noqa: E402
from torch import nn  # noqa: E402

torch.set_num_threads(1)


def directions(count, size=1000, seed=0):
    """Returns orthogonal vectors of length 1."""
    torch.manual_seed(seed)
    return list(torch.linalg.qr(torch.randn(size, count, dtype=torch.float64))[0].T)


# -- Logits of attention --


def scores(*rows):
    return attention.read_scores(fit_now(attention.score_numbers, [torch.tensor(rows, dtype=torch.float64)]))


@pytest.mark.parametrize("row, largest", [
    ([0, -7.9e3], 7.9e3), ([0, -8.1e3], 0), ([5e3, -3.1e3], 5e3),  # 8e3 below the largest, a logit is masked
    ([5e3, -2.9e3], 5e3), ([-7.9e3, -7.95e3], 7.95e3), ([-7.9e3, -8.1e3], 7.9e3)])
def test_masked_logits_do_not_count(row, largest):
    assert scores(row)["abs_max"] == largest
    visible = [x for x in row if x > max(row) - 8e3 and x > -8e3]
    assert scores(row)["mean"] == pytest.approx(sum(visible) / len(visible))


def test_a_query_that_sees_no_key_or_one_has_no_entropy():
    assert scores([-8.1e3, -9e3]) == {}
    assert "entropy" not in scores([1, -math.inf])
    # The entropy of equal weights is the largest one, also where queries see different numbers of keys.
    causal = torch.zeros(5, 5).masked_fill(torch.ones(5, 5).triu(1).bool(), -math.inf)
    assert scores(*causal.tolist())["entropy"] == pytest.approx(1)


def test_queries_are_left_out_above_the_largest_number_of_logits(monkeypatch):
    monkeypatch.setattr(attention, "MOST_SCORES", 64)
    for queries, seen in (8, 8), (9, 5), (16, 8), (17, 6):
        assert attention.some_queries(torch.zeros(queries, 8)).shape == (seen, 8)


@pytest.mark.parametrize("most", [2**19, 40])
@pytest.mark.parametrize("form", ["plain", "causal", "mask", "row mask", "bias", "scale", "grouped"])
def test_logits_of_fused_attention_are_those_of_its_formula(form, most, monkeypatch):
    monkeypatch.setattr(attention, "MOST_SCORES", most)
    torch.manual_seed(0)
    heads = 2 if form == "grouped" else 4
    q, k = torch.randn(1, 4, 6, 8), torch.randn(1, heads, 7, 8)
    mask = {"mask": torch.rand(6, 7) > 0.3, "row mask": torch.rand(1, 7) > 0.3, "bias": torch.randn(4, 6, 7)}.get(form)
    scale = 0.7 if form == "scale" else None
    found = attention.fused_scores(q, k, mask, form == "causal", scale)
    stride = 1 if most > 40 else math.ceil(4 * 6 * 7 / 40)
    assert found.shape == (1, 4, len(range(0, 6, stride)), 7)
    for head in range(4):
        for row, i in enumerate(range(0, 6, stride)):
            for j in range(7):
                logit = float(q[0, head, i] @ k[0, head * heads // 4, j]) * (scale or 8**-0.5)
                if form == "bias":
                    logit += float(mask[head, i, j])
                hidden = form == "causal" and j > i or form == "mask" and not mask[i, j] \
                    or form == "row mask" and not mask[0, j]
                assert float(found[0, head, row, j]) == pytest.approx(-math.inf if hidden else logit, abs=1e-5)


# -- Norms --


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


# -- Statistics of norms --


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


# -- Sums --


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
    def fit(names):
        has_earlier = "earlier" in set(names)
        return {"unexplained": left_with, "from_x": from_x, "from_earlier": from_earlier} if has_earlier else \
            {"unexplained": left, "from_x": 1}

    def choose(has_earlier):
        return sublayers.choose_fit(SimpleNamespace(fit=fit), ["x", "branch"], has_earlier, False, False)

    assert ("from_earlier" in choose(True)) == is_taken
    assert "from_earlier" not in choose(False)


def test_the_graph_tells_a_stale_stream_and_a_stream_that_is_a_norms_output():
    asked = []

    def fit(names):
        names = list(names)
        asked.append(names)
        told = [name for name in names if name != "x" or len(asked) > 1]  # the first fit does not determine x
        return {**{f"from_{name}": 0.5 for name in told}, "unexplained": 0.1}

    fits, parts = SimpleNamespace(fit=fit), ["x", "before", "branch"]
    stale = sublayers.choose_fit(fits, parts, True, True, False)
    assert (asked, stale["from_x"], stale["from_earlier"]) == ([["earlier", "branch"]], 0, 0.5)
    asked.clear()
    made_of = sublayers.choose_fit(fits, parts, False, False, True)
    assert asked == [parts, ["x", "branch"]]
    assert (made_of["from_before"], made_of["from_x"], made_of["from_branch"]) == (0, 0.5, 0.5)
    assert sublayers.choose_fit(SimpleNamespace(fit=lambda names: {}), parts, True, True, False) == {}


# -- Lanes --


@pytest.mark.parametrize("size, is_written", [(0.9e-6, False), (1.1e-6, True)])
def test_a_branch_that_is_next_to_nothing_has_no_factor(size, is_written):
    before = torch.randn(5, 3, 8, dtype=torch.float64)
    branch = torch.randn(5, 8, dtype=torch.float64)
    branch *= size * before.norm() / branch.norm()
    values = LaneRows(before, branch, before + branch[:, None], 1e-7)
    assert fit_lanes.explain(values).of.shape[-1] == (4 if is_written else 3)


@pytest.mark.parametrize("count, is_state", [(1, False), (2, True), (16, True), (17, False)])
def test_a_state_has_two_to_sixteen_lanes(count, is_state):
    row, state = Value(torch.randn(2, 5, 8)), Value(torch.randn(2, 5, count, 8))
    assert (find_lanes.lanes_of(state, row) is state) == is_state
    assert find_lanes.lanes_of(Value(torch.zeros(2, 5, count, 8, dtype=torch.int64)), row) is None
    assert find_lanes.lanes_of(Value(torch.randn(2, 5, count, 8)[:, :4]), row) is None  # no multiple of the row


@pytest.mark.parametrize("precision, most", [(1e-5, 3e-4), (1e-2, 0.02)])  # 30 roundings, and at most 0.02
@pytest.mark.parametrize("size, is_found", [(0.9, True), (1.1, False)])
def test_a_carry_explains_the_sum_within_rounding(precision, most, size, is_found):
    torch.manual_seed(0)
    before, branch = torch.randn(50, 2, 16, dtype=torch.float64), torch.randn(50, 16, dtype=torch.float64)
    carry = torch.tensor([[0.9, 0.6], [0.1, 0.4]], dtype=torch.float64)
    sound = carry @ before + torch.tensor([1.0, 0.5])[:, None] * branch[:, None]
    noise = torch.randn_like(sound)
    noise -= (noise * branch[:, None]).sum(-1, keepdim=True) / branch.square().sum(-1)[:, None, None] * branch[:, None]
    after = sound + size * most * noise * sound.norm() / noise.norm()
    for is_transpose in False, True:
        seen = (carry.T if is_transpose else carry).expand(50, 2, 2)
        found = lane_coefficients._as_carry(seen, LaneRows(before, branch, after, precision))
        assert (found is not None) == is_found
        if is_found:
            assert found.is_transpose == is_transpose
            assert torch.equal(found.of[0], carry)


@pytest.mark.parametrize("size, is_told", [(0.9, None), (1.1, False)])
def test_a_carry_that_is_nearly_its_own_transpose_has_no_orientation(size, is_told):
    torch.manual_seed(0)
    before, branch = torch.randn(50, 2, 16, dtype=torch.float64), 1e-9 * torch.randn(50, 16, dtype=torch.float64)
    precision = 1e-5
    turn = torch.tensor([[0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64)
    # The transpose leaves 2 · turn · before: choose its share of the sum.
    carry = torch.eye(2, dtype=torch.float64) + size * 10 * 30 * precision / 2 * turn
    values = LaneRows(before, branch, carry @ before, precision)
    assert lane_coefficients._as_carry(carry.expand(50, 2, 2), values).is_transpose is is_told


@pytest.mark.parametrize("noise, is_gate", [(0.0199, True), (0.0201, False)])
def test_a_write_is_a_multiple_of_a_sigmoid_within_a_fiftieth(noise, is_gate, monkeypatch):
    seen, other = (direction.reshape(250, 4) for direction in directions(2))
    gate = Value(seen, Op("sigmoid", None, [], {}, "", 1))
    monkeypatch.setattr(lane_coefficients, "made_of", lambda total: iter([Value(other), gate]))
    # The share is relative to the write, of which the multiple explains all but the noise.
    write = 2 * (seen + noise / math.sqrt(1 - noise**2) * other)
    found = lane_coefficients.find_gate(None, write, lambda rows: rows)
    assert found == (pytest.approx(2) if is_gate else None)


# -- Gradients and norms of the probe --


@pytest.mark.parametrize("noise, is_told", [(0.0199, True), (0.0201, False)])
def test_a_gradient_is_a_multiple_of_the_sums_within_a_fiftieth(noise, is_told):
    of_sum, other = directions(2)
    total = 0.5 * (of_sum + noise / math.sqrt(1 - noise**2) * other)
    entry = {"grad_to_branch": 0.0}
    SumGradient._read(entry, "branch", ["sum"], torch.float64, 1000, fit_now(inner_products, [total, of_sum]))
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
    entries = {"site": {}}
    norm = NormMeasurement.__new__(NormMeasurement)
    norm._is_unit, norm._is_other, norm._site = True, False, "site"
    norm._measured = SimpleNamespace(entries=entries, count=lambda name, is_measured: None)
    norm._keep({"unexplained": 0.0, "scale": 3.0, "eps_in_deviation": 4 * eps, "divisor": 4.0}, False)
    assert entries["site"].keys() == {"unexplained", "scale", *(() if is_length else ("eps_in_deviation", "divisor"))}


# -- Measured tokens --


@pytest.mark.parametrize("tokens, stride", [(8, 1), (9, 2), (16, 2), (17, 3)])
def test_tokens_are_left_out_above_the_largest_number(tokens, stride):
    values = torch.arange(3.0 * tokens * 2).reshape(3, tokens, 2)
    for batch_first in True, False:
        stored = values if batch_first else values.transpose(0, 1)
        found, seen = Rows(stored.shape, batch_first, 8).of(stored)
        assert seen == stride
        assert torch.equal(found, values[:1, ::stride])
    found, seen = Rows(values.shape, True, 2 * tokens).of(values)  # two whole sequences
    assert (seen, len(found)) == (1, 2)


# -- The behaviour: sizes and repetitions --


def subject(model=None, **config):
    model = model or nn.Linear(2, 2)
    model.config = SimpleNamespace(**config)
    found = Subject(model, (), {}, None)
    found.runs.append(Calls())
    return found


def checks(s):
    return [line["check"] for line in s.lines]


class Layers(nn.Module):
    """Layers of a linear map and a norm."""

    def __init__(self, count=5, width=32):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.ModuleDict({"map": nn.Linear(width, width), "norm": nn.LayerNorm(width)})
                                    for _ in range(count))
        for layer in self.layers:
            nn.init.normal_(layer["norm"].bias, 0, 0.01)
            layer["norm"].weight.data += torch.linspace(0, 0.1, width)
            layer["map"].weight.data = layer["map"].weight.data.sign()  # its root mean square is 1
            layer["map"].bias.data.normal_()


@pytest.mark.parametrize("count, factors, is_odd", [
    (5, {2: 1.61}, True), (5, {2: 1.59}, False), (5, {2: 1 / 1.61}, True), (5, {2: 1 / 1.59}, False),
    (5, {2: 2, 1: 1.24}, True), (5, {2: 2, 1: 1.26}, False), (5, {2: 2, 1: 1 / 1.24}, True),
    (5, {2: 2, 1: 1 / 1.26}, False), (4, {2: 2}, False), (5, {0: 2}, False), (5, {4: 2}, False), (5, {2: 0}, False)])
def test_a_matrix_of_another_size_than_its_counterparts(count, factors, is_odd):
    model = Layers(count)
    for layer, factor in factors.items():
        model.layers[layer]["map"].weight.data *= factor
    s = subject(model)
    weights.measure_odd_sizes(s)
    assert checks(s) == ["size-odd"] * is_odd
    s = subject(model)
    model.layers[2]["map"].weight.data[0, 0] = 0  # pruned
    weights.measure_odd_sizes(s)
    assert checks(s) == []


@pytest.mark.parametrize("mean, deviation, is_off", [
    (0.21, 0.01, True), (0.19, 0.01, False), (0.51, 0.1, True), (0.49, 0.1, False), (-0.21, 0.01, True), (1, 0, False)])
def test_a_bias_that_lies_around_another_number_than_its_counterparts(mean, deviation, is_off):
    model = Layers()
    spread = torch.tensor([-1.0, 1.0] * 16) / math.sqrt(32 / 31)  # a standard deviation of 1
    model.layers[2]["norm"].bias.data = mean + deviation * spread
    s = subject(model)
    weights.measure_bias_offsets(s)
    assert checks(s) == ["bias-off-zero"] * is_off


@pytest.mark.parametrize("others, is_off", [(0.29, True), (0.31, False)])  # a third of 0.9
def test_counterparts_of_a_bias_around_another_number_are_near_zero(others, is_off):
    model = Layers()
    for layer in model.layers:
        layer["norm"].bias.data = others + torch.tensor([-0.1, 0.1] * 16)
    model.layers[2]["norm"].bias.data = 0.9 + torch.tensor([-0.01, 0.01] * 16)
    s = subject(model)
    weights.measure_bias_offsets(s)
    assert checks(s) == ["bias-off-zero"] * is_off


@pytest.mark.parametrize("width, is_off", [(16, True), (15, False)])
def test_a_short_bias_may_lie_around_any_number_by_chance(width, is_off):
    model = Layers(width=width)
    model.layers[2]["norm"].bias.data += 1
    s = subject(model)
    weights.measure_bias_offsets(s)
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
    weights.measure_bias_offsets(s)
    assert checks(s) == ["bias-off-zero"] * is_common  # the largest may differ by a fifth of the mean, 1.02


@pytest.mark.parametrize("off, is_named", [(0.9e-6, True), (1.1e-6, False)])
def test_an_activation_is_recognized_within_rounding(off, is_named):
    s = subject(Layers(), hidden_act="gelu")
    s.where = lambda: "layers.1.map"

    def found(activation, off):
        check = activations.Activations(s)
        made = torch.randn(40, 32, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        read = activation(made)
        read = read + off * read.square().mean().sqrt() * torch.tensor([-1.0, 1.0]).double().repeat(16)
        check("linear", (torch.ones(40, 32), None), {}, made.float())
        check("linear", (read.float(), None), {}, torch.ones(40, 32))
        return set(check._found), check._as_declared

    assert found(nn.functional.silu, off) == ({"layers.1.map"} if is_named else set(), set())
    # The declared activation may differ by twice as much, and another one is not looked for then.
    assert found(nn.functional.gelu, 2 * off) == (set(), {"layers.1.map"} if is_named else set())


@pytest.mark.parametrize("of_usual, follows", [(1.09, True), (1.11, False), (0.91, True), (0.89, False)])
def test_initial_weights_follow_the_configuration_if_most_have_its_size(of_usual, follows):
    model = Layers(3)
    for layer in model.layers[:2]:
        layer["map"].weight.data *= 0.02 * of_usual
    assert weights.follows_range(subject(model, initializer_range=0.02)) == follows
    model.layers[1]["map"].weight.data *= 3  # one of three is not most of them
    assert not weights.follows_range(subject(model, initializer_range=0.02))


@pytest.mark.parametrize("shape, share, is_usual", [
    ((64, 32), 0.76, True), ((64, 32), 0.74, False), ((64, 32), 1.49, True), ((64, 32), 1.51, False),
    ((64, 32), 0, True), ((64, 64), 0.01, True), ((64, 64), 1.51, False),  # a map into the stream may be smaller
    # The size of 32 drawn values has a standard error of 1 / √64; five of them are allowed.
    ((8, 4), 1.62, True), ((8, 4), 1.63, False), ((8, 4), 0.38, True), ((8, 4), 0.37, False)])
def test_initial_weights_have_the_usual_size_within_chance(shape, share, is_usual):
    model = nn.Linear(*shape[::-1])
    s = subject(model, hidden_size=64 if shape == (64, 64) else 16)
    weight = torch.full(shape, 0.02 * share, dtype=torch.float64)
    assert weights._is_of_size(s, "weight", weight, 0.02) == is_usual


@pytest.mark.parametrize("mean, expected, is_off", [
    (0.79, 1, True), (0.81, 1, False), (1.21, 1, True), (0.21, 0, True), (0.19, 0, False),
    (0.9e-3, 1, False), (1.1e-3, 1, True)])  # a norm that begins at 0 on purpose
def test_gains_begin_at_1_or_at_0(mean, expected, is_off):
    assert weights._is_off(mean, expected) == is_off


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


@pytest.mark.parametrize("spread, is_equal", [(0.9e-5, True), (1.1e-5, False)])
def test_a_list_starts_from_equal_tokens_within_rounding(spread, is_equal):
    model = Layers(3)
    s = subject(model)
    found = starts.Starts(s)
    x = 1 + spread * torch.tensor([-1.0, 1.0], dtype=torch.float64).repeat(4)[None, :, None].expand(2, 8, 4)
    found.enter(model.layers[0], (x,))
    assert found.is_equal("layers.1.map") == is_equal


@pytest.mark.parametrize("rounding, difference, limit", [
    (None, 0.9e-4, 1e-4),  # not asked for
    (0.01, 0.9e-4, 1e-4), (0.01, 2e-4, 0.03), (1e-6, 2e-4, 1e-4), (0.09, 0.5, 0.27), (0.2, 0.5, 0.3)])
def test_a_large_difference_may_be_three_roundings_of_a_tenth_at_most(rounding, difference, limit):
    s = SimpleNamespace(rounding=rounding)
    assert noise.limit_of(s, difference, torch.zeros(1)) == pytest.approx(limit)
    assert noise.limit_of(s, 0, torch.zeros(1, dtype=torch.float16)) == 0.03
    assert noise.limit_of(s, 0, torch.zeros(1), noise.SAME_SHAPES) == pytest.approx(0.2e-4)


# -- Attention --


@pytest.mark.parametrize("noise, factor", [(0.0099, 0.25), (0.0101, None)])
def test_logits_are_a_multiple_of_the_product_within_a_hundredth(noise, factor):
    product, other = directions(2)
    logits = (0.25 * product + 0.25 * noise * other).reshape(10, 100)
    found = attention_scale.multiple(logits, product.reshape(10, 100))
    assert found == (None if factor is None else pytest.approx(factor))


@pytest.mark.parametrize("value, is_seen", [(-0.9e4, True), (-1.1e4, False), (-math.inf, False)])
def test_a_mask_is_no_part_of_the_logits(value, is_seen):
    product = torch.randn(4, 10)
    logits = 0.25 * product
    logits[1, 3] = value
    assert (attention_scale.multiple(logits, product) is None) == is_seen


@pytest.mark.parametrize("spread, is_equal", [(0.0199, True), (0.0201, False)])
def test_rows_of_one_length_were_normalized(spread, is_equal):
    lengths = 1 + spread * math.sqrt(63 / 64) * torch.tensor([-1.0, 1.0], dtype=torch.float64).repeat(32)
    rows = torch.randn(64, 8, dtype=torch.float64)
    rows *= (lengths / rows.norm(dim=-1))[:, None]
    assert attention_scale._has_equal_rows(rows[None]) == is_equal
    # All heads of a token in one row: [sequences, heads, tokens, features].
    assert attention_scale._has_equal_rows(rows.reshape(64, 2, 4).transpose(0, 1)[None]) == is_equal


@pytest.mark.parametrize("off, is_turned", [(0.0199, True), (0.0201, False)])
def test_a_rotation_keeps_the_lengths_of_tokens(off, is_turned):
    rows = torch.randn(1, 5, 8, dtype=torch.float64)
    rows /= rows.norm(dim=-1, keepdim=True)
    other = 3 * rows[..., [1, 0, 3, 2, 5, 4, 7, 6]]
    # The squares of two lengths move by ±off, so their mean stays.
    other[0, 0] *= math.sqrt(1 + off)
    other[0, 1] *= math.sqrt(1 - off)
    assert attention_scale._is_turned(other, rows) == is_turned


def scaled(factors, width=64):
    """Returns the findings on attention with these factors in its layers."""
    s = subject()
    s.of_all_layers = lambda place: "layer.*"
    found = attention_scale.AttentionScale(s)
    for i, factor in enumerate(factors):
        found.found[f"layer.{i}"] = factor, width
        found._factors[f"layer.{i}"] = factor
    found.add()
    return [(line["check"], line["where"]) for line in s.lines]


@pytest.mark.parametrize("factor, is_named", [
    (1.1, True), (1.11, False), (0.91, True), (0.90, False), (0.125 * 1.1, True), (0.125 * 1.11, False), (0.5, False)])
def test_a_scale_is_named_near_1_and_near_the_root_of_the_width(factor, is_named):
    assert scaled([factor]) == [("attention-scale", "layer.0")] * is_named


@pytest.mark.parametrize("factors, is_odd", [
    ([0.5, 0.5, 0.53, 0.5, 0.5], True), ([0.5, 0.5, 0.52, 0.5, 0.5], False), ([0.5, 0.5, 0.47, 0.5, 0.5], True),
    ([0.5, 0.5, 0.7, 0.5], False), ([0.5, 0.7, 0.7, 0.5, 0.5], False), ([-0.5, -0.5, -0.7, -0.5, -0.5], False)])
def test_a_scale_that_differs_from_all_others_is_odd(factors, is_odd):
    assert scaled(factors) == [("attention-scale-odd", "layer.2")] * is_odd


def measured_scale(width, ratio):
    """Returns the measured scale of attention whose queries are `ratio` times as large as its keys."""
    s = subject()
    found = attention_scale.AttentionScale(s)
    q, k = torch.randn(2, 1, 9, width, generator=torch.Generator().manual_seed(0), dtype=torch.float64).unbind()
    q = q * ratio * k.norm() / q.norm()
    for projected in q, k:
        found("linear", (), {}, projected)
    found("scaled_dot_product_attention", (q, k), {}, q)
    return found.found.get("", (None,))[0]


@pytest.mark.parametrize("order", ["one after the other", "concatenated", "head by head", "keys and values by one map"])
def test_the_scale_is_that_between_projections_in_any_order(order):
    """A model that makes the queries 3 times as large behind their projection, which the scale includes."""
    s = subject()
    found = attention_scale.AttentionScale(s)
    q, k, v = torch.randn(3, 2, 5, 4, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    concatenated = [t.flatten(-2) for t in (q, k, v)]  # [sequences, tokens, heads · width]
    made = {"one after the other": concatenated, "concatenated": [torch.cat(concatenated, -1)],
            "head by head": [torch.stack([q, k, v], -2).flatten(-3)],
            "keys and values by one map": [concatenated[0], torch.cat(concatenated[1:], -1)]}[order]
    for projected in made:
        found("linear", (), {}, projected)
    found("scaled_dot_product_attention", (3 * q.transpose(1, 2), k.transpose(1, 2)), {}, q)
    assert found.found[""][0] == pytest.approx(3 / 4)


@pytest.mark.parametrize("width, scale", [(7, None), (8, 8**-0.5)])
def test_the_scale_of_narrow_heads_is_not_measured(width, scale):
    assert measured_scale(width, 1) == (None if scale is None else pytest.approx(scale))


@pytest.mark.parametrize("off, is_measured", [(0.29, False), (0.31, True), (-0.29, False), (-0.31, True)])
def test_queries_that_are_smaller_by_the_root_of_the_width_include_the_scale(off, is_measured):
    assert (measured_scale(64, math.exp(off) / 8) is not None) == is_measured


def test_the_rate_of_dropout_is_that_of_each_function():
    rate, x = functions.dropout_rate, torch.ones(2)
    assert rate("dropout", (x,), {}) == inspect.signature(nn.functional.dropout).parameters["p"].default
    assert [rate("dropout", (x, 0.3), {}), rate("dropout", (x,), {"p": 0.3})] == [0.3, 0.3]
    assert [rate("dropout", (x, 0.3, False), {}), rate("dropout", (x, 0.3), {"training": False})] == [0, 0]
    fused = "scaled_dot_product_attention"
    assert [rate(fused, (x, x, x), {}), rate(fused, (x, x, x, None, 0.3), {})] == [0, 0.3]
    assert rate(fused, (x, x, x), {"dropout_p": 0.3}) == 0.3
    names = list(inspect.signature(nn.functional.multi_head_attention_forward).parameters)
    given = [None] * names.index("dropout_p") + [0.3]
    whole = "multi_head_attention_forward"
    assert [rate(whole, tuple(given), {}), rate(whole, (), {"dropout_p": 0.3}), rate(whole, (), {})] == [0.3, 0.3, 0]
    assert rate(whole, tuple(given), {"training": False}) == 0
    assert rate("linear", (x, 0.3), {}) == 0


def fused(q, k, v):
    """Returns the findings of one call of fused attention."""
    s = subject()
    found = behaviour_attention.AttentionChecks(s, starts.Starts(s))
    found("scaled_dot_product_attention", (q, k, v), {}, torch.zeros(*q.shape[:-1], v.shape[-1]))
    found.add()
    return checks(s)


@pytest.mark.parametrize("keys", [6, 9])  # as many as queries, and of another sequence
def test_heads_that_are_alike_in_fused_attention(keys):
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 4, 6, 8), torch.randn(2, 4, keys, 8), torch.randn(2, 4, keys, 8)
    assert fused(q, k, v) == []
    q[:, 2], k[:, 2] = q[:, 0], k[:, 0]
    assert fused(q, k, v) == ["heads-alike"]
    k[:, 2] += 1e-3 * torch.randn(2, keys, 8)
    assert fused(q, k, v) == []


@pytest.mark.parametrize("off, is_alike", [(0.9e-6, True), (1.1e-6, False)])
def test_heads_are_alike_within_rounding(off, is_alike):
    s = subject()
    found = behaviour_attention.AttentionChecks(s, starts.Starts(s))
    heads = torch.rand(1, 4, 50, dtype=torch.float64)
    heads[0, 3] = heads[0, 1]
    heads[0, 3, 7], heads[0, 1, 7] = off, 0
    found._add_heads(heads)
    assert bool(found._found) == is_alike


@pytest.mark.parametrize("axis, found", [(3, []), (1, ["softmax-axis"]), (2, ["softmax-axis"])])
def test_weights_add_up_over_the_axis_that_the_values_are_summed_over(axis, found):
    torch.manual_seed(0)
    s = subject()
    check = behaviour_attention.AttentionChecks(s, starts.Starts(s))
    logits, v = torch.randn(2, 4, 6, 6), torch.randn(2, 4, 6, 8)
    p = logits.softmax(axis)
    check("softmax", (logits, axis), {}, p)
    check("matmul", (p, v), {}, p @ v)
    check.add()
    assert checks(s) == found


@pytest.mark.parametrize("off, is_found", [(0.049, False), (0.051, True)])
def test_weights_may_miss_1_by_a_twentieth(off, is_found):
    s = subject()
    check = behaviour_attention.AttentionChecks(s, starts.Starts(s))
    check._see_axis(torch.full((1, 1, 4, 4), (1 - off) / 4), 2)
    assert bool(check._found) == is_found


@pytest.mark.parametrize("off, is_named", [(0.9e-3, False), (1.1e-3, True)])
@pytest.mark.parametrize("weight", [0.25, 0.4])  # of four keys; the second is the weight of a softmax over another axis
def test_heads_with_the_same_weight_for_all_keys_tell_nothing(off, is_named, weight):
    s = subject()
    check = behaviour_attention.AttentionChecks(s, starts.Starts(s))
    w = torch.full((1, 3, 4, 4), weight, dtype=torch.float64)
    w[..., 0] += off if weight == 0.4 else 2 * off
    w[..., 1] -= 0 if weight == 0.4 else 2 * off
    check._see_heads(w if weight == 0.4 else (w + 0.25) / 2)
    assert bool(check._found) == is_named


@pytest.mark.parametrize("off, is_uniform", [(0.9e-3, True), (1.1e-3, False)])
def test_equal_weights_of_the_keys_that_are_seen_tell_nothing(off, is_uniform):
    w = torch.tensor([[0.5 + off, 0.5 - off, 0], [1, 0, 0]], dtype=torch.float64)
    assert behaviour_attention._is_uniform_where_visible(w) == is_uniform


@pytest.mark.parametrize("least, is_uniform", [(0.9e-9, True), (1.1e-9, False)])
def test_a_key_with_next_to_no_weight_is_not_seen(least, is_uniform):
    assert behaviour_attention._is_uniform_where_visible(torch.tensor([[1 - least, least]]).double()) == is_uniform


# -- The loss and the logits --


def predicting(targets, vocabulary=20, classes=0):
    """Returns the gradient of the cross-entropy of these targets; -1 is no target."""
    logits = torch.randn(*targets.shape, vocabulary, generator=torch.Generator().manual_seed(0), requires_grad=True)
    loss = nn.functional.cross_entropy(logits.flatten(0, -2), targets.flatten(), ignore_index=-1)
    loss.backward()
    return SimpleNamespace(logits=logits, by_logits=logits.grad, loss=float(loss))


def targets_of(tokens, targets):
    s = Subject(nn.Linear(2, 2), (tokens,), {}, None)
    return targets_module.next_token_targets(s, predicting(targets))


@pytest.mark.parametrize("length, is_found", [(3, False), (4, True)])
@pytest.mark.parametrize("time", [0, 1])
def test_next_tokens_are_recognized_from_four_tokens_on(length, is_found, time):
    tokens = torch.arange(7 * length).reshape(7, length) % 20
    targets = torch.cat([tokens[:, 1:], torch.full((7, 1), -1)], 1)
    if time == 0:
        tokens, targets = tokens.T, targets.T
    found = targets_of(tokens, targets)
    assert (found and found.time) == (time if is_found else None)


@pytest.mark.parametrize("wrong, is_found", [(4, True), (6, False)])
def test_nearly_all_targets_are_next_tokens(wrong, is_found):
    tokens = torch.arange(101)[None] % 20
    targets = torch.cat([tokens[:, 1:], torch.tensor([[-1]])], 1)
    targets[0, 10:10 + wrong] = (targets[0, 10:10 + wrong] + 7) % 20
    assert (targets_of(tokens, targets) is not None) == is_found


@pytest.mark.parametrize("repeated, is_found", [(49, True), (51, False)])
def test_targets_that_are_also_the_tokens_themselves_tell_nothing(repeated, is_found):
    tokens = torch.cat([torch.zeros(repeated + 1, dtype=torch.int64), torch.arange(1, 101 - repeated) % 19 + 1])[None]
    targets = torch.cat([tokens[:, 1:], torch.tensor([[-1]])], 1)
    assert (targets_of(tokens, targets) is not None) == is_found


@pytest.mark.parametrize("factor, is_mean", [(1.009, True), (1.011, False), (0.991, True), (0.989, False)])
def test_the_initial_loss_is_the_mean_of_a_cross_entropy(factor, is_mean):
    g = predicting(torch.arange(10).reshape(2, 5))
    g.loss *= factor
    s = subject()
    targets_module.measure_initial_loss(s, g)
    assert checks(s) == ["initial-loss"] * is_mean


@pytest.mark.parametrize("vocabulary, is_found", [(2, False), (3, True)])
def test_two_classes_may_be_any_loss(vocabulary, is_found):
    targets = torch.arange(10).reshape(2, 5) % vocabulary
    assert (targets_module.predicted_tokens(predicting(targets, vocabulary)) is not None) == is_found


@pytest.mark.parametrize("step, keeps", [(0.9e-6, True), (1.1e-6, False)])
def test_a_bound_keeps_the_order_of_logits_within_rounding(step, keeps):
    before = torch.tensor([[0.0, 1.0, 2.0, 3.0]], dtype=torch.float64)
    after = torch.tensor([[0.0, 0.5, 0.5 - step, 1.0]], dtype=torch.float64)
    assert logits._keeps_order(before, after) == keeps
    assert logits._keeps_order(before, before.tanh())
    assert not logits._keeps_order(before, torch.zeros_like(before))


def logits_of(change, vocabulary=50, head=None):
    """Returns the findings if the logits are a change of what the head returned."""
    head = head or nn.Linear(8, vocabulary)
    model = nn.Sequential(nn.Embedding(vocabulary, 8), head)
    s = subject(model, vocab_size=vocabulary)
    tracer = SimpleNamespace(has_logits=True)
    found = logits.HeadOutput(s, tracer)
    made = torch.randn(2, 7, vocabulary, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    made[..., 1] = 5
    s.runs[-1].inside.append(head)
    found("linear", (), {}, made)
    tracer.output = change(made)
    found.add()
    return checks(s)


def rolled(share):
    """Returns a change that moves the logits to other entries, and changes them by a share of the largest."""
    return lambda made: made.roll(1, -1) + share * made.abs().max() * torch.eye(made.shape[-1]).double()[3]


def added(share):
    """Returns a change that adds a bias, and values that are this share of it and not a bias."""
    def change(made):
        bias = 9 * torch.linspace(-1, 1, made.shape[-1]).double().flip(0)
        own = torch.randn(14, made.shape[-1], generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        own -= own.mean(0)
        size = (bias.square().mean() / own.square().mean()).sqrt()
        moved = made + bias + share * size * own.view_as(made)
        return moved
    return change


def masked(value):
    """Returns a change of the largest logits of one sequence, which reorders them or hides them."""
    def change(made):
        found = made.clone()
        found[0, :, 1] = value
        return found
    return change


def test_logits_are_what_the_head_returned():
    assert logits_of(lambda made: made) == []
    assert logits_of(lambda made: 0 * made) == ["logits-changed"]
    assert logits_of(lambda made: made.roll(1, -1)) == ["logits-changed"]
    assert logits_of(lambda made: made.tanh()) == []


@pytest.mark.parametrize("share, is_named", [(0.9e-6, True), (1.1e-6, False)])
def test_logits_that_moved_are_the_same_numbers_within_rounding(share, is_named):
    assert logits_of(rolled(share)) == ["logits-changed"] * is_named


@pytest.mark.parametrize("given, is_offset", [
    (torch.arange(5), True), (torch.arange(5) + 3, True), (torch.arange(5) * 2, False), (torch.arange(6), False),
    (torch.arange(5)[:, None], True), (torch.ones(5, dtype=torch.bool), False)])
def test_positions_are_offset_by_one_constant(given, is_offset):
    assert positions._is_offset(torch.arange(5), given) == is_offset
    assert not positions._is_offset(torch.arange(1), torch.arange(1))  # one number is an offset of any other
    assert not positions._is_offset(torch.ones(5, dtype=torch.int64), torch.ones(5, dtype=torch.bool))  # a mask of ones


@pytest.mark.parametrize("change, is_named", [
    (lambda made: made * 1.0009, False), (lambda made: made * 1.0011, True),  # a factor, near 1e-3
    (added(0.9e-5), False), (added(1.1e-5), True),
    (masked(-0.9e4), True), (masked(-1.1e4), False), (masked(-math.inf), False)])
def test_logits_of_transformers_are_not_scaled_or_reordered(change, is_named, monkeypatch):
    monkeypatch.setattr(Subject, "is_of_transformers", True)
    assert logits_of(change) == ["logits-changed"] * is_named


@pytest.mark.parametrize("rate, is_named", [(0.1, False), (0.1 + 0.9e-6, False), (0.1 + 1.1e-6, True), (0.2, True)])
def test_dropout_in_layers_has_a_rate_of_the_configuration(rate, is_named):
    s = subject(Layers(), hidden_dropout=0.1)
    found = configuration.Computed(s)
    found._rates[rate] = ["layers.1.map"]
    found.add()
    assert checks(s) == ["unlike-config"] * is_named


@pytest.mark.parametrize("eps, is_named", [
    (1e-5, False), (1e-6, False), (1e-8, False), (1e-12, False), (3e-4, False), (1e-7, True), (1e-4, True),
    (1.01e-5, True)])
def test_a_norm_has_an_epsilon_of_the_configuration_or_a_usual_one(eps, is_named):
    model = Layers()
    norms_of_model = [module for module in model.modules() if isinstance(module, nn.LayerNorm)]
    for norm in norms_of_model:
        norm.eps = eps
    s = subject(model, layer_norm_eps=3e-4)
    configuration.Computed(s).add()
    assert checks(s) == ["unlike-config"] * is_named
    norms_of_model[0].eps = 1e-2  # one of several is the probe's
    s = subject(model, layer_norm_eps=3e-4)
    configuration.Computed(s).add()
    assert checks(s) == ["unlike-config"] * is_named


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


# -- Locality, and norms' statistics --


def test_the_reach_of_a_token_counts_the_tokens_above_the_limit():
    limit = locality.LIMIT**2
    energy = torch.tensor([[1.1 * limit, 0.9 * limit, 0.5, 0.9 * limit, 1.1 * limit, 0.9 * limit],
                           [0, 0, 0.3, 0, 0.1, 0]])
    for time, e in (1, energy), (0, energy.T):
        at = (0, 2) if time else (2, 0)
        share = locality._shares(e, at, time)
        assert (share.ahead, share.behind) == (2, 2)
        assert share.batch == pytest.approx(math.sqrt(0.4))
        assert share.past == pytest.approx(math.sqrt(2.0 * limit))
        assert share.future == pytest.approx(math.sqrt(2.9 * limit))
        assert locality._mixes_along(e, at, time)
        assert locality._mixes_along(e, at, 1 - time)
    assert not locality._mixes_along(torch.tensor([[0.9 * limit, 1.0], [0.0, 0.9]]), (0, 1), 1)
    assert locality._shares(torch.tensor([0.0, 0.09, 1.0]), (2,), 1).batch == pytest.approx(0.3)


class Scaled(nn.LayerNorm):
    """A norm whose gradient has a part along its input, as if its statistics were constants."""

    def __init__(self, width, eps=0.0):
        super().__init__(width, eps=eps)

    def forward(self, x):
        deviation = x.var(-1, unbiased=False, keepdim=True).sqrt().detach()
        return (x - x.mean(-1, keepdim=True)) / (deviation + self.eps)


def test_a_gradient_along_the_input_is_that_of_detached_statistics():
    torch.manual_seed(0)
    x = torch.randn(64, 256, dtype=torch.float64)
    assert norm_statistics._share_along_input(nn.LayerNorm(256, eps=0).double(), x) < 1e-6
    # A detached norm passes a random gradient on, of which a direction in 256 dimensions gets 1/√256: the share is 1.
    assert norm_statistics._share_along_input(Scaled(256).double(), x) == pytest.approx(1, rel=0.3)


@pytest.mark.parametrize("eps, is_told", [(0.0095, True), (0.0105, False)])
def test_rows_that_are_small_beside_epsilon_tell_nothing(eps, is_told):
    x = torch.randn(64, 256, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x /= x.std(-1, unbiased=False, keepdim=True)
    # Twice the row changes the output by ε / (2 + ε) of it, about 5e-3 at ε = 0.01.
    assert (norm_statistics._share_along_input(Scaled(256, eps), x) is not None) == is_told


@pytest.mark.parametrize("small, is_told", [(31, True), (33, False)])
def test_most_rows_must_be_large_beside_epsilon(small, is_told):
    x = torch.randn(64, 256, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x[:small] *= 1e-4
    assert (norm_statistics._share_along_input(Scaled(256, 1e-3), x) is not None) == is_told
