"""Checks of derivatives: proofs, exact values, judgements of numbers, the census, strategies for Hypothesis.

Each name is imported at its first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for type checkers and editors; at run time, each name is imported at its first use
    from gtape.base.verification import Options
    from gtape.verify import strategies
    from gtape.verify.judging.api import check, exact
    from gtape.verify.judging.claims import judge
    from gtape.verify.proofs.proof import Proof, prove
    from gtape.verify.search import census
    from gtape.verify.verdicts.verdict import Finding, Report

# The module of each public name.
_NAMES = {
    "Finding": "gtape.verify.verdicts.verdict",
    "Options": "gtape.base.verification",
    "Proof": "gtape.verify.proofs.proof",
    "Report": "gtape.verify.verdicts.verdict",
    "check": "gtape.verify.judging.api",
    "exact": "gtape.verify.judging.api",
    "judge": "gtape.verify.judging.claims",
    "prove": "gtape.verify.proofs.proof",
}
# The full name of each module that is public itself.
_MODULES = {"census": "gtape.verify.search.census", "strategies": "gtape.verify.strategies"}

__all__ = ["Finding", "Options", "Proof", "Report", "census", "check", "exact", "judge", "prove", "strategies"]


if not TYPE_CHECKING:  # a type checker that sees this function accepts any name

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return importlib.import_module(_MODULES[name])
        home = _NAMES.get(name)
        if home is None:
            from gtape.namespaces.catalogue import unknown

            raise unknown("gtape.verify", name, __all__)
        value = getattr(importlib.import_module(home), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
