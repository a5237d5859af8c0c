"""``gtape write module:function``: writes a property test of the derivatives of a function.

Trials find the arguments: shapes and ranges at which the function runs, and at which `check` passes at a few points.
"""

from __future__ import annotations

import inspect
import itertools
import keyword
import operator
import shlex
import site
import sys
import types
import typing
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gtape import errors
from gtape.base.escaping import plain
from gtape.base.quiet import quietly
from gtape.tensors.tensor import Tensor
from gtape.verify.command.loading import load
from gtape.verify.command.output import Usage
from gtape.verify.judging.api import check
from gtape.verify.verdicts.verdict import Report

__all__ = ["Argument", "function_named", "test_of"]

_SHAPES: tuple[tuple[int, ...], ...] = ((3,), (), (2, 3), (3, 3), (2, 3, 3), (1, 4, 4, 1))
_RANGES = (
    ("", -2.0, 2.0),
    ("Interval(0.0, open_lo=True)", 0.1, 3.0),
    ("Interval(-1.0, 1.0, open_lo=True, open_hi=True)", -0.9, 0.9),
    ("Interval(0.0, 1.0, open_lo=True, open_hi=True)", 0.05, 0.95),
    ("Interval(1.0, open_lo=True)", 1.1, 4.0),
)
_NONZERO = "Interval(holes=(0.0,))"
_MOST_SHAPED = 4  # arguments whose shapes are tried independently
_POINTS = 4


class Guard(NamedTuple):
    """What a test leaves out, because the function fails there or has no derivative.

    Attributes
    ----------
    errors : tuple of str
        The errors of the function, as sources below the name of gtape or among the built-in names.
    domain : bool
        Whether the function has no derivative at some points where it runs.
    """

    errors: tuple[str, ...] = ()
    domain: bool = False


class Argument(NamedTuple):
    """The values that a test draws for one parameter.

    Attributes
    ----------
    name : str
    kind : {"tensor", "int", "bool"}
    shape : tuple of int
    interval : str
        Source of the interval; empty for any number.
    """

    name: str
    kind: str
    shape: tuple[int, ...] = ()
    interval: str = ""

    def strategy(self, strategies: str) -> str:
        """Source of the strategy, for the name under which the test imports gtape's strategies."""
        if self.kind != "tensor":
            return "st.booleans()" if self.kind == "bool" else "st.integers(1, 3)"
        interval = f", interval={self.interval}" if self.interval else ""
        return f"{strategies}.tensors(shape={self.shape!r}{interval}, magnitude=(2.0**-6, 2.0**6))"


def function_named(text: str) -> tuple[str, str, Callable[..., Any]]:
    """The module, the name and the function of ``module:function`` or ``file.py:function``.

    Raises
    ------
    Usage
        If there is no such module, name or function.

    Examples
    --------
    >>> function_named("math:sin")[:2]
    ('math', 'sin')
    """
    module, colon, name = text.rpartition(":")
    if not colon or not module or not name:
        raise Usage(f"{plain(text)!r} names no function: write module:function, such as mymodel:loss or model.py:loss")
    load(module, option="")
    found = sys.modules[Path(module).stem if module.endswith(".py") else module]
    try:
        f = operator.attrgetter(name)(found)
    except AttributeError:
        near = [n for n, v in vars(found).items() if callable(v) and not n.startswith("_")][:8]
        raise Usage(
            f"{plain(module)} has no {plain(name)!r}" + (f"; it has {', '.join(near)}" if near else "")
        ) from None
    if not callable(f) or isinstance(f, type):
        raise Usage(f"{plain(text)} is not a function, but {type(f).__name__!r}")
    if _needs_an_object(found, name):
        raise Usage(f"{plain(text)} is a method, which needs an object of its class; write a function around it")
    return found.__name__, name, f


def _needs_an_object(module: Any, name: str) -> bool:
    """Whether a name leads to a function of a class that takes an object of the class as its first argument."""
    owner, dot, last = name.rpartition(".")
    holder = operator.attrgetter(owner)(module) if dot else module
    if not isinstance(holder, type):
        return False
    kept = inspect.getattr_static(holder, last)
    is_free = isinstance(kept, (staticmethod, classmethod))
    return not is_free and (inspect.isfunction(kept) or inspect.ismethoddescriptor(kept))


