"""Running logarithms of sums of exponentials, and the two shares that make up their derivatives.

With y the running logarithm of exp(x[0]) + ... + exp(x[k]), the newest term has the share p[k] = exp(x[k] - y[k]) in it
and what came before has q[k] = exp(y[k - 1] - y[k]) = 1 - p[k]. A tangent then runs along as dy[k] = p[k] dx[k] +
q[k] dy[k - 1], and the shares move by p[k] q[k] (dx[k] - dy[k - 1]): no derivative of any order subtracts from 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.ops.axes import shape_of
from gtape.ops.scan import axis_from_end, recurrence_kernel, scan_operand, with_batch_axis
from gtape.primitive import REGISTRY, primitive
from gtape.tensor import Tensor

__all__ = ["cumulative_logsumexp"]


# ---------------------------------------------------------------------------------------------- kernels


def _logsumexp_kernel(x: Any) -> Any:
    return np.logaddexp.accumulate(x, axis=-1).astype(x.dtype)


def _exponential(a: Any, b: Any) -> Any:
    """exp(a - b), with the rounding error of the difference put back; 0 where a is minus infinity."""
    d = a - b
    v = d - a
    lost = (a - (d - v)) - (b + v)
    e = np.exp(d) * (1.0 + np.where(np.isfinite(lost), lost, 0.0))
    return np.where(a == -np.inf, 0.0, e)


def _shares(x: Any) -> tuple[Any, Any]:
    """The share of each newest term, and that of what came before."""
    w = x.astype(np.float64)
    top = np.maximum.accumulate(w, axis=-1)
    # Sums relative to the greatest term so far: s[k] = exp(x[k] - top[k]) + exp(top[k - 1] - top[k]) s[k - 1].
    new = _exponential(w, top)
    keep = np.zeros_like(w)
    keep[..., 1:] = _exponential(top[..., :-1], top[..., 1:])
    total = recurrence_kernel(keep, new, axis=-1, reverse=False)
    before = np.zeros_like(w)
    before[..., 1:] = keep[..., 1:] * total[..., :-1]
    p, q = new / total, before / total
    p[..., :1], q[..., :1] = 1.0, 0.0  # the first is all there is, whatever it is
    return p.astype(x.dtype), q.astype(x.dtype)


def _share_kernel(x: Any) -> Any:
    return _shares(x)[0]


def _rest_kernel(x: Any) -> Any:
    return _shares(x)[1]


# ---------------------------------------------------------------------------------------------- rules


def _pull(xp: Any, g: Any, x: Any) -> Any:
    """What each element gets of the cotangents of all running sums that hold it."""
    if not shape_of(x)[-1]:
        return g
    decay = xp.shift(xp.cumulative_rest(x), axis=-1, by=-1)
    return xp.cumulative_share(x) * xp.linear_recurrence(with_batch_axis(xp, decay, g), g, axis=-1, reverse=True)


def _push(xp: Any, t: Any, x: Any) -> Any:
    if not shape_of(x)[-1]:
        return t
    decay = xp.cumulative_rest(x)
    return xp.linear_recurrence(with_batch_axis(xp, decay, t), t * xp.cumulative_share(x), axis=-1, reverse=False)


def _moving(xp: Any, x: Any) -> Any:
    return xp.cumulative_share(x) * xp.cumulative_rest(x)


def _share_pull(xp: Any, g: Any, x: Any) -> Any:
    u = g * _moving(xp, x)
    return u - _pull(xp, xp.shift(u, axis=-1, by=-1), x)


def _share_push(xp: Any, t: Any, x: Any) -> Any:
    return _moving(xp, x) * (t - xp.shift(_push(xp, t, x), axis=-1, by=1))


_SAMPLES: tuple[Any, ...] = ((((3,),), {}), (((2, 2),), {}), (((1,),), {}), (((2, 0),), {}))

_share = primitive(
    "cumulative_share",
    _share_kernel,
    (lambda xp, g, y, x: _share_pull(xp, g, x),),
    (lambda xp, t, y, x: _share_push(xp, t, x),),
    batched=True,
    ulps=2.0,
    public=False,
    samples=_SAMPLES,
)
_rest = primitive(
    "cumulative_rest",
    _rest_kernel,
    (lambda xp, g, y, x: -_share_pull(xp, g, x),),
    (lambda xp, t, y, x: -_share_push(xp, t, x),),
    batched=True,
    ulps=2.0,
    public=False,
    samples=_SAMPLES,
)
_cumulative_logsumexp = primitive(
    "cumulative_logsumexp",
    _logsumexp_kernel,
    (lambda xp, g, y, x: _pull(xp, g, x),),
    (lambda xp, t, y, x: _push(xp, t, x),),
    batched=True,
    ulps=4.0,
    public=False,
    samples=_SAMPLES,
)


# ---------------------------------------------------------------------------------------------- public function


def cumulative_logsumexp(
    x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None
) -> Tensor:
    """Running ``log(sum(exp(x)))`` along an axis, without overflow.

    Parameters
    ----------
    x : floating-point tensor with at least one axis
    axis, exclusive, reverse, name
        As for `cumsum`; with `exclusive` the first result is minus infinity, the logarithm of no terms.

    Returns
    -------
    Tensor
        Of the same shape and dtype.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        For integers and scalars, or when the axis is out of range.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.math.cumulative_logsumexp(tf.constant([1000.0, 1000.0], tf.float64)).numpy()
    array([1000.        , 1000.69314718])
    """
    t = scan_operand(x, "cumulative_logsumexp", floating=True)
    a = axis_from_end(axis, t, "cumulative_logsumexp")
    perm = list(range(t.ndim))
    perm[a], perm[-1] = perm[-1], perm[a]
    if a != -1:
        t = REGISTRY["transpose"](t, perm=tuple(perm))
    if reverse:
        t = REGISTRY["reverse"](t, axis=(-1,))
    y = _cumulative_logsumexp(t)
    n = t._aval.shape[-1]
    if exclusive and n:
        key = ((None, None, 1),) * (t.ndim - 1) + ((0, n - 1, 1),)
        y = REGISTRY["pad"](
            REGISTRY["strided_slice"](y, key=key), paddings=((0, 0),) * (t.ndim - 1) + ((1, 0),), value=-np.inf
        )
    if reverse:
        y = REGISTRY["reverse"](y, axis=(-1,))
    return REGISTRY["transpose"](y, perm=tuple(perm)) if a != -1 else y
