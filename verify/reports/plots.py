"""Bar charts as SVG inside a page, without scripts and without fonts of their own."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping

from gtape.base.escaping import plain

__all__ = ["counted", "groups", "largest"]

_MOST = 40  # bars of one chart
_WIDTH, _LABEL, _VALUE, _ROW = 760, 300, 90, 22
_LONGEST_LABEL = 44  # characters


def _text(x: str) -> str:
    return html.escape(plain(x))


def groups(counts: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """The counts by group: the group of "verdict: correct" is "verdict", the group of counts without a colon is "".

    Examples
    --------
    >>> from gtape.verify.reports.plots import groups
    >>> groups({"points": 5, "verdict: rule": 1})
    {'': {'points': 5}, 'verdict': {'rule': 1}}
    """
    made: dict[str, dict[str, int]] = {}
    for name, n in counts.items():
        group, colon, item = name.partition(": ")
        made.setdefault(group if colon else "", {})[item if colon else name] = n
    return made


def counted(title: str, counts: Mapping[str, int]) -> str:
    """A chart of counts."""
    top = max([*counts.values(), 1])
    rows = [(name, n / top, f"{n:,}", "bar") for name, n in sorted(counts.items(), key=lambda kv: -kv[1])]
    return _chart(title, rows)


def largest(values: Mapping[str, float], fine: bool, limit: float = 4.0) -> str:
    """A chart of errors in ULP, on a logarithmic scale from 0.1 with a line at the limit for elementwise ops.

    Bars beyond the limit are red, unless all errors are `fine`.
    """
    rows = []
    finite = [v for v in values.values() if math.isfinite(v)]
    top = max([math.log10(max(v, 1.0)) for v in finite] + [1.0]) + 1.0

    def place(v: float) -> float:
        return 1.0 if not math.isfinite(v) else min(1.0, max(0.0, (math.log10(max(v, 0.1)) + 1.0) / (top + 1.0)))

    for name, v in sorted(values.items(), key=lambda kv: -kv[1] if not math.isnan(kv[1]) else -math.inf):
        shown = "∞" if not math.isfinite(v) else f"{v:.2f}" if v < 1000 else f"{v:.1e}"
        # The caption gives the unit, because units would make labels too long.
        rows.append((name.removeprefix("ULP of "), place(v), shown, "bar" if fine or v <= limit else "bad"))
    title = f"ULP, logarithmic; elementwise ops promise {limit:g} ULP"
    return _chart(title, rows, (place(limit), f"{limit:g} ULP"))


def _chart(title: str, rows: list[tuple[str, float, str, str]], mark: tuple[float, str] | None = None) -> str:
    left_out, rows = len(rows) - _MOST, rows[:_MOST]
    room = _WIDTH - _LABEL - _VALUE
    height = _ROW * (len(rows) + 1) + 8
    said = _text(title)
    made = [
        f"<figure><figcaption>{said}</figcaption>",
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{said}" width="{_WIDTH}" height="{height}">',
    ]
    if mark is not None:
        x = _LABEL + mark[0] * room
        made.append(
            f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="2" y2="{height - _ROW}"/>'
            f'<text class="mark" x="{x:.1f}" y="{height - 6}">{_text(mark[1])}</text>'
        )
    for i, (name, share, value, kind) in enumerate(rows):
        y = 4 + i * _ROW
        label = name if len(name) <= _LONGEST_LABEL else f"{name[: _LONGEST_LABEL - 1]}…"
        width = max(1.0, share * room)
        made.append(
            f"<g><title>{_text(f'{name}: {value}')}</title>"
            f'<text class="label" x="{_LABEL - 8}" y="{y + 15}">{_text(label)}</text>'
            f'<rect class="{kind}" x="{_LABEL}" y="{y + 3}" width="{width:.1f}" height="{_ROW - 6}" rx="2"/>'
            f'<text x="{_LABEL + width + 6:.1f}" y="{y + 15}">{_text(value)}</text></g>'
        )
    more = f"<p>and {left_out} more</p>" if left_out > 0 else ""
    return "".join([*made, f"</svg>{more}</figure>"])
