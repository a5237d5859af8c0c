"""The bits of results, for tests that demand the same bits from two ways of a computation."""

from __future__ import annotations

from typing import Any

import numpy as np

import gtape as tf
from gtape import nest


def bits(made: Any, *, alike: bool = False) -> Any:
    """The dtype, the shape and the bits of a tensor; for a structure, the list of those of its items.

    Parameters
    ----------
    alike : bool
        Whether all NaNs count as equal, because ops in another order may give NaNs of other signs.
    """
    if isinstance(made, tf.IndexedSlices):
        made = [made.values, made.indices]
    if isinstance(made, dict):
        made = [made[k] for k in sorted(made)]
    if isinstance(made, (list, tuple)):
        return [bits(m, alike=alike) for m in made]
    if nest.is_nested(made):
        return bits(nest.flatten(made), alike=alike)
    if made is None:
        return None
    tensor = tf.convert_to_tensor(made)
    a = np.array(tensor.numpy())
    if alike:
        a[np.isnan(a)] = np.nan
    return tensor.dtype, a.dtype.str, a.shape, a.tobytes()
