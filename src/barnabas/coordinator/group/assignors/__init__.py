"""Server-side assignors (KIP-848): pure functions from members and subscriptions to a target assignment."""
