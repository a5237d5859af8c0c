"""TensorFlow: its modes of differentiation and its names."""

from __future__ import annotations

from gtape.verify.peers.libraries import Library

__all__ = ["LIBRARY"]

# TensorFlow returns None, not a number, if it has no derivative.
_DEFINITIONS = {
    "lift": "def lift(a):\n    return tf.constant(a)\n",
    "lower": "def lower(t):\n    return np.asarray(t)\n",
    "weigh": (
        "def weigh(f):\n"
        "    def weighed(*a):\n"
        "        y = f(*a)\n"
        "        return tf.reduce_sum(y * tf.reshape(tf.range(1, tf.size(y) + 1, dtype=y.dtype), tf.shape(y)))\n"
        "    return weighed\n"
    ),
    "reverse": (
        "def reverse(f, i=0):\n"
        "    def derivative(*a):\n"
        "        with tf.GradientTape() as tape:\n"
        "            tape.watch(a[i])\n"
        "            y = f(*a)\n"
        "        g = tape.gradient(y, a[i])\n"
        "        if g is None:\n"
        "            raise LookupError('TensorFlow returns None')\n"
        "        return tf.convert_to_tensor(g)\n"
        "    return derivative\n"
    ),
    "forward": (
        "def forward(f, i=0):\n"
        "    def derivative(*a):\n"
        "        with tf.autodiff.ForwardAccumulator(a[i], tf.ones_like(a[i])) as accumulator:\n"
        "            y = f(*a)\n"
        "        t = accumulator.jvp(y)\n"
        "        if t is None:\n"
        "            raise LookupError('TensorFlow returns None')\n"
        "        return t\n"
        "    return derivative\n"
    ),
    "jacobian": (
        "def jacobian(f, i=0):\n"
        "    def derivative(*a):\n"
        "        with tf.GradientTape() as tape:\n"
        "            tape.watch(a[i])\n"
        "            y = f(*a)\n"
        "        return tf.linalg.diag_part(tape.jacobian(y, a[i]))\n"
        "    return derivative\n"
    ),
    "rows": (
        "def rows(f, i=0):\n"
        "    def derivative(*a):\n"
        "        with tf.GradientTape() as tape:\n"
        "            tape.watch(a[i])\n"
        "            y = f(*a)\n"
        "        j = tape.jacobian(y, a[i])\n"
        "        if j is None:\n"
        "            raise LookupError('TensorFlow returns None')\n"
        "        return j\n"
        "    return derivative\n"
    ),
    "columns": (
        "def columns(f, i=0):\n"
        "    def derivative(*a):\n"
        "        found = []\n"
        "        for k in range(a[i].shape.num_elements()):\n"
        "            e = tf.reshape(tf.one_hot(k, a[i].shape.num_elements(), dtype=a[i].dtype), a[i].shape)\n"
        "            with tf.autodiff.ForwardAccumulator(a[i], e) as accumulator:\n"
        "                y = f(*a)\n"
        "            t = accumulator.jvp(y)\n"
        "            if t is None:\n"
        "                raise LookupError('TensorFlow returns None')\n"
        "            found.append(t)\n"
        "        return tf.reshape(tf.stack(found, -1), tuple(y.shape) + tuple(a[i].shape))\n"
        "    return derivative\n"
    ),
}

_HELPERS = {
    "fourth_power": (
        "@tf.custom_gradient\ndef fourth_power(x):\n    return x * x * x * x, lambda g: g * 4 * x * x * x\n"
    ),
}

_M, _N, _S = "tf.math.", "tf.nn.", "tf.math.special."

