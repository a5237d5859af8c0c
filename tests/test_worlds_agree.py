"""The worlds agree: NumPy kernel, function of tensors and mirror give one value on drawn inputs.

A proof covers the mirrors; this is what ties them to the code that runs. Inputs are drawn from the declared domains,
with the neighbourhoods of special points, 0-d, empty and broadcast shapes, and every sample of what is not elementwise.
"""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from campaigns import LARGE, in_turn
from flint import arb

import gtape as tf
from gtape.base.layout import layout_of
from gtape.declare.domains import BOOLEAN, Interval
from gtape.declare.primitives import REGISTRY, Primitive
from gtape.engine import differentiation
from gtape.engine.call import apply
from gtape.engine.fast import recorded, steps
from gtape.engine.fast.steps import step_for
from gtape.engine.full_sweep import alive
from gtape.engine.rules import RuleStep, inputs_of, output_of
from gtape.engine.sweep import _step_in_numpy
from gtape.engine.worlds import NUMPY
from gtape.namespaces import catalogue
from gtape.recording.record import INS, OUT, PARENTS, SEQ, STEP, TAPES, parents_of, step_of
from gtape.symbolic import mirrors
from gtape.symbolic.balls import objects, precision, to_double_double
from gtape.symbolic.mirrors.registry import MULTILINEAR
from gtape.symbolic.program import Node
from gtape.symbolic.worlds import BallWorld, JetWorld
from gtape.tapes import forward
from gtape.tensors.axes import axes_of
from gtape.tensors.tensor import wrap
from gtape.verify.bounds.bounds import local_error
from gtape.verify.oracles.along import is_linear, multilinear
from gtape.verify.proofs.proof_cells import parameters
from gtape.verify.verdicts.ulp import spacing, widest

catalogue.load()
mirrors.load()
BALLS = BallWorld()
PRECISIONS = (300, 1500, 8000)
PRIMITIVES = sorted(REGISTRY)
# What has a vector has many numbers of each kind.
MANY = 40 if LARGE else 8
SHAPES: dict[int, tuple[tuple[tuple[int, ...], ...], ...]] = {
    1: (((),), ((0,),), ((MANY,),), ((2, 1, 3),)),
    2: (((), ()), ((0,), ()), ((MANY,), (MANY,)), ((3, 1), (1, 4)), ((), (3,)), ((2,), (1,)), ((1, 0), (2, 1))),
    3: (((), (), ()), ((0,), (), (1,)), ((MANY,), (MANY,), (MANY,)), ((3, 1), (1, 2), ())),
}
INTEGERS = [
    n for n in PRIMITIVES
    if REGISTRY[n].ints and REGISTRY[n].kind == "elementwise" and BOOLEAN not in REGISTRY[n].domain.intervals
]  # fmt: skip
# Below all floats, however often halved.
TINY = arb(2) ** -1200
# Factorisations are defined on some matrices only.
SYMMETRIC_POSITIVE = {"cholesky"}


# ---------------------------------------------------------------------------------------------- draws


def _rng(name: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(name.encode()))


def _number(rng: np.random.Generator, prim: Primitive, interval: Interval, dtype: Any) -> float:
    """A number of the dtype inside an interval: ordinary, small or large, or beside a special point."""
    largest = 1e30 if dtype == np.float32 else 1e250
    while True:
        kind = rng.integers(6)
        near = [p for p in (*prim.special, *prim.kinks) if not isinstance(p, str)]
        if kind == 0 and near:
            x = float(rng.choice(near)) + float(rng.choice([0.0, 1e-3, -1e-3, 1e-6, -1e-6]))
        elif kind == 1:
            x = float(10.0 ** rng.uniform(-12, 3) * rng.choice([-1.0, 1.0]))
        elif kind == 2:
            x = float(rng.integers(-4, 5))
        else:
            x = float(rng.normal() * 2)
        if math.isfinite(interval.lo) and math.isfinite(interval.hi):
            x = x if x in interval else interval.lo + (interval.hi - interval.lo) * float(rng.uniform())
        elif math.isfinite(interval.lo):
            x = x if x in interval else interval.lo + abs(x)
        x = float(dtype(x))
        if x in interval and abs(x) < largest:
            return x


