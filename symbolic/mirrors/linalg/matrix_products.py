"""Mirror of the cross product."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.symbolic.balls import objects
from gtape.symbolic.mirrors.registry import array


def _cross(W: Any, a: Any, b: Any) -> Any:
    a, b = objects(a), objects(b)
    parts = [a[..., i] * b[..., j] - a[..., j] * b[..., i] for i, j in ((1, 2), (2, 0), (0, 1))]
    return np.stack([objects(p) for p in parts], axis=-1)


array("cross", _cross)
