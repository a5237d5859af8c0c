"""Custom gradients under the flag in forward mode, also in recomputed blocks and over inner derivatives."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.verify.verdicts.collect import collecting

F = Callable[[Any], Any]
Mode = Callable[[F, Any], Any]

W = np.random.default_rng(4).normal(size=(3, 3))
POINT = [0.34, -1.2, 0.9]


def forward(f: F, x: Any) -> Any:
    """The tangent along ones."""
    with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as accumulator:
        y = f(tf.convert_to_tensor(x))
    return accumulator.jvp(y)


def over_a_gradient(f: F, x: Any) -> Any:
    def inner(v: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(v)
            y = f(v)
        return tape.gradient(y, v)

    return forward(inner, x)


def over_a_tangent(f: F, x: Any) -> Any:
    def inner(v: Any) -> Any:
        with tf.autodiff.ForwardAccumulator(v, tf.ones_like(v)) as accumulator:
            y = f(v)
        return accumulator.jvp(y)

    return forward(inner, x)


MODES: dict[str, Mode] = {"first order": forward, "a gradient": over_a_gradient, "a tangent": over_a_tangent}
SECOND_ORDER = [over_a_gradient, over_a_tangent]


def verified(mode: Mode, f: F, x: Any = POINT) -> Any:
    """A tangent that was checked, as an array."""
    with tf.verifying("strict"):
        return mode(f, tf.constant(x, tf.float64)).numpy()


def named(mode: Mode, f: F, x: Any = POINT) -> set[str | None]:
    """The ops that the check of a wrong tangent names, all with their lines."""
    with pytest.raises(tf.VerificationError) as caught, tf.verifying():
        mode(f, tf.constant(x, tf.float64))
    wrong = [f for f in caught.value.report.findings if not f.ok]
    assert all(f.verdict in ("rule", "unconnected") and f.line is not None for f in wrong), caught.value
    return {f.op for f in wrong}


def late(x: Any) -> Any:
    """Zeros with a slope."""
    return x - tf.stop_gradient(x)


# Each makes a custom gradient from a factor of its gradient, and from an addition to its gradient.


def simpson(factor: float = 1.0, wrong: F = tf.zeros_like) -> F:
    """A mean of a sine by Simpson's rule, with rounded weights."""

    @tf.custom_gradient
    def mean(x: Any) -> Any:
        w, t = (tf.constant(v, x.dtype) for v in ([1 / 6, 4 / 6, 1 / 6], [0.0, 0.5, 1.0]))
        y = tf.reduce_sum(tf.sin(x[:, None] * t) * w, 1)

        def grad(g: Any) -> Any:
            return g * (tf.reduce_sum(tf.cos(x[:, None] * t) * t * w, 1) * factor + wrong(x))

        return y, grad

    return mean


def third_of_cube(factor: float = 1.0, wrong: F = tf.zeros_like) -> F:
    @tf.custom_gradient
    def third(x: Any) -> Any:
        return x * x * x * (1 / 3), lambda g: g * (x * x * factor + wrong(x))

    return third


def gelu(factor: float = 1.0, wrong: F = tf.zeros_like) -> F:
    """The Gaussian error linear unit, whose body and gradient round different constants."""

    @tf.custom_gradient
    def unit(x: Any) -> Any:
        c = 0.5 * (1.0 + tf.math.erf(x * np.sqrt(0.5)))

        def grad(g: Any) -> Any:
            return g * ((c + x * tf.exp(-0.5 * x * x) * (1 / np.sqrt(2 * np.pi))) * factor + wrong(x))

        return x * c, grad

    return unit


def layer(factor: float = 1.0, wrong: F = tf.zeros_like, w: Any = None) -> F:
    """A dense layer that reads a variable."""
    w = tf.Variable(W) if w is None else w

    @tf.custom_gradient
    def dense(x: Any) -> Any:
        y = tf.tanh(x[None] @ w)

        def grad(g: Any, variables: Any = None) -> Any:
            z = g[None] * (1.0 - y * y)
            return (z @ tf.transpose(w))[0] * factor + wrong(x) * g, [tf.transpose(x[None]) @ z * factor]

        return y[0], grad

    return dense


