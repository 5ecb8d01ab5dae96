"""Client quotas: whose quota applies, how fast a client is, and for how long it is muted."""
