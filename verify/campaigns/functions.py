"""A user's module of functions: each function's derivatives are checked at points that a search chooses."""

from __future__ import annotations

import functools
import inspect
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gtape import nest
from gtape.base.deadline import OutOfTime
from gtape.base.escaping import plain
from gtape.base.quiet import quietly
from gtape.base.verification import MOST_NESTED
from gtape.recording.record import off
from gtape.tensors.tensor import constant, is_tensor
from gtape.verify.campaigns.budget import TooLong, limited
from gtape.verify.campaigns.kinds import Kind, Outcome, Settings, Shard, only, seconds_in
from gtape.verify.judging.api import check
from gtape.verify.search.loading import imported, module_name
from gtape.verify.search.points import steps, unsteps
from gtape.verify.verdicts.verdict import Report

__all__ = ["KIND", "functions_of"]

_MOST_ARGUMENTS = 8
_DTYPES = ("float64", "float32", "float16")
# The shapes to try for all arguments of a function whose module gives no shapes.
_SHAPES: tuple[tuple[int, ...], ...] = ((), (3,), (2, 2), (1, 4, 4, 1))
_PROBES = 3  # points for each shape
_BEST = 3  # points that the search stays close to
_ATTEMPTS = 3  # points outside of the domain before the search ends, for each requested point


def functions_of(module: Any) -> dict[str, Callable[..., Any]]:
    """The public functions of a module that take only positional arguments: those of ``__all__``, or its own.

    Examples
    --------
    >>> import types
    >>> from gtape.verify.campaigns.functions import functions_of
    >>> module = types.ModuleType("losses")
    >>> exec("def square(x): return x * x", vars(module))
    >>> list(functions_of(module))
    ['square']
    """
    listed = getattr(module, "__all__", None)
    names = listed if isinstance(listed, (list, tuple)) else [n for n in vars(module) if not n.startswith("_")]
    found = {}
    for name in names:
        f = getattr(module, name, None)
        own = listed is not None or getattr(f, "__module__", None) == module.__name__
        if own and callable(f) and not inspect.isclass(f) and 0 < _arity(f) <= _MOST_ARGUMENTS:
            found[name] = f
    return found


def _arity(f: Callable[..., Any]) -> int:
    """The number of arguments without a default; 0 for a function that also needs others."""
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        return 0
    needed = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    return 0 if any(p.kind is p.KEYWORD_ONLY for p in needed) else len(needed)


def _chosen(settings: Settings) -> list[tuple[str, str]]:
    """(module, function) of each function to check."""
    if not settings["load"]:
        raise ValueError("name the module of the functions: --load MODULE")
    found = [(text, name) for text in settings["load"] for name in functions_of(imported(text))]
    names = set(settings["names"])
    unknown = sorted(names - {name for _, name in found})
    if unknown:
        raise ValueError(f"no loaded module has a public function {plain(unknown[0])} of positional arguments")
    chosen = [(text, name) for text, name in found if not names or name in names]
    if not chosen:
        raise ValueError("the loaded modules have no public functions of positional arguments")
    return chosen


@functools.cache
def _prepare() -> None:
    """Import the modules that checks need, because later imports would count as time of the first function."""
    check(lambda x: x * x, 1.0)


def plan(settings: Settings) -> Iterator[Shard]:
    """A shard for each function, again and again with another seed."""
    chosen = _chosen(settings)
    _prepare()
    for seed in itertools.count(settings["seed"]):
        for text, name in chosen:
            yield {
                "kind": "functions", "module": text, "function": name, "seed": seed, "points": settings["size"],
                "order": settings["order"], "dtype": settings["dtype"], "seconds": settings["seconds"],
            }  # fmt: skip


class _Undecided(Exception):
    """A function, or one point of it, cannot be checked."""

    def __init__(self, cause: str, reason: str) -> None:
        super().__init__(reason)
        self.cause = cause


def run(shard: Shard) -> Outcome:
    """Check one function at points of a search, or at the one point of an example."""
    _prepare()
    outcome = Outcome()
    name = f"{module_name(shard['module'])}.{shard['function']}"
    module = imported(shard["module"])
    f = functions_of(module).get(shard["function"])
    if f is None:
        raise ValueError(f"{name} is no public function of positional arguments")
    outcome.count(f"function: {name}")
    n, call = _arity(f), _called_from(f, module)
    try:
        if "at" in shard:
            point = [_array(rows, shard["dtype"]) for rows in shard["at"]]
            _judge(outcome, name, call, point, shard)
        else:
            _search(outcome, name, call, _shapes(module, shard, n, call), shard)
    except _Undecided as e:
        outcome.find("undecided", f"{name}: {e.cause}", f"{name}: {e}", shard, reason=str(e))
    return outcome


