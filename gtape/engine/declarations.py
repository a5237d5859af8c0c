"""Checks declarations. An error names the op, the place and the fault as soon as the op is declared.

A declaration from outside gtape is checked when it is made. Only the tests check gtape's own declarations, because the
checks take time. Rules run on arrays that detect forbidden operations.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterator, Sequence
from types import CodeType
from typing import Any

import numpy as np

from gtape.base.imports import library
from gtape.base.layout import layout_of
from gtape.declare.domains import BOOLEAN, Interval
from gtape.declare.primitives import CONSTANTS, REGISTRY, Primitive
from gtape.declare.signatures import check_signature, defaults_of, wrong
from gtape.engine.worlds import NUMPY, TAPE
from gtape.kernels.broadcasting import broadcast_shapes
from gtape.tensors.tensor import wrap

__all__ = ["calls_of", "check"]

Run = tuple[list[Any], dict[str, Any]]  # arrays and parameters

_NUMBERS = (0.5, 2.0, -0.75, 1.25, -2.5, 3.0, 0.125, -0.25, 6.0, -7.0, 40.0, 1.0, 0.0)
_POINTS = 4
# A float with a larger denominator was meant as a number that floats cannot hold, such as 0.1.
_SHORT = 2**20


def check(prim: Primitive, calls: Sequence[Run] | None = None) -> None:
    """Check a declaration, and run its kernel and its rules.

    For an op from outside gtape, `missing` gains the arguments that have no rule although the values depend smoothly on
    them.

    Parameters
    ----------
    calls : sequence of (arrays, params), optional
        The calls to run. By default calls from the domain or the samples.

    Raises
    ------
    ValueError
        If the declaration is wrong. The message names the fault and the place.
    """
    _check_words(prim)
    _check_signatures(prim)
    _check_names(prim)
    smooth: set[int] = set()
    for arrays, params in calls_of(prim) if calls is None else calls:
        with np.errstate(all="ignore"):
            y = _check_kernel(prim, arrays, params)
            if prim.differentiable:
                _check_rules(prim, arrays, params, y)
            smooth.update(_smooth_without_rule(prim, arrays, params))
    unsaid = sorted(smooth.difference(prim.missing))
    if unsaid and prim.place.outside:
        prim.missing = tuple(sorted(smooth.union(prim.missing)))
    elif unsaid:
        raise wrong(
            prim, f"its values depend smoothly on {prim.argument(unsaid[0])}, which has no rule: give a rule, or say "
            f"missing=({unsaid[0]},), so that checks are undecided about this derivative"
        )  # fmt: skip


# ------------------------------------------------------------------------------------------------ words


def _check_words(prim: Primitive) -> None:
    rules = prim.rules
    given = [*rules, *(prim.jvp if isinstance(prim.jvp, tuple) else ())]
    for rule in given:
        if not (rule is None or callable(rule) or type(rule) is int):
            raise wrong(prim, f"a rule is a function, a whole number or None, not {rule!r}")
    if not callable(prim.kernel):
        raise wrong(prim, f"the kernel has to be a function of arrays, not {prim.kernel!r}")
    for i in prim.missing:
        if prim.variadic or i not in range(len(rules)) or rules[i] is not None:
            raise wrong(prim, f"missing={prim.missing!r} names argument {i}; give only arguments whose rule is None")
    if not prim.variadic:
        if prim.kind in ("general", "implicit") and len(prim.vjp) != len(prim.jvp):
            raise wrong(prim, f"it has {len(prim.vjp)} rules vjp, and {len(prim.jvp)} rules jvp; give one an argument")
        if prim.kind == "elementwise" and len(prim.domain.intervals) != len(rules):
            raise wrong(
                prim, f"its domain has {len(prim.domain.intervals)} intervals for {len(rules)} arguments; give one each"
            )
    if prim.kind == "elementwise":
        return
    if prim.differentiable and not prim.samples:
        raise wrong(
            prim,
            "it has no samples, which say how to call it; give samples=(((shape, ...), {parameters}), ...)",
        )
    for sample in prim.samples or ():
        if not isinstance(sample, tuple | list) or len(sample) != 2 or not isinstance(sample[1], dict):
            raise wrong(prim, f"a sample is a pair of shapes and parameters, not {sample!r}")
        shapes = sample[0]
        if not isinstance(shapes, tuple | list) or not all(isinstance(s, tuple | list | np.ndarray) for s in shapes):
            raise wrong(prim, f"a sample has a tuple of shapes, such as ((2, 3), (3,)), not {shapes!r}")
        if not prim.variadic and len(shapes) != prim.arity:
            raise wrong(prim, f"it has {prim.arity} arguments, and its sample {sample!r} has {len(shapes)} shapes")


def _check_signatures(prim: Primitive) -> None:
    n = prim.arity
    xs = ["x"] if n == 1 else [f"x{i}" for i in range(max(n, 0))]
    params = prim.params
    if prim.variadic:
        check_signature(prim, "the transpose", prim.vjp, ["xp", "g", "xs"], params)
        return
    word = "partial" if prim.kind == "elementwise" else "vjp"
    why = f"; the declaration has {n} {word}{'' if n == 1 else 's'}, and needs one for each argument"
    check_signature(prim, "the kernel", prim.kernel, xs, params, "" if prim.kind == "linear" else why)
    if prim.scalar is not None:
        check_signature(prim, "`scalar`", prim.scalar, xs, params)
    if prim.domain.where is not None:
        check_signature(prim, "the condition of the domain", prim.domain.where, xs, ())
    for what, i, rule in _rules(prim):
        first = ["xp", "y", *xs] if prim.kind == "elementwise" else ["xp", "g", *xs]
        if prim.kind in ("general", "implicit"):
            first = ["xp", "g" if what == "vjp" else "t", "y", *xs]
        check_signature(prim, _named(prim, what, i), rule, first, params)


def _check_names(prim: Primitive) -> None:
    """Raise if the source of a rule names something that no world has, also in a branch that no test call takes."""
    trees: dict[str, Any] = {}
    for what, i, rule in [("vjp", 0, prim.vjp)] if prim.variadic else _rules(prim):
        code = getattr(rule, "__code__", None)
        for name in () if code is None else _names_of_world(code, trees):
            if not hasattr(_WatchingWorld, name) and name not in CONSTANTS and name not in REGISTRY:
                raise wrong(prim, f"{_named(prim, what, i)} {_unknown(name)}")


def _names_of_world(code: CodeType, trees: dict[str, Any]) -> Iterator[str]:
    """The attributes of the first argument that a rule reads by its source; none if the source cannot be found.

    `trees` keeps the syntax tree of each file.
    """
    import linecache  # not above, because `import gtape` does not need it

    ast = library("ast")
    file, arguments = code.co_filename, list(code.co_varnames[: code.co_argcount])
    if file not in trees:
        try:
            trees[file] = ast.parse("".join(linecache.getlines(file)))
        except SyntaxError:  # a cell of a notebook may hold commands of IPython
            trees[file] = None
    if trees[file] is None or not arguments:
        return

    def is_rule(node: Any) -> bool:
        first = [getattr(d, "lineno", 0) for d in (node, *getattr(node, "decorator_list", ()))]
        return code.co_firstlineno in first and [a.arg for a in (*node.args.posonlyargs, *node.args.args)] == arguments

    functions = ast.Lambda, ast.FunctionDef
    pending = [node.body for node in ast.walk(trees[file]) if isinstance(node, functions) and is_rule(node)]
    while pending:
        node = pending.pop()
        if isinstance(node, list):
            pending.extend(node)
        elif isinstance(node, functions) and arguments[0] in [a.arg for a in ast.walk(node.args) if hasattr(a, "arg")]:
            continue  # an argument of an inner function has the name of the world
        else:
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == arguments[0]:
                yield node.attr
            pending.extend(ast.iter_child_nodes(node))


def _rules(prim: Primitive) -> Iterator[tuple[str, int, Callable[..., Any]]]:
    """The kind of each rule that is a function, the index of its argument, and the rule."""
    words = {"elementwise": ("partials",), "linear": ("vjp",)}.get(prim.kind, ("vjp", "jvp"))
    for word in words:
        for i, rule in enumerate(getattr(prim, word)):
            if callable(rule):
                yield word.removesuffix("s"), i, rule


def _named(prim: Primitive, what: str, i: int) -> str:
    return "the transpose" if prim.kind == "linear" else f"the {what} of argument {i}"


# ------------------------------------------------------------------------------------------------ calls


def calls_of(prim: Primitive, params: dict[str, Any] | None = None) -> list[Run]:
    """Arrays and parameters for calls of a primitive, from its domain or its samples."""
    if prim.kind == "elementwise":
        params = _defaults(prim) if params is None else params
        points = [_points(interval, k) for k, interval in enumerate(prim.domain.intervals)]
        where = prim.domain.where
        rows = [row for row in zip(*points, strict=True) if where is None or where(*row)]
        if not rows:
            return []
        kinds = [interval is BOOLEAN for interval in prim.domain.intervals]
        columns = list(zip(*rows, strict=True))
        return [
            ([np.array(c, np.bool_ if boolean else dtype) for c, boolean in zip(columns, kinds, strict=True)], params)
            for dtype in (np.float64, np.float32)
        ]
    return [call for shapes, params in prim.samples or () for call in _of_sample(prim, shapes, params)]


def _defaults(prim: Primitive) -> dict[str, Any]:
    found = defaults_of(prim)
    missing = [p for p in prim.params if p not in found]
    if missing:
        raise wrong(prim, f"give the parameters {', '.join(missing)} of the kernel defaults, with which it is tested")
    return found


def _points(interval: Interval, k: int) -> list[float]:
    """Some numbers in an interval, different for each argument `k`."""
    found = [v for v in _NUMBERS if v in interval]
    if not found:
        low, high = max(interval.lo, -1e300), min(interval.hi, 1e300)
        found = [v for v in (low + (high - low) * t for t in (0.5, 0.25, 0.75)) if v in interval] or [low]
    return [found[(k * 3 + j) % len(found)] for j in range(2 * _POINTS)]


def _of_sample(prim: Primitive, shapes: Sequence[Any], params: dict[str, Any]) -> Iterator[Run]:
    rng = np.random.default_rng(0)
    complaint = "they lie outside the domain"
    for dtype in (np.float64, np.float32):
        for dominant in (False, True):
            arrays = [_drawn(s, rng, dominant, dtype, prim.domain.interval(i)) for i, s in enumerate(shapes)]
            if prim.domain.fit is not None:
                arrays = list(prim.domain.fit(*arrays))
            if prim.domain.where is not None and not prim.domain.where(*arrays):
                continue
            try:
                prim.kernel(*arrays, **params)
            except (np.linalg.LinAlgError, ArithmeticError) as e:
                complaint = f"it raises {type(e).__name__}: {e}"
                continue
            except Exception as e:
                raise _failed(prim, "the kernel", e, arrays, params) from e
            yield arrays, params
            break
        else:
            raise wrong(prim, f"its kernel takes no arrays of its sample {(shapes, params)!r}: {complaint}")


def _drawn(given: Any, rng: np.random.Generator, dominant: bool, dtype: Any, interval: Interval) -> Any:
    if isinstance(given, np.ndarray) and given.dtype.kind in "biu":
        return given
    shape = given.shape if isinstance(given, np.ndarray) else tuple(given)
    x = rng.uniform(0.5, 1.5, shape)
    if dominant and len(shape) >= 2 and shape[-1] == shape[-2]:
        x = x + np.swapaxes(x, -1, -2) + 3 * shape[-1] * np.eye(shape[-1])
    return interval.folded(x.astype(dtype))


def _failed(prim: Primitive, what: str, e: Exception, arrays: list[Any], params: dict[str, Any]) -> ValueError:
    given = ", ".join([f"{a.dtype}{list(a.shape)}" for a in arrays] + [f"{k}={v!r}" for k, v in params.items()])
    return wrong(prim, f"{what} raises {type(e).__name__} for {given}: {e}")


# ------------------------------------------------------------------------------------------------ kernels


def _check_kernel(prim: Primitive, arrays: list[Any], params: dict[str, Any]) -> Any:
    kept = [a.copy() for a in arrays]
    try:
        y = prim.kernel(*arrays, **params)
    except Exception as e:
        raise _failed(prim, "the kernel", e, arrays, params) from e
    if any(not np.array_equal(a, k, equal_nan=a.dtype.kind == "f") for a, k in zip(arrays, kept, strict=True)):
        raise wrong(prim, "the kernel writes into its arguments; it has to leave them as they are")
    several = isinstance(y, (tuple, list))
    told = prim.outputs > 1 or not prim.params  # otherwise the number of outputs may depend on the parameters
    if told and (several or prim.outputs > 1) and (not several or len(y) != prim.outputs):
        n = len(y) if several else 1
        raise wrong(prim, f"the kernel returns {n} arrays; say outputs={n}, or return {prim.outputs}")
    dtypes = {a.dtype for a in arrays if a.dtype.kind == "f"}
    for v in y if several else [y]:
        if not isinstance(v, (np.ndarray, np.generic)):
            raise wrong(prim, f"the kernel returns {type(v).__name__}, not an array")
        if (
            prim.differentiable
            and "conversion" not in prim.roles
            and len(dtypes) == 1
            and v.dtype.kind == "f"
            and v.dtype not in dtypes
        ):
            raise wrong(prim, f"the kernel makes {v.dtype} of {dtypes.pop()}; it has to keep the dtype")
    if prim.rounding.kind in ("sum", "product") and not prim.rounding.signed and not several:
        _check_terms(prim, arrays, params)
    if prim.kind == "elementwise":
        shape = broadcast_shapes(*[a.shape for a in arrays])
        numbers = [np.asarray(a.reshape(-1)[0]) for a in arrays]
        try:
            shapes = {shape: np.shape(y), (): np.shape(prim.kernel(*numbers, **params))}
        except Exception as e:
            raise _failed(prim, "the kernel", e, numbers, params) from e
        for given, made in shapes.items():
            if made != given:
                raise wrong(prim, f"the kernel makes the shape {made} of {given}; an elementwise op keeps it")
        bad = np.flatnonzero(np.isnan(y) if y.dtype.kind == "f" else np.zeros(shape))
        if bad.size:
            point = ", ".join(f"{a[bad[0]]}" for a in arrays)
            raise wrong(prim, f"the kernel gives NaN at ({point}), which lies in its domain {prim.domain}")
    elif prim.place.outside:
        _check_negatives(prim, arrays, params, y)
    return y


def _check_negatives(prim: Primitive, arrays: list[Any], params: dict[str, Any], y: Any) -> None:
    """Raise if the kernel gives NaN at negative numbers, though no domain leaves them out."""
    domain = prim.domain
    if domain.where is not None or domain.fit is not None or _has_nan(y):
        return
    moved = [-a if a.dtype.kind == "f" and -1.0 in domain.interval(i) else a for i, a in enumerate(arrays)]
    try:
        made = prim.kernel(*moved, **params)
    except Exception:  # the kernel of a factorisation, for example, may refuse such a matrix
        return
    if _has_nan(made):
        raise wrong(
            prim, f"the kernel gives NaN at negative numbers, which lie in its domain {domain}: give domain=..."
        )


def _has_nan(y: Any) -> bool:
    parts = [np.asarray(v) for v in (y if isinstance(y, (tuple, list)) else [y])]
    return any(bool(np.isnan(v).any()) for v in parts if v.dtype.kind in "fc")


def _smooth_without_rule(prim: Primitive, arrays: list[Any], params: dict[str, Any]) -> Iterator[int]:
    """Yield the arguments without a rule on which values depend smoothly: small moves make small changes."""
    if prim.variadic or "stop" in prim.roles:
        return
    for i, a in enumerate(arrays):
        whole = prim.kind == "elementwise" and prim.domain.intervals[i].whole
        if prim.connected(i) or whole or a.dtype != np.float64:
            continue
        found = []
        for part in (2.0**-20, 2.0**-24):
            pair = [prim.kernel(*arrays[:i], a * (1 + s * part), *arrays[i + 1 :], **params) for s in (-1, 1)]
            low, high = ([np.asarray(v) for v in (y if isinstance(y, tuple) else (y,))] for y in pair)
            found.append(
                [np.abs(q - p) if p.dtype.kind in "fc" else np.zeros(1) for p, q in zip(low, high, strict=True)]
            )
        if any(((q > 0) & (q < p / 2)).any() for p, q in zip(*found, strict=True)):
            yield i


def _check_terms(prim: Primitive, arrays: list[Any], params: dict[str, Any]) -> None:
    """Raise an error if some signs give a larger result than the magnitudes, because such a kernel subtracts."""
    rng = np.random.default_rng(1)
    whole = np.asarray(prim.kernel(*arrays, **params))
    for _ in range(4):
        signed = [a * rng.choice([-1, 1], a.shape).astype(a.dtype) if a.dtype.kind == "f" else a for a in arrays]
        if (np.abs(prim.kernel(*signed, **params)) > whole * 1.001).any():
            raise wrong(
                prim, f"rounding={prim.rounding} is for sums of terms as they stand, and this kernel subtracts some: "
                "say rounding=sums(by, signed=True), where by(*arrays) sums the magnitudes of the terms, or growing(1)"
            )  # fmt: skip


# ------------------------------------------------------------------------------------------------ rules


class _Refused(Exception):
    """A rule does something that rules must not do."""


class _Exact(float):
    """A number that is meant exactly: a constant of a world, a parameter, or a result computed from these."""


def _closed(name: str) -> Callable[..., Any]:
    own = getattr(float, name)

    def operator(self: Any, *others: Any) -> Any:
        made = own(self, *others)
        return _Exact(made) if isinstance(made, float) else made

    return operator


for _name in (
    "__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__", "__rtruediv__", "__pow__",
    "__rpow__", "__neg__", "__abs__",
):  # fmt: skip
    setattr(_Exact, _name, _closed(_name))


# The ufuncs of the operators that the values of every world have. `_Watched` has powers and magnitudes of its own.
_ARITHMETIC = frozenset({np.add, np.subtract, np.multiply, np.true_divide, np.negative})
# The operators that some worlds lack, or in which proofs do not see conditions, and what to write instead.
_OTHER_OPERATORS = {
    np.floor_divide: ("the operator //", "xp.floordiv(a, b)"),
    np.remainder: ("the operator %", "xp.floormod(a, b)"),
    np.matmul: ("the operator @", "xp.matmul(a, b)"),
    np.less: ("the operator <", "xp.less(a, b)"),
    np.less_equal: ("the operator <=", "xp.less_equal(a, b)"),
    np.greater: ("the operator >", "xp.greater(a, b)"),
    np.greater_equal: ("the operator >=", "xp.greater_equal(a, b)"),
    np.equal: ("the operator ==", "xp.equal(a, b)"),
    np.not_equal: ("the operator !=", "xp.not_equal(a, b)"),
    np.bitwise_and: ("the operator &", "xp.logical_and(a, b)"),
    np.bitwise_or: ("the operator |", "xp.logical_or(a, b)"),
    np.bitwise_xor: ("the operator ^", "xp.logical_xor(a, b)"),
    np.invert: ("the operator ~", "xp.logical_not(a)"),
    np.positive: ("the operator + of one value", "the value alone"),
}


class _Watched(np.ndarray):
    """An array that refuses operations with inexact numbers, such as 0.1, and NumPy's functions."""

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        raise _Refused(_instead_of(func.__name__))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **words: Any) -> Any:
        if method == "__call__" and ufunc in _OTHER_OPERATORS:
            used, instead = _OTHER_OPERATORS[ufunc]
            raise _Refused(f"uses {used}, which not all worlds have: write {instead}")
        if ufunc not in _ARITHMETIC or method != "__call__":
            raise _Refused(_instead_of(ufunc.__name__))
        for v in inputs:
            _refuse_inexact(v)
            if getattr(v, "dtype", None) == np.bool_:
                raise _Refused("computes with truth values as numbers: write xp.where(xp.less(a, b), 1, 0)")
        return _watched(getattr(ufunc, method)(*map(_bare, inputs), **{k: _bare(v) for k, v in words.items()}))

    def __getitem__(self, key: Any) -> Any:
        return _watched(_bare(self)[key])

    def __pow__(self, n: Any, *_: Any) -> Any:
        return _watched(_bare(self) ** n) if n.__class__ is int else self.__rpow__(n)

    def __rpow__(self, *_: Any) -> Any:
        raise _Refused("takes a power by ** with an exponent that is no whole number: write xp.pow(a, b)")

    def __abs__(self) -> Any:
        return _watched(abs(_bare(self)))


