"""The configuration of a node: mode, roles, listeners, quorum, and the rules between its options."""
