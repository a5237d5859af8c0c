"""PyTorch: its modes of differentiation and its names."""

from __future__ import annotations

from gtape.verify.peers.libraries import Library

__all__ = ["LIBRARY"]

_DEFINITIONS = {
    "lift": "def lift(a):\n    return torch.from_numpy(np.array(a))\n",
    "lower": "def lower(t):\n    return t.detach().numpy(force=True)\n",
    "weigh": (
        "def weigh(f):\n"
        "    def weighed(*a):\n"
        "        y = f(*a)\n"
        "        return (y * torch.arange(1, y.numel() + 1, dtype=y.dtype).reshape(y.shape)).sum()\n"
        "    return weighed\n"
    ),
    "reverse": "def reverse(f, i=0):\n    return torch.func.grad(lambda *a: f(*a).sum(), argnums=i)\n",
    "forward": (
        "def forward(f, i=0):\n"
        "    def derivative(*a):\n"
        "        one = torch.ones_like(a[i])\n"
        "        return torch.func.jvp(lambda x: f(*a[:i], x, *a[i + 1 :]), (a[i],), (one,))[1]\n"
        "    return derivative\n"
    ),
    "tape": (
        "def tape(f, i=0):\n"
        "    def derivative(*a):\n"
        "        x = a[i] if a[i].requires_grad else a[i].detach().requires_grad_()\n"
        "        y = f(*a[:i], x, *a[i + 1 :])\n"
        "        return torch.autograd.grad(y.sum(), x, create_graph=True, materialize_grads=True)[0]\n"
        "    return derivative\n"
    ),
    "batched": "def batched(f):\n    return torch.vmap(f)\n",
    "jacobian": ("def jacobian(f, i=0):\n    return lambda *a: torch.diagonal(torch.func.jacrev(f, argnums=i)(*a))\n"),
    "rows": "def rows(f, i=0):\n    return torch.func.jacrev(f, argnums=i)\n",
    "columns": "def columns(f, i=0):\n    return torch.func.jacfwd(f, argnums=i)\n",
    "tape_rows": (
        "def tape_rows(f, i=0):\n"
        "    def derivative(*a):\n"
        "        g = lambda x: f(*a[:i], x, *a[i + 1 :])\n"
        "        return torch.autograd.functional.jacobian(g, a[i], create_graph=True)\n"
        "    return derivative\n"
    ),
}

_HELPERS = {
    "FourthPower": (
        "class FourthPower(torch.autograd.Function):\n"
        "    generate_vmap_rule = True\n\n"
        "    @staticmethod\n"
        "    def forward(x):\n"
        "        return x * x * x * x\n\n"
        "    @staticmethod\n"
        "    def setup_context(ctx, inputs, output):\n"
        "        ctx.save_for_backward(*inputs)\n"
        "        ctx.save_for_forward(*inputs)\n\n"
        "    @staticmethod\n"
        "    def backward(ctx, g):\n"
        "        (x,) = ctx.saved_tensors\n"
        "        return g * 4 * x * x * x\n\n"
        "    @staticmethod\n"
        "    def jvp(ctx, t):\n"
        "        (x,) = ctx.saved_tensors\n"
        "        return t * 4 * x * x * x\n"
    ),
}

_F = "torch.nn.functional."

