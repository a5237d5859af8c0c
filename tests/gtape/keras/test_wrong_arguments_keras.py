"""Wrong arguments: the error is TensorFlow's class, and says which argument of which class it was, and what it got."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.keras.layers.layer import _CALL

keras = tf.keras
layers = keras.layers
optimizers = keras.optimizers
Dataset = tf.data.Dataset
ROWS = np.ones((4, 3), np.float32)
IMAGES = np.ones((2, 5, 5, 3), np.float32)
LABELS = np.ones((4, 1), np.float32)


class Loud:
    """An object that no error's text can show."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


NO_NUMBERS = [None, "a", b"a", 1 + 2j, [1], {}, set(), object(), Loud(), int, len, np, slice(3), ROWS, tf.constant("a")]
NO_WHOLE_NUMBERS = [*NO_NUMBERS, 0.5, float("nan"), float("inf"), 2**70, -(2**70), tf.TensorShape([2, None])]


@pytest.fixture(autouse=True)
def tapes_still_work() -> Any:
    """After whatever failed, no tape and no layer's call is active, and the next gradient is right."""
    yield
    assert _CALL.get() is None
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    assert float(tape.gradient(y, x)) == 6.0


def refused(call: Callable[[], Any], *names: str, error: Any = ValueError) -> None:
    """The call raises this very class, with a text that holds the names."""
    with pytest.raises(error) as caught:
        call()
    allowed = error if isinstance(error, tuple) else (error,)
    assert type(caught.value) in (*allowed, tf.errors.OperandTypeError)
    for name in names:
        assert name in str(caught.value)


# ------------------------------------------------------------------------------------------------ at construction


@pytest.mark.parametrize("wrong", NO_WHOLE_NUMBERS, ids=lambda v: type(v).__name__)
@pytest.mark.parametrize(
    ("cls", "name", "rest"),
    [
        ("Dense", "units", {}),
        ("Embedding", "input_dim", {"output_dim": 2}),
        ("Embedding", "output_dim", {"input_dim": 2}),
        ("Conv1D", "filters", {"kernel_size": 2}),
        ("Conv2D", "filters", {"kernel_size": 2}),
        ("Conv2DTranspose", "filters", {"kernel_size": 2}),
        ("Conv2D", "groups", {"filters": 2, "kernel_size": 2}),
        ("DepthwiseConv2D", "depth_multiplier", {"kernel_size": 2}),
        ("SeparableConv2D", "depth_multiplier", {"filters": 2, "kernel_size": 2}),
        ("RepeatVector", "n", {}),
        ("Concatenate", "axis", {}),
        ("BatchNormalization", "axis", {}),
    ],
)
def test_whole_numbers_of_layers(cls: str, name: str, rest: dict[str, Any], wrong: Any) -> None:
    refused(lambda: getattr(layers, cls)(**{name: wrong}, **rest), cls, f"`{name}` must be")


@pytest.mark.parametrize(
    ("cls", "name", "rest"),
    [
        ("MaxPooling1D", "pool_size", {}),
        ("MaxPooling2D", "strides", {}),
        ("AveragePooling2D", "pool_size", {}),
        ("Conv1D", "kernel_size", {"filters": 2}),
        ("Conv2D", "strides", {"filters": 2, "kernel_size": 2}),
        ("Conv3D", "dilation_rate", {"filters": 2, "kernel_size": 2}),
        ("Conv2DTranspose", "output_padding", {"filters": 2, "kernel_size": 2, "strides": 3}),
        ("UpSampling2D", "size", {}),
        ("ZeroPadding2D", "padding", {}),
        ("Cropping2D", "cropping", {}),
    ],
)
@pytest.mark.parametrize("wrong", ["a", -7, 1.5, 2**70, (), (1, 2, 3, 4), (1, "a"), {}, object(), Loud(), ROWS, len])
def test_sizes_of_layers(cls: str, name: str, rest: dict[str, Any], wrong: Any) -> None:
    refused(lambda: getattr(layers, cls)(**{name: wrong}, **rest), cls, f"`{name}` argument must be")


CONVOLUTION = {"filters": 2, "kernel_size": 2}


