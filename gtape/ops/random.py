"""Random tensors: draws are recorded constants, and gradients flow to the parameters that shift and scale them."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape import dtypes
from gtape.births import born
from gtape.errors import InvalidArgumentError
from gtape.ops.draws import (
    generator_for,
    integer_draw,
    normal_draw,
    seed_words,
    set_seed,
    shape_of_draw,
    stream,
    truncated_draw,
    unit_draw,
)
from gtape.tensor import Tensor, as_operand, convert_to_tensor, wrap

__all__ = [
    "categorical", "gamma", "normal", "poisson", "set_seed", "shuffle", "stateless_binomial", "stateless_categorical",
    "stateless_fold_in", "stateless_gamma", "stateless_normal", "stateless_poisson", "stateless_split",
    "stateless_truncated_normal", "stateless_uniform", "truncated_normal", "uniform",
]  # fmt: skip

_FLOATS = ("float16", "bfloat16", "float32", "float64")


def _float_dtype(dtype: Any, op: str) -> np.dtype[Any]:
    found = dtypes.np_dtype(dtype)
    if dtypes.as_dtype(found).name not in _FLOATS:
        raise ValueError(f"{op}: dtype must be one of {', '.join(_FLOATS)}, got {dtypes.as_dtype(found).name}")
    return found


def _parameter(x: Any, dtype: np.dtype[Any]) -> Tensor:
    """A parameter of a distribution as a tensor of its dtype."""
    t = as_operand(x, wrap(np.zeros((), dtype)))
    if t._aval.dtype != dtype:
        raise InvalidArgumentError(
            f"a parameter is {t.dtype.name} where {dtypes.as_dtype(dtype).name} is drawn: "
            f"pass dtype=gtape.{t.dtype.name}"
        )
    return t


def _shifted(noise: Any, mean: Any, stddev: Any, dtype: np.dtype[Any]) -> Tensor:
    return born(wrap(noise) * _parameter(stddev, dtype) + _parameter(mean, dtype))


def normal_from(rng: np.random.Generator, shape: Any, mean: Any, stddev: Any, dtype: Any, op: str) -> Tensor:
    kind = _float_dtype(dtype, op)
    return _shifted(normal_draw(rng, shape_of_draw(shape), kind), mean, stddev, kind)


def truncated_from(rng: np.random.Generator, shape: Any, mean: Any, stddev: Any, dtype: Any, op: str) -> Tensor:
    kind = _float_dtype(dtype, op)
    return _shifted(truncated_draw(rng, shape_of_draw(shape), kind), mean, stddev, kind)


def uniform_from(rng: np.random.Generator, shape: Any, minval: Any, maxval: Any, dtype: Any, op: str) -> Tensor:
    kind = dtypes.np_dtype(dtype)
    if kind.kind in "iu":
        if maxval is None:
            raise ValueError(f"Must specify maxval for integer dtype {dtypes.as_dtype(kind).name}")
        low, high = _parameter(0 if minval is None else minval, kind), _parameter(maxval, kind)
        return wrap(integer_draw(rng, shape_of_draw(shape), low.numpy(), high.numpy(), kind))
    kind = _float_dtype(dtype, op)
    low = _parameter(0 if minval is None else minval, kind)
    high = _parameter(1 if maxval is None else maxval, kind)
    return born(wrap(unit_draw(rng, shape_of_draw(shape), kind)) * (high - low) + low)


def normal(
    shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = dtypes.float32, seed: Any = None, name: Any = None
) -> Tensor:
    """Normally distributed numbers; gradients flow to `mean` and `stddev`.

    Parameters
    ----------
    shape : sequence of int
    mean, stddev : float tensors that broadcast to `shape`
    dtype : floating-point dtype
    seed : int, optional
        See `set_seed`.
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor

    Raises
    ------
    ValueError
        For a dtype that is no float.
    gtape.errors.InvalidArgumentError
        For a negative size, or a parameter of another dtype.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.random.set_seed(1)
    >>> mean = tf.Variable(2.0)
    >>> with tf.GradientTape() as tape:
    ...     y = tf.reduce_sum(tf.random.normal([5], mean, 0.5))
    >>> tape.gradient(y, mean).numpy()
    np.float32(5.0)
    """
    kind = _float_dtype(dtype, "random.normal")
    return normal_from(generator_for("normal", kind, seed), shape, mean, stddev, kind, "random.normal")


def truncated_normal(
    shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = dtypes.float32, seed: Any = None, name: Any = None
) -> Tensor:
    """Normally distributed numbers within two standard deviations; gradients flow to `mean` and `stddev`.

    Parameters
    ----------
    shape, mean, stddev, dtype, seed, name
        As for `normal`.

    Returns
    -------
    Tensor

    Raises
    ------
    ValueError, gtape.errors.InvalidArgumentError
        As `normal`.

    Examples
    --------
    >>> import gtape as tf
    >>> bool(tf.reduce_max(tf.abs(tf.random.truncated_normal([100]))) < 2.0)
    True
    """
    kind = _float_dtype(dtype, "random.truncated_normal")
    rng = generator_for("truncated_normal", kind, seed)
    return truncated_from(rng, shape, mean, stddev, kind, "random.truncated_normal")


def uniform(
    shape: Any, minval: Any = 0, maxval: Any = None, dtype: Any = dtypes.float32, seed: Any = None, name: Any = None
) -> Tensor:
    """Numbers spread evenly over ``[minval, maxval)``; for floats gradients flow to both ends.

    Parameters
    ----------
    shape : sequence of int
    minval, maxval : tensors that broadcast to `shape`
        0 and 1 by default; whole numbers need a `maxval`.
    dtype : floating-point or integer dtype
    seed : int, optional
        See `set_seed`.
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor

    Raises
    ------
    ValueError
        For whole numbers without `maxval`, or another dtype.
    gtape.errors.InvalidArgumentError
        When whole numbers have no room between the ends.

    Examples
    --------
    >>> import gtape as tf
    >>> x = tf.random.uniform([100], 3, 5, tf.int32)
    >>> int(tf.reduce_min(x)), int(tf.reduce_max(x))
    (3, 4)
    """
    kind = dtypes.np_dtype(dtype)
    return uniform_from(generator_for("uniform", kind, seed), shape, minval, maxval, kind, "random.uniform")


def _gamma(rng: np.random.Generator, shape: Any, alpha: Any, beta: Any, dtype: Any, op: str) -> Tensor:
    from gtape.ops.random_gamma import reparametrised
    from gtape.primitive import REGISTRY

    kind = _float_dtype(dtype, op)
    a = _parameter(alpha, kind)
    b = None if beta is None else _parameter(beta, kind)
    whole = a._aval.shape if b is None else np.broadcast_shapes(a._aval.shape, b._aval.shape)
    whole = shape_of_draw(shape) + whole
    anchor = a.numpy()
    if not np.all(anchor > 0):
        raise InvalidArgumentError(f"{op}: alpha must be positive")
    # Normal noise carries the randomness: it has as many digits in one tail as in the other.
    y = reparametrised(a, normal_draw(rng, whole, kind))
    least = np.finfo(np.float32 if dtypes.as_dtype(kind).name == "bfloat16" else kind).tiny
    y = REGISTRY["maximum"](y, wrap(np.asarray(least).astype(kind)))
    return y if b is None else REGISTRY["divide"](y, b)  # type: ignore[no-any-return]


def gamma(
    shape: Any, alpha: Any, beta: Any = None, dtype: Any = dtypes.float32, seed: Any = None, name: Any = None
) -> Tensor:
    """Gamma distributed numbers; gradients flow to `alpha` and `beta`.

    Parameters
    ----------
    shape : sequence of int
        How many draws for each pair of parameters.
    alpha : positive float tensor
        The shape parameter.
    beta : positive float tensor, optional
        The inverse scale; 1 by default.
    dtype : floating-point dtype
    seed : int, optional
        See `set_seed`.
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor
        Shape ``shape`` followed by that of the parameters.

    Raises
    ------
    ValueError
        For a dtype that is no float.
    gtape.errors.InvalidArgumentError
        When `alpha` is not positive, or a parameter has another dtype.

    Notes
    -----
    The derivative in `alpha` is that of the draw whose probability stays the same: implicit reparametrisation
    (Figurnov, Mohamed, Mnih: Implicit Reparameterization Gradients, 2018).

    Examples
    --------
    >>> import gtape as tf
    >>> alpha = tf.Variable([0.5, 3.0])
    >>> with tf.GradientTape() as tape:
    ...     y = tf.random.gamma([4], alpha)
    >>> tuple(y.shape), bool(tf.reduce_all(tape.gradient(y, alpha) > 0.0))
    ((4, 2), True)
    """
    kind = _float_dtype(dtype, "random.gamma")
    return _gamma(generator_for("gamma", kind, seed), shape, alpha, beta, kind, "random.gamma")


def _poisson(rng: np.random.Generator, shape: tuple[int, ...], lam: Any, dtype: Any) -> Tensor:
    rate = convert_to_tensor(lam).numpy()
    if not np.all(rate >= 0):
        raise InvalidArgumentError("poisson: lam must not be negative")
    return wrap(np.asarray(rng.poisson(rate, shape)).astype(dtypes.np_dtype(dtype)))


def poisson(shape: Any, lam: Any, dtype: Any = dtypes.float32, seed: Any = None, name: Any = None) -> Tensor:
    """Poisson distributed numbers; no gradient flows to `lam`.

    Parameters
    ----------
    shape : sequence of int
        How many draws for each rate.
    lam : non-negative tensor
        The rates.
    dtype : floating-point or integer dtype
    seed : int, optional
        See `set_seed`.
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor
        Shape ``shape + lam.shape``.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        For a negative rate.

    Examples
    --------
    >>> import gtape as tf
    >>> tuple(tf.random.poisson([10], [1.0, 2.5]).shape)
    (10, 2)
    """
    rng = generator_for("poisson", dtypes.np_dtype(dtype), seed)
    return _poisson(rng, shape_of_draw(shape) + convert_to_tensor(lam)._aval.shape, lam, dtype)


def shuffle(value: Any, seed: Any = None, name: Any = None) -> Tensor:
    """The rows of a tensor in random order; no gradient flows through it, as in TensorFlow.

    Parameters
    ----------
    value : tensor
    seed : int, optional
        See `set_seed`.
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import gtape as tf
    >>> sorted(tf.random.shuffle(tf.constant([3, 1, 2])).numpy().tolist())
    [1, 2, 3]
    """
    t = convert_to_tensor(value)
    if not t._aval.shape:
        return wrap(t._value)
    order = generator_for("shuffle", t._aval.dtype, seed).permutation(t._aval.shape[0])
    return wrap(np.asarray(t._value)[order])


def _categorical(rng: np.random.Generator, logits: Any, num_samples: Any, dtype: Any, op: str) -> Tensor:
    t = convert_to_tensor(logits)
    if len(t._aval.shape) != 2:
        raise InvalidArgumentError(f"{op}: logits should be a matrix, got shape {t.shape}")
    n = int(num_samples)
    if n < 0:
        raise InvalidArgumentError(f"{op}: num_samples should be a nonnegative scalar, got {n}")
    values = t.numpy().astype(np.float64)
    if not values.shape[1] and values.shape[0]:
        raise InvalidArgumentError(f"{op}: num_classes should be positive, got 0")
    # The greatest of logits plus Gumbel noise is a draw from their softmax.
    noise = -np.log(rng.standard_exponential((values.shape[0], n, values.shape[1])))
    wanted = np.dtype(np.int64) if dtype is None else dtypes.np_dtype(dtype)
    return wrap(np.argmax(values[:, None, :] + noise, axis=-1).astype(wanted))


def categorical(logits: Any, num_samples: Any, dtype: Any = None, seed: Any = None, name: Any = None) -> Tensor:
    """Draw class numbers from unnormalised log-probabilities.

    Parameters
    ----------
    logits : float tensor, shape (batch, classes)
    num_samples : int
        How many draws for each row.
    dtype : integer dtype, optional
        int64 by default.
    seed : int, optional
        See `set_seed`.
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor
        Shape (batch, num_samples).

    Raises
    ------
    gtape.errors.InvalidArgumentError
        When `logits` is no matrix, or there are no classes.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.random.categorical([[0.0, 1000.0]], 3).numpy()
    array([[1, 1, 1]])
    """
    wanted = np.dtype(np.int64) if dtype is None else dtypes.np_dtype(dtype)
    return _categorical(generator_for("categorical", wanted, seed), logits, num_samples, wanted, "random.categorical")


def binomial_draw(rng: np.random.Generator, shape: Any, counts: Any, probs: Any, dtype: Any) -> Tensor:
    """Numbers of successes in `counts` trials."""
    n, p = convert_to_tensor(counts).numpy(), convert_to_tensor(probs).numpy()
    made = rng.binomial(np.asarray(n, np.int64), p, shape_of_draw(shape))
    return wrap(np.asarray(made).astype(dtypes.np_dtype(dtype)))


# ---------------------------------------------------------------------------------------------- stateless draws


def _stateless(op: str, seed: Any) -> np.random.Generator:
    return stream(2, int.from_bytes(op.encode()), *seed_words(seed))


def stateless_normal(
    shape: Any, seed: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = dtypes.float32, name: Any = None,
    alg: Any = "auto_select",
) -> Tensor:  # fmt: skip
    """Normally distributed numbers that depend on nothing but the arguments.

    Parameters
    ----------
    shape : sequence of int
    seed : 2 integers
    mean, stddev, dtype
        As for `normal`.
    name, alg
        Ignored; TensorFlow has them.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import gtape as tf
    >>> a, b = [tf.random.stateless_normal([2], seed=[1, 2]) for _ in range(2)]
    >>> bool(tf.reduce_all(a == b))
    True
    """
    return normal_from(_stateless("normal", seed), shape, mean, stddev, dtype, "stateless_normal")


def stateless_truncated_normal(
    shape: Any, seed: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = dtypes.float32, name: Any = None,
    alg: Any = "auto_select",
) -> Tensor:  # fmt: skip
    """Normally distributed numbers within two standard deviations that depend on nothing but the arguments.

    Parameters
    ----------
    shape, seed, mean, stddev, dtype, name, alg
        As for `stateless_normal`.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import gtape as tf
    >>> tuple(tf.random.stateless_truncated_normal([2], seed=[1, 2]).shape)
    (2,)
    """
    return truncated_from(_stateless("truncated", seed), shape, mean, stddev, dtype, "stateless_truncated_normal")


def stateless_uniform(
    shape: Any, seed: Any, minval: Any = 0, maxval: Any = None, dtype: Any = dtypes.float32, name: Any = None,
    alg: Any = "auto_select",
) -> Tensor:  # fmt: skip
    """Numbers spread evenly over ``[minval, maxval)`` that depend on nothing but the arguments.

    Parameters
    ----------
    shape : sequence of int
    seed : 2 integers
    minval, maxval, dtype
        As for `uniform`; both None for whole numbers of the dtype's full range.
    name, alg
        Ignored; TensorFlow has them.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import gtape as tf
    >>> tf.random.stateless_uniform([2], [1, 2], 0, 10, tf.int32).dtype.name
    'int32'
    """
    rng = _stateless("uniform", seed)
    kind = dtypes.np_dtype(dtype)
    if kind.kind in "iu" and minval is None and maxval is None:
        return wrap(full_draw(rng, shape, kind))
    return uniform_from(rng, shape, minval, maxval, kind, "stateless_uniform")


def full_draw(rng: np.random.Generator, shape: Any, dtype: Any) -> Any:
    """Whole numbers of the dtype's full range."""
    info = np.iinfo(dtype)
    return np.asarray(rng.integers(info.min, info.max, shape_of_draw(shape), dtype=dtype, endpoint=True))


