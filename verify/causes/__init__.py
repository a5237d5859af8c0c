"""Why numbers are off or have no exact value: wrong rules, conventions, the range of floats, branches."""
