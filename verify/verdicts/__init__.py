"""verdicts: say here what the package is for."""
