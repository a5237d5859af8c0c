"""Mirrors of the ops in gtape/ops/elementwise, each in the file of the same name."""
