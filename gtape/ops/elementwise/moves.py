"""A number that moves as another one does: the value of one result with the derivatives of two.

Some tapes follow a result through a custom gradient, others through the ops of its body. For a tape that follows one
of the two, the other is a constant.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.declare.primitives import primitive
from gtape.declare.rounding import sums

__all__: list[str] = []
NAMESPACES = None


def _terms(x: Any, y: Any, z: Any) -> Any:
    return np.where(y == z, 0, abs(x) + 2 * abs(y - z))


def _moved_along_kernel(x: Any, y: Any, z: Any) -> Any:
    return np.where(y == z, x, x + (y - z))  # an infinity that stays where it is moves nothing


moved_along = primitive(
    "moved_along", _moved_along_kernel,
    vjp=(lambda xp, g, w, x, y, z: g, lambda xp, g, w, x, y, z: g, lambda xp, g, w, x, y, z: -g),
    jvp=(lambda xp, t, w, x, y, z: t, lambda xp, t, w, x, y, z: t, lambda xp, t, w, x, y, z: -t),
    batched=True, role=("pointwise", "moves"), complex=True, reads=((), (), ()),
    rounding=sums(_terms, signed=True),
    samples=((((3,), (3,), (3,)), {}), (((), (), ()), {}), (((2, 2), (2, 2), (2, 2)), {})),
)  # fmt: skip
