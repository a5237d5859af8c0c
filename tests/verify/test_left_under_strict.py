"""Under strict, what reads no values passes, and a value that leaves the tape by an unusual way is undecided."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gtape as tf

F = Callable[[Any], Any]
A = np.array([[1.3, -2.1, 0.4], [3.7, 4.9, -0.8]])
W = np.array([[0.3123456789], [-0.5987654321], [1.7182818284]])


def strict_gradient(f: F, value: Any, make: F = tf.constant) -> Any:
    x = make(value)
    with tf.GradientTape(verify="strict") as tape:
        tape.watch(x)
        y = f(x)
    return tape.gradient(y, x).numpy()


PRODUCTS: dict[str, F] = {
    "the operator": lambda w: A @ w,
    "np.matmul": lambda w: np.matmul(A, w),
    "a vector": lambda w: A @ w[:, 0],
    "a vector on the left": lambda w: A[0] @ w,
    "a list that holds tensors": lambda w: np.matmul(tf.transpose(w), [[w[0, 0]], [0.25], [w[1, 0]]]),
    "np.outer": lambda w: np.multiply.outer(A, w),
    "np.kron": lambda w: np.kron(A, w),
    "np.dot": lambda w: np.dot(A, w),
    "np.copysign": lambda w: np.copysign(w, A[:, :1].sum() * tf.square(w) - 1.0),
}


@pytest.mark.parametrize("make", [tf.constant, tf.Variable])
@pytest.mark.parametrize("f", PRODUCTS.values(), ids=PRODUCTS)
def test_products_with_arrays_pass(f: F, make: F) -> None:
    x = tf.constant(W)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    assert strict_gradient(f, W, make).tolist() == tape.gradient(y, x).numpy().tolist()


LAYOUTS: dict[str, F] = {
    "shape": np.shape, "ndim": np.ndim, "size": np.size, "size of an axis": lambda w: np.size(w, 0),
    "iscomplexobj": np.iscomplexobj, "isrealobj": np.isrealobj, "result_type": lambda w: np.result_type(w, np.float32),
    "can_cast": lambda w: np.can_cast(w, np.float32), "common_type": lambda w: np.common_type(w, A),
    "shares_memory": lambda w: np.shares_memory(w, A), "may_share_memory": lambda w: np.may_share_memory(A, w),
    "triu_indices_from": np.triu_indices_from, "tril_indices_from": lambda w: np.tril_indices_from(w, -1),
    "shape of a list": lambda w: np.shape([w, w]), "ndim of a list": lambda w: np.ndim([w[0, 0], w[1, 0]]),
    "size of a tuple": lambda w: np.size((w, w)), "iscomplexobj of a list": lambda w: np.iscomplexobj([w]),
}  # fmt: skip
WHOLE: dict[str, F] = {
    "isclose": lambda w: np.isclose(w, 0.5), "allclose": lambda w: np.allclose(w, 0.5), "nonzero": np.nonzero,
    "searchsorted": lambda w: np.searchsorted([-1.0, 0.5, 2.0], w), "digitize": lambda w: np.digitize(w, [0.0, 0.4]),
    "array_equal": lambda w: np.array_equal(w, w), "signbit": np.signbit, "matrix_rank": np.linalg.matrix_rank,
    "argpartition": lambda w: np.argpartition(w, 1, axis=0), "min_scalar_type": np.min_scalar_type,
}  # fmt: skip


@pytest.mark.parametrize("make", [tf.constant, tf.Variable])
@pytest.mark.parametrize("ask", [*LAYOUTS.values(), *WHOLE.values()], ids=[*LAYOUTS, *WHOLE])
def test_what_numpy_asks_of_a_layout_or_answers_in_whole_numbers_lets_no_value_out(ask: F, make: F) -> None:
    def f(w: Any) -> Any:
        assert str(ask(w)) == str(ask(W))
        return A @ w * 2.5

    assert strict_gradient(f, W, make).shape == W.shape


@given(st.lists(st.integers(0, 4), max_size=4), st.sampled_from(["f4", "f8", "c8", "i4", "?"]))
def test_a_layout_is_that_of_the_values(shape: list[int], dtype: str) -> None:
    values = np.ones(shape, dtype)
    for x in (tf.constant(values), tf.Variable(values)):
        for ask in (np.shape, np.ndim, np.size, np.iscomplexobj, np.isrealobj, np.result_type):
            assert ask(x) == ask(values)
        assert np.shape([x, x]) == (2, *shape)


def test_a_layout_is_no_reading_of_a_variable() -> None:
    v = tf.Variable(W)
    with tf.GradientTape() as tape:
        assert np.shape(v) == W.shape and np.ndim(v) == 2
    assert tape.watched_variables() == ()


def _copied(w: Any) -> Any:
    copy = np.empty_like(W)
    np.copyto(copy, w)
    return copy


NUMBERS: dict[str, F] = {
    "unique": lambda w: np.unique(w).sum(), "histogram": lambda w: np.histogram(w)[1][0],
    "spacing": lambda w: np.spacing(w), "out": lambda w: np.sum(w, 0, out=np.empty(1)),
    "copyto": _copied,
}  # fmt: skip


@pytest.mark.parametrize("ask", NUMBERS.values(), ids=NUMBERS)
def test_numbers_that_numpy_makes_of_values_have_left(ask: F) -> None:
    with pytest.raises(tf.VerificationError, match=r"undecided|unconnected"):
        strict_gradient(lambda w: tf.sin(w) * (2.0 * ask(w)), W)


def _derivative(how: str, f: F, c: Any) -> Any:
    """A derivative of f at c by a tape or an accumulator of its own."""
    if how == "jvp":
        with tf.autodiff.ForwardAccumulator(c, tf.ones_like(c)) as accumulator:
            y = f(c)
        return accumulator.jvp(y)
    with tf.GradientTape() as tape:
        tape.watch(c)
        y = f(c)
    return getattr(tape, how)(y, c)


def _factor_that_was_watched(how: str, x: Any) -> Any:
    d = tf.constant(np.exp(x.numpy()))
    _derivative(how, tf.exp, d)
    return _derivative(how, lambda c: c * d, tf.constant(0.5, x.dtype))


INNER: dict[str, Callable[[str, Any], Any]] = {
    "a detached copy": lambda how, x: _derivative(how, tf.exp, tf.constant(x.numpy())),
    "a power of a copy": lambda how, x: _derivative(how, lambda c: c**3, tf.constant(x.numpy())),
    "a function of a copy": lambda how, x: _derivative(how, tf.sin, tf.constant(np.exp(x.numpy()))),
    "a score": lambda how, x: _derivative(how, lambda c: -(c**2) / 2.0 - tf.exp(c), tf.constant(float(x), x.dtype)),
    "a factor": lambda how, x: _derivative(how, lambda c: c * np.exp(x.numpy()), tf.constant(0.5, x.dtype)),
    "a factor that was watched": _factor_that_was_watched,
}


@pytest.mark.parametrize("value", [3.0, 0.3123456789])
@pytest.mark.parametrize("how", ["gradient", "jacobian", "jvp"])
@pytest.mark.parametrize("slope", INNER.values(), ids=INNER)
def test_a_derivative_at_a_detached_copy_passes_never(slope: Callable[[str, Any], Any], how: str, value: float) -> None:
    with pytest.raises(tf.VerificationError, match=r"undecided|unconnected"):
        strict_gradient(lambda x: x * slope(how, x), np.float64(value))


@pytest.mark.parametrize("how", ["gradient", "jacobian", "jvp"])
def test_a_tensor_that_the_same_tape_watches_after_a_value_left_is_undecided(how: str) -> None:
    with pytest.raises(tf.VerificationError, match="undecided"), tf.verifying("strict"):
        x = tf.constant(0.3123456789)
        with tf.GradientTape() as tape:
            tape.watch(x)
            d = tf.constant(np.exp(x.numpy()))
            tape.watch(d)
            y = tf.sin(x) * d
        tape.gradient(y, x)


@pytest.mark.parametrize("how", ["gradient", "jacobian", "jvp"])
def test_derivatives_inside_pass_if_nothing_left_before_their_constants_entered(how: str) -> None:
    w, state = tf.Variable([0.3, -0.7], dtype=tf.float64), tf.keras.metrics.Mean()

    def slope(x: Any) -> Any:
        made = _derivative(how, lambda c: tf.exp(c * [0.5, 2.0]) * w, tf.constant([0.25, 1.5], tf.float64))
        own = _derivative(how, lambda c: tf.sin(c) * 3.0, tf.stop_gradient(x))
        print(x.numpy(), float(made[0][0] if how == "jacobian" else made[0]))
        return tf.reduce_sum(made) * tf.reduce_sum(own)

    assert strict_gradient(lambda x: tf.reduce_sum(tf.square(x)) * slope(x), np.array([0.5, 1.25])).shape == (2,)

    def penalised(x: Any) -> Any:
        loss = tf.reduce_sum(tf.square(x))
        state.update_state(loss)
        return loss + tf.reduce_sum(_derivative(how, lambda c: tf.tanh(c) * w, tf.constant([0.25, 1.5], tf.float64)))

    assert strict_gradient(penalised, np.array([0.5, 1.25])).shape == (2,)


def _assigned(x: Any) -> Any:
    return tf.exp(_state_of(x)) + 1.0


def _running_mean(x: Any) -> Any:
    layer = tf.keras.layers.BatchNormalization(momentum=0.5, dtype="float64")
    layer(tf.reshape(x, [1, 1]), training=True)
    return layer.moving_mean[0]


def _averaged(x: Any) -> Any:
    average = tf.Variable(tf.ones([2], x.dtype), trainable=False)
    average.assign(0.5 * average + 0.5 * x)
    return tf.reduce_sum(average)


def _state_of(x: Any) -> Any:
    state = tf.Variable(0.0, trainable=False, dtype=x.dtype)
    state.assign(x)
    return state


def _total(x: Any) -> Any:
    mean = tf.keras.metrics.Mean()
    mean.update_state(x)
    return 2.0 * float(mean.total)


DOORS: dict[str, F] = {
    "get_static_value": tf.get_static_value,
    "a format": lambda x: float(f"{x:.17g}"),
    "a format of few digits": lambda x: float(format(x, ".3f")),
    "a format of a result": lambda x: float(f"{tf.exp(x):.17g}"),
    "a pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "a pickled list": lambda x: pickle.loads(pickle.dumps([x, 1.0]))[0],
    "the parts of a pickle": lambda x: (made := x.__reduce__())[0](*made[1]),
    "bits": lambda x: tf.bitcast(tf.bitcast(x, tf.int64), tf.float64),
    "bits of halves": lambda x: tf.bitcast(tf.bitcast(tf.exp(x), tf.float32), tf.float64),
    "bytes": lambda x: tf.bitcast(tf.bitcast(tf.stack([x, x]), tf.uint8), tf.float64)[1],
    "shuffled rows": lambda x: tf.reduce_sum(tf.random.shuffle(tf.stack([x, tf.sin(x)]))),
    "a shuffled scalar": lambda x: tf.random.shuffle(tf.exp(x)),
    "a rate of dropout": lambda x: tf.reduce_sum(tf.nn.dropout(A, rate=x / 10.0, seed=1)),
    "a bound": lambda x: tf.reduce_sum(tf.math.l2_normalize(np.array([0.1, 0.2]), epsilon=1.0 + x)),
    "a regulariser": lambda x: tf.reduce_sum(tf.linalg.lstsq(A, A, l2_regularizer=x)),
    "a variable's array": lambda x: np.exp(tf.Variable(x).numpy()),
    "a state's number": lambda x: math.exp(_state_of(x)),
    "a metric's number": _total,
    "a variable by a function": lambda x: tf.Variable(lambda: x) * 1.0,
    "a variable by a function that computes": lambda x: tf.Variable(lambda: tf.exp(x) + 1.0),
    "a variable of a list": lambda x: tf.Variable([x, 2.0 * x])[1],
    "a constant variable": lambda x: tf.Variable(lambda: tf.sin(x), trainable=False),
    "a state": _assigned,
    "a running mean": _running_mean,
    "a moving average": _averaged,
}


@pytest.mark.parametrize("value", [3.0, 0.3123456789012345])
@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_a_value_that_comes_back_by_an_unusual_door_passes_never(door: F, value: float) -> None:
    with pytest.raises(tf.VerificationError, match=r"undecided|unconnected"):
        strict_gradient(lambda x: x * door(x), np.float64(value))


def _state_set(x: Any) -> Any:
    rate = tf.Variable(0.5, trainable=False, dtype=x.dtype)
    rate.assign(0.25)
    return rate


SHOWN: dict[str, F] = {
    "print": print, "str": str, "repr": repr, "a plain format": lambda x: f"x = {x}, {format(x)}", "tf.print": tf.print,
    "a list": lambda x: print([x, {"loss": x}]),
    "a variable": lambda x: print(tf.Variable(0.5), f"{tf.Variable(0.5)}"),
}  # fmt: skip


@pytest.mark.parametrize("make", [tf.constant, tf.Variable])
@pytest.mark.parametrize("show", SHOWN.values(), ids=SHOWN)
def test_a_text_for_people_lets_no_value_out(show: F, make: F) -> None:
    def f(x: Any) -> Any:
        show(x)
        y = tf.sin(x) * 2.5
        show(y)
        return y * _state_set(y)

    assert strict_gradient(f, np.float64(0.3123456789), make) == pytest.approx(0.625 * np.cos(0.3123456789))


def test_a_copy_stays_connected_and_a_pickle_after_the_target_passes() -> None:
    assert strict_gradient(lambda x: (y := x * copy.copy(x), pickle.dumps(y), f"{y:.17g}")[0], np.float64(3.0)) == 6.0


@pytest.mark.parametrize("verify", [False, "strict"])
def test_a_new_variable_is_watched_no_sooner_in_a_check(verify: Any) -> None:
    other = tf.Variable(2.0)
    with tf.GradientTape(verify=verify) as tape:
        copied = tf.Variable(other)
        y = copied * 3.0
    assert tape.gradient(y, copied) == 3.0 and [v is copied for v in tape.watched_variables()] == [True]


def test_ordinary_training_with_logs_passes() -> None:
    rng = np.random.default_rng(0)
    data, labels = rng.normal(size=(12, 3)), rng.normal(size=(12, 1))
    model = tf.keras.Sequential([
        tf.keras.layers.Dense(4, activation="tanh"), tf.keras.layers.BatchNormalization(), tf.keras.layers.Dense(1)
    ])  # fmt: skip
    schedule = tf.keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.9)
    model.compile(optimizer=tf.keras.optimizers.SGD(schedule), loss="mse", metrics=["mae"])
    epochs: list[Any] = []
    shown = tf.keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: epochs.append(f"{logs['loss']:.3f}"))
    mean, optimizer = tf.keras.metrics.Mean(), tf.keras.optimizers.Adam(0.01)
    with tf.verifying("strict"):
        model.fit(data, labels, epochs=2, batch_size=4, verbose=0, callbacks=[shown])
        model.evaluate(data, labels, verbose=0)
        for x, y in tf.data.Dataset.from_tensor_slices((data, labels)).batch(4):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(model(x, training=True) - tf.cast(y, tf.float32)))
                mean.update_state(loss)
                print(loss, f"{loss:.4f}", float(loss), mean.result())
            optimizer.apply_gradients(
                zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True)
            )
    assert len(epochs) == 2


def _in_a_thread(work: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


THREADED: dict[str, F] = {
    "float": lambda x: _in_a_thread(lambda: float(x)),
    "numpy": lambda x: _in_a_thread(x.numpy),
    "a function": lambda x: _in_a_thread(lambda: math.sin(x)),
    "a result": lambda x: (lambda y: _in_a_thread(lambda: np.sqrt(np.asarray(y))))(tf.exp(x)),
    "a format": lambda x: float(_in_a_thread(lambda: f"{x:.17g}")),
    "several threads": lambda x: sum(ThreadPoolExecutor(4).map(float, [x] * 8)),
}


@pytest.mark.parametrize("value", [3.0, 0.3123456789012345])
@pytest.mark.parametrize("read", THREADED.values(), ids=THREADED)
def test_a_value_that_another_thread_reads_passes_never(read: F, value: float) -> None:
    with pytest.raises(tf.VerificationError, match=r"undecided|unconnected"):
        strict_gradient(lambda x: x * read(x), np.float64(value))


def test_another_thread_may_read_for_people_after_the_target_and_after_the_block() -> None:
    def f(x: Any) -> Any:
        _in_a_thread(lambda: print(x, f"{x}"))
        y = x * 2.5
        _in_a_thread(lambda: float(y))
        return y

    assert strict_gradient(f, np.float64(3.0)) == 2.5
    x = tf.constant(3.0)
    with tf.GradientTape(persistent=True, verify="strict") as tape:
        tape.watch(x)
        y = x * x
    factor = _in_a_thread(lambda: float(y))
    with tape:
        z = x * factor
    assert tape.gradient(z, x) == 9.0


def _ask(how: str, f: F, v: Any) -> Any:
    """A derivative under strict by one of the four ways; None or zeros without a path."""
    with tf.verifying("strict"):
        if how == "jvp":
            with tf.autodiff.ForwardAccumulator(v, tf.ones_like(v)) as accumulator:
                y = f(v)
            return accumulator.jvp(y)
        with tf.GradientTape() as tape:
            y = f(v)
        return getattr(tape, how)(tf.reshape(y, [1, -1]) if how == "batch_jacobian" else y, v)


DETACHED: dict[str, F] = {
    "a function by NumPy": lambda v: tf.reduce_mean(tf.constant(np.square(v.numpy()))),
    "results in a list": lambda v: tf.reduce_mean(np.stack([a.numpy() for a in tf.unstack(tf.reshape(v * v, [-1]))])),
    "a constant of floats": lambda v: tf.constant([float(a) ** 2 for a in tf.reshape(v, [-1])]),
    "a converted float": lambda v: tf.convert_to_tensor(float(v[0, 0]) ** 2),
    "a float beside an older constant": lambda v: tf.constant(1.0) + float(v[0, 0]) ** 2,
    "an op on an array": lambda v: tf.square(v.numpy() * 3),
    "the array itself": lambda v: tf.reduce_sum(v.numpy()),
    "a custom gradient on an array": lambda v: tf.custom_gradient(lambda c: (c * c, lambda g: g))(np.exp(v.numpy())),
    "a variable that takes a function": lambda v: tf.Variable(np.exp(v.numpy()), trainable=False),
    "a variable that is read": lambda v: tf.Variable(np.exp(v.numpy()), trainable=False) * 1.0,
    "a mapped function": lambda v: tf.map_fn(tf.exp, tf.constant(np.square(v.numpy()))),
    "a compiled function": lambda v: tf.function(lambda c: c * c)(tf.constant(np.square(v.numpy()))),
    "draws around it": lambda v: tf.random.normal([3], float(v[0, 0]) ** 2),
}


@pytest.mark.parametrize("value", [1.0, 0.3123456789])
@pytest.mark.parametrize("how", ["gradient", "jacobian", "batch_jacobian", "jvp"])
@pytest.mark.parametrize("f", DETACHED.values(), ids=DETACHED)
def test_a_target_that_left_the_tape_whole_passes_never(f: F, how: str, value: float) -> None:
    v = tf.Variable([[value, 2.0]])
    with pytest.raises(tf.VerificationError, match=r"undecided|unconnected") as raised:
        _ask(how, f, v)
    assert all(finding.line for finding in raised.value.report.findings)


def test_a_loss_by_numpy_of_a_model_is_undecided_at_the_line_that_reads_the_output() -> None:
    model, data = tf.keras.Sequential([tf.keras.layers.Dense(1)]), np.ones((4, 2), np.float32)
    model(data)
    with tf.verifying("strict"), tf.GradientTape() as tape:
        outputs = model(data)
        loss = tf.reduce_mean(np.square(outputs.numpy() - 1.0))
    with pytest.raises(tf.VerificationError, match="undecided") as raised:
        tape.gradient(loss, model.trainable_variables)
    assert raised.value.report.findings[0].line[2].startswith("test_a_loss_by_numpy_of_a_model")


OLDER: dict[str, F] = {
    "a constant": lambda v: (tf.constant([3.0]), v.numpy())[0],
    "a result of constants": lambda v: (tf.square(tf.constant([3.0])), float(v[0, 0]), v.numpy())[0],
    "a constant before a text": lambda v: (print(v), f"{v}", tf.constant([3.0]))[-1],
    "a whole number": lambda v: (int(v[0, 0]), np.size(v), tf.constant([3.0]))[-1],
    "a value that was stopped": lambda v: tf.reduce_mean(tf.constant(np.square(tf.stop_gradient(v).numpy()))),
    "a stopped target": lambda v: (float(v[0, 0]), tf.stop_gradient(v * v))[-1],
    "a variable": lambda v: (tf.Variable([2.0], trainable=False), float(v[0, 0]))[0],
}


@pytest.mark.parametrize("how", ["gradient", "jacobian", "jvp"])
@pytest.mark.parametrize("f", OLDER.values(), ids=OLDER)
def test_a_target_that_is_older_than_the_value_which_left_passes(f: F, how: str) -> None:
    assert _ask(how, f, tf.Variable([[1.25, 2.0]])) is None
