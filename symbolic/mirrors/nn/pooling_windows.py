"""Mirror of the greatest element of every window, found by comparing the elements one by one."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from gtape.symbolic.mirrors.registry import array
from gtape.symbolic.windows import Sizes, places


def _window_argmax(W: Any, x: Any, *, window: Sizes, strides: Sizes, dilations: Sizes, padding: Any) -> Any:
    x = W.objects(x)
    windows = places(x.shape, window, {"strides": strides, "dilations": dilations, "padding": padding})
    flat = x.ravel()
    number = np.arange(math.prod(x.shape)).reshape(x.shape)
    chosen = np.full(windows, -1, dtype=np.int64)
    for tap in itertools.product(*map(range, window)):
        at = [
            s * np.arange(o) + d * k - before
            for o, k, s, d, (before, _) in zip(windows, tap, strides, dilations, padding, strict=True)
        ]
        inside = [(a >= 0) & (a < n) for a, n in zip(at, x.shape, strict=True)]
        candidate = np.full(windows, -1, dtype=np.int64)
        candidate[np.ix_(*inside)] = number[np.ix_(*[a[i] for a, i in zip(at, inside, strict=True)])]
        contest = (candidate >= 0) & (chosen >= 0)
        wins = np.asarray(W.greater(flat[candidate[contest]], flat[chosen[contest]]))
        takes = (candidate >= 0) & (chosen < 0)
        takes[contest] = wins
        chosen[takes] = candidate[takes]
    return chosen


array("window_argmax", _window_argmax)
