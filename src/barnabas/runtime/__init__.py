"""The interfaces to the operating system (clock, disk, network, random), the reactor, and their simulated
twins."""
