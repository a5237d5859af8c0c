"""custom_gradient: functions whose gradient the user wrote, and the records of their calls."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, overload

import numpy as np

from gtape import nest
from gtape.base import late
from gtape.base.escaping import plain
from gtape.base.shown import shown
from gtape.declare.primitives import REGISTRY
from gtape.engine.call import attach, connections, new_record, record_any
from gtape.engine.recorded_runs import RecordedRun
from gtape.engine.rules import RuleStep
from gtape.engine.sparse import SparseCotangent
from gtape.engine.worlds import TAPE
from gtape.errors import InvalidArgumentError
from gtape.recording import record
from gtape.recording.trace import Trace
from gtape.recording.undoing import repeating
from gtape.tensors.indexed_slices import IndexedSlices
from gtape.tensors.tensor import Tensor, as_operand, convert_to_tensor, wrap
from gtape.tensors.variable import Variable

__all__ = ["CustomGradient", "custom_gradient", "keep_records", "name_of", "step_of_body"]

CUSTOMS = True  # `gtape.recording.trace` reads this: functions of users that this module calls are custom gradients


class _Absent:
    """Stands in a pickle for a function of the user's."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError(f"the custom gradient {self.name!r} cannot be called, because pickles leave functions out")


class CustomStep:
    """The backward step of one call of a custom gradient. The step is its own primitive.

    The step has the attributes of a primitive that the sweeps and forward mode read. Only the full sweep handles this
    class.

    Parameters
    ----------
    name : str
        The name of the function.
    declared : str or None
        The reason why the gradient intentionally differs from the derivative of the body.
    grad_fn : callable
    active : tuple of int
        The indices of the inputs, then of the variables, that get a gradient.
    layouts, out_layout
        As in `gtape.engine.rules.RuleStep`.
    n_args : int
        The number of inputs, without the variables.
    variables : list of Variable
        The variables that the function read.
    recomputes : bool
        Whether the gradient is that of the body, which `grad_fn` runs again.

    Attributes
    ----------
    recorded : RecordedRun or None
        The last run whose ops were kept, for runs that `grad_fn` refuses.
    returned : tuple of dtype or None
        The dtype of each gradient of the last run on the recorded dtypes, of the inputs and then of the variables.
    spans : list of (int, int)
        For each run in an inner gradient, the numbers of records from before and after it. The records of its ops have
        numbers in between.
    """

    kind = "custom"
    batched = selects = False
    sparse = partials = None
    variadic = differentiable = True
    roles: frozenset[str] = frozenset()

    __slots__ = (
        "active", "declared", "grad_fn", "items", "layouts", "n_args", "name", "out_layout", "params", "recomputes",
        "recorded", "returned", "spans", "variables",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        declared: str | None,
        grad_fn: Any,
        active: tuple[int, ...],
        layouts: tuple[Any, ...],
        out_layout: Any,
        n_args: int,
        variables: list[Any],
        recomputes: bool = False,
    ) -> None:
        self.name = name
        self.recomputes = recomputes
        self.declared = declared
        self.grad_fn = grad_fn
        self.active = active
        self.layouts = layouts
        self.out_layout = out_layout
        self.n_args = n_args
        self.variables = variables
        self.params: dict[str, Any] = {}
        self.recorded: RecordedRun | None = None
        self.returned: tuple[Any, ...] = (None,) * len(layouts)
        self.spans: list[tuple[int, int]] = []

    def __reduce__(self) -> Any:
        # Without the functions of the user's, which are closures mostly, and without the variables.
        return CustomStep, (
            self.name, self.declared, _Absent(self.name), self.active, self.layouts, self.out_layout, self.n_args, [],
            self.recomputes,
        )  # fmt: skip

    @property
    def prim(self) -> CustomStep:
        # A property, because a stored reference to itself would be a cycle that keeps the graph until the collector
        # runs.
        return self

    @property
    def rules(self) -> tuple[Any, ...]:
        return (None,) * len(self.layouts)

    @staticmethod
    def connected(i: int) -> bool:
        return True

    def jvp_custom(self, tangents: list[Any], tensors: Any, out: Any) -> Any:
        """The tangent J t, from the transpose of the linear map ``g -> grad_fn(g)``."""
        outs = out if out.__class__ is tuple else (out,)
        seeds = [wrap(np.ones(o._layout.shape, o._layout.dtype)) for o in outs]
        with late.GradientTape(verify=False) as tape:
            tape.watch(seeds)
            back = self.run(seeds)
        wrong = next((why for i in self.active if (why := self.misfit(i)) is not None), None)
        if wrong is not None:
            raise InvalidArgumentError(wrong)
        pairs = [(b, t) for b, t in zip(back, tangents, strict=True) if b is not None and t is not None]
        if not pairs:
            return None
        # grad_fn is the adjoint of J in TensorFlow's convention, so its adjoint is J, for complex numbers, too.
        made = tape.gradient([b for b, _ in pairs], seeds, output_gradients=[t for _, t in pairs])
        return tuple(made) if out.__class__ is tuple else made[0]

    def run(self, gs: list[Any], *, sparse: bool = False) -> list[Any]:
        """Call the user's function. Returns one gradient for each input, then one for each variable.

        With `sparse`, IndexedSlices stay sparse.
        """
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
        kept = (Tensor, IndexedSlices) if sparse else (Tensor,)
        made = [
            None if g is None else g if g.__class__ in kept else self._dense(i, g)
            for i, g in enumerate([*given, *of_variables])
        ]
        for g in made:
            if g is not None and g.dtype.name == "string":
                raise TypeError(
                    f"the gradient function of {plain(self.name)} must return numbers, and returned {g.numpy()!r}"
                )
        outs = self.out_layout if self.out_layout.__class__ is tuple else (self.out_layout,)
        # A check may call the function in a wider dtype, whose results say nothing about the function.
        if all(g._layout.dtype == o.dtype for g, o in zip(gs, outs, strict=True) if o.inexact):
            self.returned = tuple([None if g is None else g.dtype.as_numpy_dtype for g in made])
        return made

    def _dense(self, i: int, g: Any) -> Any:
        """A gradient for input `i` as a tensor."""
        try:
            return as_operand(g, self.layouts[i])
        except (IndexError, InvalidArgumentError) as e:
            if not isinstance(g, IndexedSlices):
                raise
            said = f"the gradient that {plain(self.name)} returns for input {i} has other rows than the input"
            raise InvalidArgumentError(f"{said} of shape {self.layouts[i].shape}: {e}") from e

    def misfit(self, i: int) -> str | None:
        """What is wrong with the dtype of the last gradient for input `i`; None if it is that of the input.

        The dtype of the gradient goes on to every op before the input, so that a narrow one rounds all of them.
        TensorFlow refuses such a gradient where it meets numbers of the right dtype.
        """
        given, wanted = self.returned[i], self.layouts[i].dtype
        if given is None or given == wanted or wanted.kind not in "fc":
            return None
        return (
            f"the gradient that {plain(self.name)} returns for input {i} has dtype {np.dtype(given).name}, and the "
            f"input has dtype {wanted.name}"
        )

    def cotangents(
        self, world: Any, g: Any, *, sparse: bool = False, keep: bool = False, repeats: bool = False
    ) -> list[Any]:
        """The gradients for the active inputs as values of `world`.

        Parameters
        ----------
        sparse : bool
            Whether IndexedSlices stay sparse.
        keep : bool
            Whether to keep the ops of this run, for `rerun`.
        repeats : bool
            Whether this call is one that only a check makes, so that an earlier one serves where the function refuses.
        """
        gs = self._given(g)
        # A function that recomputes its body can run again, and its ops would take the memory that it saves.
        kept = keep and not self.recomputes
        inner = world is TAPE and record.get_stack().trace
        begun = next(record.count) if inner else 0
        try:
            back = self._run_and_keep(world, gs, sparse=sparse) if kept else self.run(gs, sparse=sparse)
        except Exception:  # the function of a user may raise anything
            if not repeats or world is TAPE or self.recorded is None:
                raise
            back = self.rerun(gs)
        if inner:
            self.spans.append((begun, next(record.count)))
        return [self._in(world, back[i], self.layouts[i]) for i in self.active]

    def again(self, world: Any, g: Any) -> list[Any]:
        """As `cotangents`, by `rerun`."""
        back = self.rerun(self._given(g))
        return [self._in(world, back[i], self.layouts[i]) for i in self.active]

    def rerun(self, gs: list[Any]) -> list[Any]:
        """As `run` after another run, whose results or ops serve where a function cannot run again.

        Raises
        ------
        Exception
            The error of the function, if it runs for the cotangents of the kept run, or if the ops cannot run again.
        """
        kept = self.recorded
        if kept is not None and kept.is_of([g._value for g in gs]):
            return kept.made
        return self._by_function_or_ops(gs, kept)

    def rows_on_tape(self, rows: list[Any], *, keep: bool = False) -> list[list[Any]]:
        """As `cotangents` for several cotangents, of which tapes follow each one to its results.

        The ops of the first call serve where the function refuses another one.
        """
        first, *others = map(self._given, rows)
        inner = record.get_stack().trace
        begun = next(record.count) if inner else 0
        kept = RecordedRun(first, self.run) if (others or keep) and not self.recomputes else None
        made = [self.run(first) if kept is None else kept.made]
        made += [self._by_function_or_ops(gs, kept) for gs in others]
        if inner:
            self.spans.append((begun, next(record.count)))
        self.recorded = kept.apart() if keep and kept is not None else None
        return [[self._in(TAPE, back[i], self.layouts[i]) for i in self.active] for back in made]

    def _by_function_or_ops(self, gs: list[Any], kept: RecordedRun | None) -> list[Any]:
        """As `run`, by the ops of an earlier run if the function serves for one call only."""
        try:
            return self.run(gs)
        except Exception:  # the function of a user may raise anything
            if kept is None or not kept.can_repeat or not self._refuses(kept):
                raise
        return kept.again(gs)

    def serves_once(self) -> bool:
        """Whether the function refuses even the cotangents of its kept run."""
        return self.recorded is not None and self._refuses(self.recorded)

    def _refuses(self, kept: RecordedRun) -> bool:
        """Whether the function raises an error for the cotangents of an earlier run."""
        try:
            with repeating():
                self.run([wrap(g._value) for g in kept.gs])
        except Exception:
            return True
        return False

    def _given(self, g: Any) -> list[Any]:
        """The arguments of the user's function for the cotangent of a sweep."""
        gs = list(g) if self.out_layout.__class__ is tuple else [g]
        return [_turned(x if x.__class__ is Tensor else wrap(x)) for x in gs]

    def _run_and_keep(self, world: Any, gs: list[Any], *, sparse: bool) -> list[Any]:
        returned: list[Any] = []

        def run(fresh: list[Any]) -> list[Any]:
            returned.extend(self.run(fresh, sparse=sparse))
            return [self._dense(i, b) if isinstance(b, IndexedSlices) else b for i, b in enumerate(returned)]

        if world is TAPE:
            # Outer tapes follow this run. The kept one has no part in them.
            self.recorded = RecordedRun(gs, run).apart()
        else:
            self.recorded = RecordedRun([wrap(g._value) for g in gs], run)
        return returned

    @staticmethod
    def _in(world: Any, b: Any, layout: Any) -> Any:
        """One gradient as a value of a world."""
        if b is None:
            return None
        if isinstance(b, IndexedSlices):
            values = _turned(b.values)
            return SparseCotangent(values if world is TAPE else values._value, b.indices.numpy(), layout.shape)
        b = _turned(b)
        return b if world is TAPE else b._value


