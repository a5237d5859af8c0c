"""Common to the tests at NaN, infinities and signed zeros: ordinary points, dtypes, and when two numbers agree.

``GTAPE_LARGE=1`` takes all dtypes for all ops; otherwise each op has float64 and one other.
"""

from __future__ import annotations

import itertools
import math
import zlib
from functools import cache
from typing import Any

import numpy as np
from campaigns import LARGE
from mirror_limits import Limit

from gtape.declare.domains import BOOLEAN
from gtape.declare.primitives import REGISTRY, Primitive
from gtape.namespaces import catalogue
from gtape.symbolic import mirrors

catalogue.load()
mirrors.load()
inf, nan = math.inf, math.nan
SPECIAL = (inf, -inf, 0.0, -0.0)

# Balls take minutes for these at large numbers, or know them at finite ones only: NaN is tried, infinities are not.
NO_LIMITS = {
    "beta_density_derivative", "betainc", "betainc_order_derivative", "gamma_density_derivative", "gamma_draw",
    "gamma_draw_slope", "igamma", "igamma_order_derivative", "igammac", "polygamma", "zeta", "zeta_derivative",
}  # fmt: skip
ELEMENTWISE = [
    n for n in sorted(REGISTRY)
    if REGISTRY[n].kind == "elementwise" and not set(REGISTRY[n].domain.intervals) <= {BOOLEAN}
]  # fmt: skip


def dtypes_of(name: str) -> list[Any]:
    import ml_dtypes

    other = [np.float32, np.float16, ml_dtypes.bfloat16]
    return [np.float64, *(other if LARGE else [other[zlib.crc32(name.encode()) % 3]])]


def free(prim: Primitive) -> list[int]:
    """The arguments that special values are put in."""
    return [i for i, d in enumerate(prim.domain.intervals) if d is not BOOLEAN and not d.whole]


@cache
def plain(prim: Primitive) -> list[tuple[Any, ...]]:
    """A few ordinary points of the domain."""
    numbers = (0.75, 2.5, -1.25, 0.375, 3.0, 1.5, -3.0, 5.0)
    columns = [(True, False) if d is BOOLEAN else [v for v in numbers if v in d] for d in prim.domain.intervals]
    where = prim.domain.where or (lambda *x: True)
    points = [p for p in itertools.product(*columns) if where(*p)]
    return points[:2] + points[-1:]


def agrees(got: float, expected: float, dtype: Any, many: bool) -> bool:
    if math.isnan(expected) or math.isnan(got):
        return math.isnan(expected) and math.isnan(got)
    import ml_dtypes

    f = ml_dtypes.finfo(dtype)
    top = float(f.max)
    if abs(expected) >= top * 0.99:
        return abs(got) >= top * 0.98 and (got > 0) == (expected > 0)
    if math.isinf(got):
        return False
    relative = max(1e-4 if many else 1e-8, 64 * float(f.eps))
    return abs(got - expected) <= relative * abs(expected) + 8 * float(f.smallest_subnormal)


def same_sign(got: float, expected: Limit) -> bool:
    return not expected.signed or expected != 0 or got != 0 or math.copysign(1, got) == math.copysign(1, expected)


COMPLEX = [
    n for n in ELEMENTWISE if REGISTRY[n].complex and not isinstance(REGISTRY[n].complex, str) and plain(REGISTRY[n])
]
