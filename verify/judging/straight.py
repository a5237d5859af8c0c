"""The computations of the short way for one structure, as straight-line functions of balls.

These functions compute the same as `ordinary.Checked`, but without arrays, because a check of few numbers spends most
of its time on arrays. A training loop checks such a program thousands of times.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, NamedTuple

from flint import arb

from gtape.symbolic.balls import filled, objects
from gtape.symbolic.straight_line import Code, NotStraight, WrittenBalls, WrittenJets
from gtape.verify.judging.structure import Structure, cut, shaped

__all__ = ["Place", "Straight", "straight_of"]

_LONGEST = 64  # arrays are as fast for programs with more ops, whose code takes as long to write as three checks
_MOST_PLACES = 16  # kept functions for inputs that move apart
_OFTEN = 4  # the first checks of a structure run without code, because writing it takes as long as some checks

_Function = Callable[[list[Any]], list[Any]]


def straight_of(structure: Structure) -> Straight | None:
    """The straight-line functions of a structure that checks meet often; None if the structure has none."""
    structure.met += 1
    if structure.met == _OFTEN and structure.real and not structure.kinked and len(structure.ops) <= _LONGEST:
        try:
            structure.straight = Straight(structure)
        except NotStraight:
            structure.straight = None
    found: Straight | None = structure.straight
    return found


class Place(NamedTuple):
    """The place of an array in a list of scalars: the value of an op, or the result of its rule for active argument
    `k`.
    """

    number: int
    k: int | None
    start: int
    stop: int
    shape: tuple[int, ...]


class Straight:
    """The functions of one structure, each of one list of balls.

    Attributes
    ----------
    exact : callable
        Inputs of the program, cotangents of its outputs -> values of its ops, gradient, results of the rules.
    used : list
        For each result of a rule in `exact` its entry in `Kind.used`, and its place: first and last scalar.
    certify : callable
        Inputs, cotangents of the outputs, values, gradient, a direction by the sources -> the derivative along this
        direction by the gradient and by the mirrors, and the sum of the magnitudes of all terms.
    local : callable
        Inputs, recorded values, the cotangents in floats that arrived at the ops `reached` -> the exact values and
        results of the rules at these numbers.
    compared : list of Place
        The places of the results of `local`.
    """

    def __init__(self, structure: Structure) -> None:
        self._structure = s = structure
        self._given = [s.shapes[i] for i in s.given]
        self._seeds = [s.shapes[i] for i in s.outputs]
        self._values = [op.kind.shape for op in s.ops]
        self._gradient = [s.shapes[i] for i in s.sources]
        self.reached: list[int] = []
        self.used: list[tuple[Any, int, int]] = []
        self.compared: list[Place] = []
        self._apart: dict[Any, Any] = {}
        self.exact = self._written_exact()
        self.certify = self._written_certificate()
        self.local = self._written_local()

    def _written_exact(self) -> _Function:
        with Code() as code:
            s = self._structure.written(code)
            given, seeds = _inputs(code, self._given, self._seeds)
            values = dict(zip(s.given, given, strict=True))
            made: dict[int, list[Any]] = {}
            s.evaluate(values)
            gradient = s.replay(WrittenBalls(code), values, seeds, lambda op, _, cs: made.update({op.number: cs}))
            found = _scalars([*[values[op.number] for op in s.ops], *gradient])
            for op in s.ops:
                if op.number in made:
                    self.reached.append(op.number)
                    for used, c in zip(op.kind.used, made[op.number], strict=True):
                        if c is not None:
                            self.used.append((used, len(found), len(found) + objects(c).size))
                            found += _scalars([c])
            return code.function(found)

    def _written_certificate(self) -> _Function:
        with Code() as code:
            s = self._structure.written(code)
            given, seeds, values, gradient, way = _inputs(
                code, self._given, self._seeds, self._values, self._gradient, self._gradient
            )
            tangents = dict(zip(s.sources, way, strict=True))
            s.push(self._by_node(given, values), tangents)
            by_gradient = _products(zip(gradient, way, strict=True))
            by_mirrors = _products([(c, tangents[i]) for i, c in zip(s.outputs, seeds, strict=True) if i in tangents])
            return code.function([sum(by_gradient), sum(by_mirrors), sum(map(abs, by_gradient + by_mirrors))])

    def _written_local(self) -> _Function:
        with Code() as code:
            s = self._structure.written(code)
            arrived = [op.kind.shape for op in s.ops if op.number in self.reached]
            given, values, gs = _inputs(code, self._given, self._values, arrived)
            recorded, balls = self._by_node(given, values), WrittenBalls(code)
            found: list[Any] = []

            def add(number: int, k: int | None, v: Any, shape: tuple[int, ...]) -> None:
                start = len(found)
                found.extend(_scalars([shaped(objects(v), shape)]))
                self.compared.append(Place(number, k, start, len(found), shape))

            exact: dict[int, Any] = {}
            for op in s.ops:
                exact[op.number] = op.kind.exact([recorded[j] for j in op.inputs])
                add(op.number, None, exact[op.number], op.kind.shape)
            reached = dict(zip(self.reached, gs, strict=True))
            for op in s.ops:
                if op.number in reached:
                    xs = [recorded[j] for j in op.inputs]
                    cs = op.kind.pulled(balls, reached[op.number], exact[op.number], xs)
                    for k, (a, c) in enumerate(zip(op.kind.node.active, cs, strict=True)):
                        if c is not None:
                            add(op.number, k, c, s.shapes[op.inputs[a]])
            return code.function(found)

    @cached_property
    def moved(self) -> _Function | None:
        """Inputs, cotangents of the outputs, moves of the inputs -> move of the gradient; None if no code can be
        written.
        """
        with Code() as code:
            s = self._structure.written(code)
            given, seeds, moves = _inputs(code, self._given, self._seeds, self._given)
            jets, values = WrittenJets(code), dict(zip(s.given, given, strict=True))
            try:
                s.evaluate(values)
                values.update({i: jets.jet(x, t) for i, x, t in zip(s.given, given, moves, strict=True)})
                s.move(values, set(s.given))
                made = s.replay(jets, values, seeds)
            except NotStraight:
                return None
            return code.function(_scalars([jets.component(g, 1) for g in made]))

    def moved_apart(self, places: tuple[tuple[tuple[int, ...], int], ...]) -> _Function | None:
        """As `moved`, for numbers of inputs that move one after another; the moves of the gradient follow each other.

        Parameters
        ----------
        places : tuple of (nodes, number)
            For each move the inputs, and the place of the number that moves in all of them.

        Returns
        -------
        callable or None
            Inputs, cotangents of the outputs, the size of each move -> moves of the gradient.
        """
        found: Any = self._apart.get(places, ...)
        if found is ...:
            if len(self._apart) >= _MOST_PLACES:
                self._apart.clear()  # another thread may clear them at any time
            found = self._apart[places] = self._written_apart(places)
        made: _Function | None = found
        return made

    def _written_apart(self, places: tuple[tuple[tuple[int, ...], int], ...]) -> _Function | None:
        with Code() as code:
            s = self._structure.written(code)
            given, seeds, sizes = _inputs(code, self._given, self._seeds, [()] * len(places))
            jets, known = WrittenJets(code), dict(zip(s.given, given, strict=True))
            found: list[Any] = []
            try:
                s.evaluate(known)
                for (nodes, k), size in zip(places, sizes, strict=True):
                    values = dict(known)
                    for i in nodes:
                        move = [0] * values[i].size
                        move[k] = size.item()
                        values[i] = jets.jet(values[i], filled(move, values[i].shape))
                    s.move(values, set(nodes))
                    found += _scalars([jets.component(g, 1) for g in s.replay(jets, values, seeds)])
            except NotStraight:
                return None
            return code.function(found)

    def moves(self, start: dict[int, Any]) -> list[Any]:
        """The moves of all inputs as scalars; inputs that `start` lacks do not move."""
        none = arb(0)
        return [
            e
            for i, n in zip(self._structure.given, self._given, strict=True)
            for e in (start[i].ravel().tolist() if i in start else [none] * math.prod(n))
        ]

    def parted(self, made: list[Any]) -> tuple[list[Any], list[Any]]:
        """The values of the ops and the gradient, from the results of `exact`."""
        size = sum(map(math.prod, self._values))
        return made[:size], made[size : size + sum(map(math.prod, self._gradient))]

    def as_gradient(self, flat: list[Any]) -> list[Any]:
        """A gradient as arrays."""
        return cut(filled(flat, (len(flat),)), self._gradient)

    def as_values(self, flat: list[Any]) -> dict[int, Any]:
        """Values of the ops as arrays, by op."""
        parts = cut(filled(flat, (len(flat),)), self._values)
        return dict(zip([op.number for op in self._structure.ops], parts, strict=True))

    def _by_node(self, given: list[Any], values: list[Any]) -> dict[int, Any]:
        s = self._structure
        return dict(zip([*s.given, *[op.number for op in s.ops]], given + values, strict=True))


def _scalars(arrays: list[Any]) -> list[Any]:
    """The scalars of arrays, in one list."""
    return [e for v in arrays for e in objects(v).ravel().tolist()]


def _inputs(code: Code, *groups: list[tuple[int, ...]]) -> list[list[Any]]:
    """Arrays of the arguments of a function, in groups of arrays of given shapes."""
    shapes = [shape for group in groups for shape in group]
    flat = code.inputs(sum(map(math.prod, shapes)))
    parts = iter(cut(filled(flat, (len(flat),)), shapes))
    return [list(itertools.islice(parts, len(group))) for group in groups]


def _products(pairs: Iterable[tuple[Any, Any]]) -> list[Any]:
    """The products of the elements of pairs of arrays."""
    return [p * q for a, b in pairs for p, q in zip(_scalars([a]), _scalars([b]), strict=True)]
