"""`barnabas configs`."""
