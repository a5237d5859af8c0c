"""gtape: tf.GradientTape on NumPy, with a SymPy mirror behind every op.

``import gtape as tf`` runs code that was written for TensorFlow's tape; every gradient can be checked against the exact
derivative: ``tf.GradientTape(verify=True)``, or ``gtape.verify.check``.

Ops accept and ignore the argument ``name=``, as TensorFlow's ops do. Their docstrings leave the argument out.
"""

from __future__ import annotations

import os
from typing import Any

import numpy  # noqa: F401  loaded here, because every module needs it

from gtape.base import imports as _imports

# Editors and type checkers read __init__.pyi, which the build writes (.ci/write_stubs.py).


_here = os.path.dirname(os.path.abspath(__file__))
# In a checkout these folders are siblings of this one, and an installed package contains them. The parent folder is not
# in `__path__`, because it would make gtape.tests and gtape.gtape of its other folders.
_siblings = () if os.path.isdir(os.path.join(_here, "symbolic")) else ("gtape.symbolic", "gtape.verify")
_imports.Finder(dict.fromkeys(_siblings, os.path.dirname(_here))).install()

__version__ = "0.1.0"

newaxis = None

# The modules of names that are no ops. They are imported on first use (PEP 562), so that `import gtape` costs little
# more than `import numpy`, even without cached bytecode.
_HOMES: dict[str, tuple[str, ...]] = {
    "gtape.engine.requests": ("UnconnectedGradients",),
    "gtape.base.distribution": ("VariableAggregation", "VariableSynchronization"),
    "gtape.errors": ("VerificationError",),
    "gtape.base.verification": ("verifying",),
    "gtape.tapes.functions": ("function", "gradients", "hessians"),
    "gtape.tensors.indexed_slices": ("IndexedSlices",),
    "gtape.tensors.module": ("Module", "name_scope"),
    "gtape.namespaces.surroundings": (
        "get_current_name_scope",
        "get_logger",
        "inside_function",
        "is_symbolic_tensor",
        "timestamp",
    ),
    "gtape.tapes.tape": ("GradientTape",),
    "gtape.base.tensor_spec": ("TensorSpec",),
    "gtape.engine.custom": ("custom_gradient",),
    "gtape.tensors.tensor": ("constant", "convert_to_tensor", "is_tensor"),
    "gtape.base.tensor_shape": ("TensorShape",),
    "gtape.tensors.variable": ("Variable",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_NAMESPACES = frozenset({
    "autodiff", "config", "data", "debugging", "dtypes", "errors", "image", "keras", "linalg", "math", "nest", "nn",
    "random", "symbolic", "test", "train", "verify",
})  # fmt: skip

# Parts of Keras that TensorFlow also has at its top level: tf.optimizers.Adam is tf.keras.optimizers.Adam.
_FROM_KERAS = frozenset({"initializers", "losses", "metrics", "optimizers"})
_INITIALIZERS = {
    "constant_initializer": "ConstantOfItsType",
    "ones_initializer": "Ones",
    "random_normal_initializer": "RandomNormal",
    "random_uniform_initializer": "RandomUniform",
    "zeros_initializer": "Zeros",
}
_PLAIN = frozenset({"Tensor", "__version__", "executing_eagerly", "newaxis", "print"})


def executing_eagerly() -> Any:
    """True, because ops always run when they are called.

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


_import = _imports.import_module


def _find(name: str) -> Any:
    find_spec = _imports.library("importlib.util").find_spec  # not above, because `import gtape` stays light
    if name in _HOME_OF:
        return getattr(_import(_HOME_OF[name]), name)
    if name in _FROM_KERAS:
        return _import(f"gtape.keras.{name}")
    if name in _INITIALIZERS:
        return getattr(_import(f"{__name__}.keras.initializers"), _INITIALIZERS[name])
    if name == "Tensor":
        return _import("gtape.tensors.tensor").PublicTensor
    if name == "print":
        return _import("gtape.base.printing").print_v2
    # This check comes before the search for ops, because `from gtape import record` calls this function first and must
    # stay light.
    if name.isidentifier() and find_spec(f"gtape.{name}") is not None:
        return _import(f"gtape.{name}")
    dtypes = _import("gtape.dtypes")
    if name in dtypes.__all__ or name == "bfloat16":  # bfloat16 exists if ml_dtypes is installed
        return getattr(dtypes, name)
    catalogue = _import("gtape.namespaces.catalogue")
    if name in catalogue.places.ALIASES["math"]:
        return getattr(_import("gtape.math"), name)
    found = catalogue.find(name)
    if found is None:
        raise catalogue.unknown("gtape", name, {*__dir__(), *catalogue.names_in()})
    return found


def _star() -> list[str]:
    """The names of `from gtape import *`. Names of Python's builtins and names that load SymPy are left out."""
    import builtins

    return [n for n in __dir__() if not hasattr(builtins, n) and n not in ("symbolic", "verify", "__version__")]


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return _star()
    if name.startswith("__"):  # Python looks for such names on every module, for example __wrapped__
        raise AttributeError(f"module 'gtape' has no attribute {name!r}")
    value = globals()[name] = _find(name)
    return value


def __dir__() -> list[str]:
    from gtape import dtypes
    from gtape.namespaces.catalogue import listed

    elsewhere = {*_HOME_OF, *_NAMESPACES, *_FROM_KERAS, *_INITIALIZERS, *_PLAIN}
    return listed(None, {*elsewhere, *dtypes.__all__})
