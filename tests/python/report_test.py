"""Reports on profiles: they equal the program's reports on the same files, and accepted findings are left out."""

import json
import os
import pathlib
import re
import subprocess
import sys

import addnorm
import pytest
from addnorm import _core

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
PROFILES = sorted((pathlib.Path(__file__).parents[1] / "golden/profiles").glob("*.jsonl"))
BUG = next(p for p in PROFILES if p.name == "gpt2_residual_missing_1_attention.jsonl")
OTHER_BUG = next(p for p in PROFILES if p.name == "gpt2_residual_twice_2_feed_forward.jsonl")
SOUND = next(p for p in PROFILES if p.name == "gpt2_sound_0_0.jsonl")


def program(*arguments, **environment):
    return subprocess.run([os.environ["ADDNORM_PROGRAM"], "doctor", *map(str, arguments)], text=True,
                          stdout=subprocess.PIPE, env={**os.environ, "LC_ALL": "C.UTF-8", **environment})


def test_findings_are_those_of_the_program():
    assert len(PROFILES) > 70
    found = 0
    for file in PROFILES:
        result = program(file, "--json")
        report = addnorm.Report.read(file)
        assert report.json() == result.stdout, file.name
        assert report.sound == (result.returncode == 0), file.name
        document = json.loads(result.stdout)
        assert [(f.rule, f.severity, f.where, f.seen, f.expected, f.fix) for f in report.findings] == [
            tuple(f[key] for key in ("rule", "severity", "where", "what", "because", "fix"))
            for f in document["findings"]]
        found += not report.sound
    assert found > 40


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    """A run of `addnorm train`, with its text, its settings and its checkpoint."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "text.txt").write_text("In the beginning was the word. " * 400)
    flags = "--layers 2 --width 8 --heads 1 --context 8 --batch 2 --steps 5 --out run".split()
    subprocess.run([os.environ["ADDNORM_PROGRAM"], "train", "--text", folder / "text.txt", *flags], cwd=folder,
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return folder / "run"


def targets(run_folder):
    yield run_folder
    yield run_folder / "config.json"
    yield run_folder / "checkpoint.safetensors"
    for model in "gpt2", "llama3", "bert":
        yield GOLDEN / "models" / model
    yield GOLDEN / "models/gpt2/model.safetensors"
    yield GOLDEN / "models/gpt2/config.json"
    yield sorted((GOLDEN / "gguf").rglob("*.gguf"))[0]


def test_a_run_and_a_model_are_diagnosed_as_by_the_program(run_folder):
    for target in targets(run_folder):
        result = program(target, "--json")
        report = addnorm.Report.read(target)
        document = json.loads(result.stdout)
        assert report.json() == result.stdout, target
        assert [f.rule for f in report.findings] == [f["rule"] for f in document["findings"]], target
        assert report.sound == (result.returncode == 0) and report.name == str(target)
        rms = {key: value for key, value in report.numbers().items() if key.endswith("sum_rms")}
        assert len(rms) == 2 * len(document["layers"]), target


def test_findings_of_a_run_can_be_accepted(run_folder):
    report = addnorm.Report.read(run_folder)
    names = [finding.name for finding in report.findings]
    assert addnorm.Report.read(run_folder, names).findings == report.ignoring(*names).findings == []
    assert len(report.findings) == len(names)


def test_a_profile_is_known_by_its_content_too(tmp_path):
    for name in "profile.txt", "profile":
        (tmp_path / name).write_bytes(BUG.read_bytes())
        assert addnorm.Report.read(tmp_path / name).findings == addnorm.Report.read(BUG).findings
        assert program(tmp_path / name).returncode == 1


def test_a_target_that_is_none_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        addnorm.Report.read(tmp_path / "nowhere")
    (tmp_path / "text.txt").write_text("no profile")
    with pytest.raises(addnorm.Error, match="text.txt: expected a run, settings of a run, a folder"):
        addnorm.Report.read(tmp_path / "text.txt")
    with pytest.raises(addnorm.Error, match="there is no config.json"):
        addnorm.Report.read(tmp_path)


@pytest.mark.parametrize("width", [80, 120])
def test_texts_and_pages_are_those_of_the_program(width, tmp_path):
    page, other = tmp_path / "page.html", tmp_path / "other.html"
    for file in BUG, SOUND:
        report = addnorm.Report.read(file)
        assert report.text(width, False) == program(file, "--html", page, COLUMNS=str(width)).stdout
        assert report.html() == page.read_text()
    one, two = addnorm.Report.read(SOUND), addnorm.Report.read(BUG)
    said = program(SOUND, "--compare", BUG, "--html", other, COLUMNS=str(width)).stdout
    assert said.startswith(two.text(width, False, against=one).split("\n\n")[0])
    assert two.text(width, False, against=one) == said
    assert two.html(against=one) == other.read_text()
    assert two.json(against=one) == program(SOUND, "--compare", BUG, "--json").stdout


def test_colour_is_for_terminals(monkeypatch):
    report = addnorm.Report.read(BUG)
    assert "\x1b[" not in str(report)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[" in str(report)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in str(report)
    monkeypatch.setenv("COLUMNS", "60")
    assert str(report) == report.text(60, False).rstrip("\n") != report.text(80, False).rstrip("\n")


def test_files_are_written_and_a_notebook_has_a_frame(tmp_path):
    report = addnorm.Report.read(BUG)
    assert report.html(tmp_path / "x.html") == (tmp_path / "x.html").read_text()
    assert report.json(tmp_path / "x.json") == (tmp_path / "x.json").read_text()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.html", "x.json"]
    frame = report._repr_html_()
    assert frame.startswith("<iframe srcdoc=") and "residual-missing" in frame
    assert frame.count('"') == 6  # the page's own quotes are escaped


def test_findings_can_be_accepted_by_rule_and_by_place():
    report = addnorm.Report.read(BUG)
    defects = [f for f in report.findings if f.severity != "note"]
    assert [f.name for f in defects] == ["residual-missing@layer 1, attention"]
    for name, is_accepted in [("residual-missing", True), ("residual-missing@layer 1", True),
                              ("residual-missing@layer 1, attention", True),
                              ("residual-missing@layer 1, feed-forward", False),
                              ("residual-missing@layer", False), ("residual-twice", False),
                              ("residual-missing@layer 2", False)]:
        rest = report.ignoring(name)
        assert rest.sound == is_accepted, name
        assert len(rest.findings) == len(report.findings) - is_accepted
        assert ("1 accepted" in rest.text(80)) == is_accepted
        if is_accepted:
            report.assert_sound(ignore=[name])
            report.assert_sound(ignore=name)
    with pytest.raises(AssertionError, match=r"residual-missing\n +where +layer 1, attention"):
        report.assert_sound()


def test_a_name_that_is_no_rule_is_an_error_with_the_nearest():
    report = addnorm.Report.read(BUG)
    message = 'ignore: "residual-mising" is no rule of the doctor; the nearest is residual-missing'
    for call in (report.ignoring, lambda name: report.assert_sound(ignore=[name]), lambda name: addnorm.Report.read(
            BUG, [name]), lambda name: addnorm.Report(report.profile, "Model", name)):
        for name in "residual-mising", "residual-mising@layer 1":
            with pytest.raises(addnorm.Error) as error:
                call(name)
            assert str(error.value) == message
    with pytest.raises(TypeError, match="^ignore: has a list, must have names such as [^{}]{,80}$"):
        report.ignoring(["residual-missing"])
    with pytest.raises(TypeError, match="^ignore: has a int"):
        report.assert_sound(ignore=[3])
    for rule in _core.rule_names():
        report.ignoring(rule, f"{rule}@layer 1")


def test_a_baseline_may_name_rules_of_another_version(tmp_path):
    file = tmp_path / "baseline.json"
    report = addnorm.Report.read(BUG)
    document = {"addnorm_baseline": 1, "models": {report.name: ["a-former-rule@layer 1", "residual-missing"]}}
    file.write_text(json.dumps(document))
    report.assert_sound(baseline=file)


def test_the_program_ignores_findings_too():
    document = json.loads(program(BUG, "--json", "--ignore", "residual-missing@layer 1, attention", "--ignore",
                                  "stream-growth").stdout)
    assert document["status"] == "sound" and document["accepted"] == 1
    assert program(BUG, "--ignore", "residual-missing@layer 2").returncode == 1
    assert program(BUG, "--ignore", "residual-missing", "--compare", OTHER_BUG).returncode == 1
    result = subprocess.run([os.environ["ADDNORM_PROGRAM"], "doctor", BUG, "--ignore", "residual"], text=True,
                            capture_output=True)
    assert result.returncode == 2 and result.stdout == ""
    assert result.stderr.startswith('addnorm doctor: --ignore: "residual" is no rule of the doctor; the nearest is ')
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("places, text", [
    (["layers.0.attn", "layers.1.attn", "layers.2.attn"], "layers.{0 to 2}.attn"),
    (["h.3.attn", "h.5.attn", "h.5.mlp", "head"], "h.{3 and 5}.attn; h.5.mlp; head"),
    (["h.3.mlp.0.weight", "h.4.mlp.0.weight", "h.4.mlp.2.weight"], "h.{3 and 4}.mlp.0.weight; h.4.mlp.2.weight"),
    (["blocks.10", "blocks.11", "blocks.x"], "blocks.{10 and 11}; blocks.x"),
    (["a.99999999999999999999.b", "layer2.attn"], "a.99999999999999999999.b; layer2.attn")])
def test_places_that_differ_by_a_number_are_written_together(places, text):
    first = SOUND.read_text().split("\n", 1)[0]
    checks = [{"step": 0, "check": "gradient-missing", "value": 7, "where": place} for place in places]
    report = addnorm.Report("".join(f"{line}\n" for line in [first, *map(json.dumps, checks)]), "Model")
    assert [f.where for f in report.grouped()] == [text]
    assert f"where     {text}\n" in report.text(200, False)
    assert len(report.findings) == len(places)


@pytest.mark.parametrize("counts, least", [
    ({"sums": [4, 8], "norms": [9, 9]}, 0.5), ({"sums": [8, 8], "norms": [8, 9], "attentions": [4, 4]}, 8 / 9),
    ({"sums": [8, 8], "norms": [9, 9], "attentions": [0, 0]}, 1)])
def test_a_model_that_was_measured_in_part_is_not_asserted_to_be_sound(counts, least):
    first, rest = SOUND.read_text().split("\n", 1)
    header = json.loads(first)
    header["coverage"] = {**counts, "left_out": [{"where": "layers.3", "why": "its gate was not understood"}]}
    report = addnorm.Report(json.dumps(header) + "\n" + rest, "Gated")
    assert report.sound and report.coverage.least == pytest.approx(least)
    report.assert_sound(min_coverage=least - 1e-9)
    if least < 1:
        with pytest.raises(AssertionError, match=r"Gated: no finding, but only .* measured.*layers.3: its gate was"):
            report.assert_sound()
        with pytest.raises(AssertionError, match="min_coverage"):
            report.assert_sound(min_coverage=least + 1e-9)
    else:
        report.assert_sound()
    with pytest.raises(addnorm.Error, match="min_coverage: is 2, must be a number from 0 to 1"):
        report.assert_sound(min_coverage=2)


def test_a_baseline_accepts_what_it_names_of_its_model(tmp_path):
    file = tmp_path / "baseline.json"
    one = addnorm.Report(BUG.read_text(), "One")
    two = addnorm.Report(OTHER_BUG.read_text(), "Two")
    one.save_baseline(file)
    one.assert_sound(baseline=file)
    with pytest.raises(AssertionError, match="residual-twice"):
        two.assert_sound(baseline=file)
    two.save_baseline(file)
    two.assert_sound(baseline=file)
    one.assert_sound(baseline=file)
    with pytest.raises(AssertionError):  # the bug of one model occurs in another
        addnorm.Report(BUG.read_text(), "Two").assert_sound(baseline=file)
    for text in "[1, 2]", "{}", "{", "NaN", '{"models": ' + "[" * 100_000:
        file.write_text(text)
        with pytest.raises(addnorm.Error, match="baseline.json: is no baseline"):
            one.assert_sound(baseline=file)


def test_a_baseline_that_does_not_exist_is_named_with_what_writes_it(tmp_path):
    with pytest.raises(addnorm.Error, match=r"none.json: does not exist; Report.save_baseline\(\) writes"):
        addnorm.Report.read(BUG).assert_sound(baseline=tmp_path / "none.json")


def plural(count, noun):
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def test_the_verdict_counts_findings_and_notes_as_json_has_them():
    seen = set()
    for file in PROFILES:
        report = addnorm.Report.read(file)
        findings = json.loads(report.json())["findings"]
        notes = sum(f["severity"] == "note" for f in findings)
        defects = len(findings) - notes
        rules = len({f["rule"] for f in findings if f["severity"] != "note"})
        expected = plural(defects, "finding") if defects else "no finding"
        expected += f" of {plural(rules, 'rule')}" if rules < defects else ""
        expected += f", {plural(notes, 'note')}" if notes else ""
        assert report.verdict == expected, file.name
        assert expected in report.text(80, False).splitlines()
        assert f": {expected}. " in report.html() and expected in repr(report)
        assert len(report.findings) == len(findings)
        seen |= {("defects", min(defects, 2)), ("rules", min(rules, 2)), ("notes", min(notes, 2)),
                 ("grouped", 0 < rules < defects)}
    assert seen >= {("defects", 0), ("defects", 1), ("defects", 2), ("notes", 0), ("notes", 2),
                    ("grouped", True), ("grouped", False)}


def test_grouped_findings_name_every_place():
    layers_seen = 0
    for file in PROFILES:
        report = addnorm.Report.read(file)
        grouped = report.grouped()
        assert len(grouped) == len({(f.rule, f.severity, f.fix) for f in report.findings})
        for finding in report.findings:
            group, = (g for g in grouped if (g.rule, g.severity, g.fix) ==
                      (finding.rule, finding.severity, finding.fix))
            if finding.layer is None:
                assert finding.where in group.where
                continue
            layers_seen += 1
            _, kind = finding.where.split(f"layer {finding.layer}", 1)  # ", attention", or ''
            places = [re.fullmatch(r"layers? ([\d,to and]+?)" + kind + r"( \(.*\))?", part)
                      for part in group.where.split("; ")]
            covered = {layer for place in places if place
                       for first, last in re.findall(r"(\d+)(?: to (\d+))?", place[1])
                       for layer in range(int(first), int(last or first) + 1)}
            assert finding.layer in covered, (finding.where, group.where)
    assert layers_seen > 40


def test_what_was_not_measured_is_no_finding():
    header, rest = SOUND.read_text().split("\n", 1)
    blind = {**json.loads(header), "coverage": {"sums": [0, 8]}}
    report = addnorm.Report(json.dumps(blind) + "\n" + rest)
    assert json.loads(report.json())["status"] == "incomplete"
    assert json.loads(addnorm.Report.read(SOUND).json())["status"] == "sound"
    assert json.loads(addnorm.Report.read(BUG).json())["status"] == "findings"


def test_coverage_is_that_of_the_first_line():
    first, rest = SOUND.read_text().split("\n", 1)
    header = json.loads(first)
    assert str(addnorm.Report.read(SOUND).coverage) == "unknown"
    header["coverage"] = {"sums": [7, 8], "norms": [9, 9],
                          "left_out": [{"where": "layer 3, attention", "why": "its sum has another shape"}]}
    report = addnorm.Report(json.dumps(header) + "\n" + rest)
    assert str(report.coverage) == "7 of 8 sums, 9 of 9 norms measured"
    assert report.coverage.left_out == [("layer 3, attention", "its sum has another shape")]
    assert report.sound
    for shown in report.text(200, False), report.html():
        assert "Measured: 7 of 8 sums, 9 of 9 norms." in shown
        assert "Not measured: layer 3, attention (its sum has another shape)." in shown
    header["coverage"] = {"sums": [0, 8]}
    blind = addnorm.Report(json.dumps(header) + "\n" + rest)
    assert not blind.sound
    with pytest.raises(AssertionError, match="no finding: nothing was measured"):
        blind.assert_sound()


@pytest.mark.parametrize("profile, sentence", [
    ("", "name: holds no profile"), ("{}\n", "name: line 1: a profile begins with"),
    ('{"addnorm_profile":1,"model":{}}\n', "its profile has only its first line"),
    ('{"addnorm_profile":1,"model":{},"coverage":{"sums":3}}\n', "sums is 3, must be two whole numbers")])
def test_a_text_that_is_no_profile(profile, sentence):
    with pytest.raises(addnorm.Error, match=sentence):
        addnorm.Report(profile, "name")


def test_numbers_for_loggers_are_those_of_the_last_step():
    report = addnorm.Report.read(BUG)
    lines = [json.loads(line) for line in BUG.read_text().splitlines()[1:]]
    entry = next(e for e in lines if e.get("layer") == 2 and e["sublayer"] == "attention" and
                 e["point"] == "sum")
    numbers = report.numbers()
    assert numbers["addnorm/layer 2/attention/sum_rms"] == entry["rms"]
    assert numbers["addnorm/broken"] == 1 and numbers["addnorm/suspicious"] == 0
    assert all(isinstance(value, float) for value in numbers.values())
    later = "".join(json.dumps({**e, "step": 7, "rms": 0.5}) + "\n" for e in lines)
    assert addnorm.Report(BUG.read_text() + later).numbers()["addnorm/layer 2/attention/sum_rms"] == 0.5


def test_the_package_does_not_import_pytorch():
    code = "import sys, addnorm; print(sorted({'torch', 'pytest', 'transformers'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], text=True, check=True,
                          stdout=subprocess.PIPE).stdout == "[]\n"
