"""Consumer groups (KIP-848): heartbeats, epochs, reconciliation, and their records."""
