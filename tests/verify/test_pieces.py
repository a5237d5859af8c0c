"""Points beside a kink are told apart by the piece of the function in which they lie."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from flint import arb

import gtape as tf
from gtape.symbolic import trace
from gtape.symbolic.balls import objects, precision, ties_assumed
from gtape.verify import check, judge
from gtape.verify.causes.beside import beside
from gtape.verify.causes.pieces import Pieces
from gtape.verify.oracles.oracle import Oracle

F = Callable[[Any], Any]


def pieces(f: F, x: Any, order: int, *ways: Any) -> list[Any]:
    """What tells the piece of each point that lies a tiny step along a way from `x`."""
    program = trace(f, np.asarray(x, np.float64))
    with precision(2400):
        oracle = Oracle(program, [np.ones_like(program.nodes[i].output) for i in program.outputs])
        oracle.evaluate()
        found = Pieces(program, oracle.env, order)
        if not found.known:
            return [None] * len(ways)
        (source,) = program.sources[0]
        points = [
            beside(program, oracle.env, {source: objects(arb(2) ** -1200 * objects(np.array(u, object)))}) for u in ways
        ]
    with precision(2400):
        return [None if env is None else found.of(env) for env in points]


def test_the_sides_of_a_kink_are_pieces() -> None:
    before, further, behind = pieces(lambda x: tf.sin(tf.abs(x)), 0.0, 1, -1, -3, 2)
    assert before is not None and before == further != behind


def test_pieces_are_known_where_ties_are_assumed() -> None:
    program = trace(lambda x: tf.maximum(tf.exp(x[0] + x[1]), tf.exp(x[0]) * tf.exp(x[1])), np.array([0.3, 0.7]))
    (source,) = program.sources[0]
    with precision(6000), ties_assumed():
        oracle = Oracle(program, [np.ones(())])
        oracle.evaluate()
        found = Pieces(program, oracle.env, 2)
        env = beside(program, oracle.env, {source: objects(arb(2) ** -1200 * objects(np.array([1, 3], object)))})
        assert found.known and env is not None and found.of(env) is not None


def test_a_smooth_function_has_one_piece() -> None:
    before, behind = pieces(lambda x: tf.sin(x) * tf.exp(x) + x**2, 0.5, 2, -1, 1)
    assert before == behind is not None


def test_a_kink_of_the_slope_parts_pieces_at_order_two_only() -> None:
    before, behind = pieces(lambda x: tf.nn.elu(x), 0.0, 1, -1, 1)
    assert before == behind is not None
    before, behind = pieces(lambda x: tf.nn.elu(x), 0.0, 2, -1, 1)
    assert before is not None and behind is not None and before != behind


def test_each_order_of_equal_numbers_is_a_piece() -> None:
    ways = [[1, 2, 3], [2, 4, 7], [3, 2, 1], [1, 3, 2]]
    one, same, other, another = pieces(lambda x: tf.reduce_sum(tf.sort(x) * [1.0, 2.0, 4.0]), [1.0] * 3, 1, *ways)
    assert one == same is not None
    assert len({one, other, another}) == 3


def test_decisions_part_pieces() -> None:
    def f(x: Any) -> Any:
        return tf.gather(tf.stack([x[0] * 2.0, x[1] * 3.0]), tf.argmax(x))

    one, same, other = pieces(f, [1.0, 1.0], 1, [1, 2], [-2, 1], [2, 1])
    assert one == same is not None and other not in (None, one)


@pytest.mark.parametrize("round_", [tf.floor, lambda x: tf.cast(tf.cast(x, tf.int32), tf.float64)])
def test_steps_part_pieces(round_: F) -> None:
    before, further, behind = pieces(lambda x: round_(x) * x, 1.0, 1, -1, -2, 1)
    assert before == further is not None and behind not in (None, before)


def test_a_cone_has_no_pieces() -> None:
    one, other = pieces(lambda x: tf.norm(x), [0.0, 0.0], 1, [1, 2], [2, 1])
    assert one != other


@pytest.mark.parametrize("f", [lambda x: tf.sqrt(x * x), lambda x: x / x, lambda x: tf.math.log(x * x)])
def test_pieces_beside_an_infinite_slope_are_unknown(f: F) -> None:
    assert pieces(f, 0.0, 1, -1, 1) == [None, None]


def _guarded_root(s: Any) -> Any:
    """The square root by TensorFlow's idiom for a gradient of 0 at 0."""
    ok = s > 0
    return tf.where(ok, tf.sqrt(tf.where(ok, s, tf.ones_like(s))), tf.zeros_like(s))


def _masked_root(s: Any) -> Any:
    mask = tf.cast(s <= 0, s.dtype)
    return tf.sqrt(s + mask * 1e-16) * (1 - mask)


@pytest.mark.parametrize("root", [_guarded_root, _masked_root])
def test_pieces_beside_a_guarded_root_are_unknown(root: F) -> None:
    assert pieces(lambda x: root(x * x), 0.0, 1, -1, 1) == [None, None]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("root", [_guarded_root, _masked_root])
def test_guarded_norms_have_the_conventions_of_norms(root: F, dtype: Any) -> None:
    def norm(x: Any) -> Any:
        return root(tf.reduce_sum(x * x))

    def distances(x: Any) -> Any:
        apart = root(tf.reduce_sum((x[:, None] - x[None]) ** 2, -1))
        return tf.reduce_sum(tf.exp(-apart) * np.arange(9, dtype=dtype).reshape(3, 3))

    report = check(norm, np.zeros(3, dtype))
    assert (report.ok, report.verdict) == (True, "convention")
    for claim, ok in ((0.0, True), (1.0, True), (-1.0, True), (0.5, True), (1.5, False), (np.nan, False)):
        assert judge(norm, (np.zeros(1, dtype),), np.full(1, claim, dtype)).ok is ok, claim
    x = np.array([[0.1, 0.2], [0.5, 0.7], [0.1, 0.2]], dtype)
    assert check(distances, x).ok


def test_pieces_of_a_custom_gradient_are_unknown() -> None:
    @tf.custom_gradient
    def double(x: Any) -> Any:
        return 2.0 * x, lambda g: 2.0 * g

    assert pieces(lambda x: double(tf.abs(x)), 0.0, 1, -1, 1) == [None, None]


@pytest.mark.slow
def test_points_of_one_piece_are_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any) -> Any:  # the tape shares the slope among equal numbers, and the squares of the shares are too small
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_max(x[:2]) ** 2 * tf.exp(x[2])
        return tf.reduce_sum(tape.gradient(y, x) ** 2)

    runs: list[Any] = []
    slope = Oracle.slope_of_all
    monkeypatch.setattr(Oracle, "slope_of_all", lambda *args: runs.append(args) or slope(*args))
    reports, counts = [], []
    for known in (True, False):
        if not known:
            monkeypatch.setattr(Pieces, "of", lambda *args: None)
        runs.clear()
        report = check(f, np.array([1.0, 1.0, 0.5]))
        assert [x.verdict for x in report.findings if not x.ok] == ["convention"]
        reports.append(str(report))
        counts.append(len(runs))
    assert reports[0] == reports[1]
    assert 4 * counts[0] < counts[1], counts
