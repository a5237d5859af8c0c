"""Numbers at a tie at which Python took a branch, judged by the derivatives of all branches.

The function runs at points beside the tie, and the programs of each run give the exact derivative of its branch at the
tie. A claim is right if it lies between these derivatives, and if it agrees with them along each direction of several
elements in which they agree. The derivative of a branch that only the tie itself takes, such as that of ``x == 0`` at
0, is none of them.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from flint import arb

from gtape.symbolic.balls import digits, objects, precision, to_float
from gtape.symbolic.program import Program
from gtape.verify.causes.choices import decides_at_ties
from gtape.verify.causes.conventions import kinks_met
from gtape.verify.causes.intervals import Interval
from gtape.verify.causes.joint import ALIKE, across
from gtape.verify.causes.whole_function import along_directions
from gtape.verify.judging.random_moves import random_moves
from gtape.verify.judging.recording import Recording
from gtape.verify.oracles.oracle import Oracle
from gtape.verify.verdicts.ulp import ROUNDINGS, spacing, widest
from gtape.verify.verdicts.verdict import Finding

__all__ = ["BranchesBeside", "differs"]

_PAIRS = 16  # of points beside the tie
_BITS = 400
_BITS_NEAR = 3200  # at points beside the tie, some of which are tiny, so that much cancels
_WIDTH = arb(2) ** -60  # of an enclosure beside the tie
_SIDES = 2  # recordings beside the tie that are kept
_MOST_PROBES = 200  # further pairs of points for claims that differ along a direction
_MOST_WORK = 40_000  # numbers that these pairs evaluate

Place = tuple[Any, ...]  # of a row, as from `Recording.programs`


class BranchesBeside:
    """The derivatives at a tie of the branches that Python may take there.

    Branches on which the function has another value at the tie do not count, because the function has no derivative
    where it jumps.

    Parameters
    ----------
    recording : Recording
        Of the function at the tie.
    met : list of Finding
        The branches at a tie.
    isolated : list of Finding
        Those that only the tie itself takes.
    """

    def __init__(self, recording: Recording, met: list[Finding], isolated: list[Finding]) -> None:
        self.recording, self.met, self.isolated = recording, met, isolated
        self._points = [np.asarray(t._value) for t in recording.inputs]
        self._rng = np.random.default_rng(47)
        self._here = _Branch(recording, self._points)
        self._found: list[_Branch] | None = None
        self._beside_it: list[Recording] = []

    def judged(self, place: Place, row: list[Any], own: list[Any]) -> tuple[list[Any], list[Finding]]:
        """A claimed row with the tape's numbers in place of claims that lie between the derivatives of the branches,
        and a finding if these claims differ from all branches along a direction of several elements.

        Parameters
        ----------
        place : tuple
            Of the row, as from `Recording.programs`.
        row, own : list of arrays or None
            The claims and the tape's numbers.
        """
        if self.isolated:
            return self._judged_beside(place, row, own)
        if not any(map(differs, row, own)):
            return row, []
        sides = [s for branch in self._branches() if (s := branch.row(place)) is not None]
        if not sides:
            return row, []
        made: list[Any] = []
        joint: list[Any] = []  # the claims that branches explain, and the tape's numbers elsewhere
        for k, (claim, mine) in enumerate(zip(row, own, strict=True)):
            made.append(claim)
            joint.append(None)
            if claim is None or claim.shape != self._points[k].shape or claim.dtype.kind not in "fiu":
                continue
            several = [np.broadcast_to(0.0 if s[k] is None else s[k], claim.shape) for s in sides]
            low, high = np.min(several, axis=0), np.max(several, axis=0)
            room = ROUNDINGS * spacing(np.maximum(np.abs(low), np.abs(high)), self._points[k].dtype)
            inside = (claim >= low - room) & (claim <= high + room) & (high - low > room)
            usual = np.zeros(claim.shape) if mine is None else widest(mine)
            made[k] = np.where(inside, usual, claim) if inside.any() else claim
            joint[k] = np.where(inside, claim, usual)
        return made, self._along(place, joint, sides)

    def _judged_beside(self, place: Place, row: list[Any], own: list[Any]) -> tuple[list[Any], list[Finding]]:
        """As `judged`, if only the tie itself takes the branch at the tie."""
        wrong = self.wrong(place, self.recording.order, row)
        if wrong is None:
            return row, []
        made = [
            mine if claim is not None and np.shape(claim) == x.shape else claim
            for claim, mine, x in zip(row, own, self._points, strict=True)
        ]
        return made, wrong

    def places(self, order: int) -> list[Place]:
        """The places of the rows of a derivative that some branch beside the tie has."""
        found = [place for branch in self._branches() if branch is not self._here for place in branch.places(order)]
        return list(dict.fromkeys(found))

    def wrong(self, place: Place, order: int, row: list[Any] | None = None) -> list[Finding] | None:
        """The findings about numbers that lie outside of the derivatives of all branches beside the tie.

        Parameters
        ----------
        place : tuple
            Of the row, as from `Recording.programs`.
        order : int
        row : list of arrays or None, optional
            The claims; by default the exact derivative of the branch that the tie takes.

        Returns
        -------
        list of Finding or None
            None if no branch beside the tie has a derivative, as where the function jumps.
        """
        beside = [branch for branch in self._branches() if branch is not self._here]
        if not beside or any(np.iscomplexobj(x) for x in self._points):
            return None
        # At a kink of its own, the derivative of a branch at the tie is a convention, whereas those nearby are limits.
        near = any(branch.meets_kinks(place, order) for branch in beside)
        sides = [s for branch in beside if (s := branch.row(place, order, moved=not near)) is not None]
        if not sides:
            return None
        numbers = self._here.row(place, order) if row is None else row
        found = []
        for k, x in enumerate(self._points):
            several = [np.broadcast_to(0.0 if s[k] is None else s[k], x.shape) for s in sides]
            number = np.zeros(x.shape) if numbers is None or numbers[k] is None else widest(np.asarray(numbers[k]))
            if number.shape != x.shape:
                continue
            low, high = np.min(several, axis=0), np.max(several, axis=0)
            size = np.maximum(np.abs(low), np.abs(high))
            room = ROUNDINGS * spacing(size, low.dtype if row is None else x.dtype)
            if near:
                room = np.maximum(room, math.sqrt(float(np.finfo(x.dtype).eps)) * np.maximum(size, 1.0))
            outside = ~((number >= low - room) & (number <= high + room))
            for index in map(tuple, np.argwhere(outside).tolist()):
                ends = Interval(arb(float(low[index])), arb(float(high[index])), bool((high - low <= room)[index]))
                found.append(self._outside((k, index), order, float(number[index]), ends, claimed=row is not None))
        return found

    def _outside(self, element: Any, order: int, got: float, ends: Interval, *, claimed: bool) -> Finding:
        """The finding about one number that is the derivative of no branch beside the tie."""
        who = self.isolated[0]
        of = "the branch at the tie" if who.op is None else f"the branch on {who.op} at the tie"
        gives = "the claim is" if claimed else f"{of} gives"
        if ends.agree:
            reason = "the function as a whole has a derivative here: all branches that it takes beside this point "
            reason += f"agree, but {gives} another number"
        else:
            reason = f"the derivatives of the branches that the function takes beside this point lie in {ends}, but "
            reason += f"{gives} a number outside"
        return Finding(
            "convention", order=order, op=who.op, line=who.line, element=element, got=got,
            exact=digits(ends.low) if ends.low == ends.high else None, inside=False, reason=reason,
            cause="derivative" if ends.agree else "interval",
        )  # fmt: skip

    def recordings(self) -> list[Recording]:
        """Recordings of the function before and behind the tie, where it takes other branches."""
        self._branches()
        return self._beside_it

    def _along(self, place: Place, claims: list[Any], sides: list[list[Any]]) -> list[Finding]:
        """The finding for claims that differ along a direction in which all branches agree; none without one."""

        def filled(rows: Sequence[Any]) -> list[Any]:
            return [
                None if c is None else np.broadcast_to(0.0 if v is None else v, c.shape)
                for c, v in zip(claims, rows, strict=True)
            ]

        def probe(moves: list[Any], part: float) -> list[list[Any]]:
            made = [branch.row(place) for branch in self._beside(1.0, moves, part)]
            return [filled(row) for row in made if row is not None]

        room = max(ALIKE, 64 * max(float(np.finfo(x.dtype).eps) for x in self._points))
        budget = min(_MOST_PROBES, _MOST_WORK // self.recording.program().size)
        apart = across(claims, [filled(s) for s in sides], probe, room, budget)
        if apart is None:
            return []
        split = [False] * len(claims)  # complex claims are not compared
        return [along_directions(apart, self.met[0], claims, self.recording.order, split)]

    def _branches(self) -> list[_Branch]:
        """The branches at the tie and at random points beside it."""
        if self._found is None:
            self._found = [] if self._here.values is None else [self._here]
            for k in range(_PAIRS if self._found else 0):
                # Some points lie nearer, because a function of tiny numbers may have other ties between 0 and the usual
                # moves.
                self._found += self._beside(1.0 if k % 4 else 0.0)
        return self._found

    def _beside(self, unit: float, moves: list[Any] | None = None, part: float = 1.0) -> Iterator[_Branch]:
        """The branches before and behind the tie along a random direction.

        Parameters
        ----------
        unit : float
            The least size of a number, relative to which it moves; 0 for the number itself.
        moves : list of arrays or None, optional
            A direction that all numbers follow, whatever their sizes.
        part : float
            The size of the random part of the direction.
        """
        points = self._points
        sizes = [np.where(x == 0, unit or _tiny(x.dtype), np.maximum(np.abs(x), unit)) for x in points]
        signs = [random_moves(x, self._rng) for x in points]
        ways = [part * u * size for u, size in zip(signs, sizes, strict=True)]
        if moves is not None:
            most = max([float(np.max(size, initial=0.0)) for size in sizes])
            ways = [w if m is None else w + most * m for w, m in zip(ways, moves, strict=True)]
        for side in (-1.0, 1.0):
            moved = [(x + side * _slightly(x.dtype) * w).astype(x.dtype) for x, w in zip(points, ways, strict=True)]
            try:
                beside = Recording(self.recording.function, tuple(moved), self.recording.order)
                branch = _Branch(beside, points)
            except Exception:  # not defined on this side
                continue
            if len(self._beside_it) < _SIDES:
                self._beside_it.append(beside)
            if branch.values is not None and self._reaches(branch):
                yield branch

    def _reaches(self, branch: _Branch) -> bool:
        """Whether the function on a branch has the value of the tie there, or comes to it where it is not defined."""
        here, there = self._here.values or [], branch.values or []
        if _are_finite(there) or not self.isolated:
            return _is_same(there, here)
        for v, t, x in zip(here, branch.outputs(), self._points[:1] * len(here), strict=True):
            gap, size = np.abs(to_float(objects(v)) - widest(t)), np.maximum(np.abs(widest(t)), 1.0)
            if not (gap <= math.sqrt(float(np.finfo(x.dtype).eps)) * size).all():
                return False
        return True


class _Branch:
    """The function on one branch, with exact values and derivatives at the tie.

    Parameters
    ----------
    recording : Recording
        At the tie or beside it.
    points : list of arrays
        The tie.

    Attributes
    ----------
    values : list or None
        The exact outputs of the function; None where it is not defined.
    """

    def __init__(self, recording: Recording, points: list[Any]) -> None:
        self._recording, self._points = recording, points
        self._programs: dict[int, dict[Place, tuple[Program, list[Any]]]] = {}
        self._rows: dict[tuple[Place, int, bool], list[Any] | None] = {}
        self.values = self._outputs()

    def _outputs(self) -> list[Any] | None:
        whole = self._recording.program()
        with self._at(whole, moved=True) as program, precision(_BITS), contextlib.suppress(ArithmeticError):
            oracle = Oracle(program, [])
            oracle.evaluate()
            return [oracle.env[i] for i in program.outputs]
        return None

    def outputs(self) -> list[Any]:
        """The function's values at the recorded point."""
        return [t._value for t in self._recording.outputs]

    def row(self, place: Place, order: int | None = None, *, moved: bool = True) -> list[Any] | None:
        """A row of the derivative by each argument, as floats, or None for zeros; None where it is not defined.

        Parameters
        ----------
        order : int, optional
            By default that of the recording.
        moved : bool
            Whether at the tie, instead of at the recorded point.
        """
        key = place, order or self._recording.order, moved
        if key not in self._rows:
            self._rows[key] = self._row(*key)
        return self._rows[key]

    def places(self, order: int) -> list[Place]:
        """The places of the rows that have a record."""
        return list(self._of(order))

    def meets_kinks(self, place: Place, order: int) -> bool:
        """Whether the branch has no derivative at the tie, or an op of it is at a kink or a tie of its own there."""
        found = self._of(order).get(place)
        if found is None:
            return False
        with self._at(found[0], moved=True) as program, precision(_BITS), contextlib.suppress(ArithmeticError):
            oracle = Oracle(program, found[1])
            oracle.evaluate()
            return (
                not _are_finite([e for e in oracle.replay() if e is not None])
                or bool(kinks_met(program, oracle, order))
                or decides_at_ties(program, oracle)
            )
        return True

    def _of(self, order: int) -> dict[Place, tuple[Program, list[Any]]]:
        """The program and the cotangents of each row of one order."""
        if order not in self._programs:
            made = self._recording.programs(order)
            self._programs[order] = {at: (program, seeds) for at, program, seeds, _ in made}
        return self._programs[order]

    @contextlib.contextmanager
    def _at(self, program: Program, *, moved: bool) -> Iterator[Program]:
        """A program, meanwhile at the tie if `moved`."""
        before = {i: program.nodes[i].output for nodes in program.sources for i in nodes}
        try:
            yield _moved_to(program, self._points) if moved else program
        finally:
            for i, output in before.items():
                program.nodes[i].output = output

    def _row(self, place: Place, order: int, moved: bool) -> list[Any] | None:
        programs = self._of(order)
        if place not in programs:  # a row without a record is 0, unless a custom gradient computes through NumPy
            customs = any(n.kind == "custom" for n in self._recording.program().nodes)
            return None if customs else [None] * len(self._points)
        program, seeds = programs[place]
        bits = _BITS if moved else _BITS_NEAR
        with self._at(program, moved=moved), precision(bits), contextlib.suppress(ArithmeticError):
            oracle = Oracle(program, seeds)
            oracle.evaluate()
            made = oracle.replay()
            if moved or _are_sharp([e for e in made if e is not None]):
                return [None if e is None else to_float(objects(e)) for e in made]
        return None


