"""`enable_check_numerics`: ops that make a NaN or an infinity raise an error with their name and the user's line.

Every kernel is called through the `run` of its thread's stack. To enable the check is to replace this `run`, so a
disabled check costs nothing. A block that ends passes the current `run` to the stack that it restores.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from gtape.base.escaping import plain
from gtape.base.half_precision import narrowed
from gtape.base.locks import Lock
from gtape.declare.primitives import REGISTRY, Primitive
from gtape.engine.full_sweep import full_sweep
from gtape.engine.sweep import short_sweep
from gtape.errors import InvalidArgumentError
from gtape.namespaces import catalogue
from gtape.recording import record
from gtape.recording.trace import user_line

__all__ = ["disable_check_numerics", "enable_check_numerics"]

# The names of the ops by their kernels. A kernel planned for a layout has the name of the op as its own.
_names: dict[Callable[..., Any], str] = {}
# Ops that only move or choose values, because an earlier op made the value. TensorFlow skips the same ops.
_harmless: set[str] = set()
# The threads that enabled the check.
_checking: set[int] = set()
_lock = Lock()


class _CheckedRun:
    """Calls kernels like a stack's own `run`, and checks their results."""

    __slots__ = ("kernel", "unchecked")

    def __init__(self, unchecked: Callable[..., Any]) -> None:
        self.unchecked = unchecked
        self.kernel: Any = None  # the last kernel

    def in_place(self, unchecked: Callable[..., Any]) -> _CheckedRun:
        """The same check around another `run`."""
        return _CheckedRun(unchecked)

    def __call__(self, f: Callable[..., Any], *args: Any, **params: Any) -> Any:
        made = self.unchecked(f, *args, **params)
        if f is short_sweep:
            _check_gradient(made)
        elif f is full_sweep:
            # After a recorded selection, a sweep with NaN or infinity is repeated with masks and checked afterwards.
            if params.get("masked") or not args[1].selects:
                _check_gradient(made[0])
        else:
            if f is not narrowed:  # `narrowed` only rounds the last kernel's result to half precision
                self.kernel = f
            named = _names.get(self.kernel) if self.kernel.__hash__ is not None else None
            name = named or plain(getattr(self.kernel, "__name__", "an op"))
            if name not in _harmless:
                for i, part in enumerate(made if made.__class__ is tuple else (made,)):
                    if _bad(part):
                        raise _found(name, i, part, args)
        return made


def _bad(x: Any) -> bool:
    if x.__class__ is float:
        return not math.isfinite(x)
    return isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind in "fV" and not np.isfinite(x).all()


def _kinds(x: Any) -> str:
    counts = {"NaN": np.isnan(x), "-Inf": np.equal(x, -np.inf), "+Inf": np.equal(x, np.inf)}
    return ", ".join(f"{int(n)} {what}" for what, where in counts.items() if (n := np.count_nonzero(where)))


def _found(name: str, i: int, made: Any, args: tuple[Any, ...]) -> InvalidArgumentError:
    file, line, function = user_line()
    shown = [np.array2string(np.asarray(a), threshold=6, edgeitems=3) for a in args if not callable(a)]
    return InvalidArgumentError(
        f"Detected Infinity or NaN in output {i} of {name}: {_kinds(made)} among {np.size(made)} elements of "
        f"{np.asarray(made).dtype.name}, shape {np.shape(made)}, in {file}:{line} ({function}). "
        f"Inputs: {'; '.join(shown)}. gtape.debugging.disable_check_numerics() ends the check."
    )


def _check_gradient(cotangents: Any) -> None:
    for c in cotangents:
        values: Any = getattr(c, "values", c)  # the rows of a sparse cotangent
        values = values if isinstance(values, (float, np.ndarray, np.generic)) else getattr(values, "_value", None)
        if _bad(values):
            file, line, function = user_line()
            raise InvalidArgumentError(
                f"Detected Infinity or NaN in a gradient: {_kinds(values)} among {np.size(values)} elements of shape "
                f"{np.shape(values)}, in {file}:{line} ({function}). With a persistent tape, tape.explain(y, x) says "
                "where they come from; gtape.debugging.disable_check_numerics() ends the check."
            )


def _call_every_kernel(so: bool) -> None:
    """Compute Python floats by kernels, too, or by the generated functions again.

    The change affects all threads. The other threads only get slower.
    """
    Primitive.inlined = not so
    for prim in list(dict.values(REGISTRY)):
        prim.renew()


def _name_kernels() -> None:
    _harmless.update(prim.name for prim in REGISTRY.values() if "move" in prim.roles)
    _names.update({prim.kernel: prim.name for prim in REGISTRY.values() if prim.kernel.__hash__ is not None})


def enable_check_numerics(stack_height_limit: int = 30, path_length_limit: int = 50) -> None:
    """Make ops and gradients of this thread raise an error for a NaN or an infinity in their results.

    Ops that only move or choose values (reshape, concat, maximum ...) and complex results are not checked. A second
    call changes nothing.

    Parameters
    ----------
    stack_height_limit, path_length_limit : int
        Ignored; TensorFlow has them for the length of its error.

    Returns
    -------
    None

    Raises
    ------
    gtape.errors.InvalidArgumentError
        Later, if a result of an op is NaN or infinite.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.debugging.enable_check_numerics()
    >>> try:
    ...     tf.math.log(tf.constant([1.0, 0.0]))
    ... except tf.errors.InvalidArgumentError as error:
    ...     print(error.message.partition(" among")[0])
    Detected Infinity or NaN in output 0 of log: 1 -Inf
    >>> tf.debugging.disable_check_numerics()
    >>> tf.math.log(tf.constant([1.0, 0.0])).numpy()
    array([  0., -inf], dtype=float32)
    """
    stack = record.get_stack()
    if isinstance(stack.run, _CheckedRun):
        return
    catalogue.load()
    for s in {stack, record.idle_stack()}:  # the current stack, and the stack after all blocks
        if not isinstance(s.run, _CheckedRun):
            s.run = _CheckedRun(s.run)
    with _lock:
        _name_kernels()
        if not _checking:
            _call_every_kernel(True)
        _checking.add(threading.get_ident())


def disable_check_numerics() -> None:
    """End the check of `enable_check_numerics` in this thread, if there is one.

    Returns
    -------
    None

    Examples
    --------
    >>> import gtape as tf
    >>> tf.debugging.disable_check_numerics()
    """
    stack = record.get_stack()
    if not isinstance(stack.run, _CheckedRun):
        return
    for s in {stack, record.idle_stack()}:
        if isinstance(s.run, _CheckedRun):
            s.run = s.run.unchecked
    with _lock:
        _checking.discard(threading.get_ident())
        if not _checking:
            _call_every_kernel(False)
