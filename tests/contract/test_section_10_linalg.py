"""Section 10 of the contract, linear algebra: values are NumPy's, derivatives of order 1 and 2 are exact."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import gtape as tf
from gtape.verify import check

L = tf.linalg
RNG = np.random.default_rng(10)
BATCH = RNG.normal(size=(2, 2, 2)) + 2 * np.eye(2)
ONE = BATCH[0]
RIGHT = RNG.normal(size=(2, 2))
RIGHTS = RNG.normal(size=(2, 2, 1))
TALL = RNG.normal(size=(2, 3, 2))
LOWER = np.tril(BATCH)
UPPER = np.ascontiguousarray(np.swapaxes(LOWER, -1, -2))
POSITIVE = BATCH @ np.swapaxes(BATCH, -1, -2)
VECTOR = RNG.normal(size=2)
VECTORS = RNG.normal(size=(2, 2))
SPACE = RNG.normal(size=(2, 3))


def _t(x: Any) -> Any:
    return np.swapaxes(x, -1, -2)


def _solved(a: Any, b: Any) -> Any:
    return np.linalg.solve(a, np.broadcast_to(b, (*a.shape[:-2], *b.shape[-2:])))


class Op(NamedTuple):
    """A call: what it promises, the op, NumPy's idea of it, and its arguments."""

    promise: str
    f: Callable[..., Any]
    reference: Callable[..., Any]
    at: tuple[Any, ...]


OPS = [
    Op("matmul of batches", L.matmul, np.matmul, (BATCH, RIGHTS)),
    Op("matmul with transpose_a", lambda a, b: tf.matmul(a, b, transpose_a=True), lambda a, b: _t(a) @ b, (ONE, RIGHT)),
    Op("matmul with adjoint_b", lambda a, b: tf.matmul(a, b, adjoint_b=True), lambda a, b: a @ _t(b), (ONE, BATCH)),
    Op("matvec", L.matvec, lambda a, x: a @ x, (BATCH, VECTOR)),
    Op(
        "matvec with transpose_a",
        lambda a, x: L.matvec(a, x, transpose_a=True),
        lambda a, x: (_t(a) @ x[..., None])[..., 0],
        (BATCH, VECTORS),
    ),
    Op("tensordot", lambda a, b: tf.tensordot(a, b, [[1], [0]]), lambda a, b: np.tensordot(a, b, 1), (ONE, RIGHT)),
    Op("inv", L.inv, np.linalg.inv, (BATCH,)),
    Op("inv of the adjoint", lambda a: L.inv(a, adjoint=True), lambda a: np.linalg.inv(_t(a)), (ONE,)),
    Op("pinv", L.pinv, np.linalg.pinv, (TALL,)),
    Op("det", L.det, np.linalg.det, (BATCH,)),
    Op("slogdet", lambda a: L.slogdet(a)[1], lambda a: np.linalg.slogdet(a)[1], (BATCH,)),
    Op("logdet", L.logdet, lambda a: np.linalg.slogdet(a)[1], (POSITIVE,)),
    Op("trace", L.trace, lambda a: np.trace(a, axis1=-2, axis2=-1), (BATCH,)),
    Op("cholesky", L.cholesky, np.linalg.cholesky, (POSITIVE,)),
    Op("cholesky_solve", L.cholesky_solve, lambda a, b: _solved(a @ _t(a), b), (LOWER, RIGHTS)),
    Op("solve with a batch of matrices and one right-hand side", L.solve, _solved, (BATCH, RIGHT)),
    Op("solve of the adjoint", lambda a, b: L.solve(a, b, adjoint=True), lambda a, b: _solved(_t(a), b), (ONE, RIGHT)),
    Op("triangular_solve", L.triangular_solve, _solved, (LOWER, RIGHT)),
    Op(
        "triangular_solve of the adjoint of an upper triangle",
        lambda a, b: L.triangular_solve(a, b, lower=False, adjoint=True),
        lambda a, b: _solved(_t(a), b),
        (UPPER, RIGHTS),
    ),
    Op("lstsq", L.lstsq, lambda a, b: np.linalg.pinv(a) @ b, (TALL, TALL[..., ::2])),
    Op("eigvalsh", L.eigvalsh, np.linalg.eigvalsh, (POSITIVE,)),
    Op(
        "a function of a matrix by eigh",
        lambda a: tf.matmul(L.eigh(a)[1] * tf.sqrt(L.eigh(a)[0]), L.eigh(a)[1], transpose_b=True),
        lambda a: (np.linalg.eigh(a)[1] * np.sqrt(np.linalg.eigh(a)[0])) @ np.linalg.eigh(a)[1].T,
        (POSITIVE[0],),
    ),
    Op("real parts of eigvals", lambda a: tf.math.real(L.eigvals(a)), lambda a: np.linalg.eigvals(a).real, (ONE,)),
    Op("singular values", lambda a: L.svd(a, compute_uv=False), lambda a: np.linalg.svd(a)[1], (TALL,)),
    Op("qr", lambda a: L.qr(a)[1], lambda a: np.linalg.qr(a)[1], (TALL,)),
    Op("expm", L.expm, lambda a: np.stack([sum_of_powers(m) for m in a]), (BATCH / 2,)),
    Op("cross", L.cross, np.cross, (SPACE, SPACE[::-1] + 1)),
    Op("kron", L.kron, np.kron, (RIGHT, ONE)),
    Op("diag", L.diag, lambda d: np.stack([np.diag(v) for v in d]), (VECTORS,)),
    Op("diag_part", L.diag_part, lambda a: np.diagonal(a, 0, -2, -1), (BATCH,)),
    Op("band_part", lambda a: L.band_part(a, 1, 0), lambda a: np.triu(np.tril(a), -1), (ONE,)),
    Op("adjoint", L.adjoint, _t, (RIGHTS,)),
    Op("normalize", lambda a: L.normalize(a)[0], lambda a: a / np.linalg.norm(a), (RIGHT,)),
    Op("the norm of order 2", lambda a: tf.norm(a, 2, [0, 1]), lambda a: np.linalg.norm(a, 2), (RIGHT,)),
]


