"""Membership in a group: the classic protocol and the consumer protocol (KIP-848)."""
