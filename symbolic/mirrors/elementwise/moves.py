"""Mirror of a number that moves as another one does."""

from __future__ import annotations

from gtape.symbolic.mirrors.registry import array

array("moved_along", lambda W, x, y, z: W.add(W.add(x, y), W.negative(z)))
