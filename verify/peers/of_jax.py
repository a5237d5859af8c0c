"""JAX: its modes of differentiation and its names."""

from __future__ import annotations

from gtape.verify.peers.libraries import Library

__all__ = ["LIBRARY"]

_DEFINITIONS = {
    "lift": "def lift(a):\n    return jnp.asarray(a)\n",
    "lower": "def lower(t):\n    return np.asarray(t)\n",
    "weigh": (
        "def weigh(f):\n"
        "    def weighed(*a):\n"
        "        y = f(*a)\n"
        "        return (y * jnp.arange(1, y.size + 1, dtype=y.dtype).reshape(y.shape)).sum()\n"
        "    return weighed\n"
    ),
    "reverse": "def reverse(f, i=0):\n    return jax.grad(lambda *a: f(*a).sum(), argnums=i)\n",
    "forward": (
        "def forward(f, i=0):\n"
        "    def derivative(*a):\n"
        "        one = jnp.ones_like(a[i])\n"
        "        return jax.jvp(lambda x: f(*a[:i], x, *a[i + 1 :]), (a[i],), (one,))[1]\n"
        "    return derivative\n"
    ),
    "batched": "def batched(f):\n    return jax.vmap(f)\n",
    "jacobian": "def jacobian(f, i=0):\n    return lambda *a: jnp.diagonal(jax.jacrev(f, argnums=i)(*a))\n",
    "rows": "def rows(f, i=0):\n    return jax.jacrev(f, argnums=i)\n",
    "columns": "def columns(f, i=0):\n    return jax.jacfwd(f, argnums=i)\n",
}

_HELPERS = {
    "fourth_power_by_jvp": (
        "@jax.custom_jvp\n"
        "def fourth_power_by_jvp(x):\n"
        "    return x * x * x * x\n\n\n"
        "@fourth_power_by_jvp.defjvp\n"
        "def _(primals, tangents):\n"
        "    (x,), (t,) = primals, tangents\n"
        "    return fourth_power_by_jvp(x), t * 4 * x * x * x\n"
    ),
    "fourth_power_by_vjp": (
        "@jax.custom_vjp\n"
        "def fourth_power_by_vjp(x):\n"
        "    return x * x * x * x\n\n\n"
        "fourth_power_by_vjp.defvjp(lambda x: (x * x * x * x, x), lambda x, g: (g * 4 * x * x * x,))\n"
    ),
}

_N, _S = "jax.nn.", "jax.scipy.special."

