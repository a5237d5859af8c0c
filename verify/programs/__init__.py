"""Random programs, planted faults, and the counts of false alarms."""
