"""Structural primitives against their mirrors: values, both rules, batches of cotangents and the second order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gtape as tf
from gtape.declare.primitives import REGISTRY, Primitive
from gtape.engine.worlds import NUMPY
from gtape.symbolic.balls import precision, to_float
from gtape.symbolic.worlds import BallWorld, JetWorld, SymPyWorld

ROOMS = ("gtape.ops.shape.", "gtape.ops.picking.", "gtape.ops.reduction.")
MINE = [p for p in REGISTRY.values() if p.module.startswith(ROOMS)]
CASES = [pytest.param(p, i, id=f"{p.name}-{i}") for p in MINE for i in range(len(p.samples))]
SMOOTH = [c for c in CASES if c.values[0].differentiable]
CLOSE = {"rtol": 1e-11, "atol": 1e-13}


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_named_here_declares_primitives(room: str) -> None:
    assert any(p.module.startswith(room) for p in MINE)


def draw(rng: np.random.Generator, sample: Any) -> Any:
    """A concrete argument as it is, a shape as distinct numbers of that shape."""
    if isinstance(sample, np.ndarray):
        return sample
    return np.asarray(
        rng.permuted(np.linspace(-1.5, 1.7, int(np.prod(sample)))) + rng.uniform(-0.05, 0.05, int(np.prod(sample)))
    ).reshape(sample)


def arguments(p: Primitive, i: int) -> tuple[list[Any], dict[str, Any], list[int]]:
    rng = np.random.default_rng(i)
    args, params = p.samples[i]
    xs = [draw(rng, a) for a in args]
    active = [k for k, x in enumerate(xs) if x.dtype.kind == "f" and p.connected(k)]
    return xs, params, active


def outputs(y: Any) -> list[Any]:
    return list(y) if isinstance(y, tuple) else [y]


def jet(p: Primitive, xs: list[Any], params: dict[str, Any], *directions: list[Any]) -> list[Any]:
    """Mixed derivative of the mirror along directions, exactly."""
    with precision(200):
        W = JetWorld(len(directions))
        lifted = [W.jet(x, *[d[k] for d in directions]) if x.dtype.kind == "f" else x for k, x in enumerate(xs)]
        y = getattr(W, p.name)(*lifted, **params)
        return [
            np.asarray(to_float(W.component(v, (1 << len(directions)) - 1)), dtype=float).reshape(np.shape(v))
            for v in outputs(y)
        ]


def vjp(p: Primitive, g: Any, y: Any, xs: list[Any], params: dict[str, Any], active: list[int]) -> list[Any]:
    scalars = [x[()] for x in xs]
    y = tuple(y) if len(y) > 1 else y[0]
    g = tuple(g) if len(g) > 1 or isinstance(p.kernel(*scalars, **params), tuple) else g[0]
    if p.variadic:
        return list(p.vjp(NUMPY, g, scalars, **params))
    if p.kind == "linear":
        return [p.vjp[k](NUMPY, g, scalars[k], **params) for k in active]
    return [p.vjp[k](NUMPY, g, y, *scalars, **params) for k in active]


@pytest.mark.parametrize(("p", "i"), CASES)
def test_value_is_the_mirrors(p: Primitive, i: int) -> None:
    xs, params, _ = arguments(p, i)
    got = outputs(p.kernel(*[x[()] for x in xs], **params))
    with precision(200):
        exact = outputs(getattr(BallWorld(), p.name)(*xs, **params))
        for a, b in zip(got, exact, strict=True):
            b = np.asarray(b)
            assert np.shape(a) == b.shape
            np.testing.assert_allclose(
                np.asarray(a, float), to_float(b) if b.dtype == object else b.astype(float), **CLOSE
            )


@pytest.mark.parametrize(("p", "i"), SMOOTH)
def test_rules_are_the_mirrors_derivative(p: Primitive, i: int) -> None:
    xs, params, active = arguments(p, i)
    rng = np.random.default_rng(100 + i)
    t = [rng.standard_normal(x.shape) if k in active else np.zeros(x.shape) for k, x in enumerate(xs)]
    scalars = [x[()] for x in xs]
    y = outputs(p.kernel(*scalars, **params))
    exact = jet(p, xs, params, t)
    g = [rng.standard_normal(np.shape(v)) for v in y]
    got = vjp(p, g, y, xs, params, active)
    for k, c in zip(active, got, strict=True):
        assert np.shape(c) == xs[k].shape
    pulled = sum(float(np.sum(c * t[k])) for k, c in zip(active, got, strict=True))
    np.testing.assert_allclose(pulled, sum(float(np.sum(a * b)) for a, b in zip(g, exact, strict=True)), **CLOSE)
    if p.variadic:
        pushed = [p.kernel(*t, **params)]
    elif p.kind == "linear":
        pushed = outputs(p.kernel(t[0][()], **params))
    else:
        pushed = [sum(p.jvp[k](NUMPY, t[k], y[0], *scalars, **params) for k in active)]
    for a, b in zip(pushed, exact, strict=True):
        assert np.shape(a) == np.shape(b)
        np.testing.assert_allclose(np.asarray(a, float), b, **CLOSE)


@pytest.mark.parametrize(("p", "i"), [c for c in SMOOTH if c.values[0].batched])
def test_batch_is_one_after_the_other(p: Primitive, i: int) -> None:
    xs, params, active = arguments(p, i)
    rng = np.random.default_rng(200 + i)
    y = outputs(p.kernel(*[x[()] for x in xs], **params))
    g = [rng.standard_normal((2, *np.shape(v))) for v in y]
    together = vjp(p, g, y, xs, params, active)
    apart = [vjp(p, [h[k] for h in g], y, xs, params, active) for k in range(2)]
    for k, c in enumerate(together):
        np.testing.assert_allclose(
            np.broadcast_to(c, (2, *xs[active[k]].shape)), np.stack([a[k] for a in apart]), **CLOSE
        )


@pytest.mark.parametrize(("p", "i"), SMOOTH)
def test_second_order_is_the_mirrors(p: Primitive, i: int) -> None:
    xs, params, active = arguments(p, i)
    rng = np.random.default_rng(300 + i)
    u, v = (
        [rng.standard_normal(x.shape) if k in active else np.zeros(x.shape) for k, x in enumerate(xs)] for _ in range(2)
    )
    exact = jet(p, xs, params, u, v)
    g = [rng.standard_normal(np.shape(e)) for e in exact]
    tensors = [tf.constant(x) for x in xs]
    watched = [tensors[k] for k in active]
    with tf.GradientTape() as outer:
        outer.watch(watched)
        with tf.GradientTape() as inner:
            inner.watch(watched)
            y = outputs(p(*tensors, **params))
            loss = sum([tf.reduce_sum(a * tf.constant(b)) for a, b in zip(y, g, strict=True)])
        first = inner.gradient(loss, watched, unconnected_gradients="zero")
        slope = sum(
            [tf.reduce_sum(tf.convert_to_tensor(d) * tf.constant(u[k])) for k, d in zip(active, first, strict=True)]
        )
    second = outer.gradient(slope, watched, unconnected_gradients="zero")
    got = sum(float(np.sum(tf.convert_to_tensor(d).numpy() * v[k])) for k, d in zip(active, second, strict=True))
    np.testing.assert_allclose(got, sum(float(np.sum(a * b)) for a, b in zip(g, exact, strict=True)), **CLOSE)


@pytest.mark.parametrize(("p", "i"), SMOOTH)
@pytest.mark.parametrize("world", [BallWorld, SymPyWorld])
def test_rules_run_on_exact_numbers(p: Primitive, i: int, world: Any) -> None:
    xs, params, active = arguments(p, i)
    if world is SymPyWorld and sum(x.size for x in xs) > 4:
        pytest.skip("symbolic constants of this size take long and say nothing more")
    rng = np.random.default_rng(400 + i)
    y = outputs(p.kernel(*[x[()] for x in xs], **params))
    g = [rng.standard_normal(np.shape(v)) for v in y]
    wanted = vjp(p, g, y, xs, params, active)
    with precision(200):
        W = world()
        lifted, seeds = [W.lift(x) for x in xs], [W.lift(h) for h in g]
        out = getattr(W, p.name)(*lifted, **params)
        seed = tuple(seeds) if isinstance(out, tuple) else seeds[0]
        if p.variadic:
            got = p.vjp(W, seed, lifted, **params)
        elif p.kind == "linear":
            got = [p.vjp[0](W, seed, lifted[0], **params)]
        else:
            got = [p.vjp[k](W, seed, out, *lifted, **params) for k in active]
        for a, b in zip(got, wanted, strict=True):
            numbers = (
                to_float(W.objects(a)) if world is BallWorld else np.vectorize(float, otypes=[float])(W.objects(a))
            )
            np.testing.assert_allclose(np.asarray(numbers, float), b, **CLOSE)


@pytest.mark.parametrize(("p", "i"), CASES)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_dtype_is_kept(p: Primitive, i: int, dtype: Any) -> None:
    xs, params, _ = arguments(p, i)
    if p.name == "cast":
        pytest.skip("a cast changes the dtype")
    low = [x.astype(dtype)[()] if x.dtype.kind == "f" else x for x in xs]
    for a, b in zip(outputs(p.kernel(*low, **params)), outputs(p.kernel(*[x[()] for x in xs], **params)), strict=True):
        assert a.dtype == (dtype if b.dtype.kind == "f" else b.dtype)
        np.testing.assert_allclose(np.asarray(a, float), np.asarray(b, float), rtol=2e-2, atol=2e-2)


def gradients(f: Any, *xs: Any) -> list[Any]:
    """First derivatives of f in float64."""
    ts = [tf.constant(np.asarray(x, dtype=np.float64)) for x in xs]
    with tf.GradientTape() as tape:
        tape.watch(ts)
        y = f(*ts)
    return [None if g is None else tf.convert_to_tensor(g).numpy().tolist() for g in tape.gradient(y, ts)]


nan, inf = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("f", "x", "value", "gradient"),
    [
        (tf.reduce_prod, [2.0, 0.0, 4.0], 0.0, [0.0, 8.0, 0.0]),
        (tf.reduce_prod, [0.0, 0.0, 4.0], 0.0, [0.0, 0.0, 0.0]),
        (tf.reduce_prod, [1e300, 1e300, 2e-300, 1e-300], 2.0, [2e-300, 2e-300, 1e300, 2e300]),
        (tf.reduce_max, [1.0, 3.0, 3.0], 3.0, [0.0, 0.5, 0.5]),
        (tf.reduce_min, [1.0, nan], nan, [nan, nan]),
        (tf.reduce_max, [], -inf, []),
        (tf.reduce_min, [], inf, []),
        (tf.reduce_mean, [], nan, []),
        (tf.reduce_sum, [], 0.0, []),
        (tf.reduce_logsumexp, [1000.0, 1000.0], 1000.6931471805599, [0.5, 0.5]),
        (tf.reduce_logsumexp, [-inf, 0.0], 0.0, [0.0, 1.0]),
        (tf.reduce_logsumexp, [-inf, -inf], -inf, [nan, nan]),
        (tf.reduce_logsumexp, [inf, 0.0], inf, [1.0, 0.0]),
        (tf.math.reduce_std, [0.1, 0.1, 0.1], 0.0, [0.0, 0.0, 0.0]),
        (tf.norm, [0.0, 0.0], 0.0, [0.0, 0.0]),
        (lambda x: tf.norm(x, ord=1), [0.0, -2.0], 2.0, [0.0, -1.0]),
        (lambda x: tf.norm(x, ord=3), [0.0, 0.0], 0.0, [0.0, 0.0]),
        (lambda x: tf.norm(x, ord=np.inf), [2.0, -2.0], 2.0, [0.5, -0.5]),
        (tf.norm, [3e200, 4e200], 5e200, [0.6, 0.8]),
        (tf.norm, [3e-320, 4e-320], 5e-320, [0.6, 0.8]),
    ],
)
def test_conventions(f: Any, x: list[float], value: float, gradient: list[float]) -> None:
    t = tf.constant(np.array(x))
    np.testing.assert_allclose(f(t).numpy(), value, rtol=1e-3 if 0 < abs(value) < 1e-300 else 1e-14)
    np.testing.assert_allclose(gradients(f, x)[0], gradient, rtol=1e-3 if 0 < abs(value) < 1e-300 else 1e-14)


@pytest.mark.parametrize("x", [[2.0, 0.0, 4.0, 0.0, 5.0], [0.0, 0.0, 0.0], [0.0, 3.0], [1.5, -2.0, 0.5]])
@pytest.mark.parametrize("name", ["cumprod", "prod", "prod_others"])
def test_products_are_exact_through_zeros(name: str, x: list[float]) -> None:
    p = REGISTRY[name]
    params = {"axis": -1, "exclusive": False, "reverse": False} if name == "cumprod" else {}
    a = np.array(x)
    weights = np.arange(1.0, 1.0 + np.size(p.kernel(a, **params))).reshape(np.shape(p.kernel(a, **params)))
    eye = np.eye(len(x))
    exact = [[float(np.sum(weights * jet(p, [a], params, [u], [v])[0])) for v in eye] for u in eye]
    t = tf.constant(a)
    with tf.GradientTape() as outer:
        outer.watch(t)
        with tf.GradientTape() as inner:
            inner.watch(t)
            y = tf.reduce_sum(p(t, **params) * tf.constant(weights))
        first = inner.gradient(y, t)
    second = outer.jacobian(first, t)
    assert second.numpy().tolist() == exact


@pytest.mark.parametrize(("x", "exact"), [([1e-160, 1e-160, 1e160], 1e-160), ([1e200, 1e200, 1e-200], 1e200)])
def test_a_product_keeps_its_digits_through_tiny_and_huge_products_on_the_way(x: list[float], exact: float) -> None:
    np.testing.assert_allclose(tf.reduce_prod(tf.constant(np.array(x))).numpy(), exact, rtol=1e-15)
    np.testing.assert_allclose(tf.math.cumprod(tf.constant(np.array(x)))[-1].numpy(), exact, rtol=1e-15)


@pytest.mark.parametrize("f", [tf.reduce_prod, lambda x: tf.math.cumprod(x)[-1]])
def test_an_element_that_does_not_move_adds_nothing_to_a_product_whose_others_overflow(f: Any) -> None:
    x = tf.constant(np.array([1e200, 1e200, 1e-200]))
    with tf.autodiff.ForwardAccumulator(x, tf.constant(np.array([1.0, 0.0, 0.0]))) as forward:
        y = f(x)
    np.testing.assert_allclose(forward.jvp(y).numpy(), 1.0, rtol=1e-15)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = f(x)
        g = inner.gradient(y, x)
        some = tf.reduce_sum(g[:2])
    np.testing.assert_allclose(outer.gradient(some, x).numpy(), [1e-200, 1e-200, 2e200], rtol=1e-15)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_deviations_keep_their_digits_where_the_mean_is_rounded(dtype: str) -> None:
    """Numbers beside 1 whose mean lies between two neighbours: 7,000 ULP of the variance were lost in float32."""
    gap = float(np.spacing(np.ones((), dtype)))
    x = 1 + gap * np.array([0.0, 8.0, -9.0, 2.0, 4.0, -3.0])
    exact = np.var(x / gap - 1 / gap)
    limit = 4 * gap
    t = tf.constant(x.astype(dtype))
    np.testing.assert_allclose(tf.math.reduce_variance(t).numpy() / gap / gap, exact, rtol=limit)
    np.testing.assert_allclose(tf.math.reduce_std(t).numpy() / gap, np.sqrt(exact), rtol=limit)


def test_the_second_derivative_of_a_length_keeps_its_digits_along_its_greatest_element() -> None:
    """1 - u * u, with u nearly 1, is the sum of the others' squares: subtracted, nothing or noise was left of it."""
    for x in ([1e-8, 1.0, 1e8], [1e-155, 1e-160, 1e-170]):
        t = tf.constant(np.array(x))
        with tf.GradientTape() as outer:
            outer.watch(t)
            with tf.GradientTape() as inner:
                inner.watch(t)
                y = tf.norm(t)
            g = inner.gradient(y, t)
        u = np.array(x) / max(x)
        length = np.sqrt(np.sum(u * u))
        exact = [
            [u[1] ** 2 + u[2] ** 2, -u[0] * u[1], -u[0] * u[2]],
            [-u[1] * u[0], u[0] ** 2 + u[2] ** 2, -u[1] * u[2]],
        ]
        exact.append([-u[2] * u[0], -u[2] * u[1], u[0] ** 2 + u[1] ** 2])
        np.testing.assert_allclose(outer.jacobian(g, t).numpy() * max(x), np.array(exact) / length**3, rtol=1e-14)


