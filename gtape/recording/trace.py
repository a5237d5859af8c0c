"""What a checked tape keeps besides its records: all values, the user's source lines, and the branches taken."""

from __future__ import annotations

import sys
import weakref
from typing import Any, NamedTuple

import numpy as np

from gtape.base.own_files import is_own
from gtape.recording.record import TAPES, Session, count, get_stack

__all__ = [
    "Assignment", "Conversion", "GradNode", "Trace", "assignments_made", "branches_taken", "called_within_assertions",
    "conversions_made", "note_assignment", "note_branch", "note_conversion", "note_return", "user_line",
]  # fmt: skip

Noted = list[tuple[Any, Any, Any]]  # (record, value, the user's line)


class Conversion:
    """A recorded tensor that became a number or an array.

    Attributes
    ----------
    record : Record
    value : raw value
    line : (file, number, function)
        The user's line.
    number : int
        As in records: the ops that were recorded later have smaller numbers.
    inside : bool
        Whether a custom gradient ran.
    by_library : bool
        Whether the library itself asked for the number, as to print it.
    returns : list of raw values
        The constants that the number or array became.
    """

    __slots__ = ("_array", "_scalar", "by_library", "inside", "line", "number", "record", "returns", "value")

    def __init__(self, tensor: Any, made: Any) -> None:
        self.record, self.value = tensor._record, tensor._value
        self.line, self.number, self.inside = user_line(), next(count), _called_within_customs()
        self.by_library = _asked_by_library()
        self.returns: list[Any] = []
        is_array = isinstance(made, np.ndarray)
        self._array = weakref.ref(made) if is_array else None
        self._scalar = made if isinstance(made, (float, complex, np.inexact)) else None

    def made(self) -> Any:
        """The array or number; None if nothing refers to it any more, so that it cannot come back."""
        if self._array is not None:
            return self._array()
        if self._scalar is not None and _references(self) <= _OWN_REFERENCES:
            self._scalar = None
        return self._scalar

    def is_in(self, constant: Any) -> bool:
        """Whether a constant is certainly this array or number.

        It is the same object, or has the same numbers while the object is still in use and some of the numbers are
        long: a short one, such as 0.5 or 0.1, may be equal by chance.
        """
        made = self.made()
        if made is None or np.shape(made) != np.shape(constant):
            return False
        if made is constant:
            return True
        there, here = np.asarray(constant), np.asarray(made)
        if there.dtype.kind not in "fc" or (here.dtype.kind == "c" and there.dtype.kind == "f"):
            return False
        with np.errstate(all="ignore"):
            return bool(np.array_equal(here.astype(there.dtype), there)) and _has_long_numbers(there)


class Assignment(NamedTuple):
    """A variable as it was before it changed.

    Attributes
    ----------
    variable : Variable
    state : tuple
        Its value and layouts.
    line : (file, number, function)
        The user's line.
    """

    variable: Any
    state: Any
    line: tuple[str, int, str]


def _references(conversion: Any) -> int:
    return sys.getrefcount(conversion._scalar)


class _Unused:
    """Refers to a number that nothing else refers to."""

    def __init__(self) -> None:
        self._scalar = float("1.5")


_OWN_REFERENCES = _references(_Unused())
_SHORT = 12  # bits of a short binary number
_FEW = 5  # digits of a short decimal number


def _has_long_numbers(values: Any) -> bool:
    """Whether some of the numbers are longer than people write them, in binary and in decimal."""
    flat = values.ravel()
    parts = flat.view(flat.real.dtype) if flat.dtype.kind == "c" else flat
    parts = np.abs(parts[np.isfinite(parts) & (parts != 0)][:64])
    if parts.dtype.itemsize < 4:  # no number of half precision is long
        return False
    mantissas = np.ldexp(np.frexp(parts)[0], _SHORT)
    for part in parts[mantissas != np.floor(mantissas)]:
        digits = np.format_float_scientific(part, unique=True, trim="-").partition("e")[0].replace(".", "")
        if len(digits) > _FEW:
            return True
    return False


def _is_ours(frame: Any) -> bool:
    return is_own(frame.f_code.co_filename)


def user_line() -> tuple[str, int, str]:
    """File, line number and function of the innermost frame outside the library."""
    frame: Any = sys._getframe()
    while frame is not None:
        code = frame.f_code
        if not is_own(code.co_filename):
            return code.co_filename, frame.f_lineno, code.co_name
        frame = frame.f_back
    return "<unknown>", 0, "?"


def called_within_assertions() -> bool:
    """Whether a library assertion runs inside the user's innermost frame; such modules have a constant ``ASSERTS``.

    Truth values that an assertion takes are not branches, because nothing else depends on them.
    """
    frame: Any = sys._getframe()
    while frame is not None and _is_ours(frame):
        if "ASSERTS" in frame.f_globals:
            return True
        frame = frame.f_back
    return False


# The methods by which a tensor or a variable becomes a number or an array.
_CONVERTING = frozenset(
    ("numpy", "__array__", "__float__", "__int__", "__complex__", "__index__", "__dlpack__", "_scalar", "_left")
)


