"""Verdicts, findings and reports: the results of a check."""

from __future__ import annotations

import math
from typing import Any

from gtape.base.escaping import json_data, place_text, plain, plain_lines
from gtape.base.shown import shown
from gtape.errors import VerificationError
from gtape.tensors.argument_checks import each, flag, number, settings, whole

__all__ = ["GRAVITY", "Cause", "Finding", "Report", "merged"]

# Why numbers lie beyond their bounds: (verdict, reason, op, line of the user's code).
Cause = tuple[str, str, str | None, Any]

# The gravest first; a report's verdict is the gravest of its findings. "convention-outside" stands for a convention
# with a value outside the one-sided derivatives, "cancellation-lost" for a cancellation that left under half of the
# digits: both are as grave as wrong numbers, because nobody can use the number.
GRAVITY = (
    "rule",
    "unstable",
    "convention-outside",
    "unconnected",
    "domain",
    "cancellation-lost",
    "undecided",
    "cancellation",
    "conditioning",
    "convention",
    "range",
    "correct",
)


def _plain(x: Any) -> Any:
    """A value fit for JSON: infinities and NaN as text, NumPy's scalars as Python's, tuples as lists."""
    if isinstance(x, (tuple, list)):
        return [_plain(v) for v in x]
    x = x.item() if hasattr(x, "item") else x
    return str(x) if isinstance(x, float) and not math.isfinite(x) else json_data(x)


