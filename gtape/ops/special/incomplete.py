"""The regularised incomplete gamma and beta functions, lbeta, and the densities that are their derivatives."""

from __future__ import annotations

from typing import Any

from gtape.base.diagnosis import diagnosed
from gtape.declare.domains import POSITIVE, Domain, Interval
from gtape.declare.primitives import elementwise
from gtape.declare.rounding import ulps
from gtape.kernels import beta as beta
from gtape.kernels import incomplete as k
from gtape.ops.special.gamma import ORDERS, lgamma
from gtape.tensors.tensor import Tensor, as_operand

__all__ = ["lbeta"]

_UNIT = Interval(0.0, 1.0, open_lo=True, open_hi=True)
# The range where ball arithmetic is fast; the kernels keep their digits up to 1e15.
_GAMMA = Domain(POSITIVE, POSITIVE, where=lambda a, x: a <= 1e9)
_BETA = Domain(POSITIVE, POSITIVE, _UNIT, where=lambda a, b, x: a + b <= 1e6)
_DENSITIES: Any = tuple((((5,), (5,)), {"m": m, "n": n}) for m, n in ((0, 0), (0, 1), (1, 0)))
_ORDERS: Any = tuple((((5,), (5,)), {"m": m}) for m in (1, 2))
_BETAS: Any = tuple((((5,), (5,), (5,)), {"n": n}) for n in (0, 1))

igamma = elementwise(
    "igamma", k.igamma,
    (
        lambda xp, y, a, x: xp.igamma_order_derivative(a, x, m=1),
        lambda xp, y, a, x: xp.gamma_density_derivative(a, x, m=0, n=0),
    ),
    domain=_GAMMA, rounding=ulps(64, wide=True), limit=4500.0, special=(1.0,),
    arguments=("a", "x"), summary="Regularised lower incomplete gamma function P(a, x), for a > 0 and x >= 0.",
    example=((1.0, 1.0), 0.6321205588285577),
    conventions=ORDERS,
)  # fmt: skip
igammac = elementwise(
    "igammac", k.igammac,
    (
        lambda xp, y, a, x: -xp.igamma_order_derivative(a, x, m=1),
        lambda xp, y, a, x: -xp.gamma_density_derivative(a, x, m=0, n=0),
    ),
    domain=_GAMMA, rounding=ulps(64, wide=True), limit=4500.0, special=(1.0,),
    arguments=("a", "x"),
    summary="Regularised upper incomplete gamma function Q(a, x) = 1 - P(a, x), for a > 0 and x >= 0.",
    example=((1.0, 1.0), 0.36787944117144233),
    conventions=ORDERS,
)  # fmt: skip
igamma_order_derivative = elementwise(
    "igamma_order_derivative", k.igamma_order_derivative,
    (
        lambda xp, y, a, x, *, m: xp.igamma_order_derivative(a, x, m=m + 1),
        lambda xp, y, a, x, *, m: xp.gamma_density_derivative(a, x, m=m, n=0),
    ),
    domain=_GAMMA, rounding=ulps(32, wide=True), limit=4500.0, special=(1.0,), params=("m",), samples=_ORDERS,
    arguments=("a", "x"), summary="P(a, x) differentiated m times in a.",
)  # fmt: skip
gamma_density_derivative = elementwise(
    "gamma_density_derivative", k.gamma_density_derivative,
    (
        lambda xp, y, a, x, *, m, n: xp.gamma_density_derivative(a, x, m=m + 1, n=n),
        lambda xp, y, a, x, *, m, n: xp.gamma_density_derivative(a, x, m=m, n=n + 1),
    ),
    domain=_GAMMA, rounding=ulps(8, wide=True), limit=4500.0, special=(1.0, 2.0), params=("m", "n"), samples=_DENSITIES,
    arguments=("a", "x"), summary="x^(a-1) exp(-x) / gamma(a), differentiated m times in a and n times in x.",
)  # fmt: skip
betainc = elementwise(
    "betainc", beta.betainc, (None, None, lambda xp, y, a, b, x: xp.beta_density_derivative(a, b, x, n=0)),
    missing=(0, 1), domain=_BETA, rounding=ulps(64, wide=True), limit=4500.0, special=(1.0,),
    arguments=("a", "b", "x"),
    summary="Regularised incomplete beta function I_x(a, b); differentiable in x only, as in TensorFlow.",
    example=((2.0, 1.0, 0.5), 0.25),
    conventions=ORDERS,
)  # fmt: skip
beta_density_derivative = elementwise(
    "beta_density_derivative", beta.beta_density_derivative,
    (None, None, lambda xp, y, a, b, x, *, n: xp.beta_density_derivative(a, b, x, n=n + 1)),
    missing=(0, 1), domain=_BETA, ulps=4.0, limit=4500.0, special=(1.0, 2.0), params=("n",), samples=_BETAS,
    arguments=("a", "b", "x"), summary="x^(a-1) (1-x)^(b-1) / B(a, b), differentiated n times in x.",
)  # fmt: skip


@diagnosed
def lbeta(x: Any, name: str | None = None) -> Tensor:
    """Logarithm of the absolute value of the beta function of the last axis.

    Parameters
    ----------
    x : floating-point tensor, shape [..., n]

    Returns
    -------
    Tensor
        Shape [...].

    Raises
    ------
    gtape.errors.InvalidArgumentError
        If `x` is a scalar or not floating-point.

    Examples
    --------
    >>> import gtape
    >>> y = gtape.math.lbeta(gtape.constant([2.0, 3.0], "float64"))
    >>> round(float(y), 12)  # B(2, 3) = 1/12
    -2.484906649788

    Notes
    -----
    DLMF 5.12.1, generalised to several arguments: the constant of Dirichlet's distribution.
    """
    from gtape.errors import InvalidArgumentError

    tensor = as_operand(x)
    if tensor.shape.rank == 0:
        raise InvalidArgumentError("lbeta needs at least one axis to sum over, got a scalar; give it a vector")
    from gtape.ops.reduction.sums import reduce_sum

    total = lgamma.function(reduce_sum(tensor, axis=-1))
    made: Tensor = reduce_sum(lgamma.function(tensor), axis=-1) - total
    return made
