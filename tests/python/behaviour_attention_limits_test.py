"""The limits of the behaviour checks: attention. Cases are below and above each (HACKING.md)."""

import math

import pytest

torch = pytest.importorskip("torch")
from addnorm.behaviour.forwards import attention_scale  # noqa: E402
from addnorm.behaviour.forwards import attention as behaviour_attention  # noqa: E402
from addnorm.behaviour.run import starts, tensors  # noqa: E402
from behaviour_subjects import checks, subject  # noqa: E402
from directions import directions  # noqa: E402

torch.set_num_threads(1)


@pytest.mark.parametrize("noise, factor", [(0.0099, 0.25), (0.0101, None)])
def test_logits_are_a_multiple_of_the_product_within_a_hundredth(noise, factor):
    product, other = directions(2)
    logits = (0.25 * product + 0.25 * noise * other).reshape(10, 100)
    found = tensors.multiple(logits, product.reshape(10, 100))
    assert found == (None if factor is None else pytest.approx(factor))


@pytest.mark.parametrize("value, is_seen", [(-0.9e4, True), (-1.1e4, False), (-math.inf, False)])
def test_a_mask_is_no_part_of_the_logits(value, is_seen):
    product = torch.randn(4, 10)
    logits = 0.25 * product
    logits[1, 3] = value
    assert (tensors.multiple(logits, product) is None) == is_seen


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
    found.add_lines()
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


def fused(q, k, v):
    """Returns the findings of one call of fused attention."""
    s = subject()
    found = behaviour_attention.AttentionChecks(s, starts.Starts(s))
    found("scaled_dot_product_attention", (q, k, v), {}, torch.zeros(*q.shape[:-1], v.shape[-1]))
    found.add_lines()
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
    check.add_lines()
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
