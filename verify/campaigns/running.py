"""Runs a campaign: the shards that its journal does not hold, in worker processes or on an executor."""

from __future__ import annotations

import datetime
import itertools
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

from gtape.base.counts import counted
from gtape.verify.campaigns.executors import NotThere, through
from gtape.verify.campaigns.journal import Journal, JournalError, Lines, read
from gtape.verify.campaigns.kinds import Kind, Shard, kind_of, plain_data
from gtape.verify.campaigns.shards import errored, key_of, lost, work
from gtape.verify.campaigns.totals import Totals, totals_of
from gtape.verify.search.interrupts import Interrupts
from gtape.verify.search.pools import TOO_LONG, Fate, run_stream
from gtape.verify.verdicts.machine import machine, versions

__all__ = ["LIMIT", "Campaign", "Progress", "campaign", "settings_of"]

LIMIT = 600.0  # seconds that a shard may take

Progress = Callable[[int, "int | None", str], None]


def settings_of(kind: Kind, given: Mapping[str, Any]) -> dict[str, Any]:
    """All settings of a kind: the given ones, of the types of the defaults, and the defaults.

    Parameters
    ----------
    kind : Kind
    given : dict
        Values, or their texts: "yes" or "no" for a truth value, commas between the items of a list.

    Raises
    ------
    ValueError

    Examples
    --------
    >>> from gtape.verify.campaigns.kinds import kind_of
    >>> from gtape.verify.campaigns.running import settings_of
    >>> settings_of(kind_of("programs"), {"size": "2", "plant": "no"})
    {'seed': 0, 'size': 2, 'plant': False, 'special': False, 'seconds': 60.0}
    """
    unknown = sorted(set(given) - set(kind.options))
    if unknown:
        raise ValueError(f"there is no setting {unknown[0]!r}; there are {', '.join(kind.options)}")
    made = {name: _typed(name, given.get(name, default), default) for name, default in kind.options.items()}
    for name, least in (("seed", 0), ("size", 1)):
        if made.get(name, least) < least:
            raise ValueError(f"{name} must be at least {least}")
    return made


_TRUTH = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}


def _typed(name: str, value: Any, default: Any) -> Any:
    if isinstance(value, str) and not isinstance(default, str):
        try:
            if isinstance(default, bool):
                return _TRUTH[value.lower()]
            if isinstance(default, (list, tuple)):
                items: list[Any] = [v.strip() for v in value.split(",") if v.strip()]
                return [int(v) for v in items] if default and isinstance(default[0], int) else items
            return type(default)(value)
        except (ValueError, KeyError):
            wanted = {"bool": "yes or no", "int": "a whole number", "float": "a number"}
            kind = wanted.get(type(default).__name__, "whole numbers with commas")  # a list of text takes every text
            raise ValueError(f"{name} must be {kind}, not {value!r}") from None
    if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(default, (list, tuple)):
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise ValueError(f"{name} must be a list, not {value!r}")
        return list(value)
    if type(value) is not type(default):
        raise ValueError(f"{name} must be of the type {type(default).__name__}, not {value!r}")
    return value