def _draw(rng: np.random.Generator, prim: Primitive, shapes: tuple[Any, ...], dtype: Any) -> list[Any] | None:
    """Arrays of these shapes, every broadcast combination inside the domain; None where none was found."""
    intervals = prim.domain.intervals
    for _ in range(200):
        arrays = []
        for i, shape in enumerate(shapes):
            interval = intervals[min(i, len(intervals) - 1)]
            if interval is BOOLEAN:
                arrays.append(rng.integers(0, 2, shape).astype(bool))
            else:
                flat = [_number(rng, prim, interval, dtype) for _ in range(math.prod(shape))]
                arrays.append(np.array(flat, dtype=dtype).reshape(shape))
        where = prim.domain.where
        if where is None:
            return arrays
        rows = zip(*[b.ravel().tolist() for b in np.broadcast_arrays(*arrays)], strict=True)
        if all(bool(where(*row)) for row in rows):
            return arrays
        if len({a.shape for a in arrays}) == 1:  # element by element: keep those that are in the domain
            kept = [row for row in zip(*[a.ravel().tolist() for a in arrays], strict=True) if bool(where(*row))]
            if kept:
                return [np.array(c, dtype=dtype) for c in zip(*kept, strict=True)]
    return None


def _sampled(rng: np.random.Generator, prim: Primitive, values: tuple[Any, ...], dtype: Any) -> list[Any]:
    arrays = []
    for i, v in enumerate(values):
        if isinstance(v, np.ndarray):
            arrays.append(v.astype(dtype) if v.dtype.kind == "f" else v)
            continue
        interval = prim.domain.intervals[min(i, len(prim.domain.intervals) - 1)]
        x = rng.normal(size=v) if interval.lo < 0 else 0.1 + rng.uniform(size=v)
        if math.isfinite(interval.lo) and math.isfinite(interval.hi):
            x = interval.lo + (interval.hi - interval.lo) * (0.05 + 0.9 * rng.uniform(size=v))
        if prim.name in SYMMETRIC_POSITIVE:
            x = x @ np.swapaxes(x, -1, -2) + np.eye(v[-1])
            x = (x + np.swapaxes(x, -1, -2)) / 2
        arrays.append(np.asarray(x, dtype=dtype))
    return arrays


def _calls(prim: Primitive, dtype: Any) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    rng = _rng(prim.name)
    if prim.kind != "elementwise":
        for values, params in prim.samples:
            for _ in range(3 if LARGE else 1):
                yield _sampled(rng, prim, values, dtype), params
        return
    for params in parameters(prim):
        for shapes in SHAPES[len(prim.rules)]:
            arrays = _draw(rng, prim, shapes, dtype)
            if arrays is not None:
                yield arrays, params


# ---------------------------------------------------------------------------------------------- comparison


def _same_kind(got: Any, expected: Any) -> bool:
    return np.asarray(got).dtype == np.asarray(expected).dtype and np.shape(got) == np.shape(expected)


def _outputs(y: Any) -> list[Any]:
    return list(y) if isinstance(y, tuple) else [y]


def _exact(prim: Primitive, arrays: list[Any], params: dict[str, Any]) -> list[Any]:
    """The mirror's outputs: conditions and integers as they are, else (high, low) whose sum is the exact value.

    The precision is raised until every ball is narrow, or lies below all floats; what is not finite comes as NaN.
    """
    for bits in PRECISIONS:
        with precision(bits):
            out = getattr(BALLS, prim.name)(*[BALLS.lift(a) for a in arrays], **params)
            balls = [o for o in _outputs(out) if np.asarray(o).dtype == object]
            if bits == PRECISIONS[-1] or all(_narrow(b) for o in balls for b in BALLS.objects(o).ravel()):
                return [_pair(o) if np.asarray(o).dtype == object else np.asarray(o) for o in _outputs(out)]
    raise AssertionError("no precision")


def _narrow(ball: Any) -> bool:
    if not hasattr(ball, "is_finite") or not ball.is_finite():
        return True
    return bool(ball.rad() <= abs(ball.mid()) * arb(2) ** -120 or abs(ball) < TINY)


def _pair(o: Any) -> Any:
    o = BALLS.objects(o)
    high, low = to_double_double(o)
    high, low = np.asarray(high).reshape(o.shape), np.asarray(low).reshape(o.shape)
    balls = o.ravel().tolist()
    far = np.array([isinstance(b, arb) and not b.is_finite() for b in balls], dtype=bool).reshape(o.shape)
    none = np.array([bool(abs(b) < TINY) for b in balls], dtype=bool).reshape(o.shape)
    return np.where(far, np.nan, np.where(none, 0.0, high)), np.where(far | none, 0.0, low)