@pytest.mark.parametrize(
    ("cls", "rest"),
    [
        ("Conv1D", CONVOLUTION), ("Conv2D", CONVOLUTION), ("Conv3D", CONVOLUTION), ("SeparableConv2D", CONVOLUTION),
        ("DepthwiseConv2D", {"kernel_size": 2}), ("Conv1DTranspose", CONVOLUTION), ("MaxPooling1D", {}),
        ("AveragePooling2D", {}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("wrong", [None, -7, "most", b"same", ["same"], {"same"}, object(), Loud(), ROWS, True])
def test_padding_and_the_format_of_data(cls: str, rest: dict[str, Any], wrong: Any) -> None:
    refused(lambda: getattr(layers, cls)(padding=wrong, **rest), cls, "`padding` argument must be one of", "'valid'")
    if wrong is not None:
        refused(lambda: getattr(layers, cls)(data_format=wrong, **rest), cls, "`data_format`", "'channels_last'")


@pytest.mark.parametrize("wrong", [-7, 0.5, 1j, b"relu", "nonsense", [1], {}, {"class_name": [1]}, object(), ROWS])
@pytest.mark.parametrize(
    ("find", "what"),
    [
        (lambda v: layers.Dense(1, activation=v), "activation function identifier"),
        (lambda v: layers.Activation(v), "activation function identifier"),
        (lambda v: layers.Conv2D(1, 2, activation=v), "activation function identifier"),
        (lambda v: layers.Dense(1, kernel_regularizer=v), "regularizer identifier"),
        (lambda v: layers.Dense(1, activity_regularizer=v), "regularizer identifier"),
        (lambda v: layers.Embedding(2, 3, "uniform", v), "regularizer identifier"),
        (lambda v: layers.Conv1D(1, 2, kernel_constraint=v), "constraint identifier"),
        (lambda v: layers.Conv1D(1, 2, bias_constraint=v), "constraint identifier"),
        (lambda v: keras.losses.get(v), "loss identifier"),
        (lambda v: keras.metrics.get(v), "metric identifier"),
        (lambda v: optimizers.get(v) if not isinstance(v, dict) else optimizers.get(str(v)), "optimizer identifier"),
    ],
)
def test_identifiers(find: Callable[[Any], Any], what: str, wrong: Any) -> None:
    refused(lambda: find(wrong), f"Could not interpret {what}")


@pytest.mark.parametrize("wrong", [-7, "nonsense", b"ones", [1], {}, {"class_name": "zeros", "config": {"x": 1}}, int])
@pytest.mark.parametrize("cls", [lambda i: layers.Dense(1, kernel_initializer=i), keras.initializers.get])
def test_initializers_are_looked_up_at_construction(cls: Any, wrong: Any) -> None:
    refused(lambda: cls(wrong), "Could not interpret initializer identifier")


def test_settings_that_a_class_does_not_take_are_told_with_the_class() -> None:
    refused(lambda: keras.regularizers.get({"class_name": "L2", "config": {"l9": 1}}), "l9")
    refused(lambda: keras.regularizers.get({"class_name": "L2", "config": {"l2": "x"}}), "L2", "`l2`")


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda v: layers.Dropout(v), "rate"),
        (lambda v: layers.GaussianDropout(v), "rate"),
        (lambda v: layers.GaussianNoise(v), "stddev"),
        (lambda v: layers.LeakyReLU(v), "negative_slope"),
        (lambda v: layers.ReLU(threshold=v), "threshold"),
        (lambda v: layers.ELU(v), "alpha"),
        (lambda v: layers.BatchNormalization(momentum=v), "momentum"),
        (lambda v: layers.LayerNormalization(epsilon=v), "epsilon"),
        (lambda v: optimizers.SGD(v), "learning_rate"),
        (lambda v: optimizers.SGD(momentum=v), "momentum"),
        (lambda v: optimizers.Adam(beta_1=v), "beta_1"),
        (lambda v: optimizers.Nadam(epsilon=v), "epsilon"),
        (lambda v: optimizers.RMSprop(rho=v), "rho"),
        (lambda v: optimizers.Adagrad(initial_accumulator_value=v), "initial_accumulator_value"),
        (lambda v: optimizers.Ftrl(learning_rate_power=v), "learning_rate_power"),
        (lambda v: optimizers.schedules.ExponentialDecay(v, 10, 0.5), "initial_learning_rate"),
        (lambda v: optimizers.schedules.PolynomialDecay(0.1, v), "decay_steps"),
        (lambda v: optimizers.schedules.CosineDecayRestarts(0.1, 10, v), "t_mul"),
        (lambda v: keras.initializers.RandomNormal(v), "mean"),
        (lambda v: keras.initializers.RandomNormal(0.0, v), "stddev"),
        (lambda v: keras.initializers.VarianceScaling(v), "scale"),
        (lambda v: keras.constraints.MaxNorm(v), "max_value"),
        (lambda v: keras.losses.Huber(v), "delta"),
        (lambda v: keras.losses.BinaryCrossentropy(label_smoothing=v), "label_smoothing"),
        (lambda v: keras.backend.set_epsilon(v), "value"),
    ],
)
@pytest.mark.parametrize(
    "wrong", [v for v in NO_NUMBERS if not callable(v) or v is int], ids=lambda v: type(v).__name__
)
def test_numbers(make: Callable[[Any], Any], name: str, wrong: Any) -> None:
    refused(lambda: make(wrong), f"`{name}`")


