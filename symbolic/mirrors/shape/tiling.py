"""Mirror of padding."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtape.symbolic.balls import objects
from gtape.symbolic.mirrors.registry import array


def _pad(W: Any, x: Any, *, paddings: tuple[tuple[int, int], ...], value: Any) -> Any:
    x = objects(x)
    out = np.empty([d + b + a for d, (b, a) in zip(x.shape, paddings, strict=True)], dtype=object)
    lifted = W.lift(np.asarray(value))[()] if isinstance(value, complex) else W.exact(value)
    out[...] = value if isinstance(value, int) else lifted
    out[tuple([slice(b, b + d) for d, (b, _) in zip(x.shape, paddings, strict=True)])] = x[()]
    return out


array("pad", _pad)
