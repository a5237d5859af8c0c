"""How far the exact derivative really moves: by moves of the inputs beyond first order, and by moves of a matrix.

The first-order move of `inputs` says too little where it vanishes: at a nearly singular symmetric matrix the derivative
may move by the square of half a unit times a huge number. A stable elimination or factorisation returns the exact
result for a matrix that differs by a few roundings of its largest element, in its zeros, too, whereas half a unit moves
no zero and a small element hardly.

If the program computes the matrix, as in the normal equations, another formula may need no such matrix. Then all inputs
move by as many roundings of their largest elements, too, and the smaller one of both effects counts.

The derivative is computed anew at moved values, so that nothing but a real move excuses an error. A move counts if a
quarter of its length has between a thousandth and a half of its effect, twice. At a jump or a kink, the effect stays
or vanishes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from flint import arb

from gtape.symbolic.balls import objects, to_float
from gtape.symbolic.program import Node, Program
from gtape.verify.bounds.bounds import backward_error, holds_complex
from gtape.verify.bounds.inputs import NO_JETS, moved_inputs, moved_values_of
from gtape.verify.oracles.enclosures import BALLS, is_floating
from gtape.verify.oracles.oracle import Oracle, TooDeep

__all__ = ["RealMoves", "eliminations", "real_moves"]

_Move = tuple[dict[int, Any], dict[int, list[Any]]]  # node -> its move, and node -> the arguments that it reads instead

_MOVES = 4
_PARTS = (1.0, 0.25, 0.0625)
_LEAST, _MOST = 2.0**-10, 0.5  # the effect of a quarter of a move, relative to that of the move


class RealMoves(NamedTuple):
    """How far each array of a derivative moves.

    Attributes
    ----------
    node : Node or None
        The op whose matrix moves; None for the inputs.
    sizes : list of float arrays or None
    """

    node: Node | None
    sizes: list[Any]


def eliminations(oracle: Oracle) -> list[Node]:
    """The ops of a program that are stable for a matrix, their first argument, relative to its largest element."""
    return [
        node
        for node in oracle.program.nodes
        if node.kind == "op"
        and node.prim.rounding.eliminates
        and node.inputs
        and is_floating(oracle.program.nodes[node.inputs[0]].output)
    ]


def real_moves(oracle: Oracle, derivative: Callable[[Oracle], list[Any]], many: float) -> Iterator[RealMoves]:
    """The moves of the exact derivative by `many` half units of the inputs, then by roundings of each op's matrix.

    Parameters
    ----------
    oracle : Oracle
        With the exact values of all nodes.
    derivative : callable
        Oracle with the values of all nodes -> the exact derivative, as a list of object arrays or None.
    many : float
        The growth of independent roundings of all ops.
    """
    try:
        here = derivative(oracle)
    except (ArithmeticError, TooDeep):
        return

    def effects(moves: Iterable[Callable[[float], _Move]]) -> list[Any]:
        return _sizes([[_moved(oracle, derivative, here, *move(part)) for part in _PARTS] for move in moves], here)

    yield RealMoves(None, effects(_of_inputs(start, many) for start in moved_inputs(oracle.program, _MOVES)))
    for node in eliminations(oracle):
        sizes = effects(_of_arguments(oracle, node, move) for move in _roundings(oracle, node))
        if not _is_given(oracle.program, node.inputs[0]):
            others = effects(_of_inputs(start, 1.0) for start in _roundings_of_inputs(oracle.program, node))
            sizes = [None if a is None else np.minimum(a, b) for a, b in zip(sizes, others, strict=True)]
        yield RealMoves(node, sizes)


def _of_inputs(start: dict[int, Any], many: float) -> Callable[[float], _Move]:
    return lambda part: ({i: objects(move * arb(many * part)) for i, move in start.items()}, {})


def _of_arguments(oracle: Oracle, node: Node, move: Any) -> Callable[[float], _Move]:
    """Moves of the matrix that one op alone reads."""
    matrix, *others = [oracle.env[i] for i in node.inputs]
    return lambda part: ({}, {node.index: [objects(matrix + BALLS.lift(part * move)), *others]})


def _moved(
    oracle: Oracle, derivative: Callable[[Oracle], list[Any]], here: list[Any],
    start: dict[int, Any], arguments: dict[int, list[Any]],
) -> list[Any] | None:  # fmt: skip
    """How far each element of the derivative moves; None if the derivative is open there."""
    try:
        there = derivative(moved_values_of(oracle, start, arguments))
    except (ArithmeticError, TooDeep, *NO_JETS):
        return None
    return [None if a is None or b is None else _distance(a, b) for a, b in zip(here, there, strict=True)]


def _distance(a: Any, b: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.abs(to_float(objects(objects(b) - objects(a))))


def _sizes(made: list[list[list[Any] | None]], here: list[Any]) -> list[Any]:
    """The largest move of each element among those whose parts have their share of the effect."""
    found: list[Any] = [None if g is None else np.zeros(np.shape(g)) for g in here]
    for parts in made:
        for s, size in enumerate(found):
            if size is None or any(p is None or p[s] is None for p in parts):
                continue
            lengths = [p[s] for p in parts if p is not None]
            good = np.isfinite(lengths[0])
            for longer, shorter in pairwise(lengths):
                good = good & (shorter >= _LEAST * longer) & (shorter <= _MOST * longer)
            found[s] = np.maximum(size, np.where(good, lengths[0], 0.0))
    return found


def _is_given(program: Program, i: int) -> bool:
    """Whether a value holds numbers of inputs and constants alone, without any rounding on the way."""
    nodes = [program.nodes[j] for j in program.ancestors([i])]
    return all(n.kind != "custom" and (n.kind != "op" or n.prim.rounding.kind == "exact") for n in nodes)


def _roundings(oracle: Oracle, node: Node) -> Iterator[Any]:
    """Random moves of an op's matrix within its domain, as long as the roundings that a stable algorithm commits."""
    matrix = np.asarray(oracle.program.nodes[node.inputs[0]].output)
    rng, fit = np.random.default_rng(23), node.prim.domain.fit
    for _ in range(_MOVES):
        move = _rounding(node, matrix, rng)
        yield move if fit is None else fit(move)[0]


def _roundings_of_inputs(program: Program, node: Node) -> Iterator[dict[int, Any]]:
    """Random moves of all inputs by as many roundings of their largest elements, each as node -> move."""
    rng = np.random.default_rng(29)
    for _ in range(_MOVES):
        start = {}
        for nodes in program.sources:
            for i in nodes[:1]:
                value = program.nodes[i].output
                if is_floating(value):
                    start.update(dict.fromkeys(nodes, BALLS.lift(_rounding(node, np.asarray(value), rng))))
        yield start


def _rounding(node: Node, x: Any, rng: Any) -> Any:
    """A random move of a matrix by the backward error of an op."""
    wide = node.prim.rounding.wide and x.real.dtype.itemsize < 8
    signs = rng.choice([-1.0, 1.0], x.shape)
    if holds_complex(x):
        signs = signs * rng.choice([1.0, 1j], x.shape)
    return backward_error(node.prim, x, np.dtype(np.float64) if wide else x.dtype) * signs
