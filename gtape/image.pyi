"""For editors and type checkers. Written by .ci/write_stubs.py."""

from gtape.ops.nn.patches import extract_patches

__all__ = [
    "extract_patches",
]  # fmt: skip
