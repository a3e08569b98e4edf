"""The lab's functions return plain data, with the numbers of the program and of NumPy."""

import addnorm
import numpy as np
import pytest

rng = np.random.default_rng(0)


def test_trace_is_add_and_norm_by_hand():
    t = addnorm.trace([1, 2, 3, 4], [0.5, -1, 2, 0], 2.0, (0, 0, 0, 1))
    s = np.array([1.5, 1, 5, 4])
    assert t["sum"] == list(s)
    assert (t["mean"], t["variance"]) == pytest.approx((s.mean(), s.var()))
    normalized = (s - s.mean()) / np.sqrt(s.var() + 1e-5)
    assert t["normalized"] == pytest.approx(list(normalized))
    assert t["output"] == pytest.approx(list(2 * normalized + [0, 0, 0, 1]))
    assert addnorm.trace(np.ones(3), placement="none")["branch"] is None
    with pytest.raises(addnorm.Error, match="branch: has 1 values; expected 2"):
        addnorm.trace([1, 2], [1])
    with pytest.raises(addnorm.Error, match='placement "sandwitch" is unknown, must be one of'):
        addnorm.trace([1, 2], placement="sandwitch")
    with pytest.raises(TypeError, match="must be real|could not convert|float"):
        addnorm.trace([None])


def test_trace_takes_arrays_and_tensors():
    plain = addnorm.trace([1, 2, 4], gamma=[2, 1, 1])
    assert addnorm.trace(np.array([1., 2, 4]), gamma=np.array([2., 1, 1])) == plain
    assert addnorm.trace([np.array(1.), np.array(2.), 4], gamma=[2, 1, 1]) == plain
    torch = pytest.importorskip("torch")
    assert addnorm.trace(torch.tensor([1., 2, 4]), gamma=torch.tensor([2., 1, 1])) == plain
    assert addnorm.trace(torch.tensor([1., 2, 4]), gamma=torch.tensor(2.)) == addnorm.trace([1, 2, 4], gamma=2)


def test_trace_of_lanes_is_their_formula():
    x, f = rng.standard_normal((3, 4)), rng.standard_normal(4)
    for placement in "mhc", "hyper", "wide":
        for t in (addnorm.trace(x, f, placement=placement, layer=3, sublayer="feed_forward"),
                  addnorm.trace(x[0], f, placement=placement, lanes=3, layer=3, sublayer="feed_forward")):
            lanes, read, carry, write = (np.array(t[key]) for key in ("lanes", "read", "carry", "write"))
            np.testing.assert_allclose(t["z"], (read @ lanes)[0], atol=1e-14)
            z = np.array(t["z"])
            h = (z - z.mean()) / np.sqrt(z.var() + 1e-5)
            np.testing.assert_allclose(t["h"], h, atol=1e-13)
            np.testing.assert_allclose(t["norms"]["before"]["output"], h, atol=1e-13)
            np.testing.assert_allclose(t["output"], carry @ lanes + write * f, atol=1e-14)
            assert (t["layer"], t["layers"], t["sublayer"]) == (3, 12, "feed_forward")
    assert t["lanes"] == [list(x[0])] * 3  # the embedding, three times
    assert addnorm.trace(x, f, placement="mhc")["lanes"] == x.tolist()
    np.testing.assert_allclose(np.sum(addnorm.trace(x, f, placement="mhc")["carry"], 0), 1, atol=1e-5)


def test_trace_of_any_placement_has_its_factors():
    x, f = rng.standard_normal(4), rng.standard_normal(4)
    t = addnorm.trace(x, f, 2.0, placement="keel", layers=8)
    s = 16 * x + f
    assert (t["skip"], t["gain"]) == (16, 1)
    np.testing.assert_allclose(t["output"], 2 * (s - s.mean()) / np.sqrt(s.var() + 1e-5), atol=1e-12)
    assert addnorm.trace(x, f, placement="pre:2+post", layer=3) == addnorm.trace(x, f)
    for arguments, sentence in [(dict(x=np.ones((3, 4)), placement="pre"), "takes 1 lane, not 3"),
                                (dict(x=[[1, 2], [3]], placement="hyper"), "x: lane 1 has 1; expected 2"),
                                (dict(placement="pre", lanes=2), "takes 1 lane, not 2"),
                                (dict(layer=13), "layer: is 13; expected 1 to 12"),
                                (dict(layer=0), "layer is 0, must be at least 1"),
                                (dict(layers=0), "layers: is 0"),
                                (dict(sublayer="head"), 'sublayer "head" is unknown, must be one of')]:
        with pytest.raises(addnorm.Error, match=sentence):
            addnorm.trace(**{"x": [1, 2], **arguments})


def test_reproduce_gives_pytorchs_numbers():
    torch = pytest.importorskip("torch")
    torch.manual_seed(42)
    token = (torch.randn(2, 4, 8) * 10 + 5)[0, 0]
    before = addnorm.reproduce(42)["layer_norm"]["before"]
    assert before["mean"] == pytest.approx(token.mean().item(), rel=1e-6)
    assert before["std"] == pytest.approx(token.std().item(), rel=1e-6)


def test_figures_can_be_asked_for_by_their_names():
    names = [figure["name"] for figure in addnorm.figures()["figures"]]
    assert len(names) == 19 and "variance" in names
    result = addnorm.figure("variance", layers=6, seeds=4)
    assert result["options"]["layers"] == [6] and result["options"]["seeds"] == 4
    assert result["verdict"] == "inside"
    curve = result["panels"][0]["measured"][0]
    assert len(curve["x"]) == len(curve["y"]) == 7
    assert addnorm.figure("gradient-flow", bug="norm-missing")["verdict"] == "outside"
    for arguments, sentence in [(dict(name="nothing"), '"nothing" is unknown, must be one of'),
                                (dict(name="variance", bug="nothing"), '"nothing" is unknown'),
                                (dict(name="variance", text="a" * 5000), "variance trains nothing"),
                                (dict(name="warm-up"), "text: has 0 bytes; expected at least 4096"),
                                (dict(name="variance", layers=-1), r"layers: is \[-1\]; expected a list"),
                                (dict(name="layernorm", layers=3), "layernorm has no such option")]:
        with pytest.raises(addnorm.Error, match=sentence):
            addnorm.figure(**arguments)


SMALL = dict(placements=["pre", "none"], layers=2, width=16, heads=2, context=16, batch=2, steps=4, seeds=1)
TEXT = "In the beginning there was a sum, and a norm after it. " * 40


def test_a_study_trains_and_reports_progress():
    steps = []
    result = addnorm.study(TEXT, **SMALL, progress=lambda *counts: steps.append(counts))
    assert steps == [(i + 1, 16) for i in range(16)]
    assert {p["placement"] for p in result["placements"]} == {"pre", "none"}
    assert all(len(run["losses"]) == 4 for run in result["runs"])
    assert result["options"]["warm_up"] == 2


def test_a_study_ends_with_the_exception_of_its_progress():
    steps = []

    def stop(done, all_steps):
        steps.append(done)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        addnorm.study(TEXT, **SMALL, progress=stop)
    assert steps == [1]


@pytest.mark.parametrize("changes, sentence", [
    ({"placements": ["sideways"]}, "sideways"), ({"heads": 3}, "heads"), ({"steps": -1}, '"steps" is -1'),
    ({"init": "zeros"}, '"zeros" is unknown'), ({"text": "short"}, "text")])
def test_a_study_that_cannot_be(changes, sentence):
    with pytest.raises(addnorm.Error, match=sentence):
        addnorm.study(**{"text": TEXT, **SMALL, **changes})
