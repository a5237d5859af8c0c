"""The census of complex numbers: the worst error of every holomorphic derivative, in ULP of its modulus.

Points have all directions: a third of moderate size, a third of any size, a third close to 0, branch points and
special points of the primitive. Exact values are the mirror's own derivatives in enclosures, at a precision that rises
until the enclosure is narrow. Near a root of a derivative a point passes if the exact derivative at an input moved by
2 ULP reaches the returned number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gtape.symbolic import mirrors
from gtape.symbolic.balls import objects, precision, radius, to_double_double
from gtape.symbolic.compile import compile_balls
from gtape.symbolic.jets import multi_indices
from gtape.symbolic.mirrors.registry import COMPLEX, SCALARS
from gtape.symbolic.scalars import template
from gtape.verify.oracles.enclosures import BALLS
from gtape.verify.search.partials import Exact, Key
from gtape.verify.search.subjects import Subject
from gtape.verify.verdicts.ulp import spacing, widest

__all__ = [
    "COMPLEX_DTYPES", "beside_roots", "complex_distance", "complex_partials", "complex_points", "takes_complex",
]  # fmt: skip

COMPLEX_DTYPES = ("complex128", "complex64")
_PRECISIONS = (200, 800, 3200)


def takes_complex(subject: Subject) -> bool:
    """True if a primitive has complex derivatives by its own rules (`where` only moves numbers)."""
    conditions = any(subject.boolean(i) for i in range(subject.prim.arity))
    return not conditions and (subject.prim.complex is True or callable(subject.prim.complex))


def complex_points(subject: Subject, dtype: Any, n: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Points of all sizes and directions, one array per argument."""
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


def complex_partials(subject: Subject, xs: Sequence[Any], order: int, dtype: Any) -> dict[Key, Exact]:
    """The exact value and all partials up to an order; `known` where their moduli are normal numbers of the dtype."""
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
    found = {key: Exact(n) for key in keys}
    for k, exact in enumerate(found.values()):
        size = np.abs(high[k])
        exact.high, exact.low, exact.open = high[k], low[k], ~narrow[k]
        exact.known = narrow[k] & (size < float(np.finfo(dtype).max) / 4) & (size > float(np.finfo(dtype).tiny))
    return found


def complex_distance(got: Any, exact: Exact, dtype: Any) -> Any:
    """The distances of numbers from the exact ones, in ULP of the modulus; 0 where the exact number is unknown."""
    g = np.zeros(exact.high.shape) if got is None else widest(got)
    ulps = np.abs((g - exact.high) - exact.low) / spacing(exact.high, dtype)
    return np.where(exact.known, np.where(np.isfinite(ulps), ulps, np.inf), 0.0)


def beside_roots(subject: Subject, xs: Sequence[Any], key: Key, got: Any, dtype: Any) -> Any:
    """The points near a root that pass, because the derivative at inputs moved by 2 ULP reaches `got`."""
    exact = complex_partials(subject, xs, len(key) + 1, dtype)
    here = exact[tuple(sorted(key))]
    reach = np.zeros(len(xs[0]))
    for i, x in enumerate(xs):
        slope = np.abs(exact[tuple(sorted((*key, i)))].high)
        reach += np.where(np.abs(here.high) < np.abs(widest(x)) * slope / 4, 2 * spacing(x, dtype) * slope, 0.0)
    return np.abs((widest(got) - here.high) - here.low) <= reach
