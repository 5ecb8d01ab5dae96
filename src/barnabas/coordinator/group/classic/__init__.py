"""Classic groups: join, sync, rebalance, and their records."""
