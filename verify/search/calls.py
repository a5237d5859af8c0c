"""Hypothesis strategies for numbers, tensors and calls: the public module `gtape.verify.strategies` has their names.

Every binade of the dtype is equally likely, and so are the neighbourhoods of special points, kinks, ends of the domain,
zeros of both signs and ties. All strategies shrink towards small numbers and the special points.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np
from hypothesis import strategies as st

from gtape.base.diagnosis import diagnosed
from gtape.base.shown import shown
from gtape.declare.domains import ANY_REAL, BOOLEAN, Domain, Interval
from gtape.declare.primitives import REGISTRY, Primitive
from gtape.namespaces import catalogue
from gtape.tensors.argument_checks import each, flag, settings, whole
from gtape.tensors.argument_checks import shape as checked_shape
from gtape.verify.judging.api import check
from gtape.verify.search.points import NEIGHBOURS, landmarks, saturation, steps, unsteps
from gtape.verify.search.subjects import Subject, subjects
from gtape.verify.search.trials import dominated, fitted, usable
from gtape.verify.verdicts.naming import similar

__all__ = ["Call", "arguments", "floats_for", "op_calls", "shapes", "tensors"]


_DTYPES = ("float16", "float32", "float64")
_SHOWN_WHOLE = 10_000  # size up to which `repr` shows all elements of an array
_MODERATE = 8  # binades up and down from 1


def _dtype(dtype: Any) -> np.dtype[Any]:
    try:
        made: np.dtype[Any] = np.dtype(dtype)
    except Exception:  # any error, because np.dtype calls code of the object
        raise ValueError(f"dtype must be one of {', '.join(_DTYPES)}, not {shown(dtype)}") from None
    if made.name not in _DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(_DTYPES)}, not {made.name}")
    return made


def _numbers(of: str, what: str, values: Sequence[float]) -> list[float]:
    values = each(of, what, values, "a list of numbers")
    for v in values:
        if not isinstance(v, (int, float)) or isinstance(v, bool) or not math.isfinite(v):
            raise ValueError(f"{what} holds finite numbers, not {shown(v)}")
    return [float(v) for v in values]


@cache
def _binades(
    sign: int, lower: float, upper: float, dtype: str, near_one: int | None, lo: float, hi: float
) -> tuple[int, int] | None:
    """The first and last exponent e whose binade [2**e, 2**(e+1)), with a sign, meets an interval and magnitudes."""
    f = np.finfo(dtype)
    top = float(f.max)
    least, most = int(f.minexp - f.nmant), int(f.maxexp) - 1
    found = []
    for e in range(
        least if near_one is None else max(least, -near_one), (most if near_one is None else min(most, near_one)) + 1
    ):
        a, b = math.ldexp(1.0, e), math.ldexp(1.0, e + 1) if e < most else top
        left, right = (a, b) if sign > 0 else (-b, -a)
        if left <= upper and right >= lower and a <= hi and b > lo:
            found.append(e)
    return (found[0], found[-1]) if found else None


@diagnosed
def floats_for(
    interval: Interval, dtype: Any = "float64", *, special: Sequence[float] = (), kinks: Sequence[float] = (),
    magnitude: tuple[float, float] | None = None,
) -> st.SearchStrategy[float]:  # fmt: skip
    """Numbers of an interval: every binade equally likely, and the neighbourhoods of special points.

    Parameters
    ----------
    interval : Interval
        The interval of the numbers.
    dtype : "float64", "float32" or "float16"
        The dtype of the numbers, which come as Python floats.
    special, kinks : sequences of float, keyword only
        Points near which numbers are drawn often, such as kinks, branch points and roots; numbers near 0 and near the
        interval's ends and holes are drawn often, too.
    magnitude : (float, float), keyword only
        The smallest and the largest magnitude of all numbers but zeros. Zeros stay, if the interval has them.

    Returns
    -------
    SearchStrategy of float
        Includes zeros of both signs and, without `magnitude`, subnormal numbers. Shrinks towards 0, 1 and the special
        points. Of 16 numbers, about 6 have a size from 2**-8 to 2**8, and 3 any size, each binade equally likely;
        4 lie within 64 ULP of a special point, and 2 at a power of two of its size from it; 1 lies where exponentials,
        squares and cubes leave the range of the dtype. If one kind is impossible, the other kinds take its share. Of
        at most 256 numbers, each is equally likely; so are the whole numbers of an interval that has only these.

    Raises
    ------
    ValueError
        If the interval holds no number of the dtype, or an argument is not a number.

    Examples
    --------
    >>> from hypothesis import find
    >>> from gtape.declare.domains import POSITIVE
    >>> 2 < find(floats_for(POSITIVE, "float32"), lambda x: x > 2) <= 4
    True
    """
    return _drawn("floats_for", interval, _dtype(dtype), special, kinks, magnitude)


def _drawn(
    of: str, interval: Any, dtype: Any, special: Sequence[float], kinks: Sequence[float], magnitude: Any
) -> st.SearchStrategy[float]:
    """The numbers of `floats_for`, for the function that errors about arguments name."""
    if not isinstance(interval, Interval):
        raise ValueError(f"interval must be a gtape.declare.domains.Interval, not {shown(interval)}")
    f = np.finfo(dtype)
    top = float(f.max)
    points = _numbers(of, "special", special) + _numbers(of, "kinks", kinks)
    points += [p for p in (interval.lo, interval.hi, *interval.holes, 0.0) if math.isfinite(p)]
    marks = sorted({float(dtype.type(min(max(p, -top), top))) for p in points}, key=lambda p: (abs(p), p < 0))
    pair = (0.0, math.inf) if magnitude is None else magnitude
    lo, hi = pair if isinstance(pair, (tuple, list)) and len(pair) == 2 else (None, None)
    if not (isinstance(lo, (int, float)) and isinstance(hi, (int, float)) and 0 <= lo < hi):
        raise ValueError(
            f"magnitude is a pair (smallest, largest) with 0 <= smallest < largest, not {shown(magnitude)}"
        )

    places = _pieces(interval, (lo, hi), dtype)
    only_zero = bool(lo) and places == [(0, 0)] != _pieces(interval, (0.0, math.inf), dtype)
    if not places or only_zero:
        kind = f"whole {dtype.name}" if interval.whole else dtype.name
        but = " but 0" if only_zero else ""
        raise ValueError(f"{interval} holds no {kind}{but}" + ("" if magnitude is None else f" of magnitude {pair}"))
    if interval.whole:
        return st.one_of([st.integers(a, b).map(float) for a, b in places])

    def at(place: int) -> float:
        return float(unsteps(place, dtype))

    count = sum(b - a + 1 for a, b in places)
    if count <= _FEW:  # the other ways would mostly miss the interval
        zeros = [-0.0] if any(a <= 0 <= b for a, b in places) else []
        found = sorted([at(n) for a, b in places for n in range(a, b + 1)], key=abs)
        return st.sampled_from([*found[: len(zeros)], *zeros, *found[len(zeros) :]])

    # The mantissa places a number in its binade [2**e, 2**(e+1)).
    def in_binade(sign: int, e: int, mantissa: int) -> float:
        # The conversion rounds, because a subnormal number has fewer digits.
        return sign * float(dtype.type(min(math.ldexp(1 + mantissa / 2**f.nmant, e), top)))

    def neighbour(mark: float, offset: int, flip: bool) -> float:
        x = float(unsteps(steps(np.array(mark), dtype) + offset, dtype))
        return -0.0 if x == 0 and flip else x

    def distant(mark: float, power: int, mantissa: int, below: bool) -> float:
        """A number at a distance of a power of two times the size of a mark other than 0."""
        away = math.ldexp(1 + mantissa / 2**f.nmant, power) * abs(mark)
        with np.errstate(over="ignore"):
            return float(dtype.type(mark - away if below else mark + away))

    # Eighths of a binade first, because short mantissas should be likely, too.
    mantissas = st.one_of(st.integers(0, 7).map(lambda n: n << (f.nmant - 3)), st.integers(0, 2**f.nmant - 1))
    ways: list[st.SearchStrategy[float]] = []  # each strategy stands in the list as often as its share
    sizes = [(_SHARES["moderate"], _MODERATE), (_SHARES["any size"], None)]
    if count < 2**f.nmant:  # less than a binade, which would have many numbers outside
        ways += [st.one_of([st.integers(a, b).map(at) for a, b in places])] * sum(share for share, _ in sizes)
        sizes = []
    for share, near_one in sizes:
        signs = [
            st.builds(in_binade, st.just(sign), st.integers(*ends), mantissas)
            for sign in (1, -1)
            if (ends := _binades(sign, interval.lo, interval.hi, dtype.name, near_one, lo, hi)) is not None
        ]
        ways += [way for way in signs for _ in range(share // len(signs))]

    def drawn(x: float) -> bool:
        return x in interval and math.isfinite(x) and (x == 0 or lo <= abs(x) <= hi)

    # The first way, because examples shrink towards it.
    points = sorted({m for m in (*marks, 1.0) if drawn(m)}, key=lambda p: (p != 0, p != 1, abs(p), p < 0))
    if points:
        ways.insert(0, st.sampled_from(points))
    near = [m for m in marks if _beside(m, drawn, dtype)]
    alone = [x for m in marks if m not in near and drawn(m) for x in ((m, -m) if m == 0 else (m,))]
    if alone:  # for example 0, if no other number is as small
        ways += [st.sampled_from(alone)] * (1 if near else _SHARES["near"] // 2)
    if near:
        offsets = st.one_of(st.integers(-1, 1), st.integers(-NEIGHBOURS, NEIGHBOURS))
        share = _SHARES["near"] - bool(points)
        ways += [st.builds(neighbour, st.sampled_from(near), offsets, st.booleans())] * share
    far = [m for m in marks if m != 0]
    if far:
        apart = st.builds(distant, st.sampled_from(far), st.integers(-int(f.nmant), 0), mantissas, st.booleans())
        ways += [apart] * _SHARES["apart"]
    edges = [e for e in saturation(dtype) if drawn(float(dtype.type(e)))]
    if edges:
        offsets = st.integers(-NEIGHBOURS, NEIGHBOURS)
        ways += [st.builds(neighbour, st.sampled_from(edges), offsets, st.just(False))] * _SHARES["edges"]
    return st.one_of(ways).filter(drawn)


# Of 32 numbers, how many are drawn in each way; the first two are shared among the signs.
_SHARES = {"moderate": 12, "any size": 6, "near": 8, "apart": 4, "edges": 2}


_FEW = 4 * NEIGHBOURS  # an interval with as many numbers gives each of them equally often


def _pieces(interval: Interval, sizes: tuple[float, float], dtype: Any) -> list[tuple[int, int]]:
    """The numbers of an interval that are zero or of a size between two sizes, as ranges of integers.

    The integers are the numbers themselves if the interval has only whole ones, and their `steps` otherwise. The range
    with the smallest number comes first.
    """
    most = 2 ** int(np.finfo(dtype).nmant) if interval.whole else int(steps(np.finfo(dtype).max, dtype))

    def first(x: float, beyond: bool) -> int:
        """The integer of the first number at or above x, or above x only."""
        if abs(x) == math.inf:
            return int(math.copysign(most + 1, x))
        if interval.whole:
            n = math.ceil(x)
            return n + (beyond and n == x)
        with np.errstate(over="ignore"):
            n = int(steps(np.asarray(x, dtype), dtype))
        while abs(n) <= most and ((y := float(unsteps(n, dtype))) < x or (beyond and y == x)):
            n += 1
        return n

    least, largest = max(first(sizes[0], False), 0), min(-first(-sizes[1], False), most)
    lower, upper = first(interval.lo, interval.open_lo), -first(-interval.hi, interval.open_hi)
    holes = sorted({first(h, False) for h in interval.holes if first(h, False) == -first(-h, False)})
    found = []
    for a, b in [(0, 0), (least, largest), (-largest, -least)] if least else [(-largest, largest)]:
        a, b = max(a, lower), min(b, upper)
        for hole in holes:
            if a <= hole <= b:
                found.append((a, hole - 1))
                a = hole + 1
        found.append((a, b))
    return sorted([(a, b) for a, b in found if a <= b], key=lambda p: 0 if p[0] <= 0 <= p[1] else min(map(abs, p)))


def _beside(mark: float, drawn: Callable[[float], bool], dtype: Any) -> bool:
    """Whether a number near a mark may be drawn."""
    return any(drawn(float(unsteps(steps(np.array(mark), dtype) + d, dtype))) for d in (-1, 1))


@diagnosed
def shapes(*, max_dims: int = 2, max_side: int = 3) -> st.SearchStrategy[tuple[int, ...]]:
    """Small shapes, including scalars and axes of length 1.

    Parameters
    ----------
    max_dims, max_side : int, keyword only
        The most axes, and the greatest length of an axis.

    Returns
    -------
    SearchStrategy of tuple of int

    Raises
    ------
    ValueError
        For a negative number of axes, or a length below 1.

    Examples
    --------
    >>> from hypothesis import given
    >>> from gtape.verify import strategies
    >>> @given(strategies.shapes(max_dims=1))
    ... def test(shape):
    ...     assert shape in [(), (1,), (2,), (3,)]
    >>> test()
    """
    for name, value in (("max_dims", max_dims), ("max_side", max_side)):
        if isinstance(value, bool):  # Python's whole numbers include True
            raise ValueError(f"{name} is a whole number, not {value}")
    max_dims, max_side = whole("shapes", "max_dims", max_dims), whole("shapes", "max_side", max_side)
    if max_dims < 0 or max_side < 1:
        raise ValueError(f"max_dims is at least 0 and max_side at least 1, not {max_dims} and {max_side}")
    return st.lists(st.integers(1, max_side), max_size=max_dims).map(tuple)


def _array(elements: st.SearchStrategy[float], shape: tuple[int, ...], dtype: Any) -> st.SearchStrategy[np.ndarray]:
    size = math.prod(shape)
    return st.lists(elements, min_size=size, max_size=size).map(lambda v: np.array(v, dtype=dtype).reshape(shape))


@diagnosed
def tensors(
    dtype: Any = "float64", *, shape: tuple[int, ...] | st.SearchStrategy[Any] | None = None,
    interval: Interval = ANY_REAL, special: Sequence[float] = (), kinks: Sequence[float] = (),
    magnitude: tuple[float, float] | None = (2.0**-20, 2.0**20),
) -> st.SearchStrategy[Any]:  # fmt: skip
    """Tensors with numbers of an interval.

    Parameters
    ----------
    dtype : "float64", "float32" or "float16"
    shape : tuple of int or a strategy for one, keyword only
        Small shapes by default.
    interval, special, kinks, magnitude : keyword only
        As for `floats_for`; by default zeros, and magnitudes from 2**-20 to 2**20.

    Returns
    -------
    SearchStrategy of Tensor

    Raises
    ------
    ValueError
        If `shape` is neither a shape nor a strategy, and as for `floats_for`. If a strategy draws something else than a
        shape, the error comes in the test.

    Examples
    --------
    >>> from hypothesis import given
    >>> from gtape.verify import strategies
    >>> @given(strategies.tensors("float32", shape=(2,)))
    ... def test(x):
    ...     assert x.shape == (2,) and x.dtype == "float32"
    >>> test()
    """
    dtype = _dtype(dtype)
    if shape is None:
        where: st.SearchStrategy[Any] = shapes()
    else:
        where = shape if isinstance(shape, st.SearchStrategy) else st.just(_lengths(shape))
    return _tensors(where, _kept_floats(interval, dtype, special, kinks, magnitude), dtype)


@st.composite
def _tensors(
    draw: Callable[..., Any], where: st.SearchStrategy[Any], elements: st.SearchStrategy[float], dtype: Any
) -> Any:
    from gtape.tensors.tensor import wrap

    return wrap(draw(_array(elements, _lengths(draw(where)), dtype)))


def _lengths(shape: Any) -> tuple[int, ...]:
    try:
        if isinstance(shape, (tuple, list)) and any(isinstance(n, (bool, np.bool_)) for n in shape):
            raise TypeError("a truth value is no length")
        return checked_shape("tensors", "shape", shape, whole=True)
    except (TypeError, ValueError):
        raise ValueError(
            f"tensors: `shape` is a tuple of lengths, each at least 0, or a strategy for one, not {shown(shape)}"
        ) from None


def _kept_floats(interval: Any, dtype: Any, special: Any, kinks: Any, magnitude: Any) -> st.SearchStrategy[float]:
    """`floats_for`, kept for tuples of floats, because Hypothesis validates each new strategy, which takes long."""
    plain = isinstance(interval, Interval) and all(type(v) is tuple for v in (special, kinks, magnitude or ()))
    if plain and all(type(v) is float for v in (*special, *kinks, *(magnitude or ()))):
        # 0.0 equals -0.0, but not as a number to draw.
        signs = tuple(math.copysign(1.0, v) for v in (*special, *kinks, *(magnitude or ())))
        return _floats(interval, dtype, special, kinks, magnitude, signs)
    return _drawn("tensors", interval, dtype, special, kinks, magnitude)


@lru_cache(maxsize=64)
def _floats(
    interval: Interval, dtype: Any, special: Any, kinks: Any, magnitude: Any, signs: tuple[float, ...]
) -> st.SearchStrategy[float]:
    return _drawn("tensors", interval, dtype, special, kinks, magnitude)


def _written(v: Any) -> str:
    """The source of an argument of a call."""
    if isinstance(v, np.dtype):
        return f"np.dtype({v.name!r})"
    if isinstance(v, float) and not math.isfinite(v):
        return f"float({str(float(v))!r})"
    if type(v) in (tuple, list):
        inside = ", ".join(map(_written, v))
        return f"[{inside}]" if type(v) is list else f"({inside},)" if len(v) == 1 else f"({inside})"
    if isinstance(v, (np.ndarray, np.generic)):
        if not v.size:  # the list of an empty array has no shape
            return f"np.empty({v.shape}, {v.dtype.name!r})"
        return f"np.array({_written(v.tolist())}, {v.dtype.name!r})"
    return repr(v)


class Call:
    """One call of a primitive: ``prim(*map(tf.constant, arrays), **params)``. ``check(call)`` checks the call.

    Without arguments, the call runs the op. The call is also a function of its floating-point arguments; the other
    arguments, such as indices and conditions, stay fixed. So `check`, `exact` and `judge` take ``call, *call.point``.

    Attributes
    ----------
    prim : Primitive
    arrays : tuple of ndarray
        All arguments.
    params : dict
        The static parameters.
    point : tuple of ndarray
        The arguments to differentiate by.

    Examples
    --------
    >>> import gtape, numpy as np
    >>> from gtape.declare.primitives import REGISTRY
    >>> from gtape.verify.strategies import Call
    >>> import gtape.ops.elementwise.exponential
    >>> call = Call(REGISTRY["exp"], [np.zeros(2)], {})
    >>> call, call().numpy()
    (exp(np.array([0.0, 0.0], 'float64')), array([1., 1.]))
    >>> gtape.verify.check(call, order=2).verdict
    'correct'
    """

    __slots__ = ("arrays", "params", "prim")

    def __init__(self, prim: Primitive, arrays: Sequence[Any], params: dict[str, Any]) -> None:
        if not isinstance(prim, Primitive):
            raise ValueError(f"prim is a Primitive, not {shown(prim)}")
        self.prim, self.arrays = prim, tuple(each(self, "arrays", arrays, "a list of arrays"))
        wrong = [a for a in self.arrays if not isinstance(a, (np.ndarray, np.generic))]
        if wrong:
            raise TypeError(f"Call: `arrays` must be a list of NumPy arrays, not of {shown(wrong[0])}")
        self.params = settings(self, params, "params")

    def __repr__(self) -> str:
        inside = [_written(a) if a.size <= _SHOWN_WHOLE else shown(a) for a in self.arrays]
        try:
            named = [f"{k}={_written(v)}" for k, v in self.params.items()]
        except RecursionError:  # a parameter is nested deeper than Python's own `repr` goes
            named = [f"{k}={shown(v)}" for k, v in self.params.items()]
        return f"{self.prim.name}({', '.join([*inside, *named])})"

    def _moving(self) -> list[int]:
        """The numbers of the arguments to differentiate by."""
        prim = self.prim
        return [
            i
            for i, a in enumerate(self.arrays)
            if a.dtype.kind in "fc" and (prim.variadic or (prim.connected(i) and i not in prim.missing))
        ]

    @property
    def point(self) -> tuple[Any, ...]:
        """The arguments to differentiate by: the floating-point ones by which the op has a derivative."""
        return tuple([self.arrays[i] for i in self._moving()])

    def __call__(self, *point: Any) -> Any:
        """The result of the op, with other arguments in the place of `point`."""
        from gtape.tensors.tensor import wrap

        moving = self._moving()
        if point and len(point) != len(moving):
            raise TypeError(f"{self.prim.name} is a function of {len(moving)} arguments here, not of {len(point)}")
        values: list[Any] = [wrap(a) for a in self.arrays]
        for i, x in zip(moving, point, strict=False):
            values[i] = x
        return self.prim.function(*values, **self.params)


@st.composite
def _broadcasting(draw: Callable[..., Any], n: int) -> list[tuple[int, ...]]:
    """Shapes that broadcast against each other."""
    whole = draw(shapes())
    found = []
    for _ in range(n):
        kind = draw(st.integers(0, 3))
        if kind <= 1 or not whole:
            found.append(whole)
        elif kind == 2:
            found.append(whole[draw(st.integers(0, len(whole))) :])
        else:
            found.append(tuple(1 if draw(st.booleans()) else side for side in whole))
    return found


@cache
def _elements(prim: Primitive, i: int, dtype: Any) -> st.SearchStrategy[float]:
    special = [*landmarks(prim, i, dtype), *(_roots(prim) if prim.arity == 1 else ())]
    return floats_for(prim.domain.intervals[i], dtype, special=special)


@cache
def _roots(prim: Primitive) -> tuple[float, ...]:
    """Numbers near the roots of the first and second derivative of an op of one argument, of moderate size."""
    interval = prim.domain.intervals[0]
    if interval.whole:
        return ()
    xs = np.linspace(max(interval.lo, -10.0), min(interval.hi, 10.0), 401)[1:-1] + 1e-3
    xs = np.array([x for x in xs.tolist() if x in interval])
    found: list[float] = []
    subject = subjects([prim.name])[0]

    def first(x: Any) -> Any:
        return subject.first([x])[(0,)]

    def second(x: Any) -> Any:
        return subject.second([x])[(0, 0)]

    with np.errstate(all="ignore"):
        for slope in (first, second):
            ys = slope(xs)
            if ys is not None:
                turns = np.flatnonzero(np.sign(ys[1:]) * np.sign(ys[:-1]) < 0)[:_MOST_ROOTS]
                found += [_bisected(slope, float(xs[k]), float(xs[k + 1])) for k in turns.tolist()]
    return tuple(found)


_MOST_ROOTS = 8  # of each derivative


def _bisected(slope: Callable[[Any], Any], left: float, right: float) -> float:
    """A number between two others at which a function changes its sign."""
    sign = np.sign(slope(np.array([left]))[0])
    for _ in range(60):
        middle = (left + right) / 2
        if np.sign(slope(np.array([middle]))[0]) == sign:
            left = middle
        else:
            right = middle
    return right


@st.composite
def _elementwise(draw: Callable[..., Any], prim: Primitive, dtype: Any) -> Call:
    subject = draw(st.sampled_from(subjects([prim.name])))
    sizes = draw(_broadcasting(prim.arity))
    arrays: list[np.ndarray] = []
    for i, (shape, interval) in enumerate(zip(sizes, prim.domain.intervals, strict=True)):
        if interval is BOOLEAN:
            arrays.append(draw(_array(st.booleans(), shape, np.bool_)))
            continue
        elements = _elements(prim, i, dtype)
        tied = [float(v) for a in arrays if a.dtype.kind == "f" for v in a.ravel()]
        ties = [v for v in tied if v in interval]
        if ties:
            elements = st.one_of(elements, st.sampled_from(ties))
        arrays.append(draw(_array(elements, shape, dtype)))
    return Call(prim, arrays, subject.params)


@cache
def _plain_numbers(interval: Interval, dtype: Any) -> st.SearchStrategy[float]:
    """Moderate numbers of an interval, or any numbers if it has no moderate ones; whole numbers often."""
    try:
        numbers = floats_for(interval, dtype, magnitude=(2.0**-6, 2.0**6))
    except ValueError:
        numbers = floats_for(interval, dtype)
    whole = [float(n) for n in (0, 1, -1, 2, -2, 3, -3) if n in interval]
    return st.one_of(st.sampled_from(whole), numbers) if whole else numbers


@st.composite
def _by_sample(draw: Callable[..., Any], prim: Primitive, dtype: Any) -> Call:
    if not prim.samples:
        raise ValueError(
            f"{prim.name} declares no samples, so its arguments are unknown: declare samples=((shapes, params), ...)"
        )
    sample, params = draw(st.sampled_from(prim.samples))
    arrays = []
    for i, given in enumerate(sample):
        if isinstance(given, np.ndarray) and given.dtype.kind in "biu":
            arrays.append(given)
        else:
            elements = _plain_numbers(prim.domain.interval(i), dtype)
            arrays.append(draw(_array(elements, given.shape if isinstance(given, np.ndarray) else tuple(given), dtype)))
    arrays = fitted(prim, arrays)
    if not usable(prim, arrays, params):
        arrays = [
            dominated(a) if a.ndim >= 2 and a.shape[-1] == a.shape[-2] and a.dtype.kind == "f" else a for a in arrays
        ]
    return Call(prim, fitted(prim, arrays), params)


@diagnosed
def arguments(prim: Primitive | str, dtype: Any = "float64", *, steep: bool = False) -> st.SearchStrategy[Call]:
    """Calls of one primitive inside its domain, where it has a derivative.

    Parameters
    ----------
    prim : Primitive or str
        An elementwise primitive gets shapes that broadcast and numbers of its domain, including ties between arguments;
        any other one gets arrays of its declared samples' shapes, with moderate numbers.
    dtype : "float64", "float32" or "float16"
    steep : bool, keyword only
        Whether to draw points of the domain without a first derivative, too, such as 0 for `sqrt`. Higher derivatives
        may be missing at points with a first one.

    Returns
    -------
    SearchStrategy of Call
        ``check(call)`` takes each of them. Each has ``.arrays``, ``.params`` and ``.point``; calling it runs the op.

    Raises
    ------
    ValueError
        For an unknown name, a primitive without a derivative, or another dtype.

    Examples
    --------
    >>> from hypothesis import find
    >>> find(arguments("relu"), lambda call: call.arrays[0].size > 1)
    relu(np.array([0.0, 0.0], 'float64'))
    """
    catalogue.load()
    if isinstance(prim, str):
        if prim not in REGISTRY:
            raise ValueError(f"there is no primitive named {shown(prim)}; {similar(prim, REGISTRY)}")
        prim = REGISTRY[prim]
    if not isinstance(prim, Primitive):
        raise ValueError(f"prim is a Primitive or the name of one, not {shown(prim)}")
    if not prim.differentiable:
        raise ValueError(f"{prim.name} is not differentiable, so there is no derivative to test")
    dtype = _dtype(dtype)
    if prim.kind != "elementwise":
        return _by_sample(prim, dtype).filter(lambda c: usable(c.prim, c.arrays, c.params))
    calls = _elementwise(prim, dtype)
    if prim.domain.where is not None:
        calls = calls.filter(_in_domain)
    return calls if flag("arguments", "steep", steep) else calls.filter(_has_slopes)


def _points(call: Call) -> Iterator[tuple[Any, ...]]:
    """The arguments of each element of an elementwise call."""
    return zip(*[c.ravel().tolist() for c in np.broadcast_arrays(*call.arrays)], strict=True)


def _in_domain(call: Call) -> bool:
    return all(p in call.prim.domain for p in _points(call))


def _has_slopes(call: Call) -> bool:
    """Whether an elementwise op has a derivative at all elements of a call.

    Only declared points may lack one: ends of the domain, special points, kinks and zeros. A rule that is infinite
    anywhere else is wrong, and checks of drawn calls must find that.
    """
    prim = call.prim
    if not call.point:
        return True
    dtype = call.point[0].dtype
    params = tuple(call.params.items())
    marks = [frozenset(landmarks(prim, i, dtype)) for i in range(prim.arity)]
    has_corners = any(isinstance(kink, str) for kink in prim.kinks)  # a condition on several arguments
    for point in _points(call):
        declared = [x in known for x, known in zip(point, marks, strict=True)]
        if not any(declared):
            continue
        if (
            (has_corners and all(declared))
            or _is_at_an_end(prim.domain, point, dtype)
            or _is_steep(prim, point, dtype, call.params)
        ):
            signs = tuple(math.copysign(1.0, x) for x in point)  # -0.0 equals 0.0, but may lie on another side
            if not _has_slope(prim, (prim.kernel, prim.partials), point, signs, dtype, params):
                return False
    return True


def _is_steep(prim: Primitive, point: tuple[Any, ...], dtype: Any, params: dict[str, Any]) -> bool:
    """Whether a rule of a primitive gives an infinite slope or NaN in floats."""
    subject = Subject(prim, params)
    slopes = subject.first(subject.arguments([np.asarray([x]) for x in point], dtype))
    return not all(np.isfinite(s).all() for s in slopes.values() if s is not None)


def _is_at_an_end(domain: Domain, point: tuple[Any, ...], dtype: Any) -> bool:
    """Whether a number next to one of the arguments lies outside of the domain."""
    for i, (x, interval) in enumerate(zip(point, domain.intervals, strict=True)):
        if isinstance(x, bool) or interval.whole:
            continue
        for beyond in (-math.inf, math.inf):
            with np.errstate(over="ignore"):  # of the largest number
                next_to = float(np.nextafter(dtype.type(x), dtype.type(beyond)))
            if (*point[:i], next_to, *point[i + 1 :]) not in domain:
                return True
    return False


@lru_cache(maxsize=4096)  # ends are drawn often, and a check takes long
def _has_slope(
    prim: Primitive, rules: Any, point: tuple[Any, ...], signs: tuple[float, ...], dtype: Any, params: Any
) -> bool:
    """Whether a primitive with these rules has a derivative at one point."""
    arrays = [np.asarray(x, np.bool_ if isinstance(x, bool) else dtype) for x in point]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return check(Call(prim, arrays, dict(params))).verdict != "domain"


@diagnosed
def op_calls(
    names: Sequence[str] | None = None, dtype: Any = "float64", *, steep: bool = False
) -> st.SearchStrategy[Call]:
    """Calls of any differentiable primitive, where it has a derivative.

    Parameters
    ----------
    names : sequence of str, optional
        Only these primitives.
    dtype : "float64", "float32" or "float16"
    steep : bool, keyword only
        As for `arguments`.

    Returns
    -------
    SearchStrategy of Call
        ``check(call)`` takes each call as it is; arguments that are not floating-point stay fixed.

    Raises
    ------
    ValueError
        For an empty list, or an unknown name.

    Examples
    --------
    >>> import gtape
    >>> from hypothesis import given, settings
    >>> from gtape.verify import strategies
    >>> @settings(max_examples=5, deadline=None)
    ... @given(strategies.op_calls(["exp", "sin"]))
    ... def test(call):
    ...     assert gtape.verify.check(call, order=2).ok
    >>> test()
    """
    catalogue.load()
    if isinstance(names, str):
        raise ValueError(f"names is a sequence of names; write [{names!r}]")
    chosen = (
        [p.name for p in REGISTRY.values() if p.differentiable]
        if names is None
        else each("op_calls", "names", names, "a list of names")
    )
    if not chosen:
        raise ValueError("names is empty: there is nothing to draw")
    calls = {name: arguments(name, dtype, steep=steep) for name in chosen}  # raises before any draw
    return st.sampled_from(chosen).flatmap(lambda name: calls[name])
