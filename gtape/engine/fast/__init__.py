"""The calls and steps of `gtape.engine` once more, generated for speed. Tests switch this room off and compare."""
