"""Mirrors of permutations of axes and elements."""

from __future__ import annotations

import numpy as np

from gtape.symbolic.balls import objects
from gtape.symbolic.mirrors.registry import array

array("transpose", lambda W, x, *, perm: np.transpose(objects(x), perm), linear=(0,))
array("reverse", lambda W, x, *, axis: np.flip(objects(x), axis))
array("roll", lambda W, x, *, shift, axis: np.roll(objects(x), shift, axis))
