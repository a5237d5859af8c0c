"""``gtape table``: exact derivatives of one op at points, to copy into the tests of other projects."""

from __future__ import annotations

import csv
import inspect
import io
import itertools
import json
import math
import os
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from gtape import errors
from gtape.base.escaping import json_data, plain
from gtape.declare.primitives import REGISTRY
from gtape.namespaces import catalogue
from gtape.storage.files import open_regular
from gtape.tapes.control import stop_gradient
from gtape.tapes.tape import GradientTape
from gtape.tensors.tensor import constant, is_tensor
from gtape.verify.command.output import Usage, versions
from gtape.verify.judging.api import ExactNumber, exact
from gtape.verify.verdicts.naming import primitives_named

__all__ = ["FORMATS", "Row", "Table", "format_of", "made", "points_of"]

_DIGITS = 40  # shown in a table
_HIGHER = (100, 400, 1000)  # digits to try if 40 leave open which float is the nearest
_MOST_POINTS = 100_000
_MOST_BYTES = 10_000_000  # of a file of points


class Row(NamedTuple):
    """One derivative at one point."""

    order: int
    point: tuple[float, ...]
    derivative: float  # the nearest float of the dtype
    exact: str  # 40 digits
    radius: str  # bounds the distance from these digits to the true number


class Table(NamedTuple):
    """The derivatives of one op by one argument."""

    op: str
    argument: int
    dtype: str
    rows: list[Row]

    def as_dict(self) -> dict[str, Any]:
        """The table as plain data, floats as hexadecimal text."""
        rows = [
            {
                "order": r.order, "point": [_hex(x) for x in r.point], "derivative": _hex(r.derivative),
                "exact": r.exact, "radius": r.radius,
            }
            for r in self.rows
        ]  # fmt: skip
        return {"op": self.op, "argument": self.argument, "dtype": self.dtype, "rows": rows}


# ------------------------------------------------------------------------------------------- points


def points_of(texts: Sequence[str], dtype: Any) -> list[tuple[float, ...]]:
    """The points that texts stand for, rounded to a dtype.

    Parameters
    ----------
    texts : sequence of str
        Each text is a number in decimal or hexadecimal notation; a range ``start:stop:count``; several of both with
        commas between them, one for each argument; or the name of a file with one of these on each line.
    dtype : floating dtype

    Raises
    ------
    Usage
        For anything else.

    Examples
    --------
    >>> import numpy as np
    >>> points_of(["0x1p-1", "0:1:3"], np.float64)
    [(0.5,), (0.0,), (0.5,), (1.0,)]
    >>> points_of(["2,3:4:2"], np.float64)
    [(2.0, 3.0), (2.0, 4.0)]
    """
    found: list[tuple[float, ...]] = []
    for text in texts:
        points = _points(text.strip(), dtype)
        if points is None:
            for number, line in enumerate(_lines(text.strip()), 1):
                words = re.sub(r"[\s,]+", ",", line.partition("#")[0].strip())
                points = _points(words, dtype) if words else []
                if points is None:
                    raise Usage(f"{plain(text.strip())}, line {number}: {plain(line[:60])!r} is not a point: {_FORM}")
                found += points
        else:
            found += points
        if len(found) > _MOST_POINTS:
            raise Usage(f"at most {_MOST_POINTS:,} points are possible")
    if not found:
        raise Usage(f"there are no points: {_FORM}")
    if len({len(p) for p in found}) > 1:
        raise Usage("some points have more arguments than others")
    return found


_FORM = "write numbers, start:stop:count, or the name of a file of these; put commas between the arguments of one point"


def _points(text: str, dtype: Any) -> list[tuple[float, ...]] | None:
    """The points of one text; None if the text is not a point."""
    axes = []
    for part in text.split(","):
        values = _values(part.split(":"))
        if values is None:
            return None
        axes.append([_in_dtype(x, dtype, part if len(values) == 1 else repr(x)) for x in values])
    if math.prod(len(axis) for axis in axes) > _MOST_POINTS:
        raise Usage(f"{plain(text)}: at most {_MOST_POINTS:,} points are possible")
    return list(itertools.product(*axes))


def _values(parts: list[str]) -> list[float] | None:
    try:
        ends = [_number(part) for part in parts[:2]]
        if len(parts) == 1:
            return ends
        count = int(parts[2]) if len(parts) == 3 else 0
    except ValueError:
        return None
    if not 1 <= count <= _MOST_POINTS:
        raise Usage(
            f"{plain(':'.join(parts))} is not a range: write start:stop:count, with a count from 1 to {_MOST_POINTS:,}"
        )
    with np.errstate(over="ignore"):
        return [float(x) for x in np.linspace(ends[0], ends[-1], count)]


def _number(text: str) -> float:
    return float.fromhex(text) if "x" in text.lower() else float(text)


def _in_dtype(x: float, dtype: Any, text: str) -> float:
    with np.errstate(over="ignore"):
        found = float(np.dtype(dtype).type(x))
    if not math.isfinite(found):
        raise Usage(f"the point {plain(text)} is not finite in {np.dtype(dtype).name}")
    return found


