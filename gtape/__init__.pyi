"""For editors and type checkers. Written by .ci/write_stubs.py."""

import builtins
from typing import Any

from gtape import autodiff
from gtape import config
from gtape import data
from gtape import debugging
from gtape import dtypes
from gtape import errors
from gtape import image
from gtape import keras
from gtape import linalg
from gtape import math
from gtape import nest
from gtape import nn
from gtape import random
from gtape import symbolic
from gtape import test
from gtape import train
from gtape import verify
from gtape.base.distribution import VariableAggregation
from gtape.base.distribution import VariableSynchronization
from gtape.base.printing import print_v2 as print
from gtape.base.tensor_shape import TensorShape
from gtape.base.tensor_spec import TensorSpec
from gtape.base.verification import verifying
from gtape.dtypes import DType
from gtape.dtypes import as_dtype
from gtape.dtypes import bool
from gtape.dtypes import complex128
from gtape.dtypes import complex64
from gtape.dtypes import double
from gtape.dtypes import float16
from gtape.dtypes import float32
from gtape.dtypes import float64
from gtape.dtypes import half
from gtape.dtypes import int16
from gtape.dtypes import int32
from gtape.dtypes import int64
from gtape.dtypes import int8
from gtape.dtypes import string
from gtape.dtypes import uint16
from gtape.dtypes import uint32
from gtape.dtypes import uint64
from gtape.dtypes import uint8
from gtape.engine.custom import custom_gradient
from gtape.engine.requests import UnconnectedGradients
from gtape.errors import VerificationError
from gtape.keras import initializers
from gtape.keras import losses
from gtape.keras import metrics
from gtape.keras import optimizers
from gtape.keras.initializers import Constant as constant_initializer
from gtape.keras.initializers import Ones as ones_initializer
from gtape.keras.initializers import RandomNormal as random_normal_initializer
from gtape.keras.initializers import RandomUniform as random_uniform_initializer
from gtape.keras.initializers import Zeros as zeros_initializer
from gtape.namespaces.surroundings import get_current_name_scope
from gtape.namespaces.surroundings import get_logger
from gtape.namespaces.surroundings import inside_function
from gtape.namespaces.surroundings import is_symbolic_tensor
from gtape.namespaces.surroundings import timestamp
from gtape.ops.checks.assertions import Assert
from gtape.ops.checks.assertions import assert_equal
from gtape.ops.checks.assertions import assert_greater
from gtape.ops.checks.assertions import assert_less
from gtape.ops.checks.shape_assertions import assert_rank
from gtape.ops.elementwise.complex_parts import complex
from gtape.ops.linalg.eig import eig
from gtape.ops.linalg.eig import eigvals
from gtape.ops.linalg.einsum import einsum
from gtape.ops.linalg.einsum import tensordot
from gtape.ops.linalg.matmul import matmul
from gtape.ops.linalg.norms import norm
from gtape.ops.nn.clipping import clip_by_global_norm
from gtape.ops.nn.clipping import clip_by_norm
from gtape.ops.nn.clipping import clip_by_value
from gtape.ops.picking.combined import round
from gtape.ops.picking.combined import scalar_mul
from gtape.ops.picking.counting import histogram_fixed_width
from gtape.ops.picking.counting import histogram_fixed_width_bins
from gtape.ops.picking.counting import searchsorted
from gtape.ops.picking.counting import sequence_mask
from gtape.ops.picking.gather import boolean_mask
from gtape.ops.picking.gather import gather
from gtape.ops.picking.gather import gather_nd
from gtape.ops.picking.indexing import slice
from gtape.ops.picking.indexing import strided_slice
from gtape.ops.picking.indexing import where
from gtape.ops.picking.partition import dynamic_partition
from gtape.ops.picking.partition import dynamic_stitch
from gtape.ops.picking.partition import reverse_sequence
from gtape.ops.picking.partition import unique
from gtape.ops.picking.partition import unique_with_counts
from gtape.ops.picking.scatter import scatter_nd
from gtape.ops.picking.scatter import tensor_scatter_nd_add
from gtape.ops.picking.scatter import tensor_scatter_nd_max
from gtape.ops.picking.scatter import tensor_scatter_nd_min
from gtape.ops.picking.scatter import tensor_scatter_nd_sub
from gtape.ops.picking.scatter import tensor_scatter_nd_update
from gtape.ops.picking.sorting import argsort
from gtape.ops.picking.sorting import sort
from gtape.ops.picking.static import broadcast_dynamic_shape
from gtape.ops.picking.static import broadcast_static_shape
from gtape.ops.picking.static import get_static_value
from gtape.ops.picking.static import identity_n
from gtape.ops.picking.static import shape_n
from gtape.ops.picking.static import tuple
from gtape.ops.picking.static import unravel_index
from gtape.ops.reduction.extrema import argmax
from gtape.ops.reduction.extrema import argmin
from gtape.ops.reduction.extrema import reduce_max
from gtape.ops.reduction.extrema import reduce_min
from gtape.ops.reduction.logsumexp import reduce_logsumexp
from gtape.ops.reduction.scan import cumsum
from gtape.ops.reduction.scan import reduce_prod
from gtape.ops.reduction.sums import add_n
from gtape.ops.reduction.sums import reduce_mean
from gtape.ops.reduction.sums import reduce_sum
from gtape.ops.reduction.truth import reduce_all
from gtape.ops.reduction.truth import reduce_any
from gtape.ops.shape.blocks import batch_to_space
from gtape.ops.shape.blocks import space_to_batch
from gtape.ops.shape.blocks import space_to_batch_nd
from gtape.ops.shape.broadcasting import broadcast_to
from gtape.ops.shape.casting import bitcast
from gtape.ops.shape.casting import saturate_cast
from gtape.ops.shape.creation import cast
from gtape.ops.shape.creation import eye
from gtape.ops.shape.creation import fill
from gtape.ops.shape.creation import identity
from gtape.ops.shape.creation import linspace
from gtape.ops.shape.creation import one_hot
from gtape.ops.shape.creation import ones
from gtape.ops.shape.creation import ones_like
from gtape.ops.shape.creation import range
from gtape.ops.shape.creation import zeros
from gtape.ops.shape.creation import zeros_like
from gtape.ops.shape.join import concat
from gtape.ops.shape.join import split
from gtape.ops.shape.join import stack
from gtape.ops.shape.join import unstack
from gtape.ops.shape.order import reverse
from gtape.ops.shape.order import roll
from gtape.ops.shape.order import transpose
from gtape.ops.shape.shape import ensure_shape
from gtape.ops.shape.shape import expand_dims
from gtape.ops.shape.shape import rank
from gtape.ops.shape.shape import reshape
from gtape.ops.shape.shape import shape
from gtape.ops.shape.shape import size
from gtape.ops.shape.shape import squeeze
from gtape.ops.shape.tiling import meshgrid
from gtape.ops.shape.tiling import pad
from gtape.ops.shape.tiling import repeat
from gtape.ops.shape.tiling import tile
from gtape.tapes.control import grad_pass_through
from gtape.tapes.control import recompute_grad
from gtape.tapes.control import stop_gradient
from gtape.tapes.control_flow import case
from gtape.tapes.control_flow import cond
from gtape.tapes.control_flow import control_dependencies
from gtape.tapes.control_flow import device
from gtape.tapes.control_flow import group
from gtape.tapes.control_flow import init_scope
from gtape.tapes.control_flow import no_op
from gtape.tapes.control_flow import switch_case
from gtape.tapes.control_flow import while_loop
from gtape.tapes.functional import foldl
from gtape.tapes.functional import foldr
from gtape.tapes.functional import map_fn
from gtape.tapes.functional import scan
from gtape.tapes.functional import vectorized_map
from gtape.tapes.functions import function
from gtape.tapes.functions import gradients
from gtape.tapes.functions import hessians
from gtape.tapes.python_functions import numpy_function
from gtape.tapes.python_functions import py_function
from gtape.tapes.tape import GradientTape
from gtape.tapes.tensor_array import TensorArray
from gtape.tensors.indexed_slices import IndexedSlices
from gtape.tensors.module import Module
from gtape.tensors.module import name_scope
from gtape.tensors.tensor import Tensor
from gtape.tensors.tensor import constant
from gtape.tensors.tensor import convert_to_tensor
from gtape.tensors.tensor import is_tensor
from gtape.tensors.variable import Variable