_FUNCTIONS = {
    "sigmoid": "tf.sigmoid(x)",
    "softplus": f"{_N}softplus(x)",
    "log_sigmoid": f"{_M}log_sigmoid(x)",
    "softsign": f"{_N}softsign(x)",
    "elu": f"{_N}elu(x)",
    "selu": f"{_N}selu(x)",
    "silu": f"{_N}silu(x)",
    "mish": "tf.keras.activations.mish(x)",
    "gelu": f"{_N}gelu(x)",
    "gelu_tanh": f"{_N}gelu(x, approximate=True)",
    "relu": f"{_N}relu(x)",
    "relu6": f"{_N}relu6(x)",
    "leaky_relu": f"{_N}leaky_relu(x)",
    "hard_tanh": "tf.clip_by_value(x, -1.0, 1.0)",
    "add": "x + y",
    "subtract": "x - y",
    "multiply": "x * y",
    "divide": "x / y",
    "negative": "-x",
    "squared_difference": f"{_M}squared_difference(x, y)",
    "multiply_no_nan": f"{_M}multiply_no_nan(x, y)",
    "divide_no_nan": f"{_M}divide_no_nan(x, y)",
    "xdivy": f"{_M}xdivy(x, y)",
    "xlogy": f"{_M}xlogy(x, y)",
    "xlog1py": f"{_M}xlog1py(x, y)",
    "atan2": f"{_M}atan2(x, y)",
    "pow": "tf.pow(x, y)",
    "cube": "tf.pow(x, 3.0)",
    "fourth_power": "x ** 4.0",
    "power_minus_3": "tf.pow(x, -3.0)",
    "power_1_5": "tf.pow(x, 1.5)",
    "power_0": "tf.pow(x, 0.0)",
    "power_1": "tf.pow(x, 1.0)",
    "sum_of_powers": "sum(x ** k for k in range(1, 11))",
    "power_of_0": "tf.constant(0.0, x.dtype) ** x",
    "cube_of_sine": "(lambda s: s * s * s)(tf.sin(x))",
    "custom_fourth_power": "fourth_power(x)",
    "exponential_of_2": "2.0 ** x",
    "exponential_of_half": "0.5 ** x",
    "maximum": "tf.maximum(x, y)",
    "minimum": "tf.minimum(x, y)",
    "floormod": f"{_M}floormod(x, y)",
    "sin": "tf.sin(x)",
    "cos": "tf.cos(x)",
    "tan": "tf.tan(x)",
    "asin": "tf.asin(x)",
    "acos": "tf.acos(x)",
    "atan": "tf.atan(x)",
    "sinc": "tf.experimental.numpy.sinc(x)",
    "sinh": "tf.sinh(x)",
    "cosh": "tf.cosh(x)",
    "tanh": "tf.tanh(x)",
    "asinh": "tf.asinh(x)",
    "acosh": "tf.acosh(x)",
    "atanh": "tf.atanh(x)",
    "exp": "tf.exp(x)",
    "exp2": "tf.experimental.numpy.exp2(x)",
    "expm1": f"{_M}expm1(x)",
    "log": f"{_M}log(x)",
    "log2": "tf.experimental.numpy.log2(x)",
    "log10": "tf.experimental.numpy.log10(x)",
    "log1p": f"{_M}log1p(x)",
    "logaddexp": "tf.experimental.numpy.logaddexp(x, y)",
    "logaddexp2": "tf.experimental.numpy.logaddexp2(x, y)",
    "hypot": "tf.experimental.numpy.hypot(x, y)",
    "cbrt": "tf.experimental.numpy.cbrt(x)",
    "square": "tf.square(x)",
    "sqrt": "tf.sqrt(x)",
    "rsqrt": f"{_M}rsqrt(x)",
    "reciprocal": f"{_M}reciprocal(x)",
    "reciprocal_no_nan": f"{_M}reciprocal_no_nan(x)",
    "abs": "tf.abs(x)",
    "erf": f"{_M}erf(x)",
    "erfc": f"{_M}erfc(x)",
    "erfinv": f"{_M}erfinv(x)",
    "erfcinv": f"{_M}erfcinv(x)",
    "ndtri": f"{_M}ndtri(x)",
    "lgamma": f"{_M}lgamma(x)",
    "digamma": f"{_M}digamma(x)",
    "trigamma": f"{_M}polygamma(tf.ones_like(x), x)",
    "tetragamma": f"{_M}polygamma(2.0 * tf.ones_like(x), x)",
    "zeta": f"{_M}zeta(x, y)",
    "igamma": f"{_M}igamma(x, y)",
    "igammac": f"{_M}igammac(x, y)",
    "betainc": f"{_M}betainc(x, y, z)",
    "betaln": f"{_M}lbeta(tf.stack([x, y], -1))",
    "bessel_i0": f"{_S}bessel_i0(x)",
    "bessel_i0e": f"{_S}bessel_i0e(x)",
    "bessel_i1": f"{_S}bessel_i1(x)",
    "bessel_i1e": f"{_S}bessel_i1e(x)",
    "bessel_j0": f"{_S}bessel_j0(x)",
    "bessel_j1": f"{_S}bessel_j1(x)",
    "bessel_y0": f"{_S}bessel_y0(x)",
    "bessel_y1": f"{_S}bessel_y1(x)",
    "bessel_k0": f"{_S}bessel_k0(x)",
    "bessel_k0e": f"{_S}bessel_k0e(x)",
    "bessel_k1": f"{_S}bessel_k1(x)",
    "bessel_k1e": f"{_S}bessel_k1e(x)",
    "dawsn": f"{_S}dawsn(x)",
    "expint": f"{_S}expint(x)",
    "fresnel_sin": f"{_S}fresnel_sin(x)",
    "fresnel_cos": f"{_S}fresnel_cos(x)",
    "spence": f"{_S}spence(x)",
}

