"""Programs: traced calls as functions of raw values, made by one of two back ends.

With llvmlite a program is a `gtape.tapes.table.Table` if a table is faster, otherwise a
`gtape.tapes.python_source.PythonSource`. Both give the same bits as the eager call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gtape.base.collector import collector_paused
from gtape.tapes import inner_loops
from gtape.tapes.inner_loops import Doubt
from gtape.tapes.lives import find_roots
from gtape.tapes.parts import orders_unknown
from gtape.tapes.python_source import PythonSource
from gtape.tapes.rewriting import forget_values, needed, shared
from gtape.tapes.table import Table
from gtape.tapes.traced_values import Node, Untraceable

__all__ = ["Program", "fault"]

_MOST_DOUBTS = 64  # runs with a doubt after which a program leaves the table


def fault(error: Exception) -> str:
    """The end of a sentence about an error that only a fault of gtape can raise."""
    return f"which is a fault of gtape ({type(error).__name__}: {error}): please report it with the function"


class Program:
    """One traced call as a function of raw values.

    Parameters
    ----------
    inputs : list of Node
    nodes : list of Node
        Every node comes after the nodes that it reads.
    outputs : list of Node
    name : str
    again : bool
        Whether another program was made of the same nodes before.
    spends : bool
        Whether `run` takes a list of the raw inputs instead, and empties the list. Each large input ends with its last
        read if nobody else holds it.

    Raises
    ------
    Untraceable
        If the eager call may store elements in another order, so that sums have other bits; or if a back end fails, so
        that a fault of gtape ends in an eager call.

    Attributes
    ----------
    source : str
        The Python source.
    run : callable
        Takes the raw inputs, returns the tuple of raw outputs. Raises `Guard` if the program is not valid.
    traced, kept : int
        The number of operations in the traced call and in the program.
    """

    def __init__(
        self,
        inputs: list[Node],
        nodes: list[Node],
        outputs: list[Node],
        name: str,
        *,
        again: bool = False,
        spends: bool = False,
    ) -> None:
        self._spends = spends
        with collector_paused():
            try:
                self._make(inputs, nodes, outputs, name, again)
            except (Untraceable, MemoryError):
                raise
            except Exception as e:
                if again:  # no eager call follows
                    raise
                raise Untraceable(f"gtape cannot write a program for it, {fault(e)}") from e

    def _make(self, inputs: list[Node], nodes: list[Node], outputs: list[Node], name: str, again: bool) -> None:
        self.traced = len(nodes)
        if not again and orders_unknown(nodes, outputs):
            raise Untraceable("it computes with large arrays whose elements lie in memory in different orders")
        nodes, outputs = shared(nodes, outputs, again=again)
        nodes = needed(nodes, outputs)
        self.kept = len(nodes)
        self.doubts = 0
        self._lines: PythonSource | None = None
        machine = inner_loops.machine()
        table = None if machine is None else Table(machine, inputs, nodes, outputs, name, spends=self._spends)
        if table is None or table.run is None:
            self._table = None
            self._given: Any = None
            self.run: Callable[..., tuple[Any, ...]] = self._python_source(inputs, nodes, outputs, name).run
            return
        self._table = table
        find_roots(nodes)
        forget_values([*inputs, *nodes])
        self._given = (inputs, nodes, outputs, name)
        self.run = table.run

    def _python_source(self, *given: Any) -> PythonSource:
        made = self._lines
        if made is None:
            made = self._lines = PythonSource(*(given or self._given), spends=self._spends)
            self._given = None
        return made

    def outcome(self, raws: Sequence[Any]) -> tuple[Any, ...]:
        """The raw outputs, without the table if the table meets a doubtful value.

        Raises
        ------
        Doubt
            If the program empties the list `raws`, and so cannot run twice.
        """
        try:
            return self.run(raws) if self._spends else self.run(*raws)
        except Doubt:
            if not self._spends:
                return self.again(raws)
            self._note_doubt()
            raise

    def again(self, raws: Sequence[Any]) -> tuple[Any, ...]:
        """The raw outputs, computed without the table after the table met a doubtful value."""
        made = self._python_source().run(*raws)  # may raise `Guard`, which is no doubt
        self._note_doubt()
        return made

    def _note_doubt(self) -> None:
        self.doubts += 1
        if self.doubts == _MOST_DOUBTS:
            self.run = self._python_source().run

    @property
    def source(self) -> str:
        """The Python source."""
        return (self._lines if self._table is None else self._table).source  # type: ignore[union-attr]

    def summary(self) -> str:
        """Text with the number of calls of one run and the memory that the program holds."""
        made: Any = self._lines if self._table is None else self._table
        text = f"{made.calls} calls, {made.buffers} buffers, {made.nbytes} bytes"
        if self._table is None:
            return text
        left = sorted(self._table.left.items(), key=lambda item: (-item[1], item[0]))
        text = f"{self._table.rows} rows in {self._table.walks} walks, {text}"
        if left:
            text += " (not in the table: " + ", ".join([f"{n} {word}" for word, n in left]) + ")"
        return text + (f", {self.doubts} runs without the table" if self.doubts else "")
