"""The mathematics of the tape: calls of ops, backward steps, sweeps, Jacobians, custom gradients."""
