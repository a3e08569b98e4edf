"""The limits of the behaviour checks: runs and their functions. Cases are below and above each (HACKING.md)."""

import inspect
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
from addnorm.behaviour.forwards import activations  # noqa: E402
from addnorm.behaviour.run import differences, functions, starts  # noqa: E402
from behaviour_subjects import Layers, subject  # noqa: E402
from torch import nn  # noqa: E402

torch.set_num_threads(1)


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
    assert differences.limit_of(s, difference, torch.zeros(1)) == pytest.approx(limit)
    assert differences.limit_of(s, 0, torch.zeros(1, dtype=torch.float16)) == 0.03
    assert differences.limit_of(s, 0, torch.zeros(1), differences.SAME_SHAPES) == pytest.approx(0.2e-4)


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
