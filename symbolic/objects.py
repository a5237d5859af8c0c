"""The base class of the worlds of object arrays: NumPy arrays of SymPy expressions, enclosures (balls) or jets.

``W.name(*arrays, **params)`` applies the mirror of the primitive `name`. Rules written against a namespace ``xp`` run
here unchanged. Results are object ndarrays, also 0-d ones. Conditions and indices are plain NumPy arrays.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import cache, cmp_to_key, partialmethod, reduce
from typing import Any

import numpy as np
import sympy as sp
from flint import acb, arb

from gtape.symbolic.balls import assumed, box, finite_ball, has_complex, mapped, objects, rowwise, shared
from gtape.symbolic.jets import Jet
from gtape.symbolic.mirrors import has_mirror, without_mirror
from gtape.symbolic.mirrors.registry import ARRAYS, COMPLEX, SCALARS

__all__ = ["COMPARISONS", "ObjectWorld"]

# Relations of integers. For arrays of balls, masks of the pairs for which a relation certainly holds.
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
# For each relation the signs of a - b that satisfy it.
_SIGNS = {"<": (-1,), "<=": (-1, 0), ">": (1,), ">=": (0, 1), "==": (0,), "!=": (-1, 1)}


def _of_scalars(function: Callable[..., Any], arrays: list[np.ndarray], boolean: bool) -> np.ndarray:
    """A function of scalars in 0-d arrays without NumPy, because NumPy takes longer than most functions."""
    out = function(*[a.item() for a in arrays])
    return np.array(out != 0, dtype=bool) if boolean else box(out)


@cache
def _diagonal(mirror: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, **params: mirror(x, x, **params)


def _is_one(x: Any, y: Any) -> bool:
    """Whether two scalars are one object, or jets of the same objects."""
    if x.__class__ is not y.__class__ or not isinstance(x, Jet):
        return x is y
    return x is y or all(map(operator.is_, x.components, y.components))


def _difference(x: Any, y: Any) -> Any:
    """x - y. One object has the difference 0 to itself, because both stand for one number."""
    if x.__class__ is y.__class__:
        if isinstance(x, Jet):
            return x.__class__(*map(_difference, x.components, y.components))
        if x is y and isinstance(x, (arb, acb)) and x.is_finite():
            return x.__class__(0)
    return x - y


def _quotient(x: Any, y: Any) -> Any:
    """x / y. One object has the quotient 1 with itself."""
    if _is_one(x, y):
        if isinstance(x, (arb, acb)) and x.is_finite() and not x.contains(0):
            return x.__class__(1)
        known = isinstance(x, Jet) and isinstance(x.value, (arb, acb)) and not x.value.contains(0)
        if known and all(map(finite_ball, x.components)):
            return x.__class__(x.value.__class__(1), *map(_difference, x.components[1:], x.components[1:]))
    return x / y


class ObjectWorld:
    """The base class of the worlds of object arrays. The worlds differ in their scalars.

    Subclasses define `exact` (a number as a scalar of the world), `lift_floats`, `scalar_function` and `sign_of`.

    Attributes
    ----------
    symbolic : bool
        Whether scalars are expressions; otherwise they are numbers.
    k : int
        The number of directions in which scalars have derivatives, see `component`.
    pi, ln2, ln10, sqrt2, two_over_sqrt_pi : ndarray
        Constants as 0-d arrays.
    """

    symbolic = False
    k = 0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in _CONSTANTS:
            return box(self.scalar_function(_CONSTANTS[name], 0, {})[0]())
        if has_mirror(name):
            return self._elementwise(name) if name in SCALARS else self._arraywise(name)
        raise AttributeError(without_mirror(name))

    def _elementwise(self, name: str) -> Callable[..., np.ndarray]:
        mirror = SCALARS[name]

        def apply(*args: Any, **params: Any) -> np.ndarray:
            arrays = [self.objects(a) for a in args]
            function, boolean = self.scalar_function(mirror, len(arrays), params)
            if assumed.get("shared") is not None:
                function = self._of_one(mirror, params, function) if len(arrays) == 2 else function
                function = shared((self, mirror, repr(params)), function)
            try:
                if not any(a.ndim for a in arrays):
                    return _of_scalars(function, arrays, boolean)
                with np.errstate(all="ignore"):  # ignores the floating-point flags that flint sets
                    out = mapped(function, *arrays)
            except TypeError:  # functions of real balls refuse complex ones
                if not any(map(has_complex, arrays)):
                    raise
                function, boolean = self.scalar_function(COMPLEX.get(name, mirror), len(arrays), params, "acb")
                out = mapped(function, *arrays)
            return (out != 0).astype(bool) if boolean else out

        return apply

    def _of_one(
        self, mirror: Callable[..., Any], params: dict[str, Any], function: Callable[..., Any]
    ) -> Callable[..., Any]:
        """A function of two scalars that is another function where both are one: (x - x)**2 is 0, not an enclosure."""
        diagonal, _ = self.scalar_function(_diagonal(mirror), 1, params)
        return lambda x, y: diagonal(x) if _is_one(x, y) else function(x, y)

    def _arraywise(self, name: str) -> Callable[..., Any]:
        mirror = ARRAYS[name]

        def apply(*args: Any, **params: Any) -> Any:
            made = shared((self, mirror, repr(params)), lambda *xs: mirror(self, *xs, **params))
            out = made(*map(self._argument, args))
            if isinstance(out, (tuple, list)):
                return type(out)(map(self._result, out))
            return self._result(out)

        return apply

    def _argument(self, x: Any) -> Any:
        """Arrays and numbers of the world as object arrays. Lists are converted element by element."""
        if isinstance(x, (np.ndarray, float, np.generic, arb, acb, Jet, sp.Basic)):
            return self.lift(x)
        if isinstance(x, (list, tuple)) and any(isinstance(e, (np.ndarray, arb, acb, Jet, sp.Basic)) for e in x):
            return [self._argument(e) for e in x]
        return x

    def _result(self, x: Any) -> Any:
        return box(x) if isinstance(x, (arb, acb, Jet, sp.Basic, int)) and not isinstance(x, bool) else x

    # -- in

    def exact(self, x: Any) -> Any:
        """A Python number as a scalar of this world, without rounding."""
        raise NotImplementedError

    def lift_floats(self, x: np.ndarray) -> np.ndarray:
        """A float array as an object array of exact scalars."""
        raise NotImplementedError

    def scalar_function(
        self, mirror: Callable[..., Any], arity: int, params: dict[str, Any], kind: str = "arb"
    ) -> tuple[Callable[..., Any], bool]:
        """An elementwise mirror as a function of real or complex ("acb") scalars, and whether it is a condition."""
        raise NotImplementedError

    def lift_complex(self, x: np.ndarray) -> np.ndarray:
        """A complex array as an object array of exact scalars."""
        raise TypeError(f"{type(self).__name__} holds real numbers; got an array of dtype {x.dtype}")

    def sign_of(self, a: Any, b: Any, relation: str) -> int:
        """-1, 0 or 1 for a < b, a == b, a > b. Raises `Undecided` (naming `relation`) if the scalars do not decide."""
        raise NotImplementedError

    def lift(self, x: Any) -> np.ndarray:
        """An array or number in the form of this world.

        Parameters
        ----------
        x : array_like
            Floats of any dtype become exact scalars. Integers and booleans stay plain arrays, because they are indices
            and conditions. Object arrays stay unchanged.

        Returns
        -------
        ndarray
            An object array for floats.
        """
        if isinstance(x, (arb, acb, Jet, sp.Basic)):
            return box(x)
        array: np.ndarray = np.asarray(x)
        kind = array.dtype.kind
        if kind == "f":
            return self.lift_floats(array)
        if kind in "biuO":
            return array
        if kind == "c":
            return self.lift_complex(array)
        raise TypeError(f"{type(self).__name__} holds numbers; got an array of dtype {array.dtype}")

    def objects(self, x: Any) -> np.ndarray:
        """The same as `lift`, but integers and booleans become object arrays of Python integers."""
        lifted = self.lift(x)
        return lifted.astype(np.int64).astype(object) if lifted.dtype.kind == "b" else objects(lifted)

    # -- components: of worlds whose scalars carry derivatives, 2**k by bitmask of directions

    @property
    def plain(self) -> ObjectWorld:
        """The world of the values, without derivatives."""
        return self

    def component(self, x: Any, directions: int) -> np.ndarray:
        """One component of every element, by bitmask: 0 the value, 1 along the first direction, 3 along both of two."""
        return objects(x)

    def components_of(self, x: np.ndarray) -> list[Any]:
        """The components as object arrays. None for a component that is zero everywhere by construction."""
        return [x]

    def from_components(self, components: list[Any]) -> np.ndarray:
        """An array from its components."""
        return objects(components[0])

    # -- arithmetic: the scalars' own operators

    def _arithmetic(self, *xs: Any, ufunc: np.ufunc, scalar: Callable[..., Any]) -> np.ndarray:
        once = shared(scalar, scalar, quick=True)
        if once is not scalar:
            return mapped(once, *map(self.objects, xs))
        return objects(ufunc(*map(self.objects, xs)))

    add = partialmethod(_arithmetic, ufunc=np.add, scalar=operator.add)
    subtract = partialmethod(_arithmetic, ufunc=np.frompyfunc(_difference, 2, 1), scalar=_difference)
    multiply = partialmethod(_arithmetic, ufunc=np.multiply, scalar=operator.mul)
    negative = partialmethod(_arithmetic, ufunc=np.negative, scalar=operator.neg)

    def divide(self, a: Any, b: Any) -> np.ndarray:
        """The quotient a / b, elementwise. Integers divide exactly."""

        def quotient(x: Any, y: Any) -> Any:
            return self.exact(x) / y if isinstance(x, int) else _quotient(x, y)

        return mapped(shared(_quotient, quotient), self.objects(a), self.objects(b))

    def matmul(self, a: Any, b: Any) -> np.ndarray:
        """The product ``np.matmul``."""
        return self._matmul(self.objects(a), self.objects(b))

    def _matmul(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return objects(np.matmul(a, b))

    # -- decisions

    def _compare(self, a: Any, b: Any, relation: str) -> np.ndarray:
        if not any(isinstance(v, (arb, acb, Jet, sp.Basic)) or np.asarray(v).dtype.kind in "fO" for v in (a, b)):
            return np.asarray(COMPARISONS[relation](np.asarray(a), np.asarray(b)))
        return self._holds_in(self.objects(a), self.objects(b), relation)

    def _holds_in(self, a: np.ndarray, b: np.ndarray, relation: str) -> np.ndarray:
        return mapped(lambda x, y: self.holds(x, y, relation), a, b).astype(bool)

    def holds(self, a: Any, b: Any, relation: str) -> bool:
        """Whether a relation such as "<=" holds between two scalars. May raise `Undecided`."""
        return self.sign_of(a, b, relation) in _SIGNS[relation]

    # Comparisons of arrays return booleans, or raise `Undecided` if the scalars do not decide one.
    less = partialmethod(_compare, relation="<")
    less_equal = partialmethod(_compare, relation="<=")
    greater = partialmethod(_compare, relation=">")
    greater_equal = partialmethod(_compare, relation=">=")
    equal = partialmethod(_compare, relation="==")
    not_equal = partialmethod(_compare, relation="!=")

    def where(self, condition: Any, a: Any, b: Any) -> np.ndarray:
        """a where the condition holds, else b. A condition of scalars holds where it is not zero."""
        condition = np.asarray(condition)
        if condition.dtype == object:
            condition = self.not_equal(condition, 0)
        return np.where(condition, self.objects(a), self.objects(b))

    def sum_along(self, x: Any, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> np.ndarray:
        """The sums along axes."""
        return self.objects(np.add.reduce(self.objects(x), axis=axis, keepdims=keepdims))  # type: ignore[call-overload]

    def max_along(self, x: Any, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> np.ndarray:
        """The greatest elements along axes. At a tie the derivative is the mean of those of the tied elements.

        Raises
        ------
        Undecided
            If the scalars do not decide which element is the greatest.
        """
        return self._extreme_along(x, axis, keepdims, 1)

    def min_along(self, x: Any, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> np.ndarray:
        """The least elements along axes, see `max_along`."""
        return self._extreme_along(x, axis, keepdims, -1)

    def _extreme_along(self, x: Any, axis: int | Sequence[int] | None, keepdims: bool, sense: int) -> np.ndarray:
        rows, kept, shape = _rows(self.objects(x), axis)
        out = np.empty(len(rows), dtype=object)
        for i, row in enumerate(rows):
            out[i] = self._extreme(row.tolist(), sense)
        return out.reshape(shape if keepdims else kept)

    def _extreme(self, row: list[Any], sense: int) -> Any:
        if not row:
            return self.lift(np.array(-np.inf if sense > 0 else np.inf))[()]  # as in NumPy's kernels
        tied = row[:1]
        for x in row[1:]:
            sign = self.sign_of(x, tied[0], ">" if sense > 0 else "<")
            if sign == 0:
                tied.append(x)
            elif sign == sense:
                tied = [x]
        return tied[0] if len(tied) == 1 else self.mean(tied)

    def mean(self, tied: list[Any]) -> Any:
        """The mean of scalars that tie for an extreme."""
        total = reduce(operator.add, tied)
        return (self.exact(total) if isinstance(total, int) else total) / len(tied)

    def order_along(self, x: Any, axis: int = -1, descending: bool = False) -> np.ndarray:
        """The stable permutation that sorts along an axis, as integers for ``np.take_along_axis``."""
        sense = -1 if descending else 1

        def order(row: list[Any]) -> list[int]:
            def compare(i: int, j: int) -> int:
                return sense * self.sign_of(row[i], row[j], "<")

            return sorted(range(len(row)), key=cmp_to_key(compare))

        return rowwise(order, axis, self.objects(x)).astype(np.int64)


_CONSTANTS: dict[str, Callable[[], Any]] = {
    "pi": lambda: sp.pi,
    "ln2": lambda: sp.log(2),
    "ln10": lambda: sp.log(10),
    "sqrt2": lambda: sp.sqrt(2),
    "two_over_sqrt_pi": lambda: 2 / sp.sqrt(sp.pi),
}


def _rows(x: np.ndarray, axis: Any) -> tuple[np.ndarray, tuple[int, ...], tuple[int, ...]]:
    """The rows to reduce, the shape without the axes, and the shape with ones in their place."""
    axes = tuple(range(x.ndim)) if axis is None else tuple(a % x.ndim for a in np.atleast_1d(axis).tolist())
    kept = [i for i in range(x.ndim) if i not in axes]
    shape = tuple(x.shape[i] for i in kept)
    length = int(np.prod([x.shape[i] for i in axes], dtype=np.int64))
    rows = x.transpose(*kept, *axes).reshape(int(np.prod(shape, dtype=np.int64)), length)
    return rows, shape, tuple(1 if i in axes else n for i, n in enumerate(x.shape))
