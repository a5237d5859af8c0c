"""Functions that change how gradients flow: stop_gradient, grad_pass_through, recompute_grad."""

from __future__ import annotations

import functools
from typing import Any

from gtape import nest
from gtape.declare.primitives import REGISTRY, elementwise
from gtape.engine.custom import CustomGradient, custom_gradient, keep_records, name_of
from gtape.recording import record
from gtape.recording.trace import note_stop
from gtape.tensors.indexed_slices import IndexedSlices
from gtape.tensors.tensor import Tensor, convert_to_tensor, wrap
from gtape.tensors.variable import Variable

__all__ = ["grad_pass_through", "recompute_grad", "stop_gradient"]
NAMESPACES = ()
RECOMPUTING = ("recompute_grad",)  # `gtape.recording.trace` reads this


def _same(x: Any) -> Any:
    return x


_stop = elementwise(
    "stop_gradient",
    _same,
    None,
    ints=True,
    complex=True,
    summary="x, as a constant.",
    role="stop",
    takes=("string",),
    ulps=0.5,
)


def stop_gradient(input: Any, name: str | None = None) -> Tensor:
    """The same value as a constant: no gradient flows back through it.

    Parameters
    ----------
    input : tensor or IndexedSlices, any shape

    Returns
    -------
    Tensor or IndexedSlices
        A new object.

    Examples
    --------
    >>> import gtape as tf
    >>> x = tf.Variable(3.0)
    >>> with tf.GradientTape() as tape:
    ...     y = x * tf.stop_gradient(x)
    >>> tape.gradient(y, x).numpy()
    np.float32(3.0)
    """
    if isinstance(input, IndexedSlices):
        return IndexedSlices(stop_gradient(input.values), input.indices, input.dense_shape)  # type: ignore[return-value]
    x = convert_to_tensor(input)
    if x._layout.dtype.kind in "bOSU":  # such elements have no gradient to stop; the result is still a new tensor
        return REGISTRY["identity"](x)
    made: Tensor = _stop(x)
    stack = record.get_stack()
    if stack.trace:
        if made._record is None:
            made = wrap(_another(made._value))  # a check tells by the object that this constant was stopped
        note_stop(stack, made)
    return made


def _another(value: Any) -> Any:
    """An equal value that is another object."""
    return value * 1.0 if value.__class__ is float else value.copy()


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

    @custom_gradient(declared="passes the gradient through")
    def pass_through(*args: Any, **kwargs: Any) -> Any:
        y = f(*args, **kwargs)
        n = len(nest.flatten(list(args)))

        def grad(*gs: Any, variables: Any = None) -> Any:
            back = list(gs) if len(gs) == n else [gs[0]] * n
            back_or_one: Any = back[0] if n == 1 else back
            return (back_or_one, [None] * len(variables)) if variables is not None else back_or_one

        return y, grad

    return functools.wraps(f)(lambda *args, **kwargs: pass_through(*args, **kwargs))


def _captures(y: Any, args: Any, start: int) -> bool:
    """Whether results depend on a tensor from before `start` other than an argument or a variable read since."""
    stack = record.get_stack()
    inputs = [x for x in nest.flatten(list(args)) if isinstance(x, (Tensor, Variable))]
    known = {id(x._record) for x in [*inputs, *(stack.probe or {}).values()]}
    pending = [x._record for x in nest.flatten(y) if isinstance(x, (Tensor, Variable))]
    while pending:
        r = pending.pop()
        if r is None or id(r) in known:
            continue
        known.add(id(r))
        if r[record.SEQ] < start:  # an op of this call, because sequence numbers count down
            followed = len(r) > record.TANGENTS and bool(r[record.TANGENTS])
            if followed and r[record.STEP] is None:  # a record of forward mode does not know its inputs
                return True
            pending.extend(record.parents_of(r))
        elif stack.meet(r[record.TAPES]).sessions and not record.for_a_check_alone(r):
            return True
    return False


def recompute_grad(f: Any) -> Any:
    """Make a function whose intermediate results are not kept. The backward pass runs the function again.

    A function that reads watched tensors other than its arguments is recorded like any other function, because the
    gradients of these tensors would be lost otherwise. Pass the tensors as arguments to save memory. Variables need not
    be arguments.

    A function that draws random numbers, as dropout does, draws others in the second run, as in TensorFlow, so that the
    gradient belongs to other numbers than the value. Draw the numbers outside and pass them as an argument, or draw
    them from a seed that is an argument.

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
        @functools.wraps(f)
        def inner(*inner_args: Any, **inner_kwargs: Any) -> Any:
            start = next(record.count)
            y = f(*inner_args, **inner_kwargs)
            if _captures(y, inner_args, start):
                return y, keep_records

            def grad(*gs: Any, variables: Any = None) -> Any:
                from gtape.tapes.tape import GradientTape

                flat = nest.flatten(list(inner_args))
                floats = [x for x in flat if isinstance(x, (Tensor, Variable)) and x._layout.inexact]
                with GradientTape(verify=False) as tape:
                    tape.watch(floats)
                    again = record.computed_anew(f, *inner_args, **inner_kwargs)
                sources = [*flat, *(variables or [])]
                valid = [s if isinstance(s, (Tensor, Variable)) else convert_to_tensor(0.0) for s in sources]
                made = tape.gradient(nest.flatten(again), valid, output_gradients=list(gs))
                made = [convert_to_tensor(g) if isinstance(g, IndexedSlices) else g for g in made]  # as in TensorFlow
                # An argument passed twice is one source: its total gradient is returned once, and None for the repeats.
                first = {id(x): i for i, x in reversed(list(enumerate(flat)))}
                of_args = [g if first[id(x)] == i else None for i, (x, g) in enumerate(zip(flat, made, strict=False))]
                packed = of_args[0] if len(of_args) == 1 else of_args
                return (packed, made[len(flat) :]) if variables is not None else packed

            return y, grad

        inner.__name__ = name_of(f)  # also of an object or a partial call
        return CustomGradient(inner, None, recomputes=True)(*args, **kwargs)

    wrapper.__wrapped__ = f
    return wrapper
