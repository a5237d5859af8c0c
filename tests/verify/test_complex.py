"""Complex numbers under verification: kernels against the mirrors, derivatives against exact ones, faults found."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gtape as tf
from gtape.declare.primitives import REGISTRY
from gtape.namespaces import catalogue
from gtape.symbolic.balls import precision, to_double_double
from gtape.verify import check, exact, judge
from gtape.verify.judging import judgement
from gtape.verify.oracles.enclosures import BALLS
from gtape.verify.programs.mutants import TRANSFORMS, planted, scaled
from gtape.verify.proofs.proof import prove
from gtape.verify.proofs.proof_cells import parameters
from gtape.verify.search.census import census
from gtape.verify.verdicts.ulp import spacing, widest

catalogue.load()
HOLOMORPHIC = sorted(
    p.name for p in REGISTRY.values() if p.kind == "elementwise" and p.differentiable and callable(p.complex)
)
PUBLIC = [n for n in HOLOMORPHIC if REGISTRY[n].public] + ["add", "multiply", "negative", "square", "subtract"]


def points(name: str, n: int, dtype: Any) -> list[np.ndarray]:
    """Numbers of all directions and many sizes, and the neighbourhoods of 0 and of branch points."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    found = []
    for _ in REGISTRY[name].rules:
        turn = np.exp(1j * rng.uniform(-np.pi, np.pi, n))
        near = rng.choice([0, 1, -1, 1j, -1j], n) + np.exp2(rng.uniform(-10, -1, n)) * turn
        far = np.exp2(rng.uniform(-8, 4, n)) * turn
        found.append(np.where(rng.random(n) < 0.4, near, far).astype(dtype))
    return found


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64], ids=["complex128", "complex64"])
@pytest.mark.parametrize("name", HOLOMORPHIC)
def test_kernels_keep_four_ulp_of_the_modulus(name: str, dtype: Any) -> None:
    prim = REGISTRY[name]
    for params in parameters(prim):
        xs = points(name, 60, dtype)
        with np.errstate(all="ignore"):
            got = prim.complex(*xs, **params)
        assert got.dtype == dtype
        with precision(400):
            high, low = to_double_double(getattr(BALLS, name)(*[BALLS.lift(x) for x in xs], **params))
        held = np.abs(high) < float(np.finfo(dtype).max)
        ulps = np.abs((widest(got) - high) - low)[held] / spacing(high, dtype)[held]
        assert ulps.max(initial=0.0) <= 4, f"{name}{params}: {ulps.max()} ULP"


@pytest.mark.parametrize("name", PUBLIC)
def test_derivatives_are_exact_at_order_1_and_2(name: str) -> None:
    xs = [x + 0.125 for x in points(name, 3, np.complex128)]
    for order in (1, 2):
        report = check(REGISTRY[name].function, *xs, order=order)
        assert report.ok, report.summary()
    report = check(REGISTRY[name].function, *[x.astype(np.complex64) for x in xs])
    assert report.ok, report.summary()


SMOOTH: dict[str, Any] = {
    "sin": tf.sin, "exp(z/4)": lambda z: tf.exp(z / 4), "tanh": tf.tanh, "sqrt(z+5)": lambda z: tf.sqrt(z + 5),
    "log(z*z+9)": lambda z: tf.math.log(z * z + 9), "1/(z+4)": lambda z: 1 / (z + 4), "conj": tf.math.conj,
    "z*conj(z)": lambda z: z * tf.math.conj(z), "|z|": lambda z: tf.cast(tf.abs(z), z.dtype),
    "atan(z/9)": lambda z: tf.atan(z / 9),
    "re+2i im": lambda z: tf.complex(tf.math.real(z), 2 * tf.math.imag(z)), "sum": lambda z: z + tf.reduce_sum(z) / 8,
    "angle": lambda z: z * tf.cast(tf.math.angle(z + 7), z.dtype), "reverse": lambda z: z[::-1] * 0.5,
}  # fmt: skip
PARTS = st.floats(-2, 2, allow_subnormal=False).map(lambda v: round(v, 3))


