"""The ops: one file for each family, with kernels, rules and public functions; `gtape.namespaces.catalogue` finds them."""
