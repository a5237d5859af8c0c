"""Functions of arrays that other libraries (peers) offer, written with gtape, and the inputs at which they are judged.

One line for each: a name, gtape's expression in x and y, and the inputs. The expression is the simplest one: a product
of the factors of a decomposition is the matrix itself. The judged function is the sum of the outputs with the weights
1, 2, 3, ..., because an unweighted sum hides errors that cancel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import gtape
from gtape.base.diagnosis import diagnosed

__all__ = ["CASES", "Case", "weighed"]


class Case(NamedTuple):
    """A function of arrays and its inputs.

    Attributes
    ----------
    name : str
    expression : str
        In gtape's syntax, of x and y.
    inputs : list of tuple of array
    """

    name: str
    expression: str
    inputs: Sequence[tuple[Any, ...]]

    @property
    def function(self) -> Any:
        """The weighted function of gtape tensors."""
        return weighed(self.expression, len(self.inputs[0]))

    def scalar(self, arguments: Sequence[Any]) -> bool:
        """Whether the output is one number, not an array."""
        values = {"tf": gtape, "np": np, **dict(zip("xyz", map(gtape.constant, arguments), strict=False))}
        with np.errstate(all="ignore"):
            return not eval(self.expression, values).shape.rank


@diagnosed
def _weighed_sum(y: Any) -> Any:
    size = int(np.prod(y.shape))
    weights = np.arange(1, size + 1, dtype=y.dtype.as_numpy_dtype).reshape(y.shape)
    return gtape.reduce_sum(y * weights)


def weighed(expression: str, arity: int) -> Any:
    """The weighted sum of an expression in gtape's syntax, as a function of its arguments."""
    code = compile(expression, "<case>", "eval")

    def f(*args: Any) -> Any:
        return _weighed_sum(eval(code, {"tf": gtape, "np": np, **dict(zip("xyz", args, strict=False))}))

    return f


def _a(*values: Any) -> Any:
    return np.array(values, dtype=np.float64)


_TINY, _HUGE = 1e-200, 1e200

# Vectors: generic, equal elements, one and two zeros, zeros alone, tiny, huge, mixed, one element, none.
_PLAIN = _a(0.5, -1.25, 2.0)
_VECTORS = [
    (_PLAIN,), (_a(1.0, 1.0, 1.0),), (_a(0.0, 3.0, 2.0),), (_a(0.0, 0.0, 2.0),), (_a(0.0, 0.0, 0.0),),
    (_a(1e-200, 2e-200, -1e-200),), (_a(1e200, 2e200, -1e200),), (_a(1e-170, 1.0, 1e170),), (_a(3.0),), (_a(),),
    (_a(1000.0, 0.0, -1000.0),), (_a(-800.0, -801.0, -799.5),), (_a(40.0, 0.0, 1.0),), (_a(-2.0, 1e-8, 1e-8),),
]  # fmt: skip
_FULL = [v for v in _VECTORS if v[0].size]
_NONZERO = [v for v in _FULL if v[0].any()]
_SIDES = [(_PLAIN,), (_a(-2.0, 1e-8, 3.0),)]  # inputs for both sides of a condition
_THREE = [v for v in _VECTORS if v[0].size == 3]
_PAIRS = [
    (_PLAIN, _a(1.0, 0.25, -3.0)), (_PLAIN, _PLAIN), (_a(0.0, 0.0, 0.0), _PLAIN),
    (_a(1e200, 1.0, 0.0), _a(1e200, -1.0, 2.0)), (_a(1e-200, 0.0, 1e-200), _a(1e-200, 1.0, 2.0)),
]  # fmt: skip

