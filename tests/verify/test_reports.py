"""Reports: each format says the same, harms no reader, and gives the result back."""

from __future__ import annotations

import html.parser
import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

import gtape as tf
from gtape.verify.campaigns.journal import read as read_journal
from gtape.verify.campaigns.running import Campaign, campaign
from gtape.verify.command import cli
from gtape.verify.command.output import Usage
from gtape.verify.command.reports import read, result_of, write
from gtape.verify.reports.formats import FORMATS, format_of, read_text
from gtape.verify.reports.formulas import formulas
from gtape.verify.reports.result import Result, ResultError, Table
from gtape.verify.reports.sources import of_check, of_data, of_journal
from gtape.verify.search.loading import imported

CHEAP = str(Path(__file__).parent / "shards.py")
# What each format must not take for its own: ends of comments, scripts, fences and attributes, sequences for terminals.
NASTY = (
    "--> </script> ]]> ``` | <b onload=alert(1)> &amp; \"quotes\" 'too' \x1b[31m \ud800 {{7*7}} [a](javascript:0) \n# é"
)


@pytest.fixture(scope="module")
def nasty() -> Result:
    result = Result(f"gtape {NASTY}", {"campaign": NASTY})
    result.command = ["gtape", NASTY]
    result.began = "2026-01-02T03:04:05+00:00"
    result.versions, result.machine = {"gtape": "0.1.0", NASTY: NASTY}, {"host": NASTY}
    result.settings, result.seconds, result.ok = {"seed": 7, NASTY: [NASTY]}, 1.5, False
    result.counts = {"points": 3, "verdict: rule": 2, f"verdict: {NASTY}": 1}
    result.largest = {f"ULP of {NASTY}": float("inf"), "ULP of sin": 0.5}
    result.findings = [
        {
            "verdict": "rule", "cause": NASTY, "text": NASTY, "times": 3, "op": "tanh", "order": 1, "witness": NASTY,
            "line": [f"/home/{NASTY}/x.py", 3, NASTY], "example": {"kind": "cheap", "n": NASTY},
        },
        {"verdict": "undecided", "cause": "too hard", "text": "", "times": 1, "op": NASTY},
    ]  # fmt: skip
    result.errors = [NASTY]
    result.tables = [Table(NASTY, ["op", f">{NASTY}"], [[NASTY, "1"], ["sin", "2"]], [False, True])]
    return result


@pytest.mark.parametrize("end", FORMATS)
def test_each_format_gives_the_whole_result_back(end: str, nasty: Result) -> None:
    text = FORMATS[end](nasty)
    text.encode("utf-8")  # no lone surrogates
    assert "\x1b" not in text
    found = read_text(text)
    assert isinstance(found, Result)
    assert found.as_dict() == read_text(FORMATS[".jsonl"](found)).as_dict()
    same = json.loads(json.dumps(found.as_dict()))
    assert same["findings"][0]["example"]["n"] == NASTY.replace("\ud800", "\\ud800")
    assert (found.counts, found.ok, found.seconds, len(found.tables)) == (same["counts"], False, 1.5, 1)
    for word in ("tanh", "0.1.0", "seed", "2026-01-02"):
        assert word in text
    assert end == ".jsonl" or "1 - tanh(x)**2" in text or "<math" in text


