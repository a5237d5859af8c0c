"""GradientTape: records ops while it is active, and returns gradients of the recording."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar, overload

import numpy as np

from gtape import dtypes, nest
from gtape.base import late
from gtape.base.blocks import Leaving, block, is_open
from gtape.base.imports import library
from gtape.base.layout import FLOAT
from gtape.base.scalars import truth_of
from gtape.base.shown import shown
from gtape.base.verification import BLOCKS, Mode, Options, checked_mode, is_switched_off, verify_mode
from gtape.engine.differentiation import differentiate
from gtape.engine.jacobians import batch_jacobian, jacobians, release
from gtape.engine.requests import (
    SIMPLE,
    UnconnectedGradients,
    leaves,
    one_of,
    result_of,
    seeds_of,
    wants_zeros,
    zeros_for,
)  # fmt: skip
from gtape.engine.sweep import short_sweep
from gtape.engine.whole_calls import is_part_of_call
from gtape.recording import record
from gtape.recording.record import COT, LEAF, SEQ, STEP, TAPES, Session, TapeSet, for_a_check_alone, record_of
from gtape.recording.trace import note_entry
from gtape.tensors.indexed_slices import IndexedSlices
from gtape.tensors.tensor import Tensor, wrap
from gtape.tensors.variable import Variable

__all__ = ["GradientTape"]

_K = TypeVar("_K")


def _warn(text: str, *args: Any) -> None:
    logging = library("logging")  # the standard library's slowest common module: only where there is something to say

    logging.getLogger("gtape").warning(text, *args)


_NONE = UnconnectedGradients.NONE


def _dtype_warning(dtype: dtypes.DType) -> None:
    if _dtype_warning.count < 5:  # type: ignore[attr-defined]
        _dtype_warning.count += 1  # type: ignore[attr-defined]
        _warn("The dtype of the watched tensor must be floating (e.g. gtape.float32), got %r", dtype)


_dtype_warning.count = 0  # type: ignore[attr-defined]


def _cost_warning() -> None:
    """Warn once that a persistent tape records its own gradients."""
    if not _cost_warning.given:  # type: ignore[attr-defined]
        _cost_warning.given = True  # type: ignore[attr-defined]
        _warn(
            "gradient() of a persistent tape inside its own block is recorded, too, which costs time and memory. "
            "Call it there only for derivatives of higher order"
        )


_cost_warning.given = False  # type: ignore[attr-defined]

_NOT_USUAL: Any = object()
_USED = "A non-persistent GradientTape can only be used to compute one set of gradients (or jacobians)"
_TAKES = "takes gradients from a tape from before the call"
_WATCHES = "watches a tensor with a tape from before the call"
_STILL = "Tape is still recording, This can happen if you try to re-enter an already-active tape."


class GradientTape:
    """Records operations for automatic differentiation.

    Parameters
    ----------
    persistent : bool
        Whether `gradient` may be called more than once.
    watch_accessed_variables : bool
        Whether trainable variables are watched when they are read inside the block.
    verify : bool, "strict" or gtape.verify.Options, keyword only
        Check every gradient against the exact derivative, and raise `VerificationError` if they differ. A gradient that
        the check cannot decide leads to a warning, or to an error with "strict". Options set the verdicts that raise,
        and the extent of the checks. By default `verifying` blocks and the environment variable GTAPE_VERIFY decide.

    Examples
    --------
    >>> import gtape as tf
    >>> x = tf.constant(3.0)
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = x * x
    >>> tape.gradient(y, x)
    <gtape.Tensor: shape=(), dtype=float32, numpy=6.0>
    """

    def __init__(
        self, persistent: bool = False, watch_accessed_variables: bool = True, *, verify: Mode | None = None
    ) -> None:
        if verify is not None:
            verify = checked_mode(verify, "verify takes")
        # These comparisons come first, because every training step makes a tape.
        if persistent.__class__ is not bool:
            persistent = truth_of(persistent, "GradientTape", "persistent")
        if watch_accessed_variables.__class__ is not bool:
            watch_accessed_variables = truth_of(watch_accessed_variables, "GradientTape", "watch_accessed_variables")
        self._persistent, self._watch_accessed = persistent, watch_accessed_variables
        self._verify = verify
        if BLOCKS and verify is None:
            mode = verify_mode()
            if mode:
                self._mode_of_block = mode
        self._watched: dict[int, Variable] = {}
        self._session: Session | None = None
        # The `with` statement that is entering this tape, or that paused it.
        self._watch: Any = None

    # Class attributes, because few tapes change them.
    _pause: Any = None  # the `stop_recording` block that paused this tape
    _mode_of_block: Any = False  # of the `verifying` block, or the environment, where the tape was made or recorded

    # ------------------------------------------------------------------------------------------ recording

    def _mode(self) -> Any:
        if self._verify is not None:
            return self._verify
        mode = verify_mode()
        return mode if mode or is_switched_off() else self._mode_of_block

    def _new_session(self) -> Session:
        exact = self._persistent
        mode = verify_mode() if self._verify is None else self._verify
        if not mode and self._mode_of_block:
            mode = self._mode()
        trace = bool(mode)
        if trace:
            self._mode_of_block = mode
        tracks_for_now = not exact and record.should_track()
        session = (
            Session(trace=trace, exact=exact, tracks_for_now=tracks_for_now)
            if trace or exact or tracks_for_now
            else Session()
        )
        if not self._watch_accessed:
            session.watch_accessed = False
        if trace:
            session.strict = Options.of(mode).strict
        return session

    def __enter__(self) -> GradientTape:
        entered = None
        try:
            with record.sharing.now:  # because only one of several threads may enter
                session = self._session
                if session is None:
                    session = self._session = self._new_session()
                elif session.inside is not None:
                    raise ValueError(_STILL)
                else:
                    record.refuse_in_traced_calls("enters a tape from before the call again", session)
                watch, self._watch = self._watch, None
                record.enter(session, watch)
                entered = session
        except BaseException:
            if entered is not None:  # after an interrupt `__exit__` may not follow
                record.leave(entered)
            raise
        return self

    def _exit(self, *exc: Any) -> None:
        session = self._session
        if session is not None and session.inside is not None:
            record.leave(session)
        if self._pause is not None:
            self._pause = None

    __exit__ = Leaving(_exit)

    def __del__(self) -> None:
        session = getattr(self, "_session", None)
        if session is not None and record is not None:  # modules lose their names when the interpreter ends
            record.close(session, unused=not self._persistent)

    def watch(self, tensor: Any) -> None:
        """Watch a tensor: from now on this tape can differentiate by it.

        Parameters
        ----------
        tensor : tensor, variable or nest of these

        Raises
        ------
        ValueError
            If an argument is of another type.
        AttributeError
            If the tape was never entered.
        """
        session = self._session
        if tensor.__class__ is Tensor and session is not None and tensor._layout.inexact:  # the usual case
            with record.sharing.now:
                self._watch_one(tensor)
            return
        items = nest.flatten(tensor)
        for item in items:
            if not isinstance(item, (Tensor, Variable, IndexedSlices)):
                raise ValueError(
                    f"Passed in object {shown(item)} of type {type(item).__name__!r}, not gtape.Tensor or "
                    "gtape.Variable or ExtensionType."
                )
        if self._session is None:
            raise AttributeError("this tape is not recording anything to watch: call watch() inside its `with` block")
        record.refuse_in_traced_calls(_WATCHES, self._session)
        for item in items:
            if isinstance(item, IndexedSlices):
                item = item.values
            if not item._layout.inexact:
                _dtype_warning(item.dtype)
            elif isinstance(item, Variable):
                self._session.variables[item._uid] = item
                item._watch((self._session,))
            else:
                with record.sharing:
                    self._watch_one(item)

    def _watch_one(self, t: Tensor) -> None:
        session = self._session
        assert session is not None
        r = t._record
        if r is None and session.inside is not None and session.inside.recording is session.alone:  # the usual case
            t._record = record.leaf(session.alone)
        else:
            self._watch_record(t, session, r)
        if (session.inside or record.get_stack()).trace:
            note_entry(record.get_stack(), t)
        session.note_watched(t)

    def _watch_record(self, t: Tensor, session: Session, r: Any) -> None:
        """Watch a tensor that has a record, or that several tapes record, or after the block of this tape."""
        if session.inside is None:
            record.refuse_in_traced_calls(_WATCHES, session)
        if r is None or for_a_check_alone(r):
            r = t._record = record.watched_leaf(r)
        elif r[STEP] is None:
            r[COT] = LEAF
        else:  # a result of another tape, which still needs the record
            session.shared = True
            if session not in r[TAPES].sessions:
                session.stops |= {r[SEQ]}  # for this tape the tensor is a source, even if an op made it
            for other in r[TAPES].sessions:
                other.shared = True
        _extend(r, (session,))

    def __copy__(self) -> GradientTape:
        return self  # the tape itself, because the end of a copy would end the recording of both

    def __deepcopy__(self, memo: Any) -> GradientTape:
        return self

    def __reduce__(self) -> Any:
        raise TypeError("a GradientTape cannot be pickled: take the gradient first, and pickle that")

    def watched_variables(self) -> tuple[Variable, ...]:
        """The variables watched so far, from old to new."""
        variables = self._watched if self._session is None else self._session.variables
        return tuple(v for _, v in sorted(variables.items()))

    @block
    def stop_recording(self) -> Iterator[None]:
        """Pause this tape, and no other one, during a block.

        Raises
        ------
        RuntimeError
            If the tape was never entered.
        ValueError
            If the tape is not recording.

        Examples
        --------
        >>> import gtape as tf
        >>> x = tf.Variable(3.0)
        >>> with tf.GradientTape() as tape:
        ...     with tape.stop_recording():
        ...         y = x * x
        >>> print(tape.gradient(y, x))
        None
        """
        session = self._session
        if session is None:
            raise RuntimeError("Trying to stop recording a tape which is not recording.")
        if session.inside is None:
            raise ValueError("Tape is not recording.")
        record.refuse_in_traced_calls("pauses a tape from before the call", session)
        statement = session.watch
        pause = self._pause = object()
        paused = False
        try:
            record.leave(session)
            paused = True
            yield
        finally:
            if not paused:  # an interrupt stopped `leave` before its end
                record.leave(session)
            # Only while the tape's own block is open, because after an interrupt this code may run later.
            if self._pause is pause and (statement is None or is_open(statement)):
                self._pause, self._watch = None, statement
                self.__enter__()

    def reset(self) -> None:
        """Forget everything recorded and watched so far, and continue recording.

        Raises
        ------
        ValueError
            If the tape is not recording.

        Examples
        --------
        >>> import gtape as tf
        >>> x = tf.Variable(3.0)
        >>> with tf.GradientTape() as tape:
        ...     y = x * x
        ...     tape.reset()
        ...     z = 2.0 * x
        >>> print(tape.gradient(y, x))
        None
        """
        session = self._session
        if session is None or session.inside is None:
            raise ValueError("Tape is not recording.")
        record.refuse_in_traced_calls("resets a tape from before the call", session)
        statement = session.watch
        record.close(session)
        self._session, self._watch = None, statement
        self.__enter__()

    # ------------------------------------------------------------------------------------------ gradients

    def _begin(self) -> Session:
        """Claim the recording for one call of a gradient method. Ends the recording of a non-persistent tape."""
        session = self._session
        if session is None:
            raise RuntimeError(_USED)
        record.refuse_in_traced_calls(_TAKES, session)
        if self._persistent:
            if session.inside is not None:
                _cost_warning()
            return session
        if session.inside is not None:
            record.leave(session)
        self._claim(session)
        return session

    def _claim(self, session: Session) -> None:
        """Take the recording from this tape. If several threads try, one gets the recording."""
        try:
            session.unused.pop()
        except IndexError:
            raise RuntimeError(_USED) from None
        self._watched = session.variables
        if self._session is session:
            self._session = None

    # The annotation is `Any` or `Tensor`, because a gradient may be None or IndexedSlices.
    @overload
    def gradient(
        self, target: Any, sources: Tensor | Variable, output_gradients: Any = ..., unconnected_gradients: Any = ...
    ) -> Tensor | Any: ...
    @overload
    def gradient(
        self, target: Any, sources: list[Any], output_gradients: Any = ..., unconnected_gradients: Any = ...
    ) -> list[Tensor | Any]: ...
    @overload
    def gradient(
        self, target: Any, sources: tuple[Any, ...], output_gradients: Any = ..., unconnected_gradients: Any = ...
    ) -> tuple[Tensor | Any, ...]: ...
    @overload
    def gradient(
        self, target: Any, sources: dict[_K, Any], output_gradients: Any = ..., unconnected_gradients: Any = ...
    ) -> dict[_K, Tensor | Any]: ...
    @overload
    def gradient(
        self, target: Any, sources: Any, output_gradients: Any = ..., unconnected_gradients: Any = ...
    ) -> Any: ...
    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
    ) -> Any:
        """The gradient of the sum of all elements of all targets.

        Parameters
        ----------
        target : tensor, variable or nest
            The values to differentiate.
        sources : tensor, variable or nest
            The values to differentiate with respect to.
        output_gradients : tensor or nest, optional
            A cotangent for each target, in the order of the flattened targets. Ones by default.
        unconnected_gradients : UnconnectedGradients or {"none", "zero"}
            The result for a source on which no target depends.

        Returns
        -------
        tensor, IndexedSlices, None or nest
            In the structure of `sources`. Each gradient has the shape and dtype of its source.

        Raises
        ------
        RuntimeError
            If the tape is not persistent and was used before.
        ValueError
            If `unconnected_gradients` has an unknown value.
        TypeError
            If a target or source is not a tensor.
        VerificationError
            If the tape verifies and the gradient is wrong.

        Examples
        --------
        >>> import gtape as tf
        >>> x = tf.Variable([1.0, 2.0])
        >>> with tf.GradientTape() as tape:
        ...     y = x * x
        >>> tape.gradient(y, x).numpy()
        array([2., 4.], dtype=float32)
        """
        session = self._session
        if session is None:
            raise RuntimeError(_USED)
        if (
            session.plain
            and not session.selects
            and session.is_simple()
            and output_gradients is None
            and unconnected_gradients is _NONE
            and target.__class__ is Tensor
        ):
            results = self._gradient_of_one_scalar(session, target, sources)
            if results is not _NOT_USUAL:
                return results
        zero = unconnected_gradients is not _NONE and wants_zeros(unconnected_gradients)
        if target is None:
            raise TypeError(
                "Argument `target` should be a list or nested structure of Tensors, Variables or CompositeTensors to "
                "be differentiated, but received None."
            )
        flat_sources = leaves(sources, "source")
        flat_targets = leaves(target, "target")
        if output_gradients is None and len(flat_targets) == 1:
            seeds = [one_of(flat_targets[0]._layout)]
        else:
            seeds = seeds_of(flat_targets, output_gradients, target)
        session = self._begin()
        try:
            results = differentiate(
                session, flat_targets, seeds, flat_sources, persistent=self._persistent, mode=self._mode
            )
        finally:
            if not self._persistent:
                record.close(session)
        if zero:
            results = [zeros_for(s) if r is None else r for r, s in zip(results, flat_sources, strict=True)]
        if sources.__class__ is list:
            if all([s.__class__ in SIMPLE for s in sources]):  # noqa: C419 - a list is quicker
                return results
        elif sources.__class__ in SIMPLE:
            return results[0]
        return nest.pack_sequence_as(sources, results)

    def _gradient_of_one_scalar(self, session: Session, target: Tensor, sources: Any) -> Any:
        """The gradient in the usual training step, in fewer calls: one real scalar by variables, no other tape.

        Returns _NOT_USUAL in all other cases. The result equals that of the general way.
        """
        r, seed = target._record, target._layout.one
        if r is None or seed is None or not target._layout.real or r[TAPES] is not session.alone:
            return _NOT_USUAL
        flat: list[Any] = sources if sources.__class__ is list else [sources]
        records = []
        for s in flat:
            if not (s.__class__ is Tensor or s.__class__ is Variable) or not s._layout.real:
                return _NOT_USUAL
            records.append(s._record or record_of(s))
        if session.several and (session.split or any([is_part_of_call(s) for s in records])):  # noqa: C419
            return _NOT_USUAL
        if session.inside is not None:
            record.refuse_in_traced_calls(_TAKES, session)
            record.leave(session)
        stack = record.peek()
        if stack is None:
            stack = record.idle_stack()
        elif stack.sessions or stack.probe is not None:  # a traced call among others
            return _NOT_USUAL
        try:
            session.unused.pop()
        except IndexError:
            raise RuntimeError(_USED) from None
        self._watched, self._session = session.variables, None
        try:
            made = stack.run(short_sweep, [(r, seed._value)], records)
        finally:
            # Drop these records first, because `close` searches for records that outlive the session.
            records.clear()
            r = None
            record.close(session)
        results: list[Any] = []
        for c, s in zip(made, flat, strict=True):
            layout = s._layout if s.__class__ is Tensor else s._tensor_layout
            kind = c.__class__
            if kind is float:
                usual = layout is FLOAT
            elif kind is np.ndarray:
                usual = c.dtype is layout.dtype and c.shape == layout.shape
            else:
                usual = kind is layout.dtype.type and not layout.shape and layout is not FLOAT
            if usual:
                t = Tensor()
                t._value = c
                t._layout = layout
                t._record = None
                results.append(t)
                continue
            results.append(result_of(c, s))
        return results if flat is sources else results[0]

    @overload
    def jacobian(
        self,
        target: Any,
        sources: Tensor | Variable,
        unconnected_gradients: Any = ...,
        parallel_iterations: Any = ...,
        experimental_use_pfor: bool = ...,
    ) -> Tensor | Any: ...
    @overload
    def jacobian(
        self,
        target: Any,
        sources: list[Any],
        unconnected_gradients: Any = ...,
        parallel_iterations: Any = ...,
        experimental_use_pfor: bool = ...,
    ) -> list[Tensor | Any]: ...
    @overload
    def jacobian(
        self,
        target: Any,
        sources: tuple[Any, ...],
        unconnected_gradients: Any = ...,
        parallel_iterations: Any = ...,
        experimental_use_pfor: bool = ...,
    ) -> tuple[Tensor | Any, ...]: ...
    @overload
    def jacobian(
        self,
        target: Any,
        sources: dict[_K, Any],
        unconnected_gradients: Any = ...,
        parallel_iterations: Any = ...,
        experimental_use_pfor: bool = ...,
    ) -> dict[_K, Tensor | Any]: ...
    @overload
    def jacobian(
        self,
        target: Any,
        sources: Any,
        unconnected_gradients: Any = ...,
        parallel_iterations: Any = ...,
        experimental_use_pfor: bool = ...,
    ) -> Any: ...
    def jacobian(
        self, target: Any, sources: Any, unconnected_gradients: Any = UnconnectedGradients.NONE,
        parallel_iterations: int | None = None, experimental_use_pfor: bool = True,
    ) -> Any:  # fmt: skip
        """The Jacobian of one target with respect to the sources, in one batched sweep.

        Parameters
        ----------
        target : tensor, variable or IndexedSlices, any shape
            Slices stand for the whole array.
        sources : tensor, variable or nest
        unconnected_gradients : UnconnectedGradients or {"none", "zero"}
        parallel_iterations : int, optional
            Ignored; TensorFlow has it.
        experimental_use_pfor : bool
            False needs a persistent tape, as in TensorFlow. Otherwise ignored.

        Returns
        -------
        tensor, None or nest
            In the structure of `sources`. Each Jacobian has the shape ``target.shape + source.shape``.

        Raises
        ------
        RuntimeError
            If the tape is not persistent and was used before.
        VerificationError
            If the tape verifies and a number is wrong.

        Examples
        --------
        >>> import gtape as tf
        >>> x = tf.Variable([1.0, 2.0])
        >>> with tf.GradientTape() as tape:
        ...     y = x * x
        >>> tape.jacobian(y, x).numpy()
        array([[2., 0.],
               [0., 4.]], dtype=float32)
        """
        if self._session is None:
            raise RuntimeError(_USED)
        zero = wants_zeros(unconnected_gradients)
        self._check_pfor(experimental_use_pfor, "jacobian")
        slices = target if isinstance(target, IndexedSlices) else None
        if slices is not None:
            target = slices.values
        if not isinstance(target, (Tensor, Variable)):
            raise AttributeError(f"jacobian() takes one tensor or variable as its target, not {type(target).__name__}")
        flat_sources = leaves(sources, "source")
        session = self._begin()
        try:
            results = jacobians(session, target, flat_sources, self._mode())
        finally:
            if not self._persistent:
                release(session, target._record)
                record.close(session)
        shape = target._layout.shape
        if slices is not None and slices.dense_shape is not None:
            shape = tuple(slices.shape)
            add = late.find_op("unsorted_segment_sum")
            results = [None if r is None else add(r, slices.indices, shape[0]) for r in results]
        if zero:
            results = [
                wrap(np.zeros(shape + s._layout.shape, s._layout.dtype)) if r is None else r
                for r, s in zip(results, flat_sources, strict=True)
            ]
        return results[0] if sources.__class__ in SIMPLE else nest.pack_sequence_as(sources, results)

    def _check_pfor(self, use_pfor: bool, method: str) -> None:
        use_pfor = truth_of(use_pfor, f"GradientTape.{method}", "experimental_use_pfor")
        if not (use_pfor or self._persistent):
            raise RuntimeError(
                f"GradientTape must be created with persistent=True to compute the {method} with "
                "experimental_use_pfor=False, as in TensorFlow; here the option changes nothing else: leave it out"
            )

    def batch_jacobian(
        self, target: Any, source: Any, unconnected_gradients: Any = UnconnectedGradients.NONE,
        parallel_iterations: int | None = None, experimental_use_pfor: bool = True,
    ) -> Tensor:  # fmt: skip
        """The Jacobian of each row of a target with respect to the same row of a source.

        Parameters
        ----------
        target : tensor or variable, shape (b, ...)
            Row i may only depend on row i of `source`; otherwise the result is the sum over rows.
        source : tensor or variable, shape (b, ...)
        unconnected_gradients, parallel_iterations
            Ignored; TensorFlow has them. An unconnected source gives zeros.
        experimental_use_pfor : bool
            False needs a persistent tape, as in TensorFlow. Otherwise ignored.

        Returns
        -------
        tensor, shape ``(b, *target.shape[1:], *source.shape[1:])``

        Raises
        ------
        RuntimeError
            If the tape is not persistent and was used before.
        ValueError
            If the target or source has a rank below 2, or if their first dimensions differ.
        VerificationError
            If the tape verifies and a number is wrong.

        Examples
        --------
        >>> import gtape as tf
        >>> x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
        >>> with tf.GradientTape() as tape:
        ...     tape.watch(x)
        ...     y = x * x
        >>> tape.batch_jacobian(y, x).numpy()[1]
        array([[6., 0.],
               [0., 8.]], dtype=float32)
        """
        if self._session is None:
            raise RuntimeError(_USED)
        wants_zeros(unconnected_gradients)
        self._check_pfor(experimental_use_pfor, "batch_jacobian")
        for role, t in (("target", target), ("source", source)):
            if not isinstance(t, (Tensor, Variable)):
                raise AttributeError(
                    f"batch_jacobian() takes one tensor or variable as its {role}, not {type(t).__name__}"
                )
            if len(t._layout.shape) < 2:
                raise ValueError(f"Shape {t._layout.tensor_shape} must have rank at least 2")
        if target._layout.shape[0] != source._layout.shape[0]:
            raise ValueError(
                f"Need first dimension of target shape ({target._layout.tensor_shape}) and "
                f"source shape ({source._layout.tensor_shape}) to match."
            )
        session = self._begin()
        try:
            return batch_jacobian(session, target, source, self._mode())
        finally:
            if not self._persistent:
                release(session, target._record)
                record.close(session)

    def explain(self, y: Any, x: Any) -> str:
        """Explain in words why the gradient of `y` with respect to `x` is None, zero or NaN.

        Ask before the one gradient of a tape is taken, or make the tape persistent.

        Parameters
        ----------
        y, x : tensor or variable

        Returns
        -------
        str

        Examples
        --------
        >>> import gtape as tf
        >>> x = tf.constant(1.0)
        >>> with tf.GradientTape() as tape:
        ...     y = x * x
        >>> tape.explain(y, x).split(".")[0]
        'None: the source is not watched'
        """
        from gtape.tapes.explain import explain

        return explain(self, y, x)


def _extend(r: record.Record, sessions: tuple[Session, ...]) -> None:
    """Add sessions to those that hold a record, and drop ended sessions."""
    stack = record.get_stack()
    held, wanted = r[TAPES].sessions, stack.recording.sessions
    # The two usual cases: a leaf that no tape watches, and a leaf that the outer tapes watch.
    if len(held) + len(sessions) == len(wanted) and held | set(sessions) == wanted:
        r[TAPES] = stack.recording
        return
    have = {s for s in r[TAPES].sessions if s.live} | set(sessions)
    r[TAPES] = stack.recording if have == stack.recording.sessions else TapeSet(have)
