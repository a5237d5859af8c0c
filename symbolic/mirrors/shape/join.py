"""Mirrors of joining and splitting: the elements of the inputs, side by side."""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from gtape.symbolic.balls import objects
from gtape.symbolic.mirrors.registry import array

array("concat", lambda W, *xs, axis: np.concatenate(list(map(objects, xs)), axis))
array("stack", lambda W, *xs, axis: np.stack(list(map(objects, xs)), axis))
array("split", lambda W, x, *, sizes, axis: tuple(np.split(objects(x), list(accumulate(sizes))[:-1], axis)))
