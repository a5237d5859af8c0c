"""The bound of the problem itself: how far the exact derivative moves when the inputs move by half a unit.

The rules run once more on jets: the inputs carry a random half unit as their tangent, and the tangent of the replayed
gradient is its first-order move. No op rounds in between, so this bound depends on the function alone, whereas the
global bound (`noise`) also depends on how the program computes the function. Kinks and ties stay on their recorded
side, because a jet moves no value.

The inputs are the sources, and the numbers with many digits in arrays of constants. Other constants are exact numbers
of the formula: scalars, such as the 1 in ``1 - cos(x)``, arrays of equal numbers, and in other arrays the whole numbers
and those with few digits, such as 0.5. The unit is that of the dtype in which the program reads an input, which may be
coarser than the dtype of the input itself: a master weight in float32 that every op reads as float16 moves by half a
unit of float16.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from flint import acb, arb, ctx

from gtape.base.deadline import tick
from gtape.engine.rules import PartialOutputs
from gtape.engine.worlds import COMPLEX
from gtape.symbolic.balls import filled, objects, radius, to_float
from gtape.symbolic.jets import Jet
from gtape.symbolic.program import Node, Program
from gtape.verify.bounds.noise import SPREADS
from gtape.verify.bounds.noise_world import MovedWorld, NoiseWorld
from gtape.verify.oracles.backward import backward, by_rule, gradient, kept_off
from gtape.verify.oracles.enclosures import BALLS, is_floating, jet_world, zeros
from gtape.verify.oracles.oracle import Oracle, TooDeep
from gtape.verify.oracles.replay import InEnclosures, Shared, is_step
from gtape.verify.verdicts.ulp import digits_of, longer_than, spacing

__all__ = [
    "MOVES",
    "NO_JETS",
    "half_unit_move",
    "half_unit_moves",
    "half_units",
    "moved_element",
    "moved_element_in_floats",
    "moved_gradient",
    "moved_inputs",
    "moved_tangent",
    "moved_through_body",
    "moved_values",
    "moved_values_of",
    "moves",
    "moves_in_floats",
    "moves_of_decimals",
    "nearby",
    "nearby_alone",
    "reach",
]

# The numbers of random moves of many inputs: more moves follow if needed, because all of a few moves may cancel by
# chance. The first move uses floats, which are quicker than jets for arrays.
MOVES = (1, 2, 6)
# A rule may pass on an argument without a derivative, such as the order of a zeta function.
NO_JETS = (NotImplementedError, TypeError)
_SMALL = 2.0**-64  # the size of moves, relative to others, that do not matter
_MOST_BITS = 3200
_FEW = 4  # up to this many numbers move one by one, and their moves add up


def moves(
    program: Program,
    run: Callable[[dict[int, Any], int], list[Any]],
    count: int,
    apart: Callable[[list[tuple[list[int], int, float]]], list[list[Any]] | None] | None = None,
) -> list[Any] | None:
    """Sixteen times the move of each result, as arrays of floats; None if an op has no jets.

    Parameters
    ----------
    program : Program
    run : callable
        Takes node -> its half units, as an object array, and the number of the move among all moves of this program;
        returns the tangents of the results.
    count : int
        The number of random moves, one of `MOVES`; for few numbers, moves beyond the first ones add nothing.
    apart : callable, optional
        Takes real numbers that move one after another, each as its nodes, its place in them, and its half unit; returns
        what `run` returns for each, or None.
    """
    units = _half_units(program)
    alone = sum(np.count_nonzero(u) for _, u in units) <= _FEW
    if alone and count > MOVES[1]:
        return []  # earlier calls have moved every number
    runs: list[list[Any]] = (alone and apart is not None and apart(_numbers(units))) or []
    for number, start in enumerate([] if runs else _one_by_one(units) if alone else _at_random(units, count)):
        try:
            runs.append(run(start, number))
        except (ArithmeticError, TooDeep):
            continue
        except NO_JETS:
            return None
    found: list[Any] = []
    for made in zip(*runs, strict=True):
        parts = [objects(t) for t in made if t is not None]
        if not parts:
            found.append(None)
            continue
        if alone and not parts[0].ndim:
            single = [abs(complex(t[()]) if isinstance(t[()], acb) else float(t[()])) for t in parts]
            single = [size if size == size else 0.0 for size in _sharp(np.array(single), np.stack(parts)).tolist()]
            found.append(SPREADS * np.float64(sum(single)))
            continue
        sizes = _sharp(np.abs(to_float(np.stack(parts))), np.stack(parts))
        joined = np.add.reduce(sizes) if alone else np.fmax.reduce(sizes)
        found.append(SPREADS * np.where(np.isnan(joined), 0.0, joined))
    return found


def _sharp(sizes: Any, balls: Any) -> Any:
    """Sizes of enclosures, but the least size of an enclosure that tells hardly a digit.

    Raises
    ------
    ArithmeticError
        If such an enclosure may hold a number as large as others, and more bits may tell.
    """
    wide = radius(balls)
    vague = wide > sizes / 16
    if not vague.any():
        return sizes
    usual = float(np.max(sizes, initial=0.0, where=~vague & np.isfinite(sizes)))
    if ctx.prec < _MOST_BITS and bool((vague & (wide > _SMALL * usual)).any()):
        raise ArithmeticError("the moves of the derivative are not known well enough")
    return np.where(vague, np.maximum(sizes - wide, 0.0), sizes)


def moves_of_decimals(program: Program, run: Callable[[dict[int, Any], int], list[Any]]) -> list[Any]:
    """As `moves`, for the single numbers among the constants of a program that are rounded decimals, such as 0.1."""
    units = _decimals(program)
    found: list[Any] = []
    for number, start in enumerate(_at_random(units, MOVES[-1]) if units else ()):
        try:
            made = run(start, MOVES[-1] + number)
        except (ArithmeticError, TooDeep, *NO_JETS):
            return []
        sizes = [None if t is None else np.nan_to_num(np.abs(to_float(objects(t))), nan=0.0) for t in made]
        found = found or [None] * len(sizes)
        found = [
            size if f is None else f if size is None else np.maximum(f, size)
            for f, size in zip(found, sizes, strict=True)
        ]
    return [None if f is None else SPREADS * f for f in found]


def moved_element(oracle: Oracle, source: int, place: tuple[int, ...]) -> float:
    """Sixteen times the standard deviation of one element of the gradient under random half units in the sources.

    Random moves of many inputs may all miss an element by chance. One move of this source element gives a row of the
    Hessian. The row also says how this element of the gradient moves with each source element, because a Hessian is
    symmetric.

    Parameters
    ----------
    oracle : Oracle
        After its replay.
    source : int
    place : tuple of int
    """
    program = oracle.program
    one = np.zeros(program.nodes[program.sources[source][0]].shape)
    one[place] = 1.0
    try:
        column = moved_gradient(oracle, dict.fromkeys(program.sources[source], _balls(one)))
    except (ArithmeticError, TooDeep, *NO_JETS):
        return 0.0
    squares, readers = 0.0, _readers(program)
    for nodes, t in zip(program.sources, column, strict=True):
        if t is not None:
            half = _half_unit(program.nodes[nodes[0]], _read_as(program, nodes, readers))
            squares += float(np.sum(np.abs(to_float(objects(t)) * half) ** 2))
    return SPREADS * math.sqrt(squares) if math.isfinite(squares) else 0.0


def moved_element_in_floats(
    program: Program, run: Callable[[NoiseWorld], list[Any]], source: int, place: tuple[int, ...]
) -> float:
    """As `moved_element`, by runs in float64 as those of `moves_in_floats`, for programs with many numbers.

    Parameters
    ----------
    program : Program
    run : callable
        Computes the gradient in a world.
    source : int
    place : tuple of int
    """
    readers = _readers(program)
    halves: list[Any] = [
        None if not nodes else _half_unit(program.nodes[nodes[0]], _read_as(program, nodes, readers))
        for nodes in program.sources
    ]
    move = np.zeros(np.shape(halves[source]))
    move[place] = size = _LOUDER * halves[source][place]
    if not size:
        return 0.0
    squares = 0.0
    with np.errstate(all="ignore"):
        base, (moved,) = _runs(run, [dict.fromkeys(program.sources[source], move)])
        for s, (half, b) in enumerate(zip(halves, base, strict=True)):
            if half is not None and b is not None:
                (far,) = _clear(b, [(moved.far[s], moved.near[s], [r[s] for r in moved.small])])
                squares += float(np.sum((far / size * half) ** 2))
    return SPREADS * math.sqrt(squares) if math.isfinite(squares) else 0.0


def half_unit_moves(program: Program, count: int) -> Iterator[dict[int, Any]]:
    """Random moves of all inputs by half a unit each, as node -> move."""
    return _at_random(_half_units(program), count)


def half_units(program: Program) -> dict[int, Any]:
    """Half the unit of each number that moves, as node of an input -> array; 0 for numbers that stay."""
    return {i: half for group, half in _half_units(program) for i in group}


def half_unit_move(program: Program, signs: Callable[[list[int], Any], Any]) -> dict[int, Any]:
    """A move of all inputs, and of the decimal numbers among the constants, by half a unit each, as node -> move.

    Parameters
    ----------
    program : Program
    signs : callable
        Takes the nodes of an input and its half units, and returns the sign of the move of each number.
    """
    start: dict[int, Any] = {}
    for group, half in [*_half_units(program), *_decimals(program)]:
        move = _balls(half * signs(group, half))
        for i in group:
            start[i] = move if i not in start else objects(start[i] + move)
    return start


def nearby(oracle: Oracle, derivative: Callable[[Oracle], list[Any]], count: int, many: float) -> list[Any]:
    """The exact derivative at the inputs, and at inputs moved by up to `many` half units, as arrays of floats with an
    axis of moves in front. Decisions and step functions stay.

    First-order moves may be larger than all values of a function nearby, as for sin(1e20 * x), or miss that a chaotic
    program forgets its start, but not the decisions of its way.

    Parameters
    ----------
    oracle : Oracle
        With the exact values of all nodes.
    derivative : callable
        Oracle with the values of all nodes -> the exact derivative, as a list of object arrays or None.
    count : int
        The number of random moves.
    many : float
        The growth of independent roundings of all ops; every other move is as many half units long.

    Returns
    -------
    list
        None for a missing result; empty if the derivative is open at the inputs themselves.
    """
    rng = np.random.default_rng(13)
    starts = (
        (("nearby", k, many), _times(start, float(rng.uniform(0.25, 1.0)) * (many if k % 2 else 1.0)))
        for k, start in enumerate(_at_random(_half_units(oracle.program), count))
    )
    try:
        found = [_rounded(derivative(oracle))]
    except ArithmeticError:
        return []
    found += _at(oracle, derivative, starts)
    return [None if any(g is None for g in gs) else np.stack(gs) for gs in zip(*found, strict=True)]


def nearby_alone(
    oracle: Oracle, derivative: Callable[[Oracle], list[Any]], source: int, place: tuple[int, ...], many: float
) -> list[list[Any]]:
    """The exact derivative where one number of a source moves alone by up to `many` half units, up and down.

    Random moves of many inputs may miss what one input does: the largest of many inputs alone decides about logsumexp.

    Parameters
    ----------
    oracle, derivative, many
        As for `nearby`.
    source : int
    place : tuple of int
        The number that moves.

    Returns
    -------
    list of lists
        One derivative for each move, as arrays of floats or None.
    """
    nodes = oracle.program.sources[source]
    half = half_units(oracle.program)[nodes[0]]
    one = np.zeros_like(half)
    one[place] = half[place]
    move = dict.fromkeys(nodes, _balls(one))
    parts = [sign * part for part in (many, many / 2, 1.0) for sign in (1.0, -1.0)]
    return _at(oracle, derivative, ((("alone", source, place, part), _times(move, part)) for part in parts))


def _times(start: dict[int, Any], part: float) -> dict[int, Any]:
    return {i: arb(part) * move for i, move in start.items()}


def _at(
    oracle: Oracle, derivative: Callable[[Oracle], list[Any]], starts: Iterable[tuple[Any, dict[int, Any]]]
) -> list[list[Any]]:
    """The exact derivatives where inputs move, for moves that rows share by their names; none of undefined ones."""
    shared, found = oracle.shared or Shared(), list[list[Any]]()
    for name, start in starts:

        def values(start: dict[int, Any] = start) -> dict[int, Any]:
            return moved_values_of(oracle, start).env

        try:
            again = oracle.anew()
            again.env = dict(shared.get_some(name, values, oracle.program.size))
            found.append(_rounded(derivative(again)))
        except ArithmeticError:
            continue
    return found


def moved_inputs(program: Program, count: int) -> Iterator[dict[int, Any]]:
    """Random moves of the inputs by half a unit, each as node -> move."""
    yield from _at_random(_half_units(program), count)


def moved_values_of(oracle: Oracle, start: dict[int, Any], arguments: dict[int, list[Any]] | None = None) -> Oracle:
    """An oracle with the exact values of all nodes where some of them move. Decisions and step functions stay.

    Parameters
    ----------
    oracle : Oracle
        With the exact values of all nodes.
    start : dict
        Node -> its move.
    arguments : dict, optional
        Node -> the arguments that this op reads in place of the values of its inputs.

    Raises
    ------
    ArithmeticError
        If an op has no value there.
    """
    again = oracle.anew()
    again.read.update(arguments or {})
    for node in oracle.program.nodes:
        tick()
        i, here = node.index, oracle.env
        if i in again.read:
            again.env[i] = node.apply(BALLS, again.read[i])
        else:
            still = all(again.env[j] is here[j] for j in (*node.inputs, *node.body))
            fixed = still or is_step(node) or (node.kind == "op" and not is_floating(node.output))
            again.env[i] = here[i] if fixed else again.program.step(BALLS, node, again.env)
        if i in start:
            again.env[i] = objects(again.env[i] + start[i])
    return again


def _rounded(derivative: list[Any]) -> list[Any]:
    return [None if g is None else to_float(objects(g)) for g in derivative]


def reach(nearby: Any, up: Any) -> Any:
    """How far the numbers that a function takes nearby reach from the one at the inputs, the first along the first
    axis: upwards, or downwards.

    A few moves miss the least and the largest number, so that half of the span counts on each side, too. The
    derivatives of a chaotic map, which are products of many factors, and those beside a pole differ by powers of ten at
    inputs beside one another, and a few of them miss the largest numbers by far. The ratio of their largest sizes tells
    how much larger others are. The sizes of bounded numbers crowd at the bound, so that this ratio tells nothing more.

    Parameters
    ----------
    nearby : float or complex array
    up : bool array
        Whether to look upwards; complex numbers have one reach in all directions.
    """
    with np.errstate(all="ignore"):
        here, sizes = nearby[0], np.sort(np.where(np.isnan(nearby), 0.0, np.abs(nearby)), axis=0)
        largest = sizes[-1]
        ratio = np.clip(largest / sizes[-min(_UPPER, len(sizes))] / _CROWDED, 1.0, _WIDEST)
        tail = np.where(largest > 0, largest * ratio**_POWER, 0.0)
        tail = np.where(np.isfinite(tail), tail, largest)
        if nearby.dtype.kind == "c":
            return np.maximum(np.fmax.reduce(np.abs(nearby - here)), tail)
        low, high = np.fmin.reduce(nearby), np.fmax.reduce(nearby)
        spare = (high - low) / 2
        above = np.maximum(high + spare, np.where(high > 0, tail, high))
        below = np.minimum(low - spare, np.where(low < 0, -tail, low))
        found = np.where(up, above - here, here - below)
        return np.where(np.isnan(found), np.inf, found)


_UPPER = 4  # the place, among the largest sizes, of the one that the largest is compared with
_CROWDED = 2.0  # the ratio of both that bounded numbers have by chance
_POWER, _WIDEST = 6.0, 100.0  # a larger ratio tells no more


def moves_in_floats(program: Program, run: Callable[[NoiseWorld], list[Any]], count: int = MOVES[-1]) -> list[Any]:
    """The same bound by runs in float64 at moved inputs, for programs with many numbers, because jets are slow there.

    The inputs move by many half units, because the roundings of the runs themselves must not show. Results count where
    an eighth of the move has an eighth of the effect, and where the effect is far above that of small moves, which is
    mostly rounding if float64 has too few digits. Elsewhere a kink was crossed, or roundings hide the effect.

    Parameters
    ----------
    program : Program
    run : callable
        Computes in a world and returns a list of arrays or None.
    count : int
        One of `MOVES`: few or many random moves.
    """
    units = _half_units(program)
    rng = np.random.default_rng((17, count))
    moves: list[dict[int, Any]] = []
    for _ in range(_FLOAT_MOVES[count]):
        steps: dict[int, Any] = {}
        for group, half in units:
            step = _LOUDER * half * rng.choice([-1.0, 1.0], np.shape(half))
            steps.update(dict.fromkeys(group, step))
        moves.append(steps)
    with np.errstate(all="ignore"):
        base, made = _runs_at_once(run, moves, count) if _is_scalar(program) else _runs(run, moves, count)
        found: list[Any] = [None if b is None else np.zeros(np.shape(b)) for b in base]
        for s, b in enumerate(base):
            if b is not None:
                for size in _clear(b, [(far[s], near[s], [r[s] for r in small]) for far, near, small in made]):
                    found[s] = np.maximum(found[s], size)
    return [None if t is None else SPREADS / _LOUDER * t for t in found]


class _Moved(NamedTuple):
    """The results at inputs that moved, that moved by the part `_PART`, and that moved by smaller parts."""

    far: Any
    near: Any
    small: list[Any]


def _clear(base: Any, made: list[Any]) -> Iterator[Any]:
    """How far each move carries numbers, where its part `_PART` carries them by this part; 0 elsewhere, and where
    small moves carry them nearly as far.

    Parameters
    ----------
    base : array
        The numbers without a move.
    made : list of (far, near, small)
        As in `_Moved`, for these numbers.
    """
    # The median, because a few of many small moves may cross a kink.
    rounding = np.median([np.abs(x - base) for _, _, small in made for x in small], axis=0)
    for far, near, _ in made:
        size = np.abs(far - base)
        follows = np.abs((far - base) - (near - base) / _PART) <= size / 2
        yield np.where(np.isfinite(size) & follows & (rounding <= size * _PART), size, 0.0)


def _runs(
    run: Callable[[NoiseWorld], list[Any]], moves: list[dict[int, Any]], count: int | None = None
) -> tuple[list[Any], list[_Moved]]:
    """The results without a move, and for each move with the whole of it and with parts of it.

    Moves that rows share are told apart by `count`, from which they are drawn, by their number and by their part; rows
    share no moves without a `count`.
    """

    def moved(k: int, part: float) -> list[Any]:
        name = None if count is None else ("moved", count, k, part)
        return run(MovedWorld({i: step * part for i, step in moves[k].items()}, name))

    base = run(MovedWorld({}, ("without a move",)))
    return base, [
        _Moved(moved(k, 1.0), moved(k, _PART), [moved(k, p) for p in _SMALL_PARTS[k % len(_SMALL_PARTS)]])
        for k in range(len(moves))
    ]


def _runs_at_once(
    run: Callable[[NoiseWorld], list[Any]], moves: list[dict[int, Any]], count: int
) -> tuple[list[Any], list[_Moved]]:
    """As `_runs`, for a program of scalars: one run with the moves along an axis."""
    whole = (1.0, _PART, *_ALL_SMALL_PARTS)
    together = {i: np.array([0.0, *[f * steps[i] for steps in moves for f in whole]]) for i in moves[0]}
    made = run(MovedWorld(together, ("moved at once", count)))
    base, *rest = [[None if t is None else t[k] for t in made] for k in range(len(whole) * len(moves) + 1)]
    some = [rest[k : k + len(whole)] for k in range(0, len(rest), len(whole))]
    return base, [_Moved(far, near, small) for far, near, *small in some]


def _is_scalar(program: Program) -> bool:
    """Whether all nodes of a program are real scalars, and all ops work on each element alone."""
    for n in program.nodes:
        if n.kind not in ("leaf", "const", "op") or isinstance(n.output, tuple):
            return False
        y = np.asarray(n.output)
        if y.ndim or y.dtype.kind != "f":
            return False
        if n.prim is not None and n.prim.kind != "elementwise" and not _is_elementwise(n, program):
            return False
    return True


def _is_elementwise(n: Node, program: Program) -> bool:
    """Whether an op of scalars, and its rule, work on each element of arrays alone, too, such as a copy."""
    scalars = [np.asarray(program.nodes[j].output) for j in n.inputs]
    xs, y = [np.repeat(x, 2) for x in scalars], np.repeat(n.output, 2)
    try:
        if not np.array_equal(n.prim.kernel(*xs, **n.params), y):
            return False
        alone = by_rule(COMPLEX, n, y[0], y[0], [x[0] for x in xs], scalars)
        # With the shapes of the runs, and with those that were recorded, because some runs keep these.
        made = [by_rule(COMPLEX, n, y, y, xs, like) for like in (xs, scalars)]
    except Exception:  # an op that takes no arrays of this shape
        return False
    pairs = [(c, d) for cs in made for c, d in zip(cs, alone, strict=True)]
    return all(d is None if c is None else np.array_equal(c, np.repeat(d, 2)) for c, d in pairs)


_FLOAT_MOVES = dict(zip(MOVES, (2, 4, 16), strict=True))
_LOUDER, _PART = 2.0**10, 2.0**-3
# The small parts of the first move, of the second, and so on, which tell the rounding of a run; every other move has
# none, because each part is a run. Where all moves are one run, each move has all small parts.
_SMALL_PARTS = ((-(2.0**-6),), (), (2.0**-5,), ())
_ALL_SMALL_PARTS = tuple(sign * 2.0**-k for k in (4, 5, 6, 7) for sign in (1.0, -1.0))
_SHORT = 16  # a number with at most so many significant bits was meant as it is
_REMAINS = 8.0  # sums of numbers that cancel leave numbers of a unit of these, give or take this factor


def _half_units(program: Program) -> list[tuple[list[int], Any]]:
    """The nodes of each input with half the unit of each of its numbers."""
    found = []
    readers = _readers(program)
    for group in program.sources:
        for i in group[:1]:
            node = program.nodes[i]
            if not isinstance(node.output, tuple) and is_floating(node.output):
                found.append((group, _half_unit(node, _read_as(program, group, readers))))
    for group in _constants(program):
        node = program.nodes[group[0]]
        value = np.asarray(node.output)
        if value.size > 1 and is_floating(value) and (value != value.flat[0]).any():
            half = _half_unit(node, _read_as(program, group, readers))
            found.append((group, np.where(_are_rounded(value), half, 0.0)))
    return found


def _are_rounded(x: Any) -> Any:
    """The mask of the numbers of an array that are probably rounded: those with many digits, except whole numbers.

    The other numbers are exact, such as a column of ones beside measured values. Only beside what roundings left of a
    0, as in the cosines of a Fourier matrix, all numbers but 0 are rounded.
    """
    if x.dtype.kind == "c":
        return _are_rounded(x.real) | _are_rounded(x.imag)
    rounded = longer_than(x, min(_SHORT, digits_of(x.dtype) // 2)) & (x != np.rint(x))
    sizes = np.abs(x, dtype=np.float64)
    largest = np.max(sizes, initial=0.0, where=np.isfinite(x))
    for dtype in (x.dtype, np.dtype(np.float64)):  # NumPy computes tables in float64
        unit = spacing(largest, dtype)
        if (rounded & (sizes <= _REMAINS * unit) & (sizes * _REMAINS >= unit)).any():
            return x != 0
    return rounded


def _decimals(program: Program) -> list[tuple[list[int], Any]]:
    """As `_half_units`, for constants of one number whose digits go on to the last place."""
    found = []
    for group in _constants(program):
        node = program.nodes[group[0]]
        value = np.asarray(node.output)
        if not any(program.nodes[i].kind == "const" for i in group):
            continue
        if value.dtype.kind == "f" and value.size and (value == value.flat[0]).all():
            number = float(value.flat[0])
            if math.isfinite(number) and number % 1.0 and (math.frexp(number)[0] * 2.0**_SHORT) % 1.0:
                found.append((group, _half_unit(node, value.dtype)))
    return found


def _constants(program: Program) -> list[list[int]]:
    """The nodes of each constant. The rules of an inner gradient read a constant as a leaf of its own."""
    sources = {i for nodes in program.sources for i in nodes}
    groups: dict[int, list[int]] = {}
    for node in program.nodes:
        if node.kind in ("leaf", "const") and node.index not in sources:
            groups.setdefault(id(node.output), []).append(node.index)
    return list(groups.values())


def _readers(program: Program) -> dict[int, list[Node]]:
    """Node -> the ops that read it; empty for programs without conversions."""
    found: dict[int, list[Node]] = {}
    if any(n.prim is not None and "conversion" in n.prim.roles for n in program.nodes):
        for n in program.nodes:
            for j in n.inputs:
                found.setdefault(j, []).append(n)
    return found


def _read_as(program: Program, group: list[int], readers: dict[int, list[Node]]) -> Any:
    """The finest dtype in which ops other than conversions read some nodes of one dtype; at most this dtype."""
    own = np.asarray(program.nodes[group[0]].output).dtype
    if not readers:
        return own
    found, pending = [], list(group)
    while pending:
        i = pending.pop()
        for n in readers.get(i, []):
            roles = () if n.prim is None else n.prim.roles
            if "read" in roles or ("conversion" in roles and is_floating(n.output)):
                pending.append(n.index)
            else:
                found.append(np.asarray(program.nodes[i].output).dtype)
        if i in program.outputs:
            found.append(np.asarray(program.nodes[i].output).dtype)
    finest = max(found, key=digits_of, default=own)
    return finest if digits_of(finest) < digits_of(own) else own


def _half_unit(node: Node, dtype: Any) -> Any:
    """Half the unit of each number of a node, in a dtype; 0 for infinities and NaN."""
    value = np.asarray(node.output)
    half = spacing(value, dtype) / 2
    if value.dtype.kind == "c":
        half = half.astype(np.complex128)
    elif not value.ndim:
        return half if math.isfinite(value) else np.float64(0.0)
    finite = np.isfinite(value)
    return half if finite.all() else np.where(finite, half, 0.0)


def _at_random(units: list[tuple[list[int], Any]], count: int) -> Iterator[dict[int, Any]]:
    rng = np.random.default_rng(11)
    for _ in range(count):
        start: dict[int, Any] = {}
        for group, half in units:
            signs = [-1.0, 1.0] if half.dtype.kind == "f" else [-1.0, 1.0, -1j, 1j]
            move = _balls(half * rng.choice(signs, np.shape(half)))
            for i in group:
                start[i] = move if i not in start else objects(start[i] + move)
        yield start


def _numbers(units: list[tuple[list[int], Any]]) -> list[tuple[list[int], int, float]]:
    """The numbers that move, each as its nodes, its place in them, and its half unit."""
    return [(group, k, part) for group, half in units for k, part in enumerate(half.ravel().tolist()) if part]


def _one_by_one(units: list[tuple[list[int], Any]]) -> Iterator[dict[int, Any]]:
    for group, half in units:
        real = half.dtype.kind == "f"
        kind, zero = (arb, arb(0)) if real else (acb, acb(0))
        parts = half.ravel().tolist()
        for k, part in enumerate(parts):
            for sign in (1.0,) if real else (1.0, 1j):
                if part:
                    one = [zero] * len(parts)
                    one[k] = kind(sign * part)
                    yield dict.fromkeys(group, filled(one, half.shape))


def _balls(x: Any) -> Any:
    return objects(np.frompyfunc(acb if x.dtype.kind == "c" else arb, 1, 1)(np.asarray(x).astype(object)))


def moved_gradient(oracle: Oracle, start: dict[int, Any], number: int | None = None) -> list[Any]:
    """The first-order move of the replayed gradient when inputs move; None where unconnected.

    Parameters
    ----------
    oracle : Oracle
        After its replay.
    start : dict
        Node -> its move.
    number : int, optional
        The number of the move among those that all rows of a derivative share.
    """
    world = jet_world(1)
    made = gradient(oracle.program, oracle.seeds, _Moving(oracle, moved_values(oracle, start, number)))
    return [None if g is None else world.component(objects(g), 1) for g in made]


def moved_values(oracle: Oracle, start: dict[int, Any], number: int | None = None) -> dict[int, Any]:
    """The values of all nodes as jets along the move of inputs, for `moved_gradient`."""

    def run() -> dict[int, Any]:
        return oracle.jets(1, {i: [m] for i, m in start.items()}, range(len(oracle.program.nodes)), free=0)

    shared = None if number is None else oracle.shared
    found: dict[int, Any] = run() if shared is None else shared.get(("move", number), run)
    return found


def moved_tangent(oracle: Oracle, start: dict[int, Any], directions: dict[int, list[Any]], only: list[int]) -> Any:
    """The first-order move of the tangent of a program's only output when inputs move.

    Parameters
    ----------
    oracle : Oracle
        With the exact values of all nodes.
    start : dict
        Node -> its move.
    directions : dict
        Node -> its tangent, in a list.
    only : list of int
        The nodes that the output depends on.
    """
    program = oracle.program
    tangents = {i: [*directions.get(i, [None]), start.get(i)] for i in {*directions, *start}}
    env = oracle.jets(2, tangents, only, None, (program.session, None), free=1)
    return objects(jet_world(2).component(env[program.outputs[0]], 3))


def moved_through_body(oracle: Oracle, node: Node, g: Any, start: dict[int, Any]) -> dict[int, Any]:
    """The first-order move of the cotangents of a custom gradient's inputs, by the rules of its body, when these move.

    Parameters
    ----------
    oracle : Oracle
        With the exact values of all nodes.
    node : Node
        Of kind "custom".
    g : cotangent of its outputs
        It does not move.
    start : dict
        Input -> its move.
    """
    program, world = oracle.program, jet_world(1)
    given = {j: world.jet(oracle.env[j], u) for j, u in start.items()}
    moving = {**oracle.env, **oracle.jets(1, {}, program.ancestors(node.body), given)}
    algebra, cotangents = _MovingToInputs(oracle, moving, frozenset(node.inputs)), dict[int, Any]()
    for k, c in PartialOutputs.of(g).items():
        algebra.arrive(cotangents, node.body[k], np.broadcast_to(objects(c), program.nodes[node.body[k]].shape))
    found = backward(program, cotangents, algebra, None)
    return {j: objects(world.component(objects(found[j]), 1)) for j in node.inputs if j in found}


class _Moving(InEnclosures):
    """The arithmetic of a sweep over jets: the tape's rules; a declared custom gradient does not move."""

    def __init__(self, oracle: Oracle, env: dict[int, Any]) -> None:
        self.oracle, self.env, self.world = oracle, env, jet_world(1)

    def custom(self, node: Node, g: Any) -> list[Any] | None:
        if node.prim.declared is None:
            return None
        known = self.oracle.made.get(node.index)
        return [None] * len(node.active) if known is None else known[1]

    def rule(self, node: Node, g: Any) -> list[Any]:
        y = self.env[node.index]
        g = PartialOutputs.filled(g, y, lambda v: zeros(np.shape(v)))
        xs = [self.env[i] for i in node.inputs]
        like = [self.oracle.program.nodes[i].output for i in node.inputs]
        if node.prim.kind != "elementwise":
            return by_rule(self.world, node, g, y, xs, like)

        def ran(live: Any = None) -> list[Any]:
            return [c if c is None else objects(c) for c in by_rule(self.world, node, g, y, xs, like, live)]

        return kept_off(ran(), objects(g), _finite, arb(0), ran)


class _MovingToInputs(_Moving):
    """As `_Moving`, for a sweep that ends at the inputs `ends` of a custom gradient."""

    def __init__(self, oracle: Oracle, env: dict[int, Any], ends: frozenset[int]) -> None:
        super().__init__(oracle, env)
        self.ends = ends

    def custom(self, node: Node, g: Any) -> list[Any] | None:
        return [None] * len(node.active) if node.index in self.ends else super().custom(node, g)

    def rule(self, node: Node, g: Any) -> list[Any]:
        return [None] * len(node.active) if node.index in self.ends else super().rule(node, g)


def _finite(c: Any) -> Any:
    """The mask of the finite jets."""
    parts = [e.components if isinstance(e, Jet) else (e,) for e in c.ravel().tolist()]
    found = [all(not isinstance(p, (arb, acb)) or p.is_finite() for p in of) for of in parts]
    return np.array(found, dtype=bool).reshape(np.shape(c))
