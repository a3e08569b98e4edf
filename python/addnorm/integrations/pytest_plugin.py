"""The doctor in tests of a model. pytest finds this plugin where addnorm is installed.

    def test_the_model_is_sound(addnorm_sound):
        addnorm_sound(GPT(config), tokens)
"""

from __future__ import annotations

from typing import Any, Callable

import pytest

from ..check import check
from ..report import Report
from . import github


def pytest_addoption(parser: pytest.Parser) -> None:
    """--addnorm-baseline FILE."""
    parser.getgroup("addnorm").addoption(
        "--addnorm-baseline", metavar="FILE",
        help="findings that are known and accepted, a file of addnorm.Report.save_baseline()")


@pytest.fixture
def addnorm_sound(request: pytest.FixtureRequest) -> Callable[..., Report]:
    """addnorm_sound(model, inputs, **options) fails with the findings of addnorm.check(model, inputs,
    **options), but for those in the file of --addnorm-baseline; else it gives the report. In a job of GitHub
    Actions the findings are annotations too."""
    baseline = request.config.getoption("--addnorm-baseline")

    def sound(model: Any, inputs: Any, **options: Any) -> Report:
        __tracebackhide__ = True
        report = check(model, inputs, **options)
        rest = report.ignoring(baseline=baseline)
        capture = request.config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled():
            github.annotate(rest, model)
        rest.assert_sound()
        return report

    return sound
