"""Mirrors of the ops in gtape/ops/nn, each in the file of the same name."""
