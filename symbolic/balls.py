"""Balls: real numbers with a rigorous error bound (``flint.arb``), their comparisons, precision and conversions.

A ball is an enclosure: an interval that certainly contains the exact number. A comparison of two balls is decided if
all pairs of their numbers give the same answer. Otherwise it raises `Undecided`, and the caller runs again with a
higher precision. One ball object stands for one number, so a ball equals itself even if it is wide.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from flint import acb, arb, ctx, fmpz

from gtape.base.blocks import Block, block
from gtape.base.deadline import tick
from gtape.base.diagnosis import diagnosed
from gtape.base.locks import Lock
from gtape.base.shown import shown
from gtape.tensors import argument_checks as checks

__all__ = [
    "AGAINST", "LARGEST_WHOLE", "RELATIONS", "Undecided", "assume", "assumed", "box", "digits", "encloses_zero",
    "equal", "filled", "greater", "greater_equal", "has_complex", "infinities_as_limits", "integer_power", "less",
    "less_equal", "lift_balls", "lift_complex", "mapped", "meets", "not_equal", "numbers_shared", "objects",
    "only_integer", "precision", "radius", "rowwise", "running", "shared", "sided", "sides_of_zeros",
    "stands_for_0", "stands_for_infinity", "tied", "ties_assumed", "to_double_double", "to_float", "whole_number",
]  # fmt: skip


class Undecided(ArithmeticError):
    """A comparison that the balls leave undecided at this precision.

    Attributes
    ----------
    relation : str
        The comparison, such as ``"<"``.
    left, right : object
        The compared objects.
    hopeless : bool
        Whether more precision cannot help, because a side is NaN or a symbol without a sample value.

    Examples
    --------
    >>> from flint import arb
    >>> from gtape.symbolic import Undecided
    >>> try:
    ...     raise Undecided("<", arb(1), arb(2))
    ... except Undecided as error:
    ...     print(error.relation, error.hopeless)
    < False
    """

    def __init__(self, relation: str, left: Any, right: Any, hopeless: bool | None = None) -> None:
        self.relation, self.left, self.right = relation, left, right
        self.hopeless = _is_nan(left) or _is_nan(right) if hopeless is None else hopeless
        advice = "more precision will not help" if self.hopeless else "raise the precision: with precision(bits): ..."
        super().__init__(f"undecided: {_short(left)} {relation} {_short(right)}; {advice}")


def _short(x: Any) -> Any:
    return x.str(20) if isinstance(x, arb) else x


def _is_nan(x: Any) -> bool:
    return isinstance(x, arb) and x.is_nan()


def _anew() -> None:
    """Reset the state in a forked child, because the assumptions of the parent's threads do not hold there."""
    assumed.clear()
    ctx.prec = _gradient_of_one_scalar


# Only one thread at a time computes in balls, because flint's precision and `assumed` belong to the whole process.
_one_thread = Lock(_anew)
_gradient_of_one_scalar = ctx.prec
assumed: dict[str, Any] = {}


@block
def assume(name: str, value: Any) -> Iterator[Any]:
    """Set `assumed[name]` to the value inside the block."""
    with _one_thread:
        before = assumed.get(name)
        assumed[name] = value
        try:
            yield value
        finally:
            assumed[name] = before


def ties_assumed() -> Block[Any]:
    """Treat balls that agree to a third of the current precision as one number inside the block, and list them.

    Balls of equal numbers that were computed in different ways overlap at every precision, so no precision proves
    equality.
    """
    return assume("ties", [])


def numbers_shared() -> Block[Any]:
    """Compute each number once inside the block, so that two results of one computation are one object.

    Enclosures of equal numbers do not show that the numbers are equal. One object has the difference 0 to itself, and
    is tied with itself. So the exponentials of two equal elements are tied, without an assumption.
    """
    return assume("shared", _Memo())


