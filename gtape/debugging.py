"""``gtape.debugging``: assertions about tensors, under TensorFlow's names.

A failed assertion about values raises `gtape.errors.InvalidArgumentError`; one about ranks or shapes raises ValueError,
one about dtypes TypeError, as in TensorFlow.
"""

from __future__ import annotations

from gtape.namespaces.finite import disable_check_numerics, enable_check_numerics
from gtape.ops.checks.assertions import (
    Assert,
    assert_all_finite,
    assert_equal,
    assert_greater,
    assert_greater_equal,
    assert_less,
    assert_less_equal,
    assert_near,
    assert_negative,
    assert_non_negative,
    assert_non_positive,
    assert_none_equal,
    assert_positive,
    check_numerics,
)
from gtape.ops.checks.shape_assertions import (
    assert_integer,
    assert_proper_iterable,
    assert_rank,
    assert_rank_at_least,
    assert_rank_in,
    assert_same_float_dtype,
    assert_scalar,
    assert_shapes,
    assert_type,
    is_numeric_tensor,
)

__all__ = [
    "Assert", "assert_all_finite", "assert_equal", "assert_greater", "assert_greater_equal", "assert_integer",
    "assert_less", "assert_less_equal", "assert_near", "assert_negative", "assert_non_negative",
    "assert_non_positive", "assert_none_equal", "assert_positive", "assert_proper_iterable", "assert_rank",
    "assert_rank_at_least", "assert_rank_in", "assert_same_float_dtype", "assert_scalar", "assert_shapes",
    "assert_type", "check_numerics", "disable_check_numerics", "enable_check_numerics", "is_numeric_tensor",
]  # fmt: skip

__dir__ = __all__.copy  # the names for `dir`, which sorts them
