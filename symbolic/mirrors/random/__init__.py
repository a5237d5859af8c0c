"""Mirrors of the ops in gtape/ops/random, each in the file of the same name."""