class _Memo:
    """The numbers and arrays that were computed inside `numbers_shared`.

    Attributes
    ----------
    made : dict
        What tells a computation from others -> its result, and the arguments, because their identities are in the key.
    """

    __slots__ = ("_exact", "_first", "made")

    def __init__(self) -> None:
        self.made: dict[Any, tuple[Any, list[Any]]] = {}
        # By identity. An entry keeps its number, so that no other number gets the identity.
        self._exact: dict[int, tuple[Any, int]] = {}
        self._first: dict[Any, int] = {}  # by value: the identity of the first number with this value

    def identity(self, x: Any) -> Any:
        """What tells a number or array from others: exact numbers by value, other numbers by the object."""
        if x.__class__ is arb:
            known = self._exact.get(id(x))
            if known is not None:
                return known[1]
            if not (x.is_exact() and x.is_finite()):
                return id(x)
            # A value takes long to hash, so each object is hashed once.
            first = self._first.setdefault(x.man_exp(), id(x))
            self._exact[id(x)] = x, first
            return first
        if isinstance(x, np.ndarray):
            return x.shape, x.dtype.char, *map(self.identity, x.ravel().tolist())
        if isinstance(x, (list, tuple)):
            return tuple(map(self.identity, x))
        components = getattr(x, "components", None)
        if components is not None:
            return tuple(map(self.identity, components))
        return x if isinstance(x, (int, float, str)) else id(x)


def shared(name: Any, function: Callable[..., Any], *, quick: bool = False) -> Callable[..., Any]:
    """A function that returns the same object for the same arguments, inside `numbers_shared`.

    Parameters
    ----------
    name : hashable
        Different for different functions.
    quick : bool
        Whether the function takes less time than a search for its result. Exact results are then not kept, because
        their values show that they are equal.
    """
    memo = assumed.get("shared")
    if memo is None or assumed.get("recorded") is not None:
        return function
    settings = ctx.prec, *[assumed.get(s) is not None for s in _SETTINGS]
    made, identity = memo.made, memo.identity

    def once(*xs: Any) -> Any:
        result: Any = function(*xs) if quick else None
        if result.__class__ is arb and result.is_exact() and result.is_finite():
            return result
        key = (name, settings, *map(identity, xs))
        known = made.get(key)
        if known is None:
            kept = [x.copy() if isinstance(x, np.ndarray) else x for x in xs]
            known = made[key] = result if quick else function(*xs), kept
        return known[0]

    return once


_SETTINGS = ("ties", "degenerate", "limits", "sides", "turned", "values alone")  # that results depend on


def circumstances() -> tuple[Any, ...] | None:
    """The settings that a result depends on besides its inputs; None if the computation also takes notes, except
    assumed ties.
    """
    if assumed.get("degenerate") or assumed.get("recorded") is not None:
        return None
    settings = [assumed.get(s) is not None for s in ("ties", "shared")]
    return ctx.prec, *settings, *[bool(assumed.get(s)) for s in ("limits", "sides", "turned")]


def tied(a: Any, b: Any) -> bool:
    """Whether two numbers count as one inside `ties_assumed`."""
    listed = assumed.get("ties")
    if listed is None or not (isinstance(a, (arb, int)) and isinstance(b, (arb, int))):
        return False
    if not _are_close(arb(a), arb(b)):
        return False
    listed.append((a, b))
    return True


def meets(x: Any, y: Any) -> Any:
    """The mask of the pairs in two arrays that may be equal: certainly, or alike to a third of the precision.

    Unlike `tied`, nothing is noted, and no tie needs to be assumed.
    """
    mask = np.asarray(~np.asarray(np.not_equal(x, y), dtype=bool))  # not certainly different
    if mask.any():
        x, y = np.broadcast_to(x, mask.shape), np.broadcast_to(y, mask.shape)
        mask[mask] = [_alike(a, b) for a, b in zip(x[mask].tolist(), y[mask].tolist(), strict=True)]
    return mask


def _alike(a: Any, b: Any) -> bool:
    real = isinstance(a, (arb, int)) and isinstance(b, (arb, int))
    return bool(a == b) or (a is b and not _is_nan(a)) or (real and _are_close(arb(a), arb(b)))


