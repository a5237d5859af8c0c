"""autograd: its modes of differentiation and its names."""

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
        "        return np.sum(y * np.reshape(np.arange(1.0, np.size(y) + 1), np.shape(y)))\n"
        "    return weighed\n"
    ),
    "reverse": "def reverse(f, i=0):\n    return autograd.elementwise_grad(f, i)\n",
    "forward": ("def forward(f, i=0):\n    return lambda *a: autograd.make_jvp(f, i)(*a)(np.ones_like(a[i]))[1]\n"),
    "rows": "def rows(f, i=0):\n    return autograd.jacobian(f, i)\n",
}

_S = "autograd.scipy.special."

_FUNCTIONS = {
    "add": "x + y",
    "subtract": "x - y",
    "multiply": "x * y",
    "divide": "x / y",
    "pow": "np.power(x, y)",
    "cube": "x ** 3",
    "fourth_power": "x ** 4.0",
    "power_minus_3": "x ** -3.0",
    "power_0": "x ** 0",
    "power_1": "x ** 1.0",
    "exponential_of_2": "2.0 ** x",
    "logaddexp": "np.logaddexp(x, y)",
    "logaddexp2": "np.logaddexp2(x, y)",
    "atan2": "np.arctan2(x, y)",
    "hypot": "np.hypot(x, y)",
    "maximum": "np.maximum(x, y)",
    "minimum": "np.minimum(x, y)",
    "sin": "np.sin(x)",
    "cos": "np.cos(x)",
    "tan": "np.tan(x)",
    "asin": "np.arcsin(x)",
    "acos": "np.arccos(x)",
    "atan": "np.arctan(x)",
    "sinc": "np.sinc(x)",
    "sinh": "np.sinh(x)",
    "cosh": "np.cosh(x)",
    "tanh": "np.tanh(x)",
    "asinh": "np.arcsinh(x)",
    "acosh": "np.arccosh(x)",
    "atanh": "np.arctanh(x)",
    "exp": "np.exp(x)",
    "exp2": "np.exp2(x)",
    "expm1": "np.expm1(x)",
    "log": "np.log(x)",
    "log2": "np.log2(x)",
    "log10": "np.log10(x)",
    "log1p": "np.log1p(x)",
    "square": "np.square(x)",
    "sqrt": "np.sqrt(x)",
    "reciprocal": "np.reciprocal(x)",
    "abs": "np.abs(x)",
    "radians": "np.deg2rad(x)",
    "sigmoid": f"{_S}expit(x)",
    "logit": f"{_S}logit(x)",
    "erf": f"{_S}erf(x)",
    "erfc": f"{_S}erfc(x)",
    "erfinv": f"{_S}erfinv(x)",
    "lgamma": f"{_S}gammaln(x)",
    "digamma": f"{_S}psi(x)",
    "gamma": f"{_S}gamma(x)",
    "betaln": f"{_S}betaln(x, y)",
    "bessel_i0": f"{_S}i0(x)",
    "bessel_i1": f"{_S}i1(x)",
    "bessel_j0": f"{_S}j0(x)",
    "bessel_j1": f"{_S}j1(x)",
    "bessel_y0": f"{_S}y0(x)",
    "bessel_y1": f"{_S}y1(x)",
    "normal_logpdf": "autograd.scipy.stats.norm.logpdf(x)",
}

_L = "np.linalg."

_ARRAYS = {
    "prod": "np.prod(x)",
    "cumsum": "np.cumsum(x)",
    "sum": "np.sum(x)",
    "mean": "np.mean(x)",
    "variance": "np.var(x)",
    "std": "np.std(x)",
    "norm": f"{_L}norm(x)",
    "norm_squared": f"{_L}norm(x) ** 2",
    "norm_3": f"{_L}norm(x, 3)",
    "max": "np.max(x)",
    "min": "np.min(x)",
    "median_sorted": "np.sort(x)",
    "logsumexp": f"{_S}logsumexp(x)",
    "where_log": "np.where(x > 1, np.log(x), x - 1)",
    "where_exp": "np.where(x > 0, 1 + x, np.exp(x))",
    "unused_quotient": "(x / np.array([1.0, 0.0, 2.0]))[0]",
    "unused_root": "np.sqrt(x)[0]",
    "powers": "x ** np.array([1.0, 0.0, 2.0])",
    "norm_inside": "(1 + np.linalg.norm(x) ** 2) ** -0.5",
    "where_sqrt": "np.where(x > 1, np.sqrt(x - 1), x)",
    "matmul": "np.matmul(x, y)",
    "dot": "np.dot(x, y)",
    "outer": "np.outer(x, y)",
    "cross": "np.cross(x, y)",
    "trace": "np.trace(x)",
    "det": f"{_L}det(x)",
    "logabsdet": f"{_L}slogdet(x)[1]",
    "inverse": f"{_L}inv(x)",
    "solve": f"{_L}solve(x, y)",
    "cholesky": f"{_L}cholesky(x + x.T)",
    "eigenvalues": f"{_L}eigh(x + x.T)[0]",
    "sum_of_squared_eigenvalues": f"np.sum({_L}eigh(x + x.T)[0] ** 2)",
    "projector": f"(lambda v: np.dot(v, v.T))({_L}eigh(x + x.T)[1][:, 1:])",
    "squared_singular_values": f"np.sum({_L}svd(x, compute_uv=False) ** 2)",
    "nuclear_norm": f"np.sum({_L}svd(x, compute_uv=False))",
    "svd_product": f"(lambda u, s, vh: np.dot(u * s, vh))(*{_L}svd(x, full_matrices=False))",
    "pinv": f"{_L}pinv(x)",
    "kronecker": "np.kron(x, y)",
}

LIBRARY = Library(
    name="autograd",
    module="autograd",
    imports=(
        "import autograd\nimport autograd.numpy as np\nimport autograd.scipy.special\nimport autograd.scipy.stats\n"
    ),
    definitions=_DEFINITIONS,
    modes=(
        ("reverse",), ("forward",),
        ("reverse", "reverse"), ("forward", "reverse"), ("reverse", "forward"), ("forward", "forward"),
    ),
    array_modes=(("rows",), ("rows", "rows")),
    functions=_FUNCTIONS,
    arrays=_ARRAYS,
    calls={},
    tensor="np.array({values}, dtype=np.{dtype})",
    versions={"autograd": "__import__('importlib.metadata').metadata.version('autograd')", "numpy": "np.__version__"},
    refusals=("not implemented", "JVP of", "VJP of"),
)  # fmt: skip
