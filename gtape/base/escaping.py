"""Escapes text from outside (names of functions, variables, files) for gtape's output. One function for each target.

A name may contain sequences that recolour a terminal, markup of a diagram or a table, or lone surrogates, which cannot
be encoded.
"""

from __future__ import annotations

from typing import Any

from gtape.base.imports import library

__all__ = ["json_data", "mermaid_text", "place_text", "plain", "plain_lines", "rich_text"]


def plain(text: Any) -> str:
    r"""For terminals and messages: one line, with unprintable characters as Python escapes.

    >>> print(plain("w/é:0"), plain("\x1b[31mred\n"))
    w/é:0 \x1b[31mred\n
    """
    text = str(text)
    return text if text.isprintable() else "".join([c if c.isprintable() else _escaped(c) for c in text])


def _escaped(c: str) -> str:
    return c.encode("unicode_escape").decode("ascii")


def plain_lines(text: str) -> str:
    r"""The same as `plain` for text of several lines.

    >>> print(plain_lines("one\ntw\ro"))
    one
    tw\ro
    """
    return "\n".join([plain(line) for line in text.split("\n")])


def place_text(line: tuple[Any, Any, Any]) -> str:
    """For terminals and messages: a line of source, given as (file, number, function).

    >>> place_text(("model.py", 3, "loss"))
    'model.py:3 in loss'
    """
    return f"{plain(line[0])}:{line[1]} in {plain(line[2])}"


def rich_text(text: Any) -> Any:
    r"""For rich: a `Text` in which rich does not interpret markup (``[red]``) and emoji codes (``:ok:``).

    >>> print(rich_text("[red]x[/red]"))
    [red]x[/red]
    """
    return library("rich.text").Text(plain(text))


def mermaid_text(text: Any) -> str:
    """For quoted labels of Mermaid diagrams: letters, digits and some harmless signs; all others become entities.

    >>> mermaid_text('float32[2, 3]'), mermaid_text('"]; click A')
    ('float32[2, 3]', '#34;]#59; click A')
    """
    return "".join([c if c.isalnum() or c in _HARMLESS else f"#{ord(c)};" for c in plain(text)])


# Not among the harmless signs: `#` and `;` (entities), quotes, brackets of HTML, backticks (Markdown), `%` (comments),
# `&`.
_HARMLESS = frozenset(" _.,:=()[]+-")


def json_data(data: Any) -> Any:
    r"""For JSON: every string and key with escapes for lone surrogates, because strict readers refuse them.

    `data` consists of dicts, lists, tuples, strings and numbers. The result has the same structure.

    >>> print(json_data({"name": ["\ud800", 1]})["name"])
    ['\\ud800', 1]
    """
    if isinstance(data, str):
        return data.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(data, dict):
        return {json_data(k): json_data(v) for k, v in data.items()}
    if isinstance(data, (list, tuple)):
        return [json_data(x) for x in data]
    return data
