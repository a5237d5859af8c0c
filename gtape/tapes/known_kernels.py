"""Facts about the kernels of primitives that compiled functions use."""

from __future__ import annotations

import numpy as np

from gtape.declare.primitives import CHANGED, REGISTRY

__all__ = ["known_kernels"]

_RENAMING = frozenset({"spread", "flat", "read", "stop"})


class _Kernels:
    """The kernels of all imported primitives. Every node of a traced call has one of these kernels.

    Parameters
    ----------
    version : int
        The number of declarations so far.

    Attributes
    ----------
    scalars : frozenset of callable
        The kernels of Python floats.
    linear : dict
        The primitives that only change the shape of their operand, by the identities of their kernels.
    elementwise : frozenset of int
        The identities of elementwise kernels other than ufuncs.
    others : frozenset of int
        The identities of all kernels other than ufuncs.
    """

    __slots__ = ("elementwise", "linear", "others", "scalars", "version")

    def __init__(self, version: int) -> None:
        self.version = version
        prims = REGISTRY.loaded()
        self.scalars = frozenset([p.scalar for p in prims if p.scalar is not None])
        self.linear = {id(p.kernel): p for p in prims if p.roles & _RENAMING}
        self.others = frozenset([id(p.kernel) for p in prims if p.kernel.__class__ is not np.ufunc])
        each = [id(p.kernel) for p in prims if p.kind == "elementwise"]
        self.elementwise = self.others.intersection(each)


_newest: list[_Kernels] = []
CHANGED.append(lambda _: _newest.clear())


def known_kernels() -> _Kernels:
    """The current kernels, collected again after a new declaration or a swap of kernels."""
    version = REGISTRY.version
    found = _newest[:1]
    if not found or found[0].version != version:
        found = _newest[:] = [_Kernels(version)]
    return found[0]
