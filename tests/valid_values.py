"""Arguments that calls expect, for `fuzzing.py`: by the names of parameters, and ways to make an object of each class.

All are pieces of source, because a call is printed with its arguments. `PLACE` has the names that they use.
"""

from __future__ import annotations

import copy  # noqa: F401 - the pieces of source use it, as they do math and pickle
import inspect
import math  # noqa: F401
import operator
import pickle  # noqa: F401
from typing import Any

import numpy as np
import wrong_values
from wrong_values import OwnError

import gtape as tf

BY_NAME: list[tuple[str, list[str]]] = [
    (r"axis|axes|dim|batch_dims|k|num.*|size|rank|n|depth|ord|order|offset|index|i|j", ["0", "1", "-1", "None", "2"]),
    (r"shape|.*_shape|dims|size|begin|multiples|ksize|strides|.*size|perm|shift", ["[2, 2]", "[2]", "1", "[0, 1]"]),
    (r".*dtype|out_type|Tout|tf_type", ["tf.float32", "tf.float64", "tf.int32", "'float32'", "None"]),
    (r"name|message|mode|padding|reduction|method|direction|data_format", ["None", "'x'", "'SAME'", "'VALID'"]),
    (r"keepdims|.*_a|.*_b|exclusive|reverse|trainable|stable|training|persistent|.*only", ["True", "False"]),
    (r"indices|ids|.*_ids|labels|index", ["tf.constant([0, 1])", "[0]", "tf.constant(1)", "tf.constant([[0, 1]])"]),
    (r"f|fn|func|function|.*_fn|body|cond|python_function", ["lambda x: x * x", "user_function", "tf.sin"]),
    (r"seed", ["1", "[1, 2]", "None"]),
    (r"key|item|slice_spec", ["0", "slice(None)", "...", "(0, 0)", "None"]),
    (r".*", [
        "tf.constant([1.0, 2.0])", "tf.constant([[1.0, 2.0], [3.0, 4.0]])", "tf.constant(0.5)", "tf.ones([2, 2, 2, 2])",
        "tf.Variable([1.0, 2.0])", "1.0", "tf.constant([1, 2])", "[1.0, 2.0]", "tf.constant([True, False])",
    ]),
]  # fmt: skip

