"""Mirrors of gtape/ops/join.py and tiling.py: the elements of the inputs, side by side."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np

from gtape.symbolic.mirrors.registry import array


def _obj(x: Any) -> Any:
    return np.asarray(x, dtype=object)


def _pad(W: Any, x: Any, *, paddings: tuple[tuple[int, int], ...], value: Any) -> Any:
    x = _obj(x)
    out = np.empty([d + b + a for d, (b, a) in zip(x.shape, paddings, strict=True)], dtype=object)
    lifted = W.lift(np.asarray(value))[()] if isinstance(value, complex) else W.exact(value)
    out[...] = value if isinstance(value, int) else lifted
    for at in np.ndindex(*x.shape):
        out[tuple([i + b for i, (b, _) in zip(at, paddings, strict=True)])] = x[at]
    return out


array("concat", lambda W, *xs, axis: np.concatenate([_obj(x) for x in xs], axis))
array("stack", lambda W, *xs, axis: np.stack([_obj(x) for x in xs], axis))
array("split", lambda W, x, *, sizes, axis: tuple(np.split(_obj(x), list(accumulate(sizes))[:-1], axis)))
array("pad", _pad)