_FUNCTIONS = {
    "sigmoid": (f"{_N}sigmoid(x)", f"{_S}expit(x)"),
    "softplus": f"{_N}softplus(x)",
    "log_sigmoid": f"{_N}log_sigmoid(x)",
    "softsign": f"{_N}soft_sign(x)",
    "elu": f"{_N}elu(x)",
    "selu": f"{_N}selu(x)",
    "celu": f"{_N}celu(x, 2.0)",
    "silu": f"{_N}silu(x)",
    "mish": f"{_N}mish(x)",
    "gelu": f"{_N}gelu(x, approximate=False)",
    "gelu_tanh": f"{_N}gelu(x, approximate=True)",
    "relu": f"{_N}relu(x)",
    "relu6": f"{_N}relu6(x)",
    "leaky_relu": f"{_N}leaky_relu(x, 0.2)",
    "hard_tanh": (f"{_N}hard_tanh(x)", "jnp.clip(x, -1.0, 1.0)"),
    "hard_swish": f"{_N}hard_swish(x)",
    "square_plus": f"{_N}squareplus(x)",
    "sparse_plus": f"{_N}sparse_plus(x)",
    "add": "x + y",
    "subtract": "x - y",
    "multiply": "x * y",
    "divide": "x / y",
    "xlogy": f"{_S}xlogy(x, y)",
    "xlog1py": f"{_S}xlog1py(x, y)",
    "logaddexp": "jnp.logaddexp(x, y)",
    "logaddexp2": "jnp.logaddexp2(x, y)",
    "atan2": "jnp.arctan2(x, y)",
    "hypot": "jnp.hypot(x, y)",
    "pow": ("jnp.power(x, y)", "jnp.float_power(x, y)"),
    "cube": "x ** 3",
    "fourth_power": "x ** 4.0",
    "power_minus_3": "x ** -3",
    "power_1_5": "x ** 1.5",
    "power_0": "x ** 0",
    "power_1": "x ** 1.0",
    "sum_of_powers": "sum(x ** k for k in range(1, 11))",
    "power_of_0": "0.0 ** x",
    "cube_of_sine": "(lambda s: s * s * s)(jnp.sin(x))",
    "custom_fourth_power": ("fourth_power_by_jvp(x)", "fourth_power_by_vjp(x)"),
    "exponential_of_2": "2.0 ** x",
    "exponential_of_half": "0.5 ** x",
    "maximum": ("jnp.maximum(x, y)", "jnp.fmax(x, y)"),
    "minimum": ("jnp.minimum(x, y)", "jnp.fmin(x, y)"),
    "floormod": "jnp.remainder(x, y)",
    "truncatemod": "jnp.fmod(x, y)",
    "sin": "jnp.sin(x)",
    "cos": "jnp.cos(x)",
    "tan": "jnp.tan(x)",
    "asin": "jnp.arcsin(x)",
    "acos": "jnp.arccos(x)",
    "atan": "jnp.arctan(x)",
    "sinc": "jnp.sinc(x)",
    "sinh": "jnp.sinh(x)",
    "cosh": "jnp.cosh(x)",
    "tanh": "jnp.tanh(x)",
    "asinh": "jnp.arcsinh(x)",
    "acosh": "jnp.arccosh(x)",
    "atanh": "jnp.arctanh(x)",
    "exp": "jnp.exp(x)",
    "exp2": "jnp.exp2(x)",
    "expm1": "jnp.expm1(x)",
    "log": "jnp.log(x)",
    "log2": "jnp.log2(x)",
    "log10": "jnp.log10(x)",
    "log1p": "jnp.log1p(x)",
    "square": "jnp.square(x)",
    "sqrt": "jnp.sqrt(x)",
    "rsqrt": "jax.lax.rsqrt(x)",
    "reciprocal": "jnp.reciprocal(x)",
    "cbrt": "jnp.cbrt(x)",
    "abs": "jnp.abs(x)",
    "radians": "jnp.deg2rad(x)",
    "erf": f"{_S}erf(x)",
    "erfc": f"{_S}erfc(x)",
    "erfinv": f"{_S}erfinv(x)",
    "ndtr": f"{_S}ndtr(x)",
    "ndtri": f"{_S}ndtri(x)",
    "log_ndtr": f"{_S}log_ndtr(x)",
    "logit": f"{_S}logit(x)",
    "entr": f"{_S}entr(x)",
    "rel_entr": f"{_S}rel_entr(x, y)",
    "kl_div": f"{_S}kl_div(x, y)",
    "lgamma": (f"{_S}gammaln(x)", f"{_S}multigammaln(x, 1)"),
    "gamma": f"{_S}gamma(x)",
    "betaln": f"{_S}betaln(x, y)",
    "digamma": f"{_S}digamma(x)",
    "trigamma": f"{_S}polygamma(1, x)",
    "tetragamma": f"{_S}polygamma(2, x)",
    "zeta": f"{_S}zeta(x, y)",
    "igamma": f"{_S}gammainc(x, y)",
    "igammac": f"{_S}gammaincc(x, y)",
    "betainc": f"{_S}betainc(x, y, z)",
    "expint_1": f"{_S}exp1(x)",
    "expint_2": f"{_S}expn(2, x)",
    "expint": f"{_S}expi(x)",
    "spence": f"{_S}spence(x)",
    "fresnel_sin": f"{_S}fresnel(x)[0]",
    "fresnel_cos": f"{_S}fresnel(x)[1]",
    "bessel_i0": f"{_S}i0(x)",
    "bessel_i0e": f"{_S}i0e(x)",
    "bessel_i1": f"{_S}i1(x)",
    "bessel_i1e": f"{_S}i1e(x)",
    "normal_logpdf": "jax.scipy.stats.norm.logpdf(x)",
    "logistic_logpdf": "jax.scipy.stats.logistic.logpdf(x)",
    "cauchy_logpdf": "jax.scipy.stats.cauchy.logpdf(x)",
    "student_3_logpdf": "jax.scipy.stats.t.logpdf(x, 3.0)",
}

_L = "jnp.linalg."

