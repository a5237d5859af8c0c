"""The part of the build that puts the folders of a checkout and the stubs of gtape's namespaces into a wheel.

hatchling calls it. An editable installation gets the stubs in the checkout, because editors look for them there.
"""

from __future__ import annotations

import runpy
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Package(BuildHookInterface):  # type: ignore[misc,type-arg]
    """Adds what pyproject.toml cannot say."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the stubs, and name all that the wheel holds besides the folder gtape/."""
        root = Path(self.root)
        write = runpy.run_path(str(root / ".ci" / "write_stubs.py"))["write"]
        if version == "editable":
            write(root)
            return
        self.folder = Path(tempfile.mkdtemp())
        build_data["force_include"].update({str(self.folder / path): path.as_posix() for path in write(self.folder)})
        for kind in ("folders", "modules"):
            build_data["force_include"].update({str(root / f): home for f, home in self.config[kind].items()})

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what `initialize` wrote."""
        if version != "editable":
            shutil.rmtree(self.folder)
