"""``gtape.math.special``: Bessel functions and integrals, under the names of ``tf.math.special``."""

from __future__ import annotations

from typing import Any

from gtape.namespaces.catalogue import resolve
from gtape.namespaces.listing import listed


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return __dir__()
    value = resolve(name, "math.special")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return listed("math.special")
