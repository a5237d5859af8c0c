"""Random programs, which checks must pass, and planted faults, which they must find."""
