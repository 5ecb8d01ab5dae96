"""Replication, without IO: partitions with their leaders and followers, what waits for them, fetch sessions."""
