"""Records one run of a function as a `Program`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gtape import nest
from gtape.base.diagnosis import diagnosed
from gtape.base.python_values import own_dtype
from gtape.base.shown import shown
from gtape.symbolic.build import build
from gtape.symbolic.program import Program
from gtape.tapes.tape import GradientTape
from gtape.tensors import argument_checks as checks
from gtape.tensors.tensor import Tensor, is_tensor, wrap

__all__ = ["as_input", "trace"]


@diagnosed
def trace(f: Callable[..., Any], *args: Any) -> Program:
    """Record the ops that a function runs on its arguments.

    Parameters
    ----------
    f : callable
        Takes tensors, returns a tensor or a nest of tensors.
    *args : tensor, array or number
        The arguments of the run. Python floats become float64.

    Raises
    ------
    TypeError
        If the function returns an object that is not a tensor.

    Examples
    --------
    >>> import gtape
    >>> print(gtape.symbolic.trace(lambda x: gtape.sin(x) * x, 0.5))
    v1 = sin(v0)
    v2 = multiply(v1, v0)
    """
    checks.function("trace", "f", f)
    tensors = [as_input(a) for a in args]
    with GradientTape(persistent=True, verify=True) as tape:
        tape.watch([t for t in tensors if t._layout.inexact])
        y = f(*tensors)
    outs = list(nest.flatten(y))
    for t in outs:
        if not hasattr(t, "_layout"):
            raise TypeError(f"the function returned {type(t).__name__}; it must return tensors, or a structure of them")
    return build([(t._record, t._value) for t in outs], tensors)


def as_input(x: Any) -> Tensor:
    """A new tensor for one argument: numbers and lists as float64, arrays and tensors in their own dtype.

    Arrays in the byte order of another machine, as read from a file, take that of this one. Arrays of Python objects
    count as lists.

    Raises
    ------
    ValueError
        For what is no array of numbers, and for dtypes that gtape does not have, such as long doubles.
    """
    if is_tensor(x):
        return wrap(np.array(x._as_tensor()._value if not isinstance(x, Tensor) else x._value))
    if isinstance(x, np.ndarray) and x.dtype == object:
        x = x.tolist()
    if isinstance(x, (np.ndarray, np.generic)):
        return wrap(np.array(x, dtype=x.dtype if x.dtype.kind in "US" else own_dtype(x.dtype)))
    try:
        array = np.asarray(x)
    except (TypeError, ValueError):  # lists of different lengths
        array = np.empty((), object)
    if array.dtype == object:
        raise ValueError(f"an argument must be a tensor, an array or numbers, not {shown(x)}") from None
    if array.dtype.kind in "fc":
        own_dtype(array.dtype)  # refuses long doubles
    return wrap(array.astype(np.float64) if array.dtype.kind in "if" and array.dtype.itemsize >= 4 else array)
