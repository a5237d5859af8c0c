"""Tensor: a value and the record of the op that made it.

The value of a float64 scalar is a Python float, because arithmetic and `math` are several times faster than with NumPy
scalars. Every other value is a NumPy array or scalar.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from gtape import dtypes, errors
from gtape.base import late
from gtape.base.layout import FLOAT, Layout, make_layout
from gtape.base.python_values import adapted, array_from_python, cast_number, copied, exhausted, own_dtype
from gtape.base.shown import shown
from gtape.base.tensor_shape import TensorShape
from gtape.recording import record
from gtape.recording.known_numbers import TENSORS
from gtape.recording.trace import (
    note_branch,
    note_conversion,
    note_reading,
    note_return,
    note_start,
    recording_elsewhere,
)
from gtape.tensors.axes import static_ints

__all__ = [
    "PYTHON_NUMBERS", "PublicTensor", "Tensor", "anchor", "announce", "as_operand", "constant", "convert_to_tensor",
    "is_tensor", "listener", "number", "number_beside", "number_read", "read_from_variables", "wrap",
]  # fmt: skip


class Operators:
    """The common part of tensors and variables: Python's operators, and properties of the value.

    The operators here are for type checkers. `gtape.tensors.operators` installs the functions.
    """

    __slots__ = ()

    _layout: Layout

    if TYPE_CHECKING:

        def _with(self, other: Any) -> Tensor: ...
        def _alone(self) -> Tensor: ...

        __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _with
        __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __matmul__ = __rmatmul__ = _with
        __lt__ = __le__ = __gt__ = __ge__ = __and__ = __or__ = __xor__ = _with
        __neg__ = __abs__ = __invert__ = _alone

    @property
    def dtype(self) -> dtypes.DType:
        """The element type."""
        return dtypes.as_dtype(self._layout.dtype)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._layout.shape)

    @property
    def device(self) -> str:
        """The device of the value: always the CPU."""
        return "/job:localhost/replica:0/task:0/device:CPU:0"

    def ref(self) -> Any:
        """A hashable reference to this object, for use as a key of a dict."""
        from gtape.base.reference import Reference

        return Reference(self)


class PublicTensor(Operators):
    """An immutable array that tapes record.

    `constant`, `convert_to_tensor` and ops make tensors. The class cannot be called.

    Examples
    --------
    >>> import gtape as tf
    >>> x = tf.constant([1.0, 2.0])
    >>> (x * x).numpy()
    array([1., 4.], dtype=float32)
    """

    __slots__ = ("__weakref__", "_layout", "_record", "_value")

    _value: Any
    _layout: Layout
    _record: Any

    # NumPy arrays on the left (ndarray * tensor) leave the operation to the tensor.
    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise TypeError("a Tensor is made by gtape.constant, gtape.convert_to_tensor or an op, not by its class")

    @property
    def shape(self) -> TensorShape:
        """The static shape, which can be compared with tuples and lists."""
        return self._layout.tensor_shape

    def get_shape(self) -> TensorShape:
        """The static shape."""
        return self._layout.tensor_shape

    def set_shape(self, shape: Any) -> None:
        """Raise a ValueError unless `shape` is compatible with the tensor's. TensorFlow has the method for graphs."""
        if not self._layout.tensor_shape.is_compatible_with(shape):
            raise ValueError(f"Tensor's shape {self.shape} is not compatible with supplied shape {shape}.")

    def numpy(self) -> Any:
        """The value as a NumPy scalar or a fresh array."""
        v = self._value
        if v.__class__ is float:
            v = np.float64(v)
        elif isinstance(v, np.ndarray):
            try:
                v = v.copy() if v.ndim else v[()]
            except MemoryError as e:
                raise exhausted(f"an array of shape {self.shape}", e) from None
        return v if self._record is None else self._left(v)

    def _left(self, made: Any) -> Any:
        """The converted value. A check notes that the value leaves the tape."""
        if not record.get_stack().trace:
            return note_conversion(self, made) if recording_elsewhere(self) else made
        if listener.get() is None:
            listener.set(_watch_for_returns)
        return note_conversion(self, made)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError("a gtape tensor is immutable and is only handed out as a copy; use copy=True")
        if self._layout.complex and dtype is not None and np.dtype(dtype).kind not in "cO":
            raise TypeError(
                f"a {self.dtype.name} tensor as an array of {np.dtype(dtype)} would lose its imaginary part"
            )
        made = np.array(self._value, dtype=dtype)
        return made if self._record is None else self._left(made)

    def __dlpack__(self, *, copy: bool | None = None, **options: Any) -> Any:
        if copy is False:
            raise BufferError("a gtape tensor is immutable and is only handed out as a copy; use copy=True")
        return self.__array__().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # kDLCPU

    def __repr__(self) -> str:
        from gtape.base import printing

        return printing.tensor_repr(self.numpy(), self.dtype.name)

    def __str__(self) -> str:
        from gtape.base import printing

        return printing.tensor_str(self.numpy(), self.dtype.name)

    def __format__(self, spec: str) -> str:
        from gtape.base import printing

        return format(self.numpy(), spec) if spec else printing.plain_text(self)

    def _scalar(self, what: type, name: str) -> Any:
        if self._layout.shape != ():
            raise TypeError(
                f"only a scalar tensor can be converted to {name}; this one has shape {self._layout.tensor_shape}"
            )
        value = self._value
        if self._layout.complex and what is not complex:  # NumPy would warn and cut off the imaginary part
            raise TypeError(f"a complex tensor cannot be converted to {name}; take gtape.math.real or imag first")
        try:
            made = what(value)
            return made if self._record is None else self._left(made)
        except (TypeError, ValueError, OverflowError) as e:
            raise type(e)(f"the {self.dtype.name} tensor {shown(value)} cannot be converted to {name}: {e}") from None

    def __float__(self) -> float:
        result: float = self._scalar(float, "a Python float")
        return result

    def __int__(self) -> int:
        result: int = self._scalar(int, "a Python int")
        return result

    def __complex__(self) -> complex:
        result: complex = self._scalar(complex, "a Python complex")
        return result

    def __index__(self) -> int:
        if self._layout.dtype.kind not in "iu":
            raise TypeError(f"only an integer scalar tensor can be used as an index; this one is {self.dtype.name}")
        result: int = self._scalar(int, "an index")
        return result

    def __bool__(self) -> bool:
        if self._layout.size != 1:
            if not self._layout.size:
                return False
            raise ValueError(
                "The truth value of an array with more than one element is ambiguous. Use a reduction such as "
                "reduce_any or reduce_all"
            )
        if self._record is not None and record.get_stack().trace:
            note_branch(self)
        return bool(self._value)

    def __len__(self) -> int:
        if not self._layout.shape:
            raise TypeError("Scalar tensor has no `len()`")
        return self._layout.shape[0]

    def __iter__(self) -> Any:
        if not self._layout.shape:
            raise TypeError("Cannot iterate over a scalar tensor.")
        return (self[i] for i in range(self._layout.shape[0]))

    def __getitem__(self, key: Any) -> Any:
        return late.getitem(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError(
            "'gtape.Tensor' object does not support item assignment; use a Variable, or tensor_scatter_nd_update"
        )

    def __delitem__(self, key: Any) -> None:
        raise TypeError("'gtape.Tensor' object doesn't support item deletion; use boolean_mask or gather")

    # A copy is the tensor itself, because a tensor never changes and its record must stay connected.
    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def __reduce__(self) -> Any:
        return (wrap, (self._value if self._record is None else self._left(self._value),))


class Tensor(PublicTensor):
    """The class of all tensors, which unlike the public class can be called, so that ops have no overhead."""

    __slots__ = ()

    if not TYPE_CHECKING:
        __init__ = object.__init__
    __doc__ = PublicTensor.__doc__


PublicTensor.__name__ = PublicTensor.__qualname__ = "Tensor"  # the name that users know


TENSORS.append(Tensor)


def wrap(value: Any) -> Tensor:
    """A tensor without a record, with a raw value that must not be changed afterwards."""
    t = Tensor()
    if value.__class__ is float:
        t._layout = FLOAT
    else:
        if not isinstance(value, (np.ndarray, np.generic)):
            if hasattr(value, "as_tensor"):  # a value of a traced call
                return value.as_tensor()  # type: ignore[no-any-return]
            value = np.asarray(value, dtype=object if isinstance(value, bytes) else None)
        t._layout = layout = make_layout(value.dtype, value.shape)
        if layout is FLOAT:
            value = float(value)
        elif not layout.shape and isinstance(value, np.ndarray):
            value = value[()]
    t._value = value
    t._record = None
    return t


def is_tensor(x: Any) -> bool:
    """Whether `x` is a Tensor, a Variable or an IndexedSlices.

    Parameters
    ----------
    x : any object

    Returns
    -------
    bool

    Examples
    --------
    >>> import gtape as tf
    >>> tf.is_tensor(tf.constant(1.0)), tf.is_tensor(1.0)
    (True, False)
    """
    return isinstance(x, Tensor) or getattr(type(x), "_is_gtape_tensor", False)


def _has_tensors(value: Any, depth: int = 0) -> bool:
    if isinstance(value, (list, tuple)):
        if depth > _MOST_NESTED:
            raise ValueError("a list that holds itself, or is nested more than 254 deep, is no tensor")
        return any(_has_tensors(v, depth + 1) for v in value)
    return is_tensor(value)


_MOST_NESTED = 254  # TensorFlow's greatest number of axes; NumPy's is 64


# A function that takes each new constant while `gtape.function` runs a body that calls `gradients`, to watch the
# constant; otherwise None.
listener: ContextVar[Callable[[Tensor], None] | None] = ContextVar("gtape_new_constants", default=None)


def announce(tensor: Tensor) -> Tensor:
    """Pass a new constant to the `listener`, if there is one. Returns the constant."""
    watch = listener.get()
    if watch is not None:
        watch(tensor)
    return tensor


def _watch_for_returns(tensor: Tensor) -> None:
    """The `listener` of a check, because a new constant may hold a value that left the tape.

    Such a constant becomes a leaf for the check alone, so that the ops on it are recorded for the check alone.
    """
    stack = record.get_stack()
    if stack.trace:
        if note_return(stack, tensor._value) and tensor._record is None:
            anchor(stack, tensor)
    else:  # if the check is over
        listener.set(None)


def anchor(stack: Any, tensor: Tensor) -> None:
    """Make a constant a leaf for the check alone, so that ops on the constant are recorded for the check."""
    tensor._record = record.leaf(stack.recording)
    tensor._record[record.OUT] = record.ANCHOR
    for session in stack.sessions:
        session.track(tensor)


def read_from_variables(tensor: Tensor) -> Tensor:
    """Note in a check that a new constant, such as the result of a metric, comes from the values of variables."""
    stack = record.get_stack()
    if stack.trace:
        note_start(stack, None, tensor._value)
        if tensor._record is None:
            anchor(stack, tensor)
    return tensor


def number_read(tensor: Tensor, *, kept: bool = False) -> Any:
    """The raw value of a tensor that an op reads as plain numbers. A check notes that no tape follows the numbers.

    Parameters
    ----------
    tensor : Tensor
    kept : bool
        Whether the numbers come back in variables only, as those of optimizers and metrics do.
    """
    if tensor._record is not None and record.get_stack().trace:
        listener.set(listener.get() or _watch_for_returns)
        note_reading(tensor, by_library=kept)
    return tensor._value


def convert_to_tensor(value: Any, dtype: Any = None, dtype_hint: Any = None, name: str | None = None) -> Tensor:
    """Convert a value to a tensor.

    Parameters
    ----------
    value : tensor, variable, IndexedSlices, ndarray, number or nest of these
    dtype : dtype, optional
        The element type of the result. A tensor of another dtype is an error.
    dtype_hint : dtype, optional
        A dtype that is used if `dtype` is not given and the value can have it.

    Returns
    -------
    Tensor
        `value` itself if it is a tensor already.

    Raises
    ------
    ValueError
        If `value` is None, a ragged list, of an unsupported type, or a tensor of another dtype.
    TypeError
        If the dtype cannot hold a Python number.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.convert_to_tensor([1, 2])
    <gtape.Tensor: shape=(2,), dtype=int32, numpy=array([1, 2], dtype=int32)>
    """
    wanted = None if dtype is None else dtypes.np_dtype(dtype)
    if isinstance(value, Tensor):
        if wanted is not None and value._layout.dtype != wanted:
            raise ValueError(
                f"Tensor conversion requested dtype {dtypes.as_dtype(wanted).name} for Tensor with dtype "
                f"{value.dtype.name}: {shown(value)}; "
                "use gtape.cast to change the dtype"
            )
        return value
    # The lookup is in the class, because an instance of a mock has every attribute.
    if getattr(type(value), "_is_gtape_tensor", False):
        # Each read of a variable is a separate op, because each is another source, as in TensorFlow.
        return convert_to_tensor(value.value() if hasattr(value, "value") else value._as_tensor(), dtype)
    if hasattr(type(value), "through"):  # one of NumPy's numbers among the arguments of a traced call
        kind = own_dtype(value.dtype) if wanted is None else wanted
        return wrap(value.through(lambda v: copied(v, kind)))
    # The type, because a mock with a `spec` claims by its `__class__` to be an array.
    if issubclass(type(value), (np.ndarray, np.generic)):
        if value.dtype.kind in "OUS":
            if not value.size and wanted is None:  # an empty list would lose the shape and the dtype
                return announce(wrap(np.empty(value.shape, object)))
            return convert_to_tensor(value.tolist(), dtype)
        if wanted is None or wanted == value.dtype:
            return announce(wrap(copied(value, own_dtype(value.dtype))))
        return announce(wrap(copied(value, wanted)))
    if value.__class__ is float and wanted is None and dtype_hint is None and -3e38 < value < 3e38:
        return announce(wrap(np.float32(value)))
    if isinstance(value, (list, tuple)) and _has_tensors(value):
        return _stacked(value, wanted)
    if wanted is None and dtype_hint is not None:
        try:
            return announce(wrap(array_from_python(value, dtypes.np_dtype(dtype_hint))))
        except TypeError:
            pass
    return announce(wrap(array_from_python(value, wanted)))


def _stacked(value: Any, dtype: np.dtype[Any] | None) -> Tensor:
    """A tensor from nested lists that hold tensors. With a `dtype`, tensors are cast if the cast only rounds.

    Numbers and arrays in the lists take the given dtype, or that of the first tensor.
    """
    cast, stack = late.find_op("cast"), late.find_op("stack")
    numbers = _first_tensor(value)._layout.dtype if dtype is None else dtype
    made = []
    for v in value:
        if isinstance(v, (list, tuple)) and _has_tensors(v):
            made.append(_stacked(v, dtype))
        elif (
            dtype is not None
            and is_tensor(v)
            and dtype != v._layout.dtype
            and _widens(v._layout.dtype.kind, dtype.kind)
        ):
            made.append(cast(v, dtype))
        else:
            made.append(convert_to_tensor(v, dtype if is_tensor(v) else numbers))
    whole: Tensor = stack(made)
    return whole


def _widens(old: str, new: str) -> bool:
    """Whether a cast between two kinds of dtype only rounds numbers."""
    order = "uifc"
    return old in order and new in order and order.index(old) <= order.index(new)


def _first_tensor(value: Any) -> Any:
    if not isinstance(value, (list, tuple)):
        return value if is_tensor(value) else None
    return next((found for found in map(_first_tensor, value) if found is not None), None)


def constant(value: Any, dtype: Any = None, shape: Any = None, name: str | None = None) -> Tensor:
    """A tensor with a constant value.

    Parameters
    ----------
    value : tensor, array, number or nest
        Python floats become float32, and ints int32. Arrays keep their dtype.
    dtype : dtype, optional
        The element type.
    shape : int or sequence of int, optional
        The shape of the result. A single value is repeated to fill the shape.

    Returns
    -------
    Tensor

    Raises
    ------
    ValueError, TypeError
        As for `convert_to_tensor`. Also if the value does not fill the shape.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.constant(3.0)
    <gtape.Tensor: shape=(), dtype=float32, numpy=3.0>
    """
    try:
        t = convert_to_tensor(value, dtype)
    except ValueError as e:
        if isinstance(value, Tensor):
            raise TypeError(str(e)) from None
        raise
    if shape is None:
        return announce(t)
    unknown = isinstance(shape, (list, tuple)) and any(d is None for d in shape)
    sizes = () if unknown else static_ints(shape)
    if unknown or any(d < 0 for d in sizes):
        raise ValueError(f"the shape of a constant must be whole numbers that are not negative, got {shape}")
    shape = tuple(int(d) for d in sizes)
    array = np.asarray(t._value, dtype=t._layout.dtype)
    if array.size == 1 and array.shape != shape:
        try:
            return announce(wrap(np.full(shape, array.reshape(()), dtype=array.dtype)))
        except (MemoryError, ValueError) as e:
            raise exhausted(f"a constant of shape {shape}", e) from None
    if array.size != int(np.prod(shape)):
        raise TypeError(
            f"Eager execution of gtape.constant with unsupported shape. Tensor {shown(value)} has {array.size} "
            f"elements, but got `shape` {shape}"
        )
    return announce(wrap(array.reshape(shape)))


_NUMBERS = (bool, int, float, complex)


def as_operand(x: Any, like: Any = None) -> Tensor:
    """One operand of an op as a tensor, which may adopt the dtype of the other operand, as in TensorFlow.

    Python numbers and NumPy arrays take the dtype of `like`. Tensors keep their own.
    """
    if x.__class__ is Tensor:
        return x
    if getattr(type(x), "_is_gtape_tensor", False):
        return x._as_tensor()  # type: ignore[no-any-return]
    dtype = None
    if like is not None:
        if like.__class__ is Tensor or getattr(type(like), "_is_gtape_tensor", False):
            dtype = like._layout.dtype
        elif isinstance(like, (np.ndarray, np.generic, Layout)):
            dtype = like.dtype
    if dtype is not None:
        if isinstance(x, _NUMBERS):
            return number(x, dtype)
        if issubclass(type(x), (np.ndarray, np.generic)):
            if x.dtype != dtype:
                return wrap(adapted(x, dtype))
        elif isinstance(x, (list, tuple, range)):
            try:
                return _stacked(x, dtype) if _has_tensors(x) else wrap(array_from_python(x, dtype))
            except TypeError as e:
                raise errors.OperandTypeError(str(e)) from None
            except ValueError:
                if not _has_tensors(x):
                    raise  # otherwise the op itself raises the error about dtypes
        elif hasattr(x, "__array__"):
            return x.adapted(dtype) if hasattr(x, "adapted") else wrap(adapted(array_from_python(x, None), dtype))
    return convert_to_tensor(x)


# The most common operands that are not tensors.
PYTHON_NUMBERS = frozenset({float, int})


def number_beside(x: float | int, layout: Layout) -> Tensor:
    """The function `number` for a Python float or int and the dtype of a tensor: the usual case in fewer steps."""
    own = layout.family.get(()) if layout.real else None
    if own is FLOAT and (x.__class__ is float or -65504 <= x <= 65504):
        value: Any = float(x)
    elif own is not None and -65504.0 <= x <= 65504.0:
        value = own.dtype.type(x)
    else:
        return number(x, layout.dtype)
    t = Tensor()
    t._value = value
    t._layout = own
    t._record = None
    return t


def number(x: Any, dtype: np.dtype[Any]) -> Tensor:
    """A number as a tensor of a dtype. OperandTypeError if the dtype cannot hold the number."""
    kind = dtype.kind
    if kind in "fV" and not isinstance(x, complex):
        t = Tensor()
        t._record = None
        if dtype == FLOAT.dtype:
            try:
                t._value = float(x)
            except OverflowError:
                t._value = float(cast_number(x, dtype))
            t._layout = FLOAT
        else:
            # Numbers beyond the range become infinite, as in TensorFlow, without NumPy's warning.
            t._value = dtype.type(x) if -65504.0 <= x <= 65504.0 else cast_number(x, dtype)
            t._layout = make_layout(dtype, ())
        return t
    if kind == "c" or (kind in "iu" and isinstance(x, int)) or (kind == "b" and isinstance(x, bool)):
        try:
            return wrap(np.array(x, dtype)[()])
        except OverflowError:
            raise errors.OperandTypeError(
                f"Cannot convert {shown(x)} to EagerTensor of dtype {dtypes.as_dtype(dtype).name}: it is out of range"
            ) from None
    if isinstance(x, np.generic):
        return wrap(adapted(x, dtype))
    hint = "; use gtape.cast(x, gtape.float32) on the tensor first" if isinstance(x, float) else ""
    wanted = dtypes.as_dtype(dtype).name
    raise errors.OperandTypeError(f"Cannot convert {shown(x)} to EagerTensor of dtype {wanted}{hint}") from None
