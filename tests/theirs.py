"""Ops of somebody else: kernel, rules, accuracy and mirror in one place."""

import numpy as np

from gtape import declare


# Two arguments and a branch.
def _huber(x, d):
    a = np.abs(x)
    return np.where(a <= d, x * x / 2, d * (a - d / 2))


def _huber_mirror(x, d):
    import sympy as sp

    return sp.Piecewise((x**2 / 2, sp.Abs(x) <= d), (d * (sp.Abs(x) - d / 2), True))


huber_of_theirs = declare.elementwise(
    "huber_of_theirs",
    _huber,
    (
        lambda xp, y, x, d: xp.where(xp.less_equal(xp.abs(x), d), x, d * xp.sign(x)),
        lambda xp, y, x, d: xp.where(xp.less_equal(xp.abs(x), d), 0 * x, xp.abs(x) - d),
    ),
    arguments=("x", "d"),
    domain=declare.Domain(declare.ANY_REAL, declare.Interval(0.125, 64.0)),
    special=(1.0, 3.0),
    ulps=2.0,
    limit=4500.0,
)
declare.mirror(huber_of_theirs, _huber_mirror)


# A reduction with parameters.
def _kept(xp, g, x, axis, keepdims):
    if keepdims:
        return g
    sides = tuple(x.shape)
    return xp.reshape(g, shape=tuple(1 if i == axis % len(sides) else n for i, n in enumerate(sides)))


squares_of_theirs = declare.primitive(
    "squares_of_theirs",
    lambda x, *, axis, keepdims: np.add.reduce(x * x, axis=axis, keepdims=keepdims),
    (lambda xp, g, y, x, *, axis, keepdims: 2 * x * _kept(xp, g, x, axis, keepdims),),
    (lambda xp, t, y, x, *, axis, keepdims: 2 * xp.sum(x * t, axis=(axis,), keepdims=keepdims),),
    reads=((0,),),
    params=("axis", "keepdims"),
    rounding=declare.growing(1),
    samples=((((3,),), {"axis": 0, "keepdims": False}), (((2, 3),), {"axis": -1, "keepdims": True})),
)
declare.mirror(squares_of_theirs, lambda W, x, *, axis, keepdims: (x * x).sum(axis=axis, keepdims=keepdims))


# A linear map, whose terms are subtracted.
def _padded(xp, g, x, left, right):
    return xp.pad(g, paddings=((0, 0),) * (len(tuple(x.shape)) - 1) + ((left, right),), value=0)


bends_of_theirs = declare.linear(
    "bends_of_theirs",
    lambda x: x[..., 2:] - 2 * x[..., 1:-1] + x[..., :-2],
    lambda xp, g, x: _padded(xp, g, x, 2, 0) - 2 * _padded(xp, g, x, 1, 1) + _padded(xp, g, x, 0, 2),
    rounding=declare.sums(lambda x: 3 * (abs(x[..., 2:]) + 2 * abs(x[..., 1:-1]) + abs(x[..., :-2])), signed=True),
    samples=((((5,),), {}), (((2, 4),), {})),
)
declare.mirror(bends_of_theirs, lambda W, x: x[..., 2:] - 2 * x[..., 1:-1] + x[..., :-2])


# Defined by equations: x = r u, with u of length 1.
def _dot(xp, a, b):
    return xp.sum(a * b, axis=(-1,), keepdims=True)


def _polar(x):
    r = np.sqrt(np.sum(x * x, axis=-1, keepdims=True))
    return r, x / r


def _pull(xp, g, y, x):
    (gr, gu), (r, u) = g, y
    return gr * u + (gu - u * _dot(xp, u, gu)) / r


def _push(xp, t, y, x):
    r, u = y
    return _dot(xp, u, t), (t - u * _dot(xp, u, t)) / r


def _polar_mirror(W, x):
    r = W.sqrt((x * x).sum(axis=-1, keepdims=True))
    return r, x / r


def _solved(W, y, x):
    r, (h, _) = y[0], y[1]
    u = np.array([(1 - h * h) / (1 + h * h), 2 * h / (1 + h * h)], dtype=object)
    return (r, u), r * u


polar_of_theirs = declare.implicit(
    "polar_of_theirs",
    _polar,
    (_pull,),
    (_push,),
    outputs=2,
    rounding=declare.stable(4, 4),
    samples=((((2,),), {}), (((2,),), {})),
)
declare.mirror(polar_of_theirs, _polar_mirror, solved=_solved)
