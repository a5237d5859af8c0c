"""The default back end of compiled functions: a traced call as straight-line Python over the kernels.

Small results of ufuncs go to buffers that a program keeps between calls. Chains of elementwise ufuncs on long arrays
run in blocks that fit the cache. Neither changes the bits of an element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from gtape.tapes.known_kernels import known_kernels
from gtape.tapes.learned import PLAIN
from gtape.tapes.lives import is_large
from gtape.tapes.order import in_order
from gtape.tapes.parts import (
    CALL,
    LARGE,
    SIGNS,
    Part,
    array_ufunc,
    elements_of_block,
    elides,
    may_show,
    overwrites,
    sign_of,
)  # fmt: skip
from gtape.tapes.repeats import Block, Instance, in_blocks
from gtape.tapes.rewriting import constant_key, reads, reads_of
from gtape.tapes.storage import Storage
from gtape.tapes.traced_values import Node, OtherOrder
from gtape.tapes.ufuncs import EXACT, keeps_bits_anywhere

__all__ = ["Names", "PythonSource", "Writer", "block_of", "framed", "spent_of"]

_LONG = 1 << 15  # elements above which an array is computed in blocks
_DEEPEST = 20  # the depth of nested calls in a line, because Python's parser takes 200 brackets


class Names:
    """The names in a source: constants, and variables, whose names are used again after their last read.

    Parameters
    ----------
    space : dict
        Gains the constants by name.
    """

    def __init__(self, space: dict[str, Any]) -> None:
        self.space = space
        self.known: dict[Any, str] = {}
        self.free: list[str] = []
        self.count = 0

    def variable(self) -> str:
        """A name for a variable, not in use."""
        if self.free:
            return self.free.pop()
        self.count += 1
        return f"v{self.count}"

    def constant(self, value: Any) -> str:
        """The source text of a constant."""
        if value.__class__ is int:
            return f"({value!r})" if value < 0 else repr(value)
        if value.__class__ in (bool, type(None), str):
            return repr(value)
        if value.__class__ is float and np.isfinite(value):
            return f"({value!r})"
        key = constant_key(value)
        name = self.known.get(key)
        if name is None:
            word = getattr(value, "__name__", "") if callable(value) else "c"
            name = f"{word if word.isidentifier() else 'k'}_{len(self.space)}"
            self.known[key] = name
            self.space[name] = value
        return name

    def text(self, a: Any) -> str:
        """The source text of an argument."""
        if a.__class__ is Node:
            return a.name
        if a.__class__ is list:
            return f"[{', '.join([self.text(b) for b in a])}]"
        if a.__class__ is tuple and reads(a, []):
            return f"({', '.join([self.text(b) for b in a])},)"
        return self.constant(a)


_MOST_WHOLE = 1 << 24  # the greatest integer up to which float32 and float64 have all integers


def _as_array(node: Node, ufunc: np.ufunc | None, a: Any) -> Any:
    """An operand. A constant number becomes an array without axes, because NumPy would make one at every call."""
    if ufunc not in SIGNS or a.__class__ is Node or not node.sample.ndim or node.sample.dtype.char not in "fd":
        return a
    if isinstance(a, np.generic):
        return np.array(a)
    if a.__class__ is not float and (a.__class__ is not int or abs(a) > _MOST_WHOLE):
        return a
    others = [b.sample if b.__class__ is Node else b for b in node.args if b is not a]
    made = np.array(a, node.sample.dtype)
    alike = all([isinstance(b, np.ndarray) and b.dtype == made.dtype for b in others])  # noqa: C419
    return made if alike else a


def _is_elementwise(node: Node) -> bool:
    """Whether a node calls an elementwise kernel other than a ufunc."""
    plain = all([v.__class__ is float or v.__class__ in PLAIN for v in node.words.values()])  # noqa: C419
    return plain and id(node.function) in known_kernels().elementwise


def _planned(node: Node) -> tuple[Any, dict[str, Any]]:
    """The function that a kernel chooses by shapes and dtypes, or else the node's function. Both with keywords."""
    plan = getattr(node.function, "planned", None)
    values = [a.sample if a.__class__ is Node else a for a in node.args]
    if plan is None or not all([isinstance(v, (np.ndarray, np.generic)) for v in values]):  # noqa: C419
        return node.function, node.words
    return plan(*values, **node.words), {}


