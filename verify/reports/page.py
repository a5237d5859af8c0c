"""One self-contained page of HTML: tables, plots, and findings with their formulas; no scripts run in it."""

from __future__ import annotations

import html
import json
import shlex
from typing import Any

from gtape.base.escaping import plain, plain_lines
from gtape.verify.reports.formulas import formulas
from gtape.verify.reports.plots import counted, groups, largest
from gtape.verify.reports.result import ACCEPTED, Result, Table

__all__ = ["page"]

_STYLE = """
:root { color-scheme: light dark; --line: #8885; --bar: #3572b0; --bad: #c0392b; --ok: #2e7d32; --note: #b07b00; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin-bottom: .2rem; } h2 { font-size: 1.2rem; margin-top: 2rem; }
.said { font-size: 1.1rem; font-weight: 600; } .said.bad { color: var(--bad); } .said.ok { color: var(--ok); }
table { border-collapse: collapse; font-size: .9rem; }
th, td { border-bottom: 1px solid var(--line); padding: .2rem .8rem .2rem 0; text-align: left; vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; } tr.bad td { color: var(--bad); }
.wide { overflow-x: auto; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; border-left: 3px solid var(--line); padding-left: .8rem; }
details { border: 1px solid var(--line); border-radius: 6px; padding: .4rem .8rem; margin: .5rem 0; }
summary { cursor: pointer; overflow-wrap: anywhere; }
.verdict { color: #fff; background: var(--bad); border-radius: 4px; padding: 0 .4rem; margin-right: .5rem; }
.verdict.undecided, .verdict.accepted { background: var(--note); }
figure { margin: 1rem 0; } figcaption { font-weight: 600; } svg { max-width: 100%; height: auto; }
svg text { font: 12px system-ui, sans-serif; fill: currentColor; } svg .label { text-anchor: end; }
svg .bar { fill: var(--bar); } svg .bad { fill: var(--bad); }
svg text { paint-order: stroke; stroke: Canvas; stroke-width: 3px; }
svg line.mark { stroke: currentColor; stroke-dasharray: 4 3; } svg text.mark { text-anchor: middle; }
math { margin: .4rem 0; } mtd { text-align: left; padding: .1rem .6rem; }
"""


def _text(x: Any) -> str:
    return html.escape(plain(x))


def page(result: Result, said: str, data: str) -> str:
    """The page of a result.

    Parameters
    ----------
    result : Result
    said : str
        One sentence about it.
    data : str
        The result as JSON without "<".
    """
    facts = [("command", shlex.join(result.command)), ("began", result.began)]
    facts += [("time of all shards", f"{result.seconds:,.1f} s")] if result.seconds is not None else []
    facts += [(f"version of {k}", v) for k, v in result.versions.items()] + list(result.machine.items())
    facts += [(k, v if isinstance(v, str) else json.dumps(v)) for k, v in result.settings.items()]
    made = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        # The browser loads no file and runs no script, whatever a name in the result contains.
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f"<title>{_text(result.title)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{_text(result.title)}</h1>",
        f'<p class="said {"ok" if result.ok else "bad"}">{_text(said)}</p>',
    ]
    if result.findings:
        made += ["<h2>Findings</h2>", *[_finding(f) for f in result.findings]]
    if result.errors:
        made += ["<h2>Without a result</h2>", *[f"<pre>{html.escape(plain_lines(e))}</pre>" for e in result.errors]]
    grouped = groups(result.counts)
    if "" in grouped:
        rows = [[k, f"{n:,}"] for k, n in grouped.pop("").items()]
        made += ["<h2>Counts</h2>", _table(Table("", ["", ">number"], rows, [True] * len(rows)))]
    made += [counted(group, counts) for group, counts in grouped.items()]
    if result.largest:
        made += ["<h2>Largest errors</h2>", largest(result.largest, result.ok)]
    for table in result.tables:
        made += [f"<h2>{_text(table.title)}</h2>", _table(table)]
    rows = [[k, str(v)] for k, v in facts if v]
    made += ["<h2>How it was made</h2>", _table(Table("", ["", ""], rows, [True] * len(rows)))]
    made.append(f'<script type="application/json" id="gtape-report">{data}</script>')
    return "\n".join([*made, "</body></html>", ""])


def _finding(f: dict[str, Any]) -> str:
    verdict = _text(f["verdict"])
    kind = "verdict accepted" if ACCEPTED in f else "verdict undecided" if f["verdict"] == "undecided" else "verdict"
    times = int(f.get("times", 1))
    many = f" ({times:,} times)" if times > 1 else ""
    made = [
        f'<details><summary><span class="{kind}">{verdict}</span>{_text(f["cause"])}{many}</summary>',
        *([f"<p>{_text(f[ACCEPTED])}</p>"] if ACCEPTED in f else []),
        f"<pre>{html.escape(plain_lines(str(f['text'])))}</pre>",
        *[f'<div class="wide">{mathml}</div>' for _, mathml in formulas(str(f.get("op") or ""))],
    ]
    if f.get("witness") and str(f["witness"]).strip() not in str(f["text"]):
        made += ["<p>Witness</p>", f"<pre>{html.escape(plain_lines(str(f['witness'])))}</pre>"]
    if f.get("example"):
        made.append(f"<p>Again: <code>{_text(json.dumps(f['example']))}</code></p>")
    if f.get("reproduce"):
        made.append(f"<p>Reproduce: <code>{_text(f['reproduce'])}</code></p>")
    return "".join([*made, "</details>"])


def _table(table: Table) -> str:
    number = [' class="number"' if c.startswith(">") else "" for c in table.columns]
    names = [c.removeprefix(">") for c in table.columns]
    head = "".join(f"<th{n}>{_text(c)}</th>" for c, n in zip(names, number, strict=True)) if any(names) else ""
    rows = []
    for row, fine in zip(table.rows, table.fine, strict=True):
        cells = "".join(f"<td{n}>{_text(v)}</td>" for v, n in zip(row, number, strict=True))
        rows.append(f"<tr{'' if fine else ' class=' + chr(34) + 'bad' + chr(34)}>{cells}</tr>")
    top = f"<thead><tr>{head}</tr></thead>" if head else ""
    return f'<div class="wide"><table>{top}<tbody>{"".join(rows)}</tbody></table></div>'
