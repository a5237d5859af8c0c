"""Rational identities: decided, never guessed."""

from __future__ import annotations

import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

from gtape.verify.proofs.proof_rational import is_zero_rational

x, y, z = sp.symbols("x y z", real=True)
SMALL = st.sampled_from([x, y, z, x + y, x - z, x * y + 1, sp.Integer(2), sp.Rational(1, 3)])


@given(SMALL, SMALL, SMALL)
def test_identities_of_fractions_are_zero(a: sp.Expr, b: sp.Expr, c: sp.Expr) -> None:
    if sp.expand(b) != 0 and sp.expand(c) != 0:
        assert is_zero_rational(a / b + a / c - a * (b + c) / (b * c))
        assert is_zero_rational((a / b) ** -2 - b**2 / a**2)
        assert not is_zero_rational(a / b - a / c + 1 / (1 + x**2 + y**2)) or sp.together(a / b - a / c) != 0


@pytest.mark.parametrize("e", [x - y, 1 / x - 1 / y, (x**2 - 1) / (x - 1) - x, 1 / (x - y) - 1 / (y - x)])
def test_what_is_not_zero_is_not(e: sp.Expr) -> None:
    assert not is_zero_rational(e)


def test_signs_and_multiples_of_denominators_meet() -> None:
    assert is_zero_rational(1 / (x - y) + 1 / (y - x))
    assert is_zero_rational(1 / (2 * x - 2 * y) - sp.Rational(1, 2) / (x - y))
    assert is_zero_rational(1 / (1 / x + 1 / y) - x * y / (x + y))


def test_other_functions_are_refused() -> None:
    with pytest.raises(ValueError, match="not rational"):
        is_zero_rational(sp.sqrt(x) - sp.sin(x))