def _asked_by_library() -> bool:
    """Whether the library, and no code of the user's, calls the method that converts a tensor."""
    frame: Any = sys._getframe()
    while frame is not None and (frame.f_globals is globals() or frame.f_code.co_name in _CONVERTING):
        frame = frame.f_back
    return frame is not None and _is_ours(frame)


def _called_within_customs() -> bool:
    """Whether a function of a custom gradient runs; the module that calls it has a constant ``CUSTOMS``."""
    frame: Any = sys._getframe()
    while frame is not None:
        if "CUSTOMS" in frame.f_globals and _is_ours(frame):
            return True
        frame = frame.f_back
    return False


class Trace:
    """The inputs and outputs of one op, and how they depend on others.

    Attributes
    ----------
    inputs : tuple of Tensor
    output : raw value or tuple of raw values
    line : (file, number, function)
    origins : tuple of record or None
        The records of the inputs, kept here because tensors forget their records when the last tape ends.
    flows : tuple of frozenset or None
        For each input, the sessions that differentiate by it; None for a constant.
    idle : bool
        Whether the op was recorded for the check alone.
    body : for custom gradients, the results of the function's body; a `GradNode` for a derivative
    body_origins : tuple of record or None
        The records of the body's results.
    call : (function, arguments, keyword arguments) or None
        The call of a custom gradient's function.
    """

    __slots__ = ("body", "body_origins", "call", "flows", "idle", "inputs", "line", "origins", "output")

    def __init__(self, inputs: tuple[Any, ...], output: Any, stack: Any) -> None:
        self.inputs = inputs
        self.output = output
        self.line = user_line()
        self.origins: tuple[Any, ...] = tuple([x._record for x in inputs])
        for x, r in zip(inputs, self.origins, strict=True):
            if r is None and x._layout.inexact:
                note_return(stack, x._value)
        # Taken now, because a tape that ends leaves the sets of the records that outlive it.
        self.flows = tuple([None if r is None else stack.meet(r[TAPES]).sessions for r in self.origins])
        self.idle = False
        self.body: Any = None
        self.body_origins: tuple[Any, ...] = ()
        self.call: Any = None


class GradNode:
    """A derivative that was taken under an outer tape: its targets, sources, and cotangents or tangents.

    Attributes
    ----------
    targets : list of record
    given : list of (record or None, raw value)
        For "gradient" the cotangents of the targets, for "jvp" the tangents of the sources; empty for Jacobians.
    sources : list of (record or None, raw value)
    index : int
        Which of the sources this derivative belongs to.
    session : the session of the inner tape
    form : {"gradient", "jacobian", "batch_jacobian", "jvp"}
    """

    __slots__ = ("form", "given", "index", "session", "sources", "targets")

    def __init__(self, targets: Any, given: Any, sources: Any, index: int, session: Any, form: str) -> None:
        self.targets = targets
        self.given = given
        self.sources = sources
        self.index = index
        self.session = session
        self.form = form


def note_branch(tensor: Any) -> None:
    """Keep a tensor whose truth value was taken, because a tie in its comparison makes the branch arbitrary."""
    for session in _noting(tensor):
        _append(session, "branches", (tensor._record, tensor._value, user_line()))


def note_conversion(tensor: Any, made: Any) -> Any:
    """Keep a tensor that became a number or an array, because its value may come back as a constant.

    Returns
    -------
    number or array
        `made`, or an equal number that nothing else refers to.
    """
    sessions = _noting(tensor)
    if not sessions:
        return made
    if made.__class__ is float:
        made = made * 1.0
    elif made.__class__ is complex:
        made = complex(made.real, made.imag)
    elif isinstance(made, np.inexact):
        made = made.dtype.type(made)
    found = Conversion(tensor, made)
    for session in sessions:
        _append(session, "conversions", found)
    return made


def note_assignment(stack: Any, variable: Any) -> None:
    """Keep the state of a variable that is about to change, because a check may run the function again."""
    found = Assignment(variable, variable._state(), user_line())
    for session in stack.sessions:
        if session.trace:
            _append(session, "assignments", found)


def note_return(stack: Any, constant: Any) -> None:
    """Keep a constant if it is certainly a value that left the tape of an active session."""
    for session in stack.sessions:
        if session.trace:
            for made in session.conversions:
                if made.is_in(constant) and not any(constant is r for r in made.returns):
                    made.returns.append(constant)


def _append(session: Session, name: str, noted: Any) -> None:
    """Add to a list of a session, which starts as an empty tuple."""
    kept = getattr(session, name)
    if kept.__class__ is tuple:
        kept = []
        setattr(session, name, kept)
    kept.append(noted)


def _noting(tensor: Any) -> list[Session]:
    """The sessions that keep what happens to a tensor."""
    stack = get_stack()
    if not stack.trace or called_within_assertions():
        return []
    return [s for s in stack.sessions if s.trace and s in tensor._record[TAPES].sessions]


def branches_taken(session: Any) -> Noted:
    """(record, value, the user's line) of each truth value taken while a session recorded."""
    return list(session.branches)


def conversions_made(session: Any) -> list[Conversion]:
    """Each tensor that became a number or an array while a session recorded."""
    return list(session.conversions)


def assignments_made(session: Any) -> list[Assignment]:
    """Each change of a variable while a session recorded."""
    return list(session.assignments)
