"""Groups wrong numbers of peers by cause, and writes each cause as a program and as a text ready to file."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

import numpy as np

from gtape.verify.peers.arrays import CASES
from gtape.verify.peers.faults import WHATS, Fault
from gtape.verify.peers.libraries import Library, library
from gtape.verify.peers.numbers import called

__all__ = ["Cause", "causes_of", "joined", "known_causes", "markdown", "witness"]

_NUMPY = "import numpy as np"  # left out of programs that do not need NumPy
_LEGEND = (
    "`rows` and `columns` are the Jacobian by reverse and by forward mode. Functions with several outputs are "
    "differentiated after `weigh`, which sums the outputs with the weights 1, 2, 3, ..."
)
_LONG = 60  # a longer point is not part of a title
_SEVERITY = {what: i for i, what in enumerate(WHATS)}


class Cause(NamedTuple):
    """All faults of one cause.

    Attributes
    ----------
    id : str
        The same in every run.
    library, subject : str
    place : str
    faults : list of Fault
        The simplest first.
    right : list of tuple of str
        The modes of the same orders that are right.
    source : str
        The witness: a program that runs in the peer alone.
    """

    id: str
    library: str
    subject: str
    place: str
    faults: list[Fault]
    right: list[tuple[str, ...]]
    source: str = ""

    @property
    def first(self) -> Fault:
        """The fault of the witness."""
        return self.faults[0]

    @property
    def title(self) -> str:
        """One line about the cause."""
        f = self.first
        of = {1: "first", 2: "second", 3: "third"}.get(f.order, f"{f.order}th")
        function = "a program" if self.subject == "program" else f"`{f.expression}`"
        point = ", ".join(f"{n} = {_values(a, f.dtype)}" for n, a in zip("xyz", f.arguments, strict=False))
        if self.subject == "program":
            point = f"after {f.place}"
        elif len(point) > _LONG:
            point = "" if f.place == "elsewhere" else f.place
        at = f" ({point})" if point else ""
        start = f"{f.library}: {of} derivative of {function}{at}"
        if f.what == "raises":
            return f"{start}: raises {str(f.got).partition(':')[0]}"
        if f.what in ("crash", "hang"):
            return f"{start}: {WHATS[f.what]}"
        if f.what == "kink":
            return f"{start} is {f.got}, {WHATS['kink']}"
        return f"{start} is {' and not '.join(_apart(str(f.got), f.exact))}"

    def as_dict(self) -> dict[str, Any]:
        """The cause as plain data."""
        f = self.first
        return {
            "id": self.id,
            "library": self.library,
            "function": self.subject,
            "title": self.title,
            "what": f.what,
            "at": self.place,
            "expressions": sorted({x.expression for x in self.faults}),
            "orders": sorted({x.order for x in self.faults}),
            "dtypes": sorted({x.dtype for x in self.faults}),
            "wrong_modes": sorted({" over ".join(x.mode) for x in self.faults}),
            "right_modes": sorted(" over ".join(m) for m in self.right),
            "numbers": len(self.faults),
            "order": f.order,
            "mode": " over ".join(f.mode),
            "by": list(f.by),
            "dtype": f.dtype,
            "point": [np.asarray(a, dtype=np.float64).tolist() for a in f.arguments],
            "element": list(f.element),
            "returned": f.got if isinstance(f.got, str) else repr(f.got),
            "exact": f.exact,
            "why": f.why,
            "witness": self.source,
        }


def _apart(a: str, b: str) -> tuple[str, str]:
    """Two numbers with few digits, but enough to tell them apart; other texts stay as they are."""
    try:
        first, second = Decimal(a), Decimal(b)
    except InvalidOperation:
        return a, b
    digits = next((d for d in range(4, 18) if f"{first:.{d}e}" != f"{second:.{d}e}"), 17)
    return _rounded(first, digits + 2), _rounded(second, digits + 2)


def _rounded(number: Decimal, digits: int) -> str:
    """A number without zeros behind its digits."""
    text = f"{+number:.{digits}g}".replace("NaN", "nan").replace("Infinity", "inf")
    mantissa, e, exponent = text.partition("e")
    return (mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa) + e + exponent


def _key(f: Fault) -> tuple[str, ...]:
    family = f.mechanism or f.what
    if f.what == "raises":
        family += f" {str(f.got).partition(':')[0]}"
    if f.subject in CASES or f.subject == "program":
        return (f.library, f.subject, family, "arrays" if f.subject in CASES else f.place)
    return (f.library, f.subject, family, _region(f))


def _region(f: Fault) -> str:
    """The kind of a place without details, because one cause extends from a point into its surroundings."""
    if len(f.arguments) > 1:
        return "elsewhere"
    return re.sub(r"^x (=|beside) ", "around ", f.place)


def _rank(f: Fault) -> tuple[Any, ...]:
    """The order of witnesses: low order, double precision, few modes, severe, simple."""
    length = sum(len(repr(np.asarray(a).tolist())) for a in f.arguments)
    size = sum(float(np.sum(np.abs(np.asarray(a, dtype=np.float64)))) for a in f.arguments)
    return f.order, f.dtype != "float64", len(f.mode), length, _SEVERITY[f.what], size


def causes_of(faults: Iterable[Fault], judged: Iterable[tuple[str, str, tuple[str, ...]]] = ()) -> list[Cause]:
    """The causes of faults.

    Parameters
    ----------
    faults : iterable of Fault
    judged : iterable of (library, expression, mode)
        The modes that gave numbers, from which the right modes follow.
    """
    groups: dict[tuple[str, ...], list[Fault]] = {}
    for f in faults:
        groups.setdefault(_key(f), []).append(f)
    modes: dict[tuple[str, str], list[tuple[str, ...]]] = {}
    for name, expression, mode in judged:
        modes.setdefault((name, expression), []).append(mode)
    found = []
    for key, members in groups.items():
        members.sort(key=_rank)
        wrong = {m.mode for m in members}
        orders = {m.order for m in members}
        first = members[0]
        batched = library(first.library).batched
        right = [
            m
            for m in modes.get((first.library, first.expression), [])
            if m not in wrong and len(m) - (batched in m) in orders
        ]
        place = _places(members) if key[3] == "arrays" else key[3]
        found.append(Cause(_identity(key), first.library, key[1], place, members, right))
    return sorted(found, key=lambda c: c.id)


def _places(faults: Iterable[Fault]) -> str:
    return ", ".join(sorted({f.place for f in faults}))


def joined(causes: Iterable[Cause]) -> list[Cause]:
    """The causes of several pieces of an audit: causes with one identity become one, with the simplest witness.

    Parameters
    ----------
    causes : iterable of Cause
    """
    groups: dict[str, list[Cause]] = {}
    for c in causes:
        groups.setdefault(c.id, []).append(c)
    found = []
    for _, members in sorted(groups.items()):
        simplest = min(members, key=lambda c: _rank(c.first))
        rest = sorted((f for c in members for f in c.faults if f is not simplest.first), key=_rank)
        faults = [simplest.first, *rest]
        wrong = {f.mode for f in faults}
        right = list(dict.fromkeys(m for c in members for m in c.right if m not in wrong))
        place = _places(faults) if simplest.subject in CASES else simplest.place
        found.append(simplest._replace(faults=faults, right=right, place=place))
    return found


def _identity(key: tuple[str, ...]) -> str:
    return "/".join(re.sub(r"[^\w.=+-]+", "-", part.replace(" = ", "=")).strip("-") for part in key)


# ------------------------------------------------------------------------------------------- witnesses


def _values(a: Any, dtype: str) -> str:
    a = np.asarray(a)
    if not a.size:
        return f"np.zeros({a.shape})"
    return repr(a.astype(np.float64).tolist())


def witness(made: Library, f: Fault, *, result: bool = False, short: bool = False) -> str:
    """A program that shows a fault in the peer alone.

    Parameters
    ----------
    made : Library
    f : Fault
    result : bool
        True binds the number to `result` for the peer's process, and leaves imports and definitions out.
    short : bool
        True differentiates by the library's own functions if possible; the number may then differ.
    """
    arrays = f.subject in CASES
    whole = f.subject == "program"
    names = f.expression.partition("(")[2].partition(")")[0].split(", ") if whole else "xyz"[: len(f.arguments)]
    weigh = arrays and not (short and CASES[f.subject].scalar(f.arguments))
    vector = not arrays and (made.batched in f.mode or "jacobian" in f.mode)
    function = "weigh(f)" if weigh else "f"
    own = short and not vector and set(f.mode) <= set(made.short)
    call = _own_call(made, f, function) if own else called(f.mode, function, f.by, made.batched)
    body = [f"{f.expression}\n" if whole else f"f = lambda {', '.join(names)}: {f.expression}"]
    for name, a in zip(names, f.arguments, strict=True):
        value = np.asarray(a)
        if vector:
            value = value.reshape(1)
        elif arrays and made.batched in f.mode:
            value = np.stack([value, value])
        body.append(f"{name} = {made.tensor.format(values=_values(value, f.dtype), dtype=f.dtype)}")
    call += f"({', '.join(names)})"
    if result:
        return "\n".join([*body, f"result = lower({call})"]) + "\n"
    head = []
    for name in dict.fromkeys([*(() if own else f.mode), *(["weigh"] if weigh else [])]):
        head += ["", made.definitions[name].rstrip("\n"), ""]
    for name, source in made.helpers.items():
        head += ["", source.rstrip("\n"), ""] if name in f.expression else []
    body += [f"print({call}{_index(made, f)})", f"# returned: {f.got}", f"# exact:    {f.exact}"]
    text = "\n".join([*head, "", *body]) + "\n"
    imports = [line for line in made.imports.rstrip("\n").split("\n") if line != _NUMPY or "np." in text]
    return "\n".join([*imports, *([""] if head else []), text])


def _own_call(made: Library, f: Fault, function: str) -> str:
    """The expression that differentiates by the library's own functions."""
    text, rest = function, list(f.by)
    for name in reversed(f.mode):
        number = rest.pop(0)
        text = f"{made.short[name]}({text}{f', argnums={number}' if len(f.arguments) > 1 else ''})"
    return text


