"""The audit of a library: every function and case of its tables in every mode, then random programs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from gtape.verify.peers.arrays import CASES
from gtape.verify.peers.conversation import Conversation, Reply, Unusable
from gtape.verify.peers.faults import Fault
from gtape.verify.peers.findings import Cause, causes_of, same_number, witness
from gtape.verify.peers.functions import function
from gtape.verify.peers.libraries import Library, installed, library
from gtape.verify.peers.numbers import Grid, grid_of, judge_function
from gtape.verify.peers.programs import audit_programs
from gtape.verify.peers.tensors import judge_case
from gtape.verify.search.partials import exact_partials, keys_of

__all__ = ["Audit", "audit", "subjects_of"]

_POINTS = 240  # of a grid in float64, half as many in float32
_TRIES = 6  # faults of a cause that may become its witness
_SUBNORMAL = np.array([5e-324, 2.0**-1070])


class Audit(NamedTuple):
    """The result for one library.

    Attributes
    ----------
    library : str
    versions : dict
    causes : list of Cause
    judged : int
        Numbers compared with exact ones.
    refused : dict
        Expression -> the modes in which the library says that it has no derivative.
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


def subjects_of(made: Library, names: Sequence[str]) -> list[str]:
    """The functions and cases of a library, or those among the given names."""
    known = [*made.functions, *made.arrays]
    return [n for n in known if not names or n in names]


@cache
def _grid(name: str, dtype: str, orders: tuple[int, ...], points: int, seed: int) -> Grid:
    return grid_of(name, dtype, points, orders, seed)


def audit(
    name: str,
    *,
    names: Sequence[str] = (),
    modes: Sequence[str] = (),
    dtypes: Sequence[str] = ("float64", "float32"),
    seconds: float = 600.0,
    programs: int = 100,
    points: int = _POINTS,
    patience: float = 20.0,
    seed: int = 0,
    progress: Callable[[int, int, str], None] | None = None,
) -> Audit:
    """Judge one library.

    Parameters
    ----------
    name : str
    names : sequence of str, optional
        Only these functions and cases; "programs" stands for random programs.
    modes : sequence of str, optional
        Only these modes, as "forward over reverse".
    dtypes : sequence of {"float64", "float32"}
    seconds : float
        Time after which no further function begins.
    programs : int
        How many random programs.
    points : int
        Points of a grid.
    patience : float
        Seconds to wait for one reply.
    seed : int
    progress : callable, optional
        ``progress(done, total, function)``.

    Raises
    ------
    Unusable
        If the library is not installed, or cannot be imported.
    """
    made = library(name)
    if not installed(name):
        raise Unusable(f"{name} is not installed: pip install {name}, or leave it out")
    until = time.monotonic() + seconds
    work = _Work(made, modes, patience)
    with work.peer as peer:
        peer.start()
        subjects = subjects_of(made, names)
        total = len(subjects) * len(dtypes)
        done = 0
        for dtype in dtypes:
            for subject in subjects:
                if time.monotonic() > until:
                    work.skipped.append(f"{subject} ({dtype})")
                    continue
                for expression in made.expressions(subject):
                    if subject in made.functions:
                        half = points if dtype == "float64" else points // 2
                        work.numbers(subject, expression, dtype, half, seed)
                    else:
                        work.arrays(subject, expression, dtype)
                done += 1
                if progress is not None:
                    progress(done, total, f"{name} {subject}")
        if programs and (not names or "programs" in names) and made.calls:
            found, count = audit_programs(peer, programs, until, seed)
            work.faults += found
            work.judged += count
        flushing = [name] if work.flushes() else []
        proved: list[Cause] = []
        unproved: list[Cause] = []
        for cause in causes_of(work.faults, flushing, work.done):
            shown = work.shown(cause)
            (unproved if shown is None else proved).append(cause if shown is None else shown)
        return Audit(name, peer.versions, proved, work.judged, work.refused, unproved, work.skipped)


