"""Subscriptions by name and by pattern, and the target assignment."""
