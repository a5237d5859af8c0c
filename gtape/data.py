"""``gtape.data``: the part of ``tf.data`` for training loops; elements are made one by one, in the calling thread."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from gtape import nest
from gtape.base.shown import shown
from gtape.base.tensor_spec import TensorSpec
from gtape.errors import InvalidArgumentError, ShapeError
from gtape.tensors import argument_checks as checks
from gtape.tensors.tensor import Tensor, announce, convert_to_tensor, is_tensor, number_read, wrap

__all__ = ["AUTOTUNE", "INFINITE_CARDINALITY", "UNKNOWN_CARDINALITY", "Dataset"]

# Ignored arguments, with which TensorFlow tunes its speed.
AUTOTUNE = -1
INFINITE_CARDINALITY = -1
UNKNOWN_CARDINALITY = -2

__dir__ = __all__.copy  # the names for `dir`, which sorts them


def _element(x: Any) -> Any:
    """An element with tensors as leaves. Only tuples and dicts are structures; lists become tensors."""
    try:
        return _tensors(x)
    except RecursionError:
        raise ValueError("an element of a dataset holds itself, or is nested too deep") from None


def _tensors(x: Any) -> Any:
    if isinstance(x, tuple):
        parts = [_tensors(y) for y in x]
        return type(x)(*parts) if hasattr(x, "_fields") else tuple(parts)
    if isinstance(x, dict):
        return {k: _tensors(v) for k, v in x.items()}
    return x if isinstance(x, Tensor) else convert_to_tensor(x)


def _mapped(f: Callable[..., Any], *xs: Any) -> Any:
    return nest.map_structure(f, *xs) if isinstance(xs[0], (tuple, dict)) else f(*xs)


def _called(f: Callable[..., Any], x: Any) -> Any:
    return f(*x) if isinstance(x, tuple) and not hasattr(x, "_fields") else f(x)


def _stacked(parts: list[Any]) -> Any:
    def one(*tensors: Tensor) -> Tensor:
        shapes = {t._layout.shape for t in tensors}
        if len(shapes) > 1:
            raise ValueError(f"batch: elements of shapes {sorted(shapes)} cannot be stacked; use padded data")
        return announce(wrap(np.stack([np.asarray(number_read(t)) for t in tensors])))

    return _mapped(one, *parts)


class Dataset:
    """A sequence of tensors, or tuples or dicts of tensors, which can be iterated repeatedly.

    Made by `from_tensor_slices`, `from_tensors`, `from_generator`, `range` or `zip`.

    Attributes
    ----------
    element_spec : TensorSpec or structure of these
        Describes the first element.

    Examples
    --------
    >>> import gtape as tf
    >>> points = tf.data.Dataset.from_tensor_slices(([[1.0], [2.0], [3.0]], [0, 1, 0]))
    >>> for x, y in points.map(lambda x, y: (10.0 * x, y)).batch(2):
    ...     print(x.numpy().tolist(), y.numpy().tolist())
    [[10.0], [20.0]] [0, 1]
    [[30.0]] [0]
    """

    def __init__(self, make: Callable[[], Iterator[Any]], size: int, open_batch: bool = False) -> None:
        checks.function(self, "make", make)
        self._make = make
        self._size = checks.whole(self, "size", size)  # negative: INFINITE_CARDINALITY or UNKNOWN_CARDINALITY
        self._open_batch = open_batch  # whether the last batch may be shorter
        self._spec: Any = None  # the kind of the elements, if the caller gave it

    def __copy__(self) -> Dataset:
        return self  # because nothing changes a dataset

    def __deepcopy__(self, memo: Any) -> Dataset:
        return self

    def __reduce__(self) -> Any:
        raise TypeError("a Dataset cannot be pickled, because it holds functions: pickle its tensors, list(dataset)")

    # -------------------------------------------------------------------------------------- sources

    @staticmethod
    def from_tensor_slices(tensors: Any, name: str | None = None) -> Dataset:
        """One element for each row of tensors.

        Parameters
        ----------
        tensors : tensor or structure of tensors with the same number of rows

        Raises
        ------
        ValueError
            For scalars, or different numbers of rows.
        """
        whole = _element(tensors)
        flat = nest.flatten(whole) if isinstance(whole, (tuple, dict)) else [whole]
        rows = {t._layout.shape[0] if t._layout.shape else -1 for t in flat}
        if -1 in rows or len(rows) != 1:
            raise ValueError(
                f"from_tensor_slices needs tensors with the same number of rows, got shapes {[t.shape for t in flat]}"
            )
        (n,) = rows
        values = _mapped(lambda t: np.asarray(number_read(t)), whole)
        return Dataset(lambda: (_mapped(lambda v, i=i: announce(wrap(v[i])), values) for i in range(n)), n)

    @staticmethod
    def from_tensors(tensors: Any, name: str | None = None) -> Dataset:
        """A single element."""
        whole = _element(tensors)
        return Dataset(lambda: iter([whole]), 1)

    @staticmethod
    def from_generator(
        generator: Callable[..., Iterable[Any]], output_types: Any = None, output_shapes: Any = None, args: Any = None,
        output_signature: Any = None, name: str | None = None,
    ) -> Dataset:  # fmt: skip
        """The elements that a generator function yields.

        Parameters
        ----------
        generator : callable
            Called with `args` at the start of each iteration over the dataset.
        output_types, output_signature : dtype or TensorSpec, or structure of these, optional
            The dtypes of the elements, and their shapes in a TensorSpec.
        output_shapes : shape or structure of these, optional
            The shapes of elements of `output_types`. An iteration raises InvalidArgumentError for other elements.
        args : tuple, optional
        """
        checks.function("from_generator", "generator", generator)
        given = () if args is None else checks.each("from_generator", "args", args, "a tuple")
        kinds = None
        if output_signature is not None or output_types is not None:
            kinds = _specs(output_types if output_signature is None else output_signature, output_shapes)

        def make() -> Iterator[Any]:
            made = generator(*given)
            try:
                elements = iter(made)
            except TypeError:
                said = shown(made)
                raise TypeError(f"from_generator: `generator` must return an iterable, not {said}") from None
            for x in elements:
                yield _element(x) if kinds is None else _fitting(kinds, x)

        made = Dataset(make, UNKNOWN_CARDINALITY)
        made._spec = kinds
        return made

    @staticmethod
    def range(*args: int, output_type: Any = "int64", name: str | None = None) -> Dataset:
        """The numbers of Python's `range`, as tensors."""
        if not 1 <= len(args) <= 3:
            raise ValueError(f"Invalid `args`: Dataset.range takes one to three integers. Received: {len(args)}")
        bounds = [checks.whole("Dataset.range", name, v) for name, v in zip(_BOUNDS[len(args)], args, strict=True)]
        if len(bounds) == 3 and bounds[2] == 0:
            raise ValueError("Dataset.range: `step` must not be 0")
        if checks.dtype("Dataset.range", output_type, "output_type").kind not in "iufV":
            raise TypeError(f"Dataset.range: `output_type` must be a type of real numbers, not {output_type}")
        numbers = range(*bounds)
        if abs(numbers.stop - numbers.start) > sys.maxsize:
            raise ValueError(f"Dataset.range: there are more numbers in {numbers} than can be counted")
        return Dataset(lambda: (convert_to_tensor(i, output_type) for i in numbers), len(numbers))

    @staticmethod
    def zip(*args: Any, datasets: Any = None, name: str | None = None) -> Dataset:
        """The elements of several datasets side by side, until one of them ends."""
        parts = datasets if datasets is not None else args[0] if len(args) == 1 else args
        for d in nest.flatten(parts) or [None]:
            _check_dataset("zip", d)
        sizes = [d._size for d in nest.flatten(parts)]
        ends = [n for n in sizes if n != INFINITE_CARDINALITY]
        size = UNKNOWN_CARDINALITY if UNKNOWN_CARDINALITY in sizes else min(ends, default=INFINITE_CARDINALITY)

        def make() -> Iterator[Any]:
            for flat in zip(*nest.flatten(parts), strict=False):
                yield nest.pack_sequence_as(parts, list(flat)) if nest.is_nested(parts) else flat[0]

        return Dataset(make, size)

    # -------------------------------------------------------------------------------------- transformations

    def _like(self, make: Callable[[], Iterator[Any]], size: int | None = None) -> Dataset:
        return Dataset(make, self._size if size is None else size, self._open_batch)

    def map(
        self, map_func: Callable[..., Any], num_parallel_calls: Any = None, deterministic: Any = None, **more: Any
    ) -> Dataset:
        """The results of a function of each element; a tuple is passed as several arguments."""
        checks.function("map", "map_func", map_func)
        return self._like(lambda: (_element(_called(map_func, x)) for x in self))

    def filter(self, predicate: Callable[..., Any], name: str | None = None) -> Dataset:
        """The elements for which a function is true."""
        checks.function("filter", "predicate", predicate)

        def kept(x: Any) -> bool:
            found = _called(predicate, x)
            if is_tensor(found) and found.dtype == "bool" and not found._layout.shape:
                return bool(found)
            if isinstance(found, (bool, np.bool_)):
                return bool(found)
            raise ValueError(
                f"Invalid `predicate`. `predicate` must return a bool scalar tensor, but it returned {shown(found)}"
            )

        return self._like(lambda: (x for x in self if kept(x)), UNKNOWN_CARDINALITY)

    def batch(
        self, batch_size: Any, drop_remainder: bool = False, num_parallel_calls: Any = None, **more: Any
    ) -> Dataset:
        """Several elements stacked; the last batch may be shorter unless it is dropped."""
        n = checks.whole("batch", "batch_size", batch_size)
        if n < 1:
            raise ShapeError(f"batch: `batch_size` must be a positive integer. Received: batch_size={n}")
        drop_remainder = checks.flag("batch", "drop_remainder", drop_remainder)

        def make() -> Iterator[Any]:
            elements = iter(self)
            while parts := list(itertools.islice(elements, n)):
                if len(parts) == n or not drop_remainder:
                    yield _stacked(parts)

        size = self._size if self._size < 0 else self._size // n if drop_remainder else -(-self._size // n)
        return Dataset(make, size, not drop_remainder)

    def unbatch(self, name: str | None = None) -> Dataset:
        """The rows of each element."""

        def make() -> Iterator[Any]:
            for x in self:
                yield from Dataset.from_tensor_slices(x)

        return Dataset(make, UNKNOWN_CARDINALITY)

    def shuffle(
        self, buffer_size: Any, seed: Any = None, reshuffle_each_iteration: bool = True, name: str | None = None
    ) -> Dataset:
        """Random order: each element is drawn from the next `buffer_size` ones.

        Parameters
        ----------
        buffer_size : int
            The number of elements for a complete shuffle.
        seed : int, optional
            As for `gtape.random`; `gtape.random.set_seed` makes orders repeat.
        reshuffle_each_iteration : bool
            Draw a new order for each iteration.
        """
        n = checks.whole("shuffle", "buffer_size", buffer_size, least=1)
        seed = None if seed is None else checks.whole("shuffle", "seed", seed)
        reshuffle_each_iteration = checks.flag("shuffle", "reshuffle_each_iteration", reshuffle_each_iteration)
        fixed = None if reshuffle_each_iteration else drawn(seed)

        def make() -> Iterator[Any]:
            rng = np.random.default_rng(drawn(seed) if fixed is None else fixed)
            elements = iter(self)
            waiting = list(itertools.islice(elements, n))
            for x in elements:
                i = int(rng.integers(len(waiting)))
                waiting[i], chosen = x, waiting[i]
                yield chosen
            yield from (waiting[i] for i in rng.permutation(len(waiting)))

        return self._like(make)

    def repeat(self, count: Any = None, name: str | None = None) -> Dataset:
        """The elements several times over; endlessly by default."""
        times = -1 if count is None else checks.whole("repeat", "count", count)
        n = None if times < 0 else times

        def make() -> Iterator[Any]:
            for _ in itertools.count() if n is None else range(n):
                empty = True
                for x in self:
                    empty = False
                    yield x
                if empty:
                    return

        endless = INFINITE_CARDINALITY if self._size else 0
        return self._like(make, endless if n is None else self._size * n if self._size >= 0 else self._size)

    def take(self, count: Any, name: str | None = None) -> Dataset:
        """The first elements; all of them for -1."""
        n = checks.whole("take", "count", count)
        if n < 0:
            return self
        size = n if self._size == INFINITE_CARDINALITY else self._size if self._size < 0 else min(n, self._size)
        return self._like(lambda: itertools.islice(iter(self), n), size)

    def skip(self, count: Any, name: str | None = None) -> Dataset:
        """The elements after the first `count`; none for -1."""
        n = checks.whole("skip", "count", count)
        if n < 0:
            return self.take(0)
        size = self._size if self._size < 0 else max(self._size - n, 0)
        return self._like(lambda: itertools.islice(iter(self), n, None), size)

    def concatenate(self, dataset: Dataset, name: str | None = None) -> Dataset:
        """The elements of this dataset, then those of another."""
        _check_dataset("concatenate", dataset)
        sizes = (self._size, dataset._size)
        size = INFINITE_CARDINALITY if INFINITE_CARDINALITY in sizes else sum(sizes) if min(sizes) >= 0 else -2
        return Dataset(lambda: itertools.chain(self, dataset), size, self._open_batch or dataset._open_batch)

    def enumerate(self, start: int = 0, name: str | None = None) -> Dataset:
        """Pairs of a number, an int64, and an element."""
        first = checks.whole("enumerate", "start", start)
        return Dataset(lambda: ((convert_to_tensor(i, "int64"), x) for i, x in enumerate(self, first)), self._size)

    def cache(self, filename: str = "", name: str | None = None) -> Dataset:
        """The same elements, kept in memory after the first complete iteration."""
        checks.text("cache", "filename", filename)
        kept: list[list[Any]] = []

        def make() -> Iterator[Any]:
            if kept:
                yield from kept[0]
                return
            seen = []
            for x in self:
                seen.append(x)
                yield x
            kept[:] = [seen]

        return self._like(make)

    def prefetch(self, buffer_size: Any = AUTOTUNE, name: str | None = None) -> Dataset:
        """The dataset itself, because elements are made in the calling thread."""
        return self

    def with_options(self, options: Any, name: str | None = None) -> Dataset:
        """The dataset itself, because no option exists."""
        return self

    # -------------------------------------------------------------------------------------- iteration

    def __iter__(self) -> Iterator[Any]:
        return self._make()

    def as_numpy_iterator(self) -> Iterator[Any]:
        """The elements as arrays and NumPy scalars."""
        return (_mapped(lambda t: t.numpy(), x) for x in self)

    def reduce(self, initial_state: Any, reduce_func: Callable[[Any, Any], Any], name: str | None = None) -> Any:
        """One value computed from all elements: ``state = reduce_func(state, element)`` for each element."""
        checks.function("reduce", "reduce_func", reduce_func)
        state = _element(initial_state)
        for x in self:
            state = _element(reduce_func(state, x))
        return state

    def get_single_element(self, name: str | None = None) -> Any:
        """The element of a dataset that has one."""
        found = list(itertools.islice(iter(self), 2))
        if len(found) != 1:
            raise ValueError(f"the dataset has {'no element' if not found else 'more than one'}, not a single one")
        return found[0]

    @property
    def element_spec(self) -> Any:
        if self._spec is not None:
            return self._spec
        first = next(iter(self), None)
        if first is None:
            raise ValueError("the dataset is empty, so its kind of elements is unknown")

        def spec(t: Tensor) -> TensorSpec:
            shape = t.shape.as_list()
            return TensorSpec([None, *shape[1:]] if self._open_batch and shape else shape, t.dtype)

        return _mapped(spec, first)

    def cardinality(self) -> Tensor:
        """The number of elements, an int64: -1 if endless, -2 if unknown."""
        return wrap(np.int64(self._size))

    def __len__(self) -> int:
        if self._size < 0:
            raise TypeError(f"The dataset is {'infinite' if self._size == -1 else 'of unknown length'}.")
        return self._size

    def __bool__(self) -> bool:
        return True

    if not TYPE_CHECKING:  # because a type checker would then accept every name

        def __getattr__(self, name: str) -> Any:
            hint = f"; {_LACKING}" if name in _LEFT_OUT else ""
            raise AttributeError(f"'Dataset' object has no attribute {name!r}{hint}")

    def __repr__(self) -> str:
        return f"<gtape.data.Dataset of {self._size if self._size >= 0 else 'an unknown number of'} elements>"


