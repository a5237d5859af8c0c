"""Random programs: no false alarm in correct ones, and faults planted in the same ones are found."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from gtape.base.deadline import OutOfTime
from gtape.verify.campaigns.budget import TooLong, limited
from gtape.verify.campaigns.kinds import Kind, Outcome, Settings, Shard, seconds_in
from gtape.verify.programs.false_alarms import Outcome as Checked
from gtape.verify.programs.false_alarms import plant_one, run_one
from gtape.verify.programs.programs import generate

__all__ = ["KIND"]

_SECONDS = 60.0  # for the checks of one program


def plan(settings: Settings) -> Iterator[Shard]:
    """Shards of `size` seeds each."""
    size = settings["size"]
    for first in itertools.count(settings["seed"], size):
        yield {
            "kind": "programs", "first": first, "count": size,
            "plant": settings["plant"], "special": settings["special"],
            "seconds": settings["seconds"],
        }  # fmt: skip


def run(shard: Shard) -> Outcome:
    """Check the programs of some seeds, and plant a fault in each."""
    outcome = Outcome()
    for seed in range(shard["first"], shard["first"] + shard["count"]):
        example = {**shard, "first": seed, "count": 1}
        try:
            with limited(shard.get("seconds", _SECONDS)):
                checked = run_one(generate(seed, special=shard["special"]), special=shard["special"])
                if shard["plant"] and checked.alarm is None and checked.report.ok:
                    plant_one(checked, np.random.default_rng([77, seed]), ("all", "floats")[seed % 2])
        except (TooLong, OutOfTime):
            outcome.count("programs")
            outcome.count("verdict: undecided")
            told = f"the checks of the random program of seed {seed} take too long"
            outcome.find("undecided", "random programs take too long", told, example, reason="out of time")
            continue
        _enter(outcome, checked, example)
    return outcome


def _enter(outcome: Outcome, checked: Checked, example: Shard) -> None:
    report, program = checked.report, checked.program
    outcome.count("programs")
    outcome.count(f"verdict: {report.verdict}{'' if report.ok else ' (fails)'}")
    outcome.count(f"dtype: {program.dtype}")
    outcome.count(f"order: {program.order}")
    outcome.count("numbers compared", report.checked)
    outcome.worst("ULP", report.max_ulp)
    if checked.alarm is not None:
        outcome.find_all([f for f in report.findings if not f.ok], "false alarm", example)
    else:
        outcome.find_all([f for f in report.findings if f.verdict == "undecided"], "undecided program", example)
    if checked.fault is not None:
        op, argument, worlds, error = checked.fault
        outcome.count("faults planted")
        outcome.count("faults found", bool(checked.found))
        outcome.count("faults found with the right op", checked.named)
        if not checked.found:
            outcome.find(
                "rule", f"missed fault: {op}, argument {argument}, in {worlds}",
                f"missed fault: the rule of {op} for argument {argument}, wrong by {error:.1e} in {worlds}, passes in "
                f"the random program of seed {example['first']}",
                example, op=op, order=program.order,
            )  # fmt: skip
        elif not checked.named:
            # Undecided, because the check sees the fault and leaves open which op is to blame.
            outcome.find(
                "undecided", f"fault found without its op: {op}, argument {argument}, in {worlds}",
                f"fault found without its op: the finding does not name {op}, whose rule for argument {argument} is "
                f"wrong by {error:.1e} in {worlds}, in the random program of seed {example['first']}",
                example, op=op, order=program.order,
            )  # fmt: skip


def _length(settings: Settings) -> None:
    seconds_in(settings, "seconds")


KIND = Kind(
    "random programs without false alarms, and with planted faults that must be found",
    {"seed": 0, "size": 8, "plant": True, "special": False, "seconds": _SECONDS},
    plan,
    run,
    _length,
)
