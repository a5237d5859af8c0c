"""Grows a random program step by step, with operands inside each op's domain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import gtape
from gtape.declare.domains import Interval
from gtape.declare.primitives import REGISTRY, Primitive
from gtape.verify.programs.program_source import Input, RandomProgram, draw

__all__ = ["Builder", "Choose"]

Choose = Callable[[int], int]

_REACH = 4.0  # larger intermediate values are scaled back


class Builder:
    """Grows a program and runs every step when added, so that the next step knows shapes and values."""

    def __init__(self, choose: Choose, program: RandomProgram) -> None:
        self.choose = choose
        self.program = program
        self.values: dict[str, Any] = {}
        self.rest: list[str] = []  # results that later steps may use
        self.room = 60  # most elements of a result
        # Whether inputs hold zeros, subnormal numbers and ties, and masks infinities.
        self.special = False

    # -- pieces

    def pick(self, options: Sequence[Any]) -> Any:
        """One of the options; the first is the simplest."""
        return options[self.choose(len(options))]

    def often(self, percent: int) -> bool:
        """True with a probability in percent."""
        return self.choose(100) >= 100 - percent

    def input(self, shape: tuple[int, ...], kind: str | None = None) -> str:
        """A new source or constant."""
        kind = kind or self.pick(["variable", "watched", "variable", "constant"])
        low, high = self.pick([(-1.0, 1.0), (0.5, 2.0), (-2.0, 2.0)])
        grid = 2 if self.often(4) else 0
        name = f"{'c' if kind == 'constant' else 'x'}{len(self.program.inputs)}"
        special = self.special and self.often(40)
        made = Input(name, kind, shape, self.choose(1 << 16), low, high, grid, special)
        self.program.inputs.append(made)
        self.values[name] = eval(made.text(self.program.dtype), {"np": np, "tf": gtape, "draw": draw})
        return name

    def step(self, text: str, *, keep: bool = True) -> str:
        """Add an assignment and run it."""
        name = f"v{len(self.program.steps)}"
        value = eval(text, {"tf": gtape, "np": np, **self.values})
        self.program.steps.append((name, text))
        self.values[name] = value
        if keep:
            self.rest.append(name)
        return name

    def array(self, name: str) -> np.ndarray:
        """The value of a result."""
        return np.asarray(self.values[name].numpy(), dtype=np.float64)

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self.values[name].shape)

    def recent(self) -> str:
        """A result for the next step: mostly the newest, sometimes an older one, so that steps share it."""
        if not self.rest:
            self.rest.append(self.input(self.pick(_SHAPES), "variable"))
        return self.rest[-1] if self.often(75) else self.rest[self.choose(len(self.rest))]

    def tame(self, name: str) -> str:
        """The result, scaled back if too large."""
        if not np.isfinite(self.array(name)).all():
            name = self.step(f"tf.where(tf.math.is_finite({name}), {name}, 0.5)", keep=False)
        size = float(np.max(np.abs(self.array(name)), initial=0.0))
        if size <= _REACH:
            return name
        if self.often(50):
            return self.step(f"{2.0 ** -int(np.ceil(np.log2(size / 2.0)))!r} * {name}", keep=False)
        return self.step(f"tf.tanh({2.0 ** -int(np.ceil(np.log2(size / 2.0)))!r} * {name})", keep=False)

    def inside(self, name: str, interval: Any) -> str:
        """The result, wrapped to lie well inside an interval."""
        name = self.tame(name)
        x = self.array(name)
        lo, hi = interval.lo, interval.hi
        if interval.whole:  # an order or a degree
            return self.step(f"{max(lo, 0.0) + 1.0!r} + tf.zeros_like({name})", keep=False)
        if interval.holes:
            return name if np.min(np.abs(x), initial=9.0) > 0.3 else self.step(f"0.5 + tf.square({name})", keep=False)
        if lo > -np.inf and hi < np.inf:
            middle, half = (lo + hi) / 2, 0.9 * (hi - lo) / 2
            return self.step(f"{middle!r} + {half!r} * tf.tanh({name})", keep=False)
        if lo > -np.inf:
            if x.size and x.min() > lo + 0.3:
                return name
            return self.step(
                f"{lo + 0.4!r} + {self.pick(['tf.square', 'tf.nn.softplus', 'tf.abs'])}({name})", keep=False
            )
        return name

    def partner(self, name: str) -> str:
        """Another operand that broadcasts with a result: an older result, or a new input."""
        shape = self.shape(name)
        fitting = [n for n in self.rest if n != name and self._fits(shape, self.shape(n))]
        if fitting and self.often(60):
            return str(self.pick(fitting))
        options: list[tuple[int, ...]] = [shape, ()]
        if len(shape) >= 1:
            options += [shape[-1:], (1,) * len(shape), (*shape[:-1], 1)]
        if len(shape) == 1 and shape[0] * 2 <= self.room:
            options.append((2, 1))
        return self.input(self.pick(options))

    def _fits(self, a: tuple[int, ...], b: tuple[int, ...]) -> bool:
        try:
            return int(np.prod(np.broadcast_shapes(a, b))) <= self.room
        except ValueError:
            return False

    # -- steps

    def elementwise(self) -> None:
        """Add a public elementwise op, inside its domain."""
        prim: Primitive = self.pick(_elementwise_ops())
        names = [self.recent()]
        while len(names) < len(prim.rules):
            names.append(self.partner(names[0]))
        where = prim.domain.where
        inner = prim.random if isinstance(prim.random, Interval) else None
        intervals = (inner,) if inner and len(names) == 1 else prim.domain.intervals
        wrapped = [self.inside(n, i) for n, i in zip(names, intervals, strict=True)]
        if where is not None or (inner and len(names) > 1):
            wrapped = [
                self.step(f"0.5 + tf.square({n})", keep=False)
                if i.hi == np.inf and self.array(n).size and self.array(n).min() <= 0.2
                else n
                for n, i in zip(wrapped, intervals, strict=True)
            ]
        if not self._fits_all(wrapped):
            return
        self.step(f"tf.math.{prim.name}({', '.join(wrapped)})")

    def _fits_all(self, names: list[str]) -> bool:
        try:
            return int(np.prod(np.broadcast_shapes(*[self.shape(n) for n in names]))) <= self.room
        except ValueError:
            return False

    def arithmetic(self) -> None:
        """Add plain operators."""
        a = self.tame(self.recent())
        b = self.tame(self.partner(a))
        self.step(
            self.pick([f"{a} + {b}", f"{a} * {b}", f"{a} - {b}", f"{b} - 0.5 * {a}", f"{a} / (1.5 + tf.square({b}))"])
        )

    def selection(self) -> None:
        """Add an op that selects elements or branches."""
        self.program.selects = True
        a = self.tame(self.recent())
        shape = self.shape(a)
        options = [
            f"tf.nn.relu({a})",
            f"tf.clip_by_value({a}, -0.75, 0.6)",
            f"tf.nn.leaky_relu({a}, alpha=0.1)",
            f"tf.where({a} > 0.1, {a}, 0.3 * {a})",
            f"tf.where({a} > 0.2, tf.math.log({a}), {a})",
            f"tf.nn.relu6(3.0 * {a})",
        ]
        b = self.partner(a)
        if self._fits(shape, self.shape(b)):
            options += [
                f"tf.maximum({a}, {b})",
                f"tf.minimum({a}, {b})",
                f"tf.where({a} > {b}, {a}, {b})",
                f"tf.where({a} < {b}, tf.sin({a}), {a} * {b})",
            ]
        if shape:
            n = shape[-1]
            axis = self.choose(len(shape))
            indices = [self.choose(shape[axis]) for _ in range(1 + self.choose(4))]
            options += [
                f"tf.reduce_max({a}, axis={axis})",
                f"tf.reduce_min({a})",
                f"tf.gather({a}, {indices!r}, axis={axis})",
                f"{a}[..., {self.choose(n)}]",
                f"{a}[..., ::-1]",
                f"{a}[..., : {1 + self.choose(n)}]",
                f"tf.sort({a}, axis=-1)" if n <= 8 else f"{a}[..., {n // 2} :]",
            ]
            if int(np.prod(shape)) + 3 * int(np.prod(shape[1:])) <= self.room:
                options.append(f"tf.pad({a}, {[[1, 2]] + [[0, 0]] * (len(shape) - 1)!r})")
        self.step(self.pick(options))

    def masked(self) -> None:
        """Add a softmax, logsumexp, maximum or exponential of terms, some of which a mask makes -inf."""
        self.program.selects = True
        a = self.tame(self.recent())
        if not self.shape(a):
            a = self.step(f"tf.stack([{a}, 0.5 * {a}, {a} - 1.0])", keep=False)
        mean = f"tf.reduce_mean({a}, axis=-1, keepdims=True)"
        kept = self.step(f"tf.where({a} >= {mean} - 0.01, {a}, -np.inf)", keep=False)
        self.step(
            self.pick(
                [
                    f"tf.nn.softmax({kept}, axis=-1)",
                    f"tf.reduce_logsumexp({kept}, axis=-1)",
                    f"tf.reduce_max({kept}, axis=-1)",
                    f"tf.exp({kept})",
                ]
            )
        )

    def structural(self) -> None:
        """Add a reduction, scan, softmax, join or reshape."""
        a = self.tame(self.recent())
        shape = self.shape(a)
        if not shape:
            b = self.recent()
            self.step(
                f"tf.stack([{a}, {a} * 0.5])" if self.shape(b) or self.often(50) else f"tf.stack([{a}, {b}, {a}])"
            )
            return
        axis, n = self.choose(len(shape)), int(np.prod(shape))
        long = n >= 256
        options = [
            f"tf.reduce_sum({a}, axis={axis})",
            f"tf.reduce_mean({a}, axis={axis}, keepdims=True)",
            f"tf.reduce_logsumexp({a}, axis={axis})",
            f"tf.nn.softmax({a}, axis={axis})",
            f"tf.nn.log_softmax({a}, axis={axis})",
            f"tf.cumsum({a}, axis={axis})",
            f"tf.cumsum({a}, axis={axis}, exclusive=True, reverse=True)",
            f"tf.reshape({a}, [-1])",
            f"tf.transpose({a})",
            f"tf.reverse({a}, axis=[{axis}])",
            f"tf.roll({a}, shift=1, axis={axis})",
            f"tf.expand_dims({a}, 0)",
            f"tf.norm(1.0 + tf.square({a}), axis={axis})",
        ]
        if not long:
            options += [f"tf.math.cumprod({a}, axis={axis})", f"tf.reduce_prod({a}, axis={axis})"]
        if 2 * n <= self.room:
            options += [
                f"tf.concat([{a}, tf.sin({a})], axis={axis})",
                f"tf.stack([{a}, {a} * {a}], axis=0)",
                f"tf.tile({a}, {[2] + [1] * (len(shape) - 1)!r})",
                f"tf.broadcast_to({a}, {[2, *shape]!r})",
            ]
        if n > 1 and len(shape) == 1:
            options.append(f"tf.concat(tf.split({a}, [1, {n - 1}])[::-1], axis=0)")
        if len(shape) == 1:
            options.append(
                f"tf.nn.softmax_cross_entropy_with_logits(labels={self.input(shape, 'constant')}, logits={a})"
            )
        self.step(self.pick(options))

    def product(self) -> None:
        """Add a matrix product with a new matrix, a quadratic form, a small linear system, or a convolution."""
        a = self.tame(self.recent())
        shape = self.shape(a)
        if not shape:
            a = self.step(f"{a} * {self.input((3,))}", keep=False)
            shape = (3,)
        n = shape[-1]
        if len(shape) == 1:
            a = self.step(f"tf.reshape({a}, [1, {n}])", keep=False)
        what = self.choose(5)
        if what <= 1 or n > 6:
            b = self.input((n, 1 + self.choose(3)))
            self.step(f"tf.matmul({a}, {b})" if what != 1 else f"{2.0 ** -int(np.log2(n) / 2)!r} * ({a} @ {b})")
        elif what == 2:
            self.step(
                f"tf.einsum('bij,bkj->bik', {a}, {a})" if len(shape) == 3 else f"tf.matmul({a}, {a}, transpose_b=True)"
            )
        elif what == 3:
            taps, stride = 1 + self.choose(3), 1 + self.choose(2)
            w = self.input((taps, n, 1 + self.choose(2)))
            y = self.step(f"tf.nn.conv1d(tf.reshape({a}, [1, -1, {n}]), {w}, {stride}, 'SAME')", keep=False)
            pool = "tf.nn.{}({}, 2, 1, 'SAME')"
            self.step(pool.format(self.pick(["max_pool1d", "avg_pool1d"]), y) if self.often(50) else f"{y}[0]")
            self.program.selects = True
        else:
            m = self.input((n, n))
            eye = f"tf.eye({n}, dtype=tf.{self.program.dtype})"
            solved = (
                f"tf.linalg.solve({m} + {2.0 * n + 1!r} * {eye}, tf.transpose({a}))"
                if len(shape) <= 2
                else f"tf.linalg.matmul({a}, {m})"
            )
            self.step(solved)

    def control(self) -> None:
        """Add a loop, a branch, a map or a scan of TensorFlow's, or a function."""
        self.program.selects = True
        a = self.tame(self.recent())
        f = self.pick(["tf.sin", "tf.tanh", "tf.sigmoid", "tf.nn.softplus"])
        n = 1 + self.choose(4)
        options = [
            f"tf.while_loop(lambda i, x: i < {n}, lambda i, x: (i + 1, {f}(x) + 0.5 * {a}), (0, {a}))[1]",
            f"tf.cond(tf.reduce_sum({a}) > 0.1, lambda: {f}({a}), lambda: 0.5 * {a} * {a})",
            f"tf.function(lambda x: {f}(x) * x)({a})",
            f"tf.recompute_grad(lambda x: x * {f}(x))({a})",
        ]
        if self.shape(a):
            options += [
                f"tf.map_fn(lambda x: {f}(x) * 0.5, {a})",
                f"tf.scan(lambda s, x: {f}(s) + x, {a})",
            ]
        self.step(self.pick(options))

    def long_sum(self) -> None:
        """Add a sum of 256 or more terms over a new input, with a few numbers as result."""
        n = 256 + self.choose(100)
        self.program.long = max(self.program.long, n)
        room, self.room = self.room, 2 * n
        shape = self.pick([(n,), (n,), (2, n)])
        a = self.input(shape, self.pick(["variable", "watched"]))
        if self.rest and not self.shape(self.rest[-1]) and self.often(50):
            a = self.step(f"{a} * {self.rest[-1]}", keep=False)
        for _ in range(self.choose(3)):
            f = self.pick(
                ["tf.sin", "tf.tanh", "tf.nn.softplus", "tf.square", "tf.sigmoid", "tf.nn.relu", "tf.exp", "tf.abs"]
            )
            self.program.selects |= f == "tf.nn.relu"
            a = self.step(f"{f}({self.tame(a)})", keep=False)
        row = a if len(shape) == 2 else f"tf.reshape({a}, [1, {n}])"
        k = 1 + self.choose(3)
        option = self.choose(7)
        if option == 0:
            self.step(f"tf.reduce_sum({a}, axis=-1)")
        elif option == 1:
            self.step(f"tf.reduce_mean({a}, axis=-1)")
        elif option == 2:
            self.step(f"0.0625 * tf.matmul({row}, {self.input((n, k))})")
        elif option == 3:
            self.step(f"tf.reduce_logsumexp({a}, axis=-1)")
        elif option == 4:
            self.step(f"0.0625 * tf.cumsum({a}, axis=-1)[..., {n - 3} :]")
            self.program.selects = True
        elif option == 5:
            self.step(f"tf.reduce_sum(tf.nn.softmax({a}, axis=-1) * {self.input(shape, 'constant')}, axis=-1)")
        else:
            self.step(f"tf.norm({a} + 0.0 , axis=-1)" if np.abs(self.array(a)).max() > 0 else f"tf.reduce_sum({a})")
        self.room = room


_SHAPES: list[tuple[int, ...]] = [(), (3,), (2, 3), (4,), (1, 3), (2, 1), (3, 3), (2, 2, 3)]


def _elementwise_ops() -> list[Primitive]:
    """The public differentiable elementwise ops that take only tensors."""
    return [
        p
        for _, p in sorted(REGISTRY.items())
        if p.kind == "elementwise"
        and p.public
        and p.differentiable
        and not p.params
        and not p.place.outside  # programs call ops by TensorFlow's names
        and p.random is not False
    ]
