"""Programs as users write them: networks, simulations, solvers, likelihoods, policies; all of them are right.

Each takes a `Draw`, which gives arrays in the dtype asked for and the number of steps for the size asked for, and
returns a function of tensors and the point. `PROGRAMS` is the table of all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import gtape as tf

__all__ = ["PROGRAMS", "Draw", "Program"]

Made = tuple[Callable[..., Any], list[Any]]


class Draw:
    """The arrays of one program, drawn from a seed.

    Parameters
    ----------
    dtype : dtype
        float64 or float32.
    seed : int
    large : bool
        Whether programs have their full length.
    """

    def __init__(self, dtype: Any, seed: int, large: bool = False) -> None:
        self.dtype, self.large = np.dtype(dtype), large
        self._rng = np.random.default_rng(seed)

    def normal(self, *shape: int, scale: float = 1.0) -> Any:
        """Normal numbers."""
        return np.asarray(scale * self._rng.normal(size=shape)).astype(self.dtype)

    def uniform(self, low: float, high: float, *shape: int) -> Any:
        """Uniform numbers."""
        return np.asarray(self._rng.uniform(low, high, shape)).astype(self.dtype)

    def array(self, values: Any) -> Any:
        """Given numbers in the dtype."""
        return np.asarray(values, self.dtype)

    def tensor(self, values: Any) -> Any:
        """A constant in the dtype."""
        return tf.constant(self.array(values))

    def eye(self, n: int) -> Any:
        """The unit matrix."""
        return tf.eye(n, dtype=self.dtype)

    def size(self, small: int, large: int) -> int:
        """A length, by the size asked for."""
        return large if self.large else small


class Program(NamedTuple):
    """One row of the table.

    Attributes
    ----------
    name : str
    build : callable
        Draw -> (function of tensors, its point).
    orders : tuple of int
        The orders of derivative that gtape has: where eigenvalues meet, functions that mix values and vectors have no
        second ones.
    undecided : str
        Why the check may say `undecided`; empty for programs that it decides.
    """

    name: str
    build: Callable[[Draw], Made]
    orders: tuple[int, ...]
    undecided: str


PROGRAMS: dict[str, Program] = {}


def _program(
    *, orders: tuple[int, ...] = (1, 2), undecided: str = ""
) -> Callable[[Callable[[Draw], Made]], Callable[[Draw], Made]]:
    def enter(build: Callable[[Draw], Made]) -> Callable[[Draw], Made]:
        PROGRAMS[build.__name__] = Program(build.__name__, build, orders, undecided)
        return build

    return enter


# ------------------------------------------------------------------------------------------------ recurrent networks


@_program()
def lstm(d: Draw) -> Made:
    xs, n = d.normal(d.size(2, 20), 2), 2

    def f(w: Any, u: Any, b: Any) -> Any:
        h, c = tf.zeros((1, n), d.dtype), tf.zeros((1, n), d.dtype)
        for x in xs:
            i, o, g, k = tf.split(x[None] @ w + h @ u + b, 4, axis=1)
            c = tf.sigmoid(i + 1) * c + tf.sigmoid(g) * tf.tanh(k)
            h = tf.sigmoid(o) * tf.tanh(c)
        return tf.reduce_sum(h * h)

    return f, [d.normal(2, 4 * n, scale=0.5), d.normal(n, 4 * n, scale=0.5), d.normal(4 * n, scale=0.1)]


@_program()
def gru(d: Draw) -> Made:
    xs, n = d.normal(d.size(2, 20), 2), 2

    def f(w: Any, u: Any) -> Any:
        h = tf.zeros((1, n), d.dtype)
        for x in xs:
            a, b = tf.split(x[None] @ w, 3, axis=1), tf.split(h @ u, 3, axis=1)
            z, r = tf.sigmoid(a[0] + b[0]), tf.sigmoid(a[1] + b[1])
            h = z * h + (1 - z) * tf.tanh(a[2] + r * b[2])
        return tf.reduce_mean(tf.square(h - 0.5))

    return f, [d.normal(2, 3 * n), d.normal(n, 3 * n)]


@_program()
def recurrence_by_scan(d: Draw) -> Made:
    xs = d.tensor(d.normal(d.size(3, 30), 2))

    def f(w: Any, h: Any) -> Any:
        hs = tf.scan(lambda h, x: tf.tanh(tf.linalg.matvec(w, h) + x), xs, h)
        return tf.reduce_sum(hs[-1])

    return f, [d.normal(2, 2, scale=0.7), d.normal(2)]


# ------------------------------------------------------------------------------------------------ attention


def _heads(x: Any, heads: int) -> Any:
    n, width = x.shape
    return tf.transpose(tf.reshape(x, [n, heads, width // heads]), [1, 0, 2])


@_program()
def causal_attention(d: Draw) -> Made:
    n = d.size(3, 12)
    mask = np.where(np.tril(np.ones((n, n))) > 0, 0.0, -np.inf).astype(d.dtype)
    x = d.normal(n, 2)

    def f(wq: Any, wk: Any, wv: Any) -> Any:
        q, k, v = x @ wq, x @ wk, x @ wv
        scores = q @ tf.transpose(k) / math.sqrt(2.0) + mask
        return tf.reduce_sum(tf.nn.softmax(scores) @ v)

    return f, [d.normal(2, 2), d.normal(2, 2), d.normal(2, 2)]


@_program()
def multi_head_attention(d: Draw) -> Made:
    n, heads, width = d.size(2, 8), 2, 4
    mask = np.where(np.tril(np.ones((n, n))) > 0, 0.0, -np.inf).astype(d.dtype)

    def f(x: Any, w: Any) -> Any:
        q, k, v = (_heads(e, heads) for e in tf.split(x @ w, 3, axis=1))
        a = tf.nn.softmax(q @ tf.transpose(k, [0, 2, 1]) / math.sqrt(width / heads) + mask) @ v
        return tf.reduce_sum(tf.square(tf.reshape(tf.transpose(a, [1, 0, 2]), [n, width])))

    return f, [d.normal(n, width, scale=0.7), d.normal(width, 3 * width, scale=0.5)]


@_program()
def masked_attention_by_where(d: Draw) -> Made:
    keep = np.array([[True, False, False], [True, True, False], [True, True, True]])

    def f(q: Any, k: Any) -> Any:
        scores = q @ tf.transpose(k)
        filled = tf.where(keep, scores, tf.constant(-np.inf, d.dtype))
        return tf.reduce_sum(tf.nn.log_softmax(filled)[:, 0])

    return f, [d.normal(3, 2), d.normal(3, 2)]


@_program()
def cross_entropy_of_logits(d: Draw) -> Made:
    labels = np.array([0, 2, 1])

    def f(x: Any, w: Any) -> Any:
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=x @ w))

    return f, [d.normal(3, 2, scale=3.0), d.normal(2, 3)]


@_program()
def label_smoothing_with_large_logits(d: Draw) -> Made:
    targets = d.tensor([[0.9, 0.05, 0.05], [0.05, 0.9, 0.05]])

    def f(z: Any) -> Any:
        return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=targets, logits=z))

    return f, [d.array([[60.0, -40.0, 0.5], [-30.0, 80.0, 2.0]])]


# ------------------------------------------------------------------------------------------------ normalisation


def _batch_norm(x: Any, gamma: Any, beta: Any) -> Any:
    mean, var = tf.nn.moments(x, [0])
    return tf.nn.batch_normalization(x, mean, var, beta, gamma, 1e-3)


@_program()
def batch_norm(d: Draw) -> Made:
    def f(x: Any, gamma: Any, beta: Any) -> Any:
        return tf.reduce_sum(tf.tanh(_batch_norm(x, gamma, beta)) ** 2)

    return f, [d.normal(4, 2), d.uniform(0.5, 1.5, 2), d.normal(2)]


@_program()
def batch_norm_of_one(d: Draw) -> Made:
    def f(x: Any, gamma: Any, beta: Any) -> Any:
        return tf.reduce_sum(tf.tanh(_batch_norm(x, gamma, beta)) ** 2)

    return f, [d.normal(1, 3), d.uniform(0.5, 1.5, 3), d.normal(3)]


@_program()
def batch_norm_of_equal_rows(d: Draw) -> Made:
    def f(x: Any, gamma: Any, beta: Any) -> Any:
        return tf.reduce_sum(tf.sin(_batch_norm(x, gamma, beta)))

    return f, [d.array([[0.1, 0.7]] * 3), d.uniform(0.5, 1.5, 2), d.normal(2)]


@_program()
def layer_norm(d: Draw) -> Made:
    def f(x: Any, gamma: Any, beta: Any) -> Any:
        mean = tf.reduce_mean(x, axis=-1, keepdims=True)
        var = tf.reduce_mean(tf.square(x - mean), axis=-1, keepdims=True)
        return tf.reduce_sum(tf.nn.gelu((x - mean) * tf.math.rsqrt(var + 1e-5) * gamma + beta))

    return f, [d.normal(2, 4), d.uniform(0.5, 1.5, 4), d.normal(4)]


@_program()
def rms_norm_and_gated_unit(d: Draw) -> Made:
    def f(x: Any, w: Any, v: Any) -> Any:
        y = x * tf.math.rsqrt(tf.reduce_mean(x * x, axis=-1, keepdims=True) + 1e-6)
        return tf.reduce_sum(tf.nn.silu(y @ w) * (y @ v))

    return f, [d.normal(2, 3), d.normal(3, 2), d.normal(3, 2)]


@_program()
def l2_normalised_embeddings(d: Draw) -> Made:
    def f(a: Any, b: Any) -> Any:
        a, b = tf.math.l2_normalize(a, axis=1), tf.math.l2_normalize(b, axis=1)
        return -tf.reduce_mean(tf.linalg.diag_part(tf.nn.log_softmax(a @ tf.transpose(b) / 0.1)))

    return f, [d.normal(3, 2), d.normal(3, 2)]


# ------------------------------------------------------------------------------------------------ simulations


@_program()
def runge_kutta_pendulum(d: Draw) -> Made:
    steps, h = d.size(20, 1000), 0.05

    def field(q: Any, p: Any, k: Any) -> Any:
        return p, -k * tf.sin(q) - 0.1 * p

    def f(q: Any, p: Any, k: Any) -> Any:
        for _ in range(steps):
            a, b = field(q, p, k)
            c, e = field(q + h / 2 * a, p + h / 2 * b, k)
            g, i = field(q + h / 2 * c, p + h / 2 * e, k)
            j, m = field(q + h * g, p + h * i, k)
            q, p = q + h / 6 * (a + 2 * c + 2 * g + j), p + h / 6 * (b + 2 * e + 2 * i + m)
        return q * q + p * p

    return f, [d.array(0.8), d.array(0.3), d.array(1.5)]


@_program()
def leapfrog_oscillator(d: Draw) -> Made:
    steps, h = d.size(20, 1000), 0.1

    def f(q: Any, p: Any, k: Any) -> Any:
        for _ in range(steps):
            p = p - h / 2 * k * q * q * q
            q = q + h * p
            p = p - h / 2 * k * q * q * q
        return p * p / 2 + k * q**4 / 4

    return f, [d.array([0.8, -0.4]), d.array([0.3, 1.0]), d.array(1.5)]


@_program()
def lorenz_system(d: Draw) -> Made:
    steps, h = d.size(10, 200), 0.01

    def f(s: Any, r: Any) -> Any:
        for _ in range(steps):
            x, y, z = s[0], s[1], s[2]
            s = s + h * tf.stack([10.0 * (y - x), x * (r - z) - y, x * y - 8.0 / 3.0 * z])
        return tf.reduce_sum(s)

    return f, [d.array([1.0, 2.0, 20.0]), d.array(28.0)]


@_program()
def implicit_euler_of_a_stiff_system(d: Draw) -> Made:
    steps = d.size(3, 50)

    def f(k: Any, y: Any) -> Any:
        a = tf.stack([tf.stack([-k[0], k[1]]), tf.stack([k[0], -k[1] - k[2]])])
        for _ in range(steps):
            y = tf.linalg.solve(d.eye(2) - 0.1 * a, y[:, None])[:, 0]
        return tf.reduce_sum(y * [1.0, 2.0])

    return f, [d.array([0.04, 30.0, 100.0]), d.array([1.0, 0.0])]


def _accelerations(x: Any, m: Any, soft: float) -> Any:
    gap = x[None] - x[:, None]
    r2 = tf.reduce_sum(gap * gap, axis=2) + soft
    return tf.einsum("ijk,ij,j->ik", gap, r2**-1.5, m)


def _bodies(d: Draw, x: Any) -> Made:
    steps = d.size(2, 50)

    def f(x: Any, v: Any, m: Any) -> Any:
        for _ in range(steps):
            v = v + 0.05 * _accelerations(x, m, 0.25)
            x = x + 0.05 * v
        return tf.reduce_sum(tf.reduce_sum(v * v, axis=1) * m) / 2

    return f, [x, d.normal(*x.shape, scale=0.1), d.uniform(0.5, 1.5, len(x))]


@_program()
def n_body(d: Draw) -> Made:
    return _bodies(d, d.normal(3, 2))


@_program()
def n_body_with_two_in_one_place(d: Draw) -> Made:
    return _bodies(d, d.array([[0.25, -0.5], [0.25, -0.5], [1.0, 0.125]]))


@_program()
def n_body_potential_in_one_place(d: Draw) -> Made:
    def f(x: Any, m: Any) -> Any:
        gap = x[None] - x[:, None]
        r = tf.sqrt(tf.reduce_sum(gap * gap, axis=2) + 0.01)
        return -tf.reduce_sum(m[None] * m[:, None] / r) / 2

    return f, [d.array([[0.3, 0.1], [0.3, 0.1], [1.0, -0.2]]), d.uniform(0.5, 1.5, 3)]


@_program()
def heat_equation(d: Draw) -> Made:
    steps = d.size(5, 30)

    def f(u: Any, k: Any) -> Any:
        for _ in range(steps):
            u = u + 0.2 * k * (tf.roll(u, 1, 0) - 2 * u + tf.roll(u, -1, 0))
        return tf.reduce_sum(u * u)

    return f, [d.normal(6), d.array(0.9)]


@_program()
def burgers_equation_upwind(d: Draw) -> Made:
    steps = d.size(3, 40)

    def f(u: Any) -> Any:
        for _ in range(steps):
            left, right = u - tf.roll(u, 1, 0), tf.roll(u, -1, 0) - u
            u = u - 0.1 * (tf.maximum(u, 0.0) * left + tf.minimum(u, 0.0) * right)
        return tf.reduce_sum(u * u)

    return f, [d.normal(5)]


@_program()
def logistic_map(d: Draw) -> Made:
    steps = d.size(30, 200 if d.dtype == np.float64 else 120)  # the derivative overflows float32

    def f(x: Any, r: Any) -> Any:
        for _ in range(steps):
            x = r * x * (1 - x)
        return x

    return f, [d.array(0.3), d.array(3.9)]


@_program()
def logistic_map_of_many(d: Draw) -> Made:
    steps = d.size(20, 100)

    def f(x: Any) -> Any:
        for _ in range(steps):
            x = 4.0 * x * (1.0 - x)
        return tf.reduce_sum(x)

    return f, [d.uniform(0.1, 0.9, 4)]


@_program()
def henon_map(d: Draw) -> Made:
    steps = d.size(25, 200 if d.dtype == np.float64 else 150)  # the derivative overflows float32

    def f(s: Any, a: Any) -> Any:
        x, y = s[0], s[1]
        for _ in range(steps):
            x, y = 1 - a * x * x + y, 0.3 * x
        return x + y

    return f, [d.array([0.1, 0.2]), d.array(1.4)]


@_program()
def tent_map(d: Draw) -> Made:
    def f(x: Any) -> Any:
        for _ in range(d.size(12, 40)):
            x = tf.where(x < 0.5, 1.9 * x, 1.9 * (1 - x))
        return x

    return f, [d.array([0.3, 0.62])]


@_program()
def standard_map(d: Draw) -> Made:
    def f(q: Any, p: Any) -> Any:
        for _ in range(d.size(15, 100)):
            p = p + 1.2 * tf.sin(q)
            q = tf.math.floormod(q + p, 2 * math.pi)
        return tf.cos(q) + p

    return f, [d.array(0.7), d.array(0.4)]


# ------------------------------------------------------------------------------------------------ solvers


@_program()
def conjugate_gradients(d: Draw) -> Made:
    m = d.normal(3, 3, scale=0.4)

    def f(w: Any, b: Any) -> Any:
        a = d.eye(3) + (m * w) @ tf.transpose(m * w)
        x, r = tf.zeros_like(b), b
        p, rr = r, tf.reduce_sum(r * r)
        for _ in range(2):
            ap = tf.linalg.matvec(a, p)
            step = rr / tf.reduce_sum(p * ap)
            x, r = x + step * p, r - step * ap
            new = tf.reduce_sum(r * r)
            p, rr = r + new / rr * p, new
        return tf.reduce_sum(x)

    return f, [d.uniform(0.5, 1.5, 3), d.normal(3)]


@_program()
def newton_square_root(d: Draw) -> Made:
    def f(a: Any) -> Any:
        x = 0.5 * (1 + a)
        for _ in range(6):
            x = 0.5 * (x + a / x)
        return x

    return f, [d.array([2.0, 0.3, 5.0])]


@_program()
def newton_kepler(d: Draw) -> Made:
    def f(m: Any, e: Any) -> Any:
        x = m
        for _ in range(6):
            x = x - (x - e * tf.sin(x) - m) / (1 - e * tf.cos(x))
        return tf.cos(x) - e

    return f, [d.array([0.4, 2.0]), d.array([0.3, 0.6])]


@_program()
def newton_while_loop(d: Draw) -> Made:
    small = 1e-3

    def f(a: Any) -> Any:
        def body(x: Any, r: Any) -> Any:
            x = x - (x * x * x - a) / (3 * x * x)
            return x, tf.abs(x * x * x - a)

        return tf.while_loop(lambda x, r: r > small, body, (1 + 0.0 * a, tf.abs(1 - a)))[0]

    return f, [d.array(3.0)]


@_program()
def implicit_layer(d: Draw) -> Made:
    """A root by Newton's method, with the derivative of the implicit function theorem."""

    @tf.custom_gradient
    def root(a: Any) -> Any:  # x + x³ = a
        x = 0.7 * a
        for _ in range(d.size(4, 12)):
            x = x - (x + x * x * x - a) / (1 + 3 * x * x)
        return x, lambda g: g / (1 + 3 * x * x)

    return lambda a: tf.reduce_sum(root(a) ** 2), [d.array([0.7, 0.4])]