class _Tags(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in ("meta", "mspace"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_page_is_one_file_in_which_nothing_runs(nasty: Result) -> None:
    text = FORMATS[".html"](nasty)
    tags = _Tags()
    tags.feed(text)
    tags.close()
    assert not tags.open
    names = {name for name, _ in tags.found}
    assert not names & {"link", "img", "iframe", "object", "embed", "b", "a", "form"}
    assert {"svg", "table", "math", "details"} <= names
    scripts = [attributes for name, attributes in tags.found if name == "script"]
    assert scripts == [{"type": "application/json", "id": "gtape-report"}]
    assert not [a for _, attributes in tags.found for a in attributes if a.startswith("on") or a in ("src", "href")]
    assert "default-src 'none'" in text
    assert "<b onload=alert(1)>" in tags.text and "http" not in re.sub(r"http-equiv|http://www.w3.org\S+", "", text)


def test_junit_counts_agree_with_its_cases(nasty: Result) -> None:
    root = ElementTree.fromstring(FORMATS[".xml"](nasty).encode("utf-8"))
    suite = root[0]
    cases = suite.findall("testcase")
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert int(suite.get(name, "")) == len(suite.findall(f"testcase/{tag}")) == 1
    assert int(suite.get("tests", "")) == len(cases) == 4
    properties = {p.get("name"): p.get("value") for p in suite.iter("property")}
    assert properties["version of gtape"] == "0.1.0" and properties["setting seed"] == "7"
    empty = ElementTree.fromstring(FORMATS[".xml"](Result("x")))
    assert [c.get("name") for c in empty.iter("testcase")] == ["all that was checked"]


# The structure that the schema of SARIF 2.1.0 asks for: required properties, then the others that are allowed.
_TEXTS = ({"text"}, {"markdown", "properties"})
SARIF: dict[str, tuple[set[str], set[str]]] = {
    "log": ({"version", "runs"}, {"$schema", "inlineExternalProperties", "properties"}),
    "run": (
        {"tool"},
        {"invocations", "results", "columnKind", "properties", "automationDetails", "artifacts", "logicalLocations"},
    ),
    "driver": (
        {"name"},
        {"informationUri", "rules", "version", "semanticVersion", "fullName", "organization", "properties"},
    ),
    "rule": ({"id"}, {"shortDescription", "fullDescription", "helpUri", "help", "name", "properties"}),
    "invocation": (
        {"executionSuccessful"},
        {
            "commandLine", "machine", "startTimeUtc", "endTimeUtc", "exitCode", "properties", "arguments",
            "toolExecutionNotifications",
        },
    ),
    "notification": ({"message"}, {"level", "descriptor", "exception", "locations", "properties", "timeUtc"}),
    "result": (
        {"message"},
        {"ruleId", "ruleIndex", "level", "kind", "locations", "occurrenceCount", "partialFingerprints", "properties"},
    ),
    "location": (set(), {"id", "physicalLocation", "logicalLocations", "message", "properties"}),
    "physical": (set(), {"artifactLocation", "region", "contextRegion", "properties"}),
    "artifact": (set(), {"uri", "uriBaseId", "index", "description", "properties"}),
    "region": (set(), {"startLine", "startColumn", "endLine", "endColumn", "snippet", "properties"}),
    "logical": (set(), {"name", "fullyQualifiedName", "decoratedName", "kind", "index", "parentIndex", "properties"}),
}  # fmt: skip


def _check(what: str, data: Any) -> None:
    required, allowed = SARIF[what]
    assert isinstance(data, dict) and required <= set(data) <= required | allowed, (what, data)


def assert_sarif(text: str) -> dict[str, Any]:
    log: dict[str, Any] = json.loads(text)
    _check("log", log)
    assert log["version"] == "2.1.0" and isinstance(log["runs"], list)
    for run in log["runs"]:
        _check("run", run)
        driver = run["tool"]["driver"]
        _check("driver", driver)
        assert run["columnKind"] in ("utf16CodeUnits", "unicodeCodePoints")
        for rule in driver["rules"]:
            _check("rule", rule)
            assert set(rule["shortDescription"]) == {"text"} and rule["shortDescription"]["text"]
        assert len({r["id"] for r in driver["rules"]}) == len(driver["rules"])
        for invocation in run["invocations"]:
            _check("invocation", invocation)
            assert isinstance(invocation["executionSuccessful"], bool)
            assert re.fullmatch(
                r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", invocation.get("startTimeUtc", "2026-01-01T00:00:00Z")
            )
            for note in invocation["toolExecutionNotifications"]:
                _check("notification", note)
        for result in run["results"]:
            _check("result", result)
            assert set(result["message"]) == {"text"} and result["level"] in ("none", "note", "warning", "error")
            assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
            assert result["occurrenceCount"] >= 1
            for place in result.get("locations", []):
                _check("location", place)
                _check("physical", place["physicalLocation"])
                _check("artifact", place["physicalLocation"]["artifactLocation"])
                _check("region", place["physicalLocation"].get("region", {}))
                assert re.fullmatch(r"[!-~]+", place["physicalLocation"]["artifactLocation"]["uri"])
                for logical in place["logicalLocations"]:
                    _check("logical", logical)
    return log


def test_sarif_has_the_structure_of_its_schema(nasty: Result) -> None:
    log = assert_sarif(FORMATS[".sarif"](nasty))
    results = log["runs"][0]["results"]
    assert [r["level"] for r in results] == ["error", "warning"]
    assert results[0]["locations"][0]["physicalLocation"]["region"] == {"startLine": 3}
    assert_sarif(FORMATS[".sarif"](Result("nothing")))


def test_the_schema_of_sarif_by_its_object_model(nasty: Result) -> None:
    """The classes of the package sarif_om are made from the official schema."""
    model = pytest.importorskip("sarif_om")
    attr = pytest.importorskip("attr")
    names = {
        "log": "SarifLog", "run": "Run", "driver": "ToolComponent", "rule": "ReportingDescriptor",
        "invocation": "Invocation", "notification": "Notification", "result": "Result", "location": "Location",
        "physical": "PhysicalLocation", "artifact": "ArtifactLocation", "region": "Region",
        "logical": "LogicalLocation",
    }  # fmt: skip
    assert set(names) == set(SARIF)
    for what, name in names.items():
        fields = attr.fields(getattr(model, name))
        known = {f.metadata["schema_property_name"]: f.default is attr.NOTHING for f in fields}
        required, allowed = SARIF[what]
        assert required == {k for k, needed in known.items() if needed}, name
        assert allowed <= set(known), name


def test_markdown_keeps_foreign_text_out_of_its_structure(nasty: Result) -> None:
    text = FORMATS[".md"](nasty)
    body = text[: text.index("<!-- gtape-report:")]
    assert text.count("<!--") == text.count("-->") - body.count("-->") == 1
    outside = re.sub(r"^(`{3,})text\n.*?^\1$", "", body, flags=re.M | re.S)
    assert not re.search(r"(?<!\\)[<`]", outside)
    rows = [line for line in outside.splitlines() if line.startswith("|")]
    assert all(len(re.findall(r"(?<!\\)\|", row)) in (3, 4) for row in rows)


def test_markdown_escapes_no_more_than_it_must() -> None:
    result = Result("campaign")
    result.command = ["gtape", "--load", "x_1.py", "0.5"]
    shown = FORMATS[".md"](result)
    assert r"| command | gtape --load x\_1.py 0.5 |" in shown


def test_formulas_are_those_of_the_mirrors() -> None:
    assert formulas("sin")[0][0] == "d sin(x) / dx = cos(x)"
    assert [t for t, _ in formulas("multiply")] == ["d multiply(x0, x1) / dx0 = x1", "d multiply(x0, x1) / dx1 = x0"]
    assert formulas("matmul") == formulas(NASTY) == ()
    for op in ("sin", "pow", "maximum", "erf", "log_sigmoid"):
        for _, mathml in formulas(op):
            ElementTree.fromstring(mathml)


# ------------------------------------------------------------------------------------------ sources


@pytest.fixture(scope="module")
def journal_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    imported(CHEAP)
    path = str(tmp_path_factory.mktemp("journal") / "journal.jsonl")
    campaign(
        path, Campaign("cheap", {"does": "raise", "at": 5}, load=[CHEAP], shards=12), command=["gtape", "campaign"]
    )
    return path


def test_a_journal_has_reports_in_all_formats(
    journal_path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    targets = [str(tmp_path / f"report{end}") for end in FORMATS]
    assert cli.main(["report", journal_path, "--to", *targets]) == 0
    assert capsys.readouterr().out.count("gtape campaign, cheap, 3 findings") == len(FORMATS)
    whole = of_journal(read_journal(journal_path))
    assert whole.counts["shards: done"] == 11 and whole.errors == ["shard 5: ArithmeticError: this shard raises"]
    for target in targets:
        found = read(target)
        assert json.dumps(found.as_dict()) == json.dumps(whole.as_dict())
    assert_sarif(Path(targets[2]).read_text())
    # A report of a report is the same.
    assert cli.main(["report", targets[-1], "--to", str(tmp_path / "again.html")]) == 0
    assert (tmp_path / "again.html").read_bytes() == Path(targets[-1]).read_bytes()
    assert len(list(tmp_path.iterdir())) == len(FORMATS) + 1


@pytest.mark.parametrize(
    "words",
    [
        ["verify", "softsign", "--quick"],
        ["prove", "sin", "reshape"],
        ["census", "multiply", "--points", "100", "--dtypes", "float64", "complex128"],
        ["doctor", "sin", "--points", "100"],
    ],
    ids=lambda words: words[0],
)
def test_the_json_of_a_command_has_a_report(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, page = tmp_path / "result.json", tmp_path / "result.html"
    assert cli.main([*words, "--json", str(file), "--processes", "1"]) == 0
    assert cli.main(["report", str(file), "--to", str(page), str(tmp_path / "x.sarif"), "--json"]) == 0
    capsys.readouterr()
    result = read(str(page))
    assert result.ok and result.complete and result.command[:2] == ["gtape", words[0]]
    assert result.versions["numpy"] and result.machine["processors"] and result.tables[0].rows
    assert words[1] in page.read_text()
    assert_sarif((tmp_path / "x.sarif").read_text())


def test_a_wrong_derivative_is_a_finding_of_a_report(tmp_path: Path) -> None:
    report = tf.verify.judge(tf.tanh, [tf.constant(0.5)], 5.0)
    result = of_check(report)
    assert [f["verdict"] for f in result.findings] == ["rule"] and not result.ok and result.versions["gtape"]
    assert of_data(report.as_dict()).findings[0]["text"].startswith("rule, order 1")
    write(report, str(tmp_path / "check.html"))
    assert "rule" in (tmp_path / "check.html").read_text()
    with pytest.raises(Usage, match="the end of the name says the format"):
        write(report, str(tmp_path / "check.pdf"))


def test_the_report_of_a_pytest_run(tmp_path: Path) -> None:
    from gtape.base.verification import Options
    from gtape.verify.plugin.records import Record
    from gtape.verify.plugin.summary import Totals

    record, totals = Record(Options()), Totals()
    record.add(tf.verify.judge(tf.tanh, [tf.constant(0.5)], 5.0), 0.25)
    totals.add("test_x.py::test_a", record.as_dict())
    result = of_data({"versions": {"gtape": "1"}, "exitstatus": 1, **json.loads(json.dumps(totals.as_dict()))})
    assert [f["cause"] for f in result.findings] == ["test_x.py::test_a: rule"] and not result.ok
    assert result.tables[0].rows[0][:2] == ["test_x.py::test_a", "1"]


@pytest.mark.parametrize("suffix", FORMATS)
def test_every_format_shows_a_declared_finding_with_its_reason_and_its_command(suffix: str, tmp_path: Path) -> None:
    from gtape.base.verification import Options
    from gtape.verify.plugin.records import Record
    from gtape.verify.plugin.summary import Totals

    record, totals = Record(Options(fail_on=()), "turned round on purpose"), Totals()
    record.add(tf.verify.judge(tf.tanh, [tf.constant(0.5)], 5.0), 0.25)
    totals.add("test_x.py::test_a", record.as_dict())
    data = json.loads(json.dumps(totals.as_dict(lambda name: f"python -m pytest {name}")))
    path = tmp_path / f"report{suffix}"
    write(of_data({**data, "began": "2026-01-01T00:00:00+00:00", "settings": {"sample": 0.2, "seed": 5}}), str(path))
    text = path.read_text()
    assert "declared: turned round on purpose" in text and "python -m pytest test_x.py::test_a" in text.replace(
        "\\", ""
    )
    again = result_of(read(str(path)), str(path))
    assert again.ok and [f["verdict"] for f in again.findings] == ["rule"]
    assert again.settings == {"sample": 0.2, "seed": 5} and again.began == "2026-01-01T00:00:00+00:00"
    if suffix in (".md", ".html"):
        assert "Nothing found, 1 accepted." in text
    if suffix == ".xml":
        assert 'failures="0"' in text and 'skipped="1"' in text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "holds no result"),
        ("hello", "holds no result"),
        ("{", "is broken"),
        ('{"a": 1}', "no result that has a report"),
        ('{"libraries": {}, "missing": [], "causes": []}', "gtape campaign --kind peers has reports"),
        ("[" * 100_000, "holds no result"),
        ('{"a": ' * 100_000, "is broken"),
        ('{"lines": [{}]}', "is broken"),
        ('{"gtape": "report", "format": 99}', "another format"),
        ('{"gtape": "report", "format": 1, "counts": 3}', "counts is no object, but 3"),
        ('{"gtape": "report", "format": 1}\n{"finding": {}}\n', "its end is missing"),
        ('{"version": "2.1.0", "runs": [{"tool": {}}]}', "SARIF file of another tool"),
        ('{"gtape": "campaign examples", "format": 1, "examples": []}', "holds examples"),
        ('<?xml version="1.0"?><testsuites/>', "holds no result"),
    ],
)
def test_files_without_a_result_are_one_clear_error(
    text: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "result"
    file.write_text(text)
    assert cli.main(["report", str(file), "--to", str(tmp_path / "x.html")]) == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "x.html").exists()


def test_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str], journal_path: str) -> None:
    for words, says in (
        ([journal_path, "--to", "x.pdf"], ".jsonl, .xml, .sarif, .md, .html"),
        ([str(tmp_path / "none"), "--to", str(tmp_path / "x.md")], "cannot be read: No such file"),
        ([str(tmp_path), "--to", str(tmp_path / "x.md")], "cannot be read"),
        ([journal_path, "--to", "/no/such/folder/x.md"], "its folder does not exist"),
        ([journal_path, "--to", journal_path], "is the result itself"),
        ([journal_path], "--to"),
    ):
        assert cli.main(["report", *words]) == 2
        assert says in capsys.readouterr().err
    assert format_of("a.SARIF.json") is FORMATS[".sarif"]


def test_a_report_is_written_whole_or_not_at_all(
    journal_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "report.html"
    target.write_text("old")

    def broken(result: Result) -> str:
        raise ResultError("no text")

    monkeypatch.setitem(FORMATS, ".html", broken)
    with pytest.raises(ResultError):
        write(result_of(read(journal_path), journal_path), str(target))
    assert target.read_text() == "old" and list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("fine", [True, False])
def test_bars_beyond_the_limit_are_red_only_if_there_are_findings(fine: bool) -> None:
    result = Result("gtape verify")
    result.ok, result.largest = fine, {"ULP of matmul, order 2": 15.85, "ULP of tanh, order 1": 2.0}
    text = FORMATS[".html"](result)
    assert ('class="bad"' in text) is not fine
    assert ">matmul, order 2<" in text and ">tanh, order 1<" in text
