"""Coordinators, members and producers in the simulated world."""
