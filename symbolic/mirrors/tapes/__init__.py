"""Mirrors of the primitives that gtape/tapes declares, each in the file of the same name."""
