"""GradientTape: what is recorded while it is active, and the gradients of it."""

from __future__ import annotations

import contextlib
import enum
import math
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from gtape import dtypes, errors, nest, record
from gtape.aval import FLOAT64_SCALAR
from gtape.backprop import batches_as_is, full_sweep, short_sweep, stack_in
from gtape.indexed_slices import IndexedSlices, SparseCotangent, from_cotangent
from gtape.record import COT, LEAF, PULL, SEQ, TAPES, Session, TapeSet
from gtape.tensor import Tensor, convert_to_tensor, wrap
from gtape.variable import Variable
from gtape.worlds import NUMPY, TAPE

__all__ = ["GradientTape", "UnconnectedGradients", "verifying"]


def _warn(text: str, *args: Any) -> None:
    import logging  # the standard library's slowest common module: only where there is something to say

    logging.getLogger("gtape").warning(text, *args)


class UnconnectedGradients(enum.Enum):
    """What `gradient` returns for a source that the target does not depend on.

    Attributes
    ----------
    NONE, ZERO : the members, with the values ``"none"`` and ``"zero"``
    """

    NONE = "none"
    ZERO = "zero"


def _wants_zeros(option: Any) -> bool:
    """Whether zeros are asked for; ValueError for what is no option."""
    try:
        return UnconnectedGradients(option) is UnconnectedGradients.ZERO
    except ValueError:
        raise ValueError(f"Unknown value for unconnected_gradients: {option!r}") from None


_NONE = UnconnectedGradients.NONE
_verify_depth = 0  # how many `verifying()` blocks are open, in any thread
_VERIFY_PROCESS = os.environ.get("GTAPE_VERIFY", "") not in ("", "0")


@contextlib.contextmanager
def verifying(mode: Any = True) -> Iterator[None]:
    """Check every gradient of every tape that is made inside the block, as ``GradientTape(verify=True)`` does.

    Parameters
    ----------
    mode : True or "strict"
        "strict": what cannot be decided raises, too.

    Raises
    ------
    VerificationError
        From `gradient`, when a derivative is not the exact one.

    Examples
    --------
    >>> import gtape
    >>> with gtape.verifying():
    ...     x = gtape.Variable(2.0)
    ...     with gtape.GradientTape() as tape:
    ...         y = x * x
    ...     print(tape.gradient(y, x).numpy())
    4.0
    """
    global _verify_depth, _verify_mode
    if mode not in (True, "strict"):
        raise ValueError(f"verifying() takes True or 'strict', not {mode!r}")
    before = _verify_mode
    _verify_depth += 1
    _verify_mode = mode
    try:
        yield
    finally:
        _verify_depth -= 1
        _verify_mode = before


_verify_mode: Any = True


def verify_mode() -> Any:
    """What `verifying()` and GTAPE_VERIFY ask of everything that is made now: False, True or "strict"."""
    return _verify_mode if (_verify_depth or _VERIFY_PROCESS) else False


def _dtype_warning(dtype: dtypes.DType) -> None:
    if _dtype_warning.count < 5:  # type: ignore[attr-defined]
        _dtype_warning.count += 1  # type: ignore[attr-defined]
        _warn("The dtype of the watched tensor must be floating (e.g. gtape.float32), got %r", dtype)


_dtype_warning.count = 0  # type: ignore[attr-defined]


def _cost_warning() -> None:
    """Say once that a persistent tape records its own gradients."""
    if not _cost_warning.given:  # type: ignore[attr-defined]
        _cost_warning.given = True  # type: ignore[attr-defined]
        _warn(
            "gradient() of a persistent tape inside its own block is recorded, too, which costs time and memory. "
            "Call it there only for derivatives of higher order"
        )


_cost_warning.given = False  # type: ignore[attr-defined]

_USED = "A non-persistent GradientTape can only be used to compute one set of gradients (or jacobians)"
_STILL = "Tape is still recording, This can happen if you try to re-enter an already-active tape."


