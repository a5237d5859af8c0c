"""gtape prove OP shows its proof; gtape verify folds slopes and speaks in words; gtape doctor writes artefacts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import gtape
from gtape.declare.primitives import REGISTRY
from gtape.verify.command import artifact, cli
from gtape.verify.command.output import Usage
from gtape.verify.command.runs import Line
from gtape.verify.command.verify_table import Group, folded, legend, owners
from gtape.verify.search import doctor


def test_a_proof_shows_mirror_rule_branches_and_normal_forms() -> None:
    text = gtape.verify.prove("tanh").text()
    for line in (
        "tanh: proved", "mirror: tanh(a)", "partial by argument 0: lambda xp, y, x: xp.sech2(x)",
        "rule: g/cosh(a)**2", "derivative of the mirror: g*(1 - tanh(a)**2)",
        "normal form: 0 as a quotient of polynomials in exp(a)", "8 of 8 identities proved",
    ):  # fmt: skip
        assert line in text, line
    text = gtape.verify.prove("relu").text()
    assert "where a > 0: both sides are the same expression" in text and "where a < 0" in text
    text = gtape.verify.prove("cholesky").text()
    assert "vjp of argument 0" in text and "def " in text


def test_a_refuted_proof_shows_its_counterexample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(REGISTRY["sin"], "partials", (lambda xp, y, x: -xp.cos(x),))
    text = gtape.verify.prove("sin").text()
    assert text.startswith("sin: refuted") and "counterexample" in text and "tape.gradient" in text


@pytest.mark.parametrize("name", ["relu", "atan2", "softmax", "erfinv_derivative"])
def test_latex_is_balanced(name: str) -> None:
    text = gtape.verify.prove(name).latex()
    assert text.count(r"\begin{") == text.count(r"\end{")
    outside = "".join(part.partition(r"\end{verbatim}")[2] for part in text.split(r"\begin{verbatim}"))
    assert outside.count("{") - outside.count(r"\{") == outside.count("}") - outside.count(r"\}")


def test_prove_prints_pages_for_named_ops(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["prove", "sin", "--processes", "1"]) == 0
    out = capsys.readouterr().out
    assert "mirror: sin(a)" in out and "1 of 1 proved" in out
    assert cli.main(["prove", "tf.sin", "--latex", "--processes", "1"]) == 0
    assert capsys.readouterr().out.startswith("% needs \\usepackage{amsmath}")
    assert cli.main(["prove", "--latex"]) == 2
    assert cli.main(["prove", "sin", "--json", "--processes", "1"]) == 0
    assert "mirror: sin(a)" in json.loads(capsys.readouterr().out)["proofs"][0]["page"]


def test_slopes_are_folded_under_public_ops() -> None:
    assert owners()["erfinv_derivative"] == "erfinv"
    lines = [Line(n, REGISTRY[n].kind) for n in ("sech2", "tanh", "sum", "erfinv_derivative")] + [
        Line("sgd", "program")
    ]
    lines[0].note(2, 6e4, "conditioning")
    lines[0].proof, lines[1].proof = "certified", "proved"
    groups = folded(lines)
    assert [g.name for g in groups] == ["tanh", "reduce_sum", "erfinv_derivative", "sgd"]
    row = groups[0].row()
    assert row[1] == "sech2" and row[3] == "certified" and row[7] == "conditioning"
    assert row[8] == "the last 5 digits are wrong; the problem itself loses them, in every formula"
    assert any(line.startswith("conditioning: ") for line in legend(groups))
    assert Group("x", [Line("x", "elementwise")]).row()[8] == ""


def test_every_internal_elementwise_op_has_an_owner() -> None:
    lines = [Line(p.name, p.kind) for p in REGISTRY.values() if p.differentiable and not p.place.outside]
    groups = folded(lines)
    assert sum(len(g.lines) for g in groups) == len(lines)
    assert len(groups) < 0.8 * len(lines)
    assert not [g.name for g in groups if g.name.endswith("_derivative")]


def _artifact(folder: Path) -> int:
    return cli.main(["doctor", "tanh", "--points", "100", "--processes", "1", "--artifact", str(folder)])


@pytest.mark.slow
def test_an_artifact_repeats_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "kit"
    assert _artifact(folder) == 0
    assert {p.name for p in folder.iterdir()} == {
        "README.md", "commands.json", "environment.json", "expected", "repeat.py", "requirements.txt",
    }  # fmt: skip
    commands = json.loads((folder / "commands.json").read_text())
    assert [c["table"] for c in commands] == ["expected/doctor.json", "expected/prove.json", "expected/census.json"]
    assert all(c["exit_status"] == 0 and c["seed"] for c in commands)
    assert "numpy" in (folder / "requirements.txt").read_text()
    root = str(Path(__file__).resolve().parents[2])

    def repeat() -> subprocess.CompletedProcess[str]:
        words: dict[str, Any] = {"capture_output": True, "text": True, "check": False, "cwd": root}
        return subprocess.run([sys.executable, str(folder / "repeat.py")], **words)

    done = repeat()
    assert done.returncode == 0 and done.stdout.count("the same") == 3, done.stdout + done.stderr
    table = folder / "expected" / "doctor.json"
    table.write_text(table.read_text().replace('"tanh"', '"tahn"'))
    done = repeat()
    assert done.returncode == 1 and "expected 'tahn', got 'tanh'" in done.stdout
    capsys.readouterr()


def test_an_artifact_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "there").mkdir()
    assert _artifact(tmp_path / "there") == 2
    assert _artifact(tmp_path / "no" / "folder") == 2
    err = capsys.readouterr().err
    assert "exists already" in err and "does not exist" in err

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(artifact, "_move", full)
    command = artifact.Command("prove", ("prove", "tanh"), "none")
    with pytest.raises(Usage, match="No space left"):
        artifact.write_folder(str(tmp_path / "kit"), {command: {"ok": True}})
    assert [p.name for p in tmp_path.iterdir()] == ["there"]


@pytest.mark.slow
def test_an_artifact_goes_on_where_a_run_was_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, rest = tmp_path / "kit", tmp_path / "kit.unfinished.jsonl"
    right = artifact.expected
    asked: list[str] = []

    def expected(command: artifact.Command, processes: int) -> dict[str, Any]:
        asked.append(command.name)
        if asked == ["prove", "census"]:
            raise KeyboardInterrupt
        return right(command, processes)

    monkeypatch.setattr(artifact, "expected", expected)
    assert _artifact(folder) == 130
    assert not folder.exists()
    with rest.open("a") as f:
        f.write('{"what": "torn')
    measured: list[Any] = []
    monkeypatch.setattr(doctor, "measure", lambda *a: measured.append(a))
    assert _artifact(folder) == 0
    assert (asked, measured) == (["prove", "census", "census"], [])
    assert len(json.loads((folder / "expected" / "doctor.json").read_text())["kernels"]) == 2
    assert not rest.exists()


def test_a_file_in_the_way_of_an_artifact_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "kit.unfinished.jsonl").write_text("mine\n")
    assert _artifact(tmp_path / "kit") == 2
    assert "is in the way" in capsys.readouterr().err
    assert (tmp_path / "kit.unfinished.jsonl").read_text() == "mine\n"


def test_the_census_of_an_artifact_has_parts() -> None:
    ops = [f"op_{k}" for k in range(45)]
    found = [c for c in artifact.commands([], ops, 100) if c.name.startswith("census")]
    assert [c.name for c in found] == ["census-1", "census-2", "census-3"]
    assert [a for c in found for a in c.arguments if a.startswith("op_")] == ops
