"""Variables among the arguments of compiled functions.

A program holds such a variable weakly, because each call brings the variable along. Otherwise a function would keep the
variables of all its calls alive.
"""

from __future__ import annotations

import weakref
from typing import Any

from gtape.tensors.tensor import Tensor

__all__ = ["Lent"]


class Lent:
    """A variable that the caller of a program holds. The object has the attributes by which programs use variables.

    Parameters
    ----------
    variable : Variable

    Attributes
    ----------
    variable : weak reference
        Alive in each call of the program, because the number of the variable is part of the key of the program.
    """

    __slots__ = ("_uid", "variable")

    def __init__(self, variable: Any) -> None:
        self.variable: Any = weakref.ref(variable)
        self._uid = variable._uid

    @property
    def _layout(self) -> Any:
        return self.variable()._layout

    @property
    def _tensor_layout(self) -> Any:
        return self.variable()._tensor_layout

    @property
    def _record(self) -> Any:
        return self.variable()._record

    @property
    def _value(self) -> Any:
        return self.variable()._value

    def _as_tensor(self) -> Tensor:
        made: Tensor = self.variable()._as_tensor()
        return made
