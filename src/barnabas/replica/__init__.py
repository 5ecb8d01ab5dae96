"""Replication without IO: leaders and followers, the purgatory, and fetch sessions."""
