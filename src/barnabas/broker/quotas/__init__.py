"""Client quotas: which quota applies, the rate of a client, and its throttle time."""
