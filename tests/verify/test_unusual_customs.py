"""Custom gradients with inputs, outputs and results that are not the usual floats, under the flag."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.errors import InvalidArgumentError
from gtape.verify import check, judge
from gtape.verify.causes import customs
from gtape.verify.oracles.replay import Replay
from gtape.verify.programs.mutants import planted, scaled


@pytest.fixture(autouse=True)
def strictly_verified() -> Iterator[None]:
    with tf.verifying("strict"):
        yield


def slope(f: Any, value: Any) -> Any:
    x = tf.constant(value, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return tape.gradient(y, x)


@pytest.mark.parametrize("extra", ["a name", None, 3, [True]])
def test_arguments_that_are_no_floats_do_not_disturb_the_check(extra: Any) -> None:
    @tf.custom_gradient
    def double(x: Any, word: Any) -> Any:
        return 2.0 * x, lambda g: (2.0 * g, None)

    assert float(slope(lambda x: double(x, extra), 3.0)) == 2.0


def test_an_integer_output_beside_the_float_does_not_disturb_the_check() -> None:
    @tf.custom_gradient
    def with_count(x: Any) -> Any:
        return (2.0 * x, tf.constant(3)), lambda g, _: 2.0 * g

    assert float(slope(lambda x: with_count(x)[0], 3.0)) == 2.0


@pytest.mark.parametrize(("value", "returned"), [(3.0, [1.0, 2.0, 3.0]), ([1.0, 2.0], 2.0), ([1.0, 2.0], [[1.0, 2.0]])])
def test_a_gradient_that_has_not_the_shape_of_its_input_is_found_and_named(value: Any, returned: Any) -> None:
    @tf.custom_gradient
    def misshapen(x: Any) -> Any:
        return x * x, lambda g: tf.constant(returned, tf.float64)

    with pytest.raises(tf.VerificationError, match="misshapen returns for input 0 has shape"):
        slope(misshapen, value)


def _capturing(x: Any, w: Any, factor: float = 1.0) -> Any:
    @tf.custom_gradient
    def inner(x: Any) -> Any:
        return x * w, lambda g: factor * g * w

    return inner(x)


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside another path"])
@pytest.mark.parametrize("made", [lambda w: w, tf.exp], ids=["a source", "made from a source"])
def test_a_source_that_a_custom_gradient_reads_from_outside_is_unconnected(made: Any, beside: bool) -> None:
    report = check(lambda x, w: _capturing(x, made(w)) + (w * x if beside else 0.0), 2.0, 3.0)
    (found,) = [f for f in report.findings if not f.ok]
    assert (found.verdict, found.op, found.element) == ("unconnected", "inner", (1, ()))
    assert "pass the tensor as an argument" in found.reason


def test_a_wrong_custom_gradient_that_reads_from_outside_is_told_both() -> None:
    found = check(lambda x, w: _capturing(x, w, 2.0), 2.0, 3.0).findings[0]
    assert (found.verdict, found.op) == ("rule", "inner")
    assert "is not the derivative of its body" in found.reason and "pass the tensor as an argument" in found.reason


def test_a_custom_gradient_that_accounts_for_what_it_reads_from_outside_is_right() -> None:
    def swish(x: Any) -> Any:
        s = tf.sigmoid(x)

        @tf.custom_gradient
        def inner(x: Any) -> Any:
            return x * s, lambda g: g * (s + x * s * (1.0 - s))

        return inner(x)

    assert check(swish, 2.0).verdict == "correct"


@pytest.mark.parametrize("order", [1, 2])
def test_a_witness_of_a_function_named_inner_calls_it_by_its_name(order: int) -> None:
    def nested(x: Any) -> Any:
        @tf.custom_gradient
        def inner(x: Any) -> Any:
            return x * x * x, lambda g: 2.0 * g * x * x

        return inner(x)

    (found, *_) = check(nested, 0.7, order=order).findings
    assert found.witness is not None
    assert "inner(xs[0])" in found.witness and "inner_2" not in found.witness


@pytest.mark.parametrize("x", [0.1, 0.01, 0.3, -0.2])
def test_a_rounded_constant_that_no_bound_excuses_is_a_fault_of_its_custom_gradient(x: float) -> None:
    @tf.custom_gradient
    def growth(x: Any) -> Any:
        return tf.exp(x), lambda g: g * tf.exp(x) * np.float32(1 + 1e-6)

    report = check(growth, np.float32(x))
    (found,) = report.findings
    assert (found.verdict, found.op, found.ok) == ("unstable", "growth", False)


def _narrow_square(dtype: str) -> Any:
    @tf.custom_gradient
    def mistyped(x: Any) -> Any:
        return x * x, lambda g: tf.cast(2.0 * g * x, dtype)

    return mistyped


_AROUND: dict[str, Callable[[Any, Any], Any]] = {
    "alone": lambda f, x: f(x),
    "in a sum": lambda f, x: f(x) + x,
    "in a product": lambda f, x: f(x * 1.0),
    "after a function": lambda f, x: f(tf.exp(x)),
    "twice": lambda f, x: f(f(x)),
}


@pytest.mark.parametrize("around", _AROUND.values(), ids=_AROUND)
@pytest.mark.parametrize("dtype", ["float16", "float32", "complex128", "int32"])
def test_a_gradient_that_has_not_the_dtype_of_its_input_is_found_and_named(dtype: str, around: Any) -> None:
    mistyped = _narrow_square(dtype)
    words = f"mistyped returns for input 0 has dtype {dtype}, and the input has dtype float64"
    for order in (1, 2):
        report = check(lambda x: around(mistyped, x), 1.234567, order=order)
        assert (report.verdict, report.ok, report.findings[0].op) == ("rule", False, "mistyped")
        assert words in report.findings[0].reason
        assert report.findings[0].instead == "return a gradient of the input's dtype"
    with pytest.raises(tf.VerificationError, match="mistyped returns"):
        slope(lambda x: around(mistyped, x), 1.234567)


@pytest.mark.parametrize("verify", [False, True])
def test_forward_mode_names_a_gradient_of_another_dtype(verify: bool) -> None:
    mistyped = _narrow_square("float32")
    x = tf.constant(1.234567, tf.float64)
    with (
        pytest.raises(InvalidArgumentError, match="mistyped returns for input 0 has dtype float32"),
        tf.verifying(verify),
        tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)),
    ):
        mistyped(x)


@pytest.mark.parametrize("name", ["in a sum", "in a product", "after a function", "twice"])
def test_a_tape_without_checks_refuses_a_gradient_of_another_dtype_where_numbers_meet(name: str) -> None:
    # TensorFlow returns such a gradient where it meets no other number.
    mistyped = _narrow_square("float32")
    x = tf.constant(1.234567, tf.float64)
    for f, refused in ((mistyped, False), (lambda x: _AROUND[name](mistyped, x), True)):
        with tf.GradientTape(verify=False, persistent=True) as tape, tf.GradientTape(verify=False) as other:
            tape.watch(x)
            other.watch(x)
            y = f(x)
        with pytest.raises(InvalidArgumentError, match="mistyped returns") if refused else contextlib.nullcontext():
            other.gradient(y, x)
        with pytest.raises(InvalidArgumentError, match="mistyped returns") if refused else contextlib.nullcontext():
            tape.jacobian(y, x)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_a_rule_that_follows_the_dtype_of_its_cotangent_is_right_in_every_row(order: int) -> None:
    @tf.custom_gradient
    def scaled(x: Any) -> Any:
        return 2.0 * x, lambda g: 2.0 * g

    report = check(lambda x: tf.reduce_sum(tf.maximum(scaled(x), 0.0) ** 3), np.float32([0.5, 0.0, -1.25]), order=order)
    assert not [f for f in report.findings if f.verdict == "rule"]


@pytest.mark.parametrize("cast", ["float16", "float32"])
def test_a_rule_that_returns_the_dtype_of_a_cast_input_is_right(cast: str) -> None:
    @tf.custom_gradient
    def square(x: Any) -> Any:
        return x * x, lambda g: 2.0 * g * x

    assert check(lambda x: tf.cast(square(tf.cast(x, cast)), x.dtype), 1.25, order=2).ok


@pytest.mark.parametrize("order", ["alone", "in forward mode", "in forward mode twice"])
def test_constants_that_only_an_accumulator_follows_are_exact_on_both_sides(order: str) -> None:
    @tf.custom_gradient
    def squared(x: Any) -> Any:
        return x * x, lambda g: 2.0 * g * x

    a, v = tf.constant([1.3, 0.4, 2.1], tf.float64), tf.Variable([1.1, -0.8, 0.5], dtype=tf.float64)
    tangent = tf.constant([1.0, -2.0, 0.5], tf.float64)
    with tf.GradientTape() as tape:
        if order == "alone":
            g = squared(tf.sin(a)) * v
        else:
            with tf.autodiff.ForwardAccumulator(a, tangent) as accumulator:
                y = squared(tf.sin(a)) * v
                if order == "in forward mode twice":
                    y = squared(squared(tf.cos(a))) * y
            g = accumulator.jvp(y)
    tape.gradient(g, v)  # what is not certified raises


CONSTANTS: dict[str, Any] = {
    "stopped": tf.stop_gradient,
    "through integers": lambda v: tf.cast(tf.cast(v, tf.int32), tf.float64),
    "floor": lambda v: tf.floor(v),
}


@pytest.mark.parametrize("name", CONSTANTS)
@pytest.mark.parametrize("recompute", [False, True])
def test_what_is_a_constant_without_the_flag_is_one_to_custom_gradients_under_it(name: str, recompute: bool) -> None:
    @tf.custom_gradient
    def product(a: Any, b: Any) -> Any:
        return a * b, lambda g: (g * b, g * a)

    f = tf.recompute_grad(lambda a, b: a * b) if recompute else product
    v = tf.Variable([1.2, 0.9], dtype=tf.float64)
    with tf.GradientTape(persistent=True) as tape:
        constant = CONSTANTS[name](v * 1.0)
        alone, beside = f(constant, constant), f(constant, v)
    assert tape.gradient(alone, v) is None
    assert (tape.gradient(alone, constant) is None) == (name != "floor")
    of_v, of_constant = tape.gradient(beside, [v, constant])
    assert of_v.numpy().tolist() == constant.numpy().tolist()
    assert (of_constant is None) == (name != "floor")


def solved(steps: int, *, constant: bool) -> Callable[[Any], Any]:
    """A root by a few steps of Newton's method; its gradient is that of the limit, which the steps nearly reach."""

    @tf.custom_gradient
    def root(a: Any) -> Any:
        x = 0.7 * a
        for _ in range(steps):
            x = x - (x + x * x * x - a) / (1 + 3 * x * x)
        slope = tf.stop_gradient(1 + 3 * x * x) if constant else 1 + 3 * x * x
        return x, lambda g: g / slope

    return lambda a: tf.reduce_sum(root(a) ** 2)


