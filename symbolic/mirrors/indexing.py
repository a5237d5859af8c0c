"""Mirrors of gtape/ops/indexing.py: parts taken by NumPy's own indexing, and put into zeros."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.symbolic.mirrors.registry import array


def _obj(x: Any) -> Any:
    return np.asarray(x, dtype=object)


def _key(key: tuple[Any, ...]) -> tuple[Any, ...]:
    return (..., *[slice(*k) if isinstance(k, tuple) else k for k in key])


def _place(W: Any, g: Any, *, key: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
    out = np.full(shape, 0, dtype=object)
    out[_key(key)] = _obj(g)
    return out


array("strided_slice", lambda W, x, *, key: _obj(x)[_key(key)])
array("place", _place)
