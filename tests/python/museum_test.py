"""Every exhibit of the museum is named by its rule at its place, and its sound version has no findings."""

import importlib
import os
import pathlib
import re
import sys

import pytest

torch = pytest.importorskip("torch")
sys.path.append(str(pathlib.Path(__file__).parent))
import museum  # noqa: E402
import museum_page  # noqa: E402

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "museum.md"
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")

each = pytest.mark.parametrize("exhibit", museum.EXHIBITS, ids=lambda e: e.name)


@each
def test_the_sound_version_is_not_accused(exhibit):
    report = museum_page.report(exhibit, exhibit.sound)
    assert [f.name for f in report.findings if f.severity != "note"] == []
    assert all(f.rule != exhibit.rule for f in report.findings)
    assert all(measured == seen for measured, seen in report.coverage.counts.values())


@each
def test_the_bug_is_named_first_and_nothing_else_is(exhibit):
    findings = museum_page.report(exhibit, exhibit.broken).findings
    assert (findings[0].rule, findings[0].where) == (exhibit.rule, exhibit.where)
    assert {f.rule for f in findings if f.severity != "note"} <= {exhibit.rule}
    assert NUMBER.search(findings[0].seen) or exhibit.rule in ("norm-kind", "norm-power", "norm-axis")


@pytest.mark.parametrize("exhibit", museum.UNNAMED, ids=lambda e: e.name)
def test_what_the_page_calls_unnamed_is(exhibit):
    for part in exhibit.sound, exhibit.broken:
        assert [f for f in museum_page.report(exhibit, part).findings if f.severity != "note"] == []


def test_there_are_many_and_each_has_a_thread_and_a_story():
    assert len(museum.EXHIBITS) >= 40 and len({e.thread for e in museum.EXHIBITS}) >= 40
    assert len({e.name for e in museum.EXHIBITS}) == len(museum.EXHIBITS)
    for exhibit in museum.EXHIBITS:
        assert re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", exhibit.thread)
        assert exhibit.broken.__doc__ and exhibit.wrong.endswith(".")
    names = {e.name for e in museum.EXHIBITS + museum.UNNAMED}
    assert all(said.keys() <= names for said in museum.OTHERS.values())


def test_the_page_is_current():
    """The last digits of numbers may differ, because another PyTorch may round differently."""
    written, now = PAGE.read_text(encoding="utf-8"), museum_page.page()
    assert NUMBER.sub("#", written) == NUMBER.sub("#", now)
    pairs = zip(NUMBER.findall(written), NUMBER.findall(now))
    assert [(a, b) for a, b in pairs if float(a) != pytest.approx(float(b), rel=0.05)] == []


def says_torchtest(tool, exhibit, part):
    case = exhibit.case(part)
    model, ids, loss = case["model"], case["inputs"], case["loss"]
    optimizer = case.get("optimizer") or torch.optim.AdamW(model.parameters(), lr=1e-3)
    try:
        tool.torchtest.test_suite(model, lambda y, _: loss(y), optimizer, [ids, ids],
                                  test_vars_change=True, test_nan_vals=True, test_inf_vals=True)
    except tool.torchtest.VariablesChangeException:
        return {"vars_change"}
    return set()


def says_torchtest2(tool, exhibit, part):
    case = exhibit.case(part)
    model, ids, loss = case["model"], case["inputs"], case["loss"]
    optimizer = case.get("optimizer") or torch.optim.AdamW(model.parameters(), lr=1e-3)
    target = ids if isinstance(ids, torch.Tensor) else ids["ids"]
    report = tool.check_model(model, ids, target, loss_fn=lambda y, _: loss(y), optimizer=optimizer)
    return {r.name for r in report.results if str(r.status) in ("FAIL", "WARN")}


@pytest.mark.skipif("ADDNORM_OTHER_TOOLS" not in os.environ, reason="takes minutes")
@pytest.mark.parametrize("tool", museum.OTHERS)
def test_other_tools_say_what_the_page_says(tool):
    module = pytest.importorskip(tool.split()[0])
    if tool.startswith("torchtest "):
        importlib.import_module("torchtest.torchtest")
    asks = {"torchtest": says_torchtest, "torchtest2": says_torchtest2}[tool.split()[0]]
    said = {}
    for exhibit in museum.EXHIBITS + museum.UNNAMED:
        if tool.startswith("torchtest ") and isinstance(exhibit.case(exhibit.sound)["inputs"], dict):
            continue  # the tool passes a single tensor to models
        alone = asks(module, exhibit, exhibit.broken) - asks(module, exhibit, exhibit.sound)
        if alone:
            said[exhibit.name] = alone
    assert said.keys() == museum.OTHERS[tool].keys()
    assert all(check in said[name] for name, check in museum.OTHERS[tool].items())