CUSTOMS = [simpson, third_of_cube, gelu, layer]


def alone(f: F) -> F:
    return f


def twice(f: F) -> F:
    return lambda x: f(f(x))


WRAPS = [alone, lambda f: twice(tf.recompute_grad(f)), lambda f: tf.recompute_grad(twice(f))]


def by_its_body(f: Any) -> F:
    """What a custom gradient computes, differentiated by the rules of its ops."""
    return lambda x: f.__wrapped__(x)[0]


@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize("custom", CUSTOMS)
def test_forward_mode_through_recomputed_blocks_is_right(custom: Callable[..., Any], wrap: Callable[[F], F]) -> None:
    f = custom()
    assert verified(forward, wrap(f)) == pytest.approx(forward(wrap(by_its_body(f)), tf.constant(POINT, tf.float64)))


@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize("custom", CUSTOMS)
def test_forward_mode_through_recomputed_blocks_shows_a_slightly_wrong_factor(
    custom: Callable[..., Any], wrap: Callable[[F], F]
) -> None:
    f = custom(1.0 + 1e-9)
    assert named(forward, wrap(f)) == {f.__name__}


@pytest.mark.parametrize("calls", [1, 2, 3])
@pytest.mark.parametrize("direction", [np.ones((3, 3)), np.eye(3), W - 0.5])
def test_a_block_of_a_variable_that_is_recomputed_has_a_right_tangent_by_it(calls: int, direction: Any) -> None:
    w, tangent = tf.Variable(W), tf.constant(direction)
    numbers = []
    for make in (layer(w=w), tf.recompute_grad(layer(w=w))):
        with tf.verifying(), tf.autodiff.ForwardAccumulator(w, tangent) as accumulator:
            y = tf.constant(POINT, tf.float64)
            for _ in range(calls):
                y = make(y)
        numbers.append(accumulator.jvp(y).numpy())
    assert numbers[0].tolist() == numbers[1].tolist()
    wrong = tf.recompute_grad(layer(1.0 + 1e-9, w=w))
    with tf.verifying(), tf.autodiff.ForwardAccumulator(w, tangent) as accumulator:
        y = tf.constant(POINT, tf.float64)
        for _ in range(calls):
            y = wrong(y)
    with pytest.raises(tf.VerificationError, match="op dense"):
        accumulator.jvp(y)


@pytest.mark.parametrize("direction", [np.ones((3, 3)), np.random.default_rng(1).normal(size=(3, 3))])
@pytest.mark.parametrize("wrap", [alone, tf.recompute_grad])
def test_a_normalised_layer_is_judged_alike_whether_it_is_recomputed_or_not(wrap: Any, direction: Any) -> None:
    w = tf.Variable(np.random.default_rng(0).normal(size=(3, 3)))

    def block(x: Any) -> Any:
        c = x - tf.reduce_mean(x, 1, keepdims=True)
        return tf.tanh(c * tf.math.rsqrt(tf.reduce_mean(c * c, 1, keepdims=True) + 1e-3) @ w) + x

    f = wrap(block)
    with tf.verifying(), tf.autodiff.ForwardAccumulator(w, tf.constant(direction)) as accumulator:
        y = tf.reduce_sum(f(f(tf.constant([[0.3, -1.2, 0.7], [1.1, 0.4, -0.5]], tf.float64))) ** 2)
    assert accumulator.jvp(y).numpy() == pytest.approx(3.4781072364675557 if direction[0, 0] != 1.0 else 0.0)


@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize("mode", MODES.values(), ids=list(MODES))
def test_a_tangent_is_checked_once_and_not_on_its_way(mode: Mode, wrap: Callable[[F], F]) -> None:
    f = wrap(third_of_cube())
    with collecting() as report:
        verified(mode, f)
    assert report.coverage["gradients"] == (1 if mode is forward else 2)


