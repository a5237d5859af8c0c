"""The additional data of a checked tape: all values, the user's source lines, and the branches taken."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from gtape.base.own_files import is_own, is_users
from gtape.recording.known_numbers import ConstantsAlive, is_asked_for_truth, is_literal
from gtape.recording.record import NO_TAPES, STEP, TAPES, Session, TapeSet, count, get_stack, idle_in, sharing

__all__ = [
    "Assignment", "Conversion", "GradNode", "Return", "Trace", "assignments_made", "branches_taken",
    "called_within_assertions", "conversions_made", "decisions_made", "entries_made", "floats_in", "has_long_numbers",
    "is_older", "is_start", "note_assignment", "note_branch", "note_conversion", "note_decision", "note_entry",
    "note_params", "note_reading", "note_return", "note_start", "note_step", "note_stop", "recording_elsewhere",
    "starts_made", "stops_made", "user_line",
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
        A sequence number as in records. Ops recorded later have smaller numbers.
    inside : bool
        Whether a custom gradient was running.
    by_library : bool
        Whether the library itself read the number, for example for the slots of an optimizer. Then the number returns
        only as the value of a variable.
    by_variable : bool
        Whether a variable took the value.
    by_step : bool
        Whether a step of an optimizer took the value, which stands for the old value and the gradient. The variable's
        new value depends on it, but has other numbers.
    is_shown : bool
        Whether the library read the number for a text that people read.
    is_whole : bool
        Whether the result is an integer, or Python took only a truth value, because neither varies with the tensor.
    returns : list of Return
        The constants that hold the number or array.
    """

    __slots__ = (
        "_array",
        "_scalar",
        "by_library",
        "by_step",
        "by_variable",
        "inside",
        "is_shown",
        "is_whole",
        "line",
        "number",
        "record",
        "returns",
        "value",
    )

    def __init__(self, tensor: Any, made: Any, by_library: bool) -> None:
        self.record, self.value = tensor._record, tensor._value
        self.line, self.number, self.inside = user_line(), next(count), _called_within_customs()
        self.by_library, self.is_shown = by_library, False
        self.is_whole, self.by_variable, self.by_step = isinstance(made, int), False, False
        self.returns: list[Return] = []
        is_array = isinstance(made, np.ndarray)
        self._array = weakref.ref(made) if is_array else None
        self._scalar = made if isinstance(made, (float, complex, np.inexact)) else None

    def made(self) -> Any:
        """The array or number; None if no other reference exists, because the value can then not come back."""
        if self._array is not None:
            return self._array()
        if self._scalar is not None and _references(self) <= _OWN_REFERENCES:
            self._scalar = None
        return self._scalar

    def found_in(self, constant: Any) -> Return | None:
        """The way in which a constant contains this array or number, or None.

        A constant contains the object if both are the same object, or if some of its numbers are numbers of the object,
        up to the sign, while the object is still in use. The result is certain if one of these numbers has many digits,
        because a short number, such as 0.5 or 0.1, may be equal by chance.
        """
        made = self.made()
        if made is None:
            return self._found_as_number(constant) or self._found_in_another_dtype(constant)
        there, here = np.asarray(constant), np.asarray(made)
        if made is constant:
            return Return(self, constant, np.arange(there.size).reshape(there.shape), np.ones(there.shape), True)
        if there.dtype.kind not in "fc" or (here.dtype.kind == "c" and there.dtype.kind == "f") or not here.size:
            return None
        with np.errstate(all="ignore"):
            numbers = here.astype(there.dtype).ravel()
        places = _places(there, numbers)
        known = places >= 0
        if not known.any():
            return None
        signs = np.where(known & (there != numbers[places]), -1.0, 1.0)
        return Return(self, constant, places, signs, has_long_numbers(there[known]))

    def _found_in_another_dtype(self, constant: Any) -> Return | None:
        """As `found_in`, for the result of an op whose array was converted, because `astype` makes a new array of it.

        An array of the same dtype is left out, because the same computation outside of the tape makes an equal one.
        """
        here, there = np.asarray(self.value), np.asarray(constant)
        if self._array is None or self.record[STEP] is None or not here.ndim or here.shape != there.shape:
            return None
        if here.dtype.kind != "f" or there.dtype.kind != "f" or here.dtype == there.dtype:
            return None
        with np.errstate(all="ignore"):
            numbers = here.astype(there.dtype)
        if not (has_long_numbers(there) and np.array_equal(numbers, there)):
            return None
        return Return(self, constant, np.arange(there.size).reshape(there.shape), np.ones(there.shape), True)

    def _found_as_number(self, constant: Any) -> Return | None:
        """As `found_in`, for a number without a reference, because `item` or `float` makes a new number of it.

        The very object that a source holds is left out, because a copy of the source, such as a frozen variable, holds
        it, too. A number of a source that only the library read, as it does for a text, is left out as well.
        """
        here, there = np.asarray(self.value), np.asarray(constant)
        if here.ndim or there.size != 1 or there.dtype.kind not in "fc" or here.dtype.kind not in "fc" or self.is_whole:
            return None
        if (
            (here.dtype.kind == "c" and there.dtype.kind == "f")
            or self._array is not None
            or not has_long_numbers(there)
        ):
            return None
        if self.record[STEP] is None and (self.by_library or constant is self.value):
            return None
        with np.errstate(all="ignore"):
            number = here.astype(there.dtype)
        if number != there.item() and number != -there.item():
            return None
        sign = 1.0 if number == there.item() else -1.0
        return Return(self, constant, np.zeros(there.shape, int), np.full(there.shape, sign), True)


