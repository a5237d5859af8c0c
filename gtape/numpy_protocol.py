"""NumPy's functions on tensors: recorded where gtape has the op, computed on plain arrays where it has not.

``np.sin(x)`` is ``gtape.sin(x)`` when `x` is a tensor or variable. A function that is not in the tables below, or
that is called with options such as ``out``, gets the values as arrays and returns arrays, as it does in TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gtape import nest
from gtape.catalogue import resolve
from gtape.tensor import is_tensor

__all__ = ["apply_function", "apply_ufunc"]

# NumPy's name: gtape's, where they differ.
_UFUNCS = {
    "absolute": "abs", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan",
    "arctan2": "atan2", "arctanh": "atanh", "float_power": "pow", "floor_divide": "floordiv", "isfinite": "is_finite",
    "isinf": "is_inf", "isnan": "is_nan", "positive": "identity", "power": "pow", "remainder": "floormod",
    "true_divide": "divide",
}  # fmt: skip
_SAME = frozenset({
    "add", "cbrt", "ceil", "cos", "cosh", "divide", "equal", "exp", "exp2", "expm1", "floor", "greater",
    "greater_equal", "hypot", "less", "less_equal", "log", "log10", "log1p", "log2", "logaddexp", "logical_and",
    "logical_not", "logical_or", "logical_xor", "matmul", "maximum", "minimum", "multiply", "negative", "not_equal",
    "reciprocal", "rint", "sign", "sin", "sinh", "sqrt", "square", "subtract", "tan", "tanh",
})  # fmt: skip


def _plain(x: Any) -> Any:
    return nest.map_structure(lambda v: np.asarray(v) if is_tensor(v) else v, x)


def apply_ufunc(ufunc: Any, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """What NumPy calls for a ufunc with a tensor among its arguments.

    Parameters
    ----------
    ufunc : numpy.ufunc
    method : str
        ``"__call__"``, ``"reduce"`` ...
    inputs : tuple
    options : dict
        ``out``, ``where``, ``dtype`` ...

    Returns
    -------
    Tensor or ndarray
    """
    name = ufunc.__name__
    if method == "__call__" and not options and (name in _SAME or name in _UFUNCS):
        return resolve(_UFUNCS.get(name, name))(*inputs)
    return getattr(ufunc, method)(*_plain(inputs), **_plain(options))


def _op(name: str, **fixed: Any) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        return resolve(name)(*args, **fixed, **kwargs)

    return call


def _reduction(name: str) -> Callable[..., Any]:
    def reduce(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
        return resolve(name)(a, axis=axis, keepdims=keepdims)

    return reduce


def _scan(name: str) -> Callable[..., Any]:
    def scan(a: Any, axis: Any = None) -> Any:
        return resolve(name)(resolve("reshape")(a, [-1]), axis=0) if axis is None else resolve(name)(a, axis=axis)

    return scan


def _arg(name: str) -> Callable[..., Any]:
    def arg(a: Any, axis: Any = None) -> Any:
        return resolve(name)(resolve("reshape")(a, [-1]), axis=0) if axis is None else resolve(name)(a, axis=axis)

    return arg


def _concatenate(arrays: Any, axis: Any = 0) -> Any:
    if axis is None:
        arrays, axis = [resolve("reshape")(a, [-1]) for a in arrays], 0
    return resolve("concat")(list(arrays), axis)


def _flip(m: Any, axis: Any = None) -> Any:
    axes = range(len(np.shape(m))) if axis is None else axis
    return resolve("reverse")(m, [axes] if isinstance(axes, int) else list(axes))


def _roll(a: Any, shift: Any, axis: Any = None) -> Any:
    if axis is None:
        flat = resolve("roll")(resolve("reshape")(a, [-1]), shift, 0)
        return resolve("reshape")(flat, list(np.shape(a)))
    return resolve("roll")(a, shift, axis)


def _reshape(a: Any, shape: Any) -> Any:
    return resolve("reshape")(a, [shape] if isinstance(shape, int) else shape)


def _ravel(a: Any) -> Any:
    return resolve("reshape")(a, [-1])


def _sort(a: Any, axis: Any = -1) -> Any:
    return resolve("sort")(_ravel(a), axis=0) if axis is None else resolve("sort")(a, axis=axis)


def _where(condition: Any, x: Any, y: Any) -> Any:
    return resolve("where")(condition, x, y)


def _clip(a: Any, a_min: Any, a_max: Any) -> Any:
    return resolve("clip_by_value")(a, a_min, a_max)


def _dot(a: Any, b: Any) -> Any:
    ranks = len(np.shape(a)), len(np.shape(b))
    if 0 in ranks:
        return resolve("multiply")(a, b)
    return resolve("tensordot")(a, b, axes=[[ranks[0] - 1], [max(ranks[1] - 2, 0)]])


_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.sum: _reduction("reduce_sum"), np.mean: _reduction("reduce_mean"), np.prod: _reduction("reduce_prod"),
    np.max: _reduction("reduce_max"), np.min: _reduction("reduce_min"), np.amax: _reduction("reduce_max"),
    np.amin: _reduction("reduce_min"), np.var: _reduction("reduce_variance"), np.std: _reduction("reduce_std"),
    np.any: _reduction("reduce_any"), np.all: _reduction("reduce_all"),
    np.cumsum: _scan("cumsum"), np.cumprod: _scan("cumprod"), np.argmax: _arg("argmax"), np.argmin: _arg("argmin"),
    np.concatenate: _concatenate, np.stack: _op("stack"), np.reshape: _reshape, np.ravel: _ravel,
    np.squeeze: _op("squeeze"), np.expand_dims: _op("expand_dims"), np.broadcast_to: _op("broadcast_to"),
    np.flip: _flip, np.roll: _roll, np.sort: _sort, np.where: _where, np.clip: _clip, np.dot: _dot,
    np.einsum: _op("einsum"), np.tensordot: _op("tensordot"), np.sinc: _op("sinc"), np.round: _op("rint"),
    np.zeros_like: _op("zeros_like"), np.ones_like: _op("ones_like"),
    np.transpose: lambda a, axes=None: resolve("transpose")(a, axes),
    np.linalg.inv: _op("inv"), np.linalg.det: _op("det"), np.linalg.cholesky: _op("cholesky"),
}  # fmt: skip


def apply_function(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What NumPy calls for any of its other functions with a tensor among its arguments.

    Parameters
    ----------
    function : callable
    args : tuple
    kwargs : dict

    Returns
    -------
    Tensor or what NumPy returns
    """
    ours = _FUNCTIONS.get(function)
    if ours is not None and _accepts(ours, args, kwargs):
        return ours(*args, **kwargs)
    return function(*_plain(args), **_plain(kwargs))


def _accepts(ours: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether our function has these options; with others (``out``, ``ddof`` ...) NumPy works on arrays."""
    import inspect

    try:
        inspect.signature(ours).bind(*args, **kwargs)
    except TypeError:
        return False
    return not {"out", "where", "dtype", "order", "subok"} & kwargs.keys()
