"""Mirror of gamma draws: an equation defines them, and enclosures (balls) follow from it."""

from __future__ import annotations

from gtape.symbolic.gamma_draw import GammaDraw
from gtape.symbolic.mirrors.registry import scalar

scalar("gamma_draw", lambda a, z: GammaDraw(0, a, z))
scalar("gamma_draw_slope", lambda a, z, *, order=1: GammaDraw(order, a, z))
