"""Replicas of a few partitions: the drivers of production on logs in memory, over single messages."""
