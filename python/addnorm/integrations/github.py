"""Findings as annotations of GitHub Actions, at the class of the model."""

from __future__ import annotations

import inspect
import os
import sys
from typing import Any, TextIO

from ..report import Report

_LEVELS = {"broken": "error", "suspicious": "warning", "note": "notice"}


def commands(report: Report, model: Any = None) -> list[str]:
    """Returns a workflow command for each of report.grouped(): "::error file=…,line=…,title=…::what was seen". If
    `model` is given, the command names the file of its class."""
    source = _source(model)
    return [f"::{_LEVELS[finding.severity]} {source}title={_property(f'addnorm {finding.rule}')}::"
            f"{_data(f'{report.name}, {finding}')}" for finding in report.grouped()]


def annotate(report: Report, model: Any = None, out: TextIO | None = None) -> None:
    """Prints the workflow commands if this is a job of GitHub Actions. An empty line precedes them, because a command
    counts only at the beginning of a line and the output may be in the middle of one."""
    lines = commands(report, model)
    if lines and is_job():
        print("", *lines, sep="\n", file=out or sys.stdout, flush=True)


def is_job() -> bool:
    """Whether this runs in a job of GitHub Actions."""
    return os.environ.get("GITHUB_ACTIONS") == "true"


def _source(model: Any) -> str:
    """Returns the properties file and line of the model's class, relative to the working directory; '' if unknown."""
    try:
        file = os.path.relpath(inspect.getsourcefile(type(model)) or "")
        line = inspect.getsourcelines(type(model))[1]
    except (OSError, TypeError, ValueError):  # no model, or a class without a source file
        return ""
    return "" if file.startswith("..") else f"file={_property(file)},line={line},"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
