"""The replicas on this broker: the replica manager, produce, fetch, ISR changes, moves of replicas."""
