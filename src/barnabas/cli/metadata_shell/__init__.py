"""`barnabas metadata-shell`: the metadata of a cluster as a file system."""
