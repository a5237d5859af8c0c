"""Comparisons, logic and rounding: ops declared not differentiable (their gradient is None)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gtape.declare.conventions import AtPoints
from gtape.declare.domains import ANY_REAL, BOOLEAN, NONZERO, Domain
from gtape.declare.primitives import elementwise
from gtape.errors import InvalidArgumentError, OperandTypeError

__all__ = [
    "ceil", "equal", "floor", "floordiv", "greater", "greater_equal", "is_finite", "is_inf", "is_nan", "less",
    "less_equal", "logical_and", "logical_not", "logical_or", "logical_xor", "not_equal", "rint",
]  # fmt: skip

_TWO = (None, None)
_BOOLEAN = AtPoints(
    "an argument is NaN or infinite", "True or False", "a boolean is no NaN; IEEE 754 decides",
    lambda p, by: not all(map(math.isfinite, p)),
)  # fmt: skip
_TEST: dict[str, Any] = {"conventions": _BOOLEAN, "ulps": 0.5}
_RELATION: dict[str, Any] = {"role": "comparison", "kinks": ("x == y",), "ints": True, **_TEST}
_EQUALITY: dict[str, Any] = {**_RELATION, "complex": True, "takes": ("bool", "string")}
_LOGIC: dict[str, Any] = {"domain": BOOLEAN, "ints": True, "ulps": 0.5}
_STEP: dict[str, Any] = {"special": (0.0, 0.5, 1.0), "ulps": 0.5}
_WHOLE, _HALVES = ("x whole",), ("x halfway between whole numbers",)

equal = elementwise("equal", np.equal, _TWO, summary="Whether x == y.", example=((1.0, 2.0), False), **_EQUALITY)
not_equal = elementwise(
    "not_equal", np.not_equal, _TWO, summary="Whether x != y.", example=((1.0, 2.0), True), **_EQUALITY
)
less = elementwise("less", np.less, _TWO, summary="Whether x < y.", example=((1.0, 2.0), True), **_RELATION)
less_equal = elementwise(
    "less_equal", np.less_equal, _TWO, summary="Whether x <= y.", example=((1.0, 2.0), True), **_RELATION
)
greater = elementwise("greater", np.greater, _TWO, summary="Whether x > y.", example=((1.0, 2.0), False), **_RELATION)
greater_equal = elementwise(
    "greater_equal", np.greater_equal, _TWO, summary="Whether x >= y.", example=((1.0, 2.0), False), **_RELATION
)


def _boolean(name: str, kernel: Any) -> Any:
    def checked(*args: Any) -> Any:
        for a in args:
            if np.asarray(a).dtype != np.bool_:
                raise OperandTypeError(
                    f"{name} needs boolean tensors, not {np.asarray(a).dtype}: compare first, as in x != 0"
                )
        return kernel(*args)

    return checked


logical_and = elementwise(
    "logical_and", _boolean("logical_and", np.logical_and), _TWO,
    summary="Whether both hold.", example=((True, False), False), **_LOGIC,
)  # fmt: skip
logical_or = elementwise(
    "logical_or", _boolean("logical_or", np.logical_or), _TWO,
    summary="Whether either holds.", example=((True, False), True), **_LOGIC,
)  # fmt: skip
logical_xor = elementwise(
    "logical_xor", _boolean("logical_xor", np.logical_xor), _TWO,
    summary="Whether exactly one holds.", example=((True, False), True), **_LOGIC,
)  # fmt: skip
logical_not = elementwise(
    "logical_not", _boolean("logical_not", np.logical_not), None,
    summary="Whether it does not hold.", example=((True,), False), **_LOGIC,
)  # fmt: skip

is_nan = elementwise("is_nan", np.isnan, None, summary="Whether x is NaN.", example=((1.0,), False), **_TEST)
is_inf = elementwise("is_inf", np.isinf, None, summary="Whether x is infinite.", example=((1.0,), False), **_TEST)
is_finite = elementwise("is_finite", np.isfinite, None, summary="Whether x is finite.", example=((1.0,), True), **_TEST)

floor = elementwise(
    "floor", np.floor, None, kinks=_WHOLE, summary="The largest whole number <= x.", example=((1.5,), 1.0), **_STEP
)
ceil = elementwise(
    "ceil", np.ceil, None, kinks=_WHOLE, summary="The smallest whole number >= x.", example=((1.5,), 2.0), **_STEP
)
rint = elementwise(
    "rint", np.rint, None, kinks=_HALVES, summary="The nearest whole number, the even one at a tie.",
    example=((2.5,), 2.0), **_STEP,
)  # fmt: skip


def _floordiv(x: Any, y: Any) -> Any:
    dtype = np.result_type(x, y)
    if dtype.kind in "iu":
        if not np.all(y):
            raise InvalidArgumentError(
                "floordiv of integers by 0: make the divisor non-zero, or cast to float, where it gives inf or NaN"
            )
        return np.floor_divide(x, y)
    if dtype != np.float64:
        return np.asarray(_floordiv(np.asarray(x, np.float64), np.asarray(y, np.float64))).astype(dtype)[()]
    # x - r is y times an integer. np.floor_divide subtracts the adjusted remainder instead, which can overflow.
    r = np.fmod(x, y)
    q = np.rint((x - r) / y)
    q = np.where((r != 0) & (np.signbit(r) != np.signbit(y)), q - 1.0, q)
    ratio = np.divide(x, y)
    return np.where(np.isnan(r), np.floor(ratio), np.where(q == 0, np.copysign(q, ratio), q))


floordiv = elementwise(
    "floordiv", _floordiv, _TWO, domain=Domain(ANY_REAL, NONZERO), kinks=("x / y whole",), ints=True, ulps=2.0,
    summary="The largest whole number <= x / y.", example=((7.5, 2.0), 3.0),
)  # fmt: skip
