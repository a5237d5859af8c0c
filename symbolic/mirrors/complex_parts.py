"""Mirrors of gtape/ops/complex_parts.py: real and imaginary parts, conjugates, and numbers made of parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import sympy as sp
from flint import acb, arb

from gtape.symbolic.balls import Undecided, equal, has_complex, sided
from gtape.symbolic.jets import ZERO, Jet, value_of
from gtape.symbolic.mirrors.registry import array

__all__ = ["cast", "is_complex"]


def is_complex(x: Any) -> bool:
    """Whether an object array holds numbers that are not written as real ones."""
    return has_complex(x) or any(isinstance(e, sp.Basic) and e.has(sp.I) for e in np.asarray(x).ravel().tolist())


def _map(f: Callable[..., Any], *xs: Any) -> Any:
    """Apply a function that is linear over the reals to scalars of any world; to a jet component by component."""
    like = next((x for x in xs if isinstance(x, Jet)), None)
    if like is None:
        return f(*xs)
    rest = (ZERO,) * (len(like.components) - 1)
    columns = zip(*[x.components if isinstance(x, Jet) else (x, *rest) for x in xs], strict=True)
    return like.__class__(*[ZERO if i and all(c is ZERO for c in cs) else f(*cs) for i, cs in enumerate(columns)])


def _real(x: Any) -> Any:
    return x.real if isinstance(x, acb) else sp.re(x) if isinstance(x, sp.Basic) else x


def _imag(x: Any) -> Any:
    return x.imag if isinstance(x, acb) else sp.im(x) if isinstance(x, sp.Basic) else 0 * x


def _conj(x: Any) -> Any:
    return x.conjugate() if isinstance(x, acb) else sp.conjugate(x) if isinstance(x, sp.Basic) else x


def _joined(a: Any, b: Any) -> Any:
    if isinstance(a, sp.Basic) or isinstance(b, sp.Basic):
        return a + sp.I * b
    return acb(arb(a), arb(b))


def _widened(x: Any) -> Any:
    return x if isinstance(x, (acb, sp.Basic)) else acb(arb(x), 0)


def _placed(x: Any) -> Any:
    """A complex ball beside the axes where the sides of branch cuts matter (`balls.sides_of_zeros`)."""
    if isinstance(x, Jet):
        return x.__class__(_placed(x.components[0]), *x.components[1:])
    return acb(*[sided(1.0) if v == 0 else v for v in (x.real, x.imag)]) if isinstance(x, acb) else x


def _over(f: Callable[..., Any], place: bool = False) -> Callable[..., Any]:
    def one(*e: Any) -> Any:
        made = _map(f, *e)
        return _placed(made) if place else made

    def mirror(W: Any, *xs: Any) -> Any:
        return W.objects(np.frompyfunc(one, len(xs), 1)(*[W.objects(x) for x in xs]))

    return mirror


array("real", _over(_real))
array("imag", _over(_imag))
array("conj", _over(_conj))
array("complex", _over(_joined, place=True))

_to_complex = _over(_widened, place=True)
_to_real = _over(_real)


def _whole(x: Any) -> int:
    """The whole number next to a ball towards 0."""
    x = arb(_real(value_of(x)))
    if x.is_integer() and x.is_exact():
        return int(x.unique_fmpz())
    n = x.floor().unique_fmpz()
    if n is None:
        raise Undecided("floor", x, x.floor())
    return int(n) + (1 if n < 0 and not equal(x, arb(n)) else 0)


def cast(W: Any, x: Any, *, dtype: Any) -> Any:
    """To real numbers the real part; complex numbers of real ones for functions that go on beside the real line.

    To whole numbers and truth values, balls are decided.
    """
    kind = np.dtype(dtype).kind
    if kind == "c":
        return _to_complex(W, x)
    if kind in "biu" and all(isinstance(value_of(e), (arb, acb)) for e in W.objects(x).ravel().tolist()):
        if kind == "b":
            return W.not_equal(x, 0)
        return np.frompyfunc(_whole, 1, 1)(W.objects(x))
    return _to_real(W, x) if kind == "f" and is_complex(x) else x