# How an instance is made where the example of a method shows none.
MAKERS = {
    "Tensor": ["tf.constant([1.0, 2.0])", "tf.constant(1)", "tf.constant('a')", "tf.ones([2, 2])"],
    "Variable": ["tf.Variable([1.0, 2.0])", "tf.Variable(1)", "tf.Variable([[1.0, 2.0], [3.0, 4.0]])"],
    "IndexedSlices": ["tf.IndexedSlices(tf.ones([1, 2]), tf.constant([0]), tf.constant([2, 2]))"],
    "TensorArray": ["tf.TensorArray(tf.float32, 2)", "tf.TensorArray(tf.float32, 0, dynamic_size=True)"],
    "TensorShape": ["tf.TensorShape([2, 3])", "tf.TensorShape([None, 2])", "tf.TensorShape(None)"],
    "TensorSpec": ["tf.TensorSpec([2], tf.float32)"],
    "GradientTape": ["tf.GradientTape()", "tf.GradientTape(persistent=True)"],
    "DType": ["tf.float32", "tf.string"],
    "Module": ["tf.Module()"],
    "Generator": ["tf.random.Generator.from_seed(1)"],
    "ForwardAccumulator": ["tf.autodiff.ForwardAccumulator(tf.constant(1.0), tf.constant(1.0))"],
    "Function": ["tf.function(lambda x: x * 2.0)", "tf.function(lambda x: x, input_signature=[tf.TensorSpec([2])])"],
    "ConcreteFunction": ["tf.function(lambda x: x * 2.0).get_concrete_function(tf.TensorSpec([2]))"],
    "Dataset": ["tf.data.Dataset.range(3)", "tf.data.Dataset.from_tensor_slices([1.0, 2.0])"],
    "Program": ["tf.symbolic.trace(lambda x: x * x, 2.0)"],
    "Report": ["tf.verify.check(lambda x: x * x, 2.0)"],
    "Proof": ["tf.verify.prove('sin')"],
    "name_scope": ["tf.name_scope('a')"],
    "KerasTensor": ["tf.keras.Input([2])", "tf.keras.KerasTensor([None, 2])"],
    "Optimizer": ["tf.keras.optimizers.SGD(0.5)", "tf.keras.optimizers.Adam()"],
    "Finding": ["tf.verify.Finding('correct')", "tf.verify.check(lambda x: abs(x), 0.0).findings[0]"],
    "LogicalDevice": ["tf.config.LogicalDevice('a', 'CPU')"],
    "PhysicalDevice": ["tf.config.PhysicalDevice('a', 'CPU')"],
}
OPERATORS = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor", "lt", "le", "gt", "ge",
    "eq", "ne", "getitem", "contains", "iadd", "lshift",
)  # fmt: skip
UNARY = (
    "operator.neg", "operator.pos", "operator.invert", "abs", "float", "int", "complex", "bool", "len", "list", "hash",
    "repr", "str", "round", "operator.index", "copy.copy", "copy.deepcopy", "pickle.dumps", "np.asarray", "np.array",
    "math.floor", "dir", "reversed", "iter", "next", "vars_of",
)  # fmt: skip
OF_NUMPY = (
    "add", "multiply", "matmul", "power", "sin", "sum", "mean", "reshape", "concatenate", "stack", "where", "take",
    "clip", "transpose", "swapaxes", "moveaxis", "split", "array_split", "roll", "tile", "repeat", "pad", "einsum",
    "tensordot", "dot", "cross", "kron", "sort", "argsort", "cumsum", "prod", "max", "argmax", "squeeze",
    "expand_dims", "broadcast_to", "diag", "trace", "linalg.norm", "linalg.inv", "linalg.solve", "linalg.matrix_power",
    "take_along_axis", "compress", "select", "searchsorted", "meshgrid", "rot90", "flip", "append", "isclose",
    "allclose", "array_equal", "var", "std", "linalg.svd", "linalg.qr", "hypot", "zeros_like", "full_like", "hsplit",
)  # fmt: skip


def counted(function: Any, most: int = 50) -> Any:
    """The function, of which no more than so many calls succeed; what is no function, as it is."""
    if not callable(function):
        return function
    calls = iter(range(most))

    def body(*args: Any, **kwargs: Any) -> Any:
        if next(calls, None) is None:
            raise OwnError(f"called more than {most} times")
        return function(*args, **kwargs)

    return body


def loop(*args: Any, **words: Any) -> Any:
    """`tf.while_loop` with functions that end it, because it is endless where the condition is."""
    return tf.while_loop(*map(counted, args), **{k: counted(v) for k, v in words.items()})


def small(path: str, *args: Any, **words: Any) -> Any:
    """A census with one op and few points where it would have more: it takes as long as it is told to."""
    function = operator.attrgetter(path)(tf)
    try:
        bound = inspect.signature(function).bind(*args, **words)
    except TypeError:
        return function(*args, **words)
    for name, few in (("names", ["exp"]), ("points", 20), ("processes", 1)):
        if name in bound.signature.parameters:
            value = bound.arguments.get(name)
            if value is None or (few != ["exp"] and isinstance(value, (int, np.integer)) and value > few):
                bound.arguments[name] = few
    return function(*bound.args, **bound.kwargs)


# What stands for a function that may take for ever.
BOUNDED = {
    "tf.while_loop": "loop",
    **{f"tf.verify.census.{n}": f"__import__('functools').partial(small, 'verify.census.{n}')"
       for n in ("census", "search", "survey")},
}  # fmt: skip


def vars_of(x: Any) -> Any:
    return {n: getattr(x, n, None) for n in dir(x) if not n.startswith("__")}


PLACE = vars(wrong_values) | {name: value for name, value in globals().items() if not name.startswith("_")}
