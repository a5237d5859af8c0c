"""The hooks of pytest that check tests, carry the results to the summary and the report, and say how to repeat a
finding.
"""

from __future__ import annotations

import datetime
import itertools
import os
import shlex
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from gtape.base.escaping import plain
from gtape.base.verification import FAILING, Mode, Options, restart_sample, verify_mode, verifying
from gtape.errors import VerificationError
from gtape.verify.command.files import refusal
from gtape.verify.command.output import Usage, versions, write_json, write_text
from gtape.verify.plugin.answers import answering
from gtape.verify.plugin.records import Record, finding_text
from gtape.verify.plugin.summary import Totals
from gtape.verify.reports.formats import format_of
from gtape.verify.reports.sources import of_data
from gtape.verify.verdicts.collect import listening
from gtape.verify.verdicts.machine import machine
from gtape.verify.verdicts.verdict import Finding, Report

__all__ = ["Checks", "checking_conftests"]

_RECORD = pytest.StashKey[Record]()
_HEARD = pytest.StashKey[bool]()
_OPTIONS = ("verify", "fail_on", "order", "budget")
_PASSED_OVER = (
    "the test passed over this error, which was raised in a thread, or which the test caught. If the error is meant, "
    "expect it with pytest.raises(gtape.VerificationError), or say why with @pytest.mark.gtape(declared='...')"
)


class _Marked:
    """The arguments of the closest marker `gtape` of one test, or of all its markers at the closest place."""

    def __init__(self, item: pytest.Item) -> None:
        places = [markers for markers in _places(item) if markers]
        for marker in itertools.chain(*places):
            unknown = set(marker.kwargs) - {"off", "declared", "order"}
            if marker.args or unknown:
                raise pytest.UsageError(
                    f"{item.nodeid}: the marker gtape takes off=, declared= and order=, not "
                    f"{', '.join([*map(repr, marker.args), *sorted(unknown)])}"
                )
        given: dict[str, Any] = {}
        for marker in places[0] if places else ():
            given = {**marker.kwargs, **given}
        self.present = bool(places)
        self.off, self.declared, self.order = given.get("off", False), given.get("declared"), given.get("order")
        if not isinstance(self.off, bool):
            raise pytest.UsageError(f"{item.nodeid}: the marker gtape takes off=True or False, not {self.off!r}")
        if self.declared is not None and (not isinstance(self.declared, str) or not self.declared.strip()):
            raise pytest.UsageError(f"{item.nodeid}: the marker gtape takes the reason as text: declared='clips'")
        if self.off and self.declared is not None:
            raise pytest.UsageError(f"{item.nodeid}: the marker gtape takes off=True or declared=, not both")
        try:
            Options(order=self.order)
        except (TypeError, ValueError) as e:
            raise pytest.UsageError(f"{item.nodeid}: the marker gtape: {e}") from None


def _places(item: pytest.Item) -> Iterator[list[pytest.Mark]]:
    """The markers `gtape` at each place, the closest to the test first.

    The places are the test's parameters, its function, its class and the base classes, and so on outwards. pytest joins
    the markers of the first two, and those of a class and its base classes, in another order.
    """
    parameters = getattr(getattr(item, "callspec", None), "marks", ())
    for node in reversed(item.listchain()):
        own = [m for m in node.own_markers if m.name == "gtape"]
        bases = getattr(node.obj, "__mro__", ()) if isinstance(node, pytest.Class) else ()
        inner = [parameters if node is item else (), *[_marks_of(base) for base in bases]]
        for marks in inner:
            yield [m for m in own if any(m is mark for mark in marks)]
            own = [m for m in own if not any(m is mark for mark in marks)]
        yield own


def _marks_of(base: type) -> list[pytest.Mark]:
    """The markers of a class, without those of its base classes."""
    given = vars(base).get("pytestmark", [])
    marks: list[Any] = given if isinstance(given, list) else [given]
    return [m if isinstance(m, pytest.Mark) else m.mark for m in marks]


def _changes(given: Any) -> dict[str, Any]:
    """The options of checks that the command line changes."""
    try:
        words = given.gtape_fail_on
        changes = {
            "fail_on": None if words is None else [w.strip() for w in words.split(",") if w.strip()],
            "order": given.gtape_order,
            "budget": given.gtape_budget,
            "strict": True if given.gtape_verify == "strict" else None,
        }
        changes = {name: value for name, value in changes.items() if value is not None}
        Options(**changes)
    except (TypeError, ValueError) as e:
        raise pytest.UsageError(f"gtape's options: {e}") from None
    return changes


