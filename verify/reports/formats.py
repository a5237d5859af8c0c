"""The formats of reports, and the readers that get the result back out of each format."""

from __future__ import annotations

import hashlib
import html
import json
import os
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import escape, quoteattr

from gtape.base.counts import counted
from gtape.base.escaping import json_data, plain, plain_lines
from gtape.verify.reports.formulas import formulas
from gtape.verify.reports.page import page
from gtape.verify.reports.plots import groups
from gtape.verify.reports.result import ACCEPTED, MARK, Result, ResultError

__all__ = ["FORMATS", "format_of", "read_text"]

_SARIF = "https://json.schemastore.org/sarif-2.1.0.json"
_HOME = "https://github.com/gtape/gtape"
_MEANINGS = {
    "rule": "The rule's algebra is wrong.",
    "unstable": "The rule is right, but its formula loses digits that the problem does not.",
    "conditioning": "The problem itself loses digits.",
    "cancellation": "The program's own arithmetic loses digits that the function does not.",
    "convention": "At a kink or tie the number is outside of the one-sided derivatives.",
    "range": "The exact derivative overflows or underflows the dtype.",
    "domain": "The function is not differentiable at the point.",
    "unconnected": "No recorded path leads from the source to the target.",
    "undecided": "The check could not decide; the reason says why.",
    "correct": "The number is right.",
}


def embedded(result: Result) -> str:
    r"""The result as JSON in ASCII, which contains no text that ends a comment, script or tag.

    Examples
    --------
    >>> from gtape.verify.reports.formats import embedded
    >>> "<" in embedded(Result("--></script>")) or "--" in embedded(Result("--></script>"))
    False
    """
    text = json.dumps(json_data(result.as_dict()), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.replace("--", "-\\u002d")


# ------------------------------------------------------------------------------------------ JSON Lines


def _lines(result: Result) -> str:
    rows: list[dict[str, Any]] = [result.head()]
    rows += [{"finding": f} for f in result.findings]
    rows += [{"table": t.as_dict()} for t in result.tables]
    rows.append({"end": len(rows)})
    return "".join(json.dumps(json_data(row), allow_nan=False) + "\n" for row in rows)


def _of_lines(rows: list[Any]) -> Result:
    if not isinstance(rows[-1], dict) or rows[-1].get("end") != len(rows) - 1:
        raise ResultError("it is broken: its end is missing")
    head = {**rows[0], "findings": [], "tables": []}
    for row in rows[1:-1]:
        if not isinstance(row, dict) or not row.keys() & {"finding", "table"}:
            raise ResultError("it is broken: a line is neither a finding nor a table")
        head["findings" if "finding" in row else "tables"].append(row.get("finding", row.get("table")))
    return Result.of(head)


# ------------------------------------------------------------------------------------------ JUnit


def _xml(text: Any) -> str:
    """Text for XML 1.0, which has no control characters."""
    return escape(plain_lines(str(text)))


def _attribute(text: Any) -> str:
    return quoteattr(plain(text))


def _case(name: str, suite: str, inner: str = "") -> str:
    return f"  <testcase classname={_attribute(suite)} name={_attribute(name)}>{inner}</testcase>"


def _junit(result: Result) -> str:
    cases = []
    bad = 0
    skipped = 0
    for f in result.findings:
        tag = "skipped" if f["verdict"] == "undecided" or ACCEPTED in f else "failure"
        bad += tag == "failure"
        skipped += tag == "skipped"
        kind = "" if tag == "skipped" else f" type={_attribute(f['verdict'])}"
        inner = f"<{tag} message={_attribute(f['cause'])}{kind}>{_xml(_whole(f))}</{tag}>"
        times = counted(int(f.get("times", 1)), "time")
        cases.append(_case(f"{f['cause']} ({times})", result.title, inner))
    for text in result.errors:
        cases.append(_case(text[:120], result.title, f"<error message={_attribute(text[:200])}>{_xml(text)}</error>"))
    for table in result.tables:
        for row, fine in zip(table.rows, table.fine, strict=True):
            if fine:
                cases.append(_case(", ".join(row[:2]), f"{result.title}, {table.title}"))
    if not cases:
        cases.append(_case("all that was checked", result.title))
    properties = [("gtape_result", embedded(result)), ("command", shlex.join(result.command))]
    properties += [(f"version of {k}", v) for k, v in result.versions.items()]
    properties += [(k, v) for k, v in result.machine.items()]
    properties += [(f"setting {k}", json.dumps(v)) for k, v in result.settings.items()]
    properties += [(k, str(n)) for k, n in result.counts.items()]
    seconds = f' time="{result.seconds:.3f}"' if result.seconds is not None else ""
    began = f" timestamp={_attribute(result.began)}" if result.began else ""
    attributes = f'tests="{len(cases)}" failures="{bad}" errors="{len(result.errors)}" skipped="{skipped}"{seconds}'
    return "\n".join([
        '<?xml version="1.0" encoding="utf-8"?>',
        f"<testsuites {attributes}>",
        f" <testsuite name={_attribute(result.title)} {attributes}{began}>",
        "  <properties>",
        *[f"   <property name={_attribute(k)} value={_attribute(v)}/>" for k, v in properties],
        "  </properties>",
        *cases,
        " </testsuite>",
        "</testsuites>",
        "",
    ])  # fmt: skip


def _whole(f: dict[str, Any]) -> str:
    """A finding with its formulas and the shard that shows it again."""
    parts = [str(f["text"])]
    if ACCEPTED in f:
        parts.append(str(f[ACCEPTED]))
    if f.get("witness") and str(f["witness"]).strip() not in parts[0]:
        parts.append(f"witness\n{f['witness']}")
    parts += [text for text, _ in formulas(str(f.get("op") or ""))]
    if f.get("example"):
        parts.append(f"again: {json.dumps(f['example'])}")
    if f.get("reproduce"):
        parts.append(f"reproduce: {f['reproduce']}")
    return "\n".join(parts)


# ------------------------------------------------------------------------------------------ SARIF


def _sarif(result: Result) -> str:
    verdicts = list(dict.fromkeys(str(f["verdict"]) for f in result.findings))
    rules = [
        {"id": v, "shortDescription": {"text": _MEANINGS.get(v, v)}, "helpUri": f"{_HOME}/blob/main/docs/reference.md"}
        for v in verdicts
    ]
    invocation: dict[str, Any] = {
        "executionSuccessful": result.complete and not result.errors,
        "commandLine": shlex.join(result.command) or "gtape",
        "toolExecutionNotifications": [{"level": "error", "message": {"text": text}} for text in result.errors],
        "properties": {"machine": result.machine, "versions": result.versions, "settings": result.settings},
    }
    if result.machine.get("host"):
        invocation["machine"] = result.machine["host"]
    if re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)", result.began):
        invocation["startTimeUtc"] = result.began.replace("+00:00", "Z")
    driver = {"name": "gtape", "informationUri": _HOME, "rules": rules}
    version = result.versions.get("gtape", "")
    if version:
        driver["version"] = version
    run = {
        "tool": {"driver": driver},
        "invocations": [invocation],
        "results": [_sarif_result(f, verdicts) for f in result.findings],
        "columnKind": "unicodeCodePoints",
        "properties": {"counts": result.counts, "gtape": json.loads(embedded(result))},
    }
    return (
        json.dumps(json_data({"$schema": _SARIF, "version": "2.1.0", "runs": [run]}), indent=1, allow_nan=False) + "\n"
    )