__all__ = [
    "Assert", "DType", "GradientTape", "IndexedSlices", "Module", "Tensor", "TensorArray", "TensorShape", "TensorSpec",
    "UnconnectedGradients", "Variable", "VariableAggregation", "VariableSynchronization", "VerificationError",
    "__version__", "abs", "acos", "acosh", "add", "add_n", "argmax", "argmin", "argsort", "as_dtype", "asin", "asinh",
    "assert_equal", "assert_greater", "assert_less", "assert_rank", "atan", "atan2", "atanh", "autodiff",
    "batch_to_space", "bitcast", "bool", "boolean_mask", "broadcast_dynamic_shape", "broadcast_static_shape",
    "broadcast_to", "case", "cast", "clip_by_global_norm", "clip_by_norm", "clip_by_value", "complex", "complex128",
    "complex64", "concat", "cond", "config", "constant", "constant_initializer", "control_dependencies",
    "convert_to_tensor", "cos", "cosh", "cumsum", "custom_gradient", "data", "debugging", "device", "divide", "double",
    "dtypes", "dynamic_partition", "dynamic_stitch", "eig", "eigvals", "einsum", "ensure_shape", "equal", "errors",
    "executing_eagerly", "exp", "expand_dims", "eye", "fill", "float16", "float32", "float64", "floor", "foldl",
    "foldr", "function", "gather", "gather_nd", "get_current_name_scope", "get_logger", "get_static_value",
    "grad_pass_through", "gradients", "greater", "greater_equal", "group", "half", "hessians", "histogram_fixed_width",
    "histogram_fixed_width_bins", "identity", "identity_n", "image", "init_scope", "initializers", "inside_function",
    "int16", "int32", "int64", "int8", "is_symbolic_tensor", "is_tensor", "keras", "less", "less_equal", "linalg",
    "linspace", "logical_and", "logical_not", "logical_or", "losses", "map_fn", "math", "matmul", "maximum", "meshgrid",
    "metrics", "minimum", "multiply", "name_scope", "negative", "nest", "newaxis", "nn", "no_op", "norm", "not_equal",
    "numpy_function", "one_hot", "ones", "ones_initializer", "ones_like", "optimizers", "pad", "pow", "print",
    "py_function", "random", "random_normal_initializer", "random_uniform_initializer", "range", "rank",
    "recompute_grad", "reduce_all", "reduce_any", "reduce_logsumexp", "reduce_max", "reduce_mean", "reduce_min",
    "reduce_prod", "reduce_sum", "repeat", "reshape", "reverse", "reverse_sequence", "roll", "round", "saturate_cast",
    "scalar_mul", "scan", "scatter_nd", "searchsorted", "sequence_mask", "shape", "shape_n", "sigmoid", "sign", "sin",
    "sinh", "size", "slice", "sort", "space_to_batch", "space_to_batch_nd", "split", "sqrt", "square", "squeeze",
    "stack", "stop_gradient", "strided_slice", "string", "subtract", "switch_case", "symbolic", "tan", "tanh",
    "tensor_scatter_nd_add", "tensor_scatter_nd_max", "tensor_scatter_nd_min", "tensor_scatter_nd_sub",
    "tensor_scatter_nd_update", "tensordot", "test", "tile", "timestamp", "train", "transpose", "truncatediv",
    "truncatemod", "tuple", "uint16", "uint32", "uint64", "uint8", "unique", "unique_with_counts", "unravel_index",
    "unstack", "vectorized_map", "verify", "verifying", "where", "while_loop", "zeros", "zeros_initializer",
    "zeros_like",
]  # fmt: skip

