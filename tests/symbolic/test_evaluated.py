"""Functions that SymPy lacks have numbers: evalf finds as many digits as are asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import gtape as tf
from gtape.symbolic import functions, gamma_draw
from gtape.symbolic import special_functions as sf
from gtape.symbolic.enclosed import Enclosed
from gtape.symbolic.mirrors import load
from gtape.symbolic.mirrors.linalg import expm

R = sp.Rational
mp = mpmath.mp


def _in_sum(f: Callable[[Any], Any], x: Any, order: int) -> Any:
    return mpmath.diff(f, x, order)


def _beta(a: Any, b: Any, x: Any) -> Any:
    return mpmath.betainc(a, b, 0, x, regularized=True)


def _draw(a: Any, z: Any) -> Any:
    return mpmath.findroot(lambda y: mpmath.gammainc(a, 0, y, regularized=True) - mpmath.ncdf(z), a)


def _dawson(x: Any) -> Any:
    return mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(-x * x) * mpmath.erfi(x)


CASES: dict[str, tuple[Any, tuple[Any, ...], Callable[..., Any]]] = {
    "LogAbsGamma": (sf.LogAbsGamma, (R(5, 2),), mpmath.loggamma),
    "LogAbsGamma below 0": (sf.LogAbsGamma, (-R(7, 3),), lambda x: mpmath.log(abs(mpmath.gamma(x)))),
    "LogAbsGamma of a constant": (sf.LogAbsGamma, (sp.pi - sp.sqrt(2),), mpmath.loggamma),
    "SineOfPi": (sf.SineOfPi, (R(7, 3),), mpmath.sinpi),
    "CosineOfPi": (sf.CosineOfPi, (R(7, 3),), mpmath.cospi),
    "Dawson": (sf.Dawson, (R(5, 4),), _dawson),
    "DawsonDerivative": (sf.DawsonDerivative, (2, R(5, 4)), lambda n, x: _in_sum(_dawson, x, 2)),
    "ScaledErfc": (
        sf.ScaledErfc, (1, R(3, 2)), lambda n, x: _in_sum(lambda t: mpmath.exp(t * t) * mpmath.erfc(t), x, 1),
    ),
    "NormalDistribution": (sf.NormalDistribution, (-R(15, 2),), mpmath.ncdf),
    "PowerAtZero": (sf.PowerAtZero, (0, R(5, 2), 1, 0), lambda x, y, n, m: mpmath.mpf(0)),
    "ScaledBesselI": (sf.ScaledBesselI, (2, R(7, 2)), lambda m, x: mpmath.exp(-x) * mpmath.besseli(m, x)),
    "ScaledBesselK": (sf.ScaledBesselK, (1, R(7, 2)), lambda m, x: mpmath.exp(x) * mpmath.besselk(m, x)),
    "Spence": (sf.Spence, (R(1, 3),), lambda x: mpmath.polylog(2, 1 - x)),
    "HurwitzZeta": (sf.HurwitzZeta, (1, R(5, 2), R(1, 3)), lambda m, s, q: mpmath.zeta(s, q, 1)),
    "ConvergentZeta": (sf.ConvergentZeta, (R(5, 2), R(1, 3)), mpmath.zeta),
    "IncompleteGamma": (
        sf.IncompleteGamma, (0, R(5, 2), R(7, 3)), lambda m, a, x: mpmath.gammainc(a, 0, x, regularized=True),
    ),
    "IncompleteGamma by a": (
        sf.IncompleteGamma, (1, R(5, 2), R(7, 3)),
        lambda m, a, x: _in_sum(lambda t: mpmath.gammainc(t, 0, x, regularized=True), a, 1),
    ),
    "IncompleteGammaRest": (
        sf.IncompleteGammaRest, (R(5, 2), 40), lambda a, x: mpmath.gammainc(a, x, mpmath.inf, regularized=True),
    ),
    "IncompleteBeta": (sf.IncompleteBeta, (0, 0, R(5, 2), R(3, 2), R(1, 3)), lambda p, q, a, b, x: _beta(a, b, x)),
    "IncompleteBeta by b": (
        sf.IncompleteBeta, (0, 1, R(5, 2), R(3, 2), R(1, 3)),
        lambda p, q, a, b, x: _in_sum(lambda t: _beta(a, t, x), b, 1),
    ),
    "BetaDensityAtRim": (sf.BetaDensityAtRim, (0, 0, 0, 1, R(5, 2), 0), lambda p, q, n, a, b, x: b),
    "GammaDensityAtRim": (sf.GammaDensityAtRim, (0, 2, 2, 0), lambda m, n, a, x: mpmath.mpf(-2)),
    "GammaDraw": (gamma_draw.GammaDraw, (0, R(5, 2), R(1, 3)), lambda n, a, z: _draw(a, z)),
    "_Even": (expm._Even, (-R(7, 2),), lambda z: mpmath.cos(mpmath.sqrt(-z))),
    "_Odd": (expm._Odd, (R(7, 2),), lambda z: mpmath.sinh(mpmath.sqrt(z)) / mpmath.sqrt(z)),
}  # fmt: skip


def _close(got: Any, expected: Any, digits: int) -> bool:
    gap = abs(mpmath.mpf(str(got)) - expected)
    return bool(gap <= abs(expected) * mpmath.mpf(10) ** (1 - digits))


@pytest.mark.parametrize("name", CASES)
def test_each_function_has_fifty_digits(name: str) -> None:
    function, args, exact = CASES[name]
    made = function(*args)
    with mp.workdps(70):
        numbers = [int(a) if sp.sympify(a).is_Integer else mpmath.mpf(str(sp.N(a, 75))) for a in args]
        for found in (made.evalf(50), sp.N(made, 50), (3 * made).evalf(51) / 3):
            assert found.is_number and _close(found, exact(*numbers), 50), (found, exact(*numbers))


def test_every_function_of_the_mirrors_is_compared() -> None:
    load()

    def below(cls: Any) -> set[Any]:
        return {cls}.union(*map(below, cls.__subclasses__()))

    own = {c for c in below(sp.Function) if (c.__module__ or "").startswith("gtape.") and hasattr(c, "ball")}
    assert own == {function for function, _, _ in CASES.values()}
    lacking = {c for c in below(sp.Function) if (c.__module__ or "").startswith("gtape.")} - own
    assert lacking <= {Enclosed, functions.Removable, sf._Derivatives}


def test_a_removable_point_has_the_number_of_its_limit() -> None:
    x = sp.Symbol("x", real=True)
    sinc = sp.Piecewise((sp.sin(2 * x) / x, sp.Ne(x, 0)), (2, True))
    slope = functions.derivative(functions.derivative(sinc, x), x)
    found = next(iter(slope.atoms(functions.Removable)))
    assert _close(found.evalf(50), mpmath.mpf(-8) / 3, 15)


def test_a_function_of_symbols_stays() -> None:
    x = sp.Symbol("x", real=True)
    assert sf.LogAbsGamma(x).evalf() == sf.LogAbsGamma(x)
    assert sf.HurwitzZeta(0, 2, x).evalf().has(sf.HurwitzZeta)
    assert sf.LogAbsGamma(0).evalf() in (sf.LogAbsGamma(0), sp.oo)


@given(x=st.floats(-3.0, 3.0), step=st.floats(0.01, 2.0))
@settings(max_examples=1 + settings.default.max_examples // 2)
def test_a_floor_inside_its_steps_is_no_open_decision(x: float, step: float) -> None:
    value = float(tf.math.lgamma(tf.constant(1.5 + x * x, tf.float64)).numpy()) / step
    program = tf.symbolic.trace(
        lambda v: tf.math.floormod(tf.math.lgamma(1.5 + v * v), step), tf.constant(x, tf.float64)
    )
    if abs(value - round(value)) < 1e-9:
        return
    expression = program.expr()
    (symbol,) = expression.free_symbols
    got = float(expression.subs(symbol, sp.Rational(x)).evalf(30))
    assert got == pytest.approx(float(program.nodes[program.outputs[0]].output), rel=1e-6, abs=1e-6)
    assert program.latex()
