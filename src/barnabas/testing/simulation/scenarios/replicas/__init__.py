"""Replicas of a few partitions over a network that loses and duplicates messages."""
