"""What pyproject.toml says agrees with what lies on disk."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import gtape

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SETUPTOOLS = PYPROJECT["tool"]["setuptools"]
FOLDERS = {"gtape": "gtape", "symbolic": "gtape.symbolic", "verify": "gtape.verify"}


def _packages_on_disk() -> set[str]:
    found = set()
    for folder, package in FOLDERS.items():
        top = ROOT / folder
        for path in top.rglob("*.py"):
            found.add(".".join([package, *path.parent.relative_to(top).parts]))
    return found


def _folder_of(package: str) -> Path:
    mapping = SETUPTOOLS["package-dir"]
    root = max((p for p in mapping if package == p or package.startswith(p + ".")), key=len)
    return ROOT / mapping[root] / Path(*package.removeprefix(root).strip(".").split("."))


def test_every_folder_is_a_listed_package() -> None:
    assert set(SETUPTOOLS["packages"]) == _packages_on_disk()


@pytest.mark.parametrize("package", SETUPTOOLS["packages"])
def test_every_listed_package_has_an_init(package: str) -> None:
    assert (_folder_of(package) / "__init__.py").is_file()


def test_the_type_marker_is_installed() -> None:
    assert "py.typed" in SETUPTOOLS["package-data"]["gtape"]
    assert (ROOT / "gtape" / "py.typed").is_file()


def test_the_licence_is_there_whole() -> None:
    assert PYPROJECT["project"]["license"] == "Apache-2.0"
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Version 2.0, January 2004" in text and "END OF TERMS AND CONDITIONS" in text


def test_the_command_has_a_function() -> None:
    module, _, function = PYPROJECT["project"]["scripts"]["gtape"].partition(":")
    source = _folder_of(module.rpartition(".")[0]) / f"{module.rpartition('.')[2]}.py"
    assert re.search(rf"^def {function}\(", source.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("module", ["gtape.symbolic", "gtape.verify", "gtape.keras", "gtape.ops"])
def test_a_bare_checkout_imports(module: str) -> None:
    run = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); import {module}"],
        cwd=Path(sys.executable).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("name", ["gtape", "tests", "docs"])
def test_the_other_folders_of_a_checkout_are_no_part_of_the_package(name: str) -> None:
    assert not hasattr(gtape, name)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(f"gtape.{name}")


def test_project_urls_are_of_one_repository() -> None:
    urls = PYPROJECT["project"]["urls"]
    assert {"Homepage", "Documentation", "Issues"} <= set(urls)
    assert all(url.startswith(urls["Homepage"]) for url in urls.values())


def test_the_source_distribution_takes_every_top_level_entry() -> None:
    """`.ci/run` builds it, compares it with what git tracks, and runs tests where it is unpacked."""
    lines = [line.split() for line in (ROOT / "MANIFEST.in").read_text(encoding="utf-8").splitlines()]
    taken = {name for words in lines if words and words[0] in ("graft", "include") for name in words[1:]}
    run = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if run.returncode:
        pytest.skip("no git checkout")
    assert taken == {path.partition("/")[0] for path in run.stdout.splitlines()}


def test_lowest_versions_are_declared_for_all_that_ci_pins() -> None:
    run = subprocess.run(
        [sys.executable, ROOT / ".ci" / "lowest.py", ROOT / "pyproject.toml"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    pins = run.stdout.split()
    assert all(re.fullmatch(r"[\w.-]+==\d+(\.\d+)+", pin) for pin in pins)
    assert {pin.partition("==")[0] for pin in pins} >= {"numpy", "scipy", "sympy", "pytest"}


def test_ci_reads_the_readme() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^<!-- ci: run -->\n```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    commands = "".join(blocks)
    assert "pip install ." in commands
    assert "python -m pytest" in commands
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111, ".ci/run is not executable"
