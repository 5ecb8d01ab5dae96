"""A simulated cluster that replicates partitions: whole nodes, clients, and the invariants of their logs."""
