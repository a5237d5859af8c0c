"""Elements that stay the same next to the recorded point, because an op on the way to them is constant there.

The slope of relu is a sign of its result, which is 0 for all negative numbers: no kink, although a sign of 0 is one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from flint import arb

from gtape.engine.worlds import NUMPY
from gtape.symbolic.balls import objects
from gtape.symbolic.mirrors.registry import SCALARS
from gtape.symbolic.program import Node, Program
from gtape.verify.bounds.noise import read_by
from gtape.verify.oracles.backward import by_rule, left_out
from gtape.verify.oracles.enclosures import BALLS, is_complex, is_floating

__all__ = ["still", "with_slopes", "with_slopes_by_element"]

_NEAR = arb(2) ** -64


def still(program: Program, values: dict[int, Any], known: dict[int, Any], j: int) -> Any:
    """The mask of the elements of a node that certainly do not move if the sources move a little.

    Parameters
    ----------
    values : dict
        Node -> its exact value.
    known : dict
        Node -> its mask; receives more.
    j : int
        The node.
    """
    sources = {i for nodes in program.sources for i in nodes}
    found, pending = set(), [j]
    while pending:
        i = pending.pop()
        if i not in known and i not in found:
            found.add(i)
            if i not in sources and _is_followed(program.nodes[i]):
                pending.extend(program.nodes[i].inputs)
    for i in sorted(found):
        node = program.nodes[i]
        if i not in sources and _is_followed(node):
            known[i] = _of_op(node, [values[k] for k in node.inputs], [known[k] for k in node.inputs])
        else:
            known[i] = np.broadcast_to(np.bool_(node.kind == "const" and i not in sources), node.shape)
    return known[j]


def _is_followed(node: Node) -> bool:
    """True for an op that works element by element on real numbers."""
    if node.kind != "op" or node.prim.kind != "elementwise" or node.prim.name not in SCALARS:
        return False
    return not is_complex(node.output)


def _of_op(node: Node, xs: list[Any], masks: list[Any]) -> Any:
    """The mask of an op, from the values and masks of its inputs."""
    found = np.logical_and.reduce(np.broadcast_arrays(*masks))
    if found.all() or not (node.prim.kinks or node.prim.selects or _has_still_zeros(xs, masks)):
        return found
    function = BALLS.scalar_function(SCALARS[node.prim.name], len(xs), node.params)[0]

    def constant(*at: Any) -> bool:
        try:
            return bool(_IS_EXACT(function(*at)))
        except ArithmeticError:  # an open comparison: a kink lies nearby
            return False

    around = [_around(x, mask) for x, mask in zip(xs, masks, strict=True)]
    try:
        made = np.frompyfunc(function, len(xs), 1)(*around)
    except ArithmeticError:  # one element of many; try each by itself
        return found | np.asarray(np.frompyfunc(constant, len(xs), 1)(*around), np.bool_)
    return found | np.asarray(_IS_EXACT(made), np.bool_)


def _has_still_zeros(xs: list[Any], masks: list[Any]) -> bool:
    """Whether an input has zeros that stay, because a product with one stays 0."""
    return any((np.asarray(objects(x) == 0, np.bool_) & mask).any() for x, mask in zip(xs, masks, strict=True))


def _around(x: Any, still: Any) -> Any:
    """Enclosures of the neighbourhoods of the numbers that may move."""
    if np.asarray(x).dtype != object or np.all(still):
        return objects(x)
    return objects(np.where(still, x, np.where(np.asarray(_MAY_BE_0(x), np.bool_), _NEAR_0, x * _NEAR_1)))


_IS_EXACT = np.frompyfunc(lambda e: isinstance(e, int) or bool(e.is_exact()), 1, 1)
# Two formulas of one number differ by an enclosure of 0 that is not exactly 0.
_MAY_BE_0 = np.frompyfunc(lambda e: e == 0 if isinstance(e, int) else e.contains(0), 1, 1)
_NEAR_0, _NEAR_1 = arb(0, _NEAR), arb(1, _NEAR)


def with_slopes(program: Program) -> set[int]:
    """The nodes whose slopes may reach an output; nodes that only decide something are left out."""
    found = set(program.outputs)
    for node in reversed(program.nodes):
        if node.index in found:
            found.update((*[node.inputs[a] for a in node.active], *node.body))
            found |= _with_slopes_inside(program, node)
    return found


def _with_slopes_inside(program: Program, node: Node) -> set[int]:
    """The nodes of the function that an inner gradient differentiates, without those that only decide something."""
    found, pending = set[int](), [] if node.mark is None else list(node.mark.reads)
    while pending:
        i = pending.pop()
        if i not in found:
            found.add(i)
            inner = program.nodes[i]
            followed = [j for a, j in enumerate(inner.inputs) if inner.kind != "op" or inner.prim.connected(a)]
            pending.extend((*followed, *inner.body))
    return found


def with_slopes_by_element(program: Program, values: dict[int, Any], known: dict[int, Any]) -> dict[int, Any]:
    """The elements of each node whose slopes may reach an output, as node -> a mask.

    Elements that a slice, or a `where` with a condition that stays, leaves out are not among them.

    Parameters
    ----------
    values, known : dict
        As for `still`.
    """
    found = {i: _all(program, i) for i in program.outputs}
    rng = np.random.default_rng(73)
    for node in reversed(program.nodes):
        mask = found.get(node.index)
        if mask is None or not mask.any():
            continue
        found |= {i: _all(program, i) for i in (*node.body, *_with_slopes_inside(program, node))}
        if node.active:
            for a, reached in zip(node.active, _reached(program, node, mask, values, known, rng), strict=True):
                j = node.inputs[a]
                found[j] = found.get(j, False) | reached
    return found


def _all(program: Program, i: int) -> Any:
    output = program.nodes[i].output
    return np.ones((), np.bool_) if isinstance(output, tuple) else np.ones(np.shape(output), np.bool_)


def _reached(
    program: Program, node: Node, mask: Any, values: dict[int, Any], known: dict[int, Any], rng: Any
) -> list[Any]:
    """The masks of the elements of an op's active inputs whose slopes reach some elements of its output."""
    inputs = [program.nodes[j].output for j in node.inputs]
    if node.kind == "op" and node.prim.kind == "elementwise":
        masks = [mask] * len(node.active)
        if "selection" in node.prim.roles:
            stays = still(program, values, known, node.inputs[0])
            masks = [mask & ~(off & stays) for off in left_out(node, node.output, inputs) or ()]
        return [read_by(np.shape(inputs[a]), m) for a, m in zip(node.active, masks, strict=True)]
    like = [node.output, *[inputs[a] for a in node.active]]
    if node.kind == "op" and node.prim.kind == "linear" and all(is_floating(v) and not is_complex(v) for v in like):
        arrays = [np.asarray(v) for v in inputs]
        made = by_rule(NUMPY, node, _weights(node.output, mask, rng), node.output, arrays, arrays)
        return [np.asarray(c) != 0 for c in made]
    return [_all(program, node.inputs[a]) for a in node.active]


def _weights(output: Any, mask: Any, rng: Any) -> Any:
    """Random cotangents of an op's output, 0 outside a mask, whose sums are 0 for no element that is read."""
    if isinstance(output, tuple):
        return tuple(_weights(part, mask, rng) for part in output)
    return np.where(mask, rng.uniform(0.5, 1.0, np.shape(output)), 0.0)