@pytest.mark.parametrize("name", ["clipnorm", "clipvalue", "global_clipnorm", "loss_scale_factor"])
@pytest.mark.parametrize("wrong", [0, -1.0, float("nan"), "a", 1j, [1.0], ROWS, object()])
@pytest.mark.parametrize("cls", ["SGD", "Adam", "Ftrl", "Adadelta"])
def test_limits_of_optimizers_are_positive_numbers(cls: str, name: str, wrong: Any) -> None:
    refused(lambda: getattr(optimizers, cls)(**{name: wrong}), cls, f"`{name}` must be positive")


@pytest.mark.parametrize(
    "make",
    [
        lambda v: layers.Dense(1, name=v),
        lambda v: keras.losses.Huber(name=v),
        lambda v: keras.metrics.Mean(name=v),
        lambda v: optimizers.SGD(name=v),
        lambda v: optimizers.schedules.ExponentialDecay(0.1, 10, 0.5, name=v),
    ],
)
@pytest.mark.parametrize("wrong", [3, b"a", ["a"], object(), ROWS, Loud()])
def test_names_are_strings(make: Callable[[Any], Any], wrong: Any) -> None:
    refused(lambda: make(wrong), "`name` must be a string")


@pytest.mark.parametrize("wrong", ["nonsense", 3, [1], object(), ROWS, {}, len, Loud()])
@pytest.mark.parametrize("cls", [lambda d: layers.Dense(1, dtype=d), lambda d: keras.losses.Huber(dtype=d)])
def test_types_of_elements(cls: Any, wrong: Any) -> None:
    refused(lambda: cls(wrong), "`dtype`", error=TypeError)


@pytest.mark.parametrize(
    "wrong", [5, "ab", (1, "a"), (1.5,), (-1,), {}, object(), [[1]], (2**70,), tf.TensorShape(None)]
)
@pytest.mark.parametrize(
    "make",
    [
        lambda v: keras.Input(batch_shape=v),
        lambda v: layers.InputLayer(batch_shape=v),
        lambda v: layers.Dense(1, batch_input_shape=v),
        lambda v: layers.Dense(1).compute_output_shape(v),
        lambda v: keras.Sequential([layers.Dense(1)]).build(v),
        lambda v: layers.Dropout(0.5, v),
        lambda v: layers.Dense(1).add_weight(v),
        lambda v: keras.metrics.Mean().add_weight(list(v) if isinstance(v, str) else v),
        lambda v: optimizers.SGD().add_variable(v),
        lambda v: keras.initializers.GlorotUniform()(v),
        lambda v: keras.initializers.Zeros()(v),
    ],
)
def test_shapes(make: Callable[[Any], Any], wrong: Any) -> None:
    refused(lambda: make(wrong), "must be a sequence of integers")


@pytest.mark.parametrize(
    "cls",
    [layers.Dense, optimizers.SGD, keras.losses.Huber, keras.initializers.Zeros, optimizers.schedules.CosineDecay,
     keras.metrics.MeanSquaredError],
)  # fmt: skip
@pytest.mark.parametrize("wrong", [None, 3, "a", [1], ROWS, {1: 2}, object()])
def test_configs_are_dicts(cls: Any, wrong: Any) -> None:
    refused(lambda: cls.from_config(wrong), cls.__name__, "`config` must be a dict", error=TypeError)


# ------------------------------------------------------------------------------------------------ calls of layers


def made_of(name: str) -> Any:
    """A layer of each kind."""
    rest: dict[str, Any] = {
        "Activation": {"activation": "relu"}, "Dense": {"units": 2}, "Embedding": {"input_dim": 5, "output_dim": 2},
        "Dropout": {"rate": 0.5}, "GaussianDropout": {"rate": 0.5}, "GaussianNoise": {"stddev": 0.5},
        "RepeatVector": {"n": 2}, "Reshape": {"target_shape": (3,)}, "Permute": {"dims": (1,)},
        "Rescaling": {"scale": 2.0}, "DepthwiseConv2D": {"kernel_size": 2},
    }  # fmt: skip
    options = rest.get(name, CONVOLUTION if "Conv" in name else {})
    return getattr(layers, name)(**options)


OF_ONE_TENSOR = [
    name
    for name in layers.__all__
    if name == getattr(layers, name).__name__
    and name[0].isupper()
    and name not in ("Identity", "Input", "InputLayer", "Lambda", "Layer")
]
MERGING = [name for name in OF_ONE_TENSOR if name.lower() in layers.__all__]
WITH_VARIABLES = [name for name in OF_ONE_TENSOR if "Conv" in name or name in ("Dense", "Embedding", "PReLU")]