def _moved(prim: Primitive, arrays: list[Any], params: dict[str, Any], high: Any) -> Any:
    """How far the exact value goes when an input moves by 2 ULP, beside a root of a slope that is not at 0; else 0.

    No float formula keeps its digits there (the rule of the accuracy tables).
    """
    reach = np.zeros_like(high)
    if prim.public or prim.kind != "elementwise":
        return reach
    for i, x in enumerate(arrays):
        if x.dtype.kind != "f":
            continue
        step = spacing(x.astype(np.float64), x.dtype)
        for sign in (-2, 2):
            other = [a.astype(np.float64) if a.dtype.kind == "f" else a for a in arrays]
            other[i] = other[i] + sign * step
            inside = [v in prim.domain.intervals[i] for v in other[i].ravel().tolist()]
            if all(inside):
                change = np.abs(_exact(prim, other, params)[0][0] - high)
                near_root = np.abs(high) < 0.1 * change * np.abs(x) / (2 * step)
                reach = np.maximum(reach, np.where(near_root & (x != 0), change, 0.0))
    return reach


def _close(got: Any, exact: Any, bound: Any, what: str) -> None:
    got = np.asarray(got)
    shape = exact[0].shape if isinstance(exact, tuple) else exact.shape
    assert got.shape == shape, f"{what}: shape {got.shape}, the mirror has {shape}"
    if not isinstance(exact, tuple):
        np.testing.assert_array_equal(got, exact, err_msg=what)
        return
    if not got.size:
        return
    high, low = exact
    g = widest(got)
    largest = float(np.finfo(got.dtype).max) if got.dtype.kind == "f" else math.inf
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs((g - high) - low)
        # beyond the largest number: infinite, or the largest itself
        over = (np.abs(high) >= largest) & (np.abs(g) >= largest * (1 - 1e-6)) & (np.sign(g) == np.sign(high))
        error = np.where(over | np.isnan(high), 0.0, np.where(np.isnan(error), np.inf, error))
    allowed = np.broadcast_to(bound, got.shape)
    worst = int(np.argmax(error - np.where(np.isnan(allowed), np.inf, allowed)))
    e, b, h = error.ravel()[worst], allowed.ravel()[worst], high.ravel()[worst]
    unit = spacing(h, got.dtype if got.dtype.kind == "f" else np.float64)
    assert not e > b, f"{what}: {g.ravel()[worst]!r} is {e / unit:.3g} ULP from {h!r}, the bound is {b / unit:.3g} ULP"


def _bound(prim: Primitive, arrays: list[Any], params: dict[str, Any], exact: list[Any], dtype: Any) -> Any:
    if prim.kind != "implicit" and (len(exact) > 1 or not isinstance(exact[0], tuple) or prim.name == "split"):
        return 0.0
    values = [a.astype(np.float64) if a.dtype.kind == "f" else a for a in arrays]
    if prim.kind == "implicit" and len(exact) > 1:
        with np.errstate(all="ignore"):
            made = local_error(prim, values, tuple([e[0] for e in exact]), params, dtype)
        return [np.asarray(b) + spacing(0.0, dtype) for b in made]
    high = exact[0][0]
    with np.errstate(all="ignore"):
        own = np.asarray(local_error(prim, values, high, params, dtype))
        return own + spacing(0.0, dtype) + _moved(prim, arrays, params, high)


@pytest.mark.parametrize(
    ("name", "dtype"), [(name, dtype) for name in PRIMITIVES for dtype in in_turn([np.float64, np.float32], name)],
    ids=lambda v: str(getattr(v, "__name__", v)),
)  # fmt: skip
def test_values_agree(name: str, dtype: Any) -> None:
    prim = REGISTRY[name]
    calls = 0
    for arrays, params in _calls(prim, dtype):
        calls += 1
        what = f"{name}({', '.join(np.array2string(a, threshold=6) for a in arrays)}, {params})"
        with np.errstate(all="ignore"):
            by_kernel = getattr(NUMPY, name)(*arrays, **params)
        by_tape = prim(*[tf.constant(a) for a in arrays], **params)
        exact = _exact(prim, arrays, params)
        assert len(exact) == len(_outputs(by_kernel)) == len(_outputs(by_tape)), what
        for i, (k, t, e) in enumerate(zip(_outputs(by_kernel), _outputs(by_tape), exact, strict=True)):
            k, t = np.asarray(k), np.asarray(t.numpy())
            assert _same_kind(k, t), f"{what}: kernel {k.dtype}{k.shape}, tape {t.dtype}{t.shape}"
            if k.dtype.kind == "f" and name != "cast":
                assert k.dtype == dtype, f"{what}: the kernel gives {k.dtype}"
            bound = _bound(prim, arrays, params, exact, k.dtype if k.dtype.kind == "f" else np.dtype(dtype))
            bound = bound[i] if isinstance(bound, list) else bound
            _close(k, e, bound, f"kernel, {what}")
            _close(t, e, bound, f"tape, {what}")
    assert calls


