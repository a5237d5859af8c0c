"""``gtape replay``: runs the findings, shards or report of a file again, and compares."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from gtape.base.escaping import plain, plain_lines
from gtape.verify.campaigns.examples import MARK, ExamplesError, checked_examples
from gtape.verify.campaigns.journal import Lines
from gtape.verify.campaigns.kinds import kind_of
from gtape.verify.campaigns.running import LIMIT
from gtape.verify.campaigns.shapes import FINDING, LINE, SHARD, misfit
from gtape.verify.campaigns.shards import errored, key_of, lost, work
from gtape.verify.campaigns.trust import Untrusted, trusted
from gtape.verify.command.output import FINE, FOUND, Usage, check_path, progress_bar, show_table, write_json
from gtape.verify.command.own_process import table_of
from gtape.verify.command.reports import read, result_of
from gtape.verify.command.streams import say, tell
from gtape.verify.reports.result import Result
from gtape.verify.reports.sources import SAMPLE, of_journal
from gtape.verify.search.interrupts import Interrupts
from gtape.verify.search.pools import TOO_LONG, Fate, run_stream
from gtape.verify.verdicts.machine import versions

__all__ = ["run"]

_OPTION = re.compile(r"--(quick|orders|dtypes|(points|seed)=\d+|load=.*)", re.DOTALL)
_AGAIN = ("verify", "prove", "census", "doctor")


# Entries that depend on the campaign, or on the folders of the machine.
_ELSEWHERE = ("times", "number", "example", "shard", "line", "defined", "witness")


class Case(NamedTuple):
    """A shard to run again, and its findings."""

    name: str
    shard: dict[str, Any]
    same: Callable[[dict[str, Any]], str]  # new result -> "same", or a text about the difference


def run(options: argparse.Namespace, interrupts: Interrupts) -> int:
    """Run a file again; return the exit status: 0 for the same outcomes, 1 otherwise."""
    check_path(options.json)
    data = read(options.file)
    command = None if isinstance(data, Lines) else _command_in(data, options)
    if command is not None:
        rows = _run_command(options, command, result_of(data, options.file))
    else:
        rows = _run_cases(options, _cases(options, data), interrupts)
    other = [name for name, said in rows if said != "same"]
    if options.json:
        cases = [{"case": name, "outcome": said} for name, said in rows]
        write_json(options.json, {"versions": versions(), "ok": not other, "cases": cases})
    if options.json != "-":
        show_table(
            "gtape replay", ("what", "outcome"), [(plain(n), plain(s)) for n, s in rows], [s == "same" for _, s in rows]
        )
        say(f"{len(rows) - len(other)} of {len(rows)} are the same")
    return FOUND if other else FINE


# ------------------------------------------------------------------------------------------ cases


def _cases(options: argparse.Namespace, data: Any) -> list[Case]:
    """The cases of a file, to run again."""
    path = plain(options.file)
    if isinstance(data, Lines):
        cases = _of_journal(options, data)
    elif options.shard or options.all:
        raise Usage(f"{path} is not a journal: --shard and --all choose among the shards of a journal")
    elif isinstance(data, Result):
        cases = _of_result(data, path)
    elif isinstance(data, dict) and data.get("gtape") == MARK:
        try:
            cases = [_of_finding({**e, "example": e["shard"]}) for e in checked_examples(options.file, data)]
        except ExamplesError as e:
            raise Usage(str(e)) from None
    elif not misfit(data, {**FINDING, "example": SHARD}):
        cases = [_of_finding(data)]
    elif not misfit(data, LINE):
        cases = [_of_line(data)]
    else:
        result_of(data, options.file)  # names the fault of other files
        raise Usage(f"{path} holds findings, but not how to find them again: {_advice(data)}")
    if not cases:
        raise Usage(f"{path} holds nothing to run again")
    try:
        trusted(options.file, [c.shard for c in cases], options.load)
        for case in cases:
            kind_of(case.shard.get("kind", ""))
    except (Untrusted, ValueError) as e:
        raise Usage(str(e)) from None
    return cases


def _advice(data: Any) -> str:
    if isinstance(data, dict) and "tests" in data:
        return "run pytest again, with the command at each finding"
    return "its witnesses are programs that run by themselves"


def _of_journal(options: argparse.Namespace, lines: Lines) -> list[Case]:
    rows = lines.in_order()
    if options.shard:
        known = {row["number"]: row for row in rows}
        unknown = [n for n in options.shard if n not in known]
        if unknown:
            raise Usage(f"{plain(options.file)} has no result of shard {unknown[0]}")
        return [_of_line(known[n]) for n in dict.fromkeys(options.shard)]
    if options.all:
        return [_of_line(row) for row in rows]
    result = of_journal(lines)
    if not result.findings and len(rows) > SAMPLE:
        tell(f"gtape replay: no findings, so a sample of the {len(rows):,} shards is run; --all runs all")
    return _of_result(result, plain(options.file))


def _of_result(result: Result, path: str) -> list[Case]:
    cases = [_of_finding(f) for f in result.findings if "example" in f]
    sample = result.again.get("shards")
    if not cases and sample:
        cases = [_of_line(row) for row in sample]
    if not cases and "pytest" in result.again:
        raise Usage(f"{path} is of a pytest run: run pytest again, with the command at each finding")
    if not cases:
        raise Usage(f"{path} says what was found, but not how: its witnesses are programs that run by themselves")
    return cases


def _of_finding(f: dict[str, Any]) -> Case:
    def same(found: dict[str, Any]) -> str:
        again = next((x for x in found["findings"] if x["cause"] == f["cause"]), None)
        if again is None:
            others = ", ".join(x["cause"] for x in found["findings"])
            return str(found.get("why") or (f"another finding: {others}" if others else "not found again"))
        names = [k for k in f if k not in _ELSEWHERE]
        differ = [k for k in names if again.get(k) != f[k] and not (k == "text" and _places_differ(again, f))]
        return f"the same cause, but another {', '.join(differ)}" if differ else "same"

    return Case(f["cause"], f["example"], same)


def _places_differ(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Whether the texts of two findings differ only in the folders of files."""
    return a.get("line") != b.get("line") or a.get("defined") != b.get("defined")


