"""The worlds: mirrors and rules on object arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy as sp
from flint import arb
from hypothesis import assume, given
from hypothesis import strategies as st

from gtape.symbolic.balls import Undecided, infinities_as_limits, precision, to_float
from gtape.symbolic.worlds import BallWorld, JetWorld, SymPyWorld

x, y = sp.symbols("x y", real=True)
WORLDS = [BallWorld(), JetWorld(1), JetWorld(2), SymPyWorld()]


def floats(values: Any) -> np.ndarray:
    return np.frompyfunc(float, 1, 1)(values).astype(float) if values.ndim else np.array(float(values.item()))


@pytest.mark.parametrize("W", WORLDS, ids=lambda w: type(w).__name__)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3)])
def test_results_are_object_arrays(mirror: Any, W: Any, shape: tuple[int, ...]) -> None:
    name = mirror(lambda a: a**2 + 1)
    value = np.full(shape, 1.5)
    for out in (
        getattr(W, name)(value),
        W.add(value, 1),
        W.negative(value),
        W.divide(value, 3),
        W.where(value > 1, value, 0),
    ):
        assert isinstance(out, np.ndarray) and out.dtype == object and out.shape == shape
    np.testing.assert_array_equal(floats(getattr(W, name)(value)), np.full(shape, 3.25))


@pytest.mark.parametrize("W", WORLDS, ids=lambda w: type(w).__name__)
def test_rules_run_unchanged(mirror: Any, W: Any) -> None:
    slope, tanh = mirror(lambda a: 1 / sp.cosh(a) ** 2), mirror(sp.tanh)

    def rule(xp: Any, y: Any, a: Any) -> Any:
        return -2 * getattr(xp, tanh)(a) * getattr(xp, slope)(a) / xp.pi

    for a in (np.array(0.5), np.array([0.5, -1.0])):
        expected = -2 * np.tanh(a) / np.cosh(a) ** 2 / np.pi
        np.testing.assert_allclose(floats(np.asarray(rule(W, None, W.lift(a)), dtype=object)), expected, rtol=1e-14)


@pytest.mark.parametrize("W", WORLDS, ids=lambda w: type(w).__name__)
def test_constants(W: Any) -> None:
    got = [floats(c).item() for c in (W.pi, W.ln2, W.ln10, W.sqrt2, W.two_over_sqrt_pi)]
    np.testing.assert_allclose(got, [np.pi, np.log(2), np.log(10), np.sqrt(2), 2 / np.sqrt(np.pi)], rtol=1e-15)


@pytest.mark.parametrize("W", WORLDS, ids=lambda w: type(w).__name__)
def test_lift(W: Any) -> None:
    assert W.lift(np.array([1, 2])).dtype == np.int64
    assert W.lift(np.array([True])).dtype == bool
    assert W.lift(np.float32(0.1)).item() == W.exact(float(np.float32(0.1)))
    assert W.lift(W.lift(0.5)).item() == W.exact(0.5)
    parts = [W.real(W.lift(np.array([1 + 2j]))), W.imag(W.lift(np.array([1 + 2j])))]
    assert [float(p[0]) for p in parts] == [1, 2]
    with pytest.raises(TypeError, match="U1"):
        W.lift("a")


@pytest.mark.parametrize("W", WORLDS, ids=lambda w: type(w).__name__)
def test_comparisons_are_plain_booleans(mirror: Any, W: Any) -> None:
    a = W.lift(np.array([1.0, 2.0, 3.0]))
    for out, expected in [
        (W.less(a, 2), [True, False, False]),
        (W.less_equal(a, 2), [True, True, False]),
        (W.greater(a, 2), [False, False, True]),
        (W.greater_equal(2.0, a), [True, True, False]),
        (W.equal(a, 2), [False, True, False]),
        (W.not_equal(a, 2), [True, False, True]),
        (getattr(W, mirror(lambda p, q: p < q))(a, 2), [True, False, False]),
        (W.less(np.array([1, 2, 3]), 2), [True, False, False]),
    ]:
        assert out.dtype == bool and out.tolist() == expected
    assert W.less(1.0, 2.0).shape == ()


@pytest.mark.parametrize("W", WORLDS, ids=lambda w: type(w).__name__)
def test_conditions_of_scalars(mirror: Any, W: Any) -> None:
    mask = getattr(W, mirror(lambda a: sp.Piecewise((1, a > 0), (0, True))))(np.array([-1.0, 1.0]))
    assert floats(W.where(mask, 5.0, W.lift(7.0))).tolist() == [7.0, 5.0]


@pytest.mark.parametrize("W", WORLDS, ids=lambda w: type(w).__name__)
def test_array_mirrors_get_lifted_arrays(mirror: Any, W: Any) -> None:
    def concat(W: Any, parts: Any, *, axis: int) -> Any:
        return np.concatenate(parts, axis=axis), parts[0].sum()

    out, total = getattr(W, mirror(concat, "array"))([np.ones(2), W.lift(np.zeros(1))], axis=0)
    assert out.dtype == object and floats(out).tolist() == [1, 1, 0]
    assert isinstance(total, np.ndarray) and floats(total) == 2


def test_parameters_are_exact(mirror: Any) -> None:
    name = mirror(lambda a, *, alpha, n=1: alpha * a**n)
    with precision(200):
        out = getattr(BallWorld(), name)(arb(3), alpha=0.1, n=np.int64(2))
        assert out.item() == arb(0.1) * 9
    assert getattr(SymPyWorld(), name)(x, alpha=0.5).item() == x / 2


def test_unknown_mirror() -> None:
    with pytest.raises(AttributeError, match="frobnicate has no mirror"):
        _ = BallWorld().frobnicate


@pytest.mark.parametrize("W", WORLDS[:3], ids=lambda w: type(w).__name__)
def test_extrema(W: Any) -> None:
    a = np.array([[1.0, 4.0, 2.0], [3.0, -1.0, 0.0]])
    for axis in (None, 0, 1, -1, (0, 1)):
        for keep in (False, True):
            np.testing.assert_array_equal(floats(W.max_along(a, axis, keep)), a.max(axis, keepdims=keep))
            np.testing.assert_array_equal(floats(W.min_along(a, axis, keep)), a.min(axis, keepdims=keep))
    np.testing.assert_array_equal(W.order_along(a, 1), np.argsort(a, 1, kind="stable"))
    np.testing.assert_array_equal(W.order_along(a, 0, descending=True), [[1, 0, 0], [0, 1, 1]])
    for extreme, expected in ((W.max_along, -np.inf), (W.min_along, np.inf)):  # of nothing, as NumPy's kernels have it
        made = W.objects(extreme(np.ones((2, 0)), 1))
        np.testing.assert_array_equal(to_float(np.array([getattr(e, "components", (e,))[0] for e in made])), expected)


@pytest.mark.parametrize("W", [BallWorld(), JetWorld(1)], ids=lambda w: type(w).__name__)
@pytest.mark.parametrize("name", ["less", "less_equal", "greater", "greater_equal", "equal", "not_equal"])
def test_arrays_compare_as_their_elements(W: Any, name: str) -> None:
    third = arb(1) / 3
    a = np.array([arb(1), third, arb(2), 4, arb("-inf"), W.jet(2.0, 1.0).item() if W.k else arb(2)], dtype=object)
    b = np.array([arb(1), third, 3, arb(3), arb(0), arb(2)], dtype=object)
    compare = getattr(W, name)
    assert compare(a, b).tolist() == [compare(x, y).item() for x, y in zip(a, b, strict=True)]
    assert compare(a[:, None], b[:1]).shape == (6, 1)
    with pytest.raises(Undecided):
        compare(a, np.array([arb(1), arb(1) / 3, *b[2:]], dtype=object))


def test_ties_are_shared() -> None:
    W = JetWorld(1)
    a = W.jet(np.array([2.0, 5.0, 5.0, 5.0]), np.array([7.0, 1.0, 2.0, 6.0]))
    assert to_float(W.component(W.max_along(a), 1)) == 3.0
    with pytest.raises(Undecided):
        BallWorld().max_along(np.array([arb(1) / 3, arb(1) / 3], dtype=object))


@pytest.mark.parametrize("W", WORLDS[:2], ids=lambda w: type(w).__name__)
def test_the_greatest_element_equals_itself_though_inexact(W: Any) -> None:
    a = W.divide(np.array([1.0, 2.0, 1.0]), 3)
    if isinstance(W, JetWorld):
        a = W.multiply(a, W.jet(np.array([1.0, 1.0, 1.0]), np.array([5.0, 6.0, 7.0])))
    assert W.equal(a, W.max_along(a, 0, True)).tolist() == [False, True, False]


def test_jet_matmul_is_the_product_rule() -> None:
    W = JetWorld(2)
    rng = np.random.default_rng(1)
    a, da, b, db = (rng.integers(-5, 6, s).astype(float) for s in ((6, 9), (6, 9), (9, 4), (9, 4)))
    out = W.matmul(W.jet(a, da, None), W.jet(b, None, db))
    parts = [to_float(W.component(out, s)) for s in range(4)]
    for got, expected in zip(parts, (a @ b, da @ b, a @ db, da @ db), strict=True):
        np.testing.assert_array_equal(got, expected)
    small = W.matmul(W.jet(a[0, :2], da[0, :2], None), W.lift(b[:2]))
    np.testing.assert_array_equal(to_float(W.component(small, 1)), da[0, :2] @ b[:2])


def test_sample_points_decide_and_are_written_down(mirror: Any) -> None:
    W = SymPyWorld(samples={x: sp.Rational(3, 2), y: -1})
    relu = mirror(lambda a: sp.Piecewise((a, a > 0), (0, True)))
    v = np.array([x, y], dtype=object)
    assert getattr(W, relu)(v).tolist() == [x, 0]
    assert getattr(W, mirror(sp.Abs))(v).tolist() == [x, -y]
    assert getattr(W, mirror(sp.Max))(x, y).item() == x
    assert getattr(W, mirror(sp.floor))(x).item() == 1
    assert W.greater(getattr(W, mirror(sp.exp))(x), 4.0).item()
    assert W.order_along(np.array([x, y, x * y], dtype=object)).tolist() == [2, 1, 0]
    assert list(map(str, W.decisions)) == [
        "x > 0",
        "y < 0",
        "x > y",
        "x > 1",
        "x < 2",
        "exp(x) > 4",
        "y < x",
        "x*y < y",
    ]


def test_what_holds_everywhere_is_not_a_decision() -> None:
    W = SymPyWorld(samples={x: 2})
    assert W.equal((x + 1) ** 2, x**2 + 2 * x + 1).item()
    assert W.less(sp.sqrt(2), 1.5).item()
    assert not W.decisions


def test_a_tie_at_the_sample_is_written_as_one() -> None:
    W = SymPyWorld(samples={x: 2, y: 2})
    assert W.max_along(np.array([x, y], dtype=object)).item() == x / 2 + y / 2
    assert [d.sign for d in W.decisions] == [0]


def test_without_samples_only_what_always_holds(mirror: Any) -> None:
    W = SymPyWorld()
    relu = mirror(lambda a: sp.Piecewise((a, a > 0), (0, True)))
    assert getattr(W, relu)(sp.exp(x)).item() == sp.exp(x)
    with pytest.raises(Undecided, match="x > 0") as caught:
        getattr(W, relu)(x)
    assert caught.value.hopeless


def test_samples_must_be_rational() -> None:
    with pytest.raises(ValueError, match="rational"):
        SymPyWorld(samples={x: sp.pi})


# Ops of numbers and infinities, as NumPy defines them.
AT_INFINITIES: dict[str, Any] = {
    "exp": np.exp,
    "atan": np.arctan,
    "divide": np.divide,
    "divide_no_nan": lambda a, b: 0.0 if b == 0 else a / b,
    "maximum": np.maximum,
    "is_finite": np.isfinite,
    "equal": np.equal,
    "less": np.less,
}
NUMBERS = st.sampled_from([np.inf, -np.inf, 0.0, 1.5, -2.0])


@pytest.mark.parametrize("name", AT_INFINITIES)
@given(a=NUMBERS, b=NUMBERS)
def test_ops_at_infinities_give_the_numbers_of_floats(name: str, a: float, b: float) -> None:
    values = [a] if name in ("exp", "atan", "is_finite") else [a, b]
    with np.errstate(all="ignore"):
        expected = AT_INFINITIES[name](*map(np.float64, values))
    assume(np.isfinite(expected))
    with precision(200), infinities_as_limits():
        W = BallWorld()
        made = getattr(W, name)(*[W.lift(np.array(v)) for v in values])
        assert made == expected if made.dtype == bool else float(to_float(made)) == pytest.approx(expected, rel=1e-15)


def test_an_op_that_jumps_at_infinity_has_its_value_and_slopes_there() -> None:
    W = JetWorld(1)
    with precision(200), infinities_as_limits():
        x = W.jet(W.lift(np.array([-np.inf, -np.inf])), np.array([1.0, 2.0]))
        e = W.exp(x)
        share = W.divide_no_nan(e, W.sum(e, axis=(0,), keepdims=True))
        for directions in (0, 1):
            assert W.component(share, directions).tolist() == [0, 0]
        assert not W.is_finite(W.component(x, 0)).any()
        assert not W.greater(e, 0).any()


def test_numbers_that_grow_slowly_to_infinity_are_infinite() -> None:
    W = BallWorld()
    with precision(200), infinities_as_limits():
        assert float(to_float(W.divide(1, W.log(W.lift(np.array(np.inf)))))) == 0.0
