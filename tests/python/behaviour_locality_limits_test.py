"""The limits of the behaviour checks: locality, statistics of norms. Cases are below and above each (HACKING.md)."""

import math

import pytest

torch = pytest.importorskip("torch")
from addnorm.behaviour.forwards import locality, norm_statistics  # noqa: E402
from torch import nn  # noqa: E402

torch.set_num_threads(1)


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