def _sarif_result(f: dict[str, Any], verdicts: list[str]) -> dict[str, Any]:
    print_of_cause = hashlib.sha256(str(f["cause"]).encode("utf-8", "replace")).hexdigest()
    made: dict[str, Any] = {
        "ruleId": f["verdict"],
        "ruleIndex": verdicts.index(f["verdict"]),
        "level": "note" if ACCEPTED in f else "warning" if f["verdict"] == "undecided" else "error",
        "message": {"text": _whole(f)},
        "occurrenceCount": max(1, int(f.get("times", 1))),
        "partialFingerprints": {"gtapeCause/v1": print_of_cause},
        "properties": {k: v for k, v in f.items() if k not in ("text", "times")},
    }
    if ACCEPTED in f:
        made["suppressions"] = [{"kind": "inSource", "justification": str(f[ACCEPTED])}]
    line = f.get("line")
    if isinstance(line, list) and len(line) == 3 and isinstance(line[0], str) and isinstance(line[1], int):
        region = {"startLine": line[1]} if line[1] > 0 else {}
        place: dict[str, Any] = {"artifactLocation": {"uri": _uri(line[0])}, **({"region": region} if region else {})}
        location = {"physicalLocation": place, "logicalLocations": [{"name": str(line[2])}]}
        made["locations"] = [location]
    return made


def _uri(path: str) -> str:
    path = str(json_data(path))
    return Path(path).as_uri() if os.path.isabs(path) else quote(path.replace(os.sep, "/"))


# ------------------------------------------------------------------------------------------ Markdown


def _md(text: Any) -> str:
    """Text with all marks of Markdown and HTML escaped."""
    special = r"[\\`*_{}\[\]#|<>~$&]"
    begins_list, begins_link = r"^[+-]|(?<=[0-9])[.)](?=\s|$)", r"(?<=www)\."
    return re.sub(f"({special}|{begins_list}|{begins_link})", r"\\\1", plain(text))


def _fenced(text: str) -> str:
    text = plain_lines(text)
    fence = "`" * max(3, 1 + max([len(run) for run in re.findall(r"`+", text)], default=0))
    return f"{fence}text\n{text}\n{fence}"


