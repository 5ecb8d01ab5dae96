"""`barnabas storage`."""