class Return(NamedTuple):
    """A constant that holds a value that left the tape, or elements of such a value.

    Attributes
    ----------
    conversion : Conversion
    constant : raw value
    places : int array
        For each element of the constant the index of the equal element of the value, or -1. Repeated numbers are taken
        in order.
    signs : float array
        -1 if the element is the negative of the value's element, otherwise 1.
    certain : bool
        Whether chance cannot explain the equality.
    """

    conversion: Conversion
    constant: Any
    places: Any
    signs: Any
    certain: bool


class Assignment(NamedTuple):
    """A variable with its state before a change.

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
    """An object that holds the only reference to a number."""

    def __init__(self) -> None:
        self._scalar = float("1.5")


_OWN_REFERENCES = _references(_Unused())
_LARGE = 4096  # elements of a large array
_SOME = 16  # numbers that are searched for first
_SHORT = 12  # bits of a short binary number
_FEW = 5  # digits of a short decimal number


def _places(there: Any, numbers: Any) -> Any:
    """For each element of an array the index of an equal number, or of its negative, in a flat array; otherwise -1.

    Equal numbers that occur several times are taken in order.
    """
    sizes, wanted = np.abs(numbers), np.abs(there).ravel()
    if wanted.size == sizes.size and np.array_equal(wanted, sizes):
        return np.arange(there.size).reshape(there.shape)
    some = wanted[:: 1 + wanted.size // _SOME]
    if sizes.size > _LARGE and not any([(sizes == e).any() for e in some[some != 0].tolist()]):  # noqa: C419
        return np.full(there.shape, -1)  # because sorting large arrays takes long
    order = np.argsort(sizes, kind="stable")
    first = np.searchsorted(sizes[order], wanted, "left")
    count = np.searchsorted(sizes[order], wanted, "right") - first
    known = count > 0
    alike = np.argsort(first, kind="stable")  # equal elements become neighbours
    at = np.arange(wanted.size)
    news = np.diff(first[alike], prepend=-1) != 0
    rank = np.empty(wanted.size, np.intp)
    rank[alike] = at - np.maximum.accumulate(np.where(news, at, 0))
    found = np.full(wanted.size, -1)
    found[known] = order[first[known] + rank[known] % count[known]]
    return found.reshape(there.shape)


def has_long_numbers(values: Any) -> bool:
    """Whether some numbers have more digits than people write, in binary and in decimal."""
    flat = values.ravel()
    parts = flat.view(flat.real.dtype) if flat.dtype.kind == "c" else flat
    parts = np.abs(parts[np.isfinite(parts) & (parts != 0)][:64])
    if parts.dtype.itemsize < 4:  # half precision has too few digits
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
    """The file, line number and function of the innermost frame of the user's code."""
    frame: Any = sys._getframe()
    while frame is not None:
        code = frame.f_code
        if is_users(code.co_filename):
            return code.co_filename, frame.f_lineno, code.co_name
        frame = frame.f_back
    return "<unknown>", 0, "?"


