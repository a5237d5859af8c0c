"""Mirrors of `all` and `any` along axes."""

from __future__ import annotations

import numpy as np

from gtape.symbolic.mirrors.registry import array

array("any", lambda W, x, *, axis, keepdims: np.any(np.asarray(x).astype(bool), axis=axis, keepdims=keepdims))
array("all", lambda W, x, *, axis, keepdims: np.all(np.asarray(x).astype(bool), axis=axis, keepdims=keepdims))