def stateless_gamma(
    shape: Any, seed: Any, alpha: Any, beta: Any = None, dtype: Any = dtypes.float32, name: Any = None
) -> Tensor:
    """Gamma distributed numbers that depend on nothing but the arguments; gradients flow to `alpha` and `beta`.

    Parameters
    ----------
    shape : sequence of int
        Of the result; ends in the shape of the parameters.
    seed : 2 integers
    alpha, beta, dtype
        As for `gamma`.
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor

    Raises
    ------
    gtape.errors.InvalidArgumentError
        When `shape` does not end in that of the parameters.

    Examples
    --------
    >>> import gtape as tf
    >>> tuple(tf.random.stateless_gamma([4, 2], [1, 2], alpha=[0.5, 1.5]).shape)
    (4, 2)
    """
    whole = shape_of_draw(shape)
    sizes = [convert_to_tensor(p)._aval.shape for p in (alpha, beta) if p is not None]
    inner = np.broadcast_shapes(*sizes)
    if inner and whole[-len(inner) :] != inner:
        raise InvalidArgumentError(
            f"stateless_gamma: shape {list(whole)} does not end in {list(inner)}, the parameters'"
        )
    outer = whole[: len(whole) - len(inner)]
    return _gamma(_stateless("gamma", seed), outer, alpha, beta, dtype, "stateless_gamma")


