"""Reads and changes the names of statements, as source text."""

from __future__ import annotations

import ast
import symtable
from typing import Any

__all__ = ["Unwritten", "has_annotations", "names_outside", "renamed", "replaced"]


class Unwritten(Exception):
    """A name whose value cannot be written down."""


def names_outside(text: str) -> list[str]:
    """The names that a program reads and does not bind in a scope of its own, in alphabetical order.

    Parameters
    ----------
    text : str

    Examples
    --------
    >>> from gtape.verify.causes.statements import names_outside
    >>> names_outside("def f(x: Real, y=0):\\n    return a * x + y")
    ['a']
    """
    # Programs never evaluate annotations; but a class that dataclass reads finds the words of its fields by name.
    whole = symtable.symtable(ast.unparse(_Bare().visit(ast.parse(text))), "<statement>", "exec")
    found = {s.get_name() for s in whole.get_symbols() if s.is_referenced()}
    pending = list(whole.get_children())
    while pending:
        table = pending.pop()
        found |= {s.get_name() for s in table.get_symbols() if s.is_global() and s.is_referenced()}
        pending += table.get_children()
    return sorted(found)


class _Bare(ast.NodeTransformer):
    """Takes the annotations off the functions of a program."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg(arg=node.arg)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        for inner in ast.walk(node):
            if isinstance(inner, ast.AnnAssign):
                inner.annotation = ast.Constant(value=None)
        return self.generic_visit(node)


def has_annotations(text: str) -> bool:
    """Whether a program annotates a name, an argument or a result.

    Parameters
    ----------
    text : str
    """
    return any(
        isinstance(node, ast.AnnAssign) or getattr(node, "annotation", None) or getattr(node, "returns", None)
        for node in ast.walk(ast.parse(text))
    )


def renamed(text: str, old: str, new: str) -> str:
    """A statement with another name for what the name `old` means outside of it.

    Parameters
    ----------
    text, old, new : str

    Raises
    ------
    Unwritten
        If the statement binds the name in a way that has no place of its own in the tree.

    Examples
    --------
    >>> from gtape.verify.causes.statements import renamed
    >>> renamed("f = lambda x, y=xs: (lambda xs: xs)(xs)", "xs", "xs_2")
    'f = lambda x, y=xs_2: (lambda xs: xs)(xs_2)'
    """
    found: list[tuple[ast.AST, str]] = []
    pending: list[ast.AST] = [ast.parse(text)]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Name) and node.id == old:
            found.append((node, new))
        elif isinstance(node, (ast.Global, ast.Nonlocal)) and old in node.names:
            raise Unwritten(old)
        elif old in (getattr(node, "asname", None), getattr(node, "rest", None)) or (
            isinstance(node, (ast.alias, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name == old
        ):
            raise Unwritten(old)  # a name without a place of its own in the tree
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and node.name == old:
            found.append((_Word(text, node), new))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) and _takes(node.args, old):
            # The body means its own argument.
            pending += [*node.args.defaults, *[d for d in node.args.kw_defaults if d is not None]]
            pending += getattr(node, "decorator_list", [])
            continue
        pending += ast.iter_child_nodes(node)
    return replaced(text, found)


class _Word(ast.AST):
    """The place of the name in ``def name`` or ``class name``."""

    def __init__(self, text: str, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        super().__init__()
        line = text.splitlines()[node.lineno - 1].encode()
        self.lineno = self.end_lineno = node.lineno
        self.col_offset = line.index(node.name.encode(), line.index(_KEYWORDS[type(node)]) + 3)
        self.end_col_offset = self.col_offset + len(node.name.encode())


_KEYWORDS = {ast.FunctionDef: b"def", ast.AsyncFunctionDef: b"def", ast.ClassDef: b"class"}


def _takes(args: ast.arguments, name: str) -> bool:
    return any(a is not None and a.arg == name for a in (
        *args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg
    ))  # fmt: skip


def replaced(text: str, found: list[tuple[Any, str]]) -> str:
    """A text with other words in place of some nodes of its tree.

    Parameters
    ----------
    text : str
    found : list of (node, str)
        The nodes, none inside of another, and their words.
    """
    lines = [0]
    whole = text.encode()
    for line in whole.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    spans = [
        (lines[n.lineno - 1] + n.col_offset, lines[n.end_lineno - 1] + n.end_col_offset, word) for n, word in found
    ]
    for begin, end, word in sorted(spans, reverse=True):
        whole = whole[:begin] + word.encode() + whole[end:]
    return whole.decode()
