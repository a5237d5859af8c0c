"""A world of noise that stays on one side of each kink.

Noise is much larger than rounding, so it carries values across kinks that no rounding reaches, and even one value
across a kink spreads a derivative by the whole jump of the slope. Such a spread bounds no rounding: it would explain
any number as large. The derivatives on the other sides are few numbers, with which other parts of the check compare.
"""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np

from gtape.symbolic.program import Node
from gtape.verify.bounds.bounds import holds_complex, holds_floats
from gtape.verify.bounds.noise import read_by
from gtape.verify.bounds.noise_world import NoiseWorld

__all__ = ["SidedWorld"]


class SidedWorld(NoiseWorld):
    """As `NoiseWorld`, but a value that noise carries across a kink moves as far the other way instead.

    Attributes
    ----------
    crossed : dict
        Node -> the mask of the elements that noise would have carried across kinks.
    """

    def __init__(self, rng: Any, dtype: Any) -> None:
        super().__init__(rng, dtype)
        self.crossed: dict[int, Any] = {}
        # The kinks of each op that has some with its inputs, and its result, in the first run.
        self._read: dict[int, tuple[tuple[Any, ...], list[Any]]] = {}
        self._made: dict[int, Any] = {}

    def _state(self) -> tuple[Any, ...] | None:
        return None

    def before(self, node: Node, env: dict[int, Any]) -> None:
        if node.kind != "op" or node.prim.kind != "elementwise" or not node.prim.kinks:
            return
        values = [np.asarray(env[j]) for j in node.inputs]
        if self._next is None:
            self._read[node.index] = node.prim.kinks, values
            return
        sided, across = _sided(*self._read[node.index], values)
        if across.any():
            self.crossed[node.index] = self.crossed.get(node.index, False) | across
            env.update(zip(node.inputs, sided, strict=True))

    def nudge(self, node: int, y: Any) -> Any:
        y = super().nudge(node, y)
        if node not in self._read:
            return y
        if self._next is None:
            self._made[node] = np.asarray(y)
            return y
        # A rule may decide by the result, as that of a rectifier does.
        kinks, _ = self._read[node]
        return _sided(kinks, [self._made[node]], [np.asarray(y)])[0][0]


def _sided(kinks: tuple[Any, ...], plain: list[Any], values: list[Any]) -> tuple[list[Any], Any]:
    """Values on the sides of kinks on which the plain ones lie, and the mask of the elements that were on others.

    These elements move as far the other way; those at a kink, or between two of them, have no other way to go.
    """
    across = _lie_apart(kinks, plain, values)
    if across.any():
        values = [_where_read(across, 2 * p - v, v) for p, v in zip(plain, values, strict=True)]
        still = _lie_apart(kinks, plain, values)
        values = [_where_read(still, p, v) for p, v in zip(plain, values, strict=True)]
    return values, across


def _where_read(mask: Any, chosen: Any, x: Any) -> Any:
    """Other numbers for those elements of a real input that the masked elements of an elementwise op read."""
    return np.where(read_by(x.shape, mask), chosen, x) if _holds_reals(x) else x


def _holds_reals(x: Any) -> bool:
    return holds_floats(x) and not holds_complex(x)


def _lie_apart(kinks: tuple[Any, ...], plain: list[Any], values: list[Any]) -> Any:
    """The mask of the elements of an op for which a kink may lie between two values of its inputs.

    A number in the condition of a kink, as in "x == 0 and y <= 1", counts for each input.
    """
    words = " ".join([k for k in kinks if isinstance(k, str)])
    numbers = {float(k) for k in kinks if not isinstance(k, str)} | {float(k) for k in re.findall(r"-?\d+", words)}
    pairs = [(p, v) for p, v in zip(plain, values, strict=True) if _holds_reals(p)]
    found = [np.sign(p - k) != np.sign(v - k) for p, v in pairs for k in numbers]
    if re.search(r"[a-z] == [a-z]", words):
        for (p, v), (q, w) in itertools.combinations(pairs, 2):
            found.append(np.sign(p - q) != np.sign(v - w))
    if "whole" in words and len(pairs) == 2:
        (p, v), (q, w) = pairs
        found.append(np.floor(p / q) != np.floor(v / w))
    elif "whole" in words:
        found += [np.floor(2 * p) != np.floor(2 * v) for p, v in pairs]
    shape = np.broadcast_shapes(*[np.shape(v) for v in values])
    return (
        np.logical_or.reduce([np.broadcast_to(mask, shape) for mask in found]) if found else np.zeros(shape, np.bool_)
    )
