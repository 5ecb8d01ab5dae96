"""Nodes of a simulated Raft quorum: their journal, their clients, and what must always hold."""
