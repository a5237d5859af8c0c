"""The census of libraries: the worst error of each derivative in ULP, found by the same search for every library.

For dtypes of 16 bits the search can try every number; for float32 it can do so in pieces, which a journal keeps.
"""

from __future__ import annotations

import json
import math
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from gtape.verify.peers.conversation import Conversation
from gtape.verify.peers.functions import function
from gtape.verify.peers.libraries import Library, library
from gtape.verify.search.partials import Exact, exact_partials
from gtape.verify.search.points import climb, points_for

__all__ = ["DTYPES", "FATAL", "Worst", "distance", "journal_rows", "measured_points", "names_of", "search"]

FATAL = {"crash": "crashes", "hang": "hangs"}
DTYPES = ("float64", "float32", "float16", "bfloat16")
_ROUNDS = 3
_PIECE = 1 << 16  # numbers that are tried together


class Worst(NamedTuple):
    """The worst error of one derivative.

    Attributes
    ----------
    library, op, dtype : str
    order : int
    points : int
        The compared numbers.
    ulp : float
        In units in the last place of the exact number; infinite for NaN and false infinities.
    where, got, exact : float
    piece : int
        The number of the piece of an exhaustive search; -1 for a search by points.
    error : str
        The reason for a missing number.
    """

    library: str
    op: str
    dtype: str
    order: int
    points: int = 0
    ulp: float = 0.0
    where: float = math.nan
    got: float = math.nan
    exact: float = math.nan
    piece: int = -1
    error: str = ""

    def worse(self, other: Worst) -> Worst:
        """The worse of two errors, with the number of points of both."""
        one = self if self.ulp >= other.ulp else other
        return one._replace(points=self.points + other.points, piece=-1, error=self.error or other.error)


def _numpy(dtype: str) -> Any:
    if dtype != "bfloat16":
        return np.dtype(dtype)
    import ml_dtypes

    return np.dtype(ml_dtypes.bfloat16)


def _format(dtype: str) -> tuple[int, int, int]:
    """Bits of the fraction, and the least and the greatest exponent."""
    return {
        "float64": (52, -1022, 1023),
        "float32": (23, -126, 127),
        "float16": (10, -14, 15),
        "bfloat16": (7, -126, 127),
    }[dtype]


def distance(got: Any, exact: Exact, dtype: str) -> Any:
    """The distances in ULP of the exact numbers; 0 where the exact numbers are unknown.

    Beyond the largest float, infinity and the largest float are right.

    Examples
    --------
    >>> import numpy as np
    >>> from gtape.verify.search.partials import Exact
    >>> e = Exact(2)
    >>> e.high[:], e.known[:] = [1.0, 1e6], True
    >>> distance(np.array([1.0009765625, np.inf]), e, "float16").tolist()
    [1.0, 0.0]
    """
    bits, least, most = _format(dtype)
    top = math.ldexp(2.0 - math.ldexp(1.0, -bits), most)
    with np.errstate(all="ignore"):
        g = np.asarray(got).astype(np.float64)
        size = np.abs(exact.high)
        _, e = np.frexp(np.minimum(size, top))
        unit = np.ldexp(1.0, np.maximum(np.where(size > 0, e - 1, least), least) - bits)
        off = np.abs((g - exact.high) - exact.low) / unit
        limit = top + math.ldexp(1.0, most - bits) / 2 if most < 1023 else top
        same = np.sign(g) == np.sign(exact.high)
        # One unit below the end of the range, infinity is as far as the next float would be.
        off = np.where(np.isinf(g) & same & (size < limit), np.maximum((limit - size) / unit + 0.5, 0.5), off)
        off = np.where((size >= limit) & same & (np.abs(g) >= top), 0.0, off)
    return np.where(exact.known, np.where(np.isnan(off), np.inf, off), 0.0)


def names_of(made: Library, wanted: Sequence[str]) -> list[str]:
    """The functions of one number that a library has, or those among the given names."""
    return [n for n in made.functions if function(n).prim.arity == 1 and (not wanted or n in wanted)]


