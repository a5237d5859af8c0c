"""py_function and numpy_function: calls of plain Python between ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gtape import dtypes, nest
from gtape.base.diagnosis import diagnosed
from gtape.base.docstrings import documented_like
from gtape.base.escaping import plain
from gtape.base.shown import shown
from gtape.base.tensor_spec import TensorSpec
from gtape.errors import InvalidArgumentError
from gtape.recording.record import refuse_in_traced_calls
from gtape.tensors.tensor import Tensor, as_operand, convert_to_tensor, wrap

__all__ = ["numpy_function", "py_function"]
NAMESPACES = ()
LETS_OUT = True  # values leave the tape here for the user's function, as `gtape.recording.trace` notes


def _inputs(inp: Any) -> list[Tensor]:
    if inp is None:
        return []
    return [convert_to_tensor(x) for x in (inp if isinstance(inp, (list, tuple)) else [inp])]


def _wanted(tout: Any) -> list[np.dtype[Any]]:
    return [dtypes.np_dtype(t.dtype if isinstance(t, TensorSpec) else t) for t in nest.flatten(tout)]


def _outputs(made: Any, tout: Any, convert: Callable[[Any, Any, int], Tensor], what: str) -> Any:
    """The results of the function, converted, in the structure of `tout`."""
    if tout is None or (isinstance(tout, (list, tuple)) and not tout):
        return tout
    wanted = _wanted(tout)
    given = list(made) if isinstance(made, (list, tuple)) and isinstance(tout, (list, tuple)) else [made]
    if len(given) != len(wanted):
        raise InvalidArgumentError(
            f"{what}: Tout says {len(wanted)} results, but the function returned {len(given)} ({shown(made)})"
        )
    results = [convert(v, d, i) for i, (v, d) in enumerate(zip(given, wanted, strict=True))]
    return results if isinstance(tout, (list, tuple)) else results[0]


@diagnosed
def py_function(func: Callable[..., Any] | None = None, inp: Any = None, Tout: Any = None, name: Any = None) -> Any:
    """Call a Python function of tensors; gradients flow through its ops.

    Parameters
    ----------
    func : callable
        Takes a tensor for each item of `inp`.
    inp : list of tensors or numbers
    Tout : dtype, TensorSpec or list of these
        The dtypes of the results. An empty list stands for no results.

    Returns
    -------
    tensor or list of tensors
        In the structure of `Tout`.

    Raises
    ------
    TypeError
        If `func` is not a function.
    gtape.errors.InvalidArgumentError
        If the results do not fit `Tout`.

    Examples
    --------
    >>> x = tf.Variable(3.0)
    >>> with tf.GradientTape() as tape:
    ...     y = tf.py_function(lambda t: t * t, [x], tf.float32)
    >>> tape.gradient(y, x).numpy()
    np.float32(6.0)
    """
    refuse_in_traced_calls("calls py_function")
    if not callable(func):
        raise TypeError(f"py_function: expected func to be callable. Received: {shown(func)}")

    def convert(value: Any, dtype: np.dtype[Any], i: int) -> Tensor:
        t = (
            as_operand(value, wrap(np.zeros((), dtype)))
            if isinstance(value, (bool, int, float)) and not isinstance(value, np.generic)
            else None
        )
        t = convert_to_tensor(value) if t is None else t
        if t._layout.dtype != dtype:
            raise InvalidArgumentError(
                f"py_function: result {i} is {t.dtype.name}, but Tout says {dtypes.as_dtype(dtype).name}"
            )
        return t

    return _outputs(func(*_inputs(inp)), Tout, convert, "py_function")


@diagnosed
@documented_like(py_function)
def numpy_function(
    func: Callable[..., Any] | None = None, inp: Any = None, Tout: Any = None, stateful: bool = True, name: Any = None
) -> Any:
    """Call a Python function of NumPy arrays; no gradient flows through it.

    Parameters
    ----------
    func : callable
        Takes an array for each item of `inp`.
    Tout : dtype or list of dtypes
        The dtypes of the results. Python numbers are converted, arrays must have the dtype already.
    stateful : bool
        Ignored; TensorFlow has it.

    Examples
    --------
    >>> import numpy as np
    >>> tf.numpy_function(np.cumsum, [tf.constant([1.0, 2.0])], tf.float32).numpy()
    array([1., 3.], dtype=float32)
    """
    refuse_in_traced_calls("calls numpy_function")
    if not callable(func):
        raise TypeError(f"numpy_function: expected func to be callable. Received: {shown(func)}")

    def convert(value: Any, dtype: np.dtype[Any], i: int) -> Tensor:
        if isinstance(value, (np.ndarray, np.generic)):
            array = np.array(value)
            if array.dtype != dtype:
                raise InvalidArgumentError(
                    f"{i}-th value returned by {plain(getattr(func, '__name__', func))} is {array.dtype.name}, "
                    f"but expects {dtype.name}: use .astype"
                )
            return wrap(array)
        return convert_to_tensor(value, dtype)

    return _outputs(func(*[np.asarray(x.numpy()) for x in _inputs(inp)]), Tout, convert, "numpy_function")
