"""Functions of the rows of tensors: map_fn, vectorized_map, scan, foldl and foldr.

Each of them calls a Python function once for each row, and the tape records the ops of the Python function. Rows of
nests are nests of rows, and results are stacked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from gtape import dtypes, nest
from gtape.base.diagnosis import diagnosed
from gtape.base.docstrings import documented_like
from gtape.base.shown import shown
from gtape.base.tensor_spec import TensorSpec
from gtape.errors import InvalidArgumentError, OutOfRangeError
from gtape.tensors.tensor import Tensor, convert_to_tensor, wrap

__all__ = ["foldl", "foldr", "map_fn", "scan", "vectorized_map"]
NAMESPACES = ()


def _stack(parts: list[Tensor]) -> Tensor:
    from gtape.ops.shape.join import stack

    return stack(parts)


def _callable(fn: Any) -> None:
    if not callable(fn):
        raise TypeError(f"The provided function fn={shown(fn)} is not callable: pass a function of one row")


def _columns(elems: Any, what: str) -> tuple[list[Tensor], int]:
    """The tensors of a nest and their number of rows."""
    flat = [convert_to_tensor(e) for e in nest.flatten(elems)]
    if not flat:
        raise ValueError(f"{what}: elems must be a Tensor or (possibly nested) sequence of Tensors, not {shown(elems)}")
    for t in flat:
        if not t._layout.shape:
            raise ValueError(
                f"{what}: elements in elems must be 1+ dimensional Tensors, not scalars; a list counts as a structure, "
                "so make one tensor of its numbers with gtape.constant"
            )
    rows = {t._layout.shape[0] for t in flat}
    if len(rows) > 1:
        raise ValueError(f"{what}: elems have different numbers of rows: {[t._layout.shape[0] for t in flat]}")
    return flat, rows.pop()


def _row(elems: Any, flat: list[Tensor], i: int) -> Any:
    return nest.pack_sequence_as(elems, [t[i] for t in flat]) if nest.is_nested(elems) else flat[0][i]


def _results(rows: list[list[Tensor]], like: Any, back_prop: bool) -> Any:
    stacked = [_stack(list(column)) for column in zip(*rows, strict=True)]
    return _packed(like, stacked, back_prop)


def _packed(like: Any, flat: list[Tensor], back_prop: bool) -> Any:
    if not back_prop:
        from gtape.tapes.control import stop_gradient

        flat = [stop_gradient(t) for t in flat]
    return nest.pack_sequence_as(like, flat) if nest.is_nested(like) else flat[0]


def _spec(signature: Any) -> TensorSpec:
    return signature if isinstance(signature, TensorSpec) else TensorSpec(None, signature)


@diagnosed
def map_fn(
    fn: Callable[[Any], Any], elems: Any, dtype: Any = None, parallel_iterations: int | None = None,
    back_prop: bool = True, swap_memory: bool = False, infer_shape: bool = True, name: str | None = None,
    fn_output_signature: Any = None,
) -> Any:  # fmt: skip
    """Apply a function to each row, and stack the results.

    Parameters
    ----------
    fn : callable
        Takes one row (a nest of rows if `elems` is a nest), returns a tensor or a nest.
    elems : tensor or nest of tensors, each with at least one axis
    dtype : dtype or nest of dtypes, optional
        The old name of `fn_output_signature`.
    parallel_iterations, swap_memory, infer_shape, name
        Ignored; TensorFlow has them.
    back_prop : bool
        Whether gradients flow back through the function.
    fn_output_signature : dtype, TensorSpec or nest of these, optional
        The dtypes and structure of the results of `fn`; by default those of `elems`.

    Returns
    -------
    tensor or nest
        In the structure of the signature. Each tensor has as many rows as `elems`.

    Raises
    ------
    TypeError, ValueError
        If `fn` is not a function, `elems` have no rows or different numbers of rows, or results have another structure.
    gtape.errors.InvalidArgumentError
        If a result has another dtype than the signature.

    Examples
    --------
    >>> tf.map_fn(lambda row: tf.reduce_sum(row), tf.constant([[1.0, 2.0], [3.0, 4.0]])).numpy()
    array([3., 7.], dtype=float32)
    >>> tf.map_fn(lambda i: i > 1, tf.constant([1, 2]), fn_output_signature=tf.bool).numpy()
    array([False,  True])
    """
    _callable(fn)
    flat, n = _columns(elems, "map_fn")
    signature = fn_output_signature if fn_output_signature is not None else dtype
    if signature is None:
        signature = nest.pack_sequence_as(elems, [t.dtype for t in flat]) if nest.is_nested(elems) else flat[0].dtype
    specs = [_spec(s) for s in nest.flatten(signature)]
    rows = []
    for i in range(n):
        made = fn(_row(elems, flat, i))
        nest.assert_same_structure(signature, made)
        rows.append([_fitting(v, s) for v, s in zip(nest.flatten(made), specs, strict=True)])
    if not rows:
        empty = [
            wrap(np.zeros((0, *(tuple(s.shape) if s.shape.is_fully_defined() else ())), dtypes.np_dtype(s.dtype)))
            for s in specs
        ]
        return _packed(signature, empty, back_prop)
    return _results(rows, signature, back_prop)


def _fitting(value: Any, spec: TensorSpec) -> Tensor:
    wanted = dtypes.np_dtype(spec.dtype)
    t = convert_to_tensor(value, wanted) if isinstance(value, (bool, int, float)) else convert_to_tensor(value)
    if t._layout.dtype != wanted:
        raise InvalidArgumentError(
            f"map_fn: the function returned {t.dtype.name} where {spec.dtype.name} was expected; say what it returns "
            f"with fn_output_signature=gtape.{t.dtype.name}"
        )
    if not spec.shape.is_compatible_with(t.shape):
        raise ValueError(f"map_fn: the function returned shape {t.shape} where {spec.shape} was expected")
    return t


@diagnosed
def vectorized_map(fn: Callable[[Any], Any], elems: Any, fallback_to_while_loop: bool = True, warn: bool = True) -> Any:
    """Apply a function to each row, and stack the results, of any structure.

    Parameters
    ----------
    fn : callable
        Takes one row (a nest of rows if `elems` is a nest), returns a tensor or a nest.
    elems : tensor or nest of tensors, each with at least one axis
        A first axis of length 1 is repeated to fit the others.
    fallback_to_while_loop, warn : bool
        Ignored; TensorFlow has them.

    Returns
    -------
    tensor or nest
        In the structure of the results of `fn`.

    Raises
    ------
    TypeError, ValueError
        If `fn` is not a function, or `elems` have no rows or different numbers of rows.

    Examples
    --------
    >>> x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    >>> tf.vectorized_map(lambda r: tf.tensordot(r, r, 1), x).numpy()
    array([ 5., 25.], dtype=float32)
    """
    _callable(fn)
    flat = [convert_to_tensor(e) for e in nest.flatten(elems)]
    n = max([t._layout.shape[0] for t in flat if t._layout.shape], default=0)
    flat = [_repeated(t, n) if t._layout.shape[:1] == (1,) and n > 1 else t for t in flat]
    flat, n = _columns(flat, "vectorized_map")
    if not n:
        # The function runs on zeros once, because the structure, shapes and dtypes of its results are needed.
        zeros = [wrap(np.zeros(t._layout.shape[1:], t._layout.dtype)) for t in flat]
        made = fn(nest.pack_sequence_as(elems, zeros) if nest.is_nested(elems) else zeros[0])
        like = [convert_to_tensor(v)._layout for v in nest.flatten(made)]
        return _packed(made, [wrap(np.zeros((0, *a.shape), a.dtype)) for a in like], True)
    made = [fn(_row(elems, flat, i)) for i in range(n)]
    rows = [[convert_to_tensor(v) for v in nest.flatten(m)] for m in made]
    return _results(rows, made[0], True)


def _repeated(t: Tensor, n: int) -> Tensor:
    from gtape.declare.primitives import REGISTRY

    return REGISTRY["broadcast_to"](t, shape=(n, *t._layout.shape[1:]))


_UNCONVERTED = (bool, int, float, complex, np.ndarray, np.generic)


def _carried(before: Any, after: Any, what: str) -> Any:
    """The result of a step in the structure of the accumulator.

    Results are tensors, except that numbers and arrays stay what they are if the accumulator was one of these.
    """
    if nest.is_nested(before):
        nest.assert_same_structure(before, after)
    elif nest.is_nested(after):
        after = convert_to_tensor(after)
    olds, news = nest.flatten(before), nest.flatten(after)
    made = []
    for old, new in zip(olds, news, strict=True):
        if isinstance(old, _UNCONVERTED):
            made.append(new if isinstance(new, _UNCONVERTED) else convert_to_tensor(new))
            continue
        t = convert_to_tensor(new, old.dtype) if isinstance(new, (bool, int, float)) else convert_to_tensor(new)
        if t._layout.dtype != old._layout.dtype:
            raise InvalidArgumentError(
                f"{what}: the function turned an accumulator of {old.dtype.name} into {t.dtype.name}: use gtape.cast"
            )
        made.append(t)
    return nest.pack_sequence_as(before, made) if nest.is_nested(before) else made[0]


def _started(elems: Any, initializer: Any, order: list[int], flat: list[Tensor], what: str) -> tuple[Any, list[int]]:
    """The first accumulator and the indices of the remaining rows."""
    if initializer is not None:
        return initializer, order
    if not order:
        raise OutOfRangeError(f"{what}: elems have no rows and there is no initializer to return: pass `initializer`")
    return _row(elems, flat, order[0]), order[1:]


def _fold(fn: Any, elems: Any, initializer: Any, back_prop: bool, backwards: bool, what: str) -> Any:
    _callable(fn)
    flat, n = _columns(elems, what)
    order: Iterable[int] = reversed(range(n)) if backwards else range(n)
    a, rest = _started(elems, initializer, list(order), flat, what)
    # The function gets numbers and arrays as they are, as in TensorFlow, because then they take the dtype of a row.
    a = nest.map_structure(lambda v: v if isinstance(v, _UNCONVERTED) else convert_to_tensor(v), a)
    for i in rest:
        a = _carried(a, fn(a, _row(elems, flat, i)), what)
    a = nest.map_structure(convert_to_tensor, a)
    return a if back_prop else _packed(a, nest.flatten(a), False)


@diagnosed
def foldl(
    fn: Callable[[Any, Any], Any], elems: Any, initializer: Any = None, parallel_iterations: int = 10,
    back_prop: bool = True, swap_memory: bool = False, name: str | None = None,
) -> Any:  # fmt: skip
    """Combine all rows into one value, from the first to the last.

    Parameters
    ----------
    fn : callable
        ``fn(accumulator, row) -> accumulator``.
    elems : tensor or nest of tensors, each with at least one axis
    initializer : tensor or nest, optional
        The first accumulator; by default the first row. `fn` gets a number or an array as it is, so it takes the dtype
        of the rows in an operation with them.
    parallel_iterations, swap_memory, name
        Ignored; TensorFlow has them.
    back_prop : bool
        Whether gradients flow back through the function.

    Returns
    -------
    tensor or nest
        The last accumulator.

    Raises
    ------
    TypeError, ValueError
        If `fn` is not a function, `elems` have no first axis, or the accumulator changes its structure.
    gtape.errors.OutOfRangeError
        If there are no rows and no `initializer`.

    Examples
    --------
    >>> float(tf.foldl(lambda a, x: 10.0 * a + x, tf.constant([1.0, 2.0, 3.0])))
    123.0
    """
    return _fold(fn, elems, initializer, back_prop, False, "foldl")


@diagnosed
@documented_like(foldl)
def foldr(
    fn: Callable[[Any, Any], Any], elems: Any, initializer: Any = None, parallel_iterations: int = 10,
    back_prop: bool = True, swap_memory: bool = False, name: str | None = None,
) -> Any:  # fmt: skip
    """Combine all rows into one value, from the last to the first.

    Examples
    --------
    >>> float(tf.foldr(lambda a, x: 10.0 * a + x, tf.constant([1.0, 2.0, 3.0])))
    321.0
    """
    return _fold(fn, elems, initializer, back_prop, True, "foldr")


@diagnosed
@documented_like(foldl)
def scan(
    fn: Callable[[Any, Any], Any], elems: Any, initializer: Any = None, parallel_iterations: int = 10,
    back_prop: bool = True, swap_memory: bool = False, infer_shape: bool = True, reverse: bool = False,
    name: str | None = None,
) -> Any:  # fmt: skip
    """Combine rows from the first to the last, and stack all accumulators.

    Parameters
    ----------
    initializer : tensor or nest, optional
        The accumulator before the first row, which is not part of the result. By default the first row, which is part
        of the result.
    parallel_iterations, swap_memory, infer_shape, name
        Ignored; TensorFlow has them.
    reverse : bool
        Whether to go from the last row to the first; the results keep the places of their rows.

    Returns
    -------
    tensor or nest
        In the structure of the accumulator. Each tensor has as many rows as `elems`.

    Examples
    --------
    >>> tf.scan(lambda a, x: a + x, tf.constant([1.0, 2.0, 3.0])).numpy()
    array([1., 3., 6.], dtype=float32)
    >>> tf.scan(lambda a, x: a * x, tf.constant([1.0, 2.0, 3.0]), initializer=10.0, reverse=True).numpy()
    array([60., 60., 30.], dtype=float32)
    """
    _callable(fn)
    flat, n = _columns(elems, "scan")
    order = list(reversed(range(n))) if reverse else list(range(n))
    a, rest = _started(elems, initializer, order, flat, "scan")
    a = nest.map_structure(convert_to_tensor, a)
    rows = [] if len(rest) == n else [nest.flatten(a)]
    if not n:
        empty = [wrap(np.zeros((0, *t._layout.shape), t._layout.dtype)) for t in nest.flatten(a)]
        return _packed(a, empty, back_prop)
    for i in rest:
        a = _carried(a, fn(a, _row(elems, flat, i)), "scan")
        rows.append(nest.flatten(a))
    return _results(rows[::-1] if reverse else rows, a, back_prop)