_L = "tf.linalg."
_MASK = "tf.where([True, False, True], x, tf.constant(-np.inf, x.dtype))"

_ARRAYS = {
    "prod": "tf.reduce_prod(x)",
    "prod_axis": "tf.reduce_prod(x, axis=0)",
    "cumprod": f"{_M}cumprod(x)",
    "cumsum": f"{_M}cumsum(x)",
    "logcumsumexp": f"{_M}cumulative_logsumexp(x)",
    "sum": "tf.reduce_sum(x)",
    "mean": "tf.reduce_mean(x)",
    "variance": f"{_M}reduce_variance(x)",
    "std": f"{_M}reduce_std(x)",
    "norm": "tf.norm(x)",
    "norm_squared": "tf.norm(x) ** 2",
    "norm_1": "tf.norm(x, ord=1)",
    "norm_3": "tf.norm(x, ord=3)",
    "norm_half": "tf.norm(x, ord=0.5)",
    "norm_inf": "tf.norm(x, ord=np.inf)",
    "max": "tf.reduce_max(x)",
    "min": "tf.reduce_min(x)",
    "median_sorted": "tf.sort(x)",
    "logsumexp": "tf.reduce_logsumexp(x)",
    "softmax": f"{_N}softmax(x)",
    "log_softmax": f"{_N}log_softmax(x)",
    "normalize": f"{_L}normalize(x)[0]",
    "cross_entropy": f"{_N}softmax_cross_entropy_with_logits(tf.constant([1.0, 0.0, 0.0], x.dtype), x)",
    "masked_logsumexp": f"tf.reduce_logsumexp({_MASK})",
    "masked_softmax": f"{_N}softmax({_MASK})",
    "masked_log_softmax": f"tf.gather({_N}log_softmax({_MASK}), [0, 2])",
    "where_log": "tf.where(x > 1, tf.math.log(x), x - 1)",
    "where_exp": "tf.where(x > 0, 1 + x, tf.exp(x))",
    "where_sqrt": "tf.where(x > 1, tf.sqrt(x - 1), x)",
    "where_divide": "tf.where(x == 0, x, 1 / x)",
    "unused_quotient": "(x / tf.constant([1, 0, 2], x.dtype))[0]",
    "unused_root": "tf.sqrt(x)[0]",
    "powers": "tf.pow(x, tf.constant([1, 0, 2], x.dtype))",
    "norm_inside": "(1 + tf.norm(x) ** 2) ** -0.5",
    "matmul": "x @ y",
    "dot": "tf.tensordot(x, y, 1)",
    "outer": "x[:, None] * y[None, :]",
    "cross": f"{_L}cross(x, y)",
    "trace": f"{_L}trace(x)",
    "det": f"{_L}det(x)",
    "logabsdet": f"{_L}slogdet(x)[1]",
    "inverse": f"{_L}inv(x)",
    "solve": f"{_L}solve(x, y)",
    "solve_triangular": f"{_L}triangular_solve(x, y)",
    "cholesky": f"{_L}cholesky(x + {_L}matrix_transpose(x))",
    "cholesky_solve": f"{_L}cholesky_solve({_L}band_part(x, -1, 0), y)",
    "eigenvalues": f"{_L}eigvalsh(x + {_L}matrix_transpose(x))",
    "sum_of_squared_eigenvalues": f"tf.reduce_sum({_L}eigvalsh(x + {_L}matrix_transpose(x)) ** 2)",
    "projector": f"(lambda v: v @ {_L}matrix_transpose(v))({_L}eigh(x + {_L}matrix_transpose(x))[1][:, 1:])",
    "singular_values": f"{_L}svd(x, compute_uv=False)",
    "squared_singular_values": f"tf.reduce_sum({_L}svd(x, compute_uv=False) ** 2)",
    "nuclear_norm": f"tf.reduce_sum({_L}svd(x, compute_uv=False))",
    "frobenius_norm": "tf.norm(x, ord='fro', axis=(0, 1))",
    "svd_product": f"(lambda s, u, v: tf.matmul(u * s, v, transpose_b=True))(*{_L}svd(x))",
    "leading_part": f"(lambda s, u, v: tf.matmul(s[0] * u[:, :1], v[:, :1], transpose_b=True))(*{_L}svd(x))",
    "qr_product": f"(lambda q, r: q @ r)(*{_L}qr(x))",
    "pinv": f"{_L}pinv(x)",
    "expm": f"{_L}expm(x)",
    "matrix_square": "x @ x",
    "conv1d": f"{_N}conv1d(x[None, :, None], y[:, None, None], 1, 'VALID')[0, :, 0]",
    "conv1d_transpose": (
        f"{_N}conv1d_transpose(x[None, :, None], y[:, None, None], [1, 2 * x.shape[0], 1], 2, 'VALID')[0, :, 0]"
    ),
    "max_pool": f"{_N}max_pool1d(x[None, :, None], 2, 1, 'VALID')[0, :, 0]",
    "avg_pool": f"{_N}avg_pool1d(x[None, :, None], 2, 1, 'VALID')[0, :, 0]",
}

LIBRARY = Library(
    name="tensorflow",
    module="tensorflow",
    imports="import numpy as np\nimport tensorflow as tf\n",
    definitions=_DEFINITIONS,
    modes=(
        ("reverse",), ("forward",),
        ("reverse", "reverse"), ("forward", "reverse"), ("reverse", "forward"), ("forward", "forward"),
    ),
    array_modes=(
        ("rows",), ("columns",),
        ("rows", "rows"), ("columns", "rows"), ("rows", "columns"), ("columns", "columns"),
    ),
    functions=_FUNCTIONS,
    arrays=_ARRAYS,
    calls={"*": "tf."},
    tensor="tf.constant({values}, dtype=tf.{dtype})",
    versions={"tensorflow": "tf.__version__"},
    refusals=(
        "gradient registry has no entry", "No gradient defined", "not implemented", "has no gradient", "returns None",
    ),
    helpers=_HELPERS,
    documented=dict.fromkeys(
        ("where_exp", "where_log", "where_sqrt", "where_divide"),
        ("", "https://www.tensorflow.org/api_docs/python/tf/where"),
    ),
)  # fmt: skip
