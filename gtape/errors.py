"""The exceptions that gtape raises beyond Python's own, with TensorFlow's names and bases."""

from __future__ import annotations

from typing import Any

__all__ = [
    "ABORTED", "ALREADY_EXISTS", "CANCELLED", "DATA_LOSS", "DEADLINE_EXCEEDED", "FAILED_PRECONDITION", "INTERNAL",
    "INVALID_ARGUMENT", "NOT_FOUND", "OK", "OUT_OF_RANGE", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED",
    "UNAUTHENTICATED", "UNAVAILABLE", "UNIMPLEMENTED", "UNKNOWN",
    "AbortedError", "AlreadyExistsError", "CancelledError", "DataLossError", "DeadlineExceededError",
    "FailedPreconditionError", "InternalError", "InvalidArgumentError", "NotATensorError", "NotFoundError", "OpError",
    "OperandTypeError", "OperatorNotAllowedInGraphError", "OutOfRangeError", "PermissionDeniedError",
    "ResourceExhaustedError", "UnauthenticatedError", "UnavailableError", "UnimplementedError", "UnknownError",
    "VerificationError",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)


# What `OpError.error_code` holds, one number for each class.
OK = 0
CANCELLED = 1
UNKNOWN = 2
INVALID_ARGUMENT = 3
DEADLINE_EXCEEDED = 4
NOT_FOUND = 5
ALREADY_EXISTS = 6
PERMISSION_DENIED = 7
RESOURCE_EXHAUSTED = 8
FAILED_PRECONDITION = 9
ABORTED = 10
OUT_OF_RANGE = 11
UNIMPLEMENTED = 12
INTERNAL = 13
UNAVAILABLE = 14
DATA_LOSS = 15
UNAUTHENTICATED = 16


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

    error_code: int = UNKNOWN

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

    @property
    def experimental_payloads(self) -> dict[str, bytes]:
        """Further information on the error: none, ever."""
        return {}

    def __str__(self) -> str:
        return self.message


class CancelledError(OpError):
    """The work was stopped before it was done.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.errors.CancelledError("why").error_code == tf.errors.CANCELLED
    True
    """

    error_code = CANCELLED


class UnknownError(OpError):
    """A failure that fits no other class.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.errors.UnknownError("why").error_code == tf.errors.UNKNOWN
    True
    """

    error_code = UNKNOWN


class InvalidArgumentError(OpError):
    """An argument has a value, shape or dtype that the op cannot take.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.errors.InvalidArgumentError("why").error_code == tf.errors.INVALID_ARGUMENT
    True
    """

    error_code = INVALID_ARGUMENT


class OperandTypeError(InvalidArgumentError, TypeError):
    """An argument is of a type that the op does not take, or that does not fit the tensor it is combined with.

    TensorFlow raises InvalidArgumentError in some ops and TypeError in others: code that expects either works.

    Examples
    --------
    >>> import gtape as tf
    >>> issubclass(tf.errors.OperandTypeError, TypeError)
    True
    """


class NotATensorError(TypeError, AttributeError):
    """A number, an array or another object stands where a tensor or a variable is to be.

    TensorFlow raises AttributeError for some of them and TypeError for others: code that expects either works.

    Examples
    --------
    >>> import gtape as tf
    >>> issubclass(tf.errors.NotATensorError, (TypeError, AttributeError))
    True
    """


class NotFoundError(OpError):
    """Something that was asked for by name does not exist.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.errors.NotFoundError("why").error_code == tf.errors.NOT_FOUND
    True
    """

    error_code = NOT_FOUND


class AlreadyExistsError(OpError):
    """Something that was to be made exists already.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.errors.AlreadyExistsError("why").error_code == tf.errors.ALREADY_EXISTS
    True
    """

    error_code = ALREADY_EXISTS


class ResourceExhaustedError(OpError):
    """A limit, such as that of the memory, was reached.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.errors.ResourceExhaustedError("why").error_code == tf.errors.RESOURCE_EXHAUSTED
    True
    """

    error_code = RESOURCE_EXHAUSTED


class FailedPreconditionError(OpError):
    """The op was run in a state that does not allow it.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.errors.FailedPreconditionError("why").error_code == tf.errors.FAILED_PRECONDITION
    True
    """

    error_code = FAILED_PRECONDITION


class AbortedError(OpError):
    """The op was given up half-way.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.errors.AbortedError("why").error_code == tf.errors.ABORTED
    True
    """

    error_code = ABORTED


class OutOfRangeError(OpError):
    """An iteration or an index ran past the end.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.errors.OutOfRangeError("why").error_code == tf.errors.OUT_OF_RANGE
    True
    """

    error_code = OUT_OF_RANGE


class UnimplementedError(OpError):
    """The op exists, but not for these arguments.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.errors.UnimplementedError("why").error_code == tf.errors.UNIMPLEMENTED
    True
    """

    error_code = UNIMPLEMENTED


class InternalError(OpError):
    """Something that the library takes for granted does not hold: a fault in gtape itself.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.errors.InternalError("why").error_code == tf.errors.INTERNAL
    True
    """

    error_code = INTERNAL


class DeadlineExceededError(OpError):
    """The work took longer than it was allowed to.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.errors.DeadlineExceededError("why").error_code == tf.errors.DEADLINE_EXCEEDED
    True
    """

    error_code = DEADLINE_EXCEEDED


class PermissionDeniedError(OpError):
    """The caller may not do this.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.errors.PermissionDeniedError("why").error_code == tf.errors.PERMISSION_DENIED
    True
    """

    error_code = PERMISSION_DENIED


class UnavailableError(OpError):
    """What the op needs is not there at the moment.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.errors.UnavailableError("why").error_code == tf.errors.UNAVAILABLE
    True
    """

    error_code = UNAVAILABLE


class DataLossError(OpError):
    """Data are lost or damaged.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.errors.DataLossError("why").error_code == tf.errors.DATA_LOSS
    True
    """

    error_code = DATA_LOSS


class UnauthenticatedError(OpError):
    """It is not known who the caller is.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.errors.UnauthenticatedError("why").error_code == tf.errors.UNAUTHENTICATED
    True
    """

    error_code = UNAUTHENTICATED


class OperatorNotAllowedInGraphError(TypeError):
    """Python asked for the value of a tensor that has none yet; gtape's tensors have theirs at once.

    It is here so that code which catches it runs.

    Examples
    --------
    >>> import gtape as tf
    >>> issubclass(tf.errors.OperatorNotAllowedInGraphError, TypeError)
    True
    """


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

    Examples
    --------
    >>> import gtape as tf
    >>> @tf.custom_gradient
    ... def wrong(x):
    ...     return x * x, lambda g: g * x
    >>> x = tf.Variable(3.0)
    >>> with tf.GradientTape(verify=True) as tape:
    ...     y = wrong(x)
    >>> try:
    ...     tape.gradient(y, x)
    ... except tf.VerificationError as error:
    ...     print(error.report.verdict)
    rule
    """

    def __init__(self, message: str = "", report: Any = None) -> None:
        super().__init__(message)
        self.report = report

    def __reduce__(self) -> Any:
        # The default would lose the report when the error crosses a process boundary.
        return (type(self), (str(self), self.report))
