"""Torn files: damage, and what must remain after it."""
