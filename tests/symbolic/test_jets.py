"""Jets against sympy.diff of whole compositions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy as sp
from flint import arb

from gtape.symbolic.balls import Undecided, precision, to_float
from gtape.symbolic.jets import Jet, compose, jet_class, multi_indices
from gtape.symbolic.worlds import JetWorld

x, y = sp.symbols("x y", real=True)


def seeds(k: int, values: tuple[Any, ...]) -> list[Any]:
    """Jets of values along random integer directions, with all higher components filled."""
    rng = np.random.default_rng(k)
    return [jet_class(k)(arb(v), *[arb(int(c)) for c in rng.integers(-3, 4, 2**k - 1)]) for v in values]


def expected(f: Any, k: int, jets: list[Any]) -> list[Any]:
    """Components of f(jets) by sympy.diff along a polynomial path with the same components."""
    e = sp.symbols(f"e0:{k}", real=True)
    paths = []
    for j in jets:
        path = sp.Integer(0)
        for s, c in enumerate(j.components):
            path += sp.Rational(float(c)) * sp.prod([e[i] for i in range(k) if s >> i & 1])
        paths.append(path)
    whole = f(*paths)
    out = []
    for s in range(1 << k):
        d = whole
        for i in range(k):
            if s >> i & 1:
                d = sp.diff(d, e[i])
        out.append(float(sp.N(d.subs(dict.fromkeys(e, 0)), 30)))
    return out


COMPOSITIONS = [
    lambda a, b: a * b - 3 * a + b / 2,
    lambda a, b: a / b,
    lambda a, b: 2 / a - b,
    lambda a, b: 1 - a**3 * b**-2,
    lambda a, b: (a + b) ** 5 / (a * a + 1),
]


@pytest.mark.parametrize("f", COMPOSITIONS)
@pytest.mark.parametrize("k", [1, 2, pytest.param(3, marks=pytest.mark.slow), pytest.param(4, marks=pytest.mark.slow)])
def test_arithmetic(k: int, f: Any) -> None:
    jets = seeds(k, (1.5, -0.75))
    with precision(200):
        got = f(*jets)
    np.testing.assert_allclose([float(c) for c in got.components], expected(f, k, jets), rtol=1e-13, atol=1e-13)


FUNCTIONS = [
    (lambda a: sp.exp(a) * sp.sin(a), 1),
    (lambda a: 1 / (1 + sp.exp(-a)), 1),
    (lambda a: sp.sqrt(a) + sp.log(a), 1),
    (lambda a, b: a**b, 2),
    (lambda a, b: sp.atan2(a, b) + sp.exp(a * b), 2),
    (lambda a, b, c: a * sp.cos(b) + sp.tanh(c * a) / b, 3),
]


@pytest.mark.parametrize("case", FUNCTIONS)
@pytest.mark.parametrize("k", [1, 2, pytest.param(3, marks=pytest.mark.slow)])
def test_functions(mirror: Any, k: int, case: Any) -> None:
    f, arity = case
    jets = seeds(k, (1.5, 0.75, 2.0)[:arity])
    with precision(200):
        got = getattr(JetWorld(k), mirror(f))(*jets).item()
    np.testing.assert_allclose([float(c) for c in got.components], expected(f, k, jets), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_constants_stay_constants(mirror: Any, k: int) -> None:
    W = JetWorld(k)
    power = mirror(lambda a, b: a**b)
    j = W.jet(np.array([-2.0, 0.0]), *[np.ones(2)] * k)
    out = getattr(W, power)(j, W.lift(3.0))  # the slope in the exponent, log(-2), is never asked for
    assert to_float(W.component(out, 1)).tolist() == [12.0, 0.0]
    constant = getattr(W, power)(W.lift(-2.0), W.lift(3.0)).item()
    assert not isinstance(constant, Jet) and constant == -8


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_integer_powers_are_polynomials_at_zero(mirror: Any, n: int) -> None:
    W = JetWorld(3)
    j = W.jet(np.zeros(1), *[np.ones(1)] * 3)
    out = getattr(W, mirror(lambda a, b: a**b))(j, W.lift(float(n)))
    derivatives = [sp.diff(x**n, x, m).subs(x, 0) for m in range(4)]
    assert [int(to_float(W.component(out, s)).item()) for s in (0, 1, 3, 7)] == derivatives


def test_zero_by_construction_outlives_an_infinite_factor(mirror: Any) -> None:
    W = JetWorld(2)
    root = mirror(sp.sqrt)
    j = W.jet(np.zeros(1), np.ones(1), None)
    out = getattr(W, root)(j)
    assert not W.component(out, 1).item().is_finite()
    assert W.component(out, 2).item() == 0 and W.component(out, 3).item() == 0


def test_comparisons_look_at_values() -> None:
    one, two = jet_class(1)(arb(1), arb(9)), jet_class(1)(arb(2), arb(-9))
    assert one < two and one <= two and two > one and two >= 1 and one == 1 and one != two
    with pytest.raises(Undecided):
        jet_class(1)(arb(1) / 3, arb(0)) < arb(1) / 3  # noqa: B015 - the comparison is what is tested


def test_arrays_take_precedence() -> None:
    j = jet_class(2)(arb(1), arb(2), arb(3), arb(4))
    a = np.array([arb(2), 3], dtype=object)
    for out in (j * a, a * j, j + a, a - j, j / a, a / j, j - a):
        assert isinstance(out, np.ndarray) and out.shape == (2,)


def test_misuse() -> None:
    with pytest.raises(TypeError, match="1 and 2 directions do not mix"):
        jet_class(1)(arb(1), arb(1)) + seeds(2, (1,))[0]
    with pytest.raises(TypeError, match="integer powers only"):
        seeds(1, (1,))[0] ** 0.5
    with pytest.raises(ValueError, match="at least one direction"):
        jet_class(0)
    with pytest.raises(ValueError, match="2 directions, got 1"):
        JetWorld(2).jet(np.ones(1), np.ones(1))


def test_chain_rule_counts_partitions() -> None:
    """With all partials and components 1, each component is a Bell number."""
    ones = (arb(1),) * 16
    out = compose(4, 1)((arb(1),) * len(multi_indices(1, 4)), ones)
    assert [int(out.components[s].unique_fmpz()) for s in (1, 3, 7, 15)] == [1, 2, 5, 15]
