"""Complex numbers whose parts are pairs of doubles, for machines on which NumPy's long double is a double.

`ComplexPair` has the operations of arrays that kernels of complex functions use: arithmetic, exp, log, sqrt and cosh
with twice the digits of a double, and other ufuncs with the digits of a double. `real` and `imag` are the high parts,
for comparisons.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gtape.kernels.broadcasting import broadcast_arrays, broadcast_shapes
from gtape.kernels.log_pairs import log_exact
from gtape.kernels.pair_functions import difference, exp_parts, over, sine_and_cosine, sum_pair, turn_and_rest
from gtape.kernels.pairs import Pair, multiply_pairs

_LEAST, _MOST = 1e-140, 1e140  # sizes whose products and quotients neither overflow nor underflow


class ComplexPair:
    """The number re + i im, with pairs as parts."""

    __slots__ = ("im", "re")
    __hash__ = None  # type: ignore[assignment]
    dtype = np.dtype(np.complex128)

    def __init__(self, re: Pair, im: Pair) -> None:
        self.re, self.im = re, im

    @property
    def real(self) -> Any:
        return self.re[0]

    @property
    def imag(self) -> Any:
        return self.im[0]

    @property
    def ndim(self) -> int:
        return int(np.ndim(self.re[0]))

    def rounded(self) -> Any:
        """The nearest complex128."""
        # The sign of a zero stays.
        parts = [np.where(p[1] == 0, p[0], p[0] + p[1]) for p in (self.re, self.im)]
        re, im = broadcast_arrays(*parts)
        out = np.empty(re.shape, np.complex128)
        out.real, out.imag = re, im
        return out

    def times_i(self, k: int) -> ComplexPair:
        """The number times i**k, exactly."""
        re, im = self.re, self.im
        for _ in range(k % 4):
            re, im = _negative(im), re
        return ComplexPair(re, im)

    def __add__(self, other: Any) -> ComplexPair:
        b = _lifted(other)
        return ComplexPair(sum_pair(self.re, b.re), sum_pair(self.im, b.im))

    def __mul__(self, other: Any) -> ComplexPair:
        b = _lifted(other)
        re = difference(multiply_pairs(self.re, b.re), multiply_pairs(self.im, b.im))
        return ComplexPair(re, sum_pair(multiply_pairs(self.re, b.im), multiply_pairs(self.im, b.re)))

    def __truediv__(self, other: Any) -> ComplexPair:
        b = _lifted(other)
        square = _square_of_modulus(b)
        top = self * ComplexPair(b.re, _negative(b.im))
        return ComplexPair(over(top.re, square), over(top.im, square))

    def __neg__(self) -> ComplexPair:
        return ComplexPair(_negative(self.re), _negative(self.im))

    def __sub__(self, other: Any) -> ComplexPair:
        return self + -_lifted(other)

    def __rsub__(self, other: Any) -> ComplexPair:
        return _lifted(other) - self

    __radd__, __rmul__ = __add__, __mul__

    def __eq__(self, other: Any) -> Any:
        b = _lifted(other)
        return (self.real == b.real) & (self.imag == b.imag)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__" or options:
            return NotImplemented
        made = _UFUNCS.get(ufunc)
        if made is not None:
            return made(*map(_lifted, inputs))
        value = ufunc(*[_lifted(v).rounded() for v in inputs])
        return _lifted(value) if value.dtype.kind == "c" else value

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        made = _FUNCTIONS.get(function)
        return NotImplemented if made is None else made(*args, **options)


def _negative(a: Pair) -> Pair:
    return -a[0], -a[1]


def _lifted(v: Any) -> ComplexPair:
    if isinstance(v, ComplexPair):
        return v
    v = np.asarray(v)
    re, im = (v.real, v.imag) if v.dtype.kind == "c" else (v, np.zeros(v.shape))
    re, im = np.asarray(re, np.float64), np.asarray(im, np.float64)
    return ComplexPair((re, np.zeros(re.shape)), (im, np.zeros(im.shape)))


def _square_of_modulus(x: ComplexPair) -> Pair:
    return sum_pair(multiply_pairs(x.re, x.re), multiply_pairs(x.im, x.im))


def _angle(angle: Any) -> tuple[Pair, Pair]:
    """The sine and cosine of floats."""
    turn, rest = turn_and_rest(angle)
    s, c = sine_and_cosine(rest)
    odd, half = (turn & 1).astype(bool), np.where(turn & 2, -1.0, 1.0)
    sine = np.where(odd, c[0], s[0]) * half, np.where(odd, c[1], s[1]) * half
    cosine = np.where(odd, -s[0], c[0]) * half, np.where(odd, -s[1], c[1]) * half
    return sine, cosine


def _exp(x: ComplexPair) -> ComplexPair:
    part, k = exp_parts((np.clip(x.re[0], -2000.0, 2000.0), x.re[1]))
    size = sum_pair((1.0, 0.0), part)
    sine, cosine = _angle(x.im[0])
    low = x.im[1]  # an additional small angle
    sine, cosine = (
        sum_pair(sine, multiply_pairs(cosine, (low, 0.0 * low))),
        difference(cosine, multiply_pairs(sine, (low, 0.0 * low))),
    )
    re, im = multiply_pairs(size, cosine), multiply_pairs(size, sine)
    return ComplexPair(
        (np.ldexp(re[0], k), np.ldexp(re[1], k)),
        (np.ldexp(im[0], k), np.ldexp(im[1], k)),
    )


def _log(x: ComplexPair) -> ComplexPair:
    square = _square_of_modulus(x)
    good = (square[0] > 1e-280) & (square[0] < 1e280)
    square = np.where(good, square[0], np.nan), np.where(good, square[1], np.nan)
    twice = sum_pair(log_exact(np.where(good, square[0], 1.0)), (square[1] / square[0], 0.0 * square[0]))
    first = np.arctan2(x.imag, x.real)
    sine, cosine = _angle(first)
    # The rest of the angle is small and equals its tangent.
    across = difference(multiply_pairs(x.im, cosine), multiply_pairs(x.re, sine))
    along = sum_pair(multiply_pairs(x.re, cosine), multiply_pairs(x.im, sine))
    return ComplexPair((0.5 * twice[0], 0.5 * twice[1]), sum_pair((first, 0.0 * first), over(across, along)))


def _sqrt(x: ComplexPair) -> ComplexPair:
    root = _lifted(np.sqrt(x.rounded()))
    rest = (x - root * root) / root  # one step of Newton's method
    return root + rest * 0.5


def _absolute(x: ComplexPair) -> Any:
    return np.hypot(x.real, x.imag)


_UFUNCS: dict[Any, Callable[..., Any]] = {
    np.add: lambda a, b: a + b,
    np.subtract: lambda a, b: a - b,
    np.multiply: lambda a, b: a * b,
    np.divide: lambda a, b: a / b,
    np.negative: lambda a: -a,
    np.equal: lambda a, b: a == b,
    np.isnan: lambda a: np.isnan(a.real) | np.isnan(a.imag),
    np.absolute: _absolute,
    np.exp: _exp,
    np.log: _log,
    np.sqrt: _sqrt,
    np.cosh: lambda a: (_exp(a) + _exp(-a)) * 0.5,
}


def _where(mask: Any, a: Any, b: Any) -> Any:
    a, b = _lifted(a), _lifted(b)
    parts = [np.where(mask, p, q) for p, q in zip((*a.re, *a.im), (*b.re, *b.im), strict=True)]
    return ComplexPair((parts[0], parts[1]), (parts[2], parts[3]))


def _filled(x: Any, value: Any) -> ComplexPair:
    return _lifted(np.full(broadcast_shapes(np.shape(x.re[0]), np.shape(x.im[0])), value, np.complex128))


def _together(*xs: Any) -> list[ComplexPair]:
    lifted = [_lifted(x) for x in xs]
    parts = broadcast_arrays(*[p for x in lifted for p in (*x.re, *x.im)])
    return [ComplexPair((a, b), (c, d)) for a, b, c, d in zip(*[iter(parts)] * 4, strict=True)]


_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.where: _where,
    np.ones_like: lambda x: _filled(x, 1.0),
    np.zeros_like: lambda x: _filled(x, 0.0),
    np.full_like: _filled,
    np.broadcast_arrays: _together,
}


def in_pairs(core: Callable[..., Any], xs: list[Any], params: dict[str, Any]) -> Any:
    """A kernel's value at complex128 arrays: computed in pairs if their range allows it, otherwise in complex128.

    Sums of pairs lose the sign of -0, which tells the side of a branch cut. So for numbers with -0, a result in pairs
    that differs from the result in complex128 is discarded.
    """
    plain = np.asarray(core(*xs, **params))
    made = core(*map(_lifted, xs), **params)
    if not isinstance(made, ComplexPair):
        return plain
    value = made.rounded()
    fits = np.isfinite(value)
    for x in xs:
        size = np.maximum(np.abs(x.real), np.abs(x.imag))
        fits = fits & (size > _LEAST) & (size < _MOST)
        signed = ((x.imag == 0) & np.signbit(x.imag)) | ((x.real == 0) & np.signbit(x.real))
        fits &= ~signed | (np.abs(value - plain) <= 1e-6 * np.abs(plain))
    return np.where(fits, value, plain)
