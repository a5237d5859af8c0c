"""Running error analysis: runs rules on values with error bounds, to first order.

See Higham, "Accuracy and Stability of Numerical Algorithms", section 3.3.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import numpy as np

from gtape.declare.primitives import CONSTANTS, REGISTRY, Primitive
from gtape.engine.worlds import COMPLEX
from gtape.verify.bounds.bounds import (
    COMPLEX_ULPS,
    at_least_tiniest,
    both,
    carried_errors,
    holds_complex,
    holds_floats,
    local_error,
)
from gtape.verify.verdicts.ulp import spacing, widest

__all__ = ["Err", "ErrorWorld", "Independent", "Rounded"]


class Err:
    """A value with a bound on its error."""

    __slots__ = ("dtype", "e", "v")
    __array_ufunc__ = None
    margin = 1.0
    # Whether underflow is an error, too.
    underflows = True

    def __init__(self, v: Any, e: Any, dtype: Any) -> None:
        self.v: np.ndarray[Any, Any] = widest(v)
        self.e = e
        self.dtype = dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.v.shape)

    @property
    def ndim(self) -> int:
        return self.v.ndim

    def _with(self, o: Any, f: Callable[..., Any], slopes: Callable[..., Any]) -> Err:
        b, eb = (o.v, o.e) if isinstance(o, Err) else (widest(o), 0.0)
        v = f(self.v, b)
        sa, sb = slopes(self.v, b, v)
        own = COMPLEX_ULPS if holds_complex(v) else 0.5
        dtype = computed_in(self, o)
        committed = spacing(v, dtype) * own
        if f is np.multiply or f is np.divide:  # sums of subnormal numbers are exact, and so are products with 0
            committed = np.where((self.v != 0) & (b != 0), at_least_tiniest(committed, own), 0.0)
        committed = self.committed(committed, v)
        return self.__class__(v, self.joined(np.abs(sa) * self.e, np.abs(sb) * eb, committed), dtype)

    @classmethod
    def committed(cls, error: Any, v: Any) -> Any:
        """The error that an op commits in a value `v`, from the bound on it."""
        if cls.underflows:
            return error
        with np.errstate(all="ignore"):
            return np.where((error <= _UNDERFLOW) & (error > 2.0**-30 * np.abs(v)), 0.0, error)

    @staticmethod
    def joined(*errors: Any) -> Any:
        """The bound on a sum of errors, which may all have one sign."""
        return sum(errors[1:], errors[0])

    @staticmethod
    def through(prim: Primitive, parts: list[Any], params: dict[str, Any]) -> Any:
        """The error of a sum of products, from magnitudes of the arguments, one of which is an error."""
        return prim.kernel(*parts, **params)

    def __add__(self, o: Any) -> Err:
        return self._with(o, np.add, lambda a, b, v: (1.0, 1.0))

    __radd__ = __add__

    def __sub__(self, o: Any) -> Err:
        return self._with(o, np.subtract, lambda a, b, v: (1.0, 1.0))

    def __rsub__(self, o: Any) -> Err:
        return (-self).__add__(o)

    def __mul__(self, o: Any) -> Err:
        return self._with(o, np.multiply, lambda a, b, v: (b, a))

    __rmul__ = __mul__

    def __truediv__(self, o: Any) -> Err:
        return self._with(o, np.divide, lambda a, b, v: (1 / b, v / b))

    def __rtruediv__(self, o: Any) -> Err:
        return self.__class__(widest(o), 0.0, self.dtype) / self

    def __neg__(self) -> Err:
        return self.__class__(-self.v, self.e, self.dtype)

    # Operators that are ops of tensors have the bounds of these ops.

    def __pow__(self, n: Any) -> Any:
        return ErrorWorld(self.dtype, self.__class__).pow(self, n)

    def __abs__(self) -> Any:
        return ErrorWorld(self.dtype, self.__class__).abs(self)

    def __getitem__(self, key: Any) -> Err:
        return self.__class__(self.v[key], np.broadcast_to(self.e, self.v.shape)[key], self.dtype)


class Rounded(Err):
    """A value with a bound on the errors of roundings alone, without what underflow takes from numbers near 0."""

    __slots__ = ()
    underflows = False


class Independent(Err):
    """A value with a bound on its error, for many independent roundings.

    The squares of the errors add up, so that n equal errors give sqrt(n) times one of them, not n times (Higham and
    Mary, "A new approach to probabilistic rounding error analysis", 2019).
    """

    __slots__ = ()
    margin = 1.2  # measured, because some roundings agree by chance; see `Rounding.independent`

    @staticmethod
    def joined(*errors: Any) -> Any:
        return reduce(np.hypot, errors)  # squares would overflow or underflow

    @staticmethod
    def through(prim: Primitive, parts: list[Any], params: dict[str, Any]) -> Any:
        with np.errstate(all="ignore"):
            # Powers of two, because squares of large and small numbers overflow and underflow.
            powers = [int(np.frexp(np.max(v, initial=0.0))[1]) for v in parts]
            scaled = [np.ldexp(v, -k) for v, k in zip(parts, powers, strict=True)]
            squares = prim.kernel(*map(np.square, scaled), **params)
            root = np.sqrt(squares)
            if np.size(squares) and np.min(squares) < _SQUARED:  # the sum of the magnitudes is never smaller
                root = np.where(squares < _SQUARED, prim.kernel(*scaled, **params), root)
            return np.ldexp(root, sum(powers))


_UNDERFLOW = 2.0**10 * float(np.finfo(np.float64).smallest_subnormal)
_SQUARED = 2.0**-900  # larger sums of squares have lost no digits to underflow


def computed_in(*args: Any) -> Any:
    """The dtype in which values are combined, because a rule may cast to a wider dtype and back."""
    found = [a.dtype for a in args if isinstance(a, Err)]
    return found[0] if all(d == found[0] for d in found) else np.result_type(*found)


class ErrorWorld:
    """Rules on values with error bounds, to first order.

    Parameters
    ----------
    dtype : floating dtype
        The dtype of the program.
    err : type
        `Err`, `Rounded` or `Independent`, which decides which errors count and how they add up.
    """

    def __init__(self, dtype: Any, err: type[Err] = Err) -> None:
        self._dtype = np.dtype(dtype)
        self._err = err

    def __getattr__(self, name: str) -> Any:
        if name in CONSTANTS:
            v = np.float64(CONSTANTS[name])
            return self._err(v, spacing(v, self._dtype) / 2, self._dtype)
        prim = REGISTRY.get(name)
        if prim is None:
            raise AttributeError(name)

        # Not cached, because the partial holds the world, and a cache would make a reference cycle.
        return partial(self._call, prim)

    def _call(self, prim: Primitive, *args: Any, **params: Any) -> Any:
        return self.apply(prim, args, params)

    def apply(self, prim: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """One primitive's value with the sum of its own error and the errors carried from its arguments."""
        if "conversion" in prim.roles:
            x = args[0]
            to = np.dtype(params["dtype"])
            if not isinstance(x, Err) or to.kind not in "fc":
                return x
            return self._err(
                x.v.real if to.kind == "f" else x.v, x.e + self._err.committed(spacing(x.v, to) / 2, x.v), to
            )
        values = [a.v if isinstance(a, Err) else a for a in args]
        if "choice" in prim.roles or not any(isinstance(a, Err) for a in args):
            return getattr(COMPLEX, prim.name)(*values, **params)
        dtype = computed_in(*args)
        y = getattr(COMPLEX, prim.name)(*values, **params)
        if isinstance(y, tuple):
            if prim.kind == "linear":
                carried = prim.kernel(np.broadcast_to(args[0].e, args[0].v.shape), **params)
            else:
                moves = [np.broadcast_to(a.e, a.v.shape) if isinstance(a, Err) else None for a in args]
                inputs = [np.asarray(v) for v in values]
                own = zip(local_error(prim, inputs, y, params, dtype), y, strict=True)
                committed = tuple([self._err.committed(e, v) for e, v in own])
                carried = both(committed, carried_errors(prim, moves, inputs, y, params))
            return tuple([self._err(v, e, dtype) for v, e in zip(y, carried, strict=True)])
        if not holds_floats(np.asarray(y)) or not prim.differentiable:
            return self._err(y, prim.ulps * spacing(y, dtype), dtype) if holds_floats(np.asarray(y)) else y
        y = widest(y)
        e = self._err.committed(local_error(prim, [np.asarray(v) for v in values], y, params, dtype), y)
        if prim.kind == "elementwise":
            # Whole numbers of a rule as arrays, because slopes are functions of arrays.
            values = [np.asarray(v, y.dtype) if v.__class__ is int else v for v in values]
            for i, a in enumerate(args):
                p = prim.rules[i]
                if isinstance(a, Err) and p is not None:
                    slope = p if isinstance(p, int) else p(COMPLEX, y, *values, **params)
                    e = e + np.nan_to_num(np.abs(widest(slope)) * a.e, nan=0.0, posinf=np.inf)
        elif not _PARTS.isdisjoint(prim.roles):
            e = e + args[0].e
        elif prim.kind == "linear" and prim.rounding.kind in ("exact", "sum") and not prim.rounding.signed:
            carried = [
                np.broadcast_to(a.e, a.v.shape)
                if isinstance(a, Err)
                else np.zeros_like(a)
                if holds_floats(np.asarray(a))
                else a
                for a in args
            ]
            e = e + np.abs(prim.kernel(*carried, **params))
        elif prim.rounding.kind == "product":
            # Both factors may be unknown: then the product of their errors counts.
            sizes = [
                np.abs(v) + np.where(a.e > np.abs(v), a.e, 0.0) if isinstance(a, Err) else np.abs(v)
                for a, v in zip(args, values, strict=True)
            ]
            for i, a in enumerate(args):
                if isinstance(a, Err):
                    parts = list(sizes)
                    parts[i] = np.broadcast_to(a.e, a.v.shape)
                    e = self._err.joined(e, self._err.through(prim, parts, params))
        else:
            moves = [np.broadcast_to(a.e, a.v.shape) if isinstance(a, Err) else None for a in args]
            if not prim.variadic:
                e = self._err.joined(e, carried_errors(prim, moves, [np.asarray(v) for v in values], y, params))
        return self._err(y, e, dtype)


# The error of a part is at most that of the whole; the kernels themselves would take the imaginary part of a real
# bound as 0.
_PARTS = frozenset({"part", "conjugate"})
