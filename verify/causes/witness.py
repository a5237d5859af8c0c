"""Writes a minimal program, as text that runs, to show a wrong op."""

from __future__ import annotations

import functools
import itertools
import re
import textwrap
import warnings
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from types import FunctionType
from typing import Any

import numpy as np

from gtape.base.deadline import OutOfTime
from gtape.base.escaping import plain
from gtape.base.shown import shown
from gtape.declare.primitives import REGISTRY
from gtape.errors import VerificationError
from gtape.symbolic.program import Node, Program
from gtape.tensors.tensor import Tensor
from gtape.tensors.variable import Variable
from gtape.verify.causes.source_text import IMPORTS, Definitions, declaring, import_of, joined, literal
from gtape.verify.oracles.replay import Shared
from gtape.verify.verdicts.collect import uncollected
from gtape.verify.verdicts.verdict import Finding, Report

__all__ = ["add_witnesses"]

# True while a witness runs for a test, because this check needs no witness of its own.
_trying: ContextVar[bool] = ContextVar("gtape_trying_a_witness", default=False)
_ELEMENTS = 8  # number of single elements tried before the op with all its inputs
_LARGEST = 64
_MANY = 4  # ops with a witness per report

_FORWARD = 0  # stands for the order of a witness in forward mode
_LONGEST = 20  # ops of a program that is written out whole
_COLUMNS = 100

_HEAD = f"""\
{IMPORTS}from gtape.declare.primitives import REGISTRY
"""
# The names of a witness's own lines mean nothing in the user's program.
_OWN = "acc g inner_tape ps tape ts xs y"
_USED = {"REGISTRY": REGISTRY, **dict.fromkeys(_OWN.split(), object())}


def add_witnesses(
    program: Program, report: Report, *, forward: bool = False, shared: Shared | None = None
) -> None:  # fmt: skip
    """Give each op to blame a witness: the op alone, at a single element if one suffices, or the recorded program.

    Parameters
    ----------
    report : Report
        Its findings are changed in place. A finding without a witness says why there is none.
    forward : bool
        Whether the findings are about forward mode.
    shared : Shared, optional
        The data that the rows of this program share: a witness of one row is a witness of the others, too.
    """
    kept = (shared or Shared()).get
    if _trying.get():
        return
    made: dict[Any, tuple[str | None, str | None]] = {}
    for finding in report.findings:
        if finding.ok or finding.verdict not in ("rule", "unstable"):
            continue
        if finding.witness is not None or finding.without_witness is not None:
            continue
        key = finding.op, finding.line, finding.order
        if key not in made:
            # No witness depends on the cotangents of a row, but one of a single op depends on the op's element.
            place = finding.element if finding.element is not None and isinstance(finding.element[0], str) else None
            make = functools.partial(_witness, program, finding, forward)
            made[key] = (
                kept(("witness", key, place, forward), make)
                if len(made) < _MANY
                else (None, f"only {_MANY} ops get a witness")
            )
        finding.witness, finding.without_witness = made[key]


def _witness(program: Program, finding: Finding, forward: bool) -> tuple[str | None, str | None]:
    """The witness of a finding, and the reason if there is none."""
    node = next(
        (n for n in program.nodes if n.kind in ("op", "custom") and (n.name, n.line) == (finding.op, finding.line)),
        None,
    )
    reasons: list[str] = []
    errors: list[str] = []
    for text, header in _candidates(program, node, finding, reasons, forward):
        error = _error(text)
        if error is None:
            return joined(header, text), None
        errors += [error] * bool(error)
    if errors and not reasons:
        what = "of the recorded ops" if node is None else f"for {node.name}"
        reasons.append(f"the program {what} ends in {errors[0]}")
    if not reasons:
        who = "no single op is to blame, and the recorded ops" if node is None else f"{node.name} alone"
        reasons.append(f"{who}, run again, {'do' if node is None else 'does'} not show the fault")
    return None, "; ".join(reasons)


def _candidates(
    program: Program, node: Node | None, finding: Finding, reasons: list[str], forward: bool
) -> Iterator[tuple[str, str]]:
    """Programs that may show a fault, the smallest first, each with the text that must precede the program."""
    orders = (_FORWARD, 1) if forward else (1, 2) if finding.order > 1 else (1,)
    if node is not None:
        heads = [_HEAD] if node.kind == "op" else _definitions(node, reasons)
        before = declaring(node.prim) if node.kind == "op" else ""
        for head, name in ((h, None) if isinstance(h, str) else h for h in heads):
            for inputs in _inputs(program, node, finding, reasons):
                for order in orders:
                    yield _text(head, node, name, inputs, order), before
    whole = _whole(program, reasons)
    if whole is not None:
        yield from ((whole(order), _declarations(program)) for order in orders)


