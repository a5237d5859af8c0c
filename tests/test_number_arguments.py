"""A Python number beside float64 tensors keeps its digits: it is not rounded to float32 on its way into a result.

The arguments are found by trial: every parameter of every public function and class that takes a Python float and
makes a difference to a float64 or complex128 result. Whether digits are lost shows without any reference: near a
float32 `a`, results follow the tangent through `a` and another float32; a number that was rounded gives the result of
`a` itself.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import re
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gtape as tf

# 1.1 and the like, for parameters of several ranges: no number of float32, and float32s below them.
VALUES = (0.1, 1.1, 2.3)
STEP = 2.0**-15

X = np.array([[0.3137, -0.2271, 0.7351], [0.5413, 0.6529, -0.8117]])
T = tf.constant(X)
POSITIVE = tf.constant(np.abs(X))
SQUARE = tf.constant(np.array([[2.5, 0.3], [0.3, 1.7]]))
VECTOR = tf.constant(np.array([0.2, 0.5, 0.3]))
IMAGE = tf.constant(np.linspace(0.05, 0.95, 48).reshape(1, 4, 4, 3))
SEQUENCE = tf.constant(np.linspace(0.05, 0.95, 12).reshape(1, 4, 3))
VOLUME = tf.constant(np.linspace(0.05, 0.95, 192).reshape(1, 4, 4, 4, 3))
FILTERS = tf.constant(np.linspace(-0.4, 0.6, 24).reshape(2, 2, 3, 2))
SCORES = 0.2 + 0.5 * POSITIVE
# What required parameters are tried with; the first that a function takes together are kept.
ARGUMENTS: list[Any] = [
    T, POSITIVE, 0.7, VECTOR, SQUARE, IMAGE, [1, 1], 1, (2, 3), tf.constant([1, 0]), tf.constant([True, False, True]),
    [T, T], "VALID", FILTERS, tf.constant([[0], [1]]), tf.float64, [[1, 0], [0, 1]], lambda x: x * x,
]  # fmt: skip
# By name, for parameters of a form of their own.
NAMED: dict[str, list[Any]] = {
    "dtype": [tf.float64], "paddings": [[[1, 0], [0, 2]]], "seed": [[1, 2], 3], "shape": [[2, 3], [3]],
    "axis": [0, -1], "depth": [3], "units": [2], "filters": [2, FILTERS], "kernel_size": [2], "pool_size": [2],
    "strides": [1, [1, 1, 1, 1]], "padding": ["VALID", "valid"], "condition": [tf.constant(X > 0.3), True],
    "indices": [[1, 0], [[0, 1], [1, 2]]], "num_segments": [2], "segment_ids": [[0, 1]], "ksize": [2], "num": [3],
    "k": [1], "num_classes": [3], "dims": [[2, 3]], "boundaries": [[2, 4]], "values": [[0.5, 0.25, 0.125], [T, T]],
    "decay_steps": [10], "first_decay_steps": [10], "mean": [VECTOR], "variance": [VECTOR], "offset": [VECTOR],
    "scale": [VECTOR], "labels": [POSITIVE, T, [1, 0], tf.constant([1.0, 0.0], tf.float64)], "output_shape": [[2, 3]],
    "sparse_values": [VECTOR], "sparse_indices": [[0, 1, 2]], "multiples": [[1, 2]], "logits": [T],
    "input": [T, IMAGE, SQUARE], "x": [T, POSITIVE, IMAGE, SQUARE], "image": [IMAGE], "images": [IMAGE],
    "size": [[3, 3], 2], "learning_rate": [0.1], "initial_learning_rate": [0.1], "p": [2],
    "diagonal": [VECTOR, SQUARE[0]], "diagonals": [tf.constant([[0.3, 0.0], [2.0, 3.0], [0.0, 0.7]], tf.float64)],
    "rhs": [tf.constant([0.5, 0.7], tf.float64)], "rate": [0.4], "stddev": [0.7], "img1": [IMAGE],
    "img2": [IMAGE * 0.9], "max_val": [1.0], "bins": [3], "clip_value_min": [-0.05], "clip_value_max": [0.05],
    "y_true": [POSITIVE, tf.constant([1, 0])], "y_pred": [SCORES], "alpha": [0.7], "q": [T + 2.0], "window": [2],
    "function": [tf.square], "branch": [0], "inputs": [[T, T], T], "target_shape": [[3]], "l1": [0.1], "l2": [0.1],
    "repeats": [2], "shift": [1],
}  # fmt: skip


def _modules() -> Iterator[tuple[str, Any]]:
    todo, seen = [("tf", tf)], set()
    while todo:
        path, module = todo.pop(0)
        if id(module) in seen or path.startswith(("tf.verify", "tf.symbolic")):
            continue
        seen.add(id(module))
        yield path, module
        for name in dir(module):
            value = getattr(module, name)
            if isinstance(value, types.ModuleType):
                todo.append((f"{path}.{name}", value))


def _public() -> dict[str, Any]:
    found: dict[int, tuple[str, Any]] = {}
    for path, module in _modules():
        for name in dir(module):
            value = getattr(module, name)
            if callable(value) and not isinstance(value, types.ModuleType):
                found.setdefault(id(value), (f"{path}.{name}", value))
    return dict(found.values())


def _arrays(made: Any) -> Iterator[np.ndarray]:
    if isinstance(made, (tuple, list)):
        for part in made:
            yield from _arrays(part)
    elif isinstance(made, dict):
        for part in made.values():
            yield from _arrays(part)
    elif isinstance(made, (tf.Tensor, tf.Variable, np.ndarray, np.generic)):
        yield np.asarray(made)
    elif isinstance(made, tf.IndexedSlices):
        yield np.asarray(made.values)


def _result(made: Any) -> np.ndarray | None:
    """All float64 numbers of what was returned, in one vector; None where there are none."""
    parts = [a for a in _arrays(made) if a.dtype in (np.float64, np.complex128)]
    flat = [np.atleast_1d(a).ravel().astype(np.complex128) for a in parts]
    return np.concatenate(flat) if flat and sum(map(len, flat)) else None


def _steps(optimizer: Any) -> Any:
    v = tf.Variable(X)
    for i in range(3):
        optimizer.apply_gradients([(tf.constant(X * X + 0.1 * i - 0.3), v)])
    return v


def _first(f: Any, *inputs: Any) -> Any:
    """What `f` makes of the first input that it takes."""
    for x in inputs[:-1]:
        with contextlib.suppress(Exception):
            return f(x)
    return f(inputs[-1])


def _layer(layer: Any) -> Any:
    return _first(lambda x: layer(x, training=True), IMAGE, SQUARE, VOLUME, SEQUENCE, tf.constant([0, 1]), [T, T])


# How an instance of a class of these namespaces is put to use.
USES: list[tuple[str, Callable[[Any], Any]]] = [
    ("schedules", lambda schedule: _scheduled(schedule)),
    ("optimizers", _steps),
    ("layers", _layer),
    ("losses", lambda loss: _first(lambda y: loss(y, SCORES), POSITIVE, tf.constant([1, 0]))),
    ("metrics", lambda metric: metric(POSITIVE, SCORES)),
    ("initializers", lambda init: init((3, 2), dtype=tf.float64)),
    ("keras", lambda f: _first(f, T, SQUARE)),
    ("regularizers", lambda f: _first(f, T, SQUARE)),
    ("constraints", lambda f: _first(f, T, SQUARE)),
]


def _used(name: str, f: Any) -> Callable[..., Any] | None:
    """A call whose result shows what arguments do: that of a function, or the use of an instance of a class."""
    if not inspect.isclass(f):
        return f  # type: ignore[no-any-return]
    for prefix, use in USES:
        if f".{prefix}." in name:

            def call(use: Callable[[Any], Any] = use, **args: Any) -> Any:
                try:
                    made = f(**args, dtype="float64")
                except (TypeError, ValueError):
                    made = f(**args)
                return use(made)

            return call
    return None


def _run(call: Callable[..., Any], args: dict[str, Any]) -> np.ndarray | None:
    tf.keras.utils.set_random_seed(3)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return _result(call(**args))
        except Exception:
            return None


# Not called: what sets the state of the process, or runs for the sake of its side effects.
STATEFUL = re.compile(
    r"\.(set_|enable_|disable_|config\.|clear_session|init_scope|test\.|train\.|Checkpoint|verifying)"
)
# Optional arguments without which a function does something else.
COMPLETE: dict[str, dict[str, Any]] = {
    "tf.where": {"condition": tf.constant(X > 0.3), "x": T, "y": T},
    "tf.nn.sigmoid_cross_entropy_with_logits": {"labels": POSITIVE, "logits": T},
    "tf.range": {"start": tf.constant(0.5, tf.float64), "limit": 3.0, "delta": 0.7},
    "tf.clip_by_value": {"t": T, "clip_value_min": -2.5, "clip_value_max": 2.5},
    "tf.math.zeta": {"x": T + 3.0, "q": T + 3.0},
}


def _positional(f: Any, call: Callable[..., Any]) -> tuple[list[inspect.Parameter], Callable[..., Any]] | None:
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        return None
    kinds = inspect.Parameter
    fixed = [p for p in parameters if p.kind is not kinds.VAR_KEYWORD and p.name != "self"]
    if any(p.kind is kinds.VAR_POSITIONAL for p in fixed):
        return None
    only = [p.name for p in fixed if p.kind is kinds.POSITIONAL_ONLY]

    def run(**args: Any) -> Any:
        return call(*[args.pop(n) for n in only if n in args], **args)

    return fixed, run


MOST = 400


def _bases(name: str, fixed: list[inspect.Parameter], call: Callable[..., Any]) -> Iterator[dict[str, Any]]:
    """Arguments that a callable takes, and returns float64 for."""
    required = [p.name for p in fixed if p.default is inspect.Parameter.empty]
    choices = [NAMED.get(n, ARGUMENTS[:8] if len(required) > 2 else ARGUMENTS) for n in required]
    extra = {"dtype": tf.float64} if any(p.name == "dtype" for p in fixed) and "dtype" not in required else {}
    found = 0
    if name in COMPLETE:
        yield COMPLETE[name]
    for made in itertools.islice(itertools.product(*choices), MOST):
        args = dict(zip(required, made, strict=True)) | extra
        if _run(call, args) is not None:
            yield args
            found += 1
            if found == 3:
                return


def _numbers(name: str, f: Any) -> tuple[set[str], dict[str, float]]:
    """The parameters that are taken as numbers, and those of them that lose digits, with the number."""
    call = _used(name, f)
    found = None if call is None else _positional(f, call)
    taken: set[str] = set()
    lost: dict[str, float] = {}
    if found is None:
        return taken, lost
    fixed, run = found
    for args, parameter in itertools.product(list(_bases(name, fixed, run)), fixed):
        for value in VALUES:
            if parameter.name not in ("name", "dtype", "seed", *taken):
                verdict = _lost(run, args, parameter.name, value)
                if verdict is not None:
                    taken.add(parameter.name)
                if verdict:
                    lost[parameter.name] = value
    return taken, lost


def _lost(call: Callable[..., Any], args: dict[str, Any], name: str, value: float) -> bool | None:
    """Whether a number loses digits as an argument; None where it is not taken, or makes no difference."""
    a = float(np.float32(value))
    a = a if a < value else float(np.nextafter(np.float32(a), np.float32(0)))
    at = [_run(call, args | {name: v}) for v in (a, value, a + STEP)]
    if any(r is None for r in at) or len({r.shape for r in at}) > 1:  # type: ignore[union-attr]
        return None
    low, middle, high = at
    good = np.isfinite(low) & np.isfinite(middle) & np.isfinite(high)
    # results that float64 holds to enough digits to see the number's own
    with np.errstate(all="ignore"):
        slope = (high - low) / STEP
    clear = good & (np.abs(slope) > 1e-5 * np.maximum(np.abs(low), 1e-3))
    if not clear.any():
        return None
    expected = slope * (value - a)
    return bool((np.abs(middle - low - expected) > 0.05 * np.abs(expected))[clear].any())


# What loses digits, and why it may.
LEFT_OUT: dict[tuple[str, str], str] = {
    ("tf.cast", "x"): "a number alone becomes a float32 tensor before it is cast, as in TensorFlow",
    ("tf.saturate_cast", "value"): "a number alone becomes a float32 tensor before it is cast, as in TensorFlow",
    ("tf.histogram_fixed_width", "values"): "the result counts: it jumps where a number meets the edge of a bin",
    ("tf.histogram_fixed_width_bins", "values"): "the result counts: it jumps where a number meets the edge of a bin",
}
# Parameters whose default is a float that no trial has reached, and why.
UNSEEN: dict[tuple[str, str], str] = {
    ("tf.keras.activations.relu", "threshold"): "a limit of a comparison: outputs jump or stay",
    ("tf.keras.layers.ReLU", "threshold"): "a limit of a comparison: outputs jump or stay",
    ("tf.metrics.BinaryAccuracy", "threshold"): "a limit of a comparison: outputs jump or stay",
    ("tf.metrics.binary_accuracy", "threshold"): "a limit of a comparison: outputs jump or stay",
    ("tf.keras.layers.BatchNormalization", "momentum"): "changes the moving averages only; see the test of weights",
    ("tf.keras.Optimizer", "ema_momentum"): "an abstract class",
    ("tf.linalg.lstsq", "l2_regularizer"): "see the test of named calls",
    ("tf.math.nan_to_num", "nan"): "see the test of named calls",
    ("tf.keras.layers.ELU", "alpha"): "see the test of named calls",
    ("tf.keras.layers.LeakyReLU", "negative_slope"): "see the test of named calls",
    ("tf.keras.layers.ReLU", "negative_slope"): "see the test of named calls",
    ("tf.keras.regularizers.l1_l2", "l1"): "see the test of named calls",
    ("tf.keras.regularizers.l1_l2", "l2"): "see the test of named calls",
    ("tf.constant_initializer", "value"): "see the test of named calls",
    ("tf.random_normal_initializer", "mean"): "see the test of named calls",
    ("tf.random_normal_initializer", "stddev"): "see the test of named calls",
    ("tf.random_uniform_initializer", "minval"): "see the test of named calls",
    ("tf.random_uniform_initializer", "maxval"): "see the test of named calls",
    ("tf.optimizers.Adadelta", "rho"): "see the test of named calls",
    ("tf.optimizers.Ftrl", "learning_rate_power"): "see the test of named calls",
    ("tf.optimizers.schedules.CosineDecayRestarts", "t_mul"): "see the test of named calls",
    ("tf.optimizers.schedules.CosineDecayRestarts", "m_mul"): "see the test of named calls",
}
PUBLIC = {name: f for name, f in sorted(_public().items()) if not STATEFUL.search(name)}


def _float_defaults(f: Any) -> set[str]:
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        return set()
    return {p.name for p in parameters if isinstance(p.default, float)}


@pytest.mark.parametrize("name", PUBLIC)
def test_numbers_keep_their_digits(name: str) -> None:
    taken, lost = _numbers(name, PUBLIC[name])
    assert set(lost) == {p for n, p in LEFT_OUT if n == name}
    assert _float_defaults(PUBLIC[name]) - taken == {p for n, p in UNSEEN if n == name}


def _kernels(layer: Any) -> Any:
    layer(T, training=True)
    return [w for w in layer.weights if w.dtype == tf.float64]


def _seeded(make: Callable[..., Any]) -> Callable[[float], Any]:
    return lambda v: make(v)((3, 2), dtype=tf.float64)


SCHEDULES = tf.optimizers.schedules


def _scheduled(schedule: Any) -> Any:
    return _steps(tf.optimizers.SGD(schedule))


# Calls that are not found by trial, each a function of its number.
CALLS: dict[str, Callable[[float], Any]] = {
    "lstsq": lambda v: tf.linalg.lstsq(SQUARE, SQUARE, l2_regularizer=v),
    "ELU": lambda v: tf.keras.layers.ELU(alpha=v, dtype="float64")(-IMAGE),
    "LeakyReLU": lambda v: tf.keras.layers.LeakyReLU(v, dtype="float64")(-IMAGE),
    "ReLU": lambda v: tf.keras.layers.ReLU(negative_slope=v, dtype="float64")(-IMAGE),
    "nan_to_num, nan": lambda v: tf.math.nan_to_num(T * np.nan, nan=v),
    "l1_l2, l1": lambda v: tf.keras.regularizers.l1_l2(v, 0.3)(T),
    "l1_l2, l2": lambda v: tf.keras.regularizers.l1_l2(0.3, v)(T),
    "constant_initializer": _seeded(lambda v: tf.constant_initializer(v)),
    "normal, mean": _seeded(lambda v: tf.random_normal_initializer(v, 0.3, seed=1)),
    "normal, stddev": _seeded(lambda v: tf.random_normal_initializer(0.3, v, seed=1)),
    "uniform, minval": _seeded(lambda v: tf.random_uniform_initializer(-v, 0.3, seed=1)),
    "uniform, maxval": _seeded(lambda v: tf.random_uniform_initializer(-0.3, v, seed=1)),
    "BatchNormalization, momentum": lambda v: _kernels(tf.keras.layers.BatchNormalization(momentum=v, dtype="float64")),
    "Adadelta, rho": lambda v: _steps(tf.optimizers.Adadelta(0.5, rho=v, epsilon=0.01)),
    "Ftrl, power": lambda v: _steps(tf.optimizers.Ftrl(0.5, learning_rate_power=-v)),
    "CosineDecayRestarts, t_mul": lambda v: _scheduled(SCHEDULES.CosineDecayRestarts(0.5, 1, t_mul=1 + v)),
    "CosineDecayRestarts, m_mul": lambda v: _scheduled(SCHEDULES.CosineDecayRestarts(0.5, 1, m_mul=v)),
    "weight of a loss": lambda v: tf.losses.MeanSquaredError(dtype="float64")(POSITIVE, SCORES, sample_weight=v),
    "list of labels": lambda v: tf.losses.mean_squared_error([[v, 0.2, 0.3], [0.1, v, 0.3]], SCORES),
    "on_value": lambda v: tf.one_hot([0, 2], 3, on_value=v, off_value=0.1, dtype=tf.float64),
    "assign_add": lambda v: tf.Variable(X).assign_add(tf.Variable(X) * 0 + v),
    "fill_value": lambda v: tf.Variable(X).assign(np.full(X.shape, v)),
    "range, start": lambda v: tf.range(v, tf.constant(7.0, tf.float64), 0.7),
    "range, delta": lambda v: tf.range(tf.constant(0.2, tf.float64), 20.0, v)[:4],
    "linspace": lambda v: tf.linspace(tf.constant(0.2, tf.float64), v, 4),
    "map_fn": lambda v: tf.map_fn(lambda x: x * v, T),
    "scan": lambda v: tf.scan(lambda a, x: a * v + x, T),
    "complex": lambda v: tf.cast(T, tf.complex128) * v + v,
    "power": lambda v: v ** T,
    "stack": lambda v: tf.stack([T[0, 0], v]),
    "concat": lambda v: tf.concat([VECTOR, [v]], 0),
    "scatter": lambda v: tf.tensor_scatter_nd_update(VECTOR, [[1]], [v]),
    "np.add": lambda v: np.add(T, v),
    "np.multiply": lambda v: np.multiply(v, T),
    "np.power": lambda v: np.power(POSITIVE, v),
    "np.clip": lambda v: np.clip(10 * T, -v, v),
    "np.where": lambda v: np.where(X > 0.3, T, v),
    "np.maximum": lambda v: np.maximum(T, v),
    "np.full_like": lambda v: np.full_like(T, v),
    "np.pad": lambda v: np.pad(T, 1, constant_values=v),
    "np.linspace": lambda v: np.linspace(VECTOR, v, 4),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_numbers_keep_their_digits_in_named_calls(name: str) -> None:
    verdicts = {_lost(lambda v: CALLS[name](v), {}, "v", value) for value in VALUES} - {None}
    assert verdicts == {False}


def test_a_number_that_is_rounded_is_found() -> None:
    def rounded(v: float) -> Any:
        return T * tf.cast(tf.constant(v), tf.float64)

    assert _lost(rounded, {}, "v", 1.1) is True and _lost(lambda v: T * v, {}, "v", 1.1) is False


def test_padding_is_exact() -> None:
    assert tf.pad(T, [[1, 0], [0, 0]], constant_values=1.41)[0, 0].numpy() == 1.41


def test_saturate_cast_to_complex_stays_finite() -> None:
    made = tf.saturate_cast(tf.constant([1e300, -1e300, 0.5], tf.float64), tf.complex64).numpy()
    most = np.finfo(np.float32).max
    np.testing.assert_array_equal(made, np.array([most, -most, 0.5], np.complex64))
