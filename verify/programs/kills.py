"""Plants every mutant of a primitive, and tries the channels by which a user might find it.

A mutant counts if it changes a first or second derivative at some point of a search, by more than rounding does; a
mutant that raises an error at once does not count, because the fault is not silent. Each channel sees the same calls of
the op:

- `check`: `gtape.verify.check` of order 2, at moderate numbers, then near special points, then in every
  binade; this channel also checks the rules of forward mode;
- `flag`: a tape with ``verify=True``, and forward mode, at the same calls;
- `property`: a property test with Hypothesis, whose calls `gtape.verify.strategies` draws, judged by `check`;
- `plain`: `check` at plain random numbers;
- `differences`: central differences at plain random numbers, with the tolerances of ``torch.autograd.gradcheck``.
"""

from __future__ import annotations

import time
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from gtape.base.quiet import quietly
from gtape.declare.domains import BOOLEAN
from gtape.declare.primitives import REGISTRY, Primitive
from gtape.tapes.tape import GradientTape
from gtape.tensors.indexed_slices import IndexedSlices
from gtape.tensors.tensor import Tensor, convert_to_tensor, wrap
from gtape.verify.judging.api import check
from gtape.verify.programs.mutants import example
from gtape.verify.programs.operators import FORWARD, SMALL, Mutant, mutants_of
from gtape.verify.search.points import landmarks, neighbours, points_for
from gtape.verify.search.subjects import Subject, subjects
from gtape.verify.search.trials import random_arguments, trial
from gtape.verify.verdicts.verdict import Report

__all__ = ["CHANNELS", "Kill", "Trial", "try_all"]

CHANNELS = ("check", "flag", "property", "plain", "differences")

_POINTS = 400  # of an elementwise op, where a mutant is compared with the declared rule, and checked
_AT_ONCE, _AT_KINKS = 12, 3  # points in one call
_MOST_SAMPLES = 8  # of an op that is not elementwise
_MOST_ELEMENTS = 60  # of one sample, because the check of order 2 computes the whole Hessian
_APART = 1e-9  # a larger relative difference is no rounding

Arrays = list[np.ndarray]


class Kill(NamedTuple):
    """The result of one channel.

    Attributes
    ----------
    found : bool or None
        None if the channel cannot see this kind of fault; differences, for example, do not see a rule of forward mode.
    named : bool
        Whether a finding names the op.
    tries : int
        The number of calls until the fault was found, or all of them.
    seconds : float
    """

    found: bool | None
    named: bool = False
    tries: int = 0
    seconds: float = 0.0


class Trial(NamedTuple):
    """One mutant and its fate.

    Attributes
    ----------
    op, argument, operator, text
        As for the mutant.
    state : {"applicable", "equivalent", "raises"}
    kills : dict
        Channel -> Kill, for applicable mutants.
    """

    op: str
    argument: int
    operator: str
    text: str
    state: str
    kills: dict[str, Kill]

    def as_dict(self) -> dict[str, Any]:
        """The trial as plain data for JSON."""
        return {**self._asdict(), "kills": {k: v._asdict() for k, v in self.kills.items()}}


