"""``gtape.math``: the elementwise functions, reductions and scans, under TensorFlow's names.

NumPy functions that TensorFlow lacks (exp2, log2, log10, cbrt, sinc, hypot, logaddexp ...) have NumPy's names.
Functions are generated on first use.
"""

from __future__ import annotations

from typing import Any

from gtape.namespaces.catalogue import namespace

_op, __dir__ = namespace("math", globals(), ["special"])


def __getattr__(name: str) -> Any:
    if name == "special":
        from gtape.namespaces import special

        return special
    return _op(name)
