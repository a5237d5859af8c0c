"""Compares numbers with the exact ones within three bounds, from the tightest to the widest.

1. The tight bound: the rounding of one op. Numbers inside are right.
2. The bound of the problem (`bounds.inputs`): half a unit in the inputs moves the exact derivative as much, times the
   square root of the number of ops, because each op may round as the inputs do. Such numbers are `conditioning`.
3. The global bound (`bounds.noise`): roundings inside the program move its derivative as much. Such numbers are
   `cancellation`, because the function itself keeps these digits.

Numbers beyond all three have another cause, which `Causes` finds element by element.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from flint import acb, arb

from gtape.symbolic.balls import objects, radius, to_double_double, to_float
from gtape.verify.bounds.inputs import MOVES, reach
from gtape.verify.bounds.noise import MANY_RUNS, RUNS, SPREADS
from gtape.verify.bounds.real_moves import RealMoves
from gtape.verify.oracles.enclosures import turned
from gtape.verify.verdicts.ulp import ROUNDINGS, digits_of, largest, right_digits, spacing, ulps_between, widest
from gtape.verify.verdicts.verdict import Cause, Finding, merged

__all__ = [
    "Causes",
    "Comparison",
    "Distances",
    "Harmless",
    "Told",
    "Wrong",
    "by_fault",
    "cancellation",
    "distances",
    "fewest_digits",
    "worst_of",
]

LOST = 16.0
_LEAST_FLOAT = 2.0**-1074


class Wrong(NamedTuple):
    """Numbers of one array beyond their bounds.

    Attributes
    ----------
    source : int
    mask : bool array
        The wrong elements.
    got, exact : float arrays
        All numbers of the array, and the exact ones as floats.
    ulps : float array
        Their distances.
    """

    source: int
    mask: Any
    got: Any
    exact: Any
    ulps: Any


class Told(NamedTuple):
    """A finding about some elements: the mask of the elements, verdict, reason, op, line, and whether the finding is
    harmless.
    """

    mask: Any
    verdict: str
    reason: str
    op: str | None = None
    line: Any = None
    ok: bool | None = None


class Causes:
    """The questions of a comparison about numbers beyond the tight bound; each mode of differentiation answers them."""

    # Whether another library made the numbers, which may follow conventions of its own at kinks.
    claimed = False

    def moved(self, count: int) -> list[Any]:
        """The bound of the problem on each array, from a number of random moves of the inputs."""
        raise NotImplementedError

    def moved_element(self, s: int, place: tuple[int, ...]) -> float:
        """The bound of the problem on one element, which random moves may have missed; 0 if unknown."""
        return 0.0

    def moved_decimals(self) -> list[Any]:
        """As `moved`, from moves of the decimal numbers among the constants of the program."""
        return []

    def bounds(self, runs: int) -> list[Any] | None:
        """The global bound on each array, from a number of noisy runs; None if roundings excuse no number."""
        raise NotImplementedError

    def flipped(self) -> list[tuple[Cause, list[Any]]]:
        """The exact derivatives on the other sides of kinks that rounding crossed, each with its cause."""
        raise NotImplementedError

    def by_roundings(self) -> list[tuple[Cause | None, list[Any]]]:
        """The exact derivatives on the other sides of kinks that rounding crossed, but no move of the inputs.

        Each comes with its cause if a value left its range.
        """
        raise NotImplementedError

    def roundings(self) -> int:
        """The number of ops of the program, each of which may round."""
        raise NotImplementedError

    def followed(self, s: int) -> tuple[Any, float] | None:
        """The numbers of array `s` by a run in which every op is within its own bound; None without such a run.

        The second result is the error of these numbers in ULP if all roundings are independent and none is magnified.
        """
        return None

    def in_floats(self, s: int) -> Any:
        """The numbers of array `s` that the program itself gives in floats; None if they are unknown."""
        return None

    def declared(self) -> float:
        """The largest error that an elementwise op or partial declares, in ULP."""
        raise NotImplementedError

    def coarser(self) -> list[tuple[Any, list[Any]]]:
        """The dtypes in which the program computes, from the finest to the coarsest, each with masks of the elements of
        each array that depend on numbers in it; None for all elements. Empty for a program in one dtype.
        """
        return []

    def lossy_rules(self) -> list[tuple[Cause, list[Any]]]:
        """The custom gradients that lose digits by themselves, each with masks of the elements of each array that
        depend on these losses; None for all elements.
        """
        return []

    def losing_rules(self) -> list[tuple[Cause, list[Any]]]:
        """The custom gradients whose own formula loses digits although their inputs are exact, with masks as those of
        `lossy_rules`.
        """
        return []

    def without_losses(self) -> list[tuple[str, Any, list[Any]]]:
        """The op and line of each rule of a user's op that loses digits at exact inputs, with the arrays that the
        program would return if this rule kept its digits; None for an array without such numbers.
        """
        return []

    def terms(self) -> list[Any]:
        """The sizes of the terms that add up to each element of each array, to which zeros are compared; None for an
        array without terms, and empty for none at all.
        """
        raise NotImplementedError

    def nearby(self, count: int) -> list[Any]:
        """The exact numbers, then those at moved inputs, along an axis in front; None for an array without them, and
        empty for none at all.
        """
        raise NotImplementedError

    def far(self, count: int) -> list[Any]:
        """As `nearby`, with moves as long as `moved` excuses."""
        raise NotImplementedError

    def alone(self, s: int, place: tuple[int, ...]) -> list[list[Any]]:
        """The exact numbers where one number of source `s` moves alone as far as for `far`; empty if unknown."""
        return []

    def real_moves(self) -> list[RealMoves]:
        """How far the exact numbers move by half units of the inputs beyond first order, and by the roundings of the
        matrix of each elimination or factorisation; empty for unknown moves and beside kinks.
        """
        raise NotImplementedError

    def kinked(self) -> bool:
        """Whether the point is at a kink, jump or tie, or may be, because an op factorises a matrix."""
        raise NotImplementedError

    def smooth(self) -> bool:
        """Whether no op has a kink, a jump or a tie anywhere."""
        raise NotImplementedError

    def left(self, s: int, mask: Any, off: Any = None) -> Iterator[tuple[Cause, Any]]:
        """Each value along the program that left the range of its dtype as a cause, with the masked elements of array
        `s` that this value reaches.

        Parameters
        ----------
        off : float array, optional
            The errors of the elements. An underflow explains only those that it can make.
        """
        raise NotImplementedError

    def wrong(self, wrong: Wrong) -> list[Told]:
        """Why numbers lie beyond all bounds, element by element."""
        raise NotImplementedError


class Distances(NamedTuple):
    """How far the numbers of one array are from the exact ones.

    Attributes
    ----------
    high : float array
        The exact numbers, rounded.
    off, radius : float arrays
        The distances, and bounds on the errors of the exact numbers.
    ulps : float array
        The distances in units in the last place.
    tight : float array
        The tight bound.
    """

    high: Any
    off: Any
    radius: Any
    ulps: Any
    tight: Any


def distances(e: Any, g: Any) -> Distances:
    """The distances of an array from its exact numbers, given as enclosures."""
    dtype = g.dtype
    # Skip the digits beyond float64 for narrow dtypes, because they are far below one ULP there.
    high, low = to_double_double(e) if dtype.itemsize == 8 + 8 * (dtype.kind == "c") else (to_float(e), 0.0)
    unit = spacing(high, dtype)
    tight = ROUNDINGS * unit + spacing(0.0, dtype)
    off = np.abs((widest(g) - high) - low)
    beyond = ~np.isfinite(high)
    if beyond.any():  # no bound may explain a number that is infinitely far from an exact one beyond all floats
        off = np.where(beyond, np.nan, off)
    # Radii are rounded up, to the least float at least, and the distance is rounded to a whole number of these as well.
    rad = radius(e)
    rad = np.where(rad <= _LEAST_FLOAT, 0.0, rad)
    return Distances(high, off, rad, ulps_between(g, high, low, dtype, unit), tight)


def _along(rows: Any, g: Any) -> Any:
    """A mask of rows as a mask that broadcasts with an array whose first axis counts the rows."""
    return rows.reshape(-1, *[1] * (g.ndim - 1))


def _may_be_blurred(distances: Distances) -> bool:
    """Whether some exact number of an array may be known too little to show how many digits are right."""
    _, off, rad, _, tight = distances
    return not (off + rad <= tight).all() and not (rad <= (tight + off) / 4).all()


def _rounds_to(g: Any, high: Any, dtype: Any) -> Any:
    """Whether numbers are roundings of exact ones that overflow; of complex ones each part for itself."""
    if dtype.kind == "c":
        most = float(np.finfo(dtype).max)
        size = np.minimum(np.maximum(np.abs(high.real), np.abs(high.imag)), most)
        both = True
        for got, exact in ((g.real, high.real), (g.imag, high.imag)):
            infinite = np.isinf(got) & (np.sign(got) == np.sign(exact))
            with np.errstate(invalid="ignore", over="ignore"):
                close = np.abs(got - exact) <= ROUNDINGS * spacing(size, dtype)
            both &= np.where(np.abs(exact) > most, infinite, np.isfinite(got) & close)
        return both
    return np.isinf(g) & (np.sign(g) == np.sign(high))


def _vague(e: Any, mask: Any) -> Any:
    """The elements of a mask whose enclosures, with a radius beyond all floats, tell hardly a digit."""
    found = np.zeros(np.shape(mask), np.bool_)
    for place in map(tuple, np.argwhere(mask).tolist()):
        ball = np.broadcast_to(objects(e), np.shape(mask))[place]
        found[place] = isinstance(ball, (arb, acb)) and ball.is_finite() and ball.rel_accuracy_bits() < _DIGITS
    return found


class _Held(NamedTuple):
    """What the numbers of one array can hold: their units, their digits in bits, and the coarsest dtype of any."""

    unit: Any
    digits: Any
    coarsest: Any


class _Settled(NamedTuple):
    """What needs no bound to be known of the numbers of one array.

    Attributes
    ----------
    near : bool array
        The elements that are right, or that the roundings of all ops explain.
    added, rounded : bool arrays
        Those among them that roundings of all ops explain, and those that overflow.
    zeros : bool array
        The exact zeros that the roundings of their terms may explain.
    over, blurred : bool arrays
        The exact number overflows; it is not known well enough.
    """

    near: Any
    added: Any
    zeros: Any
    rounded: Any
    over: Any
    blurred: Any


class _Explained(NamedTuple):
    """The harmless numbers of one array with their explanations, the other numbers, and the bound of the problem.

    Attributes
    ----------
    added, at_zero, by_problem, over_range : Told
        The elements that roundings of all ops explain, the exact zeros among them, the elements that the problem
        explains, and the elements that overflow.
    by_rules : list of Told
        The elements within the bound of the problem that a custom gradient carries farther than half a unit does.
    over, open : bool arrays
        Masks: the exact number overflows; the error has no explanation.
    moved : float array
        The bound of the problem.
    """

    added: Told
    at_zero: Told
    by_problem: Told
    over_range: Told
    by_rules: list[Told]
    over: Any
    open: Any
    moved: Any


class Comparison:
    """The comparison of one derivative's arrays with the exact ones.

    Parameters
    ----------
    causes : Causes
    answers : dict, optional
        The answers to an earlier comparison with the same exact numbers.

    Attributes
    ----------
    answers : dict
        The answers of the causes.
    findings : list of Finding
    checked : int
        Number of compared numbers.
    undecided : int
        Number of enclosures that are too wide at the precision in force.
    worst : float
        The largest distance in ULP among all numbers; infinite if one is infinite or NaN and should not be.
    """

    def __init__(self, order: int, causes: Causes, answers: dict[Any, Any] | None = None) -> None:
        self.order = order
        self.findings: list[Finding] = []
        self.checked = 0
        self.undecided = 0
        self.worst = 0.0
        self._causes = causes
        self.answers: dict[Any, Any] = {} if answers is None else answers

    def numbers(self, exact: list[Any], got: list[Any], known: list[Distances] | None = None) -> None:
        """Compare array by array.

        Parameters
        ----------
        exact : list of object arrays of enclosures, or None for zeros
        got : list of arrays, or None for a missing gradient
        known : list of Distances, optional
            Of real arrays, all of which are there.
        """
        arrays: list[tuple[int, Any, Any, Distances]] = []
        for s, (e, g) in enumerate(zip(exact, got, strict=True)):
            if known is not None:
                arrays.append((s, e, g, known[s]))
                continue
            if g is None:
                if e is not None and any(x != 0 for x in objects(e).ravel().tolist()):
                    who = "the claim says that there is" if self._causes.claimed else "the tape found"
                    reason = f"{who} no path to this source, but the exact derivative is not zero"
                    self.findings.append(Finding("unconnected", order=self.order, element=(s, ()), reason=reason))
                continue
            g = np.asarray(g)
            e = objects(np.broadcast_to(np.zeros((), dtype=object) if e is None else objects(e), g.shape))
            e = turned(e) if g.dtype.kind == "c" else e
            arrays.append((s, e, g, distances(e, g)))
        settled = {s: self._settled(s, e, g, d) for s, e, g, d in arrays if _may_be_blurred(d)}
        self.undecided = sum(int(found.blurred.sum()) for found in settled.values())
        if self.undecided:
            return  # before the bounds on other elements, which are costly, because more bits are needed
        for s, e, g, d in arrays:
            self._array(s, e, g, d, settled.get(s))
        self.findings = merged(self.findings)

    def _ask(self, what: str, *args: Any) -> Any:
        """An answer of the causes, kept for the other arrays."""
        if (what, *args) not in self.answers:
            self.answers[what, *args] = getattr(self._causes, what)(*args)
        return self.answers[what, *args]

    def _held(self, s: int, g: Any, high: Any) -> _Held:
        """The units and digits that the numbers of array `s` can have, because a program may compute in fewer digits
        than its sources have.
        """
        digits: Any = digits_of(g.dtype)
        unit, coarsest = spacing(high, g.dtype), g.dtype
        for dtype, masks in self._ask("coarser"):
            mask = np.ones(g.shape, np.bool_) if masks[s] is None else masks[s]
            if digits_of(dtype) < digits_of(g.dtype) and mask.any():
                unit = np.where(mask, spacing(high, dtype), unit)
                digits, coarsest = np.where(mask, digits_of(dtype), digits), dtype
        if self._causes.claimed:  # underflow in a program of gtape is no fault, and a claim has digits of its own
            with np.errstate(all="ignore"):
                subnormal = np.floor(np.log2(np.abs(high) / unit)) + 1  # the digits of all but subnormal numbers
                digits = np.where(high != 0, np.minimum(digits, np.maximum(subnormal, 1.0)), digits)
        return _Held(unit, digits, coarsest)

    def _many(self) -> float:
        """The growth of independent roundings of all ops: each counts as much as a rounding of the inputs."""
        return math.sqrt(max(1, self._ask("roundings")))

    def _times(self, off: Any, moved: Any, mask: Any) -> float:
        """The most half units in the inputs that explain an error among some elements, given the bounds."""
        with np.errstate(all="ignore"):
            times = np.divide(off * (SPREADS * self._many()), moved)  # of Python's floats, too, which 0 may divide
        return float(np.max(times, initial=0.0, where=mask & np.isfinite(times)))

    def _bound(self, what: str, s: int, *count: int, shape: tuple[int, ...]) -> Any:
        """A bound on one array."""
        made = self._ask(what, *count)
        found = None if not made else made[s]
        if found is None:
            return np.zeros(shape)
        found = np.asarray(found)
        found = found if found.shape == shape else np.broadcast_to(found, shape)
        return np.where(np.isnan(found), 0.0, found)

    def _nearby(self, s: int, g: Any, moved: Any, high: Any, near: Any, off: Any) -> Any:
        """The bound of the problem; where it exceeds the number itself, and the error is no small part of the number,
        at most the numbers that the function takes nearby.
        """
        wild = _is_wild(moved, high, off)
        asked = wild & ~near & (off <= moved)
        if not asked.any():
            return moved
        far = self._numbers_nearby(s, "far")
        if far is None:
            return np.minimum(moved, np.where(moved > SPREADS * np.abs(high), SPREADS * np.abs(high), np.inf))
        with np.errstate(all="ignore"):
            up = np.broadcast_to(widest(g) > high if far.dtype.kind == "f" else np.True_, np.shape(moved))
        found = np.where(wild, np.minimum(moved, reach(far, up)), moved)
        missed = np.argwhere(asked & ~(off <= found))
        for place in map(tuple, missed[:_FEW].tolist()):
            numbers = [
                far[(slice(None), *place)],
                *(n[s][place] for n in self._causes.alone(s, place) if n[s] is not None),
            ]
            most = reach(np.hstack(numbers), up[place])
            found[place] = max(found[place], min(moved[place], float(most)))
        return found

    def _numbers_nearby(self, s: int, what: str = "nearby") -> Any:
        made = self._ask(what, _NEARBY)
        return made[s] if made else None

    def _by_chaos(self, s: int, g: Any, high: Any) -> Any:
        """The bound of the problem for numbers that take any value at moved inputs, as in chaos.

        First-order moves do not show this if a chaotic program forgets its start, but not the way that it took. Beside
        a kink, a derivative takes few values, one for each side, and no other number is one.
        """
        nearby = None if self._ask("kinked") else self._numbers_nearby(s)
        if nearby is None or nearby.dtype.kind == "c" or len(nearby) <= _NEARBY / 2:
            return np.zeros(np.shape(high))
        with np.errstate(all="ignore"):
            ordered = np.sort(nearby, axis=0)
            sizes = np.maximum(np.abs(ordered[1:]), np.abs(ordered[:-1]))
            values = 1 + np.add.reduce(np.diff(ordered, axis=0) > sizes / 1024, axis=0)  # those that differ clearly
            chaotic = (ordered[-1] - ordered[0] > np.abs(high) / 2) & (self._ask("smooth") | (values > len(nearby) / 2))
            bound = reach(nearby, widest(g) > high)
            return np.where(chaotic & np.isfinite(bound), bound, 0.0)

    def _by_real_moves(
        self, s: int, distances: Distances, mask: Any, open_: Any, moved: Any, loose: Any
    ) -> tuple[list[Told], Any, Any]:
        """The open numbers of one array that real moves of the inputs or of the matrices of ops explain.

        Parameters
        ----------
        mask : bool array
            The numbers that need an explanation.
        moved, loose : float arrays
            The bound of the problem, and the widest bound so far.

        Returns
        -------
        told : list of Told
        open : bool array
            The numbers that stay open.
        loose : float array
        """
        known = [(node, sizes[s]) for node, sizes in self._ask("real_moves") if sizes[s] is not None]
        if not known:
            return [], open_, loose
        off, tight = distances.off, distances.tight
        inputs = [size for node, size in known if node is None]
        bound = np.add.reduce([moved, *inputs])
        # The bound of the problem holds the numbers nearby, if it is wild, so that the same moves count once.
        bound = np.where(_is_wild(bound, distances.high, off - tight), np.maximum.reduce([moved, *inputs]), bound)
        reached = mask & (off <= tight + bound)
        told = [Told(reached, "conditioning", MOVED_BEYOND)]
        matrices = [(node, size) for node, size in known if node is not None]
        if matrices:
            worst = np.argmax([size for _, size in matrices], axis=0)
            bound = bound + np.add.reduce([size for _, size in matrices])
            by_op = mask & ~reached & (off <= tight + bound)
            for k, (node, _) in enumerate(matrices):
                told.append(Told(by_op & (worst == k), "conditioning", _MOVED_MATRIX, node.name, node.line))
            reached = reached | by_op
        return told, open_ & ~reached, np.where(reached, np.maximum(loose, bound), loose)

    def _added(self, s: int, g: Any, distances: Distances, near: Any) -> tuple[Any, Any]:
        """The numbers that are off by no more than independent roundings of all ops, where each op was checked, and
        the exact zeros beside them, which may be off by the roundings of the terms that cancel.

        The check of each op would have found a wrong one, so these numbers need no run with noise.
        """
        none = np.zeros(g.shape, np.bool_)
        known = None if near.all() else self._causes.followed(s)
        if known is None or known[0] is None:
            return none, none
        (run, ulps), (high, off, rad, _, tight) = known, distances
        with np.errstate(all="ignore"):
            same = ~near & (np.abs(widest(run) - widest(g)) <= ROUNDINGS * spacing(high, g.dtype))
        held = self._held(s, g, high)
        added = same & (off + rad <= ulps * held.unit)
        return added, same & ~added & (np.abs(high) <= rad) & (rad <= (tight + off) / 4)

    def _at_zeros(self, s: int, held: _Held, shape: tuple[int, ...]) -> tuple[Any, Any]:
        """The units of the terms that cancel, and how far their roundings may carry an exact zero.

        A zero has no digits of its own, so its error is measured against the terms that cancel.
        """
        unit = 2.0 ** (1.0 - held.digits) * self._bound("terms", s, shape=shape)
        return unit, SPREADS / 2 * (unit + spacing(0.0, held.coarsest) * self._many())

    def _in_units_of_terms(self, s: int, g: Any, distances: Distances) -> Distances:
        """The distances, those of exact zeros beyond the tight bound in units of the terms that cancel.

        A zero has no digits of its own, so that the smallest subnormal number is no measure of its error.
        """
        high, off, rad, ulps, tight = distances
        zeros = (np.abs(high) <= rad) & ~(off + rad <= tight) & np.isfinite(off)
        if not zeros.any():
            return distances
        unit, _ = self._at_zeros(s, self._held(s, g, high), g.shape)
        measured = np.where(zeros & (unit > 0), off / np.where(unit > 0, unit, 1.0), ulps)
        return distances._replace(ulps=measured)

    def rows(self, exact: list[Any], got: list[Any], left: Any) -> tuple[Any, Any]:
        """Compare arrays whose first axis counts rows, and report the rows that have harmless numbers only.

        Parameters
        ----------
        left : bool array
            The rows that are open for other reasons.

        Returns
        -------
        left, blurred : bool arrays
            The rows that are open, without a finding; those of them that need more bits.
        """
        known = [distances(e, g) for e, g in zip(exact, got, strict=True)]
        settled = [self._settled(s, e, g, d) for s, (e, g, d) in enumerate(zip(exact, got, known, strict=True))]
        blurred = np.zeros(np.shape(left), np.bool_)
        for found in settled:
            blurred = blurred | found.blurred.reshape(len(left), -1).any(axis=1)
        left, told = left | blurred, list[tuple[list[Told], Any]]()
        for s, (g, d, found) in enumerate(zip(got, known, settled, strict=True)):
            ask = ~_along(left, g)  # an open row needs no bound
            p = self._explained(s, g, d, found, ask)
            harmless, open_, loose = [p.added, p.by_problem, p.over_range, *p.by_rules, p.at_zero], p.open, p.moved
            if open_.any():
                rest = _along(open_.reshape(len(left), -1).any(axis=1), g)
                loose = np.where(rest, np.maximum(loose, self._bound("bounds", s, RUNS, shape=g.shape)), loose)
                by_roundings, open_, _ = self._by_roundings(s, g.dtype, d, self._held(s, g, d.high), open_, loose)
                harmless += by_roundings
            told.append((harmless, loose))
            left = left | open_.reshape(len(left), -1).any(axis=1)
        for s, (e, g, apart, (harmless, loose)) in enumerate(zip(exact, got, known, told, strict=True)):
            done, d = ~_along(left, g), self._in_units_of_terms(s, g, apart)
            self.checked += int(np.count_nonzero(np.broadcast_to(done, g.shape)))
            self.worst = max(self.worst, float(np.max(d.ulps, initial=0.0, where=done)))
            harmless = [t._replace(mask=t.mask & done) for t in harmless]
            self._tell(harmless, s, e, g, d, np.abs(d.high) <= d.radius, loose)
        self.findings = merged(self.findings)
        return left, blurred

    def _settled(self, s: int, e: Any, g: Any, distances: Distances) -> _Settled:
        """The elements of one array that are right, or that the roundings of all ops explain."""
        dtype = g.dtype
        high, off, rad, _, tight = distances
        near = off + rad <= tight
        none = np.zeros(g.shape, np.bool_)
        over = none if near.all() else np.abs(high) > float(np.finfo(dtype).max) * (1 + float(np.finfo(dtype).eps) / 4)
        rounded = none if over is none else over & _rounds_to(g, high, dtype)
        near = near | rounded
        added, zeros = self._added(s, g, distances, near)
        near = near | added
        # A blurred exact number does not show how many digits are right.
        blurred = ~near & ((np.isfinite(off) & (rad > (tight + off) / 4)) | _vague(e, ~near & ~np.isfinite(rad)))
        return _Settled(near, added, zeros, rounded, over, blurred)

    def _explained(self, s: int, g: Any, distances: Distances, settled: _Settled, ask: Any = True) -> _Explained:
        """The elements of one array that the roundings of all ops and the bound of the problem explain.

        Parameters
        ----------
        settled : _Settled
        ask : bool array
            The elements that need an explanation.
        """
        high, off, rad, _, tight = distances
        near, added, at_zero, rounded, over, _ = settled
        at_zero = at_zero & ask
        if at_zero.any():
            at_zero = at_zero & (off + rad <= self._at_zeros(s, self._held(s, g, high), g.shape)[1])
        dtype, near = g.dtype, near | at_zero | ~np.broadcast_to(ask, g.shape)
        moved, own, open_ = np.zeros(g.shape), np.zeros(g.shape, np.bool_), ~near
        if open_.any():
            for count in MOVES:
                if not (np.isfinite(g) & ~near & ~(off <= tight + moved)).any():
                    break
                moved = np.maximum(moved, self._many() * self._bound("moved", s, count, shape=g.shape))
            moved = self._nearby(s, g, moved, high, near, off - tight)
            moved, own = np.array(moved), np.array(~near & np.isfinite(g) & (off <= tight + moved))
            open_ = ~near & ~own
            missed = np.argwhere(open_ & np.isfinite(g) & (off <= tight + _CHANCE * moved))
            raised = np.array(moved)
            for place in map(tuple, missed[:_FEW].tolist()):
                raised[place] = max(moved[place], self._many() * self._causes.moved_element(s, place))
            if len(missed):
                capped = self._nearby(s, g, raised, high, near | own, off - tight)
                moved = np.where(raised > moved, np.maximum(moved, capped), moved)
                own = own | (open_ & np.isfinite(g) & (off <= tight + moved))
            open_ = open_ & ~own
        by_rules, own = self._by_rules(s, g, off, high, moved, own)
        return _Explained(
            Told(added, "conditioning", _added_up(dtype, self._held(s, g, high).coarsest if added.any() else dtype)),
            Told(at_zero, "conditioning", _AT_ZERO),
            Told(own, "conditioning", _moved_by(self._times(off, moved, own))),
            Told(rounded, "range", f"the exact derivative overflows {dtype.name}"),
            by_rules, over, open_, moved,
        )  # fmt: skip

    def _beyond_half_units(self, off: Any, moved: Any) -> Any:
        """Which errors are larger than one half unit in the inputs makes them, given the bound of the problem."""
        return off * (SPREADS * self._many()) > moved

    def _by_rules(self, s: int, g: Any, off: Any, high: Any, moved: Any, own: Any) -> tuple[list[Told], Any]:
        """The elements within the bound of the problem whose digits a custom gradient loses, and the other ones.

        The bound counts many half units, because each op may round as the inputs do. A formula that loses digits at
        exact inputs needs no such room: it loses digits that the derivative of its body keeps.
        """
        beyond = own & self._beyond_half_units(off, moved)
        if not beyond.any():
            return [], own
        held, told = self._held(s, g, high), list[Told]()
        beyond = beyond & (off <= held.unit * 2.0 ** (held.digits / 2))
        for (verdict, reason, op, line), masks in self._ask("losing_rules") if beyond.any() else ():
            lost = beyond & own if masks[s] is None else beyond & own & masks[s]
            told.append(Told(lost, verdict, reason, op, line, ok=True))
            own = own & ~lost
        return told, own

    def _by_roundings(
        self, s: int, dtype: Any, distances: Distances, held: _Held, open_: Any, loose: Any
    ) -> tuple[list[Told], Any, Any]:
        """The open numbers of one array that roundings on the way explain, with `loose` as the bound on these.

        Returns
        -------
        told : list of Told
        open : bool array
            The numbers that stay open.
        ulps : float array
            The distances in ULP, for an open exact zero in units of the terms that cancel.
        """
        high, off, rad, ulps, tight = distances
        told, zero, bounded = [], np.abs(high) <= rad, self._ask("bounds", RUNS) is not None
        if (zero & open_).any():
            unit, room = self._at_zeros(s, held, open_.shape)
            room = np.minimum(tight + loose, room) if bounded else room
            reached = zero & open_ & (off <= room)
            open_ = open_ & ~reached
            ulps = np.where(zero & open_ & np.isfinite(off) & (unit > 0), off / np.where(unit > 0, unit, 1.0), ulps)
            told.append(Told(reached, "conditioning", _AT_ZERO))
        if open_.any():  # roundings of many ops add up without any cancellation
            many = max(ROUNDINGS, self._ask("declared")) * self._many() * held.unit
            reached = open_ & (off <= (np.minimum(tight + loose, many) if bounded else many))
            open_ = open_ & ~reached
            told.append(Told(reached, "conditioning", _added_up(dtype, held.coarsest)))
        return told, open_, ulps

    def _number(self, s: int, e: Any, g: Any, distances: Distances) -> bool:
        """As `_array`, for one finite number beyond the tight bound; False if this number needs the general way.

        Arithmetic of NumPy takes ten times as long as arithmetic of Python, and training loops have many scalars.
        """
        got, high, off, rad, _, tight = map(float, (g, *distances))
        if not (math.isfinite(got) and abs(high) <= largest(g.dtype)) or rad > (tight + off) / 4:
            return False
        unit, moved = float(spacing(high, g.dtype)), 0.0
        if self._ask("coarser"):
            return False
        run, ulps = self._causes.followed(s) or (None, 0.0)
        if run is not None and off + rad <= ulps * unit and abs(float(run) - got) <= ROUNDINGS * unit:
            reason = _ADDED
        else:
            for count in MOVES:
                if off <= tight + moved:
                    break
                moved = max(moved, self._many() * float(self._bound("moved", s, count, shape=())))
            if off > tight + moved or _is_wild(moved, high, off - tight):
                return False
            if self._beyond_half_units(off, moved) and self._ask("losing_rules"):
                return False
            reason = _moved_by(self._times(off, moved, True))
        digits = None if abs(high) <= rad else float(right_digits(off, high, g.dtype))
        shown = worst_of(s, None, distances.ulps, g, e, np.float64(moved))
        self.findings.append(Finding("conditioning", order=self.order, reason=reason, digits=digits, **shown))
        return True

    def _array(self, s: int, e: Any, g: Any, distances: Distances, settled: _Settled | None = None) -> None:
        """Compare one array, whose enclosures are narrow enough."""
        dtype = g.dtype
        distances = self._in_units_of_terms(s, g, distances)
        high, off, rad, ulps, tight = distances
        self.checked += g.size
        self.worst = max(self.worst, float(ulps.max(initial=0.0)))
        if (off + rad <= tight).all():
            return
        if not g.ndim and dtype.kind == "f" and self._number(s, e, g, distances):
            return
        settled = settled or self._settled(s, e, g, distances)
        explained = self._explained(s, g, distances, settled)
        added, at_zero, by_problem, over_range, by_rules, over, open_, moved = explained
        zero = np.abs(high) <= rad
        told: list[Told] = [added, *by_rules]
        if not open_.any():
            self._tell([*told, by_problem, over_range, at_zero], s, e, g, distances, zero, moved)
            return
        held = self._held(s, g, high)
        if self._causes.claimed and dtype.kind == "f":
            # A claim may be 0, because some machines flush subnormal numbers, except those of half precision.
            tiny = min(float(np.finfo(held.coarsest).tiny), float(np.finfo(np.float32).tiny))
            flushed = open_ & (g == 0) & ~zero & (np.abs(high) < tiny)
            told.append(Told(flushed, "range", _subnormal(held.coarsest)))
            open_ = open_ & ~flushed
        loose = moved
        for runs in (RUNS, MANY_RUNS):
            loose = np.maximum(moved, self._bound("bounds", s, runs, shape=g.shape))
            if not (open_ & ~(off <= tight + loose)).any():
                break
        by_roundings, open_, ulps = self._by_roundings(s, dtype, distances, held, open_, loose)
        told += by_roundings
        half = np.maximum(held.digits / 2, _UNITS)
        finite = np.isfinite(g)
        if (open_ & finite).any():
            for (verdict, reason, op, line), others in self._ask("flipped"):
                same = open_ & finite & self._follows(s, g, others[s], half, loose, moved)
                told.append(Told(same, verdict, reason, op, line))
                open_ = open_ & ~same
        if (open_ & finite).any():
            moved = np.maximum(moved, np.where(open_ & finite, self._by_chaos(s, g, high), 0.0))
            by_problem = by_problem._replace(mask=by_problem.mask | (open_ & finite & (off <= tight + moved)))
            open_, loose = open_ & ~by_problem.mask, np.maximum(loose, moved)
        if (open_ & finite).any():
            by_moves, open_, loose = self._by_real_moves(s, distances, open_ & finite, open_, moved, loose)
            told += by_moves
        lost = np.log2(np.maximum(np.where(np.isfinite(ulps), ulps, np.inf) * spacing(high, dtype) / held.unit, 1.0))
        cancelled = open_ & finite & (off <= tight + loose)
        if (open_ & finite & (~cancelled | (lost > half))).any():
            for cause, others in self._ask("by_roundings"):
                same = open_ & finite & self._follows(s, g, others[s], half, loose, moved)
                if cause is not None:
                    verdict, reason, op, line = cause
                    told.append(Told(same & (lost > half), verdict, reason, op, line, ok=False))
                    open_ = open_ & ~told[-1].mask
                cancelled = (cancelled | same) & open_
        open_ = open_ & ~cancelled
        # A NaN where the exact derivative overflows left the range, too.
        left = open_ & over & np.isnan(g)
        open_ = open_ & ~left
        # A number that rounding may move by its own size can lose all digits, so an infinity or NaN may stand in its
        # place.
        none = open_ & ~finite & (high != 0) & (loose * LOST >= np.abs(high))
        if none.any():  # products with such a number are lost, too
            none = open_ & ~finite
            if self._causes.claimed:  # another program made the numbers, and this one may give finite numbers
                own = self._ask("in_floats", s)
                none = none & np.logical_not(own is None or np.isfinite(own))
        open_ = open_ & ~none

        told += [by_problem, at_zero]  # an exact zero says least about lost digits
        # Underflow takes digits of subnormal numbers.
        subnormal = cancelled & (high != 0) & (np.abs(high) < float(np.finfo(held.coarsest).tiny))
        flushed = subnormal & (lost <= half)
        if self._causes.claimed and dtype.kind == "f":
            flushed = flushed | (subnormal & (g == 0))
        cancelled = cancelled & ~flushed
        if cancelled.any():
            for (verdict, reason, op, line), masks in self._ask("lossy_rules"):
                coarse = cancelled if masks[s] is None else cancelled & masks[s]
                told.append(Told(coarse, verdict, reason, op, line))
                cancelled = cancelled & ~coarse
        by_ops, by_rules_of_ops = self._by_rules_of_ops(s, g, off, cancelled, lost > half)
        told += by_ops
        for t in (*by_ops, *by_rules_of_ops):
            cancelled = cancelled & ~t.mask
        told.append(Told(flushed, "range", _subnormal(held.coarsest)))
        half_lost = cancelled & (lost > half)
        if half_lost.any():
            decimal = half_lost & (off <= tight + self._bound("moved_decimals", s, shape=g.shape))
            half_lost, cancelled = half_lost & ~decimal, cancelled & ~decimal
            told.append(Told(decimal, "conditioning", _MOVED_DECIMALS))
        for mask, error in ((none, None), (half_lost, off)):
            for (verdict, reason, op, line), reached in self._causes.left(s, mask, error) if mask.any() else ():
                told.append(Told(reached, verdict, reason, op, line, ok=False))
                none, half_lost = none & ~reached, half_lost & ~reached
        reason = "the program's own arithmetic loses all digits: numbers that differ exactly are equal as floats"
        told.append(Told(none, "cancellation", reason, ok=False))
        told.append(over_range)
        reason = f"the exact derivative overflows {dtype.name}, and floats on the way to it give NaN"
        told.append(Told(left, "range", reason, ok=False))
        if open_.any():
            told += self._causes_of(Wrong(s, open_, g, high, ulps))
        some_lost = Told(cancelled & (lost <= half), "cancellation", "", ok=True)
        lost_digits = [*by_rules_of_ops, Told(half_lost, "cancellation", "", ok=False), some_lost]
        self._tell(told, s, e, g, distances._replace(ulps=ulps), zero, loose, lost, lost_digits, held)

    def _by_rules_of_ops(
        self, s: int, g: Any, off: Any, cancelled: Any, over_half: Any
    ) -> tuple[list[Told], list[Told]]:
        """The cancelled numbers of one array whose digits the rule of a user's op loses: those that lost over half of
        their digits, and those that lost fewer.

        Without the loss, such a number moves by at least half of its error, or by the part of it that the largest of
        several losses explains.
        """
        over, under = list[Told](), list[Told]()
        known = self._ask("without_losses") if cancelled.any() else []
        for op, line, numbers in known:
            if numbers[s] is None or np.shape(numbers[s]) != g.shape:
                continue
            with np.errstate(all="ignore"):
                moved = np.abs(widest(np.asarray(numbers[s])) - widest(g))
                mask = cancelled & (moved >= off / (2 * len(known)))
            cancelled = cancelled & ~mask
            reason = f"the rule of {op} is right, but its formula loses digits that the problem does not"
            over.append(Told(mask & over_half, "unstable", reason, op, line))
            words = f"the formula of the rule of {op} loses digits that the function does not"
            under.append(Told(mask & ~over_half, "cancellation", words, op, line, ok=True))
        return over, under

    def _follows(self, s: int, g: Any, other: Any, half: Any, loose: Any, moved: Any) -> Any:
        """The mask of the elements of one array that are the exact numbers of another branch.

        Parameters
        ----------
        other : object array or None
            These exact numbers.
        half : float array
            Half of the digits that the numbers can have, which must be right.
        loose, moved : float arrays
            The widest bound, and the bound of the problem.
        """
        if other is None:
            return np.zeros(np.shape(g), np.bool_)
        there = to_float(turned(other) if g.dtype.kind == "c" else objects(other))
        unit = self._held(s, g, there).unit
        gap = np.abs(widest(g) - there)
        # The moves that lead to the other branch are among those that a wild bound counts, so half of it is left.
        moved = np.where(_is_wild(moved, there, gap), moved / 2, moved)
        return (gap <= ROUNDINGS * unit + loose) & (gap <= unit * 2.0**half + moved)

    def _causes_of(self, wrong: Wrong) -> list[Told]:
        """The findings about numbers beyond all bounds."""
        return self._causes.wrong(wrong)

    def _tell(
        self, told: list[Told], s: int, e: Any, g: Any, distances: Distances, zero: Any, loose: Any,
        lost: Any = None, lost_digits: Sequence[Told] = (), held: _Held | None = None,
    ) -> None:  # fmt: skip
        """Add the findings about one array.

        Parameters
        ----------
        zero : bool array
            The exact zeros.
        loose : float array
            The widest bound that was needed.
        lost : float array, optional
            How many bits are lost.
        lost_digits : list of Told
            The cancellations, whose reasons need the number of right digits.
        held : _Held, optional
            The digits that the numbers can have.
        """
        high, off, _, ulps, _ = distances
        dtype = g.dtype

        def fewest(mask: Any) -> float | None:
            """The fewest right digits of some elements; None for exact zeros, because a zero has none to lose."""
            return fewest_digits(mask & ~zero, off, high, dtype)

        for t in told:
            if t.mask.any():
                shown = worst_of(s, t.mask, ulps, g, e, loose)
                self.findings.append(
                    Finding(
                        t.verdict, order=self.order, reason=t.reason, op=t.op, line=t.line, ok=t.ok,
                        count=int(t.mask.sum()), digits=fewest(t.mask), **shown,
                    )
                )  # fmt: skip
        for t in lost_digits:
            if t.mask.any():
                most = digits_of(dtype) if held is None else held.digits
                shown = worst_of(s, t.mask, ulps, g, e, loose)
                self.findings.append(cancellation(self.order, shown, t, lost, most, fewest(t.mask)))


def _is_wild(moved: Any, high: Any, off: Any) -> Any:
    """Where first-order moves as large as a number itself excuse errors of its size, although no moved input may have
    the claimed number.
    """
    return (moved > np.abs(high)) & (off > np.abs(high) / _SMALL)


_SMALL = 16.0  # the share of a number that may be wrong without a look at moved inputs


def by_fault(made: Any, e: Any, g: Any) -> Any:
    """The mask of the real numbers of one array whose errors a wrong rule explains: half of all digits are lost, and
    the claimed number is the one that the wrong rule gives in exact arithmetic.

    Roundings that a problem magnifies to such errors would part the claimed number from that one, too.

    Parameters
    ----------
    made : object array
        The numbers that the wrong rules give in exact arithmetic.
    e : object array
        The exact numbers.
    g : float array
    """
    fault, high = np.abs(to_float(objects(made - e))), np.abs(to_float(e))
    with np.errstate(all="ignore"):
        large = np.isfinite(fault) & (fault > high * math.sqrt(float(np.finfo(g.dtype).eps)))
        return large & (np.abs(widest(g) - to_float(objects(made))) <= fault * _FAULTLESS)


_FAULTLESS = 2.0**-10  # the share of an error that a wrong rule may leave to roundings
_FAR = 2.0**10  # the factor by which an error exceeds a bound that says enough about the error


class Harmless(Comparison):
    """Finds the harmless numbers beside wrong ones, and no causes of the wrong ones."""

    def mask(self, s: int, e: Any, g: Any, faulty: Any, *, beyond: bool) -> Any:
        """The elements of one array that are right, or that roundings or the problem explain.

        An element that a wrong rule explains, and that lies far beyond the first-order bound of the problem, is asked
        no further: an error that roundings magnify so much more than the inputs do would part it from the number that
        the wrong rule gives.

        Parameters
        ----------
        s : int
        e : object array
            The exact numbers, in the convention of `g`.
        g : float or complex array
        faulty : bool array
            The elements whose errors a wrong rule explains, as from `by_fault`.
        beyond : bool
            Whether another row showed that no bound excuses errors of this rule.
        """
        self._found = np.ones(np.shape(g), np.bool_)
        far = distances(e, g)
        settled = self._settled(s, e, g, far)
        wrong = faulty & ~settled.near
        if not beyond and wrong.any():
            moved = self._many() * self._bound("moved", s, MOVES[1], shape=g.shape)
            wrong = wrong & (far.off > _FAR * (far.tight + moved))
        self._array(s, e, g, far, settled._replace(near=settled.near | wrong))
        return self._found & ~wrong

    def _number(self, s: int, e: Any, g: Any, distances: Distances) -> bool:
        return False

    def _causes_of(self, wrong: Wrong) -> list[Told]:
        return []

    def _tell(
        self, told: list[Told], s: int, e: Any, g: Any, distances: Distances, zero: Any, loose: Any,
        lost: Any = None, lost_digits: Sequence[Told] = (), held: _Held | None = None,
    ) -> None:  # fmt: skip
        found = distances.off + distances.radius <= distances.tight
        for t in told:
            if Finding(t.verdict, ok=t.ok).ok:
                found = found | t.mask
        for t in lost_digits:
            if t.ok:
                found = found | t.mask
        self._found = found


_AT_ZERO = "the exact derivative is 0, and floats reach it up to the rounding of the terms that cancel"
_ADDED = "the roundings of the program's ops add up, and none is magnified"


def _added_up(dtype: Any, coarse: Any) -> str:
    return _ADDED if coarse == dtype else f"{_ADDED}; the program computes in {coarse.name} on the way"


def _subnormal(dtype: Any) -> str:
    return f"the exact derivative is a subnormal number of {dtype.name}"


def _moved_by(times: float) -> str:
    """Why the problem itself explains an error, by the half units in the inputs that move the derivative as much."""
    move = (
        "half a unit in the inputs moves"
        if times <= 1.0
        else "a few half units in the inputs move"
        if times <= SPREADS
        else "as many half units in the inputs as the program's roundings add up to move"
    )
    return f"the problem itself loses these digits: {move} the exact derivative as much"


_MOVED_DECIMALS = (
    "the constants of the program are rounded decimals: half a unit in them moves the exact derivative as much"
)
MOVED_BEYOND = (
    "the problem itself loses these digits: half a unit in the inputs moves the exact derivative as much, beyond first "
    "order"
)
_MOVED_MATRIX = (
    "the matrix is ill-conditioned: a few roundings of its largest element in each of its elements, within which every "
    "stable algorithm stays, move the exact derivative as much"
)
_OF_THE_PROGRAM = "the program's own arithmetic loses digits that the function does not"
_NEARBY = 16  # moves of the inputs, after which the distribution of the derivative nearby is known well enough
_CHANCE = 64.0  # factor by which all random moves may be too small for one element among many
_FEW = 16  # elements that are moved alone
_UNITS = 4  # bits that a subnormal number may lose, even if this is more than half of its digits
_DIGITS = 16  # bits that an enclosure must tell


def _digits_right(who: str, right: float | None, lost: float, bits: int) -> str:
    """How many of some digits are right, in words after `who`; for exact zeros, which have none, by the bits that are
    lost.
    """
    per_bit = math.log10(2.0)
    whole = math.floor(max(bits - lost, 0.0) * per_bit if right is None else right)
    how = f"{whole or 'none'} of {math.floor(bits * per_bit)} digits {'is' if whole == 1 else 'are'} right"
    return f"{who}: {how}"


def fewest_digits(mask: Any, off: Any, high: Any, dtype: Any) -> float | None:
    """The fewest right digits of some elements; None without elements."""
    return float(np.min(right_digits(off, high, dtype)[mask])) if mask.any() else None


def cancellation(order: int, shown: dict[str, Any], told: Told, lost: Any, most: Any, right: float | None) -> Finding:
    """The finding about elements that lost digits by the program's own arithmetic.

    Parameters
    ----------
    order : int
    shown : dict
        The worst element, as `worst_of` gives it.
    told : Told
        The elements, whether half of their digits are right, and the op that lost the others, if known. Its reason
        says who loses digits: by default the program's own arithmetic.
    lost : float array
        How many bits each element of the array lost.
    most : int or int array
        How many bits each can have.
    right : float or None
        The fewest right digits of the elements.
    """
    place = shown["element"][1]
    bits, most = float(np.asarray(lost)[place]), int(np.broadcast_to(most, np.shape(lost))[place])
    reason = _digits_right(told.reason or _OF_THE_PROGRAM, right, bits, most)
    return Finding(
        "cancellation", order=order, reason=reason, op=told.op, line=told.line, ok=told.ok, lost=bits,
        count=int(told.mask.sum()), cause="digits", digits=right, **shown,
    )  # fmt: skip


def worst_of(s: int, mask: Any, ulps: Any, g: Any, e: Any, loose: Any) -> dict[str, Any]:
    """The masked element with the largest error, as fields of a finding; a single number needs no mask."""
    index: tuple[int, ...] = ()
    if g.ndim:
        far = np.where(mask, np.where(np.isnan(ulps), np.inf, ulps), -1.0)
        if np.max(far) == np.inf:  # a unit of 0 is so small that counts of it overflow, but the exact zeros have sizes
            size = np.abs(widest(g))
            far = np.where(far == np.inf, np.where(np.isnan(size), np.inf, size), -1.0)
        index = tuple(int(i) for i in np.unravel_index(int(np.argmax(far)), g.shape))
    exact = objects(e)[index]
    size = float(abs(exact))
    unit = float(spacing(size, g.dtype))
    return {
        "element": (s, index),
        "got": g[index].item(),
        "exact": exact,
        "ulps": float(ulps[index]),
        "condition": float(loose[index]) / SPREADS / unit if size else None,
    }
