"""Mirror of a check: the tensor itself."""

from __future__ import annotations

from gtape.symbolic.mirrors.registry import array

array("check_numerics", lambda W, x, *, message: x)
