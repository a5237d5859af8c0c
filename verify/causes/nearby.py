"""The derivatives at a few points beside the recorded one, without a comparison with numbers."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from flint import arb

from gtape.symbolic.balls import objects, precision, ties_assumed, to_float
from gtape.symbolic.implicit import degenerate_unnoted
from gtape.symbolic.program import Node
from gtape.verify.causes.beside import OtherShapes, beside
from gtape.verify.causes.complex_parts import in_parts, joined
from gtape.verify.causes.effort import FEW, FEWER, MANY, MORE, ONE_BY_ONE, PAIRS, is_quick, iterates
from gtape.verify.causes.elements_apart import ElementsApart
from gtape.verify.causes.intervals import BITS, STEPS, limits_of
from gtape.verify.causes.points_beside import JOIN, Blurred, Nowhere
from gtape.verify.oracles.enclosures import BALLS, is_complex
from gtape.verify.oracles.oracle import Oracle, TooDeep
from gtape.verify.verdicts.ulp import spacing

__all__ = ["Nearby"]

_AROUND = 2  # random directions to points around a point


class Nearby(ElementsApart):
    """The derivatives of a program at random points, or along a direction.

    The parameters are those of `ElementsApart`.
    """

    def pair_along(self, way: list[Any], name: Any) -> list[list[Any]]:
        """The derivatives before and behind the point along a direction, as floats; none if a side has none, or if the
        function jumps.

        Parameters
        ----------
        way : list of float arrays
            The direction of each source.
        name : hashable
            The name of this direction in all rows.
        """
        with precision(BITS), contextlib.suppress(ArithmeticError, Blurred, Nowhere, OtherShapes, TooDeep):
            self.here = self.here or self._evaluated()
            moves = {
                i: objects(BALLS.lift(np.asarray(w)))
                for nodes, w in zip(self.program.sources, way, strict=True)
                for i in nodes
            }
            made = list(self._at(moves, STEPS[1], self.derivative, number=name))
            if not self.jumps:
                return [[None if a is None else to_float(objects(a)) for a in one] for one in made]
        return []

    def moved(self, limits: list[Any], count: int) -> list[Any]:
        """How far the derivative moves if all sources move by half a unit of their dtypes, at random.

        Parameters
        ----------
        limits : list of object arrays or None
            The derivative at the point, from `agreed`.
        count : int
            Number of moves.

        Returns
        -------
        list of arrays of floats, or None
            The greatest distance of each element. 0 where no move can be evaluated.
        """
        rng, nodes = np.random.default_rng(53), self.program.nodes
        far: list[Any] = [None if e is None else np.zeros(np.shape(e)) for e in limits]
        with precision(FEWER), contextlib.suppress(ArithmeticError, TooDeep, OtherShapes):
            for _ in range(count):
                moves: dict[int, Any] = {}
                for sources in self.program.sources:
                    signs = None  # one move for all reads of a variable
                    for i in sources:
                        x = np.asarray(nodes[i].output)
                        parts = np.stack([x.real, x.imag], axis=-1) if is_complex(x) else x
                        if signs is None:
                            signs = rng.choice([-1.0, 1.0], parts.shape) * rng.uniform(0.75, 1.0, parts.shape)
                        # In enclosures, because half of the smallest float is 0 in floats.
                        move = objects(BALLS.lift(signs) * BALLS.lift(spacing(parts, parts.dtype)) / 2)
                        moves[i] = JOIN(move[..., 0], move[..., 1]) if is_complex(x) else move
                env = beside(self.program, self.here, moves)
                if env is None:
                    continue
                for s, made in enumerate(self._derived(env, self.derivative)):
                    if far[s] is not None and made is not None:
                        distance = np.abs(to_float(objects(made - objects(limits[s]))))
                        far[s] = np.maximum(far[s], np.where(np.isfinite(distance), distance, 0.0))
        return far

    def around(self) -> list[Any] | None:
        """The derivative as the limit at random points, for a point at which ops have none, such as equal eigenvalues.

        Returns
        -------
        list of object arrays or None
            None if the derivatives at the points differ, or cannot be evaluated, and for more than 64 elements.
        """
        nodes = self.program.nodes
        if sum(int(np.prod(nodes[i[0]].shape)) for i in self.program.sources if i) > ONE_BY_ONE:
            return None
        failing = contextlib.suppress(ArithmeticError, TooDeep, OtherShapes)
        with precision(BITS), ties_assumed(), degenerate_unnoted(), failing:
            self.here = self.shared.get("here", self._evaluated)
            drawn = self.shared.get("around", lambda: [self._drawn() for _ in range(_AROUND)])
            found = []
            # Both sides of each direction, because the derivatives on one side agree at a kink.
            for (k, moves), sign in itertools.product(enumerate(drawn), (1, -1)):
                step = sign * arb(2) ** STEPS[1]
                env = self.shared.get(("around", k, sign), partial(self._beside, moves, step))
                if env is None:
                    return None
                found.append(in_parts(self.split, self._derived(env, self.derivative)))
            made: list[Any] = []
            for arrays in zip(*found, strict=True):
                limits = None if arrays[0] is None else limits_of(arrays)
                if limits is None and arrays[0] is not None:
                    return None
                made.append(limits)
            return joined(self.split, made)
        return None

    def holds(self, test: Callable[[Oracle], bool], node: Node | None = None, *, pairs: int = PAIRS) -> bool:
        """Whether a test holds on all sides of the point; False if no side can be evaluated.

        Parameters
        ----------
        test : callable
            Takes an oracle with the values of all nodes.
        node : Node, optional
            If given, the inputs of this node move, each element on its own, instead of the sources.
        pairs : int
            The number of pairs of sides.
        """
        if self.program.size > MANY:
            return False
        attempts = [BITS] if iterates(self.program) else [FEWER, BITS]
        if self.program.size <= FEW and is_quick(self.program):
            attempts.append(MORE)
        for bits in attempts:
            try:
                with precision(bits):
                    return self._holds(test, node, pairs)
            except TooDeep:
                return False
            except ArithmeticError:
                if bits == attempts[-1]:
                    raise
        return False

    def _holds(self, test: Callable[[Oracle], bool], node: Node | None, pairs: int) -> bool:
        """As `holds`, at the precision in force."""
        held = False
        self.here = self._evaluated()
        for _ in range(pairs if self.program.size <= FEW else max(1, pairs // PAIRS)):
            moves = self._drawn() if node is None else self._drawn_before(node)
            for sign in (-1, 1):
                env = None
                with contextlib.suppress(OtherShapes):
                    env = self._beside(moves, sign * arb(2) ** STEPS[0], whole=True)
                if env is not None:
                    held = bool(self._derived(env, lambda oracle: [test(oracle)])[0])
                    if not held:
                        return False
        return held
