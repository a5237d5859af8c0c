"""The table of ``gtape verify``: public ops, each with its internal slopes, and the meaning of the numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from gtape.declare.primitives import REGISTRY
from gtape.namespaces import catalogue
from gtape.verify.command.output import ulp_text
from gtape.verify.command.runs import Line
from gtape.verify.verdicts.naming import primitives_of_functions
from gtape.verify.verdicts.verdict import GRAVITY

__all__ = ["COLUMNS", "Group", "folded", "legend", "owners"]

COLUMNS = ("op", "with", "kind", "proof", ">order 1, ULP", ">order 2, ULP", ">at roots", "verdict", "in words")

_STATES = ("refuted", "open", "certified", "proved")  # the worst first
_FEW = 16  # ULP; a larger error is shown in digits
_MOST_NAMED = 3  # slopes in a row; the others are counted

_WORDS = {
    "rule": "the rule is not the derivative",
    "unstable": "the formula loses digits that the problem keeps",
    "conditioning": "the problem itself loses them, in every formula",
    "cancellation": "the program's own arithmetic loses them",
    "convention": "a kink, where the op's convention decides",
    "range": "the exact number overflows or underflows",
    "domain": "no derivative there",
    "unconnected": "the tape found no path",
    "undecided": "not decided",
}
_LEGEND = {
    "with": "with: internal ops that the rules of this one call, folded into its row (--unfolded shows them apart)",
    "proof": "proof: the rules equal the derivatives of the mirror for all inputs; certified: at exact points only",
    "ulp": "ULP: the largest error found, in units in the last place; 1 is the distance of neighbouring floats",
    "roots": "at roots: points near a root of the derivative, whose error an input moved by 2 ULP explains",
    "conditioning": "conditioning: half a unit in the inputs moves the exact derivative as much as the error",
    "cancellation": "cancellation: a better formula of the same function keeps the lost digits",
    "convention": "convention: at a kink the number lies between the one-sided derivatives",
    "range": "range: the exact derivative overflows or underflows, and was rounded as IEEE 754 says",
    "undecided": "undecided: the finding below says why",
}


class Group:
    """The lines of one op and of the internal ops that its rules call.

    Attributes
    ----------
    name : str
        A public name, if there is one.
    lines : list of Line
        The line of the op first.
    """

    def __init__(self, name: str, lines: list[Line]) -> None:
        self.name, self.lines = name, lines

    @property
    def ok(self) -> bool:
        """True if all lines are without findings."""
        return all(x.ok for x in self.lines)

    @property
    def verdict(self) -> str:
        """The gravest verdict."""
        return min((x.verdict for x in self.lines), key=GRAVITY.index)

    @property
    def proof(self) -> str:
        """The weakest of the proofs."""
        return min((x.proof for x in self.lines if x.proof), key=_STATES.index, default="")

    def worst(self, order: int) -> float | None:
        """The largest error of an order, in ULP; None without one."""
        return max((x.worst[order] for x in self.lines if order in x.worst), default=None)

    @property
    def at_roots(self) -> int:
        """The number of points near roots."""
        return sum(x.at_roots for x in self.lines)

    def words(self) -> str:
        """The verdict and the largest error in words; empty for an op that is correct to a few units."""
        largest = max((v for x in self.lines for v in x.worst.values()), default=0.0)
        said = []
        if largest > _FEW:
            said.append(_lost_digits(largest))
        if self.verdict in _WORDS:
            said.append(_WORDS[self.verdict])
        elif largest > _FEW:
            said.append("as the op promises")
        return "; ".join(said)

    def row(self) -> tuple[str, ...]:
        """The row of the table."""
        slopes = [x.name for x in self.lines[1:]]
        more = f" and {len(slopes) - _MOST_NAMED} more" if len(slopes) > _MOST_NAMED else ""
        return (
            self.name, ", ".join(slopes[:_MOST_NAMED]) + more, self.lines[0].kind, self.proof,
            *[ulp_text(self.worst(k)) for k in (1, 2)], str(self.at_roots or ""), self.verdict, self.words(),
        )  # fmt: skip

    def as_dict(self) -> dict[str, Any]:
        """The group as plain data for JSON."""
        return {
            "name": self.name, "primitives": [x.name for x in self.lines], "proof": self.proof,
            "verdict": self.verdict, "ok": self.ok, "in_words": self.words(),
        }  # fmt: skip


def _lost_digits(ulps: float) -> str:
    """How many decimal digits an error in ULP spoils.

    Examples
    --------
    >>> _lost_digits(6e4), _lost_digits(49.0), _lost_digits(math.inf)
    ('the last 5 digits are wrong', 'the last 2 digits are wrong', 'no digit is right')
    """
    if not ulps < 1e15:
        return "no digit is right"
    digits = max(1, round(math.log10(ulps)))
    return f"the last {digits} digits are wrong" if digits > 1 else "the last digit is wrong"


def legend(groups: Sequence[Group]) -> list[str]:
    """The meaning of the columns and verdicts that occur in a table."""
    used = {"proof", "ulp"} | {g.verdict for g in groups}
    used |= {"with"} if any(len(g.lines) > 1 for g in groups) else set()
    used |= {"roots"} if any(g.at_roots for g in groups) else set()
    return [text for key, text in _LEGEND.items() if key in used]


# ------------------------------------------------------------------------------------------------ who calls whom


@lru_cache(maxsize=2)
def _called(version: int) -> dict[str, list[str]]:
    """For each primitive the primitives that its rules name."""
    found: dict[str, list[str]] = {}
    for prim in REGISTRY.values():
        words: dict[str, None] = {}
        rules = [*prim.rules, *(prim.jvp if isinstance(prim.jvp, tuple) else [prim.jvp])]
        for rule in rules:
            _words(rule, words, 0)
        found[prim.name] = [w for w in words if w in REGISTRY and w != prim.name]
    return found


def _words(f: Any, into: dict[str, None], depth: int) -> None:
    """The attributes that a rule, and the functions of the same module that it calls, read."""
    code = getattr(f, "__code__", None)
    if code is None or depth > 2:
        return
    into.update(dict.fromkeys(code.co_names))
    for name in code.co_names:
        inner = f.__globals__.get(name)
        if getattr(inner, "__module__", None) == f.__module__:
            _words(inner, into, depth + 1)


@lru_cache(maxsize=2)
def _public_names(version: int) -> dict[str, str]:
    """For each primitive the name by which users call it: its own, or that of the function made of the fewest."""
    found: dict[str, tuple[int, str]] = {}
    for name, parts in primitives_of_functions().items():
        for p in parts:
            rank = (0 if p == name else len(parts), name)
            if p not in found or rank < found[p]:
                found[p] = rank
    own = {p.name: p.name for p in REGISTRY.values() if p.public}
    return {p: name for p, (rank, name) in found.items() if rank <= 1} | own


def owners() -> dict[str, str]:
    """For each internal primitive the public primitive whose rules lead to it by the fewest steps.

    Where no public one does, as for the slope of draws in `random.gamma`, the internal one that no rule leads to.

    Examples
    --------
    >>> owners()["erfinv_derivative"], owners()["sech2"], owners()["gamma_draw_slope"]
    ('erfinv', 'tanh', 'gamma_draw')
    """
    catalogue.load()
    called, public = _called(REGISTRY.version), _public_names(REGISTRY.version)
    found = _led_to(called, [p for p in called if p in public], set(public))
    rest = [p for p in called if p not in public and p not in found]
    reached = {name for p in rest for name in called[p]}
    return found | _led_to(called, [p for p in rest if p not in reached], {*public, *found})


def _led_to(called: dict[str, list[str]], starts: Iterable[str], others: set[str]) -> dict[str, str]:
    """For each primitive, except `others`, the start whose rules lead to it by the fewest steps."""
    found: dict[str, str] = {}
    front = [(p, p) for p in starts]
    while front:
        following = []
        for owner, name in front:
            for next_name in called[name]:
                if next_name not in others and next_name not in found:
                    found[next_name] = owner
                    following.append((owner, next_name))
        front = following
    return found


def folded(lines: Sequence[Line]) -> list[Group]:
    """The lines as groups: public ops with the internal ops behind them, then other internal ops, then programs."""
    owner = owners()
    public = _public_names(REGISTRY.version)
    names = {x.name for x in lines if x.kind != "program"}
    by_owner: dict[str, list[Line]] = {}
    programs: list[Group] = []
    for x in lines:
        if x.kind == "program":
            programs.append(Group(x.name, [x]))
        elif owner.get(x.name) in names:
            by_owner.setdefault(owner[x.name], []).append(x)
        else:
            by_owner.setdefault(x.name, []).insert(0, x)
    groups = [Group(public.get(name, name), group) for name, group in by_owner.items()]
    inner = [g for g in groups if g.lines[0].name not in public]
    return [*[g for g in groups if g.lines[0].name in public], *inner, *programs]
