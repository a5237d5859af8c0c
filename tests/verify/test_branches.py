"""Python branches on recorded values: at a tie the derivative is that of the branch taken, and the check says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.verify import check, exact, judge
from gtape.verify.verdicts.collect import collecting


def branch(x: Any) -> Any:
    if x > 0:
        return x * x
    return -x


def branch_on_any(x: Any) -> Any:
    return x * 2 if tf.reduce_any(x[0] * 3.0 == x[1]) else x * 3


def loop(x: Any) -> Any:
    while x > 1.0:
        x = x * 0.5
    return x


def conditional(x: Any) -> Any:
    return tf.cond(x >= 0.0, lambda: x * x, lambda: -x)


def two_ways(x: Any) -> Any:
    return branch(tf.exp(x) * tf.exp(x) - tf.exp(2.0 * x))


TIES: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "if": (branch, 0.0),
    "any": (branch_on_any, [1.0, 3.0]),
    "while": (loop, 8.0),
    "cond": (conditional, 0.0),
    "equal in two ways": (two_ways, 0.3),
}


@pytest.mark.parametrize("name", TIES)
def test_a_branch_at_a_tie_is_a_convention_with_its_line(name: str) -> None:
    f, at = TIES[name]
    report = check(f, np.asarray(at))
    told = [v for v in report.findings if "branch" in v.reason]
    assert report.ok and [v.verdict for v in told] == ["convention"]
    assert told[0].line[0] == __file__


@pytest.mark.parametrize(("f", "at"), [(branch, 1.0), (loop, 7.0), (conditional, -1.0), (branch_on_any, [1.0, 2.0])])
def test_a_branch_beside_a_tie_says_nothing(f: Any, at: Any) -> None:
    assert check(f, np.asarray(at)).verdict == "correct"


def ask_jvp(x: Any) -> None:
    with tf.verifying("strict"), tf.autodiff.ForwardAccumulator(x, tf.ones((1, 1), tf.float64)) as acc:
        acc.jvp(branch(x))


def ask(method: str) -> Callable[[Any], None]:
    def question(x: Any) -> None:
        with tf.GradientTape(verify="strict") as tape:
            y = branch(x)
        getattr(tape, method)(y, x)

    return question


@pytest.mark.parametrize(
    "question",
    [ask("gradient"), ask("jacobian"), ask("batch_jacobian"), ask_jvp],
    ids=["gradient", "jacobian", "batch", "jvp"],
)
def test_every_question_tells_it(question: Any) -> None:
    with collecting() as report:
        question(tf.Variable(np.array([[0.0]])))
    assert report.ok and report.verdict == "convention"


def test_a_hessian_tells_it_too() -> None:
    assert check(branch, 0.0, order=2).verdict == "convention"


def test_a_branch_that_rounding_decided_is_conditioning() -> None:
    # 1e16 + 1 rounds to 1e16, which is not greater.
    report = check(lambda x: x * 2 if x + 1e16 > 1e16 else x, 1.0)
    assert report.ok and report.verdict == "conditioning"
    assert "this branch" in report.findings[0].reason


@pytest.mark.parametrize(
    ("f", "n"),
    [
        (f, n)
        for f, most in [
            (lambda x: tf.nn.relu(tf.square(x)), 70),
            (lambda x: tf.nn.relu((x + 1e8) - 1e8) * x, 6),
            (lambda x: tf.nn.relu6(tf.square(x)) * x, 6),
            (lambda x: tf.reduce_sum(tf.nn.relu(tf.square(x)) * tf.ones(tf.shape(x))), 6),
        ]
        for n in ((), (most,))
    ],
)
def test_a_kink_that_an_underflow_or_a_cancellation_crossed_is_no_fault_of_a_rule_at_order_2(
    f: Any, n: tuple[int, ...]
) -> None:
    report = check(f, np.full(n, 1e-30, np.float32), order=2)
    assert not report.ok
    assert {finding.verdict for finding in report.findings} <= {"range", "cancellation"}


# Rounding decides which of exp(x) - 1 and x is the larger one, because the difference is x * x / 2.
CROSSED: dict[str, Callable[[Any, Any], Any]] = {
    "maximum": tf.maximum,
    "minimum": lambda a, b: tf.minimum(-a, -b),
    "clip from below": lambda a, b: tf.clip_by_value(a, b, 1.0),
    "clip from above": lambda a, b: tf.clip_by_value(b, -1.0, a),
    "where": lambda a, b: tf.where(a > b, b * b, 3.0 * b * b),
    "if": lambda a, b: b * b if tf.reduce_all(a > b) else 3.0 * b * b,
}
AT = [1.4504227331866203e-09, 6.732655185893088e-09, 3.3e-9, 8.1e-9]


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("name", CROSSED)
@pytest.mark.parametrize("x", AT)
def test_a_selection_that_rounding_moved_is_no_wrong_rule_at_any_order(name: str, x: float, order: int) -> None:
    def f(x: Any) -> Any:
        return CROSSED[name](tf.exp(x) - 1.0, x)

    report = check(f, x, order=order)
    # Half a unit in x keeps the sign of exp(x) - 1 - x, so that the program's own arithmetic takes the other side.
    assert report.verdict in ("correct", "conditioning", "cancellation"), report
    right = float(exact(f, x, order=order)[()])
    assert judge(f, x, right, order=order).ok
    assert not judge(f, x, right + abs(right) + 0.25, order=order).ok


@pytest.mark.parametrize(("name", "n"), [("maximum", 70), ("clip from below", 3), ("where", 3), ("where", 70)])
def test_a_selection_that_rounding_moved_in_an_array_names_the_op_that_the_user_called(name: str, n: int) -> None:
    xs = np.resize(AT, n)
    report = check(lambda x: tf.reduce_sum(CROSSED[name](tf.exp(x) - 1.0, x)), xs, order=2)
    assert not report.ok and report.verdict == "cancellation", report
    assert {f.op for f in report.findings} <= {None, "maximum", "clip_by_value", "greater"}


def test_a_number_far_below_rounding_decides_no_maximum() -> None:
    assert judge(lambda x: tf.maximum(x * x, x + 1e-17), 1.0, 0.0, order=2).ok
    assert not judge(lambda x: tf.maximum(x * x, x + 1e-17), 1.0, 1.0, order=2).ok


def test_a_claim_follows_the_exact_decision_where_no_half_unit_of_the_inputs_changes_it() -> None:
    def f(x: Any) -> Any:
        return tf.where(tf.exp(x) - 1.0 > x, x * x, 3.0 * x * x)

    x = 6.732655185893088e-09
    assert judge(f, x, 2.0, order=2).ok and judge(f, x, 2.0 * x).ok
    assert judge(f, x, 6.0, order=2).verdict == judge(f, x, 6.0 * x).verdict == "cancellation"
    assert not judge(f, x, 4.0, order=2).ok
    assert not judge(f, x, 4.0 * x).ok


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(
    "largest",
    [tf.reduce_max, lambda x: tf.reduce_sum(tf.math.segment_max(x, [0, 0, 1]))],
    ids=["max", "segment_max"],
)
def test_a_tie_that_rounding_made_inside_a_gradient_is_conditioning_if_the_inputs_make_it_too(
    largest: Any, order: int
) -> None:
    def of(inner: Any) -> Any:
        def f(x: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = largest(inner(x))
            return tf.reduce_sum(tape.gradient(y, x) * x * x)

        return f

    # The roots of neighbours are one float, and half units of the neighbours change their order.
    report = check(of(tf.sqrt), np.float32([1.0, 1.0 + 2.0**-23, 0.5]), order=order)
    assert report.ok
    assert {x.verdict for x in report.findings} == {"conditioning"}
    assert any(x.op and x.op.endswith("max") and "other side" in x.reason for x in report.findings)
    # Float32 cannot tell these numbers apart, although the inputs are far from one another.
    report = check(of(lambda x: 1.0 + 1e-9 * x), np.float32([1.0, 2.0, 0.0]), order=order)
    assert not report.ok and report.verdict == "cancellation"


def test_an_assertion_is_no_branch() -> None:
    def f(x: Any) -> Any:
        tf.debugging.assert_non_negative(x)
        return x * 2

    assert check(f, np.array([0.0, 1.0])).verdict == "correct"


def test_a_branch_on_what_does_not_vary_is_none() -> None:
    c = tf.constant(0.0)
    assert check(lambda x: x * 2 if c >= 0.0 else x, 1.0).verdict == "correct"


@pytest.mark.parametrize(
    ("claim", "passes"),
    [(1.0, True), (0.0, True), (-1.0, True), (0.25, True), (1.01, False), (-1.01, False), (np.nan, False)],
)
def test_claims_at_a_tie_of_a_branch_may_be_those_of_the_other_branch(claim: float, passes: bool) -> None:
    def magnitude(x: Any) -> Any:
        return x if x >= 0.0 else -x

    report = judge(magnitude, (np.array(0.0),), np.array(claim))
    assert report.ok == passes and (report.verdict == "convention") == passes, report
    assert judge(magnitude, (np.array(2.0),), np.array(claim)).ok == (claim == 1.0)


def test_claims_at_a_jump_are_those_of_the_branch_taken() -> None:
    def doubled(x: Any) -> Any:
        return tf.while_loop(lambda v: v < 8.0, lambda v: (v * 2.0,), (x,))[0]  # 8 x from 1 on, 16 x below

    assert judge(doubled, (np.array(1.0),), np.array(8.0)).verdict == "convention"
    assert not judge(doubled, (np.array(1.0),), np.array(16.0)).ok


def test_claims_at_a_tie_of_a_branch_are_compared_to_the_last_digits() -> None:
    def magnitude(x: Any) -> Any:
        return x if x >= 0.0 else -x

    def jumps_a_little(x: Any) -> Any:
        return 1e-4 * x + 1e-4 if x >= 0.0 else -1e-4 * x

    def steep(x: Any) -> Any:
        return 1000.0 * x + (x if x >= 0.0 else 0.0)

    def beside_a_sine(x: Any, y: Any) -> Any:
        return (x if x >= 0.0 else -x) + 0.1 * tf.sin(y)

    at = np.array(0.0)
    assert not any(judge(magnitude, (at,), np.array(c)).ok for c in (1.0009, -1.0009, 1.0 + 1e-14))
    assert [judge(jumps_a_little, (at,), np.array(c)).ok for c in (1e-4, -1e-4)] == [True, False]
    assert [judge(steep, (at,), np.array(c)).ok for c in (1000.0, 1001.0, 1002.0)] == [True, True, False]
    slope = 0.1 * np.cos(1000.0)
    for x, y, passes in ((-1.0, slope, True), (1.0, 1.003 * slope, False)):
        found = judge(beside_a_sine, (np.float32(0.0), np.float32(1000.0)), (np.float32(x), np.float32(y)))
        assert found.ok == passes


def test_claims_may_be_those_of_any_branch_of_a_maximum_in_python() -> None:
    def greatest(x: Any) -> Any:
        found = x[0]
        for i in range(1, 4):
            if x[i] > found:
                found = x[i]
        return found

    for i in range(4):
        assert judge(greatest, (np.zeros(4),), np.eye(4)[i]).ok
        assert not judge(greatest, (np.zeros(4),), 2.0 * np.eye(4)[i]).ok


@pytest.mark.parametrize(("claim", "passes"), [(0.0, True), (1.0, True), (2.0, True), (2.5, False), (5.0, False)])
def test_claims_at_a_tie_are_those_of_the_branches_that_meet_there(claim: float, passes: bool) -> None:
    def bends_again_at_a_tiny_number(x: Any) -> Any:
        if x > 1e-40:
            return 5.0 * x - 3e-40
        return 2.0 * x if x > 0.0 else 0.0 * x

    assert judge(bends_again_at_a_tiny_number, (np.array(0.0),), np.array(claim)).ok == passes


def test_branches_of_tiny_numbers_that_differ_are_told_apart() -> None:
    def jumps(x: Any) -> Any:
        return 3.0 * x + 1e-150 if x > 0.0 else x

    assert [judge(jumps, (np.array(0.0),), np.array(c)).ok for c in (1.0, 2.0, 3.0)] == [True, False, False]


def larger(x: Any, y: Any) -> Any:
    return x if x > y else y


def larger_by_cond(x: Any, y: Any) -> Any:
    return tf.cond(x > y, lambda: x, lambda: y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("at", [1.0, 0.0, -3e6])
@pytest.mark.parametrize("f", [larger, larger_by_cond], ids=["if", "cond"])
def test_a_claim_that_counts_the_tie_of_a_branch_twice_is_refused_as_for_a_maximum(
    f: Any, at: float, dtype: Any
) -> None:
    point = dtype(at), dtype(at)
    for a, b in ((1.0, 0.0), (0.0, 1.0), (0.5, 0.5), (0.25, 0.75), (1.0, 1.0), (0.0, 0.0), (0.75, 0.75), (1.0, 0.5)):
        claim = dtype(a), dtype(b)
        assert judge(f, point, claim).ok == judge(tf.maximum, point, claim).ok == (a + b == 1.0)


def test_a_refused_claim_names_the_direction_in_which_all_branches_agree() -> None:
    (found,) = [f for f in judge(larger, (1.0, 1.0), (1.0, 1.0)).findings if not f.ok]
    assert found.verdict == "convention"
    assert "along (1, 1) of elements" in found.reason
    assert "are 1, but the claims give 2" in found.reason


@pytest.mark.parametrize(
    ("claim", "passes"),
    [
        ((100.0, 1.0, 10.0), True),
        ((100.0, 10.0, 1.0), True),
        ((100.0, 5.5, 5.5), True),
        ((100.0, 1.0, 1.0), False),
        ((100.0, 10.0, 10.0), False),
        ((99.0, 1.0, 10.0), False),
    ],
)
def test_equal_numbers_that_python_sorts_share_their_slopes(claim: Any, passes: bool) -> None:
    def weighted(x: Any) -> Any:
        a, b, c = sorted([x[0], x[1], x[2]])
        return a + 10.0 * b + 100.0 * c

    assert judge(weighted, (np.array([3.0, 2.0, 2.0]),), np.array(claim)).ok == passes


@pytest.mark.parametrize("n", [2, 7])
def test_each_branch_of_many_at_one_tie_is_free(n: int) -> None:
    def positive_parts(x: Any) -> Any:
        return tf.add_n([x[i] if x[i] > 0.0 else 0.0 * x[i] for i in range(n)])

    rng = np.random.default_rng(5)
    for claim in (np.ones(n), np.zeros(n), rng.uniform(0.0, 1.0, n), rng.choice([0.0, 1.0], n)):
        assert judge(positive_parts, (np.zeros(n),), claim).ok
    assert not judge(positive_parts, (np.zeros(n),), np.full(n, 1.5)).ok


@pytest.mark.parametrize(("slope", "passes"), [(0.0, True), (0.5, True), (1.0, True), (1.5, False)])
def test_a_kink_of_an_op_beside_a_branch_keeps_its_interval(slope: float, passes: bool) -> None:
    def f(x: Any, y: Any, z: Any) -> Any:
        return larger(x, y) + tf.nn.relu(z)

    assert judge(f, (1.0, 1.0, 0.0), (0.5, 0.5, slope)).ok == passes
    assert not judge(f, (1.0, 1.0, 0.0), (1.0, 1.0, slope)).ok


def bent(x: Any) -> Any:
    return x * x if x > 0.0 else 0.0 * x


def bent_to_a_line(x: Any) -> Any:
    return x if x <= 0.0 else x + 3.0 * x * x


def bent_by_where(x: Any) -> Any:
    return tf.where(x > 0.0, x * x, 0.0 * x)


@pytest.mark.parametrize(
    ("f", "most"), [(bent, 2.0), (bent_by_where, 2.0), (bent_to_a_line, 6.0)], ids=["if", "where", "line"]
)
def test_a_second_derivative_at_a_tie_may_be_that_of_the_other_branch(f: Any, most: float) -> None:
    for share, passes in ((0.0, True), (0.5, True), (1.0, True), (1.5, False), (-0.5, False)):
        assert judge(f, 0.0, share * most, order=2).ok == passes
    assert judge(f, 1.0, most, order=2).ok
    assert not judge(f, 1.0, 0.0, order=2).ok


def test_a_third_derivative_at_a_tie_may_be_that_of_the_other_branch() -> None:
    def f(x: Any) -> Any:
        return x * x * x if x > 0.0 else x * x

    assert [judge(f, 0.0, c, order=3).ok for c in (0.0, 3.0, 6.0, 6.5)] == [True, True, True, False]


@pytest.mark.parametrize(
    ("claim", "passes"),
    [
        (((0.0, 1.0), (1.0, 0.0)), True),
        (((0.0, 0.0), (0.0, 2.0)), True),
        (((0.0, 0.5), (0.5, 1.0)), True),
        (((0.0, 1.0), (1.0, 2.0)), False),
        (((1.0, 1.0), (1.0, 0.0)), False),
    ],
)
def test_a_hessian_at_a_tie_is_that_of_a_branch_row_by_row(claim: Any, passes: bool) -> None:
    def f(x: Any, y: Any) -> Any:
        return x * y if x > y else y * y

    assert judge(f, (1.0, 1.0), claim, order=2).ok == passes


def test_a_second_derivative_at_a_jump_is_that_of_the_branch_taken() -> None:
    def jumps(x: Any) -> Any:
        return x * x + 1.0 if x > 0.0 else 3.0 * x * x

    assert [judge(jumps, 0.0, c, order=2).ok for c in (6.0, 4.0, 2.0)] == [True, False, False]


# Each function takes a branch at 0 that no point beside 0 takes, and has the derivative 1 there.
ISOLATED: dict[str, Callable[[Any], Any]] = {
    "if": lambda x: 0.0 * x if x == 0.0 else x,
    "unequal": lambda x: x if x != 0.0 else 0.0 * x,
    "cond": lambda x: tf.cond(tf.equal(x, 0.0), lambda: 0.0 * x, lambda: x),
    "case": lambda x: tf.case([(tf.equal(x, 0.0), lambda: 0.0 * x)], default=lambda: x),
    "while_loop": lambda x: tf.while_loop(
        lambda i, y: tf.logical_and(i < 1, tf.equal(x, 0.0)), lambda i, y: (i + 1, 0.0 * y), (0, x)
    )[1],
    "constant": lambda x: tf.zeros_like(x) if x == 0.0 else x,
    "series": lambda x: 0.0 * x if x == 0.0 else tf.sin(x) ** 2 / x,
}


@pytest.mark.parametrize("name", ISOLATED)
def test_a_branch_that_only_the_point_takes_is_judged_by_the_branches_beside_it(name: str) -> None:
    f, at = ISOLATED[name], np.array(0.0)
    found = check(f, at)
    first = found.findings[0]
    assert found.verdict == "convention" and not found.ok
    assert first.op in ("equal", "not_equal") and first.got == 0.0 and float(first.exact or "nan") == 1.0
    assert first.line is not None and all(v.verdict != "unconnected" for v in found.findings)
    assert judge(f, (at,), np.array(1.0)).ok
    assert not any(judge(f, (at,), np.array(c)).ok for c in (0.0, 0.5, 2.0))
    with pytest.raises(ArithmeticError, match="branches that it takes beside this point agree"):
        exact(f, at)


@pytest.mark.parametrize(
    ("f", "order"),
    [
        (lambda x: 0.0 * x if x == 0.0 else x * x, 1),
        (lambda x: 0.5 * x if x == 0.0 else tf.abs(x), 1),
        (lambda x: tf.ones_like(x) if x == 0.0 else tf.sin(x) / x, 1),
        (lambda x: 0.0 * x + 1.0 if x == 0.0 else x, 1),
        (lambda x: 3.0 * x if x - x == 0.0 else x, 2),
        (lambda x: x**3 if x == 0.0 else 5.0 * x**3, 2),
    ],
)
def test_a_branch_that_only_the_point_takes_passes_with_a_derivative_of_the_sides(f: Any, order: int) -> None:
    found = check(f, np.array(0.0), order=order)
    assert found.ok and found.verdict == "convention"


def test_the_second_derivative_of_a_branch_that_only_the_point_takes_is_judged_too() -> None:
    found = check(lambda x: 0.0 * x if x == 0.0 else x * x, np.array(0.0), order=2)
    assert not found.ok and found.findings[0].order == 2 and float(found.findings[0].exact or "nan") == 2.0


@pytest.mark.parametrize("order, claim, passes", [
    (1, 0.0, True), (1, 0.1, False), (2, -1 / 3, True), (2, 0.0, False), (3, 0.0, True), (3, 1.0, False),
])  # fmt: skip
def test_claims_at_a_guard_that_returns_a_constant_are_those_of_the_sides(
    order: int, claim: float, passes: bool
) -> None:
    def sinc(x: Any) -> Any:
        if x == 0:
            return tf.constant(1.0, dtype=x.dtype)
        return tf.sin(x) / x

    assert judge(sinc, 0.0, claim, order=order).ok is passes


def test_a_branch_that_only_the_point_takes_is_refused_outside_of_the_sides_of_a_kink() -> None:
    found = check(lambda x: 5.0 * x if x == 0.0 else tf.abs(x), np.array(0.0))
    assert not found.ok and "lie in [-1, 1]" in found.findings[0].reason


def test_a_value_that_leaves_the_tape_is_found_beside_a_branch_that_only_the_point_takes() -> None:
    found = check(lambda x: 3.0 * x if x == 0.0 else x + tf.Variable(2.0 * x), np.array(0.0))
    assert not found.ok and "unconnected" in {v.verdict for v in found.findings}


# Numbers that Python reads at a jump. Each function is x up to 1, and 2 * x - 1 from there on.
def whole(x: Any) -> Any:
    return tf.cast(tf.floor(x), tf.int32)


def add_up(x: Any) -> Any:
    y = x
    for k in range(whole(x)):
        y = y + (x - 1.0 - k)
    return y


READ: dict[str, Callable[[Any], Any]] = {
    "switch_case": lambda x: tf.switch_case(whole(x), [lambda: x, lambda: 2 * x - 1]),
    "int of a step": lambda x: [x, 2 * x - 1][int(tf.floor(x))],
    "int of a float": lambda x: [x, 2 * x - 1][int(x)],
    "int of a truth value": lambda x: [x, 2 * x - 1][int(x >= 1)],
    "index of a list": lambda x: [x, 2 * x - 1][whole(x)],
    "numpy": lambda x: [x, 2 * x - 1][whole(x).numpy()],
    "range": add_up,
    "element": lambda x: tf.stack([x, 2 * x - 1])[whole(x)],
    "slice": lambda x: tf.reduce_sum(tf.stack([x, x - 1])[: whole(x) + 1]),
    "roll": lambda x: tf.roll(tf.stack([2 * x - 1, x]), whole(x), 0)[1],
    "pad": lambda x: tf.pad(tf.stack([x, 2 * x - 1]), [[1 - whole(x), 0]])[1],
    "tile": lambda x: tf.reduce_sum(tf.tile(tf.reshape(x - 1, [1]), [whole(x) + 1])) + 1,
    "repeat": lambda x: tf.reduce_sum(tf.repeat(tf.reshape(x - 1, [1]), whole(x) + 1)) + 1,
    "TensorArray": lambda x: tf.TensorArray(x.dtype, 2).unstack(tf.stack([x, 2 * x - 1])).gather([whole(x)])[0],
    "argmax": lambda x: [2 * x - 1, x][int(tf.argmax(tf.stack([2 * x - 1, x])))],
    "float of a step": lambda x: x if float(tf.floor(x)) < 0.5 else 2 * x - 1,
    "numpy of a step": lambda x: x if tf.floor(x).numpy() < 0.5 else 2 * x - 1,
    "item of a step": lambda x: x if tf.floor(x).numpy().item() < 0.5 else 2 * x - 1,
    "array of steps": lambda x: x if np.asarray(tf.floor(tf.stack([x, x + 5.25])))[0] < 0.5 else 2 * x - 1,
    "float of a truth value": lambda x: x if float(tf.cast(x >= 1.0, tf.float64)) < 0.5 else 2 * x - 1,
    "float behind a step": lambda x: x if float(tf.exp(tf.floor(x)) - 0.25 * x) < 1.5 else 2 * x - 1,
    "branch on a step": lambda x: x if tf.floor(x) < 0.5 else 2 * x - 1,
    "branch on an integer": lambda x: x if whole(x) == 0 else 2 * x - 1,
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_a_number_that_python_reads_at_a_jump_is_a_convention(name: str) -> None:
    report = check(READ[name], 1.0)
    assert report.ok and report.verdict == "convention", report
    assert [v.line[0] for v in report.findings] == [__file__]


@pytest.mark.parametrize("name", READ)
def test_claims_at_a_jump_of_a_number_that_python_reads_lie_between_the_branches_beside(name: str) -> None:
    assert all(judge(READ[name], 1.0, claim).ok for claim in (1.0, 1.5, 2.0))
    assert not any(judge(READ[name], 1.0, claim).ok for claim in (0.75, 2.25, -1.0))


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("at", [0.5, 1.5])
def test_a_number_beside_its_jump_says_nothing(name: str, at: float) -> None:
    assert check(READ[name], at).verdict == "correct"


def test_a_number_that_does_not_change_at_the_jump_says_nothing() -> None:
    assert check(lambda x: [x, 2 * x][min(int(0.0 * float(tf.abs(x - 1.0))), 1)], 1.0).verdict == "correct"
    assert check(lambda x: x if float(tf.where(x > 1.0, x, 2.0 - x)) < 5.0 else 2 * x, 1.0).verdict == "correct"
    assert check(lambda x: x if float(tf.nn.relu(x - 1.0)) <= 0.0 else x + 1.0, 1.0).verdict == "correct"
    assert check(lambda x: [x, 2 * x][min(int(x + 1.0 > 0.5), 1)], 1.0).verdict == "correct"
    assert check(lambda x: x if tf.floor(x) > -5.0 else 2 * x, 1.0).verdict == "correct"


@pytest.mark.parametrize(
    "f",
    [
        lambda x: [3 * x, 7 * x, 3 * x][int(tf.sign(x)) + 1],
        lambda x: 7 * x if float(tf.sign(x)) == 0.0 else 3 * x,
        lambda x: 7 * x if tf.sign(x).numpy() == 0.0 else 3 * x,
    ],
    ids=["int", "float", "numpy"],
)
def test_a_number_that_only_the_jump_itself_gives_is_judged_by_the_branches_beside(f: Any) -> None:
    report = check(f, 0.0)
    assert not report.ok and report.verdict == "convention"
    assert judge(f, 0.0, 3.0).ok and not judge(f, 0.0, 7.0).ok


@pytest.mark.parametrize("read", [int, float])
def test_a_number_that_rounding_decided_is_conditioning(read: type) -> None:
    # 1e16 + 1 rounds to 1e16, whose floor is another one.
    report = check(lambda x: x if read(tf.floor((x + 1e16) - 1e16)) < 1 else 2 * x, 1.0)
    assert report.ok and report.verdict == "conditioning", report


def test_a_number_in_a_text_is_no_branch() -> None:
    texts = []

    def f(x: Any) -> Any:
        texts.append(f"step {whole(x)}")
        texts.append(f"{tf.floor(x)} {tf.floor(x):.1f}")
        return 2 * x

    assert check(f, 1.0).verdict == "correct" and texts[0] == "step 1"
