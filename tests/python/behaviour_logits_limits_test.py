"""The limits of the behaviour checks: logits and positions. Cases are below and above each (HACKING.md)."""

import math
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
from addnorm.behaviour.forwards import logits, positions  # noqa: E402
from addnorm.behaviour.run.subject import Subject  # noqa: E402
from behaviour_subjects import checks, subject  # noqa: E402
from torch import nn  # noqa: E402

torch.set_num_threads(1)


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
    found.add_lines()
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
