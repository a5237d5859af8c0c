"""Facts about NumPy's ufuncs for compiled functions."""

from __future__ import annotations

import functools
import math
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
    given = {k: v for k, _, v in words}
    try:
        with np.errstate(all="ignore"):
            return all([_keeps_bits(ufunc, operands(chars, n), given) for n in (37, 64)]) and (  # noqa: C419
                _keeps_bits_beside_others(ufunc, chars, given)
            )
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


# Between these ends all numbers of a block may be ordinary for a kernel, so that it may take a quick way for them.
_ORDINARY = (-3.0, 3.0), (0.1, 0.9), (1.1, 3.0)
_FEW = 13


def _special(chars: str) -> list[list[float]]:
    """Sets of numbers for which kernels may need another way: 0, infinity, NaN, tiny, huge, small and large numbers."""
    tiny, huge = [1e-30], [1e5, 1e8, 1e30]
    for c in sorted(set(chars) - {"?"}):
        f = np.finfo(c)
        most, least = float(f.max), float(f.tiny)
        tiny += [float(f.smallest_subnormal), least, math.sqrt(least) / 4]
        huge += [most, 4 * math.sqrt(most)]
    return [[0.0], [math.inf], [math.nan], tiny, huge, [1e-3, 1.0], [40.0, 90.0, 710.0]]


def _keeps_bits_beside_others(function: Any, chars: str, words: dict[str, Any]) -> bool:
    """Whether ordinary numbers have the same bits alone and beside special numbers, and the special ones, too.

    The special numbers stand in each operand alone and in all operands at the same place, with both signs.
    """
    rng = np.random.default_rng(len(chars))
    places = [k for k, c in enumerate(chars) if c != "?"]
    sets = [[k] for k in places] + ([places] if len(places) > 1 else [])
    half = _FEW // 2
    for kind, ends in enumerate(_ORDINARY):
        xs = [rng.random(_FEW) < 0.5 if c == "?" else rng.uniform(*ends, _FEW).astype(c) for c in chars]
        alone = function(*xs, **words)
        for specials in _special(chars):
            rows = [(chosen, sign * v) for chosen in sets for sign in (1.0, -1.0) for v in specials]
            end = half + len(rows)
            mixed = []
            for k, x in enumerate(xs):
                added = np.array([v if k in chosen else x[0] for chosen, v in rows], x.dtype)
                # In the middle, so that a vector of the machine holds both.
                mixed.append(np.concatenate([x[:half], added, x[half:]]))
            made = function(*mixed, **words)
            if not same_bits(made[:half], alone[:half]) or not same_bits(made[end:], alone[half:]):
                return False
            if not kind:
                made, some = made[half:end], function(*[x[half:end] for x in mixed], **words)
                numbers = ~(np.isnan(some) & np.isnan(made))  # the sign of NaN shows nowhere
                if not same_bits(made[numbers], some[numbers]):
                    return False
    return True
