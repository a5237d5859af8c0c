"""NaN is never swallowed: every elementwise op, at NaN, infinities and signed zeros in every argument.

What is expected is the mirror's limit in the extended reals (`mirror_limits.py`), NaN where it has none, and NaN
wherever a NaN is depended upon; less the conventions that ops declare (`gtape.declare.conventions`), which stand on the
conventions page. `test_special_values_of_arrays.py` has the other ops.

``GTAPE_LARGE=1`` takes all dtypes for all ops; otherwise each op has float64 and one other.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
from campaigns import LARGE, counts_the_whole_run
from mirror_limits import Limit, depends, elementwise_limit
from special_points import (
    COMPLEX,
    ELEMENTWISE,
    NO_LIMITS,
    SPECIAL,
    agrees,
    dtypes_of,
    free,
    inf,
    nan,
    plain,
    same_sign,
)

import gtape as tf
from gtape.declare.conventions import AtPoints, Convention
from gtape.declare.domains import BOOLEAN
from gtape.declare.primitives import REGISTRY, Primitive
from gtape.tensors.tensor import wrap
from gtape.verify.proofs.proof_cells import parameters

counted: dict[str, set[Any]] = {"cases": set(), "kept": set()}


def kept(conventions: Iterable[Convention], point: tuple[Any, ...], by: int | None) -> AtPoints | None:
    """The convention at a point, for the value (`by` is None) or a derivative; None without one."""
    return next((k for k in conventions if isinstance(k, AtPoints) and k.holds(point, by)), None)


def _points(prim: Primitive, specials: tuple[float, ...]) -> list[tuple[Any, ...]]:
    """Each special value in each argument, beside ordinary ones; of public ops, in each two arguments."""
    found: dict[str, tuple[Any, ...]] = {}

    def put(base: tuple[Any, ...], places: tuple[int, ...], values: tuple[float, ...]) -> None:
        point = tuple(values[places.index(i)] if i in places else v for i, v in enumerate(base))
        found[repr(point)] = point

    for base in plain(prim) if prim.public or LARGE else plain(prim)[:1]:
        for i in free(prim):
            for v in specials:
                put(base, (i,), (v,))
    if prim.public and plain(prim):
        for places in itertools.combinations(free(prim), 2):
            for values in itertools.product(specials, repeat=2):
                put(plain(prim)[0], places, values)
    return list(found.values())


def _active(prim: Primitive) -> list[int]:
    if not prim.differentiable:
        return []
    return [i for i in free(prim) if prim.connected(i)]


def _columns(prim: Primitive, points: list[tuple[Any, ...]], dtype: Any) -> list[Any]:
    intervals = prim.domain.intervals
    return [np.array([p[i] for p in points], dtype=bool if d is BOOLEAN else dtype) for i, d in enumerate(intervals)]


def _derivatives(prim: Primitive, params: dict[str, Any], columns: list[Any]) -> dict[int | None, Any]:
    """The value (under None), and the derivative by each argument, backward; forward gives the same."""
    xs = [wrap(c) for c in columns]
    active = _active(prim)
    with tf.GradientTape(persistent=True) as tape:
        for i in active:
            tape.watch(xs[i])
        y = prim(*xs, **params)
    found: dict[int | None, Any] = {None: y.numpy()}
    for i in active:
        g = tape.gradient(y, xs[i])
        if g is None:
            continue
        found[i] = np.asarray(g)
        with tf.autodiff.ForwardAccumulator(xs[i], tf.ones_like(xs[i])) as forward:
            y = prim(*xs, **params)
        pushed = np.asarray(forward.jvp(y, unconnected_gradients="zero"))
        np.testing.assert_array_equal(
            np.isnan(pushed.astype(np.float64)), np.isnan(found[i].astype(np.float64)), err_msg=f"{prim.name} forward"
        )
    return found


def _outcome(prim: Primitive, point: tuple[Any, ...], by: int | None, what: str, fine: bool) -> Iterator[str]:
    counted["cases"].add((prim.name, what))
    if fine:
        return
    row = kept(prim.conventions, point, by)
    if row is None:
        yield what
    else:
        counted["kept"].add(row)


@pytest.mark.parametrize("name", [n for n in ELEMENTWISE if n not in NO_LIMITS])
def test_infinities_and_signed_zeros_give_the_limit_of_the_mirror(name: str) -> None:
    prim = REGISTRY[name]
    wrong: list[str] = []
    for params in parameters(prim):
        points = _points(prim, SPECIAL)
        if not points:
            continue
        limits: dict[int | None, list[Limit]] = {
            by: [elementwise_limit(prim, params, p, by) for p in points] for by in (None, *_active(prim))
        }
        for dtype in dtypes_of(name):
            for by, values in _derivatives(prim, params, _columns(prim, points, dtype)).items():
                for point, limit, undefined, got in zip(points, limits[by], limits[None], values, strict=True):
                    special = [v for v in point if isinstance(v, float) and (math.isinf(v) or v == 0)]
                    g = float(got)
                    fine = agrees(g, limit, dtype, len(special) > 1)
                    # Where the op itself has no value, its derivative may be NaN, too.
                    fine = fine or (by is not None and math.isnan(undefined) and math.isnan(g))
                    if fine and by is None and prim.public:
                        fine = same_sign(g, limit)
                    what = f"{name}{params or ''}{point} {np.dtype(dtype).name} by {by}: {g}, limit {limit!r}"
                    wrong += _outcome(prim, point, by, what, fine)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_nan_reaches_all_that_depends_on_it(name: str) -> None:
    prim = REGISTRY[name]
    wrong: list[str] = []
    for params in parameters(prim):
        points = _points(prim, (nan,))
        if not points:
            continue
        by_name = name in NO_LIMITS and name.startswith("gamma_draw")
        for dtype in dtypes_of(name):
            for by, values in _derivatives(prim, params, _columns(prim, points, dtype)).items():
                for point, got in zip(points, values, strict=True):
                    where = [i for i, v in enumerate(point) if isinstance(v, float) and math.isnan(v)]
                    filled = tuple(
                        b if i in where else v for i, (v, b) in enumerate(zip(point, plain(prim)[0], strict=True))
                    )
                    expected = by_name or any(_depends(name, _key(params), filled, i, by) for i in where)
                    if not expected or values.dtype.kind == "b":
                        continue
                    what = f"{name}{params or ''}{point} {np.dtype(dtype).name} by {by}: {got}"
                    wrong += _outcome(prim, point, by, what, bool(math.isnan(float(got))))
    assert not wrong, "\n".join(wrong)


def _key(params: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(sorted(params.items()))


@cache
def _depends(name: str, params: tuple[Any, ...], point: tuple[Any, ...], on: int, by: int | None) -> bool:
    return depends(REGISTRY[name], dict(params), point, on, by)


@pytest.mark.parametrize("name", [n for n in ELEMENTWISE if n not in NO_LIMITS])
def test_scalars_do_what_arrays_do(name: str) -> None:
    """Numbers of float64 take a way of their own, through Python's floats."""
    prim = REGISTRY[name]
    for params in parameters(prim)[: None if LARGE else 1]:
        points = _points(prim, (nan, *SPECIAL))
        points = points if LARGE else points[:24]
        if not points:
            continue
        whole = _derivatives(prim, params, _columns(prim, points, np.float64))
        for k, point in enumerate(points):
            xs = [wrap(np.asarray(v)) for v in point]
            active = [i for i in _active(prim) if i in whole]
            with tf.GradientTape() as tape:
                for i in active:
                    tape.watch(xs[i])
                y = prim(*xs, **params)
            found = {None: y, **dict(zip(active, tape.gradient(y, [xs[i] for i in active]), strict=True))}
            for by, got in found.items():
                np.testing.assert_allclose(
                    float(got), float(whole[by][k]), rtol=1e-6, err_msg=f"{name}{params or ''}{point} by {by}"
                )


