"""Draws by the global seed and the seed of the op. Results are recorded constants. The names are TensorFlow's."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape import dtypes
from gtape.base.diagnosis import diagnosed
from gtape.base.docstrings import documented_like
from gtape.ops.random.draws import generator_for, shape_of_draw
from gtape.ops.random.samplers import (
    categorical_from,
    float_dtype,
    gamma_from,
    normal_from,
    poisson_from,
    truncated_from,
    uniform_from,
)
from gtape.tensors.tensor import Tensor, convert_to_tensor, wrap

__all__ = ["categorical", "gamma", "normal", "poisson", "shuffle", "truncated_normal", "uniform"]

LETS_OUT = True  # shuffled values leave the tape here, as `gtape.recording.trace` notes


@diagnosed
def normal(
    shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = dtypes.float32, seed: Any = None, name: Any = None
) -> Tensor:
    """Normally distributed numbers. Gradients flow to `mean` and `stddev`.

    Parameters
    ----------
    shape : sequence of int
    mean, stddev : float tensors that broadcast to `shape`
    dtype : floating-point dtype
    seed : int, optional
        See `set_seed`.

    Raises
    ------
    ValueError
        If the dtype is not floating-point.
    gtape.errors.InvalidArgumentError
        If a size is negative, or a parameter has another dtype.

    Examples
    --------
    >>> tf.random.set_seed(1)
    >>> mean = tf.Variable(2.0)
    >>> with tf.GradientTape() as tape:
    ...     y = tf.reduce_sum(tf.random.normal([5], mean, 0.5))
    >>> tape.gradient(y, mean).numpy()
    np.float32(5.0)
    """
    kind = float_dtype(dtype, "random.normal")
    return normal_from(generator_for("normal", kind, seed), shape, mean, stddev, kind, "random.normal")


@diagnosed
@documented_like(normal)
def truncated_normal(
    shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = dtypes.float32, seed: Any = None, name: Any = None
) -> Tensor:
    """Normal numbers within two standard deviations of the mean. Gradients flow to `mean` and `stddev`.

    Examples
    --------
    >>> bool(tf.reduce_max(tf.abs(tf.random.truncated_normal([100]))) < 2.0)
    True
    """
    kind = float_dtype(dtype, "random.truncated_normal")
    rng = generator_for("truncated_normal", kind, seed)
    return truncated_from(rng, shape, mean, stddev, kind, "random.truncated_normal")


@diagnosed
@documented_like(normal)
def uniform(
    shape: Any, minval: Any = 0, maxval: Any = None, dtype: Any = dtypes.float32, seed: Any = None, name: Any = None
) -> Tensor:
    """Uniformly distributed numbers in ``[minval, maxval)``. For floats gradients flow to both ends.

    Parameters
    ----------
    minval, maxval : tensors that broadcast to `shape`
        By default 0 and 1. Integers need a `maxval`.
    dtype : floating-point or integer dtype

    Raises
    ------
    ValueError
        If integers are drawn without `maxval`, or the dtype is another one.
    gtape.errors.InvalidArgumentError
        If no integer lies between the ends.

    Examples
    --------
    >>> x = tf.random.uniform([100], 3, 5, tf.int32)
    >>> int(tf.reduce_min(x)), int(tf.reduce_max(x))
    (3, 4)
    """
    kind = dtypes.np_dtype(dtype)
    return uniform_from(generator_for("uniform", kind, seed), shape, minval, maxval, kind, "random.uniform")


@diagnosed
@documented_like(normal)
def gamma(
    shape: Any, alpha: Any, beta: Any = None, dtype: Any = dtypes.float32, seed: Any = None, name: Any = None
) -> Tensor:
    """Gamma distributed numbers. Gradients flow to `alpha` and `beta`.

    Parameters
    ----------
    shape : sequence of int
        The shape of the draws for each pair of parameters.
    alpha : positive float tensor
        The shape parameter.
    beta : positive float tensor, optional
        The inverse scale. By default 1.

    Returns
    -------
    Tensor
        Shape ``shape + parameters.shape``.

    Raises
    ------
    ValueError
        If the dtype is not floating-point.
    gtape.errors.InvalidArgumentError
        If `alpha` is not positive, or a parameter has another dtype.

    Notes
    -----
    For the derivative by `alpha` the draw moves so that its probability stays the same. The method is implicit
    reparametrisation (Figurnov, Mohamed, Mnih: Implicit Reparameterization Gradients, 2018).

    Examples
    --------
    >>> alpha = tf.Variable([0.5, 3.0])
    >>> with tf.GradientTape() as tape:
    ...     y = tf.random.gamma([4], alpha)
    >>> tuple(y.shape), bool(tf.reduce_all(tape.gradient(y, alpha) > 0.0))
    ((4, 2), True)
    """
    kind = float_dtype(dtype, "random.gamma")
    return gamma_from(generator_for("gamma", kind, seed), shape, alpha, beta, kind, "random.gamma")


@diagnosed
@documented_like(normal)
def poisson(shape: Any, lam: Any, dtype: Any = dtypes.float32, seed: Any = None, name: Any = None) -> Tensor:
    """Poisson distributed numbers. No gradient flows to `lam`.

    Parameters
    ----------
    shape : sequence of int
        The shape of the draws for each rate.
    lam : non-negative tensor
        The rates.
    dtype : floating-point or integer dtype

    Returns
    -------
    Tensor
        Shape ``shape + lam.shape``.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If a rate is negative.

    Examples
    --------
    >>> tuple(tf.random.poisson([10], [1.0, 2.5]).shape)
    (10, 2)
    """
    rng = generator_for("poisson", dtypes.np_dtype(dtype), seed)
    return poisson_from(rng, shape_of_draw(shape) + convert_to_tensor(lam)._layout.shape, lam, dtype)


@diagnosed
def shuffle(value: Any, seed: Any = None, name: Any = None) -> Tensor:
    """The rows of a tensor in random order. No gradient flows through the op, as in TensorFlow.

    Parameters
    ----------
    value : tensor
    seed : int, optional
        See `set_seed`.

    Examples
    --------
    >>> sorted(tf.random.shuffle(tf.constant([3, 1, 2])).numpy().tolist())
    [1, 2, 3]
    """
    t = convert_to_tensor(value)
    if not t._layout.shape:
        return wrap(np.asarray(t)[()])
    order = generator_for("shuffle", t._layout.dtype, seed).permutation(t._layout.shape[0])
    return wrap(np.asarray(t)[order])


@diagnosed
@documented_like(normal)
def categorical(logits: Any, num_samples: Any, dtype: Any = None, seed: Any = None, name: Any = None) -> Tensor:
    """Class numbers drawn from unnormalised log-probabilities.

    Parameters
    ----------
    logits : float tensor, shape (batch, classes)
    num_samples : int
        The number of draws for each row.
    dtype : integer dtype, optional
        int64 by default.

    Returns
    -------
    Tensor
        Shape (batch, num_samples).

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If `logits` is not a matrix, or there are no classes.

    Examples
    --------
    >>> tf.random.categorical([[0.0, 1000.0]], 3).numpy()
    array([[1, 1, 1]])
    """
    wanted = np.dtype(np.int64) if dtype is None else dtypes.np_dtype(dtype)
    return categorical_from(
        generator_for("categorical", wanted, seed), logits, num_samples, wanted, "random.categorical"
    )