def called_within_assertions() -> bool:
    """Whether an assertion of the library runs inside the user's innermost frame. Its module has ``ASSERTS``.

    Truth values that an assertion takes are not branches, because no result depends on them.
    """
    frame: Any = sys._getframe()
    while frame is not None and _is_ours(frame):
        if "ASSERTS" in frame.f_globals:
            return True
        frame = frame.f_back
    return False


# The methods by which a tensor or a variable becomes a number or an array.
_CONVERTING = frozenset(
    (
        "numpy", "__array__", "__float__", "__int__", "__complex__", "__index__", "__dlpack__", "__format__",
        "__reduce__", "_scalar", "_left",
    )
)  # fmt: skip
# The methods by which tensors and variables become a text for people.
_SHOWING = frozenset(("__repr__", "__str__"))


# NumPy's functions that convert a list for its shape or dtype alone.
_OF_LAYOUT = frozenset([getattr(f, "__wrapped__", f).__code__ for f in (np.shape, np.ndim, np.size, np.iscomplexobj)])


def _asking_frame() -> Any:
    """The frame that calls the method which converts a tensor."""
    frame: Any = sys._getframe()
    while frame is not None and (frame.f_globals is globals() or frame.f_code.co_name in _CONVERTING):
        frame = frame.f_back
    return frame


def _is_library_asking(frame: Any) -> bool:
    """Whether a frame that converts a tensor is the library's, and no code of the user's.

    A module whose numbers come back as constants, because a function of the user's or a setting takes them, has a
    constant ``LETS_OUT``.
    """
    return frame is not None and _is_ours(frame) and "LETS_OUT" not in frame.f_globals


def _is_for_people(frame: Any) -> bool:
    """Whether a frame of the library makes a text for people. A module with such functions has a constant ``SHOWS``."""
    return _is_ours(frame) and (frame.f_code.co_name in _SHOWING or "SHOWS" in frame.f_globals)


def _is_formatting() -> bool:
    """Whether a tensor is converted for a text by a format, such as that of an f-string."""
    frame: Any = sys._getframe()
    while frame is not None and (frame.f_globals is globals() or frame.f_code.co_name in _CONVERTING):
        if frame.f_code.co_name == "__format__":
            return True
        frame = frame.f_back
    return False


def _called_within_customs() -> bool:
    """Whether a function of a custom gradient runs. The module that calls the function has ``CUSTOMS``.

    A function whose gradient is that of its body, such as a recomputed one, counts as no custom gradient. Its module
    names the function in ``RECOMPUTING``.
    """
    frame: Any = sys._getframe()
    while frame is not None:
        if _is_ours(frame):
            if "CUSTOMS" in frame.f_globals:
                return True
            if frame.f_code.co_qualname.partition(".")[0] in frame.f_globals.get("RECOMPUTING", ()):
                return False
        frame = frame.f_back
    return False


