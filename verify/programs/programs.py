"""Random correct programs, which checks must pass, and in which checks must find every planted fault.

All random decisions go through one function ``choose(n) -> 0 .. n-1``, so that a seed and Hypothesis build programs in
the same way, and Hypothesis can shrink them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gtape.base.shown import shown
from gtape.tensors.argument_checks import each, whole
from gtape.verify.programs.program_builder import Builder, Choose
from gtape.verify.programs.program_source import RandomProgram

__all__ = ["generate", "programs"]


def build(choose: Choose, seed: int | None = None, *, special: bool = False) -> RandomProgram:
    """A program from a source of random decisions.

    Parameters
    ----------
    choose : callable
        ``choose(n)`` gives an integer from 0 to n - 1.
    seed : int, optional
        For the program's name.
    special : bool
        Whether inputs may hold zeros, subnormal numbers and ties, and masks infinities.
    """
    dtype = "float32" if choose(100) >= 62 else "float64"
    order = 2 if choose(100) >= 70 else 1
    depth = 1 + choose(40) if choose(2) == 0 else 1 + choose(12)
    program = RandomProgram(dtype, order, seed)
    b = Builder(choose, program)
    b.special = special
    long_at = choose(min(depth, 8)) if choose(100) >= 50 else -1
    while program.depth < depth:
        if long_at >= 0 and program.depth >= long_at:
            b.long_sum()
            long_at = -1
            continue
        _grow(b)
    return _finished(b)


def _grow(b: Builder) -> None:
    """Add one random step."""
    kind = b.choose(100)
    if b.special and b.often(8):
        b.masked()
    elif kind < 40:
        b.elementwise()
    elif kind < 60:
        b.arithmetic()
    elif kind < 72:
        b.selection()
    elif kind < 90:
        b.structural()
    else:
        b.product()


def _finished(b: Builder) -> RandomProgram:
    """The program with targets and output gradients."""
    program = b.program
    last = b.rest[-1]
    program.targets = [last]
    if len(b.rest) > 1 and b.often(25):
        program.targets.append(b.rest[b.choose(len(b.rest) - 1)])
    if b.often(40):
        program.seeds = [(b.choose(1 << 16), b.shape(t)) for t in program.targets]
    program.persistent = b.often(30)
    program.second = b.pick(["sum", "weights", "square"])
    return program


def generate(seed: int, *, special: bool = False) -> RandomProgram:
    """The random program of a seed.

    Parameters
    ----------
    seed : int
    special : bool
        As for `build`.

    Examples
    --------
    >>> program = generate(7)
    >>> len(program.run()) == sum(i.kind != "constant" for i in program.inputs)
    True
    """
    rng = np.random.default_rng([20260111, seed])
    return build(lambda n: int(rng.integers(n)), seed, special=special)


def programs(
    *,
    special: bool = False,
    control: bool = True,
    dtypes: Sequence[str] = ("float64", "float32"),
    orders: Sequence[int] = (1, 2),
    max_steps: int = 40,
) -> Any:
    """Whole random programs: ops of all families, broadcasting, shared results, variables, nested tapes, control flow.

    Parameters
    ----------
    special : bool, keyword only
        Whether inputs may hold zeros of either sign, subnormal numbers and ties, and masks infinities. Some of these
        programs have no derivative, or lose digits, and a check says so.
    control : bool, keyword only
        Whether there are loops, branches, maps, scans, functions and recomputed functions among the steps.
    dtypes : sequence of "float64" and "float32", keyword only
    orders : sequence of 1 and 2, keyword only
        2: a gradient of a function of the gradient, by nested tapes.
    max_steps : int, keyword only
        The most random steps, at least 1.

    Returns
    -------
    hypothesis.strategies.SearchStrategy
        Each program has ``.source``, Python code that runs as printed, and ``.run(verify)``, which returns its
        gradients; ``verify`` is the argument of a tape. Programs shrink towards few steps and simple ops.

    Raises
    ------
    ValueError
        For another dtype or order, or fewer than one step.

    Examples
    --------
    >>> from hypothesis import given, settings
    >>> from gtape.verify import strategies
    >>> @settings(max_examples=3, deadline=None)
    ... @given(strategies.programs(max_steps=4))
    ... def test(program):
    ...     program.run(verify=True)
    >>> test()
    """
    from hypothesis import strategies as st

    dtypes = each("programs", "dtypes", dtypes, "a list of names of dtypes")
    orders = each("programs", "orders", orders, "a list of orders")
    if not dtypes or not {"float64", "float32"}.issuperset(map(str, dtypes)):
        raise ValueError(f"dtypes holds 'float64', 'float32' or both, not {shown(dtypes)}")
    if not orders or any(isinstance(k, bool) or k not in (1, 2) for k in orders):
        raise ValueError(f"orders holds 1, 2 or both, not {shown(orders)}")
    for name, value in (("special", special), ("control", control)):
        if not isinstance(value, bool):
            raise ValueError(f"{name} is True or False, not {shown(value)}")
    most = whole("programs", "max_steps", max_steps)
    if most < 1:
        raise ValueError(f"max_steps is at least 1, not {most}")

    def chooser(draw_from: Any) -> Choose:
        return lambda n: int(draw_from(st.integers(0, n - 1)))

    # A step with its decisions is one draw, so that Hypothesis can leave out a whole step.
    @st.composite
    def step(draw_from: Any, b: Builder, first: bool) -> bool:
        b.choose = chooser(draw_from)
        if not first and b.choose(_LAST) == 0:
            return False
        kind = b.choose(100)
        if control and kind >= 88:
            b.control()
        elif kind == 87:
            b.long_sum()
        else:
            _grow(b)
        return True

    @st.composite
    def one(draw_from: Any) -> RandomProgram:
        program = RandomProgram(draw_from(st.sampled_from(dtypes)), draw_from(st.sampled_from(orders)))
        b = Builder(chooser(draw_from), program)
        b.special = special
        while draw_from(step(b, not b.rest)) and program.depth < most:
            pass
        b.choose = chooser(draw_from)
        if not b.rest:
            b.arithmetic()
        return _finished(b)

    return one()


_LAST = 16  # one step in this many is the last
