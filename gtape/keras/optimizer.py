"""What all optimizers share: ways in, learning rate, clipping, decay, and the arrays kept for each variable.

Updates are plain NumPy: a variable's state blocks gradients, so there is nothing to record.
"""

from __future__ import annotations

import math
import warnings
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from gtape import nest
from gtape.tape import GradientTape
from gtape.tensor import Tensor, wrap
from gtape.variable import Variable

__all__ = ["Optimizer", "is_sparse", "rows"]


def _norm(arrays: Iterable[Any]) -> float:
    """The Euclidean norm over all entries, without overflow or underflow on the way."""
    wide = [np.abs(a).astype(np.float64, copy=False).ravel() for a in arrays]
    largest = float(np.max([w.max() for w in wide if w.size], initial=0.0))
    if largest == 0.0 or not math.isfinite(largest):
        return largest
    # Scaled by a power of two, so that this division does not round.
    scale = math.ldexp(1.0, math.frexp(largest)[1] - 1)
    return scale * math.sqrt(sum(float(np.square(w / scale).sum()) for w in wide))


def is_sparse(gradient: Any) -> bool:
    """Whether a gradient is an IndexedSlices."""
    return hasattr(gradient, "indices") and hasattr(gradient, "values")


def rows(gradient: Any) -> tuple[Any, Any]:
    """The rows of an IndexedSlices and where they belong, as arrays."""
    return np.asarray(gradient.values), np.asarray(gradient.indices)


def _check_variable(v: Any) -> None:
    if not callable(getattr(v, "assign_sub", None)):
        raise TypeError(f"an optimizer updates variables, not {type(v).__name__}: make it a gtape.Variable")


def _takes_an_argument(f: Callable[..., Any]) -> bool:
    import inspect

    try:
        inspect.signature(f).bind(0)
    except TypeError:
        return False
    return True


_ONE = wrap(np.int64(1))