@pytest.mark.parametrize("wrong", [None, object(), [object()], [[1.0], [1.0, 2.0]], len, np, slice(1), {1, 2}])
@pytest.mark.parametrize("name", OF_ONE_TENSOR)
def test_a_layer_called_on_no_tensor_says_so(name: str, wrong: Any) -> None:
    if name in MERGING and isinstance(wrong, list):
        wrong = [wrong, ["a"]]
    refused(lambda: made_of(name)(wrong))
    refused(lambda: made_of(name).call(wrong))


@pytest.mark.parametrize("name", [*WITH_VARIABLES, "BatchNormalization", "LayerNormalization"])
def test_call_before_build_says_what_to_do(name: str) -> None:
    refused(lambda: made_of(name).call(IMAGES), name, "is not built", "build(input_shape)")


@pytest.mark.parametrize("name", [*WITH_VARIABLES, "BatchNormalization", "LayerNormalization"])
def test_a_layer_is_built_once(name: str) -> None:
    layer = made_of(name)
    shape = {"Conv1D": (2, 5, 3), "Conv1DTranspose": (2, 5, 3), "Conv3D": (2, 5, 5, 5, 3)}.get(name, (2, 5, 5, 3))
    layer.build(shape)
    before = len(layer.variables)
    refused(lambda: layer.build((*shape[:-1], 7)))
    refused(lambda: layer.build(shape), name, "is built already")
    assert len(layer.variables) == before


@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        ("Dense", (), "expected min_ndim=1, found ndim=0"),
        ("Conv1D", (2, 5, 5, 3), "expected ndim=3, found ndim=4"),
        ("Conv2D", (4, 3), "expected ndim=4, found ndim=2"),
        ("Conv3D", (2, 5, 5, 3), "expected ndim=5, found ndim=4"),
        ("SeparableConv2D", (4, 3), "expected ndim=4, found ndim=2"),
        ("MaxPool1D", (4, 3), "expected ndim=3, found ndim=2"),
        ("AveragePooling2D", (4, 3), "expected ndim=4, found ndim=2"),
        ("GlobalMaxPooling1D", (4, 3), "expected ndim=3, found ndim=2"),
        ("UpSampling2D", (4, 3), "expected ndim=4, found ndim=2"),
        ("ZeroPadding2D", (4, 3), "expected ndim=4, found ndim=2"),
        ("Cropping2D", (4, 3), "expected ndim=4, found ndim=2"),
        ("RepeatVector", (2, 5, 3), "expected ndim=2, found ndim=3"),
        ("Permute", (2, 5, 3), "expected ndim=2, found ndim=3"),
        ("PReLU", (), "expected min_ndim=1, found ndim=0"),
        ("BatchNormalization", (), "expected min_ndim=1, found ndim=0"),
    ],
)
def test_a_layer_says_how_many_axes_it_takes(name: str, shape: tuple[int, ...], expected: str) -> None:
    refused(lambda: made_of(name)(np.ones(shape, np.float32)), "is incompatible with the layer", expected)


@pytest.mark.parametrize("name", ["Dense", "Conv2D", "BatchNormalization", "LayerNormalization", "PReLU"])
def test_a_layer_says_which_axis_is_of_another_size_than_at_first(name: str) -> None:
    layer = made_of(name)
    layer(IMAGES)
    refused(lambda: layer(IMAGES[..., :2]), "expected axis", "of input shape to have value 3")


@pytest.mark.parametrize(
    "wrong", [tf.TensorShape([2, None]), tf.TensorShape([]), tf.TensorShape(None), (), [], 3.0, {}]
)
@pytest.mark.parametrize("name", ["add", "average", "concatenate", "maximum", "minimum", "multiply", "subtract"])
def test_merging_layers_take_lists_of_tensors(name: str, wrong: Any) -> None:
    refused(lambda: getattr(layers, name)(wrong), "should be called on a list of at least 1 input")


@pytest.mark.parametrize("wrong", [3, "ab", ROWS, [1], [object()], [ROWS], None, [["a"]]])
def test_weights_are_checked_before_any_is_set(wrong: Any) -> None:
    layer = layers.Dense(2)
    layer(ROWS)
    before = layer.get_weights()
    refused(lambda: layer.set_weights(wrong), error=(ValueError, TypeError))
    assert all((a == b).all() for a, b in zip(before, layer.get_weights(), strict=True))


def test_weights_that_no_memory_holds_are_an_exhausted_resource() -> None:
    with pytest.raises(tf.errors.ResourceExhaustedError, match="no memory for a weight"):
        layers.Dense(2**60)(ROWS)


def test_initializers_that_return_something_else_are_told() -> None:
    refused(lambda: layers.Dense(2, kernel_initializer=lambda s, dtype=None: "a")(ROWS), error=(ValueError, TypeError))
    refused(lambda: layers.Dense(2, kernel_initializer=lambda s, dtype=None: None)(ROWS), "the initializer returned")
    wide = layers.Dense(2, kernel_initializer=lambda s, dtype=None: tf.zeros([7]))
    refused(lambda: wide(ROWS), "Dense", "the initializer returned values of shape (7,)")


