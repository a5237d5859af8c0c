"""Under the flag, a value that leaves the tape and comes back is found; one that is only looked at fails nothing."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.verify.judging.flag import UndecidedWarning
from gtape.verify.verdicts.collect import collecting

F = Callable[[Any], Any]
LONG = math.pi / 3


def _later(x: Any) -> Any:
    a = x.numpy()
    y = tf.sin(x)
    return y * a


def _constant(x: Any) -> Any:
    c = tf.constant(x.numpy())
    return tf.exp(x) * c


RETURNS: dict[str, F] = {
    "float": lambda x: x * float(x),
    "numpy": lambda x: x * x.numpy(),
    "a float from numpy": lambda x: x * float(x.numpy()),
    "the negative of a float from numpy": lambda x: tf.sin(x) * -float(x.numpy()),
    "an item": lambda x: tf.sin(x) * x.numpy().item(),
    "a constant from an item": lambda x: tf.exp(x) * tf.constant(x.numpy().item(), x.dtype),
    "a float from a text": lambda x: x * float(str(float(x))),
    "asarray": lambda x: x * np.asarray(x),
    "a result": lambda x: x + np.asarray(tf.exp(2.0 * x)),
    "on another line": _later,
    "a constant": _constant,
    "a constant from a float": lambda x: x * tf.constant(float(x), x.dtype),
    "on the left": lambda x: float(x) * x,
    "beside a tensor": lambda x: tf.where(x > 0, x, x.numpy()) + tf.reduce_sum([x, x.numpy()]),
}
ARRAYS = {name: f for name, f in RETURNS.items() if not any(w in name for w in ("float", "item", "left"))}
ONLY_SEEN: dict[str, F] = {
    "printed": lambda x: (print(x, file=sys.stderr), f"{x}", repr(x), x * x)[-1],
    "a float that is dropped": lambda x: (float(x), x.numpy(), x * 2.5)[-1],
    "a branch": lambda x: x * x if float(x) > 0 else -x,
    "a list for a log": lambda x: ([x.numpy()], x * 2.5 + 1.0)[-1],
    "a function of it": lambda x: x * math.sin(x),
    "rounded": lambda x: x * round(float(x), 2),
}


def gradient(f: F, x: Any, verify: Any) -> Any:
    x = tf.constant(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with tf.GradientTape(verify=verify) as tape:
            tape.watch(x)
            y = f(x)
        return tape.gradient(y, x)


def second(f: F, x: Any, verify: Any) -> Any:
    x = tf.constant(x)
    with tf.GradientTape(verify=verify) as outer:
        outer.watch(x)
        g = gradient_inside(f, x, verify)
    return outer.gradient(g, x)


def gradient_inside(f: F, x: Any, verify: Any) -> Any:
    with tf.GradientTape(verify=verify) as tape:
        tape.watch(x)
        y = f(x)
    return tape.gradient(y, x)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", RETURNS)
def test_a_number_that_comes_back_is_unconnected(name: str, dtype: Any) -> None:
    with pytest.raises(tf.VerificationError, match="leaves the tape") as raised:
        gradient(RETURNS[name], np.asarray(LONG, dtype), True)
    found = next(f for f in raised.value.report.findings if f.verdict == "unconnected")
    assert found.line[0] == __file__ and "stop_gradient" in found.reason


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_that_comes_back_is_unconnected(name: str) -> None:
    with pytest.raises(tf.VerificationError, match="comes back as a constant of"):
        gradient(ARRAYS[name], np.array([LONG, 0.5, 2.0]), True)


@pytest.mark.parametrize("f", [lambda x: tf.cast(x, "float32"), lambda x: tf.tanh(tf.cast(x, "float32")), tf.tanh])
def test_the_array_of_a_result_is_found_in_another_dtype(f: F) -> None:
    def loss(x: Any) -> Any:
        left = f(x)
        other = "float32" if left.dtype == tf.float64 else "float64"
        return tf.reduce_sum(tf.cast(x, other) * left.numpy().astype(other))

    with pytest.raises(tf.VerificationError, match="comes back as a constant of"):
        gradient(loss, np.array([LONG, 0.5, 2.0]), True)


def test_an_equal_array_of_another_computation_fails_nothing() -> None:
    at = np.array([LONG, 0.5, 2.0])
    teacher = tf.tanh(at).numpy()

    def loss(x: Any) -> Any:
        made = tf.tanh(x)
        made.numpy()
        return tf.reduce_sum(made * teacher)

    with collecting() as report:
        gradient(loss, at, True)
    assert report.verdict == "correct"


@pytest.mark.parametrize("value", [LONG, 1.25, 0.7])
@pytest.mark.parametrize("name", ONLY_SEEN)
def test_what_is_only_looked_at_fails_nothing(name: str, value: float) -> None:
    with collecting() as report:
        gradient(ONLY_SEEN[name], np.asarray(value), True)
    assert report.verdict == "correct"


def test_a_value_given_to_numpy_function_is_counted_and_undecided_if_strict() -> None:
    def f(x: Any) -> Any:
        return x * tf.numpy_function(np.sin, [x], x.dtype)

    with collecting() as report:
        gradient(f, np.asarray(LONG), True)
    assert report.ok and report.coverage["left"] == 1
    with warnings.catch_warnings(), pytest.raises(tf.VerificationError, match="undecided"):
        warnings.simplefilter("error")
        gradient(f, np.asarray(LONG), "strict")


def test_what_may_have_come_back_is_counted_and_undecided_if_strict() -> None:
    for name in ("a function of it", "rounded"):
        with collecting() as report:
            gradient(ONLY_SEEN[name], np.asarray(LONG), True)
        assert report.coverage["left"] == 1
        with pytest.raises(tf.VerificationError, match="nothing shows if"):
            gradient(ONLY_SEEN[name], np.asarray(LONG), "strict")
    for name in ("printed", "a branch"):  # no constant follows
        with collecting() as report:
            gradient(ONLY_SEEN[name], np.asarray(LONG), "strict")
        assert "left" not in report.coverage


def test_the_same_float_is_certain_however_short_it_is() -> None:
    with pytest.raises(tf.VerificationError, match="leaves the tape"):
        gradient(lambda x: x * float(x), np.asarray(1.25), True)
    with collecting() as report:  # equal by chance
        gradient(lambda x: (x.numpy(), x * 1.25)[1], np.asarray(1.25), True)
    assert report.verdict == "correct"


def test_equal_numbers_from_elsewhere_are_no_return() -> None:
    start = np.array([LONG, 0.1, -math.e])
    w = tf.Variable(start)
    with tf.GradientTape(verify=True) as tape:
        print(w.numpy())
        loss = tf.reduce_sum((w - start) ** 2)
        after = float(loss)
    assert tape.gradient(loss, w).numpy().tolist() == [0.0, 0.0, 0.0] and after == 0.0


@pytest.mark.parametrize("dtype", [tf.float64, tf.float32])
def test_a_number_of_a_variable_that_no_op_computed_comes_back_as_a_python_number(dtype: Any) -> None:
    for f in (lambda w: w * float(w.numpy()), lambda w: tf.nn.leaky_relu(-tf.square(w), alpha=w.numpy().item())):
        w = tf.Variable(LONG, dtype=dtype)
        with tf.GradientTape(verify=True) as tape:
            y = f(w)
        with pytest.raises(tf.VerificationError, match="leaves the tape"):
            tape.gradient(y, w)


def test_a_complex_number_of_a_source_that_comes_back_is_unconnected() -> None:
    with pytest.raises(tf.VerificationError, match="leaves the tape"):
        gradient(lambda x: tf.math.real(x * x * complex(x.numpy())), np.asarray(LONG + 1j / LONG), True)


@pytest.mark.parametrize("dtype", [tf.float64, tf.float32])
def test_a_number_that_is_looked_at_is_no_return_in_copies_and_texts_and_stopped_values(dtype: Any) -> None:
    w = tf.Variable(LONG, dtype=dtype)
    frozen, short = tf.Variable(w, trainable=False), tf.Variable(1.25, dtype=dtype)
    seen: list[bool] = []
    for f in (
        lambda: seen.append(w.numpy() > 0) or tf.sin(w) * frozen,
        lambda: seen.append(w.numpy() > 0) or tf.sin(w) * tf.stop_gradient(w),
        lambda: seen.append(w.numpy() > 0) or tf.sin(w) * tf.stop_gradient(w * 1.0),
        lambda: print(w, f"{w}", file=sys.stderr) or tf.sin(w) * LONG,
        lambda: seen.append(short.numpy() > 0) or w * short * 1.25,
    ):
        with collecting() as report:
            with tf.GradientTape(verify=True) as tape:
                y = f()
            tape.gradient(y, [w, short])
        assert report.verdict == "correct"


def test_a_loss_that_is_printed_after_it_was_computed_fails_nothing_even_if_strict() -> None:
    w = tf.Variable(LONG)
    with tf.GradientTape(verify="strict") as tape:
        loss = w * w
        print(float(loss), loss.numpy())
    tape.gradient(loss, w)


def test_values_that_the_sources_do_not_vary_may_leave() -> None:
    w, v = tf.Variable(LONG, dtype=tf.float64), tf.Variable(math.e, dtype=tf.float64)
    with tf.GradientTape(verify="strict") as tape:
        y = w * float(v) + tf.stop_gradient(w).numpy()
    assert float(tape.gradient(y, w)) == math.e


def test_conversions_in_custom_gradients_are_their_own_matter() -> None:
    @tf.custom_gradient
    def through_numpy(x: Any) -> Any:
        return tf.square(x), lambda g: g * (2.0 * x.numpy())

    assert float(gradient(lambda x: through_numpy(x) * 2.0, np.asarray(LONG), "strict")) == pytest.approx(4 * LONG)


@pytest.mark.parametrize("how", ["jacobian", "batch_jacobian", "jvp"])
def test_other_methods_tell_it_too(how: str) -> None:
    x = tf.constant([[LONG, 0.3]], tf.float64)
    with tf.verifying(), pytest.raises(tf.VerificationError, match="leaves the tape"):
        if how == "jvp":
            with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as acc:
                y = x * x.numpy()
            acc.jvp(y)
        else:
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = x * x.numpy()
            getattr(tape, how)(y, x)


def test_conversions_stay_what_they_are() -> None:
    for value in (np.float64(LONG), np.float32(LONG), np.float16(0.1), np.array([LONG]), np.complex64(1j), np.int32(3)):
        x = tf.constant(value)
        plain = [x.numpy(), np.asarray(x)]
        with tf.GradientTape(verify=True) as tape:
            tape.watch(x)
            noted = [x.numpy(), np.asarray(x)]
            if x.dtype == tf.float64 and not x.shape.rank:
                assert float(x).hex() == float(value).hex() and type(float(x)) is float
        for a, b in zip(plain, noted, strict=True):
            assert type(a) is type(b) and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def test_what_the_library_converts_itself_is_no_return() -> None:
    def printed(x: Any) -> Any:
        print(x, f"{x}", repr(x))
        return x * 2.5

    with collecting() as report:
        gradient(printed, np.asarray(LONG), "strict")
    assert report.verdict == "correct" and "left" not in report.coverage
    model = tf.keras.Sequential([tf.keras.layers.Dense(2), tf.keras.layers.Dense(1)])
    model.compile(optimizer="adam", loss="mse", metrics=["mae"])
    rng = np.random.default_rng(0)
    with tf.verifying("strict"):
        model.fit(rng.normal(size=(6, 3)), rng.normal(size=(6, 1)), epochs=2, batch_size=3, verbose=0)


def _logsumexp(x: Any) -> Any:
    most = float(tf.reduce_max(x))
    return most + tf.math.log(tf.reduce_sum(tf.exp(x - most)))


def _softmax(x: Any) -> Any:
    e = tf.exp(x - tf.reduce_max(x).numpy())
    return tf.square(tf.norm(e / tf.reduce_sum(e)))


def _logsumexp_without_its_maximum(x: Any) -> Any:
    return tf.math.log(tf.reduce_sum(tf.exp(x - float(tf.reduce_max(x)))))


@pytest.mark.parametrize("mode", [True, "strict"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_value_that_comes_back_and_changes_nothing_is_fine(dtype: Any, mode: Any) -> None:
    x = np.array([0.31234567, -1.2345678, 2.1234567], dtype)
    for f in (_logsumexp, _softmax, lambda x: tf.reduce_sum(tf.square(x - x.numpy()))):
        assert gradient(f, x, mode) is not None
    for f in (_logsumexp_without_its_maximum, lambda x: _logsumexp(x) * float(x[0])):
        with pytest.raises(tf.VerificationError, match="leaves the tape"):
            gradient(f, x, mode)


def _by_rows(x: Any) -> Any:
    most = tf.reduce_max(x, 1).numpy()
    return tf.reduce_sum(tf.square(most + tf.math.log(tf.reduce_sum(tf.exp(x - most[:, None]), 1))))


def _row_after_row(x: Any) -> Any:
    most = tf.reduce_max(x, 1).numpy()
    rows = [most[i] + tf.math.log(tf.reduce_sum(tf.exp(x[i] + -most[i]))) for i in range(2)]
    return tf.add_n(rows)


def _by_a_variable(x: Any) -> Any:
    most = tf.Variable(tf.reduce_max(x))
    return most + tf.math.log(tf.reduce_sum(tf.exp(x - most)))


def _distance_to_mean(x: Any) -> Any:
    return tf.reduce_sum(tf.square(x - float(tf.reduce_mean(x))))


ROWS = [[0.31234567, -1.2345678, 2.1234567], [0.7771234, 1.9991234, -0.4123456]]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "f",
    [_by_rows, _row_after_row, lambda x: _row_after_row(x - tf.reduce_max(x)), _by_a_variable, _logsumexp, _softmax],
)
def test_a_maximum_that_comes_back_changes_no_derivative_of_either_order(f: F, dtype: Any) -> None:
    x = np.array(ROWS, dtype)
    assert gradient(f, x, True) is not None and second(f, x, True) is not None


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("f", [_distance_to_mean, lambda x: tf.reduce_sum(tf.square(x - x.numpy()))])
def test_a_value_that_changes_the_second_derivative_alone_is_told_there(f: F, dtype: Any) -> None:
    x = np.array(ROWS[0], dtype)
    gradient(f, x, True)
    with pytest.raises(tf.VerificationError, match="leaves the tape") as raised:
        second(f, x, True)
    assert [g.order for g in raised.value.report.findings if not g.ok] == [2]


def _norms(x: Any) -> Any:
    return tf.reduce_sum(tf.square(tf.nn.l2_normalize(x, 1)), 1) - 1.0


def _circle(x: Any) -> Any:
    return tf.square(tf.sin(x)) + tf.square(tf.cos(x)) - 1.0


TIED: dict[str, F] = {
    "a power of norms": lambda x: tf.reduce_sum(_norms(x) ** 2),
    "relu of norms": lambda x: tf.reduce_sum(tf.nn.relu(_norms(x))),
    "a power of sines": lambda x: tf.reduce_sum(_circle(x) ** 2),
    "relu of sines": lambda x: tf.reduce_sum(tf.nn.relu(_circle(x))),
    "the maximum of sines": lambda x: tf.reduce_sum(tf.maximum(_circle(x), 0.0)),
}


@pytest.mark.parametrize("tied", TIED.values(), ids=TIED)
def test_equal_numbers_elsewhere_make_no_harmless_value_that_left_a_fault(tied: F) -> None:
    x = np.array(ROWS)

    def shifted(x: Any) -> Any:
        m = tf.constant(tf.reduce_logsumexp(x, 1, keepdims=True).numpy())
        return tf.reduce_sum(tf.math.log(tf.reduce_sum(tf.exp(x - m), 1, keepdims=True)) + m)

    assert gradient(lambda x: shifted(x) + tied(x), x, True) is not None
    with pytest.raises(tf.VerificationError, match="unconnected"):
        gradient(lambda x: tf.reduce_sum(x * tf.exp(x).numpy()) + tied(x), x, True)


def test_a_value_that_left_is_undecided_if_the_exact_derivative_stays_open() -> None:
    x = np.array(ROWS)

    def shifted(x: Any) -> Any:
        m = tf.constant(tf.reduce_logsumexp(x, 1, keepdims=True).numpy())
        open_ = tf.reduce_sum(tf.math.log(_circle(x)))  # the logarithm of an exact zero
        return tf.reduce_sum(tf.math.log(tf.reduce_sum(tf.exp(x - m), 1, keepdims=True)) + m) + open_

    with pytest.raises(tf.VerificationError) as raised, np.errstate(all="ignore"):
        gradient(shifted, x, "strict")
    left = [f for f in raised.value.report.findings if f.reason.startswith("a value leaves the tape here, and comes")]
    assert [(f.verdict, f.line[2]) for f in left] == [("undecided", "shifted")]


def test_digits_that_a_returned_value_lost_are_missing_from_the_derivative() -> None:
    with pytest.raises(tf.VerificationError) as raised:
        gradient(lambda x: tf.square(x - float((x + 1e16) - 1e16)), np.asarray(0.3), True)
    assert [f.verdict for f in raised.value.report.findings] == ["cancellation"]


def _assigned(x: Any) -> Any:
    v = tf.Variable(0.0, dtype=x.dtype)
    v.assign(float(tf.reduce_sum(x)))
    return tf.reduce_sum(x * v)


def _added(x: Any) -> Any:
    v = tf.Variable(tf.zeros_like(x))
    v.assign_add(tf.sin(x))
    return tf.reduce_sum(x * v)


def _in_part(x: Any) -> Any:
    v = tf.Variable(tf.zeros_like(x))
    v[1:].assign(x[:2])
    return tf.reduce_sum(x * v)


def _scattered(x: Any) -> Any:
    v = tf.Variable(tf.zeros_like(x))
    v.scatter_nd_update([[1]], [x[0]])
    return tf.reduce_sum(x * v)


def _changed_in_part(change: Callable[[Any, Any], Any]) -> F:
    def f(x: Any) -> Any:
        v = tf.Variable(tf.ones([3, 3], x.dtype))
        change(v, tf.sin(x))
        return tf.reduce_sum(x * v)

    return f


def _row(y: Any) -> tf.IndexedSlices:
    return tf.IndexedSlices(tf.reshape(1.0 + tf.square(y), [1, 3]), tf.constant([1]))


# Here no object holds the value that leaves, because it is changed or combined with others on its way.
PARTS: dict[str, Callable[[Any, Any], Any]] = {
    "assign": lambda v, y: v[1:, 0].assign(y[:2] * 2.0),
    "assign_add": lambda v, y: v[:, 0].assign_add(y[0]),
    "assign_sub": lambda v, y: v[2].assign_sub(y),
    **{
        f"scatter_{how}": lambda v, y, how=how: getattr(v, f"scatter_{how}")(_row(y))
        for how in ("add", "sub", "mul", "div", "max", "update")
    },
    "scatter_min": lambda v, y: v.scatter_min(tf.IndexedSlices(tf.reshape(-tf.abs(y), [1, 3]), tf.constant([2]))),
    "batch_scatter_update": lambda v, y: v.batch_scatter_update(
        tf.IndexedSlices(tf.reshape(y, [3, 1]), tf.constant([[1], [0], [2]]))
    ),
    "scatter_nd_add": lambda v, y: v.scatter_nd_add([[0, 1], [1, 1], [2, 2]], y),
    "scatter_nd_sub": lambda v, y: v.scatter_nd_sub([[0]], tf.reshape(y, [1, 3])),
    "scatter_nd_max": lambda v, y: v.scatter_nd_max([[0, 1]], 2.0 + y[:1]),
    "assign_sub of slices": lambda v, y: v.assign_sub(_row(y)),
}


DOORS: dict[str, F] = {
    **{f"{name} in part": _changed_in_part(change) for name, change in PARTS.items()},
    "a part": _in_part,
    "scatter_nd_update": _scattered,
    "assign": _assigned,
    "assign_add": _added,
    "a new variable": lambda x: tf.reduce_sum(x * tf.Variable(tf.sin(x))),
    "a slope": lambda x: tf.reduce_sum(tf.nn.leaky_relu(x, alpha=float(tf.sigmoid(x[0])))),
    "a limit": lambda x: tf.reduce_sum(tf.square(tf.clip_by_value(x, -0.5, float(x[1] * x[1])))),
    "a limit below": lambda x: (lambda c: tf.reduce_sum(tf.square(tf.clip_by_value(x, -c, c))))(float(x[0])),
    "padding": lambda x: tf.reduce_sum(tf.pad(x, [[1, 1]], constant_values=x[0]) ** 2),
    "one_hot": lambda x: tf.reduce_sum(tf.one_hot([0, 1, 2], 3, on_value=x[0], dtype=x.dtype) * x),
    "range": lambda x: tf.reduce_sum(tf.range(x[0], x[0] + 2.5, dtype=x.dtype) * x),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", DOORS)
def test_a_value_that_comes_back_by_another_door_is_unconnected(name: str, dtype: Any) -> None:
    with pytest.raises(tf.VerificationError, match="leaves the tape") as raised:
        gradient(DOORS[name], np.array(ROWS[0], dtype), True)
    found = next(f for f in raised.value.report.findings if f.verdict == "unconnected")
    assert found.line[0] == __file__


def test_options_that_move_nothing_and_whole_numbers_fail_nothing_even_if_strict() -> None:
    x = np.array([0.31234567, 1.2345678])
    assert gradient(lambda x: tf.reduce_sum(tf.nn.leaky_relu(x, alpha=float(x[0]))), x, "strict") is not None
    assert gradient(lambda x: tf.reduce_sum(tf.ones([int(3.0 * x[1])], x.dtype)) * x[0], x, "strict") is not None


def test_a_variable_that_is_the_source_starts_anew_with_each_value() -> None:
    w = tf.Variable([LONG, 0.3, -0.7])
    with tf.GradientTape(persistent=True, verify="strict") as tape:
        for _ in range(3):
            loss = tf.reduce_sum(tf.square(w) + tf.sin(w))
            w.assign_sub(0.1 * tape.gradient(loss, w))
    assert float(loss) < 3.0


def test_a_value_that_is_stopped_may_go_into_a_variable() -> None:
    x, state = np.asarray(LONG), tf.Variable(0.0, dtype=tf.float64)
    gradient(lambda x: (state.assign(tf.stop_gradient(tf.tanh(x))), x * state)[1], x, "strict")


def _by_a_scale(x: Any) -> Any:
    scale = float(tf.norm(x))
    return tf.reduce_sum(tf.math.log(tf.exp(x) / scale)) + math.prod(x.shape) * math.log(scale)


def _by_weighted_rows(x: Any) -> Any:
    most, weights = tf.reduce_max(x, 1).numpy(), np.array([1.5, -0.75], x.dtype.as_numpy_dtype)
    rows = tf.math.log(tf.reduce_sum(tf.exp(x - most[:, None]), 1))
    return tf.reduce_sum(rows * weights) + (most * weights).sum()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("f", [_by_a_scale, _by_weighted_rows])
def test_what_another_constant_may_offset_is_undecided(f: F, dtype: Any) -> None:
    x = np.array(ROWS, dtype)
    for ask in (gradient_inside, second):
        with pytest.warns(UndecidedWarning, match="both together"):
            ask(f, tf.constant(x), True)
    assert tf.verify.check(f, x, order=2).ok


@pytest.mark.parametrize("start", [[1.0, 2.0], [0.3123456789, 1.2345678901]])
@pytest.mark.parametrize(
    "use",
    [
        lambda v, w: v**3 + w, lambda v, w: v + w**2, lambda v, w: (v + w) ** 2, lambda v, w: v * 0.5 + w * 1.2345678,
        lambda v, w: tf.nn.leaky_relu(-v, alpha=0.3) + w,
    ],
)  # fmt: skip
def test_a_constant_of_the_formula_offsets_no_value_that_only_a_variable_took(
    use: Callable[[Any, Any], Any], start: Any
) -> None:
    def f(x: Any) -> Any:
        v = tf.Variable(tf.zeros_like(x))
        v.assign(2.0 * x)
        return tf.reduce_sum(use(v, x))

    for verify in (True, "strict"):
        with pytest.raises(tf.VerificationError, match="unconnected"):
            gradient(f, np.array(start), verify)


def _by_the_scale_of_a_variable(x: Any) -> Any:
    scale = tf.Variable(tf.norm(x))
    return tf.reduce_sum(tf.math.log(tf.exp(x) / scale)) + math.prod(x.shape) * math.log(float(scale))


@pytest.mark.parametrize("rows", [ROWS, [[3.0, 4.0]]])
def test_a_constant_may_offset_what_a_variable_took_if_the_number_left_too(rows: Any) -> None:
    with pytest.warns(UndecidedWarning, match="both together"):
        gradient_inside(_by_the_scale_of_a_variable, tf.constant(np.array(rows)), True)


@pytest.mark.parametrize("forward", [False, True])
def test_under_strict_a_value_that_comes_back_as_a_cotangent_or_tangent_is_undecided(forward: bool) -> None:
    def derivative(given: Any) -> Any:
        x = tf.Variable(np.array([0.31234567890123, 0.41234567898765]))
        with tf.GradientTape(verify="strict") as outer:
            if forward:
                with tf.verifying("strict"), tf.autodiff.ForwardAccumulator(x, given(x)) as accumulator:
                    y = tf.sin(x)
                slope = accumulator.jvp(y)
            else:
                with tf.GradientTape(verify="strict") as tape:
                    y = tf.sin(x)
                slope = tape.gradient(y, x, output_gradients=given(x))
        return outer.gradient(slope, x)

    with pytest.raises(tf.VerificationError, match="undecided"):
        derivative(lambda x: tf.constant(np.exp(x.numpy())))
    assert derivative(lambda x: tf.constant([0.7, 0.9], tf.float64)) is not None


def test_moving_statistics_that_are_read_again_have_left_the_tape() -> None:
    x = tf.Variable(np.array([[1.31234567890123], [2.41234567898765]]))
    layer = tf.keras.layers.BatchNormalization(momentum=0.5, dtype="float64")
    for again in (False, True):
        with tf.GradientTape(verify="strict") as tape:
            y = layer(x, training=True) * x
            y = layer(x, training=False) if again else y
        if again:
            with pytest.raises(tf.VerificationError, match="leaves the tape"):
                tape.gradient(y, x)
        else:
            assert tape.gradient(y, x) is not None


_ROW = np.array([[0.7, -2.3, 1.9]])
_LABELS = np.array([[1.0, 0.0, 0.0]])
_keras = tf.keras


def _stepped(optimizer: Any, slope: F) -> F:
    """The loss after a step of an optimizer, which computes outside of the tape."""

    def f(x: Any) -> Any:
        v = tf.Variable([1.0, 2.0], dtype=tf.float64)
        optimizer(x).apply_gradients([(slope(x), v)])
        return tf.reduce_sum(v * v) + x

    return f


def _at_rate(x: Any) -> Any:
    optimizer = _keras.optimizers.SGD(0.1)
    optimizer.learning_rate = x
    return optimizer


def _times_metric(metric: Callable[[], Any], *labels: Any) -> F:
    def f(x: Any) -> Any:
        made = metric()
        made.update_state(*labels, x * _ROW)
        return tf.cast(made.result(), x.dtype) * tf.sin(x)

    return f


KEPT: dict[str, F] = {
    "a gradient in SGD": _stepped(lambda x: _keras.optimizers.SGD(0.1), lambda x: tf.stack([x, tf.sin(x)])),
    "a gradient in Adam": _stepped(lambda x: _keras.optimizers.Adam(0.1), lambda x: tf.stack([x, tf.sin(x)])),
    "rows of a gradient": _stepped(
        lambda x: _keras.optimizers.SGD(0.1, momentum=0.9), lambda x: tf.IndexedSlices(tf.stack([x]), tf.constant([1]))
    ),
    "a learning rate": _stepped(_at_rate, lambda x: tf.ones([2], tf.float64)),
    "a mean": _times_metric(_keras.metrics.Mean),
    "a sum": _times_metric(_keras.metrics.Sum),
    "a squared error": _times_metric(_keras.metrics.RootMeanSquaredError, _LABELS),
    "label smoothing": lambda x: _keras.losses.CategoricalCrossentropy(True, label_smoothing=x)(_LABELS, x * _ROW),
    "a threshold": lambda x: tf.reduce_sum(_keras.losses.huber(_LABELS, x * _ROW, delta=x)),
    "an initial value": lambda x: tf.reduce_sum(_keras.initializers.Constant(x)([3], dtype="float64") * x * _ROW),
    "a padding value": lambda x: tf.reduce_sum(tf.linalg.diag(x * _ROW[0], k=1, padding_value=x)),
    "NumPy's function": lambda x: tf.reduce_sum(np.full(3, x) * (x * _ROW)),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_the_library_reads_and_gives_back_is_undecided_if_strict(name: str) -> None:
    verdict = "unconnected" if name == "an initial value" else "undecided"  # an array with the very number
    with pytest.raises(tf.VerificationError, match=verdict) as raised:
        gradient(KEPT[name], np.float64(0.3123456789012345), "strict")
    assert raised.value.report.findings[0].verdict == verdict


@pytest.mark.parametrize("f", KEPT.values(), ids=KEPT)
def test_what_the_library_reads_and_no_target_needs_fails_nothing_even_if_strict(f: F) -> None:
    def loss(x: Any) -> Any:
        y = tf.sin(x) * _ROW
        f(x)
        return tf.reduce_sum(tf.square(y))

    gradient(loss, np.float64(0.3123456789012345), "strict")


@pytest.mark.parametrize("verify", [True, "strict"])
def test_elements_of_a_dataset_are_values_that_left(verify: Any) -> None:
    def f(x: Any) -> Any:
        whole = tf.sin(x)
        total = tf.reduce_sum(whole)
        for batch in tf.data.Dataset.from_tensor_slices(whole).batch(2):
            total += tf.reduce_sum(tf.square(batch))
        return total

    with pytest.raises(tf.VerificationError, match="unconnected"):
        gradient(f, np.random.default_rng(0).normal(size=4), verify)


def _finite(x: Any) -> Any:
    if not math.isfinite(x) or math.isnan(x):
        raise ValueError("not finite")
    return x


EQUAL_BY_CHANCE: dict[str, tuple[F, float]] = {
    "a number beside a test for infinity": (lambda x: tf.sin(_finite(x) + math.pi / 4), math.pi / 4),
    "a number of a module": (lambda x: ([float(x)], x * math.pi)[-1], math.pi),
    "a number of NumPy": (lambda x: ([x.numpy()], x * np.pi)[-1], math.pi),
    "a literal": (lambda x: ([float(x)], x * 3.141592653589793)[-1], math.pi),
}


@pytest.mark.parametrize("name", EQUAL_BY_CHANCE)
def test_a_number_that_the_program_writes_itself_is_no_value_that_left(name: str) -> None:
    f, x = EQUAL_BY_CHANCE[name]
    assert gradient(f, np.float64(x), True) is not None


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_test_for_infinity_lets_no_number_out(dtype: Any) -> None:
    assert gradient(EQUAL_BY_CHANCE["a number beside a test for infinity"][0], dtype(math.pi / 4), "strict") is not None


def test_a_tensor_that_is_older_than_the_logged_value_is_no_value_that_left() -> None:
    x = np.random.default_rng(0).normal(size=3)
    before = tf.constant(x)
    made = gradient(lambda w: ([w.numpy()], tf.reduce_sum(tf.sin(w) * before))[-1], x, True)
    assert made.numpy().tolist() == (np.cos(x) * x).tolist()


def test_a_tensor_that_is_made_from_the_logged_value_is_a_value_that_left() -> None:
    x = np.random.default_rng(0).normal(size=3)
    before = [tf.constant(x)]

    def f(w: Any) -> Any:
        before[0] = tf.constant(w.numpy())
        return tf.reduce_sum(tf.sin(w) * before[0])

    with pytest.raises(tf.VerificationError, match="comes back as a constant"):
        gradient(f, x, True)


@pytest.mark.parametrize("back", [lambda x: float(x), lambda x: x.numpy().item(), lambda x: float(x) * 1.0])
def test_a_number_that_left_beside_an_equal_literal_is_a_value_that_left(back: F) -> None:
    with pytest.raises(tf.VerificationError, match="comes back as a constant"):
        gradient(lambda x: (3.141592653589793, math.isfinite(x), x * back(x))[-1], math.pi, True)
