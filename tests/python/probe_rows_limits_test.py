"""The limits of the probe: measured tokens. Cases are below and above each (HACKING.md)."""

import pytest

torch = pytest.importorskip("torch")
from addnorm.probe.measure.rows import Rows  # noqa: E402

torch.set_num_threads(1)


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
