"""Products with factors that floats cannot hold: fractions, pi and reciprocals of square roots.

Each product is a primitive, because its mirror then has the exact factor. A rounded factor would be a constant of the
program, and exact derivatives would use the rounded number.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gtape.declare.primitives import linear, primitive
from gtape.declare.rounding import sums, ulps

__all__: list[str] = []
NAMESPACES = None


def _over_roots_kernel(x: Any, n: Any) -> Any:
    return x / np.sqrt(n, dtype=np.float64).astype(x.real.dtype)


def _times_fraction_kernel(x: Any, k: Any, *, n: float) -> Any:
    return x * (k / n).astype(x.real.dtype)


def _between_terms(a: Any, b: Any, i: Any, k: Any, *, n: float) -> Any:
    return 3 * (abs(a) * abs(i / n) + abs(b) * abs(k / n))


_NUMBERS = np.array([3, 1, 10])
_PAIRS: Any = (((3,), _NUMBERS), ((2, 3), np.stack([_NUMBERS, _NUMBERS + 1])), ((), np.array(2)))

over_root = linear(
    "over_root", lambda x, *, n: x / x.real.dtype.type(math.sqrt(n)),
    lambda xp, g, x, *, n: xp.over_root(g, n=n),
    params=("n",), batched=True, role="pointwise", rounding=ulps(1.5),
    samples=((((3,),), {"n": 3}), (((2, 3),), {"n": 0.1}), (((),), {"n": 4})),
)  # fmt: skip
over_rest = linear(
    "over_rest", lambda x, *, rate: x / x.real.dtype.type(1.0 - rate),
    lambda xp, g, x, *, rate: xp.over_rest(g, rate=rate),
    params=("rate",), batched=True, role="pointwise", rounding=ulps(1.5),
    samples=((((3,),), {"rate": 0.1}), (((),), {"rate": 0.75})),
)  # fmt: skip
_CONSTANT: dict[str, Any] = {
    "batched": True, "role": "pointwise", "rounding": ulps(1.5), "samples": ((((3,),), {}), (((),), {}))
}  # fmt: skip
to_degrees = linear(
    "to_degrees", lambda x: x * x.real.dtype.type(180 / math.pi), lambda xp, g, x: xp.to_degrees(g), **_CONSTANT
)
to_radians = linear(
    "to_radians", lambda x: x * x.real.dtype.type(math.pi / 180), lambda xp, g, x: xp.to_radians(g), **_CONSTANT
)
# These primitives are not elementwise, because their second operands are integers.
over_roots = primitive(
    "over_roots", _over_roots_kernel,
    (lambda xp, g, y, x, n: xp.over_roots(g, n), None),
    (lambda xp, t, y, x, n: xp.over_roots(t, n), None),
    reads=((1,), ()), batched=True, complex=True, role="pointwise", rounding=ulps(1.5),
    samples=tuple((pair, {}) for pair in _PAIRS),
)  # fmt: skip
between = primitive(
    "between", lambda a, b, i, k, *, n: _times_fraction_kernel(a, i, n=n) + _times_fraction_kernel(b, k, n=n),
    (
        lambda xp, g, y, a, b, i, k, *, n: xp.times_fraction(g, i, n=n),
        lambda xp, g, y, a, b, i, k, *, n: xp.times_fraction(g, k, n=n),
        None,
        None,
    ),
    (
        lambda xp, t, y, a, b, i, k, *, n: xp.times_fraction(t, i, n=n),
        lambda xp, t, y, a, b, i, k, *, n: xp.times_fraction(t, k, n=n),
        None,
        None,
    ),
    reads=((2,), (3,), (), ()), params=("n",), batched=True, complex=True, role="pointwise",
    rounding=sums(_between_terms, signed=True),
    samples=(
        (((3,), (3,), 9 - _NUMBERS % 9, _NUMBERS % 9), {"n": 9}),
        (((2, 3), (2, 3), _NUMBERS, _NUMBERS + 1), {"n": 7}),
        (((), (), np.array(2), np.array(1)), {"n": 3}),
    ),
)  # fmt: skip
times_fraction = primitive(
    "times_fraction", _times_fraction_kernel,
    (lambda xp, g, y, x, k, *, n: xp.times_fraction(g, k, n=n), None),
    (lambda xp, t, y, x, k, *, n: xp.times_fraction(t, k, n=n), None),
    reads=((1,), ()), params=("n",), batched=True, complex=True, role="pointwise", rounding=ulps(1.5),
    samples=tuple((pair, {"n": 7}) for pair in _PAIRS),
)  # fmt: skip