@given(
    st.lists(st.sampled_from(sorted(SMOOTH)), min_size=1, max_size=4),
    st.lists(st.tuples(PARTS, PARTS), min_size=1, max_size=3),
    st.sampled_from([np.complex128, np.complex64]),
)
def test_random_programs_have_exact_gradients(names: list[str], parts: list[tuple[float, float]], dtype: Any) -> None:
    def program(z: Any) -> Any:
        for name in names:
            z = SMOOTH[name](z)
        return z

    report = check(program, np.array([complex(*p) for p in parts], dtype))
    assert report.ok, f"{names}: {report.summary()}"


A = np.array([[2 + 1j, 0.5j, 1], [0.25, 3 - 1j, -1j], [1j, 0.5, 2.5]])
V = np.array([0.5 - 1j, -1.25 + 0.5j, 2j, 1.5])


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (tf.abs, (V,)),
        (tf.sign, (V,)),
        (tf.math.angle, (V,)),
        (lambda z: tf.math.conj(z) * z, (V,)),
        (lambda a, b: tf.exp(tf.complex(a, b)), (V.real, V.imag)),
        (lambda z: tf.cast(tf.cast(z, tf.float64), tf.complex128) * z, (V,)),
        (tf.reduce_prod, (V,)),
        (tf.math.cumprod, (V,)),
        (tf.reduce_mean, (V,)),
        (tf.math.reduce_std, (V,)),
        (tf.norm, (V,)),
        (lambda a, b: tf.matmul(a, b, adjoint_b=True), (A, A + 1j)),
        (lambda a: tf.einsum("ij,kj->ik", a, tf.math.conj(a)), (A,)),
        (tf.linalg.inv, (A,)),
        (lambda a: tf.linalg.solve(a, a[:, :1], adjoint=True), (A,)),
        (lambda a: tf.math.real(tf.linalg.solve(a, a[:, :1])), (np.array([[3 + 1j, 1j], [0.5, 4 - 2j]]),)),
        (tf.linalg.det, (A,)),
        (lambda z: tf.where([True, False, True, False], z * z, tf.sqrt(z)), (V,)),
        (lambda z: tf.gather(tf.concat([z, z[::-1]], 0), [0, 5, 5]) ** 2, (V,)),
        (lambda z: tf.pad(tf.roll(z, 1, 0), [[1, 0]]) ** 2, (V,)),
    ],
)
def test_programs_of_complex_numbers_are_checked(f: Any, args: Any) -> None:
    report = check(f, *args)
    assert report.ok, report.summary()
    assert report.checked


@pytest.mark.parametrize("name", ["sin", "sqrt", "log", "divide", "pow", "tan", "acosh", "add", "square"])
def test_the_census_finds_no_derivative_beyond_four_ulp(name: str) -> None:
    rows = census([name], dtypes=("complex128", "complex64"), points=120)
    assert rows and all(r.ok for r in rows), max(rows, key=lambda r: r.worst_ulp)
    assert max(r.points for r in rows) > 60 and {r.order for r in rows} == {1, 2}


def test_the_census_finds_lost_digits() -> None:
    with planted("sqrt", 0, scaled(1 + 1e-14), worlds="floats"):
        assert not all(r.ok for r in census(["sqrt"], dtypes=("complex128",), points=120))


def test_real_ops_have_no_complex_rows() -> None:
    assert census(["erf", "hypot"], dtypes=("complex128",), points=120) == []


def test_the_flag_checks_nested_tapes_and_forward_mode() -> None:
    z = tf.constant(V)
    with tf.verifying():
        with tf.GradientTape() as outer:
            outer.watch(z)
            with tf.GradientTape() as inner:
                inner.watch(z)
                y = tf.tanh(z) * tf.math.conj(z)
            first = inner.gradient(y, z)
        assert outer.gradient(first, z) is not None
        with tf.autodiff.ForwardAccumulator(z, tf.constant(1j * V)) as acc:
            y = tf.tanh(z) * tf.math.conj(z)
        assert acc.jvp(y) is not None


