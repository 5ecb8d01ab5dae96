"""`barnabas aliases`."""