_A2, _A3 = _a([2.0, 1.0], [0.5, 3.0]), _a([4.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.5, 1.0, 2.0])
_SINGULAR2, _SINGULAR3 = _a([1.0, 2.0], [2.0, 4.0]), _a([1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0])
_RANK1 = _a([1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0])
_ROTATION = _a([0.0, -1.0], [1.0, 0.0])
_REGULAR = [
    (_A2,), (_A3,), (np.eye(2),), (_ROTATION,), (1e-120 * _A2,), (1e120 * _A2,), (_a([3.0, 0.0], [0.0, 1e-9]),),
    (_a([0.0, 2.0], [3.0, 0.0]),), (np.zeros((0, 0)),), (_a([2.5]).reshape(1, 1),),
]  # fmt: skip
_SQUARE = [
    *_REGULAR, (_SINGULAR2,), (_SINGULAR3,), (_RANK1,), (np.zeros((2, 2)),), (np.zeros((3, 3)),),
]  # fmt: skip
_POSITIVE = [(_A2,), (_A3,), (np.eye(2),), (np.eye(3),), (1e-120 * _A2,), (1e120 * _A2,), (_a([2.5]).reshape(1, 1),)]
_EQUAL = [(np.diag([1.0, 2.0, 2.0]),), (np.diag([1.0, 1.0, 1.0]),), (np.diag([1.0, 1.0, 2.0, 3.0]),)]
_TALL = [
    (_a([1.0, 2.0], [3.0, 4.0], [5.0, 7.0]),), (_A2,), (np.eye(3)[:, :2],), (_ROTATION,), (1e-120 * _A2,),
    (1e120 * _A2,),
]  # fmt: skip
_SYSTEMS = [(_A2, _a([1.0], [2.0])), (_A3, _A3), (1e-120 * _A2, _a([1.0], [2.0])), (np.eye(2), np.eye(2))]
_LOWER = [(_a([2.0, 0.0], [0.5, 3.0]), _a([1.0], [2.0])), (np.eye(2), np.eye(2))]
_EXPONENTS = [
    (_A2,), (_A3,), (np.zeros((2, 2)),), (np.zeros((3, 3)),), (np.eye(2),), (_ROTATION,),
    (_a([0.7, -1.0], [1.0, 0.7]),),
    (_a([0.0, 1.0], [0.0, 0.0]),), (1e-120 * _A2,), (20.0 * _A2,), (np.diag([-40.0, 0.0, 1.0]),),
]  # fmt: skip

_SYMMETRIC = "x + tf.linalg.matrix_transpose(x)"
# gtape's own functions take the square root of the length, and 1/3, as floats, whose error is in the 17th digit of the
# derivative. A constant that seems to depend on x stays exact.
_STD = "tf.norm((x - tf.reduce_mean(x)) / tf.sqrt(tf.reduce_sum(0.0 * x + 1.0)))"
_NORM_3 = (
    "(lambda m: m * tf.math.cbrt(tf.reduce_sum((tf.abs(x) / m) ** 3.0)))(tf.stop_gradient(tf.reduce_max(tf.abs(x))))"
)
# The part of the largest singular value, whose derivative does not depend on the other ones being apart.
_LEADING = (
    "(lambda v: x @ v @ tf.linalg.matrix_transpose(v))(tf.linalg.eigh(tf.linalg.matrix_transpose(x) @ x)[1][:, -1:])"
)
_KEPT = "tf.gather(x, [0, 2])"  # a mask keeps these elements; in the peers it sets the other one to -inf