def _lines(path: str) -> list[str]:
    try:
        with open_regular(path) as f:
            data = f.read(_MOST_BYTES + 1)
    except (OSError, ValueError) as e:
        why = getattr(e, "strerror", None) or e
        raise Usage(f"{plain(path)!r} is neither a point nor a file that can be read ({why}): {_FORM}") from None
    if len(data) > _MOST_BYTES:
        raise Usage(f"{plain(path)} has more than {_MOST_BYTES:,} bytes")
    return data.decode("utf-8", "replace").splitlines()


# -------------------------------------------------------------------------------------- derivatives


def made(
    name: str,
    points: Sequence[tuple[float, ...]],
    orders: Sequence[int],
    *,
    argument: int = 0,
    dtype: str = "float64",
    progress: Callable[[int, int, str], None] = lambda done, total, what: None,
) -> Table:
    """The table of an op.

    Parameters
    ----------
    name : str
        An op or a function, such as "tanh" or "tf.math.betainc".
    points : sequence of tuples of float
        The arguments.
    orders : sequence of int
        From 0, the value, to 8.
    argument : int
        The argument to differentiate by, counted from 0.
    dtype : "float64" or "float32"
    progress : callable
        Takes the number of finished rows, the number of all rows and the name.

    Raises
    ------
    Usage
        For an unknown op, or an argument that the op lacks.
    ArithmeticError
        If there is no derivative at a point, or if it cannot be decided.
    """
    short = name.rsplit(".", 1)[-1]
    try:
        primitives = primitives_named([name])
    except ValueError as e:
        raise Usage(str(e)) from None
    if not any(REGISTRY[p].differentiable for p in primitives):
        raise Usage(f"{plain(name)} is not differentiable")
    function = catalogue.find(short) or REGISTRY[short].function
    arguments = len(points[0])
    if argument >= arguments:
        raise Usage(f"--argument {argument}: the points have {arguments} argument{'s' if arguments > 1 else ''}")
    for point in points:
        try:
            _check(function, point, argument, np.dtype(dtype))
        except ArithmeticError as e:
            raise ArithmeticError(f"{plain(short)} at {_shown(point)}: {e}") from None
        except (TypeError, ValueError, errors.OpError) as e:
            raise Usage(f"{plain(short)} at {_shown(point)}: {e}") from None
    rows: list[Row] = []
    for order, point in itertools.product(orders, points):
        progress(len(rows), len(orders) * len(points), short)
        try:
            rows.append(_row(function, point, argument, order, np.dtype(dtype)))
        except ArithmeticError as e:
            raise ArithmeticError(f"{plain(short)}, order {order}, at {_shown(point)}: {e}") from None
    return Table(short, argument, dtype, rows)


def _check(function: Any, point: tuple[float, ...], argument: int, dtype: Any) -> None:
    """Raise unless the function is a differentiable function of numbers, defined at the point."""
    inputs = [constant(np.asarray(x, dtype)) for x in point]
    if "name" in _parameters(function, inputs):
        raise ValueError(f"the point has {len(point)} arguments, one more than the function takes")
    with np.errstate(all="ignore"), GradientTape() as tape:
        tape.watch(inputs[argument])
        y = function(*inputs)
    if not is_tensor(y) or y.shape.rank != 0:
        raise ValueError("gtape table takes functions of numbers whose result is one number")
    with np.errstate(all="ignore"):
        connected = tape.gradient(y, inputs[argument]) is not None
    if not connected:
        raise ValueError(f"there is no derivative by argument {argument}")
    if np.isnan(y.numpy()):
        raise ArithmeticError("the value is NaN, because the point is outside of the domain")


def _parameters(function: Any, inputs: Sequence[Any]) -> Collection[str]:
    """The names of the parameters that take the inputs; none if only a call can show that the inputs do not fit."""
    try:
        return inspect.signature(function).bind(*inputs).arguments
    except (TypeError, ValueError):
        return ()


def _shown(point: tuple[float, ...]) -> str:
    return ",".join(map(repr, point))


def _row(function: Any, point: tuple[float, ...], argument: int, order: int, dtype: Any) -> Row:
    inputs = [np.asarray(x, dtype) for x in point]

    def of_one(x: Any) -> Any:
        return function(*inputs[:argument], x, *inputs[argument + 1 :])

    def number(digits: int) -> ExactNumber:
        found: Any
        if order:
            found = exact(of_one, inputs[argument], order=order, digits=digits)
        else:
            # The value is the derivative of c * f(x) by c. It is held still, because f may have no derivative by x.
            one = np.asarray(1, dtype)
            found = exact(lambda x, c: stop_gradient(of_one(x)) * c, inputs[argument], one, digits=digits)[1]
        result: ExactNumber = found[()]
        return result

    try:
        first = number(_DIGITS)
    except ArithmeticError:
        value = math.nan if order else float(of_one(constant(inputs[argument])))
        if math.isinf(value):
            raise ArithmeticError(f"the value is {value}, which has no digits") from None
        raise
    closest = first.nearest(dtype)
    for digits in _HIGHER:
        if closest is not None:
            break
        closest = number(digits).nearest(dtype)
    if closest is None:
        raise ArithmeticError(f"the nearest {dtype.name} stays undecided with {_HIGHER[-1]} digits")
    return Row(order, point, closest, str(first), _bound(first))


