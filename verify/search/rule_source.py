"""Finds the source of a rule, and compiles it again with one place of its formula changed.

A changed rule runs in every world like the declared one, because it is made of the same source, names and parameters.
"""

from __future__ import annotations

import ast
import copy
import inspect
import types
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from gtape.declare.primitives import REGISTRY

__all__ = ["Change", "changed", "changes", "rule_node"]

Node = ast.Lambda | ast.FunctionDef


class Change(NamedTuple):
    """One place of a rule's formula, changed.

    Attributes
    ----------
    kind : str
        The kind of fault, one of `KINDS`.
    before, after : str
        The source of the place, before and after.
    path : tuple
        The way from the rule's node to the place: names of fields, and positions in lists.
    node : ast.AST
        The new node.
    """

    kind: str
    before: str
    after: str
    path: tuple[str | int, ...]
    node: ast.AST


KINDS = {
    "factor": "m1 drop a factor",
    "negate": "m2 flip a sign",
    "value": "m5 input for output, or output for input",
    "swap": "m6 swap arguments",
    "select": "m11 multiply instead of select",
    "axis": "m14 axis, order or side",
}


@lru_cache(maxsize=64)
def _functions_of(path: str) -> dict[tuple[str, int], list[Node]]:
    """The functions and lambdas in a file, in the order of a walk, by the name and the first line of their code."""
    try:
        with open(path, encoding="utf-8") as f:
            tree = ast.parse(f.read())
    except (OSError, SyntaxError, ValueError):
        return {}
    found: dict[tuple[str, int], list[Node]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            for line in {node.lineno, *[d.lineno for d in node.decorator_list]}:
                found.setdefault((node.name, line), []).append(node)
        elif isinstance(node, ast.Lambda):
            found.setdefault(("<lambda>", node.lineno), []).append(node)
    return found


def rule_node(rule: Callable[..., Any]) -> Node | None:
    """The lambda or the function in whose source a rule is written; None if there is no source.

    Examples
    --------
    >>> from gtape.declare.primitives import REGISTRY
    >>> import gtape.ops.elementwise.hyperbolic
    >>> ast.unparse(rule_node(REGISTRY["sinh"].rules[0]))
    'lambda xp, y, x: xp.cosh(x)'
    """
    if not isinstance(rule, types.FunctionType):
        return None
    code = rule.__code__
    # The first instructions of a function have the place of its first line, so only places with a width count.
    places = [(p[0], p[2]) for p in code.co_positions() if None not in p and (p[0], p[2]) != (p[1], p[3])]
    found: list[Node] = []
    for node in _functions_of(inspect.getsourcefile(rule) or "").get((code.co_name, code.co_firstlineno), ()):
        if isinstance(node, ast.Lambda):
            body = node.body
            start, end = (body.lineno, body.col_offset), (body.end_lineno or 0, body.end_col_offset or 0)
            same = [a.arg for a in node.args.args] == _names(code)
            if not (same and places and all(start <= p <= end for p in places)):
                continue
        found.append(node)
    return found[-1] if found else None


def _names(code: types.CodeType) -> list[str]:
    return list(code.co_varnames[: code.co_argcount])


def _compiled(rule: types.FunctionType, node: Node) -> Callable[..., Any]:
    """The function of a node, with the names that the rule sees."""
    free = rule.__code__.co_freevars
    parameters = ast.arguments(
        posonlyargs=[], args=[ast.arg(n) for n in free], kwonlyargs=[], kw_defaults=[], defaults=[]
    )
    made: Any
    if isinstance(node, ast.Lambda):
        outer = ast.Expression(ast.Lambda(parameters, node))
        code = compile(ast.fix_missing_locations(outer), rule.__code__.co_filename, "eval")
        made = eval(code, rule.__globals__)
    else:
        node.decorator_list = []
        node.returns = None
        body: list[ast.stmt] = [node, ast.Return(ast.Name(node.name, ast.Load()))]
        function = ast.FunctionDef("_outer", parameters, body, [])
        if hasattr(function, "type_params"):
            function.type_params = []
        module = ast.fix_missing_locations(ast.Module([function], []))
        space: dict[str, Any] = {}
        exec(compile(module, rule.__code__.co_filename, "exec"), rule.__globals__, space)
        made = space["_outer"]
    made = made(*[cell.cell_contents for cell in rule.__closure__ or ()])
    made.__defaults__, made.__kwdefaults__ = rule.__defaults__, rule.__kwdefaults__
    return made  # type: ignore[no-any-return]


def changed(rule: Callable[..., Any], change: Change) -> Callable[..., Any]:
    """The rule with one place changed."""
    node = rule_node(rule)
    if node is None or not isinstance(rule, types.FunctionType):
        raise ValueError(f"the source of {rule!r} is not known")
    node = copy.deepcopy(node)
    at: Any = node
    for step in change.path[:-1]:
        at = at[step] if isinstance(step, int) else getattr(at, step)
    last = change.path[-1]
    if isinstance(last, int):
        at[last] = copy.deepcopy(change.node)
    else:
        setattr(at, last, copy.deepcopy(change.node))
    return _compiled(rule, node)


# ------------------------------------------------------------------------------------------------ places

_OPPOSITE: dict[type, type[ast.operator]] = {ast.Add: ast.Sub, ast.Sub: ast.Add}


def changes(rule: Callable[..., Any]) -> list[Change]:
    """All single changes of a rule's formula; none if the source of the rule is unknown.

    Examples
    --------
    >>> from gtape.declare.primitives import REGISTRY
    >>> import gtape.ops.elementwise.arithmetic
    >>> [(c.kind, c.before, c.after) for c in changes(REGISTRY["square"].rules[0])]
    [('factor', '2 * x', '2'), ('factor', '2 * x', 'x'), ('value', 'x', 'y')]
    """
    node = rule_node(rule)
    if node is None:
        return []
    body = ("body",)
    names = [a.arg for a in node.args.args[1:]]  # without the world
    found = []
    for path, place in _walk(node.body, body):
        for kind, new in _of_place(place, names):
            found.append(Change(kind, ast.unparse(place), ast.unparse(new), path, new))
    return found


def _walk(node: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], ast.AST]]:
    """Every expression below a node, with its path; without annotations, docstrings and texts of errors."""
    if isinstance(node, list):
        for i, e in enumerate(node):
            yield from _walk(e, (*path, i))
        return
    if not isinstance(node, ast.AST) or isinstance(node, (ast.Raise, ast.Assert, ast.arguments)):
        return
    if isinstance(node, ast.expr):
        yield path, node
    for name, value in ast.iter_fields(node):
        if name not in ("annotation", "returns", "ctx") and isinstance(value, (list, ast.AST)):
            yield from _walk(value, (*path, name))


