"""``gtape.test``: compute_gradient, which compares derivatives with difference quotients, and a TestCase for tensors.

For certainty use `gtape.verify.check`, which compares with the exact derivative.
"""

from __future__ import annotations

import unittest
from collections.abc import Callable
from typing import Any

import numpy as np

from gtape import nest
from gtape.base.diagnosis import diagnosed
from gtape.base.quiet import quietly
from gtape.dtypes import as_dtype
from gtape.tapes.tape import GradientTape
from gtape.tensors.argument_checks import number
from gtape.tensors.tensor import Tensor, convert_to_tensor, wrap

__all__ = [
    "TestCase", "compute_gradient", "gpu_device_name", "is_built_with_cuda", "is_built_with_gpu_support",
    "is_gpu_available", "main",
]  # fmt: skip

__dir__ = __all__.copy  # the names for `dir`, which sorts them


@diagnosed
def compute_gradient(f: Callable[..., Any], x: Any, delta: float | None = None) -> Any:
    """The Jacobians of a function by the tape and by central differences.

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
        The Jacobians by the tape, and those by differences, one for each of `x`. A row stands for an element of the
        result, a column for an element of that input. A complex element has two rows or columns: for its real and its
        imaginary part.

    Raises
    ------
    ValueError
        If `x` is not a list, or holds integers.

    Examples
    --------
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
    step = 1.0 / 1024 if delta is None else number("compute_gradient", "delta", delta, bool, "must not be 0")
    inputs = [convert_to_tensor(v) for v in x]
    for i, t in enumerate(inputs):
        if not t._layout.inexact:
            raise ValueError(f"Cannot compute gradient for unsupported type {t.dtype.name} of argument {i}: cast it")
    with GradientTape(persistent=True) as tape:
        tape.watch(inputs)
        y = convert_to_tensor(f(*inputs))
    if any(t._layout.complex for t in (y, *inputs)):
        exact = _complex_jacobians(tape, y, inputs)
    else:
        made = tape.jacobian(y, inputs, unconnected_gradients="zero")
        exact = [j.numpy().reshape(y._layout.size, t._layout.size) for j, t in zip(made, inputs, strict=True)]
    return exact, [_differences(f, inputs, i, step) for i in range(len(inputs))]


def _parts(array: Any) -> Any:
    """The numbers in a row; for complex numbers, their real and imaginary parts."""
    flat = np.array(array).reshape(-1)
    return flat.view(flat.real.dtype) if flat.dtype.kind == "c" else flat


def _complex_jacobians(tape: GradientTape, y: Tensor, inputs: list[Tensor]) -> list[Any]:
    """The Jacobians, by one gradient for each part of each element of the result."""
    # By the conjugate convention, the cotangent 1 gives derivatives of the real part, and 1j those of the imaginary
    # part.
    units = (1, 1j) if y._layout.complex else (1,)
    rows: list[list[Any]] = [[] for _ in inputs]
    for k in range(y._layout.size):
        for unit in units:
            seed = np.zeros(y._layout.size, y._layout.dtype)
            seed[k] = unit
            found = tape.gradient(y, inputs, wrap(seed.reshape(y._layout.shape)), "zero")
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
            with quietly():  # a step may be beyond the dtype
                moved[k] += moved.dtype.type(sign * step)
            at = wrap(moved.view(base.dtype).reshape(base.shape))
            sides.append(_parts(convert_to_tensor(f(*inputs[:i], at, *inputs[i + 1 :])).numpy()))
        with quietly():
            columns.append((sides[0] - sides[1]) / sides[0].dtype.type(2 * step))
    if not columns:
        return np.zeros((_parts(convert_to_tensor(f(*inputs)).numpy()).size, 0), base.real.dtype)
    return np.stack(columns, axis=1)


def _values(x: Any) -> Any:
    return nest.map_structure(_values, x) if nest.is_nested(x) else np.asarray(getattr(x, "_value", x))


class TestCase(unittest.TestCase):
    """A test case that compares tensors, arrays and nests of them.

    Examples
    --------
    >>> import gtape as tf
    >>> class Tests(tf.test.TestCase):
    ...     def test_sum(self):
    ...         self.assertAllClose(tf.reduce_sum([1.0, 2.0]), 3.0)
    >>> Tests("test_sum").debug()
    """

    def evaluate(self, tensors: Any) -> Any:
        """The values of tensors, as arrays."""
        return nest.map_structure(lambda x: np.asarray(x)[()], tensors) if nest.is_nested(tensors) else tensors.numpy()

    def assertAllClose(self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6, msg: Any = None) -> None:
        """Fail unless ``|a - b| <= atol + rtol * |b|`` in every element. For float16 both are at least 1e-3."""
        for x, y in self._pairs(a, b):
            coarse = np.float16 in (x.dtype, y.dtype)
            r, s = (max(rtol, 1e-3), max(atol, 1e-3)) if coarse else (rtol, atol)
            np.testing.assert_allclose(x, y, rtol=r, atol=s, err_msg=msg or "")

    def assertNotAllClose(self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6, msg: Any = None) -> None:
        """Fail if `assertAllClose` passes."""
        self._differ(lambda: self.assertAllClose(a, b, rtol, atol), msg or "The two values are close at all elements")

    def assertAllEqual(self, a: Any, b: Any, msg: Any = None) -> None:
        """Fail unless all elements agree."""
        for x, y in self._pairs(a, b):
            np.testing.assert_array_equal(x, y, err_msg=msg or "")

    def assertNotAllEqual(self, a: Any, b: Any, msg: Any = None) -> None:
        """Fail if all elements agree."""
        self._differ(lambda: self.assertAllEqual(a, b), msg or "The two values are equal at all elements")

    def assertAllFinite(self, a: Any) -> None:
        """Fail unless every element is finite."""
        for x, _ in self._pairs(a, a):
            self.assertTrue(np.isfinite(x).all(), f"not all elements are finite: {x}")

    def assertAllInRange(
        self, target: Any, lower_bound: float, upper_bound: float, open_lower_bound: bool = False,
        open_upper_bound: bool = False,
    ) -> None:  # fmt: skip
        """Fail unless every element lies between the bounds."""
        for x, _ in self._pairs(target, target):
            low = x > lower_bound if open_lower_bound else x >= lower_bound
            high = x < upper_bound if open_upper_bound else x <= upper_bound
            self.assertTrue((low & high).all(), f"not all elements lie in [{lower_bound}, {upper_bound}]: {x}")

    def assertNear(self, f1: Any, f2: Any, err: float, msg: Any = None) -> None:
        """Fail unless two numbers differ by `err` at most."""
        self.assertTrue(abs(float(f1) - float(f2)) <= err, msg or f"{float(f1)} != {float(f2)} +- {err}")

    def assertShapeEqual(self, input_a: Any, input_b: Any, msg: Any = None) -> None:
        """Fail unless two shapes agree."""
        self.assertEqual(tuple(input_a.shape), tuple(input_b.shape), msg)

    def assertDTypeEqual(self, target: Any, expected_dtype: Any) -> None:
        """Fail unless every part has the dtype."""
        for x, _ in self._pairs(target, target):
            self.assertEqual(as_dtype(x.dtype), as_dtype(expected_dtype))

    def _differ(self, compare: Callable[[], None], msg: str) -> None:
        try:
            compare()
        except AssertionError:
            return
        raise AssertionError(msg)

    def _pairs(self, a: Any, b: Any) -> list[tuple[Any, Any]]:
        left, right = _values(a), _values(b)
        if nest.is_nested(a) and nest.is_nested(b) and not any(isinstance(x, (int, float)) for x in nest.flatten(a)):
            nest.assert_same_structure(left, right, check_types=False)
            return list(zip(nest.flatten(left), nest.flatten(right), strict=True))
        return [(np.asarray(left), np.asarray(right))]


@diagnosed
def main(argv: Any = None) -> None:
    """Run the tests of a script.

    Parameters
    ----------
    argv : list of str, optional

    Examples
    --------
    >>> callable(tf.test.main)
    True
    """
    unittest.main(argv=argv)


@diagnosed
def is_gpu_available(cuda_only: bool = False, min_cuda_compute_capability: Any = None) -> bool:
    """False, because gtape runs on the CPU.

    Parameters
    ----------
    cuda_only, min_cuda_compute_capability
        Ignored; TensorFlow has them.

    Examples
    --------
    >>> tf.test.is_gpu_available()
    False
    """
    return False


@diagnosed
def gpu_device_name() -> str:
    """The name of the graphics card: an empty string, because gtape runs on the CPU.

    Examples
    --------
    >>> tf.test.gpu_device_name()
    ''
    """
    return ""


@diagnosed
def is_built_with_cuda() -> bool:
    """False, because gtape runs on the CPU.

    Examples
    --------
    >>> tf.test.is_built_with_cuda()
    False
    """
    return False


is_built_with_gpu_support = is_built_with_cuda