def _index(made: Library, f: Fault) -> str:
    if not f.element:
        return ""
    return str([0, *f.element] if made.batched in f.mode else list(f.element))


# ------------------------------------------------------------------------------------------- texts


def text(cause: Cause, versions: dict[str, str], same: Sequence[str] = ()) -> str:
    """A cause as a text ready to file.

    Parameters
    ----------
    cause : Cause
    versions : dict
    same : sequence of str
        The causes with the same numbers.
    """
    f = cause.first
    names = f.expression.partition("(")[2].partition(")")[0].split(", ") if cause.subject == "program" else "xyz"
    arguments = ", ".join(f"{n} = {_values(a, f.dtype)}" for n, a in zip(names, f.arguments, strict=False))
    made = library(f.library)
    wrong = sorted({_mode(made, m.mode) for m in cause.faults})
    lines = [
        f"## {cause.title}",
        "",
        f"`{cause.id}`, {', '.join(f'{k} {v}' for k, v in versions.items())}",
        "",
        f"- what: {WHATS[f.what]}",
        f"- at: {arguments} ({f.dtype})" + (f", element {list(f.element)} of the derivative" if f.element else ""),
        f"- returned: `{f.got}`",
        f"- exact: `{f.exact}`{_in_dtype(f)}",
        f"- why: {f.why}",
        f"- wrong modes: {', '.join(wrong)}",
    ]
    if cause.right:
        lines.append(f"- right modes: {', '.join(sorted(_mode(made, m) for m in cause.right))}")
    also = sorted({m.expression for m in cause.faults} - {f.expression})
    if also:
        lines.append(f"- also: {', '.join(f'`{e}`' for e in also[:12])}" + (", ..." if len(also) > 12 else ""))
    if same:
        lines.append(f"- the same wrong numbers: {', '.join(f'`{s}`' for s in same)}")
    return "\n".join([*lines, "", "```python", cause.source.rstrip("\n"), "```", ""])


