"""gtape: tf.GradientTape on NumPy, with a SymPy mirror behind every op.

``import gtape as tf`` runs code that was written for TensorFlow's tape; every gradient can be checked against the exact
derivative: ``tf.GradientTape(verify=True)``, or ``gtape.verify.check``.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

# In a checkout the folders symbolic/ and verify/ lie beside this one; installed, they lie inside.
if not os.path.isdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "symbolic")):
    __path__.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from gtape import autodiff, catalogue, dtypes, errors, linalg, math, nest, nn, operators
from gtape.control import custom_gradient, grad_pass_through, recompute_grad, stop_gradient
from gtape.dtypes import *  # noqa: F403
from gtape.dtypes import DType, as_dtype
from gtape.errors import VerificationError
from gtape.indexed_slices import IndexedSlices
from gtape.module import Module, name_scope
from gtape.printing import print_v2 as print
from gtape.tape import GradientTape, UnconnectedGradients, verifying
from gtape.tensor import Tensor, constant, convert_to_tensor, is_tensor
from gtape.tensor_shape import TensorShape
from gtape.variable import Variable

__version__ = "0.1.0"

__all__ = [
    "DType", "GradientTape", "IndexedSlices", "Module", "Tensor", "TensorShape", "UnconnectedGradients", "Variable",
    "VerificationError", "as_dtype", "autodiff", "constant", "convert_to_tensor", "custom_gradient", "dtypes",
    "errors", "executing_eagerly", "function", "grad_pass_through", "is_tensor", "linalg", "math", "name_scope",
    "nest", "nn", "print", "recompute_grad", "stop_gradient", "verifying",
]  # fmt: skip

_LAZY_MODULES = frozenset({"keras", "symbolic", "verify"})

operators.install()


def executing_eagerly() -> Any:
    """Whether ops run as they are called: always True.

    Returns
    -------
    bool

    Examples
    --------
    >>> import gtape as tf
    >>> tf.executing_eagerly()
    True
    """
    return True


def function(func: Any = None, **options: Any) -> Any:
    """Transparent stand-in for ``tf.function``: returns `func` itself.

    Parameters
    ----------
    func : callable, optional
        Without it a decorator is returned.
    **options
        TensorFlow's options; they change nothing.

    Returns
    -------
    callable

    Examples
    --------
    >>> import gtape as tf
    >>> @tf.function
    ... def double(x):
    ...     return 2.0 * x
    >>> float(double(tf.constant(1.5)))
    3.0
    """
    return func if func is not None else (lambda f: f)


def __getattr__(name: str) -> Any:
    if name in _LAZY_MODULES:
        return importlib.import_module(f"gtape.{name}")
    if name in math._ALIASES:
        value = getattr(math, name)
    else:
        value = catalogue.resolve(name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY_MODULES, *catalogue.names_in()})