class Trace:
    """The inputs and outputs of one op, and their dependence on other records.

    Attributes
    ----------
    inputs : tuple of Tensor
    output : raw value or tuple of raw values
    line : (file, number, function)
        The line of the user's code that called the op, or whose op has this op in its rule.
    rule_of : str or None
        The op of the user's whose rule called this op.
    origins : tuple of record or None
        The records of the inputs. They are kept here, because tensors drop their records when the last tape ends.
    flows : tuple of frozenset or None
        For each input the sessions that differentiate by it; None for a constant.
    idle : TapeSet
        The sessions of tapes for which the result is a constant that only a check follows. If these are not the
        sessions that hold the record, the result is a constant of the outer tapes that an inner tape follows.
    body : for custom gradients, the results of the function's body; a `GradNode` for a derivative
    body_origins : tuple of record or None
        The records of the body's results.
    call : (function, arguments, keyword arguments) or None
        The call of a custom gradient's function.
    begun : int
        A sequence number from before a custom gradient's function ran. Numbers count down, so the records of its body
        have smaller ones.
    """

    __slots__ = (
        "begun", "body", "body_origins", "call", "flows", "idle", "inputs", "line", "origins", "output", "rule_of",
    )  # fmt: skip

    def __init__(self, inputs: tuple[Any, ...], output: Any, stack: Any) -> None:
        self.inputs = inputs
        self.output = output
        by_rule = stack.deriving
        self.rule_of: str | None = None if by_rule is None else by_rule[0]
        self.line: tuple[str, int, str] = user_line() if by_rule is None else by_rule[1]
        self.origins: tuple[Any, ...] = tuple([x._record for x in inputs])
        for x, r in zip(inputs, self.origins, strict=True):
            if r is None and x._layout.inexact:
                note_return(stack, x._value)
        # The set is read now, because a tape that ends leaves the sets of the records that outlive it.
        self.flows = tuple([None if r is None else stack.meet(r[TAPES]).sessions for r in self.origins])
        self.idle: TapeSet = NO_TAPES
        self.body: Any = None
        self.body_origins: tuple[Any, ...] = ()
        self.call: Any = None
        self.begun = 0


class GradNode:
    """A derivative that was taken under an outer tape: its targets, sources, and cotangents or tangents.

    Attributes
    ----------
    targets : list of record
    given : list of (record or None, raw value)
        For "gradient" the cotangents of the targets, for "jvp" the tangents of the sources. Empty for Jacobians.
    sources : list of (record or None, raw value)
    index : int
        The index of the source to which this derivative belongs.
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


def note_branch(tensor: Any, read: type = bool) -> None:
    """Note a tensor whose truth value or integers Python read, because a tie before them makes the branch arbitrary.

    Parameters
    ----------
    tensor : Tensor
    read : {bool, int}
        Whether a truth value or integers.
    """
    for session in _noting(tensor):
        _append(session, "branches", (tensor._record, tensor._value, user_line(), read))


def note_decision(tensor: Any) -> None:
    """Note indices or a mask that a decision gave, because the program may read their size as a constant."""
    for session in _noting(tensor):
        _append(session, "decisions", (tensor._record, tensor._value, user_line()))


def note_conversion(tensor: Any, made: Any) -> Any:
    """Note a tensor that became a number or an array, because its value may come back as a constant.

    Returns
    -------
    number or array
        `made`, or an equal number without other references.
    """
    sessions = _noting(tensor)
    if not sessions:
        return made
    asking = _asking_frame()
    if asking is not None and asking.f_code in _OF_LAYOUT:
        return made
    for session in sessions:
        if len(session.conversions) in session.held:
            made = _like(made, session.held[len(session.conversions)])
    if made.__class__ is float:
        made = made * 1.0
    elif made.__class__ is complex:
        made = complex(made.real, made.imag)
    elif isinstance(made, np.inexact):
        made = made.dtype.type(made)
    found = Conversion(tensor, made, _is_library_asking(asking))
    found.is_shown = asking is not None and _is_for_people(asking)
    if _may_be_equal_by_chance(found):
        found.is_whole = asking is not None and isinstance(made, float) and is_asked_for_truth(asking)
    _note_alive(sessions, found)
    _append_to(sessions, "conversions", found)
    if not (found.is_shown or _is_formatting()):
        if isinstance(made, int) or getattr(made, "dtype", np.dtype(float)).kind in "biu":
            _append_to(sessions, "branches", (found.record, found.value, found.line, int))
        elif not found.by_library:  # Python may compare floats, of which no tape tells
            _append_to(sessions, "branches", (found.record, found.value, found.line, float))
    return made


def _may_be_equal_by_chance(found: Conversion) -> bool:
    """Whether a constant of the user's may have the numbers of a converted value: of a source, which users set."""
    is_source = found.record[STEP] is None and not (found.by_library or found.is_whole)
    return is_source and np.asarray(found.value).dtype.kind in "fc" and has_long_numbers(np.asarray(found.value))