class _Work:
    """The results of one library so far."""

    def __init__(self, made: Library, modes: Sequence[str], patience: float) -> None:
        self.made = made
        self.peer = Conversation(made, patience)
        self.faults: list[Fault] = []
        self.done: list[tuple[str, str, tuple[str, ...]]] = []
        self.refused: dict[str, list[str]] = {}
        self.skipped: list[str] = []
        self.judged = 0
        self.modes = [tuple(m) for m in made.modes if not modes or " over ".join(m) in modes]
        self.array_modes = [tuple(m) for m in made.array_modes if not modes or " over ".join(m) in modes]

    def orders(self) -> tuple[int, ...]:
        return tuple(sorted({len(m) - (self.made.batched in m) for m in self.modes}))

    def refusal(self, reply: Reply) -> bool:
        """Whether an error says plainly that a derivative is not provided."""
        told = f"{reply.name}: {reply.text}"
        return reply.name == "NotImplementedError" or any(piece in told for piece in self.made.refusals)

    def numbers(self, subject: str, expression: str, dtype: str, points: int, seed: int) -> None:
        grid = _grid(subject, dtype, self.orders(), points, seed)
        for mode in self.modes:
            faults, errors, count, grid = judge_function(self.peer, subject, expression, mode, dtype, grid)
            self.faults += faults
            self.judged += count
            if not errors:
                self.done.append((self.made.name, expression, mode))
            for reply in errors:
                self.error(reply, subject, expression, mode, dtype, grid)

    def error(self, reply: Reply, subject: str, expression: str, mode: tuple[str, ...], dtype: str, grid: Grid) -> None:
        if self.refusal(reply):
            told = self.refused.setdefault(expression, [])
            if " over ".join(mode) not in told:
                told.append(" over ".join(mode))
            return
        order = len(mode) - (self.made.batched in mode)
        key = keys_of(function(subject), order)[0]
        at = int(np.argmax(grid.exact[key].known))
        point = tuple(c[at] for c in grid.columns)
        self.faults.append(
            Fault(
                self.made.name, subject, expression, mode, key, dtype, "raises", "elsewhere", point, (),
                f"{reply.name}: {reply.text}", repr(float(grid.exact[key].high[at])), "the derivative exists",
            )
        )  # fmt: skip

    def arrays(self, subject: str, expression: str, dtype: str) -> None:
        for mode in self.array_modes:
            faults, errors, count = judge_case(self.peer, subject, expression, mode, dtype)
            self.judged += count
            refusals = [e for e in errors if self.refusal(e)]
            if refusals:
                told = self.refused.setdefault(expression, [])
                if " over ".join(mode) not in told:
                    told.append(" over ".join(mode))
            self.faults += [f for f in faults if f.what != "raises" or not refusals]
            if not errors:
                self.done.append((self.made.name, expression, mode))

    def flushes(self) -> bool:
        """Whether the library takes subnormal numbers for 0."""
        reply = self.peer.ask("result = lower(lift(arrays[0]) * lift(arrays[1]))", [_SUBNORMAL, np.ones(2)])
        return reply.kind == "array" and not np.asarray(reply.array).any()

    def shown(self, cause: Cause) -> Cause | None:
        """The cause with a witness that shows the fault again, at a rounder point where possible."""
        for fault in cause.faults[:_TRIES]:
            better = self.rounder(fault)
            for candidate in [fault] if better is None else [better, fault]:
                if self.again(candidate):
                    rest = [f for f in cause.faults if f is not fault]
                    return cause._replace(faults=[candidate, *rest], source=witness(self.made, candidate))
        return None

    def again(self, fault: Fault) -> bool:
        """Whether the witness of a fault returns the same number in a fresh run."""
        reply = self.peer.ask(witness(self.made, fault, result=True), [])
        if reply.kind in ("crash", "hang"):
            return fault.what == reply.kind
        if reply.kind == "error":
            return fault.what == "raises"
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
        if fault.subject not in self.made.functions or fault.what in ("crash", "hang", "raises", "subnormal"):
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
                return same[0]
        return None