def _definitions(node: Node, reasons: list[str]) -> list[Any]:
    """Texts that define a custom gradient, each with the name in this text."""
    function = node.call[0]
    program = Definitions(_USED)
    name = program.custom(function)
    made = [pair for pair in (name and (program.text(), name), import_of(function)) if pair]
    if program.unwritten:
        names = ", ".join(dict.fromkeys(program.unwritten))
        reasons.append(f"{node.name} depends on its surroundings: {names} cannot be written down")
    elif not made and not isinstance(function, FunctionType):
        reasons.append(f"{node.name} belongs to an object, which cannot be written down")
    elif not made:
        reasons.append(f"the source of {node.name} is unknown, or depends on its surroundings")
    return made


def _declarations(program: Program) -> str:
    """The lines that declare the ops of a program again."""
    return "".join(dict.fromkeys(declaring(n.prim) for n in program.nodes if n.kind == "op"))


def _inputs(program: Program, node: Node, finding: Finding, reasons: list[str]) -> list[list[Any]]:
    """Inputs at which an op may show its fault."""
    inputs = [np.asarray(program.nodes[j].output) for j in node.inputs]
    found = []
    if node.kind == "op" and node.prim.kind == "elementwise" and node.shape:
        spread = [np.broadcast_to(x, node.shape) for x in inputs]
        where = finding.element[1] if finding.element is not None and isinstance(finding.element[0], str) else ()
        here = len(where) == len(node.shape) and all(i < n for i, n in zip(where, node.shape, strict=True))
        places = [where] if here else list(itertools.islice(np.ndindex(*node.shape), _ELEMENTS))
        found = [[x[place] for x in spread] for place in places]
    if sum(x.size for x in inputs) <= _LARGEST:
        found.append(inputs)
    elif not found:
        reasons.append(f"the inputs of {node.name} are too large to be written down")
    return found


def _text(head: str, node: Node, name: str | None, inputs: list[Any], order: int) -> str:
    """A program that differentiates one op, or one custom gradient of a given name."""
    if node.kind == "custom":
        call = _call_of_custom(node, str(name))
    else:
        words = ["*xs", *[f"{k}={v!r}" for k, v in node.params.items()]]
        call = _broken(f"REGISTRY[{node.prim.name!r}](", words)
    seeds = ""
    if not isinstance(node.output, tuple):
        elementwise = node.kind == "op" and node.prim.kind == "elementwise"
        shape = np.broadcast_shapes(*map(np.shape, inputs)) if elementwise else node.shape
        seeds = _weights(shape, np.asarray(node.output).dtype.name)
    return head + _tape(inputs, [f"y = {call}"], "y", seeds, order)


def _weights(shape: tuple[int, ...], dtype: str) -> str:
    n = int(np.prod(shape))
    if n <= 1:
        return ""
    # Unequal weights, because the derivative of a sum of probabilities is 0.
    return f", output_gradients=np.arange(1, {n + 1}).reshape({shape}).astype({dtype!r})"


def _tape(inputs: list[Any], lines: list[str], y: str, seeds: str, order: int) -> str:
    """The lines that record a program at some inputs, and take its gradient of an order."""
    xs = _broken("xs = [", [_array(x) for x in inputs], "]")
    watch = "tape.watch([x for x in xs if x.dtype.is_floating or x.dtype.is_complex])"
    body = [watch, *lines] if order == 1 else [
        watch,
        "with gtape.GradientTape() as inner_tape:",
        *[f"    {line}" for line in (watch.replace("tape", "inner_tape", 1), *lines)],
        f"g = [g for g in inner_tape.gradient({y}, xs{seeds}) if g is not None]",
    ]  # fmt: skip
    last = f"tape.gradient({y}, xs{seeds})" if order == 1 else "tape.gradient(g, xs)"
    if order == _FORWARD:
        body = lines
        last = f"acc.jvp({y})"
        statement = (
            "ps = [x for x in xs if x.dtype.is_floating or x.dtype.is_complex]\n"
            "ts = [gtape.ones_like(p) for p in ps]\n"
            "with gtape.verifying(), gtape.autodiff.ForwardAccumulator(ps, ts) as acc:"
        )
    else:
        statement = "with gtape.GradientTape(verify=True) as tape:"
    inside = "\n".join(body).replace("\n", "\n    ")
    return f"{xs}\n{statement}\n    {inside}\n{last}\n"


def _array(x: Any) -> str:
    x = np.asarray(x)
    text = repr(x.tolist())
    if x.dtype.kind in "fc" and not np.isfinite(x).all():
        text = re.sub(r"\b(inf|nan)\b", r"np.\1", text)
    return f"gtape.constant(np.array({text}, dtype={x.dtype.name!r}))"


