"""Scenarios of ZooKeeper mode, on a simulated ensemble."""
