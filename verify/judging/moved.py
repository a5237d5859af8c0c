"""Compares a function with its recorded program at points closer and closer to the recorded one.

Function and program are equal at the recorded point. If their derivatives of order k differ, function and program
differ by the k-th power of the move. A difference by a higher power changes no derivative that is checked: the numbers
of NumPy's mean in ``sum((x - mean)**2)`` are constants of the program, but its first derivative is right.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from gtape import nest
from gtape.base.half_precision import spacing_at_one
from gtape.engine.worlds import COMPLEX
from gtape.symbolic.program import Node, Program
from gtape.tensors.tensor import Tensor, convert_to_tensor, wrap
from gtape.tensors.variable import Variable
from gtape.verify.oracles.enclosures import is_floating
from gtape.verify.verdicts.ulp import same_numbers, spacing, widest

__all__ = ["Comparison"]

_ROUNDINGS = 64.0  # ULP by which they may round differently, because a function may compute with `math`
_NOISE = 0.25  # of these roundings: a part of a difference that may be rounding alone
_SHARE = 2.0**-10  # of the change between the points
_STEPS = 9
_WAYS = 4  # directions
_LONGEST = 4.0  # the first step; a step of 1 is a root of the rounding
_SHORTER = 4.0  # how much shorter each step is than the one before
_LIKE = 0.1  # how exactly a difference must follow a power of the move
_SIDES = (-1, 1)


class _Difference(NamedTuple):
    """Function less program at a moved point.

    Attributes
    ----------
    gap : array
    rounding : array
        The difference that rounding allows.
    large : bool
        Whether the difference is more than a small share of the change.
    """

    gap: Any
    rounding: Any
    large: bool


class Comparison:
    """A function and its program, at the recorded point and at moved ones.

    Parameters
    ----------
    again : Again, or another callable with a `recording`
        The function.
    program : Program
        As recorded.
    order : int
        The order of the derivative that is checked.
    anew : set of int, optional
        The nodes of custom gradients whose functions run again, because their recorded bodies may hold values that left
        the tape.
    """

    def __init__(self, again: Any, program: Program, order: int, anew: frozenset[int] = frozenset()) -> None:
        self.again, self.program, self.order, self.anew = again, program, order, anew
        self.here = [np.asarray(t._value) for t in again.recording.inputs]
        self.before = [np.asarray(t._value) for t in again.recording.outputs]
        self.seen = False  # whether a difference was beyond rounding at some moved point

    def is_deterministic(self) -> bool:
        """Whether the function returns the recorded numbers at the recorded point."""
        again = self.again(self.here)
        return again is not None and all(
            same_numbers(np.asarray(a), b) for a, b in zip(again, self.before, strict=True)
        )

    def is_apart(self, *, by_law_only: bool) -> bool | None:
        """Whether the function has another derivative than the program; None if the function runs on neither side.

        Parameters
        ----------
        by_law_only : bool
            Whether a difference counts only if it follows a power of the move; otherwise any large difference counts.
        """
        runs = False
        for way in range(_WAYS):
            found = self._is_apart_along(way, by_law_only)
            if found:
                return True
            runs = runs or found is not None
            if by_law_only and not self.seen:
                break  # the function equals the program, and no value is known to have left
        return False if runs else None

    def _is_apart_along(self, way: int, by_law_only: bool) -> bool | None:
        """As `is_apart`, by moves along one direction, in which the effects of several elements may cancel."""
        steps: list[dict[int, _Difference]] = []
        lawful = False  # whether the differences ever followed a power
        for k in range(_STEPS):
            made = {}
            for sign in _SIDES:
                found = self._difference(_moved(self.here, sign * _LONGEST * _SHORTER**-k, way))
                if found is None:
                    continue
                if not (np.abs(found.gap) > found.rounding).any():
                    # On one side Python took another branch, or the difference is lost in rounding.
                    return self._counts(_power(steps, 2))
                self.seen = True
                made[sign] = found
            if not made:
                continue
            steps.append(made)
            power = _power(steps)
            if self._counts(power):
                return True
            lawful = lawful or power is not None
        if not steps:
            return None
        return not (by_law_only or lawful) and all(d.large for made in steps for d in made.values())

    def _counts(self, power: int | None) -> bool:
        """Whether a difference by this power of the move changes the derivative that is checked."""
        return power is not None and power <= self.order

    def _difference(self, point: list[Any]) -> _Difference | None:
        function = self.again(point)
        program = None if function is None else self.program_at(point)
        if function is None or program is None:
            return None
        gaps, roundings, large = [], [], False
        for f, p, before in zip(function, program, self.before, strict=True):
            f, p, b = widest(f), widest(p), widest(before)
            good = np.isfinite(f) & np.isfinite(p) & np.isfinite(b)
            size = np.where(good, np.maximum(np.maximum(np.abs(f), np.abs(p)), np.abs(b)), 1.0)
            rounding = _ROUNDINGS * spacing(size, before.dtype)
            gap = np.where(good, f - p, 0.0)
            change = np.where(good, np.maximum(np.abs(f - b), np.abs(p - b)), 0.0)
            large = large or bool((np.abs(gap) > _SHARE * change + rounding).any())
            gaps.append(np.ravel(gap))
            roundings.append(np.ravel(rounding))
        return _Difference(np.concatenate(gaps), np.concatenate(roundings), large)

    def program_at(self, point: list[Any]) -> list[Any] | None:
        """The outputs of the recorded program at a point; None if its ops do not run there."""
        program = self.program
        # The function converts the point alike. Scalars and arrays have kernels of their own, which round differently.
        values = [convert_to_tensor(x)._value for x in point]
        env: dict[int, Any] = {i: x for nodes, x in zip(program.sources, values, strict=True) for i in nodes}
        try:
            for node in program.nodes:
                if node.index not in env:
                    if node.kind in ("leaf", "const"):
                        env[node.index] = node.output
                    elif node.index in self.anew:
                        env[node.index] = _body(node, env)
                    else:
                        env[node.index] = program.step(COMPLEX, node, env)
        except Exception:
            return None
        made = [np.asarray(env[i]) for i in program.outputs if is_floating(program.nodes[i].output)]
        fits = [m.shape for m in made] == [b.shape for b in self.before]
        return made if fits else None


def _power(steps: list[dict[int, _Difference]], count: int = 3) -> int | None:
    """The least power of the move that the last differences follow; None if they follow none.

    The half sum of both sides holds the even powers, and the half difference the odd ones.

    Parameters
    ----------
    count : int
        The number of differences on each side.
    """
    last = steps[-count:]
    if len(last) < count or any(set(made) != set(last[0]) for made in last):
        return None
    scale = next(iter(steps[0].values())).rounding  # one scale for all steps, so that small outputs count, too
    if len(last[0]) < len(_SIDES):
        power = _followed([(d.gap, d.rounding) for made in last for d in made.values()], scale) if count > 2 else None
        return None if power is None or power < 1 else power
    found = []
    for rest, sign in ((1, -1), (0, 1)):
        gaps = [((m[1].gap + sign * m[-1].gap) / 2, np.maximum(m[1].rounding, m[-1].rounding)) for m in last]
        power = _followed(gaps, scale)
        if power is not None and not rest and (power < 1 or power % 2):
            return None  # Python took another branch, or at a tie the two sides follow different lines
        if power is not None and power > 0 and power % 2 == rest:
            found.append(power)
    return min(found, default=None)


def _followed(gaps: list[tuple[Any, Any]], scale: Any) -> int | None:
    """The power that differences follow from step to step; None if they follow none, or may be roundings.

    Parameters
    ----------
    gaps : list of (difference, rounding)
    scale : array
        By which differences are divided.
    """
    if any(np.linalg.norm(gap / rounding) <= _NOISE for gap, rounding in gaps):
        return None
    powers = {_power_between(a / scale, b / scale) for (a, _), (b, _) in pairwise(gaps)}
    return powers.pop() if len(powers) == 1 else None


def _power_between(a: Any, b: Any) -> int | None:
    power = round(float(np.log(np.linalg.norm(a) / np.linalg.norm(b)) / np.log(_SHORTER)))
    return power if _alike(a, b * _SHORTER**power) else None


def _alike(a: Any, b: Any) -> bool:
    return bool(np.linalg.norm(a - b) <= _LIKE * np.linalg.norm(a))


def _moved(here: list[Any], step: float, way: int) -> list[Any]:
    """A point close to the recorded one: each element moves by a share of its size, a 0 by the share itself."""
    rng = np.random.default_rng(41 + way)
    made = []
    for x in here:
        share = spacing_at_one(x.dtype) ** 0.25  # far from rounding and from other branches
        by = step * share * rng.uniform(0.5, 1.0, x.shape) * rng.choice([-1.0, 1.0], x.shape)
        made.append((x + by * np.where(x == 0, 1.0, np.abs(x))).astype(x.dtype))
    return made


def _body(node: Node, env: dict[int, Any]) -> Any:
    """The result of the function of a custom gradient for other values of its inputs."""
    function, args, kwargs = node.call
    flat = nest.flatten(list(args))
    fresh = [
        wrap(np.asarray(env[j])) if isinstance(x, (Tensor, Variable)) else x
        for x, j in zip(flat, node.inputs[: len(flat)], strict=True)
    ]
    y, _ = function(*nest.pack_sequence_as(list(args), fresh), **kwargs)
    made = [convert_to_tensor(t)._value for t in nest.flatten(y)]
    return tuple(made) if isinstance(node.output, tuple) else made[0]
