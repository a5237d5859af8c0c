"""Second derivatives by eigenvalues and singular values where values are equal, 0, or tiny beside the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from nestings import MODES, derivatives, second

import gtape as tf
from gtape.verify import check, exact, judge

VALUES = [(1.0, 1.0), (2.0, 2.0, 2.0), (1.0, 1.0, 3.0), (0.5, 1.0, 1.0, 2.0, 2.0, 2.0), (1.0, 2.0, 3.0)]
GAP = (1.0, 1.0 + 1e-14, 2.0)


def hessian(f: Callable[..., Any], x: Any, whole: str = "jacobian") -> Any:
    """The second derivatives of `f` in reverse over reverse mode, by `jacobian` or `batch_jacobian`."""
    return derivatives(f, x, whole)[1]


def rotation(rng: Any, n: int) -> Any:
    return np.linalg.qr(rng.normal(size=(n, n)))[0]


def close(got: float, right: float, unit: float, *sizes: Any) -> bool:
    return abs(got - right) <= 256 * unit * float(np.prod([np.linalg.norm(s) for s in sizes]))


def exact_of_eigenvalues(w: Any, v: Any, h: Any, k: Any) -> float:
    """The second derivative of sum(exp(w)): divided differences of exp times the directions (Daleckii and Krein)."""
    mean, half = (w[:, None] + w[None, :]) / 2, (w[:, None] - w[None, :]) / 2
    quotients = np.exp(mean) * np.where(half == 0, 1, np.sinh(half) / np.where(half == 0, 1, half))
    return float((quotients * (v.T @ h @ v) * (v.T @ k @ v)).sum())


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("values", VALUES, ids=str)
def test_functions_of_eigenvalues(values: Any, mode: str, dtype: Any) -> None:
    rng = np.random.default_rng(7)
    w = np.array(values)
    for turn in (np.eye(len(w)), rotation(rng, len(w))) if dtype == np.float64 else (np.eye(len(w)),):
        h, k = [b + b.T for b in rng.normal(size=(2, len(w), len(w)))]
        m = turn * w @ turn.T
        args = [((x + x.T) / 2).astype(dtype) for x in (m, h, k)]
        got = second(sum_of_exponentials, *args, mode)
        assert close(got, exact_of_eigenvalues(w, turn, h, k), float(np.finfo(dtype).eps), np.exp(w), h, k)


@pytest.mark.parametrize("mode", MODES)
def test_eigenvalues_a_few_roundings_apart(mode: str) -> None:
    rng = np.random.default_rng(8)
    w, turn = np.array(GAP), rotation(rng, 3)
    h, k = [b + b.T for b in rng.normal(size=(2, 3, 3))]
    m = turn * w @ turn.T
    got = second(sum_of_exponentials, (m + m.T) / 2, h, k, mode)
    assert close(got, exact_of_eigenvalues(w, turn, h, k), 2.0**-52, np.exp(w), h, k)


# A quotient of rounding by the gap loses more digits than a slope in place of the quotient, or fewer, at about 1e-8.
@pytest.mark.parametrize(
    ("gap", "digits"), [(1e-13, 13), (1e-12, 12), (1e-10, 10), (1e-8, 8), (3e-8, 8), (1e-7, 9), (1e-5, 11)]
)
def test_reverse_mode_keeps_most_digits_at_every_gap(gap: float, digits: int) -> None:
    rng = np.random.default_rng(13)
    w, turn = np.array([1.0, 1.0 + gap, 1.0 + 2 * gap, 2.5]), rotation(rng, 4)
    h, k = [b + b.T for b in rng.normal(size=(2, 4, 4))]
    m = turn * w @ turn.T
    got = second(sum_of_exponentials, (m + m.T) / 2, h, k, MODES[0])
    assert close(got, exact_of_eigenvalues(w, turn, h, k), 10.0**-digits / 256, np.exp(w), h, k)


@pytest.mark.parametrize("rows", [0, 2], ids=["square", "tall"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("values", VALUES, ids=str)
def test_functions_of_singular_values(values: Any, mode: str, rows: int) -> None:
    rng = np.random.default_rng(9)
    n = len(values)
    m = rotation(rng, n + rows)[:, :n] * np.array(values) @ rotation(rng, n)
    h, k = rng.normal(size=(2, *m.shape))

    def by_products(x: Any) -> Any:
        return tf.reduce_sum(tf.matmul(x, x, transpose_a=True) ** 2)

    for transposed in (False, True):
        args = [x.T if transposed else x for x in (m, h, k)]
        got = second(lambda x: tf.reduce_sum(tf.linalg.svd(x, compute_uv=False) ** 4), *args, mode)
        assert close(got, second(by_products, m, h, k, MODES[0]), 2.0**-52, np.square(values), h, k)


def test_the_hessians_of_a_batch_with_and_without_equal_values() -> None:
    x = tf.constant(np.stack([np.eye(3), np.diag([1.0, 1.0, 2.0]), np.diag([1.0, 2.0, 4.0])]))
    functions = [
        lambda x: tf.reduce_sum(tf.linalg.svd(x, compute_uv=False) ** 4),
        lambda x: tf.reduce_sum(tf.matmul(x, x, transpose_a=True) ** 2),
    ]
    found = [hessian(f, x, "batch_jacobian").numpy() for f in functions]
    np.testing.assert_allclose(*found, rtol=1e-13, atol=1e-12)


@pytest.mark.filterwarnings("ignore:.*runs eagerly:RuntimeWarning")
@pytest.mark.parametrize(
    ("f", "values"),
    [
        (lambda x: tf.reduce_sum(tf.exp(tf.linalg.eigvalsh(x))), (1.0, 1.0, 2.0)),
        (lambda x: tf.reduce_sum(tf.linalg.svd(x, compute_uv=False) ** 2), (1.0, 0.0, 0.0)),
        (lambda x: tf.reduce_sum(tf.linalg.svd(x[:, :2], compute_uv=False) ** 2), (1.0, 0.0, 0.0)),
    ],
    ids=["equal eigenvalues", "singular values 0", "a singular value 0 of a tall matrix"],
)
def test_a_function_compiled_at_either_kind_of_matrix_returns_the_bits_of_the_eager_one(f: Any, values: Any) -> None:
    def whole(x: Any) -> Any:
        return hessian(f, x)

    points = [tf.constant(np.diag([1.0, 2.0, 4.0])), tf.constant(np.diag(values))]
    for order in (points, points[::-1]):
        compiled = tf.function(whole, jit_compile=True)
        for x in (*order, *order):
            np.testing.assert_array_equal(compiled(x).numpy(), whole(x).numpy())


@pytest.mark.parametrize("scale", [1.0, 1e3, 1e6])
def test_a_projector_has_its_gradient_for_cotangents_of_every_size(scale: float) -> None:
    rng = np.random.default_rng(10)
    for _ in range(10):
        v = rotation(rng, 5)
        a = v * np.array([1.0, 1.0, 1.0, 3.0, 3.0]) @ v.T
        c = rng.normal(size=(5, 5))
        x = tf.constant((a + a.T) / 2)
        with tf.GradientTape() as tape:
            tape.watch(x)
            u = tf.linalg.eigh(x)[1][:, :3]
            y = scale * tf.reduce_sum(tf.matmul(u, u, transpose_b=True) * (c + c.T))
        inside = v[:, :3] @ v[:, :3].T
        outside = np.eye(5) - inside
        whole = -scale * (inside @ (c + c.T) @ outside + outside @ (c + c.T) @ inside) / 2
        right = np.tril(2 * whole) - np.diag(np.diag(whole))
        np.testing.assert_allclose(tape.gradient(y, x).numpy(), right, rtol=0, atol=1e-12 * scale)


@pytest.mark.parametrize("mode", MODES)
def test_one_singular_value_of_a_square_matrix_may_be_zero(mode: str) -> None:
    m = np.diag([2.0, 2.0, 0.0])
    h, k = np.random.default_rng(11).normal(size=(2, 3, 3))
    got = second(lambda x: tf.reduce_sum(tf.linalg.svd(x, compute_uv=False) ** 4), m, h, k, mode)
    right = second(lambda x: tf.reduce_sum(tf.matmul(x, x, transpose_a=True) ** 2), m, h, k, MODES[0])
    assert close(got, right, 2.0**-52, m @ m, h, k)


NULL_SPACES = {
    "two zeros": ((3, 3), (2.0, 0.0, 0.0)),
    "all zeros": ((2, 2), (0.0, 0.0)),
    "one zero, tall": ((3, 2), (2.0, 0.0)),
    "one zero, wide": ((2, 4), (2.0, 0.0)),
    "two zeros beside two equal values": ((4, 4), (2.0, 2.0, 0.0, 0.0)),
}


def reconstruction(x: Any) -> Any:
    s, u, v = tf.linalg.svd(x)
    return tf.reduce_sum(tf.matmul(u * s, v, transpose_b=True) ** 2)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NULL_SPACES)
def test_even_functions_of_singular_values_are_smooth_at_zeros(name: str, mode: str) -> None:
    (m, n), values = NULL_SPACES[name]
    rng = np.random.default_rng(12)
    diagonal = np.zeros((m, n))
    np.fill_diagonal(diagonal, values)
    functions = {
        lambda x: tf.reduce_sum(tf.linalg.svd(x, compute_uv=False) ** 4): (
            lambda x: tf.reduce_sum(tf.matmul(x, x, transpose_a=True) ** 2)
        ),
        lambda x: tf.reduce_sum(tf.linalg.svd(x)[0] ** 2): lambda x: tf.reduce_sum(x**2),
    }
    if values.count(2.0) < 2:
        functions[reconstruction] = lambda x: tf.reduce_sum(x**2)
    for point in (diagonal, rotation(rng, m) @ diagonal @ rotation(rng, n)):
        h, k = rng.normal(size=(2, m, n))
        for f, by_products in functions.items():
            right = second(by_products, point, h, k, MODES[0])
            assert close(second(f, point, h, k, mode), right, 2.0**-52, 4.0, h, k)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["all zeros", "one zero, tall"])
def test_the_check_knows_second_derivatives_at_singular_values_0(name: str) -> None:
    shape, values = NULL_SPACES[name]
    point = np.zeros(shape)
    np.fill_diagonal(point, values)
    f = SYMMETRIC["squares of singular values"]
    assert check(f, point, order=2).ok
    right = hessian(f, tf.constant(point)).numpy()
    np.testing.assert_allclose(right.reshape(point.size, -1), 2 * np.eye(point.size), rtol=0, atol=1e-14)
    wrong = right.copy()
    wrong[-1, -1, -1, -1] += 1e-6
    assert not judge(f, point, wrong, order=2).ok


def test_functions_of_the_vectors_of_zeros_have_no_derivative() -> None:
    def f(x: Any) -> Any:
        _, u, v = tf.linalg.svd(x)
        return tf.reduce_sum(tf.matmul(u, v, transpose_b=True) ** 3)

    report = check(f, np.diag([1.0, 0.0, 0.0]))
    assert not report.ok and {x.verdict for x in report.findings if not x.ok} == {"domain"}


@pytest.mark.slow
def test_no_rule_is_at_fault_where_roundings_part_equal_values() -> None:
    turn = rotation(np.random.default_rng(3), 4)
    three = turn * np.array([1.3, 1.3, 1.3, 2.5]) @ turn.T
    two = np.array([[np.nextafter(1.3, 2), 2.0**-54], [2.0**-54, 1.3]])
    for m in ((three + three.T) / 2, two):
        assert "rule" not in {x.verdict for x in check(sum_of_exponentials, m, order=2).findings}


def sum_of_exponentials(x: Any) -> Any:
    return tf.reduce_sum(tf.exp(tf.linalg.eigvalsh(x)))


SYMMETRIC = {
    "exponentials": sum_of_exponentials,
    "logarithms": lambda x: tf.reduce_sum(tf.math.log(tf.linalg.eigvalsh(x))),
    "squared gap": lambda x: (lambda w: (w[1] - w[0]) ** 2)(tf.linalg.eigvalsh(x)),
    "squares of singular values": lambda x: tf.reduce_sum(tf.linalg.svd(x, compute_uv=False) ** 2),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SYMMETRIC)
def test_the_check_compares_second_derivatives_with_exact_ones(name: str) -> None:
    f, m = SYMMETRIC[name], np.diag([1.25, 1.25])
    assert check(f, m, order=2).ok
    right = hessian(f, tf.constant(m)).numpy()
    assert judge(f, m, right, order=2).ok
    wrong = right.copy()
    wrong[0, 0, 1, 1] += 1e-6 * np.abs(right).max()
    assert not judge(f, m, wrong, order=2).ok


def spectral(x: Any) -> Any:
    w, v = tf.linalg.eigh(x)
    return tf.reduce_sum(tf.matmul(v * tf.exp(w), v, transpose_b=True) ** 2)


@pytest.mark.slow
def test_the_check_knows_second_derivatives_of_functions_of_values_and_vectors() -> None:
    m = np.diag([1.25, 1.25])
    right = hessian(spectral, tf.constant(m)).numpy()
    assert judge(spectral, m, right, order=2).ok
    right[1, 0, 1, 0] += 1e-6 * np.abs(right).max()
    assert not judge(spectral, m, right, order=2).ok


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_passes_the_check(mode: str) -> None:
    h, k = np.array([[[1.0, 0.5], [0.5, -1.0]], [[0.25, 1.0], [1.0, 2.0]]])
    with tf.verifying():
        second(sum_of_exponentials, np.diag([1.25, 1.25]), h, k, mode)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("f", "values"),
    [
        (lambda x: (tf.linalg.eigvalsh(x)[0] - 1.0) ** 2, (1.0, 1.0)),  # its second derivative depends on the side
        (SYMMETRIC["squared gap"], (1.0, 1.0, 1.0)),  # two of three equal values
    ],
)
def test_functions_without_second_derivatives_are_outside_their_domain(f: Any, values: Any) -> None:
    report = check(f, np.diag(values), order=2)
    assert not report.ok and {x.verdict for x in report.findings if not x.ok} == {"domain"}


def _truncated(m: int, n: int, tiny: tuple[float, ...]) -> Any:
    """A matrix with the singular values 2, 1 and `tiny`."""
    rng = np.random.default_rng([m, n])
    values = np.array([2.0, 1.0, *tiny][: min(m, n)])
    return rotation(rng, m)[:, : len(values)] * values @ rotation(rng, n)[: len(values)]


LARGEST = {
    "left projector": lambda s, u, v: tf.matmul(u[:, :2], u[:, :2], transpose_b=True),
    "right projector": lambda s, u, v: tf.matmul(v[:, :2], v[:, :2], transpose_b=True),
    "approximation of rank 2": lambda s, u, v: tf.matmul(u[:, :2] * s[:2], v[:, :2], transpose_b=True),
    "pseudo-inverse of rank 2": lambda s, u, v: tf.matmul(v[:, :2] / s[:2], u[:, :2], transpose_b=True),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("tiny", [(1e-5, 1e-6), (1e-9, 1e-10), (1e-16, 1e-17), (0.0, 0.0)], ids=str)
@pytest.mark.parametrize("shape", [(3, 3), (4, 3), (3, 5), (4, 4)], ids=str)
def test_functions_of_the_largest_vectors_beside_tiny_singular_values(shape: Any, tiny: Any, mode: str) -> None:
    point = _truncated(*shape, tiny)
    rng = np.random.default_rng(31)
    h, k = rng.normal(size=(2, *shape))
    for take in LARGEST.values():
        weights = rng.normal(size=take(*tf.linalg.svd(point)).shape)

        def f(x: Any, take: Any = take, weights: Any = weights) -> Any:
            return tf.reduce_sum(take(*tf.linalg.svd(x)) * weights)

        def slope(x: Any, f: Any = f) -> float:
            x = tf.constant(x)
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = f(x)
            return float(np.sum(tape.gradient(y, x).numpy() * k))

        step = 1e-5
        right = (slope(point + step * h) - slope(point - step * h)) / (2 * step)
        assert second(f, point, h, k, mode) == pytest.approx(right, rel=1e-7, abs=1e-7)


@pytest.mark.parametrize("shape", [(3, 3), (4, 3), (3, 4)], ids=str)
@pytest.mark.parametrize("tiny", [(1e-7, 1e-8), (1e-8, 1e-9), (1e-8, 0.0), (1e-14, 1e-14)], ids=str)
def test_sums_of_squares_of_tiny_singular_values(tiny: Any, shape: Any) -> None:
    for point in (np.eye(*shape) * np.array([1.0, *tiny, 0.0])[: shape[1]], _truncated(*shape, tiny[:1])):
        found = hessian(SYMMETRIC["squares of singular values"], tf.constant(point)).numpy()
        np.testing.assert_allclose(found.reshape(point.size, -1), 2 * np.eye(point.size), rtol=0, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGEST)
def test_the_check_accepts_second_derivatives_of_the_largest_vectors(name: str) -> None:
    take = LARGEST[name]
    report = check(lambda x: take(*tf.linalg.svd(x))[0], _truncated(4, 3, (0.0,)), order=2)
    assert report.ok, report.summary()


@pytest.mark.parametrize("mode", MODES)
def test_eigenvalues_0_that_differ_by_rounding(mode: str) -> None:
    rng = np.random.default_rng(20)
    h, k = [b + b.T for b in rng.normal(size=(2, 4, 4))]
    w, v = np.array([0.0, 0.0, 0.0, 4.0]), np.linalg.eigh(np.ones((4, 4)))[1]
    got = second(sum_of_exponentials, np.ones((4, 4)), h, k, mode)
    assert close(got, exact_of_eigenvalues(w, v, h, k), 2.0**-52, np.exp(w), h, k)


@pytest.mark.filterwarnings("ignore:.*runs eagerly:RuntimeWarning")
@pytest.mark.parametrize("nested", [False, True], ids=["first", "second"])
def test_compiled_derivatives_beside_tiny_singular_values(nested: bool) -> None:
    def first(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            u = tf.linalg.svd(x)[1][:, :2]
            y = tf.reduce_sum(tf.sin(tf.matmul(u, u, transpose_b=True) + tf.linalg.pinv(x)[0, 0]))
        return tape.gradient(y, x)

    def of_gradient(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            z = tf.reduce_sum(first(x) ** 2)
        return tape.gradient(z, x)

    gradient = of_gradient if nested else first
    compiled = tf.function(gradient, jit_compile=True)
    for tiny in (0.5, 0.0, 0.3, 1e-9):
        x = tf.constant(_truncated(4, 3, (tiny,)))
        assert compiled(x).numpy().tobytes() == gradient(x).numpy().tobytes()


def _rebuilt(x: Any) -> Any:
    e, v = tf.linalg.eigh(x)
    return v @ tf.linalg.diag(e) @ tf.transpose(v)


_INVARIANTS: dict[str, tuple[Callable[[Any], Any], Any, int, dict[tuple[int, ...], float]]] = {
    "rebuilt": (lambda x: tf.reduce_sum(_rebuilt(x) * [[1.0, 2.0], [3.0, 4.0]]), np.eye(2), 1, {(1, 0): 5.0}),
    "rebuilt, beside another value": (
        lambda x: tf.reduce_sum(_rebuilt(x) * np.arange(9.0).reshape(3, 3)), np.diag([1.0, 1.0, 2.0]), 1,
        {(1, 0): 4.0, (2, 0): 8.0, (2, 1): 12.0, (2, 2): 8.0},
    ),
    "rebuilt from singular values": (
        lambda x: tf.reduce_sum(
            (lambda s, u, v: u @ tf.linalg.diag(s) @ tf.transpose(v))(*tf.linalg.svd(x)) * [[0.0, 1.0], [2.0, 3.0]]
        ),
        np.zeros((2, 2)), 1, {(0, 1): 1.0, (1, 0): 2.0, (1, 1): 3.0},
    ),
    "squares": (lambda x: tf.reduce_sum(tf.linalg.eigvalsh(x) ** 2), np.eye(2), 2, {(1, 0, 1, 0): 4.0}),
    "logarithms": (
        lambda x: tf.reduce_sum(tf.math.log(tf.linalg.eigvalsh((x + tf.transpose(x)) / 2.0))), np.eye(2), 2,
        {(0, 1, 0, 1): -0.5, (0, 1, 1, 0): -0.5},
    ),
    "exponentials": (
        lambda x: tf.reduce_sum(tf.exp(tf.linalg.eigvalsh(x) - 1.0)), np.eye(2), 2,
        {(0, 0, 0, 0): 1.0, (1, 0, 1, 0): 2.0},
    ),
    "singular values": (
        lambda x: tf.reduce_sum(tf.linalg.svd(x, compute_uv=False) ** 2), np.eye(2), 1, {(0, 0): 2.0, (0, 1): 0.0},
    ),
    "product": (lambda x: tf.reduce_prod(tf.linalg.eigvalsh(x)), np.eye(2), 2, {(1, 0, 1, 0): -2.0}),
}  # fmt: skip


@pytest.mark.parametrize(("f", "x", "order", "right"), _INVARIANTS.values(), ids=_INVARIANTS.keys())
def test_exact_gives_the_derivative_of_what_does_not_depend_on_the_vectors(
    f: Any, x: Any, order: int, right: dict[tuple[int, ...], float]
) -> None:
    made = exact(f, x, order=order, digits=12)
    for index, number in right.items():
        assert float(made[index]) == number
    assert judge(f, x, np.array(made, dtype=float), order=order).ok


def test_exact_gives_no_derivative_of_vectors_that_may_turn() -> None:
    with pytest.raises(ArithmeticError, match=r"there is no derivative here: some eigenvalues .* are equal"):
        exact(lambda x: tf.linalg.eigh(x)[1][0, 0], np.eye(2))
