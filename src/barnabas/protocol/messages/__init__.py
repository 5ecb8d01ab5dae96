"""Requests and responses, one file an API; `barnabas.protocol.apis` finds them by key."""