@pytest.mark.parametrize("value", [nan, inf, -inf])
@pytest.mark.parametrize("dtype", [tf.int8, tf.int32, tf.int64, tf.uint8, tf.bool], ids=str)
@pytest.mark.parametrize("start", [tf.float16, tf.float32, tf.float64], ids=str)
def test_casts_of_what_no_integer_holds_neither_warn_nor_raise(value: float, dtype: Any, start: Any) -> None:
    assert int(tf.cast(tf.constant([value, 1.0], start), dtype).numpy()[1]) == 1


FACTS: list[tuple[str, Callable[..., Any], tuple[float, ...], float]] = [
    ("hypot", tf.math.hypot, (inf, nan), inf),
    ("hypot", tf.math.hypot, (nan, -inf), inf),
    ("pow", tf.pow, (1.0, nan), 1.0),
    ("pow", tf.pow, (nan, 0.0), 1.0),
    ("pow", tf.pow, (nan, -0.0), 1.0),
    ("pow", tf.pow, (-1.0, inf), 1.0),
    ("pow", tf.pow, (-0.0, -3.0), -inf),
    ("pow", tf.pow, (-inf, 3.0), -inf),
    ("divide", tf.divide, (1.0, -0.0), -inf),
    ("sqrt", tf.sqrt, (-0.0,), -0.0),
    ("atan2", tf.math.atan2, (0.0, -0.0), math.pi),
    ("atan2", tf.math.atan2, (-0.0, -0.0), -math.pi),
    ("atan2", tf.math.atan2, (-0.0, 0.0), -0.0),
    ("atan2", tf.math.atan2, (inf, -inf), 3 * math.pi / 4),
    ("atan2", tf.math.atan2, (-0.0, -inf), -math.pi),
    ("multiply_no_nan", tf.math.multiply_no_nan, (nan, 0.0), 0.0),
    ("divide_no_nan", tf.math.divide_no_nan, (nan, 0.0), 0.0),
    ("xlogy", tf.math.xlogy, (0.0, inf), 0.0),
    ("relu", tf.nn.relu, (nan,), nan),
    ("maximum", tf.maximum, (nan, inf), nan),
    ("minimum", tf.minimum, (-inf, nan), nan),
    ("subtract", tf.subtract, (inf, inf), nan),
    ("multiply", tf.multiply, (0.0, inf), nan),
]


