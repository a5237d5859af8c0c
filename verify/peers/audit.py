"""The audit of libraries, piece by piece: a piece is plain data, and its result depends only on these data.

A piece is one function or case of one library in one dtype, or some random programs. A process keeps the peer of the
last piece, because importing a library takes seconds.
"""

from __future__ import annotations

import atexit
import itertools
import os
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from gtape.base.escaping import plain
from gtape.verify.peers.arrays import CASES
from gtape.verify.peers.conversation import Conversation, Reply, Unusable
from gtape.verify.peers.faults import Fault
from gtape.verify.peers.findings import Cause, causes_of, joined, same_number, witness
from gtape.verify.peers.functions import function
from gtape.verify.peers.libraries import KNOWN, Library, installed, library
from gtape.verify.peers.numbers import Grid, computes, exact_digits, grid_of, judge_function, plainest
from gtape.verify.peers.programs import audit_programs
from gtape.verify.peers.tensors import judge_case
from gtape.verify.search.partials import Key, exact_partials, keys_of

__all__ = ["DTYPES", "PROGRAMS", "Audit", "audit", "chosen", "end_peer", "judged", "pieces", "summed"]

DTYPES = ("float64", "float32", "float16")
PROGRAMS = "programs"  # stands for random programs where functions are named
_AT_ONCE = 10  # random programs in a piece
_TRIES = 6  # faults of a cause to try as its witness

Piece = dict[str, Any]


class Audit(NamedTuple):
    """The result for one library, or for one piece.

    Attributes
    ----------
    library : str
    versions : dict
    causes : list of Cause
    judged : int
        Numbers compared with exact ones.
    refused : dict
        Expression -> the modes in which the library or its documentation says that it has no derivative.
    unproved : list of Cause
        Causes whose witness did not show the fault again.
    skipped : list of str
        Functions for which time did not suffice.
    """

    library: str
    versions: dict[str, str]
    causes: list[Cause]
    judged: int
    refused: dict[str, list[str]]
    unproved: list[Cause]
    skipped: list[str]


# ------------------------------------------------------------------------------------------- pieces


def chosen(names: Sequence[str]) -> list[str]:
    """The named libraries, each once; all that are installed if none is named.

    Raises
    ------
    ValueError
        For an unknown name, a named library that is not installed, or if none is installed.
    """
    for name in names:
        if not installed(name):
            module = plain(library(name).module)
            raise ValueError(f"{plain(name)} is not installed here: pip install {module}, or leave it out")
    found = list(dict.fromkeys(names)) or [n for n in KNOWN if installed(n)]
    if not found:
        raise ValueError(f"none of {', '.join(KNOWN)} is installed here, so there is nothing to judge")
    return found


def pieces(
    libraries: Sequence[str] = (),
    *,
    ops: Sequence[str] = (),
    modes: Sequence[str] = (),
    dtypes: Sequence[str] = DTYPES,
    programs: int = 100,
    points: int = 240,
    patience: float = 20.0,
    seed: int = 0,
) -> list[Piece]:
    """The pieces of an audit, library by library.

    First come all functions of a library at first order in the first dtype, then at second order, then in the other
    dtype, because time may end the audit.

    Parameters
    ----------
    libraries : sequence of str
        As for `chosen`.
    ops : sequence of str, optional
        Only these functions and cases; "programs" stands for random programs.
    modes : sequence of str, optional
        Only these modes, as "forward over reverse".
    dtypes : sequence of {"float64", "float32", "float16"}
        float16 for functions of numbers only, because few libraries have linear algebra of 16 bits.
    programs : int
        How many random programs.
    points : int
        Points of a grid in float64; half as many in the other dtypes.
    patience : float
        Seconds to wait for one reply.
    seed : int

    Raises
    ------
    ValueError
        Also if none of the libraries has such a function or mode.
    """
    made = [library(name) for name in chosen(libraries)]
    _known("function", ops, {PROGRAMS, *(n for x in made for n in (*x.functions, *x.arrays))}, made)
    _known("mode", modes, {" over ".join(m) for x in made for m in (*x.modes, *x.array_modes)}, made)
    _known("dtype", dtypes, set(DTYPES), made)
    found: list[Piece] = []
    for x in made:
        common = {"library": x.name, "patience": patience}
        for dtype, order in itertools.product(dtypes, (1, 2)):
            number = points if dtype == "float64" else points // 2
            for subject in (*x.functions, *(x.arrays if dtype != "float16" else ())):
                possible = x.modes if subject in x.functions else x.array_modes
                used = [m for m in possible if _order(x, m) == order]
                told = [text for text in map(" over ".join, used) if not modes or text in modes]
                if told and (not ops or subject in ops):
                    grid = {"points": number, "seed": seed} if subject in x.functions else {}
                    found.append({**common, "subject": subject, "dtype": dtype, "modes": told, **grid})
        if x.calls and (not ops or PROGRAMS in ops):
            for first in range(0, programs, _AT_ONCE):
                count = min(_AT_ONCE, programs - first)
                piece = {"subject": PROGRAMS, "modes": [], "first": seed * programs + first, "count": count}
                found.append({**common, **piece})
    return found


