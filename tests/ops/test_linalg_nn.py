"""Matrix products, linear algebra and losses: values, derivatives against exact jets, conventions, errors."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.declare.primitives import REGISTRY
from gtape.engine.fast.source import kernel_for
from gtape.engine.worlds import NUMPY
from gtape.errors import InvalidArgumentError
from gtape.symbolic.balls import precision, to_float
from gtape.symbolic.worlds import BallWorld, JetWorld
from gtape.tapes.forward import jvp_of

NAMES = [
    "swap_last", "matmul", "diag_part", "diag_embed", "band_part", "half_tril", "inverse", "solve", "triangular_solve",
    "cholesky", "det", "cofactors", "det_form", "take_direction", "log_abs_det", "det_sign", "cross",
    "softmax", "log_softmax", "softmax_center", "softmax_spread", "cross_entropy",
]  # fmt: skip
# Sizes beyond the samples of the declarations: where the kernels take another way.
LARGER: dict[str, Any] = {
    "det": [(((4, 4),), {})],
    "cofactors": [(((4, 4),), {}), (((6, 6),), {})],
    "det_form": [(((4, 4), (1, 4, 4)), {}), (((4, 4), (2, 4, 4)), {}), (((2, 4, 4), (2, 1, 4, 4)), {})],
    "inverse": [(((6, 6),), {})],
    "solve": [(((6, 6), (6, 2)), {})],
}
CASES = [
    pytest.param(name, shapes, params, id=f"{name}-{'-'.join(map(str, shapes))}-{params}".replace(" ", ""))
    for name in NAMES
    for shapes, params in (*REGISTRY[name].samples, *LARGER.get(name, ()))
]


def _inputs(name: str, shapes: Any) -> tuple[np.random.Generator, list[np.ndarray]]:
    rng = np.random.default_rng(zlib.crc32(f"{name}{shapes}".encode()))
    xs = [rng.standard_normal(s) for s in shapes]
    if name == "cholesky":
        xs = [x @ np.swapaxes(x, -1, -2) + np.eye(x.shape[-1]) for x in xs]
    elif name in ("inverse", "solve", "triangular_solve", "log_abs_det"):
        xs[0] = xs[0] + 3 * np.eye(shapes[0][-1])
    return rng, xs


def _close(got: Any, want: Any, scale: float = 1.0) -> None:
    got, want = np.asarray(got, dtype=float), np.asarray(want, dtype=float)
    assert got.shape == want.shape
    # The bound of a sum: a few hundred roundings of its largest term.
    assert np.abs(got - want).max(initial=0.0) <= 200 * np.finfo(float).eps * max(scale, np.abs(want).max(initial=0.0))


@pytest.mark.parametrize("name, shapes, params", CASES)
def test_value_and_derivatives_agree_with_jets(name: str, shapes: Any, params: Any) -> None:
    prim = REGISTRY[name]
    rng, xs = _inputs(name, shapes)
    with precision(300):
        world = BallWorld()
        y = np.asarray(prim.kernel(*xs, **params))
        _close(y, to_float(getattr(world, name)(*[world.lift(x) for x in xs], **params)))
        if not y.size or not all(x.size for x in xs):
            return
        g = rng.standard_normal(y.shape)
        ts, us = [[rng.standard_normal(s) for s in shapes] for _ in range(2)]
        one, two = JetWorld(1), JetWorld(2)
        for i in range(len(xs)):
            jets = [one.jet(x, ts[j] if j == i else None) for j, x in enumerate(xs)]
            want = to_float(one.component(getattr(one, name)(*jets, **params), 1))
            tangents = [ts[j] if j == i else None for j in range(len(xs))]
            _close(jvp_of(NUMPY, prim, tangents, y[()], tuple(xs), params, y.shape), want)
            v = tf.constant(xs[i])
            with tf.GradientTape() as tape:
                tape.watch(v)
                made = prim(*[v if j == i else tf.constant(x) for j, x in enumerate(xs)], **params)
            terms = tape.gradient(made, v, output_gradients=tf.constant(g)).numpy() * ts[i]
            assert terms.shape == xs[i].shape
            _close(terms.sum(), (g * want).sum(), np.abs(terms).sum())
        jets = [two.jet(x, t, u) for x, t, u in zip(xs, ts, us, strict=True)]
        want = (g * to_float(two.component(getattr(two, name)(*jets, **params), 3))).sum()
    vs = [tf.constant(x) for x in xs]
    with tf.GradientTape() as outer:
        outer.watch(vs)
        with tf.GradientTape() as inner:
            inner.watch(vs)
            made = prim(*vs, **params)
        first = inner.gradient(made, vs, output_gradients=tf.constant(g))
        slope = tf.constant(np.float64(0))
        for a, t in zip(first, ts, strict=True):
            slope = slope + tf.reduce_sum(a * tf.constant(t))
    second = outer.gradient(slope, vs, unconnected_gradients="zero")
    parts = [a.numpy() * u for a, u in zip(second, us, strict=True)]
    _close(sum(p.sum() for p in parts), want, sum(np.abs(p).sum() for p in parts))


@pytest.mark.parametrize("name, shapes, params", [c for c in CASES if REGISTRY[c.values[0]].batched])
def test_batched_cotangents_are_the_single_ones_stacked(name: str, shapes: Any, params: Any) -> None:
    _, xs = _inputs(name, shapes)
    vs = [tf.constant(x) for x in xs]
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(vs)
        y = REGISTRY[name](*vs, **params)
        if 0 in y.shape:
            return
        rows = [y[i] for i in np.ndindex(*y.shape)] if len(y.shape) else [y]
    whole = tape.jacobian(y, vs)
    for i, row in enumerate(rows):
        for j, one in zip(whole, tape.gradient(row, vs), strict=True):
            _close(j.numpy().reshape(len(rows), *one.shape)[i], one)


# ---------------------------------------------------------------------------------------------- products


EQUATIONS = [
    ("ij,jk->ik", [(2, 3), (3, 4)]),
    ("ij,jk", [(2, 3), (3, 4)]),
    ("bij,bjk->bik", [(2, 2, 3), (2, 3, 2)]),
    ("ii->i", [(3, 3)]),
    ("ii", [(3, 3)]),
    ("ij->ji", [(2, 3)]),
    ("ij->", [(2, 3)]),
    ("i,j->ij", [(2,), (3,)]),
    ("i,i->", [(3,), (3,)]),
    ("ij,ij->ij", [(2, 3), (2, 3)]),
    ("...ij,...jk->...ik", [(4, 2, 3), (3, 2)]),
    ("i...,i...->...", [(2, 3, 1), (2, 1, 4)]),
    ("...i->...", [(2, 3)]),
    ("ab,bc,cd->ad", [(2, 3), (3, 4), (4, 2)]),
    ("bhid,bhjd->bhij", [(2, 2, 3, 2), (2, 2, 4, 2)]),
    ("iij,jk->ki", [(2, 2, 3), (3, 2)]),
    ("ij,kl->jl", [(2, 3), (4, 2)]),
    ("abc,cd,d,ab->", [(2, 2, 3), (3, 2), (2,), (2, 2)]),
    (" ij , j -> i ", [(2, 3), (3,)]),
    ("ijk,kij->j", [(2, 3, 2), (2, 2, 3)]),
    ("iji->j", [(2, 3, 2)]),
    (",ij->ij", [(), (2, 2)]),
]


@pytest.mark.parametrize("equation, shapes", EQUATIONS)
def test_einsum_is_that_of_numpy(equation: str, shapes: Any) -> None:
    rng = np.random.default_rng(1)
    xs = [rng.standard_normal(s) for s in shapes]
    vs = [tf.constant(x) for x in xs]
    with tf.GradientTape() as tape:
        tape.watch(vs)
        y = tf.einsum(equation, *vs)
    _close(y, np.einsum(equation, *xs), 10.0)
    g = rng.standard_normal(y.shape)
    for i, made in enumerate(tape.gradient(y, vs, output_gradients=tf.constant(g))):
        t = rng.standard_normal(xs[i].shape)
        tangent = np.einsum(equation, *[t if j == i else x for j, x in enumerate(xs)])
        _close((made.numpy() * t).sum(), (g * tangent).sum(), 20.0)


def test_einsum_refuses_what_it_cannot_read() -> None:
    a = tf.constant([[1.0, 2.0]])
    for bad in ("ij->k", "ij,jk->ik", "i1->i", "ij->ii"):
        with pytest.raises(ValueError, match="einsum"):
            tf.einsum(bad, a)
    for bad, xs in (("ijk->i", [a]), ("ij,jk->ik", [a, a]), ("ii->i", [a])):
        with pytest.raises(InvalidArgumentError, match="einsum"):
            tf.einsum(bad, *xs)


@pytest.mark.parametrize(
    "shapes, axes",
    [
        (((2, 3), (3, 4)), 1),
        (((2, 3), (2, 3)), 2),
        (((2,), (3,)), 0),
        (((2, 3, 4), (4, 2)), [[0, 2], [1, 0]]),
        (((2, 3), (4, 3)), [[-1], [1]]),
        (((2, 3), (3, 2)), (1, 0)),
    ],
)
def test_tensordot_is_that_of_numpy(shapes: Any, axes: Any) -> None:
    rng = np.random.default_rng(2)
    a, b = (rng.standard_normal(s) for s in shapes)
    _close(tf.tensordot(tf.constant(a), tf.constant(b), axes), np.tensordot(a, b, axes), 10.0)


def test_products_of_the_public_face() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((2, 3, 4)), rng.standard_normal((2, 3, 5))
    _close(tf.matmul(tf.constant(a), tf.constant(b), transpose_a=True), np.swapaxes(a, 1, 2) @ b, 10.0)
    _close(tf.matmul(tf.constant(b), tf.constant(a), adjoint_a=True), np.swapaxes(b, 1, 2) @ a, 10.0)
    _close(tf.linalg.matvec(tf.constant(a), tf.constant(a[:, 0])), np.einsum("bij,bj->bi", a, a[:, 0]), 10.0)
    _close(tf.linalg.kron(tf.constant(a[0]), tf.constant(b[0])), np.kron(a[0], b[0]), 10.0)
    assert tf.matmul([[1, 2]], [[3], [4]]).numpy().tolist() == [[11]]
    half = tf.constant(np.full((1, 4096), 0.01, dtype=np.float16))
    assert tf.matmul(half, half, transpose_b=True).dtype == tf.float16
    for x, y in (([1.0], [[1.0]]), ([[1.0]], 1.0), ([[1.0, 2.0]], [[1.0]])):
        with pytest.raises(InvalidArgumentError):
            tf.matmul(x, y)
    with pytest.raises(InvalidArgumentError):
        tf.matmul(tf.constant([[1.0]]), tf.constant([[1.0]], tf.float64))
    with pytest.raises(ValueError, match="transpose_a"):
        tf.matmul([[1.0]], [[1.0]], transpose_a=True, adjoint_a=True)


def test_only_what_a_rule_reads_is_kept() -> None:
    import weakref

    x, w = tf.constant(np.ones((2, 3))), tf.constant(np.ones((3, 2)))
    with tf.GradientTape() as tape:
        tape.watch(w)
        y = tf.matmul(x, w)
    kept = weakref.ref(w)
    del w
    assert kept() is None
    assert tape.gradient(y, x) is None


# ---------------------------------------------------------------------------------------------- linear algebra


def _hessian(f: Any, x: np.ndarray) -> np.ndarray:
    v = tf.constant(x)
    with tf.GradientTape() as outer:
        outer.watch(v)
        with tf.GradientTape() as inner:
            inner.watch(v)
            y = f(v)
        g = inner.gradient(y, v)
    return outer.jacobian(g, v).numpy()


def test_det_of_two_by_two_has_one_hessian_everywhere() -> None:
    want = np.zeros((2, 2, 2, 2))
    want[0, 0, 1, 1] = want[1, 1, 0, 0] = 1
    want[0, 1, 1, 0] = want[1, 0, 0, 1] = -1
    for a in ([[1.0, 2.0], [2.0, 4.0]], [[0.0, 0.0], [0.0, 0.0]], [[1e200, 3.0], [-1.0, 1e-200]]):
        assert np.array_equal(_hessian(tf.linalg.det, np.array(a)), want)


@pytest.mark.parametrize("n", [3, 4, 5, 7])
@pytest.mark.parametrize("lost", [0, 1, 2, 3])
def test_det_has_exact_derivatives_at_every_rank(n: int, lost: int) -> None:
    """Matrices of whole numbers with `lost` rows that are sums of others, at scales far apart."""
    rng = np.random.default_rng(10 * n + lost)
    a = rng.integers(-3, 4, (n, n)).astype(float)
    for i in range(min(lost, n - 1)):
        a[i] = a[n - 1] * (i + 1)
    scales = 2.0 ** rng.integers(-30, 30, (n, 1)) * 2.0 ** rng.integers(-30, 30, n)
    t, u = rng.standard_normal((2, n, n))
    # The rounding of a determinant is bounded by that of the product of its row norms (Hadamard), n² times.
    size = float(np.prod(np.linalg.norm(np.abs(a) + np.abs(t) + np.abs(u), axis=1)))
    size *= 2.0 ** float(np.log2(np.diagonal(scales)).sum())
    a, t, u = a * scales, t * scales, u * scales
    v = tf.constant(a)
    with tf.GradientTape() as outer:
        outer.watch(v)
        with tf.GradientTape() as inner:
            inner.watch(v)
            y = tf.linalg.det(v)
        g = inner.gradient(y, v)
        s = tf.reduce_sum(g * tf.constant(t))
    h = outer.gradient(s, v).numpy()
    with precision(2000):
        one, two = JetWorld(1), JetWorld(2)
        first = to_float(one.component(one.det(one.jet(a, t)), 1))
        second = to_float(two.component(two.det(two.jet(a, t, u)), 3))
    for got, want in ((float(s), first), ((h * u).sum(), second)):
        assert abs(got - want) <= n * n * np.finfo(float).eps * size


def test_cofactors_of_a_matrix_close_to_one_with_tiny_elements_keep_all_digits() -> None:
    a = np.eye(4)
    a[0, 1], a[1, 2], a[3, 0] = 2.0**-55, -(2.0**-135), 2.0**-96
    v = tf.constant(a)
    with tf.GradientTape() as tape:
        tape.watch(v)
        y = tf.linalg.det(v)
    assert np.abs(tape.gradient(y, v).numpy() - np.eye(4)).max() <= 2.0**-50


def test_a_determinant_that_overflows_is_infinite() -> None:
    big = np.array([[1e200, 1e199], [3e199, 1e200]])
    assert tf.linalg.det(big).numpy() == np.inf
    assert tf.linalg.det(big[::-1]).numpy() == -np.inf


def test_third_derivative_of_det() -> None:
    a = tf.constant(np.arange(9.0).reshape(3, 3))
    with tf.GradientTape() as third:
        third.watch(a)
        with tf.GradientTape() as second:
            second.watch(a)
            with tf.GradientTape() as first:
                first.watch(a)
                y = tf.linalg.det(a)
            g = first.gradient(y, a)
            s = g[0, 0]
        h = second.gradient(s, a)[1, 1]
    assert third.gradient(h, a).numpy().tolist() == [[0, 0, 0], [0, 0, 0], [0, 0, 1]]


def test_singular_matrices_are_refused_by_name() -> None:
    a, b = tf.constant([[1.0, 2.0], [2.0, 4.0]]), tf.constant([[1.0], [1.0]])
    for call in (
        lambda: tf.linalg.inv(a),
        lambda: tf.linalg.solve(a, b),
        lambda: tf.linalg.triangular_solve([[0.0]], [[1.0]]),
    ):
        with pytest.raises(InvalidArgumentError, match="not invertible"):
            call()
    for op in (tf.linalg.inv, tf.linalg.det, tf.linalg.cholesky, tf.linalg.slogdet):
        with pytest.raises(InvalidArgumentError, match="square"):
            op([[1.0, 2.0]])
        with pytest.raises(InvalidArgumentError, match="floating"):
            op([[1, 2], [3, 4]])
    assert np.isnan(tf.linalg.inv([[np.nan]]).numpy()).all()


def test_a_singular_matrix_in_a_batch_leaves_the_others_alone() -> None:
    a = np.stack([np.eye(2), -np.eye(2), 4 * np.eye(2)])
    y = tf.linalg.cholesky(tf.constant(a)).numpy()
    assert np.isnan(y[1]).all()
    assert y[2].tolist() == [[2, 0], [0, 2]]


def test_cholesky_reads_the_lower_triangle_and_has_a_symmetric_gradient() -> None:
    v = tf.constant(np.array([[4.0, 99.0], [2.0, 5.0]]))
    with tf.GradientTape() as tape:
        tape.watch(v)
        y = tf.linalg.cholesky(v)
    assert y.numpy().tolist() == [[2, 0], [1, 2]]
    g = tape.gradient(y, v).numpy()
    assert np.array_equal(g, g.T)


def test_solve_with_adjoint_and_broadcast_batches() -> None:
    rng = np.random.default_rng(4)
    a, b = rng.standard_normal((3, 3)) + 3 * np.eye(3), rng.standard_normal((2, 3, 1))
    x = tf.linalg.solve(tf.constant(a), tf.constant(b), adjoint=True)
    _close(x, np.linalg.solve(a.T, b))
    v = tf.constant(a)
    with tf.GradientTape() as tape:
        tape.watch(v)
        y = tf.linalg.solve(v, tf.constant(b))
    want = -sum(np.linalg.solve(a.T, np.ones((3, 1))) @ np.linalg.solve(a, b[i]).T for i in range(2))
    _close(tape.gradient(y, v), want)
    chol = np.tril(a)
    _close(tf.linalg.cholesky_solve(tf.constant(chol), tf.constant(b[0])), np.linalg.solve(chol @ chol.T, b[0]))
    with pytest.raises(InvalidArgumentError, match="right-hand side"):
        tf.linalg.solve(a, np.ones((2, 1)))


def test_slogdet_and_logdet() -> None:
    v = tf.constant(np.array([[0.0, 2.0], [3.0, 1.0]]))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(v)
        sign, log = tf.linalg.slogdet(v)
    assert float(sign) == -1
    assert not tape.gradient(sign, v).numpy().any()
    _close(tape.gradient(log, v), np.linalg.inv(v.numpy()).T)
    assert tf.linalg.slogdet(np.zeros((2, 2))).log_abs_determinant.numpy() == -np.inf
    assert np.isnan(tf.linalg.logdet(-np.eye(3)).numpy())
    _close(tf.linalg.logdet(np.diag([2.0, 8.0])), np.log(16.0))


def test_diagonals() -> None:
    a = np.arange(6.0).reshape(2, 3)
    assert tf.linalg.diag_part(tf.constant(a), k=1).numpy().tolist() == [1, 5]
    assert tf.linalg.diag(tf.constant([1.0, 2.0]), k=-1).numpy().tolist() == np.diag([1.0, 2.0], -1).tolist()
    assert tf.linalg.diag(tf.constant([1.0, 2.0]), num_cols=3).shape == (2, 3)
    x, d = tf.constant(a), tf.constant([7.0, 8.0], tf.float64)
    with tf.GradientTape() as tape:
        tape.watch((x, d))
        y = tf.linalg.set_diag(x, d)
    assert y.numpy().tolist() == [[7, 1, 2], [3, 8, 5]]
    gx, gd = tape.gradient(y, (x, d))
    assert gx.numpy().tolist() == [[0, 1, 1], [1, 0, 1]]
    assert gd.numpy().tolist() == [1, 1]
    assert tf.linalg.band_part(tf.ones([3, 3]), 1, 0).numpy().tolist() == [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
    for call in (
        lambda: tf.linalg.diag_part([1.0]),
        lambda: tf.linalg.diag_part([[1.0]], k=1),
        lambda: tf.linalg.set_diag([[1.0]], [1.0, 2.0]),
    ):
        with pytest.raises(InvalidArgumentError):
            call()


def test_the_trace_does_not_see_what_lies_off_the_diagonal() -> None:
    x = tf.constant([[1.0, 0.0], [0.0, 2.0]])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.linalg.trace(tf.math.log(x))
    assert tape.gradient(y, x).numpy().tolist() == [[1, 0], [0, 0.5]]


# ---------------------------------------------------------------------------------------------- losses


def _ulps(got: Any, want: Any) -> float:
    got, want = np.asarray(got), np.asarray(want)
    return float(np.max(np.abs(got - want) / np.spacing(np.abs(want).astype(got.dtype)), initial=0.0))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("gap", [0.0, 1e-3, 1.0, 17.5, 40.0, 87.0])
def test_softmax_keeps_its_digits_when_it_is_sure(dtype: Any, gap: float) -> None:
    x = np.array([gap, 0.0, -0.1234567, 0.5 * gap], dtype=dtype)
    onehot = np.array([1.0, 0.0, 0.0, 0.0], dtype=dtype)
    with precision(400):
        world, one, two = BallWorld(), JetWorld(1), JetWorld(2)
        p = to_float(world.softmax(world.lift(x), axis=-1))
        loss = to_float(world.cross_entropy(world.lift(onehot), world.lift(x), axis=-1))
        slope = [
            to_float(one.component(one.cross_entropy(one.lift(onehot), one.jet(x, t), axis=-1), 1)) for t in np.eye(4)
        ]
        curve = [
            [
                to_float(two.component(two.cross_entropy(two.lift(onehot), two.jet(x, t, u), axis=-1), 3))
                for u in np.eye(4)
            ]
            for t in np.eye(4)
        ]
        jump = [
            [to_float(one.component(one.softmax(one.jet(x, t), axis=-1)[i], 1)) for t in np.eye(4)] for i in range(4)
        ]
    v = tf.constant(x)
    assert _ulps(tf.nn.softmax(v).numpy(), p) <= 4
    with tf.GradientTape() as outer:
        outer.watch(v)
        with tf.GradientTape() as inner:
            inner.watch(v)
            y = tf.nn.softmax_cross_entropy_with_logits(onehot, v)
        g = inner.gradient(y, v)
    assert _ulps(y.numpy(), loss) <= 4
    assert _ulps(g.numpy(), slope) <= 6
    assert _ulps(outer.jacobian(g, v).numpy(), curve) <= 12
    with tf.GradientTape() as tape:
        tape.watch(v)
        y = tf.nn.softmax(v)
    assert _ulps(tape.jacobian(y, v).numpy(), jump) <= 12


def test_softmax_at_the_ends() -> None:
    inf = np.inf
    assert tf.nn.softmax([-inf, 0.0]).numpy().tolist() == [0, 1]
    assert np.isnan(tf.nn.softmax([inf, 0.0]).numpy()).all()
    assert np.isnan(tf.nn.softmax([-inf, -inf]).numpy()).all()
    assert tf.nn.log_softmax([[1000.0, -1000.0]]).numpy().tolist() == [[0, -2000]]
    assert tf.nn.softmax(np.zeros((2, 0))).shape == (2, 0)
    v = tf.constant([-inf, 0.0, 1.0])
    with tf.GradientTape() as tape:
        tape.watch(v)
        y = tf.nn.softmax(v)[1]
    assert np.isfinite(tape.gradient(y, v).numpy()).all()
    with tf.GradientTape() as tape:
        tape.watch(v)
        y = tf.nn.softmax_cross_entropy_with_logits([0.0, 0.0, 1.0], v)
    assert np.isfinite(y.numpy())
    assert np.isfinite(tape.gradient(y, v).numpy()).all()
    with pytest.raises(InvalidArgumentError, match="axis"):
        tf.nn.softmax([1.0], axis=1)
    with pytest.raises(InvalidArgumentError, match="floating"):
        tf.nn.softmax([1])


def test_cross_entropies_of_the_public_face() -> None:
    x = tf.constant([[1.0, 2.0, 3.0], [1000.0, 0.0, -1000.0]])
    dense = tf.nn.softmax_cross_entropy_with_logits([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], x)
    sparse = tf.nn.sparse_softmax_cross_entropy_with_logits([1, 2], x)
    assert dense.numpy().tolist() == sparse.numpy().tolist()
    assert dense.numpy()[1] == 2000
    whole = tf.nn.softmax_cross_entropy_with_logits([[0, 1, 0], [0, 0, 1]], x, axis=-1)
    assert whole.numpy().tolist() == dense.numpy().tolist()
    first = tf.nn.softmax_cross_entropy_with_logits(
        tf.linalg.matrix_transpose([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), tf.linalg.matrix_transpose(x), axis=0
    )
    assert np.allclose(first.numpy(), dense.numpy(), rtol=1e-6)
    for bad in ([1, 3], [-1, 0]):
        with pytest.raises(InvalidArgumentError, match="outside the valid range"):
            tf.nn.sparse_softmax_cross_entropy_with_logits(bad, x)
    with pytest.raises(ValueError, match="shape"):
        tf.nn.sparse_softmax_cross_entropy_with_logits([1], x)
    with pytest.raises(InvalidArgumentError, match="broadcastable"):
        tf.nn.softmax_cross_entropy_with_logits([[1.0, 0.0]], x)


def test_labels_that_do_not_add_up_to_one_get_the_true_gradient() -> None:
    labels, x = np.array([2.0, 0.5, 0.0]), tf.constant(np.array([0.3, -1.0, 2.0]))
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.nn.softmax_cross_entropy_with_logits(labels, x)
    _close(tape.gradient(y, x), tf.nn.softmax(x).numpy() * 2.5 - labels)


@pytest.mark.parametrize("z", [0.0, 1.0, 0.25, -1.0, 2.0, 1 + 1e-9, 1e9])
@pytest.mark.parametrize("x", [0.0, 1e-12, 1.0, -3.0, 40.0, -40.0, 1000.0, -1000.0])
def test_binary_cross_entropy_keeps_its_digits(z: float, x: float) -> None:
    with precision(4000):
        world, one = BallWorld(), JetWorld(1)
        want = to_float(world.sigmoid_cross_entropy(world.lift(z), world.lift(x)))
        slope = to_float(one.component(one.sigmoid_cross_entropy(one.lift(z), one.jet(np.array(x), np.array(1.0))), 1))
    a, b = tf.constant(z, tf.float64), tf.constant(x, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch((a, b))
        y = tf.nn.sigmoid_cross_entropy_with_logits(a, b)
    ga, gb = tape.gradient(y, (a, b))
    assert _ulps(y.numpy(), want) <= 4
    assert float(ga) == -x
    assert _ulps(gb.numpy(), slope) <= 4


def test_weighted_cross_entropy_is_the_plain_one_at_weight_one() -> None:
    z, x = np.array([0.0, 1.0, 0.3]), np.array([2.0, -3.0, 0.5])
    _close(tf.nn.weighted_cross_entropy_with_logits(z, x, 1.0), tf.nn.sigmoid_cross_entropy_with_logits(z, x))
    with pytest.raises(ValueError, match="same shape"):
        tf.nn.sigmoid_cross_entropy_with_logits(z, x[:2])
    with pytest.raises(ValueError, match="provided"):
        tf.nn.sigmoid_cross_entropy_with_logits(labels=z)


# ---------------------------------------------------------------------------------------------- layers


def test_bias_add_in_both_formats() -> None:
    x = np.arange(12.0).reshape(1, 2, 2, 3)
    assert np.array_equal(tf.nn.bias_add(x, [1.0, 2.0, 3.0]).numpy(), x + [1, 2, 3])
    assert np.array_equal(
        tf.nn.bias_add(x, [1.0, 2.0], data_format="NCHW").numpy(), x + np.array([1, 2]).reshape(2, 1, 1)
    )
    with pytest.raises(InvalidArgumentError, match="bias"):
        tf.nn.bias_add(x, [1.0])
    with pytest.raises(ValueError, match="data_format"):
        tf.nn.bias_add(x, [1.0, 2.0, 3.0], data_format="CHWN")


def test_moments_have_an_exact_second_derivative() -> None:
    h = _hessian(lambda v: tf.nn.moments(v, axes=[0])[1], np.array([1.0, 2.0, 4.0]))
    _close(h, 2 / 3 * (np.eye(3) - 1 / 3))


def test_l2_normalize_and_l2_loss() -> None:
    v = tf.constant([0.0, 0.0], tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(v)
        y = tf.nn.l2_normalize(v)
    _close(tape.gradient(y, v), [1e6, 1e6])
    with tf.GradientTape() as tape:
        tape.watch(v)
        y = tf.nn.l2_loss(v + [3.0, 4.0])
    assert tape.gradient(y, v).numpy().tolist() == [3, 4]


def test_dropout_records_its_mask() -> None:
    tf.random.set_seed(5)
    v = tf.constant(np.full(1000, 2.0))
    with tf.GradientTape() as tape:
        tape.watch(v)
        y = tf.nn.dropout(v, 0.25, seed=1)
    assert not np.array_equal(y.numpy(), tf.nn.dropout(v, 0.25, seed=1).numpy())
    tf.random.set_seed(5)
    assert np.array_equal(y.numpy(), tf.nn.dropout(v, 0.25, seed=1).numpy())
    assert np.array_equal(tape.gradient(y, v).numpy(), y.numpy() / 2)
    assert 150 < (y.numpy() == 0).sum() < 350
    shared = tf.nn.dropout(tf.ones([50, 4]), 0.5, noise_shape=[50, 1], seed=2).numpy()
    assert (shared == shared[:, :1]).all()
    for rate in (1.0, -0.1):
        with pytest.raises(ValueError, match="rate"):
            tf.nn.dropout(v, rate)


def test_embedding_lookup_has_a_sparse_gradient() -> None:
    table = tf.Variable(np.arange(6.0).reshape(3, 2))
    with tf.GradientTape() as tape:
        y = tf.nn.embedding_lookup(table, [2, 0, 2])
    g = tape.gradient(y, table)
    assert isinstance(g, tf.IndexedSlices)
    assert tf.convert_to_tensor(g).numpy().tolist() == [[1, 1], [0, 0], [2, 2]]
    _close(tf.linalg.norm(tf.nn.embedding_lookup(table, [2], max_norm=1.0)), 1.0)


@pytest.mark.parametrize("char", "fdFD")
@pytest.mark.parametrize("sizes", [(128, 70, 128), (200, 3, 90), (2, 30, 9000), (16384, 1, 1), (1, 5, 16384)])
def test_products_with_many_elements_have_the_bits_of_small_ones(sizes: tuple[int, int, int], char: str) -> None:
    """Large products go by another function of NumPy, whatever the layout of the operands in memory."""
    rng = np.random.default_rng(7)
    n, k, m = sizes
    a, b = [rng.normal(size=(*s, 2)).view(complex)[..., 0] for s in ((n, k), (k, m))]
    a, b = [(v if char in "FD" else v.real).astype(char) for v in (a, b)]
    kernel = kernel_for(REGISTRY["matmul"], (a, b), {})
    layouts = [np.array, np.asfortranarray, lambda v: np.repeat(v, 2, axis=1)[:, ::2]]
    for left in layouts:
        for right in layouts:
            assert kernel(left(a), right(b)).tobytes() == np.dot(left(a), right(b)).tobytes()
    if n == m:
        assert kernel(a, a.T).tobytes() == np.dot(a, a.T).tobytes()


# TensorFlow refuses and takes the same shapes.
@pytest.mark.parametrize(
    ("labels", "logits"),
    [
        ((2, 2), (2,)), ((3, 2), (1, 2)), ((3, 4, 2), (4, 2)), ((1, 4, 2), (3, 4, 2)), ((2, 2, 2), (2, 1, 2)),
        ((), (3,)), ((3, 3), (3, 2)),
    ],
)  # fmt: skip
def test_the_cross_entropy_refuses_logits_without_a_row_for_each_sample(labels: Any, logits: Any) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be broadcastable"):
        tf.nn.softmax_cross_entropy_with_logits(labels=tf.ones(labels), logits=tf.ones(logits))


@pytest.mark.parametrize(
    ("labels", "logits"),
    [
        ((2,), (3, 2)), ((1, 2), (3, 2)), ((3, 1), (3, 2)), ((4, 2), (1, 4, 2)), ((2, 2, 2), (4, 2)),
        ((1, 1, 2), (3, 2)), ((3, 2), (3, 1)),
    ],
)  # fmt: skip
def test_one_row_of_labels_stands_for_all_samples(labels: Any, logits: Any) -> None:
    numbers = np.random.default_rng(0)
    y, x = numbers.random(labels, np.float32), numbers.random(logits, np.float32)
    rows, classes = x.reshape(-1, logits[-1]), max(labels[-1], logits[-1])
    wide = np.broadcast_to(rows, (len(rows), classes)).astype(np.float64)
    shares = np.log(np.exp(wide).sum(axis=1, keepdims=True)) - wide
    wanted = (y.reshape(-1, labels[-1]) * shares).sum(axis=1).reshape(logits[:-1])
    found = tf.nn.softmax_cross_entropy_with_logits(labels=y, logits=x)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5)


def test_matrices_of_too_few_axes_are_a_value_error() -> None:
    for kind in (ValueError, tf.errors.InvalidArgumentError):
        with pytest.raises(kind, match="matrices are needed"):
            tf.linalg.pinv([1.0, 2.0])