def _are_close(a: arb, b: arb) -> bool:
    difference = a - b
    return bool(difference.is_finite() and abs(difference) < arb(2) ** (-ctx.prec // 3) * (1 + abs(b.mid())))


def _at_a_tie(answer: bool, relation: str, a: Any, b: Any) -> bool:
    """The answer for equal numbers, if both are one object or an assumed tie. Otherwise raise `Undecided`."""
    if (a is b and not _is_nan(a)) or tied(a, b):
        return answer
    raise Undecided(relation, a, b)


def _relation(symbol: str, holds: Callable[..., Any], fails: Callable[..., Any], tied: bool) -> Callable[..., bool]:
    """A three-valued comparison from two comparisons that are True only if certain. `tied` is the answer for ties."""

    def decide(a: Any, b: Any) -> bool:
        if holds(a, b):
            return True
        return not fails(a, b) and _at_a_tie(tied, symbol, a, b)

    decide.__doc__ = f"Whether a {symbol} b for all numbers in the balls; `Undecided` where it holds for some only."
    return decide


less = _relation("<", operator.lt, operator.ge, False)
less_equal = _relation("<=", operator.le, operator.gt, True)
greater = _relation(">", operator.gt, operator.le, False)
greater_equal = _relation(">=", operator.ge, operator.lt, True)
equal = _relation("==", operator.eq, operator.ne, True)
not_equal = _relation("!=", operator.ne, operator.eq, False)
# For each comparison of balls its negation: a comparison fails for all numbers in the balls only if the negation
# certainly holds.
AGAINST = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
RELATIONS = {"<": less, "<=": less_equal, ">": greater, ">=": greater_equal, "==": equal, "!=": not_equal}


@block
def precision(bits: int) -> Iterator[None]:
    """Run the body with balls of `bits` bits.

    Parameters
    ----------
    bits : int
        An integer of at least 2.

    Returns
    -------
    context manager

    Raises
    ------
    ValueError
        If `bits` is less than 2.

    Examples
    --------
    >>> from flint import arb
    >>> with precision(300):
    ...     third = 1 / arb(3)
    >>> digits(third, 50)
    '0.33333333333333333333333333333333333333333333333333'
    """
    bits = checks.whole("precision", "bits", bits)
    if not 2 <= bits <= _MOST_BITS:
        raise ValueError(f"precision needs at least 2 bits, and at most {_MOST_BITS}, got {bits}")
    with _one_thread:
        before = ctx.prec
        ctx.prec = bits
        try:
            yield
        finally:
            ctx.prec = before


# FLINT ends the process if it cannot allocate the memory of a number.
MOST_DIGITS = 1_000_000
_MOST_BITS = 4 * MOST_DIGITS


def lift_balls(x: np.ndarray) -> np.ndarray:
    """Floats of any dtype as an object array of exact balls. NaN becomes the indeterminate ball."""
    x = x if x.dtype == np.float64 else x.astype(np.float64)
    out = mapped(_limit if assumed.get("limits") and not np.isfinite(x).all() else arb, x)
    if assumed.get("sides") and (below := (x == 0) & np.signbit(x)).any():
        out[below] = sided(-1.0)
    return out


def infinities_as_limits(exponent: int = 2200) -> Block[Any]:
    """Lift infinities as numbers larger than all floats inside the block, so that functions give their limits.

    Most functions of an infinite ball are NaN, but a softmax with a mask of -inf has a limit.

    Parameters
    ----------
    exponent : int
        Infinity is lifted as 2 to this power. The default is larger than products of two floats, and 3200 bits tell its
        units.

    Examples
    --------
    >>> with infinities_as_limits():
    ...     x = lift_balls(np.array([-np.inf]))
    >>> to_float(np.frompyfunc(arb.exp, 1, 1)(x)).tolist()
    [0.0]
    """
    return assume("limits", exponent)


def _limit(x: float) -> arb:
    return arb(x) if np.isfinite(x) or x != x else arb(2) ** assumed.get("limits") * (1 if x > 0 else -1)


def stands_for_infinity(x: arb) -> bool:
    """Whether a number is large because it comes from an infinity, inside `infinities_as_limits`."""
    return bool(abs(x) > arb(2) ** (assumed["limits"] - 150))  # products of two floats are less


def stands_for_0(x: arb) -> bool:
    """Whether a number that is not exactly 0 is tiny because it comes from an infinity, as `stands_for_infinity`."""
    tiny = arb(2) ** -(assumed["limits"] - 50)  # products of two floats are 0 or more
    return bool(abs(x) < tiny) and not x.is_zero()


def sides_of_zeros() -> Block[Any]:
    """Lift negative zeros and zero parts of complex numbers as tiny numbers of the same sign inside the block.

    The sign of a zero tells the side of a branch cut, but balls have no signed zero.
    """
    return assume("sides", True)


def sided(sign: float) -> arb:
    """Zero; inside `sides_of_zeros` a tiny number with that sign."""
    return arb(sign) * arb(2) ** -20_000 if assumed.get("sides") else arb(0)


def lift_complex(x: np.ndarray) -> np.ndarray:
    """Complex numbers of any dtype as an object array of exact complex balls."""

    def part(v: float) -> arb:
        return arb(v) if v else sided(float(np.copysign(1.0, v)))

    return mapped(lambda z: acb(part(z.real), part(z.imag)), x.astype(np.complex128))


def finite_ball(x: Any) -> bool:
    """Whether a ball, or an exact number, is finite."""
    return not isinstance(x, (arb, acb)) or bool(x.is_finite())


def has_complex(x: Any) -> bool:
    """Whether an object array holds complex balls, or jets of complex balls."""
    return any(isinstance(c, acb) for e in objects(x).ravel().tolist() for c in getattr(e, "components", (e,)))


def integer_power(x: Any, n: int) -> Any:
    """x**n for n > 0 by squaring, because ``arb ** n`` gives NaN for a ball around 0."""
    out = None
    while n:
        if n & 1:
            out = x if out is None else out * x
        n >>= 1
        if n:
            x = x * x
    return out


# FLINT ends the process if it looks for an integer near numbers whose exponents need too much memory.
LARGEST_WHOLE = arb(2) ** 100_000


def only_integer(x: arb) -> Any:
    """The only integer in a ball, as FLINT's; None without one, with several, or beyond `LARGEST_WHOLE`."""
    if abs(x) < 0.5:
        return fmpz(0) if x.contains(0) else None
    return x.unique_fmpz() if abs(x) < LARGEST_WHOLE else None


def whole_number(x: Any, most: int) -> int | None:
    """The integer that an int or an exact ball equals; None for other numbers and for integers beyond `most`."""
    if isinstance(x, acb):
        return whole_number(x.real, most) if x.imag == 0 else None
    if isinstance(x, arb):
        if not (x.is_exact() and x.is_integer() and abs(x) <= most):
            return None
        x = int(x.unique_fmpz())
    return x if isinstance(x, int) and abs(x) <= most else None


def box(x: Any) -> np.ndarray:
    """A single object as a 0-d object array."""
    out = np.empty((), dtype=object)
    out[()] = x
    return out


def objects(x: Any) -> np.ndarray:
    """The value `x` as an object ndarray, 0-d included."""
    if isinstance(x, np.ndarray):
        return x if x.dtype == object else x.astype(object)
    return box(x)


def mapped(f: Callable[..., Any], *xs: Any) -> np.ndarray:
    """A function of scalars on every element of arrays, as an object ndarray."""
    with np.errstate(all="ignore"):  # a comparison of a float with NaN sets a flag, of which NumPy would warn
        return objects(np.frompyfunc(f, len(xs), 1)(*xs))


def filled(entries: Sequence[Any], shape: tuple[int, ...]) -> np.ndarray:
    """Scalars in row-major order as an object ndarray."""
    return np.fromiter(entries, dtype=object, count=len(entries)).reshape(shape)


def rowwise(f: Callable[..., Sequence[Any]], axis: int, *xs: Any) -> np.ndarray:
    """A function of lists on every row of arrays along an axis. The function returns lists of the same length."""
    moved = [np.moveaxis(objects(x), axis, -1) for x in xs]
    out = np.empty(moved[0].shape, dtype=object)
    for at in np.ndindex(*out.shape[:-1]):
        tick()
        out[at] = filled(f(*[m[at].tolist() for m in moved]), out.shape[-1:])
    return np.moveaxis(out, -1, axis)


def running(
    combine: Callable[[Any, Any], Any], neutral: Any, exclusive: bool, reverse: bool
) -> Callable[[list[Any]], list[Any]]:
    """Combine the elements one by one, and list the total after each element (if exclusive: before each)."""

    def run(row: list[Any]) -> list[Any]:
        total: Any = neutral
        out = []
        for v in reversed(row) if reverse else row:
            before, total = total, combine(total, v)
            out.append(before if exclusive else total)
        return out[::-1] if reverse else out

    return run


def _floats(f: Any, x: np.ndarray) -> np.ndarray:
    flat = x.ravel().tolist()
    if any(issubclass(kind, np.complexfloating) for kind in set(map(type, flat))):
        # float() of NumPy's complex numbers gives the real part. Python's complex numbers have no float.
        flat = [complex(e) if isinstance(e, np.complexfloating) else e for e in flat]
    try:
        return np.fromiter(map(f, flat), np.float64, x.size).reshape(x.shape)
    except (TypeError, ValueError, OverflowError):  # complex balls have no float
        if not has_complex(x):
            raise TypeError(f"arrays of balls or numbers are needed, not {shown(x)}") from None
    out = np.empty(x.size, np.complex128)
    out.real = list(map(f, [e.real if isinstance(e, acb) else e for e in flat]))
    out.imag = list(map(f, [e.imag if isinstance(e, acb) else 0 for e in flat]))
    return out.reshape(x.shape)


@diagnosed
def to_float(x: Any) -> np.ndarray:
    """The midpoints, correctly rounded to float64; complex128 if there are complex balls.

    Parameters
    ----------
    x : object ndarray of arb (Python ints are allowed)

    Returns
    -------
    ndarray of float64, same shape

    Examples
    --------
    >>> from flint import arb
    >>> to_float(arb(1) / 3)
    array(0.33333333)
    """
    return _floats(float, objects(x))


def _low(x: Any, high: float) -> float:
    """The difference between a midpoint and its float."""
    low = float(x - high) if x.__class__ is arb else float(arb(x) - high)
    return low if low == low and abs(high) != _INFINITY else 0.0


_INFINITY = float("inf")
_EASY = 1e-290  # radii above it are floats


@diagnosed
def to_double_double(x: Any) -> tuple[np.ndarray, np.ndarray]:
    """The midpoints as unevaluated sums ``hi + lo`` of float64. hi is the correctly rounded midpoint.

    Parameters
    ----------
    x : object ndarray of arb

    Returns
    -------
    hi, lo : ndarrays of float64

    Examples
    --------
    >>> import numpy as np
    >>> from flint import arb
    >>> with precision(200):
    ...     hi, lo = to_double_double(np.array([arb(1) / 10]))
    >>> hi.tolist(), lo.tolist()
    ([0.1], [-5.551115123125783e-18])
    """
    x = objects(x)
    high = _floats(float, x)
    if high.dtype == np.complex128:
        return high, _floats(lambda e: _low(e, float(e)), x)
    return high, np.fromiter(map(_low, x.ravel().tolist(), high.ravel().tolist()), np.float64, x.size).reshape(x.shape)


def _radius(x: Any) -> float:
    if x.__class__ is arb:
        if x.is_exact():
            return 0.0
        # A radius has 30 bits, so a float holds it, except near the smallest floats. The radius of NaN is infinite.
        f = float(x.rad())
        return f if f > _EASY else math.nextafter(f, _INFINITY)
    if isinstance(x, acb):
        return float(np.nextafter(np.hypot(_radius(x.real), _radius(x.imag)), np.inf)) if not x.is_exact() else 0.0
    return 0.0


@diagnosed
def radius(x: Any) -> np.ndarray:
    """Upper bounds of the radii. Infinite if a ball is indeterminate.

    Parameters
    ----------
    x : arb, acb or object array of these

    Returns
    -------
    ndarray of float64

    Examples
    --------
    >>> from flint import arb
    >>> float(radius(arb(3)))
    0.0
    """
    x = objects(x)
    flat = x.ravel().tolist()
    if set(map(type, flat)) != {arb}:
        return _floats(_radius, x)
    made = np.fromiter(map(float, map(arb.rad, flat)), np.float64, x.size)
    for i in np.flatnonzero(~(made > _EASY)).tolist():
        made[i] = _radius(flat[i])
    return made.reshape(x.shape)


@diagnosed
def digits(x: Any, n: int = 40) -> str:
    """The midpoint in `n` significant decimal digits; 0 if the ball only encloses 0.

    Parameters
    ----------
    x : arb, acb or number

    Raises
    ------
    TypeError
        If `x` is neither a ball nor a number.
    ValueError
        If `n` is not a positive integer, or is more than a million.

    Examples
    --------
    >>> from flint import arb
    >>> digits(arb(0.1), 25)
    '0.1000000000000000055511151'

    The digits of a midpoint beside 0 have no meaning if the ball holds 0.

    >>> digits(arb(1e-61, 1e-59))
    '0'
    """
    n = checks.whole("digits", "n", n, least=1)
    if n > MOST_DIGITS:
        raise ValueError(f"digits: `n` is a whole number from 1 to {MOST_DIGITS}, not {n}")
    if isinstance(x, acb):
        return f"({digits(x.real, n)}, {digits(x.imag, n)}j)"
    try:
        ball = x if isinstance(x, arb) else arb(x)
    except (TypeError, ValueError):
        raise TypeError(f"digits takes a ball or a number, not {shown(x)}") from None
    mid = ball.mid()
    if not mid.is_finite():
        f = float(mid)
        return repr(f)
    return "0" if encloses_zero(ball) else str(mid.str(n, radius=False))


def encloses_zero(x: Any) -> bool:
    """Whether a real ball holds 0 and other numbers.

    Examples
    --------
    >>> from flint import arb
    >>> encloses_zero(arb(0)), encloses_zero(arb(0, 1e-30)), encloses_zero(arb(1, 0.5))
    (False, True, False)
    """
    ball = arb(x)
    return not ball.is_exact() and bool(ball.contains(0))