def _operated(node: Node, operands: list[str]) -> str | None:
    """The text of a node that Python writes without a call, by an operator; None if the node needs a call."""
    sign = sign_of(node)
    if sign is not None:
        return f"{operands[0]} {sign} {operands[1]}"
    return None if node.text is None else node.text.format(*operands)


def _elements(sample: Any) -> int:
    """The number of elements of a value; for a tuple the sum over its parts."""
    if sample.__class__ is tuple:
        return sum([_elements(part) for part in sample])
    return sample.size if isinstance(sample, np.ndarray) else 1


# ---------------------------------------------------------------------------------------------- lines


class Writer:
    """Writes the lines of a program, in the order of its parts.

    Parameters
    ----------
    inputs : list of Node
    parts : list of Part and Instance
    outputs : list of Node
    space : dict
        The names that the source uses.
    elsewhere : collection of int
        The identities of nodes that no line computes.
    spent : iterable of Node
        The inputs that the program deletes after their last read.
    """

    def __init__(
        self, inputs: list[Node], parts: Sequence[Any], outputs: list[Node], space: dict[str, Any],
        elsewhere: Any = frozenset(), spent: Iterable[Node] = (),
    ) -> None:  # fmt: skip
        self.names = Names(space)
        self.lines: list[str] = []
        self.buffers: list[tuple[tuple[int, ...], Any]] = []
        self._free_buffers: dict[Any, list[str]] = {}
        self._buffered: dict[int, Any] = {}
        self.place = 0
        self.last: dict[int, int] = {}
        self.count: dict[int, int] = {}  # the number of reads of each value
        # The newest calls: line, value, text, whether the text is an operation with an operator, the depth of its
        # calls, and whether a large value ends with the call.
        self.newest: list[tuple[int, Node, str, bool, int, bool]] = []
        self.kept = {id(o) for o in outputs}
        self._spent = {id(a) for a in spent} - self.kept
        self.functions: list[str] = []
        self.nbytes = 0
        for i, node in enumerate(inputs):
            node.name = f"x{i}"
        # Values that may be part of a view: a function other than a ufunc may return a view of its operand.
        viewed: set[int] = set()
        place = 0
        self._mine: set[int] = set()
        self._ordered: set[int] = set()  # the inputs on whose order in memory the order of other arrays depends
        rows: dict[int, list[int]] = {}  # for each value with one axis the inputs whose memory the value may show
        for a in inputs:
            axes = _axes(a.sample)
            if axes == 1:
                rows[id(a)] = [id(a)]
            elif axes:
                self._ordered.add(id(a))
        for part in parts:
            if part.__class__ is Instance:
                self._note(part, place, viewed, rows)
                place += 1
                continue
            for node in part.nodes:
                if rows:
                    self._follow(node, rows)
                shows = part.kind == CALL and id(node) not in elsewhere and may_show(node)
                for a in reads_of(node):
                    key = id(a)
                    self.last[key] = place
                    self.count[key] = self.count.get(key, 0) + 1
                    if shows:
                        viewed.add(key)
                self._mine.add(id(node))
                place += 1
        self.viewed = viewed
        self._aliased = viewed | self.kept
        self._owned: set[int] = set()
        # In a block: for each result the parameter that holds the buffer of the result.
        self.given: dict[int, str] = {}

    def _follow(self, node: Node, rows: dict[int, list[int]]) -> None:
        """Note the inputs with one axis that an array with more axes depends on, maybe through views."""
        starts = [k for a in reads_of(node) for k in rows.get(id(a), ())]
        if not starts:
            return
        axes = _axes(node.sample)
        if axes > 1:
            self._ordered.update(starts)
        elif axes and may_show(node):
            rows[id(node)] = starts

    def _note(self, part: Instance, place: int, viewed: set[int], rows: dict[int, list[int]]) -> None:
        """Note the values that a copy of a block reads and computes."""
        several = any([_axes(n.sample) > 1 for n in part.block.nodes])  # noqa: C419 - a list is quicker
        written = part.block.written
        if written is None:
            written = part.block.written = _Written(part.block, self.names.space)
        written.instances.append(part)
        for a, views in zip(part.inputs, written.views, strict=True):
            if a.__class__ is Node:
                key = id(a)
                self.last[key] = place
                self.count[key] = self.count.get(key, 0) + 1
                if views:
                    viewed.add(key)
                if several:
                    self._ordered.update(rows.get(key, ()))
                elif views:
                    rows.update([(id(n), rows[key]) for n in part.outputs if key in rows])
        self._mine.update([id(n) for n in part.outputs])

    # ------------------------------------------------------------------------------------------ names

    def dying(self, node: Node) -> list[Node]:
        """The values that the current line is the last to read."""
        place, last, mine, kept = self.place, self.last, self._mine, self.kept
        found: list[Node] = []
        for a in reads_of(node):
            k = id(a)
            if last[k] == place and k in mine and k not in kept and a not in found:
                found.append(a)
        return found

    def is_over(self, a: Node) -> bool:
        """Whether no later line reads a value of this program."""
        return id(a) in self._mine and id(a) not in self.kept and self.last[id(a)] < self.place

    def release(self, dying: Iterable[Node]) -> None:
        """Free the names of values for new variables."""
        for a in dying:
            key = self._buffered.pop(id(a), None)
            if key is not None:
                self._free_buffers[key].append(a.name)
            elif a.name[:1] == "v":  # not an array of another part
                self.names.free.append(a.name)

    def define(self, node: Node) -> str:
        """Give a node a variable."""
        node.name = self.names.variable()
        if id(node) not in self.last and id(node) not in self.kept:
            self.names.free.append(node.name)
        return node.name

    def _buffer(self, node: Node) -> str | None:
        """A buffer for a small array. No view of the buffer may be left."""
        given = self.given.get(id(node))
        if given is not None:
            return given
        if id(node) in self._aliased or id(node) not in self.last or not _takes_buffer(node.sample):
            return None
        return self._take(node)

    def _take(self, node: Node) -> str:
        """A buffer that holds no value."""
        sample = node.sample
        key = (sample.shape, sample.dtype.char)
        free = self._free_buffers.setdefault(key, [])
        if not free:
            free.append(f"b{len(self.buffers)}")
            self.buffers.append((sample.shape, sample.dtype))
            self.nbytes += sample.nbytes
        self._buffered[id(node)] = key
        return free.pop()

    # ------------------------------------------------------------------------------------------ calls

    def call(self, node: Node) -> None:
        """Write the line of one call. Earlier calls whose results only this call reads become part of the line."""
        names = self.names
        dying = self.dying(node)
        large = [a.name for a in dying if a.name[:1] == "v" and _elements(a.sample) >= LARGE]
        ufunc = array_ufunc(node)
        over = None if ufunc is None else self._overwrites(node, ufunc, dying)
        words, operands, depth = self._arguments(node, ufunc, ufunc is not None and over is None)
        if ufunc is not None:
            place, text, infix = self._ufunc(node, ufunc, words, operands, dying, over)
        else:
            operated = _operated(node, operands)
            infix = operated is not None
            if operated is not None:
                text = operated
            else:
                function, given = _planned(node)
                words += [f"{k}={names.text(v)}" for k, v in given.items()]
                text = f"{names.constant(function)}({', '.join(words)})"
            self.release(dying)
            place = "" if node.guards else f"{self.define(node)} = "
        self.lines.append(place + text)
        self.newest.append((len(self.lines), node, text, infix, depth + 1, bool(large)))
        self._forget([name for name in large if name != node.name])
        self.place += 1
        self.spend(reads_of(node))

    def spend(self, read: Iterable[Node]) -> None:
        """Delete the inputs among the values that the last lines read, if the program may and no later line reads them.

        The caller may hold the only other reference to them, in a list that the program empties.
        """
        if not self._spent:
            return
        over = {id(a): a for a in read if id(a) in self._spent and self.last[id(a)] < self.place}
        self._spent.difference_update(over)
        self._forget([a.name for a in over.values()])

    def _forget(self, variables: list[str]) -> None:
        """Delete large values that no line reads any more, because their names may get new values much later."""
        if variables:
            self.lines.append(" = ".join([*variables, "None"]))

    def _arguments(self, node: Node, ufunc: np.ufunc | None, may_elide: bool) -> tuple[list[str], list[str], int]:
        """The arguments as source: the text for a function, the text for an operator, and the depth of their calls.

        The calls of the newest lines become arguments if no other call reads their results, in the order of the lines.
        With `may_elide`, this holds for a large result, too: an operator of NumPy's overwrites a large array without a
        name, as it does in the eager call.
        """
        words = [self.names.text(a if a.__class__ is Node else _as_array(node, ufunc, a)) for a in node.args]
        newest, lines = self.newest, self.lines
        if not newest or newest[-1][0] != len(lines) or (node.text is not None and "{1}" in node.text):
            newest.clear()  # a line of another kind came between, or the text may name an argument twice
            return words, words, 0
        operands, deepest = words, 0
        for i in range(len(words) - 1, -1, -1):
            _, value, text, infix, depth, ends = newest[-1]
            if node.args[i] is not value:
                continue
            key = id(value)
            if self.count[key] > 1 or key in self.kept or depth >= _DEEPEST:
                break
            # A line may overwrite a large operand that it names.
            if _elements(value.sample) >= LARGE and (ends or not may_elide or not elides(node, value)):
                break
            if operands is words:
                operands = [*words]
            words[i], operands[i], deepest = text, f"({text})" if infix else text, max(deepest, depth)
            lines.pop()
            newest.pop()
            if not newest or newest[-1][0] != len(lines):
                break
        return words, operands, deepest

    def _ufunc(
        self, node: Node, ufunc: np.ufunc, words: list[str], operands: list[str], dying: list[Node], over: Node | None
    ) -> tuple[str, str, bool]:
        """The place of a ufunc's result, the text of the call, and whether the text uses an operator."""
        names = self.names
        infix = False
        if over is not None:
            text = f"{names.constant(ufunc)}({', '.join(words)}, out={over.name})"
        else:
            exact = ufunc in EXACT
            if exact:
                self.release(dying)
            buffer = self._buffer(node)
            if buffer is not None:
                if not exact:
                    self.release(dying)
                node.name = buffer
                return "", f"{names.constant(ufunc)}({', '.join(words)}, {_out(ufunc)}{buffer})", False
            if exact:
                dying = []
            operated = _operated(node, operands)
            infix = operated is not None
            text = f"{names.constant(node.function)}({', '.join(words)})" if operated is None else operated
        if id(node) not in self._aliased:
            self._owned.add(id(node))
        self.release(dying)
        return f"{self.define(node)} = ", text, infix

    def _overwrites(self, node: Node, ufunc: np.ufunc, dying: list[Node]) -> Node | None:
        """An operand whose memory the result may overwrite."""
        if ufunc not in EXACT or node.sample.size < LARGE:
            return None
        for a in dying:
            if id(a) in self._owned and overwrites(node.sample, a.sample):
                return a
        return None

    # ------------------------------------------------------------------------------------------ repeated blocks

    def repeated(self, part: Instance) -> None:
        """Write the line of one copy of a block."""
        written, place, last, mine, kept = part.block.written, self.place, self.last, self._mine, self.kept
        if written.label is None:
            written.write(self)
        words = [self.names.text(a) for a in part.inputs]
        dying = {id(a): a for a in part.inputs if a.__class__ is Node}
        over = [a for k, a in dying.items() if last[k] == place and k in mine and k not in kept]
        results = part.outputs
        buffered = [results[k] for k in written.buffered]
        for node in buffered:
            node.name = self._take(node)
            words.append(node.name)
        # Temporary values are stored in buffers that the next line may use again.
        lent = [(self._take(n), n) for n in written.temporaries]
        words += [name for name, _ in lent]
        for name, node in lent:
            self._free_buffers[self._buffered.pop(id(node))].append(name)
        self.release(over)
        made = [self.define(results[k]) for k in written.returned]
        self.release([n for n in buffered if id(n) not in last])
        place_of = f"{', '.join(made)}{',' if len(made) == 1 else ''} = " if made else ""
        self.lines.append(f"{place_of}{written.label}({', '.join(words)})")
        self.place += 1
        self.spend(dying.values())

    # ------------------------------------------------------------------------------------------ blocks

    def blocks(self, part: Part) -> None:
        """Write the lines of a part that runs in blocks: the function of one block, and its calls."""
        names = self.names
        _, shape = part.kind
        size = int(np.prod(shape))
        step = elements_of_block(part.nodes)
        inside = {id(n) for n in part.nodes}
        end = self.place + len(part.nodes)
        results = [n for n in part.nodes if id(n) in self.kept or self.last.get(id(n), 0) >= end]
        ending: dict[int, Node] = {}
        arrays: dict[int, Any] = {}
        numbers: dict[int, Node] = {}
        for n in part.nodes:
            for a in n.args:
                if a.__class__ is not Node:
                    if _is_long(a):
                        arrays[id(a)] = a
                elif id(a) not in inside:
                    (arrays if isinstance(a.sample, np.ndarray) and a.sample.ndim else numbers)[id(a)] = a
                    if self.last[id(a)] < end and id(a) in self._mine and id(a) not in self.kept:
                        ending[id(a)] = a
        inner = {k: f"a{i}" for i, k in enumerate(arrays)} | {k: f"s{i}" for i, k in enumerate(numbers)}
        stored = Storage(part.nodes, results, [a for k, a in ending.items() if k in self._owned])
        taken, fresh, temporaries = stored.taken, stored.fresh, stored.temporaries
        inner |= stored.places
        inner |= {k: inner[id(a)] for k, a in taken.items()}
        lines: list[str] = []
        for n in part.nodes:
            ufunc = array_ufunc(n)
            words = [inner[id(a)] if a.__class__ is Node or _is_long(a) else names.constant(_number(a)) for a in n.args]
            place = inner[id(n)]
            if ufunc is not None:
                text = f"{names.constant(ufunc)}({', '.join(words)}, {_out(ufunc)}{place})"
            elif place[0] == "m":
                text = f"{place} = {self._call(n, words)}"
            else:
                text = f"{names.constant(np.copyto)}({place}, {self._call(n, words)})"
            lines.append(f"    {text}\n")
        self.place = end
        label = f"block_{len(self.functions)}"
        held = [f"t{i}" for i in range(len(temporaries))]
        parameters = [
            *[inner[k] for k in arrays],
            *[inner[id(n)] for n in fresh],
            *[inner[k] for k in numbers],
            *held,
        ]
        self.functions.append(f"def {label}({', '.join(parameters)}):\n{''.join(lines)}")
        empty = names.constant(np.empty)
        for n in fresh:
            self.define(n)
            self.lines.append(f"{n.name} = {empty}({n.sample.shape!r}, {n.sample.dtype.char!r})")
        for a in taken.values():
            del ending[id(a)]
        self._owned.update([id(n) for n in results if id(n) not in self._aliased])
        flat = []
        given = []  # the flat constants
        for a in [*arrays.values(), *fresh]:
            if a.__class__ is not Node:
                given.append(names.constant(a.reshape(-1)))
                flat.append(given[-1])
                continue
            flat.append(names.variable())
            self.lines.append(f"{flat[-1]} = {a.name}.reshape(-1)")
        whole = [names.variable() for _ in temporaries]
        for name, char in zip(whole, temporaries, strict=True):
            self.lines.append(f"{name} = {empty}({step}, {char!r})")
            self.nbytes += step * np.dtype(char).itemsize
        full = size // step * step
        plain_ones = [a.name for a in numbers.values()]
        cut = [f"{f}[i:j]" for f in flat]
        self.lines.append(f"for i, j in zip(range(0, {full}, {step}), range({step}, {full + 1}, {step})):")
        self.lines.append(f"    {label}({', '.join([*cut, *plain_ones, *whole])})")
        if full < size:
            tail = [f"{f}[{full}:]" for f in flat] + plain_ones + [f"{t}[:{size - full}]" for t in whole]
            self.lines.append(f"{label}({', '.join(tail)})")
        over = [*[f for f in flat if f not in given], *whole]
        for n in results:
            if id(n) in taken:
                n.name = taken[id(n)].name
        names.free += over
        self._forget([*over, *[a.name for a in ending.values() if a.name[:1] == "v"]])
        self.release(ending.values())
        self.spend([a for a in arrays.values() if a.__class__ is Node])

    def _call(self, n: Node, words: list[str]) -> str:
        """The call of a kernel that makes an array of its own."""
        words = words + [f"{k}={self.names.constant(v)}" for k, v in n.words.items()]
        return f"{self.names.constant(n.function)}({', '.join(words)})"

    # ------------------------------------------------------------------------------------------ the whole

    def checks(self, inputs: list[Node]) -> list[str]:
        """Write lines that leave the program if an argument has its elements in another order in memory than traced.

        NumPy's results have the order of the arguments, and sums depend on it, but the buffers of the program have the
        traced order, and products with ones are left out only for this order. The steps of an array with one axis do
        not matter as long as all results have one axis, too.
        """
        found = []
        for a in inputs:
            if id(a) in self._ordered and id(a) in self.last:
                other = f"not {a.name}.flags.c_contiguous"
                if not a.sample.flags.c_contiguous:
                    other = f"{a.name}.strides != {a.sample.strides}"
                found.append(f"if {other}: raise {self.names.constant(OtherOrder)}")
        return found

    def write(self, part: Part | Instance) -> None:
        """Write the lines of a part that calls functions."""
        if isinstance(part, Instance):
            self.repeated(part)
        elif part.kind == CALL:
            for node in part.nodes:
                self.call(node)
        else:
            self.blocks(part)