__version__: builtins.str

def abs(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Absolute value; the slope at 0 is 0."""

def acos(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Inverse cosine, in [0, pi]."""

def acosh(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Inverse hyperbolic cosine, for x >= 1."""

def add(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    """Sum, x + y."""

def asin(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Inverse sine, in [-pi/2, pi/2]."""

def asinh(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Inverse hyperbolic sine."""

def atan(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Inverse tangent, in [-pi/2, pi/2]."""

def atan2(y: Any, x: Any, name: builtins.str | None = ...) -> Tensor:
    """Angle of the point (x, y), in (-pi, pi]; y comes first."""

def atanh(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Inverse hyperbolic tangent, inside [-1, 1]."""

def cos(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Cosine of an angle in radians."""

def cosh(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Hyperbolic cosine."""

def divide(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    """Quotient, x / y."""

def equal(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    """Whether x == y."""

def executing_eagerly() -> builtins.bool:
    """Whether ops run as they are called: always True."""

def exp(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Exponential function."""

def floor(x: Any, name: builtins.str | None = ...) -> Tensor:
    """The largest whole number <= x."""

def greater(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    """Whether x > y."""

def greater_equal(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    """Whether x >= y."""

def less(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    """Whether x < y."""

def less_equal(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    """Whether x <= y."""

def logical_and(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    """Whether both hold."""

def logical_not(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Whether it does not hold."""

def logical_or(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    """Whether either holds."""

def maximum(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    """The larger of x and y; at a tie the gradient goes to x."""

def minimum(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    """The smaller of x and y; at a tie the gradient goes to x."""

def multiply(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    """Product, x * y."""

def negative(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Negation, -x."""

newaxis: None

def not_equal(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    """Whether x != y."""

def pow(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    """Power, x**y."""

def sigmoid(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Logistic sigmoid, 1 / (1 + exp(-x))."""

def sign(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Sign of x: -1, 0 or 1; its gradient is 0."""

def sin(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Sine of an angle in radians."""

def sinh(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Hyperbolic sine."""

def sqrt(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Square root."""

def square(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Square, x*x."""

def subtract(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    """Difference, x - y."""

def tan(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Tangent of an angle in radians."""

def tanh(x: Any, name: builtins.str | None = ...) -> Tensor:
    """Hyperbolic tangent."""

def truncatediv(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    """Quotient x / y, rounded towards zero."""

def truncatemod(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    """Remainder with the sign of x, x - y * truncatediv(x, y)."""