@_program()
def implicit_layer_that_solves_again(d: Draw) -> Made:
    """The same root, whose gradient calls the root again, so that it has derivatives of all orders."""

    @tf.custom_gradient
    def root(a: Any) -> Any:
        x = 0.7 * a
        for _ in range(d.size(4, 12)):
            x = x - (x + x * x * x - a) / (1 + 3 * x * x)

        def back(g: Any) -> Any:
            y = root(a)
            return g / (1 + 3 * y * y)

        return x, back

    return lambda a: tf.reduce_sum(root(a) ** 2), [d.array([0.7, 0.4])]


@_program()
def implicit_layer_from_numpy(d: Draw) -> Made:
    """A root that another library finds, so that the function says that its gradient is not that of its body."""

    @tf.custom_gradient(declared="by the implicit function theorem")
    def root(a: Any) -> Any:
        v = a.numpy()
        x = np.cbrt(v)
        for _ in range(40):
            x = x - (x + x**3 - v) / (1 + 3 * x * x)
        x = tf.constant(x.astype(v.dtype))
        return x, lambda g: g / (1 + 3 * x * x)

    return lambda a: tf.reduce_sum(root(a) * d.tensor([1.0, 2.0])), [d.array([0.7, 2.5])]


@_program()
def implicit_linear_layer(d: Draw) -> Made:
    """A linear solve as a custom gradient that solves again."""

    @tf.custom_gradient
    def solve(a: Any, b: Any) -> Any:
        x = tf.linalg.solve(a, b)

        def back(g: Any) -> Any:
            u = solve(tf.transpose(a), g)
            return -u @ tf.transpose(solve(a, b)), u

        return x, back

    def f(a: Any, b: Any) -> Any:
        return tf.reduce_sum(tf.square(solve(a + 3 * d.eye(2), b)))

    return f, [d.normal(2, 2, scale=0.5), d.normal(2, 1)]