# ------------------------------------------------------------------------------------------------ optimizers


@pytest.mark.parametrize("wrong", [3, None, "sgd", keras.losses.Huber(), optimizers.SGD, {}, ROWS, Loud()])
def test_only_optimizers_are_serialized(wrong: Any) -> None:
    refused(lambda: optimizers.serialize(wrong), "takes an Optimizer", error=TypeError)
    refused(lambda: optimizers.schedules.serialize(wrong), "takes a LearningRateSchedule", error=TypeError)


@pytest.mark.parametrize("wrong", [3, None, "sgd", [], {}, {"class_name": 3}, {"class_name": "SGD", "config": 3}, ROWS])
@pytest.mark.parametrize("read", [optimizers.deserialize, optimizers.schedules.deserialize])
def test_only_descriptions_are_deserialized(read: Callable[[Any], Any], wrong: Any) -> None:
    refused(lambda: read(wrong), "config", error=TypeError)


@pytest.mark.parametrize("wrong", [3, ROWS[0], "w", tf.constant(1.0), object(), float, optimizers.SGD(), len])
@pytest.mark.parametrize(
    "use",
    [
        lambda o, v: o.apply_gradients([(tf.constant(1.0), v)]),
        lambda o, v: o.apply([1.0], [v]),
        lambda o, v: o.build([v]),
        lambda o, v: o.minimize(tf.constant(1.0), [v], tape=tf.GradientTape()),
        lambda o, v: o.assign(v, 1.0),
        lambda o, v: o.assign_add(v, 1.0),
        lambda o, v: o.assign_sub(v, 1.0),
        lambda o, v: o.update_step(1.0, v, 0.1),
        lambda o, v: o.add_variable_from_reference(v, "slot"),
        lambda o, v: o.add_optimizer_variables([v], "slot"),
        lambda o, v: o.exclude_from_weight_decay([v]),
    ],
)
def test_optimizers_take_variables(use: Callable[[Any, Any], Any], wrong: Any) -> None:
    refused(lambda: use(optimizers.Adam(), wrong), "an optimizer updates variables", error=TypeError)


@pytest.mark.parametrize(
    "wrong", ["a", object(), [[1.0], [1.0, 2.0]], 1j, np.array(["a", "b"]), np.array([None, None])]
)
def test_gradients_are_numbers_of_the_variables_shape(wrong: Any) -> None:
    v = tf.Variable([1.0, 2.0])
    refused(lambda: optimizers.SGD().apply([wrong], [v]), error=(ValueError, tf.errors.InvalidArgumentError))
    assert v.numpy().tolist() == [1.0, 2.0]


@pytest.mark.parametrize("row", [5, -1])
def test_rows_of_a_gradient_lie_in_the_variable(row: int) -> None:
    v = tf.Variable(ROWS)
    slices = tf.IndexedSlices(tf.ones([1, 3]), tf.constant([row]), [4, 3])
    refused(lambda: optimizers.SGD().apply([slices], [v]), "has rows at", error=tf.errors.InvalidArgumentError)
    assert (v.numpy() == ROWS).all()


@pytest.mark.parametrize("wrong", [3, "a", None, [1.0], {}, {"0": 1}, ROWS])
def test_stores_of_optimizers(wrong: Any) -> None:
    refused(lambda: optimizers.SGD().load_own_variables(wrong), "`store` must hold 2 values")


def test_schedules_overflow_as_numbers_do() -> None:
    schedules = optimizers.schedules
    assert float(schedules.ExponentialDecay(1.0, 1, 1e300)(9)) == np.inf
    assert np.isnan(float(schedules.ExponentialDecay(1.0, 2, -1.0)(1)))
    assert float(schedules.InverseTimeDecay(1.0, 1, -1.0)(1)) == np.inf
    shrinking = schedules.CosineDecayRestarts(1.0, 10, t_mul=0.5)
    assert [float(shrinking(step)) for step in (0, 10, 15)] == [1.0, 1.0, 1.0]
    assert np.isnan(float(shrinking(20)))  # the runs come to an end, as in Keras
    slow = schedules.CosineDecayRestarts(1.0, 1, t_mul=1.0 + 1e-9)
    assert 0.0 <= float(slow(10**9)) <= 1.0


# ------------------------------------------------------------------------------------------------ losses and metrics


@pytest.mark.parametrize("wrong", [None, 3, b"sum", "total", ["sum"], {}, ROWS, object()])
def test_reductions(wrong: Any) -> None:
    if wrong is not None:
        refused(lambda: keras.losses.MeanSquaredError(reduction=wrong), "argument `reduction`")


