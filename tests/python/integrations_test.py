"""The doctor inside other tools, which really run. A test is skipped if its tool is not installed."""

import json
import logging
import pathlib
import re

import addnorm
import pytest
from addnorm.integrations import github, loggers

torch = pytest.importorskip("torch")
import small_models  # noqa: E402

pytest_plugins = ["pytester"]
MISSING = {2: "residual-missing"}
HERE = str(pathlib.Path(__file__).parent)


def batches(count=8):
    x = small_models.tokens(2 * count)
    return [{"tokens": x[2 * i:2 * i + 2], "targets": x[2 * i:2 * i + 2]} for i in range(count)]


def rules(report):
    return [f.name for f in report.findings if f.severity != "note"]


# ---- pytest ----------------------------------------------------------------------------------

TEST = """
import sys; sys.path.append({here!r})
import small_models

def test_sound(addnorm_sound):
    assert addnorm_sound(small_models.decoder(), small_models.tokens()).sound

def test_broken(addnorm_sound):
    addnorm_sound(small_models.decoder(bugs={{2: "residual-missing"}}), small_models.tokens())

def test_ignored(addnorm_sound):
    addnorm_sound(small_models.decoder(bugs={{2: "residual-missing"}}), small_models.tokens(),
                  ignore=["residual-missing@layer 2"])
"""


def run_pytest(pytester, *arguments, test=TEST):
    pytester.makepyfile(test.format(here=HERE))
    return pytester.runpytest_subprocess("-p", "addnorm.integrations.pytest_plugin",
                                         "-p", "no:cacheprovider", *arguments)


def test_the_fixture_fails_with_the_findings(pytester, monkeypatch):
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    result = run_pytest(pytester)
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*AssertionError: Decoder: *", "*residual-missing", "*layer 2, feed-forward*"])
    assert "::error" not in result.stdout.str()


@pytest.fixture(scope="module")
def broken():
    """Runs before pytester, which removes modules imported later; some of them cannot be imported twice."""
    return addnorm.check(small_models.decoder(bugs=MISSING), small_models.tokens())


def test_the_baseline_of_an_option(broken, pytester):
    broken.save_baseline(pytester.path / "known.json")
    run_pytest(pytester, "--addnorm-baseline", "known.json").assert_outcomes(passed=3)


UPDATE = "--addnorm-baseline", "sub/known.json", "--addnorm-update-baseline"
KNOWN = "--addnorm-baseline", "sub/known.json"


@pytest.mark.parametrize("processes", [[], ["-n", "2"]], ids=["alone", "xdist"])
def test_the_baseline_is_written_and_renewed(pytester, processes):
    if processes:
        pytest.importorskip("xdist")
    written = run_pytest(pytester, *UPDATE, *processes)
    written.assert_outcomes(passed=3)
    written.stdout.fnmatch_lines(["*sub/known.json has 1 finding of 1 model that was checked"])
    file = pytester.path / "sub/known.json"
    assert json.loads(file.read_text())["models"] == {"Decoder": ["residual-missing@layer 2, feed-forward"]}
    run_pytest(pytester, *KNOWN, *processes).assert_outcomes(passed=3)

    # A fixed model loses its findings; a model that is not checked keeps them.
    file.write_text(json.dumps({"addnorm_baseline": 1, "models": {
        "Decoder": ["residual-missing"], "Other": ["epsilon-size"]}}))
    run_pytest(pytester, *UPDATE, "-k", "sound", *processes).assert_outcomes(passed=1)
    assert json.loads(file.read_text())["models"] == {"Decoder": [], "Other": ["epsilon-size"]}
    run_pytest(pytester, *KNOWN, *processes).assert_outcomes(passed=2, failed=1)


def test_the_baseline_is_found_from_a_test_in_another_folder(broken, pytester):
    broken.save_baseline(pytester.path / "known.json")
    pytester.makeconftest("""
        import pytest
        @pytest.fixture(autouse=True)
        def elsewhere(tmp_path, monkeypatch):
            monkeypatch.chdir(tmp_path)
    """)
    run_pytest(pytester, "--addnorm-baseline", "known.json").assert_outcomes(passed=3)
    run_pytest(pytester, *UPDATE).assert_outcomes(passed=3)
    assert (pytester.path / "sub/known.json").exists()


