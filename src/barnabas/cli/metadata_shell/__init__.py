"""`barnabas metadata-shell`: the metadata of a cluster as a tree of folders and files."""
