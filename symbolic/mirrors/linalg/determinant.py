"""Mirrors of the determinant, its cofactors and their derivatives."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np

from gtape.symbolic.balls import objects
from gtape.symbolic.matrices import cofactors, determinant, each
from gtape.symbolic.mirrors.registry import array


def _along(W: Any, a: Any, gs: Any) -> Any:
    """The derivative of the cofactors along k directions. Their rows replace rows, because det is linear in rows."""
    n, k = len(a), len(gs)
    out = np.zeros((n, n), dtype=object)
    for rows in permutations(range(n), k):
        mixed = a.copy()
        for r, g in zip(rows, gs, strict=True):
            mixed[r] = g[r]
        made = cofactors(W, mixed)
        for i in range(n):
            if i not in rows:
                out[i] = out[i] + made[i]
    return out


def _form(W: Any, a: Any, gs: Any) -> Any:
    a, gs = objects(a), objects(gs)
    out = np.empty(a.shape, dtype=object)
    for i in np.ndindex(*a.shape[:-2]):
        out[i] = _along(W, a[i], gs[i])
    return out


array("det", lambda W, a: each(lambda m: determinant(W, m), 0, a))
array("cofactors", lambda W, a: each(lambda m: cofactors(W, m), 2, a))
array("det_form", _form)
array("take_direction", lambda W, gs, *, index: objects(gs)[..., index : index + 1, :, :])
