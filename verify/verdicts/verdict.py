"""Verdicts, findings and reports: the results of a check."""

from __future__ import annotations

import contextlib
import html
import math
import re
import textwrap
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from typing import Any

from gtape.base.counts import counted
from gtape.base.diagnosis import diagnosed_methods
from gtape.base.escaping import json_data, place_text, plain, plain_lines
from gtape.base.own_files import hide_own_frames
from gtape.base.shown import shown
from gtape.base.verification import Options
from gtape.errors import VerificationError
from gtape.tensors.argument_checks import each, flag, number, settings, whole
from gtape.verify.verdicts.exponents import readable

__all__ = ["GRAVITY", "Cause", "Finding", "Report", "gravity", "merged"]

# Why numbers lie beyond their bounds: (verdict, reason, op, line of the user's code).
Cause = tuple[str, str, str | None, Any]

# The gravest first; a report's verdict is the gravest of its findings. "convention-outside" stands for a convention
# with a value outside the one-sided derivatives, "-lost" for numbers with too few right digits, as of a cancellation
# that left under half of them: all are as grave as wrong numbers, because such a number is useless.
GRAVITY = (
    "rule",
    "unstable",
    "convention-outside",
    "unconnected",
    "domain",
    "range-lost",
    "cancellation-lost",
    "conditioning-lost",
    "undecided",
    "cancellation",
    "conditioning",
    "convention",
    "range",
    "correct",
)


def gravity(verdict: str) -> int:
    """The position of a verdict in `GRAVITY`; unknown words come last.

    Examples
    --------
    >>> sorted(["undecided", "rule", "other"], key=gravity)
    ['rule', 'undecided', 'other']
    """
    return GRAVITY.index(verdict) if verdict in GRAVITY else len(GRAVITY)


def _plain(x: Any) -> Any:
    """A value fit for JSON: infinities and NaN as text, NumPy's scalars as Python's, tuples as lists."""
    if isinstance(x, (tuple, list)):
        return [_plain(v) for v in x]
    x = x.item() if hasattr(x, "item") else x
    return str(x) if isinstance(x, float) and not math.isfinite(x) else json_data(x)


_NUMBER = re.compile(r"(?<![\w.])(-?10\*\*\([-+.e\d]+\)|-?(\d+(\.\d+)?(e[-+]?\d+)?|inf|nan)(?![\w]))")

_COLUMNS = 100
_LABEL = 11  # columns of a label with its indentation

# The verdicts about rounding, for which options may require a number of right digits.
_OF_ROUNDING = frozenset({"unstable", "cancellation", "conditioning"})