def _axes(sample: Any) -> int:
    """The number of axes of a value; of a tuple, the largest one."""
    if sample.__class__ is tuple:
        return max([_axes(a) for a in sample], default=0)
    return sample.ndim if isinstance(sample, np.ndarray) else 0


def _takes_buffer(sample: Any) -> bool:
    """Whether a value may be stored in a buffer.

    NumPy's result has its elements in memory in the order of its operands, and sums depend on this order. The order of
    a buffer is fixed.
    """
    return 0 < sample.size < LARGE and sample.dtype.kind in "fb" and bool(sample.flags.c_contiguous)


class _Written:
    """A block as a function. Its parameters are the inputs, then buffers of results, then buffers of other values.

    Attributes
    ----------
    views : list of bool
        For each input, whether a result may be a view of it.
    instances : list of Instance
    label : str or None
        The name of the function after it is written.
    buffered, returned : list of int
        The indices of results that are stored in buffers, and of those that the function returns.
    temporaries : list of Node
        Values with the forms of the buffers for other values.
    """

    def __init__(self, block: Block, space: dict[str, Any]) -> None:
        self.block = block
        part = Part(CALL)
        part.nodes = block.nodes
        self.results = [block.nodes[j] for j in block.outputs]
        self.writer = Writer(block.inputs, [part], self.results, space)
        self.part = part
        self.views = [id(a) in self.writer.viewed for a in block.inputs]
        self.instances: list[Instance] = []
        self.label: str | None = None
        self.buffered: list[int] = []
        self.returned: list[int] = []
        self.temporaries: list[Node] = []

    def write(self, outer: Writer) -> None:
        """Write the function, after all readers of the results are known."""
        writer, block = self.writer, self.block
        for k, j in enumerate(block.outputs):
            node = block.nodes[j]
            viewed = id(node) in writer.viewed or any([id(x.nodes[j]) in outer.viewed for x in self.instances])  # noqa: C419
            if viewed or array_ufunc(node) is None or not _takes_buffer(node.sample):
                self.returned.append(k)
            else:
                writer.given[id(node)] = f"o{len(self.buffered)}"
                self.buffered.append(k)
        writer.write(self.part)
        self.temporaries = [Node(None, (), {}, np.empty(*b), None) for b in writer.buffers]
        buffers = [f"b{i}" for i in range(len(writer.buffers))]
        words = [*[a.name for a in block.inputs], *writer.given.values(), *buffers]
        self.label = f"repeated_{len(writer.names.space)}"
        writer.names.space[self.label] = None  # a placeholder until the source runs
        made = [self.results[k].name for k in self.returned]
        end = f"    return {', '.join(made)}{',' if len(made) == 1 else ''}\n" if made else ""
        body = "".join([f"    {line}\n" for line in writer.lines])
        outer.functions.append(f"def {self.label}({', '.join(words)}):\n{body}{end}")
        # Drop references to values of the traced call, because the block holds this object and a cycle would keep them
        # alive.
        del self.block, self.writer, self.part, self.results, self.instances


