"""Draws that depend only on their arguments, which include the seed."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape import dtypes
from gtape.base.diagnosis import diagnosed
from gtape.base.docstrings import documented_like
from gtape.base.scalars import int_of
from gtape.errors import InvalidArgumentError
from gtape.kernels.broadcasting import broadcast_shapes
from gtape.ops.random.draws import seed_words, shape_of_draw, stream
from gtape.ops.random.samplers import (
    binomial_from,
    categorical_from,
    full_range_from,
    gamma_from,
    normal_from,
    poisson_from,
    truncated_from,
    uniform_from,
)
from gtape.tensors.tensor import Tensor, convert_to_tensor, wrap

__all__ = [
    "stateless_binomial", "stateless_categorical", "stateless_fold_in", "stateless_gamma", "stateless_normal",
    "stateless_poisson", "stateless_split", "stateless_truncated_normal", "stateless_uniform",
]  # fmt: skip


def _stateless(op: str, seed: Any) -> np.random.Generator:
    return stream(2, int.from_bytes(op.encode()), *seed_words(seed))


@diagnosed
def stateless_normal(
    shape: Any, seed: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = dtypes.float32, name: Any = None,
    alg: Any = "auto_select",
) -> Tensor:  # fmt: skip
    """Normally distributed numbers that depend only on the arguments.

    Parameters
    ----------
    shape : sequence of int
    seed : 2 integers
    mean, stddev, dtype
        As in `normal`.
    alg
        Ignored; TensorFlow has it.

    Examples
    --------
    >>> a, b = [tf.random.stateless_normal([2], seed=[1, 2]) for _ in range(2)]
    >>> bool(tf.reduce_all(a == b))
    True
    """
    return normal_from(_stateless("normal", seed), shape, mean, stddev, dtype, "stateless_normal")


@diagnosed
@documented_like(stateless_normal)
def stateless_truncated_normal(
    shape: Any, seed: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = dtypes.float32, name: Any = None,
    alg: Any = "auto_select",
) -> Tensor:  # fmt: skip
    """Normally distributed numbers within two standard deviations that depend only on the arguments.

    Examples
    --------
    >>> tuple(tf.random.stateless_truncated_normal([2], seed=[1, 2]).shape)
    (2,)
    """
    return truncated_from(_stateless("truncated", seed), shape, mean, stddev, dtype, "stateless_truncated_normal")


@diagnosed
@documented_like(stateless_normal)
def stateless_uniform(
    shape: Any, seed: Any, minval: Any = 0, maxval: Any = None, dtype: Any = dtypes.float32, name: Any = None,
    alg: Any = "auto_select",
) -> Tensor:  # fmt: skip
    """Uniformly distributed numbers in ``[minval, maxval)`` that depend only on the arguments.

    Parameters
    ----------
    minval, maxval, dtype
        As in `uniform`. If both ends are None, the draws are integers of the dtype's full range.

    Examples
    --------
    >>> tf.random.stateless_uniform([2], [1, 2], 0, 10, tf.int32).dtype.name
    'int32'
    """
    rng = _stateless("uniform", seed)
    kind = dtypes.np_dtype(dtype)
    if kind.kind in "iu" and minval is None and maxval is None:
        return wrap(full_range_from(rng, shape, kind))
    return uniform_from(rng, shape, minval, maxval, kind, "stateless_uniform")


@diagnosed
@documented_like(stateless_normal)
def stateless_gamma(
    shape: Any, seed: Any, alpha: Any, beta: Any = None, dtype: Any = dtypes.float32, name: Any = None
) -> Tensor:
    """Gamma distributed numbers that depend only on the arguments. Gradients flow to `alpha` and `beta`.

    Parameters
    ----------
    shape : sequence of int
        The shape of the result, ending with the shape of the parameters.
    alpha, beta, dtype
        As in `gamma`.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If `shape` does not end with the shape of the parameters.

    Examples
    --------
    >>> tuple(tf.random.stateless_gamma([4, 2], [1, 2], alpha=[0.5, 1.5]).shape)
    (4, 2)
    """
    whole = shape_of_draw(shape)
    sizes = [convert_to_tensor(p)._layout.shape for p in (alpha, beta) if p is not None]
    inner = broadcast_shapes(*sizes)
    if inner and whole[-len(inner) :] != inner:
        raise InvalidArgumentError(
            f"stateless_gamma: shape {list(whole)} does not end in {list(inner)}, the parameters'"
        )
    outer = whole[: len(whole) - len(inner)]
    return gamma_from(_stateless("gamma", seed), outer, alpha, beta, dtype, "stateless_gamma")


@diagnosed
@documented_like(stateless_normal)
def stateless_poisson(shape: Any, seed: Any, lam: Any, dtype: Any = dtypes.int32, name: Any = None) -> Tensor:
    """Poisson distributed numbers that depend only on the arguments.

    Parameters
    ----------
    shape : sequence of int
        The shape of the result, to which `lam` broadcasts.
    lam : non-negative tensor
    dtype : floating-point or integer dtype

    Examples
    --------
    >>> tuple(tf.random.stateless_poisson([4, 2], [1, 2], [1.0, 3.0]).shape)
    (4, 2)
    """
    return poisson_from(_stateless("poisson", seed), shape_of_draw(shape), lam, dtype)


@diagnosed
@documented_like(stateless_normal)
def stateless_categorical(
    logits: Any, num_samples: Any, seed: Any, dtype: Any = dtypes.int64, name: Any = None
) -> Tensor:
    """Class numbers, drawn from log-probabilities, that depend only on the arguments.

    Parameters
    ----------
    logits, num_samples, dtype
        As in `categorical`.

    Returns
    -------
    Tensor
        Shape (batch, num_samples).

    Examples
    --------
    >>> tf.random.stateless_categorical([[0.0, 1000.0]], 3, seed=[1, 2]).numpy()
    array([[1, 1, 1]])
    """
    return categorical_from(_stateless("categorical", seed), logits, num_samples, dtype, "stateless_categorical")


@diagnosed
@documented_like(stateless_normal)
def stateless_binomial(
    shape: Any, seed: Any, counts: Any, probs: Any, output_dtype: Any = dtypes.int32, name: Any = None
) -> Tensor:
    """Numbers of successes in trials that depend only on the arguments.

    Parameters
    ----------
    counts, probs : tensors that broadcast to `shape`
        The number of trials, and the probability of success in one trial.
    output_dtype : dtype

    Examples
    --------
    >>> tf.random.stateless_binomial([2], [1, 2], counts=5.0, probs=1.0).numpy()
    array([5, 5], dtype=int32)
    """
    return binomial_from(_stateless("binomial", seed), shape, counts, probs, output_dtype)


@diagnosed
def stateless_split(seed: Any, num: int = 2, alg: Any = "auto_select") -> Tensor:
    """Several seeds from one, for independent draws.

    Parameters
    ----------
    seed : 2 integers
    num : int
        The number of seeds.
    alg
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor
        Shape (num, 2).

    Examples
    --------
    >>> tuple(tf.random.split([1, 2], num=3).shape)
    (3, 2)
    """
    kind = convert_to_tensor(seed)._layout.dtype
    return wrap(full_range_from(_stateless("split", seed), [int_of(num, "split", "num"), 2], kind))


@diagnosed
@documented_like(stateless_split)
def stateless_fold_in(seed: Any, data: Any, alg: Any = "auto_select") -> Tensor:
    """A new seed from a seed and an integer.

    Parameters
    ----------
    data : int or integer scalar tensor

    Returns
    -------
    Tensor
        Shape (2,).

    Examples
    --------
    >>> tuple(tf.random.fold_in([1, 2], 3).shape)
    (2,)
    """
    kind = convert_to_tensor(seed)._layout.dtype
    rng = stream(3, *seed_words(seed), int_of(data, "fold_in", "data"))
    return wrap(full_range_from(rng, [2], kind))