_ARRAYS = {
    "prod": "jnp.prod(x)",
    "prod_axis": "jnp.prod(x, 0)",
    "cumprod": "jnp.cumprod(x)",
    "cumsum": "jnp.cumsum(x)",
    "logcumsumexp": "jax.lax.cumlogsumexp(x)",
    "sum": "jnp.sum(x)",
    "mean": "jnp.mean(x)",
    "variance": "jnp.var(x)",
    "std": "jnp.std(x)",
    "norm": f"{_L}norm(x)",
    "norm_squared": f"{_L}norm(x) ** 2",
    "norm_1": f"{_L}norm(x, 1)",
    "norm_3": f"{_L}norm(x, 3)",
    "norm_half": f"{_L}norm(x, 0.5)",
    "norm_inf": f"{_L}norm(x, jnp.inf)",
    "max": "jnp.max(x)",
    "min": "jnp.min(x)",
    "median_sorted": "jnp.sort(x)",
    "logsumexp": (f"{_N}logsumexp(x)", f"{_S}logsumexp(x)"),
    "softmax": f"{_N}softmax(x)",
    "log_softmax": f"{_N}log_softmax(x)",
    "masked_logsumexp": f"{_N}logsumexp(jnp.where(jnp.array([True, False, True]), x, -jnp.inf))",
    "masked_softmax": (
        f"{_N}softmax(jnp.where(jnp.array([True, False, True]), x, -jnp.inf))",
        f"{_N}softmax(x, where=jnp.array([True, False, True]))",
    ),
    "masked_log_softmax": (
        f"{_N}log_softmax(jnp.where(jnp.array([True, False, True]), x, -jnp.inf))[jnp.array([0, 2])]",
        f"{_N}log_softmax(x, where=jnp.array([True, False, True]))[jnp.array([0, 2])]",
    ),
    "where_log": "jnp.where(x > 1, jnp.log(x), x - 1)",
    "where_exp": "jnp.where(x > 0, 1 + x, jnp.exp(x))",
    "where_sqrt": "jnp.where(x > 1, jnp.sqrt(x - 1), x)",
    "where_divide": "jnp.where(x == 0, x, 1 / x)",
    "unused_quotient": "(x / jnp.array([1, 0, 2], x.dtype))[0]",
    "replaced_quotient": "jnp.nan_to_num(x / jnp.array([-1, 0, 1], x.dtype), posinf=0.0, neginf=0.0)",
    "unused_root": "jnp.sqrt(x)[0]",
    "powers": "jnp.power(x, jnp.array([1, 0, 2], x.dtype))",
    "norm_inside": f"(1 + {_L}norm(x) ** 2) ** -0.5",
    "matmul": "x @ y",
    "dot": "jnp.dot(x, y)",
    "outer": "jnp.outer(x, y)",
    "cross": "jnp.cross(x, y)",
    "trace": "jnp.trace(x)",
    "det": f"{_L}det(x)",
    "logabsdet": f"{_L}slogdet(x)[1]",
    "inverse": f"{_L}inv(x)",
    "solve": f"{_L}solve(x, y)",
    "solve_triangular": "jax.scipy.linalg.solve_triangular(x, y, lower=True)",
    "cholesky": f"{_L}cholesky(x + x.mT)",
    "cholesky_solve": "jax.scipy.linalg.cho_solve((jnp.tril(x), True), y)",
    "eigenvalues": f"{_L}eigvalsh(x + x.mT)",
    "sum_of_squared_eigenvalues": f"({_L}eigvalsh(x + x.mT) ** 2).sum()",
    "projector": f"(lambda v: v @ v.mT)({_L}eigh(x + x.mT)[1][:, 1:])",
    "singular_values": f"{_L}svd(x, compute_uv=False)",
    "squared_singular_values": f"({_L}svd(x, compute_uv=False) ** 2).sum()",
    "nuclear_norm": f"{_L}norm(x, 'nuc')",
    "frobenius_norm": f"{_L}norm(x)",
    "svd_product": f"(lambda u, s, vh: (u * s) @ vh)(*{_L}svd(x, full_matrices=False))",
    "leading_part": f"(lambda u, s, vh: s[0] * u[:, :1] @ vh[:1])(*{_L}svd(x))",
    "qr_product": f"(lambda q, r: q @ r)(*{_L}qr(x))",
    "pinv": f"{_L}pinv(x)",
    "expm": "jax.scipy.linalg.expm(x)",
    "matrix_square": f"{_L}matrix_power(x, 2)",
    "matrix_cube": f"{_L}matrix_power(x, 3)",
    "matrix_power_minus_2": f"{_L}matrix_power(x, -2)",
    "multi_dot": f"{_L}multi_dot([x, y, x])",
    "kronecker": "jnp.kron(x, y)",
}

