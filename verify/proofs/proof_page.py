"""Proofs to read, as text and in LaTeX: mirror, rules, branches, normal forms, and how each identity was decided."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterable
from typing import Any

import sympy as sp

from gtape.declare.primitives import REGISTRY, Primitive
from gtape.symbolic.mirrors.registry import ARRAYS, SCALARS
from gtape.symbolic.scalars import template
from gtape.verify.proofs.proof_cells import parameters
from gtape.verify.proofs.proof_normal import generators_of
from gtape.verify.search.rule_source import rule_node

__all__ = ["latex_page", "page"]

_WIDTH = 116
_LONGEST = 600  # characters of a formula; longer ones are cut
_DECIDED = {
    "as built": "both sides are the same expression",
    "expand": "the difference expands to 0",
    "numerator": "the numerator of the difference expands to 0",
    "normal form": "the normal form of the difference is 0",
    "normal form, by signs": "the normal form of the difference is 0, for each sign of the symbols",
    "points": "not proved: both sides agree at exact points to 40 digits",
    "refuted": "refuted",
    "fault": "refuted: the rule raises an error, or gives another shape",
    "open": "open: neither proved nor tested",
}


class _Branch:
    """The cases of one rule on one cell that were decided in the same way."""

    def __init__(self, first: Any) -> None:
        self.first, self.count = first, 1


def _branches(cases: Iterable[Any]) -> list[_Branch]:
    found: dict[Any, _Branch] = {}
    for c in cases:
        # Other shapes repeat a scalar identity for each element, and are only counted.
        key = (c.direction, c.argument, repr(c.params), c.cell if not any(c.shapes) else (), c.how, any(c.shapes))
        if key in found:
            found[key].count += 1
        else:
            found[key] = _Branch(c)
    return list(found.values())


def _mirror(prim: Primitive) -> list[tuple[dict[str, Any], Any]]:
    """The mirror as an expression for each set of parameters; no expression for an op that is not elementwise."""
    if prim.name not in SCALARS:
        return []
    made = []
    for params in parameters(prim):
        found = template(SCALARS[prim.name], len(prim.rules), params)
        short = sp.symbols(" ".join("abcdefuvwxyz"[: len(found.symbols)]), real=True, seq=True)
        made.append((params, found.plain.xreplace(dict(zip(found.symbols, short, strict=True)))))
    return made


def _source(f: Any) -> str:
    """The source of a mirror or a rule, in one expression if it is a lambda."""
    node = rule_node(f)
    if isinstance(node, ast.Lambda):
        return ast.unparse(node)
    try:
        return textwrap.dedent(inspect.getsource(f)).rstrip()
    except (OSError, TypeError):
        return repr(f)


def _rules(prim: Primitive) -> list[tuple[str, str]]:
    """The text of each rule, with its name."""
    if prim.partials is not None:
        named = [(f"partial by argument {i}", r) for i, r in enumerate(prim.partials)]
    elif prim.variadic:
        named = [("vjp of all arguments", prim.vjp)]
    else:
        named = [(f"vjp of argument {i}", r) for i, r in enumerate(prim.vjp)]
        if prim.kind != "linear":
            named += [(f"jvp of argument {i}", r) for i, r in enumerate(prim.jvp)]
    return [(name, _source(r) if callable(r) else "none" if r is None else str(r)) for name, r in named]


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


def _plain(e: Any) -> str:
    return _cut(str(e))


def _block(label: str, text: str, indent: int = 2) -> list[str]:
    """Lines of a labelled text."""
    pad = " " * indent
    if "\n" in text:
        return [f"{pad}{label}:", *[f"{pad}    {line}" for line in text.splitlines()]]
    if len(label) > _WIDTH // 2:  # a label of several conditions leaves no room beside it
        head = textwrap.wrap(label, _WIDTH - indent - 1, break_long_words=False, break_on_hyphens=False)
        return [*[f"{pad}{line}" for line in head[:-1]], f"{pad}{head[-1]}:", *_wrapped(text, indent + 4)]
    made = textwrap.wrap(text, _WIDTH - indent - len(label) - 2, break_long_words=False, break_on_hyphens=False)
    rest = " " * (indent + len(label) + 2)
    return [f"{pad}{label}: {made[0] if made else ''}", *[rest + line for line in made[1:]]]


def _wrapped(text: str, indent: int) -> list[str]:
    made = textwrap.wrap(text, _WIDTH - indent, break_long_words=False, break_on_hyphens=False)
    return [" " * indent + line for line in made]


def _where(case: Any, several_params: bool) -> str:
    params = ", ".join(f"{k}={v!r}" for k, v in case.params.items())
    shapes = ", ".join(str(tuple(s)) for s in case.shapes) if any(case.shapes) else ""
    cell = " and ".join(case.cell)
    said = [f"for {params}" if params and several_params else "", f"where {cell}" if cell else ""]
    said.append(f"at shapes {shapes}" if shapes else "")
    return " ".join(s for s in said if s)


def _generators(case: Any) -> list[Any]:
    if not case.how.startswith("normal form") or case.rule is None:
        return []
    try:
        return generators_of(sp.sympify(case.rule - case.slope))
    except Exception:  # a form that holds for each sign separately
        return []


def page(proof: Any) -> str:
    """A proof as text.

    Parameters
    ----------
    proof : Proof

    Returns
    -------
    str
    """
    prim = REGISTRY[proof.name]
    lines = [f"{proof.name}: {proof.state}"]
    mirrors = _mirror(prim)
    for params, e in mirrors:
        at = f" for {', '.join(f'{k}={v!r}' for k, v in params.items())}" if params else ""
        lines += _block(f"mirror{at}", _plain(e))
    if not mirrors and prim.name in ARRAYS:
        lines += _block("mirror", _source(ARRAYS[prim.name]))
    for name, text in _rules(prim):
        lines += _block(name, text)
    several = bool(prim.params)
    for branch in _branches(proof.cases):
        c = branch.first
        what = " ".join(s for s in (f"{c.direction} of argument {c.argument}", _where(c, several)) if s)
        more = f", and {branch.count - 1} more like it" if branch.count > 1 else ""
        lines += _block(what, f"{_DECIDED[c.how]}{more}")
        if c.rule is not None:
            lines += _block("rule", _plain(c.rule), 6)
            lines += _block("derivative of the mirror", _plain(c.slope), 6)
        generators = _generators(c)
        if generators:
            lines += _block("normal form", f"0 as a quotient of polynomials in {', '.join(map(_plain, generators))}", 6)
    for text in proof.unseen:
        lines += _block("not covered", text)
    if proof.counterexample:
        lines += _block("counterexample", proof.counterexample.rstrip())
    lines.append(f"  {_counts(proof)}")
    return "\n".join(lines)


def _counts(proof: Any) -> str:
    proved = sum(c.proved for c in proof.cases)
    points = sum(c.how == "points" for c in proof.cases)
    said = [f"{proved} of {len(proof.cases)} identities proved"]
    if points:
        said.append(f"{points} certified at exact points only")
    return ", ".join(said)


def _escaped(text: str) -> str:
    """Text for LaTeX."""
    table = {"\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "^": r"\^{}", "~": r"\~{}", "<": "$<$", ">": "$>$"}
    return "".join(table.get(c, "\\" + c if c in "_%$&#" else c) for c in text)


def _verbatim(text: str) -> list[str]:
    return [r"\begin{verbatim}", *text.splitlines(), r"\end{verbatim}"]


def _formula(left: str, e: Any) -> list[str]:
    text = sp.latex(e)
    return [r"\begin{equation*}", f"{left} = {text}", r"\end{equation*}"] if len(text) <= 4 * _LONGEST else []


def latex_page(proof: Any) -> str:
    """A proof as a section in LaTeX, to be read by a document with amsmath.

    Parameters
    ----------
    proof : Proof

    Returns
    -------
    str
    """
    prim = REGISTRY[proof.name]
    lines = ["% needs \\usepackage{amsmath}", rf"\section*{{{_escaped(proof.name)}: {proof.state}}}"]
    mirrors = _mirror(prim)
    for params, e in mirrors:
        letters = ", ".join(str(s) for s in sorted(e.free_symbols, key=str))
        fixed = "".join(rf",\ {_escaped(k)}={v!r}" for k, v in params.items())
        lines += _formula(rf"\operatorname{{{_escaped(prim.name)}}}({letters}{fixed})", e)
    if not mirrors and prim.name in ARRAYS:
        lines += [r"\paragraph{Mirror}", *_verbatim(_source(ARRAYS[prim.name]))]
    for name, text in _rules(prim):
        lines += [rf"\paragraph{{{_escaped(name.capitalize())}}}", *_verbatim(text)]
    several = bool(prim.params)
    lines += [r"\begin{enumerate}"] if proof.cases else []
    for branch in _branches(proof.cases):
        c = branch.first
        what = " ".join(s for s in (f"{c.direction} of argument {c.argument}", _where(c, several)) if s)
        more = f", and {branch.count - 1} more like it" if branch.count > 1 else ""
        lines.append(rf"\item {_escaped(what)}: {_escaped(_DECIDED[c.how] + more)}.")
        if c.rule is not None:
            lines += _formula(r"\text{rule}", c.rule) + _formula(r"\text{derivative of the mirror}", c.slope)
        generators = _generators(c)
        if generators:
            shown = ", ".join(f"${sp.latex(g)}$" for g in generators)
            lines.append(f"Normal form: 0 as a quotient of polynomials in {shown}.")
    lines += [r"\end{enumerate}"] if proof.cases else []
    lines.append(_escaped(_counts(proof)) + ".")
    return "\n".join(lines)
