"""Mirror of triangular factors: elimination in any field."""

from __future__ import annotations

from typing import Any

from gtape.symbolic.matrices import each
from gtape.symbolic.mirrors.registry import array


def _factors(a: Any) -> Any:
    y = a.copy()
    for k in range(len(y) - 1):
        for i in range(k + 1, len(y)):
            y[i, k] = y[i, k] / y[k, k]
            y[i, k + 1 :] = y[i, k + 1 :] - y[i, k] * y[k, k + 1 :]
    return y


array("triangular_factors", lambda W, a: each(_factors, 2, a))
