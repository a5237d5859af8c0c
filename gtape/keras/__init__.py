"""The part of Keras that code written for tapes uses: optimizers."""

from __future__ import annotations

from gtape.keras import optimizers

__all__ = ["optimizers"]
