"""``gtape campaign``: shards without end, in a journal that survives any kill."""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator

from gtape.base.counts import counted
from gtape.base.escaping import plain, plain_lines
from gtape.verify.campaigns.examples import ExamplesError, add_examples, read_examples, shards_of
from gtape.verify.campaigns.executors import NotThere, on_scheduler
from gtape.verify.campaigns.journal import JournalError, read
from gtape.verify.campaigns.kinds import kind_of
from gtape.verify.campaigns.running import LIMIT, Campaign, campaign, settings_of
from gtape.verify.campaigns.totals import Totals
from gtape.verify.campaigns.trust import Untrusted, trusted
from gtape.verify.command.output import (
    FINE,
    FOUND,
    NOT_COMPLETED,
    Usage,
    check_path,
    progress_bar,
    show_table,
    write_json,
)
from gtape.verify.command.streams import flush, is_terminal, say, tell
from gtape.verify.search.interrupts import Interrupts
from gtape.verify.search.loading import NotLoaded
from gtape.verify.search.pools import start_method
from gtape.verify.verdicts.machine import versions

__all__ = ["run"]

_EVERY = 60.0  # seconds between lines of progress without a terminal
_MOST_ROWS = 50


def run(options: argparse.Namespace, interrupts: Interrupts) -> int:
    """Run or resume a campaign; return the exit status."""
    check_path(options.json)
    check_path(options.examples)
    for other in (options.json, options.examples):
        if other and os.path.realpath(other) == os.path.realpath(options.journal):
            raise Usage(f"{plain(other)} is the journal: name another file")
    try:
        what = _resumed(options) if options.resume else _new(options)
        totals = _campaign(options, what, interrupts)
        new = add_examples(options.examples, totals.causes) if options.examples else None
    except (JournalError, ExamplesError, Untrusted, NotLoaded) as e:
        raise Usage(str(e)) from None
    except NotThere as e:
        kept = f"; the finished shards are in {plain(options.journal)}" if os.path.exists(options.journal) else ""
        tell(f"gtape campaign: {plain_lines(str(e))}{kept}")
        return NOT_COMPLETED
    return _deliver(options, what, totals, new)


def _new(options: argparse.Namespace) -> Campaign:
    name = options.kind or ("functions" if options.load else "programs")
    given = {}
    for text in options.set:
        key, equals, value = text.partition("=")
        if not equals:
            raise Usage(f"--set {plain(text)}: write NAME=VALUE")
        given[key.strip()] = value.strip()
    for key, value in (("seed", options.seed), ("size", options.shard_size)):
        if value is not None:
            given[key] = value
    chooses = "names" if name == "functions" else "ops"
    if options.only:
        given[chooses] = options.only
    examples = read_examples(options.examples) if options.examples else []
    shards = shards_of(examples, name)
    trusted(options.examples or "", shards, options.load)
    try:
        if options.only and chooses not in kind_of(name).options:
            raise Usage(f"a campaign of {name} has no ops or functions to choose: leave out --only")
        limit = LIMIT if options.shard_seconds is None else options.shard_seconds
        what = Campaign(
            name, settings_of(kind_of(name), given), load=options.load, shards=options.shards, limit=limit,
            examples=shards,
        )  # fmt: skip
        if what.total() is None and options.seconds is None:
            raise Usage(f"a campaign of {name} has no end: say --shards N or --seconds S")
        return what
    except ValueError as e:
        raise Usage(str(e)) from None


_SAID = ("kind", "set", "seed", "shard_size", "only", "shard_seconds")


def _resumed(options: argparse.Namespace) -> Campaign:
    head = read(options.journal).head
    extra = [name for name in _SAID if getattr(options, name)]
    if extra:
        raise Usage(f"the journal says what the campaign is: leave out --{extra[0].replace('_', '-')}")
    examples = [e for e in head["examples"] if isinstance(e, dict)]
    trusted(options.journal, [{"load": head["load"]}, *examples], options.load)
    what = Campaign.of(head)
    if options.shards is not None:
        what.shards = options.shards
    if what.total() is None and options.seconds is None:
        raise Usage("this campaign has no end: say --shards N or --seconds S")
    return what