METRICS = ["Accuracy", "BinaryAccuracy", "CategoricalAccuracy", "SparseCategoricalAccuracy", "TopKCategoricalAccuracy"]
METRICS += ["Precision", "TruePositives", "MeanSquaredError", "RootMeanSquaredError", "BinaryCrossentropy"]


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize(
    ("y_true", "y_pred"),
    [
        ("a", "b"), (None, ROWS), (ROWS, None), (ROWS, IMAGES), (object(), ROWS), (ROWS, np.array(["a"])), (ROWS, len),
        (1.0, ROWS), (ROWS[:, :2], ROWS[:0]),
    ],
)  # fmt: skip
def test_metrics_take_numbers_of_one_shape(name: str, y_true: Any, y_pred: Any) -> None:
    metric = getattr(keras.metrics, name)()
    try:
        metric(y_true, y_pred)
    except (ValueError, tf.errors.InvalidArgumentError) as e:
        assert type(e) in (ValueError, tf.errors.InvalidArgumentError, tf.errors.OperandTypeError)
    else:  # what broadcasts has a figure
        assert np.shape(y_true) == () or np.shape(y_true) == np.shape(y_pred)[:1]
    metric.reset_state()
    assert float(metric([[1.0, 0.0]] if name != "SparseCategoricalAccuracy" else [0], [[1.0, 0.0]])) >= 0.0


@pytest.mark.parametrize("name", [n for n in METRICS if n != "TruePositives"])
def test_weights_of_samples_fit_the_values(name: str) -> None:
    labels = ROWS[:, :1] * 0 if name.startswith("Sparse") else ROWS
    refused(lambda: getattr(keras.metrics, name)()(labels, ROWS, np.ones(9)), "`sample_weight` of shape (9,")


@pytest.mark.parametrize("wrong", [-0.5, 1.5, "a", [2.0], [[0.5]], [], object(), 1j, {}])
def test_thresholds(wrong: Any) -> None:
    refused(lambda: keras.metrics.Precision(wrong), "Precision", "hreshold")


def test_a_label_that_is_no_class_is_among_no_scores() -> None:
    found = keras.metrics.sparse_top_k_categorical_accuracy([1, 7, -1], np.ones((3, 2)), k=2)
    assert found.numpy().tolist() == [1.0, 0.0, 0.0]


# ------------------------------------------------------------------------------------------------ models


def compiled() -> Any:
    model = keras.Sequential([layers.Dense(1)])
    model.compile("sgd", "mse")
    return model


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("batch_size", 0), ("batch_size", "a"), ("batch_size", 1.5), ("epochs", None), ("epochs", -1),
        ("epochs", 2**70), ("initial_epoch", "a"), ("steps_per_epoch", 0), ("steps_per_epoch", "a"),
        ("validation_split", 1.0), ("validation_split", "a"), ("validation_freq", 0), ("validation_steps", -1),
        ("verbose", "loud"), ("verbose", object()), ("validation_data", 3), ("class_weight", 3),
        ("class_weight", {"a": "b"}), ("shuffle", ROWS),
    ],
)  # fmt: skip
def test_settings_of_fit(name: str, wrong: Any) -> None:
    options = {"verbose": 0, name: wrong}
    refused(lambda: compiled().fit(ROWS, LABELS, **options), f"`{name}`", error=(ValueError, TypeError))


@pytest.mark.parametrize(
    "method", ["fit", "evaluate", "predict", "train_on_batch", "test_on_batch", "predict_on_batch"]
)
@pytest.mark.parametrize("wrong", [None, 3.0, {}, [[1.0], [1.0, 2.0]], object(), len, "a"])
def test_data_of_a_model(method: str, wrong: Any) -> None:
    refused(lambda: getattr(compiled(), method)(wrong), error=(ValueError, TypeError))


@pytest.mark.parametrize("method", ["fit", "evaluate", "train_on_batch", "test_on_batch"])
def test_fit_before_compile(method: str) -> None:
    refused(lambda: getattr(keras.Sequential([layers.Dense(1)]), method)(ROWS, LABELS), "You must call `compile()`")
    refused(lambda: keras.Sequential([layers.Dense(1)]).train_step((ROWS, LABELS)), "You must call `compile()`")


@pytest.mark.parametrize("wrong", [3, ["a"], [keras.callbacks.History], [len], "ab"])
def test_callbacks(wrong: Any) -> None:
    refused(lambda: compiled().fit(ROWS, LABELS, verbose=0, callbacks=wrong), "`callbacks`", error=TypeError)
    refused(lambda: keras.callbacks.LambdaCallback(on_epoch_end=3), "`on_epoch_end` must be callable", error=TypeError)