_FUNCTIONS = {
    "sigmoid": ("torch.sigmoid(x)", "torch.special.expit(x)"),
    "softplus_to_20": f"{_F}softplus(x)",
    "log_sigmoid": f"{_F}logsigmoid(x)",
    "softsign": f"{_F}softsign(x)",
    "elu": f"{_F}elu(x)",
    "selu": f"{_F}selu(x)",
    "celu": f"{_F}celu(x, 2.0)",
    "silu": f"{_F}silu(x)",
    "mish": f"{_F}mish(x)",
    "gelu": f"{_F}gelu(x)",
    "gelu_tanh": f"{_F}gelu(x, approximate='tanh')",
    "relu": "torch.relu(x)",
    "relu6": f"{_F}relu6(x)",
    "leaky_relu": f"{_F}leaky_relu(x, 0.2)",
    "hard_tanh": (f"{_F}hardtanh(x)", "torch.clamp(x, -1.0, 1.0)"),
    "hard_swish": f"{_F}hardswish(x)",
    "hard_shrink": f"{_F}hardshrink(x)",
    "hard_shrink_0": f"{_F}hardshrink(x, 0.0)",
    "soft_shrink": f"{_F}softshrink(x)",
    "tanh_shrink": f"{_F}tanhshrink(x)",
    "huber": (
        f"{_F}huber_loss(x, torch.zeros_like(x), reduction='none')",
        f"{_F}smooth_l1_loss(x, torch.zeros_like(x), reduction='none')",
    ),
    "add": "x + y",
    "subtract": "x - y",
    "multiply": "x * y",
    "divide": "x / y",
    "negative": "-x",
    "squared_difference": f"{_F}mse_loss(x, y, reduction='none')",
    "xlogy": "torch.special.xlogy(x, y)",
    "xlog1py": "torch.special.xlog1py(x, y)",
    "logaddexp": "torch.logaddexp(x, y)",
    "logaddexp2": "torch.logaddexp2(x, y)",
    "atan2": "torch.atan2(x, y)",
    "hypot": "torch.hypot(x, y)",
    "pow": ("torch.pow(x, y)", "torch.float_power(x, y)"),
    "cube": "torch.pow(x, 3)",
    "fourth_power": "torch.pow(x, 4.0)",
    "power_minus_3": "torch.pow(x, -3.0)",
    "power_1_5": "torch.pow(x, 1.5)",
    "power_0": "torch.pow(x, 0)",
    "power_1": "torch.pow(x, 1.0)",
    "sum_of_powers": "sum(x ** k for k in range(1, 11))",
    "power_of_0": "torch.pow(0.0, x)",
    "cube_of_sine": "(lambda s: s * s * s)(torch.sin(x))",
    "custom_fourth_power": "FourthPower.apply(x)",
    "exponential_of_2": "torch.pow(2.0, x)",
    "exponential_of_half": "torch.pow(0.5, x)",
    "maximum": ("torch.maximum(x, y)", "torch.fmax(x, y)"),
    "minimum": ("torch.minimum(x, y)", "torch.fmin(x, y)"),
    "floormod": "torch.remainder(x, y)",
    "truncatemod": "torch.fmod(x, y)",
    "sin": "torch.sin(x)",
    "cos": "torch.cos(x)",
    "tan": "torch.tan(x)",
    "asin": "torch.asin(x)",
    "acos": "torch.acos(x)",
    "atan": "torch.atan(x)",
    "sinc": ("torch.sinc(x)", "torch.special.sinc(x)"),
    "sinh": "torch.sinh(x)",
    "cosh": "torch.cosh(x)",
    "tanh": "torch.tanh(x)",
    "asinh": "torch.asinh(x)",
    "acosh": "torch.acosh(x)",
    "atanh": "torch.atanh(x)",
    "exp": "torch.exp(x)",
    "exp2": ("torch.exp2(x)", "torch.special.exp2(x)"),
    "expm1": ("torch.expm1(x)", "torch.special.expm1(x)"),
    "log": "torch.log(x)",
    "log2": "torch.log2(x)",
    "log10": "torch.log10(x)",
    "log1p": ("torch.log1p(x)", "torch.special.log1p(x)"),
    "square": "torch.square(x)",
    "sqrt": "torch.sqrt(x)",
    "rsqrt": "torch.rsqrt(x)",
    "reciprocal": "torch.reciprocal(x)",
    "abs": "torch.abs(x)",
    "radians": "torch.deg2rad(x)",
    "erf": "torch.special.erf(x)",
    "erfc": "torch.special.erfc(x)",
    "erfcx": "torch.special.erfcx(x)",
    "erfinv": "torch.special.erfinv(x)",
    "ndtr": "torch.special.ndtr(x)",
    "ndtri": "torch.special.ndtri(x)",
    "log_ndtr": "torch.special.log_ndtr(x)",
    "logit": "torch.special.logit(x)",
    "entr": "torch.special.entr(x)",
    "lgamma": ("torch.lgamma(x)", "torch.special.multigammaln(x, 1)"),
    "digamma": "torch.special.digamma(x)",
    "trigamma": "torch.special.polygamma(1, x)",
    "tetragamma": "torch.special.polygamma(2, x)",
    "zeta": "torch.special.zeta(x, y)",
    "igamma": "torch.special.gammainc(x, y)",
    "igammac": "torch.special.gammaincc(x, y)",
    "bessel_i0": "torch.special.i0(x)",
    "bessel_i0e": "torch.special.i0e(x)",
    "bessel_i1": "torch.special.i1(x)",
    "bessel_i1e": "torch.special.i1e(x)",
    "bessel_j0": "torch.special.bessel_j0(x)",
    "bessel_j1": "torch.special.bessel_j1(x)",
    "normal_logpdf": "torch.distributions.Normal(torch.zeros_like(x), torch.ones_like(x)).log_prob(x)",
    "cauchy_logpdf": "torch.distributions.Cauchy(torch.zeros_like(x), torch.ones_like(x)).log_prob(x)",
    "student_3_logpdf": "torch.distributions.StudentT(torch.full_like(x, 3.0)).log_prob(x)",
}

_L = "torch.linalg."

