"""``gtape mutants``: how many planted faults each kind of check finds, as a matrix of operators and channels."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from gtape.verify.campaigns.mutants import KIND, trials
from gtape.verify.command.output import Usage
from gtape.verify.programs.kills import CHANNELS, Trial
from gtape.verify.programs.operators import OPERATORS
from gtape.verify.search.interrupts import Interrupts
from gtape.verify.search.pools import Harvest, run_all

__all__ = ["COLUMNS", "Matrix", "run"]

COLUMNS = (
    "fault", ">mutants", ">check", ">named", ">flag", ">property", ">plain", ">differences", ">tries, property",
    ">tries, plain", ">ms, property", ">ms, plain",
)  # fmt: skip


def run(
    names: Sequence[str],
    *,
    tries: int,
    operators: Sequence[str],
    processes: int = 1,
    progress: Callable[[int, int, str], None] | None = None,
    interrupts: Interrupts | None = None,
) -> Harvest:
    """Do the work of a campaign of mutants, once for each primitive.

    Parameters
    ----------
    names : sequence of str
        Primitives; all differentiable ones if empty.
    tries : int
        As for `gtape.verify.programs.kills.try_all`.
    operators : sequence of str
        Kinds of fault, as for `gtape.verify.campaigns.mutants.operators_named`.

    Returns
    -------
    Harvest
        The results are lists of `Trial`.

    Raises
    ------
    Usage
        For a primitive that is not differentiable, or an unknown kind of fault.
    """
    settings = {"ops": list(names), "operators": list(operators), "size": tries, "seed": 0}
    try:
        shards = list(itertools.islice(KIND.plan(settings), KIND.length(settings)))
    except ValueError as e:
        raise Usage(str(e)) from None
    labels = [shard["op"] for shard in shards]
    return run_all(
        trials, [(s,) for s in shards], labels, processes=processes, progress=progress, interrupts=interrupts
    )


class Matrix:
    """The trials of a run, counted by operator and channel.

    Attributes
    ----------
    trials : list of Trial
    """

    def __init__(self, trials: list[Trial]) -> None:
        self.trials = trials
        self.applicable = [t for t in trials if t.state == "applicable"]

    @property
    def ok(self) -> bool:
        """True if `check` finds every mutant that it can see."""
        return all(t.kills["check"].found is not False for t in self.applicable)

    def _of(self, operator: str) -> list[Trial]:
        return [t for t in self.applicable if t.operator == operator]

    def rows(self) -> list[tuple[str, ...]]:
        """The rows of the table, the sums last."""
        used = [name for name in OPERATORS if self._of(name)]
        return [*[_row(name, self._of(name)) for name in used], _row("all", self.applicable)]

    def fine(self) -> list[bool]:
        """For each row, whether `check` found all mutants of the row."""
        groups = [self._of(name) for name in OPERATORS if self._of(name)]
        return [all(t.kills["check"].found is not False for t in g) for g in [*groups, self.applicable]]

    def survivors(self) -> list[str]:
        """The mutants that `check` missed, then the mutants that it found without naming their op."""
        found = []
        for word, missed in (("missed", True), ("found, but the op is not named", False)):
            for t in self.applicable:
                kill = t.kills["check"]
                if (kill.found is False) if missed else (kill.found and not kill.named):
                    found.append(f"{word}: {t.op}, argument {t.argument}, {t.operator}: {t.text}")
        return found

    def closing(self) -> list[str]:
        """The meaning of the columns, and the sums in words."""
        states = Counter(t.state for t in self.trials)
        seen = [t.kills["check"] for t in self.applicable if t.kills["check"].found is not None]
        found, named = sum(bool(k.found) for k in seen), sum(k.named for k in seen)
        channels = (
            "check: gtape.verify.check; named: its finding names the op; flag: a tape with verify=True; property: a "
            "property test whose calls gtape.verify.strategies draws"
        )
        random = (
            "plain: check at plain random numbers; differences: central differences there, as torch.autograd.gradcheck"
        )
        numbers = (
            "tries, ms: the median number of calls and time until the fault was found, among faults found by both; -: "
            "the channel cannot see this kind of fault"
        )
        counts = (
            f"{len(self.trials)} mutants: {states['equivalent']} change no derivative and {states['raises']} raise an "
            f"error at once, so {states['applicable']} remain"
        )
        result = (
            f"check found {found} of {len(seen)}{_percent(found, len(seen))} and named the op of "
            f"{named}{_percent(named, len(seen))}"
        )
        return [channels, random, numbers, counts, result]

    def as_dict(self) -> dict[str, Any]:
        """The matrix as plain data for JSON."""
        states = Counter(t.state for t in self.trials)
        return {
            "channels": list(CHANNELS),
            "mutants": len(self.trials),
            **{k: states[k] for k in ("applicable", "equivalent", "raises")},
            "found": {c: sum(bool(t.kills[c].found) for t in self.applicable) for c in CHANNELS},
            "seen": {c: sum(t.kills[c].found is not None for t in self.applicable) for c in CHANNELS},
            "named": {c: sum(t.kills[c].named for t in self.applicable) for c in CHANNELS},
            "trials": [t.as_dict() for t in self.trials],
        }


def _percent(part: int, whole: int) -> str:
    return f" ({100 * part / whole:.1f} %)" if whole else ""


def _row(name: str, trials: Sequence[Trial]) -> tuple[str, ...]:
    def share(channel: str, what: str = "found") -> str:
        kills = [t.kills[channel] for t in trials if t.kills[channel].found is not None]
        return f"{sum(bool(getattr(k, what)) for k in kills)}/{len(kills)}" if kills else "-"

    both = [t for t in trials if t.kills["property"].found and t.kills["plain"].found]

    def typical(channel: str, what: str) -> float | None:
        return median([float(getattr(t.kills[channel], what)) for t in both]) if both else None

    tries = [typical(c, "tries") for c in ("property", "plain")]
    seconds = [typical(c, "seconds") for c in ("property", "plain")]
    return (
        name, str(len(trials)), share("check"), share("check", "named"), *[share(c) for c in CHANNELS[1:]],
        *["-" if n is None else f"{n:g}" for n in tries], *["-" if x is None else f"{1000 * x:.0f}" for x in seconds],
    )  # fmt: skip