def differs(claim: Any, own: Any) -> bool:
    """Whether a claim is another number than the tape's, up to roundings."""
    if claim is None or own is None:
        return claim is not None
    room = ROUNDINGS * spacing(np.abs(widest(own)), np.asarray(own).dtype)
    return not bool(np.all(np.abs(claim - widest(own)) <= room))


def _moved_to(program: Program, points: list[Any]) -> Program:
    """A program with other values of its sources."""
    for nodes, x in zip(program.sources, points, strict=True):
        for i in nodes:
            program.nodes[i].output = x
    return program


def _slightly(dtype: Any) -> float:
    """A move, relative to a number, that is many units and still small."""
    return math.pow(float(np.finfo(dtype).eps), 0.75)


def _tiny(dtype: Any) -> float:
    """A number that is small beside all but the smallest numbers of a dtype, and whose square is a normal number."""
    return math.pow(float(np.finfo(dtype).tiny), 0.375)


def _are_finite(arrays: list[Any]) -> bool:
    """Whether all enclosures in some arrays are finite."""
    return all(isinstance(e, int) or e.is_finite() for a in arrays for e in objects(a).ravel().tolist())


def _are_sharp(arrays: list[Any]) -> bool:
    """Whether all enclosures in some arrays are finite and narrow."""
    enclosures = [arb(e) for a in arrays for e in objects(a).ravel().tolist()]
    return all(e.is_finite() and e.rad() <= _WIDTH * (1 + abs(e.mid())) for e in enclosures)


def _is_same(values: list[Any], others: list[Any]) -> bool:
    """Whether exact outputs are the same numbers."""
    for v, w in zip(values, others, strict=True):
        if np.shape(v) != np.shape(w):
            return False
        for p, q in zip(objects(v).ravel().tolist(), objects(w).ravel().tolist(), strict=True):
            gap = abs(p - q)
            if not arb(gap).contains(0) and not gap <= arb(2) ** (16 - _BITS) * abs(p):
                return False
    return True
