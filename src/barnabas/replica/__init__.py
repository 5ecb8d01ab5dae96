"""Replication without IO: leaders and followers, who waits for them, and fetch sessions."""
