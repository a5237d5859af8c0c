"""Mirrors of constants of a tensor's shape, of copies, and of casts."""

from __future__ import annotations

from typing import Any

import numpy as np
from flint import acb, arb

from gtape.symbolic.balls import LARGEST_WHOLE, Undecided, equal, mapped, only_integer, tied
from gtape.symbolic.complex_scalars import is_complex, over, real, widened
from gtape.symbolic.jets import value_of
from gtape.symbolic.mirrors.registry import array

_to_complex = over(widened, place=True)
_to_real = over(real)


def _whole(x: Any) -> int:
    """The number of a ball, rounded towards 0."""
    x = arb(real(value_of(x)))
    if not abs(x) < LARGEST_WHOLE:
        raise ArithmeticError("a number that is cast to an integer is beyond all integers of a dtype")
    if x.is_integer() and x.is_exact():
        return int(x.unique_fmpz())
    n = only_integer(x.floor())
    if n is None and tied(x, whole := (x.mid() + arb(1) / 2).floor()):
        return int(whole.unique_fmpz())
    if n is None:
        raise Undecided("floor", x, x.floor())
    return int(n) + (1 if n < 0 and not equal(x, arb(n)) else 0)


def _cast(W: Any, x: Any, *, dtype: Any) -> Any:
    """A cast to real numbers takes the real part. A cast to complex numbers widens.

    A cast to integers or booleans needs balls that decide the result.
    """
    kind = np.dtype(dtype).kind
    if kind == "c":
        return _to_complex(W, x)
    if kind in "biu" and all(isinstance(value_of(e), (arb, acb)) for e in W.objects(x).ravel().tolist()):
        if kind == "b":
            return W.not_equal(x, 0)
        return mapped(_whole, W.objects(x))
    return _to_real(W, x) if kind == "f" and is_complex(x) else x


array("zeros_like", lambda W, x: np.full(np.shape(x), 0, dtype=object))
array("ones_like", lambda W, x: np.full(np.shape(x), 1, dtype=object))
array("identity", lambda W, x: x)
array("cast", _cast)
