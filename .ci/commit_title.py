#!/usr/bin/env python3
"""Refuse a commit whose title is longer than 72 characters, ends with a full stop or does not read as an order.

.ci/commit_title.py MESSAGE_FILE
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

LONGEST = 72


def faults(message: str) -> list[str]:
    """What is wrong with the title of a commit message."""
    lines = [line for line in message.splitlines() if not line.startswith("#")] or [""]
    title = lines[0]
    if re.match(r"(Merge|Revert|fixup!|squash!)", title):
        return []
    found = []
    if not title.strip():
        found.append("the title is empty: say in one line what the commit does")
    if len(title) > LONGEST:
        found.append(f"the title has {len(title)} characters: at most {LONGEST} are shown")
    if title.endswith("."):
        found.append("the title ends with a full stop: leave it out")
    if re.match(r"[a-z]*[aeiou][a-z]*(?<!e)(ed|ing)\b(?<!embed)(?<!shred)", title, re.IGNORECASE):
        found.append(f"{title.split()[0]!r} is no imperative: write the title as an order, such as 'Name the axis'")
    if len(lines) > 1 and lines[1].strip():
        found.append("the second line is not empty: the reason stands below an empty line")
    return found


if __name__ == "__main__":
    wrong = faults(Path(sys.argv[1]).read_text(encoding="utf-8"))
    print("\n".join(wrong))
    sys.exit(bool(wrong))
