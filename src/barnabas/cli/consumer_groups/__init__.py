"""`barnabas consumer-groups`."""