def test_without_the_file_nothing_is_accepted_and_pytest_says_so(pytester):
    result = run_pytest(pytester, *KNOWN)
    result.assert_outcomes(passed=2, failed=1)
    said = "*sub/known.json does not exist, so that no finding is accepted; --addnorm-update-baseline writes it"
    result.stdout.fnmatch_lines([said, "*residual-missing", said])
    assert not (pytester.path / "sub").exists()


def test_an_update_of_nothing_writes_nothing(pytester):
    result = run_pytest(pytester, *UPDATE, "-k", "no_such_test")
    result.stdout.fnmatch_lines(["*sub/known.json is not written: no model was checked"])
    assert not (pytester.path / "sub").exists()


@pytest.mark.parametrize("arguments, contents, said", [
    (["--addnorm-update-baseline"], None, "--addnorm-update-baseline: needs --addnorm-baseline FILE"),
    (UPDATE, "[1, 2]", "--addnorm-baseline: *known.json: is no baseline"),
    (KNOWN, "{", "--addnorm-baseline: *known.json: is no baseline")])
def test_wrong_options_end_pytest_before_any_test(pytester, arguments, contents, said):
    if contents is not None:
        (pytester.path / "sub").mkdir()
        (pytester.path / "sub/known.json").write_text(contents)
    result = run_pytest(pytester, *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {said}*"])
    if contents is not None:
        assert (pytester.path / "sub/known.json").read_text() == contents


BROKEN_AFTER_DOTS = """
import sys; sys.path.append({here!r})
import small_models

def test_dot(): pass
def test_another(): pass
def test_broken(addnorm_sound):
    addnorm_sound(small_models.decoder(bugs={{2: "residual-missing"}}), small_models.tokens())
"""


@pytest.mark.parametrize("arguments", [[], ["-q"], ["-v"], ["-s"], ["--no-summary"], ["-n", "2", "-q"]],
                         ids=" ".join)
def test_annotations_begin_a_line(pytester, monkeypatch, arguments):
    """Elsewhere in a line, GitHub treats them as text: "....::error …"."""
    if "-n" in arguments:
        pytest.importorskip("xdist")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    lines = run_pytest(pytester, *arguments, test=BROKEN_AFTER_DOTS).stdout.str().splitlines()
    found = [line for line in lines if "::error" in line]
    assert len(found) == 1
    assert re.match("::error (file=.*,line=.*,)?title=addnorm residual-missing::Decoder, ", found[0])


def test_an_annotation_begins_a_line_behind_a_progress_bar(broken, monkeypatch, capsys):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    print("epoch 1: 50 %", end="")
    github.annotate(broken)
    lines = capsys.readouterr().out.splitlines()
    assert [line.startswith("::") for line in lines if "::" in line] == [True] * len(github.commands(broken))
    monkeypatch.delenv("GITHUB_ACTIONS")
    github.annotate(broken)
    assert capsys.readouterr().out == ""


# ---- GitHub ----------------------------------------------------------------------------------

def test_annotations_name_the_class_of_the_model(monkeypatch):
    monkeypatch.chdir(HERE)
    model = small_models.decoder(bugs=MISSING)
    report = addnorm.check(model, small_models.tokens())
    line = 1 + pathlib.Path("small_models.py").read_text().splitlines().index("class Decoder(nn.Module):")
    found = [a for a in github.commands(report, model) if a.startswith("::error")]
    assert len(found) == 1
    assert found[0].startswith(f"::error file=small_models.py,line={line},title=addnorm residual-missing::")
    assert "layer 2, feed-forward" in found[0] and "\n" not in found[0]
    assert "file=" not in github.commands(report)[0]


def test_a_rule_with_one_fix_is_one_annotation(monkeypatch):
    report = addnorm.check(small_models.decoder(bugs=dict.fromkeys(range(4), "residual-twice")),
                           small_models.tokens())
    found = [a for a in github.commands(report) if "residual-twice" in a]
    assert len(found) == 1 and "at layers 0 to 3, feed-forward" in found[0]


def test_annotations_escape_what_would_end_them():
    assert github._data("50 %\r\nand: this, that") == "50 %25%0D%0Aand: this, that"
    assert github._property("a:b,c%") == "a%3Ab%2Cc%25"


# ---- Loggers ---------------------------------------------------------------------------------

def train(model, count=4):
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    for batch in batches(count):
        model(**batch)["loss"].backward()
        optimizer.step()


@pytest.mark.parametrize("method", ["add_scalars", "add_scalar", None])
def test_tensorboard_has_each_number_under_its_tag(method, tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter
    model = small_models.decoder()
    with SummaryWriter(tmp_path) as writer:
        log = loggers.tensorboard(writer) if method is None else getattr(writer, method)
        with addnorm.watch(model, every=2, log=log) as watched:
            train(model)
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    scalars = events.Scalars("addnorm/layer 3/attention/sum_rms")
    assert [event.step for event in scalars] == [0, 2]
    assert scalars[-1].value == pytest.approx(watched.report.numbers()["addnorm/layer 3/attention/sum_rms"])


class RowRun:
    """The rows of a run of Weights & Biases, by its documented rules. log(data, step) writes into row `step` and closes
    all earlier rows. log(data) writes into the current row and closes it. Data for a closed row is dropped."""

    def __init__(self):
        self.step, self.rows, self.metrics = 0, {}, {}

    def define_metric(self, name, step_metric=None):
        self.metrics[name] = step_metric

    def log(self, data, step=None):
        if step is not None and step < self.step:
            return
        self.step = self.step if step is None else step
        self.rows.setdefault(self.step, {}).update(data)
        self.step += step is None

    def values(self, key):
        return [row[key] for row in self.rows.values() if key in row]


def real_run(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    return wandb.init(mode="offline", dir=str(tmp_path), project="addnorm")


OF_THE_LOOP = {  # the training loop's own logging in micro-batch i of step s
    "nothing": lambda run, s, i: None,
    "by itself": lambda run, s, i: run.log({"loss": s + i / 2}),
    "with its step": lambda run, s, i: run.log({"loss": s + i / 2}, step=s),
    "micro-batches": lambda run, s, i: run.log({"loss": s + i / 2}, step=2 * s + i)}


@pytest.mark.parametrize("how", OF_THE_LOOP)
@pytest.mark.parametrize("given", ["loggers.wandb(run)", "run.log"])
@pytest.mark.parametrize("kind", ["rules", "wandb"])
def test_wandb_loses_neither_our_numbers_nor_the_loops(how, given, kind, tmp_path, monkeypatch):
    run = RowRun() if kind == "rules" else real_run(tmp_path, monkeypatch)
    if kind == "rules":
        monkeypatch.setattr(RowRun, "__module__", "wandb.sdk.wandb_run")
    model, logged = small_models.decoder(), []
    log = loggers.wandb(run) if given == "loggers.wandb(run)" else run.log
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    with addnorm.watch(model, every=2, log=log) as watched:
        for step in range(5):
            for i, batch in enumerate(batches(2)):
                model(**batch)["loss"].backward()
                watched.end()
                OF_THE_LOOP[how](run, step, i)
            optimizer.step()
    if kind == "rules":
        assert run.values("addnorm/step") == [0, 2, 4]
        assert run.metrics == {"addnorm/step": None, "addnorm/*": "addnorm/step"}
        losses = {"nothing": [], "with its step": [s + 0.5 for s in range(5)]}
        assert run.values("loss") == losses.get(how, [s + i / 2 for s in range(5) for i in range(2)])
        return
    assert run.summary["addnorm/step"] == 4 and run.summary["addnorm/layer 3/attention/sum_rms"] > 0
    assert how == "nothing" or run.summary["loss"] == 4.5
    run.finish()


# ---- Lightning -------------------------------------------------------------------------------

def lightning():
    try:
        import lightning.pytorch as pl
        return pl
    except ImportError:
        return pytest.importorskip("pytorch_lightning")


def lightning_module(pl, bugs=None):
    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.network = small_models.decoder(bugs=bugs)

        def training_step(self, batch, index):
            return self.network(**batch)["loss"]

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), 1e-3)

    return Module()


@pytest.mark.parametrize("accumulate", [1, 2])
def test_lightning(accumulate, tmp_path):
    pl = lightning()
    from addnorm.integrations.lightning import AddnormCallback
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    logger = pl.loggers.CSVLogger(tmp_path)
    callback = AddnormCallback(every=2, path=tmp_path / "profile.jsonl")
    trainer = pl.Trainer(max_epochs=2, accelerator="cpu", callbacks=[callback], logger=logger,
                         enable_progress_bar=False, enable_checkpointing=False, enable_model_summary=False,
                         accumulate_grad_batches=accumulate)
    module = lightning_module(pl, MISSING)
    loader = torch.utils.data.DataLoader(batches(), batch_size=None)
    with pytest.warns(UserWarning, match="residual-missing at layer 2, feed-forward"):
        trainer.fit(module, loader)
    steps = sorted({json.loads(line)["step"] for line in callback.report.profile.splitlines()[1:]})
    assert steps == ([0, 8, 10, 12, 14] if accumulate == 1 else [0, 2, 4, 6])
    assert rules(callback.report) == ["residual-missing@layer 2, feed-forward"]
    assert rules(addnorm.Report.read(tmp_path / "profile.jsonl")) == rules(callback.report)
    head = next(tmp_path.rglob("metrics.csv")).read_text().splitlines()[0]
    assert "addnorm/layer 3/attention/sum_rms" in head
    assert not any(m._forward_hooks for m in module.modules())
    assert any("grad_rms" in json.loads(line) for line in callback.report.profile.splitlines()[1:])


# ---- The Trainer of Hugging Face -------------------------------------------------------------

@pytest.mark.parametrize("accumulate", [1, 2])
def test_trainer(accumulate, tmp_path):
    transformers = pytest.importorskip("transformers", minversion="4.30")
    pytest.importorskip("accelerate")
    from addnorm.integrations.transformers import AddnormCallback
    config = transformers.GPT2Config(n_layer=3, n_embd=32, n_head=4, vocab_size=50, n_positions=16)
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(config)
    data = [{"input_ids": row, "labels": row} for row in small_models.tokens(16)]
    arguments = transformers.TrainingArguments(
        str(tmp_path), max_steps=4, per_device_train_batch_size=2, report_to=[], use_cpu=True,
        gradient_accumulation_steps=accumulate, disable_tqdm=True, save_strategy="no")
    callback = AddnormCallback(every=2)
    trainer = transformers.Trainer(model, arguments, train_dataset=data, callbacks=[callback])
    trainer.train()
    report = callback.report
    assert {json.loads(line)["step"] for line in report.profile.splitlines()[1:]} == {0, 2}
    assert report.sound, str(report)
    assert re.match("6 of 6 sums, 7 of 7 norms", str(report.coverage))
    logged = [entry for entry in trainer.state.log_history if "addnorm/broken" in entry]
    assert [entry["step"] for entry in logged] == [0, 2]
    assert not any(m._forward_hooks for m in model.modules())


def test_a_batch_with_labels_gives_its_own_loss():
    transformers = pytest.importorskip("transformers", minversion="4.30")
    config = transformers.LlamaConfig(num_hidden_layers=2, hidden_size=32, num_attention_heads=4,
                                      intermediate_size=48, vocab_size=50)
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config)
    x = small_models.tokens()
    batch = transformers.BatchEncoding({"input_ids": x, "attention_mask": torch.ones_like(x), "labels": x})
    own = addnorm.check(model, batch, loss="own")
    assert own.sound and own.profile == addnorm.check(model, batch).profile
    model.model.layers[1].post_attention_layernorm.variance_epsilon = 1e-2
    assert rules(addnorm.check(model, batch)) == ["epsilon-size@layer 1, feed-forward, norm before it"]
