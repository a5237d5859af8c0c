"""NumPy's functions of tensors and variables, recorded as the equivalent ops of gtape.

``np.sin(x)`` is ``gtape.sin(x)`` if `x` is a tensor. Functions of shapes and dtypes read no values. Functions without
a derivative (comparisons, printing) work on the values. Other functions raise an error, because the tape would silently
lose track of their results. Write ``np.f(x.numpy())`` to leave the tape on purpose.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import and_, eq, invert, ne, or_, xor
from typing import Any

import numpy as np

from gtape import nest
from gtape.base.diagnosis import diagnosis
from gtape.base.escaping import plain
from gtape.base.shown import shown
from gtape.declare.primitives import REGISTRY
from gtape.interop.numpy_arrays import rank_of, shape_of, stand_in
from gtape.interop.numpy_operands import alike, with_operands_alike
from gtape.namespaces.catalogue import resolve
from gtape.tensors.operands import float_operand
from gtape.tensors.tensor import as_operand, is_tensor

__all__ = ["apply_function", "apply_ufunc"]

LETS_OUT = True  # values leave the tape here for functions of NumPy, as `gtape.recording.trace` notes

# NumPy's names that differ from gtape's names.
_UFUNCS = {
    "absolute": "abs", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan",
    "arctan2": "atan2", "arctanh": "atanh", "conjugate": "conj", "fabs": "abs", "float_power": "pow",
    "floor_divide": "floordiv", "isfinite": "is_finite", "isinf": "is_inf", "isnan": "is_nan",
    "positive": "identity", "power": "pow", "remainder": "floormod", "true_divide": "divide",
}  # fmt: skip
_SAME = frozenset({
    "add", "cbrt", "ceil", "cos", "cosh", "divide", "exp", "exp2", "expm1", "floor", "greater",
    "greater_equal", "hypot", "less", "less_equal", "log", "log10", "log1p", "log2", "logaddexp", "logical_and",
    "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "multiply", "negative",
    "reciprocal", "rint", "sign", "sin", "sinh", "sqrt", "square", "subtract", "tan", "tanh",
})  # fmt: skip
# Functions without a derivative, which NumPy computes from the values.
_VALUES_ONLY = frozenset({
    "bitwise_count", "gcd", "isnat", "lcm", "left_shift", "right_shift", "signbit", "nextafter", "spacing",
})  # fmt: skip


def _without_nan(op: str, x: Any, y: Any) -> Any:
    where, is_nan = resolve("where"), resolve("is_nan")
    return where(is_nan(x), y, where(is_nan(y), x, resolve(op)(x, y)))


def _trunc(x: Any) -> Any:
    return resolve("where")(resolve("greater_equal")(x, 0), resolve("floor")(x), resolve("ceil")(x))


def _copysign(x: Any, y: Any) -> Any:
    sign = np.where(np.signbit(y), -1.0, 1.0)
    return resolve("multiply")(resolve("abs")(x), sign)


def _heaviside(x: Any, y: Any) -> Any:
    where = resolve("where")
    return where(resolve("equal")(x, 0), y, where(resolve("greater")(x, 0), resolve("ones_like")(x), 0 * x))


def _rank(x: Any) -> int:
    try:
        return rank_of(x)
    except ValueError:
        raise ValueError(f"matmul: {shown(x)} is no matrix, for its parts have different lengths") from None
    except TypeError:
        raise TypeError(f"matmul: {shown(x)} is no matrix") from None


def _matmul(x: Any, y: Any) -> Any:
    """The product `np.matmul`, which treats vectors as rows or columns."""
    reshape, matmul = resolve("reshape"), resolve("matmul")
    ranks = _rank(x), _rank(y)
    if 0 in ranks:
        raise ValueError("matmul: a scalar is no matrix; use np.multiply")
    if ranks == (1, 1):
        return resolve("tensordot")(x, y, 1)
    if ranks[0] == 1:
        made = matmul(resolve("expand_dims")(x, 0), y)
        return reshape(made, (*made.shape[:-2], made.shape[-1]))
    return resolve("matvec")(x, y) if ranks[1] == 1 else matmul(x, y)


def _by_operator(operator: Callable[..., Any]) -> Callable[..., Any]:
    """A commutative operator with the tensor first, because the dtype of the tensor decides."""
    return lambda x, *y: operator(x, *y) if is_tensor(x) else operator(*y, x)


def _scaled(name: str, op: str) -> Callable[..., Any]:
    return lambda x: REGISTRY[op](float_operand(x, f"np.{name}"))


_MADE: dict[str, Callable[..., Any]] = {
    "bitwise_and": _by_operator(and_), "bitwise_or": _by_operator(or_), "bitwise_xor": _by_operator(xor),
    "invert": _by_operator(invert), "equal": _by_operator(eq), "not_equal": _by_operator(ne),
    "fmax": lambda x, y: _without_nan("maximum", x, y), "fmin": lambda x, y: _without_nan("minimum", x, y),
    "trunc": _trunc, "copysign": _copysign, "heaviside": _heaviside, "matmul": _matmul,
    "fmod": lambda x, y: resolve("truncatemod")(x, y),
    "deg2rad": _scaled("deg2rad", "to_radians"), "radians": _scaled("radians", "to_radians"),
    "rad2deg": _scaled("rad2deg", "to_degrees"), "degrees": _scaled("degrees", "to_degrees"),
    "logaddexp2": lambda x, y: resolve("divide")(
        resolve("logaddexp")(resolve("multiply")(x, np.log(2)), resolve("multiply")(y, np.log(2))), np.log(2)
    ),
    "divmod": lambda x, y: (resolve("floordiv")(x, y), resolve("floormod")(x, y)),
    "modf": lambda x: (resolve("subtract")(x, _trunc(x)), _trunc(x)),
    "ldexp": lambda x, n: resolve("ldexp")(x, n),
    "vecdot": lambda x, y: resolve("reduce_sum")(resolve("multiply")(resolve("conj")(x), y), axis=-1),
    "matvec": lambda a, b: resolve("matvec")(a, b),
}  # fmt: skip
_OF_INTEGERS = frozenset({"ldexp"})  # functions whose second argument stays an integer
_REDUCTIONS = {"add": "reduce_sum", "multiply": "reduce_prod", "maximum": "reduce_max", "minimum": "reduce_min"}
_SCANS = {"add": "cumsum", "multiply": "cumprod"}


def _on_values(function: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """The result of NumPy's own function on the values.

    A check notes that the values leave the tape, unless the result is whole and so does not vary with them.
    """
    read: list[tuple[Any, Any]] = []

    def array(v: Any) -> Any:
        if not is_tensor(v):
            return v
        read.append((as_operand(v), np.array(as_operand(v)._value)))
        return read[-1][1]

    args, kwargs = nest.map_structure(array, (tuple(args), kwargs))
    made = function(*args, **kwargs)
    if not all(_is_whole(part) for part in nest.flatten(made)):
        for tensor, values in read:
            if tensor._record is not None:
                tensor._left(values)
    return made


def _is_whole(x: Any) -> bool:
    """Whether a result of NumPy consists of whole numbers or truth values, or is a dtype."""
    return isinstance(x, np.dtype) or getattr(x, "dtype", np.dtype(type(x))).kind in "biu"


def _refused(name: str, why: str) -> TypeError:
    name = plain(name)
    return TypeError(f"{name} on a gtape tensor {why}; to leave the tape, give it the values: {name}(x.numpy(), ...)")


def _ufunc_call(name: str) -> Callable[..., Any] | None:
    if name in _MADE:
        made = _MADE[name]
        return made if name in _OF_INTEGERS else lambda *inputs: made(*alike(inputs))
    return resolve(_UFUNCS.get(name, name)) if name in _SAME or name in _UFUNCS else None


def _varies(inputs: tuple[Any, ...]) -> bool:
    """Whether an in-place operation on an array gives a tensor: a derivative exists, and a tensor can hold it."""
    array, *others = inputs
    dtypes = [t.dtype for t in others if is_tensor(t)]
    return any(d.is_complex or (d.is_floating and array.dtype.kind != "c") for d in dtypes)


def apply_ufunc(ufunc: Any, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """The method ``__array_ufunc__`` of tensors. TypeError if gtape cannot record the call.

    The result is an ndarray if no derivative exists or `out` is given. ``array += tensor`` updates the array and binds
    the name to a recorded tensor, as in TensorFlow.
    """
    name = ufunc.__name__
    out = options.get("out")
    if name in _VALUES_ONLY or (out is not None and not any(is_tensor(o) for o in out)):
        in_place = method == "__call__" and options.keys() == {"out"} and inputs[0] is options["out"][0]
        ours = _ufunc_call(name) if in_place and name not in _VALUES_ONLY and _varies(inputs) else None
        made = None if ours is None else ours(*inputs)  # computed before the array changes
        try:
            written = _on_values(getattr(ufunc, method), inputs, options)
        except (TypeError, OverflowError) as e:  # OverflowError for an integer beyond all floats
            kind = TypeError if isinstance(e, TypeError) else ValueError
            raise kind(f"np.{name} cannot take these operands, or write into this array: {e}") from None
        return written if made is None else made
    if method == "__call__":
        ours = _ufunc_call(name)
        if ours is None:
            raise _refused(f"np.{name}", "is not there")
        if options.keys() - {"dtype"}:
            raise _refused(f"np.{name}", f"takes no {', '.join(sorted(options))}")
        made = ours(*inputs)
        return made if "dtype" not in options else resolve("cast")(made, options["dtype"])
    if method == "reduce" and name in _REDUCTIONS and not options.keys() - {"axis", "keepdims"}:
        axis = options.get("axis", 0)
        return resolve(_REDUCTIONS[name])(*inputs[:1], axis=axis, keepdims=bool(options.get("keepdims", False)))
    if method == "accumulate" and name in _SCANS and not options.keys() - {"axis"}:
        return resolve(_SCANS[name])(inputs[0], axis=options.get("axis", 0))
    ours = _ufunc_call(name)
    if method == "outer" and ours is not None and len(inputs) == 2 and not options:
        a, b = alike(inputs)
        return ours(resolve("reshape")(a, (*shape_of(a), *[1] * rank_of(b))), b)
    raise _refused(f"np.{name}.{method}", "is not there")


def apply_function(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The method ``__array_function__`` of tensors. TypeError if a derivative exists and gtape lacks the function."""
    from gtape.interop.numpy_functions import FUNCTIONS, LAYOUT_ONLY, VALUES_ONLY

    name = f"{function.__module__}.{function.__name__}".replace("numpy", "np", 1)
    if name[3:] in LAYOUT_ONLY:
        given = nest.map_structure(stand_in, (tuple(args), kwargs))
        return _by_numpy(function, args, kwargs, lambda: function(*given[0], **given[1]))
    if name[3:] in VALUES_ONLY:
        return _by_numpy(function, args, kwargs, lambda: _on_values(function, args, kwargs))
    ours = FUNCTIONS.get(name[3:])
    if ours is None:
        raise _refused(name, "is not there")
    if kwargs.get("out") is not None and not is_tensor(kwargs["out"]):
        return _by_numpy(function, args, kwargs, lambda: _on_values(function, args, kwargs))
    import inspect

    signature = inspect.signature(ours)
    try:
        # An option that gtape's function lacks must have its default value.
        given = {k: v for k, v in kwargs.items() if k in signature.parameters or not _says_nothing(k, v)}
        call = with_operands_alike(signature.bind(*args, **given))
    except (TypeError, ValueError) as e:
        raise _refused(name, f"is not recorded in this form ({e})") from None
    try:
        return ours(*call.args, **call.kwargs)
    except Exception as e:
        found = diagnosis(function, args, kwargs, e)
        if found is e:
            raise
        raise found from e


def _by_numpy(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], call: Callable[[], Any]) -> Any:
    """The result of `call`, which calls NumPy's own function; its errors name the arguments."""
    try:
        with np.errstate(all="ignore"):
            return call()
    except Exception as e:
        found = diagnosis(function, args, kwargs, e)
        if found is e:
            raise
        raise found from e


def _says_nothing(option: str, value: Any) -> bool:
    return value is None or value is np._NoValue or (not isinstance(value, np.ndarray) and (option, value) in _DEFAULTS)


_DEFAULTS = [("copy", True), ("order", "C"), ("order", "K"), ("subok", True), ("subok", False), ("optimize", False)]