def _out(ufunc: np.ufunc) -> str:
    """What stands before the place of a result: nothing, because a keyword takes time, but for these NumPy wants it."""
    return "out=" if ufunc is np.maximum or ufunc is np.minimum else ""


def _number(a: Any) -> Any:
    """A constant. An array that repeats one number becomes an array of one element."""
    return a.reshape(-1)[0] if isinstance(a, np.ndarray) and a.ndim else a


def _is_long(a: Any) -> bool:
    """Whether a constant is an array that each block takes a part of."""
    return isinstance(a, np.ndarray) and bool(a.ndim) and any(a.strides)


def block_of(node: Node) -> Any:
    """The kind of the part that computes a node: `CALL`, or blocks for arrays of one shape."""
    sample = node.sample
    if sample.__class__ is not np.ndarray or sample.size < _LONG or sample.dtype.char not in "df?":
        return CALL
    ufunc = array_ufunc(node)
    if not sample.flags.c_contiguous or (ufunc is None and not _is_elementwise(node)):
        return CALL
    chars = ""
    for a in node.args:
        value = a.sample if a.__class__ is Node else a
        if isinstance(value, np.ndarray) and value.ndim:
            if value.shape != sample.shape or value.dtype.char not in "df?":
                return CALL
            if not value.flags.c_contiguous and (any(value.strides) or ufunc is None):
                return CALL
            chars += value.dtype.char
        elif value.__class__ in (int, float, bool) or isinstance(value, np.generic):
            if ufunc not in EXACT:
                return CALL
        else:
            return CALL
    words = tuple([(k, node.words[k].__class__, node.words[k]) for k in sorted(node.words)])
    kept = ufunc in EXACT or keeps_bits_anywhere(node.function if ufunc is None else ufunc, chars, words)
    return ("blocks", sample.shape) if kept else CALL