class Finding:
    """One result of a check.

    Attributes
    ----------
    verdict : str
        One of "correct", "rule", "unstable", "conditioning", "cancellation", "convention", "range", "domain",
        "unconnected", "undecided". Three of them tell who lost digits: "conditioning" the problem (half a unit in the
        inputs moves the exact derivative as much), "cancellation" the program's own arithmetic, "unstable" a single
        rule or formula.
    order : int
        1 for a first derivative, 2 for a second.
    op : str or None
        The op to blame, if known.
    line : (file, number, function) or None
        The line of the user's code that called the op.
    element : tuple or None
        (source number, index in that source). For an op checked by itself (part, index), where the part is its "value",
        "argument 0" for the derivative by this argument, or "sum" for the sum of its cotangents.
    got : float or None
        The returned value.
    exact : str or None
        The exact value to 40 digits.
    ulps : float or None
        The distance in units in the last place of the exact value's dtype.
    condition : float or None
        Factor by which a relative error of one rounding grows on the way to this element.
    inside : bool or None
        For conventions: True if the value lies between the one-sided derivatives.
    reason : str
        Cause in words.
    source : str or None
        The name of the variable with `element`, if named.
    witness : str or None
        A minimal program that shows the fault, as text that runs.
    ok : bool
        True if the finding is harmless.
    count : int
        The number of elements with this finding; `element` is the worst of them.
    lost : float or None
        For cancellations: the number of wrong bits. A strict check accepts four.

    Examples
    --------
    >>> import gtape as tf
    >>> finding = tf.verify.judge(tf.square, [tf.constant(3.0)], 5.0).findings[0]
    >>> finding.verdict, finding.got, float(finding.exact), finding.ok
    ('rule', 5.0, 6.0, False)
    """

    __slots__ = (
        "_cause", "condition", "count", "element", "exact", "got", "inside", "line", "lost", "ok", "op", "order",
        "reason", "source", "ulps", "verdict", "witness",
    )  # fmt: skip

    def __init__(
        self,
        verdict: str,
        *,
        order: int = 1,
        at: Any = None,
        op: str | None = None,
        line: Any = None,
        element: Any = None,
        got: Any = None,
        exact: str | None = None,
        ulps: float | None = None,
        condition: float | None = None,
        inside: bool | None = None,
        reason: str = "",
        witness: str | None = None,
        ok: bool | None = None,
        count: int = 1,
        lost: float | None = None,
        cause: str | None = None,
    ) -> None:
        if verdict.__class__ is not str or verdict not in GRAVITY:
            raise ValueError(f"Finding: `verdict` must be one of {', '.join(GRAVITY)}, not {shown(verdict)}")
        if at is not None:  # a node of a program
            op, line = at.name, at.line
        self.verdict, self.order, self.op, self.line, self.element = verdict, order, op, line, element
        self.got, self.exact, self.ulps, self.condition, self.inside = got, exact, ulps, condition, inside
        self.reason, self.witness = reason, witness
        self.source: str | None = None
        self.count, self.lost = count, lost
        # What findings of one cause have in common, because reasons hold numbers.
        self._cause = reason if cause is None else cause
        if ok is None:
            harmless = ("correct", "conditioning", "cancellation", "range")
            ok = verdict in harmless or (verdict == "convention" and inside is not False)
        self.ok = ok

    @property
    def gravity(self) -> int:
        """Position in `GRAVITY`; a smaller number is graver."""
        if self.verdict == "convention" and self.inside is False:
            return GRAVITY.index("convention-outside")
        lost = self.verdict == "cancellation" and not self.ok
        return GRAVITY.index("cancellation-lost" if lost else self.verdict)

    def fails(self, *, strict: bool = False) -> bool:
        """True if the finding makes a check fail.

        Parameters
        ----------
        strict : bool
            True counts `undecided`, and cancellations of more than four bits.
        """
        if strict:
            return not self.ok or (self.lost is not None and self.lost > _FEW_BITS)
        return not self.ok and self.verdict != "undecided"

    def absorb(self, other: Finding) -> None:
        """Count a finding of the same cause in this one, which then tells the worse element of the two."""
        count = self.count + other.count
        if _size(other) > _size(self):
            for name in self.__slots__:
                setattr(self, name, getattr(other, name))
        self.count = count

    @property
    def key(self) -> Any:
        """Equal for findings of one cause."""
        return self.verdict, self.op, self.line, self.order, self.ok, self.inside, self._cause

    def as_dict(self) -> dict[str, Any]:
        """The finding as plain data, fit for JSON, with infinities and NaN as text."""
        made = {name: _plain(getattr(self, name)) for name in self.__slots__ if not name.startswith("_")}
        made["got"] = None if self.got is None else repr(self.got)
        return made

    def __str__(self) -> str:
        parts = [f"{self.verdict} (order {self.order})"]
        if self.op:
            parts.append(f"op {plain(self.op)}")
        if self.line:
            parts.append(place_text(self.line))
        if self.element is not None:
            of, index = self.element
            of = of if not isinstance(of, int) else f"source {of}" + (f" ({plain(self.source)})" if self.source else "")
            more = f" and {self.count - 1:,} more" if self.count > 1 else ""
            parts.append(f"{of}, element {list(index)}{more}")
        if self.got is not None:
            parts.append(f"got {self.got!r}")
        if self.exact is not None:
            parts.append(f"exact {self.exact}")
        if self.ulps is not None:
            parts.append(f"{self.ulps:.3g} ULP off")
        if self.verdict == "conditioning" and self.condition is not None and math.isfinite(self.condition):
            parts.append(f"rounding grows {self.condition:.2g} times")
        text = ", ".join(parts)
        if self.reason:
            text += f": {plain_lines(self.reason)}"
        if self.witness:
            text += f"\n{plain_lines(self.witness)}"
        return text

    __repr__ = __str__


_FEW_BITS = 4.0  # wrong bits that a strict check accepts


def _size(finding: Finding) -> float:
    """How wrong the element of a finding is."""
    return 0.0 if finding.ulps is None else math.inf if math.isnan(finding.ulps) else finding.ulps


def _said(finding: Finding) -> Any:
    """Equal for findings that are told once: harmless ones about a whole op, and elements with the same cause."""
    if finding.element is None:
        return (finding.verdict, finding.op, finding.line, finding.order) if finding.ok else None
    of = finding.element[0]
    return (*finding.key, of if isinstance(of, str) or finding.verdict == "unconnected" else "source")


def merged(findings: list[Finding]) -> list[Finding]:
    """Findings with those of one cause counted as one."""
    made: list[Finding] = []
    known: dict[Any, Finding] = {}
    for f in findings:
        said = _said(f)
        same = None if said is None else known.get(said)
        if same is None:
            made.append(f)
            if said is not None:
                known[said] = f
        elif f.element is not None and same is not f:
            same.absorb(f)
    return made