def stateless_poisson(shape: Any, seed: Any, lam: Any, dtype: Any = dtypes.int32, name: Any = None) -> Tensor:
    """Poisson distributed numbers that depend on nothing but the arguments.

    Parameters
    ----------
    shape : sequence of int
        Of the result; that of `lam` broadcasts to it.
    seed : 2 integers
    lam : non-negative tensor
    dtype : floating-point or integer dtype
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import gtape as tf
    >>> tuple(tf.random.stateless_poisson([4, 2], [1, 2], [1.0, 3.0]).shape)
    (4, 2)
    """
    return _poisson(_stateless("poisson", seed), shape_of_draw(shape), lam, dtype)


def stateless_categorical(
    logits: Any, num_samples: Any, seed: Any, dtype: Any = dtypes.int64, name: Any = None
) -> Tensor:
    """Draw class numbers that depend on nothing but the arguments.

    Parameters
    ----------
    logits, num_samples, dtype
        As for `categorical`.
    seed : 2 integers
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor
        Shape (batch, num_samples).

    Examples
    --------
    >>> import gtape as tf
    >>> tf.random.stateless_categorical([[0.0, 1000.0]], 3, seed=[1, 2]).numpy()
    array([[1, 1, 1]])
    """
    return _categorical(_stateless("categorical", seed), logits, num_samples, dtype, "stateless_categorical")


