"""Producer state: sequences, open transactions, snapshots."""
