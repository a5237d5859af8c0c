"""Variable: a tensor whose value can be replaced. Tapes watch a variable when it is read in their block."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from operator import attrgetter
from typing import Any, NoReturn, Self

import numpy as np

from gtape import dtypes, errors
from gtape.base import late, locks
from gtape.base.escaping import plain
from gtape.base.layout import FLOAT, Layout
from gtape.base.shown import shown
from gtape.base.tensor_shape import TensorShape, as_shape
from gtape.declare.primitives import REGISTRY
from gtape.declare.quickest import quickest
from gtape.recording import record
from gtape.recording.record import TAPES, Session, TapeSet, sharing
from gtape.recording.trace import is_start, note_assignment, note_start, note_step
from gtape.recording.undoing import keep_draws, note_change, trial
from gtape.tensors import operators
from gtape.tensors.argument_checks import flag
from gtape.tensors.tensor import Operators, Tensor, anchor, as_operand, convert_to_tensor
from gtape.tensors.variable_parts import ADD, SUB, ChangesInPart, VariableSlice

__all__ = ["Variable", "tell_of_copies"]

_uids = itertools.count()
_live = attrgetter("live")

# The prefix of the names of new variables. `name_scope` sets it.
SCOPE: ContextVar[str] = ContextVar("gtape_name_scope", default="")


def _start(value: Any, dtype: Any) -> Tensor:
    """The initial value of a variable, as a tensor."""
    if callable(value) and not isinstance(value, (Tensor, Variable)):
        value = value()
    if isinstance(value, (Tensor, Variable)) and dtype is not None and value.dtype != dtypes.as_dtype(dtype):
        raise ValueError(
            f"Tensor conversion requested dtype {dtypes.as_dtype(dtype).name} for a value of dtype {value.dtype.name}"
        )
    return convert_to_tensor(value, dtype)


def _refusal(sign: str, v: str, instead: str) -> Callable[[Any, Any], NoReturn]:
    """The method of an operator that would change a variable in place, which raises an error."""

    def refuse(self: Any, other: Any) -> NoReturn:
        raise RuntimeError(
            f"`{v} {sign}= value` with `gtape.Variable`s is not supported. Use `{instead}` to modify the variable, or "
            f"`out = {v} {sign} value` if you need to get a new output Tensor."
        )

    return refuse


@contextlib.contextmanager
def _watching_nothing(sessions: Iterable[Session]) -> Iterator[None]:
    """Keep sessions from watching the variables that ops read in the block."""
    watching = [s for s in sessions if s.watch_accessed]
    for s in watching:
        s.watch_accessed = False
    try:
        yield
    finally:
        for s in watching:
            s.watch_accessed = True


class Variable(ChangesInPart, Operators):
    """A value that ops read and `assign` replaces.

    Parameters
    ----------
    initial_value : tensor, array, number, nest or callable
        The first value, which is always copied.
    trainable : bool
        Whether tapes watch the variable automatically.
    dtype : dtype, optional
    name : str, optional
    shape : TensorShape, sequence of int or None, optional
        The shape of every value. By default the shape of the initial value. With unknown sizes (None), `assign` may
        change the shape.
    constraint : callable, optional
        A function that optimizers apply to the value after an update.
    synchronization : VariableSynchronization, optional
    aggregation : VariableAggregation, optional
        Policies for copies on several devices. They are stored without effect, because there is one device.
    validate_shape, caching_device, variable_def, import_scope, experimental_enable_variable_lifting
        Ignored; TensorFlow has them.

    Raises
    ------
    ValueError
        If there is no initial value, or `synchronization` or `aggregation` is unknown.

    Examples
    --------
    >>> import gtape as tf
    >>> w = tf.Variable([1.0, 2.0], name="w")
    >>> w.assign_add([0.5, 0.5]).numpy()
    array([1.5, 2.5], dtype=float32)
    """

    _is_gtape_tensor = True
    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]

    __slots__ = (
        "__weakref__", "_layout", "_name", "_policies", "_record", "_static", "_tensor_layout", "_trainable", "_uid",
        "_value", "constraint",
    )  # fmt: skip

    _layout: Layout

    def __init__(
        self, initial_value: Any = None, trainable: bool | None = True, dtype: Any = None, name: str | None = None,
        shape: Any = None, constraint: Any = None, *, validate_shape: bool = True, caching_device: Any = None,
        variable_def: Any = None, import_scope: Any = None, synchronization: Any = None, aggregation: Any = None,
        experimental_enable_variable_lifting: Any = None,
    ) -> None:  # fmt: skip
        record.refuse_in_traced_calls("makes a variable")
        if initial_value is None:
            raise ValueError("The `initial_value` arg to `gtape.Variable` must be specified.")
        if constraint is not None and not callable(constraint):
            raise ValueError(f"Argument `constraint` must be None or a callable, got {shown(constraint)}")
        # No tape records how the initial value is made, except in a check, which follows the value back to its tensors.
        stack = record.get_stack()
        followed = stack.sessions if stack.trace and not isinstance(initial_value, Variable) else ()
        with record.off(followed, probe={}), _watching_nothing(followed):
            t = _start(initial_value, dtype)
        keep_draws()
        if not isinstance(name, str | None):
            raise TypeError(f"Variable: `name` must be a string, not {shown(name)}")
        static = None if shape is None else as_shape(shape)
        if static is not None and not static.is_compatible_with(t._layout.tensor_shape):
            raise ValueError(
                f"In this `gtape.Variable` creation, the initial value's shape ({t._layout.tensor_shape}) is not "
                f"compatible with the explicitly supplied `shape` argument ({shape})."
            )
        self._static = None if static is None or static.is_fully_defined() else static
        self._tensor_layout = t._layout
        # Intentionally not interned, because fast paths treat operands with an interned Layout object as Tensors.
        self._layout = Layout(t._layout.dtype, t._layout.shape)
        self._value = t._value.copy() if isinstance(t._value, np.ndarray) else t._value
        self._trainable = trainable is None or flag("Variable", "trainable", trainable)
        self._name = SCOPE.get() + (name or "Variable")
        self._uid = next(_uids)
        self._record = record.leaf()
        self.constraint = constraint
        self._policies = None
        if stack.trace:
            note_start(stack, t if followed else initial_value, self._value)
        if synchronization is not None or aggregation is not None:
            from gtape.base.distribution import policies

            self._policies = policies(synchronization, aggregation, name)

    # ------------------------------------------------------------------------------------------ reading

    def _watch(self, sessions: tuple[Session, ...]) -> None:
        with sharing:
            self._watch_alone(sessions)

    def _watch_alone(self, sessions: tuple[Session, ...]) -> None:
        r = self._record
        have = {s for s in r[TAPES].sessions if s.live}
        if not have:  # a new leaf, so that snapshots read for ended tapes stay constants
            r = self._record = record.leaf()
        have.update(sessions)
        recording = record.get_stack().recording
        r[TAPES] = recording if have == recording.sessions else TapeSet(have)

    def _as_tensor(self) -> Tensor:
        """A snapshot of the value, connected to this variable. Active tapes watch the variable."""
        t = Tensor()
        t._value = self._value
        t._layout = self._tensor_layout
        stack = record.peek() or record.idle_stack()
        r = self._record
        if r[TAPES] is stack.tapes and stack.probe is None:  # a repeated read under the same tapes
            t._record = r
            if stack.tracker is None:  # several tapes, see `_connect`
                stack.note(t)
            return t
        t._record = None
        if stack.probe is not None:
            if self._trainable:
                stack.probe[self._uid] = self
            if hasattr(stack.run, "read"):  # a traced call
                t = stack.run.read(self)
        if stack.sessions:
            self._connect(t, stack)
        return t

    def _connect(self, t: Tensor, stack: record.Stack) -> None:
        r = self._record
        tapes = r[TAPES]
        tracker = stack.tracker
        if tracker is not None:  # one plain tape, which is the usual case
            if tapes is not stack.recording:
                if not (self._trainable and tracker.watch_accessed):
                    if tracker not in tapes.sessions:
                        return
                else:
                    tracker.variables[self._uid] = self
                    if not self._layout.inexact:
                        return
                    with sharing.now:
                        sessions = self._record[TAPES].sessions
                        if sessions and any(map(_live, sessions)):
                            self._watch((tracker,))
                        else:
                            self._record = record.leaf(stack.recording)
                        r = self._record
            t._record = r
            return
        if tapes is not stack.recording:
            if self._trainable:
                asking = tuple([s for s in stack.sessions if s.watch_accessed and s not in tapes.sessions])
                for s in asking:
                    s.variables[self._uid] = self
                if asking and self._layout.inexact:
                    self._watch(asking)
                    r = self._record
            if not stack.meet(r[TAPES]).sessions:
                if stack.trace and self._layout.inexact and is_start(stack, self._value):
                    anchor(stack, t)
                return
        t._record = r
        for s in stack.sessions:
            # The snapshot is tracked, because it must become a constant when the tape ends.
            s.track(t)

    def value(self) -> Tensor:
        """The current value as a tensor."""
        t = self._as_tensor()
        # A separate op if a tape records, because each read is another source, as in TensorFlow.
        return t if t._record is None else REGISTRY["identity"](t)

    def read_value(self) -> Tensor:
        """The current value as a tensor."""
        return self.value()

    def numpy(self) -> Any:
        """The current value as a NumPy scalar or a fresh array."""
        return self._as_tensor().numpy()

    @property
    def shape(self) -> TensorShape:
        """The static shape, with unknown sizes if `shape` had them."""
        return self._layout.tensor_shape if self._static is None else self._static

    @property
    def trainable(self) -> bool:
        """Whether tapes watch the variable automatically."""
        return self._trainable

    @property
    def name(self) -> str:
        """The name with TensorFlow's output number."""
        return f"{self._name}:0"

    @property
    def path(self) -> str:
        """Keras's path: the name without TensorFlow's output number, such as "dense/kernel"."""
        return self._name

    @property
    def synchronization(self) -> Any:
        """The policy for synchronising copies on several devices. AUTO by default."""
        from gtape.base.distribution import VariableSynchronization

        return self._policies[0] if self._policies else VariableSynchronization.AUTO

    @property
    def aggregation(self) -> Any:
        """The policy for combining copies on several devices. NONE by default."""
        from gtape.base.distribution import VariableAggregation

        return self._policies[1] if self._policies else VariableAggregation.NONE

    def get_shape(self) -> TensorShape:
        """The static shape."""
        return self.shape

    def set_shape(self, shape: Any) -> None:
        """Raise a ValueError unless the variable's shape is compatible with `shape`."""
        if not self.shape.is_compatible_with(shape):
            raise ValueError(f"Shapes {self.shape} and {as_shape(shape)} are not compatible")

    def is_initialized(self, name: str | None = None) -> Tensor:
        """True, because a variable always has a value."""
        return convert_to_tensor(True)

    def __repr__(self) -> str:
        from gtape.base import printing

        return printing.variable_repr(self.name, self.numpy(), shape=self.shape)

    __str__ = __repr__

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return self._as_tensor().__array__(dtype, copy)

    def __dlpack__(self, *, copy: bool | None = None, **options: Any) -> Any:
        return self._as_tensor().__dlpack__(copy=copy, **options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._as_tensor().__dlpack_device__()

    def __float__(self) -> float:
        return float(self._as_tensor())

    def __int__(self) -> int:
        return int(self._as_tensor())

    def __index__(self) -> int:
        return self._as_tensor().__index__()

    def __complex__(self) -> complex:
        return complex(self._as_tensor())

    def __bool__(self) -> bool:
        return bool(self._as_tensor())

    def __iter__(self) -> Any:
        return iter(self._as_tensor())

    def __format__(self, spec: str) -> str:
        return format(self.numpy(), spec) if spec else str(self)

    def __getitem__(self, key: Any) -> Any:
        t = self._as_tensor()[key]
        if t.__class__ is not Tensor:  # a traced call, which cannot assign slices
            return t.as_part_of_variable()
        made = VariableSlice()
        made._value, made._layout, made._record, made._variable, made._key = t._value, t._layout, t._record, self, key
        if t._record is not None:
            for s in record.get_stack().sessions:
                s.track(made)
        return made

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError("'gtape.Variable' object does not support item assignment; use assign, or scatter_update")

    def __delitem__(self, key: Any) -> None:
        raise TypeError("'gtape.Variable' object doesn't support item deletion; make a smaller variable")

    __iadd__ = _refusal("+", "variable", "variable.assign_add(value)")
    __isub__ = _refusal("-", "variable", "variable.assign_sub(value)")
    __imul__ = _refusal("*", "var", "var.assign(var * value)")
    __itruediv__ = _refusal("/", "var", "var.assign(var / value)")
    __ipow__ = _refusal("**", "var", "var.assign(var ** value)")

    # ------------------------------------------------------------------------------------------ writing

    def _incoming(self, value: Any) -> Any:
        if value.__class__ is Tensor and value._layout is self._tensor_layout:
            return value
        if isinstance(value, (Tensor, Variable)) and value._layout.dtype != self._layout.dtype:
            raise ValueError(
                f"Tensor conversion requested dtype {self.dtype.name} for Tensor with dtype {value.dtype.name}; use "
                "gtape.cast"
            )
        if isinstance(value, (str, bytes)) and self._layout.dtype.kind != "O":
            raise TypeError(f"Cannot convert {shown(value)} to EagerTensor of dtype {self.dtype.name}")
        t = value if isinstance(value, Tensor) else as_operand(value, self)
        if t._layout.dtype != self._layout.dtype:
            raise ValueError(
                f"cannot assign a value of dtype {t.dtype.name} to {plain(self.name)} of dtype {self.dtype.name}"
            )
        return t

    def _noted(self, t: Tensor, kernel: Any) -> bool:
        """Whether a traced call notes the assignment: of a value, or of a kernel's result for the old value and it."""
        stack = record.peek()
        note = None if stack is None else getattr(stack.run, "assign", None)
        if note is None:
            return False
        note(self, t, kernel)
        self._as_tensor()  # because an assignment counts as a read for automatic watching
        return True

    def _touch(self, reason: str = "assigns a variable") -> None:
        """Prepare a change. The reason ends the tracing of a compiled function."""
        record.refuse_in_traced_calls(reason)
        stack = record.peek()
        if stack is None:
            return
        if trial() is not None:
            note_change(self, self._restore, self._state)
        if stack.sessions:
            self._as_tensor()  # because an assignment counts as a read for automatic watching
            if stack.trace:
                note_assignment(stack, self)

    def _state(self) -> tuple[Any, Layout, Layout]:
        """The value and its layouts, for `_restore`."""
        return self._value, self._tensor_layout, self._layout

    def _restore(self, state: tuple[Any, Layout, Layout]) -> None:
        """Restore a state. No tape sees the change."""
        with locks.of_variable(self._uid):
            self._value, self._tensor_layout, self._layout = state

    def _kept(self, value: Any) -> Any:
        """A value in the form in which this variable keeps it."""
        if self._tensor_layout is FLOAT:
            return float(value)
        return value[()] if isinstance(value, np.ndarray) and not self._layout.shape else value

    def _put(self, value: Any) -> None:
        record.refuse_in_traced_calls("assigns a variable")
        if trial() is not None:
            note_change(self, self._restore, self._state)
        with locks.of_variable(self._uid):
            self._value = self._kept(value)

    def _change(self, make: Callable[[Any], Any], origin: Callable[[], Tensor] | None = None) -> Self:
        """Replace the value by ``make(value)``. Other threads cannot interfere.

        In a check, `origin` makes the tensor from which the new value comes.
        """
        record.refuse_in_traced_calls("assigns a variable")
        with locks.of_variable(self._uid).now:
            self._change_until_kept(make)
        stack = record.get_stack()
        if stack.trace:
            note_start(stack, None if origin is None else origin(), self._value)
        return self

    def _change_until_kept(self, make: Callable[[Any], Any]) -> None:
        while not self._changed(make):
            pass

    def _changed(self, make: Callable[[Any], Any]) -> bool:
        """Try to replace the value. False if a signal handler or finalizer of this thread changed it meanwhile."""
        old = self._value
        new = self._kept(make(old))
        if self._value is not old:
            return False
        self._value = new
        return True

    def _note_step(self, before: Tensor, gradient: Any) -> None:
        """Note in a check that a step of an optimizer computed the new value from the old one and a gradient."""
        known = gradient._record is not None and before._record is not None
        if not known or self._value is before._value or gradient._layout.shape != before._layout.shape:
            return
        if gradient._layout.dtype != before._layout.dtype:
            gradient = late.find_op("cast")(gradient, self.dtype)
        note_step(REGISTRY["add"](before, gradient), self._value)

    def assign(self, value: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True) -> Any:
        """Replace the value.

        Parameters
        ----------
        value : tensor, array or number of this variable's shape and dtype
        use_locking, name
            Ignored; TensorFlow has them.
        read_value : bool
            Whether to return the variable.

        Returns
        -------
        Variable or None
            This variable.

        Raises
        ------
        ValueError
            If `value` has another shape or dtype.
        """
        read_value = read_value is True or flag(self, "read_value", read_value)
        t = self._incoming(value)
        if self._noted(t, None):
            return self if read_value else None
        self._touch()
        made = t._value.copy() if isinstance(t._value, np.ndarray) and not isinstance(value, Tensor) else t._value
        with locks.of_variable(self._uid).now:
            if t._layout.shape != self._layout.shape and not self._reshaped(t._layout):
                raise ValueError(
                    f"Cannot assign value to variable '{plain(self.name)}': Shape mismatch. The variable shape "
                    f"{self.shape}, and the assigned value shape {t._layout.tensor_shape} are incompatible."
                )
            self._value = self._kept(made)
        stack = record.get_stack()
        if stack.trace:
            note_start(stack, t, self._value)
        return self if read_value else None

    def _reshaped(self, layout: Layout) -> bool:
        """Take another shape. False if the variable does not allow the shape."""
        if self._static is None or not self._static.is_compatible_with(layout.tensor_shape):
            return False
        self._tensor_layout = layout
        self._layout = Layout(layout.dtype, layout.shape)
        return True

    def _update(self, delta: Any, sign: int) -> Variable:
        kernel = np.add if sign > 0 else np.subtract
        if delta.__class__ is Tensor and record.peek() is None:  # the usual training step, in fewer calls
            with locks.of_variable(self._uid).now:
                layout, old = self._tensor_layout, self._value
                if delta._layout is layout:
                    quick = quickest(kernel) if layout.real else kernel
                    new = self._kept(record.idle_stack().run(quick, old, delta._value))
                    if self._value is old:  # no signal handler or finalizer of this thread has changed it
                        self._value = new
                        return self
        if delta.__class__ is not Tensor:
            from gtape.tensors.indexed_slices import IndexedSlices

            if isinstance(delta, IndexedSlices):
                return self._scatter(delta, ADD if sign > 0 else SUB)
        t = self._incoming(delta)
        if self._noted(t, kernel):
            return self
        self._touch()
        stack = record.get_stack()
        before = self._as_tensor() if stack.trace and self._layout.inexact else None
        run = stack.run

        def changed(old: Any) -> Any:
            if t._layout.shape != self._layout.shape:
                raise errors.InvalidArgumentError(
                    f"Cannot update variable with shape {self._layout.tensor_shape} using a Tensor with shape "
                    f"{t._layout.tensor_shape}, shapes must be equal."
                )
            try:
                return run(kernel, old, t._value)
            except RuntimeError as e:
                return record.adopt_thread(e).run(kernel, old, t._value)

        if before is None:
            return self._change(changed)
        return self._change(changed, lambda: REGISTRY["add" if sign > 0 else "subtract"](before, t))

    def assign_add(
        self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        """Add to the value, and return this variable. InvalidArgumentError for another shape, even a smaller one."""
        read_value = read_value is True or flag(self, "read_value", read_value)
        self._update(delta, 1)
        return self if read_value else None

    def assign_sub(
        self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        """Subtract from the value, and return this variable. InvalidArgumentError for another shape."""
        read_value = read_value is True or flag(self, "read_value", read_value)
        self._update(delta, -1)
        return self if read_value else None

    def __copy__(self) -> Variable:
        return self  # a shallow copy shares the state

    def __deepcopy__(self, memo: Any) -> Variable:
        made = Variable(self.numpy(), self._trainable, None, None, self._static, self.constraint)
        made._name = self._name
        memo[id(self)] = made
        for told in memo.get(_TOLD, ()):
            told(self, made)
        return made

    def __reduce__(self) -> Any:
        return (Variable, (self.numpy(), self._trainable, None, self._name, self._static, self.constraint))


_TOLD = "functions that are told of copies"  # a key of the memo of a deep copy, whose other keys are integers


def tell_of_copies(memo: dict[Any, Any], told: Callable[[Variable, Variable], None]) -> None:
    """Let each variable that a deep copy reaches later call ``told(variable, copy)``.

    Parameters
    ----------
    memo : dict
        The memo of the deep copy.
    """
    memo.setdefault(_TOLD, []).append(told)


operators.install(Variable)
