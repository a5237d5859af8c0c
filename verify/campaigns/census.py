"""The census of gtape's own elementwise ops: the worst error of each derivative, by search."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from gtape.verify.campaigns.kinds import Kind, Outcome, Settings, Shard, only, plain_data
from gtape.verify.search.census import DTYPES, survey
from gtape.verify.search.census_complex import COMPLEX_DTYPES, takes_complex
from gtape.verify.search.rows import MOST_POINTS
from gtape.verify.search.subjects import Subject, subjects

__all__ = ["KIND"]


def _wanted(settings: Settings) -> list[tuple[Subject, str]]:
    """Each op with each dtype that it takes."""
    every = itertools.product(subjects(settings["ops"] or None), settings["dtypes"])
    return [(s, dtype) for s, dtype in every if dtype not in COMPLEX_DTYPES or takes_complex(s)]


def plan(settings: Settings) -> Iterator[Shard]:
    """A shard for each op and dtype, again and again with another seed."""
    wanted = _wanted(settings)
    for seed in itertools.count(settings["seed"]):
        for s, dtype in wanted:
            points = settings["size"] if s.prim.limit <= 4 else max(settings["size"] // 40, 50)
            yield {
                "kind": "census", "op": s.prim.name, "params": plain_data(s.params), "dtype": dtype,
                "orders": list(settings["orders"]), "points": points, "seed": seed,
            }  # fmt: skip


def run(shard: Shard) -> Outcome:
    """Search one op in one dtype."""
    outcome = Outcome()
    subject = next(s for s in subjects([shard["op"]]) if plain_data(s.params) == shard["params"])
    rows = survey(subject, orders=shard["orders"], dtype=shard["dtype"], points=shard["points"], seed=shard["seed"])
    for row in rows:
        what = f"{row.op}, {row.dtype}, order {row.order}, by argument {row.argument}"
        outcome.count("points", row.points)
        outcome.count(f"verdict: {row.verdict}")
        outcome.worst(f"ULP of {what}", row.worst_ulp)
        if not row.ok:
            outcome.find(
                row.verdict, what,
                f"{what}, at {', '.join(map(repr, row.where))}: got {row.got!r}, exact {row.exact!r}, "
                f"{row.worst_ulp:.3g} ULP off",
                shard, op=row.name, order=row.order, got=repr(row.got), exact=repr(row.exact), ulps=row.worst_ulp,
            )  # fmt: skip
    return outcome


def _length(settings: Settings) -> int:
    only(settings, "orders", (1, 2))
    only(settings, "dtypes", DTYPES)
    if settings["size"] > MOST_POINTS:
        raise ValueError(f"size must be at most {MOST_POINTS:,}, not {settings['size']}")
    wanted = _wanted(settings)
    if not wanted:
        raise ValueError(f"dtypes: none of the ops takes {', '.join(settings['dtypes'])}")
    return len(wanted)


KIND = Kind(
    "the worst derivative of each elementwise op, by search",
    {"seed": 0, "size": 2_000, "ops": [], "dtypes": ["float64", "float32"], "orders": [1, 2]},
    plan,
    run,
    _length,
)
