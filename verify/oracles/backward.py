"""One reverse sweep over a recorded program, in any arithmetic: floats, enclosures, or floats with noise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from gtape.base.deadline import tick
from gtape.base.layout import make_layout
from gtape.engine.rules import PartialOutputs, cotangents, reached
from gtape.engine.worlds import COMPLEX, NUMPY
from gtape.recording.undoing import repeating
from gtape.symbolic.program import Node, Program
from gtape.tensors.tensor import wrap

__all__ = [
    "Algebra",
    "RunsOnce",
    "backward",
    "by_rule",
    "by_user",
    "calling_again",
    "demand_second_call",
    "gradient",
    "kept_and_again",
    "kept_off",
    "left_out",
    "runs_of_user",
    "shaped_as",
]


class Algebra:
    """The arithmetic of a sweep: how cotangents are lifted, added, and passed through an op.

    Attributes
    ----------
    kept : dict or None
        Receives for each node in the sweep the cotangent that arrived and the cotangents of the node's active inputs.
    """

    kept: dict[int, tuple[Any, list[Any]]] | None = None

    def lift(self, c: Any) -> Any:
        """The recorded cotangent of an output as a value of this arithmetic."""
        return np.asarray(c)

    def add(self, a: Any, b: Any) -> Any:
        """The sum of two cotangents."""
        return a + b

    def arrive(self, cotangents: dict[int, Any], j: int, c: Any) -> None:
        """Add a cotangent to those of node `j`."""
        cotangents[j] = self.add(cotangents[j], c) if j in cotangents else c

    def reached(self, node: Node, g: Any) -> None:
        """Called for each node with a cotangent, when all parts of the cotangent have arrived."""

    def rule(self, node: Node, g: Any) -> list[Any]:
        """The cotangents of an op's active inputs, by the op's own rule."""
        raise NotImplementedError

    def custom(self, node: Node, g: Any) -> list[Any] | None:
        """The cotangents of a custom gradient's active inputs; None if the sweep goes through the body instead."""
        raise NotImplementedError


def backward(program: Program, start: dict[int, Any], algebra: Algebra, session: Any) -> dict[int, Any]:
    """Sweep back over all nodes that `start` depends on, as one tape follows them.

    Parameters
    ----------
    start : dict
        Node -> its cotangent.
    session : Session or None
        Of the tape that takes the gradient: the sweep leaves out the inputs that this tape does not follow.

    Returns
    -------
    dict
        Node -> its cotangent, for every node that the sweep reached.
    """
    blocked = program.blocked(session)
    found = dict(start)
    for i in reversed(program.ancestors(start)):
        g = found.get(i)
        if g is None:
            continue
        tick()
        node = program.nodes[i]
        algebra.reached(node, g)
        closed = blocked.get(i, ())
        if node.kind in ("leaf", "const") or len(closed) == len(node.active):
            continue
        made: list[Any] | None
        if node.kind == "item":
            made = [PartialOutputs({node.params["index"]: g})]
        else:
            made = algebra.custom(node, g) if node.kind == "custom" else algebra.rule(node, g)
        if made is None:
            pairs: Iterable[tuple[int, Any]] = [(node.body[k], c) for k, c in PartialOutputs.of(g).items()]
        else:
            if algebra.kept is not None:
                algebra.kept[i] = g, made
            pairs = [(node.inputs[a], c) for a, c in zip(node.active, made, strict=True) if a not in closed]
        for j, c in pairs:
            if c is not None:
                algebra.arrive(found, j, c)
    return found


def gradient(program: Program, seeds: list[Any], algebra: Algebra) -> list[Any]:
    """The gradient of a program with respect to each of its sources; None where no cotangent arrives.

    Parameters
    ----------
    seeds : list of arrays or None
        The recorded cotangent of each output.
    """
    start: dict[int, Any] = {}
    for i, c in zip(program.outputs, seeds, strict=True):
        if c is not None:
            algebra.arrive(start, i, np.broadcast_to(algebra.lift(c), program.nodes[i].shape))
    found = backward(program, start, algebra, program.session)
    totals: dict[int, Any] = {}
    for s, nodes in enumerate(program.sources):
        for i in nodes:
            if i in found:
                totals[s] = algebra.add(totals[s], found[i]) if s in totals else found[i]
    return [totals.get(s) for s in range(len(program.sources))]


def by_rule(
    world: Any, node: Node, g: Any, y: Any, xs: Iterable[Any], like: Iterable[Any], live: Any = None, *,
    batch: bool = False,
) -> list[Any]:  # fmt: skip
    """The cotangents of an op's active inputs by the op's own rule, in a world.

    Parameters
    ----------
    world : world
    g, y : cotangent and output in that world, tuples for several outputs
    xs : iterable
        The inputs in that world; a linear rule does not read them.
    like : iterable of arrays
        The inputs whose shapes and dtypes a rule may read.
    live : bool array, optional
        The elements of an elementwise op that count; the others give 0.
    batch : bool
        Whether the cotangent has a leading axis of independent cotangents.
    """
    layouts: tuple[Any, ...]
    if node.prim.kind == "linear" and not node.prim.variadic:
        xs = layouts = tuple([_layout(v) for v in like])  # as on the tape, because the rule reads only layouts
    else:
        xs, layouts = tuple(xs), tuple(map(np.asarray, like))
    shape = () if isinstance(y, tuple) else np.shape(y)
    masks = None if live is None else [live] * len(node.active)
    return cotangents(world, node.step, g, y, xs, layouts=layouts, out_shape=shape, masks=masks, batch=batch)


