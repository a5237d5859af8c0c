"""Each way in which rules have gone wrong, planted in a rule where it can: the flag finds it (m1 to m18 of the zoo)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.declare.primitives import REGISTRY
from gtape.engine.worlds import NUMPY
from gtape.verify.programs.mutants import TRANSFORMS, formula, planted, planted_kernel, planted_rule

FOUND = tf.VerificationError


def gradient(f: Callable[..., Any], *at: Any, order: int = 1, weight: Any = None) -> list[Any]:
    """Gradients under the flag."""
    xs = [tf.constant(np.asarray(a, np.float64)) for a in at]
    with tf.GradientTape(verify=True) as tape:
        tape.watch(xs)
        if order == 2:
            with tf.GradientTape() as inner:
                inner.watch(xs)
                y = f(*xs)
            y = inner.gradient(y, xs)
        else:
            y = f(*xs)
    return list(tape.gradient(y, xs, output_gradients=weight))


def test_the_unharmed_rules_pass_at_these_points() -> None:
    gradient(tf.tanh, [20.0, -3.0])
    gradient(tf.asinh, 1e200)
    gradient(tf.exp, [0.3, 2.0])
    gradient(lambda x: tf.gather(x, [0, 0, 1]) ** 2, [1.0, 2.0])
    gradient(tf.reduce_prod, [2.0, 0.0, 4.0])
    gradient(lambda x: tf.where(x > 0.0, tf.math.log(x), x), [-1.0, 0.0, 2.0])
    gradient(tf.nn.relu6, [0.0, 6.0, 3.0])
    gradient(tf.square, [0.0, 2.0], order=2)
    gradient(lambda x: tf.transpose(x, [1, 2, 0]) * np.arange(8.0).reshape(2, 2, 2), np.ones((2, 2, 2)))
    gradient(tf.asin, 1.0 - 2.0**-40)


@pytest.mark.parametrize("name", ["m1 factor", "m2 sign", "m16 missing case"])
@pytest.mark.parametrize("op", ["tanh", "multiply"])
def test_m1_m2_m16_a_lost_factor_a_sign_or_a_missing_argument(name: str, op: str) -> None:
    transform = TRANSFORMS[{"m1 factor": "factor 2", "m2 sign": "sign", "m16 missing case": "missing case"}[name]]
    with planted(op, 0, transform), pytest.raises(FOUND, match=op):
        gradient(REGISTRY[op], *[[0.5, -0.7]] * len(REGISTRY[op].rules))


def test_m3_the_output_in_a_form_that_cancels() -> None:
    wrong = formula(lambda xp, y, x: 1 - y * y)
    with planted("tanh", 0, wrong, worlds="floats"), pytest.raises(FOUND, match="tanh"):
        gradient(tf.tanh, [20.0, -3.0])


def test_m4_squaring_before_dividing() -> None:
    wrong = formula(lambda xp, y, x: 1 / xp.sqrt(1 + x * x))
    with planted("asinh", 0, wrong, worlds="floats"), pytest.raises(FOUND, match="asinh"):
        gradient(tf.asinh, 1e200)


def test_m5_the_input_where_the_output_is_meant_and_the_reverse() -> None:
    with planted("exp", 0, formula(lambda xp, y, x: x)), pytest.raises(FOUND, match="exp"):
        gradient(tf.exp, [0.3, 2.0])
    with planted("sin", 0, formula(lambda xp, y, x: xp.cos(y))), pytest.raises(FOUND, match="sin"):
        gradient(tf.sin, [0.3, 2.0])


def test_m6_swapped_arguments() -> None:
    def swap(xp: Any, value: Any, rule: Any, args: tuple[Any, ...], i: int) -> Any:
        y, a, b = args
        return rule(xp, y, b, a)

    with planted("atan2", 0, swap), pytest.raises(FOUND, match="atan2"):
        gradient(tf.math.atan2, [0.3, 2.0], [1.0, 0.5])


@pytest.mark.parametrize("shape", [(3,), (2, 1), (1, 3), ()])
def test_m7_unbroadcasting_omitted_along_an_axis(shape: tuple[int, ...]) -> None:
    def first_only(x: Any, *, shape: Any, batch: int) -> Any:
        x = np.asarray(x)
        full = (1,) * (x.ndim - len(shape)) + tuple(shape)
        taken = x[tuple(slice(0, 1) if f == 1 else slice(None) for f in full)]
        return taken.reshape(shape)

    with planted_kernel("sum_to", first_only), pytest.raises(FOUND):
        gradient(lambda x: x * tf.constant(np.arange(1.0, 7.0).reshape(2, 3)), np.ones(shape))


def test_m8_overwriting_where_cotangents_add_up() -> None:
    def overwrite(x: Any, indices: Any, *, size: int) -> Any:
        made = np.zeros((size, *np.shape(x)[1:]))
        made[np.asarray(indices)] = x
        return made

    with planted_kernel("scatter_rows", overwrite), pytest.raises(FOUND):
        gradient(lambda x: tf.gather(x * 1.0, [0, 0, 1]) ** 2, [1.0, 2.0])


def test_m8_the_last_of_two_uses_wins() -> None:
    # The second use of a value wipes out the first: what `a + b` of two cotangents would do as `b`.
    multiply = REGISTRY["multiply"]

    def last_wins(xp: Any, value: Any, rule: Any, args: tuple[Any, ...], i: int) -> Any:
        r = value()
        return r if i else r * 0

    with planted("multiply", 0, last_wins), pytest.raises(FOUND, match="multiply"):
        gradient(lambda x: multiply(x, x), [1.0, 2.0])


@pytest.mark.parametrize("name", ["sin", "exp", "multiply"])
def test_m9_a_residual_that_the_second_order_takes_for_constant(name: str) -> None:
    def f(x: Any, z: Any) -> Any:
        prim = REGISTRY[name]
        return (prim(x, z) if len(prim.rules) == 2 else prim(x)) * z

    with planted(name, 0, TRANSFORMS["constant residual"]):
        gradient(f, [0.3, 0.8], [0.6, 0.9])
        with pytest.raises(FOUND):
            gradient(f, [0.3, 0.8], [0.6, 0.9], order=2)


def test_m10_the_product_rule_by_division() -> None:
    prim = REGISTRY["prod"]

    def by_division(xp: Any, value: Any, rule: Any, args: tuple[Any, ...], i: int) -> Any:
        if xp is not NUMPY:
            return value()
        g, y, x = args
        with np.errstate(all="ignore"):
            return np.expand_dims(np.asarray(g * y), -1) / x

    assert prim.arity == 1
    with planted("prod", 0, by_division):
        gradient(tf.reduce_prod, [2.0, 3.0, 4.0])  # right where no factor is zero
        with pytest.raises(FOUND):
            gradient(tf.reduce_prod, [2.0, 0.0, 4.0])


def test_m11_multiplying_where_a_selection_is_meant() -> None:
    # The mask as a factor: 0 times the slope of log at 0.
    def f(x: Any) -> Any:
        return tf.math.log(x) * tf.cast(x > 0.5, x.dtype) + x

    with pytest.raises(FOUND):
        gradient(f, [0.0, 2.0])


def test_m11_multiplying_in_the_rule_of_a_selection() -> None:
    def times_mask(xp: Any, value: Any, rule: Any, args: tuple[Any, ...], i: int) -> Any:
        if xp is not NUMPY:
            return value()
        with np.errstate(all="ignore"):
            return value() * np.where(np.isfinite(args[2]), 1.0, np.inf)

    x = tf.constant([-1.0, 0.0, 2.0], tf.float64)
    with planted("where", 1, times_mask), tf.GradientTape(verify=True) as tape:
        tape.watch(x)
        y = tf.where(x > 0.0, tf.math.log(x), x)
        with pytest.raises(FOUND):
            tape.gradient(y, x)


@pytest.mark.parametrize("value", [1.5, -1.5])
@pytest.mark.parametrize(("name", "at"), [("relu", 0.0), ("relu6", 6.0), ("abs", 0.0)])
def test_m12_a_value_outside_the_interval_at_a_kink(name: str, at: float, value: float) -> None:
    def off(xp: Any, value_: Any, rule: Any, args: tuple[Any, ...], i: int) -> Any:
        return xp.where(args[1] == at, value, value_()) if xp is NUMPY else value_()

    with planted(name, 0, off), pytest.raises(FOUND) as e:
        gradient(REGISTRY[name], [at, 3.0])
    assert not e.value.report.ok


def test_m12_a_kink_off_by_a_step() -> None:
    def late(xp: Any, value: Any, rule: Any, args: tuple[Any, ...], i: int) -> Any:
        return np.where(np.asarray(args[1]) > 1e-3, 1.0, 0.0) if xp is NUMPY else value()

    with planted("relu", 0, late), pytest.raises(FOUND):
        gradient(tf.nn.relu, [1e-4, 3.0])


def test_m13_a_special_case_differentiated_as_a_constant() -> None:
    # 2x, with a branch of its own for 0: right at first order, and 0 for 2 at second.
    def branch(xp: Any, value: Any, rule: Any, args: tuple[Any, ...], i: int) -> Any:
        return xp.where(xp.equal(args[1], 0), 0, value())

    with planted("square", 0, branch):
        gradient(tf.square, [0.0, 2.0])
        with pytest.raises(FOUND):
            gradient(tf.square, [0.0, 2.0], order=2)


def test_m14_an_axis_with_the_wrong_sign_or_order() -> None:
    weights = tf.constant(np.arange(8.0).reshape(2, 2, 2))

    def same_perm(xp: Any, value: Any, rule: Any, args: tuple[Any, ...], i: int) -> Any:
        return xp.transpose(args[0], perm=(1, 2, 0))  # the inverse is (2, 0, 1)

    with planted("transpose", 0, same_perm), pytest.raises(FOUND, match="transpose"):
        gradient(lambda x: tf.transpose(x, [1, 2, 0]) * weights, np.ones((2, 2, 2)))

    def forwards(xp: Any, value: Any, rule: Any, args: tuple[Any, ...], i: int) -> Any:
        return xp.cumsum(args[0], axis=-1, exclusive=False, reverse=False)

    with planted("cumsum", 0, forwards), pytest.raises(FOUND, match="cumsum"):
        gradient(lambda x: tf.cumsum(x) * tf.constant([1.0, 2.0], tf.float64), [1.0, 5.0])


def test_m15_one_mode_mended_and_the_other_not() -> None:
    x = tf.constant([0.1, 0.7, -0.3], tf.float64)
    t = tf.constant([1.0, 0.5, 2.0], tf.float64)

    def forward() -> None:
        with tf.verifying(), tf.autodiff.ForwardAccumulator(x, t) as acc:
            y = tf.nn.softmax(x)
            acc.jvp(y)

    def reverse() -> None:
        gradient(lambda v: tf.nn.softmax(v) * tf.constant([1.0, 2.0, 3.0], tf.float64), x.numpy())

    def twice(right: Any) -> Any:
        return lambda xp, tangent, y, v, **params: right(xp, tangent, y, v, **params) * 2

    with planted_rule("softmax", 0, twice, direction="jvp"):
        reverse()
        with pytest.raises(FOUND):
            forward()
    with planted("softmax", 0, TRANSFORMS["factor 2"]):
        forward()
        with pytest.raises(FOUND):
            reverse()


def test_m17_state_that_leaks_from_one_gradient_into_the_next() -> None:
    kept: dict[str, Any] = {}

    def remembers(xp: Any, value: Any, rule: Any, args: tuple[Any, ...], i: int) -> Any:
        return kept.setdefault(type(xp).__name__, value()) if xp is NUMPY else value()

    with planted("sin", 0, remembers):
        gradient(tf.sin, [0.3, 0.8])
        with pytest.raises(FOUND):
            gradient(tf.sin, [0.5, 0.1])


def test_m17_an_error_inside_a_gradient_leaves_no_state_behind() -> None:
    def fails(xp: Any, value: Any, rule: Any, args: tuple[Any, ...], i: int) -> Any:
        raise ZeroDivisionError("planted")

    x = tf.Variable(0.3)
    with (
        planted("sin", 0, fails),
        pytest.raises(ZeroDivisionError),
        tf.GradientTape() as outer,
        tf.GradientTape() as inner,
    ):
        y = tf.sin(x)
        outer.gradient(inner.gradient(y, x), x)
    with tf.GradientTape() as tape:
        y = tf.sin(x)
    assert tape.gradient(y, x) is not None


def test_m18_one_minus_a_square_for_a_product() -> None:
    def naive(x: Any) -> Any:
        with np.errstate(all="ignore"):
            return 1.0 / np.sqrt(1.0 - np.square(x, dtype=np.float64))

    with planted_kernel("rsqrt1m2", naive), pytest.raises(FOUND):
        gradient(tf.asin, 1.0 - 2.0**-40 - 2.0**-52)
