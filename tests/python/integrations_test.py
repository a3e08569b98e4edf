"""The doctor inside other tools, each run for real; a test is skipped where its tool is not installed."""

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


def run_pytest(pytester, *arguments):
    pytester.makepyfile(TEST.format(here=HERE))
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
    """Before pytester, which forgets the modules that are imported after it: some cannot be twice."""
    return addnorm.check(small_models.decoder(bugs=MISSING), small_models.tokens())


def test_the_baseline_of_an_option(broken, pytester):
    broken.save_baseline(pytester.path / "known.json")
    run_pytest(pytester, "--addnorm-baseline", "known.json").assert_outcomes(passed=3)


def test_annotations_from_a_failed_test(pytester, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    lines = run_pytest(pytester).stdout.str().splitlines()
    found = [line for line in lines if "::error " in line]
    assert len(found) == 1 and "title=addnorm residual-missing::Decoder, " in found[0]


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


def test_annotations_escape_what_would_end_them():
    assert github._data("50 %\r\nand: this, that") == "50 %25%0D%0Aand: this, that"
    assert github._property("a:b,c%") == "a%3Ab%2Cc%25"


# ---- Loggers ---------------------------------------------------------------------------------

def train(model, count=4):
    for batch in batches(count):
        model(**batch)["loss"].backward()


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


def test_wandb_keeps_the_step_that_was_measured(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    run = wandb.init(mode="offline", dir=str(tmp_path), project="addnorm")
    model = small_models.decoder()
    with addnorm.watch(model, every=2, log=loggers.wandb(run)):
        train(model)
    assert run.summary["addnorm/step"] == 2 and run.summary["addnorm/layer 3/attention/sum_rms"] > 0
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