@pytest.mark.parametrize("dtype", [np.int32, np.int64], ids=["int32", "int64"])
@pytest.mark.parametrize("name", INTEGERS)
def test_integers_agree(name: str, dtype: Any) -> None:
    prim = REGISTRY[name]
    rng = _rng(name)
    for shapes in SHAPES[len(prim.rules)]:
        for _ in range(4):
            arrays = [rng.integers(-6, 7, s).astype(dtype) for s in shapes]
            for i, interval in enumerate(prim.domain.intervals):
                inside = np.vectorize(lambda v, d=interval: v in d, otypes=[bool])
                arrays[i] = np.where(inside(arrays[i]), arrays[i], 1).astype(dtype)
            if name == "pow":
                arrays[1] = np.abs(arrays[1])
            by_kernel = np.asarray(getattr(NUMPY, name)(*arrays))
            by_tape = prim(*[tf.constant(a) for a in arrays]).numpy()
            assert _same_kind(by_kernel, by_tape), name
            np.testing.assert_array_equal(by_kernel, by_tape)
            exact = objects(getattr(BALLS, name)(*[BALLS.objects(a) for a in arrays]))
            for got, e in zip(by_kernel.ravel().tolist(), exact.ravel().tolist(), strict=True):
                assert e == got, f"{name}{[a.tolist() for a in arrays]}: {got}, exactly {e}"


@pytest.mark.parametrize("name", [n for n in PRIMITIVES if REGISTRY[n].kind == "elementwise" and REGISTRY[n].scalar])
def test_python_floats_agree(name: str) -> None:
    """The scalar kernel, on floats from where it may raise too."""
    prim = REGISTRY[name]
    rng = _rng(name)
    for params in parameters(prim):
        for _ in range(30):
            arrays = _draw(rng, prim, ((),) * len(prim.rules), np.float64)
            if arrays is None:
                continue
            floats = [float(a.item()) for a in arrays]
            with np.errstate(all="ignore"):
                got = getattr(NUMPY, name)(*floats, **params)
            exact = _exact(prim, arrays, params)
            bound = _bound(prim, arrays, params, exact, np.dtype(np.float64))
            _close(np.asarray(got), exact[0], bound, f"{name}{floats}")


def _derivatives(prim: Primitive, points: list[float], params: dict[str, Any], order: int, verify: Any) -> list[str]:
    """The derivatives of one order by scalars, as texts that tell all bits."""
    xs = [tf.Variable(p, dtype=tf.float64) for p in points]

    def derived(k: int) -> Any:
        with tf.GradientTape(verify=verify) as tape:
            found = prim(*xs, **params) if k == 1 else [g for g in derived(k - 1) if g is not None]
        return tape.gradient(found, xs)

    return ["None" if g is None else float(g).hex() for g in derived(order)]


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(
    "name", [n for n in PRIMITIVES if REGISTRY[n].scalar and REGISTRY[n].differentiable and len(REGISTRY[n].rules) == 1]
)
def test_the_flag_changes_no_bit_of_a_derivative_by_scalars(name: str, order: int) -> None:
    prim = REGISTRY[name]
    rng = _rng(name)
    recorded_only = tf.verify.Options(sample=1e-12)  # as under the flag, but without the judgement, which takes long
    for params in parameters(prim):
        for _ in range(100 if LARGE else 12):
            arrays = _draw(rng, prim, ((),) * len(prim.rules), np.float64)
            if arrays is None or any(a.dtype.kind != "f" for a in arrays):
                continue
            points = [float(a.item()) for a in arrays]
            plain, flagged = [_derivatives(prim, points, params, order, v) for v in (False, recorded_only)]
            assert plain == flagged, f"{name}{points}, {params}"