@pytest.mark.parametrize("name", ["sin", "sqrt", "tanh", "log", "divide", "multiply", "pow", "conj", "matmul"])
@pytest.mark.parametrize("transform", ["1e-13", "sign", "factor 2"])
def test_faults_in_rules_are_found(name: str, transform: str) -> None:
    prim = REGISTRY[name]
    xs = [tf.constant(A + k) for k in range(len(prim.rules))]
    for a in range(len(prim.rules)):
        fault = scaled(1 + 1e-13) if transform == "1e-13" else TRANSFORMS[transform]
        with planted(name, a, fault), tf.GradientTape(verify=True) as tape:
            tape.watch(xs)
            y = prim(*xs)
            with pytest.raises(tf.VerificationError, match=name):
                tape.gradient(y, xs)


CUTS: list[tuple[Any, Any]] = [
    (tf.math.log, complex(-1, -0.0)), (tf.sqrt, complex(-4, -0.0)), (tf.math.rsqrt, complex(-3, -0.0)),
    (tf.asin, 2 + 0j), (tf.asin, complex(-2, -0.0)), (tf.acos, 2 + 0j), (tf.acosh, 0.5 + 0j), (tf.atanh, 2 + 0j),
    (tf.asinh, complex(-0.0, 2)), (tf.atan, complex(-0.0, 2)), (tf.math.log1p, complex(-3, -0.0)),
    (lambda z: z ** (0.5 + 1j), complex(-3, -0.0)), (lambda x: tf.asin(tf.complex(x, tf.zeros_like(x))), 2.0),
    (lambda x: tf.sqrt(tf.cast(x, tf.complex128)), -4.0),
]  # fmt: skip


@pytest.mark.parametrize(("f", "z"), CUTS)
def test_on_a_branch_cut_the_derivative_is_that_of_the_values_side(f: Any, z: Any) -> None:
    for order in (1, 2):
        report = check(f, z, order=order)
        assert report.ok and report.verdict in ("correct", "convention"), report.summary()


# Functions across a cut: (function, a point on the cut, whether the function jumps or bends there).
ACROSS: dict[str, tuple[Callable[[Any], Any], complex, bool]] = {
    "real part of a root": (lambda z: tf.math.real(tf.sqrt(z)), -1 + 0j, True),
    "imaginary part of a root": (lambda z: tf.math.imag(tf.sqrt(z)), -1 + 0j, True),
    "imaginary part of a logarithm": (lambda z: tf.math.imag(tf.math.log(z)), -2 + 0j, True),
    "angle": (tf.math.angle, -2 + 0j, True),
    "a power": (lambda z: tf.math.real(z**0.3), -1 + 0j, True),
    "arc sine": (lambda z: tf.math.real(tf.asin(z)), 2 + 0j, True),
    "area cosine": (lambda z: tf.math.imag(tf.acosh(z)), 0.5 + 0j, True),
    "area sine": (lambda z: tf.math.real(tf.asinh(z)), 2j, True),
    "real part of a logarithm": (lambda z: tf.math.real(tf.math.log(z)), -2 + 0j, False),
    "square of a root": (lambda z: tf.math.real(tf.sqrt(z) ** 2), -1 + 0j, False),
    "exponential of a logarithm": (lambda z: tf.math.imag(tf.exp(tf.math.log(z))), -1 + 0j, False),
    "modulus of a root": (lambda z: tf.abs(tf.sqrt(z)), -1 + 0j, False),
    "a whole power": (lambda z: tf.math.real(z**3.0), -1 + 0j, False),
    "sine of an arc sine": (lambda z: tf.math.real(tf.sin(tf.asin(z))), 2 + 0j, False),
}


def _signed(z: complex, sign: float) -> complex:
    """The number with this sign of its zero part."""
    return complex(z.real or sign * 0.0, z.imag if z.imag else sign * 0.0)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("name", ACROSS)
def test_a_function_that_bends_or_jumps_at_a_branch_cut_follows_a_convention_there(name: str, sign: float) -> None:
    f, at, bends = ACROSS[name]
    for order in (1, 2):
        report = check(f, _signed(at, sign), order=order)
        if bends:
            assert report.verdict == "convention" and report.ok, report
        else:
            assert report.ok and "convention" not in {finding.verdict for finding in report.findings}, report


