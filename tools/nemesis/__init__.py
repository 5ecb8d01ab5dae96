"""Process faults on real clusters, and histories of real clients: `make nemesis`."""