@pytest.mark.parametrize("name", [n for n in PRIMITIVES if REGISTRY[n].kind == "elementwise" and REGISTRY[n].scalar])
def test_a_float_of_numpy_has_the_bits_of_a_python_float(name: str) -> None:
    prim = REGISTRY[name]
    rng = _rng(name)
    function = getattr(NUMPY, name)
    for _ in range(200):
        arrays = _draw(rng, prim, ((),) * len(prim.rules), np.float64)
        if arrays is None:
            continue
        floats = [float(a.item()) for a in arrays]
        with np.errstate(all="ignore"):
            python, numpy = function(*floats), function(*[np.float64(x) for x in floats])
        assert type(python) is float and type(numpy) is np.float64
        assert python.hex() == float(numpy).hex(), f"{name}{floats}"


# Those whose functions learn layouts, and of these what small models lean on: theirs must be written down.
LEARNING = [
    n for n in PRIMITIVES
    if (REGISTRY[n].arity, set(REGISTRY[n].params)) in [(1, {"axis", "keepdims"}), (2, set())]
    and REGISTRY[n].differentiable and REGISTRY[n].outputs == 1
]  # fmt: skip
WRITTEN_DOWN = {"add", "atan2", "divide", "matmul", "multiply", "reduce_mean", "subtract", "sum"}


@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("name", LEARNING)
def test_backward_steps_written_down_do_what_the_rules_do(name: str, dtype: Any) -> None:
    prim = REGISTRY[name]
    rng = _rng(name)
    written = 0
    with np.errstate(all="ignore"):
        for arrays, params in _calls(prim, dtype):
            tensors = [wrap(a) for a in arrays]
            out = getattr(NUMPY, name)(*arrays, **params)
            if out.__class__ is tuple or out.dtype.kind != "f":
                continue
            active = tuple(i for i, a in enumerate(arrays) if a.dtype.kind == "f" and prim.connected(i))
            rule = RuleStep(prim, active, params, tuple(t._layout for t in tensors), wrap(out)._layout)
            step = step_for(rule)
            if step is None:
                continue
            written += 1
            g = np.asarray(rng.normal(size=out.shape), dtype=dtype)
            ins, y = tuple(tensors), wrap(out)._value
            g = wrap(g)._value
            try:
                expected = rule(g, ins, y)
            except ArithmeticError:
                continue
            got = step(g, ins, y)
            if len(active) == 1:
                got, expected = [got], [expected]
            for c, by_rule in zip(got, expected, strict=True):
                assert np.shape(c) == np.shape(by_rule)
                np.testing.assert_array_equal(np.asarray(c), np.asarray(by_rule))
    assert written or name not in WRITTEN_DOWN


# ---------------------------------------------------------------------------------------------- without engine/fast


def _generally(prim: Primitive) -> Any:
    """The function of a primitive without a line of gtape.engine.fast: each call is looked up anew."""

    def function(*args: Any, name: Any = None, **given: Any) -> Any:
        return apply(prim, args, given)

    made: Any = function
    made.renew = lambda: None
    made.along = lambda x, axis, keepdims: apply(
        prim, (x,), {"axis": axes_of(axis, len(x.shape)), "keepdims": bool(keepdims)}
    )
    return made


@pytest.fixture(scope="module")
def general_way() -> Iterator[Any]:
    """A context manager in which no op uses a generated function, and no step is written down for a layout."""

    @contextmanager
    def switched() -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(steps, "step_for", lambda step: None)
            for prim, function in general.items():
                patch.setattr(prim, "_function", function)
                for plan in prim.plans.values():
                    patch.setattr(plan, "known", {})
            yield

    general = {prim: _generally(prim) for prim in REGISTRY.values()}
    yield switched


def _recorded(prim: Primitive, arrays: list[Any], params: dict[str, Any]) -> tuple[Any, list[Any], list[Any]]:
    """The tape that recorded an op, the operands and the results.

    The tape comes first, because Python frees a tuple from its end, and a tape that dies before its results searches
    the memory for their records.
    """
    tensors = [tf.constant(a) for a in arrays]
    with tf.GradientTape() as tape:
        tape.watch([t for t in tensors if t.dtype.is_floating])
        outs = _outputs(prim(*tensors, **params))
    return tape, tensors, outs


def _same(a: Any, b: Any, ulps: float, what: str) -> None:
    a, b = np.asarray(a), np.asarray(b)
    assert _same_kind(a, b), f"{what}: {a.dtype}{a.shape}, the general way {b.dtype}{b.shape}"
    if ulps and a.dtype.kind == "f":
        with np.errstate(all="ignore"):
            close = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= ulps * spacing(a, a.dtype))
        assert close.all(), f"{what}: {a!r}, the general way {b!r}"
    else:
        np.testing.assert_array_equal(a, b, err_msg=what)


