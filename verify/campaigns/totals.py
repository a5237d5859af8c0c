"""The sum of a campaign: counts, largest values, findings by cause, from the lines of its journal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from gtape.verify.verdicts.verdict import gravity

__all__ = ["Totals", "totals_of"]


class Totals:
    """The results of the finished shards.

    Attributes
    ----------
    shards : Counter
        Status ("done", "error", "late") -> number of shards.
    counts : Counter
    largest : dict of str to float
    causes : list of dict
        The first finding of each cause, with the number of its shard, and how often it was found; the gravest first.
    errors : list of dict
        Shards without a result: "number", "why", "shard".
    seconds : float
        The sum over all shards.
    """

    def __init__(self) -> None:
        self.shards: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.largest: dict[str, float] = {}
        self.causes: list[dict[str, Any]] = []
        self.errors: list[dict[str, Any]] = []
        self.seconds = 0.0

    @property
    def failures(self) -> list[dict[str, Any]]:
        """The findings that are decided."""
        return [f for f in self.causes if f["verdict"] != "undecided"]

    def as_dict(self) -> dict[str, Any]:
        """The totals as plain data, equal for equal shards: times are left out."""
        return {
            "shards": dict(sorted(self.shards.items())),
            "counts": dict(sorted(self.counts.items())),
            "largest": dict(sorted(self.largest.items())),
            "findings": self.causes,
            "errors": self.errors,
        }


def totals_of(lines: Iterable[dict[str, Any]]) -> Totals:
    """The totals of some lines of a journal, in the order of their shards.

    Parameters
    ----------
    lines : iterable of dict

    Examples
    --------
    >>> from gtape.verify.campaigns.totals import totals_of
    >>> line = {"number": 0, "shard": {}, "status": "done", "counts": {"n": 2}, "largest": {}, "findings": []}
    >>> totals_of([line, {**line, "number": 1}]).counts["n"]
    4
    """
    made = Totals()
    causes: dict[str, dict[str, Any]] = {}
    for line in lines:
        made.shards[line["status"]] += 1
        made.seconds += float(line.get("seconds", 0.0))
        made.counts.update(line["counts"])
        for name, value in line["largest"].items():
            made.largest[name] = max(made.largest.get(name, 0.0), float(value))
        if line["status"] == "error":
            made.errors.append({"number": line["number"], "why": line.get("why", ""), "shard": line["shard"]})
        for found in line["findings"]:
            kept = causes.setdefault(found["cause"], {**found, "times": 0, "number": line["number"]})
            kept["times"] += found.get("times", 1)
    made.causes = sorted(causes.values(), key=lambda found: gravity(found["verdict"]))
    return made
