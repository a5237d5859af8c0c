"""The base class of optimizers: `minimize` and `apply`, clipping, decay, accumulation.

Updates are plain NumPy, because no gradient flows into a variable's state.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Iterable, Sequence
from numbers import Number
from typing import Any

import numpy as np

from gtape import nest
from gtape.base.diagnosis import diagnosed
from gtape.base.escaping import plain
from gtape.base.locks import of_optimizer
from gtape.base.own_files import level_of_user
from gtape.base.quiet import quietly
from gtape.base.shown import shown
from gtape.errors import InvalidArgumentError
from gtape.keras.optimizers.clipping import clip, dense, divided, is_sparse
from gtape.keras.optimizers.settings import Settings
from gtape.keras.optimizers.state import check_variable
from gtape.recording.record import done_later, get_stack, refuse_in_traced_calls
from gtape.tapes.tape import GradientTape
from gtape.tensors import argument_checks as checks
from gtape.tensors.indexed_slices import IndexedSlices
from gtape.tensors.tensor import Tensor, is_tensor, number_read, wrap
from gtape.tensors.variable import Variable

__all__ = ["Optimizer"]


_ONE = wrap(np.int64(1))


class Optimizer(Settings):
    """Base class of optimizers, with everything except the formula of the update.

    A subclass defines `update_step`, and makes its variables in `build`, as in Keras.

    Parameters
    ----------
    learning_rate : float or callable
        The step's length. A callable is called at every step, with the number of steps done if the callable takes an
        argument.
    weight_decay : float, optional
        Each update first subtracts ``weight_decay * learning_rate * variable``.
    clipnorm, global_clipnorm, clipvalue : float, optional
        A limit of the norm of each gradient, of the norm of all gradients together, or of each entry. At most one may
        be given.
    use_ema : bool
        True keeps a running average of each variable; `finalize_variable_values` assigns the averages.
    ema_momentum : float
        The weight of the old averages, in [0, 1].
    ema_overwrite_frequency : int, optional
        After every such number of steps the averages replace the variables.
    loss_scale_factor : float, optional
        Gradients are divided by this factor, because `scale_loss` multiplies the loss by it.
    gradient_accumulation_steps : int, optional
        The number of gradients, 2 or more, whose mean makes one update.
    name : str, optional
        The class's name by default.

    Raises
    ------
    ValueError
        If the learning rate is neither a number nor a callable, a limit is not positive, several limits are given, or
        an argument is unknown.

    Examples
    --------
    >>> import gtape as tf
    >>> class Signs(tf.keras.optimizers.Optimizer):
    ...     def build(self, variables):
    ...         super().build(variables)
    ...         self.sums = [self.add_variable_from_reference(v, name="sum") for v in variables]
    ...     def update_step(self, gradient, variable, learning_rate):
    ...         self.assign_add(self.sums[self._get_variable_index(variable)], gradient)
    ...         self.assign_sub(variable, learning_rate * tf.sign(gradient))
    >>> v = tf.Variable([1.0, 2.0])
    >>> optimizer = Signs(learning_rate=0.5)
    >>> int(optimizer.apply_gradients([(tf.constant([3.0, -4.0]), v)]))
    1
    >>> v.numpy(), optimizer.sums[0].numpy()
    (array([0.5, 2.5], dtype=float32), array([ 3., -4.], dtype=float32))
    """

    def minimize(
        self, loss: Any, var_list: Any, grad_loss: Any = None, name: str | None = None, tape: Any = None
    ) -> Any:
        """Differentiate a loss and apply the gradients.

        Parameters
        ----------
        loss : tensor or callable
            A tensor that `tape` recorded, or a function without arguments that computes it.
        var_list : structure of Variable or callable
            The variables to change, or a function that returns the variables and is called after the loss.
        grad_loss : tensor or structure, optional
            The `output_gradients` of `GradientTape.gradient`.
        tape : GradientTape, optional
            The tape that recorded `loss`; required unless `loss` is callable.

        Returns
        -------
        Variable
            `iterations`, the number of updates.

        Raises
        ------
        ValueError
            If `loss` is a tensor and `tape` is missing, or if no variable has a gradient.

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
        if tape is not None and not isinstance(tape, GradientTape):
            raise TypeError(f"minimize: `tape` must be a GradientTape. Received: tape={shown(tape)}")
        if callable(loss):
            tape = GradientTape() if tape is None else tape
            with tape:
                if not callable(var_list):
                    tape.watch(var_list)
                loss = self.scale_loss(loss())
        elif tape is None:
            raise ValueError("`tape` is required when a `Tensor` loss is passed: the tape that recorded it")
        elif self.loss_scale_factor is not None:
            seeds = nest.map_structure(_ones_like, loss) if grad_loss is None else grad_loss
            grad_loss = nest.map_structure(self.scale_loss, seeds)
        if callable(var_list):
            var_list = var_list()
        variables = nest.flatten(var_list)
        for v in variables:
            check_variable(v)
        if not self.built and type(self)._formula is Optimizer._formula:
            refuse_in_traced_calls("makes a variable")
            self.build(variables)
        self._step(tape.gradient(loss, variables, grad_loss), variables)  # takes any variables, unlike `apply`
        return self.iterations

    def apply_gradients(self, grads_and_vars: Iterable[tuple[Any, Any]], name: str | None = None) -> Any:
        """Change variables along their gradients.

        Parameters
        ----------
        grads_and_vars : iterable of (gradient, variable)
            A gradient is a tensor, an IndexedSlices, an array, or None, which leaves the variable unchanged and warns.

        Returns
        -------
        Variable
            `iterations`, the number of updates.

        Raises
        ------
        ValueError
            If the list is empty or holds other things than pairs, and as for `apply`.
        gtape.errors.InvalidArgumentError
            If a gradient has another shape than its variable.

        Examples
        --------
        >>> import gtape as tf
        >>> w = tf.Variable([1.0, 2.0])
        >>> int(tf.keras.optimizers.SGD(0.5).apply_gradients([(tf.constant([2.0, 2.0]), w)]))
        1
        >>> w.numpy()
        array([0., 1.], dtype=float32)
        """
        pairs = checks.each(self, "grads_and_vars", grads_and_vars, "a list of (gradient, variable) pairs")
        if not pairs:
            raise ValueError("No gradients provided for any variable. The list of gradients and variables is empty.")
        if not all(isinstance(p, (tuple, list)) and len(p) == 2 for p in pairs):
            raise ValueError("apply_gradients takes (gradient, variable) pairs: zip(gradients, variables)")
        self.apply([g for g, _ in pairs], [v for _, v in pairs])
        return self.iterations

    def apply(self, grads: Iterable[Any], trainable_variables: Iterable[Any] | None = None) -> None:
        """Change variables along their gradients, given as two lists.

        Parameters
        ----------
        grads : iterable of tensor, IndexedSlices, array or None
        trainable_variables : iterable of Variable, optional
            By default the variables given to `build`.

        Raises
        ------
        ValueError
            If the lists differ in length, no variable has a gradient, or a variable is unknown to `build` and to the
            first call. `minimize` takes any variables.
        gtape.errors.InvalidArgumentError
            If a gradient has another shape than its variable.
        """
        gradients = checks.each(self, "grads", grads, "a list of gradients")
        if trainable_variables is None:
            variables = self._known_variables()
        else:
            variables = checks.each(self, "trainable_variables", trainable_variables, "a list of variables")
            with of_optimizer(self):
                self._know(variables)
        self._step(gradients, variables)

    @diagnosed
    def scale_loss(self, loss: Any) -> Any:
        """The loss times `loss_scale_factor`, if set. Differentiate the result, so that gradients do not underflow.

        `minimize` calls this method. Programs that use `apply_gradients` have to call the method themselves.

        Examples
        --------
        >>> tf.keras.optimizers.SGD(loss_scale_factor=4.0).scale_loss(2.0)
        8.0
        """
        if self.loss_scale_factor is None:
            return loss
        if not is_tensor(loss) and not isinstance(loss, (Number, np.ndarray)):
            loss = checks.tensor(self, "loss", loss)
        with np.errstate(all="ignore"):
            return loss * self.loss_scale_factor

    def _know(self, variables: list[Any]) -> None:
        for v in variables:
            check_variable(v)
        if not self.built:
            refuse_in_traced_calls("makes a variable")
            self.build(variables)
            return
        known = self._known()
        unknown = [v for v in variables if id(v) not in known]
        if not unknown:
            return
        # An optimizer without state for each variable may serve another model with only new variables.
        stateless = not (self.slots or self.use_ema or self.gradient_accumulation_steps)
        if known and not (stateless and 1 < len(unknown) == len(variables)):
            raise ValueError(
                f"Unknown variable: {unknown[0]}. This optimizer can only be called for the variables it was "
                "originally built with: make a new one for other variables, or use minimize(), which takes any"
            )
        for v in unknown:
            self._slots_of(v)
        self._built += [weakref.ref(v) for v in unknown]

    def _step(self, gradients: list[Any], variables: list[Any]) -> None:
        if len(gradients) != len(variables):
            raise ValueError(f"there are {len(gradients)} gradients for {len(variables)} variables; pass one for each")
        if not gradients:
            return
        if done_later(lambda again: self._step_now(again, variables), gradients, lambda: [*self.variables, *variables]):
            return
        self._step_now(gradients, variables)

    def _step_now(self, gradients: list[Any], variables: list[Any]) -> None:
        pairs = self._pairs_with_gradient(gradients, variables)
        before = _values_before(gradients, variables) if get_stack().trace else []
        with of_optimizer(self):  # because slots, variables and the number of steps change together
            self._step_alone(pairs)
        for v, value, gradient in before:
            v._note_step(value, gradient)

    def _step_alone(self, pairs: list[tuple[Any, Any]]) -> None:
        # As in ops, overflow gives inf and an invalid operation gives NaN, without a warning.
        with quietly():
            if self.loss_scale_factor is not None:
                pairs = [(divided(g, self.loss_scale_factor), v) for g, v in pairs]
            if self.gradient_accumulation_steps:
                self._gather(pairs)
            else:
                self._update(pairs)
            if self.use_ema:
                self._average([v for _, v in pairs])
        for _, v in pairs:
            if v.constraint is not None:
                v.assign(v.constraint(v))
        self._calls.assign_add(_ONE)

    def _gather(self, pairs: list[tuple[Any, Any]]) -> None:
        """Add gradients to the waiting sums. Update with the mean when enough gradients have come."""
        every = self.gradient_accumulation_steps
        assert every is not None
        slots = [self._slots_of(v)["gradient_accumulator"] for _, v in pairs]
        sums = [slot.numpy() + dense(g, v) for slot, (g, v) in zip(slots, pairs, strict=True)]
        full = (int(self._calls.numpy()) + 1) % every == 0
        for slot, total in zip(slots, sums, strict=True):
            slot.assign(wrap(np.zeros_like(total) if full else total))
        if full:
            self._update([(divided(total, every), v) for total, (_, v) in zip(sums, pairs, strict=True)])

    def _update(self, pairs: list[tuple[Any, Any]]) -> None:
        pairs = clip(pairs, self.clipvalue, self.clipnorm, self.global_clipnorm)
        rate = self._rate()
        if self.weight_decay:
            for v in (v for _, v in pairs if self._decays(v)):
                value = v.numpy()
                v.assign(wrap(value - value * v.dtype.as_numpy_dtype(self.weight_decay * rate)))
        own = type(self).update_step is Optimizer.update_step
        for g, v in pairs:
            if own:
                self._formula(v, g, v.dtype.as_numpy_dtype(rate), self._slots_of(v))
            else:
                self.update_step(g if is_sparse(g) else wrap(g), v, wrap(v.dtype.as_numpy_dtype(rate)))

    def _average(self, variables: Sequence[Any]) -> None:
        for v in variables:
            average, number = self._slots_of(v)["average"], v.dtype.as_numpy_dtype
            # An average starts from the value of its variable after the first step.
            keep = self.ema_momentum if self._age(v) > 1 else 0.0
            average.assign(wrap(number(keep) * average.numpy() + number(1.0 - keep) * v.numpy()))
        every = self.ema_overwrite_frequency
        if every is not None and (int(self.iterations.numpy()) + 1) % every == 0:
            self.finalize_variable_values(variables)

    def finalize_variable_values(self, var_list: Any) -> None:
        """Assign the running averages, if any, to those variables of a structure that were updated before."""
        if not self.use_ema:
            return
        for v in nest.flatten(var_list):
            check_variable(v)
            if id(v) in self._state:
                v.assign(self._slots_of(v)["average"].value())

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
        pairs, missing = [], []
        for g, v in zip(gradients, variables, strict=True):
            check_variable(v)
            if g is None:
                missing.append(v.name)
                continue
            pairs.append((_rows(g, v) if is_sparse(g) else _array(g, v), v))
        if not pairs:
            raise ValueError(
                f"No gradients provided for any variable. They are None for {missing}; "
                "`tape.explain(loss, variable)` says why."
            )
        if missing:
            warnings.warn(
                f"Gradients do not exist for variables {missing} when minimizing the loss, so these stay as they are.",
                UserWarning,
                stacklevel=level_of_user(),
            )
        return pairs

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Change one variable along its gradient. A subclass defines this method.

        Parameters
        ----------
        gradient : Tensor or IndexedSlices
        variable : Variable
        learning_rate : Tensor
            A scalar of the variable's dtype.
        """
        check_variable(variable)
        rate = checks.number(self, "learning_rate", learning_rate)
        with np.errstate(all="ignore"):
            g = _rows(gradient, variable) if is_sparse(gradient) else _array(gradient, variable)
            self._formula(variable, g, variable.dtype.as_numpy_dtype(rate), self._slots_of(variable))

    def _formula(self, v: Any, g: Any, rate: Any, slots: dict[str, Variable]) -> None:
        """Change variable `v` along its gradient `g`, an array or IndexedSlices. gtape's own optimizers define this.

        The rate is a NumPy scalar of the variable's dtype; `slots` holds the variable's slots by name.
        """
        raise NotImplementedError(
            f"{type(self).__name__} does not say how it updates a variable: write update_step(gradient, variable, "
            "learning_rate)"
        )


def _values_before(gradients: list[Any], variables: list[Any]) -> list[tuple[Variable, Tensor, Tensor]]:
    """For a check, each variable with its value before a step and its gradient, if the gradient is a tensor."""
    found = []
    for g, v in zip(gradients, variables, strict=True):
        if isinstance(v, Variable):
            whole = IndexedSlices(g.values, g.indices, v.shape)._as_tensor() if isinstance(g, IndexedSlices) else g
            if isinstance(whole, Tensor):
                found.append((v, v._as_tensor(), whole))
    return found


def _ones_like(x: Any) -> Any:
    loss = checks.tensor("minimize", "loss", x)
    return wrap(np.ones(loss._layout.shape, loss._layout.dtype))


def _fits(shape: Any, wanted: Any, kind: str, v: Any, what: str) -> None:
    if tuple(shape) != tuple(wanted):
        raise InvalidArgumentError(
            f"{what} of {plain(v.name)} has shape {shape}, the variable {v.shape}: they must agree"
        )
    if kind not in ("biufcV" if v.dtype.is_complex else "biufV"):
        raise InvalidArgumentError(
            f"{what} of {plain(v.name)} is of numbers that {v.dtype.name} does not hold; use gtape.cast"
        )


def _array(g: Any, v: Any) -> Any:
    """A dense gradient as an array with the shape and dtype of the variable."""
    # A copy, because a slot may keep the array.
    known = isinstance(g, (np.ndarray, np.generic))
    g = np.array(g if known else number_read(checks.tensor("an optimizer", "gradient", g), kept=True))
    _fits(g.shape, v.shape, g.dtype.kind, v, "the gradient")
    return g.astype(v.dtype.as_numpy_dtype, copy=False)


def _rows(g: Any, v: Any) -> Any:
    """The IndexedSlices `g`, after a check that its rows fit the variable."""
    values, indices = checks.tensor(g, "values", g.values), checks.tensor(g, "indices", g.indices)
    n = tuple(v.shape)[:1]
    _fits(values.shape, (*indices.shape, *tuple(v.shape)[1:]), values._layout.dtype.kind, v, "the gradient's rows")
    at = np.asarray(indices._value)
    if at.dtype.kind not in "iu" or not n or (at.size and not 0 <= int(at.min()) <= int(at.max()) < n[0]):
        raise InvalidArgumentError(f"the gradient of {plain(v.name)} has rows at {shown(at)}, the variable {n} rows")
    return g
