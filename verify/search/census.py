"""The census: the worst error of every elementwise derivative, at first and second order, found by search.

Points come from every binade, the neighbours of special points and kinks, and the surroundings of the worst points so
far. The census compares the tape's derivatives there with the exact ones, in units in the last place of the exact ones.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, as_completed
from typing import Any

import numpy as np

from gtape.base.shown import shown
from gtape.tensors.argument_checks import dtype as dtype_of
from gtape.tensors.argument_checks import each, function, whole
from gtape.verify.search.census_complex import (
    COMPLEX_DTYPES,
    beside_roots,
    complex_distance,
    complex_partials,
    complex_points,
    takes_complex,
)
from gtape.verify.search.interrupts import Interrupts
from gtape.verify.search.partials import (
    LIMIT,
    Exact,
    Key,
    distance,
    exact_partials,
    keys_of,
    kink_allowance,
    limit_of,
    root_allowance,
)
from gtape.verify.search.points import climb, points_for
from gtape.verify.search.pools import Harvest, run_all
from gtape.verify.search.rows import MOST_POINTS, Row
from gtape.verify.search.subjects import Subject, subject_of, subjects

__all__ = ["LIMIT", "Row", "census", "rows_of", "search", "survey"]


def __dir__() -> list[str]:
    return sorted(__all__)


_ROUNDS = 5  # of targeted search, at most
_LEAST = 2  # points around the worst points of each derivative in a round, even if that is more than a sixth
_CHUNK = 100  # number of suspects judged together


class _Real:
    """A search among real numbers, with a sixth of the points around the worst points so far."""

    dtypes = ("float64", "float32")
    number: Any = float
    rules: tuple[Any, ...] = (("at_kinks", kink_allowance), ("at_roots", root_allowance))
    distance = staticmethod(distance)
    targeted = 6

    def points(self, subject: Subject, dtype: Any, n: int, rng: np.random.Generator) -> list[Any]:
        return points_for(subject.prim, dtype, n, rng)

    def arguments(self, subject: Subject, xs: list[Any], dtype: Any) -> list[Any]:
        return list(subject.arguments(xs, dtype))

    def returned(self, g: Any) -> Any:
        """The derivative from the gradient that a tape returns."""
        return g

    def exact(self, subject: Subject, xs: list[Any], keys: list[Key], dtype: Any) -> dict[Key, Exact]:
        return exact_partials(subject, xs, keys)

    def parts(self, v: Any) -> list[float]:
        """The parts of a number for a row."""
        return [float(v)]


class _Complex(_Real):
    """A search among complex numbers, without points around the worst points."""

    dtypes = COMPLEX_DTYPES
    number = complex
    rules = (("at_roots", beside_roots),)
    distance = staticmethod(complex_distance)
    targeted = 0

    def points(self, subject: Subject, dtype: Any, n: int, rng: np.random.Generator) -> list[Any]:
        return complex_points(subject, dtype, n, rng)

    def arguments(self, subject: Subject, xs: list[Any], dtype: Any) -> list[Any]:
        return xs

    def returned(self, g: Any) -> Any:
        return None if g is None else np.conjugate(g)

    def exact(self, subject: Subject, xs: list[Any], keys: list[Key], dtype: Any) -> dict[Key, Exact]:
        found = complex_partials(subject, xs, max(map(len, keys)), dtype)
        return {k: found[tuple(sorted(k))] for k in keys}

    def parts(self, v: Any) -> list[float]:
        return [float(v.real), float(v.imag)]


class _Tally:
    """The results for one partial derivative so far."""

    def __init__(self, field: _Real) -> None:
        self.field = field
        self.points = self.at_roots = self.at_kinks = self.open = 0
        self.worst = self.worst_at_roots = 0.0
        self.where: tuple[float, ...] = ()
        self.got = self.exact = math.nan
        self.best: list[Any] = []
        self.score: Any = np.zeros(0)

    def take(self, subject: Subject, xs: list[Any], key: Key, got: Any, exact: Any, dtype: Any) -> None:
        """Judge a batch of points and keep the worst ones as centres of further search."""
        score = self.field.distance(got, exact, dtype)
        self.points += int(exact.known.sum())
        self.open += int(exact.open.sum())
        self._excuse(subject, xs, key, got, score, dtype)
        if len(score):
            i = int(np.argmax(score))
            if score[i] > self.worst or not self.where:
                self.worst = float(score[i])
                self.where = tuple(part for x in xs for part in self.field.parts(x[i]))
                self.got = self.field.number(0.0 if got is None else got[i])
                self.exact = self.field.number(exact.high[i])
        together = np.concatenate([self.score, score])
        columns = [np.concatenate([b, x]) for b, x in zip(self.best, xs, strict=True)] if self.best else xs
        keep = np.argsort(-together, kind="stable")[:12]
        keep = keep[together[keep] > 0]
        self.score, self.best = together[keep], [c[keep] for c in columns]

    def _excuse(self, subject: Subject, xs: list[Any], key: Key, got: Any, score: Any, dtype: Any) -> None:
        """Clear the scores that the rules for kinks and roots excuse, from the worst score down to the first that
        stays.
        """
        high = np.flatnonzero(score > limit_of(subject.prim, dtype))
        high = high[np.argsort(-score[high], kind="stable")]
        for start in range(0, len(high), _CHUNK):
            chunk = high[start : start + _CHUNK]
            for count, rule in self.field.rules:
                value = None if got is None else got[chunk]
                passes = rule(subject, [x[chunk] for x in xs], key, value, dtype)
                at, chunk = chunk[passes], chunk[~passes]
                setattr(self, count, getattr(self, count) + len(at))
                if count == "at_roots" and len(at):
                    self.worst_at_roots = max(self.worst_at_roots, float(score[at].max()))
                score[at] = 0.0
            if len(chunk):  # the remaining scores are lower, and need no judgement
                score[high[start + _CHUNK :]] = 0.0
                return

    def row(self, subject: Subject, key: Key, dtype: Any) -> Row:
        return Row(
            str(subject), subject.prim.name, ",".join(map(str, key)), len(key), np.dtype(dtype).name,
            self.points, self.worst, self.where, self.got, self.exact, self.at_roots, self.worst_at_roots,
            self.at_kinks, self.open, "correct" if self.worst <= limit_of(subject.prim, dtype) else "unstable",
        )  # fmt: skip


_REAL, _COMPLEX = _Real(), _Complex()
_FIELDS = {name: field for field in (_REAL, _COMPLEX) for name in field.dtypes}
DTYPES = tuple(_FIELDS)


def survey(
    subject: Subject, *, orders: Sequence[int] = (1, 2), dtype: Any = "float64", points: int = 10_000, seed: int = 0
) -> list[Row]:
    """Search one primitive for its worst derivatives.

    Parameters
    ----------
    subject : Subject
    orders : sequence of {1, 2}
    dtype : "float64" or "float32"; "complex128" or "complex64" for a primitive that takes complex numbers
    points : int
    seed : int

    Returns
    -------
    list of Row
        One for each partial derivative.

    Raises
    ------
    TypeError
        For an argument that is not a `Subject`.
    ValueError
        For an unknown order or dtype, or a number of points below 1.

    Examples
    --------
    >>> from gtape.verify.search.census import survey
    >>> from gtape.verify.search.subjects import subjects
    >>> [row.verdict for row in survey(subjects(["square"])[0], points=100)]
    ['correct', 'correct']
    """
    if not isinstance(subject, Subject):
        raise TypeError(
            f"survey: `subject` must be one of gtape.verify.search.subjects.subjects(), not {shown(subject)}"
        )
    dtype, points = dtype_of("survey", dtype), whole("survey", "points", points, least=1, most=MOST_POINTS)
    orders = [whole("survey", "orders", order, least=1) for order in each("survey", "orders", orders)]
    field = _FIELDS.get(dtype.name)
    if field is None or max(orders, default=3) > 2 or (field is _COMPLEX and not takes_complex(subject)):
        known = " and ".join(d for d in _FIELDS if _FIELDS[d] is _REAL or takes_complex(subject))
        raise ValueError(f"survey takes {known} and the orders 1 and 2 of {subject}, not {dtype} and {orders}")
    seed = whole("survey", "seed", seed, least=0, most=math.inf)
    rng = np.random.default_rng([zlib.crc32(f"{subject} {dtype}".encode()), seed])
    keys = {order: keys_of(subject, order) for order in orders}
    tallies = {k: _Tally(field) for ks in keys.values() for k in ks}

    def judge(xs: list[Any]) -> None:
        if not len(xs[0]):
            return
        arguments = field.arguments(subject, xs, dtype)
        got: dict[Key, Any] = {}
        for order in orders:
            got |= subject.first(arguments) if order == 1 else subject.second(arguments)
        exact = field.exact(subject, arguments, list(tallies), dtype)
        for k, tally in tallies.items():
            tally.take(subject, arguments, k, field.returned(got[k]), exact[k], dtype)

    targeted = points // field.targeted if field.targeted else 0
    # A round runs every derivative once more, which takes long for some kernels, so few points make few rounds.
    rounds = min(_ROUNDS, max(targeted // len(tallies), 1)) if targeted else 0
    with np.errstate(all="ignore"):
        judge(field.points(subject, dtype, points - targeted, rng))
        for _ in range(rounds):
            found = [t.best for t in tallies.values() if t.best and len(t.best[0])]
            if not found:
                break
            share = max(targeted // rounds // len(found), _LEAST)
            moves = [climb(subject.prim, best, dtype, share, rng) for best in found]
            judge([np.concatenate(c) for c in zip(*moves, strict=True)])
    return [t.row(subject, k, dtype) for k, t in tallies.items()]


def _task(name: str, params: dict[str, Any], orders: Sequence[int], dtype: str, points: int, seed: int) -> list[Row]:
    return survey(subject_of(name, params), orders=orders, dtype=dtype, points=points, seed=seed)


def census(
    names: Sequence[str] | None = None,
    orders: Sequence[int] = (1, 2),
    dtypes: Sequence[str] = ("float64",),
    points: int = 10_000,
    progress: Callable[[int, int, str], None] | None = None,
    *,
    executor: Executor | None = None,
    processes: int = 1,
    seed: int = 0,
) -> list[Row]:
    """The worst error of every elementwise derivative, found by search.

    Parameters
    ----------
    names : sequence of str, optional
        Registered names of differentiable elementwise primitives; all of them by default.
    orders : sequence of {1, 2}
    dtypes : sequence of {"float64", "float32", "complex128", "complex64"}
        Complex dtypes search only the primitives that take complex numbers.
    points : int
        For each primitive and dtype; 100 to 10,000,000.
    progress : callable, optional
        Called as ``progress(done, total, op)``.
    executor : concurrent.futures.Executor, optional
        Runs the tasks; tasks and rows can be pickled.
    processes : int
        Number of processes without an executor; 1 uses this process only.
    seed : int
        Selects the random points.

    Returns
    -------
    list of Row
        In the order of declaration.

    Raises
    ------
    ValueError
        For an unknown name, order or dtype, or too few points.
    WorkerDied
        If a task ended three processes, such as by lack of memory; a RuntimeError.

    Examples
    --------
    >>> rows = census(["multiply"], points=200)
    >>> max(r.worst_ulp for r in rows)
    0.0
    """
    tasks, labels = _plan(names, orders, dtypes, points, seed)
    if executor is None:
        harvest = run_all(_task, tasks, labels, processes=processes, progress=_by_op(progress))
        harvest.check()
        return rows_of(harvest)
    found: dict[int, list[Row]] = {}
    for done, (i, rows) in enumerate(_spread(executor, tasks), 1):
        found[i] = rows
        if progress is not None:
            progress(done, len(tasks), _op(labels[i]))
    return [row for i in sorted(found) for row in found[i]]


def search(
    names: Sequence[str] | None = None,
    orders: Sequence[int] = (1, 2),
    dtypes: Sequence[str] = ("float64",),
    points: int = 10_000,
    progress: Callable[[int, int, str], None] | None = None,
    *,
    processes: int = 1,
    seed: int = 0,
    interrupts: Interrupts | None = None,
) -> Harvest:
    """Run the census for a command that may be interrupted, and keep the outcome of each task.

    Parameters
    ----------
    names, orders, dtypes, points, progress, processes, seed
        As for `census`.
    interrupts : Interrupts, optional
        The handler of signals.

    Returns
    -------
    Harvest
        `rows_of` returns its rows.

    Raises
    ------
    ValueError
        As for `census`.

    Examples
    --------
    >>> from gtape.verify.search.census import search
    >>> search(["square"], orders=(1,), points=100).partial
    False
    """
    tasks, labels = _plan(names, orders, dtypes, points, seed)
    return run_all(_task, tasks, labels, processes=processes, progress=_by_op(progress), interrupts=interrupts)


def rows_of(harvest: Harvest) -> list[Row]:
    """The rows of a search, in the order of declaration.

    Parameters
    ----------
    harvest : Harvest
        The result of `search`.

    Returns
    -------
    list of Row

    Raises
    ------
    TypeError
        For anything else.

    Examples
    --------
    >>> from gtape.verify.search.census import rows_of, search
    >>> [r.verdict for r in rows_of(search(["square"], orders=(1,), points=100))]
    ['correct']
    """
    if not isinstance(harvest, Harvest):
        raise TypeError(f"rows_of takes the result of `search`, not {shown(harvest)}")
    return [row for rows in harvest.results() for row in rows]


def _by_op(progress: Callable[[int, int, str], None] | None) -> Callable[[int, int, str], None] | None:
    if progress is None:
        return None
    say = function("census", "progress", progress)
    return lambda done, total, label: say(done, total, _op(label))


def _op(label: str) -> str:
    return label.rsplit(", ", 1)[0]


def _plan(
    names: Sequence[str] | None, orders: Sequence[int], dtypes: Sequence[str], points: int, seed: int
) -> tuple[list[tuple[Any, ...]], list[str]]:
    """The tasks and their labels."""
    if isinstance(names, str):
        raise ValueError(f"names is a sequence of names; write [{shown(names)}]")
    points = whole("census", "points", points, least=100, most=MOST_POINTS)
    asked = each("census", "orders", orders, "a list of the orders 1 and 2")
    if not asked or not all(isinstance(order, int) and order in (1, 2) for order in asked):
        raise ValueError(f"orders holds 1 and 2, got {shown(orders)}")
    wrong = [d for d in each("census", "dtypes", dtypes) if not isinstance(d, str) or d not in _FIELDS]
    if wrong:
        raise ValueError(f"dtypes holds {' and '.join(_FIELDS)}, got {shown(wrong[0])}")
    whole("census", "seed", seed, least=0, most=math.inf)
    chosen = [(s, d) for s in subjects(names) for d in dtypes if d not in COMPLEX_DTYPES or takes_complex(s)]
    tasks = [(s.prim.name, s.params, tuple(orders), d, points, seed) for s, d in chosen]
    return tasks, [f"{s}, {d}" for s, d in chosen]


def _spread(executor: Executor, tasks: list[Any]) -> Iterable[tuple[int, list[Row]]]:
    if not callable(getattr(executor, "submit", None)):
        raise TypeError(f"census: `executor` must be a concurrent.futures.Executor, not {shown(executor)}")
    futures = {executor.submit(_task, *t): i for i, t in enumerate(tasks)}
    for f in as_completed(futures):
        yield futures[f], f.result()
