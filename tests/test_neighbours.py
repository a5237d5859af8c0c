"""The bits of an element depend on this element alone, not on what else is in the array.

Compiled functions compute long arrays in blocks, and users take arrays apart. So every elementwise primitive, and the
derivatives of public ones, are computed for ordinary numbers alone, beside special numbers, and one by one.

``GTAPE_LARGE=1`` takes all parameters; otherwise each op has its first two.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from campaigns import LARGE
from hypothesis import given, settings
from hypothesis import strategies as st
from special_points import ELEMENTWISE, free

import gtape as tf
from gtape.declare.domains import BOOLEAN, Interval
from gtape.declare.primitives import REGISTRY, Primitive
from gtape.kernels.random_gamma import _integrals
from gtape.tapes.ufuncs import keeps_bits_anywhere
from gtape.tensors.tensor import wrap
from gtape.verify.proofs.proof_cells import parameters

FEW = 24  # ordinary points
SPECIAL = (0.0, 1.0, 5e-324, 1e-300, 1e-160, 1e-30, 40.0, 800.0, 3e7, 1e160, 1e300, math.inf)
# Their kernels sum long series or integrals, for which few points have to do.
SLOW = {"beta_density_derivative", "betainc", "betainc_order_derivative", "igamma_order_derivative"}


def _number(rng: np.random.Generator, interval: Interval) -> float:
    """An ordinary number of an interval."""
    x = float(rng.normal() * rng.choice([0.3, 1.0, 4.0]))
    if math.isfinite(interval.lo) and math.isfinite(interval.hi):
        return interval.lo + (interval.hi - interval.lo) * float(rng.uniform(0.05, 0.95))
    if math.isfinite(interval.lo):
        return interval.lo + abs(x)
    return interval.hi - abs(x) if math.isfinite(interval.hi) else x


def _ordinary(prim: Primitive, dtype: Any, count: int) -> list[Any]:
    """Columns of ordinary points of the domain."""
    rng = np.random.default_rng(zlib.crc32(prim.name.encode()))
    where = prim.domain.where or (lambda *_: True)
    rows: list[tuple[Any, ...]] = []
    for _ in range(100 * count):
        row = tuple(
            bool(rng.integers(2)) if d is BOOLEAN else float(rng.integers(1, 5)) if d.whole else _number(rng, d)
            for d in prim.domain.intervals
        )
        if where(*row):
            rows.append(row)
        if len(rows) == count:
            break
    return [
        np.array([row[i] for row in rows], dtype=bool if d is BOOLEAN else dtype)
        for i, d in enumerate(prim.domain.intervals)
    ]


def _beside(columns: list[Any], places: list[int], specials: tuple[float, ...]) -> list[Any]:
    """The columns, and after them points with special numbers: in each argument alone, and in all of them."""
    sets = [[i] for i in places] + ([places] if len(places) > 1 else [])
    rows = [(chosen, sign * v) for chosen in sets for sign in (1.0, -1.0) for v in specials]
    with np.errstate(all="ignore"):
        return [
            np.concatenate([c, np.array([v if i in chosen else c[0] for chosen, v in rows]).astype(c.dtype)])
            for i, c in enumerate(columns)
        ]


def _functions(prim: Primitive, params: dict[str, Any]) -> Iterator[tuple[str, Callable[[list[Any]], Any]]]:
    """The kernel, and the derivatives of orders 1 and 2 of a public primitive."""
    yield prim.name, lambda xs: prim.kernel(*xs, **params)
    active = [i for i in free(prim) if prim.connected(i)] if prim.differentiable and prim.public else []

    def derivative(xs: list[Any], first: int, second: int | None) -> Any:
        ts = [wrap(x) for x in xs]
        with tf.GradientTape() as outer:
            outer.watch(ts)
            with tf.GradientTape() as tape:
                tape.watch(ts)
                y = prim(*ts, **params)
            g = tape.gradient(y, ts[first], unconnected_gradients="zero")
        if second is not None:
            g = outer.gradient(g, ts[second], unconnected_gradients="zero")
        return g.numpy()

    for i in active:
        yield f"{prim.name} by {i}", partial(derivative, first=i, second=None)
        for j in active[active.index(i) :]:
            yield f"{prim.name} by {i} and {j}", partial(derivative, first=i, second=j)


def _differ(a: Any, b: Any) -> Any:
    """Where two arrays have other bits. The sign of NaN counts for nothing."""
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype.kind != "f":
        return a != b
    bits = f"u{a.dtype.itemsize}"
    return (a.view(bits) != b.view(bits)) & ~(np.isnan(a) & np.isnan(b))


@pytest.mark.parametrize("name", [n for n in ELEMENTWISE if free(REGISTRY[n])])
def test_an_element_has_the_same_bits_beside_any_others(name: str) -> None:
    prim = REGISTRY[name]
    for params in parameters(prim) if LARGE else parameters(prim)[:2]:
        for dtype in (np.float64, np.float32):
            columns = _ordinary(prim, dtype, 6 if name in SLOW else FEW)
            with np.errstate(all="ignore"):
                for what, f in _functions(prim, params):
                    alone = np.array(f(columns))
                    if alone.shape != columns[0].shape:
                        continue  # a derivative that is one number
                    for specials in (SPECIAL, (math.nan,)):
                        made = f(_beside(columns, free(prim), specials))[: len(alone)]
                        assert not _differ(made, alone).any(), f"{what} {params} {np.dtype(dtype).name}: {specials}"
                    for k in range(0, len(alone), 5):
                        made = f([c[k : k + 1] for c in columns])
                        assert not _differ(made, alone[k : k + 1]).any(), f"{what} {params} {np.dtype(dtype).name}: {k}"


FLOATS = st.one_of(st.floats(-4, 4), st.floats(allow_nan=True, allow_infinity=True))


@pytest.mark.parametrize("op", [tf.atan2, tf.math.hypot, tf.pow], ids=["atan2", "hypot", "pow"])
@settings(max_examples=settings.default.max_examples)
@given(rows=st.lists(st.tuples(FLOATS, FLOATS), min_size=2, max_size=6))
def test_a_gradient_of_a_part_is_the_part_of_the_gradient(op: Any, rows: list[tuple[float, float]]) -> None:
    def gradients(part: slice) -> list[Any]:
        xs = [tf.constant(c[part]) for c in np.array(rows).T]
        with tf.GradientTape() as tape:
            tape.watch(xs)
            y = op(*xs)
        return [g.numpy() for g in tape.gradient(y, xs)]

    whole = gradients(slice(None))
    for k in range(len(rows)):
        for a, b in zip(whole, gradients(slice(k, k + 1)), strict=True):
            assert not _differ(a[k : k + 1], b).any()


@pytest.mark.parametrize("dtype", [np.float64, np.longdouble])
def test_the_integrals_of_a_gamma_draw_are_those_of_its_own_parameters(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    a = np.exp(rng.uniform(-1, 7, 60)).astype(dtype)
    y = a * np.exp(rng.uniform(-0.2, 0.2, 60)).astype(dtype)
    for sign in (dtype(1.0), dtype(-1.0)):
        (whole,) = _integrals(a, y, sign, 0)
        for k in range(60):
            assert whole[k] == _integrals(a[k : k + 1], y[k : k + 1], sign, 0)[0][0]


def _by_all(is_ordinary: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel with another way, one unit away, for all elements of an array that has a special one."""

    def kernel(*xs: Any) -> Any:
        y = xs[0] * xs[-1]
        return y if np.all(is_ordinary(*xs)) else np.nextafter(y, y.dtype.type(np.inf))

    return kernel