def _of_place(place: ast.AST, names: list[str]) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(place, ast.BinOp):
        if isinstance(place.op, (ast.Mult, ast.MatMult)):
            yield "factor", place.left
            yield "factor", place.right
        elif isinstance(place.op, ast.Div):
            yield "factor", place.left
        elif type(place.op) in _OPPOSITE:
            yield "negate", ast.BinOp(place.left, _OPPOSITE[type(place.op)](), place.right)
    elif isinstance(place, ast.UnaryOp):
        if (isinstance(place.op, ast.USub) and not isinstance(place.operand, ast.Constant)) or isinstance(
            place.op, ast.USub
        ):
            yield "negate", place.operand
        elif isinstance(place.op, ast.Not):
            yield "axis", place.operand
    elif isinstance(place, ast.Name) and isinstance(place.ctx, ast.Load) and place.id in names:
        if "y" in names and place.id == "y":
            yield from (("value", ast.Name(n, ast.Load())) for n in names if n not in ("y", "g", "t"))
        elif "y" in names and place.id not in ("g", "t"):
            yield "value", ast.Name("y", ast.Load())
    elif isinstance(place, ast.Call):
        yield from _of_call(place)


def _of_call(call: ast.Call) -> Iterator[tuple[str, ast.AST]]:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    world = (
        isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name) and call.func.value.id == "xp"
    )
    prim = REGISTRY.get(name) if world else None
    if prim is not None and "selection" in prim.roles and len(call.args) == 3:
        mask, a, b = call.args
        zero, one = ast.Constant(0), ast.Constant(1)
        kept = ast.BinOp(ast.Call(call.func, [mask, one, zero], []), ast.Mult(), a)
        left = ast.BinOp(ast.Call(call.func, [mask, zero, one], []), ast.Mult(), b)
        yield "select", ast.BinOp(kept, ast.Add(), left)
        yield "swap", ast.Call(call.func, [mask, b, a], call.keywords)
    elif world and len(call.args) == 2 and (prim is None or "commutative" not in prim.roles):
        yield "swap", ast.Call(call.func, call.args[::-1], call.keywords)
    alone = len(call.args) == 1 and not isinstance(call.args[0], ast.Starred)
    if prim is not None and alone and ("move" in prim.roles or (prim.kind == "linear" and not prim.params)):
        yield "axis", call.args[0]
    for i, k in enumerate(call.keywords):
        flipped: ast.expr | None = None
        if isinstance(k.value, ast.Constant) and isinstance(k.value.value, bool):
            flipped = ast.Constant(not k.value.value)
        elif k.arg in ("reverse", "exclusive", "lower", "adjoint", "transpose_a", "transpose_b"):
            flipped = k.value.operand if isinstance(k.value, ast.UnaryOp) else ast.UnaryOp(ast.Not(), k.value)
        elif k.arg in ("perm", "axis", "shift") and isinstance(k.value, ast.Name):
            flipped = (
                ast.Subscript(k.value, ast.Slice(None, None, ast.Constant(-1)), ast.Load()) if k.arg != "axis" else None
            )
        if flipped is not None and k.arg != "keepdims":
            words = [*call.keywords[:i], ast.keyword(k.arg, flipped), *call.keywords[i + 1 :]]
            yield "axis", ast.Call(call.func, call.args, words)
