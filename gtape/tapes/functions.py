"""`function`, and `gradients` and `hessians` inside it.

A `function` runs its body as plain Python and is transparent to tapes. If the body calls `gradients` or `hessians`, the
call keeps a graph: a private persistent tape that watches the arguments, the tensors that the body can see, and every
new constant. gtape looks for these two names in the code, so that other functions pay nothing.
"""

from __future__ import annotations

import functools
import sys
import types
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextvars import ContextVar
from typing import Any, overload

import numpy as np

from gtape import nest
from gtape.base.diagnosis import diagnosed
from gtape.base.escaping import plain
from gtape.base.shown import shown
from gtape.base.tensor_shape import TensorShape
from gtape.declare.registry import REGISTRY
from gtape.engine.differentiation import differentiate
from gtape.engine.jacobians import jacobians
from gtape.engine.requests import UnconnectedGradients, seeds_of, wants_zeros, zeros_for
from gtape.errors import OperandTypeError
from gtape.recording.record import COT, LEAF, SEQ, count, note_asked, record_of, refuse_in_traced_calls
from gtape.tapes.array_arguments import ArrayArguments
from gtape.tapes.concrete import ConcreteFunction
from gtape.tapes.signatures import Parameters, bound, check_signature, fitted
from gtape.tapes.tape import GradientTape
from gtape.tapes.traces import Traces
from gtape.tensors.tensor import Tensor, convert_to_tensor, listener, wrap
from gtape.tensors.variable import Variable

__all__ = ["Function", "function", "gradients", "hessians"]

_ASKING = frozenset({"gradients", "hessians"})
_ASYNC = (Coroutine, AsyncIterator)
_OPTIONS = frozenset({
    "autograph", "jit_compile", "reduce_retracing", "experimental_implements", "experimental_autograph_options",
    "experimental_attributes", "experimental_relax_shapes", "experimental_compile", "experimental_follow_type_hints",
})  # fmt: skip
_SWITCHES = ("jit_compile", "experimental_compile", "reduce_retracing", "experimental_relax_shapes")

# The graphs of the functions that are running, innermost last.
_graphs: ContextVar[tuple[GradientTape, ...]] = ContextVar("gtape_graphs", default=())


# ---------------------------------------------------------------------------------------------- names that a body reads


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _seen(f: Any) -> Iterator[Any]:
    """The objects that a function can reach: globals in its code, closure, defaults, and attributes of its instance."""
    owner = getattr(f, "__self__", None)
    f = getattr(f, "__func__", f)
    if not isinstance(f, types.FunctionType):
        return
    names = {n for code in _codes(f.__code__) for n in code.co_names}
    yield from (f.__globals__[n] for n in names if n in f.__globals__)
    for cell in f.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # a closure variable without a value yet
            continue
    yield from f.__defaults__ or ()
    yield from (f.__kwdefaults__ or {}).values()
    if owner is not None:
        yield from vars(owner).values() if hasattr(owner, "__dict__") else ()
        yield from (
            getattr(type(owner), n) for n in names if isinstance(getattr(type(owner), n, None), types.FunctionType)
        )


def _ours(f: Any) -> bool:
    return str(getattr(f, "__module__", "")).partition(".")[0] == "gtape"


def _asks(f: Any, seen: set[int]) -> bool:
    """Whether the code of a function, or of a function that it can reach, names `gradients` or `hessians`."""
    if isinstance(f, functools.partial):
        return _asks(f.func, seen)
    code = getattr(getattr(f, "__func__", f), "__code__", None)
    if code is None or id(code) in seen:
        return False
    seen.add(id(code))
    if any(_ASKING.intersection(c.co_names) for c in _codes(code)):
        return True
    # The function may have another name for `gradients`, or reach a function that names `gradients`.
    return any(
        g is gradients or g is hessians or (not _ours(g) and _asks(g, seen))
        for g in _seen(f)
        if isinstance(g, (types.FunctionType, types.MethodType, functools.partial))
    )


