"""Groups that change protocol while members run, and classic members of consumer groups (KIP-848)."""
