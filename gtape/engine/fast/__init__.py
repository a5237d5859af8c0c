"""Fast versions of the calls and steps of `gtape.engine`. Tests switch this room off and compare."""
