"""Mirror of decisions: integers and booleans are the same in every world; numbers are compared as in the world."""

from __future__ import annotations

from functools import partial, partialmethod
from typing import Any

import numpy as np

from gtape.symbolic.balls import mapped
from gtape.symbolic.mirrors.registry import array


class _Compared:
    """A number of a world that NumPy can only compare.

    NumPy takes an enclosure that leaves a comparison open for one that denies it. Here such a comparison raises
    `Undecided`.
    """

    __slots__ = ("_number", "_world")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, world: Any, number: Any) -> None:
        self._world, self._number = world, number

    def _holds(self, other: Any, relation: str) -> bool:
        right = other._number if isinstance(other, _Compared) else self._world.objects(other).item()
        return bool(self._world.holds(self._number, right, relation))

    __lt__ = partialmethod(_holds, relation="<")
    __le__ = partialmethod(_holds, relation="<=")
    __gt__ = partialmethod(_holds, relation=">")
    __ge__ = partialmethod(_holds, relation=">=")
    __eq__ = partialmethod(_holds, relation="==")
    __ne__ = partialmethod(_holds, relation="!=")

    def __bool__(self) -> bool:
        return self._holds(0, "!=")


def _decided(W: Any, x: Any, *, work: Any) -> Any:
    x = np.asarray(x)
    if x.dtype == object:  # integers that were joined stay integers
        whole = all(isinstance(e, int) for e in x.ravel().tolist())
        x = x.astype(np.int64) if whole else mapped(partial(_Compared, W), x)
    return W.lift(work(x))


array("decided", _decided)
