"""check and exact: the derivatives of one function at one point, checked or computed exactly."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from flint import acb, arb

from gtape.base.collector import collector_delayed
from gtape.base.diagnosis import diagnosed
from gtape.base.escaping import place_text
from gtape.base.quiet import quietly
from gtape.recording.record import off
from gtape.symbolic.balls import (
    digits,
    encloses_zero,
    infinities_as_limits,
    mapped,
    objects,
    precision,
    radius,
    sides_of_zeros,
    ties_assumed,
)  # fmt: skip
from gtape.symbolic.implicit import values_alone
from gtape.symbolic.program import Program
from gtape.verify.causes.advice import explain
from gtape.verify.causes.branches import branches_met, isolated_branches
from gtape.verify.causes.choices import choices_met
from gtape.verify.causes.conventions import has_a_value_alone, jumps_at_an_end, kinks_met
from gtape.verify.causes.flips import crossing
from gtape.verify.causes.jumps import has_values
from gtape.verify.causes.misfits import misfits
from gtape.verify.causes.outside import is_at_an_end, lacks_a_slope, outside
from gtape.verify.causes.quotients import no_quotient, quotients_beside
from gtape.verify.causes.sides import TOO_WIDE, UNBOUNDED, Sides, with_limits
from gtape.verify.causes.stops import pass_stops
from gtape.verify.judging.block import examined
from gtape.verify.judging.branches_beside import BranchesBeside
from gtape.verify.judging.cost import bits_within_reach, checked_digits
from gtape.verify.judging.cuts import goes_by_signs, to_the_cut
from gtape.verify.judging.examine import Rows
from gtape.verify.judging.forward import check_forward_rules
from gtape.verify.judging.judgement import depends_on_bases, follows_values_alone
from gtape.verify.judging.ladder import PRECISIONS, TIES, climb, no_derivative
from gtape.verify.judging.left import add_values_left, later_numbers, other_numbers, values_left
from gtape.verify.judging.progress import shown
from gtape.verify.judging.recording import Recording, checked_order, refuse_complex_jacobian
from gtape.verify.judging.sizes import leave_sizes_open, sizes_left
from gtape.verify.judging.undefined import INFINITE, UNDEFINED, is_infinite, is_undefined
from gtape.verify.judging.unrecorded import named_by_rules, unrecorded
from gtape.verify.oracles.backward import RunsOnce, demand_second_call
from gtape.verify.oracles.certificates import certify
from gtape.verify.oracles.enclosures import turned
from gtape.verify.oracles.oracle import Oracle, factorises
from gtape.verify.verdicts.nearest import nearest
from gtape.verify.verdicts.verdict import Finding, Report, merged

__all__ = ["ExactNumber", "check", "exact"]

# Infinities are 2 to each of these powers, to see whether there is a limit.
_INFINITE = (2200, 2377)
# Beyond this and its reciprocal, numbers at infinities stand for infinity and 0.
_LARGE = arb(2) ** 1080


class ExactNumber(str):
    """A decimal number with the radius of an enclosure of the true number.

    Attributes
    ----------
    radius : float
        Bound on the distance from this number to the true value.
    """

    radius: float
    _ball: Any

    def __new__(cls, ball: Any, n: int) -> ExactNumber:
        made = super().__new__(cls, digits(_without_noise(ball), n))
        rounding = float(abs(ball)) * 10.0 ** (1 - n)
        made.radius = radius(ball).item() + (rounding if _without_noise(ball) is ball else float(abs(ball).upper()))
        made._ball = ball
        return made

    def __reduce__(self) -> Any:
        return _exact_number, (str(self), self.radius, _ball_parts(self._ball))

    def nearest(self, dtype: Any = np.float64) -> float | None:
        """The float nearest to the true value, ties to even; None if the enclosure is too wide to tell.

        Parameters
        ----------
        dtype : floating dtype
            float64 by default.

        Returns
        -------
        float or None
            Infinite beyond the largest float of the dtype.

        Raises
        ------
        TypeError
            For a complex number.

        Examples
        --------
        >>> import gtape
        >>> gtape.verify.exact(gtape.tanh, 1.0)[()].nearest().hex()
        '0x1.ae0dc0f990c45p-2'
        """
        if isinstance(self._ball, acb):
            raise TypeError("ExactNumber.nearest: a complex number has two floats; take those of its parts")
        return nearest(arb(self._ball), dtype)


def _without_noise(ball: Any) -> Any:
    """An enclosure with 0 in place of parts that enclose 0, because the digits of their midpoints have no meaning."""
    if isinstance(ball, acb):
        real, imag = ball.real, ball.imag
        noisy = encloses_zero(real) or encloses_zero(imag)
        return acb(_without_noise(real), _without_noise(imag)) if noisy else ball
    return arb(0) if encloses_zero(ball) else ball


def _ball_parts(ball: Any) -> Any:
    """A ball as plain data, with its midpoint unrounded and its radius; a text if the ball is not finite."""
    if isinstance(ball, acb):
        return _ball_parts(ball.real), _ball_parts(ball.imag)
    if not ball.is_finite():
        return repr(float(ball.mid())) if ball.rad() == 0 else str(ball)
    return [tuple(map(int, part.man_exp())) for part in (ball.mid(), ball.rad())]


def _ball(parts: Any) -> Any:
    if isinstance(parts, tuple):
        return acb(*map(_ball, parts))
    return arb(parts) if isinstance(parts, str) else arb(*parts)


def _exact_number(text: str, radius: float, parts: Any) -> ExactNumber:
    made = str.__new__(ExactNumber, text)
    made.radius, made._ball = radius, _ball(parts)
    return made


@diagnosed
def check(f: Callable[..., Any], *args: Any, order: int = 1) -> Report:
    """Check gtape's own derivatives of a function at a point against the exact ones.

    Parameters
    ----------
    f : callable
        Takes tensors, returns a tensor or a structure of tensors; the sum of all outputs is differentiated.
    *args : tensors, arrays or numbers
        The point; Python numbers are float64. A call that `gtape.verify.strategies.op_calls` draws has its own point.
    order : int
        From 1 to 8: 1 checks the gradient, 2 the Hessian, too, 3 all third derivatives, too, and so on.

    Raises
    ------
    TypeError
        For an argument that is not floating-point, or a function without a floating-point result.

    Examples
    --------
    >>> import gtape
    >>> gtape.verify.check(lambda x: gtape.tanh(x) * x, 20.0, order=2).verdict
    'correct'
    """
    args = args or getattr(f, "point", ())
    order = checked_order(order)
    try:
        with collector_delayed():
            return _checked(Recording(f, args, order))
    except Exception:  # raised by the function, or by a rule whose result does not fit
        found = _misfits(f, args, order) or _refused(f, args, order)
        if not found:
            raise
        return Report(findings=found)


def _refused(f: Callable[..., Any], args: tuple[Any, ...], order: int) -> list[Finding]:
    """The finding that a user's gradient function serves for one call only, and the check needs another one.

    Lower orders may show that the function is wrong.
    """
    try:
        recording = Recording(f, args, 1)
        (_, program, _, _) = next(iter(recording.programs()))
        for node in program.nodes:
            if node.kind == "custom":
                demand_second_call(node)
    except RunsOnce as e:
        lower = check(f, *args, order=order - 1).findings if order > 1 else []
        wrong = [v for v in lower if not v.ok and v.verdict != "undecided"]
        return wrong or [Finding("undecided", order=order, reason=str(e))]
    except Exception:
        return []
    return []


def _misfits(f: Callable[..., Any], args: tuple[Any, ...], order: int) -> list[Finding]:
    """Findings for rules that raise an error, give a wrong shape, or are wrong at lower orders; none if the function
    itself raises.
    """
    try:
        found = misfits(Recording(f, args, 1).program())
        if found or order == 1:
            return found
        recording = Recording(f, args, order)
        for k, level in enumerate(recording.levels[1:], 2):
            found = misfits(recording.of_level(level), k)
            if found:
                return found
        # The function of a wrong rule may have no derivative.
        return [v for v in check(f, *args, order=order - 1).findings if not v.ok and v.verdict != "undecided"]
    except Exception:
        return []


def _checked(recording: Recording) -> Report:
    """The report of a recorded function."""
    order = recording.order
    report = Report(findings=recording.undecided())
    if report.findings:
        return report
    rows = Rows()
    for k in range(1, recording.order + 1):
        for place, one in _examined(rows, recording.programs(k)):
            recording.place(one, place, k)
            told = {(f.verdict, f.op, f.line) for f in report.findings if f.ok and f.order < k}
            one.findings = [f for f in one.findings if not f.ok or f.lost or (f.verdict, f.op, f.line) not in told]
            report.extend(one)
        rows.know(report.findings)
        known = {(f.verdict, f.op, f.reason) for f in report.findings}
        left = unrecorded(recording, k)
        rest = [f for f in left.findings(k) if (f.verdict, f.op, f.reason) not in known]
        if report.verdict == "domain":  # this finding says why other derivatives are unknown
            rest = [f for f in rest if f.verdict != "undecided" and not left.beside]
        report.extend(Report(findings=named_by_rules(recording, rest)))
    if report.ok:  # otherwise the same op may be named twice
        report.findings += _forwards(recording.program())
    leave_sizes_open(report, recording)
    branches = branches_met(recording.tape._session, recording.inputs, order)
    beside = _isolated(recording) if branches else None
    if beside is not None and report.ok:
        report.extend(Report(findings=_apart_from_branches(recording, beside)))
    report.findings += branches
    add_values_left(report, recording, order, beside)
    report.sort()
    return report


def _isolated(recording: Recording) -> BranchesBeside | None:
    """The branches beside a point that alone takes its branch; None at other points."""
    session = recording.tape._session
    isolated = isolated_branches(session, recording.inputs, recording.order)
    return BranchesBeside(recording, isolated, isolated) if isolated else None


def _apart_from_branches(recording: Recording, beside: BranchesBeside) -> list[Finding]:
    """The findings about numbers of a branch that only the point itself takes, if the branches around it give others.

    Only those of the lowest order, because a derivative that is wrong has no derivative to compare.
    """
    for k in range(1, recording.order + 1):
        found: list[Finding] = []
        own = [place for place, *_ in recording.programs(k)]
        for place in dict.fromkeys([*own, *beside.places(k)]):
            told = Report(findings=merged(beside.wrong(place, k) or []))
            recording.place(told, place, k)
            found += told.findings
        if found:
            return found
    return []


def _examined(rows: Rows, given: Iterable[Any]) -> Iterator[tuple[Any, Report]]:
    """The reports on the rows of one order, program by program; single ops and rules are checked once."""
    checked = 0
    for program, group in groupby(given, key=itemgetter(1)):
        some = [(place, seeds, got) for place, _, seeds, got in group]
        made: Any = examined(rows, program, some, locally=not checked)
        if len(some) > 1:  # a single row may show its own parts
            made = shown(made, len(some), "checking rows of derivatives exactly")
        with contextlib.closing(made):
            for place, one in made:
                checked += one.checked
                yield place, one


def _forwards(program: Program) -> list[Finding]:
    """Findings for rules of forward mode."""
    with off(), quietly(), np.errstate(all="ignore"), precision(PRECISIONS[0]):
        found = check_forward_rules(program)
        explain(program, Report(findings=found))
    for f in found:
        f.witness, f.without_witness = None, "only forward mode uses this rule, such as ForwardAccumulator"
    return found


if TYPE_CHECKING:

    class ExactNumbers(np.ndarray[Any, Any]):
        """An array of `ExactNumber`, because an array's type tells nothing of the objects in it."""

        def __getitem__(self, key: Any, /) -> Any: ...


