"""Segments: records, indexes, batch headers, search and recovery."""
