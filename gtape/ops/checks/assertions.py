"""Assertions about values of tensors, and check_numerics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gtape.base.diagnosis import diagnosed
from gtape.base.docstrings import documented_like
from gtape.base.half_precision import spacing_at_one
from gtape.base.scalars import int_of
from gtape.declare.conventions import Noted
from gtape.declare.primitives import linear
from gtape.declare.rounding import EXACT
from gtape.errors import InvalidArgumentError
from gtape.recording.record import checked_later
from gtape.tensors.operands import float_operand
from gtape.tensors.tensor import Tensor, as_operand, convert_to_tensor, is_tensor, wrap

# Names at the top level. `gtape.debugging` has the others, too.
__all__ = ["Assert", "assert_equal", "assert_greater", "assert_less"]

ASSERTS = True  # a check does not count truth values read here as branches: see gtape.recording.trace

_IN_GRADIENT = "Not a number (NaN) or infinity (Inf) values detected in gradient. "


def _check_kernel(x: Any, *, message: str) -> Any:
    if not np.isfinite(x).all():
        found = [word for word, bad in (("Inf", np.isinf(x).any()), ("NaN", np.isnan(x).any())) if bad]
        raise InvalidArgumentError(f"{message} : Tensor had {' and '.join(found)} values")
    return x


_check = linear(
    "check_numerics", _check_kernel, lambda xp, g, x, *, message: xp.check_numerics(g, message=_IN_GRADIENT + message),
    params=("message",), batched=True, rounding=EXACT,
    samples=((((),), {"message": "m"}), (((2, 2),), {"message": "m"})),
    conventions=Noted("raises InvalidArgumentError"),
)  # fmt: skip


@diagnosed
def check_numerics(tensor: Any, message: Any, name: str | None = None) -> Tensor:
    """Check that a tensor is finite, and later its gradient, too. Returns the tensor.

    Parameters
    ----------
    tensor : float tensor
    message : str
        The beginning of the error.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If an element is NaN or infinite, or later an element of the gradient. Also if the tensor holds integers.

    Examples
    --------
    >>> tf.debugging.check_numerics(tf.constant([1.0, float("nan")]), "loss")
    Traceback (most recent call last):
    gtape.errors.InvalidArgumentError: loss : Tensor had NaN values
    """
    t = float_operand(tensor, "check_numerics")
    words = str(message)
    checked_later(lambda x: _check_kernel(x, message=words), [t])  # because a compiled program drops unused results
    return _check(t, message=words)


def _summary(x: Any, summarize: Any) -> str:
    t = convert_to_tensor(x)
    n = 3 if summarize is None else int_of(summarize, "assertions", "summarize")
    flat = np.ravel(t.numpy())
    n = flat.size if n < 0 else n
    return "[" + ", ".join(str(v) for v in flat[:n].tolist()) + (", ...]" if flat.size > n else "]")


def _check_truth(condition: Any) -> None:
    if not condition:
        raise InvalidArgumentError("the condition is false")


@diagnosed
def Assert(condition: Any, data: Any, summarize: Any = None, name: str | None = None) -> None:
    """Raise an error unless a condition is true.

    Parameters
    ----------
    condition : bool or scalar bool tensor
    data : list of tensors
        The error shows these tensors.
    summarize : int, optional
        The number of elements of each tensor in the error: 3 by default, all for a negative number.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If the condition is false.

    Examples
    --------
    >>> tf.Assert(tf.constant(True), ["never shown"])
    """
    if is_tensor(condition) and checked_later(_check_truth, [as_operand(condition)]):
        return
    if not condition:
        shown = "\n".join(_summary(d, summarize) for d in (data if isinstance(data, (list, tuple)) else [data]))
        raise InvalidArgumentError(f"Expected '{condition}' to be true. Summarized data: {shown}")


def _pair(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    if not is_tensor(x) and is_tensor(y):
        second = as_operand(y)
        return as_operand(x, second), second
    first = as_operand(x)
    return first, as_operand(y, first)


def _comparison(
    op: str, symbol: str, holds: Callable[[Any, Any], Any], x: Any, y: Any, message: Any, summarize: Any
) -> None:
    a, b = _pair(x, y)
    if a._layout.dtype != b._layout.dtype:
        raise InvalidArgumentError(f"{op}: cannot compare {a.dtype.name} with {b.dtype.name}: use gtape.cast")
    shapes = f"{a.shape} vs. {b.shape}"

    def check(left: Any, right: Any) -> None:
        _compare(op, symbol, holds, left, right, shapes, message, summarize)

    if not checked_later(check, [a, b]):
        check(a.numpy(), b.numpy())


def _compare(
    op: str, symbol: str, holds: Callable[[Any, Any], Any], left: Any, right: Any, shapes: str, message: Any,
    summarize: Any,
) -> None:  # fmt: skip
    try:
        true = np.asarray(holds(left, right))
    except ValueError:
        raise InvalidArgumentError(f"{op}: Incompatible shapes: {shapes}") from None
    if true.all():
        return
    places = np.argwhere(~true)[: 3 if summarize is None else max(int_of(summarize, op, "summarize"), 1)]
    wide = [np.broadcast_to(v, true.shape) for v in (left, right)]
    lines = [
        *([str(message)] if message else []),
        f"Condition x {symbol} y did not hold.",
        f"Indices of first {len(places)} different values:",
        str(places.tolist()),
        f"Corresponding x values: {[wide[0][tuple(p)].item() for p in places]}",
        f"Corresponding y values: {[wide[1][tuple(p)].item() for p in places]}",
    ]
    raise InvalidArgumentError("\n".join(lines))


@diagnosed
def assert_equal(x: Any, y: Any, message: Any = None, summarize: Any = None, name: Any = None) -> None:
    """Raise an error unless all elements of two tensors are equal.

    Parameters
    ----------
    x, y : tensors that broadcast to each other
    message : str, optional
        The beginning of the error.
    summarize : int, optional
        The number of elements in the error.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If two elements differ.

    Examples
    --------
    >>> tf.debugging.assert_equal(tf.constant([1, 1]), 1)
    """
    _comparison("assert_equal", "==", lambda a, b: a == b, x, y, message, summarize)


@diagnosed
@documented_like(assert_equal)
def assert_none_equal(x: Any, y: Any, summarize: Any = None, message: Any = None, name: Any = None) -> None:
    """Raise an error if an element of one tensor equals that of the other.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If two elements are equal.

    Examples
    --------
    >>> tf.debugging.assert_none_equal(tf.constant([1, 2]), [2, 1])
    """
    _comparison("assert_none_equal", "!=", lambda a, b: a != b, x, y, message, summarize)


def _ordered(op: str, symbol: str, holds: Callable[[Any, Any], Any], bound: float) -> Callable[..., None]:
    def check(x: Any, y: Any, message: Any = None, summarize: Any = None, name: Any = None) -> None:
        _comparison(op, symbol, holds, x, y, message, summarize)

    check.__name__ = check.__qualname__ = op
    check.__doc__ = f"""Raise unless ``x {symbol} y`` in every element.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        When the relation does not hold.

    Examples
    --------
    >>> tf.debugging.{op}(tf.constant([1.0, 2.0]), {bound})
    """
    return diagnosed(documented_like(assert_equal)(check))


assert_less = _ordered("assert_less", "<", lambda a, b: a < b, 3.0)
assert_less_equal = _ordered("assert_less_equal", "<=", lambda a, b: a <= b, 2.0)
assert_greater = _ordered("assert_greater", ">", lambda a, b: a > b, 0.0)
assert_greater_equal = _ordered("assert_greater_equal", ">=", lambda a, b: a >= b, 1.0)


@diagnosed
@documented_like(assert_equal)
def assert_near(
    x: Any, y: Any, rtol: Any = None, atol: Any = None, message: Any = None, summarize: Any = None, name: Any = None
) -> None:
    """Raise an error unless ``|x - y| <= atol + rtol * |y|`` in every element.

    Parameters
    ----------
    x, y : float tensors that broadcast to each other
    rtol, atol : float, optional
        By default 10 times the dtype's spacing at 1.

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If a difference is larger.
    ValueError
        If the tensors hold integers, or have different dtypes.

    Examples
    --------
    >>> tf.debugging.assert_near(tf.constant(1.0), 1.001, rtol=0.01)
    """
    x = as_operand(x)
    y = y if isinstance(y, Tensor) else as_operand(y, x)
    kind = x._layout.dtype
    if not x._layout.inexact:
        raise ValueError(f"assert_near needs floating-point tensors, not {x.dtype.name}: use assert_equal")
    if y._layout.dtype != kind:
        raise ValueError(f"assert_near: x is {x.dtype.name} and y is {y.dtype.name}: use gtape.cast")
    eps = 10 * spacing_at_one(kind)
    r = eps if rtol is None else float(as_operand(rtol))
    a = eps if atol is None else float(as_operand(atol))

    def near(left: Any, right: Any) -> Any:
        with np.errstate(all="ignore"):
            return np.abs(left - right) <= a + r * np.abs(right)

    _comparison("assert_near", f"~= (rtol={r:g}, atol={a:g})", near, x, y, message, summarize)


def _sign(op: str, symbol: str, holds: Callable[[Any, Any], Any]) -> Callable[..., None]:
    def check(x: Any, message: Any = None, summarize: Any = None, name: Any = None) -> None:
        t = as_operand(x)
        zero = wrap(np.zeros((), t._layout.dtype))
        _comparison(op, symbol, holds, t, zero, message or f"{op}: y is 0.", summarize)

    check.__name__ = check.__qualname__ = op
    shown = {"<": "-1.0", ">": "1.0", ">=": "0.0", "<=": "0.0"}[symbol]
    check.__doc__ = f"""Raise unless every element is {symbol} 0.

    Parameters
    ----------
    x : tensor of numbers

    Raises
    ------
    gtape.errors.InvalidArgumentError
        When an element is not.

    Examples
    --------
    >>> tf.debugging.{op}(tf.constant([{shown}]))
    """
    return diagnosed(documented_like(assert_equal)(check))


assert_negative = _sign("assert_negative", "<", lambda a, b: a < b)
assert_positive = _sign("assert_positive", ">", lambda a, b: a > b)
assert_non_negative = _sign("assert_non_negative", ">=", lambda a, b: a >= b)
assert_non_positive = _sign("assert_non_positive", "<=", lambda a, b: a <= b)


@diagnosed
@documented_like(check_numerics)
def assert_all_finite(x: Any, message: Any, name: Any = None) -> Tensor:
    """Raise an error unless all elements are finite: `check_numerics` with the name of an assertion.

    Parameters
    ----------
    x : float tensor

    Examples
    --------
    >>> tf.debugging.assert_all_finite(tf.constant([1.0, 2.0]), "loss").numpy()
    array([1., 2.], dtype=float32)
    """
    return check_numerics(x, message)
