"""The program in the package, `python -m addnorm`, behaves like the program itself."""

import os
import pathlib
import signal
import subprocess
import sys

import pytest

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
PROFILE = GOLDEN / "profiles/gpt2_residual_missing_1_attention.jsonl"
PROGRAM = os.environ["ADDNORM_PROGRAM"]
PACKAGE = [sys.executable, "-m", "addnorm"]


def run(program, *arguments, folder=None):
    return subprocess.run([*program, *map(str, arguments)], cwd=folder, capture_output=True, text=True,
                          env={**os.environ, "LC_ALL": "C.UTF-8"})


@pytest.mark.parametrize("arguments", [
    ["--version"], ["doctor", "--help"], ["reproduce", "--json"], ["lab", "list"], ["placements", "mhc"],
    ["trace", 1, -2, 3, "--branch", 0.5, -1, 2], ["doctor", PROFILE], ["doctor", GOLDEN / "models/gpt2", "--json"],
    ["doctor", "nowhere"], ["doctor"], ["no-command"]], ids=lambda arguments: str(arguments[0]))
def test_output_and_exit_status_are_those_of_the_program(arguments):
    expected = run([PROGRAM], *arguments)
    result = run(PACKAGE, *arguments)
    called = f"{os.path.basename(sys.executable)} -m addnorm"
    assert result.returncode == expected.returncode
    assert result.stdout.replace(called, "addnorm") == expected.stdout.replace(PROGRAM, "addnorm")
    assert result.stderr.replace(called, "addnorm") == expected.stderr.replace(PROGRAM, "addnorm")
    assert result.returncode in (0, 1, 2)


def test_a_run_is_trained_continued_and_diagnosed(tmp_path):
    (tmp_path / "text.txt").write_text("In the beginning was the word. " * 400)
    flags = ["--layers", 1, "--width", 8, "--heads", 1, "--context", 8, "--batch", 2]
    first = run(PACKAGE, "train", "--text", "text.txt", "--out", "run", "--steps", 3, *flags, folder=tmp_path)
    assert first.returncode == 0, first.stderr
    text = subprocess.run([*PACKAGE, "generate", "run", "--prompt", "In ", "--tokens", "4"], cwd=tmp_path,
                          stdout=subprocess.PIPE)
    assert text.returncode == 0 and text.stdout.startswith(b"In ")
    assert run(PACKAGE, "doctor", "run", folder=tmp_path).returncode in (0, 1)


def test_a_file_name_of_any_bytes_reaches_the_program(tmp_path):
    name = os.fsencode(tmp_path) + b"/caf\xe9.jsonl"
    with open(name, "wb") as file:
        file.write(PROFILE.read_bytes())
    result = subprocess.run([*map(os.fsencode, PACKAGE), b"doctor", name, b"--json"], stdout=subprocess.PIPE)
    assert result.returncode == 1 and b"residual-missing" in result.stdout


@pytest.mark.parametrize("arguments", [[], ["--port", "0"], ["--runs", "out"]])
def test_serve_says_where_it_is(arguments):
    result = run(PACKAGE, "serve", *arguments)
    assert result.returncode == 2 and result.stdout == ""
    assert result.stderr == ("addnorm serve: the Python package has no pages to serve; in the source of addnorm, "
                             "`make serve` builds them and shows them\n")


def test_ctrl_c_ends_it_while_it_works(tmp_path):
    os.mkfifo(tmp_path / "profile.jsonl")
    reading = subprocess.Popen([*PACKAGE, "doctor", tmp_path / "profile.jsonl"], stderr=subprocess.PIPE)
    with open(tmp_path / "profile.jsonl", "w"):  # waits until the program reads
        reading.send_signal(signal.SIGINT)
        assert reading.wait(60) == -signal.SIGINT
    assert reading.stderr.read() == b""
    reading.stderr.close()


def test_a_pipe_that_closes_ends_it_without_a_traceback():
    reader, writer = os.pipe()
    os.close(reader)
    listed = subprocess.run([*PACKAGE, "lab", "list"], stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert listed.returncode == -signal.SIGPIPE and listed.stderr == ""
