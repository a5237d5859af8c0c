"""The exceptions that gtape raises beyond Python's own, with TensorFlow's names and bases."""

from __future__ import annotations

from typing import Any

from gtape.base.sections import add_sections

__all__ = [
    "ABORTED", "ALREADY_EXISTS", "CANCELLED", "DATA_LOSS", "DEADLINE_EXCEEDED", "FAILED_PRECONDITION", "INTERNAL",
    "INVALID_ARGUMENT", "NOT_FOUND", "OK", "OUT_OF_RANGE", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED",
    "UNAUTHENTICATED", "UNAVAILABLE", "UNIMPLEMENTED", "UNKNOWN",
    "AbortedError", "AlreadyExistsError", "CancelledError", "DataLossError", "DeadlineExceededError",
    "FailedPreconditionError", "InternalError", "InvalidArgumentError", "NotATensorError", "NotFoundError", "OpError",
    "OperandTypeError", "OperandValueError", "OperatorNotAllowedInGraphError", "OutOfRangeError",
    "PermissionDeniedError", "ResourceExhaustedError", "ShapeError", "UnauthenticatedError", "UnavailableError",
    "UnimplementedError", "UnknownError", "VerificationError",
]  # fmt: skip

__dir__ = __all__.copy  # the names for `dir`, which sorts them


# The values of `OpError.error_code`.
(
    OK, CANCELLED, UNKNOWN, INVALID_ARGUMENT, DEADLINE_EXCEEDED, NOT_FOUND, ALREADY_EXISTS, PERMISSION_DENIED,
    RESOURCE_EXHAUSTED, FAILED_PRECONDITION, ABORTED, OUT_OF_RANGE, UNIMPLEMENTED, INTERNAL, UNAVAILABLE, DATA_LOSS,
    UNAUTHENTICATED,
) = range(17)  # fmt: skip


class OpError(Exception):
    """An op failed.

    Parameters
    ----------
    *args
        Either the message alone, or TensorFlow's ``(node_def, op, message)`` with an optional error code. Both forms
        exist, because programs written for TensorFlow raise these errors with three arguments.

    Attributes
    ----------
    message : str
    node_def, op : object
        The arguments of these names, otherwise None.
    error_code : int
        TensorFlow's number for the class.

    Examples
    --------
    >>> from gtape import errors
    >>> errors.InvalidArgumentError("shapes (2,) and (3,) differ").message
    'shapes (2,) and (3,) differ'
    """

    error_code: int = UNKNOWN

    def __init_subclass__(cls, error_code: int | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if error_code is not None:
            cls.error_code = error_code
            add_sections(cls, Examples=f'>>> tf.errors.{cls.__name__}("why").error_code\n{error_code}')

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
        """Further information on the error: always empty."""
        return {}

    def __str__(self) -> str:
        return self.message


class CancelledError(OpError, error_code=CANCELLED):
    """The work was stopped before it was done."""


class UnknownError(OpError, error_code=UNKNOWN):
    """A failure that fits no other class."""


class InvalidArgumentError(OpError, error_code=INVALID_ARGUMENT):
    """An argument has a value, shape or dtype that the op cannot take."""


class OperandTypeError(InvalidArgumentError, TypeError):
    """An argument has a type that the op does not accept, or that does not fit another argument.

    The class derives from InvalidArgumentError and TypeError, because TensorFlow raises one or the other, depending on
    the op.

    Examples
    --------
    >>> import gtape as tf
    >>> issubclass(tf.errors.OperandTypeError, TypeError)
    True
    """


class OperandValueError(OperandTypeError, ValueError):
    """An argument is None or a single truth value where the op needs a number.

    The class derives from ValueError, too, because TensorFlow raises it for these arguments.

    Examples
    --------
    >>> import gtape as tf
    >>> issubclass(tf.errors.OperandValueError, ValueError)
    True
    """


class ShapeError(InvalidArgumentError, ValueError):
    """The shapes of arguments do not fit.

    The class derives from ValueError, too, because TensorFlow raises it where it knows the shapes before it computes.

    Examples
    --------
    >>> import gtape as tf
    >>> issubclass(tf.errors.ShapeError, tf.errors.InvalidArgumentError)
    True
    """


class NotATensorError(TypeError, AttributeError):
    """An argument is a number, an array or another object instead of a tensor or a variable.

    The class derives from AttributeError and TypeError, because TensorFlow raises one or the other, depending on the
    object.

    Examples
    --------
    >>> import gtape as tf
    >>> issubclass(tf.errors.NotATensorError, (TypeError, AttributeError))
    True
    """


class NotFoundError(OpError, error_code=NOT_FOUND):
    """No file, variable or other object has the given name."""


class AlreadyExistsError(OpError, error_code=ALREADY_EXISTS):
    """The object to create exists already."""


class ResourceExhaustedError(OpError, error_code=RESOURCE_EXHAUSTED):
    """A limit, such as that of memory, was reached."""


class FailedPreconditionError(OpError, error_code=FAILED_PRECONDITION):
    """The op was run in a state that does not allow it."""


class AbortedError(OpError, error_code=ABORTED):
    """The op was given up half-way."""


class OutOfRangeError(OpError, error_code=OUT_OF_RANGE):
    """An iteration or an index ran past the end."""


class UnimplementedError(OpError, error_code=UNIMPLEMENTED):
    """The op exists, but not for these arguments."""


class InternalError(OpError, error_code=INTERNAL):
    """An assumption of the library does not hold: a fault in gtape itself."""


class DeadlineExceededError(OpError, error_code=DEADLINE_EXCEEDED):
    """The work took longer than it was allowed to."""


class PermissionDeniedError(OpError, error_code=PERMISSION_DENIED):
    """The caller may not do this."""


class UnavailableError(OpError, error_code=UNAVAILABLE):
    """A resource of the op is unavailable at the moment."""


class DataLossError(OpError, error_code=DATA_LOSS):
    """Data are lost or damaged."""


class UnauthenticatedError(OpError, error_code=UNAUTHENTICATED):
    """The caller's identity is unknown."""


class OperatorNotAllowedInGraphError(TypeError):
    """While a compiled function is traced, Python needs the truth value of a tensor, as in an `if` statement.

    Examples
    --------
    >>> import gtape as tf
    >>> issubclass(tf.errors.OperatorNotAllowedInGraphError, TypeError)
    True
    """


class VerificationError(AssertionError):
    """A checked gradient is wrong, or undecided if undecided gradients count as failures.

    Parameters
    ----------
    message : str
        The report as text.
    report : gtape.verify.Report, optional
        Kept as the attribute `report`.

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
        # The default implementation loses the report when the error crosses a process boundary.
        return (type(self), (str(self), self.report))
