"""The totals of a run of pytest, as text and as data."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from gtape.base.escaping import plain, plain_lines
from gtape.verify.plugin.records import SLOWEST, finding_text

__all__ = ["Totals"]

_MOST_TESTS = 10  # tests with findings whose commands a summary shows; the report has all
_WORTH_NAMING = 0.1  # seconds: a faster check is not named among the slowest
_COUNTED = (
    "rule", "unstable", "unconnected", "domain", "undecided", "cancellation", "conditioning", "convention", "range",
)  # fmt: skip


class Totals:
    """The records of all tests of a run.

    Examples
    --------
    >>> totals = Totals()
    >>> totals.lines(str)
    []
    """

    def __init__(self) -> None:
        self.tests: dict[str, dict[str, Any]] = {}

    def add(self, nodeid: str, data: dict[str, Any]) -> None:
        """Add the record of a test, the last one if it ran several times."""
        self.tests[nodeid] = data

    def as_dict(self, command: Callable[[str], str] | None = None) -> dict[str, Any]:
        """The totals and the records, fit for JSON.

        Parameters
        ----------
        command : callable, optional
            The command that runs a test again, from the test's name. Each finding then holds the command.
        """
        verdicts: dict[str, int] = {}
        for data in self.tests.values():
            for verdict, n in data["verdicts"].items():
                verdicts[verdict] = verdicts.get(verdict, 0) + n
        worst = max([d["max_ulp"] for d in self.tests.values()], default=0.0)
        tests = []
        for name, d in sorted(self.tests.items()):
            again = {} if command is None else {"reproduce": command(name)}
            found = [{**f, **again} for f in d["findings"]]
            tests.append({"nodeid": name, **d, "max_ulp": _finite(d["max_ulp"]), "findings": found})
        return {
            "ok": not any(f["fails"] for d in self.tests.values() for f in d["findings"]),
            "gradients": self._sum("gradients"),
            "left_out": self._sum("left_out"),
            "numbers": self._sum("numbers"),
            "seconds": self._sum("seconds"),
            "max_ulp": _finite(worst),
            "verdicts": verdicts,
            "tests": tests,
        }

    def _sum(self, name: str) -> Any:
        return sum(d[name] for d in self.tests.values())

    def lines(self, command: Callable[[str], str]) -> list[str]:
        """The summary.

        Parameters
        ----------
        command : callable
            The command that runs a test again, from the test's name.
        """
        if not self.tests:
            return []
        total = self.as_dict(command)
        collected = sum("collected" in d for d in self.tests.values())
        checked = sum(bool(d["gradients"]) for d in self.tests.values()) - collected
        gradients, numbers = _many(total["gradients"], "gradient"), _many(total["numbers"], "number")
        if total["left_out"]:
            every = _many(total["gradients"] + total["left_out"], "gradient")
            gradients = f"a sample of {total['gradients']:,} of {every}"
        where = _many(checked, "test")
        if collected:
            where += f" and in the collection of {_many(collected, 'file')}"
        made = [f"{gradients} checked in {where}, {numbers}, {total['seconds']:.1f} s"]
        told = [f"{v} {total['verdicts'][v]:,}" for v in _COUNTED if v in total["verdicts"]]
        if told:
            made.append(f"gradients by verdict: {', '.join(told)}")
        worst = max(self.tests, key=lambda name: self.tests[name]["max_ulp"])
        if self.tests[worst]["max_ulp"] > 0:
            made.append(f"worst ULP: {self.tests[worst]['max_ulp']:.3g} in {plain(worst)}")
        return made + self._slowest() + self._declared() + self._found(command)

    def _slowest(self) -> list[str]:
        every = [(s["seconds"], s["line"], name) for name, d in self.tests.items() for s in d["slowest"]]
        named = [x for x in sorted(every, reverse=True)[:SLOWEST] if x[0] >= _WORTH_NAMING]
        if not named:
            return []
        return ["slowest checks:", *[f"  {seconds:.2f} s  {plain(name)}, {line}" for seconds, line, name in named]]

    def _declared(self) -> list[str]:
        made = []
        for name, data in self.tests.items():
            if data["declared"] is not None:
                n = sum(f["declared"] for f in data["findings"])
                found = f"{_many(n, 'finding')} declared" if n else "declared, but nothing was found"
                made.append(f"{plain(name)}: {found} ({plain(data['declared'])})")
        return made

    def _found(self, command: Callable[[str], str]) -> list[str]:
        bad = {
            name: found
            for name, d in self.tests.items()
            if (found := [f for f in d["findings"] if f["fails"] or not (f["ok"] or f["declared"])])
        }
        made = ["findings:"] if bad else []
        for name in list(bad)[:_MOST_TESTS]:
            made.append(f"  {plain(name)}")
            for f in bad[name]:
                made.append(f"    {plain(finding_text(f))}" + (f" ({f['times']:,} times)" if f["times"] > 1 else ""))
            made.append(f"    reproduce: {plain_lines(command(name))}")
        if len(bad) > _MOST_TESTS:
            made.append(f"  and {len(bad) - _MOST_TESTS} more tests, all of them in the file of --gtape-report")
        return made


def _many(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def _finite(x: float) -> Any:
    """A number for JSON, which has no infinities."""
    return x if math.isfinite(x) else str(x)
