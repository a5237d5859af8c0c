"""A world of noise: every op's result moves at random within its local bound, scaled up."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gtape.declare.primitives import CONSTANTS, REGISTRY, Primitive
from gtape.engine.worlds import COMPLEX, NUMPY
from gtape.symbolic.program import Node
from gtape.verify.bounds.bounds import (
    at_least_tiniest,
    backward_error,
    committed_error,
    declared_ulps,
    holds_complex,
    holds_floats,
    local_error,
)
from gtape.verify.verdicts.ulp import spacing, widest

__all__ = ["MovedWorld", "NoiseWorld", "spread_of"]

# Size of the noise relative to rounding; `spread_of` divides by this factor.
_LOUDER = 2.0**10


class _Progress(NamedTuple):
    """How far a noisy world is in a run: its generator, the bounds and choices that it noted in the first run, how many
    of each it has passed in a later run, and the largest declared error.
    """

    generator: Any
    bounds: list[Any]
    choices: list[Any]
    passed: tuple[int, int]
    declared: float


class NoiseWorld:
    """The NumPy world in float64, with every op's result moved at random within its local bound times 2**10.

    The first run in a world moves nothing and notes the bounds; each run after `again` makes the same calls with noise.

    Parameters
    ----------
    rng : numpy Generator
    dtype : floating dtype
        The dtype whose rounding is imitated.
    stable : bool
        Whether factorisations have the errors of a stable algorithm: the exact factors of a matrix nearby, each then
        rounded. The vectors of equal values so turn together and stay orthogonal; with noise of their own, each may
        be any vector.
    """

    def __init__(self, rng: Any, dtype: Any, *, stable: bool = False) -> None:
        self._rng = rng
        self._dtype = np.dtype(dtype)
        self._stable = stable
        self._bounds: list[Any] = []
        self._next: Any = None
        self._choices: list[Any] = []
        self._next_choice: Any = None
        self._factor = 1.0
        self.declared = 0.0  # the largest error that an elementwise op declares for its result, in ULP
        self.nudged_nodes: set[int] = set()
        self.nudged_at: Any = None
        self.held: dict[int, Any] = {}  # node -> the mask of the elements that have no noise
        self._plain: dict[int, Any] = {}  # the values of these nodes in the first run
        self.nudged_by: float | None = None  # the move of a nudged result; by default about a millionth of it

    def before(self, node: Node, env: dict[int, Any]) -> None:
        """Change the values of the nodes that an op is about to read, in place; this world changes none."""

    def nudge(self, node: int, y: Any) -> Any:
        """A result of a node, moved if the node is one of `nudged_nodes`; only at `nudged_at`, where it has one."""
        if node in self.held:
            y = np.where(self.held[node], self._plain.setdefault(node, y), y)
        if node not in self.nudged_nodes:
            return y
        if isinstance(y, tuple):
            return tuple([self.nudge(node, v) for v in y])
        if not holds_floats(np.asarray(y)):
            return y
        step = np.ldexp(np.maximum(np.abs(y), 1.0), -20) if self.nudged_by is None else np.float64(self.nudged_by)
        if self.nudged_at is not None:
            place, shape = self.nudged_at, np.shape(y)
            if len(place) != len(shape) or any(i >= n for i, n in zip(place, shape, strict=True)):
                return y + step
            chosen = np.zeros(np.shape(y), np.bool_)
            chosen[place] = True
            step = np.where(chosen, step, 0.0)
        return y + step

    def again(self, factor: float = 1.0) -> None:
        """Start a run with `factor` times the usual noise."""
        self._next = iter(self._bounds)
        self._next_choice = iter(self._choices)
        self._factor = factor

    def at_the_start(self, make: Callable[[], Any], kept: Callable[[Any, Callable[[], Any]], Any]) -> Any:
        """What `make` computes first in a run, or the same from an earlier world in the same state.

        Parameters
        ----------
        make : callable
            Computes in this world.
        kept : callable
            Takes a name and a function; returns the result of the function, or what it kept under this name.
        """
        state = self._state()
        if state is None:
            return make()
        ran = False

        def run() -> Any:
            nonlocal ran
            ran = True
            return make(), self._progress()

        made, progress = kept(("noise", *state), run)
        if not ran:
            self._resume(progress)
        return made

    def _state(self) -> tuple[Any, ...] | None:
        """What decides all numbers of a run; None amid a run, and where some nodes move or are held."""
        used = self._bounds if self._next is None else self._used(self._next, self._bounds)
        if used or self.nudged_nodes or self.held:
            return None
        drawn = self._rng.bit_generator.state["state"]["state"]
        return self._dtype, self._stable, self._next is None, self._factor, drawn

    @staticmethod
    def _used(left: Any, whole: list[Any]) -> int:
        """How many elements of a list its iterator has passed."""
        return len(whole) - operator.length_hint(left)

    def _progress(self) -> _Progress:
        generator = self._rng.bit_generator.state
        if self._next is None:
            return _Progress(generator, list(self._bounds), list(self._choices), (0, 0), self.declared)
        passed = self._used(self._next, self._bounds), self._used(self._next_choice, self._choices)
        return _Progress(generator, [], [], passed, self.declared)

    def _resume(self, progress: _Progress) -> None:
        """Go on as the world went on that made the numbers."""
        self._rng.bit_generator.state = progress.generator
        self._bounds += progress.bounds
        self._choices += progress.choices
        for left, passed in zip((self._next, self._next_choice), progress.passed, strict=True):
            for _ in range(passed):
                next(left)
        self.declared = max(self.declared, progress.declared)

    def __getattr__(self, name: str) -> Any:
        if name in CONSTANTS:
            return CONSTANTS[name]
        prim = REGISTRY.get(name)
        if prim is None:
            raise AttributeError(name)

        # Not cached, because the partial holds the world, and a cache would make a reference cycle.
        return partial(self._call, prim)

    def _call(self, prim: Primitive, *args: Any, **params: Any) -> Any:
        if "choice" not in prim.roles:
            return self._run(prim, args, params)
        if self._next_choice is not None:
            return next(self._next_choice)
        self._choices.append(self._run(prim, args, params))
        return self._choices[-1]

    def _run(self, prim: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        if "conversion" in prim.roles:
            x = np.asarray(args[0])
            to = np.dtype(params["dtype"])
            if to.kind not in "fc" or not holds_floats(x):
                return NUMPY.cast(x, **params)
            # Rounded to `to`, but held in 64 bits.
            kept = x.astype(np.complex128) if to.kind == "c" else x.real
            return self._moved(kept, lambda: spacing(kept, to) / 2)
        if self._stable and prim.rounding.columns:
            args = self._beside(prim, args)
        if any([i.whole for i in prim.domain.intervals]):  # noqa: C419
            args = _with_whole(prim, args)
        y = getattr(COMPLEX, prim.name)(*args, **params)
        if isinstance(y, tuple):
            y = tuple([widest(v) for v in y])
            if self._stable and prim.rounding.columns:
                return self._moved(y, lambda: committed_error(prim, [np.asarray(a) for a in args], y, self._dtype))
            if prim.kind == "linear" or not prim.differentiable:
                return y
            return self._moved(y, lambda: local_error(prim, [np.asarray(a) for a in args], y, params, self._dtype))
        if not prim.differentiable or not holds_floats(np.asarray(y)):
            return y
        if prim.rounding.kind == "exact":
            return y
        y, values = widest(y), [np.asarray(a) for a in args]

        def bound() -> Any:
            error = local_error(prim, values, y, params, self._dtype)
            if prim.kind == "elementwise":
                ulps = declared_ulps(prim, values, y, params, self._dtype)
                self.declared = max(self.declared, float(np.max(ulps, initial=0.0, where=np.isfinite(ulps))))
            return _sided(prim, values, y, params, error)

        return self._moved(y, bound)

    def _beside(self, prim: Primitive, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments of a factorisation, moved within the domain by the backward error of a stable algorithm."""
        moved = [
            self._moved(widest(a), partial(backward_error, prim, np.asarray(a), self._dtype))
            if holds_floats(np.asarray(a))
            else a
            for a in args
        ]
        fit = prim.domain.fit
        return tuple(moved) if fit is None else tuple(fit(*moved))

    def rounded(self, c: Any) -> Any:
        """A result that a rule computes outside any op (a product or sum of cotangents), with noise of one rounding."""
        c = widest(c)
        return self._moved(c, lambda: np.where(c == 0, 0.0, at_least_tiniest(spacing(c, self._dtype) / 2, 0.5)))

    def _moved(self, y: Any, bound: Callable[[], Any]) -> Any:
        if self._next is None:
            made = bound()
            self._bounds.append([_LOUDER * b for b in made] if isinstance(made, tuple) else _LOUDER * np.asarray(made))
            return y
        if isinstance(y, tuple):
            bounds = next(self._next)
            f = self._factor
            return tuple([v + self._rng.uniform(-f, f, v.shape) * b for v, b in zip(y, bounds, strict=True)])
        noise = self._rng.uniform(-1.0, 1.0, size=np.shape(y))
        if holds_complex(y):
            noise = noise + 1j * self._rng.uniform(-1.0, 1.0, size=np.shape(y))
        return y + noise * (self._factor * next(self._next))

    def lift(self, x: Any) -> Any:
        """Recorded values as float64, or complex128."""
        return widest(x) if np.asarray(x).dtype.kind in "fc" else np.asarray(x)


