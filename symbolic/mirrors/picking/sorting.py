"""Mirror of the order of elements."""

from __future__ import annotations

from gtape.symbolic.mirrors.registry import array

array("order", lambda W, x, *, descending: W.order_along(x, -1, descending))
