"""Elementwise mirrors on arrays of wider floats, each number with a bound on its error.

float64 has 29 bits more than float32, and the `long double` of some machines 11 more than float64. This decides most
comparisons of a rounded number with the exact one, in a tenth of the time of enclosures. The numbers that a bound
leaves open need enclosures.

The bounds follow Higham, "Accuracy and Stability of Numerical Algorithms", section 3.3, without terms left out: an
error that is too large for a simple bound counts as infinite.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import cache, lru_cache, reduce
from typing import Any, NamedTuple

import numpy as np
import sympy as sp
from sympy.logic.boolalg import BooleanFalse, BooleanTrue

__all__ = ["Bounded", "WideFloats", "wide_floats"]


class Bounded(NamedTuple):
    """Numbers near exact ones, and bounds on the distances; infinite where none is known, and NaN out of range."""

    near: Any
    error: Any


class Unknown(Exception):
    """An expression has a function that has no bound here."""


_LONG = (63, 112)  # bits of the significand of a `long double` that rounds as IEEE 754 says: of x86, and of quad
_LOST = 8  # units in the last place that a function of NumPy or of the C library may lose
_FAR = 0.25  # the part of a number that its error may reach in the bounds of this module


@cache
def wide_floats(dtype: Any) -> WideFloats | None:
    """The floats with which those of a dtype are compared; None if the machine has none."""
    if dtype == np.float32:
        return WideFloats(np.float64)
    if dtype == np.float64 and np.finfo(np.longdouble).nmant in _LONG:
        return WideFloats(np.longdouble)
    return None


class WideFloats:
    """The values of expressions at arrays of floats.

    Parameters
    ----------
    dtype : floating dtype
        Wider than the dtype of the arrays.

    Examples
    --------
    >>> x = sp.Symbol("x", real=True)
    >>> near, error = WideFloats(np.float64).values([sp.exp(x) - 1], {x: np.array([1e-8], np.float32)})[0]
    >>> bool(error[0] < 1e-14)
    True
    """

    def __init__(self, dtype: Any) -> None:
        self.dtype = np.dtype(dtype)
        found = np.finfo(self.dtype)
        self.unit, self.tiny = self.dtype.type(found.eps), self.dtype.type(found.tiny)
        self._constants = lru_cache(1024)(self._constant)

    def values(self, expressions: Sequence[sp.Expr], arrays: dict[sp.Symbol, Any]) -> list[Bounded] | None:
        """The values of expressions of symbols that stand for arrays of exact numbers.

        Parameters
        ----------
        expressions : sequence of sympy.Expr
            Real, and with Piecewise for each choice.
        arrays : dict
            Symbol -> its array, of floats that the wider dtype holds, or of small integers; the shapes broadcast.

        Returns
        -------
        list of Bounded or None
            For each expression arrays or scalars of the wider dtype; None if an expression has a function that is not
            known here.
        """
        known: dict[Any, Any] = {s: Bounded(np.asarray(v, self.dtype), self.dtype.type(0)) for s, v in arrays.items()}
        try:
            with np.errstate(all="ignore"):
                return [self._value(e, known) for e in expressions]
        except Unknown:
            return None

    def times(self, a: Any, b: Bounded) -> Bounded:
        """Exact numbers, as an array of floats that the wider dtype holds, times near ones."""
        with np.errstate(all="ignore"):
            return self._times(Bounded(np.asarray(a, self.dtype), self.dtype.type(0)), b)

    def sum(self, a: Bounded, axes: tuple[int, ...]) -> Bounded:
        """Sums along axes, which stay with length 1."""
        with np.errstate(all="ignore"):
            near, error = np.broadcast_arrays(*a)
            count = self.dtype.type(np.prod([near.shape[k] for k in axes], dtype=np.intp))
            size = np.add.reduce(np.abs(near), axis=axes, keepdims=True)
            lost = np.add.reduce(error, axis=axes, keepdims=True) * (1 + count * self.unit)
            return Bounded(np.add.reduce(near, axis=axes, keepdims=True), lost + count * self.unit * size)

    def _value(self, e: sp.Expr, known: dict[Any, Any]) -> Bounded:
        made = known.get(e)
        if made is None:
            made = known[e] = self._constants(e) if e.is_Atom else self._made(e, known)
        return made

    def _constant(self, e: sp.Expr) -> Bounded:
        zero = self.dtype.type(0)
        if e.is_Integer and abs(int(e)) < 2**53:
            return Bounded(self.dtype.type(int(e)), zero)
        digits = sp.N(e, 40)
        if not digits.is_Float:
            raise Unknown(e)
        near = self.dtype.type(str(digits))
        return Bounded(near, self.unit * abs(near) + self.tiny)

    def _made(self, e: sp.Expr, known: dict[Any, Any]) -> Bounded:
        if isinstance(e, sp.Piecewise):
            return self._by_branches(e, known)
        if isinstance(e, sp.Pow):
            return self._power(self._value(e.base, known), e.exp)
        arguments = [self._value(a, known) for a in e.args]
        if isinstance(e, (sp.Add, sp.Mul)):
            step = self._plus if isinstance(e, sp.Add) else self._times
            made = arguments[0]
            for a in arguments[1:]:
                made = step(made, a)
            return made
        function = _FUNCTIONS.get(e.func)
        if function is None or len(arguments) != 1:
            raise Unknown(e)
        apply, carried = function
        (x, error) = arguments[0]
        near = apply(x)
        return Bounded(near, carried(x, near, error) + self._rounding(near, x))

    def _rounding(self, near: Any, x: Any) -> Any:
        """What a function of a library may lose; near its roots more than some units, because it reduces x first."""
        return _LOST * self.unit * np.abs(near) + self.unit * self.dtype.type(2.0**-20) * np.minimum(np.abs(x), 1)

    def _plus(self, a: Bounded, b: Bounded) -> Bounded:
        near = a.near + b.near
        if _is_exact(a) and _is_exact(b):
            # What the sum lost, by Knuth's TwoSum: mostly nothing. Sums of narrow floats are often halfway between two
            # of them, where the smallest error would leave the comparison open.
            part = near - a.near
            return Bounded(near, np.abs((a.near - (near - part)) + (b.near - part)))
        return Bounded(near, a.error + b.error + self.unit * np.abs(near))

    def _times(self, a: Bounded, b: Bounded) -> Bounded:
        near = a.near * b.near
        if _is_exact(a) and _is_exact(b) and (_is_sign(a.near) or _is_sign(b.near)):
            return Bounded(near, self.dtype.type(0))
        carried = np.abs(a.near) * b.error + np.abs(b.near) * a.error + a.error * b.error
        return Bounded(near, carried + self.unit * np.abs(near) + self.tiny)

    def _inverse(self, a: Bounded) -> Bounded:
        near, size = 1 / a.near, np.abs(a.near)
        carried = np.where(a.error <= _FAR * size, 2 * a.error / size * np.abs(near), np.inf)
        return Bounded(near, carried + self.unit * np.abs(near) + self.tiny)

    def _root(self, a: Bounded) -> Bounded:
        near = np.sqrt(a.near)
        carried = np.where(a.error <= _FAR * a.near, a.error / np.where(near > 0, near, 1), np.inf)
        return Bounded(near, carried + self.unit * near + self.tiny)

    def _power(self, base: Bounded, exponent: Any) -> Bounded:
        if not exponent.is_Rational or exponent.q not in (1, 2) or abs(exponent.p) > _MOST:
            raise Unknown(exponent)
        power, count = base if exponent.q == 1 else self._root(base), abs(int(exponent.p))
        made = None
        while count:
            if count & 1:
                made = power if made is None else self._times(made, power)
            count >>= 1
            power = self._times(power, power) if count else power
        assert made is not None  # SymPy has no powers with exponent 0
        return self._inverse(made) if exponent < 0 else made

    def _by_branches(self, e: sp.Expr, known: dict[Any, Any]) -> Bounded:
        """The first branch whose condition certainly holds, where the conditions before it certainly do not hold."""
        parts: list[tuple[Any, Any, Bounded]] = []
        for arm, condition in e.args:
            holds, fails = self._truth(condition, known)
            parts.append((holds, fails, self._value(arm, known)))
        made = Bounded(self.dtype.type(0), self.dtype.type(np.inf))
        for holds, fails, (near, error) in reversed(parts):
            open_ = ~(holds | fails)
            made = Bounded(
                np.where(holds, near, made.near), np.where(open_, np.inf, np.where(holds, error, made.error))
            )
        return made

    def _truth(self, condition: Any, known: dict[Any, Any]) -> tuple[Any, Any]:
        """Where a condition certainly holds, and where it certainly fails."""
        if isinstance(condition, (BooleanTrue, BooleanFalse)):
            holds = np.bool_(bool(condition))
            return holds, ~holds
        if isinstance(condition, (sp.And, sp.Or)):
            both = [self._truth(c, known) for c in condition.args]
            joined = [np.logical_and, np.logical_or]
            at, other = joined if isinstance(condition, sp.And) else reversed(joined)
            return reduce(at, [h for h, _ in both]), reduce(other, [f for _, f in both])
        if isinstance(condition, sp.Not):
            holds, fails = self._truth(condition.args[0], known)
            return fails, holds
        compare = _RELATIONS.get(condition.func)
        if compare is None:
            raise Unknown(condition)
        a, b = self._value(condition.lhs, known), self._value(condition.rhs, known)
        reach = a.error + b.error
        apart = (np.abs(a.near - b.near) > 2 * reach) | (reach == 0)
        truth = compare(a.near, b.near)
        return apart & truth, apart & ~truth


def _is_exact(a: Bounded) -> bool:
    return not np.ndim(a.error) and a.error == 0


def _is_sign(x: Any) -> bool:
    return not np.ndim(x) and abs(x) in (0, 1)


def _steep(slope: Callable[[Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    """The error that a function passes on: twice the slope, for errors so small that the slope changes little."""
    return lambda x, y, error: np.where(error <= _FAR, 2 * slope(x, y) * error, np.inf)


def _logarithm(x: Any, y: Any, error: Any) -> Any:
    return np.where(error <= _FAR * np.abs(x), 2 * error / np.abs(x), np.inf)


def _tangent(x: Any, y: Any, error: Any) -> Any:
    slope = 1 + y * y
    return np.where(error * slope <= _FAR / 4, 2 * slope * error, np.inf)


def _flat(x: Any, y: Any, error: Any) -> Any:
    return error


def _step(x: Any, y: Any, error: Any) -> Any:
    return np.where((np.abs(x) > error) | (error == 0), 0, np.inf)


_MOST = 64  # the largest exponent that is computed by products
# For each function: NumPy's, and the error that it passes on, from its argument, its value and the argument's error.
_FUNCTIONS: dict[Any, tuple[Callable[..., Any], Callable[..., Any]]] = {
    sp.exp: (np.exp, _steep(lambda x, y: y)),
    sp.log: (np.log, _logarithm),
    sp.sin: (np.sin, _flat),
    sp.cos: (np.cos, _flat),
    sp.tan: (np.tan, _tangent),
    sp.sinh: (np.sinh, _steep(lambda x, y: 1 + np.abs(y))),
    sp.cosh: (np.cosh, _steep(lambda x, y: y)),
    sp.tanh: (np.tanh, _flat),
    sp.atan: (np.arctan, _flat),
    sp.asinh: (np.arcsinh, _flat),
    sp.Abs: (np.abs, _flat),
    sp.sign: (np.sign, _step),
}
_RELATIONS: dict[Any, Callable[[Any, Any], Any]] = {
    sp.StrictGreaterThan: operator.gt,
    sp.StrictLessThan: operator.lt,
    sp.GreaterThan: operator.ge,
    sp.LessThan: operator.le,
    sp.Equality: operator.eq,
    sp.Unequality: operator.ne,
}
