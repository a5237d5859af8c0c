"""Functions that change how gradients flow: custom_gradient, stop_gradient, grad_pass_through, recompute_grad."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from gtape import nest, record
from gtape.dispatch import record_op
from gtape.primitive import REGISTRY, elementwise
from gtape.pulls import ItemPull
from gtape.tensor import Tensor, as_operand, convert_to_tensor, wrap
from gtape.tracing import GradNode, Trace
from gtape.variable import Variable

__all__ = ["custom_gradient", "grad_pass_through", "recompute_grad", "stop_gradient"]


def _same(x: Any) -> Any:
    return x


_stop = elementwise(
    "stop_gradient", _same, None, ints=True, public=False, complex=True, summary="x, as a constant.", ulps=0.5
)


def stop_gradient(input: Any, name: str | None = None) -> Tensor:
    """The same value as a constant: no gradient flows back through it.

    Parameters
    ----------
    input : tensor, any shape
    name : str, optional
        Ignored; TensorFlow has it.

    Returns
    -------
    Tensor
        A new tensor.

    Examples
    --------
    >>> import gtape as tf
    >>> x = tf.Variable(3.0)
    >>> with tf.GradientTape() as tape:
    ...     y = x * tf.stop_gradient(x)
    >>> tape.gradient(y, x).numpy()
    np.float32(3.0)
    """
    return _stop(convert_to_tensor(input))  # type: ignore[no-any-return]


class CustomPull:
    """The backward step of one call of a custom gradient, which is its own primitive.

    It answers what the sweeps and the forward mode ask a primitive.
    """

    kind = "custom"
    batched = False
    selects = False
    sparse = None
    partials = None
    variadic = True

    __slots__ = (
        "active",
        "avals",
        "declared",
        "grad_fn",
        "n_args",
        "name",
        "out_aval",
        "params",
        "several",
        "variables",
    )

    def __init__(
        self,
        name: str,
        declared: str | None,
        grad_fn: Any,
        active: tuple[int, ...],
        avals: Any,
        out_avals: Any,
        several: bool,
        n_args: int,
        variables: list[Any],
    ) -> None:
        self.name = name
        self.declared = declared
        self.grad_fn = grad_fn
        self.active = active
        self.avals = avals
        self.out_aval = out_avals
        self.several = several
        self.n_args = n_args
        self.variables = variables
        self.params: dict[str, Any] = {}

    @property
    def prim(self) -> CustomPull:
        # Not stored: a cycle would keep the graph until the collector runs.
        return self

    @property
    def rules(self) -> tuple[Any, ...]:
        return (None,) * len(self.avals)

    def jvp_custom(self, tangents: list[Any], tensors: Any, out: Any) -> Any:
        """J t from the transpose of the linear map ``g -> grad_fn(g)``."""
        from gtape.tape import GradientTape

        outs = out if out.__class__ is tuple else (out,)
        seeds = [wrap(np.ones(o._aval.shape, o._aval.dtype)) for o in outs]
        with GradientTape() as tape:
            tape.watch(seeds)
            back = self.run(seeds)
        pairs = [(b, t) for b, t in zip(back, tangents, strict=True) if b is not None and t is not None]
        if not pairs:
            return None
        # In TensorFlow's convention both are adjoints: the adjoint of grad_fn is J itself, for complex numbers too.
        made = tape.gradient([b for b, _ in pairs], seeds, output_gradients=[t for _, t in pairs])
        return tuple(made) if out.__class__ is tuple else made[0]

    def run(self, gs: list[Any]) -> list[Any]:
        """Call the user's function; returns one gradient for each input, then one for each variable."""
        if self.variables:
            back = self.grad_fn(*gs, variables=list(self.variables))
            if not (isinstance(back, tuple) and len(back) == 2):
                raise TypeError(
                    "a custom gradient that takes `variables` returns (gradients of the arguments, gradients of the "
                    "variables)"
                )
            back, of_variables = back
            of_variables = list(of_variables)
            if len(of_variables) != len(self.variables):
                raise ValueError(
                    f"custom_gradient function expected to return {len(self.variables)} gradients for its variables, "
                    f"but returned {len(of_variables)} instead."
                )
        else:
            back, of_variables = self.grad_fn(*gs), []
        given = nest.flatten(back) if isinstance(back, (list, tuple, dict)) else [back]
        if len(given) != self.n_args:
            raise ValueError(
                f"custom_gradient function expected to return {self.n_args} gradients, but returned {len(given)} "
                "instead."
            )
        return [
            None if g is None else g if g.__class__ is Tensor else as_operand(g, like)
            for g, like in zip([*given, *of_variables], self._likes(), strict=True)
        ]

    def _likes(self) -> list[Any]:
        return [_Like(a) for a in self.avals]

    def cotangents(self, world: Any, g: Any) -> list[Any]:
        """The gradients for the active inputs, as values of `world`."""
        from gtape.worlds import TAPE

        gs = list(g) if self.several else [g]
        gs = [x if x.__class__ is Tensor else wrap(x) for x in gs]
        back = self.run([_turned(x) for x in gs])
        picked = [_turned(back[i]) for i in self.active]
        return picked if world is TAPE else [None if b is None else b._value for b in picked]

    def __call__(self, g: Any, ins: Any, out: Any) -> Any:
        from gtape.worlds import NUMPY

        made = self.cotangents(NUMPY, g)
        return made[0] if len(made) == 1 else made