_ARRAYS = {
    "prod": "torch.prod(x)",
    "prod_axis": "torch.prod(x, 0)",
    "cumprod": "torch.cumprod(x, 0)",
    "cumsum": "torch.cumsum(x, 0)",
    "logcumsumexp": "torch.logcumsumexp(x, 0)",
    "sum": "torch.sum(x)",
    "mean": "torch.mean(x)",
    "variance": "torch.var(x, correction=0)",
    "std": "torch.std(x, correction=0)",
    "norm": (f"{_L}vector_norm(x)", "torch.norm(x)"),
    "norm_squared": f"{_L}vector_norm(x) ** 2",
    "norm_1": f"{_L}vector_norm(x, 1)",
    "norm_3": f"{_L}vector_norm(x, 3)",
    "norm_half": f"{_L}vector_norm(x, 0.5)",
    "norm_inf": f"{_L}vector_norm(x, float('inf'))",
    "max": ("torch.amax(x)", "torch.max(x)"),
    "min": "torch.amin(x)",
    "median_sorted": "torch.sort(x)[0]",
    "logsumexp": "torch.logsumexp(x, 0)",
    "softmax": "torch.softmax(x, 0)",
    "log_softmax": "torch.log_softmax(x, 0)",
    "normalize": f"{_F}normalize(x, dim=0)",
    "cosine": f"{_F}cosine_similarity(x, y, dim=0)",
    "cross_entropy": f"{_F}cross_entropy(x[None], torch.tensor([0]), reduction='none')",
    "masked_logsumexp": "torch.logsumexp(torch.where(torch.tensor([True, False, True]), x, -torch.inf), 0)",
    "masked_softmax": "torch.softmax(torch.where(torch.tensor([True, False, True]), x, -torch.inf), 0)",
    "masked_log_softmax": (
        "torch.log_softmax(torch.where(torch.tensor([True, False, True]), x, -torch.inf), 0)[torch.tensor([0, 2])]"
    ),
    "where_log": "torch.where(x > 1, torch.log(x), x - 1)",
    "where_exp": "torch.where(x > 0, 1 + x, torch.exp(x))",
    "where_sqrt": "torch.where(x > 1, torch.sqrt(x - 1), x)",
    "where_divide": "torch.where(x == 0, x, 1 / x)",
    "unused_quotient": "(x / torch.tensor([1, 0, 2], dtype=x.dtype))[0]",
    "replaced_quotient": "torch.nan_to_num(x / torch.tensor([-1, 0, 1], dtype=x.dtype), posinf=0.0, neginf=0.0)",
    "unused_root": "torch.sqrt(x)[0]",
    "powers": "torch.pow(x, torch.tensor([1, 0, 2], dtype=x.dtype))",
    "norm_inside": f"(1 + {_L}vector_norm(x) ** 2) ** -0.5",
    "layer_norm": f"{_F}layer_norm(x, x.shape, eps=0.25)",
    "matmul": "x @ y",
    "dot": "torch.dot(x, y)",
    "outer": "torch.outer(x, y)",
    "cross": f"{_L}cross(x, y)",
    "trace": "torch.trace(x)",
    "det": (f"{_L}det(x)", "torch.det(x)"),
    "logabsdet": (f"{_L}slogdet(x)[1]", "torch.slogdet(x)[1]"),
    "inverse": (f"{_L}inv(x)", "torch.inverse(x)"),
    "solve": f"{_L}solve(x, y)",
    "solve_triangular": f"{_L}solve_triangular(x, y, upper=False)",
    "cholesky": f"{_L}cholesky(x + x.mT)",
    "cholesky_solve": "torch.cholesky_solve(y, torch.tril(x))",
    "cholesky_inverse": "torch.cholesky_inverse(torch.tril(x))",
    "eigenvalues": f"{_L}eigvalsh(x + x.mT)",
    "sum_of_squared_eigenvalues": f"({_L}eigvalsh(x + x.mT) ** 2).sum()",
    "projector": f"(lambda v: v @ v.mT)({_L}eigh(x + x.mT)[1][:, 1:])",
    "singular_values": f"{_L}svdvals(x)",
    "squared_singular_values": f"({_L}svdvals(x) ** 2).sum()",
    "nuclear_norm": (f"{_L}matrix_norm(x, 'nuc')", f"{_L}svdvals(x).sum()"),
    "frobenius_norm": f"{_L}matrix_norm(x)",
    "svd_product": f"(lambda u, s, vh: (u * s) @ vh)(*{_L}svd(x, full_matrices=False))",
    "leading_part": f"(lambda u, s, vh: s[0] * u[:, :1] @ vh[:1])(*{_L}svd(x))",
    "qr_product": f"(lambda q, r: q @ r)(*{_L}qr(x))",
    "pinv": f"{_L}pinv(x)",
    "expm": f"{_L}matrix_exp(x)",
    "matrix_square": f"{_L}matrix_power(x, 2)",
    "matrix_cube": f"{_L}matrix_power(x, 3)",
    "matrix_power_minus_2": f"{_L}matrix_power(x, -2)",
    "multi_dot": f"{_L}multi_dot([x, y, x])",
    "distances": "torch.pdist(x)",
    "cdist": "torch.cdist(x, y)",
    "conv1d": f"{_F}conv1d(x[None, None], y[None, None])[0, 0]",
    "conv1d_transpose": f"{_F}conv_transpose1d(x[None, None], y[None, None], stride=2)[0, 0]",
    "max_pool": f"{_F}max_pool1d(x[None], 2, 1)[0]",
    "avg_pool": f"{_F}avg_pool1d(x[None], 2, 1)[0]",
    "kronecker": "torch.kron(x, y)",
}

