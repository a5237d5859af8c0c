"""The mirror of every op in SymPy, and the worlds of mirrors and rules: SymPy expressions, enclosures (balls), jets."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for type checkers and editors; at run time each name is imported at its first use
    from gtape.symbolic.balls import Undecided as Undecided
    from gtape.symbolic.balls import digits as digits
    from gtape.symbolic.balls import precision as precision
    from gtape.symbolic.balls import radius as radius
    from gtape.symbolic.balls import to_double_double as to_double_double
    from gtape.symbolic.balls import to_float as to_float
    from gtape.symbolic.program import Program as Program
    from gtape.symbolic.tracing import trace as trace
    from gtape.symbolic.worlds import BallWorld as BallWorld
    from gtape.symbolic.worlds import JetWorld as JetWorld
    from gtape.symbolic.worlds import SymPyWorld as SymPyWorld

_HOMES = {
    "BallWorld": "worlds",
    "Program": "program",
    "JetWorld": "worlds",
    "SymPyWorld": "worlds",
    "Undecided": "balls",
    "digits": "balls",
    "precision": "balls",
    "radius": "balls",
    "to_double_double": "balls",
    "to_float": "balls",
    "trace": "tracing",
}

__all__ = sorted(_HOMES)


if not TYPE_CHECKING:  # because a type checker that sees this function accepts any name

    def __getattr__(name: str) -> Any:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")
        return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return __all__
