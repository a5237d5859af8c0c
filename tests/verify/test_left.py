"""Values that leave the tape and come back are found, and conversions that change nothing are not reported."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.verify import check, exact, judge
from gtape.verify.judging.flag import UndecidedWarning
from gtape.verify.judging.moved import _Difference, _power

F = Callable[[Any], Any]
LONG = math.pi / 3

LEAVES: dict[str, F] = {
    "math": lambda x: x * math.sin(x),
    "float": lambda x: x * float(x),
    "numpy": lambda x: x * x.numpy(),
    "asarray": lambda x: x * np.asarray(x),
    "asarray of a result": lambda x: x + np.asarray(tf.exp(2.0 * x)),
    "a constant of the value": lambda x: tf.constant(float(x), x.dtype) ** 2 + 0.0 * x,
    "clipping by the value": lambda x: x / max(0.5, float(tf.norm(x))),
    "complex": lambda x: x * complex(x).real,
}
STAYS: dict[str, F] = {
    "a branch": lambda x: x * x if float(x) > 0 else -x,
    "text": lambda x: (str(x), f"{x}", x * x)[-1],
    "a count": lambda x: sum([x**i for i in range(int(3.0 * x))], x),
    "clipping that is inactive": lambda x: x * x / max(10.0, float(tf.norm(x))),
    "a value that is not used": lambda x: (x.numpy(), tf.sin(x))[1],
}


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("dtype", [tf.float64, tf.float32])
@pytest.mark.parametrize("name", LEAVES)
def test_a_value_that_comes_back_is_unconnected(name: str, dtype: Any, order: int) -> None:
    report = check(LEAVES[name], tf.constant(1.25, dtype), order=order)
    assert (report.verdict, report.ok) == ("unconnected", False)
    finding = next(f for f in report.findings if f.verdict == "unconnected")
    assert finding.line[0] == __file__ and "leaves the tape" in finding.reason


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", STAYS)
def test_a_value_that_does_not_come_back_changes_nothing(name: str, order: int) -> None:
    assert check(STAYS[name], 1.25, order=order).verdict == "correct"


@tf.custom_gradient
def through_numpy(x: Any) -> Any:
    return tf.square(x), lambda g: g * 2.0 * x.numpy()


@tf.custom_gradient(declared="computed by NumPy")
def body_in_numpy(x: Any) -> Any:
    return tf.constant(np.sin(x.numpy())), lambda g: g * np.cos(x.numpy())


@tf.custom_gradient
def right(x: Any) -> Any:
    return tf.square(x), lambda g: g * 2.0 * x


@pytest.mark.parametrize("custom", [through_numpy, body_in_numpy, right])
def test_conversions_in_a_custom_gradient_are_its_own_matter_and_others_are_not(custom: F) -> None:
    for f in (lambda x: custom(x) * x, lambda x: (float(x), custom(x) * x)[1]):
        assert check(f, 1.25).ok
    for name in ("float", "math", "asarray of a result"):
        report = check(lambda x: custom(x) + LEAVES[name](x), 1.25)  # noqa: B023 - called at once
        assert report.verdict == "unconnected", report
        assert report.findings[0].line[0] == __file__


def test_exact_and_judge_know_it() -> None:
    with pytest.raises(ArithmeticError, match="leaves the tape"):
        exact(LEAVES["float"], 1.25)
    assert judge(LEAVES["float"], 1.25, 1.25).verdict == "unconnected"


def test_what_draws_random_numbers_is_undecided_if_a_value_leaves() -> None:
    rng = np.random.default_rng(0)
    report = check(lambda x: x * x.numpy() * rng.uniform(), 1.25)
    assert report.verdict == "undecided" and "not deterministic" in str(report)


def test_numbers_of_another_call_are_undecided() -> None:
    rng, calls = np.random.default_rng(0), iter(range(1, 100))
    for f in (lambda x: x * x * rng.uniform(), lambda x: x * next(calls)):
        for report in (check(f, 1.25), judge(f, 1.25, 1.0)):
            assert report.verdict == "undecided" and "second call of the function at the same point" in str(report)
        with pytest.raises(ArithmeticError, match="second call of the function at the same point"):
            exact(f, 1.25)


def _counted() -> F:
    v = tf.Variable(1.0, dtype=tf.float64)
    return lambda x: (v.assign_add(1.0), x * v)[1]


DRAWN: dict[str, F] = {
    "a normal number": lambda x: x * tf.random.normal([], dtype=x.dtype),
    "a dropout": lambda x: tf.reduce_sum(tf.nn.dropout(x * tf.ones([5], x.dtype), 0.5)),
    "a variable that counts": _counted(),
}
SEEDED: dict[str, F] = {**DRAWN, "an op with a seed": lambda x: x * tf.random.normal([], seed=7, dtype=x.dtype)}


@pytest.mark.parametrize("name", DRAWN)
def test_exact_numbers_of_a_function_that_differs_in_the_next_call_are_refused(name: str) -> None:
    tf.random.set_seed(None)
    with pytest.raises(ArithmeticError, match="second call of the function at the same point"):
        exact(DRAWN[name], 1.25)


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("name", SEEDED)
def test_a_claim_that_may_belong_to_another_call_is_undecided(name: str, seed: int | None) -> None:
    tf.random.set_seed(seed)
    report = judge(SEEDED[name], 1.25, 0.99)
    assert not report.ok and report.verdict == "undecided"
    assert "from a fixed seed, and let it" in report.findings[0].reason


@pytest.mark.parametrize("name", ["a normal number", "a dropout", "an op with a seed"])
def test_draws_from_a_seed_have_exact_numbers(name: str) -> None:
    tf.random.set_seed(3)
    number = exact(SEEDED[name], 1.25)
    tf.random.set_seed(3)
    assert judge(SEEDED[name], 1.25, number).verdict == "correct"


def _seeded(x: Any) -> Any:
    tf.random.set_seed(3)
    return x * tf.random.normal([], dtype=x.dtype)


def _assigned() -> F:
    v = tf.Variable(1.0, dtype=tf.float64)
    return lambda x: (v.assign(3.0), x * v)[1]


def _unread() -> F:
    v = tf.Variable(1.0, dtype=tf.float64)
    return lambda x: (v.assign_add(1.0), tf.random.normal([]), x * x)[2]


REPEATED: dict[str, F] = {
    "a seed inside": _seeded,
    "a stateless draw": lambda x: x * tf.random.stateless_normal([], [1, 2], dtype=x.dtype),
    "a variable that is set anew": _assigned(),
    "changes that it does not read": _unread(),
}


@pytest.mark.parametrize("name", REPEATED)
def test_a_function_that_repeats_its_numbers_has_exact_ones(name: str) -> None:
    numbers = [exact(REPEATED[name], 1.25) for _ in range(2)]
    assert str(numbers[0]) == str(numbers[1])
    assert judge(REPEATED[name], 1.25, numbers[0]).verdict == "correct"


def test_calls_that_show_a_change_of_state_leave_the_state_as_one_call_does() -> None:
    v = tf.Variable(1.0, dtype=tf.float64)
    with pytest.raises(ArithmeticError):
        exact(lambda x: (v.assign_add(1.0), x * v)[1], 1.25)
    assert v.numpy() == 2.0


def _held(x: Any) -> Any:
    v = tf.Variable(0.0, dtype=x.dtype)
    v.assign(tf.sin(x))
    return x * v


def _one_gradient_step(x: Any) -> Any:
    v = tf.Variable(x)
    with tf.GradientTape() as tape:
        loss = tf.sin(v)
    v.assign_sub(0.1 * tape.gradient(loss, v))
    return v * v


UNNOTED: dict[str, F] = {
    "a new variable": lambda x: x * tf.Variable(tf.sin(x)),
    "a variable alone": lambda x: tf.square(tf.Variable(x)),
    "assign": _held,
    "assign_sub": _one_gradient_step,
    "range": lambda x: tf.reduce_sum(tf.range(x, 2.0, 0.25, dtype=x.dtype) ** 2),
    "one_hot": lambda x: tf.reduce_sum(tf.one_hot([0, 1], 3, on_value=x, off_value=2.0 * x, dtype=x.dtype)),
    "pad": lambda x: tf.reduce_sum(tf.pad([x], [[1, 1]], constant_values=x) ** 2),
}


@pytest.mark.parametrize("dtype", [tf.float64, tf.float32])
@pytest.mark.parametrize("name", UNNOTED)
def test_a_value_that_leaves_by_any_other_door_is_unconnected(name: str, dtype: Any) -> None:
    report = check(UNNOTED[name], tf.constant(1.3, dtype))
    assert (report.verdict, report.ok) == ("unconnected", False)


def test_the_finding_names_the_line_that_assigns() -> None:
    finding = check(_held, 1.25).findings[0]
    assert finding.line is not None and (finding.line[0], finding.line[2]) == (__file__, "_held")
    with pytest.raises(ArithmeticError, match=r"no tape records.*_held"):
        exact(_held, 1.25)
    with pytest.raises(ArithmeticError, match="leaves the tape"):
        exact(UNNOTED["range"], 1.3)


@pytest.mark.parametrize("share", [1e-2, 1e-4, 1e-6])
def test_a_small_part_that_leaves_is_found(share: float) -> None:
    assert check(lambda x: x + share * float(x) ** 2, 1.25).verdict == "unconnected"
    assert check(lambda x: tf.exp(x) * (1.0 + share * math.sin(x)), 1.25).verdict == "unconnected"


@pytest.mark.parametrize(
    "f",
    [
        lambda x: tf.reduce_sum((x - x.numpy().mean()) ** 2),
        lambda x: tf.reduce_sum((x - x.numpy()) ** 2),
        lambda x: tf.reduce_sum(math.sqrt(x[0]) + (x[0] - math.sqrt(x[0]) ** 2) / (2.0 * math.sqrt(x[0])) + x[1:]),
    ],
    ids=["mean", "distance to itself", "one Newton step"],
)
def test_a_constant_counts_from_the_order_that_it_changes(f: F) -> None:
    x = [1.3, -0.4, 2.1]
    assert check(f, x).ok
    assert check(f, x, order=2).verdict == "unconnected"


@pytest.mark.parametrize("dtype", [tf.float64, tf.float32])
def test_a_small_change_of_the_second_derivative_is_found_in_any_dtype(dtype: Any) -> None:
    x = tf.constant([0.31234567, -1.2345678, 2.1234567], dtype)
    f = lambda x: tf.reduce_sum((x - float(tf.reduce_mean(x))) ** 2)
    assert check(f, x).ok and check(f, x, order=2).verdict == "unconnected"


@pytest.mark.parametrize("order", [1, 2])
def test_a_value_that_is_stopped_before_it_leaves_is_a_constant_on_purpose(order: int) -> None:
    def by_a_variable(x: Any) -> Any:
        v = tf.Variable(0.0, dtype=x.dtype)
        v.assign(tf.stop_gradient(tf.sin(x)))
        return v * x

    for f in (by_a_variable, lambda x: x * tf.stop_gradient(x).numpy(), lambda x: x * tf.stop_gradient(x)):
        assert check(f, LONG, order=order).ok
    assert check(lambda x: by_a_variable(x) * float(x), LONG).verdict == "unconnected"


def test_what_a_function_keeps_for_its_next_call_is_named() -> None:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        kept.append(tf.sin(x))
        return x * kept[0]

    (finding,) = check(f, 1.25).findings
    assert (finding.verdict, finding.op) == ("undecided", "sin") and "keeps the result" in finding.reason
    assert check(lambda x: f(x) * float(x), LONG).verdict == "unconnected"


def test_a_function_runs_once_more_and_leaves_no_trace() -> None:
    calls = []
    count = tf.Variable(0)

    def f(x: Any) -> Any:
        calls.append(1)
        count.assign_add(1)
        return x * x * tf.random.normal([], dtype=x.dtype)

    tf.random.set_seed(3)
    assert check(f, 1.25).verdict == "correct"
    assert (len(calls), count.numpy()) == (2, 1)
    after = tf.random.normal([]).numpy()
    tf.random.set_seed(3)
    tf.random.normal([], dtype=tf.float64)
    assert tf.random.normal([]).numpy() == after


def test_random_draws_hide_no_value_that_leaves() -> None:
    for seed in (None, 3):
        tf.random.set_seed(seed)
        assert check(lambda x: x * float(x) * tf.random.normal([], dtype=x.dtype), 1.25).verdict == "unconnected"
        assert check(lambda x: (float(x), x * tf.random.normal([], dtype=x.dtype))[1], 1.25).verdict == "correct"


def test_kinks_of_branches_are_no_value_that_leaves() -> None:
    f = lambda x: tf.add_n([v if bool(v > 0.0) else 0.0 * v for v in (x[0], x[1], x[2])])
    report = check(f, [0.0, 0.0, 1.0])
    assert report.ok and report.verdict == "convention"


def test_order_2_includes_order_1() -> None:
    @tf.custom_gradient
    def f(x: Any) -> Any:
        return x * x, lambda g: 2.0 * x * g + tf.stop_gradient(0.01 * g)

    report = check(f, 1.25, order=2)
    assert report.verdict == "rule" and any(f.order == 1 for f in report.findings)
    assert check(lambda x: x**3, 1.25, order=3).checked == 3


@pytest.mark.parametrize("seed", range(12))
def test_a_value_that_leaves_in_float32_is_found_where_its_effects_nearly_cancel(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = tf.constant(rng.normal(size=3), tf.float32)
    # The weights make the slopes of the constant part cancel along one of the directions that a check may move in.
    u = rng.uniform(0.5, 1.0, 3) * rng.choice([-1.0, 1.0], 3) * np.abs(x.numpy())
    w = rng.normal(size=3)
    w -= u * (w @ u) / (u @ u)
    weights = tf.constant(w, tf.float32)
    report = check(lambda x: tf.reduce_sum(x + np.sin(x.numpy()) * weights), x)
    assert (report.verdict, report.ok) == ("unconnected", False)


def _differences(f: Callable[[float], float]) -> list[dict[int, Any]]:
    """A difference at shorter and shorter moves, as a function of the move."""
    rounding = np.full(1, 1e-12)
    return [
        {sign: _Difference(np.array([f(sign * 4.0**-k)]), rounding, large=True) for sign in (-1, 1)} for k in range(3)
    ]


@pytest.mark.parametrize(
    ("difference", "power"),
    [
        (lambda h: h, 1),
        (lambda h: 1e-3 * h + h**2, 1),
        (lambda h: h**2, 2),
        (lambda h: 3 * h**3 + h**2, 2),
        (lambda h: h**3, 3),
        (lambda h: h**3 + h**4, 3),
        (abs, None),
        (lambda h: h + 0.5 * abs(h), None),
        (lambda h: max(h, 0.0), None),
        (lambda h: math.sin(1e6 * h), None),
        (lambda h: 1e-15 * h, None),
        (lambda h: 1.0 + h, None),
    ],
)  # fmt: skip
def test_the_least_power_of_a_difference_is_found(difference: F, power: int | None) -> None:
    assert _power(_differences(difference), 1) == power


@pytest.mark.parametrize("f", [tf.tanh, tf.sinh, tf.sigmoid, tf.math.expm1, tf.math.erf, tf.nn.gelu])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_results_that_cancel_do_not_look_like_a_leak(f: Any, dtype: str) -> None:
    """The kernels of numbers and of arrays round differently, which a difference makes large."""
    for x in (0.0, 0.25):
        here = tf.constant(x, dtype)
        line = f(here).numpy()
        assert check(lambda t, f=f, line=line, x=x: f(t) - line - (t - x), here).ok


@tf.custom_gradient
def partly_outside_and_wrong(x: Any) -> Any:
    return x * x.numpy(), lambda g: g * x


@tf.custom_gradient
def partly_outside_and_right(x: Any) -> Any:
    return x * x.numpy(), lambda g: 2.0 * g * x


@tf.custom_gradient
def looks_at_its_value(x: Any) -> Any:
    scale = 2.0 if float(tf.reduce_max(x)) < 100.0 else 3.0
    return scale * tf.sin(x), lambda g: scale * g * tf.cos(x)


def test_a_body_that_leaves_the_tape_in_part_is_undecided() -> None:
    x = np.array([1.25, 0.7])
    for f in (partly_outside_and_wrong, partly_outside_and_right):
        report = check(lambda x, f=f: tf.exp(f(x)), x)
        assert [g.verdict for g in report.findings] == ["undecided"]
        assert "leaves the tape in part" in report.findings[0].reason and report.findings[0].op == f.__name__
    assert check(lambda x: tf.exp(looks_at_its_value(x)), x).ok


@pytest.mark.parametrize("order", [1, 2])
def test_under_the_flag_a_body_that_leaves_the_tape_in_part_is_undecided(order: int) -> None:
    def gradient(f: F, mode: Any) -> Any:
        x = tf.Variable(np.array([1.25, 0.7]))
        with tf.GradientTape(verify=mode) as tape:
            with tf.GradientTape() as inner:
                y = tf.exp(f(x))
            y = y if order == 1 else inner.gradient(y, x)
        return tape.gradient(y, x)

    for f in (partly_outside_and_wrong, partly_outside_and_right):
        with pytest.warns(UndecidedWarning, match=f"op {f.__name__}"):
            assert gradient(f, True) is not None
        with pytest.raises(tf.VerificationError, match="leaves the tape in part"):
            gradient(f, "strict")
    assert gradient(looks_at_its_value, True) is not None
    assert gradient(looks_at_its_value, "strict") is not None


@pytest.mark.parametrize("leak", [lambda z: z * float(z[0]), lambda z: z * np.sin(z.numpy())], ids=["float", "numpy"])
def test_a_value_that_leaves_inside_a_recomputed_function_is_found(leak: Any) -> None:
    x = np.array([1.25, 0.7])
    assert check(lambda x: tf.recompute_grad(leak)(x), x).verdict == "unconnected"
    assert check(lambda x: tf.recompute_grad(lambda z: tf.sin(z) * z)(x), x).verdict == "correct"


Z = np.complex128(0.7 + 0.2j)
LEAVES_BY_A_PART: dict[str, F] = {
    "the imaginary part": lambda z: tf.math.real(z) * z.numpy().imag,
    "complex": lambda z: tf.math.real(z) * complex(z).imag,
    "exp of the imaginary part": lambda z: tf.math.real(z) * np.exp(z.numpy().imag),
    "the real part of a turned number": lambda z: tf.math.real(z) * (z.numpy() * 1j).real,
    "the real part": lambda z: tf.math.imag(z) * z.numpy().real,
    "float32 of the imaginary part": lambda z: tf.math.real(z) * tf.cast(float(np.float32(z.numpy().imag)), tf.float64),
}


@pytest.mark.parametrize("name", LEAVES_BY_A_PART)
def test_a_value_that_leaves_a_complex_argument_through_one_part_comes_back(name: str) -> None:
    f = LEAVES_BY_A_PART[name]
    assert check(f, Z).verdict == "unconnected"
    assert check(lambda v: f(v[0]) + f(v[1]), np.array([Z, 0.3 - 0.4j])).verdict == "unconnected"
    assert check(lambda x, z: x * f(z), 1.5, Z).verdict == "unconnected"
    with pytest.raises(ArithmeticError, match="leaves the tape"):
        exact(f, Z)


def test_a_value_that_leaves_complex64_through_its_imaginary_part_comes_back() -> None:
    assert check(LEAVES_BY_A_PART["the imaginary part"], np.complex64(Z)).verdict == "unconnected"
    assert check(LEAVES_BY_A_PART["exp of the imaginary part"], np.complex64(Z)).verdict == "unconnected"


@pytest.mark.parametrize("claim", [0.2 + 0.7j, 0.2 + 0j])
def test_no_claim_is_compared_with_a_derivative_without_the_imaginary_part_that_left(claim: complex) -> None:
    report = judge(LEAVES_BY_A_PART["the imaginary part"], Z, np.complex128(claim))
    assert report.verdict == "unconnected" and "leaves the tape" in str(report)


def test_a_part_that_does_not_come_back_changes_nothing() -> None:
    assert check(lambda z: tf.math.real(z) * (z.numpy().imag > 0), Z).verdict == "correct"
    assert check(lambda z: (z.numpy().imag, tf.math.real(z * z))[1], Z).verdict == "correct"


def test_a_branch_of_real_numbers_is_compared_along_the_real_axis() -> None:
    def f(z: Any) -> Any:
        return tf.math.real(z) * z.numpy().real if z.numpy().imag == 0 else tf.math.real(z * z)

    assert check(f, np.complex128(0.7)).verdict == "unconnected"


def test_a_constant_that_equals_a_logged_value_by_chance_is_the_users_own() -> None:
    log: list[Any] = []
    w = np.random.default_rng(0).normal(size=3)
    as_tensor = tf.constant(w)

    def number(x: Any) -> Any:
        log.append(float(x))
        return x * math.pi

    def array(x: Any) -> Any:
        log.append(x.numpy())
        return tf.reduce_sum(tf.sin(x) * w)

    def tensor(x: Any) -> Any:
        log.append(x.numpy())
        return tf.reduce_sum(tf.sin(x) * as_tensor)

    for f, x in ((number, math.pi), (array, w), (tensor, w)):
        for order in (1, 2):
            assert check(f, x, order=order).verdict == "correct"
    assert float(exact(number, math.pi)[()]) == math.pi
    assert judge(tensor, w, np.cos(w) * w).verdict == "correct"


CONVERSIONS: dict[str, F] = {
    "numpy": lambda x: x.numpy(), "item": lambda x: x.numpy().item(), "array": lambda x: np.array([x.numpy()]),
    "constant": lambda x: tf.constant(x.numpy()), "twice": lambda x: 2.0 * x.numpy(),
    "sin": lambda x: np.sin(x.numpy()),
}  # fmt: skip


@pytest.mark.parametrize("point", [0.7, LONG])
@pytest.mark.parametrize("name", CONVERSIONS)
def test_a_number_that_a_function_keeps_from_its_first_call_never_passes(name: str, point: float) -> None:
    kept: dict[str, Any] = {}

    def cached(x: Any) -> Any:
        if not kept:
            kept["k"] = CONVERSIONS[name](x)
        return x * kept["k"]

    report = check(cached, point)
    assert report.verdict in ("undecided", "unconnected") and "leaves the tape" in str(report)


def test_a_value_that_only_the_first_call_logs_changes_nothing() -> None:
    log: list[float] = []

    def logs_once(x: Any) -> Any:
        if not log:
            log.append(float(x))
        return 2.0 * tf.sin(x)

    assert check(logs_once, LONG).verdict == "correct"


def test_a_branch_that_only_points_very_close_take_is_followed() -> None:
    f = lambda x: x * x if abs(float(x) - 0.7) < 1e-9 else x
    assert check(f, 0.7).verdict == check(f, 0.7, order=2).verdict == "correct"
    assert float(exact(f, 0.7)[()]) == 1.4
    leaves = lambda x: x * float(x) if abs(float(x) - 0.7) < 1e-9 else x
    assert not check(leaves, 0.7).ok


@pytest.mark.parametrize(
    ("f", "at"),
    [
        (lambda x: tf.sign(x) + x if float(x) != 0 else x, 0.0),
        (lambda x: x * x if float(x) == 0.7 else x, 0.7),
        (lambda x: x * x if abs(float(x) - 0.7) < 1e-14 else x, 0.7),
    ],
)
def test_the_finding_names_a_branch_of_python_that_no_other_point_takes(f: F, at: float) -> None:
    report = check(f, at)
    assert report.verdict == "unconnected" and "Python takes another branch" in str(report)
    assert "comes back" not in str(report)


# Each at 0, with the highest order of the derivatives that the record has right.
OF_SIZES: dict[str, tuple[F, int]] = {
    "x |x|": (lambda x: x * abs(float(x)), 1),
    "x**2 |x|": (lambda x: x * x * abs(float(x)), 2),
    "x max(x, 0)": (lambda x: x * max(float(x), 0.0), 1),
    "x + x |x|": (lambda x: x + float(x) * abs(float(x)), 1),
    "sin x + |x|": (lambda x: tf.sin(x) + abs(float(x)), 0),
}


@pytest.mark.parametrize("name", OF_SIZES)
def test_a_size_that_comes_back_counts_from_the_order_whose_derivative_it_changes(name: str) -> None:
    f, right = OF_SIZES[name]
    for order in (1, 2):
        assert check(f, 0.0, order=order).ok == (order <= right)


WHOLE: dict[str, F] = {
    "a sum of the array": lambda x: tf.reduce_sum(x.numpy()),
    "a sum by asarray": lambda x: tf.reduce_sum(np.asarray(x)),
    "ops on a constant": lambda x: tf.exp(tf.reduce_sum(tf.constant(x.numpy()))) + 1.0,
    "a term beside it": lambda x: tf.reduce_sum(x) + tf.reduce_sum(tf.constant(x.numpy())),
    "a custom gradient": lambda x: tf.custom_gradient(lambda c: (c * c, lambda g: 2.0 * g))(x.numpy()),
}


@pytest.mark.parametrize("point", [[1.0, 2.0], [1.2345678, 2.3456789]])
@pytest.mark.parametrize("f", WHOLE.values(), ids=WHOLE)
def test_ops_on_a_value_that_left_are_no_branch(f: F, point: list[float]) -> None:
    found = [g for g in check(f, np.array(point, np.float32)).findings if not g.ok]
    assert [g.verdict for g in found] == ["unconnected"]
    assert "comes back as a constant" in found[0].reason and "branch" not in found[0].reason
