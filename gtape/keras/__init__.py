"""The part of Keras that code with tapes uses: optimizers, losses, layers, models, metrics.

Variables of layers are `gtape.Variable`, so that tapes watch them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gtape.base.imports import import_module

if TYPE_CHECKING:
    from gtape.keras import (
        activations,
        backend,
        callbacks,
        constraints,
        initializers,
        layers,
        losses,
        metrics,
        models,
        optimizers,
        regularizers,
        utils,
    )
    from gtape.keras import backend as config
    from gtape.keras.initializers import Initializer
    from gtape.keras.layers.layer import Layer
    from gtape.keras.layers.symbolic import Input, KerasTensor
    from gtape.keras.loss import Loss
    from gtape.keras.metric import Metric
    from gtape.keras.models import Model, Sequential
    from gtape.keras.optimizers.base import Optimizer
    from gtape.keras.regularizers import Regularizer
    from gtape.tensors.variable import Variable

__all__ = [
    "Initializer", "Input", "KerasTensor", "Layer", "Loss", "Metric", "Model", "Optimizer", "Regularizer",
    "Sequential", "Variable", "activations", "backend", "callbacks", "config", "constraints", "initializers", "layers",
    "losses", "metrics", "models", "optimizers", "regularizers", "utils",
]  # fmt: skip

# Modules are imported at first use, so that a script that needs an optimizer does not import layers.
_HOMES = {
    "Initializer": "gtape.keras.initializers", "Loss": "gtape.keras.loss", "Metric": "gtape.keras.metric",
    "Optimizer": "gtape.keras.optimizers.base", "Regularizer": "gtape.keras.regularizers",
    "Input": "gtape.keras.layers.symbolic", "KerasTensor": "gtape.keras.layers.symbolic",
    "Layer": "gtape.keras.layers.layer", "Model": "gtape.keras.models", "Sequential": "gtape.keras.models",
    "Variable": "gtape.tensors.variable",
}  # fmt: skip


if not TYPE_CHECKING:  # because a type checker that sees this function accepts any name

    def __getattr__(name: str) -> Any:
        if name in _HOMES:
            return getattr(import_module(_HOMES[name]), name)
        if name == "config":
            return import_module("gtape.keras.backend")
        if name in __all__:
            return import_module(f"gtape.keras.{name}")
        from gtape.namespaces.catalogue import unknown

        raise unknown("gtape.keras", name, __all__)


__dir__ = __all__.copy  # the names for `dir`, which sorts them
