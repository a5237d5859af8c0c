"""The ops: one file for each family, with kernels, rules and public functions; `gtape.catalogue` finds them."""