def _broken(begin: str, words: list[str], end: str = ")") -> str:
    """A call or a list; on several lines if one is too long."""
    line = f"{begin}{', '.join(words)}{end}"
    if len(line) <= _COLUMNS - 8:
        return line
    parts = "".join([textwrap.indent(_filled(f"{w},"), "    ") + "\n" for w in words])
    return f"{begin}\n{parts}{end}"


def _filled(text: str) -> str:
    # Broken at blanks only, which are behind commas: a list of numbers means the same on several lines.
    return "\n".join(
        textwrap.wrap(text, _COLUMNS - 8, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    )


def _call_of_custom(node: Node, name: str) -> str:
    """The recorded call of a custom gradient, with its tensors taken from ``xs``."""
    _, args, kwargs = node.call
    places = itertools.count()
    words = [_argument(x, places) for x in args]
    words += [f"{k}={literal(v) or shown(v)}" for k, v in kwargs.items()]
    return _broken(f"{name}(", words)


def _argument(x: Any, places: Iterator[int]) -> str:
    """One argument of a custom gradient; its tensors are the next of ``xs``."""
    if isinstance(x, (list, tuple)):
        parts = ", ".join([_argument(part, places) for part in x])
        return f"[{parts}]" if isinstance(x, list) else f"({parts}{',' * (len(x) == 1)})"
    if isinstance(x, dict):
        return "{" + ", ".join([f"{k!r}: {_argument(x[k], places)}" for k in sorted(x)]) + "}"
    place = next(places)
    is_data = isinstance(x, (Tensor, Variable, np.ndarray, np.generic))
    return f"xs[{place}]" if is_data else literal(x) or shown(x)


def _whole(program: Program, reasons: list[str]) -> Callable[[int], str] | None:
    """The recorded program as text, by order; None if it is too large, or takes gradients itself."""
    nodes = program.nodes
    ops = [n for n in nodes if n.kind in ("op", "custom", "item")]
    leaves = [n for n in nodes if n.kind in ("leaf", "const")]
    if any(n.mark is not None for n in nodes):
        return None
    if len(ops) > _LONGEST or sum(int(np.size(n.output)) for n in leaves) > _LARGEST or len(program.outputs) != 1:
        return None
    definitions = Definitions(_USED)
    sources = [i for found in program.sources for i in found[:1]]
    names = {i: f"xs[{k}]" for k, i in enumerate(dict.fromkeys(sources))}
    lines = []
    inside = {i for n in nodes if n.kind == "custom" for i in program.ancestors(n.body)}
    inside -= {i for n in nodes if n.kind == "custom" for i in program.ancestors(n.inputs)}
    for n in nodes:
        if n.index in names or n.index in inside:
            continue
        if n.kind in ("leaf", "const"):
            made = _array(n.output)
        elif n.kind == "item":
            made = f"{names[n.inputs[0]]}[{n.params['index']}]"
        elif n.kind == "custom":
            name = definitions.custom(n.call[0])
            if name is None or isinstance(n.output, tuple):
                return None
            called = {f"xs[{a}]": names[j] for a, j in enumerate(n.inputs)}
            made = re.sub(r"xs\[\d+\]", lambda m, called=called: called[m[0]], _call_of_custom(n, name))  # type: ignore[misc]
        else:
            words = [names[j] for j in n.inputs] + [f"{k}={v!r}" for k, v in n.params.items()]
            made = _broken(f"REGISTRY[{n.prim.name!r}](", words)
        names[n.index] = f"v{n.index}"
        lines.append(f"v{n.index} = {made}")
    output = nodes[program.outputs[0]]
    seeds = _weights(output.shape, np.asarray(output.output).dtype.name)
    inputs = [np.asarray(nodes[i].output) for i in dict.fromkeys(sources)]
    head = joined(_HEAD, definitions.text())
    return lambda order: head + _tape(inputs, lines, names[output.index], seeds, order)


def _error(text: str) -> str | None:
    """None if the text raises a VerificationError with a fitting verdict; else the error that ends it, if any."""
    before = _trying.get()
    names: dict[str, Any] = {}
    try:
        _trying.set(True)
        with warnings.catch_warnings(), uncollected():
            warnings.simplefilter("ignore")
            exec(compile(text, "<witness>", "exec", dont_inherit=True), names)
    except VerificationError as e:
        # Refuse a domain error, because then the op alone does not show the fault.
        return None if e.report.verdict in ("rule", "unstable", "undecided") else ""
    except OutOfTime:
        raise
    except Exception as e:
        return f"{type(e).__name__}: {plain(e)}"
    finally:
        _trying.set(before)
        names.clear()  # functions hold this dict, and the cycle would wait for the collector
    return ""
