"""Concrete functions, which fix one kind of arguments."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from gtape import dtypes, nest
from gtape.base.escaping import plain
from gtape.base.tensor_shape import TensorShape
from gtape.base.tensor_spec import TensorSpec
from gtape.errors import InvalidArgumentError
from gtape.tapes.signatures import as_specs, bound, by_specs, converted, naming
from gtape.tensors.module import Module
from gtape.tensors.tensor import Tensor, wrap
from gtape.tensors.variable import Variable

__all__ = ["ConcreteFunction"]

_numbers = itertools.count()


class ConcreteFunction:
    """A `function` with everything fixed except the values of its tensors. `get_concrete_function` returns it.

    Attributes
    ----------
    name : bytes
    structured_input_signature : (tuple, dict)
        The arguments: a TensorSpec for each tensor, every other value unchanged.
    inputs : list of TensorSpec
        The tensors among the arguments.

    Examples
    --------
    >>> import gtape as tf
    >>> @tf.function
    ... def scaled(x, factor=2.0):
    ...     return factor * x
    >>> concrete = scaled.get_concrete_function(tf.TensorSpec([None], tf.float32), 3.0)
    >>> concrete(tf.constant([1.0, 2.0])).numpy()
    array([3., 6.], dtype=float32)
    >>> concrete.structured_input_signature
    ((TensorSpec(shape=(None,), dtype=gtape.float32, name='x'), 3.0), {})
    """

    def __init__(self, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any], seen: Callable[[Any], Any]) -> None:
        self._owner = owner
        self._seen = seen
        given = bound(owner.python_function, args, kwargs)
        self._bound = given
        self._specs: dict[str, Any] = {
            n: as_specs(x, n) if n not in _rest(given) else x for n, x in given.arguments.items()
        }
        # Arguments of **kwargs are arguments of their own, so their specs have their own names, as in TensorFlow.
        self._words = next((n for n, p in given.signature.parameters.items() if p.kind is p.VAR_KEYWORD), None)
        if self._words is not None:
            self._specs[self._words] = {k: as_specs(x, k) for k, x in given.arguments[self._words].items()}
        # Only arguments that hold tensors are passed in a call.
        self._open = [n for n, x in self._specs.items() if any(isinstance(y, TensorSpec) for y in _flat(x))]
        self.name = f"__inference_{plain(getattr(owner, '__name__', 'function'))}_{next(_numbers)}".encode()
        self._made: Any = None

    @property
    def structured_input_signature(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The positional arguments, and the keyword-only arguments."""
        made = inspect.BoundArguments(self._bound.signature, self._specs)
        return made.args, made.kwargs

    @property
    def inputs(self) -> list[TensorSpec]:
        """The specs of the tensors among the arguments."""
        return [x for n in self._open for x in _flat(self._specs[n]) if isinstance(x, TensorSpec)]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function on the tensors of its signature, given in order, by name or by the names of their specs.

        Raises
        ------
        TypeError
            If there are too few or too many tensors, an unknown name, or a tensor of another shape.
        gtape.errors.InvalidArgumentError
            If a tensor has another dtype.
        """
        names = self._open
        if names and self._bound.signature.parameters[names[-1]].kind is inspect.Parameter.VAR_POSITIONAL:
            before = len(names) - 1
            args = (*args[:before], args[before:]) if len(args) > before else args
        given = _by_name(names, args, self._gathered(kwargs)) or self._by_names_of_specs(args, kwargs)
        if given is None:
            raise TypeError(
                f"{self.name.decode()} takes the tensors {names}, in this order or by name; got {len(args)} "
                f"arguments and the names {sorted(kwargs)}. Every other argument is fixed"
            )
        values = dict(self._bound.arguments)
        with naming(self.name.decode()):
            for n in names:
                values[n] = by_specs(given[n], self._specs[n], self._taken, n)
        return self._run(values)

    def _gathered(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """The named arguments of a call, those of **kwargs in a dict; unchanged if one of their tensors is missing."""
        if self._words not in self._open:
            return kwargs
        specs = self._specs[self._words]
        if any(isinstance(y, TensorSpec) for n, x in specs.items() if n not in kwargs for y in _flat(x)):
            return kwargs
        others = {n: x for n, x in kwargs.items() if n not in specs}
        return others | {self._words: {n: kwargs.get(n, x) for n, x in specs.items()}}

    def _by_names_of_specs(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
        """The arguments from tensors that a call gives by the names of their specs, also those inside of structures."""
        if not all(isinstance(x, Tensor) for x in (*args, *kwargs.values())):
            return None
        names: list[str] = []
        for spec in self.inputs:  # equal names get numbers, as in TensorFlow
            count = sum(n == spec.name or n.startswith(f"{spec.name}_") for n in names)
            names.append(f"{spec.name}_{count}" if spec.name in names else str(spec.name))
        given = _by_name(names, args, kwargs)
        if given is None:
            return None
        tensors = iter([given[n] for n in names])
        return {
            n: _mapped(lambda x: next(tensors) if isinstance(x, TensorSpec) else x, self._specs[n]) for n in self._open
        }

    def _taken(self, value: Any, spec: TensorSpec, name: str) -> Any:
        t = converted(value, spec, name)
        if t._layout.dtype != dtypes.np_dtype(spec.dtype):
            error = TypeError if isinstance(value, Variable) else InvalidArgumentError
            raise error(
                f"cannot compute {self.name.decode()} as input {name!r} was expected to be a {spec.dtype.name} tensor "
                f"but is a {t.dtype.name} {'variable' if isinstance(value, Variable) else 'tensor'}"
            )
        if not spec.shape.is_compatible_with(t.shape):
            raise TypeError(
                f"Binding inputs to {self.name.decode()} failed, because input {name!r} has the shape "
                f"{tuple(t._layout.shape)}, and {spec} is expected. Call the function itself, which traces other shapes"
            )
        return t

    def _run(self, values: dict[str, Any]) -> Any:
        made = inspect.BoundArguments(self._bound.signature, values)
        return self._owner._traced_before(made.args, made.kwargs)

    # -------------------------------------------------------------------------------------- inputs and outputs

    @property
    def variables(self) -> list[Variable]:
        """The variables that the function can reach."""
        found: dict[int, Variable] = {}
        for x in self._seen(self._owner.python_function):
            for leaf in _flat(x):
                for v in (leaf,) if isinstance(leaf, Variable) else leaf.variables if isinstance(leaf, Module) else ():
                    found.setdefault(id(v), v)
        return list(found.values())

    @property
    def trainable_variables(self) -> list[Variable]:
        """The trainable variables that the function can reach."""
        return [v for v in self.variables if v.trainable]

    @property
    def captured_inputs(self) -> list[Any]:
        """The variables that the function reads besides its arguments."""
        return list(self.variables)

    @property
    def structured_outputs(self) -> Any:
        """The result of the function, with a TensorSpec for each tensor.

        The function runs on zeros, or twice if a size is None. Afterwards the variables get their values back.
        """
        if self._made is None:
            first = self._probe(2)
            if all(s.shape.is_fully_defined() for s in self.inputs):
                self._made = (first,)
            else:
                second = self._probe(3)
                specs = [_wider(a, b) for a, b in zip(nest.flatten(first), nest.flatten(second), strict=True)]
                self._made = (nest.pack_sequence_as(first, specs) if nest.is_nested(first) else specs[0],)
        return self._made[0]

    def _probe(self, size: int) -> Any:
        def zeros(spec: Any) -> Any:
            if not isinstance(spec, TensorSpec):
                return spec
            shape = [] if spec.shape.rank is None else [size if d is None else d for d in spec.shape]
            return wrap(np.zeros(shape, dtypes.np_dtype(spec.dtype)))

        before = [(v, v.numpy()) for v in self.variables]
        try:
            values = {n: _mapped(zeros, x) if n in self._open else x for n, x in self._specs.items()}
            return _mapped(lambda y: TensorSpec.from_tensor(y) if isinstance(y, Tensor) else y, self._run(values))
        finally:
            for v, value in before:
                v._put(value)

    @property
    def outputs(self) -> list[TensorSpec]:
        """The specs of the results, in a list."""
        return [x for x in _flat(self.structured_outputs) if isinstance(x, TensorSpec)]

    @property
    def output_shapes(self) -> Any:
        """The shapes of the results."""
        return _mapped(lambda s: s.shape if isinstance(s, TensorSpec) else s, self.structured_outputs)

    @property
    def output_dtypes(self) -> Any:
        """The dtypes of the results."""
        return _mapped(lambda s: s.dtype if isinstance(s, TensorSpec) else s, self.structured_outputs)

    def pretty_printed_signature(self, verbose: bool = True) -> str:
        """Text with the types of the arguments and results, in TensorFlow's form.

        Parameters
        ----------
        verbose : bool
            Whether each argument has a line of its own, and captured variables have lines, too.

        Examples
        --------
        >>> import gtape as tf
        >>> concrete = tf.function(lambda x, n: n * x).get_concrete_function(tf.TensorSpec([2]), 3)
        >>> print(concrete.pretty_printed_signature())
        Input Parameters:
          x (POSITIONAL_OR_KEYWORD): TensorSpec(shape=(2,), dtype=gtape.float32, name='x')
          n (POSITIONAL_OR_KEYWORD): Literal[3]
        Output Type:
          TensorSpec(shape=(2,), dtype=gtape.float32, name=None)
        Captures:
          None
        """
        made = _type_text(self.structured_outputs)
        if not verbose:
            return f"{self._inputs_text()} -> {made}"
        captured = [f"{v.name}: {_type_text(TensorSpec(v.shape, v.dtype))}" for v in self.variables]
        inputs = [f"{n} ({kind}): {_type_text(x)}" for n, kind, x in self._arguments()]
        parts = {"Input Parameters": inputs, "Output Type": [made], "Captures": captured or ["None"]}
        return "\n".join([line for title, lines in parts.items() for line in (f"{title}:", *[f"  {x}" for x in lines])])

    def _arguments(self) -> list[tuple[str, str, Any]]:
        """The names, kinds and specs of the arguments; each of *args and **kwargs is an argument of its own."""
        made: list[tuple[str, str, Any]] = []
        for n, x in self._specs.items():
            p = self._bound.signature.parameters[n]
            if p.kind is p.VAR_POSITIONAL:
                made += [(f"{n}_{i}", p.POSITIONAL_ONLY.name, y) for i, y in enumerate(x)]
            elif p.kind is p.VAR_KEYWORD:
                made += [(k, p.KEYWORD_ONLY.name, y) for k, y in x.items()]
            else:
                made.append((n, p.kind.name, x))
        return made

    def _inputs_text(self) -> str:
        """The arguments as Python writes a signature."""
        parts: list[str] = []
        kinds = [kind for _, kind, _ in self._arguments()]
        for k, (n, kind, x) in enumerate(self._arguments()):
            if kind == inspect.Parameter.KEYWORD_ONLY.name and kind not in kinds[:k]:
                parts.append("*")
            parts.append(f"{n}: {_type_text(x)}")
            if kind == inspect.Parameter.POSITIONAL_ONLY.name and kind not in kinds[k + 1 :]:
                parts.append("/")
        return f"({', '.join(parts)})"

    @property
    def graph(self) -> Any:
        """Raises AttributeError, because gtape runs functions as plain Python without a graph."""
        raise AttributeError("gtape's functions run as plain Python and have no graph; call the function instead")

    def __repr__(self) -> str:
        return f"<ConcreteFunction {plain(self._inputs_text())}>"  # without the results, because these take a call


def _rest(given: inspect.BoundArguments) -> set[str]:
    """The names of *args and **kwargs that no call has filled."""
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {n for n, p in given.signature.parameters.items() if p.kind in kinds and not given.arguments.get(n)}


def _by_name(names: list[str], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
    """The arguments of a call by name; None if one is missing, unknown or given twice."""
    given = dict(zip(names, args, strict=False)) | kwargs
    fits = len(args) + len(kwargs) == len(given) == len(names) == len(set(names))
    return given if fits and set(given) == set(names) else None


def _flat(x: Any) -> list[Any]:
    return nest.flatten(x) if isinstance(x, (list, tuple, dict)) else [x]


def _mapped(f: Callable[[Any], Any], x: Any) -> Any:
    return nest.map_structure(f, x) if isinstance(x, (list, tuple, dict)) else f(x)


def _type_text(x: Any) -> str:
    """The type of an argument or result, as TensorFlow writes it."""
    if isinstance(x, dict) or hasattr(x, "_fields"):
        items = x.items() if isinstance(x, dict) else zip(x._fields, x, strict=True)
        name = "Dict" if isinstance(x, dict) else type(x).__name__
        return f"{name}[{', '.join([f'[{k!r}, {_type_text(y)}]' for k, y in items])}]"
    if isinstance(x, (list, tuple)):
        return f"{'List' if isinstance(x, list) else 'Tuple'}[{', '.join([_type_text(y) for y in x])}]"
    return repr(x) if isinstance(x, TensorSpec) else f"Literal[{x!r}]"


def _wider(a: Any, b: Any) -> Any:
    if not isinstance(a, TensorSpec):
        return a
    return TensorSpec(TensorShape(a.shape).most_specific_compatible_shape(b.shape), a.dtype, a.name)
