"""Other libraries: their derivatives, judged by exact ones as `gtape peers` judges them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from gtape.verify.campaigns.kinds import Kind, Outcome, Settings, Shard, only, seconds_in
from gtape.verify.peers.audit import DTYPES, judged, pieces
from gtape.verify.peers.findings import Cause

__all__ = ["KIND"]

# For these faults a formula has lost digits, or a convention differs. Other wrong numbers have the verdict `rule`.
_VERDICTS = {
    "digits": "unstable", "zero": "unstable", "nan": "unstable", "infinite": "unstable",
    "kink": "convention",
}  # fmt: skip


def _pieces(settings: Settings) -> list[Shard]:
    names = ("libraries", "ops", "modes", "dtypes", "programs", "patience", "seed")
    return pieces(**{n: settings[n] for n in names}, points=settings["size"])


def plan(settings: Settings) -> Iterator[Shard]:
    """The pieces of an audit, then again and again the pieces with random points or programs, with other seeds."""
    first = _pieces(settings)
    yield from ({"kind": "peers", **piece} for piece in first)
    if not any("seed" in piece or "first" in piece for piece in first):
        return
    for seed in itertools.count(settings["seed"] + 1):
        for piece in _pieces({**settings, "seed": seed}):
            if "seed" in piece or "first" in piece:
                yield {"kind": "peers", **piece}


def run(shard: Shard) -> Outcome:
    """Judge one function or case of a library in one dtype, or some random programs."""
    outcome = Outcome()
    part = judged(shard)
    name = part.library
    outcome.count(f"{name}: derivatives judged", part.judged)
    if part.refused:
        outcome.count(f"{name}: derivatives that the library says it lacks", sum(map(len, part.refused.values())))
    for cause in part.causes:
        _find(outcome, _VERDICTS.get(cause.first.what, "rule"), cause, part.versions, shard)
    for cause in part.unproved:
        _find(outcome, "undecided", cause, part.versions, shard, ", which its witness does not show again")
    return outcome


def _find(outcome: Outcome, verdict: str, cause: Cause, versions: dict[str, str], shard: Shard, more: str = "") -> None:
    f = cause.first
    at = ", ".join(np.array2string(np.asarray(a), threshold=8, separator=", ") for a in f.arguments)
    told = ", ".join(f"{k} {v}" for k, v in versions.items())
    outcome.find(
        verdict, cause.id + more,
        f"{cause.title}{more}: at {at} ({f.dtype}) it returned {f.got}, exact {f.exact}; {told}",
        shard, op=cause.subject, order=f.order, got=str(f.got), exact=f.exact, reason=f.why or more.strip(", "),
        witness=cause.source,
    )  # fmt: skip


def _length(settings: Settings) -> int:
    only(settings, "dtypes", DTYPES)
    seconds_in(settings, "patience")
    if settings["programs"] < 0:
        raise ValueError(f"programs must be at least 0, not {settings['programs']}")
    return len(_pieces(settings))


KIND = Kind(
    "the derivatives of other libraries, each in a process of its own",
    {
        "seed": 0, "size": 240, "libraries": [], "ops": [], "modes": [], "dtypes": list(DTYPES),
        "programs": 100, "patience": 20.0,
    },
    plan,
    run,
    _length,
)  # fmt: skip
