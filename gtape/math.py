"""``gtape.math``: the elementwise functions, reductions and scans, under TensorFlow's names.

NumPy functions that TensorFlow lacks (exp2, log2, log10, cbrt, sinc, hypot, logaddexp ...) are here under NumPy's
names. Functions are generated when first asked for.
"""

from __future__ import annotations

from typing import Any

from gtape.namespaces.catalogue import resolve
from gtape.namespaces.listing import listed

_ALIASES = {
    "truediv": "divide",
    "div_no_nan": "divide_no_nan",
    "mod": "floormod",
    "realdiv": "divide",
    "swish": "silu",
}
# Functions of gtape.nn that TensorFlow has here, too.
_SHARED = frozenset({"l2_normalize", "log_softmax", "softmax"})


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return __dir__()
    if name == "special":
        from gtape.namespaces import special

        return special
    value = resolve(name) if name in _SHARED else resolve(_ALIASES.get(name, name), "math", known=__dir__)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return listed("math", {*_ALIASES, *_SHARED, "special"})