def sum_of_powers(a: Any) -> Any:
    """exp of a matrix, from its series."""
    total = term = np.eye(len(a))
    for i in range(1, 60):
        term = term @ a / i
        total = total + term
    return total


EQUATIONS = [
    ("ij,jk->ik", (2, 3), (3, 2)), ("ij,jk", (2, 3), (3, 2)), ("ba", (2, 3)), ("ij->", (2, 3)), ("ij->ji", (2, 3)),
    ("ii->i", (3, 3)), ("ii", (3, 3)), ("iii->i", (2, 2, 2)), ("iij->j", (2, 2, 3)), ("ii,jj->ij", (2, 2), (3, 3)),
    ("ijj,jk->ik", (2, 3, 3), (3, 2)), ("...ij,...jk->...ik", (2, 1, 2, 3), (3, 3, 2)), ("...i->...", (2, 3)),
    ("...ii->...i", (2, 3, 3)), ("...ii", (2, 3, 3)), ("ab,...bc->a...c", (2, 3), (4, 3, 2)), ("...", (2, 3)),
    ("i...j,j->i...", (2, 3, 2), (2,)), ("...a,...b->...ab", (2, 1, 2), (3, 2)), ("i,j->ij", (2,), (3,)),
    ("i,i", (3,), (3,)), ("i,i->i", (3,), (3,)), (",i->i", (), (3,)), ("bij,bjk->bik", (2, 2, 3), (2, 3, 2)),
    ("ij,jk,kl->il", (2, 3), (3, 2), (2, 2)), ("a,a,a->a", (3,), (3,), (3,)), ("ij,ij,jk->k", (2, 3), (2, 3), (3, 2)),
]  # fmt: skip


