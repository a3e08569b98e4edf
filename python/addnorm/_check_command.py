"""The command `addnorm check MODULE:FUNCTION`: runs addnorm.check on the model and inputs that a function returns."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
from typing import Any, Mapping, NoReturn, Sequence

from ._core import Error
from .check import check
from .report import Report, names_of

SOUND, FINDINGS, BAD_INPUT = 0, 1, 2  # the exit status, as for `addnorm doctor`

_MEANING = """\
MODULE is imported from the working directory or from where Python finds modules, and FUNCTION() is
called. It returns (model, inputs), or (model, inputs, options) with a dict of options of addnorm.check:

    def small():
        return GPT(config), tokens, {"loss": lambda output: output.square().mean()}

The model is run as by addnorm.check, and the report printed as by `addnorm doctor`.
Exit status: 0 sound, 1 findings, or not everything was measured, 2 bad usage or bad input.
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Error(message)


def run(called: str, arguments: Sequence[str]) -> int:
    """Runs the command with its arguments, and returns its exit status. Errors are one line on standard error."""
    parser = _Parser(f"{called} check", description="Find bugs in a PyTorch model, and how to fix them.",
                     epilog=_MEANING, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("target", metavar="MODULE:FUNCTION", help='such as "models:small"')
    parser.add_argument("--ignore", metavar="RULE", action="append", default=[],
                        help='leave out findings: a rule, or "rule@layer 2"; may be given several times')
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    try:
        flags = parser.parse_args(arguments)
        report = _report(flags.target, flags.ignore, flags.json)
    except Exception as error:
        text = str(error) if isinstance(error, Error) else _told(error)
        print(f"addnorm check: {' '.join(text.split())}", file=sys.stderr)
        return BAD_INPUT
    print(report.json() if flags.json else f"{report.text()}", end="", flush=True)
    return SOUND if report.sound else FINDINGS


def _report(target: str, ignore: list[str], is_json: bool) -> Report:
    """Checks the target. Standard output is kept for the JSON document, whatever the module prints."""
    try:
        names_of(ignore)
    except Error as error:
        raise Error(f"--{error}") from None
    with contextlib.redirect_stdout(sys.stderr) if is_json else contextlib.nullcontext():
        model, inputs, options = _call(target)
        own = options.pop("ignore", ())
        return check(model, inputs, ignore=[*names_of(own), *ignore], **options)


def _call(target: str) -> tuple[Any, Any, dict[str, Any]]:
    """Imports the module and calls its function. Returns the model, the inputs and the options."""
    name, _, function = target.partition(":")
    if not name or not function.isidentifier():
        raise Error(f'"{target}" is no MODULE:FUNCTION, such as "models:small"')
    if name.endswith(".py") or os.sep in name:
        raise Error(f'"{name}" is a file; name its module, such as "models:{function}" for models.py')
    sys.path.insert(0, "")
    try:
        module = importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise Error(f"{name} could not be imported: {_told(error)}") from error
    if not callable(getattr(module, function, None)):
        raise Error(f"{name} has no function {function}")
    try:
        result = getattr(module, function)()
    except (Exception, SystemExit) as error:
        raise Error(f"{target} failed: {_told(error)}") from error
    return _parts(target, result)


def _parts(target: str, result: Any) -> tuple[Any, Any, dict[str, Any]]:
    if not isinstance(result, tuple) or len(result) not in (2, 3):
        what = f"a tuple of {len(result)}" if isinstance(result, tuple) else f"a {type(result).__name__}"
        raise Error(f"{target} returned {what}, must return (model, inputs) or (model, inputs, options)")
    model, inputs, options = (*result, {})[:3]
    if not isinstance(options, Mapping) or not all(isinstance(key, str) for key in options):
        raise Error(f"{target} returned a {type(options).__name__} as options, must be a dict with names as keys")
    return model, inputs, dict(options)


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
