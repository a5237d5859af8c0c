"""Wrong arguments of what writes files, sums up, scales and searches: refused in words that name them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gtape as tf
import gtape.verify.search.census
from gtape.declare.primitives import REGISTRY
from gtape.symbolic.expressions import SymPyWorld
from gtape.verify.strategies import Call

keras = tf.keras
DAY = np.timedelta64(1, "D")


def deep(n: int = 10_000) -> Any:
    made: Any = ()
    for _ in range(n):
        made = (made,)
    return made


def model() -> Any:
    return keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])


def manager(**settings: Any) -> Any:
    return tf.train.CheckpointManager(tf.train.Checkpoint(v=tf.Variable(1.0)), "unused", **settings)


NO_PATHS = [None, 1, 2**70, 1.5, [], ["a"], {}, object(), np, int, np.zeros(2), tf.constant("a"), deep()]


@pytest.mark.parametrize("wrong", NO_PATHS, ids=lambda v: type(v).__name__)
@pytest.mark.parametrize(
    "call",
    [
        lambda p: tf.train.Checkpoint().write(p),
        lambda p: tf.train.Checkpoint().save(p),
        lambda p: tf.train.Checkpoint().read(p),
        tf.train.latest_checkpoint,
        tf.train.list_variables,
        lambda p: tf.train.load_variable(p, "v"),
        lambda p: model().save_weights(p),
        lambda p: model().load_weights(p),
        lambda p: tf.train.CheckpointManager(tf.train.Checkpoint(), p),
        lambda p: tf.train.CheckpointManager(tf.train.Checkpoint(), "unused", checkpoint_name=p),
        lambda p: tf.train.latest_checkpoint("unused", latest_filename=1 if p is None else p),
    ],
)
def test_what_is_no_path_is_a_type_error_that_says_so(call: Callable[[Any], Any], wrong: Any) -> None:
    if wrong is None:
        wrong = 0
    with pytest.raises(TypeError, match=r"a path must be a str, bytes or os\.PathLike object") as caught:
        call(wrong)
    assert len(str(caught.value)) < 500


def test_paths_of_each_kind_are_taken(tmp_path: Path) -> None:
    for i, path in enumerate([tmp_path / "a", str(tmp_path / "b"), bytes(tmp_path / "c")]):
        written = tf.train.Checkpoint(v=tf.Variable(float(i))).write(path)
        assert tf.train.load_variable(written, "v") == i


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "2", [], [1.0, 2.0], np.zeros((2, 2)), object(), float("inf"), 2**70])
def test_how_many_checkpoints_are_kept_is_a_positive_integer(wrong: Any) -> None:
    with pytest.raises(ValueError, match="positive integer or None for `max_to_keep`"):
        manager(max_to_keep=wrong)


@pytest.mark.parametrize("wrong", [1.5, "a", float("inf"), lambda: 1, np.zeros(2), 1j, 2**70])
def test_the_number_of_a_checkpoint_is_an_integer(wrong: Any, tmp_path: Path) -> None:
    made = tf.train.CheckpointManager(tf.train.Checkpoint(v=tf.Variable(1.0)), tmp_path)
    with pytest.raises(ValueError, match="checkpoint_number"):
        made.save(checkpoint_number=wrong)
    assert made.save(checkpoint_number=tf.constant(7)).endswith("ckpt-7")


def test_a_manager_takes_a_checkpoint_and_a_checkpoint_names() -> None:
    with pytest.raises(TypeError, match="`checkpoint` must be a Checkpoint"):
        tf.train.CheckpointManager(tf.constant(1.0), "unused")  # type: ignore[arg-type]


def test_the_name_of_a_value_in_a_checkpoint_is_a_string(tmp_path: Path) -> None:
    path = tf.train.Checkpoint(v=tf.Variable(1.0)).write(tmp_path / "a")
    with pytest.raises(TypeError, match="`name` must be a string"):
        tf.train.load_variable(path, np.zeros(2))  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [-1, 1.5, float("-inf"), 2**40, 2**63, object(), np.zeros(2), {}, "80"])
def test_a_summary_has_lines_of_a_whole_number_of_characters(wrong: Any) -> None:
    with pytest.raises(ValueError, match="line_length"):
        model().summary(line_length=wrong)


@pytest.mark.parametrize("wrong", [1.5, "print", tf.constant(1.0), []])
def test_a_summary_is_printed_by_a_function(wrong: Any) -> None:
    with pytest.raises(TypeError, match="print_fn"):
        model().summary(print_fn=wrong)


@pytest.mark.parametrize("factor", [4, 4.0])
@pytest.mark.parametrize(
    "wrong",
    [
        None, "a", b"a", [None], ["a"], {}, object(), ..., int, np.array(["a"]), np.zeros(2, "M8[s]"), tf.constant("a"),
        np.broadcast_to(np.float32(1.0), (2, 2**45)),
    ],
    ids=lambda v: type(v).__name__,
)  # fmt: skip
def test_a_loss_that_is_no_number_is_not_scaled(wrong: Any, factor: Any) -> None:
    with pytest.raises((ValueError, tf.errors.OpError)):
        keras.optimizers.SGD(loss_scale_factor=factor).scale_loss(wrong)


def test_numbers_arrays_and_lists_of_numbers_are_scaled() -> None:
    scale = keras.optimizers.SGD(loss_scale_factor=4.0).scale_loss
    assert scale(2.0) == 8.0 and scale(np.float32(2.0)) == 8.0 and scale(np.ones(2)).tolist() == [4.0, 4.0]
    assert scale([1.0, 2.0]).numpy().tolist() == [4.0, 8.0]
    with pytest.raises(tf.errors.OpError, match="scale_loss"):
        scale(10**400)


@pytest.mark.parametrize("value", [1j, np.array([1j, 2.0]), tf.constant(1j)], ids=["number", "array", "tensor"])
def test_complex_values_do_not_fill_a_weight_of_real_numbers(value: Any) -> None:
    with pytest.raises(ValueError, match="complex values"):
        keras.initializers.Constant(value)([2])
    assert keras.initializers.Constant(value)([2], "complex64").dtype == tf.complex64


@pytest.mark.parametrize("kind", ["uniform", "truncated_normal", "untruncated_normal"])
def test_a_weight_beyond_all_memory_is_resource_exhausted(kind: str) -> None:
    with pytest.raises(tf.errors.ResourceExhaustedError):
        keras.initializers.VarianceScaling(1.0, "fan_in", kind)([2**40, 2**40])


def test_a_step_by_hand_overflows_silently_as_one_of_apply() -> None:
    v = tf.Variable([1.0, 2.0])
    tf.keras.optimizers.SGD(1.0).update_step(tf.constant([1.0, -1.0]), v, 1e308)
    assert v.numpy().tolist() == [-np.inf, np.inf]
    tf.keras.optimizers.SGD(1.0).update_step(tf.constant([1e200, 0.0], tf.float64), v, 1.0)
    assert v.numpy().tolist() == [-np.inf, np.inf]


def test_numbers_beyond_a_dtype_become_infinite_silently() -> None:
    wide = tf.constant([1e300], tf.float64)
    for metric in (tf.keras.metrics.Mean(), tf.keras.metrics.Sum(), tf.keras.metrics.MeanMetricWrapper(lambda a, b: b)):
        arguments = [wide] if not isinstance(metric, tf.keras.metrics.MeanMetricWrapper) else [wide, wide]
        assert metric(*arguments).numpy() == np.inf
    assert tf.keras.metrics.RootMeanSquaredError()([0.0], tf.constant([1e150], tf.float64)).numpy() == np.inf
    assert tf.keras.metrics.TruePositives()([1.0], [1.0], wide).numpy() == np.inf
    assert tf.keras.metrics.binary_accuracy([[0.0]], [[0.9]], threshold=1e39).numpy().tolist() == [[1.0]]
    assert tf.one_hot([0], 1, wide[0], tf.zeros([], tf.float64), dtype=tf.float32).numpy().tolist() == [[np.inf]]
    assert tf.sequence_mask(tf.constant([np.nan, 2.0]), 3).numpy()[1].tolist() == [True, True, False]
    assert tf.random.poisson([], 1e6, dtype=tf.float16).numpy() == np.inf
    assert np.ldexp(tf.constant([1.0]), 2**31).numpy().tolist() == [np.inf]
    tf.debugging.assert_near(tf.constant([1.0]), [2.0], rtol=tf.constant(1e300, tf.float64))
    assert np.isfinite(tf.linalg.lstsq(tf.eye(2), tf.ones([2, 1]), l2_regularizer=1e70).numpy()).all()
    x = tf.Variable([1.0])
    with tf.GradientTape() as tape:
        y = 2.0 * x
    assert tape.gradient(y, x, 1e39).numpy().tolist() == [np.inf]
    _, numeric = tf.test.compute_gradient(lambda t: t * t, [tf.constant([1.0])], delta=5e-324)
    assert np.isnan(numeric[0]).all()


def test_infinite_weights_and_numbers_give_nan_silently() -> None:
    mean = keras.metrics.Mean()
    mean.update_state([0.0, 1.0], sample_weight=[float("inf"), 1.0])
    assert np.isnan(float(mean.result()))
    assert np.isnan(keras.utils.normalize(np.array([[np.inf, 1.0]]))[0, 0])


TWO = np.array([True, False])


@pytest.mark.parametrize(
    "call",
    [
        lambda: tf.nest.flatten({"a": 1}, expand_composites=TWO),
        lambda: tf.nest.pack_sequence_as({"a": 1}, [2], expand_composites=TWO),
        lambda: tf.nest.assert_same_structure([1], [2], expand_composites=TWO),
        lambda: tf.nest.assert_same_structure([1], [2], check_types=TWO),
        lambda: tf.nest.map_structure(abs, {"a": 1}, expand_composites=TWO),
        lambda: tf.transpose([[1j, 2j]], conjugate=TWO),
        lambda: tf.reduce_prod([1.0, 2.0], keepdims=TWO),
    ],
)
def test_an_array_of_several_is_neither_true_nor_false(call: Callable[[], Any]) -> None:
    with pytest.raises(TypeError, match="must be True or False"):
        call()


def test_tensors_are_compared_with_classes_by_an_error_that_names_them() -> None:
    for other in (tf.Variable, tf.Tensor):
        with pytest.raises((TypeError, ValueError), match=r"a tensor or a variable is needed|to a Tensor"):
            tf.constant([1.0]) == other  # noqa: B015


def test_a_time_is_no_dtype_and_no_whole_number() -> None:
    for call in (tf.as_dtype, tf.float32.is_compatible_with):
        with pytest.raises(TypeError, match="DType"):
            call(np.timedelta64(1, "s"))
    program = tf.symbolic.trace(lambda x: x * x, 2.0)
    with pytest.raises(ValueError, match="there are nodes"):
        program.ancestors([DAY])


def test_custom_gradients_are_of_functions() -> None:
    for wrong in (1, [], deep(), object()):
        with pytest.raises(TypeError, match="takes a function") as caught:
            tf.custom_gradient(wrong)
        assert len(str(caught.value)) < 500


def test_errors_that_show_what_is_nested_deeply_are_no_recursion_errors() -> None:
    for call in (
        lambda: tf.verify.prove(deep()),  # type: ignore[arg-type]
        lambda: tf.verify.prove("sin", seconds=deep()),
        lambda: SymPyWorld({tf.symbolic.trace: deep()}),  # type: ignore[dict-item]
    ):
        with pytest.raises((TypeError, ValueError)) as caught:
            call()
        assert len(str(caught.value)) < 500


def test_a_dtype_a_histogram_and_a_metric_refuse_or_take_what_is_unusual() -> None:
    with pytest.raises(TypeError, match="DType"):
        tf.DType("a", deep())
    with pytest.raises(tf.errors.InvalidArgumentError, match="real numbers"):
        tf.histogram_fixed_width(1j, [0.0, 5.0])
    homeless = lambda y, p: abs(y - p)
    homeless.__module__ = None  # type: ignore[assignment]
    assert float(keras.metrics.MeanMetricWrapper(homeless)([1.0], [3.0])) == 2.0


def test_a_census_takes_its_own_results_and_settings() -> None:
    census = gtape.verify.search.census
    for wrong in (-7, {}, tf.constant(1.0), np.zeros(2)):
        with pytest.raises(TypeError, match="rows_of takes the result of `search`"):
            census.rows_of(wrong)  # type: ignore[arg-type]
    for settings in ({"interrupts": tf.zeros([2])}, {"progress": np.zeros(2)}):
        with pytest.raises(TypeError, match=r"interrupts|progress"):
            census.search(["exp"], points=100, **settings)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="processes"):
        census.search(["exp"], points=100, processes=1.5)  # type: ignore[arg-type]


def test_drawn_calls_are_of_arrays() -> None:
    with pytest.raises(TypeError, match="arrays"):
        Call(REGISTRY["exp"], [1, 2], {})
