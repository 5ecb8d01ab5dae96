"""Bugs that `replication` and `replication-transactions` must find."""