def _order(made: Library, mode: Sequence[str]) -> int:
    return len(mode) - (made.batched in mode)


def _known(what: str, given: Sequence[str], known: set[str], among: Sequence[Library]) -> None:
    unknown = [n for n in given if n not in known]
    if unknown:
        raise ValueError(f"the tables of {', '.join(x.name for x in among)} have no {what} {plain(unknown[0])!r}")


def judged(piece: Piece) -> Audit:
    """Do one piece.

    Raises
    ------
    Unusable
        If the library is not installed, or cannot be imported.
    """
    made = library(piece["library"])
    work = _Work(made, piece["modes"], _peer_of(made, piece["patience"]))
    subject = piece["subject"]
    if subject == PROGRAMS:
        work.faults, work.judged = audit_programs(work.peer, range(piece["first"], piece["first"] + piece["count"]))
    for expression in made.expressions(subject):
        if subject in made.functions:
            work.numbers(subject, expression, piece["dtype"], piece["points"], piece["seed"])
        else:
            work.arrays(subject, expression, piece["dtype"])
    proved: list[Cause] = []
    unproved: list[Cause] = []
    for cause in causes_of(work.faults, work.done):
        shown = work.shown(cause)
        (unproved if shown is None else proved).append(cause if shown is None else shown)
    return Audit(made.name, work.peer.versions, proved, work.judged, work.refused, unproved, [])


def summed(parts: Iterable[Audit], skipped: Sequence[str] = ()) -> Audit:
    """The result for one library from those of its pieces."""
    parts = list(parts)
    refused: dict[str, list[str]] = {}
    for part in parts:
        for expression, modes in part.refused.items():
            known = refused.setdefault(expression, [])
            known += [m for m in modes if m not in known]
    causes = _without_repetitions(joined(c for part in parts for c in part.causes))
    proved = {c.id for c in causes}
    unproved = [c for c in joined(c for part in parts for c in part.unproved) if c.id not in proved]
    versions = next((part.versions for part in parts if part.versions), {})
    return Audit(
        parts[0].library, versions, causes, sum(part.judged for part in parts), refused, unproved, list(skipped)
    )


def _without_repetitions(causes: Sequence[Cause]) -> list[Cause]:
    """The causes, except those of random programs that go wrong at a function with a cause of its own."""
    known = {c.subject for c in causes}
    return [c for c in causes if c.subject != "program" or c.place.rpartition(".")[2] not in known]


def audit(name: str, **options: Any) -> Audit:
    """Judge one library in this process.

    Parameters
    ----------
    name : str
    **options
        As for `pieces`.

    Raises
    ------
    Unusable
        If the library cannot be imported.
    ValueError
        As for `pieces`.
    """
    try:
        return summed(map(judged, pieces([name], **options)))
    finally:
        end_peer()


# ------------------------------------------------------------------------------------------- one piece


# By process id, because a forked process has a copy of this dict, and must neither use nor end the peer of its parent.
_peers: dict[int, Conversation] = {}
_unusable: dict[str, str] = {}  # libraries that are not started again, because starting one may take minutes


def _peer_of(made: Library, patience: float) -> Conversation:
    """The peer of this process; it replaces that of another library."""
    if made.name in _unusable:
        raise Unusable(_unusable[made.name])
    peer = _peers.get(os.getpid())
    if peer is None or peer.library is not made:
        end_peer()
        peer = Conversation(made)
        try:
            peer.start()
        except Unusable as e:
            _unusable[made.name] = str(e)
            raise
        _peers[os.getpid()] = peer
    peer.patience = patience
    return peer


def end_peer() -> None:
    """End the peer that this process keeps."""
    peer = _peers.pop(os.getpid(), None)
    if peer is not None:
        peer.end()


atexit.register(end_peer)


@cache
def _grid(name: str, dtype: str, orders: tuple[int, ...], points: int, seed: int) -> Grid:
    return grid_of(name, dtype, points, orders, seed)


