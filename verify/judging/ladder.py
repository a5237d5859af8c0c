"""The ladder of precisions: repeats an exact computation with more bits until it is decided."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from gtape.symbolic.balls import Undecided, numbers_shared, precision, ties_assumed
from gtape.symbolic.implicit import degenerate_noted
from gtape.symbolic.program import Program
from gtape.verify.causes.assumed_ties import taken_as_ties
from gtape.verify.causes.ends import SHARED, further_bits
from gtape.verify.causes.outside import is_at_an_end, not_differentiable
from gtape.verify.oracles.backward import RunsOnce
from gtape.verify.oracles.oracle import TooDeep
from gtape.verify.oracles.replay import Misshapen
from gtape.verify.verdicts.verdict import Finding

__all__ = ["FEWER_BITS", "MANY_BITS", "PRECISIONS", "TIES", "beyond_the_rules", "climb", "no_derivative"]

PRECISIONS = (200, 800, 3200)
# For a first try of a large program: FLINT keeps numbers of 128 bits without memory of their own, and multiplies
# matrices of them in half the time. This leaves 75 bits for cancellation in float64.
FEWER_BITS = 128
MANY_BITS = (*PRECISIONS, 12_800)  # for small programs of elementary functions
TIES = 800


def no_derivative(reasons: list[str], order: int) -> Finding:
    """The finding for a point without a derivative, with the reasons."""
    return Finding("domain", order=order, reason="; ".join(reasons))


def beyond_the_rules(reasons: list[str]) -> str:
    """Why a number is wrong where the function as a whole has a derivative, but outputs of ops have none."""
    return (
        f"{'; '.join(reasons)}; the function as a whole has the exact derivative above, but rules that keep these "
        "vectors at rest miss a part of it"
    )


def climb(
    program: Program,
    order: int,
    attempt: Callable[[int, list[str]], Any],
    precisions: Iterable[int] = PRECISIONS,
    *,
    ties: bool = True,
    patient: bool = True,
    otherwise: Callable[[], Finding | None] = lambda: None,
) -> tuple[Any, Finding | None]:
    """Try a computation at rising precision.

    Parameters
    ----------
    order : int
        The order of the derivative, for the finding.
    attempt : callable
        Takes the number of bits and a list, to which it adds why outputs of ops have no derivative. Returns None, or
        raises ArithmeticError, if more bits may decide.
    ties : bool
        Whether numbers that agree to a third of the bits count as equal, from `TIES` bits on, because enclosures of
        equal numbers that were computed in two ways overlap at any precision.
    patient : bool
        If False, stop at 3200 bits for a program in which an op's derivative is infinite or NaN at its recorded inputs,
        unless its exact inputs may differ from these.
    otherwise : callable
        Called for a finding when no precision decides.

    Returns
    -------
    value
        The value of `attempt`; None if no precision decided.
    finding : Finding or None
        With a value: the finding that numbers were taken as ties, if any were. Without a value: the reason.
    """
    undecided: Finding | None = None
    sharing: Callable[[], Any] = contextlib.nullcontext

    def open_at(reason: str) -> Finding:
        return Finding("undecided", order=order, reason=reason)

    def nowhere_at(bits: int) -> Finding | None:
        return not_differentiable(program, order, bits) or otherwise()

    for bits in _with_further(program, precisions, nowhere_at):
        assumed: Any = ties_assumed() if ties and bits >= TIES else contextlib.nullcontext([])
        with precision(bits), sharing(), assumed as tied, degenerate_noted() as degenerate:
            try:
                value = attempt(bits, degenerate)
            except TooDeep as e:
                return None, open_at(str(e))
            except RunsOnce as e:  # more bits need no fewer calls
                return None, open_at(str(e))
            except Misshapen as e:
                return None, Finding("rule", order=order, at=e.node, reason=str(e))
            except ArithmeticError as e:
                if program.size <= SHARED:
                    sharing = numbers_shared  # because two results of one computation may be tied
                told = (
                    f"a comparison stays open at {bits} bits: {e}"
                    if isinstance(e, Undecided)
                    else f"{e} at {bits} bits"
                )
                undecided = open_at(told)
                nowhere = None if patient or bits < PRECISIONS[-1] else not_differentiable(program, order)
                if nowhere is not None and not is_at_an_end(nowhere):
                    return None, nowhere
                continue
        if value is None:
            undecided = open_at(f"{bits} bits did not suffice")
        elif tied:
            with precision(bits), sharing():
                return value, taken_as_ties(program, order, bits)
        else:
            return value, None
    assert undecided is not None
    if degenerate:
        undecided = no_derivative(degenerate, order)
    return None, nowhere_at(bits) or undecided


def _with_further(
    program: Program, precisions: Iterable[int], nowhere_at: Callable[[int], Finding | None]
) -> Iterator[int]:
    """The precisions, and higher ones if only more bits may tell an exact number from an end of an op's domain."""
    bits = 0
    for bits in precisions:
        yield bits
    further = [p for p in further_bits(program) if p > bits]
    if bits < PRECISIONS[-1] or not further:
        return
    nowhere = nowhere_at(bits)
    if nowhere is not None and is_at_an_end(nowhere):
        yield from further
