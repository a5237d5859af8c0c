"""What a commit goes through before CI sees it."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FAULTS = runpy.run_path(str(ROOT / ".ci" / "commit_title.py"))["faults"]


@pytest.mark.parametrize(
    "message",
    [
        "Name the axis in the error of concat",
        "Name the axis\n\nBecause users asked.",
        "Merge branch 'habits' into main, which brings a great many things that take more than 72 characters",
        "Name the axis\n# On branch main, a comment of git's",
        "Bring back the string",
        "Feed the dataset to fit",
        "Embed the table",
    ],
)
def test_a_good_title_passes(message: str) -> None:
    assert not FAULTS(message)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("", "empty"),
        ("Name " + "x" * 70, "75 characters"),
        ("Name the axis.", "full stop"),
        ("Fixed the axis", "imperative"),
        ("Fixing the axis", "imperative"),
        ("Renamed the axis", "imperative"),
        ("Name the axis\nbecause", "second line"),
    ],
)
def test_a_bad_title_is_told_why(message: str, said: str) -> None:
    assert any(said in fault for fault in FAULTS(message))


def test_the_hooks_run_what_ci_runs() -> None:
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for command in ("ruff check", "ruff format --check"):
        assert f"entry: {command}\n" in hooks and f"{command} ." in ci
    for program in re.findall(r"entry: (\.ci/\S+)", hooks):
        assert (ROOT / program).stat().st_mode & 0o111, f"{program} is not executable"


def test_the_changelog_knows_the_version() -> None:
    import gtape

    assert gtape.__version__ in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
