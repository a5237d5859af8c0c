"""NumPy's functions on tensors: NumPy's values, recorded; what is not supported says so."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.interop.numpy_functions import FUNCTIONS, VALUES_ONLY
from gtape.tensors.tensor import is_tensor

M = np.array([[0.7, -1.3, 2.1], [0.4, 1.9, -0.6]])
S = np.array([[2.0, 0.3, 0.1], [0.3, 1.5, 0.2], [0.1, 0.2, 1.0]])
V = np.array([0.6, -1.1, 2.4])
C = np.array([0.5 - 1j, 2 + 0.25j])
CUBE = np.arange(12.0).reshape(2, 3, 2) / 7 - 0.6
NAN = np.array([1.0, np.nan, -2.0])


def _fix(x: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # NumPy 2.5 deprecates np.fix
        return np.fix(x)


CALLS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (np.sum, (M,)), (lambda x: np.sum(x, axis=0, keepdims=True), (M,)), (lambda x: np.sum(x, (0, 2)), (CUBE,)),
    (lambda x: np.sum(x, dtype=np.float32), (M,)), (np.prod, (V,)), (np.mean, (M,)), (lambda x: np.mean(x, 1), (M,)),
    (np.var, (M,)), (lambda x: np.var(x, 0, ddof=1), (M,)), (np.std, (M,)), (lambda x: np.std(x, ddof=1), (V,)),
    (np.max, (M,)), (lambda x: np.min(x, axis=1), (M,)), (np.amax, (M,)), (np.amin, (M,)), (np.ptp, (M,)),
    (np.average, (V,)), (lambda x: np.average(x, weights=[1.0, 2.0, 3.0]), (V,)),
    (lambda x, w: np.average(x, axis=1, weights=w), (M, V + 3)), (np.median, (M,)), (lambda x: np.median(x, 1), (M,)),
    (lambda x: np.quantile(x, [0.1, 0.75]), (V,)), (lambda x: np.percentile(x, 30, axis=1), (M,)),
    (np.nansum, (NAN,)), (np.nanprod, (NAN,)), (np.nanmean, (NAN,)), (np.nanmax, (NAN,)), (np.nanmin, (NAN,)),
    (np.cumsum, (M,)), (lambda x: np.cumsum(x, 1), (M,)), (np.cumprod, (V,)), (np.diff, (M,)),
    (lambda x: np.diff(x, 2), (V,)), (np.trapezoid, (V,)), (lambda y, x: np.trapezoid(y, x), (V, np.sort(V))),
    (lambda x: np.trapezoid(x, V, axis=1), (M,)),
    (lambda x: np.reshape(x, (3, 2)), (M,)), (np.ravel, (M,)), (np.squeeze, (M[None],)),
    (lambda x: np.expand_dims(x, (0, 2)), (M,)), (lambda x: np.broadcast_to(x, (2, 3)), (V,)),
    (lambda a, b: np.broadcast_arrays(a, b), (V, M)), (np.transpose, (CUBE,)),
    (lambda x: np.permute_dims(x, (1, 0, 2)), (CUBE,)), (np.matrix_transpose, (CUBE,)),
    (lambda x: np.swapaxes(x, 0, 2), (CUBE,)), (lambda x: np.moveaxis(x, 0, -1), (CUBE,)),
    (lambda x: np.moveaxis(x, (0, 1), (2, 0)), (CUBE,)), (np.flip, (M,)), (np.fliplr, (M,)), (np.flipud, (M,)),
    (np.rot90, (M,)), (lambda x: np.rot90(x, 2), (M,)), (lambda x: np.rot90(x, -1), (M,)), (lambda x: np.roll(x, 2),
    (M,)),
    (lambda x: np.roll(x, 1, 1), (M,)), (lambda x: np.tile(x, 2), (M,)), (lambda x: np.tile(x, (2, 1, 2)), (M,)),
    (lambda x: np.repeat(x, 2), (M,)), (lambda x: np.repeat(x, [1, 2], axis=0), (M,)),
    (lambda x: np.pad(x, 1), (M,)), (lambda x: np.pad(x, ((0, 1), (2, 0)), "reflect"), (S,)),
    (lambda x: np.pad(x, 1, constant_values=3.0), (V,)),
    (lambda a, b: np.concatenate([a, b]), (M, M + 1)), (lambda a, b: np.concatenate([a, b], axis=None), (M, V)),
    (lambda a, b: np.stack([a, b], 1), (M, M + 1)), (lambda a, b: np.vstack([a, b]), (M, V)),
    (lambda a, b: np.hstack([a, b]), (V, V)), (lambda a, b: np.hstack([a, b]), (M, M)),
    (lambda a, b: np.dstack([a, b]), (M, M)), (lambda a, b: np.column_stack([a, b]), (V, S)),
    (lambda x: np.split(x, 3, axis=1), (M,)), (lambda x: np.array_split(x, 2), (V,)),
    (lambda x: np.split(x, [1], 1), (M,)),
    (lambda x: np.hsplit(x, 3), (M,)), (lambda x: np.vsplit(x, 2), (M,)),
    (np.atleast_1d, (np.float64(2.0),)), (np.atleast_2d, (V,)), (np.atleast_3d, (V,)), (np.atleast_3d, (M,)),
    (lambda a, b: np.append(a, b), (V, V)), (lambda a, b: np.meshgrid(a, b), (V, V[:2])), (np.copy, (M,)),
    (lambda x: np.full_like(np.zeros(3), 1.0) * x, (V,)),
    (lambda x: np.where(V > 0, x, 0.0), (V,)), (lambda x: np.take(x, [0, -1]), (V,)),
    (lambda x: np.take(x, [2, 0], axis=1), (M,)), (lambda x: np.take_along_axis(x, np.argsort(M, 1), 1), (M,)),
    (lambda x: np.compress([True, False, True], x), (V,)), (lambda x: np.compress([False, True], x, axis=0), (M,)),
    (lambda x: np.extract(M > 0, x), (M,)), (lambda x: np.select([V > 2, V > 0], [x, 2 * x], -1.0), (V,)),
    (np.sort, (M,)), (lambda x: np.sort(x, axis=None), (M,)), (lambda x: np.clip(x, -1, 1), (M,)),
    (lambda x: np.clip(x, None, 1.0), (M,)), (lambda x: np.clip(x, 0.5, None), (M,)), (np.diag, (V,)),
    (np.diag, (S,)),
    (lambda x: np.diag(x, 1), (S,)), (lambda x: np.diagonal(x, 0, 0, 2), (CUBE,)), (np.trace, (S,)),
    (lambda x: np.trace(x, 1), (S,)), (np.tril, (S,)), (lambda x: np.triu(x, 1), (M,)), (np.diagflat, (V,)),
    (np.dot, (V, V)), (np.dot, (M, S)), (np.dot, (M, V)), (np.vdot, (V, V)), (np.vdot, (C, C + 1)),
    (np.inner, (M, V)),
    (np.outer, (V, V)), (lambda a, b: np.einsum("ij,kj->ik", a, b), (M, S)), (lambda a, b: np.tensordot(a, b, 1),
    (M, S)),
    (np.kron, (M, V)), (np.cross, (V, V[::-1].copy())), (np.linalg.cross, (V, V[::-1].copy())),
    (lambda a, b: np.linalg.multi_dot([a, b, b]), (M, S)), (lambda x: np.linalg.matrix_power(x, 3), (S,)),
    (lambda x: np.linalg.matrix_power(x, -1), (S,)), (np.linalg.inv, (S,)), (np.linalg.det, (S,)),
    (np.linalg.slogdet, (S,)), (np.linalg.solve, (S, V)), (np.linalg.solve, (S, M.T)), (np.linalg.cholesky, (S,)),
    (np.linalg.norm, (V,)), (np.linalg.norm, (M,)), (lambda x: np.linalg.norm(x, 1), (V,)),
    (lambda x: np.linalg.norm(x, axis=1), (M,)), (lambda x: np.linalg.svdvals(x), (M,)), (np.linalg.eigvalsh, (S,)),
    (np.linalg.pinv, (M,)), (np.linalg.outer, (V, V)), (lambda a, b: np.linalg.matmul(a, b), (M, S)),
    (np.linalg.trace, (S,)), (np.linalg.diagonal, (S,)), (np.linalg.matrix_transpose, (M,)),
    (np.linalg.vecdot, (M, V)),
    (lambda a, b: np.linalg.tensordot(a, b, axes=1), (M, S)), (np.linalg.vector_norm, (V,)),
    (np.sinc, (V,)), (lambda x: np.round(x) * x, (V,)), (lambda x: np.round(x, 1) * x, (V,)), (np.real, (C,)),
    (np.imag, (C,)),
    (np.angle, (C,)), (np.nan_to_num, (NAN,)), (lambda x: np.polyval([1.0, -2.0, 3.0], x), (V,)),
    (lambda x: _fix(x) * x, (V,)), (lambda x: np.linspace(x[0], x[1], 4), (V,)), (np.i0, (V,)),
    # ufuncs, and their methods
    (np.add, (M, V)), (np.matmul, (M, V)), (np.matmul, (V, S)), (np.matmul, (V, V)), (np.power, (V + 2, V)),
    (np.float_power, (V + 2, V)), (np.fmax, (NAN, V)), (np.fmin, (NAN, V)), (np.trunc, (3 * V,)), (np.fabs, (V,)),
    (np.copysign, (V, V[::-1].copy())), (lambda x: np.heaviside(x, 0.5) * x, (V,)), (np.deg2rad, (V,)),
    (np.rad2deg, (V,)), (np.logaddexp2, (V, V + 1)), (np.conjugate, (C,)), (np.arctan2, (V, V[::-1].copy())),
    (np.add.reduce, (M,)), (np.multiply.accumulate, (V,)), (np.subtract.outer, (V, M)), (np.maximum.reduce, (M,)),
    (np.square, (V,)), (np.exp2, (V,)), (np.hypot, (V, V)), (np.positive, (V,)), (np.cbrt, (V,)), (np.absolute, (C,)),
    (lambda x: np.divmod(x, 0.7)[1], (V,)), (lambda x: np.modf(x)[0], (V,)), (np.remainder, (V, V + 3)),
    (lambda x: np.ldexp(x, 3), (V,)), (np.fmod, (V, V + 3)),
]  # fmt: skip


def flat(y: Any) -> list[Any]:
    return [e for part in y for e in flat(part)] if isinstance(y, (tuple, list)) else [y]


@pytest.mark.parametrize("k", range(len(CALLS)))
def test_values_are_numpys_and_gradients_flow(k: int) -> None:
    f, args = CALLS[k]
    xs = [tf.constant(a) for a in args]
    with np.errstate(all="ignore"):
        expected = flat(f(*args))
    with tf.GradientTape() as tape:
        tape.watch(xs)
        got = flat(f(*xs))
    assert len(got) == len(expected)
    for g, e in zip(got, expected, strict=True):
        assert is_tensor(g)
        assert tuple(g.shape) == np.shape(e)
        assert np.asarray(g).dtype.kind == np.asarray(e).dtype.kind
        np.testing.assert_allclose(np.asarray(g), e, rtol=1e-6 if g.dtype == "float32" else 1e-12, atol=1e-14)
    if f is not np.trunc:
        assert tape.gradient(got, xs)[0] is not None


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), (-1, 1)])
@pytest.mark.parametrize("q", [0.3, [0.0, 0.75], [[0.1, 0.5], [0.2, 1.0]]])
def test_quantiles_are_numpys_and_nan_where_there_is_a_nan(q: Any, axis: Any, keepdims: bool) -> None:
    some = CUBE.copy()
    some[0, 1, 0] = np.nan
    for x in (CUBE, some):
        for f in (lambda a: np.quantile(a, q, axis=axis, keepdims=keepdims), lambda a: np.median(a, axis=axis)):
            np.testing.assert_allclose(f(tf.constant(x)), f(x), rtol=1e-12)


@pytest.mark.parametrize("axis", [None, 0, -1])
def test_the_place_of_an_extreme_is_that_of_the_first_nan(axis: Any) -> None:
    x = np.array([[3.0, np.nan, 1.0, np.nan], [0.0, 1.0, 2.0, -np.inf]])
    for f in (np.argmin, np.argmax):
        np.testing.assert_array_equal(f(tf.constant(x), axis=axis), f(x, axis=axis))


def test_truth_values_are_counted_and_numbers_are_true_as_numpy_has_it() -> None:
    x = tf.constant(M)
    assert np.sum(x > 0) == 4 and np.mean(x > 0) == 4 / 6 and np.prod(x > 0) == 0
    assert np.any(x) and not np.all(x * tf.constant([0.0, 1.0, 1.0], tf.float64))


def test_functions_work_on_variables() -> None:
    v = tf.Variable([1.0, 4.0])
    with tf.GradientTape() as tape:
        y = np.sum(np.sqrt(v))
    assert tape.gradient(y, v).numpy().tolist() == [0.5, 0.25]


@pytest.mark.parametrize("name", sorted(FUNCTIONS.keys() | VALUES_ONLY))
def test_every_name_is_one_of_numpys(name: str) -> None:
    f: Any = np
    for part in name.split("."):
        f = getattr(f, part, None)
    if f is None:
        pytest.skip(f"this NumPy has no {name}")
    assert callable(f)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.convolve(x, x),
        lambda x: np.fft.fft(x),
        lambda x: np.gradient(x),
        lambda x: np.interp(x, x, x),
        lambda x: np.sum(x, where=[True, False, True]),
        lambda x: np.add(x, x, where=[True, False, True]),
        lambda x: np.frexp(x),
        lambda x: np.add.at(x, [0], 1.0),
        lambda x: np.multiply.reduceat(x, [0, 1]),
        lambda x: np.pad(x, 1, "edge"),
        lambda x: np.reshape(x, (3,), order="F"),
    ],
)
def test_what_is_not_supported_says_so(f: Any) -> None:
    x = tf.constant(V)
    with pytest.raises(TypeError, match="gtape tensor"):
        f(x)


def test_what_has_no_derivative_works_on_the_values() -> None:
    x = tf.constant(V)
    assert np.shape(x) == (3,) and np.ndim(x) == 1 and np.size(x) == 3
    assert np.allclose(x, V) and np.array_equal(x, V) and np.isclose(x, V).all()
    assert np.searchsorted(tf.constant([1.0, 2.0]), 1.5) == 1
    assert np.argmax(x).numpy() == 2 and np.argsort(x).numpy().tolist() == [1, 0, 2]
    assert [i.tolist() for i in np.nonzero(tf.constant([0.0, 3.0]))] == [[1]]
    np.testing.assert_allclose(x, V)
    np.testing.assert_array_equal(x, V)


def test_writing_into_an_array_leaves_the_tape() -> None:
    out = np.zeros(3)
    assert np.add(tf.constant(V), 1.0, out=out) is out
    np.testing.assert_array_equal(out, V + 1)
    buffer = np.empty(3)
    buffer[:] = tf.constant(V)
    np.testing.assert_array_equal(buffer, V)


@pytest.mark.parametrize("operator", ["iadd", "isub", "imul", "itruediv", "ipow", "imod", "ifloordiv"])
def test_an_array_changed_in_place_by_a_tensor_is_updated_and_recorded(operator: str) -> None:
    import operator as operators

    x, out_of_place = tf.constant(V), operator.replace("i", "", 1)
    array = total = np.array([2.0, 3.0, 5.0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        total = getattr(operators, operator)(total, x)
        expected = getattr(operators, out_of_place)(np.array([2.0, 3.0, 5.0]), x)
    assert isinstance(total, tf.Tensor)
    np.testing.assert_array_equal(array, expected)
    np.testing.assert_array_equal(total, expected)
    gradient = tape.gradient(expected, x)
    if gradient is None:  # floordiv
        assert tape.gradient(total, x) is None
    else:
        np.testing.assert_array_equal(tape.gradient(total, x), gradient)


def test_an_array_changed_in_place_stays_one_where_a_tensor_could_not_hold_it() -> None:
    total = np.array([0.5, 1.5])
    total += tf.constant([1, 2])  # integers have no derivative
    assert type(total) is np.ndarray and total.tolist() == [1.5, 3.5]
    parts = np.array([1j, 2.0])
    parts += tf.constant([1.0, 2.0])
    assert type(parts) is np.ndarray and parts.tolist() == [1 + 1j, 4]
    parts += tf.constant([1.0, 2.0], tf.complex128)
    assert isinstance(parts, tf.Tensor) and parts.numpy().tolist() == [2 + 1j, 6]


def test_bits_of_an_array_and_a_tensor_are_a_tensor() -> None:
    made = np.array([True, False]) & tf.constant([True, True])
    assert isinstance(made, tf.Tensor) and made.numpy().tolist() == [True, False]
    made = np.array([1, 2]) | tf.Variable([4, 4])
    assert isinstance(made, tf.Tensor) and made.dtype == tf.int32 and made.numpy().tolist() == [5, 6]
    assert np.bitwise_xor(tf.constant([1, 2]), 3).numpy().tolist() == [2, 1]
    assert np.invert(tf.constant([True])).numpy().tolist() == [False]


def test_arrays_of_numpy_2() -> None:
    x = tf.constant([1.0, 2.0])
    assert np.asarray(x).dtype == np.float32
    assert np.asarray(x, dtype=np.float64).dtype == np.float64
    a = np.array(x)
    a[0] = 9.0
    assert x.numpy()[0] == 1.0
    b = np.asarray(x)
    b[0] = 9.0
    assert x.numpy()[0] == 1.0
    with pytest.raises(ValueError, match="copy"):
        np.array(x, copy=False)
    assert np.array(tf.Variable([1, 2]), copy=True).tolist() == [1, 2]


@pytest.mark.parametrize("make", [tf.constant, tf.Variable])
def test_dlpack_hands_out_a_copy(make: Any) -> None:
    x = make([1.0, 2.0])
    assert x.__dlpack_device__() == (1, 0)
    a = np.from_dlpack(x)
    assert a.tolist() == [1.0, 2.0] and a.dtype == np.float32
    b = np.array(np.from_dlpack(make(np.float64(3.0))))
    assert b.shape == () and b == 3.0
    if np.lib.NumpyVersion(np.__version__) >= "2.1.0":  # NumPy 2.0 has no argument `copy`
        a = np.from_dlpack(x, copy=True)
        a[0] = 7.0
    assert np.asarray(x)[0] == 1.0


PAIR = [1.0, 2.0]
BESIDE_NUMBERS: dict[str, Callable[[Any], Any]] = {
    "add.outer": lambda x: np.add.outer(PAIR, x), "append": lambda x: np.append(PAIR, x),
    "atleast_1d": lambda x: np.atleast_1d(x, 1.5), "atleast_2d": lambda x: np.atleast_2d(1.5, x),
    "average": lambda x: np.average(PAIR, weights=x), "broadcast_arrays": lambda x: np.broadcast_arrays(1.5, x),
    "clip a number": lambda x: np.clip(0.5, x, 3.0), "clip a list": lambda x: np.clip([0.5, 1.5], x, [3.0, 3.0]),
    "clip by bounds that cross": lambda x: np.clip(x, 3.0, 2.0), "clip by a number": lambda x: np.clip(x, 0.5, None),
    "column_stack": lambda x: np.column_stack([PAIR, x]),
    "concatenate": lambda x: np.concatenate([PAIR, x]), "concatenate all": lambda x: np.concatenate([[PAIR], x], None),
    "copysign": lambda x: np.copysign(2.0, x), "cross": lambda x: np.cross([1.0, 2.0, 3.0], np.append(x, 3.0)),
    "dot": lambda x: np.dot(PAIR, x), "dstack": lambda x: np.dstack([PAIR, x]),
    "einsum": lambda x: np.einsum("i,i->", PAIR, x), "fmax": lambda x: np.fmax(1.5, x),
    "heaviside": lambda x: np.heaviside(0.5, x), "hstack": lambda x: np.hstack([x, 1.0]),
    "hstack after a number": lambda x: np.hstack([1.0, x]), "inner": lambda x: np.inner(PAIR, x),
    "kron": lambda x: np.kron(x, 2.0), "kron of a list": lambda x: np.kron(PAIR, x),
    "linspace": lambda x: np.linspace(0.0, x, 3), "logaddexp2": lambda x: np.logaddexp2(0.0, x),
    "maximum": lambda x: np.maximum(1.5, x), "meshgrid": lambda x: np.meshgrid(PAIR, x),
    "multi_dot": lambda x: np.linalg.multi_dot([PAIR, [[1.0, 2.0], [3.0, 1.0]], x]),
    "outer": lambda x: np.outer(x, PAIR), "outer of a list": lambda x: np.outer(PAIR, x),
    "polyval": lambda x: np.polyval(x, 2.0), "polyval of a list": lambda x: np.polyval(PAIR, x),
    "polyval at a list": lambda x: np.polyval(x, PAIR), "select": lambda x: np.select([[True, False]], [x], 1.0),
    "solve": lambda x: np.linalg.solve([[1.0, 2.0], [3.0, 1.0]], x), "stack": lambda x: np.stack([PAIR, x]),
    "tensordot": lambda x: np.tensordot(PAIR, x, 1), "trapezoid": lambda x: np.trapezoid(PAIR, x),
    "trapezoid by a list": lambda x: np.trapezoid(x, PAIR), "vdot": lambda x: np.vdot(x, PAIR),
    "vdot of a list": lambda x: np.vdot(PAIR, x), "vecdot": lambda x: np.vecdot(PAIR, x),
    "vstack": lambda x: np.vstack([x, PAIR]), "where": lambda x: np.where([True, False], 0.0, x),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", BESIDE_NUMBERS)
def test_numbers_and_lists_take_the_dtype_of_the_tensor_beside_them(name: str, dtype: Any) -> None:
    f, x = BESIDE_NUMBERS[name], np.array([1.25, 3.5], dtype)
    made, wanted = [v if isinstance(v, (list, tuple)) else [v] for v in (f(tf.constant(x)), f(x))]
    for m, w in zip(made, wanted, strict=True):
        assert m.dtype.as_numpy_dtype is dtype
        np.testing.assert_allclose(m.numpy(), w, rtol=1e-6)


def test_two_tensors_of_different_dtypes_are_still_refused() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="cannot combine tensors of float64 and float32"):
        np.outer(tf.constant(PAIR, tf.float64), tf.constant(PAIR))


def test_a_value_that_leaves_in_a_list_for_numpy_is_named_with_the_line_of_the_user() -> None:
    x = tf.Variable(PAIR)
    with tf.GradientTape(verify="strict") as tape:
        y = tf.reduce_sum(x * np.mean([x * x, x], axis=0))
    with pytest.raises(tf.VerificationError) as caught:
        tape.gradient(y, x)
    assert [f.line[0] for f in caught.value.report.findings if f.line is not None] == [__file__]
