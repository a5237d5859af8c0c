"""Results from files of gtape (journals, the JSON of commands and pytest runs) and from reports of checks."""

from __future__ import annotations

import math
from typing import Any

from gtape.verify.campaigns.journal import Lines
from gtape.verify.campaigns.totals import totals_of
from gtape.verify.reports.result import ACCEPTED, Result, ResultError, Table
from gtape.verify.search.rows import Row
from gtape.verify.verdicts.machine import machine, versions
from gtape.verify.verdicts.verdict import Report

__all__ = ["SAMPLE", "of_check", "of_data", "of_journal"]

_OF_RECORDS = ("ok", "text", "times", "fails", "declared")  # what a result says in other words
SAMPLE = 10  # shards that a report holds whole, because a report without findings is replayed by these


def of_journal(lines: Lines) -> Result:
    """The result of a campaign so far."""
    head, rows = lines.head, lines.in_order()
    totals = totals_of(rows)
    sample = rows[:: max(1, math.ceil(len(rows) / SAMPLE))]
    result = Result(f"gtape campaign, {head['kind']}", {"campaign": head["kind"], "shards": sample})
    last = lines.sessions[-1] if lines.sessions else {}
    result.command = list(last.get("command") or head.get("command", []))
    result.began, result.versions, result.machine = head.get("began", ""), head["versions"], head.get("machine", {})
    result.settings = {k: head.get(k) for k in ("kind", "settings", "load", "shards", "limit")}
    result.settings["sessions"] = len(lines.sessions)
    others = [s["versions"] for s in lines.sessions if s.get("versions") != head["versions"]]
    if others:
        result.settings["versions of later sessions"] = others
    wanted = head.get("shards")
    done = sum(totals.shards.values())
    result.complete = wanted is None or done >= wanted + len(head["examples"])
    result.ok = not totals.failures and not totals.errors and result.complete
    result.seconds = round(totals.seconds, 1)
    result.counts = {**{f"shards: {k}": n for k, n in sorted(totals.shards.items())}, **sorted_dict(totals.counts)}
    result.largest = sorted_dict(totals.largest)
    result.findings = totals.causes
    result.errors = [f"shard {e['number']}: {e['why']}" for e in totals.errors]
    return result


def sorted_dict(d: Any) -> dict[str, Any]:
    """A dict in the order of its keys."""
    return dict(sorted(d.items()))


def of_check(report: Report, title: str = "gtape check") -> Result:
    """The result of one check in this process."""
    result = _of_report(report.as_dict(), title)
    result.versions, result.machine = versions(), machine()
    return result


def _of_report(data: dict[str, Any], title: str) -> Result:
    result = Result(title, {"check": True})
    result.ok = bool(data["ok"])
    result.counts = {"numbers compared": int(data["checked"])}
    worst = _number(data["max_ulp"])
    result.largest = {} if worst is None else {"ULP": worst}
    result.settings = {k: v for k, v in data.get("coverage", {}).items() if isinstance(v, (str, int, float))}
    for f in data["findings"]:
        result.counts[f"verdict: {f['verdict']}"] = result.counts.get(f"verdict: {f['verdict']}", 0) + 1
        if not f["ok"]:
            result.findings.append(_finding(f, f"{f['verdict']}, order {f['order']}"))
    return result


def _finding(f: dict[str, Any], cause: str, text: str | None = None) -> dict[str, Any]:
    """A finding of a check, from its data."""
    kept = {k: v for k, v in f.items() if v is not None and k not in _OF_RECORDS}
    op = f", op {f['op']}" if f.get("op") else ""
    words = [f"got {f['got']}"] if f.get("got") is not None else []
    words += [f"exact {f['exact']}"] if f.get("exact") is not None else []
    told = text or f.get("text") or f"{cause}{op}: {', '.join([*words, str(f.get('reason', ''))])}"
    return {**kept, "cause": cause + op, "text": told, "times": int(f.get("times") or f.get("count") or 1)}


