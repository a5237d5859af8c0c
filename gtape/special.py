"""``gtape.math.special``: Bessel functions and integrals, under the names of ``tf.math.special``."""

from __future__ import annotations

from typing import Any

from gtape.catalogue import names_in, resolve

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    value = resolve(name, "math.special")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return names_in("math.special")