@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize("mode", SECOND_ORDER)
@pytest.mark.parametrize("custom", CUSTOMS)
def test_rounded_constants_are_right_over_an_inner_derivative(
    custom: Callable[..., Any], mode: Mode, wrap: Callable[[F], F]
) -> None:
    f = custom()
    assert verified(mode, wrap(f)) == pytest.approx(mode(wrap(by_its_body(f)), tf.constant(POINT, tf.float64)))


@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize("mode", SECOND_ORDER)
@pytest.mark.parametrize("wrong", [(1.0 + 1e-9,), (1.0, lambda x: 1e-9 * late(x))])
@pytest.mark.parametrize("custom", CUSTOMS)
def test_rounded_constants_hide_no_wrong_gradient_over_an_inner_derivative(
    custom: Callable[..., Any], wrong: tuple[Any, ...], mode: Mode, wrap: Callable[[F], F]
) -> None:
    f = custom(*wrong)
    assert named(mode, wrap(f)) == {f.__name__}


@pytest.mark.parametrize("mode", SECOND_ORDER)
@pytest.mark.parametrize("wrong", [(1.0 + 1e-9,), (1.0, late)])
def test_right_gradients_with_rounded_constants_are_not_named_beside_a_wrong_one(
    mode: Mode, wrong: tuple[Any, ...]
) -> None:
    f, right = gelu(*wrong), third_of_cube()
    assert named(mode, lambda x: right(f(right(x)))) == {"unit"}


def equilibrium(steps: int, factor: float = 1.0, wrong: F = tf.zeros_like) -> F:
    """A fixed point with the gradient by the implicit function theorem, which is right up to a residual."""
    w = tf.constant(np.random.default_rng(0).normal(size=(3, 3)) * 0.12)

    @tf.custom_gradient
    def fixed_point(x: Any) -> Any:
        z = tf.zeros_like(x)
        for _ in range(steps):
            z = tf.tanh(tf.linalg.matvec(w, z) + x)

        def grad(g: Any) -> Any:
            s = 1.0 - z * z
            system = tf.eye(3, dtype=tf.float64) - tf.linalg.diag(s) @ w
            return tf.linalg.matvec(tf.linalg.inv(system), g, transpose_a=True) * s * factor + wrong(x) * g

        return z, grad

    return fixed_point


@pytest.mark.parametrize("mode", SECOND_ORDER)
def test_a_residual_below_roundings_is_right_over_an_inner_derivative_and_hides_nothing(mode: Mode) -> None:
    verified(mode, equilibrium(22))
    for f in (equilibrium(22, 1.0 + 1e-9), equilibrium(22, 1.0, late), equilibrium(10)):
        assert named(mode, f) == {"fixed_point"}


def in_the_tail(factor: float) -> F:
    """The Gaussian error linear unit, whose body loses digits in its tail, with an accurate gradient."""

    @tf.custom_gradient
    def tail(x: Any) -> Any:
        slope = 0.5 * tf.math.erfc(-x / np.sqrt(2.0)) + x * tf.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi)
        return 0.5 * x * (1.0 + tf.math.erf(x / np.sqrt(2.0))), lambda g: g * slope * factor

    return tail


@pytest.mark.parametrize("wrap", [alone, tf.recompute_grad, lambda f: tf.recompute_grad(lambda x: f(x) * (1 / 3))])
@pytest.mark.parametrize("x", [[-5.0], [-7.0, 0.7], [0.3, -10.0, -6.0]])
def test_what_a_body_loses_by_rounding_excuses_no_wrong_gradient(x: list[float], wrap: Callable[[F], F]) -> None:
    with tf.verifying():
        forward(wrap(in_the_tail(1.0)), tf.constant(x, tf.float64))
    for factor in (1.0 + 1e-9, 1.0 + 1e-11):
        assert named(forward, wrap(in_the_tail(factor)), x) == {"tail"}


