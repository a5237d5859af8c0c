"""Planted faults: every mutant of every op, which `check` must find, as `gtape mutants` tries them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from gtape.base.escaping import plain
from gtape.verify.campaigns.kinds import Kind, Outcome, Settings, Shard
from gtape.verify.programs.kills import CHANNELS, Trial, try_all
from gtape.verify.programs.operators import OPERATORS
from gtape.verify.search.subjects import subjects
from gtape.verify.search.trials import others

__all__ = ["KIND", "operators_named", "trials"]


def operators_named(texts: Sequence[str]) -> list[str]:
    """The operators that texts stand for: a number such as "m3", or a word of the name; all without a text.

    Raises
    ------
    ValueError
        For a text that is in no name.

    Examples
    --------
    >>> from gtape.verify.campaigns.mutants import operators_named
    >>> operators_named(["m3", "kink"])
    ['m3 m4 m18 textbook formula', 'm12 kink off by a step', 'm12 outside the interval at a kink']
    """
    found: list[str] = []
    for text in texts:
        numbers = [name for name in OPERATORS if text in name.split()]
        known = numbers or [name for name in OPERATORS if text.lower() in name]
        if not known:
            raise ValueError(f"there is no such kind of fault as {plain(text)!r}; there are: {'; '.join(OPERATORS)}")
        found += known
    return list(dict.fromkeys(found))


def _spoiled(names: Sequence[str]) -> list[str]:
    """The primitives whose rules are spoiled: the named ones, or all differentiable ones.

    Raises
    ------
    ValueError
        For a primitive that is not differentiable.
    """
    every = list(dict.fromkeys([s.prim.name for s in subjects()] + [p.name for p in others()]))
    unknown = sorted(set(names) - set(every))
    if unknown:
        raise ValueError(f"not differentiable, so there is no rule to spoil: {', '.join(map(plain, unknown))}")
    return [n for n in every if not names or n in names]


def plan(settings: Settings) -> Iterator[Shard]:
    """A shard for each op, again and again with another seed."""
    wanted, operators = _spoiled(settings["ops"]), operators_named(settings["operators"])
    for seed in itertools.count(settings["seed"]):
        for name in wanted:
            yield {"kind": "mutants", "op": name, "tries": settings["size"], "operators": operators, "seed": seed}


def trials(shard: Shard) -> list[Trial]:
    """Plant the mutants of one op."""
    return try_all(shard["op"], tries=shard["tries"], operators=shard["operators"] or None, seed=shard["seed"])


def run(shard: Shard) -> Outcome:
    """Plant the mutants of one op, and find those that `check` misses."""
    outcome = Outcome()
    for t in trials(shard):
        outcome.count(f"mutants: {t.state}")
        for channel in CHANNELS if t.kills else ():
            outcome.count(f"found by: {channel}", bool(t.kills[channel].found))
        if t.state != "applicable" or t.kills["check"].found is None:
            continue
        outcome.count("mutants that check can see")
        outcome.count("mutants whose op check named", t.kills["check"].named)
        if not t.kills["check"].found:
            what = f"missed fault: {t.op}, argument {t.argument}, {t.operator}: {t.text}"
            others_found = [c for c in CHANNELS if t.kills[c].found]
            outcome.find(
                "rule", what, f"{what}, passes every check; found by {', '.join(others_found) or 'no channel'}",
                {**shard, "operators": [t.operator]}, op=t.op,
            )  # fmt: skip
    return outcome


def _length(settings: Settings) -> int:
    operators_named(settings["operators"])
    return len(_spoiled(settings["ops"]))


KIND = Kind(
    "faults planted in the rule of each op, which checks must find",
    {"seed": 0, "size": 10, "ops": [], "operators": []},
    plan,
    run,
    _length,
)
