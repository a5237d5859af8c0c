"""The text of tensors and variables, and `print` with TensorFlow's number format.

Tensors and variables are recognised by their `numpy` method, because this file cannot import their classes.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from gtape import nest
from gtape.base import late
from gtape.base.file_errors import translated
from gtape.base.imports import library
from gtape.base.shown import shown

__all__ = ["format_value", "plain_text", "print_v2", "tensor_repr", "tensor_str", "variable_repr"]

SHOWS = True  # values are read here for people, as `gtape.recording.trace` notes


def plain_text(x: Any) -> str:
    """The text of a tensor's value alone."""
    return str(x.numpy())


def _shape_text(value: Any) -> str:
    return str(np.shape(value))


def _on_own_line(text: str) -> str:
    return "\n" + text if "\n" in text else text


def _repr_text(value: Any) -> str:
    # NumPy scalars as Python prints their value: 6.0 instead of np.float64(6.0).
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    return _on_own_line(repr(value.item() if isinstance(value, np.generic) else value))


def tensor_repr(value: Any, dtype_name: str) -> str:
    """The repr of a tensor with this value.

    >>> tensor_repr(np.float32(6.0), "float32")
    '<gtape.Tensor: shape=(), dtype=float32, numpy=6.0>'
    """
    return f"<gtape.Tensor: shape={_shape_text(value)}, dtype={dtype_name}, numpy={_repr_text(value)}>"


def tensor_str(value: Any, dtype_name: str) -> str:
    """The str of a tensor with this value.

    >>> tensor_str(np.float32(6.0), "float32")
    'gtape.Tensor(6.0, shape=(), dtype=float32)'
    """
    return f"gtape.Tensor({_on_own_line(str(value))}, shape={_shape_text(value)}, dtype={dtype_name})"


def variable_repr(name: str, value: Any, dtype_name: str | None = None, shape: Any = None) -> str:
    """The repr and the str of a variable with this full name and value.

    By default the dtype is that of the value, and `shape`, the shape of all values that the variable may hold, is that
    of the value.

    >>> variable_repr("w:0", np.array([1.0, 2.0], np.float32))
    "<gtape.Variable 'w:0' shape=(2,) dtype=float32, numpy=array([1., 2.], dtype=float32)>"
    """
    if dtype_name is None:
        from gtape.dtypes import as_dtype

        dtype_name = as_dtype(np.asarray(value).dtype).name
    text = _shape_text(value) if shape is None else str(shape)
    return f"<gtape.Variable {name!r} shape={text} dtype={dtype_name}, numpy={_repr_text(value)}>"


def _float_text(x: Any, narrow: type, short: int, long: int) -> str:
    # As in TensorFlow: first the digits that every decimal number keeps, then those that every float keeps.
    if x != x:
        return "-nan" if np.signbit(x) else "nan"
    text = f"{float(x):.{short}g}"
    with np.errstate(over="ignore"):
        same = narrow(text) == x
    return text if same else f"{float(x):.{long}g}"


def _real_formatter(dtype: np.dtype[Any]) -> Callable[[Any], str]:
    if dtype.itemsize <= 4:
        return lambda x: _float_text(np.float32(x), np.float32, 6, 9)
    return lambda x: _float_text(x, float, 15, 17)


def _formatter(dtype: np.dtype[Any]) -> Callable[[Any], str]:
    if dtype.kind == "f":
        return _real_formatter(dtype)
    if dtype.kind == "c":
        part = _real_formatter(np.dtype(f"f{dtype.itemsize // 2}"))

        def complex_text(z: Any) -> str:
            imag = part(z.imag)
            return f"({part(z.real)}{imag if imag.startswith('-') else '+' + imag}j)"

        return complex_text
    if dtype.kind == "b":
        return lambda x: "1" if x else "0"
    if dtype.kind in "iu":
        return str
    return lambda x: '"' + (x.decode("utf-8", "backslashreplace") if isinstance(x, bytes) else str(x)) + '"'


def format_value(value: Any, summarize: int = 3) -> str:
    """The text of one array as `print_v2` writes it: rows on separate lines, numbers as short as in TensorFlow.

    `summarize` is the number of entries to show at either end of each axis. -1 shows all.

    >>> format_value([0.0, 0.6]), format_value(range(10))
    ('[0 0.6]', '[0 1 2 ... 7 8 9]')
    """
    array = np.asarray(value)
    one = _formatter(array.dtype)
    if array.ndim == 0:
        return one(array[()])
    rank = array.ndim

    def axis(part: Any, depth: int) -> str:
        if depth == rank:
            return one(part)
        gap = " " if depth == rank - 1 else "\n" * (rank - depth - 1) + " " * (depth + 1)
        n = len(part)
        if summarize < 0 or n <= 2 * summarize:
            pieces = [axis(p, depth + 1) for p in part]
        else:
            head = [axis(p, depth + 1) for p in part[:summarize]]
            tail = [axis(p, depth + 1) for p in part[n - summarize :]]
            pieces = [*head, "...", *tail]
        return "[" + gap.join(pieces) + "]"

    return axis(array, 0)