class MovedWorld(NoiseWorld):
    """The NumPy world in float64, with inputs moved and without any noise.

    Parameters
    ----------
    steps : dict
        Node -> the move of its value.
    name : tuple, optional
        What tells these moves from all other moves of the same program.
    """

    def __init__(self, steps: dict[int, Any], name: tuple[Any, ...] | None = None) -> None:
        super().__init__(None, np.float64)
        self.moves_by_node = steps
        self._name = name

    def _state(self) -> tuple[Any, ...] | None:
        return self._name

    def _progress(self) -> Any:
        return None

    def _resume(self, progress: Any) -> None:
        """Nothing to do, because no number is drawn."""

    def nudge(self, node: int, y: Any) -> Any:
        return y + self.moves_by_node[node] if node in self.moves_by_node else y

    def rounded(self, c: Any) -> Any:
        return widest(c)

    def _run(self, prim: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        if "conversion" in prim.roles:
            return super()._run(prim, args, params)
        y = getattr(COMPLEX, prim.name)(*args, **params)
        if isinstance(y, tuple):
            return tuple(map(widest, y))
        return widest(y) if prim.differentiable and holds_floats(np.asarray(y)) else y

    def _moved(self, y: Any, bound: Callable[[], Any]) -> Any:
        return y


def _with_whole(prim: Primitive, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of an op, with whole numbers where only these are allowed: sums of whole numbers are exact."""
    return tuple([np.rint(a) if prim.domain.interval(k).whole else a for k, a in enumerate(args)])


def _sided(prim: Primitive, values: list[Any], y: Any, params: dict[str, Any], bound: Any) -> Any:
    """A bound without noise on exact zeros, which keeps them on their side of a kink; zeros by underflow get noise."""
    if prim.kind != "elementwise" or not (y == 0).any():
        return bound
    if prim.ulps <= 0.5 and (prim.kinks or prim.selects):
        return np.where(y == 0, 0.0, bound)
    underflown = np.ones(np.shape(y), np.bool_)
    for x, p in zip(values, prim.partials or (), strict=False):
        if holds_floats(x) and p is not None:  # at a root, a slope times its argument is not 0
            slope = p if isinstance(p, int) else p(COMPLEX, y, *values, **params)
            underflown = underflown & (x != 0) & (slope * x == 0)
    return np.where((y == 0) & ~underflown, 0.0, bound)


def spread_of(runs: list[Any], base: Any) -> Any:
    """The largest distance of noisy runs from the plain one, divided by the noise; infinite if no run is finite."""
    worst = np.full(np.shape(base), np.nan)
    with np.errstate(all="ignore"):
        for r in runs:
            worst = np.fmax(worst, np.abs(widest(r) - base))
    spread = np.nan_to_num(worst, nan=np.inf, posinf=np.inf) / _LOUDER
    return np.where(worst > 0, at_least_tiniest(spread, 1.0), spread)
