"""Mirrors of the ops in gtape/ops/picking, each in the file of the same name."""