def _bound(number: ExactNumber) -> str:
    """A bound on the error of the digits, as text, because it may lie beyond the floats."""
    r = number.radius
    if math.isfinite(r):
        text = f"{r:.3e}"
        return text if float(text) >= r else f"{r * 1.001:.3e}"
    # The digits are right to the last one, give or take one.
    mantissa, _, exponent = number.partition("e")
    return f"{abs(float(mantissa)) * 1.1:.3f}e{int(exponent) + 1 - _DIGITS:+d}"


# ------------------------------------------------------------------------------------------ formats


def _hex(x: float) -> str:
    """A float in hexadecimal notation without zeros at the end.

    Examples
    --------
    >>> _hex(0.5), _hex(-0.1), _hex(float("inf"))
    ('0x1p-1', '-0x1.999999999999ap-4', 'inf')
    """
    return re.sub(r"\.?0*p", "p", x.hex(), count=1) if math.isfinite(x) else repr(x)


def _title(table: Table) -> str:
    orders = ", ".join(str(k) for k in dict.fromkeys(r.order for r in table.rows))
    return f"{table.op}: derivatives of order {orders} by argument {table.argument}, by gtape {versions()['gtape']}"


def _csv(table: Table) -> str:
    out = io.StringIO()
    write = csv.writer(out, lineterminator="\n").writerow
    names = [f"x{i}" for i in range(len(table.rows[0].point))]
    write(["op", "argument", "dtype", "order", *names, "derivative", "exact", "radius"])
    for r in table.rows:
        point = [_hex(x) for x in r.point]
        write([table.op, table.argument, table.dtype, r.order, *point, _hex(r.derivative), r.exact, r.radius])
    return out.getvalue()


def _json(table: Table) -> str:
    return json.dumps(json_data({"versions": versions(), **table.as_dict()}), indent=1, allow_nan=False) + "\n"


def _c(table: Table) -> str:
    kind, suffix = ("float", "f") if table.dtype == "float32" else ("double", "")

    def literal(x: float) -> str:
        return _hex(x) + suffix if math.isfinite(x) else "-INFINITY" if x < 0 else "INFINITY"

    name = re.sub(r"\W", "_", f"gtape_{table.op}_{table.argument}_{table.dtype}", flags=re.ASCII)
    lines = [
        f"/* {_title(table)}. */",
        f"#ifndef {name.upper()}_H",
        f"#define {name.upper()}_H",
        "",
        "#include <math.h>",
        "",
        "#ifdef __GNUC__",
        "__attribute__((unused))",
        "#endif",
        "static const struct {",
        "    int order;",
        f"    {kind} point[{len(table.rows[0].point)}];",
        f"    {kind} derivative;    /* the nearest {kind} */",
        "    const char *exact;    /* 40 digits */",
        "    const char *radius;   /* bounds the error of the digits */",
        f"}} {name}[] = {{",
    ]
    for r in table.rows:
        point = ", ".join(map(literal, r.point))
        lines.append(f'    {{{r.order}, {{{point}}}, {literal(r.derivative)}, "{r.exact}", "{r.radius}"}},')
    return "\n".join([*lines, "};", "", "#endif", ""])


def _python(table: Table) -> str:
    def literal(x: float) -> str:
        return f'float.fromhex("{_hex(x)}")'

    lines = [
        f'"""{_title(table)}."""',
        "",
        f'OP, ARGUMENT, DTYPE = "{table.op}", {table.argument}, "{table.dtype}"',
        "",
        "# order, point, the nearest float, 40 digits, a bound of the error of these digits",
        "ROWS = [",
    ]
    for r in table.rows:
        point = ", ".join(map(literal, r.point))
        lines.append(f'    ({r.order}, ({point},), {literal(r.derivative)}, "{r.exact}", "{r.radius}"),')
    return "\n".join([*lines, "]", ""])


FORMATS: dict[str, Callable[[Table], str]] = {"csv": _csv, "json": _json, "c": _c, "python": _python}
_SUFFIXES = {".csv": "csv", ".json": "json", ".h": "c", ".py": "python"}


def format_of(given: str | None, path: str | None) -> str:
    """The format that an option or the ending of the file's name chooses; CSV on standard output by default.

    Raises
    ------
    Usage
        If no option chooses, and no format has the ending.

    Examples
    --------
    >>> format_of(None, "tanh.h"), format_of("json", "tanh.h"), format_of(None, None)
    ('c', 'json', 'csv')
    """
    if given or not path:
        return given or "csv"
    found = _SUFFIXES.get(os.path.splitext(path)[1].lower())
    if found is None:
        raise Usage(f"{plain(path)}: the ending says no format: use {', '.join(_SUFFIXES)}, or --format")
    return found
