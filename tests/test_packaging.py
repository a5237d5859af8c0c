"""What pyproject.toml says agrees with what lies on disk."""

from __future__ import annotations

import importlib
import re
import runpy
import subprocess
import sys
import tomllib
import types
from pathlib import Path
from typing import Any

import pytest

import gtape

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WHEEL = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
# Where each folder of a checkout goes in an installation.
FOLDERS = {"gtape": "gtape", **WHEEL["hooks"]["custom"]["folders"]}
MODULES = WHEEL["hooks"]["custom"]["modules"]


def _folder_of(package: str) -> Path:
    path = package.replace(".", "/")
    folder, home = max(
        ((f, h) for f, h in FOLDERS.items() if f"{path}/".startswith(f"{h}/")), key=lambda pair: len(pair[1])
    )
    return ROOT / folder / path.removeprefix(home).strip("/")


def test_the_three_folders_are_installed_as_one_package() -> None:
    assert WHEEL["packages"] == ["gtape"]
    assert FOLDERS == {"gtape": "gtape", "symbolic": "gtape/symbolic", "verify": "gtape/verify"}


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_folder_of_modules_is_a_package(folder: str) -> None:
    assert all((path.parent / "__init__.py").is_file() for path in (ROOT / folder).rglob("*.py"))


def test_the_type_marker_is_there() -> None:
    assert (ROOT / "gtape" / "py.typed").is_file()


def test_the_licence_is_there_whole() -> None:
    assert PYPROJECT["project"]["license"] == "Apache-2.0"
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Version 2.0, January 2004" in text and "END OF TERMS AND CONDITIONS" in text


def test_the_command_has_a_function() -> None:
    module, _, function = PYPROJECT["project"]["scripts"]["gtape"].partition(":")
    source = _folder_of(module.rpartition(".")[0]) / f"{module.rpartition('.')[2]}.py"
    assert re.search(rf"^def {function}\(", source.read_text(encoding="utf-8"), re.MULTILINE)


def test_pytest_finds_the_plugin() -> None:
    assert PYPROJECT["project"]["entry-points"]["pytest11"] == {"pytest_gtape": "pytest_gtape"}
    source = (ROOT / "pytest_gtape.py").read_text(encoding="utf-8")
    assert re.search(r"^def pytest_addoption\(", source, re.MULTILINE)


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


class _Hook:
    """Stands in for hatchling's class, which tests need not have installed."""

    root = str(ROOT)
    config: Any = WHEEL["hooks"]["custom"]


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Any:
    interface = types.ModuleType("hatchling.builders.hooks.plugin.interface")
    interface.BuildHookInterface = _Hook  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, interface.__name__, interface)
    for name in ("hatchling", "hatchling.builders", "hatchling.builders.hooks", "hatchling.builders.hooks.plugin"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    return runpy.run_path(str(ROOT / _Hook.config["path"]))["Package"]()


def test_a_wheel_holds_the_folders_and_the_stubs(hook: Any) -> None:
    data: dict[str, Any] = {"force_include": {}}
    hook.initialize("standard", data)
    taken = {home: Path(source) for source, home in data["force_include"].items()}
    assert set(MODULES) == {"pytest_gtape.py"}
    assert all(taken.pop(home).is_file() for home in MODULES.values())
    assert {home for home in taken if not home.endswith(".pyi")} == {"gtape/symbolic", "gtape/verify"}
    assert all((path / "__init__.py").is_file() for home, path in taken.items() if not home.endswith(".pyi"))
    stubs = {home: path for home, path in taken.items() if home.endswith(".pyi")}
    assert {"gtape/__init__.pyi", "gtape/math.pyi", "gtape/linalg.pyi", "gtape/nn.pyi"} <= set(stubs)
    assert all((ROOT / home).with_suffix(".py").is_file() for home in stubs)
    assert not any(path.is_relative_to(ROOT) for path in stubs.values())
    assert "def sin(x: Any" in stubs["gtape/__init__.pyi"].read_text(encoding="utf-8")
    hook.finalize("standard", data, "")
    assert not any(path.exists() for path in stubs.values())


def test_stubs_are_written_from_the_source_text_alone() -> None:
    """A build has neither NumPy nor gtape: -S leaves out all that is installed."""
    script = f"import runpy; print(len(runpy.run_path({str(ROOT / '.ci' / 'write_stubs.py')!r})['stubs']()))"
    run = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) == 6


def test_git_tracks_no_stubs() -> None:
    run = subprocess.run(["git", "ls-files", "*.pyi"], cwd=ROOT, capture_output=True, text=True, check=False)
    if run.returncode:
        pytest.skip("no git checkout")
    assert not run.stdout


# What lies at the top of a checkout; the source distribution takes all of it.
TOP = {
    ".ci", ".gitignore", ".pre-commit-config.yaml", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md", "docs",
    "gtape", "pyproject.toml", "pytest_gtape.py", "symbolic", "tests", "verify",
}  # fmt: skip


def test_the_top_of_a_checkout_holds_what_is_known_there() -> None:
    """`.ci/run` builds the source distribution and compares it with what git tracks."""
    run = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if run.returncode:
        pytest.skip("no git checkout")
    assert {path.partition("/")[0] for path in run.stdout.splitlines()} == TOP


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
