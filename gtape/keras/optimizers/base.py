"""What all optimizers share: ways in, learning rate, clipping, decay, and the arrays kept for each variable.

Updates are plain NumPy: a variable's state blocks gradients, so there is nothing to record.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

import numpy as np

from gtape import nest
from gtape.errors import InvalidArgumentError
from gtape.keras.optimizers import schedules
from gtape.keras.optimizers.clipping import clip, is_sparse
from gtape.keras.optimizers.schedules import LearningRateSchedule
from gtape.tape import GradientTape
from gtape.tensor import Tensor, wrap
from gtape.variable import Variable

__all__ = ["Optimizer"]


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
    use_ema : bool
        Whether to keep a running average of each variable; `finalize_variable_values` puts the averages in place.
    ema_momentum : float
        How slowly the averages follow, in [0, 1].
    ema_overwrite_frequency : int, optional
        After so many steps, again and again, the averages replace the variables.
    name : str, optional
        By default the class's name.

    Raises
    ------
    ValueError
        For a learning rate that is neither a number nor callable, a limit that is not positive, several limits, or
        an unknown argument.
    """

    slots: tuple[str, ...] = ()
    # What `get_config` reads and the constructor takes, besides what all optimizers have.
    options: tuple[str, ...] = ()
    default_name: str | None = None

    def __init__(
        self,
        learning_rate: Any,
        *,
        weight_decay: float | None = None,
        clipnorm: float | None = None,
        clipvalue: float | None = None,
        global_clipnorm: float | None = None,
        use_ema: bool = False,
        ema_momentum: float = 0.99,
        ema_overwrite_frequency: int | None = None,
        name: str | None = None,
        **unknown: Any,
    ) -> None:
        if unknown:
            raise ValueError(f"Argument(s) not recognized: {unknown}. {type(self).__name__} has no such option")
        limits = {"clipnorm": clipnorm, "global_clipnorm": global_clipnorm, "clipvalue": clipvalue}
        given = [k for k, limit in limits.items() if limit is not None]
        if len(given) > 1:
            raise ValueError(f"Only one of `clipnorm`, `clipvalue` and `global_clipnorm` can be set, not {given}")
        for k in given:
            limit = limits[k]
            if limit is not None and not limit > 0:
                raise ValueError(f"`{k}` must be positive, got {limit}")
        if not 0 <= ema_momentum <= 1:
            raise ValueError(f"`ema_momentum` must be in the range [0, 1], got {ema_momentum}")
        every = ema_overwrite_frequency
        if every is not None and (not isinstance(every, int) or every < 1):
            raise ValueError(f"`ema_overwrite_frequency` must be an integer >= 1 or None, got {every!r}")
        self.use_ema, self.ema_momentum, self.ema_overwrite_frequency = bool(use_ema), float(ema_momentum), every
        self.name = name or self.default_name or type(self).__name__
        self.weight_decay = weight_decay
        self.clipnorm, self.global_clipnorm, self.clipvalue = clipnorm, global_clipnorm, clipvalue
        self.iterations = Variable(0, trainable=False, dtype="int64", name="iteration")
        self._learning_rate: Any = None
        self._exact_rate: float | None = None
        self.learning_rate = learning_rate
        # By identity, because variables are not hashable; the weak reference takes an entry out when its variable dies.
        self._state: dict[int, tuple[weakref.ref[Any], dict[str, Variable], int]] = {}
        self._built: list[weakref.ref[Any]] = []
        self._undecayed: list[weakref.ref[Any]] = []
        self._undecayed_names: tuple[str, ...] = ()

    # -------------------------------------------------------------------------------------- settings

    @property
    def learning_rate(self) -> Any:
        """The learning rate: a float32 variable, or what a schedule says for the next step. May be set to either."""
        rate = self._learning_rate
        return rate if isinstance(rate, Variable) else wrap(np.float32(self._rate()))

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        if callable(value) and not isinstance(value, (Tensor, Variable)):
            self._learning_rate = value
            self._wants_step = _takes_an_argument(value)
            return
        if isinstance(self._learning_rate, LearningRateSchedule):
            raise TypeError(
                "This optimizer was created with a `LearningRateSchedule` object as its `learning_rate` constructor "
                "argument, hence its learning rate is not settable to a number; set another schedule, or create the "
                "optimizer with a float"
            )
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
        if isinstance(rate, LearningRateSchedule):
            return rate.exact(int(self.iterations.numpy()))
        if not isinstance(rate, Variable):
            return float(rate(self.iterations.numpy()) if self._wants_step else rate())
        shown = rate.numpy()
        # The variable is float32, as in Keras; a float64 model still gets all digits of the rate that was asked for.
        if self._exact_rate is not None and np.float32(self._exact_rate) == shown:
            return self._exact_rate
        return float(shown)

    def get_config(self) -> dict[str, Any]:
        """The settings, as a dict that `from_config` takes.

        Examples
        --------
        >>> import gtape as tf
        >>> config = tf.keras.optimizers.SGD(0.1, momentum=0.9).get_config()
        >>> config["learning_rate"], config["momentum"]
        (0.1, 0.9)
        """
        rate: Any = self._learning_rate
        if isinstance(rate, Variable):
            rate = self._rate()
        elif isinstance(rate, LearningRateSchedule):
            rate = {"class_name": type(rate).__name__, "config": rate.get_config()}
        common = ("weight_decay", "clipnorm", "clipvalue", "global_clipnorm", "use_ema", "ema_momentum")
        kept = {k: getattr(self, k) for k in (*common, "ema_overwrite_frequency", *self.options)}
        return {"name": self.name, "learning_rate": rate, **kept}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """An optimizer of this class from what `get_config` gave; it starts without state."""
        settings = dict(config)
        rate = settings.get("learning_rate")
        if isinstance(rate, dict):
            settings["learning_rate"] = schedules.deserialize(rate)
        return cls(**settings)

    def exclude_from_weight_decay(self, var_list: Any = None, var_names: Iterable[str] | None = None) -> None:
        """Leave variables out of the weight decay.

        Parameters
        ----------
        var_list : list of Variable, optional
            The variables themselves.
        var_names : list of str, optional
            Parts of names: a variable whose name contains one of them is left out.
        """
        self._undecayed = [weakref.ref(v) for v in nest.flatten(var_list or [])]
        self._undecayed_names = tuple(var_names or ())

    def _decays(self, v: Any) -> bool:
        left_out = any(ref() is v for ref in self._undecayed) or any(part in v.name for part in self._undecayed_names)
        return not left_out

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
            wanted = (*self.slots, "average") if self.use_ema else self.slots
            made = {s: Variable(self.initial(v, s), trainable=False, name=f"{name}_{s}") for s in wanted}
            state = self._state
            seen = int(self.iterations.numpy())
            entry = self._state[key] = (weakref.ref(v, lambda _: state.pop(key, None)), made, seen)
        return entry[1]

    def age(self, v: Any) -> int:
        """How many steps there were since variable `v` was first seen, counting the one that is being taken."""
        return int(self.iterations.numpy()) - self._state[id(v)][2] + 1

    def initial(self, v: Any, slot: str) -> Any:
        """What a slot of variable `v` starts from: an array of its dtype, and of its shape or a scalar."""
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
        self._step(tape.gradient(loss, variables, grad_loss), variables)  # of any variables, whatever came before
        return self.iterations

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
            If the list is empty, no variable has a gradient, or a variable is unknown: see `apply`.
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
        pairs = list(grads_and_vars)
        if not pairs:
            raise ValueError("No gradients provided for any variable: the list of gradients and variables is empty.")
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
            If the lists differ in length, no variable has a gradient, or a variable is unknown: not among those of
            the first call, or of `build`. `minimize` takes any.
        gtape.errors.InvalidArgumentError
            If a gradient has another shape than its variable.
        """
        gradients = list(grads)
        if trainable_variables is None:
            variables = self._known_variables()
        else:
            variables = list(trainable_variables)
            self._know(variables)
        self._step(gradients, variables)

    def _know(self, variables: list[Any]) -> None:
        for v in variables:
            _check_variable(v)
        known = {id(v) for v in [ref() for ref in self._built] if v is not None}
        unknown = [v for v in variables if id(v) not in known]
        if not unknown:
            return
        if known:
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
        pairs = self._pairs_with_gradient(gradients, variables)
        # As in ops, overflow gives inf and an invalid operation NaN, silently.
        with np.errstate(all="ignore"):
            pairs = clip(pairs, self.clipvalue, self.clipnorm, self.global_clipnorm)
            rate = self._rate()
            if self.weight_decay:
                for v in (v for _, v in pairs if self._decays(v)):
                    value = v.numpy()
                    v.assign(wrap(value - value * v.dtype.as_numpy_dtype(self.weight_decay * rate)))
            for g, v in pairs:
                self.update(v, g, v.dtype.as_numpy_dtype(rate), self._slots_of(v))
            if self.use_ema:
                self._average([v for _, v in pairs])
        for _, v in pairs:
            if v.constraint is not None:
                v.assign(v.constraint(v))
        self.iterations.assign_add(_ONE)

    def _average(self, variables: Sequence[Any]) -> None:
        for v in variables:
            average, number = self._slots_of(v)["average"], v.dtype.as_numpy_dtype
            # The first value a variable has after a step is where its average starts.
            keep = self.ema_momentum if self.age(v) > 1 else 0.0
            average.assign(wrap(number(keep) * average.numpy() + number(1.0 - keep) * v.numpy()))
        every = self.ema_overwrite_frequency
        if every is not None and (int(self.iterations.numpy()) + 1) % every == 0:
            self.finalize_variable_values(variables)

    def finalize_variable_values(self, var_list: Any) -> None:
        """Put the running averages in the place of the variables, if averages are kept.

        Parameters
        ----------
        var_list : structure of Variable
            The variables; one that was never updated stays as it is.
        """
        if not self.use_ema:
            return
        for v in nest.flatten(var_list):
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
                    raise InvalidArgumentError(
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
                stacklevel=5,
            )
        return pairs

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
