"""The global bound: how far rounding may carry a whole gradient, estimated by runs with noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gtape.base.deadline import tick
from gtape.engine.rules import PartialOutputs
from gtape.engine.worlds import COMPLEX
from gtape.symbolic.program import Node, Program
from gtape.verify.bounds.noise_world import NoiseWorld, spread_of
from gtape.verify.oracles.backward import Algebra, by_rule, by_user, gradient, kept_off, left_out
from gtape.verify.oracles.enclosures import is_floating
from gtape.verify.oracles.replay import Shared
from gtape.verify.verdicts.ulp import widest

__all__ = [
    "MANY_RUNS",
    "RUNS",
    "SPREADS",
    "coarsest",
    "dtypes_along",
    "global_bounds",
    "noisy_gradient",
    "noisy_values",
    "reached_from",
    "read_by",
    "rounded_by",
    "spreads",
    "spreads_in",
]  # fmt: skip

SPREADS = 16.0
# Numbers beyond their bound get many runs, because all of a few runs may stay close to the plain run by chance.
RUNS, MANY_RUNS = 5, 40
# Factors for fainter noise, down to the size of rounding, because a quotient by a small difference shows too little
# spread under noise much larger than the difference.
_FAINTER = (2.0**-5, 2.0**-10)


def global_bounds(
    program: Program, seeds: list[Any], runs: int = RUNS, *, stable: bool = False, shared: Shared | None = None
) -> list[Any]:
    """Sixteen spreads of noisy runs, for each source; `stable` is for `NoiseWorld`, `shared` for `noisy_gradient`."""
    return spreads(lambda world: noisy_gradient(program, seeds, world, shared), coarsest(program), runs, stable=stable)


def dtypes_along(program: Program) -> dict[int, Any]:
    """The dtype of each floating node of a program that is one array.

    The ops that a custom gradient's function runs are left out, because a coarse dtype in them is the rule's own.
    """
    left_out = {i for nodes in program.run_by_users_rules.values() for i in nodes}
    return {
        n.index: np.asarray(n.output).dtype
        for n in program.nodes
        if not isinstance(n.output, tuple) and np.asarray(n.output).dtype.kind in "fc" and n.index not in left_out
    }


def coarsest(program: Program) -> Any:
    """The dtype with the largest roundings along a program."""
    dtypes = dtypes_along(program).values()
    return max(dtypes, key=lambda d: np.finfo(d).eps, default=np.dtype(np.float64))


def spreads(
    run: Callable[[NoiseWorld], list[Any]], dtype: Any, runs: int, *, stable: bool = False,
    held: dict[int, Any] | None = None,
) -> list[Any]:  # fmt: skip
    """Sixteen spreads of a computation's results in a noisy world.

    Parameters
    ----------
    run : callable
        Computes in a world and returns a list of arrays or None.
    dtype : floating dtype
        The dtype whose rounding is imitated.
    stable : bool
        As for `NoiseWorld`.
    held : dict, optional
        As for `NoiseWorld.held`.

    Returns
    -------
    list of arrays or None
    """
    world = NoiseWorld(np.random.default_rng(7), dtype, stable=stable)
    world.held = held or {}
    return spreads_in(world, run, runs)


def spreads_in(world: NoiseWorld, run: Callable[[NoiseWorld], list[Any]], runs: int) -> list[Any]:
    """As `spreads`, in a world in which nothing has run yet."""
    base = run(world)
    bounds: list[Any] = [None] * len(base)
    for factor in (1.0, *_FAINTER) if runs >= MANY_RUNS else (1.0,):
        made = []
        for _ in range(runs if factor == 1 else RUNS):
            world.again(factor)
            made.append(run(world))
        for s, plain in enumerate(base):
            if plain is not None:
                found = SPREADS * spread_of([m[s] for m in made], plain) / factor
                bounds[s] = found if bounds[s] is None else np.maximum(bounds[s], found)
    return bounds


def noisy_values(program: Program, world: Any) -> dict[int, Any]:
    """The value of every node in a noisy world; decisions and integers as recorded."""
    env: dict[int, Any] = {}
    for node in program.nodes:
        tick()
        world.before(node, env)
        fixed = node.kind == "op" and not isinstance(node.output, tuple) and not is_floating(node.output)
        env[node.index] = np.asarray(node.output) if fixed else world.nudge(node.index, program.step(world, node, env))
    return env


def reached_from(
    run: Callable[[NoiseWorld], list[Any]],
    dtype: Any,
    nodes: set[int],
    place: Any = None,
    by: float | None = None,
    least: dict[int, Any] | None = None,
) -> list[Any]:
    """Masks of the results that depend on the values or cotangents of some nodes; None where all results may depend on
    them.

    Parameters
    ----------
    run : callable
        As for `spreads`.
    dtype : floating dtype
    nodes : set of int
    place : tuple of int, optional
        One element of these nodes; all of them by default.
    by : float, optional
        How far the values and cotangents move. Results then count as dependent if they move by an eighth of a unit.
    least : dict, optional
        The place of a result in the list -> how far its elements must move at least to count as dependent.
    """
    world = NoiseWorld(np.random.default_rng(7), dtype)
    base = run(world)
    world = NoiseWorld(np.random.default_rng(7), dtype)
    world.nudged_nodes, world.nudged_at, world.nudged_by = nodes, place, by
    room, most = 0.0 if by is None else float(np.finfo(dtype).eps) / 8, least or {}
    with np.errstate(all="ignore"):
        return [
            None
            if a is None or b is None
            else ~(np.isfinite(a) & np.isfinite(b) & (np.abs(a - b) <= np.maximum(room * np.abs(a), most.get(k, 0.0))))
            for k, (a, b) in enumerate(zip(base, run(world), strict=True))
        ]


def noisy_gradient(program: Program, seeds: list[Any], world: Any, shared: Shared | None = None) -> list[Any]:
    """The gradient in a noisy world; a custom gradient is replaced by the derivative of its body.

    Parameters
    ----------
    program : Program
    seeds : list of arrays or None
    world : NoiseWorld
    shared : Shared, optional
        The data that the rows of this program share: the noisy values depend on no cotangent.
    """

    def values() -> dict[int, Any]:
        return noisy_values(program, world)

    def kept(name: Any, make: Callable[[], Any]) -> Any:
        return make() if shared is None else shared.get_some(name, make, program.size)

    arithmetic = _Noisy(world, world.at_the_start(values, kept))
    return [None if g is None else widest(g) for g in gradient(program, seeds, arithmetic)]


def read_by(shape: tuple[int, ...], mask: Any) -> Any:
    """The mask of those elements of an input that some elements of an elementwise op read.

    Parameters
    ----------
    shape : tuple of int
        Of the input, which may be broadcast.
    mask : bool array
        The elements of the op.
    """
    places = np.arange(math.prod(shape)).reshape(shape)
    return np.isin(places, np.broadcast_to(places, np.shape(mask))[mask])


def rounded_by(world: NoiseWorld, node: Node, made: list[Any]) -> list[Any]:
    """The results of an op's rule, rounded with noise where the rule rounds."""
    prim = node.prim
    if prim.kind == "linear":
        return made
    # Constant integer partials, such as those of a sum, round nothing.
    exact = [prim.partials is not None and isinstance(prim.partials[a], int) for a in node.active]
    return [c if c is None or e else world.rounded(c) for c, e in zip(made, exact, strict=True)]