def _of_line(row: dict[str, Any]) -> Case:
    def same(found: dict[str, Any]) -> str:
        names = ("status", "counts", "largest", "findings", "why")
        differ = [k for k in names if found.get(k) != row.get(k)]
        return f"other {', '.join(differ)}" if differ else "same"

    return Case(f"shard {row.get('number', '')} {key_of(row['shard'])}"[:100].replace("  ", " "), row["shard"], same)


def _run_cases(options: argparse.Namespace, cases: list[Case], interrupts: Interrupts) -> list[tuple[str, str]]:
    limit = options.shard_seconds or LIMIT
    said: dict[int, str] = {}
    with progress_bar(options) as progress:

        def done(i: int, fate: Fate) -> None:
            case = cases[i]
            if fate.failed is not None:
                found = errored(f"{type(fate.failed).__name__}: {fate.failed}")
            elif fate.lost is not None:
                found = lost(case.shard, fate.lost, late=fate.lost.startswith(TOO_LONG))
            else:
                found = fate.value
            said[i] = case.same(found)
            progress(len(said), len(cases), case.name)

        jobs = ((case.shard,) for case in cases)
        broken = run_stream(work, jobs, done, processes=options.processes, seconds=limit, interrupts=interrupts)
    interrupts.reporting()
    return [(case.name, said.get(i, broken or "not run")) for i, case in enumerate(cases)]


# ------------------------------------------------------------------------------------------ commands


def _command_in(data: Any, options: argparse.Namespace) -> list[str] | None:
    """The command line in a result of `gtape verify` or a similar command; None for other results."""
    found = data.again.get("command") if isinstance(data, Result) else None
    if isinstance(data, dict) and "partial" in data:
        found = data.get("command")
        if found is None:
            raise Usage(f"{plain(options.file)} was written by an older gtape, which left out the command")
    if found is None:
        return None
    if not isinstance(found, list) or len(found) < 2 or found[0] != "gtape" or found[1] not in _AGAIN:
        raise Usage(f"{plain(options.file)} names no command that can be replayed")
    command = [str(word) for word in found[1:]]
    named = {w.removeprefix("--load=") for w in command if w.startswith("--load=")}
    # Only the spellings that gtape writes: another spelling of an option could name a file, or an untrusted module.
    allowed = ("--points=", "--quick", "--orders", "--dtypes", "--seed=", "--load=")
    odd = [
        w
        for w in command
        if w.startswith("-") and not any(w == a or (a[-1] == "=" and w.startswith(a)) for a in allowed)
    ]
    if odd:
        raise Usage(f"{plain(options.file)} names the option {plain(odd[0])}, which gtape writes into no result")
    try:
        trusted(options.file, [{"load": sorted(named)}], options.load)
    except Untrusted as e:
        raise Usage(str(e)) from None
    return command


def _run_command(options: argparse.Namespace, command: list[str], before: Result) -> list[tuple[str, str]]:
    _, table, complaint = table_of(command, options.processes)
    if table is None:
        why = complaint.splitlines()
        raise Usage(f"`gtape {' '.join(map(plain, command))}` did not finish: {plain_lines(why[-1]) if why else ''}")
    after = result_of(table, options.file)
    return [(name, _differences(old, new)) for name, old, new in _parts(before, after)]


def _parts(before: Result, after: Result) -> list[tuple[str, Any, Any]]:
    """The comparable parts of two results, side by side."""
    parts: list[tuple[str, Any, Any]] = [
        ("findings", _causes(before), _causes(after)),
        ("counts", before.counts, after.counts),
        ("largest errors", before.largest, after.largest),
    ]
    tables = {t.title: t for t in after.tables}
    for table in before.tables:
        new = tables.get(table.title)
        rows = {} if new is None else _rows(new.columns, new.rows)
        parts.append((f"table {table.title}", _rows(table.columns, table.rows), rows))
    return parts


def _causes(result: Result) -> dict[str, str]:
    return {f["cause"]: f["text"] for f in result.findings}


def _rows(columns: list[str], rows: list[list[str]]) -> dict[str, list[str]]:
    keep = [i for i, c in enumerate(columns) if "seconds" not in c]
    return {f"{n} {row[0]}": [row[i] for i in keep] for n, row in enumerate(rows)}


def _differences(old: dict[str, Any], new: dict[str, Any]) -> str:
    differ = [k for k in {**old, **new} if old.get(k) != new.get(k)]
    if not differ:
        return "same"
    more = f" and {len(differ) - 1} more" if len(differ) > 1 else ""
    k = differ[0]
    return f"{k}: {json.dumps(old.get(k))[:60]} before, {json.dumps(new.get(k))[:60]} now{more}"
