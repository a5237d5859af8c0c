"""Promises of the quick formulas of special functions: the digits, bits and limits of the slow formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gtape.kernels import bessel, beta_orders, gamma, incomplete, integrals, tails
from gtape.kernels import error_functions as erf
from gtape.kernels.pieces import Pieces

# kernel, parameters, octaves of positive numbers, and whether negative numbers are arguments, too
CASES: list[tuple[Any, dict[str, int], tuple[float, float], bool]] = [
    (gamma.lgamma, {}, (-25.0, 120.0), True),
    (erf.erfinv, {}, (-60.0, 0.0), True),
    (erf.erfcinv, {}, (-170.0, 1.0), False),
    (erf.ndtri, {}, (-170.0, 0.0), False),
    *[(erf.erfinv_derivative, {"n": n}, (-30.0, 0.0), True) for n in (1, 2, 5)],
    *[(erf.erfcinv_derivative, {"n": n}, (-100.0, 1.0), False) for n in (1, 2)],
    *[(erf.ndtri_derivative, {"n": n}, (-100.0, 0.0), False) for n in (1, 2)],
    *[(bessel.bessel_j_derivative, {"n": n}, (-30.0, 6.0), True) for n in (0, 1, 2)],
    *[(bessel.bessel_i_derivative, {"n": n}, (-30.0, 9.4), True) for n in (0, 1, 2)],
    *[(bessel.bessel_ie_derivative, {"m": m, "n": n}, (-30.0, 30.0), True) for m in (0, 1) for n in (0, 1, 2)],
    *[(bessel.bessel_y_derivative, {"n": n}, (-25.0, 6.0), False) for n in (0, 1, 2)],
    *[(bessel.bessel_k_derivative, {"n": n}, (-25.0, 9.4), False) for n in (0, 1, 2)],
    *[(bessel.bessel_ke_derivative, {"m": m, "n": n}, (-25.0, 30.0), False) for m in (0, 1) for n in (0, 1, 2)],
    *[(integrals.dawsn_derivative, {"n": n}, (-30.0, 20.0), True) for n in (0, 1, 2)],
    (integrals.expint, {}, (-25.0, 9.4), True),
    (integrals.expint_derivative, {"n": 1}, (-30.0, 9.4), True),
    (integrals.fresnel_sin, {}, (-30.0, 2.5), True),
    (integrals.fresnel_cos, {}, (-30.0, 2.5), True),
    (integrals.spence, {}, (-25.0, 30.0), False),
    *[(integrals.spence_derivative, {"n": n}, (-25.0, 30.0), False) for n in (1, 2, 3)],
    *[(tails.erfcx_derivative, {"n": n}, (-18.0, 1.9), True) for n in (0, 1, 2)],
    (tails.log_erfc, {}, (-18.0, 1.9), True),
    (tails.log_ndtr, {}, (-18.0, 1.9), True),
    *[(tails.log_erfc_derivative, {"n": n}, (-18.0, 1.9), True) for n in (1, 2)],
    *[(tails.log_ndtr_derivative, {"n": n}, (-18.0, 1.9), True) for n in (1, 2)],
    *[(gamma.digamma_derivative, {"n": n}, (-25.0, 60.0), True) for n in (0, 1, 2, 3, 8)],
]
IDS = ["-".join([kernel.__name__, *map(str, params.values())]) for kernel, params, _, _ in CASES]
of_each_kernel = pytest.mark.parametrize("case", CASES, ids=IDS)


def numbers(case: Any, count: int) -> Any:
    """Numbers with uniform exponents, and round numbers."""
    _, _, (low, high), signed = case
    rng = np.random.default_rng(7)
    x = np.concatenate([2.0 ** rng.uniform(low, high, count), 2.0 ** rng.uniform(max(low, -4), min(high, 5), count)])
    grid = np.arange(1, 41) / 8
    x = np.concatenate([x, grid[(grid >= 2.0**low) & (grid < 2.0**high)]])
    return np.concatenate([x, -x]) if signed else x


@of_each_kernel
def test_quick_formulas_have_the_digits_of_the_slow_ones(case: Any) -> None:
    kernel, params, _, _ = case
    x = numbers(case, 400)
    with np.errstate(all="ignore"):
        slow = kernel.__wrapped__(x, **params)
        got = kernel(x, **params)
        same = (got == slow) | (np.isnan(got) & np.isnan(slow))
        off = np.where(same, 0.0, np.abs(got - slow) / np.spacing(np.abs(slow)))
    assert off.max() <= 3.5, x[off.argmax()]


@of_each_kernel
def test_quick_formulas_round_narrow_results_once(case: Any) -> None:
    kernel, params, _, _ = case
    x = numbers(case, 200).astype(np.float32)
    with np.errstate(all="ignore"):
        slow = kernel.__wrapped__(x.astype(np.float64), **params)
        off = np.abs(kernel(x, **params) - slow) / np.spacing(np.abs(slow.astype(np.float32)))
    assert np.nanmax(np.where(np.isfinite(slow), off, 0.0)) <= 0.51


@of_each_kernel
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_bits_of_an_element_do_not_depend_on_other_elements(case: Any, dtype: str) -> None:
    kernel, params, _, _ = case
    x = numbers(case, 60).astype(dtype)
    whole = kernel(x, **params)
    np.testing.assert_array_equal([kernel(v, **params) for v in x], whole)
    np.testing.assert_array_equal(kernel(np.repeat(x, 2)[::2], **params), whole)
    np.testing.assert_array_equal(kernel(x[::-1], **params)[::-1], whole)


@of_each_kernel
def test_ordinary_numbers_seldom_need_the_slow_formula(case: Any) -> None:
    kernel, params, (low, high), signed = case
    x = 2.0 ** np.random.default_rng(3).uniform(max(low, -6), min(high, 5), 200)
    for sign in (1.0, -1.0) if signed else (1.0,):
        for least, share in ((0.5, 0.6 if sign < 0 else 0.95), (2.0**-18, 0.95)):
            with np.errstate(all="ignore"):
                _, right = kernel.quick(sign * x, least, **params)
            assert np.mean(np.broadcast_to(right, x.shape)) >= share


def test_a_function_that_varies_too_fast_for_polynomials_has_none() -> None:
    made = Pieces(lambda x: (np.sin(100.0 * x), 0.0 * x), 0, 3)
    _, right = made(np.linspace(1.0, 7.9, 50), 0.0)
    assert not right.any()


def test_polynomials_end_at_the_ends_of_their_range() -> None:
    made = Pieces(lambda x: (1.0 / x, 0.0 * x), 0, 3)
    x = np.array([0.0, -1.0, np.nextafter(1.0, 0.0), 1.0, np.nextafter(8.0, 0.0), 8.0, np.inf, -np.inf, np.nan])
    for some in (x, x[:4], x[4:]):
        _, right = made(some, 0.0)
        np.testing.assert_array_equal(right, (some >= 1) & (some < 8))


SEVERAL: list[tuple[Any, dict[str, int]]] = [
    (incomplete.igamma, {}),
    (incomplete.igammac, {}),
    (incomplete.gamma_density_derivative, {"m": 0, "n": 0}),
    (incomplete.igamma_order_derivative, {"m": 1}),
    (beta_orders.beta_density_derivative, {"p": 0, "q": 0, "n": 0}),
]


@pytest.mark.parametrize(("kernel", "params"), SEVERAL, ids=[kernel.__name__ for kernel, _ in SEVERAL])
def test_incomplete_integrals_of_narrow_numbers_are_rounded_once(kernel: Any, params: dict[str, int]) -> None:
    rng = np.random.default_rng(11)
    a = (10.0 ** rng.uniform(-4, 3, 300)).astype(np.float32)
    x = (a * 10.0 ** rng.uniform(-1, 1, 300)).astype(np.float32)
    args = (a, (a[::-1]).copy(), x / (1 + x)) if kernel is beta_orders.beta_density_derivative else (a, x)
    got = kernel(*args, **params)
    slow = kernel.__wrapped__(*[v.astype(np.float64) for v in args], **params)
    counted = np.abs(slow) > 2.0**-125
    off = np.abs(got[counted] - slow[counted]) / np.spacing(np.abs(slow[counted].astype(np.float32)))
    assert off.max() <= 0.51
    np.testing.assert_array_equal([kernel(*each, **params) for each in zip(*args, strict=True)], got)


@pytest.mark.parametrize(("m", "n"), [(1, 0), (2, 0), (1, 1)])
def test_slopes_of_zeta_by_narrow_numbers_are_rounded_once(m: int, n: int) -> None:
    rng = np.random.default_rng(5)
    s = (1 + 10.0 ** rng.uniform(-5, 2, 200)).astype(np.float32)
    q = np.concatenate([10.0 ** rng.uniform(-3, 3, 160), np.arange(1, 41)]).astype(np.float32)
    got = gamma.zeta_derivative(s, q, m=m, n=n)
    slow = gamma.zeta_derivative(s.astype(np.float64), q.astype(np.float64), m=m, n=n)
    counted = (np.abs(slow) > 2.0**-125) & (np.abs(slow) < 2.0**127)
    off = np.abs(got[counted] - slow[counted]) / np.spacing(np.abs(slow[counted].astype(np.float32)))
    assert off.max() <= 0.51
    np.testing.assert_array_equal(
        [gamma.zeta_derivative(*each, m=m, n=n) for each in zip(s[:40], q[:40], strict=True)], got[:40]
    )
