"""The doors to the world (clock, disk, network, chance), the reactor, and their simulated twins."""