def stateless_binomial(
    shape: Any, seed: Any, counts: Any, probs: Any, output_dtype: Any = dtypes.int32, name: Any = None
) -> Tensor:
    """Numbers of successes that depend on nothing but the arguments.

    Parameters
    ----------
    shape : sequence of int
    seed : 2 integers
    counts, probs : tensors that broadcast to `shape`
        How many trials, and how likely each is to succeed.
    output_dtype : dtype
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import gtape as tf
    >>> tf.random.stateless_binomial([2], [1, 2], counts=5.0, probs=1.0).numpy()
    array([5, 5], dtype=int32)
    """
    return binomial_draw(_stateless("binomial", seed), shape, counts, probs, output_dtype)


def stateless_split(seed: Any, num: int = 2, alg: Any = "auto_select") -> Tensor:
    """Several seeds from one, for draws that have nothing to do with each other.

    Parameters
    ----------
    seed : 2 integers
    num : int
        How many.
    alg
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor
        Shape (num, 2).

    Examples
    --------
    >>> import gtape as tf
    >>> tuple(tf.random.split([1, 2], num=3).shape)
    (3, 2)
    """
    kind = convert_to_tensor(seed)._aval.dtype
    return wrap(full_draw(_stateless("split", seed), [int(num), 2], kind))


def stateless_fold_in(seed: Any, data: Any, alg: Any = "auto_select") -> Tensor:
    """A new seed from a seed and an integer.

    Parameters
    ----------
    seed : 2 integers
    data : int or integer scalar tensor
    alg
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor
        Shape (2,).

    Examples
    --------
    >>> import gtape as tf
    >>> tuple(tf.random.fold_in([1, 2], 3).shape)
    (2,)
    """
    kind = convert_to_tensor(seed)._aval.dtype
    rng = stream(3, *seed_words(seed), int(data))
    return wrap(full_draw(rng, [2], kind))
