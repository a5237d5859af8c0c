"""The regularised incomplete gamma and beta functions, lbeta, and the densities that are their derivatives."""

from __future__ import annotations

from typing import Any

from gtape.base.diagnosis import diagnosed
from gtape.declare.domains import POSITIVE, Domain, Interval
from gtape.declare.primitives import elementwise
from gtape.declare.rounding import ulps
from gtape.kernels import beta_orders as k_beta
from gtape.kernels import incomplete as k
from gtape.ops.special.gamma import ORDERS, lgamma
from gtape.tensors.tensor import Tensor, as_operand

__all__ = ["lbeta"]

_UNIT = Interval(0.0, 1.0, open_lo=True, open_hi=True)
# The range in which ball arithmetic is fast. The kernels keep their digits up to 1e15.
_GAMMA = Domain(POSITIVE, POSITIVE, where=lambda a, x: a <= 1e9)
_BETA = Domain(POSITIVE, POSITIVE, _UNIT, where=lambda a, b, x: a + b <= 1e6)
_DENSITIES: Any = tuple((((5,), (5,)), {"m": m, "n": n}) for m, n in ((0, 0), (0, 1), (1, 0)))
_ORDERS: Any = tuple((((5,), (5,)), {"m": m}) for m in (1, 2))
_BETAS: Any = tuple(
    (((5,), (5,), (5,)), {"p": p, "q": q, "n": n}) for p, q, n in ((0, 0, 0), (0, 0, 1), (1, 0, 0), (0, 1, 1))
)
_BETA_ORDERS: Any = tuple((((5,), (5,), (5,)), {"p": p, "q": q}) for p, q in ((1, 0), (0, 1), (1, 1)))

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
    "betainc", k_beta.betainc,
    (
        lambda xp, y, a, b, x: xp.betainc_order_derivative(a, b, x, p=1, q=0),
        lambda xp, y, a, b, x: xp.betainc_order_derivative(a, b, x, p=0, q=1),
        lambda xp, y, a, b, x: xp.beta_density_derivative(a, b, x, p=0, q=0, n=0),
    ),
    domain=_BETA, rounding=ulps(64, wide=True), limit=4500.0, special=(1.0,),
    arguments=("a", "b", "x"),
    summary="Regularised incomplete beta function I_x(a, b), for a, b > 0 and 0 <= x <= 1.",
    example=((2.0, 1.0, 0.5), 0.25),
    conventions=ORDERS,
)  # fmt: skip
betainc_order_derivative = elementwise(
    "betainc_order_derivative", k_beta.betainc_order_derivative,
    (
        lambda xp, y, a, b, x, *, p, q: xp.betainc_order_derivative(a, b, x, p=p + 1, q=q),
        lambda xp, y, a, b, x, *, p, q: xp.betainc_order_derivative(a, b, x, p=p, q=q + 1),
        lambda xp, y, a, b, x, *, p, q: xp.beta_density_derivative(a, b, x, p=p, q=q, n=0),
    ),
    domain=_BETA, rounding=ulps(64, wide=True, noise=k_beta.cancelled),
    limit=4500.0, special=(1.0,), params=("p", "q"), samples=_BETA_ORDERS,
    arguments=("a", "b", "x"), summary="I_x(a, b) differentiated p times in a and q times in b.",
)  # fmt: skip
beta_density_derivative = elementwise(
    "beta_density_derivative", k_beta.beta_density_derivative,
    (
        lambda xp, y, a, b, x, *, p, q, n: xp.beta_density_derivative(a, b, x, p=p + 1, q=q, n=n),
        lambda xp, y, a, b, x, *, p, q, n: xp.beta_density_derivative(a, b, x, p=p, q=q + 1, n=n),
        lambda xp, y, a, b, x, *, p, q, n: xp.beta_density_derivative(a, b, x, p=p, q=q, n=n + 1),
    ),
    domain=_BETA, ulps=4.0, limit=4500.0, special=(1.0, 2.0), params=("p", "q", "n"),
    samples=_BETAS,
    arguments=("a", "b", "x"),
    summary="x^(a-1) (1-x)^(b-1) / B(a, b), differentiated p times in a, q times in b and n times in x.",
)  # fmt: skip


@diagnosed
def lbeta(x: Any, name: str | None = None) -> Tensor:
    """The logarithm of the absolute value of the beta function of the last axis.

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
