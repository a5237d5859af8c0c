"""fast: say here what the package is for."""
