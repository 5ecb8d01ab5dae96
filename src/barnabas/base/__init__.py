"""Ids, the error table and effects: words that every other room uses."""
