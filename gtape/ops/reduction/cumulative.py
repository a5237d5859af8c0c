"""Running logarithms of sums of exponentials, and the primitives of their derivatives.

Let y[k] be the logarithm of exp(x[0]) + ... + exp(x[k]). The newest term has the share p[k] = exp(x[k] - y[k]), all
earlier terms together have q[k] = exp(y[k - 1] - y[k]) = 1 - p[k]. `cumulative_push` maps a tangent t to its weighted
mean::

    push[k] = p[k] t[k] + q[k] push[k - 1]

and `cumulative_pull`, its transpose, maps cotangents back. The derivatives of means in x are covariances. They are
computed from differences, because these do not cancel if one share is near 1: C[k] = q[k]² C[k - 1] + p[k] q[k] times
the mean of (v[k] - v)(t[k] - t) over the terms before k.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.base.diagnosis import diagnosed
from gtape.base.docstrings import documented_like
from gtape.declare.conventions import EQUAL_SHARES, EXPONENTIALS, ITS_SLOPE_HAS_EQUAL_SHARES, ITS_SLOPE_IS_SOFTMAX
from gtape.declare.primitives import REGISTRY, primitive
from gtape.declare.rounding import growing, stable
from gtape.kernels.double import doubled
from gtape.kernels.scans import recurrence
from gtape.ops.reduction.scan import axis_from_end, cumsum, scan_operand, with_batch_axis
from gtape.tensors.axes import shape_of
from gtape.tensors.tensor import Tensor

__all__ = ["cumulative_logsumexp"]


# ---------------------------------------------------------------------------------------------- kernels


def _logsumexp_kernel(x: Any) -> Any:
    return np.logaddexp.accumulate(x, axis=-1).astype(x.dtype)


def _exponential(a: Any, b: Any) -> Any:
    """The value exp(a - b), corrected for the rounding error of the difference; 0 if a is minus infinity."""
    d = a - b
    v = d - a
    lost = (a - (d - v)) - (b + v)
    e = np.exp(d) * (1.0 + np.where(np.isfinite(lost), lost, 0.0))
    return np.where(a == -np.inf, 0.0, e)


def _shares(x: Any) -> tuple[Any, Any]:
    """The share of each newest term, and the share of all terms before it."""
    w = x.astype(np.float64)
    top = np.maximum.accumulate(w, axis=-1)
    # Sums relative to the greatest term so far: s[k] = exp(x[k] - top[k]) + exp(top[k - 1] - top[k]) s[k - 1].
    new = _exponential(w, top)
    keep = np.zeros_like(w)
    keep[..., 1:] = _exponential(top[..., :-1], top[..., 1:])
    total = recurrence(keep, new, axis=-1, reverse=False)
    before = np.zeros_like(w)
    before[..., 1:] = keep[..., 1:] * total[..., :-1]
    p, q = new / total, before / total
    if np.any(total == 0):  # if all terms are -inf, they have equal shares, as in `reduce_logsumexp`
        equal = 1.0 / np.arange(1, w.shape[-1] + 1)
        p, q = np.where(total == 0, equal, p), np.where(total == 0, 1.0 - equal, q)
    p[..., :1], q[..., :1] = 1.0, 0.0  # also if the first element is infinite or NaN
    return p.astype(x.dtype), q.astype(x.dtype)


def _share_kernel(x: Any) -> Any:
    return _shares(x)[0]


def _rest_kernel(x: Any) -> Any:
    return _shares(x)[1]


def _weights(x: Any, like: Any) -> tuple[Any, Any]:
    """The shares in double precision, with the leading axes of `like`."""
    shares = _shares(x.astype(np.float64, copy=False))
    return tuple([np.broadcast_to(v, like.shape) for v in shares])  # type: ignore[return-value]


def _pull_kernel(x: Any, g: Any) -> Any:
    if not x.shape[-1]:
        return g.copy()
    p, q = _weights(x, g)
    decay = np.zeros(g.shape)
    decay[..., :-1] = q[..., 1:]
    back = recurrence(decay, g.astype(np.float64, copy=False), axis=-1, reverse=True)
    out = p * back
    impossible = np.logical_and.accumulate(x == -np.inf, axis=-1) & (back != 0)
    if np.any(impossible[..., 1:]):  # without a derivative: NaN, as in `reduce_logsumexp`, also for earlier terms
        impossible[..., 0] = False
        out[np.logical_or.accumulate(impossible[..., ::-1], axis=-1)[..., ::-1]] = np.nan
    return out.astype(g.dtype, copy=False)


def _push_kernel(x: Any, t: Any) -> Any:
    if not x.shape[-1]:
        return t.copy()
    p, q = _weights(x, t)
    return recurrence(q, p * t, axis=-1, reverse=False).astype(t.dtype, copy=False)


# ---------------------------------------------------------------------------------------------- rules


def _before(xp: Any, v: Any) -> Any:
    return xp.shift(v, axis=-1, by=1)


def _bend(xp: Any, x: Any, g: Any, v: Any) -> Any:
    """The derivative of pull(x, g) by x along v, symmetric in g and v."""
    if not shape_of(x)[-1]:
        return g * v
    (x, g, v), home = doubled(xp, x, g, v)
    q = xp.cumulative_rest(x)
    weight = xp.linear_recurrence(
        with_batch_axis(xp, xp.shift(q * q, axis=-1, by=-1), g), g, axis=-1, reverse=True
    ) * _moving(xp, x)
    after = xp.shift(weight * v, axis=-1, by=-1), xp.shift(weight, axis=-1, by=-1)
    here = weight * (v - _before(xp, xp.cumulative_push(x, v)))
    return home(here - xp.cumulative_pull(x, after[0]) + v * xp.cumulative_pull(x, after[1]))


def _covariance(xp: Any, x: Any, v: Any, t: Any) -> Any:
    """The derivative of push(x, t) by x along v."""
    if not shape_of(x)[-1]:
        return v * t
    (x, v, t), home = doubled(xp, x, v, t)
    q = xp.cumulative_rest(x)
    mean_v, mean_t, mean = (_before(xp, xp.cumulative_push(x, z)) for z in (v, t, v * t))
    new = _moving(xp, x) * (v * t - v * mean_t - t * mean_v + mean)
    return home(xp.linear_recurrence(with_batch_axis(xp, q * q, new), new, axis=-1, reverse=False))


def _moving(xp: Any, x: Any) -> Any:
    return xp.cumulative_share(x) * xp.cumulative_rest(x)


def _share_pull(xp: Any, g: Any, x: Any) -> Any:
    u = g * _moving(xp, x)
    return u - xp.cumulative_pull(x, xp.shift(u, axis=-1, by=-1))


def _share_push(xp: Any, t: Any, x: Any) -> Any:
    return _moving(xp, x) * (t - _before(xp, xp.cumulative_push(x, t)))


_SAMPLES: tuple[Any, ...] = ((((3,),), {}), (((2, 2),), {}), (((1,),), {}), (((2, 0),), {}))

_share = primitive(
    "cumulative_share", _share_kernel,
    (lambda xp, g, y, x: _share_pull(xp, g, x),), (lambda xp, t, y, x: _share_push(xp, t, x),),
    reads=((0,),), batched=True, rounding=growing(2, wide=True),
    samples=_SAMPLES,
    conventions=(EXPONENTIALS, EQUAL_SHARES),
)  # fmt: skip
_rest = primitive(
    "cumulative_rest", _rest_kernel,
    (lambda xp, g, y, x: -_share_pull(xp, g, x),), (lambda xp, t, y, x: -_share_push(xp, t, x),),
    reads=((0,),), batched=True, rounding=growing(2, wide=True),
    samples=_SAMPLES,
    conventions=(EXPONENTIALS, EQUAL_SHARES),
)  # fmt: skip
_PAIRS: tuple[Any, ...] = tuple(((s[0], s[0]), {}) for s, _ in _SAMPLES)
_pull = primitive(
    "cumulative_pull", _pull_kernel,
    (
        lambda xp, h, y, x, g: _bend(xp, x, g, h),
        lambda xp, h, y, x, g: xp.cumulative_push(x, h),
    ),
    (
        lambda xp, t, y, x, g: _bend(xp, x, g, t),
        lambda xp, t, y, x, g: xp.cumulative_pull(x, t),
    ),
    reads=((0, 1), (0,)), batched=True,
    rounding=stable(0.5, 4.5, by=lambda x, g: _pull_kernel(x, abs(g)), feeds=1, wide=True),
    samples=_PAIRS,
    conventions=(EXPONENTIALS, ITS_SLOPE_HAS_EQUAL_SHARES),
)  # fmt: skip
_push = primitive(
    "cumulative_push", _push_kernel,
    (
        lambda xp, g, y, x, t: _bend(xp, x, g, t),
        lambda xp, g, y, x, t: xp.cumulative_pull(x, g),
    ),
    (
        lambda xp, v, y, x, t: _covariance(xp, x, v, t),
        lambda xp, v, y, x, t: xp.cumulative_push(x, v),
    ),
    reads=((0, 1), (0,)), batched=True,
    rounding=stable(0.5, 4.5, by=lambda x, t: _push_kernel(x, abs(t)), feeds=1, wide=True),
    samples=_PAIRS,
    conventions=(EXPONENTIALS, EQUAL_SHARES),
)  # fmt: skip
_cumulative_logsumexp = primitive(
    "cumulative_logsumexp", _logsumexp_kernel,
    (lambda xp, g, y, x: xp.cumulative_pull(x, g),), (lambda xp, t, y, x: xp.cumulative_push(x, t),),
    reads=((0,),), batched=True, rounding=stable(3, 3),
    samples=_SAMPLES,
    conventions=(ITS_SLOPE_IS_SOFTMAX, ITS_SLOPE_HAS_EQUAL_SHARES),
)  # fmt: skip


# ---------------------------------------------------------------------------------------------- public function


@diagnosed
@documented_like(cumsum)
def cumulative_logsumexp(
    x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None
) -> Tensor:
    """Running ``log(sum(exp(x)))`` along an axis without overflow.

    Parameters
    ----------
    x : floating-point tensor with at least one axis
    exclusive : bool
        Whether to leave out the element itself. The first result is then minus infinity.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If `x` holds integers or is a scalar, or if the axis is out of range.

    Examples
    --------
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
    n = t._layout.shape[-1]
    if exclusive and n:
        key = ((None, None, 1),) * (t.ndim - 1) + ((0, n - 1, 1),)
        y = REGISTRY["pad"](
            REGISTRY["strided_slice"](y, key=key), paddings=((0, 0),) * (t.ndim - 1) + ((1, 0),), value=-np.inf
        )
    if reverse:
        y = REGISTRY["reverse"](y, axis=(-1,))
    return REGISTRY["transpose"](y, perm=tuple(perm)) if a != -1 else y