def _md_table(columns: list[str], rows: list[list[str]]) -> Iterator[str]:
    yield "| " + " | ".join(_md(c.removeprefix(">")) for c in columns) + " |"
    yield "|" + "|".join("---:" if c.startswith(">") else "---" for c in columns) + "|"
    for row in rows:
        yield "| " + " | ".join(_md(v) for v in row) + " |"


def _markdown(result: Result) -> str:
    made = [f"# {_md(result.title)}", "", summary(result), ""]
    facts = [["command", shlex.join(result.command)], ["began", result.began]]
    facts += [[f"version of {k}", v] for k, v in result.versions.items()]
    facts += [[k, v] for k, v in result.machine.items()]
    facts += [[k, json.dumps(v)] for k, v in result.settings.items()]
    made += [*_md_table(["", ""], [row for row in facts if row[1]]), ""]
    for group, counts in groups(result.counts).items():
        made += [f"## {_md(group or 'counts')}", ""]
        made += [*_md_table(["", ">number"], [[k, f"{n:,}"] for k, n in counts.items()]), ""]
    if result.findings:
        made += ["## Findings", ""]
        rows = [[f["verdict"], f["cause"], str(f.get("times", 1))] for f in result.findings]
        columns = ["verdict", "cause", ">times"]
        if any(ACCEPTED in f for f in result.findings):
            columns.append("accepted")
            rows = [[*row, str(f.get(ACCEPTED, ""))] for row, f in zip(rows, result.findings, strict=True)]
        made += [*_md_table(columns, rows), ""]
        for f in result.findings:
            made += [f"### {_md(f['cause'])}", "", _fenced(_whole(f)), ""]
    for text in result.errors:
        made += [_fenced(text), ""]
    for table in result.tables:
        made += [f"## {_md(table.title)}", "", *_md_table(table.columns, table.rows), ""]
    return "\n".join([*made, f"<!-- gtape-report: {embedded(result)} -->", ""])


def summary(result: Result) -> str:
    """One sentence about a result."""
    accepted = sum(ACCEPTED in f for f in result.findings)
    undecided = sum(f["verdict"] == "undecided" and ACCEPTED not in f for f in result.findings)
    bad = len(result.findings) - undecided - accepted
    parts = [f"{bad} cause{'' if bad == 1 else 's'} of findings" if bad else "Nothing found"]
    parts += [f"{accepted} accepted"] if accepted else []
    parts += [f"{undecided} undecided"] if undecided else []
    parts += [f"{len(result.errors)} without a result"] if result.errors else []
    parts += [] if result.complete else ["not complete"]
    return ", ".join(parts) + "."


# ------------------------------------------------------------------------------------------ all


def _html(result: Result) -> str:
    return page(result, summary(result), embedded(result))


FORMATS: dict[str, Callable[[Result], str]] = {
    ".jsonl": _lines, ".xml": _junit, ".sarif": _sarif, ".md": _markdown, ".html": _html,
}  # fmt: skip


def format_of(path: str) -> Callable[[Result], str] | None:
    """The format for the ending of a file's name; None for an unknown ending.

    Examples
    --------
    >>> from gtape.verify.reports.formats import FORMATS, format_of
    >>> format_of("report.sarif") is FORMATS[".sarif"], format_of("report.txt")
    (True, None)
    """
    name = path.lower().removesuffix(".json") if path.lower().endswith(".sarif.json") else path.lower()
    return FORMATS.get(os.path.splitext(name)[1])


def read_text(text: str) -> Result | Any:
    """The result in the text of a report; the data of any other JSON.

    Raises
    ------
    ResultError
        If the text is neither a report nor JSON.
    """
    start = text.lstrip("\ufeff \t\r\n")
    if start.startswith("{"):
        return _read_json(text)
    patterns = (
        (r'<property name="gtape_result" value=("[^"]*"|\'[^\']*\')', lambda v: html.unescape(v[1:-1])),
        (r'<script type="application/json" id="gtape-report">([^<]*)</script>', str),
        (r"<!-- gtape-report: (.*?) -->", str),
    )
    for pattern, decoded in patterns:
        found = re.search(pattern, text)
        if found:
            return Result.of(_loaded(decoded(found[1])))
    raise ResultError("the file holds no result of gtape")


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ResultError("it is broken") from None


def _read_json(text: str) -> Any:
    try:
        data = json.loads(text)
    except RecursionError:
        raise ResultError("it is broken") from None
    except ValueError:
        rows = [_loaded(line) for line in text.splitlines() if line.strip()]
        if isinstance(rows[0], dict) and rows[0].get("gtape") == MARK:
            return _of_lines(rows)
        raise ResultError("it is broken") from None
    if isinstance(data, dict) and isinstance(data.get("runs"), list) and data["runs"]:
        run = data["runs"][0]
        properties = run.get("properties") if isinstance(run, dict) else None
        if isinstance(properties, dict) and "gtape" in properties:
            return Result.of(properties["gtape"])
        raise ResultError("it is a SARIF file of another tool")
    return Result.of(data) if isinstance(data, dict) and data.get("gtape") == MARK else data