def _flags(tape: Any) -> Any:
    """What the session of a tape knows of its records, from which a sweep chooses its way."""
    session = tape._session
    return session and (session.selects, session.mixed, session.shared)


def _described(r: Any, tensors: list[Any]) -> Any:
    """What a record says of an op, for comparison with that of other operands."""
    if r is None:
        return None
    step = step_of(r)
    if step.prim is None:
        return ("output", step.index, _described(r[PARENTS], tensors))
    places = [next(i for i, t in enumerate(tensors) if t._record is p) for p in parents_of(r)]
    kept = [t is not None for t in inputs_of(r, len(tensors))]
    return (step.prim.name, step.active, places, kept, output_of(r) is not None, step.params, len(r[TAPES].sessions))


@pytest.mark.parametrize("name", PRIMITIVES)
def test_the_general_way_makes_the_same_records_and_numbers(name: str, general_way: Any) -> None:
    prim = REGISTRY[name]
    rng = _rng(name)
    often = 10 if name in LEARNING else 1  # until the step is written down
    calls = list(_calls(prim, np.float64))
    quick = [[_recorded(prim, *call) for _ in range(often)][-1] for call in calls]
    with general_way():
        general = [_recorded(prim, *call) for call in calls]
    for (arrays, params), (tape, tensors, outs), (other_tape, others, expected) in zip(
        calls, quick, general, strict=True
    ):
        what = f"{name}({', '.join(np.array2string(a, threshold=6) for a in arrays)}, {params})"
        assert _flags(tape) == _flags(other_tape), what
        # Python floats have kernels of their own, as accurate as declared.
        ulps = 2 * prim.ulps if any(t._value.__class__ is float for t in (*tensors, *outs)) else 0.0
        for y, e in zip(outs, expected, strict=True):
            _same(y.numpy(), e.numpy(), ulps, what)
            assert _described(y._record, tensors) == _described(e._record, others), what
        if outs[0]._record is None or step_of(outs[0]._record).prim is None:
            continue  # several outputs are for the full sweep, which has no other way
        g = wrap(np.asarray(rng.normal(size=outs[0].shape)).astype(outs[0]._layout.dtype))._value
        by_step, by_rule = [_run_back(r, g) for r in (outs[0]._record, expected[0]._record)]
        for c, e in zip(by_step, by_rule, strict=True):
            _same(c, e, 2 * max(prim.ulps, 4.0) if ulps else 0.0, f"backwards, {what}")


def _run_back(r: Any, g: Any) -> list[Any]:
    try:
        with np.errstate(all="ignore"):
            made = r[STEP](g, r[INS], r[OUT])
    except ArithmeticError:
        made = _step_in_numpy(r, g)
    return [made] if len(parents_of(r)) == 1 else list(made)


# ---------------------------------------------------------------------------------------------- orders and tangents


DIFFERENTIABLE = [n for n in PRIMITIVES if REGISTRY[n].differentiable]
CASES = None if LARGE else 3
OFTEN = steps.FAMILIAR + 1  # until a rule is written down


