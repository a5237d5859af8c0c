"""How far rounding may carry numbers: op by op, along a rule, and over a whole program."""
