"""The simulated twins of clock, disk and network, and the world that runs them from a seed."""