def _note_alive(sessions: list[Session], found: Conversion) -> None:
    """Note the constants that are older than a conversion, because a target or a constant may be one of them.

    The first conversion of a source counts, and under strict the first one of all, because the search takes long.
    `check` runs the function again instead.
    """
    noting = [s for s in sessions if s.trace and not s.of_check]
    by_chance, lets_out = _may_be_equal_by_chance(found), not (found.is_shown or found.by_library or found.is_whole)
    of_source = [s for s in noting if by_chance and s.alive is None]
    of_any = [s for s in noting if lets_out and s.strict and s.alive_first is None]
    alive = ConstantsAlive() if of_source or of_any else None
    for session in of_source:
        session.alive = found.number, alive
    for session in of_any:
        session.alive_first = found.number, alive


def is_older(session: Session, conversion: Conversion, constant: Any) -> bool:
    """Whether a constant certainly existed before a value left."""
    noted = [made for made in (session.alive, session.alive_first) if made is not None]
    return any(conversion.number <= number and alive.has(constant) for number, alive in noted)


def _like(made: Any, value: Any) -> Any:
    """Another value, converted as `made` was. The value of another shape, which takes other branches, is left."""
    if np.shape(value) != np.shape(made):
        return made
    if isinstance(made, np.ndarray):
        return np.array(value, made.dtype)
    return made.dtype.type(value) if isinstance(made, np.generic) else type(made)(value)


def note_stop(stack: Any, tensor: Any) -> None:
    """Note a result of `gtape.stop_gradient`, because it is a constant on purpose."""
    _append_to(stack.sessions, "stopped", tensor._value if tensor._record is None else None)


def stops_made(session: Any) -> list[Any]:
    """The constants that `gtape.stop_gradient` returned while a session recorded; None for a result with a record."""
    return list(session.stopped)


def note_reading(tensor: Any, *, by_library: bool = False) -> None:
    """Note a tensor whose value an op reads as plain numbers, because no tape follows the numbers."""
    sessions, found = _noting(tensor), Conversion(tensor, tensor._value, by_library)
    _note_alive(sessions, found)
    _append_to(sessions, "conversions", found)


def note_assignment(stack: Any, variable: Any) -> None:
    """Note the state of a variable that is about to change, because a check may run the function again."""
    _append_to(stack.sessions, "assignments", Assignment(variable, variable._state(), user_line()))


def note_start(stack: Any, tensor: Any, value: Any) -> None:
    """Note the value that a variable takes over from a tensor, because no tape sees where later reads come from.

    The result of a metric counts as such a value, because the metric's variables hold it.

    Parameters
    ----------
    tensor : object
        The tensor, or another object from which no tape has a path.
    value : raw value
        The value of the variable.
    """
    if _holds(tensor, value):
        found = Conversion(tensor, tensor._value, False)
        found.by_variable = True
        found.returns.append(_whole(found, value))
        _append_to(_noting(tensor), "conversions", found)
    note_return(stack, value)
    _append_to(stack.sessions, "starts", (value, next(count)))


def note_step(tensor: Any, value: Any) -> None:
    """Note that the new value of a variable depends on a tensor, because a step of an optimizer read the tensor.

    Parameters
    ----------
    tensor : Tensor
        The sum of the old value and the gradient, because no tape sees how the optimizer combined them.
    value : raw value
        The new value.
    """
    found = Conversion(tensor, tensor._value, True)
    found.by_variable = found.by_step = True
    found.returns.append(_whole(found, value))
    _append_to(_noting(tensor), "conversions", found)


def _whole(conversion: Conversion, value: Any) -> Return:
    """The return of all elements of a value, in order."""
    shape = np.shape(value)
    return Return(conversion, value, np.arange(np.size(value)).reshape(shape), np.ones(shape), True)


def is_start(stack: Any, value: Any) -> bool:
    """Whether a variable took a value while a session of a check recorded."""
    return any(value is v for session in stack.sessions if session.trace for v, _ in session.starts)


