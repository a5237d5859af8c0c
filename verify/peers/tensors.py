"""Judges a peer's derivatives of functions of arrays at special inputs by exact ones, and by certificates at kinks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from gtape.verify.judging.api import exact
from gtape.verify.judging.claims import judge
from gtape.verify.peers.arrays import CASES, Case
from gtape.verify.peers.conversation import Conversation, Reply
from gtape.verify.peers.faults import Fault, extreme, mechanism
from gtape.verify.peers.numbers import called, limits

__all__ = ["Truth", "judge_case", "truth"]

_DIGITS = 40
# Verdicts about the problem, or about the arithmetic of the function as a whole, not about its derivative. `domain` is
# left out, because this verdict may be about branches that are not taken.
_EXCUSED = ("undecided", "conditioning", "cancellation", "range")


class Truth(NamedTuple):
    """The exact derivative of a case at one input.

    Attributes
    ----------
    blocks : dict
        Arguments of differentiation -> array of decimal texts.
    kink : bool
        Whether the function has a kink at this input.
    why : str
        Why there is no exact derivative; empty if there is one.
    """

    blocks: dict[tuple[int, ...], Any]
    kink: bool = False
    why: str = ""


@cache
def truth(name: str, number: int, dtype: str, order: int) -> Truth:
    """The exact derivative of a case at one of its inputs, given by number."""
    case = CASES[name]
    args = _arguments(case, number, dtype)
    if args is None:
        return Truth({}, why="the input does not fit into the dtype")
    try:
        with np.errstate(all="ignore"):
            found = exact(case.function, *args, order=order, digits=_DIGITS)
    except ArithmeticError as e:
        return Truth({}, why=str(e))
    blocks: dict[tuple[int, ...], Any] = {}
    if len(args) == 1:
        blocks[(0,) * order] = np.asarray(found)
    elif order == 1:
        blocks = {(i,): np.asarray(b) for i, b in enumerate(found)}
    else:
        blocks = {(i, j): np.asarray(found[i][j]) for i in range(len(args)) for j in range(i, len(args))}
    return Truth(blocks, _kinked(case, args, found, order))


def _arguments(case: Case, number: int, dtype: str) -> tuple[Any, ...] | None:
    """The input in a dtype; None if the conversion would change it much."""
    kept = []
    for a in case.inputs[number]:
        with np.errstate(all="ignore"):
            made = a.astype(dtype)
        size = np.abs(made[a != 0])
        if not np.isfinite(made).all() or (size < np.finfo(made.dtype).tiny).any():
            return None
        kept.append(made)
    return tuple(kept)


def _kinked(case: Case, args: tuple[Any, ...], found: Any, order: int) -> bool:
    """Whether the function as a whole has a kink; for a second derivative, whether one of its steps has one.

    The square of a norm has no kink, but its exact second derivative is not found at the kink of the norm.
    """
    if order > 1:
        try:
            with np.errstate(all="ignore"):
                return _has_kinked_step(case, args, exact(case.function, *args))
        except ArithmeticError:
            return True
    if not _has_kinked_step(case, args, found):
        return False
    with np.errstate(all="ignore"):
        report = judge(case.function, args, _undefined(_floats(found)))
    wrong = {f.verdict for f in report.findings if not f.ok} - set(_EXCUSED)
    return not wrong or "convention" in wrong


def _has_kinked_step(case: Case, args: tuple[Any, ...], found: Any) -> bool:
    """Whether the judge, given the exact first derivative, reports a kink."""
    with np.errstate(all="ignore"):
        report = judge(case.function, args, _floats(found))
    return any(f.verdict == "convention" for f in report.findings)


def _undefined(value: Any) -> Any:
    """NaN in place of each number."""
    return tuple(map(_undefined, value)) if isinstance(value, tuple) else np.full_like(value, np.nan)


def _floats(found: Any) -> Any:
    if isinstance(found, tuple):
        return tuple(map(_floats, found))
    with np.errstate(all="ignore"):
        return np.asarray(found, dtype=np.float64)


def judge_case(
    peer: Conversation, name: str, expression: str, mode: Sequence[str], dtype: str
) -> tuple[list[Fault], list[tuple[Reply, bool]], int]:
    """Judge one mode of a peer's function of arrays at all inputs of its case.

    Returns
    -------
    list of Fault
    list of (Reply, bool)
        Errors, which may be refusals, and whether the exact derivative is 0.
    int
        The number of judged numbers.
    """
    case, library = CASES[name], peer.library
    order = len(mode) - (library.batched in mode)
    faults: list[Fault] = []
    numbers: list[Fault] = []
    errors: list[tuple[Reply, bool]] = []
    judged = 0
    names = ", ".join("xyz"[: len(case.inputs[0])])
    for number in range(len(case.inputs)):
        known = truth(name, number, dtype, order)
        if not known.blocks or (known.kink and order > 1):
            continue
        args = _arguments(case, number, dtype)
        assert args is not None
        for by, decimal in known.blocks.items():
            text = called(mode, "weigh(f)", by, library.batched)
            batched = library.batched in mode
            program = f"f = lambda {names}: {expression}\nresult = lower({text}(*map(lift, arrays)))"
            whole = Fault(
                library.name, name, expression, tuple(mode), by, dtype, "", _place(args), args, (), "", "", ""
            )
            reply = peer.ask(program, [np.stack([a, a]) for a in args] if batched else list(args))
            if reply.kind in ("crash", "hang"):
                faults.append(whole._replace(what=reply.kind, got=f"the process {reply.text}", exact="(finite)"))
                continue
            if reply.kind != "array":
                errors.append((reply, not _floats(decimal).any()))
                if decimal.size:
                    told = f"{reply.name}: {reply.text}"
                    faults.append(
                        whole._replace(what="raises", got=told, exact=_first(decimal), why="the derivative exists")
                    )
                continue
            got = np.asarray(reply.array)
            got = got[0] if batched else got
            judged += decimal.size
            if got.shape != decimal.shape:
                told = f"an array of shape {got.shape}"
                faults.append(
                    whole._replace(
                        what="wrong", got=told, exact=_first(decimal), why=f"the derivative has shape {decimal.shape}"
                    )
                )
                continue
            fault = _fault(case, args, whole, got, decimal, known.kink)
            numbers += [] if fault is None else [fault]
    return [*faults, *_with_mechanisms(numbers)], errors, judged


def _with_mechanisms(faults: Sequence[Fault]) -> list[Fault]:
    """The wrong numbers of one mode with their mechanisms; numbers with a mechanism in common belong together."""
    alone = [mechanism([f.what], False) for f in faults]
    ordinary = {m for m, f in zip(alone, faults, strict=True) if f.what != "kink" and not _extreme(f)}
    return [
        f if f.what == "kink" else f._replace(mechanism=mechanism([f.what], m not in ordinary))
        for m, f in zip(alone, faults, strict=True)
    ]


def _extreme(f: Fault) -> bool:
    return any(bool(extreme(a, f.dtype).any()) for a in f.arguments)


def _first(decimal: Any) -> str:
    return str(decimal.ravel()[0]) if decimal.size else "an empty array"


def _fault(case: Case, args: tuple[Any, ...], whole: Fault, got: Any, decimal: Any, kink: bool) -> Fault | None:
    """The fault of the numbers of one derivative, or None."""
    least, most = limits(whole.dtype)
    half = float(np.sqrt(np.finfo(whole.dtype).eps))
    true = _floats(decimal)
    value = got.astype(np.float64)
    with np.errstate(all="ignore"):
        over = np.abs(true) > most
        largest = float(np.max(np.abs(np.where(over, 0.0, true)), initial=0.0))
        off = np.abs(value - true)
        nothing = 0.0 if largest else _size_of_nothing(case, args)
    with np.errstate(all="ignore"):
        bad = ~(off <= np.maximum(half * max(largest, nothing), least))
    if over.any() or not bad.any():
        return None
    with np.errstate(all="ignore"):
        claimed = _claim(case, args, whole.by, np.where(over, true, value), got.dtype)
        report = judge(case.function, args, claimed, order=whole.order)
    if report.ok or all(f.ok or f.verdict in _EXCUSED for f in report.findings):
        return None
    at = tuple(
        int(i) for i in np.unravel_index(int(np.argmax(np.where(bad, np.nan_to_num(off, nan=np.inf), -1))), bad.shape)
    )
    g, t = float(value[at]), float(true[at])
    what = "nan" if np.isnan(g) else "infinite" if np.isinf(g) else "zero" if g == 0 else "wrong"
    if what == "wrong" and t != 0 and np.sign(g) != np.sign(t):
        what = "opposite"
    elif what == "wrong" and off[at] < largest / 8:
        what = "digits"
    wrong = next(f for f in report.findings if not f.ok and f.verdict not in _EXCUSED)
    why = "the derivative exists" if wrong.verdict == "domain" else wrong.reason
    if kink:
        what = "kink"
    return whole._replace(what=what, element=at, got=g, exact=str(decimal[at]), why=why)


def _size_of_nothing(case: Case, args: tuple[Any, ...]) -> float:
    """The size to which numbers are compared if the exact derivative is 0: for each input the size of the gradient."""
    try:
        found = exact(case.function, *args)
    except ArithmeticError:
        return 1.0
    slopes = [np.max(np.abs(_floats(b)), initial=0.0) for b in (found if isinstance(found, tuple) else (found,))]
    inputs = max(float(np.max(np.abs(a), initial=0.0)) for a in args)
    return float(max(slopes)) / inputs if inputs else float(max(slopes))


def _claim(case: Case, args: tuple[Any, ...], by: tuple[int, ...], value: Any, dtype: Any) -> Any:
    """The peer's numbers in the structure that `judge` takes, with exact numbers in the other places."""
    found = _floats(exact(case.function, *args, order=len(by)))
    if len(args) == 1:
        return value
    if len(by) == 1:
        return tuple(value if i == by[0] else b for i, b in enumerate(found))
    return tuple(tuple(value if (i, j) == by else b for j, b in enumerate(row)) for i, row in enumerate(found))


def _place(args: tuple[Any, ...]) -> str:
    """The kind of an input."""
    x = args[0]
    if not x.size:
        return "empty input"
    size = np.abs(x[x != 0])
    words = []
    if not size.size:
        return "all zeros"
    if x.ndim == 2:
        with np.errstate(all="ignore"):
            values = np.linalg.svd(x.astype(np.float64), compute_uv=False)
        if values[-1] <= 1e-12 * values[0]:
            words.append("a singular matrix")
        if len(values) > 1 and (np.abs(np.diff(values)) <= 1e-12 * values[0]).any():
            words.append("equal singular values")
    if size.max() > 1e15:
        words.append("huge numbers")
    if size.max() < 1e-15:
        words.append("tiny numbers")
    if x.ndim == 1:
        if len(np.unique(x)) < x.size and x.all():
            words.append("equal elements")
        if not x.all():
            words.append("zeros")
        if 100 < size.max() < 1e15:
            words.append("large numbers")
    return ", ".join(words) or "elsewhere"
