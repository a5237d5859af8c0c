"""Dropout: a mask sets elements to zero. The mask is drawn once and recorded as a constant."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape import errors
from gtape.base.diagnosis import diagnosed
from gtape.base.scalars import float_of
from gtape.declare.primitives import REGISTRY
from gtape.ops.elementwise.selection import where
from gtape.ops.random.draws import drawn, generator_for
from gtape.tensors.axes import scalar_int
from gtape.tensors.tensor import Tensor, convert_to_tensor, wrap

__all__ = ["dropout"]


def dropped(x: Tensor, rate: float, noise_shape: Any, generator: Any) -> Tensor:
    """`dropout` with a mask drawn from a generator."""
    shape = x._layout.shape
    noise: tuple[int, ...] = shape
    if noise_shape is not None:
        given = noise_shape.as_list() if hasattr(noise_shape, "as_list") else np.asarray(noise_shape).tolist()
        own = shape if len(given) == len(shape) else (1,) * len(given)
        noise = tuple([d if n is None else scalar_int(n) for n, d in zip(given, own, strict=True)])
    try:
        keep = wrap(drawn(generator, lambda rng: np.broadcast_to(rng.random(noise) >= rate, shape)))
    except ValueError:
        raise errors.InvalidArgumentError(
            f"dropout: noise_shape {list(noise)} does not broadcast to the shape {list(shape)} of x"
        ) from None
    return where(keep, REGISTRY["over_rest"](x, rate=rate), np.zeros((), x._layout.dtype))


@diagnosed
def dropout(x: Any, rate: Any, noise_shape: Any = None, seed: Any = None, name: str | None = None) -> Tensor:
    """Set elements to zero at random and scale the others, so that the expected value stays the same.

    The mask is drawn once and is a constant of the recorded program.

    Parameters
    ----------
    x : tensor of floats
    rate : float or scalar tensor
        The probability that an element is dropped, at least 0 and less than 1.
    noise_shape : sequence of int, optional
        The shape of the mask, which broadcasts to `x`. Along an axis of size 1 all elements are kept or dropped
        together. None stands for the size of `x`.
    seed : int, optional
        The seed of this op's sequence of draws, see `gtape.random.set_seed`.

    Returns
    -------
    Tensor, shape of `x`

    Raises
    ------
    ValueError
        If `rate` is out of range or `x` is not of floats.
    gtape.errors.InvalidArgumentError
        If `noise_shape` does not broadcast to the shape of `x`.

    Examples
    --------
    >>> tf.random.set_seed(1)
    >>> y = tf.nn.dropout(tf.ones([1000]), rate=0.5, seed=2)
    >>> set(y.numpy().tolist()) == {0.0, 2.0}
    True
    """
    t = convert_to_tensor(x)
    p = float_of(rate, "dropout", "rate")
    if not 0 <= p < 1:
        raise ValueError(f"`rate` must be a scalar tensor or a float in the range [0, 1). Received: rate={p}")
    if not t._layout.inexact:
        raise ValueError(
            f"`x.dtype` must be a floating point tensor as `x` will be scaled. Received: x.dtype={t.dtype.name}"
        )
    if p == 0:
        return t
    return dropped(t, p, noise_shape, generator_for("dropout", t._layout.dtype, seed))
