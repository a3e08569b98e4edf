"""The limits of the behaviour checks: the loss. Cases are below and above each (HACKING.md)."""

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
from addnorm.behaviour.parameters.initial_loss import measure_initial_loss  # noqa: E402
from addnorm.behaviour.run.subject import Subject  # noqa: E402
from addnorm.behaviour.run.targets import next_token_targets, predicted_tokens  # noqa: E402
from behaviour_subjects import checks, subject  # noqa: E402
from torch import nn  # noqa: E402

torch.set_num_threads(1)


def predicting(targets, vocabulary=20, classes=0):
    """Returns the gradient of the cross-entropy of these targets; -1 is no target."""
    logits = torch.randn(*targets.shape, vocabulary, generator=torch.Generator().manual_seed(0), requires_grad=True)
    loss = nn.functional.cross_entropy(logits.flatten(0, -2), targets.flatten(), ignore_index=-1)
    loss.backward()
    return SimpleNamespace(logits=logits, by_logits=logits.grad, loss=float(loss))


def targets_of(tokens, targets):
    s = Subject(nn.Linear(2, 2), (tokens,), {}, None)
    return next_token_targets(s, predicting(targets))


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
    measure_initial_loss(s, g)
    assert checks(s) == ["initial-loss"] * is_mean


@pytest.mark.parametrize("vocabulary, is_found", [(2, False), (3, True)])
def test_two_classes_may_be_any_loss(vocabulary, is_found):
    targets = torch.arange(10).reshape(2, 5) % vocabulary
    assert (predicted_tokens(predicting(targets, vocabulary)) is not None) == is_found
