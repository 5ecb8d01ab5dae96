"""The test kit: simulation, checkers, planted bugs."""
