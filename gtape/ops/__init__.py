"""The ops: rules and public functions, by family; `gtape.namespaces.catalogue` finds them."""
