"""Random programs and planted faults: what the checks must pass, and what they must find."""
