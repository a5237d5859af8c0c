"""The mirror of a number times a quotient."""

from __future__ import annotations

from gtape.symbolic.mirrors.registry import scalar

scalar("times_quotient", lambda x, a, b: x * a / b)
