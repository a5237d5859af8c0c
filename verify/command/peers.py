"""``gtape peers``: judges the derivatives of other libraries by exact ones."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

from gtape.base.escaping import plain
from gtape.storage.files import open_regular
from gtape.verify.command.output import Usage, versions
from gtape.verify.peers.audit import Audit, audit
from gtape.verify.peers.conversation import Unusable
from gtape.verify.peers.findings import Cause, known_causes, markdown
from gtape.verify.peers.libraries import KNOWN, installed, library
from gtape.verify.search.interrupts import Interrupts

__all__ = ["Outcome", "baseline_of", "chosen", "run", "short", "texts"]

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
        The causes that the baseline does not know; all of them without one.
    missing : dict
        Library -> why it was not judged.
    interrupted : bool
    """

    audits: list[Audit]
    new: list[Cause]
    missing: dict[str, str]
    interrupted: bool

    @property
    def causes(self) -> list[Cause]:
        """The causes of all libraries."""
        return [c for a in self.audits for c in a.causes]

    def as_dict(self) -> dict[str, Any]:
        """The outcome as plain data; `--baseline` reads it."""
        new = {c.id for c in self.new}
        return {
            "versions": versions(),
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


def chosen(names: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The libraries to judge, and why others are not judged.

    Raises
    ------
    Usage
        For an unknown name, a named library that is not installed, or if there is none to judge.
    """
    for name in names:
        try:
            library(name)
        except ValueError as e:
            raise Usage(str(e)) from None
        if not installed(name):
            raise Usage(f"{name} is not installed here: pip install {plain(library(name).module)}, or leave it out")
    missing = {n: "not installed" for n in KNOWN if not names and not installed(n)}
    found = list(dict.fromkeys(names)) or [n for n in KNOWN if n not in missing]
    if not found:
        raise Usage(f"none of {', '.join(KNOWN)} is installed here, so there is nothing to judge")
    return found, missing


def baseline_of(path: str | None) -> set[str] | None:
    """The known causes in the file of an earlier run; None without a file.

    Raises
    ------
    Usage
        If the file cannot be read, or is no such report.
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
    programs: int, points: int, patience: float, seed: int, known: set[str] | None,
    progress: Callable[[int, int, str], None], interrupts: Interrupts,
) -> Outcome:  # fmt: skip
    """Judge libraries one after the other, each with an equal share of the time."""
    todo, missing = chosen(names)
    audits: list[Audit] = []
    for name in todo:
        if interrupts.number is not None:
            break
        try:
            audits.append(
                audit(
                    name, names=ops, modes=modes, dtypes=dtypes, seconds=seconds / len(todo), programs=programs,
                    points=points, patience=patience, seed=seed, progress=progress,
                )
            )  # fmt: skip
        except Unusable as e:
            missing[name] = str(e)
    new = [c for a in audits for c in a.causes if known is None or c.id not in known]
    return Outcome(audits, new, missing, interrupts.number is not None)


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
