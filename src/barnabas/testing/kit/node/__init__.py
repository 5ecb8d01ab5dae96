"""One node of a cluster of the kit: its services, which can be held up or ended, and its life."""