def _tensors(values: Any) -> Iterator[Any]:
    for v in values:
        if isinstance(v, (list, tuple, dict)):
            yield from _tensors(nest.flatten(v) if nest.is_nested(v) else ())
        elif isinstance(v, (Tensor, Variable)) and v._layout.inexact:
            yield v


# ---------------------------------------------------------------------------------------------- function


class Function:
    """A Python function that TensorFlow would compile. By default a call just runs the Python function.

    Parameters
    ----------
    python_function : callable
    input_signature : sequence of TensorSpec, optional
    traces : Traces, optional
        Counts the kinds of arguments.
    compiled : bool or Compiler
        Whether calls are compiled. For a method: the compiler that all instances share.

    Attributes
    ----------
    python_function : callable
        The decorated function.
    input_signature : tuple or None
    source : str
        With ``jit_compile=True`` the source of the newest program.

    Raises
    ------
    TypeError
        For a malformed `input_signature`.
    """

    def __init__(
        self,
        python_function: Callable[..., Any],
        input_signature: Any = None,
        traces: Any = None,
        compiled: Any = False,
    ) -> None:
        functools.update_wrapper(self, python_function)
        self.python_function = python_function
        self.input_signature = None if input_signature is None else check_signature(input_signature)
        self._asks: bool | None = None
        self._parameters: Parameters | None = None
        self._method_parameters: Parameters | None = None
        self._traces: Traces = Traces(relaxed=False) if traces is None else traces
        self._owner: tuple[Any, ...] = ()
        self._is_method = False
        self._compiler: Any = compiled or None
        if compiled is True:
            from gtape.tapes.compiled import Compiler
            from gtape.tapes.forms import names_of, takes_any_names

            keeps_order = takes_any_names(python_function)
            self._compiler = Compiler(self._called, self.name, keeps_order, names_of(python_function))
        quick = None if self._compiler is None or self.input_signature is not None else self._compiler.quick
        self._quick: Callable[..., Any] | None = quick

    def __reduce_ex__(self, protocol: Any) -> Any:
        # As Python's functions and methods: by name if the name leads here, and a method by its instance.
        name = getattr(self, "__qualname__", self.name)
        if self._owner:
            return getattr, (*self._owner, self.name)
        found: Any = sys.modules.get(self.__module__)
        for part in name.split("."):
            found = getattr(found, part, None)
        return name if found is self else super().__reduce_ex__(protocol)

    def __getstate__(self) -> dict[str, Any]:
        # Without attributes that `update_wrapper` took from the Python function, because pickle finds that one by name.
        copied = vars(self.python_function) if hasattr(self.python_function, "__dict__") else {}
        return {k: x for k, x in vars(self).items() if k not in copied or copied[k] is not x}

    def __setstate__(self, state: dict[str, Any]) -> None:
        functools.update_wrapper(self, state["python_function"])
        vars(self).update(state)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._quick is not None and not kwargs:
            quick = self._quick(args)
            if quick is not NotImplemented:
                return quick
        if self.input_signature is not None:
            args, kwargs = fitted(self.python_function, self.input_signature, args, kwargs, self.name)
            if self._parameters is None:
                self._parameters = Parameters(self.python_function)
            self._traces.seen[None] = None
        else:
            args, kwargs = self._noted(args, kwargs)
        return self._traced_before(args, kwargs)

    def _noted(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments by position where possible and with defaults, after their kind is noted."""
        if self._parameters is None:
            self._parameters = Parameters(self.python_function)
        if kwargs or self._parameters.optional:
            args, kwargs = self._parameters.complete(args, kwargs)
        self._traces.note(args, kwargs)
        return args, kwargs

    def _traced_before(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of a call whose kind of arguments is known, such as that of a concrete function."""
        parameters = self._parameters
        if self._compiler is not None and parameters is not None and parameters.optional:
            args, kwargs = parameters.shortest(args, kwargs)
        taken: ArrayArguments | None = None
        if kwargs or not all([x.__class__ is Tensor for x in args]):  # noqa: C419 - a list is quicker
            taken = ArrayArguments()
            args = tuple([taken.taken(x) for x in args])
            kwargs = {name: taken.taken(x) for name, x in kwargs.items()}
        try:
            if self._compiler is not None:
                made = self._compiler((*self._owner, *args), kwargs, len(self._owner))
                if made is not NotImplemented:
                    return made
            return self._result(args, kwargs)
        finally:
            if taken is not None:
                taken.give_back()

    def _called(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the Python function. A method gets its instance as first argument."""
        if self._is_method and args:
            return self.__get__(args[0])._result(args[1:], kwargs)
        return self._result(args, kwargs)

    def _result(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._asks is None:
            self._asks = _asks(self.python_function, set())
        start = next(count)
        if self._asks:
            result = self._with_graph(args, kwargs)
        else:
            result = self.python_function(*args, **kwargs)
        if result is None:
            return None
        return _own(result, start) if result.__class__ is Tensor else _as_tensors(result, self.name, start)

    @diagnosed
    def get_concrete_function(self, *args: Any, **kwargs: Any) -> ConcreteFunction:
        """The function for one kind of arguments.

        Parameters
        ----------
        *args, **kwargs
            The arguments of a call. A TensorSpec or an example stands for each tensor; all other values are fixed.
            Optional with an `input_signature`.

        Raises
        ------
        TypeError
            For arguments that the function does not take, or that do not fit `input_signature`.

        Examples
        --------
        >>> double = tf.function(lambda x: 2.0 * x)
        >>> concrete = double.get_concrete_function(tf.TensorSpec([2], tf.float32))
        >>> concrete(tf.constant([1.0, 2.0])).numpy(), concrete.output_shapes
        (array([2., 4.], dtype=float32), TensorShape([2]))
        """
        signature = self.input_signature
        if signature is not None:
            if args or kwargs:
                given = nest.flatten(bound(self.python_function, args, kwargs).args[: len(signature)])
                specs = nest.flatten(signature)
                if len(given) != len(specs):
                    raise TypeError(f"{self.name}: {len(given)} tensors do not fit the {len(specs)} of input_signature")
                for x, spec in zip(given, specs, strict=True):
                    if not spec.is_compatible_with(x):
                        raise TypeError(f"{plain(self.name)}: {x} does not fit {spec} of the input_signature")
            args, kwargs = signature, {}
            self._traces.seen[None] = None
        else:
            self._noted(args, kwargs)
        return ConcreteFunction(self, args, kwargs, _seen)

    def experimental_get_tracing_count(self) -> int:
        """The number of times that TensorFlow would have traced the function: once for each kind of arguments so far.

        Returns
        -------
        int

        Examples
        --------
        >>> import gtape as tf
        >>> double = tf.function(lambda x: 2.0 * x)
        >>> for x in (tf.constant(1.0), tf.constant(2.0), tf.constant([1.0]), 3.0):
        ...     y = double(x)
        >>> double.experimental_get_tracing_count()
        3
        """
        return len(self._traces.seen)

    @property
    def name(self) -> str:
        """The name of the Python function."""
        return str(getattr(self.python_function, "__name__", "function"))

    def _with_graph(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        graph = GradientTape(persistent=True)

        def watch(t: Tensor) -> None:
            if t._layout.inexact and t._record is None:
                graph.watch(t)

        graphs, before = _graphs.get(), listener.get()
        try:
            _graphs.set((*graphs, graph))
            listener.set(watch)
            with graph:
                known = _tensors([*args, *kwargs.values(), *_seen(self.python_function)])
                graph.watch(list({id(t): t for t in known}.values()))
                return self.python_function(*args, **kwargs)
        finally:
            try:
                listener.set(before)
            finally:  # also after an interrupt
                _graphs.set(graphs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        self._is_method = True
        if self._method_parameters is None:
            self._method_parameters = Parameters(self.python_function, skipped=1)
        made = Function(
            self.python_function.__get__(instance, owner), self.input_signature, self._traces, self._compiler or False
        )
        made._owner = (instance,)
        made._parameters = self._method_parameters
        made._quick = None  # because the quick way does not know the owner
        return made

    @property
    def source(self) -> str:
        """The Python source of the newest compiled program. Empty before the first program.

        Programs of calls under a tape count only if there is no other.

        Examples
        --------
        >>> import gtape as tf
        >>> f = tf.function(lambda x, y: x * y + x, jit_compile=True)
        >>> float(f(tf.constant(2.0, tf.float64), tf.constant(3.0, tf.float64)))
        8.0
        >>> print(f.source)
        def program(x0, x1):
            v1 = (x0 * x1) + x0
            return (v1,)
        <BLANKLINE>
        """
        return "" if self._compiler is None else str(self._compiler.source)

    def summary(self) -> str:
        """Text with a line for each kind of arguments: compiled, or eager with the reason.

        Returns
        -------
        str

        Examples
        --------
        >>> import gtape as tf
        >>> f = tf.function(lambda x: x * x + x * x, jit_compile=True)
        >>> y = f(tf.constant(2.0))
        >>> f.summary()
        'compiled: 2 of 3 operations, 0 variables, 1 results; 2 calls, 0 buffers, 0 bytes'
        """
        return "eager: without jit_compile=True" if self._compiler is None else str(self._compiler.summary())

    def __repr__(self) -> str:
        return f"<gtape.function {plain(self.name)}>"


def _own(t: Tensor, start: int) -> Tensor:
    """A result as a tensor of its own: as in TensorFlow, no argument and no tensor from outside is a result itself.

    Only the result of an op since the number `start` is such a tensor already.
    """
    r = t._record
    if r is None:
        return wrap(t._value)
    made: Tensor = t if r[COT] is not LEAF and r[SEQ] < start else REGISTRY["identity"](t)
    return made


def _as_tensors(result: Any, name: str, start: int) -> Any:
    """The result of a function with numbers, arrays, shapes and variables as tensors, each of its own.

    Raises a TypeError, as TensorFlow does, for results that later reads change or that have no order.
    """
    twice: set[int] = set()  # the identities of the results that occur more than once

    def one(x: Any) -> Any:
        if isinstance(x, (bool, int, float, complex, np.ndarray, np.generic, Variable)):
            x = convert_to_tensor(x)
        elif isinstance(x, TensorShape):
            x = convert_to_tensor(x, None if len(x) else np.int32)  # as in TensorFlow, although [] has no sizes
        if isinstance(x, Tensor):
            return REGISTRY["identity"](x) if id(x) in twice else _own(x, start)
        if isinstance(x, (set, frozenset, Iterator, Coroutine, AsyncIterator)):
            if isinstance(x, Coroutine):
                x.close()  # otherwise Python warns that nobody awaits it
            advice = "write def without async" if isinstance(x, _ASYNC) else "return a list"
            raise TypeError(
                f"{plain(name)}: a function must return tensors, numbers, None, or lists, tuples and dicts of these, "
                f"not the type {type(x).__qualname__}: {advice}"
            )
        return x

    if not nest.is_nested(result):
        return one(result)
    leaves = nest.flatten(result)
    if len({id(x) for x in leaves}) < len(leaves):
        counts = Counter(map(id, leaves))
        twice = {k for k, n in counts.items() if n > 1}
    return nest.pack_sequence_as(result, [one(x) for x in leaves])


@overload
def function(
    func: None = ..., input_signature: Any = ..., **options: Any
) -> Callable[[Callable[..., Any]], Function]: ...
@overload
def function(func: Callable[..., Any], input_signature: Any = ..., **options: Any) -> Function: ...
@diagnosed
def function(func: Any = None, input_signature: Any = None, **options: Any) -> Any:
    """Stand-in for ``tf.function``. Transparent to tapes; `gradients` and `hessians` work inside.

    With ``jit_compile=True`` the function is traced once for each kind of arguments: its Python code runs, together
    with the tapes inside of it, and gtape notes the calls of kernels. Later calls repeat these calls of kernels without
    the Python code. The numbers stay the same to the last bit; only the sign and the payload of a NaN may differ.
    Python's side effects happen only while the function is traced. But at the end of each call variables are assigned
    and optimizers step. At the start of each call random numbers are drawn, the same as in an eager call. A function
    runs eagerly, with one warning, if it makes variables, changes parts of a variable, assigns more than 100 variables,
    reads a variable after an optimizer's step, shuffles, draws whole numbers from a distribution, reads values into
    Python, calls a custom gradient under a tape outside of the function, or asks a tape from before the call. A call
    runs eagerly, too, if an argument is a tensor that the function also reads as a global, inside a tape of the
    function. The traced call raises the errors that the function itself raises.

    A call under one tape is compiled, too, together with its part of the gradient. The function is traced again if a
    new combination of results gets cotangents. Under several tapes and in forward mode the function runs eagerly.

    Parameters
    ----------
    func : callable, optional
        If omitted, a decorator is returned.
    input_signature : sequence of TensorSpec, optional
        Positional arguments are converted to tensors of these specs.
    **options
        TensorFlow's other options. ``jit_compile=True`` compiles calls, ``reduce_retracing=True`` counts fewer traces;
        the others change nothing.

    Returns
    -------
    Function
        Has the attribute ``python_function`` and the method ``get_concrete_function``. Converts to tensors: arrays
        among the arguments, also in lists, tuples and dicts; numbers, arrays, shapes and variables among the results.
        Every result is a tensor of its own: no argument, no tensor from outside, and no other result.

    Raises
    ------
    TypeError
        If an option is unknown, the arguments of a call do not fit `input_signature`, or the function returns a set, a
        generator or a coroutine.
    ValueError
        If a compiled function changes a list or a dict among its arguments.
    gtape.errors.OperatorNotAllowedInGraphError
        If a compiled function needs the truth value of a tensor, as Python's ``if`` does.

    Examples
    --------
    >>> @tf.function
    ... def double(x):
    ...     return 2.0 * x
    >>> float(double(tf.constant(1.5)))
    3.0
    """
    unknown = sorted(set(options) - _OPTIONS)
    if unknown:
        raise TypeError(f"function() got an unexpected keyword argument {unknown[0]!r}")
    chosen = {name: _chosen(options, name) for name in _SWITCHES}
    relaxed = chosen["reduce_retracing"] or chosen["experimental_relax_shapes"]
    compiled = chosen["jit_compile"] or chosen["experimental_compile"]
    if func is None:
        return lambda f: Function(f, input_signature, Traces(relaxed), compiled)
    if not callable(func):
        raise TypeError(f"function() takes a callable, not {type(func).__name__}")
    return Function(func, input_signature, Traces(relaxed), compiled)


def _chosen(options: dict[str, Any], name: str) -> bool:
    """The truth of an option of `function`; None stands for False, as in TensorFlow."""
    value = options.get(name)
    if value is None or isinstance(value, (int, np.bool_)):
        return bool(value)
    raise OperandTypeError(f"function: `{name}` must be True or False, not {shown(value)}")


# ---------------------------------------------------------------------------------------------- gradients


def _graph(op: str) -> GradientTape:
    graphs = _graphs.get()
    if not graphs:
        raise RuntimeError(
            f"{op}() is not supported when eager execution is enabled. Use gtape.GradientTape instead, or call it "
            "directly in a function decorated with @gtape.function."
        )
    refuse_in_traced_calls(f"takes {op} of a function around the call", graphs[-1]._session)
    return graphs[-1]


def _listed(x: Any) -> list[Any]:
    return list(x) if isinstance(x, (list, tuple)) else [x]


@diagnosed
def gradients(
    ys: Any, xs: Any, grad_ys: Any = None, name: str = "gradients", gate_gradients: bool = False,
    aggregation_method: Any = None, stop_gradients: Any = None, unconnected_gradients: Any = UnconnectedGradients.NONE,
) -> list[Tensor | Any]:  # fmt: skip
    """The gradient of the sum of `ys` with respect to each of `xs`, inside a `function`.

    Parameters
    ----------
    ys : tensor or list of tensors
    xs : tensor, variable or list of these
    grad_ys : tensor or list, optional
        A cotangent for each of `ys`, None for ones.
    name, gate_gradients, aggregation_method
        Ignored; TensorFlow has them.
    stop_gradients : tensor or list of tensors, optional
        Tensors that count as constants. Derivatives with respect to them are partial derivatives.
    unconnected_gradients : UnconnectedGradients or {"none", "zero"}
        The result for an x that no y depends on.

    Returns
    -------
    list
        A gradient for each of `xs`.

    Raises
    ------
    RuntimeError
        Outside a `function`.
    ValueError
        If the numbers of `grad_ys` and `ys` differ.

    Examples
    --------
    >>> @tf.function
    ... def example():
    ...     a = tf.constant(0.0)
    ...     b = 2.0 * a
    ...     return tf.gradients(a + b, [a, b], stop_gradients=[a, b])
    >>> [float(g) for g in example()]
    [1.0, 1.0]
    """
    graph = _graph("gradients")
    zero = wants_zeros(unconnected_gradients)
    targets = [y if isinstance(y, (Tensor, Variable)) else convert_to_tensor(y) for y in _listed(ys)]
    sources = _listed(xs)
    for x in sources:
        if not isinstance(x, (Tensor, Variable)):
            raise TypeError(f"gradients() takes tensors and variables as xs, not {type(x).__name__}")
    if grad_ys is not None and len(_listed(grad_ys)) != len(targets):
        raise ValueError(f"Passed {len(_listed(grad_ys))} grad_ys for {len(targets)} ys")
    seeds = seeds_of(targets, None if grad_ys is None else _listed(grad_ys))
    stopped = [] if stop_gradients is None else _listed(stop_gradients)
    note_asked(stopped)
    stops = frozenset(record_of(t)[SEQ] for t in stopped)
    assert graph._session is not None
    made = differentiate(graph._session, targets, seeds, sources, persistent=True, mode=graph._mode, stops=stops)
    if zero:
        made = [zeros_for(x) if g is None else g for g, x in zip(made, sources, strict=True)]
    return made


@diagnosed
def hessians(
    ys: Any, xs: Any, gate_gradients: bool = False, aggregation_method: Any = None, name: str = "hessians"
) -> list[Tensor | Any]:
    """The Hessian of the sum of `ys` with respect to each of `xs`, inside a `function`.

    Parameters
    ----------
    ys : tensor or list of tensors
    xs : tensor, variable or list of these
    gate_gradients, aggregation_method, name
        Ignored; TensorFlow has them.

    Returns
    -------
    list
        For each x a tensor of shape ``x.shape + x.shape``; None for an x that no y depends on.

    Raises
    ------
    RuntimeError
        Outside a `function`.

    Examples
    --------
    >>> @tf.function
    ... def curvature(x):
    ...     return tf.hessians(x[0] * x[0] * x[1], x)[0]
    >>> curvature(tf.constant([1.0, 3.0])).numpy()
    array([[6., 2.],
           [2., 0.]], dtype=float32)
    """
    graph = _graph("hessians")
    found: list[Any] = []
    for x, g in zip(_listed(xs), gradients(ys, xs), strict=True):
        if g is None:
            found.append(None)
            continue
        assert graph._session is not None
        made = jacobians(graph._session, convert_to_tensor(g), [x], graph._mode())[0]
        # The second derivative of a constant slope is zero, even if no path leads back to x.
        found.append(wrap(np.zeros(x._layout.shape * 2, x._layout.dtype)) if made is None else made)
    return found
