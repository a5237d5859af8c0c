"""Random correct programs: what the verifier must pass without a word, and find every planted fault in.

A program is plain data (inputs, steps, targets) that prints as the code that runs: `RandomProgram.source` is compiled
and called, so what is shown is what was checked. All random decisions go through one function ``choose(n) -> 0 ..
n-1``, so that a seed and Hypothesis build programs in the same way, and Hypothesis shrinks them.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

import numpy as np

import gtape
from gtape.domains import NONZERO
from gtape.primitive import REGISTRY, Primitive

__all__ = ["RandomProgram", "generate", "programs"]

Choose = Callable[[int], int]

_HEAD = """\
import numpy as np
import gtape as tf


def draw(seed, low, high, shape, dtype, grid=0):
    x = np.random.default_rng(seed).uniform(low, high, shape)
    return (np.round(x * grid) / grid if grid else x).astype(dtype)

"""


class Input:
    """A source or a constant: uniform numbers from a seed, on a grid (so that ties and kinks are met) or not."""

    __slots__ = ("grid", "high", "kind", "low", "name", "seed", "shape")

    def __init__(
        self, name: str, kind: str, shape: tuple[int, ...], seed: int, low: float, high: float, grid: int
    ) -> None:
        self.name, self.kind, self.shape, self.seed, self.low, self.high, self.grid = (
            name,
            kind,
            shape,
            seed,
            low,
            high,
            grid,
        )

    def text(self, dtype: str) -> str:
        """The expression that makes it."""
        grid = f", grid={self.grid}" if self.grid else ""
        drawn = f"draw({self.seed}, {self.low!r}, {self.high!r}, {self.shape!r}, np.{dtype}{grid})"
        return f"tf.{'Variable' if self.kind == 'variable' else 'constant'}({drawn})"


class RandomProgram:
    """A program, its tapes and what is asked of them.

    Attributes
    ----------
    seed : int or None
        What `generate` was given.
    dtype : "float64" or "float32"
    order : 1 or 2
        2: the gradient of a function of the gradient, by nested tapes.
    inputs : list of Input
    steps : list of (name, text)
        Assignments; the text is a Python expression.
    targets : list of str
    seeds : list of (int, shape) or None
        Of the output gradients, one a target.
    persistent : bool
    second : {"sum", "square", "weights"}
        At order 2: what the outer tape differentiates.
    long : int
        The length of the longest sum.
    selects : bool
        Whether a selection occurs.
    """

    def __init__(self, dtype: str, order: int, seed: int | None = None) -> None:
        self.seed, self.dtype, self.order = seed, dtype, order
        self.inputs: list[Input] = []
        self.steps: list[tuple[str, str]] = []
        self.targets: list[str] = []
        self.seeds: list[tuple[int, tuple[int, ...]]] | None = None
        self.persistent = False
        self.second = "sum"
        self.long = 1
        self.selects = False
        self._code: CodeType | None = None

    @property
    def depth(self) -> int:
        """How many steps there are."""
        return len(self.steps)

    @property
    def source(self) -> str:
        """The program as Python code that defines ``program(verify)``."""
        lines = [_HEAD, "def program(verify=False):"]
        lines += [f"    {i.name} = {i.text(self.dtype)}" for i in self.inputs]
        sources = [i.name for i in self.inputs if i.kind != "constant"]
        watched = [i.name for i in self.inputs if i.kind == "watched"]
        listed = f"[{', '.join(sources)}]"
        persistent = "persistent=True, " if self.persistent else ""
        pad = "    "
        lines.append(f"{pad}with tf.GradientTape({persistent}verify=verify) as tape:")
        pad += "    "
        watch = [f"tape.watch([{', '.join(watched)}])"] if watched else []
        if self.order == 2:
            lines += [pad + w for w in watch]
            lines.append(f"{pad}with tf.GradientTape({persistent}verify=False) as inner:")
            watch = [w.replace("tape", "inner", 1) for w in watch]
            pad += "    "
        lines += [pad + w for w in watch]
        lines += [f"{pad}{name} = {text}" for name, text in self.steps]
        targets = f"[{', '.join(self.targets)}]"
        weights = ""
        if self.seeds is not None:
            drawn = ", ".join(
                f"tf.constant(draw({s}, -1.0, 1.0, {shape!r}, np.{self.dtype}))" for s, shape in self.seeds
            )
            weights = f", output_gradients=[{drawn}]"
        if self.order == 1:
            lines.append(f"    return tape.gradient({targets}, {listed}{weights})")
        else:
            pad = pad[:-4]
            lines.append(f"{pad}g = [h for h in inner.gradient({targets}, {listed}{weights}) if h is not None]")
            if self.second == "square":
                lines.append(f"{pad}g = [tf.reduce_sum(tf.square(h)) for h in g]")
            weigh = (
                ", output_gradients=[tf.constant(draw(i, -1.0, 1.0, h.shape, "
                f"np.{self.dtype})) for i, h in enumerate(g)]"
                if self.second == "weights"
                else ""
            )
            lines.append(f"    return tape.gradient(g, {listed}{weigh})")
        return "\n".join(lines) + "\n"

    def run(self, verify: Any = False) -> list[Any]:
        """Run it.

        Parameters
        ----------
        verify : bool or "strict"
            Whether the tape whose gradient is returned checks it.

        Returns
        -------
        list
            One gradient a source, or None where there is no path.
        """
        if self._code is None:
            name = f"<random program {self.seed}>"
            text = self.source
            linecache.cache[name] = (len(text), None, text.splitlines(True), name)
            self._code = compile(text, name, "exec")
        names: dict[str, Any] = {}
        exec(self._code, names)
        result: list[Any] = names["program"](verify)
        return result

    def __str__(self) -> str:
        return self.source

    def __repr__(self) -> str:
        return f"<RandomProgram seed {self.seed}: {self.depth} steps, {self.dtype}, order {self.order}>\n{self.source}"


# ------------------------------------------------------------------------------------------------ building

_REACH = 4.0  # values along the way are scaled back to this size


class _Builder:
    """Grows a program; every step is run as it is added, so that the next one knows shapes and values."""

    def __init__(self, choose: Choose, program: RandomProgram) -> None:
        self.choose = choose
        self.program = program
        self.values: dict[str, Any] = {}
        self.rest: list[str] = []  # results that are worth going on from
        self.room = 60  # elements a result may have

    # -- pieces

    def pick(self, options: Sequence[Any]) -> Any:
        """One of the options; the first is the simplest."""
        return options[self.choose(len(options))]

    def often(self, percent: int) -> bool:
        """True in so many cases of a hundred."""
        return self.choose(100) >= 100 - percent

    def input(self, shape: tuple[int, ...], kind: str | None = None) -> str:
        """A new source or constant."""
        kind = kind or self.pick(["variable", "watched", "variable", "constant"])
        low, high = self.pick([(-1.0, 1.0), (0.5, 2.0), (-2.0, 2.0)])
        grid = 2 if self.often(4) else 0
        name = f"{'c' if kind == 'constant' else 'x'}{len(self.program.inputs)}"
        made = Input(name, kind, shape, self.choose(1 << 16), low, high, grid)
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
        """A result to go on from: mostly the newest, sometimes an older one, which is then shared."""
        if not self.rest:
            self.rest.append(self.input(self.pick(_SHAPES), "variable"))
        return self.rest[-1] if self.often(75) else self.rest[self.choose(len(self.rest))]

    def tame(self, name: str) -> str:
        """The same, scaled back if it has grown."""
        size = float(np.max(np.abs(self.array(name)), initial=0.0))
        if size <= _REACH:
            return name
        if self.often(50):
            return self.step(f"{2.0 ** -int(np.ceil(np.log2(size / 2.0)))!r} * {name}", keep=False)
        return self.step(f"tf.tanh({2.0 ** -int(np.ceil(np.log2(size / 2.0)))!r} * {name})", keep=False)

    def inside(self, name: str, interval: Any) -> str:
        """The same, wrapped so that it lies well inside an interval."""
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
        """Another operand that broadcasts with this one: an older result, or a new input."""
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
        """Any public elementwise op, inside its domain."""
        prim: Primitive = self.pick(_elementwise_ops())
        names = [self.recent()]
        while len(names) < len(prim.rules):
            names.append(self.partner(names[0]))
        where = prim.domain.where
        intervals = (NONZERO,) if prim.name == "cbrt" else prim.domain.intervals  # smooth where its slope is finite
        wrapped = [self.inside(n, i) for n, i in zip(names, intervals, strict=True)]
        if where is not None or prim.name in ("pow", "hypot", "atan2"):
            wrapped = [
                self.step(f"0.5 + tf.square({n})", keep=False)
                if self.array(n).size and self.array(n).min() <= 0.2
                else n
                for n in wrapped
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
        """Plain operators."""
        a = self.tame(self.recent())
        b = self.tame(self.partner(a))
        self.step(
            self.pick([f"{a} + {b}", f"{a} * {b}", f"{a} - {b}", f"{b} - 0.5 * {a}", f"{a} / (1.5 + tf.square({b}))"])
        )

    def selection(self) -> None:
        """Something that picks."""
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

    def structural(self) -> None:
        """Reductions, scans, softmax, joins, reshapes."""
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
        """A matrix product with a new matrix, a quadratic form, a small linear system, or a convolution."""
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
            self.step(f"tf.nn.{self.pick(['max', 'avg'])}_pool1d({y}, 2, 1, 'SAME')" if self.often(50) else f"{y}[0]")
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

    def long_sum(self) -> None:
        """Sums of 256 terms and more, of a new input, brought down to a few numbers."""
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


def draw(seed: int, low: float, high: float, shape: tuple[int, ...], dtype: Any, grid: int = 0) -> np.ndarray:
    """Uniform numbers from a seed, as the printed programs draw them."""
    x = np.random.default_rng(seed).uniform(low, high, shape)
    return np.asarray(np.round(x * grid) / grid if grid else x).astype(dtype)


_SHAPES: list[tuple[int, ...]] = [(), (3,), (2, 3), (4,), (1, 3), (2, 1), (3, 3), (2, 2, 3)]


def _elementwise_ops() -> list[Primitive]:
    """The public differentiable elementwise ops that take nothing but tensors."""
    return [
        p
        for n, p in sorted(REGISTRY.items())
        if p.kind == "elementwise"
        and p.public
        and p.differentiable
        and not p.params
        and n not in ("where", "clip_by_value", "floormod")
    ]


def build(choose: Choose, seed: int | None = None) -> RandomProgram:
    """A program from a source of random decisions.

    Parameters
    ----------
    choose : callable
        ``choose(n)`` gives an integer from 0 to n - 1.
    seed : int, optional
        For the program's name.

    Returns
    -------
    RandomProgram
    """
    dtype = "float32" if choose(100) >= 62 else "float64"
    order = 2 if choose(100) >= 70 else 1
    depth = 1 + choose(40) if choose(2) == 0 else 1 + choose(12)
    program = RandomProgram(dtype, order, seed)
    b = _Builder(choose, program)
    long_at = choose(min(depth, 8)) if choose(100) >= 50 else -1
    while program.depth < depth:
        if long_at >= 0 and program.depth >= long_at:
            b.long_sum()
            long_at = -1
            continue
        kind = choose(100)
        if kind < 40:
            b.elementwise()
        elif kind < 60:
            b.arithmetic()
        elif kind < 72:
            b.selection()
        elif kind < 90:
            b.structural()
        else:
            b.product()
    last = b.rest[-1]
    program.targets = [last]
    if len(b.rest) > 1 and b.often(25):
        program.targets.append(b.rest[choose(len(b.rest) - 1)])
    if b.often(40):
        program.seeds = [(choose(1 << 16), b.shape(t)) for t in program.targets]
    program.persistent = b.often(30)
    program.second = b.pick(["sum", "weights", "square"])
    return program


def generate(seed: int) -> RandomProgram:
    """The random program of a seed.

    Examples
    --------
    >>> program = generate(7)
    >>> len(program.run()) == sum(i.kind != "constant" for i in program.inputs)
    True
    """
    rng = np.random.default_rng([20260111, seed])
    return build(lambda n: int(rng.integers(n)), seed)


def programs() -> Any:
    """A Hypothesis strategy for random programs; it shrinks towards few steps and simple ops.

    Returns
    -------
    hypothesis.strategies.SearchStrategy
        Of `RandomProgram`.
    """
    from hypothesis import strategies as st

    @st.composite
    def one(draw_from: Any) -> RandomProgram:
        return build(lambda n: int(draw_from(st.integers(0, n - 1))))

    return one()


if __name__ == "__main__":
    from gtape.verify.false_alarms import main

    raise SystemExit(main())
