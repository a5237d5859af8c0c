"""NaN is never swallowed: ops that are not elementwise, and functions composed of ops, at NaN and infinities.

`test_special_values.py` has the elementwise ops and says what is expected. A function composed of ops has their
conventions, and those that it states itself.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from campaigns import LARGE, counts_the_whole_run
from mirror_limits import Limit, Place, array_limits, mirror_of, program_mirror
from special_points import COMPLEX, SPECIAL, agrees, dtypes_of, inf, nan, plain, same_sign

import gtape as tf
from gtape.declare.conventions import COMPLEX_NUMBERS, FUNCTIONS, Convention, OfArrays
from gtape.declare.domains import BOOLEAN
from gtape.declare.primitives import REGISTRY, Primitive
from gtape.symbolic.tracing import trace
from gtape.tensors.tensor import wrap
from gtape.verify.proofs.proof_cells import parameters

counted: dict[str, set[Any]] = {"cases": set(), "kept": set()}


def kept_by_arrays(
    conventions: Iterable[Convention],
    special: float,
    several: bool,
    whole: bool,
    what: str,
    got: float,
    expected: float,
) -> OfArrays | None:
    """The convention by which arrays give `got` instead of the limit, or None.

    Parameters
    ----------
    conventions : iterable
        Those of all ops and functions that took part, with `COMPLEX_NUMBERS` for complex numbers.
    special : float
        The special value in an argument.
    several : bool
        True if the value stands in more than one element.
    whole : bool
        True if the argument has no other elements.
    what : str
        "value", or anything else for a derivative.
    got, expected : float
    """
    at = {"infinity", "equal infinities"} if math.isinf(special) else {"zero", "zeros"}
    at -= set() if several else {"equal infinities"}
    at -= set() if whole else {"zeros"}
    of = "value" if what == "value" else "derivative"
    if math.isnan(got):
        gives = {"NaN"}
    elif got == expected == 0:
        gives = {"a zero of the other sign"}
    elif math.isinf(got) and math.isinf(expected):
        gives = {"an infinity of another sign"}
    else:
        gives = {"a number", "a number for no limit"} if math.isnan(expected) else {"a number"}
    gives |= {"0"} if got == 0 else set()
    arrays = (k for k in conventions if isinstance(k, OfArrays))
    return next((k for k in arrays if k.at in at and k.of in (of, "both") and k.gives in gives), None)


# ---------------------------------------------------------------------------------------------- what is not elementwise

# What reports a NaN, and cannot hand one on.
RAISES = {"check_numerics": tf.errors.InvalidArgumentError}
OTHERS = [n for n in sorted(REGISTRY) if REGISTRY[n].kind != "elementwise" and REGISTRY[n].samples]
_MOVES = (7.5, -7.5, 0.37)


def _sample(prim: Primitive, values: Any, dtype: Any) -> list[Any]:
    """Arrays for one declared sample: matrices near the identity, which every factorisation takes."""
    rng = np.random.default_rng(zlib.crc32(prim.name.encode()))
    arrays = []
    for i, v in enumerate(values):
        if isinstance(v, np.ndarray):
            arrays.append(v.astype(dtype) if v.dtype.kind == "f" else v)
            continue
        interval = prim.domain.intervals[min(i, len(prim.domain.intervals) - 1)]
        x = rng.normal(size=v) if interval.lo < 0 else 0.1 + rng.uniform(size=v)
        if math.isfinite(interval.lo) and math.isfinite(interval.hi):
            x = interval.lo + (interval.hi - interval.lo) * (0.05 + 0.9 * rng.uniform(size=v))
        if prim.name in ("cholesky", "eigh", "eigh_parts"):
            x = x @ np.swapaxes(x, -1, -2) + np.eye(v[-1])
        arrays.append(np.asarray(x).astype(dtype))
    return arrays


def _floats(tensors: Any) -> list[Any]:
    flat = list(tensors) if isinstance(tensors, (tuple, list)) else [tensors]
    return [t for t in flat if t is not None and t.dtype.is_floating]


def _results(f: Callable[..., Any], arrays: list[Any], differentiable: bool) -> list[Any]:
    """Float outputs of a function, the cotangents of its float arguments, and a forward derivative by each."""
    xs = [wrap(np.asarray(a)) for a in arrays]
    active = [x for x in xs if x.dtype.is_floating]
    with tf.GradientTape() as tape:
        tape.watch(active)
        ys = _floats(tf.nest.flatten(f(*xs)))
    found = [y.numpy() for y in ys]
    if not (differentiable and ys):
        return found
    # Far from 0, because a derivative that a small weight shrinks does not seem to move.
    weights = [(1 + np.random.default_rng(7).random(y.shape)).astype(y.numpy().dtype) for y in ys]
    backward = tape.gradient(ys, active, output_gradients=[wrap(np.asarray(w)) for w in weights])
    found += [
        np.zeros(x.shape) if g is None else np.asarray(tf.convert_to_tensor(g))
        for g, x in zip(backward, active, strict=True)
    ]
    for x in active:
        direction = wrap(np.asarray(np.random.default_rng(9).normal(size=x.shape).astype(x.numpy().dtype)))
        with tf.autodiff.ForwardAccumulator(x, direction) as forward:
            ys = _floats(tf.nest.flatten(f(*xs)))
        pushed = forward.jvp(ys, unconnected_gradients="zero")
        found += [np.asarray(p) for p in pushed]
    return found


def _swallowed(f: Callable[..., Any], arrays: list[Any], differentiable: bool = True) -> Iterator[str]:
    """Where NaN in one element of one argument does not reach a result that moves when that element is moved."""
    base = _results(f, arrays, differentiable)
    for i, a in enumerate(arrays):
        if np.asarray(a).dtype.kind not in "fV":
            continue
        places = list(np.ndindex(np.shape(a)))
        for at in places if LARGE else sorted({places[0], places[-1], places[len(places) // 2]}) if places else ():

            def put(v: float, i: int = i, at: Any = at) -> list[Any]:
                changed = [np.array(b) for b in arrays]
                changed[i][at] = v
                return changed

            moved = [_results(f, put(v), differentiable) for v in _MOVES]
            spoiled = _results(f, put(nan), differentiable)
            assert len(base) == len(spoiled)
            counted["cases"].add((id(f), i, at))
            for k, (whole, after) in enumerate(zip(base, spoiled, strict=True)):
                start, end = whole.astype(np.float64), after.astype(np.float64)
                reached = np.zeros(start.shape, bool)
                for other in moved:
                    o = other[k].astype(np.float64)
                    reached |= np.isfinite(o) & np.isfinite(start) & ~np.isclose(o, start, rtol=0.05, atol=1e-3)
                if (reached & ~np.isnan(end)).any():
                    yield f"result {k} for NaN in argument {i} at {at}: {end.tolist()}, without {start.tolist()}"


@pytest.mark.parametrize("name", OTHERS)
def test_nan_reaches_all_outputs_and_cotangents_that_depend_on_it(name: str) -> None:
    prim = REGISTRY[name]
    wrong = []
    for dtype in dtypes_of(name):
        for values, params in prim.samples or ():
            arrays = _sample(prim, values, dtype)
            call: Callable[..., Any] = lambda *xs, params=params: prim(*xs, **params)
            if name in RAISES:
                with pytest.raises(RAISES[name]):
                    call(wrap(np.full_like(arrays[0], nan)))
                continue
            for what in _swallowed(call, arrays, prim.differentiable):
                wrong.append(f"{name}{params} {np.dtype(dtype).name} {[a.shape for a in arrays]}: {what}")
    assert not wrong, "\n".join(wrong[:8])


# ---------------------------------------------------------------------------------------------- what is composed of ops

_M = np.array([[4.0, 0.75, 0.5], [0.75, 3.0, -0.25], [0.5, -0.25, 2.0]])
_V = np.array([0.75, -1.25, 2.5, 0.375])
_P = np.array([0.2, 0.5, 0.75, 0.3])
_X = np.array([[0.5, -1.5, 2.0, 0.25], [1.25, 0.75, -0.5, 3.0], [-2.0, 1.0, 0.125, -0.75]])
_IMAGE = np.random.default_rng(1).normal(size=(1, 4, 4, 2))
_SERIES = np.random.default_rng(2).normal(size=(1, 5, 2))
_LABELS = np.array([1, 0, 3])
_IDS = np.array([0, 0, 1, 2])
_keras = tf.keras
_BANDS = (np.array([[0.5, 0.25, 0.0], [3.0, 4.0, 2.5], [0.0, 0.75, 0.5]]), np.array([[1.0], [2.0], [-1.0]]))
_DISTRIBUTION = np.array([[0.2, 0.3, 0.1, 0.4], [0.5, 0.25, 0.125, 0.125], [0.1, 0.2, 0.3, 0.4]])
# Predictions that no label equals, because derivatives such as 1 - label / prediction would cancel.
_OTHER = np.array([[0.3, 0.1, 0.45, 0.1], [0.1, 0.55, 0.2, 0.05], [0.25, 0.4, 0.1, 0.2]])

COMPOSED: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    # reductions
    "reduce_sum": (lambda x: tf.reduce_sum(x, 1), (_X,)),
    "reduce_mean": (lambda x: tf.reduce_mean(x, 1), (_X,)),
    "reduce_max": (lambda x: tf.reduce_max(x, 1), (_X,)),
    "reduce_min": (lambda x: tf.reduce_min(x, 0), (_X,)),
    "reduce_prod": (lambda x: tf.reduce_prod(x, 1), (_X,)),
    "reduce_logsumexp": (lambda x: tf.reduce_logsumexp(x, 1), (_X,)),
    "reduce_std": (lambda x: tf.math.reduce_std(x, 1), (_X,)),
    "reduce_variance": (lambda x: tf.math.reduce_variance(x), (_X,)),
    "reduce_euclidean_norm": (lambda x: tf.math.reduce_euclidean_norm(x, 1), (_X,)),
    **{f"norm {o}": (lambda x, o=o: tf.norm(x, o, axis=1), (_X,)) for o in (1, 2, 3.5, inf, "euclidean")},
    "norm fro": (lambda x: tf.norm(x, "fro", axis=(0, 1)), (_X,)),
    "l2_normalize": (lambda x: tf.math.l2_normalize(x, 1), (_X,)),
    "linalg.normalize": (lambda x: tf.linalg.normalize(x)[0], (_X,)),
    "cumsum": (lambda x: tf.cumsum(x), (_V,)),
    "cumprod": (lambda x: tf.math.cumprod(x), (_V,)),
    "cumulative_logsumexp": (lambda x: tf.math.cumulative_logsumexp(x), (_V,)),
    "moments": (lambda x: tf.nn.moments(x, [0]), (_X,)),
    "add_n": (lambda x, y: tf.add_n([x, y]), (_V, _P)),
    # sorting and segments
    "sort": (lambda x: tf.reduce_sum(tf.sort(x)), (_V,)),
    "top_k": (lambda x: tf.reduce_sum(tf.math.top_k(x, 4)[0]), (_V,)),
    **{
        f"segment_{o}": (lambda x, o=o: getattr(tf.math, f"segment_{o}")(x, _IDS), (_V,))
        for o in ("sum", "mean", "max", "min", "prod")
    },
    **{
        f"unsorted_segment_{o}": (lambda x, o=o: getattr(tf.math, f"unsorted_segment_{o}")(x, _IDS, 3), (_V,))
        for o in ("sum", "mean", "max", "min", "prod", "sqrt_n")
    },
    "tensor_scatter_nd_max": (lambda x, u: tf.tensor_scatter_nd_max(x, [[1], [2]], u), (_V, np.array([3.0, -4.0]))),
    "tensor_scatter_nd_min": (lambda x, u: tf.tensor_scatter_nd_min(x, [[1], [2]], u), (_V, np.array([3.0, -4.0]))),
    # linear algebra
    "matmul": (lambda a, b: tf.matmul(a, b), (_M, _X)),
    "tensordot": (lambda a, b: tf.tensordot(a, b, 1), (_M, _X)),
    "einsum": (lambda a, b: tf.einsum("ij,jk->ki", a, b), (_M, _X)),
    **{
        f"linalg.{f}": (lambda a, f=f: getattr(tf.linalg, f)(a), (_M,))
        for f in ("det", "slogdet", "logdet", "inv", "pinv", "cholesky", "eigvalsh", "expm", "trace", "qr")
    },
    **{f"linalg.det {n}": (lambda a: tf.linalg.det(a), (np.eye(n) * 2 + 0.25,)) for n in (1, 2, 4, 5)},
    "linalg.det of ones": (lambda a: tf.linalg.det(a), (np.array([[3.0, 1.0], [1.0, 1.0]]),)),
    **{f"linalg.slogdet {n}": (lambda a: tf.linalg.slogdet(a), (np.eye(n) * 2 + 0.25,)) for n in (1, 2, 4)},
    "linalg.svd": (lambda a: tf.linalg.svd(a, compute_uv=False), (_M + np.diag([0.0, 1.0, 3.0]),)),
    "linalg.eigh": (lambda a: tf.linalg.eigh(a)[0], (_M,)),
    "linalg.solve": (lambda a, b: tf.linalg.solve(a, b), (_M, _X)),
    "linalg.lstsq": (lambda a, b: tf.linalg.lstsq(a, b), (_X.T, _X.T[:, :2] + 1)),
    "linalg.triangular_solve": (lambda a, b: tf.linalg.triangular_solve(a, b), (np.tril(_M), _X)),
    "linalg.cholesky_solve": (lambda a, b: tf.linalg.cholesky_solve(a, b), (np.tril(_M), _X)),
    "linalg.tridiagonal_solve": (lambda d, b: tf.linalg.tridiagonal_solve(d, b, "compact"), _BANDS),
    "linalg.tridiagonal_matmul": (lambda d, b: tf.linalg.tridiagonal_matmul(d, b, "compact"), _BANDS),
    "linalg.cross": (lambda a, b: tf.linalg.cross(a, b), (_V[:3], _P[:3])),
    "linalg.global_norm": (lambda a, b: tf.linalg.global_norm([a, b]), (_V, _P)),
    # activations, normalisation
    **{
        f"nn.{f}": (lambda x, f=f: getattr(tf.nn, f)(x), (_X,))
        for f in (
            "relu", "relu6", "leaky_relu", "elu", "selu", "gelu", "silu", "crelu", "softplus", "softsign", "softmax",
            "log_softmax", "tanh", "sigmoid", "l2_loss",
        )
    },
    **{
        f"keras.activations.{f}": (lambda x, f=f: getattr(_keras.activations, f)(x), (_X,))
        for f in (
            "relu", "relu6", "elu", "selu", "gelu", "silu", "softplus", "softsign", "softmax", "hard_sigmoid", "mish",
            "exponential", "linear", "log_softmax",
        )
    },
    "keras relu of all": (lambda x: _keras.activations.relu(x, 0.1, None, 0.5), (_X,)),
    "ReLU": (lambda x: _keras.layers.ReLU()(x), (_X,)),
    "LeakyReLU": (lambda x: _keras.layers.LeakyReLU()(x), (_X,)),
    "PReLU": (lambda x: _keras.layers.PReLU()(x), (_X,)),
    "Softmax": (lambda x: _keras.layers.Softmax()(x), (_X,)),
    "Dense relu": (lambda x: _keras.layers.Dense(2, "relu", kernel_initializer="ones")(x), (_X,)),
    "Dense relu6": (lambda x: _keras.layers.Dense(2, "relu6", kernel_initializer="ones")(x), (_X,)),
    "BatchNormalization": (lambda x: _keras.layers.BatchNormalization()(x, training=True), (_X,)),
    "LayerNormalization": (lambda x: _keras.layers.LayerNormalization()(x), (_X,)),
    "batch_normalization": (
        lambda x, m, v, b, s: tf.nn.batch_normalization(x, m, v, b, s, 1e-3), (_X, _V, _P, _V, _P)
    ),
    "local_response_normalization": (lambda x: tf.nn.local_response_normalization(x), (_IMAGE,)),
    # pooling, convolution
    "max_pool2d": (lambda x: tf.nn.max_pool2d(x, 2, 1, "VALID"), (_IMAGE,)),
    "avg_pool2d": (lambda x: tf.nn.avg_pool2d(x, 2, 1, "SAME"), (_IMAGE,)),
    "max_pool1d": (lambda x: tf.nn.max_pool1d(x, 2, 2, "SAME"), (_SERIES,)),
    "conv2d": (lambda x, f: tf.nn.conv2d(x, f, 1, "SAME"), (_IMAGE, np.full((2, 2, 2, 1), 0.5))),
    "conv1d": (lambda x, f: tf.nn.conv1d(x, f, 1, "VALID"), (_SERIES, np.full((2, 2, 1), 0.5))),
    "depthwise_conv2d": (
        lambda x, f: tf.nn.depthwise_conv2d(x, f, [1, 1, 1, 1], "VALID"), (_IMAGE, np.full((2, 2, 2, 1), 0.5))
    ),
    "GlobalMaxPooling2D": (lambda x: _keras.layers.GlobalMaxPooling2D()(x), (_IMAGE,)),
    "GlobalAveragePooling2D": (lambda x: _keras.layers.GlobalAveragePooling2D()(x), (_IMAGE,)),
    # clipping
    "clip_by_value": (lambda x: tf.clip_by_value(x, -1.0, 1.0), (_X,)),
    "clip_by_norm": (lambda x: tf.clip_by_norm(x, 1.0), (_X,)),
    "clip_by_global_norm": (lambda x, y: tf.clip_by_global_norm([x, y], 0.5), (_V, _P)),
    # losses and cross entropies
    "softmax_cross_entropy": (
        lambda y, x: tf.nn.softmax_cross_entropy_with_logits(labels=y, logits=x), (_DISTRIBUTION, _X)
    ),
    "sparse_softmax_cross_entropy": (
        lambda x: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=_LABELS, logits=x), (_X,)
    ),
    "sigmoid_cross_entropy": (
        lambda y, x: tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=x), (_DISTRIBUTION, _X)
    ),
    "weighted_cross_entropy": (
        lambda y, x: tf.nn.weighted_cross_entropy_with_logits(labels=y, logits=x, pos_weight=2.0), (_DISTRIBUTION, _X)
    ),
    "log_poisson_loss": (lambda y, x: tf.nn.log_poisson_loss(y, x), (_P, _V)),
    **{
        f"keras.losses.{f}": (lambda y, x, f=f: getattr(_keras.losses, f)()(y, x), (_DISTRIBUTION, _OTHER))
        for f in (
            "MeanSquaredError", "MeanAbsoluteError", "MeanSquaredLogarithmicError", "MeanAbsolutePercentageError",
            "Huber", "LogCosh", "BinaryCrossentropy", "CategoricalCrossentropy", "KLDivergence", "CosineSimilarity",
            "Hinge", "SquaredHinge", "CategoricalHinge", "Poisson",
        )
    },
    # random draws by NaN parameters
    "random.normal": (
        lambda m, s: tf.random.stateless_normal([4], [1, 2], m, s, m.dtype), (np.array(0.5), np.array(2.0))
    ),
    "random.gamma": (lambda a: tf.random.stateless_gamma([4], [1, 2], tf.abs(a), dtype=a.dtype), (np.array(2.5),)),
    "atan2": (lambda y, x: tf.math.atan2(y, x), (_V, _P)),
    "squared_difference": (lambda y, x: tf.math.squared_difference(y, x), (_V, _P)),
}  # fmt: skip


# Their derivatives are a choice by comparison (`Noted` in the declarations): only their values are tried.
CHOSEN = {
    "keras relu of all", "max_pool1d", "max_pool2d", "GlobalMaxPooling2D", "clip_by_value", "clip_by_global_norm",
    "keras.losses.Hinge", "keras.losses.SquaredHinge", "keras.losses.CategoricalHinge", "tensor_scatter_nd_max",
    "tensor_scatter_nd_min", "random.gamma", "keras.losses.CategoricalCrossentropy",
}  # fmt: skip


@pytest.mark.parametrize("name", COMPOSED)
def test_nan_is_not_swallowed_by_public_functions(name: str) -> None:
    f, arrays = COMPOSED[name]
    wrong = []
    for dtype in (np.float64, np.float32) if LARGE else (np.float64 if zlib.crc32(name.encode()) % 2 else np.float32,):
        for what in _swallowed(f, [np.asarray(a, dtype) for a in arrays], name not in CHOSEN):
            wrong.append(f"{name} {np.dtype(dtype).name}: {what}")
    assert not wrong, "\n".join(wrong[:6])


def test_a_nan_prediction_makes_nan_of_the_derivatives_by_labels() -> None:
    labels = tf.constant(_DISTRIBUTION)
    with tf.GradientTape() as tape:
        tape.watch(labels)
        loss = _keras.losses.categorical_crossentropy(labels, np.where(_OTHER == 0.45, nan, _OTHER))
    np.testing.assert_array_equal(np.isnan(loss), [True, False, False])
    np.testing.assert_array_equal(np.isnan(tape.gradient(loss, labels)), [[True] * 4, [False] * 4, [False] * 4])


@pytest.mark.parametrize("f", [tf.sort, lambda x: tf.reverse(tf.math.top_k(x, 4)[0], [0])], ids=["sort", "top_k"])
def test_nan_is_sorted_as_the_greatest(f: Callable[..., Any]) -> None:
    np.testing.assert_array_equal(f(tf.constant([2.0, nan, 1.0, 3.0])).numpy(), [1.0, 2.0, 3.0, nan])


def test_argmax_and_argmin_pass_nan_over() -> None:
    x = tf.constant([nan, 1.0, 3.0, nan, 2.0])
    assert (int(tf.argmax(x)), int(tf.argmin(x))) == (2, 1)


DRAWS: dict[str, Callable[..., Any]] = {
    "poisson": lambda p, d: tf.random.stateless_poisson([2], [1, 2], p, d),
    "binomial": lambda p, d: tf.random.stateless_binomial([2], [1, 2], tf.constant([5.0, 5.0]), p, d),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_whole_draws_with_a_nan_parameter_are_nan_or_an_error(draw: Callable[..., Any]) -> None:
    drawn = draw(tf.constant([nan, 0.5]), tf.float32).numpy()
    assert np.isnan(drawn).tolist() == [True, False]
    with pytest.raises(tf.errors.InvalidArgumentError, match="float dtype"):
        draw(tf.constant([nan, 0.5]), tf.int32)


# ---------------------------------------------------------------------------------------------- limits of arrays

# Cotangents and tangents in few bits, none of them 0.
_WEIGHTS = (np.random.default_rng(5).choice([-1.0, 1.0], (100, 4)) * [0.75, 1.25, 1.5, 0.875]).ravel().tolist()


class Call(NamedTuple):
    """A function at ordinary arrays; ``mirror_at(arrays)`` is its mirror, after a text that equal mirrors share."""

    name: str
    f: Callable[..., Any]
    arrays: list[Any]
    mirror_at: Callable[[list[Any]], tuple[str, Any]]
    differentiable: bool
    prim: Primitive | None
    conventions: tuple[Convention, ...]


def _short(a: Any, complex: bool = False) -> Any:
    """An ordinary array in few bits, which all dtypes hold; with imaginary parts, if asked for."""
    if np.asarray(a).dtype.kind not in "f":
        return np.asarray(a)
    x = np.round(np.asarray(a, np.float64) * 16) / 16
    x = np.where(x == 0, 0.0625, x)
    return x + 1j * np.round(np.random.default_rng(11).normal(size=x.shape) * 8 + 0.5) / 16 if complex else x


def _close_over(f: Callable[..., Any], arrays: list[Any]) -> tuple[Callable[..., Any], list[Any]]:
    """A function of the arrays of inexact numbers alone, and these."""
    inexact = [i for i, a in enumerate(arrays) if np.asarray(a).dtype.kind in "fcV"]

    def of_some(*some: Any) -> Any:
        given = dict(zip(inexact, some, strict=True))
        return f(*[given[i] if i in given else wrap(np.asarray(a)) for i, a in enumerate(arrays)])

    return of_some, [arrays[i] for i in inexact]


def _primitive_calls(name: str, complex: bool) -> Iterator[Call]:
    prim = REGISTRY[name]
    if prim.kind == "elementwise":
        points = plain(prim)[:1] if BOOLEAN not in prim.domain.intervals else plain(prim)
        samples = [([np.asarray(v) for v in p], params) for p in points for params in parameters(prim)]
    else:
        samples = [(_sample(prim, values, np.float64), params) for values, params in prim.samples or ()]
    for given, params in samples:
        arrays = [_short(a, complex) for a in given]
        if prim.name in ("cholesky", "eigh", "eigh_parts") and not complex:
            arrays = [(a + np.swapaxes(a, -1, -2)) / 2 for a in arrays]
        if any(a.size == 0 for a in arrays) or not any(a.dtype.kind in "fc" for a in arrays):
            continue
        call: Callable[..., Any] = lambda *xs, params=params: prim(*xs, **params)
        call, arrays = _close_over(call, arrays)
        if complex or len(arrays) < len(given):
            mirror, known = program_mirror(trace(call, *arrays)), None
        else:
            mirror, known = mirror_of(prim, params), prim
        stated = (*prim.conventions, *(COMPLEX_NUMBERS if complex else ()))
        yield Call(f"{name}{params}", call, arrays, lambda _, m=mirror: ("", m), prim.differentiable, known, stated)


def _numbers(value: Any) -> list[float]:
    """The elements of an array as floats, a complex one as two."""
    x = np.asarray(value).reshape(-1)
    return (x.astype(np.complex128).view(np.float64) if x.dtype.kind == "c" else x.astype(np.float64)).ravel().tolist()


def _shaped(numbers: list[float], like: Any) -> Any:
    x = np.asarray(numbers, np.float64)
    return wrap((x.view(np.complex128) if like.dtype.kind == "c" else x).reshape(like.shape).astype(like.dtype))


def _split(numbers: list[float], arrays: list[Any]) -> list[Any]:
    found, start = [], 0
    for a in arrays:
        end = start + a.size * (2 if a.dtype.kind == "c" else 1)
        found.append(_shaped(numbers[start:end], a))
        start = end
    return found


def _on_the_tape(call: Call, arrays: list[Any]) -> tuple[list[float], list[float], list[float], list[bool]]:
    """Values, cotangents and tangents as the tape and the accumulator give them, and which outputs are complex."""

    def inexact(ys: Any) -> list[Any]:
        wanted = not call.differentiable  # whole numbers and booleans of ops without derivatives
        return [y for y in tf.nest.flatten(ys) if wanted or y.dtype.is_floating or y.dtype.is_complex]

    xs = [wrap(np.asarray(a)) for a in arrays]
    with tf.GradientTape() as tape:
        tape.watch(xs)
        ys = inexact(call.f(*xs))
    values = [n for y in ys for n in _numbers(y.numpy())]
    complex = [y.dtype.is_complex for y in ys]
    if not call.differentiable:
        return values, [], [], complex
    raw = [np.asarray(y.numpy()) for y in ys]
    pulled = tape.gradient(ys, xs, output_gradients=_split(_WEIGHTS, raw), unconnected_gradients="zero")
    back = [n for g in pulled for n in _numbers(tf.convert_to_tensor(g).numpy())]
    with tf.autodiff.ForwardAccumulator(xs, _split(_WEIGHTS, arrays)) as forward:
        ys = inexact(call.f(*xs))
    return values, back, [n for t in forward.jvp(ys, unconnected_gradients="zero") for n in _numbers(t)], complex


def _products(weights: list[float], limits: list[Limit]) -> float:
    """A sum of products of limits, in IEEE's arithmetic; what does not move adds nothing."""
    return sum([w * float(v) for w, v in zip(weights, limits, strict=False) if v != 0], 0.0)