_LACKING = "gtape does not have this method: a Python generator can do the same, with Dataset.from_generator"
_LEFT_OUT = frozenset({
    "apply", "bucket_by_sequence_length", "flat_map", "ignore_errors", "interleave", "options", "padded_batch",
    "ragged_batch", "rebatch", "rejection_resample", "save", "scan", "shard", "snapshot", "sparse_batch", "take_while",
    "unique", "window",
})  # fmt: skip

# The names of the arguments of `range`, by their number.
_BOUNDS = {1: ("stop",), 2: ("start", "stop"), 3: ("start", "stop", "step")}


def _check_dataset(owner: str, x: Any) -> None:
    if not isinstance(x, Dataset):
        raise TypeError(f"{owner} takes datasets of gtape.data.Dataset, not {shown(x)}")


def _specs(kinds: Any, shapes: Any) -> Any:
    """A TensorSpec for each part of an element, from dtypes or TensorSpecs, and from shapes of the same structure."""
    if isinstance(kinds, (tuple, dict)):
        keys = kinds if isinstance(kinds, dict) else range(len(kinds))
        parts = {k: _specs(kinds[k], None if shapes is None else shapes[k]) for k in keys}
        return parts if isinstance(kinds, dict) else tuple(parts.values())
    if isinstance(kinds, TensorSpec):
        return kinds
    return TensorSpec(shapes, checks.dtype("from_generator", kinds, "output_signature"))