def _turned(g: Any) -> Any:
    """Sweeps run in the plain transpose; a user's function sees the conjugate of it, as TensorFlow's does."""
    return REGISTRY["conj"](g) if g is not None and g._aval.complex else g


class _Like:
    """Stands for an input whose dtype a returned number adopts."""

    __slots__ = ("_aval",)
    _is_gtape_tensor = True

    def __init__(self, aval: Any) -> None:
        self._aval = aval


def _takes_variables(grad_fn: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(grad_fn).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(p.name == "variables" or p.kind is p.VAR_KEYWORD for p in parameters)


def custom_gradient(f: Any = None, *, declared: str | None = None) -> Any:
    """Give a function a gradient of your own.

    Parameters
    ----------
    f : callable
        ``f(*args, **kwargs) -> (y, grad_fn)``, where ``grad_fn(*upstream)`` returns one gradient for each positional
        leaf of the arguments. If `f` reads trainable variables, `grad_fn` takes ``variables`` too and returns
        ``(gradients of the arguments, gradients of the variables)``.
    declared : str, optional
        For a gradient that is meant not to be the derivative of the body: why. Verification then takes it as given.

    Returns
    -------
    callable
        Usable as a decorator, with or without `declared`.

    Raises
    ------
    TypeError
        When variables are read inside and `grad_fn` does not take ``variables``.

    Examples
    --------
    >>> import gtape as tf
    >>> @tf.custom_gradient(declared="clips the gradient")
    ... def clip(x):
    ...     return x, lambda g: tf.clip_by_value(g, -1.0, 1.0)
    >>> x = tf.Variable(3.0)
    >>> with tf.GradientTape() as tape:
    ...     y = clip(x) * 10.0
    >>> tape.gradient(y, x).numpy()
    np.float32(1.0)
    """
    if f is None:
        return functools.partial(custom_gradient, declared=declared)
    if isinstance(f, str):
        raise TypeError("custom_gradient takes a function; write @custom_gradient(declared='...') to give the reason")

    return _CustomGradient(f, declared)


class _CustomGradient:
    """A function with its own gradient; as a method it gets its instance, which is no input."""

    def __init__(self, f: Callable[..., Any], declared: str | None) -> None:
        functools.update_wrapper(self, f)
        self._f, self._declared = f, declared

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _call(self._f, self._declared, args, kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else _CustomGradient(self._f.__get__(instance, owner), self._declared)

    def __repr__(self) -> str:
        return f"<custom gradient of {self._f!r}>"

    def __reduce__(self) -> str:
        name: str = self.__qualname__  # type: ignore[attr-defined]
        return name


def _call(f: Any, declared: str | None, args: Any, kwargs: Any) -> Any:
    flat = nest.flatten(list(args))
    tensors = [x if isinstance(x, (Tensor, Variable)) else _input(x) for x in flat]
    before = record.get_stack()
    probe: dict[int, Any] = {}
    record.set_stack(before.sessions, probe)
    try:
        y, grad_fn = f(*args, **kwargs)  # as they came: a number stays a number
    finally:
        record.restore_stack(before)
    if before.probe is not None:
        before.probe.update(probe)
    known = {id(t) for t in [*tensors, *nest.flatten(list(kwargs.values()))]}
    variables = [v for _, v in sorted(probe.items()) if id(v) not in known]
    if variables and not _takes_variables(grad_fn):
        raise TypeError(
            "If using @custom_gradient with a function that uses variables, then grad_fn must accept a keyword "
            "argument `variables`: "
            f"{getattr(f, '__name__', f)} reads {', '.join(v.name for v in variables)}"
        )
    several = isinstance(y, (list, tuple, dict))
    inner = [x if isinstance(x, Tensor) else convert_to_tensor(x) for x in nest.flatten(y)]
    outs = [wrap(x._value) for x in inner]
    positions = [t if isinstance(t, (Tensor, Variable)) else None for t in tensors]
    if before.sessions and not _record(before, f, declared, grad_fn, positions, variables, inner, outs, several):
        # No input has a gradient: what the body took from elsewhere (a keyword argument) keeps its plain derivative.
        outs = [REGISTRY["identity"](x) for x in inner]
    return nest.pack_sequence_as(y, outs) if several else outs[0]


def _input(x: Any) -> Any:
    try:
        return convert_to_tensor(x)
    except (TypeError, ValueError):
        return x  # an object that the function uses, no number


def _record(
    stack: Any,
    f: Any,
    declared: Any,
    grad_fn: Any,
    inputs: list[Any],
    variables: list[Any],
    inner: list[Any],
    outs: list[Any],
    several: bool,
) -> bool:
    """Record the call; whether any tape watches one of its inputs."""
    tensors = [x._as_tensor() if isinstance(x, Variable) else x for x in [*inputs, *variables]]
    active, parents = [], []
    sessions: set[Any] = set()
    for i, t in enumerate(tensors):
        if t is None or t._record is None or not t._aval.inexact:
            continue
        mine = stack.meet(t._record[record.TAPES])
        if mine.sessions:
            active.append(i)
            parents.append(t._record)
            sessions |= mine.sessions
    if not active:
        return False
    tapes = stack.recording if len(sessions) == len(stack.sessions) else record.TapeSet(sessions)
    avals = tuple([wrap(0.0)._aval if t is None else t._aval for t in tensors])
    out_avals = tuple([o._aval for o in outs]) if several else outs[0]._aval
    name = getattr(f, "__name__", "custom_gradient")
    pull = CustomPull(name, declared, grad_fn, tuple(active), avals, out_avals, several, len(inputs), variables)
    trace = None
    if stack.trace:
        trace = Trace(
            tuple([wrap(0.0) if t is None else t for t in tensors]),
            tuple([o._value for o in outs]) if several else outs[0]._value,
        )
        trace.body = inner
        trace.body_origins = tuple([x._record for x in inner])
    made = [
        next(record.count),
        None,
        pull,
        parents[0] if len(parents) == 1 else tuple(parents),
        None,
        None,
        tapes,
        trace,
        None,
    ]
    if several:
        for i, o in enumerate(outs):
            if o._aval.inexact:
                o._record = [next(record.count), None, ItemPull(i), made, None, None, tapes, None, None]
    else:
        outs[0]._record = made
    out = tuple(outs) if several else outs[0]
    for session in stack.sessions:
        if session not in sessions:
            continue
        session.selects = True  # what runs in grad_fn is unknown: take the careful sweep
        if session.forward is not None:
            session.forward.advance(pull, tensors, {}, out, made)
        for o in outs:
            session.track(o)
    return True


def grad_pass_through(f: Any) -> Any:
    """Make a function whose value is `f` and whose gradient is the identity.

    Parameters
    ----------
    f : callable
        Takes tensors, returns one tensor.

    Returns
    -------
    callable

    Examples
    --------
    >>> import gtape as tf
    >>> x = tf.Variable(1.7)
    >>> with tf.GradientTape() as tape:
    ...     y = tf.grad_pass_through(tf.round)(x) * 3.0
    >>> tape.gradient(y, x).numpy()
    np.float32(3.0)
    """

    @custom_gradient(declared="passes the gradient through")  # type: ignore[untyped-decorator]
    def pass_through(*args: Any, **kwargs: Any) -> Any:
        y = f(*args, **kwargs)
        n = len(nest.flatten(list(args)))

        def grad(*gs: Any, variables: Any = None) -> Any:
            back = list(gs) if len(gs) == n else [gs[0]] * n
            back_or_one: Any = back[0] if n == 1 else back
            return (back_or_one, [None] * len(variables)) if variables is not None else back_or_one

        return y, grad

    return functools.wraps(f)(lambda *args, **kwargs: pass_through(*args, **kwargs))


def recompute_grad(f: Any) -> Any:
    """Make a function that keeps nothing of its inside for the backward pass, and runs once more there.

    Parameters
    ----------
    f : callable
        Takes and returns tensors.

    Returns
    -------
    callable
        With ``__wrapped__`` set to `f`.

    Examples
    --------
    >>> import gtape as tf
    >>> x = tf.Variable(0.5)
    >>> with tf.GradientTape() as tape:
    ...     y = tf.recompute_grad(lambda t: tf.sin(t) * t)(x)
    >>> round(float(tape.gradient(y, x)), 5)
    0.91822
    """

    @functools.wraps(f)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        @custom_gradient
        @functools.wraps(f)
        def inner(*inner_args: Any, **inner_kwargs: Any) -> Any:
            before = record.get_stack()
            probe: dict[int, Any] = {}
            if before.trace:
                y = f(*inner_args, **inner_kwargs)  # a check needs the body's ops
            else:
                record.set_stack((), probe)
                try:
                    y = f(*inner_args, **inner_kwargs)
                finally:
                    record.restore_stack(before)
            if before.probe is not None:
                before.probe.update(probe)

            def grad(*gs: Any, variables: Any = None) -> Any:
                from gtape.tape import GradientTape

                flat = nest.flatten(list(inner_args))
                floats = [x for x in flat if isinstance(x, (Tensor, Variable)) and x._aval.inexact]
                with GradientTape(verify=False) as tape:
                    tape.watch(floats)
                    again = f(*inner_args, **inner_kwargs)
                sources = [*flat, *(variables or [])]
                valid = [s if isinstance(s, (Tensor, Variable)) else convert_to_tensor(0.0) for s in sources]
                made = tape.gradient(nest.flatten(again), valid, output_gradients=list(gs))
                of_args = made[: len(flat)]
                packed = of_args[0] if len(of_args) == 1 else of_args
                return (packed, made[len(flat) :]) if variables is not None else packed

            return y, grad

        return inner(*args, **kwargs)

    wrapper.__wrapped__ = f
    return wrapper


def mark_gradients(session: Any, start: Any, sources: list[Any], results: list[Any]) -> list[Any]:
    """Note on each gradient tensor what it is the gradient of, for the oracle of an outer tape."""
    stack = record.get_stack()
    values = [*[c for _, c in start], *[g for g in results if isinstance(g, Tensor)]]
    newest = min((r[record.SEQ] for r, _ in start), default=0)
    kept = _kept_after(session, [r for r, _ in start] + [t._record for t in values], newest)
    targets = [kept.get(r[record.SEQ], r) for r, _ in start]
    cotangents, of = [[_origin(x, kept) for x in xs] for xs in ([c for _, c in start], sources)]
    marked = []
    for i, g in enumerate(results):
        if not isinstance(g, Tensor) or g._record is None or not stack.meet(g._record[record.TAPES]).sessions:
            marked.append(g)
            continue
        t = record_op(stack, REGISTRY["identity"], (g,), {}, wrap(g._value))
        if t._record is not None and len(t._record) > record.TRACE and t._record[record.TRACE] is not None:
            t._record[record.TRACE].body = GradNode(targets, cotangents, of, i, session)
        marked.append(t)
    return marked


def _origin(x: Any, kept: dict[int, Any]) -> tuple[Any, Any]:
    r = x._record
    return (r if r is None else kept.get(r[record.SEQ], r)), x._value


def _kept_after(session: Any, records: list[Any], newest: int) -> dict[int, Any]:
    """Copies of the records that end with a session, by number; the traces of what consumed them point at the copies.

    What an inner tape alone watched is a constant for the outer one, but the inner gradient depends on it: the oracle
    has to know by which ops.

    Only records of the session itself are followed, and newer ones than a limit: the ops of the gradient are newer than
    its targets, those of a custom gradient's body than its inputs. So a long history is not walked again and again.
    """
    seen: dict[int, Any] = {}
    pending = [(r, newest) for r in records if r is not None]
    while pending:
        r, limit = pending.pop()
        old = seen.get(r[record.SEQ])
        if old is not None and (old[record.PULL] is not None or r[record.PULL] is None):
            continue  # a leaf may stand for the record of the same number, see backprop's anchors
        seen[r[record.SEQ]] = r
        for part, new in _origins(r, limit):
            pending.extend(
                (p, new) for p in part if p is not None and (p[record.SEQ] < new or session in p[record.TAPES].sessions)
            )
    kept = {
        number: list(r)
        for number, r in seen.items()
        if r[record.PULL] is not None and not any(s.live and s is not session for s in r[record.TAPES].sessions)
    }
    for number, r in seen.items():
        trace = r[record.TRACE] if len(r) > record.TRACE else None
        if trace is not None:
            trace.origins, trace.body_origins = (
                tuple([p if p is None else kept.get(p[record.SEQ], p) for p in origins])
                for origins in (trace.origins, trace.body_origins)
            )
        elif number in kept and r[record.PULL].prim is None:  # one output of several
            parent = r[record.PARENTS]
            kept[number][record.PARENTS] = kept.get(parent[record.SEQ], parent)
    return kept


def _origins(r: Any, limit: int) -> list[tuple[tuple[Any, ...], int]]:
    """Groups of records that one depends on, each with its limit (records count down, so newer is less)."""
    trace = r[record.TRACE] if len(r) > record.TRACE else None
    if trace is not None:
        groups = [(trace.origins, limit)]
        if trace.body_origins:
            groups.append((trace.body_origins, min((p[record.SEQ] for p in trace.origins if p is not None), default=0)))
        return groups
    if r[record.PULL] is not None and r[record.PULL].prim is None:
        return [((r[record.PARENTS],), limit)]
    return []