@diagnosed_methods
class Finding:
    """One result of a check.

    Attributes
    ----------
    verdict : str
        One of "correct", "rule", "unstable", "conditioning", "cancellation", "convention", "range", "domain",
        "unconnected", "undecided". Three of them name the cause of lost digits: for "conditioning" the problem itself
        (half a unit in the inputs moves the exact derivative as much), for "cancellation" the program's own arithmetic,
        for "unstable" a single rule or formula.
    order : int
        1 for a first derivative, 2 for a second.
    op : str or None
        The op to blame, if known.
    rule_of : str or None
        The op of the user's code whose rule calls `op`, if the user's code does not call `op` itself.
    line : (file, number, function) or None
        The line of the user's code that called the op, or the op of the rule.
    defined : (file, number, function) or None
        For a wrong custom gradient, the line that defines its function.
    element : tuple or None
        (source number, index in that source). For an op checked by itself (part, index), where the part is its "value",
        "argument 0" for the derivative by this argument, or "sum" for the sum of its cotangents.
    got : float or None
        The returned value.
    exact : str or None
        The exact value to 40 digits.
    ulps : float or None
        The distance in units in the last place of the exact value's dtype.
    digits : float or None
        The number of right decimal digits; the fewest, if the finding stands for several elements.
    condition : float or None
        Factor by which a relative error of one rounding grows on the way to this element.
    inside : bool or None
        For conventions: True if the value lies between the one-sided derivatives.
    reason : str
        The cause in words.
    instead : str or None
        The formula to write instead, if known.
    source : str or None
        The name of the variable with `element`, if named.
    witness : str or None
        A minimal program that shows the fault, as text that runs.
    without_witness : str or None
        The reason for a missing witness, for a verdict that usually has a witness.
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
        "_asked", "_cause", "_exact", "condition", "count", "defined", "digits", "element", "got", "inside", "instead",
        "line", "lost", "ok", "op", "order", "reason", "rule_of", "source", "ulps", "verdict",
        "without_witness", "witness",
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
        exact: Any = None,
        ulps: float | None = None,
        digits: float | None = None,
        condition: float | None = None,
        inside: bool | None = None,
        reason: str = "",
        instead: str | None = None,
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
        self.got, self._exact, self.ulps, self.condition, self.inside = got, exact, ulps, condition, inside
        self.digits = _digits_of(got, self.exact) if digits is None else digits
        self.reason, self.instead, self.witness = reason, instead, witness
        self.without_witness: str | None = None
        self.defined: Any = None
        self.rule_of: str | None = None
        self.source: str | None = None
        self.count, self.lost = count, lost
        self._asked = False  # whether the options require a number of right digits
        # A text that findings of one cause share, up to its numbers, such as a relative error, which differ by element.
        self._cause = reason if cause is None else cause
        if ok is None:
            harmless = ("correct", "conditioning", "cancellation", "range")
            ok = verdict in harmless or (verdict == "convention" and inside is not False)
        self.ok = ok

    @property
    def exact(self) -> str | None:
        """The exact value to 40 digits."""
        if self._exact is not None and self._exact.__class__ is not str:
            # Written on first use, because a training loop drops most findings unread.
            from gtape.symbolic.balls import digits

            self._exact = digits(self._exact)
        found: str | None = self._exact
        return found

    @exact.setter
    def exact(self, value: Any) -> None:
        self._exact = value

    @property
    def gravity(self) -> int:
        """Position in `GRAVITY`; a smaller number is graver."""
        if self.verdict == "convention" and self.inside is False:
            return GRAVITY.index("convention-outside")
        lost = f"{self.verdict}-lost"
        return GRAVITY.index(lost if not self.ok and lost in GRAVITY else self.verdict)

    def fails(self, named: frozenset[str] | None = None, *, strict: bool = False) -> bool:
        """True if the finding makes a check fail.

        Parameters
        ----------
        named : set of str, optional
            The verdicts that raise, harmless findings included. One with too few digits raises anyway.
        strict : bool
            True counts `undecided`; without `named`, and unless the options require digits, cancellations of more than
            four bits, too.
        """
        if self.verdict == "undecided":
            return strict or (named is not None and "undecided" in named)
        if self._asked and not self.ok:
            return True  # who requires digits wants no number with fewer, whatever else may pass
        if named is not None:
            return self.verdict in named
        return not self.ok or (strict and not self._asked and self.lost is not None and self.lost > _FEW_BITS)

    def absorb(self, other: Finding) -> None:
        """Count a finding of the same cause in this one, which then describes the worse element of the two."""
        if not isinstance(other, Finding):
            raise TypeError(f"Finding.absorb takes a finding, not {shown(other)}")
        count = self.count + other.count
        fewest = min([f.digits for f in (self, other) if f.digits is not None], default=None)
        if _size(other) > _size(self):
            for name in self.__slots__:
                setattr(self, name, getattr(other, name))
        self.count, self.digits = count, fewest

    @property
    def key(self) -> Any:
        """A key that is equal for findings of one cause."""
        return self.verdict, self.op, self.line, self.order, self.ok, self.inside, _NUMBER.sub("...", self._cause)

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        made = {name: getattr(self, name) for name in self.__slots__}
        return None, {**made, "_exact": self.exact}

    def as_dict(self) -> dict[str, Any]:
        """The finding as plain data, fit for JSON, with infinities and NaN as text."""
        names = sorted(["exact", *[name for name in self.__slots__ if not name.startswith("_")]])
        made = {name: _plain(getattr(self, name)) for name in names}
        made["got"] = None if self.got is None else repr(self.got)
        return made

    def __str__(self) -> str:
        head = [f"{self.verdict} (order {self.order})"]
        if self.op:
            head.append(f"op {plain(self.op)}" + (f" in the derivative of {self.rule_of}" if self.rule_of else ""))
        if self.element is not None:
            of, index = self.element
            of = of if not isinstance(of, int) else f"source {of}" + (f" ({plain(self.source)})" if self.source else "")
            more = f" and {self.count - 1:,} more" if self.count > 1 else ""
            head.append(f"{of}, element {list(index)}{more}")
        lines = _wrapped("", ", ".join(head))
        if self.got is not None:
            lines += _wrapped("got", repr(self.got))
        if self.exact is not None:
            lines += _wrapped("exact", readable(self.exact))
        lines += _wrapped("digits", self._digits_told())
        places = [place_text(line) for line in (self.defined, self.line) if line]
        lines += _wrapped("line", ",\ncalled at ".join(places))
        reason, instead = plain_lines(self.reason), plain_lines(self.instead or "")
        lines += _wrapped("why", reason.removesuffix(f"; {instead}") if instead else reason)
        lines += _wrapped("instead", instead)
        if self.witness:
            lines += ["  witness", plain_lines(self.witness).rstrip("\n")]
        elif self.without_witness:
            lines += _wrapped("witness", f"none: {plain_lines(self.without_witness)}")
        return "\n".join(lines)

    def _digits_told(self) -> str:
        said = []
        if self.digits is not None:
            said.append(f"{int(self.digits)} right")
        if self.ulps is not None:
            said.append(f"{self.ulps:.3g} ULP off")
        if self.verdict == "conditioning" and self.condition is not None and 1 <= self.condition < math.inf:
            said.append(f"rounding grows {self.condition:.2g} times")
        return ", ".join(said)

    def _repr_html_(self) -> str:
        """The finding for a notebook."""
        return f"<pre>{html.escape(str(self))}</pre>"

    __repr__ = __str__


_FEW_BITS = 4.0  # wrong bits that a strict check accepts


def _size(finding: Finding) -> tuple[float, float]:
    """How wrong the element of a finding is: in ULP, and among infinite distances, as of exact zeros, by its number."""
    if finding.ulps is None:
        return 0.0, 0.0
    if math.isfinite(finding.ulps):
        return finding.ulps, 0.0
    size = abs(finding.got) if isinstance(finding.got, (int, float, complex)) else 0.0
    return math.inf, math.inf if math.isnan(size) else size


def _digits_of(got: Any, exact: str | None) -> float | None:
    """The number of right decimal digits of a number; None without any, as for 0, and for complex numbers."""
    if exact is None or not isinstance(got, (int, float)):
        return None
    with contextlib.suppress(InvalidOperation, ArithmeticError):
        true = Decimal(exact)
        if not true.is_finite():
            return None
        if true == 0:
            return None  # a zero has no digits
        if not math.isfinite(got):
            return 0.0
        off = abs(Decimal(got) - true) / abs(true)
        return None if off == 0 else max(0.0, -float(off.log10()))
    return None


def _wrapped(label: str, text: str) -> list[str]:
    """Lines of text behind a label; none for an empty text."""
    if not text:
        return []
    first = f"  {label}".ljust(_LABEL) if label else ""
    found = []
    for line in text.split("\n"):
        found += textwrap.wrap(
            line, _COLUMNS, initial_indent=first, subsequent_indent=" " * _LABEL,
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
        first = " " * _LABEL
    return found


def _said(finding: Finding) -> Any:
    """A key that is equal for findings to report once: harmless findings about a whole op, and others with the same
    cause.
    """
    if finding.element is None:
        return (finding.verdict, finding.op, finding.line, finding.order) if finding.ok else (*finding.key, None)
    of = finding.element[0]
    return (*finding.key, of if isinstance(of, str) or finding.verdict == "unconnected" else "source")


def merged(findings: list[Finding]) -> list[Finding]:
    """The findings, where findings of one cause count as one."""
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
        The gravest first.
    checked : int
        Number of numbers compared with the exact ones.
    coverage : dict
        Extent of the check, such as "ops", "rules", and the precision in "bits".
    max_ulp : float
        The largest distance from the exact value among all numbers, in ULP; infinite if one is infinite or NaN. The
        distance from an exact zero, which has no digits, is in ULP of the terms that cancel to it.
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

    def sort(self) -> None:
        """Put the gravest finding first."""
        self.findings.sort(key=lambda f: f.gravity)

    def ask_for_digits(self, digits: int) -> None:
        """Let the number of right digits decide which findings about rounding are harmless.

        Parameters
        ----------
        digits : int
            The verdicts "unstable", "cancellation" and "conditioning" are harmless with as many right digits, and not
            harmless with fewer.
        """
        digits = whole(self, "digits", digits, least=1)
        for f in self.findings:
            if f.verdict in _OF_ROUNDING and f.digits is not None:
                f.ok, f._asked = f.digits >= digits, True
                f.reason += f"; {int(f.digits)} digits are right, and {digits} are required"

    def raise_if_failed(self, *, strict: bool = False, fail_on: str | Iterable[str] | None = None) -> None:
        """Raise VerificationError unless every finding is harmless.

        Parameters
        ----------
        strict : bool
            True raises for `undecided`, too, and for cancellations of more than four bits unless `fail_on` names the
            verdicts.
        fail_on : str or iterable of str, optional
            The verdicts that raise an error, even for harmless findings; by default all findings that are not harmless,
            except `undecided`.

        Raises
        ------
        VerificationError
            If a finding fails.
        ValueError
            For an unknown verdict.
        """
        strict = flag(self, "strict", strict)
        named = Options(fail_on).fail_on
        bad = [f for f in self.findings if f.fails(named, strict=strict)]
        if bad:
            hide_own_frames()
            raise VerificationError(self.summary(bad), report=self)

    def summary(self, findings: list[Finding] | None = None) -> str:
        """The findings in words, the gravest first."""
        told = sorted(self.findings if findings is None else _findings(findings), key=lambda f: f.gravity)
        if not told and not self.checked:
            return "correct: there was nothing to compare, because every gradient is None or empty"
        if not told:
            numbers = counted(self.checked, "number")
            return f"correct: {numbers}, at most {self.max_ulp:.3g} ULP off the exact derivative"
        text = "\n".join(str(f) for f in told[:5])
        return text + (f"\n... and {len(told) - 5} more" if len(told) > 5 else "")

    def _repr_html_(self) -> str:
        """The report for a notebook."""
        return f"<pre>{html.escape(self.summary())}</pre>"

    def __repr__(self) -> str:
        return f"<Report {self.summary()}>"
