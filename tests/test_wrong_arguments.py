"""Wrong arguments: a call ends in a result, or in an error raised on purpose that says what was wrong.

`tests/fuzzing.py` draws calls of every public name. ``GTAPE_FUZZ=60000`` makes that many of them, ``GTAPE_FUZZ_SEED``
says which ones; each call that fails is printed with a line that repeats it.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.base.diagnosis import diagnosed, diagnosed_methods
from gtape.base.shown import shown

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
CALLS = int(os.environ.get("GTAPE_FUZZ", "600"))
SEED = int(os.environ.get("GTAPE_FUZZ_SEED", "0"))
# Keras, training and data have a share of their own below.
OTHERS = ("gtape.keras", "gtape.train", "gtape.data", "gtape.losses", "gtape.metrics", "gtape.optimizers")

IAE = tf.errors.InvalidArgumentError


@pytest.fixture(autouse=True)
def tape_works_on() -> Iterator[None]:
    """After each test a fresh tape, at first and second order, gives the right numbers."""
    yield
    x = tf.Variable(3.0)
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            y = x * x * x
        dy = inner.gradient(y, x)
    assert dy.numpy() == 27.0
    assert outer.gradient(dy, x).numpy() == 18.0


# ---------------------------------------------------------------------------------------------- drawn calls


def drawn(calls: int, seed: int, *namespaces: str) -> None:
    """Make calls in a process with little memory; fail with what it prints where one of them must not end as it did."""
    words = [f"--namespace={n}" for n in namespaces]
    done = subprocess.run(
        [sys.executable, str(HERE / "fuzzing.py"), "--calls", str(calls), "--seed", str(seed), *words],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60 + calls,
    )  # fmt: skip
    if done.returncode:
        last = [
            Path(line.split(" to ")[1]) for line in done.stderr.splitlines() if line.startswith("calls are written")
        ]
        at = last[0].read_text() if last and last[0].exists() else "none"
        pytest.fail(f"{done.stdout}\n{done.stderr[-3000:]}\nthe last call: {at}", pytrace=False)


SHARES = {
    "ops": ("gtape", *[f"-{n}" for n in OTHERS], "-gtape.symbolic", "-gtape.verify"),
    "operators": ("operators", "attributes"),
    "numpy": ("numpy",),
}


@pytest.mark.slow
@pytest.mark.parametrize("share", SHARES)
def test_drawn_calls_with_wrong_arguments_end_in_results_or_deliberate_errors(share: str) -> None:
    drawn(CALLS if share == "ops" else CALLS // 4, SEED, *SHARES[share])


# ---------------------------------------------------------------------------------------------- what is said


def endless_list() -> list[Any]:
    made: list[Any] = []
    made.append(made)
    return made


def deep(n: int = 100_000) -> list[Any]:
    made: list[Any] = []
    for _ in range(n):
        made = [made]
    return made


@pytest.mark.parametrize("make", [endless_list, deep], ids=["holds itself", "nested deeply"])
@pytest.mark.parametrize(
    "call",
    [
        tf.constant,
        tf.reduce_sum,
        tf.nest.flatten,
        tf.TensorShape,
        tf.zeros,
        lambda x: tf.nest.map_structure(abs, x),
        lambda x: tf.nest.assert_same_structure(x, x),
        lambda x: tf.reshape(1.0, x),
        lambda x: tf.cast(1.0, x),
        lambda x: tf.constant(1.0) + x,
        lambda x: tf.nn.max_pool2d(tf.ones([1, 4, 4, 1]), x, 1, "VALID"),
        lambda x: tf.Variable(1.0).scatter_add(x),
    ],
)
def test_lists_without_a_bottom_are_refused(call: Callable[[Any], Any], make: Callable[[], Any]) -> None:
    with pytest.raises((TypeError, ValueError, IAE)) as caught:
        call(make())
    assert len(str(caught.value)) < 2000


@pytest.mark.parametrize(
    "call",
    [
        lambda: tf.zeros([2**40]),
        lambda: tf.ones([2**40]),
        lambda: tf.fill([2**40], 1.0),
        lambda: tf.range(2**45),
        lambda: tf.constant(1.0, shape=[2**40]),
        lambda: tf.random.normal([2**45]),
        lambda: tf.eye(2**30),
        lambda: tf.one_hot([1], 2**45),
        lambda: tf.convert_to_tensor(np.broadcast_to(np.float32(1.0), (2**45,))),
        lambda: tf.constant(range(2**60)),
        lambda: tf.tile([1.0], [2**45]),
        lambda: tf.TensorArray(tf.float32, 0, dynamic_size=True).write(2**45, 1.0),
    ],
)
def test_what_has_no_room_in_the_memory_is_resource_exhausted(call: Callable[[], Any]) -> None:
    with pytest.raises((tf.errors.ResourceExhaustedError, ValueError)):
        call()


@pytest.mark.parametrize("n", [2**63, 2**70, -(2**70), 10**400], ids=["2**63", "2**70", "-2**70", "10**400"])
def test_integers_beyond_the_dtype_are_refused_by_operators(n: int) -> None:
    t = tf.constant([1, 2, 3])
    for call in (lambda: t == n, lambda: t + n, lambda: n < t, lambda: tf.Variable(1) != n, lambda: tf.zeros([n])):
        with pytest.raises((TypeError, ValueError, IAE)):
            call()


def test_integers_beyond_all_floats_become_infinite() -> None:
    assert (tf.constant(1.0) < 10**400).numpy()
    assert (tf.constant(1.0, tf.float64) * -(10**400)).numpy() == -np.inf


@pytest.mark.parametrize("name", ["a.b", "tape.x", "", " ", ".", "é", "\0", "a" * 10_000, "lambda", "ops.shape"])
@pytest.mark.parametrize("space", [tf, tf.math, tf.nn, tf.keras], ids=lambda m: m.__name__)
def test_asking_for_any_name_is_an_attribute_error_at_most(space: Any, name: str) -> None:
    assert not hasattr(space, name)


def test_text_is_transposed_reshaped_and_refused_as_in_tensorflow() -> None:
    assert tf.transpose(tf.constant("a")).numpy() == b"a"
    assert tf.transpose(tf.constant([["a", "b"]])).numpy().tolist() == [[b"a"], [b"b"]]
    assert tf.reshape(tf.constant("a"), [1]).numpy().tolist() == [b"a"]
    with pytest.raises((TypeError, IAE)):
        tf.reduce_sum(tf.constant("a"))


def test_random_draws_take_real_parameters() -> None:
    z = tf.constant([[1j]], tf.complex64)
    for call in (
        lambda: tf.random.stateless_categorical(z, 3, [1, 2]),
        lambda: tf.random.categorical(z, 3),
        lambda: tf.random.poisson([2], z),
        lambda: tf.random.gamma([2], z),
        lambda: tf.random.stateless_binomial([1, 1], [1, 2], z, 0.5),
        lambda: tf.random.stateless_poisson([1, 1], [1, 2], z),
    ):
        with pytest.raises((TypeError, ValueError, IAE)):
            call()


def test_a_tensor_is_not_made_by_its_class() -> None:
    with pytest.raises(TypeError, match=r"gtape\.constant"):
        tf.Tensor()


def test_an_axis_beyond_a_shape_is_an_index_error_as_of_tuples() -> None:
    with pytest.raises(IndexError, match="2 axes"):
        tf.TensorShape([1, 2])[5]
    with pytest.raises(TypeError, match="whole numbers"):
        tf.TensorShape([1, 2])["a"]  # type: ignore[index]


def test_complex_tensors_do_not_become_real_numbers_silently() -> None:
    v, z = tf.constant([1.0, 2.0]), tf.constant(1j, tf.complex64)
    for call in (
        lambda: float(tf.constant(1j)),
        lambda: float(z),
        lambda: int(z),
        lambda: tf.debugging.assert_near(v, v, rtol=z),
        lambda: tf.while_loop(lambda i: i < 3.0, lambda i: i + 1.0, [0.0], maximum_iterations=z),
        lambda: tf.pad(v, [[1, 1]], constant_values=z),
        lambda: np.ldexp(v, 1j),
    ):
        with pytest.raises(TypeError, match="complex"):
            call()
    with pytest.raises(IAE, match="real"):
        tf.histogram_fixed_width([1.0], tf.constant([0.0, 1j]))
    assert complex(z) == 1j


# ---------------------------------------------------------------------------------------------- the mechanism


@diagnosed
def first(items: Any, word: str = "x") -> Any:
    """Its first item."""
    if word == "no":
        raise KeyError("on purpose")
    return items[0]


@diagnosed_methods
class Row:
    def at(self, items: Any) -> Any:
        return 1 / items


def test_a_diagnosed_function_keeps_its_name_and_its_results() -> None:
    assert tf.range.__name__ == "range" and first.__doc__ == "Its first item."
    assert first([3]) == 3


def test_errors_of_the_users_own_functions_come_through_as_they_are() -> None:
    def failing(x: Any) -> Any:
        return [][0]

    with pytest.raises(IndexError, match="list index out of range"):
        tf.map_fn(failing, tf.constant([1.0]))
    with pytest.raises(KeyError):
        tf.cond(True, lambda: {}["a"], lambda: 1)
    # This file is no part of the library either.
    with pytest.raises(IndexError):
        first([])
    with pytest.raises(ZeroDivisionError):
        Row().at(0)


@pytest.mark.parametrize("name", ["<stdin>", "<string>", "<ipython-input-1-0123456789ab>", "<doctest a.b[0]>"])
@pytest.mark.parametrize(
    ("text", "error"),
    [("1 + int('mine')", ValueError), ("{}[x.dtype]", KeyError), ("mine", NameError), ("x.mine", AttributeError)],
)
def test_errors_of_functions_without_a_source_file_come_through_as_they_are(
    name: str, text: str, error: type[Exception]
) -> None:
    space: dict[str, Any] = {}
    exec(compile(f"def f(x):\n    return {text}\n", name, "exec"), space)
    for call in (lambda: tf.verify.check(space["f"], 0.5), lambda: tf.map_fn(space["f"], tf.constant([1.0, 2.0]))):
        with pytest.raises(error) as raised:
            call()
        assert raised.type is error
        assert "an argument" not in str(raised.value)


def _nothing(x: Any) -> Any:
    return None, lambda g: g


def _of_row_7(x: Any) -> Any:
    rows = tf.IndexedSlices(tf.constant([1.0]), tf.constant([7]), tf.constant([3]))
    return tf.reduce_sum(x), lambda g: rows


def test_a_custom_gradient_without_a_value_is_named() -> None:
    with pytest.raises(ValueError, match="_nothing returned None"):
        tf.custom_gradient(_nothing)(tf.constant(1.0))


@pytest.mark.parametrize("verify", [False, True])
def test_a_custom_gradient_with_a_row_that_its_input_lacks_is_named(verify: bool) -> None:
    x = tf.Variable([1.0, 2.0, 3.0])
    with tf.GradientTape(verify=verify) as tape:
        y = tf.custom_gradient(_of_row_7)(2.0 * x)
    with pytest.raises(IAE, match="the gradient that _of_row_7 returns for input 0"):
        tape.gradient(y, x)


@pytest.mark.parametrize("name", ["jit_compile", "reduce_retracing", "experimental_compile"])
def test_an_option_of_function_is_true_or_false(name: str) -> None:
    with pytest.raises(tf.errors.OperandTypeError, match=f"`{name}` must be True or False, not 'yes'"):
        tf.function(abs, **{name: "yes"})
    assert float(tf.function(abs, **{name: None})(tf.constant(-1.0))) == 1.0


def test_a_misspelt_name_of_verify_is_told_the_name_like_it() -> None:
    with pytest.raises(AttributeError, match="did you mean 'check'"):
        tf.verify.chek  # noqa: B018


def test_an_error_says_which_function_was_given_what() -> None:
    with pytest.raises((TypeError, ValueError), match="binomial"):
        tf.random.Generator.from_seed(1).binomial([2], tf.constant([1.0, 2.0]), tf.constant([1.0, 2.0]))


class Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def test_anything_is_shown_briefly() -> None:
    assert shown([1, "a", None]) == "[1, 'a', None]"
    assert shown(endless_list()) == "[[...]]"
    assert "Unshowable" in shown(Unshowable()) and "Unshowable" in shown([Unshowable()])
    assert len(shown(list(range(10**6)))) <= 300 and len(shown("a" * 10**6)) <= 310
    assert len(shown(deep())) < 100


class Long:
    """Its `__len__`, and so its truth value, raises OverflowError."""

    def __len__(self) -> int:
        return 2**70


@pytest.mark.parametrize("depth", [200, 300, 400, 600, 800, 900, 950, 1000])
def test_each_step_of_a_walk_through_a_deep_structure_may_be_too_deep(depth: int) -> None:
    made: Any = 1.0
    for _ in range(depth):
        made = (made,)
    for call in (
        lambda: tf.nest.flatten(made),
        lambda: tf.nest.map_structure(abs, made),
        lambda: tf.nest.pack_sequence_as(made, [1.0]),
        lambda: tf.nest.assert_same_structure(made, made),
        lambda: tf.keras.Model().predict_on_batch(made),
        lambda: tf.print(made, output_stream=io.StringIO()),
    ):
        with contextlib.suppress(ValueError, NotImplementedError):
            call()


class Anything:
    """An object with every attribute."""

    def __getattr__(self, name: str) -> Any:
        return self


def test_an_object_with_every_attribute_is_shown_in_the_error() -> None:
    with pytest.raises(TypeError, match=r"band_part\(.*Anything"):
        tf.linalg.band_part([[1.0, 2.0], [3.0, 4.0]], Anything(), 0)


def test_no_name_holds_a_lone_surrogate() -> None:
    for space in (tf, tf.math, tf.linalg, tf.nn):
        assert not hasattr(space, "\ud800")


def test_a_range_of_integers_has_its_exact_length() -> None:
    # NumPy's own subtraction overflows, and its quotient is rounded.
    assert tf.range(-(2**63), 2**63 - 1, 2**62).numpy().tolist() == [-(2**63), -(2**62), 0, 2**62]
    assert tf.range(0, 2**62 + 1, 2**62).numpy().tolist() == [0, 2**62]
    assert tf.range(np.int8(-100), np.int8(100), np.int8(50)).numpy().tolist() == [-100, -50, 0, 50]
    top = 2**64
    assert tf.range(np.uint64(top - 5), np.uint64(top - 1), np.uint64(2)).numpy().tolist() == [top - 5, top - 3]
    assert tf.range(5, 0, -2).numpy().tolist() == [5, 3, 1]
    for start, limit, delta in np.random.default_rng(0).integers(-100, 100, [300, 3]).tolist():
        if delta and (limit - start) * delta >= 0:
            made = tf.range(start, limit, delta)
            assert made.dtype == tf.int32 and made.numpy().tolist() == list(range(start, limit, delta))


@pytest.mark.parametrize("diagonals", [1j, [1.0, 2.0], [[1.0], [2.0]]])
@pytest.mark.parametrize("op", ["tridiagonal_solve", "tridiagonal_matmul"])
def test_each_op_of_tridiagonal_matrices_says_itself_what_diagonals_it_needs(op: str, diagonals: Any) -> None:
    with pytest.raises(IAE, match=rf"^{op}: compact diagonals have shape \[..., 3, m\], not"):
        getattr(tf.linalg, op)(diagonals, [[1.0]])
    with pytest.raises(ValueError, match=f"^{op}: diagonals_format must be"):
        getattr(tf.linalg, op)(diagonals, [[1.0]], "other")


def test_bins_are_counted_by_an_int32() -> None:
    at = [-1.0, 0.0, 1.5, 15.0]
    for call in (tf.histogram_fixed_width_bins, tf.histogram_fixed_width):
        for n in (0, 2**31, 2**62):
            with pytest.raises(IAE, match="nbins should be a positive number"):
                call(at, [0.0, 5.0], nbins=n)
    most = 2**31 - 1
    assert tf.histogram_fixed_width_bins(at, [0.0, 5.0], nbins=most).numpy().tolist()[::3] == [0, most - 1]


def test_parameters_of_more_than_32_axes_are_drawn_from() -> None:
    shape, many = [1] * 32 + [3], np.ones((1,) * 33)
    one = tf.random.stateless_uniform(shape, [1, 2], (many * 3).astype(int), 10, tf.int32).numpy()
    assert one.ravel().tolist() == tf.random.stateless_uniform([3], [1, 2], [3], 10, tf.int32).numpy().tolist()
    rates = tf.random.stateless_poisson(shape, [1, 2], many).numpy()
    assert rates.ravel().tolist() == tf.random.stateless_poisson([3], [1, 2], [1.0]).numpy().tolist()
    counts = tf.random.stateless_binomial(shape, [1, 2], many * 9, many / 2).numpy()
    assert counts.ravel().tolist() == tf.random.stateless_binomial([3], [1, 2], [9.0], [0.5]).numpy().tolist()


@pytest.mark.parametrize(
    "call",
    [
        lambda: tf.verify.Options.from_text(2),  # type: ignore[arg-type]
        lambda: tf.verify.Options(budget=np.complex64(1j)),  # type: ignore[arg-type]
        lambda: tf.verify.Finding("correct").absorb(2),  # type: ignore[arg-type]
        lambda: tf.random.poisson([10], [1.0, 2.5], seed=np.complex64(1j)),
        lambda: tf.random.poisson([10], [1.0, 2.5], seed=np.ma.masked),
        lambda: tf.random.set_seed(np.complex64(1j)),
        lambda: tf.random.set_seed(np.ma.array(1.0, mask=True)),
        lambda: tf.random.experimental.stateless_split([1, 2], np.ma.masked),
        lambda: tf.linalg.band_part([[1.0, 2.0], [3.0, 4.0]], np.ma.masked, 0),
        lambda: tf.nn.dropout([1.0], np.complex64(0.5j)),
        lambda: tf.nn.leaky_relu([1.0], np.complex64(0.5j)),
        lambda: tf.symbolic.to_double_double(np.complex64(1j)),
        lambda: tf.verify.Finding("correct").fails(2),  # type: ignore[arg-type]
        lambda: tf.verify.Finding("correct").fails(strict=np.ones(2)),  # type: ignore[arg-type]
        lambda: tf.TensorArray(tf.float32, 2).read(np.ma.masked),
        lambda: np.add(tf.ones([2, 2]), 10**400, np.zeros(2, "i8")),
        lambda: tf.keras.Sequential([tf.keras.Input([4]), tf.keras.layers.Dense(3)]).summary(print_fn=np.poly1d([1.0])),
        lambda: tf.nest.assert_same_structure([1], [1], expand_composites=Long()),  # type: ignore[arg-type]
        lambda: tf.TensorArray(tf.float32, 2, dynamic_size=np.ones(2)),  # type: ignore[arg-type]
        lambda: tf.GradientTape(Long()),  # type: ignore[arg-type]
    ],
)
def test_what_a_search_found_is_a_clear_error(call: Callable[[], Any]) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        call()
    assert not isinstance(caught.value, np._core._exceptions.UFuncTypeError)


def test_shapes_of_more_than_32_axes_broadcast() -> None:
    y = tf.math.igamma(np.ones((1,) * 33), tf.constant([[1.0, 2.0], [3.0, 4.0]], tf.float64))
    assert y.shape.as_list() == [1] * 31 + [2, 2]


def test_an_unknown_name_of_an_argument_is_answered_with_the_known_ones() -> None:
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'tol'.*; .* may be named are f, order$"):
        tf.verify.check(tf.sin, 1.0, tol=1e-3)
