"""gtape's plugin for pytest: options, the marker `gtape` and the fixture `gtape_check`.

pytest imports this module in every project of an environment with gtape. So it lies outside the package, and imports
gtape, which imports NumPy, only when a run uses one of the options, the marker or the fixture.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from gtape.verify.plugin.checks import Checks
    from gtape.verify.plugin.fixture import Check

_OPTIONS = ("gtape_verify", "gtape_fail_on", "gtape_order", "gtape_budget", "gtape_report")
_MARKER = (
    "gtape(off=False, declared=None, order=None): check the gradients of this test; off: check none; declared: why "
    "they are meant to differ from the exact ones; order: the highest order to check"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("gtape", "gtape: checks of derivatives")
    group.addoption(
        "--gtape-verify", action="store_const", const="", help="compare every gradient with the exact derivative"
    )  # fmt: skip
    # An option of its own, because an option with an optional value would take a file behind it for the value.
    group.addoption(
        "--gtape-verify=strict", action="store_const", const="strict", dest="gtape_verify",
        help="the same, and undecided gradients fail a test, too",
    )  # fmt: skip
    group.addoption(
        "--gtape-fail-on", metavar="VERDICTS",
        help="the verdicts that fail a test, such as rule,unstable; by default all that are not harmless, undecided "
        "ones excepted",
    )  # fmt: skip
    group.addoption("--gtape-order", type=int, metavar="K", help="the highest order that is checked (default: all)")
    group.addoption("--gtape-budget", type=float, metavar="SECONDS", help="the time for each check (default: no limit)")
    group.addoption(
        "--gtape-report",
        metavar="PATH",
        help="write all counts and findings to PATH: a report for .jsonl, .xml, .sarif, .md and .html, otherwise JSON",
    )


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Iterator[None]:
    """Check the gradients of the first `conftest.py` files if an option asks for checks."""
    given = early_config.known_args_namespace
    if getattr(given, "gtape_verify", None) is None:
        return (yield)
    _import_checks()
    from gtape.verify.plugin.checks import checking_conftests

    with checking_conftests(given):
        return (yield)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker; start the checks if an option asks for them."""
    config.addinivalue_line("markers", _MARKER)
    config.pluginmanager.register(_Uses(config), "gtape-uses")
    if any(config.getoption(name) is not None for name in _OPTIONS):
        _checks(config)


class _Uses:
    """Starts the checks as soon as a test uses them."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        used = any(
            item.get_closest_marker("gtape") is not None or "gtape_check" in getattr(item, "fixturenames", ())
            for item in items
        )
        if used or self.config.pluginmanager.has_plugin("gtape-checks"):
            _checks(self.config).prepare(items)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # Under pytest-xdist, the report comes from a worker.
        if hasattr(report, "gtape"):
            _checks(self.config).add(report.nodeid, report.gtape)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if hasattr(report, "gtape"):
            _checks(self.config).add(report.nodeid, report.gtape)


def _import_checks() -> None:
    """Import gtape's checks. A wrong GTAPE_VERIFY, which the import reads, is a wrong use of pytest."""
    try:
        import gtape.verify.plugin.checks  # noqa: F401 - the callers import names from it
    except ValueError as e:
        raise pytest.UsageError(str(e)) from None


def _checks(config: pytest.Config) -> Checks:
    """The checks of this run, started by the first call."""
    found: Checks | None = config.pluginmanager.get_plugin("gtape-checks")
    if found is None:
        _import_checks()
        from gtape.verify.plugin.checks import Checks

        found = Checks(config)
        config.pluginmanager.register(found, "gtape-checks")
    return found


@pytest.fixture
def gtape_check(request: pytest.FixtureRequest) -> Check:
    """A function that checks gtape's derivatives: ``gtape_check(f, *args, order=1)`` fails the test for a wrong one.

    ``gtape_check.judge(f, args, claimed, order=1)`` judges numbers from elsewhere. Both return the report.
    """
    from gtape.verify.plugin.fixture import Check

    return Check(_checks(request.config), request.node)
