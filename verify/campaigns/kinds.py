"""The kinds of campaigns. A kind is a module with a constant `KIND`; one line of `KINDS` adds it."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

from gtape.base.escaping import json_data, plain
from gtape.verify.verdicts.verdict import GRAVITY, Finding

__all__ = ["KINDS", "Kind", "Outcome", "Settings", "kind_of", "only", "plain_data", "register", "seconds_in"]

Shard = dict[str, Any]
Settings = Mapping[str, Any]

# Name -> the module with its KIND.
KINDS: dict[str, str] = {
    "programs": "gtape.verify.campaigns.programs",
    "census": "gtape.verify.campaigns.census",
    "functions": "gtape.verify.campaigns.functions",
    "mutants": "gtape.verify.campaigns.mutants",
    "peers": "gtape.verify.campaigns.peers",
}
_MOST_SECONDS = 1e9  # timers of the system take no longer times
_registered: dict[str, Kind] = {}


class Outcome:
    """The result of one shard.

    Attributes
    ----------
    counts : dict of str to int
        Added up over all shards. A name such as "verdict: correct" belongs to the group "verdict", of which reports
        draw a plot.
    largest : dict of str to float
        The largest value over all shards.
    findings : list of dict
    """

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.largest: dict[str, float] = {}
        self.findings: list[dict[str, Any]] = []

    def count(self, name: str, n: int = 1) -> None:
        """Add to a count."""
        self.counts[name] = self.counts.get(name, 0) + int(n)

    def worst(self, name: str, value: float) -> None:
        """Keep the largest of some values; NaN counts as infinity."""
        value = math.inf if math.isnan(value) else float(value)
        self.largest[name] = max(self.largest.get(name, 0.0), value)

    def find(self, verdict: str, cause: str, text: str, example: Shard, **more: Any) -> None:
        """Add a finding.

        Parameters
        ----------
        verdict : str
            One of gtape's verdicts.
        cause : str
            Equal for findings of one cause, of which a campaign keeps the first one.
        text : str
            The finding in words.
        example : dict
            The smallest shard that shows it again.
        **more
            Further data for reports: "op", "order", "got", "exact", "reason", "witness", "line".
        """
        if verdict not in GRAVITY:
            raise ValueError(f"{plain(verdict)!r} is not a verdict")
        found = {"verdict": verdict, "cause": cause, "text": text, "example": example, **more}
        self.findings.append(plain_data(found))

    def find_all(self, findings: list[Finding], prefix: str, example: Shard) -> None:
        """Add the findings of a check; each cause and text begins with `prefix`."""
        for f in findings:
            data = {k: v for k, v in f.as_dict().items() if v is not None and k not in ("verdict", "ok")}
            cause = f"{prefix}: {f.verdict}, order {f.order}" + (f", op {f.op}" if f.op else "")
            if f.op is None:
                cause += f", {str(f.key[-1])[:80]}"  # the reason without numbers
            self.find(f.verdict, cause, f"{prefix}: {f}", example, **data)


class Kind(NamedTuple):
    """One kind of campaign.

    Attributes
    ----------
    summary : str
        For the help of the command line.
    options : dict
        Names and default values; a value given on the command line takes the type of the default.
    plan : callable
        ``plan(settings)`` gives the descriptions of all shards, without end if possible, in an order that depends on
        the settings only. A description is plain data for JSON.
    run : callable
        ``run(shard)`` does the work of one description; the outcome depends on the description only.
    length : callable
        ``length(settings)`` is the number of shards after which the campaign is complete, or None without an end. It
        raises ValueError for settings that make no campaign.
    """

    summary: str
    options: Settings
    plan: Callable[[Settings], Iterator[Shard]]
    run: Callable[[Shard], Outcome]
    length: Callable[[Settings], int | None] = lambda settings: None


def only(settings: Settings, name: str, known: Collection[Any]) -> None:
    """Refuse a setting that is none of the known values, or a list that is empty or holds another value.

    Raises
    ------
    ValueError

    Examples
    --------
    >>> from gtape.verify.campaigns.kinds import only
    >>> only({"orders": [1, 7]}, "orders", (1, 2))
    Traceback (most recent call last):
        ...
    ValueError: orders must be among 1, 2, not 7
    """
    value = settings[name]
    values = value if isinstance(value, (list, tuple)) else [value]
    among = ", ".join(map(str, known))
    if not values:
        raise ValueError(f"{name} must hold some of {among}, and is empty")
    for v in values:
        if isinstance(v, bool) or v not in known:
            raise ValueError(f"{name} must be among {among}, not {plain(v)}")


def seconds_in(settings: Settings, name: str) -> None:
    """Refuse a setting that is no positive time in seconds.

    Raises
    ------
    ValueError
    """
    if not 0.0 < settings[name] < _MOST_SECONDS:
        raise ValueError(f"{name} must be a positive number of seconds below {_MOST_SECONDS:g}, not {settings[name]}")


def register(name: str, kind: Kind) -> None:
    """Add a kind of a module from outside, which ``--load`` imports.

    Parameters
    ----------
    name : str
    kind : Kind

    Raises
    ------
    ValueError
        If gtape has a kind of this name.
    """
    if name in KINDS:
        raise ValueError(f"{name!r} is a kind of gtape's: choose another name")
    _registered[name] = kind


def kind_of(name: str) -> Kind:
    """The kind of a name.

    Raises
    ------
    ValueError
        For an unknown name.

    Examples
    --------
    >>> from gtape.verify.campaigns.kinds import kind_of
    >>> sorted(kind_of("programs").options)
    ['plant', 'seconds', 'seed', 'size', 'special']
    """
    if name in _registered:
        return _registered[name]
    if name not in KINDS:
        known = ", ".join([*KINDS, *_registered])
        raise ValueError(f"there is no kind of campaign named {plain(name)!r}; there are {known}")
    found: Kind = importlib.import_module(KINDS[name]).KIND
    return found


def plain_data(x: Any) -> Any:
    """A value fit for JSON: infinities, NaN and complex numbers as text, NumPy's scalars as Python's.

    Examples
    --------
    >>> from gtape.verify.campaigns.kinds import plain_data
    >>> plain_data({"at": (1.0, float("inf"))})
    {'at': [1.0, 'inf']}
    """
    if isinstance(x, Mapping):
        return {json_data(str(k)): plain_data(v) for k, v in x.items()}
    if isinstance(x, (tuple, list)):
        return [plain_data(v) for v in x]
    if hasattr(x, "tolist"):
        return plain_data(x.tolist())
    if isinstance(x, complex) or (isinstance(x, float) and not math.isfinite(x)):
        return repr(x)
    return json_data(x) if x is None or isinstance(x, (str, bool, int, float)) else plain(x)
