"""Powers and roots of numbers in units that are powers of two.

A number of any size in a unit near it has a power that neither overflows nor underflows, and a unit for the power keeps
the derivative near 1. If the units were factors of their own, tangents divided by a unit, or cotangents times a unit,
would leave the range of floats.
"""

from __future__ import annotations

from typing import Any

from gtape.declare.domains import NONNEGATIVE, POSITIVE, Domain, Interval
from gtape.declare.primitives import elementwise
from gtape.kernels import powers

__all__: list[str] = []
NAMESPACES = None


_UNIT = Interval(-1074, 1023, whole=True)
_SAMPLES: Any = tuple((((5,), (5,), (5,)), {"p": p, "n": n}) for p, n in ((3.0, 0), (3.0, 1), (0.75, 0), (2.5, 2)))

# The arguments after the first are exponents: of the unit of the number, and of the unit of its power or root.
power_in_units = elementwise(
    "power_in_units", powers.power_in_units,
    (lambda xp, y, x, unit, scale, *, p=3.0, n=0: xp.power_in_units(x, unit, scale, p=p, n=n + 1), None, None),
    domain=Domain(NONNEGATIVE, _UNIT, _UNIT), kinks=("x == 0 and p <= n + 1",), special=(0.0, 1.0),
    reads=((0, 1, 2), (), ()), params=("p", "n"), ulps=4.0, samples=_SAMPLES,
    summary="n-th derivative of u(x / v)**p, with powers of two v and u.",
)  # fmt: skip
root_in_units = elementwise(
    "root_in_units", powers.root_in_units,
    (lambda xp, y, x, unit, scale, *, p=3.0, n=0: xp.root_in_units(x, unit, scale, p=p, n=n + 1), None, None),
    domain=Domain(POSITIVE, _UNIT, _UNIT), special=(1.0,),
    reads=((0, 1, 2), (), ()), params=("p", "n"), ulps=4.0, samples=_SAMPLES,
    summary="n-th derivative of u(x / v)**(1/p), with powers of two v and u.",
)  # fmt: skip
