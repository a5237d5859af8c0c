"""Subnormal numbers, and numbers whose squares leave the range, lose digits without alarm; faults are still found."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from campaigns import LARGE

import gtape as tf
from gtape.declare.primitives import REGISTRY, Primitive
from gtape.errors import VerificationError
from gtape.namespaces import catalogue
from gtape.verify import check, judge
from gtape.verify.programs.mutants import example, planted, scaled
from gtape.verify.verdicts import ulp
from gtape.verify.verdicts.collect import collecting
from gtape.verify.verdicts.ulp import underflow
from gtape.verify.verdicts.verdict import Report

catalogue.load()
NAMES = sorted(n for n, p in REGISTRY.items() if p.differentiable)
TINY = {"float32": 2.0**-140, "float64": 2.0**-1060}
# Their rules multiply a subnormal cotangent with a subnormal number and then divide: few digits are right, and the
# verdict says so.
FRAGILE = {"safe_quotient", "solve", "log_abs_det", "eig", "tridiagonal_solve"}


def inside(prim: Primitive, arrays: list[Any]) -> bool:
    where = prim.domain.where
    if where is None:
        return True
    points = zip(*map(np.ravel, arrays), strict=True) if prim.kind == "elementwise" else [arrays]
    return all(where(*p) for p in points)


def shrunk(prim: Primitive, arrays: list[Any], factor: float) -> list[Any]:
    """The floating arguments times a factor, where the domain allows it."""
    made = []
    for i, a in enumerate(arrays):
        b = a if a.dtype.kind != "f" else (a * a.dtype.type(factor)).astype(a.dtype)
        if prim.kind == "elementwise" and a.dtype.kind == "f":
            interval = prim.domain.intervals[i]
            b = a if interval.whole or not all(float(v) in interval for v in b) else b
        made.append(b)
    return made if inside(prim, made) else arrays


def report_of(name: str, dtype: str, order: int, small: str) -> Report:
    prim, rng = REGISTRY[name], np.random.default_rng(7)
    arrays, params = example(prim, dtype, rng)
    if small != "cotangents":
        arrays = shrunk(prim, arrays, TINY[dtype] if small != "half" else np.sqrt(TINY[dtype]))
    xs = [tf.constant(a) for a in arrays]
    sources = [x for i, x in enumerate(xs) if x.dtype.is_floating and i not in prim.missing]

    def weights(ys: Any) -> list[Any]:
        size = TINY[dtype] if small in ("cotangents", "both") else 1.0
        return [tf.constant((rng.uniform(0.5, 1.5, y.shape) * size).astype(y.dtype.as_numpy_dtype)) for y in ys]

    def outputs() -> list[Any]:
        y = prim(*xs, **params)
        return list(y) if isinstance(y, tuple) else [y]

    with warnings.catch_warnings(), collecting() as report, np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            with tf.GradientTape(verify=True) as tape:
                tape.watch(sources)
                ys = outputs()
                if order == 2:
                    with tf.GradientTape() as inner:
                        inner.watch(sources)
                        products = [y * y for y in outputs()]
                    ys = [tf.convert_to_tensor(g) for g in inner.gradient(products, sources) if g is not None]
            if ys:
                tape.gradient(ys, sources, output_gradients=weights(ys))
        except VerificationError:
            pass
    return report


def alarms(names: list[str], order: int, every: int = 1) -> list[Any]:
    """What the judge refuses: one of `every` primitives in each of four kinds of smallness, in alternating dtypes."""
    found = []
    for i, name in enumerate(names):
        for j, small in enumerate(("values", "cotangents", "both", "half")):
            if (i + j) % every:
                continue
            dtype = ("float32", "float64")[(i + j // 2 + j) % 2]
            for f in report_of(name, dtype, order, small).findings:
                if f.verdict == "rule" or (f.verdict in ("unstable", "undecided") and name not in FRAGILE):
                    found.append((name, dtype, small, str(f)[:200]))
    return found


ELEMENTWISE = [n for n in NAMES if REGISTRY[n].kind == "elementwise"]
OTHERS = [n for n in NAMES if REGISTRY[n].kind != "elementwise"]
# The others take a minute, because each partial is compiled once.
COMMON = ["add", "divide", "exp", "hypot", "log", "multiply", "pow", "sigmoid", "sqrt", "square", "tanh"]


@pytest.mark.slow
def test_no_primitive_alarms_at_subnormal_numbers() -> None:
    assert not alarms(OTHERS, 1, 1 if LARGE else 3) + alarms(COMMON, 1, 2)


@pytest.mark.slow
def test_no_primitive_alarms_at_subnormal_numbers_at_order_2() -> None:
    assert not alarms(OTHERS, 2, 16)


@pytest.mark.slow
@pytest.mark.parametrize("share", range(8))
@pytest.mark.parametrize("order", [1, 2])
def test_no_elementwise_primitive_alarms_at_subnormal_numbers(order: int, share: int) -> None:
    assert not alarms(ELEMENTWISE[share::8], order, 1 if LARGE else 8 * order)


def products(dtype: Any) -> dict[str, tuple[Callable[..., Any], list[Any]]]:
    """Sums of many products that are subnormal, or that underflow, and are magnified again."""
    rng, e = np.random.default_rng(1), np.sqrt(TINY[np.dtype(dtype).name])
    a, b = rng.normal(size=(5, 30)) * e, rng.normal(size=(30, 4)) * e
    image, kernel = rng.normal(size=(1, 5, 5, 3)) * e, rng.normal(size=(3, 3, 3, 2)) * e
    m = rng.normal(size=(5, 5)) + 5 * np.eye(5)
    return {
        "matmul": (lambda x, y: (x @ y) / float(e), [a, b]),
        "einsum": (lambda x, y: tf.einsum("ij,jk->ik", x, y) / float(e), [a, b]),
        "conv2d": (lambda x, y: tf.nn.conv2d(x, y, 1, "SAME") / float(e), [image, kernel]),
        "solve": (lambda x, y: tf.linalg.solve(x, y) / float(e), [m, rng.normal(size=(5, 2)) * e * e]),
        "solve a small matrix": (lambda x, y: tf.linalg.solve(x, y), [m * e * e * 2**6, rng.normal(size=(5, 1)) * e]),
        "squares": (lambda x: tf.reduce_sum(x * x * x) / float(e) / float(e), [a]),
    }


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", products(np.float64))
def test_no_alarm_at_sums_of_subnormal_products(name: str, dtype: Any) -> None:
    f, arrays = products(dtype)[name]
    report = check(f, *[x.astype(dtype) for x in arrays])
    assert not [v for v in report.findings if v.verdict in ("rule", "unstable", "undecided")], report


def test_a_long_float32_loop_may_pass_subnormal_numbers() -> None:
    rng = np.random.default_rng(0)
    w, u = [tf.Variable((rng.normal(size=(3, 12)) * 0.1).astype(np.float32)) for _ in range(2)]
    xs = [tf.constant(rng.normal(size=(1, 3)).astype(np.float32)) for _ in range(100)]
    with collecting() as report, tf.GradientTape(verify=True) as tape:
        h = c = tf.zeros((1, 3))
        for x in xs:
            i, f, g, o = tf.split(x @ w + h @ u, 4, axis=1)
            c = tf.sigmoid(f - 1.0) * c + tf.sigmoid(i) * tf.tanh(g)
            h = tf.sigmoid(o) * tf.tanh(c)
        loss = tf.reduce_sum(h * h)
    assert tape.gradient(loss, [w, u])[0] is not None
    assert report.ok


@pytest.mark.parametrize("worlds", ["all", "floats"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("op", ["matmul", "multiply", "sum"])
def test_a_fault_beside_subnormal_numbers_is_found(op: str, dtype: Any, worlds: str) -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(4, 4)).astype(dtype)
    x[0] *= dtype(TINY[np.dtype(dtype).name])
    with planted(op, 0, scaled(1.001), worlds=worlds):
        assert not check(lambda t: tf.reduce_sum((t @ t) * t), x).ok


B = np.random.default_rng(0).normal(size=(4, 3))
POSITIVE = B.T @ B + 3 * np.eye(3)
FACTORS: dict[str, tuple[Callable[[Any], Any], Any, str]] = {
    "cholesky": (lambda a: tf.linalg.cholesky(a) ** 3, POSITIVE, "cholesky"),
    "pinv": (lambda a: tf.linalg.pinv(a) ** 2, B, "pinv"),
    "qr": (lambda a: tf.linalg.qr(a)[1] ** 2, B, "qr"),
    "cross": (lambda a: tf.linalg.cross(a, a[::-1] * 2.0) ** 2, B, "cross"),
}


@pytest.mark.parametrize("e", [1e200, 1e-150, 1e-200])
@pytest.mark.parametrize("name", FACTORS)
def test_bounds_of_numbers_whose_squares_leave_the_range(name: str, e: float) -> None:
    f, at, op = FACTORS[name]
    assert check(lambda a: e * tf.reduce_sum(f(a)), at).ok
    with planted(op, 0, scaled(1 + 1e-9), worlds="floats"):
        report = check(lambda a: e * tf.reduce_sum(f(a)), at)
    assert not report.ok and op in report.summary()


def test_what_a_product_loses_beneath_the_normal_numbers() -> None:
    assert underflow(np.float32) == underflow(np.complex64) == 2.0**-150
    assert underflow(np.float64) == underflow(np.complex128) == 2.0**-1074
    assert underflow(np.float16) == 2.0**-25


def test_a_machine_that_flushes_loses_the_smallest_normal_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ulp, "_HALF", 0.0)  # the product by which the mode is found is 0 there
    for dtype in (np.float32, np.float64):
        assert ulp.underflow(dtype) == ulp.spacing(0.0, dtype) == np.finfo(dtype).tiny
    monkeypatch.undo()
    assert ulp.spacing(0.0, np.float32) == 2.0**-149


@pytest.mark.parametrize("e", [2.0**-1060, 2.0**-300, 2.0**900])
def test_systems_and_determinants_of_any_size_keep_their_digits(e: float) -> None:
    a = np.round(np.random.default_rng(3).normal(size=(3, 3)) * 2**10) + 2**12 * np.eye(3)
    b = np.round(np.random.default_rng(4).normal(size=(3, 1)) * 2**10)
    x = tf.linalg.solve(a * e, b * e).numpy()
    np.testing.assert_allclose(x, np.linalg.solve(a, b), rtol=1e-13)
    log = tf.linalg.slogdet(a * e)[1].numpy()
    np.testing.assert_allclose(log, np.linalg.slogdet(a)[1] + 3 * np.log(e), rtol=1e-13)


@pytest.mark.parametrize(
    ("claim", "passes"),
    [(-5e-321, True), (-4.9e-321, True), (5e-321, False), (-5e-320, False), (0.0, True), (-1e-308, False)],
)
def test_digits_of_subnormal_numbers_count_from_their_own_size(claim: float, passes: bool) -> None:
    def small(b: Any) -> Any:
        s = tf.square(tf.constant(1e-160, tf.float64)) * tf.square(b)
        return 0.75 * s - 0.5 * s  # the derivative holds ten bits, and the terms are of its size

    report = judge(small, np.array(-1.0), claim)
    assert report.ok == passes, report
    assert passes or all((f.digits or 0.0) < 1.0 for f in report.findings)
    assert claim or report.verdict == "range", "underflow may take a subnormal number"


@pytest.mark.parametrize("share", [0.02, 0.25, 0.5])
def test_a_claim_between_0_and_a_subnormal_number_is_no_flush(share: float) -> None:
    def small(x: Any) -> Any:
        return tf.exp(x) * tf.exp(x)

    at = np.array(-370.5)  # the derivative is 62 times the smallest number
    right = 2 * np.exp(at) ** 2
    assert judge(small, at, right).ok and judge(small, at, np.array(0.0)).ok
    assert not judge(small, at, share * right).ok


FLUSHED: dict[str, tuple[Any, Any]] = {  # functions and points where the exact derivative is subnormal
    "one op": (tf.exp, -720.0),
    "one op in float32": (tf.exp, np.float32(-100.0)),
    "a product": (lambda x: tf.exp(x) * x, -730.0),
    "a bell": (lambda x: tf.exp(-x * x), 27.17),
    "a smaller bell": (lambda x: tf.exp(-x * x), 27.2),
    "a large factor": (lambda x: 1e6 * tf.exp(x), -740.0),
    "a large factor of few digits": (lambda x: 1e6 * tf.exp(x), -742.0),
    "an array": (lambda x: tf.reduce_sum(tf.exp(x)), np.array([-720.0, -730.0])),
}


@pytest.mark.parametrize(("f", "at"), FLUSHED.values(), ids=FLUSHED)
def test_a_claim_of_0_for_a_subnormal_derivative_is_out_of_range_without_alarm(f: Any, at: Any) -> None:
    report = judge(f, at, np.zeros_like(at))
    assert report.ok and {found.verdict for found in report.findings} == {"range"}, report


@pytest.mark.parametrize(
    ("f", "at"), [(tf.exp, -700.0), (lambda x: 1e6 * tf.exp(x), -722.0), (tf.exp, np.float16(-11.0))]
)
def test_a_claim_of_0_fails_for_a_derivative_that_no_machine_flushes(f: Any, at: Any) -> None:
    assert not judge(f, at, np.zeros_like(at)).ok


@pytest.mark.parametrize("shape", [(), (2,)])
@pytest.mark.parametrize("point", [-371.5, -371.7, -371.8, -372.0])
def test_a_zero_at_the_bound_of_subnormal_derivatives_has_a_harmless_verdict(
    point: float, shape: tuple[int, ...]
) -> None:
    report = judge(lambda x: tf.exp(x) * tf.exp(x), np.full(shape, point), np.zeros(shape))
    assert report.ok and report.verdict != "undecided", report