def _mode(made: Library, mode: Sequence[str]) -> str:
    """A mode as the library's own expression, or in words."""
    if not set(mode) <= set(made.short):
        return " over ".join(mode)
    return f"`{'('.join(made.short[name] for name in mode)}(f{')' * len(mode)}`"


def _in_dtype(f: Fault) -> str:
    """The exact number in the dtype, if the dtype has fewer digits."""
    try:
        with np.errstate(all="ignore"):
            number = np.dtype(f.dtype).type(np.float64(f.exact))
    except ValueError:
        return ""
    return f", in {f.dtype} `{number!s}`"


def alike(causes: Sequence[Cause]) -> dict[str, list[str]]:
    """The causes of one library that return the same wrong numbers for the same exact ones, by identity.

    The derivative of one function may be another function, as `digamma` is of `lgamma`, and so have the fault of the
    latter.
    """
    numbers: dict[tuple[Any, ...], set[str]] = {}
    for c in causes:
        for f in c.faults:
            if f.mechanism and f.exact != "0":
                point = tuple(np.asarray(a).tobytes() for a in f.arguments)
                numbers.setdefault((f.library, f.dtype, point, f.exact, str(f.got)), set()).add(c.id)
    found: dict[str, set[str]] = {}
    for ids in numbers.values():
        for name in ids:
            found.setdefault(name, set()).update(ids - {name})
    return {name: sorted(ids) for name, ids in found.items() if ids}


def markdown(causes: Sequence[Cause], versions: dict[str, dict[str, str]], new: Sequence[str] | None = None) -> str:
    """All causes as one page."""
    lines = ["# Wrong derivatives", "", _LEGEND, ""]
    if new is not None:
        lines += [f"{len(new)} of {len(causes)} are not in the baseline: {', '.join(new) or 'none'}.", ""]
    same = alike(causes)
    lines += [text(c, versions.get(c.library, {}), same.get(c.id, ())) for c in causes]
    return "\n".join(lines)


def known_causes(content: str) -> set[str]:
    """The identities of the causes in the text of a report that an earlier run wrote.

    Raises
    ------
    ValueError
        For a text that is not such a report.
    """
    try:
        data = json.loads(content)
    except ValueError as e:
        raise ValueError(f"it is not JSON ({e})") from None
    causes = data.get("causes") if isinstance(data, dict) else None
    if not isinstance(causes, list) or not all(isinstance(c, dict) and isinstance(c.get("id"), str) for c in causes):
        raise ValueError("it is not a report of `gtape peers`: a list `causes`, each with an `id`, is missing")
    return {c["id"] for c in causes}


def same_number(a: Any, b: Any) -> bool:
    """Whether two runs returned the same number, up to a thousandth."""
    if isinstance(a, str) or isinstance(b, str):
        return isinstance(a, str) and isinstance(b, str)
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return bool(a == b or abs(a - b) <= 1e-3 * abs(a))
