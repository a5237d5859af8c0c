"""Mirrors of what looks at a tensor and hands it on."""

from __future__ import annotations

from gtape.symbolic.mirrors.registry import array

array("check_numerics", lambda W, x, *, message: x)