class _Noisy(Algebra):
    """The arithmetic of a noisy run: each sum of cotangents and each result of a rule is rounded with noise."""

    def __init__(self, world: NoiseWorld, env: dict[int, Any]) -> None:
        self.world, self.env = world, env

    def lift(self, c: Any) -> Any:
        return self.world.lift(c)

    def add(self, a: Any, b: Any) -> Any:
        return a + b if isinstance(a, PartialOutputs) else self.world.rounded(a + b)

    def custom(self, node: Node, g: Any) -> list[Any] | None:
        if node.prim.declared is None:
            return None
        return [None if c is None else widest(c) for c in by_user(node, g)]

    def rule(self, node: Node, g: Any) -> list[Any]:
        xs, y, prim = [self.env[j] for j in node.inputs], self.env[node.index], node.prim
        g = PartialOutputs.filled(g, y)
        if not isinstance(y, tuple) and np.shape(g) != np.shape(y):  # of many runs at once, in which `g` does not move
            g = np.broadcast_to(g, np.shape(y))
        made = by_rule(self.world, node, g, y, xs, xs)
        if prim.kind == "elementwise":
            # Without noise, because each run of the noisy world must make the same calls.

            def again(live: Any) -> list[Any]:
                return by_rule(COMPLEX, node, g, y, xs, xs, live)

            made = kept_off(made, g, again=again, left=lambda: left_out(node, y, xs))
        return self.nudged(node, rounded_by(self.world, node, made))

    def nudged(self, node: Node, made: list[Any]) -> list[Any]:
        if node.index not in self.world.nudged_nodes:
            return made
        # Zeros stand for a path that a rule lost.
        inputs = [np.shape(self.env[node.inputs[a]]) for a in node.active]
        filled = [np.zeros(shape) if c is None else c for c, shape in zip(made, inputs, strict=True)]
        return [c if isinstance(c, PartialOutputs) else self.world.nudge(node.index, c) for c in filled]