def test_a_finding_on_a_branch_cut_names_the_values_of_both_sides() -> None:
    told = check(lambda z: tf.math.real(tf.sqrt(z)), complex(-4, 0.0)).findings[0]
    assert told.op == "sqrt" and "a branch cut: the limit of sqrt is 0+2j above and 0-2j below" in told.reason
    told = check(lambda z: tf.math.real(tf.atan(z)), 2j).findings[0]
    assert "on the right and -1.5708+0.549306j on the left" in told.reason


def test_claims_on_a_branch_cut_lie_between_the_slopes_of_both_sides() -> None:
    for at in (complex(-1, 0.0), complex(-1, -0.0)):
        for claim, ok in ((0.5j, True), (-0.5j, True), (0j, True), (0.6j, False), (0.1 + 0j, False)):
            assert judge(lambda z: tf.math.real(tf.sqrt(z)), at, claim).ok == ok, (at, claim)
        for claim, ok in ((1.0, True), (-1.0, False)):
            assert judge(lambda z: tf.math.real(tf.sqrt(z) ** 2), at, claim).ok == ok, (at, claim)


@pytest.mark.parametrize(("f", "at", "right"), [
    (tf.sqrt, -1 + 0j, 0.5j), (tf.asin, 2 + 0j, -1j / np.sqrt(3)), (tf.abs, 0j, None),
    (lambda z: tf.math.imag(tf.math.log(z)), -2 + 0j, None),
])  # fmt: skip
def test_exact_takes_the_side_that_the_sign_of_a_zero_tells(f: Any, at: complex, right: complex | None) -> None:
    for sign in (1.0, -1.0):
        z = tf.constant(_signed(at, sign))
        with tf.GradientTape() as tape:
            tape.watch(z)
            y = f(z)
        found = tape.gradient(y, z).numpy()
        parts = [float(part) for part in str(exact(f, z)[()]).strip("()").removesuffix("j").split(", ")]
        np.testing.assert_allclose(complex(*parts), found, rtol=1e-14)
        if right is not None:
            np.testing.assert_allclose(found, right if sign > 0 else np.conj(right), rtol=1e-14)


@pytest.mark.parametrize(("f", "z"), [(tf.sqrt, 0j), (tf.math.log, 0j), (tf.math.reciprocal, 0j), (tf.atan, 1j)])
def test_poles_and_branch_points_are_outside_the_domain(f: Any, z: complex) -> None:
    assert check(f, z).verdict == "domain"


def test_what_a_selection_switched_off_stays_off() -> None:
    z = tf.constant([0j, 1 + 1j])
    with tf.GradientTape() as tape:
        tape.watch(z)
        y = tf.where(tf.abs(z) > 0, tf.sqrt(z), 0)
    g = tape.gradient(y, z).numpy()
    assert g[0] == 0 and np.isfinite(g[1])
    assert check(lambda z: tf.where(tf.abs(z) > 0, tf.sqrt(z), 0), np.array([0j, 1 + 1j])).ok


@pytest.mark.parametrize("value", [complex(np.nan, 0), complex(0, np.inf)])
def test_not_finite_inputs_are_a_domain_verdict(value: complex) -> None:
    assert check(tf.exp, value).verdict == "domain"


def test_a_missing_conjugate_is_a_wrong_rule() -> None:
    right, wrong = np.conj(np.cos(1 + 2j)), np.cos(1 + 2j)
    assert judge(tf.sin, 1 + 2j, right).verdict == "correct"
    assert judge(tf.sin, 1 + 2j, wrong).verdict == "rule"


def test_exact_gives_both_parts() -> None:
    text = str(exact(tf.square, 1 + 2j, digits=20)[()])
    assert text.startswith("(2.0000") and "-4.0000" in text and text.endswith("j)")


@pytest.mark.parametrize("name", ["conj", "imag", "complex", "tan", "acosh_slope", "pow_derivative", "matmul"])
def test_rules_are_proved_for_complex_numbers(name: str) -> None:
    proof = prove(name)
    assert proof.proved
    assert any(c.cell == ("complex numbers",) for c in proof.cases)


