"""Mirrors of indexing: NumPy's own indexing picks parts and puts them into zeros."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.symbolic.balls import objects
from gtape.symbolic.mirrors.registry import array


def _key(key: tuple[Any, ...]) -> tuple[Any, ...]:
    return (..., *[slice(*k) if isinstance(k, tuple) else k for k in key])


def _place(W: Any, g: Any, *, key: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
    out = np.full(shape, 0, dtype=object)
    out[_key(key)] = objects(g)
    return out


array("strided_slice", lambda W, x, *, key: objects(x)[_key(key)])
array("place", _place)
