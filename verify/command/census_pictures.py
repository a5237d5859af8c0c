"""The pictures of ``gtape census --libraries --plots``: the errors of several libraries, drawn against x."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from gtape.verify.command.output import Usage, check_folder, make_folder, write_text
from gtape.verify.peers.census import measured_points, names_of
from gtape.verify.peers.conversation import Conversation
from gtape.verify.peers.libraries import library

__all__ = ["BINS", "check", "plots", "worst_of_bins"]

BINS = 40
_TICKS = 7
_LEAST, _MOST = 0.1, 1e20  # the ends of the axis of errors; NaN and false infinities lie at the upper one
_STYLE = {"svg.fonttype": "none", "svg.hashsalt": "gtape", "font.size": 8.0, "font.sans-serif": ["DejaVu Sans"]}
_NOTHING_ELSE = dict.fromkeys(("Creator", "Date", "Format", "Type"))


def check(folder: str) -> None:
    """Check that pictures can be drawn and written into a folder.

    Raises
    ------
    Usage
        If matplotlib is not installed, or nothing can be written into the folder.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise Usage("plots need matplotlib: pip install gtape[plot], or leave out --plots") from None
    check_folder(folder)


def plots(
    folder: str, names: Sequence[str], ops: Sequence[str], orders: Sequence[int], dtype: str, points: int
) -> list[str]:
    """One picture for each function, ULP against x for each order, as SVG; the names of the files.

    Raises
    ------
    Usage
        If matplotlib is not installed, or a file cannot be written.
    """
    check(folder)
    from matplotlib import rc_context

    make_folder(folder)
    written = []
    peers = {n: Conversation(library(n)) for n in names}
    try:
        for op in dict.fromkeys(o for n in names for o in names_of(library(n), ops)):
            with rc_context(_STYLE):
                text = _picture(peers, op, orders, dtype, points)
            path = os.path.join(folder, f"{op}-{dtype}.svg")
            write_text(path, text)
            written.append(path)
    finally:
        for peer in peers.values():
            peer.end()
    return written


def worst_of_bins(off: Any, bins: int = BINS) -> Any:
    """The largest error of each of some equally large groups of neighbouring points; NaN counts as infinite.

    Examples
    --------
    >>> import numpy as np
    >>> worst_of_bins(np.array([1.0, 2.0, 0.5, np.inf]), 2).tolist()
    [2.0, inf]
    """
    return np.array([np.max(part) for part in np.array_split(np.where(np.isnan(off), np.inf, off), bins) if len(part)])


def _picture(peers: dict[str, Conversation], op: str, orders: Sequence[int], dtype: str, points: int) -> str:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(0.8 + 4.2 * len(orders), 2.4), layout="constrained")
    panels = figure.subplots(1, len(orders), sharey=True, squeeze=False)[0]
    for axes, order in zip(panels, orders, strict=True):
        for number, (name, peer) in enumerate(peers.items()):
            if op not in peer.library.functions:
                continue
            x, off = measured_points(peer, op, dtype, order, points)
            worst = np.clip(worst_of_bins(off), _LEAST, _MOST)
            width = 1 + len(peers) - number  # because equal lines would cover each other
            axes.plot(worst, linewidth=width, color=f"C{number}", label=name)
            # The same points for all libraries, in order, because on a scale of x the places where errors begin would
            # be too narrow to see.
            at = np.linspace(0, len(worst) - 1, _TICKS)
            axes.set_xticks(at, [f"{v:.0e}" for v in x[np.linspace(0, len(x) - 1, _TICKS).astype(int)]])
        axes.set(yscale="log", ylim=(_LEAST / 2, _MOST * 10), title=f"{op}, order {order}, {dtype}", xlabel="x")
        axes.set_yticks([1.0, 1e5, 1e10, 1e15, _MOST], ["1", "1e5", "1e10", "1e15", "not finite"])
        axes.minorticks_off()
        axes.tick_params(bottom=False, left=False)
    panels[0].set_ylabel("ULP")
    lines = {str(line.get_label()): line for axes in panels for line in axes.lines}
    figure.legend(list(lines.values()), list(lines), loc="outside right upper", fontsize="small")
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata=_NOTHING_ELSE)
    return _short(out.getvalue())


def _short(svg: str) -> str:
    """A picture without comments and unused names, with coordinates to a tenth, because a page holds many pictures."""
    used = set(re.findall(r"#(\w+)", svg))
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r' id="(\w+)"', lambda m: m[0] if m[1] in used else "", svg)
    svg = re.sub(r' transform="rotate\(-?0 [^"]*"', "", svg)
    svg = re.sub(r"-?\d+\.\d{2,}", lambda m: f"{float(m[0]):.1f}".removesuffix(".0"), svg)
    return re.sub(r"\s*\n\s*", "\n", svg)