@pytest.mark.parametrize("wrong", [3, "a", [3], [len], [layers.Dense], ROWS, {}])
def test_models_are_made_of_layers(wrong: Any) -> None:
    refused(lambda: keras.Sequential(wrong), error=(ValueError, TypeError))
    refused(lambda: keras.Model(wrong, wrong), "come from gtape.keras.Input")
    refused(lambda: keras.models.clone_model(wrong), "Expected `model` argument to be a `Model`")


def test_what_is_not_in_a_model() -> None:
    model = keras.Sequential()
    refused(model.pop, "no layers")
    refused(lambda: model.get_layer(index="a"), "`index` must be an integer")
    x = keras.Input((3,), name="one")
    named = keras.Model(x, layers.Dense(1)(x))
    refused(lambda: named({"two": ROWS}), "inputs of the names ['one']")


@pytest.mark.parametrize("wrong", [3, "a", b"", {}, object()])
def test_losses_of_models(wrong: Any) -> None:
    if wrong != {}:
        refused(lambda: compiled().compile("sgd", wrong), "loss identifier")
    refused(lambda: compiled().compile("sgd", "mse", metrics=[wrong]) if wrong != {} else compiled().compile({}),
            error=(ValueError, TypeError))  # fmt: skip


# ------------------------------------------------------------------------------------------------ datasets


@pytest.mark.parametrize("wrong", [v for v in NO_WHOLE_NUMBERS if v is not None], ids=lambda v: type(v).__name__)
@pytest.mark.parametrize(
    ("method", "name"),
    [("batch", "batch_size"), ("shuffle", "buffer_size"), ("repeat", "count"), ("take", "count"), ("skip", "count"),
     ("enumerate", "start")],
)  # fmt: skip
def test_counts_of_datasets(method: str, name: str, wrong: Any) -> None:
    refused(lambda: getattr(Dataset.range(3), method)(wrong), method, f"`{name}` must be")


@pytest.mark.parametrize("wrong", [None, 3, "a", [len], ROWS, object()])
def test_functions_of_datasets(wrong: Any) -> None:
    numbers = Dataset.range(3)
    refused(lambda: numbers.map(wrong), "`map_func` must be callable", error=TypeError)
    refused(lambda: numbers.filter(wrong), "`predicate` must be callable", error=TypeError)
    refused(lambda: numbers.reduce(0, wrong), "`reduce_func` must be callable", error=TypeError)
    refused(lambda: Dataset.from_generator(wrong), "`generator` must be callable", error=TypeError)
    refused(lambda: list(Dataset.from_generator(lambda: 3)), "`generator` must return", error=TypeError)
    refused(lambda: numbers.concatenate(wrong), "takes datasets", error=TypeError)
    refused(lambda: Dataset.zip(wrong), "takes datasets", error=TypeError)


@pytest.mark.parametrize(
    "wrong", [(), (1, 2, 3, 4), ("a",), (1.5,), (None,), (0, 3, 0), (2**70,), (-(2**63) + 1, 2**63 - 1)]
)
def test_ranges(wrong: tuple[Any, ...]) -> None:
    refused(lambda: Dataset.range(*wrong), "Dataset.range")


def test_elements_that_hold_themselves() -> None:
    loop: dict[str, Any] = {}
    loop["loop"] = loop
    refused(lambda: Dataset.from_tensors(loop), "holds itself")


# ------------------------------------------------------------------------------------------------ checks of derivatives


@pytest.mark.parametrize("wrong", [0.5, "a", [len], {"a": 1}, ROWS, object(), np])
def test_reports_are_made_of_findings(wrong: Any) -> None:
    refused(lambda: tf.verify.Report(wrong), "`findings` must be a list", error=TypeError)
    refused(lambda: tf.verify.Report().extend(wrong), "takes a Report", error=TypeError)
    refused(lambda: tf.verify.Finding(wrong), "`verdict` must be one of")


@pytest.mark.parametrize("wrong", ["a", [len], object(), np, Loud()])
def test_what_the_symbolic_part_is_given(wrong: Any) -> None:
    symbolic = tf.symbolic
    program = symbolic.trace(tf.sin, 0.5)
    refused(lambda: symbolic.trace(wrong), "`f` must be callable", error=TypeError)
    refused(lambda: symbolic.SymPyWorld(wrong), "`samples` must be a dict", error=TypeError)
    refused(lambda: symbolic.JetWorld(wrong), "JetWorld", "`k`")
    refused(lambda: symbolic.digits(wrong), "digits takes a ball or a number", error=TypeError)
    refused(lambda: symbolic.digits(0.5, wrong), "digits", "`n`")
    refused(lambda: symbolic.to_float(wrong), "arrays of balls or numbers", error=TypeError)
    refused(lambda: program.evaluate(wrong), "`world` must be one of gtape.symbolic", error=TypeError)
    refused(lambda: program.evaluate(symbolic.BallWorld(), wrong), "`values` must be a dict", error=TypeError)
    refused(lambda: program.ancestors(wrong), "Program", error=(TypeError, ValueError))
    refused(lambda: program.blocked(wrong), "takes the session of a tape", error=TypeError)


