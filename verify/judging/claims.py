"""judge: compares claimed numbers for a derivative with the exact ones and explains the differences."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gtape.base.diagnosis import diagnosed
from gtape.base.shown import shown
from gtape.symbolic.balls import digits, objects, to_double_double, to_float
from gtape.symbolic.program import Node, Program
from gtape.tensors.indexed_slices import IndexedSlices
from gtape.tensors.tensor import Tensor, convert_to_tensor
from gtape.verify.bounds.inputs import MOVES
from gtape.verify.bounds.noise import RUNS, coarsest, global_bounds, spreads_in
from gtape.verify.bounds.real_moves import RealMoves
from gtape.verify.bounds.sided_noise import SidedWorld
from gtape.verify.causes.branches import branches_met, isolated_branches
from gtape.verify.causes.conventions import inputs_at_kinks
from gtape.verify.judging.branches_beside import BranchesBeside, differs
from gtape.verify.judging.comparison import Told, Wrong
from gtape.verify.judging.examine import Gradient, Rows
from gtape.verify.judging.left import add_values_left, later_numbers, other_numbers
from gtape.verify.judging.recording import Recording, checked_order, refuse_complex_jacobian
from gtape.verify.judging.rows_together import RowsTogether
from gtape.verify.judging.sizes import leave_sizes_open
from gtape.verify.judging.undefined import UNDEFINED, is_undefined
from gtape.verify.judging.unrecorded import unrecorded
from gtape.verify.oracles.certificates import Failure, certify
from gtape.verify.oracles.enclosures import BALLS
from gtape.verify.oracles.oracle import Oracle
from gtape.verify.verdicts.ulp import ROUNDINGS, ulps_between, widest
from gtape.verify.verdicts.verdict import Finding, Report, merged

__all__ = ["judge"]

_ZERO = "this derivative is identically zero"
_MANY_CROSSED = 4  # elements that noise carries across kinks, of which rounding may carry any part
_STABLE = 2.0**10  # the growth of roundings in a stable factorisation, beyond half a unit in its input


@diagnosed
def judge(f: Callable[..., Any], args: Any, claimed: Any, order: int = 1) -> Report:
    """Judge claimed numbers for a derivative, from another library or worked out by hand.

    Parameters
    ----------
    f : callable
        The function, written with gtape.
    args : tuple or list of the arguments, or a single argument that is neither
        The point.
    claimed : array, or tuple of arrays
        The claimed derivative, in the structure that `exact` returns; at order 1, None claims that an argument is
        unconnected.
    order : int
        From 1 to 8.

    Raises
    ------
    ValueError
        If `claimed` has another structure or shape.

    Examples
    --------
    >>> import gtape
    >>> gtape.verify.judge(gtape.tanh, 20.0, 0.0).verdict
    'unstable'
    """
    arguments = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    recording = Recording(f, arguments, checked_order(order))
    refuse_complex_jacobian(recording, order)
    shapes = [t._layout.shape for t in recording.inputs]
    blocks = _blocks(claimed, shapes, order, "claimed")
    report = Report(findings=recording.undecided() or other_numbers(recording, order))
    if report.findings:
        return report
    seen: set[Any] = set()
    rows, by_bodies = Rows(Claim, plain=False), Rows(_ClaimByBodies, plain=False)
    n = len(shapes)
    branches = branches_met(recording.tape._session, recording.inputs, order)
    isolated = isolated_branches(recording.tape._session, recording.inputs, order) if branches else []
    beside = BranchesBeside(recording, branches, isolated) if branches else None
    together, follows = RowsTogether(order), True  # whether all claims are the tape's numbers
    for place, program, seeds, own in recording.programs():
        if order == 1:
            row = [None if b is None else np.asarray(b) for b in blocks]
        else:
            i, index = place
            seen.add(place)
            row = [np.asarray(blocks[i * n + k][index]) for k in range(n)]
        row, apart = (row, []) if beside is None else beside.judged(place, row, own)
        row = [_in_dtype(r, t) for r, t in zip(row, recording.inputs, strict=True)]
        one = rows.examine(program, seeds, row, locally=False)
        faulty = _wrong_custom(program, one)
        if faulty is not None:
            again = by_bodies.examine(program, seeds, row, locally=False)
            if again.verdict != "undecided":
                one = again
                _blame_for_own(one, row, own, faulty)
        one.findings += apart
        if order > 1:
            together.add(place, Claim(program, seeds, row, locally=False), row)
            follows = follows and not any(map(differs, row, own))
        recording.place(one, place)
        report.extend(one)
    if order > 1 and is_undefined(recording.program()):  # the rows know the gradient only, not the function
        told = [f for f in report.findings if f.verdict == "domain" and not f.ok]
        report.findings = told or [Finding("domain", order=order, reason=UNDEFINED, ok=False)]
    elif order > 1:
        _judge_rest(recording, blocks, seen, n, order, report, beside)
    kinked = next((f for f in report.findings if f.verdict == "convention"), None)
    if order > 1 and kinked is not None and report.ok and not follows and not branches:
        unlike = together.finding(kinked)
        report.findings += [] if unlike is None else [unlike]
    if not isolated:
        leave_sizes_open(report, recording)
    for x in report.findings:
        if not x.ok and x.verdict in ("rule", "unstable") and x.witness is None:
            x.without_witness = "the number comes from elsewhere, and gtape's own derivative shows no fault"
    report.findings += branches
    compared = list(report.findings)
    add_values_left(report, recording, order, beside)
    if any(f.verdict == "unconnected" and f not in compared for f in report.findings):
        # The exact numbers are those of the record, which is another function, so they tell nothing about a claim.
        report.findings = [f for f in report.findings if f.ok or f.op or f.verdict not in ("rule", "unstable")]
    if not report.ok:  # the claim may be the derivative of another call
        report.findings = later_numbers(recording, order, seeded=True) or report.findings
    report.sort()
    return report


def _blame_for_own(report: Report, row: list[Any], own: list[Any], faulty: Finding) -> None:
    """Name a wrong custom gradient as the cause of those wrong claims that are the tape's own numbers."""
    for f in report.findings:
        if f.ok or f.element is None:
            continue
        s, place = f.element
        if own[s] is not None and not differs(row[s][place], own[s][place]):
            f.verdict, f.op, f.line, f.rule_of = faulty.verdict, faulty.op, faulty.line, faulty.rule_of
            f.reason, f.instead, f.defined = faulty.reason, faulty.instead, faulty.defined
            f.witness, f.without_witness = faulty.witness, faulty.without_witness


