"""State of an optimizer: references to the model's variables, and the arrays kept for each variable."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any

import numpy as np

from gtape import nest
from gtape.base.shown import shown
from gtape.recording.record import refuse_in_traced_calls
from gtape.tensors import argument_checks as checks
from gtape.tensors.tensor import wrap
from gtape.tensors.variable import Variable, tell_of_copies

__all__ = ["State", "check_variable"]


# Attributes with weak references to the model's variables.
_REFERRED = ("_built", "_undecayed")


def check_variable(v: Any) -> None:
    """Raise TypeError unless `v` can be updated."""
    if isinstance(v, type) or not (callable(getattr(v, "assign_sub", None)) and hasattr(v, "shape")):
        raise TypeError(
            f"an optimizer updates variables, not {shown(v) if isinstance(v, type) else type(v).__name__}: make it a "
            "gtape.Variable; in a pair the gradient comes first"
        )


class State:
    """The part of an optimizer that has state.

    A subclass lists in `slots` the arrays kept for each variable. The arrays are made at a variable's first step and
    live as long as the variable. The slots are in groups, because `variables` has the order of Keras: it lists a group
    for all of the model's variables before it lists the next group.
    """

    slots: tuple[tuple[str, ...], ...] = ()
    use_ema: bool
    gradient_accumulation_steps: int | None

    def __init__(self) -> None:
        self.built = False
        # The number of steps; with accumulation of gradients, several steps make one update.
        self._calls = Variable(0, trainable=False, dtype="int64", name="iteration")
        self._learning_rate: Any = None
        # Keyed by identity, because variables are not hashable. A weak reference removes the entry of a dead variable.
        self._state: dict[int, tuple[weakref.ref[Any], dict[str, Variable], int]] = {}
        self._built: list[weakref.ref[Any]] = []
        self._undecayed: list[weakref.ref[Any]] = []
        self._added: list[Variable] = []

    # A pickle holds the variables, so that a pickle of model and optimizer keeps them shared. A deep copy refers to
    # copies of the variables if the same deepcopy makes copies, earlier or later, and otherwise to the variables
    # themselves.

    def __getstate__(self) -> dict[str, Any]:
        entries = [(ref(), slots, seen) for ref, slots, seen in list(self._state.values())]
        referred = {name: [ref() for ref in self.__dict__[name]] for name in _REFERRED}
        return {**self.__dict__, "_state": entries, **referred}

    def __setstate__(self, state: dict[str, Any]) -> None:
        referred = {name: [weakref.ref(v) for v in state[name] if v is not None] for name in _REFERRED}
        self.__dict__.update(state, _state={}, **referred)
        for v, slots, seen in state["_state"]:
            if v is not None:
                self._remember(v, slots, seen)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        made = memo[id(self)] = object.__new__(type(self))
        state = self.__getstate__()
        entries, referred = state.pop("_state"), {name: state.pop(name) for name in _REFERRED}
        copied = copy.deepcopy(state, memo)
        copied["_state"] = [(memo.get(id(v), v), copy.deepcopy(slots, memo), seen) for v, slots, seen in entries]
        copied |= {name: [memo.get(id(v), v) for v in variables] for name, variables in referred.items()}
        made.__setstate__(copied)
        tell_of_copies(memo, made._follow_copy)
        return made

    def _follow_copy(self, v: Any, copied: Any) -> None:
        """Refer to the copy of a variable in place of the variable."""
        if id(v) in self._state:
            entries = [(copied if ref() is v else ref(), slots, seen) for ref, slots, seen in self._state.values()]
            self._state.clear()
            for kept, slots, seen in entries:
                if kept is not None:
                    self._remember(kept, slots, seen)
        for name in _REFERRED:
            refs = self.__dict__[name]
            self.__dict__[name] = [weakref.ref(copied) if ref() is v else ref for ref in refs]

    @property
    def iterations(self) -> Any:
        """The number of updates so far: an int64 variable, or a tensor if gradients are accumulated."""
        every = self.gradient_accumulation_steps
        return wrap(np.int64(int(self._calls.numpy()) // every)) if every else self._calls

    def build(self, var_list: Any) -> None:
        """Make the slots of variables, and keep the variables for calls of `apply` without a list.

        The first step calls this method. A subclass may make its own variables here, with
        `add_variable_from_reference`, after ``super().build(var_list)``.
        """
        variables = nest.flatten(var_list)
        for v in variables:
            check_variable(v)
            self._slots_of(v)
        self._built = [weakref.ref(v) for v in variables]
        self.built = True
        pending = self.__dict__.pop("_pending", None)
        if pending is not None:  # values of a checkpoint that was read before the variables were made
            pending(self)
            self._adopt()

    def _adopt(self) -> None:
        """Count the restored steps as steps of each variable."""
        self._state.update({key: (ref, slots, 0) for key, (ref, slots, _) in self._state.items()})

    def _all_slots(self) -> tuple[tuple[str, ...], ...]:
        average = (("average",),) if self.use_ema else ()
        return (*average, *((("gradient_accumulator",),) if self.gradient_accumulation_steps else ()), *self.slots)

    def _slots_of(self, v: Any) -> dict[str, Variable]:
        key = id(v)
        entry = self._state.get(key)
        if entry is None:
            check_variable(v)
            refuse_in_traced_calls("makes a variable")
            name = _plain(v)
            wanted = [s for group in self._all_slots() for s in group]
            made = {s: Variable(self._initial(v, s), trainable=False, name=f"{name}_{s}") for s in wanted}
            self._remember(v, made, int(self.iterations.numpy()))
            return made
        return entry[1]

    def _remember(self, v: Any, slots: dict[str, Variable], seen: int) -> None:
        key, state = id(v), self._state
        state[key] = (weakref.ref(v, lambda _: state.pop(key, None)), slots, seen)

    def _age(self, v: Any) -> int:
        """The number of updates of variable `v`, with the current update."""
        self._slots_of(v)
        return int(self.iterations.numpy()) - self._state[id(v)][2] + 1

    def _initial(self, v: Any, slot: str) -> Any:
        """The first value of a slot: an array of the variable's dtype, a scalar or of the variable's shape."""
        check_variable(v)
        return np.zeros(tuple(v.shape), v.dtype.as_numpy_dtype)

    def _known(self) -> dict[int, Any]:
        return {id(v): v for v in [ref() for ref in self._built] if v is not None}

    def _get_variable_index(self, variable: Any) -> int:
        for i, ref in enumerate(self._built):
            if ref() is variable:
                return i
        raise ValueError(f"Unknown variable: {shown(variable)}. This optimizer was not built with it")

    @property
    def variables(self) -> list[Variable]:
        """The optimizer's own variables: step count, learning rate, averages, slots, and added variables."""
        rate = [self._learning_rate] if isinstance(self._learning_rate, Variable) else []
        entries = [slots for _, slots, _ in list(self._state.values())]
        kept = [slots[s] for group in self._all_slots() for slots in entries for s in group]
        return [self._calls, *rate, *kept, *self._added]

    def add_variable(
        self, shape: Any = (), initializer: Any = "zeros", dtype: Any = None, aggregation: Any = "none",
        layout: Any = None, name: str | None = None,
    ) -> Variable:  # fmt: skip
        """Make a variable that belongs to the optimizer.

        Parameters
        ----------
        shape : sequence of int
        initializer : str or callable
        dtype : dtype, optional
            float32 by default.
        aggregation, layout : ignored, as in Keras without a distribution strategy
        name : str, optional
        """
        from gtape.keras import initializers

        values = initializers.initial(self, initializer, shape, "float32" if dtype is None else dtype)
        made = Variable(values, trainable=False, name=None if name is None else checks.text(self, "name", name))
        self._added.append(made)
        return made

    def add_variable_from_reference(
        self, reference_variable: Any, name: str | None = None, initializer: Any = "zeros"
    ) -> Variable:
        """Make a variable with the shape and dtype of a model's variable."""
        v = reference_variable
        check_variable(v)
        made_name = f"{_plain(v)}_{checks.name_of(self, name, 'slot')}"
        return self.add_variable(tuple(v.shape), initializer, v.dtype.name, name=made_name)

    def add_optimizer_variables(
        self, trainable_variables: Iterable[Any], name: Any, initializer: Any = "zeros"
    ) -> list[Any]:
        """Make one or several variables for each of a model's variables.

        Parameters
        ----------
        trainable_variables : iterable of Variable
        name : str or list of str
        initializer : str or callable, or a list of these

        Returns
        -------
        list of Variable, or a list of these for each of several names
        """
        names = [name] if isinstance(name, str) else checks.each(self, "name", name, "a string or a list of strings")
        starts = list(initializer) if isinstance(initializer, (list, tuple)) else [initializer] * len(names)
        if len(starts) != len(names):
            raise ValueError(f"add_optimizer_variables: there are {len(starts)} initializers for {len(names)} names")
        made: list[list[Variable]] = [[] for _ in names]
        for v in checks.each(self, "trainable_variables", trainable_variables, "a list of variables"):
            for group, n, start in zip(made, names, starts, strict=True):
                group.append(self.add_variable_from_reference(v, n, start))
        return made[0] if isinstance(name, str) else made

    def assign(self, variable: Any, value: Any) -> None:
        """Replace a variable's value."""
        check_variable(variable)
        variable.assign(value)

    def assign_add(self, variable: Any, value: Any) -> None:
        """Add to a variable's value."""
        check_variable(variable)
        variable.assign_add(value)

    def assign_sub(self, variable: Any, value: Any) -> None:
        """Subtract from a variable's value."""
        check_variable(variable)
        variable.assign_sub(value)

    def set_weights(self, weights: Iterable[Any]) -> None:
        """Set the values of all `variables` in order. ValueError if their number or a shape differs."""
        variables, values = self.variables, checks.each(self, "weights", weights, "a list of arrays")
        if len(variables) != len(values):
            raise ValueError(f"You passed {len(values)} weights to an optimizer that has {len(variables)} variables")
        for v, value in zip(variables, values, strict=True):
            v.assign(value)
        self._adopt()

    def save_own_variables(self, store: Any) -> None:
        """Store the values of `variables` in a dict, under "0", "1" and so on."""
        if not isinstance(store, MutableMapping):
            raise TypeError(f"{type(self).__name__}: `store` must be a dict. Received: store={shown(store)}")
        for i, v in enumerate(self.variables):
            store[str(i)] = v.numpy()

    def load_own_variables(self, store: Any) -> None:
        """Set the values that `save_own_variables` stored. ValueError unless every variable has a value."""
        places = [str(i) for i in range(len(self.variables))]
        if not isinstance(store, Mapping) or sorted(map(str, store)) != sorted(places):
            raise ValueError(
                f"{type(self).__name__}: `store` must hold {len(places)} values under '0', '1' and so on, as "
                f"save_own_variables leaves them. Received: store={shown(store)}"
            )
        self.set_weights([store[place] for place in places])


def _plain(v: Any) -> str:
    """A variable's name as a part of a slot's name."""
    return str(v.name).partition(":")[0].replace("/", "_")
