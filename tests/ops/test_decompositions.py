"""Factorisations: what they return, TensorFlow's arguments, and derivatives that are the exact ones."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import arb, arb_mat
from hypothesis import given
from hypothesis import strategies as st
from nestings import derivatives

import gtape as tf
from gtape import linalg
from gtape.errors import InvalidArgumentError, UnimplementedError
from gtape.kernels.matrix_pairs import matmul_pairs
from gtape.symbolic.balls import precision
from gtape.verify import check

RNG = np.random.default_rng(12)
SQUARE = RNG.normal(size=(3, 3))
SYMMETRIC = SQUARE @ SQUARE.T
TALL = RNG.normal(size=(3, 2))
WIDE = np.ascontiguousarray(TALL.T)
RIGHT = RNG.normal(size=(3, 2))
W = RNG.normal(size=(4, 4))
TURNING = np.array([[0.5, -1.0], [2.0, 0.25]])
BANDS = RNG.normal(size=(3, 4)) + [[0], [4], [0]]


def dot(x: Any) -> Any:
    """A generic linear function of a vector or matrix."""
    shape = tuple(x.shape)
    return tf.reduce_sum(x * W[: shape[0], : shape[1]] if len(shape) == 2 else x * W[0, : shape[0]])


# ---------------------------------------------------------------------------------------------- what comes out


def test_eigh_gives_ascending_values_and_orthonormal_vectors() -> None:
    e, v = linalg.eigh(np.stack([SYMMETRIC, np.diag([3.0, 1.0, 2.0])]))
    assert e.shape == (2, 3) and v.shape == (2, 3, 3)
    assert (np.diff(e.numpy(), axis=-1) > 0).all()
    np.testing.assert_allclose(np.matmul(SYMMETRIC, v.numpy()[0]), v.numpy()[0] * e.numpy()[0], atol=1e-13)
    np.testing.assert_array_equal(e.numpy()[1], [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(linalg.eigvalsh(SYMMETRIC).numpy(), e.numpy()[0])


def test_eigh_reads_the_lower_triangle_and_its_gradient_is_one() -> None:
    a = tf.Variable(np.tril(SYMMETRIC) + np.triu(np.full((3, 3), 99.0), 1))
    with tf.GradientTape() as tape:
        e = linalg.eigvalsh(a)
        top = e[2]
    np.testing.assert_allclose(e.numpy(), linalg.eigvalsh(SYMMETRIC).numpy())
    g = tape.gradient(top, a).numpy()
    v = linalg.eigh(SYMMETRIC)[1].numpy()[:, 2]
    outer = np.outer(v, v)
    np.testing.assert_allclose(g, np.tril(2 * outer) - np.diag(np.diag(outer)), atol=1e-14)


def test_svd_gives_values_left_and_right_vectors_the_latter_not_transposed() -> None:
    for a in (TALL, WIDE, np.stack([SQUARE, SYMMETRIC])):
        s, u, v = linalg.svd(a)
        assert (np.diff(s.numpy(), axis=-1) < 0).all()
        np.testing.assert_allclose(
            (u.numpy() * s.numpy()[..., None, :]) @ np.swapaxes(v.numpy(), -1, -2), a, atol=1e-13
        )
    assert linalg.svd(TALL, compute_uv=False).shape == (2,)


def test_svd_with_full_matrices_completes_both() -> None:
    s, u, v = linalg.svd(TALL, full_matrices=True)
    assert s.shape == (2,) and u.shape == (3, 3) and v.shape == (2, 2)
    np.testing.assert_allclose(u.numpy().T @ u.numpy(), np.eye(3), atol=1e-14)
    assert linalg.svd(WIDE, True)[2].shape == (3, 3)


def test_columns_that_are_not_determined_have_no_derivative() -> None:
    a = tf.Variable(RNG.normal(size=(4, 2)))
    with tf.GradientTape(persistent=True) as tape:
        s, u, _ = linalg.svd(a, full_matrices=True)
        y = tf.reduce_sum(u)
    assert u.shape == (4, 4)
    assert np.isfinite(tape.gradient(s, a).numpy()).all()
    with pytest.raises(UnimplementedError, match="not determined"):
        tape.gradient(y, a)


def test_qr_gives_orthonormal_columns_and_an_upper_triangle() -> None:
    for a, full in ((TALL, False), (WIDE, False), (TALL, True), (np.stack([SQUARE, SYMMETRIC]), False)):
        q, r = linalg.qr(a, full)
        np.testing.assert_allclose(np.matmul(q.numpy(), r.numpy()), a, atol=1e-13)
        np.testing.assert_array_equal(np.tril(r.numpy(), -1), np.zeros_like(r.numpy()))
    q, r = linalg.qr(TALL, full_matrices=True)
    assert q.shape == (3, 3) and r.shape == (3, 2)


def test_pinv_drops_small_singular_values() -> None:
    np.testing.assert_allclose(linalg.pinv(TALL).numpy(), np.linalg.pinv(TALL), atol=1e-13)
    np.testing.assert_allclose(linalg.pinv(np.diag([1.0, 1e-3]), rcond=0.01).numpy(), np.diag([1.0, 0.0]))
    np.testing.assert_allclose(linalg.pinv(np.ones((2, 2))).numpy(), np.full((2, 2), 0.25))


def test_lstsq_solves_tall_wide_regularized_and_rank_deficient_equations() -> None:
    np.testing.assert_allclose(linalg.lstsq(TALL, RIGHT).numpy(), np.linalg.lstsq(TALL, RIGHT)[0])
    np.testing.assert_allclose(linalg.lstsq(WIDE, RIGHT[:2]).numpy(), np.linalg.lstsq(WIDE, RIGHT[:2])[0])
    for a, b in ((TALL, RIGHT), (WIDE, RIGHT[:2])):
        exact = np.linalg.solve(a.T @ a + 0.5 * np.eye(a.shape[1]), a.T @ b)
        np.testing.assert_allclose(linalg.lstsq(a, b, l2_regularizer=0.5).numpy(), exact)
    flat = np.ones((3, 2))
    np.testing.assert_allclose(linalg.lstsq(flat, RIGHT, fast=False).numpy(), np.linalg.pinv(flat) @ RIGHT)
    with pytest.raises(InvalidArgumentError, match="fast=False"):
        linalg.lstsq(np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]]), RIGHT)


def test_expm_of_known_matrices() -> None:
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])
    np.testing.assert_allclose(linalg.expm(turn).numpy(), [[np.cos(1), -np.sin(1)], [np.sin(1), np.cos(1)]], rtol=1e-15)
    exact = [[1, 1, 0.5], [0, 1, 1], [0, 0, 1]]
    np.testing.assert_allclose(linalg.expm(np.diag([1.0, 1.0], 1)).numpy(), exact, rtol=1e-15)
    np.testing.assert_allclose(linalg.expm([[[2.0]], [[-800.0]]]).numpy().ravel(), np.exp([2.0, -800.0]), rtol=1e-7)
    assert linalg.expm(np.zeros((2, 0, 0))).shape == (2, 0, 0)


@pytest.mark.parametrize("form", ["compact", "sequence"])
@pytest.mark.parametrize("op", [linalg.tridiagonal_matmul, linalg.tridiagonal_solve])
@pytest.mark.parametrize("ignored", [np.nan, np.inf, -np.inf])
def test_ignored_elements_of_the_diagonals_change_nothing(ignored: float, op: Any, form: str) -> None:
    def made(last: float) -> list[Any]:
        above, main, below = (tf.constant(row) for row in BANDS)
        above = tf.concat([above[:-1], [last]], 0)
        below = tf.concat([[-last], below[1:]], 0)
        d = tf.stack([above, main, below])
        b = tf.constant(W[:, :2])
        with tf.GradientTape(persistent=True) as outer:
            outer.watch([d, b])
            with tf.GradientTape() as tape:
                tape.watch([d, b])
                y = op(d if form == "compact" else (d[0], d[1], d[2]), b, diagonals_format=form)
                z = tf.reduce_sum(y * y * y)
            slopes = tape.gradient(z, [d, b])
        return [y, *slopes, *(g for slope in slopes for g in outer.gradient(slope, [d, b]))]

    for got, expected in zip(made(ignored), made(1.0), strict=True):
        np.testing.assert_array_equal(got.numpy(), expected.numpy())
    slope = made(ignored)[1].numpy()
    assert slope[0, -1] == 0 and slope[2, 0] == 0


def test_tridiagonal_formats_mean_the_same() -> None:
    above, main, below = BANDS
    dense = np.diag(main) + np.diag(above[:-1], 1) + np.diag(below[1:], -1)
    exact = np.linalg.solve(dense, W[:, :2])
    sequences = [(above, main, below), (above[:-1], main, below[1:])]
    for made in (
        linalg.tridiagonal_solve(BANDS, W[:, :2]),
        linalg.tridiagonal_solve(dense, W[:, :2], "matrix"),
        *[linalg.tridiagonal_solve(s, W[:, :2], diagonals_format="sequence") for s in sequences],
        linalg.tridiagonal_solve(BANDS, np.ascontiguousarray(W[:, :2].T), transpose_rhs=True),
    ):
        np.testing.assert_allclose(made.numpy(), exact)
    np.testing.assert_allclose(linalg.tridiagonal_solve(BANDS, W[:, 0]).numpy(), exact[:, 0])
    for form, d in (("compact", BANDS), ("matrix", dense), ("sequence", sequences[1])):
        np.testing.assert_allclose(linalg.tridiagonal_matmul(d, W[:, :2], form).numpy(), dense @ W[:, :2])
    with pytest.raises(ValueError, match="diagonals_format"):
        linalg.tridiagonal_solve(BANDS, W[:, 0], "rows")
    with pytest.raises(InvalidArgumentError, match="not invertible"):
        linalg.tridiagonal_solve(np.zeros((3, 2)), [1.0, 1.0])


@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("lower", [True, False])
def test_banded_triangular_equations_read_nothing_outside_the_matrix(lower: bool, adjoint: bool) -> None:
    bands = np.array([[4.0, 5.0, 6.0], [np.nan, 2.0, 3.0]] if lower else [[2.0, 3.0, np.nan], [4.0, 5.0, 6.0]])
    dense = np.diag([4.0, 5.0, 6.0]) + np.diag([2.0, 3.0], -1 if lower else 1)
    exact = np.linalg.solve(dense.T if adjoint else dense, RIGHT)
    np.testing.assert_allclose(linalg.banded_triangular_solve(bands, RIGHT, lower, adjoint).numpy(), exact)
    np.testing.assert_allclose(linalg.banded_triangular_solve(bands, RIGHT[:, 0], lower, adjoint).numpy(), exact[:, 0])


def test_normalize_gives_the_norm_too() -> None:
    unit, norm = linalg.normalize(TALL, axis=0)
    np.testing.assert_allclose(norm.numpy(), np.linalg.norm(TALL, axis=0, keepdims=True))
    np.testing.assert_allclose((unit * norm).numpy(), TALL)


def test_normalize_keeps_the_slope_along_an_element_that_is_nearly_all() -> None:
    x = tf.constant(np.array([1.0, 1e-9, -1e-9]))
    with tf.GradientTape() as tape:
        tape.watch(x)
        unit, _ = linalg.normalize(x)
    np.testing.assert_allclose(tape.jacobian(unit, x).numpy()[0], [2e-18, -1e-9, 1e-9], rtol=1e-15)
    zero, norm = linalg.normalize(tf.zeros(2))
    assert np.isnan(zero.numpy()).all() and norm.numpy() == 0  # as in TensorFlow


def test_tensor_diag_and_its_part_are_inverse() -> None:
    d = linalg.tensor_diag(TALL)
    assert d.shape == (3, 2, 3, 2) and float(d[2, 1, 2, 1]) == TALL[2, 1] and float(d[2, 1, 1, 1]) == 0
    np.testing.assert_array_equal(linalg.tensor_diag_part(d).numpy(), TALL)
    with pytest.raises(InvalidArgumentError):
        linalg.tensor_diag_part(TALL)


def test_eig_takes_real_and_complex_matrices() -> None:
    complex_ones = SQUARE + 1j * SYMMETRIC
    for a in (SQUARE, complex_ones, np.stack([complex_ones, np.diag([1.0, 2.0, 3.0])])):
        e, v = linalg.eig(a)
        assert e.dtype == v.dtype == tf.complex128
        np.testing.assert_allclose(np.matmul(a, v.numpy()), v.numpy() * e.numpy()[..., None, :], atol=1e-13)
        np.testing.assert_allclose(np.linalg.norm(v.numpy(), axis=-2), 1.0)
        np.testing.assert_array_equal(linalg.eigvals(a).numpy(), e.numpy())
    assert linalg.eig(SQUARE.astype(np.float32))[0].dtype == tf.complex64


_LARGE: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "all elements equal": lambda rng, n: np.full((n, n), 1.0),
    "symmetric": lambda rng, n: (lambda a: a + a.T)(rng.normal(size=(n, n))),
    "far from normal": lambda rng, n: np.triu(rng.normal(size=(n, n))) * 4.0,
    "near a diagonal": lambda rng, n: np.diag(rng.uniform(-1.0, 1.0, n)) * 10.0 + rng.normal(size=(n, n)),
    "rotations": lambda rng, n: (lambda a: a - a.T)(rng.normal(size=(n, n))),
}


@pytest.mark.parametrize("n", [2, 3, 5])
@pytest.mark.parametrize("norm", [1e-3, 1.0, 20.0, 300.0])
@pytest.mark.parametrize("name", _LARGE)
def test_expm_is_right_to_a_few_roundings_of_its_largest_element(name: str, norm: float, n: int) -> None:
    a = _LARGE[name](np.random.default_rng(n), n)
    a *= norm / np.linalg.norm(a)
    made = linalg.expm(a).numpy().tolist()
    with precision(400):
        exact = arb_mat([[arb(x) for x in row] for row in a.tolist()]).exp()
        size = max(abs(float(e.mid())) for e in exact.entries())
        errors = [abs(float((exact[i, j] - arb(made[i][j])).mid())) for i in range(n) for j in range(n)]
    assert max(errors) <= 3 * 2.0**-53 * size


@pytest.mark.parametrize("n", [2, 5])
def test_expm_of_triangles_is_right_to_a_few_roundings_of_each_element(n: int) -> None:
    rng = np.random.default_rng(n)
    for size in (1.0, 1e6, 1e12):
        a = np.triu(rng.uniform(0.5, 1.0, (n, n)), 1) * size + np.diag(rng.normal(size=n))
        made = linalg.expm(a).numpy().tolist()
        with precision(2000):
            exact = arb_mat([[arb(x) for x in row] for row in a.tolist()]).exp()
            for i, j in zip(*np.triu_indices(n), strict=True):
                assert abs(float((arb(made[i][j]) / exact[i, j] - 1).mid())) <= 4 * 2.0**-53


def test_expm_of_the_largest_numbers() -> None:
    cases: list[tuple[Any, Any]] = [
        ([[1e308, 1e308], [1e308, 1e308]], np.full((2, 2), np.inf)),
        ([[1e200, 1e200], [0.0, 1e200]], [[np.inf, np.inf], [0.0, np.inf]]),
        ([[0.0, 1e300], [0.0, 0.0]], [[1.0, 1e300], [0.0, 1.0]]),
        ([[-1e308, 0.0], [0.0, -1e308]], np.zeros((2, 2))),
        ([[-1200.0, 700.0], [700.0, -1200.0]], np.full((2, 2), np.exp(-500.0) / 2)),
        ([[0.0, -1e5], [1e5, 0.0]], [[np.cos(1e5), -np.sin(1e5)], [np.sin(1e5), np.cos(1e5)]]),
    ]
    for a, expected in cases:
        np.testing.assert_allclose(linalg.expm(np.array(a)).numpy(), expected, rtol=1e-15)
    batch = linalg.expm(np.stack([np.eye(2), np.full((2, 2), 1e3)])).numpy()
    np.testing.assert_array_equal(batch[0], linalg.expm(np.eye(2)).numpy())
    assert np.isinf(batch[1]).all()


def test_products_in_pairs_have_more_digits_than_floats() -> None:
    rng = np.random.default_rng(0)
    for n in (1, 2, 7, 40):
        a, b = (rng.normal(size=(2, n, n)) * 10.0 ** rng.integers(-3, 3, (2, n, 1)) for _ in range(2))
        low = 2.0**-54 * rng.uniform(-1.0, 1.0, a.shape) * a
        high, rest = matmul_pairs((a, low), (b, np.zeros_like(b)))
        for k in range(2):
            for i, j in [(0, 0), (n - 1, 0), (n // 2, n - 1)]:
                terms = [(Fraction(a[k, i, m]) + Fraction(low[k, i, m])) * Fraction(b[k, m, j]) for m in range(n)]
                size = float(np.abs(a[k, i]).max() * np.abs(b[k, :, j]).max()) * n
                assert abs(float(sum(terms) - Fraction(high[k, i, j]) - Fraction(rest[k, i, j]))) <= 2.0**-70 * size


@pytest.mark.parametrize("f", [linalg.eigh, linalg.eigvalsh, linalg.expm, linalg.eig, linalg.eigvals])
def test_square_matrices_of_floats_are_needed(f: Callable[..., Any]) -> None:
    with pytest.raises(InvalidArgumentError, match="square"):
        f(TALL)
    with pytest.raises(InvalidArgumentError, match="cast"):
        f([[1, 2], [2, 1]])


@pytest.mark.parametrize("f", [linalg.eigh, linalg.svd, linalg.qr, linalg.pinv, linalg.expm])
def test_half_precision_and_single_keep_their_dtype(f: Callable[..., Any]) -> None:
    for dtype in (np.float16, np.float32):
        out = f(SYMMETRIC.astype(dtype))
        assert all(o.numpy().dtype == dtype for o in (out if isinstance(out, tuple) else (out,)))


def test_a_matrix_with_nan_gives_nan_and_leaves_the_others_alone() -> None:
    a = np.stack([np.full((2, 2), np.nan), np.eye(2)])
    for part in (*linalg.eigh(a), *linalg.svd(a), *linalg.qr(a), linalg.expm(a), linalg.pinv(a)):
        assert np.isnan(part.numpy()[0]).all() and np.isfinite(part.numpy()[1]).all()


# ---------------------------------------------------------------------------------------------- derivatives


def dot_parts(z: Any) -> Any:
    """The same of a complex one."""
    return dot(tf.math.real(z)) + 2 * dot(tf.math.imag(z) ** 2)


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "eigenvalues": (lambda a: dot(linalg.eigvalsh(a)), (SYMMETRIC,)),
    "eigenvectors": (lambda a: dot(linalg.eigh(a)[1]), (SYMMETRIC,)),
    "singular values": (lambda a: dot(linalg.svd(a, compute_uv=False)), (TALL,)),
    "left singular vectors": (lambda a: dot(linalg.svd(a)[1]), (TALL,)),
    "right singular vectors": (lambda a: dot(linalg.svd(a)[2]), (WIDE,)),
    "full singular vectors": (lambda a: dot(linalg.svd(a, full_matrices=True)[1]), (TALL,)),
    "q": (lambda a: dot(linalg.qr(a)[0]), (TALL,)),
    "r": (lambda a: dot(linalg.qr(a)[1]), (TALL,)),
    "r of a wide matrix": (lambda a: dot(linalg.qr(a)[1]), (WIDE,)),
    "eigenvalues of any matrix": (lambda a: dot_parts(linalg.eigvals(a)), (SQUARE,)),
    "eigenvectors of any matrix": (lambda a: dot_parts(linalg.eig(a)[1]), (TURNING,)),
    "pinv": (lambda a: dot(linalg.pinv(a)), (TALL,)),
    "pinv of a wide matrix": (lambda a: dot(linalg.pinv(a)), (WIDE,)),
    "expm": (lambda a: dot(linalg.expm(a)), (SQUARE,)),
    "lstsq": (lambda a, b: dot(linalg.lstsq(a, b)), (TALL, RIGHT[:, :1])),
    "lstsq, regularized": (lambda a: dot(linalg.lstsq(a, RIGHT[:, :1], 0.5)), (TALL,)),
    "tridiagonal_solve": (lambda a, b: dot(linalg.tridiagonal_solve(a, b)), (BANDS[:, :3], RIGHT[:, :1])),
    "tridiagonal_matmul": (lambda a: dot(linalg.tridiagonal_matmul(a, RIGHT) ** 2), (BANDS[:, :3],)),
    "banded_triangular_solve": (lambda a: dot(linalg.banded_triangular_solve(a, RIGHT)), (BANDS[1:, :3],)),
    "normalize": (lambda a: dot(linalg.normalize(a)[0]), (TALL,)),
}


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_derivatives_are_decided_and_exact(name: str, order: int) -> None:
    f, arguments = CASES[name]
    report = check(f, *arguments, order=order)
    assert report.ok and report.verdict in ("correct", "conditioning"), report.summary()


@pytest.mark.parametrize("name", ["eigenvectors", "left singular vectors", "r", "expm"])
def test_float32_too(name: str) -> None:
    f, arguments = CASES[name]
    single = [a.astype(np.float32) for a in arguments]
    with tf.GradientTape(verify="strict") as tape:
        xs = [tf.constant(a) for a in single]
        tape.watch(xs)
        y = tf.cast(f(*xs), tf.float32)
    assert all(g.dtype == tf.float32 for g in tape.gradient(y, xs))


def test_eigenvalues_of_a_complex_matrix_are_differentiated() -> None:
    report = check(lambda a: dot_parts(linalg.eigvals(a)), TURNING + 1j * TURNING.T)
    assert report.ok and report.verdict in ("correct", "conditioning"), report.summary()


def test_batches_are_differentiated_matrix_by_matrix() -> None:
    report = check(lambda a: tf.reduce_sum(linalg.eigh(a)[1] * W[:3, :3]), np.stack([SYMMETRIC, np.diag([3.0, 1, 2])]))
    assert report.ok, report.summary()


def test_jacobians_go_through_ops_with_several_outputs() -> None:
    a = tf.Variable(SYMMETRIC)
    with tf.GradientTape(persistent=True, verify="strict") as tape:
        e, v = linalg.eigh(a)
    j = tape.jacobian(e, a).numpy()
    for i in range(3):
        outer = np.outer(v.numpy()[:, i], v.numpy()[:, i])
        np.testing.assert_allclose(j[i], np.tril(2 * outer) - np.diag(np.diag(outer)), atol=1e-13)


def test_a_second_derivative_by_one_of_several_outputs() -> None:
    a = tf.Variable(SYMMETRIC)
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            e, v = linalg.eigh(a)
            outer.watch(v)
            y = tf.reduce_sum(e**2)
        g = inner.gradient(y, a)
        z = tf.reduce_sum(g)
    # g is the lower triangle of 2 A, made of v: by v it is not constant
    assert outer.gradient(z, v) is not None


def test_forward_over_reverse_agrees_with_reverse_over_reverse() -> None:
    direction = tf.constant(np.tril(W[:3, :3]))

    def slope(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = dot(linalg.eigh(x)[1])
        return tape.gradient(y, x)

    a = tf.constant(SYMMETRIC)
    with tf.autodiff.ForwardAccumulator(a, direction) as acc:
        pushed = acc.jvp(slope(a))
    with tf.GradientTape() as tape:
        tape.watch(a)
        z = tf.reduce_sum(slope(a) * direction)
    np.testing.assert_allclose(pushed.numpy(), tape.gradient(z, a).numpy(), rtol=1e-9, atol=1e-12)


# ---------------------------------------------------------------------------------------------- equal values


REPEATED = np.diag([1.0, 1.0, 2.0])


def test_symmetric_functions_of_equal_eigenvalues_have_their_derivative() -> None:
    for f in (lambda a: tf.reduce_sum(linalg.eigvalsh(a) ** 3), lambda a: linalg.eigvalsh(a)[2]):
        report = check(f, REPEATED)
        assert report.verdict == "correct", report.summary()
    a = tf.Variable(np.eye(3))
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(tf.exp(linalg.eigvalsh(a)))
    np.testing.assert_allclose(tape.gradient(y, a).numpy(), np.e * np.eye(3), atol=1e-15)


def test_one_of_two_equal_eigenvalues_is_outside_the_domain() -> None:
    report = check(lambda a: linalg.eigvalsh(a)[0], REPEATED)
    assert report.verdict == "domain" and "equal" in report.summary()
    report = check(lambda a: tf.reduce_sum(linalg.eigh(a)[1] * W[:3, :3]), REPEATED)
    assert report.verdict == "domain"


def test_forward_mode_says_so_too() -> None:
    a, t = tf.constant(REPEATED), tf.constant(np.tril(W[:3, :3]))
    with tf.verifying("strict"):
        with tf.autodiff.ForwardAccumulator(a, t) as acc:
            e = linalg.eigvalsh(a)
            total, one = tf.reduce_sum(e), e[0]
        np.testing.assert_allclose(acc.jvp(total).numpy(), np.trace(t.numpy()))
        with pytest.raises(tf.VerificationError, match="equal"):
            acc.jvp(one)


def test_the_largest_singular_value_of_a_matrix_of_lower_rank_has_a_derivative() -> None:
    report = check(lambda a: linalg.svd(a, compute_uv=False)[0], np.ones((3, 2)))
    assert report.ok, report.summary()


def test_a_singular_value_of_0_has_a_kink() -> None:
    report = check(lambda a: tf.reduce_sum(linalg.svd(a, compute_uv=False)), np.ones((3, 2)))
    assert report.ok and "convention" in {f.verdict for f in report.findings}


@pytest.mark.parametrize("gap", [1e-6, 1e-9, 1e-12, 1e-15])
def test_eigenvalues_that_floats_hardly_tell_apart_are_told_apart(gap: float) -> None:
    near = np.array([[1.0, gap, 0.0], [gap, 1.0 + 3 * gap, gap], [0.0, gap, 2.0]])
    report = check(lambda a: dot(linalg.eigvalsh(a)), near)
    assert report.ok and report.verdict in ("correct", "conditioning"), report.summary()


@given(st.lists(st.integers(-4, 4), min_size=6, max_size=6))
def test_the_gradient_of_a_trace_of_a_function_is_its_derivative(entries: list[int]) -> None:
    lower = np.zeros((3, 3))
    lower[np.tril_indices(3)] = entries
    a = tf.Variable(lower)
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(linalg.eigvalsh(a) ** 3)
    whole = lower + np.tril(lower, -1).T
    exact = 3 * whole @ whole
    np.testing.assert_allclose(tape.gradient(y, a).numpy(), np.tril(2 * exact) - np.diag(np.diag(exact)), atol=1e-10)


@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (4, 4)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
def test_the_pseudo_inverse_at_lower_rank_has_the_derivative_along_matrices_of_that_rank(
    shape: Any, dtype: Any
) -> None:
    rng = np.random.default_rng(3)
    left, right = rng.normal(size=(shape[0], 2)).astype(dtype), rng.normal(size=(2, shape[1])).astype(dtype)
    if np.dtype(dtype).kind == "c":
        left = left + 1j * rng.normal(size=left.shape)
    a = left @ right
    weights = rng.normal(size=shape[::-1]).astype(dtype)

    def f(a: Any) -> Any:
        return tf.reduce_sum(tf.math.real(linalg.pinv(a) * weights))

    report = check(f, a)
    assert report.ok, report.summary()
    if dtype is np.float32:
        return
    step, h = rng.normal(size=left.shape), 1e-6  # along matrices of the same rank
    x = tf.constant(a)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    along = np.sum(np.conj(tape.gradient(y, x).numpy()) * (step @ right)).real
    moved = [float(f(tf.constant((left + s * h * step) @ right))) for s in (1, -1)]
    np.testing.assert_allclose(along, (moved[0] - moved[1]) / (2 * h), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("values", [(2.0, 1.0, 0.3), (2.0, 0.3, 0.2), (2.0, 1.0, 0.0), (2.0, 0.0, 0.0)], ids=str)
@pytest.mark.parametrize("shape", [(3, 3), (4, 3), (3, 4)], ids=str)
def test_the_pseudo_inverse_without_small_singular_values(shape: Any, values: Any) -> None:
    rng = np.random.default_rng(5)
    q, p = [np.linalg.qr(rng.normal(size=(n, n)))[0] for n in shape]
    a, weights, h = q[:, :3] * values @ p[:3], rng.normal(size=shape[::-1]), rng.normal(size=shape)

    def gradient(a: Any) -> Any:
        x = tf.constant(a)
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = tf.reduce_sum(linalg.pinv(x, rcond=0.2) * weights)
            g = inner.gradient(y, x)
            along = tf.reduce_sum(g * h)
        return float(y), g.numpy(), outer.gradient(along, x).numpy()

    (above, more, _), (below, less, _), (_, g, second) = [gradient(a + t * h) for t in (1e-5, -1e-5, 0)]
    np.testing.assert_allclose(np.sum(g * h), (above - below) / 2e-5, rtol=1e-7)
    np.testing.assert_allclose(second, (more - less) / 2e-5, rtol=1e-6, atol=1e-6)
    report = check(lambda x: linalg.pinv(x, rcond=0.2)[0], a, order=2)
    assert report.ok, report.summary()


def _second(f: Any, at: Any) -> Any:
    g, whole = derivatives(f, tf.constant(at))
    return g.numpy(), whole.numpy().reshape(at.size, at.size)


def test_the_pseudo_inverse_of_a_square_matrix_has_the_derivatives_of_the_inverse() -> None:
    turn, other = np.array([[0.6, -0.8], [0.8, 0.6]]), np.array([[0.28, 0.96], [-0.96, 0.28]])
    a = turn @ np.diag([1e-9, 2.0]) @ other
    (by_inverse, of_inverse), (slope, found) = (
        _second(lambda x, f=f: f(x)[0, 0], a) for f in (tf.linalg.inv, tf.linalg.pinv)
    )
    np.testing.assert_allclose(slope, by_inverse, rtol=0, atol=1e-6 * np.abs(by_inverse).max())
    np.testing.assert_allclose(found, of_inverse, rtol=0, atol=1e-6 * np.abs(of_inverse).max())


def test_a_last_column_that_nearly_depends_on_the_others_costs_q_no_digits() -> None:
    slope, found = _second(lambda x: tf.linalg.qr(x).q[0, 1], np.array([[3.0, 1.0], [4.0, 4 / 3 + 1e-9]]))
    np.testing.assert_allclose(slope * np.sign(slope[0, 0]), [[0.096, 0.0], [-0.072, 0.0]], rtol=1e-14, atol=1e-15)
    right = np.zeros((4, 4))
    right[np.ix_([0, 2], [0, 2])] = [[-0.00256, -0.02208], [-0.02208, 0.03456]]
    np.testing.assert_allclose(found * np.sign(slope[0, 0]), right, rtol=1e-13, atol=1e-15)
