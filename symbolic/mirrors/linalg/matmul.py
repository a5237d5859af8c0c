"""Mirrors of the matrix product and of the swap of the last two axes."""

from __future__ import annotations

import numpy as np

from gtape.symbolic.mirrors.registry import array

array("swap_last", lambda W, x: np.swapaxes(W.objects(x), -1, -2), linear=(0,))
# The world's own product: sums of products for object arrays, arb_mat for enclosures (balls).
array("matmul", lambda W, a, b: W.matmul(a, b), linear=(0, 1))
