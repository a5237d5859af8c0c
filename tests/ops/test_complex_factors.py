"""Factorisations of complex matrices: values, TensorFlow's conjugate convention, exact derivatives, shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape import linalg
from gtape.errors import UnimplementedError
from gtape.verify import check

RNG = np.random.default_rng(20)
Z = RNG.normal(size=(3, 3)) + 1j * RNG.normal(size=(3, 3))
H = Z @ Z.conj().T
TALL = RNG.normal(size=(3, 2)) + 1j * RNG.normal(size=(3, 2))
B = RNG.normal(size=(3, 1)) + 1j * RNG.normal(size=(3, 1))
DIAGONALS = RNG.normal(size=(3, 3)) + 1j * RNG.normal(size=(3, 3)) + 3 * np.array([[0], [1], [0]])


def adjoint(a: Any) -> Any:
    return np.conj(np.swapaxes(a, -1, -2))


def weighed(y: Any) -> Any:
    """A real number that depends on every part of `y`."""
    ys = y if isinstance(y, tuple) else (y,)
    total = 0.0
    for i, v in enumerate(ys):
        w = np.cos(np.arange(1.0, 1 + int(np.prod(v.shape))) * (i + 1)).reshape(v.shape)
        if v.dtype.is_complex:
            total = total + tf.reduce_sum(tf.math.real(v * tf.cast(tf.constant(w * (2 - 1j) + 0.5), v.dtype)))
        else:
            total = total + tf.reduce_sum(v * tf.cast(tf.constant(w), v.dtype))
    return total


CASES: dict[str, tuple[Callable[..., Any], Any]] = {
    "cholesky": (linalg.cholesky, H),
    "logdet": (linalg.logdet, H),
    "slogdet": (lambda a: tuple(linalg.slogdet(a)), Z),
    "det": (linalg.det, Z),
    "inv": (linalg.inv, Z),
    "solve": (lambda a: linalg.solve(a, tf.constant(B)), Z),
    "triangular_solve": (lambda a: linalg.triangular_solve(a, tf.constant(B), adjoint=True), Z),
    "cholesky_solve": (lambda a: linalg.cholesky_solve(a, tf.constant(B)), Z),
    "tridiagonal_solve": (lambda d: linalg.tridiagonal_solve(d, tf.constant(B)), DIAGONALS),
    "qr": (lambda a: linalg.qr(a)[1], TALL),
    "q": (lambda a: linalg.qr(a)[0], Z),
    "qr, wide": (lambda a: linalg.qr(a)[1], TALL.T),
    "eigvalsh": (linalg.eigvalsh, H),
    "eigh": (linalg.eigh, H),
    "eig": (linalg.eig, Z),
    "singular values": (lambda a: linalg.svd(a, compute_uv=False), Z),
    "svd": (linalg.svd, TALL),
    "svd, wide": (linalg.svd, TALL.T),
    "pinv": (linalg.pinv, TALL),
    "lstsq": (lambda a: linalg.lstsq(a, tf.constant(B)), TALL),
    "lstsq, wide": (lambda a: linalg.lstsq(a, tf.constant(B[:2])), TALL.T),
    "lstsq, regularized": (lambda a: linalg.lstsq(a, tf.constant(B), l2_regularizer=0.5), TALL),
    "expm": (linalg.expm, Z),
    "normalize": (lambda a: linalg.normalize(a)[0], Z),
}
HERMITIAN = {"cholesky", "logdet", "eigvalsh", "eigh"}
SECOND = ["cholesky", "qr", "eigvalsh", "singular values", "pinv", "tridiagonal_solve", "slogdet"]


def gradient(f: Callable[..., Any], a: Any) -> Any:
    x = tf.constant(a)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = weighed(f(x))
    return tape.gradient(y, x)


@pytest.mark.parametrize("name", CASES)
def test_the_gradient_is_the_exact_one(name: str) -> None:
    f, a = CASES[name]
    report = check(lambda x: weighed(f(x)), a)
    assert report.ok and report.verdict in ("correct", "conditioning"), report.summary()


@pytest.mark.parametrize("name", CASES)
def test_a_loss_moves_along_the_conjugate_convention(name: str) -> None:
    f, a = CASES[name]
    step = np.random.default_rng(1).normal(size=(*a.shape, 2)) @ [1, 1j]
    if name in HERMITIAN:
        step = step + adjoint(step)
    h = 1e-6
    moved = [float(weighed(f(tf.constant(a + s * h * step)))) for s in (1, -1)]
    along = np.sum(np.conj(gradient(f, a).numpy()) * step).real
    np.testing.assert_allclose(along, (moved[0] - moved[1]) / (2 * h), rtol=1e-6, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", SECOND)
def test_second_derivatives_are_exact(name: str) -> None:
    f, a = CASES[name]
    a = a[..., :2, :2] if a.shape[-1] > 2 and name != "tridiagonal_solve" else a
    report = check(lambda x: weighed(f(x)), a, order=2)
    assert report.ok, report.summary()


def test_the_numbers_are_tensorflows() -> None:
    """As TensorFlow 2.21 gives them."""
    a = np.array([[4.0, 1 - 1j], [1 + 1j, 3.0]])

    def of(f: Callable[..., Any], a: Any) -> Any:
        x = tf.constant(a)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        return tape.gradient(y, x).numpy()

    np.testing.assert_allclose(of(linalg.cholesky, a), TENSORFLOW["cholesky"], atol=1e-14)
    np.testing.assert_allclose(of(linalg.eigvalsh, a), TENSORFLOW["eigvalsh"], atol=1e-14)
    np.testing.assert_allclose(of(lambda x: linalg.svd(x)[0] ** 3, a), TENSORFLOW["svd"], atol=1e-12)
    np.testing.assert_allclose(of(lambda x: linalg.qr(x)[1], a + np.diag([1j, -2j])), TENSORFLOW["qr"], atol=1e-14)
    np.testing.assert_allclose(of(linalg.expm, a), TENSORFLOW["expm"], rtol=1e-12)
    np.testing.assert_allclose(of(lambda x: linalg.slogdet(x)[1], a), TENSORFLOW["slogdet"], atol=1e-14)


TENSORFLOW: dict[str, Any] = {
    "cholesky": [
        [(0.22702847075210475 + 0j), (0.1709430584957905 + 0.07905694150420949j)],
        [(0.1709430584957905 - 0.07905694150420949j), (0.31622776601683794 + 0j)],
    ],
    "eigvalsh": [[(1 + 0j), 0j], [(-1.1102230246251565e-16 + 1.1102230246251565e-16j), (0.9999999999999996 + 0j)]],
    "svd": [
        [(54.00000000000003 + 0j), (21.000000000000004 - 21.000000000000004j)],
        [(21.000000000000007 + 21.000000000000007j), (33.000000000000014 + 0j)],
    ],
    "qr": [
        [(-1.1377905829612875 + 0.04644043195760339j), (-0.7941313864750212 - 0.5294209243166809j)],
        [(-0.41239103578351993 + 0.558213992130395j), (-0.9882523920578045 + 0.3352999187338979j)],
    ],
    "expm": [
        [(155.27828649506841 + 1.1368683772161603e-13j), (107.74632345407895 - 60.73828911952967j)],
        [(107.74632345407872 + 60.73828911952978j), (94.5399973755392 + 1.2789769243681803e-13j)],
    ],
    "slogdet": [[(0.3 + 0j), (-0.1 + 0.1j)], [(-0.1 - 0.1j), (0.4 + 0j)]],
}


def test_factors_make_the_matrix_again() -> None:
    chol = linalg.cholesky(tf.constant(H)).numpy()
    np.testing.assert_allclose(chol @ adjoint(chol), H, atol=1e-12)
    assert (np.triu(chol, 1) == 0).all() and (np.diagonal(chol).imag == 0).all()
    for a in (Z, TALL, TALL.T):
        q, r = (t.numpy() for t in linalg.qr(tf.constant(a)))
        np.testing.assert_allclose(q @ r, a, atol=1e-12)
        lapack_q, lapack_r = np.linalg.qr(a)
        np.testing.assert_allclose(q, lapack_q, atol=1e-12)
        np.testing.assert_allclose(r, lapack_r, atol=1e-12)
        s, u, v = (t.numpy() for t in linalg.svd(tf.constant(a)))
        np.testing.assert_allclose(u * s @ adjoint(v), a, atol=1e-12)
    w, v = (t.numpy() for t in linalg.eigh(tf.constant(np.tril(H) + np.triu(Z, 1))))
    assert w.dtype == np.complex128 and (np.diff(w.real) > 0).all() and (w.imag == 0).all()
    np.testing.assert_allclose(v * w @ adjoint(v), H, atol=1e-12)


def test_eigenvalues_of_hermitian_matrices_read_the_lower_triangle_and_so_does_their_gradient() -> None:
    g = gradient(linalg.eigvalsh, H).numpy()
    assert (np.triu(g, 1) == 0).all() and (np.diagonal(g).imag == 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("a", [np.eye(3) + 0j, np.diag([2.0, 2.0, 5.0]) + 0j], ids=["unit", "diagonal"])
def test_equal_eigenvalues_are_differentiated_where_the_basis_does_not_matter(a: Any) -> None:
    for f in (lambda x: tf.reduce_sum(linalg.eigvalsh(x) ** 3), lambda x: tf.reduce_sum(linalg.svd(x)[0] ** 3)):
        report = check(lambda x, f=f: tf.math.real(f(x)), a)
        assert report.ok, report.summary()
    for f in (lambda x: linalg.eigh(x)[1][0, 0], lambda x: linalg.svd(x)[1][0, -1]):
        report = check(lambda x, f=f: tf.math.real(f(x)), a)
        assert report.verdict == "domain" and "eigenvalues meet" in report.summary(), report.summary()


def test_the_direction_of_a_determinant_has_a_derivative() -> None:
    large = np.diag(np.full(100, 1e3j)) + RNG.normal(size=(100, 100))
    sign, log = linalg.slogdet(tf.constant(large))
    exact = np.linalg.slogdet(large)
    np.testing.assert_allclose(sign.numpy(), exact[0], rtol=1e-10)
    np.testing.assert_allclose(log.numpy(), exact[1], rtol=1e-12)
    assert np.isfinite(gradient(lambda a: linalg.slogdet(a)[0], large).numpy()).all()


ROWS = [("cholesky", H), ("qr", TALL), ("eigvalsh", H), ("singular values", Z), ("pinv", TALL), ("expm", Z)]


@pytest.mark.parametrize(("name", "a"), ROWS, ids=[n for n, _ in ROWS])
def test_batches_single_precision_and_forward_mode(name: str, a: Any) -> None:
    f, _ = CASES[name]
    one = gradient(f, a).numpy()
    x = tf.constant(np.stack([a, 2 * a]))
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = weighed(f(x)[0])
    np.testing.assert_allclose(tape.gradient(y, x).numpy()[0], one, atol=1e-12 * np.abs(one).max())
    single = gradient(f, a.astype(np.complex64))
    assert single.dtype == tf.complex64
    np.testing.assert_allclose(single.numpy(), one, atol=2e-5 * np.abs(one).max())
    step = np.random.default_rng(2).normal(size=(*a.shape, 2)) @ [1, 1j]
    step = step + adjoint(step) if name in HERMITIAN else step
    primal = tf.constant(a)
    with tf.autodiff.ForwardAccumulator(primal, tf.constant(step)) as acc:
        z = weighed(f(primal))
    np.testing.assert_allclose(acc.jvp(z).numpy(), np.sum(np.conj(one) * step).real, rtol=1e-10)


@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 0), (0, 2, 2), (1, 1)])
@pytest.mark.parametrize("dtype", [np.float64, np.complex64])
def test_empty_and_smallest_matrices_have_empty_and_smallest_gradients(shape: tuple[int, ...], dtype: Any) -> None:
    a = np.full(shape, 2, dtype)
    for f in (linalg.eigh, linalg.eig, linalg.svd, linalg.qr, linalg.pinv, linalg.expm, linalg.cholesky):
        x = tf.constant(a)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        g = tape.gradient(list(y) if isinstance(y, tuple) else y, x)
        assert g.shape == shape and g.dtype == x.dtype and np.isfinite(g.numpy()).all()


@pytest.mark.parametrize("a", [TALL, RNG.normal(size=(4, 2)), RNG.normal(size=(2, 4))], ids=["complex", "tall", "wide"])
def test_whole_spaces_that_full_matrices_add_are_differentiated_single_columns_are_not(a: Any) -> None:
    tall = a.shape[0] > a.shape[1]
    k = min(a.shape)
    x = tf.constant(a)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        _, u, v = linalg.svd(x, full_matrices=True)
        added, kept = ((u if tall else v)[:, k:], (u if tall else v)[:, :k])
        weights = np.arange(1.0, 1 + added.shape[0] ** 2).reshape(added.shape[0], -1).astype(a.dtype)
        outside = tf.reduce_sum(tf.math.real(tf.matmul(added, added, adjoint_b=True) * weights))
        inside = tf.reduce_sum(tf.math.real(tf.matmul(kept, kept, adjoint_b=True) * weights))
        one = tf.math.real(added[0, 0])
    np.testing.assert_allclose(tape.gradient(outside, x).numpy(), -tape.gradient(inside, x).numpy(), atol=1e-11)
    with pytest.raises(UnimplementedError, match="not determined"):
        tape.gradient(one, x)


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
def test_a_cholesky_factor_reads_the_lower_triangle_and_products_that_are_hermitian_up_to_rounding_are_fine(
    dtype: Any,
) -> None:
    a = H.astype(dtype)
    changed = a + np.triu(np.ones((3, 3), dtype), 1) + 1j * np.eye(3, dtype=dtype)
    factors = [linalg.cholesky(tf.constant(m)).numpy() for m in (changed, a)]
    np.testing.assert_allclose(factors[0], factors[1], rtol=16 * np.finfo(dtype).eps)
    g = gradient(linalg.cholesky, a).numpy()
    np.testing.assert_allclose(g, adjoint(g), atol=1e-12 if dtype is np.complex128 else 1e-5)
    report = check(lambda x: weighed(linalg.cholesky(tf.matmul(x, x, adjoint_b=True))), Z.astype(dtype))
    assert report.ok, report.summary()