@pytest.mark.slow
@pytest.mark.parametrize("steps", [4, 5, 6])
def test_what_a_solver_leaves_below_rounding_is_no_fault(steps: int) -> None:
    for order in (1, 2):
        assert check(solved(steps, constant=False), [0.7, 0.4], order=order).ok
    report = check(solved(steps, constant=True), [0.7, 0.4], order=2)
    assert report.verdict == "rule" and "root" in report.summary()


def test_a_wrong_rule_behind_a_declared_custom_gradient_is_named() -> None:
    @tf.custom_gradient(declared="by a straight line")
    def steps(x: Any) -> Any:
        return tf.floor(x), lambda g: g

    def f(x: Any) -> Any:
        return tf.reduce_sum(tf.sin(steps(3.0 * x)) * x)

    assert check(f, [0.7, 1.4]).ok
    for op in ("sin", "multiply"):
        with planted(op, 0, scaled(1.1)):
            report = check(f, [0.7, 1.4])
        assert report.verdict == "rule" and op in report.summary()


@tf.custom_gradient
def summed_up(x: Any) -> Any:
    return tf.square(x), lambda g: tf.reduce_sum(2.0 * g * x)


@tf.custom_gradient
def raising(x: Any) -> Any:
    def back(g: Any) -> Any:
        raise KeyError("of the user's")

    return tf.square(x), back


SPREAD = [
    lambda x: tf.fill([3], x[0]),
    lambda x: tf.broadcast_to(x[0] * x[1], [2, 2]),
    lambda x: tf.linspace(x[0], x[1], 4),
]


@pytest.mark.parametrize("spread", SPREAD)
def test_a_wrong_shape_is_told_of_the_custom_gradient_whatever_stands_before_it(spread: Any) -> None:
    found = check(lambda x: summed_up(spread(x)), [0.3, -1.2]).findings
    assert [(f.verdict, f.op) for f in found] == [("rule", "summed_up")] and "has shape ()" in found[0].reason


@pytest.mark.parametrize("spread", SPREAD)
def test_an_error_of_the_users_gradient_is_raised_whatever_stands_before_it(spread: Any) -> None:
    with pytest.raises(KeyError, match="of the user's"):
        check(lambda x: raising(spread(x)), [0.3, -1.2])


BENT = {
    "a number": lambda g: tf.reduce_sum(g),
    "too long": lambda g: tf.concat([g, g], 0),
    "one axis more": lambda g: g[None],
    "an array": lambda g: np.ones(4, np.float32),
}
BEFORE = {
    "nothing": lambda x: x,
    "reverse": lambda x: tf.reverse(x, [0]),
    "gather": lambda x: tf.gather(x, [0, 1, 2]),
    "cumsum": lambda x: tf.cumsum(x),
    "mean": lambda x: tf.reduce_mean(tf.stack([x, x]), 0),
    "matvec": lambda x: tf.linalg.matvec(tf.eye(3), x),
}


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("bent", BENT)
def test_a_custom_gradient_of_another_shape_is_named_by_an_error_and_by_the_check(bent: str, before: str) -> None:
    @tf.custom_gradient
    def misshapen(x: Any) -> Any:
        return tf.square(x), BENT[bent]

    def ask(verify: bool, how: str) -> Any:
        x = tf.constant([1.0, 2.0, 3.0])
        with tf.GradientTape(verify=verify) as tape:
            tape.watch(x)
            y = misshapen(BEFORE[before](x))
        return getattr(tape, how)(y, x)

    for how in ("gradient", "jacobian"):
        with tf.verifying(False):
            try:  # as in TensorFlow: the next op cannot take it, or nothing stands in the way
                ask(False, how)
            except InvalidArgumentError as e:
                assert "the gradient that misshapen returns for input 0 has shape" in str(e)
        with pytest.raises(tf.VerificationError) as raised:
            ask(True, how)
        (finding,) = raised.value.report.findings
        assert (finding.verdict, finding.op) == ("rule", "misshapen") and "has shape" in finding.reason


@pytest.mark.parametrize("weight", [1.0, 1e-10, 1e-30, 1e-200])
def test_a_wrong_element_of_little_weight_is_a_wrong_rule(weight: float) -> None:
    @tf.custom_gradient
    def wrong(x: Any) -> Any:
        return tf.sin(x), lambda g: g * tf.cos(x) * np.array([1.0, 1.0, 1.1])

    report = check(lambda x: wrong(x) * np.array([1.0, 1.0, weight]), np.array([1.764, 0.4, 0.979]))
    assert report.verdict == "rule" and report.findings[0].op == "wrong"


