"""The command line ``gtape verify``, ``prove``, ``census``, ``doctor``, ``conventions``, and what it writes."""