class _Call:
    """A call of a primitive as a function that `check` takes: a weighted sum of its outputs, or of their squares."""

    def __init__(self, prim: Primitive, arrays: Arrays, params: dict[str, Any]) -> None:
        self.prim, self.params = prim, params
        self.arrays = [np.asarray(a) for a in arrays]
        self.moving = [
            i
            for i, a in enumerate(self.arrays)
            if a.dtype.kind in "fc" and prim.connected(0 if prim.variadic else i) and i not in prim.missing
        ]

    @property
    def point(self) -> Arrays:
        """The arguments of the function."""
        return [self.arrays[i] for i in self.moving]

    def halves(self) -> list[_Call]:
        """Both halves of the points of an elementwise op; empty for one point and for other ops."""
        shapes = {a.shape for a in self.arrays}
        n = self.arrays[0].size
        if self.prim.kind != "elementwise" or shapes != {(n,)} or n < 2:
            return []
        parts = (slice(None, n // 2), slice(n // 2, None))
        return [_Call(self.prim, [a[part] for a in self.arrays], self.params) for part in parts]

    def function(self, squares: bool) -> Callable[..., Any]:
        def f(*xs: Any) -> Any:
            values: list[Any] = [wrap(a) for a in self.arrays]
            for i, x in zip(self.moving, xs, strict=True):
                values[i] = x
            y = self.prim.function(*values, **self.params)
            parts = []
            for k, part in enumerate(y if isinstance(y, (tuple, list)) else [y]):
                if not part._layout.inexact:
                    continue
                rng = np.random.default_rng(k)
                weights = wrap(rng.uniform(0.5, 1.5, part._layout.shape).astype(part._layout.dtype))
                parts.append(weights * part * part if squares else weights * part)
            return parts

        return f

    def checks(self) -> Iterator[tuple[Callable[..., Any], int]]:
        yield self.function(False), 2
        if self.prim.kind != "elementwise":  # because a linear op has no second derivatives of its own
            yield self.function(True), 2


def _size(sample: Any) -> int:
    return int(sum(np.prod(a.shape if isinstance(a, np.ndarray) else a, dtype=int) for a in sample))


def _complex(prim: Primitive) -> bool:
    return bool({"complex", "part", "conjugate"} & prim.roles)


def _random(what: str, seed: int) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(what.encode(), seed))


def _chosen(prim: Primitive, seed: int = 0) -> list[_Call]:
    """The calls of `check` and of the flag, the most ordinary ones first."""
    rng = _random(prim.name, seed)
    if prim.kind != "elementwise":
        samples = [s for s in prim.samples or () if 0 < _size(s[0]) <= _MOST_ELEMENTS][:_MOST_SAMPLES]
        return [
            _Call(prim, random_arguments(prim, sample, params, "float64", rng), params)
            for _ in range(2)
            for sample, params in samples
        ]
    arrays, params = example(prim, "float64", rng)
    first = [_Call(prim, arrays, params)]
    later: list[_Call] = []
    for subject in subjects([prim.name])[:2]:
        # Few points at once near kinks, because a check tries the sides of all kinks together.
        size = _AT_KINKS if prim.kinks else _AT_ONCE
        for columns, into in ((_near(subject, rng), first), (_grid(subject, rng), later)):
            for k in range(0, len(columns[0]), size):
                part = [c[k : k + size] for c in columns]
                into.append(_Call(prim, subject.arguments(part, np.float64), subject.params))
    return first + later


def _near(subject: Subject, rng: Any) -> Arrays:
    """Special points, kinks and ends of the domain with their neighbours, and numbers at some distance."""
    prim = subject.prim
    columns = []
    for i, interval in enumerate(prim.domain.intervals):
        if interval is BOOLEAN:
            columns.append(np.array([0.0, 1.0]))
            continue
        marks = landmarks(prim, i, np.dtype(np.float64))
        near = [m + s * 2.0**-k * max(abs(m), 1.0) for m in marks for k in (4, 12, 24, 40) for s in (-1, 1)]
        close = [float(v) for m in marks for v in neighbours(m, np.float64, 2)]
        # Each kink alone, because a check of a call at several kinks takes long.
        columns.append(np.array(list(dict.fromkeys(v for v in (*marks, *near, *close) if v in interval)) or [1.0]))
    longest = max(map(len, columns))
    rows = [np.resize(c if k == 0 else rng.permutation(c), longest) for k, c in enumerate(columns)]
    if prim.arity > 1:  # each special point together with ordinary numbers, too
        plain, _ = example(prim, "float64", rng)
        for i, column in enumerate(columns):
            others = [np.resize(np.asarray(p, np.float64), len(column)) for p in plain]
            rows = [np.concatenate(pair) for pair in zip(rows, [*others[:i], column, *others[i + 1 :]], strict=True)]
    inside = [k for k, p in enumerate(zip(*[c.tolist() for c in rows], strict=True)) if p in prim.domain]
    return [c[inside] for c in rows]


def _grid(subject: Subject, rng: Any) -> Arrays:
    found = points_for(subject.prim, np.dtype(np.float64), _POINTS, rng)
    order = rng.permutation(len(found[0]))[:_POINTS]
    return [c[order] for c in found]


def _plain(prim: Primitive, rng: Any) -> _Call | None:
    """A call with plain random numbers: uniform or normal ones, of moderate size."""
    if prim.kind == "elementwise":
        return _Call(prim, *example(prim, "float64", rng))
    samples = [s for s in prim.samples or () if 0 < _size(s[0]) <= _MOST_ELEMENTS]
    if not samples:
        return None
    sample, params = samples[int(rng.integers(len(samples)))]
    return _Call(prim, random_arguments(prim, sample, params, "float64", rng), params)


# ------------------------------------------------------------------------------------------------ does it matter


def _numbers(call: _Call, order: int) -> list[np.ndarray]:
    """The gradient of a call, or the gradient of its weighted sum, as plain tapes compute them."""
    xs = [wrap(a) for a in call.point]
    f = call.function(call.prim.kind != "elementwise")
    if order == 1:
        with GradientTape() as tape:
            tape.watch(xs)
            y = f(*xs)
        return [_array(_dense(g), x) for g, x in zip(tape.gradient(y, xs), xs, strict=True)]
    rng = np.random.default_rng(7)
    with GradientTape() as outer:
        outer.watch(xs)
        with GradientTape() as inner:
            inner.watch(xs)
            y = f(*xs)
        slopes = [_dense(g) for g in inner.gradient(y, xs)]
        total = [wrap(rng.uniform(0.5, 1.5, tuple(g.shape))) * g for g in slopes if g is not None]
    return [_array(_dense(g), x) for g, x in zip(outer.gradient(total, xs), xs, strict=True)]


def _array(g: Any, x: Tensor) -> np.ndarray:
    """A gradient as an array; zeros for None, because this comparison is about numbers."""
    return np.zeros(tuple(x.shape)) if g is None else np.asarray(g.numpy())


def _dense(g: Any) -> Any:
    return convert_to_tensor(g) if isinstance(g, IndexedSlices) else g


class _Reference:
    """The derivatives of some calls by the declared rules."""

    def __init__(self, calls: Sequence[_Call]) -> None:
        self.calls = calls
        self.right = [[_numbers(c, k) for k in (1, 2)] for c in calls]
        # How far rounding the inputs moves each number: at roots and poles a small difference is not a fault.
        self.moved = [[_spread(c, k, made) for k, made in zip((1, 2), right, strict=True)] for c, right in self]
        self.off_kinks = [_off_kinks(c) for c in calls]

    def __iter__(self) -> Iterator[tuple[_Call, Any]]:
        return iter(zip(self.calls, self.right, strict=True))

    def state(self, apart: float, *, at_kinks: bool = False) -> str:
        """The effect of the planted mutant on the numbers."""
        raised = 0
        for call, right, moved, keep in zip(self.calls, self.right, self.moved, self.off_kinks, strict=True):
            for k in (1, 2):
                try:
                    made = _numbers(call, k)
                except Exception:  # any error, because a faulty rule may raise any
                    raised += 1
                    break
                where = [np.asarray(True)] * len(keep) if at_kinks else keep
                if any(_differ(*four, apart) for four in zip(made, right[k - 1], moved[k - 1], where, strict=True)):
                    return "applicable"
        return "raises" if raised == len(self.calls) else "equivalent"


def _spread(call: _Call, order: int, right: Arrays) -> Arrays:
    found = [np.zeros(np.shape(r)) for r in right]
    for step in (2.0**-51, -(2.0**-51)):
        arrays = [a * (1 + step) if a.dtype.kind in "fc" else a for a in call.arrays]
        with np.errstate(all="ignore"):
            try:
                beside = _numbers(_Call(call.prim, arrays, call.params), order)
            except Exception:  # outside of the domain
                continue
            found = [
                np.maximum(f, np.abs(b - r)) if np.shape(b) == np.shape(r) else f
                for f, b, r in zip(found, beside, right, strict=True)
            ]
    return found


def _off_kinks(call: _Call) -> list[Any]:
    """For each argument, where its elements are off the declared kinks and ties, at which a convention decides."""
    kinks = call.prim.kinks
    if call.prim.kind != "elementwise":
        return [np.asarray(True)] * len(call.moving)
    arrays = np.broadcast_arrays(*call.arrays)
    off = np.ones(arrays[0].shape, bool)
    for a in arrays:
        off &= ~np.isin(a, [k for k in kinks if isinstance(k, (int, float))])
    if any(isinstance(k, str) for k in kinks) and len(arrays) > 1:
        off &= arrays[0] != arrays[-1]
    return [off if off.shape == call.arrays[i].shape else np.asarray(bool(off.all())) for i in call.moving]


def _differ(made: Any, right: Any, moved: Any, keep: Any, apart: float) -> bool:
    if np.shape(made) != np.shape(right):
        return True
    with np.errstate(all="ignore"):
        right_is_finite = np.isfinite(right)
        off = ~(np.abs(made - right) <= apart * np.abs(right) + 16 * np.nan_to_num(moved))
        normal = np.maximum(np.abs(right), np.abs(np.nan_to_num(made))) > 1e-290
    return bool(np.any(off & right_is_finite & keep & normal))


# ------------------------------------------------------------------------------------------------ channels


def _judged(call: _Call) -> tuple[bool, set[Any]]:
    """Whether `check` finds something, and the ops that it names."""
    for f, order in call.checks():
        try:
            report = check(f, *call.point, order=order)
        except Exception as e:  # an error shows a fault, but names no op
            return True, {type(e).__name__}
        bad = [v for v in report.findings if not v.ok and v.verdict != "undecided"]
        if bad:
            return True, {v.op for v in bad}
    return False, set()


def _flagged(call: _Call, modes: Sequence[tuple[str, int]] = (("reverse", 1), ("reverse", 2))) -> tuple[bool, set[Any]]:
    """As `_judged`, by a tape under the flag."""
    for mode, order in modes:
        try:
            report: Report = trial(call.prim, call.arrays, call.params, order=order, mode=mode)
        except Exception as e:
            return True, {type(e).__name__}
        bad = [v for v in report.findings if not v.ok and v.verdict != "undecided"]
        if bad:
            return True, {v.op for v in bad}
    return False, set()


def _flagged_forward(call: _Call) -> tuple[bool, set[Any]]:
    return _flagged(call, [("forward", 1)])


def _weights(call: _Call) -> list[Any]:
    rng = np.random.default_rng(3)
    return [rng.uniform(0.5, 1.5, a.shape) for a in call.point]


def _by_differences(call: _Call) -> tuple[bool, set[Any]]:
    """Central differences of the function, then of its gradient, against gtape's derivatives."""
    f = call.function(call.prim.kind != "elementwise")
    weights = _weights(call)

    def value(arrays: Arrays) -> float:
        return float(sum(np.sum(np.asarray(p.numpy())) for p in f(*[wrap(a) for a in arrays])))

    def slopes(xs: list[Tensor]) -> list[Any]:
        with GradientTape() as tape:
            tape.watch(xs)
            y = f(*xs)
        return [_dense(g) for g in tape.gradient(y, xs)]

    def along(arrays: Arrays) -> float:
        made = slopes([wrap(a) for a in arrays])
        return float(
            sum(np.sum(w * np.asarray(g.numpy())) for w, g in zip(weights, made, strict=True) if g is not None)
        )

    xs = [wrap(a) for a in call.point]
    try:
        with GradientTape() as outer:
            outer.watch(xs)
            first = slopes(xs)
            total = [wrap(w) * g for w, g in zip(weights, first, strict=True) if g is not None]
        second = [_dense(g) for g in outer.gradient(total, xs)]
        wrong = _off(call.point, first, value) or _off(call.point, second, along)
    except Exception as e:
        return True, {type(e).__name__}
    return wrong, set()


_STEP, _ABSOLUTE, _RELATIVE = 1e-6, 1e-5, 1e-3


def _off(point: Arrays, claimed: list[Any], function: Callable[[Arrays], float]) -> bool:
    for i, (x, g) in enumerate(zip(point, claimed, strict=True)):
        made = np.zeros(x.shape) if g is None else np.asarray(g.numpy())
        for at in np.ndindex(*x.shape):
            ends = []
            for step in (_STEP, -_STEP):
                moved = [a.copy() for a in point]
                moved[i][at] += step
                ends.append(function(moved))
            numeric = (ends[0] - ends[1]) / (2 * _STEP)
            if not abs(made[at] - numeric) <= _ABSOLUTE + _RELATIVE * abs(numeric):
                return True
    return False


class _Channel:
    """A way to judge calls; it remembers the calls at which the declared rules fail, too."""

    def __init__(self, op: str, judge: Callable[[_Call], tuple[bool, set[Any]]]) -> None:
        self.op, self.judge = op, judge
        self._fails: dict[int, bool] = {}
        self._parts: dict[int, list[_Call]] = {}
        self._alive: list[_Call] = []  # keeps calls alive, because their ids serve as keys

    def passes(self, call: _Call) -> bool:
        """Whether the declared rules pass; otherwise a finding says nothing about a mutant."""
        known = self._fails.get(id(call))
        if known is None:
            known = self._fails[id(call)] = self.judge(call)[0]
        return not known

    def parts(self, call: _Call) -> list[_Call]:
        """The largest parts of a call at which the declared rules pass."""
        known = self._parts.get(id(call))
        if known is None:
            halves = call.halves()
            known = [p for half in halves for p in ([half] if self.passes(half) else self.parts(half))]
            self._parts[id(call)] = known
            self._alive += halves
        return known

    def _in_parts(self, mutant: Mutant, call: _Call) -> tuple[bool, set[Any]]:
        """The findings at the points of a call at which the declared rules pass."""
        for part in self.parts(call):
            with mutant.plant():
                found, named = self.judge(part)
            if found:
                return True, named
        return False, set()

    def kill(self, mutant: Mutant, calls: Sequence[_Call]) -> Kill:
        """Judge the calls until a finding names the op."""
        began, tries, seconds = time.perf_counter(), 0, 0.0
        for k, call in enumerate(calls, 1):
            with mutant.plant():
                found, named = self.judge(call)
            if found and not self.passes(call):
                found, named = self._in_parts(mutant, call)
            if not found:
                continue
            if not tries:
                tries, seconds = k, time.perf_counter() - began
            if self.op in named:
                return Kill(True, True, tries, seconds)
            if k >= tries + _MORE:
                break
        return Kill(True, False, tries, seconds) if tries else Kill(
            False, False, len(calls), time.perf_counter() - began
        )  # fmt: skip


_MORE = 60  # calls after the first finding, until one names the op


class _Found(Exception):
    """The property test has found the fault."""


def _by_property(strategy: Any, mutant: Mutant, tries: int, number: int) -> Kill:
    """The kill by a property test; a call at which the declared rules fail, too, is left out."""
    from hypothesis import HealthCheck, Phase, given, seed, settings

    began, calls = time.perf_counter(), 0
    left_out: set[str] = set()
    last: Any = None
    names: set[Any] = set()

    @settings(
        max_examples=tries, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @seed(number)
    @given(strategy)
    def holds(drawn: Any) -> None:
        nonlocal calls, last, names
        calls += 1
        last = drawn
        if repr(drawn) in left_out:
            return
        found, names = _judged(_Call(drawn.prim, list(drawn.arrays), drawn.params))
        if found:
            raise _Found

    for _ in range(_RETRIES):
        calls = 0
        try:
            with mutant.plant():
                holds()
        except _Found:
            if not _judged(_Call(last.prim, list(last.arrays), last.params))[0]:
                return Kill(True, mutant.op in names, calls, time.perf_counter() - began)
            left_out.add(repr(last))
        else:
            break
    return Kill(False, False, calls, time.perf_counter() - began)


_RETRIES = 5  # of a property test whose finding was not about the mutant


# ------------------------------------------------------------------------------------------------ one primitive


def try_all(name: str, *, tries: int = 20, operators: Sequence[str] | None = None, seed: int = 0) -> list[Trial]:
    """Plant every mutant of a primitive, and try all channels on it.

    Parameters
    ----------
    name : str
        A differentiable primitive.
    tries : int
        The most calls of the property test and of the channels with plain random numbers.
    operators : sequence of str, optional
        Only these, as in `gtape.verify.programs.operators.OPERATORS`.
    seed : int
        Of the random numbers.

    Returns
    -------
    list of Trial

    Examples
    --------
    >>> found = try_all("sinh", tries=2, operators=["m2 flip a sign"])
    >>> [(t.text, t.state, t.kills["check"].found, t.kills["check"].named) for t in found]
    [('the rule times -1', 'applicable', True, True)]
    """
    prim = REGISTRY[name]
    with warnings.catch_warnings(), quietly(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return _try_all(prim, tries, operators, seed)


def _try_all(prim: Primitive, tries: int, operators: Sequence[str] | None, seed: int) -> list[Trial]:
    from gtape.verify.search.calls import arguments  # loads Hypothesis

    chosen = _chosen(prim, seed)
    rng = _random(f"plain {prim.name}", seed)
    plain = [c for c in (_plain(prim, rng) for _ in range(tries)) if c is not None]
    reference = _Reference(_grids(prim, chosen))
    strategy = arguments(prim, steep=True)
    by_check = _Channel(prim.name, _judged)
    channels = {
        "check": (by_check, chosen),
        "flag": (_Channel(prim.name, _flagged), chosen),
        "plain": (by_check, plain),
        "differences": (_Channel(prim.name, _by_differences), plain[:5]),
    }
    forward = _Channel(prim.name, _flagged_forward)
    found = []
    for mutant in mutants_of(prim):
        if operators is not None and mutant.operator not in operators:
            continue
        if mutant.operator == FORWARD:
            kills = {
                "check": by_check.kill(mutant, chosen), "flag": forward.kill(mutant, chosen),
                "property": _by_property(strategy, mutant, tries, seed), "plain": by_check.kill(mutant, plain),
                "differences": Kill(None),
            }  # fmt: skip
            found.append(Trial(*mutant[:4], "applicable", kills))
            continue
        with mutant.plant():
            apart = 1e-15 if mutant.operator == SMALL else _APART
            state = reference.state(apart, at_kinks="at a kink" in mutant.operator)
        kills = {}
        if state == "applicable":
            kills = {name: channel.kill(mutant, calls) for name, (channel, calls) in channels.items()}
            kills["property"] = _by_property(strategy, mutant, tries, seed)
        found.append(Trial(*mutant[:4], state, kills))
    return found


def _grids(prim: Primitive, chosen: list[_Call]) -> list[_Call]:
    """The calls where derivatives are compared: those of the checks, an elementwise op's in a few large ones."""
    if prim.kind != "elementwise":
        return chosen
    found = chosen[:3]
    groups: dict[str, list[_Call]] = {}
    for c in chosen:
        groups.setdefault(repr(c.params), []).append(c)
    for group in groups.values():
        arrays = [np.concatenate([c.arrays[i] for c in group]) for i in range(prim.arity)]
        found.append(_Call(prim, arrays, group[0].params))
    return found