class GradientTape:
    """Record operations for automatic differentiation.

    Parameters
    ----------
    persistent : bool
        Whether gradients may be taken more than once.
    watch_accessed_variables : bool
        Whether trainable variables are watched when they are read inside the block.
    verify : bool or "strict", keyword only
        Check every gradient against the exact derivative; raises `VerificationError` when they disagree.
        "strict" raises also when a gradient cannot be decided, which otherwise only warns.

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

    def __init__(self, persistent: bool = False, watch_accessed_variables: bool = True, *, verify: Any = None) -> None:
        if verify not in (None, False, True, "strict"):
            raise ValueError(f"verify takes True, False or 'strict', not {verify!r}")
        self._persistent = bool(persistent)
        self._watch_accessed = bool(watch_accessed_variables)
        self._verify = verify
        self._session: Session | None = None
        self._recording = False
        self._used = False
        self._inside: Any = None
        self._before: Any = None
        self._watched: dict[int, Variable] = {}

    # ------------------------------------------------------------------------------------------ recording

    def _mode(self) -> Any:
        return self._verify if self._verify is not None else verify_mode()

    def _new_session(self) -> Session:
        trace, exact = bool(self._mode()), self._persistent or record.careful()
        session = Session(trace=trace, exact=exact) if trace or exact else Session()
        if not self._watch_accessed:
            session.watch_accessed = False
        return session

    def _push(self) -> None:
        if self._recording:
            raise ValueError(_STILL)
        session = self._session
        if session is None:
            session = self._session = self._new_session()
            self._used = False
        before = record.get_stack()
        self._inside = record.push(before, session)
        self._before = before
        self._recording = True

    def _pop(self) -> None:
        if not self._recording:
            raise ValueError("Tape is not recording.")
        now = record.get_stack()
        if now is self._inside:
            record.restore_stack(self._before)
        else:  # left in another order than entered
            session = self._session
            record.set_stack(tuple([s for s in now.sessions if s is not session]))
        self._inside = self._before = None
        self._recording = False

    def __enter__(self) -> GradientTape:
        self._push()
        return self

    def __exit__(self, *exc: Any) -> None:
        if self._recording:
            self._pop()

    def __del__(self) -> None:
        session = getattr(self, "_session", None)
        if session is not None:
            record.close(session)

    def watch(self, tensor: Any) -> None:
        """Make gradients with respect to a tensor possible, from here on.

        Parameters
        ----------
        tensor : tensor, variable or nest of these

        Raises
        ------
        ValueError
            For anything else.
        AttributeError
            On a tape that was never entered.
        """
        items = nest.flatten(tensor)
        for item in items:
            if not isinstance(item, (Tensor, Variable, IndexedSlices)):
                raise ValueError(
                    f"Passed in object {item} of type {type(item).__name__!r}, not gtape.Tensor or gtape.Variable or "
                    "ExtensionType."
                )
        if self._session is None:
            raise AttributeError("this tape is not recording anything to watch: call watch() inside its `with` block")
        for item in items:
            if isinstance(item, IndexedSlices):
                item = item.values
            if not item._aval.inexact:
                _dtype_warning(item.dtype)
            elif isinstance(item, Variable):
                self._session.variables[item._uid] = item
                item._watch((self._session,))
            else:
                self._watch_one(item)

    def _watch_one(self, t: Tensor) -> None:
        session = self._session
        assert session is not None
        r = t._record
        if r is None:
            r = t._record = record.leaf()
        elif r[PULL] is None:
            r[COT] = LEAF
        else:  # a result of another tape, which goes on needing it
            session.shared = True
            if session not in r[TAPES].sessions:
                session.stops |= {r[SEQ]}  # to this tape a source, whatever made it
            for other in r[TAPES].sessions:
                other.shared = True
        _extend(r, (session,))
        session.track(t)

    def watched_variables(self) -> tuple[Variable, ...]:
        """The variables watched so far, in the order in which they were made."""
        variables = self._watched if self._session is None else self._session.variables
        return tuple(v for _, v in sorted(variables.items()))

    @contextlib.contextmanager
    def stop_recording(self) -> Iterator[None]:
        """Pause this tape, and this tape only, for the length of a block.

        Raises
        ------
        RuntimeError
            On a tape that was never entered.
        ValueError
            On a tape that is not recording.

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
        if self._session is None:
            raise RuntimeError("Trying to stop recording a tape which is not recording.")
        self._pop()
        try:
            yield
        finally:
            self._push()

    def reset(self) -> None:
        """Forget everything recorded and watched so far, and go on recording.

        Raises
        ------
        ValueError
            On a tape that is not recording.

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
        if not self._recording:
            raise ValueError("Tape is not recording.")
        self._pop()
        self._finish()
        self._push()

    def _finish(self) -> None:
        if self._session is not None:
            record.close(self._session)
        self._session = None

    # ------------------------------------------------------------------------------------------ gradients

    def _begin(self) -> Session:
        """Claim the record for one set of gradients; ends the recording of a non-persistent tape."""
        session = self._session
        if session is None:
            raise RuntimeError(_USED)
        if self._recording:
            if self._persistent:
                _cost_warning()
            else:
                self._pop()
        return session

    def _use_up(self, session: Session) -> None:
        self._watched = session.variables
        self._session = None
        self._used = True
        record.close(session)

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
            What to differentiate.
        sources : tensor, variable or nest
            With respect to what.
        output_gradients : tensor or nest, optional
            Cotangents, matched to the flattened targets by position; ones by default.
        unconnected_gradients : UnconnectedGradients or {"none", "zero"}
            What stands for a source that the target does not depend on.

        Returns
        -------
        tensor, IndexedSlices, None or nest
            In the structure of `sources`; each has its source's shape and dtype.

        Raises
        ------
        RuntimeError
            On the second call for a tape that is not persistent.
        ValueError
            For an unknown value of `unconnected_gradients`.
        TypeError
            For a target or source that is no tensor.
        VerificationError
            If the tape verifies and the gradient is not the exact one.

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
            and not (session.shared or session.selects)
            and output_gradients is None
            and unconnected_gradients is _NONE
            and target.__class__ is Tensor
        ):
            results = self._usual(session, target, sources)
            if results is not None or self._session is None:  # used up: the answer, which may be None
                return results
        zero = unconnected_gradients is not _NONE and _wants_zeros(unconnected_gradients)
        if target is None:
            raise TypeError(
                "Argument `target` should be a list or nested structure of Tensors, Variables or CompositeTensors to "
                "be differentiated, but received None."
            )
        flat_sources = _leaves(sources, "source")
        flat_targets = _leaves(target, "target")
        if output_gradients is None and len(flat_targets) == 1:
            seeds = [_one(flat_targets[0]._aval)]
        else:
            seeds = _seeds(flat_targets, output_gradients)
        session = self._begin()
        try:
            results = self._differentiate(session, flat_targets, seeds, flat_sources)
        finally:
            if not self._persistent:
                self._use_up(session)
        if zero:
            results = [_zeros_like(s) if r is None else r for r, s in zip(results, flat_sources, strict=True)]
        if sources.__class__ is list:
            if all([s.__class__ in _SIMPLE for s in sources]):  # noqa: C419 - a list is quicker
                return results
        elif sources.__class__ in _SIMPLE:
            return results[0]
        return nest.pack_sequence_as(sources, results)

    def _usual(self, session: Session, target: Tensor, sources: Any) -> Any:
        """What most training steps ask for: one real scalar by variables, no other tape; None for anything else.

        The same as the general way, in fewer steps.
        """
        r, seed = target._record, target._aval.one
        if r is None or seed is None or not target._aval.real or r[TAPES] is not session.alone:
            return None
        flat: list[Any] = sources if sources.__class__ is list else [sources]
        records = []
        for s in flat:
            if not (s.__class__ is Tensor or s.__class__ is Variable) or not s._aval.real:
                return None
            found = s._record
            if found is None:
                found = s._record = record.leaf()
            records.append(found)
        if self._recording:
            self._pop()
        stack = record.get_stack()
        if stack.sessions:
            return None
        try:
            made = stack.run(short_sweep, [(r, seed._value)], records)
        finally:
            # Before the session ends: it looks whether a record outlives it.
            records.clear()
            r = found = None
            self._use_up(session)
        results: list[Any] = []
        for c, s in zip(made, flat, strict=True):
            if c.__class__ is np.ndarray:
                aval = s._aval if s.__class__ is Tensor else s._tensor_aval
                if c.dtype is aval.dtype and c.shape == aval.shape:
                    t = Tensor()
                    t._value = c
                    t._aval = aval
                    t._record = None
                    results.append(t)
                    continue
            results.append(_result(c, s))
        return results if flat is sources else results[0]

    def _differentiate(
        self,
        session: Session,
        targets: list[Any],
        seeds: list[Any],
        sources: list[Any],
        stops: frozenset[int] = frozenset(),
    ) -> list[Any]:
        target_records = [_record_of(t) for t in targets]
        source_records = [_record_of(s) for s in sources]
        stack = record.get_stack()
        start = [(r, g) for r, g in zip(target_records, seeds, strict=True) if g is not None]
        foreign = any([session not in r[TAPES].sessions and r[PULL] is not None for r, _ in start])  # noqa: C419
        if not stack.sessions and not (
            session.shared or session.selects or self._persistent or session.trace or foreign
        ):
            raw = [(r, g._value) for r, g in start]
            made = stack.run(short_sweep, raw, source_records)
            return [_result(c, s) for c, s in zip(made, sources, strict=True)]
        if not stack.sessions:
            raw = [(r, g._value) for r, g in start]
            made, visited = stack.run(full_sweep, NUMPY, session, raw, source_records, stops=stops)
            if session.selects and not all(_finite(c) for c in made):
                made, visited = stack.run(full_sweep, NUMPY, session, raw, source_records, masked=True, stops=stops)
        else:
            made, visited = full_sweep(TAPE, session, start, source_records, masked=True, stops=stops)
        results = [_result(c, s) for c, s in zip(made, sources, strict=True)]
        if session.trace or stack.trace:
            results = self._checked_results(session, targets, start, sources, results, stack)
        if not self._persistent:
            session.live = False
            for r in visited:
                if r[PULL] is not None and not any(s.live for s in r[TAPES].sessions):
                    record.empty(r)
            session.live = True
        return results

    def _checked_results(
        self, session: Session, targets: list[Any], start: Any, sources: list[Any], results: list[Any], stack: Any
    ) -> list[Any]:
        mode = self._mode()
        if mode:
            from gtape.verify.examine import check_gradient

            check_gradient(session, targets, start, sources, results, strict=mode == "strict")
        if stack.trace:
            from gtape.origins import mark_gradients

            results = mark_gradients(session, start, sources, results)
        return results

    def jacobian(
        self,
        target: Any,
        sources: Any,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
    ) -> Any:
        """The Jacobian of one target with respect to the sources, in one batched sweep.

        Parameters
        ----------
        target : tensor or variable, any shape
        sources : tensor, variable or nest
        unconnected_gradients : UnconnectedGradients or {"none", "zero"}
        parallel_iterations : int, optional
            TensorFlow has it; it changes nothing.
        experimental_use_pfor : bool
            TensorFlow has it; False asks for a persistent tape and changes nothing else.

        Returns
        -------
        tensor, None or nest
            In the structure of `sources`, each of shape ``target.shape + source.shape``.

        Raises
        ------
        RuntimeError
            On the second use of a tape that is not persistent.
        gtape.errors.UnimplementedError
            For complex tensors.
        VerificationError
            If the tape verifies and a number is not the exact one.

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
        zero = _wants_zeros(unconnected_gradients)
        self._check_pfor(experimental_use_pfor, "jacobian")
        if not isinstance(target, (Tensor, Variable)):
            raise AttributeError(f"jacobian() takes one tensor or variable as its target, not {type(target).__name__}")
        flat_sources = [_checked(s, "source") for s in nest.flatten(sources)]
        session = self._begin()
        try:
            results = self._jacobians(session, target, flat_sources)
        finally:
            if not self._persistent:
                self._release(session, target._record)
                self._use_up(session)
        if zero:
            shape = target._aval.shape
            results = [
                wrap(np.zeros(shape + s._aval.shape, s._aval.dtype)) if r is None else r
                for r, s in zip(results, flat_sources, strict=True)
            ]
        return nest.pack_sequence_as(sources, results)

    def _check_pfor(self, use_pfor: bool, method: str) -> None:
        if not (use_pfor or self._persistent):
            raise RuntimeError(
                f"GradientTape must be created with persistent=True to compute the {method} with "
                "experimental_use_pfor=False, as in TensorFlow; here the option changes nothing else: leave it out"
            )

    def _jacobians(self, session: Session, target: Any, sources: list[Any]) -> list[Any]:
        aval = target._aval
        if not aval.inexact:
            return [None] * len(sources)
        for a in (aval, *[s._aval for s in sources]):
            _refuse_complex(a)
        n = aval.size
        made = self._batched_sweep(session, target, np.eye(n, dtype=aval.dtype).reshape((n, *aval.shape)), sources)
        results: list[Any] = []
        for c, s in zip(made, sources, strict=True):
            if c is None or not s._aval.inexact:
                results.append(None)
                continue
            shape = aval.shape + s._aval.shape
            results.append(TAPE.reshape(c, shape=shape) if c.__class__ is Tensor else wrap(np.reshape(c, shape)))
        if self._mode():
            from gtape.verify.examine import check_jacobian

            check_jacobian(session, target, sources, results, strict=self._mode() == "strict")
        return results

    def batch_jacobian(
        self,
        target: Any,
        source: Any,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
    ) -> Tensor:
        """The Jacobian of each row of a target with respect to the same row of a source.

        Parameters
        ----------
        target : tensor or variable, shape (b, ...)
            Row i may only depend on row i of `source`; where it depends on others, the sum over rows is returned.
        source : tensor or variable, shape (b, ...)
        unconnected_gradients, parallel_iterations
            TensorFlow has them; they change nothing: an unconnected source gives zeros.
        experimental_use_pfor : bool
            TensorFlow has it; False asks for a persistent tape and changes nothing else.

        Returns
        -------
        tensor, shape ``(b, *target.shape[1:], *source.shape[1:])``

        Raises
        ------
        RuntimeError
            On the second use of a tape that is not persistent.
        ValueError
            For a target or source of rank below 2, or when their first dimensions differ.
        gtape.errors.UnimplementedError
            For complex tensors.
        VerificationError
            If the tape verifies and a number is not the exact one.

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
        _wants_zeros(unconnected_gradients)
        self._check_pfor(experimental_use_pfor, "batch_jacobian")
        for role, t in (("target", target), ("source", source)):
            if not isinstance(t, (Tensor, Variable)):
                raise AttributeError(
                    f"batch_jacobian() takes one tensor or variable as its {role}, not {type(t).__name__}"
                )
            if len(t._aval.shape) < 2:
                raise ValueError(f"Shape {t._aval.tensor_shape} must have rank at least 2")
        if target._aval.shape[0] != source._aval.shape[0]:
            raise ValueError(
                f"Need first dimension of target shape ({target._aval.tensor_shape}) and "
                f"source shape ({source._aval.tensor_shape}) to match."
            )
        rows, *inner = target._aval.shape
        size = math.prod(inner)
        for a in (target._aval, source._aval):
            _refuse_complex(a)
        session = self._begin()
        try:
            # One cotangent for each element of a row, set in all rows at once.
            eye = np.eye(size, dtype=target._aval.dtype).reshape(size, 1, *inner)
            seed = np.array(np.broadcast_to(eye, (size, rows, *inner)))
            made = self._batched_sweep(session, target, seed, [source])[0] if target._aval.inexact and size else None
            if made is None or not source._aval.inexact:
                return wrap(np.zeros((rows, *inner, *source._aval.shape[1:]), source._aval.dtype))
            axes = (1, 0, *range(2, 1 + len(source._aval.shape)))
            world: Any = TAPE if made.__class__ is Tensor else NUMPY
            turned = world.reshape(world.transpose(made, perm=axes), shape=(rows, *inner, *source._aval.shape[1:]))
            result: Tensor = turned if world is TAPE else wrap(turned)
            if self._mode():
                from gtape.verify.jacobians import check_batch_jacobian

                check_batch_jacobian(session, target, source, result, strict=self._mode() == "strict")
            return result
        finally:
            if not self._persistent:
                self._release(session, target._record)
                self._use_up(session)

    def _release(self, session: Session, start: Any) -> None:
        """Empty the records that led to a target, those of other open sessions excepted."""
        session.live = False
        record.empty_below([start], spare=True)
        session.live = True

    def _batched_sweep(self, session: Session, target: Any, seed: Any, sources: list[Any]) -> list[Any]:
        """Cotangents of the sources for several cotangents of one target, stacked along a leading axis."""
        stack = record.get_stack()
        source_records = [_record_of(s) for s in sources]
        start = _record_of(target)
        world, run = (TAPE, _directly) if stack.sessions else (NUMPY, stack.run)
        usual = session.plain and not (stack.sessions or session.shared or session.selects)
        if usual and batches_as_is(session, start):
            short: list[Any] = run(short_sweep, [(start, seed)], source_records)
            return short
        made: list[Any] = run(
            full_sweep, world, session, [(start, _lift(world, seed))], source_records, batch=len(seed)
        )[0]
        if session.selects and not all(_finite(c) for c in made):
            # What a selection made zero is followed for one cotangent at a time.
            rows = [
                run(
                    full_sweep, world, session, [(start, _lift(world, row))], source_records, masked=True, sparse=False
                )[0]
                for row in seed
            ]
            made = [None if column[0] is None else stack_in(world, list(column)) for column in zip(*rows, strict=True)]
        return made

    def explain(self, y: Any, x: Any) -> str:
        """Why the gradient of `y` with respect to `x` is None, zero or NaN, in words.

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
        from gtape.explain import explain

        return explain(self, y, x)