# Templates of the functions in random programs; words in braces, such as {axis}, are the arguments of gtape's function.
_CALLS = {
    "dtype": "torch.{0}",
    "reduce_sum": "torch.sum({0}, dim={axis}, keepdim={keepdims})",
    "reduce_mean": "torch.mean({0}, dim={axis}, keepdim={keepdims})",
    "reduce_logsumexp": "torch.logsumexp({0}, dim={axis}, keepdim={keepdims})",
    "reduce_max": "torch.amax({0}, dim={axis}, keepdim={keepdims})",
    "reduce_min": "torch.amin({0}, dim={axis}, keepdim={keepdims})",
    "reduce_prod": "torch.prod({0}, dim={axis}, keepdim={keepdims})",
    "norm": f"{_L}vector_norm({{0}}, dim={{axis}})",
    "softmax": "torch.softmax({0}, dim={axis})",
    "log_softmax": "torch.log_softmax({0}, dim={axis})",
    "cumsum": "torch.cumsum({0}, dim={axis})",
    "cumprod": "torch.cumprod({0}, dim={axis})",
    "reshape": "torch.reshape({0}, {1})",
    "transpose": "torch.permute({0}, tuple(range({0}.ndim))[::-1])",
    "reverse": "torch.flip({0}, dims={axis})",
    "roll": "torch.roll({0}, {shift}, dims={axis})",
    "expand_dims": "torch.unsqueeze({0}, {1})",
    "concat": "torch.cat({0}, dim={axis})",
    "stack": "torch.stack({0}, dim={axis})",
    "tile": "torch.tile({0}, {1})",
    "broadcast_to": "torch.broadcast_to({0}, {1})",
    "matmul": "torch.matmul({0}, {1})",
    "einsum": "torch.einsum({0}, {1})",
    "solve": f"{_L}solve({{0}}, {{1}})",
    "eye": "torch.eye({0}, dtype={dtype})",
    "where": "torch.where({0}, {1}, {2})",
    "is_finite": "torch.isfinite({0})",
    "clip_by_value": "torch.clamp({0}, {1}, {2})",
    "gather": "torch.index_select({0}, {axis}, torch.tensor({1}))",
    "sort": "torch.sort({0}, dim={axis})[0]",
    "leaky_relu": f"{_F}leaky_relu({{0}}, {{alpha}})",
    "softplus": f"{_F}softplus({{0}})",
    "zeros_like": "torch.zeros_like({0})",
}

LIBRARY = Library(
    name="torch",
    module="torch",
    imports="import numpy as np\nimport torch\n\ntorch.set_printoptions(precision=17)\n",
    definitions=_DEFINITIONS,
    modes=(
        ("reverse",), ("tape",), ("forward",), ("batched", "reverse"), ("jacobian",),
        ("reverse", "reverse"), ("tape", "tape"), ("forward", "reverse"), ("reverse", "forward"),
        ("forward", "forward"),
    ),
    array_modes=(
        ("rows",), ("columns",), ("tape_rows",),
        ("rows", "rows"), ("tape_rows", "tape_rows"), ("columns", "rows"), ("rows", "columns"), ("columns", "columns"),
    ),
    batched="batched",
    functions=_FUNCTIONS,
    arrays=_ARRAYS,
    calls=_CALLS,
    tensor="torch.tensor({values}, dtype=torch.{dtype})",
    versions={"torch": "torch.__version__"},
    refusals=("does not require grad", "not implemented", "not supported", "Batching rule not implemented"),
    short={
        "reverse": "torch.func.grad",
        "forward": "torch.func.jacfwd",
        "rows": "torch.func.jacrev",
        "columns": "torch.func.jacfwd",
    },
    helpers=_HELPERS,
    documented=dict.fromkeys(
        ("svd_product", "leading_part"),
        ("equal singular values", "https://docs.pytorch.org/docs/stable/generated/torch.linalg.svd.html"),
    ),
)  # fmt: skip