def test_a_rule_that_holds_for_real_numbers_only_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    def conjugated(xp: Any, y: Any, x: Any) -> Any:
        return xp.reciprocal_power(xp.conj(x), n=1)

    monkeypatch.setattr(REGISTRY["log"], "partials", (conjugated,))
    proof = prove("log")
    assert not proof.proved and "off by" in str(proof.counterexample)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("dtype", [tf.complex128, tf.float64])
def test_factorisations_of_matrices_near_degenerate_ones_are_no_false_rules(dtype: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 2 + seed % 4

    def drawn(*shape: int) -> Any:
        x = rng.normal(size=shape)
        return x + 1j * rng.normal(size=shape) if dtype.is_complex else x

    def weighed(y: Any) -> Any:
        return tf.reduce_sum(tf.abs(y) * np.cos(np.arange(np.prod(y.shape))).reshape(y.shape))

    near_unit = 2.0 * np.eye(n) + 10.0 ** -rng.integers(1, 4) * drawn(n, n)
    clustered = np.eye(n) + 30.0 * drawn(n, 1) @ drawn(1, n)  # n - 2 eigenvalues of a aᴴ are equal up to rounding
    cases: list[tuple[Callable[[Any], Any], Any]] = [
        (lambda a: weighed(tf.linalg.qr(a)[0]), near_unit),
        (lambda a: weighed(tf.linalg.qr(a)[1]), near_unit),
        (lambda a: weighed(tf.linalg.expm(a)), np.full((n, n), 10.0 / n) + 0.0 * drawn(n, n)),
        (lambda a: weighed(tf.linalg.eigvalsh(tf.matmul(a, a, adjoint_b=True))), clustered),
    ]
    for f, a in cases:
        assert check(f, tf.constant(a, dtype)).verdict != "rule"


def test_a_cut_beside_a_cancellation_is_no_false_rule() -> None:
    def f(z: Any) -> Any:
        x = tf.math.real(z)
        lost = (1.0 - tf.cos(x * 1e-4)) / (x * 1e-4) ** 2  # loses most digits
        return tf.reduce_sum(tf.math.imag(tf.asin(z))) + tf.reduce_sum(lost)

    report = check(f, tf.constant([2.0 + 0.0j], tf.complex64))
    assert not any(finding.verdict == "rule" for finding in report.findings)


@pytest.mark.parametrize("seed", range(4))
def test_the_rounding_of_an_enclosure_is_no_kink(seed: int) -> None:
    draw = np.random.default_rng(seed)
    a = (draw.normal(size=(2, 2)) + 1j * draw.normal(size=(2, 2)) + 2 * np.eye(2)).astype(np.complex64)
    w = tf.constant([[1.0, 0.3], [0.2, 0.7]])

    def f(a: Any) -> Any:
        return tf.reduce_sum(tf.abs(tf.linalg.eigh(a + tf.linalg.adjoint(a))[1]) ** 2 * w)

    report = check(f, a, order=2)
    assert report.ok and "convention" not in {finding.verdict for finding in report.findings}


# Kinks off in the imaginary part: (function, point, right claims, wrong claims).
OFF_THE_REAL_AXIS: dict[str, tuple[Callable[[Any], Any], Any, list[Any], list[Any]]] = {
    "hinge": (lambda z: tf.nn.relu(tf.math.imag(z)), 0j, [0j, 0.5j, 1j], [-0.5j, 0.5 - 0.5j, 2j]),
    "abs of two": (tf.abs, np.array([0j, 3 + 4j]), [np.array([0.1j, 0.6 + 0.8j])], [np.array([0.1 + 0j, 0.6 - 0.8j])]),
}


@pytest.mark.parametrize("name", OFF_THE_REAL_AXIS)
def test_claims_at_a_kink_are_compared_in_the_imaginary_part(name: str) -> None:
    f, at, right, wrong = OFF_THE_REAL_AXIS[name]
    assert all(judge(f, at, claim).ok for claim in right)
    assert not any(judge(f, at, claim).ok for claim in wrong)


def test_a_finding_about_an_imaginary_part_shows_its_interval_and_the_claim() -> None:
    report = judge(lambda z: tf.nn.relu(tf.math.imag(z)), 0j, 2j)
    assert report.findings[0].got == 2.0
    assert "lie in [0, 1], but the claim is a number outside, in the imaginary part" in report.findings[0].reason


# Smooth through a kink at 0, with a second derivative other than 0.
SMOOTH_AT_ZERO: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "abs squared": (lambda z: tf.abs(z) ** 2, 0j),
    "norm squared": (lambda z: tf.norm(z) ** 2, np.zeros(2, np.complex128)),
    "squared hinges of the imaginary part": (
        lambda z: tf.nn.relu(tf.math.imag(z)) ** 2 + tf.nn.relu(-tf.math.imag(z)) ** 2, 0j,
    ),
    "abs squared as a complex result": (lambda x: tf.cast(tf.abs(x) ** 2, tf.complex128) * (1.5 + 1j), 0.0),
}  # fmt: skip