@_program()
def fixed_point_layer(d: Draw) -> Made:
    def f(w: Any, x: Any) -> Any:
        z = tf.zeros_like(x)
        for _ in range(d.size(6, 60)):
            z = tf.tanh(tf.linalg.matvec(w, z) + x)
        return tf.reduce_sum(z)

    return f, [d.normal(2, 2, scale=0.3), d.normal(2)]


@_program()
def power_iteration(d: Draw) -> Made:
    def f(m: Any) -> Any:
        a = m @ tf.transpose(m) + d.eye(3)
        v = d.tensor([1.0, 0.5, 0.25])
        for _ in range(d.size(4, 50)):
            v = tf.linalg.matvec(a, v)
            v = v / tf.norm(v)
        return tf.reduce_sum(v * tf.linalg.matvec(a, v))

    return f, [d.normal(3, 3)]


@_program()
def gradient_descent_unrolled(d: Draw) -> Made:
    x, y = d.normal(5, 2), d.normal(5)

    def f(w: Any, rate: Any) -> Any:
        for _ in range(d.size(3, 30)):
            w = w - rate * tf.linalg.matvec(tf.transpose(d.tensor(x)), tf.linalg.matvec(d.tensor(x), w) - y) / 5
        return tf.reduce_sum(tf.square(tf.linalg.matvec(d.tensor(x), w) - y))

    return f, [d.normal(2), d.array(0.1)]