def _calls(given: Any) -> Any:
    """The nodes as one part of calls. Copies of blocks stay unchanged."""
    if given.__class__ is Instance:
        return given
    part = Part(CALL)
    part.nodes = given
    return part


def spent_of(inputs: list[Node], spends: bool) -> list[Node]:
    """The inputs that a program deletes after their last read."""
    return [a for a in inputs if is_large(a)] if spends else []


def _python_parts(nodes: list[Node], outputs: list[Node], spent: list[Node]) -> list[Any]:
    """The nodes as parts: calls, copies of repeated blocks, and chains of at least two calls in blocks of arrays."""
    long = [n for n in nodes if n.sample.__class__ is np.ndarray and n.sample.size >= _LONG]
    kinds = {id(n): block_of(n) for n in long}
    if all([k == CALL for k in kinds.values()]):  # noqa: C419
        return [_calls(given) for given in in_blocks(nodes, outputs)]
    return list(in_order(nodes, outputs, lambda n: kinds.get(id(n), CALL), spent=spent))


class PythonSource:
    """A program as a Python function.

    Parameters
    ----------
    inputs, nodes, outputs : list of Node
        As in `gtape.tapes.program.Program`.
    name : str
    spends : bool
        As in `gtape.tapes.program.Program`.

    Attributes
    ----------
    run : callable
    source : str
    calls, buffers, nbytes : int
        The number of calls, the number of buffers, and the bytes that the program keeps between calls or needs for
        blocks.
    """

    def __init__(
        self, inputs: list[Node], nodes: list[Node], outputs: list[Node], name: str, *, spends: bool = False
    ) -> None:
        space: dict[str, Any] = {}
        spent = spent_of(inputs, spends)
        parts = _python_parts(nodes, outputs, spent)
        writer = Writer(inputs, parts, outputs, space, spent=spent)
        for part in parts:
            writer.write(part)
        listed = ", ".join([writer.names.text(o) for o in outputs])
        end = f"return ({listed}{',' if outputs else ''})"
        self.source = framed(writer, inputs, end, space, spends=spends)
        self.calls = len(nodes)
        self.buffers, self.nbytes = len(writer.buffers), writer.nbytes
        exec(compile(self.source, f"<gtape program of {name}>", "exec"), space)
        self.run: Callable[..., tuple[Any, ...]] = space["program"]


def framed(
    writer: Writer, inputs: list[Node], end: str, space: dict[str, Any], held: Iterable[str] = (), *, spends: bool
) -> str:
    """The source of a program that takes its buffers from `free` at the start of a call and returns them at the end."""
    arguments = ", ".join([n.name for n in inputs])
    start = f"def program({arguments}):\n"
    if spends:
        start = f"def program(given):\n    {arguments}, = given\n    given.clear()\n"
    functions = "".join(f"{f}\n\n" for f in writer.functions)
    names = [*held, *[f"b{i}" for i in range(len(writer.buffers))]]
    lines = [*writer.checks(inputs), *writer.lines, end]
    if not names:
        body = "".join([f"    {line}\n" for line in lines])
        return f"{functions}{start}{body}"
    if "free" not in space:
        buffers = writer.buffers
        space["free"] = []
        space["buffers"] = lambda: tuple([np.empty(shape, dtype) for shape, dtype in buffers])
    body = "".join([f"        {line}\n" for line in lines])
    return (
        f"{functions}{start}"
        "    try:\n        held = free.pop()\n    except IndexError:\n        held = buffers()\n"
        f"    try:\n        {', '.join(names)}, = held\n{body}    finally:\n        free.append(held)\n"
    )
