"""The follower side of replication: fetch states, sessions, truncation, and the fetcher; pure."""
