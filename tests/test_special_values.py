"""NaN is never swallowed: every op, at NaN, infinities and signed zeros in every argument.

What is expected is the mirror's limit in the extended reals (`gtape.verify.limits`), NaN where it has none, and NaN
wherever a NaN is depended upon; less the rows of `gtape.verify.special_values`, which stand on the conventions page.

``GTAPE_LARGE=1`` takes all dtypes for all ops; otherwise each op has float64 and one other.
"""

from __future__ import annotations

import itertools
import math
import os
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape import catalogue
from gtape.domains import BOOLEAN
from gtape.primitive import REGISTRY, Primitive
from gtape.symbolic import mirrors
from gtape.tensor import wrap
from gtape.verify.limits import Limit, depends, elementwise_limit
from gtape.verify.proof_cells import parameters
from gtape.verify.special_values import KEPT, kept

catalogue.load()
mirrors.load()
inf, nan = math.inf, math.nan
LARGE = bool(os.environ.get("GTAPE_LARGE"))
SPECIAL = (inf, -inf, 0.0, -0.0)

# Balls take minutes for these at large numbers, or know them at finite ones only: NaN is tried, infinities are not.
NO_LIMITS = {
    "beta_density_derivative", "betainc", "gamma_density_derivative", "gamma_draw", "gamma_draw_slope", "igamma",
    "igamma_order_derivative", "igammac", "polygamma", "zeta", "zeta_derivative",
}  # fmt: skip
ELEMENTWISE = [
    n for n in sorted(REGISTRY)
    if REGISTRY[n].kind == "elementwise" and not set(REGISTRY[n].domain.intervals) <= {BOOLEAN}
]  # fmt: skip
counted: dict[str, set[Any]] = {"cases": set(), "kept": set()}


def _dtypes(name: str) -> list[Any]:
    import ml_dtypes

    other = [np.float32, np.float16, ml_dtypes.bfloat16]
    return [np.float64, *(other if LARGE else [other[zlib.crc32(name.encode()) % 3]])]


def _free(prim: Primitive) -> list[int]:
    """The arguments that special values are put in."""
    return [i for i, d in enumerate(prim.domain.intervals) if d is not BOOLEAN and not d.whole]


@cache
def _plain(prim: Primitive) -> list[tuple[Any, ...]]:
    """A few ordinary points of the domain."""
    numbers = (0.75, 2.5, -1.25, 0.375, 3.0, 1.5, -3.0, 5.0)
    columns = [(True, False) if d is BOOLEAN else [v for v in numbers if v in d] for d in prim.domain.intervals]
    where = prim.domain.where or (lambda *x: True)
    points = [p for p in itertools.product(*columns) if where(*p)]
    return points[:2] + points[-1:]


def _points(prim: Primitive, specials: tuple[float, ...]) -> list[tuple[Any, ...]]:
    """Each special value in each argument, beside ordinary ones; of public ops, in each two arguments."""
    found: dict[str, tuple[Any, ...]] = {}

    def put(base: tuple[Any, ...], places: tuple[int, ...], values: tuple[float, ...]) -> None:
        point = tuple(values[places.index(i)] if i in places else v for i, v in enumerate(base))
        found[repr(point)] = point

    for base in _plain(prim):
        for i in _free(prim):
            for v in specials:
                put(base, (i,), (v,))
    if prim.public and _plain(prim):
        for places in itertools.combinations(_free(prim), 2):
            for values in itertools.product(specials, repeat=2):
                put(_plain(prim)[0], places, values)
    return list(found.values())


def _active(prim: Primitive) -> list[int]:
    if not prim.differentiable:
        return []
    return [i for i in _free(prim) if prim.connected(i)]


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


def _agrees(got: float, expected: float, dtype: Any, many: bool) -> bool:
    if math.isnan(expected) or math.isnan(got):
        return math.isnan(expected) and math.isnan(got)
    import ml_dtypes

    f = ml_dtypes.finfo(dtype)
    top = float(f.max)
    if abs(expected) >= top * 0.99:
        return abs(got) >= top * 0.98 and (got > 0) == (expected > 0)
    if math.isinf(got):
        return False
    relative = max(1e-4 if many else 1e-8, 64 * float(f.eps))
    return abs(got - expected) <= relative * abs(expected) + 8 * float(f.smallest_subnormal)


def _same_sign(got: float, expected: Limit) -> bool:
    return not expected.signed or expected != 0 or got != 0 or math.copysign(1, got) == math.copysign(1, expected)


def _outcome(prim: Primitive, point: tuple[Any, ...], by: int | None, what: str, fine: bool) -> Iterator[str]:
    counted["cases"].add((prim.name, what))
    if fine:
        return
    row = kept(prim.name, point, by)
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
        for dtype in _dtypes(name):
            for by, values in _derivatives(prim, params, _columns(prim, points, dtype)).items():
                for point, limit, undefined, got in zip(points, limits[by], limits[None], values, strict=True):
                    special = [v for v in point if isinstance(v, float) and (math.isinf(v) or v == 0)]
                    g = float(got)
                    fine = _agrees(g, limit, dtype, len(special) > 1)
                    # Where the op itself has no value, its derivative may be NaN, too.
                    fine = fine or (by is not None and math.isnan(undefined) and math.isnan(g))
                    if fine and by is None and prim.public:
                        fine = _same_sign(g, limit)
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
        for dtype in _dtypes(name):
            for by, values in _derivatives(prim, params, _columns(prim, points, dtype)).items():
                for point, got in zip(points, values, strict=True):
                    where = [i for i, v in enumerate(point) if isinstance(v, float) and math.isnan(v)]
                    filled = tuple(b if i in where else v for i, (v, b) in enumerate(zip(point, _plain(prim)[0], strict=True)))
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


