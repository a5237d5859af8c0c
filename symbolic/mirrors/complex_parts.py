"""Mirrors of gtape/ops/complex_parts.py: real and imaginary parts, conjugates, and numbers made of parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import sympy as sp
from flint import acb, arb

from gtape.symbolic.balls import has_complex
from gtape.symbolic.jets import ZERO, Jet
from gtape.symbolic.mirrors.registry import array

__all__ = ["is_complex"]


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
    return a + sp.I * b if isinstance(a, sp.Basic) or isinstance(b, sp.Basic) else acb(arb(a), arb(b))


def _over(f: Callable[..., Any]) -> Callable[..., Any]:
    def mirror(W: Any, *xs: Any) -> Any:
        return W.objects(np.frompyfunc(lambda *e: _map(f, *e), len(xs), 1)(*[W.objects(x) for x in xs]))

    return mirror


array("real", _over(_real))
array("imag", _over(_imag))
array("conj", _over(_conj))
array("complex", _over(_joined))