@overload
def exact(f: Callable[..., Any], x: Any, /, *, order: int = ..., digits: int = ...) -> ExactNumbers: ...
@overload
def exact(
    f: Callable[..., Any], x: Any, y: Any, /, *args: Any, order: int = ..., digits: int = ...
) -> tuple[Any, ...]: ...
@diagnosed
def exact(f: Callable[..., Any], *args: Any, order: int = 1, digits: int = 50) -> Any:
    """The exact derivative of a function at a point, as decimal numbers with radii.

    Parameters
    ----------
    f, *args, order
        As for `check`.
    digits : int
        Number of significant decimal digits: up to 100,000, or up to 2,000 if the function has an op that is not
        elementary, such as digamma.

    Returns
    -------
    array of ExactNumber, or tuple of these
        Order 1: one array for one argument, a tuple for several. Order 2: the Hessian, with the shape of the first
        argument followed by the shape of the second, in a tuple of tuples for several arguments. At a kink of an op the
        one-sided derivatives of the whole function decide if all agree, as those of ``abs(x)**2`` do; to about 300
        digits, because they are limits. If they differ, there is no derivative, and the convention of the op decides,
        unless its number lies outside of their interval.
        At infinite inputs the derivative is its limit. Where rounding decided a comparison or a step function of the
        run, the exact values decide; branches of Python and of `gtape.cond` are those of the run. A branch that only
        the point itself takes, such as that of ``x == 0``, does not decide if the branches beside the point disagree.
        Floats compute with constants alone, such as the product of two constant tensors.

    Raises
    ------
    ValueError
        For any other order or number of digits.
    ArithmeticError
        If the derivative does not exist, stays undecided at the highest precision, or differs from call to call.

    Examples
    --------
    >>> import gtape
    >>> str(gtape.verify.exact(gtape.tanh, 20.0, digits=25)[()])
    '1.699341702116635583692883e-17'
    """
    digits = checked_digits(digits)
    recording = Recording(f, args, checked_order(order))
    refuse_complex_jacobian(recording, order)
    branches = _isolated(recording)
    apart = [] if branches is None else _apart_from_branches(recording, branches)
    for left in (
        apart
        or values_left(recording, order, branches)
        or other_numbers(recording, order)
        or later_numbers(recording, order, seeded=False)
        or ([] if branches is not None else sizes_left(recording, order))
    ):
        place = "" if left.line is None else f" ({place_text(left.line)})"
        raise ArithmeticError(f"the exact derivative is not decided: {left.reason}{place}")
    for finding in recording.undecided(last=True) or recording.bodiless():
        raise ArithmeticError(f"the exact derivative is not decided: {finding.reason}")
    rows: dict[Any, list[Any]] = {}
    zero = ExactNumber(arb(0), digits)
    for place, program, seeds, _ in recording.programs():
        with np.errstate(all="ignore"):
            balls = _exact_row(program, seeds, digits, order)
        rows[place] = _numbers(recording, balls, digits)
    if is_undefined(recording.program()):
        left_open = outside(recording.program(), [])
        if left_open is not None and is_at_an_end(left_open):
            raise ArithmeticError(f"the exact derivative is not decided: {left_open.reason}")
        raise ArithmeticError(f"there is no derivative here: {UNDEFINED}")
    if is_infinite(recording.program()):
        raise ArithmeticError(f"there is no derivative here: {INFINITE}")
    if order > 1:
        precisions = _precisions(recording.program(), digits)
        rest = unrecorded(recording, recording.order, precisions, lambda g: _tight(g, digits))
        if rest.finding is not None:
            raise ArithmeticError(f"the exact derivative is not decided: {rest.finding.reason}")
        rows |= {place: _numbers(recording, balls, digits) for place, balls in rest.rows.items()}
    result = recording.assemble(rows, zero)
    return result


