"""Mirrors of the ops in gtape/ops/special, each in the file of the same name."""