_CALLS = {
    "dtype": "jnp.{0}",
    "reduce_sum": "jnp.sum({0}, axis={axis}, keepdims={keepdims})",
    "reduce_mean": "jnp.mean({0}, axis={axis}, keepdims={keepdims})",
    "reduce_logsumexp": f"{_N}logsumexp({{0}}, axis={{axis}}, keepdims={{keepdims}})",
    "reduce_max": "jnp.max({0}, axis={axis}, keepdims={keepdims})",
    "reduce_min": "jnp.min({0}, axis={axis}, keepdims={keepdims})",
    "reduce_prod": "jnp.prod({0}, axis={axis}, keepdims={keepdims})",
    "norm": f"{_L}norm({{0}}, axis={{axis}})",
    "softmax": f"{_N}softmax({{0}}, axis={{axis}})",
    "log_softmax": f"{_N}log_softmax({{0}}, axis={{axis}})",
    "cumsum": "jnp.cumsum({0}, axis={axis})",
    "cumprod": "jnp.cumprod({0}, axis={axis})",
    "reshape": "jnp.reshape({0}, {1})",
    "transpose": "jnp.transpose({0})",
    "reverse": "jnp.flip({0}, axis={axis}[0])",
    "roll": "jnp.roll({0}, {shift}, axis={axis})",
    "expand_dims": "jnp.expand_dims({0}, {1})",
    "concat": "jnp.concatenate({0}, axis={axis})",
    "stack": "jnp.stack({0}, axis={axis})",
    "tile": "jnp.tile({0}, {1})",
    "broadcast_to": "jnp.broadcast_to({0}, {1})",
    "matmul": "jnp.matmul({0}, {1})",
    "einsum": "jnp.einsum({0}, {1})",
    "solve": f"{_L}solve({{0}}, {{1}})",
    "eye": "jnp.eye({0}, dtype={dtype})",
    "where": "jnp.where({0}, {1}, {2})",
    "is_finite": "jnp.isfinite({0})",
    "clip_by_value": "jnp.clip({0}, {1}, {2})",
    "gather": "jnp.take({0}, jnp.array({1}), axis={axis})",
    "sort": "jnp.sort({0}, axis={axis})",
    "leaky_relu": f"{_N}leaky_relu({{0}}, {{alpha}})",
    "zeros_like": "jnp.zeros_like({0})",
}

LIBRARY = Library(
    name="jax",
    module="jax",
    imports='import numpy as np\nimport jax\nimport jax.numpy as jnp\n\njax.config.update("jax_enable_x64", True)\n',
    definitions=_DEFINITIONS,
    modes=(
        ("reverse",), ("forward",), ("batched", "reverse"), ("jacobian",),
        ("reverse", "reverse"), ("forward", "reverse"), ("reverse", "forward"), ("forward", "forward"),
    ),
    array_modes=(
        ("rows",), ("columns",), ("batched", "rows"),
        ("rows", "rows"), ("columns", "rows"), ("rows", "columns"), ("columns", "columns"),
    ),
    batched="batched",
    functions=_FUNCTIONS,
    arrays=_ARRAYS,
    calls=_CALLS,
    tensor="jnp.array({values}, dtype=jnp.{dtype})",
    versions={"jax": "jax.__version__", "jaxlib": "__import__('jaxlib').__version__"},
    refusals=(
        "not implemented", "Differentiation rule", "not differentiable", "not supported", "to a custom_vjp function"
    ),
    short={
        "reverse": "jax.grad",
        "forward": "jax.jacfwd",
        "rows": "jax.jacrev",
        "columns": "jax.jacfwd",
    },
    helpers=_HELPERS,
    documented=dict.fromkeys(
        ("where_exp", "where_log", "where_sqrt", "where_divide"),
        ("", "https://docs.jax.dev/en/latest/faq.html#gradients-contain-nan-where-using-where"),
    ),
)  # fmt: skip
