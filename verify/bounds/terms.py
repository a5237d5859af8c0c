"""The sizes of the terms of a derivative, to which exact zeros are compared.

A zero has no digits of its own, so the error of a float in its place is measured by the terms that cancel, some of them
inside the rule of an op. A running error analysis finds their sizes at every scale of the inputs: each rule rounds, and
the sweep carries these roundings to the results. Underflow is no rounding of a term: a large factor would make it a
large term.

A rule reads values with errors of two kinds. The value 0 has the roundings of the terms that cancel there. Another
value is off by as much as half units of the inputs move it, and by one unit at most. Its own rounding is no rounding of
a term: the slope of ``log1p`` at ``-cos(x)`` magnifies the rounding of the cosine, and the inputs move this cosine much
less.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gtape.engine.rules import PartialOutputs
from gtape.symbolic.balls import objects, to_float
from gtape.symbolic.program import Node, Program
from gtape.verify.bounds.inputs import half_units
from gtape.verify.bounds.noise import noisy_values
from gtape.verify.bounds.running_error import Err, ErrorWorld, Rounded
from gtape.verify.oracles.backward import Algebra, by_rule, by_user, gradient
from gtape.verify.verdicts.ulp import spacing, widest

__all__ = [
    "TermWorld",
    "finite_errors",
    "sizes_of",
    "terms_of_gradient",
    "values_with_errors",
    "with_error",
    "without_error",
]

_UNIT = 2.0**-53  # of a rounding of float64, in which all sizes are computed
_FLOAT64 = np.dtype(np.float64)


class TermWorld(ErrorWorld):
    """Values with the roundings of one op as their errors, or of the terms that cancel if they are exactly 0.

    Parameters
    ----------
    exact : dict
        Node -> its exact value.
    """

    nudged_nodes: frozenset[int] = frozenset()

    def __init__(self, exact: dict[int, Any], err: type[Err] = Rounded) -> None:
        super().__init__(_FLOAT64, err)
        self.exact = exact

    def lift(self, x: Any) -> Any:
        """A recorded value, which is exact."""
        return with_error(x)

    def before(self, node: Any, env: dict[int, Any]) -> None:
        """As `NoiseWorld.before`."""

    def nudge(self, node: int, y: Any) -> Any:
        """The value of a node, near the exact one."""
        known = self.exact.get(node)
        if not isinstance(y, tuple):
            return _near(y, known)
        return tuple([_near(v, e) for v, e in zip(y, y if known is None else known, strict=True)])

    def rounded(self, c: Any) -> Any:
        return finite_errors(c)


class _Carried(Rounded):
    """A value with how far moves of the inputs carry it as its error; no op commits an error of its own."""

    __slots__ = ()

    @classmethod
    def committed(cls, error: Any, v: Any) -> Any:
        return np.zeros(np.shape(v))


class _MovedWorld(TermWorld):
    """Values with how far half units of the inputs carry them as their errors, by one unit at most.

    Parameters
    ----------
    exact : dict
        Node -> its exact value.
    halves : dict
        Node of an input -> the half units of its numbers.
    """

    def __init__(self, exact: dict[int, Any], halves: dict[int, Any]) -> None:
        super().__init__(exact, _Carried)
        self.halves = halves

    def nudge(self, node: int, y: Any) -> Any:
        y = super().nudge(node, y)
        if node not in self.halves or not isinstance(y, Err):
            return y
        # Half units of float64, in which all sizes are computed, of the numbers that move.
        return _Carried(y.v, np.where(self.halves[node] != 0, spacing(y.v, _FLOAT64) / 2, 0.0), y.dtype)


def values_with_errors(program: Program, world: TermWorld) -> dict[int, Any]:
    """The value of every node with the errors with which rules read it; decisions and integers as recorded."""
    rounded = noisy_values(program, world)
    moved = noisy_values(program, _MovedWorld(world.exact, half_units(program)))
    return {i: _read(y, moved[i]) for i, y in rounded.items()}


def _read(y: Any, moved: Any) -> Any:
    if isinstance(y, tuple):
        return tuple([_read(v, m) for v, m in zip(y, moved, strict=True)])
    if not isinstance(y, Err) or not isinstance(moved, Err):
        return y
    return Rounded(y.v, np.where(y.v == 0, y.e, moved.e), y.dtype)


def with_error(x: Any) -> Any:
    """A value without an error, unless it has one; other arrays than those of floats as they are."""
    if isinstance(x, (Err, tuple)) or np.asarray(x).dtype.kind not in "fc":
        return x
    return Rounded(x, 0.0, _FLOAT64)


def finite_errors(c: Any) -> Any:
    """A result with zeros in place of errors without a bound, as those of a slope that is switched off."""
    if not isinstance(c, Err) or (np.isfinite(c.e).all() and np.isfinite(c.v).all()):
        return c
    return Rounded(np.where(np.isfinite(c.v), c.v, 0.0), np.where(np.isfinite(c.e), c.e, 0.0), c.dtype)


def _near(y: Any, exact: Any) -> Any:
    if not isinstance(y, Err):
        return y
    found = y.v if exact is None or isinstance(exact, Err) else to_float(objects(exact))
    v = np.where(np.isfinite(found), found, y.v)
    error = np.where(v == 0, y.e, np.minimum(y.e, spacing(v, _FLOAT64)))
    return y.__class__(v, np.where(np.isfinite(error), error, 0.0), y.dtype)


def terms_of_gradient(
    program: Program,
    seeds: list[Any],
    exact: dict[int, Any],
    kept: Callable[[Any, Callable[[], Any]], Any],
    *,
    of_any_formula: bool = False,
) -> list[Any]:
    """The sizes of the terms of each element of a gradient; None for sources without a gradient.

    Parameters
    ----------
    kept : callable
        As `Shared.get`, to keep the values with their errors, which depend on no cotangent, for other rows.
    of_any_formula : bool
        Whether rules read each value with the rounding of its op, because another formula for the same function may
        round it.
    """

    def run(world: TermWorld) -> list[Any]:
        if of_any_formula:
            values = noisy_values(program, world)
        else:
            values = kept("values with errors", lambda: values_with_errors(program, world))
        return gradient(program, seeds, _Sweep(world, values))

    return sizes_of(run, exact)


def sizes_of(run: Callable[[TermWorld], list[Any]], exact: dict[int, Any]) -> list[Any]:
    """The sizes of the terms of the results of a computation in a `TermWorld`; None for missing results."""
    with np.errstate(all="ignore"):
        made = run(TermWorld(exact))
        return [None if c is None else _size(finite_errors(c)) for c in made]


def _size(c: Any) -> Any:
    if not isinstance(c, Err):
        return np.abs(widest(c))
    return np.maximum(np.abs(c.v), np.broadcast_to(c.e, c.shape) / _UNIT)


class _Sweep(Algebra):
    """The arithmetic of a sweep over values with errors."""

    def __init__(self, world: TermWorld, env: dict[int, Any]) -> None:
        self.world, self.env = world, env

    def lift(self, c: Any) -> Any:
        return widest(c)

    def add(self, a: Any, b: Any) -> Any:
        return a + b

    def custom(self, node: Node, g: Any) -> list[Any] | None:
        if node.prim.declared is None:
            return None
        floats = PartialOutputs({k: without_error(c) for k, c in PartialOutputs.of(g).items()})
        made = by_user(node, floats if isinstance(g, PartialOutputs) else floats.parts[0])
        return [None if c is None else with_error(c) for c in made]

    def rule(self, node: Node, g: Any) -> list[Any]:
        xs, y = [self.env[j] for j in node.inputs], self.env[node.index]
        g = PartialOutputs.filled(g, y, lambda v: np.zeros(np.shape(v)))
        g = tuple(map(with_error, g)) if isinstance(g, tuple) else with_error(g)
        made = by_rule(self.world, node, g, y, xs, map(without_error, xs))
        return [None if c is None else finite_errors(c) for c in made]


def without_error(x: Any) -> Any:
    """A value without its error."""
    return tuple(map(without_error, x)) if isinstance(x, tuple) else x.v if isinstance(x, Err) else x