@pytest.mark.parametrize("name", SMOOTH_AT_ZERO)
def test_a_second_derivative_that_the_whole_function_has_is_demanded_of_complex_numbers(name: str) -> None:
    report = check(*SMOOTH_AT_ZERO[name], order=2)
    assert (report.ok, report.verdict) == (False, "convention"), report


@pytest.mark.parametrize("f", [lambda z: tf.abs(z) ** 3, lambda z: z * tf.cast(tf.abs(z), tf.complex128)])
def test_a_second_derivative_at_a_complex_kink_passes_where_it_is_a_limit(f: Callable[[Any], Any]) -> None:
    report = check(f, 0j, order=2)
    assert (report.ok, report.verdict) == (True, "convention"), report


@pytest.mark.parametrize("along", [1.0 + 0j, 1j, 2.0 - 1.0j])
def test_forward_over_reverse_demands_the_second_derivative_of_abs_squared(along: complex) -> None:
    z = tf.constant(0j)
    with pytest.raises(tf.VerificationError, match="all one-sided derivatives agree"), tf.verifying("strict"):
        with tf.autodiff.ForwardAccumulator(z, tf.constant(along)) as accumulator:
            with tf.GradientTape() as tape:
                tape.watch(z)
                y = tf.abs(z) ** 2
            g = tape.gradient(y, z)
        accumulator.jvp(g)


# Points that an op fills in: (function, point, the verdict).
FILLED: dict[str, tuple[Callable[[Any], Any], Any, str]] = {
    "z to the power z": (lambda z: z**z, 0j, "domain"),
    "0 to the power w": (lambda w: tf.pow(tf.constant(0j), w), 0j, "convention"),
    "a quotient at its pole": (lambda z: tf.math.divide_no_nan(tf.constant(1 + 1j), z), 0j, "convention"),
    "a quotient of zeros": (lambda z: tf.math.divide_no_nan(z, z), 0j, "convention"),
    "z times its logarithm": (lambda z: tf.math.xlogy(z, z), 0j, "domain"),
    "0 to the power 1": (lambda w: tf.pow(tf.constant(0j), w), 1 + 0j, "correct"),
    "a square": (lambda z: z**2, 0j, "correct"),
    "a root on its cut": (tf.sqrt, -1 + 0j, "convention"),
}


@pytest.mark.parametrize("name", FILLED)
def test_a_complex_op_that_fills_in_a_point_is_judged_by_its_sides(name: str) -> None:
    f, at, verdict = FILLED[name]
    report = check(f, at)
    assert report.verdict == verdict, report


def test_z_to_the_power_z_has_no_derivative_at_0() -> None:
    with pytest.raises(ArithmeticError, match="grow without bound"):
        exact(lambda z: z**z, 0j)
    assert check(lambda z: z**z, 0j, order=2).verdict == "domain"


def test_the_power_of_0_has_the_derivative_0_by_a_complex_exponent() -> None:
    for at in (1 + 0j, 2 + 3j):
        assert str(exact(lambda w: tf.pow(tf.constant(0j), w), at)) == "(0, 0j)"


