"""`barnabas dump-log`."""