@pytest.mark.parametrize(("name", "f", "at", "expected"), FACTS, ids=lambda v: str(v) if not callable(v) else "")
def test_what_the_standards_say(name: str, f: Callable[..., Any], at: tuple[float, ...], expected: float) -> None:
    for shape in ((), (3,)):
        got = f(*[tf.fill(shape, tf.constant(v, tf.float64)) for v in at]).numpy()
        wanted = np.full(shape, expected)
        np.testing.assert_array_max_ulp(got, wanted, 1)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(wanted)) if not math.isnan(expected) else None
    if (row := kept(REGISTRY[name].conventions, at, None)) is not None:
        counted["kept"].add(row)


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_nan_is_not_swallowed_and_infinities_neither_warn_nor_raise(name: str) -> None:
    prim = REGISTRY[name]
    for dtype in (np.complex64, np.complex128) if LARGE else (np.complex128,):
        for params in parameters(prim):
            base = [v if isinstance(v, bool) else dtype(v) for v in plain(prim)[0]]
            for i in free(prim):
                for part in (nan, inf, -inf, -0.0):
                    for z in (complex(part, 0.5), complex(0.5, part)):
                        xs = [wrap(np.array([z if i == j else v])) for j, v in enumerate(base)]
                        xs = [x if x.dtype == tf.bool else tf.cast(x, dtype) for x in xs]
                        with tf.GradientTape() as tape:
                            tape.watch(xs[i])
                            y = prim(*xs, **params)
                        tape.gradient(y, xs[i])
                        counted["cases"].add((name, i, repr(z)))
                        moved = y.dtype.is_complex and _depends(name, _key(params), plain(prim)[0], i, None)
                        if math.isnan(part) and moved and name != "where":
                            assert np.isnan(y.numpy()).all(), f"{name}{params} of {xs}: {y.numpy()}"


@counts_the_whole_run
def test_every_convention_at_points_is_needed() -> None:
    stated = {c for prim in REGISTRY.values() for c in prim.conventions if isinstance(c, AtPoints)}
    assert not stated - counted["kept"]
    print(f"{len(counted['cases'])} cases, {len(ELEMENTWISE)} ops")