def note_entry(stack: Any, tensor: Any) -> None:
    """Note a tensor that a tape or an accumulator begins to watch, because it may be a constant that enters here."""
    _append_to(stack.sessions, "entries", (tensor._value, next(count)))


def _holds(tensor: Any, value: Any) -> bool:
    """Whether an object is a recorded tensor with the given numbers."""
    if getattr(tensor, "_record", None) is None or not tensor._layout.inexact:
        return False
    here, there = np.asarray(tensor._value), np.asarray(value)
    with np.errstate(all="ignore"):
        return np.array_equal(here.astype(there.dtype), there, equal_nan=True)


def note_return(stack: Any, constant: Any) -> bool:
    """Note a constant that may be a value that left the tape of an active session. Returns whether it certainly is."""
    certain = False
    for session in stack.sessions:
        if session.trace:
            for made in session.conversions:
                if not any(constant is r.constant for r in made.returns):
                    found = made.found_in(constant)
                    if found is not None and not (is_older(session, made, constant) or is_literal(constant)):
                        made.returns.append(found)
                        certain = certain or found.certain
    return certain


def note_params(stack: Any, params: dict[str, Any]) -> None:
    """Note the numbers among the static parameters of an op that may be values that left the tape."""
    for value in floats_in(params):
        note_return(stack, value)


def floats_in(params: dict[str, Any]) -> list[Any]:
    """The floating-point numbers and arrays among the static parameters of an op."""
    pending, found = list(params.values()), []
    for value in pending:
        if isinstance(value, (tuple, list)):
            pending.extend(value)
        elif isinstance(value, (float, complex, np.inexact)) or (
            isinstance(value, np.ndarray) and value.dtype.kind in "fc"
        ):
            found.append(value)
    return found


def _append(session: Session, name: str, noted: Any) -> None:
    """Append to a list of a session. The list starts as an empty tuple."""
    kept = getattr(session, name)
    if kept.__class__ is tuple:
        with sharing:  # because several threads may append at the same time
            kept = getattr(session, name) or []
            setattr(session, name, kept)
    kept.append(noted)


def _append_to(sessions: Iterable[Session], name: str, noted: Any) -> None:
    """Append to a list of each session that notes events."""
    for session in sessions:
        if session.trace:
            _append(session, name, noted)


def recording_elsewhere(tensor: Any) -> list[Session]:
    """The sessions of checks that hold the record of a tensor and still record, all in other threads than this one."""
    sessions = [s for s in tensor._record[TAPES].sessions if s.trace and s.inside is not None]
    return [s for s in sessions if s.thread != threading.get_ident()] if sessions else sessions


def _noting(tensor: Any) -> list[Session]:
    """The sessions that note events of a tensor."""
    if called_within_assertions():
        return []
    here = [s for s in get_stack().sessions if s.trace]
    if here:
        known = tensor._record[TAPES].sessions | idle_in(tensor._record).sessions
        here = [s for s in here if s in known]
    return here + [s for s in recording_elsewhere(tensor) if s not in here]


def branches_taken(session: Any) -> list[tuple[Any, Any, Any, type]]:
    """For each truth value or numbers read while a session recorded: record, value, user's line, and the type.

    The type is bool, int or float.
    """
    return list(session.branches)


def decisions_made(session: Any) -> Noted:
    """The indices and masks that decisions gave while a session recorded, each as record, value and user's line."""
    return list(session.decisions)


def conversions_made(session: Any) -> list[Conversion]:
    """All tensors that became a number or an array while a session recorded."""
    return list(session.conversions)


def starts_made(session: Any) -> list[tuple[Any, int]]:
    """The values that variables took while a session recorded, each with its sequence number."""
    return list(session.starts)


def entries_made(session: Any) -> list[tuple[Any, int]]:
    """The values of all watched tensors while a session recorded, each with the sequence number of its watch."""
    return list(session.entries)


def assignments_made(session: Any) -> list[Assignment]:
    """All changes of variables while a session recorded."""
    return list(session.assignments)
