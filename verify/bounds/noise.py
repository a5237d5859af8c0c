"""The global bound: how far rounding may carry a whole gradient, by re-running it with noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gtape.engine.rules import cotangents
from gtape.engine.worlds import NUMPY
from gtape.symbolic.program import Program
from gtape.verify.bounds.noise_world import NoiseWorld, spread_of
from gtape.verify.oracles.replay import Shape
from gtape.verify.verdicts.ulp import widest

__all__ = ["MANY_RUNS", "RUNS", "SPREADS", "global_bounds", "noisy_gradient", "spreads"]

SPREADS = 16.0
# By chance all of a few runs may stay close to the plain one. A number that lies outside what they say meets many.
RUNS, MANY_RUNS = 5, 40
# A quotient by a difference that noise of the usual size carries far beyond itself shows too little of it: then less
# noise, down to that of rounding itself.
_FAINTER = (2.0**-5, 2.0**-10)


def global_bounds(program: Program, seeds: list[Any], got: list[Any], runs: int = RUNS) -> list[Any]:
    """Sixteen spreads of noisy runs, for each source."""
    dtypes = [
        np.asarray(n.output).dtype
        for n in program.nodes
        if not isinstance(n.output, tuple) and np.asarray(n.output).dtype.kind in "fc"
    ]
    dtype = max(dtypes, key=lambda d: np.finfo(d).eps, default=np.dtype(np.float64))
    return spreads(lambda world: noisy_gradient(program, seeds, world), dtype, runs)


def spreads(run: Callable[[NoiseWorld], list[Any]], dtype: Any, runs: int) -> list[Any]:
    """Sixteen spreads of what a computation gives in a noisy world.

    Parameters
    ----------
    run : callable
        Makes all calls in a world and returns arrays, or None.
    dtype : floating dtype
        Whose rounding is imitated.
    runs : int

    Returns
    -------
    list of arrays or None
    """
    world = NoiseWorld(np.random.default_rng(7), dtype)
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


def noisy_gradient(program: Program, seeds: list[Any], world: Any) -> list[Any]:
    """The gradient in a noisy world; a custom gradient is replaced by the derivative of its body."""
    env: dict[int, Any] = {}
    for node in program.nodes:
        if node.kind == "op" and not isinstance(node.output, tuple) and np.asarray(node.output).dtype.kind in "biu":
            env[node.index] = np.asarray(node.output)
        else:
            env[node.index] = program.step(world, node, env)
    cots: dict[int, Any] = {}
    for i, c in zip(program.outputs, seeds, strict=True):
        if c is not None:
            g: Any = np.broadcast_to(world.lift(c), program.nodes[i].shape)
            cots[i] = cots[i] + g if i in cots else g
    declared = _declared_pulls(program)
    blocked = program.blocked(program.session)
    for i in reversed(program.ancestors(program.outputs)):
        node = program.nodes[i]
        g = cots.get(i)
        if g is None or node.kind in ("leaf", "const"):
            continue
        if node.kind == "custom":
            if i in declared:
                made = declared[i](g)
                pairs = [(node.inputs[a], c) for a, c in zip(node.active, made, strict=True)]
            else:
                parts = g if isinstance(g, dict) else {0: g}
                pairs = [(node.body[k], c) for k, c in parts.items()]
        elif node.kind == "item":
            whole = cots.get(node.inputs[0], {})
            k = node.params["index"]
            cots[node.inputs[0]] = {**whole, k: whole[k] + g if k in whole else g}
            continue
        elif not node.active:
            continue
        else:
            xs = tuple([env[j] for j in node.inputs])
            y = env[i]
            if isinstance(g, dict):
                g = tuple(g.get(k, np.zeros(np.shape(v))) for k, v in enumerate(y))
            shapes = tuple([Shape(np.shape(x), np.asarray(x).dtype) for x in xs])
            made = cotangents(
                world, node.pull, g, y, xs, avals=shapes, out_shape=() if isinstance(y, tuple) else np.shape(y)
            )
            if node.prim.kind == "elementwise":
                # What a selection switched off stays off through a partial that is not finite there.
                made = [
                    c if np.isfinite(c).all() or np.shape(c) != np.shape(g) else np.where(np.asarray(g) == 0, 0.0, c)
                    for c in made
                ]
            if node.prim.kind != "linear":
                # Factors that are whole numbers, as those of a sum are, round nothing.
                exact = [node.prim.partials is not None and isinstance(node.prim.partials[a], int) for a in node.active]
                made = [c if c is None or e else world.rounded(c) for c, e in zip(made, exact, strict=True)]
            pairs = list(zip([node.inputs[a] for a in node.active], made, strict=True))
        closed = {node.inputs[a] for a in blocked.get(i, ())}
        for j, c in pairs:
            if c is not None and j not in closed:
                cots[j] = world.rounded(cots[j] + c) if j in cots else c
    result = []
    for nodes in program.sources:
        arrived = [cots[i] for i in nodes if i in cots]
        result.append(None if not arrived else widest(sum(arrived[1:], arrived[0])))
    return result


def _declared_pulls(program: Program) -> dict[int, Any]:
    pulls: dict[int, Any] = {}
    for node in program.nodes:
        if node.kind == "custom" and node.prim.declared is not None:

            def pull(g: Any, node: Any = node) -> list[Any]:
                dtype = np.asarray(node.output).dtype if not isinstance(node.output, tuple) else np.dtype(np.float64)
                parts = g if not isinstance(g, dict) else tuple(g.values())
                return [
                    None if c is None else np.asarray(c, dtype=np.float64)
                    for c in node.pull.cotangents(NUMPY, np.asarray(parts, dtype=dtype))
                ]

            pulls[node.index] = pull
    return pulls
