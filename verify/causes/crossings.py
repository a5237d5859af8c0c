"""Which kinks, among those that rounding crossed, the problem itself crosses when its inputs move.

A kink is near if moves of the inputs within the bound of the problem reach it: no formula then knows the side. If none
of these moves reaches it, the program's own arithmetic crossed the kink, as where a variance that cancels becomes
negative, or where a square underflows.

The moves are those that carry the inputs of an op farthest the way that rounding carried them, moves at random, and
moves of all inputs in one direction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from flint import arb

from gtape.symbolic.balls import Undecided, objects, to_float
from gtape.symbolic.program import Node, Program
from gtape.verify.bounds.inputs import NO_JETS, half_unit_move, moved_values_of
from gtape.verify.causes.beside import beside
from gtape.verify.causes.conventions import elements_crossed
from gtape.verify.oracles.enclosures import BALLS, is_complex, is_floating
from gtape.verify.oracles.oracle import Oracle
from gtape.verify.oracles.replay import decided_anew, is_step
from gtape.verify.verdicts.ulp import spacing, widest

__all__ = ["Crossed", "crossed_elements", "crosses_kinks"]

_RANDOM = 6  # moves at random
_ALONE = 8  # elements toward whose other side the inputs move, one after another
_TRACE = 2.0**-60  # the part of a rounding by which an input leaves a kink on which it lies exactly
_FAILS = (ArithmeticError, Undecided, ValueError, IndexError, *NO_JETS)


class Crossed:
    """The elements of an op that rounding moved across kinks, or for which rounding decided otherwise.

    Attributes
    ----------
    node : Node
    mask : bool array
        These elements: of the output, or of the first input for ties between its elements.
    near : bool array
        Those among them that moves of the inputs move across, too.
    """

    def __init__(self, node: Node, mask: Any) -> None:
        self.node, self.mask, self.near = node, mask, np.zeros(np.shape(mask), np.bool_)

    @property
    def is_near(self) -> bool:
        """Whether moves of the inputs move all of these elements across their kinks."""
        return bool(self.near.all(where=self.mask))


def crossed_elements(program: Program, oracle: Oracle, nodes: Sequence[Node], many: float) -> dict[int, Crossed]:
    """The elements that rounding moved across kinks, by op, and which of them moves of the inputs move across, too.

    Parameters
    ----------
    program : Program
    oracle : Oracle
        With the exact values of all nodes.
    nodes : sequence of Node
        The ops whose recorded inputs lie on another side of a kink, and those that rounding decided.
    many : float
        How many half units the inputs move.
    """
    found = {n.index: Crossed(n, _across(program, oracle, n)) for n in nodes}
    for values in _values_nearby(program, oracle, list(found.values()), many):
        for one in found.values():
            if one.is_near:
                continue
            try:
                there = _across(program, oracle, one.node, [values[j] for j in one.node.inputs])
            except Undecided:  # a move that ends on the kink reaches it
                there = one.mask
            except _FAILS:
                continue
            if np.shape(there) == np.shape(one.mask):
                one.near |= one.mask & there
        if all(one.is_near for one in found.values()):
            break
    return found


def _across(program: Program, oracle: Oracle, node: Node, inputs: list[Any] | None = None) -> Any:
    """The mask of the elements that are on other sides at other inputs, by default the recorded ones."""
    if node not in oracle.flips:
        found = elements_crossed(program, oracle, node, inputs)
        return np.zeros(node.shape, np.bool_) if found is None else found
    here = _outcome(node, [oracle.env[j] for j in node.inputs])
    there = widest(node.output) if inputs is None else _outcome(node, inputs)
    room = np.maximum(node.prim.ulps, 0.5) * spacing(here, np.asarray(node.output).dtype) if is_step(node) else 0.0
    return np.abs(there - here) > room


def crosses_kinks(program: Program, oracle: Oracle, moves: dict[int, Any]) -> bool:
    """Whether moves of the inputs take an op across a kink, or change a decision; True if this is not decided.

    Parameters
    ----------
    oracle : Oracle
        With the exact values of all nodes.
    moves : dict
        Node of an input -> how far it moves.
    """
    there = beside(program, oracle.env, moves)
    if there is None:
        return True
    for node in program.nodes:
        if node.kind != "op" or isinstance(node.output, tuple):
            continue
        if not is_floating(node.output) and not np.array_equal(oracle.env[node.index], there[node.index]):
            return True
        try:
            crossed = elements_crossed(program, oracle, node, [there[j] for j in node.inputs])
        except _FAILS:
            return True
        if crossed is not None and crossed.any():
            return True
    return False


def _outcome(node: Node, inputs: list[Any]) -> Any:
    """What an op decides at some inputs, as floats."""
    if is_step(node):
        return to_float(node.apply(BALLS, inputs))
    return widest(decided_anew(node, inputs))


def _values_nearby(program: Program, oracle: Oracle, crossed: list[Crossed], many: float) -> Iterator[dict[int, Any]]:
    """The exact values of all nodes at moved inputs; first a trace beside the exact ones, on the side of rounding."""
    trace = dict(oracle.env)
    read = {j for one in crossed for j in one.node.inputs if _is_real(program.nodes[j])}
    for j in read:
        recorded = np.asarray(program.nodes[j].output)
        if np.isfinite(recorded).all() and np.shape(oracle.env[j]) == recorded.shape:
            trace[j] = objects(oracle.env[j] + (BALLS.lift(recorded) - oracle.env[j]) * arb(_TRACE))
    yield trace
    for start in _moves(program, oracle, crossed):
        for sign in (many, -many):
            try:
                yield moved_values_of(oracle, {i: objects(move * arb(sign)) for i, move in start.items()}).env
            except _FAILS:
                continue


def _is_real(node: Node) -> bool:
    return not isinstance(node.output, tuple) and is_floating(node.output) and not is_complex(node.output)


def _moves(program: Program, oracle: Oracle, crossed: list[Crossed]) -> Iterator[dict[int, Any]]:
    """Moves of all inputs by half a unit each."""
    rng = np.random.default_rng(31)
    for one in crossed:
        for weights in _toward_rounding(program, oracle, one):
            try:
                slopes = oracle.sweep(weights)
            except _FAILS:
                continue
            yield half_unit_move(program, partial(_signs, slopes=slopes, rng=rng))
    yield half_unit_move(program, lambda group, half: np.ones(np.shape(half)))
    yield half_unit_move(program, lambda group, half: np.where(program.nodes[group[0]].output < 0, -1.0, 1.0))
    for _ in range(_RANDOM):
        yield half_unit_move(program, lambda group, half: rng.choice([-1.0, 1.0], np.shape(half)))


def _signs(group: list[int], half: Any, slopes: dict[int, Any], rng: Any) -> Any:
    """The signs of the sum of the slopes by some nodes; signs at random where there is no slope."""
    drawn = rng.choice([-1.0, 1.0], np.shape(half))
    known = [to_float(objects(slopes[i])) for i in group if slopes.get(i) is not None]
    if not known:
        return drawn
    total = np.sum(np.broadcast_arrays(*known, np.zeros(np.shape(half))), axis=0)
    signs = np.sign(total.real)
    return np.where(np.isfinite(signs) & (signs != 0), signs, drawn)


def _toward_rounding(program: Program, oracle: Oracle, one: Crossed) -> Iterator[dict[int, Any]]:
    """How rounding moved the inputs of an op, relative to one another: for single elements, then for all."""
    node = one.node
    off = {}
    for j in node.inputs:
        if not _is_real(program.nodes[j]):
            continue
        recorded = np.asarray(program.nodes[j].output)
        gap = to_float(objects(BALLS.lift(recorded) - oracle.env[j])) if np.isfinite(recorded).all() else None
        if gap is None or not np.isfinite(gap).all():
            return
        off[j] = gap
    if node.prim.kind == "elementwise":
        for place in np.argwhere(one.mask)[:_ALONE].tolist():
            yield _weights({j: _at(gap, place) for j, gap in off.items()}, off)
    yield _weights(dict.fromkeys(off, ()), off)


def _at(gap: Any, place: list[int]) -> tuple[int, ...]:
    """The place of the number in a broadcast input that one element of the output reads."""
    own = place[len(place) - gap.ndim :]
    return tuple(i if n > 1 else 0 for i, n in zip(own, gap.shape, strict=True))


def _weights(places: dict[int, tuple[int, ...]], off: dict[int, Any]) -> dict[int, Any]:
    """How far some elements of each input moved, as weights of a largest size of 1; relative to one another if there
    are several elements.
    """
    parts = {j: off[j][place] for j, place in places.items()}
    middle = (
        np.mean(np.concatenate([np.ravel(v) for v in parts.values()])) if sum(map(np.size, parts.values())) > 1 else 0
    )
    largest = max([float(np.abs(v - middle).max(initial=0.0)) for v in map(np.asarray, parts.values())], default=0.0)
    found = {}
    for j, place in places.items():
        weights = np.zeros(off[j].shape)
        weights[place] = (parts[j] - middle) / (largest or 1.0)
        found[j] = objects(BALLS.lift(weights))
    return found
