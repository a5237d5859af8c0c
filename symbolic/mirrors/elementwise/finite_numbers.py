"""Mirror of the product with a power of 2."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.symbolic.mirrors.registry import array


def _ldexp(W: Any, x: Any, exponents: Any) -> Any:
    n = np.asarray(exponents).astype(int)
    up, down = [np.array([2 ** max(int(i), 0) for i in k.flat], dtype=object).reshape(n.shape) for k in (n, -n)]
    return W.divide(W.objects(x) * W.objects(up), W.objects(down))


array("ldexp", _ldexp)
