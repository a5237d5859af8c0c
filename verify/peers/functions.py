"""Functions of numbers that peers offer, with their exact definitions: gtape's mirrors, and textbook formulas.

The table has one line for each function: a name, its definition, the domain, and the points of interest. A function of
gtape's needs no line, because its mirror is the definition.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import sympy as sp

from gtape.declare.domains import BOOLEAN, Domain, Interval
from gtape.declare.primitives import REGISTRY
from gtape.namespaces import catalogue
from gtape.symbolic.scalars import Template, template
from gtape.verify.search.subjects import parameters_of, subject_of

__all__ = ["FUNCTIONS", "Function", "function"]

_POSITIVE = Interval(0.0, open_lo=True)
_REAL = Interval()


class Function:
    """A function of numbers with an exact definition; searches take it in place of a `Subject`.

    Attributes
    ----------
    name : str
    definition : str
        The formula, for texts.
    prim : Function
        The function itself, which has `domain`, `special` and `kinks`.
    active : tuple of int
        The arguments with a derivative.
    kinked : bool
    template : Template
        The definition on plain symbols.
    """

    params: dict[str, Any] = {}  # noqa: RUF012 - shared and empty
    limit = 4.0

    def __init__(
        self, name: str, mirror: Callable[..., Any], *intervals: Interval,
        special: tuple[float, ...] = (), kinks: tuple[float, ...] = (), where: Callable[..., Any] | None = None,
    ) -> None:  # fmt: skip
        self.name, self.mirror = name, mirror
        self.domain = Domain(*intervals, where=where)
        self.special, self.kinks = special, kinks
        self.arity = len(intervals)
        self.active = tuple(range(self.arity))
        self.kinked = bool(kinks)

    @property
    def prim(self) -> Any:
        return self

    @property
    def template(self) -> Template:
        return template(self.mirror, self.arity, {})

    @property
    def definition(self) -> str:
        x = [sp.Symbol(s, real=True) for s in "xyz"[: self.arity]]
        return str(self.mirror(*x))

    def boolean(self, i: int) -> bool:
        """False, because no argument of these functions is a condition."""
        return False

    def __repr__(self) -> str:
        return self.name


def _log_gamma(x: Any) -> Any:
    return sp.loggamma(x)


def _piecewise(*branches: Any) -> Any:
    return sp.Piecewise(*branches)


def _softshrink(x: Any) -> Any:
    half = sp.Rational(1, 2)
    return _piecewise((x - half, x > half), (x + half, x < -half), (0 * x, True))


_HALF = sp.Rational(1, 2)
_UNIT = Interval(0.0, 1.0, open_lo=True, open_hi=True)
_BESSEL_END = 600.0

FUNCTIONS: dict[str, Function] = {
    made.name: made
    for made in (
        Function("logit", lambda x: sp.log(x) - sp.log(1 - x), _UNIT, special=(0.5, 0.0, 1.0)),
        Function("entr", lambda x: -x * sp.log(x), _POSITIVE, special=(0.0, 1.0)),
        Function("ndtr", lambda x: sp.erfc(-x / sp.sqrt(2)) / 2, _REAL, special=(0.0,)),
        Function("xlog2", lambda x: x * sp.log(x), _POSITIVE, special=(0.0, 1.0)),
        Function("rel_entr", lambda x, y: x * sp.log(x / y), _POSITIVE, _POSITIVE, special=(1.0,)),
        Function("kl_div", lambda x, y: x * sp.log(x / y) - x + y, _POSITIVE, _POSITIVE, special=(1.0,)),
        Function("logaddexp2", lambda x, y: sp.log(2**x + 2**y) / sp.log(2), _REAL, _REAL, special=(0.0,)),
        Function("trigamma", lambda x: sp.polygamma(1, x), _POSITIVE, special=(1.0,)),
        Function("tetragamma", lambda x: sp.polygamma(2, x), _POSITIVE, special=(1.0,)),
        Function("gamma", lambda x: sp.exp(_log_gamma(x)), Interval(0.0, 171.0, open_lo=True), special=(1.0, 2.0)),
        Function("betaln", lambda a, b: _log_gamma(a) + _log_gamma(b) - _log_gamma(a + b), _POSITIVE, _POSITIVE),
        Function("expint_1", lambda x: sp.expint(1, x), _POSITIVE, special=(0.0, 1.0)),
        Function("expint_2", lambda x: sp.expint(2, x), _POSITIVE, special=(0.0, 1.0)),
        Function("sine_integral", lambda x: sp.Si(x), _REAL, special=(0.0,)),
        Function("hard_tanh", lambda x: _piecewise((sp.Integer(1), x > 1), (-sp.Integer(1), x < -1), (x, True)), _REAL,
                 kinks=(-1.0, 1.0)),
        Function("hard_swish", lambda x: _piecewise((x, x > 3), (0 * x, x < -3), (x * (x + 3) / 6, True)), _REAL,
                 kinks=(-3.0, 3.0)),
        Function("hard_shrink", lambda x: _piecewise((x, x > _HALF), (x, x < -_HALF), (0 * x, True)), _REAL,
                 kinks=(-0.5, 0.5)),
        Function("hard_shrink_0", lambda x: x, _REAL, special=(0.0,)),
        Function("soft_shrink", _softshrink, _REAL, kinks=(-0.5, 0.5)),
        Function("tanh_shrink", lambda x: x - sp.tanh(x), _REAL, special=(0.0,)),
        Function("celu", lambda x: _piecewise((x, x >= 0), (2 * (sp.exp(x / 2) - 1), True)), _REAL, kinks=(0.0,)),
        Function("square_plus", lambda x: (x + sp.sqrt(x**2 + 4)) / 2, _REAL, special=(0.0,)),
        Function("sparse_plus", lambda x: _piecewise((x, x >= 1), (0 * x, x <= -1), ((x + 1) ** 2 / 4, True)), _REAL,
                 kinks=(-1.0, 1.0)),
        Function("log1mexp", lambda x: sp.log(1 - sp.exp(-x)), _POSITIVE, special=(0.0, 0.6931471805599453)),
        Function("radians", lambda x: x * sp.pi / 180, _REAL),
        # gtape's op also takes negative bases, where no derivative by the exponent exists.
        Function("pow", lambda x, y: x**y, _POSITIVE, _REAL, special=(0.0, 1.0, 2.0)),
        Function("cube", lambda x: x**3, _REAL, special=(0.0,)),
        Function("fourth_power", lambda x: x**4, _REAL, special=(0.0,)),
        Function("power_minus_3", lambda x: 1 / x**3, Interval(holes=(0.0,)), special=(1.0,)),
        Function("power_1_5", lambda x: x ** sp.Rational(3, 2), _POSITIVE, special=(0.0, 1.0)),
        Function("power_0", lambda x: sp.Integer(1) + 0 * x, _REAL, special=(0.0, 1.0)),
        Function("power_1", lambda x: x, _REAL, special=(0.0, 1.0)),
        Function("sum_of_powers", lambda x: sum(x**k for k in range(1, 11)), _REAL, special=(0.0, 1.0, -1.0)),
        Function("power_of_0", lambda x: 0 * x, _POSITIVE, special=(1.0, 2.0)),
        Function("exponential_of_2", lambda x: 2**x, _REAL, special=(0.0,)),
        Function("exponential_of_half", lambda x: sp.Rational(1, 2) ** x, _REAL, special=(0.0,)),
        Function("cube_of_sine", lambda x: sp.sin(x) ** 3, _REAL, special=(0.0,)),
        # Functions with a derivative that a user defines in the peer.
        Function("custom_fourth_power", lambda x: x**4, _REAL, special=(0.0,)),
        Function("abs_squared", lambda x: x**2, _REAL, special=(0.0,)),
        Function("bernoulli_entropy", lambda x: sp.log(1 + sp.exp(x)) - x / 2, _REAL, special=(0.0,)),
        # PyTorch documents that its softplus is the identity beyond 20.
        Function("softplus_to_20", lambda x: _piecewise((x, x > 20), (sp.log(1 + sp.exp(x)), True)), _REAL,
                 special=(20.0,)),
        Function("huber", lambda x: _piecewise((x - _HALF, x > 1), (-x - _HALF, x < -1), (x**2 / 2, True)), _REAL,
                 kinks=(-1.0, 1.0)),
        Function("log_cosh", lambda x: sp.log(sp.cosh(x)), _REAL, special=(0.0,)),
        Function("squared_hinge", lambda x: _piecewise(((1 - x) ** 2, x < 1), (0 * x, True)), _REAL, kinks=(1.0,)),
        Function("normal_logpdf", lambda x: -(x**2) / 2 - sp.log(2 * sp.pi) / 2, _REAL, special=(0.0,)),
        Function("logistic_logpdf", lambda x: -x - 2 * sp.log(1 + sp.exp(-x)), _REAL, special=(0.0,)),
        Function("cauchy_logpdf", lambda x: -sp.log(sp.pi) - sp.log(1 + x**2), _REAL, special=(0.0,)),
        Function("student_3_logpdf", lambda x: -2 * sp.log(1 + x**2 / 3) + sp.log(2 / (sp.pi * sp.sqrt(3))), _REAL,
                 special=(0.0,)),
    )
}  # fmt: skip


@cache
def function(name: str) -> Any:
    """The function of a name: a line of the table, or an elementwise primitive of gtape's.

    Raises
    ------
    ValueError
        For an unknown name.
    """
    if name in FUNCTIONS:
        return FUNCTIONS[name]
    catalogue.load()
    prim = REGISTRY.get(name)
    if prim is None or prim.kind != "elementwise" or BOOLEAN in prim.domain.intervals:
        raise ValueError(f"there is no function {name!r}: neither in the table nor an elementwise op of gtape's")
    return subject_of(name, parameters_of(prim))