def _pieces(dtype: str) -> int:
    return 1 if dtype in ("float16", "bfloat16") else 1 << 16


def _every(dtype: str, piece: int) -> Any:
    """All numbers of a piece, by their bits."""
    if dtype in ("float16", "bfloat16"):
        return np.arange(1 << 16, dtype=np.uint16).view(_numpy(dtype))
    return (np.arange(_PIECE, dtype=np.uint32) + np.uint32(piece * _PIECE)).view(np.float32)


@lru_cache(maxsize=2)
def _exact_everywhere(name: str, dtype: str, piece: int, orders: tuple[int, ...]) -> dict[Any, Exact]:
    with np.errstate(all="ignore"):
        x = _every(dtype, piece).astype(np.float64)  # the conversion of a signalling NaN raises a floating-point flag
        return exact_partials(function(name), [x], [(0,) * k for k in orders])


def search(
    names: Sequence[str],
    ops: Sequence[str] = (),
    *,
    orders: Sequence[int] = (1, 2),
    dtypes: Sequence[str] = ("float64",),
    points: int = 2_000,
    exhaustive: bool = False,
    journal: str | None = None,
    seed: int = 0,
    progress: Callable[[int, int, str], None] | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> list[Worst]:
    """Search for the worst errors of several libraries.

    Parameters
    ----------
    names : sequence of str
        Libraries; "gtape" is one.
    ops : sequence of str, optional
        Only these functions.
    orders : sequence of int
        From 1 to 3.
    dtypes : sequence of str
        Among `DTYPES`.
    points : int
        For each function, without `exhaustive`.
    exhaustive : bool
        Try every number; not possible for float64.
    journal : str, optional
        A file of JSON Lines that keeps finished pieces; a further call with the same file leaves them out.
    seed : int
    progress : callable, optional
        ``progress(done, total, what)``.
    stopped : callable, optional
        True ends the search.

    Returns
    -------
    list of Worst
    """
    if exhaustive and "float64" in dtypes:
        raise ValueError("float64 has too many numbers to try all of them; name float16, bfloat16 or float32")
    done = {_mark(w): w for w in journal_rows(journal)} if journal else {}
    tasks = [
        (op, dtype, piece, name)
        for dtype in dtypes
        for op in dict.fromkeys(o for n in names for o in names_of(library(n), ops))
        for piece in (range(_pieces(dtype)) if exhaustive else (-1,))
        for name in names
        if op in library(name).functions
    ]
    peers = {name: Conversation(library(name)) for name in names}
    found: dict[Any, Worst] = {}
    try:
        for k, (op, dtype, piece, name) in enumerate(tasks):
            if stopped():
                break
            marks = [(name, op, dtype, order, piece) for order in orders]
            rows = [done[m] for m in marks if m in done]
            if len(rows) < len(marks):
                rows = list(_measured(peers[name], op, dtype, piece, tuple(orders), points, seed))
                if journal:
                    _append(journal, rows)
            for row in rows:
                key = (row.library, row.op, row.dtype, row.order)
                found[key] = row.worse(found[key]) if key in found else row
            if progress is not None:
                progress(k + 1, len(tasks), f"{name} {op} {dtype}")
    finally:
        for peer in peers.values():
            peer.end()
    return list(found.values())


def _mark(w: Worst) -> tuple[Any, ...]:
    return w.library, w.op, w.dtype, w.order, w.piece


def _measured(
    peer: Conversation, op: str, dtype: str, piece: int, orders: tuple[int, ...], points: int, seed: int
) -> Iterator[Worst]:
    f = function(op)
    for order in orders:
        row = Worst(peer.library.name, op, dtype, order, piece=piece)
        if piece >= 0:
            x = _every(dtype, piece)
            yield _compared(peer, row, x, _exact_everywhere(op, dtype, piece, orders)[(0,) * order], f)[0]
            continue
        kind = np.dtype("float32" if dtype == "bfloat16" else dtype)
        rng = np.random.default_rng([zlib.crc32(f"{op} {dtype}".encode()), seed])
        x = points_for(f.prim, kind, points, rng)[0]
        for _ in range(_ROUNDS):
            x = x.astype(_numpy(dtype))
            with np.errstate(all="ignore"):
                exact = exact_partials(f, [x.astype(np.float64)], [(0,) * order])[(0,) * order]
            one, off = _compared(peer, row, x, exact, f)
            row = one.worse(row) if row.points else one
            if row.error:
                break
            best = np.argsort(-np.where(np.isfinite(off), off, 1e300), kind="stable")[:8]
            x = climb(f.prim, [x[best].astype(kind)], kind, max(points // 8, 8), rng)[0]
        yield row._replace(piece=piece)


def measured_points(peer: Conversation, op: str, dtype: str, order: int, points: int) -> tuple[Any, Any]:
    """Points of a function and the errors of a library's derivative there, in ULP."""
    f = function(op)
    kind = np.dtype("float32" if dtype == "bfloat16" else dtype)
    rng = np.random.default_rng(zlib.crc32(op.encode()))
    x = np.sort(points_for(f.prim, kind, points, rng)[0]).astype(_numpy(dtype))
    with np.errstate(all="ignore"):
        exact = exact_partials(f, [x.astype(np.float64)], [(0,) * order])[(0,) * order]
    _, off = _compared(peer, Worst(peer.library.name, op, dtype, order), x, exact, f)
    return x.astype(np.float64), off


def _compared(peer: Conversation, row: Worst, x: Any, exact: Exact, f: Any) -> tuple[Worst, Any]:
    expression = peer.library.expressions(row.op)[0]
    call = "f"
    for _ in range(row.order):
        call = f"reverse({call}, 0)"
    reply = peer.ask(f"f = lambda x: {expression}\nresult = lower({call}(*map(lift, arrays)))", [x])
    if reply.kind in FATAL:
        return row._replace(error=FATAL[reply.kind]), np.zeros(len(x))
    if reply.kind != "array" or np.shape(reply.array) != np.shape(x):
        return row._replace(error=f"{reply.name} {reply.text}".strip() or "another shape"), np.zeros(len(x))
    off = distance(reply.array, exact, row.dtype)
    kinks = [k for k in f.prim.kinks if isinstance(k, (int, float))]
    with np.errstate(all="ignore"):
        numbers = x.astype(np.float64)
    off[np.isin(numbers, np.array(kinks, dtype=_numpy(row.dtype)).astype(np.float64))] = 0.0
    at = int(np.argmax(off)) if len(off) else 0
    if not len(off):
        return row, off
    made = row._replace(
        points=row.points + int(exact.known.sum()), ulp=float(off[at]), where=float(numbers[at]),
        got=float(np.asarray(reply.array)[at]), exact=float(exact.high[at]),
    )  # fmt: skip
    return made, off


# ------------------------------------------------------------------------------------------- journal


def _append(path: str, rows: Sequence[Worst]) -> None:
    with open(path, "r+b" if os.path.exists(path) else "w+b") as old:  # remove a last line that a kill has cut off
        whole = old.read()
        old.truncate(whole.rfind(b"\n") + 1)
    with open(path, "a", encoding="utf-8") as f:
        for row in rows:
            f.write(json.dumps(row._asdict()) + "\n")
        f.flush()
        os.fsync(f.fileno())


def journal_rows(path: str) -> list[Worst]:
    """The rows of a journal, without a last line that a kill has cut off.

    Raises
    ------
    ValueError
        For a file of another kind.
    """
    found: list[Worst] = []
    if not os.path.exists(path):
        return found
    with open(path, encoding="utf-8") as f:
        lines = f.read().splitlines()
    for number, line in enumerate(lines, 1):
        try:
            found.append(Worst(**json.loads(line)))
        except (ValueError, TypeError):
            if number < len(lines):
                raise ValueError(f"{path}, line {number}: this is not a line of a census") from None
    return found
