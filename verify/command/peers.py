"""``gtape peers``: judges the derivatives of other libraries by exact ones."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

from gtape.base.escaping import plain
from gtape.storage.files import open_regular
from gtape.verify.command.output import Usage
from gtape.verify.peers.audit import Audit, end_peer, judged, pieces, summed
from gtape.verify.peers.conversation import Unusable
from gtape.verify.peers.findings import Cause, known_causes, markdown
from gtape.verify.peers.libraries import KNOWN
from gtape.verify.search.interrupts import Interrupts
from gtape.verify.search.loading import imported
from gtape.verify.search.pools import Harvest, run_all

__all__ = ["Outcome", "baseline_of", "run", "short", "texts"]

_MOST_BYTES = 100_000_000  # of a baseline


def short(number: str) -> str:
    """A decimal number with few digits, for a table."""
    try:
        return f"{Decimal(number):.10g}"
    except InvalidOperation:
        return number[:24]


class Outcome(NamedTuple):
    """The audits of some libraries.

    Attributes
    ----------
    audits : list of Audit
    new : list of Cause
        The causes that the baseline lacks; all causes without a baseline.
    missing : dict
        Library -> why it was not judged.
    harvest : Harvest
        Of the pieces.
    """

    audits: list[Audit]
    new: list[Cause]
    missing: dict[str, str]
    harvest: Harvest

    @property
    def causes(self) -> list[Cause]:
        """The causes of all libraries."""
        return [c for a in self.audits for c in a.causes]

    def as_dict(self) -> dict[str, Any]:
        """The outcome as plain data; `--baseline` reads it."""
        new = {c.id for c in self.new}
        return {
            "libraries": {
                a.library: {
                    "versions": a.versions, "judged": a.judged, "refused": a.refused, "not_begun": a.skipped,
                    "not_shown_again": [c.id for c in a.unproved],
                }
                for a in self.audits
            },
            "missing": self.missing,
            "causes": [{**c.as_dict(), "new": c.id in new} for c in self.causes],
        }  # fmt: skip


def baseline_of(path: str | None) -> set[str] | None:
    """The known causes in the file of an earlier run; None without a file.

    Raises
    ------
    Usage
        If the file cannot be read, or is not the report of an earlier run.
    """
    if path is None:
        return None
    try:
        with open_regular(path) as f:
            content = f.read(_MOST_BYTES)
        return known_causes(content if isinstance(content, str) else content.decode("utf-8"))
    except (OSError, UnicodeDecodeError) as e:
        raise Usage(f"the baseline {plain(path)} cannot be read: {getattr(e, 'strerror', None) or e}") from None
    except ValueError as e:
        raise Usage(f"the baseline {plain(path)} is not usable: {e}") from None


def run(
    names: Sequence[str], *, ops: Sequence[str], modes: Sequence[str], dtypes: Sequence[str], seconds: float,
    programs: int, points: int, patience: float, seed: int, known: set[str] | None, load: Sequence[str] = (),
    processes: int = 1, progress: Callable[[int, int, str], None] | None = None, interrupts: Interrupts | None = None,
) -> Outcome:  # fmt: skip
    """Judge libraries one after the other, piece by piece, as campaigns do.

    Each library has an equal share of the time; time that a library does not use goes to the next ones.
    """
    try:
        todo = pieces(
            names, ops=ops, modes=modes, dtypes=dtypes, programs=programs, points=points, patience=patience, seed=seed
        )
    except ValueError as e:
        raise Usage(str(e)) from None
    libraries = list(dict.fromkeys(piece["library"] for piece in todo))
    began = time.time()
    until = {name: began + seconds * k / len(libraries) for k, name in enumerate(libraries, 1)}
    jobs = [(piece, until[piece["library"]], tuple(load)) for piece in todo]
    try:
        harvest = run_all(
            _in_time, jobs, [_label(piece) for piece in todo],
            processes=processes, progress=progress, interrupts=interrupts,
        )  # fmt: skip
    finally:
        end_peer()
    missing = {n: "not installed" for n in KNOWN if not names and n not in libraries}
    audits = []
    for name in libraries:
        own = [i for i, piece in enumerate(todo) if piece["library"] == name]
        parts = [harvest.values[i] for i in own if harvest.values.get(i) is not None]
        unusable = [str(harvest.failed[i]) for i in own if isinstance(harvest.failed.get(i), Unusable)]
        if parts:
            audits.append(summed(parts, [harvest.labels[i] for i in own if harvest.values.get(i, 0) is None]))
        elif unusable:
            missing[name] = unusable[0]
    new = [c for a in audits for c in a.causes if known is None or c.id not in known]
    return Outcome(audits, new, missing, harvest)


def _in_time(piece: dict[str, Any], until: float, load: Sequence[str]) -> Audit | None:
    """The result of a piece; None if the time is over."""
    for module in load:
        imported(module)
    return judged(piece) if time.time() < until else None


def _label(piece: dict[str, Any]) -> str:
    if "dtype" not in piece:
        return f"{piece['library']} {piece['subject']} ({piece['first']} to {piece['first'] + piece['count'] - 1})"
    return f"{piece['library']} {piece['subject']} ({piece['dtype']}, {', '.join(piece['modes'])})"


def texts(outcome: Outcome, with_baseline: bool) -> dict[str, str]:
    """The files of a report: one page, and one program for each cause."""
    page = markdown(
        outcome.causes,
        {a.library: a.versions for a in outcome.audits},
        [c.id for c in outcome.new] if with_baseline else None,
    )
    files = {"findings.md": page}
    for cause in outcome.causes:
        files[os.path.join("witnesses", cause.id.replace("/", "-") + ".py")] = cause.source
    return files