def test_the_second_derivative_of_a_tiny_unit_vector_overflows_to_infinities() -> None:
    x = tf.constant(np.array([1e-200, 2e-200, -1e-200]))
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = tf.nn.l2_normalize(x, epsilon=0.0)[0]
        g = inner.gradient(y, x)
    assert outer.jacobian(g, x).numpy().tolist() == [
        [-np.inf, -np.inf, np.inf],
        [-np.inf, np.inf, -np.inf],
        [np.inf, -np.inf, -np.inf],
    ]


def test_norms_of_other_orders_have_gradients_at_subnormal_vectors() -> None:
    x = [5e-324, 5e-324]
    np.testing.assert_allclose(gradients(lambda t: tf.norm(t, ord=3), x)[0], [2 ** (-2 / 3)] * 2, rtol=1e-13)


@pytest.mark.parametrize("x", [[1.0, 5.0, 20.0], [-80.0, -40.0, 0.0], [0.0, -40.0, -80.0], [2.0, 1.0, 1.5]])
def test_running_logarithms_have_the_second_derivatives_of_those_of_all_at_once(x: list[float]) -> None:
    """Where one share is nearly all, 1 - p kept nothing of the others: they were 0."""

    def second(f: Any) -> Any:
        t = tf.constant(np.array(x))
        with tf.GradientTape() as outer:
            outer.watch(t)
            with tf.GradientTape() as inner:
                inner.watch(t)
                y = f(t)
            g = inner.gradient(y, t)
        with tf.autodiff.ForwardAccumulator(t, tf.constant(np.array([0.5, 1.0, 2.0]))) as forward:
            with tf.GradientTape() as tape:
                tape.watch(t)
                y = f(t)
            along = tape.gradient(y, t)
        return outer.jacobian(g, t).numpy(), forward.jvp(along).numpy()

    running = second(lambda t: tf.math.cumulative_logsumexp(t)[2])
    for got, exact in zip(running, second(tf.reduce_logsumexp), strict=True):
        np.testing.assert_allclose(got, exact, rtol=3e-15)


