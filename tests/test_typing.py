"""What a type checker finds in a user's program: misspelt names, and results that are not Any."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# Each line with a comment is an error of this kind, or reveals this type; every other line is right.
PROGRAM = """
import gtape as tf

x = tf.Variable([1.0, 2.0])
with tf.GradientTape(persistent=True, verify=tf.verify.Options("rule", budget=2)) as tape:
    y = tf.sin(x) * x
with tf.verifying("strict"), tf.autodiff.ForwardAccumulator(x, x) as acc:
    z = tf.sin(x)
gradient = tape.gradient(y, x)
print(gradient.numpy(), [g.shape for g in tape.gradient(y, [x, x])])
reveal_type(gradient)  # gtape.tensors.tensor.Tensor | Any
reveal_type(tape.gradient(y, [x]))  # list[gtape.tensors.tensor.Tensor | Any]
reveal_type(tape.gradient(y, {"x": x}))  # dict[str, gtape.tensors.tensor.Tensor | Any]
reveal_type(tape.jacobian(y, x))  # gtape.tensors.tensor.Tensor | Any
reveal_type(tape.batch_jacobian(y, x))  # gtape.tensors.tensor.Tensor
reveal_type(acc.jvp(z))  # gtape.tensors.tensor.Tensor | Any
report = tf.verify.check(tf.sin, 1.0, order=2)
reveal_type(report)  # gtape.verify.verdicts.verdict.Report
reveal_type(report.findings[0])  # gtape.verify.verdicts.verdict.Finding
reveal_type(tf.verify.judge(tf.sin, 1.0, 2.0))  # gtape.verify.verdicts.verdict.Report
reveal_type(tf.verify.exact(tf.sin, 1.0))  # gtape.verify.judging.api.ExactNumbers
tf.verify.exact(tf.sin, 1.0)[()].nearest("float64")
tf.verify.exact(tf.sin, [1.0])[0].nearest("float64")
tf.verify.exact(tf.sin, 1.0).shpe  # attr-defined
reveal_type(tf.verify.exact(tf.pow, 1.0, 2.0))  # tuple[Any, ...]
reveal_type(tf.verify.prove("sin"))  # gtape.verify.proofs.proof.Proof
reveal_type(tf.symbolic.trace(tf.sin, 1.0))  # gtape.symbolic.program.Program
tf.verify.chek(tf.sin, 1.0)  # attr-defined
report.fndings  # attr-defined
report.findings[0].verdcit  # attr-defined
gradient.nmupy()  # union-attr
tf.verifyng()  # attr-defined
tf.symbolic.trce(tf.sin, 1.0)  # attr-defined
tf.keras.Modle()  # attr-defined
tf.GradientTape(verify="stict")  # arg-type
tf.verifying("stict")  # arg-type
tf.verify.Options(fail_no="rule")  # call-arg
tf.verify.check(tf.sin, 1.0, ordr=2)  # call-arg
report.raise_if_failed(strct=True)  # call-arg


@tf.function(jit_compile=True)
def step(a: tf.Tensor) -> tf.Tensor:
    return tf.sin(a)


@tf.function
def other(a: tf.Tensor) -> tf.Tensor:
    return a * a


@tf.custom_gradient(declared="rounds gradients")
def rounded(a: tf.Tensor) -> object:
    return a, lambda g: tf.round(g)


@tf.custom_gradient
def doubled(a: tf.Tensor) -> object:
    return 2.0 * a, lambda g: 2.0 * g


rounded(y)
doubled(y)
rounded(y, 1)  # call-arg
reveal_type(step)  # gtape.tapes.functions.Function
reveal_type(other)  # gtape.tapes.functions.Function
print(step.summary(), other(x))
"""


@pytest.mark.slow
def test_a_type_checker_finds_misspelt_names(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    package = tmp_path / "site" / "gtape"  # as installed
    skip = shutil.ignore_patterns("__pycache__", "*.pyi")
    shutil.copytree(ROOT / "gtape", package, ignore=skip)
    for folder in ("symbolic", "verify"):
        shutil.copytree(ROOT / folder, package / folder, ignore=skip)
    runpy.run_path(str(ROOT / ".ci" / "write_stubs.py"))["write"](package.parent)
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    command = ["-m", "mypy", "--strict", "--follow-imports=silent", "--no-error-summary", "--cache-dir", "cache"]
    done = subprocess.run(
        [sys.executable, *command, "program.py"], cwd=tmp_path, env={"MYPYPATH": "site", "PATH": ""},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    told: dict[int, str] = {}
    for line in done.stdout.splitlines():
        found = re.match(r'program\.py:(\d+): (?:error: .*\[([\w-]+)\]|note: Revealed type is "(.*)")$', line)
        if found is not None:
            # Older versions of mypy write builtins.list and Union.
            revealed = re.sub(r"Union\[(.*?), Any\]", r"\1 | Any", (found[3] or "").replace("builtins.", ""))
            told[int(found[1])] = found[2] or revealed
    wanted = {
        i: line.partition("  # ")[2] for i, line in enumerate(PROGRAM.splitlines(), 1) if "  # " in line
    }  # fmt: skip
    assert told == wanted, done.stdout + done.stderr
