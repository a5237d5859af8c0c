"""The worked examples of CONTRIBUTING.md: two files make an op, with its proof, its checks, its name and its stub."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import warm

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")

# Of each example: the primitive, the public function, and a call with its arguments.
EXAMPLES = {
    "An elementwise op": ("log_cosh", "gtape.math.log_cosh", "[-700.0, -1e-9, 0.3, 40.0]"),
    "A reduction": ("sum_of_squares", "gtape.math.reduce_sum_of_squares", "[[1.5, -2.0], [0.0, 3.0]]"),
    "A function of linear algebra": ("matrix_square", "gtape.linalg.matrix_square", "[[1.5, -2.0], [0.25, 3.0]]"),
}

PROOF = """
import sys
import numpy as np
import gtape
for name, path, x in zip(sys.argv[1::3], sys.argv[2::3], sys.argv[3::3]):
    _, space, last = path.split(".")
    f = getattr(getattr(gtape, space), last)
    assert gtape.verify.prove(name).proved, f"{name} is not proved"
    for order in (1, 2):
        report = gtape.verify.check(lambda x: f(x), np.array(eval(x)), order=order)
        assert report.ok and str(report.verdict) == "correct", report.summary()
    assert last in dir(getattr(gtape, space)) and f.__doc__
    print("done")
"""


def _files(heading: str) -> dict[str, str]:
    """The files of one example, by path."""
    text = PAGE.split(f"\n### {heading}\n")[1].split("\n## ")[0].split("\n### ")[0]
    found = re.findall(r"^<!-- file: (\S+) -->\n```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return dict(found)


def _tree(top: Path) -> dict[str, bytes]:
    return {str(p.relative_to(top)): p.read_bytes() for p in top.rglob("*") if p.is_file() and p.suffix != ".pyc"}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what an op, its tests and its stubs need."""
    for name in ("gtape", "symbolic", "verify", ".ci"):
        # With compiled modules where there are any, because compiling takes most of the time.
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("*.pyi"))
    (tmp_path / "tests").mkdir()
    for name in ("conftest.py", "test_completeness.py"):
        shutil.copy(ROOT / "tests" / name, tmp_path / "tests" / name)
    shutil.copy(ROOT / "pyproject.toml", tmp_path / "pyproject.toml")
    return tmp_path


def _run(checkout: Path, *arguments: str) -> str:
    run = warm.run(arguments, cwd=checkout)
    assert run.returncode == 0, f"{run.stdout}\n{run.stderr}"
    return run.stdout


def test_every_worked_example_is_tried() -> None:
    assert re.findall(r"^### (.*)$", PAGE, re.MULTILINE) == list(EXAMPLES)


@pytest.mark.slow
def test_two_files_make_an_op(checkout: Path) -> None:
    for heading in EXAMPLES:
        files = _files(heading)
        before = _tree(checkout)
        for place, text in files.items():
            (checkout / place).write_text(text, encoding="utf-8")
        after = _tree(checkout)
        changed = {p for p in after if after[p] != before.get(p)} | set(before) - set(after)
        assert changed == set(files), heading
        assert sorted(p.split("/")[0] for p in changed) == ["gtape", "symbolic"], heading

    # All examples in one process, because its start takes longer than the work.
    words = [word for example in EXAMPLES.values() for word in example]
    assert _run(checkout, "-c", PROOF, *words).split() == ["done"] * len(EXAMPLES)
    spaces = {path.split(".")[1] for _, path, _ in EXAMPLES.values()}
    code = "import runpy; s = runpy.run_path('.ci/write_stubs.py')['spaces'](); print(*[s[n].text() for n in %r])"
    # Without what is installed, because a build has neither NumPy nor gtape.
    made = subprocess.run(
        [sys.executable, "-S", "-c", code % sorted(spaces)], cwd=checkout, capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr
    stubs = made.stdout
    lasts = [path.split(".")[2] for _, path, _ in EXAMPLES.values()]
    assert all(f'"{last}"' in stubs for last in lasts)
    chosen = " or ".join([*[name for name, _, _ in EXAMPLES.values()], *lasts, "mirror", "samples_hold"])
    said = _run(
        checkout, "-m", "pytest", "-q", "-rp", "-p", "no:cacheprovider", "tests/test_completeness.py", "-k", chosen
    )
    for name, _, _ in EXAMPLES.values():
        assert len(re.findall(rf"^PASSED .*\b{name}\b", said, re.MULTILINE)) >= 4, said