class _Work:
    """The results of one piece so far."""

    def __init__(self, made: Library, modes: Sequence[str], peer: Conversation) -> None:
        self.made, self.peer = made, peer
        self.faults: list[Fault] = []
        self.done: list[tuple[str, str, tuple[str, ...]]] = []
        self.refused: dict[str, list[str]] = {}
        self.judged = 0
        self.modes = [tuple(m) for m in made.modes if not modes or " over ".join(m) in modes]
        self.array_modes = [tuple(m) for m in made.array_modes if not modes or " over ".join(m) in modes]

    def orders(self) -> tuple[int, ...]:
        return tuple(sorted({_order(self.made, m) for m in self.modes}))

    def refusal(self, reply: Reply) -> bool:
        """Whether an error says plainly that a derivative is not provided."""
        told = f"{reply.name}: {reply.text}"
        return reply.name == "NotImplementedError" or any(piece in told for piece in self.made.refusals)

    def numbers(self, subject: str, expression: str, dtype: str, points: int, seed: int) -> None:
        grid = _grid(subject, dtype, self.orders(), points, seed)
        if dtype != "float64" and not computes(self.peer, expression, grid):
            return
        for mode in self.modes:
            faults, errors, count, grid = judge_function(self.peer, subject, expression, mode, dtype, grid)
            self.faults += faults
            self.judged += count
            if not errors:
                self.done.append((self.made.name, expression, mode))
            for key, reply in errors:
                self.error(reply, key, subject, expression, mode, dtype, grid)

    def refuse(self, expression: str, mode: tuple[str, ...]) -> None:
        """Note that the library says that it has no derivative."""
        told = self.refused.setdefault(expression, [])
        if " over ".join(mode) not in told:
            told.append(" over ".join(mode))

    def documented(self, fault: Fault) -> bool:
        """Whether the library documents that it returns NaN for this kind of input."""
        kind, page = self.made.documented.get(fault.subject, ("", ""))
        return bool(page) and fault.what == "nan" and kind in fault.place

    def error(
        self, reply: Reply, key: Key, subject: str, expression: str, mode: tuple[str, ...], dtype: str, grid: Grid
    ) -> None:
        at = plainest(grid, key, dtype)
        if at is None:
            return
        if self.refusal(reply):
            # A library may refuse a derivative that is 0 everywhere.
            if grid.exact[key].high[grid.exact[key].known].any():
                self.refuse(expression, mode)
            return
        point = tuple(c[at] for c in grid.columns)
        self.faults.append(
            Fault(
                self.made.name, subject, expression, mode, key, dtype, "raises", "elsewhere", point, (),
                f"{reply.name}: {reply.text}", exact_digits(subject, [float(v) for v in point], key),
                "the derivative exists",
            )
        )  # fmt: skip

    def arrays(self, subject: str, expression: str, dtype: str) -> None:
        for mode in self.array_modes:
            faults, errors, count = judge_case(self.peer, subject, expression, mode, dtype)
            self.judged += count
            refusals = [(reply, zero) for reply, zero in errors if self.refusal(reply)]
            if not all(zero for _, zero in refusals):
                self.refuse(expression, mode)
            kept = [f for f in faults if not self.documented(f)]
            if len(kept) < len(faults):
                self.refuse(expression, mode)
            self.faults += [f for f in kept if f.what != "raises" or not refusals]
            if not errors:
                self.done.append((self.made.name, expression, mode))

    def shown(self, cause: Cause) -> Cause | None:
        """The cause with a witness that shows the fault again: short and at a point of few digits, if possible."""
        for fault in cause.faults[:_TRIES]:
            better = self.rounder(fault)
            for candidate in [fault] if better is None else [better, fault]:
                for short in (True, False):
                    if self.again(candidate, short):
                        rest = [f for f in cause.faults if f is not fault]
                        source = witness(self.made, candidate, short=short)
                        return cause._replace(faults=[candidate, *rest], source=source)
        return None

    def again(self, fault: Fault, short: bool) -> bool:
        """Whether the witness of a fault returns the same number in a fresh run."""
        reply = self.peer.ask(witness(self.made, fault, result=True, short=short), [])
        if reply.kind in ("crash", "hang"):
            return fault.what == reply.kind
        if reply.kind == "error":
            return fault.what == "raises" and str(fault.got).startswith(f"{reply.name}:")
        got = np.asarray(reply.array)
        if fault.subject in CASES and self.made.batched in fault.mode:
            got = got[0]
        if fault.element:
            if got.ndim != len(fault.element):
                return fault.what == "wrong"
            got = got[fault.element]
        if got.size != 1:
            return isinstance(fault.got, str) and fault.what == "wrong"
        return fault.what not in ("crash", "hang", "raises") and same_number(fault.got, float(got.reshape(())))

    def rounder(self, fault: Fault) -> Fault | None:
        """The fault at a point of few digits; None without one."""
        if fault.subject not in self.made.functions or fault.what in ("crash", "hang", "raises"):
            return None
        if all(len(repr(float(v))) <= 6 for v in fault.arguments):
            return None
        f = function(fault.subject)
        for digits in (1, 2, 3, 5):
            point = [np.array([float(f"{float(v):.{digits - 1}e}")], dtype=fault.dtype) for v in fault.arguments]
            if not np.isfinite(np.concatenate(point)).all():
                continue
            grid = Grid(point, exact_partials(f, point, [(), *keys_of(f, fault.order)]))
            found, *_ = judge_function(self.peer, fault.subject, fault.expression, fault.mode, fault.dtype, grid)
            same = [x for x in found if x.by == fault.by and x.what == fault.what and x.place == fault.place]
            if same:
                return same[0]._replace(mechanism=fault.mechanism)
        return None
