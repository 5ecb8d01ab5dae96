"""Positions and committed offsets of a consumer."""
