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
from gtape.verify.judging.examine import examine
from gtape.verify.judging.recording import Recording, checked_order, refuse_complex_jacobian
from gtape.verify.oracles.enclosures import BALLS, is_floating
from gtape.verify.oracles.oracle import Oracle
from gtape.verify.oracles.replay import decided_anew, is_step
from gtape.verify.verdicts.ulp import spacing, widest
from gtape.verify.verdicts.verdict import Finding, Report

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
    report = Report(findings=recording.undecided())
    if report.findings:
        return report
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
        one = examine(program, seeds, row, locally=False)
        one.findings = [_cause(program, seeds, x, row) for x in one.findings]
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
                if (row != 0).any() or np.isnan(row).any():
                    report.findings.append(
                        Finding(
                            "rule",
                            order=order,
                            element=(k, index),
                            got=float(row.ravel()[int(np.argmax(np.abs(row.ravel())))]),
                            exact="0",
                            reason="this derivative is identically zero",
                        )
                    )


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


def _cause(program: Program, seeds: list[Any], finding: Finding, row: list[Any]) -> Finding:
    """The finding with the cause of a wrong claimed number: wrong algebra, lost digits or another convention."""
    if finding.verdict == "range" and finding.op is not None and finding.got is not None and np.isfinite(finding.got):
        # A value along this program left the range, which explains infinities but no finite wrong number.
        finding.verdict, finding.op, finding.line = "unstable", None, None
    if finding.verdict not in ("unstable", "rule") or finding.element is None or finding.exact is None:
        return finding
    s, index = finding.element
    interval = None if isinstance(finding.got, complex) else _one_sided(program, seeds, s, index)
    if interval is not None:
        low, high = interval
        got = float(finding.got)
        inside = low <= got <= high
        finding.verdict = "convention"
        finding.inside = inside
        finding.ok = inside
        finding.reason = (
            f"at a kink: the one-sided derivatives span [{low!r}, {high!r}], "
            f"the claimed value lies {'inside' if inside else 'outside'}"
        )
        return finding
    got, truth = finding.got, _parsed(finding.exact)
    if _kinks_that_cancel(program, seeds, finding, got, truth):
        finding.verdict, finding.inside, finding.ok = "convention", True, True
        finding.reason = (
            "kinks that cancel: the derivatives on both sides are the claimed one; by the conventions of the ops it is "
            f"{truth!r}"
        )
        return finding
    scale = _scale(program)
    if not np.isfinite(got):
        finding.verdict, finding.reason = (
            "unstable",
            "not finite, though the derivative is: something overflows, or is divided by zero, inside a finite result",
        )
    elif got == 0.0 and truth != 0.0 and abs(truth) <= 2.0**-20 * scale:
        finding.verdict, finding.reason = (
            "unstable",
            "zero, though the derivative is not: its tail is lost by cancellation or underflow",
        )
    elif abs(got - truth) <= 2.0**-36 * max(scale, abs(truth)):
        finding.verdict, finding.reason = "unstable", "the formula loses digits that the problem does not"
    else:
        finding.verdict, finding.reason = (
            "rule",
            "not the derivative of this function: the difference is too large for rounding",
        )
    return finding


def _parsed(text: str) -> Any:
    """The number that `digits` wrote."""
    return complex(*map(float, text.strip("()").replace("j", "").split(","))) if "j" in text else float(text)


def _scale(program: Program) -> float:
    """The largest magnitude along the program, because errors of cancellation are relative to this number."""
    largest = 1.0
    for node in program.nodes:
        v = np.zeros(1) if isinstance(node.output, tuple) else np.abs(widest(node.output))
        finite = np.abs(v[np.isfinite(v)]) if v.ndim else np.abs(v.reshape(1)[np.isfinite(v.reshape(1))])
        if finite.size:
            largest = max(largest, float(np.max(finite)))
    return largest


def _one_sided(program: Program, seeds: list[Any], s: int, index: tuple[int, ...]) -> tuple[float, float] | None:
    """The derivatives just left and right of the point, if they differ.

    A difference that shrinks with the step is the slope of the derivative (x³ at 0), not a jump.
    """
    near = _sides(program, seeds, s, index, 600)
    if near is None or not near[1] - near[0] > 1e-9 * max(abs(near[0]), abs(near[1])):
        return None
    nearer = _sides(program, seeds, s, index, 602)
    return near if nearer is None or nearer[1] - nearer[0] > 0.9 * (near[1] - near[0]) else None


def _kinks_that_cancel(program: Program, seeds: list[Any], finding: Finding, got: Any, truth: Any) -> bool:
    """True if a claimed number is the derivative on both sides, but the conventions of the ops give another number."""
    if isinstance(got, complex) or not np.isfinite(got):
        return False
    s, index = finding.element
    near = _sides(program, seeds, s, index, 600)
    if near is None or not near[1] - near[0] <= 1e-9 * max(abs(near[0]), abs(near[1])):
        return False
    dtype = np.asarray(program.nodes[program.sources[s][0]].output).dtype
    close = 4.5 * spacing(near[0], dtype)
    return bool(abs(got - near[0]) <= close and abs(truth - near[0]) > 2 * close)


def _sides(program: Program, seeds: list[Any], s: int, index: tuple[int, ...], step: int) -> tuple[float, float] | None:
    """The lesser and the greater of the derivatives 2**-step left and right of the point."""
    sides = []
    with precision(800):
        for sign in (-1, 1):
            oracle = Oracle(program, seeds)
            for i in program.sources[s]:
                x = objects(np.array(_lifted(program.nodes[i].output), dtype=object))
                x = x.copy()
                x[index] = x[index] + sign * arb(2) ** -step
                oracle.env[i] = x
            try:
                for node in program.nodes:
                    if node.index not in oracle.env:
                        oracle.env[node.index] = _decided_here(oracle, node)
                made = oracle.replay()[s]
                if made is None:
                    return None
                sides.append(float(to_float(objects(made))[index]))
            except ArithmeticError:
                return None
    return min(sides), max(sides)


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
