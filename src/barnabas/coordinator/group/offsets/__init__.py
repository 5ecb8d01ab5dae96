"""Committed offsets: commit, fetch, delete, expiration."""
