"""Online conversion of groups between the protocols, and classic members of consumer groups (KIP-848)."""
