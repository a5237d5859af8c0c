"""The part of Keras that code written for tapes uses: optimizers, losses, layers, models, metrics."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gtape.keras import optimizers

__all__ = ["optimizers"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return importlib.import_module(f"gtape.keras.{name}")
    raise AttributeError(f"module 'gtape.keras' has no attribute {name!r}")
