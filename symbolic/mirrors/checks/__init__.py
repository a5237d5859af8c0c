"""Mirrors of the ops in gtape/ops/checks, each in the file of the same name."""
