"""Results of checks: verdicts, findings, reports, distances in ULP."""
