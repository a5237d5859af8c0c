"""Texts of the command line count things in words: one of a thing is no plural."""

from __future__ import annotations

import pytest

from gtape.base.counts import counted
from gtape.verify.command.commands import _bad_rows


@pytest.mark.parametrize(("n", "words"), [(0, "0 causes"), (1, "1 cause"), (2, "2 causes"), (12_345, "12,345 causes")])
def test_only_one_thing_is_in_the_singular(n: int, words: str) -> None:
    assert counted(n, "cause") == words


@pytest.mark.parametrize(
    ("bad", "rows", "words"),
    [(0, 3, "nothing found"), (1, 1, "1 of 1 row has findings"), (1, 3, "1 of 3 rows has findings"),
     (2, 3, "2 of 3 rows have findings")],
)  # fmt: skip
def test_the_verb_follows_the_rows_that_have_findings(bad: int, rows: int, words: str) -> None:
    assert _bad_rows(bad, rows) == words
