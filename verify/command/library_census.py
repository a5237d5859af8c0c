"""``gtape census --libraries``: tables and pages of the worst errors of several libraries."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence
from typing import Any

from gtape.base.escaping import plain
from gtape.verify.command.census_pictures import BINS
from gtape.verify.command.output import Usage, ulp_text, versions
from gtape.verify.peers.census import DTYPES, FATAL, Worst, names_of, search
from gtape.verify.peers.conversation import Unusable
from gtape.verify.peers.libraries import installed, library
from gtape.verify.search.interrupts import Interrupts

__all__ = ["PROMISED", "as_dicts", "libraries_of", "page", "run", "table"]

_HALF = {"float16", "bfloat16"}
PROMISED = {"float64": 4.0, "float32": 4.0, "float16": 1.0, "bfloat16": 1.0}


def libraries_of(text: str) -> list[str]:
    """The libraries that a text with commas names.

    Raises
    ------
    Usage
        For an unknown library, or one that is not installed.
    """
    found = [name.strip() for name in text.split(",") if name.strip()]
    for name in found:
        try:
            known = name == "gtape" or installed(library(name).name)
        except ValueError as e:
            raise Usage(str(e)) from None
        if not known:
            raise Usage(f"{plain(name)} is not installed here: pip install {plain(name)}, or leave it out")
    if not found:
        raise Usage("name at least one library, such as --libraries gtape,torch")
    return list(dict.fromkeys(found))


def run(
    names: Sequence[str], ops: Sequence[str], *, orders: Sequence[int], dtypes: Sequence[str], points: int,
    exhaustive: bool, journal: str | None, seed: int, progress: Callable[[int, int, str], None],
    interrupts: Interrupts,
) -> list[Worst]:  # fmt: skip
    """The worst errors; raises Usage for wrong arguments or a foreign journal."""
    known = {o for n in names for o in names_of(library(n), ())}
    unknown = [o for o in ops if o not in known]
    if unknown:
        raise Usage(f"none of {', '.join(names)} has a function of one number {plain(unknown[0])!r} in its table")
    wrong = [d for d in dtypes if d not in DTYPES]
    if wrong:
        raise Usage(f"with --libraries the dtypes are {', '.join(DTYPES)}, not {wrong[0]}")
    try:
        return search(
            names, ops, orders=orders, dtypes=dtypes, points=points, exhaustive=exhaustive, journal=journal,
            seed=seed, progress=progress, stopped=lambda: interrupts.number is not None,
        )  # fmt: skip
    except (ValueError, Unusable, OSError) as e:
        raise Usage(str(e)) from None


def table(
    rows: Sequence[Worst], names: Sequence[str], places: bool = False
) -> tuple[list[str], list[list[str]], list[bool]]:
    """Columns, rows and fine rows: one row for each function, order and dtype, one column for each library.

    With `places`, an error beyond the promise has its point beside it.
    """
    found = {(w.op, w.order, w.dtype, w.library): w for w in rows}
    keys = list(dict.fromkeys((w.op, w.order, w.dtype) for w in rows))
    lines, fine = [], []
    for key in keys:
        cells = [found.get((*key, n)) for n in names]
        lines.append([key[0], str(key[1]), key[2], *[_cell(w) + (_place(w) if places else "") for w in cells]])
        own = found.get((*key, "gtape"))
        fine.append(own is None or own.error != "" or own.ulp <= PROMISED[key[2]])
    return ["op", ">order", "dtype", *[f">{n}" for n in names]], lines, fine


def _cell(w: Worst | None) -> str:
    if w is None:
        return ""
    if w.error:
        return w.error if w.error in FATAL.values() else "none"
    return "not finite" if math.isinf(w.ulp) else ulp_text(w.ulp)


def _place(w: Worst | None) -> str:
    return "" if w is None or w.error or w.ulp <= PROMISED[w.dtype] else f" at {w.where:.3g}"


def as_dicts(rows: Sequence[Worst]) -> list[dict[str, Any]]:
    """The rows as plain data."""
    return [{k: repr(v) if isinstance(v, float) and not math.isfinite(v) else v for k, v in w._asdict().items()}
            for w in rows]  # fmt: skip


def page(rows: Sequence[Worst], names: Sequence[str], command: str, exhaustive: bool, pictures: Sequence[str]) -> str:
    """The census as a page, with the date and the versions."""
    columns, lines, _ = table(rows, names, places=True)
    heads = [c.removeprefix(">") for c in columns]
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    told = {**versions(), **{n: _version(n) for n in names if n != "gtape"}}
    how = "every number of the dtype was tried" if exhaustive else "found by search"
    text = [
        "# Census of derivatives",
        "",
        f"The worst errors in units in the last place of the exact derivative; {how}.",
        "Errors above 4 ULP (1 ULP for dtypes of 16 bits) have their x beside them; subnormal numbers count, too.",
        "`none` means that the library lacks the derivative or the dtype. A command wrote this page.",
        "",
        f"- date: {day}",
        f"- command: `{command}`",
        f"- versions: {', '.join(f'{k} {v}' for k, v in told.items())}",
        "",
        f"| {' | '.join(heads)} |",
        f"|{'|'.join('---' for _ in heads)}|",
        *[f"| {' | '.join(line)} |" for line in lines],
        "",
    ]
    beyond = [w for w in rows if w.library == "gtape" and not w.error and w.ulp > PROMISED[w.dtype]]
    if beyond:
        why = " Ops compute in float32 and round once; if a rule consists of several ops, each of them rounds."
        text += [
            f"gtape's errors beyond its promise: {len(beyond)} of {len(rows)} rows."
            + (why if {w.dtype for w in beyond} <= _HALF else ""),
            "",
        ]
        text += [
            f"- {w.op}, order {w.order}, {w.dtype}: {ulp_text(w.ulp)} ULP at {w.where:g}, "
            f"returned {w.got:.6g}, exact {w.exact:.6g}"
            for w in beyond
        ] + [""]
    if pictures:
        text += [f"The pictures show the largest error of each of {BINS} groups of points in the order of x.", ""]
    for path in pictures:
        text += [f"![ULP against x]({path})", ""]
    return "\n".join(text)


def _version(name: str) -> str:
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "unknown"
