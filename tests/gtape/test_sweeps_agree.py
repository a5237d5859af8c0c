"""The two sweeps of a tape make the same numbers: the short one is the full one in fewer steps, bit for bit."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.engine import differentiation
from gtape.engine.fast.steps import FAMILIAR
from gtape.engine.full_sweep import full_sweep
from gtape.engine.jacobians import takes_rows
from gtape.engine.sweep import keeping, short_sweep
from gtape.engine.worlds import NUMPY
from gtape.recording import record

UNARY = [
    tf.sin, tf.tanh, tf.negative, tf.square, tf.sigmoid, tf.math.softplus, tf.math.erf, tf.exp, tf.identity,
    lambda x: tf.math.log1p(x * x), lambda x: tf.sqrt(x * x + 1.0), lambda x: 2.0 / (1.5 + tf.cos(x)),
]  # fmt: skip
BINARY = [tf.add, tf.subtract, tf.multiply, lambda x, y: x / (2.0 + tf.tanh(y)), tf.atan2]
SHAPED = [
    lambda x: tf.transpose(x), lambda x: tf.reshape(x, [-1]), lambda x: tf.reduce_sum(x, axis=-1, keepdims=True),
    lambda x: tf.reduce_mean(x, axis=0), lambda x: tf.cumsum(x), lambda x: tf.concat([x, x], 0),
    lambda x: tf.nn.softmax(x), lambda x: tf.linalg.matmul(x, x, transpose_a=True) if x.shape.rank == 2 else x * x,
    lambda x: tf.expand_dims(x, 0) if x.shape.rank < 3 else x, lambda x: tf.broadcast_to(x, [2, *x.shape]),
]  # fmt: skip


def _program(rng: random.Random, sources: list[Any], ops: int, shaped: bool = True) -> list[Any]:
    """All values of a random program that fans out and in, as any of them may be an operand of each op."""
    values = list(sources)
    for _ in range(ops):
        x = rng.choice(values[-6:])
        kind = rng.random() * (1.0 if shaped else 0.75)
        if kind < 0.4:
            y = rng.choice(UNARY)(x)
        elif kind < 0.75 or x.shape.rank == 0:
            fitting = [v for v in values if v.shape == x.shape or v.shape.rank == 0 or v.shape == (1,)]
            y = rng.choice(BINARY)(x, rng.choice(fitting))
        else:
            y = rng.choice(SHAPED)(x)
        if tf.size(y) <= 200:
            values.append(y)
    return values


def _same(made: list[Any], expected: list[Any]) -> None:
    for c, e in zip(made, expected, strict=True):
        assert (c is None) == (e is None)
        if e is not None:
            c, e = np.asarray(c), np.asarray(e)
            assert (c.dtype, c.shape, c.tobytes()) == (e.dtype, e.shape, e.tobytes())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("seed", range(60))
def test_short_and_full_sweep_make_the_same_numbers(seed: int, dtype: str) -> None:
    shape = random.Random(seed).choice([(3,), (2, 3), (3, 3), (1,), (2, 1, 2)])
    # The same program again and again, because steps are written down for layouts that are met often.
    for _ in range(1 + 9 * (seed % 3 == 0)):
        rng = random.Random(seed)
        draw = np.random.default_rng(seed)
        sources = [tf.constant(draw.uniform(-2, 2, shape), dtype) for _ in range(2)]
        with tf.GradientTape() as tape:
            tape.watch(sources)
            values = _program(rng, sources, 25)
            target = tf.reduce_sum(values[-1])
        session, stack = tape._session, record.get_stack()
        assert session is not None and not session.selects
        asked = [record.record_of(v) for v in (*sources, *rng.sample(values, 4), tf.constant(1.0))]
        seeds = [(record.record_of(target), np.asarray(1.0, dtype)[()])]
        full, _ = stack.run(full_sweep, NUMPY, session, seeds, asked)
        with keeping:
            kept = stack.run(short_sweep, seeds, asked, keep=True)
        _same(kept, full)
        _same(stack.run(full_sweep, NUMPY, session, seeds, asked)[0], full)
        _same(stack.run(short_sweep, seeds, asked), full)
        assert any(c is not None for c in full)


@pytest.mark.parametrize("seed", range(20))
def test_short_and_full_sweep_make_the_same_numbers_of_several_cotangents_at_once(seed: int) -> None:
    rng, draw = random.Random(seed), np.random.default_rng(seed)
    sources = [tf.constant(draw.uniform(-2, 2, shape)) for shape in ((2, 3), (2, 3), (1, 3), (3,), ())]
    with tf.GradientTape() as tape:
        tape.watch(sources)
        # Each source is broadcast, so that its cotangent is a sum.
        target = tf.zeros((2, 3), tf.float64)
        for x, y in zip(_program(rng, sources[:2], 8, shaped=False), sources * 2, strict=True):
            target += x * y
    session, stack = tape._session, record.get_stack()
    assert session is not None
    start, asked = record.record_of(target), [record.record_of(v) for v in sources]
    seeds = [(start, draw.normal(size=(4, *target.shape)))]
    full, _ = stack.run(full_sweep, NUMPY, session, seeds, asked, batch=4)
    assert takes_rows(session, start, 4)
    _same(stack.run(short_sweep, seeds, asked), full)
    assert [np.shape(c) for c in full] == [(4, *v.shape) for v in sources]


def _three_orders(seed: int) -> list[Any]:
    """Gradients of a random program, and those of these gradients, up to the third order."""
    draw = np.random.default_rng(seed)
    sources = [tf.constant(draw.uniform(-1, 1, (2, 3) if seed % 4 else ())) for _ in range(2)]
    with tf.GradientTape() as outer:
        outer.watch(sources)
        with tf.GradientTape(persistent=bool(seed % 3 == 0)) as middle:
            middle.watch(sources)
            with tf.GradientTape() as inner:
                inner.watch(sources[: 1 + seed % 2])
                values = _program(random.Random(seed), sources, 8)
                loss = tf.reduce_sum(values[-1]) + tf.reduce_sum(values[-2] * values[-2])
            first = inner.gradient(loss, sources, unconnected_gradients="zero")
            loss = tf.reduce_sum(tf.sin(first[0])) + tf.reduce_sum(first[1] * first[1])
        second = middle.gradient(loss, sources, unconnected_gradients="zero")
        loss = tf.reduce_sum(second[0]) + tf.reduce_sum(second[1] * second[1])
    return [*first, *second, *outer.gradient(loss, sources, unconnected_gradients="zero")]


@pytest.mark.parametrize("seed", range(8))
def test_sweeps_under_tapes_make_the_numbers_of_the_full_sweep_up_to_the_third_order(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(FAMILIAR + 2):
        made = _three_orders(seed)
    monkeypatch.setattr(differentiation, "takes_recorded_sweep", lambda *_: False)
    _same(made, _three_orders(seed))


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("value", [np.float64(2.0), np.array([2.0, -3.0])])
def test_ops_that_pass_their_cotangent_on_may_be_sources(value: Any, persistent: bool) -> None:
    """The sweep does not call the backward step of `x + constant`, unless its result is a source."""
    like, one = tf.constant(value), tf.constant(np.ones_like(value)[()])
    with tf.GradientTape(persistent=persistent) as tape:
        tape.watch(like)
        square = like * like
        moved = square + one
        again = one + moved
        y = again * again
    assert [r[record.OTHER] for r in (moved._record, again._record)] == [record.PASSES] * 2
    sources = [like, square, moved, again, moved]
    expected = [4.0 * again * like, *[2.0 * again] * 4]
    for _ in range(2 if persistent else 1):
        _same([g.numpy() for g in tape.gradient(y, sources)], [e.numpy() for e in expected])
    if persistent:  # the records are as before
        assert [r[record.OTHER] for r in (moved._record, again._record)] == [record.PASSES] * 2
        assert record.parents_of(again._record) == (moved._record,)
        _same([tape.gradient(y, like).numpy()], [expected[0].numpy()])
        _same([tape.gradient(y, moved).numpy()], [expected[2].numpy()])


def test_ops_that_pass_their_cotangent_on_are_differentiated_twice() -> None:
    x = tf.constant(2.0, tf.float64)
    for _ in range(2 * FAMILIAR):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = (x * x + tf.constant(1.0, tf.float64)) * x
            g = tape.gradient(y, x) + tf.constant(5.0, tf.float64)
        assert g.numpy() == 3 * 4.0 + 1.0 + 5.0
        assert outer.gradient(g, x).numpy() == 6 * 2.0


def test_records_tell_how_many_parents_they_have() -> None:
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        one, two = tf.sin(x), x * x
        three = tf.concat([one, two, x], 0)
    assert one._record[record.OTHER] is None
    assert two._record[record.OTHER] is x._record
    assert three._record[record.OTHER] is record.SEVERAL
    assert [len(record.parents_of(v._record)) for v in (one, two, three)] == [1, 2, 3]


# Selections make zeros, which a sweep under a tape keeps apart from other zeros.
SELECTING = [
    tf.nn.relu, tf.abs, tf.nn.elu, lambda x: tf.maximum(x, 0.25), lambda x: tf.clip_by_value(x, -0.5, 0.5),
    lambda x: tf.where(x > 0, x * x, tf.zeros_like(x)), lambda x: tf.sort(x, axis=0),
    lambda x: tf.reduce_max(x, axis=-1, keepdims=True) + x, lambda x: tf.reduce_min(x, axis=0) * x,
    lambda x: tf.math.segment_max(x, np.arange(x.shape[0]) // 2), lambda x: tf.math.top_k(x, 1)[0],
    lambda x: tf.nn.max_pool1d(x[None], 2, 1, "SAME")[0], lambda x: tf.boolean_mask(x, np.arange(x.shape[0]) % 2 == 0),
]  # fmt: skip
MIXING = [
    lambda x: tf.math.reduce_variance(x, -1, keepdims=True) * x, lambda x: tf.math.reduce_std(x, 0, keepdims=True) + x,
    lambda x: x - tf.reduce_mean(x, 0, keepdims=True), lambda x: tf.nn.softmax(x), lambda x: tf.nn.log_softmax(x, 0),
    lambda x: tf.nn.batch_normalization(x, *tf.nn.moments(x, -1, keepdims=True), None, None, 1e-3),
    lambda x: tf.math.l2_normalize(x, 1), lambda x: x[1:] - x[:-1], lambda x: x[2:] - 2.0 * x[1:-1] + x[:-2],
    lambda x: tf.matmul(x, x, transpose_b=True), lambda x: tf.cumsum(x), lambda x: tf.math.cumprod(x),
    lambda x: tf.nn.avg_pool1d(x[None], 3, 1, "SAME")[0], lambda x: tf.linalg.expm(tf.matmul(x, x, transpose_b=True)),
    lambda x: tf.linalg.solve(tf.matmul(x, x, transpose_b=True) + 3.0 * tf.eye(x.shape[0], dtype=x.dtype), x),
]  # fmt: skip


@pytest.mark.parametrize("mix", range(len(MIXING)))
@pytest.mark.parametrize("select", range(len(SELECTING)))
def test_a_gradient_under_a_tape_is_the_gradient_alone_where_a_selection_follows(select: int, mix: int) -> None:
    draw = np.random.default_rng(100 * select + mix)

    def gradient(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = SELECTING[select](MIXING[mix](x))
            loss = tf.reduce_sum(y * np.linspace(-1.0, 2.0, int(tf.size(y))).reshape(y.shape))
        return tape.gradient(loss, x).numpy()

    for shape in [(4, 3), (6, 3), (5, 5), (7, 4)]:
        x = tf.constant(draw.normal(size=shape) / 2)
        alone = gradient(x)
        with tf.GradientTape() as outer:
            outer.watch(x)
            inside = gradient(x)
        np.testing.assert_allclose(inside, alone, rtol=1e-13, atol=1e-13 * np.abs(alone).max())


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("select", range(len(SELECTING)))
def test_the_short_sweep_passes_selections_with_the_bits_of_the_full_sweep(
    select: int, persistent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gradients(dtype: str) -> list[Any]:
        draw, made = np.random.default_rng(select), []
        for mix in MIXING:
            x = tf.constant(draw.normal(size=(6, 3)), dtype)
            for _ in range(FAMILIAR + 2):  # the steps are written down meanwhile
                with tf.GradientTape(persistent) as tape:
                    tape.watch(x)
                    h = mix(x)
                    y = SELECTING[select](h)
                    loss = tf.reduce_sum(y * np.linspace(-1, 2, int(tf.size(y))).reshape(y.shape).astype(dtype))
                made.append(tape.gradient(loss, [x, h]))
        return [c.numpy() for row in made for c in row]

    dtypes = ("float64", "float32")
    short = [gradients(dtype) for dtype in dtypes]
    monkeypatch.setattr(differentiation, "_takes_short", lambda *_: False)
    for made, dtype in zip(short, dtypes, strict=True):
        _same(made, gradients(dtype))


@pytest.mark.parametrize(
    ("f", "x", "slope"),
    [
        (lambda x: tf.where(x > 1.0, tf.sqrt(x - 1.0), 2.0 * x), [1.0, 2.0], [2.0, 0.5]),
        (lambda x: tf.sqrt(x)[1:], [0.0, 4.0], [0.0, 0.25]),
        (lambda x: tf.maximum(tf.math.log(x), 1.0), [0.0, np.e**2], [0.0, np.e**-2]),
        (lambda x: tf.nn.relu(1.0 - tf.sqrt(x)) * 0.0 + x, [4.0, 9.0], [1.0, 1.0]),
    ],
)
def test_a_selection_keeps_infinite_slopes_of_other_elements_away(f: Any, x: Any, slope: Any) -> None:
    x = tf.constant(x, tf.float64)
    for persistent in (False, True):
        with tf.GradientTape(persistent) as tape:
            tape.watch(x)
            y = tf.reduce_sum(f(x))
        np.testing.assert_allclose(tape.gradient(y, x).numpy(), slope, rtol=1e-15)


def test_a_gradient_past_selections_frees_the_graph() -> None:
    x = tf.Variable([1.0, -2.0, 3.0])
    with tf.GradientTape() as tape:
        inner = tf.nn.relu(x)[1:]
        loss = tf.reduce_max(inner) * tf.reduce_sum(inner)
    made = loss._record
    assert tape.gradient(loss, x) is not None
    assert made[record.STEP] is None and inner._record in (None, record.record_of(inner))
    assert inner._record is None or inner._record[record.STEP] is None


@pytest.mark.parametrize(
    "f",
    [
        lambda x: tf.sort(x + x),
        lambda x: tf.maximum(x + x, -x),
        lambda x: tf.where(x > 0.0, x + x, x),
        lambda x: tf.reduce_sum(x) + x,
    ],
)
def test_a_jacobian_of_no_elements_has_its_shape(f: Any) -> None:
    x = tf.zeros([0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    assert tape.jacobian(y, x).shape == (0, 0)
