"""Mirrors of the ops in gtape/ops/linalg, each in the file of the same name."""