class Campaign:
    """The description of a campaign: everything that its result depends on.

    Parameters
    ----------
    kind : str
    settings : dict
        Of this kind; see `settings_of`.
    load : sequence of str
        Modules to import first.
    shards : int, optional
        The number of shards in all.
    limit : float
        The seconds that a shard may take.
    examples : sequence of dict
        Shards to run before all others.

    Raises
    ------
    ValueError
        For an unknown kind or a wrong setting.

    Examples
    --------
    >>> from gtape.verify.campaigns.running import Campaign
    >>> [number for number, shard in Campaign("programs", {}, shards=3).plan()]
    [0, 1, 2]
    """

    def __init__(
        self,
        kind: str,
        settings: Mapping[str, Any],
        *,
        load: Sequence[str] = (),
        shards: int | None = None,
        limit: float = LIMIT,
        examples: Sequence[Shard] = (),
    ) -> None:
        if shards is not None and shards < 1:
            raise ValueError(f"a campaign has at least 1 shard, not {shards}")
        if not 0.0 < float(limit) < math.inf:
            raise ValueError(f"the time of a shard is a positive number of seconds, not {limit!r}")
        self.kind, self.shards, self.limit = kind, shards, float(limit)
        self.load, self.examples = list(load), list(examples)
        self._kind = kind_of(kind)
        given = dict(settings)
        if "load" in self._kind.options:
            given["load"] = self.load
        self.settings = settings_of(self._kind, given)
        self._length = self._kind.length(self.settings)  # here, because it refuses wrong settings before any work

    @classmethod
    def of(cls, head: Mapping[str, Any]) -> Campaign:
        """The campaign of the first line of a journal.

        Raises
        ------
        JournalError
            If this gtape has no such campaign.
        """
        try:
            return cls(
                head["kind"], {k: v for k, v in head["settings"].items() if k != "load"}, load=head["load"],
                shards=head.get("shards"), limit=head.get("limit", LIMIT), examples=head["examples"],
            )  # fmt: skip
        except (ValueError, TypeError) as e:
            raise JournalError(f"the campaign of the journal cannot run here: {e}") from None

    def head(self) -> dict[str, Any]:
        """The campaign as plain data."""
        found: dict[str, Any] = plain_data({
            "kind": self.kind, "settings": self.settings, "load": self.load, "shards": self.shards,
            "limit": self.limit, "examples": self.examples,
        })  # fmt: skip
        return found

    def total(self, *, endless: bool = False) -> int | None:
        """The number of shards in all; None without an end."""
        count = self.shards if self.shards is not None or endless else self._length
        return None if count is None else count + len(self.examples)

    def plan(self, total: int | None = None) -> Iterator[tuple[int, Shard]]:
        """The numbers and descriptions of the first shards, or of all."""
        loads = {"load": self.load} if self.load else {}
        planned = ({**plain_data(shard), **loads} for shard in self._kind.plan(self.settings))
        shards = itertools.chain(self.examples, planned)
        return enumerate(itertools.islice(shards, self.total() if total is None else total))


def campaign(
    path: str,
    what: Campaign | None = None,
    *,
    resume: bool = False,
    retry_errors: bool = False,
    shards: int | None = None,
    seconds: float | None = None,
    processes: int = 1,
    executor: Executor | None = None,
    workers: Callable[[], int] | None = None,
    progress: Progress | None = None,
    interrupts: Interrupts | None = None,
    command: Sequence[str] = (),
) -> Totals:
    """Run a campaign, or go on with one, until all its shards are in its journal or the budget is used up.

    Parameters
    ----------
    path : str
        The journal.
    what : Campaign, optional
        The campaign to run; the journal has it when a campaign is resumed.
    resume : bool
        Whether to go on with an existing journal.
    retry_errors : bool
        Whether to run the shards again that failed or took too long.
    shards : int, optional
        A new number of shards for a campaign that is resumed.
    seconds : float, optional
        No shard begins after this time.
    processes : int
        The number of worker processes without an executor.
    executor : concurrent.futures.Executor, optional
        Does the shards.
    workers : callable, optional
        The number of workers of the executor; by default the number of processors here.
    progress : callable, optional
        ``progress(done, total, text)`` after each shard.
    interrupts : Interrupts, optional
    command : sequence of str
        The command line, for the journal.

    Returns
    -------
    Totals

    Raises
    ------
    JournalError
        If the journal cannot be used.
    ValueError
        If the campaign would never end.
    NotThere
        If no worker can be started, or the executor has gone.

    Examples
    --------
    >>> import os, tempfile
    >>> from gtape.verify.campaigns.running import Campaign, campaign
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = campaign(os.path.join(folder, "journal.jsonl"), Campaign("programs", {"size": 1}, shards=2))
    >>> found.counts["programs"], found.causes
    (2, [])
    """
    chosen: dict[str, int] = {}  # what this session changes for all later ones
    if resume:
        before = read(path)
        what = Campaign.of(before.head)
        _same_version(path, before)
        if shards is not None:
            chosen = {"shards": shards}
    if what is None:
        raise ValueError("give a campaign to begin, or resume one")
    if shards is not None:
        what.shards = shards
    total = what.total(endless=seconds is not None)
    if total is None and seconds is None:
        raise ValueError(f"a campaign of {what.kind} has no end: give a number of shards or of seconds")
    head = {**what.head(), "versions": versions(), "machine": machine(), "began": _now(), "command": list(command)}
    session = {
        "process": os.getpid(), "began": _now(), "versions": versions(), "machine": machine(), "command": list(command),
        **chosen,
    }  # fmt: skip
    with Journal(path, plain_data(head), plain_data(session), resume=resume) as journal:
        return _Run(what, journal, total, seconds, retry_errors, progress).go(processes, executor, workers, interrupts)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _same_version(path: str, lines: Lines) -> None:
    theirs, ours = lines.head["versions"].get("gtape"), versions()["gtape"]
    if theirs != ours:
        raise JournalError(
            f"{path} was written by gtape {theirs}, and this is {ours}: all results of a journal come from one "
            f"version; use gtape {theirs}, or begin a new journal"
        )