def _findings(given: Any) -> list[Finding]:
    found = each("Report", "findings", given, "a list of findings")
    for f in found:
        if not isinstance(f, Finding):
            raise TypeError(f"Report: `findings` must be a list of findings, not {shown(f)}")
    return found


class Report:
    """The result of one check.

    Attributes
    ----------
    findings : list of Finding
    checked : int
        Number of numbers compared with the exact ones.
    coverage : dict
        Extent of the check, such as "ops", "rules", and the precision in "bits".
    max_ulp : float
        The largest distance from the exact value among all numbers, in ULP; infinite if one is infinite or NaN.
    used : dict
        (op, argument) of each rule that took part -> length of its longest sum.

    Examples
    --------
    >>> import gtape as tf
    >>> report = tf.verify.check(lambda x: tf.sin(x) * x, tf.constant(0.5))
    >>> report.ok, report.verdict, report.findings
    (True, 'correct', [])
    """

    def __init__(
        self,
        findings: list[Finding] | None = None,
        *,
        checked: int = 0,
        max_ulp: float = 0.0,
        coverage: dict[str, Any] | None = None,
    ) -> None:
        self.findings = _findings([] if findings is None else findings)
        self.checked = whole(self, "checked", checked, least=0)
        self.max_ulp = number(self, "max_ulp", max_ulp)
        self.coverage = {} if coverage is None else settings(self, coverage, "coverage")
        self.used: dict[tuple[str, int], int] = {}

    @property
    def ok(self) -> bool:
        """True if every finding is harmless."""
        return all(f.ok for f in self.findings)

    @property
    def verdict(self) -> str:
        """The gravest verdict; "correct" without findings."""
        return min(self.findings, key=lambda f: f.gravity).verdict if self.findings else "correct"

    def extend(self, other: Report) -> None:
        """Add another report to this one."""
        if not isinstance(other, Report):
            raise TypeError(f"Report.extend takes a Report, not {shown(other)}")
        self.findings[:] = merged(self.findings + other.findings)
        for rule, n in other.used.items():
            self.used[rule] = max(self.used.get(rule, 1), n)
        self.checked += other.checked
        self.max_ulp = max(self.max_ulp, other.max_ulp)
        for k, v in other.coverage.items():
            old = self.coverage.get(k)
            self.coverage[k] = max(old, v) if k == "bits" and old is not None else v if old is None else old + v

    def name_sources(self, sources: list[Any]) -> None:
        """Set `source` of the findings to the names of the variables."""
        sources = each(self, "sources", sources, "a list of variables")
        for f in self.findings:
            of = f.element[0] if isinstance(f.element, tuple) else None
            name = getattr(sources[of], "name", None) if isinstance(of, int) and of < len(sources) else None
            f.source = name if name is not None and name != "Variable:0" else None

    def as_dict(self) -> dict[str, Any]:
        """The report as plain data, fit for JSON."""
        return {
            "verdict": self.verdict,
            "ok": self.ok,
            "checked": self.checked,
            "max_ulp": _plain(self.max_ulp),
            "coverage": {k: _plain(v) for k, v in self.coverage.items()},
            "findings": [f.as_dict() for f in self.findings],
        }

    def raise_if_failed(self, *, strict: bool = False) -> None:
        """Raise VerificationError unless every finding is harmless.

        Parameters
        ----------
        strict : bool
            True raises for `undecided`, and for cancellations of more than four bits, too.
        """
        strict = flag(self, "strict", strict)
        bad = [f for f in self.findings if f.fails(strict=strict)]
        if bad:
            raise VerificationError(self.summary(bad), report=self)

    def summary(self, findings: list[Finding] | None = None) -> str:
        """The findings in words, the gravest first."""
        told = sorted(self.findings if findings is None else _findings(findings), key=lambda f: f.gravity)
        if not told and not self.checked:
            return "correct: there was nothing to compare, since every gradient is None or empty"
        if not told:
            numbers = "1 number" if self.checked == 1 else f"{self.checked:,} numbers"
            return f"correct: {numbers}, at most {self.max_ulp:.3g} ULP off the exact derivative"
        text = "\n".join(str(f) for f in told[:5])
        return text + (f"\n... and {len(told) - 5} more" if len(told) > 5 else "")

    def __repr__(self) -> str:
        return f"<Report {self.summary()}>"
