"""The consumer: subscription, membership in a group, fetching, committing."""
