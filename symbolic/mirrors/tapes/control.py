"""Mirror of the gradient's stop: the value. That it counts as a constant is declared by the op, not by its mirror."""

from __future__ import annotations

from gtape.symbolic.mirrors.registry import scalar

scalar("stop_gradient", lambda x: x)
