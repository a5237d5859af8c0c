"""Random programs in a peer's syntax, judged as functions of gtape's are."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

import gtape
from gtape.verify.judging.api import exact
from gtape.verify.judging.claims import judge
from gtape.verify.peers.conversation import Conversation
from gtape.verify.peers.faults import Fault, mechanism
from gtape.verify.peers.libraries import Library
from gtape.verify.programs.program_source import RandomProgram, draw
from gtape.verify.programs.programs import generate

__all__ = ["Untranslatable", "audit_programs", "translated"]

_SETTLED = ("undecided", "domain", "conditioning", "cancellation", "range")


class Untranslatable(Exception):
    """A step has no translation."""


class _Refused(Exception):
    """The peer says that it lacks the derivative of a step."""


def translated(text: str, made: Library) -> str:
    """An expression of gtape in the syntax of a peer.

    Raises
    ------
    Untranslatable
        If the peer's tables lack a function.

    Examples
    --------
    >>> from gtape.verify.peers.libraries import library
    >>> translated("tf.reduce_sum(tf.tanh(v0), axis=1)", library("torch"))
    'torch.sum((lambda x: torch.tanh(x))(v0), dim=1, keepdim=False)'
    """
    return ast.unparse(_Translator(made).visit(ast.parse(text, mode="eval")).body)


class _Translator(ast.NodeTransformer):
    def __init__(self, made: Library) -> None:
        self.made = made

    def visit_Call(self, node: ast.Call) -> ast.AST:
        path = _path(node.func)
        if not path or path[0] != "tf":
            return self.generic_visit(node)
        name = path[-1]
        args = [self.visit(a) for a in node.args]
        keywords = {str(k.arg): self.visit(k.value) for k in node.keywords}
        if name in self.made.functions and not keywords:
            return _parsed(_applied(self.made.expressions(name)[0], [ast.unparse(a) for a in args]))
        template = self.made.calls.get(name)
        if template is None:
            if "*" not in self.made.calls:
                raise Untranslatable(name)
            node.args, node.keywords = args, [ast.keyword(k, v) for k, v in keywords.items()]
            return node
        try:
            signature = inspect.signature(_found(path))
            bound = signature.bind(*args, **keywords)
        except (TypeError, AttributeError) as e:
            raise Untranslatable(f"{name}: {e}") from None
        bound.apply_defaults()
        several = {k for k, p in signature.parameters.items() if p.kind is p.VAR_POSITIONAL}
        words = {
            k: ", ".join(map(ast.unparse, v)) if k in several else ast.unparse(v) if isinstance(v, ast.AST) else repr(v)
            for k, v in bound.arguments.items()
        }
        given = set(bound.arguments) & set(keywords)
        unknown = {k for k in given if "{" + k + "}" not in template and list(bound.arguments).index(k) >= len(args)}
        if any(words[k] not in ("None", "False") for k in unknown - {"name"}):
            raise Untranslatable(f"{name} with {', '.join(sorted(unknown))}")
        return _parsed(template.format(*words.values(), **words))

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        path = _path(node)
        if path and path[0] == "tf" and "*" not in self.made.calls:
            kind = self.made.calls.get("dtype")
            if kind is None or path[-1] not in ("float32", "float64"):
                raise Untranslatable(".".join(path))
            return _parsed(kind.format(path[-1]))
        return self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if self.made.name == "torch" and "::-1" in ast.unparse(node.slice):
            raise Untranslatable("a negative step")
        return self.generic_visit(node)


def _path(node: ast.AST) -> list[str]:
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return [*([node.id] if isinstance(node, ast.Name) else []), *reversed(names)]


def _found(path: Sequence[str]) -> Any:
    found: Any = gtape
    for name in path[1:]:
        found = getattr(found, name)
    return found


def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _applied(expression: str, args: Sequence[str]) -> str:
    return f"(lambda {', '.join('xyz'[: len(args)])}: {expression})({', '.join(args)})"


def _inputs(program: RandomProgram) -> dict[str, Any]:
    return {
        i.name: draw(i.seed, i.low, i.high, i.shape, np.dtype(program.dtype), i.grid, i.special) for i in program.inputs
    }


class _Cut:
    """The part of a program that one step needs."""

    def __init__(self, program: RandomProgram, length: int, made: Library) -> None:
        self.values = _inputs(program)
        texts = dict(program.steps[:length])
        self.target = program.steps[length - 1][0]
        needed, pending = set(), [self.target]
        while pending:
            name = pending.pop()
            if name not in needed:
                needed.add(name)
                pending += [
                    n.id for n in ast.walk(ast.parse(texts.get(name, name))) if isinstance(n, ast.Name) and n.id != name
                ]
        self.steps = [(n, t) for n, t in program.steps[:length] if n in needed]
        kept = [i for i in program.inputs if i.name in needed]
        self.names = [i.name for i in kept]
        self.sources = [k for k, i in enumerate(kept) if i.kind != "constant"]
        body = [f"    {n} = {translated(t, made)}" for n, t in self.steps]
        self.source = "\n".join([f"def f({', '.join(self.names)}):", *body, f"    return {self.target}"])

    def function(self, *sources: Any) -> Any:
        names: dict[str, Any] = {"tf": gtape, "np": np}
        names |= {n: gtape.constant(self.values[n]) for n in self.names}
        names |= {self.names[k]: v for k, v in zip(self.sources, sources, strict=True)}
        for name, text in self.steps:
            names[name] = eval(text, names)
        return names[self.target]

    def arguments(self) -> list[Any]:
        return [self.values[n] for n in self.names]


def audit_programs(peer: Conversation, seeds: Iterable[int]) -> tuple[list[Fault], int]:
    """Judge the gradients of the random programs of some seeds in the peer's own syntax.

    Returns
    -------
    list of Fault
        One for each wrong program, cut to the fewest steps that show the fault.
    int
        The number of judged numbers.
    """
    made = peer.library
    modes = [tuple(m) for m in made.modes if tuple(m) in (("reverse",), ("tape",))]
    faults: list[Fault] = []
    judged = 0
    for number in seeds:
        program = generate(number, special=number % 2 == 1)
        length = _translatable(program, made)
        if not length:
            continue
        for mode in modes:
            found, numbers = _found_in(peer, program, length, mode)
            judged += numbers
            faults += [] if found is None else [found]
    return faults, judged


def _found_in(
    peer: Conversation, program: RandomProgram, length: int, mode: tuple[str, ...]
) -> tuple[Fault | None, int]:
    """The fault of a program, cut to the fewest steps; None if the peer lacks the derivative of a step."""
    try:
        found, numbers = _judged(peer, program, length, mode)
        if found is None:
            return None, numbers
        used = {name for name, _ in _Cut(program, length, peer.library).steps}
        for shorter in range(1, length):
            if program.steps[shorter - 1][0] not in used:
                continue
            earlier, _ = _judged(peer, program, shorter, mode)
            if earlier is not None:
                return earlier, numbers
    except _Refused:
        return None, 0
    return found, numbers


def _translatable(program: RandomProgram, made: Library) -> int:
    for k, (_, text) in enumerate(program.steps):
        try:
            translated(text, made)
        except Untranslatable:
            return k
    return len(program.steps)


def _judged(peer: Conversation, program: RandomProgram, length: int, mode: tuple[str, ...]) -> tuple[Fault | None, int]:
    made = peer.library
    cut = _Cut(program, length, made)
    if not cut.sources:
        return None, 0
    args = cut.arguments()
    whole = Fault(
        made.name, "program", cut.source, mode, (), program.dtype, "", cut.steps[-1][1].partition("(")[0],
        tuple(args), (), "", "", "",
    )  # fmt: skip
    points = [args[k] for k in cut.sources]
    values = []
    for k in cut.sources:
        reply = peer.ask(f"{cut.source}\nresult = lower({mode[0]}(f, {k})(*map(lift, arrays)))", args)
        if reply.kind in ("crash", "hang"):
            return whole._replace(what=reply.kind, by=(k,), got=f"the process {reply.text}", exact="(finite)"), 0
        if reply.kind == "error" and any(piece in f"{reply.name}: {reply.text}" for piece in made.refusals):
            raise _Refused
        if reply.kind != "array" or np.shape(reply.array) != np.shape(args[k]):
            return None, 0  # the translation does not fit, such as a shape that the peer does not broadcast
        values.append(np.asarray(reply.array))
    try:
        with np.errstate(all="ignore"):
            found = exact(cut.function, *points, digits=40)
    except (ArithmeticError, ValueError, TypeError):
        return None, 0
    blocks = [np.asarray(b) for b in (found if len(points) > 1 else (found,))]
    true = [b.astype(np.float64) for b in blocks]
    half = float(np.sqrt(np.finfo(program.dtype).eps))
    largest = max(float(np.max(np.abs(t), initial=0.0)) for t in true)
    numbers = sum(t.size for t in true)
    with np.errstate(all="ignore"):
        wrong = [~(np.abs(v.astype(np.float64) - t) <= half * largest) for v, t in zip(values, true, strict=True)]
        if not any(w.any() for w in wrong) or largest > float(np.finfo(program.dtype).max) / 4:
            return None, numbers
        report = judge(cut.function, tuple(points), tuple(values) if len(values) > 1 else values[0])
    bad = [f for f in report.findings if not f.ok and f.verdict not in _SETTLED]
    if not bad or any(f.verdict in _SETTLED for f in report.findings):
        return None, numbers
    s = next(k for k, w in enumerate(wrong) if w.any())
    at = tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong[s])), wrong[s].shape))
    got = float(values[s][at])
    what = "nan" if np.isnan(got) else "infinite" if np.isinf(got) else "zero" if got == 0 else "wrong"
    if any(f.verdict == "convention" for f in report.findings):
        what = "kink"
    shown = whole._replace(
        what=what, by=(cut.sources[s],), element=at, got=got, exact=str(blocks[s][at]), why=bad[0].reason,
        mechanism="" if what == "kink" else mechanism([what], False),
    )  # fmt: skip
    return shown, numbers