@pytest.fixture
def soon(name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The number of calls until the rules of the op `name` are written down, which is small here to save time."""
    for module in (steps, recorded, forward):
        monkeypatch.setattr(module, "FAMILIAR", 1)
    REGISTRY[name].renew()
    yield 3
    REGISTRY[name].renew()


def _graph(tensors: list[Any]) -> list[Any]:
    """The ops that tensors were recorded by, newest first, each with the places of its parents."""
    found: dict[int, Any] = {}
    pending = [t._record for t in tensors if t is not None and t._record is not None]
    while pending:
        r = pending.pop()
        if r[SEQ] not in found:
            found[r[SEQ]] = r
            pending.extend(parents_of(r))
    places = {seq: place for place, seq in enumerate(sorted(found))}
    described = []
    for seq in sorted(found):
        step = step_of(found[seq])
        what = None if step is None else (step.prim.name, step.active, step.params) if step.prim else step.index
        described.append((what, [places[p[SEQ]] for p in parents_of(found[seq])]))
    return described


def _twice(prim: Primitive, arrays: list[Any], params: dict[str, Any]) -> tuple[list[Any], list[Any], list[Any]]:
    """The gradients of an op under an outer tape, the ops that made them, and their gradients."""
    tensors = [tf.constant(a) for a in arrays]
    floats = [t for t in tensors if t.dtype.is_floating]
    with tf.GradientTape() as outer:
        outer.watch(floats)
        with tf.GradientTape() as inner:
            inner.watch(floats)
            outs = [y for y in _outputs(prim(*tensors, **params)) if y.dtype.is_floating]
        first = [tf.convert_to_tensor(g) for g in inner.gradient(outs, floats) if g is not None]
    made = _graph(first)
    second = outer.gradient(first, floats) if first else []
    return first, made, [tf.convert_to_tensor(g) for g in second if g is not None]


@pytest.mark.parametrize("dtype", (np.float32, np.float64) if LARGE else (np.float64,))
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_a_sweep_under_a_tape_makes_the_records_of_the_rules(
    name: str, dtype: Any, soon: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    prim = REGISTRY[name]
    for arrays, params in itertools.islice(_calls(prim, dtype), CASES):
        what = f"{name}({', '.join(np.array2string(a, threshold=6) for a in arrays)}, {params})"
        for _ in range(soon):
            first, made, second = _twice(prim, arrays, params)
        with monkeypatch.context() as patch:
            patch.setattr(differentiation, "takes_recorded_sweep", lambda *_: False)
            of_rules, by_rules, second_of_rules = _twice(prim, arrays, params)
        assert made == by_rules, what
        for got, expected in zip(first + second, of_rules + second_of_rules, strict=True):
            _same(got.numpy(), expected.numpy(), 0.0, what)


@pytest.mark.parametrize("dtype", (np.float32, np.float64) if LARGE else (np.float64,))
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_tangents_written_down_are_those_of_the_rules(
    name: str, dtype: Any, soon: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    prim, rng = REGISTRY[name], _rng(name)

    def pushed() -> list[Any]:
        tensors = [tf.constant(a) for a in arrays]
        floats = [t for t in tensors if t.dtype.is_floating]
        with tf.autodiff.ForwardAccumulator(floats, [tf.constant(v) for v in along]) as acc:
            outs = _outputs(prim(*tensors, **params))
        return [acc.jvp(y) for y in outs]

    for arrays, params in itertools.islice(_calls(prim, dtype), CASES):
        what = f"{name}({', '.join(np.array2string(a, threshold=6) for a in arrays)}, {params})"
        along = [np.asarray(rng.normal(size=a.shape)).astype(dtype) for a in arrays if a.dtype.kind == "f"]
        for _ in range(soon):
            got = pushed()
        with monkeypatch.context() as patch:
            patch.setattr(forward._Push, "push", lambda *_: False)
            expected = pushed()
        for g, e in zip(got, expected, strict=True):
            assert (g is None) == (e is None), what
            if g is not None:
                _same(g.numpy(), e.numpy(), 0.0, what)


def _layer(values: list[Any], watched: tuple[int, ...], persistent: bool) -> tuple[list[Any], list[Any], list[Any]]:
    """The gradients of a layer under an outer tape that watches some operands, their ops, and their gradients."""
    tensors = [tf.constant(v) for v in values]
    x, w, b, s, zeros = tensors
    outside = [tensors[i] for i in watched]
    with tf.GradientTape() as outer:
        outer.watch(outside)
        with tf.GradientTape(persistent) as inner:
            inner.watch(tensors)
            y = tf.tanh(tf.matmul(x, w) + b) * s / (1.0 + x * x) + tf.sqrt(zeros) * 0.0
            loss = tf.reduce_sum(tf.exp(y)) * tf.sin(s)
        first = [tf.convert_to_tensor(g) for g in inner.gradient(loss, tensors)]
    made = _graph(first)
    return first, made, [g for g in outer.gradient(first, outside) if g is not None]


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("watched", [(), (0,), (1, 2), (3,), (4,), (0, 1, 2, 3, 4)])
def test_a_sweep_makes_the_records_of_the_rules_whatever_the_outer_tape_watches(
    watched: tuple[int, ...], persistent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(3)
    # The last is zero, where the root of a cotangent of zero has an infinite slope.
    values = [rng.normal(size=shape) for shape in ((3, 3), (3, 3), (3,), ())] + [np.zeros((3, 1))]
    for _ in range(OFTEN + 1):
        first, made, second = _layer(values, watched, persistent)
    with monkeypatch.context() as patch:
        patch.setattr(differentiation, "takes_recorded_sweep", lambda *_: False)
        of_rules, by_rules, second_of_rules = _layer(values, watched, persistent)
    assert made == by_rules
    for got, expected in zip(first + second, of_rules + second_of_rules, strict=True):
        _same(got.numpy(), expected.numpy(), 0.0, f"watched: {watched}")


@pytest.mark.parametrize("name", [n for n in DIFFERENTIABLE if REGISTRY[n].partials is None])
def test_a_sweep_with_masks_reaches_every_element_that_a_rule_reaches(name: str) -> None:
    prim = REGISTRY[name]
    rng = _rng(name)
    for arrays, params in itertools.islice(_calls(prim, np.float64), 12):
        active = tuple([i for i, x in enumerate(arrays) if prim.connected(i) and np.asarray(x).dtype.kind == "f"])
        y = prim.kernel(*arrays, **params)
        if not active or isinstance(y, tuple) or np.asarray(y).dtype.kind != "f" or not np.size(y):
            continue
        layouts, out_layout = tuple(map(layout_of, arrays)), layout_of(y)
        step = RuleStep(prim, active, params, layouts, out_layout)
        mask = rng.random(out_layout.shape) < 0.5
        g = np.where(mask, rng.normal(size=out_layout.shape), 0.0)
        with np.errstate(all="ignore"):
            reached = alive(step, mask, tuple(arrays), y)
            made = step.cotangents(NUMPY, g, y, tuple(arrays))
        for i, c, m in zip(active, made, reached, strict=True):
            assert m is None or not (np.asarray(c) != 0)[~m].any(), (name, params, i, mask, c, m)


@pytest.mark.parametrize("x", [np.float64(0.7), np.array([0.7, -0.2])])
def test_a_swapped_kernel_reaches_the_steps_that_were_written_down(x: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    prim = REGISTRY["tanh_curve"]  # the rule of sech2 calls it, and the rule of tanh calls sech2
    for factor in (1, 2):
        monkeypatch.setattr(prim, "kernel", lambda v, k=factor: np.full_like(v, k))
        monkeypatch.setattr(prim, "scalar", lambda v, k=factor: float(k))
        for _ in range(OFTEN):
            assert np.all(_twice(REGISTRY["tanh"], [x], {})[2][0].numpy() == factor)


def test_a_rule_that_was_swapped_and_restored_is_the_declared_rule_in_steps_written_down() -> None:
    def curvature() -> Any:
        x = tf.constant(0.7, tf.float64)
        with tf.GradientTape(persistent=True) as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = tf.sin(x) * x * x
            g = inner.gradient(y, x)
        return outer.jacobian(g, x).numpy()

    right = {float(curvature()) for _ in range(8)}
    prim = REGISTRY["multiply"]
    declared = prim.partials
    try:
        prim.partials = (lambda xp, y, a, b: a, lambda xp, y, a, b: b)  # they read what the declared ones do not
        assert right.isdisjoint({float(curvature()) for _ in range(8)})
    finally:
        prim.partials = declared
    assert {float(curvature()) for _ in range(8)} == right


@pytest.mark.parametrize("name", sorted(MULTILINEAR))
def test_a_mirror_that_is_declared_linear_has_the_jets_of_a_linear_function(name: str) -> None:
    prim, jets = REGISTRY[name], JetWorld(1)
    node = Node(0, "op", None)
    node.prim = prim
    for values, node.params in _calls(prim, np.float64):
        with precision(300):
            xs = [BALLS.lift(v) for v in values]
            ts = {a: BALLS.lift(_rng(name).normal(size=values[a].shape)) for a in MULTILINEAR[name]}
            assert is_linear(node, tuple(ts))
            moved = node.apply(jets, [jets.jet(x, ts[a]) if a in ts else x for a, x in enumerate(xs)])
            gaps = jets.component(moved, 1) - multilinear(BALLS, node, xs, ts)
            assert all(g.contains(0) and float(g.rad()) < 1e-70 for g in np.ravel(gaps))


@pytest.mark.parametrize("name", ["pow", "hypot", "atan2"])
def test_a_selection_elsewhere_on_the_tape_changes_no_bit(name: str) -> None:
    """Sweeps over selections compute with NumPy's numbers, and others with Python's."""
    prim = REGISTRY[name]

    def gradient(f: Callable[..., Any], xs: list[Any]) -> list[float]:
        with tf.GradientTape() as tape:
            tape.watch(xs)
            y = f(*xs)
        return [float(g) for g in tape.gradient(y, xs)]

    for point in _rng(name).uniform(0.1, 5.0, (200, 2)):
        xs = [tf.constant(x) for x in point]
        assert gradient(prim, xs) == gradient(lambda x, y: prim(tf.nn.relu(x), y), xs)
