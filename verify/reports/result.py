"""One shape for all results: of campaigns, commands, pytest runs and single checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gtape.verify.campaigns.kinds import plain_data
from gtape.verify.campaigns.shapes import FINDING, LINE, NUMBER, misfit

__all__ = ["ACCEPTED", "FORMAT", "MARK", "Result", "ResultError", "Table"]

ACCEPTED = "accepted"  # the entry of a finding that is meant, or that the options let pass
MARK = "report"
FORMAT = 1


class ResultError(ValueError):
    """A file holds no result, or a broken one."""


class Table:
    """Rows of text.

    Attributes
    ----------
    title : str
    columns : list of str
        A ">" in front justifies a column to the right.
    rows : list of list of str
    fine : list of bool
        False for a row with a finding.
    """

    def __init__(self, title: str, columns: list[str], rows: list[list[str]], fine: list[bool]) -> None:
        self.title, self.columns, self.rows, self.fine = title, columns, rows, fine

    def as_dict(self) -> dict[str, Any]:
        """The table as plain data."""
        return {"title": self.title, "columns": self.columns, "rows": self.rows, "fine": self.fine}


class Result:
    """A result of any command.

    Attributes
    ----------
    title : str
    command : list of str
        The command line.
    began : str
    versions, machine : dict of str to str
    settings : dict
        Everything that the result depends on, seeds included.
    complete, ok : bool
    seconds : float or None
    counts : dict of str to int
        A name "verdict: correct" belongs to the group "verdict".
    largest : dict of str to float
        The largest values by name, such as the error of each op in ULP.
    findings : list of dict
        "verdict", "cause", "text", "times", and as far as they are known "op", "order", "reason", "exact", "got",
        "witness", "line", "example", "reproduce" (a command), "accepted" (why the finding does not fail the run).
    errors : list of str
        The jobs without a result, each with its error.
    tables : list of Table
    again : dict
        The data by which `gtape replay` runs the result again.
    """

    def __init__(self, title: str, again: Mapping[str, Any] | None = None) -> None:
        self.title = title
        self.command: list[str] = []
        self.began = ""
        self.versions: dict[str, str] = {}
        self.machine: dict[str, str] = {}
        self.settings: dict[str, Any] = {}
        self.complete = self.ok = True
        self.seconds: float | None = None
        self.counts: dict[str, int] = {}
        self.largest: dict[str, float] = {}
        self.findings: list[dict[str, Any]] = []
        self.errors: list[str] = []
        self.tables: list[Table] = []
        self.again: dict[str, Any] = dict(again or {})

    def head(self) -> dict[str, Any]:
        """Everything but findings and tables, as plain data."""
        names = (
            "title", "command", "began", "versions", "machine", "settings", "complete", "ok", "seconds", "counts",
            "largest", "errors", "again",
        )  # fmt: skip
        found: dict[str, Any] = plain_data({name: getattr(self, name) for name in names})
        return {"gtape": MARK, "format": FORMAT, **found}

    def as_dict(self) -> dict[str, Any]:
        """The result as plain data."""
        return {**self.head(), "findings": plain_data(self.findings), "tables": [t.as_dict() for t in self.tables]}

    @classmethod
    def of(cls, data: Any) -> Result:
        """The result of the data of `as_dict`.

        Raises
        ------
        ResultError
        """
        if not isinstance(data, dict) or data.get("gtape") != MARK:
            raise ResultError("it is no report of gtape")
        if data.get("format") != FORMAT:
            raise ResultError(f"it has another format than {FORMAT}: use the version of gtape that wrote it")
        wrong = misfit(data, _SHAPE)
        if wrong:
            raise ResultError(f"it is broken, because {wrong}")
        made = cls("")
        for name, value in vars(made).items():
            setattr(made, name, data.get(name, value))
        made.seconds = None if made.seconds is None else float(made.seconds)
        made.largest = {k: float(v) for k, v in made.largest.items()}
        made.tables = [_table(t) for t in data.get("tables", [])]
        return made


_SHAPE = {
    "title?": str, "command?": [str], "began?": str, "versions?": {str: str}, "machine?": {str: str},
    "settings?": dict, "complete?": bool, "ok?": bool, "seconds?": (NUMBER, None), "counts?": {str: int},
    "largest?": {str: NUMBER}, "findings?": [FINDING], "errors?": [str], "again?": {"shards?": [LINE]},
    "tables?": [{"title": str, "columns": [str], "rows": [[str]], "fine": [bool]}],
}  # fmt: skip


def _table(data: dict[str, Any]) -> Table:
    made = Table(data["title"], data["columns"], data["rows"], data["fine"])
    if len(made.fine) != len(made.rows) or any(len(row) != len(made.columns) for row in made.rows):
        raise ResultError("it is broken: a table has rows of unequal length")
    return made
