"""MyGrad: reverse mode of first order, and its names."""

from __future__ import annotations

from gtape.verify.peers.libraries import Library

__all__ = ["LIBRARY"]

_DEFINITIONS = {
    "lift": "def lift(a):\n    return np.array(a)\n",
    "lower": "def lower(t):\n    return np.asarray(t)\n",
    "weigh": (
        "def weigh(f):\n"
        "    def weighed(*a):\n"
        "        y = f(*a)\n"
        "        return mg.sum(y * np.arange(1.0, y.size + 1).reshape(y.shape))\n"
        "    return weighed\n"
    ),
    "reverse": (
        "def reverse(f, i=0):\n"
        "    def derivative(*a):\n"
        "        x = mg.tensor(a[i])\n"
        "        mg.sum(f(*a[:i], x, *a[i + 1 :])).backward()\n"
        "        return np.zeros_like(a[i]) if x.grad is None else x.grad\n"
        "    return derivative\n"
    ),
}

_N = "mygrad.nnet.activations."

_FUNCTIONS = {
    **{
        name: f"mg.{theirs}(x)"
        for name, theirs in {
            "sin": "sin", "cos": "cos", "tan": "tan", "asin": "arcsin", "acos": "arccos", "atan": "arctan",
            "sinc": "sinc", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "asinh": "arcsinh", "acosh": "arccosh",
            "atanh": "arctanh", "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2",
            "log10": "log10", "log1p": "log1p", "square": "square", "sqrt": "sqrt", "cbrt": "cbrt",
            "reciprocal": "reciprocal", "abs": "abs",
        }.items()
    },
    "add": "mg.add(x, y)",
    "subtract": "mg.subtract(x, y)",
    "multiply": "mg.multiply(x, y)",
    "divide": "mg.divide(x, y)",
    "pow": "mg.power(x, y)",
    "cube": "mg.power(x, 3)",
    "power_0": "mg.power(x, 0)",
    "logaddexp": "mg.logaddexp(x, y)",
    "logaddexp2": "mg.logaddexp2(x, y)",
    "atan2": "mg.arctan2(x, y)",
    "maximum": "mg.maximum(x, y)",
    "minimum": "mg.minimum(x, y)",
    "sigmoid": f"{_N}sigmoid(x)",
    "relu": f"{_N}relu(x)",
    "elu": f"{_N}elu(x, 1.0)",
    "selu": f"{_N}selu(x)",
    "leaky_relu": f"{_N}leaky_relu(x, 0.2)",
    "hard_tanh": f"{_N}hard_tanh(x)",
    "softsign": f"{_N}soft_sign(x)",
}  # fmt: skip

_ARRAYS = {
    "prod": "mg.prod(x)",
    "cumprod": "mg.cumprod(x)",
    "cumsum": "mg.cumsum(x)",
    "sum": "mg.sum(x)",
    "mean": "mg.mean(x)",
    "variance": "mg.var(x)",
    "std": "mg.std(x)",
    "norm": "mg.linalg.norm(x)",
    "max": "mg.max(x)",
    "min": "mg.min(x)",
    "softmax": f"{_N}softmax(x)",
    "log_softmax": f"{_N}logsoftmax(x)",
    "where_log": "mg.where(x > 1, mg.log(x), x - 1)",
    "where_exp": "mg.where(x > 0, 1 + x, mg.exp(x))",
    "unused_quotient": "(x / np.array([1.0, 0.0, 2.0]))[0]",
    "unused_root": "mg.sqrt(x)[0]",
    "powers": "x ** np.array([1.0, 0.0, 2.0])",
    "norm_inside": "(1 + mg.linalg.norm(x) ** 2) ** -0.5",
    "where_sqrt": "mg.where(x > 1, mg.sqrt(x - 1), x)",
    "matmul": "mg.matmul(x, y)",
}

LIBRARY = Library(
    name="mygrad",
    module="mygrad",
    imports="import numpy as np\nimport mygrad as mg\nimport mygrad.nnet.activations\n",
    definitions=_DEFINITIONS,
    modes=(("reverse",),),
    array_modes=(("reverse",),),
    functions=_FUNCTIONS,
    arrays=_ARRAYS,
    calls={},
    tensor="np.array({values}, dtype=np.{dtype})",
    versions={"mygrad": "mg.__version__"},
)
