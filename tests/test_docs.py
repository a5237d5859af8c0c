"""Every code block of the README and of docs/ runs and prints what the page says; so does every docstring example."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import inspect
import io
import os
import re
import tomllib
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import warm

import gtape
from gtape.declare.primitives import REGISTRY

ROOT = Path(__file__).resolve().parents[1]
URLS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
REPOSITORY = f"{URLS['Homepage']}/blob/main/"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# Their blocks are files and commands; tests/test_contributing.py tries them.
LINKED = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]


class Block(NamedTuple):
    """One fenced block."""

    language: str
    text: str
    line: int
    marked: bool


def blocks(page: Path) -> list[Block]:
    found, lines, language, start, marked = [], page.read_text().splitlines(), None, 0, False
    for number, line in enumerate(lines, 1):
        fence = re.fullmatch(r"```(\S*)", line)
        if fence and language is None:
            language, start = fence[1], number
            marked = lines[number - 2].strip() == "<!-- ci: run -->"
        elif fence:
            found.append(Block(str(language), "\n".join(lines[start : number - 1]), start, marked))
            language = None
    assert language is None, f"{page.name}: the block in line {start} is not closed"
    return found


@pytest.fixture
def restored_tables() -> Iterator[None]:
    """Undo what a page declares."""
    from gtape.symbolic import mirrors
    from gtape.symbolic.mirrors import registry

    mirrors.load()
    tables: list[dict[str, Any]] = [REGISTRY, registry.SCALARS, registry.ARRAYS, registry.PARAMETRISED]
    before = [dict(t) for t in tables]
    yield
    for table, old in zip(tables, before, strict=True):
        table.clear()
        table.update(old)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
@pytest.mark.usefixtures("restored_tables")
def test_code_blocks_run_and_print_what_the_page_says(page: Path) -> None:
    # A ```text block below a ```python block is what it prints. Blocks of one page build on each other.
    names: dict[str, Any] = {"__name__": "__main__"}
    found = blocks(page)
    for block, following in zip(found, [*found[1:], None][: len(found)], strict=True):
        assert block.language in ("python", "text", "bash"), f"{page.name}:{block.line}: which language is this?"
        if block.language != "python":
            continue
        printed = io.StringIO()
        # The line numbers in tracebacks are then those of the page.
        code = compile("\n" * block.line + block.text, str(page), "exec")
        with contextlib.redirect_stdout(printed):
            exec(code, names)
        if following is not None and following.language == "text":
            assert printed.getvalue().strip() == following.text.strip(), f"{page.name}:{block.line}"


def test_readme_has_two_marked_commands() -> None:
    marked = [b for b in blocks(ROOT / "README.md") if b.marked]
    assert [b.language for b in marked] == ["bash", "bash"]
    assert all(len(b.text.splitlines()) == 1 for b in marked)


def _links(page: Path) -> list[tuple[str, str]]:
    """Target and anchor of every link in the prose of a page."""
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"\]\(([^)#]*)#?([^)]*)\)", prose)


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


@pytest.mark.parametrize("page", LINKED, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target, anchor in _links(page):
        place = page.parent / target if target else page
        if target.startswith(REPOSITORY):
            place = ROOT / target.removeprefix(REPOSITORY)
        elif "://" in target:
            continue
        assert place.exists(), f"{page.name} links to {target}"
        assert not anchor or place.suffix != ".md" or anchor in _anchors(place), f"{page.name} links to #{anchor}"


def test_the_index_of_the_docs_lists_every_page() -> None:
    linked = {target for target, _ in _links(ROOT / "docs" / "README.md")}
    pages = {p.name for p in PAGES if p.parent.name == "docs"} - {"README.md"}
    assert linked == pages | {"../CONTRIBUTING.md"}


def test_the_glossary_explains_each_word_once() -> None:
    words = re.findall(r"\*\*(.+?)\*\*", (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"))
    assert len(words) == len({w.lower() for w in words}) >= 50


def test_links_of_the_readme_work_on_a_package_index() -> None:
    """An index shows the README alone, so that a relative link would lead nowhere."""
    links = _links(ROOT / "README.md")
    assert links
    assert all(target.startswith(REPOSITORY) for target, _ in links)


def test_command_line_knows_the_commands_that_pages_name() -> None:
    named = {m for page in PAGES for m in re.findall(r"`gtape ([a-z]+)", page.read_text())}
    assert named
    for command in sorted(named):
        words = ["-m", "gtape.verify.command.cli", command, "--help"]
        done = warm.run(words, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
        assert done.returncode == 0, f"gtape {command}: {done.stderr}"


# ---------------------------------------------------------------------------------------- docstrings


def modules() -> list[str]:
    """All modules with examples in their text."""
    found = []
    for folder, package in {"gtape": "gtape", "symbolic": "gtape.symbolic", "verify": "gtape.verify"}.items():
        top = ROOT / folder
        if not (ROOT / "gtape").exists():  # the tests run against an installed package
            top = Path(gtape.__file__).parent.joinpath(*package.split(".")[1:])
        for path in sorted(top.rglob("*.py")):
            inside = path.relative_to(top)
            if ">>> " in path.read_text(encoding="utf-8") and path.name != "__init__.py":
                nested = inside.parts[0] in ("symbolic", "verify") and folder == "gtape"
                found += [] if nested else [".".join([package, *inside.with_suffix("").parts])]
    return found


def run_examples(test: doctest.DocTest) -> None:
    printed = io.StringIO()
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    runner.run(test, out=printed.write)
    assert not runner.failures, printed.getvalue()


class Finder(doctest.DocTestFinder):
    """Finds the examples of functions behind decorators, too."""

    def _from_module(self, module: Any, object: Any) -> bool:
        return super()._from_module(module, inspect.unwrap(object) if inspect.isfunction(object) else object)


@pytest.mark.parametrize("name", modules())
def test_examples_of_a_module_run(name: str) -> None:
    module: types.ModuleType = importlib.import_module(name)
    for test in Finder(exclude_empty=True).find(module, name):
        if test.examples:
            run_examples(test)


@pytest.mark.parametrize("name", sorted(n for n, p in REGISTRY.items() if p.public))
def test_op_has_an_example_that_runs(name: str) -> None:
    text = REGISTRY[name].function.__doc__ or ""
    test = doctest.DocTestParser().get_doctest(text, {"np": np}, name, None, 0)
    assert test.examples, f"{name} has no example in its docstring"
    run_examples(test)
