"""Proofs on complex symbols: a wrong rule is refuted there too, with a program that runs and shows the wrong number."""

from __future__ import annotations

import contextlib
import io

import pytest

from gtape.verify.programs.mutants import planted, scaled
from gtape.verify.proofs import proof_rules
from gtape.verify.proofs.proof import prove
from gtape.verify.proofs.proof_complex import complex_cells


@pytest.mark.parametrize("name", ["conj", "imag", "complex", "tan", "pow", "matmul"])
def test_a_wrong_rule_is_refuted_on_complex_symbols(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gtape.verify.proofs.proof.settings", lambda prim: ())  # no proof on real symbols before
    assert prove(name).counterexample is None
    with planted(name, 0, scaled(2.0)):
        proof = prove(name)
        assert not proof.certified and proof.counterexample is not None
        assert proof.cases[-1].how == "refuted" or proof.cases[0].how == "refuted"
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(proof.counterexample, "<counterexample>", "exec"), {})
    assert "Tensor" in printed.getvalue()


def test_a_rule_that_raises_is_a_fault_on_complex_symbols() -> None:
    def raises(xp: object, value: object, rule: object, args: object, i: int) -> object:
        raise TypeError("no rule for this")

    with planted("tan", 0, raises):
        proof = prove("tan")
    assert not proof.certified and "TypeError: no rule for this" in str(proof.counterexample)


def test_real_and_complex_cells_are_proved_by_the_same_steps() -> None:
    from gtape.declare.primitives import REGISTRY

    cells = [cell for cell, _ in complex_cells(REGISTRY["tan"])]
    assert cells and all(isinstance(cell, proof_rules.Cell) and cell.key() == ("complex numbers",) for cell in cells)