def _judge_rest(
    recording: Recording, blocks: list[Any], seen: set[Any], n: int, order: int, report: Report,
    beside: BranchesBeside | None,
) -> None:  # fmt: skip
    """Judge the rows that no tape recorded; most are zeros."""
    rest = unrecorded(recording, order)
    if rest.finding is not None:
        report.findings.append(rest.finding)
        return
    roundings = len(recording.program().nodes)
    for i in range(len(blocks) // n):
        for index in np.ndindex(*recording.shape_of_level(i)):
            if (i, index) in seen:
                continue
            exact = rest.rows.get((i, index), [None] * n)
            rows = [np.asarray(blocks[i * n + k][index], dtype=np.float64) for k in range(n)]
            if beside is not None:
                own = [None if e is None else to_float(objects(e)) for e in exact]
                rows, apart = beside.judged((i, index), rows, own)
                if apart:
                    told = Report(findings=apart)
                    recording.place(told, (i, index))
                    report.extend(told)
            for k, row in enumerate(rows):
                report.checked += math.prod(recording.inputs[k]._layout.shape)
                if row is None:  # judged by the branches beside the tie
                    continue
                off = _off(row, exact[k], recording.inputs[k]._layout.dtype)
                wrong = off > (0.0 if exact[k] is None else ROUNDINGS * roundings)
                if wrong.any():
                    place = tuple(int(j) for j in np.unravel_index(int(np.argmax(off)), off.shape))
                    worst, ulps = float(row[place]), float(off[place])
                    report.max_ulp = max(report.max_ulp, ulps)
                    reason, truth = _ZERO, "0"
                    if exact[k] is not None:
                        reason = "not the derivative of this function: the difference is too large for rounding"
                        truth = digits(exact[k][place])
                    found = Finding("rule", order=order, element=(k, index), got=worst, exact=truth, ulps=ulps,
                                    reason=reason, count=int(wrong.sum()))  # fmt: skip
                    report.findings = merged([*report.findings, found])


def _off(row: Any, exact: Any, dtype: Any) -> Any:
    """How far claimed numbers are from exact ones, in ULP; NaN is infinitely far."""
    high, low = (0.0, 0.0) if exact is None else to_double_double(objects(exact))
    return np.nan_to_num(ulps_between(row, high, low, dtype), nan=np.inf)


def _in_dtype(row: Any, t: Tensor) -> Any:
    """A claimed row in the dtype of its argument; or in its own dtype if this is a narrower floating dtype."""
    if row is None or row.dtype == t._layout.dtype or row.dtype.kind not in "iufb":
        return row
    narrower = row.dtype.kind == "f" and t._layout.dtype.kind == "f" and row.dtype.itemsize < t._layout.dtype.itemsize
    return row if narrower else row.astype(t._layout.dtype)


def _blocks(
    claimed: Any,
    shapes: list[tuple[int, ...]],
    order: int,
    where: str,
    outer: tuple[int, ...] = (),
    *,
    first: bool | None = None,
) -> list[Any]:
    """The blocks of a claimed derivative as arrays, or None for an argument that is claimed as unconnected.

    Parameters
    ----------
    outer : tuple of int
        The shape of the argument of the derivatives outside of this one.
    first : bool, optional
        Whether the whole claim is a first derivative, in which None has a meaning.
    """
    n, first = len(shapes), order == 1 if first is None else first
    parts: list[Any]
    if n > 1:
        if not isinstance(claimed, (tuple, list)) or len(claimed) != n:
            raise ValueError(f"{where}: expected a tuple of {n}, one for each argument, got {_describe(claimed)}")
        parts = list(claimed)
    else:
        parts = [claimed]
    made = []
    for k, (part, s) in enumerate(zip(parts, shapes, strict=True)):
        name = f"{where}[{k}]" if n > 1 else where
        if order > 1 and n > 1:
            made += _blocks(part, shapes, order - 1, name, outer + s, first=first)
            continue
        shape = outer + s * (order if n == 1 else 1)
        if part is None and first:
            made.append(None)  # claimed as unconnected
            continue
        array = _numbers(part, name)
        if array.shape != shape:
            raise ValueError(f"{name}: expected shape {shape}, got {array.shape}")
        made.append(array)
    return made


def _numbers(part: Any, name: str) -> Any:
    """A claimed part as an array of numbers; accepts decimal strings, because `exact` returns them.

    The tape's gradient of a lookup by a variable stands for a dense array.
    """
    if isinstance(part, IndexedSlices):
        part = convert_to_tensor(part)
    array = np.asarray(part._value if isinstance(part, Tensor) else part)
    if array.dtype.kind == "b" and array.size:
        raise ValueError(f"{name}: numbers are wanted, not {shown(part)}")
    if array.dtype.kind not in "OUS":
        return array.astype(array.dtype.newbyteorder("="), copy=False)
    try:
        if any(v is None for v in array.ravel().tolist()):
            raise ValueError("None is no number")
        return array.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: numbers are wanted, not {shown(part)}") from None


def _describe(x: Any) -> str:
    if isinstance(x, (tuple, list)):
        return f"a {type(x).__name__} of {len(x)}"
    shape = f" of shape {x.shape}" if getattr(x, "shape", ()) else ""
    return f"a {type(x).__name__}{shape}; give one argument that is a list of numbers as an array"


class Claim(Gradient):
    """The judgement of numbers that another program computed.

    For a function of one op, roundings of gtape's own program excuse no number, because another library computes the
    function by itself, to its own accuracy. At kinks all numbers between the one-sided derivatives are right.
    """

    claimed = True

    def bounds(self, runs: int) -> list[Any] | None:
        if self._single() is not None:
            return None
        made = super().bounds(runs)
        if made is None:
            return None
        if not self.smooth():
            made = self._on_one_side(made, runs)
        if not any(n.kind == "op" and n.prim.kind == "implicit" for n in self.program.nodes):
            return made
        if any(n.kind == "op" and n.prim.rounding.columns for n in self.program.nodes):
            # Noise moves each vector of equal values by itself, but a stable algorithm returns orthogonal ones.
            stable = global_bounds(self.program, self.seeds, runs, stable=True)
            made = [b if b is None or t is None else np.fmin(b, t) for b, t in zip(made, stable, strict=True)]
        # Noise parts equal eigenvalues and divides by their distance. A stable algorithm moves its input instead.
        moved = self.moved(MOVES[1])
        largest = [0.0 if m is None else _STABLE * float(np.max(m, initial=0.0)) for m in moved] or [0.0] * len(made)
        return [b if b is None or not most else np.minimum(b, most) for b, most in zip(made, largest, strict=True)]

    def _on_one_side(self, bounds: list[Any], runs: int) -> list[Any]:
        """Bounds without what noise adds by crossing kinks, unless so many elements cross that any part of them may."""
        world = SidedWorld(np.random.default_rng(7), coarsest(self.program))
        world.held = self._exactly_at_kinks()
        noise = spreads_in(world, self.nudged, runs)
        if sum(int(np.count_nonzero(mask)) for mask in world.crossed.values()) > _MANY_CROSSED:
            return bounds
        return [b if b is None or t is None else np.fmin(b, t) for b, t in zip(bounds, noise, strict=True)]

    def _exactly_at_kinks(self) -> dict[int, Any]:
        """The inputs of ops at kinks and ties that no rounding has moved, as node -> the mask of these elements."""
        if self.smooth():
            return {}
        oracle, found = self._oracle(), dict[int, Any]()
        for j, mask in inputs_at_kinks(self.program, oracle.env, self.kinks(oracle)).items():
            value = np.asarray(self.program.nodes[j].output)
            if mask.any() and value.dtype.kind in "fc" and np.isfinite(value).all():
                mask = mask & np.asarray(objects(BALLS.lift(value) - oracle.env[j]) == 0, dtype=bool)
                if mask.any():
                    found[j] = mask
        return found

    def moved(self, count: int) -> list[Any]:
        return [] if self._elementary() else super().moved(count)

    def moved_element(self, s: int, place: tuple[int, ...]) -> float:
        return 0.0 if self._elementary() else super().moved_element(s, place)

    def real_moves(self) -> list[RealMoves]:
        return [] if self._elementary() else super().real_moves()

    def terms(self) -> list[Any]:
        return [] if self._elementary() else super().terms()

    def roundings(self) -> int:
        return super().roundings() if self._single() is None else 1

    def _elementary(self) -> bool:
        single = self._single()
        return single is not None and single.prim.kind == "elementwise"

    def _single(self) -> Node | None:
        """The op that computes the whole function; None if several ops round."""
        program = self.program
        inside = [program.nodes[i] for i in program.ancestors(program.differentiated or program.outputs)]
        found = [n for n in inside if n.kind == "custom" or (n.kind == "op" and n.prim.rounding.kind != "exact")]
        return found[0] if len(found) == 1 else None

    def wrong(self, wrong: Wrong) -> list[Told]:
        """The cause of each wrong element: a value out of range, lost digits or wrong algebra."""
        told, s = [], wrong.source
        if not self.program.sources[s]:  # no formula of the function can lose a derivative that it does not have
            return [Told(wrong.mask, "rule", _ZERO)]
        infinite = wrong.mask & ~np.isfinite(wrong.got)
        for (verdict, reason, op, line), left in self.left(s, infinite) if infinite.any() else ():
            told.append(Told(left, verdict, reason, op, line, ok=False))
            wrong = wrong._replace(mask=wrong.mask & ~left)
        dtypes = [d for d in (wrong.got.dtype, coarsest(self.program)) if d.kind in "fc"]
        scale, eps = self._scale(s, np.shape(wrong.got)), max(float(np.finfo(d).eps) for d in dtypes)
        room = min(_LOST * eps, max(_MOST_LOST, _FEW * eps), _COARSEST)
        spread = self._spread(s, np.shape(wrong.got), eps)
        masks: dict[tuple[str, str], Any] = {}
        for place in map(tuple, np.argwhere(wrong.mask).tolist()):
            got, truth, size = wrong.got[place].item(), np.asarray(wrong.exact)[place].item(), float(scale[place])
            largest = max(size, abs(truth))
            key = _explained(got, truth, size, max(room * largest, min(float(spread[place]), _COARSEST * largest)))
            mask = masks.setdefault(key, np.zeros(np.shape(wrong.got), np.bool_))
            mask[place] = True
        return told + [Told(mask, verdict, reason) for (verdict, reason), mask in masks.items()]

    def _spread(self, s: int, shape: tuple[int, ...], eps: float) -> Any:
        """How far another formula may be off, by the measured roundings of the program itself in the claim's dtype."""
        bounds = self.bounds(RUNS)
        if bounds is None or bounds[s] is None:
            return np.zeros(shape)
        found = coarsest(self.program)
        own = float(np.finfo(found).eps) if found.kind in "fc" else eps
        measured = np.broadcast_to(np.abs(bounds[s]), shape)
        return _SPREADS * max(1.0, eps / own) * np.where(np.isfinite(measured), measured, 0.0)

    def _scale(self, s: int, shape: tuple[int, ...]) -> Any:
        """The size of the numbers that may cancel in each element of a derivative, whatever formula gave the claim.

        A value v along the program with the cotangent g contributes g dv/dx, and v may be as large as x dv/dx.
        """
        sizes = [_product(self.program.nodes[i].output, g) for i, (g, _) in self._oracle().made.items()]
        largest = max([size for size in sizes if math.isfinite(size)], default=_largest(self.program))
        x = np.abs(widest(np.asarray(self.program.nodes[self.program.sources[s][0]].output)))
        terms = [] if self._elementary() else self.sizes_of_terms(of_any_formula=True)
        known = np.zeros(shape) if not terms or terms[s] is None else np.broadcast_to(terms[s], shape)
        if np.shape(x) != shape or not (x > 0).any():
            return known if known.any() else np.full(shape, largest)
        with np.errstate(all="ignore"):
            return np.maximum(np.where(x > 0, largest / x, 0.0), np.where(np.isfinite(known), known, 0.0))


class _ClaimByBodies(Claim):
    """The judgement of a claim about a function with a wrong custom gradient, by the derivative of its body."""

    def in_floats(self, s: int) -> Any:
        return None  # the program's own number follows the wrong custom gradient

    def oracle(self) -> Oracle:
        return Oracle(self.program, self.seeds, by_bodies=True)

    def derivative(self, oracle: Oracle) -> list[Any]:
        # The recorded ops of an inner gradient hold the user's function, so jets of its primal serve.
        return oracle.replay() if self.order == 1 else oracle.by_jets()

    def certified(self, oracle: Oracle, report: Report) -> tuple[list[Any], list[Failure]]:
        exact = self.derivative(oracle)
        return exact, certify(oracle, exact) if self.order == 1 else []


def _wrong_custom(program: Program, report: Report) -> Finding | None:
    """The finding that a custom gradient is not the derivative of its body, if there is one."""
    customs = {(n.name, n.line) for n in program.nodes if n.kind == "custom" and n.prim.declared is None}
    return next((f for f in report.findings if f.verdict == "rule" and not f.ok and (f.op, f.line) in customs), None)


# How far a formula that loses digits may be off, relative to the numbers that cancel: many units of float64, which are
# still a small share of these numbers, and a few units of a dtype whose many units would explain any number.
_LOST = 2.0**16
_MOST_LOST = 2.0**-14
_FEW = 8.0
_COARSEST = 2.0**-7
_SPREADS = 16.0  # spreads of the program's own roundings, because another formula may round worse


def _explained(got: Any, truth: Any, scale: float, room: float) -> tuple[str, str]:
    """Verdict and reason of a wrong claimed number: wrong algebra or lost digits.

    Parameters
    ----------
    scale : float
        The size of the numbers that may cancel in the derivative.
    room : float
        How far a formula that loses digits may be off.
    """
    if not np.isfinite(got):
        what = "something overflows, or is divided by zero, inside a finite result"
        return "unstable", f"not finite, though the derivative is: {what}"
    if got == 0.0 and truth != 0.0 and abs(truth) <= 2.0**-20 * scale:
        return "unstable", "zero, though the derivative is not: its tail is lost by cancellation or underflow"
    if abs(got - truth) <= room:
        return "unstable", "the formula loses digits that the problem does not"
    return "rule", "not the derivative of this function: the difference is too large for rounding"


def _product(value: Any, cotangent: Any) -> float:
    """The largest product of an element of a value and of its cotangent; NaN if this is no finite number."""
    if isinstance(value, tuple) or not isinstance(cotangent, np.ndarray) or np.asarray(value).dtype.kind not in "fc":
        return math.nan
    with np.errstate(all="ignore"):
        sizes = np.abs(widest(np.asarray(value))) * np.abs(to_float(objects(cotangent)))
        return float(np.max(sizes, initial=0.0, where=np.isfinite(sizes)))


def _largest(program: Program) -> float:
    """The largest magnitude along the program."""
    largest = 0.0
    for node in program.nodes:
        v = np.zeros(1) if isinstance(node.output, tuple) else np.atleast_1d(np.abs(widest(node.output)))
        largest = max(largest, float(np.max(v, initial=0.0, where=np.isfinite(v))))
    return largest