def test_lookups_on_a_source_are_slices_and_others_dense() -> None:
    x = tf.Variable([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    with tf.GradientTape(persistent=True) as tape:
        twice = tf.reduce_sum(tf.gather(x, [0, 2, 0]))
        one = tf.gather(x, 1)
        column = tf.gather(x, [1], axis=1)
        batched = tf.gather(x, [[0], [0], [1]], batch_dims=1)
        element = tf.gather_nd(x, [[0, 1]])
        used = tf.reduce_sum(x) + twice
    g = tape.gradient(twice, x)
    assert isinstance(g, tf.IndexedSlices)
    assert g.indices.numpy().tolist() == [0, 2, 0]
    assert tf.convert_to_tensor(g).numpy().tolist() == [[2.0, 2.0], [0.0, 0.0], [1.0, 1.0]]
    assert tape.gradient(one, x).values.shape == [1, 2]
    assert tape.gradient(column, x).numpy().tolist() == [[0.0, 1.0]] * 3
    assert tape.gradient(batched, x).numpy().tolist() == [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    assert tape.gradient(element, x).numpy().tolist() == [[0.0, 1.0], [0.0, 0.0], [0.0, 0.0]]
    assert tape.gradient(used, x).numpy().tolist() == [[3.0, 3.0], [1.0, 1.0], [2.0, 2.0]]


CUBE = np.arange(24.0).reshape(2, 3, 4)


@pytest.mark.parametrize(
    "key",
    [
        0, -1, (0, 1), (..., 0), (slice(None), None, 1), (slice(1, None), slice(None, None, -1)),
        (0, ..., slice(None, None, 2)),
        (slice(-100, 100), slice(2, 0, -1)), (None, ..., None), slice(5, 2), slice(None, -4, -1), CUBE > 5, np.int64(1),
        (1, slice(None, None, -2), None, slice(3, None, -3)),
    ],
    ids=str,
)  # fmt: skip
def test_brackets(key: Any) -> None:
    t = tf.constant(CUBE)
    assert np.array_equal(t[key].numpy(), CUBE[key])
    places = np.zeros_like(CUBE)
    places[key] = 1.0
    assert np.array_equal(gradients(lambda x: x[key], CUBE)[0], places)


def test_parts_of_an_index_may_be_tensors() -> None:
    t = tf.constant(CUBE)
    one = tf.constant(1)
    assert np.array_equal(t[one, one:].numpy(), CUBE[1, 1:])


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: tf.gather([1.0, 2.0], [2]), tf.errors.InvalidArgumentError),
        (lambda: tf.gather([1.0, 2.0], [-1]), tf.errors.InvalidArgumentError),
        (lambda: tf.gather_nd([1.0, 2.0], [[2]]), tf.errors.InvalidArgumentError),
        (lambda: tf.scatter_nd([[3]], [1.0], [3]), tf.errors.InvalidArgumentError),
        (lambda: tf.constant([1.0])[5], tf.errors.InvalidArgumentError),
        (lambda: tf.constant([1.0])[0, 0], tf.errors.InvalidArgumentError),
        (lambda: tf.constant([1.0])[::0], tf.errors.InvalidArgumentError),
        (lambda: tf.constant([1.0])[1.0], TypeError),
        (lambda: tf.constant([1.0])[[0, 0]], tf.errors.InvalidArgumentError),
        (lambda: tf.constant([1.0])[True], TypeError),
        (lambda: tf.reshape([1.0, 2.0], [3]), tf.errors.InvalidArgumentError),
        (lambda: tf.reshape([1.0, 2.0], [-1, 0]), tf.errors.InvalidArgumentError),
        (lambda: tf.reduce_sum([1.0], axis=1), tf.errors.InvalidArgumentError),
        (lambda: tf.reduce_sum([[1.0]], axis=[0, -2]), tf.errors.InvalidArgumentError),
        (lambda: tf.concat([[1.0], [[2.0]]], 0), tf.errors.InvalidArgumentError),
        (lambda: tf.concat([tf.zeros([2, 2]), tf.zeros([2])], 1), tf.errors.InvalidArgumentError),
        (lambda: tf.stack([[1.0], [2.0, 3.0]]), tf.errors.InvalidArgumentError),
        (lambda: tf.split([1.0, 2.0, 3.0], 2), tf.errors.InvalidArgumentError),
        (lambda: tf.pad([1.0, 2.0], [[2, 0]], "REFLECT"), tf.errors.InvalidArgumentError),
        (lambda: tf.pad([1.0, 2.0], [[1, 0]], "EDGE"), ValueError),
        (lambda: tf.squeeze([1.0, 2.0], 0), tf.errors.InvalidArgumentError),
        (lambda: tf.broadcast_to([1.0, 2.0], [3]), tf.errors.InvalidArgumentError),
        (lambda: tf.boolean_mask([1.0, 2.0], [True]), ValueError),
        (lambda: tf.norm([1.0], ord=-1), ValueError),
        (lambda: tf.reduce_logsumexp([1, 2]), tf.errors.InvalidArgumentError),
        (lambda: tf.linspace(0.0, 1.0, -1), tf.errors.InvalidArgumentError),
        (lambda: tf.cumsum(1.0), tf.errors.InvalidArgumentError),
    ],
)
def test_bad_arguments(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        call()


def test_numpy_agrees_on_shapes_and_orders() -> None:
    t = tf.constant(CUBE)
    assert np.array_equal(tf.tile(t, [1, 2, 3]).numpy(), np.tile(CUBE, [1, 2, 3]))
    assert np.array_equal(tf.repeat(t, [1, 0, 2], axis=1).numpy(), np.repeat(CUBE, [1, 0, 2], 1))
    for mode in ("reflect", "symmetric", "constant"):
        assert np.array_equal(
            tf.pad(t, [[1, 1], [2, 0], [0, 3]], mode).numpy(), np.pad(CUBE, [[1, 1], [2, 0], [0, 3]], mode)
        )
    for indexing in ("xy", "ij"):
        for a, b in zip(
            tf.meshgrid([1, 2], [3, 4, 5], indexing=indexing),
            np.meshgrid([1, 2], [3, 4, 5], indexing=indexing),
            strict=True,
        ):
            assert np.array_equal(a.numpy(), b)
    ties = np.random.default_rng(0).integers(0, 4, (3, 4, 5)).astype(float)
    for axis in range(3):
        assert np.array_equal(tf.sort(ties, axis).numpy(), np.sort(ties, axis))
        assert np.array_equal(tf.argsort(ties, axis).numpy(), np.argsort(ties, axis, kind="stable"))
        assert np.array_equal(tf.argsort(ties, axis, "DESCENDING").numpy(), np.argsort(-ties, axis, kind="stable"))
        assert np.array_equal(tf.gather(ties, [[2, 0]], axis=axis).numpy(), np.take(ties, [[2, 0]], axis))
    assert np.array_equal(
        tf.gather(CUBE, [[0, 2], [1, 1]], axis=2, batch_dims=1).numpy(),
        np.stack([CUBE[0][:, [0, 2]], CUBE[1][:, [1, 1]]]),
    )
    assert np.array_equal(
        tf.gather_nd(CUBE, [[[1], [2]], [[0], [0]]], batch_dims=1).numpy(), np.stack([CUBE[0][[1, 2]], CUBE[1][[0, 0]]])
    )


def test_gradients_of_composed_ops() -> None:
    assert gradients(lambda x: tf.sort(x) * tf.constant([1.0, 2.0, 3.0], tf.float64), [3.0, 1.0, 2.0]) == [
        [3.0, 1.0, 2.0]
    ]
    assert gradients(lambda x: tf.pad(x, [[1, 2]], "REFLECT"), [1.0, 2.0, 3.0]) == [[2.0, 3.0, 1.0]]
    assert gradients(lambda x: tf.repeat(x, [2, 0, 1]), [1.0, 2.0, 3.0]) == [[2.0, 0.0, 1.0]]
    assert gradients(lambda x: tf.tile(x, [3]), [1.0, 2.0]) == [[3.0, 3.0]]
    assert gradients(lambda x: tf.tensor_scatter_nd_update(x, [[1], [1]], [5.0, 6.0]), [1.0, 2.0]) == [[1.0, 0.0]]
    assert gradients(lambda u: tf.tensor_scatter_nd_update(tf.zeros([2], tf.float64), [[1], [1]], u), [5.0, 6.0]) == [
        [0.0, 1.0]
    ]
    assert gradients(lambda u: tf.scatter_nd([[1], [1]], u, [3]) * 2.0, [5.0, 6.0]) == [[2.0, 2.0]]
    assert gradients(lambda a, b: tf.linspace(a, b, 5), 0.0, 1.0) == [2.5, 2.5]
    assert gradients(lambda v: tf.fill([2, 3], v), 2.0) == [6.0]
    assert gradients(lambda x: tf.cast(x, tf.float32), [1.0]) == [[1.0]]
    assert gradients(lambda x: tf.cast(tf.cast(x, tf.int32), tf.float64), [1.0]) == [None]
    assert gradients(lambda x: tf.math.log(x)[1], [0.0, 2.0]) == [[0.0, 0.5]]
    assert gradients(lambda x: tf.unstack(x, axis=1)[1], [[1.0, 2.0]]) == [[[0.0, 1.0]]]
    (tail,) = gradients(lambda x: tf.math.cumulative_logsumexp(x, exclusive=True, reverse=True)[0], [9.0, 1.0, 1.0])
    assert tail == pytest.approx([0.0, 0.5, 0.5], rel=1e-15)
    (variance,) = gradients(tf.math.reduce_variance, [1.0, 2.0, 6.0])
    assert variance == pytest.approx([-4 / 3, -2 / 3, 2.0])


@pytest.mark.parametrize("axis", [0, -2, 1, -1])
def test_an_error_of_concat_names_the_axis_as_it_was_given(axis: int) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=rf"axis={axis}\) .* \(2, 2\), \(3, 3\)$"):
        tf.concat([tf.zeros([2, 2]), tf.zeros([3, 3])], axis)
