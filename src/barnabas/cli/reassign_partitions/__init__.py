"""`barnabas reassign-partitions`."""
