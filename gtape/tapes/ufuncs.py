"""Facts about NumPy's ufuncs for compiled functions."""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np

__all__ = ["EXACT", "keeps_bits_anywhere", "operands", "same_bits", "ufunc_of"]

# The ufuncs that Python's operators call for arrays.
_OPERATORS: dict[Any, np.ufunc] = {
    operator.add: np.add, operator.sub: np.subtract, operator.mul: np.multiply, operator.truediv: np.divide,
    operator.neg: np.negative, abs: np.absolute, operator.lt: np.less, operator.le: np.less_equal,
    operator.gt: np.greater, operator.ge: np.greater_equal, operator.eq: np.equal, operator.ne: np.not_equal,
}  # fmt: skip
# Ufuncs that round at most once in every loop of NumPy's, so that they may overwrite an operand.
EXACT = frozenset({np.add, np.subtract, np.multiply, np.divide, np.negative, np.sqrt, np.square})


def ufunc_of(function: Any) -> np.ufunc | None:
    """The ufunc with one result that computes a function of arrays element by element; None for other functions."""
    found = function if function.__class__ is np.ufunc else _OPERATORS.get(function)
    return found if found is not None and found.signature is None and found.nout == 1 else None


_SAMPLES = (0.0, -0.0, 1.0, -1.0, 0.5, 3.0, 1e-3, 0.1, 0.7, 1.7, -2.3, 5.5, 40.0, -90.0, 1e8, -1e8, 1e30, 1e-30, 710.0)


def operands(chars: str, n: int) -> list[Any]:
    """Operands of many sizes, with n elements each."""
    rng = np.random.default_rng(n)
    made: list[Any] = []
    for c in chars:
        if c == "?":
            made.append(rng.random(n) < 0.5)
            continue
        values = rng.normal(size=n) * 10.0 ** rng.integers(-3, 3, n)
        values[: len(_SAMPLES)] = np.roll(_SAMPLES, 5 * len(made))[:n]
        made.append(values.astype(np.dtype(c)))
    return made


def same_bits(a: Any, b: Any) -> bool:
    """Whether two arrays or numbers have the same dtype, shape and bits."""
    a, b = np.asarray(a), np.asarray(b)
    return bool(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes())


@functools.lru_cache(maxsize=512)
def keeps_bits_anywhere(ufunc: Any, chars: str, words: tuple[tuple[str, type, Any], ...] = ()) -> bool:
    """Whether a ufunc or another function of arrays gives an element the same bits at every place of an array.

    `words` are keyword arguments with their classes, because equal numbers of different classes may lead to different
    results.
    """
    if any(c not in "df?" for c in chars):
        return False
    try:
        with np.errstate(all="ignore"):
            return all([_keeps_bits(ufunc, operands(chars, n), {k: v for k, _, v in words}) for n in (37, 64)])  # noqa: C419
    except Exception:  # the function does not take arrays like these
        return False


def _keeps_bits(function: Any, xs: list[Any], words: dict[str, Any]) -> bool:
    made = function(*xs, **words)
    if not isinstance(made, np.ndarray) or made.shape != xs[0].shape:
        return False
    parts = [slice(k, None) for k in (1, 3, 8, 29)] + [slice(None, None, 2)]
    if function.__class__ is not np.ufunc:  # a function of arrays may treat single numbers differently
        parts += [slice(k, k + 1) for k in range(len(made))]
    elif any([not same_bits(made[k], function(*[x[k] for x in xs])) for k in range(len(made))]):  # noqa: C419
        return False
    return all([same_bits(made[p], function(*[x[p] for x in xs], **words)) for p in parts])  # noqa: C419