# ---------------------------------------------------------------------------------------------- what is not elementwise

# What reports a NaN, and cannot hand one on.
RAISES = {"check_numerics": tf.errors.InvalidArgumentError}
OTHERS = [n for n in sorted(REGISTRY) if REGISTRY[n].kind != "elementwise" and REGISTRY[n].samples]
_MOVES = (7.5, -7.5, 0.37)


def _sample(prim: Primitive, values: Any, dtype: Any) -> list[Any]:
    """Arrays for one declared sample: matrices near the identity, which every factorisation takes."""
    rng = np.random.default_rng(zlib.crc32(prim.name.encode()))
    arrays = []
    for i, v in enumerate(values):
        if isinstance(v, np.ndarray):
            arrays.append(v.astype(dtype) if v.dtype.kind == "f" else v)
            continue
        interval = prim.domain.intervals[min(i, len(prim.domain.intervals) - 1)]
        x = rng.normal(size=v) if interval.lo < 0 else 0.1 + rng.uniform(size=v)
        if math.isfinite(interval.lo) and math.isfinite(interval.hi):
            x = interval.lo + (interval.hi - interval.lo) * (0.05 + 0.9 * rng.uniform(size=v))
        if prim.name in ("cholesky", "eigh", "eigh_parts"):
            x = x @ np.swapaxes(x, -1, -2) + np.eye(v[-1])
        arrays.append(np.asarray(x).astype(dtype))
    return arrays


def _floats(tensors: Any) -> list[Any]:
    flat = list(tensors) if isinstance(tensors, (tuple, list)) else [tensors]
    return [t for t in flat if t is not None and t.dtype.is_floating]


def _results(f: Callable[..., Any], arrays: list[Any], differentiable: bool) -> list[Any]:
    """Float outputs of a function, the cotangents of its float arguments, and a forward derivative by each, in a row."""
    xs = [wrap(np.asarray(a)) for a in arrays]
    active = [x for x in xs if x.dtype.is_floating]
    with tf.GradientTape() as tape:
        tape.watch(active)
        ys = _floats(tf.nest.flatten(f(*xs)))
    found = [y.numpy() for y in ys]
    if not (differentiable and ys):
        return found
    weights = [np.random.default_rng(7).normal(size=y.shape).astype(y.numpy().dtype) for y in ys]
    backward = tape.gradient(ys, active, output_gradients=[wrap(np.asarray(w)) for w in weights])
    found += [np.zeros(x.shape) if g is None else np.asarray(tf.convert_to_tensor(g)) for g, x in zip(backward, active, strict=True)]
    for x in active:
        direction = wrap(np.asarray(np.random.default_rng(9).normal(size=x.shape).astype(x.numpy().dtype)))
        with tf.autodiff.ForwardAccumulator(x, direction) as forward:
            ys = _floats(tf.nest.flatten(f(*xs)))
        pushed = forward.jvp(ys, unconnected_gradients="zero")
        found += [np.asarray(p) for p in pushed]
    return found


def _swallowed(f: Callable[..., Any], arrays: list[Any], differentiable: bool = True) -> Iterator[str]:
    """Where NaN in one element of one argument does not reach a result that moves when that element is moved."""
    base = _results(f, arrays, differentiable)
    for i, a in enumerate(arrays):
        if np.asarray(a).dtype.kind not in "fV":
            continue
        places = list(np.ndindex(np.shape(a)))
        for at in places if LARGE else {places[0], places[-1], places[len(places) // 2]} if places else ():

            def put(v: float, i: int = i, at: Any = at) -> list[Any]:
                changed = [np.array(b) for b in arrays]
                changed[i][at] = v
                return changed

            moved = [_results(f, put(v), differentiable) for v in _MOVES]
            spoiled = _results(f, put(nan), differentiable)
            assert len(base) == len(spoiled)
            counted["cases"].add((id(f), i, at))
            for k, (whole, after) in enumerate(zip(base, spoiled, strict=True)):
                start, end = whole.astype(np.float64), after.astype(np.float64)
                reached = np.zeros(start.shape, bool)
                for other in moved:
                    o = other[k].astype(np.float64)
                    reached |= np.isfinite(o) & np.isfinite(start) & ~np.isclose(o, start, rtol=0.05, atol=1e-3)
                if (reached & ~np.isnan(end)).any():
                    yield f"result {k} for NaN in argument {i} at {at}: {end.tolist()}, without {start.tolist()}"


@pytest.mark.parametrize("name", OTHERS)
def test_nan_reaches_all_outputs_and_cotangents_that_depend_on_it(name: str) -> None:
    prim = REGISTRY[name]
    wrong = []
    for dtype in _dtypes(name):
        for values, params in prim.samples or ():
            arrays = _sample(prim, values, dtype)
            call: Callable[..., Any] = lambda *xs, params=params: prim(*xs, **params)  # noqa: E731
            if name in RAISES:
                with pytest.raises(RAISES[name]):
                    call(wrap(np.full_like(arrays[0], nan)))
                continue
            for what in _swallowed(call, arrays, prim.differentiable):
                wrong.append(f"{name}{params} {np.dtype(dtype).name} {[a.shape for a in arrays]}: {what}")
    assert not wrong, "\n".join(wrong[:8])