def _extend(r: record.Record, sessions: tuple[Session, ...]) -> None:
    """Let more sessions hold a record, and forget those that have ended."""
    stack = record.get_stack()
    have = {s for s in r[TAPES].sessions if s.live} | set(sessions)
    r[TAPES] = stack.recording if have == stack.recording.sessions else TapeSet(have)


_SIMPLE = frozenset({Tensor, Variable})


def _leaves(structure: Any, role: str) -> list[Any]:
    """The tensors and variables of a structure."""
    if structure.__class__ in _SIMPLE:
        return [structure]
    return [x if x.__class__ in _SIMPLE else _checked(x, role) for x in nest.flatten(structure)]


def _one(aval: Any) -> Tensor | None:
    """The cotangent to start from where none is given."""
    found: Tensor | None = aval.one
    if found is None and aval.inexact:
        found = wrap(1.0) if aval is FLOAT64_SCALAR else wrap(np.ones(aval.shape, aval.dtype))
        if not aval.shape:
            aval.one = found
    return found


def _checked(x: Any, role: str) -> Any:
    if isinstance(x, (Tensor, Variable)):
        return x
    if isinstance(x, IndexedSlices):
        return x.values  # what was recorded: the elements of the whole add up to theirs
    if x is None:
        raise TypeError(f"a {role} of gradient() is None, whose dtype is unknown; pass a tensor or a variable")
    raise TypeError(
        f"a {role} of gradient() must be a tensor or a variable, not {type(x).__name__} ({x!r}); wrap it in "
        "gtape.constant and watch it before it is used"
    )


