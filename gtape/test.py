"""``gtape.test``: compute_gradient, derivatives beside their difference quotients.

For more than a glance use `gtape.verify.check`, which compares with the exact derivative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gtape.errors import UnimplementedError
from gtape.tape import GradientTape
from gtape.tensor import Tensor, convert_to_tensor, wrap

__all__ = ["compute_gradient"]


def __dir__() -> list[str]:
    return sorted(__all__)


def compute_gradient(f: Callable[..., Any], x: Any, delta: float | None = None) -> Any:
    """The Jacobians of a function by the tape, and by central differences.

    Parameters
    ----------
    f : callable
        Takes the tensors of `x`, returns one tensor.
    x : list of arrays or tensors
        Where to differentiate.
    delta : float, optional
        The step of the differences; 1/1024 by default.

    Returns
    -------
    (list, list) of 2-D arrays
        By the tape and by differences, one for each of `x`; a row for each element of the result, a column for each
        element of that input.

    Raises
    ------
    ValueError
        When `x` is no list.

    Examples
    --------
    >>> import gtape as tf
    >>> exact, numeric = tf.test.compute_gradient(lambda t: t * t, [tf.constant([1.0, 3.0])])
    >>> exact[0]
    array([[2., 0.],
           [0., 6.]], dtype=float32)
    """
    if not isinstance(x, (list, tuple)):
        raise ValueError(
            "`x` must be a list or tuple of values convertible to a Tensor (arguments to `f`), not a "
            f"{type(x).__name__}: write [x]"
        )
    step = 1.0 / 1024 if delta is None else float(delta)
    inputs = [convert_to_tensor(v) for v in x]
    if any(t._aval.dtype.kind == "c" for t in inputs):
        raise UnimplementedError("compute_gradient of complex tensors: take real and imaginary parts as two inputs")
    with GradientTape(persistent=True) as tape:
        tape.watch(inputs)
        y = convert_to_tensor(f(*inputs))
    made = tape.jacobian(y, inputs, unconnected_gradients="zero")
    exact = [j.numpy().reshape(y._aval.size, t._aval.size) for j, t in zip(made, inputs, strict=True)]
    return exact, [_differences(f, inputs, i, step) for i in range(len(inputs))]


def _differences(f: Callable[..., Any], inputs: list[Tensor], i: int, step: float) -> Any:
    base = inputs[i].numpy()
    columns = []
    for k in range(base.size):
        sides = []
        for sign in (1, -1):
            moved = np.array(base, ndmin=0)
            moved.reshape(-1)[k] += moved.dtype.type(sign * step)
            y = convert_to_tensor(f(*inputs[:i], wrap(moved), *inputs[i + 1 :]))
            sides.append(np.ravel(y.numpy()))
        columns.append((sides[0] - sides[1]) / sides[0].dtype.type(2 * step))
    if not columns:
        return np.zeros((convert_to_tensor(f(*inputs))._aval.size, 0), base.dtype)
    return np.stack(columns, axis=1)