def _instead_of(name: str) -> str:
    return f"calls NumPy's {name}, which only one world has: " + (
        f"write xp.{name}" if name in REGISTRY else "write it by primitives, as xp.exp(x)"
    )


def _watched(v: Any) -> Any:
    if isinstance(v, (tuple, list)):
        return type(v)([_watched(part) for part in v])
    return np.asarray(v).view(_Watched) if isinstance(v, (np.ndarray, np.generic)) else v


def _bare(v: Any) -> Any:
    if isinstance(v, (tuple, list)):
        return type(v)([_bare(part) for part in v])
    if v.__class__ is _Exact:
        return float(v)  # because NumPy widens arrays to float64 beside numbers of a class of their own
    return v.view(np.ndarray) if isinstance(v, _Watched) else v


def _on_tape(v: Any) -> Any:
    """Values of a rule as tensors."""
    if isinstance(v, (tuple, list)):
        return type(v)([_on_tape(part) for part in v])
    return wrap(np.array(_bare(v))) if isinstance(v, np.ndarray) else v


def _refuse_inexact(v: Any) -> None:
    if not isinstance(v, (float, np.floating)) or isinstance(v, _Exact) or not math.isfinite(v):
        return
    if float(v).as_integer_ratio()[1] > _SHORT:
        raise _Refused(
            f"uses the number {float(v)!r}, which is not exact: write a quotient of whole numbers, such as x / 10, "
            f"or a constant of xp ({', '.join(CONSTANTS)})"
        )


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name, [*REGISTRY, *CONSTANTS], 2, 0.6)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    return f"uses xp.{name}, which is neither a primitive nor a constant{hint}"


