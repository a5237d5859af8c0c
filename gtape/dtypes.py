"""Element types with TensorFlow's names, equal to the NumPy types that they stand for."""

from __future__ import annotations

import builtins
import warnings
from typing import Any

import numpy as np

from gtape.base import late
from gtape.base.imports import library
from gtape.base.shown import shown

__all__ = [
    "DType", "as_dtype", "bool", "complex64", "complex128", "double", "float16", "float32", "float64", "half", "int8",
    "int16", "int32", "int64", "string", "uint8", "uint16", "uint32", "uint64",
]  # fmt: skip

__dir__ = __all__.copy  # the names for `dir`, which sorts them


class DType:
    """The type of a tensor's elements.

    This module makes one object for each type. `as_dtype` finds the object.

    Attributes
    ----------
    name : str
    as_numpy_dtype : type
        The NumPy type.
    is_floating, is_integer, is_unsigned, is_complex, is_bool : bool

    Examples
    --------
    >>> import numpy as np
    >>> from gtape.dtypes import float32
    >>> float32
    gtape.float32
    >>> float32 == np.float32, float32 == "float32", float32.is_floating
    (True, True, True)
    """

    __slots__ = ("as_numpy_dtype", "dtype", "is_bool", "is_complex", "is_floating", "is_integer", "is_unsigned", "name")

    def __init__(self, name: str, dtype: np.dtype[Any]) -> None:
        if not isinstance(dtype, np.dtype):
            raise TypeError(
                f"DType(name, dtype) takes a NumPy dtype, not {shown(dtype)}; gtape.as_dtype finds the DType of it"
            )
        kind = dtype.kind
        self.name = name
        # NumPy reads this attribute, so that a DType serves as a NumPy dtype.
        self.dtype = dtype
        self.as_numpy_dtype: Any = dtype.type
        self.is_floating = kind == "f" or name == "bfloat16"
        self.is_integer = kind in "iu"
        self.is_unsigned = kind == "u"
        self.is_complex = kind == "c"
        self.is_bool = kind == "b"

    @property
    def size(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def base_dtype(self) -> DType:
        """The type itself; gtape has no reference types."""
        return self

    @property
    def real_dtype(self) -> DType:
        """The type of the real part: float32 for complex64, float64 for complex128, otherwise the type itself."""
        return {"complex64": float32, "complex128": float64}.get(self.name, self)

    @property
    def is_numeric(self) -> builtins.bool:
        """Whether the values are numbers."""
        return self.is_floating or self.is_integer or self.is_complex

    @property
    def min(self) -> Any:
        """The least finite value; TypeError for complex numbers and strings, which have no order."""
        return self.limits[0]

    @property
    def max(self) -> Any:
        """The greatest finite value; TypeError as for `min`."""
        return self.limits[1]

    @property
    def limits(self) -> tuple[Any, Any]:
        """The least and the greatest finite value, as a tuple."""
        if self.name == "bfloat16":
            ml_dtypes = library("ml_dtypes")

            info: Any = ml_dtypes.finfo(self.dtype)
            return info.min, info.max
        if self.is_floating:
            info = np.finfo(self.dtype)
            return info.min, info.max
        if self.is_integer:
            bounds = np.iinfo(self.dtype)
            return bounds.min, bounds.max
        if self.is_bool:
            return False, True
        raise TypeError(f"{self!r} has no least and greatest value, because its values have no order")

    def is_compatible_with(self, other: Any) -> builtins.bool:
        """Whether the types are equal."""
        return self is as_dtype(other)

    def __eq__(self, other: object) -> builtins.bool:
        if other is self:
            return True
        if other is None:
            return False
        try:
            return as_dtype(other) is self
        except TypeError:
            return False

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __repr__(self) -> str:
        return f"gtape.{self.name}"

    def __str__(self) -> str:
        return f"<dtype: {self.name!r}>"

    def __reduce__(self) -> Any:
        return (as_dtype, (self.name,))


float16 = half = DType("float16", np.dtype(np.float16))
float32 = DType("float32", np.dtype(np.float32))
float64 = double = DType("float64", np.dtype(np.float64))
complex64 = DType("complex64", np.dtype(np.complex64))
complex128 = DType("complex128", np.dtype(np.complex128))
int8 = DType("int8", np.dtype(np.int8))
int16 = DType("int16", np.dtype(np.int16))
int32 = DType("int32", np.dtype(np.int32))
int64 = DType("int64", np.dtype(np.int64))
uint8 = DType("uint8", np.dtype(np.uint8))
uint16 = DType("uint16", np.dtype(np.uint16))
uint32 = DType("uint32", np.dtype(np.uint32))
uint64 = DType("uint64", np.dtype(np.uint64))
bool = DType("bool", np.dtype(np.bool_))
string = DType("string", np.dtype(object))

_ALL = (
    float16, float32, float64, complex64, complex128,
    int8, int16, int32, int64, uint8, uint16, uint32, uint64, bool, string,
)  # fmt: skip
_NAMES: dict[str, DType] = {d.name: d for d in _ALL}
_FOUND: dict[Any, DType] = {
    **_NAMES,
    **{d.dtype: d for d in _ALL},
    **{d.as_numpy_dtype: d for d in _ALL},
    # Element types by TensorFlow's names and by Python's own types. A Python float means float32.
    "half": float16,
    "float": float32,
    "double": float64,
    "str": string,
    builtins.float: float32,
    builtins.bool: bool,
    object: string,
    str: string,
    bytes: string,
}


def as_dtype(type_value: Any) -> DType:
    """Find the element type for a name or another library's type.

    Parameters
    ----------
    type_value : DType, numpy dtype or scalar type, Python type or str
        Python's ``float`` is float32, as in TensorFlow; ``int`` is int64, ``complex`` complex128.

    Returns
    -------
    DType

    Raises
    ------
    TypeError
        If gtape has no such type.

    Examples
    --------
    >>> import numpy as np
    >>> from gtape.dtypes import as_dtype
    >>> as_dtype("int32"), as_dtype(np.float64), as_dtype(float)
    (gtape.int32, gtape.float64, gtape.float32)
    """
    if type_value.__class__ is DType:
        return type_value
    try:
        return _FOUND[type_value]
    except (KeyError, TypeError, ValueError):  # unknown, or unhashable; NumPy's times raise ValueError
        pass
    if isinstance(type_value, np.ndarray):
        raise TypeError(
            f"Cannot convert an array of {type_value.dtype} to a gtape DType; its dtype is {type_value.dtype}"
        )
    names = (type_value, getattr(type_value, "name", ""), getattr(type_value, "__name__", ""))
    if "bfloat16" in [n for n in names if isinstance(n, str)]:
        return _bfloat16()
    if type_value is not None:  # NumPy reads None as float64
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # for abbreviations that NumPy deprecates
                dtype = np.dtype(type_value)
        except (TypeError, ValueError, Warning, RecursionError):  # for lists, dicts and strings
            dtype = None
        if dtype is not None:
            found = string if dtype.kind in "SUT" else _NAMES.get(dtype.name)
            if found is not None:
                return found
    raise TypeError(f"Cannot convert {shown(type_value)} to a gtape DType; the types are {', '.join(_NAMES)}")


def _bfloat16() -> DType:
    """The bfloat16 of ml_dtypes, which is optional; TypeError if ml_dtypes is not installed."""
    found = _NAMES.get("bfloat16")
    if found is None:
        try:
            ml_dtypes = library("ml_dtypes")
        except ImportError:
            raise TypeError(
                "bfloat16 needs the package ml_dtypes, which is not installed: pip install ml_dtypes, or use "
                "gtape.float16"
            ) from None
        found = _NAMES["bfloat16"] = DType("bfloat16", np.dtype(ml_dtypes.bfloat16))
        for key in ("bfloat16", found.dtype, found.as_numpy_dtype):
            _FOUND[key] = found
    return found


def __getattr__(name: str) -> Any:
    if name == "bfloat16":
        try:
            return _bfloat16()
        except TypeError as e:
            raise AttributeError(f"module 'gtape' has no attribute 'bfloat16': {e}") from None
    if name in late.places.ALSO_IN["dtypes"]:  # TensorFlow has the casts here, too
        return late.find_op(name)
    raise AttributeError(f"module 'gtape.dtypes' has no attribute {name!r}")


def np_dtype(type_value: Any) -> np.dtype[Any]:
    """The NumPy dtype for an argument of `as_dtype`.

    >>> np_dtype("float32")
    dtype('float32')
    """
    return as_dtype(type_value).dtype
