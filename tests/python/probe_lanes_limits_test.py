"""The limits of the probe: lanes. Cases are below and above each (HACKING.md)."""

import math

import pytest

torch = pytest.importorskip("torch")
from addnorm.probe.find import lane_coefficients  # noqa: E402
from addnorm.probe.find import lanes as find_lanes  # noqa: E402
from addnorm.probe.fit import lanes as fit_lanes  # noqa: E402
from addnorm.probe.fit.lanes import LaneRows  # noqa: E402
from addnorm.probe.record.graph import Op, Value  # noqa: E402
from directions import directions  # noqa: E402

torch.set_num_threads(1)


@pytest.mark.parametrize("size, is_written", [(0.9e-6, False), (1.1e-6, True)])
def test_a_branch_that_is_next_to_nothing_has_no_factor(size, is_written):
    before = torch.randn(5, 3, 8, dtype=torch.float64)
    branch = torch.randn(5, 8, dtype=torch.float64)
    branch *= size * before.norm() / branch.norm()
    values = LaneRows(before, branch, before + branch[:, None], 1e-7)
    assert fit_lanes.explain_by_row(values).of.shape[-1] == (4 if is_written else 3)


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
