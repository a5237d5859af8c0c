"""The rows of a wrong derivative share all that depends on no row: noise, moves, witnesses, what bounds excuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.base.quiet import quietly
from gtape.symbolic.balls import precision
from gtape.verify import check
from gtape.verify.bounds import inputs
from gtape.verify.bounds.noise import MANY_RUNS, RUNS, global_bounds, noisy_gradient
from gtape.verify.causes import witness
from gtape.verify.judging import comparison, examine, judgement
from gtape.verify.judging.recording import Recording
from gtape.verify.oracles.oracle import Oracle
from gtape.verify.oracles.replay import Shared

M = np.random.default_rng(0).normal(size=(6, 6))
X = np.random.default_rng(1).normal(size=6)


@tf.custom_gradient
def frozen(x: Any) -> Any:
    held = tf.stop_gradient(x)
    return tf.sin(x), lambda g: g * tf.cos(held)


@tf.custom_gradient
def slightly(x: Any) -> Any:
    """Off by fewer digits than the problem may lose."""
    return tf.exp(x), lambda g: g * tf.exp(x) * (1 + 3e-13)


def through(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: tf.reduce_sum(tf.linalg.matvec(M, f(x)) ** 3)


def sorted_out(x: Any) -> Any:
    """A program with kinks, a choice and a factorisation."""
    lowest = tf.linalg.eigvalsh(tf.tensordot(x, x, 0) + np.diag(np.arange(6.0)))
    return tf.reduce_sum(lowest * tf.sort(x) * tf.nn.relu(x) + tf.reduce_max(x))


def rows(f: Callable[[Any], Any]) -> tuple[Any, list[Any]]:
    """The program of the second derivative, and the cotangents of its first rows."""
    programs, seeds = zip(*[(program, seeds) for _, program, seeds, _ in Recording(f, (X,), 2).programs()], strict=True)
    assert all(p is programs[0] for p in programs)
    return programs[0], list(seeds[:3])


def counted(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> list[Any]:
    """The arguments of each call of a function from now on."""
    calls, real = list[Any](), getattr(module, name)

    def count(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        return real(*args, **kwargs)

    monkeypatch.setattr(module, name, count)
    return calls


@pytest.mark.parametrize("f", [through(tf.sin), sorted_out, lambda x: tf.reduce_sum(tf.gather(x, [0, 2]) ** 3)])
@pytest.mark.parametrize("runs", [RUNS, MANY_RUNS])
def test_rows_with_shared_noise_have_the_bounds_of_rows_alone(f: Any, runs: int) -> None:
    (program, some), shared = rows(f), Shared()
    with quietly():
        for seeds in some:
            together, alone = (global_bounds(program, seeds, runs, shared=s) for s in (shared, None))
            for a, b in zip(together, alone, strict=True):
                np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("f", [through(tf.sin), sorted_out])
@pytest.mark.parametrize("count", inputs.MOVES)
def test_rows_with_shared_moves_have_the_bounds_of_rows_alone(f: Any, count: int) -> None:
    (program, some), shared = rows(f), Shared()
    with quietly():
        for seeds in some:

            def bound(of: Shared | None, seeds: list[Any] = seeds) -> Any:
                return inputs.moves_in_floats(program, lambda w: noisy_gradient(program, seeds, w, of), count)

            np.testing.assert_array_equal(bound(shared), bound(None))


def test_rows_with_shared_values_nearby_have_the_numbers_of_rows_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    (program, some), shared = rows(through(tf.sin)), Shared()
    calls = counted(monkeypatch, inputs, "moved_values_of")
    with quietly(), precision(100):
        for seeds in some:
            made = []
            for of in (None, shared):
                oracle = Oracle(program, seeds)
                oracle.shared = of
                oracle.evaluate_once()
                made.append(inputs.nearby(oracle, Oracle.replay, 4, 3.0))
            np.testing.assert_array_equal(*made)
    assert len(calls) == 4 * (len(some) + 1)


def test_a_program_keeps_a_bounded_number_of_values() -> None:
    shared = Shared()
    made = [shared.get_some(k, lambda k=k: k, 200_000) for k in (1, 2, 3, 1, 2, 3)]
    assert made == [1, 2, 3, 1, 2, 3]
    assert [shared.known(k) for k in (1, 2, 3)] == [1, 2, None]


def test_bounds_are_asked_once_for_the_rows_of_a_wrong_second_derivative(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "_FAR", np.inf)  # as if all errors were near the bound of the problem
    calls = counted(monkeypatch, examine, "global_bounds")
    report = check(through(frozen), X, order=2)
    (found,) = [x for x in report.findings if not x.ok]
    assert (report.verdict, found.op, found.count) == ("rule", "frozen", 6)
    assert len(calls) == 2  # of few and of many runs


@tf.custom_gradient
def scaled_diag(v: Any) -> Any:
    return tf.linalg.diag(v), lambda g: 1.001 * tf.linalg.diag_part(g)


def filtered(transition: Any, noise: Any, error: Any) -> Any:
    """The log-likelihood of a Kalman filter."""
    observe = tf.constant([[1.0, 0.0]], tf.float64)
    q, r = scaled_diag(tf.exp(noise)), tf.exp(error)[None, None]
    mean, cov, total = tf.zeros([2, 1], tf.float64), tf.eye(2, dtype=tf.float64), tf.constant(0.0, tf.float64)
    for y in (0.1257, -0.1321):
        mean = transition @ mean
        cov = transition @ cov @ tf.transpose(transition) + q
        s = observe @ cov @ tf.transpose(observe) + r
        v = y - observe @ mean
        gain = tf.transpose(tf.linalg.solve(s, observe @ cov))
        mean, cov = mean + gain @ v, cov - gain @ s @ tf.transpose(gain)
        total = total - 0.5 * (tf.linalg.logdet(s) + tf.reduce_sum(v * tf.linalg.solve(s, v)))
    return total


FILTER = np.array([[1.0, 0.5], [0.0, 0.9]]), np.array([-1.0, -2.0]), np.array(-0.5)


def test_no_costly_bound_is_asked_for_an_error_far_beyond_the_bound_of_the_problem(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    costly = [counted(monkeypatch, examine, "global_bounds"), counted(monkeypatch, judgement, "real_moves")]
    (found,) = [x for x in check(filtered, *FILTER).findings if not x.ok]
    assert (found.verdict, found.op, found.count) == ("rule", "scaled_diag", 2)
    assert costly == [[], []]


def test_the_costly_bounds_excuse_no_error_far_beyond_the_bound_of_the_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = check(filtered, *FILTER).findings
    monkeypatch.setattr(comparison, "_FAR", np.inf)
    costly = check(filtered, *FILTER).findings
    assert [(x.op, x.element, x.count, x.reason) for x in quick] == [
        (x.op, x.element, x.count, x.reason) for x in costly
    ]


def test_a_witness_is_searched_once_for_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = counted(monkeypatch, witness, "_witness")
    (found,) = [x for x in check(through(frozen), X, order=2).findings if not x.ok]
    assert found.witness is not None
    assert len(calls) == 1


@pytest.mark.parametrize("f", [frozen, slightly])
def test_rows_together_count_the_wrong_elements_of_rows_alone(f: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    together = check(through(f), X, order=2).findings
    monkeypatch.setattr(examine, "by_fault", lambda made, exact, got: np.False_)
    alone = check(through(f), X, order=2).findings

    def told(findings: list[Any]) -> list[Any]:
        return [(x.verdict, x.op, x.element, x.count, x.got, x.exact, x.reason) for x in findings]

    assert told(together) == told(alone)


@pytest.mark.parametrize("f", [through(tf.sin), sorted_out, lambda x: tf.reduce_sum(tf.cast(x, tf.float32) ** 3)])
@pytest.mark.parametrize("place", [(0,), (4,)])
def test_an_element_moved_in_floats_has_the_bound_of_an_element_moved_exactly(f: Any, place: tuple[int, ...]) -> None:
    program, seeds = Recording(f, (X,), 1).program(), [np.ones(())]
    with quietly(), precision(100):
        oracle = Oracle(program, seeds)
        oracle.evaluate()
        oracle.replay()
        exact = inputs.moved_element(oracle, 0, place)
        floats = inputs.moved_element_in_floats(program, lambda w: noisy_gradient(program, seeds, w), 0, place)
    assert floats > 0
    np.testing.assert_allclose(
        floats, exact, rtol=0.1
    )  # rounding carries gradients by a thousandth of the moves, or more


def test_elements_of_large_programs_move_in_floats(monkeypatch: pytest.MonkeyPatch) -> None:
    exact, floats = (counted(monkeypatch, examine, name) for name in ("moved_element", "moved_element_in_floats"))
    mask = np.ones((50, 60))
    mask[12, 34] += 1e-6

    @tf.custom_gradient
    def off(x: Any) -> Any:
        return tf.tanh(x), lambda g: g * (1 - tf.tanh(x) ** 2) * mask

    x = np.random.default_rng(0).normal(size=(50, 60))
    (found,) = [f for f in check(lambda x: tf.reduce_sum(off(x) ** 2), x).findings if not f.ok]
    assert (found.verdict, found.op, found.element) == ("rule", "off", (0, (12, 34)))
    assert floats
    assert not exact


@tf.custom_gradient
def wrongly_doubled(x: Any) -> Any:
    return 2.0 * x, lambda g: 3.0 * g


@pytest.mark.parametrize("f", [lambda x: wrongly_doubled(tf.sin(x)) ** 2, lambda x: tf.sin(wrongly_doubled(x)) * x])
def test_a_custom_gradient_that_is_wrong_at_order_1_is_not_searched_again_at_order_2(
    f: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    blamed = list[int]()
    blame = examine.blame

    def counted(program: Any, oracle: Any, failures: Any, got: Any, order: int, *rest: Any) -> Any:
        blamed.append(order)
        return blame(program, oracle, failures, got, order, *rest)

    monkeypatch.setattr(examine, "blame", counted)
    first, second = check(lambda x: tf.reduce_sum(f(x)), X, order=2).findings
    assert set(blamed) == {1}
    assert (first.verdict, first.op, first.order, second.verdict, second.op) == (
        "rule", "wrongly_doubled", 1, "rule", "wrongly_doubled",
    )  # fmt: skip
    assert second.order == 2 and "a lower order found its gradient wrong" in second.reason


def test_six_rows_of_a_wrong_second_derivative_search_the_inner_gradients_as_often_as_three(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searches = counted(monkeypatch, Oracle, "swept_inside")
    branches = counted(monkeypatch, judgement, "flipped_branches")
    often = []
    for count in (3, 6):
        report = check(lambda x: tf.reduce_sum(frozen(x) ** 3), X[:count], order=2)
        (found,) = [x for x in report.findings if not x.ok]
        assert (report.verdict, found.op, found.count) == ("rule", "frozen", count)
        often.append((len(searches), len(branches)))
        searches.clear()
        branches.clear()
    assert often[0] == often[1]
