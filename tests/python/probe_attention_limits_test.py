"""The limits of the probe: the logits of attention. Cases are below and above each (HACKING.md)."""

import math

import pytest

torch = pytest.importorskip("torch")
from addnorm.probe.fit import attention  # noqa: E402
from addnorm.probe.fit.batch import fit_now  # noqa: E402

torch.set_num_threads(1)


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
