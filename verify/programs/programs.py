"""Random correct programs, which the verifier must pass, and in which it must find every planted fault.

All random decisions go through one function ``choose(n) -> 0 .. n-1``, so that a seed and Hypothesis build programs in
the same way, and Hypothesis can shrink them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

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
        kind = choose(100)
        if special and b.often(8):
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
    last = b.rest[-1]
    program.targets = [last]
    if len(b.rest) > 1 and b.often(25):
        program.targets.append(b.rest[choose(len(b.rest) - 1)])
    if b.often(40):
        program.seeds = [(choose(1 << 16), b.shape(t)) for t in program.targets]
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


def programs() -> Any:
    """A Hypothesis strategy for random programs; it shrinks towards few steps and simple ops.

    Returns
    -------
    hypothesis.strategies.SearchStrategy
        Of `RandomProgram`.
    """
    from hypothesis import strategies as st

    @st.composite
    def one(draw_from: Any) -> RandomProgram:
        return build(lambda n: int(draw_from(st.integers(0, n - 1))))

    return one()
