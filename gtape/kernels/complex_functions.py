"""Kernels of the holomorphic functions and their slopes for complex numbers.

Each kernel computes in the next wider type and rounds once: complex64 in complex128, complex128 in NumPy's clongdouble,
or in pairs of doubles if clongdouble is no wider. The formulas avoid overflow and cancellation. Errors are relative to
the modulus.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any

import numpy as np

from gtape.kernels.broadcasting import broadcast_arrays
from gtape.kernels.complex_pairs import ComplexPair, in_pairs

Array = Any
_WIDER: dict[Any, Any] = {np.dtype(np.complex64): np.complex128, np.dtype(np.complex128): np.clongdouble}
EXTENDED = np.finfo(np.longdouble).nmant > np.finfo(np.float64).nmant  # False on Windows and on Apple's ARM


def _wide(core: Callable[..., Array]) -> Callable[..., Array]:
    """Run a kernel in the wider type and round. Real operands beside a complex one become complex, too."""

    @wraps(core)
    def kernel(*xs: Any, **params: Any) -> Array:
        dtype = np.result_type(*[np.asarray(x).dtype for x in xs])
        if dtype == np.complex128 and not EXTENDED:
            with np.errstate(all="ignore"):
                return in_pairs(core, [np.asarray(x).astype(dtype) for x in xs], params)[()]
        wider = _WIDER[dtype]
        return core(*[np.asarray(x).astype(wider) for x in xs], **params).astype(dtype)[()]

    return kernel


# ---------------------------------------------------------------------------------------------- whole powers, quotients


def _one_plus(x: Array) -> Array:
    """1 + x with the sign of a zero imaginary part kept, because the sign tells the side of a branch cut."""
    return x - (-1)


def _one_minus(x: Array) -> Array:
    return -(x - 1)


def _whole_power(x: Array, n: int) -> Array:
    """x**n for an integer n >= 0, by squaring, because logarithms would not give exact zeros."""
    if n == 1:
        return x
    out = np.ones_like(x)
    square = x
    while n:
        if n & 1:
            out = out * square
        n >>= 1
        if n:
            square = square * square
    return out


def _quotient(a: Array, b: Array) -> Array:
    """a / b. For b = 0 the result is inf + 0j, because complex division gives NaN parts, and NaN for 0 / 0."""
    out = np.divide(a, b)
    pole = np.equal(b, 0) & ~np.equal(a, 0) & ~np.isnan(a)
    return np.where(pole, np.array(complex(np.inf, 0), out.dtype), out) if np.any(pole) else out


def _inverse_power(x: Array, n: int) -> Array:
    return _whole_power(_quotient(np.ones_like(x), x), n)


def _divide_power(a: Array, b: Array, *, n: int) -> Array:
    for _ in range(n):  # repeated, because a power of b may leave the range although the quotient does not
        a = _quotient(a, b)
    return a


def _unless_0(y: Array, value: Array) -> Array:
    return np.where(np.equal(y, 0), np.zeros_like(value), value)


reciprocal_power = _wide(lambda x, *, n: _inverse_power(x, n))
divide_power = _wide(_divide_power)
divide = _wide(_quotient)
reciprocal = _wide(lambda x: _inverse_power(x, 1))
reciprocal_power_no_nan = _wide(lambda x, *, n: _unless_0(x, _inverse_power(x, n)))
reciprocal_no_nan = _wide(lambda x: _unless_0(x, _inverse_power(x, 1)))
divide_power_no_nan = _wide(lambda a, b, *, n: _unless_0(b, _divide_power(a, b, n=n)))
divide_no_nan = _wide(lambda a, b: _unless_0(b, _quotient(a, b)))
multiply_no_nan = _wide(lambda a, b: _unless_0(b, a * b))
multiply_no_nan_dy = _wide(lambda a, b: np.where(np.equal(b, 0) & ~np.isfinite(a), np.zeros_like(a), a))


def _where_both(a: Array, b: Array, value: Array) -> Array:
    return np.where(np.equal(a, 0) & np.equal(b, 0), np.zeros_like(value), value)


xdivy_dx = _wide(lambda a, b, *, n: _where_both(a, b, _inverse_power(b, n)))
xdivy_power = _wide(lambda a, b, *, n: _where_both(a, b, _divide_power(a, b, n=n)))
xdivy = _wide(lambda a, b: _where_both(a, b, _quotient(a, b)))
xlogy_dxdy, xlogy_dy = xdivy_dx, xdivy_power
xlogy_dx = _wide(lambda a, b: _where_both(a, b, np.log(b)))
xlogy = _wide(lambda a, b: _where_both(a, b, a * np.log(b)))

# ---------------------------------------------------------------------------------------------- roots, exponentials


def _log1p(x: Array) -> Array:
    """log(1 + x), with the modulus from |1 + x|² - 1 = 2a + a² + b², because 1 + x would lose digits."""
    a, b = x.real, x.imag
    out = np.log(_one_plus(x))
    near = np.abs(x) < 0.5
    if np.any(near):
        real = np.log1p(np.where(near, a * (2 + a) + b * b, 0)) / 2
        out = np.where(near, _joined(real, np.arctan2(b, 1 + a)), out)
    return out


def _joined(a: Array, b: Array) -> Array:
    out = np.empty(np.shape(a), np.result_type(a.dtype, np.complex64))
    out.real, out.imag = a, b
    return out


def _expm1(x: Array) -> Array:
    """exp(x) - 1, with the real part exp(a) cos(b) - 1 = expm1(a) cos(b) - 2 sin(b/2)²."""
    if isinstance(x, ComplexPair):
        return np.exp(x) - 1
    a, b = x.real, x.imag
    half = np.sin(b / 2)
    near = _joined(np.expm1(a) * np.cos(b) - 2 * half * half, np.exp(a) * np.sin(b))
    return np.where(np.abs(a) < 1, near, np.exp(x) - 1)


sqrt = _wide(np.sqrt)
sqrt_slope = _wide(lambda x: _quotient(np.ones_like(x), 2 * np.sqrt(x)))
rsqrt = _wide(lambda x: _quotient(np.ones_like(x), np.sqrt(x)))
rsqrt_derivative = _wide(
    lambda x, *, n: (
        math.prod(-0.5 - k for k in range(n)) * _divide_power(_quotient(np.ones_like(x), np.sqrt(x)), x, n=n)
    )
)
exp = _wide(np.exp)
expm1 = _wide(_expm1)
log = _wide(np.log)
log_slope = reciprocal
log1p = _wide(_log1p)
log1p_slope = _wide(lambda x: _inverse_power(1 + x, 1))
recip1p_power = _wide(lambda x, *, n: _inverse_power(1 + x, n))
xlog1py_dxdy = _wide(lambda a, b, *, n: _where_both(a, 1 + b, _inverse_power(1 + b, n)))
xlog1py_dy = _wide(lambda a, b, *, n: _where_both(a, 1 + b, _divide_power(a, 1 + b, n=n)))
xlog1py_dx = _wide(lambda a, b: _where_both(a, 1 + b, _log1p(b)))
xlog1py = _wide(lambda a, b: _where_both(a, 1 + b, a * _log1p(b)))

# ---------------------------------------------------------------------------------------------- tanh, tan, sigmoid


@lru_cache(maxsize=64)
def _eulerian(n: int) -> tuple[int, ...]:
    """The coefficients of A_n, with sum over k of k**n w**k = w A_n(w) / (1 - w)**(n + 1)."""
    row = [1]
    for m in range(2, n + 1):
        old = [0, *row, 0]
        row = [(k + 1) * old[k + 1] + (m - k) * old[k] for k in range(m)]
    return tuple(row)


@lru_cache(maxsize=64)
def _inner(n: int) -> tuple[int, ...]:
    """The coefficients of A_n(-w), divided by its factor 1 - w for an even n."""
    c = [(-1) ** k * v for k, v in enumerate(_eulerian(n))]
    if n % 2:
        return tuple(c)
    out, rest = [], 0
    for v in c[:-1]:
        rest += v
        out.append(rest)
    return tuple(out)


def _horner(c: tuple[int, ...], w: Array) -> Array:
    out = np.full_like(w, c[-1])
    for v in c[-2::-1]:
        out = out * w + v
    return out


def _tanh_derivative(x: Array, n: int) -> Array:
    """4 (-2)**(n-1) w A_n(-w) / (1 + w)**(n+1), w = exp(-2x), for Re(x) >= 0. Odd or even in x."""
    left = x.real < 0
    x = np.where(left, -x, x)
    w = np.exp(-2 * x)
    # Near a pole exp(-x) cosh(x) replaces 1 + w, because 1 + w cancels. Far to the right cosh overflows, and 1 + w is
    # 1.
    close = np.where(x.real < 20, x, 0)
    below = np.where(x.real < 20, 2 * np.exp(-close) * np.cosh(close), 1 + w)
    out = 4 * (-2) ** (n - 1) * w * _horner(_inner(n), w) * _inverse_power(below, n + 1)
    if n % 2 == 0:
        out = out * np.where(np.abs(x) < 1, -_expm1(-2 * x), 1 - w)
        out = np.where(left, -out, out)
    return out


def _tan_derivative(x: Array, n: int) -> Array:
    """tan(x) = -i tanh(ix)."""
    return _times_i(_tanh_derivative(_times_i(x, 1), n), n - 1)


def _times_i(x: Array, k: int) -> Array:
    """x times i**k by exchange of parts, because a product turns a part beside an infinite part into NaN."""
    if isinstance(x, ComplexPair):
        return x.times_i(k)
    k %= 4
    return x if k == 0 else _joined(-x.imag, x.real) if k == 1 else -x if k == 2 else _joined(x.imag, -x.real)


sin = _wide(np.sin)
cos = _wide(np.cos)
tan = _wide(np.tan)
sec2 = _wide(lambda x: _tan_derivative(x, 1))
tan_derivative = _wide(lambda x, *, n: _tan_derivative(x, n))
sinh = _wide(np.sinh)
cosh = _wide(np.cosh)
tanh = _wide(np.tanh)
sech2 = _wide(lambda x: _tanh_derivative(x, 1))
tanh_curve = _wide(lambda x: _tanh_derivative(x, 2))
tanh_derivative = _wide(lambda x, *, n: _tanh_derivative(x, n))


def _sigmoid(x: Array) -> Array:
    """The sigmoid, from exp(x) for Re(x) < 0 and from exp(-x) for Re(x) >= 0, because these are small there."""
    left = x.real < 0
    e = np.exp(np.where(left, x, -x))
    return _quotient(np.where(left, e, np.ones_like(e)), 1 + e)


sigmoid = _wide(_sigmoid)
# sigmoid(x) = (1 + tanh(x/2)) / 2
sigmoid_slope = _wide(lambda x: _tanh_derivative(x / 2, 1) / 4)
sigmoid_curve = _wide(lambda x: _tanh_derivative(x / 2, 2) / 8)
sigmoid_derivative = _wide(lambda x, *, n: _tanh_derivative(x / 2, n) / 2 ** (n + 1))

# ---------------------------------------------------------------------------------------------- inverse functions


def _two_roots(x: Array, p: Array, q: Array, a: Any, b: Any, n: int, k: int) -> Array:
    """The n-th derivative of (p q)**(-k/2), with p' = a, q' = b, pq = c + ab x².

    Near 0 the result comes from a polynomial in x², elsewhere from Leibniz's rule, because its terms cancel near 0 for
    an odd n.
    """
    inverse_p, inverse_q = _inverse_power(p, 1), _inverse_power(q, 1)
    root_p, root_q = [_inverse_power(np.sqrt(r), 1) if k == 1 else _inverse_power(r, 1) for r in (p, q)]
    root = root_p * root_q
    if n == 0:
        return root

    def rising(m: int) -> float:
        return float((-1) ** m * math.prod([k / 2 + j for j in range(m)]))

    near, far = np.zeros_like(x), np.zeros_like(x)
    inverse = inverse_p * inverse_q
    for j in range(n // 2 + 1):
        count = math.factorial(n) // (math.factorial(j) * math.factorial(n - 2 * j))
        term = _whole_power(2 * x, n - 2 * j) * _whole_power(inverse, n - j)
        near = near + count * rising(n - j) * (a * b).real ** (n - j) * term
    for m in range(n + 1):
        term = _whole_power(a * inverse_p, m) * _whole_power(b * inverse_q, n - m)
        far = far + math.comb(n, m) * rising(m) * rising(n - m) * term
    return root * np.where(np.abs(x) < 0.5, near, far)


def _inner_power(x: Array, n: int, k: int) -> Array:
    return _two_roots(x, _one_minus(x), _one_plus(x), -1, 1, n, k)


def _bent_power(x: Array, n: int, k: int) -> Array:
    ix = _times_i(x, 1)
    return _two_roots(x, _one_minus(ix), _one_plus(ix), -1j, 1j, n, k)


def _steep_power(x: Array, n: int, k: int) -> Array:
    return _two_roots(x, x - 1, _one_plus(x), 1, 1, n, k)


asin = _wide(np.arcsin)
acos = _wide(np.arccos)
atan = _wide(np.arctan)
asinh = _wide(np.arcsinh)
acosh = _wide(np.arccosh)
atanh = _wide(np.arctanh)
rsqrt1m2 = _wide(lambda x: _inner_power(x, 0, 1))
recip1m2 = _wide(lambda x: _inner_power(x, 0, 2))
inner_power_derivative = _wide(lambda x, *, n, k: _inner_power(x, n, k))
recip1p2 = _wide(lambda x: _bent_power(x, 0, 2))
rsqrt1p2 = _wide(lambda x: _bent_power(x, 0, 1))
bent_power_derivative = _wide(lambda x, *, n, k: _bent_power(x, n, k))
acosh_slope = _wide(lambda x: _steep_power(x, 0, 1))
steep_power_derivative = _wide(lambda x, *, n, k: _steep_power(x, n, k))

# ---------------------------------------------------------------------------------------------- powers


def _power(x: Array, y: Array) -> Array:
    """The principal x**y. 0**0 is 1, and 0**y is 0 for Re(y) > 0 and infinite or NaN otherwise."""
    if y.ndim == 0 and y == np.rint(y.real) and abs(y.real) <= 16:
        n = int(y.real)
        return _whole_power(x, n) if n >= 0 else _inverse_power(x, -n)
    zero = np.equal(x, 0)
    out = np.exp(y * np.log(np.where(zero, 1, x)))
    if not np.any(zero):
        return out
    at_zero = np.where(np.equal(y, 0), 1, np.where(y.real > 0, 0, np.where(np.equal(y.imag, 0), np.inf, np.nan)))
    return np.where(zero, at_zero, out)


def _falling(n: int, k: int) -> list[int]:
    """Coefficients, lowest first, of the k-th derivative of y (y - 1) ... (y - n + 1)."""
    c = [1]
    for j in range(n):
        c = [(c[i - 1] if i else 0) - j * (c[i] if i < len(c) else 0) for i in range(len(c) + 1)]
    for _ in range(k):
        c = [i * v for i, v in enumerate(c)][1:] or [0]
    return c


def _pow_derivative(x: Array, y: Array, *, n: int, m: int) -> Array:
    """Leibniz's rule: the sum of comb(m, k) falling^(k)(y) log(x)**(m-k), times x**(y - n). At 0 without logarithms."""
    zero = np.equal(x, 0)
    power = _power(x, y - n)
    log = np.log(np.where(zero, 1, x)) if m else np.zeros_like(x)
    x, y, log = broadcast_arrays(x, y, log)
    total = np.zeros_like(y)
    for k in range(min(m, n) + 1):
        c = tuple(_falling(n, k))
        total = total + math.comb(m, k) * _horner(c, y) * _whole_power(log, m - k)
    # A zero factor outweighs the pole of the power at 0.
    return np.where(np.equal(total, 0), np.zeros_like(total), total * power)


power = _wide(_power)
pow_derivative = _wide(_pow_derivative)
