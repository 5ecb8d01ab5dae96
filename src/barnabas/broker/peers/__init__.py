"""Connections from this node to others: to the quorum's voters, to the active controller, to brokers."""