def _campaign(options: argparse.Namespace, what: Campaign, interrupts: Interrupts) -> Totals:
    with contextlib.ExitStack() as stack:
        executor, workers = None, None
        if options.scheduler is not None:
            executor, workers = stack.enter_context(on_scheduler(options.scheduler))
        elif start_method() == "fork":
            # Workers are forked from this process, because each worker would otherwise import these again.
            pass
        return campaign(
            options.journal, None if options.resume else what, resume=options.resume,
            retry_errors=options.retry_errors, shards=options.shards, seconds=options.seconds,
            processes=options.processes, executor=executor, workers=workers,
            progress=stack.enter_context(_progress(options)), interrupts=interrupts, command=options.line,
        )  # fmt: skip


@contextlib.contextmanager
def _progress(options: argparse.Namespace) -> Iterator[Callable[[int, int | None, str], None]]:
    """A bar on a terminal; elsewhere a line on standard error each minute."""
    if is_terminal(sys.stderr):
        with progress_bar(options) as bar:
            yield lambda done, total, text: bar(done, done if total is None else total, text)
        return
    told = time.monotonic()

    def lines(done: int, total: int | None, text: str) -> None:
        nonlocal told
        if not options.no_progress and time.monotonic() - told >= _EVERY:
            told = time.monotonic()
            tell(f"gtape campaign: {_shards(done, total)}, {text}")

    yield lines


def _shards(done: int, total: int | None) -> str:
    """The number of finished shards, and of all; earlier sessions may have finished more than this one asks for."""
    if total is None:
        return counted(done, "shard")
    asked = counted(total, "shard")
    return f"{done:,} of {asked}" if done <= total else f"{counted(done, 'shard')} ({total:,} were asked for)"


def _deliver(options: argparse.Namespace, what: Campaign, totals: Totals, new: int | None) -> int:
    total = what.total(endless=options.seconds is not None)
    complete = total is None or sum(totals.shards.values()) >= total
    bad = totals.causes if options.strict else totals.failures
    data = {
        "versions": versions(), "ok": not bad and complete and not totals.errors, "complete": complete,
        "kind": what.kind, "settings": what.settings, "journal": options.journal, **totals.as_dict(),
    }  # fmt: skip
    if options.json:
        write_json(options.json, data)
    if options.json != "-":
        _show(options, what, totals, total, complete)
        if new is not None:
            say(f"{plain(options.examples)}: {new or 'no'} new example{'' if new == 1 else 's'}")
    flush()
    for error in totals.errors[:_MOST_ROWS]:
        tell(f"gtape campaign: shard {error['number']} failed: {plain_lines(str(error['why']))}")
    return NOT_COMPLETED if totals.errors else FOUND if bad else FINE


def _show(options: argparse.Namespace, what: Campaign, totals: Totals, total: int | None, complete: bool) -> None:
    if totals.causes:
        rows = [
            (str(f["verdict"]), f"{f['times']:,}", str(f["number"]), plain(f["cause"]))
            for f in totals.causes[:_MOST_ROWS]
        ]
        show_table(
            f"gtape campaign, {what.kind}", ("verdict", ">times", ">first in shard", "cause"), rows,
            [f["verdict"] == "undecided" for f in totals.causes[:_MOST_ROWS]],
        )  # fmt: skip
        if len(totals.causes) > _MOST_ROWS:
            say(f"and {counted(len(totals.causes) - _MOST_ROWS, 'more cause')}")
    for line in _counted(totals):
        say(line)
    undecided = len(totals.causes) - len(totals.failures)
    n = len(totals.failures)
    found = f"{counted(n, 'cause')} of findings" if n else "nothing found"
    say(
        f"{_shards(sum(totals.shards.values()), total)}, {found}"
        + (f", {undecided} undecided" if undecided else "")
        + (f", {totals.shards['late']} not done in time" if totals.shards["late"] else "")
        + (f", {len(totals.errors)} failed" if totals.errors else "")
    )
    if not complete:
        words = ["gtape", "campaign", options.journal, *(f"--load={text}" for text in options.load), "--resume"]
        say(f"the campaign is not complete: {plain(shlex.join(words))} continues it")


def _counted(totals: Totals) -> Iterator[str]:
    """The counts, one line for each group."""
    groups: dict[str, list[str]] = {}
    for name, n in sorted(totals.counts.items()):
        group, colon, item = name.partition(": ")
        groups.setdefault(group if colon else "", []).append(f"{plain(item if colon else name)} {n:,}")
    for group, items in groups.items():
        yield (f"{plain(group)}: " if group else "") + ", ".join(items)
