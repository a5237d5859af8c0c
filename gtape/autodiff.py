"""``gtape.autodiff``: forward mode, and the tape under its second name."""

from __future__ import annotations

from gtape.tapes.forward import ForwardAccumulator
from gtape.tapes.tape import GradientTape

__all__ = ["ForwardAccumulator", "GradientTape"]

__dir__ = __all__.copy  # the names for `dir`, which sorts them