def _is_tensor(x: Any) -> bool:
    return callable(getattr(x, "numpy", None)) and hasattr(x, "dtype")


_HOLE = "{}"


def _pretty(structure: Any) -> str:
    pformat = library("pprint").pformat  # not above, because few programs print

    try:
        text: str = pformat(structure)
    except RecursionError:  # this function needs more calls for a level than `flatten`
        raise nest.too_deep(structure) from None
    return text


def _free_placeholder(inputs: tuple[Any, ...], sep: str) -> str:
    # A placeholder that does not occur in the fixed text, so that every occurrence stands for a tensor.
    fixed = sep + " ".join(_pretty(nest.map_structure(lambda x: "" if _is_tensor(x) else x, i)) for i in inputs)
    placeholder, n = _HOLE, 0
    while placeholder in fixed:
        placeholder, n = f"{{{n}}}", n + 1
    return placeholder


def _template(item: Any, placeholder: str, texts: list[str], summarize: int) -> str:
    if isinstance(item, str):
        return item
    leaves = []
    for leaf in nest.flatten(item):
        if _is_tensor(leaf):
            texts.append(format_value(leaf.numpy(), summarize))
            leaves.append(placeholder)
        else:
            leaves.append(leaf)
    # pprint sorts the keys of plain dicts as `flatten` does. Keys of an OrderedDict were sorted before.
    return _pretty(nest.pack_sequence_as(item, leaves)).replace(f"'{placeholder}'", placeholder)


def _sort_ordered(item: Any) -> Any:
    return OrderedDict(sorted(item.items())) if isinstance(item, OrderedDict) else item


def print_v2(
    *inputs: Any, output_stream: Any = None, summarize: int | None = 3, sep: str = " ", end: str = "\n",
    name: str | None = None,
) -> None:  # fmt: skip
    """Print tensors, structures of tensors and anything else.

    Parameters
    ----------
    *inputs : object
        The values to print. Structures keep their brackets.
    output_stream : file object or str, optional
        The destination: any object with `write`, or ``"file://"`` and a path to append to. By default ``sys.stderr``.
    summarize : int, optional
        The number of entries to show at either end of each axis. -1 shows all.
    sep : str, optional
        The text between the inputs.
    end : str, optional
        The text at the end.

    Returns
    -------
    None

    Raises
    ------
    ValueError
        If `output_stream` is another object, or `summarize` is below -1.
    gtape.errors.OpError
        If the file cannot be written. The class is TensorFlow's for the cause, such as NotFoundError for a missing
        folder.

    Examples
    --------
    >>> import sys
    >>> import gtape as tf
    >>> tf.print("x =", [tf.constant([0.0, 0.6]), tf.constant(2.0)], output_stream=sys.stdout)
    x = [[0 0.6], 2]
    """
    late.refuse_in_traced_calls("prints")
    for word, value in (("sep", sep), ("end", end)):
        if not isinstance(value, str):
            raise TypeError(f"print: `{word}` must be a string, not {shown(value)}")
    if not isinstance(summarize, int | np.integer | None):
        raise TypeError(f"print: `summarize` must be a whole number, not {shown(summarize)}")
    if summarize is None:
        summarize = 3
    if summarize < -1:
        raise ValueError(f"summarize must be -1 (show all) or more, got {summarize}")
    if len(inputs) == 1 and _is_tensor(inputs[0]) and isinstance(scalar := inputs[0].numpy(), (str, bytes)):
        text = scalar if isinstance(scalar, str) else scalar.decode("utf-8", "backslashreplace")
    else:
        inputs = tuple(_sort_ordered(i) for i in inputs)
        placeholder = _free_placeholder(inputs, sep)
        texts: list[str] = []
        fixed = sep.join(_template(i, placeholder, texts, summarize) for i in inputs).split(placeholder)
        text = fixed[0] + "".join(t + rest for t, rest in zip(texts, fixed[1:], strict=True))
    _write(text + end, output_stream)


def _write(text: str, stream: Any) -> None:
    if stream is None:
        stream = sys.stderr
    if isinstance(stream, str) and stream.startswith("file://"):
        path = stream.removeprefix("file://")
        with translated(path, "written"), open(path, "a", encoding="utf-8") as file:
            file.write(text)
    elif callable(getattr(stream, "write", None)):
        stream.write(text)
    else:
        raise ValueError(
            f"Unknown output stream {shown(stream)}: pass an open file such as sys.stdout, or 'file://' and a path"
        )
