"""Softmax, its logarithm and its cross-entropy, with the two maps that make up their derivatives.

With p = softmax(x), the derivatives of all orders are made of two linear maps of a cotangent::

    softmax_center(x, g) = g - sum(p g)     softmax_spread(x, h) = h - p sum(h)

The maps are transposes of each other. If one p is nearly 1, as in a trained classifier, both formulas cancel. The
kernels then leave the greatest element out of the sums, because all p add up to 1. So the gradient 1 - p keeps its
digits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape import errors
from gtape.base.diagnosis import diagnosed
from gtape.base.docstrings import documented_like
from gtape.base.scalars import int_of
from gtape.declare.conventions import ENTROPIES, EQUAL_SHARES, EXPONENTIALS, ITS_SLOPE_HAS_EQUAL_SHARES, SUMMED
from gtape.declare.primitives import primitive
from gtape.declare.rounding import stable
from gtape.tensors.axes import shape_of
from gtape.tensors.operands import float_operand
from gtape.tensors.tensor import Tensor

__all__ = ["log_softmax", "softmax"]

# ---------------------------------------------------------------------------------------------- kernels


_SHORT = 64  # classes; fewer are reduced several times faster with the rows side by side in memory


def _work(x: Any, axis: int) -> Any:
    """`x` in float64, in which float32 differences and exponentials are nearly exact, laid out for reductions."""
    if axis == -1 and x.ndim == 2 and x.shape[1] <= _SHORT:
        return x.astype(np.float64, order="F")
    return x.astype(np.float64, copy=False)


class _Parts:
    """The common start of all kernels: exp(x - max), and the choice of the sums.

    Attributes
    ----------
    d : x - max(x)
    e : exp(d)
    total : sum of `e`
    plain : bool
        True if the input is float32 and no p is near 1: float64 then has enough digits for plain sums. Otherwise the
        sums leave out the greatest elements, see `_Careful`.
    """

    __slots__ = ("d", "e", "plain", "total")

    def __init__(self, x: Any, axis: int) -> None:
        w = _work(x, axis)
        m = np.maximum.reduce(w, axis=axis, keepdims=True)
        self.d = d = w - m
        self.e = e = np.exp(d)
        double = x.dtype == np.float64
        if double:
            # The exact rounding error of x - max is added, because exp magnifies the error by |x - max|.
            b = d - w
            lost = (w - (d - b)) - (m + b)
            e *= 1 + (lost if np.isfinite(np.add.reduce(lost, axis=None)) else np.where(np.isfinite(lost), lost, 0))
        self.total = np.add.reduce(e, axis=axis, keepdims=True)
        self.plain = not double and bool(np.minimum.reduce(self.total, axis=None) > 1.0000001)


class _Careful:
    """Sums without the greatest elements, where e is 1.

    Attributes
    ----------
    top : where x is the maximum
    ties : the number of these elements
    rest : `e` with 0 in place of the ones
    others : sum of `rest`
    total : sum of `e`
    """

    __slots__ = ("others", "rest", "ties", "top", "total")

    def __init__(self, parts: _Parts, axis: int) -> None:
        self.top = top = parts.d == 0
        self.rest = rest = parts.e
        rest[top] = 0
        self.ties = np.add.reduce(top, axis=axis, keepdims=True, dtype=np.float64)
        self.others = np.add.reduce(rest, axis=axis, keepdims=True)
        self.total = self.others + self.ties

    def split(self, g: Any, axis: int) -> tuple[Any, Any]:
        """`g` without its values at the greatest elements, and the sum of these values."""
        others = np.where(self.top, 0, g)
        return others, np.add.reduce(g - others, axis=axis, keepdims=True)


def _softmax(x: Any, *, axis: int) -> Any:
    if not x.size:
        return x.copy()
    parts = _Parts(x, axis)
    return (parts.e / parts.total).astype(x.dtype, order="C", copy=False)


def _logs(x: Any, axis: int) -> Any:
    parts = _Parts(x, axis)
    if parts.plain:
        return parts.d - np.log(parts.total)
    care = _Careful(parts, axis)
    # One greatest element is left out, because log1p then keeps the digits of a small sum of the others.
    return parts.d - np.log1p(care.others + (care.ties - 1))


def _log_softmax(x: Any, *, axis: int) -> Any:
    if not x.size:
        return x.copy()
    return _logs(x, axis).astype(x.dtype, order="C", copy=False)


def _cross_entropy(labels: Any, logits: Any, *, axis: int) -> Any:
    if not logits.size:
        return np.zeros(np.add.reduce(logits, axis=axis).shape, logits.dtype)
    terms = _logs(logits, axis)
    np.multiply(terms, labels, out=terms)
    loss = np.add.reduce(terms, axis=axis)
    if not np.isfinite(np.add.reduce(loss, axis=None)):
        # A class with label 0 and logit -inf adds nothing.
        loss = np.add.reduce(np.where(labels == 0, 0, terms), axis=axis)
    return (0 - loss).astype(logits.dtype, copy=False)  # a loss of zero has no minus sign


def _center(x: Any, g: Any, *, axis: int) -> Any:
    if not x.size:
        return g - x
    parts = _Parts(x, axis)
    w = _work(g, axis)
    if parts.plain:
        out = w - np.add.reduce(parts.e * w, axis=axis, keepdims=True) / parts.total
    else:
        care = _Careful(parts, axis)
        # A constant does not change the result. The value of g at the greatest p is subtracted, because its share would
        # cancel. If no p is near 1, this value may be much larger than the result, so the mean of g is subtracted.
        spread = (care.others > care.ties) | (care.ties > 1)
        weights, at = care.rest, care.split(w, axis)[1] / care.ties
        if spread.any():
            weights = np.where(care.top & spread, 1.0, care.rest)
            at = np.where(spread, np.add.reduce(weights * w, axis=axis, keepdims=True) / care.total, at)
        out = w - at
        out -= np.add.reduce(weights * out, axis=axis, keepdims=True) / care.total
    if np.isnan(np.add.reduce(parts.total, axis=None)):
        # An impossible state, whose elements are all -inf, gets 0, because its p is NaN and must add nothing.
        none = np.isnan(parts.total) & ~np.any(w, axis=axis, keepdims=True)
        out = np.where(none, 0, out)
        # In forward mode tangents of such a state get equal shares, as in logsumexp, because later ops give the state
        # no weight.
        impossible = np.all(x == -np.inf, axis=axis, keepdims=True)
        out = np.where(impossible, w - np.mean(w, axis=axis, keepdims=True), out)
    return out.astype(g.dtype, order="C", copy=False)


def _spread(x: Any, h: Any, *, axis: int) -> Any:
    if not x.size:
        return h - x
    parts = _Parts(x, axis)
    w = _work(h, axis)
    if parts.plain:
        out = w - parts.e * (np.add.reduce(w, axis=axis, keepdims=True) / parts.total)
    else:
        care = _Careful(parts, axis)
        others, at_top = care.split(w, axis)
        rest = np.add.reduce(others, axis=axis, keepdims=True)
        # At a greatest element, h - p sum(h) = (h sum(rest) + (ties h - sum of h there) - sum of the other h) / total.
        # The formula does not cancel, because for one greatest element 1 - p and sum(h) - h are sums over the other
        # elements.
        value = (w * care.others + (care.ties * w - at_top) - rest) / care.total
        out = np.where(care.top, value, others - (care.rest / care.total) * (rest + at_top))
    return out.astype(h.dtype, order="C", copy=False)


# ---------------------------------------------------------------------------------------------- rules


def _total(xp: Any, x: Any, axis: int) -> Any:
    return xp.sum(x, axis=(axis,), keepdims=True)


def _curved(xp: Any, x: Any, h: Any, g: Any, axis: int) -> Any:
    """The derivative of both maps by x: minus sum(h) times the derivative of softmax along g."""
    return -_total(xp, h, axis) * (xp.softmax(x, axis=axis) * xp.softmax_center(x, g, axis=axis))


def _kept(xp: Any, g: Any, axis: int) -> Any:
    """A reduced cotangent with its axis of size 1. `axis` counts from the end."""
    shape = shape_of(g)
    at = len(shape) + 1 + axis
    return xp.reshape(g, shape=(*shape[:at], 1, *shape[at:]))


def _center_terms(x: Any, t: Any, *, axis: int) -> Any:
    return np.abs(t) + np.sum(_softmax(x, axis=axis) * np.abs(t), axis=axis, keepdims=True)


def _spread_terms(x: Any, g: Any, *, axis: int) -> Any:
    return np.abs(g) + _softmax(x, axis=axis) * np.sum(np.abs(g), axis=axis, keepdims=True)


_ONE = (
    (((3,),), {"axis": -1}),
    (((1,),), {"axis": -1}),
    (((2, 2),), {"axis": -1}),
    (((2, 2),), {"axis": -2}),
)
_TWO = tuple(((shapes[0], shapes[0]), params) for shapes, params in _ONE)

softmax_op = primitive(
    "softmax", _softmax,
    vjp=(lambda xp, g, y, x, *, axis: y * xp.softmax_center(x, g, axis=axis),),
    jvp=(lambda xp, t, y, x, *, axis: y * xp.softmax_center(x, t, axis=axis),),
    params=("axis",), batched=True, rounding=stable(4, wide=True),
    samples=_ONE,
    conventions=EXPONENTIALS,
    rewrites=(
        (
            ("log", ("softmax", "X")), "log(softmax(x)) is gtape.nn.log_softmax(x)",
            lambda xp, x, *, axis: xp.log_softmax(x, axis=axis),
        ),
    ),
)  # fmt: skip

log_softmax_op = primitive(
    "log_softmax", _log_softmax,
    vjp=(lambda xp, g, y, x, *, axis: xp.softmax_spread(x, g, axis=axis),),
    jvp=(lambda xp, t, y, x, *, axis: xp.softmax_center(x, t, axis=axis),),
    reads=((0,),), params=("axis",), batched=True, rounding=stable(4, wide=True),
    samples=_ONE,
    conventions=(EXPONENTIALS, ITS_SLOPE_HAS_EQUAL_SHARES),
)  # fmt: skip

_softmax_center = primitive(
    "softmax_center", _center,
    vjp=(
        lambda xp, h, y, x, g, *, axis: _curved(xp, x, h, g, axis),
        lambda xp, h, y, x, g, *, axis: xp.softmax_spread(x, h, axis=axis),
    ),
    jvp=(
        lambda xp, t, y, x, g, *, axis: (
            -_total(xp, xp.softmax(x, axis=axis) * xp.softmax_center(x, g, axis=axis) * t, axis) + 0 * g
        ),
        lambda xp, t, y, x, g, *, axis: xp.softmax_center(x, t, axis=axis),
    ),
    reads=((0, 1), (0,)), params=("axis",), batched=True, rounding=stable(4, 4, by=_center_terms, feeds=1, wide=True),
    samples=_TWO,
    conventions=(EXPONENTIALS, EQUAL_SHARES, SUMMED),
)  # fmt: skip

_softmax_spread = primitive(
    "softmax_spread", _spread,
    vjp=(
        lambda xp, g, y, x, h, *, axis: _curved(xp, x, h, g, axis),
        lambda xp, g, y, x, h, *, axis: xp.softmax_center(x, g, axis=axis),
    ),
    jvp=(
        lambda xp, t, y, x, h, *, axis: _curved(xp, x, h, t, axis),
        lambda xp, t, y, x, h, *, axis: xp.softmax_spread(x, t, axis=axis),
    ),
    reads=((0, 1), (0,)), params=("axis",), batched=True, rounding=stable(4, 4, by=_spread_terms, feeds=1, wide=True),
    samples=_TWO,
    conventions=(EXPONENTIALS, ITS_SLOPE_HAS_EQUAL_SHARES, SUMMED),
)  # fmt: skip

cross_entropy_op = primitive(
    "cross_entropy", _cross_entropy,
    vjp=(
        lambda xp, g, y, labels, logits, *, axis: -_kept(xp, g, axis) * xp.log_softmax(logits, axis=axis),
        lambda xp, g, y, labels, logits, *, axis: -_kept(xp, g, axis) * xp.softmax_spread(logits, labels, axis=axis),
    ),
    jvp=(
        lambda xp, t, y, labels, logits, *, axis: xp.cross_entropy(t, logits, axis=axis),
        lambda xp, t, y, labels, logits, *, axis: (
            -xp.sum(t * xp.softmax_spread(logits, labels, axis=axis), axis=(axis,), keepdims=False)
        ),
    ),
    reads=((1,), (0, 1)), params=("axis",), batched=True, rounding=stable(4, 4, wide=True),
    samples=_TWO,
    conventions=(ENTROPIES, SUMMED),
)  # fmt: skip


def logits_and_axis(x: Any, axis: Any, op: str) -> tuple[Tensor, int]:
    """A float tensor, and an axis of the tensor counted from the end."""
    x = float_operand(x, op)
    return x, _axis(-1 if axis is None else axis, len(x._layout.shape), op)


def _axis(axis: Any, n: int, op: str) -> int:
    at = int_of(axis, op, "axis")
    if not -n <= at < n:
        raise errors.InvalidArgumentError(f"{op}: axis {at} is out of range for a tensor with {n} axes")
    return at if at < 0 else at - n


@diagnosed
def softmax(logits: Any, axis: Any = None, name: str | None = None) -> Tensor:
    """``exp(logits) / sum(exp(logits))`` along an axis.

    Parameters
    ----------
    logits : tensor of floats, one axis at least
    axis : int, optional
        By default the last axis.

    Returns
    -------
    Tensor, shape of `logits`

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If `axis` is out of range.

    Examples
    --------
    >>> tf.nn.softmax([0.0, 0.0]).numpy()
    array([0.5, 0.5], dtype=float32)
    """
    x, axis = logits_and_axis(logits, axis, "softmax")
    return softmax_op(x, axis=axis)


@diagnosed
@documented_like(softmax)
def log_softmax(logits: Any, axis: Any = None, name: str | None = None) -> Tensor:
    """The logarithm of `softmax`, accurate if `softmax` is nearly 0 or nearly 1.

    Examples
    --------
    >>> tf.nn.log_softmax([0.0, 1000.0]).numpy()
    array([-1000.,     0.], dtype=float32)
    """
    x, axis = logits_and_axis(logits, axis, "log_softmax")
    return log_softmax_op(x, axis=axis)