def _turned(g: Any) -> Any:
    """The conjugate, because sweeps use the plain transpose and the user's function follows TensorFlow's convention."""
    return REGISTRY["conj"](g) if g is not None and g._layout.complex else g


def _takes_variables(grad_fn: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(grad_fn).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(p.name == "variables" or p.kind is p.VAR_KEYWORD for p in parameters)


_P = ParamSpec("_P")


@overload
def custom_gradient(f: Callable[_P, Any], *, declared: str | None = None) -> Callable[_P, Any]: ...
@overload
def custom_gradient(
    f: None = None, *, declared: str | None = None
) -> Callable[[Callable[_P, Any]], Callable[_P, Any]]: ...
def custom_gradient(f: Any = None, *, declared: str | None = None) -> Any:
    """Give a function a gradient of your own.

    Parameters
    ----------
    f : callable
        ``f(*args, **kwargs) -> (y, grad_fn)``, where ``grad_fn(*upstream)`` returns one gradient for each positional
        leaf of the arguments. If `f` reads trainable variables, `grad_fn` takes ``variables`` too and returns
        ``(gradients of the arguments, gradients of the variables)``.
    declared : str, optional
        The reason why the gradient intentionally differs from the derivative of the body. Verification then accepts the
        gradient.

    Returns
    -------
    callable
        Usable as a decorator, with or without `declared`.

    Raises
    ------
    TypeError
        If `declared` is no text, or `f` no function; at a call, if variables are read inside and `grad_fn` does not
        take ``variables``, or `f` returns no gradient function.
    ValueError
        If `declared` is an empty text; in a sweep, if `grad_fn` returns a wrong number of gradients.

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
    _refuse_without_reason(declared)
    if f is None:
        return functools.partial(custom_gradient, declared=declared)
    if isinstance(f, str):
        raise TypeError("custom_gradient takes a function; write @custom_gradient(declared='...') to give the reason")
    if not callable(f) and not isinstance(f, (staticmethod, classmethod)):
        raise TypeError(f"custom_gradient takes a function, not {shown(f)}")
    return CustomGradient(f, declared)


def _refuse_without_reason(declared: Any) -> None:
    """An error if `declared` is neither None nor a reason, because a declaration switches the check of a body off."""
    advice = (
        "custom_gradient(declared=...) takes the reason why the gradient differs from the derivative of the body, as "
        "declared='clips the gradient'; leave declared out if the gradient is this derivative"
    )
    if declared is None:
        return
    if not isinstance(declared, str):
        raise TypeError(f"{advice}: {shown(declared)} is no text")
    if not declared.strip():
        raise ValueError(f"{advice}: the text is empty")


class CustomGradient:
    """A function with its own gradient. A method is bound to its instance, which is not an input.

    Parameters
    ----------
    f, declared
        As for `custom_gradient`.
    recomputes : bool
        Whether the gradient function runs `f` again and differentiates it, so that the gradient is that of the body.
    """

    def __init__(self, f: Callable[..., Any], declared: str | None, *, recomputes: bool = False) -> None:
        functools.update_wrapper(self, f)
        self._f, self._declared, self._recomputes = f, declared, recomputes

    @property
    def function(self) -> Any:
        """The function as the user wrote it."""
        return self._f

    @property
    def declared(self) -> str | None:
        """The reason why the gradient intentionally differs from the derivative of the body."""
        return self._declared

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _call(self._f, self._declared, args, kwargs, self._recomputes)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        return CustomGradient(self._f.__get__(instance, owner), self._declared, recomputes=self._recomputes)

    def __repr__(self) -> str:
        return f"<custom gradient of {shown(self._f)}>"

    def __reduce__(self) -> str:
        name: str = self.__qualname__  # type: ignore[attr-defined]
        return name


def _call(f: Any, declared: str | None, args: Any, kwargs: Any, recomputes: bool) -> Any:
    flat = nest.flatten(list(args))
    tensors = [x if isinstance(x, (Tensor, Variable)) else _input(x) for x in flat]
    before = record.get_stack()
    probe: dict[int, Any] = {}
    begun = next(record.count)
    with record.off(before.sessions, probe):
        returned = f(*args, **kwargs)  # the arguments as given, so that a number stays a number
    y, grad_fn = _pair(f, returned)
    if before.probe is not None:
        before.probe.update(probe)
        record.note_read(before, [t for t in tensors if isinstance(t, Tensor)])
    if grad_fn is keep_records:
        return y
    known = {id(t) for t in [*tensors, *nest.flatten(list(kwargs.values()))]}
    variables = [v for _, v in sorted(probe.items()) if id(v) not in known]
    if variables and not _takes_variables(grad_fn):
        raise TypeError(
            "If using @custom_gradient with a function that uses variables, then grad_fn must accept a keyword "
            "argument `variables`: "
            f"{_shown(f)} reads {', '.join(plain(v.name) for v in variables)}"
        )
    several = isinstance(y, (list, tuple, dict))
    if any(x is None for x in nest.flatten(y)):
        raise ValueError(
            "Attempt to convert a value (None) with an unsupported type (<class 'NoneType'>) to a Tensor: "
            f"{_shown(f)} returned None as its value"
        )
    inner = [x if isinstance(x, Tensor) else convert_to_tensor(x) for x in nest.flatten(y)]
    outs = [wrap(x._value) for x in inner]
    positions = [t if isinstance(t, (Tensor, Variable)) else None for t in tensors]
    called = begun, (f, args, kwargs)
    rule = declared, grad_fn, recomputes
    if before.sessions:
        held = _record(before, called, rule, positions, variables, inner, outs, several)
        # Tensors from elsewhere (a captured one, a keyword argument) keep their plain derivatives in other sessions.
        outs = [_with_plain_derivatives(before, held, x, out) for x, out in zip(inner, outs, strict=True)]
    return nest.pack_sequence_as(y, outs) if several else outs[0]


def _with_plain_derivatives(stack: record.Stack, held: frozenset[Any], x: Tensor, out: Tensor) -> Tensor:
    """A result with the plain derivatives of the body's result for sessions that watch no input of the call.

    Parameters
    ----------
    stack : Stack
    held : frozenset of Session
        The sessions that recorded the call of the custom gradient.
    x : Tensor
        The result of the body.
    out : Tensor
        The result of the call.
    """
    if not held:
        plain_one: Tensor = REGISTRY["identity"](x)
        return plain_one
    followed = frozenset() if x._record is None else x._record[record.TAPES].sessions
    others = tuple([s for s in stack.sessions if s in followed and s not in held])
    if not others:
        return out
    with record.off(others):
        moving: Tensor = REGISTRY["identity"](x)
    if moving._record is None or record.for_a_check_alone(moving._record):
        return out
    fixed = wrap(x._value)
    fixed._record = record.leaf()  # a check takes a constant without a record for a value that may have left a tape
    made: Tensor = record_any(record.get_stack(), REGISTRY["moved_along"], (out, moving, fixed), {}, wrap(out._value))
    return made


def step_of_body() -> RuleStep:
    """The step of a result of a recomputed function, which is the same number as the result of the body."""
    return RuleStep(REGISTRY["identity"], (0,), {}, None, None)


def keep_records(*upstream: Any) -> Any:
    """Keep the results' own records, and so their plain derivatives, instead of using a gradient function."""
    raise NotImplementedError


def _pair(f: Any, returned: Any) -> tuple[Any, Any]:
    """The returned value and gradient function. An error if `returned` is anything else."""
    said = f"a custom gradient returns (value, gradient function), and {_shown(f)} returned "
    if not isinstance(returned, (tuple, list)):
        raise TypeError(f"{said}a {type(returned).__name__}")
    if len(returned) != 2:
        raise ValueError(f"{said}{len(returned)} things")
    if not callable(returned[1]):
        raise TypeError(f"{said}a {type(returned[1]).__name__} in place of the function")
    return returned[0], returned[1]


def name_of(f: Any) -> str:
    """The name of a function, of the function of a partial call, or of the class of a callable object."""
    while isinstance(f, functools.partial):
        f = f.func
    name: str = getattr(f, "__name__", None) or type(f).__name__
    return name


def _shown(f: Any) -> str:
    return plain(name_of(f))


def _input(x: Any) -> Any:
    try:
        return convert_to_tensor(x)
    except (TypeError, ValueError):
        return x  # an object of another kind, which the function uses


def _record(
    stack: Any,
    called: tuple[int, Any],
    rule: tuple[str | None, Any, bool],
    inputs: list[Any],
    variables: list[Any],
    inner: list[Any],
    outs: list[Any],
    several: bool,
) -> frozenset[Any]:
    """Record the call. Returns the sessions that recorded it: none if no tape watches any of its inputs."""
    # A constant number stands for an object that is not a tensor.
    tensors = [
        wrap(0.0) if x is None else x._as_tensor() if isinstance(x, Variable) else x for x in [*inputs, *variables]
    ]
    active, parents, tapes, idle = connections(stack, CustomStep, tensors)
    if not active:
        return frozenset()
    layouts = tuple([t._layout for t in tensors])
    out = tuple(outs) if several else outs[0]
    out_layout = tuple([o._layout for o in outs]) if several else outs[0]._layout
    declared, grad_fn, recomputes = rule
    begun, call = called
    step = CustomStep(
        name_of(call[0]), declared, grad_fn, active, layouts, out_layout, len(inputs), variables, recomputes
    )
    trace = None
    if stack.trace:
        seen = tuple([wrap(0.0) if t._layout.dtype.kind in "SUO" else t for t in tensors])
        trace = Trace(seen, tuple([o._value for o in outs]) if several else outs[0]._value, stack)
        trace.idle, trace.body, trace.call, trace.begun = idle, inner, call, begun
        trace.body_origins = tuple([x._record for x in inner])
    attach(stack, new_record(step, parents, None, None, tapes), tensors, out, trace)
    return tapes.sessions
