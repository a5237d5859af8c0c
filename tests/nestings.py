"""Second derivatives: along two directions in the four nestings of reverse and forward mode, or all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gtape as tf

MODES = ["reverse over reverse", "forward over reverse", "reverse over forward", "forward over forward"]


def second(f: Callable[..., Any], x: Any, h: Any, k: Any, mode: str) -> float:
    """The second derivative of a scalar function at `x` along `h` and `k`, arrays of one shape and dtype."""
    x, h, k = tf.constant(x), tf.constant(h), tf.constant(k)

    def pulled(f: Callable[..., Any], h: Any) -> Callable[..., Any]:
        def slope(x: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = f(x)
            return tf.reduce_sum(tape.gradient(y, x) * h)

        return slope

    def pushed(f: Callable[..., Any], h: Any) -> Callable[..., Any]:
        def slope(x: Any) -> Any:
            with tf.autodiff.ForwardAccumulator(x, h) as acc:
                y = f(x)
            return acc.jvp(y)

        return slope

    outer, inner = [pulled if word == "reverse" else pushed for word in mode.split(" over ")]
    return float(outer(inner(f, h), k)(x).numpy())


def derivatives(f: Callable[..., Any], x: Any, whole: str = "jacobian") -> tuple[Any, Any]:
    """The gradient of a function at a tensor, and its second derivatives by `jacobian` or `batch_jacobian`."""
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = f(x)
        g = inner.gradient(y, x)
    return g, getattr(outer, whole)(g, x)
