"""Which of several kinks decides a number: the one whose other branches give another derivative.

A program may meet kinks that do not matter, such as the one of an op behind a selection that leaves its element out.
Each op at a kink reads inputs that lie a small step off its own, and all ops that depend on it follow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from flint import arb

from gtape.base.deadline import tick
from gtape.symbolic.balls import objects, to_float
from gtape.symbolic.program import Node, Program
from gtape.verify.causes.beside import decided_as, scale_of
from gtape.verify.causes.complex_parts import in_parts
from gtape.verify.oracles.enclosures import BALLS, is_floating
from gtape.verify.oracles.oracle import Oracle, TooDeep
from gtape.verify.oracles.replay import decided_anew
from gtape.verify.verdicts.verdict import Finding

__all__ = ["Deciders"]

_STEP = arb(2) ** -160
_NEAR = arb(2) ** -100  # values without a jump move no farther
_WAYS = 3  # directions, because several elements of an op may change so that their sum stays
_CLEARLY = 2.0**-60  # more than the steps themselves change a derivative, relative to its largest number
_MOST = 20_000  # numbers of a program, times those of the derivative, beyond which none is evaluated
_MANY = 16  # ops that are tried
_OPEN = (ArithmeticError, TooDeep, ValueError, IndexError, TypeError)  # raised where the derivative stays open


class Deciders:
    """The elements of a derivative that each of several ops at a kink decides.

    Parameters
    ----------
    program : Program
    oracle : Oracle
        With the exact values of all nodes.
    derivative : callable
        Oracle with the values of all nodes -> the exact derivative, as a list of object arrays or None.
    split : sequence of bool
        Which of these arrays are complex.
    """

    def __init__(
        self, program: Program, oracle: Oracle, derivative: Callable[[Oracle], list[Any]], split: Sequence[bool]
    ) -> None:
        self.program, self.oracle, self.derivative, self.split = program, oracle, derivative, split
        self._here: list[Any] | None = None
        self._masks: dict[Any, list[Any]] = {}

    def of(self, known: Sequence[Finding], s: int, index: tuple[int, ...]) -> Finding | None:
        """The first finding about an op that decides an element; None if there is no choice, or none decides it.

        Parameters
        ----------
        s, index : int, tuple of int
            The source and the element, for a complex source with the part as the last index.
        """
        named = {(f.op, f.line): f for f in reversed(known) if f.op is not None}
        if len(named) < 2 or self.program.size * self._elements() > _MOST:
            return None
        if self._here is None:
            try:
                self._here = self._numbers(self.oracle)
            except _OPEN:
                self._here = [None] * len(self.split)
        for key, found in list(reversed(named.items()))[:_MANY]:
            if key not in self._masks:
                self._masks[key] = self._changed(key)
            mask = self._masks[key][s]
            if mask is not None and mask[index]:
                return found
        return None

    def _changed(self, key: tuple[Any, Any]) -> list[Any]:
        """Masks of the elements of each source that change with the branches of the ops of one name and line."""
        assert self._here is not None
        nodes = [n for n in self.program.nodes if n.kind == "op" and (n.name, n.line) == key]
        changed = [None if a is None else np.zeros(np.shape(a), np.bool_) for a in self._here]
        rng = np.random.default_rng(47)
        for _ in range(_WAYS):
            way = {n.index: [_direction(rng, self.oracle.env[j]) for j in n.inputs] for n in nodes}
            for sign in (-1, 1):
                try:
                    again = self._on_branches(nodes, way, sign)
                    with decided_as(self.program, again.env):
                        there = self._numbers(again)
                except _OPEN:
                    continue  # nothing is defined there, or arrays have other shapes
                for k, (a, b) in enumerate(zip(self._here, there, strict=True)):
                    if a is not None and b is not None and np.shape(a) == np.shape(b):
                        most = float(np.max(np.abs(a), initial=0.0, where=np.isfinite(a)))
                        with np.errstate(all="ignore"):
                            changed[k] |= ~(np.abs(a - b) <= _CLEARLY * most)
        return changed

    def _elements(self) -> int:
        """The number of elements of the derivative."""
        return sum(int(np.size(self.program.nodes[nodes[0]].output)) for nodes in self.program.sources if nodes)

    def _numbers(self, oracle: Oracle) -> list[Any]:
        parts = in_parts(self.split, self.derivative(oracle))
        return [None if a is None else np.asarray(to_float(objects(a))) for a in parts]

    def _on_branches(self, nodes: list[Node], way: dict[int, list[Any]], sign: int) -> Oracle:
        """An oracle in which some nodes read inputs a step off, in place of the exact ones.

        Where the value of such a node has no jump, the ops that read it keep to the exact one, so that they do not
        leave a kink of their own.
        """
        oracle, again, close = self.oracle, self.oracle.anew(), set[int]()
        again.flips = [n for n in oracle.flips if n not in nodes]
        again.read = {i: xs for i, xs in oracle.read.items() if i not in way}
        for node in self.program.nodes:
            tick()
            i, decides = node.index, node.kind == "op" and not is_floating(node.output)
            if i in way:
                xs = [_stepped(again.env[j], d, sign) for j, d in zip(node.inputs, way[i], strict=True)]
                made = decided_anew(node, xs) if decides else node.apply(BALLS, xs)
                again.env[i] = made
                if not decides:
                    again.read[i] = xs
                    if _alike(made, oracle.env[i]):
                        close.add(i)
            elif all(again.env[j] is oracle.env[j] or j in close for j in (*node.inputs, *node.body)):
                again.env[i] = oracle.env[i]
                if node.kind == "op" and not close.isdisjoint(node.inputs):
                    again.read.setdefault(i, [oracle.env[j] for j in node.inputs])
            elif decides:
                again.env[i] = decided_anew(node, [again.env[j] for j in node.inputs])
            else:
                again.env[i] = self.program.step(BALLS, node, again.env)
        return again


def _alike(made: Any, before: Any) -> bool:
    """Whether values differ by no more than the step."""
    if isinstance(made, tuple):
        return all(map(_alike, made, before))
    gaps = [abs(p - q) for p, q in zip(objects(made).ravel().tolist(), objects(before).ravel().tolist(), strict=True)]
    sizes = [abs(q) for q in objects(before).ravel().tolist()]
    return all(bool(gap <= _NEAR * (1 + size)) for gap, size in zip(gaps, sizes, strict=True))


def _direction(rng: Any, x: Any) -> Any:
    """A random direction of the numbers of an input; None for an input that no step moves."""
    if np.asarray(x).dtype != object:
        return None
    return BALLS.lift(rng.uniform(0.5, 1.5, np.shape(x)) * rng.choice([-1.0, 1.0], np.shape(x)))


def _stepped(x: Any, direction: Any, sign: int) -> Any:
    return x if direction is None else objects(objects(x) + sign * _STEP * direction * scale_of(x))
