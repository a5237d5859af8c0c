"""A random program as plain data; its printed text is the code that runs."""

from __future__ import annotations

import linecache
from types import CodeType
from typing import Any

import numpy as np

__all__ = ["Input", "RandomProgram", "draw"]

_HEAD = """\
import numpy as np
import gtape as tf


def draw(seed, low, high, shape, dtype, grid=0, special=False):
    rng = np.random.default_rng(seed)
    x = rng.uniform(low, high, shape)
    x = np.asarray(np.round(x * grid) / grid if grid else x).astype(dtype)
    if special:
        tiny = np.finfo(dtype).smallest_normal
        values = [0.0, -0.0, 1.0, -1.0, tiny, -tiny / 3, np.finfo(dtype).smallest_subnormal, x.flat[0]]
        x = np.where(rng.uniform(size=shape) < 0.4, rng.choice(np.array(values, dtype), shape), x)
    return x

"""


class Input:
    """A source or constant: uniform numbers from a seed, optionally on a grid, so that ties and kinks occur.

    With `special`, some numbers are zeros of either sign, ones, subnormal numbers, or equal to each other.
    """

    __slots__ = ("grid", "high", "kind", "low", "name", "seed", "shape", "special")

    def __init__(
        self, name: str, kind: str, shape: tuple[int, ...], seed: int, low: float, high: float, grid: int,
        special: bool = False,
    ) -> None:  # fmt: skip
        self.special = special
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
        """The Python expression of the input."""
        grid = (f", grid={self.grid}" if self.grid else "") + (", special=True" if self.special else "")
        drawn = f"draw({self.seed}, {self.low!r}, {self.high!r}, {self.shape!r}, np.{dtype}{grid})"
        return f"tf.{'Variable' if self.kind == 'variable' else 'constant'}({drawn})"


class RandomProgram:
    """A program with its tapes, targets and sources.

    Attributes
    ----------
    seed : int or None
        The seed of `generate`.
    dtype : "float64" or "float32"
    order : 1 or 2
        2: the gradient of a function of the gradient, by nested tapes.
    inputs : list of Input
    steps : list of (name, text)
        Assignments; the text is a Python expression.
    targets : list of str
    seeds : list of (int, shape) or None
        Seeds and shapes of the output gradients, one per target.
    persistent : bool
    second : {"sum", "square", "weights"}
        At order 2, the function of the inner gradient that the outer tape differentiates.
    long : int
        The length of the longest sum.
    selects : bool
        True if the program has a selection.
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
        """The number of steps."""
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
        """Run the program.

        Parameters
        ----------
        verify : bool or "strict"
            The flag `verify` of the tape that returns the gradients.

        Returns
        -------
        list
            One gradient per source; None for an unconnected source.
        """
        result: list[Any] = self._names()["program"](verify)
        return result

    def run_beside(self, distance: float, rng: np.random.Generator) -> list[Any]:
        """Run the program at other inputs.

        Parameters
        ----------
        distance : float
            By how much each number that the program draws moves at most. A constant moves, too.
        rng : numpy.random.Generator
            Chooses the moves.

        Returns
        -------
        list
            As `run` does.
        """
        names = self._names()
        drawn = names["draw"]

        def moved(*args: Any, **words: Any) -> np.ndarray:
            x = drawn(*args, **words)
            return np.asarray(x + rng.uniform(-distance, distance, x.shape)).astype(x.dtype)

        names["draw"] = moved
        result: list[Any] = names["program"](False)
        return result

    def _names(self) -> dict[str, Any]:
        """The functions of the source."""
        if self._code is None:
            name = f"<random program {self.seed}>"
            text = self.source
            linecache.cache[name] = (len(text), None, text.splitlines(True), name)
            self._code = compile(text, name, "exec")
        names: dict[str, Any] = {}
        exec(self._code, names)
        return names

    def __str__(self) -> str:
        return self.source

    def __repr__(self) -> str:
        return f"<RandomProgram seed {self.seed}: {self.depth} steps, {self.dtype}, order {self.order}>\n{self.source}"


def draw(
    seed: int, low: float, high: float, shape: tuple[int, ...], dtype: Any, grid: int = 0, special: bool = False
) -> np.ndarray:
    """Numbers from a seed, as the printed programs draw them."""
    names: dict[str, Any] = {}
    exec(_HEAD, names)
    return np.asarray(names["draw"](seed, low, high, shape, dtype, grid, special))
