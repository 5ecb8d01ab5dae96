"""Parts of `barnabas configs`."""
