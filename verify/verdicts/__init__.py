"""What a check says: verdicts, findings, reports, distances in ULP."""
