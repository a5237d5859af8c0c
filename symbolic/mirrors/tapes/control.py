"""Mirror of `stop_gradient`: the value. The op's declaration, not its mirror, makes it a constant."""

from __future__ import annotations

from gtape.symbolic.mirrors.registry import scalar

scalar("stop_gradient", lambda x: x)
