"""Branches and loops: cond, case, switch_case, while_loop, and scopes that only have a meaning in graphs.

Ops run when they are called. So a branch calls one function, a loop is a Python loop, and the tape records the ops that
ran. The functions refuse the same arguments as TensorFlow's functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gtape import nest
from gtape.base.blocks import block
from gtape.base.diagnosis import diagnosed
from gtape.base.docstrings import documented_like
from gtape.base.shown import shown
from gtape.errors import InvalidArgumentError
from gtape.recording import record
from gtape.tapes.tensor_array import TensorArray
from gtape.tensors.tensor import Tensor, convert_to_tensor, is_tensor
from gtape.tensors.variable import Variable

__all__ = [
    "case", "cond", "control_dependencies", "device", "group", "init_scope", "no_op", "switch_case", "while_loop",
]  # fmt: skip
NAMESPACES = ()


def _single(result: Any) -> Any:
    """The element of a list or tuple of length one, as in TensorFlow without `strict`; any other value unchanged."""
    return result[0] if isinstance(result, (list, tuple)) and len(result) == 1 else result


@diagnosed
def cond(
    pred: Any, true_fn: Callable[[], Any] | None = None, false_fn: Callable[[], Any] | None = None, name: Any = None
) -> Any:
    """Call one of two functions. Gradients flow through the called function.

    Parameters
    ----------
    pred : bool or scalar tensor
        True calls `true_fn`.
    true_fn, false_fn : callable
        Take nothing and return anything.

    Returns
    -------
    object
        The result of the chosen function.

    Raises
    ------
    TypeError
        If `true_fn` or `false_fn` is not a function.
    ValueError
        If `pred` is not a single truth value.

    Examples
    --------
    >>> x = tf.Variable(3.0)
    >>> with tf.GradientTape() as tape:
    ...     y = tf.cond(x > 0.0, lambda: x * x, lambda: -x)
    >>> tape.gradient(y, x).numpy()
    np.float32(6.0)
    """
    for word, f in (("true_fn", true_fn), ("false_fn", false_fn)):
        if not callable(f):
            raise TypeError(f"cond(): '{word}' must be callable, not {type(f).__name__}: pass a function or a lambda")
    assert true_fn is not None and false_fn is not None
    if pred is None:
        raise ValueError("cond(): 'pred' must be a bool or a scalar tensor, not None: did a function return nothing?")
    return true_fn() if pred else false_fn()


def _pairs(pred_fn_pairs: Any) -> list[tuple[Any, Callable[[], Any]]]:
    if isinstance(pred_fn_pairs, Mapping):
        pairs = list(pred_fn_pairs.items())
    elif isinstance(pred_fn_pairs, (list, tuple)):
        pairs = list(pred_fn_pairs)
    else:
        raise TypeError(f"'pred_fn_pairs' must be a list, tuple or dict of (pred, fn), not {type(pred_fn_pairs)}")
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError(f"Each entry in 'pred_fn_pairs' must be a 2-tuple (pred, fn). Received: {shown(pair)}")
        pred, fn = pair
        if is_tensor(pred):
            if pred.dtype.name != "bool":
                raise TypeError(f"pred must be Tensor of type bool: {pred.dtype.name}")
        elif not isinstance(pred, bool) and getattr(getattr(pred, "dtype", None), "kind", "") != "b":
            raise TypeError(f"pred must be a Tensor of type bool or a Python bool, not {shown(pred)}")
        if not callable(fn):
            raise TypeError(f"fn for pred {shown(pred)} must be callable, not {type(fn).__name__}")
    return pairs


@diagnosed
@documented_like(cond)
def case(
    pred_fn_pairs: Any, default: Callable[[], Any] | None = None, exclusive: bool = False, strict: bool = False,
    name: str = "case",
) -> Any:  # fmt: skip
    """Call the function of the first true predicate.

    Parameters
    ----------
    pred_fn_pairs : list of (scalar bool tensor, callable)
        The pairs in the order in which `case` tries them.
    default : callable, optional
        Called if no predicate is true.
    exclusive : bool
        Whether several true predicates are an error.
    strict : bool
        Whether a returned list of one element stays a list.

    Raises
    ------
    TypeError
        If a predicate is not a bool, or a function cannot be called.
    ValueError
        If there are no pairs.
    gtape.errors.InvalidArgumentError
        If no predicate is true and there is no default, or if several are true and `exclusive` is set.

    Examples
    --------
    >>> x = tf.constant(2.0)
    >>> float(tf.case([(x < 1.0, lambda: x), (x < 5.0, lambda: x * 10.0)], default=lambda: -x))
    20.0
    """
    pairs = _pairs(pred_fn_pairs)
    if not pairs:
        raise ValueError("Must provide at least one item in 'pred_fn_pairs'")
    if default is not None and not callable(default):
        raise TypeError(f"'default' must be callable, not {type(default).__name__}")
    true = [fn for pred, fn in pairs if pred]
    if exclusive and len(true) > 1:
        raise InvalidArgumentError(
            "Input error: exclusive=True: more than 1 conditions evaluated as True. "
            f"Conditions: {[bool(pred) for pred, _ in pairs]}"
        )
    if true:
        chosen = true[0]
    elif default is not None:
        chosen = default
    else:
        raise InvalidArgumentError(
            f"None of the conditions evaluated as True. Conditions: {[bool(pred) for pred, _ in pairs]}; give a default"
        )
    result = chosen()
    return result if strict else _single(result)


def _branches(branch_fns: Any) -> dict[int, Callable[[], Any]]:
    if not isinstance(branch_fns, (Mapping, list, tuple)):
        raise TypeError(f"'branch_fns' must be a dict, list or tuple, not {type(branch_fns).__name__}")
    if not len(branch_fns):
        raise ValueError("Must provide at least one item in 'branch_fns'")
    items = list(branch_fns.items()) if isinstance(branch_fns, Mapping) else list(branch_fns)
    if all(callable(f) for f in items):
        items = list(enumerate(items))
    found: dict[int, Callable[[], Any]] = {}
    for item in items:
        if not isinstance(item, tuple) or len(item) != 2:
            raise TypeError(f"Each entry in 'branch_fns' must be a 2-tuple (index, fn). Received: {shown(item)}")
        key, fn = item
        if not isinstance(key, int) or isinstance(key, bool):
            raise TypeError(f"Key must be a Python int, found {type(key).__name__}")
        if not callable(fn):
            raise TypeError(f"fn for key {key} must be callable, not {type(fn).__name__}")
        if key in found:
            raise ValueError(f"the key {key} occurs twice in 'branch_fns': {shown(items)}")
        found[key] = fn
    if sorted(found) != list(range(len(found))):
        raise ValueError(f"the keys of 'branch_fns' must be the numbers from 0 to {len(found) - 1}, found {[*found]}")
    return found


@diagnosed
@documented_like(cond)
def switch_case(branch_index: Any, branch_fns: Any, default: Callable[[], Any] | None = None, name: Any = None) -> Any:
    """Call the function with a given number.

    Parameters
    ----------
    branch_index : integer scalar tensor
        The number.
    branch_fns : dict of int to callable, list of (int, callable), or list of callables
        The functions with the numbers from 0 on; a plain list is numbered from 0.
    default : callable, optional
        Called for any other number; by default the function with the greatest number.

    Raises
    ------
    TypeError
        If the index is not an integer tensor, or a function cannot be called.
    ValueError
        If there are no functions, two have the same number, or a number is missing.

    Examples
    --------
    >>> tf.switch_case(tf.constant(1), [lambda: "zero", lambda: "one"])
    'one'
    """
    if not isinstance(branch_index, (Tensor, Variable)):
        raise TypeError(
            f"'branch_index' must be a Tensor, got {type(branch_index).__name__}: wrap it in gtape.constant"
        )
    if branch_index._layout.dtype.kind not in "iu":
        raise TypeError(f"'branch_index' must be an integer Tensor, got {branch_index.dtype.name}")
    branches = _branches(branch_fns)
    if default is not None and not callable(default):
        raise TypeError(f"'default' must be callable, not {type(default).__name__}")
    last = default if default is not None else branches[max(branches)]
    return branches.get(int(branch_index), last)()


@diagnosed
def while_loop(
    cond: Callable[..., Any], body: Callable[..., Any], loop_vars: Any, shape_invariants: Any = None,
    parallel_iterations: int = 10, back_prop: bool = True, swap_memory: bool = False, maximum_iterations: Any = None,
    name: str | None = None,
) -> Any:  # fmt: skip
    """Repeat `body` while `cond` holds; gradients flow through the passes that ran.

    Parameters
    ----------
    cond : callable
        Takes the loop variables, returns a bool or a scalar tensor.
    body : callable
        Takes the loop variables, returns their new values in the same structure.
    loop_vars : list or tuple of tensors, numbers, TensorArrays or nests of these
        The values for the first pass.
    shape_invariants, parallel_iterations, swap_memory, name
        Ignored; TensorFlow has them.
    back_prop : bool
        Whether gradients flow back through the loop.
    maximum_iterations : int or scalar tensor, optional
        The largest number of passes.

    Returns
    -------
    list or tuple
        The loop variables after the last pass, as tensors.

    Raises
    ------
    TypeError
        If `cond` or `body` is not a function.
    ValueError
        If there are no loop variables, or `body` returns another structure.

    Examples
    --------
    >>> x = tf.Variable(2.0)
    >>> with tf.GradientTape() as tape:
    ...     _, y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * x), (0, 1.0))
    >>> tape.gradient(y, x).numpy()
    np.float32(12.0)
    """
    if not callable(cond):
        raise TypeError("'cond' must be a callable.")
    if not callable(body):
        raise TypeError("'body' must be a callable.")
    if parallel_iterations < 1:
        raise TypeError("'parallel_iterations' must be a positive integer.")
    if loop_vars is None or (isinstance(loop_vars, (list, tuple)) and not loop_vars):
        raise ValueError("'loop_vars' must be provided.")
    if not isinstance(loop_vars, (list, tuple)):
        loop_vars = [loop_vars]
    most = None
    if maximum_iterations is not None:
        limit = convert_to_tensor(maximum_iterations)
        if limit._layout.shape:
            raise ValueError(f"'maximum_iterations' must be a scalar. Received shape: {limit.shape}")
        most = int(limit)
    form = list(loop_vars)
    passes = 0
    while (most is None or passes < most) and cond(*loop_vars):
        made = body(*loop_vars)
        if made is None and None not in form:
            raise ValueError(
                f"the body of a while_loop must return its {len(form)} loop variables, and returned nothing"
            )
        if not isinstance(made, (list, tuple)):
            made = type(form)([made]) if len(form) == 1 else made
        if isinstance(made, (list, tuple)):
            nest.assert_same_structure(form, list(made))
        else:
            raise ValueError(f"the body of a while_loop must return its {len(form)} loop variables, not {shown(made)}")
        loop_vars = made
        passes += 1
    return nest.map_structure(lambda x: _result(x, back_prop), loop_vars)


def _result(x: Any, back_prop: bool) -> Any:
    if isinstance(x, TensorArray):
        return x
    t = convert_to_tensor(x)
    if back_prop:
        return t
    from gtape.tapes.control import stop_gradient

    return stop_gradient(t)


@diagnosed
def group(*inputs: Any, **kwargs: Any) -> None:
    """Do nothing, because the arguments have run already.

    Parameters
    ----------
    *inputs : tensors or nests
        Results of the ops to group.
    **kwargs
        Only ``name``, which is ignored.

    Raises
    ------
    ValueError
        For an unknown keyword.

    Examples
    --------
    >>> v = tf.Variable(1.0)
    >>> tf.group(v.assign(2.0))
    """
    kwargs.pop("name", None)
    if kwargs:
        raise ValueError("Unknown keyword arguments: " + ", ".join(kwargs))


@diagnosed
def no_op(name: str | None = None) -> None:
    """Do nothing.

    Examples
    --------
    >>> tf.no_op()
    """


@block
def init_scope() -> Iterator[None]:
    """Pause every active tape during a block.

    Yields
    ------
    None

    Examples
    --------
    >>> import gtape as tf
    >>> x = tf.Variable(3.0)
    >>> with tf.GradientTape() as tape:
    ...     with tf.init_scope():
    ...         y = x * x
    >>> print(tape.gradient(y, x))
    None
    """
    with record.off():
        yield


@block
def control_dependencies(control_inputs: Any) -> Iterator[None]:
    """A block without effect, because ops run in the order in which they are called.

    Parameters
    ----------
    control_inputs : list or None
        The ops that a graph would run first. Callables in the list are called.

    Yields
    ------
    None

    Examples
    --------
    >>> import gtape as tf
    >>> with tf.control_dependencies([tf.constant(1.0)]):
    ...     y = tf.constant(2.0)
    """
    for c in control_inputs or ():
        if callable(c) and not is_tensor(c):
            c()
    yield


@block
def device(device_name: Any) -> Iterator[None]:
    """A block without effect, because every tensor lives on the CPU.

    Parameters
    ----------
    device_name : str
        Ignored; TensorFlow has it.

    Yields
    ------
    None

    Examples
    --------
    >>> import gtape as tf
    >>> with tf.device("/CPU:0"):
    ...     y = tf.constant(2.0)
    """
    yield