@pytest.mark.parametrize(
    ("dtype", "error", "factor", "weight"),
    [("float64", 1e-9, 1e5, 1e-6), ("float64", 1e-8, 1e7, 1e-12), ("float32", 1e-4, 100.0, 1e-6)],
)
def test_an_error_of_a_small_element_is_no_rounding_of_a_large_one(
    dtype: str, error: float, factor: float, weight: float
) -> None:
    kind, faulty = np.dtype(dtype).type, np.array([1 + error, 1, 1], dtype)

    @tf.custom_gradient
    def wrong(x: Any) -> Any:
        return tf.exp(x), lambda g: g * tf.exp(x) * faulty

    def loss(x: Any, exp: Any) -> Any:
        return tf.reduce_sum(np.array([weight, 1, 1], dtype) * tf.sin(kind(factor) * exp(x)))

    x = np.array([0.7, 0.3, -0.4], dtype)
    report = check(lambda x: loss(x, wrong), x)
    assert (report.verdict, report.findings[0].op, report.findings[0].element) == ("rule", "wrong", (0, (0,)))
    faulty[0] = 1
    assert check(lambda x: loss(x, wrong), x).ok


@pytest.mark.parametrize("x", [np.array([-6, 1, 3], np.float32), np.array([-15.0, 1, 3])], ids=["float32", "float64"])
def test_a_dropped_small_element_is_a_wrong_rule(x: Any) -> None:
    @tf.custom_gradient
    def drops(x: Any) -> Any:
        y = tf.exp(x)
        return y, lambda g: g * y * tf.constant([0.0, 1.0, 1.0], x.dtype)

    (found,) = check(lambda x: tf.reduce_sum(tf.square(drops(x))), x).findings
    assert (found.verdict, found.op, found.element, found.count) == ("rule", "drops", (0, (0,)), 1)


@pytest.mark.parametrize("n", [7, 100])
def test_a_finding_counts_the_wrong_elements_and_shows_the_farthest(n: int) -> None:
    @tf.custom_gradient
    def half(x: Any) -> Any:
        return x * x, lambda g: g * x

    x = np.arange(1.0, n + 1)
    far = x / np.spacing(2 * x)
    report = check(lambda x: tf.reduce_sum(half(x)), x)
    (found,) = report.findings
    assert (found.count, found.element) == (n, (0, (int(far.argmax()),)))
    assert report.max_ulp == pytest.approx(far.max())


@pytest.mark.parametrize("n", [3, 500])
def test_each_wrong_function_is_shown_by_an_element_that_it_reads(n: int) -> None:
    @tf.custom_gradient
    def squared(x: Any) -> Any:
        return x * x, lambda g: g * x

    @tf.custom_gradient
    def sine(x: Any) -> Any:
        return tf.sin(x), lambda g: 1.5 * g * tf.cos(x)

    at = np.linspace(0.5, 1.5, 2 * n + 1)
    report = check(lambda x: tf.reduce_sum(squared(x[:n])) + tf.reduce_sum(sine(x[n:])), at)
    found = {f.op: isinstance(f.element, tuple) and f.element[1][0] >= n for f in report.findings}
    assert found == {"squared": False, "sine": True}
    if at.size <= 64:  # of more elements, not each one is asked which op it reaches
        assert {f.op: f.count for f in report.findings} == {"squared": n, "sine": n + 1}


@tf.custom_gradient(declared="gradient reversal")
def reversed_gradient(x: Any) -> Any:
    return tf.identity(x), lambda g: -g


@tf.custom_gradient
def sine_half_too_steep(x: Any) -> Any:
    return tf.sin(x), lambda g: 1.5 * g * tf.cos(x)


@tf.custom_gradient
def right_sine(x: Any) -> Any:
    return tf.sin(x), lambda g: g * tf.cos(x)


@pytest.mark.parametrize("other", [lambda x: 0.0 * x, lambda x: x], ids=["alone", "with a sum"])
def test_a_declared_gradient_hides_no_wrong_one_before_it(other: Any) -> None:
    x = np.array([0.3, -0.4])
    found = check(lambda x: sine_half_too_steep(2.0 * reversed_gradient(x)) + other(x), x)
    assert (found.verdict, found.findings[0].op) == ("rule", "sine_half_too_steep")
    assert check(lambda x: right_sine(2.0 * reversed_gradient(x)) + other(x), x).ok


def test_custom_gradients_of_one_name_are_told_apart() -> None:
    def sine(factor: float) -> Any:
        @tf.custom_gradient
        def made(x: Any) -> Any:
            saved = [x]
            return tf.sin(x), lambda g: factor * g * tf.cos(saved[0])

        return made

    right, wrong = sine(1.0), sine(1.5)
    for f in (lambda x: right(wrong(tf.exp(x))), lambda x: wrong(right(tf.exp(x)))):
        report = check(f, 0.71)
        assert report.verdict == "rule" and all("relative error 0." in v.reason for v in report.findings), report
    assert check(lambda x: right(right(x)), 0.71).ok


class _Holder:
    value: Any


def _by_attribute(x: Any) -> Any:
    holder = _Holder()
    holder.value = x
    return lambda g: g * tf.cos(holder.value)


def _by_default(x: Any) -> Any:
    def back(g: Any, x: Any = x) -> Any:
        return g * tf.cos(x)

    return back


def _by_queue(x: Any) -> Any:
    _QUEUE.append(x)
    place = len(_QUEUE) - 1
    return lambda g: g * tf.cos(_QUEUE[place])