def _record_of(x: Any) -> record.Record:
    r: record.Record | None = x._record
    if r is None:
        r = x._record = record.leaf()
    return r


def _seeds(targets: list[Any], output_gradients: Any) -> list[Any]:
    """The cotangents that the sweep starts from: one tensor for each target, None for those that have no gradient."""
    given = [] if output_gradients is None else nest.flatten(output_gradients)
    seeds: list[Any] = []
    for i, t in enumerate(targets):
        aval = t._aval
        if not aval.inexact:
            seeds.append(None)
            continue
        if i >= len(given) or given[i] is None:
            seeds.append(_one(aval))
            continue
        g = given[i]
        if isinstance(g, (bool, int)):
            g = float(g)
        if g.__class__ is float:
            g = wrap(np.asarray(g, dtype=aval.dtype))
        else:
            g = convert_to_tensor(g)
        if g._aval.dtype != aval.dtype:
            raise errors.InvalidArgumentError(
                f"output_gradients[{i}] is {g.dtype.name} but its target is {np.dtype(aval.dtype).name}: give it the "
                "target's dtype"
            )
        if g._aval.shape != aval.shape:
            try:
                fits = np.broadcast_shapes(g._aval.shape, aval.shape) == aval.shape
            except ValueError:
                fits = False
            if fits:
                g = TAPE.broadcast_to(g, shape=aval.shape)
            elif g._aval.size == 1:
                g = TAPE.reshape(g, shape=aval.shape)
            else:
                raise errors.InvalidArgumentError(
                    f"output_gradients[{i}] has shape {g.shape}, which does not fit its target's shape "
                    f"{aval.tensor_shape}"
                )
        seeds.append(conjugate(g) if aval.complex else g)
    return seeds