class _WatchingWorld:
    """The NumPy world, restricted to the names and numbers that every world has."""

    def __getattr__(self, name: str) -> Any:
        if name in CONSTANTS:
            return _Exact(CONSTANTS[name])
        if name not in REGISTRY:
            raise _Refused(_unknown(name))
        function = getattr(NUMPY, name)

        def call(*args: Any, **params: Any) -> Any:
            for a in args:
                _refuse_inexact(a)
            return _watched(function(*map(_bare, args), **params))

        return call


def _check_rules(prim: Primitive, arrays: list[Any], params: dict[str, Any], y: Any) -> None:
    world, xs = _WatchingWorld(), [_watched(a) for a in arrays]
    several = isinstance(y, (tuple, list))
    outputs = [np.asarray(v) for v in (y if several else [y])]
    given = {k: _Exact(v) if isinstance(v, float) else v for k, v in params.items()}
    ones = [np.ones_like(v).view(_Watched) for v in outputs]
    g, out = (tuple(ones), tuple(map(_watched, outputs))) if several else (ones[0], _watched(outputs[0]))

    def run(what: str, rule: Callable[..., Any], *args: Any) -> Any:
        try:
            made = rule(world, *args, **given)
        except _Refused as e:
            raise wrong(prim, f"{what} {e}") from None
        except Exception as e:
            raise _failed(prim, what, e, arrays, params) from e
        if prim.place.outside:
            try:  # as in derivatives of second order
                rule(TAPE, *map(_on_tape, args), **params)
            except Exception as e:
                raise _failed(prim, f"{what}, on tensors,", e, arrays, params) from e
        return made

    if prim.variadic:
        made = run("the transpose", prim.vjp, g, xs)
        for i, (c, a) in enumerate(zip(made, arrays, strict=False)):
            _check_shape(prim, f"the transpose, for argument {i},", c, a.shape)
        return
    if prim.kind == "linear" and not several:
        _check_linear(prim, arrays[0], params, outputs[0])
    for what, i, rule in _rules(prim):
        name = _named(prim, what, i)
        if what == "partial":
            made = run(name, rule, out, *xs)
            if made is None:
                raise wrong(prim, f"{name} returns None; for an argument without a gradient, write None for the rule")
            if broadcast_shapes(_shape_of(made), outputs[0].shape) != outputs[0].shape:
                _check_shape(prim, name, made, outputs[0].shape)
            _check_dtype(prim, name, _bare(g) * _bare(made), outputs[0].dtype)
        elif what == "jvp":
            made = run(name, rule, np.ones_like(arrays[i]).view(_Watched), out, *xs)
            for c, o in zip(made if several else [made], outputs, strict=several):
                _check_shape(prim, name, c, o.shape)
        else:
            _check_shape(
                prim, name, run(name, rule, g, *([] if prim.kind == "linear" else [out]), *xs), arrays[i].shape
            )
        if what != "jvp":
            _check_reads(prim, name, i, lambda *args, name=name, rule=rule: run(name, rule, *args), g, out, xs)


