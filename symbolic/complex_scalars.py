"""Real and imaginary parts of scalars of any world. For jets component by component, because parts are linear."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import sympy as sp
from flint import acb, arb

from gtape.symbolic.balls import has_complex, mapped, sided
from gtape.symbolic.jets import ZERO, Jet

__all__ = ["conjugate", "imag", "is_complex", "is_complex_expression", "joined", "over", "real", "real_part", "widened"]


def is_complex(x: Any) -> bool:
    """Whether an object array holds numbers of a type that is not real."""
    return has_complex(x) or any(map(is_complex_expression, np.asarray(x).ravel().tolist()))


def is_complex_expression(e: Any) -> bool:
    """Whether an expression may be no real number, because of I or of a symbol that is not declared real."""
    if not isinstance(e, sp.Basic) or e.is_extended_real:
        return False
    return e.has(sp.I) or any(s.is_extended_real is None for s in e.free_symbols)


def _map(f: Callable[..., Any], *xs: Any) -> Any:
    """Apply a function that is linear over the reals to scalars of any world, component by component to jets."""
    like = next((x for x in xs if isinstance(x, Jet)), None)
    if like is None:
        return f(*xs)
    rest = (ZERO,) * (len(like.components) - 1)
    columns = zip(*[x.components if isinstance(x, Jet) else (x, *rest) for x in xs], strict=True)
    return like.__class__(*[ZERO if i and all(c is ZERO for c in cs) else f(*cs) for i, cs in enumerate(columns)])


def real(x: Any) -> Any:
    """The real part."""
    return x.real if isinstance(x, acb) else sp.re(x) if isinstance(x, sp.Basic) else x


def imag(x: Any) -> Any:
    """The imaginary part."""
    return x.imag if isinstance(x, acb) else sp.im(x) if isinstance(x, sp.Basic) else 0 * x


def conjugate(x: Any) -> Any:
    """The complex conjugate."""
    return x.conjugate() if isinstance(x, acb) else sp.conjugate(x) if isinstance(x, sp.Basic) else x


def real_part(x: Any) -> Any:
    """As `real`, for jets component by component."""
    return _map(real, x)


def joined(a: Any, b: Any) -> Any:
    """The complex number a + ib."""
    if isinstance(a, sp.Basic) or isinstance(b, sp.Basic):
        return a + sp.I * b
    return acb(arb(a), arb(b))


def widened(x: Any) -> Any:
    """A real number as a complex one."""
    return x if isinstance(x, (acb, sp.Basic)) else acb(arb(x), 0)


def _placed(x: Any) -> Any:
    """A complex ball, moved off the axes inside `balls.sides_of_zeros`, because branch cuts lie on them."""
    if isinstance(x, Jet):
        return x.__class__(_placed(x.components[0]), *x.components[1:])
    return acb(*[sided(1.0) if v == 0 else v for v in (x.real, x.imag)]) if isinstance(x, acb) else x


def over(f: Callable[..., Any], place: bool = False) -> Callable[..., Any]:
    """The mirror that applies `f` to every element. With `place` it moves results off branch cuts (see `_placed`)."""

    def one(*e: Any) -> Any:
        made = _map(f, *e)
        return _placed(made) if place else made

    def mirror(W: Any, *xs: Any) -> Any:
        arrays = [W.objects(x) for x in xs]
        # An integer of Python would become a ball.
        return mapped(one, *[mapped(W.exact, a) for a in arrays] if W.symbolic else arrays)

    return mirror