def shaped_as(recorded: Any, value: Any) -> Any:
    """A recorded input of an op for a rule that reads its shape and dtype, in the shape of the input's value elsewhere.

    With another outcome of a decision, a mask may pick more elements than recorded, or fewer.
    """
    if isinstance(recorded, tuple) or np.shape(recorded) == np.shape(value):
        return recorded
    return np.zeros(np.shape(value), np.asarray(recorded).dtype)


def by_user(node: Node, g: Any) -> list[Any]:
    """The cotangents of a custom gradient's active inputs, as the user's function returns them for floats.

    The changes of state that the function makes are undone.
    """
    given = _given(node, g)
    with repeating(), calling_again(node):
        return node.step.again(NUMPY, given)  # type: ignore[no-any-return]


def runs_of_user(node: Node, g: Any, times: int) -> list[list[Any]]:
    """As `by_user`, for several calls of which each begins with the state that the one before left."""
    given = _given(node, g)
    with repeating(), calling_again(node):
        return [node.step.cotangents(NUMPY, given) for _ in range(times)]


def kept_and_again(node: Node) -> list[list[Any]]:
    """The cotangents of the run that was kept, and of a new call of the user's function; the first alone if unknown."""
    kept = node.step.recorded
    if kept is None:
        return [[]]
    with repeating(), calling_again(node):
        again = node.step.run([wrap(g._value) for g in kept.gs])
    return [[None if made[a] is None else made[a]._value for a in node.active] for made in (kept.made, again)]


def demand_second_call(node: Node) -> None:
    """Raise `RunsOnce` if the user's function refuses the cotangents of the run that was kept."""
    kept = node.step.recorded
    if kept is not None:
        with repeating(), calling_again(node):
            node.step.run([wrap(g._value) for g in kept.gs])


class RunsOnce(ArithmeticError):
    """A user's gradient function refuses a second call, and the ops of its first call do not suffice."""


@contextmanager
def calling_again(node: Node) -> Iterator[None]:
    """Tell errors of functions that serve for one call only from other errors of the user's.

    Raises
    ------
    RunsOnce
        If the function raises an error in the block, and also for the cotangents of its first call.
    """
    try:
        yield
    except Exception as e:  # the function of a user may raise anything
        if not node.step.serves_once():
            raise
        raise RunsOnce(
            f"the check needs a second call of the gradient function of {node.name}, which raises "
            f"{type(e).__name__}: {e}"
        ) from e


def _given(node: Node, g: Any) -> Any:
    """A cotangent of a custom gradient as floats."""
    outputs = node.output if isinstance(node.output, tuple) else (node.output,)
    given = PartialOutputs.filled(g, node.output)
    if isinstance(given, tuple):
        given = tuple([np.asarray(c, np.asarray(o).dtype) for c, o in zip(given, outputs, strict=True)])
    else:
        given = np.asarray(given, np.asarray(outputs[0]).dtype)
    return given


def kept_off(
    made: list[Any],
    g: Any,
    finite: Callable[[Any], Any] = np.isfinite,
    zero: Any = 0,
    again: Callable[[Any], list[Any]] | None = None,
    left: Callable[[], list[Any] | None] | None = None,
) -> list[Any]:
    """The cotangents of an elementwise op's inputs, with zeros where `g` is 0 and a partial is not finite.

    A selection switched such an element off, and the element stays off. ``again(live)`` gives the cotangents with only
    the elements that count, for inputs that the op broadcast, because their cotangents are sums. ``left()`` gives the
    elements that the op itself leaves out, as `left_out` does.
    """
    kept = []
    for k, c in enumerate(made):
        if c is not None and c is not g:
            good = finite(c)
            if good is not True and not good.all():
                off = np.asarray(g == 0, bool)
                if left is not None and (masks := left()) is not None:
                    off = off | masks[k]
                if np.shape(c) == np.shape(g):
                    c = np.where(~good & off, zero, c)
                elif again is not None and off.any():
                    c = again(~off)[k]
        kept.append(c)
    return kept


def left_out(node: Node, y: Any, xs: Iterable[Any]) -> list[Any] | None:
    """The elements in which a selecting elementwise op leaves an active input out, by floats; None for other ops."""
    prim, xs = node.prim, tuple(xs)
    if not prim.selects:
        return None
    ones = np.ones(np.shape(y))
    made = cotangents(COMPLEX, node.step, ones, y, xs, layouts=(), out_shape=ones.shape, whole=True)
    return [~m for m in reached(prim, made, ones, xs)]


def _layout(value: Any) -> Any:
    """Shape and dtype of a value; a tuple counts as one object."""
    if isinstance(value, tuple):
        return make_layout(np.dtype(object), ())
    value = np.asarray(value)
    return make_layout(value.dtype, value.shape)