def _terms(weights: list[float], limits: list[Limit]) -> list[float]:
    """The absolute values of the products that `_products` adds up; none if one is infinite or NaN."""
    terms = [abs(w * float(v)) for w, v in zip(weights, limits, strict=False) if v != 0]
    return terms if all(map(math.isfinite, terms)) else []


def _like(got: float, expected: float, dtype: Any, loose: bool, terms: list[float]) -> bool:
    import ml_dtypes

    f = ml_dtypes.finfo(dtype)
    if math.isnan(expected) or math.isnan(got) or math.isinf(expected) or math.isinf(got):
        return agrees(got, expected, dtype, True)
    # In half precision sums of a few products differ; limits of what equations define are rough themselves.
    relative, absolute = (0.1, 0.05) if float(f.eps) > 1e-5 else (1e-3, 1e-9) if loose else (1e-5, 1e-11)
    # A sum of n products, each with a few roundings, errs by n eps times the sum of their absolute values, however
    # small the sum itself: so does one part of a complex product. Half precision has more room above.
    summed = len(terms) * float(f.eps) * sum(terms) if float(f.eps) < 1e-5 else 0.0
    return abs(got - expected) <= relative * abs(expected) + absolute + summed


def _places(a: Any, i: int, v: float) -> Iterator[tuple[Place, ...]]:
    """One element of an argument, and all of it; of complex numbers one part, and both."""
    parts: tuple[tuple[bool, ...], ...] = ((False,), (True,), (False, True)) if a.dtype.kind == "c" else ((False,),)
    indices = list(np.ndindex(a.shape))
    some = indices if LARGE and len(indices) <= 4 else sorted({indices[0], indices[-1], indices[len(indices) // 2]})
    for which in parts:
        for at in some:
            yield tuple(Place(i, at, p, v) for p in which)
        if len(indices) > 1:
            yield tuple(Place(i, at, p, v) for at in indices for p in which)


def _put(arrays: list[Any], places: tuple[Place, ...], dtype: Any) -> list[Any]:
    changed = [np.array(a) for a in arrays]
    for p in places:
        a = changed[p.argument]
        if a.dtype.kind == "c":
            (a.imag if p.imaginary else a.real)[p.at] = p.value
        else:
            a[p.at] = p.value
    return [a.astype(dtype) for a in changed]


def _within(prim: Primitive, arrays: list[Any], places: tuple[Place, ...]) -> tuple[Place, ...]:
    """The places with their mirror images, for ops whose domain is of symmetric matrices."""
    where = prim.domain.where
    if prim.kind == "elementwise" or where is None or where(*_put(arrays, places, arrays[0].dtype)):
        return places
    images = [p._replace(at=(*p.at[:-2], p.at[-1], p.at[-2])) for p in places if len(p.at) > 1]
    both = tuple(dict.fromkeys((*places, *images)))
    size = [a.shape[-1] for a in arrays if a.ndim > 1 and a.shape[-1] == a.shape[-2]]
    fits = len(size) == len(arrays) and where(*_put(arrays, both, arrays[0].dtype))
    return both if fits else places


def _cases(calls: Iterable[Call]) -> list[tuple[Call, tuple[Place, ...]]]:
    """All cases; a share that depends on names alone, unless ``GTAPE_LARGE`` is set."""
    found = [
        (c, p if c.prim is None else _within(c.prim, c.arrays, p))
        for c in calls for i, a in enumerate(c.arrays) for v in SPECIAL for p in _places(a, i, v)
    ]  # fmt: skip
    if LARGE:
        return found
    small = [(c, p) for c, p in found if sum(a.size for a in c.arrays) <= 9] or found[:1]
    return sorted(small, key=lambda e: zlib.crc32(f"{e[0].name}{e[1]}".encode()))[:1]


def _deviations(name: str, calls: Iterable[Call], dtypes: Sequence[Any]) -> Iterator[str]:
    """Where the tape gives something else than the limits, less the conventions."""
    for call, places in _cases(calls):
        given = _put(call.arrays, places, np.complex128 if call.arrays[0].dtype.kind == "c" else np.float64)
        tangents = [w for w, _ in zip(_WEIGHTS, [n for a in given for n in _numbers(a)], strict=False)]
        found: dict[str, Any] = {}
        for dtype in dtypes:
            several, whole = len({p.at for p in places}) > 1, not given[places[0].argument].any()
            put = _put(call.arrays, places, dtype)
            try:
                values, pulled, pushed, complex = _on_the_tape(call, put)
            except tf.errors.InvalidArgumentError:
                # What finds no solution may say so.
                row = kept_by_arrays(call.conventions, places[0].value, several, whole, "value", nan, 0.0)
                assert row is not None and places[0].value == 0, (call.name, places)
                counted["kept"].add(row)
                continue
            text, mirror = call.mirror_at(put)
            if text not in found:
                found[text] = array_limits(mirror, given, places, complex=complex, seeds=_WEIGHTS, tangents=tangents)
            limits = found[text]
            assert limits is not None, f"{call.name} {places}: undecided"
            # Where the function itself has no value, its derivatives may be NaN, too.
            columns = [[row[e] for row in limits.partials] for e in range(len(pulled))]
            without = [math.isnan(v) for v in limits.values]
            loose = mirror.modest
            real = np.dtype(dtype).type(0).real.dtype
            for what, k, got, expected, free, terms in (
                *[("value", o, v, [limits.values[o]], False, []) for o, v in enumerate(values)],
                # A sum of derivatives has a limit of its own, or the sum of their limits.
                *[
                    (
                        "pushed", o, v, [limits.pushed[o], _products(tangents, limits.partials[o])], without[o],
                        _terms(tangents, limits.partials[o]),
                    )
                    for o, v in enumerate(pushed)
                ],
                *[
                    (
                        "pulled", e, v, [limits.pulled[e], _products(_WEIGHTS, columns[e])], any(without),
                        _terms(_WEIGHTS, columns[e]),
                    )
                    for e, v in enumerate(pulled)
                ],
            ):  # fmt: skip
                counted["cases"].add((call.name, places, what, k, np.dtype(dtype).name))
                fine = any(_like(got, e, real, loose, terms) for e in expected) or (free and math.isnan(got))
                if fine and (what != "value" or same_sign(got, expected[0])):
                    continue
                if dtype in _COMPLEX_DTYPES and (what == "pulled" or all(complex)):
                    # A complex number with one part NaN is no number.
                    other = {"value": values, "pushed": pushed, "pulled": pulled}[what][k ^ 1]
                    got = nan if math.isnan(other) else got
                    # And one with an infinite part is an infinity: a pole is inf + 0i.
                    got = math.copysign(inf, got) if math.isinf(other) and any(map(math.isinf, expected)) else got
                limit = expected[-1] if math.isnan(expected[0]) else expected[0]
                row = kept_by_arrays(call.conventions, places[0].value, several, whole, what, got, limit)
                if row is not None:
                    counted["kept"].add(row)
                    reasons[f"{row.at}, {row.of}, {row.gives}: {row.reason}"] += 1
                    continue
                shown = [a.tolist() for a in given]
                yield f"{call.name} {np.dtype(dtype).name} {shown}: {what} {k} is {got}, limits {expected}"


# The functions of `COMPOSED` that state conventions of their own.
STATED: dict[str, Callable[..., Any]] = {
    "linalg.tridiagonal_matmul": tf.linalg.tridiagonal_matmul,
    "batch_normalization": tf.nn.batch_normalization,
    "local_response_normalization": tf.nn.local_response_normalization,
    "clip_by_norm": tf.clip_by_norm,
    "clip_by_global_norm": tf.clip_by_global_norm,
    "weighted_cross_entropy": tf.nn.weighted_cross_entropy_with_logits,
    "log_poisson_loss": tf.nn.log_poisson_loss,
    "PReLU": _keras.layers.PReLU,
    "keras.losses.CategoricalHinge": _keras.losses.categorical_hinge,
    "keras.losses.Poisson": _keras.losses.poisson,
    "keras.losses.BinaryCrossentropy": _keras.losses.binary_crossentropy,
    "keras.losses.CategoricalCrossentropy": _keras.losses.categorical_crossentropy,
    "keras.losses.KLDivergence": _keras.losses.kl_divergence,
    "keras.losses.MeanAbsolutePercentageError": _keras.losses.mean_absolute_percentage_error,
    "keras.losses.MeanSquaredLogarithmicError": _keras.losses.mean_squared_logarithmic_error,
    "norm 3.5": tf.norm,
}


# Functions that give the limit although the convention of an op in them is to give something else.
NEEDLESS: dict[tuple[str, str], set[str]] = {
    ("zero", "a zero of the other sign"): {
        "reduce_std", "reduce_variance", "norm 1", "norm 3.5", "l2_normalize", "linalg.normalize", "linalg.logdet",
        "nn.l2_loss", "Dense relu", "Dense relu6", "BatchNormalization", "local_response_normalization",
        *(
            f"keras.losses.{f}"
            for f in (
                "MeanSquaredError", "MeanAbsoluteError", "MeanSquaredLogarithmicError", "MeanAbsolutePercentageError",
                "Huber", "LogCosh", "Hinge", "SquaredHinge", "CategoricalHinge", "Poisson",
            )
        ),
    },
    ("zero", "NaN"): {"linalg.eigvalsh", "linalg.eigh", "linalg.svd"},
    ("zeros", "a number"): {"linalg.lstsq"},
    ("infinity", "NaN"): {"tensordot", "einsum", "Dense relu", "Dense relu6", "avg_pool2d"},
}  # fmt: skip


def _traced(f: Callable[..., Any], arrays: list[Any]) -> tuple[str, Any]:
    """The mirror of a function at arrays, and all that distinguishes its program from others.

    A function may look at its arguments in Python, as l2_normalize looks for short vectors and hinge for labels 0 and
    1, and may draw other numbers and round other constants in another dtype. Only its program there is the function.
    """
    program = trace(f, *arrays)
    inputs = {i for nodes in program.sources for i in nodes}
    known = [
        _numbers(n.output) if n.kind in ("leaf", "const") and n.index not in inputs else (n.name, n.params, n.inputs)
        for n in program.nodes
    ]
    return repr(known), program_mirror(program)


def _composed_calls(name: str) -> Iterator[Call]:
    f, arrays = COMPOSED[name]
    given = [_short(a) for a in arrays]
    inherited = [c for node in trace(f, *given).nodes if node.kind == "op" for c in node.prim.conventions]
    stated = (*inherited, *FUNCTIONS.get(STATED.get(name, f).__name__, ()))
    needed = [c for c in stated if not (isinstance(c, OfArrays) and name in NEEDLESS.get((c.at, c.gives), ()))]
    yield Call(name, f, given, lambda arrays: _traced(f, arrays), True, None, tuple(needed))


_COMPLEX_DTYPES = (np.complex128, np.complex64)
COMPLEX_ALL = [n for n in sorted({*COMPLEX, *OTHERS}) if REGISTRY[n].complex and REGISTRY[n].differentiable]
reasons: Counter[str] = Counter()

_ONE_INFINITY = np.array([[0.0625, -0.0625, -0.5], [0.875, inf, 0.6875], [0.75, -0.375, -0.5]])


@pytest.mark.parametrize("more", [0, 1, 3])
def test_determinants_of_matrices_with_infinities_have_the_sign_of_the_minor(more: int) -> None:
    for sign in (1, -1):
        m = np.block([[_ONE_INFINITY * sign, np.zeros((3, more))], [np.ones((more, 3)), np.eye(more)]])
        assert tf.linalg.det(m).numpy() == inf * sign
        assert [float(v) for v in tf.linalg.slogdet(m)] == [sign, inf]


def test_infinity_less_infinity_is_no_determinant() -> None:
    m = tf.constant([[inf, inf], [inf, inf]], tf.float64)
    assert math.isnan(tf.linalg.det(m)) and all(math.isnan(v) for v in tf.linalg.slogdet(m))


def test_cholesky_divides_infinity_by_infinity() -> None:
    factor = tf.linalg.cholesky([[[inf, inf], [inf, inf]], [[inf, 1.0], [1.0, 4.0]], [[4.0, 2.0], [2.0, 2.0]]]).numpy()
    np.testing.assert_array_equal(factor, [[[nan, nan]] * 2, [[inf, 0.0], [0.0, 2.0]], [[2.0, 0.0], [1.0, 1.0]]])


@pytest.mark.parametrize("v", [inf, nan])
@pytest.mark.parametrize("reverse", [False, True])
def test_what_no_product_reads_reaches_no_derivative_of_an_exclusive_cumprod(v: float, reverse: bool) -> None:
    x = tf.constant([v, 3.0, 2.0] if reverse else [2.0, 3.0, v], tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.math.cumprod(x, exclusive=True, reverse=reverse)
    assert tape.gradient(y, x).numpy().tolist() == ([0.0, 2.0, 4.0] if reverse else [4.0, 2.0, 0.0])


def test_triangles_keep_their_zeros_beside_infinities() -> None:
    assert REGISTRY["half_tril"](tf.constant([[2.0, inf], [3.0, 4.0]])).numpy().tolist() == [[1.0, 0.0], [3.0, 2.0]]


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in OTHERS if n not in RAISES])
def test_arrays_give_the_limits_of_their_mirrors(name: str) -> None:
    wrong = list(_deviations(name, _primitive_calls(name, False), dtypes_of(name)))
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong[:8])


def _chosen(name: str) -> bool:
    """A share of the names, if not ``GTAPE_LARGE``."""
    return LARGE or zlib.crc32(name.encode()) % 3 == 0


# Of draws from a gamma distribution balls know no limits, as in `NO_LIMITS`.
@pytest.mark.parametrize("name", [n for n in COMPOSED if n != "random.gamma" and _chosen(n)])
def test_functions_give_the_limits_of_their_mirrors(name: str) -> None:
    dtypes = (np.float64, np.float32) if LARGE else (np.float64,)
    wrong = list(_deviations(name, _composed_calls(name), dtypes))
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong[:8])


@pytest.mark.parametrize("name", [n for n in COMPLEX_ALL if n not in RAISES and _chosen(n)])
def test_complex_numbers_give_the_limits_of_their_mirrors(name: str) -> None:
    wrong = list(_deviations(name, _primitive_calls(name, True), _COMPLEX_DTYPES[: 2 if LARGE else 1]))
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong[:8])


@counts_the_whole_run
def test_every_convention_of_arrays_is_needed() -> None:
    stated = [c for prim in REGISTRY.values() for c in prim.conventions] + [
        c for own in FUNCTIONS.values() for c in own
    ]
    rows = {*COMPLEX_NUMBERS, *[c for c in stated if isinstance(c, OfArrays)]}
    unneeded = rows - counted["kept"]
    assert not unneeded, "\n".join(map(str, unneeded))
    for reason, count in reasons.most_common():
        print(f"{count} x {reason}")
    print(f"{len(counted['cases'])} cases, {len(OTHERS)} ops, {len(COMPOSED)} functions")
