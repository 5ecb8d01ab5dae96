"""Replication from other brokers: fetchers on connections of their own, applied to the logs of followers."""
