"""`barnabas metadata-quorum`."""