def _check_reads(prim: Primitive, name: str, i: int, run: Any, g: Any, out: Any, xs: list[Any]) -> None:
    """Run a rule with layouts in place of the values that it does not read by its declaration, as in records."""
    if prim.kind == "linear" or isinstance(out, tuple):
        return
    reads = prim.reads[i]
    kept = [x if j in reads else layout_of(_bare(x)) for j, x in enumerate(xs)]
    y = out if "y" in reads else layout_of(_bare(out))
    if all(a is b for a, b in zip([y, *kept], [out, *xs], strict=True)):
        return
    try:
        run(*([] if prim.kind == "elementwise" else [g]), y, *kept)
    except ValueError as e:
        raise wrong(prim, f"{name} reads a value that reads={tuple(map(tuple, prim.reads))!r} does not name") from e


def _check_linear(prim: Primitive, x: Any, params: dict[str, Any], y: Any) -> None:
    """Compare the kernel at -2 x, and the inner products of the transpose, with those of a linear op."""
    if x.dtype.kind != "f" or y.dtype.kind != "f":
        return
    if not np.array_equal(prim.kernel(x * -2, **params), y * -2, equal_nan=True):
        raise wrong(prim, "the kernel is not linear: kernel(-2 * x) is not -2 * kernel(x)")
    g = np.random.default_rng(2).integers(1, 9, y.shape).astype(y.dtype)
    back = np.asarray(prim.vjp[0](NUMPY, g, x, **params))
    if back.shape != x.shape:
        return  # `_check_shape` reports this
    there, here, size = (float(np.sum(v, dtype=np.float64)) for v in (g * y, back * x, np.abs(g * y)))
    if not abs(there - here) <= 1e-3 * size:
        raise wrong(prim, "the transpose is not that of the kernel: sum(g * kernel(x)) is not sum(transpose(g) * x)")


def _check_shape(prim: Primitive, what: str, made: Any, shape: tuple[int, ...]) -> None:
    if made is not None and _shape_of(made) != shape:
        raise wrong(prim, f"{what} gives the shape {_shape_of(made)}, not {shape}")


def _check_dtype(prim: Primitive, what: str, made: Any, dtype: Any) -> None:
    """Raise if a rule makes numbers of a wider dtype, because cotangents have the dtype of their values."""
    if dtype.kind == "f" and made is not None and (found := _bare(made).dtype) != dtype:
        raise wrong(prim, f"{what} makes {found} of {dtype}; it has to keep the dtype")


def _shape_of(made: Any) -> tuple[int, ...]:
    return np.shape(_bare(made))
