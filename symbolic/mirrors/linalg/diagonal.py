"""Mirrors of diagonals and bands: each element is an element of the input or zero."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.symbolic.balls import objects
from gtape.symbolic.mirrors.registry import array


def _diag_embed(W: Any, d: Any, *, k: int, shape: tuple[int, int]) -> Any:
    d = objects(d)
    out = np.full(d.shape[:-1] + shape, 0, dtype=object)
    for i in range(shape[0]):
        if 0 <= i + k < shape[1]:
            out[..., i, i + k] = d[..., min(i, i + k)]
    return out


def _band_part(W: Any, x: Any, *, lower: int, upper: int) -> Any:
    out = np.array(x, dtype=object)
    for i in range(out.shape[-2]):
        for j in range(out.shape[-1]):
            if (lower >= 0 and i - j > lower) or (upper >= 0 and j - i > upper):
                out[..., i, j] = 0
    return out


array("diag_part", lambda W, x, *, k: np.diagonal(objects(x), k, -2, -1))
array("diag_embed", _diag_embed)
array("band_part", _band_part)
