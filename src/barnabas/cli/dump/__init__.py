"""What dump-log prints: a log's batches and records, indexes, snapshots, and what is wrong with them."""
