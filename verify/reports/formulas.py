"""The formulas of an op's derivatives, from its mirror, as text and as MathML."""

from __future__ import annotations

import html
import inspect
import re
from functools import lru_cache
from typing import Any

import sympy as sp

from gtape.symbolic import mirrors
from gtape.symbolic.functions import derivative, plain
from gtape.symbolic.mirrors.registry import SCALARS

__all__ = ["formulas"]

_LONGEST = 400  # operations of a formula that is shown


@lru_cache(maxsize=256)
def formulas(op: str) -> tuple[tuple[str, str], ...]:
    """The derivatives of an elementwise op by each of its arguments: (text, MathML); none for any other name.

    Parameters
    ----------
    op : str

    Examples
    --------
    >>> from gtape.verify.reports.formulas import formulas
    >>> formulas("tanh")[0][0]
    'd tanh(x) / dx = 1 - tanh(x)**2'
    >>> formulas("no such op")
    ()
    """
    mirrors.load()
    mirror = SCALARS.get(op)
    if mirror is None:
        return ()
    names = [p.name for p in inspect.signature(mirror).parameters.values() if p.default is p.empty]
    plain_names = ["x"] if len(names) == 1 else [f"x{i}" for i in range(len(names))]
    symbols = [sp.Symbol(name, real=True) for name in plain_names]
    try:
        value = plain(mirror(*symbols))
        found = [(x, derivative(value, x)) for x in symbols]
        return tuple(
            (f"d {op}({', '.join(plain_names)}) / d{x} = {d}", _mathml(op, symbols, x, d))
            for x, d in found
            if d != 0 and sp.count_ops(d) <= _LONGEST
        )
    except Exception:  # a mirror that needs static parameters has no formula here
        return ()


def _mathml(op: str, symbols: list[Any], x: Any, d: Any) -> str:
    """An equation in presentation MathML, which browsers draw without a script."""
    left = sp.Derivative(sp.Function(op)(*symbols), x)
    inner = f"{_presented(left)}<mo>=</mo>{_presented(d)}"
    # Entities of MathML are none of XML.
    inner = re.sub(r"&(?!lt;|gt;|amp;)\w+;", lambda m: html.unescape(m[0]), inner.replace("&dd;", "d"))
    return f'<math display="block">{inner}</math>'


def _presented(e: Any) -> str:
    if not isinstance(e, sp.Piecewise):
        return str(sp.mathml(e, printer="presentation"))
    rows = ""
    for arm, condition in e.args:
        when = "<mtext>otherwise</mtext>" if condition is sp.true else f"<mtext>if\u00a0</mtext>{_presented(condition)}"
        rows += f"<mtr><mtd>{_presented(arm)}</mtd><mtd>{when}</mtd></mtr>"
    return f'<mrow><mo stretchy="true" form="prefix">{{</mo><mtable columnalign="left left">{rows}</mtable></mrow>'
