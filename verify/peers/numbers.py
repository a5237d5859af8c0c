"""Judges a peer's derivatives of functions of numbers, at a grid of points, by enclosures of the exact derivatives."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from flint import arb

from gtape.symbolic.balls import digits, precision
from gtape.verify.peers.conversation import Conversation, Reply
from gtape.verify.peers.faults import Fault, extreme, mechanism
from gtape.verify.peers.functions import function
from gtape.verify.search.partials import Exact, Key, evaluator, exact_partials, keys_of, kink_allowance
from gtape.verify.search.points import points_for, steps, unsteps

__all__ = ["Grid", "called", "computes", "exact_digits", "grid_of", "judge_function", "jumps", "limits", "plainest"]

_DIGITS = 40
_SUSPECTS = 6  # wrong numbers that are examined, per mode and derivative
_ROUNDINGS = 4  # neighbours of a kink that are not judged
_MOST_BY_PARAMETERS = 120  # points of functions such as igamma, whose exact partials by parameters take long
_NOTHING = arb(2) ** -1300  # smaller than every float
_FATAL = 2  # fatal points that are found and left out, per derivative
_IMPATIENT = 3.0  # seconds to wait for a part of a grid while a fatal point is looked for


class Grid(NamedTuple):
    """Points, one column for each argument, and the exact derivatives there.

    Attributes
    ----------
    columns : list of array
    exact : dict
        Arguments of differentiation -> `Exact`.
    """

    columns: list[Any]
    exact: dict[Key, Exact]

    def kept(self, keep: Any) -> Grid:
        """The grid with only some points."""
        exact: dict[Key, Exact] = {}
        for key, e in self.exact.items():
            made = exact[key] = Exact(0)
            for part in ("high", "low", "known", "open"):
                setattr(made, part, getattr(e, part)[keep])
        return Grid([c[keep] for c in self.columns], exact)


def grid_of(name: str, dtype: str, points: int, orders: Sequence[int], seed: int = 0) -> Grid:
    """A boundary grid of a function: binades, landmarks and their neighbours, ties, saturation, zeros of both signs.

    Parameters
    ----------
    name : str
        As for `function`.
    dtype : floating dtype
    points : int
        About how many.
    orders : sequence of {1, 2}
    """
    f = function(name)
    rng = np.random.default_rng([zlib.crc32(f"{name} {dtype}".encode()), seed])
    columns = [np.asarray(c, dtype=dtype) for c in points_for(f.prim, np.dtype(dtype), points, rng)]
    plain = [np.asarray(c, dtype=dtype)[: points // 2] for c in zip(*_plain_points(f, dtype), strict=True)]
    if plain:
        columns = [np.concatenate(c) for c in zip(columns, plain, strict=True)]
    columns = [np.asarray(c) for c in np.unique(np.stack(columns), axis=1)]
    keys = [(), *[k for order in orders for k in keys_of(f, order)]]
    with np.errstate(all="ignore"):
        some = rng.permutation(len(columns[0]))
        if plain:  # these points always belong to the grid
            kept_always = {tuple(p) for p in zip(*[c.tolist() for c in plain], strict=True)}
            first = [tuple(p) in kept_always for p in zip(*[c[some].tolist() for c in columns], strict=True)]
            some = some[np.argsort(np.logical_not(first), kind="stable")]
        long = f.prim.arity > 1 and f.prim.limit > 4
        kept = np.sort(some[: min(points, _MOST_BY_PARAMETERS) if long else points])
        columns = [c[kept] for c in columns]
        found = Grid(columns, exact_partials(f, columns, keys))
    # As many points in every grid, some of them twice, because some peers compile each op for each shape.
    return found.kept(np.resize(np.arange(len(kept)), points))


def _plain_points(f: Any, dtype: str) -> list[tuple[float, ...]]:
    """Points of few digits inside the domain, because a witness reads best at one of them."""
    steps = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0, 50.0, 100.0, 1e3, 1e6, 1e10)
    sides = [s for v in steps if v <= float(np.finfo(dtype).max) for s in ((v, -v) if v else (v,))]
    if f.prim.arity > 1:
        sides = [s for s in sides if abs(s) in (0.0, 0.5, 1.0, 2.0, 30.0)]
    intervals = f.prim.domain.intervals
    return [p for p in itertools.product(sides, repeat=len(intervals)) if p in f.prim.domain]


def exact_digits(name: str, point: Sequence[float], key: Key) -> str:
    """An exact partial derivative at a point, to 40 digits."""
    evaluate = evaluator(function(name), len(key))
    text = "?"
    for bits in (320, 2560, 20480):
        with precision(bits):
            found = evaluate(tuple(float(v) for v in point), {tuple(sorted(key))}).get(tuple(sorted(key)))
            ball = arb(found) if isinstance(found, int) else found
            if ball is not None and ball.is_finite() and ball.contains(0) and abs(ball) < _NOTHING:
                return "0"
            if ball is not None and ball.is_finite() and (ball == 0 or ball.rel_accuracy_bits() > 3.4 * _DIGITS):
                return str(digits(ball, _DIGITS))
    return text


def called(mode: Sequence[str], f: str, by: Sequence[int], batched: str) -> str:
    """The expression that differentiates `f`, innermost by the first argument of `by`."""
    text, rest = f, list(by)
    for name in reversed(mode):
        text = f"{name}({text})" if name == batched else f"{name}({text}, {rest.pop(0)})"
    return text


def computes(peer: Conversation, expression: str, grid: Grid) -> bool:
    """Whether a peer computes the function itself in the dtype of a grid: some functions have no kernel for all."""
    arguments = ", ".join("xyz"[: len(grid.columns)])
    program = f"f = lambda {arguments}: {expression}\nresult = lower(f(*map(lift, arrays)))"
    reply = peer.ask(program, [c[:1] for c in grid.columns])
    return reply.kind != "error"


def judge_function(
    peer: Conversation, name: str, expression: str, mode: Sequence[str], dtype: str, grid: Grid
) -> tuple[list[Fault], list[tuple[Key, Reply]], int, Grid]:
    """Judge one mode of a peer's function on a grid.

    Returns
    -------
    list of Fault
    list of (tuple of int, Reply)
        Errors, which may be refusals, and the arguments of differentiation.
    int
        The number of judged numbers.
    Grid
        The grid without the points at which the peer crashes or hangs, for the other modes.
    """
    f = function(name)
    library = peer.library
    order = len(mode) - (library.batched in mode)
    faults: list[Fault] = []
    errors: list[tuple[Key, Reply]] = []
    judged = 0
    arguments = ", ".join("xyz"[: f.prim.arity])
    for key in (k for k in keys_of(f, order) if list(k) == sorted(k)):
        text = called(mode, "f", key, library.batched)
        program = f"f = lambda {arguments}: {expression}\nresult = lower({text}(*map(lift, arrays)))"
        whole = Fault(library.name, name, expression, tuple(mode), key, dtype, "", "", (), (), "", "", "")
        reply = peer.ask(program, grid.columns)
        for _ in range(_FATAL):
            if reply.kind not in ("crash", "hang"):
                break
            at = _fatal(peer, program, grid.columns)
            point = tuple(c[at] for c in grid.columns)
            faults.append(
                whole._replace(
                    what=reply.kind, place="elsewhere", arguments=point, got=f"the process {reply.text}",
                    exact=exact_digits(name, [float(v) for v in point], key), why="the derivative exists",
                )
            )  # fmt: skip
            grid = grid.kept(_short_of(grid.columns, at))
            reply = peer.ask(program, grid.columns)
        if reply.kind != "array":
            errors.append((key, reply))
            continue
        got = np.asarray(reply.array)
        if got.shape != grid.columns[0].shape:
            told = f"shape {got.shape} for {grid.columns[0].shape}"
            errors.append((key, Reply("error", text=told, name="Shape")))
            continue
        exact = grid.exact[key]
        judged += int((exact.known & _far_from_limits(grid.columns, dtype)).sum())
        faults += _faults(f, whole, grid.columns, exact, got.astype(np.float64), grid)
    return faults, errors, judged, grid


def _fatal(peer: Conversation, program: str, columns: list[Any]) -> int:
    """The index of the point of smallest first argument at which a program crashes or hangs, found by halving."""
    order = np.argsort(np.abs(columns[0].astype(np.float64)), kind="stable")
    low, high = 0, len(order)  # the first `low` points are harmless, the first `high` are not
    patience, peer.patience = peer.patience, min(peer.patience, _IMPATIENT)
    while high - low > 1:
        middle = (low + high) // 2
        reply = peer.ask(program, [c[order[low:middle]] for c in columns])
        low, high = (low, middle) if reply.kind in ("crash", "hang") else (middle, high)
    peer.patience = patience
    return int(order[low])


def _short_of(columns: list[Any], at: int) -> Any:
    """The points whose first argument has another sign or a smaller size than that of the fatal point."""
    x = columns[0].astype(np.float64)
    keep = (np.signbit(x) != np.signbit(x[at])) | (np.abs(x) < np.abs(x[at]) / 64)
    keep[at] = False
    return keep


def _faults(f: Any, whole: Fault, columns: list[Any], exact: Exact, got: Any, grid: Grid) -> list[Fault]:
    dtype = np.dtype(whole.dtype)
    key = whole.by
    with np.errstate(all="ignore"):
        sizes = [np.where(e.known & np.isfinite(e.high), np.abs(e.high), 0.0) for e in grid.exact.values()]
        judged = exact.known & ~_beside_kinks(f, columns, dtype) & _far_from_limits(columns, dtype)
        # Where the function itself is beyond the dtype, its derivative is not judged.
        judged &= ~(np.abs(grid.exact[()].high) > float(np.finfo(dtype).max))
        bad = judged & _suspects(exact, got, dtype, np.max(sizes, axis=0))
    chosen = np.flatnonzero(bad)
    if not len(chosen):
        return []
    # The simplest points of each kind of fault and place first, because only some are examined.
    labels = [_what(got[i], exact.high[i]) for i in chosen]
    places = [_place(f, [c[i] for c in columns], dtype) for i in chosen]
    judged &= ~_on_kink(f, columns)
    mechanisms = _mechanisms(columns, judged, dict(zip(chosen.tolist(), labels, strict=True)), dtype)
    groups: dict[tuple[str, str], list[int]] = {}
    for i, what, place in zip(chosen.tolist(), labels, places, strict=True):
        groups.setdefault((what, place), []).append(i)
    found = []
    for (what, place), members in groups.items():
        members.sort(key=lambda i: _simplicity([c[i] for c in columns]))
        some = np.array(members[:_SUSPECTS])
        there = [c[some] for c in columns]
        excused = kink_allowance(f, there, key, got[some], dtype)
        high = exact.high[some]
        moved = _moved(f, there, key, dtype)
        with np.errstate(all="ignore"):
            doubtful = (np.abs(got[some] - high) <= 16 * moved) | (moved > _badly(dtype) * np.abs(high))
            relative = moved / np.abs(high)
        if what != "nan":
            # Infinity of the right sign is excused, too, because the next number may be a pole.
            excused |= doubtful & (np.isfinite(got[some]) | (np.sign(got[some]) == np.sign(high)))
        kink = _at_kink(f, there, key, dtype)
        if len(key) > 1:  # no second derivative exists where it jumps, or where the first derivative jumps
            excused |= jumps(f, there, key, dtype)
            for m in set(key):
                excused |= _at_kink(f, there, (m,), dtype)
        for j, i in enumerate(some):
            if excused[j]:
                continue
            point = tuple(c[i] for c in columns)
            if exact_digits(f.prim.name, [float(v) for v in point], key) == "?":
                continue
            found.append(
                whole._replace(
                    what="kink" if kink[j] else what, place=place, arguments=point, got=float(got[i]),
                    exact=exact_digits(f.prim.name, [float(v) for v in point], key),
                    why="the one-sided derivatives enclose other numbers" if kink[j] else _exists(relative[j], dtype),
                    mechanism="" if kink[j] else mechanisms[i],
                )
            )  # fmt: skip
    return found


def _mechanisms(columns: list[Any], judged: Any, labels: dict[int, str], dtype: Any) -> dict[int, str]:
    """The mechanism of each wrong number, from the kinds of all wrong ones.

    Wrong numbers belong together if they are neighbours among the judged ones. Points of several arguments have no
    neighbours, so points with a mechanism in common belong together. A tail that is lost up to a point counts as lost
    beyond the point, although some numbers there are right by chance.
    """
    far = np.any([extreme(c, dtype) for c in columns], axis=0)
    x = columns[0].astype(np.float64)
    runs: dict[Any, list[int]] = {}
    right = 0
    for i in np.argsort(x, kind="stable").tolist():
        if judged[i] and i not in labels:
            right += 1
        elif judged[i]:
            runs.setdefault(right if len(columns) == 1 else mechanism([labels[i]], False), []).append(i)
    found = {i: mechanism([what], bool(far[i])) for i, what in labels.items()}
    lost = set()
    for members in runs.values():
        name = mechanism([labels[i] for i in members], bool(far[members].all()))
        found.update(dict.fromkeys(members, name))
        if name == "lost":
            lost |= {_side(x[i]) for i in members}
    for members in runs.values():
        kind = mechanism([labels[i] for i in members], False)
        if kind == "lost" and {_side(x[i]) for i in members} <= lost:
            found.update(dict.fromkeys(members, kind))
    return found


def _side(x: float) -> tuple[bool, bool]:
    """The sign of a number, and whether it is larger than 1."""
    return x < 0, abs(x) > 1


def _suspects(exact: Exact, got: Any, dtype: Any, scale: Any) -> Any:
    """The numbers that differ by more than half of the digits, except by underflow and overflow.

    An exact 0 has no digits, so numbers near it are compared with `scale`, the largest of value and derivatives. NaN
    for an exact number near 0 differs, because the terms of a good formula underflow to 0.
    """
    least, most = limits(dtype)
    half = float(np.sqrt(np.finfo(dtype).eps))
    size = np.abs(exact.high)
    off = np.abs(got - exact.high)
    near = (off <= half * np.where(size > 0, size, scale)) | (off <= least)
    # Beyond the limit, infinity and large numbers of the right sign pass.
    large = (size > most) & ((np.abs(got) > most / 4) & (np.sign(got) == np.sign(exact.high)) | np.isnan(got))
    return exact.known & ~near & ~large


def limits(dtype: Any) -> tuple[float, float]:
    """The least and the largest size of numbers that are judged.

    The limits lie inside the normal numbers by a factor of one rounding, because the terms of a formula may be smaller
    or larger than its result by this factor, and so leave the dtype.

    Examples
    --------
    >>> limits("float32")
    (9.860761315262648e-32, 4.05648167894517e+31)
    """
    info = np.finfo(dtype)
    return float(info.tiny) / float(info.eps), float(info.max) * float(info.eps)


def _far_from_limits(columns: Sequence[Any], dtype: Any) -> Any:
    """The points whose arguments are 0 or far from the limits; libraries may take subnormal numbers for 0."""
    least, most = limits(dtype)
    sizes = np.abs(np.stack(columns).astype(np.float64))
    return np.all((sizes == 0) | (least <= sizes) & (sizes <= most), axis=0)


def plainest(grid: Grid, key: Key, dtype: Any) -> int | None:
    """The index of the simplest point at which the derivative is judged; None without such a point."""
    least, most = limits(dtype)
    size = np.abs(grid.exact[key].high)
    judged = grid.exact[key].known & _far_from_limits(grid.columns, dtype)
    found = np.flatnonzero(judged & ((size == 0) | (least <= size) & (size <= most)))
    return min(found.tolist(), key=lambda i: _simplicity([c[i] for c in grid.columns]), default=None)


def _beside_kinks(f: Any, columns: list[Any], dtype: Any) -> Any:
    """The points a few roundings away from a kink, where a rounding leads across it."""
    found = np.zeros(len(columns[0]), np.bool_)
    for kink in (k for k in f.prim.kinks if isinstance(k, (int, float))):
        for c in columns:
            away = np.abs(steps(c, dtype) - steps(np.array(kink), dtype))
            found |= (away > 0) & (away <= _ROUNDINGS)
    return found


def _what(got: Any, exact: Any) -> str:
    if np.isnan(got):
        return "nan"
    if np.isinf(got):
        return "infinite"
    if got == 0:
        return "zero"
    if exact != 0 and np.sign(got) != np.sign(exact):
        return "opposite"
    if exact == 0 or not 2.0**-3 <= abs(float(got) / float(exact)) <= 2.0**3:
        return "wrong"
    return "digits"


def _simplicity(point: Sequence[Any]) -> tuple[int, float]:
    return sum(len(repr(float(v))) for v in point), sum(abs(float(v)) for v in point)


def _place(f: Any, point: Sequence[Any], dtype: Any) -> str:
    """Where a point lies: at or beside points of interest, at ties, or elsewhere."""
    at, beside = [], []
    for i, v in enumerate(map(float, point)):
        name = "xyz"[i]
        near = min(_marks(f, i, dtype), key=lambda m: abs(v - m))
        if v == near:
            at.append(f"{name} = {near + 0.0:g}")
        elif abs(v - near) <= 2.0**-6 * (abs(near) or 1.0):
            beside.append(f"{name} beside {near + 0.0:g}")
    if at:
        return ", ".join(at)
    if len(point) > 1:
        return "a tie" if point[0] == point[1] else "elsewhere"
    return ", ".join(beside) or "elsewhere"


def _marks(f: Any, i: int, dtype: Any) -> list[float]:
    """Zero, the kinks, and the ends and holes of the interval of an argument."""
    interval = f.prim.domain.intervals[i]
    marks = [p for p in (*f.prim.kinks, *interval.holes, interval.lo, interval.hi) if isinstance(p, (int, float))]
    return [0.0, *[float(np.dtype(dtype).type(m)) for m in marks if np.isfinite(m)]]


def _moved(f: Any, xs: list[Any], key: Key, dtype: Any) -> Any:
    """The relative moves of the derivative by roundings of the inputs."""
    size = np.zeros(len(xs[0]))
    keys = [(*key, m) for m in f.active] + [(*key, m, m) for m in f.active]
    higher = exact_partials(f, xs, keys)
    eps = float(np.finfo(dtype).eps)
    with np.errstate(all="ignore"):
        for m in f.active:
            step = np.abs(xs[m].astype(np.float64)) * eps
            # The second term counts for functions that oscillate, whose slope may be 0 at every float.
            for found, weight in ((higher[(*key, m)], step), (higher[(*key, m, m)], step * step / 2)):
                part = np.abs(found.high * weight)
                size += np.where(found.known & ~np.isnan(part), part, 0.0)
    return size


def _badly(dtype: Any) -> float:
    """The relative change of the derivative by one rounding of the input beyond which nothing is judged."""
    return max(2.0**-10, float(np.sqrt(np.finfo(dtype).eps)) / 2)


def _exists(moved: float, dtype: Any) -> str:
    """Why a derivative counts that one rounding of each input moves by this part of itself; by 0 if that is unknown."""
    if not 0 < moved <= _badly(dtype):
        return "the derivative exists"
    return f"the derivative exists, and one rounding of each input changes it by at most {moved:.1g} of itself"


def jumps(f: Any, xs: list[Any], key: Key, dtype: Any) -> Any:
    """The points of interest at which a derivative jumps: its two sides differ, and no less close to the point than far
    from it.

    Examples
    --------
    >>> slope, curvature = (0,), (0, 0)
    >>> [jumps(function("elu"), [np.zeros(1)], key, "float64").tolist() for key in (slope, curvature)]
    [[False], [True]]
    """
    marks = [0.0, *[m for m in (*f.prim.special, *f.prim.kinks) if isinstance(m, (int, float))]]
    found = np.zeros(len(xs[0]), np.bool_)
    for i, x in enumerate(xs):
        on = np.isin(x.astype(np.float64), marks)
        if not on.any():
            continue
        gaps, sizes = [], []
        for offset in (1, 64):
            sides = []
            for sign in (-1, 1):
                moved = list(xs)
                moved[i] = unsteps(steps(x, dtype) + sign * offset, dtype)
                sides.append(exact_partials(f, moved, [key])[key].high)
            with np.errstate(invalid="ignore"):
                gaps.append(np.abs(sides[0] - sides[1]))
            sizes.append(np.maximum(np.abs(sides[0]), np.abs(sides[1])))
        found |= on & (gaps[0] > 2.0**-10 * sizes[0]) & (gaps[0] >= gaps[1] / 2)
    return found


def _on_kink(f: Any, xs: list[Any]) -> Any:
    """The points on a declared kink or tie."""
    kinks = [k for k in f.prim.kinks if isinstance(k, (int, float))]
    on = np.zeros(len(xs[0]), np.bool_)
    for x in xs:
        on |= np.isin(x.astype(np.float64), kinks)
    if "x == y" in f.prim.kinks:
        on |= xs[0] == xs[1]
    if "x == y == 0" in f.prim.kinks:
        on |= (xs[0] == 0) & (xs[1] == 0)
    return on


def _at_kink(f: Any, xs: list[Any], key: Key, dtype: Any) -> Any:
    """The points on a declared kink or tie where the derivative jumps between the neighbours."""
    found = np.zeros(len(xs[0]), np.bool_)
    on = _on_kink(f, xs)
    if not f.kinked or not on.any():
        return found
    for i, x in enumerate(xs):
        sides = []
        for step in (-1, 1):
            moved = list(xs)
            moved[i] = unsteps(steps(x, dtype) + step, dtype)
            sides.append(exact_partials(f, moved, [key])[key].high)
        with np.errstate(all="ignore"):
            found |= ~(np.abs(sides[0] - sides[1]) <= 2.0**-10 * np.maximum(np.abs(sides[0]), np.abs(sides[1])))
    return found & on