@_program()
def inner_gradient_step(d: Draw) -> Made:
    """A step of meta-learning: the gradient of a loss after a step by its own gradient."""
    x, y = d.normal(4, 2), d.normal(4, 1)

    def loss(w: Any) -> Any:
        return tf.reduce_mean(tf.square(tf.tanh(x @ w) - y))

    def f(w: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(w)
            inner = loss(w)
        return loss(w - 0.1 * tape.gradient(inner, w))

    return f, [d.normal(2, 1)]


# ------------------------------------------------------------------------------------------------ state-space models


@_program()
def kalman_filter(d: Draw) -> Made:
    ys, a = d.normal(d.size(3, 30)), d.array([[1.0, 0.1], [0.0, 1.0]])

    def f(q: Any, r: Any) -> Any:
        h, x = d.tensor([[1.0, 0.0]]), tf.zeros((2, 1), d.dtype)
        p, total = d.eye(2), tf.zeros((), d.dtype)
        for y in ys:
            x, p = a @ x, a @ p @ a.T + tf.exp(q) * d.eye(2)
            s = (h @ p @ tf.transpose(h) + tf.exp(r))[0, 0]
            gain, gap = p @ tf.transpose(h) / s, y - (h @ x)[0, 0]
            x, p = x + gain * gap, p - gain @ h @ p
            total = total + tf.math.log(s) + gap * gap / s
        return total / 2

    return f, [d.array(-2.0), d.array(-1.0)]


@_program()
def hmm_forward(d: Draw) -> Made:
    seen = [0, 1, 1, 0, 2, 1][: d.size(4, 6)]

    def f(start: Any, move: Any, emit: Any) -> Any:
        start, move, emit = tf.nn.log_softmax(start), tf.nn.log_softmax(move), tf.nn.log_softmax(emit)
        alpha = start + emit[:, seen[0]]
        for o in seen[1:]:
            alpha = tf.reduce_logsumexp(alpha[:, None] + move, axis=0) + emit[:, o]
        return -tf.reduce_logsumexp(alpha)

    return f, [d.normal(2), d.normal(2, 2), d.normal(2, 3)]


@_program()
def hmm_with_forbidden_transitions(d: Draw) -> Made:
    closed = d.tensor([[0.0, 0.0, -np.inf], [-np.inf, 0.0, 0.0], [-np.inf, -np.inf, 0.0]])
    start = d.tensor([0.0, -np.inf, -np.inf])
    seen = [0, 1, 1, 0]

    def f(move: Any, emit: Any) -> Any:
        move, emit = tf.nn.log_softmax(move + closed), tf.nn.log_softmax(emit)
        alpha = start + emit[:, seen[0]]
        for o in seen[1:]:
            alpha = tf.reduce_logsumexp(alpha[:, None] + move, axis=0) + emit[:, o]
        return -tf.reduce_logsumexp(alpha)

    return f, [d.normal(3, 3), d.normal(3, 2)]


@_program()
def hmm_viterbi(d: Draw) -> Made:
    def f(move: Any, emit: Any) -> Any:
        move, emit = tf.nn.log_softmax(move), tf.nn.log_softmax(emit)
        best = emit[:, 0]
        for o in (1, 1, 0):
            best = tf.reduce_max(best[:, None] + move, axis=0) + emit[:, o]
        return tf.reduce_max(best)

    return f, [d.normal(2, 2), d.normal(2, 2)]


@_program()
def connectionist_alignment(d: Draw) -> Made:
    """The likelihood of a label sequence over all alignments, with -inf for paths that do not exist."""

    def f(logits: Any) -> Any:
        logp = tf.nn.log_softmax(logits)
        labels = np.array([0, 1, 0, 2, 0])
        alpha = tf.concat([tf.gather(logp[0], labels[:2]), tf.fill([3], tf.constant(-np.inf, d.dtype))], 0)
        none = tf.constant([-np.inf], d.dtype)
        for t in range(1, 3):
            stay, step = alpha, tf.concat([none, alpha[:-1]], 0)
            alpha = tf.math.logaddexp(stay, step) + tf.gather(logp[t], labels)
        return -tf.math.logaddexp(alpha[-1], alpha[-2])

    return f, [d.normal(3, 3)]


# ------------------------------------------------------------------------------------------------ likelihoods


@_program()
def gaussian_process_likelihood(d: Draw) -> Made:
    x, y = np.linspace(0.0, 2.0, d.size(4, 15)), d.normal(d.size(4, 15), 1)
    gaps = d.array((x[:, None] - x[None]) ** 2)

    def f(length: Any, noise: Any) -> Any:
        k = tf.exp(-gaps / (2 * tf.exp(2 * length))) + tf.exp(noise) * d.eye(len(x))
        c = tf.linalg.cholesky(k)
        z = tf.linalg.triangular_solve(c, d.tensor(y))
        return tf.reduce_sum(z * z) / 2 + tf.reduce_sum(tf.math.log(tf.linalg.diag_part(c)))

    return f, [d.array(-0.3), d.array(-2.0)]


@_program()
def multivariate_normal_likelihood(d: Draw) -> Made:
    y = d.normal(3, 2)

    def f(mean: Any, raw: Any) -> Any:
        c = tf.linalg.set_diag(tf.linalg.band_part(raw, -1, 0), tf.nn.softplus(tf.linalg.diag_part(raw)))
        z = tf.linalg.triangular_solve(c, tf.transpose(y - mean))
        return tf.reduce_mean(tf.reduce_sum(z * z, axis=0)) / 2 + tf.reduce_sum(tf.math.log(tf.linalg.diag_part(c)))

    return f, [d.normal(2), d.normal(2, 2)]


@_program()
def log_determinant(d: Draw) -> Made:
    def f(m: Any) -> Any:
        return tf.linalg.logdet(m @ tf.transpose(m) + d.eye(3)) + tf.linalg.slogdet(m + 3 * d.eye(3))[1]

    return f, [d.normal(3, 3)]


@_program()
def mixture_density(d: Draw) -> Made:
    y = d.normal(4, 1, scale=2.0)

    def f(logits: Any, means: Any, scales: Any) -> Any:
        z = (y - means) * tf.exp(-scales)
        parts = tf.nn.log_softmax(logits) - z * z / 2 - scales - 0.5 * math.log(2 * math.pi)
        return -tf.reduce_mean(tf.reduce_logsumexp(parts, axis=1))

    return f, [d.normal(3), d.normal(3), d.normal(3, scale=0.3)]


@_program()
def mixture_with_a_component_far_away(d: Draw) -> Made:
    def f(means: Any) -> Any:
        parts = -tf.square(d.tensor([[0.1], [0.4]]) - means) / 2
        return -tf.reduce_sum(tf.reduce_logsumexp(parts, axis=1))

    return f, [d.array([0.0, 30.0])]


@_program()
def variational_autoencoder(d: Draw) -> Made:
    x, noise = d.uniform(0.0, 1.0, 2, 3), d.normal(2, 1)

    def f(w: Any, v: Any) -> Any:
        mean, scale = tf.split(x @ w, 2, axis=1)
        z = mean + tf.exp(scale / 2) * noise
        fit = tf.nn.sigmoid_cross_entropy_with_logits(labels=d.tensor(x), logits=z @ v)
        return tf.reduce_sum(fit) - tf.reduce_sum(1 + scale - mean * mean - tf.exp(scale)) / 2

    return f, [d.normal(3, 2), d.normal(1, 3)]


@_program()
def logistic_regression_with_penalty(d: Draw) -> Made:
    x, y = d.normal(6, 2), d.array([0, 1, 1, 0, 1, 0])

    def f(w: Any, b: Any) -> Any:
        z = tf.linalg.matvec(d.tensor(x), w) + b
        return tf.reduce_mean(tf.nn.softplus(z) - y * z) + 0.1 * tf.reduce_sum(w * w) + 0.01 * tf.reduce_sum(tf.abs(w))

    return f, [d.normal(2), d.array(0.1)]


@_program()
def poisson_and_gamma_regression(d: Draw) -> Made:
    x, y = d.normal(4, 2), d.array([0.0, 3.0, 1.0, 2.0])

    def f(w: Any, shape: Any) -> Any:
        rate = tf.linalg.matvec(d.tensor(x), w)
        poisson = tf.reduce_mean(tf.exp(rate) - y * rate + tf.math.lgamma(d.tensor(y) + 1))
        return poisson + tf.math.lgamma(shape) - shape * tf.math.log(shape) + (1 - shape) * math.log(1.7)

    return f, [d.normal(2), d.array(2.3)]


@_program()
def dirichlet_likelihood(d: Draw) -> Made:
    p = d.array([0.2, 0.3, 0.5])

    def f(logits: Any) -> Any:
        a = tf.nn.softplus(logits) + 0.1
        return tf.math.lbeta(a) - tf.reduce_sum((a - 1) * np.log(p))

    return f, [d.normal(3)]


@_program()
def student_t_likelihood(d: Draw) -> Made:
    y = d.normal(5, scale=3.0)

    def f(mean: Any, scale: Any, nu: Any) -> Any:
        z = (y - mean) / scale
        per = (
            tf.math.lgamma((nu + 1) / 2) - tf.math.lgamma(nu / 2) - 0.5 * tf.math.log(nu * math.pi) - tf.math.log(scale)
        )
        return -tf.reduce_sum(per - (nu + 1) / 2 * tf.math.log1p(z * z / nu))

    return f, [d.array(0.3), d.array(1.4), d.array(4.5)]


@_program()
def normalizing_flow(d: Draw) -> Made:
    x = d.normal(3, 2)

    def f(u: Any, w: Any, b: Any) -> Any:
        a = tf.linalg.matvec(d.tensor(x), w) + b
        z = x + u * tf.tanh(a)[:, None]
        slope = 1 + (1 - tf.tanh(a) ** 2) * tf.reduce_sum(u * w)
        return tf.reduce_sum(z * z) / 2 - tf.reduce_sum(tf.math.log(tf.abs(slope)))

    return f, [d.normal(2, scale=0.4), d.normal(2, scale=0.4), d.array(0.2)]


@_program()
def entropy_and_divergence_with_zeros(d: Draw) -> Made:
    p = d.array([0.5, 0.5, 0.0])

    def f(z: Any) -> Any:
        q = tf.nn.softmax(z)
        return tf.reduce_sum(tf.math.xlogy(d.tensor(p), p / q)) - tf.reduce_sum(tf.math.xlogy(q, q))

    return f, [d.normal(3)]


# ------------------------------------------------------------------------------------------------ finance


def _normal_cdf(x: Any) -> Any:
    return tf.math.erfc(-x / math.sqrt(2.0)) / 2


@_program()
def black_scholes_with_greeks(d: Draw) -> Made:
    def f(s: Any, vol: Any, t: Any, r: Any) -> Any:
        k = d.array([90.0, 100.0, 120.0])
        root = vol * tf.sqrt(t)
        d1 = (tf.math.log(s / k) + (r + vol * vol / 2) * t) / root
        return tf.reduce_sum(s * _normal_cdf(d1) - k * tf.exp(-r * t) * _normal_cdf(d1 - root))

    return f, [d.array(100.0), d.array(0.2), d.array(0.5), d.array(0.03)]


@_program()
def monte_carlo_option(d: Draw) -> Made:
    noise = d.normal(6)

    def f(s: Any, vol: Any) -> Any:
        final = s * tf.exp(-vol * vol / 2 + vol * noise)
        return tf.reduce_mean(tf.nn.relu(final - 100.0))

    return f, [d.array(101.0), d.array(0.2)]


@_program()
def portfolio_optimum(d: Draw) -> Made:
    returns = d.normal(6, 3, scale=0.02)

    def f(w: Any) -> Any:
        w = tf.nn.softmax(w)
        r = tf.linalg.matvec(d.tensor(returns), w)
        return tf.reduce_mean(r) / tf.math.reduce_std(r)

    return f, [d.normal(3)]


# ------------------------------------------------------------------------------------------------ networks


@_program()
def physics_informed_network(d: Draw) -> Made:
    xs = d.tensor(np.linspace(0.1, 0.9, d.size(2, 10))[:, None])

    def f(w: Any, b: Any, v: Any) -> Any:
        def u(x: Any) -> Any:
            return x * (1 - x) * (tf.tanh(x @ w + b) @ v)

        with tf.GradientTape() as outer:
            outer.watch(xs)
            with tf.GradientTape() as inner:
                inner.watch(xs)
                y = u(xs)
            first = inner.gradient(y, xs)
        second = outer.gradient(first, xs)
        return tf.reduce_mean(tf.square(second + math.pi**2 * tf.sin(math.pi * xs)))

    return f, [d.normal(1, 2), d.normal(2), d.normal(2, 1)]


@_program()
def embedding_network(d: Draw) -> Made:
    tokens = np.array([[0, 2, 2], [1, 2, 0]])

    def f(table: Any, w: Any) -> Any:
        e = tf.reduce_mean(tf.nn.embedding_lookup(table, tokens), axis=1)
        return tf.reduce_sum(tf.nn.log_softmax(e @ w)[:, 0])

    return f, [d.normal(4, 2), d.normal(2, 2)]


@_program()
def dropout_network(d: Draw) -> Made:
    x = d.normal(3, 2)

    def f(w: Any, v: Any) -> Any:
        tf.random.set_seed(5)  # the same units each time
        h = tf.nn.dropout(tf.nn.elu(x @ w), 0.4, seed=7)
        return tf.reduce_mean(tf.square(h @ v))

    return f, [d.normal(2, 3), d.normal(3, 1)]


@_program()
def dropout_by_a_stateless_mask(d: Draw) -> Made:
    x = d.normal(3, 2)

    def f(w: Any, v: Any) -> Any:
        keep = tf.random.stateless_uniform([3, 3], [1, 2], dtype=d.dtype) < 0.6
        h = tf.where(keep, tf.nn.elu(x @ w) / 0.6, tf.zeros((), d.dtype))
        return tf.reduce_mean(tf.square(h @ v))

    return f, [d.normal(2, 3), d.normal(3, 1)]


@_program()
def residual_network(d: Draw) -> Made:
    def f(x: Any, w: Any) -> Any:
        for i in range(d.size(3, 12)):
            x = x + tf.nn.softplus(x @ w[i % 3]) - 0.5
        return tf.reduce_mean(x * x)

    return f, [d.normal(2, 2), d.normal(3, 2, 2, scale=0.3)]


@_program()
def relu_network(d: Draw) -> Made:
    x = d.normal(4, 2)

    def f(w: Any, b: Any, v: Any) -> Any:
        return tf.reduce_sum(tf.tanh(tf.nn.relu(x @ w + b) @ v))

    return f, [d.normal(2, 3), d.normal(3), d.normal(3, 1)]


@_program()
def relu_network_with_zero_bias(d: Draw) -> Made:
    """A row of zeros meets the kink of relu in each unit."""
    x = d.array([[0.0, 0.0], [0.5, -1.0]])

    def f(w: Any, v: Any) -> Any:
        return tf.reduce_sum(tf.nn.relu(x @ w + tf.zeros(3, d.dtype)) @ v)

    return f, [d.normal(2, 3), d.normal(3, 1)]


@_program()
def convolutional_network(d: Draw) -> Made:
    x = d.normal(1, 4, 4, 1)

    def f(k: Any, w: Any) -> Any:
        h = tf.nn.gelu(tf.nn.conv2d(x, k, 1, "SAME"))
        h = tf.nn.avg_pool2d(h, 2, 2, "VALID")
        return tf.reduce_sum(tf.nn.softmax(tf.reshape(h, [1, -1]) @ w)[:, 0])

    return f, [d.normal(3, 3, 1, 1), d.normal(4, 2)]


@_program()
def convolutional_network_with_max_pool(d: Draw) -> Made:
    def f(x: Any, k: Any) -> Any:
        return tf.reduce_sum(tf.square(tf.nn.max_pool2d(tf.nn.conv2d(x, k, 1, "VALID"), 2, 1, "VALID")))

    return f, [d.normal(1, 4, 4, 1), d.normal(2, 2, 1, 1)]


@_program()
def depthwise_and_transposed_convolution(d: Draw) -> Made:
    def f(x: Any, k: Any, t: Any) -> Any:
        h = tf.nn.depthwise_conv2d(x, k, [1, 1, 1, 1], "SAME")
        return tf.reduce_sum(tf.tanh(tf.nn.conv2d_transpose(h, t, [1, 6, 6, 1], 2, "SAME")))

    return f, [d.normal(1, 3, 3, 2, scale=0.5), d.normal(2, 2, 2, 1, scale=0.5), d.normal(2, 2, 1, 2, scale=0.5)]


@_program()
def graph_network(d: Draw) -> Made:
    a, b = np.array([0, 1, 2, 2]), np.array([1, 2, 0, 1])

    def f(x: Any, w: Any) -> Any:
        for _ in range(2):
            sent = tf.nn.tanh(tf.gather(x, a) @ w)
            x = x + tf.math.unsorted_segment_mean(sent, b, 3)
        return tf.reduce_sum(tf.square(x))

    return f, [d.normal(3, 2), d.normal(2, 2)]


@_program()
def mixture_of_experts(d: Draw) -> Made:
    x = d.normal(3, 2)

    def f(gate: Any, experts: Any) -> Any:
        scores = x @ gate
        top, chosen = tf.math.top_k(scores, 2)
        weights = tf.nn.softmax(top)
        outs = tf.einsum("nd,edk->nek", d.tensor(x), experts)
        return tf.reduce_sum(tf.square(tf.reduce_sum(tf.gather(outs, chosen, batch_dims=1) * weights[..., None], 1)))

    return f, [d.normal(2, 3), d.normal(3, 2, 1)]


@_program()
def keras_model(d: Draw) -> Made:
    x, y = d.normal(4, 2), d.normal(4, 1)

    def f(w: Any, b: Any, v: Any) -> Any:
        return tf.reduce_mean(tf.losses.huber(d.tensor(y), tf.nn.selu(x @ w + b) @ v))

    return f, [d.normal(2, 3), d.normal(3), d.normal(3, 1)]


# ------------------------------------------------------------------------------------------------ policies and games


@_program()
def softmax_policy(d: Draw) -> Made:
    states, actions, gains = d.normal(3, 2), np.array([0, 1, 2]), d.array([1.0, -0.5, 2.0])

    def f(w: Any) -> Any:
        logp = tf.nn.log_softmax(states @ w)
        taken = tf.gather(logp, actions, batch_dims=1)
        return -tf.reduce_mean(taken * gains) + 0.01 * tf.reduce_sum(tf.exp(logp) * logp)

    return f, [d.normal(2, 3)]


@_program()
def clipped_policy_ratio(d: Draw) -> Made:
    old, gains = d.array([-0.7, -1.2, -0.3]), d.array([1.0, -2.0, 0.5])

    def f(new: Any) -> Any:
        ratio = tf.exp(new - old)
        return -tf.reduce_mean(tf.minimum(ratio * gains, tf.clip_by_value(ratio, 0.8, 1.2) * gains))

    return f, [d.array([-0.6, -0.8, -0.35])]


@_program()
def gaussian_policy(d: Draw) -> Made:
    def f(mean: Any, scale: Any) -> Any:
        a = d.tensor([0.3, -0.2])
        u = tf.math.atanh(a)
        logp = -tf.square((u - mean) / tf.exp(scale)) / 2 - scale - tf.math.log1p(-a * a)
        return tf.reduce_sum(logp)

    return f, [d.normal(2), d.normal(2, scale=0.3)]


@_program()
def value_iteration(d: Draw) -> Made:
    moves = d.array([[[0.7, 0.3], [0.2, 0.8]], [[0.5, 0.5], [0.9, 0.1]]])

    def f(gain: Any) -> Any:
        v = tf.zeros(2, d.dtype)
        for _ in range(d.size(4, 40)):
            v = tf.reduce_logsumexp(5 * (gain + 0.9 * tf.einsum("aij,j->ia", d.tensor(moves), v)), axis=1) / 5
        return tf.reduce_sum(v)

    return f, [d.normal(2, 2)]


# ------------------------------------------------------------------------------------------------ geometry


@_program()
def pairwise_distances_with_themselves(d: Draw) -> Made:
    """The norm of a point's distance from itself is a kink."""

    def f(x: Any) -> Any:
        return tf.reduce_sum(tf.norm(x[:, None] - x[None], axis=2))

    return f, [d.normal(3, 2)]


@_program()
def pairwise_squared_distances(d: Draw) -> Made:
    def f(x: Any) -> Any:
        squares = tf.reduce_sum(x * x, axis=1)
        gaps = squares[:, None] + squares[None] - 2 * x @ tf.transpose(x)
        return tf.reduce_sum(tf.exp(-gaps / 2))

    return f, [d.normal(3, 2)]


@_program()
def safe_distances(d: Draw) -> Made:
    def f(x: Any) -> Any:
        r2 = tf.reduce_sum(tf.square(x[:, None] - x[None]), axis=2)
        same = tf.cast(tf.eye(3), tf.bool)
        r = tf.where(same, tf.zeros_like(r2), tf.sqrt(tf.where(same, tf.ones_like(r2), r2)))
        return tf.reduce_sum(tf.exp(-r))

    return f, [d.normal(3, 2)]


@_program()
def lennard_jones(d: Draw) -> Made:
    pairs = np.array([[0, 1], [0, 2], [1, 2]])

    def f(x: Any) -> Any:
        gap = tf.gather(x, pairs[:, 0]) - tf.gather(x, pairs[:, 1])
        s = 1 / tf.reduce_sum(gap * gap, axis=1) ** 3
        return 4 * tf.reduce_sum(s * s - s)

    return f, [d.array([[0.0, 0.0, 0.1], [1.1, 0.0, 0.0], [0.5, 1.0, 0.0]])]


@_program()
def quaternion_rotation(d: Draw) -> Made:
    points = d.normal(3, 3)

    def f(q: Any) -> Any:
        q = q / tf.norm(q)
        w, x, y, z = tf.unstack(q)
        r = tf.reshape(
            tf.stack([
                1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
                2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
                2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
            ]), [3, 3],
        )  # fmt: skip
        return tf.reduce_sum(tf.square(points @ tf.transpose(r) - points[::-1]))

    return f, [d.normal(4)]


@_program()
def rotation_by_exponential(d: Draw) -> Made:
    def f(w: Any) -> Any:
        o = tf.zeros((), d.dtype)
        k = tf.reshape(tf.stack([o, -w[2], w[1], w[2], o, -w[0], -w[1], w[0], o]), [3, 3])
        return tf.reduce_sum(tf.linalg.expm(k) * d.array(np.arange(9.0).reshape(3, 3)))

    return f, [d.array([0.2, -0.4, 0.7])]


@_program()
def camera_projection(d: Draw) -> Made:
    seen = d.normal(3, 2)

    def f(points: Any, t: Any, focal: Any) -> Any:
        p = points + t
        return tf.reduce_sum(tf.square(focal * p[:, :2] / p[:, 2:] - seen))

    return f, [d.normal(3, 3), d.array([0.1, 0.2, 5.0]), d.array(1.3)]


@_program()
def robot_arm(d: Draw) -> Made:
    def f(angles: Any) -> Any:
        total = tf.cumsum(angles)
        at = tf.stack([tf.reduce_sum(tf.cos(total)), tf.reduce_sum(tf.sin(total))])
        return tf.norm(at - d.array([1.0, 1.5]))

    return f, [d.array([0.3, 0.5, -0.2])]


# ------------------------------------------------------------------------------------------------ interpolation


def _bilinear(image: Any, p: Any) -> Any:
    h, w = image.shape
    corner = tf.floor(tf.stop_gradient(p))
    frac = p - corner
    r, c = tf.cast(corner[:, 0], tf.int32), tf.cast(corner[:, 1], tf.int32)

    def at(i: Any, j: Any) -> Any:
        return tf.gather_nd(image, tf.stack([tf.minimum(i, h - 1), tf.minimum(j, w - 1)], axis=1))

    top = at(r, c) * (1 - frac[:, 1]) + at(r, c + 1) * frac[:, 1]
    low = at(r + 1, c) * (1 - frac[:, 1]) + at(r + 1, c + 1) * frac[:, 1]
    return tf.reduce_sum(tf.square(top * (1 - frac[:, 0]) + low * frac[:, 0]))


@_program()
def bilinear_lookup(d: Draw) -> Made:
    return _bilinear, [d.normal(3, 3), d.array([[0.3, 1.6], [1.2, 0.4]])]


@_program()
def bilinear_lookup_on_the_border(d: Draw) -> Made:
    """Points on grid lines, on the last row and on the last corner: the lookup has a kink there."""
    return _bilinear, [d.normal(3, 3), d.array([[0.0, 1.5], [1.0, 1.0], [2.0, 0.5], [2.0, 2.0]])]


@_program()
def bilinear_lookup_without_clipping(d: Draw) -> Made:
    """The corner by a cast alone: on a grid line the other side of the floor looks up beyond the image."""

    def f(image: Any, p: Any) -> Any:
        r = tf.cast(tf.floor(p), tf.int32)
        frac = p - tf.floor(p)
        return tf.reduce_sum(tf.gather(image, r) * (1 - frac) + tf.gather(image, r + 1) * frac)

    return f, [d.normal(3), d.array([0.0, 0.5])]


@_program()
def cubic_spline(d: Draw) -> Made:
    """A natural spline: a tridiagonal system, and a piece looked up by its place."""
    knots = np.arange(5.0)

    def f(y: Any, x: Any) -> Any:
        right = 6 * (y[2:] - 2 * y[1:-1] + y[:-2])
        diagonals = tf.stack([d.tensor([1.0, 1.0, 0.0]), d.tensor([4.0] * 3), d.tensor([0.0, 1.0, 1.0])])
        inner = tf.linalg.tridiagonal_solve(diagonals, right[:, None])[:, 0]
        m = tf.pad(inner, [[1, 1]])
        i = tf.searchsorted(d.tensor(knots), x, side="right") - 1
        t = x - tf.cast(i, d.dtype)
        a, b = tf.gather(m, i), tf.gather(m, i + 1)
        p, q = tf.gather(y, i), tf.gather(y, i + 1)
        return tf.reduce_sum(a * (1 - t) ** 3 / 6 + b * t**3 / 6 + (p - a / 6) * (1 - t) + (q - b / 6) * t)

    return f, [d.normal(5), d.array([0.4, 2.7])]


@_program()
def floor_of_a_sum_of_probabilities(d: Draw) -> Made:
    """Exactly 1 or a hair beside it: floor of a softmax's sum."""

    def f(z: Any) -> Any:
        p = tf.nn.softmax(z)
        return tf.reduce_sum(p * p) * (1 + tf.floor(tf.reduce_sum(p)))

    return f, [d.array([0.3, -0.7, 1.1])]


@_program()
def histogram_by_cumulative_sums(d: Draw) -> Made:
    def f(z: Any) -> Any:
        p = tf.nn.softmax(z)
        c = tf.cumsum(p)
        return tf.reduce_sum(tf.gather(z, tf.searchsorted(c, d.tensor([0.2, 0.9]))) * 2)

    return f, [d.normal(4)]


@_program()
def quantile_by_sort(d: Draw) -> Made:
    def f(x: Any) -> Any:
        s = tf.sort(x)
        return 0.25 * s[1] + 0.75 * s[2] + tf.reduce_sum(s * s)

    return f, [d.normal(5)]


# ------------------------------------------------------------------------------------------------ transport


@_program()
def sinkhorn(d: Draw) -> Made:
    def f(cost: Any) -> Any:
        u, v, a = tf.zeros(3, d.dtype), tf.zeros(3, d.dtype), math.log(1 / 3)
        for _ in range(d.size(3, 50)):
            u = 0.3 * (a - tf.reduce_logsumexp((v[None] - cost) / 0.3, axis=1))
            v = 0.3 * (a - tf.reduce_logsumexp((u[:, None] - cost) / 0.3, axis=0))
        return tf.reduce_sum(tf.exp((u[:, None] + v[None] - cost) / 0.3) * cost)

    return f, [d.uniform(0.0, 1.0, 3, 3)]


@_program()
def sinkhorn_in_probabilities(d: Draw) -> Made:
    def f(x: Any, y: Any) -> Any:
        cost = tf.square(x[:, None] - y[None])
        k, u = tf.exp(-cost / 0.2), tf.ones(3, d.dtype)
        for _ in range(d.size(3, 50)):
            v = 1 / (3 * tf.linalg.matvec(tf.transpose(k), u))
            u = 1 / (3 * tf.linalg.matvec(k, v))
        return tf.reduce_sum(u[:, None] * k * v[None] * cost)

    return f, [d.uniform(0.0, 1.0, 3), d.uniform(0.0, 1.0, 3)]


# ------------------------------------------------------------------------------------------------ eigenvalues


def _symmetric(a: Any) -> Any:
    return (a + tf.linalg.matrix_transpose(a)) / 2


@_program()
def sum_of_logs_of_eigenvalues(d: Draw) -> Made:
    def f(m: Any) -> Any:
        return tf.reduce_sum(tf.math.log(tf.linalg.eigvalsh(_symmetric(m))))

    m = d.normal(3, 3, scale=0.3)
    return f, [m + m.T + 3 * np.eye(3, dtype=d.dtype)]


@_program(orders=(1,))
def sum_of_logs_of_equal_eigenvalues(d: Draw) -> Made:
    def f(m: Any) -> Any:
        return tf.reduce_sum(tf.math.log(tf.linalg.eigvalsh(_symmetric(m))))

    return f, [d.array(np.diag([2.0, 2.0, 3.0]))]


@_program(orders=(1,))
def sum_of_logs_of_nearly_equal_eigenvalues(d: Draw) -> Made:
    def f(m: Any) -> Any:
        return tf.reduce_sum(tf.math.log(tf.linalg.eigvalsh(_symmetric(m))))

    return f, [d.array(np.diag([2.0, 2.0 + 1e-14, 3.0]))]


def _projector(d: Draw, m: Any) -> Any:
    _, v = tf.linalg.eigh(_symmetric(m))
    w = v[:, :2]
    return tf.reduce_sum((w @ tf.transpose(w)) * d.array(np.arange(9.0).reshape(3, 3)))


@_program()
def eigenspace_projector(d: Draw) -> Made:
    m = d.normal(3, 3)
    return lambda m: _projector(d, m), [m + m.T]


@_program()
def eigenspace_projector_at_equal_eigenvalues(d: Draw) -> Made:
    return lambda m: _projector(d, m), [d.array(np.diag([1.0, 1.0, 3.0]))]


@_program()
def eigenspace_projector_at_nearly_equal_eigenvalues(d: Draw) -> Made:
    return lambda m: _projector(d, m), [d.array(np.diag([1.0, 1.0 + 1e-14, 3.0]))]


def _reconstruction(d: Draw, m: Any) -> Any:
    e, v = tf.linalg.eigh(_symmetric(m))
    return tf.reduce_sum(tf.square((v * e) @ tf.transpose(v) - d.array(np.arange(9.0).reshape(3, 3) / 9)))


@_program()
def eigen_reconstruction(d: Draw) -> Made:
    m = d.normal(3, 3)
    return lambda m: _reconstruction(d, m), [m + m.T]


@_program(orders=(1,))
def eigen_reconstruction_error_at_equal_eigenvalues(d: Draw) -> Made:
    def f(m: Any) -> Any:
        e, v = tf.linalg.eigh(_symmetric(m))
        return tf.reduce_sum(tf.square((v * e) @ tf.transpose(v) - m))

    return f, [d.array(np.diag([2.0, 2.0, 1.0]))]


@_program()
def matrix_square_root_by_eigenvalues(d: Draw) -> Made:
    def f(m: Any) -> Any:
        e, v = tf.linalg.eigh(m @ tf.transpose(m) + d.eye(2))
        return tf.reduce_sum((v * tf.sqrt(e)) @ tf.transpose(v))

    return f, [d.normal(2, 2)]


@_program()
def low_rank_by_singular_values(d: Draw) -> Made:
    def f(m: Any) -> Any:
        s, u, v = tf.linalg.svd(m)
        low = (u[:, :1] * s[:1]) @ tf.transpose(v[:, :1])
        return tf.reduce_sum(tf.square(m - low))

    return f, [d.normal(3, 2)]


@_program()
def nuclear_norm(d: Draw) -> Made:
    def f(m: Any) -> Any:
        return tf.reduce_sum(tf.linalg.svd(m, compute_uv=False))

    return f, [d.normal(3, 2)]


@_program()
def least_squares(d: Draw) -> Made:
    def f(a: Any, b: Any) -> Any:
        return tf.reduce_sum(tf.square(tf.linalg.lstsq(a, b, fast=False)))

    return f, [d.normal(4, 2), d.normal(4, 1)]


@_program()
def orthogonal_factor(d: Draw) -> Made:
    def f(a: Any) -> Any:
        q, r = tf.linalg.qr(a)
        return tf.reduce_sum(q[:, 0] * tf.linalg.matvec(q, r[:, 1])) + tf.reduce_sum(r * r)

    return f, [d.normal(3, 2)]


# ------------------------------------------------------------------------------------------------ signals, physics


@_program()
def fourier_features(d: Draw) -> Made:
    t = np.linspace(0.0, 1.0, 5)

    def f(w: Any, phase: Any) -> Any:
        return tf.reduce_sum(tf.square(tf.reduce_sum(tf.sin(w * d.tensor(t)[:, None] * 2 * math.pi + phase), axis=1)))

    return f, [d.array([1.0, 2.5]), d.normal(2)]


@_program()
def infinite_impulse_response(d: Draw) -> Made:
    xs = d.normal(d.size(6, 60))

    def f(a: Any, b: Any) -> Any:
        y1 = y2 = tf.zeros((), d.dtype)
        total = tf.zeros((), d.dtype)
        for x in xs:
            y1, y2 = b * x - a[0] * y1 - a[1] * y2, y1
            total = total + y1 * y1
        return total

    return f, [d.array([-0.6, 0.2]), d.array(0.7)]


@_program()
def optical_thin_film(d: Draw) -> Made:
    """The reflectance of a film, with complex numbers inside."""

    def f(n: Any, thickness: Any) -> Any:
        k = 2 * math.pi * n * thickness / 0.55
        r1, r2 = (1 - n) / (1 + n), (n - 1.5) / (n + 1.5)
        phase = tf.exp(tf.complex(tf.zeros_like(k), 2 * k))
        zero = tf.zeros_like(r1)
        a, b = tf.complex(r1, zero), tf.complex(r2, zero)
        r = (a + b * phase) / (1 + a * b * phase)
        return tf.square(tf.math.real(r)) + tf.square(tf.math.imag(r))

    return f, [d.array(1.38), d.array(0.12)]


@_program()
def ideal_and_real_gas(d: Draw) -> Made:
    def f(t: Any, v: Any) -> Any:
        p = 8.314 * t / (v - 3.2e-5) - 0.1382 / (v * v)
        return p * v / (8.314 * t)

    return f, [d.array(300.0), d.array(0.024)]


@_program()
def kinetic_rates(d: Draw) -> Made:
    def f(log_a: Any, energy: Any) -> Any:
        k = tf.exp(log_a - energy / (8.314 * d.array([300.0, 400.0])))
        return tf.reduce_sum(1 - tf.exp(-k * 0.1))

    return f, [d.array(20.0), d.array(50000.0)]


@_program()
def bessel_beam(d: Draw) -> Made:
    def f(r: Any, k: Any) -> Any:
        return tf.reduce_sum(tf.math.bessel_i0e(k * r) * tf.exp(-r * r))

    return f, [d.array([0.0, 0.5, 2.0]), d.array(1.7)]


@_program()
def polynomial_fit_at_zero(d: Draw) -> Made:
    """Powers of a point that holds 0."""

    def f(x: Any, c: Any) -> Any:
        powers = x[:, None] ** d.tensor([0.0, 1.0, 2.0, 3.0])
        return tf.reduce_sum(tf.linalg.matvec(powers, c) ** 2)

    return f, [d.array([0.0, 0.5, -1.0]), d.normal(4)]


@_program()
def power_of_a_vanishing_difference(d: Draw) -> Made:
    """A power with a float exponent of a ball around 0, where two sums agree exactly."""

    def f(x: Any) -> Any:
        gap = tf.reduce_sum(x) - (x[0] + x[1] + x[2])
        return gap**2.0 + gap**3.0 + tf.reduce_sum(x * x)

    return f, [d.array([0.5, 0.25, 2.0])]


@_program()
def quadrature(d: Draw) -> Made:
    nodes, weights = np.polynomial.legendre.leggauss(d.size(5, 30))

    def f(a: Any, b: Any) -> Any:
        x = (b - a) / 2 * d.tensor(nodes) + (a + b) / 2
        return (b - a) / 2 * tf.reduce_sum(tf.exp(-x * x) * tf.cos(3 * x) * d.array(weights))

    return f, [d.array(-0.5), d.array(1.5)]


@_program()
def softmin_path(d: Draw) -> Made:
    """Dynamic time warping with soft minima and -inf for cells outside the table."""

    def f(a: Any, b: Any) -> Any:
        cost = tf.square(a[:, None] - b[None])
        none = tf.constant(-np.inf, d.dtype)
        rows = {(0, 0): tf.zeros((), d.dtype)}
        for i in range(1, 4):
            for j in range(1, 4):
                before = tf.stack([rows.get(k, none) for k in ((i - 1, j), (i, j - 1), (i - 1, j - 1))])
                rows[i, j] = tf.reduce_logsumexp(before) - cost[i - 1, j - 1]
        return -rows[3, 3]

    return f, [d.normal(3), d.normal(3)]


@_program()
def guarded_logarithm(d: Draw) -> Made:
    def f(x: Any) -> Any:
        safe = tf.where(x > 0, x, tf.ones_like(x))
        return tf.reduce_sum(tf.where(x > 0, tf.math.log(safe) * x, tf.zeros_like(x)))

    return f, [d.array([0.0, 0.5, 2.0])]


@_program()
def root_of_a_small_number(d: Draw) -> Made:
    """Innocent roots beside an op whose gradient floats cannot hold."""

    def f(x: Any) -> Any:
        return tf.reduce_sum(tf.sqrt(x + 0.001) * tf.exp(-x))

    return f, [d.array([0.0, 1.0])]
