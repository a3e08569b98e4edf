"""The command `addnorm check MODULE:FUNCTION` of the package."""

import json
import os
import pathlib
import pty
import subprocess
import sys
import time

import addnorm
import pytest

torch = pytest.importorskip("torch")
import small_models  # noqa: E402
from addnorm import _check_command  # noqa: E402

NO_FUNCTION = "models_of_test has no function nothing"
COMMAND = [sys.executable, "-m", "addnorm", "check"]
MODELS = """
import small_models
print("This is what the module prints.")
tokens = small_models.tokens()
sound = lambda: (small_models.decoder(2), tokens)
broken = lambda: (small_models.decoder(4, {2: "residual-missing"}), tokens)
own = lambda: (*broken(), {"ignore": "residual-missing", "behaviour": False})
loss = lambda: (*sound(), {"loss": lambda output: output.square().mean(), "behaviour": False})
fails = lambda: 1 / 0
leaves = lambda: exit(3)
model_alone = lambda: small_models.decoder(2)
four = lambda: (1, 2, 3, 4)
no_model = lambda: (3, tokens)
no_options = lambda: (*sound(), [1])
wrong_option = lambda: (*sound(), {"tokns": 3})
wrong_inputs = lambda: (small_models.decoder(2), tokens + 1000)
number = 3
"""


@pytest.fixture(autouse=True)
def folder(tmp_path):
    (tmp_path / "models_of_test.py").write_text(MODELS)
    (tmp_path / "package").mkdir()
    (tmp_path / "package/inner.py").write_text("from models_of_test import sound\nraise ValueError('two\\nlines')\n")
    return tmp_path


def run(folder, *arguments):
    path = os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(pathlib.Path(__file__).parent)])
    return subprocess.run([*COMMAND, *arguments], cwd=folder, capture_output=True, text=True,
                          env={**os.environ, "LC_ALL": "C.UTF-8", "PYTHONPATH": path, "OMP_NUM_THREADS": "1"})


def test_the_report_and_the_exit_status_are_those_of_the_doctor(folder):
    sound = run(folder, "models_of_test:sound")
    assert sound.returncode == 0 and "no finding" in sound.stdout and sound.stderr == ""
    broken = run(folder, "models_of_test:broken")
    assert broken.returncode == 1 and "✗ residual-missing" in broken.stdout and broken.stderr == ""
    assert broken.stdout.endswith("\n") and "Traceback" not in broken.stdout


def test_json_is_all_of_standard_output(folder):
    result = run(folder, "models_of_test:broken", "--json")
    assert json.loads(result.stdout)["status"] == "findings" and result.returncode == 1
    assert result.stderr == "This is what the module prints.\n"


def test_findings_are_ignored_by_the_command_and_by_the_options(folder):
    assert run(folder, "models_of_test:broken", "--ignore", "residual-missing@layer 2", "--ignore",
               "norm-misplaced").returncode == 0
    assert run(folder, "models_of_test:own").returncode == 0
    assert run(folder, "models_of_test:own", "--ignore", "epsilon-odd").returncode == 0
    assert run(folder, "models_of_test:loss").returncode == 0


