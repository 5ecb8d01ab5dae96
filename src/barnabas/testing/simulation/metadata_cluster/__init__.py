"""A simulated cluster of whole nodes around one metadata quorum, and its invariants; not a scenario."""
