"""`barnabas secure`."""
