"""Claims at a tie at which Python took a branch, judged by the derivatives of all branches.

The function runs at points beside the tie, and the programs of each run give the exact derivative of its branch at the
tie. A claim is right if it lies between these derivatives, and if it agrees with them along each direction of several
elements in which they agree.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from flint import arb

from gtape.symbolic.balls import objects, precision, to_float
from gtape.symbolic.program import Program
from gtape.verify.causes.joint import ALIKE, across
from gtape.verify.causes.whole_function import along_directions
from gtape.verify.judging.recording import Recording
from gtape.verify.oracles.oracle import Oracle
from gtape.verify.verdicts.ulp import ROUNDINGS, spacing, widest
from gtape.verify.verdicts.verdict import Finding

__all__ = ["BranchesBeside", "differs"]

_PAIRS = 16  # of points beside the tie
_BITS = 400
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
    """

    def __init__(self, recording: Recording, met: list[Finding]) -> None:
        self.recording, self.met = recording, met
        self._points = [np.asarray(t._value) for t in recording.inputs]
        self._rng = np.random.default_rng(47)
        self._here = _Branch(recording, self._points)
        self._found: list[_Branch] | None = None

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
        signs = [self._rng.choice([-1.0, 1.0], x.shape) * self._rng.uniform(0.5, 1.0, x.shape) for x in points]
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
            if branch.values is not None and _is_same(branch.values, self._here.values or []):
                yield branch


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
        self._programs: dict[Place, tuple[Program, list[Any]]] | None = None
        self._rows: dict[Place, list[Any] | None] = {}
        self.values = self._outputs()

    def _outputs(self) -> list[Any] | None:
        program = _moved_to(self._recording.program(), self._points)
        with precision(_BITS), contextlib.suppress(ArithmeticError):
            oracle = Oracle(program, [])
            oracle.evaluate()
            return [oracle.env[i] for i in program.outputs]
        return None

    def row(self, place: Place) -> list[Any] | None:
        """A row of the derivative by each argument, as floats, or None for zeros; None where it is not defined."""
        if place not in self._rows:
            self._rows[place] = self._row(place)
        return self._rows[place]

    def _row(self, place: Place) -> list[Any] | None:
        if self._programs is None:
            made = self._recording.programs()
            self._programs = {at: (_moved_to(p, self._points), seeds) for at, p, seeds, _ in made}
        if place not in self._programs:  # a row without a record is 0, unless a custom gradient computes through NumPy
            customs = any(n.kind == "custom" for n in self._recording.program().nodes)
            return None if customs else [None] * len(self._points)
        program, seeds = self._programs[place]
        with precision(_BITS), contextlib.suppress(ArithmeticError):
            oracle = Oracle(program, seeds)
            oracle.evaluate()
            return [None if e is None else to_float(objects(e)) for e in oracle.replay()]
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
