"""Mirrors of the ops in gtape/ops/reduction, each in the file of the same name."""