@pytest.mark.parametrize("arguments, message", [
    ([], "the following arguments are required: MODULE:FUNCTION"),
    (["models_of_test"], '"models_of_test" is no MODULE:FUNCTION, such as "models:small"'),
    (["models_of_test.py:sound"],
     '"models_of_test.py" is a file; name its module, such as "models:sound" for models.py'),
    (["nowhere:sound"], "nowhere could not be imported: ModuleNotFoundError: No module named 'nowhere'"),
    (["package.inner:sound"], "package.inner could not be imported: ValueError: two lines"),
    (["models_of_test:nothing"], NO_FUNCTION),
    (["models_of_test:number"], "models_of_test has no function number"),
    (["models_of_test:fails"], "models_of_test:fails failed: ZeroDivisionError: division by zero"),
    (["models_of_test:leaves"], "models_of_test:leaves failed: SystemExit: 3"),
    (["models_of_test:model_alone"], "models_of_test:model_alone returned a Decoder, must return (model, inputs) or "
                                     "(model, inputs, options)"),
    (["models_of_test:four"], "models_of_test:four returned a tuple of 4, must return (model, inputs) or (model, "
                              "inputs, options)"),
    (["models_of_test:no_model"], "TypeError: model: is int, must be a torch.nn.Module"),
    (["models_of_test:no_options"], "models_of_test:no_options returned a list as options, must be a dict with names "
                                    "as keys"),
    (["models_of_test:wrong_option"], "check() has no option 'tokns'; expected one of layers, attention, feed_forward, "
                                      "recipe, batch_first, tokens"),
    (["models_of_test:wrong_inputs"], "the model failed on these inputs: IndexError: index out of range in self"),
    (["models_of_test:sound", "--ignore", "residual-mising"],
     '--ignore: "residual-mising" is no rule of the doctor; the nearest is residual-missing'),
    (["models_of_test:sound", "--jason"], "unrecognized arguments: --jason")], ids=str)
def test_bad_input_is_one_line(folder, arguments, message, monkeypatch, capsys):
    """Runs the command's function in this process, because each process would import PyTorch."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for module in [name for name in sys.modules if name.split(".")[0] in ("models_of_test", "package")]:
        monkeypatch.delitem(sys.modules, module)
    assert _check_command.run("addnorm", arguments) == 2
    printed, error = capsys.readouterr()
    assert error.startswith("addnorm check: ") and error.endswith(f"{message}\n")
    assert error.count("\n") == 1
    assert printed in ("", "This is what the module prints.\n")
    if message == NO_FUNCTION:
        result = run(folder, *arguments)
        assert (result.returncode, result.stdout, result.stderr) == (2, printed, error)


def test_help_says_what_the_function_returns(folder):
    result = run(folder, "--help")
    assert result.returncode == 0 and "(model, inputs, options)" in result.stdout and "Exit status" in result.stdout
    program = subprocess.run([os.environ["ADDNORM_PROGRAM"], "check", "models:small"], capture_output=True, text=True)
    assert program.returncode == 2 and "python -m addnorm check" in program.stderr


# -- The progress of addnorm.check --


def read_to_end(file):
    """Reads until the line "end", however the terminal splits the output."""
    text = b""
    while b"end" not in text or not text.endswith(b"\n"):
        text += os.read(file, 10000)
    return text.decode()


def shown(monkeypatch, seconds, is_terminal=True):
    """Returns the output of check() on a terminal while its forward takes some seconds."""
    from addnorm import _progress
    monkeypatch.setattr(_progress, "_SECONDS_BEFORE", 0.2)
    monkeypatch.setattr(_progress, "_SECONDS_BETWEEN", 0.1)
    model = small_models.decoder(1)
    model.register_forward_pre_hook(lambda *_: time.sleep(seconds))
    own, child = pty.openpty() if is_terminal else os.pipe()
    with open(child, "w") as terminal, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", terminal)
        addnorm.check(model, small_models.tokens(), behaviour=False)
        print("end", file=terminal, flush=True)
        text = read_to_end(own)
    os.close(own)
    return text


def test_a_check_that_takes_long_shows_its_progress_on_a_terminal(monkeypatch):
    text = shown(monkeypatch, 1.0)
    assert "addnorm.check: measures a forward and a backward, 1 s" in text
    assert text.endswith("\r\x1b[Kend\r\n")


def test_nothing_is_shown_where_it_is_fast_or_there_is_no_terminal(monkeypatch):
    assert shown(monkeypatch, 1.0, is_terminal=False) == "end\n"
    from addnorm import _progress
    monkeypatch.setattr(_progress.threading, "Thread", None)
    assert shown(monkeypatch, 0.0, is_terminal=False) == "end\n"
    monkeypatch.undo()
    own, child = pty.openpty()
    with open(child, "w") as terminal, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", terminal)
        addnorm.check(small_models.decoder(1), small_models.tokens(), behaviour=False)
        print("end", file=terminal, flush=True)
        assert read_to_end(own) == "end\r\n"
    os.close(own)
