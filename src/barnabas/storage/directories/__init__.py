"""Log directories and their files: checkpoints, meta.properties, partition.metadata, clean shutdown."""
