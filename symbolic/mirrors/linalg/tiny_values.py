"""The mirror of the choice between tiny singular values and the others."""

from __future__ import annotations

from typing import Any

import numpy as np
from flint import arb

from gtape.kernels.decompositions import far_below
from gtape.symbolic.balls import objects, to_float
from gtape.symbolic.mirrors.registry import array


def _kept_values(W: Any, w: Any) -> Any:
    """The choice that the op makes for the nearest floats. For symbols 1."""
    values = W.component(objects(w), 0)
    made = np.full(values.shape, W.exact(1), dtype=object)
    if all(isinstance(e, (arb, int, float)) for e in values.ravel().tolist()):
        for at in zip(*np.nonzero(far_below(to_float(values))), strict=True):
            made[at] = W.exact(0)
    return made


array("kept_values", _kept_values)
