"""A wrong custom gradient, or a wrong rule, inside a larger program is found, and the right op is blamed for it."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.declare.primitives import REGISTRY
from gtape.engine.worlds import NUMPY
from gtape.verify import check
from gtape.verify.programs.mutants import TRANSFORMS, planted, planted_kernel, planted_rule, scaled
from gtape.verify.verdicts.collect import collecting
from gtape.verify.verdicts.verdict import Finding


def variable(*shape: int, dtype: Any = np.float64, seed: int = 1) -> Any:
    return tf.Variable(np.random.default_rng(seed).normal(size=shape).astype(dtype))


@tf.custom_gradient
def factor(x: Any) -> Any:
    return tf.sin(x), lambda g: g * tf.cos(x) * 1.01


@tf.custom_gradient
def sign(x: Any) -> Any:
    return tf.cos(x), lambda g: g * tf.sin(x)


@tf.custom_gradient
def right(x: Any) -> Any:
    return tf.sin(x), lambda g: g * tf.cos(x)


@tf.custom_gradient
def no_transpose(a: Any, b: Any) -> Any:
    return a @ b, lambda g: (g @ b, tf.transpose(a) @ g)


@tf.custom_gradient
def mean_for_a_sum(x: Any, b: Any) -> Any:
    return x + b, lambda g: (g, tf.reduce_mean(g, axis=0))


@tf.custom_gradient
def second_order(x: Any) -> Any:
    y = tf.exp(x)
    slope = tf.stop_gradient(y)
    return y, lambda g: g * slope


@tf.custom_gradient
def single_precision(x: Any) -> Any:
    y = tf.tanh(x)
    return y, lambda g: g * (1 - y * y) * (1.0 if x.dtype == tf.float64 else 1.001)


@tf.custom_gradient
def last_element(x: Any) -> Any:
    m = np.ones(x.shape)
    m.reshape(-1)[-1] = 1.001
    return x * x, lambda g: 2.0 * g * x * m


@tf.custom_gradient
def negative_inputs(x: Any) -> Any:
    return x * x * x, lambda g: g * 3.0 * x * tf.where(x < 0, 1.001 * x, x)


@tf.custom_gradient
def ties_twice(x: Any, y: Any) -> Any:
    return tf.maximum(x, y), lambda g: (tf.where(x >= y, g, 0.0), tf.where(y >= x, g, 0.0))


@tf.custom_gradient
def one_forgotten(x: Any, y: Any) -> Any:
    return x * y, lambda g: (g * y, None)


@tf.custom_gradient
def small_upstream(x: Any) -> Any:
    return x * x, lambda g: 2.0 * g * x if float(tf.norm(g)) > 1.0 else g * x


@tf.custom_gradient
def through_numpy(x: Any) -> Any:
    return tf.sin(x), lambda g: tf.constant(g.numpy() * np.cos(x.numpy()) * 1.01)


def in_a_loop() -> Any:
    x = variable(3)
    return lambda: tf.while_loop(lambda i, y: i < 4, lambda i, y: (i + 1, factor(y) * 1.5), (0, x))[1], [x]


def mapped() -> Any:
    x = variable(5)
    return lambda: tf.map_fn(lambda e: sign(e) * e, x), [x]


def behind_a_right_one() -> Any:
    x = variable(3)
    return lambda: factor(right(x)) + right(x), [x]


def before_an_inverse() -> Any:
    a, b = variable(3, 3), variable(3, 3, seed=2)
    return lambda: tf.linalg.inv(no_transpose(a, b) + 5 * tf.eye(3, dtype=tf.float64)), [a, b]


def broadcast() -> Any:
    x, b = variable(4, 3), variable(3)
    return lambda: tf.nn.softmax(mean_for_a_sum(x, b))[:, 0], [x, b]


def in_float32() -> Any:
    x = variable(4, dtype=np.float32)
    return lambda: tf.reduce_logsumexp(single_precision(x) * 3.0), [x]


def one_of_400() -> Any:
    x = variable(20, 20)
    return lambda: tf.reduce_sum(tf.sin(last_element(x))), [x]


def below_zero() -> Any:
    x = variable(6)
    return lambda: negative_inputs(x), [x]


def at_ties() -> Any:
    x, y = tf.Variable(np.array([1.0, 2.0])), tf.Variable(np.array([1.0, 1.0]))
    return lambda: ties_twice(x, y), [x, y]


def a_lost_path() -> Any:
    x, y = variable(3), variable(3, seed=2)
    return lambda: one_forgotten(x, y), [x, y]


def by_upstream() -> Any:
    x = variable(3)
    return lambda: 0.1 * small_upstream(x), [x]


def left_the_tape() -> Any:
    x = variable(3)
    return lambda: 0.5 * through_numpy(x), [x]


def between_convolution_and_lookup() -> Any:
    x, k = variable(1, 4, 4, 1), variable(2, 2, 1, 2)
    return lambda: tf.gather(factor(tf.nn.conv2d(x, k, 1, "SAME")), [0, 0, 2], axis=1) ** 2, [x, k]


def in_a_function() -> Any:
    x = variable(3)
    f = tf.function(lambda v: factor(v) * 2)
    return lambda: f(x), [x]


def in_a_layer() -> Any:
    layer = tf.keras.layers.Dense(3, activation=factor)
    x = tf.constant(np.random.default_rng(0).normal(size=(4, 2)).astype(np.float32))
    layer(x)
    return lambda: tf.reduce_mean(layer(x) ** 2), layer.trainable_variables


def nested() -> Any:
    x = variable(3)

    def f() -> Any:
        with tf.GradientTape() as inner:
            y = tf.reduce_sum(right(x) * second_order(x))
        return inner.gradient(y, x)

    return f, [x]


CUSTOM: list[tuple[Callable[[], Any], Any]] = [
    (in_a_loop, factor), (mapped, sign), (behind_a_right_one, factor), (before_an_inverse, no_transpose),
    (broadcast, mean_for_a_sum), (in_float32, single_precision), (one_of_400, last_element),
    (below_zero, negative_inputs), (at_ties, ties_twice), (a_lost_path, one_forgotten), (by_upstream, small_upstream),
    (left_the_tape, through_numpy), (between_convolution_and_lookup, factor), (in_a_function, factor),
    (in_a_layer, factor), (nested, second_order),
]  # fmt: skip


def reverse(f: Any, sources: Any) -> None:
    with tf.GradientTape(verify=True) as tape:
        y = f()
    tape.gradient(y, sources)


def jacobian(f: Any, sources: Any) -> None:
    with tf.GradientTape(verify=True) as tape:
        y = f()
    tape.jacobian(y, sources)


def forward(f: Any, sources: Any) -> None:
    rng = np.random.default_rng(3)
    tangents = [tf.constant(rng.normal(size=s.shape).astype(s.dtype.as_numpy_dtype)) for s in sources]
    with tf.verifying(), tf.autodiff.ForwardAccumulator(sources, tangents) as acc:
        y = f()
        acc.jvp(y)


def findings(ask: Any, f: Any, sources: Any) -> list[Finding]:
    with pytest.raises(tf.VerificationError) as e:
        ask(f, sources)
    return [v for v in e.value.report.findings if not v.ok]


def shows_it(found: list[Finding], name: str) -> None:
    assert {v.op for v in found} == {name}
    worst = found[0]
    assert worst.verdict == "rule"
    assert worst.line is not None and worst.line[0] == __file__
    assert worst.exact is not None and worst.element is not None
    assert worst.got is None or worst.ulps is not None


@pytest.mark.parametrize(("program", "culprit"), CUSTOM, ids=[f.__name__ for f, _ in CUSTOM])
def test_a_wrong_custom_gradient_is_named_with_its_line_and_an_element(program: Any, culprit: Any) -> None:
    f, sources = program()
    shows_it(findings(reverse, f, sources), culprit.__name__)


@pytest.mark.parametrize("program", [in_a_loop, broadcast, in_float32], ids=lambda f: str(f.__name__))
def test_the_same_in_a_jacobian(program: Any) -> None:
    f, sources = program()
    shows_it(findings(jacobian, f, sources), dict(CUSTOM)[program].__name__)


FORWARD = [p for p, _ in CUSTOM if p not in (by_upstream, left_the_tape)]


@pytest.mark.parametrize("program", FORWARD, ids=lambda f: str(f.__name__))
def test_the_same_in_forward_mode(program: Any) -> None:
    f, sources = program()
    shows_it(findings(forward, f, sources), dict(CUSTOM)[program].__name__)


@tf.custom_gradient
def one_minus_square(x: Any) -> Any:
    y = tf.tanh(x)
    return y, lambda g: g * (1 - y * y)


def test_of_several_the_unstable_one_is_named() -> None:
    x = variable(3)
    found = findings(reverse, lambda: right(one_minus_square(right(x) + 18.0)), [x])
    assert [(v.verdict, v.op) for v in found] == [("unstable", "one_minus_square")]


def test_inside_a_recomputed_function_the_wrong_one_is_named() -> None:
    x = variable(3)
    shows_it(findings(reverse, lambda: tf.recompute_grad(lambda v: factor(v) * right(v))(x), [x]), "factor")


@tf.custom_gradient
def centred_times(x: Any) -> Any:
    return x - tf.reduce_mean(x, 0), lambda g: 1.01 * (g - tf.reduce_mean(g, 0))


def test_the_ops_that_a_wrong_one_is_made_of_are_innocent() -> None:
    x = variable(3, 4)
    shows_it(findings(reverse, lambda: tf.sin(centred_times(x)), [x]), "centred_times")


def test_where_there_is_no_derivative_no_rule_is_blamed() -> None:
    def f() -> Any:
        return tf.linalg.eigh(x)[1][0, 1] + tf.reduce_mean(x * x, 0)[0]

    x = tf.Variable(np.diag([2.0, 2.0, 5.0]))
    assert [v.verdict for v in findings(reverse, f, [x])] == ["domain"]


def test_two_wrong_ones_are_both_named() -> None:
    x = variable(3)
    assert {v.op for v in findings(reverse, lambda: factor(x) * sign(x), [x])} == {"factor", "sign"}


def test_a_wrong_rule_is_found_where_a_model_trains() -> None:
    model = tf.keras.Sequential([tf.keras.layers.Dense(4, activation="tanh"), tf.keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
    ones = np.ones((8, 3), np.float32)
    with planted("tanh", 0, scaled(1.01)), tf.verifying(), pytest.raises(tf.VerificationError, match="tanh"):
        model.fit(ones, ones[:, :1], epochs=1, verbose=0)


@pytest.mark.parametrize(
    ("name", "f"),
    [("sin", tf.sin), ("softmax", lambda x: tf.nn.softmax(x)[:, 0]), ("cumprod", tf.math.cumprod)],
)
def test_a_witness_runs_as_printed(name: str, f: Any) -> None:
    x = variable(3, 2)
    with planted(name, 0, scaled(1.001)):
        witness = findings(reverse, lambda: f(x) * 2.0, [x])[0].witness
        assert witness is not None and name in witness
        with pytest.raises(tf.VerificationError, match=name):
            exec(witness, {})
    exec(witness, {})  # and says nothing where all is well


def test_the_witness_of_an_elementwise_op_is_one_number() -> None:
    x = variable(20)
    with planted_kernel("exp", 1 + 1e-14):
        witness = findings(reverse, lambda: tf.exp(x) * x, [x])[0].witness
    assert witness is not None and witness.count("np.array(") == 1 and "[[" not in witness and len(witness) < 400


def test_the_element_shown_is_one_that_is_off() -> None:
    f, sources = one_of_400()
    assert findings(reverse, f, sources)[0].element == (0, (19, 19))


def test_a_source_without_gradient_is_said() -> None:
    f, sources = a_lost_path()
    found = findings(reverse, f, sources)[0]
    assert found.got is None and "source 1 got no gradient at all" in found.reason


def test_a_transpose_that_leaves_the_tape_is_no_silent_zero() -> None:
    x = variable(3)
    found = findings(forward, lambda: through_numpy(x), [x])
    assert [v.verdict for v in found] == ["unconnected"]
    found = findings(forward, lambda: through_numpy(x) + x, [x])
    assert found[0].op == "through_numpy" and "numpy" in found[0].reason


# ---------------------------------------------------------------------------------------------- primitives


def a_power() -> Any:
    x = variable(5, 2)
    return lambda: tf.gather(x, [0, 3, 3, 1]) ** 3, [x]


def a_factorisation() -> Any:
    a = variable(3, 3)
    return lambda: tf.linalg.cholesky(a @ tf.transpose(a) + 3 * tf.eye(3, dtype=tf.float64))[2], [a]


def scanned() -> Any:
    x = variable(4, 3)
    return lambda: tf.scan(lambda s, e: tf.nn.softmax(s + e), x, tf.zeros(3, tf.float64))[-1][0], [x]


def many_sines() -> Any:
    x = variable(3)
    return lambda: tf.while_loop(lambda i, y: i < 20, lambda i, y: (i + 1, tf.sin(y) * 1.2), (0, x))[1], [x]


def recurrent() -> Any:
    w = variable(3, 3)

    def f() -> Any:
        h = tf.ones((3, 1), tf.float64)
        for _ in range(5):
            h = tf.tanh(w @ h)
        return h

    return f, [w]


@pytest.mark.parametrize(
    ("program", "fault", "name"),
    [
        (a_power, lambda: planted("pow", 0, scaled(1.0001)), "pow"),
        (a_factorisation, lambda: planted("cholesky", 0, scaled(1.0001)), "cholesky"),
        (scanned, lambda: planted("softmax", 0, TRANSFORMS["sign"]), "softmax"),
        (many_sines, lambda: planted("sin", 0, scaled(1 + 1e-14), worlds="floats"), "sin"),
        (recurrent, lambda: planted_kernel("matmul", 1 + 1e-14), "matmul"),
        (recurrent, lambda: planted("tanh", 0, scaled(1 + 1e-14)), "tanh"),
    ],
    ids=["power", "factorisation", "scan", "loop", "kernel", "tanh"],
)
def test_a_wrong_rule_or_kernel_inside_a_program_is_named(program: Any, fault: Any, name: str) -> None:
    f, sources = program()
    with fault():
        shows_it(findings(reverse, f, sources), name)


@pytest.mark.parametrize(
    ("program", "fault", "name"),
    [
        (a_power, lambda: planted("pow", 0, scaled(1 + 1e-13)), "pow"),
        (many_sines, lambda: planted("sin", 0, scaled(1 + 1e-14), worlds="floats"), "sin"),
        (recurrent, lambda: planted_kernel("matmul", 1 + 1e-14), "matmul"),
    ],
    ids=["power", "loop", "kernel"],
)
def test_the_same_where_tangents_are_pushed_forward(program: Any, fault: Any, name: str) -> None:
    f, sources = program()
    with fault():
        shows_it(findings(forward, f, sources), name)


@pytest.mark.parametrize("name", ["gelu_derivative", "gelu_tanh_derivative"])
def test_a_rule_that_asks_for_an_order_that_is_not_there_is_named(name: str) -> None:
    def wrong(rule: Any) -> Any:
        return lambda xp, y, x, *, n: getattr(xp, name)(x, n=n - 1)

    order = 1 if name == "gelu_derivative" else 2
    with planted_rule(name, 0, wrong):
        report = check(lambda x: REGISTRY[name](x, n=order), 0.7, order=2)
    assert report.verdict == "rule"
    assert {f.op for f in report.findings} == {name}


def test_the_line_is_that_of_the_call() -> None:
    x = variable(3)
    here = inspect.currentframe()
    assert here is not None
    with contextlib.suppress(tf.VerificationError), collecting() as report, tf.GradientTape(verify=True) as tape:
        y = factor(x)
        line = here.f_lineno - 1
        tape.gradient(y, x)
    assert report.findings[0].line[1] == line


def divided(xp: Any, value: Any, rule: Any, args: Any, argument: int) -> Any:
    """The rule of a product in floats by division, which is NaN at a zero."""
    g, y, x = args[:3]
    return g * y / x if xp is NUMPY else value()


def complex_for_real(xp: Any, value: Any, rule: Any, args: Any, argument: int) -> Any:
    return args[0]


def turned(xp: Any, value: Any, rule: Any, args: Any, argument: int) -> Any:
    """A cotangent of another shape where the first argument was broadcast."""
    v = value()
    return v if len(v.shape) < 3 or v.shape[0] > 1 else xp.broadcast_to(v, shape=(2, *v.shape[1:]))


@pytest.mark.parametrize(
    ("name", "argument", "fault", "f", "args", "order"),
    [
        ("prod", 0, divided, tf.reduce_prod, ([0.0, 3.0, 2.0],), 1),
        ("complex", 0, complex_for_real, lambda x, y: tf.complex(x, y) ** 2, (0.5, 0.3), 1),
        ("matmul", 1, turned, tf.matmul, (np.ones((2, 1, 2)), np.ones((1, 2, 1))), 2),
    ],
    ids=["NaN of finite numbers", "complex for real", "another shape at second order"],
)
def test_a_rule_whose_numbers_are_of_another_kind_is_named(
    name: str, argument: int, fault: Any, f: Any, args: Any, order: int
) -> None:
    with planted(name, argument, fault):
        report = check(f, *map(np.asarray, args), order=order)
    assert not report.ok and {finding.op for finding in report.findings} == {name}
