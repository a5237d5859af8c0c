"""The exceptions that gtape raises beyond Python's own, with TensorFlow's names and bases."""

from __future__ import annotations

from typing import Any

__all__ = [
    "AbortedError",
    "AlreadyExistsError",
    "CancelledError",
    "DataLossError",
    "DeadlineExceededError",
    "FailedPreconditionError",
    "InternalError",
    "InvalidArgumentError",
    "NotFoundError",
    "OpError",
    "OutOfRangeError",
    "PermissionDeniedError",
    "ResourceExhaustedError",
    "UnauthenticatedError",
    "UnavailableError",
    "UnimplementedError",
    "UnknownError",
    "VerificationError",
]


class OpError(Exception):
    """An op could not be carried out.

    Parameters
    ----------
    *args
        Either the message alone, or TensorFlow's ``(node_def, op, message)`` with an optional error code, which is
        accepted so that code which raises these errors itself runs unchanged.

    Attributes
    ----------
    message : str
        What was wrong.
    node_def, op : object
        Whatever was passed under these names, otherwise None.
    error_code : int
        TensorFlow's number for the class.

    Examples
    --------
    >>> from gtape import errors
    >>> errors.InvalidArgumentError("shapes (2,) and (3,) differ").message
    'shapes (2,) and (3,) differ'
    """

    error_code: int = 2

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.node_def: Any = None
        self.op: Any = None
        if len(args) >= 3:
            self.node_def, self.op = args[0], args[1]
            self.message = str(args[2])
            if len(args) > 3:
                self.error_code = int(args[3])
        else:
            self.message = str(args[0]) if args else ""

    def __str__(self) -> str:
        return self.message


class CancelledError(OpError):
    """The work was stopped before it was done."""

    error_code = 1


class UnknownError(OpError):
    """A failure that fits no other class."""

    error_code = 2


class InvalidArgumentError(OpError):
    """An argument has a value, shape or dtype that the op cannot take."""

    error_code = 3


class NotFoundError(OpError):
    """Something that was asked for by name does not exist."""

    error_code = 5


class AlreadyExistsError(OpError):
    """Something that was to be made exists already."""

    error_code = 6


class ResourceExhaustedError(OpError):
    """A limit, such as that of the memory, was reached."""

    error_code = 8


class FailedPreconditionError(OpError):
    """The op was run in a state that does not allow it."""

    error_code = 9


class AbortedError(OpError):
    """The op was given up half-way."""

    error_code = 10


class OutOfRangeError(OpError):
    """An iteration or an index ran past the end."""

    error_code = 11


class UnimplementedError(OpError):
    """The op exists, but not for these arguments."""

    error_code = 12


class InternalError(OpError):
    """Something that the library takes for granted does not hold: a fault in gtape itself."""

    error_code = 13


class DeadlineExceededError(OpError):
    """The work took longer than it was allowed to."""

    error_code = 4


class PermissionDeniedError(OpError):
    """The caller may not do this."""

    error_code = 7


class UnavailableError(OpError):
    """What the op needs is not there at the moment."""

    error_code = 14


class DataLossError(OpError):
    """Data are lost or damaged."""

    error_code = 15


class UnauthenticatedError(OpError):
    """It is not known who the caller is."""

    error_code = 16


class VerificationError(AssertionError):
    """A checked gradient is wrong, or could not be shown to be right where that was asked for.

    Parameters
    ----------
    message : str
        The report as text.
    report : object, optional
        The `gtape.verify.Report` behind it.

    Attributes
    ----------
    report : object
        The `gtape.verify.Report` behind it, or None.
    """

    def __init__(self, message: str = "", report: Any = None) -> None:
        super().__init__(message)
        self.report = report

    def __reduce__(self) -> Any:
        # The default would lose the report when the error crosses a process boundary.
        return (type(self), (str(self), self.report))
