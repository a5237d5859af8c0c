"""Fast versions of the calls and steps of `gtape.engine`. Tests run without this room and compare."""
