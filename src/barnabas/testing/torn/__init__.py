"""Torn files: damage, and what must be left after it."""