def _called_from(f: Any, module: Any) -> Any:
    """The function, called by a frame of its own module, because findings name the innermost frame of the user.

    Otherwise findings would name the code that runs workers, which differs between executors.
    """
    own = inspect.unwrap(f)
    line = getattr(getattr(own, "__code__", None), "co_firstlineno", 1)
    call = lambda *args: f(*args)
    call.__code__ = call.__code__.replace(
        co_filename=str(module.__file__), co_firstlineno=line, co_name=str(getattr(f, "__name__", "function"))
    )
    return call


def _search(outcome: Outcome, name: str, f: Any, shapes: list[tuple[int, ...]], shard: Shard) -> None:
    rng = np.random.default_rng([shard["seed"], 31])
    best: list[tuple[float, list[Any]]] = []
    checked = 0
    for k in range(_ATTEMPTS * shard["points"]):
        if checked == shard["points"]:
            break
        if best and k % 2:
            point = _near(best[int(rng.integers(len(best)))][1], rng)
        else:
            point = _drawn(shapes, shard["dtype"], rng, k if not shard["seed"] else None)
        report = _judge(outcome, name, f, point, shard)
        if report is not None and not any(x.verdict == "domain" for x in report.findings):
            checked += 1
            score = report.max_ulp if math.isfinite(report.max_ulp) else math.inf
            best = sorted([*best, (score, point)], key=lambda pair: -pair[0])[:_BEST]
    if not checked:
        raise _Undecided("no point found", "the search found no point at which it could be checked")


def _judge(outcome: Outcome, name: str, f: Any, point: list[Any], shard: Shard) -> Report | None:
    """The report about one point. None if no check was possible there; the point then becomes a count or a finding."""
    example = {k: v for k, v in shard.items() if k not in ("seed", "points")} | {"at": [_texts(a) for a in point]}
    outcome.count("points")
    try:
        _repeatable(f, point, shard["seconds"])
        with quietly():
            report: Report = _in_time(lambda: check(f, *point, order=shard["order"]), shard["seconds"])
    except _Undecided as e:
        outcome.count("verdict: undecided")
        outcome.find("undecided", f"{name}: {e.cause}", f"{name}{_shown(point)}: {e}", example, reason=str(e))
        return None
    outcome.count(f"verdict: {report.verdict}")
    outcome.count("numbers compared", report.checked)
    if math.isfinite(report.max_ulp):
        outcome.worst(f"ULP of {name}", report.max_ulp)
    # Points outside of the domain are no faults, because the search does not know the domain.
    outcome.find_all([x for x in report.findings if not x.ok and x.verdict != "domain"], name, example)
    return report


def _in_time(do: Callable[[], Any], seconds: float) -> Any:
    """The result of a call, or the reason for having none."""
    try:
        with limited(seconds):
            return do()
    except (TooLong, OutOfTime):
        raise _Undecided("takes too long", f"it does not return within {seconds:g} s") from None
    except RecursionError:
        raise _Undecided("raises RecursionError", "it raises RecursionError") from None
    except (Exception, SystemExit) as e:  # a function may call sys.exit
        raise _Undecided(f"raises {type(e).__name__}", f"it raises {type(e).__name__}: {plain(e)}"[:400]) from None


def _outputs(f: Any, point: list[Any], seconds: float) -> list[Any]:
    def do() -> list[Any]:
        with off(), quietly():
            return nest.flatten(f(*[constant(a) for a in point]))

    found: list[Any] = _in_time(do, seconds)
    if not any(is_tensor(t) and t.dtype.is_floating for t in found):
        kinds = ", ".join(sorted({type(t).__name__ for t in found})) or "nothing"
        raise _Undecided("returns no floating-point tensors", f"it returns no floating-point tensors, but {kinds}")
    return [np.asarray(t.numpy()) for t in found if is_tensor(t)]


def _repeatable(f: Any, point: list[Any], seconds: float) -> None:
    """Raise if two calls differ."""
    first, second = _outputs(f, point, seconds), _outputs(f, point, seconds)
    same = len(first) == len(second) and all(
        a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in zip(first, second, strict=True)
    )
    if not same:
        raise _Undecided("is not deterministic", "it is not deterministic: two calls at one point differ")


