"""Parts of `barnabas reassign-partitions`."""