# ------------------------------------------------------------------------------------------------ parameters


def _parameters(name: str, f: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        given = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        raise Usage(f"{name} does not reveal its parameters; write a function of its arguments around it") from None
    if any(p.kind is p.VAR_POSITIONAL and not _has_others(given) for p in given):
        raise Usage(
            f"{name} takes any number of arguments (*{given[0].name}); write a function with named ones around it"
        )
    wanted = [p for p in given if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if not wanted:  # every parameter has a default: vary the floats
        wanted = [p for p in given if isinstance(p.default, (float, np.ndarray, Tensor))]
        words = _by_word(f, wanted)
        wanted = [p for p in wanted if p.kind is not p.POSITIONAL_ONLY or p.name not in words]
    if not wanted:
        raise Usage(f"{name} has no parameters to differentiate by")
    return wanted


def _by_word(f: Callable[..., Any], wanted: Sequence[inspect.Parameter]) -> set[str]:
    """The names of the wanted parameters that a call gives by name: a parameter before them keeps its default."""
    given = inspect.signature(f).parameters.values()
    places = [p.name for p in given if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    together = len(list(itertools.takewhile(lambda pair: pair[0] == pair[1].name, zip(places, wanted, strict=False))))
    return {p.name for p in wanted[together:]}


def _has_others(given: Sequence[inspect.Parameter]) -> bool:
    return any(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) for p in given)


def _hints(f: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(f)
    except Exception:  # a name that is only known to type checkers
        return {k: v for k, v in getattr(f, "__annotations__", {}).items() if not isinstance(v, str)}


def _kinds(p: inspect.Parameter, hint: Any) -> list[tuple[str, tuple[tuple[int, ...], ...]]]:
    """The possible kinds of a parameter, the likeliest first, each with the shapes to try."""
    if isinstance(p.default, (Tensor, np.ndarray)):
        return [("tensor", (tuple(p.default.shape),))]
    options = (
        typing.get_args(hint)
        if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union
        else (hint,)
    )
    if bool in options:
        return [("bool", ((),))]
    if int in options and float not in options:
        return [("int", ((),))]
    if float in options:
        return [("tensor", ((),))]
    known = typing.get_origin(hint) or hint
    if hint is inspect.Parameter.empty or hint is Any or known not in (np.ndarray, Tensor):
        return [("tensor", _SHAPES), ("int", ((),))]
    return [("tensor", _SHAPES)]


# ------------------------------------------------------------------------------------------------ trials


class _Refused(Exception):
    """The function does not take such arguments, or the check does not pass."""


def _draws(arguments: Sequence[Argument], rng: np.random.Generator) -> list[Any]:
    ranges = {text: (low, high) for text, low, high in _RANGES} | {_NONZERO: _RANGES[0][1:]}
    made: list[Any] = []
    for a in arguments:
        if a.kind == "tensor":
            made.append(np.asarray(rng.uniform(*ranges[a.interval], a.shape)))
        else:
            made.append(bool(rng.integers(2)) if a.kind == "bool" else int(rng.integers(1, 4)))
    return made


# Special values of tensors: each takes random numbers of the argument's range and returns the values.
_SPECIAL: dict[str, Callable[[Any], Any]] = {
    "one zero": lambda x: np.where(np.arange(x.size).reshape(x.shape) == 0, 0.0, x),
    "zeros": np.zeros_like,
    "ones": np.ones_like,
    "equal elements": lambda x: np.full_like(x, x.flat[0]),
    "equal rows": lambda x: np.broadcast_to(x[..., :1, :], x.shape).copy() if x.ndim > 1 else x,
}


def _special_points(arguments: Sequence[Argument], special: str) -> Iterator[list[Any]]:
    """Points with special values for one tensor, then for all tensors, as far as they lie in the intervals."""
    tensors = [i for i, a in enumerate(arguments) if a.kind == "tensor"]
    for chosen in dict.fromkeys([*[(i,) for i in tensors], tuple(tensors)]):
        values = _draws(arguments, np.random.default_rng(1))
        if len(chosen) > 1 and special == "equal elements":  # equal ones in all tensors, too
            values = [np.full_like(v, 0.5) if i in chosen else v for i, v in enumerate(values)]
        for i in chosen:
            values[i] = _SPECIAL[special](values[i])
        if all(_is_drawn(arguments[i], values[i]) for i in chosen):
            yield values


def _is_drawn(argument: Argument, value: Any) -> bool:
    if argument.interval == _NONZERO:
        return bool((value != 0).all())
    low, high = next((low, high) for text, low, high in _RANGES if text == argument.interval)
    return not argument.interval or bool(((value >= low) & (value <= high)).all())


def _failure(f: Callable[..., Any], point: Sequence[Any], order: int) -> str:
    """The name of the error of a function at a point, "domain" if it has no derivative there, or an empty text."""
    with warnings.catch_warnings(), quietly():
        warnings.simplefilter("ignore")
        try:
            report = check(f, *point, order=order)
        except Exception as e:  # any error, because the function is a user's
            return _error_named(type(e))
    return "domain" if report.verdict == "domain" else ""


def _error_named(kind: type) -> str:
    """The source of the nearest base class of an error that a test can name without an import."""
    for base in kind.__mro__:
        if getattr(errors, base.__name__, None) is base:
            return f"errors.{base.__name__}"
        if base.__module__ == "builtins":
            return base.__name__
    return "Exception"


def _guarded(
    f: Callable[..., Any], parameters: Sequence[inspect.Parameter], arguments: list[Argument], order: int
) -> tuple[list[Argument], Guard]:
    """The arguments without zeros where one zero is enough to fail, and what the test must leave out besides."""

    def failures(arguments: list[Argument], special: str) -> list[str]:
        points = [_closed(f, parameters, arguments, v) for v in _special_points(arguments, special)]
        return [_failure(g, point, order) for g, point in points]

    for i, a in enumerate(arguments):
        if a.kind == "tensor" and not a.interval:
            values = _draws(arguments, np.random.default_rng(1))
            values[i] = _SPECIAL["one zero"](values[i])
            g, point = _closed(f, parameters, arguments, values)
            if _failure(g, point, order):
                arguments = [*arguments[:i], a._replace(interval=_NONZERO), *arguments[i + 1 :]]
    found = {failure for special in _SPECIAL for failure in failures(arguments, special)} - {""}
    return arguments, Guard(tuple(sorted(found - {"domain"})), "domain" in found)


def _closed(
    f: Callable[..., Any], parameters: Sequence[inspect.Parameter], arguments: Sequence[Argument], values: Any
) -> Any:
    """The function of the tensors among the arguments, and their values."""
    by_word = _by_word(f, parameters)

    def g(*tensors: Any) -> Any:
        rest = iter(tensors)
        made = [next(rest) if a.kind == "tensor" else v for a, v in zip(arguments, values, strict=True)]
        first = [v for p, v in zip(parameters, made, strict=True) if p.name not in by_word]
        words = {p.name: v for p, v in zip(parameters, made, strict=True) if p.name in by_word}
        return f(*first, **words)

    return g, [v for a, v in zip(arguments, values, strict=True) if a.kind == "tensor"]


def _tried(f: Callable[..., Any], parameters: Sequence[inspect.Parameter], arguments: Sequence[Argument]) -> Report:
    """The report of the checks at a few points; raises `_Refused` with the error of the function."""
    rng = np.random.default_rng(0)
    whole = Report()
    for _ in range(_POINTS):
        g, point = _closed(f, parameters, arguments, _draws(arguments, rng))
        with warnings.catch_warnings(), quietly():
            warnings.simplefilter("ignore")
            try:
                whole.extend(check(g, *point))
            except Exception as e:  # any error, because the function is a user's
                raise _Refused(f"{type(e).__name__}: {e}") from None
    return whole


def _shaped(parameters: Sequence[inspect.Parameter], hints: dict[str, Any]) -> Iterator[list[Argument]]:
    """Shapes and kinds for all parameters: equal shapes first, then every combination of a few."""
    kinds = [_kinds(p, hints.get(p.name, inspect.Parameter.empty)) for p in parameters]
    for chosen in itertools.islice(itertools.product(*kinds), 16):
        free = [shapes for kind, shapes in chosen if kind == "tensor"]
        if not free:
            continue
        equal = [tuple(s if s in shapes else shapes[0] for shapes in free) for s in _SHAPES]
        few = free if len(free) <= _MOST_SHAPED else [shapes[:2] for shapes in free]
        for shapes in dict.fromkeys([*equal, *itertools.islice(itertools.product(*few), 1300)]):
            rest = iter(shapes)
            yield [
                Argument(p.name, kind, next(rest) if kind == "tensor" else ())
                for p, (kind, _) in zip(parameters, chosen, strict=True)
            ]


def _arguments(name: str, f: Callable[..., Any]) -> tuple[list[inspect.Parameter], list[Argument], Report]:
    """The parameters, what to draw for them, and the report at a few points.

    Raises
    ------
    Usage
        If the function runs with none of the arguments that were tried.
    """
    parameters = _parameters(name, f)
    first_error, report = "", None
    for arguments in _shaped(parameters, _hints(f)):
        try:
            report = _tried(f, parameters, arguments)
            break
        except _Refused as e:
            first_error = first_error or str(e)
    else:
        raise Usage(
            f"{name} ran with no arguments that were tried (numbers, arrays of up to four axes): {first_error}; "
            "write a function of one or a few arrays around it"
        )
    if not report.ok:
        tensors = [i for i, a in enumerate(arguments) if a.kind == "tensor"]
        for ranges in itertools.islice(itertools.product(_RANGES, repeat=len(tensors)), 1, 126):
            tried = list(arguments)
            for i, (text, _, _) in zip(tensors, ranges, strict=True):
                tried[i] = tried[i]._replace(interval=text)
            try:
                better = _tried(f, parameters, tried)
            except _Refused:
                continue
            if better.ok:
                return parameters, tried, better
    return parameters, arguments, report


# ------------------------------------------------------------------------------------------------ the text


def test_of(text: str, *, order: int = 2, folder: str | None = None) -> str:
    """The source of a property test of a function's derivatives.

    Parameters
    ----------
    text : str
        ``module:function`` or ``file.py:function``.
    order : int
        The order of the check.
    folder : str, optional
        The folder of the test; the working folder by default.

    Returns
    -------
    str

    Raises
    ------
    Usage
        If the function is not found, or takes none of the arguments that are tried.

    Examples
    --------
    >>> print(test_of("gtape.math:log1p"))  # doctest: +ELLIPSIS
    \"\"\"The derivatives of gtape.math.log1p are the exact ones. ...
    """
    module, name, f = function_named(text)
    parameters, arguments, report = _arguments(f"{module}.{name}", f)
    guard = Guard()
    if report.ok:
        arguments, guard = _guarded(f, parameters, arguments, order)
    words = _by_word(f, parameters)
    call = ", ".join(f"{p.name}={p.name}" if p.name in words else p.name for p in parameters)
    sources = ", ".join(a.name for a in arguments if a.kind == "tensor")
    intervals = any(a.interval for a in arguments)
    plain_kinds = any(a.kind != "tensor" for a in arguments)
    path_lines = _path_lines(module, folder)

    # The parameters keep their names, because Hypothesis prints them with a failing example. The function keeps its
    # name unless the test or pytest uses it.
    taken = {p.name for p in parameters}
    gtape, strategies = _free("gtape", taken), _free("strategies", taken)
    taken |= {"Interval", "assume", "given", "importlib", "reject", "settings", "st", "sys"}
    import_line, function = _imported(module, name, taken)
    inner, result = _free("f", taken), _free("report", taken)

    command = f"gtape write {plain(shlex.quote(text))}"
    about = f"The derivatives of {module}.{name} are the exact ones. Written by `{command}`."
    lines = [
        f'"""{_in_docstring(about)}"""',
        "",
        *path_lines,
        *([] if "import " in import_line else ["import importlib", ""]),
        _import_as("import gtape", gtape),
        f"from hypothesis import {', '.join(_helpers(guard))}",
        *(["from hypothesis import strategies as st"] if plain_kinds else []),
        *(["from gtape.declare import Interval"] if intervals else []),
        _import_as("from gtape.verify import strategies", strategies),
        "",
        import_line,
        "",
        "",
        "@settings(deadline=None, max_examples=50)",
        "@given(",
        *[f"    {a.name}={a.strategy(strategies)}," for a in arguments],
        ")",
        f"@{strategies}.shrinking(seconds=10.0)",
        f"def test_derivatives_of_{name.rsplit('.', 1)[-1]}({', '.join(p.name for p in parameters)}):",
        f"    def {inner}({sources}):",
        f"        return {function}({call})",
        "",
        *_checked_lines(f"{result} = {gtape}.verify.check({inner}, {sources}, order={order})", gtape, result, guard),
        f"    {strategies}.aim({result})",
        f"    assert {result}.ok, {result}.summary()",
        "",
    ]
    if not report.ok:
        bad = next(v for v in report.findings if not v.ok)
        note = f"# gtape write: at some points that were tried, the verdict is {bad.verdict!r}: {bad.reason}"
        lines.insert(1, " ".join(note.split())[:118])
    return "\n".join(lines)


def _helpers(guard: Guard) -> list[str]:
    """The names that a test imports from Hypothesis."""
    return [*(["assume"] if guard.domain else []), "given", *(["reject"] if guard.errors else []), "settings"]


def _checked_lines(line: str, gtape: str, result: str, guard: Guard) -> list[str]:
    """The lines of the check; they leave out the points where the function fails or has no derivative."""
    if guard.errors:
        names = [f"{gtape}.{e}" if "." in e else e for e in guard.errors]
        caught = names[0] if len(names) == 1 else f"({', '.join(names)})"
        lines = [
            "    try:", f"        {line}", f"    except {caught}:",
            "        reject()  # the function is not defined at this point",
        ]  # fmt: skip
    else:
        lines = [f"    {line}"]
    if guard.domain:
        lines.append(f'    assume({result}.verdict != "domain")  # leaves out points without a derivative')
    return lines


# Names of functions that pytest runs by itself. It also collects every function whose name begins with "test".
_OF_PYTEST = {"setUpModule", "setup_function", "setup_module", "tearDownModule", "teardown_function", "teardown_module"}


def _free(name: str, taken: set[str]) -> str:
    """The name itself, or with "the_" in front until it is free. The set of taken names grows by the result."""
    while name in taken:
        name = f"the_{name}"
    taken.add(name)
    return name


def _imported(module: str, name: str, taken: set[str]) -> tuple[str, str]:
    """The line that imports a function, and the expression for the function below it."""
    head, dot, rest = name.partition(".")
    in_import = all(part.isidentifier() and not keyword.iskeyword(part) for part in module.split("."))
    first = module.partition(".")[0] if rest and in_import else head
    of_pytest = first in _OF_PYTEST or first.startswith(("test", "pytest", "__"))
    bound = _free(f"the_{first}" if of_pytest else first, taken)
    if not in_import:  # a file such as my-model.py
        return f"{bound} = importlib.import_module({module!r}).{head}", f"{bound}{dot}{rest}"
    if not rest:
        return _import_as(f"from {module} import {head}", bound), bound
    if bound == first:
        return f"import {module}", f"{module}.{name}"
    return f"import {module} as {bound}", f"{bound}.{name}"


def _import_as(line: str, bound: str) -> str:
    """A line that imports a name, under another name if that is not its last word."""
    return line if line.split()[-1] == bound else f"{line} as {bound}"


def _in_docstring(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _path_lines(module: str, folder: str | None) -> list[str]:
    """Lines that make a module of a working folder importable from another folder."""
    file = getattr(sys.modules[module], "__file__", None)
    if file is None or "site-packages" in file or file.startswith(tuple(site.getsitepackages())):
        return []
    top = Path(file).resolve().parents[module.count(".") + (Path(file).name == "__init__.py")]
    if top == Path(folder or ".").resolve() or top.name.startswith("python3") or module.split(".")[0] == "gtape":
        return []
    return ["import sys", "", f"sys.path.insert(0, {str(top)!r})  # the folder of {module}", ""]