def _by_inner_tape(x: Any) -> Any:
    held = [x]

    def back(g: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(held[0])
            y = tf.sin(held[0])
        return g * tape.gradient(y, held[0])

    return back


_QUEUE: list[Any] = []
_KEEPERS: dict[str, Callable[[Any], Any]] = {
    "a list": lambda x: (lambda held: lambda g: g * tf.cos(held[0]))([x]),
    "a dict": lambda x: (lambda held: lambda g: g * tf.cos(held["x"]))({"x": x}),
    "an attribute": _by_attribute,
    "a default argument": _by_default,
    "a global list": _by_queue,
    "a list, under a tape": _by_inner_tape,
}


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("keeper", _KEEPERS.values(), ids=_KEEPERS.keys())
def test_a_gradient_may_keep_its_input_in_any_way(keeper: Callable[[Any], Any], order: int) -> None:
    """The rounding of the input, which the sine magnifies, is no fault of the gradient."""

    @tf.custom_gradient
    def kept(x: Any) -> Any:
        return tf.sin(x), keeper(x)

    try:
        found = check(lambda x: kept(tf.exp(35.0 * x)), 0.71, order=order)
        assert (found.ok, found.verdict) == (True, "conditioning")
    finally:
        _QUEUE.clear()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", range(12))
def test_a_wrong_factor_that_cancels_along_a_direction_is_no_rounding(seed: int, dtype: Any) -> None:
    rng = np.random.default_rng(seed)
    factor = 1.0 + 84 * float(np.finfo(dtype).eps)

    @tf.custom_gradient
    def scaled_a_little(x: Any) -> Any:
        return tf.identity(x), lambda g: g * factor

    a, b, t = (rng.normal(size=shape).astype(dtype) for shape in ((5, 2), (5, 3), (2, 3)))
    report = check(lambda a: tf.reduce_mean((scaled_a_little(a @ t) - b) ** 2), a)
    assert (report.verdict, report.findings[0].op) == ("rule", "scaled_a_little"), report


def _custom_ramp(at_0: float, factor: float = 1.0) -> Any:
    @tf.custom_gradient
    def ramp(x: Any) -> Any:
        slope = tf.where(x == 0.0, at_0 * tf.ones_like(x), factor * tf.cast(x > 0.0, x.dtype))
        return tf.maximum(x, 0.0), lambda g: g * slope

    return ramp


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("way", ["check", "tape", "accumulator"])
@pytest.mark.parametrize(
    ("ramp", "verdict"),
    [
        (_custom_ramp(0.0), "convention"),
        (_custom_ramp(0.5), "convention"),
        (_custom_ramp(1.0), "convention"),
        (_custom_ramp(2.0), "rule"),
        (_custom_ramp(-1e-9), "rule"),
        (_custom_ramp(0.0, 1.001), "rule"),
    ],
)
def test_a_custom_gradient_may_have_a_convention_of_its_own(ramp: Any, verdict: str, way: str, dtype: Any) -> None:
    x = np.array([0.0, 1.0, -2.0, 0.0, 3.0], dtype)

    def f(x: Any) -> Any:
        return tf.reduce_sum(ramp(x) * np.arange(1, 6, dtype=dtype))

    if way == "check":
        with tf.verifying(False):
            report = check(f, x)
        assert (report.ok, report.verdict) == (verdict == "convention", verdict), report
        return
    v = tf.constant(x)
    with contextlib.nullcontext() if verdict == "convention" else pytest.raises(tf.VerificationError, match=verdict):
        if way == "tape":
            with tf.GradientTape() as tape:
                tape.watch(v)
                y = f(v)
            tape.gradient(y, v)
        else:
            with tf.autodiff.ForwardAccumulator(v, tf.constant(x / 3 + 1)) as acc:
                y = f(v)
            acc.jvp(y)


CHAINED: list[Callable[[Any, Any], Any]] = [lambda u, x: u(u(x)), lambda u, x: u(u(x) * 0.5), lambda u, x: u(u(u(x)))]


@pytest.mark.parametrize("f", CHAINED, ids=["twice", "scaled", "three times"])
@pytest.mark.parametrize("others", [[1.0, -1.0], [3.0, -2.5], [-1.0, 1.0], [1.0, 2.0], [0.0, -1.0, 0.0, 4.0]], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_other_elements_do_not_decide_about_a_convention(f: Any, others: list[float], dtype: Any) -> None:
    x = np.array([0.0, *others], dtype)
    for right in (_custom_ramp(0.0), _custom_ramp(0.5), _custom_ramp(1.0)):
        assert check(lambda x, right=right: f(right, x), x).ok
    for wrong in (_custom_ramp(1.5), _custom_ramp(0.0, 1.001)):
        report = check(lambda x, wrong=wrong: f(wrong, x), x)
        assert (report.ok, report.verdict) == (False, "rule"), report


def _custom_leak(at_0: float, factor: float = 1.0) -> Any:
    @tf.custom_gradient
    def leak(x: Any) -> Any:
        slope = tf.where(x > 0.0, factor * tf.ones_like(x), 0.125 * tf.ones_like(x))
        return tf.where(x > 0.0, x, 0.125 * x), lambda g: g * tf.where(x == 0.0, at_0 * tf.ones_like(x), slope)

    return leak


@pytest.mark.parametrize("way", ["check", "order 2", "accumulator"])
@pytest.mark.parametrize(
    ("leak", "verdict"),
    [
        (_custom_leak(0.125), "convention"),
        (_custom_leak(0.5), "convention"),
        (_custom_leak(1.0), "convention"),
        (_custom_leak(1.25), "rule"),
        (_custom_leak(0.0), "rule"),
        (_custom_leak(1.0, 1.001), "rule"),
    ],
)
def test_a_decision_in_the_body_leaves_a_custom_gradient_its_convention(leak: Any, verdict: str, way: str) -> None:
    x = np.array([0.0, 1.0, -2.0, 0.0])
    if way != "accumulator":
        order = 2 if way == "order 2" else 1
        report = check(lambda x: tf.reduce_sum(leak(x) * np.arange(1.0, 5.0)), x, order=order)
        assert (report.ok, report.verdict) == (verdict == "convention", verdict), report
        return
    v = tf.constant(x)
    with contextlib.nullcontext() if verdict == "convention" else pytest.raises(tf.VerificationError, match=verdict):
        with tf.verifying(), tf.autodiff.ForwardAccumulator(v, tf.constant(x / 3 + 1)) as acc:
            y = leak(v)
        acc.jvp(y)


def test_a_tie_of_a_decision_that_is_counted_twice_is_no_convention() -> None:
    @tf.custom_gradient
    def larger(x: Any, y: Any) -> Any:
        return tf.where(x > y, x, y), lambda g: (g * tf.cast(x >= y, g.dtype), g * tf.cast(y >= x, g.dtype))

    for at in ([0.0], [0.0, 1.0, -1.0], [0.0, 0.0]):
        report = check(lambda x: larger(x, 2.0 * x), np.array(at))
        assert (report.ok, report.verdict) == (False, "rule"), report


def test_a_tie_that_is_counted_twice_is_no_convention_whatever_the_directions() -> None:
    @tf.custom_gradient
    def larger(x: Any, y: Any) -> Any:
        return tf.maximum(x, y), lambda g: (g * tf.cast(x >= y, g.dtype), g * tf.cast(y >= x, g.dtype))

    for x in ([0.0], [0.0, 1.0, -1.0], [0.0, 0.0]):
        report = check(lambda x: larger(x, tf.constant(np.zeros(x.shape)) * x), np.array(x))
        assert report.ok, report  # the second argument does not move
        report = check(lambda x: larger(x, 2.0 * x), np.array(x))
        assert (report.ok, report.verdict) == (False, "rule"), report


@pytest.mark.parametrize("shape", [(), (2,)])
def test_a_missing_tangent_of_an_array_at_a_root_of_0_is_judged(shape: tuple[int, ...]) -> None:
    @tf.custom_gradient
    def length(x: Any) -> Any:
        return tf.sqrt(tf.reduce_sum(x * x)), lambda g: None

    x = tf.zeros(shape, tf.float64)
    with pytest.raises(tf.VerificationError, match="op sqrt"), tf.autodiff.ForwardAccumulator(x, x + 1.0) as acc:
        acc.jvp(length(x))


def _custom_distance(at_0: float, factor: float = 1.0) -> Any:
    @tf.custom_gradient
    def distance(x: Any) -> Any:
        return tf.abs(x), lambda g: tf.where(x == 0.0, at_0 * g, factor * g * tf.sign(x))

    return distance


@pytest.mark.parametrize(
    ("at_0", "factor", "verdict"),
    [(1.0, 1.0, "convention"), (-1.0, 1.0, "convention"), (2.0, 1.0, "rule"), (1.0, 1.001, "rule")],
)
@pytest.mark.parametrize(
    "f",
    [lambda d, x: d(x) ** 2, lambda d, x: tf.exp(d(x)), lambda d, x: x * d(x), lambda d, x: d(x[0]) * d(x[1])],
    ids=["square", "exp", "product with x", "product of elements"],
)
def test_a_convention_of_its_own_is_one_at_order_2_too(f: Any, at_0: float, factor: float, verdict: str) -> None:
    report = check(lambda x: tf.reduce_sum(f(_custom_distance(at_0, factor), x)), np.array([0.0, 1.5]), order=2)
    assert (report.ok, report.verdict) == (verdict == "convention", verdict), report


def _custom_relu(factor: float = 1.0) -> Any:
    @tf.custom_gradient
    def relu(x: Any) -> Any:
        return tf.nn.relu(x), lambda g: g * tf.cast(x >= 0.0, x.dtype) * factor

    return relu


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(
    "f",
    [
        lambda relu, x: relu(x) - tf.nn.relu(-x),
        lambda relu, x: (relu(x) - tf.nn.relu(-x)) ** 2,
        lambda relu, x: tf.sin(relu(x) - tf.nn.relu(-x)),
    ],
    ids=["x", "square", "sine"],
)
def test_a_kink_of_a_custom_gradient_that_another_kink_cancels_is_no_fault(f: Any, order: int) -> None:
    x = np.array([0.0, 1.5, -0.5])
    assert check(lambda x: tf.reduce_sum(f(_custom_relu(), x)), x, order=order).ok
    report = check(lambda x: tf.reduce_sum(f(_custom_relu(1.001), x)), x, order=order)
    assert (report.ok, report.verdict) == (False, "rule"), report


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(
    "f",
    [
        lambda d, x: d(d(x)),
        lambda d, x: d(2.0 * d(x)) + x,
        lambda d, x: tf.reduce_sum(d(tf.stack([x, -x])) * tf.constant([1.0, 2.0], x.dtype)),
        lambda d, x: tf.reduce_max(d(tf.stack([x, 2.0 * x, -x]))),
    ],
    ids=["twice", "scaled", "of x and -x", "largest"],
)
def test_inputs_of_a_custom_gradient_that_depend_on_one_another_leave_its_convention(f: Any, order: int) -> None:
    assert check(lambda x: f(_custom_distance(0.5), x), 0.0, order=order).ok
    for wrong in (_custom_distance(1.5), _custom_distance(0.5, 1.001)):
        report = check(lambda x, wrong=wrong: f(wrong, x), 0.0, order=order)
        assert (report.ok, report.verdict) == (False, "rule"), report


def test_a_custom_convention_is_no_second_derivative_where_the_function_has_another() -> None:
    report = check(lambda x: _custom_distance(0.5)(x) ** 2, np.array(0.0), order=2)
    assert (report.ok, report.verdict) == (False, "convention"), report
    assert [float(f.exact) for f in report.findings if not f.ok] == [2.0]


def _custom_sinc(below: float, curvature: float = -1 / 3) -> Any:
    """sin(x) / x without its gap at 0, and its gradient as a series below some distance of 0."""

    @tf.custom_gradient
    def sinc(x: Any) -> Any:
        hole = tf.equal(x, 0.0)
        safe = tf.where(hole, tf.ones_like(x), x)
        near = tf.abs(x) < below if below else hole

        def back(g: Any) -> Any:
            series = curvature * x + x**3 / 30.0
            return g * tf.where(near, series, (x * tf.cos(x) - tf.sin(x)) / (safe * safe))

        return tf.where(hole, tf.ones_like(x), tf.sin(x) / safe), back

    return sinc


_WEIGHTS = np.array([[0.3, -0.2], [0.5, 0.1]])
# f of sinc and x, where, the order, the derivative
OVER_GAPS: dict[str, tuple[Callable[[Any, Any], Any], Any, int, Any]] = {
    "alone": (lambda s, x: s(x), 0.0, 2, -1 / 3),
    "square": (lambda s, x: tf.square(s(x)), 0.0, 2, -2 / 3),
    "composed": (lambda s, x: s(tf.sin(x)), 0.0, 2, -1 / 3),
    "order 3": (lambda s, x: x * s(x), 0.0, 3, -1.0),
    "array": (lambda s, x: tf.reduce_sum(s(x)), np.zeros(2), 2, np.diag([-1 / 3, -1 / 3])),
    "net": (
        lambda s, x: tf.reduce_sum(tf.tanh(tf.linalg.matvec(tf.constant(_WEIGHTS), s(x)))), np.zeros(2), 2,
        np.diag(-np.sum((1 - np.tanh(_WEIGHTS.sum(axis=1)[:, None]) ** 2) * _WEIGHTS, axis=0) / 3),
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("below", [0.0, 1e-3])
@pytest.mark.parametrize("name", OVER_GAPS)
def test_a_custom_gradient_over_a_gap_of_its_body_is_judged_by_the_whole_function(name: str, below: float) -> None:
    f, at, order, right = OVER_GAPS[name]
    assert check(lambda x: f(_custom_sinc(below), x), at, order=order).ok
    assert not check(lambda x: f(_custom_sinc(below, -0.5), x), at, order=order).ok
    if order == 2:  # claims in float64 are right up to a few roundings
        for factor, ok in ((1.0, True), (0.0, False), (1.5, False)):
            assert judge(lambda x: f(_custom_sinc(below), x), at, np.asarray(right) * factor, order=2).ok == ok, factor


@pytest.mark.slow
def test_one_element_in_a_gap_needs_no_convention_of_the_others() -> None:
    at = np.array([0.0, 1.0, -2.0], np.float32)
    assert check(lambda x: tf.reduce_sum(_custom_sinc(0.0)(x)), at, order=2).ok
    assert not check(lambda x: tf.reduce_sum(_custom_sinc(0.0, -0.5)(x)), at, order=2).ok


def test_a_constant_that_is_rounded_in_the_slope_alone_is_no_wrong_rule() -> None:
    @tf.custom_gradient
    def bowl(x: Any) -> Any:
        return x * x / 6.0, lambda g: g * x * (1 / 3)

    assert check(bowl, 0.0, order=2).verdict == "correct"


def _iterated(steps: int, factor: float = 1.0) -> Any:
    """A fixed point with the gradient by the implicit function theorem, which is right up to a residual."""

    @tf.custom_gradient
    def layer(w: Any) -> Any:
        z = tf.zeros_like(w)
        for _ in range(steps):
            z = tf.tanh(w * z + 1.0)

        def grad(g: Any) -> Any:
            s = 1.0 - z * z
            return g * s * z / (1.0 - s * w) * factor

        return z, grad

    return layer


def _equilibrium(steps: int, factor: float = 1.0) -> Any:
    """A layer with the gradient by the adjoint fixed point, which leaves a residual of its own."""
    rng = np.random.default_rng(0)
    x, w, u, b = rng.normal(size=(3, 2)), rng.normal(size=(2, 2)) / 2, rng.normal(size=(2, 2)), rng.normal(size=2)

    @tf.custom_gradient
    def layer(w: Any, u: Any) -> Any:
        z = tf.zeros_like(u)
        for _ in range(steps):
            z = tf.tanh(z @ w * 0.3 + u)

        def grad(g: Any) -> Any:
            s, v = 1.0 - z * z, g
            for _ in range(steps):
                v = g + ((v * s) @ tf.transpose(w)) * 0.3
            return tf.transpose(z) @ (v * s) * (0.3 * factor), v * s

        return z, grad

    return lambda w, u, b: tf.reduce_sum(layer(w, x @ u + b) ** 2), w, u, b


@pytest.mark.parametrize(("steps", "order"), [*[(n, 1) for n in range(52, 63, 2)], (56, 2), (60, 2)])
def test_a_residual_near_the_precision_of_the_check_is_no_wrong_rule(steps: int, order: int) -> None:
    layer = _iterated(steps)
    report = check(lambda w: tf.exp(layer(w)) - tf.exp(layer(w * 1.001)), 0.7, order=order)
    assert report.ok, report


def test_a_layer_in_equilibrium_is_right_up_to_its_residual_and_no_further() -> None:
    assert check(*_equilibrium(60)).ok
    for steps, factor in ((60, 1.0 + 1e-9), (12, 1.0)):
        report = check(*_equilibrium(steps, factor))
        assert (report.verdict, report.findings[0].op) == ("rule", "layer"), report


@pytest.mark.parametrize(("steps", "factor"), [(12, 1.0), (56, 1.0 + 1e-9), (58, 1.0 + 1e-12), (58, 0.0)])
@pytest.mark.parametrize("order", [1, 2])
def test_a_residual_beyond_roundings_is_found_and_named(steps: int, factor: float, order: int) -> None:
    layer = _iterated(steps, factor)
    report = check(lambda w: tf.exp(layer(w)) - tf.exp(layer(w * 1.001)), 0.7, order=order)
    assert (report.ok, report.verdict, report.findings[0].op) == (False, "rule", "layer"), report


def _custom_root(by_x: Any) -> Any:
    @tf.custom_gradient
    def root(x: Any) -> Any:
        y = tf.sqrt(tf.reduce_sum(x))
        return y, lambda g: g * by_x(x, y)

    return root


def test_a_custom_gradient_may_have_a_convention_where_its_body_has_no_finite_derivative() -> None:
    inside = _custom_root(lambda x, y: tf.ones_like(x) * tf.math.divide_no_nan(tf.constant(0.5, x.dtype), y))
    outside = _custom_root(lambda x, y: tf.ones_like(x))
    zeros = np.zeros(3)
    report = check(lambda x: inside(x * x), zeros)
    assert (report.ok, report.verdict, report.findings[0].op) == (True, "convention", "sqrt"), report
    for f, x in ((lambda x: inside(x), zeros), (lambda x: outside(x * x + x), zeros)):  # slopes without bound
        assert not check(f, x).ok


@pytest.mark.parametrize(
    ("claim", "ok"), [([0.0, 0.0], True), ([0.6, 0.8], True), ([0.6, 1.1], False), ([-1.5, 0.0], False)]
)
def test_claims_for_a_root_of_squares_are_those_for_the_norm(claim: Any, ok: bool) -> None:
    for f in (lambda x: tf.sqrt(tf.reduce_sum(x * x)), tf.norm):
        assert judge(f, np.zeros(2), np.array(claim)).ok == ok


def test_claims_where_one_sided_derivatives_have_no_bound_are_refused() -> None:
    for claim in (0.0, 1.0):
        assert not judge(lambda x: (x * x) ** (1.0 / 3.0), np.array(0.0), np.array(claim)).ok


def test_a_custom_convention_is_no_derivative_where_the_function_has_one() -> None:
    for at_0, right in ((0.0, False), (0.5, True), (1.0, False)):
        ramp = _custom_ramp(at_0)
        report = check(lambda x, ramp=ramp: tf.reduce_sum(ramp(x) - ramp(-x)), np.array([0.0, 1.0]))
        assert (report.ok, report.verdict) == (right, "convention"), report


@tf.custom_gradient
def sine_with_nan(x: Any) -> Any:
    return tf.sin(x), lambda g: g * float("nan")


@tf.custom_gradient
def sine_over_zero(x: Any) -> Any:
    return tf.sin(x), lambda g: g * tf.cos(x) / (x - x)


@pytest.mark.parametrize("f", [sine_with_nan, sine_over_zero])
def test_a_custom_gradient_that_is_not_finite_is_named_in_an_inner_gradient_too(f: Any) -> None:
    def inner(x: Any) -> Any:
        with tf.GradientTape(verify=False) as tape:
            tape.watch(x)
            y = tf.reduce_sum(f(x) * x)
        return tape.gradient(y, x)

    for g in (f, inner):
        report = check(g, np.array([1.0, 2.0]))
        assert (report.verdict, report.findings[0].op) == ("rule", f.__name__), report


@tf.custom_gradient
def identity_wrong_at_1(x: Any) -> Any:
    return tf.identity(x), lambda g: g * tf.where(x == 1.0, 7.0 * tf.ones_like(x), tf.ones_like(x))


@pytest.mark.parametrize(
    "other",
    [tf.sign, tf.floor, tf.round, lambda x: tf.math.divide_no_nan(x, x)],
    ids=["sign", "floor", "round", "no_nan"],
)
def test_a_jump_elsewhere_excuses_no_custom_gradient(other: Any) -> None:
    ramp = _custom_ramp(-5.0)
    for f, at in ((identity_wrong_at_1, 1.0), (ramp, 0.0)):
        report = check(lambda x, f=f: f(x[0]) + other(x[1]), np.array([at, 0.0]))
        assert not report.ok and report.verdict == "rule", report


@pytest.mark.slow
@pytest.mark.parametrize("n", [100, 8000])
def test_many_numbers_excuse_no_custom_gradient(n: int) -> None:
    x = np.linspace(0.5, 2.0, n)
    x[[3, 5]] = 0.0
    assert not check(lambda x: tf.reduce_sum(_custom_ramp(-5.0)(x)), x).ok


def test_a_custom_gradient_that_makes_other_shapes_beside_a_kink_is_checked() -> None:
    @tf.custom_gradient
    def ramp(x: Any) -> Any:
        def back(g: Any) -> Any:
            places = tf.where(x > 0.0)
            return tf.scatter_nd(places, tf.gather_nd(g, places), tf.shape(x, tf.int64))

        return tf.maximum(x, 0.0), back

    assert check(lambda x: tf.reduce_sum(ramp(x)), np.array([2.0, 1.0, -1.0])).ok
    # Beside the kink the function finds other places, which the check cannot follow, so it refuses a right convention.
    report = check(lambda x: tf.reduce_sum(ramp(x)), np.array([0.0, 1.0]))
    assert (report.verdict, report.findings[0].op) == ("rule", "ramp")


def test_a_wrong_call_is_named_after_many_right_ones_of_the_same_function() -> None:
    @tf.custom_gradient
    def wrong_beyond_2(x: Any) -> Any:
        return tf.sin(x), lambda g: g * tf.cos(x) * tf.where(x > 2.0, 1.5 * tf.ones_like(x), tf.ones_like(x))

    def f(x: Any) -> Any:
        total = tf.constant(0.0, tf.float64)
        for k in range(20):
            total += wrong_beyond_2(x * (0.1 if k < 19 else 3.0))
        return total

    report = check(f, 0.9)
    assert (report.verdict, report.findings[0].op) == ("rule", "wrong_beyond_2"), report


@tf.custom_gradient
def _cube_too_steep(x: Any) -> Any:
    return x * x * x, lambda g: 3.3 * g * x * x


@tf.custom_gradient
def _kink_too_steep(x: Any) -> Any:
    return tf.nn.relu(x) + x * x, lambda g: g * (tf.where(x > 0.0, tf.ones_like(x), tf.zeros_like(x)) + 2.2 * x)


FAULTY_AT_KINKS: dict[str, tuple[Any, list[float], list[float]]] = {
    "beside a kink": (lambda x: _cube_too_steep(x[1]) + tf.nn.relu(x[0]), [0.0, 2.0], [0.0, 12.0]),
    "with a kink": (lambda x: tf.reduce_sum(_kink_too_steep(x)), [0.0, 0.7], [0.0, 2.4]),
    "smooth": (lambda x: _cube_too_steep(x[1]) + tf.nn.relu(x[0]), [0.5, 2.0], [1.0, 12.0]),
}


@pytest.mark.parametrize("name", FAULTY_AT_KINKS)
def test_exact_takes_no_number_from_a_wrong_custom_gradient(name: str) -> None:
    f, at, right = FAULTY_AT_KINKS[name]
    assert [float(e) for e in tf.verify.exact(f, np.array(at))] == pytest.approx(right, abs=1e-15)
    report = check(f, np.array(at))
    assert not report.ok and {v.op for v in report.findings if not v.ok} <= {"_cube_too_steep", "_kink_too_steep"}


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTY_AT_KINKS)
def test_claims_are_judged_by_the_body_of_a_wrong_custom_gradient(name: str) -> None:
    f, at, right = FAULTY_AT_KINKS[name]
    x = np.array(at)
    assert judge(f, (x,), np.array(right)).ok
    for wrong in (1.1 * right[1], (1 + 1e-6) * right[1], 0.0, np.nan):
        assert not judge(f, (x,), np.array([right[0], wrong])).ok, wrong


def test_the_number_of_the_tape_is_refused_because_of_its_custom_gradient() -> None:
    def f(x: Any) -> Any:
        return _cube_too_steep(x) * x

    (own,) = [v for v in judge(f, 2.0, 8.0 * 4.3).findings if not v.ok]
    assert (own.verdict, own.op, float(own.exact or 0)) == ("rule", "_cube_too_steep", 32.0)
    (other,) = [v for v in judge(f, 2.0, 33.0).findings if not v.ok]
    assert (other.verdict, other.op) == ("rule", None)
    assert judge(f, 2.0, 48.0, order=2).ok
    assert not judge(f, 2.0, 48.001, order=2).ok


def _guarded(x: Any, value: Callable[[Any], Any], slope: Callable[[Any], Any], at_0: float) -> Any:
    """A quotient with the value 1 at 0, and its gradient, which knows the slope there."""
    hole = tf.equal(x, 0.0)
    safe = tf.where(hole, tf.ones_like(x), x)
    inside = tf.where(hole, tf.ones_like(x), value(safe))
    return inside, lambda g: g * tf.where(hole, at_0 * tf.ones_like(x), slope(safe))


@tf.custom_gradient
def _right_over_its_gap(x: Any) -> Any:
    return _guarded(x, lambda s: tf.math.expm1(s) / s, lambda s: (tf.exp(s) - tf.math.expm1(s) / s) / s, 0.5)


@tf.custom_gradient
def _wrong_beside_its_gap(x: Any) -> Any:
    return _guarded(x, lambda s: tf.sin(s) / s, lambda s: 0.01 + (tf.cos(s) - tf.sin(s) / s) / s, 0.0)


@pytest.mark.parametrize("many", [1, 70])
def test_a_right_custom_gradient_over_a_gap_is_not_blamed_for_a_wrong_one(many: int) -> None:
    report = check(
        lambda x: tf.reduce_sum(_right_over_its_gap(_wrong_beside_its_gap(x) * x)), np.array([0.0] * many + [0.7])
    )
    (found,) = [v for v in report.findings if not v.ok]
    assert (found.verdict, found.op, found.element) == ("rule", "_wrong_beside_its_gap", (0, (many,)))
    assert float(found.exact or 0) == pytest.approx(0.59418296016, rel=1e-9)


def _gelu(factor: float) -> Any:
    """The Gaussian error linear unit, whose body rounds a constant, with a gradient that is accurate in its tail."""

    @tf.custom_gradient
    def gelu(x: Any) -> Any:
        value = 0.5 * x * (1.0 + tf.math.erf(x / np.sqrt(2.0)))
        slope = 0.5 * tf.math.erfc(-x / np.sqrt(2.0)) + x * tf.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi)
        return value, lambda g: g * slope * factor

    return gelu


@pytest.mark.parametrize(("at", "order"), [(-5.0, 1), (-10.0, 1), (-20.0, 1), (7.0, 2), (-7.0, 2)])
def test_a_rounded_constant_in_the_tail_of_a_body_is_no_wrong_gradient(at: float, order: int) -> None:
    with tf.verifying(False):
        assert check(_gelu(1.0), at, order=order).ok
        report = check(_gelu(1.0 + 1e-11), at, order=order)
    assert (report.verdict, report.findings[0].op) == ("rule", "gelu"), report


def _changing(name: str, factors: Iterable[float]) -> Any:
    """A cube whose gradient has another factor in each call."""
    remaining = iter(factors)

    def cube(x: Any) -> Any:
        return x * x * x, lambda g: g * next(remaining) * x * x

    cube.__name__ = name
    return tf.custom_gradient(cube)


@pytest.mark.parametrize(
    "factors", [itertools.chain([2.0], itertools.repeat(3.0)), itertools.cycle([3.3, 3.0, 2.9])], ids=["first", "each"]
)
def test_a_gradient_that_changes_from_call_to_call_is_a_wrong_rule(factors: Iterable[float]) -> None:
    with pytest.raises(tf.VerificationError, match="changes from call to call") as raised:
        slope(_changing("fickle", factors), 2.0)
    (found,) = raised.value.report.findings
    assert (found.verdict, found.op) == ("rule", "fickle")


def test_of_several_custom_gradients_the_one_that_changes_is_named() -> None:
    fickle, steady = (
        _changing("fickle", itertools.chain([2.0], itertools.repeat(3.0))),
        _changing("steady", itertools.repeat(3.0)),
    )
    with pytest.raises(tf.VerificationError, match="the gradient that fickle returns changes") as raised:
        slope(lambda x: fickle(steady(x)), 2.0)
    (found,) = raised.value.report.findings
    assert (found.verdict, found.op) == ("rule", "fickle")


def test_a_formula_that_loses_the_same_digits_in_each_call_stays_unstable() -> None:
    @tf.custom_gradient
    def log_sigmoid(x: Any) -> Any:
        return tf.math.log_sigmoid(x), lambda g: g * (1.0 - tf.sigmoid(x))

    with pytest.raises(tf.VerificationError) as raised:
        slope(log_sigmoid, 30.0)
    (found,) = raised.value.report.findings
    assert (found.verdict, found.op) == ("unstable", "log_sigmoid")


def _saving(kept: Callable[[Any], Any], factor: float = 1.0) -> Any:
    @tf.custom_gradient
    def bent(x: Any) -> Any:
        y = tf.tanh(x)
        s = kept(y)
        return y, lambda g: factor * g * (1 - s * s)

    return bent


@pytest.mark.parametrize("point", [0.5, 3.0, 4.0, 5.0, 8.0, 10.0, 20.0])
@pytest.mark.parametrize("kept", [lambda y: y.numpy(), float, np.asarray], ids=["numpy", "float", "asarray"])
def test_a_saved_number_gets_the_verdict_of_the_tensor_that_it_was(kept: Any, point: float) -> None:
    assert check(_saving(kept), point).verdict == check(_saving(lambda y: y), point).verdict


def test_a_layer_that_saves_its_result_as_an_array_gets_the_verdict_of_the_tensor() -> None:
    def layer(kept: Callable[[Any], Any]) -> Any:
        @tf.custom_gradient
        def dense(a: Any, w: Any) -> Any:
            y = tf.tanh(tf.linalg.matvec(a, w))
            s = kept(y)

            def grad(g: Any) -> Any:
                d = g * (1 - s * s)
                return d[:, None] * w[None, :], tf.linalg.matvec(a, d, transpose_a=True)

            return y, grad

        return dense

    a, w = 4 * np.random.default_rng(0).normal(size=(4, 3)), np.array([1.0, -0.4, 0.8])
    by_array, by_tensor = (check(layer(kept), a, w) for kept in (lambda y: y.numpy(), lambda y: y))
    assert by_array.ok and by_tensor.ok
    assert by_array.verdict == by_tensor.verdict == "cancellation"


@pytest.mark.parametrize("factor", [-1.0, 0.5, 1 + 1e-9])
@pytest.mark.parametrize("point", [0.5, 3.0])
def test_a_saved_number_excuses_no_wrong_factor(point: float, factor: float) -> None:
    assert check(_saving(lambda y: y.numpy(), factor), point).verdict == "rule"


@pytest.mark.parametrize("point", [0.5, 3.0, 5.0])
def test_a_saved_number_has_no_derivative_of_its_own(point: float) -> None:
    report = check(_saving(lambda y: y.numpy()), point, order=2)
    assert any(
        "right in value, but its own derivative" in f.reason for f in report.findings if f.verdict == "unconnected"
    )


def custom(value: Callable[[Any], Any], slope: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @tf.custom_gradient
    def f(x: Any) -> Any:
        return value(x), lambda g: g * slope(x)

    return f


SIGMOID = custom(tf.sigmoid, lambda x: tf.exp(-x) / tf.square(1 + tf.exp(-x)))
SOFTPLUS = custom(tf.nn.softplus, lambda x: tf.exp(x) / (1 + tf.exp(x)))
ATAN = custom(tf.atan, lambda x: 1 / (1 + x * x))


@pytest.mark.parametrize(
    ("f", "x", "order", "op"),
    [
        (SIGMOID, -400.0, 1, "square"),
        (SIGMOID, -800.0, 1, "exp"),
        (SOFTPLUS, np.float32(100.0), 1, "exp"),
        (SOFTPLUS, 800.0, 1, "exp"),
        (ATAN, 1e155, 1, "multiply"),
        (ATAN, 1e155, 2, "multiply"),
    ],
)
def test_an_overflow_inside_of_a_right_custom_gradient_is_no_wrong_rule(f: Any, x: Any, order: int, op: str) -> None:
    report = check(f, x, order=order)
    assert not report.ok and {v.verdict for v in report.findings} <= {"unstable", "range"}
    assert any(op in v.reason and "overflows float" in v.reason for v in report.findings), report
    assert not any("declared" in (v.instead or "") for v in report.findings)


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (custom(tf.reduce_prod, lambda x: tf.reduce_prod(x) / x), np.array([2.0, 0.0, 3.0])),
        (custom(lambda x: tf.where(x > 0, tf.sqrt(tf.abs(x)), x), lambda x: tf.sqrt(x) * 0 + 1), -1.0),
        (custom(tf.sigmoid, lambda x: 2 * tf.exp(-x) / tf.square(1 + tf.exp(-x))), -800.0),
        (custom(tf.nn.softplus, lambda x: tf.exp(x) / (3 + 2 * tf.exp(x))), 800.0),
    ],
)
def test_a_custom_gradient_that_is_not_finite_by_its_algebra_is_a_wrong_rule(f: Any, x: Any) -> None:
    assert check(f, x).verdict == "rule"


def test_wrong_custom_gradients_of_an_inner_gradient_are_looked_for_once_for_all_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searches, among = [], customs._faulty_among

    def faulty_among(oracle: Any, swept: Any, *given: Any) -> Any:
        searches.append(swept.__name__)
        return among(oracle, swept, *given)

    monkeypatch.setattr(customs, "_faulty_among", faulty_among)
    f = custom(lambda x: tf.reduce_sum(tf.exp(x) * tf.sin(x)), lambda x: 1.001 * tf.exp(x) * (tf.sin(x) + tf.cos(x)))

    def searched(n: int) -> int:
        searches.clear()
        report = check(f, np.linspace(0.25, 0.75, n), order=2)
        assert report.verdict == "rule" and any(v.order == 2 for v in report.findings)
        return searches.count(Replay.swept_inside.__name__)

    assert searched(9) == searched(3) > 0


def test_a_custom_gradient_that_is_wrong_in_one_row_alone_is_found_in_that_row() -> None:
    f = custom(lambda x: tf.reduce_sum(x**3), lambda x: x * x * np.array([3.0, 3.0, 3.003]))
    report = check(f, np.array([0.5, 0.75, 1.5]), order=2)
    wrong = [v for v in report.findings if not v.ok]
    assert {v.verdict for v in wrong} == {"rule"}
    assert {v.element[1] for v in wrong if v.element is not None} == {(2,)}


def _cosine_times(u: Any, slope: Callable[[Any], Any] = tf.cos) -> Any:
    """g cos(u), of which only g is an argument."""

    @tf.custom_gradient
    def times(g: Any) -> Any:
        return g * tf.cos(u), lambda h: h * slope(u)

    return times


def _sine_by_captured(slope: Callable[[Any], Any] = tf.cos) -> Any:
    @tf.custom_gradient
    def sine(u: Any) -> Any:
        return tf.sin(u), lambda g: _cosine_times(u, slope)(g)

    return sine


def test_a_gradient_function_may_call_a_custom_gradient_that_captures_the_argument() -> None:
    u = tf.constant(0.7, tf.float64)
    for order in (1, 2):
        assert check(_sine_by_captured(), u, order=order).verdict == "correct"
    with tf.GradientTape() as outer:
        outer.watch(u)
        with tf.GradientTape() as inner:
            inner.watch(u)
            y = _sine_by_captured()(u)
        first = inner.gradient(y, u)
    np.testing.assert_allclose(outer.gradient(first, u), -np.sin(0.7), rtol=1e-15)


def _square_of_captured(x: Any, right: bool) -> Any:
    @tf.custom_gradient
    def times(c: Any) -> Any:
        return c * x * x, lambda g: g * x * x if right else g * x

    return times


@pytest.mark.parametrize("outside", ["captured", "argument"])
def test_tapes_on_the_captured_tensor_and_on_the_argument_are_both_checked(outside: str) -> None:
    x, c = tf.constant(2.0, tf.float64), tf.constant(3.0, tf.float64)
    a, b = (x, c) if outside == "captured" else (c, x)
    with tf.GradientTape() as outer:
        outer.watch(a)
        with tf.GradientTape(persistent=True) as inner:
            inner.watch(b)
            z = _square_of_captured(x, right=True)(c) ** 2
        g = inner.gradient(z, b)
    assert outer.gradient(g, a).numpy() == 192.0  # of c^2 x^4


@pytest.mark.parametrize("outside", ["captured", "argument"])
def test_a_wrong_gradient_by_the_argument_is_found_beside_a_tape_on_the_captured_tensor(outside: str) -> None:
    x, c = tf.constant(2.0, tf.float64), tf.constant(3.0, tf.float64)
    outer, inner = tf.GradientTape(), tf.GradientTape()
    of_captured, of_argument = (outer, inner) if outside == "captured" else (inner, outer)
    with outer, inner:
        of_captured.watch(x)
        of_argument.watch(c)
        z = _square_of_captured(x, right=False)(c) ** 2
    assert of_captured.gradient(z, x).numpy() == 288.0
    with pytest.raises(tf.VerificationError, match="times returns is not the derivative of its body"):
        of_argument.gradient(z, c)


@tf.custom_gradient
def _ratio(h: Any) -> Any:
    return h / h, lambda g: 0.0 * g


@tf.custom_gradient
def _parts(h: Any) -> Any:
    return (h / h, tf.abs(h)), lambda a, b: 0.0 * a


NESTED: dict[str, Any] = {
    "the inner result": lambda h: _ratio(h),
    "an op on the inner result": lambda h: _ratio(h) * 2.0,
    "one of two inner results": lambda h: _parts(h)[0],
    "two levels": lambda h: tf.custom_gradient(lambda k: (_ratio(k), lambda g: 0.0 * g))(h),
}


@pytest.mark.parametrize("inner", NESTED.values(), ids=NESTED)
@pytest.mark.parametrize("slope", [0.0, 1.0])
def test_an_overflow_inside_nested_custom_gradients_has_a_verdict(inner: Any, slope: float) -> None:
    @tf.custom_gradient
    def outer(x: Any) -> Any:
        return inner(tf.exp(x)), lambda g: slope * g

    found = [(f.verdict, f.op) for f in check(outer, tf.constant(100.0)).findings if not f.ok]
    if slope:  # the body is constant
        assert found in ([("rule", "outer")], [("range", "exp")])
    else:
        assert not found