def _shapes(module: Any, shard: Shard, n: int, f: Any) -> list[tuple[int, ...]]:
    """The shapes of the arguments: those of the module's `GTAPE_SHAPES`, or the first that the function takes."""
    said = getattr(module, "GTAPE_SHAPES", {})
    if isinstance(said, dict) and shard["function"] in said:
        try:
            shapes = [tuple(int(d) for d in shape) for shape in said[shard["function"]]]
        except (TypeError, ValueError):
            shapes = []
        if len(shapes) != n:
            raise _Undecided("has wrong GTAPE_SHAPES", f"GTAPE_SHAPES must give it {n} shapes, such as [(3,), (2, 2)]")
        return shapes
    rng = np.random.default_rng(1)
    why: _Undecided | None = None
    for shape in _SHAPES:
        for _ in range(_PROBES):
            try:
                _outputs(f, [_made(rng.uniform(0.25, 0.75, shape), shard["dtype"]) for _ in range(n)], shard["seconds"])
            except _Undecided as e:
                why = why or e
                if e.cause == "takes too long":
                    raise
            else:
                return [shape] * n
    assert why is not None
    if not why.cause.startswith("raises"):  # other shapes help only if the function refuses these
        raise why
    raise _Undecided(
        why.cause, f"{why}; give the shapes of its arguments by GTAPE_SHAPES = {{{shard['function']!r}: [(3,), ...]}}"
    )


# ------------------------------------------------------------------------------------------ points


def _drawn(shapes: Sequence[tuple[int, ...]], dtype: Any, rng: np.random.Generator, k: int | None) -> list[Any]:
    """A random point; for small k one of fixed points, at which ops have kinks, ties and roots."""
    fixed = (1.0, 0.0, -1.0, 0.5, 2.0)
    if k is not None and k // 2 < len(fixed):
        return [_made(np.full(shape, fixed[k // 2]), dtype) for shape in shapes]
    how = int(rng.integers(6))
    made = []
    for shape in shapes:
        x: Any
        sign: Any = rng.choice([-1.0, 1.0], shape)
        if how <= 1:
            x = rng.uniform(-3.0, 3.0, shape)
        elif how == 2:
            x = np.abs(rng.normal(size=shape))
        elif how == 3:
            x = sign * np.exp2(rng.uniform(-12, 8, shape))
        elif how == 4:
            x = np.round(2 * rng.normal(size=shape)) / 2  # ties and kinks
        else:
            reach = np.finfo(dtype).maxexp / 4
            x = sign * np.exp2(rng.uniform(-reach, reach, shape))
        made.append(_made(x, dtype))
    return made


def _near(point: list[Any], rng: np.random.Generator) -> list[Any]:
    """A point around another one, at distances from one neighbour to a few binades."""
    made = []
    for x in point:
        reach = np.exp2(rng.uniform(0, np.finfo(x.dtype).nmant + 2, x.shape)).astype(np.int64)
        move = np.where(rng.random(x.shape) < 0.8, reach * rng.choice([-1, 1], x.shape), 0)
        made.append(_made(unsteps(steps(x, x.dtype) + move, x.dtype), x.dtype))
    return made


def _made(x: Any, dtype: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.asarray(x, dtype=dtype)


def _texts(a: Any) -> Any:
    """The numbers of an array as hexadecimal text, in nested lists."""
    return [_texts(row) for row in a] if a.ndim else float(a).hex()


def _array(rows: Any, dtype: Any) -> Any:
    def numbers(x: Any) -> Any:
        return [numbers(y) for y in x] if isinstance(x, list) else float.fromhex(x)

    return np.asarray(numbers(rows), dtype=dtype)


def _shown(point: list[Any]) -> str:
    return "(" + ", ".join(np.array2string(a, threshold=8, separator=", ").replace("\n", "") for a in point) + ")"


def _length(settings: Settings) -> int:
    only(settings, "order", range(1, MOST_NESTED + 1))
    only(settings, "dtype", _DTYPES)
    seconds_in(settings, "seconds")
    return len(_chosen(settings))


KIND = Kind(
    "the public functions of the modules of --load, at points that a search chooses",
    {"seed": 0, "size": 200, "names": [], "order": 1, "dtype": "float64", "seconds": 10.0, "load": []},
    plan,
    run,
    _length,
)