def test_a_number_that_a_wrong_gradient_does_not_reach_is_excused_as_before() -> None:
    @tf.custom_gradient
    def product(a: Any, b: Any) -> Any:
        return a * b, lambda g: (g * b, g * a * (1.0 + 1e-9))

    x, constant = tf.constant([0.01, 0.03], tf.float64), tf.constant(0.3, tf.float64)
    for by in (product, tf.multiply):
        with collecting() as report, tf.verifying():
            forward(functools.partial(_logarithm_without_its_slope, by, constant), x)
        assert {found.verdict for found in report.findings} == {"cancellation"}


def _logarithm_without_its_slope(product: Callable[..., Any], a: Any, x: Any) -> Any:
    return tf.math.log(1.0 + product(x, a)) - x * a


def stopped(x: Any) -> Any:
    return tf.stop_gradient(x)


def by_numpy(x: Any) -> Any:
    return tf.constant(x.numpy())


def half_stopped(x: Any) -> Any:
    return 0.5 * x + tf.stop_gradient(0.5 * x)


@tf.custom_gradient
def flat(x: Any) -> Any:
    """A sign, whose gradient is 0 and needs no cotangent."""
    return tf.sign(x), lambda g: tf.zeros_like(x)


def cube(lose: F) -> F:
    """A cube whose gradient is right, and loses its cotangent on the tape."""

    @tf.custom_gradient
    def lossy(x: Any) -> Any:
        return x * x * x, lambda g: lose(3.0 * g * x * x)

    return lossy


@pytest.mark.parametrize(
    "around",
    [
        alone, tf.recompute_grad, lambda f: tf.recompute_grad(lambda x: tf.sin(f(x))), lambda f: lambda x: f(x) + x,
        lambda f: lambda x: third_of_cube()(f(tf.exp(x))), lambda f: tf.recompute_grad(tf.recompute_grad(f)),
        lambda f: lambda x: f(x) + flat(x),
    ],
)  # fmt: skip
@pytest.mark.parametrize("lose", [stopped, by_numpy, half_stopped])
@pytest.mark.parametrize("mode", MODES.values(), ids=list(MODES))
def test_a_gradient_that_loses_its_cotangent_is_named(mode: Mode, lose: F, around: Callable[[F], F]) -> None:
    assert named(mode, around(cube(lose))) == {"lossy"}


def test_a_gradient_that_keeps_its_cotangent_is_right_whatever_else_it_stops() -> None:
    @tf.custom_gradient
    def squared(x: Any) -> Any:
        return x * x, lambda g: g * tf.stop_gradient(2.0 * x)

    assert verified(forward, squared).tolist() == (2.0 * np.array(POINT)).tolist()
    assert verified(forward, lambda x: tf.recompute_grad(squared)(x) + x) == pytest.approx(2.0 * np.array(POINT) + 1)


def complex_square(back: Callable[[Any, Any], Any]) -> F:
    @tf.custom_gradient
    def square(z: Any) -> tuple[Any, Callable[[Any], Any]]:
        return z * z, lambda upstream: back(upstream, z)

    return square


def reverse_over_a_tangent(f: F, x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = forward(f, x)
    return tape.gradient(y, x)


COMPLEX_BACKS: dict[str, tuple[Callable[[Any, Any], Any], bool]] = {
    "right": (lambda upstream, z: upstream * 2.0 * tf.math.conj(z), True),
    "without the conjugate": (lambda upstream, z: upstream * 2.0 * z, False),
    "with another factor": (lambda upstream, z: upstream * 3.0 * tf.math.conj(z), False),
}


@pytest.mark.parametrize("mode", [forward, over_a_gradient, over_a_tangent, reverse_over_a_tangent])
@pytest.mark.parametrize("back", COMPLEX_BACKS)
def test_a_wrong_custom_gradient_of_complex_numbers_is_named_in_forward_mode(back: str, mode: Mode) -> None:
    made, right = COMPLEX_BACKS[back]
    z, f = tf.constant(1 + 1j), complex_square(made)
    if right:
        with tf.verifying("strict"):
            mode(f, z)
        return
    with pytest.raises(tf.VerificationError) as caught, tf.verifying():
        mode(f, z)
    assert {(finding.verdict, finding.op) for finding in caught.value.report.findings} == {("rule", "square")}
