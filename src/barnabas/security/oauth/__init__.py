"""OAuth 2 tokens: how they are read, whose signature they have, and what they claim (KIP-255, KIP-768)."""
