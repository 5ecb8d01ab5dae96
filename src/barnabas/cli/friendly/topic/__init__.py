"""`barnabas topic`."""
