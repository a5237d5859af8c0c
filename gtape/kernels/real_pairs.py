"""Real numbers as pairs of doubles, for kernels that need NumPy's long double where it is only a double.

`RealPair` has the operations of arrays that these kernels use: arithmetic, exp, expm1, log, log1p and sqrt to
nearly twice the digits of a double. Comparisons are those of the high parts. `ComplexPair` is the complex counterpart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from gtape.kernels.broadcasting import broadcast_arrays
from gtape.kernels.log_pairs import log_exact
from gtape.kernels.pair_functions import difference, exact, exp_parts, expm1_pair, over, power_pair, sum_pair
from gtape.kernels.pairs import Pair, multiply_pairs, sqrt_pair

if TYPE_CHECKING:
    from fractions import Fraction


class RealPair:
    """An array of numbers, each the sum of a high and a low part.

    Parameters
    ----------
    high, low : float64 arrays or floats
        The parts, which broadcast to each other.
    """

    __slots__ = ("high", "low")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, high: Any, low: Any = 0.0) -> None:
        self.high, self.low = broadcast_arrays(np.asarray(high, np.float64), np.asarray(low, np.float64))

    @property
    def pair(self) -> Pair:
        """The high and the low part."""
        return self.high, self.low

    def rounded(self) -> Any:
        """The nearest floats."""
        return self.high + self.low

    def ravel(self) -> RealPair:
        """The numbers as one row."""
        return RealPair(self.high.ravel(), self.low.ravel())

    def sum(self, axis: int) -> RealPair:
        """The sum along an axis."""
        total: Pair = (0.0, 0.0)
        for high, low in zip(np.moveaxis(self.high, axis, 0), np.moveaxis(self.low, axis, 0), strict=True):
            total = sum_pair(total, (high, low))
        return RealPair(*total)

    def __getitem__(self, key: Any) -> RealPair:
        return RealPair(self.high[key], self.low[key])

    def __add__(self, other: Any) -> RealPair:
        return RealPair(*sum_pair(self.pair, _lifted(other).pair))

    def __sub__(self, other: Any) -> RealPair:
        return RealPair(*difference(self.pair, _lifted(other).pair))

    def __rsub__(self, other: Any) -> RealPair:
        return _lifted(other) - self

    def __mul__(self, other: Any) -> RealPair:
        return RealPair(*multiply_pairs(self.pair, _lifted(other).pair))

    def __truediv__(self, other: Any) -> RealPair:
        return RealPair(*over(self.pair, _lifted(other).pair))

    def __rtruediv__(self, other: Any) -> RealPair:
        return _lifted(other) / self

    def __pow__(self, n: int) -> RealPair:
        return RealPair(*power_pair(self.pair, n))

    def __neg__(self) -> RealPair:
        return RealPair(-self.high, -self.low)

    def __lt__(self, other: Any) -> Any:
        return self.high < _lifted(other).high

    def __gt__(self, other: Any) -> Any:
        return self.high > _lifted(other).high

    __radd__, __rmul__ = __add__, __mul__

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        made = _UFUNCS.get(ufunc)
        if made is None or method != "__call__" or options:
            return NotImplemented
        return made(*map(_lifted, inputs))

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        made = _FUNCTIONS.get(function)
        return NotImplemented if made is None else made(*args, **options)


def _lifted(v: Any) -> RealPair:
    return v if isinstance(v, RealPair) else RealPair(v)


def _exp(x: RealPair) -> RealPair:
    part, k = exp_parts((np.clip(x.high, -2000.0, 2000.0), x.low))
    high, low = sum_pair((1.0, 0.0), part)
    return RealPair(np.ldexp(high, k), np.ldexp(low, k))


def _expm1(x: RealPair) -> RealPair:
    return RealPair(*expm1_pair(*exp_parts((np.clip(x.high, -2000.0, 2000.0), x.low))))


def _log(x: RealPair) -> RealPair:
    good = (x.high > 0) & np.isfinite(x.high)
    high = np.where(good, x.high, 1.0)
    found = sum_pair(log_exact(high), (x.low / high, 0.0))
    beyond = np.log(x.high)  # infinite or NaN
    return RealPair(np.where(good, found[0], beyond), np.where(good, found[1], 0.0))


def _chosen(mask: Any, a: Any, b: Any) -> RealPair:
    a, b = _lifted(a), _lifted(b)
    return RealPair(np.where(mask, a.high, b.high), np.where(mask, a.low, b.low))


_UFUNCS: dict[Any, Callable[..., Any]] = {
    np.add: lambda a, b: a + b,
    np.subtract: lambda a, b: a - b,
    np.multiply: lambda a, b: a * b,
    np.divide: lambda a, b: a / b,
    np.less: lambda a, b: a < b,
    np.greater: lambda a, b: a > b,
    np.minimum: lambda a, b: _chosen(a < b, a, b),
    np.maximum: lambda a, b: _chosen(a > b, a, b),
    np.absolute: lambda a: _chosen(a.high < 0, -a, a),
    np.exp: _exp,
    np.expm1: _expm1,
    np.log: _log,
    np.log1p: lambda a: _log(a + 1.0),
    np.sqrt: lambda a: RealPair(*sqrt_pair(a.pair)),
}

_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.where: _chosen,
    np.max: lambda a: a.high.max(),
    np.ones_like: lambda a: RealPair(np.ones_like(a.high)),
    np.zeros_like: lambda a: RealPair(np.zeros_like(a.high)),
}


def in_precision(v: RealPair, like: Any) -> Any:
    """A pair in the form of `like`: a pair, or an array of its dtype."""
    if isinstance(like, RealPair):
        return v
    return v.high.astype(like.dtype) + v.low.astype(like.dtype)


def constant(c: Fraction, like: Any) -> Any:
    """A rational number in the form of `like`."""
    return in_precision(RealPair(*exact(c)), like)
