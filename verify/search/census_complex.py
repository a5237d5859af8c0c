"""The census of complex numbers: the worst error of every holomorphic derivative, in ULP of its modulus.

Points have all directions: a third of them of moderate size, a third of any size, a third close to 0, to the branch
points and to the special points of the primitive. Exact values are the mirror's own derivatives in complex balls, at a
precision that rises until the enclosure is narrow. Beside a root of a derivative the rule for roots holds: a point
passes if the exact derivative at an input moved by 2 ULP reaches what was found.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from gtape.symbolic import mirrors
from gtape.symbolic.balls import objects, precision, radius, to_double_double
from gtape.symbolic.compile import compile_balls
from gtape.symbolic.jets import multi_indices
from gtape.symbolic.mirrors.registry import COMPLEX, SCALARS
from gtape.symbolic.scalars import template
from gtape.verify.oracles.enclosures import BALLS
from gtape.verify.search.partials import LIMIT
from gtape.verify.search.rows import Row
from gtape.verify.search.subjects import Subject
from gtape.verify.verdicts.ulp import spacing, widest

__all__ = ["COMPLEX_DTYPES", "survey_complex", "takes_complex"]

COMPLEX_DTYPES = ("complex128", "complex64")
_PRECISIONS = (200, 800, 3200)


def takes_complex(subject: Subject) -> bool:
    """Whether a primitive has complex derivatives by its own rules (`where` only moves numbers)."""
    conditions = any(subject.boolean(i) for i in range(subject.prim.arity))
    return not conditions and (subject.prim.complex is True or callable(subject.prim.complex))


def _points(subject: Subject, dtype: Any, n: int, rng: np.random.Generator) -> list[np.ndarray]:
    far = 60.0 if dtype.itemsize == 8 else 300.0
    bits = int(np.finfo(dtype).nmant)
    marks = np.array([0, 1, -1, 1j, -1j, *subject.prim.special], dtype=np.complex128)
    marks = marks[np.abs(marks) < 50]
    found = []
    for _ in range(subject.prim.arity):
        turn = np.exp(1j * rng.uniform(-np.pi, np.pi, n))
        size = np.exp2(rng.uniform(-20, 6, n))
        wide = np.exp2(rng.uniform(-far, far, n))
        close = rng.choice(marks, n) + np.exp2(rng.uniform(-bits, -1, n)) * turn
        found.append(np.choose(rng.integers(0, 3, n), [size * turn, wide * turn, close]).astype(dtype))
    return found


def _exact(subject: Subject, xs: list[Any], order: int) -> dict[tuple[int, ...], tuple[Any, Any, Any]]:
    """The value and all partials up to an order: (high, low, whether the enclosure is narrow) for each."""
    name, arity = subject.prim.name, subject.prim.arity
    mirrors.load()
    made = template(COMPLEX.get(name, SCALARS[name]), arity, subject.params, "acb")
    active = tuple(range(arity))
    function = compile_balls(made.symbols, made.partials(active, order), kind="acb")
    keys = multi_indices(arity, order)
    n = len(xs[0])
    high, low = np.zeros((len(keys), n), np.complex128), np.zeros((len(keys), n), np.complex128)
    narrow = np.zeros((len(keys), n), dtype=bool)
    left = np.arange(n)
    for bits in _PRECISIONS:
        if not len(left):
            break
        with precision(bits):
            columns = [BALLS.lift(x[left]).tolist() for x in xs]
            rows = [function(*z) for z in zip(*columns, strict=True)]
            for k in range(len(keys)):
                balls = objects(np.array([BALLS.objects(r[k]).item() for r in rows], dtype=object))
                h, lo = to_double_double(balls)
                high[k, left], low[k, left] = h, lo
                narrow[k, left] = np.isfinite(h) & (radius(balls) <= np.abs(h) * 2.0**-70)
        left = np.flatnonzero(~narrow.all(axis=0))
    return {key: (high[k], low[k], narrow[k]) for k, key in enumerate(keys)}


def survey_complex(
    subject: Subject, *, orders: Sequence[int] = (1, 2), dtype: Any = "complex128", points: int = 1000, seed: int = 0
) -> list[Row]:
    """Search one primitive for its worst complex derivatives.

    Parameters
    ----------
    subject : Subject
        One that `takes_complex`.
    orders : sequence of {1, 2}
    dtype : "complex128" or "complex64"
    points : int
    seed : int

    Returns
    -------
    list of Row
        One for each partial derivative; `where` has the real and the imaginary part of every argument.
    """
    dtype = np.dtype(dtype)
    rng = np.random.default_rng([zlib.crc32(f"{subject} {dtype}".encode()), seed])
    xs = _points(subject, dtype, points, rng)
    with np.errstate(all="ignore"):
        exact = _exact(subject, xs, max(orders) + 1)
        found: list[Row] = []
        for order in orders:
            # what the tape returns are conjugates of the derivatives
            got = subject.first(xs) if order == 1 else subject.second(xs)
            for key in product(range(subject.prim.arity), repeat=order):
                g = got.get(key)
                g = np.zeros(points, dtype) if g is None else np.conjugate(np.broadcast_to(g, (points,)))
                found.append(_row(subject, key, order, dtype, xs, g, exact))
    return found


def _row(subject: Subject, key: tuple[int, ...], order: int, dtype: Any, xs: list[Any], g: Any, exact: Any) -> Row:
    high, low, narrow = exact[tuple(sorted(key))]
    largest, least = float(np.finfo(dtype).max), float(np.finfo(dtype).tiny)
    size = np.abs(high)
    held = narrow & (size < largest / 4) & (size > least)
    off = np.abs((widest(g) - high) - low)
    ulps = np.where(held, off / spacing(high, dtype), 0.0)
    ulps = np.where(held & ~np.isfinite(ulps), np.inf, ulps)
    reach = np.zeros(len(g))
    for i in range(subject.prim.arity):
        slope = np.abs(exact[tuple(sorted((*key, i)))][0])
        reach = reach + np.where(size < np.abs(widest(xs[i])) * slope / 4, 2 * spacing(xs[i], dtype) * slope, 0.0)
    roots = (ulps > LIMIT) & (off <= reach)
    judged = np.where(roots, 0.0, ulps)
    k = int(np.argmax(judged))
    where = tuple(float(v) for x in xs for v in (x[k].real, x[k].imag)) if judged[k] else ()
    return Row(
        str(subject), subject.prim.name, ",".join(map(str, key)), order, dtype.name, int(held.sum()), float(judged[k]),
        where, complex(g[k]), complex(high[k]), int(roots.sum()), float(ulps[roots].max(initial=0.0)), 0,
        int((~narrow).sum()), "correct" if judged[k] <= LIMIT else "unstable",
    )  # fmt: skip
