"""Derivatives at equal and nearly equal eigenvalues and singular values, in every mode, against 120 digits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import mpmath as mp
import numpy as np
import pytest

import gtape as tf
from gtape import linalg
from gtape.recording.record import get_stack
from gtape.verify import check, judge

STEP = mp.mpf(10) ** -30
WEIGHTS = np.array([[0.0, 1.25, -1.5], [1.25, 1.0, 1.25], [2.5, 2.75, 2.0]])
DIRECTION = np.array([[2.0, -2.5, 0.5], [-0.5, 0.25, 1.0], [1.5, -0.25, -1.0]])
TURN = np.linalg.qr(np.array([[1.0, 2.0, 0.5], [-1.0, 0.5, 2.0], [0.25, 1.0, -1.0]]))[0]


def dot(x: Any) -> Any:
    m, n = x.shape
    return tf.reduce_sum(x * tf.constant(WEIGHTS[:m, :n].astype(x.dtype.as_numpy_dtype)))


def exact_dot(x: Any) -> Any:
    return sum(x[i, j] * mp.mpf(float(WEIGHTS[i, j])) for i in range(x.rows) for j in range(x.cols))


def active_sessions() -> tuple[Any, ...]:
    return get_stack().sessions


def symmetric(m: Any) -> Any:
    return (m + tf.transpose(m)) / 2


# ---------------------------------------------------------------------------------------------- programs


def projector(m: Any) -> Any:
    _, v = linalg.eigh(symmetric(m))
    return dot(v[:, :2] @ tf.transpose(v[:, :2]))


def exact_projector(m: Any) -> Any:
    _, q = mp.eigsy((m + m.T) / 2)
    return exact_dot(q[:, :2] * q[:, :2].T)


def polar(m: Any) -> Any:
    _, u, v = linalg.svd(m)
    return dot(u @ tf.transpose(v))


def exact_polar(m: Any) -> Any:
    e, q = mp.eigsy(m.T * m)
    return exact_dot(m * q * mp.diag([1 / mp.sqrt(x) for x in e]) * q.T)


def left_projector(m: Any) -> Any:
    _, u, _ = linalg.svd(m)
    return dot(u[:, :2] @ tf.transpose(u[:, :2]))


def exact_left_projector(m: Any) -> Any:
    _, q = mp.eigsy(m * m.T)
    q = q[:, m.rows - 2 :]
    return exact_dot(q * q.T)


def nuclear(m: Any) -> Any:
    return tf.reduce_sum(linalg.svd(m, compute_uv=False))


def exact_nuclear(m: Any) -> Any:
    return sum(mp.sqrt(x) for x in mp.eigsy(m.T * m, eigvals_only=True))


class Case(NamedTuple):
    f: Callable[..., Any]
    exact: Callable[..., Any]
    at: Callable[[float], Any]


def diagonal(*values: float) -> Any:
    return np.diag(np.array(values))


def turned(m: Any) -> Any:
    m = TURN @ m @ TURN.T
    return (m + m.T) / 2


CASES = {
    "projector": Case(projector, exact_projector, lambda gap: diagonal(1.0, 1.0 + gap, 3.0)),
    "projector of a full matrix": Case(projector, exact_projector, lambda gap: turned(diagonal(1.0, 1.0 + gap, 3.0))),
    "polar factor": Case(polar, exact_polar, lambda gap: diagonal(3.0, 2.0 + gap, 2.0)),
    "polar factor of a tall matrix": Case(polar, exact_polar, lambda gap: diagonal(2.0 + gap, 2.0, 0.0)[:, :2]),
    "span of singular vectors": Case(left_projector, exact_left_projector, lambda gap: diagonal(2.0 + gap, 2.0, 1.0)),
    "span in a tall matrix": Case(left_projector, exact_left_projector, lambda gap: diagonal(2.0 + gap, 2.0, 0)[:, :2]),
    "nuclear norm": Case(nuclear, exact_nuclear, lambda gap: diagonal(3.0, 2.0 + gap, 2.0)),
}


# ---------------------------------------------------------------------------------------------- modes


def directions(m: Any) -> Iterator[Any]:
    for i in range(m.size):
        e = np.zeros(m.size, m.dtype)
        e[i] = 1
        yield e.reshape(m.shape)


def pulled(f: Callable[..., Any], x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return tf.convert_to_tensor(tape.gradient(y, x, unconnected_gradients="zero"))


def pushed(f: Callable[..., Any], x: Any, t: Any) -> Any:
    with tf.autodiff.ForwardAccumulator(x, tf.constant(t)) as acc:
        y = f(x)
    made = acc.jvp(y)
    return tf.zeros_like(y) if made is None else made


def first_derivatives(f: Callable[..., Any], m: Any) -> dict[str, Any]:
    x = tf.constant(m)
    return {
        "reverse": pulled(f, x).numpy().ravel(),
        "forward": np.array([pushed(f, x, e).numpy() for e in directions(m)]),
    }


def second_derivatives(f: Callable[..., Any], m: Any, t: Any) -> dict[str, Any]:
    x, along = tf.constant(m), tf.constant(t)
    return {
        "reverse over reverse": pulled(lambda x: tf.reduce_sum(pulled(f, x) * along), x).numpy().ravel(),
        "forward over reverse": pushed(lambda x: pulled(f, x), x, t).numpy().ravel(),
        "reverse over forward": pulled(lambda x: pushed(f, x, t), x).numpy().ravel(),
        "forward over forward": np.array([pushed(lambda x, e=e: pushed(f, x, e), x, t).numpy() for e in directions(m)]),
    }


def exact(m: Any) -> Any:
    return mp.matrix(m.astype(np.float64).tolist())


def exact_first(f: Callable[..., Any], m: Any) -> Any:
    a = exact(m)
    with mp.workdps(120):
        return np.array([float((f(a + STEP * exact(e)) - f(a - STEP * exact(e))) / (2 * STEP)) for e in directions(m)])


def exact_second(f: Callable[..., Any], m: Any, t: Any) -> Any:
    a, t = exact(m), STEP * exact(t)

    def slope(e: Any) -> Any:
        e = STEP * exact(e)
        return (f(a + e + t) - f(a - e + t) - f(a + e - t) + f(a - e - t)) / (4 * STEP * STEP)

    with mp.workdps(120):
        return np.array([float(slope(e)) for e in directions(m)])


def off(got: Any, right: Any) -> float:
    """The largest error, in units of the largest number or of 1."""
    return float(np.abs(got - right).max() / max(np.abs(right).max(), 1.0))


GAPS: list[tuple[Any, float]] = [(np.float64, 0.0), (np.float64, 1e-14), (np.float64, 1e-10), (np.float64, 1e-6)]
GAPS += [(np.float32, 0.0), (np.float32, 1e-6)]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("dtype", "gap"), GAPS)
def test_functions_of_a_span_have_their_derivatives_in_every_mode(name: str, dtype: Any, gap: float) -> None:
    case = CASES[name]
    m = case.at(gap).astype(dtype)
    t = DIRECTION[:, : m.shape[1]].astype(dtype)
    unit = float(np.finfo(dtype).eps)
    # Values of one cluster cost no digit. Others divide rounding by their difference, once for each derivative.
    apart = gap > 1e-13 and dtype == np.float64
    first = 64 * unit / (gap if apart else 1.0)
    for mode, got in first_derivatives(case.f, m).items():
        exactly = mode == "reverse" and gap < 1e-8
        assert off(got, exact_first(case.exact, m)) <= (64 * unit if exactly else first), mode
    if apart and gap < 1e-8:  # no digits are left of rounding divided by the square
        return
    second = 256 * unit / (gap * gap if apart else 1.0)
    for mode, got in second_derivatives(case.f, m, t).items():
        assert off(got, exact_second(case.exact, m, t)) <= second, mode


@pytest.mark.parametrize("gap", [0.0, 1e-14, 1e-10])
def test_reverse_over_reverse_keeps_all_digits_of_a_projector(gap: float) -> None:
    case = CASES["projector"]
    m = case.at(gap)
    got = second_derivatives(case.f, m, DIRECTION)["reverse over reverse"]
    assert off(got, exact_second(case.exact, m, DIRECTION)) <= 1e-13


def test_third_derivatives_of_a_projector_at_equal_eigenvalues() -> None:
    m = CASES["projector"].at(0.0)
    along = tf.constant(DIRECTION)

    def second(x: Any) -> Any:
        return tf.reduce_sum(pulled(lambda x: tf.reduce_sum(pulled(projector, x) * along), x) * along)

    got = pulled(second, tf.constant(m)).numpy()
    t, h = exact(DIRECTION), mp.mpf(10) ** -20
    with mp.workdps(120):
        for (i, j), value in np.ndenumerate(got):
            e = mp.matrix(3, 3)
            e[i, j] = h
            a, f = exact(m), exact_projector

            def curve(b: Any, f: Any = f) -> Any:
                return (f(b + h * t) - 2 * f(b) + f(b - h * t)) / (h * h)

            right = float((curve(a + e) - curve(a - e)) / (2 * h))
            assert abs(value - right) <= 1e-12 * max(1.0, abs(right))


def test_a_batch_may_hold_matrices_with_and_without_clusters() -> None:
    whole = np.stack([diagonal(1.0, 1.0, 3.0), turned(diagonal(1.0, 2.0, 3.0)), turned(diagonal(1.0, 1.0, 3.0))])
    t = np.stack([DIRECTION] * 3)

    def each(x: Any) -> Any:
        _, v = linalg.eigh((x + linalg.matrix_transpose(x)) / 2)
        w = v[..., :2]
        return tf.reduce_sum(tf.matmul(w, w, transpose_b=True) * WEIGHTS)

    together = second_derivatives(each, whole, t)["forward over reverse"].reshape(whole.shape)
    for i, m in enumerate(whole):
        alone = second_derivatives(projector, m, DIRECTION)["forward over reverse"].reshape(m.shape)
        np.testing.assert_allclose(together[i], alone, rtol=1e-12, atol=1e-12)


def test_vectors_of_values_that_rounding_tells_apart_keep_their_derivatives() -> None:
    m = np.array([[1.0, 0.0, 0.0], [0.0, 1.0 + 1e-9, 0.0], [0.0, 0.0, 3.0]])

    def mixed(x: Any) -> Any:
        return linalg.eigh(x)[1][0, 1] ** 2 + linalg.eigh(x)[1][0, 1]

    x = tf.constant(m)
    e = np.zeros((3, 3))
    e[1, 0] = 1.0
    slope = 1 / (1.0 + 1e-9 - 1.0)
    np.testing.assert_allclose(abs(pulled(mixed, x).numpy()[1, 0]), slope, rtol=1e-12)
    np.testing.assert_allclose(abs(pushed(mixed, x, e).numpy()), slope, rtol=1e-12)


# ---------------------------------------------------------------------------------------------- values alone


def values_of(m: Any) -> Any:
    return tf.reduce_sum(tf.constant([1.0, -2.0, 0.5][: m.shape[-1]], m.dtype) * linalg.eigvalsh(m))


def singular_values_of(m: Any) -> Any:
    return tf.reduce_sum(tf.constant([1.0, -2.0, 0.5][: m.shape[-1]], m.dtype) * linalg.svd(m, compute_uv=False))


UNEQUAL = {
    "1, 1 + 1e-13 and 3": (values_of, diagonal(1.0, 1.0 + 1e-13, 3.0)),
    "0, 1e-160 and 1": (values_of, diagonal(0.0, 1e-160, 1.0)),
    "0, 1e-300 and 1": (values_of, diagonal(0.0, 1e-300, 1.0)),
    "a full matrix": (values_of, turned(diagonal(1.0, 1.0 + 1e-14, 3.0))),
    "singular values 1 + 1e-15 and 1": (singular_values_of, diagonal(1.0 + 1e-15, 1.0)),
    "singular values 1, 2e-160 and 1e-160": (singular_values_of, diagonal(1.0, 2e-160, 1e-160)),
    "singular values of a tall matrix": (singular_values_of, diagonal(3.0, 1e-20, 0.0)[:, :2]),
    "single precision": (values_of, diagonal(1.0, 1.0 + 2.0**-22, 3.0).astype(np.float32)),
    "singular values in single precision": (singular_values_of, diagonal(1.0, 2e-30, 1e-30).astype(np.float32)),
}


@pytest.mark.parametrize("name", UNEQUAL)
def test_forward_mode_has_the_slopes_of_reverse_mode_at_all_values_that_differ(name: str) -> None:
    f, m = UNEQUAL[name]
    found = first_derivatives(f, m)
    np.testing.assert_allclose(found["forward"], found["reverse"], rtol=0, atol=16 * float(np.finfo(m.dtype).eps))
    negative = np.array([pushed(f, tf.constant(m), -e).numpy() for e in directions(m)])
    np.testing.assert_array_equal(negative, -found["forward"])


def test_forward_mode_takes_the_slopes_of_one_side_at_equal_values() -> None:
    m = diagonal(1.0, 1.0, 3.0)
    e = np.zeros((3, 3))
    e[0, 0] = 1.0
    assert pushed(values_of, tf.constant(m), e).numpy() == -2.0
    assert pushed(values_of, tf.constant(m), -e).numpy() == -1.0


def test_forward_products_at_close_eigenvalues_pass_the_check() -> None:
    m = diagonal(1.0, 1.0 + 1e-13, 3.0)
    with tf.verifying("strict"):
        for sign in (1.0, -1.0):
            got = pushed(values_of, tf.constant(m), sign * np.diag([1.0, 0.0, 0.0]))
            assert got.numpy() == sign


def exact_curvature(m: Any, first: Callable[[int, Any], Any], second: Callable[[int, Any], Any], t: Any) -> Any:
    """The Hessian of a function of the eigenvalues of (x + x')/2, times `t`, at a diagonal matrix (Daleckii-Krein)."""
    w, t = [mp.mpf(float(x)) for x in np.diag(m)], (t + t.T) / 2
    made = np.zeros(m.shape)
    with mp.workdps(700):
        for i, j in np.ndindex(*m.shape):
            d = w[i] - w[j]
            q = second(i, w[i]) if d == 0 else (first(i, w[i]) - first(j, w[j])) / d
            made[i, j] = float(q * mp.mpf(t[i, j]))
    return made.ravel()


def exponentials(m: Any) -> Any:
    return tf.reduce_sum(tf.exp(linalg.eigvalsh(symmetric(m))))


def weighted_exponentials(m: Any) -> Any:
    return tf.reduce_sum(tf.constant([1.0, -2.0, 0.5], m.dtype) * tf.exp(linalg.eigvalsh(symmetric(m))))


GAPS_OF_VALUES = [1e-300, 1e-160, 1e-20, 1e-14, 1e-13, 1e-12, 1e-10, 1e-8, 1e-6]
FACTORS = [mp.mpf(1), mp.mpf(-2), mp.mpf(0.5)]


@pytest.mark.parametrize("gap", GAPS_OF_VALUES)
@pytest.mark.parametrize("mode", ["reverse over reverse", "forward over reverse"])
def test_second_derivatives_of_values_keep_their_digits_at_every_gap(mode: str, gap: float) -> None:
    cases: list[tuple[Any, Any, Any]] = [
        (exponentials, lambda i, x: mp.exp(x), lambda i, x: mp.exp(x)),
        (weighted_exponentials, *[lambda i, x: FACTORS[i] * mp.exp(x)] * 2),
        (lambda m: values_of(symmetric(m)), lambda i, x: FACTORS[i], lambda i, x: 0),
    ]
    for m in (diagonal(1.0, 1.0 + gap, 3.0), diagonal(0.0, gap, 1.0)):
        if m[0, 0] == m[1, 1]:
            continue
        for f, first, second in cases:
            got = second_derivatives(f, m, DIRECTION)[mode]
            right = exact_curvature(m, first, second, DIRECTION)
            assert off(got, right) <= (1e-9 if gap == 1e-6 and f is exponentials else 1e-15), (m[1, 1], f)


@pytest.mark.parametrize("gap", [1e-17, 1e-20, 1e-160])
def test_mixed_mode_divides_by_the_smallest_differences(gap: float) -> None:
    m = diagonal(0.0, gap, 1.0)
    e = np.zeros((3, 3))
    e[1, 0] = 1.0
    got = pushed(lambda x: pulled(values_of, x), tf.constant(m), e).numpy()
    np.testing.assert_allclose(got[1, 0], -6.0 / gap, rtol=1e-15)


@pytest.mark.parametrize("gap", [1e-14, 1e-11, 1e-8])
def test_mixed_second_derivatives_of_values_pass_the_check(gap: float) -> None:
    m = diagonal(1.0, 1.0 + gap, 3.0)
    for f in (exponentials, values_of):
        right = second_derivatives(f, m, DIRECTION)["forward over reverse"]
        with tf.verifying("strict"):
            got = pushed(lambda x, f=f: pulled(f, x), tf.constant(m), DIRECTION).numpy().ravel()
        np.testing.assert_allclose(got, right, rtol=1e-15)


def test_an_accumulator_ends_all_that_it_opened() -> None:
    x = tf.constant(diagonal(1.0, 1.0 + 1e-14, 3.0))
    with tf.GradientTape() as tape:
        tape.watch(x)
        with tf.autodiff.ForwardAccumulator(x, tf.constant(DIRECTION)) as acc:
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = exponentials(x)
            g = inner.gradient(y, x)
        after = tf.reduce_sum(acc.jvp(g))
        assert tf.reduce_sum(x).numpy() == np.trace(x.numpy())
    assert tape.gradient(after, x) is not None
    assert not active_sessions()


# ---------------------------------------------------------------------------------------------- complex matrices


@pytest.mark.parametrize("gap", [0.0, 1e-14])
@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
def test_complex_matrices_have_first_derivatives_in_both_modes(dtype: Any, gap: float) -> None:
    turn = np.linalg.qr(WEIGHTS + 1j * DIRECTION)[0]
    m = (turn @ diagonal(1.0, 1.0 + gap, 3.0) @ turn.conj().T).astype(dtype)
    t = (DIRECTION + 1j * WEIGHTS).astype(dtype)

    def spectral(x: Any) -> Any:
        _, v = linalg.eigh((x + linalg.adjoint(x)) / 2)
        w = v[:, :2]
        return tf.reduce_sum(tf.math.real(w @ linalg.adjoint(w)) * WEIGHTS.astype(m.real.dtype))

    def factor(x: Any) -> Any:
        _, u, v = linalg.svd(x)
        return tf.reduce_sum(tf.math.real(u @ linalg.adjoint(v)) * WEIGHTS.astype(m.real.dtype))

    for f in (spectral, factor):
        step = 1e-6 * t.astype(np.complex128)
        wide = m.astype(np.complex128)
        if dtype == np.complex128:
            moved = [f(tf.constant(wide + s * step)).numpy() for s in (1, -1)]
            right = (moved[0] - moved[1]) / 2e-6
        else:
            right = pushed(f, tf.constant(wide), t.astype(np.complex128)).numpy().real if gap == 0 else None
        back = np.sum(np.conj(pulled(f, tf.constant(m)).numpy()) * t).real
        on = pushed(f, tf.constant(m), t).numpy().real
        np.testing.assert_allclose(back, on, rtol=1e-4 if dtype == np.complex64 else 1e-12)
        if right is not None and dtype == np.complex128:
            np.testing.assert_allclose(back, right, rtol=1e-7)


# ---------------------------------------------------------------------------------------------- verdicts


@pytest.mark.parametrize("gap", [0.0, 1e-14])
@pytest.mark.parametrize("order", [1, 2])
def test_right_derivatives_pass_the_check(gap: float, order: int) -> None:
    for m in (diagonal(1.0, 1.0 + gap, 3.0), turned(diagonal(1.0, 1.0 + gap, 3.0))):
        report = check(projector, m, order=order)
        assert report.ok, report.summary()


def test_right_tangents_pass_the_check() -> None:
    with tf.verifying("strict"):
        for name in ("projector", "projector of a full matrix", "polar factor"):
            case = CASES[name]
            for gap in (0.0, 1e-14):
                m = case.at(gap)
                got = float(pushed(case.f, tf.constant(m), DIRECTION).numpy())
                np.testing.assert_allclose(got, exact_first(case.exact, m) @ DIRECTION.ravel(), rtol=1e-12)


@pytest.mark.parametrize("gap", [1e-300, 1e-160, 1e-20])
def test_second_derivatives_by_the_smallest_differences_pass_the_check(gap: float) -> None:
    report = check(values_of, diagonal(0.0, gap, 1.0), order=2)
    assert report.ok, report.summary()


@pytest.mark.slow
@pytest.mark.parametrize("gap", [0.0, 1e-14])
def test_functions_that_mix_values_and_vectors_are_not_said_to_be_right(gap: float) -> None:
    def root(m: Any) -> Any:
        e, v = linalg.eigh(symmetric(m))
        return dot((v * tf.sqrt(e)) @ tf.transpose(v))

    def logs(m: Any) -> Any:
        return tf.reduce_sum(tf.math.log(linalg.eigvalsh(symmetric(m))))

    m = diagonal(2.0, 2.0 + gap, 3.0)
    assert check(logs, m).verdict == "correct"
    assert check(logs, m, order=2).verdict == ("convention" if gap == 0 else "correct")  # assumes that values are equal
    assert check(root, m).verdict in ({"domain"} if gap == 0 else {"cancellation", "conditioning"})
    right = exact_first(lambda m: exact_dot(mp.sqrtm((m + m.T) / 2)), m)
    with tf.verifying("strict"):  # vectors turn towards one direction, which is all that it needs
        along = float(pushed(root, tf.constant(m), DIRECTION).numpy())
    assert abs(along - right @ DIRECTION.ravel()) <= 1e-13
    right = right.reshape(3, 3)
    assert judge(root, m, right).ok
    assert not judge(root, m, right * (1 + 1e-6)).ok


@pytest.mark.slow
def test_the_report_has_the_exact_derivative_that_rules_miss() -> None:
    def root(m: Any) -> Any:
        e, v = linalg.eigh(m)
        return tf.reduce_sum(((v * tf.sqrt(e)) @ tf.transpose(v)) ** 3)

    (wrong,) = [f for f in check(root, np.eye(2), order=2).findings if not f.ok]
    assert wrong.verdict == "domain" and "the function as a whole has the exact derivative" in wrong.reason
    assert wrong.exact is not None and float(wrong.exact) == -1.5
