"""judge: compares claimed numbers for a derivative with the exact ones and explains the differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from flint import arb

from gtape.base.diagnosis import diagnosed
from gtape.base.shown import shown
from gtape.symbolic.balls import objects, precision, to_float
from gtape.symbolic.program import Node, Program
from gtape.tensors.tensor import Tensor
from gtape.verify.judging.comparison import Told, Wrong
from gtape.verify.judging.examine import Gradient, examine
from gtape.verify.judging.judgement import size_of
from gtape.verify.judging.recording import Recording, checked_order, refuse_complex_jacobian
from gtape.verify.oracles.enclosures import BALLS, is_floating
from gtape.verify.oracles.oracle import Oracle
from gtape.verify.oracles.replay import decided_anew, is_step
from gtape.verify.verdicts.ulp import spacing, ulps_between, widest
from gtape.verify.verdicts.verdict import Finding, Report, merged

__all__ = ["judge"]


@diagnosed
def judge(f: Callable[..., Any], args: Any, claimed: Any, order: int = 1) -> Report:
    """Judge claimed numbers for a derivative, from another library or worked out by hand.

    Parameters
    ----------
    f : callable
        The function, written with gtape.
    args : tuple or single argument
        The point.
    claimed : array, or tuple of arrays
        The claimed derivative, in the structure that `exact` returns; at order 1, None claims that an argument is
        unconnected.
    order : {1, 2, 3}

    Returns
    -------
    Report

    Raises
    ------
    ValueError
        If `claimed` has another structure or shape.

    Examples
    --------
    >>> import gtape
    >>> gtape.verify.judge(gtape.tanh, 20.0, 0.0).verdict
    'unstable'
    """
    arguments = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    recording = Recording(f, arguments, checked_order(order))
    refuse_complex_jacobian(recording, order)
    shapes = [t._layout.shape for t in recording.inputs]
    blocks = _blocks(claimed, shapes, order, "claimed")
    report = Report()
    seen: set[Any] = set()
    n = len(shapes)
    for place, program, seeds, _ in recording.programs():
        if order == 1:
            row = [None if b is None else np.asarray(b) for b in blocks]
        else:
            i, index = place
            seen.add(place)
            row = [np.asarray(blocks[i * n + k][index]) for k in range(n)]
        row = [_in_dtype(r, t) for r, t in zip(row, recording.inputs, strict=True)]
        one = examine(program, seeds, row, locally=False, judgement_of=Claim)
        recording.place(one, place)
        report.extend(one)
    if order > 1:
        _judge_rest(recording, blocks, seen, n, order, report)
    return report


def _judge_rest(recording: Recording, blocks: list[Any], seen: set[Any], n: int, order: int, report: Report) -> None:
    """Judge the rows that are identically zero: every claimed number must be zero there."""
    for i in range(len(blocks) // n):
        for index in np.ndindex(*recording.shape_of_level(i)):
            if (i, index) in seen:
                continue
            for k in range(n):
                row = np.asarray(blocks[i * n + k][index], dtype=np.float64)
                report.checked += row.size
                wrong = row[(row != 0) | np.isnan(row)]
                if wrong.size:
                    worst = float(wrong[int(np.argmax(np.abs(wrong)))])
                    ulps = float(ulps_between(worst, 0.0, 0.0, recording.inputs[k]._layout.dtype))
                    report.max_ulp = max(report.max_ulp, ulps)
                    reason = "this derivative is identically zero"
                    found = Finding("rule", order=order, element=(k, index), got=worst, exact="0", ulps=ulps,
                                    reason=reason, count=wrong.size)  # fmt: skip
                    report.findings = merged([*report.findings, found])


def _in_dtype(row: Any, t: Tensor) -> Any:
    if row is None:
        return None
    return row.astype(t._layout.dtype) if row.dtype != t._layout.dtype and row.dtype.kind in "iufb" else row


def _blocks(
    claimed: Any, shapes: list[tuple[int, ...]], order: int, where: str, outer: tuple[int, ...] = ()
) -> list[Any]:
    n = len(shapes)
    parts: list[Any]
    if n > 1:
        if not isinstance(claimed, (tuple, list)) or len(claimed) != n:
            raise ValueError(f"{where}: expected a tuple of {n}, one for each argument, got {_describe(claimed)}")
        parts = list(claimed)
    else:
        parts = [claimed]
    made = []
    for k, (part, s) in enumerate(zip(parts, shapes, strict=True)):
        name = f"{where}[{k}]" if n > 1 else where
        if order > 1 and n > 1:
            made += _blocks(part, shapes, order - 1, name, outer + s)
            continue
        shape = outer + s * (order if n == 1 else 1)
        if part is None and order == 1:
            made.append(None)  # claimed as unconnected
            continue
        array = _numbers(part, name)
        if array.shape != shape:
            raise ValueError(f"{name}: expected shape {shape}, got {array.shape}")
        made.append(array)
    return made


def _numbers(part: Any, name: str) -> Any:
    """A claimed part as an array of numbers; accepts decimal strings, because `exact` returns them."""
    array = np.asarray(part._value if isinstance(part, Tensor) else part)
    if array.dtype.kind not in "OUS":
        return array
    try:
        if any(v is None for v in array.ravel().tolist()):
            raise ValueError("None is no number")
        return array.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: numbers are wanted, not {shown(part)}") from None


def _describe(x: Any) -> str:
    if isinstance(x, (tuple, list)):
        return f"a {type(x).__name__} of {len(x)}"
    shape = f" of shape {x.shape}" if getattr(x, "shape", ()) else ""
    return f"a {type(x).__name__}{shape}; one argument that is a list of numbers is given as an array"


class Claim(Gradient):
    """The judgement of numbers that another program computed.

    Roundings of gtape's own program excuse no number for a function of one op, because another library computes that
    function by itself, to its own accuracy.
    """

    def bounds(self, runs: int) -> list[Any] | None:
        return None if self._single() is not None else super().bounds(runs)

    def moved(self, count: int) -> list[Any]:
        return [] if self._elementary() else super().moved(count)

    def moved_element(self, s: int, place: tuple[int, ...]) -> float:
        return 0.0 if self._elementary() else super().moved_element(s, place)

    def size(self) -> float:
        return 0.0 if self._elementary() else super().size()

    def roundings(self) -> int:
        return super().roundings() if self._single() is None else 1

    def _elementary(self) -> bool:
        single = self._single()
        return single is not None and single.prim.kind == "elementwise"

    def _single(self) -> Node | None:
        """The op that computes the whole function; None if several round."""
        targets = [t for n in self.program.nodes if n.mark is not None for t in n.mark.targets]
        inside = [self.program.nodes[i] for i in self.program.ancestors(targets or self.program.outputs)]
        found = [n for n in inside if n.kind == "custom" or (n.kind == "op" and n.prim.rounding.kind != "exact")]
        return found[0] if len(found) == 1 else None

    def wrong(self, wrong: Wrong) -> list[Told]:
        """Each element with a cause of its own: a kink, a value out of range, lost digits or wrong algebra."""
        told, s = [], wrong.source
        infinite = wrong.mask & ~np.isfinite(wrong.got)
        beyond = self.left(s, infinite) if infinite.any() else None
        if beyond is not None:
            (verdict, reason, op, line), left = beyond
            told.append(Told(left, verdict, reason, op, line, ok=False))
            wrong = wrong._replace(mask=wrong.mask & ~left)
        kinks = Kinks(self.program, self.seeds, s)
        places = [tuple(i) for i in np.argwhere(wrong.mask).tolist()]
        sides = kinks.at(places) if wrong.got.dtype.kind == "f" else {}
        scale = _scale(self.program)
        masks: dict[Any, Any] = {}
        for place in places:
            near = sides.get(place, NOTHING)
            got, truth = wrong.got[place].item(), wrong.exact[place].item()
            key = _AT_MANY if near is None else _explained(got, truth, near, wrong.got.dtype, scale)
            mask = masks.setdefault(key, np.zeros(np.shape(wrong.got), np.bool_))
            mask[place] = True
        for (verdict, inside, what), mask in masks.items():
            reason = what
            if verdict == "convention":
                far = np.where(mask, np.nan_to_num(wrong.ulps, nan=np.inf, posinf=1e300), -1.0)
                place = tuple(int(i) for i in np.unravel_index(int(np.argmax(far)), np.shape(wrong.got)))
                reason = what.format(*sides[place], truth=wrong.exact[place].item())
            told.append(Told(mask, verdict, reason, ok=inside, inside=inside, cause=what))
        return told


NOTHING = (0.0, 0.0, False)  # no kink
_AT_MANY = "undecided", None, "the claims at more elements beside kinks than gtape follows one by one stay open"


def _explained(got: Any, truth: Any, near: Any, dtype: Any, scale: float) -> tuple[str, bool | None, str]:
    """Verdict, whether the claim lies inside a kink, and reason, which may name the one-sided derivatives.

    Parameters
    ----------
    near : (float, float, bool)
        The lesser and the greater one-sided derivative, and whether they differ.
    scale : float
        The largest magnitude along the program.
    """
    low, high, apart = near
    if apart:
        inside = low <= got <= high
        where = "inside" if inside else "outside"
        span = "at a kink: the one-sided derivatives span [{0!r}, {1!r}]"
        return "convention", inside, f"{span}, the claimed value lies {where}"
    if near is not NOTHING and np.isfinite(got):
        close = 4.5 * float(spacing(low, dtype))
        if abs(got - low) <= close and abs(truth - low) > 2 * close:
            what = "the derivatives on both sides are the claimed one; by the conventions of the ops it is {truth!r}"
            return "convention", True, f"kinks that cancel: {what}"
    if not np.isfinite(got):
        what = "something overflows, or is divided by zero, inside a finite result"
        return "unstable", None, f"not finite, though the derivative is: {what}"
    if got == 0.0 and truth != 0.0 and abs(truth) <= 2.0**-20 * scale:
        return "unstable", None, "zero, though the derivative is not: its tail is lost by cancellation or underflow"
    if abs(got - truth) <= 2.0**-36 * max(scale, abs(truth)):
        return "unstable", None, "the formula loses digits that the problem does not"
    return "rule", None, "not the derivative of this function: the difference is too large for rounding"


def _scale(program: Program) -> float:
    """The largest magnitude along the program, because errors of cancellation are relative to this number."""
    largest = 1.0
    for node in program.nodes:
        v = np.zeros(1) if isinstance(node.output, tuple) else np.abs(widest(node.output))
        finite = np.abs(v[np.isfinite(v)]) if v.ndim else np.abs(v.reshape(1)[np.isfinite(v.reshape(1))])
        if finite.size:
            largest = max(largest, float(np.max(finite)))
    return largest


class Kinks:
    """The derivatives just left and right of a point, by single elements of one source.

    All elements move at once in four patterns. Where the outcome depends on an element's own side alone, in all
    patterns, no other element matters to it; the others move one by one.
    """

    def __init__(self, program: Program, seeds: list[Any], source: int) -> None:
        self.program, self.seeds, self.source = program, seeds, source

    def at(self, places: list[tuple[int, ...]]) -> dict[tuple[int, ...], Any]:
        """(lesser, greater, whether they differ) for each element with finite sides; None for too many elements.

        A difference that shrinks with the step is the slope of the derivative (x³ at 0), not a jump.
        """
        if not places or not any(_bends(n) for n in self.program.nodes):
            return {}
        near = self._sides(places, 600)
        wide = [p for p, side in near.items() if side is not None and _apart(side)]
        nearer = self._sides(wide, 602)
        found: dict[tuple[int, ...], Any] = {}
        for place, side in near.items():
            if side is None:
                found[place] = None
                continue
            low, high = side
            again = nearer.get(place)
            jumps = place in wide and (again is None or again[1] - again[0] > 0.9 * (high - low))
            if jumps or place not in wide:
                found[place] = (low, high, jumps)
        return found

    def _sides(self, places: list[tuple[int, ...]], step: int) -> dict[tuple[int, ...], Any]:
        if not places:
            return {}
        found: dict[tuple[int, ...], Any] = {}
        rest = places
        if len(places) > 2:
            signs = np.random.default_rng(5).choice([-1, 1], len(places))
            made = [(p, self._moved(dict(zip(places, p.tolist(), strict=True)), step)) for p in _patterns(signs)]
            rest = [p for k, p in enumerate(places) if not self._agree(found, p, k, made)]
        most = max(_FEWEST, _WORK // size_of(self.program))
        for place in rest[:most]:
            both = [self._moved({place: sign}, step) for sign in (-1, 1)]
            if all(b is not None and np.isfinite(b[place]) for b in both):
                low, high = sorted(float(b[place]) for b in both if b is not None)
                found[place] = (low, high)
        found.update(dict.fromkeys(rest[most:]))
        return found

    @staticmethod
    def _agree(found: dict[Any, Any], place: tuple[int, ...], k: int, made: list[Any]) -> bool:
        """Note the sides of an element if they depend on its own move alone."""
        if any(m is None for _, m in made):
            return False
        by_sign = {sign: [float(m[place]) for p, m in made if p[k] == sign] for sign in (-1, 1)}
        for slopes in by_sign.values():
            if not np.isfinite(slopes).all() or max(slopes) - min(slopes) > 1e-12 * max(map(abs, slopes)):
                return False
        found[place] = tuple(sorted(slopes[0] for slopes in by_sign.values()))
        return True

    def _moved(self, signs: dict[tuple[int, ...], int], step: int) -> Any:
        """The derivative where some elements lie 2**-step beside the point; None if it is not decided."""
        program, s = self.program, self.source
        with precision(800):
            oracle = Oracle(program, self.seeds)
            for i in program.sources[s]:
                x = objects(np.array(_lifted(program.nodes[i].output), dtype=object)).copy()
                for place, sign in signs.items():
                    x[place] = x[place] + sign * arb(2) ** -step
                oracle.env[i] = x
            try:
                for node in program.nodes:
                    if node.index not in oracle.env:
                        oracle.env[node.index] = _decided_here(oracle, node)
                made = oracle.replay()[s]
                return None if made is None else to_float(objects(made))
            except ArithmeticError:
                return None


_FEWEST, _WORK = 16, 200_000  # elements that move one by one, and the numbers that their programs may have together


def _patterns(signs: Any) -> list[Any]:
    ones = np.ones_like(signs)
    return [ones, -ones, signs, -signs]


def _apart(side: tuple[float, float]) -> bool:
    low, high = side
    return high - low > 1e-9 * max(abs(low), abs(high))


def _bends(node: Node) -> bool:
    """True if an op may have a kink, a jump or a tie."""
    if node.kind == "custom":
        return True
    decides = not isinstance(node.output, tuple) and not is_floating(node.output) and bool(node.inputs)
    return node.kind == "op" and bool(node.prim.kinks or node.prim.selects or node.prim.roles or decides)


def _decided_here(oracle: Oracle, node: Node) -> Any:
    """The value of a node near the recorded point, where comparisons and indices are decided again."""
    if is_step(node):
        return node.apply(BALLS, [oracle.env[i] for i in node.inputs])
    if node.kind == "op" and not is_floating(node.output) and not isinstance(node.output, tuple):
        return decided_anew(node, [oracle.env[i] for i in node.inputs])
    return oracle.value_of(node, oracle.env)


def _lifted(value: Any) -> Any:
    """A recorded value as enclosures."""
    return BALLS.lift(np.asarray(value))