@pytest.mark.parametrize("wrong", ["nonsense", 1.5, [len], object(), np, Loud()])
def test_what_the_census_and_the_strategies_are_given(wrong: Any) -> None:
    strategies, census = tf.verify.strategies, tf.verify.census
    refused(lambda: strategies.shapes(max_dims=wrong), "`max_dims`")
    refused(lambda: strategies.floats_for(wrong), "interval must be")
    refused(lambda: strategies.arguments(wrong), "primitive" if isinstance(wrong, str) else "Primitive")
    refused(lambda: strategies.op_calls(["sin"], wrong), "dtype must be one of")
    refused(lambda: census.census(["sin"], points=wrong), "`points`")
    refused(lambda: census.census(["sin"], orders=wrong), "orders", error=(TypeError, ValueError))
    refused(lambda: census.census(["sin"], dtypes=wrong), "dtypes", error=(TypeError, ValueError))
    refused(lambda: census.survey(wrong), "`subject` must be", error=TypeError)


@pytest.mark.parametrize("bits", [1, "a", None, 1.5, 2**70, ROWS])
def test_bits_of_precision(bits: Any) -> None:
    def use() -> None:
        with tf.symbolic.precision(bits):
            pass

    refused(use, "precision")


@pytest.mark.parametrize("name", ["Add", "Average", "Concatenate", "Maximum", "Minimum", "Multiply", "Subtract"])
@pytest.mark.parametrize(
    "x", [tf.ones((2, 3)), np.ones((2, 3), np.float32), tf.Variable([1.0, 2.0]), tf.keras.Input((3,)), []]
)
def test_a_layer_of_several_tensors_refuses_one(name: str, x: Any) -> None:
    refused(lambda: getattr(layers, name)()(x), "should be called on a list of at least 1 input")
    refused(lambda: getattr(layers, name.lower())(x), "should be called on a list of at least 1 input")


@pytest.mark.parametrize("axis", ["a", 1.5, None, [], [0.5], ["a"]])
def test_the_axes_of_softmax_are_whole_numbers(axis: Any) -> None:
    refused(lambda: layers.Softmax(axis=axis), "Softmax", "`axis` must be")


_NO_PLACE = "Computed output size would be zero or negative"


@pytest.mark.parametrize("name", ["Conv1D", "Conv2D", "Conv3D", "DepthwiseConv2D", "SeparableConv2D"])
@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
@pytest.mark.parametrize(
    ("size", "kernel", "sizes"),
    [
        (3, 5, {}), (3, 4, {}), (3, 4, {"strides": 2}), (3, 2, {"dilation_rate": 3}), (1, 2, {}), (0, 1, {}),
    ],
)  # fmt: skip
def test_a_convolution_refuses_an_input_without_a_place(
    name: str, data_format: str, size: int, kernel: int, sizes: dict[str, int]
) -> None:
    rank = {"Conv1D": 1, "Conv3D": 3}.get(name, 2)
    filters = () if name == "DepthwiseConv2D" else (2,)

    def make(padding: str) -> Any:
        return getattr(layers, name)(*filters, kernel, padding=padding, data_format=data_format, **sizes)

    def shape(n: int) -> tuple[int, ...]:
        space = (n,) * rank
        return (2, *space, 3) if data_format == "channels_last" else (2, 3, *space)

    refused(lambda: make("valid")(tf.zeros(shape(size))), name, _NO_PLACE)
    refused(lambda: make("valid")(tf.keras.Input(shape(size)[1:])), name, _NO_PLACE)
    later = make("valid")
    later(tf.zeros(shape(9)))
    refused(lambda: later(tf.zeros(shape(size))), name, _NO_PLACE)
    span = (kernel - 1) * sizes.get("dilation_rate", 1) + 1
    assert math.prod(make("valid")(tf.zeros(shape(span))).shape) == 2 * sum(filters or (3,))
    if size:
        make("same")(tf.zeros(shape(size)))


def test_a_causal_convolution_needs_one_place_only() -> None:
    assert layers.Conv1D(2, 5, padding="causal")(tf.zeros((1, 1, 3))).shape == (1, 1, 2)
    refused(lambda: layers.Conv1D(2, 5, padding="causal")(tf.zeros((1, 0, 3))), _NO_PLACE)


def test_a_convolution_of_an_input_with_open_sizes_is_checked_when_it_runs() -> None:
    x = tf.keras.Input((None, None, 3))
    model = tf.keras.Model(x, layers.Conv2D(2, 2)(x))
    assert model(tf.zeros((1, 4, 4, 3))).shape == (1, 3, 3, 2)
    refused(lambda: model(tf.zeros((1, 1, 4, 3))), _NO_PLACE)
