"""How far rounding alone may move a derivative: error bounds along a program."""