def _numbers(recording: Recording, balls: list[Any], digits: int) -> list[Any]:
    """A row of the derivative as decimal numbers; None for the zeros of an argument."""
    row: list[Any] = []
    for b, t in zip(balls, recording.inputs, strict=True):
        if b is None:
            row.append(None)
            continue
        made = np.empty(t._layout.shape, dtype=object)
        b = turned(b) if t._layout.complex else objects(b)
        for index in np.ndindex(*t._layout.shape):
            made[index] = ExactNumber(b[index], digits)
        row.append(made if t._layout.shape else made[()])
    return row


def _precisions(program: Program, wanted: int) -> tuple[int, ...]:
    """The bits to try for a number of digits."""
    first, most = max(200, int(wanted * 3.4) + 80), bits_within_reach(program, wanted)
    higher = [p for p in (*PRECISIONS, 51200) if first < p <= most]
    if first > PRECISIONS[-1]:  # because cancellation needs more digits than the result shows
        higher.append(first + first // 4)
    return first, *higher


def _exact_row(program: Program, seeds: list[Any], wanted: int, order: int) -> list[Any]:
    """A row of the exact derivative; with infinite inputs or constants its limit."""
    pass_stops(program)
    with precision(PRECISIONS[0]):
        by_signs = goes_by_signs(program)
    if not by_signs:
        return _row(program, seeds, wanted, order)
    with sides_of_zeros():
        row = _row(program, seeds, wanted, order)
    return [None if g is None else mapped(to_the_cut, objects(g)) for g in row]


def _row(program: Program, seeds: list[Any], wanted: int, order: int) -> list[Any]:
    """As `_exact_row`, without a look at branch cuts."""
    given = [np.asarray(n.output) for n in program.nodes if n.kind in ("leaf", "const")]
    if not any(v.dtype.kind == "f" and np.isinf(v).any() for v in given):
        return _finite_row(program, seeds, wanted, order)
    limits: list[Any] = []
    for exponent in _INFINITE:
        with infinities_as_limits(exponent):
            found = _finite_row(program, seeds, wanted, order)
        limits.append([None if g is None else mapped(_limit, objects(g)) for g in found])
    for g, h in zip(*limits, strict=True):
        if g is not None and any(abs(a - b) > abs(a) / _LARGE for a, b in zip(g.ravel(), h.ravel(), strict=True)):
            raise ArithmeticError("there is no derivative here: the derivative has no limit towards infinity")
    first: list[Any] = limits[0]
    return first


def _limit(x: Any) -> Any:
    """The limit that a number stands for if infinities are large numbers."""
    size = abs(arb(x)) if not isinstance(x, acb) else abs(x)
    if size > _LARGE:
        raise ArithmeticError("there is no derivative here: the derivative grows without bound towards infinity")
    return arb(0) if size < 1 / _LARGE else x


def _finite_row(program: Program, seeds: list[Any], wanted: int, order: int) -> list[Any]:

    def fresh() -> Oracle:
        return Oracle(program, seeds)

    def derivative(oracle: Oracle) -> list[Any]:
        return oracle.replay() if order == 1 else oracle.by_jets()

    def derivative_beside(oracle: Oracle) -> list[Any]:
        return oracle.replay_by_bodies() if order == 1 else oracle.by_jets()

    open_ = nowhere = ""
    by_values = follows_values_alone(program, order, fresh)

    def all_by_jets(oracle: Oracle) -> list[Any]:
        return [_by_jets(oracle, s) if nodes else None for s, nodes in enumerate(program.sources)]

    def turns(way: Callable[[Oracle], list[Any]]) -> bool:
        with precision(TIES), ties_assumed():
            oracle = fresh()
            oracle.evaluate()
            return depends_on_bases(fresh, way(oracle), way)

    def attempt(bits: int, degenerate: list[str]) -> list[Any] | None:
        with values_alone() if by_values else contextlib.nullcontext():
            return at(degenerate)

    def at(degenerate: list[str]) -> list[Any] | None:
        nonlocal open_, nowhere
        oracle = fresh()
        oracle.evaluate()
        if oracle.flips:  # rounding decided a comparison or a step function in the recorded run
            oracle = crossing(program, oracle, oracle.flips)
        made: list[Any] = oracle.replay()
        way: Callable[[Oracle], list[Any]] = Oracle.replay
        beside: Callable[[Oracle], list[Any]] = derivative_beside
        if certify(oracle, made):
            made, way = all_by_jets(oracle), all_by_jets
            beside = all_by_jets if order == 1 else derivative_beside  # without the wrong rule beside the point, too
        if degenerate and turns(way):
            around = Sides(program, fresh, beside).around()
            if around is None:
                nowhere = no_derivative(degenerate, order).reason
                return made
            return around if all(_tight(g, wanted) for g in around) else None
        if all(_tight(g, wanted) for g in made):
            met, guards = kinks_met(program, oracle, order), list[Finding]()
            alone = [f for f in met if has_a_value_alone(f)]
            if alone and Sides(program, fresh, beside).alone():
                nowhere = alone[0].reason
                return made
            met = [f for f in met if f not in alone]
            ends = [f for f in met if jumps_at_an_end(f)]
            if ends and Sides(program, fresh, beside).jumps_at_an_end():
                nowhere = f"{ends[0].op} has {ends[0].reason}"
                return made
            if not met:
                met, guards = choices_met(program, oracle, order, derivative)
            if met or guards:
                sides = Sides(program, fresh, beside)
                sides.looks_for_poles = True
                made = with_limits(sides, made)
                open_ = sides.open if met or sides.open == TOO_WIDE else ""
                nowhere = (UNBOUNDED if sides.unbounded is not None else sides.jumping or sides.outside) if met else ""
                if guards:  # only the point itself takes this branch
                    made, nowhere = _by_quotients(sides, made, order)
        return made if all(_tight(g, wanted) for g in made) else None

    # Equal eigenvalues that are computed in several ways are never certainly equal.
    ties = any(map(factorises, program.nodes))
    precisions = _precisions(program, wanted)
    found, finding = climb(program, 1, attempt, precisions, ties=ties, patient=False)
    if found is None and not ties and finding is not None and finding.verdict == "undecided":
        # Two equal numbers may be computed in two ways, so that no precision tells them apart.
        again, tied = climb(program, 1, attempt, precisions[-1:], patient=False)
        found, finding = (again, tied) if again is not None else (None, finding)
    if found is not None:
        finding = None  # which tells of the ties
    if finding is not None and lacks_a_slope(finding) and has_values(program):
        # An op has no finite derivative at the point, but the function as a whole may have one.
        shapes = [program.nodes[nodes[0]].shape if nodes else None for nodes in program.sources]
        customs = any(n.kind == "custom" for n in program.nodes)
        found = Sides(program, fresh, all_by_jets if customs and order == 1 else derivative).agreed(shapes)
        if found is not None:
            if all(_tight(g, wanted) for g in found):
                return list(found)
            slow = "the derivatives next to the point approach that at the point too slowly to tell its digits"
            raise ArithmeticError(f"the exact derivative is not decided: {slow}")
    if nowhere:
        raise ArithmeticError(f"there is no derivative here: {nowhere}")
    if finding is not None:
        what = "there is no derivative here" if finding.verdict == "domain" else "the exact derivative is not decided"
        raise ArithmeticError(f"{what}: {finding.reason}")
    if open_:
        raise ArithmeticError(f"the exact derivative is not decided: {open_}")
    return list(found)


def _by_quotients(sides: Sides, made: list[Any], order: int) -> tuple[list[Any], str]:
    """A derivative with the limits of difference quotients, and why there is no derivative, or an empty text."""
    made, nowhere = list(made), ""
    for (s, index), interval in quotients_beside(sides, order).items():
        if interval is None:
            nowhere = no_quotient(order)
        elif not interval.agree:
            nowhere = f"the one-sided derivatives of the function as a whole lie in {interval}"
        else:
            made[s] = objects(made[s]).copy()
            made[s][index] = interval.limit()
    return made, nowhere


def _by_jets(oracle: Oracle, source: int) -> Any:
    shape = oracle.program.nodes[oracle.program.sources[source][0]].shape
    made = np.empty(shape, dtype=object)
    for index in np.ndindex(*shape):
        made[index] = oracle.along(source, index)
    return made


def _tight(g: Any, wanted: int) -> bool:
    if g is None:
        return True
    for ball in objects(g).ravel().tolist():
        b = ball if isinstance(ball, (arb, acb)) else arb(ball)
        if not b.is_finite():
            return False
        loose = not b.is_exact() and b.rel_accuracy_bits() < wanted * 3.33
        # An enclosure of 0 that is far below every float counts as 0, because more bits may never decide.
        if loose and not (b.contains(0) and radius(b).item() < 1e-320):
            return False
    return True
