"""``gtape.test``: compute_gradient, derivatives beside their difference quotients.

For more than a glance use `gtape.verify.check`, which compares with the exact derivative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

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
    x : list of arrays or tensors of floats or complex numbers
        Where to differentiate.
    delta : float, optional
        The step of the differences; 1/1024 by default.

    Returns
    -------
    (list, list) of 2-D arrays
        By the tape and by differences, one for each of `x`; a row for each element of the result, a column for each
        element of that input. A complex element has two rows or columns: its real and its imaginary part.

    Raises
    ------
    ValueError
        When `x` is no list, or holds integers.

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
    for i, t in enumerate(inputs):
        if not t._aval.inexact:
            raise ValueError(f"Cannot compute gradient for unsupported type {t.dtype.name} of argument {i}: cast it")
    with GradientTape(persistent=True) as tape:
        tape.watch(inputs)
        y = convert_to_tensor(f(*inputs))
    if any(t._aval.complex for t in (y, *inputs)):
        exact = _complex_jacobians(tape, y, inputs)
    else:
        made = tape.jacobian(y, inputs, unconnected_gradients="zero")
        exact = [j.numpy().reshape(y._aval.size, t._aval.size) for j, t in zip(made, inputs, strict=True)]
    return exact, [_differences(f, inputs, i, step) for i in range(len(inputs))]


def _parts(array: Any) -> Any:
    """Real numbers in a row, complex ones by their two parts."""
    flat = np.array(array).reshape(-1)
    return flat.view(flat.real.dtype) if flat.dtype.kind == "c" else flat


def _complex_jacobians(tape: GradientTape, y: Tensor, inputs: list[Tensor]) -> list[Any]:
    """By a gradient for each part of each element of the result."""
    # By the conjugate convention the cotangent 1 gives the derivatives of the real part, and 1j of the imaginary one.
    units = (1, 1j) if y._aval.complex else (1,)
    rows: list[list[Any]] = [[] for _ in inputs]
    for k in range(y._aval.size):
        for unit in units:
            seed = np.zeros(y._aval.size, y._aval.dtype)
            seed[k] = unit
            found = tape.gradient(y, inputs, wrap(seed.reshape(y._aval.shape)), "zero")
            for row, g in zip(rows, found, strict=True):
                row.append(_parts(convert_to_tensor(g).numpy()))
    return [np.stack(r) if r else np.zeros((0, _parts(t.numpy()).size)) for r, t in zip(rows, inputs, strict=True)]


def _differences(f: Callable[..., Any], inputs: list[Tensor], i: int, step: float) -> Any:
    base = np.array(inputs[i].numpy())
    columns = []
    for k in range(_parts(base).size):
        sides = []
        for sign in (1, -1):
            moved = _parts(base)
            moved[k] += moved.dtype.type(sign * step)
            at = wrap(moved.view(base.dtype).reshape(base.shape))
            sides.append(_parts(convert_to_tensor(f(*inputs[:i], at, *inputs[i + 1 :])).numpy()))
        columns.append((sides[0] - sides[1]) / sides[0].dtype.type(2 * step))
    if not columns:
        return np.zeros((_parts(convert_to_tensor(f(*inputs)).numpy()).size, 0), base.real.dtype)
    return np.stack(columns, axis=1)