def _changed(changes: dict[str, Any], nodeid: str) -> Options:
    """The options of GTAPE_VERIFY, or the default ones, with changes for one test or file."""
    options = Options.of(verify_mode())
    if options.sample < 1.0:
        # Each test has a seed of its own, because the sample must not depend on other tests or on their order.
        changes = {**changes, "seed": _seed(options.seed, nodeid)}
    return Options(**{**{name: getattr(options, name) for name in Options.__slots__}, **changes})


@contextmanager
def checking_conftests(given: Any) -> Iterator[None]:
    """Check the gradients of the `conftest.py` files that pytest imports before it has a configuration.

    Parameters
    ----------
    given : argparse.Namespace
        The command line.
    """
    with _sampling(_changed(_changes(given), "")):
        yield


@contextmanager
def _sampling(mode: Mode) -> Iterator[None]:
    """Check gradients; the sample begins and ends with the block, because a process may run a test again."""
    options = Options.of(mode)
    restart_sample(options)
    try:
        with verifying(mode):
            yield
    finally:
        restart_sample(options)


class Checks:
    """The checks of one run of pytest.

    Parameters
    ----------
    config : pytest.Config

    Raises
    ------
    pytest.UsageError
        For a wrong option, or a report that cannot be written.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.totals = Totals()
        self.unwritten: str | None = None
        self.began = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        self.report: str | None = None
        self.on = config.getoption("gtape_verify") is not None
        self.changes = _changes(config.option)
        self._collecting: list[Record] = []
        path = config.getoption("gtape_report")
        if path is not None and not hasattr(config, "workerinput"):
            self.report = os.path.join(config.invocation_params.dir, path) if path else path
            why = refusal(self.report)
            if why is not None:
                raise pytest.UsageError(f"--gtape-report={plain(path)} cannot be written: {why}")

    # -- the checks

    def prepare(self, items: list[pytest.Item]) -> None:
        """Read the markers of all collected tests, because a wrong marker must end the run."""
        for item in items:
            if _Marked(item).declared is not None:
                # Declared findings are in the summary.
                name = "gtape.verify.judging.flag.VerificationWarning"
                item.add_marker(pytest.mark.filterwarnings(f"ignore::{name}"), append=False)

    def options_of(self, item: pytest.Item) -> Options:
        """The options of the checks of a test, whether its tapes are checked or not."""
        marked = _Marked(item)
        changes = dict(self.changes)
        if marked.order is not None:
            changes["order"] = marked.order
        if marked.declared is not None:
            changes |= {"fail_on": (), "strict": False, "digits": None}
        return _changed(changes, item.nodeid)

    def _mode_of(self, item: pytest.Item) -> Mode | None:
        """The mode of the tapes in a test; None if only GTAPE_VERIFY decides."""
        marked = _Marked(item)
        if marked.off:
            return False
        if not (marked.present or self.on or (self.changes and verify_mode())):
            return None
        return self.options_of(item)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Check the gradients of a test and of the fixtures that it sets up."""
        mode = self._mode_of(item)
        with self.heard(item):
            if mode is None:
                return (yield)
            with _sampling(mode):
                return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Iterator[None]:
        """Check the gradients that a file takes while pytest imports it and makes its tests.

        A tape that records then is still checked in the tests, as after each `verifying` block.
        """
        if not (self.on or (self.changes and verify_mode())):
            return (yield)
        options = _changed(self.changes, collector.nodeid)
        record = Record(options)
        self._collecting.append(record)

        def heard(report: Report, seconds: float, failed: list[Finding]) -> None:
            if self._collecting[-1] is record:  # a folder collects its files inside of its own collection
                record.add(report, seconds, failed)

        def left_out() -> None:
            if self._collecting[-1] is record:
                record.count_left_out()

        try:
            with _sampling(options), listening(heard, left_out):
                report: Any = yield
        finally:
            self._collecting.remove(record)
        if record.gradients or record.left_out:
            report.gtape = {**record.as_dict(), "collected": True}
            if any(f["fails"] for f in record.findings.values()):
                report.sections.append(("gtape: to reproduce", self.command(collector.nodeid)))
        return report  # type: ignore[no-any-return]

    @contextmanager
    def heard(self, item: pytest.Item) -> Iterator[None]:
        """Add the checks of a block to the record of a test, once for nested blocks."""
        if item.stash.get(_HEARD, False):
            yield
            return
        item.stash[_HEARD] = True
        try:
            with (
                listening(lambda *told: self._record(item).add(*told), lambda: self._record(item).count_left_out()),
                answering(lambda report: self._record(item).errors.answer(report)),
            ):
                yield
        finally:
            item.stash[_HEARD] = False

    def _record(self, item: pytest.Item) -> Record:
        if _RECORD not in item.stash:
            item.stash[_RECORD] = Record(self.options_of(item), _Marked(item).declared)
        return item.stash[_RECORD]

    # An error of a check that no part of pytest sees must not pass: an error in a thread, or one that the test caught.

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        """Forget the errors of a set-up that failed."""
        return (yield from self._passing(item, ends=False))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Fail a test that passed over an error of a check."""
        return (yield from self._passing(item, ends=True))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        """Fail a test whose last threads or fixtures passed over an error of a check."""
        return (yield from self._passing(item, ends=True))

    def _passing(self, item: pytest.Item, *, ends: bool) -> Iterator[None]:
        __tracebackhide__ = True
        try:
            result = yield
        except pytest.skip.Exception:
            raise
        except BaseException:
            self._record(item).errors.clear()  # the test has failed
            raise
        errors = self._record(item).errors
        if ends and errors.count and self._mode_of(item):
            report, more = errors.first(), errors.count - 1
            errors.clear()
            told = f"{report.summary() if report else ''}\n{_PASSED_OVER}{f' ({more} more)' if more else ''}"
            raise VerificationError(told, report=report)
        return result

    # -- where the results go

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
        """Put the command that repeats a finding below a failure, and the record of a test on its last report."""
        last = call.when == "teardown"
        record = self._record(item) if last else None
        if record is not None:
            for found in record.findings.values():
                item.user_properties.append(("gtape_finding", finding_text(found)))
            del item.stash[_RECORD]  # plugins may run a test again
        report: Any = yield
        if call.excinfo is not None and call.excinfo.errisinstance(VerificationError):
            report.sections.append(("gtape: to reproduce", self.command(item.nodeid)))
        if record is not None and (record.gradients or record.left_out or record.declared):
            report.gtape = record.as_dict()
        return report  # type: ignore[no-any-return]

    def command(self, nodeid: str) -> str:
        """The command that runs one test again, with the options of this run."""
        config: Any = self.config  # the type of names differs between versions of pytest
        test: str = config.cwd_relative_nodeid(nodeid)
        # pytest would take a file with such a name for an option, or for a file of options.
        words = ["python", "-m", "pytest", f"./{test}" if test.startswith(("-", "@")) else test]
        for name in _OPTIONS:
            value = self.config.getoption(f"gtape_{name}")
            if value is not None:
                alone = name == "verify" and not value  # the only option that stands without a value
                words.append(f"--gtape-{name.replace('_', '-')}" + ("" if alone else f"={value}"))
        text = " ".join(map(shlex.quote, words))
        mode = os.environ.get("GTAPE_VERIFY")
        return text if not mode else f"GTAPE_VERIFY={shlex.quote(mode)} {text}"

    def add(self, nodeid: str, data: dict[str, Any]) -> None:
        """Add the record of a test to the totals."""
        self.totals.add(nodeid, data)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Write the report."""
        if self.report is None:
            return
        data = {
            "versions": versions(),
            "machine": machine(),
            "command": ["python", "-m", "pytest", *map(str, self.config.invocation_params.args)],
            "exitstatus": int(exitstatus),
            "began": self.began,
            "settings": self._settings(),
            **self.totals.as_dict(self.command),
        }
        text_of = format_of(self.report)
        try:
            if text_of is None:
                write_json(self.report, data)
            else:
                write_text(self.report, text_of(of_data(data)))
        except Usage as e:
            self.unwritten = str(e)
            session.exitstatus = pytest.ExitCode.USAGE_ERROR

    # -- the output

    def pytest_report_header(self) -> str:
        """Print the options of the checks."""
        if not (self.on or verify_mode()):
            return "gtape: the gradients of marked tests are checked"
        return f"gtape: every gradient is checked by {self._options()}"

    def _options(self) -> Options:
        """The options of the run, without the markers of single tests."""
        options = Options.of(verify_mode())
        return Options(**{**{name: getattr(options, name) for name in Options.__slots__}, **self.changes})

    def _settings(self) -> dict[str, Any]:
        """All that says which gradients the run checks, and how."""
        options = self._options()
        values = {name: getattr(options, name) for name in Options.__slots__}
        if options.fail_on is not None:
            values["fail_on"] = [verdict for verdict in FAILING if verdict in options.fail_on]
        checked = "every gradient" if self.on or verify_mode() else "the gradients of marked tests"
        return {"checked": checked, "GTAPE_VERIFY": os.environ.get("GTAPE_VERIFY"), **values}

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the results of the checks."""
        lines = self.totals.lines(self.command)
        if self.report is not None:
            lines.append(
                self.unwritten or f"written: {plain(os.path.relpath(self.report, self.config.invocation_params.dir))}"
            )
        if lines:
            terminalreporter.section("gtape", sep="=")
        for line in lines:
            terminalreporter.write_line(line)


def _seed(seed: int, nodeid: str) -> int:
    return seed << 32 | zlib.crc32(nodeid.encode("utf-8", "backslashreplace"))