def _fitting(spec: Any, x: Any) -> Any:
    """An element as tensors. InvalidArgumentError unless its structure, dtypes and shapes are as promised."""
    if isinstance(spec, tuple) and isinstance(x, tuple) and len(spec) == len(x):
        return tuple([_fitting(s, part) for s, part in zip(spec, x, strict=True)])
    if isinstance(spec, dict) and isinstance(x, dict) and spec.keys() == x.keys():
        return {k: _fitting(spec[k], x[k]) for k in spec}
    if isinstance(spec, (tuple, dict)):
        raise InvalidArgumentError(
            f"from_generator: `generator` yielded an element that did not match the expected structure {spec}: "
            f"{shown(x)}"
        )
    try:
        made = convert_to_tensor(x, spec.dtype)
    except (TypeError, ValueError) as e:
        raise InvalidArgumentError(
            "from_generator: `generator` yielded an element that could not be converted to the expected type "
            f"{spec.dtype.name}: {e}"
        ) from e
    if not spec.shape.is_compatible_with(made._layout.tensor_shape):
        raise InvalidArgumentError(
            f"from_generator: `generator` yielded an element of shape {made.shape} where an element of shape "
            f"{spec.shape} was expected"
        )
    return made


def drawn(seed: Any) -> int:
    """A seed for a random order, drawn from the program's seeds."""
    from gtape.ops.random.draw_functions import uniform

    return int(uniform([], 0, 2**31 - 1, "int32", seed=seed))


def is_dataset(x: Any) -> bool:
    """Whether Keras iterates over `x` element by element."""
    return isinstance(x, Dataset) or (isinstance(x, Iterator) and not is_tensor(x))
