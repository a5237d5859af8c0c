"""Functions whose arrays have other shapes beside a tie, because a mask picks other elements there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.verify import check, exact, judge

_AT = np.array([0.0, 1.0])


def _picked(x: Any) -> Any:
    return x[x != 0.0]


# Each function, its point, and its derivative there, which is the limit from all sides.
SMOOTH: dict[str, tuple[Callable[..., Any], Any, Any]] = {
    "brackets": (lambda x: tf.reduce_sum(_picked(x)), _AT, [1.0, 1.0]),
    "boolean_mask": (lambda x: tf.reduce_sum(tf.boolean_mask(x, x != 0.0)), _AT, [1.0, 1.0]),
    "gather_nd": (lambda x: tf.reduce_sum(tf.gather_nd(x, tf.where(x != 0.0))), _AT, [1.0, 1.0]),
    "gather": (lambda x: tf.reduce_sum(tf.gather(x, tf.where(x != 0.0)[:, 0])), _AT, [1.0, 1.0]),
    "rows": (lambda x: tf.reduce_sum(x[tf.reduce_sum(x, 1) != 0.0]), np.array([[1.0, -1.0], [2.0, 3.0]]),
             np.ones((2, 2))),
    "columns": (lambda x: tf.reduce_sum(tf.boolean_mask(x, x[0] != 0.0, axis=1)), np.array([[0.0, 1.0], [0.0, 2.0]]),
                np.ones((2, 2))),
    "nothing picked": (lambda x: tf.reduce_sum(_picked(x)), np.zeros(1), [1.0]),
    "cumsum": (lambda x: tf.reduce_sum(tf.cumsum(_picked(x))), _AT, [2.0, 1.0]),
    "outer product": (lambda x: tf.reduce_sum(_picked(x)[:, None] * _picked(x)[None, :]), _AT, [2.0, 2.0]),
    "product": (lambda x: tf.reduce_prod(1.0 + _picked(x)), _AT, [2.0, 1.0]),
    "sort": (lambda x: tf.reduce_sum(tf.sort(_picked(x))), _AT, [1.0, 1.0]),
    "reshape": (lambda x: 2.0 * tf.reduce_sum(tf.reshape(_picked(x), [-1])), _AT, [2.0, 2.0]),
    "stack": (lambda x: tf.reduce_sum(tf.stack([_picked(x), _picked(x)])), _AT, [2.0, 2.0]),
    "gather of nothing": (
        lambda x: tf.reduce_sum(tf.gather(x, tf.where(x != 0.0)[:, 0])), np.zeros(2), [1.0, 1.0],
    ),
    "repeat": (lambda x: tf.reduce_sum(tf.repeat(x, tf.cast(x != 0.0, tf.int32))), _AT, [1.0, 1.0]),
    "dynamic_partition": (
        lambda x: tf.reduce_sum(tf.dynamic_partition(x, tf.cast(x != 0.0, tf.int32), 2)[1]), _AT, [1.0, 1.0],
    ),
    "unique": (lambda x: tf.reduce_sum(tf.gather(*tf.unique(x))), np.array([1.0, 1.0, 2.0]), np.ones(3)),
}  # fmt: skip


@pytest.mark.parametrize("name", SMOOTH)
def test_the_derivative_is_the_limit_of_all_sides_where_a_mask_picks_more(name: str) -> None:
    f, at, slope = SMOOTH[name]
    found = check(f, at)
    assert found.verdict == "convention" and not found.ok
    assert float(found.findings[0].exact or "nan") == np.asarray(slope)[found.findings[0].element[1]]
    assert judge(f, (at,), np.asarray(slope)).ok
    x = tf.constant(at)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    assert not judge(f, (at,), tf.convert_to_tensor(tape.gradient(y, x)).numpy()).ok
    assert not judge(f, (at,), np.asarray(slope) + 0.25).ok


@pytest.mark.parametrize("name", SMOOTH)
def test_the_flag_finds_the_limit_where_a_mask_picks_more(name: str) -> None:
    f, at, _ = SMOOTH[name]
    x = tf.constant(at)
    with pytest.raises(tf.VerificationError, match="convention"):
        with tf.GradientTape(verify="strict") as tape:
            tape.watch(x)
            y = f(x)
        tape.gradient(y, x)


@pytest.mark.parametrize(
    ("f", "at", "inside", "outside"),
    [
        (lambda x: tf.reduce_sum(tf.boolean_mask(x, x > 0.0)), [0.0, 1.0, -1.0],
         [[0.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.5, 1.0, 0.0]], [[2.0, 1.0, 0.0], [0.0, 1.0, 1.0]]),
        (lambda x: tf.reduce_sum(tf.boolean_mask(x, x >= 0.0)), [0.0, 1.0],
         [[0.0, 1.0], [1.0, 1.0]], [[-0.5, 1.0], [1.0, 0.0]]),
        (lambda x: tf.reduce_sum(tf.exp(x[x > 0.0]) - 1.0), [0.0, 0.0],
         [[0.0, 0.0], [1.0, 0.0], [0.5, 1.0]], [[1.5, 0.0]]),
    ],
)  # fmt: skip
def test_claims_at_a_kink_of_a_mask_lie_between_the_sides(f: Any, at: Any, inside: Any, outside: Any) -> None:
    at = np.array(at)
    assert check(f, at).ok
    assert all(judge(f, (at,), np.array(c)).ok for c in inside)
    assert not any(judge(f, (at,), np.array(c)).ok for c in outside)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: tf.reduce_sum(tf.boolean_mask(x + 1.0, x > 0.0)),
        lambda x: tf.reduce_mean(x[x != 0.0]),
        lambda x: tf.reduce_prod(x[x != 0.0]),
        lambda x: x[x != 0.0],
    ],
)
def test_where_a_mask_makes_the_function_jump_the_outcome_taken_is_a_convention(f: Any) -> None:
    found = check(f, _AT)
    assert found.ok and found.verdict == "convention"


def test_a_second_derivative_is_that_of_all_sides_where_a_mask_picks_more() -> None:
    found = check(lambda x: tf.reduce_sum(x[x != 0.0] ** 2), _AT, order=2)
    assert found.verdict == "convention" and not found.ok
    assert found.findings[0].order == 2 and float(found.findings[0].exact or "nan") == 2.0


@pytest.mark.parametrize(
    "f",
    [lambda x: tf.reduce_sum(tf.tile(x[x != 0.0], [2])), lambda x: tf.reduce_sum(tf.expand_dims(x[x != 0.0], 0))],
)
def test_sizes_that_are_constants_in_the_record_leave_the_other_sides_undecided(f: Any) -> None:
    found = check(f, _AT)
    assert found.verdict == "undecided" and "other outcome of a decision" in found.findings[0].reason
    claimed = judge(f, (_AT,), np.array([2.0, 2.0]))
    assert claimed.verdict == "undecided" and all(v.verdict != "rule" for v in claimed.findings)
    with pytest.raises(ArithmeticError, match="not decided: with the other outcome of a decision"):
        exact(f, _AT)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: tf.reduce_sum(x[x != 0.0]) * float(len(x[x != 0.0])),
        lambda x: tf.reduce_sum(x[x != 0.0]) * x[x != 0.0].shape[0],
        lambda x: tf.reduce_sum(x[x != 0.0]) * tf.cast(tf.size(x[x != 0.0]), tf.float64),
        lambda x: tf.reduce_sum(x[x != 0.0] * tf.range(1.0, 1.0 + len(x[x != 0.0]), dtype=tf.float64)),
    ],
)
def test_a_size_that_python_reads_leaves_the_other_sides_undecided(f: Any) -> None:
    at = np.array([1.0, 0.0])
    found = check(f, at)
    assert not found.ok and "undecided" in {v.verdict for v in found.findings}
    for claim in ([1.0, 1.0], [1.0, 2.0], [1.0, 0.0]):
        found = judge(f, (at,), np.array(claim))
        assert "undecided" in {v.verdict for v in found.findings}
        assert not {"rule", "convention"} & {v.verdict for v in found.findings if not v.ok}


# Each reads the size of a mask, whose elements change nothing else.
SIZES: dict[str, Callable[..., Any]] = {
    "size": lambda x: tf.reduce_sum(x) * int(tf.size(tf.boolean_mask(x, x > 0.0))),
    "len": lambda x: tf.reduce_sum(x) * float(len(x[x > 0.0])),
    "shape": lambda x: x[0] * x[x != 0.0].shape[0],
    "tensor": lambda x: tf.reduce_sum(x) * tf.cast(tf.shape(tf.where(x > 0.0))[0], tf.float64),
    "range": lambda x: tf.add_n([x[0]] + [x[1]] * len(x[x > 0.0])),
    "branch": lambda x: tf.reduce_sum(x) if len(x[x > 0.0]) < 2 else 3.0 * tf.reduce_sum(x),
}


@pytest.mark.parametrize("name", SIZES)
def test_a_size_at_a_tie_is_seen_where_the_record_lacks_its_mask(name: str) -> None:
    f = SIZES[name]
    x = tf.constant(_AT)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    for found in (check(f, _AT), judge(f, (_AT,), tape.gradient(y, x).numpy())):
        assert found.verdict == "undecided" and "sizes" in found.findings[0].reason, found
        assert found.findings[0].line[0] == __file__
    with pytest.raises(ArithmeticError, match="reads other sizes"):
        exact(f, _AT)


@pytest.mark.parametrize("name", SIZES)
def test_a_size_beside_a_tie_says_nothing(name: str) -> None:
    at = np.array([0.5, 1.0])
    assert check(SIZES[name], at).verdict == "correct"
    assert np.isfinite(exact(SIZES[name], at).astype(float)).all()


@pytest.mark.parametrize(
    "f",
    [
        lambda x: tf.reduce_sum(x) + 0.0 * len(x[x > 0.0]),
        lambda x: tf.reduce_sum(x) * len(tf.unique(x)[0]),
        lambda x: tf.reduce_sum(x) * min(len(x[x > 0.0]), 1),
    ],
)
def test_a_size_that_changes_nothing_beside_a_tie_says_nothing(f: Any) -> None:
    assert check(f, _AT).verdict == "correct"
    assert np.isfinite(exact(f, _AT).astype(float)).all()


@pytest.mark.parametrize(
    ("f", "slope"),
    [
        (lambda x: tf.reduce_sum(x[x != 0.0][:1]), [1.0, 0.0, 0.0]),
        (lambda x: tf.reduce_sum(tf.slice(x[x >= 0.0], [0], [-1])[-2:]), [0.0, 1.0, 1.0]),
        (lambda x: tf.reduce_sum(tf.math.top_k(x[x != 0.0], 2)[0]), [1.0, 0.0, 1.0]),
        (lambda x: tf.reduce_sum(tf.concat([x[x > 0.0], x[x <= 0.0]], 0)), [1.0, 1.0, 1.0]),
    ],
)
def test_a_mask_at_a_tie_that_changes_nothing_says_nothing(f: Any, slope: Any) -> None:
    at = np.array([2.0, 0.0, 3.0]) if slope[1] == 0.0 else np.array([0.0, 1.0, 3.0])
    assert check(f, at).verdict == "correct"
    assert judge(f, (at,), np.array(slope)).ok


@pytest.mark.parametrize(
    "key",
    [slice(None), slice(1, None), slice(-2, None), slice(None, -2), slice(None, None, -1), slice(-10, 3),
     slice(-10, 3, -1), slice(3, -10, -1), slice(10, 0, -2), slice(2, 2), -1, 3, slice(4, 1), slice(-10, None, -1)],
)  # fmt: skip
def test_slices_with_open_and_negative_ends_are_those_of_numpy(key: Any) -> None:
    value = np.arange(5.0)
    x, slope = tf.constant(value), np.zeros(5)
    slope[key] = 2.0 * value[key]
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(x[key] ** 2)
    assert np.array_equal(x[key].numpy(), value[key]) and np.array_equal(tape.gradient(y, x).numpy(), slope)


_WEIGHTS = tf.constant([1.0, 2.0], tf.float64)
_IN_ORDER = np.zeros(2)


def _segment(x: Any) -> Any:
    return tf.cast(x > 0.0, tf.int32)


def _weighted_segments(x: Any) -> Any:
    sums = tf.math.segment_sum(x, _segment(x))
    return tf.reduce_sum(sums * _WEIGHTS[: sums.shape[0]])


# Each function, its point, the derivatives on its sides and between them, and others.
OTHER_SIZES: dict[str, tuple[Callable[..., Any], Any, Any, Any]] = {
    "dynamic_partition": (
        lambda x: sum(k * tf.reduce_sum(p) for k, p in enumerate(tf.dynamic_partition(x, _segment(x), 2), 1)), _AT,
        [[1.0, 2.0], [2.0, 2.0], [1.5, 2.0]], [[0.0, 2.0], [3.0, 2.0], [1.0, 1.0]],
    ),
    "repeat": (
        lambda x: tf.reduce_sum(tf.repeat(x, _segment(x) + 1)), _AT,
        [[1.0, 2.0], [2.0, 2.0], [1.5, 2.0]], [[0.0, 2.0], [3.0, 2.0], [1.0, 1.0]],
    ),
    "weighted segments": (
        _weighted_segments, _IN_ORDER, [[1.0, 1.0], [2.0, 2.0], [1.0, 2.0], [1.5, 1.75]], [[0.0, 2.0], [3.0, 2.0]],
    ),
    "last segment": (
        lambda x: tf.reduce_sum(tf.math.segment_sum(x, _segment(x))[-1:]), _IN_ORDER,
        [[1.0, 1.0], [0.0, 1.0]], [[0.0, 0.0], [2.0, 1.0]],
    ),
    "segment_mean": (
        lambda x: tf.reduce_sum(tf.math.segment_mean(x, _segment(x))), _IN_ORDER,
        [[0.5, 0.5], [1.0, 1.0]], [[0.0, 0.0], [2.0, 1.0]],
    ),
    "dynamic_stitch": (
        lambda x: tf.reduce_sum(tf.dynamic_stitch([_segment(x)], [x])[-1:]), _IN_ORDER,
        [[0.0, 1.0], [1.0, 0.0]], [[2.0, 1.0]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHER_SIZES)
def test_claims_where_partitions_and_segments_change_in_size_lie_between_the_sides(name: str) -> None:
    f, at, inside, outside = OTHER_SIZES[name]
    assert check(f, at).ok
    assert all(judge(f, (at,), np.array(c)).ok for c in inside)
    assert not any(judge(f, (at,), np.array(c)).ok for c in outside)


def test_a_size_that_no_tie_changes_says_nothing_more() -> None:
    found = check(lambda x: tf.reduce_sum(tf.math.bincount(_segment(x), weights=x, minlength=2)[-1:]), _IN_ORDER)
    assert [v.verdict for v in found.findings] == ["convention"] and "branch" not in found.findings[0].reason


def test_claims_by_rows_of_constants_beside_a_branch_are_judged() -> None:
    def f(x: Any) -> Any:
        kept = tf.math.bincount(_segment(x), weights=x, minlength=2)
        return tf.reduce_sum(kept[-1:]) if x[0] > 0.0 else tf.reduce_sum(kept[1:])

    assert judge(f, (_IN_ORDER,), np.array([0.0, 1.0])).ok and not judge(f, (_IN_ORDER,), np.array([2.0, 1.0])).ok


def test_lengths_with_fractions_keep_the_size_of_their_mask() -> None:
    assert tf.sequence_mask(tf.constant([0.5, 2.5])).shape == (2, 3)
