"""Ids, the error table and effects: shared by all other packages."""
