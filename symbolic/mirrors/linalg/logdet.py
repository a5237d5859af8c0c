"""Mirrors of the logarithm and of the sign of the determinant."""

from __future__ import annotations

from gtape.symbolic.mirrors.registry import array

array("log_abs_det", lambda W, a: W.log(W.abs(W.det(a))))
array("det_sign", lambda W, a: W.sign(W.det(a)))