CASES: dict[str, Case] = {
    made.name: made
    for made in (
        Case("prod", "tf.reduce_prod(x)", _VECTORS),
        Case("prod_axis", "tf.reduce_prod(x, axis=0)", [(_A2,), (_a([0.0, 1.0], [0.0, 2.0]),), (np.zeros((2, 2)),)]),
        Case("cumprod", "tf.math.cumprod(x)", _FULL),
        Case("cumsum", "tf.cumsum(x)", _VECTORS),
        Case("logcumsumexp", "tf.math.cumulative_logsumexp(x)", _FULL),
        Case("sum", "tf.reduce_sum(x)", _VECTORS),
        Case("mean", "tf.reduce_mean(x)", _FULL),
        Case("variance", "tf.math.reduce_variance(x)", _FULL),
        Case("std", _STD, _FULL),
        Case("norm", "tf.norm(x)", _FULL),
        Case("norm_squared", "tf.norm(x) ** 2", _FULL),
        Case("norm_1", "tf.norm(x, ord=1)", _FULL),
        Case("norm_3", _NORM_3, _NONZERO),
        Case("norm_half", "tf.reduce_sum(tf.sqrt(tf.abs(x))) ** 2", [v for v in _FULL if v[0].all()]),
        Case("norm_inf", "tf.norm(x, ord=np.inf)", _FULL),
        Case("max", "tf.reduce_max(x)", _FULL),
        Case("min", "tf.reduce_min(x)", _FULL),
        Case("median_sorted", "tf.sort(x)", _FULL),
        Case("logsumexp", "tf.reduce_logsumexp(x)", _FULL),
        Case("softmax", "tf.nn.softmax(x)", _FULL),
        Case("log_softmax", "tf.nn.log_softmax(x)", _FULL),
        Case("normalize", "x / tf.norm(x)", [(_PLAIN,), (_a(1e200, 2e200, -1e200),), (_a(3.0),)]),
        Case("cosine", "tf.reduce_sum(x * y) / (tf.norm(x) * tf.norm(y))", [_PAIRS[0], _PAIRS[1]]),
        Case("cross_entropy", "tf.nn.softmax_cross_entropy_with_logits([1.0, 0.0, 0.0], x)", _THREE),
        Case("masked_logsumexp", f"tf.reduce_logsumexp({_KEPT})", _THREE),
        Case("masked_softmax", f"(lambda p: tf.stack([p[0], 0.0 * p[0], p[1]]))(tf.nn.softmax({_KEPT}))", _THREE),
        Case("masked_log_softmax", f"(lambda p: tf.stack([p[0], p[1]]))(tf.nn.log_softmax({_KEPT}))", _THREE),
        Case("where_log", "tf.where(x > 1.0, tf.math.log(x), x - 1.0)", [*_SIDES, (_a(0.0, 0.5, 3.0),)]),
        Case("where_exp", "tf.where(x > 0.0, 1.0 + x, tf.exp(tf.minimum(x, 0.0)))",
             [*_SIDES, (_a(1000.0, -2.0, 0.5),)]),
        Case("where_sqrt", "tf.where(x > 1.0, tf.sqrt(x - 1.0), x)", _SIDES),
        Case("where_divide", "tf.where(x == 0.0, x, 1.0 / x)", _SIDES),
        Case("unused_quotient", "1.0 * x[0]", [(_PLAIN,)]),  # of a quotient by (1, 0, 2)
        Case("replaced_quotient", "tf.stack([-x[0], 0.0 * x[1], x[2]])", [(_PLAIN,)]),  # with infinities replaced by 0
        Case("unused_root", "tf.sqrt(x[0])", [(_a(4.0, 0.0, 1.0),), (_a(0.5, 0.0, 0.0),)]),
        Case("powers", "tf.stack([x[0], 1.0 + 0.0 * x[1], x[2] ** 2.0])", [(_PLAIN,), (np.zeros(3),)]),
        Case("norm_inside", "1.0 / tf.sqrt(1.0 + tf.reduce_sum(x * x))", [(_PLAIN,), (np.zeros(3),), (_a(3.0),)]),
        Case("layer_norm", "(x - tf.reduce_mean(x)) / tf.sqrt(tf.math.reduce_variance(x) + 0.25)", _THREE),
        Case("matmul", "x @ y", [(_A2, _A2), (np.zeros((2, 2)), _A2), (np.zeros((2, 0)), np.zeros((0, 3)))]),
        Case("dot", "tf.reduce_sum(x * y)", _PAIRS),
        Case("outer", "x[:, None] * y[None, :]", _PAIRS),
        Case("cross", "tf.linalg.cross(x, y)", _PAIRS),
        Case("trace", "tf.linalg.trace(x)", _SQUARE),
        Case("det", "tf.linalg.det(x)", _SQUARE),
        Case("logabsdet", "tf.linalg.slogdet(x)[1]", _REGULAR),
        Case("inverse", "tf.linalg.inv(x)", _REGULAR),
        Case("solve", "tf.linalg.solve(x, y)", _SYSTEMS),
        Case("solve_triangular", "tf.linalg.triangular_solve(x, y)", _LOWER),
        Case("cholesky", f"tf.linalg.cholesky({_SYMMETRIC})", _POSITIVE),
        Case("cholesky_solve", "tf.linalg.cholesky_solve(tf.linalg.band_part(x, -1, 0), y)", _LOWER),
        Case(
            "cholesky_inverse",
            "tf.linalg.cholesky_solve(tf.linalg.band_part(x, -1, 0), tf.eye(2, dtype=x.dtype))",
            [v[:1] for v in _LOWER],
        ),
        Case("eigenvalues", f"tf.linalg.eigvalsh({_SYMMETRIC})", [(_A2,), (_A3,), (1e-120 * _A2,), (1e120 * _A2,)]),
        Case("sum_of_squared_eigenvalues", f"tf.reduce_sum(({_SYMMETRIC}) ** 2)", [(_A2,), (_A3,), *_EQUAL]),
        Case("projector", f"(lambda v: v @ tf.linalg.matrix_transpose(v))(tf.linalg.eigh({_SYMMETRIC})[1][:, 1:])",
             [(_A3,), _EQUAL[0]]),
        Case("singular_values", "tf.linalg.svd(x, compute_uv=False)", [(_A2,), (_A3,), *_TALL[:1]]),
        Case("squared_singular_values", "tf.reduce_sum(x * x)", [(_A2,), *_TALL, *_EQUAL]),
        Case("nuclear_norm", "tf.reduce_sum(tf.linalg.svd(x, compute_uv=False))",
             [(_A2,), *_TALL[:2], *_TALL[4:], (1e19 * _A3,), (1e-20 * _A3,)]),
        Case("frobenius_norm", "tf.norm(x)", [(_A2,), *_TALL, (np.zeros((2, 2)),)]),
        Case("svd_product", "1.0 * x", [(_A2,), *_TALL, *_EQUAL[:2]]),
        Case("leading_part", _LEADING, [(_A2,), (_A3,), (np.diag([3.0, 1.0, 1.0]),), (np.diag([3.0, 0.0, 0.0]),)]),
        Case("qr_product", "1.0 * x", _TALL),
        Case("pinv", "tf.linalg.pinv(x)", [(_A2,), *_TALL]),
        Case("expm", "tf.linalg.expm(x)", _EXPONENTS),
        Case("matrix_square", "x @ x", _SQUARE),
        Case("matrix_cube", "x @ x @ x", _SQUARE),
        Case("matrix_power_minus_2", "(lambda z: z @ z)(tf.linalg.inv(x))", _REGULAR[:4]),
        Case("multi_dot", "x @ y @ x", [(_A2, _A2), (np.zeros((2, 2)), _A2)]),
        Case("distances", "tf.stack([tf.norm(x[0] - x[1]), tf.norm(x[0] - x[2]), tf.norm(x[1] - x[2])])",
             [(_A3,), (_RANK1,), (1e200 * _A3,), (1e-200 * _A3,)]),
        Case("cdist", "tf.norm(x[:, None, :] - y[None, :, :], axis=-1)",
             [(_A2, _A2 + 1.0), (_A2, _A2), (1e200 * _A2, _A2), (1e-200 * _A2, np.zeros((2, 2)))]),
        Case("conv1d", "tf.nn.conv1d(x[None, :, None], y[:, None, None], 1, 'VALID')[0, :, 0]",
             [(_a(0.5, -1.25, 2.0, 3.0), _a(1.0, -2.0))]),
        Case("conv1d_transpose",
             "tf.nn.conv1d_transpose(x[None, :, None], y[:, None, None], [1, 2 * x.shape[0], 1], 2, 'VALID')[0, :, 0]",
             [(_a(0.5, -1.25, 2.0), _a(1.0, -2.0)), (_a(0.5, -1.25), _a(0.0, -2.0))]),
        Case("max_pool", "tf.nn.max_pool1d(x[None, :, None], 2, 1, 'VALID')[0, :, 0]", _THREE),
        Case("avg_pool", "tf.nn.avg_pool1d(x[None, :, None], 2, 1, 'VALID')[0, :, 0]", _THREE),
        Case("kronecker", "tf.reshape(x[:, None, :, None] * y[None, :, None, :], [4, 4])", [(_A2, _A2)]),
    )
}  # fmt: skip