def _directly(function: Any, *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


def _lift(world: Any, value: Any) -> Any:
    return wrap(value) if world is TAPE else value


def _finite(c: Any) -> bool:
    if isinstance(c, SparseCotangent):
        c = c.values
    if c.__class__ is Tensor:
        c = c._value
    return c is None or bool(np.isfinite(c).all())


def _refuse_complex(aval: Any) -> None:
    # A function that is not holomorphic has no complex Jacobian, and which ones are holomorphic nobody declares.
    if aval.complex:
        raise errors.UnimplementedError(
            f"Jacobians of {aval.dtype.name} tensors are not there: take gradients, or the Jacobians of "
            "gtape.math.real and gtape.math.imag of the result with respect to the two arguments of gtape.complex"
        )


def conjugate(g: Any) -> Any:
    """Between TensorFlow's convention for complex gradients and the plain transpose, in which sweeps run."""
    if isinstance(g, IndexedSlices):
        return IndexedSlices(TAPE.conj(g.values), g.indices, g.dense_shape)
    return TAPE.conj(g)


def _result(c: Any, source: Any) -> Any:
    if c is None or not source._aval.inexact:
        return None
    if isinstance(c, SparseCotangent):
        c = from_cotangent(c)
        return conjugate(c) if source._aval.complex else c
    t = c if c.__class__ is Tensor else wrap(c)
    return conjugate(t) if source._aval.complex else t


def _zeros_like(source: Any) -> Tensor:
    return wrap(np.zeros(source._aval.shape, source._aval.dtype))
