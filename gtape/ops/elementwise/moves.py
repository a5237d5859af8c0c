"""A number that moves as another one does: the value of one result with the derivatives of another, or of both.

Some tapes follow a result through a custom gradient, others through the ops of its body. For a tape that follows one
of the two, the other is a constant. A complex Cholesky factor has the value of one triangle and the gradient of both.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.declare.primitives import primitive
from gtape.declare.rounding import sums

__all__: list[str] = []
NAMESPACES = None


def _rests(y: Any, z: Any) -> Any:
    """Where `y` is `z`, which may be an infinity or NaN."""
    return (y == z) | ((y != y) & (z != z))


def _terms(x: Any, y: Any, z: Any) -> Any:
    return np.where(_rests(y, z), 0, abs(x) + 2 * abs(y - z))


def _moved_along_kernel(x: Any, y: Any, z: Any) -> Any:
    return np.where(_rests(y, z), x, x + (y - z))


moved_along = primitive(
    "moved_along", _moved_along_kernel,
    vjp=(lambda xp, g, w, x, y, z: g, lambda xp, g, w, x, y, z: g, lambda xp, g, w, x, y, z: -g),
    jvp=(lambda xp, t, w, x, y, z: t, lambda xp, t, w, x, y, z: t, lambda xp, t, w, x, y, z: -t),
    batched=True, role=("pointwise", "moves"), complex=True, reads=((), (), ()),
    rounding=sums(_terms, signed=True),
    samples=((((3,), (3,), (3,)), {}), (((), (), ()), {}), (((2, 2), (2, 2), (2, 2)), {})),
)  # fmt: skip