@pytest.mark.parametrize("op", OPS, ids=lambda o: o.promise)
def test_value_is_numpys(op: Op) -> None:
    got = op.f(*[tf.constant(a) for a in op.at]).numpy()
    exact = op.reference(*op.at)
    assert got.dtype == np.float64 and got.shape == exact.shape
    np.testing.assert_allclose(got, exact, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("op", OPS, ids=lambda o: o.promise)
def test_derivatives_are_the_exact_ones(op: Op) -> None:
    for order, dtype in ((1, np.float64), (2, np.float64), (1, np.float32)):
        report = check(lambda *xs: tf.reduce_sum(tf.sin(op.f(*xs))), *[a.astype(dtype) for a in op.at], order=order)
        assert report.ok and report.verdict in ("correct", "conditioning"), report.summary()


@pytest.mark.parametrize("case", EQUATIONS, ids=lambda c: c[0])
def test_einsum_takes_all_forms_of_equations(case: Any) -> None:
    equation, *shapes = case
    xs = [RNG.normal(size=s) for s in shapes]
    np.testing.assert_allclose(tf.einsum(equation, *xs).numpy(), np.einsum(equation, *xs), rtol=1e-12, atol=1e-14)
    for order in (1, 2):
        report = check(lambda *a: tf.reduce_sum(tf.einsum(equation, *a) ** 2), *xs, order=order)
        assert report.ok and report.verdict in ("correct", "conditioning"), report.summary()


def _with_upper_triangle(a: Any, number: Any) -> Any:
    return np.where(np.tri(a.shape[-1], dtype=bool), a, np.asarray(number, a.dtype))


def _lower_triangles(dtype: str) -> Any:
    a = np.array(
        [[[1.0, 0.0, 0.0], [0.5, 2.0, 0.0], [0.25, 0.1, 3.0]], [[3.0, 0.0, 0.0], [1, 4, 0], [-0.5, 0.75, 2.0]]]
    )
    return (a + 0.125j * np.tril(a, -1) if dtype.startswith("complex") else a).astype(dtype)


def _values_and_gradient(name: str, a: Any, weights: Any) -> list[Any]:
    x = tf.constant(a)
    with tf.GradientTape() as tape:
        tape.watch(x)
        made = tf.nest.flatten(getattr(tf.linalg, name)(x))
        y = tf.add_n([tf.reduce_sum(tf.abs(m) ** 2 * weights[..., : m.shape[-1]]) for m in made[-1:]])
    return [*made, tape.gradient(y, x)]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf, 1e30, 7.0])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("name", ["eigvalsh", "eigh", "cholesky"])
def test_numbers_above_the_diagonal_change_no_bit_of_a_hermitian_matrix(
    name: str, dtype: str, number: float, compiled: bool
) -> None:
    plain = _lower_triangles(dtype)
    weights = np.arange(1, 4).astype(np.zeros(1, dtype).real.dtype)

    def run(a: Any) -> list[Any]:
        return _values_and_gradient(name, a, weights)

    symmetric = plain + np.conj(np.swapaxes(np.tril(plain, -1), -1, -2))
    expected = run(symmetric)
    made = (tf.function(run) if compiled else run)(_with_upper_triangle(plain, number))
    for m, e in zip(made, expected, strict=True):
        np.testing.assert_array_equal(m, e)


def test_eigenvalues_beside_nan_are_those_of_tensorflow() -> None:
    x = tf.constant([[1.0, float("nan")], [0.5, 2.0]], tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(x)
        w = tf.linalg.eigvalsh(x)
        y = tf.reduce_sum(w * [1.0, 2.0])
    np.testing.assert_allclose(w, [0.7928932188134524, 2.2071067811865475], rtol=1e-15)
    np.testing.assert_allclose(tape.gradient(y, x), [[1.1464466094067263, 0], [np.sqrt(0.5), 1.8535533905932737]])


@pytest.mark.parametrize("place", [(0, 0), (1, 0), (1, 1)])
def test_nan_in_the_lower_triangle_makes_all_eigenvalues_nan(place: tuple[int, int]) -> None:
    a = np.array([[1.0, 0.0], [0.5, 2.0]])
    a[place] = np.nan
    assert np.isnan(tf.linalg.eigvalsh(a).numpy()).all()


@pytest.mark.parametrize("number", [np.nan, np.inf, 7.0])
def test_a_check_of_eigenvalues_reads_the_lower_triangle_only(number: float) -> None:
    a = tf.constant([[2.0, number], [0.5, 2.5]], tf.float64)
    for order in (1, 2):
        assert check(lambda x: tf.reduce_sum(tf.linalg.eigvalsh(x) * [1.0, 2.0]), a, order=order).verdict == "correct"