class _Run:
    """One session of a campaign."""

    def __init__(
        self,
        what: Campaign,
        journal: Journal,
        total: int | None,
        seconds: float | None,
        retry_errors: bool,
        progress: Progress | None,
    ) -> None:
        self.what, self.journal, self.total, self.progress = what, journal, total, progress
        self.results = journal.lines.results
        self.began = time.monotonic()
        self.seconds = seconds
        self.retry_errors = retry_errors
        self.here = 0
        self.causes = {f["cause"] for line in self.results.values() for f in line["findings"]}

    def shards(self) -> Iterator[tuple[int, Shard]]:
        """The shards to do, until the time is over."""
        for number, shard in self.what.plan(self.total):
            known = self.results.get(key_of(shard))
            if known is not None and (known["status"] == "done" or not self.retry_errors):
                continue
            if self.seconds is not None and time.monotonic() - self.began >= self.seconds:
                return
            yield number, shard

    def enter(self, number: int, shard: Shard, result: dict[str, Any]) -> None:
        """Write a result, and report the progress."""
        self.results[key_of(shard)] = self.journal.enter(number, shard, result)
        self.here += 1
        self.causes.update(f["cause"] for f in result["findings"])
        if self.progress is not None:
            self.progress(len(self.results), self._expected(), self._told())

    def _expected(self) -> int | None:
        if self.total is not None or self.seconds is None:
            return self.total
        spent = max(time.monotonic() - self.began, 1e-9)
        return len(self.results) + int(self.here / spent * max(0.0, self.seconds - spent))

    def _told(self) -> str:
        spent = max(time.monotonic() - self.began, 1e-9)
        rate = self.here / spent
        left = None if self.total is None else max(0, self.total - len(self.results)) / rate
        if self.seconds is not None:
            left = min(v for v in (left, max(0.0, self.seconds - spent)) if v is not None)
        ends = "" if left is None else f", {_time(left)} left"
        found = counted(len(self.causes), "finding") if self.causes else "no findings"
        return f"{rate:.2g} shards/s{ends}, {found}"

    def go(
        self,
        processes: int,
        executor: Executor | None,
        workers: Callable[[], int] | None,
        interrupts: Interrupts | None,
    ) -> Totals:
        """Do the shards; return the totals of the whole campaign."""
        if executor is not None:
            count = workers or (lambda: os.cpu_count() or 1)
            through(executor, self.shards(), self.enter, workers=count, seconds=self.what.limit, interrupts=interrupts)
        else:
            broken = self._in_processes(processes, interrupts)
            if broken is not None:
                raise NotThere(broken)
        if interrupts is not None:
            interrupts.reporting()
        return totals_of(sorted(self.results.values(), key=lambda line: int(line["number"])))

    def _in_processes(self, processes: int, interrupts: Interrupts | None) -> str | None:
        taken: dict[int, tuple[int, Shard]] = {}

        def jobs() -> Iterator[tuple[Shard]]:
            for i, (number, shard) in enumerate(self.shards()):
                taken[i] = (number, shard)
                yield (shard,)

        def done(i: int, fate: Fate) -> None:
            number, shard = taken.pop(i)
            if fate.failed is not None:
                result = errored(f"{type(fate.failed).__name__}: {fate.failed}")
            elif fate.lost is not None:
                result = lost(shard, fate.lost, late=fate.lost.startswith(TOO_LONG))
            else:
                result = fate.value
            self.enter(number, shard, result)

        return run_stream(work, jobs(), done, processes=processes, seconds=self.what.limit, interrupts=interrupts)


def _time(seconds: float) -> str:
    """A time in words.

    Examples
    --------
    >>> _time(5), _time(65), _time(7300)
    ('5 s', '1 min 5 s', '2 h 1 min')
    """
    s = round(seconds)
    if s < 60:
        return f"{s} s"
    return f"{s // 60} min {s % 60} s" if s < 3600 else f"{s // 3600} h {s % 3600 // 60} min"
