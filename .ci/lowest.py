"""Print, as pip constraints, the lowest versions that pyproject.toml declares for dependencies and test tools.

python .ci/lowest.py pyproject.toml
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

PROJECT = tomllib.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["project"]

for requirement in [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["test"]]:
    found = re.fullmatch(r"([A-Za-z0-9_.-]+)>=([0-9.]+)", requirement)
    if found is None:
        sys.exit(f"{requirement!r} declares no lowest version; write it as name>=version")
    print(f"{found[1]}=={found[2]}")
