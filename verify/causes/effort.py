"""How many points and bits a program gets beside a kink, by its size.

The size of a program is the count of the numbers that one run computes.
"""

from __future__ import annotations

from gtape.symbolic.elementary import special_function
from gtape.symbolic.program import Program

__all__ = [
    "AXES", "FEW", "FEWER", "MANY", "MORE", "MOST_SEARCHED", "MOST_WORK", "ONE_BY_ONE", "PAIRS", "is_quick", "iterates",
]  # fmt: skip

FEW = 2000  # programs with more numbers get one pair of points
MANY = 20_000  # programs with more numbers get none, unless numbers are claims or floats raise a doubt
MOST_SEARCHED = 40_000  # numbers of programs that further directions evaluate
MOST_WORK = 500_000  # numbers of programs that all rows of a derivative evaluate to divide groups of elements
PAIRS = 4  # pairs of points of a small program
AXES = 32  # this many elements get points of their own, and more in small programs
ONE_BY_ONE = 64  # at most this many elements are differentiated one by one
FEWER = 2400  # bits that suffice where little cancels; special functions take a tenth of the time
MORE = 24_000  # bits for small programs of elementary functions; the cosine of x**4 is 1 at the smallest step


def is_quick(program: Program) -> bool:
    """Whether enclosures of a program take little time at many bits: without special functions and iterations."""
    return special_function(program) is None and not iterates(program)


def iterates(program: Program) -> bool:
    """Whether an op takes the exact value from an iteration, whose tolerances depend on the bits."""
    ops = [n.prim for n in program.nodes if n.kind == "op"]
    return any(prim.kind == "implicit" or bool(prim.rounding.eliminates) for prim in ops)