def of_data(data: Any) -> Result:
    """The result in the JSON of a command, of ``pytest --gtape-report``, or of ``Report.as_dict()``.

    Raises
    ------
    ResultError
        For anything else.

    Examples
    --------
    >>> import gtape as tf
    >>> from gtape.verify.reports.sources import of_data
    >>> of_data(tf.verify.judge(tf.square, [3.0], 5.0).as_dict()).findings[0]["cause"]
    'rule, order 1'
    """
    if not isinstance(data, dict):
        raise ResultError("it is no result of gtape")
    try:
        for key, read in _READERS.items():
            if key in data:
                result: Result = read(data)
                result.versions = result.versions or dict(data.get("versions", {}))
                result.machine = result.machine or dict(data.get("machine", {}))
                result.command = result.command or list(data.get("command", []))
                return Result.of(result.as_dict())
    except ResultError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as e:
        raise ResultError(f"it is broken: {type(e).__name__}: {e}") from None
    if "causes" in data and "libraries" in data:
        raise ResultError(
            "it is a result of gtape peers, which has no report: gtape peers -o FOLDER writes the findings, and the "
            "journal of gtape campaign --kind peers has reports"
        )
    raise ResultError(
        "it is no result that has a report: gtape verify, prove, census, doctor and campaign make one, and pytest with "
        "--gtape-report"
    )


def _number(x: Any) -> float | None:
    return None if x is None else float(x)


def _ulp(x: Any) -> str:
    value = _number(x)
    if value is None:
        return ""
    return f"{value:.2f}" if value < 1000 else f"{value:.1e}"


def _of_command(data: dict[str, Any], name: str) -> Result:
    command = data.get("command")
    result = Result(f"gtape {name}", {"command": list(command)} if command else {})
    result.complete, result.ok = not data.get("partial", False), bool(data["ok"])
    result.errors = [f"{x['job']}: {x['why']}" for x in data.get("not_done", [])]
    return result


def _of_lines(data: dict[str, Any], key: str, name: str) -> Result:
    result = _of_command(data, name)
    rows, fine = [], []
    for x in data[key]:
        worst = {k: _number(v) for k, v in x["worst_ulp"].items()}
        rows.append([
            x["name"], x["kind"], x["proof"], _ulp(worst.get("1")), _ulp(worst.get("2")), x["verdict"],
            f"{x['seconds']:.2f}",
        ])  # fmt: skip
        fine.append(bool(x["ok"]))
        _count(result, x["verdict"])
        if x["proof"]:
            _count(result, x["proof"], "proof")
        result.counts["numbers compared"] = result.counts.get("numbers compared", 0) + int(x["checked"])
        for order, ulp in worst.items():
            result.largest[f"ULP of {x['name']}, order {order}"] = math.inf if ulp is None else ulp
        for text in x["findings"]:
            cause = f"{x['name']}: {text.splitlines()[0][:120]}"
            result.findings.append({"verdict": x["verdict"], "cause": cause, "text": text, "op": x["name"], "times": 1})
    columns = ["op", "kind", "proof", ">order 1, ULP", ">order 2, ULP", "verdict", ">seconds"]
    result.tables.append(Table("Ops and programs", columns, rows, fine))
    return result


def _count(result: Result, item: str, group: str = "verdict") -> None:
    name = f"{group}: {item}"
    result.counts[name] = result.counts.get(name, 0) + 1