@pytest.mark.parametrize("char", ["d", "f"])
@pytest.mark.parametrize(
    ("count", "is_ordinary"),
    [
        (1, lambda x: x != 0),
        (1, np.isfinite),
        (1, lambda x: ~np.isnan(x)),
        (1, lambda x: np.abs(x) < 34),
        (1, lambda x: (x == 0) | (np.abs(x) > 10 * np.finfo(x.dtype).smallest_subnormal)),
        (2, lambda x, y: (x != 0) | (y != 0)),
        (2, lambda x, y: np.isfinite(x * x + y * y)),
        (2, lambda x, y: x * x + y * y > np.finfo(x.dtype).tiny),
        (3, lambda x, y, z: (x != 0) | (y != 0) | (z != 0)),
    ],
)
def test_blocks_take_no_kernel_that_decides_for_the_whole_array(count: int, is_ordinary: Any, char: str) -> None:
    assert not keeps_bits_anywhere(_by_all(is_ordinary), char * count)


@pytest.mark.parametrize("char", ["d", "f"])
def test_blocks_take_kernels_that_decide_for_each_element(char: str) -> None:
    assert keeps_bits_anywhere(lambda x, y: np.where(np.isfinite(x), x * y, np.sqrt(y)), char * 2)
    assert keeps_bits_anywhere(np.hypot, char * 2)