class Optimizer:
    """Base class: everything but the formula of the update.

    A subclass says which slots (arrays that live as long as their variable) it keeps in `slots`, and writes `update`.
    One optimizer may serve variables that come and go: slots are made when a variable is first seen.

    Parameters
    ----------
    learning_rate : float or callable
        The step's length; a callable is asked at every step, with the number of steps done if it takes an argument.
    weight_decay : float, optional
        Before each update a variable loses ``weight_decay * learning_rate`` of its value.
    clipnorm, global_clipnorm, clipvalue : float, optional
        Limit to the norm of each gradient, to the norm of all together, or to each entry. Only one may be given.
    name : str, optional
        By default the class's name.

    Raises
    ------
    ValueError
        For a learning rate that is neither a number nor callable, a limit that is not positive, or several limits.
    """

    slots: tuple[str, ...] = ()

    def __init__(
        self,
        learning_rate: Any,
        *,
        weight_decay: float | None = None,
        clipnorm: float | None = None,
        global_clipnorm: float | None = None,
        clipvalue: float | None = None,
        name: str | None = None,
    ) -> None:
        limits = {"clipnorm": clipnorm, "global_clipnorm": global_clipnorm, "clipvalue": clipvalue}
        given = [k for k, limit in limits.items() if limit is not None]
        if len(given) > 1:
            raise ValueError(f"Only one of `clipnorm`, `clipvalue` and `global_clipnorm` can be set, not {given}")
        for k in given:
            limit = limits[k]
            if limit is not None and not limit > 0:
                raise ValueError(f"`{k}` must be positive, got {limit}")
        self.name = name or type(self).__name__
        self.weight_decay = weight_decay
        self.clipnorm, self.global_clipnorm, self.clipvalue = clipnorm, global_clipnorm, clipvalue
        self.iterations = Variable(0, trainable=False, dtype="int64", name="iteration")
        self._learning_rate: Any = None
        self._exact_rate: float | None = None
        self.learning_rate = learning_rate
        # By identity, because variables are not hashable; the weak reference takes an entry out when its variable dies.
        self._state: dict[int, tuple[weakref.ref[Any], dict[str, Variable], int]] = {}
        self._built: list[weakref.ref[Any]] = []

    # -------------------------------------------------------------------------------------- settings

    @property
    def learning_rate(self) -> Any:
        """The learning rate: a float32 variable, or the callable that was given. May be set to either."""
        return self._learning_rate

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        if callable(value):
            self._learning_rate = value
            self._wants_step = _takes_an_argument(value)
            return
        try:
            rate = float(value)
        except (TypeError, ValueError):
            raise ValueError(
                "Argument `learning_rate` should be a float or a callable that takes the number of steps done and "
                f"returns the rate. Received instead: learning_rate={value!r}"
            ) from None
        if isinstance(self._learning_rate, Variable):
            self._learning_rate.assign(np.float32(rate))
        else:
            self._learning_rate = Variable(np.float32(rate), trainable=False, name="learning_rate")
        self._exact_rate = rate

    def _rate(self) -> float:
        rate = self._learning_rate
        if not isinstance(rate, Variable):
            return float(rate(self.iterations.numpy()) if self._wants_step else rate())
        shown = rate.numpy()
        # The variable is float32, as in Keras; a float64 model still gets all digits of the rate that was asked for.
        if self._exact_rate is not None and np.float32(self._exact_rate) == shown:
            return self._exact_rate
        return float(shown)

    # -------------------------------------------------------------------------------------- state

    def build(self, var_list: Any) -> None:
        """Make the slots of variables beforehand, and remember the variables for `apply` without a list.

        Parameters
        ----------
        var_list : structure of Variable
            The variables.
        """
        variables = nest.flatten(var_list)
        for v in variables:
            _check_variable(v)
            self._slots_of(v)
        self._built = [weakref.ref(v) for v in variables]

    def _slots_of(self, v: Any) -> dict[str, Variable]:
        key = id(v)
        entry = self._state.get(key)
        if entry is None:
            name = v.name.partition(":")[0]
            made = {s: Variable(self.initial(v), trainable=False, name=f"{name}_{s}") for s in self.slots}
            state = self._state
            seen = int(self.iterations.numpy())
            entry = self._state[key] = (weakref.ref(v, lambda _: state.pop(key, None)), made, seen)
        return entry[1]

    def age(self, v: Any) -> int:
        """How many steps there were since variable `v` was first seen, counting the one that is being taken."""
        return int(self.iterations.numpy()) - self._state[id(v)][2] + 1

    def initial(self, v: Any) -> Any:
        """What the slots of variable `v` start from: an array of its shape and dtype."""
        return np.zeros(tuple(v.shape), v.dtype.as_numpy_dtype)

    @property
    def variables(self) -> list[Variable]:
        """The optimizer's own variables: steps done, learning rate, slots."""
        rate = [self._learning_rate] if isinstance(self._learning_rate, Variable) else []
        return [
            self.iterations,
            *rate,
            *(slot for _, slots, _ in list(self._state.values()) for slot in slots.values()),
        ]

    # -------------------------------------------------------------------------------------- steps

    def minimize(
        self, loss: Any, var_list: Any, grad_loss: Any = None, name: str | None = None, tape: Any = None
    ) -> Any:
        """Differentiate a loss and apply the gradients.

        Parameters
        ----------
        loss : tensor or callable
            A tensor that `tape` recorded, or a function without arguments that computes it.
        var_list : structure of Variable or callable
            The variables to change, or a function that returns them, which is called after the loss.
        grad_loss : tensor or structure, optional
            What the gradient of the loss starts from: `output_gradients` of `GradientTape.gradient`.
        name : str, optional
            Ignored; TensorFlow has it.
        tape : GradientTape, optional
            The tape that recorded `loss`; one is made for a callable loss.

        Returns
        -------
        Variable
            `iterations`, the number of steps done.

        Raises
        ------
        ValueError
            If a tensor comes without its tape, or no variable has a gradient.

        Examples
        --------
        >>> import gtape as tf
        >>> w = tf.Variable([1.0, 0.0])
        >>> with tf.GradientTape() as tape:
        ...     y = 2.0 * w
        >>> optimizer = tf.keras.optimizers.SGD(1.0)
        >>> int(optimizer.minimize(y, w, grad_loss=tf.constant([2.0, 5.0]), tape=tape))
        1
        >>> w.numpy()
        array([ -3., -10.], dtype=float32)
        """
        if callable(loss):
            tape = GradientTape() if tape is None else tape
            with tape:
                if not callable(var_list):
                    tape.watch(var_list)
                loss = loss()
        elif tape is None:
            raise ValueError("`tape` is required when a `Tensor` loss is passed: the tape that recorded it")
        if callable(var_list):
            var_list = var_list()
        variables = nest.flatten(var_list)
        gradients = tape.gradient(loss, variables, grad_loss)
        return self.apply_gradients(zip(gradients, variables, strict=True))

    def apply_gradients(self, grads_and_vars: Iterable[tuple[Any, Any]], name: str | None = None) -> Any:
        """Change variables along their gradients.

        Parameters
        ----------
        grads_and_vars : iterable of (gradient, variable)
            A gradient is a tensor, an IndexedSlices, an array, or None: such a variable stays as it is, with a warning.
        name : str, optional
            Ignored; TensorFlow has it.

        Returns
        -------
        Variable
            `iterations`, the number of steps done.

        Raises
        ------
        ValueError
            If no variable has a gradient, or a gradient has another shape than its variable.

        Examples
        --------
        >>> import gtape as tf
        >>> w = tf.Variable([1.0, 2.0])
        >>> int(tf.keras.optimizers.SGD(0.5).apply_gradients([(tf.constant([2.0, 2.0]), w)]))
        1
        >>> w.numpy()
        array([0., 1.], dtype=float32)
        """
        pairs = list(grads_and_vars)
        self.apply([g for g, _ in pairs], [v for _, v in pairs])
        return self.iterations

    def apply(self, grads: Iterable[Any], trainable_variables: Iterable[Any] | None = None) -> None:
        """Change variables along their gradients, given as two lists.

        Parameters
        ----------
        grads : iterable of tensor, IndexedSlices, array or None
            The gradients.
        trainable_variables : iterable of Variable, optional
            Their variables; by default those that `build` was given.

        Raises
        ------
        ValueError
            If the lists differ in length, no variable has a gradient, or a gradient has another shape than its
            variable.
        """
        gradients = list(grads)
        variables = self._known_variables() if trainable_variables is None else list(trainable_variables)
        if len(gradients) != len(variables):
            raise ValueError(f"there are {len(gradients)} gradients for {len(variables)} variables; pass one for each")
        if not gradients:
            return
        pairs = self._pairs_with_gradient(gradients, variables)
        # As in ops, overflow gives inf and an invalid operation NaN, silently.
        with np.errstate(all="ignore"):
            pairs = self._clip(pairs)
            rate = self._rate()
            if self.weight_decay:
                for _, v in pairs:
                    value = v.numpy()
                    v.assign(wrap(value - value * v.dtype.as_numpy_dtype(self.weight_decay * rate)))
            for g, v in pairs:
                self.update(v, g, v.dtype.as_numpy_dtype(rate), self._slots_of(v))
        self.iterations.assign_add(_ONE)
        for _, v in pairs:
            if v.constraint is not None:
                v.assign(v.constraint(v))

    def _known_variables(self) -> list[Any]:
        if not self._built:
            raise ValueError(
                "When passing `grads` without `variables`, the optimizer must already be built on a list of variables. "
                "Call `optimizer.build(trainable_variables)` first."
            )
        variables = [ref() for ref in self._built]
        if any(v is None for v in variables):
            raise ValueError("some variables that this optimizer was built on are gone: pass `trainable_variables`")
        return variables

    def _pairs_with_gradient(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[tuple[Any, Any]]:
        pairs = []
        missing = []
        for g, v in zip(gradients, variables, strict=True):
            _check_variable(v)
            if g is None:
                missing.append(v.name)
                continue
            if not is_sparse(g):
                g = g.numpy() if isinstance(g, (Tensor, Variable)) else np.asarray(g)
                if g.shape != v.shape:
                    raise ValueError(
                        f"the gradient of {v.name} has shape {g.shape}, the variable {v.shape}: they must agree"
                    )
                g = g.astype(v.dtype.as_numpy_dtype, copy=False)
            pairs.append((g, v))
        if not pairs:
            raise ValueError(
                f"No gradients provided for any variable. They are None for {missing}; "
                "`tape.explain(loss, variable)` says why."
            )
        if missing:
            warnings.warn(
                f"Gradients do not exist for variables {missing} when minimizing the loss, so these stay as they are.",
                UserWarning,
                stacklevel=4,
            )
        return pairs

    def _clip(self, pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        if self.clipnorm is None and self.global_clipnorm is None and self.clipvalue is None:
            return pairs
        # The norm of a gradient is that of the whole: rows that occur twice are added first.
        dense = [(self.dense(g, v), v) for g, v in pairs]
        if self.clipvalue is not None:
            return [(np.clip(g, -self.clipvalue, self.clipvalue), v) for g, v in dense]
        if self.clipnorm is not None:
            return [(_scaled(g, self.clipnorm, _norm([g])), v) for g, v in dense]
        norm = _norm(g for g, _ in dense)
        return [(_scaled(g, self.global_clipnorm, norm), v) for g, v in dense]

    @staticmethod
    def dense(g: Any, v: Any) -> Any:
        """The gradient `g` of variable `v` as an array of its shape and dtype."""
        if not is_sparse(g):
            return g
        values, indices = rows(g)
        whole = np.zeros(tuple(v.shape), v.dtype.as_numpy_dtype)
        np.add.at(whole, indices, values)
        return whole

    def update(self, v: Any, g: Any, rate: Any, slots: dict[str, Variable]) -> None:
        """Change one variable along its gradient.

        Parameters
        ----------
        v : Variable
            What to change.
        g : ndarray or IndexedSlices
            Its gradient.
        rate : NumPy scalar of the variable's dtype
            The learning rate.
        slots : dict of Variable
            What `slots` names, for this variable.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say how it updates a variable")


def _scaled(g: Any, limit: Any, norm: float) -> Any:
    if norm <= limit:
        return g
    # An infinite norm leaves nothing of the direction: NaN, as TensorFlow has it.
    return g * g.dtype.type(limit / norm if math.isfinite(norm) else math.nan)