def _greatest_part(z: Any) -> Any:
    return tf.maximum(tf.math.real(z), tf.math.imag(z))


def _greatest_of_two(z: Any) -> Any:
    return tf.maximum(tf.math.real(z[0]), tf.math.imag(z[1]))


# Claims at ties of complex elements: (function, point, right claims, wrong claims inside their intervals).
TIES: dict[str, tuple[Callable[[Any], Any], Any, list[Any], list[Any]]] = {
    "real parts": (
        lambda z: tf.reduce_max(tf.math.real(z)), [1 + 0j, 1 + 0j],
        [[0.5, 0.5], [0.2, 0.8]], [[0, 0], [1, 1], [0.9, 0.9]],
    ),
    "magnitudes": (
        lambda z: tf.reduce_max(tf.abs(z)), [1j, 1 + 0j], [[0.3j, 0.7], [1j, 0]], [[0.3j, 0.8], [0.9j, 0.9]],
    ),
    "the parts of one number": (_greatest_part, 1 + 1j, [0.5 + 0.5j, 0.25 + 0.75j], [0.9 + 0.5j, 0.1 + 0.1j]),
    "parts of two numbers": (_greatest_of_two, [1 + 5j, 3 + 1j], [[0.4, 0.6j]], [[0.4, 0.5j]]),
    "the middle of three": (
        lambda z: tf.sort(tf.math.real(z))[1], [1 + 0j] * 3, [[0, 1, 0], [0.2, 0.3, 0.5]], [[0.2, 0.3, 0.6]],
    ),
    "a norm": (lambda z: tf.norm(z), [0j, 0j], [[0, 0], [0.3 + 0.2j, 0.1]], []),
}  # fmt: skip


@pytest.mark.parametrize("name", TIES)
def test_claims_at_a_tie_of_complex_elements_are_compared_along_directions_of_several(name: str) -> None:
    f, at, right, wrong = TIES[name]
    point = np.array(at)
    for claims, ok in ((right, True), (wrong, False)):
        for claim in claims:
            assert judge(f, point, np.array(claim, np.complex128)).ok == ok, claim


def test_a_direction_of_complex_elements_names_their_parts() -> None:
    report = judge(_greatest_of_two, np.array([1 + 5j, 3 + 1j]), np.array([0.4, 0.5j]))
    reason = report.findings[0].reason
    assert "of elements [0] (real part), [1] (imaginary part) all one-sided derivatives" in reason
    assert "are -1, but the claims give -0.9" in reason


@pytest.mark.parametrize("f", [lambda z: tf.sqrt(z * z), lambda z: tf.sqrt(tf.square(z))], ids=["product", "square"])
def test_advice_for_real_numbers_is_not_given_for_complex_ones(f: Any) -> None:
    assert check(f, 0.0).findings[0].instead == "sqrt(x**2) is gtape.abs(x)"
    assert check(f, 0j).findings[0].instead is None


def test_a_complex_factor_with_differences_of_0_is_checked() -> None:
    """Some outputs beside the point are those of the point, so that no power of the step tells them apart."""
    a = np.array([[1 + 1e-8j, 1.0, 0.0], [0.0, 1.0, 1.0], [0.0, 0.0, 1.0]])
    assert check(tf.linalg.qr, a).verdict == "correct"


def test_kinks_of_complex_ops_are_searched_once_for_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    searches = list[int]()
    search = judgement.kinks_met

    def counted(program: Any, oracle: Any, order: int) -> Any:
        searches.append(order)
        return search(program, oracle, order)

    monkeypatch.setattr(judgement, "kinks_met", counted)

    def lossy(x: Any) -> Any:
        z = tf.cast(x, tf.complex128)
        return tf.math.real(tf.exp(1j * tf.reduce_sum((z + 1e6) - 1e6) ** 2 / (z[0] + 1j)))

    report = check(lossy, np.array([0.3, 0.1]), order=2)
    assert report.verdict == "cancellation"
    assert searches == [1, 2]
