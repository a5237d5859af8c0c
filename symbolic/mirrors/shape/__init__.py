"""Mirrors of the ops in gtape/ops/shape, each in the file of the same name."""