def _of_rows(data: dict[str, Any]) -> Result:
    result = _of_command(data, "census")
    rows, fine = [], []
    for given in data["rows"]:
        r = Row(**given)
        where = ", ".join(f"{_number(v):.17g}" for v in r.where)
        rows.append([
            r.op, r.argument, str(r.order), r.dtype, f"{r.points:,}", _ulp(r.worst_ulp), where,
            r.verdict,
        ])  # fmt: skip
        ok = r.verdict == "correct"
        fine.append(ok)
        _count(result, r.verdict)
        result.counts["points"] = result.counts.get("points", 0) + int(r.points)
        what = f"{r.op}, {r.dtype}, order {r.order}, by argument {r.argument}"
        result.largest[f"ULP of {what}"] = _number(r.worst_ulp) or 0.0
        if not ok:
            text = f"{what}, at {where}: got {r.got}, exact {r.exact}, {_ulp(r.worst_ulp)} ULP off"
            result.findings.append({
                "verdict": r.verdict, "cause": what, "text": text, "op": r.name, "order": r.order,
                "got": str(r.got), "exact": str(r.exact), "times": 1,
            })  # fmt: skip
    columns = ["op", "by", ">order", "dtype", ">points", ">worst ULP", "where", "verdict"]
    result.tables.append(Table("Worst errors", columns, rows, fine))
    return result


def _of_kernels(data: dict[str, Any]) -> Result:
    result = _of_command(data, "doctor")
    rows, fine = [], []
    for k in data["kernels"]:
        ok, measured = bool(k["ok"]), _number(k["measured"])
        rows.append([k["op"], k["dtype"], f"{k['declared']:g}", _ulp(measured)])
        fine.append(ok)
        result.largest[f"ULP of {k['op']}, {k['dtype']}"] = math.inf if measured is None else measured
        _count(result, "as declared" if ok else "less accurate", "kernels")
        if not ok:
            cause = f"{k['op']}, {k['dtype']}: less accurate than declared"
            text = f"{cause}: {_ulp(measured)} ULP measured, {k['declared']:g} declared"
            result.findings.append({"verdict": "unstable", "cause": cause, "text": text, "op": k["op"], "times": 1})
    result.tables.append(Table("Kernels", ["kernel", "dtype", ">declared ULP", ">measured"], rows, fine))
    return result


def _of_tests(data: dict[str, Any]) -> Result:
    result = Result("pytest, checked by gtape", {"pytest": [t["nodeid"] for t in data["tests"]]})
    result.ok, result.seconds = bool(data["ok"]), round(float(data["seconds"]), 1)
    result.counts = {"gradients": int(data["gradients"]), "numbers compared": int(data["numbers"])}
    result.counts |= {f"verdict: {k}": int(n) for k, n in data["verdicts"].items()}
    result.began, result.settings = str(data.get("began", "")), dict(data.get("settings", {}))
    left_out = int(data.get("left_out", 0))
    if left_out:
        result.counts["gradients that the sample leaves out"] = left_out
    rows, fine = [], []
    for t in data["tests"]:
        bad = [f for f in t["findings"] if f["fails"]]
        passed = [f for f in t["findings"] if not f["fails"] and not f["ok"]]
        declared = [f for f in passed if f["declared"]]
        told = [str(len(bad))] if bad else []
        told += [f"{len(declared)} declared"] if declared else []
        rows.append([t["nodeid"], str(t["gradients"]), _ulp(t["max_ulp"]), f"{t['seconds']:.2f}", ", ".join(told)])
        fine.append(not bad)
        for f in (*bad, *passed):
            made = _finding(f, f"{t['nodeid']}: {f['verdict']}", f["text"])
            if f["declared"]:
                made[ACCEPTED] = f"declared: {t['declared']}"
            elif not f["fails"] and f["verdict"] != "undecided":
                made[ACCEPTED] = "the options of the run let it pass"
            result.findings.append(made)
    columns = ["test", ">gradients", ">worst ULP", ">seconds", ">findings"]
    result.tables.append(Table("Tests", columns, rows, fine))
    return result


_READERS: dict[str, Any] = {
    "lines": lambda data: _of_lines(data, "lines", "verify"),
    "proofs": lambda data: _of_lines(data, "proofs", "prove"),
    "rows": _of_rows,
    "kernels": _of_kernels,
    "tests": _of_tests,
    "checked": lambda data: _of_report(data, "gtape check"),
}
