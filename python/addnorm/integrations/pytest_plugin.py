"""The doctor in tests of a model. pytest finds this plugin if addnorm is installed.

    def test_the_model_is_sound(addnorm_sound):
        addnorm_sound(GPT(config), tokens)

    pytest --addnorm-baseline known.json --addnorm-update-baseline   writes the current findings
    pytest --addnorm-baseline known.json                             fails only for new ones
"""

from __future__ import annotations

import pathlib
from typing import Any, Callable, Iterator

import pytest

from .._core import Error
from ..check import check
from ..report import Report, read_baseline, update_baseline
from . import github


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options --addnorm-baseline FILE and --addnorm-update-baseline."""
    group = parser.getgroup("addnorm")
    group.addoption("--addnorm-baseline", metavar="FILE",
                    help="findings that are known and accepted; --addnorm-update-baseline writes the file")
    group.addoption("--addnorm-update-baseline", action="store_true",
                    help="write the present findings of each model that is checked to the file of "
                         "--addnorm-baseline, and accept them; models that are not checked keep theirs")


def pytest_configure(config: pytest.Config) -> None:
    """Registers the session. An invalid option ends pytest before any test."""
    config.pluginmanager.register(_Session(config), _Session.NAME)


@pytest.fixture
def addnorm_sound(request: pytest.FixtureRequest) -> Callable[..., Report]:
    """addnorm_sound(model, inputs, **options) fails with the findings of addnorm.check(model, inputs, **options) that
    are not in the file of --addnorm-baseline; otherwise it returns the report. It also fails if less was measured than
    min_coverage, as in Report.assert_sound(). In a job of GitHub Actions, the findings also become annotations."""
    session: _Session = request.config.pluginmanager.get_plugin(_Session.NAME)

    def sound(model: Any, inputs: Any, *, min_coverage: float = 1.0, **options: Any) -> Report:
        __tracebackhide__ = True
        report = check(model, inputs, **options)
        rest = session.without_known(report)
        _checks(request.node).append({"model": report.name, "found": sorted(report.names()),
                                      "annotations": github.commands(rest, model)})
        try:
            rest.assert_sound(min_coverage=min_coverage)
        except AssertionError as error:
            raise AssertionError("\n\n".join([str(error), *session.hints()])) from None
        return report

    return sound


_KEY = pytest.StashKey["list[dict[str, Any]]"]()


def _checks(item: pytest.Item) -> list[dict[str, Any]]:
    return item.stash.setdefault(_KEY, [])


class _Session:
    """The findings of all checks of a session. They arrive with the reports of the tests, which pytest-xdist collects
    from its processes. They are written and printed at the end, on separate lines."""

    NAME = "addnorm-session"

    def __init__(self, config: pytest.Config) -> None:
        option = config.getoption("--addnorm-baseline")
        self._updates = config.getoption("--addnorm-update-baseline")
        self._file = None if option is None else pathlib.Path(config.invocation_params.dir, option)
        self._config = config
        self._found: dict[str, set[str]] = {}
        self._annotations: dict[str, None] = {}  # an ordered set
        if self._updates and self._file is None:
            raise pytest.UsageError("--addnorm-update-baseline: needs --addnorm-baseline FILE, which it writes")
        try:
            self._is_missing = self._file is not None and not self._file.exists()
            self._known = {} if self._file is None or self._is_missing else read_baseline(self._file)
        except (Error, OSError) as error:
            raise pytest.UsageError(f"--addnorm-baseline: {error}") from None

    def without_known(self, report: Report) -> Report:
        """Returns the report without the findings of the baseline. If the baseline is
        updated, all findings are left out."""
        if self._updates:
            return report.ignoring(*report.names())
        return report.ignoring(baseline=None if self._is_missing else self._file)

    def hints(self) -> list[str]:
        """Returns advice if the baseline file is missing."""
        if not self._is_missing or self._updates:
            return []
        return [f"--addnorm-baseline: {self._file} does not exist, so that no finding is accepted; "
                "--addnorm-update-baseline writes it"]

    def pytest_report_header(self) -> list[str]:
        return self.hints()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Iterator[None]:
        outcome: Any = yield
        outcome.get_result().addnorm = _checks(item)[:]
        _checks(item).clear()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for one in getattr(report, "addnorm", ()):
            self._found.setdefault(one["model"], set()).update(one["found"])
            self._annotations.update(dict.fromkeys(one["annotations"]))

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if hasattr(self._config, "workerinput"):  # in a process of pytest-xdist
            return
        lines = [*self._annotations] if github.is_job() else []
        if self._updates:
            lines.append(self._update(exitstatus))
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if lines and reporter is not None:
            for line in ["", *lines]:  # the empty line ends the line of dots
                reporter.write_line(line)

    def _update(self, exitstatus: int) -> str:
        """Writes the baseline. Returns a message about it."""
        if not self._found or exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            why = "the session was ended" if self._found else "no model was checked"
            return f"--addnorm-update-baseline: {self._file} is not written: {why}"
        assert self._file is not None
        self._file.parent.mkdir(parents=True, exist_ok=True)
        update_baseline(self._file, self._found)
        findings = sum(len(names) for names in self._found.values())
        return (f"--addnorm-update-baseline: {self._file} has {_count(findings, 'finding')} of "
                f"{_count(len(self._found), 'model')} that {'was' if len(self._found) == 1 else 'were'} checked")


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
